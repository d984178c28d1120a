//! The assignment in the making: who has what so far, and how loaded members and processes are.
//!
//! Invariant: the counts of members and processes equal the placements made.

use alloc::{vec, vec::Vec};
use core::cmp::Ordering;

use super::quota::Quota;
use crate::{Assignment, AssignmentInput, MemberAssignment, MemberIndex, ProcessIndex, TaskId};

/// How loaded a process is: its tasks per member, compared as an exact fraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) task_count: u32,
    pub(super) member_count: u32,
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |a: &Self, b: &Self| u64::from(a.task_count) * u64::from(b.member_count);
        scaled(self, other).cmp(&scaled(other, self))
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Load {}

/// Placements made so far.
pub(super) struct Placement {
    process_by_member: Vec<ProcessIndex>,
    tasks_by_member: Vec<u32>,
    standbys_by_member: Vec<u32>,
    load_by_process: Vec<Load>,
    active_by_task: Vec<Option<MemberIndex>>,
    /// The members with standbys of task t are the first `standby_counts[t]` of the t-th row of this table.
    standby_rows: Vec<MemberIndex>,
    standby_counts: Vec<u32>,
    standbys_per_task_max: u32,
    active_quota: Quota,
    total_quota: Quota,
}

impl Placement {
    pub(super) fn new(input: &AssignmentInput) -> Self {
        let task_count = input.subtopologies.task_count();
        let member_count = input.members.len();
        let mut load_by_process = vec![Load { task_count: 0, member_count: 0 }; input.processes.len()];
        for member in &input.members {
            load_by_process[member.process.index()].member_count += 1;
        }
        let wanted_standby_count = u64::from(input.subtopologies.stateful_task_count())
            .saturating_mul(u64::from(input.config.num_standby_replicas));
        let standbys_per_task_max = input.standbys_per_task_max();
        Self {
            process_by_member: input.members.iter().map(|member| member.process).collect(),
            tasks_by_member: vec![0; member_count],
            standbys_by_member: vec![0; member_count],
            load_by_process,
            active_by_task: vec![None; task_count as usize],
            standby_rows: vec![MemberIndex(0); task_count as usize * standbys_per_task_max as usize],
            standby_counts: vec![0; task_count as usize],
            standbys_per_task_max,
            active_quota: Quota::new(u64::from(task_count), member_count),
            total_quota: Quota::new(u64::from(task_count) + wanted_standby_count, member_count),
        }
    }

    pub(super) fn standbys_per_task_max(&self) -> u32 {
        self.standbys_per_task_max
    }

    pub(super) fn process_of(&self, member: MemberIndex) -> ProcessIndex {
        self.process_by_member[member.index()]
    }

    /// The process of each member.
    pub(super) fn processes_by_member(&self) -> &[ProcessIndex] {
        &self.process_by_member
    }

    pub(super) fn process_load(&self, process: ProcessIndex) -> Load {
        self.load_by_process[process.index()]
    }

    /// The load of each process.
    pub(super) fn process_loads(&self) -> &[Load] {
        &self.load_by_process
    }

    /// How many tasks the member has, in any role.
    pub(super) fn member_load(&self, member: MemberIndex) -> u32 {
        self.tasks_by_member[member.index()]
    }

    /// The number of tasks of each member, in any role.
    pub(super) fn member_loads(&self) -> &[u32] {
        &self.tasks_by_member
    }

    pub(super) fn is_active(&self, task: TaskId) -> bool {
        self.active_by_task[task.index()].is_some()
    }

    /// Whether the process has the task, in any role.
    pub(super) fn holds(&self, process: ProcessIndex, task: TaskId) -> bool {
        let on_process = |member: &MemberIndex| self.process_of(*member) == process;
        let standbys = &self.standby_row(task)[..self.standby_counts[task.index()] as usize];
        self.active_by_task[task.index()].as_ref().is_some_and(on_process) || standbys.iter().any(on_process)
    }

    /// Whether the member is below the quota of active tasks.
    pub(super) fn has_room_for_active(&self, member: MemberIndex) -> bool {
        self.active_quota.allows(self.member_load(member))
    }

    /// Whether the member is below the quota of tasks in any role.
    pub(super) fn has_room(&self, member: MemberIndex) -> bool {
        self.total_quota.allows(self.member_load(member))
    }

    pub(super) fn add_active(&mut self, task: TaskId, member: MemberIndex) {
        debug_assert!(!self.is_active(task));
        self.active_by_task[task.index()] = Some(member);
        let count = self.count(member);
        self.active_quota.on_added(count);
        self.total_quota.on_added(count);
    }

    pub(super) fn add_standby(&mut self, task: TaskId, member: MemberIndex) {
        debug_assert!(!self.holds(self.process_of(member), task));
        let row_start = task.index() * self.standbys_per_task_max as usize;
        self.standby_rows[row_start + self.standby_counts[task.index()] as usize] = member;
        self.standby_counts[task.index()] += 1;
        self.standbys_by_member[member.index()] += 1;
        let count = self.count(member);
        self.total_quota.on_added(count);
    }

    pub(super) fn into_assignment(self) -> Assignment {
        // Tasks are dealt in ascending order, so every member's lists ascend.
        let mut members: Vec<_> = core::iter::zip(&self.tasks_by_member, &self.standbys_by_member)
            .map(|(&tasks, &standbys)| MemberAssignment {
                active: Vec::with_capacity((tasks - standbys) as usize),
                standby: Vec::with_capacity(standbys as usize),
            })
            .collect();
        for (index, &active) in self.active_by_task.iter().enumerate() {
            let task = TaskId::at(index);
            if let Some(member) = active {
                members[member.index()].active.push(task);
            }
            for member in &self.standby_row(task)[..self.standby_counts[index] as usize] {
                members[member.index()].standby.push(task);
            }
        }
        Assignment { members }
    }

    fn standby_row(&self, task: TaskId) -> &[MemberIndex] {
        let row_len = self.standbys_per_task_max as usize;
        &self.standby_rows[task.index() * row_len..][..row_len]
    }

    /// Counts one more task of the member and returns its new number of tasks.
    fn count(&mut self, member: MemberIndex) -> u32 {
        let process = self.process_of(member);
        self.load_by_process[process.index()].task_count += 1;
        self.tasks_by_member[member.index()] += 1;
        self.tasks_by_member[member.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::Load;

    #[test]
    fn loads_compare_as_fractions() {
        let load = |task_count, member_count| Load { task_count, member_count };
        assert_eq!(load(1, 2), load(2, 4));
        assert!(load(1, 3) < load(1, 2));
        assert!(load(3, 1) > load(u32::MAX / 2, u32::MAX));
        assert_eq!(load(0, 1), load(0, 7));
    }
}
