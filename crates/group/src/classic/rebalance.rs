//! The way of a classic group from one generation to the next.
//!
//! ```text
//!           first join                 initial delay is over
//!   Empty ─────────────> Preparing <─────────────────────────┐ somebody joins anew, changes,
//!     ^                  Rebalance                           │ leaves, is not heard of
//!     │ nobody is left       │ all have joined, or their time is over
//!     └──────────────────────┤                               │
//!                            v        the leader assigns     │
//!                        Completing ─────────────────────> Stable
//!                        Rebalance
//! ```
//!
//! Only two of these steps write: nobody is left, and the leader assigns. A group that was loaded is where it was
//! written last; its members find out from their next request.

use alloc::{string::String, sync::Arc, vec::Vec};

use riparian_types::{
    GroupId, MemberId, Now,
    machine::{Answer, Decision, Waiter},
    planted::{self, Bug},
};

use super::{
    ClassicGroupState,
    group::{JoinTimer, LiveGroup, LiveMember, Wait},
};
use crate::{
    config::GroupConfig,
    group::GroupKind,
    machine::GroupMachine,
    record::Record,
    reply::{ClassicJoinError, ClassicJoinRefusal, ClassicJoinReply, ClassicMemberError, ClassicSyncReply, Reply},
    soft::GroupSoft,
    telemetry::Gone,
    timers::{Timer, Timers},
};

/// How often it is looked whether static members are back that have asked for less time than this.
const LOOK_AGAIN_MS_MIN: i32 = 100;

/// What is done to one classic group over one command or timer.
pub(super) struct Work<'a> {
    pub(super) config: &'a GroupConfig,
    pub(super) group_id: &'a GroupId,
    pub(super) group: &'a mut LiveGroup,
    pub(super) timers: &'a mut Timers,
    pub(super) now: Now,
    pub(super) decision: &'a mut Decision<GroupMachine>,
}

impl GroupMachine {
    /// Works on a classic group, if there is one.
    pub(super) fn work_on<R>(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        group_id: &GroupId,
        decision: &mut Decision<Self>,
        work: impl FnOnce(&mut Work<'_>) -> R,
    ) -> Option<R> {
        let GroupSoft { classic, timers, .. } = soft;
        let group = classic.get_mut(group_id)?;
        let result = work(&mut Work { config: &self.config, group_id, group, timers, now, decision });
        let is_written = self.groups.get(group_id).is_some_and(|group| matches!(group.kind, GroupKind::Classic(_)));
        if group.is_unused() && !is_written && decision.records.is_empty() {
            soft.remove_classic(group_id);
        }
        Some(result)
    }

    /// Makes the living halves of the classic groups that the records hold.
    pub(crate) fn load_classic_groups(&self, soft: &mut GroupSoft, now: Now) {
        for (group_id, group) in &self.groups {
            let GroupKind::Classic(value) = &group.kind else { continue };
            soft.classic.insert(group_id.clone(), LiveGroup::from_value(value));
            let mut decision = Decision::nothing();
            self.work_on(soft, now, group_id, &mut decision, |work| {
                let members: Vec<MemberId> = work.group.members.keys().cloned().collect();
                members.iter().for_each(|member_id| work.extend_session(member_id));
                // The limit was lowered meanwhile: who comes back in time stays.
                if members.len() > work.members_max() {
                    work.prepare();
                }
            });
            debug_assert!(
                decision.records.is_empty() && decision.replies.is_empty(),
                "nobody has joined {group_id} yet"
            );
        }
    }

    /// Members that have not joined have had their time.
    pub(crate) fn on_classic_join_timer(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId) -> Decision<Self> {
        let mut decision = Decision::nothing();
        self.work_on(soft, now, group_id, &mut decision, |work| {
            let timer = work.group.join_timer.take().map(|(_, timer)| timer);
            match timer {
                Some(JoinTimer::Initial { delay_ms, remaining_ms })
                    if work.group.has_newcomers && remaining_ms != 0 =>
                {
                    work.group.has_newcomers = false;
                    let next_delay_ms = work.config.classic_initial_rebalance_delay_ms.min(remaining_ms);
                    let remaining_ms = remaining_ms.saturating_sub(delay_ms).max(0);
                    work.arm_join(next_delay_ms, JoinTimer::Initial { delay_ms: next_delay_ms, remaining_ms });
                }
                Some(_) => work.complete_join(),
                None => {}
            }
        });
        decision
    }

    /// Members that have joined and not asked for their assignment have had their time.
    pub(crate) fn on_classic_sync_timer(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId) -> Decision<Self> {
        let mut decision = Decision::nothing();
        self.work_on(soft, now, group_id, &mut decision, |work| {
            work.group.sync_timer = None;
            let missing = core::mem::take(&mut work.group.pending_syncs);
            if !missing.is_empty() {
                missing.iter().for_each(|member_id| work.remove(member_id, Gone::Rebalance));
                work.prepare();
            }
        });
        decision
    }

    /// A session timer's slot came up.
    pub(crate) fn on_classic_session_timer(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        group_id: &GroupId,
        member_id: &MemberId,
    ) -> Decision<Self> {
        let mut decision = Decision::nothing();
        self.work_on(soft, now, group_id, &mut decision, |work| {
            let timer = Timer::ClassicSession(group_id.clone(), member_id.clone());
            if let Some(session) = work.group.pending_joins.get_mut(member_id) {
                if session.is_over(work.timers, now.mono, timer) {
                    work.group.pending_joins.remove(member_id);
                    work.go_on();
                }
            } else if let Some(member) = work.group.members.get_mut(member_id)
                && member.session.is_over(work.timers, now.mono, timer)
                && !member.is_excused()
                && !planted::is_in(Bug::ClassicSessionsWithoutEnd)
            {
                work.remove(member_id, Gone::Session);
                work.go_on();
            }
        });
        decision
    }

    /// Nobody hears any more what a member of this group is told with this ticket.
    pub(crate) fn give_up(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId, waiter: Waiter) -> Decision<Self> {
        let mut decision = Decision::nothing();
        self.work_on(soft, now, group_id, &mut decision, |work| {
            let mut members = work.group.members.iter_mut();
            if let Some((member_id, member)) = members.find(|(_, member)| member.joins_with(waiter)) {
                member.join_is_unheard();
                // Nobody can ever ask for the place of a member whose id nobody knows.
                if member.is_new && !member.knows_id && member.instance_id.is_none() {
                    let member_id = member_id.clone();
                    work.remove(&member_id, Gone::Left);
                    work.go_on();
                }
            }
            for member in work.group.members.values_mut() {
                if member.sync == Wait::With(waiter) {
                    member.sync = Wait::Unheard;
                }
            }
        });
        decision
    }
}

impl Work<'_> {
    /// Begins a rebalance, or ends the one that is being prepared if nobody is missing.
    pub(super) fn rebalance(&mut self) {
        if self.group.state == ClassicGroupState::PreparingRebalance {
            self.complete_join_if_all();
        } else {
            self.prepare();
        }
    }

