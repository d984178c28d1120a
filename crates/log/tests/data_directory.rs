//! A data directory on the file system, as a server uses it.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{
    num::NonZeroUsize,
    path::Path,
    sync::{Arc, atomic::AtomicI64, atomic::Ordering},
    thread,
};

use riparian_log::{
    Disk, FlushMode, FsDisk, Identity, LogConfig, Logs, LogsConfig, MemDisk, MemFaults, OpenError, PartitionLog,
    RecoveryReport,
};
use riparian_records::{BatchBuilder, BatchOptions, Producer, batches, check_produced};
use riparian_types::{
    LeaderEpoch, MonoMillis, NodeId, Now, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicName, Uuid,
    WallMillis,
};

const NOW: Now = Now { mono: MonoMillis(0), wall: WallMillis(1_000_000) };
const CONFIG: LogConfig = LogConfig { segment_bytes: 64 * 1024, ..LogConfig::KAFKA };

fn identity(node_id: i32, cluster_id: Option<&str>) -> Identity {
    Identity {
        node_id: NodeId(node_id),
        cluster_id: cluster_id.map(str::to_owned),
        new_cluster_id: "made-up".to_owned(),
        new_directory_id: Uuid::from_random(1, 2),
    }
}

fn try_open<D: Disk + 'static>(
    root: &Path,
    disk: &Arc<D>,
    identity: Identity,
) -> Result<(Logs, RecoveryReport), OpenError> {
    let config = LogsConfig {
        flush: FlushMode::Sync,
        producer_expiration_ms: 1000,
        topic_defaults: CONFIG,
        recovery_threads: 4,
        read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
    };
    let disk: Arc<D> = Arc::clone(disk);
    Logs::open(disk, root, identity, config, NOW.wall)
}

fn disk(handles: usize) -> Arc<FsDisk> {
    Arc::new(FsDisk::new(NonZeroUsize::new(handles).unwrap()))
}

fn create(logs: &Logs, topic: &str, partition: i32) -> Arc<PartitionLog> {
    logs.create(&TopicName::from(topic), Uuid::from_halves(7, 8), PartitionIndex(partition), CONFIG).unwrap()
}

fn batch(producer_id: i64, sequence: i32) -> Vec<u8> {
    let producer = Producer { id: ProducerId(producer_id), epoch: ProducerEpoch(0), base_sequence: Sequence(sequence) };
    let mut builder = BatchBuilder::new(BatchOptions { producer: Some(producer), ..BatchOptions::PLAIN });
    builder.push(NOW.wall, Some(&producer_id.to_be_bytes()), Some(&sequence.to_be_bytes()));
    builder.build()
}

fn append(log: &PartitionLog, producer_id: i64, sequence: i32) -> Offset {
    let bytes = batch(producer_id, sequence);
    let produced = check_produced(&bytes, &CONFIG.produce_rules(true), NOW.wall).unwrap();
    log.append_produced(NOW, LeaderEpoch(0), &produced).unwrap().base_offset
}

/// Sequence numbers by producer, in the order of the log.
fn sequences(log: &PartitionLog, producer_id: i64) -> Vec<i32> {
    let (mut found, mut from) = (Vec::new(), log.start_offset());
    while from < log.durable_end() {
        let read = log.read(from, log.durable_end(), 1 << 20, true).unwrap();
        for batch in batches(&read.bytes) {
            let header = *batch.unwrap().header();
            if header.producer_id == ProducerId(producer_id) {
                found.push(header.base_sequence.0);
            }
        }
        from = read.next_offset;
    }
    found
}

#[test]
fn a_directory_has_one_server_of_one_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("made/when/missing");
    let disk = disk(100);
    let (logs, report) = try_open(&root, &disk, identity(1, None)).unwrap();
    assert!(report.is_new);
    assert_eq!((logs.cluster_id(), logs.directory_id()), ("made-up", Uuid::from_random(1, 2)));
    assert!(matches!(try_open(&root, &disk, identity(1, None)), Err(OpenError::InUse { path }) if path == root));
    drop(logs);
    assert!(matches!(try_open(&root, &disk, identity(2, None)), Err(OpenError::OtherNode { stored: 1, .. })));
    let other = try_open(&root, &disk, identity(1, Some("mine")));
    assert!(matches!(other, Err(OpenError::OtherCluster { stored, .. }) if stored == "made-up"));
    let (logs, report) = try_open(&root, &disk, identity(1, Some("made-up"))).unwrap();
    assert!(!report.is_new && !report.clean_shutdown);
    drop(logs);
    std::fs::write(root.join("meta.properties"), "version=0\n").unwrap();
    let error = try_open(&root, &disk, identity(1, None)).unwrap_err();
    assert!(error.to_string().ends_with("meta.properties: version is not 1"), "{error}");
}

