//! The configuration keys of the whole product: which exist, what values they take, what they mean.
//!
//! Three tables, one per scope: [`topic_keys`], [`group_keys`] and [`broker_keys`]. Kafka's keys keep Kafka's names,
//! types, bounds and, unless the key's own text says why not, defaults (checked against a list read from Kafka's jars);
//! our own start with `riparian.`. A key that is accepted but changes nothing yet says so ([`Support::NoEffect`]), so that
//! nobody is led to believe otherwise.
//!
//! A value is resolved through layers, first hit wins: the resource's own, the broker's dynamic ones, the broker's
//! properties ([`BrokerConfig`]), the default ([`Layers`]).
//!
//! **Invariant:** what a table's key parsed once, it parses again to the same value; stored text is canonical.
//!
//! Deliberately unknown here: files, environment, command line, wire formats. Unknown keys of a properties file are the
//! caller's to report; [`nearest_broker_key`] helps.

mod broker_config;
mod broker_keys;
mod describe;
mod effective;
mod error;
#[cfg(test)]
mod facts;
mod group_check;
mod group_keys;
mod key;
mod markdown;
mod own_keys;
mod suggest;
mod topic_keys;
mod value;

pub use broker_config::{BrokerConfig, SetError};
pub use broker_keys::KAFKA_ONLY_BROKER_KEYS;
pub use describe::{ConfigEntry, ConfigSource, ConfigSynonym, describe_broker, describe_group, describe_topic};
pub use effective::{CleanupPolicy, Compression, Layers, TimestampType, TopicConfig};
pub use error::ConfigError;
pub use group_check::{check_group_configs, group_overrides};
pub use key::{ConfigKey, ConfigType, Importance, Kind, Scope, Support, Synonym, Unit};
pub use markdown::config_markdown;
pub use suggest::nearest;
pub use topic_keys::check_topic_configs;
pub use value::ConfigValue;

use alloc::{collections::BTreeMap, string::String};

/// Values set on one resource, by key, as canonical text.
pub type ConfigMap = BTreeMap<String, String>;

/// The keys of topics, ordered by name.
pub fn topic_keys() -> &'static [ConfigKey] {
    topic_keys::TOPIC_KEYS
}

/// The keys of groups, ordered by name.
pub fn group_keys() -> &'static [ConfigKey] {
    group_keys::GROUP_KEYS
}

/// The keys of the server, Kafka's and our own, each part ordered by name.
pub fn broker_keys() -> impl Iterator<Item = &'static ConfigKey> {
    broker_keys::BROKER_KEYS.iter().chain(own_keys::OWN_KEYS)
}

/// The key of this name for this scope.
pub fn key(scope: Scope, name: &str) -> Option<&'static ConfigKey> {
    let find = |keys: &'static [ConfigKey]| {
        keys.binary_search_by(|candidate| candidate.name.cmp(name)).ok().map(|index| &keys[index])
    };
    match scope {
        Scope::Topic => find(topic_keys::TOPIC_KEYS),
        Scope::Group => find(group_keys::GROUP_KEYS),
        Scope::Broker => find(broker_keys::BROKER_KEYS).or_else(|| find(own_keys::OWN_KEYS)),
    }
}

/// Checks a value for a key of this scope, by the key's own rule only.
///
/// # Errors
/// The key is unknown, or the value is not one of those that the key takes.
pub fn parse(scope: Scope, name: &str, value: &str) -> Result<ConfigValue, ConfigError> {
    key(scope, name).ok_or_else(|| ConfigError::unknown(scope, name))?.parse(value)
}

/// The broker key whose name is closest to `name`, if any is close.
pub fn nearest_broker_key(name: &str) -> Option<&'static str> {
    nearest(name, broker_keys().map(|key| key.name).chain(KAFKA_ONLY_BROKER_KEYS.iter().copied()))
}
