//! Field cases S-01 and S-10 (`docs/field-cases.md`): starts that are killed, and disks that are full.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{path::Path, sync::Arc};

use riparian_log::{
    AppendError, Disk as _, FlushMode, Identity, LogConfig, Logs, LogsConfig, MemDisk, MemFaults, OpenError,
    PartitionLog, ReadError, RecoveryReport, Unavailable,
};
use riparian_records::{BatchBuilder, BatchOptions, batches, check_produced};
use riparian_types::{LeaderEpoch, MonoMillis, NodeId, Now, Offset, PartitionIndex, Uuid, WallMillis};

const NOW: Now = Now { mono: MonoMillis(0), wall: WallMillis(1_000_000) };
const SMALL: LogConfig = LogConfig { segment_bytes: 1500, index_interval_bytes: 300, ..LogConfig::KAFKA };
const MARKER: &str = "/data/.kafka_cleanshutdown";

fn try_open(disk: &Arc<MemDisk>, config: LogConfig) -> Result<(Logs, RecoveryReport), OpenError> {
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
        recovery_threads: 1,
        read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
    };
    let disk = Arc::<MemDisk>::clone(disk);
    Logs::open(disk, Path::new("/data"), identity, config, NOW.wall)
}

fn create(logs: &Logs, topic: &str, config: LogConfig) -> Arc<PartitionLog> {
    logs.create(&topic.into(), Uuid::from_halves(7, topic.len() as u64), PartitionIndex(0), config).unwrap()
}

fn append(log: &PartitionLog, value_bytes: usize) -> Result<Offset, AppendError> {
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    // A record's time tells its offset.
    builder.push(WallMillis(NOW.wall.0 + log.end_offset().0), Some(b"key"), Some(&vec![0xee; value_bytes]));
    let bytes = builder.build();
    let produced = check_produced(&bytes, &log.config().produce_rules(true), NOW.wall).unwrap();
    log.append_produced(NOW, LeaderEpoch(0), &produced).map(|appended| appended.base_offset)
}

fn fill(log: &PartitionLog, count: usize, value_bytes: usize) {
    for _ in 0..count {
        append(log, value_bytes).unwrap();
    }
}

/// Offsets of all records, each of them in a batch with a right checksum.
fn offsets(log: &PartitionLog) -> Result<Vec<i64>, ReadError> {
    let (mut found, mut from) = (Vec::new(), log.start_offset());
    while from < log.durable_end() {
        let read = log.read(from, log.durable_end(), 1000, true)?;
        found.extend(batches(&read.bytes).map(|batch| batch.unwrap().header().base_offset.0));
        from = read.next_offset;
    }
    Ok(found)
}

fn upto(end: i64) -> Vec<i64> {
    (0..end).collect()
}

/// Prepares a directory and starts on it, killed at every place where a start can be killed; then looks at what the next
/// start finds.
fn check_killed_starts(prepare: impl Fn(&Arc<MemDisk>), look: impl Fn(&Logs, &RecoveryReport)) {
    for syncs in 0.. {
        for power_goes in [false, true] {
            let disk = Arc::new(MemDisk::new());
            prepare(&disk);
            let syncs_max = Some(disk.sync_count() + syncs);
            disk.set_faults(MemFaults { syncs_max, ..MemFaults::default() });
            let was_killed = try_open(&disk, LogConfig::KAFKA).is_err();
            disk.set_faults(MemFaults::default());
            if power_goes {
                disk.power_cut();
            }
            // Before the first sync the start has done nothing that lasts.
            if syncs > 0 || !power_goes {
                assert_eq!(disk.read_file(Path::new(MARKER)).unwrap(), None, "nothing was orderly, {syncs} syncs");
            }
            let (logs, report) = try_open(&disk, LogConfig::KAFKA).unwrap();
            look(&logs, &report);
            if !was_killed && power_goes {
                assert!(syncs > 0, "a start syncs something");
                return;
            }
        }
    }
}

const FIRST: &str = "/data/damaged-0/00000000000000000000.log";

#[test]
fn s_01_a_start_that_is_killed_after_an_orderly_end_does_not_count_as_orderly() {
    // More than is read at every start.
    let prepare = |disk: &Arc<MemDisk>| {
        let (logs, _) = try_open(disk, LogConfig::KAFKA).unwrap();
        for topic in ["damaged", "other"] {
            let log = create(&logs, topic, LogConfig::KAFKA);
            fill(&log, 150, 10_000);
        }
        logs.shutdown().unwrap();
    };
    let look = |logs: &Logs, report: &RecoveryReport| {
        let [offline] = &report.offline[..] else { panic!("{:?}", report.offline) };
        assert!(offline.error.to_string().contains("where offset 149 is due"), "{}", offline.error);
        let log = logs.find("damaged", PartitionIndex(0)).unwrap();
        assert_eq!(log.unavailable(), Some(Unavailable::Damaged));
        assert!(log.read(Offset(149), Offset(150), 1, true).is_err(), "what has a wrong checksum is never served");
        assert!(append(&log, 1).is_err(), "offset 149 was acknowledged once, and is not given again");
        assert_eq!(offsets(&logs.find("other", PartitionIndex(0)).unwrap()).unwrap(), upto(150));
    };
    let damage = |bytes: &mut Vec<u8>| {
        let length = bytes.len();
        bytes[length - 50..].fill(0x55);
    };
    check_killed_starts(
        |disk| {
            prepare(disk);
            disk.tamper(Path::new(FIRST), damage).unwrap();
        },
        look,
    );
    // Already the first start sees it, and all that follow on orderly ends.
    let disk = Arc::new(MemDisk::new());
    prepare(&disk);
    disk.tamper(Path::new(FIRST), damage).unwrap();
    for _ in 0..3 {
        let (logs, report) = try_open(&disk, LogConfig::KAFKA).unwrap();
        look(&logs, &report);
        logs.shutdown().unwrap();
    }
}

