//! Cuts the bytes of a connection into request frames.
//!
//! ```text
//!  0        4            4 + size
//!  +--------+------------+
//!  | size   | request    |      size: big-endian i32
//!  +--------+------------+
//! ```
//!
//! **Invariant:** memory grows with the bytes that arrived, never with a size that was only announced; a reader between
//! two frames holds no buffer at all, so that an idle connection costs next to nothing.
//!
//! It does not know sockets, and nothing of what is in a frame except that a request header has a least size.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// API key, version, correlation id: no request is shorter.
const FRAME_BYTES_MIN: usize = 8;
const SIZE_BYTES: usize = 4;
/// From here on a frame's body is worth being read straight into its own buffer.
const DIRECT_BYTES_MIN: usize = 16 * 1024;
/// Frames that are cut out of what was read at once; the rest stays as it came, for frames of a few bytes would take many
/// times their bytes.
const FRAMES_AT_HAND_MAX: usize = 32;
/// How much room a body read directly gets at first; it doubles with what arrives.
const BODY_BYTES_FIRST: usize = 64 * 1024;

/// A size that no request can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BadFrame {
    #[error("a request of {size} bytes is announced; sizes are not negative (is this a Kafka client?)")]
    Negative { size: i32 },
    #[error("a request of {size} bytes is too short for a request header")]
    TooShort { size: usize },
    #[error(
        "a request of {size} bytes is announced; socket.request.max.bytes allows {max} (is this a Kafka client, without TLS?)"
    )]
    TooLong { size: usize, max: usize },
}

/// The frames of one connection.
#[derive(Debug)]
pub(crate) struct FrameReader {
    frame_bytes_max: usize,
    size: [u8; SIZE_BYTES],
    size_bytes: usize,
    /// Bytes of the current frame's body that have not arrived; meaningful while `size_bytes == SIZE_BYTES`.
    missing: usize,
    body: BytesMut,
    frames: VecDeque<Bytes>,
    /// Bytes after the frames at hand that are not cut yet; none if there are no frames at hand.
    rest: Bytes,
    /// What is wrong with the bytes after the frames at hand.
    bad: Option<BadFrame>,
}

