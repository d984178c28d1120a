//! A message as it is written, except for its records: those can be megabytes, and who has them can send them from
//! where they are.
//!
//! ```text
//! outline   | throttle ... length of records | tags ... length of records | tags ... |
//!                                            ^ gap                        ^ gap
//! message   | throttle ... length of records | records | tags ... length of records | records | tags ... |
//! ```
//!
//! It knows where records are missing and how long they are, not what they are.

use alloc::{collections::VecDeque, vec::Vec};
use core::ops::{Deref, DerefMut};

use crate::EncodeError;

/// Records smaller than this are copied: a gap costs about as much.
pub const GAP_BYTES_MIN: usize = 4096;

/// A message that is being written. It is a byte vector to whoever writes; only records are treated differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    bytes: Vec<u8>,
    gaps: Vec<Gap>,
    /// Of each of the next records whether they are elsewhere, and how many bytes they have.
    elsewhere: VecDeque<Option<usize>>,
    /// Whether records are copied, whatever their size.
    is_whole: bool,
}

/// Where records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Between which bytes of the outline.
    pub position: usize,
    /// How many bytes are missing.
    pub bytes: usize,
}

impl Outline {
    /// Nothing yet, and room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// The records to be written, in their order: of those that whoever writes doesn't have, how many bytes they have.
    /// They are left out whatever is written instead of them.
    #[must_use]
    pub fn with_records_elsewhere(mut self, records: impl IntoIterator<Item = Option<usize>>) -> Self {
        self.elsewhere.extend(records);
        self
    }

    /// Writes behind what is in `out`, and leaves nothing out.
    pub fn whole(
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut outline = Self { bytes: core::mem::take(out), is_whole: true, ..Self::default() };
        let result = write(&mut outline);
        *out = outline.bytes;
        result
    }

    /// The bytes, and where some are missing, in the order in which the message has them.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Gap>) {
        (self.bytes, self.gaps)
    }

    /// How many bytes the next records have, if they are elsewhere.
    pub(crate) fn next_elsewhere(&mut self) -> Option<usize> {
        self.elsewhere.pop_front().flatten()
    }

    /// Writes records, or notes that they are missing.
    pub(crate) fn put_records(&mut self, records: &[u8]) {
        if self.is_whole || records.len() < GAP_BYTES_MIN {
            self.bytes.extend_from_slice(records);
        } else {
            self.put_gap(records.len());
        }
    }

    /// Notes that so many bytes are missing.
    pub(crate) fn put_gap(&mut self, bytes: usize) {
        self.gaps.push(Gap { position: self.bytes.len(), bytes });
    }
}

impl Deref for Outline {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Outline {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::write;

    #[test]
    fn large_records_are_left_out() {
        let large = vec![7; GAP_BYTES_MIN];
        let write_all = |out: &mut Outline| {
            for records in [&large[..], &large[1..], &[], &large] {
                write::records(out, records, true)?;
                write::bool(out, true);
            }
            write::nullable_records(out, None, true)
        };
        let mut whole = vec![0xee];
        Outline::whole(&mut whole, write_all).unwrap();
        let mut outline = Outline::with_capacity(16);
        outline.push(0xee);
        write_all(&mut outline).unwrap();
        let (bytes, gaps) = outline.into_parts();
        let prefix = 1 + 2;
        let second = prefix + 1 + 2 + GAP_BYTES_MIN - 1 + 1 + 1 + 1 + 2;
        let gap = |position| Gap { position, bytes: GAP_BYTES_MIN };
        assert_eq!(gaps, [gap(prefix), gap(second)]);
        let filled = [&bytes[..prefix], &large, &bytes[prefix..second], &large, &bytes[second..]].concat();
        assert_eq!(filled, whole);
    }

    #[test]
    fn records_that_are_elsewhere_are_left_out_whatever_their_size() {
        let write_all = |out: &mut Outline| {
            for records in [&[1, 2][..], &[], &[3]] {
                write::nullable_records(out, Some(records), true)?;
            }
            write::records(out, &[4], true)
        };
        let mut outline = Outline::with_capacity(16).with_records_elsewhere([None, Some(5), Some(100_000)]);
        write_all(&mut outline).unwrap();
        let (bytes, gaps) = outline.into_parts();
        assert_eq!(bytes, [3, 1, 2, 6, 0xa1, 0x8d, 6, 2, 4]);
        assert_eq!(gaps, [Gap { position: 4, bytes: 5 }, Gap { position: 7, bytes: 100_000 }]);
    }

    #[test]
    fn what_was_written_before_stays_when_writing_fails() {
        let mut out = vec![1, 2];
        let failed = Outline::whole(&mut out, |out| {
            write::bool(out, true);
            Err(EncodeError::UnknownVersion { version: 9 })
        });
        assert!(failed.is_err());
        assert_eq!(out, [1, 2, 1]);
    }
}
