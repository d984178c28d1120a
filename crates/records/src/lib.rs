//! Kafka's record batches (format v2, KIP-98) as bytes: build them, look into them, check what a client produced, and
//! stamp them with an offset where they lie.
//!
//! - [`BatchHeader`]: the 61 bytes in front of every batch, parsed and written; [`BatchHeader::stamp`] and [`stamp`]
//!   give a batch its offset, leader epoch and (if wanted) append time.
//! - [`Batch`]: a checked view of one batch in borrowed bytes; [`batches`] walks a record set; [`Batch::records`]
//!   decompresses if need be and iterates [`Record`]s without allocating per record.
//! - [`BatchBuilder`]: writes a batch.
//! - [`check_produced`]: what a produce request carries for one partition is validated once, and becomes a
//!   [`ProducedBatch`], which is what the log takes from clients.
//! - [`ControlRecord`]: transaction markers.
//! - [`stored`]: keys and values of the records that the server itself stores.
//! - [`Compression`]: gzip, snappy (Java's framing), lz4, zstd; decompression is bounded.
//!
//! **Invariant:** no input makes this crate panic, read past the bytes given, or produce more than
//! [`riparian_types::limits::DECOMPRESSED_BYTES_MAX`] bytes from compressed ones.
//!
//! It deliberately does not know files, offsets that other batches have, producers' histories, or what the records mean.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod batch;
mod builder;
mod compression;
mod control;
mod header;
mod produced;
mod record;
pub mod stored;

pub use batch::{Batch, BatchError, Batches, batches};
pub use builder::{BatchBuilder, BatchOptions, Producer};
pub use compression::{Compression, CompressionError};
pub use control::{ControlKind, ControlRecord, ControlRecordError};
pub use header::{BATCH_PREFIX_BYTES, BatchHeader, HEADER_BYTES, MAGIC, StampedTime, TimestampType, stamp};
pub use produced::{
    ProduceRules, ProducedBatch, ProducedError, RECORD_ERRORS_MAX, RecordError, RecordFault, check_produced,
};
pub use record::{Header, Headers, Record, RecordFormatError, RecordIter, Records};
