//! Reading and looking up.

use std::{collections::VecDeque, thread};

use super::*;
use crate::ReadError;

fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 2000, index_interval_bytes: 500, ..LogConfig::KAFKA }
}

#[test]
fn any_offset_can_be_read_from_across_segments() {
    let mut fixture = Fixture::new(small_segments());
    fill(&fixture.log(), 50);
    for restart in [Fixture::kill, Fixture::restart, Fixture::power_cut] {
        let log = fixture.log();
        for from in (0..100).rev() {
            assert_eq!(offsets(&log, from), pairs(from, 100), "{from}");
        }
        assert_eq!(offsets(&log, 100), []);
        for outside in [-1, 101] {
            let error = log.read(Offset(outside), Offset(100), 100, true).unwrap_err();
            assert!(matches!(error, ReadError::OutOfRange { start: Offset(0), end: Offset(100), .. }));
        }
        restart(&mut fixture);
    }
}

#[test]
fn limits_of_a_read() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill(&log, 10);
    let one = batch(0, 2).len();
    let read = |bytes_max, at_least_one| {
        let read = log.read(Offset(4), Offset(12), bytes_max, at_least_one).unwrap();
        assert_eq!(read.bytes.len() % one, 0, "whole batches");
        (read.bytes.len() / one, read.next_offset.0, read.too_large)
    };
    assert_eq!(read(0, false), (0, 4, true));
    assert_eq!(read(one - 1, true), (1, 6, true));
    assert_eq!(read(one, false), (1, 6, false));
    assert_eq!(read(3 * one - 1, false), (2, 8, false));
    assert_eq!(read(usize::MAX, false), (4, 12, false));
    let read = log.read(Offset(12), Offset(12), 1000, true).unwrap();
    assert_eq!((read.bytes.len(), read.next_offset), (0, Offset(12)));
}

#[test]
fn large_batches_are_read_whole() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    for count in [1, 5000, 1, 9000, 1] {
        log.append_internal(at(0), EPOCH, &batch(0, count)).unwrap();
    }
    log.sync().unwrap();
    assert_eq!(offsets(&log, 0), [(0, 0), (1, 5000), (5001, 5001), (5002, 14_001), (14_002, 14_002)]);
    assert_eq!(offsets(&log, 14_001), [(5002, 14_001), (14_002, 14_002)]);
}

/// A log of some megabytes: batches of 20 to 119 records of 100 bytes.
fn fill_much(log: &PartitionLog) {
    for n in 0..600 {
        log.append_internal(at(n), EPOCH, &batch(n, 20 + (n as usize * 37) % 100)).unwrap();
    }
    log.sync().unwrap();
}

#[test]
fn many_readers_at_once_get_the_right_bytes_in_buffers_used_again() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 1 << 20, ..LogConfig::KAFKA });
    let log = fixture.log();
    fill_much(&log);
    let end = log.durable_end();
    thread::scope(|scope| {
        for reader in 0..6usize {
            let log = &log;
            scope.spawn(move || {
                let mut held = VecDeque::new();
                for _ in 0..5 {
                    let mut from = Offset::ZERO;
                    while from < end {
                        let read = log.read(from, end, 70_000 + 60_000 * reader, false).unwrap();
                        held.push_back((from, read.next_offset, read.bytes));
                        // Looked at later, when others have read into other buffers.
                        if held.len() > reader {
                            let (first, next, bytes) = held.pop_front().unwrap();
                            let mut expected = first;
                            for batch in batches(&bytes) {
                                let batch = batch.unwrap();
                                assert_eq!(batch.header().base_offset, expected);
                                expected = batch.header().next_offset();
                            }
                            assert_eq!(expected, next);
                        }
                        from = read.next_offset;
                    }
                }
            });
        }
    });
    assert!(log.buffers.kept_bytes() > 0, "buffers are given back");
    fixture.logs().release_idle_buffers();
    fixture.logs().release_idle_buffers();
    assert_eq!(log.buffers.kept_bytes(), 0, "nothing is kept while nobody reads");
}

#[test]
fn whoever_begins_to_read_gets_as_much_as_whoever_goes_on() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill_much(&log);
    let end = log.durable_end();
    let first = log.read(Offset(1234), end, 300_000, false).unwrap();
    let next = log.read(first.next_offset, end, 300_000, false).unwrap();
    for read in [first, next] {
        assert!((285_000..=300_000).contains(&read.bytes.len()), "{} bytes", read.bytes.len());
    }
}

#[test]
fn a_few_bytes_of_a_large_read_hold_no_large_buffer() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill_much(&log);
    // Almost nothing of what lies in the file may be seen.
    let read = log.read(Offset::ZERO, Offset(1), 1 << 20, false).unwrap();
    assert!(!read.bytes.is_empty());
    let kept_bytes = log.buffers.kept_bytes();
    assert!(kept_bytes >= 1 << 20, "the buffer is free again, {kept_bytes} bytes are kept");
}

#[test]
fn records_are_found_by_timestamp() {
    let mut fixture = Fixture::new(small_segments());
    let log = fixture.log();
    // Times go forth and back: batch n is made at 10 * n ms, every third one 25 ms earlier.
    let made_at = |n: i64| 10 * n - if n % 3 == 2 { 25 } else { 0 };
    for n in 0..40 {
        produce(&log, 0, &batch(made_at(n), 2)).unwrap();
    }
    log.sync().unwrap();
    for restart in [Fixture::kill, Fixture::restart] {
        let log = fixture.log();
        for ms in -30..400 {
            let expected = (0..40).find(|&n| made_at(n) >= ms);
            let found = log.offset_for_timestamp(at(ms).wall, log.durable_end()).unwrap();
            let found = found.map(|found| (found.offset.0, found.timestamp, found.leader_epoch));
            assert_eq!(found, expected.map(|n| (2 * n, at(made_at(n)).wall, EPOCH)), "{ms}");
        }
        let latest = log.max_timestamp().unwrap().unwrap();
        assert_eq!((latest.offset, latest.timestamp), (Offset(78), at(390).wall));
        assert_eq!(log.offset_for_timestamp(at(390).wall, Offset(78)).unwrap(), None);
        restart(&mut fixture);
    }
}

#[test]
fn leader_epochs_end_where_the_next_begins() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    for epoch in [1, 1, 4] {
        log.append_internal(at(0), LeaderEpoch(epoch), &batch(0, 2)).unwrap();
    }
    log.sync().unwrap();
    for restart in [Fixture::kill, Fixture::power_cut] {
        let log = fixture.log();
        let end_of = |epoch| log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|(e, o)| (e.0, o.0));
        assert_eq!([0, 1, 3, 4, 5].map(end_of), [Some((0, 0)), Some((1, 4)), Some((1, 4)), Some((4, 6)), None]);
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch(4)));
        restart(&mut fixture);
    }
    assert_eq!(fixture.bytes("leader-epoch-checkpoint"), b"0\n2\n1 0\n4 4\n");
}
