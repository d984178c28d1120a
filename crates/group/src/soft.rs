//! What the machine knows beyond its records: topics, sessions, timers, caches. A restart loses it.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::num::NonZeroU64;

use riparian_assignor::{WarmupSupport, built_in};
use riparian_types::{GroupId, LookupMap, MemberEpoch, MemberId, MonoMillis, Offset, TopicsView};

use crate::{
    classic::group::LiveGroup,
    config::GroupOverrides,
    creation::Creations,
    expiry::Sweep,
    limits::{Counted, GroupLimits},
    record::AssignmentConfigs,
    reply::StreamsHeartbeatError,
    streams::{
        TaskOffset, configured::ConfiguredTopology, description::Asked, group::StreamsGroup, matches::Matches,
        metadata_hash::TopicHashes, settled::Settled, upkeep::Upkeep, warmup::WarmupStep,
    },
    telemetry::Lives,
    timers::{Sessions, Timer, Timers},
};

/// The soft state of a [`crate::GroupMachine`].
#[derive(Debug, Default)]
pub struct GroupSoft {
    /// The topics with all changes that were announced; `None` until they are shown for the first time.
    pub(crate) topics: Option<TopicsView>,
    /// The newest view that came with an announcement, and how new it is. It may be ahead of what was announced.
    pub(crate) newest_topics: (Offset, TopicsView),
    pub(crate) caches: TopicCaches,
    pub(crate) overrides: BTreeMap<GroupId, GroupOverrides>,
    pub(crate) groups: BTreeMap<GroupId, Box<SoftGroup>>,
    /// The classic groups as they live: one for each that the records hold, and those of which nothing was written yet.
    pub(crate) classic: BTreeMap<GroupId, LiveGroup>,
    pub(crate) timers: Timers,
    pub(crate) creations: Creations,
    pub(crate) sweep: Sweep,
    pub(crate) upkeep: Upkeep,
    /// This machine's part of the counts of the whole server.
    counted: [Counted; 3],
    pub(crate) lives: Lives,
}

/// What is remembered of topics until they change.
#[derive(Debug, Default)]
pub(crate) struct TopicCaches {
    pub(crate) hashes: TopicHashes,
    pub(crate) matches: Matches,
}

/// The soft state of one streams group.
#[derive(Debug, Default)]
pub(crate) struct SoftGroup {
    /// `None` until the next heartbeat after a start or a change of topics.
    configured: Option<Arc<ConfiguredTopology>>,
    /// A topic that the group requires changed since `configured` was computed.
    topics_changed: bool,
    /// It waits for that turn.
    pub(crate) awaits_turn: bool,
    /// The settings that a target depends on; `None` after they changed.
    assignment_configs: Option<AssignmentConfigs>,
    rare: Option<Box<Rare>>,
    /// The version of the endpoint map.
    pub(crate) endpoint_epoch: i32,
    /// Members were asked for a description of the topology that has not come.
    pub(crate) asked: Asked,
    /// Until when the first target is held back.
    initial_delay: Option<MonoMillis>,
    /// When the target is looked at again without a heartbeat.
    refresh: Option<MonoMillis>,
    /// How often something changed that the answer to a heartbeat may depend on.
    changes: u32,
    /// Whether the step to the target is known; it is not after the machine was loaded.
    pub(crate) is_step_known: bool,
    /// That step; `None`: it is the target.
    pub(crate) step: Option<Box<WarmupStep>>,
    /// The assignor that computed the target, if that was since the machine was loaded; there may be many groups, so it
    /// is a place among the assignors that there are.
    assignor: Option<u8>,
    pub(crate) members: LookupMap<MemberId, SoftMember>,
}

/// What few groups have.
#[derive(Debug, Default)]
struct Rare {
    /// The first member that asked the whole application to stop.
    shutdown_requested_by: Option<MemberId>,
    /// Why the topology could not be configured, if that took a turn of its own.
    failure: Option<StreamsHeartbeatError>,
}

/// The soft state of one member.
#[derive(Debug, Default)]
pub(crate) struct SoftMember {
    /// Positions of its state and ends of the changelogs, if it has reported any.
    offsets: Option<Box<ReportedOffsets>>,
    pub(crate) link: Link,
    /// Its last heartbeat changed nothing.
    pub(crate) settled: Option<Settled>,
    pub(crate) warmup_support: WarmupSupport,
    /// How soon it was told to report again.
    pub(crate) interval_ms: i32,
    /// When it joined; 0 if that was before the machine was loaded.
    pub(crate) joined: MonoMillis,
    /// When it is fenced unless it is heard of.
    pub(crate) session: Session,
    /// When it is fenced unless it gives back its tasks, and the epoch it had when that began; mostly there is nothing to
    /// give back.
    rebalance: Option<Box<(MonoMillis, MemberEpoch)>>,
}

