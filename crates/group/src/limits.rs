//! What all groups of a server together may hold, and how much one member may have kept.
//!
//! Kafka bounds the members of one group and, by the size of a batch, what a group has stored; how many groups there are
//! it does not bound. What a peer can make grow has a limit here, a setting that moves it, and an answer that names it.
//!
//! The machines of a server count together without asking each other, so that a limit may be passed by as many as come
//! at the same moment. What is there already when a limit is lowered stays.

use alloc::{format, string::String, sync::Arc};
use core::sync::atomic::{AtomicU32, Ordering};

use riparian_types::GroupId;

use crate::{
    classic::{MemberAssignment, Protocol},
    command::StreamsHeartbeat,
    config::GroupConfig,
    machine::GroupMachine,
    streams::{InternalTopic, Subtopology, Topology},
    telemetry::GroupLimit,
};

/// The limits, and what counts towards them.
#[derive(Clone, Debug)]
pub struct GroupLimits {
    /// `riparian.groups.max`.
    pub groups_max: u32,
    /// `riparian.members.max`.
    pub members_max: u32,
    /// `riparian.member.bytes.max`.
    pub member_bytes_max: usize,
    /// `riparian.patterns.max`.
    pub patterns_max: u32,
    /// `riparian.pattern.bytes.max`.
    pub pattern_bytes_max: usize,
    /// `riparian.pattern.matches.max`.
    pub pattern_matches_max: u32,
    /// `riparian.topology.description.bytes.max`.
    pub description_bytes_max: usize,
    /// `riparian.topology.descriptions.bytes.max`.
    pub all_descriptions_bytes_max: u32,
    /// The groups of all machines.
    pub groups: Count,
    /// The members of streams groups of all machines.
    pub streams_members: Count,
    /// The members of classic groups of all machines, and those that were given an id to join with.
    pub classic_members: Count,
    /// The different source patterns of each machine.
    pub patterns: Count,
    /// The topics that the patterns of the groups of all machines stand for.
    pub pattern_matches: Count,
    /// The bytes of the descriptions of the topologies of all machines.
    pub description_bytes: Count,
}

impl GroupLimits {
    /// No limits but those of numbers and of patterns, counting from nothing; for tests.
    pub fn none() -> Self {
        Self {
            groups_max: u32::MAX,
            members_max: u32::MAX,
            member_bytes_max: usize::MAX,
            patterns_max: u32::MAX,
            pattern_bytes_max: 1 << 14,
            pattern_matches_max: u32::MAX,
            description_bytes_max: usize::MAX,
            all_descriptions_bytes_max: u32::MAX,
            groups: Count::default(),
            streams_members: Count::default(),
            classic_members: Count::default(),
            patterns: Count::default(),
            pattern_matches: Count::default(),
            description_bytes: Count::default(),
        }
    }
}

/// Counts something of all machines of a server; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Count(Arc<AtomicU32>);

impl Count {
    /// How many there are.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One machine's part of a count; taken back when it is dropped. A clone has no part in it.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    part: u32,
    total: Count,
}

impl Counted {
    /// Sets the part. Costs nothing if it is the same as before.
    pub(crate) fn set(&mut self, total: &Count, part: usize) {
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        if part == self.part {
            return;
        }
        self.total.0.fetch_sub(self.part, Ordering::Relaxed);
        self.total = total.clone();
        self.total.0.fetch_add(part, Ordering::Relaxed);
        self.part = part;
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.total.0.fetch_sub(self.part, Ordering::Relaxed);
    }
}

/// There is no room; says for what, and what would make some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom(pub(crate) String);

impl GroupMachine {
    /// Whether this group is there already, or may be made.
    pub(crate) fn check_room_for_group(&self, group_id: &GroupId) -> Result<(), NoRoom> {
        let limits = &self.config.limits;
        if limits.groups.get() < limits.groups_max || self.has_group(group_id) {
            return Ok(());
        }
        self.config.telemetry.hit(GroupLimit::Groups);
        Err(NoRoom(format!(
            "The server has {} groups and may have no more (riparian.groups.max); delete groups that nobody needs.",
            limits.groups.get()
        )))
    }
}

