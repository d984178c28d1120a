//! Idempotent producers of one partition (KIP-98): who appended last what, so that a batch sent twice is stored once.
//!
//! ```text
//! snapshot file   version i16 = 1 | crc u32 (CRC-32C of what follows) | count i32 | entry*
//! entry           producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32
//!                 | timestamp i64 | coordinator epoch i32 | first offset of the open transaction i64 (-1: none)
//! ```
//!
//! **Invariant:** the state is a function of the batches in the log: rebuilt by reading them, it is the same (up to
//! producers that have expired, and to the batches before the last of each producer, which a snapshot doesn't carry).
//! Beside it stands what is known of producers that the log doesn't know because their batches could not be kept: a later
//! one must not be taken before those came again. Only a server that lives on needs it.

use std::collections::{BTreeMap, VecDeque};

use riparian_records::BatchHeader;
use riparian_types::{Offset, ProducerEpoch, ProducerId, Sequence, WallMillis, limits};

const SNAPSHOT_VERSION: i16 = 1;
const SNAPSHOT_HEADER_BYTES: usize = 6;
const SNAPSHOT_ENTRY_BYTES: usize = 46;

/// A producer's batch that contradicts what it has sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// The epoch is over. (INVALID_PRODUCER_EPOCH)
    #[error("producer {producer_id} has epoch {epoch}, which is older than the last seen epoch {last_epoch}")]
    Fenced {
        /// The producer.
        producer_id: ProducerId,
        /// The batch's epoch.
        epoch: ProducerEpoch,
        /// The last epoch seen.
        last_epoch: ProducerEpoch,
    },
    /// The batch doesn't follow the last one. (OUT_OF_ORDER_SEQUENCE_NUMBER)
    #[error(
        "producer {producer_id} sent sequence number {sequence} of epoch {epoch}, after {last_sequence} of epoch {last_epoch}"
    )]
    OutOfOrder {
        /// The producer.
        producer_id: ProducerId,
        /// The batch's epoch.
        epoch: ProducerEpoch,
        /// The sequence number of the batch's first record.
        sequence: Sequence,
        /// The last epoch seen.
        last_epoch: ProducerEpoch,
        /// The last sequence number seen, -1 if there is none of that epoch.
        last_sequence: Sequence,
    },
    /// The producer has an open transaction and the batch is not part of it. (INVALID_TXN_STATE)
    #[error("producer {producer_id} has an open transaction, but sent a batch outside of it")]
    InsideTransaction {
        /// The producer.
        producer_id: ProducerId,
    },
}

/// What to do with a client's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Append,
    /// It is in the log already.
    Duplicate(RememberedBatch),
}

/// A batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RememberedBatch {
    pub(crate) last_sequence: Sequence,
    pub(crate) last_offset: Offset,
    pub(crate) offset_delta: i32,
    pub(crate) timestamp: WallMillis,
}

impl RememberedBatch {
    fn first_sequence(&self) -> Sequence {
        let first = i64::from(self.last_sequence.0) - i64::from(self.offset_delta);
        Sequence((first & i64::from(i32::MAX)) as i32)
    }

    pub(crate) fn base_offset(&self) -> Offset {
        Offset(self.last_offset.0 - i64::from(self.offset_delta))
    }
}

#[derive(Clone, Debug)]
struct Entry {
    epoch: ProducerEpoch,
    /// The last batches of this epoch, oldest first.
    batches: VecDeque<RememberedBatch>,
    last_timestamp: WallMillis,
    coordinator_epoch: i32,
    transaction_start: Option<Offset>,
    /// When something was last heard of it; unlike the timestamp, it can't be chosen by the client.
    last_seen: WallMillis,
}

impl Entry {
    fn new(epoch: ProducerEpoch, last_seen: WallMillis) -> Self {
        Self {
            epoch,
            batches: VecDeque::new(),
            last_timestamp: WallMillis(-1),
            coordinator_epoch: -1,
            transaction_start: None,
            last_seen,
        }
    }

