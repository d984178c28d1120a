//! The next topology of a group.
//!
//! Kafka keeps a group's topology until the group is deleted together with its offsets, so that each change of an
//! application needs a new application id. Here whoever starts a group that nobody is left in brings its topology along:
//! offsets stay, and so do the internal topics of the old one. While members are there, a different topology is refused
//! with a text that says what differs.

use alloc::{format, string::String, sync::Arc, vec::Vec};

use riparian_types::{
    MemberEpoch, MemberId, TopicName,
    planted::{self, Bug},
};

use crate::{
    command::StreamsHeartbeat,
    machine::GroupMachine,
    soft::GroupSoft,
    streams::{
        InternalTopic, Subtopology, Topology,
        group::{Member, StreamsGroup},
    },
    tasks::SubtopologyIds,
};

/// Differences that a refusal lists before it counts the rest, and names that each of them lists.
const DIFFERENCES_MAX: usize = 5;
const NAMES_MAX: usize = 5;

/// Whether this heartbeat brings the group its next topology: another one, and nobody is there who runs the old one.
pub(super) fn is_due(
    machine: &GroupMachine,
    soft: &GroupSoft,
    group: &StreamsGroup,
    heartbeat: &StreamsHeartbeat,
) -> bool {
    let (Some(stored), Some(sent)) = (&group.topology, &heartbeat.topology) else { return false };
    let is_absent = |(id, member): (&MemberId, &Member)| {
        // A static member that left, or what a killed process has left behind that is now back.
        let is_ghost = || {
            machine.config.fence_restarted_processes
                && heartbeat.process_id.as_ref() == Some(&member.metadata.process_id)
                && soft.is_closed(&heartbeat.group_id, id)
        };
        member.progress.epoch == MemberEpoch::LEAVE_STATIC || is_ghost()
    };
    machine.config.replace_topology
        && heartbeat.member_epoch == MemberEpoch::JOIN
        && !is_same(stored, sent)
        && (group.members.iter().all(is_absent)
            || planted::is_in(Bug::VersionsBesideEachOther) && group.members.iter().any(is_absent))
}

/// The group as it is once its next topology is stored.
pub(super) fn replaced(group: &StreamsGroup, topology: Option<&Topology>) -> StreamsGroup {
    let mut group = group.clone();
    group.apply_topology(topology.cloned().map(Arc::new), SubtopologyIds::default());
    // Whatever was described was another topology, be it of the same epoch.
    group.forget_description();
    group
}

/// Equal but for the order of subtopologies.
pub(super) fn is_same(stored: &Topology, sent: &Topology) -> bool {
    stored.epoch == sent.epoch
        && stored.subtopologies.len() == sent.subtopologies.len()
        && by_id(stored).into_iter().zip(by_id(sent)).all(|(stored, sent)| stored == sent)
}

fn by_id(topology: &Topology) -> Vec<&Subtopology> {
    let mut subtopologies: Vec<&Subtopology> = topology.subtopologies.iter().collect();
    subtopologies.sort_by(|a, b| a.id.cmp(&b.id));
    subtopologies
}

/// Why a topology is refused, and what to do.
pub(super) fn refusal(stored: &Topology, sent: &Topology) -> String {
    let differences = differences(stored, sent);
    let listed = differences.iter().take(DIFFERENCES_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    let more = match differences.len().saturating_sub(DIFFERENCES_MAX) {
        0 => String::new(),
        more => format!("; and {more} more differences"),
    };
    format!(
        "The topology is not the one that the group's members run: {listed}{more}. Stop all members of the application \
         (those that were killed are gone when their sessions end); the first one that starts after that brings the group \
         its new topology, and offsets stay."
    )
}

/// What differs, subtopology by subtopology.
fn differences(stored: &Topology, sent: &Topology) -> Vec<String> {
    let mut found = Vec::new();
    if stored.epoch != sent.epoch {
        found.push(format!("its epoch is {} instead of {}", sent.epoch, stored.epoch));
    }
    let (before, after) = (by_id(stored), by_id(sent));
    let find = |among: &[&Subtopology], id| among.binary_search_by(|other| other.id.cmp(id)).ok();
    let new = after.iter().filter(|sub| find(&before, &sub.id).is_none());
    found.extend(new.map(|sub| format!("subtopology {} is new", sub.id)));
    for old in &before {
        match find(&after, &old.id) {
            None => found.push(format!("subtopology {} is gone", old.id)),
            Some(index) => of_subtopology(old, after[index], &mut found),
        }
    }
    found
}

fn of_subtopology(before: &Subtopology, after: &Subtopology, found: &mut Vec<String>) {
    let id = &before.id;
    let mut names = |what: &str, before: &[&str], after: &[&str]| {
        if before != after {
            found.push(format!("subtopology {id} has {what} {} instead of {}", list(after), list(before)));
        }
    };
    names("source topics", &topics(&before.source_topics), &topics(&after.source_topics));
    names("source patterns", &texts(&before.source_topic_regex), &texts(&after.source_topic_regex));
    names("repartition sinks", &topics(&before.repartition_sink_topics), &topics(&after.repartition_sink_topics));
    let mut internal = |what: &str, before: &[InternalTopic], after: &[InternalTopic]| {
        let of = |topics: &[InternalTopic]| topics.iter().map(|topic| topic.name.clone()).collect::<Vec<_>>();
        let (old, new) = (of(before), of(after));
        names(what, &topics(&old), &topics(&new));
        old == new && before != after
    };
    let repartition =
        internal("repartition sources", &before.repartition_source_topics, &after.repartition_source_topics);
    let changelogs = internal("changelogs", &before.state_changelog_topics, &after.state_changelog_topics);
    let settings = [(repartition, "repartition sources"), (changelogs, "changelogs")].into_iter();
    found.extend(
        settings
            .filter(|(differ, _)| *differ)
            .map(|(_, what)| format!("subtopology {id} has other settings of its {what}")),
    );
    if before.copartition_groups != after.copartition_groups {
        found.push(format!("subtopology {id} has other copartition groups"));
    }
}

fn topics(names: &[TopicName]) -> Vec<&str> {
    names.iter().map(TopicName::as_str).collect()
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn list(names: &[&str]) -> String {
    match names.len().saturating_sub(NAMES_MAX) {
        0 => format!("[{}]", names.join(" ")),
        more => format!("[{} and {more} more]", names[..NAMES_MAX].join(" ")),
    }
}
