//! Classic members of scripts, between the machine's types and those of the script language.

use alloc::{
    format,
    string::{String, ToString},
};

use riparian_testkit as script;
use riparian_testkit::{ClassicAnswer, ClassicBody, ClassicRequest, JoinAnswer, LeaveAnswer, Metadata, SyncAnswer};
use riparian_types::{Generation, TopicName, machine::Waiter};

use crate::{
    classic::{LeavingMember, MemberAssignment, Protocol},
    command::{Caller, ClassicHeartbeat, ClassicJoin, ClassicSync, Command, JoinSupport},
    record::{ClassicGroupValue, ClassicMemberValue},
    reply::{
        ClassicDescription, ClassicJoinError, ClassicJoinRefusal, ClassicJoinReply, ClassicMemberError,
        ClassicSyncReply, Reply,
    },
};

/// The first versions of JoinGroup that can do these.
const JOIN_WITH_GIVEN_ID: i16 = 4;
const JOIN_SKIPPING_ASSIGNMENT: i16 = 9;
const JOIN_TELLING_TYPE: i16 = 7;
const SYNC_TELLING_TYPE: i16 = 5;

/// What a member asks of the machine.
pub(super) fn command(request: &ClassicRequest, fresh_id: String, waiter: Waiter) -> Command {
    let version = request.version.unwrap_or(i16::MAX);
    let group_id = request.group_id.as_str().into();
    match request.body.clone() {
        ClassicBody::Join {
            member_id,
            instance_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            protocol_type,
            protocols,
            reason: _,
        } => Command::ClassicJoin(
            waiter,
            ClassicJoin {
                caller: Caller { client_id: "client".into(), client_host: "/127.0.0.1".into(), connection: 0 },
                support: JoinSupport {
                    given_id: version >= JOIN_WITH_GIVEN_ID,
                    skip_assignment: version >= JOIN_SKIPPING_ASSIGNMENT,
                },
                group_id,
                member_id: member_id.into(),
                fresh_id,
                instance_id: instance_id.map(Into::into),
                session_timeout_ms,
                rebalance_timeout_ms,
                protocol_type,
                protocols: protocols.iter().map(protocol).collect(),
            }
            .into(),
        ),
        ClassicBody::Sync { generation, member_id, instance_id, protocol_type, protocol, assignments } => {
            let tells = version >= SYNC_TELLING_TYPE;
            let assignment = |(member, given): (String, String)| MemberAssignment {
                member_id: member.into(),
                assignment: given.as_bytes().into(),
            };
            Command::ClassicSync(
                waiter,
                ClassicSync {
                    group_id,
                    member_id: member_id.into(),
                    instance_id: instance_id.map(Into::into),
                    generation: Generation(generation),
                    protocol_type: protocol_type.filter(|_| tells),
                    protocol: protocol.filter(|_| tells),
                    assignments: assignments.into_iter().map(assignment).collect(),
                }
                .into(),
            )
        }
        ClassicBody::Beat { generation, member_id, instance_id } => Command::ClassicHeartbeat(
            waiter,
            ClassicHeartbeat {
                group_id,
                member_id: member_id.into(),
                instance_id: instance_id.map(Into::into),
                generation: Generation(generation),
            },
        ),
        ClassicBody::Leave { members, .. } => {
            let leaving = |(id, instance): (String, Option<String>)| LeavingMember {
                member_id: id.into(),
                instance_id: instance.map(Into::into),
            };
            Command::ClassicLeave(waiter, group_id, members.into_iter().map(leaving).collect())
        }
    }
}

/// What the machine answers to what was asked.
pub(super) fn answer(reply: Reply, request: &ClassicRequest) -> Result<ClassicAnswer, String> {
    let version = request.version.unwrap_or(i16::MAX);
    Ok(match (reply, &request.body) {
        (Reply::ClassicJoin(result), ClassicBody::Join { .. }) => ClassicAnswer::Join(join_answer(&result, version)),
        (Reply::ClassicSync(result), ClassicBody::Sync { .. }) => ClassicAnswer::Sync(sync_answer(&result, version)),
        (Reply::ClassicHeartbeat(result), ClassicBody::Beat { .. }) => {
            ClassicAnswer::Beat(result.as_ref().err().map_or("", member_error).into())
        }
        (Reply::ClassicLeave(Ok(outcomes)), ClassicBody::Leave { members, .. }) => {
            let outcomes = outcomes.iter().map(|it| it.as_ref().err().map_or("", member_error).to_string());
            let members = members.iter().cloned().zip(outcomes).map(|((id, instance), error)| (id, instance, error));
            ClassicAnswer::Leave(LeaveAnswer { error: String::new(), members: members.collect() })
        }
        (Reply::ClassicLeave(Err(error)), ClassicBody::Leave { .. }) => {
            ClassicAnswer::Leave(LeaveAnswer { error: member_error(&error).into(), ..LeaveAnswer::default() })
        }
        (other, _) => return Err(format!("another answer: {other:?}")),
    })
}

fn protocol((name, metadata): &(String, Metadata)) -> Protocol {
    Protocol {
        name: name.clone(),
        metadata: metadata.to_bytes().into(),
        subscribed_topics: match metadata {
            Metadata::Topics(topics) => Some(topics.iter().map(|topic| TopicName::from(topic.as_str())).collect()),
            Metadata::Raw(_) => None,
        },
    }
}

