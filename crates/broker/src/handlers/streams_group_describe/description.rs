//! From what a member told of its topology to what is told of it.

use std::borrow::Cow;

use riparian_protocol::messages::{
    StreamsGroupTopologyDescriptionUpdateRequest, streams_group_describe_response as res,
    streams_group_topology_description_update_request as req,
};
use riparian_wire::{DecodeError, Reader};

use crate::handlers::streams_group_topology_description_update::KEPT_VERSION;

pub(super) fn of_kept(kept: &[u8]) -> Result<res::TopologyDescription<'static>, DecodeError> {
    // It was read within the budget of a request, which had names in it as well, and is read again in any case.
    let mut reader = Reader::with_budget(kept, usize::MAX);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_told_however_little_its_nodes_say() {
        let nodes = vec![req::TopologyDescriptionNode::default(); 20_000];
        let part = req::TopologyDescriptionSubtopology { nodes, ..Default::default() };
        let mut kept = StreamsGroupTopologyDescriptionUpdateRequest::default();
        kept.topology_description.subtopologies.push(part);
        let mut bytes = Vec::new();
        kept.encode(&mut bytes, KEPT_VERSION).unwrap();
        let told = of_kept(&bytes).unwrap();
        assert_eq!(told.subtopologies[0].nodes.len(), 20_000);
    }
}
