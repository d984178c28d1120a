//! JoinGroup (key 11, versions 0 to 9): a member joins the next generation of a classic group.
//!
//! It is answered when everybody has joined, or their time is over.

use std::borrow::Cow;

use riparian_coordinator::subscribed_topics;
use riparian_group::{
    classic::Protocol,
    command::{Caller, ClassicJoin, Command, JoinSupport},
    reply::{ClassicJoinError, ClassicJoinReply, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{JoinGroupRequest, JoinGroupResponse, join_group_response::JoinGroupResponseMember},
};
use riparian_types::{GroupId, InstanceId, MemberId};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::JoinGroup, handle };

/// Before this version one timeout is both.
const REBALANCE_TIMEOUT_SINCE: i16 = 1;
/// From here on members come back with the id that they are given (KIP-394).
const GIVEN_ID_SINCE: i16 = 4;
/// From here on there is a null for no protocol; older clients are told an empty one.
const NO_PROTOCOL_SINCE: i16 = 7;
/// From here on a leader can be told to leave the assignment as it is (KIP-814).
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = JoinGroupRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let version = ctx.version();
    if !ctx.allows(Operation::Read, Resource::Group(&request.group_id)) {
        ctx.reply(&refusal(version, ErrorCode::GroupAuthorizationFailed, ""));
        return Ok(());
    }
    if let Some(reason) = &request.reason {
        let (group, member) = (&*request.group_id, &*request.member_id);
        tracing::debug!(group, member, reason = &**reason, "member joins");
    }
    let group = GroupId::from(&*request.group_id);
    let join = Box::new(command(&ctx, group.clone(), request));
    let to = ctx.to;
    ctx.broker.ask_group_and_wait(
        &ctx,
        group,
        |waiter| Command::ClassicJoin(waiter, join),
        Box::new(move |broker, _, answer| match answer {
            Ok(Reply::ClassicJoin(Ok(reply))) => broker.reply(to, &success(version, &reply)),
            Ok(Reply::ClassicJoin(Err(refused))) => {
                broker.reply(to, &refusal(version, error_code(&refused.error), &refused.member_id));
            }
            Ok(_) => broker.reply(to, &refusal(version, ErrorCode::UnknownServerError, "")),
            Err(_) => broker.reply(to, &refusal(version, ErrorCode::NotCoordinator, "")),
        }),
    );
    Ok(())
}

fn command(ctx: &Context<'_>, group_id: GroupId, request: JoinGroupRequest<'_>) -> ClassicJoin {
    let rebalance_timeout_ms = match ctx.version() {
        REBALANCE_TIMEOUT_SINCE.. => request.rebalance_timeout_ms,
        _ => request.session_timeout_ms,
    };
    let protocols = request.protocols.into_iter().map(|protocol| Protocol {
        subscribed_topics: subscribed_topics(&request.protocol_type, &protocol.metadata),
        name: protocol.name.into_owned(),
        metadata: protocol.metadata.into(),
    });
    let protocols = protocols.collect();
    ClassicJoin {
        caller: Caller {
            client_id: ctx.client_id.clone(),
            client_host: ctx.connection.client_host().to_owned(),
            connection: ctx.connection.id().0,
        },
        support: JoinSupport {
            given_id: ctx.version() >= GIVEN_ID_SINCE,
            skip_assignment: ctx.version() >= SKIP_ASSIGNMENT_SINCE,
        },
        group_id,
        fresh_id: if request.member_id.is_empty() { ctx.broker.fresh_id() } else { String::new() },
        member_id: MemberId::from(&*request.member_id),
        instance_id: request.group_instance_id.map(|id| InstanceId::from(&*id)),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type.into_owned(),
        protocols,
    }
}

/// The one place where this operation's errors become codes.
fn error_code(error: &ClassicJoinError) -> ErrorCode {
    match error {
        ClassicJoinError::InvalidGroupId => ErrorCode::InvalidGroupId,
        ClassicJoinError::InvalidSessionTimeout => ErrorCode::InvalidSessionTimeout,
        ClassicJoinError::MemberIdRequired => ErrorCode::MemberIdRequired,
        ClassicJoinError::UnknownMemberId => ErrorCode::UnknownMemberId,
        ClassicJoinError::FencedInstanceId => ErrorCode::FencedInstanceId,
        ClassicJoinError::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
        ClassicJoinError::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
        ClassicJoinError::TooLarge(_) => ErrorCode::PolicyViolation,
        ClassicJoinError::Superseded => ErrorCode::RebalanceInProgress,
        // Told in the log when the group was loaded.
        ClassicJoinError::Internal(_) => ErrorCode::UnknownServerError,
        other => {
            tracing::error!(?other, "join error without a code");
            ErrorCode::UnknownServerError
        }
    }
}

fn refusal(version: i16, code: ErrorCode, member_id: &str) -> JoinGroupResponse<'static> {
    JoinGroupResponse {
        error_code: code as i16,
        protocol_name: no_protocol(version),
        member_id: Cow::Owned(member_id.to_owned()),
        ..Default::default()
    }
}

fn success(version: i16, reply: &ClassicJoinReply) -> JoinGroupResponse<'_> {
    let protocol = reply.protocol.as_deref().map(Cow::Borrowed);
    JoinGroupResponse {
        generation_id: reply.generation.0,
        protocol_type: reply.protocol_type.as_deref().map(Cow::Borrowed),
        protocol_name: protocol.or_else(|| no_protocol(version)),
        leader: Cow::Borrowed(&reply.leader),
        skip_assignment: reply.skip_assignment,
        member_id: Cow::Borrowed(&reply.member_id),
        members: reply
            .members
            .iter()
            .map(|member| JoinGroupResponseMember {
                member_id: Cow::Borrowed(&member.member_id),
                group_instance_id: member.instance_id.as_deref().map(Cow::Borrowed),
                metadata: Cow::Borrowed(&member.metadata),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn no_protocol(version: i16) -> Option<Cow<'static, str>> {
    (version < NO_PROTOCOL_SINCE).then_some(Cow::Borrowed(""))
}
