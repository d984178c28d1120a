//! StreamsGroupDescribe (key 89, versions 0 and 1): everything about streams groups (KIP-1071).
//!
//! A description of the topology (KIP-1331) is what a member told of it, if one did.

use std::borrow::Cow;

use riparian_group::{
    command::Command,
    reply::{MemberDescription, Reply, StreamsDescription},
    streams,
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, streams_group_describe_response as res},
};
use riparian_types::GroupId;
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    groups::{GROUP_OPERATIONS, GroupQuestion, Named},
    handlers::Api,
    host::Unavailable,
    request::Context,
    texts,
};

mod description;

pub(crate) const API: Api = Api { key: ApiKey::StreamsGroupDescribe, handle };

/// What became of the wish for a description.
const DESCRIPTION_NOT_REQUESTED: i8 = 0;
const DESCRIPTION_NOT_STORED: i8 = 1;
const DESCRIPTION_FAILED: i8 = 2;
const DESCRIPTION_AVAILABLE: i8 = 3;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = StreamsGroupDescribeRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut response = StreamsGroupDescribeResponse::default();
    let mut questions: Vec<(usize, GroupQuestion)> = Vec::new();
    let mut asked = Vec::new();
    let mut named = Named::default();
    for id in &request.group_ids {
        if !ctx.broker.request_config.serves_streams_groups {
            response.groups.push(refusal(id, ErrorCode::UnsupportedVersion, None));
            continue;
        }
        let refused = if id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else if !ctx.allows(Operation::Describe, Resource::Group(id)) {
            Some(ErrorCode::GroupAuthorizationFailed)
        } else if !named.may_be_named(id) {
            Some(ErrorCode::InvalidRequest)
        } else {
            None
        };
        if let Some(code) = refused {
            response.groups.push(refusal(id, code, None));
            continue;
        }
        let group = GroupId::from(&**id);
        asked.push(group.clone());
        let shard = ctx.broker.group_shard(&group);
        questions.push((shard, Box::new(move |waiter| Command::StreamsDescribe(waiter, group))));
    }
    let to = ctx.to;
    let operations = request.include_authorized_operations;
    let description_wanted = request.include_topology_description;
    ctx.broker.ask_groups(ctx.now, questions, answer, move |broker, answers| {
        for (group, answer) in asked.iter().zip(answers) {
            let mut described = answer.unwrap_or_else(|(code, text)| refusal(group, code, text));
            if described.error_code == 0 {
                if operations {
                    described.authorized_operations = GROUP_OPERATIONS;
                }
                if !description_wanted {
                    described.topology_description = None;
                    described.topology_description_status = DESCRIPTION_NOT_REQUESTED;
                }
            }
            response.groups.push(described);
        }
        broker.reply(to, &response);
    });
    Ok(())
}

type Answer = Result<res::DescribedGroup<'static>, (ErrorCode, Option<String>)>;

fn answer(_: usize, answer: Result<Reply, Unavailable>) -> Answer {
    match answer {
        Ok(Reply::StreamsDescribe(Ok(description))) => Ok(group(description)),
        Ok(Reply::StreamsDescribe(Err(not_found))) => Err((ErrorCode::GroupIdNotFound, Some(not_found.0))),
        Ok(_) => Err((ErrorCode::UnknownServerError, None)),
        Err(Unavailable) => Err((ErrorCode::NotCoordinator, None)),
    }
}

fn refusal(group: &str, code: ErrorCode, text: Option<String>) -> res::DescribedGroup<'static> {
    res::DescribedGroup {
        error_code: code as i16,
        error_message: text.map(texts::told),
        group_id: Cow::Owned(group.to_owned()),
        ..Default::default()
    }
}

