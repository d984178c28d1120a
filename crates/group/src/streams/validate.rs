//! Checks of a heartbeat that need no state, in Kafka's order (KIP-1071).
//!
//! The first violation wins; its text says what was wrong and what is allowed.

use alloc::{collections::BTreeSet, format, string::String};

use riparian_types::{MemberEpoch, TopologyEpoch, limits::TOPIC_PARTITIONS_MAX};

use crate::{
    command::StreamsHeartbeat,
    config::GroupConfig,
    limits::{self, NoRoom},
    reply::StreamsHeartbeatError,
    streams::{CopartitionGroup, Subtopology, TaskIds, TaskOffset, Topology},
    tasks::SUBTOPOLOGIES_MAX,
};

use StreamsHeartbeatError::{InvalidRequest, InvalidTopology};

/// Checks everything that can be seen from the request alone.
pub(super) fn check_request(config: &GroupConfig, heartbeat: &StreamsHeartbeat) -> Result<(), StreamsHeartbeatError> {
    if let Some(topology) = &heartbeat.topology {
        check_patterns_allowed(config, topology)?;
    }
    check_not_blank("MemberId", Some(&heartbeat.member_id))?;
    check_not_blank("GroupId", Some(&heartbeat.group_id))?;
    check_not_blank("InstanceId", heartbeat.instance_id.as_deref())?;
    check_not_blank("RackId", heartbeat.rack_id.as_deref())?;
    match heartbeat.member_epoch {
        MemberEpoch::JOIN => check_join(heartbeat)?,
        MemberEpoch::LEAVE_STATIC if heartbeat.instance_id.is_none() => {
            let text = "MemberEpoch is -2 (static leave), so InstanceId must be set; a member without leaves with -1.";
            return Err(InvalidRequest(text.into()));
        }
        MemberEpoch(epoch) if epoch < MemberEpoch::LEAVE_STATIC.0 => {
            return Err(InvalidRequest(format!(
                "MemberEpoch is {epoch}, but must be 0 (join), -1 (leave), -2 (static leave) or the member's epoch."
            )));
        }
        _ => {}
    }
    let present = [&heartbeat.active_tasks, &heartbeat.standby_tasks, &heartbeat.warmup_tasks].map(Option::is_some);
    if present.contains(&true) && present.contains(&false) {
        let text = "ActiveTasks, StandbyTasks and WarmupTasks must be all null or all non-null.";
        return Err(InvalidRequest(text.into()));
    }
    if heartbeat.member_epoch != MemberEpoch::JOIN && heartbeat.topology.is_some() {
        let epoch = heartbeat.member_epoch;
        return Err(InvalidRequest(format!(
            "Topology can only be given when (re-)joining with MemberEpoch 0, but MemberEpoch is {epoch}."
        )));
    }
    // Nobody looks at the tags of who leaves.
    if heartbeat.member_epoch >= MemberEpoch::JOIN {
        check_tags(heartbeat.client_tags.as_deref().unwrap_or_default())?;
    }
    heartbeat.topology.as_ref().map_or(Ok(()), check_topology)?;
    check_bytes(config, heartbeat)
}

/// Checks that what is to be kept of the member may be kept.
fn check_bytes(config: &GroupConfig, heartbeat: &StreamsHeartbeat) -> Result<(), StreamsHeartbeatError> {
    let topology = heartbeat.topology.as_ref().map_or(0, limits::topology_bytes);
    config.check_member_bytes("The topology", topology).map_err(|NoRoom(text)| InvalidTopology(text))?;
    let told = limits::heartbeat_bytes(heartbeat);
    config.check_member_bytes("What the member tells of itself", told).map_err(|NoRoom(text)| InvalidRequest(text))
}

/// Checks that no task is listed twice; nothing else about offsets is checked.
pub(super) fn check_offsets(offsets: Option<&[TaskOffset]>) -> Result<(), StreamsHeartbeatError> {
    let mut seen = BTreeSet::new();
    for offset in offsets.unwrap_or_default() {
        if !seen.insert((offset.subtopology.as_str(), offset.partition)) {
            return Err(InvalidRequest(format!(
                "Task offsets list partition {} of subtopology {} twice; each task may be listed once.",
                offset.partition, offset.subtopology
            )));
        }
    }
    Ok(())
}

fn check_patterns_allowed(config: &GroupConfig, topology: &Topology) -> Result<(), StreamsHeartbeatError> {
    let mut subtopologies = topology.subtopologies.iter();
    match subtopologies.find(|subtopology| !config.resolve_patterns && !subtopology.source_topic_regex.is_empty()) {
        Some(subtopology) => Err(InvalidRequest(format!(
            "Subtopology {} subscribes to source topics by a regular expression, which is not allowed here \
             (riparian.topology.patterns); name the topics.",
            subtopology.id
        ))),
        None => Ok(()),
    }
}

fn check_not_blank(field: &str, value: Option<&str>) -> Result<(), StreamsHeartbeatError> {
    match value {
        Some(value) if is_blank(value) => Err(InvalidRequest(format!("{field} can't be empty."))),
        _ => Ok(()),
    }
}

