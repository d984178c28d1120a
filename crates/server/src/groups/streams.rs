//! How a streams group is shown.

use std::{collections::BTreeSet, fmt::Write};

use riparian_client::admin::{GroupOffset, StreamsGroup, StreamsMember, TaskIds, Tasks};
use riparian_types::MemberEpoch;
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
    problem: Option<&'a str>,
    subtopologies: Vec<SubtopologyJson<'a>>,
    missing_topics: &'a [&'a str],
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
    remark: &'static str,
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

/// How what there is of topics differs from what the topology has.
pub(super) struct Topics<'a> {
    /// Topics of the topology that do not exist.
    missing: Vec<&'a str>,
    /// Topics that by their names are internal ones of this application and that its topology does not have: what earlier
    /// versions of it have left behind. Those that may belong to another group, whose id is longer, are left out.
    unused: Vec<&'a str>,
}

impl<'a> Topics<'a> {
    /// `topics` are all that exist, `groups` all groups.
    pub(super) fn of(group: &'a StreamsGroup, topics: &'a [String], groups: &[String]) -> Self {
        let used: BTreeSet<&String> = (group.subtopologies.iter())
            .flat_map(|it| it.source_topics.iter().chain(&it.changelog_topics).chain(&it.sink_topics))
            .collect();
        let there: BTreeSet<&String> = topics.iter().collect();
        let missing = used.difference(&there).map(|topic| topic.as_str()).collect();
        Self { missing, unused: unused_internal_topics(group, &used, topics, groups) }
    }
}

fn unused_internal_topics<'a>(
    group: &StreamsGroup,
    used: &BTreeSet<&String>,
    topics: &'a [String],
    groups: &[String],
) -> Vec<&'a str> {
    let is_of = |topic: &str, id: &str| topic.strip_prefix(id).is_some_and(|rest| rest.starts_with('-'));
    let id = &group.group_id;
    let others: Vec<&String> = groups.iter().filter(|other| other.len() > id.len() && is_of(other, id)).collect();
    let names = topics.iter().filter(|topic| {
        is_of(topic, id)
            && INTERNAL_SUFFIXES.iter().any(|suffix| topic.ends_with(suffix))
            && !used.contains(topic)
            && !others.iter().any(|other| is_of(topic, other))
    });
    // Nothing is known of a topology that was never stored.
    if group.subtopologies.is_empty() { Vec::new() } else { names.map(String::as_str).collect() }
}

pub(super) fn json<'a>(group: &'a StreamsGroup, topics: &'a Topics<'a>, offsets: &'a [GroupOffset]) -> GroupJson<'a> {
    GroupJson {
        group: &group.group_id,
        kind: "streams",
        state: &group.state,
        group_epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        topology_epoch: group.topology_epoch,
        assignor: group.assignor_name.as_deref(),
        problem: group.problem.as_deref(),
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
        missing_topics: &topics.missing,
        unused_internal_topics: &topics.unused,
        members: group.members.iter().map(|member| member_json(group, member)).collect(),
        offsets: offsets::json(offsets),
    }
}

/// What an operator should know of a member whose group does not come to rest.
fn remark(group: &StreamsGroup, member: &StreamsMember) -> &'static str {
    if member.member_epoch == MemberEpoch::LEAVE_STATIC.0 {
        "away"
    } else if member.assignment != member.target {
        "moving"
    } else if member.member_epoch < group.assignment_epoch {
        // It has not yet said that it gave back what is no longer its own.
        "behind"
    } else {
        ""
    }
}

/// The same for people, who are also told of a member that runs an older topology than the group has.
fn remarks(group: &StreamsGroup, member: &StreamsMember) -> String {
    let remark = remark(group, member);
    if group.topology_epoch.is_none_or(|epoch| member.topology_epoch >= epoch) {
        return remark.to_owned();
    }
    let separator = if remark.is_empty() { "" } else { ", " };
    format!("{remark}{separator}topology epoch {}", member.topology_epoch)
}

