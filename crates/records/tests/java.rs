//! Batches that the Java client library wrote are read, and ours are the same bytes where no codec is involved.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use riparian_records::{Batch, BatchBuilder, BatchOptions, Compression, ControlKind, ControlRecord, Header, Producer};
use riparian_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, WallMillis};

fn java_batches() -> Vec<(String, String, Vec<u8>)> {
    include_str!("../testdata/java-batches.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, codec, hex] = words[..] else { panic!("malformed line") };
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
            (what.to_owned(), codec.to_owned(), bytes)
        })
        .collect()
}

fn codec(name: &str) -> Compression {
    match name {
        "none" => Compression::None,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => panic!("no codec {other}"),
    }
}

fn small(compression: Compression) -> Vec<u8> {
    let producer = Producer { id: ProducerId(9), epoch: ProducerEpoch(3), base_sequence: Sequence(41) };
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: Offset(50),
        leader_epoch: LeaderEpoch(6),
        compression,
        producer: Some(producer),
        ..BatchOptions::PLAIN
    });
    builder.push(WallMillis(1000), Some(b"k"), Some(b"v"));
    builder.push(WallMillis(900), None, None);
    let headers = [Header { key: b"h", value: Some(b"1") }, Header { key: b"", value: None }];
    let value = "value".repeat(10);
    builder.push_with_headers(WallMillis(1100), Some(b""), Some(value.as_bytes()), headers.into_iter());
    builder.build()
}

#[test]
fn small_batches_of_every_codec_are_the_same() {
    for (_, name, bytes) in java_batches().into_iter().filter(|(what, ..)| what == "small") {
        let ours = small(codec(&name));
        if name == "none" {
            assert_eq!(ours, bytes);
        }
        let (ours, theirs) = (Batch::parse(&ours).unwrap(), Batch::parse(&bytes).unwrap());
        let (our_records, their_records) = (ours.records().unwrap(), theirs.records().unwrap());
        let [ours, theirs] =
            [&our_records, &their_records].map(|records| records.iter().collect::<Result<Vec<_>, _>>().unwrap());
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn large_batches_of_every_codec_are_read() {
    let mut count = 0;
    for (_, name, bytes) in java_batches().into_iter().filter(|(what, ..)| what == "large") {
        let batch = Batch::parse(&bytes).unwrap();
        assert_eq!(batch.header().compression(), Ok(codec(&name)));
        let records = batch.records().unwrap();
        for (n, record) in records.iter().enumerate() {
            let record = record.unwrap();
            assert_eq!(record.key, Some(format!("key {n}").as_bytes()));
            assert_eq!(record.value, Some(format!("value {}", n % 7).repeat(20).as_bytes()));
            assert_eq!((record.offset.0, record.timestamp.0), (n as i64, 1000 + n as i64));
        }
        assert_eq!(records.iter().count(), 700);
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn transaction_markers_are_the_same() {
    let (_, _, bytes) = java_batches().into_iter().find(|(what, ..)| what == "marker").unwrap();
    let batch = Batch::parse(&bytes).unwrap();
    let records = batch.records().unwrap();
    let marker = ControlRecord::parse(&records.iter().next().unwrap().unwrap()).unwrap();
    assert_eq!(marker, ControlRecord { kind: ControlKind::Commit, coordinator_epoch: 12 });
    let mut ours = ControlRecord::end_transaction(ProducerId(9), ProducerEpoch(3), true, 12, WallMillis(1234));
    riparian_records::stamp(&mut ours, Offset(7), LeaderEpoch(5), None);
    assert_eq!(ours, bytes);
}
