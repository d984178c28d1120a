//! Opening a log: what to trust, what to read, what to cut off.
//!
//! A producers' snapshot at a segment's base offset says that all segments before it are sealed: they and their indexes
//! are durable and are taken as they are. The segments from there on, usually one, are read batch by batch. Where the
//! batches end, the log ends: what follows was never acknowledged. That is so unless the damage lies below the recovery
//! point, an offset known to have been durable; then bytes that were acknowledged are gone, and the log does not open:
//! nothing is changed, and the partition stays offline.
//!
//! A disk without room is no reason not to open a log: what could not be written is written with the next sync.
//!
//! After an orderly end there is a snapshot at the log's end, and the last segment isn't read either.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use riparian_records::{Batch, BatchHeader, ControlKind, ControlRecord, batches};
use riparian_types::{
    Offset, WallMillis,
    planted::{self, Bug},
};

use super::{PartitionLog, PartitionOptions, note_producer, sync::Closed};
use crate::{
    disk::{Disk, DiskError},
    epochs::{EpochStart, LeaderEpochs},
    error::OpenError,
    files::{self, IndexEntries, Kind},
    index::{MemoryIndex, StoredIndex},
    producers::Producers,
    scan::{Damage, Scan, ScanEnd},
    segment::{Segment, SegmentIndex},
};

mod report;
mod seal;

pub use report::{PartitionRecovery, SegmentDamage, TailCut};
use seal::unless_full;

/// What names of files end with that are no longer part of the log.
const ASIDE_SUFFIX: &str = ".cut";
/// How much of a tail that is cut off is searched for good batches, and read at a time.
const TAIL_LOOKED_AT_BYTES: usize = 16 * 1024 * 1024;

/// What is known about a partition before its directory is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The server ended in an orderly way.
    pub(crate) clean_shutdown: bool,
    /// Everything below is durable.
    pub(crate) recovery_point: Offset,
    /// Records below were deleted.
    pub(crate) log_start: Offset,
}

/// A partition's directory, as found.
struct Found {
    segments: Vec<Offset>,
    snapshots: Vec<Offset>,
}

impl PartitionLog {
    /// Opens the log in a directory that is there; none if nothing in it was ever durable.
    pub(crate) fn open(
        options: PartitionOptions,
        known: Known,
        now: WallMillis,
    ) -> Result<Option<(Self, PartitionRecovery)>, OpenError> {
        let disk = &*options.disk;
        let dir = options.root.join(files::partition_dir_name(&options.topic, options.partition));
        let found = list(disk, &dir)?;
        let metadata_path = dir.join(files::PARTITION_METADATA);
        let metadata = disk.read_file(&metadata_path)?;
        let topic_id = metadata.and_then(|bytes| files::parse_partition_metadata(str::from_utf8(&bytes).ok()?));
        let was_synced = known.recovery_point > Offset::ZERO || !found.snapshots.is_empty();
        let Some(topic_id) = topic_id else {
            // The first sync of a log makes this file durable before anything else. That records were deleted says nothing:
            // with `FlushMode::Os` they need not have been synced.
            return if was_synced { Err(OpenError::PartitionMetadata { path: metadata_path }) } else { Ok(None) };
        };
        let was_durable = was_synced || known.log_start > Offset::ZERO;
        if !was_durable && found.segments.first().is_some_and(|&first| first > Offset::ZERO) {
            // The first segment was never durable, so nothing was; deleted segments leave a snapshot behind them.
            return Ok(None);
        }
        let mut opening = Opening {
            disk,
            dir: &dir,
            known,
            now,
            index_interval_bytes: options.config.index_interval_bytes,
            segments: Vec::new(),
            producers: Producers::default(),
            producers_before_last: Vec::new(),
            epochs: LeaderEpochs::default(),
            stored_epochs: Vec::new(),
            index_entries: IndexEntries::new(),
            unsealed: Vec::new(),
            next_offset: Offset::ZERO,
            recovery: PartitionRecovery {
                topic: options.topic.clone(),
                partition: options.partition,
                scanned_bytes: 0,
                cut: None,
                rebuilt_indexes: 0,
                damaged: Vec::new(),
            },
        };
        opening.run(&found)?;
        let Opening { segments, producers, mut epochs, stored_epochs, next_offset, recovery, unsealed, .. } = opening;
        let are_epochs_stored = epochs.starts() == stored_epochs;
        let first = segments.first().map_or(Offset::ZERO, |segment| segment.base_offset);
        let start = known.log_start.max(first).min(next_offset);
        epochs.truncate_from_start(start);
        let log = Self::with_state(options, topic_id, start, next_offset, segments, producers, epochs);
        {
            let unsynced = &mut log.state().unsynced;
            unsealed.into_iter().for_each(|closed| unsynced.segment_closed(closed));
            if !are_epochs_stored {
                unsynced.epochs_changed();
            }
        }
        Ok(Some((log, recovery)))
    }

