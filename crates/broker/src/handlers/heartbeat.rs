//! Heartbeat (key 12, versions 0 to 4): a member of a classic group is alive, and learns whether it must join again.

use riparian_group::{
    command::{ClassicHeartbeat, Command},
    reply::Reply,
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{HeartbeatRequest, HeartbeatResponse},
};
use riparian_types::{Generation, GroupId, InstanceId, MemberId};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::{Api, sync_group::error_code},
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::Heartbeat, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = HeartbeatRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    if !ctx.allows(Operation::Read, Resource::Group(&request.group_id)) {
        ctx.reply(&response(Some(ErrorCode::GroupAuthorizationFailed)));
        return Ok(());
    }
    let group = GroupId::from(&*request.group_id);
    let heartbeat = ClassicHeartbeat {
        group_id: group.clone(),
        member_id: MemberId::from(&*request.member_id),
        instance_id: request.group_instance_id.map(|id| InstanceId::from(&*id)),
        generation: Generation(request.generation_id),
    };
    let to = ctx.to;
    ctx.broker.ask_group(
        ctx.now,
        &group,
        |waiter| Command::ClassicHeartbeat(waiter, heartbeat),
        Box::new(move |broker, _, answer| {
            let code = match answer {
                Ok(Reply::ClassicHeartbeat(result)) => result.err().map(|error| error_code(&error)),
                Ok(_) => Some(ErrorCode::UnknownServerError),
                Err(_) => Some(ErrorCode::NotCoordinator),
            };
            broker.reply(to, &response(code));
        }),
    );
    Ok(())
}

fn response(code: Option<ErrorCode>) -> HeartbeatResponse {
    HeartbeatResponse { error_code: code.map_or(0, ErrorCode::code), ..Default::default() }
}
