//! Topics.

use riparian_protocol::{
    ErrorCode,
    messages::{
        CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, MetadataRequest,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        delete_topics_request::DeleteTopicState,
        describe_configs_request::DescribeConfigsResource,
        metadata_request::MetadataRequestTopic,
        metadata_response::MetadataResponseTopic,
    },
};
use riparian_types::Uuid;
use riparian_wire::VersionRange;

use crate::{ClientError, Cluster, ServerError};

const RESOURCE_TYPE_TOPIC: i8 = 2;
/// Values that come from a default, not from the topic itself.
const CONFIG_SOURCES_OF_DEFAULTS: [i8; 2] = [4, 5];
/// From here on a describe can ask not to create what it asks for.
const METADATA_WITHOUT_CREATION: VersionRange = VersionRange::new(4, MetadataRequest::VERSIONS.max);
/// From here on topics may be named by id, and are named in a struct.
const DELETE_TOPICS_BY_STATE: i16 = 6;
/// From here on the server's defaults may be asked for with -1.
const CREATE_TOPICS_WITH_DEFAULTS: VersionRange = VersionRange::new(4, CreateTopicsRequest::VERSIONS.max);

/// A topic in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSummary {
    /// Its name.
    pub name: String,
    /// Its id; zero from a server that has none.
    pub id: Uuid,
    /// Whether the server keeps it for itself.
    pub is_internal: bool,
    /// How many partitions it has.
    pub partition_count: usize,
    /// How many replicas each has.
    pub replication_factor: usize,
}

/// A topic in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// What a list shows.
    pub summary: TopicSummary,
    /// By number.
    pub partitions: Vec<Partition>,
    /// Configs set on the topic, by name; defaults are left out.
    pub configs: Vec<ConfigEntry>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub index: i32,
    /// The leading node; `None` while there is none.
    pub leader: Option<i32>,
    /// The nodes that have a copy.
    pub replicas: Vec<i32>,
    /// Those of them that have all of it.
    pub in_sync_replicas: Vec<i32>,
}

/// A config and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub name: String,
    /// The value; `None` when it is secret.
    pub value: Option<String>,
}

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// `None`: the server's default.
    pub partition_count: Option<i32>,
    /// `None`: the server's default.
    pub replication_factor: Option<i16>,
    /// Configs, in any order.
    pub configs: Vec<(String, String)>,
}

/// What became of a [`NewTopic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its name.
    pub name: String,
    /// Its id; zero from a server that does not tell.
    pub id: Uuid,
    /// `None` from a server that does not tell.
    pub partition_count: Option<i32>,
    /// `None` from a server that does not tell.
    pub replication_factor: Option<i16>,
}

/// All topics, by name.
pub fn list_topics(cluster: &mut Cluster) -> Result<Vec<TopicSummary>, ClientError> {
    let answer = cluster.call(&MetadataRequest { topics: None, ..MetadataRequest::default() })?;
    let mut topics: Vec<_> = answer.decode()?.topics.iter().map(summary).collect();
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(topics)
}

/// One topic with its partitions and configs; the inner error is the server's about this topic.
pub fn describe_topic(cluster: &mut Cluster, name: &str) -> Result<Result<Topic, ServerError>, ClientError> {
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name: Some(name.into()), ..MetadataRequestTopic::default() }]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let version = cluster.any().version(MetadataRequest::API_KEY, METADATA_WITHOUT_CREATION)?;
    let answer = cluster.any().call_version(&request, version)?;
    let response = answer.decode()?;
    let Some(topic) = response.topics.first() else {
        return Ok(Err(ServerError { code: ErrorCode::UnknownTopicOrPartition.code(), message: None }));
    };
    if let Err(error) = ServerError::check(topic.error_code, None) {
        return Ok(Err(error));
    }
    let mut partitions: Vec<_> = topic
        .partitions
        .iter()
        .map(|partition| Partition {
            index: partition.partition_index,
            leader: (partition.leader_id >= 0).then_some(partition.leader_id),
            replicas: partition.replica_nodes.clone(),
            in_sync_replicas: partition.isr_nodes.clone(),
        })
        .collect();
    partitions.sort_by_key(|partition| partition.index);
    let summary = summary(topic);
    Ok(topic_configs(cluster, name)?.map(|configs| Topic { summary, partitions, configs }))
}

