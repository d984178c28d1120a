//! What may be asked of the machine.

use alloc::{string::String, vec::Vec};

use riparian_types::{NodeId, PartitionIndex, TopicName, Uuid, machine::Waiter};

use crate::ConfigResource;

/// A command, with where its answer goes. Items of one command are answered in the order asked, each for itself.
#[derive(Clone, Debug)]
pub enum Command {
    /// Finalize the features of this server that are not finalized yet. To be sent once after loading.
    Bootstrap(Waiter),
    /// Create topics.
    CreateTopics(Waiter, CreateTopics),
    /// Create one of the server's own topics, if it does not exist, with the configs it needs.
    EnsureInternalTopic(Waiter, EnsureInternalTopic),
    /// Delete topics.
    DeleteTopics(Waiter, Vec<TopicSelector>),
    /// Give topics more partitions.
    CreatePartitions(Waiter, CreatePartitions),
    /// Change configs key by key (KIP-339).
    AlterConfigs(Waiter, AlterConfigs),
    /// Take a block of producer ids, of so many.
    AllocateProducerIds(Waiter, u32),
}

impl Command {
    /// Where the answer goes.
    pub const fn waiter(&self) -> Waiter {
        match self {
            Self::Bootstrap(waiter)
            | Self::CreateTopics(waiter, _)
            | Self::EnsureInternalTopic(waiter, _)
            | Self::DeleteTopics(waiter, _)
            | Self::CreatePartitions(waiter, _)
            | Self::AlterConfigs(waiter, _)
            | Self::AllocateProducerIds(waiter, _) => *waiter,
        }
    }
}

/// Topics to be created.
#[derive(Clone, Debug)]
pub struct CreateTopics {
    /// Which.
    pub topics: Vec<NewTopic>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// A topic to be created.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id: random, chosen by whoever sends the command.
    pub id: Uuid,
    /// How many partitions; -1: as the server's properties say, or as `assignment` does.
    pub partitions: i32,
    /// How many replicas; -1: as the server's properties say, or as `assignment` does.
    pub replication_factor: i16,
    /// Where each partition shall be kept; empty: the server decides.
    pub assignment: Vec<(PartitionIndex, Vec<NodeId>)>,
    /// Its configs, as sent.
    pub configs: Vec<(String, Option<String>)>,
}

/// One of the server's own topics to be created.
#[derive(Clone, Debug)]
pub struct EnsureInternalTopic {
    /// Which.
    pub topic: InternalTopic,
    /// The id it gets if it is created: random.
    pub id: Uuid,
}

/// The server's own topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalTopic {
    /// `__consumer_offsets`: groups and committed offsets.
    ConsumerOffsets,
}

/// A topic, by name or by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicSelector {
    /// By name.
    Name(TopicName),
    /// By id.
    Id(Uuid),
}

/// Topics that shall have more partitions.
#[derive(Clone, Debug)]
pub struct CreatePartitions {
    /// Which.
    pub topics: Vec<MorePartitions>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// A topic that shall have more partitions.
#[derive(Clone, Debug)]
pub struct MorePartitions {
    /// Its name.
    pub name: TopicName,
    /// How many it shall have in all.
    pub count: i32,
    /// Where each new one shall be kept; `None`: the server decides.
    pub assignment: Option<Vec<Vec<NodeId>>>,
}

/// Configs to be changed.
#[derive(Clone, Debug)]
pub struct AlterConfigs {
    /// Of which resources.
    pub resources: Vec<AlterResource>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// Changes of one resource's configs; either all of them happen or none.
#[derive(Clone, Debug)]
pub struct AlterResource {
    /// Whose.
    pub resource: ConfigResource,
    /// What.
    pub changes: Vec<ConfigChange>,
}

/// A change of one config.
#[derive(Clone, Debug)]
pub struct ConfigChange {
    /// The key.
    pub key: String,
    /// What to do.
    pub operation: AlterOperation,
    /// With which value; none is needed for [`AlterOperation::Delete`].
    pub value: Option<String>,
}

/// What may be done to a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlterOperation {
    /// Set the value.
    Set,
    /// Remove it: what lies below counts again.
    Delete,
    /// Add items to a list that it does not have yet.
    Append,
    /// Take items out of a list.
    Subtract,
}
