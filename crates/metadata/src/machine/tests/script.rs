//! The scripts' commands.
//!
//! A line that begins with `> ` is a command, what follows up to the next empty line is what came out. `#` begins a
//! comment. Items of a command are separated by `+`.
//!
//! ```text
//! > properties KEY=VALUE ...                      a new machine with these properties
//! > create [validate] NAME [partitions=N] [rf=N] [id=N] [assign=BROKER,..|BROKER,..] [at=N,..] [KEY=VALUE ...] + ...
//! > delete NAME + #ID + ...
//! > grow [validate] NAME COUNT [BROKER,..|BROKER,..] + ...
//! > alter [validate] topic:NAME|broker:ID|group:ID (set|append|subtract|delete) KEY[=VALUE] ... + ...
//! > ensure ID                                     the offsets topic
//! > ids COUNT
//! > bootstrap
//! > show                                          the image
//! ```

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt::Display;

use riparian_types::{NodeId, PartitionIndex, Uuid, machine::Waiter};

use super::Cluster;
use crate::{
    ConfigResource,
    command::{
        AlterConfigs, AlterOperation, AlterResource, Command, ConfigChange, CreatePartitions, CreateTopics,
        EnsureInternalTopic, InternalTopic, MorePartitions, NewTopic, TopicSelector,
    },
    record::Record,
    reply::{Effect, Reply, TopicChange},
};

/// Runs a script; gives it back with what came out.
pub(super) fn run(script: &str) -> String {
    let mut cluster = Cluster::new(&[]);
    let mut next_id = 1;
    let mut out = String::new();
    let mut skipping = false;
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            skipping = true;
            out.push_str(line);
            out.push('\n');
            for line in step(&mut cluster, &mut next_id, command) {
                out.push_str(&format!("{line}\n"));
            }
            cluster.check_replay();
        } else if line.is_empty() || !skipping {
            skipping = false;
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn step(cluster: &mut Cluster, next_id: &mut u64, line: &str) -> Vec<String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (validate_only, rest) = rest.strip_prefix("validate ").map_or((false, rest), |rest| (true, rest));
    let items: Vec<Vec<&str>> = rest.split(" + ").map(|item| item.split(' ').collect()).collect();
    let command = match word {
        "properties" => {
            let properties: Vec<_> = rest.split(' ').filter_map(|property| property.split_once('=')).collect();
            *cluster = Cluster::new(&properties);
            return Vec::new();
        }
        "show" => return show(cluster),
        "create" => {
            let topics = items.iter().map(|item| new_topic(next_id, item)).collect();
            Command::CreateTopics(Waiter(1), CreateTopics { topics, validate_only })
        }
        "delete" => Command::DeleteTopics(Waiter(1), items.iter().map(|item| selector(item[0])).collect()),
        "grow" => {
            let topics = items.iter().map(|item| more_partitions(item)).collect();
            Command::CreatePartitions(Waiter(1), CreatePartitions { topics, validate_only })
        }
        "alter" => {
            let resources = items.iter().map(|item| alter_resource(item)).collect();
            Command::AlterConfigs(Waiter(1), AlterConfigs { resources, validate_only })
        }
        "ensure" => Command::EnsureInternalTopic(
            Waiter(1),
            EnsureInternalTopic { topic: InternalTopic::ConsumerOffsets, id: id(rest.parse().unwrap()) },
        ),
        "ids" => Command::AllocateProducerIds(Waiter(1), rest.parse().unwrap()),
        "bootstrap" => Command::Bootstrap(Waiter(1)),
        _ => panic!("unknown command {word}"),
    };
    let (records, effects, reply) = cluster.run(command);
    let mut lines = record_lines(&records);
    lines.extend(effects.iter().flat_map(effect_lines));
    lines.extend(reply_lines(&reply));
    lines
}

fn id(number: u64) -> Uuid {
    Uuid::from_halves(0, number)
}

fn replicas(text: &str) -> Vec<NodeId> {
    text.split(',').filter(|part| !part.is_empty()).map(|broker| NodeId(broker.parse().unwrap())).collect()
}