fn sync_answer(result: &Result<ClassicSyncReply, ClassicMemberError>, version: i16) -> SyncAnswer {
    let tells = version >= SYNC_TELLING_TYPE;
    match result {
        Ok(reply) => SyncAnswer {
            error: String::new(),
            protocol_type: reply.protocol_type.clone().filter(|_| tells),
            protocol: reply.protocol.clone().filter(|_| tells),
            assignment: reply.assignment.to_vec(),
        },
        Err(error) => SyncAnswer { error: member_error(error).into(), ..SyncAnswer::default() },
    }
}

fn join_answer(result: &Result<ClassicJoinReply, ClassicJoinRefusal>, version: i16) -> JoinAnswer {
    let tells = version >= JOIN_TELLING_TYPE;
    match result {
        Ok(reply) => JoinAnswer {
            error: String::new(),
            generation: reply.generation.0,
            protocol_type: reply.protocol_type.clone().filter(|_| tells),
            protocol: reply.protocol.clone(),
            leader: reply.leader.to_string(),
            skip_assignment: reply.skip_assignment,
            member_id: reply.member_id.to_string(),
            members: reply
                .members
                .iter()
                .map(|it| {
                    let instance = it.instance_id.as_ref().map(ToString::to_string);
                    (it.member_id.to_string(), instance, Metadata::from_bytes(&it.metadata))
                })
                .collect(),
        },
        Err(refusal) => JoinAnswer {
            error: join_error(&refusal.error).into(),
            generation: -1,
            member_id: refusal.member_id.to_string(),
            ..JoinAnswer::default()
        },
    }
}

fn join_error(error: &ClassicJoinError) -> &'static str {
    match error {
        ClassicJoinError::InvalidGroupId => "INVALID_GROUP_ID",
        ClassicJoinError::InvalidSessionTimeout => "INVALID_SESSION_TIMEOUT",
        ClassicJoinError::MemberIdRequired => "MEMBER_ID_REQUIRED",
        ClassicJoinError::UnknownMemberId => "UNKNOWN_MEMBER_ID",
        ClassicJoinError::FencedInstanceId => "FENCED_INSTANCE_ID",
        ClassicJoinError::InconsistentGroupProtocol => "INCONSISTENT_GROUP_PROTOCOL",
        ClassicJoinError::GroupMaxSizeReached => "GROUP_MAX_SIZE_REACHED",
        ClassicJoinError::Superseded => "REBALANCE_IN_PROGRESS",
        ClassicJoinError::TooLarge(_) => "POLICY_VIOLATION",
        ClassicJoinError::Internal(_) => "UNKNOWN_SERVER_ERROR",
    }
}

fn member_error(error: &ClassicMemberError) -> &'static str {
    match error {
        ClassicMemberError::InvalidGroupId => "INVALID_GROUP_ID",
        ClassicMemberError::UnknownMemberId => "UNKNOWN_MEMBER_ID",
        ClassicMemberError::FencedInstanceId => "FENCED_INSTANCE_ID",
        ClassicMemberError::IllegalGeneration => "ILLEGAL_GENERATION",
        ClassicMemberError::InconsistentGroupProtocol => "INCONSISTENT_GROUP_PROTOCOL",
        ClassicMemberError::RebalanceInProgress => "REBALANCE_IN_PROGRESS",
        ClassicMemberError::TooLarge(_) => "POLICY_VIOLATION",
        ClassicMemberError::Internal(_) => "UNKNOWN_SERVER_ERROR",
    }
}

pub(super) fn description(described: &ClassicDescription) -> script::ClassicDescription {
    script::ClassicDescription {
        state: described.state.name().into(),
        protocol_type: described.protocol_type.clone(),
        protocol: described.protocol.clone(),
        members: described
            .members
            .iter()
            .map(|it| script::ClassicMember {
                member_id: it.member_id.to_string(),
                instance_id: it.instance_id.as_ref().map(ToString::to_string),
                client_id: it.client_id.clone(),
                client_host: it.client_host.clone(),
                rebalance_timeout_ms: None,
                session_timeout_ms: None,
                metadata: Metadata::from_bytes(&it.metadata),
                assignment: it.assignment.to_vec(),
            })
            .collect(),
    }
}

pub(super) fn group(value: &ClassicGroupValue) -> script::ClassicGroup {
    script::ClassicGroup {
        protocol_type: value.protocol_type.clone(),
        generation: value.generation.0,
        protocol: value.protocol.clone(),
        leader: value.leader.as_ref().map(ToString::to_string),
        has_time: value.state_timestamp.is_some(),
        members: value.members.iter().map(member).collect(),
    }
}

fn member(value: &ClassicMemberValue) -> script::ClassicMember {
    script::ClassicMember {
        member_id: value.member_id.to_string(),
        instance_id: value.instance_id.as_ref().map(ToString::to_string),
        client_id: value.client_id.clone(),
        client_host: value.client_host.clone(),
        rebalance_timeout_ms: Some(value.rebalance_timeout_ms),
        session_timeout_ms: Some(value.session_timeout_ms),
        metadata: Metadata::from_bytes(&value.subscription),
        assignment: value.assignment.to_vec(),
    }
}
