//! Produce and fetch requests as a client sends them, and what their answers are worth.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use riparian_crowd::pump::Talk;
use riparian_protocol::{
    Request, RequestHeader, ResponseHeader,
    messages::{
        FetchRequest, FetchResponse, ProduceRequest, ProduceResponse,
        fetch_request::{FetchPartition, FetchTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
    },
};
use riparian_records::{BatchBuilder, BatchOptions, Compression, batches};
use riparian_types::{Prng, WallMillis};
use riparian_wire::{Reader, frame};

/// The last versions that name topics.
const PRODUCE: i16 = 12;
const FETCH: i16 = 12;
const FETCH_WAIT_MS: i32 = 500;
/// What clients ask for by default.
const PARTITION_BYTES_MAX: i32 = 1 << 20;
const FETCH_BYTES_MAX: i32 = 50 << 20;

/// A batch of records of this size, made of words, so that it can be compressed as text can.
pub(crate) fn batch(records: usize, record_bytes: usize, compression: Compression, seed: u64) -> Vec<u8> {
    const SYLLABLES: [&[u8]; 16] = [
        b"ri", b"pa", b"ri", b"an", b"wa", b"ter", b"low", b"reed", b"bank", b"bed", b"hill", b"drop", b"bend", b"her",
        b"on", b"s",
    ];
    let mut luck = Prng::new(seed);
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::PLAIN });
    for _ in 0..records {
        let mut value = Vec::with_capacity(record_bytes + 8);
        while value.len() < record_bytes {
            let choice = luck.next_u64();
            value.extend_from_slice(SYLLABLES[(choice % 16) as usize]);
            if choice & 0x300 == 0 {
                value.push(b' ');
            }
        }
        value.truncate(record_bytes);
        builder.push(now(), None, Some(&value));
    }
    builder.build()
}

/// A batch of lines of so many words, of which there are a thousand.
pub(crate) fn lines(lines: usize, words: usize, compression: Compression, seed: u64) -> Vec<u8> {
    let mut luck = Prng::new(seed);
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::PLAIN });
    for _ in 0..lines {
        let words: Vec<String> = (0..words).map(|_| format!("word{}", luck.below(1000))).collect();
        builder.push(now(), None, Some(words.join(" ").as_bytes()));
    }
    builder.build()
}

fn now() -> WallMillis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    WallMillis(i64::try_from(now).unwrap_or(i64::MAX))
}

/// A produce request with `acks=all` as a frame; to each partition its batch.
pub(crate) fn produce(topic: &str, data: &[(i32, &[u8])], out: &mut Vec<u8>) -> Result<()> {
    let data = data.iter().map(|&(index, batch)| PartitionProduceData {
        index,
        records: Some(batch.into()),
        ..PartitionProduceData::default()
    });
    let topic = TopicProduceData { name: topic.into(), partition_data: data.collect(), ..TopicProduceData::default() };
    let request = ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..ProduceRequest::default() };
    encode(&request, PRODUCE, out)
}

/// Fails unless every partition has taken its batch.
pub(crate) fn check_produced(answer: &[u8]) -> Result<()> {
    let mut reader = Reader::new(answer);
    ResponseHeader::decode(&mut reader, ProduceRequest::API_KEY, PRODUCE).context("an answer is malformed")?;
    let response = ProduceResponse::decode(&mut reader, PRODUCE).context("an answer to a produce is malformed")?;
    for partition in response.responses.iter().flat_map(|topic| &topic.partition_responses) {
        if partition.error_code != 0 {
            bail!("a produce is refused: error {} {:?}", partition.error_code, partition.error_message);
        }
    }
    Ok(())
}

/// Produces the same batch again and again, each connection to a partition of its own.
pub(crate) struct Producing {
    frames: Vec<Vec<u8>>,
    worth: u64,
}

impl Producing {
    /// `worth` is what one batch counts.
    pub(crate) fn new(topic: &str, connections: usize, batch: &[u8], worth: u64) -> Result<Self> {
        let frames = (0..connections).map(|partition| {
            let mut frame = Vec::new();
            produce(topic, &[(partition as i32, batch)], &mut frame)?;
            Ok(frame)
        });
        Ok(Self { frames: frames.collect::<Result<_>>()?, worth })
    }
}

impl Talk for Producing {
    fn ask(&mut self, link: usize, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.frames[link]);
        Ok(())
    }

    fn hear(&mut self, _: usize, answer: &[u8]) -> Result<u64> {
        check_produced(answer)?;
        Ok(self.worth)
    }
}

/// Reads partitions from the beginning, each connection its own, and from there again when one has come to its end.
pub(crate) struct Fetching {
    topic: String,
    next: Vec<i64>,
    record_bytes: u64,
}

impl Fetching {
    pub(crate) fn new(topic: &str, connections: usize, record_bytes: u64) -> Self {
        Self { topic: topic.to_owned(), next: vec![0; connections], record_bytes }
    }
}

impl Talk for Fetching {
    fn ask(&mut self, link: usize, out: &mut Vec<u8>) -> Result<()> {
        let partition = FetchPartition {
            partition: link as i32,
            current_leader_epoch: -1,
            fetch_offset: self.next[link],
            partition_max_bytes: PARTITION_BYTES_MAX,
            ..FetchPartition::default()
        };
        let topic =
            FetchTopic { topic: self.topic.as_str().into(), partitions: vec![partition], ..FetchTopic::default() };
        let request = FetchRequest {
            replica_id: -1,
            max_wait_ms: FETCH_WAIT_MS,
            min_bytes: 1,
            max_bytes: FETCH_BYTES_MAX,
            session_epoch: -1,
            topics: vec![topic],
            ..FetchRequest::default()
        };
        encode(&request, FETCH, out)
    }

    fn hear(&mut self, link: usize, answer: &[u8]) -> Result<u64> {
        let mut reader = Reader::new(answer);
        ResponseHeader::decode(&mut reader, FetchRequest::API_KEY, FETCH).context("an answer is malformed")?;
        let response = FetchResponse::decode(&mut reader, FETCH).context("an answer to a fetch is malformed")?;
        ensure!(response.error_code == 0, "a fetch is refused: error {}", response.error_code);
        let partition = response.responses.first().and_then(|topic| topic.partitions.first());
        let partition = partition.context("a fetch is answered without its partition")?;
        ensure!(partition.error_code == 0, "a fetch is refused: error {}", partition.error_code);
        let from = self.next[link];
        let mut next = from;
        for batch in batches(partition.records.as_deref().unwrap_or_default()).tolerate_truncated().unverified() {
            next = batch.context("a server sends whole batches")?.header().next_offset().0;
        }
        let end = next >= partition.high_watermark;
        self.next[link] = if end { 0 } else { next };
        Ok((next - from).unsigned_abs() * self.record_bytes)
    }
}

fn encode<'a, R: Request<'a>>(request: &R, version: i16, out: &mut Vec<u8>) -> Result<()> {
    let header = RequestHeader {
        api_key: R::API_KEY.code(),
        api_version: version,
        client_id: Some("bench".into()),
        ..RequestHeader::default()
    };
    let start = frame::start(out);
    header.encode(out)?;
    request.encode(out, version)?;
    Ok(frame::finish(out, start)?)
}