fn new_topic(next_id: &mut u64, item: &[&str]) -> NewTopic {
    let mut topic = NewTopic {
        name: item[0].into(),
        id: id(*next_id),
        partitions: -1,
        replication_factor: -1,
        assignment: Vec::new(),
        configs: Vec::new(),
    };
    *next_id += 1;
    let mut indexes: Option<Vec<i32>> = None;
    for option in &item[1..] {
        match option.split_once('=') {
            Some(("partitions", value)) => topic.partitions = value.parse().unwrap(),
            Some(("rf", value)) => topic.replication_factor = value.parse().unwrap(),
            Some(("id", value)) => topic.id = id(value.parse().unwrap()),
            Some(("at", value)) => indexes = Some(value.split(',').map(|index| index.parse().unwrap()).collect()),
            Some(("assign", value)) => {
                topic.assignment = (0..).map(PartitionIndex).zip(value.split('|').map(replicas)).collect();
            }
            Some((key, value)) => topic.configs.push((key.to_string(), Some(value.to_string()))),
            None => topic.configs.push((option.to_string(), None)),
        }
    }
    for (partition, index) in topic.assignment.iter_mut().zip(indexes.unwrap_or_default()) {
        partition.0 = PartitionIndex(index);
    }
    topic
}

fn selector(text: &str) -> TopicSelector {
    text.strip_prefix('#')
        .map_or_else(|| TopicSelector::Name(text.into()), |number| TopicSelector::Id(id(number.parse().unwrap())))
}

fn more_partitions(item: &[&str]) -> MorePartitions {
    MorePartitions {
        name: item[0].into(),
        count: item[1].parse().unwrap(),
        assignment: item.get(2).map(|text| text.split('|').map(replicas).collect()),
    }
}

fn alter_resource(item: &[&str]) -> AlterResource {
    let (kind, name) = item[0].split_once(':').unwrap();
    let number = match kind {
        "topic" => 2,
        "broker" => 4,
        "group" => 32,
        _ => panic!("unknown resource {kind}"),
    };
    let changes = item[1..].chunks(2).map(|change| {
        let operation = match change[0] {
            "set" => AlterOperation::Set,
            "append" => AlterOperation::Append,
            "subtract" => AlterOperation::Subtract,
            "delete" => AlterOperation::Delete,
            word => panic!("unknown operation {word}"),
        };
        let (key, value) = change[1].split_once('=').map_or((change[1], None), |(key, value)| (key, Some(value)));
        ConfigChange { key: key.to_string(), operation, value: value.map(ToString::to_string) }
    });
    let resource = ConfigResource::from_parts(number, name).unwrap();
    assert_eq!((resource.type_number(), resource.name().as_str()), (number, name));
    AlterResource { resource, changes: changes.collect() }
}

fn number(id: Uuid) -> u64 {
    id.halves().1
}

fn resource_text(resource: &ConfigResource) -> String {
    let kind = match resource {
        ConfigResource::Topic(_) => "topic",
        ConfigResource::Broker(_) => "broker",
        ConfigResource::Group(_) => "group",
    };
    format!("{kind}:{}", resource.name())
}

/// One line per record; a run of partitions of one topic is one line.
fn record_lines(records: &[Record]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut run: Option<(Uuid, i32, i32)> = None;
    for record in records.iter().map(Some).chain([None]) {
        if let (Some(Record::Partition(partition)), Some((topic, _, last))) = (record, &mut run)
            && partition.topic_id == *topic
            && partition.index.0 == *last + 1
        {
            *last += 1;
            continue;
        }
        if let Some((topic, first, last)) = run.take() {
            lines.push(format!("  record partitions of #{}: {first}..={last}", number(topic)));
        }
        match record {
            Some(Record::Partition(partition)) => {
                assert_eq!(partition.replicas, [NodeId(1)]);
                run = Some((partition.topic_id, partition.index.0, partition.index.0));
            }
            Some(Record::Topic(topic)) => lines.push(format!("  record topic {} #{}", topic.name, number(topic.id))),
            Some(Record::RemoveTopic(removed)) => lines.push(format!("  record remove topic #{}", number(removed.id))),
            Some(Record::Config(config)) => {
                let value = config.value.as_ref().map_or_else(|| " deleted".to_string(), |value| format!("={value}"));
                lines.push(format!("  record config {} {}{value}", resource_text(&config.resource), config.key));
            }
            Some(Record::FeatureLevel(feature)) => {
                lines.push(format!("  record feature {}={}", feature.name, feature.level));
            }
            Some(Record::ProducerIds(ids)) => {
                lines.push(format!("  record producer ids: next {} by broker {}", ids.next, ids.broker));
            }
            Some(Record::NoOp) => lines.push("  record nothing".to_string()),
            None => {}
        }
    }
    lines
}

