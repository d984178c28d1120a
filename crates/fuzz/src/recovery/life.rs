//! A log that is written as it should be, until the server ends in one way or another.
//!
//! ```text
//! settings u8, end u8, count u8, step*
//! ```

use std::{collections::BTreeMap, path::Path, sync::Arc};

use riparian_log::{
    AppendError, Appended, Disk, FlushMode, Identity, LogConfig, Logs, LogsConfig, MemDisk, OpenError, PartitionLog,
    RecoveryReport,
};
use riparian_records::{BatchBuilder, BatchOptions, ControlRecord, Producer, batches, check_produced};
use riparian_types::{
    LeaderEpoch, MonoMillis, NodeId, Now, Offset, PartitionIndex, Prng, ProducerEpoch, ProducerId, Sequence, TopicName,
    Uuid, WallMillis,
};

use super::{Files, Written};
use crate::input::Input;

pub(super) const ROOT: &str = "/data";
pub(super) const DIR: &str = "/data/t-0";
const TOPIC_ID: Uuid = Uuid::from_halves(0x1111, 0x2222);
const STEPS_MAX: usize = 24;

/// The log, and what the outside knows of it.
pub(super) struct Life {
    pub(super) disk: Arc<MemDisk>,
    config: LogConfig,
    flush: FlushMode,
    /// Every batch as it was stored.
    pub(super) written: Vec<Written>,
    /// The last batch of each idempotent producer, as it was sent, and the offset it got.
    pub(super) produced: BTreeMap<i64, (Vec<u8>, i64)>,
    /// The durable end when the server ended.
    pub(super) acknowledged: i64,
    /// Whether the durable end meant what it says.
    pub(super) is_acknowledged_durable: bool,
    /// A power cut may have taken any of its files.
    pub(super) may_lack_files: bool,
    /// The durable end as it was last written down.
    pub(super) checkpointed: i64,
    /// Where the log begins.
    pub(super) start: i64,
}

/// The file that says whose log it is.
pub(super) fn partition_metadata() -> String {
    format!("version: 0\ntopic_id: {TOPIC_ID}")
}

pub(super) fn now() -> Now {
    Now { mono: MonoMillis(0), wall: WallMillis(1_700_000_000_000) }
}

impl Life {
    pub(super) fn live(input: &mut Input<'_>) -> Self {
        let settings = input.u8();
        let config = LogConfig {
            segment_bytes: [300, 900, 2500, 1 << 30][usize::from(settings & 3)],
            index_interval_bytes: [1, 150, 1000, 4096][usize::from(settings >> 2 & 3)],
            ..LogConfig::KAFKA
        };
        let flush = if settings & 0x10 == 0 { FlushMode::Sync } else { FlushMode::Os };
        let mut life = Self {
            disk: Arc::new(MemDisk::new()),
            config,
            flush,
            written: Vec::new(),
            produced: BTreeMap::new(),
            acknowledged: 0,
            is_acknowledged_durable: flush == FlushMode::Sync,
            may_lack_files: false,
            checkpointed: 0,
            start: 0,
        };
        let end = input.u8();
        let mut logs = Some(life.open_good());
        let mut writer = Writer::default();
        for _ in 0..input.below(STEPS_MAX + 1) {
            life.step(&mut logs, &mut writer, input);
        }
        life.end(&logs.expect("every step leaves it open"), end);
        life
    }