fn group(group: StreamsDescription) -> res::DescribedGroup<'static> {
    let description = group.topology_description.map(|kept| description::of_kept(&kept));
    let (topology_description_status, topology_description) = match description {
        None => (DESCRIPTION_NOT_STORED, None),
        Some(Err(error)) => {
            tracing::error!(group = %group.group_id, %error, "the kept description of a topology cannot be read");
            (DESCRIPTION_FAILED, None)
        }
        Some(Ok(description)) => (DESCRIPTION_AVAILABLE, Some(description)),
    };
    res::DescribedGroup {
        // Beside an answer that is none of an error: tools that don't know of it leave it alone.
        error_message: group.problem.map(texts::told),
        group_id: Cow::Owned(group.group_id.to_string()),
        group_state: Cow::Borrowed(group.state.name()),
        group_epoch: group.group_epoch.0,
        assignment_epoch: group.assignment_epoch.0,
        topology: group.topology.map(topology),
        members: group.members.into_iter().map(member).collect(),
        topology_description_status,
        topology_description,
        assignor_name: Some(Cow::Owned(group.assignor_name)),
        ..Default::default()
    }
}

fn topology(topology: streams::Topology) -> res::Topology<'static> {
    let subtopologies = topology.subtopologies.into_iter().map(|subtopology| res::Subtopology {
        subtopology_id: Cow::Owned(subtopology.id.to_string()),
        source_topics: names(&subtopology.source_topics),
        repartition_sink_topics: names(&subtopology.repartition_sink_topics),
        state_changelog_topics: subtopology.state_changelog_topics.into_iter().map(topic_info).collect(),
        repartition_source_topics: subtopology.repartition_source_topics.into_iter().map(topic_info).collect(),
        ..Default::default()
    });
    res::Topology { epoch: topology.epoch.0, subtopologies: Some(subtopologies.collect()), ..Default::default() }
}

fn names(names: &[riparian_types::TopicName]) -> Vec<Cow<'static, str>> {
    names.iter().map(|name| Cow::Owned(name.to_string())).collect()
}

fn topic_info(topic: streams::InternalTopic) -> res::TopicInfo<'static> {
    res::TopicInfo {
        name: Cow::Owned(topic.name.to_string()),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        topic_configs: pairs(topic.configs.into_vec()),
        ..Default::default()
    }
}

fn pairs(pairs: Vec<(String, String)>) -> Vec<res::KeyValue<'static>> {
    let pairs = pairs.into_iter().map(|(key, value)| res::KeyValue {
        key: Cow::Owned(key),
        value: Cow::Owned(value),
        ..Default::default()
    });
    pairs.collect()
}

fn member(member: MemberDescription) -> res::Member<'static> {
    res::Member {
        member_id: Cow::Owned(member.member_id.to_string()),
        member_epoch: member.member_epoch.0,
        instance_id: member.instance_id.map(|id| Cow::Owned(id.to_string())),
        rack_id: member.rack_id.map(Cow::Owned),
        client_id: Cow::Owned(member.client_id),
        client_host: Cow::Owned(member.client_host),
        topology_epoch: member.topology_epoch.0,
        process_id: Cow::Owned(member.process_id.to_string()),
        user_endpoint: member.user_endpoint.map(|endpoint| res::Endpoint {
            host: Cow::Owned(endpoint.host),
            port: endpoint.port,
            ..Default::default()
        }),
        client_tags: pairs(member.client_tags),
        task_offsets: offsets(member.task_offsets),
        task_end_offsets: offsets(member.task_end_offsets),
        assignment: assignment(member.assignment),
        target_assignment: assignment(member.target_assignment),
        is_classic: false,
        ..Default::default()
    }
}

fn offsets(offsets: Vec<streams::TaskOffset>) -> Vec<res::TaskOffset<'static>> {
    let offsets = offsets.into_iter().map(|offset| res::TaskOffset {
        subtopology_id: Cow::Owned(offset.subtopology.to_string()),
        partition: offset.partition.0,
        offset: offset.offset.0,
        ..Default::default()
    });
    offsets.collect()
}

fn assignment(tasks: streams::TaskLists) -> res::Assignment<'static> {
    res::Assignment {
        active_tasks: task_ids(tasks.active),
        standby_tasks: task_ids(tasks.standby),
        warmup_tasks: task_ids(tasks.warmup),
        ..Default::default()
    }
}

fn task_ids(tasks: Vec<streams::TaskIds>) -> Vec<res::TaskIds<'static>> {
    let tasks = tasks.into_iter().map(|tasks| res::TaskIds {
        subtopology_id: Cow::Owned(tasks.subtopology.to_string()),
        partitions: tasks.partitions.into_iter().map(|partition| partition.0).collect(),
        ..Default::default()
    });
    tasks.collect()
}
