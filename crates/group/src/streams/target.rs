//! The target assignment: when it is computed, from what, and what is written of it.

use alloc::{collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};

use riparian_assignor::{
    Assignment, AssignmentConfig, AssignmentInput, ClientTag, MemberAssignment, MemberIndex, MemberInput, Stage,
    SubtopologyIndex, TaskId, WarmupConfig, WarmupSupport, assign_checked, built_in, intern_processes, refine,
};
use riparian_types::{AssignmentEpoch, GroupEpoch, GroupId, LookupMap, MemberId, Offset, WallMillis};

use crate::{
    config::{Changelogs, NUM_STANDBY_REPLICAS, RACK_AWARE_ASSIGNMENT_TAGS},
    record::{Record, StreamsMemberMetadataValue, StreamsTargetMetadataValue},
    reply::StreamsHeartbeatError,
    soft::SoftMember,
    streams::{
        TaskOffset, Topology,
        configured::ConfiguredTopology,
        group::{Progress, StreamsGroup},
    },
    tasks::{SubtopologyIds, Task, TaskSet, Tasks},
    telemetry::GroupTelemetry,
};

/// A member that joins or changes in the heartbeat at hand, and is not stored like that yet.
#[derive(Clone, Copy)]
pub(super) struct PendingMember<'a> {
    pub(super) id: &'a MemberId,
    /// Whose place it takes.
    pub(super) replaced: Option<&'a MemberId>,
    pub(super) metadata: &'a StreamsMemberMetadataValue,
    pub(super) progress: &'a Progress,
    pub(super) task_offsets: Option<&'a [TaskOffset]>,
    pub(super) task_end_offsets: Option<&'a [TaskOffset]>,
    pub(super) warmup_support: WarmupSupport,
}

/// What a target is computed from.
pub(crate) struct TargetInput<'a> {
    pub(crate) group: &'a StreamsGroup,
    pub(super) pending: Option<PendingMember<'a>>,
    pub(super) soft_members: Option<&'a LookupMap<MemberId, SoftMember>>,
    pub(super) ids: &'a SubtopologyIds,
    pub(super) configured: &'a ConfiguredTopology,
    pub(super) assignor_name: &'a str,
    /// As stored with the group.
    pub(super) configs: &'a [(String, String)],
    pub(super) warmups: WarmupConfig,
    /// The group's, or the one that it will have.
    pub(super) topology: &'a Topology,
    pub(super) changelogs: &'a Changelogs,
    pub(super) telemetry: &'a GroupTelemetry,
}

/// A target and the first step towards it.
pub(crate) struct Plan {
    /// Everybody's target, by member id.
    pub(crate) targets: BTreeMap<MemberId, Tasks>,
    pub(super) step: StepParts,
}

/// How a step differs from its target.
#[derive(Default)]
pub(super) struct StepParts {
    /// The tasks of the members that have others than in the target.
    pub(super) slices: BTreeMap<MemberId, Tasks>,
    /// Whether there are tasks that are not where the target wants them.
    pub(super) is_staged: bool,
    /// The copies, by their members, that tasks wait for: once one has caught up, there is another step.
    pub(super) awaited: BTreeMap<MemberId, TaskSet>,
}

/// Computes where everybody shall go.
pub(crate) fn compute(input: &TargetInput<'_>) -> Result<Plan, StreamsHeartbeatError> {
    let members = input.members();
    if !input.configured.is_ready() || members.is_empty() {
        let targets = members.into_iter().map(|(id, _, _)| (id.clone(), Tasks::default())).collect();
        return Ok(Plan { targets, step: StepParts::default() });
    }
    let failed = |text: String| {
        let name = input.assignor_name;
        StreamsHeartbeatError::Internal(format!("The assignor {name} could not compute a target assignment: {text}."))
    };
    let Some(assignor) = built_in::find(input.assignor_name) else {
        input.telemetry.assignment_failures().increment();
        return Err(failed(String::from("it is not known to this server")));
    };
    let assignment_input = input.assignment_input(&members);
    let assignment = input.telemetry.assignment(|| assign_checked(assignor, &assignment_input));
    let assignment = assignment.map_err(|error| failed(format!("{error}")))?;
    let step = input.step(&members, &assignment_input, &assignment);
    let target = |tasks: MemberAssignment| Tasks {
        active: input.to_set(&tasks.active),
        standby: input.to_set(&tasks.standby),
        warmup: TaskSet::EMPTY,
    };
    let targets = members.into_iter().zip(assignment.members).map(|((id, ..), tasks)| (id.clone(), target(tasks)));
    Ok(Plan { targets: targets.collect(), step })
}

