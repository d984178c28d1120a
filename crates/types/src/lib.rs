//! The vocabulary that every Riparian crate shares: ids, epochs, offsets, time values, limits, and a seeded generator.
//!
//! Nothing here reads a clock, a disk, an environment or a source of randomness: the crate is `no_std`, and what varies
//! comes in as an argument. Numbers that mean different things are different types, so that a group epoch cannot be
//! passed where a member epoch is wanted.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod cow_map;
mod ids;
pub mod java;
pub mod limits;
mod lookup_map;
pub mod machine;
mod numbers;
pub mod planted;
mod prng;
mod small_map;
pub mod telemetry;
mod time;
pub mod topic;
mod topics_view;
mod uuid;

pub use ids::{ClientId, GroupId, InstanceId, MemberId, ProcessId, RackId, SubtopologyId, TopicName};
pub use lookup_map::{HashSeed, LookupMap};
pub use numbers::{
    AssignmentEpoch, Generation, GroupEpoch, LeaderEpoch, MemberEpoch, NodeId, Offset, PartitionCount, PartitionIndex,
    ProducerEpoch, ProducerId, Sequence, TopologyEpoch,
};
pub use prng::Prng;
pub use small_map::SmallMap;
pub use time::{MonoMillis, Now, WallMillis};
pub use topics_view::{TopicSummary, TopicsView};
pub use uuid::{ParseUuidError, Uuid};
