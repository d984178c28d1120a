//! The one check of what a client produces to one partition.
//!
//! Since Produce version 3 that is exactly one batch of format v2. The check reads every record once, as Kafka 4.4 does,
//! and its result is a [`ProducedBatch`], which can't be had otherwise: what the log appends for a client was checked.
//!
//! It deliberately does not know the producer's history (sequence numbers, epochs); the log does.

use riparian_types::WallMillis;

use crate::{
    batch::{Batch, BatchError},
    compression::{Compression, CompressionError},
    header::{BatchHeader, StampedTime, TimestampType},
    record::{Record, RecordFormatError},
};

/// Most record errors that are reported for one batch.
pub const RECORD_ERRORS_MAX: usize = 100;

/// What a topic demands of the batches produced to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProduceRules {
    /// Largest batch, in bytes (`max.message.bytes`).
    pub batch_bytes_max: usize,
    /// Whether every record needs a key (`cleanup.policy` with `compact`).
    pub key_required: bool,
    /// Who gives the records their timestamps (`message.timestamp.type`).
    pub timestamp_type: TimestampType,
    /// How far in the past a timestamp may lie (`message.timestamp.before.max.ms`).
    pub timestamp_before_max_ms: i64,
    /// How far in the future a timestamp may lie (`message.timestamp.after.max.ms`).
    pub timestamp_after_max_ms: i64,
    /// Whether the client's Produce version may carry zstd (7 and up, KIP-110).
    pub zstd_allowed: bool,
}

/// A client's batch that passed [`check_produced`].
#[derive(Clone, Copy, Debug)]
pub struct ProducedBatch<'a> {
    batch: Batch<'a>,
    stamped_time: StampedTime,
    max_timestamp: WallMillis,
}

/// Why what a client produced is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProducedError {
    /// There is no batch at all. (INVALID_RECORD)
    #[error("there is no record batch")]
    NoBatch,
    /// There is more than one batch. (INVALID_RECORD)
    #[error("there is more than one record batch")]
    MoreThanOneBatch,
    /// The batch has an older format. (INVALID_RECORD for 0 and 1, CORRUPT_MESSAGE for others)
    #[error("record batch has format {magic}, format 2 is required")]
    OldFormat {
        /// The magic byte.
        magic: i8,
    },
    /// The batch is larger than allowed. (MESSAGE_TOO_LARGE)
    #[error("record batch has {bytes} bytes, at most {bytes_max} are allowed (max.message.bytes)")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest size allowed.
        bytes_max: usize,
    },
    /// The bytes are not a batch. (CORRUPT_MESSAGE)
    #[error(transparent)]
    Corrupt(BatchError),
    /// The codec is unknown or the client's version may not use it. (UNSUPPORTED_COMPRESSION_TYPE)
    #[error("compression codec {number} is not supported with this Produce version")]
    UnsupportedCompression {
        /// The codec's number.
        number: i16,
    },
    /// The records can't be decompressed. (CORRUPT_MESSAGE)
    #[error(transparent)]
    Compression(CompressionError),
    /// A record can't be read. (INVALID_RECORD)
    #[error(transparent)]
    Record(RecordFormatError),
    /// The base offset is not 0. (INVALID_RECORD)
    #[error("the base offset of a produced batch is 0, not {base_offset}")]
    BaseOffset {
        /// The base offset.
        base_offset: i64,
    },
    /// Record count and last offset delta contradict each other, or there are no records. (INVALID_RECORD)
    #[error("record batch has {record_count} records and a last offset delta of {last_offset_delta}")]
    Count {
        /// How many records the header promises.
        record_count: i32,
        /// The last record's offset delta by the header.
        last_offset_delta: i32,
    },
    /// A record has not the offset delta that its position gives. (INVALID_RECORD)
    #[error("record {index} of the batch has offset delta {offset_delta}")]
    OffsetDelta {
        /// Which record, from 0.
        index: usize,
        /// Its offset delta.
        offset_delta: i64,
    },
    /// Clients don't write control batches. (INVALID_RECORD)
    #[error("clients may not write control batches")]
    Control,
    /// There is a producer id but no sequence number. (INVALID_RECORD)
    #[error("record batch of producer {producer_id} has sequence number {base_sequence}")]
    Sequence {
        /// The producer's id.
        producer_id: i64,
        /// The sequence number.
        base_sequence: i32,
    },
    /// Single records are refused. (INVALID_TIMESTAMP if [`RecordFault::is_timestamp`] of any, else INVALID_RECORD)
    #[error("{} records of the batch are refused, the first: {}", .0.len(), .0[0].fault)]
    Records(Vec<RecordError>),
}

