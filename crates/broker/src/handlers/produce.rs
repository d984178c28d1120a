//! Produce (key 0, versions 3 to 13): append what producers send.
//!
//! Each partition's batch is checked once, stamped in place and stored as it came. The reply leaves when all of it is
//! durable; `acks=1` waits for that too, because here the leader's word is only good once it is on the disk.
//! Gaps: transactional produce is refused (INVALID_TXN_STATE) until there are transactions.
//! Versions 0 to 2 are advertised, for clients that take their absence for a very old broker, and refused, as in Kafka.

use std::{borrow::Cow, sync::Arc};

use riparian_log::{AppendError, Appended, PartitionLog, ProducerError, Unavailable};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        ProduceRequest, ProduceResponse,
        produce_response::{BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse},
    },
};
use riparian_records::{ProducedError, check_produced};
use riparian_types::{
    Now, Offset, PartitionIndex, TopicName,
    planted::{self, Bug},
    topic,
};
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    handlers::Api,
    partition::{Countdown, Owner, Partition},
    request::{Context, ReplyTo},
    shell::Reply,
    telemetry::{Limit, LogKind},
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::Produce, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    if ctx.version() < 3 {
        ctx.broker.end_without_answer(ctx.to, ErrorCode::UnsupportedVersion, Reply::Close);
        return Ok(());
    }
    let request = ProduceRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut response = ProduceResponse::default();
    let mut pending: Vec<Pending> = Vec::new();
    for topic in request.topic_data {
        let name = ctx.broker.topic_name(&topic.name, topic.topic_id, ctx.version() >= 13);
        let mut answers = Vec::with_capacity(topic.partition_data.len());
        for data in topic.partition_data {
            let at = (response.responses.len(), answers.len());
            let mut answer = PartitionProduceResponse { index: data.index, base_offset: -1, ..Default::default() };
            let outcome = if !matches!(request.acks, -1..=1) {
                Err((ErrorCode::InvalidRequiredAcks, None))
            } else if request.transactional_id.is_some() {
                Err((ErrorCode::InvalidTxnState, Some(texts::NO_TRANSACTIONS.to_owned())))
            } else {
                match &name {
                    Ok(name) => append(&ctx, name, PartitionIndex(data.index), data.records, &mut answer),
                    Err(code) => Err((*code, None)),
                }
            };
            match outcome {
                Ok(Written { partition, log, appended }) => {
                    answer.base_offset = appended.base_offset.0;
                    answer.log_append_time_ms = appended.log_append_time.map_or(-1, |time| time.0);
                    answer.log_start_offset = appended.log_start_offset.0;
                    pending.push(Pending { partition, log, end: Offset(appended.last_offset.0 + 1), at });
                }
                Err((code, message)) => {
                    answer.error_code = code as i16;
                    answer.error_message = message.map(texts::told);
                }
            }
            answers.push(answer);
        }
        response.responses.push(TopicProduceResponse {
            name: Cow::Owned(topic.name.into_owned()),
            topic_id: topic.topic_id,
            partition_responses: answers,
            ..Default::default()
        });
    }
    let (broker, now) = (ctx.broker, ctx.now);
    for one in &pending {
        ctx.connection.note_unsynced(&one.partition);
    }
    if request.acks == 0 {
        let error = ErrorCode::from_code(response.first_error()).unwrap_or(ErrorCode::UnknownServerError);
        // Without a reply the only way to tell the producer of an error is to close the connection, as Kafka does.
        broker.end_without_answer(ctx.to, error, if error == ErrorCode::None { Reply::None } else { Reply::Close });
        return Ok(());
    }
    pending.retain(|one| one.log.durable_end() < one.end && !planted::is_in(Bug::ProduceAnsweredEarly));
    answer_when_durable(broker, now, ctx.to, response, pending);
    Ok(())
}

fn answer_when_durable(
    broker: &Broker,
    now: Now,
    to: ReplyTo,
    mut response: ProduceResponse<'static>,
    pending: Vec<Pending>,
) {
    if pending.is_empty() {
        broker.reply(to, &response);
        return;
    }
    let places: Vec<_> = pending.iter().map(|one| one.at).collect();
    let countdown = Countdown::new(
        pending.len(),
        Box::new(move |broker, _, failed| {
            for tag in failed {
                let (topic, partition) = places[tag];
                let answer = &mut response.responses[topic].partition_responses[partition];
                *answer = PartitionProduceResponse {
                    index: answer.index,
                    base_offset: -1,
                    error_code: ErrorCode::KafkaStorageError as i16,
                    ..Default::default()
                };
            }
            broker.reply(to, &response);
        }),
    );
    for (tag, one) in pending.into_iter().enumerate() {
        one.partition.wait_durable(broker, now, one.log, one.end, countdown.clone(), tag);
    }
}

