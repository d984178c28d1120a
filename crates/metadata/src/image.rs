//! Hard state: the cluster's metadata as the log has it.
//!
//! A clone is cheap and never changes: request handlers keep one and read it without a lock. Applying a record changes
//! only what no clone shares any more.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    sync::Arc,
};

use riparian_types::{
    GroupId, NodeId, Offset, PartitionCount, ProducerId, TopicName, TopicSummary, TopicsView, Uuid,
    cow_map::CowMap,
    machine::{Inconsistent, RecordContext},
};

use crate::{
    config::{BrokerConfig, ConfigMap, Layers, TopicConfig},
    record::{ConfigRecord, PartitionRecord, ProducerIdsRecord, Record, TopicRecord},
};

/// What has configs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResource {
    /// One topic. Kafka's type 2.
    Topic(TopicName),
    /// One broker, or all of them. Kafka's type 4.
    Broker(Option<NodeId>),
    /// One group. Kafka's type 32.
    Group(GroupId),
}

impl ConfigResource {
    /// The resource type's number in Kafka's protocol and records.
    pub const fn type_number(&self) -> i8 {
        match self {
            Self::Topic(_) => 2,
            Self::Broker(_) => 4,
            Self::Group(_) => 32,
        }
    }

    /// The resource's name in Kafka's protocol and records; empty for all brokers.
    pub fn name(&self) -> String {
        match self {
            Self::Topic(name) => name.to_string(),
            Self::Broker(Some(id)) => id.to_string(),
            Self::Broker(None) => String::new(),
            Self::Group(id) => id.to_string(),
        }
    }

    /// The resource of this type and name; `None` if the type has no configs here or a broker's name is no number.
    pub fn from_parts(type_number: i8, name: &str) -> Option<Self> {
        match type_number {
            2 => Some(Self::Topic(name.into())),
            4 if name.is_empty() => Some(Self::Broker(None)),
            4 => name.parse().ok().map(|id| Self::Broker(Some(NodeId(id)))),
            32 => Some(Self::Group(name.into())),
            _ => None,
        }
    }
}

/// A topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicImage {
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has, numbered from 0.
    pub partitions: PartitionCount,
    /// Where the record stands that created it: topics are ordered by it as they were created.
    pub created_at: Offset,
}

/// The cluster's metadata; see the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataImage {
    view: TopicsView,
    by_id: CowMap<Uuid, TopicEntry>,
    /// Names with '.' or '_', by the name that has '_' for both.
    by_unified_name: CowMap<TopicName, TopicName>,
    configs: CowMap<ConfigResource, Arc<ConfigMap>>,
    features: Arc<BTreeMap<String, i16>>,
    features_epoch: i64,
    next_producer_id: ProducerId,
    partitions: i64,
    configured_groups: usize,
    applied: Offset,
}

#[derive(Clone, Debug, PartialEq)]
struct TopicEntry {
    name: TopicName,
    created_at: Offset,
}

static NO_CONFIGS: ConfigMap = ConfigMap::new();

impl MetadataImage {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self {
            view: TopicsView::default(),
            by_id: CowMap::default(),
            by_unified_name: CowMap::default(),
            configs: CowMap::default(),
            features: Arc::default(),
            features_epoch: -1,
            next_producer_id: ProducerId(0),
            partitions: 0,
            configured_groups: 0,
            applied: Offset::NONE,
        }
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<TopicImage> {
        let summary = self.view.topic(name)?;
        let created_at = self.by_id.get(&summary.id)?.created_at;
        Some(TopicImage { id: summary.id, partitions: summary.partitions, created_at })
    }

    /// The topic of this id, and its name.
    pub fn topic_by_id(&self, id: Uuid) -> Option<(&TopicName, TopicImage)> {
        let entry = self.by_id.get(&id)?;
        let partitions = self.view.topic(&entry.name)?.partitions;
        Some((&entry.name, TopicImage { id, partitions, created_at: entry.created_at }))
    }

    /// All topics, ordered by name.
    pub fn topics(&self) -> impl Iterator<Item = (&TopicName, &TopicSummary)> {
        self.view.iter()
    }

    /// How many topics there are.
    pub const fn topic_count(&self) -> usize {
        self.view.len()
    }

    /// How many partitions all topics have together.
    pub const fn partition_count(&self) -> i64 {
        self.partitions
    }

    /// All topics, as other machines see them. Costs nothing: it is kept at every change.
    pub fn view(&self) -> TopicsView {
        self.view.clone()
    }

    /// What is set on a resource.
    pub fn config(&self, resource: &ConfigResource) -> &ConfigMap {
        self.configs.get(resource).map_or(&NO_CONFIGS, |configs| configs)
    }

    /// Everything that has configs, with them.
    pub fn configs(&self) -> impl Iterator<Item = (&ConfigResource, &ConfigMap)> {
        self.configs.iter().map(|(resource, configs)| (resource, &**configs))
    }

    /// What lies under a topic's or group's own configs, on this broker with these properties.
    pub fn layers<'a>(&'a self, node_id: NodeId, properties: &'a BrokerConfig) -> Layers<'a> {
        Layers {
            dynamic: self.config(&ConfigResource::Broker(Some(node_id))),
            dynamic_default: self.config(&ConfigResource::Broker(None)),
            properties,
        }
    }

    /// The configuration that counts for the topic of this name.
    pub fn topic_config(&self, name: &TopicName, node_id: NodeId, properties: &BrokerConfig) -> TopicConfig {
        let own = self.config(&ConfigResource::Topic(name.clone()));
        TopicConfig::effective(&self.layers(node_id, properties), own)
    }

