//! What the machine answers and asks for.
//!
//! Errors are what went wrong in the machine's terms, with a text that says what was wrong and what is allowed; the broker
//! maps each to a Kafka error code in exactly one function per operation. The comments name Kafka's code.

use alloc::{string::String, vec::Vec};
use core::fmt;

use riparian_types::{PartitionCount, ProducerId, TopicName, Uuid, topic::BadTopicName};

use crate::{
    ConfigResource,
    command::TopicSelector,
    config::{ConfigError, ConfigMap},
};

/// An answer to a [`crate::command::Command`], by the kind of the command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To a bootstrap: done.
    Bootstrap,
    /// To a creation: each topic.
    CreateTopics(Vec<(TopicName, Result<CreatedTopic, CreateTopicError>)>),
    /// To the creation of one of the server's own topics.
    EnsureInternalTopic(Result<CreatedTopic, CreateTopicError>),
    /// To a deletion: each topic.
    DeleteTopics(Vec<(TopicSelector, Result<DeletedTopic, DeleteTopicError>)>),
    /// To more partitions: each topic, with the number it has then.
    CreatePartitions(Vec<(TopicName, Result<PartitionCount, CreatePartitionsError>)>),
    /// To a change of configs: each resource.
    AlterConfigs(Vec<(ConfigResource, Result<(), AlterConfigsError>)>),
    /// To a request for producer ids.
    AllocateProducerIds(Result<ProducerIdBlock, ProducerIdsExhausted>),
    /// To any command while the metadata is damaged. Kafka: UNKNOWN_SERVER_ERROR.
    Unavailable(Unavailable),
}

impl Reply {
    /// The limits that kept what was asked for from being done, each as often as it did.
    pub fn limits_exceeded(&self) -> Vec<Growing> {
        fn of<T, R, E>(results: &[(T, Result<R, E>)], limit: fn(&E) -> Option<Growing>) -> Vec<Growing> {
            results.iter().filter_map(|(_, result)| limit(result.as_ref().err()?)).collect()
        }
        match self {
            Self::CreateTopics(results) => of(results, |error| match error {
                CreateTopicError::Limit(limit) => Some(limit.what),
                _ => None,
            }),
            Self::CreatePartitions(results) => of(results, |error| match error {
                CreatePartitionsError::Limit(limit) => Some(limit.what),
                _ => None,
            }),
            Self::AlterConfigs(results) => of(results, |error| match error {
                AlterConfigsError::Limit(limit) => Some(limit.what),
                _ => None,
            }),
            Self::Bootstrap
            | Self::EnsureInternalTopic(_)
            | Self::DeleteTopics(_)
            | Self::AllocateProducerIds(_)
            | Self::Unavailable(_) => Vec::new(),
        }
    }
}

/// Something to be done elsewhere, once the records stand in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Topics were created, deleted or grew: shards, the log and cached views want to know.
    TopicsChanged(Vec<TopicChange>),
    /// Configs of these topics changed.
    TopicConfigChanged(Vec<TopicName>),
    /// Configs of these groups changed.
    GroupConfigChanged(Vec<riparian_types::GroupId>),
    /// Dynamic configs of the broker changed: every topic's defaults may have.
    BrokerConfigChanged,
    /// Something that the operator should read.
    Warning(Warning),
}

/// A change of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicChange {
    /// It is new.
    Created {
        /// Its name.
        name: TopicName,
        /// Its id.
        id: Uuid,
        /// How many partitions it has.
        partitions: PartitionCount,
    },
    /// It has more partitions than before.
    Grown {
        /// Its name.
        name: TopicName,
        /// Its id.
        id: Uuid,
        /// How many it had.
        before: PartitionCount,
        /// How many it has.
        partitions: PartitionCount,
    },
    /// It is gone, and its data with it.
    Deleted {
        /// Its name.
        name: TopicName,
        /// Its id.
        id: Uuid,
        /// How many partitions it had.
        partitions: PartitionCount,
    },
}

impl TopicChange {
    /// The topic's name.
    pub const fn name(&self) -> &TopicName {
        match self {
            Self::Created { name, .. } | Self::Grown { name, .. } | Self::Deleted { name, .. } => name,
        }
    }
}

