//! What survives which end.

use super::*;
use crate::Unavailable;

const LOG: &str = "/data/t-0/00000000000000000000.log";

#[test]
fn what_was_not_synced_is_gone_after_a_power_cut() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    produce(&log, 0, &batch(0, 2)).unwrap();
    fixture.power_cut();
    assert_eq!(fixture.log().end_offset(), Offset(0));
    fill(&fixture.log(), 3);
    produce(&fixture.log(), 3, &batch(3, 2)).unwrap();
    fixture.power_cut();
    assert_eq!(fixture.log().end_offset(), Offset(6));
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 6));
}

#[test]
fn what_was_written_survives_a_kill_and_is_durable_then() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    fill(&fixture.log(), 1);
    produce(&fixture.log(), 1, &batch(1, 2)).unwrap();
    fixture.kill();
    assert_eq!(fixture.log().durable_end(), Offset(4));
    fixture.power_cut();
    assert_eq!(fixture.log().durable_end(), Offset(4));
}

#[test]
fn a_log_that_lost_its_metadata_is_put_aside_if_it_has_batches() {
    let metadata = Path::new("/data/t-0/partition.metadata");
    for has_batches in [true, false] {
        let mut fixture = Fixture::new(LogConfig::KAFKA);
        fill(&fixture.log(), 1);
        fixture.disk.tamper(metadata, |bytes| bytes[9] ^= 1).unwrap();
        if !has_batches {
            fixture.disk.tamper(Path::new(LOG), |bytes| bytes[70] ^= 1).unwrap();
        }
        fixture.kill();
        assert_eq!(fixture.logs().topics(), []);
        let report = &fixture.report;
        assert_eq!((report.put_aside.len(), report.removed.len()), if has_batches { (1, 0) } else { (0, 1) });
        for dir in &report.put_aside {
            let log = fixture.disk.read_file(&dir.join("00000000000000000000.log")).unwrap().unwrap();
            assert_eq!(batches(&log).filter(Result::is_ok).count(), 1);
        }
        fill(&fixture.log(), 2);
        fixture.power_cut();
        assert_eq!(offsets(&fixture.log(), 0), pairs(0, 4));
    }
}

#[test]
fn records_deleted_before_anything_was_synced_keep_no_server_from_starting() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    fixture.flush = FlushMode::Os;
    fixture.kill();
    produce(&fixture.log(), 0, &batch(0, 2)).unwrap();
    fixture.logs().delete_records(&fixture.log(), Offset(1)).unwrap();
    fixture.disk.sync_dir(Path::new("/data")).unwrap();
    fixture.power_cut();
    assert_eq!(fixture.log().end_offset(), Offset(0));
}

#[test]
fn a_log_that_was_opened_without_its_first_segments_is_opened_again() {
    // An orderly end's snapshot is all that is left to say that something was durable; it goes when the log is opened.
    for is_orderly in [false, true] {
        let size = batch(0, 2).len() as u32;
        let mut fixture = Fixture::new(LogConfig { segment_bytes: 6 * size, ..LogConfig::KAFKA });
        fill(&fixture.log(), 11);
        fixture.logs().delete_records(&fixture.log(), Offset(12)).unwrap();
        fixture.logs().shutdown().unwrap();
        let lose = |path: &str| fixture.disk.remove_file(&Path::new(ROOT).join(path)).unwrap();
        lose("t-0/00000000000000000012.snapshot");
        assert!(fixture.files().contains(&"00000000000000000022.snapshot".to_owned()));
        if !is_orderly {
            lose(".kafka_cleanshutdown");
        }
        fixture.kill();
        for checkpoint in ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"] {
            fixture.disk.remove_file(&Path::new(ROOT).join(checkpoint)).unwrap();
        }
        fixture.kill();
        assert!(fixture.report.put_aside.is_empty(), "{:?}", fixture.report);
        assert_eq!(offsets(&fixture.log(), 12), pairs(12, 22));
    }
}

