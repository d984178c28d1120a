//! ListGroups (key 16, versions 0 to 5): all groups of this server, filtered by state and type.

use std::borrow::Cow;

use riparian_group::{
    command::{Command, GroupFilter},
    reply::Reply,
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{ListGroupsRequest, ListGroupsResponse, list_groups_response::ListedGroup},
};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    groups::GroupQuestion,
    handlers::Api,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::ListGroups, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = ListGroupsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let filter = GroupFilter {
        states: request.states_filter.into_iter().map(Cow::into_owned).collect(),
        types: request.types_filter.into_iter().map(Cow::into_owned).collect(),
    };
    // Groups of a damaged log are not there; those of others can be listed none the less.
    let shards = ctx.broker.groups.iter().filter(|shard| shard.partition().log().damage().is_none());
    let questions = shards.map(|shard| shard.number()).map(|shard| {
        let filter = filter.clone();
        let question: GroupQuestion = Box::new(move |waiter| Command::ListGroups(waiter, filter));
        (shard, question)
    });
    let questions = questions.collect();
    let to = ctx.to;
    let all = ctx.allows(Operation::Describe, Resource::Cluster);
    // What the principal may see is decided now: the connection may be gone when the answers come.
    let principal = ctx.connection.principal().clone();
    let host = ctx.connection.client_host().to_owned();
    ctx.broker.ask_groups(
        ctx.now,
        questions,
        |_, answer| match answer {
            Ok(Reply::ListGroups(groups)) => Ok(groups),
            _ => Err(ErrorCode::CoordinatorLoadInProgress),
        },
        move |broker, answers| {
            let mut response = ListGroupsResponse::default();
            for answer in answers {
                match answer {
                    Ok(groups) => response.groups.extend(
                        groups
                            .into_iter()
                            .filter(|group| {
                                let resource = Resource::Group(&group.group_id);
                                all || broker.authorizer.allows(&principal, &host, Operation::Describe, resource)
                            })
                            .map(|group| ListedGroup {
                                group_id: Cow::Owned(group.group_id.to_string()),
                                protocol_type: Cow::Owned(group.protocol_type),
                                group_state: Cow::Owned(group.state),
                                group_type: Cow::Borrowed(group.group_type),
                                ..Default::default()
                            }),
                    ),
                    Err(code) => response.error_code = code as i16,
                }
            }
            broker.reply(to, &response);
        },
    );
    Ok(())
}