/// Something that the operator should read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A topic asked for more replicas than there are; it has one.
    ReplicationCapped {
        /// Which.
        topic: TopicName,
        /// The replication factor asked for, if it was above one.
        replication_factor: Option<i32>,
        /// The `min.insync.replicas` asked for, if it was above one.
        min_insync_replicas: Option<i32>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReplicationCapped { topic, replication_factor, min_insync_replicas } => {
                write!(f, "topic '{topic}' asked for ")?;
                let mut lead = "";
                for (key, value) in
                    [("replication.factor", replication_factor), ("min.insync.replicas", min_insync_replicas)]
                {
                    if let Some(value) = value {
                        write!(f, "{lead}{key}={value}")?;
                        lead = " and ";
                    }
                }
                f.write_str("; there is one replica, so 1 is used (riparian.replication.cap=false refuses such topics)")
            }
        }
    }
}

/// A topic as it was created (or, with `validate_only`, would be).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: PartitionCount,
    /// How many replicas each has.
    pub replication_factor: i16,
    /// What was set on it.
    pub configs: ConfigMap,
}

/// A topic that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: Uuid,
}

/// Producer ids handed out: `count` of them from `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The lowest.
    pub first: ProducerId,
    /// How many.
    pub count: u32,
}

/// Why a topic was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateTopicError {
    /// The name is not legal. Kafka: INVALID_TOPIC_EXCEPTION.
    InvalidName {
        /// The name.
        name: TopicName,
        /// What is wrong with it.
        reason: BadTopicName,
    },
    /// The name is kept for the server's own topics. Kafka: INVALID_REQUEST.
    Reserved {
        /// The name.
        name: TopicName,
    },
    /// The name differs from another topic's only by '.' and '_', which metrics cannot tell apart. Kafka:
    /// INVALID_TOPIC_EXCEPTION.
    Collides {
        /// The name.
        name: TopicName,
        /// The other topic's.
        existing: TopicName,
    },
    /// There is such a topic. Kafka: TOPIC_ALREADY_EXISTS.
    AlreadyExists {
        /// The name.
        name: TopicName,
    },
    /// The request names the topic more than once. Kafka: INVALID_REQUEST.
    NamedTwice {
        /// The name.
        name: TopicName,
    },
    /// The partition count or factor is given although an assignment says it. Kafka: INVALID_REQUEST.
    CountAndAssignment {
        /// What was given: `num.partitions` or `replication.factor`.
        what: &'static str,
        /// Its value.
        value: i32,
    },
    /// Kafka: INVALID_PARTITIONS.
    InvalidPartitions {
        /// The count asked for.
        count: i32,
        /// The most allowed.
        max: i32,
    },
    /// Kafka: INVALID_REPLICATION_FACTOR.
    InvalidReplicationFactor {
        /// The factor asked for.
        factor: i32,
    },
    /// Kafka: INVALID_REPLICA_ASSIGNMENT.
    InvalidAssignment(InvalidAssignment),
    /// Kafka: INVALID_CONFIG, or as the error says.
    Config(ConfigError),
    /// A limit would be exceeded. Kafka: POLICY_VIOLATION.
    Limit(LimitExceeded),
    /// The id that was drawn for the topic is in use; drawing again helps. Kafka: UNKNOWN_SERVER_ERROR.
    IdTaken {
        /// The id.
        id: Uuid,
    },
}

