//! Between the messages of the protocol and what scripts say.

use std::borrow::Cow;

use riparian_protocol::messages::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, StreamsGroupTopologyDescriptionUpdateRequest,
    streams_group_describe_response::{self as describe, DescribedGroup},
    streams_group_heartbeat_request as request, streams_group_heartbeat_response as response,
    streams_group_topology_description_update_request as update,
};
use riparian_testkit::{
    Heartbeat, InternalTopic, NodesWords, Subtopology, Task, TaskLists, TaskOffset, Topology,
    show::{DescribedMember, Description, EndpointPartitions, HeartbeatAnswer, MemberMetadata, internal_topic},
};

pub(crate) fn heartbeat_request(heartbeat: &Heartbeat) -> StreamsGroupHeartbeatRequest<'_> {
    let string = |text: &Option<String>| text.clone().map(Cow::Owned);
    StreamsGroupHeartbeatRequest {
        group_id: heartbeat.group_id.as_str().into(),
        member_id: heartbeat.member_id.as_str().into(),
        member_epoch: heartbeat.member_epoch,
        endpoint_information_epoch: heartbeat.endpoint_information_epoch,
        instance_id: string(&heartbeat.instance_id),
        rack_id: string(&heartbeat.rack_id),
        rebalance_timeout_ms: heartbeat.rebalance_timeout_ms,
        topology: heartbeat.topology.as_ref().map(topology),
        active_tasks: heartbeat.active_tasks.as_deref().map(task_ids),
        standby_tasks: heartbeat.standby_tasks.as_deref().map(task_ids),
        warmup_tasks: heartbeat.warmup_tasks.as_deref().map(task_ids),
        process_id: string(&heartbeat.process_id),
        user_endpoint: heartbeat.user_endpoint.as_ref().map(|(host, port)| request::Endpoint {
            host: host.as_str().into(),
            port: *port,
            ..request::Endpoint::default()
        }),
        client_tags: heartbeat.client_tags.as_deref().map(key_values),
        task_offsets: heartbeat.task_offsets.as_deref().map(task_offsets),
        task_end_offsets: heartbeat.task_end_offsets.as_deref().map(task_offsets),
        shutdown_application: heartbeat.shutdown_application,
        ..StreamsGroupHeartbeatRequest::default()
    }
}

fn topology(topology: &Topology) -> request::Topology<'_> {
    let subtopologies = topology.subtopologies.iter().map(subtopology).collect();
    request::Topology { epoch: topology.epoch, subtopologies, ..request::Topology::default() }
}

fn subtopology(it: &Subtopology) -> request::Subtopology<'_> {
    fn strings(list: &[String]) -> Vec<Cow<'_, str>> {
        list.iter().map(|text| text.as_str().into()).collect()
    }
    let copartition_groups = it.copartition_groups.iter().map(|group| request::CopartitionGroup {
        source_topics: group.source_topics.clone(),
        source_topic_regex: group.source_topic_regex.clone(),
        repartition_source_topics: group.repartition_source_topics.clone(),
        ..request::CopartitionGroup::default()
    });
    request::Subtopology {
        subtopology_id: it.id.as_str().into(),
        source_topics: strings(&it.source_topics),
        source_topic_regex: strings(&it.source_topic_regex),
        state_changelog_topics: it.state_changelog_topics.iter().map(topic_info).collect(),
        repartition_sink_topics: strings(&it.repartition_sink_topics),
        repartition_source_topics: it.repartition_source_topics.iter().map(topic_info).collect(),
        copartition_groups: copartition_groups.collect(),
        ..request::Subtopology::default()
    }
}

fn topic_info(topic: &InternalTopic) -> request::TopicInfo<'_> {
    request::TopicInfo {
        name: topic.name.as_str().into(),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor.unwrap_or(-1),
        topic_configs: key_values(&topic.configs),
        ..request::TopicInfo::default()
    }
}

fn key_values(entries: &[(String, String)]) -> Vec<request::KeyValue<'_>> {
    let entry = |(key, value): &(String, String)| request::KeyValue {
        key: key.clone().into(),
        value: value.clone().into(),
        ..request::KeyValue::default()
    };
    entries.iter().map(entry).collect()
}

