//! Reading batches and looking up offsets. The lock is held only to find the segment; files are read without it.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use riparian_records::{Batch, BatchHeader, HEADER_BYTES, MAGIC};
use riparian_types::{LeaderEpoch, Offset, WallMillis};

use super::{PartitionLog, State};
use crate::{
    disk::DiskError,
    error::{ReadError, Unavailable},
    index::TimestampOffset,
    segment::{PositionLookup, Segment},
};

/// Bytes read at once to walk over batch headers.
pub(super) const WALK_BYTES: usize = 16 * 1024;
const READ_ENDS: usize = 8;

/// Whole batches as they lie in the log.
#[derive(Clone, Debug)]
pub struct ReadBatches {
    /// The batches; the first may begin before the offset asked for.
    pub bytes: Bytes,
    /// Where to go on; the offset asked for if there is nothing there yet.
    pub next_offset: Offset,
    /// The log's first offset.
    pub log_start_offset: Offset,
    /// Whether there was a batch, but larger than the bytes allowed.
    pub too_large: bool,
}

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundTimestamp {
    /// The record's offset.
    pub offset: Offset,
    /// The record's timestamp.
    pub timestamp: WallMillis,
    /// The leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

/// Where recent reads ended: a reader that goes on from there needs no index.
#[derive(Debug, Default)]
pub(super) struct ReadEnds {
    ends: [Option<ReadEnd>; READ_ENDS],
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadEnd {
    pub(super) segment: Offset,
    pub(super) offset: Offset,
    pub(super) position: u64,
}

impl ReadEnds {
    pub(super) fn find(&self, segment: Offset, offset: Offset) -> Option<u64> {
        let end = self.ends.iter().flatten().find(|end| end.segment == segment && end.offset == offset)?;
        Some(end.position)
    }

    pub(super) fn note(&mut self, before: Offset, end: ReadEnd) {
        let same_reader = self.ends.iter().position(|known| known.is_some_and(|known| known.offset == before));
        let index = same_reader.unwrap_or(self.next);
        if same_reader.is_none() {
            self.next = (self.next + 1) % READ_ENDS;
        }
        self.ends[index] = Some(end);
    }
}

/// What has to be known of a segment to read it without the lock.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) base_offset: Offset,
    /// Where the next segment begins, or the log ends: no batch of this one reaches so far.
    pub(super) end_offset: Offset,
    pub(super) path: Arc<Path>,
    pub(super) bytes: u64,
    lookup: PositionLookup,
    /// The position is where a read ended, not what an index says.
    is_sure: bool,
}

impl PartitionLog {
    /// Reads whole batches from the one that has offset `from` (or the next one that is there), up to offset `upto`.
    ///
    /// At most `bytes_max` bytes; if the first batch is larger, it comes whole if `at_least_one` is set, and nothing
    /// comes otherwise. Readers that may see only what is durable pass [`PartitionLog::durable_end`] as `upto`.
    pub fn read(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Result<ReadBatches, ReadError> {
        let mut segment_index = None;
        loop {
            let (located, index, log_start_offset) = {
                let state = self.available()?;
                let (start, end) = (state.start, state.end);
                if from < start || from > end {
                    return Err(ReadError::OutOfRange { offset: from, start, end });
                }
                let index = segment_index.or_else(|| segment_of(&state, from));
                let located = index.filter(|_| from < upto.min(end)).and_then(|index| self.locate(&state, index, from));
                let Some(mut located) = located else {
                    let bytes = Bytes::new();
                    return Ok(ReadBatches { bytes, next_offset: from, log_start_offset: start, too_large: false });
                };
                if let Some(position) = state.read_ends.find(located.base_offset, from) {
                    located.lookup = PositionLookup::Known(position);
                    located.is_sure = true;
                }
                (located, index, start)
            };
            let read = self.read_segment(&located, from, upto, bytes_max, at_least_one);
            let read = self.check_still_there(from, read)?;
            match read {
                Some((read, end)) => {
                    if read.next_offset > from {
                        self.state().read_ends.note(from, end);
                    }
                    return Ok(ReadBatches { log_start_offset, ..read });
                }
                // Nothing from that offset in this segment: what was there is compacted away.
                None => segment_index = index.map(|index| index + 1),
            }
        }
    }

    /// The first record whose timestamp is not before this one, below offset `upto`.
    pub fn offset_for_timestamp(&self, at: WallMillis, upto: Offset) -> Result<Option<FoundTimestamp>, ReadError> {
        let (segments, start) = {
            let state = self.available()?;
            let late = |segment: &Segment| segment.latest.is_some_and(|latest| latest.timestamp >= at);
            let segments: Vec<_> = (state.segments.iter().enumerate().filter(|(_, segment)| late(segment)))
                .filter_map(|(index, segment)| {
                    Some((self.locate(&state, index, segment.base_offset)?, segment.time_lookup(at)))
                })
                .collect();
            (segments, state.start)
        };
        for (mut located, time_lookup) in segments {
            let mut find = || -> Result<_, ReadError> {
                let from = time_lookup.find(&*self.disk, &self.dir, located.base_offset, at)?.max(start);
                // The lookup was made for the segment's start; only an index on disk can be asked again.
                if let PositionLookup::Known(_) = located.lookup {
                    located.lookup = self.lookup_again(located.base_offset, from);
                }
                let is_late = |header: &BatchHeader| header.max_timestamp >= at && header.last_offset() >= from;
                let Some((bytes, _)) = self.find_batch(&located, from, is_late)? else { return Ok(None) };
                Ok(first_record(&bytes, |record_at, offset| record_at >= at && offset >= start))
            };
            let found = find();
            if let Some(found) = self.check_still_there(start, found)? {
                return Ok((found.offset < upto).then_some(found));
            }
        }
        Ok(None)
    }

    /// The record with the largest timestamp, the first of them if there are several (KIP-734).
    pub fn max_timestamp(&self) -> Result<Option<FoundTimestamp>, ReadError> {
        let (located, latest, start) = {
            let state = self.available()?;
            let latest =
                state.segments.iter().enumerate().filter_map(|(index, segment)| Some((index, segment.latest?)));
            let later = |found: (usize, TimestampOffset), other: (usize, TimestampOffset)| {
                if other.1.timestamp > found.1.timestamp { other } else { found }
            };
            let Some((index, latest)) = latest.reduce(later) else { return Ok(None) };
            let Some(located) = self.locate(&state, index, latest.offset) else { return Ok(None) };
            (located, latest, state.start)
        };
        let find = || -> Result<_, ReadError> {
            let Some((bytes, _)) =
                self.find_batch(&located, latest.offset, |header| header.last_offset() >= latest.offset)?
            else {
                return Ok(None);
            };
            Ok(first_record(&bytes, |record_at, _| record_at == latest.timestamp))
        };
        let found = find();
        self.check_still_there(start, found)
    }

    /// The largest leader epoch that is not above this one, and the offset at which it ends (KIP-320).
    ///
    /// None if the epoch is later than the latest.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let state = self.state();
        state.epochs.end_of(epoch, state.end)
    }

    /// The leader epoch of the last batch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.state().epochs.latest()
    }

    pub(super) fn locate(&self, state: &State, index: usize, offset: Offset) -> Option<Located> {
        let segment = state.segments.get(index)?;
        Some(Located {
            base_offset: segment.base_offset,
            end_offset: state.segments.get(index + 1).map_or(state.end, |next| next.base_offset),
            path: segment.path.clone(),
            bytes: segment.bytes,
            lookup: segment.position_lookup(offset),
            is_sure: false,
        })
    }

    fn lookup_again(&self, base_offset: Offset, offset: Offset) -> PositionLookup {
        let state = self.state();
        let segment = state.segments.iter().find(|segment| segment.base_offset == base_offset);
        segment.map_or(PositionLookup::Known(0), |segment| segment.position_lookup(offset))
    }

    fn position(&self, located: &Located, offset: Offset) -> Result<u64, DiskError> {
        located.lookup.find(&*self.disk, &self.dir, located.base_offset, offset)
    }

    fn read_segment(
        &self,
        located: &Located,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Result<Option<(ReadBatches, ReadEnd)>, ReadError> {
        // One read is enough for who goes on where a read ended; others have to find the batch first.
        let want = if located.is_sure { bytes_max } else { WALK_BYTES };
        let Some(found) = self.walk(located, from, want, |header| header.last_offset() >= from)? else {
            return Ok(None);
        };
        let Walked { mut bytes, position, header } = found;
        let first_bytes = batch_bytes(located, position, &header)?;
        let too_large = first_bytes > bytes_max;
        let read_end = |offset, position| ReadEnd { segment: located.base_offset, offset, position };
        let result = |bytes, next_offset, too_large| ReadBatches {
            bytes,
            next_offset,
            log_start_offset: Offset::ZERO,
            too_large,
        };
        if header.base_offset >= upto || (too_large && !at_least_one) {
            let too_large = header.base_offset < upto;
            return Ok(Some((result(Bytes::new(), from, too_large), read_end(from, position))));
        }
        let left = usize::try_from(located.bytes - position).unwrap_or(usize::MAX);
        let wanted = bytes_max.max(first_bytes).min(left);
        if bytes.len() < first_bytes || (!located.is_sure && bytes.len() < wanted) {
            bytes = self.read_bytes(located, position, wanted)?;
            if bytes.len() < first_bytes {
                return Err(ReadError::Damaged { path: located.path.to_path_buf(), position });
            }
        }
        let (mut end, mut next_offset) = (first_bytes, header.next_offset());
        while let Some(header) = bytes.get(end..).and_then(BatchHeader::parse) {
            // Damage is told to whoever comes to it; what lies before can be read, and nobody is sent back.
            let Ok(length) = batch_bytes(located, position + end as u64, &header) else { break };
            if header.base_offset < next_offset || header.last_offset() < header.base_offset {
                break;
            }
            if header.base_offset >= upto || end + length > bytes_max.min(bytes.len()) {
                break;
            }
            end += length;
            next_offset = header.next_offset();
        }
        // Whoever holds on to a few bytes holds on to the whole buffer.
        let bytes = if end < bytes.len() / 2 { Bytes::copy_from_slice(&bytes[..end]) } else { bytes.slice(..end) };
        let read_end = read_end(next_offset, position + end as u64);
        Ok(Some((result(bytes, next_offset, too_large), read_end)))
    }

    /// The whole batch that is the first, from this offset on, to fulfil the condition.
    fn find_batch(
        &self,
        located: &Located,
        from: Offset,
        fulfils: impl Fn(&BatchHeader) -> bool,
    ) -> Result<Option<(Bytes, BatchHeader)>, ReadError> {
        let Some(found) = self.walk(located, from, WALK_BYTES, fulfils)? else { return Ok(None) };
        let length = batch_bytes(located, found.position, &found.header)?;
        Ok(Some((self.read_exactly(located, found.position, length)?, found.header)))
    }

    /// Walks over batches to the first, from this offset on, that fulfils the condition; gives what was read from its
    /// start on.
    ///
    /// Where to begin the index says, which may have been damaged since it was written: unless there is a batch that
    /// begins early enough, the walk begins at the segment's start.
    fn walk(
        &self,
        located: &Located,
        from: Offset,
        want: usize,
        fulfils: impl Fn(&BatchHeader) -> bool,
    ) -> Result<Option<Walked>, ReadError> {
        let mut position = self.position(located, from)?;
        let mut is_sure = located.is_sure || position == 0;
        if !is_sure && position >= located.bytes {
            (position, is_sure) = (0, true);
        }
        while position < located.bytes {
            let left = usize::try_from(located.bytes - position).unwrap_or(usize::MAX);
            let mut bytes = self.read_bytes(located, position, want.max(HEADER_BYTES).min(left))?;
            if !is_sure {
                is_sure = true;
                if !is_batch_before(located, position, &bytes, from) {
                    position = 0;
                    continue;
                }
            }
            if bytes.len() < HEADER_BYTES {
                return Err(ReadError::Damaged { path: located.path.to_path_buf(), position });
            }
            while let Some(header) = BatchHeader::parse(&bytes) {
                let length = batch_bytes(located, position, &header)?;
                if fulfils(&header) {
                    return Ok(Some(Walked { bytes, position, header }));
                }
                position += length as u64;
                bytes = bytes.slice(length.min(bytes.len())..);
            }
        }
        Ok(None)
    }

    fn read_exactly(&self, located: &Located, position: u64, length: usize) -> Result<Bytes, ReadError> {
        let bytes = self.read_bytes(located, position, length)?;
        if bytes.len() < length {
            return Err(ReadError::Damaged { path: located.path.to_path_buf(), position });
        }
        Ok(bytes)
    }

    /// Up to `length` bytes; fewer if the file ends.
    pub(super) fn read_bytes(&self, located: &Located, position: u64, length: usize) -> Result<Bytes, DiskError> {
        let mut buffer = self.buffers.take(length);
        let read = self.disk.read_at(&located.path, position, buffer.as_mut_slice())?;
        Ok(buffer.freeze(read))
    }

    /// After reading without the lock: the log may have been closed or trimmed meanwhile, and then what was read, or that
    /// nothing could be read, means nothing.
    fn check_still_there<T>(&self, from: Offset, read: Result<T, ReadError>) -> Result<T, ReadError> {
        let state = self.available().map_err(|unavailable: Unavailable| ReadError::from(unavailable))?;
        match read {
            Err(_) if from < state.start => {
                Err(ReadError::OutOfRange { offset: from, start: state.start, end: state.end })
            }
            other => other,
        }
    }
}

#[derive(Debug)]
struct Walked {
    bytes: Bytes,
    position: u64,
    header: BatchHeader,
}

/// The segment that has this offset, or would have it.
pub(super) fn segment_of(state: &State, offset: Offset) -> Option<usize> {
    state.segments.partition_point(|segment| segment.base_offset <= offset).checked_sub(1)
}

/// Whether a batch seems to lie here that begins at or before this offset.
fn is_batch_before(located: &Located, position: u64, bytes: &[u8], offset: Offset) -> bool {
    BatchHeader::parse(bytes).is_some_and(|header| {
        header.magic == MAGIC && header.base_offset <= offset && batch_bytes(located, position, &header).is_ok()
    })
}

/// What the batch at this position says it has, if the file has as much. Its offsets have no checksum: one that reaches
/// into the next segment would send a reader past everything between.
pub(super) fn batch_bytes(located: &Located, position: u64, header: &BatchHeader) -> Result<usize, ReadError> {
    let fits = |bytes: &usize| position + *bytes as u64 <= located.bytes && header.last_offset() < located.end_offset;
    header.batch_bytes().filter(fits).ok_or_else(|| ReadError::Damaged { path: located.path.to_path_buf(), position })
}

/// The first record of a batch that fulfils a condition on its timestamp and offset.
fn first_record(bytes: &[u8], fulfils: impl Fn(WallMillis, Offset) -> bool) -> Option<FoundTimestamp> {
    let batch = Batch::parse_unverified(bytes).ok()?;
    let records = batch.records().ok()?;
    let record = records.iter().map_while(Result::ok).find(|record| fulfils(record.timestamp, record.offset))?;
    Some(FoundTimestamp {
        offset: record.offset,
        timestamp: record.timestamp,
        leader_epoch: batch.header().leader_epoch,
    })
}

impl PartitionLog {
    /// Whether there are records that are not durable yet.
    pub fn is_dirty(&self) -> bool {
        self.durable_end.load(Ordering::Acquire) < self.end.load(Ordering::Acquire)
    }
}