/// The next step towards the target that stands in the records.
pub(super) fn next_step(input: &TargetInput<'_>) -> StepParts {
    let members = input.members();
    if input.warmups.num_warmup_replicas == 0 || !input.configured.is_ready() || members.is_empty() {
        return StepParts::default();
    }
    let assignment_input = input.assignment_input(&members);
    let target = |(id, ..): &(&MemberId, _, _)| {
        let stored = input.stored_target(id).unwrap_or(const { &Tasks::EMPTY });
        MemberAssignment {
            active: input.task_ids(stored.active.iter()),
            standby: input.task_ids(stored.standby.iter()),
        }
    };
    let target = Assignment { members: members.iter().map(target).collect() };
    input.step(&members, &assignment_input, &target)
}

/// Writes what changes for members, then the target's epoch.
pub(crate) fn records(
    input: &TargetInput<'_>,
    group_id: &GroupId,
    targets: &BTreeMap<MemberId, Tasks>,
    epoch: GroupEpoch,
    timestamp: WallMillis,
    records: &mut Vec<Record>,
) {
    for (member_id, target) in targets {
        if input.stored_target(member_id) != Some(target) {
            let lists = input.ids.to_lists(target);
            records.push(Record::StreamsTargetMember(group_id.clone(), member_id.clone(), Some(lists)));
        }
    }
    let value =
        StreamsTargetMetadataValue { assignment_epoch: AssignmentEpoch(epoch.0), assignment_timestamp: timestamp };
    records.push(Record::StreamsTargetMetadata(group_id.clone(), Some(value)));
}

/// A member's id, what it is, and where it stands.
type Listed<'a> = (&'a MemberId, &'a StreamsMemberMetadataValue, &'a Progress);

