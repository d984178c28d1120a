//! The keys of topics: all of Kafka 4.4's.

use alloc::string::{String, ToString};

use super::{
    ConfigError, ConfigKey, ConfigMap, ConfigValue, Kind, Synonym, Unit,
    key::{Scope, same},
};

const NO_COMPACTION: &str = "logs are not compacted yet";
const NO_RECOMPRESSION: &str = "batches are stored as the producer compressed them";
const NO_TIERS: &str = "there is no remote storage";
const ONE_REPLICA: &str = "every partition has exactly one replica";
const SYNCED: &str = "by default every acknowledged batch is already synced, see riparian.flush";
const NO_SHARE_GROUPS: &str = "share groups are not served";

pub(super) const AT_ONCE: &str = "the files of a dropped segment are deleted at once";
pub(super) const INDEXES: &str = "indexes grow as they are written";
pub(super) const JITTER: &str = "segments are closed by their age alone";

pub(super) const COMPRESSION_TYPES: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
pub(super) const CLEANUP_POLICIES: &[&str] = &["compact", "delete"];
pub(super) const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];
/// The largest array that Java allocates.
pub(super) const JAVA_ARRAY_MAX: i32 = i32::MAX - 8;

const fn topic(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> ConfigKey {
    ConfigKey::topic(name, kind, default, doc)
}

pub(super) static TOPIC_KEYS: &[ConfigKey] = &[
    topic(
        "cleanup.policy",
        Kind::ListOf(CLEANUP_POLICIES),
        "delete",
        "What becomes of old data: `delete` drops whole segments by age and size, `compact` keeps the last record of each \
         key, both may be combined, and the empty list keeps everything. `compact` is accepted but not carried out yet: \
         such a log grows.",
    )
    .synonyms(&[same("log.cleanup.policy")]),
    topic(
        "compression.gzip.level",
        Kind::IntOr { min: 1, max: 9, other: -1 },
        "-1",
        "How hard gzip tries where the server itself compresses; -1 leaves it to the library.",
    )
    .synonyms(&[same("compression.gzip.level")])
    .no_effect(NO_RECOMPRESSION),
    topic(
        "compression.lz4.level",
        Kind::Int { min: 1, max: 17 },
        "9",
        "How hard lz4 tries where the server itself compresses.",
    )
    .synonyms(&[same("compression.lz4.level")])
    .no_effect(NO_RECOMPRESSION),
    topic(
        "compression.type",
        Kind::Enum(COMPRESSION_TYPES),
        "producer",
        "The codec that batches are stored with; `producer` keeps whatever the producer chose.",
    )
    .synonyms(&[same("compression.type")])
    .no_effect(NO_RECOMPRESSION),
    topic(
        "compression.zstd.level",
        Kind::Int { min: -131_072, max: 22 },
        "3",
        "How hard zstd tries where the server itself compresses.",
    )
    .synonyms(&[same("compression.zstd.level")])
    .no_effect(NO_RECOMPRESSION),
    topic(
        "delete.retention.ms",
        Kind::long(0),
        "86400000",
        "How long a compacted log keeps the marker of a deleted key, so that slow readers see the deletion.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.cleaner.delete.retention.ms")])
    .no_effect(NO_COMPACTION),
    topic(
        "errors.deadletterqueue.group.enable",
        Kind::Bool,
        "false",
        "Whether share groups may write records that they could not process to this topic.",
    )
    .no_effect(NO_SHARE_GROUPS),
    topic(
        "file.delete.delay.ms",
        Kind::long(0),
        "60000",
        "How long the files of a dropped segment stay on disk, for reads that are under way.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.segment.delete.delay.ms")])
    .no_effect(AT_ONCE),
    topic(
        "flush.messages",
        Kind::long(1),
        "9223372036854775807",
        "Sync the log after so many records.",
    )
    .synonyms(&[same("log.flush.interval.messages")])
    .no_effect(SYNCED),
    topic("flush.ms", Kind::long(0), "9223372036854775807", "Sync the log when its oldest unsynced record is this old.")
        .unit(Unit::Millis)
        .synonyms(&[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")])
        .no_effect(SYNCED),
    topic(
        "follower.replication.throttled.replicas",
        Kind::ThrottledReplicas,
        "",
        "Replicas that copy no faster than a set rate.",
    )
    .no_effect(ONE_REPLICA),
    topic(
        "index.interval.bytes",
        Kind::int(0),
        "4096",
        "An entry is added to a segment's indexes after so many bytes of records: fewer make finding an offset faster and \
         the indexes larger.",
    )
    .unit(Unit::Bytes)
    .synonyms(&[same("log.index.interval.bytes")]),
    topic(
        "internal.segment.bytes",
        Kind::ANY_INT,
        "",
        "A segment size below the minimum of `segment.bytes`, for tests; it wins over `segment.bytes`.",
    )
    .null_default()
    .unit(Unit::Bytes)
    .internal(),
    topic(
        "leader.replication.throttled.replicas",
        Kind::ThrottledReplicas,
        "",
        "Replicas that are copied from no faster than a set rate.",
    )
    .no_effect(ONE_REPLICA),
    topic(
        "local.retention.bytes",
        Kind::long(-2),
        "-2",
        "How much of a partition stays on the local disk once it is in remote storage; -2 means `retention.bytes`.",
    )
    .unit(Unit::Bytes)
    .synonyms(&[same("log.local.retention.bytes")])
    .no_effect(NO_TIERS),
    topic(
        "local.retention.ms",
        Kind::long(-2),
        "-2",
        "How long a segment stays on the local disk once it is in remote storage; -2 means `retention.ms`.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.local.retention.ms")])
    .no_effect(NO_TIERS),
    topic(
        "max.compaction.lag.ms",
        Kind::long(1),
        "9223372036854775807",
        "The longest a record may wait for compaction.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.cleaner.max.compaction.lag.ms")])
    .no_effect(NO_COMPACTION),
    topic(
        "max.decompressed.message.bytes",
        Kind::Int { min: 1, max: JAVA_ARRAY_MAX },
        "2147483639",
        "The largest single record, decompressed, that is accepted.",
    )
    .unit(Unit::Bytes)
    .synonyms(&[same("max.decompressed.message.bytes")])
    .no_effect("a fixed limit per batch holds instead"),
    topic(
        "max.message.bytes",
        Kind::int(0),
        "1048588",
        "The largest batch that a producer may send, as compressed.",
    )
    .unit(Unit::Bytes)
    .synonyms(&[same("message.max.bytes")]),
    topic(
        "message.timestamp.after.max.ms",
        Kind::long(0),
        "3600000",
        "How far a record's timestamp may lie in the server's future. Only looked at with `CreateTime`.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.message.timestamp.after.max.ms")]),
    topic(
        "message.timestamp.before.max.ms",
        Kind::long(0),
        "9223372036854775807",
        "How far a record's timestamp may lie in the server's past. Only looked at with `CreateTime`.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.message.timestamp.before.max.ms")]),
    topic(
        "message.timestamp.type",
        Kind::Enum(TIMESTAMP_TYPES),
        "CreateTime",
        "Whether records keep the producer's timestamp or get the time at which they were appended.",
    )
    .synonyms(&[same("log.message.timestamp.type")]),
    topic(
        "min.cleanable.dirty.ratio",
        Kind::Double { min: 0.0, max: 1.0 },
        "0.5",
        "A log is compacted when at least this share of it has not been compacted before.",
    )
    .synonyms(&[same("log.cleaner.min.cleanable.ratio")])
    .no_effect(NO_COMPACTION),
    topic("min.compaction.lag.ms", Kind::long(0), "0", "The shortest time that a record stays uncompacted.")
        .unit(Unit::Millis)
        .synonyms(&[same("log.cleaner.min.compaction.lag.ms")])
        .no_effect(NO_COMPACTION),
    topic(
        "min.insync.replicas",
        Kind::int(1),
        "1",
        "How many replicas must have a record before `acks=all` is answered. There is one replica, so a number above 1 is \
         capped at 1 with a warning, or refused, see `riparian.replication.cap`.",
    )
    .synonyms(&[same("min.insync.replicas")]),
    topic("preallocate", Kind::Bool, "false", "Whether a new segment's file is given its full size at once.")
        .synonyms(&[same("log.preallocate")])
        .no_effect("files grow as they are written"),
    topic(
        "remote.copy.lag.bytes",
        Kind::long(-1),
        "-1",
        "How many newer bytes there must be before a segment is copied to remote storage.",
    )
    .unit(Unit::Bytes)
    .synonyms(&[same("log.remote.copy.lag.bytes")])
    .no_effect(NO_TIERS),
    topic(
        "remote.copy.lag.ms",
        Kind::long(-1),
        "0",
        "How old a segment must be before it is copied to remote storage.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.remote.copy.lag.ms")])
    .no_effect(NO_TIERS),
    topic("remote.log.copy.disable", Kind::Bool, "false", "Whether no more segments are copied to remote storage.")
        .no_effect(NO_TIERS),
    topic(
        "remote.log.delete.on.disable",
        Kind::Bool,
        "false",
        "Whether data in remote storage is deleted when remote storage is switched off for the topic.",
    )
    .no_effect(NO_TIERS),
    topic(
        "remote.storage.enable",
        Kind::Bool,
        "false",
        "Whether old segments move to remote storage. There is none: only `false` is allowed.",
    ),
    topic(
        "retention.bytes",
        Kind::ANY_LONG,
        "-1",
        "How large a partition may grow before its oldest segments are dropped (with `cleanup.policy` `delete`); below 0: \
         without limit.",
    )
    .unit(Unit::Bytes)
    .synonyms(&[same("log.retention.bytes")]),
    topic(
        "retention.ms",
        Kind::long(-1),
        "604800000",
        "How old records may grow before their segment is dropped (with `cleanup.policy` `delete`); -1: without limit.",
    )
    .unit(Unit::Millis)
    .synonyms(&[
        same("log.retention.ms"),
        Synonym { name: "log.retention.minutes", factor: 60_000 },
        Synonym { name: "log.retention.hours", factor: 3_600_000 },
    ]),
    topic(
        "segment.bytes",
        Kind::int(1_048_576),
        "1073741824",
        "A segment that would grow beyond this is closed and a new one begun. Data is dropped by whole segments.",
    )
    .unit(Unit::Bytes)
    .synonyms(&[same("log.segment.bytes")]),
    topic("segment.index.bytes", Kind::int(4), "10485760", "The largest size of a segment's offset index.")
        .unit(Unit::Bytes)
        .synonyms(&[same("log.index.size.max.bytes")])
        .no_effect(INDEXES),
    topic(
        "segment.jitter.ms",
        Kind::long(0),
        "0",
        "Up to this much, by chance, is taken from `segment.ms`, so that not all segments are closed at once.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.roll.jitter.ms"), Synonym { name: "log.roll.jitter.hours", factor: 3_600_000 }])
    .no_effect(JITTER),
    topic(
        "segment.ms",
        Kind::long(1),
        "604800000",
        "A segment whose first record is this old is closed even if it is not full, so that its data can be dropped.",
    )
    .unit(Unit::Millis)
    .synonyms(&[same("log.roll.ms"), Synonym { name: "log.roll.hours", factor: 3_600_000 }]),
    topic(
        "unclean.leader.election.enable",
        Kind::Bool,
        "false",
        "Whether a replica that lacks records may become leader when no other is left.",
    )
    .synonyms(&[same("unclean.leader.election.enable")])
    .no_effect(ONE_REPLICA),
];

