//! The assignor `balanced`: the same number of tasks of each kind on every process, whatever was where before.
//!
//! It places as the classic protocol's high-availability assignor does (KIP-441), on the server and without its warm-ups:
//!
//! 1. **Actives with state** are dealt to the processes in turn, and then evened out: tasks go from a process to a less
//!    loaded one as long as that narrows the difference.
//! 2. **Standbys** go one by one to the least loaded process that does not hold the task, and are evened out likewise.
//! 3. **Actives without state** go one by one to the process with the fewest actives.
//! 4. **Within a process** a task stays on the member that has it in the same role, as far as all get the same number.
//!
//! Loads are tasks per member. Which process a task goes to depends on ids only, so a group that loses a process and gets
//! it back is as it was; but what moves between may be much. Choose it where state is small or warm-ups are on.

use alloc::{collections::BinaryHeap, vec, vec::Vec};
use core::cmp::Reverse;

use crate::{Assignment, AssignmentInput, AssignorError, CostModel, TaskAssignor, copies::Copies, share::share};

/// The assignor `balanced`.
#[derive(Clone, Copy, Debug)]
pub struct BalancedTaskAssignor;

impl TaskAssignor for BalancedTaskAssignor {
    fn name(&self) -> &str {
        "balanced"
    }

    fn assign(&self, input: &AssignmentInput) -> Result<Assignment, AssignorError> {
        input.check()?;
        let task_count = input.subtopologies.task_count();
        if input.processes.is_empty() {
            return match task_count {
                0 => Ok(Assignment::empty(0)),
                task_count => Err(AssignorError::NoMembers { task_count }),
            };
        }
        let stateful = input.subtopologies.stateful_by_task();
        let of_kind = |wanted: bool| (0..stateful.len()).filter(move |&task| stateful[task] == wanted);
        let mut placing = Placing::new(input);
        placing.deal_actives(of_kind.clone()(true));
        placing.even_out(Role::Active);
        placing.place_standbys(of_kind.clone()(true), input.standbys_per_task_max());
        placing.even_out(Role::Standby);
        placing.place_stateless(of_kind(false));
        Ok(share(input, &CostModel::new(input), &placing.copies))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Active,
    Standby,
}

/// The placement in the making: of each task its active's process and then those of its standbys.
struct Placing {
    copies: Copies,
    member_counts: Vec<u32>,
    /// Tasks of each process, in any role, and how many of them are active.
    counts: Vec<u32>,
    active_counts: Vec<u32>,
    /// The stateful tasks of each process by role, ascending.
    actives: Vec<Vec<usize>>,
    standbys: Vec<Vec<usize>>,
}

impl Placing {
    fn new(input: &AssignmentInput) -> Self {
        let process_count = input.processes.len();
        let mut member_counts = vec![0; process_count];
        input.members.iter().for_each(|member| member_counts[member.process.index()] += 1);
        let width = 1 + input.standbys_per_task_max() as usize;
        Self {
            copies: Copies::new(input.subtopologies.task_count() as usize, width),
            member_counts,
            counts: vec![0; process_count],
            active_counts: vec![0; process_count],
            actives: vec![vec![]; process_count],
            standbys: vec![vec![]; process_count],
        }
    }

    fn add(&mut self, task: usize, process: u32, role: Role) {
        self.copies.add(task, process);
        self.counts[process as usize] += 1;
        match role {
            Role::Active => {
                self.active_counts[process as usize] += 1;
                self.actives[process as usize].push(task);
            }
            Role::Standby => self.standbys[process as usize].push(task),
        }
    }

    /// A count as a share of the process's members; fractions that differ by more than 2^-32 compare as they should.
    fn load(&self, count: u32, process: u32) -> u64 {
        (u64::from(count) << 32) / u64::from(self.member_counts[process as usize])
    }

    fn deal_actives(&mut self, tasks: impl Iterator<Item = usize>) {
        let process_count = self.counts.len() as u32;
        for (process, task) in core::iter::zip((0..process_count).cycle(), tasks) {
            self.add(task, process, Role::Active);
        }
    }

    fn place_standbys(&mut self, tasks: impl Iterator<Item = usize>, wanted: u32) {
        if wanted == 0 {
            return;
        }
        let mut queue = self.queue(|placing, process| placing.counts[process as usize]);
        let mut skipped = Vec::new();
        for task in tasks {
            for _ in 0..wanted {
                let mut found = None;
                while let Some(Reverse((_, process))) = queue.pop() {
                    if self.copies.holds(task, process) {
                        skipped.push(process);
                    } else {
                        found = Some(process);
                        break;
                    }
                }
                if let Some(process) = found {
                    self.add(task, process, Role::Standby);
                }
                for process in skipped.drain(..).chain(found) {
                    queue.push(Reverse((self.load(self.counts[process as usize], process), process)));
                }
            }
        }
        self.standbys.iter_mut().for_each(|tasks| tasks.sort_unstable());
    }

