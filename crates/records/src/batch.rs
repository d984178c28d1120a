//! A record set: batches one behind the other, as a request carries them and a segment file stores them.

use std::borrow::Cow;

use riparian_types::limits;

use crate::{
    compression::{Compression, CompressionError},
    header::{BATCH_PREFIX_BYTES, BatchHeader, CRC_COVERS_FROM, HEADER_BYTES, MAGIC},
    record::Records,
};

/// Where the magic byte lies, in every format.
const MAGIC_POSITION: usize = 16;

/// One batch in borrowed bytes whose length, magic and CRC are right.
///
/// What the records inside look like has not been checked.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

/// Bytes that are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The bytes end before the batch does.
    #[error("batch of {batch_bytes} bytes is cut after {bytes}")]
    Truncated {
        /// Bytes the batch should have; the smallest header's if not even its length is there.
        batch_bytes: usize,
        /// Bytes there are.
        bytes: usize,
    },
    /// The length field can't be true.
    #[error("batch says it has {length} bytes, less than a header")]
    Length {
        /// The length field.
        length: i32,
    },
    /// The batch has another format.
    #[error("batch has format {magic}, only format 2 is known")]
    Magic {
        /// The magic byte.
        magic: i8,
    },
    /// The bytes were changed after the CRC was computed.
    #[error("batch says its CRC is {stored:#010x}, but it is {computed:#010x}")]
    Crc {
        /// The CRC in the header.
        stored: u32,
        /// The CRC of the bytes.
        computed: u32,
    },
}

impl<'a> Batch<'a> {
    /// The batch at the start of `bytes`, which may be longer.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let batch = Self::parse_unverified(bytes)?;
        let computed = crc32c::crc32c(&batch.bytes[CRC_COVERS_FROM..]);
        if computed != batch.header.crc {
            return Err(BatchError::Crc { stored: batch.header.crc, computed });
        }
        Ok(batch)
    }

    /// As [`Batch::parse`], without the CRC: for bytes that this process has written or checked itself.
    pub fn parse_unverified(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let truncated = |batch_bytes| BatchError::Truncated { batch_bytes, bytes: bytes.len() };
        // Length and magic lie at the same place in every format; an old one is named as such even if it is short.
        let Some(length) = bytes.get(8..BATCH_PREFIX_BYTES).and_then(|field| field.first_chunk()) else {
            return Err(truncated(HEADER_BYTES));
        };
        let length = i32::from_be_bytes(*length);
        if let Some(&magic) = bytes.get(MAGIC_POSITION)
            && magic as i8 != MAGIC
        {
            return Err(BatchError::Magic { magic: magic as i8 });
        }
        let batch_bytes = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_add(BATCH_PREFIX_BYTES))
            .filter(|&batch_bytes| batch_bytes >= HEADER_BYTES)
            .ok_or(BatchError::Length { length })?;
        let batch = bytes.get(..batch_bytes).ok_or_else(|| truncated(batch_bytes))?;
        let header = BatchHeader::parse(batch).ok_or_else(|| truncated(batch_bytes))?;
        Ok(Self { header, bytes: batch })
    }

    /// The header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch, header included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What follows the header: the records, perhaps compressed.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The records, decompressed if need be, up to [`limits::DECOMPRESSED_BYTES_MAX`] bytes.
    pub fn records(&self) -> Result<Records<'a>, CompressionError> {
        let bytes = match self.header.compression() {
            Ok(Compression::None) => Cow::Borrowed(self.body()),
            Ok(compression) => Cow::Owned(compression.decompress(self.body(), limits::DECOMPRESSED_BYTES_MAX)?),
            Err(number) => return Err(CompressionError::Unknown { number }),
        };
        Ok(Records::new(self.header, bytes))
    }
}

/// The batches of a record set, each checked as by [`Batch::parse`]. The iterator ends after the first error.
///
/// A set that was cut in the middle of its last batch, as fetch replies may be, ends with
/// [`BatchError::Truncated`]; [`Batches::tolerate_truncated`] makes it end silently.
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes, verify: true, tolerate_truncated: false }
}

/// Iterates batches; see [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    verify: bool,
    tolerate_truncated: bool,
}

impl<'a> Batches<'a> {
    /// Ends silently where a batch is cut by the end of the bytes.
    #[must_use]
    pub fn tolerate_truncated(mut self) -> Self {
        self.tolerate_truncated = true;
        self
    }

    /// Doesn't compute CRCs: for bytes that this process has written or checked itself.
    #[must_use]
    pub fn unverified(mut self) -> Self {
        self.verify = false;
        self
    }

    /// The bytes not iterated yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let result = if self.verify { Batch::parse(self.rest) } else { Batch::parse_unverified(self.rest) };
        self.rest = match &result {
            Ok(batch) => &self.rest[batch.bytes.len()..],
            Err(_) => &[],
        };
        if self.tolerate_truncated && matches!(result, Err(BatchError::Truncated { .. })) {
            return None;
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use riparian_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, WallMillis};

    use super::{Batch, BatchError, batches};
    use crate::{BatchBuilder, BatchOptions, Compression, Header, Producer, RecordFormatError, TimestampType, stamp};

    type Owned = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

