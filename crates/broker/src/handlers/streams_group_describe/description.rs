//! From what a member told of its topology to what is told of it.

use std::borrow::Cow;

use riparian_protocol::messages::{
    StreamsGroupTopologyDescriptionUpdateRequest, streams_group_describe_response as res,
    streams_group_topology_description_update_request as req,
};
use riparian_wire::{DecodeError, Reader};

use crate::handlers::streams_group_topology_description_update::KEPT_VERSION;

pub(super) fn of_kept(kept: &[u8]) -> Result<res::TopologyDescription<'static>, DecodeError> {
    let mut reader = Reader::new(kept);
    let told = StreamsGroupTopologyDescriptionUpdateRequest::decode(&mut reader, KEPT_VERSION)?;
    reader.finish()?;
    let subtopologies =
        told.topology_description.subtopologies.into_iter().map(|part| res::TopologyDescriptionSubtopology {
            subtopology_id: owned(part.subtopology_id),
            nodes: part.nodes.into_iter().map(node).collect(),
            ..Default::default()
        });
    let stores = told.topology_description.global_stores.into_iter().map(|store| res::TopologyDescriptionGlobalStore {
        source: node(store.source),
        processor: node(store.processor),
        ..Default::default()
    });
    Ok(res::TopologyDescription {
        subtopologies: subtopologies.collect(),
        global_stores: stores.collect(),
        ..Default::default()
    })
}

fn node(node: req::TopologyDescriptionNode<'_>) -> res::TopologyDescriptionNode<'static> {
    let all = |names: Vec<Cow<'_, str>>| names.into_iter().map(owned).collect();
    res::TopologyDescriptionNode {
        name: owned(node.name),
        node_type: node.node_type,
        source_topics: all(node.source_topics),
        sink_topic: node.sink_topic.map(owned),
        stores: all(node.stores),
        successors: all(node.successors),
        ..Default::default()
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}
