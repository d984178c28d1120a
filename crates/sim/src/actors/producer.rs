//! An idempotent producer: a few batches under way per partition, sent again in order until they are acknowledged.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        InitProducerIdRequest, ProduceRequest,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
};
use riparian_records::{BatchBuilder, BatchOptions, Producer as BatchProducer};
use riparian_types::{ProducerEpoch, ProducerId, Sequence};

use crate::{
    actors::Actor,
    client::{Client, Watch, decode},
    core::Core,
    queue::Event,
    shell,
};

/// The topic that producers write and readers read.
pub(crate) const DATA: &str = "data";
const PRODUCE_VERSION: i16 = 9;
const INIT_VERSION: i16 = 4;
/// As many as the server remembers batches of a producer.
const IN_FLIGHT_MAX: usize = 5;

/// One producer.
pub(crate) struct Producer {
    actor: usize,
    client: Client,
    id: Option<i64>,
    asked_for_id: Option<i32>,
    partitions: Vec<Partition>,
    /// What was sent: by correlation id, the partition and the first record of the batch.
    sent: BTreeMap<i32, (usize, i32)>,
    left: u64,
    /// Whether a producer of this name may have been given several ids.
    last_error: Option<String>,
}

/// What is on its way to one partition.
#[derive(Default)]
struct Partition {
    /// Something was acknowledged: the topic is there, and the server knows the producer.
    is_known: bool,
    next_sequence: i32,
    /// From the first that is not acknowledged on, in order: the server remembers no more than these, so nothing is sent
    /// far ahead of one that has to come again.
    batches: VecDeque<Batch>,
    /// Something failed: when nothing is under way any more, everything is sent again.
    starts_over: bool,
}

struct Batch {
    first: i32,
    count: i32,
    is_under_way: bool,
    is_acknowledged: bool,
}

const WORK: u64 = 1;

impl Producer {
    pub(crate) fn new(actor: usize, core: &Core) -> Self {
        Self {
            actor,
            client: Client::new(actor, "producer"),
            id: None,
            asked_for_id: None,
            partitions: (0..core.options.data_partitions).map(|_| Partition::default()).collect(),
            sent: BTreeMap::new(),
            left: core.options.records_per_producer,
            last_error: None,
        }
    }

