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
use riparian_testkit::{
    AdminAnswer, AdminCommand, AdminDone, AdminSubject, Happened, Refusal, Runner, Script, Session, Setting, Target,
    Topology, show::Printer,
};
use riparian_types::{NodeId, PartitionIndex, TopicName, Uuid, machine::Waiter};

use super::Cluster;
use crate::{
    ConfigResource,
    command::{
        AlterConfigs, AlterOperation, AlterResource, Command, ConfigChange, CreatePartitions, CreateTopics,
        EnsureInternalTopic, InternalTopic, MorePartitions, NewTopic, TopicSelector,
    },
    config::{self, ConfigError},
    record::Record,
    reply::{
        AlterConfigsError, CreatePartitionsError, CreateTopicError, CreatedTopic, DeleteTopicError, Effect, Reply,
        TopicChange,
    },
};

/// After every command the state is rebuilt from all records so far and compared with the live one.
pub(super) fn check(path: &Path) {
    let run = Run { cluster: Cluster::new(&[]), next_id: 1, happened: Vec::new() };
    let mut session = Session::new(run, "", Printer::new(), Topology::default());
    if let Err(error) = Script::check_file(path, Runner::VirtualTime, |line| session.carry_out(line)) {
        panic!("{error}");
    }
}

/// As [`check`], but the script holds what a broker of Apache Kafka does, and is not rewritten.
pub(super) fn check_as_a_server(path: &Path) -> Result<(), String> {
    let run = Run { cluster: Cluster::new(&[]), next_id: 1, happened: Vec::new() };
    let mut session = Session::new(run, "", Printer::without_texts(), Topology::default());
    let script = Script::load(path).map_err(|error| error.to_string())?;
    script.check(Runner::VirtualTime, |line| session.carry_out(line)).map_err(|mismatch| mismatch.to_string())
}

/// A machine as the target of a script.
struct Run {
    cluster: Cluster,
    /// Of the next topic that is created.
    next_id: u64,
    happened: Vec<String>,
}

impl Target for Run {
    fn set_up(&mut self, entries: &[(String, String)]) -> Result<(), String> {
        let properties: Vec<(&str, &str)> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
        self.cluster = Cluster::new(&properties);
        Ok(())
    }

    /// Records, then effects.
    fn happened(&mut self) -> Result<Vec<Happened>, String> {
        Ok(self.happened.drain(..).map(Happened::Noted).collect())
    }

    fn admin(&mut self, command: &AdminCommand) -> Result<AdminAnswer, String> {
        match command {
            AdminCommand::Show => return Ok(AdminAnswer::State(show(&self.cluster))),
            AdminCommand::Settings { resource_type, name, keys } => {
                let outcome = settings(&self.cluster, *resource_type, name, keys);
                let subject = AdminSubject::Resource { resource_type: *resource_type, name: name.clone() };
                return Ok(AdminAnswer::Outcomes(Vec::from([(subject, outcome)])));
            }
            _ => {}
        }
        let is_trial = matches!(command, AdminCommand::Create { validate_only: true, .. });
        let (records, effects, reply) = self.cluster.run(machine_command(command.clone(), &mut self.next_id));
        self.cluster.check_replay();
        self.happened.extend(record_lines(&records));
        self.happened.extend(effects.iter().flat_map(effect_lines));
        Ok(AdminAnswer::Outcomes(outcomes(reply, is_trial)))
    }

