//! What an assignor answers.

use alloc::{vec, vec::Vec};

use crate::TaskId;

/// Who shall run which task: the target that a group walks to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// One entry per member, parallel to [`AssignmentInput::members`](crate::AssignmentInput::members).
    pub members: Vec<MemberAssignment>,
}

/// The tasks of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberAssignment {
    /// Tasks it runs, ascending.
    pub active: Vec<TaskId>,
    /// Tasks whose state it keeps a copy of, ascending.
    pub standby: Vec<TaskId>,
}

impl Assignment {
    /// An assignment that gives nobody anything.
    pub fn empty(member_count: usize) -> Self {
        Self { members: vec![MemberAssignment::default(); member_count] }
    }
}
