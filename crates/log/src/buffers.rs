//! Buffers that batches are read into, used again and again.
//!
//! Memory of this size that is asked for anew comes page by page, each a fault and each filled with zeros first; that
//! costs more than the reading does. So whoever drops the last [`Bytes`] of a read gives its buffer back here.
//!
//! **Invariants:**
//! - A buffer is less than twice as large as what it was taken for.
//! - At most [`KEPT_BYTES_MAX`] are kept for the next reads, and what stays unused from one call of
//!   [`ReadBuffers::release_idle`] to the next is given up by the second.
//!
//! How much is in use is not limited here: that is up to whoever asks for so many bytes and holds on to them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The smallest buffers that are kept; smaller ones cost little anyway.
const BUFFER_BYTES_MIN: usize = 64 * 1024;
/// The largest ones that are kept. Clients ask for 1 MiB of a partition unless they are told otherwise.
const BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Buffers have powers of two.
const SIZES: usize = (BUFFER_BYTES_MAX / BUFFER_BYTES_MIN).ilog2() as usize + 1;
/// What is kept at most, all sizes together.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The buffers that nobody uses at the moment.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    sizes: [Stack; SIZES],
    bytes: usize,
}

/// The one used last is used next: most of it is still in the processor's caches.
#[derive(Debug, Default)]
struct Stack {
    buffers: Vec<Vec<u8>>,
    /// The fewest there were since idle ones were released: so many were not needed.
    idle: usize,
}

/// A buffer in use; what is in it before something is read into it is anything.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    /// How many of the bytes count.
    length: usize,
    /// Where it goes in the end; none if it is too small or too large to be kept.
    home: Option<Arc<ReadBuffers>>,
}

impl ReadBuffers {
    /// A buffer for so many bytes.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> ReadBuffer {
        if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&length) {
            return ReadBuffer { bytes: vec![0; length], length, home: None };
        }
        let buffer_bytes = length.next_power_of_two();
        let kept = self.kept().take(buffer_bytes);
        let bytes = kept.unwrap_or_else(|| vec![0; buffer_bytes]);
        ReadBuffer { bytes, length, home: Some(Arc::clone(self)) }
    }

    /// Gives up the buffers that were not needed since the last call.
    pub(crate) fn release_idle(&self) {
        let released = self.kept().release_idle();
        // The lock is free before the memory is.
        drop(released);
    }

    /// What is kept for the next reads.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        let kept = self.kept();
        let sum = kept.sizes.iter().flat_map(|stack| &stack.buffers).map(Vec::len).sum();
        assert_eq!(kept.bytes, sum);
        sum
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let left_over = self.kept().add(buffer);
        drop(left_over);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // It is whole between any two statements that can panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, buffer_bytes: usize) -> Option<Vec<u8>> {
        let stack = &mut self.sizes[size_index(buffer_bytes)];
        let buffer = stack.buffers.pop()?;
        stack.idle = stack.idle.min(stack.buffers.len());
        self.bytes -= buffer_bytes;
        Some(buffer)
    }

    /// Keeps a buffer; returns it if there are enough.
    fn add(&mut self, buffer: Vec<u8>) -> Option<Vec<u8>> {
        if self.bytes + buffer.len() > KEPT_BYTES_MAX {
            return Some(buffer);
        }
        self.bytes += buffer.len();
        self.sizes[size_index(buffer.len())].buffers.push(buffer);
        None
    }

    fn release_idle(&mut self) -> Vec<Vec<u8>> {
        let mut released = Vec::new();
        for stack in &mut self.sizes {
            // Those at the bottom were not used for the longest time.
            released.extend(stack.buffers.drain(..stack.idle));
            stack.idle = stack.buffers.len();
        }
        self.bytes -= released.iter().map(Vec::len).sum::<usize>();
        released
    }
}

/// Which stack the buffers of this size are in.
fn size_index(buffer_bytes: usize) -> usize {
    (buffer_bytes / BUFFER_BYTES_MIN).ilog2() as usize
}

