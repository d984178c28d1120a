//! The assignor `optimal`: as balanced as `sticky`, and of all assignments that are, the one with the least to restore.
//!
//! What it minimises is the [cost](crate::cost). `sticky` decides how many tasks members have at least and at most; actives
//! with state are spread as evenly as can be, for they are the work. Within these bounds the copies are placed where the
//! fewest records have to be restored, by exact solutions of transportation problems ([`transport`]), in two ways, of
//! which the cheaper result is taken:
//!
//! * *copies first*: first where copies are, whatever their roles, then which of them are active. If the second can be
//!   done within the bounds, no assignment of this spread restores less; else the actives are chosen anew, near to these
//!   copies, and then the standbys.
//! * *actives first*: first the actives, as if there were no standbys, then the standbys beside them.
//!
//! With rack-aware tags the standbys are picked one by one, by their tags first ([`tagged`]).
//! If neither is cheaper than what `sticky` does (or the work bound is reached), that is the result, so `optimal` is never
//! worse by its own measure.
//!
//! Choose it where state is large and processes come and go; `sticky` moves the same number of tasks in less time but
//! does not look at how much state is where.

mod deal;
mod even_out;
mod problem;
mod tagged;
mod transport;

use self::problem::Problem;
use crate::{
    Assignment, AssignmentInput, AssignorError, MemberAssignment, MemberInput, StickyTaskAssignor, TaskAssignor,
    invariants,
};

/// The assignor `optimal`.
#[derive(Clone, Copy, Debug)]
pub struct OptimalTaskAssignor;

impl TaskAssignor for OptimalTaskAssignor {
    fn name(&self) -> &str {
        "optimal"
    }

    fn assign(&self, input: &AssignmentInput) -> Result<Assignment, AssignorError> {
        let sticky = StickyTaskAssignor.assign(input)?;
        if input.subtopologies.task_count() == 0 {
            return Ok(sticky);
        }
        let problem = Problem::new(input, &sticky);
        let solutions = match problem.has_tags() {
            true => [None, problem.actives_first().ok()],
            false => [problem.copies_first().ok(), problem.actives_first().ok()],
        };
        let mut best = (problem.model.cost(&sticky), sticky);
        for assignment in solutions.into_iter().flatten().chain(as_it_is(input)) {
            let cost = problem.model.cost(&assignment);
            if cost < best.0 {
                best = (cost, assignment);
            }
        }
        Ok(best.1)
    }
}

/// What members have now, if it is a legal assignment: without a reason nothing should change.
fn as_it_is(input: &AssignmentInput) -> Option<Assignment> {
    let now =
        |member: &MemberInput| MemberAssignment { active: member.active.clone(), standby: member.standby.clone() };
    let assignment = Assignment { members: input.members.iter().map(now).collect() };
    invariants::check(input, &assignment).ok().map(|()| assignment)
}

/// The least number of records that any assignment restores in which no member has more or fewer tasks than some member
/// has in this one. Not every assignment that reaches it need be as even in its actives.
///
/// `None`: that was too much work to find out.
pub fn restore_bound(input: &AssignmentInput, assignment: &Assignment) -> Option<u64> {
    let problem = Problem::new(input, assignment);
    let transport = problem.solve_copies().ok()?;
    u64::try_from(transport.cost() / problem.scale()).ok()
}
