//! Settings of the machine: the server's, and each group's own.

use alloc::{string::String, vec::Vec};

/// The server's settings (`group.streams.*`, `offsets.*`), fixed while it runs. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.streams.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `group.streams.min.session.timeout.ms`.
    pub session_timeout_min_ms: i32,
    /// `group.streams.max.session.timeout.ms`.
    pub session_timeout_max_ms: i32,
    /// `group.streams.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `group.streams.min.heartbeat.interval.ms`.
    pub heartbeat_interval_min_ms: i32,
    /// `group.streams.max.heartbeat.interval.ms`.
    pub heartbeat_interval_max_ms: i32,
    /// `group.streams.num.standby.replicas`.
    pub num_standby_replicas: i32,
    /// `group.streams.max.standby.replicas`.
    pub num_standby_replicas_max: i32,
    /// `group.streams.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.streams.assignment.interval.ms`.
    pub assignment_interval_ms: i32,
    /// `group.streams.min.assignment.interval.ms`.
    pub assignment_interval_min_ms: i32,
    /// `group.streams.max.assignment.interval.ms`.
    pub assignment_interval_max_ms: i32,
    /// `group.streams.task.offset.interval.ms`.
    pub task_offset_interval_ms: i32,
    /// `group.streams.min.task.offset.interval.ms`.
    pub task_offset_interval_min_ms: i32,
    /// `group.streams.num.warmup.replicas`.
    pub num_warmup_replicas: i32,
    /// `group.streams.max.warmup.replicas`.
    pub num_warmup_replicas_max: i32,
    /// `group.streams.acceptable.recovery.lag`, in records.
    pub acceptable_recovery_lag: i64,
    /// `group.streams.rack.aware.assignment.tags`.
    pub rack_aware_assignment_tags: Vec<String>,
    /// `group.streams.assignors`: names, the first is the default.
    pub assignors: Vec<String>,
    /// `group.streams.max.size`.
    pub members_max: i32,
    /// `offsets.retention.minutes`, here in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: i64,
}

/// A group's own settings (`streams.*` on a config resource of type group); `None`: as the server's.
///
/// The values were checked when they were set; they are clamped to the server's bounds when they are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOverrides {
    /// `streams.session.timeout.ms`.
    pub session_timeout_ms: Option<i32>,
    /// `streams.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: Option<i32>,
    /// `streams.num.standby.replicas`.
    pub num_standby_replicas: Option<i32>,
    /// `streams.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: Option<i32>,
    /// `streams.assignment.interval.ms`.
    pub assignment_interval_ms: Option<i32>,
    /// `streams.task.offset.interval.ms`.
    pub task_offset_interval_ms: Option<i32>,
    /// `streams.num.warmup.replicas`.
    pub num_warmup_replicas: Option<i32>,
    /// `streams.acceptable.recovery.lag`.
    pub acceptable_recovery_lag: Option<i64>,
    /// `streams.assignor.name`.
    pub assignor_name: Option<String>,
    /// `streams.rack.aware.assignment.tags`.
    pub rack_aware_assignment_tags: Option<Vec<String>>,
}