    /// Begins a rebalance.
    pub(super) fn prepare(&mut self) {
        if self.group.state == ClassicGroupState::CompletingRebalance {
            self.end_syncs();
        }
        self.disarm_sync();
        self.group.pending_syncs.clear();
        self.group.is_initial = self.group.is_empty();
        self.group.has_newcomers = false;
        self.group.enter(ClassicGroupState::PreparingRebalance, self.now.wall);
        if self.group.is_initial {
            let delay_ms = self.config.classic_initial_rebalance_delay_ms;
            let remaining_ms = self.group.rebalance_timeout_ms().saturating_sub(delay_ms).max(0);
            self.arm_join(delay_ms, JoinTimer::Initial { delay_ms, remaining_ms });
        } else if self.group.has_all_joined() {
            self.complete_join();
        } else {
            self.arm_join(self.group.rebalance_timeout_ms(), JoinTimer::Rebalance);
        }
    }

    /// Ends the join if nobody is missing; an initial one always waits for its delay.
    pub(super) fn complete_join_if_all(&mut self) {
        let is_preparing = self.group.state == ClassicGroupState::PreparingRebalance;
        if is_preparing && !self.group.is_initial && self.group.has_all_joined() {
            self.complete_join();
        }
    }

    /// A member, or one that was only given its id, is gone, and not by its own word.
    fn go_on(&mut self) {
        match self.group.state {
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => self.rebalance(),
            // As in Kafka also in an initial rebalance.
            ClassicGroupState::PreparingRebalance if self.group.has_all_joined() => self.complete_join(),
            ClassicGroupState::PreparingRebalance | ClassicGroupState::Empty => {}
        }
    }

    /// Ends the join: whoever is there makes the next generation.
    fn complete_join(&mut self) {
        self.disarm_join();
        let is_missing = |member: &LiveMember| !member.is_joining() && member.instance_id.is_none();
        let missing = self.group.members.iter().filter(|(_, member)| is_missing(member));
        let missing: Vec<MemberId> = missing.map(|(member_id, _)| member_id.clone()).collect();
        missing.iter().for_each(|member_id| self.remove(member_id, Gone::Rebalance));
        if !self.group.members.is_empty() && !self.group.elect_leader() {
            // Only static members are left, and none of them is back: they have until their sessions end. Members may
            // ask for no time at all, which must not make this look again without end.
            let delay_ms = self.group.rebalance_timeout_ms().max(LOOK_AGAIN_MS_MIN);
            return self.arm_join(delay_ms, JoinTimer::Rebalance);
        }
        self.group.begin_generation(self.now.wall);
        if self.group.is_empty() {
            return self.store();
        }
        self.config.telemetry.classic_rebalances().increment();
        let members: Vec<MemberId> = self.group.members.keys().cloned().collect();
        let forgotten = members.last().cloned().filter(|_| planted::is_in(Bug::ClassicJoinForgotten));
        for member_id in members {
            let ticket = self.group.end_join(&member_id);
            if let Some(waiter) = ticket.filter(|_| forgotten.as_ref() != Some(&member_id)) {
                let reply = self.joined(&member_id);
                self.answer(waiter, Reply::ClassicJoin(Ok(reply)));
            }
            self.extend_session(&member_id);
            if let Some(member) = self.group.members.get_mut(&member_id) {
                member.is_new = false;
                member.knows_id = true;
            }
            self.group.pending_syncs.insert(member_id);
        }
        let deadline = self.now.mono.plus_ms(self.group.rebalance_timeout_ms().into());
        self.timers.arm(deadline, Timer::ClassicSync(self.group_id.clone()));
        self.group.sync_timer = Some(deadline);
    }

