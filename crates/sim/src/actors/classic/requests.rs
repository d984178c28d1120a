//! What a simulated consumer sends, in the versions of newer and older clients.

use std::collections::BTreeSet;

use riparian_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest,
    SyncGroupRequest,
    join_group_request::JoinGroupRequestProtocol,
    leave_group_request::MemberIdentity,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
    sync_group_request::SyncGroupRequestAssignment,
};
use riparian_types::Prng;

use crate::{
    app::source_topic,
    core::Core,
    opaque::{Given, Subscription, share_out},
    options::ClassicOptions,
};

const CONSUMER: &str = "consumer";

/// The versions of its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versions {
    pub(super) join: i16,
    pub(super) sync: i16,
    pub(super) heartbeat: i16,
    pub(super) leave: i16,
    pub(super) commit: i16,
    pub(super) fetch: i16,
}

impl Versions {
    /// Of clients that know static membership, of 2.3 or today.
    pub(super) fn new(prng: &mut Prng) -> Self {
        if prng.chance(3) {
            Self { join: 5, sync: 3, heartbeat: 3, leave: 3, commit: 7, fetch: 5 }
        } else {
            Self { join: 9, sync: 5, heartbeat: 4, leave: 5, commit: 9, fetch: 9 }
        }
    }

    /// Of clients that are given their ids first, or only together with their first generation.
    pub(super) fn old(prng: &mut Prng) -> Self {
        let join = if prng.chance(2) { 4 } else { 2 };
        Self { join, sync: 1, heartbeat: 1, leave: 1, commit: 3, fetch: 3 }
    }
}

/// One offset of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) partition: i32,
    pub(super) value: i64,
}

/// The protocol that all members of the group know.
pub(super) fn protocol(group: &ClassicOptions) -> &'static str {
    if group.is_cooperative { "cooperative-sticky" } else { "range" }
}

/// A join of a member that goes on with the assignment of an earlier generation, or has nothing.
pub(super) fn join(
    core: &Core,
    group: &ClassicOptions,
    member_id: &str,
    instance: Option<&str>,
    (wish, generation, owned): (u64, i32, &BTreeSet<i32>),
) -> JoinGroupRequest<'static> {
    let generation = if owned.is_empty() { -1 } else { generation };
    let subscription = Subscription { topic: source_topic(&group.name), wish, generation, owned: owned.clone() };
    let metadata = subscription.to_bytes();
    let protocol = |name: &'static str| JoinGroupRequestProtocol {
        name: name.into(),
        metadata: metadata.clone().into(),
        ..Default::default()
    };
    // Static members know one more, which nobody votes for.
    let protocols = match instance {
        Some(_) => vec![protocol(self::protocol(group)), protocol("roundrobin")],
        None => vec![protocol(self::protocol(group))],
    };
    JoinGroupRequest {
        group_id: group.name.clone().into(),
        session_timeout_ms: i32::try_from(core.options.session_timeout_ms).unwrap_or(i32::MAX),
        rebalance_timeout_ms: i32::try_from(group.rebalance_timeout_ms).unwrap_or(i32::MAX),
        member_id: member_id.to_owned().into(),
        group_instance_id: instance.map(|instance| instance.to_owned().into()),
        protocol_type: CONSUMER.into(),
        protocols,
        ..Default::default()
    }
}

/// What the leader gives to everybody whom it was told of.
pub(super) fn shares(
    core: &mut Core,
    group: &ClassicOptions,
    response: &JoinGroupResponse<'_>,
) -> Result<Vec<Given>, String> {
    let generation = response.generation_id;
    let mut members: Vec<_> = response.members.iter().collect();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    let said = members.iter().map(|member| {
        Subscription::of_bytes(&member.metadata)
            .ok_or_else(|| format!("a leader is told of {}, which said {:?}", member.member_id, member.metadata))
    });
    let said: Vec<Subscription> = said.collect::<Result<_, _>>()?;
    let number = core.beliefs.assigns(&group.name, generation);
    let shares = share_out(group.partitions, &said);
    let given = members.iter().zip(shares).map(|(member, partitions)| Given {
        topic: source_topic(&group.name),
        generation,
        number,
        member: member.member_id.to_string(),
        instance: member.group_instance_id.as_deref().unwrap_or_default().to_owned(),
        partitions,
    });
    Ok(given.collect())
}