    fn build(options: BatchOptions) -> Vec<u8> {
        let mut builder = BatchBuilder::new(options);
        builder.push(WallMillis(1000), Some(b"k"), Some(b"v"));
        builder.push(WallMillis(900), None, None);
        let headers = [Header { key: b"h", value: Some(b"1") }, Header { key: b"", value: None }];
        builder.push_with_headers(WallMillis(1100), Some(b""), Some(&[7; 300]), headers.into_iter());
        builder.build()
    }

    fn read(batch: &Batch<'_>) -> Result<Vec<Owned>, RecordFormatError> {
        let records = batch.records().unwrap();
        let own = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
        records
            .iter()
            .map(|record| {
                let record = record?;
                let headers = record.headers.map(|header| (header.key.to_vec(), own(header.value))).collect();
                Ok((record.offset.0, record.timestamp.0, own(record.key), own(record.value), headers))
            })
            .collect()
    }

    fn expected(base: i64) -> Vec<Owned> {
        vec![
            (base, 1000, Some(b"k".to_vec()), Some(b"v".to_vec()), vec![]),
            (base + 1, 900, None, None, vec![]),
            (
                base + 2,
                1100,
                Some(vec![]),
                Some(vec![7; 300]),
                vec![(b"h".to_vec(), Some(b"1".to_vec())), (vec![], None)],
            ),
        ]
    }

    #[test]
    fn a_built_batch_reads_back() {
        for compression in Compression::ALL {
            let producer = Producer { id: ProducerId(9), epoch: ProducerEpoch(3), base_sequence: Sequence(41) };
            let bytes = build(BatchOptions {
                base_offset: Offset(50),
                leader_epoch: LeaderEpoch(6),
                compression,
                producer: Some(producer),
                is_transactional: true,
                ..BatchOptions::PLAIN
            });
            let batch = Batch::parse(&bytes).unwrap();
            assert_eq!(read(&batch), Ok(expected(50)));
            let header = batch.header();
            assert_eq!(header.compression(), Ok(compression));
            assert_eq!((header.producer_id, header.producer_epoch), (producer.id, producer.epoch));
            assert_eq!((header.base_sequence, header.last_sequence()), (Sequence(41), Sequence(43)));
            assert_eq!((header.last_offset(), header.next_offset()), (Offset(52), Offset(53)));
            assert_eq!((header.base_timestamp, header.max_timestamp), (WallMillis(1000), WallMillis(1100)));
            assert_eq!(header.leader_epoch, LeaderEpoch(6));
            assert!(header.is_transactional() && !header.is_control() && header.has_producer_id());
        }
    }

    #[test]
    fn stamping_keeps_the_crc_right() {
        let mut bytes = build(BatchOptions::PLAIN);
        stamp(&mut bytes, Offset(7), LeaderEpoch(2), None);
        assert_eq!(read(&Batch::parse(&bytes).unwrap()), Ok(expected(7)));
        stamp(&mut bytes, Offset(8), LeaderEpoch(2), Some(WallMillis(5000)));
        let batch = Batch::parse(&bytes).unwrap();
        assert_eq!(batch.header().timestamp_type(), TimestampType::LogAppendTime);
        assert!(read(&batch).unwrap().iter().all(|record| record.1 == 5000));
    }

    #[test]
    fn a_record_set_is_walked() {
        let mut set = build(BatchOptions::PLAIN);
        let one = set.len();
        set.extend(build(BatchOptions { compression: Compression::Gzip, ..BatchOptions::PLAIN }));
        assert_eq!(batches(&set).filter(Result::is_ok).count(), 2);
        let cut = &set[..set.len() - 1];
        assert_eq!(batches(cut).tolerate_truncated().count(), 1);
        assert!(matches!(batches(cut).last(), Some(Err(BatchError::Truncated { .. }))));
        let mut damaged = set.clone();
        damaged[one - 1] ^= 1;
        let all: Vec<_> = batches(&damaged).tolerate_truncated().collect();
        assert!(matches!(all[..], [Err(BatchError::Crc { .. })]));
    }

    #[test]
    fn a_batch_cut_anywhere_is_truncated() {
        let bytes = build(BatchOptions::PLAIN);
        for end in 0..bytes.len() {
            assert!(matches!(Batch::parse(&bytes[..end]), Err(BatchError::Truncated { .. })), "{end}");
        }
    }

    #[test]
    fn no_damage_to_records_panics() {
        let bytes = build(BatchOptions::PLAIN);
        for position in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[position] ^= flip;
                // The base offset and the leader epoch lie in front of what the CRC covers.
                let covered = !(0..8).contains(&position) && !(12..16).contains(&position);
                assert_eq!(Batch::parse(&damaged).is_err(), covered, "{position}");
                if let Ok(batch) = Batch::parse_unverified(&damaged) {
                    let _ = batch.records().map(|records| records.iter().count());
                }
            }
        }
    }

    #[test]
    fn lies_about_lengths_are_errors() {
        let mut bytes = build(BatchOptions::PLAIN);
        for length in [-1, 0, 48, i32::MIN] {
            bytes[8..12].copy_from_slice(&i32::to_be_bytes(length));
            assert_eq!(Batch::parse(&bytes).err(), Some(BatchError::Length { length }));
        }
        bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(matches!(Batch::parse(&bytes), Err(BatchError::Truncated { .. })));
        bytes[16] = 1;
        assert_eq!(Batch::parse(&bytes).err(), Some(BatchError::Magic { magic: 1 }));
    }
}
