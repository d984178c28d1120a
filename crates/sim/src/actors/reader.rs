//! A reader that begins at offset 0 of every partition and checks what it sees.
//!
//! **Checked here:** offsets follow each other without a gap; of each producer the records come in order, none twice and
//! none missing; a high watermark never goes back.

use std::collections::BTreeMap;

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        FetchRequest,
        fetch_request::{FetchPartition, FetchTopic},
    },
};
use riparian_records::batches;

use crate::{
    actors::{Actor, producer::DATA},
    client::{Client, Watch, decode},
    core::Core,
    queue::Event,
};

const FETCH_VERSION: i16 = 12;
const WORK: u64 = 1;

/// One reader.
pub(crate) struct Reader {
    actor: usize,
    client: Client,
    partitions: Vec<Partition>,
    fetch: Option<i32>,
}

#[derive(Default)]
struct Partition {
    next_offset: i64,
    high_watermark: i64,
    /// The number expected next of each producer.
    next_numbers: BTreeMap<String, i64>,
}

impl Reader {
    pub(crate) fn new(actor: usize, core: &Core) -> Self {
        let partitions = (0..core.options.data_partitions).map(|_| Partition::default()).collect();
        Self { actor, client: Client::new(actor, "reader"), partitions, fetch: None }
    }

    fn work(&mut self, core: &mut Core) {
        if self.fetch.is_some() {
            return;
        }
        let partitions = self.partitions.iter().enumerate().map(|(index, partition)| FetchPartition {
            partition: index as i32,
            fetch_offset: partition.next_offset,
            partition_max_bytes: 2000,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            ..Default::default()
        });
        let topic = FetchTopic { topic: DATA.into(), partitions: partitions.collect(), ..Default::default() };
        let request = FetchRequest {
            replica_id: -1,
            max_wait_ms: 500 + core.prng.below(1500) as i32,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        self.fetch = self.client.send(core, &request, FETCH_VERSION);
        if self.fetch.is_none() {
            self.again(core, 200);
        }
    }

    fn again(&self, core: &mut Core, spread_ms: u64) {
        let delay_ms = 1 + core.prng.below(spread_ms);
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: WORK });
    }

    fn on_fetched(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(response) = decode::<FetchRequest<'_>>(core, reply, FETCH_VERSION) else { return };
        for answer in response.responses.iter().flat_map(|topic| &topic.partitions) {
            match ErrorCode::from_code(answer.error_code) {
                Some(ErrorCode::None) => {}
                // It begins before the topic is there, and a log may be closed for a while.
                Some(
                    ErrorCode::UnknownTopicOrPartition | ErrorCode::KafkaStorageError | ErrorCode::NotLeaderOrFollower,
                ) => continue,
                other => {
                    core.fail(format_args!("a fetch is refused: {other:?}"));
                    return;
                }
            }
            let index = answer.partition_index;
            let Some(partition) = self.partitions.get_mut(index as usize) else { continue };
            let result = partition.see(core, index, answer.high_watermark, answer.records.as_deref().unwrap_or(&[]));
            core.check(result);
        }
    }
}

impl Partition {
    fn see(&mut self, core: &mut Core, index: i32, high_watermark: i64, records: &[u8]) -> Result<(), String> {
        if high_watermark < self.high_watermark {
            let before = self.high_watermark;
            return Err(format!("the high watermark of {DATA}-{index} goes back from {before} to {high_watermark}"));
        }
        self.high_watermark = high_watermark;
        let mut count = 0;
        for batch in batches(records).tolerate_truncated() {
            let batch = batch.map_err(|error| format!("a fetch of {DATA}-{index} gives damaged bytes: {error}"))?;
            let records = batch.records().map_err(|error| error.to_string())?;
            for record in records.iter() {
                let record = record.map_err(|error| error.to_string())?;
                let offset = record.offset.0;
                if offset < self.next_offset {
                    continue;
                }
                let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                if offset > self.next_offset {
                    return Err(format!("{DATA}-{index} has nothing between {} and {offset}", self.next_offset));
                }
                if offset >= high_watermark {
                    return Err(format!("{DATA}-{index} shows {offset}, its high watermark is {high_watermark}"));
                }
                self.next_offset = offset + 1;
                core.contents.read(DATA, index, offset, &value)?;
                self.check_order(index, &value)?;
                count += 1;
            }
        }
        core.totals.add("records read", count);
        Ok(())
    }

    fn check_order(&mut self, index: i32, value: &str) -> Result<(), String> {
        let Some((name, number)) = value.rsplit_once(':').and_then(|(name, n)| Some((name, n.parse::<i64>().ok()?)))
        else {
            return Err(format!("{DATA}-{index} has {value:?}, which nobody wrote"));
        };
        let next = self.next_numbers.entry(name.to_owned()).or_default();
        if number != *next {
            return Err(format!("{DATA}-{index} has {value} where {name}:{next} must come"));
        }
        *next += 1;
        Ok(())
    }
}

impl Actor for Reader {
    fn begin(&mut self, core: &mut Core) {
        self.again(core, 3000);
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match self.client.on_watch(core, token) {
            Watch::AllWell => {}
            Watch::Lost => {
                self.fetch = None;
                self.again(core, 200);
            }
            Watch::NotMine => self.work(core),
        }
    }

    fn on_reply(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(correlation) = self.client.take_reply(core, reply) else { return };
        if self.fetch == Some(correlation) {
            self.fetch = None;
            self.on_fetched(core, reply);
            self.again(core, 300);
        }
    }

    fn on_closed(&mut self, core: &mut Core) {
        self.client.on_closed();
        self.fetch = None;
        self.again(core, 200);
    }

    fn on_second_look(&mut self, core: &mut Core) {
        // Everything again, from the beginning.
        core.tell(self.actor, format_args!("begins anew"));
        self.partitions.iter_mut().for_each(|partition| *partition = Partition::default());
    }

    fn unfinished(&self, core: &Core) -> Option<String> {
        let behind = self
            .partitions
            .iter()
            .enumerate()
            .find(|(index, partition)| partition.next_offset < core.contents.end(DATA, *index as i32));
        let name = &core.names[self.actor];
        behind.map(|(index, partition)| format!("{name} is at offset {} of {DATA}-{index}", partition.next_offset))
    }
}
