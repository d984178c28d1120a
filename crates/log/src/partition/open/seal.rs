//! What is written while a log is opened: closed segments are sealed, what was read is made durable, small files are put
//! right.

use riparian_types::Offset;

use super::{super::sync::Closed, Found, Opening};
use crate::{
    disk::DiskError,
    error::OpenError,
    files::{self, IndexEntries, Kind},
    producers::Producers,
    segment::{Segment, SegmentIndex},
};

impl Opening<'_> {
    /// Segments that were closed but not sealed, and are not the last, are sealed now: all of them are good.
    pub(super) fn seal_all_but_last(&mut self) -> Result<(), OpenError> {
        let mut segments = std::mem::take(&mut self.segments);
        let Some((last, closed)) = segments.split_last_mut() else { return Ok(()) };
        let is_unsealed = |segment: &Segment| matches!(segment.index, SegmentIndex::Memory(_));
        let Some(first) = closed.iter().position(is_unsealed) else {
            self.segments = segments;
            return Ok(());
        };
        if !unless_full(self.seal(closed, last.base_offset))? {
            for segment in &mut closed[first..] {
                if let (SegmentIndex::Memory(index), Some(latest)) = (&mut segment.index, segment.latest) {
                    index.note_time(latest);
                }
            }
            let next_bases = closed[first + 1..].iter().map(|segment| segment.base_offset).chain([last.base_offset]);
            self.unsealed = (closed[first..].iter().zip(next_bases))
                .map(|(segment, next_base_offset)| Closed {
                    base_offset: segment.base_offset,
                    next_base_offset,
                    snapshot: (next_base_offset == last.base_offset).then(|| self.producers_before_last.clone()),
                })
                .collect();
        }
        self.segments = segments;
        Ok(())
    }

    fn seal(&mut self, closed: &mut [Segment], next_base_offset: Offset) -> Result<(), DiskError> {
        for segment in &mut *closed {
            if matches!(segment.index, SegmentIndex::Memory(_)) {
                self.disk.sync_data(&segment.path)?;
                self.write_sealed_index(segment)?;
            }
        }
        // As when a segment is sealed in operation: all that the snapshot vouches for first.
        self.disk.sync_data(&self.dir.join(files::PARTITION_METADATA))?;
        self.write_epochs()?;
        let entries = closed.iter().map(|segment| (segment.base_offset, segment.index_entries())).collect();
        self.replace_index_entries(entries)?;
        self.disk.sync_dir(self.dir)?;
        let path = Kind::Snapshot.path(self.dir, next_base_offset);
        self.disk.replace_file(&path, &self.producers_before_last)?;
        self.disk.sync_dir(self.dir)
    }

    pub(super) fn write_sealed_index(&self, segment: &mut Segment) -> Result<(), DiskError> {
        let SegmentIndex::Memory(index) = &mut segment.index else { return Ok(()) };
        if let Some(latest) = segment.latest {
            index.note_time(latest);
        }
        index.rewrite(self.disk, self.dir)?;
        let stored = index.stored();
        self.disk.sync_data(&Kind::OffsetIndex.path(self.dir, segment.base_offset))?;
        self.disk.sync_data(&Kind::TimeIndex.path(self.dir, segment.base_offset))?;
        segment.index = SegmentIndex::Stored(stored);
        Ok(())
    }

    /// What was read is shown to others from now on, so it must be durable; the partition's own name is made so by
    /// whoever opens all logs.
    pub(super) fn make_durable(&mut self) -> Result<(), OpenError> {
        let Some(active) = self.segments.last_mut() else { return Ok(()) };
        let path = active.path.clone();
        if let SegmentIndex::Memory(index) = &mut active.index {
            // The entries stay in memory; a lost index is built anew.
            unless_full(index.rewrite(self.disk, self.dir))?;
        }
        let was_durable = self.known.recovery_point > Offset::ZERO && self.known.recovery_point >= self.next_offset;
        if was_durable && self.recovery.cut.is_none() {
            return Ok(());
        }
        self.disk.sync_data(&path)?;
        self.disk.sync_data(&self.dir.join(files::PARTITION_METADATA))?;
        self.disk.sync_dir(self.dir)?;
        Ok(())
    }

    /// A log whose first segments were deleted has a snapshot, by which the next start sees that something was durable. If
    /// the one at hand goes, for it stands at no segment, another one takes its place: it says of the producers what has
    /// just been assumed.
    pub(super) fn vouch_for_start(&self, found: &Found) -> Result<(), DiskError> {
        let Some(first) = self.segments.first().filter(|first| first.base_offset > Offset::ZERO) else { return Ok(()) };
        let stays = |offset: &Offset| self.segments.iter().any(|segment| segment.base_offset == *offset);
        if found.snapshots.iter().any(stays) {
            return Ok(());
        }
        let path = Kind::Snapshot.path(self.dir, first.base_offset);
        self.disk.replace_file(&path, &Producers::default().to_snapshot())?;
        self.disk.sync_dir(self.dir)
    }

    /// Corrects what is written down of the indexes of closed segments, if they have other entries now.
    pub(super) fn write_index_entries(&mut self) -> Result<(), DiskError> {
        let Some((_, closed)) = self.segments.split_last().filter(|_| self.unsealed.is_empty()) else { return Ok(()) };
        let entries: IndexEntries =
            closed.iter().map(|segment| (segment.base_offset, segment.index_entries())).collect();
        let written = self.index_entries.range(..).filter(|(base_offset, _)| entries.contains_key(base_offset));
        if written.eq(&entries) {
            return Ok(());
        }
        self.replace_index_entries(entries)?;
        self.disk.sync_dir(self.dir)
    }

    fn replace_index_entries(&mut self, entries: IndexEntries) -> Result<(), DiskError> {
        let text = files::index_entries(&entries);
        self.disk.replace_file(&self.dir.join(files::INDEX_ENTRIES), text.as_bytes())?;
        self.index_entries = entries;
        Ok(())
    }

    /// Corrects the checkpoint file, if the batches say otherwise.
    pub(super) fn write_epochs(&mut self) -> Result<(), DiskError> {
        if self.epochs.starts() == self.stored_epochs {
            return Ok(());
        }
        let text = files::leader_epochs(self.epochs.starts());
        self.disk.replace_file(&self.dir.join(files::LEADER_EPOCHS), text.as_bytes())?;
        self.stored_epochs = self.epochs.starts().to_vec();
        self.disk.sync_dir(self.dir)
    }
}

/// Whether the disk had room for what was written; errors of other kinds are errors.
pub(super) fn unless_full(written: Result<(), DiskError>) -> Result<bool, DiskError> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.is_storage_full() => Ok(false),
        Err(error) => Err(error),
    }
}
