//! What must hold of every assignment, whoever computed it.
//!
//! * Each task is active on exactly one member.
//! * No process holds a task twice, in whatever roles.
//! * Only stateful tasks have standbys, each at most as many as wanted and at most one per further process.
//! * There are as many entries as members, all tasks exist, and every list strictly ascends.
//!
//! Too few standbys, imbalance and needless moves are matters of quality, not of law.

use alloc::{vec, vec::Vec};

use crate::{Assignment, AssignmentInput, MemberIndex, ProcessIndex, TaskId};

/// How many violations are collected before the check stops: a broken plugin must not fill the log.
pub const VIOLATIONS_MAX: usize = 100;

/// One way in which an assignment breaks the law.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The answer must have one entry per member.
    #[error("{actual} entries for {expected} members")]
    MemberCount {
        /// How many members the input has.
        expected: usize,
        /// How many entries the answer has.
        actual: usize,
    },
    /// A list names a task that does not exist.
    #[error("member {member} is given the unknown task {task}")]
    UnknownTask {
        /// The member.
        member: MemberIndex,
        /// The task.
        task: TaskId,
    },
    /// A list of tasks does not strictly ascend; it may name the task twice.
    #[error("member {member} is given task {task} out of order")]
    UnsortedTasks {
        /// The member.
        member: MemberIndex,
        /// The first task that is not larger than the one before it.
        task: TaskId,
    },
    /// Nobody runs the task.
    #[error("task {task} is active nowhere")]
    NotActive {
        /// The task.
        task: TaskId,
    },
    /// Two members run the task.
    #[error("task {task} is active on member {first} and on member {second}")]
    ActiveTwice {
        /// The task.
        task: TaskId,
        /// The first member that runs it.
        first: MemberIndex,
        /// Another one.
        second: MemberIndex,
    },
    /// A process holds the task more than once.
    #[error("process {process} holds task {task} twice, the second time on member {member}")]
    HeldTwice {
        /// The task.
        task: TaskId,
        /// The process.
        process: ProcessIndex,
        /// The member with the second copy.
        member: MemberIndex,
    },
    /// A task without state has a standby.
    #[error("stateless task {task} has a standby on member {member}")]
    StatelessStandby {
        /// The task.
        task: TaskId,
        /// The member with the standby.
        member: MemberIndex,
    },
    /// A task has more standbys than wanted.
    #[error("task {task} has more than {standbys_max} standbys, one too many on member {member}")]
    TooManyStandbys {
        /// The task.
        task: TaskId,
        /// How many it may have.
        standbys_max: u32,
        /// The member with the standby that is one too many.
        member: MemberIndex,
    },
}

/// Checks an assignment, in time proportional to the number of placements.
///
/// `input` must have passed [`AssignmentInput::check`].
pub fn check(input: &AssignmentInput, assignment: &Assignment) -> Result<(), Vec<Violation>> {
    let mut violations = Violations(vec![]);
    let (expected, actual) = (input.members.len(), assignment.members.len());
    if expected != actual {
        violations.add(Violation::MemberCount { expected, actual });
    }
    check_lists(input, assignment, &mut violations);
    let actives = check_actives(input, assignment, &mut violations);
    check_standbys(input, assignment, &actives, &mut violations);
    if violations.0.is_empty() { Ok(()) } else { Err(violations.0) }
}

/// Violations so far, at most [`VIOLATIONS_MAX`].
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, violation: Violation) {
        if self.0.len() < VIOLATIONS_MAX {
            self.0.push(violation);
        }
    }
}

fn check_lists(input: &AssignmentInput, assignment: &Assignment, violations: &mut Violations) {
    for (index, tasks) in assignment.members.iter().enumerate() {
        let member = MemberIndex::at(index);
        for list in [&tasks.active, &tasks.standby] {
            if let Some(&task) = list.iter().find(|task| task.0 >= input.subtopologies.task_count()) {
                violations.add(Violation::UnknownTask { member, task });
            }
            if let Some(&[_, task]) = list.array_windows().find(|[before, after]| before >= after) {
                violations.add(Violation::UnsortedTasks { member, task });
            }
        }
    }
}

/// Checks that each task is active once, and says where.
fn check_actives(
    input: &AssignmentInput,
    assignment: &Assignment,
    violations: &mut Violations,
) -> Vec<Option<MemberIndex>> {
    let mut actives: Vec<Option<MemberIndex>> = vec![None; input.subtopologies.task_count() as usize];
    for (index, tasks) in assignment.members.iter().enumerate() {
        let member = MemberIndex::at(index);
        for &task in &tasks.active {
            let Some(active) = actives.get_mut(task.index()) else { continue };
            match *active {
                Some(first) => violations.add(Violation::ActiveTwice { task, first, second: member }),
                None => *active = Some(member),
            }
        }
    }
    for (index, active) in actives.iter().enumerate() {
        if active.is_none() {
            violations.add(Violation::NotActive { task: TaskId::at(index) });
        }
    }
    actives
}

