//! What the members of a streams group tell of their topology's nodes (KIP-1331).

use riparian_protocol::messages::{
    StreamsGroupDescribeRequest,
    streams_group_describe_response::{DescribedGroup, TopologyDescriptionNode},
};

use crate::{ClientError, Cluster, ServerError};

const AVAILABLE: i8 = 3;

/// The nodes of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyNodes {
    /// The subtopologies: their ids and their nodes.
    pub subtopologies: Vec<(String, Vec<Node>)>,
    /// The global stores: what reads their topics, and what fills them.
    pub global_stores: Vec<(Node, Node)>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, which no other node of its subtopology has.
    pub name: String,
    /// The topics that it reads.
    pub source_topics: Vec<String>,
    /// The topic that it writes.
    pub sink_topic: Option<String>,
    /// The stores that it uses.
    pub stores: Vec<String>,
    /// The names of the nodes that get its output.
    pub successors: Vec<String>,
    /// Whether it reads topics, writes one, or does neither, by [`NodeKind`]'s numbers.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeKind {
    /// Number 1: it reads topics.
    Source,
    /// Number 2.
    Processor,
    /// Number 3: it writes a topic.
    Sink,
    /// Any other number.
    #[default]
    Unknown,
}

/// The nodes of a group's topology; the inner error is the server's about it, `None` that it knows none.
pub fn topology_nodes(
    cluster: &mut Cluster,
    group_id: &str,
) -> Result<Result<Option<TopologyNodes>, ServerError>, ClientError> {
    let coordinator = cluster.coordinator(group_id)?;
    let request = StreamsGroupDescribeRequest {
        group_ids: vec![group_id.into()],
        include_topology_description: true,
        ..StreamsGroupDescribeRequest::default()
    };
    let answer = cluster.node(coordinator)?.call(&request)?;
    let described = answer.decode()?;
    let Some(group) = described.groups.first() else {
        return Ok(Err(ServerError { code: -1, message: Some("the answer is empty".to_owned()) }));
    };
    Ok(ServerError::check(group.error_code, group.error_message.as_deref()).map(|()| nodes(group)))
}

fn nodes(group: &DescribedGroup<'_>) -> Option<TopologyNodes> {
    let description = group.topology_description.as_ref().filter(|_| group.topology_description_status == AVAILABLE)?;
    let subtopologies = description.subtopologies.iter();
    Some(TopologyNodes {
        subtopologies: subtopologies
            .map(|it| (it.subtopology_id.clone().into_owned(), it.nodes.iter().map(node).collect()))
            .collect(),
        global_stores: description.global_stores.iter().map(|it| (node(&it.source), node(&it.processor))).collect(),
    })
}

fn node(node: &TopologyDescriptionNode<'_>) -> Node {
    let all = |names: &[std::borrow::Cow<'_, str>]| names.iter().map(|name| name.clone().into_owned()).collect();
    Node {
        name: node.name.clone().into_owned(),
        source_topics: all(&node.source_topics),
        sink_topic: node.sink_topic.clone().map(Into::into),
        stores: all(&node.stores),
        successors: all(&node.successors),
        kind: match node.node_type {
            1 => NodeKind::Source,
            2 => NodeKind::Processor,
            3 => NodeKind::Sink,
            _ => NodeKind::Unknown,
        },
    }
}
