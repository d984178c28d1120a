//! StreamsGroupHeartbeat (key 88, versions 0 and 1): a member of a streams group joins, reports or leaves (KIP-1071).
//!
//! What concerns topic names and rights is checked here, everything else in the machine. Internal topics that are
//! missing are created without asking for rights beyond those of the topics themselves.
//! Gaps: task offsets are kept, but no warm-up tasks are handed out.
//! Rights to the topics that patterns stand for are not asked about: they are not known here.

use std::borrow::Cow;

use riparian_group::{
    command::{Caller, ClientSupport, Command, PlainHeartbeat, StreamsHeartbeat},
    reply::{Reply, StreamsHeartbeatError, StreamsHeartbeatReply},
    streams,
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, streams_group_heartbeat_request as req,
        streams_group_heartbeat_response as res,
    },
};
use riparian_types::{
    GroupId, InstanceId, MemberEpoch, MemberId, Offset, PartitionIndex, ProcessId, SubtopologyId, TopicName,
    TopologyEpoch, topic,
};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::StreamsGroupHeartbeat, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = StreamsGroupHeartbeatRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    if let Err((code, text)) = check(&ctx, &request) {
        ctx.reply(&refusal(code, text));
        return Ok(());
    }
    let settled = plain(&ctx, &request).and_then(|heartbeat| ctx.broker.ask_settled(ctx.now, &heartbeat));
    if let Some(reply) = settled {
        let member_id = reply.member_id.clone();
        ctx.reply(&success(&member_id, reply));
        return Ok(());
    }
    let group = GroupId::from(&*request.group_id);
    ctx.connection.note_group(&group);
    let heartbeat = Box::new(command(&ctx, group.clone(), request));
    let to = ctx.to;
    ctx.broker.ask_group(
        ctx.now,
        &group,
        |waiter| Command::StreamsHeartbeat(waiter, heartbeat),
        Box::new(move |broker, _, answer| {
            let (code, text) = match answer {
                Ok(Reply::StreamsHeartbeat(Ok(reply))) => {
                    let member_id = reply.member_id.clone();
                    return broker.reply(to, &success(&member_id, reply));
                }
                Ok(Reply::StreamsHeartbeat(Err(error))) => error_code(error),
                Ok(_) => (ErrorCode::UnknownServerError, None),
                Err(_) => (ErrorCode::NotCoordinator, None),
            };
            broker.reply(to, &refusal(code, text));
        }),
    );
    Ok(())
}

/// The checks that come before those of the machine: topic names and rights.
fn check(ctx: &Context<'_>, request: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), (ErrorCode, Option<String>)> {
    if !ctx.broker.request_config.serves_streams_groups {
        return Err((ErrorCode::UnsupportedVersion, None));
    }
    if !ctx.allows(Operation::Read, Resource::Group(&request.group_id)) {
        return Err((ErrorCode::GroupAuthorizationFailed, None));
    }
    let Some(topology) = &request.topology else {
        return Ok(());
    };
    let names = || topology.subtopologies.iter().flat_map(topic_names);
    let internal: Vec<_> = names().filter(|name| topic::is_internal(name)).collect();
    if !internal.is_empty() {
        let text = format!("a topology can't use Kafka's own topics: {}", internal.join(", "));
        return Err((ErrorCode::StreamsInvalidTopology, Some(text)));
    }
    let illegal: Vec<_> = names().filter(|name| topic::check_name(name).is_err()).collect();
    if !illegal.is_empty() {
        let text = format!(
            "not legal topic names: {}; a name has 1 to {} characters out of ASCII letters, digits, '.', '_' and '-', \
             and is not '.' or '..'",
            illegal.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "),
            topic::NAME_BYTES_MAX
        );
        return Err((ErrorCode::StreamsInvalidTopology, Some(text)));
    }
    if names().any(|name| !ctx.allows(Operation::Describe, Resource::Topic(name))) {
        return Err((ErrorCode::TopicAuthorizationFailed, None));
    }
    Ok(())
}

/// All topics that a subtopology names: sources, sinks, repartition sources, changelogs.
fn topic_names<'a>(subtopology: &'a req::Subtopology<'_>) -> impl Iterator<Item = &'a str> {
    let repartition = subtopology.repartition_source_topics.iter().map(|topic| &*topic.name);
    let changelogs = subtopology.state_changelog_topics.iter().map(|topic| &*topic.name);
    let plain = subtopology.source_topics.iter().chain(&subtopology.repartition_sink_topics).map(|name| &**name);
    plain.chain(repartition).chain(changelogs)
}

/// What the sender's version can do.
const fn support(ctx: &Context<'_>) -> ClientSupport {
    ClientSupport { heartbeat_v1: ctx.version() >= 1 }
}

