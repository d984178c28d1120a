//! Puts copies that cost the same everywhere on the processes that have the fewest tasks.

use alloc::{collections::BinaryHeap, vec::Vec};
use core::cmp::Reverse;

use super::transport::Unsolved;
use crate::copies::Copies;

/// How many tasks each process has and may have.
pub(super) struct Room<'a> {
    pub(super) low: &'a [u32],
    pub(super) high: &'a [u32],
    pub(super) counts: &'a mut [u32],
    pub(super) member_counts: &'a [u32],
}

impl Room<'_> {
    /// The lower goes first: who has too few, then who has the fewest per member.
    fn rank(&self, process: u32) -> (bool, u64, u32) {
        let (count, members) = (self.counts[process as usize], self.member_counts[process as usize]);
        let load = (u64::from(count) << 32) / u64::from(members.max(1));
        (count >= self.low[process as usize], load, process)
    }

    fn has_room(&self, process: u32) -> bool {
        self.counts[process as usize] < self.high[process as usize]
    }
}

/// Adds copies to tasks, each on a process that has none of the task yet and has room; all of them, or it fails.
///
/// `wanted` lists tasks and how many copies each still wants. Neighbours in this list get different processes as far as
/// possible, so that tasks of one subtopology are spread.
pub(super) fn deal(
    wanted: impl Iterator<Item = (usize, u32)>,
    copies: &mut Copies,
    room: &mut Room<'_>,
    mut work_left: u64,
) -> Result<(), Unsolved> {
    let processes = 0..room.counts.len() as u32;
    let mut queue: BinaryHeap<_> =
        processes.filter(|&process| room.has_room(process)).map(|process| Reverse(room.rank(process))).collect();
    let mut skipped = Vec::new();
    let mut dealt: Vec<(usize, u32)> = Vec::new();
    for (task, count) in wanted {
        for _ in 0..count {
            let mut found = None;
            while let Some(Reverse((_, _, process))) = queue.pop() {
                work_left = work_left.checked_sub(1).ok_or(Unsolved::TooMuchWork)?;
                if copies.holds(task, process) {
                    skipped.push(process);
                } else {
                    found = Some(process);
                    break;
                }
            }
            let process = match (found, skipped.first()) {
                (Some(process), _) => process,
                (None, Some(&free)) => {
                    // All that have room hold the task: another that was dealt makes way.
                    let makes_way =
                        |&(other, process): &(usize, u32)| !copies.holds(other, free) && !copies.holds(task, process);
                    work_left = work_left.checked_sub(dealt.len() as u64).ok_or(Unsolved::TooMuchWork)?;
                    let place = dealt.iter().rposition(makes_way).ok_or(Unsolved::Infeasible)?;
                    let (other, process) = dealt[place];
                    copies.replace(other, process, free);
                    dealt[place].1 = free;
                    room.counts[free as usize] += 1;
                    room.counts[process as usize] -= 1;
                    process
                }
                (None, None) => return Err(Unsolved::Infeasible),
            };
            copies.add(task, process);
            room.counts[process as usize] += 1;
            dealt.push((task, process));
            let is_known = skipped.contains(&process);
            for process in skipped.drain(..).chain((!is_known).then_some(process)) {
                if room.has_room(process) {
                    queue.push(Reverse(room.rank(process)));
                }
            }
        }
    }
    fill_up(&dealt, copies, room, work_left)
}

/// Has processes that are still below their lower bound take over what was dealt to others.
fn fill_up(
    dealt: &[(usize, u32)],
    copies: &mut Copies,
    room: &mut Room<'_>,
    mut work_left: u64,
) -> Result<(), Unsolved> {
    let mut dealt = dealt.to_vec();
    for process in 0..room.counts.len() as u32 {
        let mut from = 0;
        while room.counts[process as usize] < room.low[process as usize] {
            let is_spare = |&(task, other): &(usize, u32)| {
                room.counts[other as usize] > room.low[other as usize] && !copies.holds(task, process)
            };
            work_left = work_left.checked_sub((dealt.len() - from) as u64).ok_or(Unsolved::TooMuchWork)?;
            let place = from + dealt[from..].iter().position(is_spare).ok_or(Unsolved::Infeasible)?;
            let (task, other) = dealt[place];
            copies.replace(task, other, process);
            dealt[place].1 = process;
            room.counts[other as usize] -= 1;
            room.counts[process as usize] += 1;
            from = place + 1;
        }
    }
    Ok(())
}
