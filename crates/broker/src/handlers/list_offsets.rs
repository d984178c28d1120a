//! ListOffsets (key 2, versions 1 to 11): offsets by time, and the two ends.
//!
//! Special timestamps: -1 the end, -2 the start, -3 the record with the largest timestamp (KIP-734), -4 the start of
//! what is stored here and -5 the last that is stored elsewhere (KIP-405; nothing is), -6 (earliest not yet stored
//! elsewhere, KIP-1023) the start.
//!
//! A partition that is asked for more than once is refused once, as in Kafka: looking a time up may cost a read.

use std::{borrow::Cow, collections::BTreeMap};

use riparian_log::Unavailable;
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        ListOffsetsRequest, ListOffsetsResponse,
        list_offsets_request::ListOffsetsPartition,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
    },
};
use riparian_types::{PartitionIndex, TopicName, WallMillis};
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    handlers::{Api, offset_for_leader_epoch},
    partition::Partition,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::ListOffsets, handle };

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// Older clients (librdkafka asks with version 2) cannot be told the leader epoch.
const LEADER_EPOCH_SINCE: i16 = 4;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = ListOffsetsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut asked = times_asked(&request);
    let topics = request.topics.into_iter().map(|topic| {
        let name = TopicName::from(&*topic.name);
        let allowed = ctx.allows(Operation::Describe, Resource::Topic(&name));
        let asked = asked.entry(name.clone()).or_default();
        let first_of_each =
            topic.partitions.into_iter().filter_map(|ask| Some((asked.remove(&ask.partition_index)?, ask)));
        let partitions = first_of_each.map(|(times, ask)| {
            let index = PartitionIndex(ask.partition_index);
            let found = if times > 1 {
                Err(ErrorCode::InvalidRequest)
            } else if allowed {
                ctx.broker.partition(&name, index).ok_or(ErrorCode::UnknownTopicOrPartition)
            } else {
                Err(ErrorCode::TopicAuthorizationFailed)
            };
            let mut answer =
                ListOffsetsPartitionResponse { partition_index: ask.partition_index, ..Default::default() };
            match found.and_then(|partition| look_up(ctx.broker, &partition, &ask)) {
                Ok(Some((offset, timestamp))) => {
                    answer.offset = offset;
                    answer.timestamp = timestamp;
                    if ctx.version() >= LEADER_EPOCH_SINCE {
                        answer.leader_epoch = 0;
                    }
                }
                Ok(None) => {}
                Err(code) => answer.error_code = code as i16,
            }
            answer
        });
        let partitions = partitions.collect();
        ListOffsetsTopicResponse { name: Cow::Owned(topic.name.into_owned()), partitions, ..Default::default() }
    });
    let topics = topics.collect();
    ctx.reply(&ListOffsetsResponse { topics, ..Default::default() });
    Ok(())
}

/// How often each partition is asked for.
fn times_asked(request: &ListOffsetsRequest<'_>) -> BTreeMap<TopicName, BTreeMap<i32, u32>> {
    let mut asked = BTreeMap::<_, BTreeMap<_, _>>::new();
    for topic in &request.topics {
        let partitions = asked.entry(TopicName::from(&*topic.name)).or_default();
        for partition in &topic.partitions {
            *partitions.entry(partition.partition_index).or_default() += 1;
        }
    }
    asked
}

/// The offset and timestamp asked for; `None` if there is no such record.
fn look_up(
    broker: &Broker,
    partition: &Partition,
    ask: &ListOffsetsPartition,
) -> Result<Option<(i64, i64)>, ErrorCode> {
    offset_for_leader_epoch::check(ask.current_leader_epoch, partition.leader_epoch())?;
    let log = partition.log();
    if log.unavailable() == Some(Unavailable::Damaged) {
        return Err(ErrorCode::KafkaStorageError);
    }
    match ask.timestamp {
        LATEST => Ok(Some((log.durable_end().0, -1))),
        EARLIEST | EARLIEST_LOCAL | EARLIEST_PENDING_UPLOAD => Ok(Some((log.start_offset().0, -1))),
        LATEST_TIERED => Ok(None),
        timestamp if timestamp >= 0 || timestamp == MAX_TIMESTAMP => {
            let found = if timestamp == MAX_TIMESTAMP {
                log.max_timestamp()
            } else {
                log.offset_for_timestamp(WallMillis(timestamp), log.durable_end())
            };
            found.map(|found| found.map(|found| (found.offset.0, found.timestamp.0))).map_err(|error| {
                partition.tell_unreadable(broker, &error);
                ErrorCode::KafkaStorageError
            })
        }
        _ => Err(ErrorCode::InvalidRequest),
    }
}
