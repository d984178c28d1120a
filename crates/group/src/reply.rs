//! What the machine answers and asks for.
//!
//! Errors are what went wrong in the machine's terms; the broker maps each to a Kafka error code in exactly one
//! function per operation.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};

use riparian_types::{
    AssignmentEpoch, Generation, GroupEpoch, GroupId, InstanceId, LeaderEpoch, MemberEpoch, MemberId, Offset,
    PartitionIndex, ProcessId, TopicName, TopologyEpoch,
};

use crate::classic::ClassicGroupState;
use crate::streams::{Endpoint, InternalTopic, TaskLists, TaskOffset, TopicPartitions, Topology};
use crate::telemetry::CensusPage;

/// An answer to a [`crate::command::Command`], by the kind of the command.
#[expect(clippy::type_complexity, reason = "nested lists of pairs read well where they are declared")]
#[derive(Clone, Debug)]
pub enum Reply {
    /// To a heartbeat.
    StreamsHeartbeat(Result<StreamsHeartbeatReply, StreamsHeartbeatError>),
    /// To a description of a topology.
    TopologyDescription(Result<(), TopologyDescriptionError>),
    /// To a describe.
    StreamsDescribe(Result<StreamsDescription, GroupNotFound>),
    /// To a join.
    ClassicJoin(Result<ClassicJoinReply, ClassicJoinRefusal>),
    /// To a sync.
    ClassicSync(Result<ClassicSyncReply, ClassicMemberError>),
    /// To a heartbeat of a classic group.
    ClassicHeartbeat(Result<(), ClassicMemberError>),
    /// To a leave: what became of each member, in the order asked; or why of none.
    ClassicLeave(Result<Vec<Result<(), ClassicMemberError>>, ClassicMemberError>),
    /// To a describe of a classic group.
    ClassicDescribe(Result<ClassicDescription, GroupNotFound>),
    /// To a list.
    ListGroups(Vec<GroupListing>),
    /// To a delete.
    DeleteGroup(Result<(), DeleteGroupError>),
    /// To a commit; the error is every partition's.
    OffsetCommit(Result<(), OffsetCommitError>),
    /// To a fetch.
    OffsetFetch(Result<Vec<(TopicName, Vec<FetchedOffset>)>, OffsetFetchError>),
    /// To a census.
    Census(Box<CensusPage>),
    /// To an offset delete: per partition, in the order asked, whether it was refused because the group reads the topic.
    OffsetDelete(Result<Vec<(TopicName, Vec<(PartitionIndex, OffsetDeleteOutcome)>)>, OffsetDeleteError>),
}

/// Something to be done elsewhere.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Create these topics; the outcome comes back as [`crate::command::Command::InternalTopicsCreated`].
    CreateInternalTopics {
        /// For which group.
        group: GroupId,
        /// With decided partition counts (`partitions` above 0).
        topics: Vec<InternalTopic>,
    },
}

/// A successful heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsHeartbeatReply {
    /// The member.
    pub member_id: MemberId,
    /// The epoch the member is at now (or -1, -2 echoed to one that left).
    pub member_epoch: MemberEpoch,
    /// When to send the next heartbeat, in milliseconds.
    pub heartbeat_interval_ms: i32,
    /// A warm-up task whose lag is at most this counts as caught up, in records.
    pub acceptable_recovery_lag: i64,
    /// How often to report task offsets, in milliseconds.
    pub task_offset_interval_ms: i32,
    /// Everything that holds at present, in the order 0, 5, one of 1/2/3, 4, 6.
    pub statuses: Vec<Status>,
    /// The member's tasks, if it must be told.
    pub tasks: Option<TaskLists>,
    /// The version of the endpoint map.
    pub endpoint_information_epoch: i32,
    /// The endpoint map, if the member has not seen this version of it.
    pub partitions_by_user_endpoint: Option<Vec<EndpointPartitions>>,
    /// The member is asked to describe its topology (KIP-1331).
    pub topology_description_required: bool,
}

/// Where the partitions of one endpoint are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPartitions {
    /// The endpoint; it appears once per member that has it.
    pub endpoint: Endpoint,
    /// Input partitions of its active tasks.
    pub active: Vec<TopicPartitions>,
    /// Input partitions of its standby and warm-up tasks.
    pub standby: Vec<TopicPartitions>,
}

/// A status of a heartbeat's answer (KIP-1071), with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What holds.
    pub code: StatusCode,
    /// In plain words: what is wrong, what is allowed.
    pub detail: String,
}

/// The codes that a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusCode {
    /// The member's topology is older than the group's.
    StaleTopology = 0,
    /// A source topic does not exist.
    MissingSourceTopics = 1,
    /// Topics contradict each other in their partition counts.
    IncorrectlyPartitionedTopics = 2,
    /// Internal topics are not there yet.
    MissingInternalTopics = 3,
    /// A member asked the whole application to stop.
    ShutdownApplication = 4,
    /// The assignment is held back for a moment.
    AssignmentDelayed = 5,
    /// The member lacks tags that rack awareness needs.
    MissingClientTags = 6,
}

