//! FindCoordinator (key 10, versions 0 to 6): which server serves a group. It is this one.
//!
//! Gaps: transactional ids are refused with a text, share groups too.

use std::borrow::Cow;

use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{FindCoordinatorRequest, FindCoordinatorResponse, find_coordinator_response::Coordinator},
};
use riparian_types::GroupId;
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::FindCoordinator, handle };

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = FindCoordinatorRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let response = if ctx.version() >= 4 {
        let keys = request.coordinator_keys.iter();
        let coordinators = keys.map(|key| find(&ctx, request.key_type, key)).collect();
        FindCoordinatorResponse { coordinators, ..Default::default() }
    } else {
        let found = find(&ctx, request.key_type, &request.key);
        FindCoordinatorResponse {
            error_code: found.error_code,
            error_message: if ctx.version() >= 1 { found.error_message } else { None },
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            ..Default::default()
        }
    };
    ctx.reply(&response);
    Ok(())
}

fn find(ctx: &Context<'_>, key_type: i8, key: &str) -> Coordinator<'static> {
    let refused = match key_type {
        GROUP if !ctx.allows(Operation::Describe, Resource::Group(key)) => {
            Some((ErrorCode::GroupAuthorizationFailed, None))
        }
        GROUP if ctx.broker.is_offline(&GroupId::from(key)) => {
            let text = "the log of this group's coordinator is damaged, see the server's log".to_owned();
            Some((ErrorCode::CoordinatorNotAvailable, Some(text)))
        }
        GROUP => None,
        // Not a code that clients retry: a producer or an exactly-once application ends with this text.
        TRANSACTION => Some((ErrorCode::UnsupportedVersion, Some(texts::NO_TRANSACTIONS.to_owned()))),
        other => {
            let text = format!("coordinator key type {other} is not served, 0 (group) is");
            Some((ErrorCode::InvalidRequest, Some(text)))
        }
    };
    let key = Cow::Owned(key.to_owned());
    match refused {
        Some((code, text)) => Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code: code as i16,
            error_message: text.map(texts::told),
            ..Default::default()
        },
        None => {
            let (host, port) = ctx.broker.advertised(ctx.connection.listener());
            Coordinator {
                key,
                node_id: ctx.broker.node_id().0,
                host: Cow::Owned(host.to_owned()),
                port: i32::from(port),
                ..Default::default()
            }
        }
    }
}
