//! Which topics the patterns of topologies stand for.
//!
//! The texts of patterns come with the groups' topologies and are known, compiled, as long as a group has them
//! ([`KnownPatterns`], derived from the records). The topics that each matches are found once, when it is asked for the
//! first time, and then kept up to date ([`super::matches`]): a topic that comes is shown to each pattern once, whoever
//! has it, and nobody else is asked. What a group reads is put together from that when it has its topology configured.
//!
//! Topics of Kafka's own (`__…`) are matched by no pattern, and a group's internal topics by none of that group: those
//! that its topology names, and those of its earlier versions, which are known by their names.

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};

use riparian_types::{GroupId, TopicName};

use crate::{
    command::StreamsHeartbeat,
    limits::NoRoom,
    machine::GroupMachine,
    reply::StreamsHeartbeatError,
    soft::GroupSoft,
    streams::{
        CopartitionGroup, Subtopology, Topology,
        group::StreamsGroup,
        matches::{Matches, is_matched},
        pattern::{Pattern, PatternError},
    },
    telemetry::GroupLimit,
};

/// The source topics that a subtopology may read: what a copartition group can refer to.
const SOURCE_TOPICS_MAX: usize = i16::MAX as usize;

/// The patterns that a topology may bring.
const PATTERNS_OF_TOPOLOGY_MAX: usize = 100;
/// How many times as much as one all patterns of a topology may take.
const TOGETHER: usize = 4;

/// The patterns of all groups, and who has each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownPatterns(BTreeMap<String, KnownPattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownPattern {
    pattern: Arc<Pattern>,
    groups: BTreeSet<GroupId>,
}

impl KnownPatterns {
    /// How many different ones there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The groups that have this pattern.
    pub(crate) fn groups(&self, text: &str) -> impl Iterator<Item = &GroupId> {
        self.0.get(text).into_iter().flat_map(|known| &known.groups)
    }

    /// The group has these patterns.
    pub(crate) fn add(&mut self, group_id: &GroupId, topology: &Topology) {
        for text in topology.patterns() {
            let known = self
                .0
                .entry(text.clone())
                .or_insert_with(|| KnownPattern { pattern: Arc::new(Pattern::loaded(text)), groups: BTreeSet::new() });
            known.groups.insert(group_id.clone());
        }
    }

    /// The group has these patterns no more.
    pub(crate) fn remove(&mut self, group_id: &GroupId, topology: Option<&Topology>) {
        for text in topology.into_iter().flat_map(Topology::patterns) {
            let Some(known) = self.0.get_mut(text) else { continue };
            known.groups.remove(group_id);
            if known.groups.is_empty() {
                self.0.remove(text);
            }
        }
    }

    /// Whether a group has this pattern.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.0.contains_key(text)
    }

    /// The pattern, compiled now if nobody has it yet.
    pub(crate) fn pattern(&self, text: &str) -> Arc<Pattern> {
        self.0.get(text).map_or_else(|| Arc::new(Pattern::loaded(text)), |known| Arc::clone(&known.pattern))
    }
}

/// A topology with names in place of patterns.
#[derive(Clone, Debug)]
pub(crate) struct Resolved<'a> {
    pub(crate) topology: Cow<'a, Topology>,
    /// How many topics the patterns stand for.
    pub(crate) matched: usize,
    /// The patterns without a topic, each with its subtopology.
    pub(crate) unmatched: Vec<String>,
}

