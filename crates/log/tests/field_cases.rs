//! Cases from the field, by their ids (`docs/field-cases.md`), about files that are not what they were.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use riparian_log::{
    Disk as _, FlushMode, Identity, LogConfig, Logs, LogsConfig, MemDisk, OpenError, PartitionLog, ReadError,
    RecoveryReport, Unavailable,
};
use riparian_records::{BatchBuilder, BatchOptions, batches, check_produced};
use riparian_types::{LeaderEpoch, MonoMillis, NodeId, Now, Offset, PartitionIndex, TopicName, Uuid, WallMillis};

const NOW: Now = Now { mono: MonoMillis(0), wall: WallMillis(1_000_000) };
const BATCHES: i64 = 40;

fn open(disk: &Arc<MemDisk>, config: LogConfig) -> (Logs, RecoveryReport) {
    open_at(disk, config, NOW.wall)
}

fn open_at(disk: &Arc<MemDisk>, config: LogConfig, now: WallMillis) -> (Logs, RecoveryReport) {
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
        read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
    };
    let disk = Arc::<MemDisk>::clone(disk);
    Logs::open(disk, Path::new("/data"), identity, config, now).unwrap()
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

/// The files of a topic, but for those that may be written while it is offline.
fn contents(disk: &MemDisk, topic: &str) -> Vec<(String, Vec<u8>)> {
    let entries = disk.list(&Path::new("/data").join(format!("{topic}-0"))).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names.map(|name| (name.clone(), disk.read_file(&file(topic, &name)).unwrap().unwrap())).collect()
}

#[test]
fn s_02_damage_below_what_was_durable_takes_one_partition_offline() {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, LogConfig::KAFKA);
    let healthy: Vec<String> = (0..50).map(|n| format!("healthy{n}")).collect();
    for topic in healthy.iter().map(String::as_str).chain(DAMAGES.iter().map(|damage| damage.0)) {
        fill(&create(&logs, topic, LogConfig::KAFKA), 0, 3);
    }
    logs.write_checkpoints().unwrap();
    drop(logs);
    let size = batch(0).len();
    for (topic, damage, _) in DAMAGES {
        disk.tamper(&file(topic, FIRST), |bytes| damage(bytes, 2 * size)).unwrap();
    }
    // A file that is gone, and one that ends with a whole batch.
    disk.remove_file(&file("healthy48", FIRST)).unwrap();
    disk.tamper(&file("healthy49", FIRST), |bytes| bytes.truncate(size)).unwrap();
    let (more, healthy) = (&healthy[48..], &healthy[..48]);
    let damaged = DAMAGES.iter().filter(|(_, _, left)| *left < 3).map(|damage| damage.0);
    let damaged: Vec<&str> = damaged.chain(more.iter().map(String::as_str)).collect();
    let before: Vec<_> = damaged.iter().map(|topic| contents(&disk, topic)).collect();
    // The next starts follow on a crash, an orderly end, and once more that: none forgets it.
    for (start, is_orderly) in [true, true, false].into_iter().enumerate() {
        let (logs, report) = open(&disk, LogConfig::KAFKA);
        let mut told: Vec<&str> = report.offline.iter().map(|offline| offline.topic.as_str()).collect();
        let mut expected = damaged.clone();
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected, "start {start}");
        for (topic, _, left) in DAMAGES.iter().filter(|(_, _, left)| *left < 3) {
            let told = report.offline.iter().find(|offline| offline.topic.as_str() == *topic).unwrap();
            assert_eq!(told.recovery_point, Offset(6));
            let text = told.error.to_string();
            let place = format!(
                "{topic}-0/{FIRST} is damaged at byte {}, where offset {} is due",
                size as i64 * left,
                2 * left
            );
            assert!(text.contains(&place), "{text}");
        }
        for topic in &damaged {
            let log = find(&logs, topic);
            assert_eq!(log.unavailable(), Some(Unavailable::Damaged), "{topic}");
            assert!(
                log.damage().is_some_and(|damage| damage.contains("healthy4") || damage.contains(FIRST)),
                "{topic}"
            );
            assert!(matches!(bases(&log), Err(ReadError::Unavailable(Unavailable::Damaged)) | Ok(_)), "{topic}");
            assert!(log.read(Offset(0), Offset(6), 1, true).is_err() && log.delete_records(Offset(1)).is_err());
            let reopened = logs.reopen(&(*topic).into(), log.topic_id(), PartitionIndex(0), NOW.wall);
            assert!(matches!(reopened, Err(OpenError::Offline { .. })), "{topic}");
        }
        for topic in healthy {
            let log = find(&logs, topic);
            fill(&log, 3 + start as i64, 4 + start as i64);
            assert_eq!(bases(&log).unwrap().len(), 4 + start, "{topic}");
        }
        logs.write_checkpoints().unwrap();
        if is_orderly {
            logs.shutdown().unwrap();
        }
        drop(logs);
        let after: Vec<_> = damaged.iter().map(|topic| contents(&disk, topic)).collect();
        assert!(before == after, "the damaged files stay as they are");
    }
    // One topic is deleted, of the others the loss is accepted: their logs end before the damage, the rest is kept.
    let (logs, _) = open(&disk, LogConfig::KAFKA);
    logs.delete_topic("zeroes").unwrap().remove().unwrap();
    fill(&create(&logs, "zeroes", LogConfig::KAFKA), 0, 1);
    drop(logs);
    disk.remove_file(Path::new("/data/recovery-point-offset-checkpoint")).unwrap();
    let (logs, report) = open(&disk, LogConfig::KAFKA);
    assert!(report.offline.is_empty());
    assert_eq!(bases(&find(&logs, "zeroes")).unwrap(), [0]);
    for (topic, _, left) in DAMAGES.iter().filter(|(topic, _, left)| *left < 3 && *topic != "zeroes") {
        assert_eq!(bases(&find(&logs, topic)).unwrap().len() as i64, *left, "{topic}");
    }
}

