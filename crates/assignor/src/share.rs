//! Shares the tasks of a process among its members: evenly, and where they are now as far as that allows.

use alloc::{vec, vec::Vec};

use crate::{Assignment, AssignmentInput, CostModel, MemberIndex, TaskId, copies::Copies};

/// Shares out copies of which it is known what processes have them: of each task first the active, then the standbys.
///
/// In each process the numbers of actives with state of any two members differ by at most 1, and so do those of all
/// actives and of all tasks.
pub(crate) fn share(input: &AssignmentInput, model: &CostModel<'_>, copies: &Copies) -> Assignment {
    let mut members_of: Vec<Vec<MemberIndex>> = vec![vec![]; input.processes.len()];
    for (index, member) in input.members.iter().enumerate() {
        members_of[member.process.index()].push(MemberIndex::at(index));
    }
    let mut stateful_of: Vec<Vec<TaskId>> = vec![vec![]; input.processes.len()];
    let mut stateless_of = stateful_of.clone();
    let mut standbys_of = stateful_of.clone();
    for (index, row) in copies.rows().enumerate() {
        let (active, task) = (row[0] as usize, TaskId::at(index));
        let of_kind = if model.is_stateful(task) { &mut stateful_of } else { &mut stateless_of };
        of_kind[active].push(task);
        row[1..].iter().for_each(|&process| standbys_of[process as usize].push(task));
    }
    let owned = |member: MemberIndex, task: TaskId| model.owner(task) == Some(member);
    let held = |member: MemberIndex, task: TaskId| {
        let member = &input.members[member.index()];
        [&member.standby, &member.warmup].iter().any(|list| list.binary_search(&task).is_ok())
    };
    let mut assignment = Assignment::empty(input.members.len());
    for (process, members) in members_of.iter().enumerate() {
        let mut counts = vec![0; members.len()];
        let mut share_out = |tasks: &[TaskId], first: &Wish<'_>, second: &Wish<'_>| {
            let shares = share_list(members, &counts, tasks, first, second);
            core::iter::zip(&mut counts, &shares).for_each(|(count, share)| *count += share.len());
            shares
        };
        let stateful = share_out(&stateful_of[process], &owned, &held);
        let stateless = share_out(&stateless_of[process], &owned, &held);
        let standbys = share_out(&standbys_of[process], &held, &owned);
        for (place, &member) in members.iter().enumerate() {
            let member = &mut assignment.members[member.index()];
            member.active = [&*stateful[place], &*stateless[place]].concat();
            member.active.sort_unstable();
            member.standby.clone_from(&standbys[place]);
        }
    }
    assignment
}

/// Whether a task should be a member's.
type Wish<'w> = dyn Fn(MemberIndex, TaskId) -> bool + 'w;

/// Shares a list among members that have some tasks already. A task goes to who `first` says, then to who `second` says,
/// then to who has the fewest, as far as everybody gets the same number.
fn share_list(
    members: &[MemberIndex],
    counts: &[usize],
    tasks: &[TaskId],
    first: &Wish<'_>,
    second: &Wish<'_>,
) -> Vec<Vec<TaskId>> {
    if members.len() == 1 {
        return vec![tasks.to_vec()];
    }
    let total = counts.iter().sum::<usize>() + tasks.len();
    let (floor, mut extra) = (total / members.len(), total % members.len());
    let mut shares: Vec<Vec<TaskId>> = vec![vec![]; members.len()];
    let mut left = tasks.to_vec();
    for wish in [first, second] {
        left.retain(|&task| {
            let Some(place) = members.iter().position(|&member| wish(member, task)) else { return true };
            let count = counts[place] + shares[place].len();
            if count < floor || (count == floor && extra > 0) {
                extra -= usize::from(count == floor);
                shares[place].push(task);
                return false;
            }
            true
        });
    }
    // Those who have the fewest come first; ties go to the first member.
    for task in left {
        let place = (0..members.len()).min_by_key(|&place| counts[place] + shares[place].len());
        shares[place.expect("a process has members")].push(task);
    }
    shares.iter_mut().for_each(|share| share.sort_unstable());
    shares
}
