//! What is told about a classic group.

use alloc::{format, string::String, vec::Vec};

use riparian_types::{GroupId, MemberId};

use super::{
    ClassicGroupState,
    group::{LiveGroup, LiveMember},
};
use crate::{
    group::Found,
    machine::GroupMachine,
    reply::{ClassicDescription, ClassicMemberDescription, GroupNotFound},
    soft::GroupSoft,
};

impl GroupMachine {
    /// Everything about one classic group; a group of offsets is an empty one.
    pub(crate) fn describe_classic(
        &self,
        soft: &GroupSoft,
        group_id: &GroupId,
    ) -> Result<ClassicDescription, GroupNotFound> {
        if let Some(damage) = self.damage(group_id) {
            return Err(GroupNotFound(damage));
        }
        match self.find(soft, group_id) {
            Found::Classic(group) => Ok(describe(group)),
            Found::OffsetsOnly => Ok(describe(&LiveGroup::new())),
            Found::Streams(_) => Err(GroupNotFound(format!("Group {group_id} is not a classic group."))),
            Found::Nothing => Err(GroupNotFound(format!("Group {group_id} not found."))),
        }
    }
}

fn describe(group: &LiveGroup) -> ClassicDescription {
    // Before that members may still say something else about themselves.
    let protocol = group.protocol.as_deref().filter(|_| group.state() == ClassicGroupState::Stable);
    let member = |(member_id, member): (&MemberId, &LiveMember)| ClassicMemberDescription {
        member_id: member_id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        metadata: member.metadata(protocol),
        assignment: member.assignment.clone(),
    };
    ClassicDescription {
        state: group.state(),
        protocol_type: String::from(group.protocol_type()),
        protocol: String::from(protocol.unwrap_or_default()),
        members: group.members.iter().map(member).collect::<Vec<_>>(),
    }
}
