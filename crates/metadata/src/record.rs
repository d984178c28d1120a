//! Changes of hard state, as they stand in `__cluster_metadata`.
//!
//! The coordinator writes and reads Kafka's bytes for these. Fields that Kafka's records have and that are the same for
//! every partition here (no replica is ever added, removed or recovering) are left to it.

use alloc::{string::String, vec::Vec};

use riparian_types::{LeaderEpoch, NodeId, PartitionIndex, ProducerId, TopicName, Uuid};

use crate::ConfigResource;

/// One record; the comment gives Kafka's record and its type's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// `TopicRecord`, 2: a topic exists, still without partitions.
    Topic(TopicRecord),
    /// `PartitionRecord`, 3: a topic's next partition.
    Partition(PartitionRecord),
    /// `ConfigRecord`, 4: a config is set or, without a value, removed.
    Config(ConfigRecord),
    /// `RemoveTopicRecord`, 9: a topic, its partitions and its configs are gone.
    RemoveTopic(RemoveTopicRecord),
    /// `FeatureLevelRecord`, 12: a feature is finalized at a level; 0 takes it away.
    FeatureLevel(FeatureLevelRecord),
    /// `ProducerIdsRecord`, 15: producer ids below the next one are taken.
    ProducerIds(ProducerIdsRecord),
    /// `NoOpRecord`, 20: nothing; written by others to move the log's end.
    NoOp,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRecord {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: Uuid,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRecord {
    /// Whose.
    pub topic_id: Uuid,
    /// Its number.
    pub index: PartitionIndex,
    /// Where it is kept; this server alone.
    pub replicas: Vec<NodeId>,
    /// Which of them are up to date.
    pub isr: Vec<NodeId>,
    /// Which of them leads.
    pub leader: NodeId,
    /// How often the leader has changed.
    pub leader_epoch: LeaderEpoch,
    /// How often anything of the partition has changed.
    pub partition_epoch: i32,
    /// The log directory of each replica.
    pub directories: Vec<Uuid>,
}

/// A config of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRecord {
    /// Whose.
    pub resource: ConfigResource,
    /// The key.
    pub key: String,
    /// The value; `None`: not set any more.
    pub value: Option<String>,
}

/// The end of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveTopicRecord {
    /// Whose.
    pub id: Uuid,
}

/// A finalized feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureLevelRecord {
    /// The feature.
    pub name: String,
    /// Its level.
    pub level: i16,
}

/// A block of producer ids handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerIdsRecord {
    /// To whom.
    pub broker: NodeId,
    /// The broker's epoch; -1 if it has none.
    pub broker_epoch: i64,
    /// The first id that is still free.
    pub next: ProducerId,
}
