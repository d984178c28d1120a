//! One partition's log.
//!
//! Appends and look-ups hold a small lock; reads of batches and syncs don't. What is durable is decided in
//! [`sync`](self): appends make the log dirty, [`PartitionLog::take_sync`] gives a ticket that makes everything appended
//! so far durable, whoever runs it.
//!
//! **Invariants:**
//! - log start <= durable end <= end; the durable end never goes back while the log is open.
//! - A batch below the durable end is on the disk, and so are its file's name and all segments before it.
//! - After a failed append the log is as it was; after a failed sync it serves nobody until it is opened again.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use riparian_records::{BatchHeader, HEADER_BYTES, ProducedBatch, StampedTime, batches};
use riparian_types::{LeaderEpoch, Now, Offset, PartitionIndex, TopicName, Uuid, WallMillis};

use crate::{
    buffers::ReadBuffers,
    config::{FlushMode, LogConfig},
    disk::{Disk, DiskError},
    epochs::LeaderEpochs,
    error::{AppendError, Unavailable},
    files::{self, Kind},
    producers::{Producers, Verdict},
    segment::{Segment, SegmentIndex},
};

mod cut;
mod lend;
mod open;
mod read;
mod sync;
#[cfg(test)]
mod tests;
mod trim;

pub(crate) use open::{Known, has_good_batch};
pub use open::{PartitionRecovery, SegmentDamage, TailCut};
pub use read::{FoundTimestamp, ReadBatches};
pub use sync::SyncTicket;

/// One partition's log.
#[derive(Debug)]
pub struct PartitionLog {
    disk: Arc<dyn Disk>,
    buffers: Arc<ReadBuffers>,
    topic: TopicName,
    partition: PartitionIndex,
    topic_id: Uuid,
    /// The data directory.
    root: PathBuf,
    dir: PathBuf,
    flush: FlushMode,
    producer_expiration_ms: u64,
    read_at_open_bytes: u64,
    state: Mutex<State>,
    start: AtomicI64,
    end: AtomicI64,
    durable_end: AtomicI64,
}

/// What was appended, or had been before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the first record.
    pub base_offset: Offset,
    /// The offset of the last record; durable when the log's durable end is beyond it.
    pub last_offset: Offset,
    /// The time of the append, if that is what the records' timestamps became.
    pub log_append_time: Option<WallMillis>,
    /// The log's first offset.
    pub log_start_offset: Offset,
    /// Whether the batch had been appended before; nothing was appended now.
    pub duplicate: bool,
}

/// Where and how a partition log is opened.
#[derive(Clone, Debug)]
pub(crate) struct PartitionOptions {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) buffers: Arc<ReadBuffers>,
    pub(crate) root: PathBuf,
    pub(crate) topic: TopicName,
    pub(crate) partition: PartitionIndex,
    pub(crate) config: LogConfig,
    pub(crate) flush: FlushMode,
    pub(crate) producer_expiration_ms: u64,
    pub(crate) read_at_open_bytes: u64,
}

#[derive(Debug)]
struct State {
    config: LogConfig,
    /// Oldest first, the last one is active; none as long as nothing was ever appended.
    segments: Vec<Segment>,
    start: Offset,
    end: Offset,
    /// What was synced; behind the durable end with [`FlushMode::Os`].
    synced_end: Offset,
    producers: Producers,
    epochs: LeaderEpochs,
    unavailable: Option<Unavailable>,
    /// What is wrong with the files, if the log is offline because of that.
    damage: Option<Arc<str>>,
    unsynced: sync::Unsynced,
    /// Set while a ticket is out.
    syncing: Arc<AtomicBool>,
    /// Where recent reads ended; the next one begins there, most likely.
    read_ends: read::ReadEnds,
    /// Where the durable end lies, as far as it is known.
    durable_end_place: Option<sync::Place>,
}

impl PartitionLog {
    /// An empty log. Nothing is written before the first append.
    pub(crate) fn new_empty(options: PartitionOptions, topic_id: Uuid) -> Self {
        Self::with_state(options, topic_id, Offset::ZERO, Offset::ZERO, Vec::new(), Producers::default(), {
            LeaderEpochs::default()
        })
    }

