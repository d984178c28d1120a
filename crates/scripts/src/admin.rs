//! Commands about topics and settings, as requests to a server.
//!
//! Ids are the server's; scripts call them by numbers, in the order in which they come up.

use riparian_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic},
    create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
    create_topics_response::CreatableTopicResult,
    delete_topics_request::DeleteTopicState,
    describe_configs_request::DescribeConfigsResource,
    describe_configs_response::DescribeConfigsResourceResult,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
};
use riparian_testkit::{
    AdminAnswer, AdminCommand, AdminDone, AdminSubject, AlterOperation, AlteredResource, MorePartitions, NewTopic,
    Refusal, Setting, TopicSelector,
};
use riparian_types::Uuid;

use crate::{
    Transport,
    server::{failed, outcome},
};

const TIMEOUT_MS: i32 = 10_000;
/// The number of the source that says: it was set for this topic.
const SET_FOR_THE_TOPIC: i8 = 1;

/// The ids of topics that were told, in order.
#[derive(Debug, Default)]
pub(crate) struct Ids(Vec<Uuid>);

type Outcomes = Vec<(AdminSubject, Result<AdminDone, Refusal>)>;

impl Ids {
    /// The number of an id, from 1.
    fn number(&mut self, id: Uuid) -> u64 {
        let known = self.0.iter().position(|known| *known == id);
        let index = known.unwrap_or_else(|| {
            self.0.push(id);
            self.0.len() - 1
        });
        index as u64 + 1
    }

    /// The id of a number; one that no topic has if it was never told.
    fn id(&self, number: u64) -> Uuid {
        let index = usize::try_from(number.wrapping_sub(1)).ok();
        index.and_then(|index| self.0.get(index)).copied().unwrap_or_else(|| Uuid::from_halves(7, number))
    }
}

/// Carries a command out.
pub(crate) fn carry_out(
    transport: &mut impl Transport,
    ids: &mut Ids,
    command: &AdminCommand,
) -> Result<AdminAnswer, String> {
    let outcomes = match command {
        AdminCommand::Create { topics, validate_only } => create(transport, ids, topics, *validate_only)?,
        AdminCommand::Drop(topics) => drop_topics(transport, ids, topics)?,
        AdminCommand::Grow { topics, validate_only } => grow(transport, topics, *validate_only)?,
        AdminCommand::Alter { resources, validate_only } => alter(transport, resources, *validate_only)?,
        AdminCommand::Settings { resource_type, name, keys } => settings(transport, *resource_type, name, keys)?,
        AdminCommand::Ensure(_) | AdminCommand::ProducerIds(_) | AdminCommand::Bootstrap | AdminCommand::Show => {
            return Err("only the machine that keeps topics and settings can be told that".to_owned());
        }
    };
    Ok(AdminAnswer::Outcomes(outcomes))
}