impl fmt::Display for CreateTopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName { name, reason } => write!(f, "'{name}' is not a topic name: {reason}"),
            Self::Reserved { name } => write!(f, "topic '{name}' belongs to the server, which creates it when needed"),
            Self::Collides { name, existing } => write!(
                f,
                "topic name '{name}' differs from existing topic '{existing}' only by '.' and '_', which metrics cannot tell apart"
            ),
            Self::AlreadyExists { name } => write!(f, "topic '{name}' already exists"),
            Self::NamedTwice { name } => write!(f, "topic '{name}' is named more than once in the request"),
            Self::CountAndAssignment { what, value } => {
                write!(
                    f,
                    "{what}={value} and an explicit assignment exclude each other: with an assignment it must be -1"
                )
            }
            Self::InvalidPartitions { count, max } => {
                write!(f, "{count} partitions are not allowed: from 1 to {max}, or -1 for the server's default")
            }
            Self::InvalidReplicationFactor { factor } if *factor > 1 => {
                write!(f, "replication factor {factor} is larger than the number of brokers, which is 1")
            }
            Self::InvalidReplicationFactor { factor } => {
                write!(f, "replication factor {factor} is not allowed: at least 1, or -1 for the server's default")
            }
            Self::InvalidAssignment(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::Limit(error) => error.fmt(f),
            Self::IdTaken { id } => write!(f, "topic id {id} is taken"),
        }
    }
}

impl core::error::Error for CreateTopicError {}

/// What is wrong with an explicit assignment of partitions to brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidAssignment {
    /// Partitions are missing or named twice.
    NotConsecutive,
    /// A partition has no replica.
    Empty {
        /// Which.
        partition: i32,
    },
    /// A broker is named that does not exist.
    UnknownBroker {
        /// For which partition.
        partition: i32,
        /// Which.
        broker: i32,
        /// The only one that exists.
        known: i32,
    },
    /// A broker is named twice for one partition.
    Twice {
        /// For which partition.
        partition: i32,
        /// Which.
        broker: i32,
    },
    /// There are not as many assignments as new partitions.
    Count {
        /// How many there are.
        assignments: usize,
        /// How many partitions are new.
        new_partitions: i32,
    },
}

impl fmt::Display for InvalidAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConsecutive => f.write_str("an assignment must name every partition once, numbered from 0"),
            Self::Empty { partition } => write!(f, "partition {partition} is assigned to no broker"),
            Self::UnknownBroker { partition, broker, known } => {
                write!(f, "partition {partition} is assigned to broker {broker}, but the only broker is {known}")
            }
            Self::Twice { partition, broker } => {
                write!(f, "partition {partition} is assigned to broker {broker} more than once")
            }
            Self::Count { assignments, new_partitions } => {
                write!(f, "there are {assignments} assignments for {new_partitions} new partitions")
            }
        }
    }
}

/// What may not grow without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growing {
    /// `riparian.topics.max`.
    Topics,
    /// `riparian.partitions.max`.
    Partitions,
    /// The partitions of one topic.
    TopicPartitions,
    /// The partitions that one request creates.
    RequestPartitions,
    /// Groups that have configs of their own.
    ConfiguredGroups,
}

impl Growing {
    const fn text(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Partitions => "partitions",
            Self::TopicPartitions => "partitions of one topic",
            Self::RequestPartitions => "partitions in one request",
            Self::ConfiguredGroups => "groups with configs of their own",
        }
    }

    /// The configuration key of its limit, if that can be set.
    pub const fn key(self) -> Option<&'static str> {
        match self {
            Self::Topics => Some("riparian.topics.max"),
            Self::Partitions => Some("riparian.partitions.max"),
            Self::TopicPartitions | Self::RequestPartitions | Self::ConfiguredGroups => None,
        }
    }
}

/// Something would grow beyond its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitExceeded {
    /// What would.
    pub what: Growing,
    /// How much of it is allowed.
    pub max: i64,
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too many {}: at most {} are allowed", self.what.text(), self.max)?;
        self.what.key().map_or(Ok(()), |key| write!(f, " ({key})"))
    }
}

/// Why a topic was not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteTopicError {
    /// The server's properties forbid it. Kafka: TOPIC_DELETION_DISABLED.
    Disabled,
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION.
    UnknownName {
        /// The name.
        name: TopicName,
    },
    /// Kafka: UNKNOWN_TOPIC_ID.
    UnknownId {
        /// The id.
        id: Uuid,
    },
    /// The request names the topic more than once. Kafka: INVALID_REQUEST.
    NamedTwice {
        /// The name.
        name: TopicName,
    },
    /// The server needs it. Kafka: INVALID_REQUEST.
    Internal {
        /// The name.
        name: TopicName,
    },
}