    /// A log whose files are damaged: it serves nobody, and what is known of it stays known.
    pub(crate) fn offline(options: PartitionOptions, topic_id: Uuid, known: Known, reason: String) -> Self {
        let end = known.recovery_point.max(known.log_start);
        let (producers, epochs) = (Producers::default(), LeaderEpochs::default());
        let log = Self::with_state(options, topic_id, known.log_start, end, Vec::new(), producers, epochs);
        log.take_offline(reason);
        log
    }

    fn with_state(
        options: PartitionOptions,
        topic_id: Uuid,
        start: Offset,
        end: Offset,
        segments: Vec<Segment>,
        producers: Producers,
        epochs: LeaderEpochs,
    ) -> Self {
        let dir = options.root.join(files::partition_dir_name(&options.topic, options.partition));
        let state = State {
            config: options.config,
            segments,
            start,
            end,
            synced_end: end,
            producers,
            epochs,
            unavailable: None,
            damage: None,
            unsynced: sync::Unsynced::default(),
            syncing: Arc::default(),
            read_ends: read::ReadEnds::default(),
            durable_end_place: None,
        };
        Self {
            disk: options.disk,
            buffers: options.buffers,
            topic: options.topic,
            partition: options.partition,
            topic_id,
            root: options.root,
            dir,
            flush: options.flush,
            producer_expiration_ms: options.producer_expiration_ms,
            read_at_open_bytes: options.read_at_open_bytes,
            state: Mutex::new(state),
            start: AtomicI64::new(start.0),
            end: AtomicI64::new(end.0),
            durable_end: AtomicI64::new(end.0),
        }
    }

    /// The topic's name.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// The partition's number.
    pub fn partition(&self) -> PartitionIndex {
        self.partition
    }

    /// The topic's id.
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// The first offset.
    pub fn start_offset(&self) -> Offset {
        Offset(self.start.load(Ordering::Acquire))
    }

    /// The offset that the next record gets.
    pub fn end_offset(&self) -> Offset {
        Offset(self.end.load(Ordering::Acquire))
    }

    /// The offset after the last durable record: the high watermark.
    pub fn durable_end(&self) -> Offset {
        Offset(self.durable_end.load(Ordering::Acquire))
    }

