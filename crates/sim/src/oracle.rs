//! What must be true, kept apart from the server: each oracle has its own simple picture of the world.

pub(crate) mod commits;
pub(crate) mod contents;
pub(crate) mod groups;
pub(crate) mod ownership;

/// A task of a streams group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    pub(crate) subtopology: String,
    pub(crate) partition: i32,
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)
    }
}