/// A record that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Which record of the batch, from 0.
    pub batch_index: usize,
    /// What is wrong with it.
    pub fault: RecordFault,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// It has no key, in a compacted topic.
    #[error("a compacted topic cannot accept a record without a key")]
    KeyMissing,
    /// Its timestamp is too far from now.
    #[error("timestamp {timestamp} is not within [{earliest}, {latest}]")]
    TimestampOutOfRange {
        /// The timestamp.
        timestamp: i64,
        /// The earliest allowed.
        earliest: i64,
        /// The latest allowed.
        latest: i64,
    },
    /// The producer claims that the log gave the timestamp.
    #[error("a producer may not set the timestamp type LogAppendTime")]
    AppendTimeClaimed,
}

impl RecordFault {
    /// Whether it is about the timestamp.
    pub fn is_timestamp(&self) -> bool {
        match self {
            Self::KeyMissing => false,
            Self::TimestampOutOfRange { .. } | Self::AppendTimeClaimed => true,
        }
    }
}

impl<'a> ProducedBatch<'a> {
    /// The batch as it came.
    pub fn batch(&self) -> &Batch<'a> {
        &self.batch
    }

    /// The header as it came.
    pub fn header(&self) -> &BatchHeader {
        self.batch.header()
    }

    /// The batch as it came, in bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.batch.bytes()
    }

    /// What stamping does to the timestamps.
    pub fn stamped_time(&self) -> StampedTime {
        self.stamped_time
    }

    /// The largest timestamp the batch has once stamped.
    pub fn max_timestamp(&self) -> WallMillis {
        self.max_timestamp
    }

    /// The time of the append, if that is what the records' timestamps become.
    pub fn log_append_time(&self) -> Option<WallMillis> {
        match self.stamped_time {
            StampedTime::LogAppendTime(at) => Some(at),
            StampedTime::Keep | StampedTime::MaxTimestamp(_) => None,
        }
    }
}

/// Checks what a produce request carries for one partition.
///
/// Trailing bytes that are no whole batch are refused, where Kafka drops them silently.
pub fn check_produced<'a>(
    bytes: &'a [u8],
    rules: &ProduceRules,
    now: WallMillis,
) -> Result<ProducedBatch<'a>, ProducedError> {
    if bytes.is_empty() {
        return Err(ProducedError::NoBatch);
    }
    let batch = parse_one(bytes, rules)?;
    check_header(batch.header(), rules)?;
    let max_timestamp = check_records(&batch, rules, now)?;
    let stamped_time = match rules.timestamp_type {
        TimestampType::LogAppendTime => StampedTime::LogAppendTime(now),
        TimestampType::CreateTime if max_timestamp == batch.header().max_timestamp => StampedTime::Keep,
        TimestampType::CreateTime => StampedTime::MaxTimestamp(max_timestamp),
    };
    let max_timestamp = if rules.timestamp_type == TimestampType::LogAppendTime { now } else { max_timestamp };
    Ok(ProducedBatch { batch, stamped_time, max_timestamp })
}

fn parse_one<'a>(bytes: &'a [u8], rules: &ProduceRules) -> Result<Batch<'a>, ProducedError> {
    // The size is looked at before the CRC, which costs a pass over the bytes.
    let unverified = Batch::parse_unverified(bytes).map_err(|error| match error {
        BatchError::Magic { magic: magic @ (0 | 1) } => ProducedError::OldFormat { magic },
        error => ProducedError::Corrupt(error),
    })?;
    let batch_bytes = unverified.bytes().len();
    if batch_bytes > rules.batch_bytes_max {
        return Err(ProducedError::TooLarge { bytes: batch_bytes, bytes_max: rules.batch_bytes_max });
    }
    if let rest @ [_, ..] = &bytes[batch_bytes..] {
        return Err(match Batch::parse_unverified(rest) {
            Ok(_) => ProducedError::MoreThanOneBatch,
            Err(error) => ProducedError::Corrupt(error),
        });
    }
    Batch::parse(bytes).map_err(ProducedError::Corrupt)
}

