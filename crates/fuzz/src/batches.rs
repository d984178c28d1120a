//! Record batches as a client sends them, and what is done with those that are good.
//!
//! ```text
//! 0 | rules u8, bytes                            a record set as it is
//! 1 | rules u8, header, bytes                    a batch whose length, magic and CRC are made right
//! 2 | rules u8, header, bytes                    the same, and the bytes are compressed with the header's codec
//! 3 | rules u8, codec u8, producer, records      a batch that is written by the builder
//! 4 | codec u8, bytes                            bytes to be decompressed, and to be compressed
//! ```

use riparian_records::{
    BATCH_PREFIX_BYTES, Batch, BatchBuilder, BatchHeader, BatchOptions, Compression, CompressionError, ControlRecord,
    HEADER_BYTES, Header, MAGIC, ProduceRules, ProducedError, Producer, TimestampType, batches, check_produced, stamp,
};
use riparian_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, WallMillis};

use crate::{input::Input, memory};

const NOW: WallMillis = WallMillis(1_700_000_000_000);
/// What the tests of decompression allow.
const DECOMPRESSED_BYTES_MAX: usize = 100_000;
/// Codecs take tables and buffers of their own, whatever they are given.
const CODEC_BYTES_MAX: usize = 10 * 1024 * 1024;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.u8() % 5 {
        0 => {
            let rules = rules(&mut input);
            check(input.rest(), &rules);
        }
        kind @ (1 | 2) => {
            let rules = rules(&mut input);
            let bytes = corrected(&mut input, kind == 2);
            check(&bytes, &rules);
        }
        3 => {
            let rules = rules(&mut input);
            built(&mut input, &rules);
        }
        _ => codec(&mut input),
    }
}

fn rules(input: &mut Input<'_>) -> ProduceRules {
    let bits = input.u8();
    let has = |bit: u8| bits >> bit & 1 == 1;
    ProduceRules {
        batch_bytes_max: if has(0) { 200 } else { 1024 * 1024 },
        key_required: has(1),
        timestamp_type: if has(2) { TimestampType::LogAppendTime } else { TimestampType::CreateTime },
        timestamp_before_max_ms: if has(3) { 1000 } else { i64::MAX },
        timestamp_after_max_ms: if has(4) { 1000 } else { 3_600_000 },
        zstd_allowed: !has(5),
    }
}

/// A batch of the input's bytes with what a changed byte makes wrong put right, so that what lies behind is looked at.
fn corrected(input: &mut Input<'_>, compress: bool) -> Vec<u8> {
    let mut header_bytes = [0; HEADER_BYTES];
    let taken = input.take(HEADER_BYTES);
    header_bytes[..taken.len()].copy_from_slice(taken);
    let mut header = BatchHeader::parse(&header_bytes).expect("the array has a header's length");
    let mut body = input.rest().to_vec();
    if compress && let Ok(compression) = header.compression() {
        let plain = std::mem::take(&mut body);
        compression.compress(&plain, &mut body);
    }
    header.magic = MAGIC;
    header.length = i32::try_from(HEADER_BYTES - BATCH_PREFIX_BYTES + body.len()).expect("inputs are small");
    header.crc = crc32c::crc32c_append(crc32c::crc32c(&header.to_bytes()[21..]), &body);
    [&header.to_bytes()[..], &body].concat()
}

fn check(bytes: &[u8], rules: &ProduceRules) {
    record_set(bytes);
    let Ok(produced) = check_produced(bytes, rules, NOW) else { return };
    let header = *produced.header();
    assert_eq!(produced.bytes(), bytes);
    assert!(bytes.len() <= rules.batch_bytes_max);
    assert!(header.base_offset == Offset::ZERO && !header.is_control() && header.record_count > 0);
    let records = produced.batch().records().expect("they were read before");
    let records: Vec<_> = records.iter().map(|record| record.expect("they were read before")).collect();
    assert_eq!(i32::try_from(records.len()), Ok(header.record_count));
    assert!(records.iter().zip(0..).all(|(record, offset)| record.offset == Offset(offset)));
    assert!(!rules.key_required || records.iter().all(|record| record.key.is_some()));
    if rules.timestamp_type == TimestampType::CreateTime {
        let largest = records.iter().map(|record| record.timestamp).max();
        assert_eq!(largest.map(|largest| largest.max(WallMillis(-1))), Some(produced.max_timestamp()));
    }
    stamped(bytes, &produced, records.len());
}

/// Iterates everything there is, good or not.
fn record_set(bytes: &[u8]) {
    for batch in batches(bytes).unverified().flatten() {
        records_of(&batch);
    }
    let mut end = 0;
    for batch in batches(bytes).tolerate_truncated().flatten() {
        assert_eq!(bytes[end..end + batch.bytes().len()], *batch.bytes());
        end += batch.bytes().len();
    }
}

