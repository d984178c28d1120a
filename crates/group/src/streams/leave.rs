//! How a member goes: by its own word, by a timer, or for a while only (static membership).

use alloc::{format, vec::Vec};

use riparian_types::{AssignmentEpoch, GroupId, MemberEpoch, MemberId, Now, machine::Decision};

use crate::{
    command::StreamsHeartbeat,
    group::GroupKind,
    machine::GroupMachine,
    record::Record,
    reply::{StreamsHeartbeatError, StreamsHeartbeatReply},
    soft::GroupSoft,
    streams::{
        group::{Member, Progress, StreamsGroup},
        heartbeat::Outcome,
        membership::{fenced_instance, unknown_instance, unknown_member},
    },
    tasks::Holdings,
    telemetry::Gone,
};

/// An instance that is closed leaves thread by thread. A target for the first of them would keep the right one from being
/// computed for an assignment interval, so that the others are waited for, this many milliseconds at most.
const PROCESS_LEAVES_MS: i64 = 200;

/// A member leaves, for good (-1) or to come back (-2). Its epoch is not checked.
pub(super) fn leave(
    machine: &GroupMachine,
    soft: &mut GroupSoft,
    now: Now,
    heartbeat: &StreamsHeartbeat,
) -> Result<Outcome, StreamsHeartbeatError> {
    let (group_id, member_id) = (&heartbeat.group_id, &heartbeat.member_id);
    let group = match machine.groups.get(group_id).map(|group| &group.kind) {
        Some(GroupKind::Streams(group)) => group,
        None | Some(GroupKind::OffsetsOnly | GroupKind::Classic(_)) => return Err(unknown_group(group_id)),
    };
    if heartbeat.shutdown_application {
        let soft_group = soft.groups.entry(group_id.clone()).or_default();
        soft_group.request_shutdown(member_id);
    }
    if let Some(instance) = &heartbeat.instance_id {
        match group.static_members.get(instance) {
            None => return Err(unknown_instance(heartbeat, instance)),
            Some(holder) if holder != member_id => return Err(fenced_instance(heartbeat, instance, holder)),
            Some(_) => {}
        }
    }
    let Some(member) = group.members.get(member_id) else { return Err(unknown_member(heartbeat)) };
    let mut records = Vec::new();
    if heartbeat.member_epoch == MemberEpoch::LEAVE_STATIC {
        let value = away(&member.progress).to_value(&group.ids);
        records.push(Record::StreamsCurrentAssignment(group_id.clone(), member_id.clone(), Some(value)));
        if let Some(soft_member) =
            soft.groups.get_mut(group_id).and_then(|soft_group| soft_group.members.get_mut(member_id))
        {
            let timer = || crate::timers::Timer::Rebalance(group_id.clone(), member_id.clone());
            soft_member.disarm_rebalance(&mut soft.timers, timer);
        }
    } else {
        machine.fence(group, soft, now, group_id, member_id, &mut records);
        machine.config.telemetry.gone_from_streams(Gone::Left).increment();
    }
    let reply = StreamsHeartbeatReply {
        member_id: member_id.clone(),
        member_epoch: heartbeat.member_epoch,
        heartbeat_interval_ms: 0,
        acceptable_recovery_lag: -1,
        task_offset_interval_ms: 0,
        statuses: Vec::new(),
        tasks: None,
        endpoint_information_epoch: 0,
        partitions_by_user_endpoint: None,
        topology_description_required: false,
    };
    Ok(Outcome { records, effect: None, reply })
}

/// A static member that left keeps its tasks; nobody else gets them until its session is over.
pub(super) fn away(progress: &Progress) -> Progress {
    Progress {
        epoch: MemberEpoch::LEAVE_STATIC,
        previous_epoch: progress.previous_epoch,
        state: progress.state,
        assigned: Holdings {
            active: progress.assigned.active.at_epoch(AssignmentEpoch(0)),
            ..progress.assigned.clone()
        },
        pending_revocation: None,
    }
}

pub(super) fn unknown_group(group_id: &GroupId) -> StreamsHeartbeatError {
    StreamsHeartbeatError::GroupIdNotFound(format!("Streams group {group_id} not found."))
}

impl GroupMachine {
    /// The member is removed, in the records and in memory.
    fn fence(
        &self,
        group: &StreamsGroup,
        soft: &mut GroupSoft,
        now: Now,
        group_id: &GroupId,
        member_id: &MemberId,
        records: &mut Vec<Record>,
    ) {
        group.fence(group_id, member_id, records);
        let is_last = group.members.len() == 1;
        if let Some(soft_group) = soft.groups.get_mut(group_id) {
            soft_group.on_member_gone(&mut soft.timers, group_id, member_id, is_last);
        }
        if !is_last {
            let process = group.members.get(member_id).map(|member| &member.metadata.process_id);
            let is_followed =
                |(id, member): (&MemberId, &Member)| id != member_id && Some(&member.metadata.process_id) == process;
            let wait_ms = if group.members.iter().any(is_followed) { PROCESS_LEAVES_MS } else { 0 };
            self.refresh_soon(soft, now.mono.plus_ms(wait_ms), group_id);
        }
    }

    /// The session timer's slot came up: the member is fenced unless it was heard of in the meantime.
    pub(crate) fn on_session_timer(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        group_id: GroupId,
        member_id: MemberId,
    ) -> Decision<Self> {
        let member = soft.groups.get_mut(&group_id).and_then(|soft_group| soft_group.members.get_mut(&member_id));
        let Some(member) = member else { return Decision::nothing() };
        let timer = crate::timers::Timer::Session(group_id.clone(), member_id.clone());
        if !member.session.is_over(&mut soft.timers, now.mono, timer) {
            return Decision::nothing();
        }
        self.fence_member(soft, now, &group_id, &member_id, Gone::Session, |_| true)
    }

    /// The member was to give back its tasks by now: it is fenced unless it moved on.
    pub(crate) fn on_rebalance_timer(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        group_id: &GroupId,
        member_id: &MemberId,
    ) -> Decision<Self> {
        let member = soft.groups.get_mut(group_id).and_then(|soft_group| soft_group.members.get_mut(member_id));
        let Some(epoch) = member.and_then(|member| member.take_rebalance_epoch()) else { return Decision::nothing() };
        self.fence_member(soft, now, group_id, member_id, Gone::Rebalance, |progress| progress.epoch == epoch)
    }

    fn fence_member(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        group_id: &GroupId,
        member_id: &MemberId,
        why: Gone,
        applies: impl Fn(&Progress) -> bool,
    ) -> Decision<Self> {
        let mut decision = Decision::nothing();
        let group = self.groups.get(group_id).and_then(|group| group.streams());
        if let Some(group) = group
            && group.members.get(member_id).is_some_and(|member| applies(&member.progress))
        {
            self.fence(group, soft, now, group_id, member_id, &mut decision.records);
            self.config.telemetry.gone_from_streams(why).increment();
        }
        decision
    }
}
