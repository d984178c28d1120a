//! How appended bytes become durable: group commit per file.
//!
//! One ticket at a time makes durable everything that was appended before it was taken, in the order in which a crash
//! must find it:
//!
//! 1. the partition's metadata, if new;
//! 2. every segment closed since: its leader epochs, its batches, its indexes and how many entries they have, and the
//!    producers' state behind it, whose file marks the segment as sealed;
//! 3. the active segment's batches;
//! 4. the names of all these files.
//!
//! Recovery trusts sealed segments and reads the others, so that a tail lost in a power cut is found, however many
//! segments were closed since the last sync.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use riparian_types::{
    Offset,
    planted::{self, Bug},
};

use super::{PartitionLog, State};
use crate::{
    config::FlushMode,
    disk::{Disk, DiskError},
    error::Unavailable,
    files::{self, Kind},
    index::MemoryIndex,
    segment::SegmentIndex,
};

/// What has changed since the last sync, besides batches at the end of the active segment.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// The partition's directory itself is new.
    dir_is_new: bool,
    /// Files were added to the directory; how often, to see whether more were while a sync ran.
    dir_changes: u64,
    dir_changes_synced: u64,
    epoch_changes: u64,
    epoch_changes_synced: u64,
    closed: Vec<Closed>,
}

/// A closed segment that isn't sealed yet.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) base_offset: Offset,
    pub(super) next_base_offset: Offset,
    /// The producers' state at the next segment's base offset; none if a later one stands for it.
    pub(super) snapshot: Option<Vec<u8>>,
}

impl Unsynced {
    pub(super) fn dir_created(&mut self) {
        self.dir_is_new = true;
    }

    pub(super) fn dir_changed(&mut self) {
        self.dir_changes += 1;
    }

    pub(super) fn epochs_changed(&mut self) {
        self.epoch_changes += 1;
        self.dir_changes += 1;
    }

    pub(super) fn is_closed_unsealed(&self, base_offset: Offset) -> bool {
        self.closed.iter().any(|closed| closed.base_offset == base_offset)
    }

    pub(super) fn segment_closed(&mut self, closed: Closed) {
        self.closed.push(closed);
    }
}

/// Where an offset lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: Offset,
    /// The segment's base offset.
    pub(super) segment: Offset,
    pub(super) position: u64,
}

/// Everything to do to make a log durable up to its end of now. Run it, then give it back with its result.
///
/// One that is dropped instead leaves the log as if it had never been taken.
#[derive(Debug)]
#[must_use = "run it and give it back to finish_sync"]
pub struct SyncTicket {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    dir: PathBuf,
    end: Offset,
    end_place: Option<Place>,
    synced_end: Offset,
    dir_is_new: bool,
    dir_changes: Option<u64>,
    epochs: Option<(u64, String)>,
    closed: Vec<(Closed, Option<MemoryIndex>)>,
    /// What is to be written down of the indexes of all closed segments, if there are new ones.
    index_entries: Option<String>,
    active: Option<Arc<Path>>,
    syncing: Arc<AtomicBool>,
}

impl SyncTicket {
    /// Does the syncs. Holds no lock; tickets of several partitions can run in parallel.
    pub fn run(&self) -> Result<(), DiskError> {
        let disk = &*self.disk;
        if self.dir_is_new {
            disk.sync_data(&self.dir.join(files::PARTITION_METADATA))?;
        }
        if let Some((_, text)) = &self.epochs {
            let path = self.dir.join(files::LEADER_EPOCHS);
            if self.closed.is_empty() {
                // What the segments that are read at recovery don't say is in the file already: it needn't be durable.
                disk.replace_file_unsynced(&path, text.as_bytes())?;
            } else {
                disk.replace_file(&path, text.as_bytes())?;
            }
        }
        for (closed, index) in &self.closed {
            disk.sync_data(&Kind::Log.path(&self.dir, closed.base_offset))?;
            if let Some(index) = index {
                index.clone().rewrite(disk, &self.dir)?;
                disk.sync_data(&Kind::OffsetIndex.path(&self.dir, closed.base_offset))?;
                disk.sync_data(&Kind::TimeIndex.path(&self.dir, closed.base_offset))?;
            }
        }
        if let Some(text) = &self.index_entries {
            disk.replace_file(&self.dir.join(files::INDEX_ENTRIES), text.as_bytes())?;
        }
        if !self.closed.is_empty() {
            // A snapshot must not be found where a file that it vouches for isn't.
            disk.sync_dir(&self.dir)?;
        }
        for (closed, _) in &self.closed {
            if let Some(snapshot) = &closed.snapshot {
                disk.replace_file(&Kind::Snapshot.path(&self.dir, closed.next_base_offset), snapshot)?;
            }
        }
        if let Some(active) = &self.active {
            disk.sync_data(active)?;
        }
        if self.dir_changes.is_some() || !self.closed.is_empty() {
            disk.sync_dir(&self.dir)?;
        }
        if self.dir_is_new && !planted::is_in(Bug::DirectoryNotSynced) {
            disk.sync_dir(&self.root)?;
        }
        Ok(())
    }

    /// The durable end once this has run.
    pub fn end_offset(&self) -> Offset {
        self.end
    }
}

impl Drop for SyncTicket {
    fn drop(&mut self) {
        self.syncing.store(false, Ordering::Release);
    }
}

