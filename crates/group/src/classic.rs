//! Classic groups: consumers, and Kafka Streams on the classic protocol. Plain data shared by commands and replies.
//!
//! The members of such a group assign among themselves: everybody joins, the server names one of them the leader, the
//! leader sends everybody's assignment, the server hands it on. What members say to each other is opaque bytes here.
//!
//! Static membership is KIP-345, ids that the server hands out first KIP-394, protocols that members check KIP-559, a
//! leader that leaves the assignment as it is KIP-814.

pub(crate) mod describe;
pub(crate) mod group;
mod heartbeat;
mod join;
mod leave;
mod rebalance;
mod sync;

use alloc::{string::String, sync::Arc};

use riparian_types::{InstanceId, MemberId, TopicName};

/// A way to assign that a member knows, and what it says about itself for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// "range", "cooperative-sticky", "stream".
    pub name: String,
    /// Opaque.
    pub metadata: Arc<[u8]>,
    /// The topics named there; `None` where it is not a consumer's subscription. Follows from the bytes.
    pub subscribed_topics: Option<Arc<[TopicName]>>,
}

/// What the leader gives to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAssignment {
    /// Whose.
    pub member_id: MemberId,
    /// Opaque.
    pub assignment: Arc<[u8]>,
}

/// Who leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingMember {
    /// Empty when an operator removes a static member by its instance id.
    pub member_id: MemberId,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
}

/// Where a classic group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassicGroupState {
    /// No members.
    Empty,
    /// Members are joining the next generation.
    PreparingRebalance,
    /// Everybody has joined; the leader is assigning.
    CompletingRebalance,
    /// The leader has assigned.
    Stable,
}

impl ClassicGroupState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Empty, Self::PreparingRebalance, Self::CompletingRebalance, Self::Stable];

    /// Kafka's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}
