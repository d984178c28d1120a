//! What an assignor is told about a group.
//!
//! The fields are public and plain; [`AssignmentInput::check`] says whether they fit together.

use alloc::{sync::Arc, vec, vec::Vec};

use riparian_types::{InstanceId, MemberId, Offset, ProcessId, RackId, limits::GROUP_PLACEMENTS_MAX};

use crate::{InvalidInput, ProcessIndex, Subtopologies, TaskId};

/// Everything that an assignor may take into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentInput {
    /// The processes, sorted by id; each has at least one member. [`intern_processes`] makes this list.
    pub processes: Vec<ProcessId>,
    /// The members, sorted by id.
    pub members: Vec<MemberInput>,
    /// The subtopologies and the numbering of their tasks.
    pub subtopologies: Arc<Subtopologies>,
    /// The group's configuration.
    pub config: AssignmentConfig,
    /// What whoever keeps the changelogs knows of them, ascending by task; empty: nothing.
    pub changelogs: Vec<Changelogs>,
}

/// The changelog partitions of a task, their offsets added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changelogs {
    /// The task.
    pub task: TaskId,
    /// Where they begin.
    pub start: Offset,
    /// Where they end.
    pub end: Offset,
}

impl Changelogs {
    /// How many records there are to restore where nothing is; what compaction has removed counts too.
    pub fn records(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0).max(0).unsigned_abs()
    }
}

/// One member: a stream thread of a process.
///
/// The lists of tasks say what the member holds *now* (what was handed to it, without what it is asked to give up), not
/// what an earlier target promised it. Each ascends by task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInput {
    /// The member's id.
    pub id: MemberId,
    /// The process it belongs to.
    pub process: ProcessIndex,
    /// Its `group.instance.id`, if it is a static member.
    pub instance_id: Option<InstanceId>,
    /// Its `client.rack`.
    pub rack_id: Option<RackId>,
    /// Its client tags, sorted by key.
    pub client_tags: Vec<ClientTag>,
    /// Tasks it runs.
    pub active: Vec<TaskId>,
    /// Tasks it keeps a standby copy of.
    pub standby: Vec<TaskId>,
    /// Tasks it restores before it takes them over.
    pub warmup: Vec<TaskId>,
    /// How far the state it has on disk or in memory reaches, for the tasks it reports: also tasks that it holds in no
    /// role. Clients report the state on disk from every thread of the process.
    pub task_offsets: Vec<TaskOffset>,
    /// Where the changelogs of the tasks it reports end.
    pub task_end_offsets: Vec<TaskOffset>,
}

/// A key and a value by which an operator says where a client runs (`client.tag.*`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientTag {
    /// Such as `zone`.
    pub key: Arc<str>,
    /// Such as `eu-central-1a`.
    pub value: Arc<str>,
}

/// An offset sum of a task: the offsets of its changelog partitions added up, in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOffset {
    /// The task.
    pub task: TaskId,
    /// The sum; `i64::MAX` where the client does not know it.
    pub offset: Offset,
}

/// The group's configuration as far as it concerns assignors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentConfig {
    /// Standby copies wanted per stateful task (`streams.num.standby.replicas`); fewer are placed when there are not
    /// enough processes.
    pub num_standby_replicas: u32,
    /// Keys of client tags over whose values standbys should be spread, the most important first
    /// (`streams.rack.aware.assignment.tags`).
    pub rack_aware_assignment_tags: Vec<Arc<str>>,
}

impl MemberInput {
    /// A member that holds and reports nothing.
    pub fn new(id: MemberId, process: ProcessIndex) -> Self {
        Self {
            id,
            process,
            instance_id: None,
            rack_id: None,
            client_tags: vec![],
            active: vec![],
            standby: vec![],
            warmup: vec![],
            task_offsets: vec![],
            task_end_offsets: vec![],
        }
    }
}

