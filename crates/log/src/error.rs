//! What can go wrong, one type per operation.

use std::path::PathBuf;

use riparian_types::{Offset, PartitionIndex, TopicName, Uuid};

use crate::{disk::DiskError, producers::ProducerError, scan::Damage};

/// A partition log that serves nobody until it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// A sync failed: nobody knows what of the unsynced bytes is on the disk.
    #[error("a sync of the partition's log failed earlier; the log must be opened again")]
    SyncFailed,
    /// A failed write could not be taken back.
    #[error("a write to the partition's log failed earlier and could not be undone; the log must be opened again")]
    WriteFailed,
    /// A thread panicked while it changed the log.
    #[error("the partition's log was left half changed; it must be opened again")]
    Panicked,
    /// The topic was deleted, or the data directory was closed.
    #[error("the partition's log is closed")]
    Closed,
    /// Bytes that were durable once are damaged or gone. The files stay as they are until somebody repairs or deletes
    /// them; opening the log again would not help.
    #[error("the partition's log is damaged and offline")]
    Damaged,
}

/// Why a batch was not appended. The log is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The producer's batch contradicts what it has sent before.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// A client's batch doesn't fit into a segment. (RECORD_LIST_TOO_LARGE)
    #[error("batch has {bytes} bytes, more than a segment of {segment_bytes} bytes can hold (segment.bytes)")]
    LargerThanSegment {
        /// Bytes of the batch.
        bytes: usize,
        /// Bytes of a segment.
        segment_bytes: u32,
    },
    /// The disk did not take it.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log serves nobody at the moment.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The log has no such offset. (OFFSET_OUT_OF_RANGE)
    #[error("offset {offset} is not between {start} and {end}")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// The log's first offset.
        start: Offset,
        /// The offset after the log's last.
        end: Offset,
    },
    /// What lies in the file is not a batch.
    #[error("{} is damaged at byte {position}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        position: u64,
    },
    /// The disk did not give it.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log serves nobody at the moment.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why records were not deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrimError {
    /// Only durable records can be deleted. (OFFSET_OUT_OF_RANGE)
    #[error("offset {before} is beyond the high watermark {high_watermark}")]
    OutOfRange {
        /// The offset asked for.
        before: Offset,
        /// The durable end.
        high_watermark: Offset,
    },
    /// The disk did not do it.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log serves nobody at the moment.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl OpenError {
    /// Whether one partition's files are to blame, and everything else can be opened.
    pub(crate) const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Shortened { .. } | Self::PartitionMetadata { .. })
    }
}

/// Why a log, or the data directory, could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another server uses the directory.
    #[error("{} is used by another server", path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// `meta.properties` can't be read.
    #[error("{}: {what}", path.display())]
    MetaProperties {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The directory belongs to another node.
    #[error("{} belongs to node {stored}, not to node {configured} (node.id)", path.display())]
    OtherNode {
        /// The data directory.
        path: PathBuf,
        /// The node id in the directory.
        stored: i32,
        /// The node id that was configured.
        configured: i32,
    },
    /// The directory belongs to another cluster.
    #[error("{} belongs to cluster {stored}, not to cluster {configured}", path.display())]
    OtherCluster {
        /// The data directory.
        path: PathBuf,
        /// The cluster id in the directory.
        stored: String,
        /// The cluster id that was configured.
        configured: String,
    },
    /// Bytes that were durable once are no longer what they were.
    #[error("{} is damaged at byte {position}, where offset {offset} is due: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        position: u64,
        /// The offset after the last good batch.
        offset: Offset,
        /// What is wrong there.
        damage: Damage,
    },
    /// A log ends before an offset that was durable once.
    #[error("{} ends at offset {end}, but was durable up to {recovery_point}: its end is missing", dir.display())]
    Shortened {
        /// The partition's directory.
        dir: PathBuf,
        /// Where it ends.
        end: Offset,
        /// Up to where it was durable.
        recovery_point: Offset,
    },
    /// A partition's directory doesn't say which topic it belongs to.
    #[error("{} does not name a topic id", path.display())]
    PartitionMetadata {
        /// The file.
        path: PathBuf,
    },
    /// Two threads or calls create the same topic with different ids.
    #[error("topic {topic} exists with id {existing}, not {asked}")]
    OtherTopic {
        /// The topic.
        topic: TopicName,
        /// The id it has.
        existing: Uuid,
        /// The id it was to be created with.
        asked: Uuid,
    },
    /// A log can't be opened again while a sync of it runs.
    #[error("a sync of {topic}-{partition} is still running")]
    SyncRunning {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionIndex,
    },
    /// The log is damaged and stays so.
    #[error("{topic}-{partition} is damaged and offline")]
    Offline {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionIndex,
    },
    /// No such partition number.
    #[error("{topic} cannot have a partition {partition}")]
    Partition {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionIndex,
    },
    /// The disk did not do it.
    #[error(transparent)]
    Disk(#[from] DiskError),
}