fn create(
    transport: &mut impl Transport,
    ids: &mut Ids,
    topics: &[NewTopic],
    validate_only: bool,
) -> Result<Outcomes, String> {
    let topic = |it: &NewTopic| CreatableTopic {
        name: it.name.clone().into(),
        num_partitions: it.partitions,
        replication_factor: it.replication_factor,
        assignments: it
            .assignments
            .iter()
            .map(|(index, brokers)| CreatableReplicaAssignment {
                partition_index: *index,
                broker_ids: brokers.clone(),
                ..CreatableReplicaAssignment::default()
            })
            .collect(),
        configs: it
            .configs
            .iter()
            .map(|(key, value)| CreatableTopicConfig {
                name: key.clone().into(),
                value: value.clone().map(Into::into),
                ..CreatableTopicConfig::default()
            })
            .collect(),
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest {
        topics: topics.iter().map(topic).collect(),
        timeout_ms: TIMEOUT_MS,
        validate_only,
        ..CreateTopicsRequest::default()
    };
    let answer = transport.call(&request, None)?;
    let response = answer.decode::<CreateTopicsRequest<'_>>().map_err(failed)?;
    let outcomes = response.topics.iter().map(|it| {
        let refused = outcome(it.error_code, it.error_message.as_deref());
        (AdminSubject::Topic(it.name.to_string()), refused.map(|()| created(ids, it, validate_only)))
    });
    Ok(outcomes.collect())
}

fn created(ids: &mut Ids, topic: &CreatableTopicResult<'_>, validate_only: bool) -> AdminDone {
    let configs = topic.configs.iter().flatten().filter(|it| it.config_source == SET_FOR_THE_TOPIC);
    let value = |it: &Option<std::borrow::Cow<'_, str>>| it.as_deref().unwrap_or("-").to_owned();
    AdminDone::Created {
        id: (!validate_only).then(|| ids.number(topic.topic_id)),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        configs: configs.map(|it| (it.name.to_string(), value(&it.value))).collect(),
    }
}

fn drop_topics(transport: &mut impl Transport, ids: &mut Ids, topics: &[TopicSelector]) -> Result<Outcomes, String> {
    let topic = |it: &TopicSelector| match it {
        TopicSelector::Name(name) => {
            DeleteTopicState { name: Some(name.clone().into()), ..DeleteTopicState::default() }
        }
        TopicSelector::Id(number) => DeleteTopicState { topic_id: ids.id(*number), ..DeleteTopicState::default() },
    };
    let request = DeleteTopicsRequest {
        topics: topics.iter().map(topic).collect(),
        timeout_ms: TIMEOUT_MS,
        ..DeleteTopicsRequest::default()
    };
    let asked: Vec<(Uuid, u64)> = topics
        .iter()
        .filter_map(|it| match it {
            TopicSelector::Name(_) => None,
            TopicSelector::Id(number) => Some((ids.id(*number), *number)),
        })
        .collect();
    let answer = transport.call(&request, None)?;
    let response = answer.decode::<DeleteTopicsRequest<'_>>().map_err(failed)?;
    let outcomes = response.responses.iter().map(|it| {
        let by_id = asked.iter().find(|(id, _)| *id == it.topic_id).map(|(_, number)| *number);
        let name = it.name.as_deref().unwrap_or("-").to_owned();
        let subject = by_id.map_or_else(|| AdminSubject::Topic(name.clone()), AdminSubject::TopicId);
        let outcome = outcome(it.error_code, it.error_message.as_deref());
        (subject, outcome.map(|()| AdminDone::Deleted { name, id: ids.number(it.topic_id) }))
    });
    Ok(outcomes.collect())
}

fn grow(transport: &mut impl Transport, topics: &[MorePartitions], validate_only: bool) -> Result<Outcomes, String> {
    let assignment = |brokers: &Vec<i32>| CreatePartitionsAssignment {
        broker_ids: brokers.clone(),
        ..CreatePartitionsAssignment::default()
    };
    let topic = |it: &MorePartitions| CreatePartitionsTopic {
        name: it.name.clone().into(),
        count: it.count,
        assignments: it.assignments.as_ref().map(|list| list.iter().map(assignment).collect()),
        ..CreatePartitionsTopic::default()
    };
    let request = CreatePartitionsRequest {
        topics: topics.iter().map(topic).collect(),
        timeout_ms: TIMEOUT_MS,
        validate_only,
        ..CreatePartitionsRequest::default()
    };
    let answer = transport.call(&request, None)?;
    let response = answer.decode::<CreatePartitionsRequest<'_>>().map_err(failed)?;
    let outcomes = response.results.iter().map(|it| {
        let asked = topics.iter().find(|topic| topic.name == it.name);
        let partitions = asked.map_or(-1, |topic| topic.count);
        let outcome = outcome(it.error_code, it.error_message.as_deref());
        (AdminSubject::Topic(it.name.to_string()), outcome.map(|()| AdminDone::Grown { partitions }))
    });
    Ok(outcomes.collect())
}

fn alter(
    transport: &mut impl Transport,
    resources: &[AlteredResource],
    validate_only: bool,
) -> Result<Outcomes, String> {
    let config = |(operation, key, value): &(AlterOperation, String, Option<String>)| AlterableConfig {
        name: key.clone().into(),
        config_operation: match operation {
            AlterOperation::Set => 0,
            AlterOperation::Delete => 1,
            AlterOperation::Append => 2,
            AlterOperation::Subtract => 3,
        },
        value: value.clone().map(Into::into),
        ..AlterableConfig::default()
    };
    let resource = |it: &AlteredResource| AlterConfigsResource {
        resource_type: it.resource_type,
        resource_name: it.name.clone().into(),
        configs: it.changes.iter().map(config).collect(),
        ..AlterConfigsResource::default()
    };
    let request = IncrementalAlterConfigsRequest {
        resources: resources.iter().map(resource).collect(),
        validate_only,
        ..IncrementalAlterConfigsRequest::default()
    };
    let answer = transport.call(&request, None)?;
    let response = answer.decode::<IncrementalAlterConfigsRequest<'_>>().map_err(failed)?;
    let outcomes = response.responses.iter().map(|it| {
        let subject = AdminSubject::Resource { resource_type: it.resource_type, name: it.resource_name.to_string() };
        (subject, outcome(it.error_code, it.error_message.as_deref()).map(|()| AdminDone::Done))
    });
    Ok(outcomes.collect())
}

fn settings(
    transport: &mut impl Transport,
    resource_type: i8,
    name: &str,
    keys: &[String],
) -> Result<Outcomes, String> {
    let resource = DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned().into(),
        configuration_keys: (!keys.is_empty()).then(|| keys.iter().map(|key| key.clone().into()).collect()),
        ..DescribeConfigsResource::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
    let answer = transport.call(&request, None)?;
    let response = answer.decode::<DescribeConfigsRequest<'_>>().map_err(failed)?;
    let outcomes = response.results.iter().map(|it| {
        let setting = |it: &DescribeConfigsResourceResult<'_>| Setting {
            key: it.name.to_string(),
            value: it.value.as_deref().map(str::to_owned),
            source: it.config_source,
        };
        let mut settings: Vec<Setting> = it.configs.iter().map(setting).collect();
        settings.sort();
        let subject = AdminSubject::Resource { resource_type: it.resource_type, name: it.resource_name.to_string() };
        let outcome = outcome(it.error_code, it.error_message.as_deref());
        (subject, outcome.map(|()| AdminDone::Settings(settings)))
    });
    Ok(outcomes.collect())
}