#[derive(Debug, Default)]
struct ReportedOffsets {
    positions: Vec<TaskOffset>,
    ends: Vec<TaskOffset>,
}

/// The connection through which a member reported last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Link {
    /// It has not reported since the machine was loaded.
    #[default]
    Unknown,
    /// By the number that the broker gave it.
    Open(u64),
    /// It was closed then.
    Closed(MonoMillis),
}

/// How long a member may stay silent, and the timer that asks whether it has.
#[derive(Debug, Default)]
pub(crate) struct Session {
    deadline: MonoMillis,
    /// Where the timer stands, at or before the deadline.
    slot: Slot,
}

/// A time or none, in the room of a time: there may be many members.
#[derive(Clone, Copy, Debug, Default)]
struct Slot(Option<NonZeroU64>);

impl Slot {
    const fn at(time: MonoMillis) -> Self {
        Self(NonZeroU64::new(time.0.saturating_add(1)))
    }

    fn time(self) -> Option<MonoMillis> {
        self.0.map(|after| MonoMillis(after.get() - 1))
    }
}

impl Session {
    /// Keeps the session alive for the given time. Touches the timers only if the slot stands too late.
    pub(crate) fn extend(&mut self, timers: &mut Timers, now: MonoMillis, timeout_ms: i32, timer: impl Fn() -> Timer) {
        self.deadline = now.plus_ms(timeout_ms.into());
        self.put_slot(timers, timer);
    }

    /// Ends the session after the given time, unless it ends before or the member is heard of.
    pub(crate) fn shorten(&mut self, timers: &mut Timers, now: MonoMillis, timeout_ms: i32, timer: impl Fn() -> Timer) {
        self.deadline = self.deadline.min(now.plus_ms(timeout_ms.into()));
        self.put_slot(timers, timer);
    }

    fn put_slot(&mut self, timers: &mut Timers, timer: impl Fn() -> Timer) {
        match self.slot.time() {
            Some(slot) if slot <= self.deadline => {}
            slot => {
                if let Some(slot) = slot {
                    timers.disarm(slot, timer());
                }
                timers.arm(self.deadline, timer());
                self.slot = Slot::at(self.deadline);
            }
        }
    }

    /// Whether it is over; if not, its timer, which has just come up, is put where it may be.
    pub(crate) fn is_over(&mut self, timers: &mut Timers, now: MonoMillis, timer: Timer) -> bool {
        self.slot = Slot::default();
        if self.deadline <= now {
            return true;
        }
        timers.arm(self.deadline, timer);
        self.slot = Slot::at(self.deadline);
        false
    }

    /// Whether its timer is armed.
    #[cfg(test)]
    pub(crate) fn has_timer(&self) -> bool {
        self.slot.time().is_some()
    }

    /// Takes its timer out.
    pub(crate) fn end(&mut self, timers: &mut Timers, timer: impl Fn() -> Timer) {
        if let Some(slot) = core::mem::take(&mut self.slot).time() {
            timers.disarm(slot, timer());
        }
    }
}

impl SoftMember {
    /// Positions of state on it, as last reported.
    pub(crate) fn task_offsets(&self) -> &[TaskOffset] {
        self.offsets.as_ref().map_or(&[], |offsets| &offsets.positions)
    }

    /// Ends of the changelogs of those tasks, as last reported.
    pub(crate) fn task_end_offsets(&self) -> &[TaskOffset] {
        self.offsets.as_ref().map_or(&[], |offsets| &offsets.ends)
    }

    /// Keeps what it reports of them; `None`: unchanged.
    pub(crate) fn keep_offsets(&mut self, positions: Option<Vec<TaskOffset>>, ends: Option<Vec<TaskOffset>>) {
        if positions.is_none() && ends.is_none() {
            return;
        }
        let before = self.offsets.take().map(|offsets| *offsets).unwrap_or_default();
        let (positions, ends) = (positions.unwrap_or(before.positions), ends.unwrap_or(before.ends));
        let has_any = !positions.is_empty() || !ends.is_empty();
        self.offsets = has_any.then(|| Box::new(ReportedOffsets { positions, ends }));
    }