/// The request, if it tells no more than that its member is there.
fn plain<'a>(ctx: &Context<'_>, request: &'a StreamsGroupHeartbeatRequest<'_>) -> Option<PlainHeartbeat<'a>> {
    let StreamsGroupHeartbeatRequest {
        group_id,
        member_id,
        member_epoch,
        endpoint_information_epoch,
        instance_id,
        rack_id: None,
        rebalance_timeout_ms: -1,
        topology: None,
        active_tasks: None,
        standby_tasks: None,
        warmup_tasks: None,
        process_id: None,
        user_endpoint: None,
        client_tags: None,
        task_offsets: None,
        task_end_offsets: None,
        shutdown_application: false,
        ..
    } = request
    else {
        return None;
    };
    let is_plain = *member_epoch > MemberEpoch::JOIN.0 && ctx.connection.is_usual_client(&ctx.client_id);
    is_plain.then(|| PlainHeartbeat {
        support: support(ctx),
        connection: ctx.connection.id().0,
        group_id,
        member_id,
        member_epoch: MemberEpoch(*member_epoch),
        endpoint_information_epoch: *endpoint_information_epoch,
        instance_id: instance_id.as_deref(),
    })
}

fn command(ctx: &Context<'_>, group_id: GroupId, request: StreamsGroupHeartbeatRequest<'_>) -> StreamsHeartbeat {
    StreamsHeartbeat {
        caller: Caller {
            client_id: ctx.client_id.clone(),
            client_host: ctx.connection.client_host().to_owned(),
            connection: ctx.connection.id().0,
        },
        is_usual_client: ctx.connection.is_usual_client(&ctx.client_id),
        support: support(ctx),
        group_id,
        member_id: MemberId::from(&*request.member_id),
        member_epoch: MemberEpoch(request.member_epoch),
        endpoint_information_epoch: request.endpoint_information_epoch,
        instance_id: request.instance_id.map(|id| InstanceId::from(&*id)),
        rack_id: request.rack_id.map(Cow::into_owned),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        topology: request.topology.map(topology),
        active_tasks: request.active_tasks.map(tasks),
        standby_tasks: request.standby_tasks.map(tasks),
        warmup_tasks: request.warmup_tasks.map(tasks),
        process_id: request.process_id.map(|id| ProcessId::from(&*id)),
        user_endpoint: request
            .user_endpoint
            .map(|endpoint| streams::Endpoint { host: endpoint.host.into_owned(), port: endpoint.port }),
        client_tags: request.client_tags.map(pairs),
        task_offsets: request.task_offsets.map(offsets),
        task_end_offsets: request.task_end_offsets.map(offsets),
        shutdown_application: request.shutdown_application,
    }
}

fn topology(topology: req::Topology<'_>) -> streams::Topology {
    let subtopologies = topology.subtopologies.into_iter().map(|subtopology| streams::Subtopology {
        id: SubtopologyId::from(&*subtopology.subtopology_id),
        source_topics: names(subtopology.source_topics),
        source_topic_regex: subtopology.source_topic_regex.into_iter().map(Cow::into_owned).collect(),
        state_changelog_topics: subtopology.state_changelog_topics.into_iter().map(internal_topic).collect(),
        repartition_sink_topics: names(subtopology.repartition_sink_topics),
        repartition_source_topics: subtopology.repartition_source_topics.into_iter().map(internal_topic).collect(),
        copartition_groups: subtopology
            .copartition_groups
            .into_iter()
            .map(|group| streams::CopartitionGroup {
                source_topics: group.source_topics.into(),
                source_topic_regex: group.source_topic_regex.into(),
                repartition_source_topics: group.repartition_source_topics.into(),
            })
            .collect(),
    });
    streams::Topology { epoch: TopologyEpoch(topology.epoch), subtopologies: subtopologies.collect() }
}

fn names(names: Vec<Cow<'_, str>>) -> Box<[TopicName]> {
    names.iter().map(|name| TopicName::from(&**name)).collect()
}

fn internal_topic(topic: req::TopicInfo<'_>) -> streams::InternalTopic {
    streams::InternalTopic {
        name: TopicName::from(&*topic.name),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs: pairs(topic.topic_configs).into(),
    }
}

fn pairs(pairs: Vec<req::KeyValue<'_>>) -> Vec<(String, String)> {
    pairs.into_iter().map(|pair| (pair.key.into_owned(), pair.value.into_owned())).collect()
}

fn tasks(tasks: Vec<req::TaskIds<'_>>) -> Vec<streams::TaskIds> {
    tasks
        .into_iter()
        .map(|tasks| streams::TaskIds {
            subtopology: SubtopologyId::from(&*tasks.subtopology_id),
            partitions: tasks.partitions.into_iter().map(PartitionIndex).collect(),
        })
        .collect()
}