/// Why a heartbeat is refused. `reason` is the text for the client: what was wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamsHeartbeatError {
    /// A field has a value that the protocol does not allow.
    InvalidRequest(String),
    /// The topology can't be run.
    InvalidTopology(String),
    /// The members that are there run another topology.
    InvalidTopologyEpoch(String),
    /// No such group, or a group of another type.
    GroupIdNotFound(String),
    /// No such member.
    UnknownMemberId(String),
    /// The member epoch is neither the member's nor the one before.
    FencedMemberEpoch(String),
    /// The instance id is held by a member that has not left.
    UnreleasedInstanceId(String),
    /// The instance id is held by another member.
    FencedInstanceId(String),
    /// The group has as many members as it may have.
    GroupMaxSizeReached(String),
    /// The machine has been loaded, but has not been shown the topics yet: to be asked again in a moment.
    LoadInProgress,
    /// Something in the server went wrong (an assignor failed, or the group's records could not be loaded).
    Internal(String),
}

impl StreamsHeartbeatError {
    /// What the client is told.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::LoadInProgress => "",
            Self::InvalidRequest(text)
            | Self::InvalidTopology(text)
            | Self::InvalidTopologyEpoch(text)
            | Self::GroupIdNotFound(text)
            | Self::UnknownMemberId(text)
            | Self::FencedMemberEpoch(text)
            | Self::UnreleasedInstanceId(text)
            | Self::FencedInstanceId(text)
            | Self::GroupMaxSizeReached(text)
            | Self::Internal(text) => text,
        }
    }
}

/// Why the description of a topology is not kept, with the text for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyDescriptionError {
    /// It is not of the topology that the group runs.
    InvalidRequest(String),
    /// No such group, or a group of another type.
    GroupIdNotFound(String),
    /// No such member.
    UnknownMemberId(String),
    /// It can't be kept, however often it comes.
    Failed(String),
    /// The server keeps none.
    NotKept(String),
    /// The group's records could not be loaded.
    Internal(String),
}

/// A member is in the next generation of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicJoinReply {
    /// The member.
    pub member_id: MemberId,
    /// The generation.
    pub generation: Generation,
    /// "consumer" for consumers.
    pub protocol_type: Option<String>,
    /// The protocol that the members agreed on.
    pub protocol: Option<String>,
    /// The member that assigns.
    pub leader: MemberId,
    /// The leader is to leave the assignment as it is (KIP-814).
    pub skip_assignment: bool,
    /// For the leader: who there is; for all others empty.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// The member.
    pub member_id: MemberId,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// What it said about itself for the protocol agreed on.
    pub metadata: Arc<[u8]>,
}

/// A join is refused, at once or after a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicJoinRefusal {
    /// The member's id as it is echoed, or the one that it is given.
    pub member_id: MemberId,
    /// Why.
    pub error: ClassicJoinError,
}

/// Why a join is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassicJoinError {
    /// The group id is empty.
    InvalidGroupId,
    /// The session timeout is not one that the server allows.
    InvalidSessionTimeout,
    /// The member is to come back with the id that it was given (KIP-394).
    MemberIdRequired,
    /// No such member, or no longer.
    UnknownMemberId,
    /// The instance id is held by another member.
    FencedInstanceId,
    /// The group is of another type, or has no protocol in common with the member.
    InconsistentGroupProtocol,
    /// The group has as many members as it may have.
    GroupMaxSizeReached,
    /// A newer join of the same member takes this one's place.
    Superseded,
    /// The member has more to say about itself than is kept.
    TooLarge(String),
    /// The group's records could not be loaded.
    Internal(String),
}

/// A member's assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicSyncReply {
    /// "consumer" for consumers.
    pub protocol_type: Option<String>,
    /// The protocol that the members agreed on.
    pub protocol: Option<String>,
    /// What the leader gave it.
    pub assignment: Arc<[u8]>,
}

/// Why a sync, a heartbeat or a leave of a classic group is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassicMemberError {
    /// The group id is empty.
    InvalidGroupId,
    /// No such group or no such member, or no longer.
    UnknownMemberId,
    /// The instance id is held by another member.
    FencedInstanceId,
    /// The group is in another generation.
    IllegalGeneration,
    /// What the member takes the protocol for is not the group's.
    InconsistentGroupProtocol,
    /// The member must join again.
    RebalanceInProgress,
    /// The leader gives a member more than is kept.
    TooLarge(String),
    /// The group's records could not be loaded.
    Internal(String),
}

/// A classic group in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicDescription {
    /// Its state.
    pub state: ClassicGroupState,
    /// "consumer" for consumers, empty if nobody has ever joined.
    pub protocol_type: String,
    /// The protocol that the members agreed on; empty unless the group is stable.
    pub protocol: String,
    /// Ordered by member id.
    pub members: Vec<ClassicMemberDescription>,
}

