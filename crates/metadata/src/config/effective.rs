//! From layers of set values to the one that counts.

use alloc::string::{String, ToString};

use super::{BrokerConfig, ConfigKey, ConfigMap, ConfigSource, ConfigValue, Scope, key};

/// What lies under a topic's or group's own values, the strongest first.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// Set dynamically on this broker.
    pub dynamic: &'a ConfigMap,
    /// Set dynamically on all brokers.
    pub dynamic_default: &'a ConfigMap,
    /// Set in the server's properties.
    pub properties: &'a BrokerConfig,
}

impl Layers<'_> {
    /// The broker key's value if some layer sets it, and which layer that is. A stored value that the key no longer takes
    /// counts as not set.
    pub(crate) fn set_broker_value(&self, key: &ConfigKey) -> Option<(ConfigValue, ConfigSource)> {
        let stored = |map: &ConfigMap| map.get(key.name).and_then(|text| key.parse(text).ok());
        stored(self.dynamic)
            .map(|value| (value, ConfigSource::DynamicBroker))
            .or_else(|| stored(self.dynamic_default).map(|value| (value, ConfigSource::DynamicDefaultBroker)))
            .or_else(|| self.properties.set_value(key.name).map(|value| (value.clone(), ConfigSource::StaticBroker)))
    }

    /// The value of a topic's or group's key under its own value: of the first broker synonym that is set, else the
    /// default.
    pub(super) fn inherited(&self, target: &ConfigKey) -> (Option<ConfigValue>, ConfigSource) {
        for synonym in target.synonyms {
            let set = key(Scope::Broker, synonym.name).and_then(|key| self.set_broker_value(key));
            if let Some((value, source)) = set
                && let Some(value) = convert(target, &value, synonym.factor)
            {
                return (Some(value), source);
            }
        }
        (default_of(target), ConfigSource::Default)
    }

    /// The value of a topic's or group's key with these values set on it, and where it comes from.
    pub(crate) fn effective(&self, target: &ConfigKey, own: &ConfigMap) -> (Option<ConfigValue>, ConfigSource) {
        match own.get(target.name).and_then(|text| target.parse(text).ok()) {
            Some(value) if target.scope == Scope::Group => (Some(value), ConfigSource::Group),
            Some(value) => (Some(value), ConfigSource::Topic),
            None => self.inherited(target),
        }
    }
}

/// The assignor's default is the first of the broker's default list; every other key carries its own default.
fn default_of(target: &ConfigKey) -> Option<ConfigValue> {
    if target.name == "streams.assignor.name" {
        let assignors = key(Scope::Broker, "group.streams.assignors")?.default_value()?;
        return convert(target, &assignors, 1);
    }
    target.default_value()
}

/// A broker key's value as a value of the key that it is a default for; `None` if it is none.
fn convert(target: &ConfigKey, value: &ConfigValue, factor: i64) -> Option<ConfigValue> {
    let text: String = match value {
        // Negative times mean "without limit", which topics spell -1.
        ConfigValue::Short(_) | ConfigValue::Int(_) | ConfigValue::Long(_) => {
            let number = value.as_long()?;
            if target.name == "retention.ms" && number < 0 {
                "-1".to_string()
            } else {
                number.saturating_mul(factor).to_string()
            }
        }
        ConfigValue::List(items) if !target.kind.is_list() => items.first()?.clone(),
        ConfigValue::Bool(_) | ConfigValue::Double(_) | ConfigValue::String(_) | ConfigValue::List(_) => {
            value.to_string()
        }
    };
    target.parse(&text).ok()
}

/// What becomes of old data (`cleanup.policy`). Neither: everything is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// The last record of each key is kept.
    pub compact: bool,
    /// Segments are dropped by age and size.
    pub delete: bool,
}