impl GroupConfig {
    /// Whether another member may join any group.
    pub(crate) fn check_room_for_member(&self) -> Result<(), NoRoom> {
        let limits = &self.limits;
        let members = limits.streams_members.get().saturating_add(limits.classic_members.get());
        if members < limits.members_max {
            return Ok(());
        }
        self.telemetry.hit(GroupLimit::Members);
        Err(NoRoom(format!(
            "All groups of the server together have {members} members and may have no more (riparian.members.max)."
        )))
    }

    /// Whether that many bytes may be kept of one member.
    pub(crate) fn check_member_bytes(&self, what: &str, bytes: usize) -> Result<(), NoRoom> {
        let max = self.limits.member_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        self.telemetry.hit(GroupLimit::MemberBytes);
        Err(NoRoom(format!(
            "{what} takes {bytes} bytes; at most {max} are kept of a member (riparian.member.bytes.max)."
        )))
    }
}

/// What numbers and lists take, give or take.
const ITEM_BYTES: usize = 8;

/// What is kept of a topology, in bytes.
pub(crate) fn topology_bytes(topology: &Topology) -> usize {
    topology.subtopologies.iter().map(subtopology_bytes).sum()
}

fn subtopology_bytes(subtopology: &Subtopology) -> usize {
    let Subtopology {
        id,
        source_topics,
        source_topic_regex,
        state_changelog_topics,
        repartition_sink_topics,
        repartition_source_topics,
        copartition_groups,
    } = subtopology;
    let names = source_topics.iter().chain(repartition_sink_topics).map(|name| text_bytes(name));
    let patterns = source_topic_regex.iter().map(|pattern| text_bytes(pattern));
    let internal = state_changelog_topics.iter().chain(repartition_source_topics).map(internal_topic_bytes);
    let copartitioned = copartition_groups.iter().map(|group| {
        let indexes =
            group.source_topics.len() + group.source_topic_regex.len() + group.repartition_source_topics.len();
        ITEM_BYTES * (1 + indexes)
    });
    text_bytes(id)
        + names.sum::<usize>()
        + patterns.sum::<usize>()
        + internal.sum::<usize>()
        + copartitioned.sum::<usize>()
}

fn internal_topic_bytes(topic: &InternalTopic) -> usize {
    text_bytes(&topic.name) + pairs_bytes(&topic.configs)
}

fn pairs_bytes(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(key, value)| text_bytes(key) + text_bytes(value)).sum()
}

fn text_bytes(text: &str) -> usize {
    ITEM_BYTES + text.len()
}

/// What a heartbeat brings that is kept of its member, in bytes, but for a topology.
pub(crate) fn heartbeat_bytes(heartbeat: &StreamsHeartbeat) -> usize {
    let optional = |text: Option<&str>| text.map_or(0, text_bytes);
    let offsets = [&heartbeat.task_offsets, &heartbeat.task_end_offsets];
    let offsets = offsets.into_iter().flatten().flatten().map(|offset| ITEM_BYTES + text_bytes(&offset.subtopology));
    optional(heartbeat.instance_id.as_deref())
        + optional(heartbeat.rack_id.as_deref())
        + optional(heartbeat.process_id.as_deref())
        + optional(heartbeat.user_endpoint.as_ref().map(|endpoint| endpoint.host.as_str()))
        + heartbeat.client_tags.as_deref().map_or(0, pairs_bytes)
        + offsets.sum::<usize>()
}

/// What a classic member says of itself, in bytes.
pub(crate) fn protocols_bytes(protocols: &[Protocol]) -> usize {
    protocols.iter().map(|protocol| text_bytes(&protocol.name) + protocol.metadata.len()).sum()
}

/// The largest of the assignments that a leader brings, in bytes.
pub(crate) fn assignment_bytes(assignments: &[MemberAssignment]) -> usize {
    assignments.iter().map(|given| given.assignment.len()).max().unwrap_or(0)
}
