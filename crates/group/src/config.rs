//! Settings of the machine: the server's, and each group's own.

use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use riparian_assignor::WarmupConfig;
use riparian_types::{HashSeed, Offset, TopicName};

use crate::{limits::GroupLimits, record::AssignmentConfigs, telemetry::GroupTelemetry};

/// What whoever keeps the topics knows of their logs: of each partition of a topic where its log begins and where it ends;
/// `None` if there is no such topic. It is asked while something is decided, so it must answer at once.
pub type LogEnds = dyn Fn(&TopicName) -> Option<Vec<(Offset, Offset)>> + Send + Sync;

/// Where the machine learns how much state tasks have; by default nowhere.
#[derive(Clone, Default)]
pub struct Changelogs(Option<Arc<LogEnds>>);

impl Changelogs {
    /// Asks this.
    pub fn new(ends: Arc<LogEnds>) -> Self {
        Self(Some(ends))
    }

    pub(crate) fn ends(&self, topic: &TopicName) -> Option<Vec<(Offset, Offset)>> {
        self.0.as_ref().and_then(|ends| ends(topic))
    }

    pub(crate) const fn is_known(&self) -> bool {
        self.0.is_some()
    }
}

impl core::fmt::Debug for Changelogs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Changelogs").field("is_known", &self.is_known()).finish()
    }
}

/// The server's settings (`group.streams.*`, `group.*` of classic groups, `offsets.*`), fixed while it runs. Times in
/// milliseconds.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// What hashes of names that clients choose depend on. Nothing that is decided depends on it.
    pub hash_seed: HashSeed,
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
    /// `group.initial.rebalance.delay.ms`.
    pub classic_initial_rebalance_delay_ms: i32,
    /// `group.min.session.timeout.ms`.
    pub classic_session_timeout_min_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub classic_session_timeout_max_ms: i32,
    /// `group.max.size`.
    pub classic_members_max: i32,
    /// `offsets.retention.minutes`, here in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: i64,
    /// `riparian.fast.rebalance`: a target is computed when its reason arises, and members are told how soon to report.
    pub fast_rebalance: bool,
    /// `riparian.fast.rebalance.heartbeats.per.second`: what all members of the server together may send.
    pub heartbeats_per_second: i32,
    /// `riparian.fence.restarted.processes`: a process that is back need not wait for the sessions of its old members.
    pub fence_restarted_processes: bool,
    /// `riparian.topology.replace`: a group without live members takes the topology of the member that starts it next.
    pub replace_topology: bool,
    /// `riparian.topology.patterns`: source topics may be given by patterns.
    pub resolve_patterns: bool,
    /// How large the state of tasks is.
    pub changelogs: Changelogs,
    /// `riparian.warmups`: tasks whose state is elsewhere warm up before they move.
    pub hand_out_warmups: bool,
    /// `riparian.topology.description`: members are asked to describe their topologies.
    pub ask_descriptions: bool,
    /// What all machines that share these settings may hold together.
    pub limits: GroupLimits,
    /// What is counted of the groups of all machines that share these settings.
    pub telemetry: GroupTelemetry,
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

/// What counts for one group at this moment: its own settings clamped to the server's bounds, else the server's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    server: &'a GroupConfig,
    group: Option<&'a GroupOverrides>,
}

impl<'a> Settings<'a> {
    pub(crate) const fn new(server: &'a GroupConfig, group: Option<&'a GroupOverrides>) -> Self {
        Self { server, group }
    }

    pub(crate) fn session_timeout_ms(&self) -> i32 {
        let (min, max) = (self.server.session_timeout_min_ms, self.server.session_timeout_max_ms);
        self.number(|group| group.session_timeout_ms, self.server.session_timeout_ms, min, max)
    }

    pub(crate) fn heartbeat_interval_ms(&self) -> i32 {
        let (min, max) = (self.server.heartbeat_interval_min_ms, self.server.heartbeat_interval_max_ms);
        self.number(|group| group.heartbeat_interval_ms, self.server.heartbeat_interval_ms, min, max)
    }