/// Checks where standbys are, given where each task is active.
fn check_standbys(
    input: &AssignmentInput,
    assignment: &Assignment,
    actives: &[Option<MemberIndex>],
    violations: &mut Violations,
) {
    let process_of = |member: MemberIndex| input.members.get(member.index()).map(|member| member.process);
    let stateful = input.subtopologies.stateful_by_task();
    let standbys_max = input.standbys_per_task_max();
    // The processes with a standby of task t are the first `counts[t]` of the t-th row.
    let row_len = standbys_max as usize;
    let mut rows = vec![ProcessIndex(0); actives.len() * row_len];
    let mut counts = vec![0usize; actives.len()];
    for (index, tasks) in assignment.members.iter().enumerate() {
        let member = MemberIndex::at(index);
        let Some(process) = process_of(member) else { continue };
        for &task in &tasks.standby {
            let Some(&active) = actives.get(task.index()) else { continue };
            if !stateful[task.index()] {
                violations.add(Violation::StatelessStandby { task, member });
                continue;
            }
            let count = counts[task.index()];
            let row = &mut rows[task.index() * row_len..][..row_len];
            if active.and_then(process_of) == Some(process) || row[..count].contains(&process) {
                violations.add(Violation::HeldTwice { task, process, member });
            } else if count == row_len {
                violations.add(Violation::TooManyStandbys { task, standbys_max, member });
            } else {
                row[count] = process;
                counts[task.index()] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec, vec::Vec};

    use super::{VIOLATIONS_MAX, Violation, check};
    use crate::{
        Assignment, AssignmentConfig, AssignmentInput, AssignorError, MemberAssignment, MemberIndex, MemberInput,
        ProcessIndex, Subtopologies, SubtopologyInput, TaskId,
    };

    /// Three processes, the first with two members; tasks 0 and 1 are stateful, 2 is not.
    fn input() -> AssignmentInput {
        let subtopology =
            |id: &str, partition_count, stateful| SubtopologyInput { id: id.into(), partition_count, stateful };
        let list = vec![subtopology("0", 2, true), subtopology("1", 1, false)];
        let member = |id: &str, process| MemberInput::new(id.into(), ProcessIndex(process));
        AssignmentInput {
            processes: vec!["p".into(), "q".into(), "r".into()],
            members: vec![member("a", 0), member("b", 0), member("c", 1), member("d", 2)],
            subtopologies: Subtopologies::new(list).unwrap().into(),
            config: AssignmentConfig { num_standby_replicas: 1, rack_aware_assignment_tags: vec![] },
            changelogs: vec![],
        }
    }

    fn violations(members: &[(&[u32], &[u32])]) -> Vec<Violation> {
        let tasks = |list: &[u32]| list.iter().copied().map(TaskId).collect();
        let members = members
            .iter()
            .map(|(active, standby)| MemberAssignment { active: tasks(active), standby: tasks(standby) })
            .collect();
        check(&input(), &Assignment { members }).err().unwrap_or_default()
    }

    #[test]
    fn a_lawful_assignment_passes() {
        assert_eq!(violations(&[(&[0], &[]), (&[1], &[]), (&[2], &[0]), (&[], &[1])]), []);
        assert_eq!(violations(&[(&[0, 1, 2], &[]), (&[], &[]), (&[], &[]), (&[], &[])]), []);
    }

    #[test]
    fn every_breach_is_named() {
        let (task, member) = (TaskId(0), MemberIndex(3));
        assert_eq!(violations(&[(&[1, 2], &[]), (&[], &[]), (&[], &[]), (&[], &[])]), [Violation::NotActive { task }]);
        assert_eq!(
            violations(&[(&[0, 1, 2], &[]), (&[], &[]), (&[], &[]), (&[0], &[])]),
            [Violation::ActiveTwice { task, first: MemberIndex(0), second: member }]
        );
        assert_eq!(
            violations(&[(&[0, 1, 2], &[]), (&[], &[0]), (&[], &[]), (&[], &[])]),
            [Violation::HeldTwice { task, process: ProcessIndex(0), member: MemberIndex(1) }]
        );
        assert_eq!(
            violations(&[(&[0, 1, 2], &[]), (&[], &[]), (&[], &[0]), (&[], &[0])]),
            [Violation::TooManyStandbys { task, standbys_max: 1, member }]
        );
        assert_eq!(
            violations(&[(&[0, 1, 2], &[]), (&[], &[]), (&[], &[]), (&[], &[2])]),
            [Violation::StatelessStandby { task: TaskId(2), member }]
        );
        assert_eq!(
            violations(&[(&[0, 1, 2], &[]), (&[], &[]), (&[], &[]), (&[], &[3])]),
            [Violation::UnknownTask { member, task: TaskId(3) }]
        );
        assert_eq!(
            violations(&[(&[0, 2, 1], &[]), (&[], &[]), (&[], &[]), (&[], &[])]),
            [Violation::UnsortedTasks { member: MemberIndex(0), task: TaskId(1) }]
        );
    }

    #[test]
    fn a_wrong_number_of_members_is_a_breach() {
        assert_eq!(
            violations(&[(&[0, 1, 2], &[]), (&[], &[]), (&[], &[])]),
            [Violation::MemberCount { expected: 4, actual: 3 }]
        );
        assert_eq!(
            violations(&[(&[0, 1, 2], &[]), (&[], &[]), (&[], &[]), (&[], &[]), (&[], &[0])]),
            [Violation::MemberCount { expected: 4, actual: 5 }]
        );
    }

    #[test]
    fn the_list_of_violations_is_bounded() {
        let mut input = input();
        let wide = SubtopologyInput { id: "0".into(), partition_count: 1000, stateful: true };
        input.subtopologies = Subtopologies::new(vec![wide]).unwrap().into();
        let violations = check(&input, &Assignment::empty(4)).unwrap_err();
        assert_eq!(violations.len(), VIOLATIONS_MAX);
        let message = AssignorError::IllegalAssignment(violations).to_string();
        assert_eq!(message, "illegal assignment: task 0 is active nowhere (and 99 more)");
    }
}