impl<'a> TargetInput<'a> {
    fn assignment_input(&self, members: &[Listed<'a>]) -> AssignmentInput {
        let (processes, indexes) = intern_processes(members.iter().map(|(_, metadata, _)| &metadata.process_id));
        let describe = |(&(id, metadata, progress), process)| {
            self.describe(MemberInput::new(MemberId::clone(id), process), metadata, progress)
        };
        AssignmentInput {
            processes,
            members: members.iter().zip(indexes).map(describe).collect(),
            subtopologies: Arc::clone(&self.configured.numbering),
            config: self.assignment_config(),
            changelogs: self.changelogs(),
        }
    }

    /// What is known of the state of tasks.
    fn changelogs(&self) -> Vec<riparian_assignor::Changelogs> {
        let mut known = Vec::new();
        if !self.changelogs.is_known() {
            return known;
        }
        for subtopology in &self.topology.subtopologies {
            let Some(index) = self.ids.find(&subtopology.id).and_then(|index| u32::try_from(index).ok()) else {
                continue;
            };
            let topics = subtopology.state_changelog_topics.iter().map(|topic| self.changelogs.ends(&topic.name));
            let Some(topics) = topics.collect::<Option<Vec<_>>>().filter(|topics| !topics.is_empty()) else { continue };
            for (partition, task) in (self.configured.numbering.tasks(SubtopologyIndex(index))).enumerate() {
                let sum = topics.iter().try_fold((0i64, 0i64), |(start, end), ends| {
                    let (from, to) = ends.get(partition)?;
                    Some((start.saturating_add(from.0), end.saturating_add(to.0)))
                });
                known.extend(sum.map(|(start, end)| riparian_assignor::Changelogs {
                    task,
                    start: Offset(start),
                    end: Offset(end),
                }));
            }
        }
        known.sort_by_key(|changelogs| changelogs.task);
        known
    }

    fn step(&self, members: &[Listed<'a>], input: &AssignmentInput, target: &Assignment) -> StepParts {
        if self.warmups.num_warmup_replicas == 0 {
            return StepParts::default();
        }
        let support: Vec<WarmupSupport> = members.iter().map(|(id, ..)| self.warmup_support(id)).collect();
        let step = refine(input, target, &support, &self.warmups);
        let mut awaited: BTreeMap<MemberIndex, Vec<TaskId>> = BTreeMap::new();
        for staged in &step.staged {
            if let Stage::WarmingUp(member) | Stage::ByStandby(member) = staged.stage {
                awaited.entry(member).or_default().push(staged.task);
            }
        }
        let by_member = |(member, tasks): (MemberIndex, Vec<TaskId>)| {
            members.get(member.index()).map(|(id, ..)| (MemberId::clone(id), self.to_set(&tasks)))
        };
        let mut parts = StepParts {
            slices: BTreeMap::new(),
            is_staged: !step.staged.is_empty(),
            awaited: awaited.into_iter().filter_map(by_member).collect(),
        };
        for (((id, ..), member), target) in members.iter().zip(&step.members).zip(&target.members) {
            if member.active != target.active || member.standby != target.standby || !member.warmup.is_empty() {
                let [active, standby, warmup] =
                    [&member.active, &member.standby, &member.warmup].map(|tasks| self.to_set(tasks));
                parts.slices.insert(MemberId::clone(id), Tasks { active, standby, warmup });
            }
        }
        parts
    }

    fn warmup_support(&self, id: &MemberId) -> WarmupSupport {
        match self.pending.filter(|pending| pending.id == id) {
            Some(pending) => pending.warmup_support,
            None => {
                let soft = self.soft_members.and_then(|members| members.get(id));
                soft.map(|soft| soft.warmup_support).unwrap_or_default()
            }
        }
    }

    fn to_task(&self, task: TaskId) -> Option<Task> {
        let (subtopology, partition) = self.configured.numbering.locate(task)?;
        Task::new(subtopology.index(), partition)
    }

    fn to_set(&self, tasks: &[TaskId]) -> TaskSet {
        TaskSet::from_unsorted(tasks.iter().filter_map(|&task| self.to_task(task)).collect())
    }

    /// The members as they will be, ordered by id.
    fn members(&self) -> Vec<Listed<'a>> {
        let is_pending =
            |id: &MemberId| self.pending.is_some_and(|pending| id == pending.id || Some(id) == pending.replaced);
        let stored = self.group.members.iter().filter(|(id, _)| !is_pending(id));
        let mut members: Vec<_> = stored.map(|(id, member)| (id, member.metadata.as_ref(), &member.progress)).collect();
        if let Some(pending) = self.pending {
            let index = members.partition_point(|(id, _, _)| *id < pending.id);
            members.insert(index, (pending.id, pending.metadata, pending.progress));
        }
        members
    }

    /// The target that the member has already, by its own id or that of the member whose place it takes.
    fn stored_target(&self, member_id: &MemberId) -> Option<&Tasks> {
        let replaced = self.pending.filter(|pending| pending.id == member_id).and_then(|pending| pending.replaced);
        self.group.targets.get(replaced.unwrap_or(member_id))
    }

    fn describe(&self, member: MemberInput, metadata: &StreamsMemberMetadataValue, progress: &Progress) -> MemberInput {
        let soft = self.soft_members.and_then(|members| members.get(&member.id));
        let pending = self.pending.filter(|pending| *pending.id == member.id);
        let offsets = |reported: Option<&'a [TaskOffset]>, kept: Option<&'a [TaskOffset]>| {
            self.task_offsets(reported.or(kept).unwrap_or_default())
        };
        let assigned = &progress.assigned;
        MemberInput {
            instance_id: metadata.instance_id.clone(),
            rack_id: metadata.rack_id.clone(),
            client_tags: (metadata.client_tags.iter())
                .map(|(key, value)| ClientTag { key: key.as_str().into(), value: value.as_str().into() })
                .collect(),
            active: self.task_ids(assigned.active.tasks()),
            standby: self.task_ids(assigned.standby.iter()),
            warmup: self.task_ids(assigned.warmup.iter()),
            task_offsets: offsets(pending.and_then(|pending| pending.task_offsets), soft.map(SoftMember::task_offsets)),
            task_end_offsets: offsets(
                pending.and_then(|pending| pending.task_end_offsets),
                soft.map(SoftMember::task_end_offsets),
            ),
            ..member
        }
    }

    /// In the assignor's numbers, without tasks that don't exist any more.
    fn task_ids(&self, tasks: impl Iterator<Item = Task>) -> Vec<TaskId> {
        tasks.filter_map(|task| self.task_id(task)).collect()
    }

    fn task_id(&self, task: Task) -> Option<TaskId> {
        let subtopology = riparian_assignor::SubtopologyIndex(u32::try_from(task.subtopology()).ok()?);
        self.configured.numbering.task(subtopology, task.partition())
    }

    fn task_offsets(&self, reported: &[TaskOffset]) -> Vec<riparian_assignor::TaskOffset> {
        let known = reported.iter().filter_map(|reported| {
            let task = Task::new(self.ids.find(&reported.subtopology)?, reported.partition)?;
            Some(riparian_assignor::TaskOffset { task: self.task_id(task)?, offset: reported.offset })
        });
        let mut offsets: Vec<_> = known.collect();
        offsets.sort_by_key(|offset| offset.task);
        offsets
    }

    fn assignment_config(&self) -> AssignmentConfig {
        let value = |key: &str| self.configs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        let tags = value(RACK_AWARE_ASSIGNMENT_TAGS).unwrap_or_default();
        AssignmentConfig {
            num_standby_replicas: value(NUM_STANDBY_REPLICAS).and_then(|count| count.parse().ok()).unwrap_or(0),
            rack_aware_assignment_tags: tags.split(',').filter(|tag| !tag.is_empty()).map(Into::into).collect(),
        }
    }
}
