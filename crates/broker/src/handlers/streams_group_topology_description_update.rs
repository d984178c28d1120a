//! StreamsGroupTopologyDescriptionUpdate (key 93, version 0): a member of a streams group describes its topology (KIP-1331).
//!
//! The description is kept as it came, but for the ids. That it is one of the group's subtopologies is checked; all else
//! is looked at by nobody until it is asked for.

use std::borrow::Cow;

use riparian_group::{
    command::{Command, TopologyDescription},
    reply::{Reply, TopologyDescriptionError},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse},
};
use riparian_types::{GroupId, MemberId, SubtopologyId, TopologyEpoch};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::StreamsGroupTopologyDescriptionUpdate, handle };

/// The version in which descriptions are kept.
pub(super) const KEPT_VERSION: i16 = 0;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = match StreamsGroupTopologyDescriptionUpdateRequest::decode(reader, ctx.version()) {
        Ok(request) => request,
        // Nodes without names are small on the wire and large here. It is no request that cannot be understood.
        Err(DecodeError::BudgetExceeded { .. }) => {
            let text = "The description has too many nodes for its size.".to_owned();
            ctx.reply(&response(ErrorCode::InvalidRequest, Some(text)));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    reader.finish()?;
    if !ctx.broker.request_config.serves_streams_groups {
        ctx.reply(&response(ErrorCode::UnsupportedVersion, None));
        return Ok(());
    }
    if !ctx.allows(Operation::Read, Resource::Group(&request.group_id)) {
        ctx.reply(&response(ErrorCode::GroupAuthorizationFailed, None));
        return Ok(());
    }
    let group = GroupId::from(&*request.group_id);
    let mut update = TopologyDescription {
        group_id: group.clone(),
        member_id: MemberId::from(&*request.member_id),
        topology_epoch: TopologyEpoch(request.topology_epoch),
        subtopologies: (request.topology_description.subtopologies.iter())
            .map(|part| SubtopologyId::from(&*part.subtopology_id))
            .collect(),
        description: Vec::new(),
    };
    let kept =
        StreamsGroupTopologyDescriptionUpdateRequest { group_id: Cow::default(), member_id: Cow::default(), ..request };
    if kept.encode(&mut update.description, KEPT_VERSION).is_err() {
        ctx.reply(&response(ErrorCode::InvalidRequest, None));
        return Ok(());
    }
    let to = ctx.to;
    ctx.broker.ask_group(
        ctx.now,
        &group,
        |waiter| Command::DescribeTopology(waiter, Box::new(update)),
        Box::new(move |broker, _, answer| {
            let (code, text) = match answer {
                Ok(Reply::TopologyDescription(Ok(()))) => (ErrorCode::None, None),
                Ok(Reply::TopologyDescription(Err(error))) => error_code(error),
                Ok(_) => (ErrorCode::UnknownServerError, None),
                Err(_) => (ErrorCode::NotCoordinator, None),
            };
            broker.reply(to, &response(code, text));
        }),
    );
    Ok(())
}

fn error_code(error: TopologyDescriptionError) -> (ErrorCode, Option<String>) {
    match error {
        TopologyDescriptionError::InvalidRequest(text) => (ErrorCode::InvalidRequest, Some(text)),
        TopologyDescriptionError::GroupIdNotFound(text) => (ErrorCode::GroupIdNotFound, Some(text)),
        TopologyDescriptionError::UnknownMemberId(text) => (ErrorCode::UnknownMemberId, Some(text)),
        TopologyDescriptionError::Failed(text) => (ErrorCode::StreamsTopologyDescriptionUpdateFailed, Some(text)),
        TopologyDescriptionError::NotKept(text) => (ErrorCode::UnsupportedVersion, Some(text)),
        TopologyDescriptionError::Internal(text) => {
            tracing::error!(text, "description of a topology failed");
            (ErrorCode::UnknownServerError, None)
        }
        // The enum is open to new errors; a new one without a code is our fault, and must not kill the server.
        other => {
            tracing::error!(?other, "error of a topology description without a code");
            (ErrorCode::UnknownServerError, None)
        }
    }
}

fn response(code: ErrorCode, text: Option<String>) -> StreamsGroupTopologyDescriptionUpdateResponse<'static> {
    StreamsGroupTopologyDescriptionUpdateResponse {
        error_code: code as i16,
        error_message: text.map(texts::told),
        ..Default::default()
    }
}
