//! What may be asked of the machine.

use alloc::{boxed::Box, collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use riparian_types::{
    ClientId, Generation, GroupId, InstanceId, LeaderEpoch, MemberEpoch, MemberId, Offset, PartitionIndex, ProcessId,
    SubtopologyId, TopicName, TopicsView, TopologyEpoch, Uuid, machine::Waiter,
};

use crate::{
    classic::{LeavingMember, MemberAssignment, Protocol},
    config::GroupOverrides,
    streams::{Endpoint, TaskIds, TaskOffset, Topology},
    telemetry::Census,
};

/// A command, with what its answer needs to find its way.
#[derive(Clone, Debug)]
pub enum Command {
    /// A member of a streams group joins, reports or leaves (KIP-1071).
    StreamsHeartbeat(Waiter, Box<StreamsHeartbeat>),
    /// A member describes its topology (KIP-1331).
    DescribeTopology(Waiter, Box<TopologyDescription>),
    /// Everything about one streams group.
    StreamsDescribe(Waiter, GroupId),
    /// A member of a classic group joins, again or for the first time. It is answered when everybody has joined.
    ClassicJoin(Waiter, Box<ClassicJoin>),
    /// A member of a classic group asks for its assignment, the leader brings everybody's. It is answered when the leader
    /// has assigned.
    ClassicSync(Waiter, Box<ClassicSync>),
    /// A member of a classic group is alive.
    ClassicHeartbeat(Waiter, ClassicHeartbeat),
    /// Members of a classic group leave, or are removed by an operator.
    ClassicLeave(Waiter, GroupId, Vec<LeavingMember>),
    /// Everything about one classic group.
    ClassicDescribe(Waiter, GroupId),
    /// Nobody is there any more to hear the answer to what was asked of this group with this waiter.
    GiveUp(GroupId, Waiter),
    /// The groups of this machine.
    ListGroups(Waiter, GroupFilter),
    /// Groups as numbers.
    Census(Waiter, Census),
    /// Forget an empty group and its offsets.
    DeleteGroup(Waiter, GroupId),
    /// Store offsets of a group.
    OffsetCommit(Waiter, OffsetCommit),
    /// Read offsets of a group.
    OffsetFetch(Waiter, OffsetFetch),
    /// Forget offsets of a group.
    OffsetDelete(Waiter, OffsetDelete),
    /// Topics were created, deleted or grew. Sent once after loading too, with `changed` empty.
    TopicsChanged {
        /// All topics, as they are now.
        view: TopicsView,
        /// Up to which offset of the metadata log the view goes: announcements may overtake each other on their way.
        as_of: Offset,
        /// The topics that differ from the view before; those missing in `view` were deleted.
        changed: Arc<[TopicName]>,
    },
    /// An attempt to create internal topics ended; `failures` says which were not created, and why. Topics that were
    /// created show up through [`Command::TopicsChanged`].
    InternalTopicsCreated {
        /// The group whose heartbeat asked for them.
        group: GroupId,
        /// All topics of the attempt.
        attempted: Vec<TopicName>,
        /// Those that failed, with the error's text.
        failures: BTreeMap<TopicName, String>,
    },
    /// A connection was closed through which members of this group have reported.
    ConnectionClosed {
        /// The group.
        group: GroupId,
        /// The connection's number, as in [`Caller`].
        connection: u64,
    },
    /// The dynamic configuration of a group changed. Sent for every configured group once after loading too.
    GroupConfigChanged {
        /// Whose.
        group: GroupId,
        /// All its overrides, as they are now.
        overrides: GroupOverrides,
    },
}

/// What a client's version can do, as far as the machine must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSupport {
    /// Understands status 6 and reports task offsets, so that it can be given warm-up tasks (heartbeat version 1).
    pub heartbeat_v1: bool,
}

/// Who sent a heartbeat, from the connection and the request header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The request header's client id, empty if there was none.
    pub client_id: ClientId,
    /// The peer's address as Java prints it: `/127.0.0.1`.
    pub client_host: String,
    /// The number of the connection; numbers are not used twice.
    pub connection: u64,
}

/// A heartbeat as it came: every check on its content is the machine's.
#[derive(Clone, Debug)]
pub struct StreamsHeartbeat {
    /// Who sent it.
    pub caller: Caller,
    /// The client id is the one that the connection's first request named, as it mostly is.
    pub is_usual_client: bool,
    /// What the sender's version can do.
    pub support: ClientSupport,
    /// The group.
    pub group_id: GroupId,
    /// The member; chosen by the client.
    pub member_id: MemberId,
    /// 0 join, -1 leave, -2 static leave, above 0 the epoch the member is at.
    pub member_epoch: MemberEpoch,
    /// The endpoint map that the member has seen.
    pub endpoint_information_epoch: i32,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// The member's rack; `None`: unchanged or none.
    pub rack_id: Option<String>,
    /// How long a revocation may take, in milliseconds; -1: unchanged.
    pub rebalance_timeout_ms: i32,
    /// Only when joining.
    pub topology: Option<Topology>,
    /// Owned active tasks; `None`: unchanged since last reported.
    pub active_tasks: Option<Vec<TaskIds>>,
    /// Owned standby tasks; `None`: unchanged.
    pub standby_tasks: Option<Vec<TaskIds>>,
    /// Owned warm-up tasks; `None`: unchanged.
    pub warmup_tasks: Option<Vec<TaskIds>>,
    /// The Kafka Streams instance that the member belongs to; `None`: unchanged.
    pub process_id: Option<ProcessId>,
    /// For interactive queries; `None`: unchanged, on a join: none.
    pub user_endpoint: Option<Endpoint>,
    /// Sorted by key before it is stored; `None`: unchanged.
    pub client_tags: Option<Vec<(String, String)>>,
    /// Positions of state on this member; `None`: unchanged.
    pub task_offsets: Option<Vec<TaskOffset>>,
    /// Ends of the changelogs of those tasks; `None`: unchanged.
    pub task_end_offsets: Option<Vec<TaskOffset>>,
    /// The whole application is to shut down.
    pub shutdown_application: bool,
}