#[test]
fn a_thousand_partitions_need_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(16);
    for round in 0..2 {
        let (logs, report) = try_open(dir.path(), &disk, identity(1, None)).unwrap();
        assert_eq!(report.log_count, if round == 0 { 0 } else { 1000 });
        assert_eq!(report.clean_shutdown, round == 1);
        for partition in 0..1000 {
            let log = create(&logs, "many", partition);
            append(&log, 1, round);
            if partition % 100 == 0 {
                log.sync().unwrap();
            }
            assert!(disk.handle_count() <= 16);
        }
        assert_eq!(logs.all().len(), 1000);
        let log = logs.find("many", PartitionIndex(999)).unwrap();
        assert_eq!(log.end_offset(), Offset(i64::from(round) + 1));
        assert!(logs.find("many", PartitionIndex(1000)).is_none() && logs.find("few", PartitionIndex(0)).is_none());
        logs.shutdown().unwrap();
    }
}

#[test]
fn many_threads_append_and_share_syncs() {
    const APPENDS: i32 = 200;
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(8);
    let (logs, _) = try_open(dir.path(), &disk, identity(1, None)).unwrap();
    let log = create(&logs, "shared", 0);
    let syncs = AtomicI64::new(0);
    thread::scope(|scope| {
        for producer_id in 0..8 {
            let (log, syncs) = (&log, &syncs);
            scope.spawn(move || {
                for sequence in 0..APPENDS {
                    let offset = append(log, producer_id, sequence);
                    while log.durable_end() <= offset {
                        match log.take_sync() {
                            Some(ticket) => {
                                let result = ticket.run();
                                log.finish_sync(ticket, result).unwrap();
                                syncs.fetch_add(1, Ordering::Relaxed);
                            }
                            None => thread::yield_now(),
                        }
                    }
                }
            });
        }
        scope.spawn(|| {
            // A reader meanwhile sees whole batches and nothing that isn't durable.
            let mut from = Offset(0);
            while from.0 < 8 * i64::from(APPENDS) {
                let upto = log.durable_end();
                let read = log.read(from, upto, 2000, true).unwrap();
                assert!(read.next_offset <= upto && batches(&read.bytes).all(|batch| batch.is_ok()));
                from = read.next_offset;
            }
        });
    });
    assert!(syncs.into_inner() <= i64::from(8 * APPENDS));
    drop((logs, log));
    let (logs, report) = try_open(dir.path(), &disk, identity(1, None)).unwrap();
    assert!(report.partitions.iter().all(|partition| partition.cut.is_none()));
    let log = logs.find("shared", PartitionIndex(0)).unwrap();
    for producer_id in 0..8 {
        assert_eq!(sequences(&log, producer_id), (0..APPENDS).collect::<Vec<_>>());
    }
}

#[test]
fn deleting_a_topic_while_it_is_used_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(8);
    let (logs, _) = try_open(dir.path(), &disk, identity(1, None)).unwrap();
    for round in 0..20 {
        let topic_id = Uuid::from_halves(1, round);
        let log = logs.create(&TopicName::from("t"), topic_id, PartitionIndex(0), CONFIG).unwrap();
        assert_eq!(append(&log, 1, 0), Offset(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut sequence = 1;
                loop {
                    let bytes = batch(1, sequence);
                    let produced = check_produced(&bytes, &CONFIG.produce_rules(true), NOW.wall).unwrap();
                    if log.append_produced(NOW, LeaderEpoch(0), &produced).is_err() {
                        break;
                    }
                    // Its file may be gone by now; nobody waits for it any more.
                    let _ = log.sync();
                    let _ = log.read(Offset(0), log.durable_end(), 100, true);
                    sequence += 1;
                }
            });
            logs.delete_topic("t").unwrap().remove().unwrap();
        });
        assert!(matches!(
            logs.create(&TopicName::from("t"), topic_id, PartitionIndex(-1), CONFIG),
            Err(OpenError::Partition { .. })
        ));
        assert!(logs.topics().is_empty());
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // The lock, the properties and two checkpoints.
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn a_directory_is_durable_although_its_first_start_was_killed() {
    let root = Path::new("/data");
    for killed_after_syncs in 0..4 {
        let disk = Arc::new(MemDisk::new());
        disk.set_faults(MemFaults { syncs_max: Some(killed_after_syncs), ..MemFaults::default() });
        let first = try_open(root, &disk, identity(1, None));
        assert_eq!(first.is_ok(), killed_after_syncs > 2, "a new directory takes three syncs");
        drop(first);
        disk.set_faults(MemFaults::default());
        let (logs, _) = try_open(root, &disk, identity(1, None)).unwrap();
        let log = create(&logs, "t", 0);
        append(&log, 1, 0);
        log.sync().unwrap();
        drop(logs);
        disk.power_cut();
        let (logs, _) = try_open(root, &disk, identity(1, None)).unwrap();
        assert_eq!(sequences(&create(&logs, "t", 0), 1), [0], "first start killed after {killed_after_syncs} syncs");
    }
}