fn task_ids(tasks: &[Task]) -> Vec<request::TaskIds<'_>> {
    let list = |(id, partitions): (String, Vec<i32>)| request::TaskIds {
        subtopology_id: id.into(),
        partitions,
        ..request::TaskIds::default()
    };
    Task::grouped(tasks).into_iter().map(list).collect()
}

fn task_offsets(offsets: &[TaskOffset]) -> Vec<request::TaskOffset<'_>> {
    let offset = |it: &TaskOffset| request::TaskOffset {
        subtopology_id: it.task.subtopology.clone().into(),
        partition: it.task.partition,
        offset: it.offset,
        ..request::TaskOffset::default()
    };
    offsets.iter().map(offset).collect()
}

pub(crate) fn heartbeat_answer(response: &StreamsGroupHeartbeatResponse<'_>) -> HeartbeatAnswer {
    fn tasks(lists: &[response::TaskIds<'_>]) -> Vec<Task> {
        Task::all(lists.iter().map(|list| (&*list.subtopology_id, &list.partitions[..])))
    }
    fn partitions(topics: &[response::TopicPartition<'_>]) -> Vec<(String, Vec<i32>)> {
        topics.iter().map(|it| (it.topic.to_string(), it.partitions.clone())).collect()
    }
    let endpoint = |it: &response::EndpointToPartitions<'_>| EndpointPartitions {
        endpoint: (it.user_endpoint.host.to_string(), it.user_endpoint.port),
        active: partitions(&it.active_partitions),
        standby: partitions(&it.standby_partitions),
    };
    let tasks = match (&response.active_tasks, &response.standby_tasks, &response.warmup_tasks) {
        (None, None, None) => None,
        // Lists of which only some are null show as a member with an odd task, which no script expects.
        (active, standby, warmup) => {
            let [active, standby, warmup] = [active, standby, warmup]
                .map(|list| list.as_deref().map_or_else(|| vec![Task::new("null", -1)], tasks));
            Some(TaskLists { active, standby, warmup })
        }
    };
    let statuses = response.status.as_ref();
    HeartbeatAnswer {
        member_id: response.member_id.to_string(),
        member_epoch: response.member_epoch,
        heartbeat_interval_ms: response.heartbeat_interval_ms,
        task_offset_interval_ms: response.task_offset_interval_ms,
        acceptable_recovery_lag: response.acceptable_recovery_lag,
        statuses: statuses.map(|list| list.iter().map(|it| (it.status_code, it.status_detail.to_string())).collect()),
        tasks,
        topology_description_required: response.topology_description_required,
        endpoint_information_epoch: response.endpoint_information_epoch,
        endpoints: response.partitions_by_user_endpoint.as_ref().map(|list| list.iter().map(endpoint).collect()),
    }
}

pub(crate) fn description(group: &DescribedGroup<'_>) -> Description {
    let mut members: Vec<DescribedMember> = group.members.iter().map(described_member).collect();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    Description {
        state: group.group_state.to_string(),
        group_epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        // Told only if it was asked for.
        operations: (group.authorized_operations != i32::MIN).then_some(group.authorized_operations),
        assignor: group.assignor_name.as_deref().map(str::to_owned),
        topology: group.topology.as_ref().map(described_topology),
        members,
        nodes: None,
    }
}

/// What the answer tells of the topology's nodes.
pub(crate) fn nodes(group: &DescribedGroup<'_>) -> String {
    let node = |it: &describe::TopologyDescriptionNode<'_>| {
        let topics = it.source_topics.iter().chain(&it.sink_topic).map(|topic| format!("[{topic}]"));
        let stores = it.stores.iter().map(|store| match store.len() {
            ..=100 => format!("({store})"),
            _ => "(a long name)".to_owned(),
        });
        format!("{}{}", it.name, topics.chain(stores).collect::<String>())
    };
    match (group.topology_description_status, &group.topology_description) {
        (1, None) => "not stored".to_owned(),
        (3, Some(description)) => {
            let subtopologies = description.subtopologies.iter().map(|it| {
                let nodes: Vec<_> = it.nodes.iter().map(node).collect();
                format!("{}: {}", it.subtopology_id, nodes.join(" > "))
            });
            let stores = description.global_stores.iter();
            let stores = stores.map(|it| format!("global: {} > {}", node(&it.source), node(&it.processor)));
            subtopologies.chain(stores).collect::<Vec<_>>().join(" / ")
        }
        (status, description) => format!("of status {status}: {description:?}"),
    }
}

