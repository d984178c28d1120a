//! The metadata shard: what it shows to everybody else, and what follows when topics and configs change.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use riparian_coordinator::codecs::MetadataCodec;
use riparian_group::{command::Command as GroupCommand, config::GroupOverrides, streams::InternalTopic};
use riparian_log::LogConfig;
use riparian_metadata::{
    ConfigResource, MetadataImage, MetadataMachine,
    command::{Command, CreateTopics, NewTopic},
    config::{self, ConfigValue, TopicConfig},
    reply::{Effect, Reply, TopicChange},
};
use riparian_protocol::ErrorCode;
use riparian_records::TimestampType;
use riparian_types::{
    GroupId, Now, Offset, PartitionCount, PartitionIndex, ProducerId, TopicName, Uuid, limits, machine::Waiter, topic,
};

use crate::{
    Broker, Wake,
    host::{Continuation, Hosted, Unavailable},
    partition::{Owner, Partition},
};

/// Producer ids that are reserved at a time; Kafka's block size.
const PRODUCER_IDS_BLOCK: u32 = 1000;

/// The metadata that requests see, and the offset up to which it goes.
pub(crate) struct Published {
    pub(crate) image: MetadataImage,
    pub(crate) end: Offset,
}

/// Producer ids that are reserved and not given to anybody yet, and who waits for some.
#[derive(Default)]
pub(crate) struct ProducerIds {
    next: i64,
    left: u32,
    waiting: Vec<IdThen>,
}

/// Gets an id, or none if none could be reserved.
pub(crate) type IdThen = Box<dyn FnOnce(&Broker, Option<ProducerId>) + Send>;

impl Hosted for MetadataMachine {
    type Codec = MetadataCodec;
    type Snapshot = MetadataImage;

    const NAME: &'static str = "metadata";

    fn snapshot(&self) -> MetadataImage {
        self.image().clone()
    }

    fn publish(broker: &Broker, _: Now, end: Offset, image: MetadataImage) {
        let mut published = broker.image.write().unwrap_or_else(PoisonError::into_inner);
        if end > published.end {
            *published = Published { image, end };
        }
    }

    fn carry_out(broker: &Broker, now: Now, _: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::TopicsChanged(changes) => broker.topics_changed(now, &changes),
                Effect::TopicConfigChanged(topics) => topics.iter().for_each(|name| broker.topic_config_changed(name)),
                Effect::GroupConfigChanged(groups) => broker.group_config_changed(now, groups),
                Effect::BrokerConfigChanged => {
                    let image = broker.image();
                    image.topics().for_each(|(name, _)| broker.topic_config_changed(name));
                }
                Effect::Warning(warning) => tracing::warn!("{warning}"),
            }
        }
    }

    fn wake(_: usize) -> Wake {
        Wake::Metadata
    }

    const IN_ORDER: bool = true;

    fn introduce(broker: &Broker, now: Now, _: usize, end: Offset, image: MetadataImage) {
        Self::publish(broker, now, end, image);
        broker.reconcile(now);
    }
}

impl Broker {
    /// The name of the topic that a request means, by id if its version has ids.
    pub(crate) fn topic_name(&self, name: &str, id: Uuid, by_id: bool) -> Result<TopicName, ErrorCode> {
        if !by_id {
            return Ok(TopicName::from(name));
        }
        let image = self.image();
        image.topic_by_id(id).map(|(name, _)| name.clone()).ok_or(ErrorCode::UnknownTopicId)
    }

    /// Makes the partitions of a topic, from the one of this index on, known to requests.
    pub(crate) fn add_partitions(&self, name: &TopicName, id: Uuid, count: PartitionCount) {
        let mut partitions = self.partitions.get(name).map(|known| known.to_vec()).unwrap_or_default();
        let config = self.log_config(name);
        for index in partitions.len() as i32..count.0 {
            let index = PartitionIndex(index);
            match self.logs.create(name, id, index, config) {
                Ok(log) => {
                    let owner = if name.as_str() == topic::CONSUMER_OFFSETS {
                        Owner::Groups(usize::try_from(index.0).unwrap_or(0))
                    } else {
                        Owner::Clients
                    };
                    partitions.push(Arc::new(Partition::new(name.clone(), id, index, owner, log)));
                }
                Err(error) => {
                    tracing::error!(topic = %name, partition = %index, %error, "partition can't be created");
                    break;
                }
            }
        }
        self.partitions.insert(name.clone(), partitions.into());
    }

