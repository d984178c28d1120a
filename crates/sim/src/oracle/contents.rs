//! What producers were promised and readers saw.
//!
//! **Checked here:** an acknowledged record is read at the offset that was acknowledged, for ever; a record that was read
//! stays what it was; a producer's records are read in order, without a gap and not twice.

use std::collections::{BTreeMap, BTreeSet};

/// One partition of one topic.
#[derive(Debug, Default)]
struct Partition {
    /// By offset: what was acknowledged or read there.
    records: BTreeMap<i64, Record>,
    /// How many acknowledged records nobody has read yet.
    unread: u64,
}

#[derive(Debug)]
struct Record {
    value: String,
    was_read: bool,
}

/// All partitions.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    partitions: BTreeMap<(String, i32), Partition>,
    producer_ids: BTreeSet<i64>,
}

impl Contents {
    /// A producer is given this id, which nobody else may have.
    pub(crate) fn new_producer_id(&mut self, id: i64) -> Result<(), String> {
        if self.producer_ids.insert(id) { Ok(()) } else { Err(format!("producer id {id} is given twice")) }
    }

    /// A producer is told that this stands there.
    pub(crate) fn acknowledged(&mut self, topic: &str, index: i32, offset: i64, value: &str) -> Result<(), String> {
        let partition = self.partitions.entry((topic.to_owned(), index)).or_default();
        match partition.records.get(&offset) {
            Some(known) if known.value != value => Err(format!(
                "{value} is acknowledged at offset {offset} of {topic}-{index}, where {} stands",
                known.value
            )),
            Some(_) => Ok(()),
            None => {
                partition.records.insert(offset, Record { value: value.to_owned(), was_read: false });
                partition.unread += 1;
                Ok(())
            }
        }
    }

    /// A reader sees this.
    pub(crate) fn read(&mut self, topic: &str, index: i32, offset: i64, value: &str) -> Result<(), String> {
        let partition = self.partitions.entry((topic.to_owned(), index)).or_default();
        match partition.records.get_mut(&offset) {
            Some(known) if known.value != value => Err(format!(
                "offset {offset} of {topic}-{index} is read as {value}, but {} was {} there",
                known.value,
                if known.was_read { "read" } else { "acknowledged" }
            )),
            Some(known) => {
                if !std::mem::replace(&mut known.was_read, true) {
                    partition.unread -= 1;
                }
                Ok(())
            }
            None => {
                partition.records.insert(offset, Record { value: value.to_owned(), was_read: true });
                Ok(())
            }
        }
    }

    /// How many acknowledged records nobody has read.
    pub(crate) fn unread(&self) -> u64 {
        self.partitions.values().map(|partition| partition.unread).sum()
    }

    /// The offset after the last one that is known of a partition.
    pub(crate) fn end(&self, topic: &str, index: i32) -> i64 {
        let partition = self.partitions.get(&(topic.to_owned(), index));
        partition.and_then(|partition| partition.records.last_key_value()).map_or(0, |(offset, _)| offset + 1)
    }
}
