//! Between the machine's types and those of the script language.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use riparian_testkit as script;
use riparian_testkit::show;
use riparian_types::{GroupId, MemberEpoch, Offset, PartitionIndex, TopologyEpoch};

use super::classic;
use crate::{
    command::{Caller, ClientSupport, StreamsHeartbeat},
    record::{MemberState, Record, StreamsCurrentAssignmentValue, StreamsMemberMetadataValue},
    reply::{
        DeleteGroupError, MemberDescription, OffsetCommitError, OffsetFetchError, StreamsDescription,
        StreamsHeartbeatError, StreamsHeartbeatReply,
    },
    streams::{
        ActiveTaskIds, CopartitionGroup, Endpoint, InternalTopic, Subtopology, TaskIds, TaskLists, TaskOffset,
        TopicPartitions, Topology,
    },
};

const THIS_MACHINE: &str = "/127.0.0.1";

pub(crate) fn name(group: &str) -> GroupId {
    group.into()
}

pub(crate) fn heartbeat(request: &script::Heartbeat) -> StreamsHeartbeat {
    let tasks = |tasks: &Option<Vec<script::Task>>| tasks.as_deref().map(task_ids);
    let offsets = |offsets: &Option<Vec<script::TaskOffset>>| {
        let offset = |it: &script::TaskOffset| TaskOffset {
            subtopology: it.task.subtopology.as_str().into(),
            partition: PartitionIndex(it.task.partition),
            offset: Offset(it.offset),
        };
        offsets.as_ref().map(|list| list.iter().map(offset).collect())
    };
    StreamsHeartbeat {
        caller: Caller {
            client_id: "client".into(),
            client_host: request.client_host.clone().unwrap_or_else(|| THIS_MACHINE.into()),
            connection: request.connection,
        },
        // One connection does not come from two hosts.
        is_usual_client: request.client_host.is_none(),
        support: ClientSupport { heartbeat_v1: request.version != Some(0) },
        group_id: name(&request.group_id),
        member_id: request.member_id.as_str().into(),
        member_epoch: MemberEpoch(request.member_epoch),
        endpoint_information_epoch: request.endpoint_information_epoch,
        instance_id: request.instance_id.as_deref().map(Into::into),
        rack_id: request.rack_id.clone(),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        topology: request.topology.as_ref().map(topology),
        active_tasks: tasks(&request.active_tasks),
        standby_tasks: tasks(&request.standby_tasks),
        warmup_tasks: tasks(&request.warmup_tasks),
        process_id: request.process_id.as_deref().map(Into::into),
        user_endpoint: request.user_endpoint.as_ref().map(|(host, port)| Endpoint { host: host.clone(), port: *port }),
        client_tags: request.client_tags.clone(),
        task_offsets: offsets(&request.task_offsets),
        task_end_offsets: offsets(&request.task_end_offsets),
        shutdown_application: request.shutdown_application,
    }
}

fn task_ids(tasks: &[script::Task]) -> Vec<TaskIds> {
    let list = |(id, partitions): (String, Vec<i32>)| TaskIds {
        subtopology: id.as_str().into(),
        partitions: partitions.into_iter().map(PartitionIndex).collect(),
    };
    script::Task::grouped(tasks).into_iter().map(list).collect()
}

pub(crate) fn topology(it: &script::Topology) -> Topology {
    let internal = |it: &script::InternalTopic| InternalTopic {
        name: it.name.as_str().into(),
        partitions: it.partitions,
        replication_factor: it.replication_factor.unwrap_or(-1),
        configs: it.configs.as_slice().into(),
    };
    let copartition = |it: &script::CopartitionGroup| CopartitionGroup {
        source_topics: it.source_topics.as_slice().into(),
        source_topic_regex: it.source_topic_regex.as_slice().into(),
        repartition_source_topics: it.repartition_source_topics.as_slice().into(),
    };
    let subtopology = |it: &script::Subtopology| Subtopology {
        id: it.id.as_str().into(),
        source_topics: it.source_topics.iter().map(|topic| topic.as_str().into()).collect(),
        source_topic_regex: it.source_topic_regex.as_slice().into(),
        state_changelog_topics: it.state_changelog_topics.iter().map(internal).collect(),
        repartition_sink_topics: it.repartition_sink_topics.iter().map(|topic| topic.as_str().into()).collect(),
        repartition_source_topics: it.repartition_source_topics.iter().map(internal).collect(),
        copartition_groups: it.copartition_groups.iter().map(copartition).collect(),
    };
    Topology { epoch: TopologyEpoch(it.epoch), subtopologies: it.subtopologies.iter().map(subtopology).collect() }
}