impl FrameReader {
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            size: [0; SIZE_BYTES],
            size_bytes: 0,
            missing: 0,
            body: BytesMut::new(),
            frames: VecDeque::new(),
            rest: Bytes::new(),
            bad: None,
        }
    }

    /// The next complete frame, without its size.
    pub(crate) fn poll_frame(&mut self) -> Option<Bytes> {
        let frame = self.frames.pop_front()?;
        if self.frames.is_empty() && !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let cut = self.cut(&rest);
            if cut < rest.len() {
                self.rest = rest.slice(cut..);
            }
        }
        Some(frame)
    }

    /// What is wrong with the bytes after all frames; once it is, the connection cannot go on.
    pub(crate) fn take_bad(&mut self) -> Option<BadFrame> {
        if self.has_frame() { None } else { self.bad.take() }
    }

    /// Whether a complete frame is at hand.
    pub(crate) fn has_frame(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Bytes that are kept of requests that are not handled yet, but for the few at hand.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.body.len() + self.rest.len()
    }

    /// Takes bytes that arrived, when no frame is at hand.
    pub(crate) fn handle_bytes(&mut self, bytes: &[u8]) {
        let cut = self.cut(bytes);
        if cut < bytes.len() {
            self.rest = Bytes::copy_from_slice(&bytes[cut..]);
        }
    }

    /// Cuts frames until there are enough. Returns how many bytes are done with: all of them if some are bad.
    fn cut(&mut self, all: &[u8]) -> usize {
        let mut bytes = all;
        while !bytes.is_empty() && self.frames.len() < FRAMES_AT_HAND_MAX {
            if self.size_bytes < SIZE_BYTES {
                let taken = bytes.len().min(SIZE_BYTES - self.size_bytes);
                self.size[self.size_bytes..self.size_bytes + taken].copy_from_slice(&bytes[..taken]);
                self.size_bytes += taken;
                bytes = &bytes[taken..];
                if self.size_bytes == SIZE_BYTES {
                    match self.check_size(i32::from_be_bytes(self.size)) {
                        Ok(missing) => self.missing = missing,
                        Err(bad) => {
                            self.bad = Some(bad);
                            return all.len();
                        }
                    }
                }
                continue;
            }
            let taken = bytes.len().min(self.missing);
            if self.body.is_empty() && taken == self.missing {
                // The whole body is here: one copy into an allocation of its exact size.
                self.frames.push_back(Bytes::copy_from_slice(&bytes[..taken]));
                self.size_bytes = 0;
            } else {
                self.body.extend_from_slice(&bytes[..taken]);
                self.advance(taken);
            }
            bytes = &bytes[taken..];
        }
        all.len() - bytes.len()
    }

    /// For a large frame: the buffer to read into and how many bytes it may take. [`Self::advance`] must follow.
    pub(crate) fn direct(&mut self) -> Option<(&mut BytesMut, usize)> {
        if self.size_bytes < SIZE_BYTES || self.missing < DIRECT_BYTES_MIN {
            return None;
        }
        let room = self.missing.min(self.body.len().max(BODY_BYTES_FIRST));
        if self.body.capacity() == self.body.len() {
            self.body.reserve(room);
        }
        Some((&mut self.body, self.missing))
    }

    /// Notes that bytes of the current frame were added to its buffer.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.missing -= bytes;
        if self.missing == 0 {
            self.frames.push_back(std::mem::take(&mut self.body).freeze());
            self.size_bytes = 0;
        }
    }

    fn check_size(&self, size: i32) -> Result<usize, BadFrame> {
        let Ok(bytes) = usize::try_from(size) else {
            return Err(BadFrame::Negative { size });
        };
        if bytes > self.frame_bytes_max {
            return Err(BadFrame::TooLong { size: bytes, max: self.frame_bytes_max });
        }
        if bytes < FRAME_BYTES_MIN {
            return Err(BadFrame::TooShort { size: bytes });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1000;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut bytes = (body.len() as i32).to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    }

    fn check(chunks: &[&[u8]], frames: &[&[u8]], error: Option<BadFrame>) {
        let mut reader = FrameReader::new(MAX);
        let mut found = Vec::new();
        for chunk in chunks {
            reader.handle_bytes(chunk);
            assert!(reader.frames.len() <= FRAMES_AT_HAND_MAX);
            while let Some(frame) = reader.poll_frame() {
                found.push(frame);
            }
        }
        assert_eq!(found, frames);
        assert_eq!((reader.take_bad(), reader.rest.len()), (error, 0));
    }

    #[test]
    fn frames_are_cut_wherever_the_bytes_break() {
        let stream = [framed(b"12345678"), framed(&[7; 300]), framed(b"abcdefghi")].concat();
        let frames: [&[u8]; 3] = [b"12345678", &[7; 300], b"abcdefghi"];
        check(&[&stream], &frames, None);
        for at in 0..stream.len() {
            check(&[&stream[..at], &stream[at..]], &frames, None);
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        check(&single, &frames, None);
    }

    #[test]
    fn many_small_frames_take_little_more_than_their_bytes() {
        let stream = framed(b"12345678").repeat(1000);
        check(&[&stream], &[b"12345678".as_slice(); 1000], None);
        check(&[&stream, b"\0\0\0\x07"], &[b"12345678".as_slice(); 1000], Some(BadFrame::TooShort { size: 7 }));
        let mut reader = FrameReader::new(MAX);
        reader.handle_bytes(&stream);
        assert_eq!(reader.unfinished_bytes(), stream.len() - FRAMES_AT_HAND_MAX * 12);
        // What is wrong is told after all that is not.
        let bad = [stream.as_slice(), &(-1i32).to_be_bytes(), b"more"].concat();
        reader = FrameReader::new(MAX);
        reader.handle_bytes(&bad);
        for _ in 0..1000 {
            assert_eq!(reader.take_bad(), None);
            assert!(reader.poll_frame().is_some());
        }
        assert_eq!((reader.poll_frame(), reader.take_bad()), (None, Some(BadFrame::Negative { size: -1 })));
    }

    #[test]
    fn an_incomplete_frame_waits() {
        let stream = framed(b"12345678");
        check(&[&stream[..11]], &[], None);
        check(&[&stream[..3]], &[], None);
    }

    #[test]
    fn impossible_sizes_are_refused_and_earlier_frames_stay() {
        let good = framed(b"12345678");
        for (size, error) in [
            (-1, BadFrame::Negative { size: -1 }),
            (i32::MIN, BadFrame::Negative { size: i32::MIN }),
            (i32::MAX, BadFrame::TooLong { size: i32::MAX as usize, max: MAX }),
            (MAX as i32 + 1, BadFrame::TooLong { size: MAX + 1, max: MAX }),
            (7, BadFrame::TooShort { size: 7 }),
            (0, BadFrame::TooShort { size: 0 }),
        ] {
            let stream = [good.as_slice(), &size.to_be_bytes(), b"rest"].concat();
            check(&[&stream], &[b"12345678"], Some(error));
        }
        check(&[&framed(&[1; MAX])], &[&[1; MAX]], None);
    }

    #[test]
    fn an_announced_size_reserves_little() {
        let mut reader = FrameReader::new(usize::MAX);
        reader.handle_bytes(&i32::MAX.to_be_bytes());
        let (buffer, missing) = reader.direct().unwrap();
        assert_eq!(missing, i32::MAX as usize);
        assert!(buffer.capacity() <= 2 * BODY_BYTES_FIRST);
    }

    #[test]
    fn a_large_frame_is_read_directly() {
        let body: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let stream = framed(&body);
        let mut reader = FrameReader::new(usize::MAX);
        reader.handle_bytes(&stream[..100]);
        let mut at = 100;
        while let Some((buffer, missing)) = reader.direct() {
            let taken = missing.min(buffer.capacity() - buffer.len()).min(30_000);
            buffer.extend_from_slice(&stream[at..at + taken]);
            at += taken;
            reader.advance(taken);
        }
        reader.handle_bytes(&stream[at..]);
        assert_eq!(reader.poll_frame().as_deref(), Some(body.as_slice()));
        assert_eq!(reader.body.capacity(), 0);
    }
}
