//! Tasks as numbers, and sorted sets of them.
//!
//! A task is its subtopology's place among the group's sorted subtopology ids and its partition, in one `u32`, so that
//! the numbers order as Kafka orders tasks and do not move when a topic grows. Names appear at the edges only:
//! [`SubtopologyIds`] translates.
//!
//! **Invariant:** every set is strictly ascending.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::ops::{Deref, DerefMut};

use riparian_types::{AssignmentEpoch, MemberEpoch, PartitionIndex, SubtopologyId};

use crate::streams::{ActiveTaskIds, TaskIds, TaskLists};

/// Most subtopologies of one group.
pub(crate) const SUBTOPOLOGIES_MAX: usize = 1 << (32 - PARTITION_BITS);

const PARTITION_BITS: u32 = 20;

/// One task of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task(u32);

impl Task {
    /// The task of this partition; `None` if a number is negative or too large to be a task's.
    pub(crate) fn new(subtopology: usize, partition: PartitionIndex) -> Option<Self> {
        let partition = u32::try_from(partition.0).ok().filter(|&partition| partition < 1 << PARTITION_BITS)?;
        let subtopology = u32::try_from(subtopology).ok().filter(|&index| (index as usize) < SUBTOPOLOGIES_MAX)?;
        Some(Self(subtopology << PARTITION_BITS | partition))
    }

    /// The place of its subtopology.
    pub(crate) const fn subtopology(self) -> usize {
        (self.0 >> PARTITION_BITS) as usize
    }

    /// Its partition.
    pub(crate) const fn partition(self) -> PartitionIndex {
        PartitionIndex((self.0 & ((1 << PARTITION_BITS) - 1)) as i32)
    }

    /// The task of the same partition in subtopology `map[i]` for `i` the place of its own.
    pub(crate) fn renumbered(self, map: &[usize]) -> Self {
        self.with_subtopology(map[self.subtopology()])
    }

    const fn with_subtopology(self, subtopology: usize) -> Self {
        Self((subtopology as u32) << PARTITION_BITS | self.0 & ((1 << PARTITION_BITS) - 1))
    }
}

/// What a member does with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Active,
    Standby,
    Warmup,
}

/// An array without room to spare. There are many, and most are never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exact<T>(Option<Box<[T]>>);

impl<T> Exact<T> {
    const EMPTY: Self = Self(None);

    fn take(&mut self) -> Vec<T> {
        self.0.take().map(<[T]>::into_vec).unwrap_or_default()
    }
}

impl<T> Default for Exact<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T> From<Vec<T>> for Exact<T> {
    fn from(entries: Vec<T>) -> Self {
        Self((!entries.is_empty()).then(|| entries.into_boxed_slice()))
    }
}

impl<T> FromIterator<T> for Exact<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        entries.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> Deref for Exact<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> DerefMut for Exact<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

/// A strictly ascending set of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskSet(Exact<Task>);

impl TaskSet {
    pub(crate) const EMPTY: Self = Self(Exact::EMPTY);

    pub(crate) fn from_unsorted(mut tasks: Vec<Task>) -> Self {
        tasks.sort_unstable();
        tasks.dedup();
        Self(tasks.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Task> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, task: Task) -> bool {
        self.0.binary_search(&task).is_ok()
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.iter().any(|task| other.contains(task))
    }

    /// Keeps the tasks for which `keep` holds, and returns the others.
    pub(crate) fn split_off(&mut self, mut keep: impl FnMut(Task) -> bool) -> Self {
        if self.iter().all(&mut keep) {
            return Self::EMPTY;
        }
        let (kept, gone): (Vec<Task>, Vec<Task>) = self.iter().partition(|&task| keep(task));
        self.0 = kept.into();
        Self(gone.into())
    }

    pub(crate) fn filtered(&self, mut keep: impl FnMut(Task) -> bool) -> Self {
        Self(self.iter().filter(|&task| keep(task)).collect())
    }

    pub(crate) fn insert_all(&mut self, others: &Self) {
        if !others.is_empty() {
            let mut tasks = self.0.take();
            tasks.extend_from_slice(&others.0);
            *self = Self::from_unsorted(tasks);
        }
    }
}

/// An active task and the epoch at which the member got it (KIP-1251).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActiveTask {
    pub(crate) task: Task,
    pub(crate) epoch: AssignmentEpoch,
}

/// Active tasks, strictly ascending by task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActiveTasks(Exact<ActiveTask>);

