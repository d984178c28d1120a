//! Exchanges actives between processes where that costs nothing and spreads subtopologies more evenly.
//!
//! Tasks that go to another process are often alike: which of them goes is all the same for what there is to restore, but
//! not for how the work is spread. So each task that went is compared with those that stayed where it came from.

use alloc::{vec, vec::Vec};

use super::Problem;
use crate::{ProcessIndex, SubtopologyIndex, TaskId, copies::Copies};

/// How many exchanges are looked at.
const WORK_MAX: u64 = 1_000_000;

/// Improves where the actives are; no other copies are placed yet.
pub(super) fn even_out(problem: &Problem<'_>, placed: &mut Copies) {
    let mut actives: Vec<u32> = placed.rows().map(|row| row[0]).collect();
    exchange_all(problem, &mut actives);
    placed.set_first(&actives);
}

fn exchange_all(problem: &Problem<'_>, actives: &mut [u32]) {
    let mut work_left = WORK_MAX;
    let mut counts = Counts::new(problem, actives);
    let mut tasks_of: Vec<Vec<u32>> = vec![vec![]; problem.input.processes.len()];
    for (task, &process) in actives.iter().enumerate() {
        tasks_of[process as usize].push(task as u32);
    }
    let mut cheap = Vec::new();
    for task in 0..actives.len() {
        cheap.clear();
        problem.costs_of_active(TaskId::at(task), &mut cheap);
        for &(home, _) in &cheap {
            let (away, this) = (actives[task], task as u32);
            if home == away {
                continue;
            }
            work_left = match work_left.checked_sub(tasks_of[home as usize].len() as u64) {
                Some(left) => left,
                None => return,
            };
            let back = active_cost(problem, this, home) - active_cost(problem, this, away);
            let better = tasks_of[home as usize].iter().enumerate().filter_map(|(place, &other)| {
                let gain = counts.gain(this, other, away, home)?;
                let forth = active_cost(problem, other, away) - active_cost(problem, other, home);
                (back + forth <= 0).then_some((gain, place))
            });
            let Some((_, place)) = better.min_by_key(|&(gain, place)| (core::cmp::Reverse(gain), place)) else {
                continue;
            };
            let other = tasks_of[home as usize][place];
            counts.exchange(this, other, away, home);
            tasks_of[home as usize][place] = this;
            let row = &mut tasks_of[away as usize];
            let place = row.iter().position(|&task| task == this).expect("it is there");
            row[place] = other;
            actives[task] = home;
            actives[other as usize] = away;
        }
    }
}

/// How many tasks of each subtopology each process has.
struct Counts<'a> {
    member_counts: &'a [u32],
    kind_count: usize,
    counts: Vec<i64>,
    subtopology_of: Vec<u32>,
    stateful: Vec<bool>,
}

impl<'a> Counts<'a> {
    fn new(problem: &'a Problem<'_>, actives: &[u32]) -> Self {
        let subtopologies = &problem.input.subtopologies;
        let kind_count = subtopologies.list().len();
        let mut subtopology_of = Vec::with_capacity(actives.len());
        for index in 0..subtopologies.list().len() {
            let tasks = subtopologies.tasks(SubtopologyIndex::at(index)).count();
            subtopology_of.resize(subtopology_of.len() + tasks, index as u32);
        }
        let stateful = (0..actives.len()).map(|task| problem.model.is_stateful(TaskId::at(task))).collect();
        let counts = vec![0; kind_count * problem.input.processes.len()];
        let member_counts = problem.model.member_counts();
        let mut new = Self { member_counts, kind_count, counts, subtopology_of, stateful };
        for (task, &process) in actives.iter().enumerate() {
            new.add(task as u32, process, 1);
        }
        new
    }

    fn add(&mut self, task: u32, process: u32, count: i64) {
        self.counts[process as usize * self.kind_count + self.subtopology_of[task as usize] as usize] += count;
    }

    fn exchange(&mut self, one: u32, other: u32, at_one: u32, at_other: u32) {
        self.add(one, at_one, -1);
        self.add(other, at_one, 1);
        self.add(other, at_other, -1);
        self.add(one, at_other, 1);
    }

    /// By how much the sum of the squared counts per member falls if two tasks change places; `None` if it does not.
    fn gain(&self, one: u32, other: u32, at_one: u32, at_other: u32) -> Option<i64> {
        let [one_kind, other_kind] = [one, other].map(|task| self.subtopology_of[task as usize] as usize);
        if one_kind == other_kind || self.stateful[one as usize] != self.stateful[other as usize] {
            return None;
        }
        let gain = self.gain_of_kind(one_kind, at_one, at_other) + self.gain_of_kind(other_kind, at_other, at_one);
        (gain > 0).then_some(gain)
    }

    /// The same for one task of a kind that goes from one process to another, times the members of both.
    fn gain_of_kind(&self, kind: usize, from: u32, to: u32) -> i64 {
        let count = |process: u32| self.counts[process as usize * self.kind_count + kind];
        let members = |process: u32| i64::from(self.member_counts[process as usize]);
        (2 * count(from) - 1) * members(to) - (2 * count(to) + 1) * members(from)
    }
}

/// What an active costs on a process.
fn active_cost(problem: &Problem<'_>, task: u32, process: u32) -> i128 {
    let is_move = problem.owner_process(TaskId(task)).is_some_and(|owner| owner != process);
    i128::from(problem.model.restore(TaskId(task), ProcessIndex(process))) * problem.scale() + i128::from(is_move)
}
