//! `riparian topics`.

use anyhow::{Context, Result};
use riparian_client::{
    ClientError, ServerError,
    admin::{self, NewTopic, Topic, TopicSummary},
};
use serde::Serialize;

use crate::{
    cli::{ServerOptions, TopicsCommand},
    output::{print, print_json, table, visible},
    remote::connect,
    several::{Several, ask_for_each},
};

pub(crate) fn run(command: TopicsCommand) -> Result<()> {
    match command {
        TopicsCommand::List { server } => list(&server),
        TopicsCommand::Create { topic, partitions, replication_factor, config, server } => {
            let topic = NewTopic { name: topic, partition_count: partitions, replication_factor, configs: config };
            create(&server, &topic)
        }
        TopicsCommand::Describe { topics, server } => describe(&server, &topics),
        TopicsCommand::Delete { topics, server } => delete(&server, &topics),
    }
}

#[derive(Serialize)]
struct SummaryJson<'a> {
    name: &'a str,
    id: String,
    partitions: usize,
    replication_factor: usize,
    internal: bool,
}

#[derive(Serialize)]
struct TopicJson<'a> {
    #[serde(flatten)]
    summary: SummaryJson<'a>,
    partition_list: Vec<PartitionJson<'a>>,
    configs: std::collections::BTreeMap<&'a str, Option<&'a str>>,
}

#[derive(Serialize)]
struct PartitionJson<'a> {
    partition: i32,
    leader: Option<i32>,
    replicas: &'a [i32],
    in_sync_replicas: &'a [i32],
}

#[derive(Serialize)]
struct CreatedJson {
    name: String,
    id: String,
    partitions: Option<i32>,
    replication_factor: Option<i16>,
}

#[derive(Serialize)]
struct DeletedJson<'a> {
    name: &'a str,
}

fn list(server: &ServerOptions) -> Result<()> {
    let topics = admin::list_topics(&mut connect(server)?)?;
    if server.json {
        return print_json(&topics.iter().map(summary_json).collect::<Vec<_>>());
    }
    if topics.is_empty() {
        return print("There are no topics.\n");
    }
    print(&table(
        ["TOPIC", "PARTITIONS", "REPLICAS", "ID", ""],
        topics.iter().map(|topic| {
            [
                topic.name.clone(),
                topic.partition_count.to_string(),
                topic.replication_factor.to_string(),
                topic.id.to_string(),
                if topic.is_internal { "internal".to_owned() } else { String::new() },
            ]
        }),
    ))
}

fn create(server: &ServerOptions, topic: &NewTopic) -> Result<()> {
    let created = admin::create_topic(&mut connect(server)?, topic)?
        .with_context(|| format!("topic {:?} was not created", topic.name))?;
    if server.json {
        return print_json(&CreatedJson {
            name: created.name,
            id: created.id.to_string(),
            partitions: created.partition_count,
            replication_factor: created.replication_factor,
        });
    }
    let partitions =
        created.partition_count.map(|count| format!(" with {}", counted(count, "partition"))).unwrap_or_default();
    let replicas = match (topic.replication_factor, created.replication_factor) {
        (Some(asked), Some(got)) if asked >= 0 && asked != got => {
            format!(" and {} each, not {asked}: the server decided so", counted(got, "replica"))
        }
        _ => String::new(),
    };
    print(&format!("Created topic {}{partitions}{replicas}.\n", visible(&created.name)))
}

fn describe(server: &ServerOptions, names: &[String]) -> Result<()> {
    let mut cluster = connect(server)?;
    let Several { done: topics, failures } = ask_for_each(names, |name| {
        answer(admin::describe_topic(&mut cluster, name)).with_context(|| format!("topic {name:?} was not described"))
    });
    if !topics.is_empty() && server.json {
        print_json(&topics.iter().map(topic_json).collect::<Vec<_>>())?;
    } else {
        let texts: Vec<_> = topics.iter().map(topic_text).collect();
        print(&texts.join("\n"))?;
    }
    failures.into_result()
}

fn delete(server: &ServerOptions, names: &[String]) -> Result<()> {
    let mut cluster = connect(server)?;
    let Several { done: deleted, failures } = ask_for_each(names, |name| {
        answer(admin::delete_topic(&mut cluster, name)).with_context(|| format!("topic {name:?} was not deleted"))?;
        Ok(name.to_owned())
    });
    if !deleted.is_empty() && server.json {
        print_json(&deleted.iter().map(|name| DeletedJson { name }).collect::<Vec<_>>())?;
    } else {
        let lines: Vec<_> = deleted.iter().map(|name| format!("Deleted topic {}.\n", visible(name))).collect();
        print(&lines.concat())?;
    }
    failures.into_result()
}

/// The two ways to fail as one.
fn answer<T>(answer: Result<Result<T, ServerError>, ClientError>) -> Result<T, ClientError> {
    Ok(answer??)
}

fn topic_text(topic: &Topic) -> String {
    let TopicSummary { name, id, partition_count, replication_factor, is_internal } = &topic.summary;
    let internal = if *is_internal { ", internal" } else { "" };
    let configs: Vec<_> = topic
        .configs
        .iter()
        .map(|config| {
            let value = config.value.as_deref().unwrap_or("[hidden]");
            format!("  {}={}\n", visible(&config.name), visible(value))
        })
        .collect();
    let (partitions, replicas) = (counted(partition_count, "partition"), counted(replication_factor, "replica"));
    let name = visible(name);
    let heading = format!("{name}: {partitions}, {replicas} each, id {id}{internal}\n");
    let partitions = table(
        ["  PARTITION", "LEADER", "REPLICAS", "IN SYNC"],
        topic.partitions.iter().map(|partition| {
            [
                format!("  {}", partition.index),
                partition.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string()),
                numbers(&partition.replicas),
                numbers(&partition.in_sync_replicas),
            ]
        }),
    );
    [heading, configs.concat(), partitions].concat()
}

/// `1 partition`, `2 partitions`.
fn counted(count: impl std::fmt::Display, what: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn numbers(numbers: &[i32]) -> String {
    numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

fn summary_json(topic: &TopicSummary) -> SummaryJson<'_> {
    SummaryJson {
        name: &topic.name,
        id: topic.id.to_string(),
        partitions: topic.partition_count,
        replication_factor: topic.replication_factor,
        internal: topic.is_internal,
    }
}

fn topic_json(topic: &Topic) -> TopicJson<'_> {
    TopicJson {
        summary: summary_json(&topic.summary),
        partition_list: topic
            .partitions
            .iter()
            .map(|partition| PartitionJson {
                partition: partition.index,
                leader: partition.leader,
                replicas: &partition.replicas,
                in_sync_replicas: &partition.in_sync_replicas,
            })
            .collect(),
        configs: topic.configs.iter().map(|config| (config.name.as_str(), config.value.as_deref())).collect(),
    }
}