    fn last_sequence(&self) -> Sequence {
        self.batches.back().map_or(Sequence::NONE, |batch| batch.last_sequence)
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

/// The producers of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producers {
    entries: BTreeMap<ProducerId, Entry>,
    /// Producers that are not in the log, and would be if the disk had done what it should.
    lost: BTreeMap<ProducerId, Lost>,
}

/// The first batch that was sent and not kept.
#[derive(Clone, Copy, Debug)]
struct Lost {
    epoch: ProducerEpoch,
    sequence: Sequence,
    last_seen: WallMillis,
}

impl Producers {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What to do with a client's batch.
    pub(crate) fn check(&self, header: &BatchHeader) -> Result<Verdict, ProducerError> {
        if !header.has_producer_id() {
            return Ok(Verdict::Append);
        }
        // A producer that isn't known may go on at any sequence number: it may have expired.
        let Some(entry) = self.entries.get(&header.producer_id) else { return self.check_unknown(header) };
        let (epoch, sequence) = (header.producer_epoch, header.base_sequence);
        if epoch == entry.epoch {
            let same = |batch: &&RememberedBatch| {
                batch.first_sequence() == sequence && batch.last_sequence == header.last_sequence()
            };
            if let Some(batch) = entry.batches.iter().find(same) {
                return Ok(Verdict::Duplicate(*batch));
            }
        }
        if epoch < entry.epoch {
            return Err(ProducerError::Fenced { producer_id: header.producer_id, epoch, last_epoch: entry.epoch });
        }
        let last_sequence = if epoch == entry.epoch { entry.last_sequence() } else { Sequence::NONE };
        let expected = if last_sequence.0 == i32::MAX { 0 } else { last_sequence.0 + 1 };
        if sequence.0 != expected {
            return Err(ProducerError::OutOfOrder {
                producer_id: header.producer_id,
                epoch,
                sequence,
                last_epoch: entry.epoch,
                last_sequence: entry.last_sequence(),
            });
        }
        if entry.transaction_start.is_some() && !header.is_transactional() {
            return Err(ProducerError::InsideTransaction { producer_id: header.producer_id });
        }
        Ok(Verdict::Append)
    }

    /// A producer that isn't known, but perhaps would be.
    fn check_unknown(&self, header: &BatchHeader) -> Result<Verdict, ProducerError> {
        let Some(lost) = self.lost.get(&header.producer_id) else { return Ok(Verdict::Append) };
        let (producer_id, epoch, sequence) = (header.producer_id, header.producer_epoch, header.base_sequence);
        if epoch < lost.epoch {
            return Err(ProducerError::Fenced { producer_id, epoch, last_epoch: lost.epoch });
        }
        // Sequence numbers begin anew after the largest; half of them are later than this one.
        let ahead = if epoch == lost.epoch { sequence.0.wrapping_sub(lost.sequence.0) & i32::MAX } else { sequence.0 };
        if ahead == 0 || (epoch == lost.epoch && ahead > i32::MAX / 2) {
            return Ok(Verdict::Append);
        }
        let (last_epoch, last_sequence) = (lost.epoch, Sequence::NONE);
        Err(ProducerError::OutOfOrder { producer_id, epoch, sequence, last_epoch, last_sequence })
    }

    /// Notes a batch that could not be appended: if its producer is not known, what it sent behind it must not come in
    /// its place.
    pub(crate) fn note_failed(&mut self, header: &BatchHeader, now: WallMillis) {
        if header.has_producer_id() {
            self.note_lost(header.producer_id, header.producer_epoch, header.base_sequence, now);
        }
    }

    /// Notes what `before` knew and this log doesn't: batches from this offset on, which were appended and then cut off.
    pub(crate) fn note_cut_off(&mut self, before: &Self, end: Offset, now: WallMillis) {
        for (&id, lost) in &before.lost {
            self.note_lost(id, lost.epoch, lost.sequence, lost.last_seen);
        }
        for (&id, entry) in &before.entries {
            if let Some(first) = entry.batches.iter().find(|batch| batch.base_offset() >= end) {
                self.note_lost(id, entry.epoch, first.first_sequence(), now);
            }
        }
    }

    fn note_lost(&mut self, id: ProducerId, epoch: ProducerEpoch, sequence: Sequence, last_seen: WallMillis) {
        if self.entries.contains_key(&id) {
            return;
        }
        let lost = self.lost.entry(id).or_insert(Lost { epoch, sequence, last_seen });
        if epoch > lost.epoch {
            *lost = Lost { epoch, sequence, last_seen };
        }
    }

