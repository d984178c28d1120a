//! `riparian groups`.

use std::{fmt::Write, io::IsTerminal, thread, time::Duration};

use anyhow::{Context, Result};
use riparian_client::{
    ClientError, Cluster, ServerError,
    admin::{self, GroupOffset, StreamsGroup, StreamsMember, TaskIds, Tasks},
};
use riparian_protocol::ErrorCode;
use serde::Serialize;

use crate::{
    cli::{GroupsCommand, ServerOptions, WatchOptions},
    output::{print, print_json, table},
    remote::connect,
};

/// A coordinator that has to create its topic first needs some hundred milliseconds.
const ATTEMPTS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(command: GroupsCommand) -> Result<()> {
    match command {
        GroupsCommand::List { watch, server } => show(&server, &watch, list),
        GroupsCommand::Describe { groups, watch, server } => {
            show(&server, &watch, |cluster| describe(cluster, &groups))
        }
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
    offsets: Vec<OffsetJson<'a>>,
}

#[derive(Serialize)]
struct OffsetJson<'a> {
    topic: &'a str,
    partition: i32,
    committed: i64,
    end: Option<i64>,
    lag: Option<i64>,
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

/// What one look at the server gives.
struct Seen {
    text: String,
    json: serde_json::Value,
}

fn list(cluster: &mut Cluster) -> Result<Seen> {
    let groups = admin::list_groups(cluster)?;
    let listing = |group: &admin::GroupListing| {
        serde_json::to_value(ListingJson {
            group: &group.group_id,
            kind: &group.group_type,
            state: &group.state,
            coordinator: group.coordinator,
        })
    };
    let json = groups.iter().map(listing).collect::<Result<_, _>>()?;
    let text = match groups.is_empty() {
        true => "There are no groups.\n".to_owned(),
        false => table(
            ["GROUP", "TYPE", "STATE", "COORDINATOR"],
            groups.into_iter().map(|it| [it.group_id, it.group_type, it.state, it.coordinator.to_string()]),
        ),
    };
    Ok(Seen { text, json })
}

fn describe(cluster: &mut Cluster, group_ids: &[String]) -> Result<Seen> {
    let (mut texts, mut json) = (Vec::new(), Vec::new());
    for group_id in group_ids {
        let group = ask(cluster, group_id).with_context(|| format!("group {group_id:?} was not described"))?;
        let offsets = admin::group_offsets(cluster, group_id)?
            .with_context(|| format!("the offsets of group {group_id:?} were not told"))?;
        texts.push(group_text(&group, &offsets));
        json.push(serde_json::to_value(group_json(&group, &offsets))?);
    }
    Ok(Seen { text: texts.join("\n"), json: json.into() })
}

/// Shows what `look` sees, once or again and again. Whoever watches wants to see a server come back: what fails between
/// two looks is told, and the next one connects anew.
fn show(
    server: &ServerOptions,
    watch: &WatchOptions,
    mut look: impl FnMut(&mut Cluster) -> Result<Seen>,
) -> Result<()> {
    let mut cluster = connect(server)?;
    let seen = look(&mut cluster)?;
    let Some(pause) = watch.watch else {
        return if server.json { print_json(&seen.json) } else { print(&seen.text) };
    };
    show_again(server, &seen)?;
    let mut cluster = Some(cluster);
    loop {
        thread::sleep(pause);
        let looked = match &mut cluster {
            Some(cluster) => look(cluster),
            lost => connect(server).and_then(|found| look(lost.insert(found))),
        };
        match looked {
            Ok(seen) => show_again(server, &seen)?,
            Err(error) => {
                eprintln!("riparian: {error:#}");
                cluster = None;
            }
        }
    }
}

fn show_again(server: &ServerOptions, seen: &Seen) -> Result<()> {
    if server.json {
        return print(&format!("{}\n", seen.json));
    }
    // A terminal is cleared; elsewhere one look follows another.
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let end = if clear.is_empty() { "\n" } else { "" };
    print(&format!("{clear}{}{end}", seen.text))
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

fn group_json<'a>(group: &'a StreamsGroup, offsets: &'a [GroupOffset]) -> GroupJson<'a> {
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
        offsets: offsets
            .iter()
            .map(|it| OffsetJson {
                topic: &it.topic,
                partition: it.partition,
                committed: it.committed,
                end: it.end,
                lag: it.lag(),
            })
            .collect(),
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

fn group_text(group: &StreamsGroup, offsets: &[GroupOffset]) -> String {
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
    if !offsets.is_empty() {
        let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let rows = offsets.iter().map(|it| {
            let (topic, partition) = (format!("  {}", it.topic), it.partition.to_string());
            [topic, partition, it.committed.to_string(), number(it.end), number(it.lag())]
        });
        text.push_str(&table(["  TOPIC", "PARTITION", "COMMITTED", "END", "LAG"], rows));
    }
    text
}
