//! The header of a record batch, format v2 (KIP-98), and how a stored batch differs from the one that was sent.
//!
//! ```text
//!  0        8      12         16    17    21           23                27              35
//! +--------+------+----------+-----+-----+------------+-----------------+---------------+--------------+
//! | base   | len  | leader   | ma- | crc | attributes | last offset     | base          | max          |
//! | offset | i32  | epoch    | gic | u32 | i16        | delta i32       | timestamp i64 | timestamp i64|
//! +--------+------+----------+-----+-----+------------+-----------------+---------------+--------------+
//!  43            51               53             57             61
//! +-------------+----------------+--------------+--------------+---------+
//! | producer id | producer epoch | base         | record count | records |
//! | i64         | i16            | sequence i32 | i32          | ...     |
//! +-------------+----------------+--------------+--------------+---------+
//!
//! len         bytes behind the len field, so the batch has 12 + len bytes
//! crc         CRC-32C of everything from the attributes to the end
//! attributes  bits 0-2 compression, 3 timestamp type (1: append time), 4 transactional, 5 control,
//!             6 base timestamp is a delete horizon
//! ```
//!
//! **Invariant:** base offset and leader epoch lie in front of what the CRC covers, so giving a batch its place in a log
//! costs no pass over its records; only a changed timestamp does.

use riparian_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, WallMillis};

use crate::compression::Compression;

/// Bytes of a batch in front of its records.
pub const HEADER_BYTES: usize = 61;
/// Bytes of a batch that its length field doesn't count: base offset and the length itself.
pub const BATCH_PREFIX_BYTES: usize = 12;
/// The magic byte of format v2.
pub const MAGIC: i8 = 2;

pub(crate) const CRC_START: usize = 17;
pub(crate) const CRC_COVERS_FROM: usize = 21;

const COMPRESSION_BITS: i16 = 0b111;
const APPEND_TIME_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;

/// Who gave the records their timestamps (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer.
    CreateTime,
    /// The log, at the time of the append; it is the batch's max timestamp and holds for every record.
    LogAppendTime,
}

/// The timestamp part of stamping a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampedTime {
    /// Timestamps stay as they are; the CRC does too.
    Keep,
    /// The max timestamp becomes this one, which is what the records really say.
    MaxTimestamp(WallMillis),
    /// Every record gets this append time.
    LogAppendTime(WallMillis),
}

/// The fixed part of a record batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record.
    pub base_offset: Offset,
    /// Bytes of the batch behind the length field.
    pub length: i32,
    /// The epoch of the leader that appended the batch.
    pub leader_epoch: LeaderEpoch,
    /// The format; 2 here.
    pub magic: i8,
    /// CRC-32C from the attributes to the end.
    pub crc: u32,
    /// Compression, timestamp type and flags.
    pub attributes: i16,
    /// The last record's offset minus the base offset.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas count from.
    pub base_timestamp: WallMillis,
    /// The largest timestamp of the records, or their append time.
    pub max_timestamp: WallMillis,
    /// The idempotent producer, or [`ProducerId::NONE`].
    pub producer_id: ProducerId,
    /// The producer's epoch, or [`ProducerEpoch::NONE`].
    pub producer_epoch: ProducerEpoch,
    /// The first record's sequence number, or [`Sequence::NONE`].
    pub base_sequence: Sequence,
    /// How many records follow.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header; it may say anything, only its size is checked. None if there are less than [`HEADER_BYTES`].
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        Some(Self {
            base_offset: Offset(i64::from_be_bytes(field(bytes, 0))),
            length: i32::from_be_bytes(field(bytes, 8)),
            leader_epoch: LeaderEpoch(i32::from_be_bytes(field(bytes, 12))),
            magic: bytes[16] as i8,
            crc: u32::from_be_bytes(field(bytes, CRC_START)),
            attributes: i16::from_be_bytes(field(bytes, CRC_COVERS_FROM)),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: WallMillis(i64::from_be_bytes(field(bytes, 27))),
            max_timestamp: WallMillis(i64::from_be_bytes(field(bytes, 35))),
            producer_id: ProducerId(i64::from_be_bytes(field(bytes, 43))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(bytes, 51))),
            base_sequence: Sequence(i32::from_be_bytes(field(bytes, 53))),
            record_count: i32::from_be_bytes(field(bytes, 57)),
        })
    }

    /// The bytes of this header.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.base_offset.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.leader_epoch.0.to_be_bytes());
        bytes[16] = self.magic as u8;
        bytes[17..21].copy_from_slice(&self.crc.to_be_bytes());
        bytes[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        bytes[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        bytes[27..35].copy_from_slice(&self.base_timestamp.0.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.max_timestamp.0.to_be_bytes());
        bytes[43..51].copy_from_slice(&self.producer_id.0.to_be_bytes());
        bytes[51..53].copy_from_slice(&self.producer_epoch.0.to_be_bytes());
        bytes[53..57].copy_from_slice(&self.base_sequence.0.to_be_bytes());
        bytes[57..61].copy_from_slice(&self.record_count.to_be_bytes());
        bytes
    }

    /// Bytes of the whole batch, header included. None if the length field can't be true of a v2 batch.
    pub fn batch_bytes(&self) -> Option<usize> {
        let bytes = usize::try_from(self.length).ok()?.checked_add(BATCH_PREFIX_BYTES)?;
        (bytes >= HEADER_BYTES).then_some(bytes)
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// The offset that the record after this batch gets.
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// The last record's sequence number; it starts again at 0 after [`i32::MAX`].
    pub fn last_sequence(&self) -> Sequence {
        if self.base_sequence.0 < 0 {
            return Sequence::NONE;
        }
        let sum = i64::from(self.base_sequence.0) + i64::from(self.last_offset_delta);
        Sequence((sum & i64::from(i32::MAX)) as i32)
    }

    /// How the records are compressed; the number itself if it names no codec.
    pub fn compression(&self) -> Result<Compression, i16> {
        let number = self.attributes & COMPRESSION_BITS;
        Compression::from_number(number).ok_or(number)
    }

    /// Who gave the records their timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & APPEND_TIME_BIT == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    /// Whether the batch is part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Whether the records are the server's own marks, not data.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Whether an idempotent producer wrote the batch.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id.0 > ProducerId::NONE.0
    }

    /// Gives the batch its place in a log. `body` is what follows the header; it is read only if the CRC changes.
    ///
    /// The caller writes the new header's bytes in front of the same body.
    pub fn stamp(&mut self, body: &[u8], base_offset: Offset, leader_epoch: LeaderEpoch, time: StampedTime) {
        self.base_offset = base_offset;
        self.leader_epoch = leader_epoch;
        let (attributes, max_timestamp) = match time {
            StampedTime::Keep => return,
            StampedTime::MaxTimestamp(at) => (self.attributes & !APPEND_TIME_BIT, at),
            StampedTime::LogAppendTime(at) => (self.attributes | APPEND_TIME_BIT, at),
        };
        if (attributes, max_timestamp) != (self.attributes, self.max_timestamp) {
            self.attributes = attributes;
            self.max_timestamp = max_timestamp;
            self.crc = crc32c::crc32c_append(crc32c::crc32c(&self.to_bytes()[CRC_COVERS_FROM..]), body);
        }
    }

    pub(crate) fn attributes_of(compression: Compression, is_transactional: bool, is_control: bool) -> i16 {
        compression.number()
            | if is_transactional { TRANSACTIONAL_BIT } else { 0 }
            | if is_control { CONTROL_BIT } else { 0 }
    }
}

