//! A group's values against the broker's bounds.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
};

use super::{BrokerConfig, ConfigError, ConfigMap, ConfigValue, Scope, key};

/// Bounds of a group's key: broker keys, empty for none.
struct Bound {
    key: &'static str,
    min: &'static str,
    max: &'static str,
}

const fn bound(key: &'static str, min: &'static str, max: &'static str) -> Bound {
    Bound { key, min, max }
}

#[rustfmt::skip]
static BOUNDS: &[Bound] = &[
    bound("consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    bound("consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    bound("consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    bound("share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    bound("share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
    bound("share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    bound("share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
    bound("share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    bound("share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    bound("streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
    bound("streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    bound("streams.num.standby.replicas", "", "group.streams.max.standby.replicas"),
    bound("streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"),
    bound("streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    bound("streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""),
];

/// The broker keys that bound a group's key from below and above, as far as there are any.
pub(super) fn bounds(name: &str) -> [Option<&'static str>; 2] {
    let bound = BOUNDS.iter().find(|bound| bound.key == name);
    let named = |key: &'static str| (!key.is_empty()).then_some(key);
    [bound.and_then(|bound| named(bound.min)), bound.and_then(|bound| named(bound.max))]
}

/// Checks all values set on a group: each alone, within the broker's bounds, and beside the others.
///
/// # Errors
/// The first key (by name) that is unknown, has a bad value, or contradicts another.
pub fn check_group_configs(configs: &ConfigMap, broker: &BrokerConfig) -> Result<(), ConfigError> {
    for (name, text) in configs {
        let key = key(Scope::Group, name).ok_or_else(|| ConfigError::unknown(Scope::Group, name))?;
        let value = key.parse(text)?;
        if let (Some(bound), Some(number)) = (BOUNDS.iter().find(|bound| bound.key == key.name), value.as_long()) {
            check_bound(bound, number, broker)?;
        }
        match key.name {
            "streams.assignor.name" => check_assignor(key.name, &value.to_string(), broker)?,
            "streams.rack.aware.assignment.tags" => check_tags(key.name, &value)?,
            _ => {}
        }
    }
    for protocol in ["consumer", "share", "streams"] {
        check_heartbeat(protocol, configs, broker)?;
    }
    Ok(())
}

fn check_bound(bound: &Bound, number: i64, broker: &BrokerConfig) -> Result<(), ConfigError> {
    let limit = |name: &'static str| (!name.is_empty()).then(|| broker.long(name));
    let (min, max) = (limit(bound.min), limit(bound.max));
    if min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max) {
        return Ok(());
    }
    let rule = match (min, max) {
        (Some(min), Some(max)) => {
            format!("it must be from {min} to {max}, the broker's {} and {}", bound.min, bound.max)
        }
        (Some(min), None) => format!("it must be at least {min}, the broker's {}", bound.min),
        (None, Some(max)) => format!("it must be at most {max}, the broker's {}", bound.max),
        (None, None) => String::new(),
    };
    Err(ConfigError::Conflict { key: bound.key, value: number.to_string(), rule })
}

fn check_assignor(key: &'static str, name: &str, broker: &BrokerConfig) -> Result<(), ConfigError> {
    let assignors = broker.list("group.streams.assignors");
    if assignors.iter().any(|assignor| assignor == name) {
        return Ok(());
    }
    let rule = format!("it must be one of the broker's group.streams.assignors: {}", assignors.join(", "));
    Err(ConfigError::Conflict { key, value: name.to_string(), rule })
}

fn check_tags(key: &'static str, value: &ConfigValue) -> Result<(), ConfigError> {
    let tags = value.as_list().unwrap_or_default();
    let duplicate = tags.iter().enumerate().find(|(index, tag)| tags[..*index].contains(*tag));
    duplicate.map_or(Ok(()), |(_, tag)| {
        let rule = format!("'{tag}' is named twice, each tag may be named once");
        Err(ConfigError::Conflict { key, value: value.to_string(), rule })
    })
}

/// If the group sets one of the two, its heartbeats must come more often than its session times out.
fn check_heartbeat(protocol: &str, configs: &ConfigMap, broker: &BrokerConfig) -> Result<(), ConfigError> {
    let heartbeat = format!("{protocol}.heartbeat.interval.ms");
    let session = format!("{protocol}.session.timeout.ms");
    if !configs.contains_key(&heartbeat) && !configs.contains_key(&session) {
        return Ok(());
    }
    let value = |name: &str| {
        configs
            .get(name)
            .and_then(|text| super::parse(Scope::Group, name, text).ok())
            .and_then(|value| value.as_long())
            .unwrap_or_else(|| broker.long(&format!("group.{name}")))
    };
    let (interval, timeout) = (value(&heartbeat), value(&session));
    if interval < timeout {
        return Ok(());
    }
    let Some(key) = key(Scope::Group, &session) else { return Ok(()) };
    let rule = format!("it must be above {heartbeat}, which is {interval}");
    Err(ConfigError::Conflict { key: key.name, value: timeout.to_string(), rule })
}

/// A group's own values, typed. A stored value that its key no longer takes is left out; bounds are not applied.
pub fn group_overrides(own: &ConfigMap) -> BTreeMap<&'static str, ConfigValue> {
    own.iter()
        .filter_map(|(name, text)| {
            let key = key(Scope::Group, name)?;
            Some((key.name, key.parse(text).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::check_group_configs;
    use crate::config::{BrokerConfig, ConfigMap};

    fn check(entries: &[(&str, &str)], expected: Result<(), &str>) {
        let mut broker = BrokerConfig::empty();
        broker.set("group.streams.max.session.timeout.ms", "90000").unwrap();
        broker.set("group.streams.max.heartbeat.interval.ms", "80000").unwrap();
        let configs: ConfigMap = entries.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let result = check_group_configs(&configs, &broker).map_err(|error| error.to_string());
        assert_eq!(result, expected.map_err(ToString::to_string), "{entries:?}");
    }

    #[test]
    fn values_within_the_brokers_bounds_pass() {
        check(
            &[
                ("streams.session.timeout.ms", "90000"),
                ("streams.heartbeat.interval.ms", "80000"),
                ("streams.num.standby.replicas", "2"),
                ("streams.assignor.name", "sticky"),
                ("streams.rack.aware.assignment.tags", "zone,cluster"),
                ("streams.initial.rebalance.delay.ms", "0"),
                ("streams.acceptable.recovery.lag", "0"),
                ("consumer.session.timeout.ms", "45000"),
                ("share.auto.offset.reset", "earliest"),
            ],
            Ok(()),
        );
    }

    #[test]
    fn values_outside_are_refused_with_what_is_allowed() {
        for (name, value, message) in [
            (
                "streams.session.timeout.ms",
                "44999",
                "streams.session.timeout.ms=44999 is not allowed: it must be from 45000 to 90000, the broker's group.streams.min.session.timeout.ms and group.streams.max.session.timeout.ms",
            ),
            (
                "streams.session.timeout.ms",
                "0",
                "'0' is not a value for streams.session.timeout.ms: allowed is an integer from 1 to 2147483647",
            ),
            (
                "streams.num.standby.replicas",
                "3",
                "streams.num.standby.replicas=3 is not allowed: it must be at most 2, the broker's group.streams.max.standby.replicas",
            ),
            (
                "streams.task.offset.interval.ms",
                "1",
                "streams.task.offset.interval.ms=1 is not allowed: it must be at least 15000, the broker's group.streams.min.task.offset.interval.ms",
            ),
            (
                "streams.assignor.name",
                "mine",
                "streams.assignor.name=mine is not allowed: it must be one of the broker's group.streams.assignors: sticky",
            ),
            (
                "streams.rack.aware.assignment.tags",
                "a,b,a",
                "streams.rack.aware.assignment.tags=a,b,a is not allowed: 'a' is named twice, each tag may be named once",
            ),
            (
                "streams.heartbeat.interval.ms",
                "60000",
                "streams.session.timeout.ms=45000 is not allowed: it must be above streams.heartbeat.interval.ms, which is 60000",
            ),
            (
                "streams.session.timeout",
                "1",
                "unknown group config 'streams.session.timeout'; did you mean 'streams.session.timeout.ms'?",
            ),
        ] {
            check(&[(name, value)], Err(message));
        }
    }
}
