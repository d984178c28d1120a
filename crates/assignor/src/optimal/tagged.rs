//! Picks processes for standbys by their tags first, then by what there is to restore, then by load.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Problem;
use crate::{ProcessIndex, copies::Copies, cost::largest_first};

/// Adds standbys to tasks whose actives are placed. Large tasks choose first; a process that is full is only taken where
/// no other with as good tags has room, and a process that has the task never.
pub(super) fn place_standbys(problem: &Problem<'_>, placed: &mut Copies, mut counts: Vec<u32>) {
    let process_count = problem.input.processes.len() as u32;
    let mut tasks = problem.stateful.clone();
    largest_first(&problem.model, &mut tasks);
    let mut so_far = Vec::new();
    for task in tasks {
        for _ in 0..problem.input.standbys_per_task_max() {
            so_far.clear();
            so_far.extend(placed.of(task.index()).iter().copied().map(ProcessIndex));
            let rank = |&process: &u32| {
                let (count, members) = (counts[process as usize], problem.model.member_counts()[process as usize]);
                (
                    problem.tags.freshness(&so_far, ProcessIndex(process)),
                    count < problem.tasks.high[process as usize],
                    Reverse(problem.model.restore(task, ProcessIndex(process))),
                    Reverse((u64::from(count) << 32) / u64::from(members.max(1))),
                    Reverse(process),
                )
            };
            let free = (0..process_count).filter(|&process| !placed.holds(task.index(), process));
            let Some(process) = free.max_by_key(rank) else { break };
            placed.add(task.index(), process);
            counts[process as usize] += 1;
        }
    }
}
