//! DescribeTopicPartitions (key 75, version 0): topics page by page (KIP-966).

use std::borrow::Cow;

use riparian_metadata::TopicImage;
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
        describe_topic_partitions_response::{
            Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
        },
    },
};
use riparian_types::{TopicName, Uuid, topic};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::{Operation, Resource},
    handlers::{Api, metadata::TOPIC_OPERATIONS},
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::DescribeTopicPartitions, handle };

/// Most partitions in one answer, whatever the client asks for (`max.request.partition.size.limit` in Kafka).
const PARTITIONS_MAX: usize = 2000;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = DescribeTopicPartitionsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let image = ctx.broker.image();
    let mut names: Vec<TopicName> = if request.topics.is_empty() {
        image.topics().map(|(name, _)| name.clone()).collect()
    } else {
        request.topics.iter().map(|topic| TopicName::from(&*topic.name)).collect()
    };
    names.sort_unstable();
    names.dedup();
    let (first_topic, first_partition) = match &request.cursor {
        Some(cursor) => (TopicName::from(&*cursor.topic_name), cursor.partition_index.max(0)),
        None => (TopicName::default(), 0),
    };
    let mut left = usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, PARTITIONS_MAX);
    let mut response = DescribeTopicPartitionsResponse::default();
    let listed = request.topics.is_empty();
    for name in names.into_iter().filter(|name| *name >= first_topic) {
        let allowed = ctx.allows(Operation::Describe, Resource::Topic(&name));
        if listed && !allowed {
            continue;
        }
        let found = if !allowed {
            Err(ErrorCode::TopicAuthorizationFailed)
        } else if topic::check_name(&name).is_err() {
            Err(ErrorCode::InvalidTopicException)
        } else {
            image.topic(&name).ok_or(ErrorCode::UnknownTopicOrPartition)
        };
        let from = if name == first_topic { first_partition } else { 0 };
        if left == 0 {
            let topic_name = Cow::Owned(name.to_string());
            response.next_cursor = Some(Cursor { topic_name, partition_index: from, ..Default::default() });
            break;
        }
        match found {
            Err(code) => response.topics.push(DescribeTopicPartitionsResponseTopic {
                error_code: code as i16,
                name: Some(Cow::Owned(name.to_string())),
                topic_id: Uuid::ZERO,
                ..Default::default()
            }),
            Ok(topic) => {
                let to = topic.partitions.0.min(from.saturating_add(i32::try_from(left).unwrap_or(i32::MAX)));
                response.topics.push(describe(ctx.broker.node_id().0, &name, topic, from, to));
                left -= usize::try_from(to - from).unwrap_or(0).min(left);
                if to < topic.partitions.0 {
                    let topic_name = Cow::Owned(name.to_string());
                    response.next_cursor = Some(Cursor { topic_name, partition_index: to, ..Default::default() });
                    break;
                }
            }
        }
    }
    ctx.reply(&response);
    Ok(())
}

fn describe(
    node_id: i32,
    name: &TopicName,
    topic: TopicImage,
    from: i32,
    to: i32,
) -> DescribeTopicPartitionsResponseTopic<'static> {
    let partitions = (from..to).map(|partition_index| DescribeTopicPartitionsResponsePartition {
        partition_index,
        leader_id: node_id,
        leader_epoch: 0,
        replica_nodes: vec![node_id],
        isr_nodes: vec![node_id],
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        ..Default::default()
    });
    DescribeTopicPartitionsResponseTopic {
        name: Some(Cow::Owned(name.to_string())),
        topic_id: topic.id,
        is_internal: topic::is_internal(name),
        partitions: partitions.collect(),
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..Default::default()
    }
}