fn effect_lines(effect: &Effect) -> Vec<String> {
    match effect {
        Effect::TopicsChanged(changes) => changes
            .iter()
            .map(|change| match change {
                TopicChange::Created { name, id, partitions } => {
                    format!("  effect created {name} #{} with {partitions}", number(*id))
                }
                TopicChange::Grown { name, id, before, partitions } => {
                    format!("  effect grown {name} #{} from {before} to {partitions}", number(*id))
                }
                TopicChange::Deleted { name, id, partitions } => {
                    format!("  effect deleted {name} #{} with {partitions}", number(*id))
                }
            })
            .collect(),
        Effect::TopicConfigChanged(names) => {
            names.iter().map(|name| format!("  effect config of topic {name}")).collect()
        }
        Effect::GroupConfigChanged(ids) => ids.iter().map(|id| format!("  effect config of group {id}")).collect(),
        Effect::BrokerConfigChanged => Vec::from(["  effect config of the broker".to_string()]),
        Effect::Warning(warning) => Vec::from([format!("  warning: {warning}")]),
    }
}

fn reply_lines(reply: &Reply) -> Vec<String> {
    fn line<T, E: Display>(name: impl Display, result: &Result<T, E>, ok: impl Fn(&T) -> String) -> String {
        match result {
            Ok(value) => format!("  {name}: {}", ok(value)),
            Err(error) => format!("  {name}: error: {error}"),
        }
    }
    let created = |topic: &crate::reply::CreatedTopic| {
        let configs: String = topic.configs.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        format!("#{} {} partitions, {} replica,{configs}", number(topic.id), topic.partitions, topic.replication_factor)
            .trim_end_matches(',')
            .to_string()
    };
    match reply {
        Reply::Bootstrap => Vec::from(["  done".to_string()]),
        Reply::CreateTopics(results) => results.iter().map(|(name, result)| line(name, result, created)).collect(),
        Reply::EnsureInternalTopic(result) => Vec::from([line("topic", result, created)]),
        Reply::DeleteTopics(results) => results
            .iter()
            .map(|(selector, result)| {
                let asked = match selector {
                    TopicSelector::Name(name) => name.to_string(),
                    TopicSelector::Id(id) => format!("#{}", number(*id)),
                };
                line(asked, result, |topic| format!("deleted {} #{}", topic.name, number(topic.id)))
            })
            .collect(),
        Reply::CreatePartitions(results) => {
            results.iter().map(|(name, result)| line(name, result, |count| format!("{count} partitions"))).collect()
        }
        Reply::AlterConfigs(results) => results
            .iter()
            .map(|(resource, result)| line(resource_text(resource), result, |()| "done".to_string()))
            .collect(),
        Reply::AllocateProducerIds(result) => {
            Vec::from([line("ids", result, |block| format!("{} from {}", block.count, block.first))])
        }
        Reply::Unavailable(error) => Vec::from([format!("  unavailable: {error}")]),
    }
}

fn show(cluster: &Cluster) -> Vec<String> {
    let image = &cluster.machine.image;
    let mut lines: Vec<String> =
        image.topics().map(|(name, topic)| format!("  {name} #{} {}", number(topic.id), topic.partitions)).collect();
    for (resource, configs) in image.configs() {
        lines.extend(configs.iter().map(|(key, value)| format!("  {} {key}={value}", resource_text(resource))));
    }
    lines.extend(image.features().iter().map(|(name, level)| format!("  feature {name}={level}")));
    lines.push(format!(
        "  features epoch {}, next producer id {}, applied {}",
        image.features_epoch(),
        image.next_producer_id(),
        image.applied()
    ));
    lines
}
