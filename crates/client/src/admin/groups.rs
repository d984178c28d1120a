//! Groups.

use std::collections::BTreeMap;

use riparian_protocol::messages::{
    ListGroupsRequest, StreamsGroupDescribeRequest,
    streams_group_describe_response::{self as response, Assignment, DescribedGroup, Member, Subtopology},
};

use crate::{ClientError, Cluster, ServerError};

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// Its id.
    pub group_id: String,
    /// `Streams`, `Consumer`, `Classic`, `Share`; empty from a server that does not tell.
    pub group_type: String,
    /// Kafka's word for what it is doing; empty from a server that does not tell.
    pub state: String,
    /// The node that coordinates it.
    pub coordinator: i32,
}

/// A streams group in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamsGroup {
    /// Its id.
    pub group_id: String,
    /// Kafka's word for what it is doing.
    pub state: String,
    /// Counts the changes of what the group is made of.
    pub group_epoch: i32,
    /// The group epoch that the target was computed for.
    pub assignment_epoch: i32,
    /// Why its tasks cannot run; `None` if they can, and from a server that does not tell.
    pub problem: Option<String>,
    /// The assignor's name; `None` from a server that does not tell.
    pub assignor_name: Option<String>,
    /// The version of the topology; `None` if there is none.
    pub topology_epoch: Option<i32>,
    /// The parts of the topology.
    pub subtopologies: Vec<StreamsSubtopology>,
    /// The members, as the server orders them.
    pub members: Vec<StreamsMember>,
}

/// A subtopology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsSubtopology {
    /// Its id.
    pub id: String,
    /// Topics that it reads, repartition topics included.
    pub source_topics: Vec<String>,
    /// Topics that back its stores.
    pub changelog_topics: Vec<String>,
    /// Repartition topics that it writes.
    pub sink_topics: Vec<String>,
}

/// A member of a streams group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsMember {
    /// Its id.
    pub member_id: String,
    /// For static members.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// The instance that it belongs to.
    pub process_id: String,
    /// How far it has come on its way to the target.
    pub member_epoch: i32,
    /// The version of the topology that it runs.
    pub topology_epoch: i32,
    /// What it runs.
    pub assignment: Tasks,
    /// What it is meant to run.
    pub target: Tasks,
}

/// Tasks of a member: partitions by subtopology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Active tasks.
    pub active: TaskIds,
    /// Standby tasks.
    pub standby: TaskIds,
    /// Warm-up tasks.
    pub warmup: TaskIds,
}

/// Partitions by subtopology.
pub type TaskIds = BTreeMap<String, Vec<i32>>;

/// All groups of all nodes, by id.
pub fn list_groups(cluster: &mut Cluster) -> Result<Vec<GroupListing>, ClientError> {
    let mut groups = Vec::new();
    for coordinator in cluster.node_ids() {
        let answer = cluster.node(coordinator)?.call(&ListGroupsRequest::default())?;
        let response = answer.decode()?;
        ServerError::check(response.error_code, None)?;
        groups.extend(response.groups.iter().map(|group| GroupListing {
            group_id: group.group_id.clone().into_owned(),
            group_type: group.group_type.clone().into_owned(),
            state: group.group_state.clone().into_owned(),
            coordinator,
        }));
    }
    groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
    Ok(groups)
}

/// A streams group; the inner error is the server's about it.
pub fn describe_streams_group(
    cluster: &mut Cluster,
    group_id: &str,
) -> Result<Result<StreamsGroup, ServerError>, ClientError> {
    let coordinator = cluster.coordinator(group_id)?;
    let request =
        StreamsGroupDescribeRequest { group_ids: vec![group_id.into()], ..StreamsGroupDescribeRequest::default() };
    let answer = cluster.node(coordinator)?.call(&request)?;
    let described = answer.decode()?;
    let Some(group) = described.groups.first() else {
        return Ok(Err(ServerError { code: -1, message: Some("the answer is empty".to_owned()) }));
    };
    Ok(ServerError::check(group.error_code, group.error_message.as_deref()).map(|()| streams_group(group)))
}

fn streams_group(group: &DescribedGroup<'_>) -> StreamsGroup {
    let topology = group.topology.as_ref();
    StreamsGroup {
        group_id: group.group_id.clone().into_owned(),
        state: group.group_state.clone().into_owned(),
        group_epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        problem: group.error_message.clone().map(Into::into),
        assignor_name: group.assignor_name.clone().map(Into::into),
        topology_epoch: topology.map(|topology| topology.epoch),
        subtopologies: topology
            .and_then(|topology| topology.subtopologies.as_ref())
            .map(|subtopologies| subtopologies.iter().map(streams_subtopology).collect())
            .unwrap_or_default(),
        members: group.members.iter().map(streams_member).collect(),
    }
}

fn streams_subtopology(subtopology: &Subtopology<'_>) -> StreamsSubtopology {
    let mut source_topics: Vec<String> = subtopology.source_topics.iter().map(|name| name.clone().into()).collect();
    source_topics.extend(subtopology.repartition_source_topics.iter().map(|topic| topic.name.clone().into_owned()));
    StreamsSubtopology {
        id: subtopology.subtopology_id.clone().into_owned(),
        source_topics,
        changelog_topics: subtopology.state_changelog_topics.iter().map(|topic| topic.name.clone().into()).collect(),
        sink_topics: subtopology.repartition_sink_topics.iter().map(|name| name.clone().into()).collect(),
    }
}

fn streams_member(member: &Member<'_>) -> StreamsMember {
    StreamsMember {
        member_id: member.member_id.clone().into_owned(),
        instance_id: member.instance_id.clone().map(Into::into),
        client_id: member.client_id.clone().into_owned(),
        client_host: member.client_host.clone().into_owned(),
        process_id: member.process_id.clone().into_owned(),
        member_epoch: member.member_epoch,
        topology_epoch: member.topology_epoch,
        assignment: tasks(&member.assignment),
        target: tasks(&member.target_assignment),
    }
}

fn tasks(assignment: &Assignment<'_>) -> Tasks {
    let by_subtopology = |tasks: &[response::TaskIds<'_>]| {
        tasks
            .iter()
            .map(|tasks| {
                let mut partitions = tasks.partitions.clone();
                partitions.sort_unstable();
                (tasks.subtopology_id.clone().into_owned(), partitions)
            })
            .collect()
    };
    Tasks {
        active: by_subtopology(&assignment.active_tasks),
        standby: by_subtopology(&assignment.standby_tasks),
        warmup: by_subtopology(&assignment.warmup_tasks),
    }
}