    fn work(&mut self, core: &mut Core) {
        let spread_ms =
            if core.is_healing { 50 } else { 2 * core.options.faults_ms / core.options.records_per_producer };
        let delay_ms = 1 + core.prng.below(spread_ms);
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: WORK });
        let Some(id) = self.id else {
            if self.asked_for_id.is_none() {
                let request = InitProducerIdRequest {
                    transactional_id: None,
                    transaction_timeout_ms: 1000,
                    producer_id: -1,
                    producer_epoch: -1,
                    ..Default::default()
                };
                self.asked_for_id = self.client.send(core, &request, INIT_VERSION);
            }
            return;
        };
        if self.left > 0 {
            let count = (1 + core.prng.below(4)).min(self.left);
            let index = core.prng.below(self.partitions.len() as u64) as usize;
            let partition = &mut self.partitions[index];
            if partition.batches.len() < IN_FLIGHT_MAX {
                let count = i32::try_from(count).unwrap_or(1);
                partition.batches.push_back(Batch {
                    first: partition.next_sequence,
                    count,
                    is_under_way: false,
                    is_acknowledged: false,
                });
                partition.next_sequence += count;
                self.left -= count as u64;
            }
        }
        self.send(core, id);
    }

    /// Sends what waits, in order.
    fn send(&mut self, core: &mut Core, id: i64) {
        for index in 0..self.partitions.len() {
            let partition = &mut self.partitions[index];
            if partition.starts_over && partition.batches.iter().any(|batch| batch.is_under_way) {
                continue;
            }
            partition.starts_over = false;
            for place in 0..partition.batches.len() {
                let partition = &self.partitions[index];
                let batch = &partition.batches[place];
                if batch.is_under_way || batch.is_acknowledged || (place > 0 && !partition.is_known) {
                    continue;
                }
                let (first, count) = (batch.first, batch.count);
                let name = core.names[self.actor].clone();
                let request = produce(&name, id, index as i32, first, count, core);
                let Some(correlation) = self.client.send(core, &request, PRODUCE_VERSION) else {
                    return;
                };
                core.tell(self.actor, format_args!("sends {first}..{} to {DATA}-{index}", first + count));
                core.totals.add("batches sent", 1);
                self.sent.insert(correlation, (index, first));
                self.partitions[index].batches[place].is_under_way = true;
            }
        }
    }

    fn lost(&mut self) {
        self.sent.clear();
        self.asked_for_id = None;
        for batch in self.partitions.iter_mut().flat_map(|partition| &mut partition.batches) {
            batch.is_under_way = false;
        }
    }

    fn on_produced(&mut self, core: &mut Core, reply: &Bytes, index: usize, first: i32) {
        let Some(response) = decode::<ProduceRequest<'_>>(core, reply, PRODUCE_VERSION) else { return };
        let answer = response.responses.first().and_then(|topic| topic.partition_responses.first());
        let Some(answer) = answer else { return core.fail("an answer to a produce has no partition") };
        let partition = &mut self.partitions[index];
        let Some(place) = partition.batches.iter().position(|batch| batch.first == first) else { return };
        partition.batches[place].is_under_way = false;
        let error = ErrorCode::from_code(answer.error_code);
        match error {
            Some(ErrorCode::None) => {
                let count = partition.batches[place].count;
                partition.batches[place].is_acknowledged = true;
                while partition.batches.front().is_some_and(|batch| batch.is_acknowledged) {
                    partition.batches.pop_front();
                }
                partition.is_known = true;
                core.tell(
                    self.actor,
                    format_args!("has {first}..{} at offset {} of {DATA}-{index}", first + count, answer.base_offset),
                );
                core.totals.add("records acknowledged", count as u64);
                for number in 0..count {
                    let value = value(&core.names[self.actor], first + number);
                    let offset = answer.base_offset + i64::from(number);
                    let result = core.contents.acknowledged(DATA, index as i32, offset, &value);
                    core.check(result);
                }
                self.last_error = None;
                return;
            }
            Some(ErrorCode::OutOfOrderSequenceNumber) => {
                // Right if one before it has failed; wrong if everything before it was acknowledged.
                if place == 0 {
                    let name = core.names[self.actor].clone();
                    core.fail(format_args!(
                        "{name} had everything before {first} of {DATA}-{index} acknowledged, but {first} is out of order"
                    ));
                }
            }
            Some(ErrorCode::KafkaStorageError | ErrorCode::UnknownTopicOrPartition) => {}
            _ => core.fail(format_args!("a produce is refused: {error:?}")),
        }
        core.tell(
            self.actor,
            format_args!("is refused {first} of {DATA}-{index}: {}", error.map_or("?", ErrorCode::name)),
        );
        core.totals.add("produces refused", 1);
        self.last_error = error.map(|error| error.name().to_owned());
        self.partitions[index].starts_over = true;
    }

    fn on_id(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(response) = decode::<InitProducerIdRequest<'_>>(core, reply, INIT_VERSION) else { return };
        if response.error_code == 0 {
            core.tell(self.actor, format_args!("is producer {}", response.producer_id));
            let result = core.contents.new_producer_id(response.producer_id);
            core.check(result);
            self.id = Some(response.producer_id);
        } else {
            self.last_error = Some(format!("no producer id: {}", response.error_code));
        }
    }
}

impl Actor for Producer {
    fn begin(&mut self, core: &mut Core) {
        let delay_ms = core.prng.below(3000);
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: WORK });
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match self.client.on_watch(core, token) {
            Watch::AllWell => {}
            Watch::Lost => self.lost(),
            Watch::NotMine => self.work(core),
        }
    }

    fn on_reply(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(correlation) = self.client.take_reply(core, reply) else { return };
        if self.asked_for_id == Some(correlation) {
            self.asked_for_id = None;
            self.on_id(core, reply);
        } else if let Some((index, first)) = self.sent.remove(&correlation) {
            self.on_produced(core, reply, index, first);
        }
    }

    fn on_closed(&mut self, _: &mut Core) {
        self.client.on_closed();
        self.lost();
    }

    fn unfinished(&self, core: &Core) -> Option<String> {
        let waiting: usize = self.partitions.iter().map(|partition| partition.batches.len()).sum();
        let is_done = self.left == 0 && waiting == 0;
        let name = &core.names[self.actor];
        (!is_done).then(|| {
            format!(
                "{name} has {} records left and {waiting} batches waiting, last error {:?}",
                self.left, self.last_error
            )
        })
    }
}

/// What a producer's record of this number says.
fn value(name: &str, number: i32) -> String {
    format!("{name}:{number}")
}

fn produce(name: &str, id: i64, index: i32, first: i32, count: i32, core: &Core) -> ProduceRequest<'static> {
    let producer = BatchProducer { id: ProducerId(id), epoch: ProducerEpoch(0), base_sequence: Sequence(first) };
    let mut builder = BatchBuilder::new(BatchOptions { producer: Some(producer), ..BatchOptions::PLAIN });
    for number in first..first + count {
        builder.push(shell::at(core.now_us).wall, None, Some(value(name, number).as_bytes()));
    }
    let partition = PartitionProduceData { index, records: Some(builder.build().into()), ..Default::default() };
    let topic = TopicProduceData { name: DATA.into(), partition_data: vec![partition], ..Default::default() };
    ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() }
}