fn records_of(batch: &Batch<'_>) {
    let Ok(records) = batch.records() else { return };
    for record in records.iter() {
        let Ok(record) = record else { return };
        assert_eq!(record.headers.count(), record.headers.len());
        let _ = ControlRecord::parse(&record);
    }
}

/// The batch as the log stores it.
fn stamped(bytes: &[u8], produced: &riparian_records::ProducedBatch<'_>, count: usize) {
    let mut header = *produced.header();
    header.stamp(produced.batch().body(), Offset(42), LeaderEpoch(7), produced.stamped_time());
    let stored = [&header.to_bytes()[..], produced.batch().body()].concat();
    let batch = Batch::parse(&stored).expect("the CRC is that of the stamped batch");
    assert_eq!((batch.header().base_offset, batch.header().leader_epoch), (Offset(42), LeaderEpoch(7)));
    assert_eq!(batch.header().max_timestamp, produced.max_timestamp());
    let last = batch.records().expect("it is the same body").iter().last().map(|record| record.map(|it| it.offset));
    assert_eq!(last, Some(Ok(Offset(41 + count as i64))));
    assert_eq!(batch.header().next_offset(), Offset(42 + count as i64));
    let mut in_place = bytes.to_vec();
    stamp(&mut in_place, Offset(42), LeaderEpoch(7), produced.log_append_time());
    if produced.log_append_time().is_some() {
        assert_eq!(in_place, stored);
    }
}

/// What the builder writes passes the check, unless it breaks the rules.
fn built(input: &mut Input<'_>, rules: &ProduceRules) {
    let compression = input.pick(&Compression::ALL);
    let producer = input.bool().then(|| Producer {
        id: ProducerId(input.number()),
        epoch: ProducerEpoch(input.u16() as i16),
        base_sequence: Sequence(input.number_i32()),
    });
    let options = BatchOptions { compression, producer, ..BatchOptions::PLAIN };
    let mut builder = BatchBuilder::new(options);
    let mut expected = Vec::new();
    while !input.is_empty() && expected.len() < 64 {
        let at = if input.bool() { WallMillis(input.number()) } else { WallMillis(NOW.0 + i64::from(input.u8())) };
        let (key, value) = (field(input), field(input));
        let headers: Vec<_> = (0..input.below(3)).map(|_| (input.take(3), field(input))).collect();
        let iter = headers.iter().map(|(key, value)| Header { key, value: *value });
        builder.push_with_headers(at, key, value, iter);
        expected.push((at, key, value, headers));
    }
    let bytes = builder.build();
    let batch = Batch::parse(&bytes).expect("it was built right");
    let records = batch.records().expect("it was built right");
    for (index, (record, (at, key, value, headers))) in records.iter().zip(&expected).enumerate() {
        let record = record.expect("it was built right");
        assert_eq!((record.offset.0, record.timestamp, record.key, record.value), (index as i64, *at, *key, *value));
        assert!(record.headers.map(|header| (header.key, header.value)).eq(headers.iter().copied()));
    }
    match check_produced(&bytes, rules, NOW) {
        Ok(_)
        | Err(
            ProducedError::TooLarge { .. }
            | ProducedError::UnsupportedCompression { .. }
            | ProducedError::Count { .. }
            | ProducedError::Sequence { .. }
            | ProducedError::Records(_),
        ) => {}
        Err(error) => panic!("a batch that was built right is refused: {error}"),
    }
    check(&bytes, rules);
}

fn field<'a>(input: &mut Input<'a>) -> Option<&'a [u8]> {
    match input.u8() {
        255 => None,
        length => Some(input.take(usize::from(length % 64))),
    }
}

fn codec(input: &mut Input<'_>) {
    let compression = input.pick(&Compression::ALL);
    let bytes = input.rest();
    let mut result = Err(CompressionError::Damaged(compression));
    let peak = memory::peak_of(|| result = compression.decompress(bytes, DECOMPRESSED_BYTES_MAX));
    assert!(peak <= CODEC_BYTES_MAX, "{compression:?}: {peak} bytes of memory");
    if let Ok(plain) = result {
        assert!(plain.len() <= DECOMPRESSED_BYTES_MAX);
    }
    let mut packed = Vec::new();
    compression.compress(bytes, &mut packed);
    assert_eq!(compression.decompress(&packed, bytes.len()).as_deref(), Ok(bytes));
    if let Some(too_few) = bytes.len().checked_sub(1) {
        assert!(compression.decompress(&packed, too_few).is_err(), "{compression:?} made more than was allowed");
    }
}
