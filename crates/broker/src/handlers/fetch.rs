//! Fetch (key 1, versions 4 to 17): read records, waiting for some if there are none.
//!
//! Readers see everything below the high watermark, which is the durable end. Without transactions the last stable
//! offset is the same.
//! A partition that is asked for several times is answered once, as the last of them wants it.
//! A fetch that waits looks at what is new when there is something new, and reads for its answer when that is enough:
//! whoever waits for much must not make every append dear.
//! Gaps: no fetch sessions (session id 0 is always answered, and clients then send full requests, KIP-227); no
//! preferred replicas.

use std::{
    borrow::Cow,
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use riparian_log::{PartitionLog, Piece, ReadError, Unavailable};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        FetchRequest, FetchResponse,
        fetch_response::{FetchableTopicResponse, PartitionData},
    },
};
use riparian_types::{
    LeaderEpoch, Now, Offset, PartitionIndex, TopicName, Uuid,
    planted::{self, Bug},
};
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker, Wake,
    authorizer::{Operation, Resource},
    connection::LongPolls,
    handlers::{Api, offset_for_leader_epoch},
    partition::Partition,
    request::{Context, ReplyTo},
    telemetry::Limit,
    timers::TimerKey,
};

pub(crate) const API: Api = Api { key: ApiKey::Fetch, handle };

/// The longest that a fetch waits, whatever the client asks for, in milliseconds.
const WAIT_MAX_MS: i32 = 5 * 60 * 1000;

/// What is asked of one partition.
struct Ask {
    index: PartitionIndex,
    from: Offset,
    bytes_max: usize,
    /// The partition, or why it can't be read.
    partition: Result<Arc<Partition>, ErrorCode>,
    current_leader_epoch: i32,
    seen: Seen,
}

/// How far a fetch that waits has looked, so that its next look costs what is new since.
#[derive(Clone, Copy)]
struct Seen {
    next: Offset,
    /// What it would be answered with so far.
    bytes: usize,
}

struct TopicAsk {
    name: TopicName,
    id: Uuid,
    partitions: Vec<Ask>,
}

/// A fetch as it is evaluated, perhaps several times.
struct Fetch {
    to: ReplyTo,
    bytes_min: usize,
    bytes_max: usize,
    topics: Vec<TopicAsk>,
}

/// A fetch that waits for records.
pub(crate) struct ParkedFetch {
    id: u64,
    /// Taken by whoever answers.
    fetch: Mutex<Option<Fetch>>,
    /// Where else it is noted.
    timer: OnceLock<TimerKey>,
    long_polls: Arc<LongPolls>,
}

impl std::fmt::Debug for ParkedFetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParkedFetch").field("id", &self.id).finish_non_exhaustive()
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = FetchRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let by_id = ctx.version() >= 13;
    if request.session_id != 0 {
        // Nobody was given a session here; the client starts over without one.
        let error_code = ErrorCode::FetchSessionIdNotFound as i16;
        ctx.reply(&FetchResponse { error_code, ..Default::default() });
        return Ok(());
    }
    let topics: Vec<_> = request
        .topics
        .iter()
        .map(|topic| {
            let name = ctx.broker.topic_name(&topic.topic, topic.topic_id, by_id).and_then(|name| {
                let allowed = ctx.allows(Operation::Read, Resource::Topic(&name));
                if allowed { Ok(name) } else { Err(ErrorCode::TopicAuthorizationFailed) }
            });
            let partitions = topic.partitions.iter().map(|ask| {
                let index = PartitionIndex(ask.partition);
                let partition = name
                    .as_ref()
                    .map_err(|code| *code)
                    .and_then(|name| ctx.broker.partition(name, index).ok_or(ErrorCode::UnknownTopicOrPartition));
                Ask {
                    index,
                    from: Offset(ask.fetch_offset),
                    bytes_max: usize::try_from(ask.partition_max_bytes).unwrap_or(0),
                    partition,
                    current_leader_epoch: ask.current_leader_epoch,
                    seen: Seen { next: Offset(ask.fetch_offset), bytes: 0 },
                }
            });
            let partitions = partitions.collect();
            let name = name.unwrap_or_else(|_| TopicName::from(&*topic.topic));
            TopicAsk { name, id: topic.topic_id, partitions }
        })
        .collect();
    // However much the client takes: what is not sent from files stands in memory as a whole.
    let bytes_max = request.max_bytes.min(ctx.broker.request_config.fetch_bytes_max);
    let fetch = Fetch {
        to: ctx.to,
        bytes_min: usize::try_from(request.min_bytes.min(bytes_max)).unwrap_or(0),
        bytes_max: usize::try_from(bytes_max).unwrap_or(0),
        topics: each_once(topics),
    };
    let wait_ms = request.max_wait_ms.min(WAIT_MAX_MS);
    match fetch.evaluate(ctx.broker, wait_ms <= 0) {
        Some(answers) => fetch.reply(ctx.broker, &answers),
        None => park(&ctx, fetch, wait_ms),
    }
    Ok(())
}

