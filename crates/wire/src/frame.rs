//! Frames: a big-endian int32 size, then that many bytes.
//!
//! ```text
//! 00 00 00 0c | header, body (12 bytes)
//! ```

use alloc::vec::Vec;

/// Bytes of the size in front of a frame.
pub const PREFIX_BYTES: usize = 4;

/// A size in front of a frame that no one should wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The size is below 0.
    #[error("frame size {size} is negative")]
    Negative {
        /// The size sent.
        size: i32,
    },
    /// The size is over the receiver's limit.
    #[error("frame of {size} bytes is over the limit of {size_max}")]
    TooLarge {
        /// The size sent.
        size: usize,
        /// The limit.
        size_max: usize,
    },
}

/// The size of the frame behind this prefix, if it is one to accept.
pub fn size(prefix: [u8; PREFIX_BYTES], size_max: usize) -> Result<usize, FrameError> {
    let size = i32::from_be_bytes(prefix);
    let Ok(size) = usize::try_from(size) else {
        return Err(FrameError::Negative { size });
    };
    if size > size_max { Err(FrameError::TooLarge { size, size_max }) } else { Ok(size) }
}

/// Starts a frame at the end of `out`; give what it returns to [`finish`].
pub fn start(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    out.len()
}

/// Writes the size of the frame that began at `start`, counting everything appended since.
///
/// Fails with the size if it is over `i32::MAX`.
pub fn finish(out: &mut [u8], start: usize) -> Result<(), FrameError> {
    finish_with(out, start, 0)
}

/// As [`finish`]; so many bytes more belong to the frame and are sent from where they are.
pub fn finish_with(out: &mut [u8], start: usize, elsewhere: usize) -> Result<(), FrameError> {
    let size = out.len() - start + elsewhere;
    let Ok(prefix) = i32::try_from(size) else {
        return Err(FrameError::TooLarge { size, size_max: i32::MAX as usize });
    };
    out[start - PREFIX_BYTES..start].copy_from_slice(&prefix.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_before_anyone_waits() {
        assert_eq!(size([0, 0, 1, 0], 256), Ok(256));
        assert_eq!(size([0, 0, 1, 1], 256), Err(FrameError::TooLarge { size: 257, size_max: 256 }));
        assert_eq!(size([0xff; 4], 256), Err(FrameError::Negative { size: -1 }));
        assert_eq!(size([0x80, 0, 0, 0], 256), Err(FrameError::Negative { size: i32::MIN }));
    }

    #[test]
    fn finish_writes_what_size_reads() {
        let mut out = alloc::vec![9];
        let at = start(&mut out);
        out.extend_from_slice(b"abc");
        finish(&mut out, at).unwrap();
        assert_eq!(out, [9, 0, 0, 0, 3, b'a', b'b', b'c']);
    }
}
