//! What an assignment costs: the yardstick of the assignor `optimal`, and of reports about any other.
//!
//! # The function
//!
//! A [`Cost`] is compared field by field, the first that differs decides:
//!
//! 1. `tag_violations`: copies that stand where a tag's value is used already although another value is free;
//! 2. `missing_standbys`;
//! 3. `active_spread`, `stateful_spread` and `task_spread`: the difference between the most and the least loaded member in
//!    actives, in actives with state, and in all tasks;
//! 4. `restore`: how many records have to be restored, summed over all copies, active or standby;
//! 5. `moves`: how many running actives change their process, then `thread_moves`: those that change only the member;
//! 6. `clumps`: by how much subtopologies are unevenly spread over the processes;
//! 7. `load_spread`: the difference between the most and the least loaded process in records per member.
//!
//! `restore` and the moves are sums over placements; [`CostModel::placement`] gives each one's share, which is how the
//! cost of something that was not chosen can be told.
//!
//! # What is known about state
//!
//! A task is as large as its changelogs are, or where nobody who keeps them says so, as the largest end offset that a member
//! reports for it, or the largest offset. Of tasks that nobody reports (clients do not report what they run) the average of their subtopology is assumed,
//! then the average of all, then [`UNKNOWN_SIZE`]. A process that runs a task has nothing to restore, unless it reports
//! an offset for it, which clients do only while they restore. A standby that reports nothing (clients before 4.4 never
//! do) counts as caught up; a warm-up that reports nothing has everything before it.

use alloc::{vec, vec::Vec};
use core::cmp::Reverse;

use riparian_types::Offset;

use crate::{
    Assignment, AssignmentInput, MemberAssignment, MemberIndex, ProcessIndex, SubtopologyIndex, TaskId, TaskOffset,
    tags::TagValues,
};

/// How many records a task is assumed to have where nothing is known of any task.
pub const UNKNOWN_SIZE: u64 = 1000;

/// Of the processes that have some state of a task, only so many are remembered, those with the most; and at least one
/// more than the task has copies.
pub const SOURCES_MAX: usize = 16;

/// What an assignment costs; see the [module](self) for what the fields mean and how they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Copies whose tag values are taken although others are free.
    pub tag_violations: u64,
    /// Standbys that are wanted, could be placed, and are not.
    pub missing_standbys: u64,
    /// The most actives of a member minus the fewest.
    pub active_spread: u64,
    /// The most actives with state of a member minus the fewest.
    pub stateful_spread: u64,
    /// The most tasks of a member minus the fewest.
    pub task_spread: u64,
    /// Records to restore.
    pub restore: u64,
    /// Running actives that get another process.
    pub moves: u64,
    /// Running actives that get another member of their process.
    pub thread_moves: u64,
    /// Over all processes and subtopologies, the actives beyond the fair share rounded up.
    pub clumps: u64,
    /// Records per member of the most loaded process minus those of the least loaded.
    pub load_spread: u64,
}

/// The share of one copy of a task in the cost of an assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementCost {
    /// Records to restore.
    pub restore: u64,
    /// Whether a running active gets another process.
    pub is_move: bool,
    /// Whether a running active gets another member of its process.
    pub is_thread_move: bool,
}

/// State of a task on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The process.
    pub process: ProcessIndex,
    /// How many records it lacks.
    pub lag: u64,
}

/// Costs of placements for one input.
pub struct CostModel<'a> {
    input: &'a AssignmentInput,
    stateful: Vec<bool>,
    sizes: Vec<u64>,
    /// Of each task who runs it.
    owners: Vec<Option<MemberIndex>>,
    sources: Vec<Source>,
    source_starts: Vec<u32>,
    member_counts: Vec<u32>,
}

impl<'a> CostModel<'a> {
    /// Reads what is known about state out of an input that [`AssignmentInput::check`] accepts.
    pub fn new(input: &'a AssignmentInput) -> Self {
        let stateful = input.subtopologies.stateful_by_task();
        let sizes = sizes(input, &stateful);
        let mut owners = vec![None; stateful.len()];
        let mut member_counts = vec![0; input.processes.len()];
        for (index, member) in input.members.iter().enumerate() {
            member_counts[member.process.index()] += 1;
            for task in &member.active {
                owners[task.index()] = Some(MemberIndex::at(index));
            }
        }
        let (sources, source_starts) = sources(input, &stateful, &sizes);
        Self { input, stateful, sizes, owners, sources, source_starts, member_counts }
    }

    /// How many records a task's state has; 0 for a stateless one.
    pub fn size(&self, task: TaskId) -> u64 {
        self.sizes[task.index()]
    }

    /// Whether the task has state.
    pub fn is_stateful(&self, task: TaskId) -> bool {
        self.stateful[task.index()]
    }

    /// Who runs the task; the last if several claim it.
    pub fn owner(&self, task: TaskId) -> Option<MemberIndex> {
        self.owners[task.index()]
    }