fn offsets(offsets: Vec<req::TaskOffset<'_>>) -> Vec<streams::TaskOffset> {
    offsets
        .into_iter()
        .map(|offset| streams::TaskOffset {
            subtopology: SubtopologyId::from(&*offset.subtopology_id),
            partition: PartitionIndex(offset.partition),
            offset: Offset(offset.offset),
        })
        .collect()
}

/// The one place where this operation's errors become codes.
fn error_code(error: StreamsHeartbeatError) -> (ErrorCode, Option<String>) {
    match error {
        StreamsHeartbeatError::InvalidRequest(text) => (ErrorCode::InvalidRequest, Some(text)),
        StreamsHeartbeatError::InvalidTopology(text) => (ErrorCode::StreamsInvalidTopology, Some(text)),
        StreamsHeartbeatError::InvalidTopologyEpoch(text) => (ErrorCode::StreamsInvalidTopologyEpoch, Some(text)),
        StreamsHeartbeatError::GroupIdNotFound(text) => (ErrorCode::GroupIdNotFound, Some(text)),
        StreamsHeartbeatError::UnknownMemberId(text) => (ErrorCode::UnknownMemberId, Some(text)),
        StreamsHeartbeatError::FencedMemberEpoch(text) => (ErrorCode::FencedMemberEpoch, Some(text)),
        StreamsHeartbeatError::UnreleasedInstanceId(text) => (ErrorCode::UnreleasedInstanceId, Some(text)),
        StreamsHeartbeatError::FencedInstanceId(text) => (ErrorCode::FencedInstanceId, Some(text)),
        StreamsHeartbeatError::GroupMaxSizeReached(text) => (ErrorCode::GroupMaxSizeReached, Some(text)),
        StreamsHeartbeatError::LoadInProgress => (ErrorCode::CoordinatorLoadInProgress, None),
        StreamsHeartbeatError::Internal(text) => {
            tracing::error!(text, "heartbeat failed");
            (ErrorCode::UnknownServerError, None)
        }
        // The enum is open to new errors; a new one without a code is our fault, and must not kill the server.
        other => {
            tracing::error!(?other, "heartbeat error without a code");
            (ErrorCode::UnknownServerError, None)
        }
    }
}

fn refusal(code: ErrorCode, text: Option<String>) -> StreamsGroupHeartbeatResponse<'static> {
    StreamsGroupHeartbeatResponse {
        error_code: code as i16,
        error_message: text.map(texts::told),
        status: Some(Vec::new()),
        ..Default::default()
    }
}

fn success(member_id: &MemberId, reply: StreamsHeartbeatReply) -> StreamsGroupHeartbeatResponse<'_> {
    let mut response = StreamsGroupHeartbeatResponse {
        member_id: Cow::Borrowed(member_id),
        member_epoch: reply.member_epoch.0,
        heartbeat_interval_ms: reply.heartbeat_interval_ms,
        acceptable_recovery_lag: reply.acceptable_recovery_lag,
        task_offset_interval_ms: reply.task_offset_interval_ms,
        endpoint_information_epoch: reply.endpoint_information_epoch,
        topology_description_required: reply.topology_description_required,
        ..Default::default()
    };
    let statuses = reply.statuses.into_iter().map(|status| res::Status {
        status_code: status.code as i8,
        status_detail: texts::told(status.detail),
        ..Default::default()
    });
    response.status = Some(statuses.collect());
    if let Some(tasks) = reply.tasks {
        response.active_tasks = Some(task_ids(tasks.active));
        response.standby_tasks = Some(task_ids(tasks.standby));
        response.warmup_tasks = Some(task_ids(tasks.warmup));
    }
    response.partitions_by_user_endpoint = reply.partitions_by_user_endpoint.map(|entries| {
        let entries = entries.into_iter().map(|entry| res::EndpointToPartitions {
            user_endpoint: res::Endpoint {
                host: Cow::Owned(entry.endpoint.host),
                port: entry.endpoint.port,
                ..Default::default()
            },
            active_partitions: topic_partitions(entry.active),
            standby_partitions: topic_partitions(entry.standby),
            ..Default::default()
        });
        entries.collect()
    });
    response
}

fn task_ids(tasks: Vec<streams::TaskIds>) -> Vec<res::TaskIds<'static>> {
    let tasks = tasks.into_iter().map(|tasks| res::TaskIds {
        subtopology_id: Cow::Owned(tasks.subtopology.to_string()),
        partitions: tasks.partitions.into_iter().map(|partition| partition.0).collect(),
        ..Default::default()
    });
    tasks.collect()
}

fn topic_partitions(topics: Vec<streams::TopicPartitions>) -> Vec<res::TopicPartition<'static>> {
    let topics = topics.into_iter().map(|topic| res::TopicPartition {
        topic: Cow::Owned(topic.topic.to_string()),
        partitions: topic.partitions.into_iter().map(|partition| partition.0).collect(),
        ..Default::default()
    });
    topics.collect()
}
