//! How one member walks from the tasks it has to its target (KIP-1071, KIP-1251).
//!
//! **Invariant:** an active task is given to a member only when nobody holds it, and a process never holds a task twice
//! in roles that exclude each other. A member first gives back what it must (`UnrevokedTasks`), then takes what is free
//! (`UnreleasedTasks` while something is not), and then has arrived at the assignment epoch (`Stable`).
//!
//! A pure function of the group, the target and what the member reports; it deliberately does not know how the target
//! came about.

use riparian_types::{AssignmentEpoch, MemberEpoch, MemberId, ProcessId};

use crate::{
    record::MemberState,
    reply::StreamsHeartbeatError,
    streams::{
        group::{Progress, StreamsGroup},
        membership::Owned,
    },
    tasks::{Holdings, Role, Task, TaskSet, Tasks},
};

/// The member to be moved.
pub(super) struct Walker<'a> {
    pub(super) group: &'a StreamsGroup,
    pub(super) member_id: &'a MemberId,
    /// The process it belongs to after this heartbeat.
    pub(super) process_id: &'a ProcessId,
    /// A static member whose place it takes: what that one holds is its own.
    pub(super) replaced: Option<&'a MemberId>,
    /// Where it stands.
    pub(super) progress: &'a Progress,
    /// What it owns, if it says so.
    pub(super) owned: Option<&'a Owned>,
}

/// Where the member stands after this heartbeat; `None` if nothing changes.
pub(super) fn reconcile(
    walker: &Walker<'_>,
    epoch: AssignmentEpoch,
    target: &Tasks,
) -> Result<Option<Progress>, StreamsHeartbeatError> {
    let progress = walker.progress;
    if progress.is_reconciled_to(epoch) {
        return Ok(None);
    }
    let next = match progress.state {
        MemberState::Stable | MemberState::UnreleasedTasks => walker.next(progress.epoch, epoch, target),
        MemberState::UnrevokedTasks => {
            let has_given_back =
                walker.owned.is_some_and(|owned| !progress.pending_revocation.intersects(&owned.tasks));
            if !has_given_back {
                return Ok(None);
            }
            walker.next(MemberEpoch(progress.epoch.0 + 1), epoch, target)
        }
        MemberState::Unknown => {
            if !walker.owned.is_some_and(Owned::is_empty) {
                return Err(StreamsHeartbeatError::FencedMemberEpoch(
                    "The member is in a state that this server does not know. It must give up its tasks and rejoin."
                        .into(),
                ));
            }
            walker.next(MemberEpoch(epoch.0), epoch, target)
        }
    };
    Ok((next != *progress).then_some(next))
}

/// What becomes of the tasks of one role.
struct Plan {
    kept: Holdings,
    /// Must be given back.
    revoked: Holdings,
    /// Can be given at once.
    assignable: Tasks,
    /// Something of the target is still held by somebody else.
    unreleased: bool,
}