    /// Who has state of the task, the least lag first, then by process.
    pub fn sources(&self, task: TaskId) -> &[Source] {
        let [start, end] = [0, 1].map(|next| self.source_starts[task.index() + next] as usize);
        &self.sources[start..end]
    }

    /// How many members each process has.
    pub(crate) fn member_counts(&self) -> &[u32] {
        &self.member_counts
    }

    /// How many records a process would have to restore for a copy of the task.
    pub fn restore(&self, task: TaskId, process: ProcessIndex) -> u64 {
        let source = self.sources(task).iter().find(|source| source.process == process);
        source.map_or_else(|| self.size(task), |source| source.lag)
    }

    /// The share of an active or a standby on this member in the cost of an assignment.
    pub fn placement(&self, task: TaskId, member: MemberIndex, is_active: bool) -> PlacementCost {
        let process = self.input.members[member.index()].process;
        let owner = self.owner(task).filter(|_| is_active);
        let is_move = owner.is_some_and(|owner| self.input.members[owner.index()].process != process);
        let is_thread_move = !is_move && owner.is_some_and(|owner| owner != member);
        PlacementCost { restore: self.restore(task, process), is_move, is_thread_move }
    }

    /// What an assignment costs that [`invariants::check`](crate::invariants::check) accepts.
    pub fn cost(&self, assignment: &Assignment) -> Cost {
        let mut cost = Cost::default();
        let mut processes_of: Vec<Vec<ProcessIndex>> = vec![vec![]; self.stateful.len()];
        let mut loads = vec![0u64; self.input.processes.len()];
        let mut standby_count = 0u64;
        for (index, tasks) in assignment.members.iter().enumerate() {
            let process = self.input.members[index].process;
            standby_count += tasks.standby.len() as u64;
            for (list, is_active) in [(&tasks.active, true), (&tasks.standby, false)] {
                for &task in list {
                    let share = self.placement(task, MemberIndex::at(index), is_active);
                    cost.restore = cost.restore.saturating_add(share.restore);
                    cost.moves += u64::from(share.is_move);
                    cost.thread_moves += u64::from(share.is_thread_move);
                    let load = &mut loads[process.index()];
                    *load = load.saturating_add(self.size(task));
                    match is_active {
                        true => processes_of[task.index()].insert(0, process),
                        false => processes_of[task.index()].push(process),
                    }
                }
            }
        }
        let wanted =
            u64::from(self.input.subtopologies.stateful_task_count()) * u64::from(self.input.standbys_per_task_max());
        cost.missing_standbys = wanted.saturating_sub(standby_count);
        cost.active_spread = spread(assignment.members.iter().map(|member| member.active.len() as u64));
        let stateful =
            |member: &MemberAssignment| member.active.iter().filter(|&&task| self.is_stateful(task)).count() as u64;
        cost.stateful_spread = spread(assignment.members.iter().map(stateful));
        cost.task_spread =
            spread(assignment.members.iter().map(|member| (member.active.len() + member.standby.len()) as u64));
        cost.clumps = self.clumps(assignment);
        let per_member =
            core::iter::zip(&loads, &self.member_counts).map(|(load, &count)| load / u64::from(count.max(1)));
        cost.load_spread = spread(per_member);
        let tags = TagValues::new(self.input);
        if !tags.is_empty() {
            cost.tag_violations = processes_of.iter().map(|processes| tags.violations(processes)).sum();
        }
        cost
    }

    fn clumps(&self, assignment: &Assignment) -> u64 {
        let (process_count, list) = (self.input.processes.len(), self.input.subtopologies.list());
        let mut counts = vec![0u32; process_count * list.len()];
        for (index, tasks) in assignment.members.iter().enumerate() {
            let row = self.input.members[index].process.index() * list.len();
            for &task in &tasks.active {
                let (subtopology, _) = self.input.subtopologies.locate(task).expect("the assignment was checked");
                counts[row + subtopology.index()] += 1;
            }
        }
        let member_count = self.input.members.len() as u64;
        let mut clumps = 0;
        for (process, row) in counts.chunks(list.len().max(1)).enumerate() {
            for (subtopology, &count) in core::iter::zip(list, row) {
                let share = u64::from(subtopology.partition_count) * u64::from(self.member_counts[process]);
                clumps += u64::from(count).saturating_sub(share.div_ceil(member_count.max(1)));
            }
        }
        clumps
    }
}

fn spread(counts: impl Iterator<Item = u64> + Clone) -> u64 {
    counts.clone().max().unwrap_or(0) - counts.min().unwrap_or(0)
}

/// A reported offset as a number of records, unless it is Kafka's mark for "not known yet".
fn known(reported: &TaskOffset) -> Option<u64> {
    (reported.offset != Offset(i64::MAX)).then(|| reported.offset.0.max(0).unsigned_abs())
}

