//! Changes of hard state, as they stand in `__consumer_offsets`.
//!
//! `None` as a value is a tombstone. The coordinator writes and reads Kafka's bytes for these.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};

use riparian_types::{
    AssignmentEpoch, ClientId, Generation, GroupEpoch, GroupId, InstanceId, LeaderEpoch, MemberEpoch, MemberId, Offset,
    PartitionIndex, ProcessId, RackId, TopicName, TopologyEpoch, Uuid, WallMillis,
};

use crate::streams::{ActiveTaskIds, Endpoint, TaskIds, TaskLists, Topology};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Type 1 (0 is read too).
    OffsetCommit(GroupId, TopicName, PartitionIndex, Option<CommittedOffsetValue>),
    /// Type 2.
    ClassicGroupMetadata(GroupId, Option<ClassicGroupValue>),
    /// Type 17.
    StreamsGroupMetadata(GroupId, Option<StreamsGroupMetadataValue>),
    /// Type 19.
    StreamsMemberMetadata(GroupId, MemberId, Option<StreamsMemberMetadataValue>),
    /// Type 20.
    StreamsTargetMetadata(GroupId, Option<StreamsTargetMetadataValue>),
    /// Type 21.
    StreamsTargetMember(GroupId, MemberId, Option<TaskLists>),
    /// Type 22.
    StreamsCurrentAssignment(GroupId, MemberId, Option<StreamsCurrentAssignmentValue>),
    /// Type 23.
    StreamsTopology(GroupId, Option<Topology>),
    /// Type 21072, which is ours and nobody else's: others leave such a record alone.
    StreamsTopologyDescription(GroupId, Option<TopologyDescriptionValue>),
}

impl Record {
    /// The group that the record belongs to.
    pub const fn group(&self) -> &GroupId {
        match self {
            Self::OffsetCommit(group, ..)
            | Self::ClassicGroupMetadata(group, ..)
            | Self::StreamsGroupMetadata(group, ..)
            | Self::StreamsMemberMetadata(group, ..)
            | Self::StreamsTargetMetadata(group, ..)
            | Self::StreamsTargetMember(group, ..)
            | Self::StreamsCurrentAssignment(group, ..)
            | Self::StreamsTopology(group, ..)
            | Self::StreamsTopologyDescription(group, ..) => group,
        }
    }
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffsetValue {
    /// The next offset to read.
    pub offset: Offset,
    /// -1 if unknown.
    pub leader_epoch: LeaderEpoch,
    /// The client's own text.
    pub metadata: String,
    /// When it was committed.
    pub commit_timestamp: WallMillis,
    /// Explicit expiry of very old clients, -1 for none.
    pub expire_timestamp: WallMillis,
    /// Zero if unknown.
    pub topic_id: Uuid,
}

/// A classic group in its last generation that became stable, or without members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicGroupValue {
    /// "consumer" for consumers, empty while nobody has joined.
    pub protocol_type: String,
    /// Counts rebalances.
    pub generation: Generation,
    /// The protocol that the members agreed on.
    pub protocol: Option<String>,
    /// The member that assigns.
    pub leader: Option<MemberId>,
    /// When the group came into the state it was written in; `None` in records of early versions.
    pub state_timestamp: Option<WallMillis>,
    /// Who is in it.
    pub members: Vec<ClassicMemberValue>,
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMemberValue {
    /// Chosen by the server.
    pub member_id: MemberId,
    /// Static membership (KIP-345).
    pub instance_id: Option<InstanceId>,
    /// From the request header.
    pub client_id: String,
    /// Its address, `/127.0.0.1`.
    pub client_host: String,
    /// How long it may take to rejoin, in milliseconds; -1 where a record has none: as long as it may stay silent.
    pub rebalance_timeout_ms: i32,
    /// How long it may stay silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// What it said about itself for the protocol agreed on.
    pub subscription: Arc<[u8]>,
    /// The topics named there; `None` where it is not a consumer's subscription. Follows from the bytes.
    pub subscribed_topics: Option<Arc<[TopicName]>>,
    /// What the leader gave it.
    pub assignment: Arc<[u8]>,
}

/// The group as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsGroupMetadataValue {
    /// The group's epoch.
    pub epoch: GroupEpoch,
    /// Of the topics that the topology requires (XXH3-64, see [`crate`] docs).
    pub metadata_hash: i64,
    /// The topology epoch whose topics were all right, -1 for none.
    pub validated_topology_epoch: TopologyEpoch,
    /// The configs that the last target was computed with, sorted by key; `None` in records of early versions.
    pub last_assignment_configs: Option<AssignmentConfigs>,
    /// KIP-1331 bookkeeping: -1 none, -2 uncertain.
    pub stored_description_topology_epoch: TopologyEpoch,
    /// KIP-1331 bookkeeping: -1 none.
    pub failed_description_topology_epoch: TopologyEpoch,
}

/// What a member told of the nodes of its topology (KIP-1331).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyDescriptionValue {
    /// Which topology it describes.
    pub topology_epoch: TopologyEpoch,
    /// A request of version 0 without ids; opaque here.
    pub description: Arc<[u8]>,
}

/// The settings that a target assignment depends on, sorted by key. Most groups have the same and share them.
pub type AssignmentConfigs = Arc<[(String, String)]>;

/// What a member told about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsMemberMetadataValue {
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// Its rack.
    pub rack_id: Option<RackId>,
    /// From the request header.
    pub client_id: ClientId,
    /// Its address, `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// In milliseconds; -1: never told.
    pub rebalance_timeout_ms: i32,
    /// The topology it was started with.
    pub topology_epoch: TopologyEpoch,
    /// The Kafka Streams instance.
    pub process_id: ProcessId,
    /// For interactive queries.
    pub user_endpoint: Option<Box<Endpoint>>,
    /// Sorted by key.
    pub client_tags: Box<[(String, String)]>,
}

impl Default for StreamsMemberMetadataValue {
    /// A member that has told nothing yet.
    fn default() -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id: ClientId::default(),
            client_host: Arc::default(),
            rebalance_timeout_ms: -1,
            topology_epoch: TopologyEpoch::NONE,
            process_id: ProcessId::default(),
            user_endpoint: None,
            client_tags: Box::default(),
        }
    }
}

/// The target assignment as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsTargetMetadataValue {
    /// The group epoch it was computed for.
    pub assignment_epoch: AssignmentEpoch,
    /// When; 0 for the one written when the last member left.
    pub assignment_timestamp: WallMillis,
}

/// Where a member is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsCurrentAssignmentValue {
    /// The epoch it has reached; -2: a static member that left.
    pub member_epoch: MemberEpoch,
    /// The one before.
    pub previous_member_epoch: MemberEpoch,
    /// Its state.
    pub state: MemberState,
    /// What it has.
    pub active: Vec<ActiveTaskIds>,
    /// What it has.
    pub standby: Vec<TaskIds>,
    /// What it has.
    pub warmup: Vec<TaskIds>,
    /// What it must give back.
    pub active_pending_revocation: Vec<ActiveTaskIds>,
    /// What it must give back.
    pub standby_pending_revocation: Vec<TaskIds>,
    /// What it must give back.
    pub warmup_pending_revocation: Vec<TaskIds>,
}

/// A member's state, by its stored number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum MemberState {
    /// 1: nothing to wait for.
    #[default]
    Stable,
    /// 2: it must first give tasks back.
    UnrevokedTasks,
    /// 3: it waits for tasks that others still hold.
    UnreleasedTasks,
    /// Any other number: written by a newer server.
    Unknown,
}