fn member_json<'a>(group: &StreamsGroup, member: &'a StreamsMember) -> MemberJson<'a> {
    MemberJson {
        member_id: &member.member_id,
        instance_id: member.instance_id.as_deref(),
        process_id: &member.process_id,
        client_id: &member.client_id,
        client_host: &member.client_host,
        member_epoch: member.member_epoch,
        topology_epoch: member.topology_epoch,
        remark: remark(group, member),
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

pub(super) fn text(group: &StreamsGroup, topics: &Topics<'_>, offsets: &[GroupOffset]) -> String {
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
    if let Some(problem) = &group.problem {
        writeln!(text, "  Its tasks cannot run: {}", visible(problem)).expect("writing to a string succeeds");
    }
    if !group.subtopologies.is_empty() {
        let list = |names: &[String]| if names.is_empty() { "-".to_owned() } else { names.join(" ") };
        let rows = group.subtopologies.iter().map(|it| {
            [format!("  {}", it.id), list(&it.source_topics), list(&it.changelog_topics), list(&it.sink_topics)]
        });
        text.push_str(&table(["  SUBTOPOLOGY", "READS", "CHANGELOGS", "REPARTITIONS TO"], rows));
    }
    for (what, names) in [
        ("Topics that are missing", &topics.missing),
        ("Internal topics of earlier versions, which may be deleted", &topics.unused),
    ] {
        if !names.is_empty() {
            writeln!(text, "  {what}: {}", visible(&names.join(" "))).expect("writing to a string succeeds");
        }
    }
    if !group.members.is_empty() {
        let rows = group.members.iter().map(|member| {
            [
                format!("  {}", member.member_id),
                member.instance_id.clone().unwrap_or_else(|| "-".to_owned()),
                member.process_id.clone(),
                member.client_id.clone(),
                member.client_host.clone(),
                member.member_epoch.to_string(),
                task_names(&member.assignment.active).join(" "),
                task_names(&member.assignment.standby).join(" "),
                task_names(&member.assignment.warmup).join(" "),
                remarks(group, member),
            ]
        });
        let titles = ["  MEMBER", "INSTANCE", "PROCESS", "CLIENT", "HOST", "EPOCH", "ACTIVE", "STANDBY", "WARM-UP", ""];
        text.push_str(&table(titles, rows));
    }
    text.push_str(&offsets::text(offsets));
    text
}

#[cfg(test)]
mod tests {
    use riparian_client::admin::StreamsSubtopology;

    use super::*;

    #[test]
    fn people_see_why_tasks_do_not_run_and_whose_they_would_be() {
        let member = |id: &str, instance: Option<&str>, topology_epoch| StreamsMember {
            member_id: id.to_owned(),
            instance_id: instance.map(str::to_owned),
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            process_id: format!("process-of-{id}"),
            member_epoch: 7,
            topology_epoch,
            assignment: Tasks::default(),
            target: Tasks::default(),
        };
        let group = StreamsGroup {
            group_id: "app".to_owned(),
            assignment_epoch: 8,
            topology_epoch: Some(3),
            problem: Some("No topic matches.".to_owned()),
            members: vec![member("one", Some("instance-1"), 3), member("two", None, 2)],
            ..StreamsGroup::default()
        };
        let text = text(&group, &Topics::of(&group, &[], &[]), &[]);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["Its", "tasks", "cannot", "run:", "No", "topic", "matches."]);
        assert_eq!(words[2][..4], ["MEMBER", "INSTANCE", "PROCESS", "CLIENT"]);
        assert_eq!(words[3][..4], ["one", "instance-1", "process-of-one", "client"]);
        assert_eq!(words[3].last(), Some(&"behind"));
        assert_eq!(words[4][..3], ["two", "-", "process-of-two"]);
        assert_eq!(words[4][words[4].len() - 4..], ["behind,", "topology", "epoch", "2"]);
    }

    #[test]
    fn topics_that_are_missing_or_left_over_are_named() {
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
        let with_topology = group(vec![subtopology]);
        let found = Topics::of(&with_topology, &topics, &groups);
        assert_eq!(found.unused, ["app-old-changelog", "app-old-repartition"]);
        assert!(found.missing.is_empty());
        assert_eq!(Topics::of(&with_topology, &topics[1..2], &groups).missing, ["app-store-changelog", "in"]);
        let without = group(Vec::new());
        let found = Topics::of(&without, &topics, &groups);
        assert!(found.unused.is_empty() && found.missing.is_empty());
    }
}
