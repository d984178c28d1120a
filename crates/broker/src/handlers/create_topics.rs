//! CreateTopics (key 19, versions 2 to 7). The answer leaves when the topics are durable and known to everybody.

use std::{borrow::Cow, collections::BTreeMap};

use riparian_metadata::{
    command::{Command, CreateTopics, NewTopic},
    config::{ConfigError, ConfigMap, ConfigSource},
    reply::{CreateTopicError, CreatedTopic, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        CreateTopicsRequest, CreateTopicsResponse,
        create_topics_request::CreatableTopic,
        create_topics_response::{CreatableTopicConfigs, CreatableTopicResult},
    },
};
use riparian_types::{NodeId, PartitionIndex, TopicName};
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    handlers::{Api, config_resource},
    host::Unavailable,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::CreateTopics, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = CreateTopicsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut response = CreateTopicsResponse::default();
    let mut topics = Vec::new();
    for topic in request.topics {
        let resource = Resource::Topic(&topic.name);
        if ctx.allows(Operation::Create, Resource::Cluster) || ctx.allows(Operation::Create, resource) {
            topics.push(new_topic(ctx.broker, topic));
        } else {
            response.topics.push(failed(&topic.name, ErrorCode::TopicAuthorizationFailed, None));
        }
    }
    let (to, validate_only) = (ctx.to, request.validate_only);
    let names: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
    let create = CreateTopics { topics, validate_only };
    ctx.broker.change_metadata(
        ctx.now,
        |waiter| Command::CreateTopics(waiter, create),
        Box::new(move |broker, _, answer| {
            match answer {
                Ok(Reply::CreateTopics(results)) => {
                    let results = results.into_iter().map(|(name, result)| match result {
                        Ok(topic) => created(broker, &name, topic),
                        Err(error) => failed(&name, code(&error), Some(error.to_string())),
                    });
                    response.topics.extend(results);
                }
                Ok(_) => response.topics.extend(names.iter().map(|n| failed(n, ErrorCode::UnknownServerError, None))),
                Err(Unavailable) => {
                    response.topics.extend(names.iter().map(|n| failed(n, ErrorCode::NotController, None)));
                }
            }
            broker.reply(to, &response);
        }),
    );
    Ok(())
}

fn new_topic(broker: &Broker, topic: CreatableTopic<'_>) -> NewTopic {
    NewTopic {
        name: TopicName::from(&*topic.name),
        id: broker.random_uuid(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignment: topic
            .assignments
            .into_iter()
            .map(|a| (PartitionIndex(a.partition_index), a.broker_ids.into_iter().map(NodeId).collect()))
            .collect(),
        configs: topic
            .configs
            .into_iter()
            .map(|config| (config.name.into_owned(), config.value.map(Cow::into_owned)))
            .collect(),
    }
}

/// The one place where this operation's errors become codes.
fn code(error: &CreateTopicError) -> ErrorCode {
    match error {
        CreateTopicError::InvalidName { .. } | CreateTopicError::Collides { .. } => ErrorCode::InvalidTopicException,
        CreateTopicError::AlreadyExists { .. } => ErrorCode::TopicAlreadyExists,
        CreateTopicError::Reserved { .. }
        | CreateTopicError::NamedTwice { .. }
        | CreateTopicError::CountAndAssignment { .. } => ErrorCode::InvalidRequest,
        CreateTopicError::InvalidPartitions { .. } => ErrorCode::InvalidPartitions,
        CreateTopicError::InvalidReplicationFactor { .. } => ErrorCode::InvalidReplicationFactor,
        CreateTopicError::InvalidAssignment(_) => ErrorCode::InvalidReplicaAssignment,
        CreateTopicError::Config(ConfigError::NullValue { .. }) => ErrorCode::InvalidConfig,
        CreateTopicError::Config(error) => config_resource::error_code(error),
        CreateTopicError::Limit(_) => ErrorCode::PolicyViolation,
        _ => ErrorCode::UnknownServerError,
    }
}

fn failed(name: &str, code: ErrorCode, text: Option<String>) -> CreatableTopicResult<'static> {
    CreatableTopicResult {
        name: Cow::Owned(name.to_owned()),
        error_code: code.code(),
        error_message: text.map(texts::told),
        configs: Some(Vec::new()),
        ..Default::default()
    }
}

fn created(broker: &Broker, name: &TopicName, topic: CreatedTopic) -> CreatableTopicResult<'static> {
    CreatableTopicResult {
        name: Cow::Owned(name.to_string()),
        topic_id: topic.id,
        num_partitions: topic.partitions.0,
        replication_factor: topic.replication_factor,
        error_message: None,
        configs: Some(configs(broker, &topic.configs)),
        ..Default::default()
    }
}

/// All configs of the new topic, as Kafka sends them (KIP-525).
fn configs(broker: &Broker, own: &ConfigMap) -> Vec<CreatableTopicConfigs<'static>> {
    let image = broker.image();
    let layers = image.layers(broker.node_id(), &broker.config.properties);
    let entries = riparian_metadata::config::describe_topic(&layers, own, |_| true);
    let by_name: BTreeMap<_, _> = entries.into_iter().map(|entry| (entry.key.name, entry)).collect();
    let configs = by_name.into_values().map(|entry| CreatableTopicConfigs {
        name: Cow::Borrowed(entry.key.name),
        is_sensitive: entry.sensitive(),
        value: entry.value.map(Cow::Owned),
        read_only: entry.read_only,
        config_source: source(entry.source),
        ..Default::default()
    });
    configs.collect()
}

/// A source's number.
pub(crate) const fn source(source: ConfigSource) -> i8 {
    source as i8
}
