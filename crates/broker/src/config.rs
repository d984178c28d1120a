//! What the broker is told once, when it starts.

use std::sync::Arc;

use riparian_group::{
    config::GroupConfig,
    limits::{Count, GroupLimits},
    telemetry::GroupTelemetry,
};
use riparian_metadata::config;
use riparian_types::{HashSeed, NodeId};

/// Settings that are fixed while the server runs.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// The server's properties.
    pub properties: Arc<config::BrokerConfig>,
    /// How clients reach this server, per listener; the first is used for listeners that are not named.
    pub advertised: Vec<AdvertisedListener>,
    /// What hashes of names that clients choose depend on: random where strangers may connect.
    pub hash_seed: HashSeed,
}

/// One entry of `advertised.listeners`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedListener {
    /// The listener's name.
    pub listener: String,
    /// The host that clients connect to.
    pub host: String,
    /// The port that clients connect to.
    pub port: u16,
}

/// The properties that requests ask for, read once: finding one by its name is for the start of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestConfig {
    /// Whether `group.coordinator.rebalance.protocols` lets streams groups be served.
    pub(crate) serves_streams_groups: bool,
    /// `auto.create.topics.enable`.
    pub(crate) auto_create_topics: bool,
    /// `fetch.max.bytes`.
    pub(crate) fetch_bytes_max: i32,
    /// `offset.metadata.max.bytes`, in UTF-16 units.
    pub(crate) offset_metadata_units_max: i64,
}

impl RequestConfig {
    pub(crate) fn new(properties: &config::BrokerConfig) -> Self {
        let protocols = properties.list("group.coordinator.rebalance.protocols");
        Self {
            serves_streams_groups: protocols.iter().any(|protocol| protocol == "streams"),
            auto_create_topics: properties.bool("auto.create.topics.enable"),
            fetch_bytes_max: properties.int("fetch.max.bytes"),
            offset_metadata_units_max: properties.long("offset.metadata.max.bytes"),
        }
    }
}

impl BrokerConfig {
    pub(crate) fn node_id(&self) -> NodeId {
        NodeId(self.properties.node_id())
    }

    /// The properties that the group machines want.
    pub(crate) fn group(&self, telemetry: GroupTelemetry) -> GroupConfig {
        let properties = &self.properties;
        GroupConfig {
            hash_seed: self.hash_seed,
            session_timeout_ms: properties.int("group.streams.session.timeout.ms"),
            session_timeout_min_ms: properties.int("group.streams.min.session.timeout.ms"),
            session_timeout_max_ms: properties.int("group.streams.max.session.timeout.ms"),
            heartbeat_interval_ms: properties.int("group.streams.heartbeat.interval.ms"),
            heartbeat_interval_min_ms: properties.int("group.streams.min.heartbeat.interval.ms"),
            heartbeat_interval_max_ms: properties.int("group.streams.max.heartbeat.interval.ms"),
            num_standby_replicas: properties.int("group.streams.num.standby.replicas"),
            num_standby_replicas_max: properties.int("group.streams.max.standby.replicas"),
            initial_rebalance_delay_ms: properties.int("group.streams.initial.rebalance.delay.ms"),
            assignment_interval_ms: properties.int("group.streams.assignment.interval.ms"),
            assignment_interval_min_ms: properties.int("group.streams.min.assignment.interval.ms"),
            assignment_interval_max_ms: properties.int("group.streams.max.assignment.interval.ms"),
            task_offset_interval_ms: properties.int("group.streams.task.offset.interval.ms"),
            task_offset_interval_min_ms: properties.int("group.streams.min.task.offset.interval.ms"),
            num_warmup_replicas: properties.int("group.streams.num.warmup.replicas"),
            num_warmup_replicas_max: properties.int("group.streams.max.warmup.replicas"),
            acceptable_recovery_lag: properties.long("group.streams.acceptable.recovery.lag"),
            rack_aware_assignment_tags: properties.list("group.streams.rack.aware.assignment.tags"),
            assignors: properties.list("group.streams.assignors"),
            members_max: properties.int("group.streams.max.size"),
            classic_initial_rebalance_delay_ms: properties.int("group.initial.rebalance.delay.ms"),
            classic_session_timeout_min_ms: properties.int("group.min.session.timeout.ms"),
            classic_session_timeout_max_ms: properties.int("group.max.session.timeout.ms"),
            classic_members_max: properties.int("group.max.size"),
            offsets_retention_ms: properties.long("offsets.retention.minutes").saturating_mul(60_000),
            offsets_retention_check_interval_ms: properties.long("offsets.retention.check.interval.ms"),
            fast_rebalance: properties.bool("riparian.fast.rebalance"),
            heartbeats_per_second: properties.int("riparian.fast.rebalance.heartbeats.per.second"),
            fence_restarted_processes: properties.bool("riparian.fence.restarted.processes"),
            replace_topology: properties.bool("riparian.topology.replace"),
            changelogs: riparian_group::config::Changelogs::default(),
            hand_out_warmups: properties.bool("riparian.warmups"),
            ask_descriptions: properties.bool("riparian.topology.description"),
            resolve_patterns: properties.bool("riparian.topology.patterns"),
            limits: GroupLimits {
                groups_max: properties.int("riparian.groups.max").unsigned_abs(),
                members_max: properties.int("riparian.members.max").unsigned_abs(),
                member_bytes_max: usize::try_from(properties.int("riparian.member.bytes.max")).unwrap_or(0),
                patterns_max: properties.int("riparian.patterns.max").unsigned_abs(),
                pattern_bytes_max: usize::try_from(properties.int("riparian.pattern.bytes.max")).unwrap_or(0),
                pattern_matches_max: properties.int("riparian.pattern.matches.max").unsigned_abs(),
                description_bytes_max: usize::try_from(properties.int("riparian.topology.description.bytes.max"))
                    .unwrap_or(0),
                all_descriptions_bytes_max: properties.int("riparian.topology.descriptions.bytes.max").unsigned_abs(),
                groups: Count::default(),
                streams_members: Count::default(),
                classic_members: Count::default(),
                patterns: Count::default(),
                pattern_matches: Count::default(),
                description_bytes: Count::default(),
            },
            telemetry,
        }
    }
}