fn shown_topology(it: &Topology) -> script::Topology {
    let internal = |it: &InternalTopic| {
        show::internal_topic(it.name.as_str(), it.partitions, it.replication_factor, it.configs.to_vec())
    };
    let copartition = |it: &CopartitionGroup| script::CopartitionGroup {
        source_topics: it.source_topics.to_vec(),
        source_topic_regex: it.source_topic_regex.to_vec(),
        repartition_source_topics: it.repartition_source_topics.to_vec(),
    };
    let subtopology = |it: &Subtopology| script::Subtopology {
        id: it.id.to_string(),
        source_topics: it.source_topics.iter().map(ToString::to_string).collect(),
        source_topic_regex: it.source_topic_regex.to_vec(),
        state_changelog_topics: it.state_changelog_topics.iter().map(internal).collect(),
        repartition_sink_topics: it.repartition_sink_topics.iter().map(ToString::to_string).collect(),
        repartition_source_topics: it.repartition_source_topics.iter().map(internal).collect(),
        copartition_groups: it.copartition_groups.iter().map(copartition).collect(),
    };
    script::Topology { epoch: it.epoch.0, subtopologies: it.subtopologies.iter().map(subtopology).collect() }
}

fn tasks(lists: &[TaskIds]) -> Vec<script::Task> {
    let each = lists.iter().flat_map(|list| list.partitions.iter().map(move |partition| (list, partition)));
    each.map(|(list, partition)| script::Task::new(list.subtopology.as_str(), partition.0)).collect()
}

fn active_tasks(lists: &[ActiveTaskIds]) -> Vec<script::Task> {
    let each = lists.iter().flat_map(|list| {
        let tasks = list.partitions.iter().zip(&list.assignment_epochs);
        tasks.map(move |(partition, epoch)| (list, partition, epoch))
    });
    each.map(|(list, partition, epoch)| script::Task {
        subtopology: list.subtopology.to_string(),
        partition: partition.0,
        epoch: Some(epoch.0),
    })
    .collect()
}

fn lists(lists: &TaskLists) -> script::TaskLists {
    let (active, standby, warmup) = (tasks(&lists.active), tasks(&lists.standby), tasks(&lists.warmup));
    script::TaskLists { active, standby, warmup }
}

pub(crate) fn heartbeat_answer(reply: &StreamsHeartbeatReply, version: Option<i16>) -> show::HeartbeatAnswer {
    let partitions = |topics: &[TopicPartitions]| {
        let partitions = |it: &TopicPartitions| it.partitions.iter().map(|partition| partition.0).collect();
        topics.iter().map(|it| (it.topic.to_string(), partitions(it))).collect()
    };
    let endpoints = reply.partitions_by_user_endpoint.as_ref().map(|list| {
        let endpoint = |it: &crate::reply::EndpointPartitions| show::EndpointPartitions {
            endpoint: (it.endpoint.host.clone(), it.endpoint.port),
            active: partitions(&it.active),
            standby: partitions(&it.standby),
        };
        list.iter().map(endpoint).collect()
    });
    show::HeartbeatAnswer {
        member_id: reply.member_id.to_string(),
        member_epoch: reply.member_epoch.0,
        heartbeat_interval_ms: reply.heartbeat_interval_ms,
        task_offset_interval_ms: reply.task_offset_interval_ms,
        // Version 0 has no field for it.
        acceptable_recovery_lag: if version == Some(0) { -1 } else { reply.acceptable_recovery_lag },
        statuses: Some(reply.statuses.iter().map(|it| (it.code as i8, it.detail.clone())).collect()),
        tasks: reply.tasks.as_ref().map(lists),
        topology_description_required: reply.topology_description_required,
        endpoint_information_epoch: reply.endpoint_information_epoch,
        endpoints,
    }
}

