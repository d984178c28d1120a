//! Which member a heartbeat speaks for, whether it may, and what it says about itself.

use alloc::{boxed::Box, format, string::String, vec::Vec};

use riparian_types::{
    InstanceId, MemberEpoch, MemberId,
    planted::{self, Bug},
};

use crate::{
    command::StreamsHeartbeat,
    record::{Record, StreamsMemberMetadataValue},
    reply::StreamsHeartbeatError,
    streams::group::{Member, Progress, StreamsGroup},
    tasks::{SubtopologyIds, Tasks},
};

/// What a member says it owns.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) tasks: Tasks,
    /// It also names what can't be a task of the group.
    pub(super) has_unknown: bool,
}

impl Owned {
    /// Only if the heartbeat carries all three lists.
    pub(super) fn reported(heartbeat: &StreamsHeartbeat, ids: &SubtopologyIds) -> Option<Self> {
        let lists = [&heartbeat.active_tasks, &heartbeat.standby_tasks, &heartbeat.warmup_tasks];
        let [Some(active), Some(standby), Some(warmup)] = lists else { return None };
        let has_unknown = [active, standby, warmup].into_iter().any(|lists| ids.to_set(lists).is_none());
        let tasks = Tasks {
            active: ids.to_known_set(active),
            standby: ids.to_known_set(standby),
            warmup: ids.to_known_set(warmup),
        };
        Some(Self { tasks, has_unknown })
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_unknown && self.tasks == Tasks::EMPTY
    }
}

/// A member that was let in.
pub(super) struct Admission<'a> {
    /// What is stored of it, or of the static member whose place it takes; none of a new one.
    pub(super) stored: Option<&'a Member>,
    /// A static member that left, possibly of the same id, whose place it takes.
    pub(super) replaced: Option<MemberId>,
    /// It reported the epoch before its own: the answer that carried its own was lost.
    pub(super) by_previous_epoch: bool,
}

/// Lets a member in that joins or reports. `is_closed` tells whether the connection of a member has been closed.
pub(super) fn admit<'a>(
    group: &'a StreamsGroup,
    heartbeat: &StreamsHeartbeat,
    owned: Option<&Owned>,
    is_closed: impl FnOnce(&MemberId) -> bool,
) -> Result<Admission<'a>, StreamsHeartbeatError> {
    let holder = match &heartbeat.instance_id {
        Some(instance) => match group.static_members.get(instance) {
            Some(holder) => Some((instance, holder)),
            None if heartbeat.member_epoch == MemberEpoch::JOIN => None,
            None => return Err(unknown_instance(heartbeat, instance)),
        },
        None => None,
    };
    match (holder, heartbeat.member_epoch) {
        (Some((instance, holder)), MemberEpoch::JOIN) => take_over(group, heartbeat, instance, holder, is_closed),
        (None, MemberEpoch::JOIN) => Ok(join(group, heartbeat)),
        (Some((instance, holder)), _) if *holder != heartbeat.member_id => {
            Err(fenced_instance(heartbeat, instance, holder))
        }
        (_, _) => report(group, heartbeat, owned),
    }
}

