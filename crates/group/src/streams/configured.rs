//! A topology made concrete with the topics that exist: which tasks there are, what is missing, what is wrong.
//!
//! It is soft state: a function of the group's topology and the topics, computed when either changes and kept until
//! then. It deliberately does not know members.

use alloc::{borrow::Cow, boxed::Box, collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};

use riparian_assignor::{Subtopologies, SubtopologyInput};
use riparian_types::{PartitionIndex, TopicName, TopicsView, TopologyEpoch};

use crate::{
    reply::{Status, StatusCode, StreamsHeartbeatError},
    streams::{
        InternalTopic, Subtopology, TaskIds, Topology,
        partition_counts::{self, CountsError},
        resolve::Resolved,
    },
    tasks::{SubtopologyIds, Task},
};

/// Names that a status lists before it counts the rest.
const NAMES_LISTED_MAX: usize = 3;

/// A topology and the topics that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredTopology {
    /// Of the topics that the topology requires.
    pub(crate) metadata_hash: i64,
    /// What is wrong: status 1, 2 or 3. Nothing wrong means that tasks can run.
    pub(crate) problem: Option<Box<Status>>,
    /// Internal topics to be created.
    pub(crate) missing: Box<[InternalTopic]>,
    /// The ids that the group had; its tasks are numbered by them.
    pub(crate) ids: SubtopologyIds,
    /// Parallel to those ids; empty with status 1 or 2.
    pub(crate) subtopologies: Box<[ConfiguredSubtopology]>,
    /// The numbering of tasks that assignors use, parallel to `subtopologies`.
    pub(crate) numbering: Arc<Subtopologies>,
    /// The numbers of partitions of internal topics, by name.
    counts: Box<[(TopicName, i32)]>,
    /// The topology with names in place of patterns, if it has any.
    pub(crate) sources: Option<Arc<Topology>>,
    extent: Extent,
}

/// What is known of the topics that the patterns stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// So many they are.
    Known(u32),
    /// Nothing yet: whatever the group had before, this topology included if its epoch is given, goes on.
    Pending(TopologyEpoch),
}

/// One subtopology and the topics that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfiguredSubtopology {
    /// Its number of tasks.
    pub(crate) task_count: i32,
    /// The topics its tasks read and how many partitions they have at present, ordered by name.
    pub(crate) inputs: Box<[(TopicName, i32)]>,
}

impl ConfiguredTopology {
    /// Makes a topology concrete.
    pub(crate) fn new(
        resolved: Resolved<'_>,
        ids: &SubtopologyIds,
        topics: &TopicsView,
        metadata_hash: i64,
    ) -> Result<Self, StreamsHeartbeatError> {
        let Resolved { topology, matched, unmatched } = resolved;
        let extent = Extent::Known(u32::try_from(matched).unwrap_or(u32::MAX));
        let (borrowed, sources) = match topology {
            Cow::Borrowed(topology) => (Some(topology), None),
            Cow::Owned(topology) => (None, Some(Arc::new(topology))),
        };
        let topology = borrowed.or(sources.as_deref()).expect("one of both is there");
        let unusable = |code, detail| Self {
            problem: Some(Box::new(Status { code, detail })),
            sources: sources.clone(),
            extent,
            ..Self::empty(ids, metadata_hash)
        };
        if let Some(detail) = missing_source_topics(topology, &unmatched, topics) {
            return Ok(unusable(StatusCode::MissingSourceTopics, detail));
        }
        let counts = match partition_counts::decide(topology, topics) {
            Ok(counts) => counts,
            Err(CountsError::InvalidTopology(text)) => return Err(StreamsHeartbeatError::InvalidTopology(text)),
            Err(CountsError::IncorrectlyPartitioned(detail)) => {
                return Ok(unusable(StatusCode::IncorrectlyPartitionedTopics, detail));
            }
        };
        let counts: BTreeMap<TopicName, i32> = counts.into_iter().map(|(name, count)| (name.clone(), count)).collect();
        let missing = match missing_internal_topics(topology, topics, &counts) {
            Ok(missing) => missing,
            Err(detail) => return Ok(unusable(StatusCode::IncorrectlyPartitionedTopics, detail)),
        };
        let problem = (!missing.is_empty()).then(|| {
            let names = some_of(missing.iter().map(|topic| topic.name.as_str()).collect());
            let detail = format!("Internal topics are missing: {names}");
            Box::new(Status { code: StatusCode::MissingInternalTopics, detail })
        });
        let mut subtopologies = alloc::vec![ConfiguredSubtopology::default(); ids.as_slice().len()];
        let mut inputs: Vec<SubtopologyInput> = (ids.as_slice().iter())
            .map(|id| SubtopologyInput { id: id.clone(), partition_count: 0, stateful: false })
            .collect();
        for subtopology in &topology.subtopologies {
            let Some(index) = ids.find(&subtopology.id) else { continue };
            subtopologies[index] = ConfiguredSubtopology::new(subtopology, topics, &counts);
            inputs[index].partition_count = u32::try_from(subtopologies[index].task_count).unwrap_or(0);
            inputs[index].stateful = !subtopology.state_changelog_topics.is_empty();
        }
        let numbering = Subtopologies::new(inputs)
            .map_err(|error| StreamsHeartbeatError::InvalidTopology(format!("The topology has {error}.")))?;
        Ok(Self {
            metadata_hash,
            problem,
            missing: missing.into(),
            ids: ids.clone(),
            subtopologies: subtopologies.into(),
            numbering: Arc::new(numbering),
            counts: counts.into_iter().collect(),
            sources: sources.clone(),
            extent,
        })
    }