    /// Gives the member this long to get from this epoch to another.
    pub(crate) fn arm_rebalance(
        &mut self,
        timers: &mut Timers,
        now: MonoMillis,
        timeout_ms: i32,
        epoch: MemberEpoch,
        timer: Timer,
    ) {
        self.disarm_rebalance(timers, || timer.clone());
        let deadline = now.plus_ms(timeout_ms.into());
        timers.arm(deadline, timer);
        self.rebalance = Some(Box::new((deadline, epoch)));
    }

    pub(crate) fn disarm_rebalance(&mut self, timers: &mut Timers, timer: impl Fn() -> Timer) {
        if let Some(rebalance) = self.rebalance.take() {
            timers.disarm(rebalance.0, timer());
        }
    }

    fn end_timers(&mut self, timers: &mut Timers, group_id: &GroupId, member_id: &MemberId) {
        self.session.end(timers, || Timer::Session(group_id.clone(), member_id.clone()));
        self.disarm_rebalance(timers, || Timer::Rebalance(group_id.clone(), member_id.clone()));
    }

    /// The epoch that the member had when its rebalance timer, which has just come up, was armed.
    pub(crate) fn take_rebalance_epoch(&mut self) -> Option<MemberEpoch> {
        self.rebalance.take().map(|rebalance| rebalance.1)
    }
}

impl SoftGroup {
    /// Forgets a member and its timers.
    pub(crate) fn remove_member(&mut self, timers: &mut Timers, group_id: &GroupId, member_id: &MemberId) {
        if let Some(mut member) = self.members.remove(member_id) {
            member.end_timers(timers, group_id, member_id);
        }
    }
}

impl SoftGroup {
    /// How often something changed that the answer to a heartbeat may depend on.
    pub(crate) const fn changes(&self) -> u32 {
        self.changes
    }

    /// Something changed that the answer to a heartbeat may depend on: no member is settled any more.
    pub(crate) const fn unsettle(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// The topology as it was configured last.
    pub(crate) const fn configured(&self) -> Option<&Arc<ConfiguredTopology>> {
        self.configured.as_ref()
    }

    /// The same, unless a topic that the group requires changed since.
    pub(crate) fn configured_now(&self) -> Option<&Arc<ConfiguredTopology>> {
        self.configured.as_ref().filter(|_| !self.topics_changed)
    }

    /// Keeps the topology, configured with the topics that there are.
    pub(crate) fn keep_configured(&mut self, configured: Arc<ConfiguredTopology>) {
        if self.configured_now().is_none_or(|kept| !Arc::ptr_eq(kept, &configured)) {
            self.unsettle();
        }
        self.configured = Some(configured);
        self.topics_changed = false;
        self.forget_failure();
    }

    /// The group has another topology.
    pub(crate) fn forget_configured(&mut self) {
        self.configured = None;
        self.forget_failure();
        self.unsettle();
    }

    /// The topology could not be configured.
    pub(crate) fn keep_failure(&mut self, failure: StreamsHeartbeatError) {
        self.rare.get_or_insert_default().failure = Some(failure);
        self.unsettle();
    }

    fn forget_failure(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.failure = None;
        }
    }

    /// Why the topology could not be configured.
    pub(crate) fn failure(&self) -> Option<&StreamsHeartbeatError> {
        self.rare.as_ref()?.failure.as_ref()
    }

    /// A topic that the group requires may have changed.
    pub(crate) fn on_topics_changed(&mut self) {
        self.topics_changed = true;
        self.forget_failure();
        self.unsettle();
    }

    /// The settings that a target depends on, unless they may have changed.
    pub(crate) const fn assignment_configs(&self) -> Option<&AssignmentConfigs> {
        self.assignment_configs.as_ref()
    }

    /// Keeps the settings that a target depends on.
    pub(crate) fn keep_assignment_configs(&mut self, configs: AssignmentConfigs) {
        self.assignment_configs = Some(configs);
    }

    /// Whether another assignor than this one computed the target, and no other target is due.
    pub(crate) fn is_switched(&self, group: &StreamsGroup, assignor: &str) -> bool {
        let is_due = group.epoch.0 > group.assignment_epoch.0;
        !is_due && self.assignor.is_some() && self.assignor != place_of_assignor(assignor)
    }

