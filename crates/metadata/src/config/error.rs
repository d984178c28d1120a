//! Why a configuration is refused. Kafka: INVALID_CONFIG, if a variant does not say otherwise.

use alloc::string::{String, ToString};
use core::fmt;

use super::{KAFKA_ONLY_BROKER_KEYS, Scope, group_keys, nearest, nearest_broker_key, topic_keys};

/// Why a key or value is refused: what was wrong, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no such key.
    UnknownKey {
        /// Where it was looked for.
        scope: Scope,
        /// Its name.
        key: String,
        /// A key with a similar name.
        nearest: Option<&'static str>,
    },
    /// The key is one of Kafka's that means nothing here.
    KafkaOnly {
        /// Its name.
        key: String,
    },
    /// The value is not one that the key takes.
    BadValue {
        /// The key.
        key: &'static str,
        /// The value; hidden if it is secret.
        value: String,
        /// Which values it takes.
        allowed: String,
    },
    /// The value alone is right, but not beside another one.
    Conflict {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What does not hold.
        rule: String,
    },
    /// The value asks for something that this server does not have.
    Unsupported {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is missing, and what to do instead.
        reason: &'static str,
    },
    /// The key is read once, when the server starts. Kafka: INVALID_REQUEST.
    ReadOnly {
        /// The key.
        key: &'static str,
    },
    /// Append and subtract work on lists only.
    NotAList {
        /// The key.
        key: &'static str,
    },
    /// The value is missing. Kafka: INVALID_REQUEST for a change, INVALID_CONFIG for a new topic.
    NullValue {
        /// The key.
        key: String,
    },
    /// The key is named twice. Kafka: INVALID_REQUEST.
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The value is too long to be stored.
    TooLong {
        /// The key.
        key: &'static str,
        /// Most bytes.
        bytes_max: usize,
    },
}

impl ConfigError {
    /// There is no key of this name in this scope.
    pub(crate) fn unknown(scope: Scope, name: &str) -> Self {
        if scope == Scope::Broker && KAFKA_ONLY_BROKER_KEYS.contains(&name) {
            return Self::KafkaOnly { key: name.to_string() };
        }
        let nearest = match scope {
            Scope::Topic => nearest(name, topic_keys().iter().map(|key| key.name)),
            Scope::Group => nearest(name, group_keys().iter().map(|key| key.name)),
            Scope::Broker => nearest_broker_key(name),
        };
        Self::UnknownKey { scope, key: name.to_string(), nearest }
    }

    /// The key that is refused.
    pub fn key(&self) -> &str {
        match self {
            Self::UnknownKey { key, .. }
            | Self::KafkaOnly { key }
            | Self::NullValue { key }
            | Self::DuplicateKey { key } => key,
            Self::BadValue { key, .. }
            | Self::Conflict { key, .. }
            | Self::Unsupported { key, .. }
            | Self::ReadOnly { key }
            | Self::NotAList { key }
            | Self::TooLong { key, .. } => key,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { scope, key, nearest } => {
                write!(f, "unknown {scope} config '{key}'")?;
                nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean '{nearest}'?"))
            }
            Self::KafkaOnly { key } => write!(f, "{key} is a key of Kafka's that means nothing to this server"),
            Self::BadValue { key, value, allowed } => {
                write!(f, "'{value}' is not a value for {key}: allowed is {allowed}")
            }
            Self::Conflict { key, value, rule } => write!(f, "{key}={value} is not allowed: {rule}"),
            Self::Unsupported { key, value, reason } => write!(f, "{key}={value} is not supported: {reason}"),
            Self::ReadOnly { key } => {
                write!(
                    f,
                    "{key} cannot be changed while the server runs: set it in the server's properties and restart"
                )
            }
            Self::NotAList { key } => write!(f, "{key} is not a list: only set and delete are allowed"),
            Self::NullValue { key } => write!(f, "{key} has no value: use delete to remove a config"),
            Self::DuplicateKey { key } => write!(f, "{key} is named twice in one request"),
            Self::TooLong { key, bytes_max } => {
                write!(f, "the value of {key} is too long: allowed are at most {bytes_max} bytes")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
