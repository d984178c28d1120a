//! OffsetForLeaderEpoch (key 23, versions 2 to 4): where an epoch ended, so that clients can find out whether their
//! position survived a change of leaders (KIP-101, KIP-320).
//!
//! One server is the only leader there ever was, with epoch 0.

use std::borrow::Cow;

use riparian_log::Unavailable;
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
        offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
    },
};
use riparian_types::{LeaderEpoch, PartitionIndex, TopicName};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::Api,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::OffsetForLeaderEpoch, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = OffsetForLeaderEpochRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let topics = request.topics.into_iter().map(|topic| {
        let name = TopicName::from(&*topic.topic);
        let allowed = ctx.allows(Operation::Describe, Resource::Topic(&name));
        let partitions = topic.partitions.into_iter().map(|ask| {
            let answer = EpochEndOffset { partition: ask.partition, ..Default::default() };
            let found = if allowed {
                ctx.broker.partition(&name, PartitionIndex(ask.partition)).ok_or(ErrorCode::UnknownTopicOrPartition)
            } else {
                Err(ErrorCode::TopicAuthorizationFailed)
            };
            let found = found.and_then(|partition| {
                check(ask.current_leader_epoch, partition.leader_epoch())?;
                match partition.log().unavailable() {
                    Some(Unavailable::Damaged) => Err(ErrorCode::KafkaStorageError),
                    Some(_) | None => Ok(partition),
                }
            });
            match found {
                Ok(partition) if ask.leader_epoch >= partition.leader_epoch().0 => EpochEndOffset {
                    leader_epoch: partition.leader_epoch().0,
                    end_offset: partition.log().durable_end().0,
                    ..answer
                },
                // Nothing was ever written with an earlier epoch.
                Ok(_) => answer,
                Err(code) => EpochEndOffset { error_code: code as i16, ..answer },
            }
        });
        let partitions = partitions.collect();
        OffsetForLeaderTopicResult { topic: Cow::Owned(topic.topic.into_owned()), partitions, ..Default::default() }
    });
    let topics = topics.collect();
    ctx.reply(&OffsetForLeaderEpochResponse { topics, ..Default::default() });
    Ok(())
}

/// Compares the epoch that a client believes in with the leader's.
pub(crate) fn check(client: i32, leader: LeaderEpoch) -> Result<(), ErrorCode> {
    match client {
        epoch if epoch < 0 || epoch == leader.0 => Ok(()),
        epoch if epoch < leader.0 => Err(ErrorCode::FencedLeaderEpoch),
        _ => Err(ErrorCode::UnknownLeaderEpoch),
    }
}
