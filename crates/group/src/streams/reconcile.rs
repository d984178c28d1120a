//! How one member walks from the tasks it has to its target (KIP-1071, KIP-1251).
//!
//! **Invariant:** an active task is given to a member only when nobody holds it, and a process never holds a task twice
//! in roles that exclude each other. A member first gives back what it must (`UnrevokedTasks`), then takes what is free
//! (`UnreleasedTasks` while something is not), and then has arrived at the assignment epoch (`Stable`).
//!
//! A pure function of the group, the target and what the member reports; it deliberately does not know how the target
//! came about.

use alloc::borrow::Cow;

use riparian_types::{
    AssignmentEpoch, MemberEpoch, MemberId, ProcessId,
    planted::{self, Bug},
};

use crate::{
    record::MemberState,
    reply::StreamsHeartbeatError,
    streams::{
        group::{Progress, StreamsGroup},
        membership::Owned,
    },
    tasks::{Holdings, Role, Task, TaskSet, Tasks},
};

/// The member to be moved.
pub(super) struct Walker<'a> {
    pub(super) group: &'a StreamsGroup,
    pub(super) member_id: &'a MemberId,
    /// The process it belongs to after this heartbeat.
    pub(super) process_id: &'a ProcessId,
    /// A static member whose place it takes: what that one holds is its own.
    pub(super) replaced: Option<&'a MemberId>,
    /// Where it stands.
    pub(super) progress: &'a Progress,
    /// What it owns, if it says so.
    pub(super) owned: Option<&'a Owned>,
}

/// Where the member stands after this heartbeat; `None` if nothing changes.
pub(super) fn reconcile<'a>(
    walker: &Walker<'_>,
    epoch: AssignmentEpoch,
    target: impl FnOnce() -> Cow<'a, Tasks>,
) -> Result<Option<Progress>, StreamsHeartbeatError> {
    let progress = walker.progress;
    if progress.is_reconciled_to(epoch) {
        return Ok(None);
    }
    let target = &target();
    let next = match progress.state {
        MemberState::Stable | MemberState::UnreleasedTasks => walker.next(progress.epoch, epoch, target),
        MemberState::UnrevokedTasks => {
            let has_given_back =
                walker.owned.is_some_and(|owned| !progress.pending_revocation().intersects(&owned.tasks));
            if !has_given_back {
                return Ok(None);
            }
            walker.next(MemberEpoch(progress.epoch.0 + 1), epoch, target)
        }
        MemberState::Unknown => {
            if !walker.owned.is_some_and(Owned::is_empty) {
                return Err(StreamsHeartbeatError::FencedMemberEpoch(
                    "The member is in a state that this server does not know. It must give up its tasks and rejoin."
                        .into(),
                ));
            }
            walker.next(MemberEpoch(epoch.0), epoch, target)
        }
    };
    Ok((next != *progress).then_some(next))
}

/// What becomes of the tasks of one role.
struct Plan {
    kept: Holdings,
    /// Must be given back.
    revoked: Holdings,
    /// Can be given at once.
    assignable: Tasks,
    /// Something of the target is still held by somebody else.
    unreleased: bool,
}

