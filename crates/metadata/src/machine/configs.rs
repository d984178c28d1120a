//! Changing configs key by key (KIP-339).

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};

use riparian_types::{
    limits::{CONFIG_VALUE_BYTES_MAX, CONFIGURED_GROUP_ID_BYTES_MAX, CONFIGURED_GROUPS_MAX},
    topic,
};

use super::{Batch, MetadataMachine, Soft, create::warn};
use crate::{
    ConfigResource,
    command::{AlterConfigs, AlterOperation, AlterResource, ConfigChange},
    config::{self, ConfigError, ConfigKey, ConfigMap, ConfigValue, Scope, check_group_configs},
    record::{ConfigRecord, Record},
    reply::{AlterConfigsError, Effect, Growing, LimitExceeded, Reply, Warning},
};

/// What a command has changed so far, by kind of resource.
#[derive(Default)]
struct Changed {
    topics: Vec<riparian_types::TopicName>,
    groups: Vec<riparian_types::GroupId>,
    broker: bool,
    new_groups: usize,
    warnings: Vec<Warning>,
}

impl MetadataMachine {
    pub(super) fn alter_configs(&self, soft: &mut Soft, alter: AlterConfigs) -> (Batch, Reply) {
        let mut batch = Batch::default();
        let mut changed = Changed::default();
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<ConfigResource> = alter
            .resources
            .iter()
            .filter(|alter| !seen.insert(&alter.resource))
            .map(|alter| alter.resource.clone())
            .collect();
        let mut results = Vec::with_capacity(alter.resources.len());
        for AlterResource { resource, changes } in alter.resources {
            let result = if twice.contains(&resource) {
                Err(AlterConfigsError::NamedTwice)
            } else {
                self.alter_resource(&resource, changes, &mut changed, &mut batch)
            };
            results.push((resource, result));
        }
        if alter.validate_only {
            batch.discard();
        } else {
            if !changed.topics.is_empty() {
                batch.effects.push(Effect::TopicConfigChanged(changed.topics));
            }
            if !changed.groups.is_empty() {
                batch.effects.push(Effect::GroupConfigChanged(changed.groups));
            }
            if changed.broker {
                batch.effects.push(Effect::BrokerConfigChanged);
            }
            warn(soft, changed.warnings, &mut batch);
        }
        (batch, Reply::AlterConfigs(results))
    }

    fn alter_resource(
        &self,
        resource: &ConfigResource,
        changes: Vec<ConfigChange>,
        changed: &mut Changed,
        batch: &mut Batch,
    ) -> Result<(), AlterConfigsError> {
        let scope = self.check_resource(resource)?;
        let before = self.image.config(resource);
        let mut after = self.changed_configs(scope, before, changes).map_err(AlterConfigsError::Config)?;
        let capped = match scope {
            Scope::Topic => self.canonical_topic_configs(&mut after),
            Scope::Group => check_group_configs(&after, &self.settings.properties).map(|()| None),
            Scope::Broker => self.cap_min_insync_replicas(&mut after),
        };
        let capped = capped.map_err(AlterConfigsError::Config)?;
        if *before == after && capped.is_none() {
            return Ok(());
        }
        let new_group = scope == Scope::Group && before.is_empty() && !after.is_empty();
        if new_group && self.image.configured_group_count() + changed.new_groups >= CONFIGURED_GROUPS_MAX {
            let (what, max) = (Growing::ConfiguredGroups, CONFIGURED_GROUPS_MAX as i64);
            return Err(AlterConfigsError::Limit(LimitExceeded { what, max }));
        }
        changed.new_groups += usize::from(new_group);
        if let (ConfigResource::Topic(topic), Some(_)) = (resource, capped) {
            let topic = topic.clone();
            changed.warnings.push(Warning::ReplicationCapped {
                topic,
                replication_factor: None,
                min_insync_replicas: capped,
            });
        }
        let records = differences(resource, before, &after);
        if records.is_empty() {
            return Ok(());
        }
        batch.records.extend(records);
        match resource {
            ConfigResource::Topic(name) => changed.topics.push(name.clone()),
            ConfigResource::Group(id) => changed.groups.push(id.clone()),
            ConfigResource::Broker(_) => changed.broker = true,
        }
        Ok(())
    }

    fn check_resource(&self, resource: &ConfigResource) -> Result<Scope, AlterConfigsError> {
        match resource {
            ConfigResource::Topic(name) if self.image.topic(name).is_none() => {
                let name = name.clone();
                Err(match topic::check_name(&name) {
                    Ok(()) => AlterConfigsError::UnknownTopic { name },
                    Err(reason) => AlterConfigsError::InvalidName { name, reason },
                })
            }
            ConfigResource::Topic(_) => Ok(Scope::Topic),
            ConfigResource::Broker(Some(id)) if *id != self.settings.node_id => {
                Err(AlterConfigsError::UnknownBroker { broker: id.0, known: self.settings.node_id.0 })
            }
            ConfigResource::Broker(_) => Ok(Scope::Broker),
            ConfigResource::Group(id) if id.is_empty() || id.len() > CONFIGURED_GROUP_ID_BYTES_MAX => {
                Err(AlterConfigsError::InvalidGroupId)
            }
            ConfigResource::Group(_) => Ok(Scope::Group),
        }
    }