/// Every topic and partition once, where it came first and as it came last.
fn each_once(mut topics: Vec<TopicAsk>) -> Vec<TopicAsk> {
    if topics.len() > 1 {
        let mut places = BTreeMap::new();
        let mut once: Vec<TopicAsk> = Vec::new();
        for topic in topics {
            match places.entry((topic.name.clone(), topic.id)) {
                Entry::Vacant(place) => {
                    place.insert(once.len());
                    once.push(topic);
                }
                Entry::Occupied(place) => once[*place.get()].partitions.extend(topic.partitions),
            }
        }
        topics = once;
    }
    for topic in &mut topics {
        if topic.partitions.is_sorted_by(|ask, next| ask.index < next.index) {
            continue;
        }
        let mut places = BTreeMap::new();
        let mut once: Vec<Ask> = Vec::new();
        for ask in std::mem::take(&mut topic.partitions) {
            match places.entry(ask.index) {
                Entry::Vacant(place) => {
                    place.insert(once.len());
                    once.push(ask);
                }
                Entry::Occupied(place) => once[*place.get()] = ask,
            }
        }
        topic.partitions = once;
    }
    topics
}

fn park(ctx: &Context<'_>, fetch: Fetch, wait_ms: i32) {
    let (broker, now) = (ctx.broker, ctx.now);
    let partitions: Vec<_> = fetch.partitions().cloned().collect();
    if !ctx.connection.long_polls().has_room(partitions.len()) {
        broker.telemetry.limits().hit(Limit::WaitingPartitions);
        if let Some(answers) = fetch.evaluate(broker, true) {
            fetch.reply(broker, &answers);
        }
        return;
    }
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let long_polls = ctx.connection.long_polls().clone();
    let parked = Arc::new(ParkedFetch { id, fetch: Mutex::new(Some(fetch)), timer: OnceLock::new(), long_polls });
    for partition in &partitions {
        partition.park(id, &parked);
    }
    let timer = broker.wake_at(now.mono.plus_ms(i64::from(wait_ms)), Wake::Fetch(parked.clone()));
    let _ = parked.timer.set(timer);
    if !parked.long_polls.begin(id, &parked, partitions.len()) {
        parked.expire(broker);
    }
    // Records may have become readable between the look and the parking.
    parked.reconsider(broker, now);
    if parked.lock().is_none() {
        // Whoever answered may have done so before all of this was noted.
        parked.forget(broker, partitions.iter());
    }
}

impl ParkedFetch {
    /// Answers if there is enough now.
    pub(crate) fn reconsider(&self, broker: &Broker, _now: Now) {
        self.answer(broker, false);
    }

    /// Answers with what there is.
    pub(crate) fn expire(&self, broker: &Broker) {
        self.answer(broker, true);
    }

    /// Forgets it without an answer: nobody is there to read it.
    pub(crate) fn abandon(&self, broker: &Broker) {
        let fetch = self.lock().take();
        if let Some(fetch) = fetch {
            self.forget(broker, fetch.partitions());
        }
    }

