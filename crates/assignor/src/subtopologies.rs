//! The subtopologies of a group and the numbering of their tasks.
//!
//! Invariant: ids strictly ascend and the tasks are numbered by (subtopology, partition) without gaps, so the order of
//! [`TaskId`]s is the order Kafka gives tasks. Ids compare by their bytes; Kafka compares UTF-16 code units, which
//! differs only between characters outside the basic plane and some at its very end.

use alloc::vec::Vec;

use riparian_types::{PartitionIndex, SubtopologyId, limits::GROUP_TASKS_MAX};

use crate::{InvalidSubtopologies, SubtopologyIndex, TaskId};

/// One subtopology: a part of the application's topology whose tasks do the same work on different partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtopologyInput {
    /// The id the application gave it.
    pub id: SubtopologyId,
    /// How many tasks it has: the largest partition count among its source topics.
    pub partition_count: u32,
    /// Whether it has a changelog topic; only tasks of stateful subtopologies have standbys.
    pub stateful: bool,
}

/// All subtopologies of a group, with the numbering of their tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtopologies {
    list: Vec<SubtopologyInput>,
    /// The first task of each subtopology, and one more entry: the number of all tasks.
    first_tasks: Vec<u32>,
}

impl Subtopologies {
    /// Numbers the tasks of these subtopologies, which must be sorted by id.
    pub fn new(list: Vec<SubtopologyInput>) -> Result<Self, InvalidSubtopologies> {
        if let Some(pair) = list.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            return Err(InvalidSubtopologies::Unsorted { before: pair[0].id.clone(), after: pair[1].id.clone() });
        }
        let mut first_tasks = Vec::with_capacity(list.len() + 1);
        let mut task_count = 0u32;
        first_tasks.push(task_count);
        for subtopology in &list {
            task_count = task_count
                .checked_add(subtopology.partition_count)
                .filter(|&count| count <= GROUP_TASKS_MAX)
                .ok_or(InvalidSubtopologies::TooManyTasks)?;
            first_tasks.push(task_count);
        }
        Ok(Self { list, first_tasks })
    }

    /// The subtopologies, sorted by id.
    pub fn list(&self) -> &[SubtopologyInput] {
        &self.list
    }

    /// How many tasks there are; they are numbered from 0.
    pub fn task_count(&self) -> u32 {
        self.first_tasks[self.list.len()]
    }

    /// How many tasks belong to stateful subtopologies.
    pub fn stateful_task_count(&self) -> u32 {
        self.list.iter().filter(|subtopology| subtopology.stateful).map(|subtopology| subtopology.partition_count).sum()
    }

    /// The place of the subtopology with this id.
    pub fn find(&self, id: &str) -> Option<SubtopologyIndex> {
        self.list.binary_search_by(|subtopology| subtopology.id.as_str().cmp(id)).ok().map(SubtopologyIndex::at)
    }

    /// The number of a task, or `None` if there is no such subtopology or partition.
    pub fn task(&self, subtopology: SubtopologyIndex, partition: PartitionIndex) -> Option<TaskId> {
        let partition = u32::try_from(partition.0).ok()?;
        (partition < self.list.get(subtopology.index())?.partition_count)
            .then(|| TaskId(self.first_tasks[subtopology.index()] + partition))
    }

    /// The subtopology and partition of a task, or `None` for a number beyond the last task.
    pub fn locate(&self, task: TaskId) -> Option<(SubtopologyIndex, PartitionIndex)> {
        if task.0 >= self.task_count() {
            return None;
        }
        let index = self.first_tasks.partition_point(|&first| first <= task.0) - 1;
        let partition = (task.0 - self.first_tasks[index]).cast_signed();
        Some((SubtopologyIndex::at(index), PartitionIndex(partition)))
    }

    /// All tasks of a subtopology, ascending; none for a place beyond the last.
    pub fn tasks(&self, subtopology: SubtopologyIndex) -> impl DoubleEndedIterator<Item = TaskId> + use<> {
        let bounds = self.first_tasks.get(subtopology.index()..).unwrap_or(&[]);
        let range = if let [first, end, ..] = *bounds { first..end } else { 0..0 };
        range.map(TaskId)
    }

    /// For each task whether it is stateful.
    pub(crate) fn stateful_by_task(&self) -> Vec<bool> {
        let mut stateful = Vec::with_capacity(self.task_count() as usize);
        for subtopology in &self.list {
            stateful.resize(stateful.len() + subtopology.partition_count as usize, subtopology.stateful);
        }
        stateful
    }

    /// All tasks ordered by partition first and subtopology second.
    pub(crate) fn tasks_by_partition(&self) -> Vec<TaskId> {
        let mut tasks = Vec::with_capacity(self.task_count() as usize);
        // (first task, partition count) of those that still have tasks: the work is one step per task, not one per
        // subtopology and partition of the widest.
        let mut open: Vec<(u32, u32)> = core::iter::zip(&self.first_tasks, &self.list)
            .map(|(&first, subtopology)| (first, subtopology.partition_count))
            .collect();
        for partition in 0.. {
            open.retain(|&(_, partition_count)| partition < partition_count);
            if open.is_empty() {
                break;
            }
            tasks.extend(open.iter().map(|&(first, _)| TaskId(first + partition)));
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec, vec::Vec};

    use riparian_types::{PartitionIndex, limits::GROUP_TASKS_MAX};

    use super::{Subtopologies, SubtopologyInput};
    use crate::{InvalidSubtopologies, SubtopologyIndex, TaskId};

    fn subtopologies(partition_counts: &[u32]) -> Subtopologies {
        let list = partition_counts.iter().enumerate().map(|(index, &partition_count)| SubtopologyInput {
            id: format!("{index:03}").into(),
            partition_count,
            stateful: index % 2 == 0,
        });
        Subtopologies::new(list.collect()).unwrap()
    }

    #[test]
    fn every_task_round_trips() {
        let subtopologies = subtopologies(&[2, 0, 3, 1]);
        assert_eq!((subtopologies.task_count(), subtopologies.stateful_task_count()), (6, 5));
        assert_eq!(subtopologies.stateful_by_task(), [true, true, true, true, true, false]);
        for task in (0..6).map(TaskId) {
            let (subtopology, partition) = subtopologies.locate(task).unwrap();
            assert_eq!(subtopologies.task(subtopology, partition), Some(task));
        }
        assert_eq!(subtopologies.locate(TaskId(2)), Some((SubtopologyIndex(2), PartitionIndex(0))));
        assert_eq!(subtopologies.tasks(SubtopologyIndex(2)).collect::<Vec<_>>(), [2, 3, 4].map(TaskId));
    }

    #[test]
    fn what_does_not_exist_is_none() {
        let subtopologies = subtopologies(&[2, 3]);
        assert_eq!(subtopologies.locate(TaskId(5)), None);
        assert_eq!(subtopologies.task(SubtopologyIndex(0), PartitionIndex(2)), None);
        assert_eq!(subtopologies.task(SubtopologyIndex(0), PartitionIndex(-1)), None);
        assert_eq!(subtopologies.task(SubtopologyIndex(2), PartitionIndex(0)), None);
        assert_eq!(subtopologies.tasks(SubtopologyIndex(2)).count(), 0);
        assert_eq!(subtopologies.find("001"), Some(SubtopologyIndex(1)));
        assert_eq!(subtopologies.find("01"), None);
    }

    #[test]
    fn order_by_partition_then_subtopology() {
        let tasks = subtopologies(&[2, 0, 3, 1]).tasks_by_partition();
        assert_eq!(tasks, [0, 2, 5, 1, 3, 4].map(TaskId));
        assert!(subtopologies(&[]).tasks_by_partition().is_empty());
    }

    #[test]
    fn unsorted_ids_and_too_many_tasks_are_refused() {
        let one = |id: &str, partition_count| SubtopologyInput { id: id.into(), partition_count, stateful: false };
        for list in [vec![one("b", 1), one("a", 1)], vec![one("a", 1), one("a", 1)]] {
            assert!(matches!(Subtopologies::new(list), Err(InvalidSubtopologies::Unsorted { .. })));
        }
        for list in [vec![one("a", u32::MAX), one("b", u32::MAX)], vec![one("a", GROUP_TASKS_MAX), one("b", 1)]] {
            assert_eq!(Subtopologies::new(list), Err(InvalidSubtopologies::TooManyTasks));
        }
    }
}
