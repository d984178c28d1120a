//! What is told of opening a log.

use std::path::PathBuf;

use riparian_types::{Offset, PartitionIndex, TopicName};

use crate::scan::Damage;

/// What was found and done while a log was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartitionRecovery {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// Bytes of batches that were read and checked.
    pub scanned_bytes: u64,
    /// What was cut off.
    pub cut: Option<TailCut>,
    /// Closed segments whose indexes were missing or wrong, and were built anew.
    pub rebuilt_indexes: usize,
    /// Closed segments that are damaged, as far as it was noticed: those whose indexes had to be built anew. Readers are
    /// told when they come there.
    pub damaged: Vec<SegmentDamage>,
}

/// Damage in a closed segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentDamage {
    /// The file.
    pub path: PathBuf,
    /// Where the good batches end.
    pub position: u64,
    /// The offset after the last good batch.
    pub offset: Offset,
    /// What is wrong there.
    pub damage: Damage,
}

/// The end of a log that was cut off.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TailCut {
    /// The file.
    pub path: PathBuf,
    /// Where the good batches end.
    pub position: u64,
    /// Bytes that were cut off, in this file and those after it.
    pub bytes: u64,
    /// The offset that the next record gets.
    pub end_offset: Offset,
    /// What is wrong there.
    pub damage: Damage,
    /// Whether good batches follow the damage. After a power cut that can be; otherwise the disk has lost something.
    pub batches_follow: bool,
    /// Where the bytes are that were cut off, if good batches are among them.
    pub kept: Vec<PathBuf>,
}
