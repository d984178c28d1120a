//! The two sparse indexes of a segment.
//!
//! ```text
//! .index      { last offset of a batch, minus base offset, i32 | position of that batch in the .log file, i32 }*
//! .timeindex  { largest timestamp so far, i64 | last offset of the batch that has it, minus base offset, i32 }*
//! ```
//!
//! Both ascend in both columns. An entry is added for the first batch after every `index.interval.bytes`; the time index
//! gets one more when the segment is closed, so that its last entry is the segment's largest timestamp.
//!
//! The active segment's indexes are kept in memory and written behind, when batches are synced; those of closed segments
//! are searched on disk.
//! They can be rebuilt from the batches at any time, so they are never synced before the segment is closed. How many
//! entries they have then is written down too ([`crate::files::INDEX_ENTRIES`]).

use std::path::Path;

use riparian_records::{BatchHeader, HEADER_BYTES};
use riparian_types::{Offset, WallMillis};

use crate::{
    disk::{Disk, DiskError},
    files::Kind,
};

pub(crate) const OFFSET_ENTRY_BYTES: usize = 8;
pub(crate) const TIME_ENTRY_BYTES: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    relative_offset: u32,
    position: u32,
}

impl OffsetEntry {
    /// Nobody writes such a one: entries are made after the first batch.
    fn is_blank(&self) -> bool {
        self.position == 0
    }

    fn batch(&self, base: Offset) -> IndexedBatch {
        let last_offset = Offset(base.0 + i64::from(self.relative_offset));
        IndexedBatch { position: u64::from(self.position), last_offset }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    timestamp: WallMillis,
    relative_offset: u32,
}

impl TimeEntry {
    /// Zeroes, and what is no time: as the first of a segment it is not worth being trusted.
    fn is_blank(&self, disk: &dyn Disk, dir: &Path, base: Offset) -> Result<bool, DiskError> {
        match (self.timestamp.0, self.relative_offset) {
            (0, 0) => Ok(!begins_at_zero(disk, dir, base)?),
            (time, _) => Ok(time < 0),
        }
    }
}

/// Whether a segment's first batch is one record of the very first millisecond: then an entry of zeroes is right.
fn begins_at_zero(disk: &dyn Disk, dir: &Path, base: Offset) -> Result<bool, DiskError> {
    let first = disk.read(&Kind::Log.path(dir, base), 0, HEADER_BYTES)?;
    Ok(BatchHeader::parse(&first).is_some_and(|header| header.last_offset() == base && header.max_timestamp.0 == 0))
}

/// Where a batch lies, and its last offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexedBatch {
    pub(crate) position: u64,
    pub(crate) last_offset: Offset,
}

impl IndexedBatch {
    fn is_before(self, position: u64, upto: Offset) -> bool {
        self.position <= position && self.last_offset < upto
    }
}

/// A timestamp and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimestampOffset {
    pub(crate) timestamp: WallMillis,
    pub(crate) offset: Offset,
}

/// The indexes of the active segment.
#[derive(Clone, Debug)]
pub(crate) struct MemoryIndex {
    base_offset: Offset,
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
    bytes_since_entry: u64,
    offsets_written: usize,
    times_written: usize,
}

/// The indexes of a closed segment, by their number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredIndex {
    pub(crate) offset_count: u64,
    pub(crate) time_count: u64,
}

impl MemoryIndex {
    pub(crate) fn new(base_offset: Offset) -> Self {
        Self {
            base_offset,
            offsets: Vec::new(),
            times: Vec::new(),
            bytes_since_entry: 0,
            offsets_written: 0,
            times_written: 0,
        }
    }

