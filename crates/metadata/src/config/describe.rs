//! Every key of a resource with its value, where the value comes from, and what lies below it.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use super::{
    ConfigKey, ConfigMap, ConfigType, ConfigValue, Kind, Layers, Scope, Support, broker_keys, group_keys, key,
    topic_keys,
};

/// Where a value was set, by its number in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSource {
    /// On the topic.
    Topic = 1,
    /// On this broker, while it ran.
    DynamicBroker = 2,
    /// On all brokers, while they ran.
    DynamicDefaultBroker = 3,
    /// In the server's properties.
    StaticBroker = 4,
    /// Nowhere.
    Default = 5,
    /// On the group.
    Group = 8,
}

/// One key of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigEntry {
    /// The key, with its documentation.
    pub key: &'static ConfigKey,
    /// Its value; `None` if there is none, or if it is secret.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it cannot be changed while the server runs.
    pub read_only: bool,
    /// Everything that is set for this key, the value that counts first; the default last.
    pub synonyms: Vec<ConfigSynonym>,
}

/// One layer's value for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The key's name in that layer.
    pub name: &'static str,
    /// The value as set there; `None` if it is secret.
    pub value: Option<String>,
    /// Which layer.
    pub source: ConfigSource,
}

impl ConfigEntry {
    /// Whether the value must not be shown.
    pub fn sensitive(&self) -> bool {
        self.key.sensitive()
    }

    /// The type, as Kafka's tools know it.
    pub const fn config_type(&self) -> ConfigType {
        self.key.kind.config_type()
    }
}

impl ConfigKey {
    /// Whether values must not be shown.
    pub fn sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    /// What the key does, and whether it does.
    pub fn documentation(&self) -> String {
        match self.support {
            Support::Full => self.doc.to_string(),
            Support::NoEffect(why) => alloc::format!("{} Accepted, but without effect: {why}.", self.doc),
        }
    }

    fn shown(&self, value: String) -> Option<String> {
        (!self.sensitive()).then_some(value)
    }
}

/// The keys of a topic that has these values set on it. Internal keys are left out unless they are set.
pub fn describe_topic(layers: &Layers<'_>, own: &ConfigMap, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    describe(layers, topic_keys(), own, ConfigSource::Topic, wanted)
}

/// The keys of a group that has these values set on it. Internal keys are left out unless they are set.
pub fn describe_group(layers: &Layers<'_>, own: &ConfigMap, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    describe(layers, group_keys(), own, ConfigSource::Group, wanted)
}

fn describe(
    layers: &Layers<'_>,
    keys: &'static [ConfigKey],
    own: &ConfigMap,
    own_source: ConfigSource,
    wanted: impl Fn(&str) -> bool,
) -> Vec<ConfigEntry> {
    let listed = |key: &ConfigKey| (!key.internal || own.contains_key(key.name)) && wanted(key.name);
    keys.iter()
        .filter(|key| listed(key))
        .map(|key| {
            let (value, source) = layers.effective(key, own);
            let mut synonyms = Vec::new();
            if let Some(text) = own.get(key.name) {
                synonyms.push(ConfigSynonym { name: key.name, value: key.shown(text.clone()), source: own_source });
            }
            synonyms.extend(layer_values(layers, key.synonyms.iter().map(|synonym| synonym.name)));
            // Kafka lists the default of such a key for groups and not for topics.
            if key.synonyms.is_empty() && key.scope == Scope::Group {
                let value = key.default.map(ToString::to_string);
                synonyms.push(ConfigSynonym { name: key.name, value, source: ConfigSource::Default });
            }
            ConfigEntry {
                key,
                value: value.and_then(|value| key.shown(value.to_string())),
                source,
                read_only: false,
                synonyms,
            }
        })
        .collect()
}

/// The keys of this broker; with `cluster_default` only what is set dynamically on all brokers, as Kafka's tools expect.
/// Internal keys are left out.
pub fn describe_broker(layers: &Layers<'_>, cluster_default: bool, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    let listed = broker_keys().filter(|key| !key.internal && wanted(key.name));
    listed
        .filter_map(|key| {
            let (value, source) = if cluster_default {
                let value = layers.dynamic_default.get(key.name).and_then(|text| key.parse(text).ok())?;
                (Some(value), ConfigSource::DynamicDefaultBroker)
            } else {
                match layers.set_broker_value(key) {
                    Some((value, source)) => (Some(value), source),
                    None => (key.default_value(), ConfigSource::Default),
                }
            };
            Some(ConfigEntry {
                key,
                value: value.and_then(|value| key.shown(value.to_string())),
                source,
                read_only: !key.dynamic,
                synonyms: layer_values(layers, core::iter::once(key.name)),
            })
        })
        .collect()
}