/// A member of a described classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMemberDescription {
    /// The member.
    pub member_id: MemberId,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// From the request header.
    pub client_id: String,
    /// Its address, `/127.0.0.1`.
    pub client_host: String,
    /// What it said about itself; empty unless the group is stable.
    pub metadata: Arc<[u8]>,
    /// What the leader gave it.
    pub assignment: Arc<[u8]>,
}

/// A group's state name (KIP-1071).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Topics are missing or wrong.
    NotReady,
    /// The target assignment is older than the group.
    Assigning,
    /// Members are on their way to the target.
    Reconciling,
    /// Every member is where it should be.
    Stable,
}

impl GroupState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Empty, Self::NotReady, Self::Assigning, Self::Reconciling, Self::Stable];

    /// Kafka's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::NotReady => "NotReady",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }

    /// The name that a filter of ListGroups is compared with, in lower case.
    pub const fn filter_name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NotReady => "not_ready",
            Self::Assigning => "assigning",
            Self::Reconciling => "reconciling",
            Self::Stable => "stable",
        }
    }
}

/// A streams group in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsDescription {
    /// The group.
    pub group_id: GroupId,
    /// Its state.
    pub state: GroupState,
    /// Its epoch.
    pub group_epoch: GroupEpoch,
    /// The epoch of its target assignment.
    pub assignment_epoch: AssignmentEpoch,
    /// Why its tasks cannot run, if they cannot.
    pub problem: Option<String>,
    /// The topology: with resolved partition counts when the group is ready, as received otherwise.
    pub topology: Option<Topology>,
    /// What a member told of the topology's nodes: its request, version 0, without ids.
    pub topology_description: Option<Arc<[u8]>>,
    /// Ordered by member id.
    pub members: Vec<MemberDescription>,
    /// The assignor that would be used next.
    pub assignor_name: String,
}

/// A member in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// The member.
    pub member_id: MemberId,
    /// The epoch it has reached; -2 for a static member that left.
    pub member_epoch: MemberEpoch,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// Its rack.
    pub rack_id: Option<String>,
    /// From the request header.
    pub client_id: String,
    /// Its address.
    pub client_host: String,
    /// The topology it was started with.
    pub topology_epoch: TopologyEpoch,
    /// The Kafka Streams instance.
    pub process_id: ProcessId,
    /// For interactive queries.
    pub user_endpoint: Option<Endpoint>,
    /// Sorted by key.
    pub client_tags: Vec<(String, String)>,
    /// As last reported.
    pub task_offsets: Vec<TaskOffset>,
    /// As last reported.
    pub task_end_offsets: Vec<TaskOffset>,
    /// What it has been given.
    pub assignment: TaskLists,
    /// What it is to have.
    pub target_assignment: TaskLists,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// The group.
    pub group_id: GroupId,
    /// "streams", "consumer", or empty for a group that only has offsets.
    pub protocol_type: String,
    /// Kafka's name of its state.
    pub state: String,
    /// "streams" or "classic".
    pub group_type: &'static str,
}

/// No such group (of this type).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupNotFound(pub String);

/// Why a group is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteGroupError {
    /// No such group.
    NotFound,
    /// It has members.
    NotEmpty,
}

/// Why a commit is refused, for every partition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetCommitError {
    /// No such group, and the commit comes from a member.
    GroupIdNotFound,
    /// The same, for versions that don't know the code before; or a classic group is in another generation.
    IllegalGeneration,
    /// No such member.
    UnknownMemberId,
    /// The instance id is held by another member.
    FencedInstanceId,
    /// The member has joined the next generation, but has no assignment in it yet.
    RebalanceInProgress,
    /// The epoch is not the member's, and not one that the tasks allow (KIP-1251).
    StaleMemberEpoch,
    /// The request's version can't carry a member epoch.
    UnsupportedVersion,
    /// The server has as many groups as it may have, and this would be another.
    NoRoom(String),
    /// The group's records could not be loaded.
    Internal(String),
}

/// Why a fetch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetFetchError {
    /// No such member.
    UnknownMemberId,
    /// The epoch is not the member's.
    StaleMemberEpoch,
    /// The group's records could not be loaded.
    Internal(String),
}

/// One partition of an offset fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The partition.
    pub partition: PartitionIndex,
    /// What is committed, `None` if nothing is.
    pub committed: Option<CommittedOffset>,
}

/// A committed offset as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: Offset,
    /// -1 if unknown.
    pub leader_epoch: LeaderEpoch,
    /// The client's own text.
    pub metadata: String,
}

/// Why nothing is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetDeleteError {
    /// No such group.
    GroupNotFound(String),
    /// The group has members that are no consumers: what they read is unknown.
    NonEmptyGroup,
}

/// What became of one partition of an offset delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetDeleteOutcome {
    /// Forgotten, or was not there.
    Deleted,
    /// The group has members and reads the topic.
    SubscribedToTopic,
}
