//! DeleteRecords (key 21, versions 0 to 2): move the start of partitions forward (KIP-107). Kafka Streams does this to
//! its repartition topics. Topics whose `cleanup.policy` has no `delete` are refused (POLICY_VIOLATION), as in Kafka.

use std::borrow::Cow;

use riparian_log::{TrimError, Unavailable};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        DeleteRecordsRequest, DeleteRecordsResponse,
        delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
    },
};
use riparian_types::{Offset, PartitionIndex, TopicName, topic};
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    handlers::Api,
    partition::Owner,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::DeleteRecords, handle };

/// "Up to the high watermark."
const HIGH_WATERMARK: i64 = -1;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = DeleteRecordsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let topics = request.topics.into_iter().map(|topic| {
        let name = TopicName::from(&*topic.name);
        let allowed = ctx.allows(Operation::Delete, Resource::Topic(&name));
        (name, allowed, topic.partitions)
    });
    let topics: Vec<_> = topics.collect();
    let (me, to) = (ctx.broker.me(), ctx.to);
    // Files are removed and a checkpoint is synced: that is for a thread that may block.
    ctx.broker.shell.spawn(Box::new(move || {
        let topics = topics.into_iter().map(|(name, allowed, partitions)| {
            let partitions = partitions.into_iter().map(|ask| {
                let outcome = if allowed {
                    delete(&me, &name, PartitionIndex(ask.partition_index), ask.offset)
                } else {
                    Err(ErrorCode::TopicAuthorizationFailed)
                };
                DeleteRecordsPartitionResult {
                    partition_index: ask.partition_index,
                    low_watermark: outcome.map_or(-1, |start| start.0),
                    error_code: outcome.err().map_or(0, ErrorCode::code),
                    ..Default::default()
                }
            });
            let partitions = partitions.collect();
            DeleteRecordsTopicResult { name: Cow::Owned(name.to_string()), partitions, ..Default::default() }
        });
        let topics = topics.collect();
        me.reply(to, &DeleteRecordsResponse { topics, ..Default::default() });
    }));
    Ok(())
}

/// Moves the start of one partition; returns where it is now.
fn delete(broker: &Broker, name: &TopicName, index: PartitionIndex, before: i64) -> Result<Offset, ErrorCode> {
    let partition = broker.partition(name, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if partition.owner != Owner::Clients || topic::is_internal(name) {
        return Err(ErrorCode::PolicyViolation);
    }
    let log = partition.log();
    if !log.config().delete {
        // A changelog without its beginning would restore a store that never was.
        return Err(ErrorCode::PolicyViolation);
    }
    let before = if before == HIGH_WATERMARK { log.durable_end() } else { Offset(before) };
    broker.logs.delete_records(&log, before).map_err(|error| match error {
        TrimError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        // Told when the server started.
        TrimError::Unavailable(Unavailable::Damaged) => ErrorCode::KafkaStorageError,
        error => {
            broker.peer_lines.failures.run(broker.shell.now().mono, |suppressed| {
                tracing::error!(topic = %name, partition = %index, %error, suppressed, "records can't be deleted");
            });
            ErrorCode::KafkaStorageError
        }
    })
}
