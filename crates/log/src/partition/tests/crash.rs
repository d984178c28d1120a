//! Power cuts at random places, with whatever the disk happened to keep.

use riparian_types::Prng;

use super::*;
use crate::MemFaults;

/// What the test knows must be true.
struct Expected {
    /// Below, every batch must be there.
    acknowledged: i64,
    /// The batch at each base offset, as it was last appended there.
    batches: std::collections::BTreeMap<i64, Vec<u8>>,
    next_sequence: i32,
    epoch: i32,
    /// Where the log begins, at least and at most: a start that was not acknowledged may be lost.
    start: (i64, i64),
}

#[test]
fn whatever_a_power_cut_leaves_the_acknowledged_is_there() {
    // Seeds that once failed come first.
    for seed in [351, 643].into_iter().chain(0..200) {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut prng = Prng::new(seed);
    let config = LogConfig { segment_bytes: 1500, index_interval_bytes: 400, ..LogConfig::KAFKA };
    let mut fixture = Fixture::new(config);
    let mut expected =
        Expected { acknowledged: 0, batches: Default::default(), next_sequence: 0, epoch: 0, start: (0, 0) };
    for _ in 0..6 {
        live(&fixture, &mut expected, &mut prng);
        fixture.disk.set_faults(MemFaults::default());
        let clean = fixture.logs.take().map(|logs| prng.chance(3).then(|| logs.shutdown()));
        drop(clean);
        match prng.below(3) {
            0 => {}
            _ => fixture.disk.power_cut_at_random(&mut prng),
        }
        // The power may go again while the directory is opened.
        while prng.chance(2) {
            let syncs_max = fixture.disk.sync_count() + prng.below(8);
            fixture.disk.set_faults(MemFaults { syncs_max: Some(syncs_max), ..MemFaults::default() });
            let _ = fixture.try_open();
            fixture.logs = None;
            fixture.disk.set_faults(MemFaults::default());
            fixture.disk.power_cut_at_random(&mut prng);
        }
        fixture.try_open().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(fixture.report.offline.is_empty(), "seed {seed}: {:?}", fixture.report.offline);
        check(&fixture, &mut expected, seed);
    }
}

/// Appends and syncs at random, until a sync fails at a random place or enough was done.
fn live(fixture: &Fixture, expected: &mut Expected, prng: &mut Prng) {
    let log = fixture.log();
    let syncs_max = fixture.disk.sync_count() + prng.below(40);
    fixture.disk.set_faults(MemFaults { syncs_max: Some(syncs_max), ..MemFaults::default() });
    for _ in 0..prng.below(30) {
        let count = 1 + prng.below(8) as usize;
        let bytes = build(0, count, producer(3, 0, expected.next_sequence));
        expected.epoch += i32::from(prng.chance(4));
        let produced = check_produced(&bytes, &log.config().produce_rules(true), at(0).wall).unwrap();
        let Ok(appended) = log.append_produced(at(0), LeaderEpoch(expected.epoch), &produced) else { return };
        assert!(!appended.duplicate);
        expected.next_sequence += count as i32;
        expected.batches.split_off(&appended.base_offset.0);
        expected.batches.insert(appended.base_offset.0, bytes);
        if prng.chance(4) && log.sync().is_err() {
            return;
        }
        expected.acknowledged = log.durable_end().0;
        if prng.chance(12) {
            let before = expected.start.1 + prng.below((expected.acknowledged - expected.start.1) as u64 + 1) as i64;
            expected.start.1 = before;
            if fixture.logs().delete_records(&log, Offset(before)).is_err() {
                return;
            }
            expected.start.0 = before;
        }
        if prng.chance(20) && fixture.logs().write_checkpoints().is_err() {
            return;
        }
    }
}

fn check(fixture: &Fixture, expected: &mut Expected, seed: u64) {
    let log = fixture.log();
    let end = log.end_offset().0;
    assert!(end >= expected.acknowledged, "seed {seed}: end {end}, acknowledged {}", expected.acknowledged);
    assert_eq!(log.durable_end().0, end);
    let start = log.start_offset().0;
    assert!((expected.start.0..=expected.start.1).contains(&start), "seed {seed}: start {start}");
    expected.start = (start, start);
    let first = expected.batches.range(..=start).next_back().map_or(0, |(base, _)| *base);
    let (mut next, mut epochs) = (if start < end { first } else { end }, Vec::new());
    while next < end {
        let read = log.read(Offset(next.max(start)), Offset(end), 10_000, true).unwrap();
        for batch in batches(&read.bytes) {
            let batch = batch.unwrap();
            let before = &expected.batches[&next];
            assert_eq!(batch.header().base_offset.0, next, "seed {seed}");
            assert_eq!(batch.bytes()[16..], before[16..], "seed {seed}: another batch at offset {next}");
            next = batch.header().next_offset().0;
            epochs.push((batch.header().leader_epoch, batch.header().base_offset));
        }
    }
    assert_eq!(next, end, "seed {seed}");
    epochs.dedup_by_key(|(epoch, _)| *epoch);
    for (index, (epoch, _)) in epochs.iter().enumerate() {
        let ends = epochs.get(index + 1).map_or(Offset(end), |(_, start)| *start);
        assert_eq!(log.end_offset_for_epoch(*epoch), Some((*epoch, ends)), "seed {seed}");
    }
    // The producer goes on where the log ends: the state is that of the batches.
    expected.batches.split_off(&end);
    let last = expected.batches.last_key_value();
    expected.next_sequence = last.map_or(0, |(_, bytes)| {
        let again = produce(&log, 0, bytes).unwrap();
        assert!(again.duplicate, "seed {seed}");
        check_produced(bytes, &log.config().produce_rules(true), at(0).wall).unwrap().header().last_sequence().0 + 1
    });
    expected.acknowledged = end;
}