    /// What a member is told of the generation that it is in.
    pub(super) fn joined(&self, member_id: &MemberId) -> ClassicJoinReply {
        let group = &self.group;
        ClassicJoinReply {
            member_id: member_id.clone(),
            generation: group.generation,
            protocol_type: group.protocol_type.clone(),
            protocol: group.protocol.clone(),
            leader: group.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            members: if group.is_leader(member_id) { group.joined_members() } else { Vec::new() },
        }
    }

    /// What a member is told of its assignment.
    pub(super) fn assigned(&self, member_id: &MemberId) -> ClassicSyncReply {
        let member = self.group.members.get(member_id);
        ClassicSyncReply {
            protocol_type: self.group.protocol_type.clone(),
            protocol: self.group.protocol.clone(),
            assignment: member.map(|member| member.assignment.clone()).unwrap_or_default(),
        }
    }

    /// The members that wait for their assignment get none: they must join again.
    fn end_syncs(&mut self) {
        let mut waiters = Vec::new();
        let mut heard = Vec::new();
        for (member_id, member) in &mut self.group.members {
            member.assignment = Arc::default();
            if member.sync.is_waiting() {
                heard.push(member_id.clone());
            }
            waiters.extend(member.sync.take());
        }
        heard.iter().for_each(|member_id| self.extend_session(member_id));
        for waiter in waiters {
            self.answer(waiter, Reply::ClassicSync(Err(ClassicMemberError::RebalanceInProgress)));
        }
    }

    /// Removes a member; whatever it waits for will not come.
    pub(super) fn remove(&mut self, member_id: &MemberId, why: Gone) {
        let Some(mut member) = self.group.remove(member_id) else { return };
        self.config.telemetry.gone_from_classic(why).increment();
        member.session.end(self.timers, || Timer::ClassicSession(self.group_id.clone(), member_id.clone()));
        if let Some(waiter) = member.take_join() {
            self.refuse_join(waiter, MemberId::default(), ClassicJoinError::UnknownMemberId);
        }
        if let Some(waiter) = member.sync.take() {
            self.answer(waiter, Reply::ClassicSync(Err(ClassicMemberError::UnknownMemberId)));
        }
    }

    /// A member was heard of.
    pub(super) fn extend_session(&mut self, member_id: &MemberId) {
        let Some(member) = self.group.members.get_mut(member_id) else { return };
        let timeout_ms = member.session_timeout_ms;
        let timer = || Timer::ClassicSession(self.group_id.clone(), member_id.clone());
        member.session.extend(self.timers, self.now.mono, timeout_ms, timer);
    }

    pub(super) fn members_max(&self) -> usize {
        usize::try_from(self.config.classic_members_max).unwrap_or(0)
    }

    pub(super) fn store(&mut self) {
        let value = self.group.to_value();
        self.decision.records.push(Record::ClassicGroupMetadata(self.group_id.clone(), Some(value)));
    }

    pub(super) fn answer(&mut self, waiter: Waiter, reply: Reply) {
        self.decision.replies.push(Answer { waiter, scope: Some(self.group_id.clone()), reply });
    }

    pub(super) fn refuse_join(&mut self, waiter: Waiter, member_id: MemberId, error: ClassicJoinError) {
        self.answer(waiter, Reply::ClassicJoin(Err(ClassicJoinRefusal { member_id, error })));
    }

    fn arm_join(&mut self, delay_ms: i32, timer: JoinTimer) {
        self.disarm_join();
        let deadline = self.now.mono.plus_ms(delay_ms.into());
        self.timers.arm(deadline, Timer::ClassicJoin(self.group_id.clone()));
        self.group.join_timer = Some((deadline, timer));
    }

    fn disarm_join(&mut self) {
        if let Some((deadline, _)) = self.group.join_timer.take() {
            self.timers.disarm(deadline, Timer::ClassicJoin(self.group_id.clone()));
        }
    }

    pub(super) fn disarm_sync(&mut self) {
        if let Some(deadline) = self.group.sync_timer.take() {
            self.timers.disarm(deadline, Timer::ClassicSync(self.group_id.clone()));
        }
    }
}

/// The id that the server gives to a member.
pub(super) fn new_member_id(name: &str, fresh_id: &str) -> MemberId {
    let mut member_id = String::with_capacity(name.len() + 1 + fresh_id.len());
    member_id.push_str(name);
    member_id.push('-');
    member_id.push_str(fresh_id);
    member_id.into()
}
