//! LeaveGroup (key 13, versions 0 to 5): members leave a classic group, or are removed from it.

use std::borrow::Cow;

use riparian_group::{
    classic::LeavingMember,
    command::Command,
    reply::{ClassicMemberError, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{LeaveGroupRequest, LeaveGroupResponse, leave_group_response::MemberResponse},
};
use riparian_types::{GroupId, InstanceId, MemberId};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::{Api, sync_group::error_code},
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::LeaveGroup, handle };

/// From here on several members can leave at once, and each has an error of its own (KIP-345).
const MEMBERS_SINCE: i16 = 3;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = LeaveGroupRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    if !ctx.allows(Operation::Read, Resource::Group(&request.group_id)) {
        ctx.reply(&refusal(ErrorCode::GroupAuthorizationFailed));
        return Ok(());
    }
    let group = GroupId::from(&*request.group_id);
    let version = ctx.version();
    let members: Vec<LeavingMember> = if version >= MEMBERS_SINCE {
        let members = request.members.into_iter().map(|member| {
            if let Some(reason) = &member.reason {
                let (group, id) = (&*request.group_id, &*member.member_id);
                tracing::debug!(group, member = id, reason = &**reason, "member leaves");
            }
            LeavingMember {
                member_id: MemberId::from(&*member.member_id),
                instance_id: member.group_instance_id.map(|id| InstanceId::from(&*id)),
            }
        });
        members.collect()
    } else {
        vec![LeavingMember { member_id: MemberId::from(&*request.member_id), instance_id: None }]
    };
    let to = ctx.to;
    let asked = members.clone();
    ctx.broker.ask_group(
        ctx.now,
        &group,
        |waiter| Command::ClassicLeave(waiter, group.clone(), members),
        Box::new(move |broker, _, answer| {
            let response = match answer {
                Ok(Reply::ClassicLeave(Ok(outcomes))) => left(version, asked, &outcomes),
                Ok(Reply::ClassicLeave(Err(error))) => refusal(error_code(&error)),
                Ok(_) => refusal(ErrorCode::UnknownServerError),
                Err(_) => refusal(ErrorCode::NotCoordinator),
            };
            broker.reply(to, &response);
        }),
    );
    Ok(())
}

fn left(
    version: i16,
    asked: Vec<LeavingMember>,
    outcomes: &[Result<(), ClassicMemberError>],
) -> LeaveGroupResponse<'static> {
    let code =
        |outcome: &Result<(), ClassicMemberError>| outcome.as_ref().err().map_or(0, |error| error_code(error).code());
    if version < MEMBERS_SINCE {
        return LeaveGroupResponse { error_code: outcomes.first().map_or(0, code), ..Default::default() };
    }
    let members = asked.into_iter().zip(outcomes).map(|(member, outcome)| MemberResponse {
        member_id: Cow::Owned(member.member_id.to_string()),
        group_instance_id: member.instance_id.map(|id| Cow::Owned(id.to_string())),
        error_code: code(outcome),
        ..Default::default()
    });
    LeaveGroupResponse { members: members.collect(), ..Default::default() }
}

fn refusal(code: ErrorCode) -> LeaveGroupResponse<'static> {
    LeaveGroupResponse { error_code: code as i16, ..Default::default() }
}