impl ReadBuffer {
    /// What to read into.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// The first bytes, as many as were read.
    pub(crate) fn freeze(mut self, read: usize) -> Bytes {
        if self.home.is_none() {
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.truncate(read);
            return Bytes::from(bytes);
        }
        self.length = read.min(self.length);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const MIB: usize = 1024 * 1024;

    fn filled(buffers: &Arc<ReadBuffers>, length: usize, with: u8) -> Bytes {
        let mut buffer = buffers.take(length);
        buffer.as_mut_slice().fill(with);
        buffer.freeze(length)
    }

    #[test]
    fn a_buffer_comes_back_with_the_last_of_its_bytes() {
        let buffers = Arc::new(ReadBuffers::default());
        let bytes = filled(&buffers, MIB, 1);
        let address = bytes.as_ptr();
        let (head, tail) = (bytes.slice(..10), bytes.slice(MIB - 10..));
        drop(bytes);
        drop(head);
        assert_eq!(buffers.kept_bytes(), 0, "somebody still reads it");
        assert_eq!(tail, [1; 10][..]);
        drop(tail);
        assert_eq!(buffers.kept_bytes(), MIB);
        let again = filled(&buffers, MIB - 5, 2);
        assert_eq!((again.as_ptr(), again.len(), buffers.kept_bytes()), (address, MIB - 5, 0));
        assert!(again.iter().all(|&byte| byte == 2));
    }

    #[test]
    fn a_buffer_of_which_nothing_was_read_comes_back_too() {
        let buffers = Arc::new(ReadBuffers::default());
        drop(buffers.take(MIB));
        assert_eq!(buffers.kept_bytes(), MIB);
        let empty = buffers.take(MIB).freeze(0);
        assert!(empty.is_empty());
        drop(empty);
        assert_eq!(buffers.kept_bytes(), MIB);
    }

    #[test]
    fn buffers_are_less_than_twice_as_large_as_asked_for() {
        let buffers = Arc::new(ReadBuffers::default());
        for length in [1, BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MIN, MIB - 1, MIB, MIB + 1, BUFFER_BYTES_MAX, 50 * MIB] {
            let mut buffer = buffers.take(length);
            assert_eq!(buffer.as_mut_slice().len(), length);
            assert!(buffer.bytes.len() < 2 * length || length == 1, "{} for {length}", buffer.bytes.len());
        }
        // A large one is not handed out for a small read.
        drop(filled(&buffers, BUFFER_BYTES_MAX, 0));
        assert!(buffers.take(MIB).bytes.len() == MIB);
    }

    #[test]
    fn few_of_many_are_kept() {
        let buffers = Arc::new(ReadBuffers::default());
        for length in [BUFFER_BYTES_MIN, MIB, BUFFER_BYTES_MAX] {
            let many: Vec<Bytes> =
                (0..1000 * BUFFER_BYTES_MIN / length).map(|n| filled(&buffers, length, n as u8)).collect();
            assert!(many.iter().enumerate().all(|(n, bytes)| bytes.iter().all(|&byte| byte == n as u8)));
            drop(many);
            assert!(buffers.kept_bytes() <= KEPT_BYTES_MAX);
        }
        for length in [BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MAX + 1] {
            let before = buffers.kept_bytes();
            drop(filled(&buffers, length, 0));
            assert_eq!(buffers.kept_bytes(), before, "of no size that is kept");
        }
    }

    #[test]
    fn what_is_not_used_is_given_up() {
        let buffers = Arc::new(ReadBuffers::default());
        let three: Vec<Bytes> = (0..3).map(|n| filled(&buffers, MIB, n)).collect();
        drop(three);
        buffers.release_idle();
        assert_eq!(buffers.kept_bytes(), 3 * MIB, "used a moment ago");
        drop(filled(&buffers, MIB, 0));
        buffers.release_idle();
        assert_eq!(buffers.kept_bytes(), MIB, "one at a time was enough");
        buffers.release_idle();
        assert_eq!(buffers.kept_bytes(), 0);
    }

    #[test]
    fn threads_never_share_a_buffer() {
        let buffers = Arc::new(ReadBuffers::default());
        thread::scope(|scope| {
            for thread in 0..8u8 {
                let buffers = &buffers;
                scope.spawn(move || {
                    for round in 0..200u8 {
                        let with = thread.wrapping_mul(31).wrapping_add(round);
                        let bytes = filled(buffers, BUFFER_BYTES_MIN, with);
                        thread::yield_now();
                        assert!(bytes.iter().all(|&byte| byte == with));
                    }
                });
            }
        });
        assert!(buffers.kept_bytes() <= 8 * BUFFER_BYTES_MIN);
    }
}
