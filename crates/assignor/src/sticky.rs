//! The assignor `sticky`: balanced numbers of tasks per member, moving as little as possible.
//!
//! It follows Apache Kafka 4.4.0's assignor of this name: one pass over all tasks, stateful or not. The two differ in ties
//! only. Kafka leaves most to the order of a hash map or of a heap; here the smaller id decides, and between equally loaded
//! processes first the better balance of members, then where state of the task is.
//!
//! 1. **Actives stay**: by partition, a task stays on the member that runs it while that member is below its quota.
//! 2. **Actives follow state**: a task without such a member goes to one that has a copy or reports its state, if that
//!    member is below its quota.
//! 3. **Other actives** go one by one to the least loaded process.
//! 4. **Standbys** are placed the same way, in reverse order: on the member that ran the task, on members with a copy,
//!    on the least loaded process; never on a process that holds the task.
//!
//! Quotas shrink: a member that is full takes its tasks out of the reckoning, and the rest is divided anew among the
//! others (see [`quota`]). Step 3 looks at the loads of whole processes and heeds no quota, so where a process is loaded
//! unevenly inside, members' counts may differ by more than one, as they do in Kafka.
//!
//! Tags, racks and the sizes of tasks are deliberately ignored.

mod history;
mod least_loaded;
mod placement;
mod queue;
mod quota;

use alloc::{vec, vec::Vec};

use self::{
    history::{Copy, History},
    least_loaded::LeastLoaded,
    placement::Placement,
};
use crate::{Assignment, AssignmentInput, AssignorError, MemberIndex, TaskAssignor, TaskId};

/// The assignor `sticky`.
#[derive(Clone, Copy, Debug)]
pub struct StickyTaskAssignor;

impl TaskAssignor for StickyTaskAssignor {
    fn name(&self) -> &str {
        "sticky"
    }

    fn assign(&self, input: &AssignmentInput) -> Result<Assignment, AssignorError> {
        input.check()?;
        let task_count = input.subtopologies.task_count();
        if task_count == 0 {
            return Ok(Assignment::empty(input.members.len()));
        }
        if input.members.is_empty() {
            return Err(AssignorError::NoMembers { task_count });
        }
        let by_partition = input.subtopologies.tasks_by_partition();
        let history = History::new(input);
        let mut placement = Placement::new(input);
        place_actives(&by_partition, &history, &mut placement);
        if placement.standbys_per_task_max() > 0 {
            let stateful = input.subtopologies.stateful_by_task();
            let order = by_partition.iter().rev().copied().filter(|task| stateful[task.index()]);
            place_standbys(order, task_count, &history, &mut placement);
        }
        Ok(placement.into_assignment())
    }
}

fn place_actives(by_partition: &[TaskId], history: &History, placement: &mut Placement) {
    let mut without_owner = Vec::new();
    for &task in by_partition {
        match history.active(task).filter(|&member| placement.has_room_for_active(member)) {
            Some(member) => placement.add_active(task, member),
            None => without_owner.push(task),
        }
    }
    for &task in &without_owner {
        if let Some(member) =
            member_with_copy(history.copies(task), placement, |_| true, Placement::has_room_for_active)
        {
            placement.add_active(task, member);
        }
    }
    without_owner.retain(|&task| !placement.is_active(task));
    without_owner.sort_unstable();
    let mut least_loaded = LeastLoaded::new(placement);
    for task in without_owner {
        let member = least_loaded
            .take(|_| true, history.with_state(task))
            .expect("there are members, and each belongs to a process");
        placement.add_active(task, member);
    }
}

fn place_standbys(order: impl Iterator<Item = TaskId>, task_count: u32, history: &History, placement: &mut Placement) {
    // How many standbys each task still lacks.
    let mut missing = vec![0u32; task_count as usize];
    for task in order {
        for placed in 0..placement.standbys_per_task_max() {
            match member_for_standby(task, history, placement) {
                Some(member) => placement.add_standby(task, member),
                None => {
                    missing[task.index()] = placement.standbys_per_task_max() - placed;
                    break;
                }
            }
        }
    }
    let mut least_loaded = LeastLoaded::new(placement);
    for (index, &missing) in missing.iter().enumerate().rev() {
        let task = TaskId::at(index);
        for _ in 0..missing {
            let may_hold = |process| !placement.holds(process, task);
            let Some(member) = least_loaded.take(may_hold, history.with_state(task)) else { break };
            placement.add_standby(task, member);
        }
    }
}

/// The member that should get a standby because it has state of the task: who ran it, or else one with a copy.
fn member_for_standby(task: TaskId, history: &History, placement: &Placement) -> Option<MemberIndex> {
    let may_hold = |member| !placement.holds(placement.process_of(member), task);
    let owner = history.active(task).filter(|&member| may_hold(member) && placement.has_room(member));
    owner.or_else(|| member_with_copy(history.copies(task), placement, may_hold, Placement::has_room))
}

/// The member that should get a task because it has a copy of it, unless that member has no room.
///
/// Of the members that may hold the task it is the first, unless a later one is less loaded both by itself and as a
/// process; room plays no part in that choice, as in Kafka.
fn member_with_copy(
    copies: &[Copy],
    placement: &Placement,
    may_hold: impl Fn(MemberIndex) -> bool,
    has_room: impl Fn(&Placement, MemberIndex) -> bool,
) -> Option<MemberIndex> {
    let candidates = copies.iter().map(|copy| copy.member).filter(|&member| may_hold(member));
    let chosen =
        candidates.reduce(|best, member| if is_less_loaded(member, best, placement) { member } else { best })?;
    has_room(placement, chosen).then_some(chosen)
}

/// Whether a member is less loaded than another both by itself and as a process.
fn is_less_loaded(member: MemberIndex, other: MemberIndex, placement: &Placement) -> bool {
    let process_load = |member| placement.process_load(placement.process_of(member));
    placement.member_load(member) < placement.member_load(other) && process_load(member) < process_load(other)
}

#[cfg(test)]
mod tests;
