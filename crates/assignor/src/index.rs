//! The dense numbers that stand for names inside an assignment.
//!
//! Each counts from 0 without gaps in the order of the ids it stands for, so comparing two numbers compares the ids.

use core::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into a slice.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The number of the element at this place of a slice that a group's limits keep below 2^32 elements.
            pub(crate) const fn at(index: usize) -> Self {
                debug_assert!(index <= u32::MAX as usize);
                Self(index as u32)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

index! {
    /// A task: the tasks of the first subtopology by partition, then those of the second, and so on.
    TaskId
}
index! {
    /// A subtopology's place in [`Subtopologies`](crate::Subtopologies).
    SubtopologyIndex
}
index! {
    /// A process's place in [`AssignmentInput::processes`](crate::AssignmentInput::processes).
    ProcessIndex
}
index! {
    /// A member's place in [`AssignmentInput::members`](crate::AssignmentInput::members).
    MemberIndex
}
