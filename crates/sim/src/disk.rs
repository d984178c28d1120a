//! The disk under the server: memory, with faults and with a moment at which the machine dies.
//!
//! One [`SimDisk`] is what one life of the server sees. Once it is dead every operation fails, so that whatever of the
//! server still runs (it is unwound, not stopped) changes nothing any more. What was not synced may be lost or torn by a
//! power cut, and stays when only the process is killed.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use riparian_log::{DirEntry, Disk, DiskError, DiskOperation, LockGuard, MemDisk};
use riparian_types::Prng;

use crate::suspended;

/// How a life of the server ends inside a disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// What was not synced is lost or torn.
    PowerCut,
    /// The operating system keeps what was written.
    Kill,
}

/// One life's view of the disk.
#[derive(Debug)]
pub(crate) struct SimDisk {
    memory: Arc<MemDisk>,
    is_dead: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    prng: Prng,
    /// Operations left until the server dies in the middle of one.
    dies_in: Option<(u64, Death)>,
    faults: DiskFaults,
    /// Writes to logs of group records, for the watcher; `None` when it must read the files anew.
    appends: Vec<Appended>,
    counts: DiskCounts,
}

/// What goes wrong at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskFaults {
    pub(crate) sync_fails: bool,
    pub(crate) is_full: bool,
}

/// What was asked of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskCounts {
    pub(crate) operations: u64,
    pub(crate) syncs: u64,
    pub(crate) failed_syncs: u64,
    pub(crate) failed_writes: u64,
}

/// A change of a file that the watcher follows.
#[derive(Clone, Debug)]
pub(crate) enum Appended {
    /// These bytes were written there.
    Bytes { path: String, position: u64, bytes: Vec<u8> },
    /// Something else happened to a file of this directory.
    Changed { dir: String },
}