pub(super) fn sync(
    group: &ClassicOptions,
    member_id: &str,
    instance: Option<&str>,
    generation: i32,
    shares: &[Given],
) -> SyncGroupRequest<'static> {
    let assignments = shares.iter().map(|given| SyncGroupRequestAssignment {
        member_id: given.member.clone().into(),
        assignment: given.to_bytes().into(),
        ..Default::default()
    });
    SyncGroupRequest {
        group_id: group.name.clone().into(),
        generation_id: generation,
        member_id: member_id.to_owned().into(),
        group_instance_id: instance.map(|instance| instance.to_owned().into()),
        protocol_type: Some(CONSUMER.into()),
        protocol_name: Some(protocol(group).into()),
        assignments: assignments.collect(),
        ..Default::default()
    }
}

pub(super) fn heartbeat(
    group: &ClassicOptions,
    member_id: &str,
    instance: Option<&str>,
    generation: i32,
) -> HeartbeatRequest<'static> {
    HeartbeatRequest {
        group_id: group.name.clone().into(),
        generation_id: generation,
        member_id: member_id.to_owned().into(),
        group_instance_id: instance.map(|instance| instance.to_owned().into()),
        ..Default::default()
    }
}

pub(super) fn leave(
    group: &ClassicOptions,
    member_id: &str,
    instance: Option<&str>,
    versions: Versions,
) -> LeaveGroupRequest<'static> {
    let group_id = group.name.clone().into();
    if versions.leave < 3 {
        return LeaveGroupRequest { group_id, member_id: member_id.to_owned().into(), ..Default::default() };
    }
    let member = MemberIdentity {
        member_id: member_id.to_owned().into(),
        group_instance_id: instance.map(|instance| instance.to_owned().into()),
        ..Default::default()
    };
    LeaveGroupRequest { group_id, members: vec![member], ..Default::default() }
}

pub(super) fn commit(
    group: &ClassicOptions,
    member_id: &str,
    instance: Option<&str>,
    generation: i32,
    written: &[Written],
) -> OffsetCommitRequest<'static> {
    let partitions = written.iter().map(|one| OffsetCommitRequestPartition {
        partition_index: one.partition,
        committed_offset: one.value,
        committed_leader_epoch: -1,
        ..Default::default()
    });
    OffsetCommitRequest {
        group_id: group.name.clone().into(),
        generation_id_or_member_epoch: generation,
        member_id: member_id.to_owned().into(),
        group_instance_id: instance.map(|instance| instance.to_owned().into()),
        topics: vec![OffsetCommitRequestTopic {
            name: source_topic(&group.name).into(),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(super) fn fetch(
    group: &ClassicOptions,
    partitions: &BTreeSet<i32>,
    versions: Versions,
) -> OffsetFetchRequest<'static> {
    let (name, partition_indexes) = (source_topic(&group.name), partitions.iter().copied().collect());
    if versions.fetch < 8 {
        let topics = vec![OffsetFetchRequestTopic { name: name.into(), partition_indexes, ..Default::default() }];
        return OffsetFetchRequest { group_id: group.name.clone().into(), topics: Some(topics), ..Default::default() };
    }
    let topics = vec![OffsetFetchRequestTopics { name: name.into(), partition_indexes, ..Default::default() }];
    let asked = OffsetFetchRequestGroup {
        group_id: group.name.clone().into(),
        member_epoch: -1,
        topics: Some(topics),
        ..Default::default()
    };
    OffsetFetchRequest { groups: vec![asked], ..Default::default() }
}
