//! A disk in memory that knows what a power cut would leave.
//!
//! Every file has what was written and what was synced; every directory has its names and its synced names.
//! [`MemDisk::power_cut`] goes back to what was synced.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    ops::Range,
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use riparian_types::Prng;

use super::{DirEntry, Disk, DiskError, DiskOperation, LockGuard};

/// A disk in memory.
#[derive(Debug)]
pub struct MemDisk {
    state: Mutex<State>,
}

/// What goes wrong on a [`MemDisk`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MemFaults {
    /// Syncs of files and directories fail.
    pub sync_fails: bool,
    /// Syncs fail once this many have succeeded, counted from the beginning.
    pub syncs_max: Option<u64>,
    /// A write that would make the disk's files larger than this, together, is cut there and fails.
    pub capacity_bytes: Option<u64>,
    /// Truncation fails.
    pub truncate_fails: bool,
}

#[derive(Debug)]
struct State {
    nodes: Vec<Node>,
    locks: BTreeMap<PathBuf, Arc<AtomicBool>>,
    faults: MemFaults,
    sync_count: u64,
    bytes_read: BTreeMap<PathBuf, u64>,
}

#[derive(Debug)]
enum Node {
    File(File),
    Dir { names: BTreeMap<String, usize>, synced: BTreeMap<String, usize> },
}

/// A file as it was written and as it was synced; the two differ inside of `dirty` only, so that a sync and a power cut
/// cost what was written since the last one.
#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    dirty: Range<usize>,
}

const ROOT: usize = 0;

impl Default for MemDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl MemDisk {
    /// An empty disk.
    pub fn new() -> Self {
        let root = Node::Dir { names: BTreeMap::new(), synced: BTreeMap::new() };
        let state = State {
            nodes: vec![root],
            locks: BTreeMap::new(),
            faults: MemFaults::default(),
            sync_count: 0,
            bytes_read: BTreeMap::new(),
        };
        Self { state: Mutex::new(state) }
    }

    /// Makes these things go wrong from now on, and no others.
    pub fn set_faults(&self, faults: MemFaults) {
        self.state().faults = faults;
    }

    /// Forgets what was not synced, and every lock.
    pub fn power_cut(&self) {
        let mut state = self.state();
        state.locks.clear();
        for node in &mut state.nodes {
            match node {
                Node::File(file) => file.forget_unsynced(),
                Node::Dir { names, synced } => names.clone_from(synced),
            }
        }
    }

    /// As [`MemDisk::power_cut`], but of what was not synced some may be there: names, and of every file any of its
    /// sectors.
    pub fn power_cut_at_random(&self, prng: &mut Prng) {
        let mut state = self.state();
        state.locks.clear();
        for node in &mut state.nodes {
            match node {
                Node::File(file) => file.tear(prng),
                // There is nothing to choose from.
                Node::Dir { names, synced } if names == synced => {}
                Node::Dir { names, synced } => {
                    let mut left = BTreeMap::new();
                    for name in names.keys().chain(synced.keys()) {
                        let from = if prng.chance(2) { &*names } else { &*synced };
                        if let Some(node) = from.get(name) {
                            left.entry(name.clone()).or_insert(*node);
                        }
                    }
                    names.clone_from(&left);
                    *synced = left;
                }
            }
        }
    }

    /// Bytes of all files, as [`MemFaults::capacity_bytes`] counts them.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// How many syncs of files and directories have succeeded.
    pub fn sync_count(&self) -> u64 {
        self.state().sync_count
    }

    /// How many bytes were read of which files since the last call.
    pub fn take_bytes_read(&self) -> BTreeMap<PathBuf, u64> {
        std::mem::take(&mut self.state().bytes_read)
    }

