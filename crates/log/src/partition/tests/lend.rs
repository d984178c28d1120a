//! What may be sent from files is what reading gives.

use riparian_types::Prng;

use super::*;
use crate::partition::lend::LENT_BYTES_MIN;

/// A log of batches of any size, in segments of any size; whoever reads it reads so many bytes at a time.
struct Case {
    batch_records_max: u64,
    index_interval_bytes: u32,
    segment_bytes: u32,
    bytes_max: usize,
}

const CASES: [Case; 6] = [
    Case { batch_records_max: 1, index_interval_bytes: 4096, segment_bytes: 1 << 20, bytes_max: 50_000 },
    Case { batch_records_max: 20, index_interval_bytes: 4096, segment_bytes: 200_000, bytes_max: 100_000 },
    Case { batch_records_max: 300, index_interval_bytes: 4096, segment_bytes: 300_000, bytes_max: 70_000 },
    Case { batch_records_max: 40, index_interval_bytes: 0, segment_bytes: 90_000, bytes_max: 40_000 },
    Case { batch_records_max: 5, index_interval_bytes: 16_000, segment_bytes: 1 << 20, bytes_max: 1 << 20 },
    Case { batch_records_max: 100, index_interval_bytes: 100_000, segment_bytes: 1 << 20, bytes_max: 90_000 },
];

impl Case {
    fn config(&self) -> LogConfig {
        let Self { index_interval_bytes, segment_bytes, .. } = *self;
        LogConfig { index_interval_bytes, segment_bytes, ..LogConfig::KAFKA }
    }
}

/// Reads on from this offset to `upto`; counts how often it could have been sent from the file, and how often not.
fn read_through(log: &PartitionLog, mut from: Offset, upto: Offset, case: &Case) -> (usize, usize) {
    let (mut lent, mut read) = (0, 0);
    while from < upto {
        let stretch = log.stretch(from, upto, 1, case.bytes_max);
        let batches = log.read(from, upto, case.bytes_max, true).unwrap();
        match stretch {
            Some(stretch) => {
                assert!(stretch.end - stretch.begin <= case.bytes_max as u64);
                let found = (stretch.end - stretch.begin, stretch.next_offset);
                let expected = (batches.bytes.len() as u64, batches.next_offset);
                // With few entries in the index it may be less, but never another thing.
                if case.index_interval_bytes < 16_384 {
                    assert_eq!(found, expected, "from {from} to {upto}");
                } else {
                    assert!(found <= expected, "from {from} to {upto}: {found:?}, {expected:?}");
                    let begins = super::batches(&batches.bytes)
                        .any(|batch| batch.unwrap().header().next_offset() == stretch.next_offset);
                    assert!(begins, "a batch ends at {}", stretch.next_offset);
                }
                lent += 1;
            }
            None => read += 1,
        }
        from = batches.next_offset;
    }
    (lent, read)
}

#[test]
fn what_is_lent_is_what_reading_gives() {
    for (number, case) in CASES.iter().enumerate() {
        let mut fixture = Fixture::new(case.config());
        let mut rng = Prng::new(number as u64);
        let mut ends = vec![];
        for round in 0..3 {
            let log = fixture.log();
            for n in 0..300 {
                let count = 1 + rng.below(case.batch_records_max) as usize;
                log.append_internal(at(n), EPOCH, &batch(n, count)).unwrap();
                if rng.below(7) == 0 {
                    log.sync().unwrap();
                    ends.push(log.durable_end());
                    // At the end, which nobody has to look for.
                    read_through(&log, *ends.iter().rev().nth(1).unwrap_or(&Offset::ZERO), log.durable_end(), case);
                }
            }
            log.sync().unwrap();
            let (lent, read) = read_through(&log, Offset::ZERO, log.durable_end(), case);
            if case.index_interval_bytes < 16_384 {
                assert!(lent > 10 * read, "case {number}, round {round}: {lent} lent, {read} read");
            }
            for _ in 0..50 {
                let from = Offset(rng.below(log.durable_end().0 as u64) as i64);
                let upto = ends[rng.below(ends.len() as u64) as usize];
                read_through(&log, from, upto, case);
            }
            drop(log);
            [Fixture::kill, Fixture::restart, Fixture::power_cut][round](&mut fixture);
        }
    }
}

#[test]
fn little_is_read_and_nothing_is_lent_beyond_what_is_durable() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill(&log, 1000);
    let end = log.durable_end();
    log.append_internal(at(0), EPOCH, &batch(0, 1000)).unwrap();
    let all = log.stretch(Offset::ZERO, end, LENT_BYTES_MIN, 1 << 20).unwrap();
    assert_eq!((all.begin, all.next_offset), (0, end));
    assert_eq!(all.end, (batch(0, 2).len() * 1000) as u64);
    assert!(log.stretch(Offset::ZERO, end, LENT_BYTES_MIN, LENT_BYTES_MIN - 1).is_none());
    assert!(log.stretch(Offset::ZERO, end, all.end as usize + 1, 1 << 20).is_none());
    assert!(log.stretch(end, end, 1, 1 << 20).is_none());
    assert!(log.stretch(Offset(1), end, 1, 1 << 20).is_none(), "nobody knows where that is");
}

#[test]
fn damage_at_its_ends_keeps_a_stretch_from_being_lent() {
    // What no checksum covers: the base offset and the length, of a batch in the middle.
    for at_byte in [7, 8] {
        let fixture = Fixture::new(LogConfig::KAFKA);
        let log = fixture.log();
        fill(&log, 1000);
        let (end, one) = (log.durable_end(), batch(0, 2).len() as u64);
        let bytes_max = 500 * one as usize;
        assert_eq!(log.read(Offset::ZERO, end, bytes_max, true).unwrap().next_offset, Offset(1000));
        assert!(log.stretch(Offset(1000), end, 1, bytes_max).is_some());
        let path = Path::new(DIR).join("00000000000000000000.log");
        let damage = |position: u64| {
            let before = fixture.disk.read(&path, position + at_byte, 1).unwrap();
            fixture.disk.write_at(&path, position + at_byte, &[&[before[0] ^ 0x55]]).unwrap();
        };
        damage(499 * one);
        let before = log.stretch(Offset::ZERO, end, 1, bytes_max);
        assert!(before.is_none_or(|before| before.end <= 499 * one), "the last batch");
        damage(500 * one);
        assert!(log.stretch(Offset(1000), end, 1, bytes_max).is_none(), "the first batch");
    }
}