fn check_header(header: &BatchHeader, rules: &ProduceRules) -> Result<(), ProducedError> {
    if header.base_offset.0 != 0 {
        return Err(ProducedError::BaseOffset { base_offset: header.base_offset.0 });
    }
    if header.record_count <= 0 || header.last_offset_delta != header.record_count - 1 {
        return Err(ProducedError::Count {
            record_count: header.record_count,
            last_offset_delta: header.last_offset_delta,
        });
    }
    if header.is_control() {
        return Err(ProducedError::Control);
    }
    if header.has_producer_id() && header.base_sequence.0 < 0 {
        return Err(ProducedError::Sequence {
            producer_id: header.producer_id.0,
            base_sequence: header.base_sequence.0,
        });
    }
    match header.compression() {
        Ok(Compression::Zstd) if !rules.zstd_allowed => {
            Err(ProducedError::UnsupportedCompression { number: Compression::Zstd.number() })
        }
        Ok(_) => Ok(()),
        Err(number) => Err(ProducedError::UnsupportedCompression { number }),
    }
}

/// Reads every record; gives the largest timestamp.
fn check_records(batch: &Batch<'_>, rules: &ProduceRules, now: WallMillis) -> Result<WallMillis, ProducedError> {
    let records = batch.records().map_err(ProducedError::Compression)?;
    let mut errors = Vec::new();
    let mut max_timestamp = WallMillis(-1);
    for (index, record) in records.iter().enumerate() {
        let record = record.map_err(ProducedError::Record)?;
        let offset_delta = record.offset.0;
        if usize::try_from(offset_delta) != Ok(index) {
            return Err(ProducedError::OffsetDelta { index, offset_delta });
        }
        max_timestamp = max_timestamp.max(record.timestamp);
        if let Some(fault) = record_fault(batch.header(), &record, rules, now)
            && errors.len() < RECORD_ERRORS_MAX
        {
            errors.push(RecordError { batch_index: index, fault });
        }
    }
    if errors.is_empty() { Ok(max_timestamp) } else { Err(ProducedError::Records(errors)) }
}

fn record_fault(
    header: &BatchHeader,
    record: &Record<'_>,
    rules: &ProduceRules,
    now: WallMillis,
) -> Option<RecordFault> {
    if rules.key_required && record.key.is_none() {
        return Some(RecordFault::KeyMissing);
    }
    let timestamp = record.timestamp.0;
    if rules.timestamp_type == TimestampType::CreateTime && timestamp != -1 {
        let earliest = now.0.saturating_sub(rules.timestamp_before_max_ms);
        let latest = now.0.saturating_add(rules.timestamp_after_max_ms);
        let in_range = (earliest..=latest).contains(&timestamp);
        return (!in_range).then_some(RecordFault::TimestampOutOfRange { timestamp, earliest, latest });
    }
    (header.timestamp_type() == TimestampType::LogAppendTime).then_some(RecordFault::AppendTimeClaimed)
}

#[cfg(test)]
mod tests {
    use riparian_types::{Offset, ProducerEpoch, ProducerId, Sequence};

    use super::*;
    use crate::{BatchBuilder, BatchOptions, HEADER_BYTES, Producer, stamp};

    const RULES: ProduceRules = ProduceRules {
        batch_bytes_max: 1000,
        key_required: false,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        zstd_allowed: true,
    };
    const NOW: WallMillis = WallMillis(1_000_000);

    fn build(options: BatchOptions) -> Vec<u8> {
        let mut builder = BatchBuilder::new(options);
        builder.push(NOW, Some(b"k"), Some(b"v"));
        builder.push(WallMillis(NOW.0 - 5), None, Some(b"w"));
        builder.build()
    }

    /// A batch with a changed header and a right CRC.
    fn changed(change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
        let mut bytes = build(BatchOptions::PLAIN);
        let mut header = *Batch::parse(&bytes).unwrap().header();
        change(&mut header);
        header.crc = crc32c::crc32c_append(crc32c::crc32c(&header.to_bytes()[21..]), &bytes[HEADER_BYTES..]);
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes
    }

    #[track_caller]
    fn refused(bytes: &[u8], rules: &ProduceRules, expected: ProducedError) {
        assert_eq!(check_produced(bytes, rules, NOW).err(), Some(expected));
    }

    #[test]
    fn every_codec_is_accepted() {
        for compression in Compression::ALL {
            let bytes = build(BatchOptions { compression, ..BatchOptions::PLAIN });
            let produced = check_produced(&bytes, &RULES, NOW).unwrap();
            assert_eq!(produced.stamped_time(), StampedTime::Keep);
            assert_eq!(produced.max_timestamp(), NOW);
        }
    }

