//! DeleteGroups (key 42, versions 0 to 3): forget empty groups and their offsets.

use std::{borrow::Cow, collections::HashSet};

use riparian_group::{
    command::Command,
    reply::{DeleteGroupError, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{DeleteGroupsRequest, DeleteGroupsResponse, delete_groups_response::DeletableGroupResult},
};
use riparian_types::GroupId;
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    groups::GroupQuestion,
    handlers::Api,
    host::Unavailable,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::DeleteGroups, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = DeleteGroupsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut response = DeleteGroupsResponse::default();
    let mut questions: Vec<(usize, GroupQuestion)> = Vec::new();
    let mut asked = Vec::new();
    // A group that is named twice is deleted once, and answered once.
    let mut named = HashSet::new();
    for id in request.groups_names.iter().filter(|id| named.insert(&***id)) {
        if !ctx.allows(Operation::Delete, Resource::Group(id)) {
            response.results.push(result(id, Some(ErrorCode::GroupAuthorizationFailed)));
            continue;
        }
        // Also the one without a name: offsets can be committed for it.
        let group = GroupId::from(&**id);
        asked.push(group.clone());
        let shard = ctx.broker.group_shard(&group);
        questions.push((shard, Box::new(move |waiter| Command::DeleteGroup(waiter, group))));
    }
    let to = ctx.to;
    ctx.broker.ask_groups(ctx.now, questions, answer, move |broker, answers| {
        let results = asked.iter().zip(answers).map(|(group, code)| result(group, code));
        response.results.extend(results);
        broker.reply(to, &response);
    });
    Ok(())
}

fn answer(_: usize, answer: Result<Reply, Unavailable>) -> Option<ErrorCode> {
    match answer {
        Ok(Reply::DeleteGroup(Ok(()))) => None,
        Ok(Reply::DeleteGroup(Err(DeleteGroupError::NotFound))) => Some(ErrorCode::GroupIdNotFound),
        Ok(Reply::DeleteGroup(Err(DeleteGroupError::NotEmpty))) => Some(ErrorCode::NonEmptyGroup),
        Ok(_) => Some(ErrorCode::UnknownServerError),
        Err(Unavailable) => Some(ErrorCode::NotCoordinator),
    }
}

fn result(group: &str, code: Option<ErrorCode>) -> DeletableGroupResult<'static> {
    DeletableGroupResult {
        group_id: Cow::Owned(group.to_owned()),
        error_code: code.map_or(0, |code| code as i16),
        ..Default::default()
    }
}