    /// Notes a batch of data that is in the log.
    pub(crate) fn note_data(&mut self, header: &BatchHeader, now: WallMillis) {
        if !header.has_producer_id() {
            return;
        }
        let entry = self.entry(header, now);
        if entry.batches.len() == limits::PRODUCER_BATCHES_REMEMBERED {
            entry.batches.pop_front();
        }
        entry.batches.push_back(RememberedBatch {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        if header.is_transactional() && entry.transaction_start.is_none() {
            entry.transaction_start = Some(header.base_offset);
        }
    }

    /// Notes the marker that ends a transaction.
    pub(crate) fn note_marker(&mut self, header: &BatchHeader, coordinator_epoch: i32, now: WallMillis) {
        if !header.has_producer_id() {
            return;
        }
        let entry = self.entry(header, now);
        entry.coordinator_epoch = coordinator_epoch;
        entry.transaction_start = None;
    }

    fn entry(&mut self, header: &BatchHeader, now: WallMillis) -> &mut Entry {
        let epoch = header.producer_epoch;
        self.lost.remove(&header.producer_id);
        let entry = self.entries.entry(header.producer_id).or_insert_with(|| Entry::new(epoch, now));
        entry.set_epoch(epoch);
        entry.last_timestamp = header.max_timestamp;
        entry.last_seen = now;
        entry
    }

    /// Forgets producers that were silent for so long and have no open transaction.
    pub(crate) fn expire(&mut self, now: WallMillis, expiration_ms: u64) {
        let silent_ms = |last_seen: WallMillis| u64::try_from(now.0.saturating_sub(last_seen.0)).unwrap_or(0);
        self.entries.retain(|_, entry| entry.transaction_start.is_some() || silent_ms(entry.last_seen) < expiration_ms);
        self.lost.retain(|_, lost| silent_ms(lost.last_seen) < expiration_ms);
    }

    /// The bytes of a snapshot file.
    pub(crate) fn to_snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SNAPSHOT_HEADER_BYTES + 4 + self.entries.len() * SNAPSHOT_ENTRY_BYTES);
        bytes.extend_from_slice(&SNAPSHOT_VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&i32::try_from(self.entries.len()).unwrap_or(i32::MAX).to_be_bytes());
        for (id, entry) in &self.entries {
            let last = entry.batches.back();
            bytes.extend_from_slice(&id.0.to_be_bytes());
            bytes.extend_from_slice(&entry.epoch.0.to_be_bytes());
            bytes.extend_from_slice(&entry.last_sequence().0.to_be_bytes());
            bytes.extend_from_slice(&last.map_or(-1, |batch| batch.last_offset.0).to_be_bytes());
            bytes.extend_from_slice(&last.map_or(0, |batch| batch.offset_delta).to_be_bytes());
            bytes.extend_from_slice(&entry.last_timestamp.0.to_be_bytes());
            bytes.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
            bytes.extend_from_slice(&entry.transaction_start.map_or(-1, |offset| offset.0).to_be_bytes());
        }
        let crc = crc32c::crc32c(&bytes[SNAPSHOT_HEADER_BYTES..]);
        bytes[2..SNAPSHOT_HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Reads a snapshot file; none if it is damaged or of another version.
    ///
    /// Nothing tells how long the producers have been silent, so their time starts anew.
    pub(crate) fn from_snapshot(bytes: &[u8], now: WallMillis) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(SNAPSHOT_HEADER_BYTES)?;
        let version = i16::from_be_bytes(*header.first_chunk()?);
        let crc = u32::from_be_bytes(*header.last_chunk()?);
        if version != SNAPSHOT_VERSION || crc != crc32c::crc32c(rest) {
            return None;
        }
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (entries, odd) = rest.as_chunks::<SNAPSHOT_ENTRY_BYTES>();
        if usize::try_from(i32::from_be_bytes(*count)) != Ok(entries.len()) || !odd.is_empty() {
            return None;
        }
        let entries = entries.iter().map(|entry| parse_entry(entry, now)).collect();
        Some(Self { entries, lost: BTreeMap::new() })
    }
}

fn parse_entry(bytes: &[u8; SNAPSHOT_ENTRY_BYTES], now: WallMillis) -> (ProducerId, Entry) {
    fn field<const N: usize>(bytes: &[u8; SNAPSHOT_ENTRY_BYTES], start: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&bytes[start..start + N]);
        field
    }
    let last_offset = Offset(i64::from_be_bytes(field(bytes, 14)));
    let timestamp = WallMillis(i64::from_be_bytes(field(bytes, 26)));
    let batch = RememberedBatch {
        last_sequence: Sequence(i32::from_be_bytes(field(bytes, 10))),
        last_offset,
        offset_delta: i32::from_be_bytes(field(bytes, 22)),
        timestamp,
    };
    let transaction_start = Offset(i64::from_be_bytes(field(bytes, 38)));
    let entry = Entry {
        epoch: ProducerEpoch(i16::from_be_bytes(field(bytes, 8))),
        batches: (last_offset.0 >= 0).then_some(batch).into_iter().collect(),
        last_timestamp: timestamp,
        coordinator_epoch: i32::from_be_bytes(field(bytes, 34)),
        transaction_start: (transaction_start.0 >= 0).then_some(transaction_start),
        last_seen: now,
    };
    (ProducerId(i64::from_be_bytes(field(bytes, 0))), entry)
}

#[cfg(test)]
mod tests {
    use riparian_records::{Batch, BatchBuilder, BatchOptions, Producer};

