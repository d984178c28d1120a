//! The server's properties: what was set when it started, checked.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use super::{ConfigError, ConfigKey, ConfigValue, Scope, Support, key};

/// The server's properties, fixed while it runs. What is not set has its default.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerConfig {
    set: BTreeMap<&'static str, ConfigValue>,
}

/// Why a property could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// It is one of Kafka's that means nothing here; to be ignored, with a word about it at most.
    KafkaOnly {
        /// The key.
        key: String,
    },
    /// Nobody knows it; to be warned about. The error's text suggests a similar name.
    Unknown(ConfigError),
    /// Its value is bad; an error before a port is bound.
    Invalid(ConfigError),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KafkaOnly { key } => ConfigError::KafkaOnly { key: key.clone() }.fmt(f),
            Self::Unknown(error) | Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SetError {}

impl BrokerConfig {
    /// Nothing set: every key has its default.
    pub const fn empty() -> Self {
        Self { set: BTreeMap::new() }
    }

    /// Sets one property; a later value replaces an earlier one.
    ///
    /// # Errors
    /// The key is unknown or the value is bad; nothing is changed then.
    pub fn set(&mut self, name: &str, text: &str) -> Result<&'static ConfigKey, SetError> {
        let Some(key) = key(Scope::Broker, name) else {
            return Err(match ConfigError::unknown(Scope::Broker, name) {
                ConfigError::KafkaOnly { key } => SetError::KafkaOnly { key },
                error => SetError::Unknown(error),
            });
        };
        let value = key.parse(text).map_err(SetError::Invalid)?;
        self.set.insert(key.name, value);
        Ok(key)
    }

    /// Forgets a property.
    pub fn unset(&mut self, name: &str) {
        self.set.remove(name);
    }

    /// What was set, by name, as canonical text.
    pub fn entries(&self) -> impl Iterator<Item = (&'static ConfigKey, String)> {
        self.set.iter().filter_map(|(name, value)| Some((key(Scope::Broker, name)?, value.to_string())))
    }

    /// The set keys that change nothing here, and why.
    pub fn without_effect(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.entries().filter_map(|(key, _)| match key.support {
            Support::NoEffect(why) => Some((key.name, why)),
            Support::Full => None,
        })
    }

    /// Whether this key was set.
    pub fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    /// What this key was set to.
    pub fn set_value(&self, name: &str) -> Option<&ConfigValue> {
        self.set.get(name)
    }

    /// The key's value, set or by default; `None` if it is not set and has no default.
    ///
    /// # Panics
    /// There is no broker key of this name: names come from our own code.
    pub fn value(&self, name: &str) -> Option<ConfigValue> {
        let Some(key) = key(Scope::Broker, name) else { panic!("{name} is not a broker key") };
        self.set.get(name).cloned().or_else(|| key.default_value())
    }

    /// The value of an integer key that has a default.
    ///
    /// # Panics
    /// There is no such key.
    pub fn long(&self, name: &str) -> i64 {
        let value = self.value(name).and_then(|value| value.as_long());
        value.unwrap_or_else(|| panic!("{name} is not an integer with a default"))
    }

    /// The value of an integer key of 32 bits or fewer that has a default.
    ///
    /// # Panics
    /// There is no such key.
    pub fn int(&self, name: &str) -> i32 {
        let value = self.value(name).and_then(|value| value.as_int());
        value.unwrap_or_else(|| panic!("{name} is not a 32-bit integer with a default"))
    }

    /// The value of a boolean key.
    ///
    /// # Panics
    /// There is no such key.
    pub fn bool(&self, name: &str) -> bool {
        let value = self.value(name).and_then(|value| value.as_bool());
        value.unwrap_or_else(|| panic!("{name} is not a boolean"))
    }

    /// The value of a text key; `None` if it is not set and has no default.
    ///
    /// # Panics
    /// There is no key of this name.
    pub fn string(&self, name: &str) -> Option<String> {
        self.value(name).map(|value| value.to_string())
    }

    /// The value of a list key; empty if it is not set and has no default.
    ///
    /// # Panics
    /// There is no key of this name.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.value(name).and_then(|value| value.as_list().map(<[String]>::to_vec)).unwrap_or_default()
    }

    /// `node.id`, or by its older name `broker.id`.
    pub fn node_id(&self) -> i32 {
        if self.is_set("node.id") || self.int("broker.id") < 0 { self.int("node.id") } else { self.int("broker.id") }
    }

    /// Contradictions between properties that are each right alone.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        self.check_listeners(&mut errors);
        self.check_replication(&mut errors);
        self.check_ranges(&mut errors);
        errors
    }

    fn check_listeners(&self, errors: &mut Vec<ConfigError>) {
        if self.list("listeners").is_empty() {
            let rule = "at least one address is needed".to_string();
            errors.push(ConfigError::Conflict { key: "listeners", value: String::new(), rule });
        }
        for name in ["log.dirs", "log.dir"] {
            if self.is_set(name) || name == "log.dir" {
                let dirs = self.list(name);
                if dirs.len() != 1 {
                    let rule = "exactly one directory is allowed".to_string();
                    let name = if name == "log.dirs" { "log.dirs" } else { "log.dir" };
                    errors.push(ConfigError::Conflict { key: name, value: dirs.join(","), rule });
                }
            }
        }
        if self.is_set("node.id") && self.int("broker.id") >= 0 && self.int("broker.id") != self.int("node.id") {
            let rule = format!("node.id, its newer name, is {}", self.int("node.id"));
            errors.push(ConfigError::Conflict { key: "broker.id", value: self.int("broker.id").to_string(), rule });
        }
    }

    /// What is capped otherwise would be refused at every creation.
    fn check_replication(&self, errors: &mut Vec<ConfigError>) {
        if self.bool("riparian.replication.cap") {
            return;
        }
        for key in ["default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor"] {
            if self.is_set(key) && self.int(key) > 1 {
                let rule = "there is one replica (riparian.replication.cap=true counts more as 1)".to_string();
                errors.push(ConfigError::Conflict { key, value: self.int(key).to_string(), rule });
            }
        }
    }

    fn check_ranges(&self, errors: &mut Vec<ConfigError>) {
        for [min, value, max] in RANGES {
            let (low, number, high) = (self.optional(min), self.long(value), self.optional(max));
            let mut conflict = |key, number: i64, rule| {
                errors.push(ConfigError::Conflict { key, value: number.to_string(), rule });
            };
            match (low, high) {
                (Some(low), Some(high)) if low > high => {
                    conflict(max, high, format!("it must not be below {min}, which is {low}"));
                }
                (Some(low), _) if number < low => {
                    conflict(value, number, format!("it must not be below {min}, which is {low}"));
                }
                (_, Some(high)) if number > high => {
                    conflict(value, number, format!("it must not be above {max}, which is {high}"));
                }
                _ => {}
            }
        }
        for (heartbeat, session) in HEARTBEATS {
            let (interval, timeout) = (self.long(heartbeat), self.long(session));
            if interval >= timeout {
                let rule = format!("it must be below {session}, which is {timeout}");
                errors.push(ConfigError::Conflict { key: heartbeat, value: interval.to_string(), rule });
            }
        }
    }

    /// The bound of this name; an empty name is no bound.
    fn optional(&self, name: &str) -> Option<i64> {
        (!name.is_empty()).then(|| self.long(name))
    }
}