/// Kafka's name and the text.
pub(crate) fn heartbeat_error(error: &StreamsHeartbeatError) -> (&'static str, &str) {
    match error {
        StreamsHeartbeatError::InvalidRequest(text) => ("INVALID_REQUEST", text),
        StreamsHeartbeatError::InvalidTopology(text) => ("STREAMS_INVALID_TOPOLOGY", text),
        StreamsHeartbeatError::InvalidTopologyEpoch(text) => ("STREAMS_INVALID_TOPOLOGY_EPOCH", text),
        StreamsHeartbeatError::GroupIdNotFound(text) => ("GROUP_ID_NOT_FOUND", text),
        StreamsHeartbeatError::UnknownMemberId(text) => ("UNKNOWN_MEMBER_ID", text),
        StreamsHeartbeatError::FencedMemberEpoch(text) => ("FENCED_MEMBER_EPOCH", text),
        StreamsHeartbeatError::UnreleasedInstanceId(text) => ("UNRELEASED_INSTANCE_ID", text),
        StreamsHeartbeatError::FencedInstanceId(text) => ("FENCED_INSTANCE_ID", text),
        StreamsHeartbeatError::GroupMaxSizeReached(text) => ("GROUP_MAX_SIZE_REACHED", text),
        StreamsHeartbeatError::LoadInProgress => ("COORDINATOR_LOAD_IN_PROGRESS", ""),
        StreamsHeartbeatError::Internal(text) => ("UNKNOWN_SERVER_ERROR", text),
    }
}

pub(crate) fn commit_error(error: &OffsetCommitError) -> &'static str {
    match error {
        OffsetCommitError::GroupIdNotFound => "GROUP_ID_NOT_FOUND",
        OffsetCommitError::IllegalGeneration => "ILLEGAL_GENERATION",
        OffsetCommitError::UnknownMemberId => "UNKNOWN_MEMBER_ID",
        OffsetCommitError::FencedInstanceId => "FENCED_INSTANCE_ID",
        OffsetCommitError::RebalanceInProgress => "REBALANCE_IN_PROGRESS",
        OffsetCommitError::StaleMemberEpoch => "STALE_MEMBER_EPOCH",
        OffsetCommitError::UnsupportedVersion => "UNSUPPORTED_VERSION",
        OffsetCommitError::NoRoom(_) => "POLICY_VIOLATION",
        OffsetCommitError::Internal(_) => "UNKNOWN_SERVER_ERROR",
    }
}

pub(crate) fn fetch_error(error: &OffsetFetchError) -> &'static str {
    match error {
        OffsetFetchError::UnknownMemberId => "UNKNOWN_MEMBER_ID",
        OffsetFetchError::StaleMemberEpoch => "STALE_MEMBER_EPOCH",
        OffsetFetchError::Internal(_) => "UNKNOWN_SERVER_ERROR",
    }
}

pub(crate) fn delete_error(error: &DeleteGroupError) -> &'static str {
    match error {
        DeleteGroupError::NotFound => "GROUP_ID_NOT_FOUND",
        DeleteGroupError::NotEmpty => "NON_EMPTY_GROUP",
    }
}

/// What a member told of its topology's nodes is the name of a store here.
pub(crate) fn description(described: &StreamsDescription, with_nodes: bool) -> show::Description {
    let store = described.topology_description.as_ref().map(|store| String::from_utf8_lossy(store));
    let nodes = store.map_or_else(|| "not stored".into(), |store| show::nodes(&store));
    show::Description {
        state: described.state.name().into(),
        group_epoch: described.group_epoch.0,
        assignment_epoch: described.assignment_epoch.0,
        operations: None,
        assignor: Some(described.assignor_name.clone()),
        topology: described.topology.as_ref().map(described_topology),
        members: described.members.iter().map(described_member).collect(),
        nodes: with_nodes.then_some(nodes),
    }
}

/// The answer has no fields for patterns and copartition groups.
fn described_topology(it: &Topology) -> script::Topology {
    let mut shown = shown_topology(it);
    for subtopology in &mut shown.subtopologies {
        subtopology.source_topic_regex.clear();
        subtopology.copartition_groups.clear();
    }
    shown
}

