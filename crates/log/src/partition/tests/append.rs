//! Appending, producers, durability.

use super::*;
use crate::{MemFaults, ProducerError, Unavailable};

#[test]
fn offsets_follow_each_other_and_nothing_is_seen_before_it_is_durable() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    assert!(fixture.disk.list(Path::new(DIR)).is_err(), "no directory before the first append");
    let first = produce(&log, 0, &batch(0, 2)).unwrap();
    let second = produce(&log, 1, &batch(1, 3)).unwrap();
    assert_eq!((first.base_offset, first.last_offset), (Offset(0), Offset(1)));
    assert_eq!((second.base_offset, second.last_offset), (Offset(2), Offset(4)));
    assert_eq!((log.start_offset(), log.durable_end(), log.end_offset()), (Offset(0), Offset(0), Offset(5)));
    assert_eq!(offsets(&log, 0), []);
    assert_eq!(log.sync().unwrap(), Offset(5));
    assert_eq!(offsets(&log, 0), [(0, 1), (2, 4)]);
    assert_eq!(offsets(&log, 3), [(2, 4)]);
    assert!(log.take_sync().is_none());
}

#[test]
fn one_sync_serves_all_who_appended_before_it() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill(&log, 1);
    let before = fixture.disk.sync_count();
    for n in 0..100 {
        produce(&log, n, &batch(n, 1)).unwrap();
    }
    let ticket = log.take_sync().unwrap();
    assert!(log.take_sync().is_none(), "somebody else has the ticket");
    produce(&log, 100, &batch(100, 1)).unwrap();
    let result = ticket.run();
    assert_eq!(log.finish_sync(ticket, result).unwrap(), Offset(102));
    assert_eq!(fixture.disk.sync_count(), before + 1);
    let ticket = log.take_sync().unwrap();
    drop(ticket);
    assert_eq!(log.sync().unwrap(), Offset(103));
}

#[test]
fn internal_batches_are_appended_together() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 500, ..LogConfig::KAFKA });
    let log = fixture.log();
    let bytes = [batch(0, 2), batch(0, 20), batch(0, 1)].concat();
    let appended = log.append_internal(at(0), EPOCH, &bytes).unwrap();
    assert_eq!((appended.base_offset, appended.last_offset), (Offset(0), Offset(22)));
    log.sync().unwrap();
    assert_eq!(offsets(&log, 0), [(0, 1), (2, 21), (22, 22)]);
    let too_large = produce(&log, 0, &batch(0, 20));
    assert!(matches!(too_large, Err(AppendError::LargerThanSegment { segment_bytes: 500, .. })));
}

#[test]
fn a_duplicate_is_answered_with_its_first_offset() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    for n in 0..8 {
        produce(&log, 0, &build(0, 2, producer(9, 0, 2 * n))).unwrap();
    }
    log.sync().unwrap();
    let end = log.end_offset();
    for restart in [Fixture::kill, Fixture::power_cut, Fixture::restart] {
        let log = fixture.log();
        let again = produce(&log, 0, &build(0, 2, producer(9, 0, 14))).unwrap();
        assert!(again.duplicate);
        assert_eq!((again.base_offset, again.last_offset), (Offset(14), Offset(15)));
        let gap = produce(&log, 0, &build(0, 2, producer(9, 0, 18)));
        assert!(matches!(gap, Err(AppendError::Producer(ProducerError::OutOfOrder { .. }))));
        let old = produce(&log, 0, &build(0, 2, producer(9, 0, 2)));
        assert!(matches!(old, Err(AppendError::Producer(ProducerError::OutOfOrder { .. }))));
        assert_eq!(log.end_offset(), end);
        restart(&mut fixture);
    }
    let log = fixture.log();
    produce(&log, 0, &build(0, 1, producer(9, 1, 0))).unwrap();
    let fenced = produce(&log, 0, &build(0, 2, producer(9, 0, 16)));
    assert!(matches!(fenced, Err(AppendError::Producer(ProducerError::Fenced { .. }))));
}

#[test]
fn all_five_batches_are_remembered_after_a_crash() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    for n in 0..8 {
        produce(&log, 0, &build(0, 2, producer(9, 0, 2 * n))).unwrap();
    }
    log.sync().unwrap();
    fixture.power_cut();
    let log = fixture.log();
    for n in 3..8 {
        let again = produce(&log, 0, &build(0, 2, producer(9, 0, 2 * n))).unwrap();
        assert_eq!((again.duplicate, again.base_offset.0), (true, i64::from(2 * n)));
    }
}

