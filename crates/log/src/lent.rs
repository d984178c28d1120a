//! Bytes of a log that are not read but sent from the file they are in.
//!
//! Whoever has a part of a file keeps the file open: it has its bytes also after it was removed. They never change, for
//! only what lies below the high watermark is lent, and nobody writes or cuts there.
//!
//! **Invariant:** no more files are lent at a time than was said; beyond that batches are read.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;

/// Bytes, wherever they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// In memory.
    Bytes(Bytes),
    /// In a file.
    File(FilePart),
}

impl Piece {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(part) => part.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

/// A part of a file.
#[derive(Clone, Debug)]
pub struct FilePart {
    file: Arc<LentFile>,
    position: u64,
    bytes: usize,
}

impl FilePart {
    /// So many bytes from this position on.
    pub fn new(file: LentFile, position: u64, bytes: usize) -> Self {
        Self { file: Arc::new(file), position, bytes }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file.file
    }

    /// Where the part begins.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes it has.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Leaves out the first bytes. Panics if there are fewer.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "{bytes} bytes of a part of {}", self.bytes);
        self.position += bytes as u64;
        self.bytes -= bytes;
    }

    /// Reads it, for those who can't send from a file.
    pub fn read(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.bytes];
        self.file().read_exact_at(&mut bytes, self.position)?;
        Ok(bytes.into())
    }
}

/// The same bytes of the same file that was lent once.
impl PartialEq for FilePart {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && (self.position, self.bytes) == (other.position, other.bytes)
    }
}

impl Eq for FilePart {}

/// An open file on loan; it is given back when this is dropped.
#[derive(Debug)]
pub struct LentFile {
    file: Arc<File>,
    lent: Arc<AtomicUsize>,
}

impl Drop for LentFile {
    fn drop(&mut self) {
        self.lent.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts what is lent.
#[derive(Debug)]
pub(crate) struct Lending {
    lent: Arc<AtomicUsize>,
    max: usize,
}

impl Lending {
    pub(crate) fn new(max: usize) -> Self {
        Self { lent: Arc::default(), max }
    }

    /// Lends a file, unless enough are lent or it can't be opened.
    pub(crate) fn lend(&self, open: impl FnOnce() -> Option<Arc<File>>) -> Option<LentFile> {
        if self.lent.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.lent.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let Some(file) = open() else {
            self.lent.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        Some(LentFile { file, lent: Arc::clone(&self.lent) })
    }
}