/// How batches are to be stored (`compression.type` with its level).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they came.
    Producer,
    /// Not compressed.
    Uncompressed,
    /// With this level, -1 for the library's own.
    Gzip(i32),
    /// It has no levels.
    Snappy,
    /// With this level.
    Lz4(i32),
    /// With this level.
    Zstd(i32),
}

/// Whose timestamps records carry (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The server's.
    LogAppendTime,
}

/// A topic's configuration as it counts: every layer resolved. Times in milliseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `compression.type` and the level that belongs to it.
    pub compression: Compression,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: i64,
    /// `flush.messages`.
    pub flush_messages: i64,
    /// `flush.ms`.
    pub flush_ms: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i32,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
    /// `max.message.bytes`.
    pub max_message_bytes: i32,
    /// `message.timestamp.after.max.ms`.
    pub message_timestamp_after_max_ms: i64,
    /// `message.timestamp.before.max.ms`.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.type`.
    pub message_timestamp_type: TimestampType,
    /// `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// `preallocate`.
    pub preallocate: bool,
    /// `retention.bytes`; below 0: without limit.
    pub retention_bytes: i64,
    /// `retention.ms`; -1: without limit.
    pub retention_ms: i64,
    /// `segment.bytes`, or `internal.segment.bytes` if that is set.
    pub segment_bytes: i32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: i32,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `segment.ms`.
    pub segment_ms: i64,
}