/// What the member would be known as: `None` if it tells nothing new.
pub(super) fn told(
    stored: &StreamsMemberMetadataValue,
    heartbeat: &StreamsHeartbeat,
) -> Option<StreamsMemberMetadataValue> {
    let is_join = heartbeat.member_epoch == MemberEpoch::JOIN;
    let tags = heartbeat.client_tags.as_ref().map(|tags| sorted_tags(tags));
    let is_same = |told: Option<&str>, stored: Option<&str>| told.is_none() || told == stored;
    let unchanged = stored.client_id == heartbeat.caller.client_id
        && *stored.client_host == *heartbeat.caller.client_host
        && is_same(heartbeat.instance_id.as_deref(), stored.instance_id.as_deref())
        && is_same(heartbeat.rack_id.as_deref(), stored.rack_id.as_deref())
        && is_same(heartbeat.process_id.as_deref(), Some(&stored.process_id))
        && (heartbeat.rebalance_timeout_ms == -1 || heartbeat.rebalance_timeout_ms == stored.rebalance_timeout_ms)
        && heartbeat.topology.as_ref().is_none_or(|topology| topology.epoch == stored.topology_epoch)
        && tags.as_deref().is_none_or(|tags| *tags == *stored.client_tags)
        && match &heartbeat.user_endpoint {
            None => !is_join || stored.user_endpoint.is_none(),
            endpoint => endpoint.as_ref() == stored.user_endpoint.as_deref(),
        };
    if unchanged {
        return None;
    }
    let mut told = stored.clone();
    told.client_id = heartbeat.caller.client_id.clone();
    told.client_host = heartbeat.caller.client_host.as_str().into();
    if heartbeat.instance_id.is_some() {
        told.instance_id.clone_from(&heartbeat.instance_id);
    }
    if let Some(rack_id) = &heartbeat.rack_id {
        told.rack_id = Some(rack_id.as_str().into());
    }
    if let Some(process_id) = &heartbeat.process_id {
        told.process_id = process_id.clone();
    }
    if heartbeat.rebalance_timeout_ms != -1 {
        told.rebalance_timeout_ms = heartbeat.rebalance_timeout_ms;
    }
    if let Some(topology) = &heartbeat.topology {
        told.topology_epoch = topology.epoch;
    }
    if let Some(tags) = tags {
        told.client_tags = tags.into();
    }
    if is_join || heartbeat.user_endpoint.is_some() {
        told.user_endpoint = heartbeat.user_endpoint.clone().map(Box::new);
    }
    Some(told)
}

/// Whether a target must be computed anew because a member is now known differently.
///
/// A static member that only comes back from another address, for example, gets its tasks back as they were.
pub(super) fn concerns_target(stored: &StreamsMemberMetadataValue, told: &StreamsMemberMetadataValue) -> bool {
    told.instance_id.is_none()
        || told.topology_epoch != stored.topology_epoch
        || told.rack_id != stored.rack_id
        || told.client_tags != stored.client_tags
        || told.process_id != stored.process_id
}

/// Puts a static member's state under another (or the same) id, at epoch 0.
pub(super) fn replacement_records(
    group: &StreamsGroup,
    heartbeat: &StreamsHeartbeat,
    replaced: &MemberId,
    stored: &StreamsMemberMetadataValue,
    progress: &Progress,
    records: &mut Vec<Record>,
) {
    let (group_id, member_id) = (&heartbeat.group_id, &heartbeat.member_id);
    group.member_tombstones(group_id, replaced, records);
    records.push(Record::StreamsMemberMetadata(group_id.clone(), member_id.clone(), Some(stored.clone())));
    let target = group.targets.get(replaced).map(|target| group.ids.to_lists(target)).unwrap_or_default();
    records.push(Record::StreamsTargetMember(group_id.clone(), member_id.clone(), Some(target)));
    let value = progress.to_value(&group.ids);
    records.push(Record::StreamsCurrentAssignment(group_id.clone(), member_id.clone(), Some(value)));
}

fn sorted_tags(tags: &[(String, String)]) -> Vec<(String, String)> {
    let mut tags = tags.to_vec();
    tags.sort_by(|a, b| a.0.cmp(&b.0));
    tags
}

fn join<'a>(group: &'a StreamsGroup, heartbeat: &StreamsHeartbeat) -> Admission<'a> {
    Admission { stored: group.members.get(&heartbeat.member_id), replaced: None, by_previous_epoch: false }
}

