//! Joining a classic group: who is let in, as whom, and whether the group must rebalance for it.

use alloc::{boxed::Box, vec::Vec};

use riparian_types::{
    Generation, GroupId, InstanceId, MemberId, Now,
    limits::GROUP_PENDING_JOINS_MAX,
    machine::{Decision, Waiter},
    planted::{self, Bug},
};

use super::{
    ClassicGroupState, Protocol,
    group::{LiveGroup, LiveMember, NotAMember},
    rebalance::{Work, new_member_id},
};
use crate::{
    command::ClassicJoin,
    config::GroupConfig,
    group::Found,
    limits::{self, NoRoom},
    machine::GroupMachine,
    record::{ClassicGroupValue, Record},
    reply::{ClassicJoinError, ClassicJoinRefusal, ClassicJoinReply, ClassicMemberError, Reply},
    soft::GroupSoft,
    telemetry::{Gone, GroupLimit},
    timers::Timer,
};

/// How long a member that has never seen the end of a join may wait for one, in milliseconds. Its client has perhaps
/// given up and joined again as somebody else.
const NEW_MEMBER_JOIN_TIMEOUT_MS: i32 = 5 * 60 * 1000;

/// What the group of a join is before it.
enum Before {
    Classic,
    /// Nothing; a record shows that it is there now.
    Nothing,
    /// Offsets; they are enough to show that it is there.
    Offsets,
}

impl GroupMachine {
    /// A member joins; it is answered when everybody has.
    pub(crate) fn classic_join(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        waiter: Waiter,
        mut join: Box<ClassicJoin>,
    ) -> Decision<Self> {
        let group_id = join.group_id.clone();
        let refused = |member_id: MemberId, error: ClassicJoinError, scope: Option<GroupId>| {
            Decision::reply(waiter, scope, Reply::ClassicJoin(Err(ClassicJoinRefusal { member_id, error })))
        };
        if let Err(error) = check_request(&self.config, &join) {
            return refused(join.member_id, error, None);
        }
        let scope = Some(group_id.clone());
        if let Some(damage) = self.damage(&group_id) {
            return refused(join.member_id, ClassicJoinError::Internal(damage), scope);
        }
        let mut decision = Decision::nothing();
        let before = match self.find(soft, &group_id) {
            Found::Classic(_) => Before::Classic,
            Found::Streams(streams) if !streams.members.is_empty() => {
                return refused(MemberId::default(), ClassicJoinError::InconsistentGroupProtocol, scope);
            }
            _ if !join.member_id.is_empty() => {
                return refused(join.member_id, ClassicJoinError::UnknownMemberId, scope);
            }
            // Nothing is made for a member that cannot be let in.
            _ if !LiveGroup::new().supports(&join.protocol_type, &join.protocols) => {
                return refused(MemberId::default(), ClassicJoinError::InconsistentGroupProtocol, scope);
            }
            _ if self.config.check_room_for_member().is_err() => {
                return refused(MemberId::default(), ClassicJoinError::GroupMaxSizeReached, scope);
            }
            Found::OffsetsOnly => Before::Offsets,
            Found::Nothing => match self.check_room_for_group(&group_id) {
                Ok(()) => Before::Nothing,
                Err(_) => return refused(MemberId::default(), ClassicJoinError::GroupMaxSizeReached, scope),
            },
            Found::Streams(streams) => {
                streams.tombstones(&group_id, &mut decision.records);
                Before::Nothing
            }
        };
        match before {
            Before::Classic => {}
            Before::Nothing => {
                soft.remove_group(&group_id);
                soft.classic.insert(group_id.clone(), LiveGroup::new());
                let value = ClassicGroupValue {
                    protocol_type: alloc::string::String::new(),
                    generation: Generation(0),
                    protocol: None,
                    leader: None,
                    state_timestamp: Some(now.wall),
                    members: Vec::new(),
                };
                decision.records.push(Record::ClassicGroupMetadata(group_id.clone(), Some(value)));
            }
            Before::Offsets => {
                soft.classic.insert(group_id.clone(), LiveGroup::new());
            }
        }
        keep_first_of_each_name(&mut join.protocols);
        self.work_on(soft, now, &group_id, &mut decision, |work| work.join(waiter, *join));
        decision
    }
}

fn check_request(config: &GroupConfig, join: &ClassicJoin) -> Result<(), ClassicJoinError> {
    if join.group_id.is_empty() {
        return Err(ClassicJoinError::InvalidGroupId);
    }
    let timeout_ms = join.session_timeout_ms;
    if timeout_ms < config.classic_session_timeout_min_ms || timeout_ms > config.classic_session_timeout_max_ms {
        return Err(ClassicJoinError::InvalidSessionTimeout);
    }
    let bytes = limits::protocols_bytes(&join.protocols);
    config.check_member_bytes("The subscription", bytes).map_err(|NoRoom(text)| ClassicJoinError::TooLarge(text))
}