/// A description as [`riparian_testkit::show::nodes`] has it.
pub(crate) fn nodes_request(words: &NodesWords) -> StreamsGroupTopologyDescriptionUpdateRequest<'_> {
    use update::{TopologyDescriptionNode as Node, TopologyDescriptionSubtopology as Part};
    let node = |name: &'static str, node_type, successor: Option<&'static str>| Node {
        name: name.into(),
        node_type,
        successors: successor.into_iter().map(Into::into).collect(),
        ..Node::default()
    };
    let works = |successor| Node { stores: vec![words.store.as_str().into()], ..node("works", 2, successor) };
    let part = Part {
        subtopology_id: "0".into(),
        nodes: vec![
            Node { source_topics: vec!["in".into()], ..node("reads", 1, Some("works")) },
            works(Some("writes")),
            Node { sink_topic: Some("out".into()), ..node("writes", 3, None) },
        ],
        ..Part::default()
    };
    let global = update::TopologyDescriptionGlobalStore {
        source: Node { source_topics: vec!["table".into()], ..node("reads", 1, Some("works")) },
        processor: works(None),
        ..Default::default()
    };
    StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: words.group.as_str().into(),
        member_id: words.member.as_str().into(),
        topology_epoch: words.topology_epoch,
        topology_description: update::TopologyDescription {
            subtopologies: vec![part],
            global_stores: vec![global],
            ..Default::default()
        },
        ..Default::default()
    }
}

fn described_topology(topology: &describe::Topology<'_>) -> Topology {
    let internal = |topics: &[describe::TopicInfo<'_>]| -> Vec<InternalTopic> {
        let configs = |topic: &describe::TopicInfo<'_>| {
            topic.topic_configs.iter().map(|it| (it.key.to_string(), it.value.to_string())).collect()
        };
        topics
            .iter()
            .map(|topic| internal_topic(&topic.name, topic.partitions, topic.replication_factor, configs(topic)))
            .collect()
    };
    let subtopologies = topology.subtopologies.iter().flatten().map(|it| Subtopology {
        id: it.subtopology_id.to_string(),
        source_topics: it.source_topics.iter().map(ToString::to_string).collect(),
        repartition_sink_topics: it.repartition_sink_topics.iter().map(ToString::to_string).collect(),
        state_changelog_topics: internal(&it.state_changelog_topics),
        repartition_source_topics: internal(&it.repartition_source_topics),
        ..Subtopology::default()
    });
    Topology { epoch: topology.epoch, subtopologies: subtopologies.collect() }
}

fn described_member(member: &describe::Member<'_>) -> DescribedMember {
    fn tasks(lists: &[describe::TaskIds<'_>]) -> Vec<Task> {
        Task::all(lists.iter().map(|list| (&*list.subtopology_id, &list.partitions[..])))
    }
    let lists = |it: &describe::Assignment<'_>| TaskLists {
        active: tasks(&it.active_tasks),
        standby: tasks(&it.standby_tasks),
        warmup: tasks(&it.warmup_tasks),
    };
    let offsets = |list: &[describe::TaskOffset<'_>]| {
        let offset = |it: &describe::TaskOffset<'_>| TaskOffset {
            task: Task::new(&*it.subtopology_id, it.partition),
            offset: it.offset,
        };
        let mut offsets: Vec<TaskOffset> = list.iter().map(offset).collect();
        offsets.sort();
        offsets
    };
    DescribedMember {
        member_id: member.member_id.to_string(),
        member_epoch: member.member_epoch,
        metadata: MemberMetadata {
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            rack_id: member.rack_id.as_deref().map(str::to_owned),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            rebalance_timeout_ms: None,
            topology_epoch: member.topology_epoch,
            process_id: member.process_id.to_string(),
            user_endpoint: member.user_endpoint.as_ref().map(|it| (it.host.to_string(), it.port)),
            client_tags: member.client_tags.iter().map(|it| (it.key.to_string(), it.value.to_string())).collect(),
        },
        assignment: lists(&member.assignment),
        target: lists(&member.target_assignment),
        task_offsets: offsets(&member.task_offsets),
        task_end_offsets: offsets(&member.task_end_offsets),
    }
}
