//! The port through which everything in this crate touches storage.
//!
//! Synchronous and by path: whoever implements it decides what a handle is and how many stay open. There are two
//! implementations here, [`FsDisk`] (the file system) and [`MemDisk`] (memory, with a model of what a power cut leaves);
//! a simulator brings its own.
//!
//! **Invariant of users:** what was written is durable only after [`Disk::sync_data`] of the file *and*, if its name is
//! new, [`Disk::sync_dir`] of its directory (and of that directory's parent, if that is new).

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use riparian_types::WallMillis;

use crate::lent::LentFile;

mod fs;
mod memory;

pub use fs::FsDisk;
pub use memory::{MemDisk, MemFaults};

/// Storage, as the log sees it.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Reads from `position` until the buffer is full or the file ends; returns how many bytes were read.
    fn read_at(&self, path: &Path, position: u64, buffer: &mut [u8]) -> Result<usize, DiskError>;
    /// Writes the parts one behind the other at `position`, creating the file if there is none.
    ///
    /// When it fails, any prefix may have been written.
    fn write_at(&self, path: &Path, position: u64, parts: &[&[u8]]) -> Result<(), DiskError>;
    /// Bytes of the file.
    fn file_bytes(&self, path: &Path) -> Result<u64, DiskError>;
    /// The file itself, to be sent from; none if there is no such thing as a file, or enough are lent already.
    fn lend(&self, _path: &Path) -> Option<LentFile> {
        None
    }
    /// When the file was last written; none if the disk does not keep that.
    fn modified_at(&self, _path: &Path) -> Option<WallMillis> {
        None
    }
    /// Cuts the file, or fills it up with zeros.
    fn truncate(&self, path: &Path, bytes: u64) -> Result<(), DiskError>;
    /// Makes what was written to the file durable.
    fn sync_data(&self, path: &Path) -> Result<(), DiskError>;
    /// Makes the names in the directory durable.
    fn sync_dir(&self, path: &Path) -> Result<(), DiskError>;
    /// Makes the directory, and those above it, if there is none.
    fn create_dir(&self, path: &Path) -> Result<(), DiskError>;
    /// What is in the directory, ordered by name.
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError>;
    /// Gives a file or directory another name; a file of that name is replaced in one step.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> Result<(), DiskError>;
    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError>;
    /// Takes the exclusive lock that this file stands for, until the guard is dropped.
    ///
    /// Fails with [`io::ErrorKind::WouldBlock`] if somebody has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, DiskError>;

    /// Up to `bytes` bytes from `position`; fewer if the file ends.
    fn read(&self, path: &Path, position: u64, bytes: usize) -> Result<Vec<u8>, DiskError> {
        let mut buffer = vec![0; bytes];
        let read = self.read_at(path, position, &mut buffer)?;
        buffer.truncate(read);
        Ok(buffer)
    }

    /// The whole file; none if there is none.
    fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
        let bytes = match self.file_bytes(path) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        self.read(path, 0, usize::try_from(bytes).unwrap_or(usize::MAX)).map(Some)
    }

    /// Puts these bytes in place of the whole file: after a power cut it has the old or the new bytes.
    ///
    /// That it has the new ones is certain only after [`Disk::sync_dir`].
    fn replace_file(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let temporary = self.write_temporary(path, bytes)?;
        self.sync_data(&temporary)?;
        self.rename(&temporary, path)
    }

    /// As [`Disk::replace_file`], but after a power cut the file may have anything, or not be there.
    fn replace_file_unsynced(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let temporary = self.write_temporary(path, bytes)?;
        self.rename(&temporary, path)
    }

    /// Writes the bytes to a file beside this one; returns its path.
    fn write_temporary(&self, path: &Path, bytes: &[u8]) -> Result<PathBuf, DiskError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        match self.truncate(&temporary, 0) {
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.write_at(&temporary, 0, &[bytes])?;
        Ok(temporary)
    }

    /// Removes a file if it is there.
    fn remove_file_if_there(&self, path: &Path) -> Result<(), DiskError> {
        match self.remove_file(path) {
            Err(error) if !error.is_not_found() => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Holds an exclusive lock until it is dropped.
pub trait LockGuard: Send + Sync + fmt::Debug {
    /// Whether the file is still where it was: not removed, renamed or replaced behind our back.
    fn is_in_place(&self) -> bool {
        true
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// What was asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are named like the methods of the trait")]
pub enum DiskOperation {
    Read,
    Write,
    FileBytes,
    Truncate,
    SyncData,
    SyncDir,
    CreateDir,
    List,
    Rename,
    RemoveFile,
    RemoveDir,
    Lock,
}

impl fmt::Display for DiskOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::FileBytes => "take the size of",
            Self::Truncate => "truncate",
            Self::SyncData => "sync",
            Self::SyncDir => "sync directory",
            Self::CreateDir => "create directory",
            Self::List => "list directory",
            Self::Rename => "rename",
            Self::RemoveFile => "remove",
            Self::RemoveDir => "remove directory",
            Self::Lock => "lock",
        })
    }
}

/// A disk that did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {source}", path.display())]
pub struct DiskError {
    /// What was asked.
    pub operation: DiskOperation,
    /// Of which file or directory.
    pub path: PathBuf,
    /// What the operating system says.
    pub source: io::Error,
}

impl DiskError {
    /// An error of this operation on this path.
    pub fn new(operation: DiskOperation, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_owned(), source }
    }

    /// Whether there is no such file or directory.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether there is no room left.
    pub fn is_storage_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}