    /// Brings partitions, configs and groups in line with the image, whatever was told of it before: a shard that is
    /// loaded again may have lost the effects of records that became durable.
    fn reconcile(&self, now: Now) {
        let image = self.image();
        let gone: Vec<_> = self
            .partitions
            .iter()
            .filter_map(|entry| Some((entry.key().clone(), entry.value().first()?.topic_id)))
            .filter(|(name, id)| name.as_str() != topic::CLUSTER_METADATA && image.topic_by_id(*id).is_none())
            .collect();
        gone.iter().for_each(|(name, id)| self.topic_deleted(now, name, *id));
        for (name, summary) in image.topics() {
            self.add_partitions(name, summary.id, summary.partitions);
            self.topic_config_changed(name);
        }
        self.tell_groups_of_topics(now, Arc::new([]));
        self.group_config_changed(now, group_overrides(&image).into_iter().map(|(group, _)| group).collect());
    }

    fn topics_changed(&self, now: Now, changes: &[TopicChange]) {
        for change in changes {
            match change {
                TopicChange::Created { name, id, partitions } => {
                    self.peer_lines.topics.run(now.mono, |suppressed| {
                        tracing::info!(topic = %name, partitions = partitions.0, suppressed, "topic created");
                    });
                    self.add_partitions(name, *id, *partitions);
                }
                TopicChange::Grown { name, id, partitions, .. } => {
                    tracing::info!(topic = %name, partitions = partitions.0, "topic has more partitions");
                    self.add_partitions(name, *id, *partitions);
                }
                TopicChange::Deleted { name, id, .. } => self.topic_deleted(now, name, *id),
            }
        }
        self.tell_groups_of_topics(now, changes.iter().map(|change| change.name().clone()).collect());
    }

    fn tell_groups_of_topics(&self, now: Now, changed: Arc<[TopicName]>) {
        let (image, as_of) = self.image_as_of();
        let view = image.view();
        for shard in &self.groups {
            let command = GroupCommand::TopicsChanged { view: view.clone(), as_of, changed: changed.clone() };
            shard.tell(self, now, command);
        }
    }

    fn topic_deleted(&self, now: Now, name: &TopicName, id: Uuid) {
        // A topic of the same name may have been created since.
        let Some((_, partitions)) = self
            .partitions
            .remove_if(name, |_, partitions| partitions.first().is_none_or(|partition| partition.topic_id == id))
        else {
            return;
        };
        self.peer_lines.topics.run(now.mono, |suppressed| {
            tracing::info!(topic = %name, suppressed, "topic deleted");
        });
        match self.logs.delete_topic(name) {
            Ok(garbage) => self.shell.spawn(Box::new(move || {
                if let Err(error) = garbage.remove() {
                    tracing::error!(%error, "files of a deleted topic can't be removed");
                }
            })),
            Err(error) => tracing::error!(topic = %name, %error, "topic's directories can't be renamed"),
        }
        for partition in partitions.iter() {
            partition.fail_waiters(self, now);
        }
    }

    fn topic_config_changed(&self, name: &TopicName) {
        self.logs.set_config(name, self.log_config(name));
    }

