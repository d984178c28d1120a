//! Scripts (`docs/SCRIPTS.md`) about topics and settings: what the language's admin commands do to a machine, and how its
//! answers, records and effects are shown.

extern crate std;

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt::Display;
use std::path::Path;

use riparian_testkit as words;
use riparian_testkit::{AdminCommand, Runner, Script};
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

/// After every command the state is rebuilt from all records so far and compared with the live one.
pub(super) fn check(path: &Path) {
    let mut cluster = Cluster::new(&[]);
    let mut next_id = 1;
    let checked = Script::check_file(path, Runner::VirtualTime, |line| {
        let lines = carry_out(&mut cluster, &mut next_id, line)?;
        cluster.check_replay();
        Ok(lines)
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}

/// The answer first, then records and effects.
fn carry_out(cluster: &mut Cluster, next_id: &mut u64, line: &str) -> Result<Vec<String>, String> {
    let command = match words::Command::parse(line).map_err(|error| error.to_string())? {
        words::Command::Server(properties) => {
            let properties: Vec<(&str, &str)> = properties.iter().map(|(key, value)| (&**key, &**value)).collect();
            *cluster = Cluster::new(&properties);
            return Ok(Vec::new());
        }
        words::Command::Admin(AdminCommand::Show) => return Ok(show(cluster)),
        words::Command::Admin(command) => machine_command(command, next_id),
        other => return Err(format!("groups are not known here: {other:?}")),
    };
    let (records, effects, reply) = cluster.run(command);
    let mut lines = reply_lines(&reply);
    lines.extend(record_lines(&records));
    lines.extend(effects.iter().flat_map(effect_lines));
    Ok(lines)
}

fn machine_command(command: AdminCommand, next_id: &mut u64) -> Command {
    let waiter = Waiter(1);
    match command {
        AdminCommand::Create { topics, validate_only } => {
            let topics = topics.into_iter().map(|topic| new_topic(next_id, topic)).collect();
            Command::CreateTopics(waiter, CreateTopics { topics, validate_only })
        }
        AdminCommand::Drop(topics) => {
            let selector = |topic| match topic {
                words::TopicSelector::Name(name) => TopicSelector::Name(name.as_str().into()),
                words::TopicSelector::Id(number) => TopicSelector::Id(id(number)),
            };
            Command::DeleteTopics(waiter, topics.into_iter().map(selector).collect())
        }
        AdminCommand::Grow { topics, validate_only } => {
            let more = |topic: words::MorePartitions| MorePartitions {
                name: topic.name.as_str().into(),
                count: topic.count,
                assignment: topic.assignments.map(|brokers| brokers.into_iter().map(nodes).collect()),
            };
            let topics = topics.into_iter().map(more).collect();
            Command::CreatePartitions(waiter, CreatePartitions { topics, validate_only })
        }
        AdminCommand::Alter { resources, validate_only } => {
            let resources = resources.into_iter().map(alter_resource).collect();
            Command::AlterConfigs(waiter, AlterConfigs { resources, validate_only })
        }
        AdminCommand::Ensure(number) => {
            let ensure = EnsureInternalTopic { topic: InternalTopic::ConsumerOffsets, id: id(number) };
            Command::EnsureInternalTopic(waiter, ensure)
        }
        AdminCommand::ProducerIds(count) => Command::AllocateProducerIds(waiter, count),
        AdminCommand::Bootstrap | AdminCommand::Show => Command::Bootstrap(waiter),
    }
}

fn id(number: u64) -> Uuid {
    Uuid::from_halves(0, number)
}

fn nodes(brokers: Vec<i32>) -> Vec<NodeId> {
    brokers.into_iter().map(NodeId).collect()
}

fn new_topic(next_id: &mut u64, topic: words::NewTopic) -> NewTopic {
    let number = topic.id.unwrap_or(*next_id);
    *next_id += 1;
    let assignment = topic.assignments.into_iter();
    NewTopic {
        name: topic.name.as_str().into(),
        id: id(number),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        assignment: assignment.map(|(index, brokers)| (PartitionIndex(index), nodes(brokers))).collect(),
        configs: topic.configs,
    }
}

fn alter_resource(altered: words::AlteredResource) -> AlterResource {
    let resource = ConfigResource::from_parts(altered.resource_type, &altered.name).unwrap();
    assert_eq!((resource.type_number(), resource.name().as_str()), (altered.resource_type, altered.name.as_str()));
    let changes = altered.changes.into_iter().map(|(operation, key, value)| {
        let operation = match operation {
            words::AlterOperation::Set => AlterOperation::Set,
            words::AlterOperation::Append => AlterOperation::Append,
            words::AlterOperation::Subtract => AlterOperation::Subtract,
            words::AlterOperation::Delete => AlterOperation::Delete,
        };
        ConfigChange { key, operation, value }
    });
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
            lines.push(format!("record partitions of #{}: {first}..={last}", number(topic)));
        }
        match record {
            Some(Record::Partition(partition)) => {
                assert_eq!(partition.replicas, [NodeId(1)]);
                run = Some((partition.topic_id, partition.index.0, partition.index.0));
            }
            Some(Record::Topic(topic)) => lines.push(format!("record topic {} #{}", topic.name, number(topic.id))),
            Some(Record::RemoveTopic(removed)) => lines.push(format!("record remove topic #{}", number(removed.id))),
            Some(Record::Config(config)) => {
                let value = config.value.as_ref().map_or_else(|| " deleted".to_string(), |value| format!("={value}"));
                lines.push(format!("record config {} {}{value}", resource_text(&config.resource), config.key));
            }
            Some(Record::FeatureLevel(feature)) => {
                lines.push(format!("record feature {}={}", feature.name, feature.level));
            }
            Some(Record::ProducerIds(ids)) => {
                lines.push(format!("record producer ids: next {} by broker {}", ids.next, ids.broker));
            }
            Some(Record::NoOp) => lines.push("record nothing".to_string()),
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
                    format!("effect created {name} #{} with {partitions}", number(*id))
                }
                TopicChange::Grown { name, id, before, partitions } => {
                    format!("effect grown {name} #{} from {before} to {partitions}", number(*id))
                }
                TopicChange::Deleted { name, id, partitions } => {
                    format!("effect deleted {name} #{} with {partitions}", number(*id))
                }
            })
            .collect(),
        Effect::TopicConfigChanged(names) => {
            names.iter().map(|name| format!("effect config of topic {name}")).collect()
        }
        Effect::GroupConfigChanged(ids) => ids.iter().map(|id| format!("effect config of group {id}")).collect(),
        Effect::BrokerConfigChanged => Vec::from(["effect config of the broker".to_string()]),
        Effect::Warning(warning) => Vec::from([format!("warning: {warning}")]),
    }
}

