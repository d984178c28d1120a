//! The leader brings everybody's assignment, the others fetch theirs.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use riparian_types::{
    MemberId, Now,
    machine::{Decision, Waiter},
    planted::{self, Bug},
};

use super::{ClassicGroupState, MemberAssignment, group::Wait, rebalance::Work};
use crate::{
    command::ClassicSync,
    limits::{self, NoRoom},
    machine::GroupMachine,
    reply::{ClassicMemberError, Reply},
    soft::GroupSoft,
};

impl GroupMachine {
    /// A member asks for its assignment; it is answered when the leader has assigned.
    pub(crate) fn classic_sync(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        waiter: Waiter,
        sync: Box<ClassicSync>,
    ) -> Decision<Self> {
        let group_id = sync.group_id.clone();
        let refused = |error, scope| Decision::reply(waiter, scope, Reply::ClassicSync(Err(error)));
        if group_id.is_empty() {
            return refused(ClassicMemberError::InvalidGroupId, None);
        }
        let scope = Some(group_id.clone());
        if let Some(damage) = self.damage(&group_id) {
            return refused(ClassicMemberError::Internal(damage), scope);
        }
        let bytes = limits::assignment_bytes(&sync.assignments);
        if let Err(NoRoom(text)) = self.config.check_member_bytes("An assignment", bytes) {
            return refused(ClassicMemberError::TooLarge(text), scope);
        }
        let mut decision = Decision::nothing();
        let done = self.work_on(soft, now, &group_id, &mut decision, |work| {
            if let Err(error) = work.sync(waiter, *sync) {
                work.answer(waiter, Reply::ClassicSync(Err(error)));
            }
        });
        match done {
            Some(()) => decision,
            None => refused(ClassicMemberError::UnknownMemberId, scope),
        }
    }
}

impl Work<'_> {
    fn sync(&mut self, waiter: Waiter, sync: ClassicSync) -> Result<(), ClassicMemberError> {
        let member_id = sync.member_id;
        self.check(&member_id, sync.instance_id.as_ref())?;
        if sync.generation != self.group.generation {
            return Err(ClassicMemberError::IllegalGeneration);
        }
        let [protocol_type, protocol] = [&self.group.protocol_type, &self.group.protocol];
        for (taken_for, is) in [(&sync.protocol_type, protocol_type), (&sync.protocol, protocol)] {
            if taken_for.is_some() && is.is_some() && taken_for != is {
                return Err(ClassicMemberError::InconsistentGroupProtocol);
            }
        }
        match self.group.state {
            // An empty group has no members.
            ClassicGroupState::Empty => return Err(ClassicMemberError::UnknownMemberId),
            ClassicGroupState::PreparingRebalance => return Err(ClassicMemberError::RebalanceInProgress),
            ClassicGroupState::CompletingRebalance
                if planted::is_in(Bug::ClassicAssignmentOfBefore)
                    && !self.group.is_leader(&member_id)
                    && !self.assigned(&member_id).assignment.is_empty() =>
            {
                let reply = self.assigned(&member_id);
                self.answer(waiter, Reply::ClassicSync(Ok(reply)));
            }
            ClassicGroupState::CompletingRebalance => {
                self.has_synced(&member_id);
                let member = self.group.members.get_mut(&member_id);
                let older = member.and_then(|member| {
                    let older = member.sync.take();
                    member.sync = Wait::With(waiter);
                    older
                });
                if let Some(older) = older {
                    self.answer(older, Reply::ClassicSync(Err(ClassicMemberError::RebalanceInProgress)));
                }
                if self.group.is_leader(&member_id) {
                    self.assign(sync.assignments);
                }
            }
            ClassicGroupState::Stable => {
                self.has_synced(&member_id);
                let reply = self.assigned(&member_id);
                self.answer(waiter, Reply::ClassicSync(Ok(reply)));
            }
        }
        Ok(())
    }

    fn has_synced(&mut self, member_id: &MemberId) {
        self.group.pending_syncs.remove(member_id);
        if self.group.pending_syncs.is_empty() {
            self.disarm_sync();
        }
    }

    /// The group is stable; whoever was not given anything has nothing.
    fn assign(&mut self, assignments: Vec<MemberAssignment>) {
        let mut assignments: BTreeMap<MemberId, _> =
            assignments.into_iter().map(|given| (given.member_id, given.assignment)).collect();
        for (member_id, member) in &mut self.group.members {
            member.assignment = assignments.remove(member_id).unwrap_or_default();
        }
        self.store();
        self.group.enter(ClassicGroupState::Stable, self.now.wall);
        let waiting = self.group.members.iter().filter(|(_, member)| member.sync.is_waiting());
        let waiting: Vec<MemberId> = waiting.map(|(member_id, _)| member_id.clone()).collect();
        for member_id in waiting {
            let ticket = self.group.members.get_mut(&member_id).and_then(|member| member.sync.take());
            if let Some(waiter) = ticket {
                let reply = self.assigned(&member_id);
                self.answer(waiter, Reply::ClassicSync(Ok(reply)));
            }
            // While it waited nobody asked whether it was alive.
            self.extend_session(&member_id);
        }
    }
}
