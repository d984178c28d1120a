//! What can be set, per topic and per data directory.

use riparian_records::{ProduceRules, TimestampType};
use riparian_types::limits;

/// A topic's settings, as far as its logs care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A segment that would become larger than this is closed (`segment.bytes`).
    pub segment_bytes: u32,
    /// A segment whose records span more time than this is closed (`segment.ms`).
    pub segment_ms: i64,
    /// Bytes of batches between two index entries (`index.interval.bytes`).
    pub index_interval_bytes: u32,
    /// Whether old segments are deleted (`cleanup.policy` has `delete`).
    pub delete: bool,
    /// Whether old values of a key are dropped (`cleanup.policy` has `compact`); not done yet.
    pub compact: bool,
    /// How long records are kept at least; none keeps them for ever (`retention.ms`).
    pub retention_ms: Option<i64>,
    /// How many bytes are kept at least; none keeps all (`retention.bytes`).
    pub retention_bytes: Option<u64>,
    /// Largest batch a client may produce (`max.message.bytes`).
    pub batch_bytes_max: usize,
    /// Who gives records their timestamps (`message.timestamp.type`).
    pub timestamp_type: TimestampType,
    /// How far in the past a produced timestamp may lie (`message.timestamp.before.max.ms`).
    pub timestamp_before_max_ms: i64,
    /// How far in the future a produced timestamp may lie (`message.timestamp.after.max.ms`).
    pub timestamp_after_max_ms: i64,
}

impl LogConfig {
    /// What Kafka 4.4 does with a topic that has no settings of its own.
    pub const KAFKA: Self = Self {
        segment_bytes: 1024 * 1024 * 1024,
        segment_ms: 7 * 24 * 3600 * 1000,
        index_interval_bytes: 4096,
        delete: true,
        compact: false,
        retention_ms: Some(7 * 24 * 3600 * 1000),
        retention_bytes: None,
        batch_bytes_max: limits::BATCH_BYTES_MAX,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
    };

    /// What is demanded of a batch that a client produces.
    pub fn produce_rules(&self, zstd_allowed: bool) -> ProduceRules {
        ProduceRules {
            batch_bytes_max: self.batch_bytes_max,
            key_required: self.compact,
            timestamp_type: self.timestamp_type,
            timestamp_before_max_ms: self.timestamp_before_max_ms,
            timestamp_after_max_ms: self.timestamp_after_max_ms,
            zstd_allowed,
        }
    }
}

/// When appended bytes count as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// When they were synced to the disk.
    Sync,
    /// At once: they are in the operating system's cache and survive the end of the process, not a power cut.
    Os,
}

/// Settings of all logs of a data directory.
#[derive(Clone, Debug)]
pub struct LogsConfig {
    /// When appended bytes count as durable.
    pub flush: FlushMode,
    /// How long a producer that appends nothing is remembered (`producer.id.expiration.ms`).
    pub producer_expiration_ms: u64,
    /// What logs that are found when opening have until [`crate::Logs::set_config`] is called.
    pub topic_defaults: LogConfig,
    /// How many threads open logs (`num.recovery.threads.per.data.dir`).
    pub recovery_threads: usize,
    /// A last segment up to this size is always read when its log is opened: that takes less time than making the files
    /// durable that spare it.
    pub read_at_open_bytes: u64,
}

impl LogsConfig {
    /// For a disk as most are.
    pub const READ_AT_OPEN_BYTES: u64 = 1024 * 1024;
}