/// A heartbeat that tells no more than that its member is there.
#[derive(Clone, Copy, Debug)]
pub struct PlainHeartbeat<'a> {
    /// What the sender's version can do.
    pub support: ClientSupport,
    /// The number of the connection, as in [`Caller`]; the client id is its usual one.
    pub connection: u64,
    /// The group.
    pub group_id: &'a str,
    /// The member.
    pub member_id: &'a str,
    /// The epoch the member is at.
    pub member_epoch: MemberEpoch,
    /// The endpoint map that the member has seen.
    pub endpoint_information_epoch: i32,
    /// Static membership.
    pub instance_id: Option<&'a str>,
}

/// A join of a classic group as it came.
#[derive(Clone, Debug)]
pub struct ClassicJoin {
    /// Who sent it.
    pub caller: Caller,
    /// What the sender's version can do.
    pub support: JoinSupport,
    /// The group.
    pub group_id: GroupId,
    /// Empty if the member does not know its id yet.
    pub member_id: MemberId,
    /// What makes the id unique that a member gets: the text of a random UUID. Only looked at if the member has none.
    pub fresh_id: String,
    /// Static membership (KIP-345).
    pub instance_id: Option<InstanceId>,
    /// How long it may stay silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// How long it may take to rejoin, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// "consumer" for consumers.
    pub protocol_type: String,
    /// What it can do, most wanted first.
    pub protocols: Vec<Protocol>,
}

/// What a joining client's version can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinSupport {
    /// It comes back with the id that it is given (KIP-394, version 4).
    pub given_id: bool,
    /// A leader can be told to leave the assignment as it is (KIP-814, version 9).
    pub skip_assignment: bool,
}

/// A sync of a classic group as it came.
#[derive(Clone, Debug)]
pub struct ClassicSync {
    /// The group.
    pub group_id: GroupId,
    /// The member.
    pub member_id: MemberId,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// The generation that it joined.
    pub generation: Generation,
    /// What it takes the group's protocol type for (KIP-559).
    pub protocol_type: Option<String>,
    /// What it takes the group's protocol for (KIP-559).
    pub protocol: Option<String>,
    /// From the leader, otherwise empty.
    pub assignments: Vec<MemberAssignment>,
}

/// A heartbeat of a classic group as it came.
#[derive(Clone, Debug)]
pub struct ClassicHeartbeat {
    /// The group.
    pub group_id: GroupId,
    /// The member.
    pub member_id: MemberId,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// The generation that it is in.
    pub generation: Generation,
}

/// A member's description of the topology that its group runs.
#[derive(Clone, Debug)]
pub struct TopologyDescription {
    /// The group.
    pub group_id: GroupId,
    /// The member.
    pub member_id: MemberId,
    /// The topology that is described.
    pub topology_epoch: TopologyEpoch,
    /// The subtopologies that the description tells of.
    pub subtopologies: Vec<SubtopologyId>,
    /// A request of version 0 without ids; opaque here.
    pub description: Vec<u8>,
}

/// Which groups to list. Empty lists mean all.
#[derive(Clone, Debug, Default)]
pub struct GroupFilter {
    /// State names as sent; compared as Kafka compares them.
    pub states: Vec<String>,
    /// Type names as sent; compared as Kafka compares them.
    pub types: Vec<String>,
}

/// Offsets to store. The broker has already sorted out unknown topics and oversized metadata.
#[derive(Clone, Debug)]
pub struct OffsetCommit {
    /// The group.
    pub group_id: GroupId,
    /// The member, empty for none.
    pub member_id: MemberId,
    /// Static membership.
    pub instance_id: Option<InstanceId>,
    /// The member epoch (or, for classic groups, generation); below 0 for a commit from outside the group.
    pub member_epoch: MemberEpoch,
    /// The request can report a stale member epoch as such (version 9 or later).
    pub knows_member_epochs: bool,
    /// How long the offsets are to be kept from now on; `None`: as the server is set up.
    pub retention_ms: Option<i64>,
    /// Offsets of single partitions.
    pub offsets: Vec<OffsetToCommit>,
}

/// One partition's offset to store.
#[derive(Clone, Debug)]
pub struct OffsetToCommit {
    /// The topic.
    pub topic: TopicName,
    /// The topic's id, zero if the request carried none.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: PartitionIndex,
    /// The next offset to read.
    pub offset: Offset,
    /// The leader epoch of the last record read, -1 if unknown.
    pub leader_epoch: LeaderEpoch,
    /// The client's own text, kept verbatim.
    pub metadata: String,
}

/// Offsets to read.
#[derive(Clone, Debug)]
pub struct OffsetFetch {
    /// The group.
    pub group_id: GroupId,
    /// The member, if it gave its id.
    pub member_id: Option<MemberId>,
    /// Its epoch, below 0 for a read from outside the group.
    pub member_epoch: MemberEpoch,
    /// Which partitions; `None`: all that the group has.
    pub topics: Option<Vec<(TopicName, Vec<PartitionIndex>)>>,
    /// Answer pending transactional offsets with an error. (No transactions yet: never any pending.)
    pub require_stable: bool,
}

/// Offsets to forget.
#[derive(Clone, Debug)]
pub struct OffsetDelete {
    /// The group.
    pub group_id: GroupId,
    /// Which partitions.
    pub topics: Vec<(TopicName, Vec<PartitionIndex>)>,
}