    use super::*;

    const NOW: WallMillis = WallMillis(1000);

    fn header(epoch: i16, sequence: i32, count: i32, offset: i64) -> BatchHeader {
        let producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(epoch), base_sequence: Sequence(sequence) };
        let mut builder = BatchBuilder::new(BatchOptions {
            base_offset: Offset(offset),
            producer: Some(producer),
            ..BatchOptions::PLAIN
        });
        (0..count).for_each(|_| builder.push(NOW, None, None));
        *Batch::parse(&builder.build()).unwrap().header()
    }

    /// Checks the batch and notes it if it is new; the base offset of a duplicate, or the expected sequence number.
    fn offer(producers: &mut Producers, header: BatchHeader) -> Result<Option<i64>, ProducerError> {
        match producers.check(&header)? {
            Verdict::Append => {
                producers.note_data(&header, NOW);
                Ok(None)
            }
            Verdict::Duplicate(batch) => Ok(Some(batch.base_offset().0)),
        }
    }

    #[test]
    fn duplicates_of_the_last_five_are_recognised() {
        let mut producers = Producers::default();
        for n in 0..7 {
            assert_eq!(offer(&mut producers, header(0, n * 10, 10, i64::from(n) * 10)), Ok(None));
        }
        for n in 2..7 {
            assert_eq!(offer(&mut producers, header(0, n * 10, 10, 999)), Ok(Some(i64::from(n) * 10)));
        }
        assert!(matches!(offer(&mut producers, header(0, 10, 10, 999)), Err(ProducerError::OutOfOrder { .. })));
        assert!(matches!(offer(&mut producers, header(0, 60, 9, 999)), Err(ProducerError::OutOfOrder { .. })));
    }

    #[test]
    fn gaps_and_old_epochs_are_refused() {
        let mut producers = Producers::default();
        assert_eq!(offer(&mut producers, header(1, 0, 5, 0)), Ok(None));
        assert!(matches!(offer(&mut producers, header(1, 6, 1, 5)), Err(ProducerError::OutOfOrder { .. })));
        assert!(matches!(offer(&mut producers, header(0, 5, 1, 5)), Err(ProducerError::Fenced { .. })));
        assert!(matches!(offer(&mut producers, header(2, 5, 1, 5)), Err(ProducerError::OutOfOrder { .. })));
        assert_eq!(offer(&mut producers, header(2, 0, 1, 5)), Ok(None));
        assert!(matches!(offer(&mut producers, header(1, 0, 5, 5)), Err(ProducerError::Fenced { .. })));
    }

    #[test]
    fn an_unknown_producer_may_start_anywhere() {
        assert_eq!(offer(&mut Producers::default(), header(3, 77, 1, 0)), Ok(None));
    }