#[test]
fn s_02_a_partition_that_lost_its_name_is_offline_and_its_topic_can_be_deleted() {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, LogConfig::KAFKA);
    for topic in ["nameless", "other"] {
        fill(&create(&logs, topic, LogConfig::KAFKA), 0, 3);
    }
    logs.write_checkpoints().unwrap();
    drop(logs);
    disk.tamper(&file("nameless", "partition.metadata"), Vec::clear).unwrap();
    let (logs, report) = open(&disk, LogConfig::KAFKA);
    assert_eq!(report.offline.len(), 1);
    assert!(matches!(report.offline[0].error, OpenError::PartitionMetadata { .. }));
    // Whoever knows the topic says which it is; another one is another one then.
    let log = create(&logs, "nameless", LogConfig::KAFKA);
    assert_eq!(log.unavailable(), Some(Unavailable::Damaged));
    assert!(logs.create(&"nameless".into(), Uuid::from_halves(1, 1), PartitionIndex(1), LogConfig::KAFKA).is_err());
    assert_eq!(bases(&find(&logs, "other")).unwrap(), [0, 2, 4]);
    logs.delete_topic("nameless").unwrap().remove().unwrap();
    fill(&create(&logs, "nameless", LogConfig::KAFKA), 0, 1);
    assert_eq!(bases(&find(&logs, "nameless")).unwrap(), [0]);
}

#[test]
fn s_02_damage_in_an_old_segment_without_indexes_leaves_the_rest_readable() {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, SMALL);
    fill(&create(&logs, "old", SMALL), 0, BATCHES);
    logs.write_checkpoints().unwrap();
    drop(logs);
    let size = batch(0).len();
    disk.tamper(&file("old", FIRST), |bytes| put(bytes, 3 * size, -1)).unwrap();
    for index in names(&disk, "old", "index") {
        disk.remove_file(&file("old", &index)).unwrap();
    }
    let (logs, report) = open(&disk, SMALL);
    assert!(report.offline.is_empty());
    let told = &report.partitions[0].damaged;
    assert_eq!((told.len(), told[0].position, told[0].offset), (1, 3 * size as u64, Offset(6)));
    let old = find(&logs, "old");
    assert_eq!(old.read(Offset(0), Offset(6), 10_000, true).unwrap().next_offset, Offset(6));
    assert!(matches!(old.read(Offset(6), old.durable_end(), 10_000, true), Err(ReadError::Damaged { .. })));
    assert!(matches!(bases(&old), Err(ReadError::Damaged { .. })), "the damage is not passed by");
    let second: i64 = names(&disk, "old", ".log")[1][..20].parse().unwrap();
    assert!(old.read(Offset(second), old.durable_end(), 10_000, true).is_ok());
}