    /// Opens the directory as a server does.
    pub(super) fn open(&self) -> Result<(Logs, RecoveryReport), OpenError> {
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
            read_at_open_bytes: 200,
        };
        let disk: Arc<dyn Disk> = Arc::<MemDisk>::clone(&self.disk);
        Logs::open(disk, Path::new(ROOT), identity, config, now().wall)
    }

    /// Every file as it is now.
    pub(super) fn files(&self) -> Files {
        files_in(&self.disk, Path::new(ROOT))
    }

    fn open_good(&self) -> Logs {
        self.open().unwrap_or_else(|error| panic!("nothing is damaged: {error}")).0
    }

    fn step(&mut self, opened: &mut Option<Logs>, writer: &mut Writer, input: &mut Input<'_>) {
        const GOOD: &str = "nothing is damaged, and the disk takes everything";
        let logs = opened.as_ref().expect("every step leaves it open");
        let log = log(logs, self.config);
        let step = input.u8();
        let count = 1 + usize::from(step >> 4) % 4;
        match step % 16 {
            0..=7 => {
                let bytes = batch(None, count, input.u8().into(), input.u8());
                self.append(&log, &bytes, writer.epoch);
            }
            8 | 9 => {
                let producer = usize::from(step >> 6);
                let bytes = batch(Some(writer.next(producer, count)), count, input.u8().into(), input.u8());
                self.append(&log, &bytes, writer.epoch);
            }
            10 | 11 => {
                log.sync().expect(GOOD);
            }
            12 => {
                logs.write_checkpoints().expect(GOOD);
                self.checkpointed = self.checkpointed.max(synced_end(&log, self.flush, self.checkpointed));
            }
            13 => {
                let durable = log.durable_end().0;
                let before = self.start + i64::from(input.u8()) % (durable - self.start + 1);
                logs.delete_records(&log, Offset(before)).expect(GOOD);
                self.start = before;
                self.checkpointed = self.checkpointed.max(synced_end(&log, self.flush, self.checkpointed));
            }
            14 => {
                let id = ProducerId(1000 + i64::from(step >> 6));
                let marker = ControlRecord::end_transaction(id, ProducerEpoch(0), step & 0x10 != 0, 1, now().wall);
                self.append(&log, &marker, writer.epoch);
            }
            _ => {
                writer.epoch += 1;
                if step & 0x30 == 0x30 {
                    logs.shutdown().expect(GOOD);
                    self.checkpointed = log.end_offset().0;
                    *opened = None;
                    *opened = Some(self.open_good());
                }
            }
        }
    }

    fn append(&mut self, log: &PartitionLog, bytes: &[u8], epoch: i32) {
        let end = log.end_offset().0;
        let is_control = batches(bytes).unverified().flatten().any(|batch| batch.header().is_control());
        let appended = if is_control {
            log.append_internal(now(), LeaderEpoch(epoch), bytes)
        } else {
            let rules = log.config().produce_rules(true);
            let produced = check_produced(bytes, &rules, now().wall).expect("the batch is good");
            log.append_produced(now(), LeaderEpoch(epoch), &produced)
        };
        // What is larger than a segment is refused.
        let Ok(appended) = appended else { return };
        assert_eq!(appended.base_offset.0, end);
        for batch in batches(bytes).unverified().flatten().filter(|batch| batch.header().has_producer_id()) {
            if !is_control {
                self.produced.insert(batch.header().producer_id.0, (bytes.to_vec(), end));
            }
        }
        let read = log.read(Offset(end), log.end_offset(), 1, true).expect("it was appended just now");
        self.written.extend(super::whole_batches(&read.bytes));
    }

    /// A producer that has heard nothing sends its last batch again.
    pub(super) fn append_again(&self, log: &PartitionLog, bytes: &[u8]) -> Result<Appended, AppendError> {
        let rules = log.config().produce_rules(true);
        let produced = check_produced(bytes, &rules, now().wall).expect("the batch was good");
        log.append_produced(now(), LeaderEpoch(i32::MAX), &produced)
    }

    fn end(&mut self, logs: &Logs, end: u8) {
        self.acknowledged = log(logs, self.config).durable_end().0;
        self.may_lack_files = self.flush == FlushMode::Os && end % 4 >= 2;
        match end % 4 {
            // Killed: everything that was written is there.
            0 => {}
            1 => {
                logs.shutdown().expect("nothing is damaged");
                self.checkpointed = self.written.last().map_or(0, |batch| batch.next);
            }
            2 => self.disk.power_cut(),
            _ => self.disk.power_cut_at_random(&mut Prng::new(u64::from(end >> 2))),
        }
    }
}

fn files_in(disk: &MemDisk, dir: &Path) -> Files {
    let mut files = Files::new();
    for entry in disk.list(dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            files.extend(files_in(disk, &path));
        } else if let Ok(Some(bytes)) = disk.read_file(&path) {
            files.insert(path, bytes);
        }
    }
    files
}

/// What is written down as durable: nobody tells whether it was synced, unless it has to be.
fn synced_end(log: &PartitionLog, flush: FlushMode, known: i64) -> i64 {
    match flush {
        FlushMode::Sync => log.durable_end().0,
        // Perhaps less; the check is the weaker for it.
        FlushMode::Os => known.max(log.durable_end().0),
    }
}

/// Whoever writes.
#[derive(Default)]
struct Writer {
    epoch: i32,
    sequences: [i32; 4],
}

impl Writer {
    fn next(&mut self, producer: usize, count: usize) -> Producer {
        let sequence = &mut self.sequences[producer];
        let base_sequence = Sequence(*sequence);
        *sequence += i32::try_from(count).expect("batches are small");
        Producer { id: ProducerId(producer as i64), epoch: ProducerEpoch(0), base_sequence }
    }
}

fn log(logs: &Logs, config: LogConfig) -> Arc<PartitionLog> {
    logs.create(&TopicName::from("t"), TOPIC_ID, PartitionIndex(0), config).expect("there is no other topic")
}

/// A batch of records of so many bytes, some time after the beginning.
pub(super) fn batch(producer: Option<Producer>, count: usize, bytes: usize, after_ms: u8) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { producer, ..BatchOptions::PLAIN });
    for index in 0..count {
        let at = WallMillis(now().wall.0 + i64::from(after_ms));
        builder.push(at, Some(&[index as u8]), Some(&vec![0xee; bytes]));
    }
    builder.build()
}
