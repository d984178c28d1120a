//! A queue of processes by load, and within each of its members by load.
//!
//! It starts from the loads of a [`Placement`] and from then on counts what it gives out itself; whoever uses it makes no
//! other placements meanwhile. Ties among processes go to the one whose least loaded member has the fewest tasks, for the
//! sake of balance; then to one that the caller prefers; then to the smallest. Ties among members likewise.
//!
//! Loads only grow, so an entry of a queue may be out of date but never too high: it is corrected when it comes up.

use alloc::{vec, vec::Vec};

use super::{
    placement::{Load, Placement},
    queue::Queue,
};
use crate::{MemberIndex, ProcessIndex};

pub(super) struct LeastLoaded {
    processes: Vec<Process>,
    queue: Queue<(Rank, ProcessIndex)>,
    tasks_by_member: Vec<u32>,
    process_by_member: Vec<ProcessIndex>,
    /// Processes that are passed over while one is sought; kept to reuse the memory.
    skipped: Vec<(Rank, ProcessIndex)>,
}

struct Process {
    rank: Rank,
    members: Queue<(u32, MemberIndex)>,
}

/// What decides between processes: the lower takes the next task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    load: Load,
    /// How many tasks the least loaded member has.
    member_load_min: u32,
}

impl LeastLoaded {
    pub(super) fn new(placement: &Placement) -> Self {
        let tasks_by_member = placement.member_loads().to_vec();
        let mut members: Vec<Vec<_>> = vec![vec![]; placement.process_loads().len()];
        for (index, process) in placement.processes_by_member().iter().enumerate() {
            members[process.index()].push((tasks_by_member[index], MemberIndex::at(index)));
        }
        let processes: Vec<Process> = core::iter::zip(placement.process_loads(), members)
            .map(|(&load, members)| {
                let member_load_min = members.iter().map(|&(task_count, _)| task_count).min().unwrap_or(0);
                Process { rank: Rank { load, member_load_min }, members: Queue::new(members) }
            })
            .collect();
        let entries = processes.iter().enumerate();
        Self {
            queue: Queue::new(entries.map(|(index, process)| (process.rank, ProcessIndex::at(index))).collect()),
            processes,
            tasks_by_member,
            process_by_member: placement.processes_by_member().to_vec(),
            skipped: vec![],
        }
    }

    /// Counts one more task on the least loaded member of the least loaded process that is eligible, and returns it.
    pub(super) fn take(
        &mut self,
        eligible: impl Fn(ProcessIndex) -> bool,
        preferred: impl Iterator<Item = MemberIndex> + Clone,
    ) -> Option<MemberIndex> {
        let (rank, first) = self.least_loaded_process(&eligible)?;
        let process = preferred
            .clone()
            .map(|member| self.process_by_member[member.index()])
            .find(|&process| self.processes[process.index()].rank == rank && eligible(process))
            .unwrap_or(first);
        let mut preferred = preferred.filter(|member| self.process_by_member[member.index()] == process);
        let member = preferred.find(|member| self.tasks_by_member[member.index()] == rank.member_load_min);
        let member = member.unwrap_or_else(|| self.least_loaded_member(process));
        self.tasks_by_member[member.index()] += 1;
        let least = self.least_loaded_member(process);
        let rank = &mut self.processes[process.index()].rank;
        rank.load.task_count += 1;
        rank.member_load_min = self.tasks_by_member[least.index()];
        Some(member)
    }

    fn least_loaded_process(&mut self, eligible: impl Fn(ProcessIndex) -> bool) -> Option<(Rank, ProcessIndex)> {
        let mut found = None;
        while let Some((rank, process)) = self.queue.pop() {
            let actual = self.processes[process.index()].rank;
            if rank != actual {
                self.queue.push((actual, process));
            } else if eligible(process) {
                self.queue.push((rank, process));
                found = Some((rank, process));
                break;
            } else {
                self.skipped.push((rank, process));
            }
        }
        while let Some(entry) = self.skipped.pop() {
            self.queue.push(entry);
        }
        found
    }

    fn least_loaded_member(&mut self, process: ProcessIndex) -> MemberIndex {
        let queue = &mut self.processes[process.index()].members;
        loop {
            let (task_count, member) = queue.pop().expect("the input's check leaves no process empty");
            let actual = self.tasks_by_member[member.index()];
            queue.push((actual, member));
            if task_count == actual {
                return member;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::LeastLoaded;
    use crate::{
        AssignmentConfig, AssignmentInput, MemberIndex, MemberInput, ProcessIndex, Subtopologies, SubtopologyInput,
        TaskId, sticky::placement::Placement,
    };

    /// Members 0 and 1 are of process 0, member 2 is process 1, member 3 process 2; `loads` says who has how many tasks.
    fn least_loaded(loads: [u32; 4]) -> LeastLoaded {
        let subtopology = SubtopologyInput { id: "0".into(), partition_count: loads.iter().sum(), stateful: true };
        let member = |id: &str, process| MemberInput::new(id.into(), ProcessIndex(process));
        let mut placement = Placement::new(&AssignmentInput {
            processes: vec!["p".into(), "q".into(), "r".into()],
            members: vec![member("a", 0), member("b", 0), member("c", 1), member("d", 2)],
            subtopologies: Subtopologies::new(vec![subtopology]).unwrap().into(),
            config: AssignmentConfig { num_standby_replicas: 0, rack_aware_assignment_tags: vec![] },
            changelogs: vec![],
        });
        let mut tasks = (0..).map(TaskId);
        for (member, load) in (0..).zip(loads) {
            tasks.by_ref().take(load as usize).for_each(|task| placement.add_active(task, MemberIndex(member)));
        }
        LeastLoaded::new(&placement)
    }

    fn take(queue: &mut LeastLoaded, count: usize, preferred: &[u32]) -> Vec<u32> {
        let preferred = preferred.iter().copied().map(MemberIndex);
        (0..count).map(|_| queue.take(|_| true, preferred.clone()).unwrap().0).collect()
    }

    #[test]
    fn loads_even_out() {
        assert_eq!(take(&mut least_loaded([0, 0, 0, 0]), 8, &[]), [0, 2, 3, 1, 0, 2, 3, 1]);
        assert_eq!(take(&mut least_loaded([3, 3, 0, 2]), 6, &[]), [2, 2, 2, 3, 0, 2]);
    }

    #[test]
    fn among_equals_the_one_with_the_emptiest_member_comes_first() {
        assert_eq!(take(&mut least_loaded([2, 0, 1, 1]), 2, &[2]), [1, 2]);
    }

    #[test]
    fn preference_decides_between_equals_only() {
        assert_eq!(take(&mut least_loaded([0, 0, 0, 0]), 4, &[3]), [3, 0, 2, 1]);
        assert_eq!(take(&mut least_loaded([0, 0, 1, 1]), 2, &[2, 1]), [1, 0]);
        assert_eq!(take(&mut least_loaded([1, 1, 1, 0]), 2, &[1]), [3, 1]);
    }

    #[test]
    fn processes_that_are_not_eligible_stay_in_the_queue() {
        let mut queue = least_loaded([0, 0, 0, 0]);
        let not_first = |process: ProcessIndex| process.0 > 0;
        assert_eq!(queue.take(not_first, [MemberIndex(0)].into_iter()), Some(MemberIndex(2)));
        assert_eq!(queue.take(|_| false, [MemberIndex(0)].into_iter()), None);
        assert_eq!(take(&mut queue, 3, &[]), [0, 3, 1]);
    }
}
