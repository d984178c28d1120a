//! Leaving a classic group, by one's own word or an operator's.

use alloc::vec::Vec;

use riparian_types::{
    GroupId, Now,
    machine::{Decision, Waiter},
};

use super::{ClassicGroupState, LeavingMember, rebalance::Work};
use crate::{
    machine::GroupMachine,
    reply::{ClassicMemberError, Reply},
    soft::GroupSoft,
    telemetry::Gone,
};

impl GroupMachine {
    /// Members leave; each gets an answer of its own.
    pub(crate) fn classic_leave(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        waiter: Waiter,
        group_id: &GroupId,
        members: &[LeavingMember],
    ) -> Decision<Self> {
        let scope = Some(group_id.clone());
        if group_id.is_empty() {
            return Decision::reply(waiter, None, Reply::ClassicLeave(Err(ClassicMemberError::InvalidGroupId)));
        }
        if let Some(damage) = self.damage(group_id) {
            return Decision::reply(waiter, scope, Reply::ClassicLeave(Err(ClassicMemberError::Internal(damage))));
        }
        let mut decision = Decision::nothing();
        let done = self.work_on(soft, now, group_id, &mut decision, |work| {
            let outcomes = work.leave(members);
            work.answer(waiter, Reply::ClassicLeave(Ok(outcomes)));
        });
        match done {
            Some(()) => decision,
            None => {
                let outcomes = members.iter().map(|_| Err(ClassicMemberError::UnknownMemberId)).collect();
                Decision::reply(waiter, scope, Reply::ClassicLeave(Ok(outcomes)))
            }
        }
    }
}

impl Work<'_> {
    fn leave(&mut self, members: &[LeavingMember]) -> Vec<Result<(), ClassicMemberError>> {
        let outcomes: Vec<_> = members.iter().map(|member| self.leave_one(member)).collect();
        if outcomes.iter().any(Result::is_ok) {
            match self.group.state {
                ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => self.prepare(),
                ClassicGroupState::PreparingRebalance => self.complete_join_if_all(),
                ClassicGroupState::Empty => {}
            }
        }
        outcomes
    }

    fn leave_one(&mut self, member: &LeavingMember) -> Result<(), ClassicMemberError> {
        let (member_id, instance) = (&member.member_id, member.instance_id.as_ref());
        if member_id.is_empty() {
            // An operator knows static members by their names only.
            let holder = instance.and_then(|instance| self.group.static_members.get(instance)).cloned();
            self.remove(&holder.ok_or(ClassicMemberError::UnknownMemberId)?, Gone::Left);
            return Ok(());
        }
        if self.forget_pending(member_id) {
            return Ok(());
        }
        self.check(member_id, instance)?;
        self.remove(member_id, Gone::Left);
        Ok(())
    }
}