impl SimDisk {
    pub(crate) fn new(memory: Arc<MemDisk>, prng: Prng) -> Self {
        let state = State {
            prng,
            dies_in: None,
            faults: DiskFaults::default(),
            appends: Vec::new(),
            counts: DiskCounts::default(),
        };
        Self { memory, is_dead: AtomicBool::new(false), state: Mutex::new(state) }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Ends this life now.
    pub(crate) fn die(&self, death: Death) {
        let mut state = self.state();
        self.die_with(&mut state, death);
    }

    /// Ends this life in the middle of an operation.
    pub(crate) fn die_in(&self, operations: u64, death: Death) {
        self.state().dies_in = Some((operations, death));
    }

    pub(crate) fn dies_soon(&self) -> Option<Death> {
        self.state().dies_in.map(|(_, death)| death)
    }

    pub(crate) fn set_faults(&self, faults: DiskFaults) {
        let mut state = self.state();
        state.faults = faults;
    }

    pub(crate) fn faults(&self) -> DiskFaults {
        self.state().faults
    }

    pub(crate) fn counts(&self) -> DiskCounts {
        self.state().counts
    }

    /// What was written to logs of group records since the last call.
    pub(crate) fn take_appends(&self) -> Vec<Appended> {
        std::mem::take(&mut self.state().appends)
    }

    fn die_with(&self, state: &mut State, death: Death) {
        if self.is_dead.swap(true, Ordering::Relaxed) {
            return;
        }
        state.dies_in = None;
        if death == Death::PowerCut {
            self.memory.power_cut_at_random(&mut state.prng);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation; fails if this life is over, or is over now. `before` runs if it ends here: an operation that
    /// was under way may have done part of its work.
    fn operate(&self, operation: DiskOperation, path: &Path, before: impl FnOnce(&mut Prng)) -> Result<(), DiskError> {
        let dead = || DiskError::new(operation, path, io::Error::other("the server is dead"));
        if self.is_dead() {
            return Err(dead());
        }
        let mut state = self.state();
        state.counts.operations += 1;
        let Some((left, death)) = &mut state.dies_in else { return Ok(()) };
        if *left > 0 {
            *left -= 1;
            return Ok(());
        }
        let death = *death;
        before(&mut state.prng);
        self.die_with(&mut state, death);
        Err(dead())
    }

    fn changed(&self, path: &Path) {
        if let Some(dir) = followed_dir(path) {
            self.state().appends.push(Appended::Changed { dir });
        }
    }
}

/// The directory's name, if the file is a log of group records.
fn followed_dir(path: &Path) -> Option<String> {
    let dir = path.parent()?.file_name()?.to_str()?;
    let is_log = path.extension().is_some_and(|extension| extension == "log");
    (is_log && dir.starts_with("__consumer_offsets-")).then(|| dir.to_owned())
}

impl Disk for SimDisk {
    fn read_at(&self, path: &Path, position: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.operate(DiskOperation::Read, path, |_| ())?;
        self.memory.read_at(path, position, buffer)
    }

    fn write_at(&self, path: &Path, position: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        let write_some = |bytes: &[u8], prng: &mut Prng| {
            let count = prng.below(bytes.len() as u64 + 1) as usize;
            // Of a write that fails anyway nothing more is to be told.
            let _ = self.memory.write_at(path, position, &[&bytes[..count]]);
        };
        self.operate(DiskOperation::Write, path, |prng| write_some(&parts.concat(), prng))?;
        let followed = followed_dir(path);
        {
            let mut state = self.state();
            if state.faults.is_full {
                state.counts.failed_writes += 1;
                write_some(&parts.concat(), &mut state.prng);
                state.appends.extend(followed.map(|dir| Appended::Changed { dir }));
                return Err(DiskError::new(DiskOperation::Write, path, io::ErrorKind::StorageFull.into()));
            }
            if followed.is_some() {
                let path = path.to_string_lossy().into_owned();
                state.appends.push(Appended::Bytes { path, position, bytes: parts.concat() });
            }
        }
        self.memory.write_at(path, position, parts)
    }

    fn file_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        self.operate(DiskOperation::FileBytes, path, |_| ())?;
        self.memory.file_bytes(path)
    }

    fn truncate(&self, path: &Path, bytes: u64) -> Result<(), DiskError> {
        self.operate(DiskOperation::Truncate, path, |_| ())?;
        self.changed(path);
        self.memory.truncate(path, bytes)
    }

    fn sync_data(&self, path: &Path) -> Result<(), DiskError> {
        self.sync(DiskOperation::SyncData, path)?;
        self.memory.sync_data(path)?;
        if path.extension().is_some_and(|extension| extension == "log") {
            suspended::stand_still();
        }
        if self.is_dead() {
            return Err(DiskError::new(DiskOperation::SyncData, path, io::Error::other("the server is dead")));
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.sync(DiskOperation::SyncDir, path)?;
        self.memory.sync_dir(path)
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.operate(DiskOperation::CreateDir, path, |_| ())?;
        self.memory.create_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        self.operate(DiskOperation::List, path, |_| ())?;
        self.memory.list(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.operate(DiskOperation::Rename, from, |_| ())?;
        self.changed(from);
        self.memory.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.operate(DiskOperation::RemoveFile, path, |_| ())?;
        self.changed(path);
        self.memory.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.operate(DiskOperation::RemoveDir, path, |_| ())?;
        self.memory.remove_dir_all(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, DiskError> {
        self.operate(DiskOperation::Lock, path, |_| ())?;
        self.memory.lock(path)
    }
}

impl SimDisk {
    fn sync(&self, operation: DiskOperation, path: &Path) -> Result<(), DiskError> {
        self.operate(operation, path, |_| ())?;
        let mut state = self.state();
        if state.faults.sync_fails {
            state.counts.failed_syncs += 1;
            return Err(DiskError::new(operation, path, io::Error::other("injected sync failure")));
        }
        state.counts.syncs += 1;
        Ok(())
    }
}
