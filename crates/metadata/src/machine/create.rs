//! Creating topics: a client's, and the server's own.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};

use riparian_types::{
    NodeId, PartitionCount, PartitionIndex, TopicName, Uuid,
    limits::{PARTITIONS_PER_REQUEST_MAX, TOPIC_PARTITIONS_MAX},
    topic,
};

use super::{Batch, MetadataMachine, Soft};
use crate::{
    ConfigResource,
    command::{CreateTopics, EnsureInternalTopic, InternalTopic, NewTopic},
    config::{ConfigError, ConfigMap, check_topic_configs},
    record::{ConfigRecord, Record, TopicRecord},
    reply::{
        CreateTopicError, CreatedTopic, Effect, Growing, InvalidAssignment, LimitExceeded, Reply, TopicChange, Warning,
    },
};

/// What a command has created so far.
#[derive(Default)]
struct Created {
    /// By unified name; of every topic.
    names: BTreeMap<String, TopicName>,
    ids: BTreeSet<Uuid>,
    partitions: i64,
}

impl MetadataMachine {
    pub(super) fn create_topics(&self, soft: &mut Soft, create: CreateTopics) -> (Batch, Reply) {
        let mut batch = Batch::default();
        let mut created = Created::default();
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<TopicName> =
            create.topics.iter().filter(|topic| !seen.insert(&topic.name)).map(|topic| topic.name.clone()).collect();
        let mut warnings = Vec::new();
        let mut results = Vec::with_capacity(create.topics.len());
        for topic in create.topics {
            let name = topic.name.clone();
            let result = if twice.contains(&name) {
                Err(CreateTopicError::NamedTwice { name: name.clone() })
            } else {
                self.create_topic(topic, &mut created, &mut batch, &mut warnings)
            };
            results.push((name, result));
        }
        if create.validate_only {
            batch.discard();
        } else {
            warn(soft, warnings, &mut batch);
        }
        (batch, Reply::CreateTopics(results))
    }

    pub(super) fn ensure_internal_topic(&self, soft: &mut Soft, ensure: &EnsureInternalTopic) -> (Batch, Reply) {
        let mut batch = Batch::default();
        let (name, partitions, configs) = self.internal_topic(ensure.topic);
        if let Some(topic) = self.image.topic(name) {
            let configs = self.image.config(&ConfigResource::Topic(name.into())).clone();
            let existing = CreatedTopic { id: topic.id, partitions: topic.partitions, replication_factor: 1, configs };
            return (batch, Reply::EnsureInternalTopic(Ok(existing)));
        }
        let topic = NewTopic {
            name: name.into(),
            id: ensure.id,
            partitions,
            replication_factor: 1,
            assignment: Vec::new(),
            configs,
        };
        let mut warnings = Vec::new();
        let result = self.create_checked(topic, &mut Created::default(), &mut batch, &mut warnings);
        warn(soft, warnings, &mut batch);
        (batch, Reply::EnsureInternalTopic(result))
    }

    /// Name, partition count and configs of one of the server's own topics.
    fn internal_topic(&self, topic: InternalTopic) -> (&'static str, i32, Vec<(String, Option<String>)>) {
        let properties = &self.settings.properties;
        match topic {
            InternalTopic::ConsumerOffsets => {
                // A property below the smallest segment is raised to it rather than keeping the server from starting.
                let segment_bytes = properties.int("offsets.topic.segment.bytes").max(1_048_576);
                let configs = [
                    ("cleanup.policy", "compact".to_string()),
                    ("compression.type", "producer".to_string()),
                    ("segment.bytes", segment_bytes.to_string()),
                ];
                let configs = configs.into_iter().map(|(key, value)| (key.to_string(), Some(value))).collect();
                (topic::CONSUMER_OFFSETS, properties.int("offsets.topic.num.partitions"), configs)
            }
        }
    }

    fn create_topic(
        &self,
        topic: NewTopic,
        created: &mut Created,
        batch: &mut Batch,
        warnings: &mut Vec<Warning>,
    ) -> Result<CreatedTopic, CreateTopicError> {
        let name = &topic.name;
        topic::check_name(name).map_err(|reason| CreateTopicError::InvalidName { name: name.clone(), reason })?;
        if self.image.topic(name).is_some() {
            return Err(CreateTopicError::AlreadyExists { name: name.clone() });
        }
        if topic::is_internal(name) || &**name == topic::CLUSTER_METADATA {
            return Err(CreateTopicError::Reserved { name: name.clone() });
        }
        self.create_checked(topic, created, batch, warnings)
    }

