//! One segment of a log: a file of batches and what is known about it in memory.

use std::{path::Path, sync::Arc};

use riparian_records::BatchHeader;
use riparian_types::{Offset, WallMillis};

use crate::{
    disk::{Disk, DiskError},
    index::{IndexedBatch, MemoryIndex, StoredIndex, TimestampOffset},
};

/// A segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: Offset,
    /// The file of batches: its name is not put together for every read and write.
    pub(crate) path: Arc<Path>,
    /// Bytes of whole batches in the file.
    pub(crate) bytes: u64,
    /// The largest timestamp, and the last offset of the batch that has it first.
    pub(crate) latest: Option<TimestampOffset>,
    /// The first batch's largest timestamp: the segment's age counts from it.
    pub(crate) first_timestamp: Option<WallMillis>,
    /// When the file was last written, as far as it is known: its age where timestamps say nothing.
    pub(crate) written_at: WallMillis,
    /// Whether damage was found between its batches: it is read batch by batch then.
    pub(crate) is_damaged: bool,
    pub(crate) index: SegmentIndex,
}

/// A segment's indexes.
#[derive(Clone, Debug)]
pub(crate) enum SegmentIndex {
    /// In memory, written behind: the active segment's, and those of segments not sealed yet.
    Memory(MemoryIndex),
    /// On disk, complete.
    Stored(StoredIndex),
}

impl Segment {
    pub(crate) fn new(path: Arc<Path>, base_offset: Offset, now: WallMillis) -> Self {
        Self {
            base_offset,
            path,
            bytes: 0,
            latest: None,
            first_timestamp: None,
            written_at: now,
            is_damaged: false,
            index: SegmentIndex::Memory(MemoryIndex::new(base_offset)),
        }
    }

    /// Notes a batch that lies at the end of the file.
    pub(crate) fn note_batch(&mut self, header: &BatchHeader, index_interval_bytes: u32) {
        let timestamp = header.max_timestamp;
        self.first_timestamp.get_or_insert(timestamp);
        let latest = match self.latest {
            Some(latest) if latest.timestamp >= timestamp => latest,
            Some(_) | None => TimestampOffset { timestamp, offset: header.last_offset() },
        };
        self.latest = Some(latest);
        if let SegmentIndex::Memory(index) = &mut self.index {
            index.note_batch(header, self.bytes, latest, index_interval_bytes);
        }
        self.bytes += header.batch_bytes().unwrap_or(0) as u64;
    }

    /// How many entries the indexes have once they are written.
    pub(crate) fn index_entries(&self) -> StoredIndex {
        match &self.index {
            SegmentIndex::Memory(index) => index.stored(),
            SegmentIndex::Stored(index) => *index,
        }
    }

    /// A way to look things up without holding on to the segment.
    pub(crate) fn position_lookup(&self, offset: Offset) -> PositionLookup {
        match &self.index {
            SegmentIndex::Memory(index) => PositionLookup::Known(index.position_before(offset)),
            SegmentIndex::Stored(index) => PositionLookup::Stored(*index),
        }
    }

    /// A way to find the last batch that begins at or before this position and ends before offset `upto`, as far as the
    /// index knows.
    pub(crate) fn batch_lookup(&self, position: u64, upto: Offset) -> BatchLookup {
        match &self.index {
            SegmentIndex::Memory(index) => BatchLookup::Known(index.batch_before(position, upto)),
            SegmentIndex::Stored(index) => BatchLookup::Stored(*index),
        }
    }

    /// As [`Segment::position_lookup`], for timestamps.
    pub(crate) fn time_lookup(&self, timestamp: WallMillis) -> TimeLookup {
        match &self.index {
            SegmentIndex::Memory(index) => TimeLookup::Known(index.offset_before(timestamp)),
            SegmentIndex::Stored(index) => TimeLookup::Stored(*index),
        }
    }
}

/// Where an offset lies in the file, or how to find out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PositionLookup {
    Known(u64),
    Stored(StoredIndex),
}

impl PositionLookup {
    pub(crate) fn find(self, disk: &dyn Disk, dir: &Path, base: Offset, offset: Offset) -> Result<u64, DiskError> {
        match self {
            Self::Known(position) => Ok(position),
            Self::Stored(index) => index.position_before(disk, dir, base, offset),
        }
    }
}

/// A batch that the index knows, or how to find out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchLookup {
    Known(Option<IndexedBatch>),
    Stored(StoredIndex),
}

impl BatchLookup {
    pub(crate) fn find(
        self,
        disk: &dyn Disk,
        dir: &Path,
        base: Offset,
        position: u64,
        upto: Offset,
    ) -> Result<Option<IndexedBatch>, DiskError> {
        match self {
            Self::Known(batch) => Ok(batch),
            Self::Stored(index) => index.batch_before(disk, dir, base, position, upto),
        }
    }
}

/// From which offset to look for a timestamp, or how to find out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeLookup {
    Known(Offset),
    Stored(StoredIndex),
}

impl TimeLookup {
    pub(crate) fn find(self, disk: &dyn Disk, dir: &Path, base: Offset, at: WallMillis) -> Result<Offset, DiskError> {
        match self {
            Self::Known(offset) => Ok(offset),
            Self::Stored(index) => index.offset_before(disk, dir, base, at),
        }
    }
}