fn described_member(it: &MemberDescription) -> show::DescribedMember {
    let offsets = |offsets: &[TaskOffset]| {
        let offset = |it: &TaskOffset| script::TaskOffset {
            task: script::Task::new(it.subtopology.as_str(), it.partition.0),
            offset: it.offset.0,
        };
        let mut offsets: Vec<script::TaskOffset> = offsets.iter().map(offset).collect();
        offsets.sort();
        offsets
    };
    show::DescribedMember {
        member_id: it.member_id.to_string(),
        member_epoch: it.member_epoch.0,
        metadata: show::MemberMetadata {
            instance_id: it.instance_id.as_ref().map(ToString::to_string),
            rack_id: it.rack_id.clone(),
            client_id: it.client_id.clone(),
            client_host: it.client_host.clone(),
            rebalance_timeout_ms: None,
            topology_epoch: it.topology_epoch.0,
            process_id: it.process_id.to_string(),
            user_endpoint: it.user_endpoint.as_ref().map(|it| (it.host.clone(), it.port)),
            client_tags: it.client_tags.clone(),
        },
        assignment: lists(&it.assignment),
        target: lists(&it.target_assignment),
        task_offsets: offsets(&it.task_offsets),
        task_end_offsets: offsets(&it.task_end_offsets),
    }
}

pub(crate) fn record(record: &Record) -> show::Record {
    match record {
        Record::OffsetCommit(_, topic, partition, value) => show::Record::Offset {
            topic: topic.to_string(),
            partition: partition.0,
            value: value.as_ref().map(|value| show::CommittedOffset {
                offset: value.offset.0,
                leader_epoch: value.leader_epoch.0,
                metadata: value.metadata.clone(),
            }),
        },
        Record::ClassicGroupMetadata(_, value) => show::Record::ClassicGroup(value.as_ref().map(classic::group)),
        Record::StreamsGroupMetadata(_, value) => {
            show::Record::Group(value.as_ref().map(|value| show::GroupMetadata {
                epoch: value.epoch.0,
                metadata_hash: value.metadata_hash,
                validated_topology_epoch: value.validated_topology_epoch.0,
                last_assignment_configs: value.last_assignment_configs.clone().unwrap_or_default().to_vec(),
                stored_description_topology_epoch: value.stored_description_topology_epoch.0,
                failed_description_topology_epoch: value.failed_description_topology_epoch.0,
            }))
        }
        Record::StreamsMemberMetadata(_, member, value) => {
            show::Record::Member(member.to_string(), value.as_ref().map(member_metadata))
        }
        Record::StreamsTargetMetadata(_, value) => {
            let value = value.as_ref().map(|it| (it.assignment_epoch.0, it.assignment_timestamp.0 != 0));
            show::Record::TargetMetadata(value)
        }
        Record::StreamsTargetMember(_, member, value) => {
            show::Record::Target(member.to_string(), value.as_ref().map(lists))
        }
        Record::StreamsCurrentAssignment(_, member, value) => {
            show::Record::Current(member.to_string(), value.as_ref().map(current_assignment))
        }
        Record::StreamsTopology(_, value) => show::Record::Topology(value.as_ref().map(shown_topology)),
        Record::StreamsTopologyDescription(_, value) => {
            show::Record::TopologyDescription(value.as_ref().map(|value| value.topology_epoch.0))
        }
    }
}

fn member_metadata(value: &StreamsMemberMetadataValue) -> show::MemberMetadata {
    show::MemberMetadata {
        instance_id: value.instance_id.as_ref().map(ToString::to_string),
        rack_id: value.rack_id.as_deref().map(String::from),
        client_id: value.client_id.to_string(),
        client_host: value.client_host.to_string(),
        rebalance_timeout_ms: Some(value.rebalance_timeout_ms),
        topology_epoch: value.topology_epoch.0,
        process_id: value.process_id.to_string(),
        user_endpoint: value.user_endpoint.as_ref().map(|it| (it.host.clone(), it.port)),
        client_tags: value.client_tags.to_vec(),
    }
}

fn current_assignment(value: &StreamsCurrentAssignmentValue) -> show::CurrentAssignment {
    let state = match value.state {
        MemberState::Stable => 1,
        MemberState::UnrevokedTasks => 2,
        MemberState::UnreleasedTasks => 3,
        MemberState::Unknown => 127,
    };
    show::CurrentAssignment {
        member_epoch: value.member_epoch.0,
        previous_member_epoch: value.previous_member_epoch.0,
        state,
        assigned: script::TaskLists {
            active: active_tasks(&value.active),
            standby: tasks(&value.standby),
            warmup: tasks(&value.warmup),
        },
        pending_revocation: script::TaskLists {
            active: active_tasks(&value.active_pending_revocation),
            standby: tasks(&value.standby_pending_revocation),
            warmup: tasks(&value.warmup_pending_revocation),
        },
    }
}
