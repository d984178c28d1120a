//! What a machine may know of the cluster's topics.

use alloc::collections::BTreeMap;

use crate::{PartitionCount, TopicName, Uuid, cow_map::CowMap};

/// The topics that exist, as last shown: names, ids and partition counts. Cheap to clone and, beside clones, to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicsView {
    topics: CowMap<TopicName, TopicSummary>,
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
        Self { topics: topics.into_iter().collect() }
    }

    /// The topic of this name, if it exists.
    pub fn topic(&self, name: &str) -> Option<&TopicSummary> {
        self.topics.get(name)
    }

    /// All topics, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicName, &TopicSummary)> {
        self.topics.iter()
    }

    /// The topics whose names come after this one, ordered by name.
    pub fn iter_after<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a TopicName, &'a TopicSummary)> {
        self.topics.iter_after(name)
    }

    /// How many topics there are.
    pub const fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Adds a topic, or changes the one of this name.
    pub fn insert(&mut self, name: TopicName, summary: TopicSummary) {
        self.topics.insert(name, summary);
    }

    /// Takes a topic away.
    pub fn remove(&mut self, name: &str) {
        self.topics.remove(name);
    }
}