    /// The assignor of this place has computed the target.
    pub(crate) const fn keep_assignor(&mut self, place: Option<u8>) {
        self.assignor = place;
    }

    /// The group's settings changed.
    pub(crate) fn on_settings_changed(&mut self) {
        self.assignment_configs = None;
        self.unsettle();
    }

    /// The first member that asked the whole application to stop.
    pub(crate) fn shutdown_requested_by(&self) -> Option<&MemberId> {
        self.rare.as_ref()?.shutdown_requested_by.as_ref()
    }

    /// This member asks the whole application to stop.
    pub(crate) fn request_shutdown(&mut self, member_id: &MemberId) {
        if self.shutdown_requested_by().is_none() {
            self.rare.get_or_insert_default().shutdown_requested_by = Some(member_id.clone());
            self.unsettle();
        }
    }

    /// Nobody is left who was to stop, or who was refused.
    pub(crate) fn on_last_gone(&mut self) {
        self.rare = None;
        self.unsettle();
    }

    /// Until when the first target is held back.
    pub(crate) const fn initial_delay(&self) -> Option<MonoMillis> {
        self.initial_delay
    }

    /// Holds back the first target until then.
    pub(crate) fn begin_initial_delay(&mut self, timers: &mut Timers, deadline: MonoMillis, group_id: &GroupId) {
        self.initial_delay = Some(deadline);
        timers.arm(deadline, Timer::InitialDelay(group_id.clone()));
        self.unsettle();
    }

    /// The timer came up.
    pub(crate) const fn end_initial_delay(&mut self) {
        self.initial_delay = None;
        self.unsettle();
    }

    /// Has the target looked at again at this time, or before if that was planned.
    pub(crate) fn arm_refresh(&mut self, timers: &mut Timers, at: MonoMillis, group_id: &GroupId) {
        match self.refresh {
            Some(slot) if slot <= at => return,
            Some(slot) => timers.disarm(slot, Timer::Refresh(group_id.clone())),
            None => {}
        }
        timers.arm(at, Timer::Refresh(group_id.clone()));
        self.refresh = Some(at);
    }

    /// Whether that is planned.
    pub(crate) const fn awaits_refresh(&self) -> bool {
        self.refresh.is_some() || self.awaits_turn
    }

    /// The timer came up.
    pub(crate) fn take_refresh(&mut self) {
        self.refresh = None;
    }
}

/// The place of an assignor among those that there are.
pub(crate) fn place_of_assignor(name: &str) -> Option<u8> {
    let place = built_in::ASSIGNORS.iter().position(|assignor| assignor.name() == name);
    place.and_then(|place| u8::try_from(place).ok())
}

impl GroupSoft {
    /// Whether the connection of this member has been closed.
    pub(crate) fn is_closed(&self, group_id: &GroupId, member_id: &MemberId) -> bool {
        let member = self.groups.get(group_id).and_then(|group| group.members.get(member_id));
        member.is_some_and(|member| matches!(member.link, Link::Closed(_)))
    }

    /// Keeps the counts of the whole server.
    pub(crate) fn count_members(&mut self, limits: &GroupLimits) {
        let Sessions { streams, classic } = self.timers.sessions();
        let [of_streams, of_classic, of_matches] = &mut self.counted;
        of_streams.set(&limits.streams_members, streams);
        of_classic.set(&limits.classic_members, classic);
        of_matches.set(&limits.pattern_matches, self.caches.matches.total());
    }

    /// Forgets a group and its timers.
    pub(crate) fn remove_group(&mut self, group_id: &GroupId) {
        self.remove_classic(group_id);
        self.caches.matches.count(group_id, 0);
        let Some(mut group) = self.groups.remove(group_id) else { return };
        if let Some(deadline) = group.initial_delay {
            self.timers.disarm(deadline, Timer::InitialDelay(group_id.clone()));
        }
        if let Some(slot) = group.refresh {
            self.timers.disarm(slot, Timer::Refresh(group_id.clone()));
        }
        for (member_id, member) in group.members.iter_mut() {
            member.end_timers(&mut self.timers, group_id, member_id);
        }
    }

    /// Forgets a classic group without members, and its timers.
    pub(crate) fn remove_classic(&mut self, group_id: &GroupId) {
        if let Some(mut group) = self.classic.remove(group_id) {
            group.end_timers(&mut self.timers, group_id);
        }
    }
}
