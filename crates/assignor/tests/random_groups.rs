//! Properties of the built-in assignors over seeded random groups that change and change again.

use riparian_assignor::{
    Assignment, AssignmentInput, MemberAssignment, MemberInput, assign_checked, built_in, testbed::Group,
};

/// Calls `check` with many inputs and what sticky makes of them.
fn for_each_change(mut check: impl FnMut(u64, &AssignmentInput, &Assignment)) {
    let sticky = built_in::find("sticky").expect("it is built in");
    for seed in 0..400 {
        let mut group = Group::new(seed);
        for _ in 0..12 {
            let input = group.input();
            let assignment = assign_checked(sticky, &input).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            check(seed, &input, &assignment);
            group.adopt(&assignment);
            group.change();
        }
    }
}

fn active_counts(assignment: &Assignment) -> Vec<usize> {
    assignment.members.iter().map(|member| member.active.len()).collect()
}

fn task_counts(assignment: &Assignment) -> Vec<usize> {
    assignment.members.iter().map(|member| member.active.len() + member.standby.len()).collect()
}

fn spread(counts: &[usize]) -> usize {
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

/// How many active tasks another member runs now.
fn moved_count(input: &AssignmentInput, assignment: &Assignment) -> usize {
    let moved = |(before, after): (&MemberInput, &MemberAssignment)| {
        before.active.iter().filter(|task| after.active.binary_search(task).is_err()).count()
    };
    std::iter::zip(&input.members, &assignment.members).map(moved).sum()
}

/// How many active tasks have to move so that every member can have the average, rounded down or up.
fn forced_move_count(input: &AssignmentInput) -> usize {
    let task_count = input.subtopologies.task_count() as usize;
    let (floor, mut rest) = (task_count / input.members.len(), task_count % input.members.len());
    let mut forced = 0;
    for member in &input.members {
        let mut room = floor;
        if member.active.len() > floor && rest > 0 {
            room += 1;
            rest -= 1;
        }
        forced += member.active.len().saturating_sub(room);
    }
    forced
}

#[test]
fn no_member_has_more_actives_than_its_share() {
    for_each_change(|seed, input, assignment| {
        let share = (input.subtopologies.task_count() as usize).div_ceil(input.members.len());
        let counts = active_counts(assignment);
        assert!(counts.iter().all(|&count| count <= share), "seed {seed}: {counts:?}");
    });
}

/// With several members per process Kafka's order by the load of processes can leave a member below the floor.
#[test]
fn processes_of_one_member_differ_by_at_most_one_active() {
    let mut checked_count = 0;
    for_each_change(|seed, input, assignment| {
        if input.processes.len() == input.members.len() {
            checked_count += 1;
            let counts = active_counts(assignment);
            assert!(spread(&counts) <= 1, "seed {seed}: {counts:?}");
        }
    });
    assert!(checked_count > 200, "only {checked_count} inputs are of this kind");
}

#[test]
fn every_standby_that_fits_is_placed() {
    for_each_change(|seed, input, assignment| {
        let expected = input.subtopologies.stateful_task_count() * input.standbys_per_task_max();
        let placed: usize = assignment.members.iter().map(|member| member.standby.len()).sum();
        assert_eq!(placed, expected as usize, "seed {seed}");
    });
}

#[test]
fn no_more_actives_move_than_balance_forces() {
    for_each_change(|seed, input, assignment| {
        let (moved, forced) = (moved_count(input, assignment), forced_move_count(input));
        assert!(moved <= forced, "seed {seed}: {moved} moved, {forced} had to");
    });
}

#[test]
fn a_balanced_group_that_does_not_change_keeps_everything() {
    let sticky = built_in::find("sticky").unwrap();
    let mut checked_count = 0;
    for_each_change(|seed, input, assignment| {
        if spread(&active_counts(assignment)) <= 1 && spread(&task_counts(assignment)) <= 1 {
            checked_count += 1;
            let mut next = input.clone();
            for (member, tasks) in std::iter::zip(&mut next.members, &assignment.members) {
                member.active.clone_from(&tasks.active);
                member.standby.clone_from(&tasks.standby);
                member.task_offsets.clear();
            }
            assert_eq!(assign_checked(sticky, &next).unwrap(), *assignment, "seed {seed}");
        }
    });
    assert!(checked_count > 2000, "only {checked_count} inputs are of this kind");
}

#[test]
fn only_the_order_of_ids_matters() {
    let sticky = built_in::find("sticky").unwrap();
    for_each_change(|seed, input, assignment| {
        let mut renamed = input.clone();
        for (index, process) in renamed.processes.iter_mut().enumerate() {
            *process = format!("process-{index:04}").into();
        }
        for (index, member) in renamed.members.iter_mut().enumerate() {
            member.id = format!("member-{index:04}").into();
        }
        assert_eq!(assign_checked(sticky, &renamed).unwrap(), *assignment, "seed {seed}");
    });
}