/// What the layers say of these broker keys: layer by layer, in each the keys in their order.
fn layer_values(layers: &Layers<'_>, names: impl Iterator<Item = &'static str> + Clone) -> Vec<ConfigSynonym> {
    let keys = names.filter_map(|name| key(Scope::Broker, name));
    let mut values = Vec::new();
    let mut add = |source, text: &dyn Fn(&'static ConfigKey) -> Option<String>| {
        values.extend(keys.clone().filter_map(|key| {
            let text = text(key)?;
            Some(ConfigSynonym { name: key.name, value: key.shown(text), source })
        }));
    };
    add(ConfigSource::DynamicBroker, &|key| layers.dynamic.get(key.name).cloned());
    add(ConfigSource::DynamicDefaultBroker, &|key| layers.dynamic_default.get(key.name).cloned());
    add(ConfigSource::StaticBroker, &|key| layers.properties.set_value(key.name).map(ConfigValue::to_string));
    add(ConfigSource::Default, &|key| key.default.map(ToString::to_string));
    values
}

#[cfg(test)]
mod tests {
    use alloc::{
        format,
        string::{String, ToString},
        vec::Vec,
    };

    use super::{ConfigEntry, ConfigSource, describe_broker, describe_group, describe_topic};
    use crate::config::{BrokerConfig, ConfigMap, Layers};

    fn line(entry: &ConfigEntry) -> String {
        let synonyms: Vec<_> = entry
            .synonyms
            .iter()
            .map(|synonym| format!("{:?}:{}={}", synonym.source, synonym.name, synonym.value.as_deref().unwrap_or("-")))
            .collect();
        format!(
            "{}={} {:?} [{}]",
            entry.key.name,
            entry.value.as_deref().unwrap_or("-"),
            entry.source,
            synonyms.join(" ")
        )
    }

    const KAFKAS: &str = include_str!("../../testdata/kafka-4.4.0-describe.tsv");

    /// Kafka leaves out what lies below these, where a broker key in other units gives the value.
    const MORE_SYNONYMS: [&str; 4] = ["flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms"];

    fn kafkas_line(entry: &ConfigEntry) -> String {
        let source = |source: ConfigSource| match source {
            ConfigSource::Topic => "DYNAMIC_TOPIC_CONFIG",
            ConfigSource::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            ConfigSource::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            ConfigSource::StaticBroker => "STATIC_BROKER_CONFIG",
            ConfigSource::Default => "DEFAULT_CONFIG",
            ConfigSource::Group => "DYNAMIC_GROUP_CONFIG",
        };
        let synonyms: Vec<_> = entry
            .synonyms
            .iter()
            .map(|synonym| {
                format!("{}:{}={}", source(synonym.source), synonym.name, synonym.value.as_deref().unwrap_or("null"))
            })
            .collect();
        let (name, value) = (entry.key.name, entry.value.as_deref().unwrap_or("null"));
        let config_type = entry.config_type().to_string().to_uppercase();
        format!("{name}\t{value}\t{}\t{config_type}\t{}", source(entry.source), synonyms.join(" "))
    }