    /// What the logs of a topic are told.
    pub(crate) fn log_config(&self, name: &TopicName) -> LogConfig {
        let image = self.image();
        let layers = image.layers(self.node_id(), &self.config.properties);
        let config = TopicConfig::effective(&layers, image.config(&ConfigResource::Topic(name.clone())));
        let internal = topic::is_internal(name);
        LogConfig {
            segment_bytes: u32::try_from(config.segment_bytes).unwrap_or(u32::MAX),
            segment_ms: config.segment_ms,
            index_interval_bytes: u32::try_from(config.index_interval_bytes).unwrap_or(0),
            // What is to be compacted is kept whole as long as nothing compacts.
            delete: config.cleanup_policy.delete,
            compact: config.cleanup_policy.compact,
            retention_ms: (config.retention_ms >= 0).then_some(config.retention_ms),
            retention_bytes: u64::try_from(config.retention_bytes).ok(),
            batch_bytes_max: if internal {
                limits::INTERNAL_BATCH_BYTES_MAX
            } else {
                usize::try_from(config.max_message_bytes).unwrap_or(0)
            },
            timestamp_type: match config.message_timestamp_type {
                config::TimestampType::CreateTime => TimestampType::CreateTime,
                config::TimestampType::LogAppendTime => TimestampType::LogAppendTime,
            },
            timestamp_before_max_ms: config.message_timestamp_before_max_ms,
            timestamp_after_max_ms: config.message_timestamp_after_max_ms,
        }
    }

    fn group_config_changed(&self, now: Now, groups: Vec<GroupId>) {
        let image = self.image();
        for group in groups {
            let overrides = overrides(&image, &group);
            self.groups[self.group_shard(&group)].tell(
                self,
                now,
                GroupCommand::GroupConfigChanged { group, overrides },
            );
        }
    }

    /// A random topic id. Luck decides nothing else, so its seed may come from the operating system.
    pub(crate) fn random_uuid(&self) -> Uuid {
        let mut luck = self.luck.lock().unwrap_or_else(PoisonError::into_inner);
        Uuid::from_random(luck.next_u64(), luck.next_u64())
    }

    /// Asks for a change on behalf of a client, and counts the limits that keep it from being made.
    pub(crate) fn change_metadata(
        &self,
        now: Now,
        command: impl FnOnce(Waiter) -> Command,
        then: Continuation<MetadataMachine>,
    ) {
        let counted = move |broker: &Self, now: Now, answer: Result<Reply, Unavailable>| {
            let exceeded = answer.as_ref().map(Reply::limits_exceeded).unwrap_or_default();
            for growing in exceeded {
                broker.telemetry.limits().hit(growing.into());
            }
            then(broker, now, answer);
        };
        self.metadata.ask(self, now, command, Box::new(counted));
    }

    /// Creates topics that a client asked the metadata of, with the server's defaults, and goes on whatever came of it.
    pub(crate) fn create_missing_topics(&self, now: Now, names: Vec<TopicName>, then: Box<dyn FnOnce(&Self) + Send>) {
        let topics = names.into_iter().map(|name| NewTopic {
            name,
            id: self.random_uuid(),
            partitions: -1,
            replication_factor: -1,
            assignment: Vec::new(),
            configs: Vec::new(),
        });
        let create = CreateTopics { topics: topics.collect(), validate_only: false };
        self.change_metadata(
            now,
            |waiter| Command::CreateTopics(waiter, create),
            Box::new(move |broker, _, _| then(broker)),
        );
    }

    /// Creates internal topics for a streams group and tells its machine what came of it.
    pub(crate) fn create_internal_topics(&self, now: Now, shard: usize, group: GroupId, topics: Vec<InternalTopic>) {
        let attempted: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
        let topics = topics.into_iter().map(|topic| NewTopic {
            name: topic.name,
            id: self.random_uuid(),
            partitions: topic.partitions,
            replication_factor: if topic.replication_factor == 0 { -1 } else { topic.replication_factor },
            assignment: Vec::new(),
            configs: topic.configs.into_iter().map(|(key, value)| (key, Some(value))).collect(),
        });
        let create = CreateTopics { topics: topics.collect(), validate_only: false };
        self.change_metadata(
            now,
            |waiter| Command::CreateTopics(waiter, create),
            Box::new(move |broker, now, answer| {
                let failures: BTreeMap<TopicName, String> = match answer {
                    Ok(Reply::CreateTopics(results)) => results
                        .into_iter()
                        .filter_map(|(name, result)| Some((name, result.err()?.to_string())))
                        .collect(),
                    _ => attempted
                        .iter()
                        .map(|name| (name.clone(), "the metadata is not available".to_owned()))
                        .collect(),
                };
                for (topic, error) in &failures {
                    broker.peer_lines.failures.run(now.mono, |suppressed| {
                        let group = group.as_str();
                        tracing::warn!(group, %topic, error, suppressed, "internal topic can't be created");
                    });
                }
                let command = GroupCommand::InternalTopicsCreated { group, attempted, failures };
                broker.groups[shard].tell(broker, now, command);
            }),
        );
    }

