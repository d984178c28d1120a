//! Cases from the field, by their ids (`docs/field-cases.md`), about files that are not what they were.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use riparian_log::{
    Disk as _, FlushMode, Identity, LogConfig, Logs, LogsConfig, MemDisk, PartitionLog, ReadError, RecoveryReport,
};
use riparian_records::{BatchBuilder, BatchOptions, batches, check_produced};
use riparian_types::{LeaderEpoch, MonoMillis, NodeId, Now, Offset, PartitionIndex, TopicName, Uuid, WallMillis};

const NOW: Now = Now { mono: MonoMillis(0), wall: WallMillis(1_000_000) };
const BATCHES: i64 = 40;

fn open(disk: &Arc<MemDisk>, config: LogConfig) -> (Logs, RecoveryReport) {
    let identity = Identity {
        node_id: NodeId(1),
        cluster_id: None,
        new_cluster_id: "made-up".to_owned(),
        new_directory_id: Uuid::from_random(1, 2),
    };
    let config = LogsConfig {
        flush: FlushMode::Sync,
        producer_expiration_ms: 1000,
        topic_defaults: config,
        recovery_threads: 4,
    };
    let disk = Arc::<MemDisk>::clone(disk);
    Logs::open(disk, Path::new("/data"), identity, config, NOW.wall).unwrap()
}

fn create(logs: &Logs, topic: &str, config: LogConfig) -> Arc<PartitionLog> {
    logs.create(&TopicName::from(topic), Uuid::from_halves(7, 8), PartitionIndex(0), config).unwrap()
}

fn find(logs: &Logs, topic: &str) -> Arc<PartitionLog> {
    logs.find(topic, PartitionIndex(0)).unwrap()
}

/// A batch of two records, the second of them later than the first of the next batch.
fn batch(n: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    for ms in [10 * n, 10 * n + 15] {
        builder.push(WallMillis(NOW.wall.0 + ms), Some(b"key"), Some(&[0xee; 80]));
    }
    builder.build()
}

fn fill(log: &PartitionLog, from: i64, upto: i64) {
    for n in from..upto {
        let bytes = batch(n);
        let produced = check_produced(&bytes, &log.config().produce_rules(true), NOW.wall).unwrap();
        log.append_produced(NOW, LeaderEpoch(0), &produced).unwrap();
    }
    log.sync().unwrap();
}

/// Base offsets of all batches, each of them whole.
fn bases(log: &PartitionLog) -> Result<Vec<i64>, ReadError> {
    let (mut found, mut from) = (Vec::new(), log.start_offset());
    while from < log.durable_end() {
        let read = log.read(from, log.durable_end(), 1000, true)?;
        found.extend(batches(&read.bytes).map(|batch| batch.unwrap().header().base_offset.0));
        from = read.next_offset;
    }
    Ok(found)
}

fn file(topic: &str, name: &str) -> PathBuf {
    Path::new("/data").join(format!("{topic}-0")).join(name)
}

const FIRST: &str = "00000000000000000000.log";

/// What happens to the last of three batches of a file, and how many batches are left.
type Damage = (&'static str, fn(&mut Vec<u8>, usize), i64);

fn put(bytes: &mut [u8], at: usize, length: i32) {
    bytes[at + 8..at + 12].copy_from_slice(&length.to_be_bytes());
}

const DAMAGES: [Damage; 14] = [
    ("length-negative", |bytes, last| put(bytes, last, -1), 2),
    ("length-lowest", |bytes, last| put(bytes, last, i32::MIN), 2),
    ("length-zero", |bytes, last| put(bytes, last, 0), 2),
    ("length-small", |bytes, last| put(bytes, last, 48), 2),
    ("length-largest", |bytes, last| put(bytes, last, i32::MAX), 2),
    ("length-past-the-end", |bytes, last| put(bytes, last, last as i32), 2),
    ("zeroes", |bytes, last| bytes[last..].fill(0), 2),
    ("all-zeroes", |bytes, _| bytes.fill(0), 0),
    ("zeroes-behind", |bytes, _| bytes.extend([0; 4096]), 3),
    ("noise-behind", |bytes, _| bytes.extend((0..999u32).map(|n| (n * n % 251) as u8)), 3),
    ("ones-behind", |bytes, _| bytes.extend([0xff; 300]), 3),
    ("cut-in-the-header", |bytes, last| bytes.truncate(last + 13), 2),
    ("cut-before-the-length", |bytes, last| bytes.truncate(last + 5), 2),
    ("length-negative-in-the-middle", |bytes, last| put(bytes, last / 2, -1), 1),
];

#[test]
fn s_02_nonsense_in_a_file_costs_one_log_its_end_and_no_start() {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, LogConfig::KAFKA);
    let healthy: Vec<String> = (0..50).map(|n| format!("healthy{n}")).collect();
    for topic in healthy.iter().map(String::as_str).chain(DAMAGES.iter().map(|damage| damage.0)) {
        fill(&create(&logs, topic, LogConfig::KAFKA), 0, 3);
    }
    drop(logs);
    let size = batch(0).len();
    for (topic, damage, _) in DAMAGES {
        disk.tamper(&file(topic, FIRST), |bytes| damage(bytes, 2 * size)).unwrap();
    }
    let (logs, report) = open(&disk, LogConfig::KAFKA);
    for topic in &healthy {
        assert_eq!(bases(&find(&logs, topic)).unwrap(), [0, 2, 4], "{topic}");
    }
    for (topic, _, left) in DAMAGES {
        let log = find(&logs, topic);
        let expected: Vec<i64> = (0..left).map(|n| 2 * n).collect();
        assert_eq!(bases(&log).unwrap(), expected, "{topic}");
        let told = report.partitions.iter().find(|told| &*told.topic == topic).unwrap();
        let cut = told.cut.as_ref().unwrap_or_else(|| panic!("{topic}: not told"));
        assert_eq!((cut.end_offset, cut.position), (Offset(2 * left), size as u64 * left as u64), "{topic}");
        assert!(cut.bytes > 0, "{topic}");
        // It goes on from there.
        fill(&log, left, 5);
        assert_eq!(bases(&log).unwrap(), [0, 2, 4, 6, 8], "{topic}");
    }
    let cut = report.partitions.iter().filter(|told| told.cut.is_some()).count();
    assert_eq!(cut, DAMAGES.len(), "nothing is said of the healthy ones");
    // The next start finds nothing to complain of.
    drop(logs);
    let (_, report) = open(&disk, LogConfig::KAFKA);
    assert!(report.partitions.iter().all(|told| told.cut.is_none()));
}

