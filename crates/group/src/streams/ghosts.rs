//! Members whose process has died and is back.
//!
//! A process that was killed leaves members behind that hold their tasks until their sessions end, 45 seconds by default,
//! while the same process, restarted on the same state directory and so with the same process id, waits for them. Its
//! connections tell more: the system closes them all at once when the process ends. So when every connection of a
//! process's members has closed, and a member of the same process id joins after that, the old ones are fenced.
//!
//! A live process that loses a connection opens another one and reports within its heartbeat interval. Therefore nobody is
//! fenced sooner than two intervals after the last connection closed; and a process of which any old member has reported
//! meanwhile, or has not been heard of since this server started, is not touched.

use alloc::{collections::BTreeMap, vec::Vec};

use riparian_types::{GroupEpoch, GroupId, MemberId, MonoMillis, Now, ProcessId, machine::Decision};

use crate::{
    config::Settings,
    machine::GroupMachine,
    pace::{self, Pace},
    record::Record,
    soft::{GroupSoft, Link, SoftGroup, SoftMember},
    streams::group::{Member, StreamsGroup},
    timers::Timer,
};

/// The shortest time, in milliseconds, between the end of the last connection and a fence.
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
        let members = soft.groups.get_mut(group_id).into_iter().flat_map(|group| group.members.values_mut());
        for member in members.filter(|member| member.link == Link::Open(connection)) {
            member.link = Link::Closed(now.mono);
        }
    }

    /// A member has joined: its process may have left others behind.
    pub(super) fn look_for_ghosts(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId, process: &ProcessId) {
        let is_any_closed =
            |soft_group: &SoftGroup| soft_group.members.values().any(|member| matches!(member.link, Link::Closed(_)));
        // The records of this very join are not applied yet, so the group is looked at by the timer.
        if self.config.fence_restarted_processes && soft.groups.get(group_id).is_some_and(is_any_closed) {
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
        let settings = Settings::new(&self.config, soft.overrides.get(group_id));
        let interval_ms = pace::heartbeat_interval_ms(&self.config, &settings, Pace::Stable);
        let grace_ms = (2 * i64::from(interval_ms)).max(GRACE_MIN_MS);
        let Verdict::FenceAt(at, ghosts) = judge(group, &soft_group.members, process, grace_ms) else {
            return decision;
        };
        if at > now.mono {
            soft.timers.arm(at, Timer::Ghosts(group_id.clone(), process.clone()));
            return decision;
        }
        for ghost in &ghosts {
            group.member_tombstones(group_id, ghost, &mut decision.records);
            soft_group.on_member_gone(&mut soft.timers, group_id, ghost, false);
        }
        let epoch = GroupEpoch(group.epoch.0.saturating_add(1));
        decision.records.push(Record::StreamsGroupMetadata(group_id.clone(), Some(group.metadata_at(epoch))));
        self.refresh_soon(soft, now.mono, group_id);
        decision
    }
}

fn judge(
    group: &StreamsGroup,
    soft_members: &BTreeMap<MemberId, SoftMember>,
    process: &ProcessId,
    grace_ms: i64,
) -> Verdict {
    let mut ghosts = Vec::new();
    let mut last_closed = None;
    let mut first_joined = None;
    // A static member comes back under its instance id, and keeps its place until then.
    let is_of_process = |(_, member): &(&MemberId, &Member)| {
        member.metadata.process_id == *process && member.metadata.instance_id.is_none()
    };
    for (id, _) in group.members.iter().filter(is_of_process) {
        match soft_members.get(id).map(|member| (member.link, member.joined)) {
            None | Some((Link::Unknown, _)) => return Verdict::Leave,
            Some((Link::Closed(at), _)) => {
                ghosts.push(id.clone());
                last_closed = last_closed.max(Some(at));
            }
            Some((Link::Open(_), joined)) => {
                first_joined = Some(first_joined.map_or(joined, |first| joined.min(first)))
            }
        }
    }
    match (last_closed, first_joined) {
        // Whoever has a connection joined after all others had lost theirs.
        (Some(closed), Some(joined)) if joined >= closed => Verdict::FenceAt(closed.plus_ms(grace_ms), ghosts),
        _ => Verdict::Leave,
    }
}
