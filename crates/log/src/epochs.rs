//! Which leader epoch began at which offset (KIP-101).

use riparian_types::{LeaderEpoch, Offset};

/// Where a leader epoch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochStart {
    pub(crate) epoch: LeaderEpoch,
    pub(crate) start_offset: Offset,
}

/// The epochs of one log; both epochs and offsets ascend.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaderEpochs {
    starts: Vec<EpochStart>,
}

impl LeaderEpochs {
    pub(crate) fn new(starts: Vec<EpochStart>) -> Self {
        Self { starts }
    }

    pub(crate) fn starts(&self) -> &[EpochStart] {
        &self.starts
    }

    pub(crate) fn latest(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|entry| entry.epoch)
    }

    /// Notes a batch of this epoch at this offset; whether that began a new epoch.
    pub(crate) fn note(&mut self, epoch: LeaderEpoch, offset: Offset) -> bool {
        if epoch.0 < 0 || self.latest().is_some_and(|latest| latest >= epoch) {
            return false;
        }
        // An epoch that got no batch before the next one began is forgotten.
        self.starts.retain(|entry| entry.start_offset < offset);
        self.starts.push(EpochStart { epoch, start_offset: offset });
        true
    }

    /// Forgets what begins at or after the end; whether anything did.
    pub(crate) fn truncate_from_end(&mut self, end: Offset) -> bool {
        let before = self.starts.len();
        self.starts.retain(|entry| entry.start_offset < end);
        self.starts.len() != before
    }

    /// Forgets epochs that end at or before the start; whether there were any. The one that covers it then begins there.
    pub(crate) fn truncate_from_start(&mut self, start: Offset) -> bool {
        let covering = self.starts.partition_point(|entry| entry.start_offset <= start);
        let Some(first_kept) = covering.checked_sub(1) else { return false };
        self.starts.drain(..first_kept);
        let moved = self.starts[0].start_offset < start;
        self.starts[0].start_offset = start;
        first_kept > 0 || moved
    }

    /// The largest epoch up to the one asked for, and the offset at which it ends.
    pub(crate) fn end_of(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<(LeaderEpoch, Offset)> {
        let latest = self.latest()?;
        if epoch == latest {
            return Some((latest, log_end));
        }
        if epoch > latest || epoch.0 < 0 {
            return None;
        }
        let later = self.starts.partition_point(|entry| entry.epoch <= epoch);
        let end = self.starts[later].start_offset;
        let found = later.checked_sub(1).map_or(epoch, |index| self.starts[index].epoch);
        Some((found, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for &(epoch, offset) in entries {
            assert!(epochs.note(LeaderEpoch(epoch), Offset(offset)));
        }
        epochs
    }

    fn entries(epochs: &LeaderEpochs) -> Vec<(i32, i64)> {
        epochs.starts().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let epochs = epochs(&[(2, 0), (4, 10), (7, 30)]);
        let end_of = |epoch| epochs.end_of(LeaderEpoch(epoch), Offset(50)).map(|(e, o)| (e.0, o.0));
        assert_eq!(end_of(1), Some((1, 0)));
        assert_eq!(end_of(2), Some((2, 10)));
        assert_eq!(end_of(3), Some((2, 10)));
        assert_eq!(end_of(5), Some((4, 30)));
        assert_eq!(end_of(7), Some((7, 50)));
        assert_eq!(end_of(8), None);
        assert_eq!(end_of(-1), None);
    }

    #[test]
    fn truncation() {
        let mut cut = epochs(&[(2, 0), (4, 10), (7, 30)]);
        assert!(cut.truncate_from_end(Offset(30)));
        assert_eq!(entries(&cut), [(2, 0), (4, 10)]);
        assert!(cut.truncate_from_start(Offset(15)));
        assert_eq!(entries(&cut), [(4, 15)]);
        assert!(!cut.truncate_from_start(Offset(15)));
        assert!(!cut.note(LeaderEpoch(4), Offset(20)));
    }

    #[test]
    fn an_epoch_without_batches_is_forgotten() {
        assert_eq!(entries(&epochs(&[(2, 0), (4, 10), (5, 10)])), [(2, 0), (5, 10)]);
    }
}
