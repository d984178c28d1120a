//! The log that a shard keeps its records in, as the shard sees it.
//!
//! The shard does not know where the bytes go: a file of this server, the simulator's disk, or one day a topic in
//! somebody else's cluster.

use bytes::Bytes;
use riparian_types::{Now, Offset};

/// An append or a read of the log failed; the shard unloads and asks for the log to be opened again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct LogFailure {
    /// What failed, naming the file.
    pub reason: String,
}

/// An append-only log of record batches in Kafka's format.
pub trait RecordLog: Send {
    /// Appends one batch, written with base offset 0, and returns the offset that its first record got.
    ///
    /// The batch is visible to this shard at once and durable when [`RecordLog::durable_end`] has passed it.
    ///
    /// # Errors
    /// Nothing was appended, or it is unknown whether something was: the shard must not go on.
    fn append(&mut self, now: Now, batch: &[u8]) -> Result<Offset, LogFailure>;

    /// The offset after the last appended record.
    fn end_offset(&self) -> Offset;

    /// The offset up to which everything survives a crash.
    fn durable_end(&self) -> Offset;

    /// The offset of the oldest record.
    fn start_offset(&self) -> Offset;

    /// Whole batches from the one that holds `from` on, about `bytes_max` of them; empty at the end of the log.
    ///
    /// # Errors
    /// The bytes can't be read.
    fn read(&self, from: Offset, bytes_max: usize) -> Result<Bytes, LogFailure>;

    /// Opens the log anew after a failure; what was appended but not durable may be gone.
    ///
    /// # Errors
    /// It can't be opened now; to be tried again later.
    fn reopen(&mut self, now: Now) -> Result<(), LogFailure>;
}