    /// Creates a topic whose name is legal and free.
    fn create_checked(
        &self,
        topic: NewTopic,
        created: &mut Created,
        batch: &mut Batch,
        warnings: &mut Vec<Warning>,
    ) -> Result<CreatedTopic, CreateTopicError> {
        let NewTopic { name, id, .. } = &topic;
        let unified = name.replace('.', "_");
        if let Some(existing) = self.image.colliding(name).or_else(|| created.names.get(&unified)) {
            return Err(CreateTopicError::Collides { name: name.clone(), existing: existing.clone() });
        }
        if id.is_zero() || self.image.topic_by_id(*id).is_some() || created.ids.contains(id) {
            return Err(CreateTopicError::IdTaken { id: *id });
        }
        let (mut configs, mut capped) = self.checked_configs(&topic)?;
        let partitions = self.partition_count(&topic)?;
        capped.0 = self.replication_factor(&topic)?;
        if !topic::is_internal(name) {
            self.check_limits(created, partitions)?;
        }

        created.names.insert(unified, name.clone());
        created.ids.insert(*id);
        created.partitions += i64::from(partitions);
        batch.records.push(Record::Topic(TopicRecord { name: name.clone(), id: *id }));
        let resource = ConfigResource::Topic(name.clone());
        batch.records.extend(configs.iter().map(|(key, value)| {
            Record::Config(ConfigRecord { resource: resource.clone(), key: key.clone(), value: Some(value.clone()) })
        }));
        batch.records.extend((0..partitions).map(|index| self.partition(*id, index)));
        let partitions = PartitionCount(partitions);
        batch.changes.push(TopicChange::Created { name: name.clone(), id: *id, partitions });
        if let (replication_factor, min_insync_replicas) = capped
            && (replication_factor.is_some() || min_insync_replicas.is_some())
        {
            let topic = name.clone();
            warnings.push(Warning::ReplicationCapped { topic, replication_factor, min_insync_replicas });
        }
        Ok(CreatedTopic { id: *id, partitions, replication_factor: 1, configs: core::mem::take(&mut configs) })
    }

    /// The configs in canonical form, and what was capped.
    #[expect(clippy::type_complexity, reason = "a pair that lives for one call")]
    fn checked_configs(&self, topic: &NewTopic) -> Result<(ConfigMap, (Option<i32>, Option<i32>)), CreateTopicError> {
        let mut configs = ConfigMap::new();
        for (key, value) in &topic.configs {
            let Some(value) = value else {
                return Err(CreateTopicError::Config(ConfigError::NullValue { key: key.clone() }));
            };
            if configs.insert(key.clone(), value.clone()).is_some() {
                return Err(CreateTopicError::Config(ConfigError::DuplicateKey { key: key.clone() }));
            }
        }
        let min_insync = self.canonical_topic_configs(&mut configs).map_err(CreateTopicError::Config)?;
        Ok((configs, (None, min_insync)))
    }

    /// Checks a topic's configs and brings them into canonical form. Gives a `min.insync.replicas` that was capped.
    pub(super) fn canonical_topic_configs(&self, configs: &mut ConfigMap) -> Result<Option<i32>, ConfigError> {
        super::configs::canonical(crate::config::Scope::Topic, configs)?;
        check_topic_configs(configs)?;
        self.cap_min_insync_replicas(configs)
    }

    fn partition_count(&self, topic: &NewTopic) -> Result<i32, CreateTopicError> {
        let max = TOPIC_PARTITIONS_MAX;
        let count = if !topic.assignment.is_empty() {
            if topic.partitions != -1 {
                let value = topic.partitions;
                return Err(CreateTopicError::CountAndAssignment { what: "num.partitions", value });
            }
            self.check_assignment(&topic.assignment).map_err(CreateTopicError::InvalidAssignment)?;
            i32::try_from(topic.assignment.len()).unwrap_or(i32::MAX)
        } else if topic.partitions == -1 {
            self.settings.properties.int("num.partitions")
        } else {
            topic.partitions
        };
        match count {
            ..1 => Err(CreateTopicError::InvalidPartitions { count, max }),
            count if count > max => {
                Err(CreateTopicError::Limit(LimitExceeded { what: Growing::TopicPartitions, max: max.into() }))
            }
            count => Ok(count),
        }
    }