    /// The resource's configs after these changes, each value checked by its key.
    fn changed_configs(
        &self,
        scope: Scope,
        before: &ConfigMap,
        changes: Vec<ConfigChange>,
    ) -> Result<ConfigMap, ConfigError> {
        let mut after = before.clone();
        let mut named = BTreeSet::new();
        for ConfigChange { key, operation, value } in changes {
            if !named.insert(key.clone()) {
                return Err(ConfigError::DuplicateKey { key });
            }
            let Some(found) = config::key(scope, &key) else {
                // As in Kafka: what another version stored can be taken away, and what nobody set is not set.
                if operation == AlterOperation::Delete {
                    after.remove(&key);
                    continue;
                }
                return Err(ConfigError::unknown(scope, &key));
            };
            if !found.dynamic {
                return Err(ConfigError::ReadOnly { key: found.name });
            }
            let value = match operation {
                AlterOperation::Delete => None,
                AlterOperation::Set => Some(found.parse(&value.ok_or(ConfigError::NullValue { key })?)?),
                AlterOperation::Append | AlterOperation::Subtract => {
                    if !found.kind.is_list() {
                        return Err(ConfigError::NotAList { key: found.name });
                    }
                    let items = found.parse(&value.ok_or(ConfigError::NullValue { key })?)?;
                    Some(self.changed_list(scope, found, before, operation, &items)?)
                }
            };
            match value {
                None => after.remove(found.name),
                Some(value) => {
                    let text = value.to_string();
                    if text.len() > CONFIG_VALUE_BYTES_MAX {
                        return Err(ConfigError::TooLong { key: found.name, bytes_max: CONFIG_VALUE_BYTES_MAX });
                    }
                    after.insert(found.name.to_string(), text)
                }
            };
        }
        Ok(after)
    }

    /// The list that counts now, with items added or taken out.
    fn changed_list(
        &self,
        scope: Scope,
        key: &'static ConfigKey,
        before: &ConfigMap,
        operation: AlterOperation,
        items: &ConfigValue,
    ) -> Result<ConfigValue, ConfigError> {
        let layers = self.image.layers(self.settings.node_id, &self.settings.properties);
        let current = match scope {
            Scope::Topic | Scope::Group => layers.effective(key, before).0,
            Scope::Broker => before
                .get(key.name)
                .and_then(|text| key.parse(text).ok())
                .or_else(|| layers.set_broker_value(key).map(|(value, _)| value))
                .or_else(|| key.default_value()),
        };
        let mut list: Vec<String> =
            current.as_ref().and_then(ConfigValue::as_list).map(<[String]>::to_vec).unwrap_or_default();
        let items = items.as_list().unwrap_or_default();
        if operation == AlterOperation::Append {
            for item in items {
                if !list.contains(item) {
                    list.push(item.clone());
                }
            }
        } else {
            list.retain(|item| !items.contains(item));
        }
        // A list may be wrong as a whole although its items are right ('*' beside others).
        key.parse(&list.join(","))
    }

    /// Counts a `min.insync.replicas` above 1 as 1, and gives it; or refuses it, as the properties say.
    pub(super) fn cap_min_insync_replicas(&self, configs: &mut ConfigMap) -> Result<Option<i32>, ConfigError> {
        const KEY: &str = "min.insync.replicas";
        let Some(text) = configs.get_mut(KEY) else { return Ok(None) };
        let Some(replicas) = text.parse::<i32>().ok().filter(|replicas| *replicas > 1) else { return Ok(None) };
        if !self.settings.properties.bool("riparian.replication.cap") {
            return Err(ConfigError::Unsupported {
                key: KEY,
                value: text.clone(),
                reason: "there is one replica, only 1 is allowed (riparian.replication.cap=true counts more as 1)",
            });
        }
        *text = "1".to_string();
        Ok(Some(replicas))
    }
}

/// Brings every value into the form that its key writes.
pub(super) fn canonical(scope: Scope, configs: &mut ConfigMap) -> Result<(), ConfigError> {
    for (name, text) in configs.iter_mut() {
        let key = config::key(scope, name).ok_or_else(|| ConfigError::unknown(scope, name))?;
        *text = key.parse(text)?.to_string();
        if text.len() > CONFIG_VALUE_BYTES_MAX {
            return Err(ConfigError::TooLong { key: key.name, bytes_max: CONFIG_VALUE_BYTES_MAX });
        }
    }
    Ok(())
}

/// The records that turn one set of configs into the other, ordered by key.
fn differences(resource: &ConfigResource, before: &ConfigMap, after: &ConfigMap) -> Vec<Record> {
    let record = |key: &String, value: Option<&String>| {
        Record::Config(ConfigRecord { resource: resource.clone(), key: key.clone(), value: value.cloned() })
    };
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| record(key, None));
    let set = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    removed.chain(set.map(|(key, value)| record(key, Some(value)))).collect()
}