fn take_over<'a>(
    group: &'a StreamsGroup,
    heartbeat: &StreamsHeartbeat,
    instance: &InstanceId,
    holder: &MemberId,
    is_closed: impl FnOnce(&MemberId) -> bool,
) -> Result<Admission<'a>, StreamsHeartbeatError> {
    let Some(stored) = group.members.get(holder) else {
        return Ok(join(group, heartbeat));
    };
    let is_of_process = heartbeat.process_id.as_ref() == Some(&stored.metadata.process_id);
    let is_free = stored.progress.epoch == MemberEpoch::LEAVE_STATIC || is_of_process && is_closed(holder);
    if !is_free {
        let is_itself = is_of_process && *holder == heartbeat.member_id;
        if is_itself && !planted::is_in(Bug::LostStaticJoinRefused) {
            // The answer to its join was lost, and it asks again: nobody else knows its id.
            return Ok(join(group, heartbeat));
        }
        return Err(StreamsHeartbeatError::UnreleasedInstanceId(format!(
            "Static member {} can't join with instance id {instance}, which member {holder} still holds; it is free \
             once that member leaves or its session expires.",
            heartbeat.member_id
        )));
    }
    Ok(Admission { stored: Some(stored), replaced: Some(holder.clone()), by_previous_epoch: false })
}

fn report<'a>(
    group: &'a StreamsGroup,
    heartbeat: &StreamsHeartbeat,
    owned: Option<&Owned>,
) -> Result<Admission<'a>, StreamsHeartbeatError> {
    let Some(stored) = group.members.get(&heartbeat.member_id) else {
        return Err(unknown_member(heartbeat));
    };
    let received = heartbeat.member_epoch;
    let by_previous_epoch = check_epoch(stored, received, owned)?;
    Ok(Admission { stored: Some(stored), replaced: None, by_previous_epoch })
}

/// Accepts the member's epoch, or the one before if what it owns shows that it only missed an answer.
fn check_epoch(stored: &Member, received: MemberEpoch, owned: Option<&Owned>) -> Result<bool, StreamsHeartbeatError> {
    let progress = &stored.progress;
    if received == progress.epoch {
        return Ok(false);
    }
    let epoch = progress.epoch;
    if epoch == MemberEpoch::LEAVE_STATIC {
        return Err(StreamsHeartbeatError::FencedMemberEpoch(format!(
            "The member reports epoch {received}, but has left for a while (epoch -2), and its tasks wait for its instance id. \
             It must rejoin."
        )));
    }
    if received > epoch {
        return Err(StreamsHeartbeatError::FencedMemberEpoch(format!(
            "The member reports epoch {received}, but has only reached {epoch}. It must give up its tasks and rejoin."
        )));
    }
    let owns_only_assigned =
        owned.is_some_and(|owned| !owned.has_unknown && progress.assigned.contains_all(&owned.tasks));
    if received == progress.previous_epoch && owns_only_assigned {
        return Ok(true);
    }
    Err(StreamsHeartbeatError::FencedMemberEpoch(format!(
        "The member reports epoch {received}, but is at {epoch}; the epoch before, {}, is accepted only with owned tasks \
         that are still assigned to it. It must give up its tasks and rejoin.",
        progress.previous_epoch
    )))
}

pub(super) fn unknown_member(heartbeat: &StreamsHeartbeat) -> StreamsHeartbeatError {
    let (member, group) = (&heartbeat.member_id, &heartbeat.group_id);
    StreamsHeartbeatError::UnknownMemberId(format!("Member {member} is not a member of group {group}; it must rejoin."))
}

pub(super) fn unknown_instance(heartbeat: &StreamsHeartbeat, instance: &InstanceId) -> StreamsHeartbeatError {
    StreamsHeartbeatError::UnknownMemberId(format!(
        "Instance id {instance} is not known in group {}; its member must rejoin.",
        heartbeat.group_id
    ))
}

pub(super) fn fenced_instance(
    heartbeat: &StreamsHeartbeat,
    instance: &InstanceId,
    holder: &MemberId,
) -> StreamsHeartbeatError {
    let member = &heartbeat.member_id;
    StreamsHeartbeatError::FencedInstanceId(format!(
        "Static member {member} with instance id {instance} was fenced: the instance id now belongs to member {holder}."
    ))
}