    /// Changes a file's bytes, behind the back of whoever wrote it; both what was written and what was synced.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), DiskError> {
        self.with(DiskOperation::Write, path, |state| {
            let file = state.file(path)?;
            change(&mut file.bytes);
            file.synced.clone_from(&file.bytes);
            file.dirty = 0..0;
            Ok(())
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        operation: DiskOperation,
        path: &Path,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        act(&mut self.state()).map_err(|error| DiskError::new(operation, path, error))
    }
}

impl State {
    fn find(&self, path: &Path) -> io::Result<usize> {
        let mut node = ROOT;
        for name in names_of(path) {
            let Node::Dir { names, .. } = &self.nodes[node] else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = *name.to_str().and_then(|name| names.get(name)).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    fn dir(&mut self, path: &Path) -> io::Result<&mut BTreeMap<String, usize>> {
        let node = self.find(path)?;
        match &mut self.nodes[node] {
            Node::Dir { names, .. } => Ok(names),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn file(&mut self, path: &Path) -> io::Result<&mut File> {
        let node = self.find(path)?;
        match &mut self.nodes[node] {
            Node::File(file) => Ok(file),
            Node::Dir { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn file_or_new(&mut self, path: &Path) -> io::Result<&mut File> {
        if self.find(path).is_err() {
            let node = self.nodes.len();
            self.dir(parent(path))?.insert(name_of(path)?, node);
            self.nodes.push(Node::File(File::default()));
        }
        self.file(path)
    }

    fn used_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| if let Node::File(file) = node { file.bytes.len() as u64 } else { 0 }).sum()
    }

    /// How many of the bytes that would be written are too many.
    fn bytes_over(&mut self, path: &Path, end: usize) -> io::Result<usize> {
        let Some(capacity) = self.faults.capacity_bytes else { return Ok(0) };
        let used = self.used_bytes();
        let growth = end.saturating_sub(self.file_or_new(path)?.bytes.len()) as u64;
        let over = if growth == 0 { 0 } else { (used + growth).saturating_sub(capacity) };
        Ok(usize::try_from(over).unwrap_or(usize::MAX))
    }

    fn count_sync(&mut self) -> io::Result<()> {
        if self.faults.sync_fails || self.faults.syncs_max.is_some_and(|max| self.sync_count >= max) {
            return Err(io::Error::other("injected sync failure"));
        }
        self.sync_count += 1;
        Ok(())
    }
}

impl Disk for MemDisk {
    fn read_at(&self, path: &Path, position: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.with(DiskOperation::Read, path, |state| {
            let file = state.file(path)?;
            let rest = usize::try_from(position).ok().and_then(|start| file.bytes.get(start..)).unwrap_or(&[]);
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            *state.bytes_read.entry(path.to_owned()).or_default() += length as u64;
            Ok(length)
        })
    }

    fn write_at(&self, path: &Path, position: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        self.with(DiskOperation::Write, path, |state| {
            let start = usize::try_from(position).map_err(|_| io::ErrorKind::FileTooLarge)?;
            let end = start + parts.iter().map(|part| part.len()).sum::<usize>();
            let over = state.bytes_over(path, end)?;
            let file = state.file_or_new(path)?;
            if over == 0 {
                file.write(start, parts);
                return Ok(());
            }
            let data = parts.concat();
            file.write(start, &[&data[..data.len().saturating_sub(over)]]);
            Err(io::ErrorKind::StorageFull.into())
        })
    }

    fn file_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        self.with(DiskOperation::FileBytes, path, |state| Ok(state.file(path)?.bytes.len() as u64))
    }

    fn truncate(&self, path: &Path, bytes: u64) -> Result<(), DiskError> {
        self.with(DiskOperation::Truncate, path, |state| {
            if state.faults.truncate_fails {
                return Err(io::Error::other("injected truncate failure"));
            }
            let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
            state.file(path)?.resize(length);
            Ok(())
        })
    }

    fn sync_data(&self, path: &Path) -> Result<(), DiskError> {
        self.with(DiskOperation::SyncData, path, |state| {
            state.count_sync()?;
            state.file(path)?.sync();
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.with(DiskOperation::SyncDir, path, |state| {
            state.count_sync()?;
            let node = state.find(path)?;
            match &mut state.nodes[node] {
                Node::Dir { names, synced } => synced.clone_from(names),
                Node::File(_) => return Err(io::ErrorKind::NotADirectory.into()),
            }
            Ok(())
        })
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.with(DiskOperation::CreateDir, path, |state| {
            let mut made = PathBuf::new();
            for name in names_of(path) {
                let node = state.nodes.len();
                let names = state.dir(&made)?;
                made.push(name);
                let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
                if !names.contains_key(name) {
                    names.insert(name.to_owned(), node);
                    state.nodes.push(Node::Dir { names: BTreeMap::new(), synced: BTreeMap::new() });
                }
            }
            state.dir(path).map(|_| ())
        })
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        self.with(DiskOperation::List, path, |state| {
            let names = state.dir(path)?.clone();
            let is_dir = |node: usize| matches!(state.nodes[node], Node::Dir { .. });
            Ok(names.into_iter().map(|(name, node)| DirEntry { name, is_dir: is_dir(node) }).collect())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.with(DiskOperation::Rename, from, |state| {
            let node = state.find(from)?;
            state.dir(parent(to))?.insert(name_of(to)?, node);
            state.dir(parent(from))?.remove(&name_of(from)?);
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.with(DiskOperation::RemoveFile, path, |state| {
            state.file(path)?;
            state.dir(parent(path))?.remove(&name_of(path)?);
            Ok(())
        })
    }

    fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.with(DiskOperation::RemoveDir, path, |state| {
            state.dir(path)?;
            state.dir(parent(path))?.remove(&name_of(path)?);
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, DiskError> {
        let held = self.with(DiskOperation::Lock, path, |state| {
            state.file_or_new(path)?;
            let held = Arc::clone(state.locks.entry(path.to_owned()).or_default());
            if held.swap(true, Ordering::AcqRel) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(held) }
        })?;
        Ok(Box::new(MemLock { held }))
    }
}

#[derive(Debug)]
struct MemLock {
    held: Arc<AtomicBool>,
}

impl LockGuard for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.held.store(false, Ordering::Release);
    }
}

impl File {
    fn touch(&mut self, range: Range<usize>) {
        self.dirty = match self.dirty.is_empty() {
            true => range,
            false => self.dirty.start.min(range.start)..self.dirty.end.max(range.end),
        };
    }

    fn write(&mut self, start: usize, parts: &[&[u8]]) {
        let mut at = start;
        let end = start + parts.iter().map(|part| part.len()).sum::<usize>();
        self.touch(start.min(self.bytes.len())..end);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    fn resize(&mut self, length: usize) {
        let before = self.bytes.len();
        self.touch(length.min(before)..length.max(before));
        self.bytes.resize(length, 0);
    }

    fn sync(&mut self) {
        copy_range(&self.bytes, &mut self.synced, &self.dirty);
        self.dirty = 0..0;
    }

    fn forget_unsynced(&mut self) {
        copy_range(&self.synced, &mut self.bytes, &self.dirty);
        self.dirty = 0..0;
    }

    /// Leaves what a power cut might: its length is the old or the new one or between, and every sector beyond what was
    /// synced is the old or the new one, or zeros if it is new.
    fn tear(&mut self, prng: &mut Prng) {
        const SECTOR_BYTES: usize = 512;
        if self.dirty.is_empty() {
            return;
        }
        let (bytes, synced) = (&mut self.bytes, &mut self.synced);
        let (shorter, longer) = (bytes.len().min(synced.len()), bytes.len().max(synced.len()));
        let length = match prng.below(3) {
            0 => synced.len(),
            1 => bytes.len(),
            _ => shorter + prng.below((longer - shorter) as u64 + 1) as usize,
        };
        let keeps_all = prng.chance(2);
        let first = self.dirty.start - self.dirty.start % SECTOR_BYTES;
        let mut torn = vec![0; self.dirty.end.min(length).saturating_sub(first)];
        for (index, sector) in torn.chunks_mut(SECTOR_BYTES).enumerate() {
            let from = if keeps_all || prng.chance(2) { &**bytes } else { &**synced };
            let rest = from.get(first + index * SECTOR_BYTES..).unwrap_or(&[]);
            let count = rest.len().min(sector.len());
            sector[..count].copy_from_slice(&rest[..count]);
        }
        for side in [bytes, synced] {
            side.resize(length, 0);
            let end = first + torn.len();
            side.get_mut(first..end).unwrap_or_default().copy_from_slice(&torn);
        }
        self.dirty = 0..0;
    }
}

/// Makes `to` the same as `from`, if they differ in this range only.
fn copy_range(from: &[u8], to: &mut Vec<u8>, range: &Range<usize>) {
    if range.is_empty() {
        return;
    }
    to.resize(from.len(), 0);
    let range = range.start.min(from.len())..range.end.min(from.len());
    to[range.clone()].copy_from_slice(&from[range]);
}

fn names_of(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    })
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}

fn name_of(path: &Path) -> io::Result<String> {
    path.file_name().and_then(OsStr::to_str).map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_leaves_what_was_synced() {
        let disk = MemDisk::new();
        let (dir, file, other) = (Path::new("/d"), Path::new("/d/f"), Path::new("/d/g"));
        disk.create_dir(dir).unwrap();
        disk.write_at(file, 0, &[b"one"]).unwrap();
        disk.sync_data(file).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk.power_cut();
        assert_eq!(disk.list(dir).unwrap(), []);
        disk.write_at(file, 0, &[b"one"]).unwrap();
        disk.sync_data(file).unwrap();
        disk.sync_dir(dir).unwrap();
        disk.write_at(file, 3, &[b"two"]).unwrap();
        disk.write_at(other, 0, &[b"x"]).unwrap();
        disk.power_cut();
        assert_eq!(disk.read_file(file).unwrap().unwrap(), b"one");
        assert_eq!(disk.read_file(other).unwrap(), None);
    }

    #[test]
    fn a_full_disk_takes_what_fits() {
        let disk = MemDisk::new();
        disk.set_faults(MemFaults { capacity_bytes: Some(5), ..MemFaults::default() });
        let file = Path::new("f");
        disk.write_at(file, 0, &[b"abc"]).unwrap();
        assert!(disk.write_at(file, 3, &[b"defg"]).unwrap_err().is_storage_full());
        assert_eq!(disk.read_file(file).unwrap().unwrap(), b"abcde");
        disk.write_at(file, 0, &[b"xyz"]).unwrap();
    }
}
