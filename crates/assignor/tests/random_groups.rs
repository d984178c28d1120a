//! Properties of the built-in assignors over seeded random groups that change and change again.

use std::{collections::BTreeSet, sync::Arc};

use riparian_assignor::{
    Assignment, AssignmentConfig, AssignmentInput, MemberAssignment, MemberInput, ProcessIndex, Subtopologies,
    SubtopologyInput, TaskId, TaskOffset, assign_checked, built_in, intern_processes,
};
use riparian_types::{MemberId, Offset, Prng, ProcessId};

/// A group between two assignments: members in the order of their ids, with what they hold.
struct Group {
    prng: Prng,
    subtopologies: Arc<Subtopologies>,
    num_standby_replicas: u32,
    members: Vec<(ProcessId, MemberInput)>,
    /// Processes that are gone, with the tasks whose state is still on their disks.
    stopped: Vec<(ProcessId, BTreeSet<TaskId>)>,
    /// How many processes and members there have ever been.
    started_count: u64,
}

impl Group {
    fn new(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let count = prng.below(8);
        let subtopologies = (0..count)
            .map(|index| SubtopologyInput {
                id: format!("{index}").into(),
                partition_count: prng.below(30) as u32,
                stateful: !prng.chance(3),
            })
            .collect();
        let mut group = Self {
            num_standby_replicas: prng.below(4) as u32,
            subtopologies: Subtopologies::new(subtopologies).expect("the ids are sorted").into(),
            members: vec![],
            stopped: vec![],
            started_count: 0,
            prng,
        };
        for _ in 0..1 + group.prng.below(8) {
            group.start_process();
        }
        group
    }

    fn input(&self) -> AssignmentInput {
        let (processes, indexes) = intern_processes(self.members.iter().map(|(process, _)| process));
        let members = std::iter::zip(&self.members, indexes)
            .map(|((_, member), process)| MemberInput { process, ..member.clone() })
            .collect();
        let config =
            AssignmentConfig { num_standby_replicas: self.num_standby_replicas, rack_aware_assignment_tags: vec![] };
        AssignmentInput { processes, members, subtopologies: Arc::clone(&self.subtopologies), config }
    }

    /// What the members hold becomes what they were given.
    fn adopt(&mut self, assignment: Assignment) {
        for ((_, member), tasks) in std::iter::zip(&mut self.members, assignment.members) {
            member.active = tasks.active;
            member.standby = tasks.standby;
            member.task_offsets.clear();
        }
    }

    fn change(&mut self) {
        match self.prng.below(6) {
            0 => self.start_process(),
            1 => self.restart_process(),
            2 => {
                let process = self.some_process();
                self.start_member(process, &BTreeSet::new());
            }
            3 => self.stop_process(),
            4 => self.stop_member(),
            _ => self.num_standby_replicas = self.prng.below(4) as u32,
        }
    }

    fn start_process(&mut self) {
        self.started_count += 1;
        // The ids come in no particular order.
        let process = ProcessId::from(format!("p{:03}-{}", self.prng.below(1000), self.started_count));
        for _ in 0..1 + self.prng.below(4) {
            self.start_member(process.clone(), &BTreeSet::new());
        }
    }

    /// A process comes back and finds its state on disk, which each of its members reports.
    fn restart_process(&mut self) {
        let Some((process, on_disk)) = self.stopped.pop() else { return };
        for _ in 0..1 + self.prng.below(4) {
            self.start_member(process.clone(), &on_disk);
        }
    }

    fn start_member(&mut self, process: ProcessId, on_disk: &BTreeSet<TaskId>) {
        self.started_count += 1;
        let id = MemberId::from(format!("m{:03}-{}", self.prng.below(1000), self.started_count));
        // `input` sets the process.
        let mut member = MemberInput::new(id, ProcessIndex(0));
        member.task_offsets =
            on_disk.iter().map(|&task| TaskOffset { task, offset: Offset(self.prng.below(3) as i64) }).collect();
        let place = self.members.partition_point(|(_, other)| other.id < member.id);
        self.members.insert(place, (process, member));
    }

    fn stop_process(&mut self) {
        let process = self.some_process();
        if self.members.iter().all(|(other, _)| *other == process) {
            return;
        }
        let (gone, left) = std::mem::take(&mut self.members).into_iter().partition(|(other, _)| *other == process);
        self.members = left;
        let gone: Vec<(ProcessId, MemberInput)> = gone;
        let on_disk = gone.iter().flat_map(|(_, member)| member.active.iter().chain(&member.standby)).copied();
        self.stopped.push((process, on_disk.collect()));
    }

    fn stop_member(&mut self) {
        if self.members.len() > 1 {
            let index = self.prng.below(self.members.len() as u64) as usize;
            self.members.remove(index);
        }
    }

    fn some_process(&mut self) -> ProcessId {
        let index = self.prng.below(self.members.len() as u64) as usize;
        self.members[index].0.clone()
    }
}

/// Calls `check` with many inputs and what sticky makes of them.
fn for_each_change(mut check: impl FnMut(u64, &AssignmentInput, &Assignment)) {
    let sticky = built_in::find("sticky").expect("it is built in");
    for seed in 0..400 {
        let mut group = Group::new(seed);
        for _ in 0..12 {
            let input = group.input();
            let assignment = assign_checked(sticky, &input).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            check(seed, &input, &assignment);
            group.adopt(assignment);
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