#[test]
fn a_failed_sync_closes_the_log_until_it_is_opened_again() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill(&log, 2);
    produce(&log, 2, &batch(2, 2)).unwrap();
    fixture.disk.set_faults(MemFaults { sync_fails: true, ..MemFaults::default() });
    log.sync().unwrap_err();
    fixture.disk.set_faults(MemFaults::default());
    assert_eq!(log.durable_end(), Offset(4));
    assert!(log.take_sync().is_none());
    let error = produce(&log, 3, &batch(3, 2)).unwrap_err();
    assert!(matches!(error, AppendError::Unavailable(Unavailable::SyncFailed)));
    assert!(log.read(Offset(0), Offset(4), 100, true).is_err());
    fixture.power_cut();
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 4));
}

#[test]
fn a_failed_log_is_opened_again_without_what_was_not_durable() {
    let mut fixture = Fixture::new(LogConfig { segment_bytes: 700, ..LogConfig::KAFKA });
    let reopen =
        |fixture: &Fixture| fixture.logs().reopen(&TopicName::from("t"), TOPIC_ID, PartitionIndex(0), at(0).wall);
    let fail_sync = |fixture: &Fixture, log: &PartitionLog| {
        fixture.disk.set_faults(MemFaults { sync_fails: true, ..MemFaults::default() });
        log.sync().unwrap_err();
        fixture.disk.set_faults(MemFaults::default());
    };
    let log = fixture.log();
    produce(&log, 0, &build(0, 2, producer(9, 0, 0))).unwrap();
    fail_sync(&fixture, &log);
    let log = reopen(&fixture).unwrap();
    assert_eq!(log.end_offset(), Offset(0), "nothing was ever durable");
    fill(&log, 3);
    for n in 0..5 {
        produce(&log, 0, &build(0, 2, producer(9, 0, 2 * n))).unwrap();
    }
    fail_sync(&fixture, &log);
    let log = reopen(&fixture).unwrap();
    assert_eq!((log.end_offset(), offsets(&log, 0)), (Offset(6), pairs(0, 6)));
    assert!(!produce(&log, 0, &build(0, 2, producer(9, 0, 0))).unwrap().duplicate, "the producer starts anew");
    log.sync().unwrap();
    fixture.power_cut();
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 8));
}

#[test]
fn batches_behind_one_that_was_lost_wait_for_it() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let reopen = || fixture.logs().reopen(&TopicName::from("t"), TOPIC_ID, PartitionIndex(0), at(0).wall).unwrap();
    let send = |log: &PartitionLog, id, sequence| produce(log, 0, &build(0, 2, producer(id, 0, sequence)));
    let refused = |result: Result<Appended, AppendError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, AppendError::Producer(ProducerError::OutOfOrder { .. })), "{error:?}");
    };
    let log = fixture.log();
    send(&log, 1, 0).unwrap();
    log.sync().unwrap();
    // Producer 1 is known, 2 is new and pipelines, 3 comes while the log is closed, 4 is new and has a full disk.
    send(&log, 1, 2).unwrap();
    send(&log, 2, 0).unwrap();
    send(&log, 2, 2).unwrap();
    fixture.disk.set_faults(MemFaults { sync_fails: true, ..MemFaults::default() });
    log.sync().unwrap_err();
    fixture.disk.set_faults(MemFaults::default());
    send(&log, 3, 0).unwrap_err();
    let log = reopen();
    assert_eq!(log.end_offset(), Offset(2));
    fixture.disk.set_faults(MemFaults { capacity_bytes: Some(0), ..MemFaults::default() });
    send(&log, 4, 0).unwrap_err();
    fixture.disk.set_faults(MemFaults::default());
    for (id, later) in [(1, 4), (2, 4), (2, 2), (3, 2), (4, 2)] {
        refused(send(&log, id, later));
    }
    // A second failure forgets nothing.
    send(&log, 1, 2).unwrap();
    fixture.disk.set_faults(MemFaults { sync_fails: true, ..MemFaults::default() });
    log.sync().unwrap_err();
    fixture.disk.set_faults(MemFaults::default());
    let log = reopen();
    for (id, later) in [(1, 4), (2, 4), (2, 2), (3, 2), (4, 2)] {
        refused(send(&log, id, later));
    }
    for (id, first) in [(1, 2), (2, 0), (3, 0), (4, 0)] {
        send(&log, id, first).unwrap();
        send(&log, id, first + 2).unwrap();
    }
    log.sync().unwrap();
    assert_eq!(log.end_offset(), Offset(18));
}

