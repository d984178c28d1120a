//! `riparian groups`: what is asked, and when; each type of group has a module that shows it.

mod classic;
mod graph;
mod offsets;
mod streams;

use std::{io::IsTerminal, thread, time::Duration};

use anyhow::{Context, Result, bail};
use riparian_client::{
    ClientError, Cluster, CoreError, ServerError,
    admin::{self, ClassicGroup, StreamsGroup},
};
use riparian_protocol::ErrorCode;
use serde::Serialize;

use crate::{
    cli::{GroupsCommand, ServerOptions, WatchOptions},
    output::{explain, print, print_json, print_to_reader, table, visible_json},
    remote::connect,
    several::{Failures, ask_for_each},
};

/// A coordinator that has to create its topic first needs some hundred milliseconds.
const ATTEMPTS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(command: GroupsCommand) -> Result<()> {
    match command {
        GroupsCommand::List { watch, server } => show(&server, &watch, list),
        GroupsCommand::Describe { groups, topology, watch, server } => {
            show(&server, &watch, |cluster| describe(cluster, &groups, topology))
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

/// What one look at the server gives.
struct Seen {
    text: String,
    json: serde_json::Value,
    failures: Failures,
}

impl Seen {
    /// Whether everything that was asked for failed.
    fn is_nothing(&self) -> bool {
        self.text.is_empty() && !self.failures.is_empty()
    }
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
    Ok(Seen { text, json, failures: Failures::default() })
}

fn describe(cluster: &mut Cluster, group_ids: &[String], with_nodes: bool) -> Result<Seen> {
    let several = ask_for_each(group_ids, |group_id| describe_one(cluster, group_id, with_nodes));
    let (texts, json): (Vec<String>, Vec<serde_json::Value>) = several.done.into_iter().unzip();
    Ok(Seen { text: texts.join("\n"), json: json.into(), failures: several.failures })
}

/// A group as text and as JSON.
fn describe_one(cluster: &mut Cluster, group_id: &str, with_nodes: bool) -> Result<(String, serde_json::Value)> {
    let group = ask(cluster, group_id).with_context(|| format!("group {group_id:?} was not described"))?;
    let offsets = admin::group_offsets(cluster, group_id)?
        .with_context(|| format!("the offsets of group {group_id:?} were not told"))?;
    Ok(match &group {
        Group::Streams(group) => {
            let topics = admin::list_topics(cluster)?.into_iter().map(|topic| topic.name).collect::<Vec<_>>();
            let groups = admin::list_groups(cluster)?.into_iter().map(|group| group.group_id).collect::<Vec<_>>();
            let topics = streams::Topics::of(group, &topics, &groups);
            let mut text = streams::text(group, &topics, &offsets);
            let mut json = serde_json::to_value(streams::json(group, &topics, &offsets))?;
            if with_nodes {
                let nodes = admin::topology_nodes(cluster, group_id)?
                    .with_context(|| format!("the topology of group {group_id:?} was not described"))?;
                text.push_str(&graph::text(nodes.as_ref()));
                json["topology"] = graph::json(nodes.as_ref());
            }
            (text, json)
        }
        Group::Classic(group) => {
            (classic::text(group, &offsets), serde_json::to_value(classic::json(group, &offsets))?)
        }
    })
}

/// Shows what `look` sees, once, or again and again as long as somebody reads it. Whoever watches wants to see a server
/// come back: what fails between two looks is told, and the next one connects anew.
fn show(
    server: &ServerOptions,
    watch: &WatchOptions,
    mut look: impl FnMut(&mut Cluster) -> Result<Seen>,
) -> Result<()> {
    let mut cluster = connect(server)?;
    let seen = look(&mut cluster)?;
    // Names of which none is there are mistyped.
    let Some(pause) = watch.watch.filter(|_| !seen.is_nothing()) else {
        return show_once(server, seen);
    };
    let mut cluster = Some(cluster);
    let mut looked = Ok(seen);
    loop {
        let failed = match looked {
            Ok(seen) => {
                if !show_again(server, &seen)? {
                    return Ok(());
                }
                cluster = cluster.filter(|_| !seen.failures.is_server_lost());
                seen.failures.into_result()
            }
            Err(error) => {
                cluster = None;
                Err(error)
            }
        };
        if let Err(error) = failed {
            eprintln!("riparian: {}", explain(&error));
        }
        thread::sleep(pause);
        looked = match &mut cluster {
            Some(cluster) => look(cluster),
            lost => connect(server).and_then(|found| look(lost.insert(found))),
        };
    }
}

fn show_once(server: &ServerOptions, seen: Seen) -> Result<()> {
    match (seen.is_nothing(), server.json) {
        (true, _) => {}
        (false, true) => print_json(&seen.json)?,
        (false, false) => print(&seen.text)?,
    }
    seen.failures.into_result()
}

/// Whether anybody still reads it.
fn show_again(server: &ServerOptions, seen: &Seen) -> Result<bool> {
    if server.json {
        return print_to_reader(&format!("{}\n", visible_json(seen.json.to_string())));
    }
    // A terminal is cleared; elsewhere one look follows another.
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let end = if clear.is_empty() { "\n" } else { "" };
    print_to_reader(&format!("{clear}{}{end}", seen.text))
}

/// A group of one of the types that are shown in full.
enum Group {
    Streams(StreamsGroup),
    Classic(ClassicGroup),
}

/// Asks for a group, whatever its type.
fn ask(cluster: &mut Cluster, group_id: &str) -> Result<Group> {
    // A server that is older than streams groups has none.
    let error = match patiently(|| admin::describe_streams_group(cluster, group_id)) {
        Ok(Ok(group)) => return Ok(Group::Streams(group)),
        Ok(Err(error)) if error.error_code() == Some(ErrorCode::GroupIdNotFound) => Some(error),
        Ok(Err(error)) => return Err(error.into()),
        Err(ClientError::Protocol { source: CoreError::NotOffered { .. }, .. }) => None,
        Err(error) => return Err(error.into()),
    };
    match patiently(|| admin::describe_classic_group(cluster, group_id))? {
        Ok(Some(group)) => return Ok(Group::Classic(group)),
        Ok(None) => {}
        Err(error) if error.error_code() == Some(ErrorCode::GroupIdNotFound) => {}
        Err(error) => return Err(error.into()),
    }
    let listed = admin::list_groups(cluster)?.into_iter().find(|group| group.group_id == group_id);
    match (listed, error) {
        (Some(group), _) => bail!("it is of type {}; streams and classic groups can be described", group.group_type),
        (None, Some(error)) => Err(error.into()),
        (None, None) => bail!("there is no such group"),
    }
}

/// Asks again for a little while if the coordinator is only just starting.
fn patiently<T>(
    mut call: impl FnMut() -> Result<Result<T, ServerError>, ClientError>,
) -> Result<Result<T, ServerError>, ClientError> {
    for _ in 1..ATTEMPTS_MAX {
        match call() {
            Ok(Err(error)) | Err(ClientError::Server(error)) if is_passing(&error) => thread::sleep(PAUSE),
            other => return other,
        }
    }
    call()
}

fn is_passing(error: &ServerError) -> bool {
    error.error_code().is_some_and(ErrorCode::is_retriable)
}