    /// Calls `then` with a producer id that nobody was ever given.
    pub(crate) fn next_producer_id(&self, now: Now, then: IdThen) {
        let id = {
            let mut ids = self.producer_ids.lock().unwrap_or_else(PoisonError::into_inner);
            if ids.left == 0 {
                ids.waiting.push(then);
                if ids.waiting.len() > 1 {
                    // The first that waited has asked for more.
                    return;
                }
                None
            } else {
                Some((ids.take(), then))
            }
        };
        match id {
            Some((id, then)) => then(self, Some(id)),
            None => self.metadata.ask(
                self,
                now,
                |waiter| Command::AllocateProducerIds(waiter, PRODUCER_IDS_BLOCK),
                Box::new(|broker, now, answer| {
                    let waiting = {
                        let mut ids = broker.producer_ids.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Ok(Reply::AllocateProducerIds(Ok(block))) = &answer {
                            ids.next = block.first.0;
                            ids.left = block.count;
                        }
                        std::mem::take(&mut ids.waiting)
                    };
                    let reserved = matches!(answer, Ok(Reply::AllocateProducerIds(Ok(_))));
                    for then in waiting {
                        if reserved { broker.next_producer_id(now, then) } else { then(broker, None) }
                    }
                }),
            ),
        }
    }
}

impl ProducerIds {
    fn take(&mut self) -> ProducerId {
        let id = ProducerId(self.next);
        self.next += 1;
        self.left -= 1;
        id
    }
}

/// The configs of all groups that have any.
pub(crate) fn group_overrides(image: &MetadataImage) -> Vec<(GroupId, GroupOverrides)> {
    let groups = image.configs().filter_map(|(resource, _)| match resource {
        ConfigResource::Group(group) => Some((group.clone(), overrides(image, group))),
        ConfigResource::Topic(_) | ConfigResource::Broker(_) => None,
    });
    groups.collect()
}

/// What is set on one group, as the group machine takes it.
fn overrides(image: &MetadataImage, group: &GroupId) -> GroupOverrides {
    let set = config::group_overrides(image.config(&ConfigResource::Group(group.clone())));
    let int = |key: &str| set.get(key).and_then(ConfigValue::as_int);
    GroupOverrides {
        session_timeout_ms: int("streams.session.timeout.ms"),
        heartbeat_interval_ms: int("streams.heartbeat.interval.ms"),
        num_standby_replicas: int("streams.num.standby.replicas"),
        initial_rebalance_delay_ms: int("streams.initial.rebalance.delay.ms"),
        assignment_interval_ms: int("streams.assignment.interval.ms"),
        task_offset_interval_ms: int("streams.task.offset.interval.ms"),
        num_warmup_replicas: int("streams.num.warmup.replicas"),
        acceptable_recovery_lag: set.get("streams.acceptable.recovery.lag").and_then(ConfigValue::as_long),
        assignor_name: set.get("streams.assignor.name").and_then(ConfigValue::as_str).map(str::to_owned),
        rack_aware_assignment_tags: set
            .get("streams.rack.aware.assignment.tags")
            .and_then(ConfigValue::as_list)
            .map(<[String]>::to_vec),
    }
}