    /// Leaves the directory so that the next [`PartitionLog::open`] needs to read few batches. Everything must be durable.
    pub(crate) fn write_clean_end(&self) -> Result<(), DiskError> {
        let mut state = self.state();
        if state.unavailable.is_some() || state.segments.is_empty() {
            return Ok(());
        }
        let state = &mut *state;
        if state.segments.last().is_none_or(|active| active.bytes <= self.read_at_open_bytes) {
            return Ok(());
        }
        if let Some(active) = state.segments.last_mut()
            && let SegmentIndex::Memory(index) = &mut active.index
        {
            if let Some(latest) = active.latest {
                index.note_time(latest);
            }
            index.rewrite(&*self.disk, &self.dir)?;
            self.disk.sync_data(&Kind::OffsetIndex.path(&self.dir, active.base_offset))?;
            self.disk.sync_data(&Kind::TimeIndex.path(&self.dir, active.base_offset))?;
        }
        let entries = state.segments.iter().map(|segment| (segment.base_offset, segment.index_entries()));
        let text = files::index_entries(&entries.collect());
        self.disk.replace_file(&self.dir.join(files::INDEX_ENTRIES), text.as_bytes())?;
        self.disk.sync_dir(&self.dir)?;
        self.disk.replace_file(&Kind::Snapshot.path(&self.dir, state.end), &state.producers.to_snapshot())?;
        self.disk.sync_dir(&self.dir)
    }
}

struct Opening<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    known: Known,
    now: WallMillis,
    index_interval_bytes: u32,
    segments: Vec<Segment>,
    producers: Producers,
    /// A snapshot of the producers' state before the last segment that was read.
    producers_before_last: Vec<u8>,
    epochs: LeaderEpochs,
    /// What the checkpoint file says.
    stored_epochs: Vec<EpochStart>,
    /// How many entries the indexes have, according to the file.
    index_entries: IndexEntries,
    /// Closed segments that the disk had no room to seal.
    unsealed: Vec<Closed>,
    /// The smallest offset that the next batch may have.
    next_offset: Offset,
    recovery: PartitionRecovery,
}

