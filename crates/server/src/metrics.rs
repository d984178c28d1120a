//! Metrics: one table of definitions, one reading of everything, one text.
//!
//! [`Scrape`] reads what is counted elsewhere; names and labels exist in here only.
//!
//! **Invariant:** every metric of the table is written, and no other (`docs/metrics.md` is made from the table, and a test
//! compares it with what a running server says).

mod definitions;
mod exposition;
#[cfg(test)]
mod markdown;
mod process;

use std::sync::Arc;

use prometheus_client::{encoding::text::encode, registry::Registry};
use riparian_broker::{
    Broker,
    telemetry::{CensusPage, ClientLogs, ShardReading},
};

use crate::{
    http::State,
    net::counters::{Closed, Refused},
};

use self::{exposition::Exposition, process::Process};

/// Everything as it is at one moment, or nearly so.
#[derive(Debug)]
pub(crate) struct Scrape {
    process: Option<Process>,
    start_seconds: f64,
    connections: Connections,
    broker: Option<BrokerReading>,
}

/// What is known of connections.
#[derive(Debug)]
struct Connections {
    open: u64,
    accepted: u64,
    refused: Vec<(&'static str, u64)>,
    closed: Vec<(&'static str, u64)>,
    requests_in_flight: u64,
    limit_hits: Vec<(&'static str, u64)>,
}

/// What the broker knows.
struct BrokerReading {
    broker: Arc<Broker>,
    shards: Vec<ShardReading>,
    groups: CensusPage,
    client_logs: ClientLogs,
}

impl std::fmt::Debug for BrokerReading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerReading").finish_non_exhaustive()
    }
}

impl Scrape {
    /// Reads everything; without a broker what there is without one.
    pub(crate) fn take(state: &State, broker: Option<&Arc<Broker>>) -> Self {
        let hub = &state.hub;
        let now = hub.clock.now();
        let counters = &hub.counters;
        Self {
            process: Process::read(),
            start_seconds: (now.wall.0 - i64::try_from(now.mono.0).unwrap_or(0)) as f64 / 1000.0,
            connections: Connections {
                open: hub.connection_count() as u64,
                accepted: counters.accepted.get(),
                refused: Refused::ALL.map(|reason| (reason.name(), counters.refused(reason))).to_vec(),
                closed: Closed::ALL.map(|reason| (reason.name(), counters.closed(reason))).to_vec(),
                requests_in_flight: counters.in_flight(),
                limit_hits: limit_hits(state, broker),
            },
            broker: broker.map(|broker| BrokerReading {
                shards: broker.shards(),
                groups: broker.census(now, state.groups_max),
                client_logs: broker.client_logs(),
                broker: Arc::clone(broker),
            }),
        }
    }
}

/// Each limit is enforced in one of four places.
fn limit_hits(state: &State, broker: Option<&Arc<Broker>>) -> Vec<(&'static str, u64)> {
    use riparian_broker::telemetry::{GroupLimit, Limit};

    let hits = |limit| {
        let in_broker = broker.map_or(0, |broker| broker.telemetry().limits().of(limit));
        in_broker + state.limits.of(limit) + state.hub.counters.limits.of(limit)
    };
    let groups = broker.map(|broker| broker.telemetry().groups());
    let of_groups = GroupLimit::ALL.map(|limit| (limit.name(), groups.map_or(0, |groups| groups.limit_hits(limit))));
    Limit::ALL.map(|limit| (limit.name(), hits(limit))).into_iter().chain(of_groups).collect()
}

/// The scrape in the OpenMetrics text format.
pub(crate) fn text(scrape: Scrape) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition(scrape)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string succeeds");
    text
}