    /// Notes a batch that is at `position`; `latest` is the segment's largest timestamp, that of this batch included.
    pub(crate) fn note_batch(&mut self, header: &BatchHeader, position: u64, latest: TimestampOffset, interval: u32) {
        if self.bytes_since_entry > u64::from(interval) {
            self.offsets.push(OffsetEntry {
                relative_offset: self.relative(header.last_offset()),
                // A batch that would begin beyond 2 GiB goes into a new segment.
                position: u32::try_from(position).unwrap_or(u32::MAX),
            });
            self.note_time(latest);
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += header.batch_bytes().unwrap_or(0) as u64;
    }

    /// Adds the segment's largest timestamp to the time index, if it is larger than the last entry's.
    pub(crate) fn note_time(&mut self, latest: TimestampOffset) {
        let last = self.times.last().map_or(WallMillis(-1), |entry| entry.timestamp);
        if latest.timestamp > last {
            let relative_offset = self.relative(latest.offset);
            self.times.push(TimeEntry { timestamp: latest.timestamp, relative_offset });
        }
    }

    /// Where to start looking for an offset.
    pub(crate) fn position_before(&self, offset: Offset) -> u64 {
        let relative = offset.0 - self.base_offset.0;
        let index = self.offsets.partition_point(|entry| i64::from(entry.relative_offset) <= relative);
        index.checked_sub(1).map_or(0, |index| u64::from(self.offsets[index].position))
    }

    /// The last batch known here that begins at or before this position and ends before offset `upto`.
    pub(crate) fn batch_before(&self, position: u64, upto: Offset) -> Option<IndexedBatch> {
        let is_before = |entry: &OffsetEntry| entry.batch(self.base_offset).is_before(position, upto);
        let index = self.offsets.partition_point(is_before).checked_sub(1)?;
        Some(self.offsets[index].batch(self.base_offset))
    }

    /// From which offset to look for the first record that is not older than this.
    pub(crate) fn offset_before(&self, timestamp: WallMillis) -> Offset {
        let index = self.times.partition_point(|entry| entry.timestamp < timestamp);
        let relative = index.checked_sub(1).map_or(0, |index| self.times[index].relative_offset);
        Offset(self.base_offset.0 + i64::from(relative))
    }

    pub(crate) fn last_position(&self) -> u64 {
        self.offsets.last().map_or(0, |entry| u64::from(entry.position))
    }

    pub(crate) fn last_time(&self) -> Option<TimestampOffset> {
        let entry = self.times.last()?;
        let offset = Offset(self.base_offset.0 + i64::from(entry.relative_offset));
        Some(TimestampOffset { timestamp: entry.timestamp, offset })
    }

    pub(crate) fn set_bytes_since_entry(&mut self, bytes: u64) {
        self.bytes_since_entry = bytes;
    }

    pub(crate) fn stored(&self) -> StoredIndex {
        StoredIndex { offset_count: self.offsets.len() as u64, time_count: self.times.len() as u64 }
    }

    /// Appends entries that aren't in the files yet; the files are created if they aren't there.
    pub(crate) fn write_new(&mut self, disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
        if self.offsets_written < self.offsets.len() || self.offsets_written == 0 {
            let bytes = offset_bytes(&self.offsets[self.offsets_written..]);
            let position = (self.offsets_written * OFFSET_ENTRY_BYTES) as u64;
            disk.write_at(&Kind::OffsetIndex.path(dir, self.base_offset), position, &[&bytes])?;
            self.offsets_written = self.offsets.len();
        }
        if self.times_written < self.times.len() || self.times_written == 0 {
            let bytes = time_bytes(&self.times[self.times_written..]);
            let position = (self.times_written * TIME_ENTRY_BYTES) as u64;
            disk.write_at(&Kind::TimeIndex.path(dir, self.base_offset), position, &[&bytes])?;
            self.times_written = self.times.len();
        }
        Ok(())
    }

    /// Puts all entries in place of what is in the files.
    pub(crate) fn rewrite(&mut self, disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
        (self.offsets_written, self.times_written) = (0, 0);
        self.write_new(disk, dir)?;
        let bytes = (self.offsets.len() * OFFSET_ENTRY_BYTES) as u64;
        disk.truncate(&Kind::OffsetIndex.path(dir, self.base_offset), bytes)?;
        let bytes = (self.times.len() * TIME_ENTRY_BYTES) as u64;
        disk.truncate(&Kind::TimeIndex.path(dir, self.base_offset), bytes)
    }

    /// Reads both files; none if they are not what a segment of `log_bytes` bytes can have. `written` is what was written
    /// down of them.
    pub(crate) fn load(
        disk: &dyn Disk,
        dir: &Path,
        base_offset: Offset,
        log_bytes: u64,
        written: Option<StoredIndex>,
    ) -> Result<Option<Self>, DiskError> {
        let offsets = disk.read_file(&Kind::OffsetIndex.path(dir, base_offset))?;
        let times = disk.read_file(&Kind::TimeIndex.path(dir, base_offset))?;
        let (Some(offsets), Some(times)) = (offsets, times) else { return Ok(None) };
        let ((offsets, []), (times, [])) =
            (offsets.as_chunks::<OFFSET_ENTRY_BYTES>(), times.as_chunks::<TIME_ENTRY_BYTES>())
        else {
            return Ok(None);
        };
        let offsets: Vec<OffsetEntry> = offsets.iter().map(parse_offset_entry).collect();
        let times: Vec<TimeEntry> = times.iter().map(parse_time_entry).collect();
        let ascends = offsets.is_sorted_by(|a, b| a.relative_offset < b.relative_offset && a.position < b.position)
            && times.is_sorted_by(|a, b| a.timestamp < b.timestamp && a.relative_offset <= b.relative_offset);
        let inside = offsets.last().is_none_or(|entry| u64::from(entry.position) < log_bytes);
        let blank = offsets.first().is_some_and(OffsetEntry::is_blank)
            || match times.first() {
                Some(first) => first.is_blank(disk, dir, base_offset)?,
                None => log_bytes > 0 && !written.is_some_and(StoredIndex::is_without_times),
            };
        if !ascends || !inside || blank {
            return Ok(None);
        }
        let (offsets_written, times_written) = (offsets.len(), times.len());
        Ok(Some(Self { base_offset, offsets, times, bytes_since_entry: 0, offsets_written, times_written }))
    }

    fn relative(&self, offset: Offset) -> u32 {
        u32::try_from(offset.0 - self.base_offset.0).unwrap_or(u32::MAX)
    }
}

impl StoredIndex {
    /// A segment of records without timestamps. A file that has lost what it had looks the same, so that it must have
    /// been written down.
    fn is_without_times(self) -> bool {
        self.time_count == 0
    }