#[test]
fn a_good_batch_behind_missing_offsets_is_kept() {
    let size = batch(0, 2).len();
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    fill(&fixture.log(), 2);
    fixture.disk.tamper(Path::new(LOG), |bytes| drop(bytes.drain(..size))).unwrap();
    fixture.kill();
    let cut = fixture.report.partitions[0].cut.as_ref().unwrap();
    assert_eq!((cut.position, cut.end_offset, cut.batches_follow), (0, Offset(0), true));
    assert_eq!(cut.kept.len(), 1);
}

#[test]
fn a_log_that_was_killed_before_its_first_sync_becomes_durable() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    produce(&fixture.log(), 0, &batch(0, 2)).unwrap();
    fixture.disk.tamper(Path::new(LOG), Vec::clear).unwrap();
    fixture.kill();
    fill(&fixture.log(), 1);
    fixture.power_cut();
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 2));
}

#[test]
fn a_torn_last_batch_is_cut_off_wherever_it_is_torn() {
    let size = batch(0, 2).len();
    for torn in 0..size {
        let mut fixture = Fixture::new(LogConfig::KAFKA);
        fill(&fixture.log(), 3);
        fixture.disk.tamper(Path::new(LOG), |bytes| bytes.truncate(2 * size + torn)).unwrap();
        fixture.kill();
        let log = fixture.log();
        assert_eq!((log.end_offset(), log.durable_end()), (Offset(4), Offset(4)));
        assert_eq!(fixture.bytes("00000000000000000000.log").len(), 2 * size);
        let cut = fixture.report.partitions[0].cut.as_ref();
        assert_eq!(cut.map(|cut| (cut.position, cut.bytes)), (torn > 0).then_some((2 * size as u64, torn as u64)));
        produce(&log, 9, &batch(9, 2)).unwrap();
        log.sync().unwrap();
        assert_eq!(offsets(&log, 0), pairs(0, 6));
    }
}

#[test]
fn a_damaged_last_batch_is_cut_off_wherever_it_is_damaged() {
    let size = batch(0, 2).len();
    for position in 0..size {
        // The leader epoch is the one field that nothing covers; the base offset must follow the one before.
        if (12..16).contains(&position) {
            continue;
        }
        let mut fixture = Fixture::new(LogConfig::KAFKA);
        fill(&fixture.log(), 2);
        fixture.disk.tamper(Path::new(LOG), |bytes| bytes[size + position] ^= 0x80).unwrap();
        fixture.kill();
        assert_eq!(fixture.log().end_offset(), Offset(2), "{position}");
    }
}