    /// Its log is all that a machine ever finds again.
    fn restart(&mut self) -> Result<(), String> {
        self.cluster.machine = self.cluster.replayed();
        Ok(())
    }
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
        AdminCommand::Bootstrap | AdminCommand::Show | AdminCommand::Settings { .. } => Command::Bootstrap(waiter),
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

fn outcomes(reply: Reply, is_trial: bool) -> Vec<(AdminSubject, Result<AdminDone, Refusal>)> {
    fn refusal<E: Display>(error: &E, name: &str) -> Refusal {
        Refusal::new(name, Some(&error.to_string()))
    }
    let created = |topic: CreatedTopic| AdminDone::Created {
        id: (!is_trial).then(|| number(topic.id)),
        partitions: topic.partitions.0,
        replication_factor: topic.replication_factor,
        configs: topic.configs.into_iter().collect(),
    };
    let topic = |name: TopicName| AdminSubject::Topic(name.to_string());
    match reply {
        Reply::Bootstrap => Vec::from([(AdminSubject::Cluster, Ok(AdminDone::Done))]),
        Reply::CreateTopics(results) => results
            .into_iter()
            .map(|(name, result)| {
                (topic(name), result.map(created).map_err(|error| refusal(&error, create_error(&error))))
            })
            .collect(),
        Reply::EnsureInternalTopic(result) => {
            let outcome = result.map(created).map_err(|error| refusal(&error, create_error(&error)));
            Vec::from([(AdminSubject::OffsetsTopic, outcome)])
        }
        Reply::DeleteTopics(results) => results
            .into_iter()
            .map(|(selector, result)| {
                let asked = match selector {
                    TopicSelector::Name(name) => topic(name),
                    TopicSelector::Id(id) => AdminSubject::TopicId(number(id)),
                };
                let deleted = result.map(|it| AdminDone::Deleted { name: it.name.to_string(), id: number(it.id) });
                (asked, deleted.map_err(|error| refusal(&error, delete_error(&error))))
            })
            .collect(),
        Reply::CreatePartitions(results) => results
            .into_iter()
            .map(|(name, result)| {
                let grown = result.map(|count| AdminDone::Grown { partitions: count.0 });
                (topic(name), grown.map_err(|error| refusal(&error, grow_error(&error))))
            })
            .collect(),
        Reply::AlterConfigs(results) => results
            .into_iter()
            .map(|(resource, result)| {
                let (resource_type, name) = (resource.type_number(), resource.name().to_string());
                let outcome = result.map(|()| AdminDone::Done).map_err(|error| refusal(&error, alter_error(&error)));
                (AdminSubject::Resource { resource_type, name }, outcome)
            })
            .collect(),
        Reply::AllocateProducerIds(result) => {
            let outcome = result.map(|block| AdminDone::ProducerIds { count: block.count, first: block.first.0 });
            let outcome = outcome.map_err(|error| refusal(&error, "UNKNOWN_SERVER_ERROR"));
            Vec::from([(AdminSubject::ProducerIds, outcome)])
        }
        Reply::Unavailable(error) => {
            Vec::from([(AdminSubject::Cluster, Err(refusal(&error, "COORDINATOR_NOT_AVAILABLE")))])
        }
    }
}

/// As the server's handler finds them.
fn settings(cluster: &Cluster, resource_type: i8, name: &str, keys: &[String]) -> Result<AdminDone, Refusal> {
    let refused = |name| Err(Refusal::new(name, Some("it cannot be described")));
    let Some(resource) = ConfigResource::from_parts(resource_type, name) else { return refused("INVALID_REQUEST") };
    let (image, settings) = (&cluster.machine.image, &cluster.machine.settings);
    let layers = image.layers(settings.node_id, &settings.properties);
    let wanted = |name: &str| keys.is_empty() || keys.iter().any(|key| key == name);
    let entries = match &resource {
        ConfigResource::Topic(name) if image.topic(name).is_none() => return refused("UNKNOWN_TOPIC_OR_PARTITION"),
        ConfigResource::Topic(_) => config::describe_topic(&layers, image.config(&resource), wanted),
        ConfigResource::Group(_) => config::describe_group(&layers, image.config(&resource), wanted),
        ConfigResource::Broker(id) => config::describe_broker(&layers, id.is_none(), wanted),
    };
    let mut settings: Vec<Setting> = entries
        .into_iter()
        .map(|it| Setting { key: it.key.name.to_string(), value: it.value, source: it.source as i8 })
        .collect();
    settings.sort();
    Ok(AdminDone::Settings(settings))
}

fn create_error(error: &CreateTopicError) -> &'static str {
    match error {
        CreateTopicError::InvalidName { .. } | CreateTopicError::Collides { .. } => "INVALID_TOPIC_EXCEPTION",
        CreateTopicError::AlreadyExists { .. } => "TOPIC_ALREADY_EXISTS",
        CreateTopicError::Reserved { .. }
        | CreateTopicError::NamedTwice { .. }
        | CreateTopicError::CountAndAssignment { .. } => "INVALID_REQUEST",
        CreateTopicError::InvalidPartitions { .. } => "INVALID_PARTITIONS",
        CreateTopicError::InvalidReplicationFactor { .. } => "INVALID_REPLICATION_FACTOR",
        CreateTopicError::InvalidAssignment(_) => "INVALID_REPLICA_ASSIGNMENT",
        CreateTopicError::Config(ConfigError::NullValue { .. }) => "INVALID_CONFIG",
        CreateTopicError::Config(error) => config_error(error),
        CreateTopicError::Limit(_) => "POLICY_VIOLATION",
        CreateTopicError::IdTaken { .. } => "UNKNOWN_SERVER_ERROR",
    }
}

fn delete_error(error: &DeleteTopicError) -> &'static str {
    match error {
        DeleteTopicError::Disabled => "TOPIC_DELETION_DISABLED",
        DeleteTopicError::UnknownName { .. } => "UNKNOWN_TOPIC_OR_PARTITION",
        DeleteTopicError::UnknownId { .. } => "UNKNOWN_TOPIC_ID",
        DeleteTopicError::NamedTwice { .. } | DeleteTopicError::Internal { .. } => "INVALID_REQUEST",
    }
}

fn grow_error(error: &CreatePartitionsError) -> &'static str {
    match error {
        CreatePartitionsError::UnknownTopic { .. } => "UNKNOWN_TOPIC_OR_PARTITION",
        CreatePartitionsError::NamedTwice { .. } | CreatePartitionsError::Internal { .. } => "INVALID_REQUEST",
        CreatePartitionsError::NotMore { .. } => "INVALID_PARTITIONS",
        CreatePartitionsError::InvalidAssignment(_) => "INVALID_REPLICA_ASSIGNMENT",
        CreatePartitionsError::Limit(_) => "POLICY_VIOLATION",
    }
}

fn alter_error(error: &AlterConfigsError) -> &'static str {
    match error {
        AlterConfigsError::InvalidName { .. } => "INVALID_TOPIC_EXCEPTION",
        AlterConfigsError::UnknownTopic { .. } => "UNKNOWN_TOPIC_OR_PARTITION",
        AlterConfigsError::UnknownBroker { .. } | AlterConfigsError::InvalidGroupId | AlterConfigsError::NamedTwice => {
            "INVALID_REQUEST"
        }
        AlterConfigsError::Config(error) => config_error(error),
        AlterConfigsError::Limit(_) => "POLICY_VIOLATION",
    }
}

fn config_error(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::NullValue { .. } | ConfigError::DuplicateKey { .. } | ConfigError::ReadOnly { .. } => {
            "INVALID_REQUEST"
        }
        ConfigError::UnknownKey { .. }
        | ConfigError::KafkaOnly { .. }
        | ConfigError::BadValue { .. }
        | ConfigError::Conflict { .. }
        | ConfigError::Unsupported { .. }
        | ConfigError::NotAList { .. }
        | ConfigError::TooLong { .. } => "INVALID_CONFIG",
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