    /// Whether the group itself says how often its members report.
    pub(crate) fn sets_heartbeat_interval(&self) -> bool {
        self.group.is_some_and(|group| group.heartbeat_interval_ms.is_some())
    }

    pub(crate) fn num_standby_replicas(&self) -> i32 {
        let max = self.server.num_standby_replicas_max;
        self.number(|group| group.num_standby_replicas, self.server.num_standby_replicas, 0, max)
    }

    pub(crate) fn initial_rebalance_delay_ms(&self) -> i32 {
        self.number(|group| group.initial_rebalance_delay_ms, self.server.initial_rebalance_delay_ms, 0, i32::MAX)
    }

    pub(crate) fn assignment_interval_ms(&self) -> i32 {
        let (min, max) = (self.server.assignment_interval_min_ms, self.server.assignment_interval_max_ms);
        self.number(|group| group.assignment_interval_ms, self.server.assignment_interval_ms, min, max)
    }

    pub(crate) fn task_offset_interval_ms(&self) -> i32 {
        let min = self.server.task_offset_interval_min_ms;
        self.number(|group| group.task_offset_interval_ms, self.server.task_offset_interval_ms, min, i32::MAX)
    }

    /// How many tasks may warm up at a time, and when they are warm.
    pub(crate) fn warmups(&self) -> WarmupConfig {
        let max = self.server.num_warmup_replicas_max;
        let count = self.number(|group| group.num_warmup_replicas, self.server.num_warmup_replicas, 0, max);
        let count = if self.server.hand_out_warmups { count } else { 0 };
        WarmupConfig {
            num_warmup_replicas: u32::try_from(count).unwrap_or(0),
            acceptable_recovery_lag: self.acceptable_recovery_lag(),
        }
    }

    pub(crate) fn acceptable_recovery_lag(&self) -> i64 {
        let lag = self.group.and_then(|group| group.acceptable_recovery_lag);
        lag.unwrap_or(self.server.acceptable_recovery_lag).max(0)
    }

    pub(crate) fn rack_aware_assignment_tags(&self) -> &'a [String] {
        let tags = self.group.and_then(|group| group.rack_aware_assignment_tags.as_ref());
        tags.unwrap_or(&self.server.rack_aware_assignment_tags)
    }

    /// The assignor to use; a name that is not registered any more falls back to the server's first.
    pub(crate) fn assignor_name(&self) -> &'a str {
        let own = self.group.and_then(|group| group.assignor_name.as_ref());
        let registered = own.filter(|name| self.server.assignors.contains(name));
        registered.or_else(|| self.server.assignors.first()).map_or("sticky", String::as_str)
    }

    /// The settings that a target assignment depends on, as they are stored with the group: sorted by key.
    pub(crate) fn assignment_configs(&self) -> AssignmentConfigs {
        let standbys = (NUM_STANDBY_REPLICAS.into(), self.num_standby_replicas().to_string());
        let tags = self.rack_aware_assignment_tags();
        let tags = (!tags.is_empty()).then(|| (RACK_AWARE_ASSIGNMENT_TAGS.into(), tags.join(",")));
        core::iter::once(standbys).chain(tags).collect()
    }

    /// The server's own value counts as it is: its bounds are for groups.
    fn number(&self, own: impl Fn(&GroupOverrides) -> Option<i32>, server: i32, min: i32, max: i32) -> i32 {
        // Not `clamp`, which panics when an operator has set the bounds the wrong way round.
        self.group.and_then(own).map_or(server, |value| value.min(max).max(min))
    }
}

/// Key of the stored number of standby replicas.
pub(crate) const NUM_STANDBY_REPLICAS: &str = "num.standby.replicas";
/// Key of the stored tags.
pub(crate) const RACK_AWARE_ASSIGNMENT_TAGS: &str = "rack.aware.assignment.tags";