/// Gives the batch at the start of `batch` its place in a log, in place; see [`BatchHeader::stamp`].
///
/// Bytes too short for a header are left alone: no [`crate::Batch`] was made of them.
pub fn stamp(batch: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch, log_append_time: Option<WallMillis>) {
    let Some(mut header) = BatchHeader::parse(batch) else { return };
    let end = header.batch_bytes().map_or(batch.len(), |bytes| bytes.min(batch.len()));
    let time = log_append_time.map_or(StampedTime::Keep, StampedTime::LogAppendTime);
    header.stamp(&batch[HEADER_BYTES..end], base_offset, leader_epoch, time);
    batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
}

fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], start: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[start..start + N]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BatchHeader {
        BatchHeader {
            base_offset: Offset(0x0102_0304_0506_0708),
            length: 0x1112_1314,
            leader_epoch: LeaderEpoch(0x2122_2324),
            magic: 2,
            crc: 0x3132_3334,
            attributes: 0x4142,
            last_offset_delta: 0x5152_5354,
            base_timestamp: WallMillis(0x6162_6364_6566_6768),
            max_timestamp: WallMillis(0x7172_7374_7576_7778),
            producer_id: ProducerId(0x0a0b_0c0d_0e0f_1011),
            producer_epoch: ProducerEpoch(0x2a2b),
            base_sequence: Sequence(0x3a3b_3c3d),
            record_count: 0x4a4b_4c4d,
        }
    }

    #[test]
    fn every_field_has_its_place() {
        let bytes = header().to_bytes();
        assert_eq!(BatchHeader::parse(&bytes), Some(header()));
        assert_eq!(bytes[..17], [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 2]);
        assert_eq!(bytes[57..], [0x4a, 0x4b, 0x4c, 0x4d]);
        assert_eq!(BatchHeader::parse(&bytes[..60]), None);
    }

    #[test]
    fn sequences_start_again_after_the_largest() {
        let batch = |base, delta| BatchHeader { base_sequence: Sequence(base), last_offset_delta: delta, ..header() };
        assert_eq!(batch(5, 2).last_sequence(), Sequence(7));
        assert_eq!(batch(i32::MAX, 0).last_sequence(), Sequence(i32::MAX));
        assert_eq!(batch(i32::MAX, 1).last_sequence(), Sequence(0));
        assert_eq!(batch(i32::MAX - 1, 4).last_sequence(), Sequence(2));
        assert_eq!(batch(-1, 4).last_sequence(), Sequence::NONE);
    }

    #[test]
    fn lengths_that_cannot_be() {
        let batch = |length| BatchHeader { length, ..header() }.batch_bytes();
        assert_eq!(batch(49), Some(61));
        assert_eq!(batch(48), None);
        assert_eq!(batch(-1), None);
        assert_eq!(batch(i32::MIN), None);
    }
}