impl Walker<'_> {
    fn next(&self, epoch: MemberEpoch, assignment_epoch: AssignmentEpoch, target: &Tasks) -> Progress {
        let Plan { mut kept, revoked, assignable, unreleased } = self.plan(target);
        let still_owned = !revoked.is_empty() && self.owned.is_none_or(|owned| revoked.intersects(&owned.tasks));
        if still_owned {
            return Progress {
                epoch,
                previous_epoch: self.progress.epoch,
                state: MemberState::UnrevokedTasks,
                assigned: kept,
                pending_revocation: revoked,
            };
        }
        // A copy that becomes the active task here is dropped in the same step, not before: the client recycles it.
        kept.standby.split_off(|task| !assignable.active.contains(task));
        kept.warmup.split_off(|task| !assignable.active.contains(task));
        kept.active.insert_all(&assignable.active, assignment_epoch);
        kept.standby.insert_all(&assignable.standby);
        kept.warmup.insert_all(&assignable.warmup);
        Progress {
            epoch: MemberEpoch(assignment_epoch.0),
            previous_epoch: self.progress.epoch,
            state: if unreleased { MemberState::UnreleasedTasks } else { MemberState::Stable },
            assigned: kept,
            pending_revocation: Holdings::default(),
        }
    }

    fn plan(&self, target: &Tasks) -> Plan {
        let current = &self.progress.assigned;
        let mut kept = Holdings {
            active: current.active.filtered(|task| target.active.contains(task)),
            standby: current.standby.filtered(|task| target.standby.contains(task)),
            warmup: current.warmup.filtered(|task| target.warmup.contains(task)),
        };
        let mut revoked = Holdings {
            active: current.active.filtered(|task| !target.active.contains(task)),
            standby: current.standby.filtered(|task| !target.standby.contains(task)),
            warmup: current.warmup.filtered(|task| !target.warmup.contains(task)),
        };
        let mut assignable = Tasks {
            active: target.active.filtered(|task| !current.active.contains(task)),
            standby: target.standby.filtered(|task| !current.standby.contains(task)),
            warmup: target.warmup.filtered(|task| !current.warmup.contains(task)),
        };
        let mut unreleased = false;
        let mut free_only = |tasks: &mut TaskSet, is_blocked: &dyn Fn(Task) -> bool| {
            unreleased |= !tasks.split_off(|task| !is_blocked(task)).is_empty();
        };

        // A copy that only changes its kind stays where it is, unasked.
        let to_warmup = revoked.standby.split_off(|task| !target.warmup.contains(task));
        let to_standby = revoked.warmup.split_off(|task| !target.standby.contains(task));
        assignable.warmup.split_off(|task| !to_warmup.contains(task));
        assignable.standby.split_off(|task| !to_standby.contains(task));
        kept.warmup.insert_all(&to_warmup);
        kept.standby.insert_all(&to_standby);

        free_only(&mut assignable.active, &|task| self.is_active_blocked(task));
        free_only(&mut assignable.standby, &|task| self.is_standby_blocked(task));
        free_only(&mut assignable.warmup, &|task| self.is_warmup_blocked(task));

        // A copy that shall become the active task stays until that task is free.
        kept.standby.insert_all(&revoked.standby.split_off(|task| !target.active.contains(task)));
        kept.warmup.insert_all(&revoked.warmup.split_off(|task| !target.active.contains(task)));

        // An active task that becomes a copy here is given as such at once, while it is given back as active: the client
        // recycles the store.
        let demoted = assignable.standby.split_off(|task| !current.active.contains(task));
        kept.standby.insert_all(&demoted);

        Plan { kept, revoked, assignable, unreleased }
    }

    fn is_active_blocked(&self, task: Task) -> bool {
        self.is_held_by_anyone(task, Role::Active)
            || self.is_held_beside_me(task, Role::Standby)
            || self.is_held_beside_me(task, Role::Warmup)
    }

    fn is_standby_blocked(&self, task: Task) -> bool {
        self.is_held_beside_me(task, Role::Active)
            || self.is_held_in_my_process(task, Role::Standby)
            || self.is_held_beside_me(task, Role::Warmup)
    }

    fn is_warmup_blocked(&self, task: Task) -> bool {
        self.is_held_in_my_process(task, Role::Active)
            || self.is_held_beside_me(task, Role::Standby)
            || self.is_held_in_my_process(task, Role::Warmup)
    }

    fn is_held_by_anyone(&self, task: Task, role: Role) -> bool {
        self.group.is_held(task, role, |_, _| true)
    }

    fn is_held_in_my_process(&self, task: Task, role: Role) -> bool {
        self.group.is_held(task, role, |_, process| process == self.process_id)
    }

    /// By another member of the process, or by this one among what it is still to give back.
    fn is_held_beside_me(&self, task: Task, role: Role) -> bool {
        let assigned_to_me = self.progress.assigned.contains(role, task);
        self.group.is_held(task, role, |member, process| {
            let is_me = member == self.member_id || Some(member) == self.replaced;
            (is_me && !assigned_to_me) || (!is_me && process == self.process_id)
        })
    }
}
