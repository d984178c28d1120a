//! Batches that are sent from their files, on the file system.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use riparian_log::{FilePart, FlushMode, FsDisk, Identity, LogConfig, Logs, LogsConfig, PartitionLog, Piece};
use riparian_records::{BatchBuilder, BatchOptions, batches};
use riparian_types::{LeaderEpoch, MonoMillis, NodeId, Now, Offset, PartitionIndex, TopicName, Uuid, WallMillis};

const NOW: Now = Now { mono: MonoMillis(0), wall: WallMillis(1_000_000) };
const CONFIG: LogConfig = LogConfig { segment_bytes: 1 << 20, ..LogConfig::KAFKA };

fn open(root: &Path, handles: usize, flush: FlushMode) -> Logs {
    let identity = Identity {
        node_id: NodeId(1),
        cluster_id: None,
        new_cluster_id: "cluster".to_owned(),
        new_directory_id: Uuid::from_halves(3, 4),
    };
    let config = LogsConfig {
        flush,
        producer_expiration_ms: 1000,
        topic_defaults: CONFIG,
        recovery_threads: 1,
        read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
    };
    let disk = Arc::new(FsDisk::new(NonZeroUsize::new(handles).unwrap()));
    Logs::open(disk, root, identity, config, NOW.wall).unwrap().0
}

/// A log of three segments of about a megabyte each.
fn filled(logs: &Logs) -> Arc<PartitionLog> {
    let log = logs.create(&TopicName::from("t"), Uuid::from_halves(7, 8), PartitionIndex(0), CONFIG).unwrap();
    for n in 0..250u8 {
        let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
        for _ in 0..10 {
            builder.push(NOW.wall, Some(&[n]), Some(&[n; 1024]));
        }
        log.append_internal(NOW, LeaderEpoch(0), &builder.build()).unwrap();
    }
    log.sync().unwrap();
    log
}

/// Reads on as clients do, from what they were given: the pieces of the whole log.
fn pieces(log: &PartitionLog) -> Vec<(Offset, Piece)> {
    let mut found = Vec::new();
    let mut from = log.start_offset();
    while from < log.durable_end() {
        let piece = log.read_or_lend(from, log.durable_end(), 300_000, true).unwrap();
        let bytes = bytes(&piece);
        let next = batches(&bytes).last().unwrap().unwrap().header().next_offset();
        found.push((from, piece));
        from = next;
    }
    found
}

fn bytes(piece: &Piece) -> Vec<u8> {
    match piece {
        Piece::Bytes(bytes) => bytes.to_vec(),
        Piece::File(part) => part.read().unwrap().to_vec(),
    }
}

fn check(pieces: &[(Offset, Piece)]) {
    for (from, piece) in pieces {
        let mut expected = *from;
        for batch in batches(&bytes(piece)) {
            let batch = batch.unwrap();
            assert_eq!(batch.header().base_offset, expected);
            let records = batch.records().unwrap();
            let n = records.iter().next().unwrap().unwrap().key.unwrap()[0];
            assert_eq!(expected, Offset(i64::from(n) * 10));
            expected = batch.header().next_offset();
        }
    }
}

fn parts(pieces: &[(Offset, Piece)]) -> Vec<&FilePart> {
    pieces.iter().filter_map(|(_, piece)| if let Piece::File(part) = piece { Some(part) } else { None }).collect()
}

#[test]
fn whole_logs_are_lent_live_and_opened_again() {
    for flush in [FlushMode::Sync, FlushMode::Os] {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let logs = open(dir.path(), 100, flush);
            let log = logs.find("t", PartitionIndex(0)).unwrap_or_else(|| filled(&logs));
            let pieces = pieces(&log);
            check(&pieces);
            assert_eq!(parts(&pieces).len(), pieces.len(), "all of it can be sent from its files");
            assert!(pieces.len() < 12, "{} pieces", pieces.len());
            logs.shutdown().unwrap();
        }
    }
}

#[test]
fn lent_bytes_stay_whatever_becomes_of_their_log() {
    type End = fn(&Logs, &Arc<PartitionLog>);
    let delete_records: End = |logs, log| {
        let before = log.byte_len();
        logs.delete_records(log, log.durable_end()).unwrap();
        assert!(log.byte_len() < before / 2, "segments were deleted");
    };
    let retention: End = |_, log| {
        log.set_config(LogConfig { retention_ms: Some(1), ..CONFIG });
        let later = WallMillis(NOW.wall.0 + 1_000_000);
        assert!(log.enforce_retention(later).unwrap() >= 2);
    };
    let deletion: End = |logs, _| {
        logs.delete_topic("t").unwrap().remove().unwrap();
        // Another log in its place, under the same names.
        let again = logs.create(&TopicName::from("t"), Uuid::from_halves(9, 9), PartitionIndex(0), CONFIG).unwrap();
        let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
        builder.push(NOW.wall, None, Some(&[0xff; 100_000]));
        again.append_internal(NOW, LeaderEpoch(0), &builder.build()).unwrap();
        again.sync().unwrap();
    };
    for end in [delete_records, retention, deletion] {
        let dir = tempfile::tempdir().unwrap();
        let logs = open(dir.path(), 100, FlushMode::Sync);
        let log = filled(&logs);
        let pieces = pieces(&log);
        let before: Vec<_> = pieces.iter().map(|(_, piece)| bytes(piece)).collect();
        end(&logs, &log);
        check(&pieces);
        let after: Vec<_> = pieces.iter().map(|(_, piece)| bytes(piece)).collect();
        assert!(before == after);
    }
}

#[test]
fn only_so_many_files_are_lent_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(dir.path(), 16, FlushMode::Sync);
    let log = filled(&logs);
    let lend = || log.read_or_lend(Offset::ZERO, log.durable_end(), 300_000, true).unwrap();
    let held: Vec<Piece> = (0..10).map(|_| lend()).collect();
    let lent = |pieces: &[Piece]| pieces.iter().map(|piece| matches!(piece, Piece::File(_))).collect::<Vec<_>>();
    assert_eq!(lent(&held), [vec![true; 4], vec![false; 6]].concat());
    let contents: Vec<_> = held.iter().map(bytes).collect();
    assert!(contents.iter().all(|content| content == &contents[0]), "others are read, and get the same");
    drop(held);
    assert_eq!(lent(&[lend()]), [true], "it was given back");
}