/// The offset of a batch has no checksum.
#[test]
fn s_02_an_offset_that_reaches_into_the_next_segment_sends_no_reader_there() {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, SMALL);
    fill(&create(&logs, "old", SMALL), 0, BATCHES);
    logs.shutdown().unwrap();
    drop(logs);
    let size = batch(0).len();
    let second: i64 = names(&disk, "old", ".log")[1][..20].parse().unwrap();
    for offset in [second - 1, second, 2 * BATCHES, i64::MAX] {
        disk.tamper(&file("old", FIRST), |bytes| bytes[3 * size..][..8].copy_from_slice(&offset.to_be_bytes()))
            .unwrap();
        let (logs, report) = open(&disk, SMALL);
        assert!(report.offline.is_empty(), "{offset}");
        let old = find(&logs, "old");
        assert_eq!(old.read(Offset(0), Offset(6), 10_000, true).unwrap().next_offset, Offset(6), "{offset}");
        let read = old.read(Offset(6), old.durable_end(), 10_000, true);
        assert!(matches!(read, Err(ReadError::Damaged { .. })), "{offset}: {read:?}");
        assert!(old.read(Offset(second), old.durable_end(), 10_000, true).is_ok(), "{offset}");
        drop(old);
        logs.shutdown().unwrap();
    }
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

