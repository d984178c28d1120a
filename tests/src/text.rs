//! The text that the word count counts: fed by a thread of the test, and its counts compared with what is right.
//!
//! Line `n` holds a word of its own and some that many lines share: a word of its own shows a lost line even when
//! another one was counted twice. It is the text of `tests/java/riparian/Lines.java`.
//! A line whose acknowledgement got lost is written again, so that counts are exact only if the server stays.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use riparian_client::{ClientError, Connection};
use riparian_protocol::messages::{
    FetchRequest, ProduceRequest,
    fetch_request::{FetchPartition, FetchTopic},
    produce_request::{PartitionProduceData, TopicProduceData},
};
use riparian_records::{BatchBuilder, BatchOptions, batches};
use riparian_types::WallMillis;

use crate::direct::connect;

/// How long a server may be away, and how long counts may take to become right.
const LIMIT: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Counts that are right must stay so for this long: an application commits, and so writes, five times meanwhile.
const QUIET: Duration = Duration::from_secs(1);
/// The last versions that name topics.
const FETCH_BY_NAME: i16 = 12;
const PRODUCE_BY_NAME: i16 = 12;
const BYTES_MAX: i32 = 10 << 20;
/// Lines in one request.
const LINES_MAX: u64 = 500;

const TEXT: [&str; 5] = [
    "the river keeps to its bed and the bed keeps the river",
    "reeds and willows hold the bank where the water is slow",
    "a heron waits and the water goes around it",
    "when the bank gives way another bend takes the water",
    "every drop that falls on the hill comes down to the river",
];

fn line(n: u64) -> String {
    let text = TEXT.iter().cycle().nth((n % 5) as usize).copied().unwrap_or_default();
    format!("line{n} {text}")
}

/// How often each word occurs in the first `lines` lines.
fn right_counts(lines: u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for word in (0..lines).map(line).flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>()) {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

/// Where text goes, or counts come from.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) port: u16,
    pub(crate) name: &'static str,
    pub(crate) partitions: i32,
}

/// Lines that are being written.
pub struct Feed {
    thread: JoinHandle<()>,
    fed: Arc<Fed>,
}

#[derive(Default)]
struct Fed {
    lines: Mutex<u64>,
    changed: Condvar,
}

impl Fed {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// Writes the lines `from..from + count`, so many a second. Line `n` goes to partition `n` modulo their number.
    pub(crate) fn start(topic: Topic, from: u64, count: u64, rate: u64) -> Self {
        let fed = Arc::new(Fed::default());
        let counting = Arc::clone(&fed);
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let mut done = 0;
            while done < count {
                let due = (start.elapsed().as_micros() * u128::from(rate) / 1_000_000).min(u128::from(count)) as u64;
                let end = due.max(done + 1).min(done + LINES_MAX).min(count);
                if end > due {
                    let wait = Duration::from_micros(end * 1_000_000 / rate);
                    std::thread::sleep(wait.saturating_sub(start.elapsed()));
                }
                write(&topic, from + done..from + end);
                done = end;
                *counting.lock() = done;
                counting.changed.notify_all();
            }
        });
        Self { thread, fed }
    }

    /// Waits until so many lines have been acknowledged.
    pub fn wait_for(&self, lines: u64) {
        let waited = self.fed.changed.wait_timeout_while(self.fed.lock(), LIMIT, |fed| *fed < lines);
        let (fed, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{} of {lines} lines were acknowledged within {LIMIT:?}", *fed);
    }

    /// Waits until all lines have been acknowledged.
    pub fn finish(self) {
        self.thread.join().expect("every line is acknowledged in the end");
    }
}

/// Writes lines until all of them are acknowledged.
fn write(topic: &Topic, lines: std::ops::Range<u64>) {
    let mut open: Vec<i32> = (0..topic.partitions).collect();
    let deadline = Instant::now() + LIMIT;
    loop {
        let error = match try_write(topic, &lines, &mut open) {
            Ok(()) if open.is_empty() => return,
            Ok(()) => format!("refused by {open:?}"),
            Err(error) => error.to_string(),
        };
        assert!(Instant::now() < deadline, "lines {lines:?} are not acknowledged within {LIMIT:?}: {error}");
        std::thread::sleep(AGAIN_AFTER);
    }
}

