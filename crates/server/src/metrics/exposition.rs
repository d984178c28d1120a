//! From a reading to the samples of every metric.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};
use riparian_broker::telemetry::{
    ClassicGroupState, ClientLogs, Gone, GroupKindReading, GroupReading, GroupState, LogCounters, LogKind,
    ShardReading, ShardState, StreamsReading, TaskCounts,
};
use riparian_protocol::ErrorCode;
use riparian_types::telemetry::{Counter, Histogram, HistogramReading};

use super::{
    BrokerReading, Scrape,
    definitions::{self as define, Definition, Kind},
};

/// Writes a scrape.
#[derive(Debug)]
pub(super) struct Exposition(pub(super) Scrape);

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer { encoder };
        let scrape = &self.0;
        writer.server(scrape)?;
        writer.connections(scrape)?;
        if let Some(reading) = &scrape.broker {
            writer.requests(reading)?;
            writer.groups(reading)?;
            writer.shards(reading)?;
            writer.logs(reading)?;
        }
        Ok(())
    }
}

struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

/// One metric, while its samples are written.
struct Family<'a> {
    encoder: MetricEncoder<'a>,
    definition: &'static Definition,
}

impl Family<'_> {
    /// Writes what `write` writes with the values of the labels, in the order of the definition.
    fn labelled(&mut self, labels: &[&str], write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result) -> fmt::Result {
        let names = self.definition.labels;
        assert_eq!(names.len(), labels.len(), "labels of {}", self.definition.name);
        let pairs: Vec<(&str, &str)> = names.iter().copied().zip(labels.iter().copied()).collect();
        let pairs = pairs.as_slice();
        if pairs.is_empty() {
            return write(self.encoder.encode_family(&NO_LABELS)?);
        }
        write(self.encoder.encode_family(&pairs)?)
    }

    fn whole(&mut self, labels: &[&str], value: u64) -> fmt::Result {
        let kind = self.definition.kind;
        self.labelled(labels, |mut sample| match kind {
            Kind::Counter => sample.encode_counter::<NoLabelSet, u64, f64>(&value, None),
            Kind::Gauge => sample.encode_gauge(&value),
            Kind::Histogram | Kind::Info => Err(fmt::Error),
        })
    }

    fn fraction(&mut self, labels: &[&str], value: f64) -> fmt::Result {
        let kind = self.definition.kind;
        self.labelled(labels, |mut sample| match kind {
            Kind::Counter => sample.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            Kind::Gauge => sample.encode_gauge(&value),
            Kind::Histogram | Kind::Info => Err(fmt::Error),
        })
    }

    /// A number that may be below zero, as offsets and epochs may.
    fn signed(&mut self, labels: &[&str], value: i64) -> fmt::Result {
        self.labelled(labels, |mut sample| sample.encode_gauge(&value))
    }

    fn histogram(&mut self, labels: &[&str], reading: &HistogramReading) -> fmt::Result {
        let bounds = Histogram::BOUNDS_MICROS.iter().map(|&micros| seconds(micros)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(reading.buckets).collect();
        self.labelled(labels, |mut sample| {
            sample.encode_histogram::<NoLabelSet>(seconds(reading.micros), reading.count(), &buckets, None)
        })
    }
}

/// Types of groups, as they are listed.
const STREAMS: &str = "streams";
const CLASSIC: &str = "classic";

fn type_of(group: &GroupReading) -> &'static str {
    match group.kind {
        GroupKindReading::Streams(_) => STREAMS,
        GroupKindReading::Classic { .. } => CLASSIC,
    }
}