const HARMS: [Harm; 8] = [
    ("empty", Vec::clear),
    ("whole entries lost", |bytes| bytes.truncate(bytes.len().saturating_sub(24))),
    ("one entry left", |bytes| bytes.truncate(24)),
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

/// Times that are there, but look like nothing: of the first millisecond of all, and of records that have none.
#[test]
fn s_03_indexes_of_strange_times_are_built_once() {
    type Times = (&'static str, fn(i64) -> i64);
    let times: [Times; 5] = [
        ("zero", |_| 0),
        ("none", |_| -1),
        ("zero, then none", |n| if n == 0 { 0 } else { -1 }),
        ("none, then zero", |n| if n < BATCHES / 2 { -1 } else { 0 }),
        ("zero, then more", |n| n / 3),
    ];
    for (what, time) in times {
        for records in [1, 2] {
            for orderly in [false, true] {
                let disk = Arc::new(MemDisk::new());
                let (logs, _) = open(&disk, SMALL);
                let log = create(&logs, "t", SMALL);
                for n in 0..BATCHES {
                    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
                    (0..records).for_each(|_| builder.push(WallMillis(time(n)), Some(b"key"), Some(&[0xee; 80])));
                    let bytes = builder.build();
                    let produced = check_produced(&bytes, &SMALL.produce_rules(true), NOW.wall).unwrap();
                    log.append_produced(NOW, LeaderEpoch(0), &produced).unwrap();
                    log.sync().unwrap();
                }
                let end = |logs: Logs| {
                    if orderly {
                        logs.shutdown().unwrap();
                    }
                };
                drop(log);
                end(logs);
                for start in ["first", "second"] {
                    let (logs, report) = open(&disk, SMALL);
                    let rebuilt: usize = report.partitions.iter().map(|told| told.rebuilt_indexes).sum();
                    let case = format!("{what}, {records} records, orderly {orderly}, {start} start");
                    assert_eq!(rebuilt, 0, "{case}");
                    assert_eq!(find(&logs, "t").end_offset(), Offset(records * BATCHES), "{case}");
                    end(logs);
                }
            }
        }
    }
}

/// Batches of two records with much in them, some of them late, so that the largest time is not at the end.
fn fill_big(log: &PartitionLog, from: i64, upto: i64) {
    for n in from..upto {
        let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
        let early = if n % 10 == 9 { 500 } else { 0 };
        for ms in [10 * n - early, 10 * n + 5 - early] {
            builder.push(WallMillis(NOW.wall.0 + ms), Some(b"key"), Some(&[0xee; 10_000]));
        }
        let bytes = builder.build();
        let produced = check_produced(&bytes, &log.config().produce_rules(true), NOW.wall).unwrap();
        log.append_produced(NOW, LeaderEpoch(0), &produced).unwrap();
    }
    log.sync().unwrap();
}

/// Three closed segments and one that is too large to be read at every start.
const BIG: LogConfig = LogConfig { segment_bytes: 1_300_000, index_interval_bytes: 50_000, ..LogConfig::KAFKA };
const BIG_BATCHES: i64 = 255;

/// What was looked up, and how many bytes of which segments were read to open the log.
fn opened_big(disk: &Arc<MemDisk>) -> (Vec<Option<i64>>, BTreeMap<String, u64>) {
    disk.take_bytes_read();
    let (logs, _) = open(disk, BIG);
    let read = disk.take_bytes_read().into_iter().filter_map(|(path, bytes)| {
        let name = path.file_name()?.to_str()?.to_owned();
        (path.starts_with("/data/big-0") && name.ends_with(".log")).then_some((name, bytes))
    });
    let read = read.collect();
    let log = find(&logs, "big");
    let at = |ms: i64| {
        let found = log.offset_for_timestamp(WallMillis(NOW.wall.0 + ms), log.durable_end()).unwrap();
        found.map(|found| found.offset.0)
    };
    let latest = log.max_timestamp().unwrap().map(|found| found.offset.0);
    let from = |offset| log.read(Offset(offset), log.durable_end(), 1, true).map(|read| read.next_offset.0).ok();
    let times = (-600..10 * BIG_BATCHES + 20).step_by(5).map(at);
    let found = times.chain((0..2 * BIG_BATCHES).step_by(7).map(from)).chain([latest]).collect();
    logs.shutdown().unwrap();
    (found, read)
}

#[test]
fn s_03_indexes_that_lost_whole_entries_at_their_ends_are_built_anew_and_only_they() {
    let disk = Arc::new(MemDisk::new());
    let (logs, _) = open(&disk, BIG);
    fill_big(&create(&logs, "big", BIG), 0, BIG_BATCHES);
    logs.shutdown().unwrap();
    drop(logs);
    let segments = names(&disk, "big", ".log");
    assert_eq!(segments.len(), 4);
    let sizes: BTreeMap<&str, u64> =
        segments.iter().map(|name| (name.as_str(), disk.file_bytes(&file("big", name)).unwrap())).collect();
    assert!(sizes.values().all(|bytes| *bytes > 1_048_576), "{sizes:?}");
    let (expected, read) = opened_big(&disk);
    // The header of the last segment's first batch, and what follows its last index entry.
    assert!(read.len() <= 1 && read.values().all(|bytes| *bytes < 200_000), "{read:?}");
    for segment in &segments {
        for (kind, entry_bytes) in [("timeindex", 12), ("index", 8)] {
            let index = segment.replace("log", kind);
            let entries = disk.file_bytes(&file("big", &index)).unwrap() as usize / entry_bytes;
            assert!(entries > 10, "{index} has {entries}");
            for lost in [1, 2, entries - 1, entries] {
                disk.tamper(&file("big", &index), |bytes| bytes.truncate(bytes.len() - lost * entry_bytes)).unwrap();
                let (found, read) = opened_big(&disk);
                assert!(found == expected, "{index} without {lost} entries");
                let whole: Vec<&String> =
                    read.iter().filter(|(name, bytes)| **bytes >= sizes[name.as_str()]).map(|it| it.0).collect();
                assert_eq!(whole, [segment], "{index} without {lost} entries: {read:?}");
                let (found, read) = opened_big(&disk);
                assert!(
                    found == expected && read.values().all(|bytes| *bytes < 200_000),
                    "it is whole again: {read:?}"
                );
            }
        }
    }
    // Variants: entries that were added, and the file with the counts gone or nonsense, which says nothing then.
    let last = segments[3].replace("log", "timeindex");
    disk.tamper(&file("big", &last), |bytes| {
        let more = [&i64::MAX.to_be_bytes()[..], &[0x7f; 4]].concat();
        bytes.extend(more);
    })
    .unwrap();
    assert!(opened_big(&disk).0 == expected, "an entry more");
    for nonsense in ["", "0\n1\n0 1", "0\n1\nx y z\n", "1\n0\n", "0\n1\n0 99999 99999\n"] {
        disk.tamper(&file("big", "index-entries-checkpoint"), |bytes| *bytes = nonsense.into()).unwrap();
        assert!(opened_big(&disk).0 == expected, "{nonsense:?}");
    }
    disk.remove_file(&file("big", "index-entries-checkpoint")).unwrap();
    assert!(opened_big(&disk).0 == expected, "without it");
    let (found, read) = opened_big(&disk);
    assert!(found == expected && read.values().all(|bytes| *bytes < 200_000), "{read:?}");
}

/// Small segments that are kept for a minute, whatever times their records have.
const MINUTE: LogConfig = LogConfig {
    segment_bytes: 1000,
    retention_ms: Some(60_000),
    timestamp_after_max_ms: i64::MAX,
    timestamp_before_max_ms: i64::MAX,
    ..LogConfig::KAFKA
};

/// What producers send instead of the time, and whether the records are as old as they say.
type Kind = (&'static str, fn(i64) -> i64, bool);

fn append_at(log: &PartitionLog, timestamp: i64, now_ms: i64) -> Offset {
    let now = Now { mono: MonoMillis(now_ms as u64), wall: WallMillis(NOW.wall.0 + now_ms) };
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    builder.push(WallMillis(timestamp), Some(b"key"), Some(&[0xee; 300]));
    let bytes = builder.build();
    let produced = check_produced(&bytes, &log.config().produce_rules(true), now.wall).unwrap();
    let appended = log.append_produced(now, LeaderEpoch(0), &produced).unwrap();
    log.sync().unwrap();
    appended.base_offset
}

#[test]
fn s_08_wild_timestamps_neither_keep_records_for_ever_nor_take_fresh_ones() {
    let now = NOW.wall.0;
    let kinds: [Kind; 8] = [
        ("microseconds", |now| now * 1000, false),
        ("nanoseconds", |now| now.saturating_mul(1_000_000), false),
        ("largest", |_| i64::MAX, false),
        ("nothing", |_| -1, false),
        ("now", |now| now, false),
        ("seconds", |now| now / 1000, true),
        ("zero", |_| 0, true),
        ("mixed", |now| if now % 2 == 0 { now * 1000 } else { now / 1000 }, false),
    ];
    let disk = Arc::new(MemDisk::new());
    let (mut logs, _) = open(&disk, MINUTE);
    for (name, _, _) in kinds {
        create(&logs, name, MINUTE);
    }
    let mut next = 0;
    // Two minutes, a record each second, and the server is killed every now and then.
    for second in 0..120 {
        let now_ms = 1000 * second;
        for (name, time, is_old) in kinds {
            let log = find(&logs, name);
            log.set_config(MINUTE);
            let offset = append_at(&log, time(now + now_ms + second % 2), now_ms);
            assert_eq!(offset, Offset(next), "{name}: offsets go on");
            if is_old {
                continue;
            }
            log.enforce_retention(WallMillis(now + now_ms)).unwrap();
            log.sync().unwrap();
            // Whatever it says, what was written a moment ago is there.
            let start = log.start_offset();
            assert!(start <= Offset((next - 30).max(0)), "{name}: {start} at {next}");
            assert_eq!(log.read(Offset(next), log.durable_end(), 10_000, true).unwrap().next_offset, Offset(next + 1));
            assert_eq!(bases(&log).unwrap().last(), Some(&next), "{name}");
        }
        next += 1;
        if second % 50 == 49 {
            drop(logs);
            logs = open_at(&disk, MINUTE, WallMillis(now + now_ms)).0;
        }
    }
    // The disk does not say when files were written, so that the last start counts: a minute after that all are gone.
    for (name, _, is_old) in kinds {
        let log = find(&logs, name);
        log.set_config(MINUTE);
        log.enforce_retention(WallMillis(now + 120_000)).unwrap();
        log.sync().unwrap();
        log.enforce_retention(WallMillis(now + 120_000)).unwrap();
        assert!(!is_old || log.start_offset() == Offset(next), "{name}: {} of {next}", log.start_offset());
        log.enforce_retention(WallMillis(now + 120_000 + 61_000)).unwrap();
        log.sync().unwrap();
        log.enforce_retention(WallMillis(now + 120_000 + 61_000)).unwrap();
        assert_eq!((log.start_offset(), log.end_offset()), (Offset(next), Offset(next)), "{name}");
        assert!(log.byte_len() == 0 && names(&disk, name, ".log").len() == 1, "{name}: space is given back");
        assert_eq!(append_at(&log, kinds[0].1(now), 181_000), Offset(next), "{name}");
    }
}
