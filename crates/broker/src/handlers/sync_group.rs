//! SyncGroup (key 14, versions 0 to 5): a member of a classic group fetches its assignment, the leader brings all.
//!
//! It is answered when the leader has assigned, or the group rebalances again.

use std::borrow::Cow;

use riparian_group::{
    classic::MemberAssignment,
    command::{ClassicSync, Command},
    reply::{ClassicMemberError, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{SyncGroupRequest, SyncGroupResponse},
};
use riparian_types::{Generation, GroupId, InstanceId, MemberId};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::SyncGroup, handle };

/// From here on members must say what they take the group for (KIP-559).
const PROTOCOL_SINCE: i16 = 5;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = SyncGroupRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let says_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    let refused = if ctx.version() >= PROTOCOL_SINCE && !says_protocol {
        Some(ErrorCode::InconsistentGroupProtocol)
    } else if !ctx.allows(Operation::Read, Resource::Group(&request.group_id)) {
        Some(ErrorCode::GroupAuthorizationFailed)
    } else {
        None
    };
    if let Some(code) = refused {
        ctx.reply(&refusal(code));
        return Ok(());
    }
    let group = GroupId::from(&*request.group_id);
    let assignments = request.assignments.into_iter().map(|given| MemberAssignment {
        member_id: MemberId::from(&*given.member_id),
        assignment: given.assignment.into(),
    });
    let sync = Box::new(ClassicSync {
        group_id: group.clone(),
        member_id: MemberId::from(&*request.member_id),
        instance_id: request.group_instance_id.map(|id| InstanceId::from(&*id)),
        generation: Generation(request.generation_id),
        protocol_type: request.protocol_type.map(Cow::into_owned),
        protocol: request.protocol_name.map(Cow::into_owned),
        assignments: assignments.collect(),
    });
    let to = ctx.to;
    ctx.broker.ask_group_and_wait(
        &ctx,
        group,
        |waiter| Command::ClassicSync(waiter, sync),
        Box::new(move |broker, _, answer| match answer {
            Ok(Reply::ClassicSync(Ok(reply))) => {
                let response = SyncGroupResponse {
                    protocol_type: reply.protocol_type.as_deref().map(Cow::Borrowed),
                    protocol_name: reply.protocol.as_deref().map(Cow::Borrowed),
                    assignment: Cow::Borrowed(&reply.assignment),
                    ..Default::default()
                };
                broker.reply(to, &response);
            }
            Ok(Reply::ClassicSync(Err(error))) => broker.reply(to, &refusal(error_code(&error))),
            Ok(_) => broker.reply(to, &refusal(ErrorCode::UnknownServerError)),
            Err(_) => broker.reply(to, &refusal(ErrorCode::NotCoordinator)),
        }),
    );
    Ok(())
}

fn refusal(code: ErrorCode) -> SyncGroupResponse<'static> {
    SyncGroupResponse { error_code: code as i16, ..Default::default() }
}

/// The one place where the errors of members of classic groups become codes: of syncs, heartbeats and leaves.
pub(super) fn error_code(error: &ClassicMemberError) -> ErrorCode {
    match error {
        ClassicMemberError::InvalidGroupId => ErrorCode::InvalidGroupId,
        ClassicMemberError::UnknownMemberId => ErrorCode::UnknownMemberId,
        ClassicMemberError::FencedInstanceId => ErrorCode::FencedInstanceId,
        ClassicMemberError::IllegalGeneration => ErrorCode::IllegalGeneration,
        ClassicMemberError::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
        ClassicMemberError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        ClassicMemberError::TooLarge(_) => ErrorCode::PolicyViolation,
        // Told in the log when the group was loaded.
        ClassicMemberError::Internal(_) => ErrorCode::UnknownServerError,
        other => {
            tracing::error!(?other, "error of a classic member without a code");
            ErrorCode::UnknownServerError
        }
    }
}