impl fmt::Display for DeleteTopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("deleting topics is switched off: delete.topic.enable=false"),
            Self::UnknownName { name } => write!(f, "topic '{name}' does not exist"),
            Self::UnknownId { id } => write!(f, "no topic has the id {id}"),
            Self::NamedTwice { name } => write!(f, "topic '{name}' is named more than once in the request"),
            Self::Internal { name } => write!(f, "topic '{name}' belongs to the server and cannot be deleted"),
        }
    }
}

impl core::error::Error for DeleteTopicError {}

/// Why a topic was not given more partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreatePartitionsError {
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION.
    UnknownTopic {
        /// The name.
        name: TopicName,
    },
    /// The request names the topic more than once. Kafka: INVALID_REQUEST.
    NamedTwice {
        /// The name.
        name: TopicName,
    },
    /// The number of partitions is the same as, or lower than, it is. Kafka: INVALID_PARTITIONS.
    NotMore {
        /// The name.
        name: TopicName,
        /// How many were asked for.
        asked: i32,
        /// How many there are.
        current: i32,
    },
    /// Its number of partitions says where things are kept in it. Kafka: INVALID_REQUEST.
    Internal {
        /// The name.
        name: TopicName,
    },
    /// Kafka: INVALID_REPLICA_ASSIGNMENT.
    InvalidAssignment(InvalidAssignment),
    /// A limit would be exceeded. Kafka: POLICY_VIOLATION.
    Limit(LimitExceeded),
}

impl fmt::Display for CreatePartitionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTopic { name } => write!(f, "topic '{name}' does not exist"),
            Self::NamedTwice { name } => write!(f, "topic '{name}' is named more than once in the request"),
            Self::NotMore { name, asked, current } if asked == current => {
                write!(f, "topic '{name}' already has {current} partitions")
            }
            Self::NotMore { name, asked, current } => {
                write!(f, "topic '{name}' has {current} partitions and cannot be reduced to {asked}")
            }
            Self::Internal { name } => {
                write!(f, "topic '{name}' belongs to the server and its number of partitions is fixed")
            }
            Self::InvalidAssignment(error) => error.fmt(f),
            Self::Limit(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CreatePartitionsError {}

/// Why a resource's configs were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlterConfigsError {
    /// The topic's name is not legal. Kafka: INVALID_TOPIC_EXCEPTION.
    InvalidName {
        /// The name.
        name: TopicName,
        /// What is wrong with it.
        reason: BadTopicName,
    },
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION.
    UnknownTopic {
        /// The name.
        name: TopicName,
    },
    /// Kafka: INVALID_REQUEST.
    UnknownBroker {
        /// The number asked for.
        broker: i32,
        /// The only one that exists.
        known: i32,
    },
    /// A group's id is missing or too long. Kafka: INVALID_REQUEST.
    InvalidGroupId,
    /// The request names the resource more than once. Kafka: INVALID_REQUEST.
    NamedTwice,
    /// Kafka: INVALID_CONFIG, or as the error says.
    Config(ConfigError),
    /// A limit would be exceeded. Kafka: POLICY_VIOLATION.
    Limit(LimitExceeded),
}

impl fmt::Display for AlterConfigsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTopic { name } => write!(f, "topic '{name}' does not exist"),
            Self::InvalidName { name, reason } => write!(f, "'{name}' is not a topic name: {reason}"),
            Self::UnknownBroker { broker, known } => {
                write!(f, "there is no broker {broker}: allowed are {known}, or no name for all brokers")
            }
            Self::InvalidGroupId => f.write_str("a group needs an id that is not empty and not too long"),
            Self::NamedTwice => f.write_str("the resource is named more than once in the request"),
            Self::Config(error) => error.fmt(f),
            Self::Limit(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AlterConfigsError {}

/// No producer id is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdsExhausted;

impl fmt::Display for ProducerIdsExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every producer id is taken")
    }
}

impl core::error::Error for ProducerIdsExhausted {}

/// The metadata is damaged: nothing can be asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cluster's metadata could not be loaded: {}", self.reason)
    }
}

impl core::error::Error for Unavailable {}