    /// The finalized features and their levels.
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// The offset of the last change of features, which clients use as their version; -1 before the first.
    pub const fn features_epoch(&self) -> i64 {
        self.features_epoch
    }

    /// The lowest producer id that was not handed out.
    pub const fn next_producer_id(&self) -> ProducerId {
        self.next_producer_id
    }

    /// The offset of the last record that was applied; -1 before the first.
    pub const fn applied(&self) -> Offset {
        self.applied
    }

    /// The topic that metrics could not tell from one of this name, itself included.
    pub(crate) fn colliding(&self, name: &str) -> Option<&TopicName> {
        unified(name).and_then(|name| self.by_unified_name.get(name.as_str()))
    }

    /// How many groups have configs.
    pub(crate) const fn configured_group_count(&self) -> usize {
        self.configured_groups
    }

    /// As if there were so many partitions, which would take long to create.
    #[cfg(test)]
    pub(crate) const fn pretend_partitions(&mut self, partitions: i64) {
        self.partitions = partitions;
    }

    pub(crate) fn apply(&mut self, context: &RecordContext, record: &Record) -> Result<(), Inconsistent> {
        match record {
            Record::Topic(record) => self.add_topic(record, context.offset)?,
            Record::Partition(record) => self.add_partition(record)?,
            Record::Config(record) => self.set_config(record)?,
            Record::RemoveTopic(record) => self.remove_topic(record.id)?,
            Record::FeatureLevel(record) => {
                let features = Arc::make_mut(&mut self.features);
                if record.level == 0 {
                    features.remove(&record.name);
                } else {
                    features.insert(record.name.clone(), record.level);
                }
                self.features_epoch = context.offset.0;
            }
            Record::ProducerIds(record) => self.take_producer_ids(record)?,
            Record::NoOp => {}
        }
        self.applied = context.offset;
        Ok(())
    }

    fn add_topic(&mut self, record: &TopicRecord, created_at: Offset) -> Result<(), Inconsistent> {
        if self.view.topic(&record.name).is_some() {
            return inconsistent(format!("topic '{}' is created although it exists", record.name));
        }
        if self.by_id.contains_key(&record.id) {
            return inconsistent(format!("topic id {} is given to '{}' although it is taken", record.id, record.name));
        }
        self.by_id.insert(record.id, TopicEntry { name: record.name.clone(), created_at });
        self.view.insert(record.name.clone(), TopicSummary { id: record.id, partitions: PartitionCount(0) });
        if let Some(unified) = unified(&record.name) {
            self.by_unified_name.insert(unified.into(), record.name.clone());
        }
        Ok(())
    }

    fn add_partition(&mut self, record: &PartitionRecord) -> Result<(), Inconsistent> {
        let Some((name, topic)) = self.topic_by_id(record.topic_id) else {
            return inconsistent(format!("partition {} of unknown topic id {}", record.index, record.topic_id));
        };
        if record.index.0 != topic.partitions.0 {
            let reason =
                format!("topic '{name}' has {} partitions and gets partition {}", topic.partitions, record.index);
            return inconsistent(reason);
        }
        let (name, partitions) = (name.clone(), PartitionCount(topic.partitions.0 + 1));
        self.view.insert(name, TopicSummary { id: topic.id, partitions });
        self.partitions += 1;
        Ok(())
    }

    fn remove_topic(&mut self, id: Uuid) -> Result<(), Inconsistent> {
        let Some(TopicEntry { name, .. }) = self.by_id.remove(&id) else {
            return inconsistent(format!("unknown topic id {id} is removed"));
        };
        self.partitions -= self.view.topic(&name).map_or(0, |topic| i64::from(topic.partitions.0));
        self.view.remove(&name);
        if let Some(unified) = unified(&name)
            && self.by_unified_name.get(unified.as_str()) == Some(&name)
        {
            self.by_unified_name.remove(unified.as_str());
        }
        self.configs.remove(&ConfigResource::Topic(name));
        Ok(())
    }

    fn set_config(&mut self, record: &ConfigRecord) -> Result<(), Inconsistent> {
        let resource = &record.resource;
        if let ConfigResource::Topic(name) = resource
            && self.view.topic(name).is_none()
        {
            return inconsistent(format!("config {} of unknown topic '{name}'", record.key));
        }
        let is_group = matches!(resource, ConfigResource::Group(_));
        if let Some(value) = &record.value {
            if let Some(configs) = self.configs.get_mut(resource) {
                Arc::make_mut(configs).insert(record.key.clone(), value.clone());
            } else {
                let configs = ConfigMap::from([(record.key.clone(), value.clone())]);
                self.configs.insert(resource.clone(), Arc::new(configs));
                self.configured_groups += usize::from(is_group);
            }
        } else if let Some(configs) = self.configs.get_mut(resource) {
            let configs = Arc::make_mut(configs);
            configs.remove(&record.key);
            if configs.is_empty() {
                self.configs.remove(resource);
                self.configured_groups -= usize::from(is_group);
            }
        }
        Ok(())
    }

    fn take_producer_ids(&mut self, record: &ProducerIdsRecord) -> Result<(), Inconsistent> {
        if record.next < self.next_producer_id {
            let reason =
                format!("producer ids from {} are free again, {} was next", record.next, self.next_producer_id);
            return inconsistent(reason);
        }
        self.next_producer_id = record.next;
        Ok(())
    }
}

/// The name as metrics show it; `None` if that is not ambiguous.
fn unified(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

fn inconsistent(reason: String) -> Result<(), Inconsistent> {
    Err(Inconsistent { reason })
}