    /// Removes every note of it.
    fn forget<'a>(&self, broker: &Broker, partitions: impl Iterator<Item = &'a Arc<Partition>>) {
        partitions.for_each(|partition| partition.unpark(self.id));
        self.long_polls.forget(self.id);
        if let Some(timer) = self.timer.get() {
            broker.timers.remove(*timer);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Fetch>> {
        self.fetch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, broker: &Broker, whatever: bool) {
        let mut guard = self.lock();
        let due = guard.as_mut().and_then(|fetch| (whatever || fetch.has_enough()).then_some(fetch));
        let Some(answers) = due.and_then(|fetch| fetch.evaluate(broker, true)) else {
            return;
        };
        let fetch = guard.take();
        drop(guard);
        if let Some(fetch) = fetch {
            self.forget(broker, fetch.partitions());
            fetch.reply(broker, &answers);
        }
    }
}

impl Fetch {
    fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.topics.iter().flat_map(|topic| &topic.partitions).filter_map(|ask| ask.partition.as_ref().ok())
    }

    /// What to answer per topic and partition, if there is enough, or an error to report, or `whatever` is wanted.
    fn evaluate(&self, broker: &Broker, whatever: bool) -> Option<Vec<Vec<Answer>>> {
        let mut left = self.bytes_max;
        let mut read = 0usize;
        let mut must_answer = whatever || self.topics.iter().all(|topic| topic.partitions.is_empty());
        let mut answers = Vec::with_capacity(self.topics.len());
        for topic in &self.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for ask in &topic.partitions {
                // The first batch is sent whatever its size, so that a reader always gets on.
                let answer = ask.read(broker, left, read == 0);
                read += answer.records.len();
                left = left.saturating_sub(answer.records.len());
                must_answer |= answer.data.error_code != 0;
                partitions.push(answer);
            }
            answers.push(partitions);
        }
        (must_answer || read >= self.bytes_min).then_some(answers)
    }

    /// Whether it is to be answered now, by what is new since it was asked last.
    fn has_enough(&mut self) -> bool {
        let mut missing = self.bytes_min;
        for ask in self.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            match ask.look(missing) {
                Ok(bytes) if bytes < missing => missing -= bytes,
                // Enough, or an error to report.
                Ok(_) | Err(_) => return true,
            }
        }
        false
    }

    fn reply(&self, broker: &Broker, answers: &[Vec<Answer>]) {
        let responses = self.topics.iter().zip(answers).map(|(topic, answers)| {
            let partitions = answers.iter().map(|answer| {
                let here: &[u8] = match &answer.records {
                    Piece::Bytes(bytes) => bytes,
                    Piece::File(_) => &[],
                };
                PartitionData { records: Some(Cow::Borrowed(here)), ..answer.data.clone() }
            });
            FetchableTopicResponse {
                topic: Cow::Borrowed(&*topic.name),
                topic_id: topic.id,
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        let response = FetchResponse { responses: responses.collect(), ..Default::default() };
        let records = answers.iter().flatten().map(|answer| &answer.records);
        broker.reply_with_records(self.to, &response, records);
    }
}

/// The answer for one partition, without its records, and its records.
struct Answer {
    data: PartitionData<'static>,
    records: Piece,
}

impl Ask {
    fn read(&self, broker: &Broker, left: usize, at_least_one: bool) -> Answer {
        let mut data = PartitionData { partition_index: self.index.0, high_watermark: -1, ..Default::default() };
        let records = match self.read_into(broker, &mut data, left, at_least_one) {
            Ok(records) => records,
            Err(code) => {
                data.error_code = code.code();
                Piece::Bytes(Bytes::new())
            }
        };
        Answer { data, records }
    }

    /// How many bytes there are for it; as many as are missing will do.
    fn look(&mut self, missing: usize) -> Result<usize, ErrorCode> {
        let partition = self.partition.as_ref().map_err(|code| *code)?;
        let log = partition.log();
        let end = readable_end(&log)?;
        if self.from < log.start_offset() || self.from > end {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        // The first batch is sent whatever its size.
        let most = missing.min(self.bytes_max.max(1));
        let Seen { next, bytes } = &mut self.seen;
        while *next < end && *bytes < most {
            let read = log.read(*next, end, most - *bytes, false).map_err(|_| ErrorCode::KafkaStorageError)?;
            if read.too_large {
                *bytes = most;
            } else if read.next_offset > *next {
                (*next, *bytes) = (read.next_offset, *bytes + read.bytes.len());
            } else {
                break;
            }
        }
        Ok(*bytes)
    }

    fn read_into(
        &self,
        broker: &Broker,
        data: &mut PartitionData<'_>,
        left: usize,
        at_least_one: bool,
    ) -> Result<Piece, ErrorCode> {
        let partition = self.partition.as_ref().map_err(|code| *code)?;
        offset_for_leader_epoch::check(self.current_leader_epoch, partition.leader_epoch())?;
        let log = partition.log();
        let durable_end = readable_end(&log)?;
        data.high_watermark = durable_end.0;
        data.last_stable_offset = durable_end.0;
        data.log_start_offset = log.start_offset().0;
        let bytes_max = self.bytes_max.min(left);
        if self.from == durable_end || (bytes_max == 0 && !at_least_one) {
            return Ok(Piece::Bytes(Bytes::new()));
        }
        if self.from > durable_end {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        match log.read_or_lend(self.from, durable_end, bytes_max, at_least_one) {
            Ok(records) => Ok(records),
            Err(ReadError::OutOfRange { .. }) => Err(ErrorCode::OffsetOutOfRange),
            Err(error) => {
                partition.tell_unreadable(broker, &error);
                Err(ErrorCode::KafkaStorageError)
            }
        }
    }
}

/// Up to where a log can be read.
fn readable_end(log: &PartitionLog) -> Result<Offset, ErrorCode> {
    match log.unavailable() {
        // The topic was deleted while the fetch waited.
        Some(Unavailable::Closed) => Err(ErrorCode::UnknownTopicOrPartition),
        Some(Unavailable::Damaged) => Err(ErrorCode::KafkaStorageError),
        Some(_) | None if planted::is_in(Bug::UndurableVisible) => Ok(log.end_offset()),
        Some(_) | None => Ok(log.durable_end()),
    }
}

impl Partition {
    pub(crate) fn tell_unreadable(&self, broker: &Broker, error: &ReadError) {
        broker.peer_lines.failures.run(broker.shell.now().mono, |suppressed| {
            tracing::error!(topic = %self.topic, partition = %self.index, %error, suppressed, "partition can't be read");
        });
    }

    /// The leader epoch: this server is the only leader there ever was.
    pub(crate) const fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(0)
    }
}
