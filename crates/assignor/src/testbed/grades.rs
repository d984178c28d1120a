//! What an assignor's decisions cost over many groups.

use core::{fmt, ops::Range};

use super::{Change, Group};
use crate::{AssignmentInput, CostModel, TaskAssignor, assign_checked};

/// How many changes each group lives through.
const CHANGES_PER_GROUP: u32 = 10;

/// A group that has not come to rest after so many assignments without a change never does.
const ROUNDS_MAX: u64 = 8;

/// Sums over all changes; small is good everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grades {
    /// How many groups lived through how many changes.
    pub changes: u64,
    /// Decisions that failed or broke an [invariant](crate::invariants); nothing else is counted of these.
    pub illegal: u64,
    /// Assignments that came out differently when asked for again with the same input.
    pub unstable: u64,
    /// Records to restore.
    pub restore: u64,
    /// Running actives that got another process.
    pub moves: u64,
    /// Running actives that got another member of their process.
    pub thread_moves: u64,
    /// Standbys that could have been placed and were not.
    pub missing_standbys: u64,
    /// Members' most actives minus their fewest.
    pub active_spread: u64,
    /// The same for actives with state.
    pub stateful_spread: u64,
    /// Members' most tasks minus their fewest.
    pub task_spread: u64,
    /// Actives beyond the fair share of a subtopology on a process.
    pub clumps: u64,
    /// Copies that repeat a rack although another is free; only where groups have racks.
    pub tag_violations: u64,
    /// Assignments after a change until nothing changes any more.
    pub rounds: u64,
    /// Changes after which that never came.
    pub restless: u64,
}

impl Grades {
    /// The names of the columns that [`Display`](fmt::Display) writes.
    pub const HEADER: &str = "changes illegal unstable  krecords  moves (threads)  missing  spread (stateful) (tasks)  clumps  tags  rounds restless";
}

impl fmt::Display for Grades {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7} {:>7} {:>8} {:>9} {:>6} {:>9} {:>8} {:>7} {:>10} {:>7} {:>7} {:>5} {:>7} {:>8}",
            self.changes,
            self.illegal,
            self.unstable,
            self.restore / 1000,
            self.moves,
            self.thread_moves,
            self.missing_standbys,
            self.active_spread,
            self.stateful_spread,
            self.task_spread,
            self.clumps,
            self.tag_violations,
            self.rounds,
            self.restless,
        )
    }
}

/// Lets an assignor decide for the groups of these seeds, ten changes each, and adds up what it cost. Groups `with_racks`
/// have a rack-aware tag.
///
/// Each group lives on with what the assignor decided, so two assignors don't see the same inputs but for the first.
pub fn grade(assignor: &dyn TaskAssignor, seeds: Range<u64>, with_racks: bool) -> Grades {
    let mut grades = Grades::default();
    for seed in seeds {
        let mut group = if with_racks { Group::with_racks(seed) } else { Group::new(seed) };
        // How everything is handed out the first time is the same work for all.
        let Ok(first) = assign_checked(assignor, &group.input()) else {
            grades.illegal += 1;
            continue;
        };
        group.adopt(&first);
        for _ in 0..CHANGES_PER_GROUP {
            if group.change() != Change::Nothing && !grade_change(assignor, &mut group, &mut grades) {
                break;
            }
        }
    }
    grades
}

/// `false`: there is nothing to go on with.
fn grade_change(assignor: &dyn TaskAssignor, group: &mut Group, grades: &mut Grades) -> bool {
    grades.changes += 1;
    for round in 0..ROUNDS_MAX {
        let input = group.input();
        let Ok(assignment) = assign_checked(assignor, &input) else {
            grades.illegal += 1;
            return false;
        };
        if round == 0 {
            grades.unstable += u64::from(assign_checked(assignor, &input).as_ref() != Ok(&assignment));
            let cost = CostModel::new(&input).cost(&assignment);
            grades.restore = grades.restore.saturating_add(cost.restore);
            grades.moves += cost.moves;
            grades.thread_moves += cost.thread_moves;
            grades.missing_standbys += cost.missing_standbys;
            grades.active_spread += cost.active_spread;
            grades.stateful_spread += cost.stateful_spread;
            grades.task_spread += cost.task_spread;
            grades.clumps += cost.clumps;
            grades.tag_violations += cost.tag_violations;
        }
        if is_held(&input, &assignment) {
            return true;
        }
        grades.rounds += 1;
        group.adopt(&assignment);
    }
    grades.restless += 1;
    true
}

fn is_held(input: &AssignmentInput, assignment: &crate::Assignment) -> bool {
    let mut members = core::iter::zip(&input.members, &assignment.members);
    members.all(|(member, tasks)| member.active == tasks.active && member.standby == tasks.standby)
}
