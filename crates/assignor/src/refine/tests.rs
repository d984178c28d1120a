//! Single decisions of the refiner, and seeded groups that walk to their targets step by step.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use riparian_types::{Offset, Prng};

use super::{Stage, Step, WarmupConfig, WarmupSupport, refine};
use crate::{
    Assignment, AssignmentConfig, AssignmentInput, Changelogs, MemberIndex, MemberInput, ProcessIndex, Subtopologies,
    SubtopologyInput, TaskId, TaskOffset, built_in, testbed::Group,
};

const LAG: i64 = 100;

fn config(num_warmup_replicas: u32) -> WarmupConfig {
    WarmupConfig { num_warmup_replicas, acceptable_recovery_lag: LAG }
}

/// A group of members `a`, `b`, … on the given processes, with one stateful subtopology of four tasks.
fn group(processes: &[u32]) -> AssignmentInput {
    let subtopology = SubtopologyInput { id: "0".into(), partition_count: 4, stateful: true };
    let count = processes.iter().max().unwrap() + 1;
    AssignmentInput {
        processes: (0..count).map(|index| alloc::format!("p{index}").into()).collect(),
        members: (b'a'..)
            .zip(processes)
            .map(|(id, &process)| {
                MemberInput::new(char::from(id).encode_utf8(&mut [0; 4])[..].into(), ProcessIndex(process))
            })
            .collect(),
        subtopologies: Subtopologies::new(vec![subtopology]).unwrap().into(),
        config: AssignmentConfig { num_standby_replicas: 0, rack_aware_assignment_tags: vec![] },
        changelogs: vec![],
    }
}

fn tasks(list: &[u32]) -> Vec<TaskId> {
    list.iter().copied().map(TaskId).collect()
}

fn target(actives: &[&[u32]]) -> Assignment {
    let mut target = Assignment::empty(actives.len());
    core::iter::zip(&mut target.members, actives).for_each(|(member, list)| member.active = tasks(list));
    target
}

fn report(member: &mut MemberInput, task: u32, offset: i64, end: Option<i64>) {
    member.task_offsets.push(TaskOffset { task: TaskId(task), offset: Offset(offset) });
    if let Some(end) = end {
        member.task_end_offsets.push(TaskOffset { task: TaskId(task), offset: Offset(end) });
    }
}

/// Each member's tasks as "active|standby|warmup".
fn show(step: &Step) -> Vec<alloc::string::String> {
    let list = |tasks: &[TaskId]| tasks.iter().map(|task| alloc::format!("{task}")).collect::<Vec<_>>().join(" ");
    let member = |member: &super::StepMember| {
        alloc::format!("{}|{}|{}", list(&member.active), list(&member.standby), list(&member.warmup))
    };
    step.members.iter().map(member).collect()
}

const REPORTS: WarmupSupport = WarmupSupport::Reports;

#[test]
fn without_warmups_the_target_is_the_step() {
    let mut input = group(&[0, 1]);
    input.members[0].active = tasks(&[0, 1, 2, 3]);
    let step = refine(&input, &target(&[&[0, 1], &[2, 3]]), &[REPORTS; 2], &config(0));
    assert_eq!(show(&step), ["0 1||", "2 3||"]);
}

/// A warm-up that is reported as caught up takes over with the next step, and the next one begins.
#[test]
fn a_04_a_warmup_takes_over_once_it_has_caught_up() {
    let mut input = group(&[0, 1]);
    input.members[0].active = tasks(&[0, 1, 2, 3]);
    let target = target(&[&[0, 1], &[2, 3]]);
    let step = refine(&input, &target, &[REPORTS; 2], &config(1));
    assert_eq!(show(&step), ["0 1 2 3||", "||2"]);
    assert_eq!(step.staged[0].stage, Stage::WarmingUp(MemberIndex(1)));
    input.members[1].warmup = tasks(&[2]);
    assert_eq!(refine(&input, &target, &[REPORTS; 2], &config(1)), step, "nothing is known of the warm-up");
    report(&mut input.members[1], 2, 0, Some(5000));
    assert_eq!(refine(&input, &target, &[REPORTS; 2], &config(1)), step, "it has just begun");
    input.members[1].task_offsets.clear();
    input.members[1].task_end_offsets.clear();
    report(&mut input.members[1], 2, 4950, Some(5000));
    assert_eq!(show(&refine(&input, &target, &[REPORTS; 2], &config(1))), ["0 1 3||", "2||3"]);
    // Not in the text of the case: the end offset may not be known yet.
    input.members[1].task_end_offsets[0].offset = Offset(i64::MAX);
    assert_eq!(refine(&input, &target, &[REPORTS; 2], &config(1)), step);
}

#[test]
fn clients_that_report_nothing_get_their_tasks_at_once() {
    let mut input = group(&[0, 1]);
    input.members[0].active = tasks(&[0, 1, 2, 3]);
    let target = target(&[&[0, 1], &[2, 3]]);
    let step = refine(&input, &target, &[REPORTS, WarmupSupport::None], &config(2));
    assert_eq!(show(&step), ["0 1||", "2 3||"]);
    // Of whom nothing is known yet, nothing is decided.
    let step = refine(&input, &target, &[REPORTS, WarmupSupport::Unknown], &config(2));
    assert_eq!(show(&step), ["0 1 2 3||", "||"]);
}