    fn check_assignment(&self, assignment: &[(PartitionIndex, Vec<NodeId>)]) -> Result<(), InvalidAssignment> {
        let indexes: BTreeSet<_> = assignment.iter().map(|(index, _)| index.0).collect();
        let consecutive = indexes.iter().zip(0..).all(|(index, expected)| *index == expected);
        if indexes.len() != assignment.len() || !consecutive {
            return Err(InvalidAssignment::NotConsecutive);
        }
        assignment.iter().try_for_each(|(index, replicas)| self.check_replicas(index.0, replicas))
    }

    /// There is one broker: it is named exactly once.
    pub(super) fn check_replicas(&self, partition: i32, replicas: &[NodeId]) -> Result<(), InvalidAssignment> {
        let known = self.settings.node_id;
        if replicas.is_empty() {
            return Err(InvalidAssignment::Empty { partition });
        }
        if let Some(other) = replicas.iter().find(|replica| **replica != known) {
            return Err(InvalidAssignment::UnknownBroker { partition, broker: other.0, known: known.0 });
        }
        if replicas.len() > 1 {
            return Err(InvalidAssignment::Twice { partition, broker: known.0 });
        }
        Ok(())
    }

    /// Checks the replication factor; gives it if it has to be capped.
    fn replication_factor(&self, topic: &NewTopic) -> Result<Option<i32>, CreateTopicError> {
        let factor = i32::from(topic.replication_factor);
        if !topic.assignment.is_empty() {
            return if factor == -1 {
                Ok(None)
            } else {
                Err(CreateTopicError::CountAndAssignment { what: "replication.factor", value: factor })
            };
        }
        match factor {
            // The default of the server's properties counts as at most 1 anyway; nobody asked for this topic's.
            -1 | 1 => Ok(None),
            2.. if self.settings.properties.bool("riparian.replication.cap") => Ok(Some(factor)),
            _ => Err(CreateTopicError::InvalidReplicationFactor { factor }),
        }
    }

    fn check_limits(&self, created: &Created, partitions: i32) -> Result<(), CreateTopicError> {
        let limit = |what, max| Err(CreateTopicError::Limit(LimitExceeded { what, max }));
        let in_request = created.partitions + i64::from(partitions);
        if in_request > PARTITIONS_PER_REQUEST_MAX {
            return limit(Growing::RequestPartitions, PARTITIONS_PER_REQUEST_MAX);
        }
        self.check_partitions(in_request).map_err(CreateTopicError::Limit)?;
        let (topics, _) = self.clients_topics();
        let max = i64::from(self.settings.properties.int("riparian.topics.max"));
        if topics + created.ids.len() as i64 >= max {
            return limit(Growing::Topics, max);
        }
        Ok(())
    }

    /// Whether there may be so many more partitions.
    pub(super) fn check_partitions(&self, more: i64) -> Result<(), LimitExceeded> {
        let (_, partitions) = self.clients_topics();
        let max = i64::from(self.settings.properties.int("riparian.partitions.max"));
        if partitions + more > max { Err(LimitExceeded { what: Growing::Partitions, max }) } else { Ok(()) }
    }

    /// How many topics and partitions there are but for the server's own.
    fn clients_topics(&self) -> (i64, i64) {
        let own = self.image.topic(topic::CONSUMER_OFFSETS);
        let (topics, partitions) = own.map_or((0, 0), |topic| (1, i64::from(topic.partitions.0)));
        (self.image.topic_count() as i64 - topics, self.image.partition_count() - partitions)
    }
}

/// Passes on the warnings about topics that were not warned about before.
pub(super) fn warn(soft: &mut Soft, warnings: Vec<Warning>, batch: &mut Batch) {
    for warning in warnings {
        let Warning::ReplicationCapped { topic, .. } = &warning;
        if soft.warned.insert(topic.clone()) {
            batch.effects.push(Effect::Warning(warning));
        }
    }
}