/// Creates a topic; the inner error is the server's about it.
pub fn create_topic(cluster: &mut Cluster, topic: &NewTopic) -> Result<Result<CreatedTopic, ServerError>, ClientError> {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: topic.name.as_str().into(),
            num_partitions: topic.partition_count.unwrap_or(-1),
            replication_factor: topic.replication_factor.unwrap_or(-1),
            configs: topic
                .configs
                .iter()
                .map(|(name, value)| CreatableTopicConfig {
                    name: name.as_str().into(),
                    value: Some(value.as_str().into()),
                    ..CreatableTopicConfig::default()
                })
                .collect(),
            ..CreatableTopic::default()
        }],
        timeout_ms: 30_000,
        ..CreateTopicsRequest::default()
    };
    let needs_defaults = topic.partition_count.is_none() || topic.replication_factor.is_none();
    let versions = if needs_defaults { CREATE_TOPICS_WITH_DEFAULTS } else { CreateTopicsRequest::VERSIONS };
    let version = cluster.any().version(CreateTopicsRequest::API_KEY, versions)?;
    let answer = cluster.any().call_version(&request, version)?;
    let response = answer.decode()?;
    let Some(result) = response.topics.first() else {
        return Ok(Err(ServerError { code: ErrorCode::UnknownServerError.code(), message: None }));
    };
    Ok(ServerError::check(result.error_code, result.error_message.as_deref()).map(|()| CreatedTopic {
        name: result.name.clone().into_owned(),
        id: result.topic_id,
        partition_count: (result.num_partitions >= 0).then_some(result.num_partitions),
        replication_factor: (result.replication_factor >= 0).then_some(result.replication_factor),
    }))
}

/// Deletes a topic; the inner error is the server's about it.
pub fn delete_topic(cluster: &mut Cluster, name: &str) -> Result<Result<(), ServerError>, ClientError> {
    let version = cluster.any().version(DeleteTopicsRequest::API_KEY, DeleteTopicsRequest::VERSIONS)?;
    let mut request = DeleteTopicsRequest { timeout_ms: 30_000, ..DeleteTopicsRequest::default() };
    if version >= DELETE_TOPICS_BY_STATE {
        request.topics = vec![DeleteTopicState { name: Some(name.into()), ..DeleteTopicState::default() }];
    } else {
        request.topic_names = vec![name.into()];
    }
    let answer = cluster.any().call_version(&request, version)?;
    let response = answer.decode()?;
    let Some(result) = response.responses.first() else {
        return Ok(Err(ServerError { code: ErrorCode::UnknownServerError.code(), message: None }));
    };
    Ok(ServerError::check(result.error_code, result.error_message.as_deref()))
}

fn topic_configs(cluster: &mut Cluster, name: &str) -> Result<Result<Vec<ConfigEntry>, ServerError>, ClientError> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: RESOURCE_TYPE_TOPIC,
            resource_name: name.into(),
            configuration_keys: None,
            ..DescribeConfigsResource::default()
        }],
        ..DescribeConfigsRequest::default()
    };
    let answer = cluster.call(&request)?;
    let response = answer.decode()?;
    let Some(result) = response.results.first() else { return Ok(Ok(Vec::new())) };
    if let Err(error) = ServerError::check(result.error_code, result.error_message.as_deref()) {
        return Ok(Err(error));
    }
    let mut configs: Vec<_> = result
        .configs
        .iter()
        .filter(|config| !CONFIG_SOURCES_OF_DEFAULTS.contains(&config.config_source))
        .map(|config| ConfigEntry {
            name: config.name.clone().into_owned(),
            value: config.value.clone().filter(|_| !config.is_sensitive).map(Into::into),
        })
        .collect();
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Ok(configs))
}

fn summary(topic: &MetadataResponseTopic<'_>) -> TopicSummary {
    TopicSummary {
        name: topic.name.as_deref().unwrap_or_default().to_owned(),
        id: topic.topic_id,
        is_internal: topic.is_internal,
        partition_count: topic.partitions.len(),
        replication_factor: topic.partitions.first().map_or(0, |partition| partition.replica_nodes.len()),
    }
}
