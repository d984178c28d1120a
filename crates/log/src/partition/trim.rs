//! The other end of the log: deleting records, on demand and by age or size.

use std::sync::atomic::Ordering;

use riparian_types::{Offset, WallMillis};

use super::{PartitionLog, State};
use crate::{disk::DiskError, error::TrimError, files::Kind, segment::Segment};

impl PartitionLog {
    /// Moves the log start to this offset, which must be durable; returns the log start, which never goes back.
    ///
    /// Segments that lie wholly before it are deleted. The new start itself survives a crash once
    /// [`crate::Logs::write_checkpoints`] has been called; [`crate::Logs::delete_records`] does both.
    pub fn delete_records(&self, before: Offset) -> Result<Offset, TrimError> {
        let removed = {
            let mut state = self.available()?;
            let high_watermark = self.durable_end();
            if before.0 < 0 || before > high_watermark {
                return Err(TrimError::OutOfRange { before, high_watermark });
            }
            self.move_start(&mut state, before);
            self.take_segments_below_start(&mut state)
        };
        self.remove_files(&removed)?;
        Ok(self.start_offset())
    }

    /// Deletes segments that are too old or too many by the topic's settings, and forgets producers that were silent for
    /// too long; returns how many segments were deleted.
    ///
    /// The last segment goes too if all its records are too old; a new one is started then.
    pub fn enforce_retention(&self, now: WallMillis) -> Result<usize, TrimError> {
        let removed = {
            let mut state = self.available()?;
            state.producers.expire(now, self.producer_expiration_ms);
            let keep_from = self.retained_from(&state, now);
            if keep_from == state.segments.len() && state.segments.last().is_some_and(|last| last.bytes > 0) {
                self.roll(&mut state, now)?;
            }
            if let Some(first_kept) = state.segments.get(keep_from) {
                let start = first_kept.base_offset;
                self.move_start(&mut state, start.min(self.durable_end()));
            }
            self.take_segments_below_start(&mut state)
        };
        self.remove_files(&removed)?;
        Ok(removed.len())
    }

    /// The index of the first segment to keep.
    fn retained_from(&self, state: &State, now: WallMillis) -> usize {
        let config = &state.config;
        if !config.delete {
            return 0;
        }
        let too_old = |segment: &Segment| {
            // Records without a time, and such from the future, are as old as the file: else seconds that were taken for
            // milliseconds too large would fill the disk for ever.
            let is_plausible = |latest: &WallMillis| (WallMillis(0)..=now).contains(latest);
            let latest = segment.latest.map(|latest| latest.timestamp).filter(is_plausible);
            let latest = latest.unwrap_or(segment.written_at);
            config.retention_ms.is_some_and(|ms| segment.bytes > 0 && now.0.saturating_sub(latest.0) > ms)
        };
        let mut keep_from = state.segments.iter().take_while(|segment| too_old(segment)).count();
        if let Some(bytes_max) = config.retention_bytes {
            let mut bytes: u64 = state.segments.iter().skip(keep_from).map(|segment| segment.bytes).sum();
            // As in Kafka, the last segment is never deleted for its size.
            while keep_from + 1 < state.segments.len()
                && bytes.saturating_sub(bytes_max) >= state.segments[keep_from].bytes
            {
                bytes -= state.segments[keep_from].bytes;
                keep_from += 1;
            }
        }
        keep_from
    }

    fn move_start(&self, state: &mut State, start: Offset) {
        if start <= state.start {
            return;
        }
        state.start = start;
        self.start.store(start.0, Ordering::Release);
        if state.epochs.truncate_from_start(start) {
            state.unsynced.epochs_changed();
        }
    }

    /// Takes segments that end at or before the log start out of the log. Those not sealed yet stay until they are.
    fn take_segments_below_start(&self, state: &mut State) -> Vec<Offset> {
        let mut count = 0;
        while let Some(next) = state.segments.get(count + 1)
            && next.base_offset <= state.start
            && !state.unsynced.is_closed_unsealed(state.segments[count].base_offset)
        {
            count += 1;
        }
        state.segments.drain(..count).map(|segment| segment.base_offset).collect()
    }

    /// Removes the files of segments, the oldest first and each for good before the next, so that a crash leaves no gap.
    fn remove_files(&self, base_offsets: &[Offset]) -> Result<(), DiskError> {
        for &base_offset in base_offsets {
            for kind in [Kind::Log, Kind::OffsetIndex, Kind::TimeIndex, Kind::Snapshot] {
                self.disk.remove_file_if_there(&kind.path(&self.dir, base_offset))?;
            }
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}
