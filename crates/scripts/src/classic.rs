//! Classic members between the messages of the protocol and what scripts say.
//!
//! Each has a connection of its own, because an answer may have to wait.

use riparian_client::Received;
use riparian_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest, describe_groups_response::DescribedGroup,
    join_group_request::JoinGroupRequestProtocol, leave_group_request::MemberIdentity,
    sync_group_request::SyncGroupRequestAssignment,
};
use riparian_testkit::{
    ClassicAnswer, ClassicBody, ClassicDescription, ClassicMember, ClassicName, ClassicRequest, JoinAnswer,
    LeaveAnswer, Metadata, SyncAnswer,
};

use crate::{
    Transport,
    server::{failed, outcome},
};

/// Round trips after which what was answered has been written down, too.
const ROUND_TRIPS_ANSWERED: u32 = 3;
/// Round trips after which a request that was read before them has been looked at: one until it was handed to the
/// coordinator, and the others for threads that were slow.
const ROUND_TRIPS_UNANSWERED: u32 = 16;
const LEAVE_BY_ONE: i16 = 2;

/// What the transport calls the member's connection.
pub(crate) fn connection_of(name: &ClassicName) -> String {
    format!("{} of {}", name.member, name.group)
}

/// A request on another connection has reached the coordinator once later ones on the main connection have.
pub(crate) fn let_it_arrive(
    transport: &mut impl Transport,
    from: &ClassicName,
    group: &str,
    is_answered: bool,
) -> Result<(), String> {
    let round_trips = if is_answered {
        ROUND_TRIPS_ANSWERED
    } else {
        transport.wait_until_read(&connection_of(from))?;
        ROUND_TRIPS_UNANSWERED
    };
    for _ in 0..round_trips {
        let beat = HeartbeatRequest { group_id: group.into(), ..HeartbeatRequest::default() };
        transport.call(&beat, None)?;
    }
    Ok(())
}

/// Sends what a member asks.
pub(crate) fn send(transport: &mut impl Transport, connection: &str, request: &ClassicRequest) -> Result<(), String> {
    let version = request.version;
    let group_id = || request.group_id.as_str().into();
    match &request.body {
        ClassicBody::Join {
            member_id,
            instance_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            protocol_type,
            protocols,
            reason,
        } => {
            let protocol = |(name, metadata): &(String, Metadata)| JoinGroupRequestProtocol {
                name: name.clone().into(),
                metadata: metadata.to_bytes().into(),
                ..JoinGroupRequestProtocol::default()
            };
            let request = JoinGroupRequest {
                group_id: group_id(),
                session_timeout_ms: *session_timeout_ms,
                rebalance_timeout_ms: *rebalance_timeout_ms,
                member_id: member_id.as_str().into(),
                group_instance_id: instance_id.as_deref().map(Into::into),
                protocol_type: protocol_type.as_str().into(),
                protocols: protocols.iter().map(protocol).collect(),
                reason: reason.as_deref().map(Into::into),
                ..JoinGroupRequest::default()
            };
            transport.send(connection, &request, version)
        }
        ClassicBody::Sync { generation, member_id, instance_id, protocol_type, protocol, assignments } => {
            let assignment = |(member, given): &(String, String)| SyncGroupRequestAssignment {
                member_id: member.clone().into(),
                assignment: given.as_bytes().to_vec().into(),
                ..SyncGroupRequestAssignment::default()
            };
            let request = SyncGroupRequest {
                group_id: group_id(),
                generation_id: *generation,
                member_id: member_id.as_str().into(),
                group_instance_id: instance_id.as_deref().map(Into::into),
                protocol_type: protocol_type.as_deref().map(Into::into),
                protocol_name: protocol.as_deref().map(Into::into),
                assignments: assignments.iter().map(assignment).collect(),
                ..SyncGroupRequest::default()
            };
            transport.send(connection, &request, version)
        }
        ClassicBody::Beat { generation, member_id, instance_id } => {
            let request = HeartbeatRequest {
                group_id: group_id(),
                generation_id: *generation,
                member_id: member_id.as_str().into(),
                group_instance_id: instance_id.as_deref().map(Into::into),
                ..HeartbeatRequest::default()
            };
            transport.send(connection, &request, version)
        }
        ClassicBody::Leave { members, reason } => {
            let by_one = version.is_some_and(|version| version <= LEAVE_BY_ONE);
            let identity = |(id, instance): &(String, Option<String>)| MemberIdentity {
                member_id: id.clone().into(),
                group_instance_id: instance.clone().map(Into::into),
                reason: reason.clone().map(Into::into),
                ..MemberIdentity::default()
            };
            let request = LeaveGroupRequest {
                group_id: group_id(),
                member_id: members.first().filter(|_| by_one).map(|(id, _)| id.clone()).unwrap_or_default().into(),
                members: if by_one { Vec::new() } else { members.iter().map(identity).collect() },
                ..LeaveGroupRequest::default()
            };
            transport.send(connection, &request, version)
        }
    }
}

