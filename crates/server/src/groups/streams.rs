//! How a streams group is shown.

use std::{collections::BTreeSet, fmt::Write};

use riparian_client::admin::{GroupOffset, StreamsGroup, StreamsMember, TaskIds, Tasks};
use serde::Serialize;

use super::offsets::{self, OffsetJson};
use crate::output::{table, visible};

#[derive(Serialize)]
pub(super) struct GroupJson<'a> {
    group: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    state: &'a str,
    group_epoch: i32,
    assignment_epoch: i32,
    topology_epoch: Option<i32>,
    assignor: Option<&'a str>,
    subtopologies: Vec<SubtopologyJson<'a>>,
    unused_internal_topics: &'a [&'a str],
    members: Vec<MemberJson<'a>>,
    offsets: Vec<OffsetJson<'a>>,
}

#[derive(Serialize)]
struct SubtopologyJson<'a> {
    id: &'a str,
    source_topics: &'a [String],
    changelog_topics: &'a [String],
    sink_topics: &'a [String],
}

#[derive(Serialize)]
struct MemberJson<'a> {
    member_id: &'a str,
    instance_id: Option<&'a str>,
    process_id: &'a str,
    client_id: &'a str,
    client_host: &'a str,
    member_epoch: i32,
    topology_epoch: i32,
    assignment: TasksJson,
    target: TasksJson,
}

/// Tasks as Kafka Streams prints them: `0_1`.
#[derive(Serialize)]
struct TasksJson {
    active: Vec<String>,
    standby: Vec<String>,
    warmup: Vec<String>,
}

/// Kafka Streams' names for topics of its own end in one of these.
const INTERNAL_SUFFIXES: [&str; 2] = ["-changelog", "-repartition"];

/// Topics that by their names are internal ones of this application and that its topology does not have: what earlier
/// versions of it have left behind. Those that may belong to another group, whose id is longer, are left out.
pub(super) fn unused_internal_topics<'a>(
    group: &StreamsGroup,
    topics: &'a [String],
    groups: &[String],
) -> Vec<&'a str> {
    let is_of = |topic: &str, id: &str| topic.strip_prefix(id).is_some_and(|rest| rest.starts_with('-'));
    let id = &group.group_id;
    let others: Vec<&String> = groups.iter().filter(|other| other.len() > id.len() && is_of(other, id)).collect();
    let used: BTreeSet<&String> = (group.subtopologies.iter())
        .flat_map(|it| it.source_topics.iter().chain(&it.changelog_topics).chain(&it.sink_topics))
        .collect();
    let names = topics.iter().filter(|topic| {
        is_of(topic, id)
            && INTERNAL_SUFFIXES.iter().any(|suffix| topic.ends_with(suffix))
            && !used.contains(topic)
            && !others.iter().any(|other| is_of(topic, other))
    });
    // Nothing is known of a topology that was never stored.
    if group.subtopologies.is_empty() { Vec::new() } else { names.map(String::as_str).collect() }
}

pub(super) fn json<'a>(
    group: &'a StreamsGroup,
    unused_internal_topics: &'a [&'a str],
    offsets: &'a [GroupOffset],
) -> GroupJson<'a> {
    GroupJson {
        group: &group.group_id,
        kind: "streams",
        state: &group.state,
        group_epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        topology_epoch: group.topology_epoch,
        assignor: group.assignor_name.as_deref(),
        subtopologies: group
            .subtopologies
            .iter()
            .map(|subtopology| SubtopologyJson {
                id: &subtopology.id,
                source_topics: &subtopology.source_topics,
                changelog_topics: &subtopology.changelog_topics,
                sink_topics: &subtopology.sink_topics,
            })
            .collect(),
        unused_internal_topics,
        members: group.members.iter().map(member_json).collect(),
        offsets: offsets::json(offsets),
    }
}

