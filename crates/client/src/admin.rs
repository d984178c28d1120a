//! What tools ask: topics and groups, as owned plain data.
//!
//! A call fails as a whole when the server cannot be asked; what it says about a single topic or group is part of the
//! answer.

mod classic_groups;
mod groups;
mod nodes;
mod offsets;
mod topics;

pub use classic_groups::{ClassicGroup, ClassicMember, describe_classic_group};
pub use groups::{
    GroupListing, StreamsGroup, StreamsMember, StreamsSubtopology, TaskIds, Tasks, describe_streams_group, list_groups,
};
pub use nodes::{Node, NodeKind, TopologyNodes, topology_nodes};
pub use offsets::{GroupOffset, group_offsets};
pub use topics::{
    ConfigEntry, CreatedTopic, NewTopic, Partition, Topic, TopicSummary, create_topic, delete_topic, describe_topic,
    list_topics,
};
