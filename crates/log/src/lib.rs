//! Partition logs in Kafka's file formats, over a [`Disk`] port.
//!
//! # How it is used
//!
//! ```text
//! Logs::open(disk, root, identity, config, now) -> (Logs, RecoveryReport)
//! logs.create(&topic, topic_id, partition, config) -> Arc<PartitionLog>      no files before the first append
//! logs.find("topic", partition)                    -> Option<Arc<PartitionLog>>
//! logs.delete_topic("topic")?.remove()
//! logs.delete_records(&log, before), logs.write_checkpoints(), logs.shutdown()
//!
//! check_produced(bytes, &log.config().produce_rules(zstd_allowed), now.wall)  -> ProducedBatch     (riparian-records)
//! log.append_produced(now, leader_epoch, &produced) -> Appended               a client's batch, producer checks
//! log.append_internal(now, leader_epoch, &bytes)    -> Appended               the server's own batches
//!
//! log.start_offset() <= log.durable_end() <= log.end_offset()                 durable end = high watermark
//! log.read(from, upto, bytes_max, at_least_one)     -> ReadBatches            whole batches, as `Bytes`
//! log.read_or_lend(...)                             -> Piece                  the same, or the file they are in
//! log.offset_for_timestamp(at, upto), log.max_timestamp(), log.end_offset_for_epoch(epoch)
//! log.delete_records(before), log.enforce_retention(now), log.set_config(config)
//! ```
//!
//! # Durability
//!
//! An append is in the operating system's cache when it returns. To make it durable, somebody runs a ticket:
//!
//! ```text
//! while let Some(ticket) = log.take_sync() {      // None: nothing to do, or somebody else has the ticket
//!     let result = ticket.run();                  // fdatasync, without any lock; partitions in parallel
//!     log.finish_sync(ticket, result)?;           // moves durable_end(); then complete who waits for it
//! }
//! ```
//!
//! Whoever holds the ticket goes on until there is none, so appends of many connections share one sync, and no append is
//! left behind as long as everyone who appended calls `take_sync` afterwards. [`PartitionLog::sync`] is this loop. With
//! [`FlushMode::Os`] the durable end is the end at once, and tickets appear only after a segment was closed.
//!
//! A failed sync makes the log unavailable ([`Unavailable::SyncFailed`]) until it is opened again ([`Logs::reopen`]).
//!
//! # Damage
//!
//! Bytes behind the last good batch that were never durable are cut off when a log is opened. Bytes that were durable
//! and are damaged or gone take their partition offline ([`Unavailable::Damaged`]), and no other; its files stay.
//!
//! # Invariants
//!
//! - All IO goes through [`Disk`]; nothing here reads a clock.
//! - What was durable survives a power cut; what was not is cut off whole batch by whole batch. See [`PartitionLog`].
//! - A log is in memory what opening its files would give, up to what isn't durable.
//!
//! It deliberately does not know what the records mean: groups, topics' metadata, transactions' outcomes.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod buffers;
mod config;
mod disk;
mod epochs;
mod error;
mod files;
mod index;
mod lent;
mod logs;
mod partition;
mod producers;
mod scan;
mod segment;

pub use config::{FlushMode, LogConfig, LogsConfig};
pub use disk::{DirEntry, Disk, DiskError, DiskOperation, FsDisk, LockGuard, MemDisk, MemFaults};
pub use error::{AppendError, OpenError, ReadError, TrimError, Unavailable};
pub use lent::{FilePart, LentFile, Piece};
pub use logs::{Garbage, Identity, Logs, OfflineLog, RecoveryReport};
pub use partition::{
    Appended, FoundTimestamp, PartitionLog, PartitionRecovery, ReadBatches, SegmentDamage, SyncTicket, TailCut,
};
pub use producers::ProducerError;
pub use scan::Damage;