impl Opening<'_> {
    fn run(&mut self, found: &Found) -> Result<(), OpenError> {
        self.load_epochs(found)?;
        let text = self.disk.read_file(&self.dir.join(files::INDEX_ENTRIES))?;
        let entries = text.and_then(|bytes| files::parse_index_entries(str::from_utf8(&bytes).ok()?));
        self.index_entries = entries.unwrap_or_default();
        if self.known.clean_shutdown && self.open_clean(found)? {
            self.epochs.truncate_from_end(self.next_offset);
            unless_full(self.write_epochs())?;
            unless_full(self.write_index_entries())?;
            self.replace_stray_snapshots(found)?;
            return Ok(());
        }
        let sealed_upto = self.load_newest_snapshot(found)?;
        let (sealed, unsealed) = found.segments.split_at(found.segments.partition_point(|&base| base < sealed_upto));
        for &base_offset in sealed {
            let segment = self.open_sealed(base_offset)?;
            self.segments.push(segment);
        }
        // Sealed segments end where the first of the others begins.
        self.next_offset = unsealed.first().copied().unwrap_or(sealed_upto);
        // The file may know epochs of batches that are lost. Those of batches that are read now are noted again.
        self.epochs.truncate_from_end(self.next_offset);
        for (index, &base_offset) in unsealed.iter().enumerate() {
            let later = &unsealed[index + 1..];
            if !self.open_unsealed(base_offset, later)? {
                break;
            }
        }
        let recovery_point = self.known.recovery_point;
        if self.next_offset < recovery_point {
            return Err(OpenError::Shortened { dir: self.dir.to_owned(), end: self.next_offset, recovery_point });
        }
        self.seal_all_but_last()?;
        self.make_durable()?;
        unless_full(self.write_epochs())?;
        unless_full(self.write_index_entries())?;
        self.replace_stray_snapshots(found)?;
        Ok(())
    }

    fn load_epochs(&mut self, found: &Found) -> Result<(), OpenError> {
        let text = self.disk.read_file(&self.dir.join(files::LEADER_EPOCHS))?;
        let epochs = text.and_then(|bytes| files::parse_leader_epochs(str::from_utf8(&bytes).ok()?));
        if let Some(epochs) = epochs {
            self.stored_epochs.clone_from(&epochs);
            self.epochs = LeaderEpochs::new(epochs);
            return Ok(());
        }
        // The batches say it too.
        for &base_offset in &found.segments {
            let path = Kind::Log.path(self.dir, base_offset);
            let scan =
                Scan { disk: self.disk, path: &path, position: 0, next_offset: base_offset, gaps: true, verify: false };
            let epochs = &mut self.epochs;
            scan.run(|_, batch| {
                epochs.note(batch.header().leader_epoch, batch.header().base_offset);
            })?;
        }
        Ok(())
    }

    /// Takes the producers' state from the newest good snapshot that stands at a segment's base offset, and removes
    /// newer ones; returns its offset, or that of the first segment.
    fn load_newest_snapshot(&mut self, found: &Found) -> Result<Offset, OpenError> {
        for &offset in found.snapshots.iter().rev() {
            if found.segments.contains(&offset)
                && let Some(producers) = self.read_snapshot(offset)?
            {
                self.producers = producers;
                return Ok(offset);
            }
        }
        Ok(found.segments.first().copied().unwrap_or(Offset::ZERO))
    }

    fn read_snapshot(&self, offset: Offset) -> Result<Option<Producers>, DiskError> {
        let bytes = self.disk.read_file(&Kind::Snapshot.path(self.dir, offset))?;
        Ok(bytes.and_then(|bytes| Producers::from_snapshot(&bytes, self.now)))
    }

    /// Opens without reading batches, if everything is as an orderly end leaves it.
    fn open_clean(&mut self, found: &Found) -> Result<bool, OpenError> {
        let (Some((&last, sealed)), Some(&end)) = (found.segments.split_last(), found.snapshots.last()) else {
            return Ok(false);
        };
        if end < last || end != self.known.recovery_point {
            return Ok(false);
        }
        let Some(producers) = self.read_snapshot(end)? else { return Ok(false) };
        let Some(active) = self.open_clean_active(last, end)? else { return Ok(false) };
        for &base_offset in sealed {
            let segment = self.open_sealed(base_offset)?;
            self.segments.push(segment);
        }
        self.segments.push(active);
        self.producers = producers;
        self.next_offset = end;
        Ok(true)
    }

    fn open_clean_active(&self, base_offset: Offset, end: Offset) -> Result<Option<Segment>, OpenError> {
        let path = self.log_path(base_offset);
        let bytes = self.disk.file_bytes(&path)?;
        let written = self.index_entries.get(&base_offset).copied();
        let Some(mut index) = MemoryIndex::load(self.disk, self.dir, base_offset, bytes, written)? else {
            return Ok(None);
        };
        if written.is_some_and(|written| written != index.stored()) {
            return Ok(None);
        }
        let first = self.disk.read(&path, 0, riparian_records::HEADER_BYTES)?;
        let first_timestamp = BatchHeader::parse(&first).map(|header| header.max_timestamp);
        let position = index.last_position();
        // The end is what is damaged most easily, and little of it lies behind the last entry.
        let scan = Scan { disk: self.disk, path: &path, position, next_offset: base_offset, gaps: true, verify: true };
        let scanned = scan.run(|_, _| ())?;
        let ends_right = if bytes == 0 { end == base_offset } else { scanned.next_offset == end };
        if scanned.damage.is_some() || !ends_right {
            return Ok(None);
        }
        index.set_bytes_since_entry(bytes - position);
        let latest = index.last_time();
        let index = SegmentIndex::Memory(index);
        let written_at = self.written_at(&path);
        let is_damaged = false;
        Ok(Some(Segment { base_offset, path, bytes, latest, first_timestamp, written_at, is_damaged, index }))
    }

    /// A sealed segment is taken as it is; only its indexes are looked at, and built anew if they are not there.
    fn open_sealed(&mut self, base_offset: Offset) -> Result<Segment, OpenError> {
        let path = self.log_path(base_offset);
        let bytes = self.disk.file_bytes(&path)?;
        let written = self.index_entries.get(&base_offset).copied();
        if let Some((index, latest)) = StoredIndex::load(self.disk, self.dir, base_offset, bytes, written)?
            && written.is_none_or(|written| written == index)
        {
            let index = SegmentIndex::Stored(index);
            let written_at = self.written_at(&path);
            let (first_timestamp, is_damaged) = (None, false);
            return Ok(Segment { base_offset, path, bytes, latest, first_timestamp, written_at, is_damaged, index });
        }
        let mut segment = Segment::new(path.clone(), base_offset, self.written_at(&path));
        let scanned = self.scan_segment(&mut segment, true, |_, _| ())?;
        if let Some(damage) = scanned.damage {
            let (position, offset) = (scanned.position, scanned.next_offset);
            self.recovery.damaged.push(SegmentDamage { path: path.to_path_buf(), position, offset, damage });
            // Readers must come to the damage and not pass it by.
            segment.bytes = bytes;
            segment.is_damaged = true;
        }
        self.recovery.rebuilt_indexes += 1;
        self.write_sealed_index(&mut segment)?;
        Ok(segment)
    }

    fn log_path(&self, base_offset: Offset) -> Arc<Path> {
        Kind::Log.path(self.dir, base_offset).into()
    }

    /// When the file was last written, as the disk says; a disk that does not know, or is ahead, says now.
    fn written_at(&self, path: &Path) -> WallMillis {
        self.disk.modified_at(path).unwrap_or(self.now).min(self.now)
    }

    /// Reads a segment that isn't sealed; false if the log ends in it, whatever follows.
    fn open_unsealed(&mut self, base_offset: Offset, later: &[Offset]) -> Result<bool, OpenError> {
        let path = self.log_path(base_offset);
        if let Some(before) = self.segments.last().filter(|_| base_offset != self.next_offset) {
            // The segment before has lost its end, by whole batches.
            let (path, position) = (before.path.clone(), before.bytes);
            let (first, last) = (base_offset, base_offset);
            let damage = Damage::Offsets { first, last, expected: self.next_offset };
            if self.next_offset < self.known.recovery_point {
                return Err(OpenError::Damaged {
                    path: path.to_path_buf(),
                    position,
                    offset: self.next_offset,
                    damage,
                });
            }
            let lost = [&[base_offset], later].concat();
            self.cut(&path, position, damage, &lost)?;
            return Ok(false);
        }
        let mut segment = Segment::new(path.clone(), base_offset, self.written_at(&path));
        let now = self.now;
        if !self.segments.is_empty() {
            self.producers_before_last = self.producers.to_snapshot();
        }
        let (mut producers, mut epochs) = (std::mem::take(&mut self.producers), std::mem::take(&mut self.epochs));
        let scanned = self.scan_segment(&mut segment, false, |_, batch| {
            if !planted::is_in(Bug::ProducersForgotten) {
                note_producer(&mut producers, batch.header(), batch.body(), now);
            }
            epochs.note(batch.header().leader_epoch, batch.header().base_offset);
        });
        (self.producers, self.epochs) = (producers, epochs);
        let scanned = scanned?;
        self.next_offset = scanned.next_offset.max(base_offset);
        self.segments.push(segment);
        let Some(damage) = scanned.damage else { return Ok(true) };
        if self.next_offset < self.known.recovery_point {
            return Err(OpenError::Damaged {
                path: path.to_path_buf(),
                position: scanned.position,
                offset: self.next_offset,
                damage,
            });
        }
        self.cut(&path, scanned.position, damage, later)?;
        Ok(false)
    }

    fn scan_segment(
        &mut self,
        segment: &mut Segment,
        gaps: bool,
        mut on_batch: impl FnMut(u64, &Batch<'_>),
    ) -> Result<ScanEnd, OpenError> {
        let path = segment.path.clone();
        let next_offset = segment.base_offset;
        let interval = self.index_interval_bytes;
        let scan = Scan { disk: self.disk, path: &path, position: 0, next_offset, gaps, verify: true };
        let end = scan.run(|position, batch| {
            segment.note_batch(batch.header(), interval);
            on_batch(position, batch);
        })?;
        self.recovery.scanned_bytes += end.position;
        Ok(end)
    }

    /// Cuts the log off at a position of a segment, and removes the segments behind it.
    fn cut(&mut self, path: &Path, position: u64, damage: Damage, later: &[Offset]) -> Result<(), OpenError> {
        let file_bytes = self.disk.file_bytes(path)?;
        let looked_at = usize::try_from(file_bytes - position).unwrap_or(usize::MAX).min(TAIL_LOOKED_AT_BYTES);
        let tail = self.disk.read(path, position, looked_at)?;
        let mut bytes = file_bytes - position;
        let mut batches_follow = has_batch(&tail);
        for &base_offset in later {
            let later_bytes = self.disk.file_bytes(&Kind::Log.path(self.dir, base_offset))?;
            bytes += later_bytes;
            batches_follow |= later_bytes > 0;
        }
        let mut kept = Vec::new();
        if batches_follow {
            // Perhaps they were acknowledged: only somebody who knows what happened to the disk can tell.
            if position < file_bytes {
                kept.push(self.keep(path, position, file_bytes)?);
            }
            for &base_offset in later {
                let segment = Kind::Log.path(self.dir, base_offset);
                let aside = aside(&segment, 0);
                self.disk.rename(&segment, &aside)?;
                kept.push(aside);
            }
            self.disk.sync_dir(self.dir)?;
        }
        for &base_offset in later {
            self.remove_segment(base_offset)?;
        }
        self.disk.truncate(path, position)?;
        let end_offset = self.next_offset;
        self.recovery.cut =
            Some(TailCut { path: path.to_path_buf(), position, bytes, end_offset, damage, batches_follow, kept });
        Ok(())
    }

    /// Copies the end of a file to a file beside it.
    fn keep(&self, path: &Path, position: u64, end: u64) -> Result<PathBuf, DiskError> {
        let aside = aside(path, position);
        self.disk.remove_file_if_there(&aside)?;
        let mut done = position;
        while done < end {
            let wanted = usize::try_from(end - done).unwrap_or(usize::MAX).min(TAIL_LOOKED_AT_BYTES);
            let bytes = self.disk.read(path, done, wanted)?;
            if bytes.is_empty() {
                break;
            }
            self.disk.write_at(&aside, done - position, &[&bytes])?;
            done += bytes.len() as u64;
        }
        self.disk.sync_data(&aside)?;
        Ok(aside)
    }

    fn remove_segment(&self, base_offset: Offset) -> Result<(), DiskError> {
        for kind in [Kind::Log, Kind::OffsetIndex, Kind::TimeIndex, Kind::Snapshot] {
            self.disk.remove_file_if_there(&kind.path(self.dir, base_offset))?;
        }
        Ok(())
    }

    /// A disk without room keeps what it has.
    fn replace_stray_snapshots(&self, found: &Found) -> Result<(), OpenError> {
        if unless_full(self.vouch_for_start(found))? { self.remove_stray_snapshots(found) } else { Ok(()) }
    }

    /// Removes snapshots that stand at no segment's base offset: that of an orderly end, which appends make stale.
    fn remove_stray_snapshots(&self, found: &Found) -> Result<(), OpenError> {
        for &offset in &found.snapshots {
            if !self.segments.iter().any(|segment| segment.base_offset == offset) {
                self.disk.remove_file_if_there(&Kind::Snapshot.path(self.dir, offset))?;
            }
        }
        Ok(())
    }
}