/// What must become durable before the answer may leave.
struct Pending {
    partition: Arc<Partition>,
    log: Arc<PartitionLog>,
    /// Up to where.
    end: Offset,
    /// Where its answer stands in the response.
    at: (usize, usize),
}

/// A batch that was appended to a log.
struct Written {
    partition: Arc<Partition>,
    log: Arc<PartitionLog>,
    appended: Appended,
}

/// Appends one partition's batch.
fn append(
    ctx: &Context<'_>,
    name: &TopicName,
    index: PartitionIndex,
    records: Option<Cow<'_, [u8]>>,
    answer: &mut PartitionProduceResponse<'static>,
) -> Result<Written, (ErrorCode, Option<String>)> {
    if !ctx.allows(Operation::Write, Resource::Topic(name)) {
        return Err((ErrorCode::TopicAuthorizationFailed, None));
    }
    let partition = ctx.broker.partition(name, index).ok_or((ErrorCode::UnknownTopicOrPartition, None))?;
    if partition.owner != Owner::Clients || topic::is_internal(name) {
        return Err((ErrorCode::InvalidTopicException, Some(format!("topic {name} is the server's own"))));
    }
    let records = records.ok_or((ErrorCode::InvalidRecord, None))?;
    let log = partition.log();
    let rules = log.config().produce_rules(ctx.version() >= 7);
    let batch = check_produced(&records, &rules, ctx.now.wall).map_err(|error| {
        if matches!(error, ProducedError::TooLarge { .. }) {
            ctx.broker.telemetry.limits().hit(Limit::MessageBytes);
        }
        refuse(&error, answer)
    })?;
    if batch.header().is_transactional() {
        return Err((ErrorCode::InvalidTxnState, Some(texts::NO_TRANSACTIONS.to_owned())));
    }
    let mut log = log;
    let mut outcome = log.append_produced(ctx.now, partition.leader_epoch(), &batch);
    let current = partition.log();
    if matches!(outcome, Err(AppendError::Unavailable(_))) && !Arc::ptr_eq(&log, &current) {
        // It was opened again meanwhile, and what the producer sends next comes to the new one.
        outcome = current.append_produced(ctx.now, partition.leader_epoch(), &batch);
        log = current;
    }
    match outcome {
        Ok(appended) => {
            ctx.broker.telemetry.logs(LogKind::Clients).appended(&appended, batch.bytes().len());
            Ok(Written { partition, log, appended })
        }
        Err(error) => {
            if matches!(error, AppendError::Unavailable(why) if why != Unavailable::Damaged) {
                ctx.broker.reopen_soon(&partition);
            }
            Err(append_error(ctx.broker, &partition, &error))
        }
    }
}

/// The one place where the errors of an append become codes.
fn append_error(broker: &Broker, partition: &Partition, error: &AppendError) -> (ErrorCode, Option<String>) {
    let code = match error {
        AppendError::Producer(ProducerError::Fenced { .. }) => ErrorCode::InvalidProducerEpoch,
        AppendError::Producer(ProducerError::OutOfOrder { .. }) => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::Producer(ProducerError::InsideTransaction { .. }) => ErrorCode::InvalidTxnState,
        AppendError::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
        // Told when the server started.
        AppendError::Unavailable(Unavailable::Damaged) => ErrorCode::KafkaStorageError,
        error => {
            broker.peer_lines.failures.run(broker.shell.now().mono, |suppressed| {
                tracing::error!(topic = %partition.topic, partition = %partition.index, %error, suppressed, "append failed");
            });
            return (ErrorCode::KafkaStorageError, None);
        }
    };
    (code, Some(error.to_string()))
}

/// The one place where the errors of a batch's check become codes.
fn refuse(error: &ProducedError, answer: &mut PartitionProduceResponse<'static>) -> (ErrorCode, Option<String>) {
    let code = match error {
        ProducedError::OldFormat { magic: 0 | 1 } => ErrorCode::InvalidRecord,
        ProducedError::OldFormat { .. } | ProducedError::Corrupt(_) | ProducedError::Compression(_) => {
            ErrorCode::CorruptMessage
        }
        ProducedError::TooLarge { .. } => ErrorCode::MessageTooLarge,
        ProducedError::UnsupportedCompression { .. } => ErrorCode::UnsupportedCompressionType,
        ProducedError::Records(errors) => {
            answer.record_errors = errors
                .iter()
                .map(|error| BatchIndexAndErrorMessage {
                    batch_index: i32::try_from(error.batch_index).unwrap_or(i32::MAX),
                    batch_index_error_message: Some(texts::told(error.fault.to_string())),
                    ..Default::default()
                })
                .collect();
            let about_time = errors.iter().any(|error| error.fault.is_timestamp());
            if about_time { ErrorCode::InvalidTimestamp } else { ErrorCode::InvalidRecord }
        }
        _ => ErrorCode::InvalidRecord,
    };
    (code, Some(error.to_string()))
}
