//! A decision's records as one batch of the log, and a log's batches as records.

use riparian_records::{BatchBuilder, BatchOptions, batches};
use riparian_types::{Offset, WallMillis, machine::RecordContext};

use crate::codec::KeyValue;

/// One uncompressed batch with base offset 0.
pub(crate) fn build(timestamp: WallMillis, records: impl Iterator<Item = KeyValue>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    for record in records {
        builder.push(timestamp, record.key.as_deref(), record.value.as_deref());
    }
    builder.build()
}

/// Calls `each` for every record of these whole batches, control batches left out.
pub(crate) fn for_each_record(
    bytes: &[u8],
    mut each: impl FnMut(RecordContext, Option<&[u8]>, Option<&[u8]>),
) -> Result<(), String> {
    for batch in batches(bytes) {
        let batch = batch.map_err(|error| error.to_string())?;
        let header = *batch.header();
        if header.is_control() {
            continue;
        }
        let producer = header.has_producer_id().then_some((header.producer_id, header.producer_epoch));
        let records = batch.records().map_err(|error| error.to_string())?;
        for record in records.iter() {
            let record = record.map_err(|error| format!("batch at offset {}: {error}", header.base_offset))?;
            let context = RecordContext { offset: record.offset, timestamp: record.timestamp, producer };
            each(context, record.key, record.value);
        }
    }
    Ok(())
}

/// The offset after the last of these whole batches.
pub(crate) fn end_of(bytes: &[u8]) -> Option<Offset> {
    batches(bytes).unverified().filter_map(Result::ok).last().map(|batch| batch.header().next_offset())
}
