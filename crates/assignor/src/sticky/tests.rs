//! Small groups, written as text: one member per line, `process/member active tasks | standby tasks | task@offset`.

use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use riparian_types::{Offset, ProcessId};

use crate::{
    Assignment, AssignmentConfig, AssignmentInput, AssignorError, InvalidInput, MemberInput, ProcessIndex,
    StickyTaskAssignor, Subtopologies, SubtopologyInput, TaskId, TaskOffset, assign_checked, intern_processes,
};

/// Tasks 0 to `stateful_count - 1` are stateful, the `stateless_count` after them are not.
fn input(stateful_count: u32, stateless_count: u32, num_standby_replicas: u32, members: &[&str]) -> AssignmentInput {
    let subtopology =
        |id: &str, partition_count, stateful| SubtopologyInput { id: id.into(), partition_count, stateful };
    let list = vec![subtopology("0", stateful_count, true), subtopology("1", stateless_count, false)];
    let (process_ids, mut members): (Vec<ProcessId>, Vec<MemberInput>) = members.iter().copied().map(member).unzip();
    let (processes, indexes) = intern_processes(&process_ids);
    for (member, process) in core::iter::zip(&mut members, indexes) {
        member.process = process;
    }
    AssignmentInput {
        processes,
        members,
        subtopologies: Subtopologies::new(list).unwrap().into(),
        config: AssignmentConfig { num_standby_replicas, rack_aware_assignment_tags: vec![] },
        changelogs: vec![],
    }
}

fn member(line: &str) -> (ProcessId, MemberInput) {
    let (names, holdings) = line.split_once(' ').unwrap_or((line, ""));
    let (process, id) = names.split_once('/').unwrap();
    let mut fields = holdings.split('|').map(|field| field.split_whitespace());
    let mut tasks = || fields.next().into_iter().flatten().map(|task| TaskId(task.parse().unwrap())).collect();
    let mut member = MemberInput::new(id.into(), ProcessIndex(0));
    member.active = tasks();
    member.standby = tasks();
    member.task_offsets = fields
        .next()
        .into_iter()
        .flatten()
        .map(|reported| {
            let (task, offset) = reported.split_once('@').unwrap();
            TaskOffset { task: TaskId(task.parse().unwrap()), offset: Offset(offset.parse().unwrap()) }
        })
        .collect();
    (process.into(), member)
}

fn render(assignment: &Assignment) -> Vec<String> {
    let list = |tasks: &[TaskId]| tasks.iter().map(TaskId::to_string).collect::<Vec<_>>().join(" ");
    assignment.members.iter().map(|member| format!("{} | {}", list(&member.active), list(&member.standby))).collect()
}

fn check(input: &AssignmentInput, expected: &[&str]) {
    assert_eq!(render(&assign_checked(&StickyTaskAssignor, input).unwrap()), expected);
}

#[test]
fn nothing_to_do_is_no_error() {
    check(&input(0, 0, 1, &["p/a", "q/b"]), &[" | ", " | "]);
    check(&input(0, 0, 1, &[]), &[]);
}

#[test]
fn tasks_without_members_are_an_error() {
    let result = assign_checked(&StickyTaskAssignor, &input(2, 1, 0, &[]));
    assert_eq!(result, Err(AssignorError::NoMembers { task_count: 3 }));
}

#[test]
fn an_input_that_breaks_the_contract_is_an_error() {
    let input = input(2, 0, 0, &["p/a 2"]);
    let unknown = InvalidInput::UnknownTask { member: "a".into(), task: TaskId(2) };
    assert_eq!(assign_checked(&StickyTaskAssignor, &input), Err(AssignorError::InvalidInput(unknown)));
}

#[test]
fn new_members_share_evenly_and_ties_go_to_the_smaller_id() {
    check(&input(5, 0, 0, &["q/a", "p/b"]), &["1 3 | ", "0 2 4 | "]);
    check(&input(6, 0, 0, &["p/a", "p/b", "q/c"]), &["0 3 | ", "2 5 | ", "1 4 | "]);
}

#[test]
fn a_joining_member_takes_no_more_than_its_share() {
    check(&input(6, 0, 0, &["p/a 0 1 2", "q/b 3 4 5", "r/c"]), &["0 1 | ", "3 4 | ", "2 5 | "]);
    check(&input(3, 0, 0, &["p/a 0 1", "q/b 2", "r/c"]), &["0 | ", "2 | ", "1 | "]);
}

#[test]
fn a_standby_takes_over_from_a_member_that_left() {
    check(&input(4, 0, 1, &["p/a 0 | 3", "q/b 1 | 2"]), &["0 3 | 1 2", "1 2 | 0 3"]);
}

#[test]
fn who_hands_a_task_over_keeps_a_standby_while_there_is_room() {
    check(&input(3, 0, 1, &["p/a 0 1 2", "q/b", "r/c"]), &["0 | 2", "1 | 0", "2 | 1"]);
}

#[test]
fn a_restarted_group_finds_its_state_again() {
    // Both threads of a process report what is on its disk. The furthest copy of task 1 is on q; so is task 3's only
    // copy, but q is full.
    let members = ["p/a | | 0@9 1@4", "p/b | | 0@9 1@4", "q/c | | 1@7 2@5 3@5", "q/d | | 1@7 2@5 3@5"];
    check(&input(4, 0, 0, &members), &["0 | ", "3 | ", "1 | ", "2 | "]);
}

#[test]
fn standbys_are_on_other_processes_and_only_for_state() {
    check(&input(2, 2, 1, &["p/a", "p/b", "q/c"]), &["0 3 | ", "2 | 1", "1 | 0"]);
    check(&input(2, 0, 5, &["p/a", "q/b"]), &["0 | 1", "1 | 0"]);
    check(&input(2, 0, 1, &["p/a", "p/b"]), &["0 | ", "1 | "]);
}
