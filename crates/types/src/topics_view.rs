//! What a machine may know of the cluster's topics.

use alloc::{collections::BTreeMap, sync::Arc};

use crate::{PartitionCount, TopicName, Uuid};

/// The topics that exist, as last shown: names, ids and partition counts. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicsView {
    topics: Arc<BTreeMap<TopicName, TopicSummary>>,
}

/// One topic of a [`TopicsView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicSummary {
    /// The topic's id, another one if it is deleted and created again.
    pub id: Uuid,
    /// Its number of partitions, numbered from 0.
    pub partitions: PartitionCount,
}

impl TopicsView {
    /// A view of these topics.
    pub fn new(topics: BTreeMap<TopicName, TopicSummary>) -> Self {
        Self { topics: Arc::new(topics) }
    }

    /// The topic of this name, if it exists.
    pub fn topic(&self, name: &str) -> Option<&TopicSummary> {
        self.topics.get(name)
    }

    /// All topics, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicName, &TopicSummary)> {
        self.topics.iter()
    }
}
