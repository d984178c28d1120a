//! DeleteTopics (key 20, versions 1 to 6), by name or, from version 6 on, by id.

use std::borrow::Cow;

use riparian_metadata::{
    command::{Command, TopicSelector},
    reply::{DeleteTopicError, DeletedTopic, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{DeleteTopicsRequest, DeleteTopicsResponse, delete_topics_response::DeletableTopicResult},
};
use riparian_types::{TopicName, Uuid};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    host::Unavailable,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::DeleteTopics, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = DeleteTopicsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let asked: Vec<TopicSelector> = if ctx.version() >= 6 {
        let topics = request.topics.into_iter().map(|topic| match topic.name {
            Some(name) => TopicSelector::Name(TopicName::from(&*name)),
            None => TopicSelector::Id(topic.topic_id),
        });
        topics.collect()
    } else {
        request.topic_names.iter().map(|name| TopicSelector::Name(TopicName::from(&**name))).collect()
    };
    let image = ctx.broker.image();
    let allowed = |selector: &TopicSelector| {
        let name = match selector {
            TopicSelector::Name(name) => Some(name),
            TopicSelector::Id(id) => image.topic_by_id(*id).map(|(name, _)| name),
        };
        name.is_none_or(|name| ctx.allows(Operation::Delete, Resource::Topic(name)))
    };
    let (allowed, refused): (Vec<_>, Vec<_>) = asked.into_iter().partition(allowed);
    let refused = refused.iter().map(|topic| failed(topic, ErrorCode::TopicAuthorizationFailed, None));
    let mut response = DeleteTopicsResponse { responses: refused.collect(), ..Default::default() };
    let to = ctx.to;
    let topics = allowed.clone();
    ctx.broker.metadata.ask(
        ctx.broker,
        ctx.now,
        |waiter| Command::DeleteTopics(waiter, topics),
        Box::new(move |broker, _, answer| {
            match answer {
                Ok(Reply::DeleteTopics(results)) => {
                    response.responses.extend(results.into_iter().map(|(topic, result)| match result {
                        Ok(DeletedTopic { name, id }) => DeletableTopicResult {
                            name: Some(Cow::Owned(name.to_string())),
                            topic_id: id,
                            ..Default::default()
                        },
                        Err(error) => failed(&topic, code(&error), Some(error.to_string())),
                    }));
                }
                Ok(_) => {
                    response.responses.extend(allowed.iter().map(|t| failed(t, ErrorCode::UnknownServerError, None)))
                }
                Err(Unavailable) => {
                    response.responses.extend(allowed.iter().map(|t| failed(t, ErrorCode::NotController, None)));
                }
            }
            broker.reply(to, &response);
        }),
    );
    Ok(())
}

/// The one place where this operation's errors become codes.
fn code(error: &DeleteTopicError) -> ErrorCode {
    match error {
        DeleteTopicError::Disabled => ErrorCode::TopicDeletionDisabled,
        DeleteTopicError::UnknownName { .. } => ErrorCode::UnknownTopicOrPartition,
        DeleteTopicError::UnknownId { .. } => ErrorCode::UnknownTopicId,
        DeleteTopicError::NamedTwice { .. } | DeleteTopicError::Internal { .. } => ErrorCode::InvalidRequest,
        _ => ErrorCode::UnknownServerError,
    }
}

fn failed(topic: &TopicSelector, code: ErrorCode, text: Option<String>) -> DeletableTopicResult<'static> {
    let (name, topic_id) = match topic {
        TopicSelector::Name(name) => (Some(Cow::Owned(name.to_string())), Uuid::ZERO),
        TopicSelector::Id(id) => (None, *id),
    };
    DeletableTopicResult {
        name,
        topic_id,
        error_code: code.code(),
        error_message: text.map(texts::told),
        ..Default::default()
    }
}