#[test]
fn damage_below_the_recovery_point_takes_the_log_offline_and_names_the_place() {
    let size = batch(0, 2).len();
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    fill(&fixture.log(), 3);
    fixture.logs().write_checkpoints().unwrap();
    fixture.disk.tamper(Path::new(LOG), |bytes| bytes[size + 70] ^= 1).unwrap();
    fixture.kill();
    match &fixture.report.offline[0].error {
        OpenError::Damaged { path, position, offset, .. } => {
            assert_eq!((path.as_path(), *position, *offset), (Path::new(LOG), size as u64, Offset(2)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.log().unavailable(), Some(Unavailable::Damaged));
}

#[test]
fn damage_above_the_recovery_point_is_cut_off_and_told() {
    let size = batch(0, 2).len();
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    fill(&fixture.log(), 1);
    fixture.logs().write_checkpoints().unwrap();
    fill(&fixture.log(), 2);
    fixture.disk.tamper(Path::new(LOG), |bytes| bytes[size + 70] ^= 1).unwrap();
    fixture.kill();
    let cut = fixture.report.partitions[0].cut.as_ref().unwrap();
    assert_eq!((cut.position, cut.end_offset, cut.batches_follow), (size as u64, Offset(2), true));
    // Somebody may know what to do with the batches behind the damage.
    let kept = fixture.disk.read_file(&cut.kept[0]).unwrap().unwrap();
    assert_eq!((cut.kept.len(), kept.len() as u64), (1, cut.bytes));
    let name = cut.kept[0].clone();
    fixture.kill();
    assert_eq!(fixture.disk.read_file(&name).unwrap().unwrap(), kept, "it stays");
}

#[test]
fn a_log_that_lost_durable_segments_is_offline() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    fill(&fixture.log(), 2);
    fixture.logs().write_checkpoints().unwrap();
    fixture.disk.remove_file(Path::new(LOG)).unwrap();
    fixture.kill();
    let text = fixture.report.offline[0].error.to_string();
    assert!(text.contains("ends at offset 0, but was durable up to 4"), "{text}");
    fixture.disk.remove_dir_all(Path::new("/data/t-0")).unwrap();
    fixture.open();
    assert_eq!(fixture.report.missing, [(TopicName::from("t"), PartitionIndex(0), Offset(4))]);
}

#[test]
fn a_tail_lost_over_several_segments_is_cut_off() {
    let config = LogConfig { segment_bytes: 700, ..LogConfig::KAFKA };
    let mut fixture = Fixture::new(config);
    let log = fixture.log();
    fill(&log, 6);
    let sealed = fixture.files().iter().filter(|name| name.ends_with(".snapshot")).count();
    assert_eq!(sealed, 2, "{:?}", fixture.files());
    for n in 6..20 {
        produce(&log, n, &batch(n, 2)).unwrap();
    }
    // The second segment was not sealed and loses its end, while the third happens to be there.
    fixture.disk.tamper(Path::new("/data/t-0/00000000000000000012.log"), |bytes| bytes.truncate(99)).unwrap();
    fixture.kill();
    let log = fixture.log();
    assert_eq!(log.end_offset(), Offset(12));
    assert_eq!(offsets(&log, 0), pairs(0, 12));
    let cut = fixture.report.partitions[0].cut.as_ref().unwrap();
    assert!(cut.batches_follow);
    fill(&log, 10);
    assert_eq!(offsets(&log, 0), pairs(0, 32));
    fixture.power_cut();
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 32));
}

#[test]
fn a_closed_segment_that_lost_whole_batches_ends_the_log() {
    let size = batch(0, 2).len();
    let mut fixture = Fixture::new(LogConfig { segment_bytes: 700, ..LogConfig::KAFKA });
    let log = fixture.log();
    for n in 0..6 {
        produce(&log, n, &batch(n, 2)).unwrap();
    }
    fixture.disk.sync_dir(Path::new("/data")).unwrap();
    fixture.disk.tamper(Path::new(LOG), |bytes| bytes.truncate(size)).unwrap();
    fixture.kill();
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 2));
    assert_eq!(fixture.log().end_offset(), Offset(2));
    fill(&fixture.log(), 1);
    fixture.power_cut();
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 4));
}

#[test]
fn lost_or_damaged_indexes_are_built_anew() {
    let config = LogConfig { segment_bytes: 2000, index_interval_bytes: 300, ..LogConfig::KAFKA };
    let mut fixture = Fixture::new(config);
    fill(&fixture.log(), 30);
    fixture.kill();
    let indexes: Vec<String> = fixture.files().into_iter().filter(|name| name.ends_with("index")).collect();
    let before: Vec<Vec<u8>> = indexes.iter().map(|name| fixture.bytes(name)).collect();
    assert!(indexes.len() >= 4 && before[0].len() >= 24);
    for index in &indexes {
        let path = Path::new(DIR).join(index);
        fixture.disk.remove_file(&path).unwrap();
        fixture.kill();
        fixture.disk.tamper(&path, |bytes| bytes.push(0)).unwrap();
        fixture.kill();
        let after: Vec<Vec<u8>> = indexes.iter().map(|name| fixture.bytes(name)).collect();
        assert_eq!(after, before, "{index}");
        assert_eq!(offsets(&fixture.log(), 0), pairs(0, 60));
    }
}