fn member_json(member: &StreamsMember) -> MemberJson<'_> {
    MemberJson {
        member_id: &member.member_id,
        instance_id: member.instance_id.as_deref(),
        process_id: &member.process_id,
        client_id: &member.client_id,
        client_host: &member.client_host,
        member_epoch: member.member_epoch,
        topology_epoch: member.topology_epoch,
        assignment: tasks_json(&member.assignment),
        target: tasks_json(&member.target),
    }
}

fn tasks_json(tasks: &Tasks) -> TasksJson {
    TasksJson {
        active: task_names(&tasks.active),
        standby: task_names(&tasks.standby),
        warmup: task_names(&tasks.warmup),
    }
}

fn task_names(tasks: &TaskIds) -> Vec<String> {
    tasks
        .iter()
        .flat_map(|(subtopology, partitions)| {
            partitions.iter().map(move |partition| format!("{subtopology}_{partition}"))
        })
        .collect()
}

pub(super) fn text(group: &StreamsGroup, unused_internal_topics: &[&str], offsets: &[GroupOffset]) -> String {
    let mut text = format!(
        "{}: {}, group epoch {}, assignment epoch {}, {} members",
        visible(&group.group_id),
        visible(&group.state),
        group.group_epoch,
        group.assignment_epoch,
        group.members.len()
    );
    if let Some(epoch) = group.topology_epoch {
        write!(text, ", topology epoch {epoch}").expect("writing to a string succeeds");
    }
    text.push('\n');
    if !group.subtopologies.is_empty() {
        let list = |names: &[String]| if names.is_empty() { "-".to_owned() } else { names.join(" ") };
        let rows = group.subtopologies.iter().map(|it| {
            [format!("  {}", it.id), list(&it.source_topics), list(&it.changelog_topics), list(&it.sink_topics)]
        });
        text.push_str(&table(["  SUBTOPOLOGY", "READS", "CHANGELOGS", "REPARTITIONS TO"], rows));
    }
    if !unused_internal_topics.is_empty() {
        let names = visible(&unused_internal_topics.join(" ")).into_owned();
        writeln!(text, "  Internal topics of earlier versions, which may be deleted: {names}")
            .expect("writing to a string succeeds");
    }
    if !group.members.is_empty() {
        let rows = group.members.iter().map(|member| {
            [
                format!("  {}", member.member_id),
                member.client_id.clone(),
                member.client_host.clone(),
                member.member_epoch.to_string(),
                task_names(&member.assignment.active).join(" "),
                task_names(&member.assignment.standby).join(" "),
                task_names(&member.assignment.warmup).join(" "),
                if member.assignment == member.target { String::new() } else { "moving".to_owned() },
            ]
        });
        text.push_str(&table(["  MEMBER", "CLIENT", "HOST", "EPOCH", "ACTIVE", "STANDBY", "WARM-UP", ""], rows));
    }
    text.push_str(&offsets::text(offsets));
    text
}

#[cfg(test)]
mod tests {
    use riparian_client::admin::StreamsSubtopology;

    use super::*;

    #[test]
    fn internal_topics_that_no_subtopology_has_are_named() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let subtopology = StreamsSubtopology {
            id: "0".to_owned(),
            source_topics: names(&["in", "app-r-repartition"]),
            changelog_topics: names(&["app-store-changelog"]),
            sink_topics: names(&["app-r-repartition"]),
        };
        let group =
            |subtopologies| StreamsGroup { group_id: "app".to_owned(), subtopologies, ..StreamsGroup::default() };
        let topics = names(&[
            "in",
            "app-r-repartition",
            "app-store-changelog",
            "app-old-changelog",
            "app-old-repartition",
            "app-changelog-of-mine",
            "application-old-changelog",
            "app-two-store-changelog",
        ]);
        let groups = names(&["app", "app-two", "application"]);
        let unused = unused_internal_topics(&group(vec![subtopology]), &topics, &groups);
        assert_eq!(unused, ["app-old-changelog", "app-old-repartition"]);
        assert!(unused_internal_topics(&group(Vec::new()), &topics, &groups).is_empty());
    }
}