    /// A topology of which nothing is known.
    fn empty(ids: &SubtopologyIds, metadata_hash: i64) -> Self {
        Self {
            metadata_hash,
            problem: None,
            missing: Box::default(),
            ids: ids.clone(),
            subtopologies: Box::default(),
            numbering: Arc::new(Subtopologies::new(Vec::new()).expect("no subtopologies are sorted and few")),
            counts: Box::default(),
            sources: None,
            extent: Extent::Known(0),
        }
    }

    /// A topology whose patterns are still being matched, beside what the group's record says at present.
    pub(crate) fn pending(ids: &SubtopologyIds, metadata_hash: i64, validated: TopologyEpoch) -> Self {
        Self { extent: Extent::Pending(validated), ..Self::empty(ids, metadata_hash) }
    }

    /// Whether the patterns are still being matched.
    pub(crate) const fn is_pending(&self) -> bool {
        matches!(self.extent, Extent::Pending(_))
    }

    /// How many topics the patterns stand for.
    pub(crate) const fn matched(&self) -> usize {
        match self.extent {
            Extent::Known(count) => count as usize,
            Extent::Pending(_) => 0,
        }
    }

    /// Whether tasks can run.
    pub(crate) const fn is_ready(&self) -> bool {
        self.problem.is_none() && !self.is_pending()
    }

    /// The epoch of the topology if tasks can run, or could while nothing else is known.
    pub(crate) const fn validated(&self, epoch: TopologyEpoch) -> TopologyEpoch {
        match self.extent {
            Extent::Pending(validated) => validated,
            Extent::Known(_) if self.is_ready() => epoch,
            Extent::Known(_) => TopologyEpoch::NONE,
        }
    }

    /// Refuses tasks that don't exist, unless they were given; only meaningful when ready.
    pub(crate) fn check_owned(
        &self,
        ids: &SubtopologyIds,
        owned: &[TaskIds],
        was_given: impl Fn(Task) -> bool,
    ) -> Result<(), StreamsHeartbeatError> {
        for list in owned {
            let found = ids.find(&list.subtopology);
            let Some((index, subtopology)) = found.and_then(|index| Some((index, self.subtopologies.get(index)?)))
            else {
                return Err(StreamsHeartbeatError::InvalidRequest(format!(
                    "Owned tasks name subtopology {}, which the group's topology does not have.",
                    list.subtopology
                )));
            };
            let count = subtopology.task_count;
            let is_known = |&&partition: &&PartitionIndex| {
                (0..count).contains(&partition.0) || Task::new(index, partition).is_some_and(&was_given)
            };
            if let Some(partition) = list.partitions.iter().find(|partition| !is_known(partition)) {
                return Err(StreamsHeartbeatError::InvalidRequest(format!(
                    "Owned tasks name task {partition} of subtopology {}, which has {count} tasks, numbered from 0.",
                    list.subtopology
                )));
            }
        }
        Ok(())
    }

