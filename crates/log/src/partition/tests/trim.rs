//! Rolling, retention, deleted records, deleted topics.

use super::*;
use crate::{TrimError, Unavailable};

fn segment_bases(fixture: &Fixture) -> Vec<i64> {
    let names = fixture.files().into_iter().filter(|name| name.ends_with(".log"));
    names.map(|name| name[..20].parse().unwrap()).collect()
}

#[test]
fn a_full_segment_is_closed() {
    let size = batch(0, 2).len() as u32;
    let fixture = Fixture::new(LogConfig { segment_bytes: 3 * size, ..LogConfig::KAFKA });
    fill(&fixture.log(), 7);
    assert_eq!(segment_bases(&fixture), [0, 6, 12]);
    let names: Vec<String> = fixture.files().into_iter().filter(|name| name.contains("006.")).collect();
    let expected = ["index", "log", "snapshot", "timeindex"].map(|kind| format!("00000000000000000006.{kind}"));
    assert_eq!(names, expected);
}

#[test]
fn an_old_segment_is_closed() {
    let fixture = Fixture::new(LogConfig { segment_ms: 100, ..LogConfig::KAFKA });
    let log = fixture.log();
    for ms in [0, 50, 100, 101, 150, 202] {
        produce(&log, ms, &batch(ms, 2)).unwrap();
    }
    assert_eq!(segment_bases(&fixture), [0, 6, 10]);
}

#[test]
fn old_segments_are_deleted() {
    let size = batch(0, 2).len() as u32;
    let config = LogConfig { segment_bytes: 2 * size, retention_ms: Some(100), ..LogConfig::KAFKA };
    let mut fixture = Fixture::new(config);
    let log = fixture.log();
    fill(&log, 6);
    assert_eq!(log.enforce_retention(at(101).wall).unwrap(), 0);
    assert_eq!(log.enforce_retention(at(102).wall).unwrap(), 1);
    assert_eq!((log.start_offset(), segment_bases(&fixture)), (Offset(4), vec![4, 8]));
    fixture.kill();
    let log = fixture.log();
    assert_eq!((log.start_offset(), offsets(&log, 4)), (Offset(4), pairs(4, 12)));
    // All are too old: an empty segment stays, so that offsets go on.
    log.enforce_retention(at(500).wall).unwrap();
    log.sync().unwrap();
    log.enforce_retention(at(500).wall).unwrap();
    assert_eq!((log.start_offset(), log.end_offset(), segment_bases(&fixture)), (Offset(12), Offset(12), vec![12]));
    fixture.power_cut();
    assert_eq!((fixture.log().start_offset(), fixture.log().end_offset()), (Offset(12), Offset(12)));
    assert_eq!(produce(&fixture.log(), 500, &batch(500, 1)).unwrap().base_offset, Offset(12));
}

#[test]
fn segments_beyond_the_size_are_deleted() {
    let size = batch(0, 2).len() as u32;
    let config = LogConfig {
        segment_bytes: 2 * size,
        retention_ms: None,
        retention_bytes: Some(u64::from(5 * size)),
        ..LogConfig::KAFKA
    };
    let fixture = Fixture::new(config);
    let log = fixture.log();
    fill(&log, 8);
    assert_eq!(log.enforce_retention(at(0).wall).unwrap(), 1);
    assert_eq!(log.byte_len(), u64::from(6 * size));
    log.set_config(LogConfig { retention_bytes: Some(0), ..config });
    assert_eq!(log.enforce_retention(at(0).wall).unwrap(), 2);
    assert_eq!(segment_bases(&fixture), [12]);
    log.set_config(LogConfig { delete: false, retention_ms: Some(1), ..config });
    assert_eq!(log.enforce_retention(at(9999).wall).unwrap(), 0);
}

#[test]
fn deleted_records_stay_deleted() {
    let size = batch(0, 2).len() as u32;
    let mut fixture = Fixture::new(LogConfig { segment_bytes: 3 * size, ..LogConfig::KAFKA });
    fill(&fixture.log(), 8);
    let log = fixture.log();
    produce(&log, 9, &batch(9, 2)).unwrap();
    for beyond in [17, 18, -1] {
        let error = fixture.logs().delete_records(&log, Offset(beyond)).unwrap_err();
        assert!(matches!(error, TrimError::OutOfRange { high_watermark: Offset(16), .. }));
    }
    assert_eq!(fixture.logs().delete_records(&log, Offset(9)).unwrap(), Offset(9));
    assert_eq!(fixture.logs().delete_records(&log, Offset(3)).unwrap(), Offset(9));
    assert_eq!(segment_bases(&fixture), [6, 12]);
    for restart in [Fixture::power_cut, Fixture::kill, Fixture::restart] {
        let log = fixture.log();
        assert_eq!(log.start_offset(), Offset(9));
        assert!(log.read(Offset(8), Offset(16), 100, true).is_err());
        assert_eq!(offsets(&log, 9), pairs(8, 16));
        let found = log.offset_for_timestamp(at(0).wall, Offset(16)).unwrap().unwrap();
        assert_eq!(found.offset, Offset(9));
        restart(&mut fixture);
    }
}

#[test]
fn a_deleted_topic_is_gone() {
    let mut fixture = Fixture::new(LogConfig::KAFKA);
    let log = fixture.log();
    fill(&log, 2);
    let garbage = fixture.logs().delete_topic("t").unwrap();
    assert!(fixture.logs().find("t", PartitionIndex(0)).is_none());
    let error = produce(&log, 0, &batch(0, 2)).unwrap_err();
    assert!(matches!(error, AppendError::Unavailable(Unavailable::Closed)));
    garbage.remove().unwrap();
    let log = fixture.log();
    assert_eq!(log.end_offset(), Offset(0));
    fill(&log, 1);
    drop(fixture.logs().delete_topic("t").unwrap());
    fixture.power_cut();
    assert_eq!(fixture.report.removed.len(), 1);
    assert_eq!(fixture.logs().topics(), []);
}