impl ActiveTasks {
    pub(crate) fn from_unsorted(mut tasks: Vec<ActiveTask>) -> Self {
        tasks.sort_by_key(|active| active.task);
        tasks.dedup_by_key(|active| active.task);
        Self(tasks.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ActiveTask> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        self.0.iter().map(|active| active.task)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn epoch_of(&self, task: Task) -> Option<AssignmentEpoch> {
        let index = self.0.binary_search_by_key(&task, |active| active.task).ok()?;
        Some(self.0[index].epoch)
    }

    pub(crate) fn contains(&self, task: Task) -> bool {
        self.epoch_of(task).is_some()
    }

    pub(crate) fn filtered(&self, mut keep: impl FnMut(Task) -> bool) -> Self {
        Self(self.iter().filter(|active| keep(active.task)).collect())
    }

    pub(crate) fn insert_all(&mut self, tasks: &TaskSet, epoch: AssignmentEpoch) {
        if !tasks.is_empty() {
            let mut all = self.0.take();
            all.extend(tasks.iter().map(|task| ActiveTask { task, epoch }));
            all.sort_by_key(|active| active.task);
            self.0 = all.into();
        }
    }

    /// The same tasks, all at this epoch.
    pub(crate) fn at_epoch(&self, epoch: AssignmentEpoch) -> Self {
        Self(self.tasks().map(|task| ActiveTask { task, epoch }).collect())
    }

    fn same_tasks(&self, other: &TaskSet) -> bool {
        self.0.len() == other.0.len() && self.tasks().eq(other.iter())
    }
}

/// Tasks by role, without epochs: a target, or what a member reports to own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tasks {
    pub(crate) active: TaskSet,
    pub(crate) standby: TaskSet,
    pub(crate) warmup: TaskSet,
}

impl Tasks {
    pub(crate) const EMPTY: Self = Self { active: TaskSet::EMPTY, standby: TaskSet::EMPTY, warmup: TaskSet::EMPTY };

    /// Moves each task from subtopology `i` to subtopology `map[i]`; the map is monotonic, so order is kept.
    pub(crate) fn renumber(&mut self, map: &[usize]) {
        self.active.renumber(map);
        self.standby.renumber(map);
        self.warmup.renumber(map);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Task> + '_ {
        self.active.iter().chain(self.standby.iter()).chain(self.warmup.iter())
    }
}

/// Tasks by role as a member holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    pub(crate) active: ActiveTasks,
    pub(crate) standby: TaskSet,
    pub(crate) warmup: TaskSet,
}

impl Holdings {
    pub(crate) const EMPTY: Self =
        Self { active: ActiveTasks(Exact::EMPTY), standby: TaskSet::EMPTY, warmup: TaskSet::EMPTY };

    /// In a box if there are any.
    pub(crate) fn if_any(self) -> Option<Box<Self>> {
        (!self.is_empty()).then(|| Box::new(self))
    }

    /// How many tasks of each role: active, standby, warm-up.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.active.0.len(), self.standby.0.len(), self.warmup.0.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.standby.is_empty() && self.warmup.is_empty()
    }

    pub(crate) fn contains(&self, role: Role, task: Task) -> bool {
        match role {
            Role::Active => self.active.contains(task),
            Role::Standby => self.standby.contains(task),
            Role::Warmup => self.warmup.contains(task),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Role, Task)> + '_ {
        (self.active.tasks().map(|task| (Role::Active, task)))
            .chain(self.standby.iter().map(|task| (Role::Standby, task)))
            .chain(self.warmup.iter().map(|task| (Role::Warmup, task)))
    }

    /// Whether some task is in both, in the same role.
    pub(crate) fn intersects(&self, owned: &Tasks) -> bool {
        self.active.tasks().any(|task| owned.active.contains(task))
            || self.standby.intersects(&owned.standby)
            || self.warmup.intersects(&owned.warmup)
    }

    /// Whether each owned task is among these, in the same role.
    pub(crate) fn contains_all(&self, owned: &Tasks) -> bool {
        owned.active.iter().all(|task| self.active.contains(task))
            && owned.standby.iter().all(|task| self.standby.contains(task))
            && owned.warmup.iter().all(|task| self.warmup.contains(task))
    }

    /// Whether these are exactly the tasks; warm-ups may be left out of the comparison.
    pub(crate) fn same_tasks(&self, owned: &Tasks, with_warmups: bool) -> bool {
        self.active.same_tasks(&owned.active)
            && self.standby == owned.standby
            && (!with_warmups || self.warmup == owned.warmup)
    }

    /// By name, as a heartbeat's answer carries them.
    pub(crate) fn to_lists(&self, ids: &SubtopologyIds) -> TaskLists {
        TaskLists {
            active: ids.to_task_ids(self.active.tasks()),
            standby: ids.to_task_ids(self.standby.iter()),
            warmup: ids.to_task_ids(self.warmup.iter()),
        }
    }

    /// Moves each task from subtopology `i` to subtopology `map[i]`; the map is monotonic, so order is kept.
    pub(crate) fn renumber(&mut self, map: &[usize]) {
        for active in self.active.0.iter_mut() {
            active.task = active.task.renumbered(map);
        }
        self.standby.renumber(map);
        self.warmup.renumber(map);
    }
}