/// The answer to what was asked.
pub(crate) fn answer(received: &Received, asked: &ClassicBody) -> Result<ClassicAnswer, String> {
    Ok(match asked {
        ClassicBody::Join { .. } => {
            let response = received.decode::<JoinGroupRequest<'_>>().map_err(failed)?;
            let members = response.members.iter().map(|it| {
                let instance = it.group_instance_id.as_ref().map(ToString::to_string);
                (it.member_id.to_string(), instance, Metadata::from_bytes(&it.metadata))
            });
            ClassicAnswer::Join(JoinAnswer {
                error: name_of(response.error_code),
                generation: response.generation_id,
                protocol_type: response.protocol_type.as_ref().map(ToString::to_string),
                protocol: response.protocol_name.as_ref().map(ToString::to_string),
                leader: response.leader.to_string(),
                skip_assignment: response.skip_assignment,
                member_id: response.member_id.to_string(),
                members: members.collect(),
            })
        }
        ClassicBody::Sync { .. } => {
            let response = received.decode::<SyncGroupRequest<'_>>().map_err(failed)?;
            ClassicAnswer::Sync(SyncAnswer {
                error: name_of(response.error_code),
                protocol_type: response.protocol_type.as_ref().map(ToString::to_string),
                protocol: response.protocol_name.as_ref().map(ToString::to_string),
                assignment: response.assignment.to_vec(),
            })
        }
        ClassicBody::Beat { .. } => {
            let response = received.decode::<HeartbeatRequest<'_>>().map_err(failed)?;
            ClassicAnswer::Beat(name_of(response.error_code))
        }
        ClassicBody::Leave { members: asked, .. } => {
            let response = received.decode::<LeaveGroupRequest<'_>>().map_err(failed)?;
            let member = |it: &riparian_protocol::messages::leave_group_response::MemberResponse<'_>| {
                let instance = it.group_instance_id.as_ref().map(ToString::to_string);
                (it.member_id.to_string(), instance, name_of(it.error_code))
            };
            let members: Vec<_> = response.members.iter().map(member).collect();
            let echoed = members.iter().map(|(id, instance, _)| (id, instance));
            if !members.is_empty() && !echoed.eq(asked.iter().map(|(id, instance)| (id, instance))) {
                return Err(format!("the answer is about others: {members:?}"));
            }
            ClassicAnswer::Leave(LeaveAnswer { error: name_of(response.error_code), members })
        }
    })
}

/// A group as it is described.
pub(crate) fn description(group: &DescribedGroup<'_>) -> ClassicDescription {
    let members = group.members.iter().map(|it| ClassicMember {
        member_id: it.member_id.to_string(),
        instance_id: it.group_instance_id.as_ref().map(ToString::to_string),
        client_id: it.client_id.to_string(),
        client_host: it.client_host.to_string(),
        rebalance_timeout_ms: None,
        session_timeout_ms: None,
        metadata: Metadata::from_bytes(&it.member_metadata),
        assignment: it.member_assignment.to_vec(),
    });
    ClassicDescription {
        state: group.group_state.to_string(),
        protocol_type: group.protocol_type.to_string(),
        protocol: group.protocol_data.to_string(),
        members: members.collect(),
    }
}

/// Kafka's name of an error; nothing if there is none.
fn name_of(code: i16) -> String {
    outcome(code, None).err().map(|refusal| refusal.name).unwrap_or_default()
}
