//! Cases from the field (`docs/field-cases.md`), each on every assignor that claims it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

use riparian_assignor::{
    Assignment, AssignmentConfig, AssignmentInput, BalancedTaskAssignor, MemberInput, OptimalTaskAssignor,
    StickyTaskAssignor, Subtopologies, SubtopologyInput, TaskAssignor, TaskId, TaskOffset, assign_checked, built_in,
    intern_processes,
};
use riparian_types::{Offset, Prng, ProcessId};

/// A member in words: its id, its process, and the offsets that it reports.
struct Member<'a> {
    id: String,
    process: &'a str,
    offsets: Vec<(u32, i64)>,
}

fn member(id: impl Into<String>, process: &str) -> Member<'_> {
    Member { id: id.into(), process, offsets: vec![] }
}

fn input(subtopologies: &[(u32, bool)], num_standby_replicas: u32, mut members: Vec<Member<'_>>) -> AssignmentInput {
    members.sort_by(|one, other| one.id.cmp(&other.id));
    let ids: Vec<ProcessId> = members.iter().map(|member| member.process.into()).collect();
    let (processes, indexes) = intern_processes(&ids);
    let offset = |&(task, offset)| TaskOffset { task: TaskId(task), offset: Offset(offset) };
    let members = std::iter::zip(&members, indexes).map(|(member, process)| MemberInput {
        task_offsets: member.offsets.iter().map(offset).collect(),
        ..MemberInput::new(member.id.as_str().into(), process)
    });
    let list = subtopologies.iter().enumerate().map(|(index, &(partition_count, stateful))| SubtopologyInput {
        id: index.to_string().into(),
        partition_count,
        stateful,
    });
    AssignmentInput {
        processes,
        members: members.collect(),
        subtopologies: Subtopologies::new(list.collect()).unwrap().into(),
        config: AssignmentConfig { num_standby_replicas, rack_aware_assignment_tags: vec![] },
        changelogs: vec![],
    }
}

/// The topology T3: stateless, stateful, stateful.
fn t3(partitions: u32) -> [(u32, bool); 3] {
    [(partitions, false), (partitions, true), (partitions, true)]
}

/// The members as they are once they hold what they were given.
fn held(mut input: AssignmentInput, assignment: &Assignment) -> AssignmentInput {
    for (member, tasks) in std::iter::zip(&mut input.members, &assignment.members) {
        member.active.clone_from(&tasks.active);
        member.standby.clone_from(&tasks.standby);
        member.task_offsets.clear();
    }
    input
}

/// How many actives each process has of each subtopology.
fn counts(input: &AssignmentInput, assignment: &Assignment) -> Vec<Vec<u32>> {
    let mut counts = vec![vec![0; input.subtopologies.list().len()]; input.processes.len()];
    for (member, tasks) in std::iter::zip(&input.members, &assignment.members) {
        for &task in &tasks.active {
            let (subtopology, _) = input.subtopologies.locate(task).unwrap();
            counts[member.process.index()][subtopology.index()] += 1;
        }
    }
    counts
}

fn spread(counts: impl Iterator<Item = u32> + Clone) -> u32 {
    counts.clone().max().unwrap() - counts.min().unwrap()
}

