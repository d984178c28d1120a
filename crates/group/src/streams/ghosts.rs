//! Members whose process has died and is back.
//!
//! A process that was killed leaves members behind that hold their tasks until their sessions end, 45 seconds by default,
//! while the same process, restarted on the same state directory and so with the same process id, waits for them. Its
//! connections tell more: the system closes them all at once when the process ends. So when every connection of a
//! process's members has closed, and a member of the same process id joins after that, the old ones are fenced.
//!
//! A live process that loses a connection opens another one and reports within the interval that it was told last.
//! Therefore nobody is fenced sooner than two of these intervals after its connection closed. One that stood still for so
//! long that all its connections were closed, and starts a thread when it goes on, reports with its old members too as
//! soon as they have connected; therefore nobody is fenced sooner than a second after the newcomer joined.
//! A process of which any old member has reported meanwhile, or has not been heard of since this server started, is not
//! touched.

use alloc::vec::Vec;

use riparian_types::{GroupEpoch, GroupId, LookupMap, MemberId, MonoMillis, Now, ProcessId, machine::Decision};

use crate::{
    machine::GroupMachine,
    record::Record,
    soft::{GroupSoft, Link, SoftGroup, SoftMember},
    streams::group::{Member, StreamsGroup},
    telemetry::Gone,
    timers::Timer,
};

/// The shortest time, in milliseconds, between the end of the last connection and a fence, and between the newcomer's
/// join and a fence.
const GRACE_MIN_MS: i64 = 1000;

/// What is to be done about the old members of a process that is back.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The process lives, or that can't be told.
    Leave,
    /// These are gone, unless they report before this instant.
    FenceAt(MonoMillis, Vec<MemberId>),
}

impl GroupMachine {
    /// A connection was closed: the members that reported through it last have none any more.
    pub(crate) fn on_connection_closed(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId, connection: u64) {
        let members = soft
            .groups
            .get_mut(group_id)
            .into_iter()
            .flat_map(|group| group.members.iter_mut().map(|(_, member)| member));
        for member in members.filter(|member| member.link == Link::Open(connection)) {
            member.link = Link::Closed(now.mono);
        }
    }

    /// A member has joined: its process may have left others behind.
    pub(super) fn look_for_ghosts(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId, process: &ProcessId) {
        let is_any_closed = |soft_group: &SoftGroup| {
            soft_group.members.iter().any(|(_, member)| matches!(member.link, Link::Closed(_)))
        };
        // The records of this very join are not applied yet, so the group is looked at by the timer.
        if self.config.fence_restarted_processes && soft.groups.get(group_id).is_some_and(|group| is_any_closed(group))
        {
            soft.timers.arm(now.mono, Timer::Ghosts(group_id.clone(), process.clone()));
        }
    }

    /// The timer came up: the old members of a process that is back are fenced, or looked at again when it is time.
    pub(crate) fn on_ghosts_timer(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        group_id: &GroupId,
        process: &ProcessId,
    ) -> Decision<Self> {
        let mut decision = Decision::nothing();
        let Some(group) = self.groups.get(group_id).and_then(|group| group.streams()) else { return decision };
        let Some(soft_group) = soft.groups.get_mut(group_id) else { return decision };
        let Verdict::FenceAt(at, ghosts) = judge(group, &soft_group.members, process) else { return decision };
        if at > now.mono {
            soft.timers.arm(at, Timer::Ghosts(group_id.clone(), process.clone()));
            return decision;
        }
        for ghost in &ghosts {
            group.member_tombstones(group_id, ghost, &mut decision.records);
            soft_group.on_member_gone(&mut soft.timers, group_id, ghost, false);
            self.config.telemetry.gone_from_streams(Gone::Restarted).increment();
        }
        let epoch = GroupEpoch(group.epoch.0.saturating_add(1));
        decision.records.push(Record::StreamsGroupMetadata(group_id.clone(), Some(group.metadata_at(epoch))));
        self.refresh_soon(soft, now.mono, group_id);
        decision
    }
}

fn judge(group: &StreamsGroup, soft_members: &LookupMap<MemberId, SoftMember>, process: &ProcessId) -> Verdict {
    let mut ghosts = Vec::new();
    let mut last_closed = None;
    let mut last_awaited = None;
    let mut first_joined = None;
    // A static member comes back under its instance id, and keeps its place until then.
    let is_of_process = |(_, member): &(&MemberId, &Member)| {
        member.metadata.process_id == *process && member.metadata.instance_id.is_none()
    };
    for (id, _) in group.members.iter().filter(is_of_process) {
        let Some(member) = soft_members.get(id) else { return Verdict::Leave };
        match member.link {
            Link::Unknown => return Verdict::Leave,
            Link::Closed(at) => {
                let grace_ms = (2 * i64::from(member.interval_ms)).max(GRACE_MIN_MS);
                ghosts.push(id.clone());
                last_closed = last_closed.max(Some(at));
                last_awaited = last_awaited.max(Some(at.plus_ms(grace_ms)));
            }
            Link::Open(_) => {
                first_joined = Some(first_joined.map_or(member.joined, |first: MonoMillis| first.min(member.joined)));
            }
        }
    }
    match (last_closed, last_awaited, first_joined) {
        // Whoever has a connection joined after all others had lost theirs.
        (Some(closed), Some(awaited), Some(joined)) if joined >= closed => {
            Verdict::FenceAt(awaited.max(joined.plus_ms(GRACE_MIN_MS)), ghosts)
        }
        _ => Verdict::Leave,
    }
}