/// Where bytes of a segment from a position on are kept that are no longer part of the log.
fn aside(segment: &Path, position: u64) -> PathBuf {
    segment.with_extension(format!("log.{position}{ASIDE_SUFFIX}"))
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<Found, DiskError> {
    let mut found = Found { segments: Vec::new(), snapshots: Vec::new() };
    // Names are ordered, and offsets have a fixed number of digits.
    for entry in disk.list(dir)? {
        match Kind::of(&entry.name) {
            Some((offset, Kind::Log)) => found.segments.push(offset),
            Some((offset, Kind::Snapshot)) => found.snapshots.push(offset),
            Some((_, Kind::OffsetIndex | Kind::TimeIndex)) | None => {}
        }
    }
    Ok(found)
}

/// Whether a segment of this directory has a good batch, behind damage too, or something was kept aside here that has
/// some; of a long segment that begins with nothing good it is taken to be so.
pub(crate) fn has_good_batch(disk: &dyn Disk, dir: &Path) -> Result<bool, DiskError> {
    if disk.list(dir)?.iter().any(|entry| entry.name.ends_with(ASIDE_SUFFIX)) {
        return Ok(true);
    }
    for base_offset in list(disk, dir)?.segments {
        let path = Kind::Log.path(dir, base_offset);
        let file_bytes = disk.file_bytes(&path)?;
        let looked_at = usize::try_from(file_bytes).unwrap_or(usize::MAX).min(TAIL_LOOKED_AT_BYTES);
        let is_long = file_bytes > looked_at as u64;
        if is_long || has_batch(&disk.read(&path, 0, looked_at)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a good batch lies anywhere in these bytes, also at once: where offsets are missing the batch behind the gap is
/// as good as any, and one that comes too early may be in the wrong file.
fn has_batch(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|start| {
        BatchHeader::parse(&bytes[start..]).is_some_and(|header| {
            let plausible = header.magic == riparian_records::MAGIC
                && header.batch_bytes().is_some_and(|length| length <= bytes.len() - start);
            plausible && Batch::parse(&bytes[start..]).is_ok()
        })
    })
}

/// The coordinator epoch of a transaction marker.
pub(super) fn marker_coordinator_epoch(header: &BatchHeader, body: &[u8]) -> Option<i32> {
    let bytes = [&header.to_bytes()[..], body].concat();
    let batch = batches(&bytes).unverified().next()?.ok()?;
    let records = batch.records().ok()?;
    let marker = ControlRecord::parse(&records.iter().next()?.ok()?).ok()?;
    match marker.kind {
        ControlKind::Abort | ControlKind::Commit => Some(marker.coordinator_epoch),
        _ => None,
    }
}
