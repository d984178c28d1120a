//! Writing a batch.

use riparian_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, WallMillis};

use crate::{
    compression::Compression,
    header::{BATCH_PREFIX_BYTES, BatchHeader, CRC_COVERS_FROM, CRC_START, HEADER_BYTES, MAGIC},
    record::{Header, write_record},
};

/// The idempotent or transactional producer that a batch is written by (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Its id.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The sequence number of the batch's first record; [`Sequence::NONE`] for what a coordinator writes.
    pub base_sequence: Sequence,
}

/// What a batch is besides its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// The offset of the first record; the log gives the final one.
    pub base_offset: Offset,
    /// The leader's epoch; the log gives the final one.
    pub leader_epoch: LeaderEpoch,
    /// How the records are compressed.
    pub compression: Compression,
    /// Who writes, if it has an id.
    pub producer: Option<Producer>,
    /// Whether the batch is part of a transaction.
    pub is_transactional: bool,
    /// Whether the records are transaction markers and the like.
    pub is_control: bool,
}

impl BatchOptions {
    /// An uncompressed batch of data without a producer id, to be placed by the log.
    pub const PLAIN: Self = Self {
        base_offset: Offset::ZERO,
        leader_epoch: LeaderEpoch::NONE,
        compression: Compression::None,
        producer: None,
        is_transactional: false,
        is_control: false,
    };
}

/// Writes one batch, record by record.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// Room for the header, then records, not compressed.
    bytes: Vec<u8>,
    record_count: i32,
    base_timestamp: WallMillis,
    max_timestamp: WallMillis,
}

impl BatchBuilder {
    /// A batch without records yet.
    pub fn new(options: BatchOptions) -> Self {
        Self {
            options,
            bytes: vec![0; HEADER_BYTES],
            record_count: 0,
            base_timestamp: WallMillis(-1),
            max_timestamp: WallMillis(-1),
        }
    }

    /// Adds a record without headers, at the next offset.
    pub fn push(&mut self, timestamp: WallMillis, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.push_with_headers(timestamp, key, value, std::iter::empty());
    }

    /// Adds a record with headers, at the next offset.
    pub fn push_with_headers<'h>(
        &mut self,
        timestamp: WallMillis,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = Header<'h>> + Clone,
    ) {
        if self.record_count == 0 {
            self.base_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let timestamp_delta = timestamp.0.wrapping_sub(self.base_timestamp.0);
        write_record(&mut self.bytes, self.record_count, timestamp_delta, key, value, headers);
        self.record_count += 1;
    }

    /// How many records the batch has so far.
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Bytes the batch would have so far if it is not compressed.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of the batch.
    pub fn build(self) -> Vec<u8> {
        let Self { options, mut bytes, record_count, base_timestamp, max_timestamp } = self;
        if options.compression != Compression::None {
            let records = bytes.split_off(HEADER_BYTES);
            options.compression.compress(&records, &mut bytes);
        }
        let producer = options.producer.unwrap_or(Producer {
            id: ProducerId::NONE,
            epoch: ProducerEpoch::NONE,
            base_sequence: Sequence::NONE,
        });
        let header = BatchHeader {
            base_offset: options.base_offset,
            length: i32::try_from(bytes.len() - BATCH_PREFIX_BYTES).expect("a batch of ours is smaller than 2 GiB"),
            leader_epoch: options.leader_epoch,
            magic: MAGIC,
            crc: 0,
            attributes: BatchHeader::attributes_of(options.compression, options.is_transactional, options.is_control),
            last_offset_delta: record_count.max(1) - 1,
            base_timestamp,
            max_timestamp,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            base_sequence: producer.base_sequence,
            record_count,
        };
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let crc = crc32c::crc32c(&bytes[CRC_COVERS_FROM..]);
        bytes[CRC_START..CRC_COVERS_FROM].copy_from_slice(&crc.to_be_bytes());
        bytes
    }
}
