//! Batches that are not read, but sent from their file.
//!
//! Where such a stretch begins is known from the read before, and where it ends from the index or the durable end; of the
//! file only the headers at both ends are read. What lies between goes out as it was written: whether a batch has kept
//! its bytes its reader sees by the checksum, as with Kafka. Everything else, and what is smaller than
//! [`LENT_BYTES_MIN`], is read as before.
//!
//! Nothing below the durable end is ever written to or cut off while the log is open, so that the bytes stay what they
//! are until they are sent; when the segment is deleted, the file stays until nobody has it open.
//!
//! **Invariant:** a stretch has whole batches, and those that reading as many bytes would give, if the index is no
//! sparser than [`WALK_BYTES`]; fewer otherwise.

use riparian_records::{BatchHeader, HEADER_BYTES, MAGIC};
use riparian_types::Offset;

use super::{
    PartitionLog,
    read::{Located, ReadEnd, WALK_BYTES, batch_bytes, segment_of},
};
use crate::{
    error::ReadError,
    lent::{FilePart, Piece},
    segment::BatchLookup,
};

/// Less than this costs less to read than to send from the file.
pub(super) const LENT_BYTES_MIN: usize = 32 * 1024;

/// Whole batches one behind the other in one file.
#[derive(Debug)]
pub(super) struct Stretch {
    located: Located,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) next_offset: Offset,
}

/// Where a stretch ends, or what is known about it.
enum End {
    Known { position: u64, next_offset: Offset },
    Near(BatchLookup),
}

impl PartitionLog {
    /// As [`PartitionLog::read`], for whoever can send from a file: what may be sent from there is not read.
    pub fn read_or_lend(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Result<Piece, ReadError> {
        match self.lend(from, upto, bytes_max) {
            Some(part) => Ok(Piece::File(part)),
            None => Ok(Piece::Bytes(self.read(from, upto, bytes_max, at_least_one)?.bytes)),
        }
    }

    /// None also where something is wrong: who reads is told what.
    fn lend(&self, from: Offset, upto: Offset, bytes_max: usize) -> Option<FilePart> {
        let stretch = self.stretch(from, upto, LENT_BYTES_MIN, bytes_max)?;
        let file = self.disk.lend(&stretch.located.path)?;
        // Before a file's name goes to another one, its log is closed; if it is not by now, this was its file.
        let mut state = self.available().ok().filter(|state| state.start <= from)?;
        let segment = stretch.located.base_offset;
        state.read_ends.note(from, ReadEnd { segment, offset: stretch.next_offset, position: stretch.end });
        let bytes = usize::try_from(stretch.end - stretch.begin).ok()?;
        Some(FilePart::new(file, stretch.begin, bytes))
    }

    /// At least `bytes_min` bytes of batches from offset `from` on, if it is known where they begin and end.
    pub(super) fn stretch(&self, from: Offset, upto: Offset, bytes_min: usize, bytes_max: usize) -> Option<Stretch> {
        if bytes_max < bytes_min {
            return None;
        }
        let (located, begin, limit, end) = {
            let state = self.available().ok()?;
            if from < state.start || from >= upto || upto > state.end {
                return None;
            }
            let index = segment_of(&state, from)?;
            let segment = state.segments.get(index).filter(|segment| !segment.is_damaged)?;
            let begin = match state.read_ends.find(segment.base_offset, from) {
                None if from == segment.base_offset => 0,
                found => found?,
            };
            let limit = begin.saturating_add(bytes_max as u64);
            let located = self.locate(&state, index, from)?;
            let place = state.durable_end_place.filter(|at| at.offset == upto && at.segment == located.base_offset);
            let known = if located.end_offset <= upto {
                Some((located.bytes, located.end_offset))
            } else {
                place.map(|place| (place.position, upto))
            };
            let end = match known {
                Some((position, next_offset)) if position <= limit => End::Known { position, next_offset },
                _ => End::Near(segment.batch_lookup(limit, upto)),
            };
            (located, begin, limit, end)
        };
        if let End::Known { position, .. } = end
            && !is_enough(begin, position, bytes_min)
        {
            return None;
        }
        let first = self.headers(&located, begin, HEADER_BYTES)?.next()?;
        if first.base_offset > from || first.last_offset() < from {
            return None;
        }
        let first_end = begin + batch_bytes(&located, begin, &first).ok()? as u64;
        let (end, next_offset) = match end {
            End::Known { position, next_offset } => (position, next_offset),
            End::Near(lookup) => self.end_near(&located, lookup, limit, upto)?,
        };
        let is_good = first_end <= end && next_offset > from && is_enough(begin, end, bytes_min);
        is_good.then_some(Stretch { located, begin, end, next_offset })
    }

    /// The last end of a batch that is found at or before a position: the index says which batch lies close before.
    fn end_near(&self, located: &Located, lookup: BatchLookup, limit: u64, upto: Offset) -> Option<(u64, Offset)> {
        let indexed = lookup.find(&*self.disk, &self.dir, located.base_offset, limit, upto).ok()??;
        let left = usize::try_from(limit - indexed.position).unwrap_or(usize::MAX);
        let mut headers = self.headers(located, indexed.position, left.clamp(HEADER_BYTES, WALK_BYTES))?;
        let first = headers.next().filter(|header| header.last_offset() == indexed.last_offset)?;
        let (mut end, mut next_offset) = (indexed.position, first.base_offset);
        for header in std::iter::once(first).chain(headers) {
            let Ok(length) = batch_bytes(located, end, &header) else { break };
            if header.base_offset < next_offset || header.base_offset >= upto || end + length as u64 > limit {
                break;
            }
            end += length as u64;
            next_offset = header.next_offset();
        }
        Some((end, next_offset))
    }

    /// The headers of the batches from this position on that lie within so many bytes.
    fn headers(&self, located: &Located, position: u64, bytes: usize) -> Option<impl Iterator<Item = BatchHeader>> {
        let bytes = self.read_bytes(located, position, bytes).ok()?;
        let mut at = 0;
        Some(std::iter::from_fn(move || {
            let header = BatchHeader::parse(bytes.get(at..)?).filter(|header| header.magic == MAGIC)?;
            at += header.batch_bytes()?;
            Some(header)
        }))
    }
}

fn is_enough(begin: u64, end: u64, bytes_min: usize) -> bool {
    end.checked_sub(begin).is_some_and(|bytes| bytes >= bytes_min.max(1) as u64)
}
