//! What must be true, kept apart from the server: each oracle has its own simple picture of the world.

pub(crate) mod classic;
pub(crate) mod commits;
pub(crate) mod contents;
pub(crate) mod groups;
pub(crate) mod ownership;

/// A task of a streams group; the simulator's subtopologies have numbers for ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    pub(crate) subtopology: u32,
    pub(crate) partition: i32,
}

impl Task {
    /// What the server calls a task; one that nobody asked for is a task that nobody has.
    pub(crate) fn of(subtopology: &str, partition: i32) -> Self {
        Self { subtopology: subtopology.parse().unwrap_or(u32::MAX), partition }
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)
    }
}