/// Takes the partitions that have acknowledged their lines out of `open`.
fn try_write(topic: &Topic, lines: &std::ops::Range<u64>, open: &mut Vec<i32>) -> Result<(), ClientError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let now = WallMillis(i64::try_from(now).unwrap_or(i64::MAX));
    let batch = |partition: i32| {
        let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
        let own = |n: &u64| n % topic.partitions as u64 == partition as u64;
        for n in lines.clone().filter(own) {
            builder.push(now, Some(n.to_string().as_bytes()), Some(line(n).as_bytes()));
        }
        (builder.record_count() > 0).then(|| PartitionProduceData {
            index: partition,
            records: Some(builder.build().into()),
            ..PartitionProduceData::default()
        })
    };
    let batches: Vec<_> = open.iter().filter_map(|&partition| batch(partition)).collect();
    open.retain(|partition| batches.iter().any(|batch| batch.index == *partition));
    let data = TopicProduceData { name: topic.name.into(), partition_data: batches, ..TopicProduceData::default() };
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![data], ..ProduceRequest::default() };
    let answer = connect(topic.port)?.call_version(&request, PRODUCE_BY_NAME)?;
    let response = answer.decode()?;
    let taken = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    let taken: Vec<i32> = taken.filter(|taken| taken.error_code == 0).map(|taken| taken.index).collect();
    open.retain(|partition| !taken.contains(partition));
    Ok(())
}

/// Reads counts until they are those of the first `lines` lines: equal, and still so a little later, or at least so
/// large, since a crash of an at-least-once application may count a word twice, but never lose one.
pub(crate) fn check_counts(topic: &Topic, lines: u64, exact: bool) {
    let right = right_counts(lines);
    let mut reader = Reader { next: vec![0; topic.partitions as usize], counts: BTreeMap::new(), connection: None };
    let deadline = Instant::now() + LIMIT;
    let mut changed = Instant::now();
    loop {
        let error = match reader.read(topic) {
            Ok(0) => None,
            Ok(_) => {
                changed = Instant::now();
                None
            }
            Err(error) => {
                reader.connection = None;
                std::thread::sleep(AGAIN_AFTER);
                Some(error.to_string())
            }
        };
        let wrong = error.or_else(|| first_difference(&right, &reader.counts, exact));
        let is_quiet = !exact || changed.elapsed() >= QUIET;
        match wrong {
            None if is_quiet => return,
            None => {}
            Some(wrong) => assert!(Instant::now() < deadline, "counts of {lines} lines: {wrong}"),
        }
    }
}

fn first_difference(right: &BTreeMap<String, u64>, counts: &BTreeMap<String, u64>, exact: bool) -> Option<String> {
    let at_least = if exact { "" } else { "at least " };
    let is_wrong = |count: u64, right: u64| if exact { count != right } else { count < right };
    let counted = |word: &String| counts.get(word).copied().unwrap_or(0);
    let wrong = right.iter().find(|&(word, &right)| is_wrong(counted(word), right));
    let wrong = wrong.map(|(word, right)| format!("{word} is {}, expected {at_least}{right}", counted(word)));
    wrong.or_else(|| counts.keys().find(|word| !right.contains_key(*word)).map(|word| format!("{word} is not fed")))
}

struct Reader {
    next: Vec<i64>,
    counts: BTreeMap<String, u64>,
    connection: Option<Connection>,
}

impl Reader {
    /// Reads on; tells how many counts there were.
    fn read(&mut self, topic: &Topic) -> Result<usize, ClientError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(topic.port)?),
        };
        let partition = |(partition, &fetch_offset)| FetchPartition {
            partition,
            fetch_offset,
            current_leader_epoch: -1,
            partition_max_bytes: BYTES_MAX,
            ..FetchPartition::default()
        };
        let fetched = FetchTopic {
            topic: topic.name.into(),
            partitions: (0..).zip(&self.next).map(partition).collect(),
            ..FetchTopic::default()
        };
        let request = FetchRequest {
            replica_id: -1,
            max_wait_ms: 200,
            min_bytes: 1,
            max_bytes: BYTES_MAX,
            session_epoch: -1,
            topics: vec![fetched],
            ..FetchRequest::default()
        };
        let answer = connection.call_version(&request, FETCH_BY_NAME)?;
        let response = answer.decode()?;
        let mut found = 0;
        for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
            for batch in batches(data.records.as_deref().unwrap_or_default()).tolerate_truncated() {
                let batch = batch.expect("a server sends whole batches");
                let records = batch.records().expect("a server sends what it was sent");
                for record in &records {
                    let record = record.expect("a server sends what it was sent");
                    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
                    let count = text(record.value).parse().expect("a count is a number");
                    self.counts.insert(text(record.key), count);
                    found += 1;
                }
                self.next[data.partition_index as usize] = batch.header().next_offset().0;
            }
        }
        Ok(found)
    }
}