fn reply_lines(reply: &Reply) -> Vec<String> {
    fn line<T, E: Display>(name: impl Display, result: &Result<T, E>, ok: impl Fn(&T) -> String) -> String {
        match result {
            Ok(value) => format!("{name}: {}", ok(value)),
            Err(error) => format!("{name}: error: {error}"),
        }
    }
    let created = |topic: &crate::reply::CreatedTopic| {
        let configs: String = topic.configs.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        format!("#{} {} partitions, {} replica,{configs}", number(topic.id), topic.partitions, topic.replication_factor)
            .trim_end_matches(',')
            .to_string()
    };
    match reply {
        Reply::Bootstrap => Vec::from(["done".to_string()]),
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
        Reply::Unavailable(error) => Vec::from([format!("unavailable: {error}")]),
    }
}

fn show(cluster: &Cluster) -> Vec<String> {
    let image = &cluster.machine.image;
    let mut lines: Vec<String> =
        image.topics().map(|(name, topic)| format!("{name} #{} {}", number(topic.id), topic.partitions)).collect();
    for (resource, configs) in image.configs() {
        lines.extend(configs.iter().map(|(key, value)| format!("{} {key}={value}", resource_text(resource))));
    }
    lines.extend(image.features().iter().map(|(name, level)| format!("feature {name}={level}")));
    lines.push(format!(
        "features epoch {}, next producer id {}, applied {}",
        image.features_epoch(),
        image.next_producer_id(),
        image.applied()
    ));
    lines
}