fn by_role(tasks: TaskCounts) -> [(&'static str, u64); 3] {
    [("active", tasks.active), ("standby", tasks.standby), ("warmup", tasks.warmup)]
}

const NO_LABELS: [(&str, &str); 0] = [];

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl Writer<'_> {
    fn family(
        &mut self,
        definition: &'static Definition,
        samples: impl FnOnce(&mut Family<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let kind = match definition.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        };
        let unit = definition.unit.as_ref();
        let encoder = self.encoder.encode_descriptor(definition.name, definition.help, unit, kind)?;
        samples(&mut Family { encoder, definition })
    }

    fn one(&mut self, definition: &'static Definition, value: u64) -> fmt::Result {
        self.family(definition, |family| family.whole(&[], value))
    }

    fn server(&mut self, scrape: &Scrape) -> fmt::Result {
        self.family(&define::BUILD, |family| family.encoder.encode_info(&[("version", env!("CARGO_PKG_VERSION"))]))?;
        self.family(&define::START_TIME, |family| family.fraction(&[], scrape.start_seconds))?;
        let process = scrape.process.as_ref();
        self.family(&define::CPU, |family| {
            process.map_or(Ok(()), |process| family.fraction(&[], process.cpu_seconds))
        })?;
        let gauges = [
            (&define::RESIDENT, process.map(|process| process.resident_bytes)),
            (&define::THREADS, process.map(|process| process.threads)),
            (&define::DESCRIPTORS, process.map(|process| process.open_descriptors)),
            (&define::DESCRIPTORS_MAX, process.and_then(|process| process.descriptors_max)),
        ];
        for (definition, value) in gauges {
            self.family(definition, |family| value.map_or(Ok(()), |value| family.whole(&[], value)))?;
        }
        Ok(())
    }

    fn connections(&mut self, scrape: &Scrape) -> fmt::Result {
        let connections = &scrape.connections;
        self.one(&define::CONNECTIONS, connections.open)?;
        self.one(&define::ACCEPTED, connections.accepted)?;
        self.one(&define::IN_FLIGHT, connections.requests_in_flight)?;
        for (definition, counts) in [
            (&define::REFUSED, &connections.refused),
            (&define::CLOSED, &connections.closed),
            (&define::LIMIT_HITS, &connections.limit_hits),
        ] {
            self.family(definition, |family| {
                counts.iter().try_for_each(|(label, count)| family.whole(&[label], *count))
            })?;
        }
        Ok(())
    }

    fn requests(&mut self, reading: &BrokerReading) -> fmt::Result {
        let apis = reading.broker.telemetry().apis();
        self.family(&define::REQUESTS, |family| {
            for api in apis {
                for error in ErrorCode::all() {
                    let count = api.answered_with(error);
                    // Of successes also that there were none.
                    if count > 0 || error == ErrorCode::None {
                        family.whole(&[api.key().name(), error.name()], count)?;
                    }
                }
            }
            Ok(())
        })?;
        self.family(&define::LATENCY, |family| {
            let readings = apis.iter().map(|api| (api, api.latency().read()));
            let mut used = readings.filter(|(_, reading)| reading.count() > 0);
            used.try_for_each(|(api, reading)| family.histogram(&[api.key().name()], &reading))
        })?;
        self.family(&define::REQUEST_BYTES, |family| {
            apis.iter().try_for_each(|api| family.whole(&[api.key().name()], api.request_bytes().get()))
        })?;
        self.family(&define::RESPONSE_BYTES, |family| {
            apis.iter().try_for_each(|api| family.whole(&[api.key().name()], api.response_bytes().get()))
        })
    }

    fn groups(&mut self, reading: &BrokerReading) -> fmt::Result {
        let totals = &reading.groups.totals;
        self.family(&define::GROUPS, |family| {
            for (state, count) in GroupState::ALL.iter().zip(totals.streams) {
                family.whole(&[STREAMS, state.name()], count)?;
            }
            for (state, count) in ClassicGroupState::ALL.iter().zip(totals.classic) {
                family.whole(&[CLASSIC, state.name()], count)?;
            }
            // Of what can't be loaded nobody knows the type; lists call it a streams group.
            family.whole(&[STREAMS, "Dead"], totals.damaged)
        })?;
        self.family(&define::GROUP_MEMBERS_ALL, |family| {
            family.whole(&[STREAMS], totals.streams_members)?;
            family.whole(&[CLASSIC], totals.classic_members)
        })?;
        self.family(&define::GROUP_TASKS_ALL, |family| {
            by_role(totals.tasks).iter().try_for_each(|(role, count)| family.whole(&[role], *count))
        })?;
        self.one(&define::GROUPS_LEFT_OUT, totals.count() - totals.damaged - reading.groups.groups.len() as u64)?;
        let counted = reading.broker.telemetry().groups();
        self.family(&define::REBALANCES_ALL, |family| {
            family.whole(&[STREAMS], counted.streams_rebalances().get())?;
            family.whole(&[CLASSIC], counted.classic_rebalances().get())
        })?;
        self.family(&define::MEMBERS_GONE, |family| {
            for why in Gone::ALL {
                family.whole(&[STREAMS, why.name()], counted.gone_from_streams(why).get())?;
                if why != Gone::Restarted {
                    family.whole(&[CLASSIC, why.name()], counted.gone_from_classic(why).get())?;
                }
            }
            Ok(())
        })?;
        self.family(&define::ASSIGNMENT_TIME, |family| family.histogram(&[], &counted.assignments().read()))?;
        self.one(&define::ASSIGNMENT_FAILURES, counted.assignment_failures().get())?;
        self.each_group(&reading.groups.groups)
    }

    /// One metric after the other, each for all groups.
    fn each_group(&mut self, groups: &[GroupReading]) -> fmt::Result {
        let streams = || {
            groups.iter().filter_map(|group| match &group.kind {
                GroupKindReading::Streams(streams) => Some((&*group.group_id, streams)),
                GroupKindReading::Classic { .. } => None,
            })
        };
        self.family(&define::GROUP_STATE, |family| {
            groups.iter().try_for_each(|group| match &group.kind {
                GroupKindReading::Streams(streams) => {
                    family.whole(&[&group.group_id, STREAMS, streams.state.name()], 1)
                }
                GroupKindReading::Classic { state, .. } => family.whole(&[&group.group_id, CLASSIC, state.name()], 1),
            })
        })?;
        self.family(&define::GROUP_STATE_TIME, |family| {
            for (id, group) in streams() {
                for (state, ms) in GroupState::ALL.iter().zip(group.ms_in_state).filter(|(_, ms)| *ms > 0) {
                    family.fraction(&[id, state.name()], ms as f64 / 1000.0)?;
                }
            }
            Ok(())
        })?;
        self.family(&define::GROUP_EPOCH, |family| {
            streams().try_for_each(|(id, group)| family.signed(&[id], group.epoch.0.into()))
        })?;
        self.family(&define::GROUP_ASSIGNMENT_EPOCH, |family| {
            streams().try_for_each(|(id, group)| family.signed(&[id], group.assignment_epoch.0.into()))
        })?;
        self.family(&define::GROUP_GENERATION, |family| {
            groups.iter().try_for_each(|group| match &group.kind {
                GroupKindReading::Streams(_) => Ok(()),
                GroupKindReading::Classic { generation, .. } => family.signed(&[&group.group_id], generation.0.into()),
            })
        })?;
        self.family(&define::GROUP_MEMBERS, |family| {
            groups.iter().try_for_each(|group| family.whole(&[&group.group_id, type_of(group)], group.members))
        })?;
        self.family(&define::GROUP_TASKS, |family| {
            for (id, group) in streams() {
                for (role, count) in by_role(group.tasks) {
                    family.whole(&[id, role], count)?;
                }
            }
            Ok(())
        })?;
        self.family(&define::GROUP_REBALANCES, |family| {
            groups.iter().try_for_each(|group| {
                let (GroupKindReading::Streams(StreamsReading { rebalances, .. })
                | GroupKindReading::Classic { rebalances, .. }) = &group.kind;
                family.whole(&[&group.group_id, type_of(group)], *rebalances)
            })
        })
    }

    fn shards(&mut self, reading: &BrokerReading) -> fmt::Result {
        let shards = &reading.shards;
        self.family(&define::SHARDS, |family| {
            for kind in [LogKind::Metadata, LogKind::Groups] {
                // One that was busy just now serves somebody else.
                for (name, states) in [
                    ("serving", [ShardState::Serving, ShardState::Busy].as_slice()),
                    ("unloaded", &[ShardState::Unloaded]),
                    ("damaged", &[ShardState::Damaged]),
                ] {
                    let counted = shards.iter().filter(|shard| shard.kind == kind && states.contains(&shard.state));
                    family.whole(&[kind.name(), name], counted.count() as u64)?;
                }
            }
            Ok(())
        })?;
        self.one(&define::SHARDS_UNLOADED, reading.broker.telemetry().shards_unloaded().get())?;
        for (definition, value) in [
            (&define::SHARD_LOG_START, (|shard| shard.start_offset.0) as fn(&ShardReading) -> i64),
            (&define::SHARD_LOG_END, |shard| shard.end_offset.0),
            (&define::SHARD_LOG_DURABLE, |shard| shard.durable_end.0),
            (&define::SHARD_LOG_BYTES, |shard| i64::try_from(shard.bytes).unwrap_or(i64::MAX)),
        ] {
            self.family(definition, |family| {
                shards
                    .iter()
                    .try_for_each(|shard| family.signed(&[shard.kind.name(), &shard.number.to_string()], value(shard)))
            })?;
        }
        Ok(())
    }

    fn logs(&mut self, reading: &BrokerReading) -> fmt::Result {
        let logs = || LogKind::ALL.iter().map(|kind| (kind.name(), reading.broker.telemetry().logs(*kind)));
        for (definition, value) in [
            (&define::LOG_APPENDS, (|log| &log.appends) as fn(&LogCounters) -> &Counter),
            (&define::LOG_RECORDS, |log| &log.records),
            (&define::LOG_BYTES, |log| &log.bytes),
            (&define::SYNC_FAILURES, |log| &log.sync_failures),
        ] {
            self.family(definition, |family| {
                logs().try_for_each(|(kind, log)| family.whole(&[kind], value(log).get()))
            })?;
        }
        self.family(&define::SYNC_TIME, |family| {
            logs().try_for_each(|(kind, log)| family.histogram(&[kind], &log.syncs.read()))
        })?;
        let ClientLogs { partitions, offline, bytes } = reading.client_logs;
        self.one(&define::PARTITIONS, partitions)?;
        self.one(&define::PARTITIONS_OFFLINE, offline)?;
        self.one(&define::PARTITIONS_BYTES, bytes)
    }
}