/// Smallest, default, largest.
const RANGES: [[&str; 3]; 9] = [
    [
        "group.streams.min.session.timeout.ms",
        "group.streams.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ],
    [
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ],
    [
        "group.streams.min.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ],
    ["", "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"],
    ["", "group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"],
    ["group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms", ""],
    [
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ],
    [
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ],
    [
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ],
];

/// A heartbeat interval and the session timeout that it must stay below.
const HEARTBEATS: [(&str, &str); 2] = [
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
];

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec::Vec};

    use super::{BrokerConfig, SetError};

    fn config(entries: &[(&str, &str)]) -> BrokerConfig {
        let mut config = BrokerConfig::empty();
        for (name, value) in entries {
            config.set(name, value).unwrap();
        }
        config
    }

    fn check(entries: &[(&str, &str)], expected: &[&str]) {
        let errors: Vec<_> = config(entries).check().iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{entries:?}");
    }

    #[test]
    fn what_is_not_set_has_its_default() {
        let config = config(&[("num.partitions", " 7 ")]);
        assert_eq!(config.int("num.partitions"), 7);
        assert_eq!(config.int("offsets.topic.num.partitions"), 50);
        assert_eq!(config.list("group.streams.assignors"), ["sticky"]);
        assert_eq!(config.value("log.retention.ms"), None);
        assert!(config.bool("auto.create.topics.enable"));
    }

    #[test]
    fn foreign_unknown_and_bad_properties_are_told_apart() {
        let mut config = BrokerConfig::empty();
        assert!(matches!(config.set("ssl.protocol", "x"), Err(SetError::KafkaOnly { .. })));
        let unknown = config.set("num.partition", "1").unwrap_err();
        assert_eq!(unknown.to_string(), "unknown broker config 'num.partition'; did you mean 'num.partitions'?");
        let invalid = config.set("num.partitions", "0").unwrap_err();
        assert_eq!(
            invalid.to_string(),
            "'0' is not a value for num.partitions: allowed is an integer from 1 to 2147483647"
        );
        assert_eq!(config, BrokerConfig::empty());
    }

    #[test]
    fn contradictions_are_found() {
        check(&[], &[]);
        check(&[("broker.id", "4"), ("node.id", "4"), ("log.dirs", "/a")], &[]);
        check(&[("broker.id", "4"), ("node.id", "5")], &["broker.id=4 is not allowed: node.id, its newer name, is 5"]);
        check(&[("log.dirs", "/a,/b")], &["log.dirs=/a,/b is not allowed: exactly one directory is allowed"]);
        check(&[("default.replication.factor", "3")], &[]);
        check(
            &[("default.replication.factor", "3"), ("riparian.replication.cap", "false")],
            &[
                "default.replication.factor=3 is not allowed: there is one replica (riparian.replication.cap=true counts more as 1)",
            ],
        );
        check(&[("listeners", "")], &["listeners= is not allowed: at least one address is needed"]);
        check(
            &[("group.streams.session.timeout.ms", "1000")],
            &[
                "group.streams.session.timeout.ms=1000 is not allowed: it must not be below group.streams.min.session.timeout.ms, which is 45000",
                "group.streams.heartbeat.interval.ms=5000 is not allowed: it must be below group.streams.session.timeout.ms, which is 1000",
            ],
        );
        check(
            &[("group.streams.num.standby.replicas", "3")],
            &[
                "group.streams.num.standby.replicas=3 is not allowed: it must not be above group.streams.max.standby.replicas, which is 2",
            ],
        );
    }

    #[test]
    fn the_older_name_of_the_node_id_counts_when_alone() {
        assert_eq!(config(&[]).node_id(), 1);
        assert_eq!(config(&[("broker.id", "4")]).node_id(), 4);
        assert_eq!(config(&[("broker.id", "-1"), ("node.id", "0")]).node_id(), 0);
    }
}
