//! A partition's log as a shard's log.

use std::sync::Arc;

use bytes::Bytes;
use riparian_coordinator::{LogFailure, RecordLog};
use riparian_log::{Logs, ReadError};
use riparian_records::batches;
use riparian_types::{Now, Offset};

use crate::{partition::Partition, telemetry::Telemetry};

/// The [`RecordLog`] of a shard.
pub(crate) struct PartitionRecordLog {
    partition: Arc<Partition>,
    logs: Arc<Logs>,
    telemetry: Arc<Telemetry>,
}

impl PartitionRecordLog {
    pub(crate) const fn new(partition: Arc<Partition>, logs: Arc<Logs>, telemetry: Arc<Telemetry>) -> Self {
        Self { partition, logs, telemetry }
    }
}

fn failure(error: impl std::fmt::Display) -> LogFailure {
    LogFailure { reason: error.to_string() }
}

impl RecordLog for PartitionRecordLog {
    fn append(&mut self, now: Now, batch: &[u8]) -> Result<Offset, LogFailure> {
        let appended =
            self.partition.log().append_internal(now, self.partition.leader_epoch(), batch).map_err(failure)?;
        self.telemetry.logs(self.partition.owner.into()).appended(&appended, batch.len());
        Ok(appended.base_offset)
    }

    fn end_offset(&self) -> Offset {
        self.partition.log().end_offset()
    }

    fn durable_end(&self) -> Offset {
        self.partition.log().durable_end()
    }

    fn start_offset(&self) -> Offset {
        self.partition.log().start_offset()
    }

    fn read(&self, from: Offset, bytes_max: usize) -> Result<Bytes, LogFailure> {
        let log = self.partition.log();
        // A shard without some of its records would be another one, and nothing is to be written behind them.
        let damaged = |reason: String| {
            log.take_offline(reason.clone());
            LogFailure { reason }
        };
        let read = log.read(from, log.end_offset(), bytes_max, true).map_err(|error| match error {
            ReadError::Damaged { .. } => damaged(error.to_string()),
            other => failure(other),
        })?;
        let mut next_offset = from;
        for batch in batches(&read.bytes) {
            let batch = batch.map_err(|error| {
                damaged(format!("{}-{}: the batch at offset {next_offset}: {error}", log.topic(), log.partition()))
            })?;
            next_offset = batch.header().next_offset();
        }
        Ok(read.bytes)
    }

    fn reopen(&mut self, now: Now) -> Result<(), LogFailure> {
        let partition = &self.partition;
        let log = self.logs.reopen(&partition.topic, partition.topic_id, partition.index, now.wall).map_err(failure)?;
        self.partition.replace_log(log, now);
        Ok(())
    }
}
