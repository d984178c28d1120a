//! Figures that say how good an assignment is, named as in the files of Kafka's figures.

use std::collections::BTreeSet;

use riparian_assignor::{Assignment, AssignmentInput, MemberAssignment, MemberIndex, ProcessIndex, TaskId};

/// Where tasks are or were: the member of each active, and the processes of the standbys.
struct Placements {
    actives: Vec<Option<MemberIndex>>,
    standbys: BTreeSet<(TaskId, ProcessIndex)>,
}

impl Placements {
    fn before(input: &AssignmentInput) -> Self {
        Self::collect(input, input.members.iter().map(|member| (&member.active, &member.standby)))
    }

    fn after(input: &AssignmentInput, assignment: &Assignment) -> Self {
        Self::collect(input, assignment.members.iter().map(|member| (&member.active, &member.standby)))
    }

    fn collect<'a>(input: &AssignmentInput, members: impl Iterator<Item = (&'a Vec<TaskId>, &'a Vec<TaskId>)>) -> Self {
        let mut actives = vec![None; input.subtopologies.task_count() as usize];
        let mut standbys = BTreeSet::new();
        for (index, (active, standby)) in members.enumerate() {
            active.iter().for_each(|task| actives[task.index()] = Some(MemberIndex(index as u32)));
            standbys.extend(standby.iter().map(|&task| (task, input.members[index].process)));
        }
        Self { actives, standbys }
    }
}

/// Whether a small value of this figure is better than a large one.
pub(crate) fn is_better_small(figure: &str) -> bool {
    matches!(figure, "active_moved_member" | "active_moved_process")
}

/// The figures by name.
pub(crate) fn figures(input: &AssignmentInput, assignment: &Assignment) -> Vec<(&'static str, u64)> {
    let (before, after) = (Placements::before(input), Placements::after(input, assignment));
    let process = |member: MemberIndex| input.members[member.index()].process;
    let mut moved_member = 0;
    let mut moved_process = 0;
    let mut unowned_given_to_a_standby = 0;
    for (task, (old, new)) in std::iter::zip(&before.actives, &after.actives).enumerate() {
        match (*old, *new) {
            (Some(old), Some(new)) => {
                moved_member += u64::from(old != new);
                moved_process += u64::from(process(old) != process(new));
            }
            (None, Some(new)) => {
                unowned_given_to_a_standby += u64::from(before.standbys.contains(&(TaskId(task as u32), process(new))));
            }
            (_, None) => {}
        }
    }
    vec![
        ("active_assigned", after.actives.iter().flatten().count() as u64),
        ("standby_assigned", after.standbys.len() as u64),
        ("active_moved_member", moved_member),
        ("active_moved_process", moved_process),
        ("unowned_given_to_a_standby", unowned_given_to_a_standby),
        ("standby_kept", before.standbys.intersection(&after.standbys).count() as u64),
    ]
}

/// By name, the least and the largest of some count over all members or processes.
pub(crate) fn spreads(input: &AssignmentInput, assignment: &Assignment) -> Vec<(&'static str, (u64, u64))> {
    let stateful = |task: &&TaskId| {
        let (subtopology, _) = input.subtopologies.locate(**task).expect("the assignment was checked");
        input.subtopologies.list()[subtopology.index()].stateful
    };
    let by_member =
        |count: fn(&MemberAssignment) -> usize| min_max(assignment.members.iter().map(|member| count(member) as u64));
    let by_process = |count: &dyn Fn(&MemberAssignment) -> usize| {
        let mut counts = vec![0; input.processes.len()];
        for (member, tasks) in std::iter::zip(&input.members, &assignment.members) {
            counts[member.process.index()] += count(tasks) as u64;
        }
        min_max(counts.into_iter())
    };
    vec![
        ("active_per_member", by_member(|member| member.active.len())),
        ("standby_per_member", by_member(|member| member.standby.len())),
        ("tasks_per_member", by_member(|member| member.active.len() + member.standby.len())),
        ("active_per_process", by_process(&|member| member.active.len())),
        ("stateful_active_per_process", by_process(&|member| member.active.iter().filter(stateful).count())),
        ("standby_per_process", by_process(&|member| member.standby.len())),
    ]
}

fn min_max(counts: impl Iterator<Item = u64> + Clone) -> (u64, u64) {
    (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0))
}
