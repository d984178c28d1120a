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

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::EncodeError;

/// Records smaller than this are copied: a gap costs about as much.
pub const GAP_BYTES_MIN: usize = 4096;

/// A message that is being written. It is a byte vector to whoever writes; only records are treated differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    bytes: Vec<u8>,
    gaps: Vec<Gap>,
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
        Self { bytes: Vec::with_capacity(bytes), gaps: Vec::new(), is_whole: false }
    }

    /// Writes behind what is in `out`, and leaves nothing out.
    pub fn whole(
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut outline = Self { bytes: core::mem::take(out), gaps: Vec::new(), is_whole: true };
        let result = write(&mut outline);
        *out = outline.bytes;
        result
    }

    /// The bytes, and where some are missing, in the order in which the message has them.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Gap>) {
        (self.bytes, self.gaps)
    }

    /// Writes records, or notes that they are missing.
    pub(crate) fn put_records(&mut self, records: &[u8]) {
        if self.is_whole || records.len() < GAP_BYTES_MIN {
            self.bytes.extend_from_slice(records);
        } else {
            self.gaps.push(Gap { position: self.bytes.len(), bytes: records.len() });
        }
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
