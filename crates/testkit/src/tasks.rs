//! Tasks as scripts write them: `0_1` is partition 1 of subtopology 0.

use std::fmt;

use crate::CommandError;

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// The id of its subtopology.
    pub subtopology: String,
    /// Its partition.
    pub partition: i32,
    /// The assignment epoch, of an active task in a record.
    pub epoch: Option<i32>,
}

impl Task {
    /// A task without an assignment epoch.
    pub fn new(subtopology: impl Into<String>, partition: i32) -> Self {
        Self { subtopology: subtopology.into(), partition, epoch: None }
    }

    /// Tasks from the form of the protocol: a list of partitions for each subtopology.
    pub fn all<'a>(subtopologies: impl IntoIterator<Item = (&'a str, &'a [i32])>) -> Vec<Self> {
        let each = subtopologies.into_iter();
        each.flat_map(|(id, partitions)| partitions.iter().map(move |&partition| Self::new(id, partition))).collect()
    }

    /// The same tasks as a list of partitions for each subtopology, in the order in which they come up.
    pub fn grouped(tasks: &[Self]) -> Vec<(String, Vec<i32>)> {
        let mut lists: Vec<(String, Vec<i32>)> = Vec::new();
        for task in tasks {
            match lists.iter_mut().find(|(id, _)| *id == task.subtopology) {
                Some((_, partitions)) => partitions.push(task.partition),
                None => lists.push((task.subtopology.clone(), vec![task.partition])),
            }
        }
        lists
    }

    pub(crate) fn parse(text: &str) -> Result<Self, CommandError> {
        let parts = text.rsplit_once('_').and_then(|(id, partition)| Some((id, partition.parse().ok()?)));
        let (id, partition) = parts.ok_or_else(|| CommandError::new(text, "a task, such as 0_1"))?;
        Ok(Self::new(id, partition))
    }

    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>, CommandError> {
        text.split(',').filter(|task| !task.is_empty()).map(Self::parse).collect()
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)?;
        self.epoch.map_or(Ok(()), |epoch| write!(f, "@{epoch}"))
    }
}

/// The three lists of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLists {
    /// Active tasks.
    pub active: Vec<Task>,
    /// Standby tasks.
    pub standby: Vec<Task>,
    /// Warm-up tasks.
    pub warmup: Vec<Task>,
}

impl TaskLists {
    /// Whether there are no tasks at all.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.standby.is_empty() && self.warmup.is_empty()
    }
}

/// `[0_0 0_1 | 1_0 | ]`
impl fmt::Display for TaskLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [active, standby, warmup] = [&self.active, &self.standby, &self.warmup]
            .map(|tasks| tasks.iter().map(Task::to_string).collect::<Vec<_>>().join(" "));
        write!(f, "[{active} | {standby} | {warmup}]")
    }
}

/// How far a member's copy of a task is, or how long its log is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskOffset {
    /// The task.
    pub task: Task,
    /// The sum over its changelogs.
    pub offset: i64,
}

impl TaskOffset {
    /// `0_1:17,1_1:4`
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>, CommandError> {
        let parse = |text: &str| {
            let parts = text.split_once(':').and_then(|(task, offset)| Some((task, offset.parse().ok()?)));
            let (task, offset) =
                parts.ok_or_else(|| CommandError::new(text, "a task and an offset, such as 0_1:17"))?;
            Ok(Self { task: Task::parse(task)?, offset })
        };
        text.split(',').filter(|text| !text.is_empty()).map(parse).collect()
    }
}

impl fmt::Display for TaskOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.task, self.offset)
    }
}