/// A member that names a protocol twice counts once.
fn keep_first_of_each_name(protocols: &mut Vec<Protocol>) {
    let mut seen = alloc::collections::BTreeSet::new();
    protocols.retain(|protocol| seen.insert(protocol.name.clone()));
}

impl Work<'_> {
    fn join(&mut self, waiter: Waiter, join: ClassicJoin) {
        if !self.accepts(&join.member_id) {
            self.config.telemetry.hit(GroupLimit::ClassicGroupSize);
            // Also one that was let in before the limit was lowered.
            self.remove(&join.member_id, Gone::Left);
            self.forget_pending(&join.member_id);
            self.refuse_join(waiter, MemberId::default(), ClassicJoinError::GroupMaxSizeReached);
            self.complete_join_if_all();
        } else if join.member_id.is_empty() {
            self.join_as_new(waiter, join);
        } else {
            self.join_as_known(waiter, join);
        }
    }

    /// Whether there is room.
    fn accepts(&self, member_id: &MemberId) -> bool {
        let member = self.group.members.get(member_id);
        match self.group.state {
            ClassicGroupState::Empty => true,
            // By those who are back: the last ones are the ones that are left out if the limit was lowered.
            ClassicGroupState::PreparingRebalance => {
                member.is_some_and(LiveMember::is_joining) || self.group.joining_count() < self.members_max()
            }
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => {
                member.is_some() || self.group.members.len() < self.members_max()
            }
        }
    }

    /// The member does not know its id.
    fn join_as_new(&mut self, waiter: Waiter, join: ClassicJoin) {
        if !self.group.supports(&join.protocol_type, &join.protocols) {
            return self.refuse_join(waiter, MemberId::default(), ClassicJoinError::InconsistentGroupProtocol);
        }
        let name = join.instance_id.as_deref().unwrap_or(&join.caller.client_id);
        let member_id = new_member_id(name, &join.fresh_id);
        let holder = join.instance_id.as_ref().and_then(|instance| self.group.static_members.get(instance).cloned());
        if let Some(holder) = holder {
            return self.take_over(waiter, join, &holder, member_id);
        }
        if self.config.check_room_for_member().is_err() {
            return self.refuse_join(waiter, MemberId::default(), ClassicJoinError::GroupMaxSizeReached);
        }
        if join.instance_id.is_none() && join.support.given_id {
            self.give_id(waiter, &join, member_id);
        } else {
            self.add(waiter, join, member_id, false);
        }
    }

    /// The member gets its id first, so that it can be recognised if its join is lost (KIP-394).
    fn give_id(&mut self, waiter: Waiter, join: &ClassicJoin, member_id: MemberId) {
        if self.group.pending_joins.len() >= GROUP_PENDING_JOINS_MAX {
            self.config.telemetry.hit(GroupLimit::PendingJoins);
            return self.refuse_join(waiter, MemberId::default(), ClassicJoinError::GroupMaxSizeReached);
        }
        let session = self.group.pending_joins.entry(member_id.clone()).or_default();
        let timer = || Timer::ClassicSession(self.group_id.clone(), member_id.clone());
        session.extend(self.timers, self.now.mono, join.session_timeout_ms, timer);
        self.refuse_join(waiter, member_id, ClassicJoinError::MemberIdRequired);
    }

    /// The member knows its id, or says so.
    fn join_as_known(&mut self, waiter: Waiter, join: ClassicJoin) {
        let member_id = join.member_id.clone();
        if !self.group.supports(&join.protocol_type, &join.protocols) {
            return self.refuse_join(waiter, member_id, ClassicJoinError::InconsistentGroupProtocol);
        }
        // An id that is handed out first is never a static member's.
        if join.instance_id.is_none() && self.group.pending_joins.contains_key(&member_id) {
            return self.add(waiter, join, member_id, true);
        }
        if let Err(error) = self.group.check_member(&member_id, join.instance_id.as_ref()) {
            return self.refuse_join(waiter, member_id, error.into());
        }
        let is_same = self.group.members.get(&member_id).is_some_and(|member| member.protocols == join.protocols);
        let is_leader = self.group.is_leader(&member_id);
        let nothing_new = match self.group.state {
            // Its answer was lost.
            ClassicGroupState::CompletingRebalance => is_same,
            // A leader joins again when something has changed that it has an eye on.
            ClassicGroupState::Stable => is_same && !is_leader,
            ClassicGroupState::PreparingRebalance | ClassicGroupState::Empty => false,
        };
        if nothing_new {
            let reply = self.joined(&member_id);
            return self.answer(waiter, Reply::ClassicJoin(Ok(reply)));
        }
        self.update(waiter, join, &member_id);
        self.rebalance();
    }

    fn add(&mut self, waiter: Waiter, join: ClassicJoin, member_id: MemberId, knows_id: bool) {
        let session = self.group.pending_joins.remove(&member_id).unwrap_or_default();
        let member = LiveMember {
            instance_id: join.instance_id,
            client_id: join.caller.client_id.as_str().into(),
            client_host: join.caller.client_host,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols,
            is_new: true,
            knows_id,
            session,
            ..LiveMember::default()
        };
        if self.group.is_empty() {
            self.group.protocol_type = Some(join.protocol_type);
        }
        self.group.has_newcomers = true;
        self.group.add(member_id.clone(), member);
        self.group.begin_join(&member_id, waiter);
        if let Some(member) = self.group.members.get_mut(&member_id) {
            let timer = || Timer::ClassicSession(self.group_id.clone(), member_id.clone());
            member.session.extend(self.timers, self.now.mono, NEW_MEMBER_JOIN_TIMEOUT_MS, timer);
        }
        self.rebalance();
    }

    /// A member that is known joins again.
    fn update(&mut self, waiter: Waiter, join: ClassicJoin, member_id: &MemberId) {
        if let Some(older) = self.group.begin_join(member_id, waiter) {
            self.refuse_join(older, member_id.clone(), ClassicJoinError::Superseded);
        }
        self.group.set_protocols(member_id, join.protocols);
        if let Some(member) = self.group.members.get_mut(member_id) {
            member.rebalance_timeout_ms = join.rebalance_timeout_ms;
            member.session_timeout_ms = join.session_timeout_ms;
        }
    }

    /// A static member is back without its id (KIP-345): it takes the place of the one that it was, or of another
    /// process with the same instance id. The newcomer wins.
    fn take_over(&mut self, waiter: Waiter, join: ClassicJoin, old_id: &MemberId, new_id: MemberId) {
        let old_leader = self.group.leader.clone();
        if let Some(older) = self.group.end_join(old_id) {
            self.refuse_join(older, old_id.clone(), ClassicJoinError::FencedInstanceId);
        }
        if let Some(member) = self.group.members.get_mut(old_id) {
            member.session.end(self.timers, || Timer::ClassicSession(self.group_id.clone(), old_id.clone()));
            member.is_new = false;
            if let Some(older) = member.sync.take() {
                self.answer(older, Reply::ClassicSync(Err(ClassicMemberError::FencedInstanceId)));
            }
        }
        self.group.rename(old_id, &new_id);
        let skip_assignment = join.support.skip_assignment;
        self.update(waiter, join, &new_id);
        self.extend_session(&new_id);
        match self.group.state {
            ClassicGroupState::Stable if self.group.select_protocol() == self.group.protocol => {
                // Nothing changes but the id: it goes on with the assignment that it has.
                if !planted::is_in(Bug::ClassicTakeOverUnrecorded) {
                    self.store();
                }
                let reply = self.joined(&new_id);
                let reply = if skip_assignment {
                    ClassicJoinReply { skip_assignment: self.group.is_leader(&new_id), ..reply }
                } else {
                    // It must not take itself for the leader, who would have to assign.
                    ClassicJoinReply { leader: old_leader.unwrap_or_default(), members: Vec::new(), ..reply }
                };
                if let Some(waiter) = self.group.end_join(&new_id) {
                    self.answer(waiter, Reply::ClassicJoin(Ok(reply)));
                }
            }
            // The leader may be assigning to the id that is no more.
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => self.prepare(),
            ClassicGroupState::PreparingRebalance | ClassicGroupState::Empty => self.complete_join_if_all(),
        }
    }

    /// A member that was given an id will not come back with it.
    pub(super) fn forget_pending(&mut self, member_id: &MemberId) -> bool {
        let Some(mut session) = self.group.pending_joins.remove(member_id) else { return false };
        session.end(self.timers, || Timer::ClassicSession(self.group_id.clone(), member_id.clone()));
        true
    }

    /// Who this is, for whatever else it may ask.
    pub(super) fn check(&self, member_id: &MemberId, instance: Option<&InstanceId>) -> Result<(), ClassicMemberError> {
        Ok(self.group.check_member(member_id, instance)?)
    }
}

impl From<NotAMember> for ClassicJoinError {
    fn from(error: NotAMember) -> Self {
        match error {
            NotAMember::Unknown => Self::UnknownMemberId,
            NotAMember::Fenced => Self::FencedInstanceId,
        }
    }
}

impl From<NotAMember> for ClassicMemberError {
    fn from(error: NotAMember) -> Self {
        match error {
            NotAMember::Unknown => Self::UnknownMemberId,
            NotAMember::Fenced => Self::FencedInstanceId,
        }
    }
}