fn sizes(input: &AssignmentInput, stateful: &[bool]) -> Vec<u64> {
    let mut ends: Vec<Option<u64>> = vec![None; stateful.len()];
    let mut furthest: Vec<Option<u64>> = vec![None; stateful.len()];
    for known in &input.changelogs {
        ends[known.task.index()] = Some(known.records());
    }
    let is_known: Vec<bool> = ends.iter().map(Option::is_some).collect();
    for member in &input.members {
        for (list, largest) in [(&member.task_end_offsets, &mut ends), (&member.task_offsets, &mut furthest)] {
            for reported in list {
                if is_known[reported.task.index()] {
                    continue;
                }
                let largest = &mut largest[reported.task.index()];
                *largest = (*largest).max(known(reported));
            }
        }
    }
    let mut sizes: Vec<Option<u64>> = core::iter::zip(ends, furthest).map(|(end, furthest)| end.or(furthest)).collect();
    let known_of = |tasks: &[Option<u64>], stateful: &[bool]| {
        let known = core::iter::zip(tasks, stateful).filter_map(|(&size, &stateful)| size.filter(|_| stateful));
        let (sum, count) = known.fold((0u128, 0u128), |(sum, count), size| (sum + u128::from(size), count + 1));
        (count > 0).then(|| (sum / count) as u64)
    };
    let of_all = known_of(&sizes, stateful).unwrap_or(UNKNOWN_SIZE);
    for index in 0..input.subtopologies.list().len() {
        let mut tasks = input.subtopologies.tasks(SubtopologyIndex::at(index));
        let Some(first) = tasks.next() else { continue };
        let range = first.index()..first.index() + 1 + tasks.count();
        let average = known_of(&sizes[range.clone()], &stateful[range.clone()]).unwrap_or(of_all);
        for task in range {
            sizes[task] = Some(if stateful[task] { sizes[task].unwrap_or(average) } else { 0 });
        }
    }
    sizes.into_iter().map(Option::unwrap_or_default).collect()
}

/// The processes with state of each task, as rows: all sources, and where each task's begin.
fn sources(input: &AssignmentInput, stateful: &[bool], sizes: &[u64]) -> (Vec<Source>, Vec<u32>) {
    let mut starts = vec![0u32; stateful.len() + 1];
    for_each_source(input, stateful, sizes, |task, _| starts[task.index() + 1] += 1);
    for task in 0..stateful.len() {
        starts[task + 1] += starts[task];
    }
    let mut all = vec![Source { process: ProcessIndex(0), lag: 0 }; starts[stateful.len()] as usize];
    let mut next = starts.clone();
    for_each_source(input, stateful, sizes, |task, source| {
        let place = &mut next[task.index()];
        all[*place as usize] = source;
        *place += 1;
    });
    let sources_max = SOURCES_MAX.max(input.standbys_per_task_max() as usize + 2);
    let mut kept = Vec::with_capacity(all.len());
    let mut kept_starts = Vec::with_capacity(starts.len());
    for task in 0..stateful.len() {
        kept_starts.push(kept.len() as u32);
        let row = &mut all[starts[task] as usize..starts[task + 1] as usize];
        row.sort_unstable_by_key(|source| (source.process, source.lag));
        let first = kept.len();
        for source in row.iter() {
            if kept[first..].last().is_none_or(|last: &Source| last.process != source.process) {
                kept.push(*source);
            }
        }
        kept[first..].sort_unstable_by_key(|source| (source.lag, source.process));
        kept.truncate(first + sources_max);
    }
    kept_starts.push(kept.len() as u32);
    (kept, kept_starts)
}

/// Visits every piece of state that saves records; a process may come more than once.
fn for_each_source(input: &AssignmentInput, stateful: &[bool], sizes: &[u64], mut visit: impl FnMut(TaskId, Source)) {
    for member in &input.members {
        let process = member.process;
        let mut visit = |task: TaskId, reached: u64| {
            let size = sizes[task.index()];
            // Offsets count from the beginning of a log, sizes from where it begins now.
            let end = input.changelogs.binary_search_by_key(&task, |known| known.task);
            let end = end.map_or(size, |place| input.changelogs[place].end.0.max(0).unsigned_abs());
            if stateful[task.index()] && reached > 0 {
                visit(task, Source { process, lag: end.saturating_sub(reached).min(size) });
            }
        };
        let reports = |task: &TaskId| member.task_offsets.binary_search_by_key(task, |reported| reported.task).is_ok();
        for &task in member.active.iter().chain(&member.standby).filter(|task| !reports(task)) {
            visit(task, u64::MAX);
        }
        for reported in &member.task_offsets {
            visit(reported.task, known(reported).unwrap_or(0));
        }
    }
}

/// Orders tasks by what they would cost, the most expensive first.
pub(crate) fn largest_first(model: &CostModel<'_>, tasks: &mut [TaskId]) {
    tasks.sort_unstable_by_key(|&task| (Reverse(model.size(task)), task));
}