/// Checks all values set on a topic, each alone and beside the others.
///
/// # Errors
/// The first key (by name) that is unknown, has a bad value, or contradicts another.
pub fn check_topic_configs(configs: &ConfigMap) -> Result<(), ConfigError> {
    for (name, text) in configs {
        let key = super::key(Scope::Topic, name).ok_or_else(|| ConfigError::unknown(Scope::Topic, name))?;
        let value = key.parse(text)?;
        if key.name == "remote.storage.enable" && value == ConfigValue::Bool(true) {
            return Err(ConfigError::Unsupported {
                key: key.name,
                value: "true".to_string(),
                reason: "this server has no remote storage, only false is allowed",
            });
        }
    }
    let lag = |name: &'static str| {
        let key = super::key(Scope::Topic, name)?;
        configs.get(name).map_or_else(|| key.default_value(), |text| key.parse(text).ok())?.as_long()
    };
    if let (Some(min), Some(max)) = (lag("min.compaction.lag.ms"), lag("max.compaction.lag.ms"))
        && min > max
    {
        let rule: String = alloc::format!("it must not be above max.compaction.lag.ms, which is {max}");
        return Err(ConfigError::Conflict { key: "min.compaction.lag.ms", value: min.to_string(), rule });
    }
    Ok(())
}
