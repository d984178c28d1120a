//! Text to typed values, by Kafka's reading: surrounding blanks don't count, words are exact.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use super::{ConfigError, ConfigKey, Kind};

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// Of a boolean key.
    Bool(bool),
    /// Of a 16-bit key.
    Short(i16),
    /// Of a 32-bit key.
    Int(i32),
    /// Of a 64-bit key.
    Long(i64),
    /// Of a floating point key.
    Double(f64),
    /// Of a text, word, class or password key.
    String(String),
    /// Of a list key.
    List(Vec<String>),
}

impl ConfigValue {
    /// The value if it is an integer of any width.
    pub fn as_long(&self) -> Option<i64> {
        match *self {
            Self::Short(value) => Some(value.into()),
            Self::Int(value) => Some(value.into()),
            Self::Long(value) => Some(value),
            Self::Bool(_) | Self::Double(_) | Self::String(_) | Self::List(_) => None,
        }
    }

    /// The value if it is a 32-bit integer (or narrower).
    pub fn as_int(&self) -> Option<i32> {
        self.as_long().and_then(|value| i32::try_from(value).ok())
    }

    /// The value if it is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = *self { Some(value) } else { None }
    }

    /// The value if it is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(value) = self { Some(value) } else { None }
    }

    /// The value if it is a list.
    pub fn as_list(&self) -> Option<&[String]> {
        if let Self::List(value) = self { Some(value) } else { None }
    }
}

impl fmt::Display for ConfigValue {
    /// The canonical text, which parses to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Short(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Long(value) => write!(f, "{value}"),
            // The debug form keeps the ".0" of whole numbers, as Java does.
            Self::Double(value) => write!(f, "{value:?}"),
            Self::String(value) => f.write_str(value),
            Self::List(items) => f.write_str(&items.join(",")),
        }
    }
}

impl ConfigKey {
    /// Reads a value by this key's rule.
    ///
    /// # Errors
    /// It is not one of the values that the key takes; the error says which are.
    pub fn parse(&self, text: &str) -> Result<ConfigValue, ConfigError> {
        parse(self.kind, text.trim()).ok_or_else(|| ConfigError::BadValue {
            key: self.name,
            value: if self.kind == Kind::Password { "[hidden]".to_string() } else { text.to_string() },
            allowed: self.kind.to_string(),
        })
    }

    /// The default as a value; `None` if there is none.
    pub fn default_value(&self) -> Option<ConfigValue> {
        self.default.and_then(|text| parse(self.kind, text))
    }
}

fn parse(kind: Kind, text: &str) -> Option<ConfigValue> {
    match kind {
        Kind::Bool => {
            if text.eq_ignore_ascii_case("true") {
                Some(ConfigValue::Bool(true))
            } else if text.eq_ignore_ascii_case("false") {
                Some(ConfigValue::Bool(false))
            } else {
                None
            }
        }
        Kind::Short { min, max } => {
            text.parse().ok().filter(|value| (min..=max).contains(value)).map(ConfigValue::Short)
        }
        Kind::Int { min, max } => text.parse().ok().filter(|value| (min..=max).contains(value)).map(ConfigValue::Int),
        Kind::IntOr { min, max, other } => {
            text.parse().ok().filter(|value| *value == other || (min..=max).contains(value)).map(ConfigValue::Int)
        }
        Kind::Long { min, max } => text.parse().ok().filter(|value| (min..=max).contains(value)).map(ConfigValue::Long),
        // NaN is in no range.
        Kind::Double { min, max } => {
            text.parse().ok().filter(|value| (min..=max).contains(value)).map(ConfigValue::Double)
        }
        Kind::String | Kind::Class | Kind::Password => Some(ConfigValue::String(text.to_string())),
        Kind::Enum(words) => words.contains(&text).then(|| ConfigValue::String(text.to_string())),
        Kind::List => list(text).map(ConfigValue::List),
        Kind::ListOf(words) => {
            list(text).filter(|items| items.iter().all(|item| words.contains(&item.as_str()))).map(ConfigValue::List)
        }
        Kind::ThrottledReplicas => list(text)
            .filter(|items| {
                matches!(items.as_slice(), [all] if all == "*") || items.iter().all(|item| is_replica(item))
            })
            .map(ConfigValue::List),
        Kind::OffsetReset => {
            let known = text == "latest" || text == "earliest";
            (known || text.strip_prefix("by_duration:").is_some_and(is_duration))
                .then(|| ConfigValue::String(text.to_string()))
        }
    }
}

/// Items separated by commas; the empty text is the empty list, an empty item is none.
fn list(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|item| Some(item.trim()).filter(|item| !item.is_empty()).map(ToString::to_string)).collect()
}

