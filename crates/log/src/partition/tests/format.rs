//! The exact bytes of every file. Kafka 4.4.0's DumpLogSegments has read files written like these without a complaint
//! (see the example `write_data_dir`).

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_file_has_kafkas_bytes() {
    let mut fixture = Fixture::new(LogConfig { segment_bytes: 300, index_interval_bytes: 50, ..LogConfig::KAFKA });
    let log = fixture.log();
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    builder.push(WallMillis(1_000_000), Some(b"k"), Some(b"v"));
    let plain = builder.build();
    let mut builder = BatchBuilder::new(BatchOptions { producer: producer(9, 1, 4), ..BatchOptions::PLAIN });
    builder.push(WallMillis(1_000_001), Some(b"k"), None);
    builder.push(WallMillis(1_000_000), None, Some(b"w"));
    let idempotent = builder.build();
    for bytes in [&plain, &idempotent, &plain, &plain, &plain] {
        produce(&log, 2, bytes).unwrap();
    }
    log.sync().unwrap();
    fixture.restart();
    let expected_first = "00000000000000000000003a0000000502"; // base offset, length, leader epoch, magic
    let log_bytes = fixture.bytes("00000000000000000000.log");
    assert_eq!(hex(&log_bytes[..17]), expected_first);
    assert_eq!(log_bytes[17..70], plain[17..]);
    assert_eq!(hex(&log_bytes[70..87]), "0000000000000001000000410000000502");
    assert_eq!(log_bytes.len(), 70 + 77 + 70 + 70);
    // The first batch after more than 50 bytes has an entry: last offsets 2, 3 and 4 at 70, 147 and 217.
    assert_eq!(hex(&fixture.bytes("00000000000000000000.index")), "0000000200000046000000030000009300000004000000d9");
    assert_eq!(hex(&fixture.bytes("00000000000000000000.timeindex")), "00000000000f424100000002");
    assert_eq!(hex(&fixture.bytes("00000000000000000005.index")), "");
    assert_eq!(hex(&fixture.bytes("00000000000000000005.timeindex")), "");
    let snapshot = concat!(
        "0001",
        "a39ead14",
        "00000001",
        "0000000000000009", // producer id
        "0001",             // epoch
        "00000005",         // last sequence
        "0000000000000002", // last offset
        "00000001",         // offset delta
        "00000000000f4241", // timestamp
        "ffffffff",         // coordinator epoch
        "ffffffffffffffff", // open transaction
    );
    assert_eq!(hex(&fixture.bytes("00000000000000000005.snapshot")), snapshot);
    let text = |name: &str| String::from_utf8(fixture.bytes(name)).unwrap();
    assert_eq!(text("leader-epoch-checkpoint"), "0\n1\n5 0\n");
    assert_eq!(text("partition.metadata"), "version: 0\ntopic_id: AAAAAAAAEREAAAAAAAAiIg");
    let meta = fixture.disk.read_file(Path::new("/data/meta.properties")).unwrap().unwrap();
    assert_eq!(
        str::from_utf8(&meta).unwrap(),
        "version=1\ncluster.id=cluster\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"
    );
}
