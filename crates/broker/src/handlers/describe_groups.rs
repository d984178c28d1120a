//! DescribeGroups (key 15, versions 0 to 6): everything about classic groups. Groups of other types are none (KIP-1043).

use std::borrow::Cow;

use riparian_group::{
    command::Command,
    reply::{ClassicDescription, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{DescribeGroupsRequest, DescribeGroupsResponse, describe_groups_response as res},
};
use riparian_types::GroupId;
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    groups::{GROUP_OPERATIONS, GroupQuestion, Named},
    handlers::Api,
    host::Unavailable,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::DescribeGroups, handle };

/// From here on a group that is not there is an error; before it is only dead.
const NOT_FOUND_SINCE: i16 = 6;
const DEAD: &str = "Dead";

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = DescribeGroupsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut response = DescribeGroupsResponse::default();
    let mut questions: Vec<(usize, GroupQuestion)> = Vec::new();
    let mut asked = Vec::new();
    let mut named = Named::default();
    for id in &request.groups {
        if !ctx.allows(Operation::Describe, Resource::Group(id)) {
            response.groups.push(refusal(id, ErrorCode::GroupAuthorizationFailed));
            continue;
        }
        if !named.may_be_named(id) {
            response.groups.push(refusal(id, ErrorCode::InvalidRequest));
            continue;
        }
        let group = GroupId::from(&**id);
        asked.push(group.clone());
        let shard = ctx.broker.group_shard(&group);
        questions.push((shard, Box::new(move |waiter| Command::ClassicDescribe(waiter, group))));
    }
    let (to, version) = (ctx.to, ctx.version());
    let operations = request.include_authorized_operations;
    ctx.broker.ask_groups(ctx.now, questions, answer, move |broker, answers| {
        for (group, answer) in asked.iter().zip(answers) {
            let mut described = match answer {
                Answer::Described(described) => success(group, described),
                Answer::NotFound(text) if version >= NOT_FOUND_SINCE => res::DescribedGroup {
                    error_code: ErrorCode::GroupIdNotFound as i16,
                    error_message: Some(texts::told(text)),
                    ..dead(group)
                },
                Answer::NotFound(_) => dead(group),
                Answer::Failed(code) => refusal(group, code),
            };
            if operations && described.error_code == 0 {
                described.authorized_operations = GROUP_OPERATIONS;
            }
            response.groups.push(described);
        }
        broker.reply(to, &response);
    });
    Ok(())
}

enum Answer {
    Described(ClassicDescription),
    NotFound(String),
    Failed(ErrorCode),
}

fn answer(_: usize, answer: Result<Reply, Unavailable>) -> Answer {
    match answer {
        Ok(Reply::ClassicDescribe(Ok(described))) => Answer::Described(described),
        Ok(Reply::ClassicDescribe(Err(error))) => Answer::NotFound(error.0),
        Ok(_) => Answer::Failed(ErrorCode::UnknownServerError),
        Err(Unavailable) => Answer::Failed(ErrorCode::NotCoordinator),
    }
}

fn dead(group: &str) -> res::DescribedGroup<'static> {
    res::DescribedGroup {
        group_id: Cow::Owned(group.to_owned()),
        group_state: Cow::Borrowed(DEAD),
        ..Default::default()
    }
}

fn refusal(group: &str, code: ErrorCode) -> res::DescribedGroup<'static> {
    res::DescribedGroup { group_id: Cow::Owned(group.to_owned()), error_code: code as i16, ..Default::default() }
}

fn success(group: &str, described: ClassicDescription) -> res::DescribedGroup<'static> {
    let members = described.members.into_iter().map(|member| res::DescribedGroupMember {
        member_id: Cow::Owned(member.member_id.to_string()),
        group_instance_id: member.instance_id.map(|id| Cow::Owned(id.to_string())),
        client_id: Cow::Owned(member.client_id),
        client_host: Cow::Owned(member.client_host),
        member_metadata: Cow::Owned(member.metadata.to_vec()),
        member_assignment: Cow::Owned(member.assignment.to_vec()),
        ..Default::default()
    });
    res::DescribedGroup {
        group_id: Cow::Owned(group.to_owned()),
        group_state: Cow::Borrowed(described.state.name()),
        protocol_type: Cow::Owned(described.protocol_type),
        protocol_data: Cow::Owned(described.protocol),
        members: members.collect(),
        ..Default::default()
    }
}