/// Puts names in place of patterns; `None` while it is not known which. Source topics that are named come first, as they
/// were, so that what refers to them still does; those that patterns stand for follow in the order of their names.
pub(super) fn resolve<'a>(
    matches: &Matches,
    group_id: &GroupId,
    topology: &'a Topology,
) -> Result<Option<Resolved<'a>>, StreamsHeartbeatError> {
    let mut resolved = Resolved { topology: Cow::Borrowed(topology), matched: 0, unmatched: Vec::new() };
    if !topology.has_patterns() {
        return Ok(Some(resolved));
    }
    let internal: BTreeSet<&str> = topology.internal_topics().map(TopicName::as_str).collect();
    let is_own = |name: &str| internal.contains(name) || is_internal_of(group_id, name);
    let mut subtopologies = Vec::with_capacity(topology.subtopologies.len());
    for subtopology in &topology.subtopologies {
        let mut of_pattern: Vec<Vec<TopicName>> = Vec::new();
        for text in &subtopology.source_topic_regex {
            let Some(found) = matches.found(text) else { return Ok(None) };
            let names: Vec<TopicName> = found.topics.iter().filter(|name| !is_own(name)).cloned().collect();
            if names.is_empty() {
                let why = found.pattern.problem().map(|why| format!(" ({why})")).unwrap_or_default();
                resolved.unmatched.push(format!("{text} of subtopology {}{why}", subtopology.id));
            }
            of_pattern.push(names);
        }
        let subtopology = with_names(subtopology, &of_pattern).map_err(StreamsHeartbeatError::InvalidTopology)?;
        resolved.matched += of_pattern.iter().map(Vec::len).sum::<usize>();
        subtopologies.push(subtopology);
    }
    resolved.topology = Cow::Owned(Topology { epoch: topology.epoch, subtopologies: subtopologies.into() });
    Ok(Some(resolved))
}

fn with_names(subtopology: &Subtopology, of_pattern: &[Vec<TopicName>]) -> Result<Subtopology, String> {
    let named: BTreeSet<&TopicName> = subtopology.source_topics.iter().collect();
    let found: BTreeSet<&TopicName> = of_pattern.iter().flatten().filter(|name| !named.contains(name)).collect();
    let sources: Vec<TopicName> = subtopology.source_topics.iter().chain(found).cloned().collect();
    if sources.len() > SOURCE_TOPICS_MAX {
        return Err(format!(
            "Subtopology {} reads {} topics; at most {SOURCE_TOPICS_MAX} are supported.",
            subtopology.id,
            sources.len()
        ));
    }
    let is_referred_to = subtopology.copartition_groups.iter().any(|group| !group.source_topic_regex.is_empty());
    let places = (0..).zip(&sources).filter(|_| is_referred_to);
    let places: BTreeMap<&TopicName, i16> = places.map(|(place, name)| (name, place)).collect();
    let with_places = |group: &CopartitionGroup| {
        let patterns =
            group.source_topic_regex.iter().filter_map(|&index| of_pattern.get(usize::try_from(index).ok()?));
        let found = patterns.flatten().filter_map(|name| places.get(name)).copied();
        let mut source_topics: Vec<i16> = group.source_topics.iter().copied().chain(found).collect();
        source_topics.sort_unstable();
        source_topics.dedup();
        CopartitionGroup {
            source_topics: source_topics.into(),
            source_topic_regex: [].into(),
            repartition_source_topics: group.repartition_source_topics.clone(),
        }
    };
    Ok(Subtopology {
        copartition_groups: subtopology.copartition_groups.iter().map(with_places).collect(),
        source_topic_regex: [].into(),
        source_topics: sources.into(),
        ..subtopology.clone()
    })
}

/// Whether the name is one that Kafka Streams gives to internal topics of this application.
fn is_internal_of(group_id: &GroupId, name: &str) -> bool {
    let rest = name.strip_prefix(group_id.as_str()).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| rest.ends_with("-changelog") || rest.ends_with("-repartition"))
}