impl Walker<'_> {
    fn next(&self, epoch: MemberEpoch, assignment_epoch: AssignmentEpoch, target: &Tasks) -> Progress {
        let Plan { mut kept, revoked, assignable, unreleased } = self.plan(target);
        let still_owned = !revoked.is_empty() && self.owned.is_none_or(|owned| revoked.intersects(&owned.tasks));
        if still_owned && !planted::is_in(Bug::RevokedUnasked) {
            return Progress {
                epoch,
                previous_epoch: self.progress.epoch,
                state: MemberState::UnrevokedTasks,
                assigned: kept,
                pending_revocation: revoked.if_any(),
            };
        }
        // A copy that becomes the active task here is dropped in the same step, not before: the client recycles it.
        kept.standby.split_off(|task| !assignable.active.contains(task));
        kept.warmup.split_off(|task| !assignable.active.contains(task));
        kept.active.insert_all(&assignable.active, assignment_epoch);
        kept.standby.insert_all(&assignable.standby);
        kept.warmup.insert_all(&assignable.warmup);
        Progress {
            epoch: MemberEpoch(assignment_epoch.0),
            previous_epoch: self.progress.epoch,
            state: if unreleased { MemberState::UnreleasedTasks } else { MemberState::Stable },
            assigned: kept,
            pending_revocation: None,
        }
    }

    fn plan(&self, target: &Tasks) -> Plan {
        let current = &self.progress.assigned;
        let mut kept = Holdings {
            active: current.active.filtered(|task| target.active.contains(task)),
            standby: current.standby.filtered(|task| target.standby.contains(task)),
            warmup: current.warmup.filtered(|task| target.warmup.contains(task)),
        };
        let mut revoked = Holdings {
            active: current.active.filtered(|task| !target.active.contains(task)),
            standby: current.standby.filtered(|task| !target.standby.contains(task)),
            warmup: current.warmup.filtered(|task| !target.warmup.contains(task)),
        };
        let mut assignable = Tasks {
            active: target.active.filtered(|task| !current.active.contains(task)),
            standby: target.standby.filtered(|task| !current.standby.contains(task)),
            warmup: target.warmup.filtered(|task| !current.warmup.contains(task)),
        };
        let mut unreleased = false;
        let mut free_only = |tasks: &mut TaskSet, is_blocked: &dyn Fn(Task) -> bool| {
            unreleased |= !tasks.split_off(|task| !is_blocked(task)).is_empty();
        };

        // A copy that only changes its kind stays where it is, unasked.
        let to_warmup = revoked.standby.split_off(|task| !target.warmup.contains(task));
        let to_standby = revoked.warmup.split_off(|task| !target.standby.contains(task));
        assignable.warmup.split_off(|task| !to_warmup.contains(task));
        assignable.standby.split_off(|task| !to_standby.contains(task));
        kept.warmup.insert_all(&to_warmup);
        kept.standby.insert_all(&to_standby);

        free_only(&mut assignable.active, &|task| self.is_active_blocked(task));
        free_only(&mut assignable.standby, &|task| self.is_standby_blocked(task));
        free_only(&mut assignable.warmup, &|task| self.is_warmup_blocked(task));

        // A copy that shall become the active task stays until that task is free.
        kept.standby.insert_all(&revoked.standby.split_off(|task| !target.active.contains(task)));
        kept.warmup.insert_all(&revoked.warmup.split_off(|task| !target.active.contains(task)));

        // An active task that becomes a copy here is given as such at once, while it is given back as active: the client
        // recycles the store.
        let demoted = assignable.standby.split_off(|task| !current.active.contains(task));
        kept.standby.insert_all(&demoted);

        Plan { kept, revoked, assignable, unreleased }
    }

    fn is_active_blocked(&self, task: Task) -> bool {
        let is_held = self.is_held_by_anyone(task, Role::Active) && !planted::is_in(Bug::TaskFreeTooEarly);
        is_held || self.is_held_beside_me(task, Role::Standby) || self.is_held_beside_me(task, Role::Warmup)
    }

    fn is_standby_blocked(&self, task: Task) -> bool {
        self.is_held_beside_me(task, Role::Active)
            || self.is_held_in_my_process(task, Role::Standby)
            || self.is_held_beside_me(task, Role::Warmup)
    }

    fn is_warmup_blocked(&self, task: Task) -> bool {
        self.is_held_in_my_process(task, Role::Active)
            || self.is_held_beside_me(task, Role::Standby)
            || self.is_held_in_my_process(task, Role::Warmup)
    }

    fn is_held_by_anyone(&self, task: Task, role: Role) -> bool {
        self.group.is_held(task, role, |_, _| true)
    }

    fn is_held_in_my_process(&self, task: Task, role: Role) -> bool {
        self.group.is_held(task, role, |_, process| process == self.process_id)
    }

    /// By another member of the process, or by this one among what it is still to give back.
    fn is_held_beside_me(&self, task: Task, role: Role) -> bool {
        let assigned_to_me = self.progress.assigned.contains(role, task);
        self.group.is_held(task, role, |member, process| {
            let is_me = member == self.member_id || Some(member) == self.replaced;
            (is_me && !assigned_to_me) || (!is_me && process == self.process_id)
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::{
        borrow::Cow,
        format,
        string::{String, ToString},
        vec::Vec,
    };

    use riparian_types::{AssignmentEpoch, MemberEpoch, PartitionIndex};

    use super::{Walker, reconcile};
    use crate::{
        record::{MemberState, StreamsCurrentAssignmentValue, StreamsMemberMetadataValue},
        streams::{
            ActiveTaskIds, TaskIds, TaskLists,
            group::{Progress, StreamsGroup},
            membership::Owned,
        },
        tasks::{TaskSet, Tasks},
    };

    /// The epoch that members are on their way to.
    const TARGET_EPOCH: AssignmentEpoch = AssignmentEpoch(9);

    fn partitions(text: &str) -> Vec<PartitionIndex> {
        text.split_whitespace().map(|partition| PartitionIndex(partition.parse().unwrap())).collect()
    }

    /// "active | standby | warm-up", the tasks by their partitions.
    fn lists(text: &str) -> [Vec<TaskIds>; 3] {
        let list = |text: &str| match partitions(text) {
            partitions if partitions.is_empty() => Vec::new(),
            partitions => alloc::vec![TaskIds { subtopology: "0".into(), partitions }],
        };
        let parts: Vec<&str> = text.split('|').collect();
        [0, 1, 2].map(|index| list(parts.get(index).unwrap_or(&"")))
    }

    fn with_epochs(lists: Vec<TaskIds>) -> Vec<ActiveTaskIds> {
        let with_epoch = |list: TaskIds| ActiveTaskIds {
            assignment_epochs: alloc::vec![AssignmentEpoch(4); list.partitions.len()],
            subtopology: list.subtopology,
            partitions: list.partitions,
        };
        lists.into_iter().map(with_epoch).collect()
    }

    fn add(group: &mut StreamsGroup, member: &str, process: &str, state: MemberState, tasks: &str) {
        let metadata = StreamsMemberMetadataValue { process_id: process.into(), ..Default::default() };
        group.apply_member_metadata(&member.into(), Some(&metadata)).unwrap();
        let (assigned, pending) = tasks.split_once('!').unwrap_or((tasks, ""));
        let [active, standby, warmup] = lists(assigned);
        let [active_pending, standby_pending, warmup_pending] = lists(pending);
        let value = StreamsCurrentAssignmentValue {
            member_epoch: MemberEpoch(5),
            previous_member_epoch: MemberEpoch(4),
            state,
            active: with_epochs(active),
            standby,
            warmup,
            active_pending_revocation: with_epochs(active_pending),
            standby_pending_revocation: standby_pending,
            warmup_pending_revocation: warmup_pending,
        };
        group.apply_current_assignment(&member.into(), Some(&value)).unwrap();
    }

    fn show(progress: &Progress) -> String {
        let set = |set: &TaskSet| set.iter().map(|task| task.partition().to_string()).collect::<Vec<_>>().join(" ");
        let holdings = |tasks: &crate::tasks::Holdings| {
            let active = tasks.active.iter().map(|active| match active.epoch {
                TARGET_EPOCH => format!("{}!", active.task.partition()),
                _ => active.task.partition().to_string(),
            });
            format!("{}|{}|{}", active.collect::<Vec<_>>().join(" "), set(&tasks.standby), set(&tasks.warmup))
        };
        let (assigned, pending) = (holdings(&progress.assigned), holdings(progress.pending_revocation()));
        format!(
            "{:?} {} before {} {assigned} gives back {pending}",
            progress.state, progress.epoch, progress.previous_epoch
        )
        .replace(" gives back ||", "")
    }

    /// `me` of process p; `others` are "process tasks" separated by semicolons; after `!` come tasks not given back yet.
    fn check(state: MemberState, me: &str, others: &str, target: &str, owned: Option<&str>, expected: &str) {
        let mut group = StreamsGroup::new();
        add(&mut group, "me", "p", state, me);
        for (index, other) in others.split(';').filter(|other| !other.is_empty()).enumerate() {
            let (process, tasks) = other.trim().split_once(' ').unwrap();
            add(&mut group, &format!("other{index}"), process, MemberState::Stable, tasks);
        }
        // The subtopology must be known even if nobody has a task.
        let [active, standby, warmup] = lists("0");
        group.apply_target(&"nobody".into(), Some(&TaskLists { active, standby, warmup })).unwrap();
        let tasks = |text: &str| {
            let [active, standby, warmup] = lists(text).map(|lists| group.ids.to_set(&lists).unwrap());
            Tasks { active, standby, warmup }
        };
        let owned = owned.map(|owned| Owned { tasks: tasks(owned), has_unknown: false });
        let walker = Walker {
            group: &group,
            member_id: &"me".into(),
            process_id: &"p".into(),
            replaced: None,
            progress: &group.members.get("me").unwrap().progress,
            owned: owned.as_ref(),
        };
        let next = reconcile(&walker, TARGET_EPOCH, || Cow::Owned(tasks(target)));
        let actual = match next {
            Ok(Some(next)) => show(&next),
            Ok(None) => "nothing".into(),
            Err(error) => format!("{error:?}").split('(').next().unwrap_or_default().into(),
        };
        assert_eq!(actual, expected, "{me} of {others} to {target}");
    }

    use MemberState::{Stable, Unknown, UnreleasedTasks, UnrevokedTasks};

    #[test]
    fn what_is_not_wanted_any_more_is_given_back_first() {
        check(Stable, "0 1", "", "0 2", None, "UnrevokedTasks 5 before 5 0|| gives back 1||");
        check(Stable, "0 1", "", "0 2", Some("0 1"), "UnrevokedTasks 5 before 5 0|| gives back 1||");
        check(Stable, "0 1", "", "0 2", Some("0"), "Stable 9 before 5 0 2!||");
        check(UnrevokedTasks, "0 ! 1", "", "0 2", None, "nothing");
        check(UnrevokedTasks, "0 ! 1", "", "0 2", Some("0 1"), "nothing");
        check(UnrevokedTasks, "0 ! 1", "", "0 2", Some("0"), "Stable 9 before 5 0 2!||");
        check(UnrevokedTasks, "0 3 ! 1", "", "0", Some("0 3"), "UnrevokedTasks 6 before 5 0|| gives back 3||");
    }

    #[test]
    fn what_others_hold_is_waited_for() {
        check(Stable, "0", "q 1", "0 1 2", None, "UnreleasedTasks 9 before 5 0 2!||");
        check(Stable, "0", "q ! 1", "0 1", None, "UnreleasedTasks 9 before 5 0||");
        check(UnreleasedTasks, "0", "", "0 1", None, "Stable 9 before 5 0 1!||");
        // Also by itself, until what it has given back stands in the log.
        check(UnrevokedTasks, "0 ! 1", "", "0 1", Some("0"), "UnreleasedTasks 9 before 5 0||");
    }

    #[test]
    fn a_process_has_a_task_once() {
        check(Stable, "", "p |1", "1", None, "UnreleasedTasks 9 before 5 ||");
        check(Stable, "", "p ||1", "1", None, "UnreleasedTasks 9 before 5 ||");
        check(Stable, "", "q |1", "1", None, "Stable 9 before 5 1!||");
        for (other, blocked) in [("p 1", true), ("p |1", true), ("p ||1", true), ("q 1", false), ("q |1", false)] {
            let (standby, warmup) = match blocked {
                true => ("UnreleasedTasks 9 before 5 ||", "UnreleasedTasks 9 before 5 ||"),
                false => ("Stable 9 before 5 |1|", "Stable 9 before 5 ||1"),
            };
            check(Stable, "", other, "|1", None, standby);
            check(Stable, "", other, "||1", None, warmup);
        }
    }

    #[test]
    fn a_copy_becomes_active_in_place() {
        check(Stable, "|1", "", "1", None, "Stable 9 before 5 1!||");
        check(Stable, "||1", "", "1", None, "Stable 9 before 5 1!||");
        check(Stable, "|1", "q 1", "1", None, "UnreleasedTasks 9 before 5 |1|");
        check(Stable, "0 |1", "", "1", None, "UnrevokedTasks 5 before 5 |1| gives back 0||");
        check(UnrevokedTasks, "|1 ! 0", "", "1", Some("|1"), "Stable 9 before 5 1!||");
    }

    #[test]
    fn an_active_task_becomes_a_copy_in_place() {
        check(Stable, "0 1", "", "0|1", None, "UnrevokedTasks 5 before 5 0|1| gives back 1||");
        check(UnrevokedTasks, "0|1 ! 1", "", "0|1", Some("0|1"), "Stable 9 before 5 0|1|");
        check(Stable, "1", "", "||1", None, "UnrevokedTasks 5 before 5 || gives back 1||");
    }

    #[test]
    fn copies_change_their_kind_unasked() {
        check(Stable, "|1", "", "||1", None, "Stable 9 before 5 ||1");
        check(Stable, "||1", "", "|1", None, "Stable 9 before 5 |1|");
    }

    #[test]
    fn copies_are_given_back_too() {
        check(Stable, "|1|2", "", "", Some("|1|2"), "UnrevokedTasks 5 before 5 || gives back |1|2");
        check(Stable, "|1|2", "", "", Some("|2|1"), "Stable 9 before 5 ||");
    }

    #[test]
    fn an_unknown_state_is_left_without_tasks_only() {
        check(Unknown, "1", "", "2", None, "FencedMemberEpoch");
        check(Unknown, "1", "", "2", Some("1"), "FencedMemberEpoch");
        check(Unknown, "1", "", "2", Some(""), "Stable 9 before 5 2!||");
    }
}
