//! The file system: positioned reads and writes over a bounded cache of open files.
//!
//! Nothing is mapped into memory: a mapped file turns a bad sector into a signal, and a page fault into a stall that
//! nobody can see.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, IoSlice},
    num::NonZeroUsize,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::UNIX_EPOCH,
};

use riparian_types::WallMillis;

use super::{DirEntry, Disk, DiskError, DiskOperation, LockGuard};
use crate::lent::{Lending, LentFile};

/// For so many files that may be kept open one may be lent: who has it may be slow to give it back, and meanwhile it
/// stays open in addition.
const HANDLES_PER_LENT: usize = 4;

/// The file system.
#[derive(Debug)]
pub struct FsDisk {
    cache: Mutex<HandleCache>,
    lending: Lending,
}

impl FsDisk {
    /// Open files kept when nothing else is said.
    pub const HANDLES_DEFAULT: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

    /// The file system, with at most this many files kept open.
    ///
    /// A file in use while it falls out of the cache stays open until its use ends, so the number may be exceeded by the
    /// number of threads, and by those that are lent, a quarter of it.
    pub fn new(handles_max: NonZeroUsize) -> Self {
        let lending = Lending::new(handles_max.get().div_ceil(HANDLES_PER_LENT));
        Self { cache: Mutex::new(HandleCache::new(handles_max)), lending }
    }

    /// How many files are kept open.
    pub fn handle_count(&self) -> usize {
        self.cache().files.len()
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, HandleCache> {
        // The cache is whole between any two statements that can panic.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Arc<File>> {
        let forgotten = {
            let mut cache = self.cache();
            if let Some(file) = cache.find(path) {
                return Ok(file);
            }
            cache.forgotten
        };
        // Opened outside the lock: it may be slow. Two threads may both open the file; one handle stays. If any file was
        // renamed or removed meanwhile, what was opened may have another name by now, so it isn't kept.
        let file = Arc::new(OpenOptions::new().read(true).write(true).create(create).truncate(false).open(path)?);
        let mut cache = self.cache();
        let evicted = if cache.forgotten == forgotten { cache.insert(path, &file) } else { Vec::new() };
        drop(cache);
        drop(evicted);
        Ok(file)
    }

    fn forget(&self, path: &Path) {
        let mut cache = self.cache();
        cache.forgotten += 1;
        let dropped = cache.remove(path);
        drop(cache);
        drop(dropped);
    }

    fn forget_below(&self, path: &Path) {
        let mut cache = self.cache();
        cache.forgotten += 1;
        let dropped = cache.remove_below(path);
        drop(cache);
        drop(dropped);
    }
}

impl Disk for FsDisk {
    fn read_at(&self, path: &Path, position: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let mut read = || {
            let file = self.open(path, false)?;
            let mut filled = 0;
            while filled < buffer.len() {
                match file.read_at(&mut buffer[filled..], position + filled as u64) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(filled)
        };
        read().map_err(|error| DiskError::new(DiskOperation::Read, path, error))
    }

    fn write_at(&self, path: &Path, position: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        self.open(path, true)
            .and_then(|file| write_all_at(&file, position, parts))
            .map_err(|error| DiskError::new(DiskOperation::Write, path, error))
    }

    fn file_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        fs::metadata(path)
            .map(|metadata| metadata.len())
            .map_err(|error| DiskError::new(DiskOperation::FileBytes, path, error))
    }

    fn lend(&self, path: &Path) -> Option<LentFile> {
        // Why a file can't be opened is told to whoever reads it instead.
        self.lending.lend(|| self.open(path, false).ok())
    }

    fn modified_at(&self, path: &Path) -> Option<WallMillis> {
        let since_epoch = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(WallMillis(i64::try_from(since_epoch.as_millis()).ok()?))
    }

    fn truncate(&self, path: &Path, bytes: u64) -> Result<(), DiskError> {
        self.open(path, false)
            .and_then(|file| file.set_len(bytes))
            .map_err(|error| DiskError::new(DiskOperation::Truncate, path, error))
    }