    /// Looks at the files of a closed segment; none if they can't be right. Also gives the segment's largest timestamp.
    /// `written` is what was written down of them.
    pub(crate) fn load(
        disk: &dyn Disk,
        dir: &Path,
        base_offset: Offset,
        log_bytes: u64,
        written: Option<Self>,
    ) -> Result<Option<(Self, Option<TimestampOffset>)>, DiskError> {
        let count = |kind: Kind, entry_bytes: usize| match disk.file_bytes(&kind.path(dir, base_offset)) {
            Ok(bytes) if bytes % entry_bytes as u64 == 0 => Ok(Some(bytes / entry_bytes as u64)),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        };
        let offset_count = count(Kind::OffsetIndex, OFFSET_ENTRY_BYTES)?;
        let time_count = count(Kind::TimeIndex, TIME_ENTRY_BYTES)?;
        let (Some(offset_count), Some(time_count)) = (offset_count, time_count) else { return Ok(None) };
        let stored = Self { offset_count, time_count };
        // The first and the last entry tell of zeroes and of a wrong end, at a cost that does not grow with the segment.
        if let Some(last) = offset_count.checked_sub(1) {
            let first = stored.offset_entry(disk, dir, base_offset, 0)?;
            let last = stored.offset_entry(disk, dir, base_offset, last)?;
            let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
            let ascends = first.position <= last.position && first.relative_offset <= last.relative_offset;
            if first.is_blank() || !ascends || u64::from(last.position) >= log_bytes {
                return Ok(None);
            }
        }
        let Some(last) = time_count.checked_sub(1) else {
            // Closing a segment writes down its largest timestamp, if it has any: else the file has lost it.
            let is_right = log_bytes == 0 || written.is_some_and(Self::is_without_times);
            return Ok(is_right.then_some((stored, None)));
        };
        let first = stored.time_entry(disk, dir, base_offset, 0)?;
        let last = stored.time_entry(disk, dir, base_offset, last)?;
        let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
        let ascends = time_count == 1 || first.timestamp < last.timestamp;
        if !ascends || first.is_blank(disk, dir, base_offset)? {
            return Ok(None);
        }
        let offset = Offset(base_offset.0 + i64::from(last.relative_offset));
        Ok(Some((stored, Some(TimestampOffset { timestamp: last.timestamp, offset }))))
    }