    fn place_stateless(&mut self, tasks: impl Iterator<Item = usize>) {
        let mut queue = self.queue(|placing, process| placing.active_counts[process as usize]);
        for task in tasks {
            let Some(Reverse((_, process))) = queue.pop() else { return };
            self.add(task, process, Role::Active);
            queue.push(Reverse((self.load(self.active_counts[process as usize], process), process)));
        }
    }

    fn queue(&self, count: impl Fn(&Self, u32) -> u32) -> BinaryHeap<Reverse<(u64, u32)>> {
        let processes = 0..self.counts.len() as u32;
        processes.map(|process| Reverse((self.load(count(self, process), process), process))).collect()
    }

    /// Moves tasks of a role from process to process until no move narrows a difference.
    fn even_out(&mut self, role: Role) {
        let process_count = self.counts.len() as u32;
        loop {
            let mut is_changed = false;
            for source in 0..process_count {
                for destination in 0..process_count {
                    is_changed |= self.narrows(source, destination) && self.move_between(source, destination, role);
                }
            }
            if !is_changed {
                return;
            }
        }
    }

    /// Whether the source is more loaded and still not less loaded with one task fewer there and one more here.
    fn narrows(&self, source: u32, destination: u32) -> bool {
        let [(have, share), (get, their_share)] = [source, destination]
            .map(|process| (i64::from(self.counts[process as usize]), i64::from(self.member_counts[process as usize])));
        source != destination && (have - 1) * their_share >= (get + 1) * share
    }

    fn of_role(&mut self, role: Role) -> &mut [Vec<usize>] {
        match role {
            Role::Active => &mut self.actives,
            Role::Standby => &mut self.standbys,
        }
    }

    fn move_between(&mut self, source: u32, destination: u32, role: Role) -> bool {
        let tasks = core::mem::take(&mut self.of_role(role)[source as usize]);
        let (mut kept, mut moved) = (Vec::with_capacity(tasks.len()), Vec::new());
        for task in tasks {
            if self.narrows(source, destination) && !self.copies.holds(task, destination) {
                self.copies.replace(task, source, destination);
                self.counts[source as usize] -= 1;
                self.counts[destination as usize] += 1;
                if role == Role::Active {
                    self.active_counts[source as usize] -= 1;
                    self.active_counts[destination as usize] += 1;
                }
                moved.push(task);
            } else {
                kept.push(task);
            }
        }
        let is_changed = !moved.is_empty();
        self.of_role(role)[source as usize] = kept;
        let theirs = &mut self.of_role(role)[destination as usize];
        theirs.append(&mut moved);
        theirs.sort_unstable();
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::BalancedTaskAssignor;
    use crate::{assign_checked, testbed::Group};

    #[test]
    fn tasks_per_member_are_even_over_processes() {
        for seed in 0..300 {
            let mut group = Group::new(seed);
            for _ in 0..6 {
                let input = group.input();
                let assignment = assign_checked(&BalancedTaskAssignor, &input).unwrap();
                let stateful = |task: &&crate::TaskId| {
                    let (subtopology, _) = input.subtopologies.locate(**task).unwrap();
                    input.subtopologies.list()[subtopology.index()].stateful
                };
                let mut by_process: Vec<(usize, usize)> = std::vec![(0, 0); input.processes.len()];
                for (member, tasks) in std::iter::zip(&input.members, &assignment.members) {
                    let process = &mut by_process[member.process.index()];
                    process.0 += tasks.active.iter().filter(stateful).count();
                    process.1 += 1;
                }
                for &(one, members) in &by_process {
                    for &(other, other_members) in &by_process {
                        let narrows = one > 0 && (one - 1) * other_members >= (other + 1) * members;
                        assert!(!narrows, "seed {seed}: {by_process:?}");
                    }
                }
                group.adopt(&assignment);
                group.change();
            }
        }
    }

    #[test]
    fn a_process_that_comes_back_finds_everything_as_it_was() {
        for seed in 0..50 {
            let group = Group::new(seed);
            let input = group.input();
            let first = assign_checked(&BalancedTaskAssignor, &input).unwrap();
            let mut later = Group::clone(&group);
            later.adopt(&first);
            assert_eq!(assign_checked(&BalancedTaskAssignor, &later.input()).unwrap(), first, "seed {seed}");
        }
    }
}
