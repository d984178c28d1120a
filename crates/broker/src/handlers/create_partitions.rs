//! CreatePartitions (key 37, versions 0 to 3): give topics more partitions.

use std::borrow::Cow;

use riparian_metadata::{
    command::{Command, CreatePartitions, MorePartitions},
    reply::{CreatePartitionsError, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, create_partitions_response::CreatePartitionsTopicResult,
    },
};
use riparian_types::{NodeId, TopicName};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    host::Unavailable,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::CreatePartitions, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = CreatePartitionsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut response = CreatePartitionsResponse::default();
    let mut topics = Vec::new();
    for topic in request.topics {
        let name = TopicName::from(&*topic.name);
        if !ctx.allows(Operation::Alter, Resource::Topic(&name)) {
            response.results.push(result(&name, Some((ErrorCode::TopicAuthorizationFailed, None))));
            continue;
        }
        let assignment = topic.assignments.map(|assignments| {
            let nodes = assignments.into_iter().map(|a| a.broker_ids.into_iter().map(NodeId).collect());
            nodes.collect()
        });
        topics.push(MorePartitions { name, count: topic.count, assignment });
    }
    let to = ctx.to;
    let names: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
    let create = CreatePartitions { topics, validate_only: request.validate_only };
    ctx.broker.change_metadata(
        ctx.now,
        |waiter| Command::CreatePartitions(waiter, create),
        Box::new(move |broker, _, answer| {
            let everywhere = |code| names.iter().map(move |name| result(name, Some((code, None))));
            match answer {
                Ok(Reply::CreatePartitions(results)) => {
                    response.results.extend(results.into_iter().map(|(name, outcome)| {
                        result(&name, outcome.err().map(|error| (code(&error), Some(error.to_string()))))
                    }));
                }
                Ok(_) => response.results.extend(everywhere(ErrorCode::UnknownServerError)),
                Err(Unavailable) => response.results.extend(everywhere(ErrorCode::NotController)),
            }
            broker.reply(to, &response);
        }),
    );
    Ok(())
}

/// The one place where this operation's errors become codes.
fn code(error: &CreatePartitionsError) -> ErrorCode {
    match error {
        CreatePartitionsError::UnknownTopic { .. } => ErrorCode::UnknownTopicOrPartition,
        CreatePartitionsError::NamedTwice { .. } | CreatePartitionsError::Internal { .. } => ErrorCode::InvalidRequest,
        CreatePartitionsError::NotMore { .. } => ErrorCode::InvalidPartitions,
        CreatePartitionsError::InvalidAssignment(_) => ErrorCode::InvalidReplicaAssignment,
        CreatePartitionsError::Limit(_) => ErrorCode::PolicyViolation,
        _ => ErrorCode::UnknownServerError,
    }
}

fn result(name: &TopicName, error: Option<(ErrorCode, Option<String>)>) -> CreatePartitionsTopicResult<'static> {
    let (code, text) = error.map_or((0, None), |(code, text)| (code.code(), text));
    CreatePartitionsTopicResult {
        name: Cow::Owned(name.to_string()),
        error_code: code,
        error_message: text.map(texts::told),
        ..Default::default()
    }
}