/// Blank as Java's `trim` has it: control characters are, spaces beyond ASCII aren't.
pub(super) fn is_blank(value: &str) -> bool {
    value.chars().all(|character| character <= ' ')
}

fn check_tags(tags: &[(String, String)]) -> Result<(), StreamsHeartbeatError> {
    match first_repeated(tags.iter().map(|(key, _)| key)) {
        Some(key) => Err(InvalidRequest(format!("ClientTags have the key {key} twice; each may be given once."))),
        None => Ok(()),
    }
}

fn first_repeated<T: Ord>(items: impl IntoIterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().find_map(|item| match seen.contains(&item) {
        true => Some(item),
        false => {
            seen.insert(item);
            None
        }
    })
}

fn check_join(heartbeat: &StreamsHeartbeat) -> Result<(), StreamsHeartbeatError> {
    if heartbeat.rebalance_timeout_ms == -1 {
        let text = "RebalanceTimeoutMs must be given when (re-)joining; -1 means unchanged.";
        return Err(InvalidRequest(text.into()));
    }
    check_present_and_empty("ActiveTasks", heartbeat.active_tasks.as_deref())?;
    check_present_and_empty("StandbyTasks", heartbeat.standby_tasks.as_deref())?;
    check_present_and_empty("WarmupTasks", heartbeat.warmup_tasks.as_deref())?;
    let Some(topology) = &heartbeat.topology else {
        return Err(InvalidRequest("Topology must be non-null when (re-)joining.".into()));
    };
    let changelogs = topology.subtopologies.iter().flat_map(|subtopology| &subtopology.state_changelog_topics);
    for changelog in changelogs {
        if changelog.partitions != 0 {
            return Err(InvalidTopology(format!(
                "Changelog topic {} has {} partitions set, but must have 0: the number of its partitions follows from \
                 the source topics.",
                changelog.name, changelog.partitions
            )));
        }
    }
    Ok(())
}

fn check_present_and_empty(field: &str, tasks: Option<&[TaskIds]>) -> Result<(), StreamsHeartbeatError> {
    match tasks {
        Some([]) => Ok(()),
        _ => Err(InvalidRequest(format!("{field} must be present and empty when (re-)joining."))),
    }
}

/// What Kafka finds out later, or never, and answers with an internal error.
fn check_topology(topology: &Topology) -> Result<(), StreamsHeartbeatError> {
    if topology.epoch < TopologyEpoch(0) {
        return Err(InvalidTopology(format!("The topology's epoch is {}, but must be 0 or higher.", topology.epoch)));
    }
    let count = topology.subtopologies.len();
    if count > SUBTOPOLOGIES_MAX {
        return Err(InvalidTopology(format!(
            "The topology has {count} subtopologies; at most {SUBTOPOLOGIES_MAX} are supported."
        )));
    }
    let mut ids = BTreeSet::new();
    for subtopology in &topology.subtopologies {
        if !ids.insert(&subtopology.id) {
            return Err(InvalidTopology(format!("Subtopology id {} is used more than once.", subtopology.id)));
        }
        for topic in &subtopology.repartition_source_topics {
            if !(0..=TOPIC_PARTITIONS_MAX).contains(&topic.partitions) {
                return Err(InvalidTopology(format!(
                    "Repartition topic {} has {} partitions set, but must have 1 to {TOPIC_PARTITIONS_MAX}, or 0 to \
                     let the server decide.",
                    topic.name, topic.partitions
                )));
            }
        }
        check_internal_topics(subtopology).map_err(InvalidTopology)?;
        for group in &subtopology.copartition_groups {
            check_copartition_group(subtopology, group).map_err(InvalidTopology)?;
        }
    }
    Ok(())
}

/// A topic, or a setting of one, that is there twice could be meant in two ways.
fn check_internal_topics(subtopology: &Subtopology) -> Result<(), String> {
    for topics in [&subtopology.repartition_source_topics, &subtopology.state_changelog_topics] {
        if let Some(name) = first_repeated(topics.iter().map(|topic| &topic.name)) {
            return Err(format!("Subtopology {} lists the internal topic {name} twice.", subtopology.id));
        }
        for topic in topics {
            if let Some(key) = first_repeated(topic.configs.iter().map(|(key, _)| key)) {
                return Err(format!("Internal topic {} has the config {key} twice.", topic.name));
            }
        }
    }
    Ok(())
}

fn check_copartition_group(subtopology: &Subtopology, group: &CopartitionGroup) -> Result<(), String> {
    let lists = [
        ("SourceTopics", &group.source_topics, subtopology.source_topics.len()),
        ("SourceTopicRegex", &group.source_topic_regex, subtopology.source_topic_regex.len()),
        ("RepartitionSourceTopics", &group.repartition_source_topics, subtopology.repartition_source_topics.len()),
    ];
    for (field, indexes, count) in lists {
        let is_inside = |&index: &i16| usize::try_from(index).is_ok_and(|index| index < count);
        if let Some(index) = indexes.iter().find(|index| !is_inside(index)) {
            return Err(format!(
                "A copartition group of subtopology {} refers to index {index} of {field}, which has {count} entries.",
                subtopology.id
            ));
        }
    }
    Ok(())
}