    /// Where to start looking for an offset; see [`MemoryIndex::position_before`].
    pub(crate) fn position_before(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        base: Offset,
        offset: Offset,
    ) -> Result<u64, DiskError> {
        let relative = offset.0 - base.0;
        let found = self.last_where(
            self.offset_count,
            |index| self.offset_entry(disk, dir, base, index),
            |entry| i64::from(entry.relative_offset) <= relative,
        )?;
        Ok(found.map_or(0, |entry| u64::from(entry.position)))
    }

    /// See [`MemoryIndex::batch_before`].
    pub(crate) fn batch_before(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        base: Offset,
        position: u64,
        upto: Offset,
    ) -> Result<Option<IndexedBatch>, DiskError> {
        let found = self.last_where(
            self.offset_count,
            |index| self.offset_entry(disk, dir, base, index),
            |entry| entry.batch(base).is_before(position, upto),
        )?;
        Ok(found.map(|entry| entry.batch(base)))
    }

    /// From which offset to look for the first record not older; see [`MemoryIndex::offset_before`].
    pub(crate) fn offset_before(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        base: Offset,
        timestamp: WallMillis,
    ) -> Result<Offset, DiskError> {
        let found = self.last_where(
            self.time_count,
            |index| self.time_entry(disk, dir, base, index),
            |entry| entry.timestamp < timestamp,
        )?;
        Ok(Offset(base.0 + found.map_or(0, |entry| i64::from(entry.relative_offset))))
    }

    /// The last entry that fulfils a condition which holds for some first ones only.
    fn last_where<T>(
        &self,
        count: u64,
        entry: impl Fn(u64) -> Result<Option<T>, DiskError>,
        holds: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, DiskError> {
        let (mut low, mut high, mut found) = (0, count, None);
        while low < high {
            let middle = low + (high - low) / 2;
            match entry(middle)? {
                Some(entry) if holds(&entry) => (low, found) = (middle + 1, Some(entry)),
                Some(_) | None => high = middle,
            }
        }
        Ok(found)
    }

    fn offset_entry(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        base: Offset,
        index: u64,
    ) -> Result<Option<OffsetEntry>, DiskError> {
        let mut bytes = [0; OFFSET_ENTRY_BYTES];
        let position = index * OFFSET_ENTRY_BYTES as u64;
        let read = disk.read_at(&Kind::OffsetIndex.path(dir, base), position, &mut bytes)?;
        Ok((read == bytes.len()).then(|| parse_offset_entry(&bytes)))
    }

    fn time_entry(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        base: Offset,
        index: u64,
    ) -> Result<Option<TimeEntry>, DiskError> {
        let mut bytes = [0; TIME_ENTRY_BYTES];
        let position = index * TIME_ENTRY_BYTES as u64;
        let read = disk.read_at(&Kind::TimeIndex.path(dir, base), position, &mut bytes)?;
        Ok((read == bytes.len()).then(|| parse_time_entry(&bytes)))
    }
}

fn offset_bytes(entries: &[OffsetEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * OFFSET_ENTRY_BYTES);
    for entry in entries {
        bytes.extend_from_slice(&entry.relative_offset.to_be_bytes());
        bytes.extend_from_slice(&entry.position.to_be_bytes());
    }
    bytes
}

fn time_bytes(entries: &[TimeEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * TIME_ENTRY_BYTES);
    for entry in entries {
        bytes.extend_from_slice(&entry.timestamp.0.to_be_bytes());
        bytes.extend_from_slice(&entry.relative_offset.to_be_bytes());
    }
    bytes
}

fn parse_offset_entry(bytes: &[u8; OFFSET_ENTRY_BYTES]) -> OffsetEntry {
    let [a, b, c, d, e, f, g, h] = *bytes;
    OffsetEntry { relative_offset: u32::from_be_bytes([a, b, c, d]), position: u32::from_be_bytes([e, f, g, h]) }
}

fn parse_time_entry(bytes: &[u8; TIME_ENTRY_BYTES]) -> TimeEntry {
    let [timestamp @ .., a, b, c, d] = *bytes;
    TimeEntry {
        timestamp: WallMillis(i64::from_be_bytes(timestamp)),
        relative_offset: u32::from_be_bytes([a, b, c, d]),
    }
}
