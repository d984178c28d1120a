//! How often members of streams groups are asked to report.
//!
//! A member learns of a new assignment from the answer to its next heartbeat, so the interval is what a rebalance waits
//! for. Kafka keeps it fixed at five seconds; here it is as short as a budget of heartbeats for the whole server allows,
//! and shorter still while a group is on its way.

use crate::config::{GroupConfig, Settings};

/// The shortest interval of a group in which tasks move.
const MOVING_MS: i64 = 100;
/// The shortest interval of a group that is at rest.
const STABLE_MS: i64 = 500;

/// How long after the end of a delay members report: by then the target is there.
const WAKE_MS: i64 = 20;

/// What a group's members wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As configured. A client that is told of a missing source topic gives up after two intervals, so that the interval
    /// must not shrink for it; and what is wrong until somebody does something, clients log at each heartbeat.
    Patient,
    /// A delay that ends in so many milliseconds. Clients log at each heartbeat that they wait.
    Waiting(i64),
    /// Nothing at present.
    Stable,
    /// Tasks, or topics that are being created.
    Moving,
}

/// The interval to tell a member, in milliseconds; never above the configured one, which is all there is where fast
/// rebalances are off or the group has an interval of its own.
pub(crate) fn heartbeat_interval_ms(config: &GroupConfig, settings: &Settings<'_>, pace: Pace) -> i32 {
    let configured = settings.heartbeat_interval_ms();
    let shortest = match pace {
        _ if !config.fast_rebalance || settings.sets_heartbeat_interval() => return configured,
        Pace::Patient => return configured,
        Pace::Stable => STABLE_MS,
        Pace::Moving => MOVING_MS,
        Pace::Waiting(ms) => ms.saturating_add(WAKE_MS).max(MOVING_MS),
    };
    let budget = i64::from(config.heartbeats_per_second.max(1));
    let affordable = i64::from(config.limits.streams_members.get()) * 1000 / budget;
    configured.min(i32::try_from(affordable.max(shortest)).unwrap_or(i32::MAX))
}