#[test]
fn after_a_restart_nothing_that_warms_up_is_moved_or_dropped() {
    let mut input = group(&[0, 1]);
    input.members[0].active = tasks(&[0, 1, 2, 3]);
    input.members[1].warmup = tasks(&[2, 3]);
    let target = target(&[&[0, 1], &[2, 3]]);
    let step = refine(&input, &target, &[WarmupSupport::Unknown; 2], &config(2));
    assert_eq!(show(&step), ["0 1 2 3||", "||2 3"]);
}

#[test]
fn between_members_of_a_process_tasks_move_at_once() {
    let mut input = group(&[0, 0]);
    input.members[0].active = tasks(&[0, 1, 2, 3]);
    let step = refine(&input, &target(&[&[0, 1], &[2, 3]]), &[REPORTS; 2], &config(1));
    assert_eq!(show(&step), ["0 1||", "2 3||"]);
}

#[test]
fn a_standby_of_the_owner_serves_as_a_warmup() {
    let mut input = group(&[0, 1, 2]);
    input.members[0].active = tasks(&[0, 1, 2]);
    input.members[2].active = tasks(&[3]);
    input.members[1].standby = tasks(&[2]);
    let mut target = target(&[&[0, 1], &[2], &[3]]);
    target.members[2].standby = tasks(&[2]);
    let step = refine(&input, &target, &[REPORTS; 3], &config(1));
    assert_eq!(show(&step), ["0 1 2||", "|2|", "3||"], "one standby of task 2 is enough");
    report(&mut input.members[1], 2, 1000, Some(1000));
    assert_eq!(show(&refine(&input, &target, &[REPORTS; 3], &config(1))), ["0 1||", "2||", "3|2|"]);
}

#[test]
fn who_has_nothing_running_takes_over_from_a_copy_meanwhile() {
    // Task 2 was run by somebody who left; the target wants it where nothing is.
    let mut input = group(&[0, 1]);
    input.members[0].active = tasks(&[0, 1]);
    input.members[1].active = tasks(&[3]);
    input.members[0].standby = tasks(&[2]);
    report(&mut input.members[0], 2, 990, Some(1000));
    let step = refine(&input, &target(&[&[0, 1], &[2, 3]]), &[REPORTS; 2], &config(1));
    assert_eq!(show(&step), ["0 1 2||", "3||2"]);
    // Nobody has caught up: the owner restores.
    input.members[0].task_offsets[0].offset = Offset(0);
    let step = refine(&input, &target(&[&[0, 1], &[2, 3]]), &[REPORTS; 2], &config(1));
    assert_eq!(show(&step), ["0 1||", "2 3||"]);
}

/// It had a standby, got the active task, and restores the last records. It does not say where they end.
#[test]
fn a_task_that_has_nearly_restored_is_not_begun_anew_elsewhere() {
    let mut input = group(&[0, 1]);
    input.members[0].active = tasks(&[0, 1, 2]);
    input.members[1].active = tasks(&[3]);
    let target = target(&[&[0, 1], &[2, 3]]);
    let known = |start, end| Changelogs { task: TaskId(2), start: Offset(start), end: Offset(end) };
    input.changelogs = vec![known(0, 5000)];
    report(&mut input.members[0], 2, 4950, None);
    assert_eq!(show(&refine(&input, &target, &[REPORTS; 2], &config(1))), ["0 1 2||", "3||2"]);
    // It has only begun: whoever shall have it can begin as well.
    input.changelogs = vec![known(0, 50_000)];
    assert_eq!(show(&refine(&input, &target, &[REPORTS; 2], &config(1))), ["0 1||", "2 3||"]);
}

#[test]
fn the_target_of_a_member_that_left_is_parked() {
    let mut input = group(&[0, 1]);
    input.members[0].active = tasks(&[0, 1, 2, 3]);
    let step = refine(&input, &target(&[&[0, 1], &[2]]), &[REPORTS; 2], &config(4));
    assert_eq!(show(&step), ["0 1 2 3||", "||2"]);
}

/// A group that walks step by step, whose copies restore a bit at a time.
struct World {
    input: AssignmentInput,
    sizes: Vec<i64>,
    /// How far the state of each task on each process is.
    disks: BTreeMap<(ProcessIndex, TaskId), i64>,
}

