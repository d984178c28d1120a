//! The steps in which a group walks to its target while tasks warm up (KIP-1071).
//!
//! The target stands in the records; the step towards it is derived from the target, from what members hold and from how
//! far they report their copies to be. It stays as it is for one assignment epoch, so that decisions don't shift while
//! members walk. Once all have arrived, the next step is derived; if it asks anybody for something else, the group's and
//! the assignment's epoch advance.
//!
//! A restart loses the step, and what members report. It is derived anew then: what is not known counts as not caught up,
//! so that everything stays where it is until members have reported.

use alloc::{boxed::Box, collections::BTreeMap};

use riparian_types::{AssignmentEpoch, GroupEpoch, GroupId, MemberId, Offset};

use crate::{
    record::{Record, StreamsTargetMetadataValue},
    soft::{SoftGroup, SoftMember},
    streams::{
        TaskOffset,
        group::StreamsGroup,
        target::{self, StepParts, TargetInput},
    },
    tasks::{SubtopologyIds, Task, TaskSet, Tasks},
};

/// How soon a group with tasks on their way looks at what members report, if nothing in it has caught up.
pub(super) const LOOK_MS: i64 = 1000;

/// What members shall have until the next assignment epoch, where that is not the target.
#[derive(Debug)]
pub(crate) struct WarmupStep {
    /// The numbering of the tasks.
    ids: SubtopologyIds,
    /// The tasks of members that have others than in the target.
    slices: BTreeMap<MemberId, Tasks>,
    /// The copies that tasks wait for.
    awaited: BTreeMap<MemberId, TaskSet>,
}

/// What is known of the step of an assignment epoch.
pub(super) enum Known<'a> {
    /// Nothing, since the machine was loaded.
    Nothing,
    /// It is the target.
    Target,
    /// Tasks are on their way.
    Staged(&'a WarmupStep),
}

impl WarmupStep {
    /// What the member shall have, if that is not what the target says.
    pub(super) fn slice(&self, member_id: &MemberId) -> Option<&Tasks> {
        self.slices.get(member_id)
    }

    /// Whether a copy that a task waits for is nearly complete, by what its member reports.
    pub(super) fn has_caught_up(&self, member_id: &MemberId, member: &SoftMember, acceptable_lag: i64) -> bool {
        let Some(awaited) = self.awaited.get(member_id) else { return false };
        let of_awaited = |reported: &TaskOffset| {
            let task = Task::new(self.ids.find(&reported.subtopology)?, reported.partition)?;
            (awaited.contains(task) && reported.offset != Offset(i64::MAX)).then_some((task, reported.offset))
        };
        let positions: BTreeMap<Task, Offset> = member.task_offsets().iter().filter_map(of_awaited).collect();
        let mut ends = member.task_end_offsets().iter().filter_map(of_awaited);
        ends.any(|(task, end)| positions.get(&task).is_some_and(|at| end.0.saturating_sub(at.0) <= acceptable_lag))
    }
}

impl SoftGroup {
    /// The step of the group's assignment epoch.
    pub(super) fn step_of(&self, group: &StreamsGroup) -> Known<'_> {
        match &self.step {
            _ if !self.is_step_known && group.assignment_epoch.0 > 0 => Known::Nothing,
            None => Known::Target,
            Some(step) if step.ids == group.ids => Known::Staged(step),
            Some(_) => Known::Nothing,
        }
    }

    /// Keeps the step of the assignment epoch that the group has or gets now.
    pub(super) fn keep_step(&mut self, ids: &SubtopologyIds, parts: StepParts) {
        self.is_step_known = true;
        let StepParts { slices, is_staged, awaited } = parts;
        self.step = is_staged.then(|| Box::new(WarmupStep { ids: ids.clone(), slices, awaited }));
    }

    /// A member takes another's place.
    pub(super) fn rename_in_step(&mut self, old: &MemberId, new: &MemberId) {
        if let Some(step) = &mut self.step
            && let Some(slice) = step.slices.remove(old)
        {
            step.slices.insert(new.clone(), slice);
        }
        if let Some(step) = &mut self.step
            && let Some(awaited) = step.awaited.remove(old)
        {
            step.awaited.insert(new.clone(), awaited);
        }
    }
}

impl StepParts {
    /// Whether everybody who has arrived at the group's assignment epoch has what this step says.
    pub(super) fn agrees_with(&self, group: &StreamsGroup) -> bool {
        let mut arrived =
            group.members.iter().filter(|(_, member)| member.progress.is_reconciled_to(group.assignment_epoch));
        arrived.all(|(id, member)| {
            let wanted = self.slices.get(id).or_else(|| group.targets.get(id)).unwrap_or(const { &Tasks::EMPTY });
            member.progress.assigned.same_tasks(wanted, true)
        })
    }
}

/// The next step of a group in which nobody is on the way, or whose step is not known; and the records that begin it, if
/// somebody who has arrived has something else.
pub(super) fn advance(
    input: &TargetInput<'_>,
    group_id: &GroupId,
    soft_group: &SoftGroup,
    records: &mut alloc::vec::Vec<Record>,
) -> Option<StepParts> {
    let group = input.group;
    match soft_group.step_of(group) {
        Known::Target => return None,
        Known::Staged(_) if group.is_moving() => return None,
        Known::Staged(_) | Known::Nothing => {}
    }
    let parts = target::next_step(input);
    if parts.agrees_with(group) {
        return Some(parts);
    }
    let epoch = GroupEpoch(group.epoch.0.saturating_add(1));
    records.push(Record::StreamsGroupMetadata(group_id.clone(), Some(group.metadata_at(epoch))));
    // A step is no new assignment: the interval between assignments is counted from the target.
    let value = StreamsTargetMetadataValue {
        assignment_epoch: AssignmentEpoch(epoch.0),
        assignment_timestamp: group.assignment_timestamp,
    };
    records.push(Record::StreamsTargetMetadata(group_id.clone(), Some(value)));
    Some(parts)
}
