//! How a streams group is shown.

use std::fmt::Write;

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

pub(super) fn json<'a>(group: &'a StreamsGroup, offsets: &'a [GroupOffset]) -> GroupJson<'a> {
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

pub(super) fn text(group: &StreamsGroup, offsets: &[GroupOffset]) -> String {
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
