//! What a partition log does, seen through [`Logs`] on a disk in memory.

use std::{path::Path, sync::Arc};

use riparian_records::{BatchBuilder, BatchOptions, Producer, batches, check_produced};
use riparian_types::{
    LeaderEpoch, MonoMillis, NodeId, Now, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicName, Uuid,
    WallMillis,
};

use super::{Appended, PartitionLog};
use crate::{AppendError, Disk, FlushMode, Identity, LogConfig, Logs, LogsConfig, MemDisk, OpenError, RecoveryReport};

mod append;
mod crash;
mod format;
mod lend;
mod read;
mod recovery;
mod trim;

const ROOT: &str = "/data";
const DIR: &str = "/data/t-0";
const TOPIC_ID: Uuid = Uuid::from_halves(0x1111, 0x2222);
const EPOCH: LeaderEpoch = LeaderEpoch(5);

/// A data directory with one topic `t`, and a server that can be stopped in several ways.
struct Fixture {
    disk: Arc<MemDisk>,
    config: LogConfig,
    flush: FlushMode,
    logs: Option<Logs>,
    report: RecoveryReport,
}

impl Fixture {
    fn new(config: LogConfig) -> Self {
        let disk = Arc::new(MemDisk::new());
        let mut fixture = Self { disk, config, flush: FlushMode::Sync, logs: None, report: RecoveryReport::default() };
        fixture.open();
        fixture
    }

    fn try_open(&mut self) -> Result<(), OpenError> {
        self.logs = None;
        let identity = Identity {
            node_id: NodeId(1),
            cluster_id: None,
            new_cluster_id: "cluster".to_owned(),
            new_directory_id: Uuid::from_halves(3, 4),
        };
        let config = LogsConfig {
            flush: self.flush,
            producer_expiration_ms: 86_400_000,
            topic_defaults: self.config,
            recovery_threads: 1,
            read_at_open_bytes: 1000,
        };
        let disk: Arc<dyn Disk> = Arc::<MemDisk>::clone(&self.disk);
        let (logs, report) = Logs::open(disk, Path::new(ROOT), identity, config, at(0).wall)?;
        (self.logs, self.report) = (Some(logs), report);
        Ok(())
    }

    fn open(&mut self) {
        self.try_open().unwrap();
    }

    /// What a power cut leaves, opened again.
    fn power_cut(&mut self) {
        self.logs = None;
        self.disk.power_cut();
        self.open();
    }

    /// As after SIGKILL: everything written is there.
    fn kill(&mut self) {
        self.open();
    }

    fn restart(&mut self) {
        self.logs().shutdown().unwrap();
        self.open();
    }

    fn logs(&self) -> &Logs {
        self.logs.as_ref().unwrap()
    }

    fn log(&self) -> Arc<PartitionLog> {
        self.logs().create(&TopicName::from("t"), TOPIC_ID, PartitionIndex(0), self.config).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = self.disk.list(Path::new(DIR)).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.disk.read_file(&Path::new(DIR).join(name)).unwrap().unwrap()
    }
}

fn at(ms: i64) -> Now {
    Now { mono: MonoMillis(ms as u64), wall: WallMillis(1_000_000 + ms) }
}

/// A batch of this many records of 100 bytes, all made at this time.
fn batch(ms: i64, count: usize) -> Vec<u8> {
    build(ms, count, None)
}

fn build(ms: i64, count: usize, producer: Option<Producer>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { producer, ..BatchOptions::PLAIN });
    for n in 0..count {
        builder.push(at(ms).wall, Some(&[n as u8; 10]), Some(&[0xee; 90]));
    }
    builder.build()
}

fn producer(id: i64, epoch: i16, sequence: i32) -> Option<Producer> {
    Some(Producer { id: ProducerId(id), epoch: ProducerEpoch(epoch), base_sequence: Sequence(sequence) })
}

fn produce(log: &PartitionLog, ms: i64, bytes: &[u8]) -> Result<Appended, AppendError> {
    let produced = check_produced(bytes, &log.config().produce_rules(true), at(ms).wall).unwrap();
    log.append_produced(at(ms), EPOCH, &produced)
}

/// Appends batches of two records and syncs; batch `n` is made at `n` ms.
fn fill(log: &PartitionLog, batch_count: i64) {
    for n in 0..batch_count {
        produce(log, n, &batch(n, 2)).unwrap();
    }
    log.sync().unwrap();
}

/// Base and last offset of every batch that a reader sees from here on.
fn offsets(log: &PartitionLog, from: i64) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    let mut from = Offset(from);
    loop {
        let read = log.read(from, log.durable_end(), 300, true).unwrap();
        if read.next_offset == from {
            return found;
        }
        from = read.next_offset;
        for batch in batches(&read.bytes) {
            let batch = batch.unwrap();
            assert_eq!(batch.header().leader_epoch, EPOCH);
            found.push((batch.header().base_offset.0, batch.header().last_offset().0));
        }
    }
}

/// What [`offsets`] gives for a log filled by [`fill`] between these offsets.
fn pairs(from: i64, upto: i64) -> Vec<(i64, i64)> {
    (from / 2..upto / 2).map(|n| (2 * n, 2 * n + 1)).collect()
}