    fn sync_data(&self, path: &Path) -> Result<(), DiskError> {
        let sync = |file: Arc<File>| {
            file.sync_data()?;
            if file.metadata()?.nlink() == 0 {
                return Err(io::Error::other("somebody has removed the file, and what is written to it is lost"));
            }
            Ok(())
        };
        self.open(path, false).and_then(sync).map_err(|error| DiskError::new(DiskOperation::SyncData, path, error))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        File::open(path)
            .and_then(|dir| dir.sync_all())
            .map_err(|error| DiskError::new(DiskOperation::SyncDir, path, error))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        fs::create_dir_all(path).map_err(|error| DiskError::new(DiskOperation::CreateDir, path, error))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        let list = || {
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                // A name that is not UTF-8 is none of ours.
                if let Ok(name) = entry.file_name().into_string() {
                    entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
                }
            }
            entries.sort();
            Ok(entries)
        };
        list().map_err(|error| DiskError::new(DiskOperation::List, path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let result = fs::rename(from, to).map_err(|error| DiskError::new(DiskOperation::Rename, from, error));
        self.forget_below(from);
        self.forget(to);
        result
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        let result = fs::remove_file(path).map_err(|error| DiskError::new(DiskOperation::RemoveFile, path, error));
        self.forget(path);
        result
    }

    fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        let result = fs::remove_dir_all(path).map_err(|error| DiskError::new(DiskOperation::RemoveDir, path, error));
        self.forget_below(path);
        result
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, DiskError> {
        let lock = || {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            file.try_lock().map_err(io::Error::from)?;
            Ok(FsLock { file, path: path.to_owned() })
        };
        match lock() {
            Ok(lock) => Ok(Box::new(lock)),
            Err(error) => Err(DiskError::new(DiskOperation::Lock, path, error)),
        }
    }
}

/// The operating system holds the lock as long as the file is open.
#[derive(Debug)]
struct FsLock {
    file: File,
    path: PathBuf,
}

impl LockGuard for FsLock {
    fn is_in_place(&self) -> bool {
        let same = |here: fs::Metadata, there: fs::Metadata| (here.dev(), here.ino()) == (there.dev(), there.ino());
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(here), Ok(there)) => same(here, there),
            (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
            // Who can't look can't tell.
            (Err(_), Ok(_)) => true,
        }
    }
}

fn write_all_at(file: &File, mut position: u64, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut slices = &mut slices[..];
    // The operating system takes a limited number of parts at once.
    const PARTS_MAX: usize = 1024;
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let some = &slices[..slices.len().min(PARTS_MAX)];
        match rustix::io::pwritev(file, some, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut slices, written);
                position += written as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Open files by path; the one used longest ago is closed first.
#[derive(Debug)]
struct HandleCache {
    handles_max: NonZeroUsize,
    files: HashMap<PathBuf, Handle>,
    /// Paths by the time of their last use.
    by_use: BTreeMap<u64, PathBuf>,
    uses: u64,
    /// How often files were renamed or removed.
    forgotten: u64,
}

#[derive(Debug)]
struct Handle {
    file: Arc<File>,
    last_use: u64,
}

impl HandleCache {
    fn new(handles_max: NonZeroUsize) -> Self {
        Self { handles_max, files: HashMap::new(), by_use: BTreeMap::new(), uses: 0, forgotten: 0 }
    }

    fn find(&mut self, path: &Path) -> Option<Arc<File>> {
        let handle = self.files.get_mut(path)?;
        // While few files are open the order of use is of no interest, and keeping it costs more than the look-up. It is
        // kept coarsely: a handle moves to the front only when it has fallen back by a part of the cache.
        let stale = self.uses.saturating_sub(handle.last_use) > self.handles_max.get() as u64 / 8;
        if stale && let Some(key) = self.by_use.remove(&handle.last_use) {
            self.uses += 1;
            handle.last_use = self.uses;
            self.by_use.insert(self.uses, key);
        }
        Some(Arc::clone(&handle.file))
    }

    /// Adds a file; returns those to close, for the caller to drop outside the lock.
    fn insert(&mut self, path: &Path, file: &Arc<File>) -> Vec<Arc<File>> {
        let mut evicted = Vec::from_iter(self.remove(path));
        self.uses += 1;
        self.by_use.insert(self.uses, path.to_owned());
        self.files.insert(path.to_owned(), Handle { file: Arc::clone(file), last_use: self.uses });
        while self.files.len() > self.handles_max.get() {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            evicted.extend(self.files.remove(&oldest).map(|handle| handle.file));
        }
        evicted
    }

    fn remove(&mut self, path: &Path) -> Option<Arc<File>> {
        let handle = self.files.remove(path)?;
        self.by_use.remove(&handle.last_use);
        Some(handle.file)
    }

    /// Removes the file at this path, or all files in this directory.
    fn remove_below(&mut self, path: &Path) -> Vec<Arc<File>> {
        if let Some(file) = self.remove(path) {
            return vec![file];
        }
        let below: Vec<PathBuf> = self.by_use.values().filter(|file| file.starts_with(path)).cloned().collect();
        below.iter().filter_map(|path| self.remove(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_keeps_few_of_many_files_open() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FsDisk::new(NonZeroUsize::new(16).unwrap());
        let path = |n: usize| dir.path().join(format!("{n}.log"));
        for round in 0..3u8 {
            for n in 0..1000 {
                disk.write_at(&path(n), u64::from(round), &[&[round], &[n as u8]]).unwrap();
                assert!(disk.handle_count() <= 16);
            }
        }
        for n in (0..1000).rev() {
            assert_eq!(disk.read(&path(n), 0, 100).unwrap(), [0, 1, 2, n as u8]);
            assert!(disk.handle_count() <= 16);
        }
    }

    #[test]
    fn a_removed_or_renamed_file_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FsDisk::new(FsDisk::HANDLES_DEFAULT);
        let (sub, moved) = (dir.path().join("a"), dir.path().join("b"));
        disk.create_dir(&sub).unwrap();
        disk.write_at(&sub.join("f"), 0, &[b"old"]).unwrap();
        disk.rename(&sub, &moved).unwrap();
        assert!(disk.read(&sub.join("f"), 0, 9).unwrap_err().is_not_found());
        assert_eq!(disk.read(&moved.join("f"), 0, 9).unwrap(), b"old");
        disk.remove_file(&moved.join("f")).unwrap();
        assert!(disk.read(&moved.join("f"), 0, 9).unwrap_err().is_not_found());
        disk.replace_file(&moved.join("f"), b"new").unwrap();
        disk.replace_file(&moved.join("f"), b"n").unwrap();
        assert_eq!(disk.read_file(&moved.join("f")).unwrap().unwrap(), b"n");
        disk.remove_dir_all(&moved).unwrap();
        assert_eq!(disk.handle_count(), 0);
    }

    #[test]
    fn many_parts_are_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FsDisk::new(FsDisk::HANDLES_DEFAULT);
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..5000u32).map(|n| n as u8).collect();
        let parts: Vec<&[u8]> = bytes.chunks(1).collect();
        disk.write_at(&path, 3, &parts).unwrap();
        disk.write_at(&path, 3, &[]).unwrap();
        assert_eq!(disk.read(&path, 3, 9999).unwrap(), bytes);
    }

    #[test]
    fn a_file_that_somebody_removed_is_not_durable() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FsDisk::new(FsDisk::HANDLES_DEFAULT);
        let path = dir.path().join("f");
        disk.write_at(&path, 0, &[b"one"]).unwrap();
        disk.sync_data(&path).unwrap();
        fs::remove_file(&path).unwrap();
        disk.write_at(&path, 3, &[b"two"]).unwrap();
        let error = disk.sync_data(&path).unwrap_err();
        assert!(error.to_string().contains("removed the file") && !error.is_not_found(), "{error}");
    }

    #[test]
    fn a_lock_knows_whether_its_file_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FsDisk::new(FsDisk::HANDLES_DEFAULT);
        let (path, moved) = (dir.path().join(".lock"), dir.path().join("moved"));
        let lock = disk.lock(&path).unwrap();
        assert!(lock.is_in_place());
        fs::rename(&path, &moved).unwrap();
        assert!(!lock.is_in_place());
        fs::write(&path, b"").unwrap();
        assert!(!lock.is_in_place(), "another file");
        fs::rename(&moved, &path).unwrap();
        assert!(lock.is_in_place());
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(!lock.is_in_place());
    }

    #[test]
    fn a_lock_is_exclusive_until_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FsDisk::new(FsDisk::HANDLES_DEFAULT);
        let path = dir.path().join(".lock");
        let lock = disk.lock(&path).unwrap();
        assert_eq!(disk.lock(&path).unwrap_err().source.kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        disk.lock(&path).unwrap();
    }
}
