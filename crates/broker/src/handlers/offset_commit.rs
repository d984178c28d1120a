//! OffsetCommit (key 8, versions 2 to 10): store how far a group has read.
//!
//! Unknown topics and oversized metadata are sorted out here, per partition; whether the member may commit is the
//! machine's decision, and goes for all partitions of topics that are known.

use std::borrow::Cow;

use riparian_group::{
    command::{Command, OffsetCommit, OffsetToCommit},
    reply::{OffsetCommitError, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitResponse,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
    },
};
use riparian_types::{GroupId, InstanceId, LeaderEpoch, MemberEpoch, MemberId, Offset, PartitionIndex, Uuid};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    host::Unavailable,
    request::Context,
    telemetry::Limit,
};

pub(crate) const API: Api = Api { key: ApiKey::OffsetCommit, handle };

/// Stands in the response until the machine has decided.
const UNDECIDED: i16 = i16::MIN;
/// The same where the metadata is too large, which only matters to a member that may commit.
const TOO_LARGE: i16 = i16::MIN + 1;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = OffsetCommitRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let group_allowed = ctx.allows(Operation::Read, Resource::Group(&request.group_id));
    let mut response = OffsetCommitResponse::default();
    let mut offsets = Vec::new();
    // Its name says bytes, but Kafka counts the units of a Java string.
    let metadata_units_max = ctx.broker.request_config.offset_metadata_units_max;
    let metadata_units_max = usize::try_from(metadata_units_max).unwrap_or(0);
    let image = ctx.broker.image();
    for topic in request.topics {
        let name = ctx.broker.topic_name(&topic.name, topic.topic_id, ctx.version() >= 10);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let index = PartitionIndex(partition.partition_index);
            let metadata = partition.committed_metadata.unwrap_or_default();
            let checked = match &name {
                _ if !group_allowed => Err(ErrorCode::GroupAuthorizationFailed),
                Err(code) => Err(*code),
                Ok(name) if !ctx.allows(Operation::Read, Resource::Topic(name)) => {
                    Err(ErrorCode::TopicAuthorizationFailed)
                }
                Ok(name) if ctx.broker.partition(name, index).is_none() => Err(ErrorCode::UnknownTopicOrPartition),
                Ok(name) => Ok(name),
            };
            let error_code = match checked {
                Ok(_) if metadata.encode_utf16().count() > metadata_units_max => {
                    ctx.broker.telemetry.limits().hit(Limit::OffsetMetadataBytes);
                    TOO_LARGE
                }
                Ok(name) => {
                    offsets.push(OffsetToCommit {
                        topic: name.clone(),
                        topic_id: image.topic(name).map_or(Uuid::ZERO, |topic| topic.id),
                        partition: index,
                        offset: Offset(partition.committed_offset),
                        leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                        metadata: metadata.into_owned(),
                    });
                    UNDECIDED
                }
                Err(code) => code as i16,
            };
            partitions.push(OffsetCommitResponsePartition {
                partition_index: index.0,
                error_code,
                ..Default::default()
            });
        }
        response.topics.push(OffsetCommitResponseTopic {
            name: Cow::Owned(topic.name.into_owned()),
            topic_id: topic.topic_id,
            partitions,
            ..Default::default()
        });
    }
    let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    if !partitions.any(|partition| matches!(partition.error_code, UNDECIDED | TOO_LARGE)) {
        ctx.reply(&response);
        return Ok(());
    }
    let group = GroupId::from(&*request.group_id);
    let commit = OffsetCommit {
        group_id: group.clone(),
        member_id: MemberId::from(&*request.member_id),
        instance_id: request.group_instance_id.map(|id| InstanceId::from(&*id)),
        member_epoch: MemberEpoch(request.generation_id_or_member_epoch),
        knows_member_epochs: ctx.version() >= 9,
        // Up to version 4 a client may say how long.
        retention_ms: (request.retention_time_ms != -1).then_some(request.retention_time_ms),
        offsets,
    };
    let to = ctx.to;
    ctx.broker.ask_group(
        ctx.now,
        &group,
        |waiter| Command::OffsetCommit(waiter, commit),
        Box::new(move |broker, _, answer| {
            let code = match answer {
                Ok(Reply::OffsetCommit(Ok(()))) => 0,
                Ok(Reply::OffsetCommit(Err(error))) => error_code(&error) as i16,
                Ok(_) => ErrorCode::UnknownServerError as i16,
                Err(Unavailable) => ErrorCode::NotCoordinator as i16,
            };
            for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.error_code = match (partition.error_code, code) {
                    (TOO_LARGE, 0) => ErrorCode::OffsetMetadataTooLarge as i16,
                    (UNDECIDED | TOO_LARGE, code) => code,
                    (decided, _) => decided,
                };
            }
            broker.reply(to, &response);
        }),
    );
    Ok(())
}

/// The one place where this operation's errors become codes.
fn error_code(error: &OffsetCommitError) -> ErrorCode {
    match error {
        OffsetCommitError::GroupIdNotFound => ErrorCode::GroupIdNotFound,
        OffsetCommitError::IllegalGeneration => ErrorCode::IllegalGeneration,
        OffsetCommitError::UnknownMemberId => ErrorCode::UnknownMemberId,
        OffsetCommitError::FencedInstanceId => ErrorCode::FencedInstanceId,
        OffsetCommitError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        OffsetCommitError::StaleMemberEpoch => ErrorCode::StaleMemberEpoch,
        OffsetCommitError::UnsupportedVersion => ErrorCode::UnsupportedVersion,
        OffsetCommitError::NoRoom(_) => ErrorCode::PolicyViolation,
        // Told in the log when the group was loaded.
        OffsetCommitError::Internal(_) => ErrorCode::UnknownServerError,
        other => {
            tracing::error!(?other, "commit error without a code");
            ErrorCode::UnknownServerError
        }
    }
}