impl PartitionLog {
    /// What has to be done to make everything appended so far durable.
    ///
    /// None if everything is, or if a ticket is out already: whoever has it takes the next one when it is finished, and
    /// so one sync serves all who appended meanwhile. With [`FlushMode::Os`] there is something to do only after a
    /// segment was closed.
    pub fn take_sync(&self) -> Option<SyncTicket> {
        let mut state = self.state();
        if state.unavailable.is_some() || state.segments.is_empty() {
            return None;
        }
        let is_behind = self.durable_end() < state.end;
        if !is_behind && state.unsynced.closed.is_empty() {
            return None;
        }
        if state.syncing.swap(true, Ordering::AcqRel) {
            return None;
        }
        // Once for all batches that are synced together; the files themselves are not.
        self.write_index(&mut state);
        Some(self.ticket(&state))
    }

    /// Takes the ticket back with what [`SyncTicket::run`] said; returns the durable end.
    ///
    /// After a failure the log serves nobody until it is opened again: the operating system may have dropped what it
    /// could not write, and a second sync would report success for it.
    pub fn finish_sync(&self, ticket: SyncTicket, result: Result<(), DiskError>) -> Result<Offset, DiskError> {
        let mut state = self.state();
        if let Err(error) = result {
            state.unavailable.get_or_insert(Unavailable::SyncFailed);
            return Err(error);
        }
        let unsynced = &mut state.unsynced;
        unsynced.dir_is_new &= !ticket.dir_is_new;
        if let Some(changes) = ticket.dir_changes {
            unsynced.dir_changes_synced = changes;
        }
        if let Some((changes, _)) = &ticket.epochs {
            unsynced.epoch_changes_synced = *changes;
        }
        unsynced.closed.retain(|closed| !ticket.closed.iter().any(|(done, _)| done.base_offset == closed.base_offset));
        for (closed, index) in &ticket.closed {
            let segment = state.segments.iter_mut().find(|segment| segment.base_offset == closed.base_offset);
            if let (Some(segment), Some(index)) = (segment, index) {
                segment.index = SegmentIndex::Stored(index.stored());
            }
        }
        state.synced_end = state.synced_end.max(ticket.synced_end);
        if self.durable_end.fetch_max(ticket.end.0, Ordering::AcqRel) <= ticket.end.0 {
            state.durable_end_place = ticket.end_place;
        }
        Ok(self.durable_end())
    }

    /// Makes everything appended so far durable, on this thread, unless somebody else is at it.
    pub fn sync(&self) -> Result<Offset, DiskError> {
        while let Some(ticket) = self.take_sync() {
            let result = ticket.run();
            self.finish_sync(ticket, result)?;
        }
        Ok(self.durable_end())
    }

    /// The end of what was synced: the durable end, unless that is not waited for.
    pub(crate) fn synced_end(&self) -> Offset {
        self.state().synced_end
    }

    /// Makes everything durable, even what [`FlushMode::Os`] calls so already.
    pub(crate) fn sync_everything(&self) -> Result<(), DiskError> {
        let ticket = {
            let mut state = self.state();
            let is_synced = state.synced_end == state.end && state.unsynced.closed.is_empty();
            if state.unavailable.is_some() || state.segments.is_empty() || is_synced {
                return Ok(());
            }
            self.write_index(&mut state);
            let mut ticket = self.ticket(&state);
            ticket.active = state.segments.last().map(|segment| segment.path.clone());
            ticket.synced_end = state.end;
            ticket
        };
        let result = ticket.run();
        self.finish_sync(ticket, result).map(|_| ())
    }

    fn ticket(&self, state: &State) -> SyncTicket {
        let unsynced = &state.unsynced;
        let memory_index = |closed: &Closed| {
            let segment = state.segments.iter().find(|segment| segment.base_offset == closed.base_offset)?;
            match &segment.index {
                SegmentIndex::Memory(index) => Some(index.clone()),
                SegmentIndex::Stored(_) => None,
            }
        };
        // Before a segment is sealed, its epochs are made durable.
        let epochs_changed = unsynced.epoch_changes != unsynced.epoch_changes_synced || !unsynced.closed.is_empty();
        let active = state.segments.last().filter(|segment| self.flush == FlushMode::Sync && segment.bytes > 0);
        SyncTicket {
            disk: Arc::clone(&self.disk),
            root: self.root.clone(),
            dir: self.dir.clone(),
            end: state.end,
            end_place: state.segments.last().map(|active| Place {
                offset: state.end,
                segment: active.base_offset,
                position: active.bytes,
            }),
            // Everything before the active segment, if the ticket leaves that out.
            synced_end: match self.flush {
                FlushMode::Sync => state.end,
                FlushMode::Os => state.segments.last().map_or(state.end, |segment| segment.base_offset),
            },
            dir_is_new: unsynced.dir_is_new,
            dir_changes: (unsynced.dir_changes != unsynced.dir_changes_synced).then_some(unsynced.dir_changes),
            epochs: epochs_changed.then(|| (unsynced.epoch_changes, files::leader_epochs(state.epochs.starts()))),
            closed: unsynced.closed.iter().map(|closed| (closed.clone(), memory_index(closed))).collect(),
            index_entries: (!unsynced.closed.is_empty()).then(|| {
                let (_, closed) = state.segments.split_last().expect("a segment was closed, and another one begun");
                files::index_entries(&closed.iter().map(|it| (it.base_offset, it.index_entries())).collect())
            }),
            active: active.map(|segment| segment.path.clone()),
            syncing: Arc::clone(&state.syncing),
        }
    }
}