fn is_replica(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(':').is_some_and(|(partition, broker)| number(partition) && number(broker))
}

/// Whether the text is `PnDTnHnMn.nS` with at least one part and no sign.
fn is_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['P', 'p']) else { return false };
    let (days, time) = match rest.split_once(['T', 't']) {
        Some((_, "")) => return false,
        Some((days, time)) => (days, time),
        None => (rest, ""),
    };
    if days.is_empty() && time.is_empty() {
        return false;
    }
    let days_fit = days.is_empty() || days.strip_suffix(['D', 'd']).is_some_and(|number| is_number(number, false));
    days_fit && {
        let mut rest = time;
        for unit in [['H', 'h'], ['M', 'm'], ['S', 's']] {
            if let Some((number, behind)) = rest.split_once(unit) {
                if !is_number(number, unit[0] == 'S') {
                    return false;
                }
                rest = behind;
            }
        }
        rest.is_empty()
    }
}

fn is_number(text: &str, fraction: bool) -> bool {
    let (whole, part) = if fraction { text.split_once('.').unwrap_or((text, "")) } else { (text, "") };
    let digits = |text: &str| text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    !whole.is_empty() && digits(whole) && digits(part)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use crate::config::{Scope, parse};

    fn check(scope: Scope, name: &str, text: &str, expected: Result<&str, &str>) {
        let result = parse(scope, name, text).map(|value| value.to_string()).map_err(|error| error.to_string());
        let expected = expected.map(ToString::to_string).map_err(ToString::to_string);
        assert_eq!(result, expected, "{name}={text}");
    }

    #[test]
    fn values_are_read_as_kafka_reads_them() {
        let ok = |name, text, canonical| check(Scope::Topic, name, text, Ok(canonical));
        ok("cleanup.policy", "", "");
        ok("cleanup.policy", " delete , compact ", "delete,compact");
        ok("retention.ms", " 5 ", "5");
        ok("retention.ms", "+5", "5");
        ok("retention.bytes", "-5", "-5");
        ok("preallocate", "TRUE", "true");
        ok("compression.type", " gzip ", "gzip");
        ok("compression.gzip.level", "-1", "-1");
        ok("min.cleanable.dirty.ratio", "1", "1.0");
        ok("leader.replication.throttled.replicas", "*", "*");
        ok("leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2");
        for duration in ["PT1H", "P1DT2H3M4.5S", "P2D", "PT0S"] {
            let value = ["by_duration:", duration].concat();
            check(Scope::Group, "share.auto.offset.reset", &value, Ok(&value));
        }
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_allowed() {
        for (name, text, message) in [
            (
                "retention.ms",
                "-2",
                "'-2' is not a value for retention.ms: allowed is an integer from -1 to 9223372036854775807",
            ),
            (
                "retention.ms",
                "",
                "'' is not a value for retention.ms: allowed is an integer from -1 to 9223372036854775807",
            ),
            (
                "retention.ms",
                "1_000",
                "'1_000' is not a value for retention.ms: allowed is an integer from -1 to 9223372036854775807",
            ),
            ("preallocate", "yes", "'yes' is not a value for preallocate: allowed is true or false"),
            (
                "cleanup.policy",
                "Delete",
                "'Delete' is not a value for cleanup.policy: allowed is a list separated by commas of some of compact, delete",
            ),
            (
                "compression.gzip.level",
                "0",
                "'0' is not a value for compression.gzip.level: allowed is an integer from 1 to 9, or -1",
            ),
            (
                "min.cleanable.dirty.ratio",
                "NaN",
                "'NaN' is not a value for min.cleanable.dirty.ratio: allowed is a number from 0 to 1",
            ),
            (
                "leader.replication.throttled.replicas",
                "0",
                "'0' is not a value for leader.replication.throttled.replicas: allowed is '*' or a list of partition:broker pairs separated by commas",
            ),
            ("retension.ms", "1", "unknown topic config 'retension.ms'; did you mean 'retention.ms'?"),
            ("zzz", "1", "unknown topic config 'zzz'"),
        ] {
            check(Scope::Topic, name, text, Err(message));
        }
        for duration in ["", "P", "PT", "-PT1H", "PT-1H", "1H", "PT1S1H"] {
            let value = ["by_duration:", duration].concat();
            assert!(parse(Scope::Group, "share.auto.offset.reset", &value).is_err(), "{value}");
        }
    }

    #[test]
    fn every_default_is_a_value_of_its_key_in_canonical_form() {
        let keys = crate::config::topic_keys().iter().chain(crate::config::group_keys());
        for key in keys.chain(crate::config::broker_keys()) {
            if let Some(default) = key.default {
                assert_eq!(key.parse(default).expect(key.name).to_string(), default, "{}", key.name);
            }
        }
    }
}
