//! Walks the batches of a segment file from a position to its end, in large reads.

use std::path::Path;

use riparian_records::{BATCH_PREFIX_BYTES, Batch, BatchError, HEADER_BYTES};
use riparian_types::Offset;

use crate::disk::{Disk, DiskError};

/// Bytes read at once; more only for a batch that is larger.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Why the batches of a file end before the file does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// There is no batch.
    #[error(transparent)]
    Batch(BatchError),
    /// The batch's offsets don't follow those before.
    #[error("batch has offsets {first} to {last}, but {expected} is next")]
    Offsets {
        /// The first offset of the batch.
        first: Offset,
        /// The last offset of the batch.
        last: Offset,
        /// The offset that follows those before.
        expected: Offset,
    },
}

/// How far a scan came.
#[derive(Clone, Debug)]
pub(crate) struct ScanEnd {
    /// Where the last good batch ends.
    pub(crate) position: u64,
    /// The offset after the last good batch.
    pub(crate) next_offset: Offset,
    /// Why the scan ended before the end of the file, if it did.
    pub(crate) damage: Option<Damage>,
}

/// What to scan, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) path: &'a Path,
    /// Where a batch begins.
    pub(crate) position: u64,
    /// The offset it has, or the smallest it may have.
    pub(crate) next_offset: Offset,
    /// Whether offsets may be missing between batches: compaction leaves gaps.
    pub(crate) gaps: bool,
    /// Whether to compute CRCs.
    pub(crate) verify: bool,
}

impl Scan<'_> {
    /// Calls `on_batch` with the position of every good batch.
    pub(crate) fn run(self, mut on_batch: impl FnMut(u64, &Batch<'_>)) -> Result<ScanEnd, DiskError> {
        let file_bytes = self.disk.file_bytes(self.path)?;
        let mut end = ScanEnd { position: self.position, next_offset: self.next_offset, damage: None };
        let mut want = CHUNK_BYTES;
        while end.position < file_bytes {
            let left = usize::try_from(file_bytes - end.position).unwrap_or(usize::MAX);
            let chunk = self.disk.read(self.path, end.position, want.min(left))?;
            let is_last = chunk.len() >= left || chunk.len() < want.min(left);
            want = CHUNK_BYTES;
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let parsed = if self.verify { Batch::parse(rest) } else { Batch::parse_unverified(rest) };
                let batch = match parsed {
                    Ok(batch) => batch,
                    Err(BatchError::Truncated { .. }) if !is_last => {
                        want = CHUNK_BYTES.max(batch_bytes(rest).unwrap_or(CHUNK_BYTES));
                        break;
                    }
                    Err(error) => {
                        end.damage = Some(Damage::Batch(error));
                        return Ok(end);
                    }
                };
                let header = batch.header();
                let (first, last) = (header.base_offset, header.last_offset());
                let follows = first == end.next_offset || (self.gaps && first > end.next_offset);
                if !follows || last < first || last.0 == i64::MAX {
                    end.damage = Some(Damage::Offsets { first, last, expected: end.next_offset });
                    return Ok(end);
                }
                on_batch(end.position, &batch);
                end.position += batch.bytes().len() as u64;
                end.next_offset = header.next_offset();
                rest = &rest[batch.bytes().len()..];
            }
            // A batch that says it is larger than what is left of the file is truncated; nothing is reserved for it.
            let bytes = usize::try_from(file_bytes - end.position).unwrap_or(usize::MAX);
            if want > CHUNK_BYTES && want > bytes {
                end.damage = Some(Damage::Batch(BatchError::Truncated { batch_bytes: want, bytes }));
                return Ok(end);
            }
        }
        Ok(end)
    }
}

/// What the batch at the start of `bytes` says it has; only a header's beginning is needed.
fn batch_bytes(bytes: &[u8]) -> Option<usize> {
    let length: [u8; 4] = *bytes.get(BATCH_PREFIX_BYTES - 4..BATCH_PREFIX_BYTES)?.first_chunk()?;
    let bytes = usize::try_from(i32::from_be_bytes(length)).ok()?.checked_add(BATCH_PREFIX_BYTES)?;
    (bytes >= HEADER_BYTES).then_some(bytes)
}