impl GroupMachine {
    /// Refuses patterns of a topology that can't be used, or for which there is no room.
    pub(crate) fn check_patterns(&self, heartbeat: &StreamsHeartbeat) -> Result<(), StreamsHeartbeatError> {
        let Some(topology) = &heartbeat.topology else { return Ok(()) };
        let group = self.groups.get(&heartbeat.group_id).and_then(|group| group.streams());
        let before: BTreeSet<&String> =
            group.and_then(|group| group.topology.as_deref()).into_iter().flat_map(Topology::patterns).collect();
        let after: BTreeSet<&String> = topology.patterns().collect();
        // What was accepted once is, whatever the limits are by now.
        if after.is_subset(&before) {
            return Ok(());
        }
        if after.len() > PATTERNS_OF_TOPOLOGY_MAX {
            return Err(StreamsHeartbeatError::InvalidTopology(format!(
                "The topology has {} source patterns; at most {PATTERNS_OF_TOPOLOGY_MAX} may be.",
                after.len()
            )));
        }
        let mut unknown = BTreeSet::new();
        for subtopology in &topology.subtopologies {
            for text in &subtopology.source_topic_regex {
                if self.patterns.0.contains_key(text) || !unknown.insert(text) {
                    continue;
                }
                let refused = |why: &str| {
                    StreamsHeartbeatError::InvalidTopology(format!(
                        "The source pattern {text} of subtopology {} is refused: {why}.",
                        subtopology.id
                    ))
                };
                let max = self.config.limits.pattern_bytes_max;
                Pattern::check(text, max).map_err(|error| match error {
                    PatternError::Syntax(why) => refused(&why),
                    PatternError::TooLarge => {
                        self.config.telemetry.hit(GroupLimit::PatternBytes);
                        refused(&format!("it takes more than {max} bytes (riparian.pattern.bytes.max)"))
                    }
                })?;
            }
        }
        let limits = &self.config.limits;
        let max = limits.pattern_bytes_max.saturating_mul(TOGETHER);
        if !Pattern::fit_together(after.iter().copied(), max) {
            self.config.telemetry.hit(GroupLimit::PatternBytes);
            return Err(StreamsHeartbeatError::InvalidTopology(format!(
                "The source patterns of the topology take more than {max} bytes together ({TOGETHER} times \
                 riparian.pattern.bytes.max)."
            )));
        }
        // Those that the group would have no more make room, if nobody else has them.
        let is_freed = |text: &&&String| !after.contains(**text) && self.patterns.groups(text).count() == 1;
        let freed = u32::try_from(before.iter().filter(is_freed).count()).unwrap_or(u32::MAX);
        let others = limits.patterns.get().saturating_sub(freed);
        let count = u32::try_from(unknown.len()).unwrap_or(u32::MAX).saturating_add(others);
        if unknown.is_empty() || count <= limits.patterns_max {
            return Ok(());
        }
        self.config.telemetry.hit(GroupLimit::Patterns);
        Err(StreamsHeartbeatError::GroupMaxSizeReached(format!(
            "All groups of the server together have {} source patterns and may have no more than {} \
             (riparian.patterns.max).",
            limits.patterns.get(),
            limits.patterns_max
        )))
    }

    /// Whether a new topology may stand for so many topics, where the one that it replaces stands for `before`.
    pub(crate) fn check_room_for_matches(&self, matched: usize, before: usize) -> Result<(), NoRoom> {
        let limits = &self.config.limits;
        let others = limits.pattern_matches.get().saturating_sub(u32::try_from(before).unwrap_or(u32::MAX));
        let matched = u32::try_from(matched).unwrap_or(u32::MAX);
        if matched == 0 || others.saturating_add(matched) <= limits.pattern_matches_max {
            return Ok(());
        }
        self.config.telemetry.hit(GroupLimit::PatternMatches);
        Err(NoRoom(format!(
            "The source patterns of the topology match {matched} topics, those of other groups {others}; together they \
             may match {} (riparian.pattern.matches.max).",
            limits.pattern_matches_max
        )))
    }

    /// The subtopology that reads the topic, whether it exists or not.
    pub(crate) fn reader_of<'a>(
        &self,
        soft: &GroupSoft,
        group_id: &GroupId,
        group: &'a StreamsGroup,
        topic: &str,
    ) -> Option<&'a Subtopology> {
        let topology = group.topology.as_ref()?;
        let named = |subtopology: &&Subtopology| subtopology.input_topics().any(|name| name.as_str() == topic);
        let matched = |subtopology: &&Subtopology| {
            let mut patterns = subtopology.source_topic_regex.iter();
            patterns.any(|text| match soft.caches.matches.found(text) {
                Some(found) => found.topics.contains(topic),
                None => is_matched(&self.patterns.pattern(text), topic),
            })
        };
        topology.subtopologies.iter().find(named).or_else(|| {
            let is_own =
                || is_internal_of(group_id, topic) || topology.internal_topics().any(|it| it.as_str() == topic);
            topology.subtopologies.iter().find(matched).filter(|_| !is_own())
        })
    }
}