    /// Bytes of all batches.
    pub fn byte_len(&self) -> u64 {
        self.state().segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The settings.
    pub fn config(&self) -> LogConfig {
        self.state().config
    }

    /// Changes the settings, from the next append on.
    pub fn set_config(&self, config: LogConfig) {
        self.state().config = config;
    }

    /// Why the log serves nobody at the moment, if so.
    pub fn unavailable(&self) -> Option<Unavailable> {
        self.state().unavailable
    }

    /// What is wrong with the files, if the log is offline because of it ([`Unavailable::Damaged`]).
    pub fn damage(&self) -> Option<Arc<str>> {
        self.state().damage.clone()
    }

    /// Takes the log offline because its files are damaged, as whoever tried to read them found.
    pub fn take_offline(&self, reason: String) {
        let mut state = self.state();
        state.unavailable = Some(Unavailable::Damaged);
        state.damage = Some(reason.into());
    }

    /// Appends a client's batch, or recognises that it was appended before.
    ///
    /// The batch is written as it came but for its header, which gets its offset, the leader epoch and perhaps another
    /// timestamp. It is durable when [`PartitionLog::durable_end`] is beyond [`Appended::last_offset`].
    pub fn append_produced(
        &self,
        now: Now,
        leader_epoch: LeaderEpoch,
        batch: &ProducedBatch<'_>,
    ) -> Result<Appended, AppendError> {
        let mut state = self.state();
        if let Some(unavailable) = state.unavailable {
            if unavailable != Unavailable::Damaged {
                state.producers.note_failed(batch.header(), now.wall);
            }
            return Err(unavailable.into());
        }
        if let Verdict::Duplicate(before) = state.producers.check(batch.header())? {
            return Ok(Appended {
                base_offset: before.base_offset(),
                last_offset: before.last_offset,
                log_append_time: batch.log_append_time().map(|_| before.timestamp),
                log_start_offset: state.start,
                duplicate: true,
            });
        }
        let (bytes, segment_bytes) = (batch.bytes().len(), state.config.segment_bytes);
        if bytes as u64 > u64::from(segment_bytes) {
            return Err(AppendError::LargerThanSegment { bytes, segment_bytes });
        }
        let mut header = *batch.header();
        header.stamp(batch.batch().body(), state.end, leader_epoch, batch.stamped_time());
        let base_offset = header.base_offset;
        if let Err(error) = self.write(&mut state, now, &[(header, batch.batch().body())]) {
            state.producers.note_failed(&header, now.wall);
            return Err(error);
        }
        Ok(Appended {
            base_offset,
            last_offset: header.last_offset(),
            log_append_time: batch.log_append_time(),
            log_start_offset: state.start,
            duplicate: false,
        })
    }

    /// Appends batches that the server made itself, one or more, each whole, however large; all of them or none.
    ///
    /// Their offsets are given here, their timestamps stay. Panics if the bytes are not batches: whoever made them is
    /// wrong.
    pub fn append_internal(&self, now: Now, leader_epoch: LeaderEpoch, bytes: &[u8]) -> Result<Appended, AppendError> {
        let mut state = self.available()?;
        let mut stamped = Vec::with_capacity(1);
        let mut next_offset = state.end;
        for batch in batches(bytes).unverified() {
            let batch = batch.unwrap_or_else(|error| panic!("our own batch is malformed: {error}"));
            let mut header = *batch.header();
            header.stamp(batch.body(), next_offset, leader_epoch, StampedTime::Keep);
            next_offset = header.next_offset();
            stamped.push((header, batch.body()));
        }
        assert!(!stamped.is_empty(), "an append has at least one batch");
        let base_offset = state.end;
        self.write(&mut state, now, &stamped)?;
        Ok(Appended {
            base_offset,
            last_offset: Offset(next_offset.0 - 1),
            log_append_time: None,
            log_start_offset: state.start,
            duplicate: false,
        })
    }

    /// Notes that this log was opened again in the place of one that had batches which were cut off or refused: what
    /// their producers sent behind them is not taken before they come again.
    pub fn takes_the_place_of(&self, before: &Self, now: WallMillis) {
        let before = before.state().producers.clone();
        let mut state = self.state();
        let end = state.end;
        state.producers.note_cut_off(&before, end, now);
    }

    /// Forbids any further use; used before the directory goes away.
    pub(crate) fn close(&self) {
        self.state().unavailable = Some(Unavailable::Closed);
    }

    /// As [`PartitionLog::close`], unless a sync ticket is out; says whether it was done.
    pub(crate) fn close_unless_syncing(&self) -> bool {
        let mut state = self.state();
        let may_close = !state.syncing.load(Ordering::Acquire);
        if may_close {
            state.unavailable = Some(Unavailable::Closed);
        }
        may_close
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the partition has a directory.
    pub(crate) fn is_on_disk(&self) -> bool {
        let state = self.state();
        !state.segments.is_empty() || state.damage.is_some()
    }

    /// Writes stamped batches at the end of the log and notes them.
    fn write(&self, state: &mut State, now: Now, stamped: &[(BatchHeader, &[u8])]) -> Result<(), AppendError> {
        let bytes: u64 = stamped.iter().map(|(_, body)| (HEADER_BYTES + body.len()) as u64).sum();
        let max_timestamp = stamped.iter().map(|(header, _)| header.max_timestamp).max().unwrap_or(WallMillis(-1));
        let end = stamped.last().map_or(state.end, |(header, _)| header.next_offset());
        self.make_room(state, now, bytes, max_timestamp, end)?;
        let active = state.segments.last_mut().expect("make_room leaves an active segment");
        let headers: Vec<[u8; HEADER_BYTES]> = stamped.iter().map(|(header, _)| header.to_bytes()).collect();
        let parts: Vec<&[u8]> =
            headers.iter().zip(stamped).flat_map(|(header, (_, body))| [&header[..], *body]).collect();
        if let Err(error) = self.disk.write_at(&active.path, active.bytes, &parts) {
            // What was written lies beyond the bytes that count. It must not stay there: after a crash it could be taken
            // for something that was appended.
            match self.disk.truncate(&active.path, active.bytes) {
                Err(truncate) if !truncate.is_not_found() => state.unavailable = Some(Unavailable::WriteFailed),
                Ok(()) | Err(_) => {}
            }
            return Err(error.into());
        }
        active.written_at = now.wall;
        for (header, body) in stamped {
            active.note_batch(header, state.config.index_interval_bytes);
            note_producer(&mut state.producers, header, body, now.wall);
            if state.epochs.note(header.leader_epoch, header.base_offset) {
                state.unsynced.epochs_changed();
            }
        }
        state.end = end;
        self.end.store(end.0, Ordering::Release);
        if self.flush == FlushMode::Os {
            self.durable_end.store(end.0, Ordering::Release);
            // There may be no sync that would write them.
            self.write_index(state);
        }
        Ok(())
    }

    /// Writes the entries of the active segment's indexes that are not in the files yet.
    fn write_index(&self, state: &mut State) {
        if let Some(Segment { index: SegmentIndex::Memory(index), .. }) = state.segments.last_mut() {
            // Else they stay in memory and are written with the next ones; a lost index is rebuilt.
            let _ = index.write_new(&*self.disk, &self.dir);
        }
    }

    /// Makes sure that there is an active segment with room for these bytes.
    fn make_room(
        &self,
        state: &mut State,
        now: Now,
        bytes: u64,
        max_timestamp: WallMillis,
        end: Offset,
    ) -> Result<(), DiskError> {
        let Some(active) = state.segments.last() else {
            self.create_dir(state)?;
            return self.start_segment(state, now.wall);
        };
        let config = &state.config;
        let age_ms = match active.first_timestamp {
            Some(first) => max_timestamp.0.saturating_sub(first.0),
            None => now.wall.0.saturating_sub(active.written_at.0),
        };
        let is_full = active.bytes + bytes > u64::from(config.segment_bytes)
            || age_ms > config.segment_ms
            || end.0 - active.base_offset.0 > i64::from(i32::MAX);
        if active.bytes > 0 && is_full { self.roll(state, now.wall) } else { Ok(()) }
    }

    fn create_dir(&self, state: &mut State) -> Result<(), DiskError> {
        self.disk.create_dir(&self.dir)?;
        let metadata = files::partition_metadata(self.topic_id);
        self.disk.write_at(&self.dir.join(files::PARTITION_METADATA), 0, &[metadata.as_bytes()])?;
        state.unsynced.dir_created();
        Ok(())
    }

    /// Closes the active segment and starts a new one. The old one becomes durable, and its indexes complete, with the
    /// next sync; nothing in the new one is durable before.
    fn roll(&self, state: &mut State, now: WallMillis) -> Result<(), DiskError> {
        let closed = state.segments.len() - 1;
        self.start_segment(state, now)?;
        let segment = &mut state.segments[closed];
        if let SegmentIndex::Memory(index) = &mut segment.index
            && let Some(latest) = segment.latest
        {
            index.note_time(latest);
        }
        state.unsynced.segment_closed(sync::Closed {
            base_offset: segment.base_offset,
            next_base_offset: state.end,
            snapshot: Some(state.producers.to_snapshot()),
        });
        Ok(())
    }

    fn start_segment(&self, state: &mut State, now: WallMillis) -> Result<(), DiskError> {
        let path: Arc<Path> = Kind::Log.path(&self.dir, state.end).into();
        let mut segment = Segment::new(path.clone(), state.end, now);
        // Truncated in case something is left over from earlier.
        let made = self.disk.write_at(&path, 0, &[]).and_then(|()| self.disk.truncate(&path, 0));
        if let Err(error) = made {
            // A file that stays would stand where the segment before may yet grow to.
            if self.disk.remove_file_if_there(&path).is_err() {
                state.unavailable = Some(Unavailable::WriteFailed);
            }
            return Err(error);
        }
        if let SegmentIndex::Memory(index) = &mut segment.index {
            let _ = index.rewrite(&*self.disk, &self.dir);
        }
        state.segments.push(segment);
        state.unsynced.dir_changed();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.unavailable.get_or_insert(Unavailable::Panicked);
            state
        })
    }

    fn available(&self) -> Result<MutexGuard<'_, State>, Unavailable> {
        let state = self.state();
        match state.unavailable {
            None => Ok(state),
            Some(unavailable) => Err(unavailable),
        }
    }
}

/// Notes in the producers' state what is in the log.
fn note_producer(producers: &mut Producers, header: &BatchHeader, body: &[u8], now: WallMillis) {
    if !header.has_producer_id() {
        return;
    }
    if !header.is_control() {
        producers.note_data(header, now);
    } else if let Some(coordinator_epoch) = open::marker_coordinator_epoch(header, body) {
        producers.note_marker(header, coordinator_epoch, now);
    }
}
