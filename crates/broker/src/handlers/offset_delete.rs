//! OffsetDelete (key 47, version 0): forget how far a group has read.

use std::borrow::Cow;

use riparian_group::{
    command::{Command, OffsetDelete},
    reply::{OffsetDeleteError, OffsetDeleteOutcome, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        OffsetDeleteRequest, OffsetDeleteResponse,
        offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic},
    },
};
use riparian_types::{GroupId, PartitionIndex, TopicName};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    host::Unavailable,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::OffsetDelete, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = OffsetDeleteRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    if !ctx.allows(Operation::Delete, Resource::Group(&request.group_id)) {
        let error_code = ErrorCode::GroupAuthorizationFailed as i16;
        ctx.reply(&OffsetDeleteResponse { error_code, ..Default::default() });
        return Ok(());
    }
    // The group without a name can only be deleted as a whole.
    if request.group_id.is_empty() {
        let error_code = ErrorCode::InvalidGroupId as i16;
        ctx.reply(&OffsetDeleteResponse { error_code, ..Default::default() });
        return Ok(());
    }
    let group = GroupId::from(&*request.group_id);
    let mut refused = Vec::new();
    let mut topics = Vec::new();
    for topic in request.topics {
        let name = TopicName::from(&*topic.name);
        let allowed = ctx.allows(Operation::Read, Resource::Topic(&name));
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for partition in topic.partitions {
            let index = PartitionIndex(partition.partition_index);
            if !allowed {
                unknown.push(partition_answer(index, Some(ErrorCode::TopicAuthorizationFailed)));
            } else if ctx.broker.partition(&name, index).is_none() {
                unknown.push(partition_answer(index, Some(ErrorCode::UnknownTopicOrPartition)));
            } else {
                known.push(index);
            }
        }
        if !unknown.is_empty() {
            refused.push(topic_answer(&name, unknown));
        }
        if !known.is_empty() {
            topics.push((name, known));
        }
    }
    let to = ctx.to;
    let delete = OffsetDelete { group_id: group.clone(), topics };
    ctx.broker.ask_group(
        ctx.now,
        &group,
        |waiter| Command::OffsetDelete(waiter, delete),
        Box::new(move |broker, _, answer| {
            let mut response = OffsetDeleteResponse::default();
            match answer {
                Ok(Reply::OffsetDelete(Ok(topics))) => {
                    response.topics = refused;
                    response.topics.extend(topics.into_iter().map(|(name, partitions)| {
                        let partitions = partitions.into_iter().map(|(index, outcome)| match outcome {
                            OffsetDeleteOutcome::Deleted => partition_answer(index, None),
                            OffsetDeleteOutcome::SubscribedToTopic => {
                                partition_answer(index, Some(ErrorCode::GroupSubscribedToTopic))
                            }
                        });
                        topic_answer(&name, partitions.collect())
                    }));
                }
                Ok(Reply::OffsetDelete(Err(error))) => response.error_code = error_code(&error) as i16,
                Ok(_) => response.error_code = ErrorCode::UnknownServerError as i16,
                Err(Unavailable) => response.error_code = ErrorCode::NotCoordinator as i16,
            }
            broker.reply(to, &response);
        }),
    );
    Ok(())
}

/// The one place where this operation's errors become codes.
fn error_code(error: &OffsetDeleteError) -> ErrorCode {
    match error {
        OffsetDeleteError::GroupNotFound(_) => ErrorCode::GroupIdNotFound,
        OffsetDeleteError::NonEmptyGroup => ErrorCode::NonEmptyGroup,
        other => {
            tracing::error!(?other, "offset delete error without a code");
            ErrorCode::UnknownServerError
        }
    }
}

fn topic_answer(
    name: &TopicName,
    partitions: Vec<OffsetDeleteResponsePartition>,
) -> OffsetDeleteResponseTopic<'static> {
    OffsetDeleteResponseTopic { name: Cow::Owned(name.to_string()), partitions }
}

fn partition_answer(index: PartitionIndex, code: Option<ErrorCode>) -> OffsetDeleteResponsePartition {
    OffsetDeleteResponsePartition { partition_index: index.0, error_code: code.map_or(0, ErrorCode::code) }
}