impl AssignmentInput {
    /// How many standbys a stateful task can have: as many as wanted, each on a process of its own beside the active.
    pub fn standbys_per_task_max(&self) -> u32 {
        let others = u32::try_from(self.processes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        self.config.num_standby_replicas.min(others)
    }

    /// Checks the contract of the input: order, known numbers, limits.
    pub fn check(&self) -> Result<(), InvalidInput> {
        if let Some([before, after]) = self.processes.array_windows().find(|[before, after]| before >= after) {
            return Err(InvalidInput::UnsortedProcesses { before: before.clone(), after: after.clone() });
        }
        if let Some([before, after]) = self.members.array_windows().find(|[before, after]| before.id >= after.id) {
            return Err(InvalidInput::UnsortedMembers { before: before.id.clone(), after: after.id.clone() });
        }
        let placement_count = u64::from(self.subtopologies.task_count())
            + u64::from(self.subtopologies.stateful_task_count()) * u64::from(self.standbys_per_task_max());
        if placement_count > GROUP_PLACEMENTS_MAX {
            return Err(InvalidInput::TooManyPlacements);
        }
        self.check_processes()?;
        if self.changelogs.iter().any(|known| known.task.0 >= self.subtopologies.task_count())
            || !self.changelogs.is_sorted_by_key(|known| known.task)
        {
            return Err(InvalidInput::UnsortedChangelogs);
        }
        self.members.iter().try_for_each(|member| self.check_tasks(member))
    }

    fn check_processes(&self) -> Result<(), InvalidInput> {
        let mut has_member = vec![false; self.processes.len()];
        for member in &self.members {
            let Some(has_member) = has_member.get_mut(member.process.index()) else {
                return Err(InvalidInput::UnknownProcess { member: member.id.clone(), process: member.process });
            };
            *has_member = true;
        }
        match core::iter::zip(&self.processes, has_member).find(|(_, has_member)| !has_member) {
            Some((process, _)) => Err(InvalidInput::EmptyProcess { process: process.clone() }),
            None => Ok(()),
        }
    }

    fn check_tasks(&self, member: &MemberInput) -> Result<(), InvalidInput> {
        for tasks in [&member.active, &member.standby, &member.warmup] {
            self.check_ascending(member, tasks.iter().copied())?;
        }
        for offsets in [&member.task_offsets, &member.task_end_offsets] {
            self.check_ascending(member, offsets.iter().map(|reported| reported.task))?;
        }
        Ok(())
    }

    fn check_ascending(
        &self,
        member: &MemberInput,
        tasks: impl IntoIterator<Item = TaskId>,
    ) -> Result<(), InvalidInput> {
        let mut least = 0;
        for task in tasks {
            if task.0 < least {
                return Err(InvalidInput::UnsortedTasks { member: member.id.clone(), task });
            }
            if task.0 >= self.subtopologies.task_count() {
                return Err(InvalidInput::UnknownTask { member: member.id.clone(), task });
            }
            least = task.0 + 1;
        }
        Ok(())
    }
}

/// Numbers the processes of a group's members: the sorted list of process ids, and each member's place in it.
pub fn intern_processes<'a>(
    process_ids: impl IntoIterator<Item = &'a ProcessId>,
) -> (Vec<ProcessId>, Vec<ProcessIndex>) {
    let by_member: Vec<&ProcessId> = process_ids.into_iter().collect();
    let mut order: Vec<usize> = (0..by_member.len()).collect();
    order.sort_unstable_by_key(|&member| by_member[member]);
    let mut processes: Vec<ProcessId> = Vec::new();
    let mut indexes = vec![ProcessIndex(0); by_member.len()];
    for member in order {
        if processes.last() != Some(by_member[member]) {
            processes.push(by_member[member].clone());
        }
        indexes[member] = ProcessIndex::at(processes.len() - 1);
    }
    (processes, indexes)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use riparian_types::{Offset, ProcessId, limits::GROUP_TASKS_MAX};

    use super::{AssignmentConfig, AssignmentInput, MemberInput, TaskOffset, intern_processes};
    use crate::{InvalidInput, ProcessIndex, Subtopologies, SubtopologyInput, TaskId};

    fn input() -> AssignmentInput {
        let subtopology = SubtopologyInput { id: "0".into(), partition_count: 4, stateful: true };
        AssignmentInput {
            processes: vec!["p".into(), "q".into()],
            members: vec![MemberInput::new("a".into(), ProcessIndex(1)), MemberInput::new("b".into(), ProcessIndex(0))],
            subtopologies: Subtopologies::new(vec![subtopology]).unwrap().into(),
            config: AssignmentConfig { num_standby_replicas: 9, rack_aware_assignment_tags: vec![] },
            changelogs: vec![],
        }
    }

    fn check(change: impl FnOnce(&mut AssignmentInput), expected: Result<(), InvalidInput>) {
        let mut input = input();
        change(&mut input);
        assert_eq!(input.check(), expected);
    }

    #[test]
    fn a_proper_input_passes() {
        check(|_| {}, Ok(()));
        check(|input| input.members[0].active = vec![TaskId(0), TaskId(3)], Ok(()));
        assert_eq!(input().standbys_per_task_max(), 1);
    }

    #[test]
    fn disorder_is_refused() {
        let (before, after) = ("q".into(), "p".into());
        check(|input| input.processes.reverse(), Err(InvalidInput::UnsortedProcesses { before, after }));
        let (before, after) = ("a".into(), "a".into());
        check(|input| input.members[1].id = "a".into(), Err(InvalidInput::UnsortedMembers { before, after }));
        let unsorted = |task| Err(InvalidInput::UnsortedTasks { member: "a".into(), task: TaskId(task) });
        check(|input| input.members[0].active = vec![TaskId(3), TaskId(1)], unsorted(1));
        check(|input| input.members[0].warmup = vec![TaskId(2), TaskId(2)], unsorted(2));
    }

    #[test]
    fn unknown_numbers_are_refused() {
        let process = ProcessIndex(2);
        check(
            |input| input.members[0].process = process,
            Err(InvalidInput::UnknownProcess { member: "a".into(), process }),
        );
        check(
            |input| input.members[0].process = ProcessIndex(0),
            Err(InvalidInput::EmptyProcess { process: "q".into() }),
        );
        let unknown = || Err(InvalidInput::UnknownTask { member: "b".into(), task: TaskId(4) });
        check(|input| input.members[1].standby = vec![TaskId(4)], unknown());
        let reported = TaskOffset { task: TaskId(4), offset: Offset(0) };
        check(|input| input.members[1].task_offsets = vec![reported], unknown());
    }

    #[test]
    fn too_many_placements_are_refused() {
        check(
            |input| {
                let subtopology = SubtopologyInput { id: "0".into(), partition_count: GROUP_TASKS_MAX, stateful: true };
                input.subtopologies = Subtopologies::new(vec![subtopology]).unwrap().into();
                for index in 0..20u8 {
                    let process = ProcessIndex(2 + u32::from(index));
                    input.processes.push(alloc::format!("r{index:02}").into());
                    input.members.push(MemberInput::new(alloc::format!("r{index:02}").into(), process));
                }
                input.config.num_standby_replicas = u32::MAX;
            },
            Err(InvalidInput::TooManyPlacements),
        );
    }

    #[test]
    fn processes_are_numbered_by_id() {
        let ids = ["q", "p", "q", "o"].map(ProcessId::from);
        let (processes, indexes) = intern_processes(&ids);
        assert_eq!(processes, ["o", "p", "q"].map(ProcessId::from));
        assert_eq!(indexes, [2, 1, 2, 0].map(ProcessIndex));
    }
}
