//! Members of classic groups that say that they are alive, by a heartbeat or by committing offsets.

use riparian_types::{
    Now,
    machine::{Decision, Waiter},
    planted::{self, Bug},
};

use super::{ClassicGroupState, group::NotAMember, rebalance::Work};
use crate::{
    command::{ClassicHeartbeat, OffsetCommit},
    machine::GroupMachine,
    reply::{ClassicMemberError, OffsetCommitError, Reply},
    soft::GroupSoft,
};

impl GroupMachine {
    /// A member is alive, and learns whether it must join again.
    pub(crate) fn classic_heartbeat(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        waiter: Waiter,
        heartbeat: &ClassicHeartbeat,
    ) -> Decision<Self> {
        let group_id = &heartbeat.group_id;
        if group_id.is_empty() {
            let reply = Reply::ClassicHeartbeat(Err(ClassicMemberError::InvalidGroupId));
            return Decision::reply(waiter, None, reply);
        }
        let result = match self.damage(group_id) {
            Some(damage) => Err(ClassicMemberError::Internal(damage)),
            None => {
                let mut decision = Decision::nothing();
                let beat = self.work_on(soft, now, group_id, &mut decision, |work| work.beat(heartbeat));
                beat.unwrap_or(Err(ClassicMemberError::UnknownMemberId))
            }
        };
        Decision::reply(waiter, Some(group_id.clone()), Reply::ClassicHeartbeat(result))
    }

    /// Whether this commit may be taken by a classic group; a member that commits is alive.
    pub(crate) fn check_classic_commit(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        commit: &OffsetCommit,
    ) -> Result<(), OffsetCommitError> {
        let mut decision = Decision::nothing();
        let checked = self.work_on(soft, now, &commit.group_id, &mut decision, |work| work.commit(commit));
        checked.unwrap_or(Err(OffsetCommitError::UnknownMemberId))
    }
}

impl Work<'_> {
    fn beat(&mut self, heartbeat: &ClassicHeartbeat) -> Result<(), ClassicMemberError> {
        self.check(&heartbeat.member_id, heartbeat.instance_id.as_ref())?;
        if heartbeat.generation != self.group.generation {
            return Err(ClassicMemberError::IllegalGeneration);
        }
        self.extend_session(&heartbeat.member_id);
        match self.group.state {
            ClassicGroupState::PreparingRebalance => Err(ClassicMemberError::RebalanceInProgress),
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => Ok(()),
            // An empty group has no members.
            ClassicGroupState::Empty => Err(ClassicMemberError::UnknownMemberId),
        }
    }

    fn commit(&mut self, commit: &OffsetCommit) -> Result<(), OffsetCommitError> {
        let (generation, is_empty) = (commit.member_epoch.0, self.group.is_empty());
        // From outside the group: an operator, or a consumer that assigns to itself.
        if generation < 0 && is_empty {
            return Ok(());
        }
        if generation < 0 && commit.member_id.is_empty() && commit.instance_id.is_none() {
            return Err(OffsetCommitError::UnknownMemberId);
        }
        self.group.check_member(&commit.member_id, commit.instance_id.as_ref()).map_err(|error| match error {
            NotAMember::Unknown => OffsetCommitError::UnknownMemberId,
            NotAMember::Fenced => OffsetCommitError::FencedInstanceId,
        })?;
        if generation != self.group.generation.0 && !planted::is_in(Bug::ClassicCommitUnfenced) {
            return Err(OffsetCommitError::IllegalGeneration);
        }
        match self.group.state {
            // It knows the new generation, and nobody can know yet what it is to read there.
            ClassicGroupState::CompletingRebalance => return Err(OffsetCommitError::RebalanceInProgress),
            ClassicGroupState::PreparingRebalance | ClassicGroupState::Stable => {
                self.extend_session(&commit.member_id);
            }
            ClassicGroupState::Empty => {}
        }
        Ok(())
    }
}
