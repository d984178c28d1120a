//! Transaction markers: the one record of a control batch (KIP-98).
//!
//! ```text
//! key    version i16 = 0 | kind i16 (0 abort, 1 commit)
//! value  version i16 = 0 | coordinator epoch i32
//! ```

use riparian_types::{ProducerEpoch, ProducerId, Sequence, WallMillis};

use crate::{
    builder::{BatchBuilder, BatchOptions, Producer},
    record::Record,
};

/// What a control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlKind {
    /// The transaction was aborted.
    Abort,
    /// The transaction was committed.
    Commit,
    /// Something else, for example of the Raft protocol.
    Other(i16),
}

/// A control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRecord {
    /// What it says.
    pub kind: ControlKind,
    /// The epoch of the transaction coordinator that wrote it; -1 if the kind has none.
    pub coordinator_epoch: i32,
}

/// A record of a control batch that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("control record is malformed")]
pub struct ControlRecordError;

impl ControlRecord {
    /// Reads a record of a control batch.
    pub fn parse(record: &Record<'_>) -> Result<Self, ControlRecordError> {
        let key = record.key.ok_or(ControlRecordError)?;
        let kind = match i16_at(key, 2)? {
            0 => ControlKind::Abort,
            1 => ControlKind::Commit,
            other => return Ok(Self { kind: ControlKind::Other(other), coordinator_epoch: -1 }),
        };
        let value = record.value.ok_or(ControlRecordError)?;
        let epoch = value.get(2..6).and_then(|bytes| bytes.first_chunk()).ok_or(ControlRecordError)?;
        Ok(Self { kind, coordinator_epoch: i32::from_be_bytes(*epoch) })
    }

    /// The control batch that ends a transaction of this producer.
    pub fn end_transaction(
        id: ProducerId,
        epoch: ProducerEpoch,
        commit: bool,
        coordinator_epoch: i32,
        at: WallMillis,
    ) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer: Some(Producer { id, epoch, base_sequence: Sequence::NONE }),
            is_transactional: true,
            is_control: true,
            ..BatchOptions::PLAIN
        });
        let mut value = [0; 6];
        value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());
        builder.push(at, Some(&[0, 0, 0, u8::from(commit)]), Some(&value));
        builder.build()
    }
}

fn i16_at(bytes: &[u8], start: usize) -> Result<i16, ControlRecordError> {
    bytes
        .get(start..)
        .and_then(|bytes| bytes.first_chunk())
        .map(|bytes| i16::from_be_bytes(*bytes))
        .ok_or(ControlRecordError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    #[test]
    fn a_marker_reads_back() {
        for (commit, kind) in [(true, ControlKind::Commit), (false, ControlKind::Abort)] {
            let bytes = ControlRecord::end_transaction(ProducerId(4), ProducerEpoch(1), commit, 12, WallMillis(99));
            let batch = Batch::parse(&bytes).unwrap();
            assert!(batch.header().is_control() && batch.header().is_transactional());
            let records = batch.records().unwrap();
            let record = records.iter().next().unwrap().unwrap();
            assert_eq!(ControlRecord::parse(&record), Ok(ControlRecord { kind, coordinator_epoch: 12 }));
            assert_eq!(record.timestamp, WallMillis(99));
        }
    }
}
