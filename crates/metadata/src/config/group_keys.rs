//! The keys of groups: all of Kafka 4.4's.

use super::{ConfigKey, Kind, Unit, key::same};

const NO_CONSUMER_GROUPS: &str = "groups of the consumer protocol (KIP-848) are not served yet";
const NO_SHARE_GROUPS: &str = "share groups are not served";
const INLINE: &str = "the assignor's size decides where it runs";

const fn group(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> ConfigKey {
    ConfigKey::group(name, kind, default, doc)
}

pub(super) static GROUP_KEYS: &[ConfigKey] = &[
    group(
        "consumer.assignment.interval.ms",
        Kind::int(0),
        "1000",
        "The least time between two assignments of a consumer group.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.consumer.assignment.interval.ms")])
    .no_effect(NO_CONSUMER_GROUPS),
    group(
        "consumer.assignor.offload.enable",
        Kind::Bool,
        "true",
        "Whether a consumer group's assignor runs beside the coordinator.",
    )
    .synonyms(&[same("group.consumer.assignor.offload.enable")])
    .internal()
    .no_effect(NO_CONSUMER_GROUPS),
    group(
        "consumer.heartbeat.interval.ms",
        Kind::int(1),
        "5000",
        "How often a member of a consumer group sends a heartbeat.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.consumer.heartbeat.interval.ms")])
    .no_effect(NO_CONSUMER_GROUPS),
    group(
        "consumer.session.timeout.ms",
        Kind::int(1),
        "45000",
        "How long a member of a consumer group may be silent before it is removed.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.consumer.session.timeout.ms")])
    .no_effect(NO_CONSUMER_GROUPS),
    group(
        "errors.deadletterqueue.copy.record.enable",
        Kind::Bool,
        "false",
        "Whether a share group copies a record that it could not process, or only says which it was.",
    )
    .no_effect(NO_SHARE_GROUPS),
    group(
        "errors.deadletterqueue.topic.name",
        Kind::String,
        "",
        "The topic for records that a share group could not process; empty for none.",
    )
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.assignment.interval.ms",
        Kind::int(0),
        "1000",
        "The least time between two assignments of a share group.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.share.assignment.interval.ms")])
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.assignor.offload.enable",
        Kind::Bool,
        "true",
        "Whether a share group's assignor runs beside the coordinator.",
    )
    .synonyms(&[same("group.share.assignor.offload.enable")])
    .internal()
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.auto.offset.reset",
        Kind::OffsetReset,
        "latest",
        "Where a share group begins in a partition that it has not read.",
    )
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.delivery.count.limit",
        Kind::int(2),
        "5",
        "How often a share group delivers a record before it gives up on it.",
    )
    .synonyms(&[same("group.share.delivery.count.limit")])
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.heartbeat.interval.ms",
        Kind::int(1),
        "5000",
        "How often a member of a share group sends a heartbeat.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.share.heartbeat.interval.ms")])
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.isolation.level",
        Kind::Enum(&["read_committed", "read_uncommitted"]),
        "read_uncommitted",
        "Whether a share group sees records of transactions that are open or aborted.",
    )
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.partition.max.record.locks",
        Kind::int(100),
        "2000",
        "How many records of a partition a share group may have handed out at a time.",
    )
    .synonyms(&[same("group.share.partition.max.record.locks")])
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.record.lock.duration.ms",
        Kind::int(1000),
        "30000",
        "How long a record is handed to one member of a share group.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.share.record.lock.duration.ms")])
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.renew.acknowledge.enable",
        Kind::Bool,
        "true",
        "Whether members of a share group may ask for more time for a record.",
    )
    .no_effect(NO_SHARE_GROUPS),
    group(
        "share.session.timeout.ms",
        Kind::int(1),
        "45000",
        "How long a member of a share group may be silent before it is removed.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.share.session.timeout.ms")])
    .no_effect(NO_SHARE_GROUPS),
    group(
        "streams.acceptable.recovery.lag",
        Kind::long(0),
        "10000",
        "A copy of a task's state that lacks at most this many records counts as caught up.",
    )
    .synonyms(&[same("group.streams.acceptable.recovery.lag")])
    .internal(),
    group(
        "streams.assignment.interval.ms",
        Kind::int(0),
        "1000",
        "The least time between two assignments of a streams group; changes in between are gathered.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.streams.assignment.interval.ms")]),
    group(
        "streams.assignor.name",
        Kind::String,
        "",
        "The assignor of the group, one of the broker's `group.streams.assignors`; unset: the first of them.",
    )
    .null_default()
    .synonyms(&[same("group.streams.assignors")]),
    group(
        "streams.assignor.offload.enable",
        Kind::Bool,
        "true",
        "Whether a streams group's assignor runs beside the coordinator.",
    )
    .synonyms(&[same("group.streams.assignor.offload.enable")])
    .internal()
    .no_effect(INLINE),
    group(
        "streams.heartbeat.interval.ms",
        Kind::int(1),
        "5000",
        "How often a member of a streams group sends a heartbeat. While it is set nowhere, `riparian.fast.rebalance` decides.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.streams.heartbeat.interval.ms")]),
    group(
        "streams.initial.rebalance.delay.ms",
        Kind::int(0),
        "3000",
        "How long a new streams group waits for more members before its first assignment.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.streams.initial.rebalance.delay.ms")]),
    group(
        "streams.num.standby.replicas",
        Kind::int(0),
        "0",
        "How many copies of each task's state are kept besides the active one.",
    )
    .synonyms(&[same("group.streams.num.standby.replicas")]),
    group(
        "streams.num.warmup.replicas",
        Kind::int(0),
        "2",
        "How many tasks may build up their state elsewhere at a time before they move there.",
    )
    .synonyms(&[same("group.streams.num.warmup.replicas")])
    .internal(),
    group(
        "streams.rack.aware.assignment.tags",
        Kind::List,
        "",
        "Client tags (such as a zone) over which the copies of a task's state are spread.",
    )
    .low()
    .synonyms(&[same("group.streams.rack.aware.assignment.tags")]),
    group(
        "streams.session.timeout.ms",
        Kind::int(1),
        "45000",
        "How long a member of a streams group may be silent before it is removed and its tasks go to others.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.streams.session.timeout.ms")]),
    group(
        "streams.task.offset.interval.ms",
        Kind::int(1),
        "60000",
        "How often a member reports how far the state of its tasks is.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("group.streams.task.offset.interval.ms")])
    .internal(),
];
