//! `riparian groups`.

use std::{fmt::Write, thread, time::Duration};

use anyhow::{Context, Result};
use riparian_client::{
    ClientError, Cluster, ServerError,
    admin::{self, StreamsGroup, StreamsMember, TaskIds, Tasks},
};
use riparian_protocol::ErrorCode;
use serde::Serialize;

use crate::{
    cli::{GroupsCommand, ServerOptions},
    output::{print, print_json, table},
    remote::connect,
};

/// A coordinator that has to create its topic first needs some hundred milliseconds.
const ATTEMPTS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(command: GroupsCommand) -> Result<()> {
    match command {
        GroupsCommand::List { server } => list(&server),
        GroupsCommand::Describe { groups, server } => describe(&server, &groups),
    }
}

#[derive(Serialize)]
struct ListingJson<'a> {
    group: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    state: &'a str,
    coordinator: i32,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    group: &'a str,
    state: &'a str,
    group_epoch: i32,
    assignment_epoch: i32,
    topology_epoch: Option<i32>,
    assignor: Option<&'a str>,
    subtopologies: Vec<SubtopologyJson<'a>>,
    members: Vec<MemberJson<'a>>,
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

fn list(server: &ServerOptions) -> Result<()> {
    let groups = admin::list_groups(&mut connect(server)?)?;
    if server.json {
        let groups: Vec<_> = groups
            .iter()
            .map(|group| ListingJson {
                group: &group.group_id,
                kind: &group.group_type,
                state: &group.state,
                coordinator: group.coordinator,
            })
            .collect();
        return print_json(&groups);
    }
    if groups.is_empty() {
        return print("There are no groups.\n");
    }
    print(&table(
        ["GROUP", "TYPE", "STATE", "COORDINATOR"],
        groups.into_iter().map(|group| [group.group_id, group.group_type, group.state, group.coordinator.to_string()]),
    ))
}

fn describe(server: &ServerOptions, group_ids: &[String]) -> Result<()> {
    let mut cluster = connect(server)?;
    let mut groups = Vec::new();
    for group_id in group_ids {
        groups.push(ask(&mut cluster, group_id).with_context(|| format!("group {group_id:?} was not described"))?);
    }
    if server.json {
        return print_json(&groups.iter().map(group_json).collect::<Vec<_>>());
    }
    let texts: Vec<_> = groups.iter().map(group_text).collect();
    print(&texts.join("\n"))
}

/// Asks for a group; a coordinator that is only just starting is given a little time.
fn ask(cluster: &mut Cluster, group_id: &str) -> Result<StreamsGroup> {
    for _ in 0..ATTEMPTS_MAX {
        match admin::describe_streams_group(cluster, group_id) {
            Ok(Err(error)) | Err(ClientError::Server(error)) if is_passing(&error) => thread::sleep(PAUSE),
            Ok(answer) => return Ok(answer?),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(admin::describe_streams_group(cluster, group_id)??)
}

fn is_passing(error: &ServerError) -> bool {
    error.error_code().is_some_and(ErrorCode::is_retriable)
}

fn group_json(group: &StreamsGroup) -> GroupJson<'_> {
    GroupJson {
        group: &group.group_id,
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

fn group_text(group: &StreamsGroup) -> String {
    let mut text = format!(
        "{}: {}, group epoch {}, assignment epoch {}, {} members",
        group.group_id,
        group.state,
        group.group_epoch,
        group.assignment_epoch,
        group.members.len()
    );
    if let Some(epoch) = group.topology_epoch {
        write!(text, ", topology epoch {epoch}").expect("writing to a string succeeds");
    }
    text.push('\n');
    if group.members.is_empty() {
        return text;
    }
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
    text
}
