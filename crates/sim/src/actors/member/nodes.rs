//! A member that is asked describes its topology (KIP-1331), once, and takes no notice of what becomes of it.

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        StreamsGroupTopologyDescriptionUpdateRequest,
        streams_group_topology_description_update_request::{TopologyDescription, TopologyDescriptionSubtopology},
    },
};

use super::Member;
use crate::{client::decode, core::Core};

const VERSION: i16 = 0;

impl Member {
    pub(super) fn describe_topology(&mut self, core: &mut Core) {
        let subtopology = TopologyDescriptionSubtopology { subtopology_id: "0".into(), ..Default::default() };
        let request = StreamsGroupTopologyDescriptionUpdateRequest {
            group_id: self.group.name.clone().into(),
            member_id: self.member_id.clone().into(),
            topology_epoch: self.app.epoch,
            topology_description: TopologyDescription { subtopologies: vec![subtopology], ..Default::default() },
            ..Default::default()
        };
        self.description = self.client.send(core, &request, VERSION);
        core.tell(self.actor, format_args!("describes its topology"));
    }

    /// Another may have been fenced, or the group deleted, meanwhile; nothing else may be wrong.
    pub(super) fn on_described(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(response) = decode::<StreamsGroupTopologyDescriptionUpdateRequest<'_>>(core, reply, VERSION) else {
            return;
        };
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => core.totals.add("topologies described", 1),
            Some(ErrorCode::UnknownMemberId | ErrorCode::GroupIdNotFound) => {}
            Some(
                ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable,
            ) => {}
            _ => core.fail(format_args!("{} may not describe: {}", self.member_id, response.error_code)),
        }
    }
}