impl World {
    fn apply(&mut self, step: &Step, prng: &mut Prng) {
        for (member, tasks) in core::iter::zip(&mut self.input.members, &step.members) {
            member.active.clone_from(&tasks.active);
            member.standby.clone_from(&tasks.standby);
            member.warmup.clone_from(&tasks.warmup);
        }
        let stateful = self.input.subtopologies.stateful_by_task();
        let mut held: BTreeMap<ProcessIndex, BTreeSet<TaskId>> = BTreeMap::new();
        for member in &self.input.members {
            let held = held.entry(member.process).or_default();
            for &task in member.active.iter().chain(&member.standby).chain(&member.warmup) {
                held.insert(task);
                let reached = self.disks.entry((member.process, task)).or_default();
                let size = self.sizes[task.index()];
                *reached = size.min(*reached + (size / 4).max(1) + prng.below(50) as i64);
            }
        }
        for member in &mut self.input.members {
            member.task_offsets.clear();
            member.task_end_offsets.clear();
            for task in (0..stateful.len()).map(TaskId::at).filter(|task| stateful[task.index()]) {
                let Some(&reached) = self.disks.get(&(member.process, task)) else { continue };
                let is_copy = member.standby.contains(&task) || member.warmup.contains(&task);
                let is_dormant = !held[&member.process].contains(&task);
                let is_restoring = member.active.contains(&task) && reached < self.sizes[task.index()];
                if is_copy || is_dormant || is_restoring {
                    report(member, task.0, reached, is_copy.then_some(self.sizes[task.index()]));
                }
            }
        }
    }
}

fn check_step(world: &World, target: &Assignment, step: &Step, num_warmup_replicas: u32, text: &str) {
    let task_count = world.input.subtopologies.task_count() as usize;
    let mut actives = vec![0; task_count];
    let mut held = BTreeSet::new();
    let mut warmups = 0;
    for (member, tasks) in core::iter::zip(&world.input.members, &step.members) {
        warmups += tasks.warmup.len();
        tasks.active.iter().for_each(|task| actives[task.index()] += 1);
        for &task in tasks.active.iter().chain(&tasks.standby).chain(&tasks.warmup) {
            assert!(held.insert((member.process, task)), "{text}: a process has {task} twice: {step:?}");
        }
    }
    assert!(actives.iter().all(|&count| count == 1), "{text}: {actives:?} in {step:?}");
    assert!(warmups <= num_warmup_replicas as usize, "{text}: {warmups} warm-ups in {step:?}");
    let stateful = world.input.subtopologies.stateful_by_task();
    for (place, tasks) in step.members.iter().enumerate() {
        let member = &world.input.members[place];
        for &task in tasks.active.iter().filter(|&&task| stateful[task.index()]) {
            // What runs is handed over only where it can go on.
            let mut others = world.input.members.iter().filter(|other| other.process != member.process);
            let runs_elsewhere = others.any(|other| {
                other.active.contains(&task) && other.task_offsets.iter().all(|reported| reported.task != task)
            });
            let lag = world.sizes[task.index()] - world.disks.get(&(member.process, task)).copied().unwrap_or(0);
            assert!(!runs_elsewhere || lag <= LAG, "{text}: {task} goes to {} with a lag of {lag}", member.id);
        }
        assert_eq!(step.staged.is_empty(), target_is(step, target), "{text}: {step:?}");
    }
}

fn target_is(step: &Step, target: &Assignment) -> bool {
    core::iter::zip(&step.members, &target.members)
        .all(|(step, target)| step.active == target.active && step.standby == target.standby && step.warmup.is_empty())
}

#[test]
fn every_group_arrives_at_its_target_without_a_pause() {
    for seed in 0..300 {
        for num_warmup_replicas in [1, 3] {
            let mut group = Group::new(seed);
            let assignor = built_in::ASSIGNORS[seed as usize % built_in::ASSIGNORS.len()];
            let first = assignor.assign(&group.input()).unwrap();
            group.adopt(&first);
            for change in 0..4 {
                group.change();
                let input = group.input();
                let target = assignor.assign(&input).unwrap();
                walk(input, &target, num_warmup_replicas, &alloc::format!("seed {seed}, change {change}"));
                group.adopt(&target);
            }
        }
    }
}

fn walk(input: AssignmentInput, target: &Assignment, num_warmup_replicas: u32, text: &str) {
    let mut prng = Prng::new(1);
    let sizes = (0..input.subtopologies.task_count()).map(|_| 1 + prng.below(3000) as i64).collect();
    let support = vec![REPORTS; input.members.len()];
    let mut world = World { input, sizes, disks: BTreeMap::new() };
    for member in &world.input.members {
        for &task in member.active.iter().chain(&member.standby) {
            world.disks.insert((member.process, task), world.sizes[task.index()]);
        }
    }
    let as_it_is = Step {
        members: (world.input.members.iter())
            .map(|member| super::StepMember {
                active: member.active.clone(),
                standby: member.standby.clone(),
                warmup: vec![],
            })
            .collect(),
        staged: vec![],
    };
    world.apply(&as_it_is, &mut prng);
    let task_count = world.input.subtopologies.task_count();
    for _ in 0..20 + task_count * 8 {
        let step = refine(&world.input, target, &support, &config(num_warmup_replicas));
        check_step(&world, target, &step, num_warmup_replicas, text);
        if target_is(&step, target) {
            return;
        }
        world.apply(&step, &mut prng);
    }
    panic!("{text}: it never arrives: {:?}", refine(&world.input, target, &support, &config(num_warmup_replicas)));
}