impl TopicConfig {
    /// The configuration of a topic with these values set on it.
    pub fn effective(layers: &Layers<'_>, own: &ConfigMap) -> Self {
        let value = |name: &str| {
            let key = key(Scope::Topic, name)?;
            layers.effective(key, own).0
        };
        let long = |name: &str| {
            value(name).and_then(|value| value.as_long()).expect("topic keys read here are integers with defaults")
        };
        let int = |name: &str| {
            value(name).and_then(|value| value.as_int()).expect("topic keys read here are integers with defaults")
        };
        let text = |name: &str| value(name).map(|value| value.to_string()).unwrap_or_default();
        let policies = value("cleanup.policy");
        let has_policy = |word: &str| {
            policies.as_ref().and_then(ConfigValue::as_list).is_some_and(|items| items.iter().any(|item| item == word))
        };
        let internal_segment_bytes = value("internal.segment.bytes").and_then(|value| value.as_int());
        Self {
            cleanup_policy: CleanupPolicy { compact: has_policy("compact"), delete: has_policy("delete") },
            compression: match text("compression.type").as_str() {
                "uncompressed" => Compression::Uncompressed,
                "gzip" => Compression::Gzip(int("compression.gzip.level")),
                "snappy" => Compression::Snappy,
                "lz4" => Compression::Lz4(int("compression.lz4.level")),
                "zstd" => Compression::Zstd(int("compression.zstd.level")),
                _ => Compression::Producer,
            },
            delete_retention_ms: long("delete.retention.ms"),
            file_delete_delay_ms: long("file.delete.delay.ms"),
            flush_messages: long("flush.messages"),
            flush_ms: long("flush.ms"),
            index_interval_bytes: int("index.interval.bytes"),
            max_compaction_lag_ms: long("max.compaction.lag.ms"),
            max_message_bytes: int("max.message.bytes"),
            message_timestamp_after_max_ms: long("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: long("message.timestamp.before.max.ms"),
            message_timestamp_type: if text("message.timestamp.type") == "LogAppendTime" {
                TimestampType::LogAppendTime
            } else {
                TimestampType::CreateTime
            },
            min_cleanable_dirty_ratio: match value("min.cleanable.dirty.ratio") {
                Some(ConfigValue::Double(ratio)) => ratio,
                _ => 0.5,
            },
            min_compaction_lag_ms: long("min.compaction.lag.ms"),
            preallocate: value("preallocate").and_then(|value| value.as_bool()).unwrap_or(false),
            retention_bytes: long("retention.bytes"),
            retention_ms: long("retention.ms"),
            segment_bytes: internal_segment_bytes.filter(|bytes| *bytes > 0).unwrap_or_else(|| int("segment.bytes")),
            segment_index_bytes: int("segment.index.bytes"),
            segment_jitter_ms: long("segment.jitter.ms"),
            segment_ms: long("segment.ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::{CleanupPolicy, Compression, Layers, TimestampType, TopicConfig};
    use crate::config::{BrokerConfig, ConfigMap};

    fn map(entries: &[(&str, &str)]) -> ConfigMap {
        entries.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn effective(
        own: &[(&str, &str)],
        dynamic: &[(&str, &str)],
        dynamic_default: &[(&str, &str)],
        properties: &[(&str, &str)],
    ) -> TopicConfig {
        let mut broker = BrokerConfig::empty();
        for (name, value) in properties {
            broker.set(name, value).unwrap();
        }
        let (dynamic, dynamic_default) = (map(dynamic), map(dynamic_default));
        let layers = Layers { dynamic: &dynamic, dynamic_default: &dynamic_default, properties: &broker };
        TopicConfig::effective(&layers, &map(own))
    }

    #[test]
    fn nothing_set_gives_kafkas_defaults() {
        let config = effective(&[], &[], &[], &[]);
        assert_eq!(config.retention_ms, 604_800_000);
        assert_eq!(config.segment_bytes, 1 << 30);
        assert_eq!(config.cleanup_policy, CleanupPolicy { compact: false, delete: true });
        assert_eq!(config.compression, Compression::Producer);
        assert_eq!(config.message_timestamp_type, TimestampType::CreateTime);
        assert_eq!(config.max_message_bytes, 1_048_588);
    }

    #[test]
    fn the_strongest_layer_wins() {
        let retention = |own: &[(&str, &str)], dynamic: &[(&str, &str)], default: &[(&str, &str)], properties: &[_]| {
            effective(own, dynamic, default, properties).retention_ms
        };
        let properties = [("log.retention.hours", "2"), ("log.retention.minutes", "1")];
        assert_eq!(retention(&[], &[], &[], &properties[..1]), 7_200_000);
        assert_eq!(retention(&[], &[], &[], &properties), 60_000);
        assert_eq!(retention(&[], &[], &[("log.retention.ms", "9")], &properties), 9);
        assert_eq!(retention(&[], &[("log.retention.ms", "8")], &[("log.retention.ms", "9")], &properties), 8);
        assert_eq!(retention(&[("retention.ms", "7")], &[("log.retention.ms", "8")], &[], &properties), 7);
        assert_eq!(retention(&[], &[], &[], &[("log.retention.hours", "-1")]), -1);
        assert_eq!(retention(&[], &[], &[], &[("log.retention.hours", "2147483647")]), 2_147_483_647 * 3_600_000);
    }

    #[test]
    fn a_stored_value_that_is_bad_counts_as_not_set() {
        assert_eq!(effective(&[("retention.ms", "much")], &[], &[], &[]).retention_ms, 604_800_000);
    }

    #[test]
    fn what_a_streams_application_asks_for() {
        let own = [
            ("cleanup.policy", "compact,delete"),
            ("compression.type", "lz4"),
            ("message.timestamp.type", "LogAppendTime"),
            ("segment.bytes", "52428800"),
            ("retention.ms", "-1"),
        ];
        let config = effective(&own, &[], &[], &[("compression.lz4.level", "3")]);
        assert_eq!(config.cleanup_policy, CleanupPolicy { compact: true, delete: true });
        assert_eq!(config.compression, Compression::Lz4(3));
        assert_eq!(config.message_timestamp_type, TimestampType::LogAppendTime);
        assert_eq!((config.segment_bytes, config.retention_ms), (52_428_800, -1));
        assert_eq!(effective(&[("internal.segment.bytes", "99")], &[], &[], &[]).segment_bytes, 99);
    }
}