impl TaskSet {
    fn renumber(&mut self, map: &[usize]) {
        for task in self.0.iter_mut() {
            *task = task.renumbered(map);
        }
    }
}

/// The sorted ids that the numbers of a group's tasks refer to. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubtopologyIds(Arc<[SubtopologyId]>);

impl Default for SubtopologyIds {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl SubtopologyIds {
    /// Sorts and deduplicates.
    pub(crate) fn new(mut ids: Vec<SubtopologyId>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        Self(ids.into())
    }

    pub(crate) fn as_slice(&self) -> &[SubtopologyId] {
        &self.0
    }

    pub(crate) fn find(&self, id: &str) -> Option<usize> {
        self.0.binary_search_by(|known| known.as_str().cmp(id)).ok()
    }

    /// By number; `None` if an id is unknown or a partition can't be a task's.
    pub(crate) fn to_set(&self, lists: &[TaskIds]) -> Option<TaskSet> {
        let mut tasks = Vec::with_capacity(lists.iter().map(|list| list.partitions.len()).sum());
        for list in lists {
            let subtopology = self.find(&list.subtopology)?;
            for &partition in &list.partitions {
                tasks.push(Task::new(subtopology, partition)?);
            }
        }
        Some(TaskSet::from_unsorted(tasks))
    }

    /// As [`SubtopologyIds::to_set`], but leaves out what can't be one of the group's tasks.
    pub(crate) fn to_known_set(&self, lists: &[TaskIds]) -> TaskSet {
        let mut tasks = Vec::with_capacity(lists.iter().map(|list| list.partitions.len()).sum());
        for list in lists {
            let Some(subtopology) = self.find(&list.subtopology) else { continue };
            tasks.extend(list.partitions.iter().filter_map(|&partition| Task::new(subtopology, partition)));
        }
        TaskSet::from_unsorted(tasks)
    }

    /// By number, with epochs; a list without epochs of its own gets `default_epoch` for each of its tasks.
    pub(crate) fn to_active(&self, lists: &[ActiveTaskIds], default_epoch: MemberEpoch) -> Option<ActiveTasks> {
        let mut tasks = Vec::with_capacity(lists.iter().map(|list| list.partitions.len()).sum());
        for list in lists {
            let subtopology = self.find(&list.subtopology)?;
            let has_epochs = list.assignment_epochs.len() == list.partitions.len();
            for (index, &partition) in list.partitions.iter().enumerate() {
                let epoch = if has_epochs { list.assignment_epochs[index] } else { AssignmentEpoch(default_epoch.0) };
                tasks.push(ActiveTask { task: Task::new(subtopology, partition)?, epoch });
            }
        }
        Some(ActiveTasks::from_unsorted(tasks))
    }

    /// By name.
    pub(crate) fn to_task_ids(&self, tasks: impl Iterator<Item = Task>) -> Vec<TaskIds> {
        let mut lists: Vec<TaskIds> = Vec::new();
        let mut last = usize::MAX;
        for task in tasks {
            if task.subtopology() != last {
                last = task.subtopology();
                lists.push(TaskIds { subtopology: self.0[last].clone(), partitions: Vec::new() });
            }
            if let Some(list) = lists.last_mut() {
                list.partitions.push(task.partition());
            }
        }
        lists
    }

    /// By name, with epochs.
    pub(crate) fn to_active_task_ids(&self, tasks: &ActiveTasks) -> Vec<ActiveTaskIds> {
        let mut lists: Vec<ActiveTaskIds> = Vec::new();
        let mut last = usize::MAX;
        for active in tasks.iter() {
            if active.task.subtopology() != last {
                last = active.task.subtopology();
                let subtopology = self.0[last].clone();
                lists.push(ActiveTaskIds { subtopology, ..ActiveTaskIds::default() });
            }
            if let Some(list) = lists.last_mut() {
                list.partitions.push(active.task.partition());
                list.assignment_epochs.push(active.epoch);
            }
        }
        lists
    }

    /// By name.
    pub(crate) fn to_lists(&self, tasks: &Tasks) -> TaskLists {
        TaskLists {
            active: self.to_task_ids(tasks.active.iter()),
            standby: self.to_task_ids(tasks.standby.iter()),
            warmup: self.to_task_ids(tasks.warmup.iter()),
        }
    }
}