    #[test]
    fn kafkas_tools_see_what_a_kafka_broker_shows() {
        let mut broker = BrokerConfig::empty();
        for (name, value) in [
            ("log.retention.hours", "2"),
            ("log.roll.jitter.hours", "1"),
            ("group.streams.session.timeout.ms", "50000"),
        ] {
            broker.set(name, value).unwrap();
        }
        let map = |entries: &[(&str, &str)]| -> ConfigMap {
            entries.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let dynamic = map(&[("log.segment.bytes", "3000000")]);
        let dynamic_default = map(&[("log.segment.bytes", "2000000"), ("log.cleanup.policy", "delete,compact")]);
        let layers = Layers { dynamic: &dynamic, dynamic_default: &dynamic_default, properties: &broker };
        let topic = map(&[("cleanup.policy", "delete,compact"), ("segment.bytes", "4000000")]);
        let lines = KAFKAS.lines().filter_map(|line| line.strip_prefix("G\t"));
        let set = lines.filter(|line| line.contains("\tDYNAMIC_GROUP_CONFIG\t"));
        let group = set
            .map(|line| {
                let mut fields = line.split('\t').map(ToString::to_string);
                (fields.next().unwrap(), fields.next().unwrap())
            })
            .collect();
        let ours = describe_topic(&layers, &topic, |_| true)
            .iter()
            .map(|entry| format!("T\t{}", kafkas_line(entry)))
            .chain(describe_group(&layers, &group, |_| true).iter().map(|entry| format!("G\t{}", kafkas_line(entry))))
            .collect::<Vec<_>>();
        let ours: Vec<_> = ours.iter().map(|line| line.trim_end()).collect();
        let differs = |line: &&str| MORE_SYNONYMS.iter().any(|name| line.starts_with(&format!("T\t{name}\t")));
        // It shows the default of the broker as if somebody had set it, because of eligible leader replicas.
        let min_insync = |line: &&str| line.starts_with("T\tmin.insync.replicas\t");
        let theirs = KAFKAS.lines().filter(|line| !line.starts_with('#') && !differs(line));
        let ours = ours.into_iter().filter(|line| !differs(line) && !min_insync(line));
        for (ours, theirs) in ours.clone().zip(theirs.clone()) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(ours.count(), theirs.count());
    }

    fn with_layers<T>(properties: &[(&str, &str)], default: &[(&str, &str)], then: impl FnOnce(&Layers<'_>) -> T) -> T {
        let mut broker = BrokerConfig::empty();
        for (name, value) in properties {
            broker.set(name, value).unwrap();
        }
        let default: ConfigMap = default.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        then(&Layers { dynamic: &ConfigMap::new(), dynamic_default: &default, properties: &broker })
    }

    #[test]
    fn a_topics_value_is_shown_with_everything_below_it() {
        let own = ConfigMap::from([("retention.ms".into(), "7".into())]);
        let only = |name: &str| name == "retention.ms";
        let properties = [("log.retention.hours", "2")];
        let default = [("log.retention.ms", "8")];
        let lines: Vec<_> = with_layers(&properties, &default, |layers| {
            [&own, &ConfigMap::new()].iter().map(|own| line(&describe_topic(layers, own, only)[0])).collect()
        });
        assert_eq!(
            lines,
            [
                "retention.ms=7 Topic [Topic:retention.ms=7 DynamicDefaultBroker:log.retention.ms=8 StaticBroker:log.retention.hours=2 Default:log.retention.hours=168]",
                "retention.ms=8 DynamicDefaultBroker [DynamicDefaultBroker:log.retention.ms=8 StaticBroker:log.retention.hours=2 Default:log.retention.hours=168]",
            ]
        );
    }

    #[test]
    fn a_groups_value_is_shown_with_the_brokers() {
        let own = ConfigMap::from([("streams.num.standby.replicas".into(), "1".into())]);
        let lines: Vec<_> = with_layers(&[("group.streams.session.timeout.ms", "50000")], &[], |layers| {
            describe_group(layers, &own, |name| name.starts_with("streams.")).iter().map(line).collect()
        });
        assert_eq!(
            lines,
            [
                "streams.assignment.interval.ms=1000 Default [Default:group.streams.assignment.interval.ms=1000]",
                "streams.assignor.name=sticky Default [Default:group.streams.assignors=sticky]",
                "streams.heartbeat.interval.ms=5000 Default [Default:group.streams.heartbeat.interval.ms=5000]",
                "streams.initial.rebalance.delay.ms=3000 Default [Default:group.streams.initial.rebalance.delay.ms=3000]",
                "streams.num.standby.replicas=1 Group [Group:streams.num.standby.replicas=1 Default:group.streams.num.standby.replicas=0]",
                "streams.rack.aware.assignment.tags= Default [Default:group.streams.rack.aware.assignment.tags=]",
                "streams.session.timeout.ms=50000 StaticBroker [StaticBroker:group.streams.session.timeout.ms=50000 Default:group.streams.session.timeout.ms=45000]",
            ]
        );
    }

    #[test]
    fn a_broker_shows_all_its_keys_and_the_cluster_only_what_is_set() {
        let default = [("log.retention.ms", "8")];
        with_layers(&[("num.partitions", "3")], &default, |layers| {
            let cluster: Vec<_> = describe_broker(layers, true, |_| true).iter().map(line).collect();
            assert_eq!(cluster, ["log.retention.ms=8 DynamicDefaultBroker [DynamicDefaultBroker:log.retention.ms=8]"]);
            let broker = describe_broker(layers, false, |_| true);
            let partitions = broker.iter().find(|entry| entry.key.name == "num.partitions").unwrap();
            assert_eq!(
                line(partitions),
                "num.partitions=3 StaticBroker [StaticBroker:num.partitions=3 Default:num.partitions=1]"
            );
            assert!(partitions.read_only);
            assert!(!broker.iter().any(|entry| entry.key.internal));
        });
    }
}