    #[test]
    fn what_follows_a_lost_first_batch_waits_for_it() {
        let refused = |result| assert!(matches!(result, Err(ProducerError::OutOfOrder { .. })), "{result:?}");
        let mut producers = Producers::default();
        producers.note_failed(&header(3, 20, 10, 0), NOW);
        producers.note_failed(&header(3, 30, 10, 0), NOW);
        refused(offer(&mut producers, header(3, 30, 10, 0)));
        refused(offer(&mut producers, header(3, 21, 10, 0)));
        refused(offer(&mut producers, header(4, 20, 10, 0)));
        assert!(matches!(offer(&mut producers, header(2, 20, 10, 0)), Err(ProducerError::Fenced { .. })));
        assert_eq!(offer(&mut producers, header(3, 20, 10, 0)), Ok(None));
        assert_eq!(offer(&mut producers, header(3, 30, 10, 10)), Ok(None));
        refused(offer(&mut producers, header(3, 20, 9, 20)));
        // Another epoch begins at 0; what was lost is past then.
        let mut producers = Producers::default();
        producers.note_failed(&header(3, 20, 10, 0), NOW);
        assert_eq!(offer(&mut producers, header(4, 0, 1, 0)), Ok(None));
        assert_eq!(offer(&mut producers, header(4, 1, 1, 1)), Ok(None));
        // Numbers that begin anew are later ones.
        let mut producers = Producers::default();
        producers.note_failed(&header(0, i32::MAX - 1, 2, 0), NOW);
        refused(offer(&mut producers, header(0, 0, 1, 0)));
        assert_eq!(offer(&mut producers, header(0, i32::MAX - 1, 2, 0)), Ok(None));
        assert_eq!(offer(&mut producers, header(0, 0, 1, 2)), Ok(None));
        // A producer that the log knows needs no memory of it.
        producers.note_failed(&header(0, 1, 1, 3), NOW);
        assert!(producers.lost.is_empty());
    }

    #[test]
    fn what_was_lost_is_forgotten_with_its_producer() {
        let mut producers = Producers::default();
        producers.note_failed(&header(0, 7, 1, 0), NOW);
        producers.expire(WallMillis(NOW.0 + 99), 100);
        assert!(offer(&mut producers, header(0, 8, 1, 0)).is_err());
        producers.expire(WallMillis(NOW.0 + 100), 100);
        assert_eq!(offer(&mut producers, header(0, 8, 1, 0)), Ok(None));
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut producers = Producers::default();
        assert_eq!(offer(&mut producers, header(0, i32::MAX - 1, 4, 0)), Ok(None));
        assert_eq!(offer(&mut producers, header(0, i32::MAX - 1, 4, 4)), Ok(Some(0)));
        assert_eq!(offer(&mut producers, header(0, 2, 1, 4)), Ok(None));
        let mut producers = Producers::default();
        assert_eq!(offer(&mut producers, header(0, i32::MAX, 1, 0)), Ok(None));
        assert_eq!(offer(&mut producers, header(0, 0, 1, 1)), Ok(None));
    }

    #[test]
    fn a_snapshot_keeps_the_last_batch() {
        let mut producers = Producers::default();
        for n in 0..3 {
            offer(&mut producers, header(4, n * 10, 10, i64::from(n) * 10)).unwrap();
        }
        let bytes = producers.to_snapshot();
        let mut restored = Producers::from_snapshot(&bytes, NOW).unwrap();
        assert_eq!(restored.to_snapshot(), bytes);
        assert_eq!(offer(&mut restored, header(4, 20, 10, 99)), Ok(Some(20)));
        assert_eq!(offer(&mut restored, header(4, 30, 10, 30)), Ok(None));
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert!(Producers::from_snapshot(&damaged, NOW).is_none());
            assert!(Producers::from_snapshot(&bytes[..position], NOW).is_none());
        }
    }

    #[test]
    fn silent_producers_expire() {
        let mut producers = Producers::default();
        offer(&mut producers, header(0, 0, 1, 0)).unwrap();
        producers.expire(WallMillis(NOW.0 + 99), 100);
        assert_eq!(producers.len(), 1);
        producers.expire(WallMillis(NOW.0 + 100), 100);
        assert_eq!(producers.len(), 0);
    }
}