    /// The topology with the counts that were decided, and with names in place of patterns.
    pub(crate) fn resolved(&self, topology: &Topology) -> Topology {
        let mut topology = self.sources.as_deref().unwrap_or(topology).clone();
        let subtopologies = topology.subtopologies.iter_mut();
        let internal = subtopologies.flat_map(|subtopology| {
            subtopology.repartition_source_topics.iter_mut().chain(&mut subtopology.state_changelog_topics)
        });
        for topic in internal {
            let decided = self.counts.binary_search_by(|(name, _)| name.cmp(&topic.name));
            topic.partitions = decided.map_or(topic.partitions, |index| self.counts[index].1);
        }
        topology
    }
}

impl ConfiguredSubtopology {
    fn new(subtopology: &Subtopology, topics: &TopicsView, counts: &BTreeMap<TopicName, i32>) -> Self {
        let actual = |name: &str| topics.topic(name).map(|topic| topic.partitions.0);
        let decided = |name: &TopicName| actual(name).or_else(|| counts.get(name).copied()).unwrap_or(0);
        let mut inputs: Vec<(TopicName, i32)> =
            subtopology.input_topics().map(|name| (name.clone(), actual(name).unwrap_or(0))).collect();
        inputs.sort_unstable();
        inputs.dedup();
        Self { task_count: subtopology.input_topics().map(decided).max().unwrap_or(0), inputs: inputs.into() }
    }
}

/// Up to three names, and how many more there are.
pub(crate) fn some_of(names: Vec<&str>) -> String {
    let listed = &names[..names.len().min(NAMES_LISTED_MAX)];
    match names.len() - listed.len() {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn missing_source_topics(topology: &Topology, unmatched: &[String], topics: &TopicsView) -> Option<String> {
    let sources = topology.subtopologies.iter().flat_map(|subtopology| &subtopology.source_topics);
    let mut missing: Vec<&str> = sources.filter(|name| topics.topic(name).is_none()).map(TopicName::as_str).collect();
    missing.sort_unstable();
    missing.dedup();
    let mut texts = Vec::new();
    if !missing.is_empty() {
        texts.push(format!("Source topics are missing: {}. Create them; the server does not.", some_of(missing)));
    }
    if !unmatched.is_empty() {
        let patterns = some_of(unmatched.iter().map(String::as_str).collect());
        texts.push(format!("No topic matches the source pattern {patterns}. Create one; the server does not."));
    }
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// The internal topics that don't exist; an error if one exists with another number of partitions.
fn missing_internal_topics(
    topology: &Topology,
    topics: &TopicsView,
    counts: &BTreeMap<TopicName, i32>,
) -> Result<Vec<InternalTopic>, String> {
    let internal = topology.subtopologies.iter().flat_map(|subtopology| {
        subtopology.repartition_source_topics.iter().chain(&subtopology.state_changelog_topics)
    });
    let mut missing: BTreeMap<TopicName, InternalTopic> = BTreeMap::new();
    for topic in internal {
        let expected = counts.get(&topic.name).copied().unwrap_or(0);
        match topics.topic(&topic.name).map(|existing| existing.partitions.0) {
            Some(found) if found != expected => {
                return Err(format!(
                    "Internal topic {} exists with {found} partitions, but must have {expected}; delete it or change \
                     the topics it depends on.",
                    topic.name
                ));
            }
            Some(_) => {}
            None => {
                let replication_factor = if topic.replication_factor == 0 { -1 } else { topic.replication_factor };
                let topic = InternalTopic { partitions: expected, replication_factor, ..topic.clone() };
                missing.insert(topic.name.clone(), topic);
            }
        }
    }
    Ok(missing.into_values().collect())
}
