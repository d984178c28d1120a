//! Who ran each task, and who has state of it, before the new assignment.

use alloc::{vec, vec::Vec};
use core::cmp::Reverse;

use riparian_types::Offset;

use crate::{AssignmentInput, MemberIndex, MemberInput, TaskId};

/// The input's current tasks and reported offsets, turned around: from the task to its members.
pub(super) struct History {
    actives: Vec<Option<MemberIndex>>,
    copies: Vec<Copy>,
    /// Where each task's copies begin, and one more entry: the number of all copies.
    copy_starts: Vec<u32>,
}

/// State of a task on a member that does not necessarily run it.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    /// Whether it is a standby, not just state that the member reports.
    is_standby: bool,
    /// How far the state reaches; 0 for a standby that reports nothing.
    offset: Offset,
    pub(super) member: MemberIndex,
}

impl History {
    pub(super) fn new(input: &AssignmentInput) -> Self {
        let task_count = input.subtopologies.task_count() as usize;
        let mut actives = vec![None; task_count];
        let mut copy_starts = vec![0u32; task_count + 1];
        for (index, member) in input.members.iter().enumerate() {
            for task in &member.active {
                actives[task.index()] = Some(MemberIndex::at(index));
            }
            for_each_copy(member, |task, _, _| copy_starts[task.index() + 1] += 1);
        }
        for task in 0..task_count {
            copy_starts[task + 1] += copy_starts[task];
        }
        let none = Copy { is_standby: false, offset: Offset::ZERO, member: MemberIndex(0) };
        let mut copies = vec![none; copy_starts[task_count] as usize];
        let mut next = copy_starts.clone();
        for (index, member) in input.members.iter().enumerate() {
            for_each_copy(member, |task, is_standby, offset| {
                let place = &mut next[task.index()];
                copies[*place as usize] = Copy { is_standby, offset, member: MemberIndex::at(index) };
                *place += 1;
            });
        }
        let mut history = Self { actives, copies, copy_starts };
        for task in 0..task_count {
            let range = history.copy_range(task);
            // The sort is stable: members with equal copies keep their order.
            history.copies[range].sort_by_key(|copy| Reverse((copy.is_standby, copy.offset)));
        }
        history
    }

    /// The member that runs the task; the last if several claim it.
    pub(super) fn active(&self, task: TaskId) -> Option<MemberIndex> {
        self.actives[task.index()]
    }

    /// Copies of the task, the best first: standbys before other state, then by how far they reach, then by member.
    pub(super) fn copies(&self, task: TaskId) -> &[Copy] {
        &self.copies[self.copy_range(task.index())]
    }

    /// The members that have state of the task, the most worth keeping first.
    pub(super) fn with_state(&self, task: TaskId) -> impl Iterator<Item = MemberIndex> + Clone {
        self.active(task).into_iter().chain(self.copies(task).iter().map(|copy| copy.member))
    }

    fn copy_range(&self, task: usize) -> core::ops::Range<usize> {
        self.copy_starts[task] as usize..self.copy_starts[task + 1] as usize
    }
}

/// Visits a member's standbys and what else it reports state of, by walking both ascending lists side by side.
fn for_each_copy(member: &MemberInput, mut visit: impl FnMut(TaskId, bool, Offset)) {
    let mut standbys = member.standby.iter().copied().peekable();
    for reported in &member.task_offsets {
        while let Some(task) = standbys.next_if(|&task| task < reported.task) {
            visit(task, true, Offset::ZERO);
        }
        let is_standby = standbys.next_if_eq(&reported.task).is_some();
        visit(reported.task, is_standby, reported.offset);
    }
    standbys.for_each(|task| visit(task, true, Offset::ZERO));
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use riparian_types::Offset;

    use super::History;
    use crate::{
        AssignmentConfig, AssignmentInput, MemberIndex, MemberInput, ProcessIndex, Subtopologies, SubtopologyInput,
        TaskId, TaskOffset,
    };

    fn history(members: Vec<MemberInput>) -> History {
        let subtopology = SubtopologyInput { id: "0".into(), partition_count: 3, stateful: true };
        History::new(&AssignmentInput {
            processes: vec!["p".into()],
            members,
            subtopologies: Subtopologies::new(vec![subtopology]).unwrap().into(),
            config: AssignmentConfig { num_standby_replicas: 1, rack_aware_assignment_tags: vec![] },
            changelogs: vec![],
        })
    }

    fn member(id: &str, active: &[u32], standby: &[u32], offsets: &[(u32, i64)]) -> MemberInput {
        let mut member = MemberInput::new(id.into(), ProcessIndex(0));
        member.active = active.iter().copied().map(TaskId).collect();
        member.standby = standby.iter().copied().map(TaskId).collect();
        member.task_offsets =
            offsets.iter().map(|&(task, offset)| TaskOffset { task: TaskId(task), offset: Offset(offset) }).collect();
        member
    }

    fn members_with_copies(history: &History, task: u32) -> Vec<u32> {
        history.copies(TaskId(task)).iter().map(|copy| copy.member.0).collect()
    }

    #[test]
    fn standbys_come_first_then_the_furthest() {
        let history = history(vec![
            member("a", &[], &[], &[(1, 900)]),
            member("b", &[], &[1], &[(0, 3), (1, 10)]),
            member("c", &[], &[0, 1], &[(1, 20), (2, 5)]),
            member("d", &[], &[1, 2], &[]),
            member("e", &[], &[], &[(1, 901)]),
        ]);
        assert_eq!(members_with_copies(&history, 0), [2, 1]);
        assert_eq!(members_with_copies(&history, 1), [2, 1, 3, 4, 0]);
        assert_eq!(members_with_copies(&history, 2), [3, 2]);
    }

    #[test]
    fn equal_copies_keep_the_order_of_members() {
        let history = history(vec![
            member("a", &[], &[], &[(0, 5)]),
            member("b", &[], &[], &[(0, 5)]),
            member("c", &[], &[], &[(0, 5)]),
        ]);
        assert_eq!(members_with_copies(&history, 0), [0, 1, 2]);
    }

    #[test]
    fn of_several_owners_the_last_counts() {
        let history = history(vec![member("a", &[0, 1], &[], &[]), member("b", &[1], &[], &[])]);
        let owners = [0, 1, 2].map(|task| history.active(TaskId(task)));
        assert_eq!(owners, [Some(MemberIndex(0)), Some(MemberIndex(1)), None]);
    }
}