fn assert_even(name: &str, input: &AssignmentInput, assignment: &Assignment) {
    let counts = counts(input, assignment);
    assert!(spread(counts.iter().map(|row| row.iter().sum())) <= 1, "{name}: {counts:?}");
    assert!(spread(counts.iter().map(|row| row[1] + row[2])) <= 1, "{name}: stateful {counts:?}");
    for subtopology in 0..3 {
        assert!(spread(counts.iter().map(|row| row[subtopology])) <= 1, "{name}: {subtopology} of {counts:?}");
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(count - 1);
    let with_last_at = |place: usize| {
        shorter.iter().map(move |order| {
            let mut order = order.clone();
            order.insert(place, count - 1);
            order
        })
    };
    (0..count).flat_map(with_last_at).collect()
}

#[test]
fn a_01_a_standby_is_placed_wherever_there_is_a_process_for_it() {
    for (processes, partitions) in [(["p1", "p1", "p2", "p3"], 3), (["p1", "p2", "p2", "p2"], 7)] {
        for order in permutations(4) {
            let mut current: BTreeMap<&str, AssignmentInput> = BTreeMap::new();
            for num_standby_replicas in [1, 2] {
                for assignor in built_in::ASSIGNORS {
                    let members = std::iter::zip(&order, processes);
                    let members = members.map(|(place, process)| member(format!("m{place}"), process)).collect();
                    let fresh = input(&[(partitions, true)], num_standby_replicas, members);
                    let mut input = current.remove(assignor.name()).unwrap_or(fresh);
                    input.config.num_standby_replicas = num_standby_replicas;
                    let assignment = assign_checked(*assignor, &input).unwrap();
                    let placed: usize = assignment.members.iter().map(|member| member.standby.len()).sum();
                    let expected = partitions * input.standbys_per_task_max();
                    assert_eq!(placed, expected as usize, "{} with {order:?}: {assignment:?}", assignor.name());
                    current.insert(assignor.name(), held(input, &assignment));
                }
            }
        }
    }
}

#[test]
fn a_02_after_a_full_stop_tasks_go_where_their_state_is() {
    // Four processes that had two tasks each; one of them has an old bit of a third.
    let had = [[0, 5], [1, 4], [2, 7], [3, 6]];
    for assignor in [&StickyTaskAssignor as &dyn TaskAssignor, &OptimalTaskAssignor] {
        for order in permutations(4) {
            let members = (0..4).map(|place| {
                let mut offsets: Vec<(u32, i64)> =
                    had[place].iter().map(|&task| (task, 1000 + i64::from(task))).collect();
                if place == 2 {
                    offsets.push((0, 30));
                    offsets.sort_unstable();
                }
                Member { id: format!("new-{}", order[place]), process: ["a", "b", "c", "d"][place], offsets }
            });
            let input = input(&[(4, true), (4, true)], 0, members.collect());
            let assignment = assign_checked(assignor, &input).unwrap();
            for (member, tasks) in std::iter::zip(&input.members, &assignment.members) {
                let mine: Vec<TaskId> = had[member.process.index()].map(TaskId).to_vec();
                assert_eq!(tasks.active, mine, "{} with {order:?}", assignor.name());
            }
        }
    }
}

/// Not in the text of the case: who runs a task keeps it whatever others report, as far as the load allows.
#[test]
fn a_02_what_runs_outranks_what_is_reported() {
    for assignor in [&StickyTaskAssignor as &dyn TaskAssignor, &OptimalTaskAssignor] {
        let members = vec![member("m1", "a"), member("m2", "b")];
        let mut input = input(&[(4, true)], 0, members);
        input.members[0].active = vec![TaskId(0), TaskId(1)];
        input.members[1].active = vec![TaskId(2), TaskId(3)];
        input.members[0].task_offsets = vec![TaskOffset { task: TaskId(2), offset: Offset(9_000_000) }];
        let assignment = assign_checked(assignor, &input).unwrap();
        for (member, tasks) in std::iter::zip(&input.members, &assignment.members) {
            assert_eq!(tasks.active, member.active, "{}", assignor.name());
        }
    }
}

#[test]
fn a_03_work_is_even_not_only_counts() {
    for assignor in [&BalancedTaskAssignor as &dyn TaskAssignor, &OptimalTaskAssignor] {
        let name = assignor.name();
        let members = ["m1", "m2", "m3", "m4"].map(|id| member(id, if id < "m3" { "p1" } else { "p2" }));
        let two = input(&t3(4), 0, members.into());
        let assignment = assign_checked(assignor, &two).unwrap();
        assert_even(name, &two, &assignment);
        let members = ["p1", "p2", "p3", "p4"].map(|process| member(format!("m-{process}"), process));
        let four = input(&t3(12), 0, members.into());
        let assignment = assign_checked(assignor, &four).unwrap();
        assert_even(name, &four, &assignment);
    }
}

#[test]
fn a_03_scaling_keeps_work_even_and_moves_no_more_than_it_must() {
    // Tasks per subtopology, and processes before and after each step.
    for (partitions, steps) in [(6, [2, 3, 2]), (12, [2, 4, 2]), (12, [3, 4, 3])] {
        let mut assignment: Option<(AssignmentInput, Assignment)> = None;
        for process_count in steps {
            let names: Vec<String> = (0..process_count).map(|place| format!("p{place}")).collect();
            let members = names.iter().map(|process| member(format!("m-{process}"), process)).collect();
            let mut input = input(&t3(partitions), 0, members);
            if let Some((before, assignment)) = &assignment {
                for member in &mut input.members {
                    if let Some(place) = before.members.iter().position(|other| other.id == member.id) {
                        member.active.clone_from(&assignment.members[place].active);
                    }
                }
            }
            let owned: usize = input.members.iter().map(|member| member.active.len()).sum();
            let share = (3 * partitions).div_ceil(process_count) as usize;
            let next = assign_checked(&OptimalTaskAssignor, &input).unwrap();
            assert_even(&format!("{partitions} partitions, {process_count} processes"), &input, &next);
            let kept: usize = std::iter::zip(&input.members, &next.members)
                .map(|(member, tasks)| tasks.active.iter().filter(|task| member.active.contains(task)).count())
                .sum();
            let could_keep: usize = input.members.iter().map(|member| member.active.len().min(share)).sum();
            assert_eq!(kept, could_keep.min(owned), "{partitions} partitions, {process_count} processes");
            assignment = Some((input, next));
        }
    }
}

#[test]
fn a_06_standbys_are_for_state_and_on_other_processes() {
    for assignor in built_in::ASSIGNORS {
        let six = (0..6).map(|place| member(format!("m{place}"), if place % 2 == 0 { "p1" } else { "p2" })).collect();
        let two_processes = input(&t3(4), 1, six);
        let assignment = assign_checked(*assignor, &two_processes).unwrap();
        let standbys: usize = assignment.members.iter().map(|member| member.standby.len()).sum();
        assert_eq!(standbys, 8, "{}", assignor.name());
        let three = (0..3).map(|place| member(format!("m{place}"), "p1")).collect();
        let assignment = assign_checked(*assignor, &input(&t3(4), 2, three)).unwrap();
        assert!(assignment.members.iter().all(|member| member.standby.is_empty()), "{}", assignor.name());
    }
}

/// 500 processes of two members, 10,000 tasks and two standbys each; a tenth of the processes is gone and back. How long
/// that takes is the benchmark's business, and how a server fares the suite `large-groups`'.
#[test]
fn a_08_large_groups_are_assigned_and_assigned_again() {
    let names: Vec<String> = (0..500).map(|place| format!("p{place:03}")).collect();
    let all =
        || names.iter().flat_map(|process| ["a", "b"].map(|thread| member(format!("{process}-{thread}"), process)));
    for assignor in built_in::ASSIGNORS {
        let mut prng = Prng::new(8);
        let subtopologies = [(1000, true); 10];
        let first = input(&subtopologies, 2, all().collect());
        let assignment = assign_checked(*assignor, &first).unwrap();
        let mut back = held(first, &assignment);
        for member in &mut back.members {
            if member.process.0 % 10 == 0 {
                let on_disk = std::mem::take(&mut member.active).into_iter().chain(std::mem::take(&mut member.standby));
                member.task_offsets =
                    on_disk.map(|task| TaskOffset { task, offset: Offset(prng.below(1000) as i64) }).collect();
                member.task_offsets.sort_unstable_by_key(|reported| reported.task);
            }
        }
        let again = assign_checked(*assignor, &back).unwrap();
        let standbys: usize = again.members.iter().map(|member| member.standby.len()).sum();
        assert_eq!(standbys, 20_000, "{}", assignor.name());
    }
}
