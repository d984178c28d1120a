//! What can go wrong, by whose fault: the input's (the caller's), the assignor's own, or nobody's (no members).

use alloc::{string::String, vec::Vec};

use riparian_types::{
    MemberId, ProcessId, SubtopologyId,
    limits::{GROUP_PLACEMENTS_MAX, GROUP_TASKS_MAX},
};

use crate::{ProcessIndex, TaskId, invariants::Violation};

/// Why there is no assignment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssignorError {
    /// There are tasks but nobody to run them.
    #[error("no member to run {task_count} tasks")]
    NoMembers {
        /// How many tasks there are.
        task_count: u32,
    },
    /// The input breaks the contract that the crate's documentation states.
    #[error("invalid input: {0}")]
    InvalidInput(#[from] InvalidInput),
    /// The assignor's answer must not be used. At most
    /// [`VIOLATIONS_MAX`](crate::invariants::VIOLATIONS_MAX) violations are listed.
    #[error("illegal assignment: {first}", first = FirstOf(.0))]
    IllegalAssignment(Vec<Violation>),
    /// The assignor gave up, for a reason of its own.
    #[error("{reason}")]
    Failed {
        /// What the assignor says about it.
        reason: String,
    },
}

/// Shows the first violation and how many more there are.
struct FirstOf<'a>(&'a [Violation]);

impl core::fmt::Display for FirstOf<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            [] => f.write_str("no violation recorded"),
            [only] => write!(f, "{only}"),
            [first, rest @ ..] => write!(f, "{first} (and {} more)", rest.len()),
        }
    }
}

/// Why a list of subtopologies can't be numbered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSubtopologies {
    /// Ids must strictly ascend.
    #[error("subtopology '{after}' comes after '{before}'")]
    Unsorted {
        /// The id at the earlier place.
        before: SubtopologyId,
        /// The id at the place behind it.
        after: SubtopologyId,
    },
    /// There is a limit on the tasks of a group.
    #[error("more than {GROUP_TASKS_MAX} tasks")]
    TooManyTasks,
}

/// What is wrong with an [`AssignmentInput`](crate::AssignmentInput).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// Process ids must strictly ascend.
    #[error("process '{after}' comes after '{before}'")]
    UnsortedProcesses {
        /// The id at the earlier place.
        before: ProcessId,
        /// The id at the place behind it.
        after: ProcessId,
    },
    /// Member ids must strictly ascend.
    #[error("member '{after}' comes after '{before}'")]
    UnsortedMembers {
        /// The id at the earlier place.
        before: MemberId,
        /// The id at the place behind it.
        after: MemberId,
    },
    /// A member names a process beyond the last.
    #[error("member '{member}' is of the unknown process {process}")]
    UnknownProcess {
        /// The member.
        member: MemberId,
        /// The process it names.
        process: ProcessIndex,
    },
    /// Every process must have a member.
    #[error("process '{process}' has no member")]
    EmptyProcess {
        /// The process.
        process: ProcessId,
    },
    /// A member's list of tasks or offsets does not strictly ascend.
    #[error("member '{member}' lists task {task} out of order")]
    UnsortedTasks {
        /// The member.
        member: MemberId,
        /// The first task that is not larger than the one before it.
        task: TaskId,
    },
    /// A member's list names a task beyond the last.
    #[error("member '{member}' lists the unknown task {task}")]
    UnknownTask {
        /// The member.
        member: MemberId,
        /// The task.
        task: TaskId,
    },
    /// What is known of changelogs must ascend by task, and name no task beyond the last.
    #[error("what is known of changelogs is out of order or of unknown tasks")]
    UnsortedChangelogs,
    /// There is a limit on active and standby placements together.
    #[error("more than {GROUP_PLACEMENTS_MAX} active and standby tasks")]
    TooManyPlacements,
}
