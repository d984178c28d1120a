//! Plain data of streams groups (KIP-1071), shared by commands, replies and records.

pub(crate) mod configured;
pub(crate) mod description;
mod ghosts;
pub(crate) mod group;
pub(crate) mod heartbeat;
mod leave;
pub(crate) mod matches;
mod membership;
pub(crate) mod metadata_hash;
mod partition_counts;
pub(crate) mod pattern;
mod reconcile;
mod refresh;
mod replace;
pub(crate) mod resolve;
mod response;
pub(crate) mod settled;
mod target;
pub(crate) mod upkeep;
mod validate;
pub(crate) mod warmup;

use alloc::{boxed::Box, string::String, vec::Vec};

pub use pattern::PATTERN_LENGTH_MAX;

use riparian_types::{AssignmentEpoch, Offset, PartitionIndex, SubtopologyId, TopicName, TopologyEpoch};

/// A topology as a member sends it and as the group keeps it: order preserved, nothing resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Its version, counted by the application.
    pub epoch: TopologyEpoch,
    /// Its parts.
    pub subtopologies: Box<[Subtopology]>,
}

/// One part of a topology: tasks of one subtopology read the same topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtopology {
    /// Unique within the topology.
    pub id: SubtopologyId,
    /// Topics read that the application does not create.
    pub source_topics: Box<[TopicName]>,
    /// Patterns of such topics.
    pub source_topic_regex: Box<[String]>,
    /// Changelogs of the state stores.
    pub state_changelog_topics: Box<[InternalTopic]>,
    /// Repartition topics written.
    pub repartition_sink_topics: Box<[TopicName]>,
    /// Repartition topics read.
    pub repartition_source_topics: Box<[InternalTopic]>,
    /// Topics that must have the same number of partitions.
    pub copartition_groups: Box<[CopartitionGroup]>,
}

impl Topology {
    /// Whether source topics are given by patterns.
    pub(crate) fn has_patterns(&self) -> bool {
        self.patterns().next().is_some()
    }

    /// The patterns of source topics.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &String> {
        self.subtopologies.iter().flat_map(|subtopology| &subtopology.source_topic_regex)
    }

    /// The topics that belong to the application.
    pub(crate) fn internal_topics(&self) -> impl Iterator<Item = &TopicName> {
        self.subtopologies.iter().flat_map(|subtopology| {
            let topics = subtopology.repartition_source_topics.iter().chain(&subtopology.state_changelog_topics);
            topics.map(|topic| &topic.name).chain(&subtopology.repartition_sink_topics)
        })
    }

    /// All topics that must exist before tasks can run, by subtopology, but for those that patterns stand for.
    pub(crate) fn required_topics(&self) -> impl Iterator<Item = &TopicName> {
        self.subtopologies.iter().flat_map(|subtopology| {
            subtopology.input_topics().chain(subtopology.state_changelog_topics.iter().map(|topic| &topic.name))
        })
    }
}

impl Subtopology {
    /// The topics that its tasks read, but for those that patterns stand for: source topics, then repartition source topics.
    pub(crate) fn input_topics(&self) -> impl Iterator<Item = &TopicName> {
        self.source_topics.iter().chain(self.repartition_source_topics.iter().map(|topic| &topic.name))
    }
}

/// A topic that the server creates for the application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InternalTopic {
    /// Its name.
    pub name: TopicName,
    /// Its fixed number of partitions, 0 if the server decides.
    pub partitions: i32,
    /// Its replication factor, 0 or -1 for the server's default.
    pub replication_factor: i16,
    /// Topic configs, in the order sent.
    pub configs: Box<[(String, String)]>,
}

/// Indexes into the arrays of the enclosing [`Subtopology`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopartitionGroup {
    /// Into [`Subtopology::source_topics`].
    pub source_topics: Box<[i16]>,
    /// Into [`Subtopology::source_topic_regex`].
    pub source_topic_regex: Box<[i16]>,
    /// Into [`Subtopology::repartition_source_topics`].
    pub repartition_source_topics: Box<[i16]>,
}

/// Tasks of one subtopology, by name: the form of the edges. In replies and records ordered, partitions ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskIds {
    /// Whose tasks.
    pub subtopology: SubtopologyId,
    /// Which.
    pub partitions: Vec<PartitionIndex>,
}

/// Active tasks of one subtopology with the assignment epoch each was handed out at (KIP-1251).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveTaskIds {
    /// Whose tasks.
    pub subtopology: SubtopologyId,
    /// Which.
    pub partitions: Vec<PartitionIndex>,
    /// Parallel to `partitions`. Empty in a record that carries none: the record's member epoch then counts for all.
    pub assignment_epochs: Vec<AssignmentEpoch>,
}

/// The three task lists of a member, as a member reports them or is told to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLists {
    /// Tasks that process records.
    pub active: Vec<TaskIds>,
    /// Tasks that keep a copy of the state.
    pub standby: Vec<TaskIds>,
    /// Tasks that build a copy of the state, to become active later.
    pub warmup: Vec<TaskIds>,
}

/// A task's position in its changelogs, summed over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOffset {
    /// The task's subtopology.
    pub subtopology: SubtopologyId,
    /// The task's partition.
    pub partition: PartitionIndex,
    /// The sum; `i64::MAX` as an end offset means "not known yet".
    pub offset: Offset,
}

/// Where a member answers interactive queries (`application.server`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitions {
    /// Which topic.
    pub topic: TopicName,
    /// Ascending.
    pub partitions: Vec<PartitionIndex>,
}
