//! The tables compared with facts read from Kafka's own definitions.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use super::{
    ConfigKey, Importance, KAFKA_ONLY_BROKER_KEYS, Kind, Scope, broker_keys, group_keys, key, own_keys, topic_keys,
};

const FACTS: &str = include_str!("../../testdata/kafka-4.4.0-configs.tsv");

/// Broker keys whose default differs from Kafka's; each key's own text says why.
const OWN_DEFAULTS: [&str; 5] = ["controller.listener.names", "listeners", "log.dir", "node.id", "process.roles"];

fn facts(table: &str) -> impl Iterator<Item = Vec<&'static str>> {
    FACTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(move |fields| fields[0] == table)
}

fn compare(scope: Scope, fields: &[&str]) {
    let [_, name, config_type, default, importance, internal, validator] = fields else {
        panic!("a fact has 7 fields: {fields:?}")
    };
    let Some(key) = key(scope, name) else {
        assert!(scope == Scope::Broker && KAFKA_ONLY_BROKER_KEYS.contains(name), "{scope} key {name} is missing");
        return;
    };
    let our_importance = match key.importance {
        Importance::High => "HIGH",
        Importance::Medium => "MEDIUM",
        Importance::Low => "LOW",
    };
    assert_eq!(key.kind.config_type().to_string().to_uppercase(), *config_type, "type of {name}");
    assert_eq!(our_importance, *importance, "importance of {name}");
    assert_eq!(key.internal, *internal == "internal", "{name} is internal");
    if !(scope == Scope::Broker && OWN_DEFAULTS.contains(name)) {
        assert_eq!(key.default.unwrap_or("(null)"), *default, "default of {name}");
    }
    compare_bounds(key, validator);
}

/// Where Kafka has bounds we have the same; where it has none we may have some.
fn compare_bounds(key: &ConfigKey, validator: &str) {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
    let theirs =
        || validator.trim_matches(['[', ']']).split(", ").map(ToString::to_string).collect::<BTreeSet<String>>();
    match key.kind {
        Kind::Enum(allowed) | Kind::ListOf(allowed) => assert_eq!(words(allowed), theirs(), "words of {}", key.name),
        Kind::Short { min, max } => compare_range(key.name, min, max, i16::MAX, validator),
        Kind::Int { min, max } => compare_range(key.name, min, max, i32::MAX, validator),
        Kind::Long { min, max } => compare_range(key.name, min, max, i64::MAX, validator),
        Kind::Double { min, max } => compare_range(key.name, min, max, f64::MAX, validator),
        Kind::IntOr { min, max, other } => {
            assert_eq!(format!("[{min},...,{max}] or {other}"), validator, "bounds of {}", key.name);
        }
        Kind::Bool
        | Kind::String
        | Kind::List
        | Kind::ThrottledReplicas
        | Kind::OffsetReset
        | Kind::Class
        | Kind::Password => {}
    }
}

fn compare_range<T: PartialEq + ToString>(name: &str, min: T, max: T, type_max: T, validator: &str) {
    // Ours is narrower where more could not be carried out.
    let narrower = ["offsets.topic.num.partitions"].contains(&name);
    if validator == "-" || narrower {
        return;
    }
    let ours = if max == type_max {
        format!("[{},...]", min.to_string())
    } else {
        format!("[{},...,{}]", min.to_string(), max.to_string())
    };
    assert_eq!(ours, validator, "bounds of {name}");
}

#[test]
fn every_key_of_kafka_is_known_with_its_type_default_and_bounds() {
    for (scope, table) in [(Scope::Topic, "topic"), (Scope::Group, "group"), (Scope::Broker, "broker")] {
        assert!(facts(table).count() > 20, "facts on {table} keys");
        facts(table).for_each(|fields| compare(scope, &fields));
    }
}

#[test]
fn no_key_is_made_up() {
    let known = |table| facts(table).map(|fields| fields[1]).collect::<BTreeSet<_>>();
    let (topics, groups, brokers) = (known("topic"), known("group"), known("broker"));
    topic_keys().iter().for_each(|key| assert!(topics.contains(key.name), "{}", key.name));
    group_keys().iter().for_each(|key| assert!(groups.contains(key.name), "{}", key.name));
    KAFKA_ONLY_BROKER_KEYS.iter().for_each(|key| assert!(brokers.contains(key), "{key}"));
    for key in broker_keys() {
        assert!(brokers.contains(key.name) != key.name.starts_with("riparian."), "{}", key.name);
    }
    own_keys::OWN_KEYS.iter().for_each(|key| assert!(key.name.starts_with("riparian."), "{}", key.name));
}

#[test]
fn defaults_come_from_the_broker_keys_that_kafka_takes_them_from() {
    for (scope, table) in [(Scope::Topic, "topicsyn"), (Scope::Group, "groupsyn")] {
        let theirs: BTreeMap<_, _> =
            facts(table).map(|fields| (fields[1], fields.get(2).copied().unwrap_or(""))).collect();
        let keys = if scope == Scope::Topic { topic_keys() } else { group_keys() };
        for own in keys {
            let ours: String =
                own.synonyms.iter().map(|synonym| format!("{} {},", synonym.name, synonym.factor)).collect();
            assert_eq!(ours, *theirs.get(own.name).unwrap_or(&""), "synonyms of {}", own.name);
            for synonym in own.synonyms {
                let broker = key(Scope::Broker, synonym.name).expect(synonym.name);
                assert_eq!(broker.internal, own.internal, "{} and {}", own.name, broker.name);
                assert_eq!(broker.support, own.support, "{} and {}", own.name, broker.name);
            }
        }
    }
}

#[test]
fn tables_are_ordered_by_name() {
    for keys in [topic_keys(), group_keys(), super::broker_keys::BROKER_KEYS, own_keys::OWN_KEYS] {
        assert!(keys.is_sorted_by(|a, b| a.name < b.name));
    }
    assert!(KAFKA_ONLY_BROKER_KEYS.is_sorted());
}