#[test]
fn s_01_recovery_that_is_killed_begins_anew() {
    let prepare = |disk: &Arc<MemDisk>| {
        let (logs, _) = try_open(disk, LogConfig::KAFKA).unwrap();
        for topic in ["damaged", "other"] {
            let log = create(&logs, topic, SMALL);
            fill(&log, 20, 100);
            log.sync().unwrap();
            // Never durable, and damaged.
            append(&log, 100).unwrap();
        }
        drop(logs);
        let last = disk.list(Path::new("/data/damaged-0")).unwrap();
        let last = last.into_iter().rfind(|entry| entry.name.ends_with(".log")).unwrap();
        let path = Path::new("/data/damaged-0").join(last.name);
        disk.tamper(&path, |bytes| *bytes.last_mut().unwrap() ^= 1).unwrap();
    };
    check_killed_starts(prepare, |logs, report| {
        assert!(report.offline.is_empty());
        let log = logs.find("damaged", PartitionIndex(0)).unwrap();
        assert_eq!(offsets(&log).unwrap(), upto(20));
        assert_eq!(append(&log, 1).unwrap(), Offset(20));
    });
}

/// Appends until the disk is full, and on for a while; returns how many records were acknowledged.
fn fill_up(logs: &Logs, sync_every: i64) -> i64 {
    let mut log = create(logs, "t", SMALL);
    let mut failures = 0;
    for n in 1.. {
        let appended = append(&log, 100);
        let synced = if n % sync_every == 0 { log.sync().map(|_| ()) } else { Ok(()) };
        if appended.is_err() || synced.is_err() {
            failures += 1;
        }
        if log.unavailable().is_some() {
            // It may be that it can't be opened again before there is room.
            match logs.reopen(&"t".into(), log.topic_id(), PartitionIndex(0), NOW.wall) {
                Ok(again) => log = again,
                Err(_) => break,
            }
        }
        if failures > 3 {
            break;
        }
    }
    log.durable_end().0
}

#[test]
fn s_10_a_full_disk_loses_nothing_acknowledged_and_starts_full_and_emptied() {
    let room = |disk: &Arc<MemDisk>| disk.set_faults(MemFaults::default());
    // Wherever the disk happens to be full: in a batch, an index, a snapshot, a checkpoint.
    for (n, extra_bytes) in (0..6000).step_by(23).enumerate() {
        let disk = Arc::new(MemDisk::new());
        let (logs, _) = try_open(&disk, SMALL).unwrap();
        let capacity_bytes = Some(disk.used_bytes() + extra_bytes);
        let full = || disk.set_faults(MemFaults { capacity_bytes, ..MemFaults::default() });
        full();
        let acknowledged = fill_up(&logs, 1 + n as i64 % 4);
        let _ = logs.write_checkpoints();
        match n % 3 {
            0 => drop(logs),
            1 => {
                drop(logs);
                disk.power_cut();
            }
            // An orderly end, as far as it goes.
            _ => {
                let _ = logs.shutdown();
                drop(logs);
            }
        }
        let what = format!("{extra_bytes} bytes of room, end {}", n % 3);
        // It starts although it is full, and everything can be read.
        let (logs, report) = try_open(&disk, SMALL).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(report.offline.is_empty(), "{what}: {:?}", report.offline);
        let log = create(&logs, "t", SMALL);
        let found = offsets(&log).unwrap();
        assert!(found.len() as i64 >= acknowledged && found == upto(found.len() as i64), "{what}: {found:?}");
        let more = fill_up(&logs, 1);
        assert!(more >= acknowledged, "{what}");
        // With room again everything goes on, without help.
        room(&disk);
        let log = match create(&logs, "t", SMALL) {
            log if log.unavailable().is_some() => {
                logs.reopen(&"t".into(), log.topic_id(), PartitionIndex(0), NOW.wall).unwrap()
            }
            log => log,
        };
        let end = append(&log, 100).unwrap().0 + 1;
        fill(&log, 30, 100);
        log.sync().unwrap();
        assert_eq!(offsets(&log).unwrap(), upto(end + 30), "{what}");
        logs.write_checkpoints().unwrap();
        drop((log, logs));
        disk.power_cut();
        let (logs, report) = try_open(&disk, SMALL).unwrap();
        assert!(report.offline.is_empty(), "{what}");
        let log = create(&logs, "t", SMALL);
        assert_eq!(offsets(&log).unwrap(), upto(end + 30), "{what}");
        for offset in upto(end + 30) {
            let found = log.offset_for_timestamp(WallMillis(NOW.wall.0 + offset), log.durable_end()).unwrap();
            assert_eq!(found.unwrap().offset, Offset(offset), "{what}: by time");
        }
    }
}