#[test]
fn a_log_is_not_opened_again_while_it_is_synced() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let reopen = || fixture.logs().reopen(&TopicName::from("t"), TOPIC_ID, PartitionIndex(0), at(0).wall);
    let log = fixture.log();
    produce(&log, 0, &batch(0, 2)).unwrap();
    let ticket = log.take_sync().unwrap();
    fixture.disk.set_faults(MemFaults { capacity_bytes: Some(0), truncate_fails: true, ..MemFaults::default() });
    produce(&log, 1, &batch(1, 2)).unwrap_err();
    fixture.disk.set_faults(MemFaults::default());
    assert!(matches!(reopen(), Err(OpenError::SyncRunning { .. })));
    let result = ticket.run();
    assert_eq!(log.finish_sync(ticket, result).unwrap(), Offset(2));
    assert_eq!(offsets(&reopen().unwrap(), 0), pairs(0, 2));
}

#[test]
fn a_full_disk_leaves_the_log_as_it_was() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill(&log, 2);
    let before = fixture.bytes("00000000000000000000.log");
    fixture.disk.set_faults(MemFaults { capacity_bytes: Some(0), ..MemFaults::default() });
    for _ in 0..3 {
        let error = produce(&log, 2, &build(2, 2, producer(9, 0, 0))).unwrap_err();
        assert!(matches!(error, AppendError::Disk(error) if error.is_storage_full()));
    }
    assert_eq!((log.end_offset(), log.durable_end()), (Offset(4), Offset(4)));
    assert_eq!(fixture.bytes("00000000000000000000.log"), before);
    fixture.disk.set_faults(MemFaults::default());
    assert!(!produce(&log, 2, &build(2, 2, producer(9, 0, 0))).unwrap().duplicate);
    log.sync().unwrap();
    assert_eq!(offsets(&log, 0), pairs(0, 6));
}

#[test]
fn a_write_that_cannot_be_undone_closes_the_log() {
    let fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill(&log, 1);
    fixture.disk.set_faults(MemFaults { capacity_bytes: Some(0), truncate_fails: true, ..MemFaults::default() });
    produce(&log, 1, &batch(1, 1)).unwrap_err();
    assert_eq!(log.unavailable(), Some(Unavailable::WriteFailed));
}

#[test]
fn append_time_is_stamped() {
    let fixture =
        Fixture::new(LogConfig { timestamp_type: riparian_records::TimestampType::LogAppendTime, ..LogConfig::KAFKA });
    let log = fixture.log();
    let appended = produce(&log, 77, &build(5, 2, producer(9, 0, 0))).unwrap();
    assert_eq!(appended.log_append_time, Some(at(77).wall));
    let again = produce(&log, 99, &build(5, 2, producer(9, 0, 0))).unwrap();
    assert_eq!((again.duplicate, again.log_append_time), (true, Some(at(77).wall)));
    log.sync().unwrap();
    assert_eq!(offsets(&log, 0), [(0, 1)], "with the right CRC");
}

#[test]
fn os_mode_counts_everything_as_durable() {
    let mut fixture = Fixture::new(LogConfig { segment_bytes: 600, ..LogConfig::KAFKA });
    fixture.flush = FlushMode::Os;
    fixture.open();
    let log = fixture.log();
    produce(&log, 0, &batch(0, 2)).unwrap();
    assert_eq!(log.durable_end(), Offset(2));
    assert!(log.take_sync().is_none());
    for n in 0..4 {
        produce(&log, n, &batch(n, 2)).unwrap();
    }
    log.sync().unwrap();
    assert_eq!(offsets(&log, 0), pairs(0, 10));
    fixture.restart();
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 10));
}

#[test]
fn os_mode_opens_after_a_power_cut() {
    let mut fixture = Fixture::new(LogConfig { segment_bytes: 600, ..LogConfig::KAFKA });
    fixture.flush = FlushMode::Os;
    fixture.open();
    let log = fixture.log();
    fill(&log, 4);
    produce(&log, 4, &batch(4, 2)).unwrap();
    fixture.logs().write_checkpoints().unwrap();
    fixture.power_cut();
    let end = fixture.log().end_offset().0;
    assert!(end >= 4, "the closed segment was synced, {end}");
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, end));
}