    #[test]
    fn exactly_one_batch() {
        refused(&[], &RULES, ProducedError::NoBatch);
        let mut two = build(BatchOptions::PLAIN);
        two.extend_from_within(..);
        refused(&two, &RULES, ProducedError::MoreThanOneBatch);
        two.pop();
        assert!(matches!(check_produced(&two, &RULES, NOW), Err(ProducedError::Corrupt(BatchError::Truncated { .. }))));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        refused(
            &changed(|header| header.base_offset = Offset(1)),
            &RULES,
            ProducedError::BaseOffset { base_offset: 1 },
        );
        refused(
            &changed(|header| header.last_offset_delta = 0),
            &RULES,
            ProducedError::Count { record_count: 2, last_offset_delta: 0 },
        );
        refused(
            &changed(|header| (header.record_count, header.last_offset_delta) = (0, -1)),
            &RULES,
            ProducedError::Count { record_count: 0, last_offset_delta: -1 },
        );
        refused(
            &changed(|header| (header.record_count, header.last_offset_delta) = (1, 0)),
            &RULES,
            ProducedError::Record(RecordFormatError { index: 1, what: "bytes follow the last record" }),
        );
        refused(
            &changed(|header| header.producer_id = ProducerId(3)),
            &RULES,
            ProducedError::Sequence { producer_id: 3, base_sequence: -1 },
        );
        refused(&changed(|header| header.attributes |= 5), &RULES, ProducedError::UnsupportedCompression { number: 5 });
        refused(&changed(|header| header.attributes |= 1 << 5), &RULES, ProducedError::Control);
        refused(
            &changed(|header| header.attributes |= 4),
            &RULES,
            ProducedError::Compression(CompressionError::Damaged(Compression::Zstd)),
        );
    }

    #[test]
    fn limits_of_the_topic_and_the_version() {
        let bytes = build(BatchOptions { compression: Compression::Zstd, ..BatchOptions::PLAIN });
        let size = bytes.len();
        refused(
            &bytes,
            &ProduceRules { zstd_allowed: false, ..RULES },
            ProducedError::UnsupportedCompression { number: 4 },
        );
        refused(
            &bytes,
            &ProduceRules { batch_bytes_max: size - 1, ..RULES },
            ProducedError::TooLarge { bytes: size, bytes_max: size - 1 },
        );
        assert!(check_produced(&bytes, &ProduceRules { batch_bytes_max: size, ..RULES }, NOW).is_ok());
    }

    #[test]
    fn old_formats_and_damage() {
        let mut bytes = build(BatchOptions::PLAIN);
        bytes[16] = 1;
        refused(&bytes, &RULES, ProducedError::OldFormat { magic: 1 });
        bytes[16] = 9;
        refused(&bytes, &RULES, ProducedError::Corrupt(BatchError::Magic { magic: 9 }));
        bytes[16] = 2;
        bytes[70] ^= 1;
        assert!(matches!(check_produced(&bytes, &RULES, NOW), Err(ProducedError::Corrupt(BatchError::Crc { .. }))));
    }

    #[test]
    fn records_are_refused_one_by_one() {
        let bytes = build(BatchOptions::PLAIN);
        refused(
            &bytes,
            &ProduceRules { key_required: true, ..RULES },
            ProducedError::Records(vec![RecordError { batch_index: 1, fault: RecordFault::KeyMissing }]),
        );
        let fault = RecordFault::TimestampOutOfRange { timestamp: NOW.0 - 5, earliest: NOW.0 - 4, latest: NOW.0 };
        refused(
            &bytes,
            &ProduceRules { timestamp_before_max_ms: 4, timestamp_after_max_ms: 0, ..RULES },
            ProducedError::Records(vec![RecordError { batch_index: 1, fault }]),
        );
    }

    #[test]
    fn append_time_is_the_logs_to_give() {
        let mut bytes = build(BatchOptions::PLAIN);
        let rules = ProduceRules { timestamp_type: TimestampType::LogAppendTime, ..RULES };
        let produced = check_produced(&bytes, &rules, NOW).unwrap();
        assert_eq!(produced.log_append_time(), Some(NOW));
        stamp(&mut bytes, Offset::ZERO, riparian_types::LeaderEpoch(0), Some(WallMillis(-1)));
        assert!(check_produced(&bytes, &RULES, NOW).is_err());
    }

    #[test]
    fn a_wrong_max_timestamp_is_corrected() {
        let bytes = changed(|header| header.max_timestamp = WallMillis(NOW.0 + 77));
        let produced = check_produced(&bytes, &RULES, NOW).unwrap();
        assert_eq!(produced.stamped_time(), StampedTime::MaxTimestamp(NOW));
        assert_eq!(produced.max_timestamp(), NOW);
    }

    #[test]
    fn an_idempotent_batch_is_accepted() {
        let producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
        let bytes = build(BatchOptions { producer: Some(producer), ..BatchOptions::PLAIN });
        assert!(check_produced(&bytes, &RULES, NOW).unwrap().header().has_producer_id());
    }
}
