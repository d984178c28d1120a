//! Who may do what. Every handler asks; for now everything is allowed.

/// Who is at the other end of a connection, as proven when it was opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// `User` in Kafka.
    pub kind: &'static str,
    /// The name; `ANONYMOUS` without authentication.
    pub name: String,
}

impl Principal {
    /// The principal of a connection without authentication.
    pub fn anonymous() -> Self {
        Self { kind: "User", name: "ANONYMOUS".to_owned() }
    }
}

/// What is to be done, by Kafka's names (KIP-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read records, or take part in a group.
    Read,
    /// Write records.
    Write,
    /// Create a topic.
    Create,
    /// Delete a topic, a group or records.
    Delete,
    /// Change a topic's partitions.
    Alter,
    /// See that something exists.
    Describe,
    /// See configs.
    DescribeConfigs,
    /// Change configs.
    AlterConfigs,
    /// Produce with a producer id.
    IdempotentWrite,
}

/// What it is to be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource<'a> {
    /// The whole cluster.
    Cluster,
    /// A topic, by name.
    Topic(&'a str),
    /// A group, by id.
    Group(&'a str),
    /// A transactional id.
    TransactionalId(&'a str),
}

/// Decides.
pub trait Authorizer: Send + Sync + 'static {
    /// Whether `principal`, connected from `host`, may do this.
    fn allows(&self, principal: &Principal, host: &str, operation: Operation, resource: Resource<'_>) -> bool;
}

/// Allows everything.
#[derive(Clone, Copy, Debug)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn allows(&self, _: &Principal, _: &str, _: Operation, _: Resource<'_>) -> bool {
        true
    }
}
