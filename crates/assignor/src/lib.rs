//! Who runs which task: assignors for Kafka Streams groups (KIP-1071) as plain data in, plain data out.
//!
//! An [`AssignmentInput`] describes the members, what they hold now, the subtopologies and the group's configuration; a
//! [`TaskAssignor`] turns it into an [`Assignment`], which [`invariants::check`] verifies. Use [`assign_checked`] to get
//! both in one call. The assignors that come with the crate are found by name in [`built_in`].
//!
//! ```
//! use riparian_assignor::{
//!     AssignmentConfig, AssignmentInput, MemberInput, ProcessIndex, Subtopologies, SubtopologyInput, assign_checked,
//!     built_in,
//! };
//!
//! let subtopologies = Subtopologies::new(vec![SubtopologyInput { id: "0".into(), partition_count: 4, stateful: true }])?;
//! let member = |id: &str, process: u32| MemberInput::new(id.into(), ProcessIndex(process));
//! let input = AssignmentInput {
//!     processes: vec!["host-a".into(), "host-b".into()],
//!     members: vec![member("thread-1", 0), member("thread-2", 1)],
//!     subtopologies: subtopologies.into(),
//!     config: AssignmentConfig { num_standby_replicas: 1, rack_aware_assignment_tags: vec![] },
//!     changelogs: vec![],
//! };
//! let sticky = built_in::find("sticky").expect("it is built in");
//! let assignment = assign_checked(sticky, &input)?;
//! assert!(assignment.members.iter().all(|member| member.active.len() == 2 && member.standby.len() == 2));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Contract
//!
//! * **Dense numbers.** Tasks, subtopologies, processes and members are indexes; names stand in side tables and matter
//!   only by their order. [`Subtopologies`] converts between a task and its subtopology and partition.
//! * **Order.** Subtopologies, processes and members are sorted by id, every list of tasks ascends, nothing occurs twice.
//!   [`AssignmentInput::check`] says what is wrong with an input; assignors refuse such an input instead of panicking.
//! * **Determinism.** The result is a function of the input alone: no clock, no randomness, no hash order. The order of
//!   ids is the last tie-break, so equal inputs give equal assignments on every machine.
//! * **Units.** Offsets are sums over a task's changelog partitions, in records; loads are task counts.
//! * **Limits.** [`riparian_types::limits::GROUP_TASKS_MAX`] tasks, and
//!   [`riparian_types::limits::GROUP_PLACEMENTS_MAX`] active and standby placements.
//!
//! A target never has warm-up tasks. [`refine()`] turns it into the next step towards it, in which stateful tasks stay
//! where their state is until their new owners have a copy. The crate deliberately does not know epochs or heartbeats:
//! how members are led from step to step is the group machine's business.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod assignment;
mod balanced;
pub mod built_in;
mod copies;
pub mod cost;
mod error;
mod index;
mod input;
pub mod invariants;
pub mod optimal;
mod refine;
mod share;
mod sticky;
mod subtopologies;
mod tags;
pub mod testbed;

pub use assignment::{Assignment, MemberAssignment};
pub use balanced::BalancedTaskAssignor;
pub use cost::{Cost, CostModel};
pub use error::{AssignorError, InvalidInput, InvalidSubtopologies};
pub use index::{MemberIndex, ProcessIndex, SubtopologyIndex, TaskId};
pub use input::{AssignmentConfig, AssignmentInput, Changelogs, ClientTag, MemberInput, TaskOffset, intern_processes};
pub use optimal::OptimalTaskAssignor;
pub use refine::{Stage, Staged, Step, StepMember, WarmupConfig, WarmupSupport, refine};
pub use sticky::StickyTaskAssignor;
pub use subtopologies::{Subtopologies, SubtopologyInput};

/// Placement logic, built in or plugged in.
///
/// An implementation is pure: the same input gives the same answer, always. It may be called from several threads.
pub trait TaskAssignor: Send + Sync {
    /// The name that configuration refers to, such as `sticky`.
    fn name(&self) -> &str;

    /// Computes who shall run which task.
    fn assign(&self, input: &AssignmentInput) -> Result<Assignment, AssignorError>;
}

/// Runs the assignor and checks its answer: a result that breaks an invariant becomes an error.
pub fn assign_checked(assignor: &dyn TaskAssignor, input: &AssignmentInput) -> Result<Assignment, AssignorError> {
    let assignment = assignor.assign(input)?;
    invariants::check(input, &assignment).map_err(AssignorError::IllegalAssignment)?;
    Ok(assignment)
}

/// The example of the README runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