#[test]
fn an_index_that_points_elsewhere_hides_no_records() {
    let config = LogConfig { segment_bytes: 2000, index_interval_bytes: 300, ..LogConfig::KAFKA };
    let mut fixture = Fixture::new(config);
    fill(&fixture.log(), 30);
    let index = Path::new("/data/t-0/00000000000000000000.index");
    let good = fixture.disk.read_file(index).unwrap().unwrap();
    assert!(good.len() > 8, "{}", good.len());
    // The first entry points behind its batch, into it, and behind the end.
    for position in [u32::from_be_bytes(*good.last_chunk().unwrap()), 77, 1_000_000] {
        fixture.disk.tamper(index, |bytes| bytes[4..8].copy_from_slice(&position.to_be_bytes())).unwrap();
        fixture.kill();
        for from in 0..60 {
            let read = fixture.log().read(Offset(from), Offset(60), 1, true).unwrap();
            let batch = batches(&read.bytes).next().unwrap().unwrap();
            assert_eq!(batch.header().base_offset.0, from - from % 2, "{position}");
        }
    }
}

#[test]
fn a_batch_in_front_of_damage_is_read() {
    let size = batch(0, 2).len();
    let mut fixture = Fixture::new(LogConfig { segment_bytes: 700, ..LogConfig::KAFKA });
    fill(&fixture.log(), 6);
    // A sealed segment is taken as it is when it is opened.
    fixture.disk.tamper(Path::new(LOG), |bytes| bytes.truncate(size + 100)).unwrap();
    fixture.kill();
    let read = fixture.log().read(Offset(0), Offset(12), 10_000, true).unwrap();
    assert_eq!(read.next_offset, Offset(2));
    assert!(fixture.log().read(Offset(2), Offset(12), 10_000, true).is_err());
}

#[test]
fn an_orderly_end_needs_no_reading() {
    let config = LogConfig { segment_bytes: 2000, index_interval_bytes: 300, ..LogConfig::KAFKA };
    let mut fixture = Fixture::new(config);
    for round in 1..4 {
        fill(&fixture.log(), 10);
        produce(&fixture.log(), 0, &build(0, 2, producer(9, 0, 2 * (round - 1)))).unwrap();
        fixture.restart();
        assert!(fixture.report.clean_shutdown);
        assert!(fixture.report.partitions.is_empty(), "{:?}", fixture.report.partitions);
        let end = 22 * i64::from(round);
        assert_eq!(offsets(&fixture.log(), 0), pairs(0, end));
        assert!(produce(&fixture.log(), 0, &build(0, 2, producer(9, 0, 2 * (round - 1)))).unwrap().duplicate);
        assert_eq!(fixture.log().max_timestamp().unwrap().unwrap().timestamp, at(9).wall);
    }
    fixture.power_cut();
    assert!(!fixture.report.clean_shutdown);
    assert_eq!(offsets(&fixture.log(), 0), pairs(0, 66));
}

#[test]
fn a_power_cut_at_any_sync_loses_nothing_acknowledged() {
    // The disk forgets everything from the n-th sync on, as if it had been cut off there.
    let config = LogConfig { segment_bytes: 700, ..LogConfig::KAFKA };
    let mut cuts = 0;
    for fail_at in 1..40 {
        let mut fixture = Fixture::new(config);
        let opened = fixture.disk.sync_count();
        let log = fixture.log();
        let mut acknowledged = 0;
        for n in 0..12 {
            produce(&log, n, &batch(n, 2)).unwrap();
            let Some(ticket) = log.take_sync() else { panic!("nothing to sync") };
            let faults = crate::MemFaults { syncs_max: Some(opened + fail_at), ..crate::MemFaults::default() };
            fixture.disk.set_faults(faults);
            let result = ticket.run();
            if log.finish_sync(ticket, result).is_err() {
                cuts += 1;
                break;
            }
            acknowledged = log.durable_end().0;
        }
        fixture.disk.set_faults(crate::MemFaults::default());
        fixture.power_cut();
        let log = fixture.log();
        assert!(log.end_offset().0 >= acknowledged, "sync {fail_at}: {} < {acknowledged}", log.end_offset());
        assert_eq!(offsets(&log, 0), pairs(0, log.end_offset().0));
    }
    assert!(cuts >= 20, "{cuts}");
}