/// Several segments with several index entries each.
const SMALL: LogConfig = LogConfig { segment_bytes: 2500, index_interval_bytes: 300, ..LogConfig::KAFKA };

fn names(disk: &MemDisk, topic: &str, extension: &str) -> Vec<String> {
    let entries = disk.list(&Path::new("/data").join(format!("{topic}-0"))).unwrap();
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    names.retain(|name| name.ends_with(extension));
    names
}

#[test]
fn s_02_damage_in_an_old_segment_is_told_to_its_readers_only() {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, SMALL);
    for topic in ["old", "other"] {
        fill(&create(&logs, topic, SMALL), 0, BATCHES);
    }
    logs.write_checkpoints().unwrap();
    drop(logs);
    assert!(names(&disk, "old", ".log").len() >= 3);
    let size = batch(0).len();
    disk.tamper(&file("old", FIRST), |bytes| put(bytes, 3 * size, -1)).unwrap();
    let (logs, _) = open(&disk, SMALL);
    let old = find(&logs, "old");
    assert!(matches!(bases(&old), Err(ReadError::Damaged { .. })));
    // What lies behind the damaged segment is there, and new records are taken.
    fill(&old, BATCHES, BATCHES + 1);
    let read = old.read(Offset(2 * BATCHES), old.durable_end(), 10_000, true).unwrap();
    assert_eq!(read.next_offset, Offset(2 * BATCHES + 2));
    assert_eq!(bases(&find(&logs, "other")).unwrap().len() as i64, BATCHES);
}

/// Everything that indexes are for: batches from every offset, records by every time.
fn looked_up(log: &PartitionLog) -> Vec<Option<i64>> {
    let from = |offset| {
        let read = log.read(Offset(offset), log.durable_end(), 1, true).unwrap();
        batches(&read.bytes).next().map(|batch| batch.unwrap().header().base_offset.0)
    };
    let at = |ms: i64| {
        let found = log.offset_for_timestamp(WallMillis(NOW.wall.0 + ms), log.durable_end()).unwrap();
        found.map(|found| found.offset.0)
    };
    (0..2 * BATCHES).map(from).chain((-5..10 * BATCHES + 20).map(at)).collect()
}

/// What happens to an index file.
type Harm = (&'static str, fn(&mut Vec<u8>));

const HARMS: [Harm; 6] = [
    ("empty", Vec::clear),
    ("cut inside an entry", |bytes| bytes.truncate(bytes.len().saturating_sub(3))),
    ("zeroes", |bytes| bytes.fill(0)),
    ("zeroes behind", |bytes| bytes.extend([0; 24])),
    ("ones", |bytes| bytes.fill(0xff)),
    ("entries twice", |bytes| bytes.extend_from_within(..)),
];

fn check_harmed_indexes(orderly: bool) {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, SMALL);
    for topic in ["harmed", "other"] {
        fill(&create(&logs, topic, SMALL), 0, BATCHES);
    }
    let expected = looked_up(&find(&logs, "harmed"));
    let end = |logs: Logs| {
        if orderly {
            logs.shutdown().unwrap();
        }
    };
    end(logs);
    let indexes = names(&disk, "harmed", "index");
    assert!(indexes.len() >= 4, "{indexes:?}");
    for index in &indexes {
        let path = file("harmed", index);
        for (harm, apply) in HARMS {
            disk.tamper(&path, apply).unwrap();
            let (logs, report) = open(&disk, SMALL);
            assert!(looked_up(&find(&logs, "harmed")) == expected, "{harm}: {index}, orderly {orderly}");
            let other = report.partitions.iter().find(|told| &*told.topic == "other");
            assert!(other.is_none_or(|other| other.rebuilt_indexes == 0), "{harm}: {index}");
            end(logs);
        }
        disk.remove_file(&path).unwrap();
        let (logs, _) = open(&disk, SMALL);
        assert!(looked_up(&find(&logs, "harmed")) == expected, "without {index}, orderly {orderly}");
        end(logs);
    }
    // Both files of a segment, and those of all of them.
    for index in &indexes {
        disk.remove_file(&file("harmed", index)).unwrap();
    }
    let (logs, _) = open(&disk, SMALL);
    assert_eq!(looked_up(&find(&logs, "harmed")), expected);
}

#[test]
fn s_03_harmed_indexes_are_built_anew_after_a_crash() {
    check_harmed_indexes(false);
}

#[test]
fn s_03_harmed_indexes_are_built_anew_after_an_orderly_end() {
    check_harmed_indexes(true);
}
