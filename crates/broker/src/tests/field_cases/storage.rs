//! What is stored, found by time, refused and deleted.

use riparian_records::Producer;
use riparian_types::{ProducerEpoch, ProducerId, Sequence};

use super::*;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const CORRUPT_MESSAGE: i16 = 2;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const POLICY_VIOLATION: i16 = 44;
const INVALID_TXN_STATE: i16 = 48;
const INVALID_RECORD: i16 = 87;
const BASE: i64 = 1_700_000_000_000;

#[test]
fn s_07_offset_for_a_timestamp_is_the_record_and_not_its_batch() {
    let in_order: Vec<i64> = (0..50).collect();
    let shuffled: Vec<i64> = (0..50).map(|n| n * 37 % 50).collect();
    let with_gaps_and_twins: Vec<i64> = (0..50).map(|n| n / 3 * 7 % 40).collect();
    for (name, deltas) in [("in order", in_order), ("shuffled", shuffled), ("gaps", with_gaps_and_twins)] {
        for compression in Compression::ALL {
            let mut server = Server::start(&Arc::new(MemDisk::new()));
            server.create_topic("t", 1);
            // Three batches, so that one may begin below and end above what is asked for.
            let timestamps: Vec<i64> = deltas.iter().map(|delta| BASE + delta).collect();
            for part in [&timestamps[..20], &timestamps[20..21], &timestamps[21..]] {
                assert_eq!(server.produce_bytes("t", 0, timed(compression, part)).0, 0);
            }
            for asked in BASE - 3..BASE + 53 {
                let expected = timestamps.iter().position(|timestamp| *timestamp >= asked);
                let expected = expected.map_or((-1, -1), |at| (at as i64, timestamps[at]));
                assert_eq!(server.offset_at("t", asked), expected, "{name} {compression:?} {}", asked - BASE);
            }
            let latest = *timestamps.iter().max().unwrap();
            let first = timestamps.iter().position(|timestamp| *timestamp == latest).unwrap();
            assert_eq!(server.offset_at("t", -3), (first as i64, latest), "{name} {compression:?}");
        }
    }
}

#[test]
fn s_07_append_time_finds_the_first_record_of_its_batch() {
    for compression in [Compression::None, Compression::Snappy] {
        let disk = Arc::new(MemDisk::new());
        let mut server = Server::start(&disk);
        server.create_topic_with("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
        for ms in [100, 200] {
            server.shell.now_ms.store(ms, Ordering::Relaxed);
            assert_eq!(server.produce_bytes("t", 0, timed(compression, &[5, 3, 9])).0, 0);
        }
        for _ in 0..2 {
            let expected = [(0, (0, BASE + 100)), (101, (3, BASE + 200)), (200, (3, BASE + 200)), (201, (-1, -1))];
            for (ms, expected) in expected {
                assert_eq!(server.offset_at("t", BASE + ms), expected, "{ms}");
            }
            drop(server);
            server = Server::start(&disk);
        }
    }
}

#[test]
fn s_07_deleted_records_are_not_found_by_time() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    let timestamps: Vec<i64> = (0..50).map(|n| BASE + n).collect();
    assert_eq!(server.produce_bytes("t", 0, timed(Compression::Lz4, &timestamps)).0, 0);
    assert_eq!(delete(&mut server, "t", 0, 20), (0, 20));
    assert_eq!(server.offset_at("t", BASE), (20, BASE + 20));
    assert_eq!(server.offset_at("t", BASE + 21), (21, BASE + 21));
}

/// A batch of three records whose header says something else, with a right CRC.
fn changed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = batch(&["a", "b", "c"]);
    change(&mut bytes);
    let crc = crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

fn put(bytes: &mut [u8], at: usize, value: i32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

const LENGTH: usize = 8;
const MAGIC: usize = 16;
const ATTRIBUTES: usize = 22;
const LAST_OFFSET_DELTA: usize = 23;
const RECORD_COUNT: usize = 57;
const RECORDS: usize = 61;

fn malformed() -> Vec<(&'static str, i16, Vec<u8>)> {
    let whole = batch(&["a", "b", "c"]);
    let size = whole.len();
    let mut list = vec![
        ("nothing", INVALID_RECORD, Vec::new()),
        ("two batches", INVALID_RECORD, whole.repeat(2)),
        ("bytes behind", CORRUPT_MESSAGE, [&whole[..], &[0; 5]].concat()),
        ("cut", CORRUPT_MESSAGE, whole[..size - 1].to_vec()),
        ("only a header's beginning", CORRUPT_MESSAGE, whole[..20].to_vec()),
        ("wrong CRC", CORRUPT_MESSAGE, [&whole[..size - 1], &[whole[size - 1] ^ 1]].concat()),
        ("count 3, delta 5", INVALID_RECORD, changed(|b| put(b, LAST_OFFSET_DELTA, 5))),
        ("count 3, delta 1", INVALID_RECORD, changed(|b| put(b, LAST_OFFSET_DELTA, 1))),
        ("delta negative", INVALID_RECORD, changed(|b| put(b, LAST_OFFSET_DELTA, -1))),
        ("delta largest", INVALID_RECORD, changed(|b| put(b, LAST_OFFSET_DELTA, i32::MAX))),
        ("count 0 with bytes", INVALID_RECORD, changed(|b| put(b, RECORD_COUNT, 0))),
        ("count -1", INVALID_RECORD, changed(|b| put(b, RECORD_COUNT, -1))),
        ("magic 0", INVALID_RECORD, changed(|b| b[MAGIC] = 0)),
        ("magic 1", INVALID_RECORD, changed(|b| b[MAGIC] = 1)),
        ("magic 3", CORRUPT_MESSAGE, changed(|b| b[MAGIC] = 3)),
        ("control", INVALID_RECORD, changed(|b| b[ATTRIBUTES] |= 0x20)),
        ("transactional", INVALID_TXN_STATE, changed(|b| b[ATTRIBUTES] |= 0x10)),
        ("record longer than the batch", INVALID_RECORD, changed(|b| b[RECORDS] = 0x7e)),
        ("record of negative length", INVALID_RECORD, changed(|b| b[RECORDS] = 0x01)),
        ("length 0", CORRUPT_MESSAGE, changed(|b| put(b, LENGTH, 0))),
        ("length negative", CORRUPT_MESSAGE, changed(|b| put(b, LENGTH, -1))),
        ("length largest", CORRUPT_MESSAGE, changed(|b| put(b, LENGTH, i32::MAX))),
        ("base offset 1", INVALID_RECORD, changed(|b| b[7] = 1)),
    ];
    // More and fewer records than the header says, also where they are compressed.
    for (count, what) in [(2, "one record more"), (4, "one record less")] {
        for compression in Compression::ALL {
            let mut bytes = timed(compression, &[BASE; 3]);
            put(&mut bytes, RECORD_COUNT, count);
            put(&mut bytes, LAST_OFFSET_DELTA, count - 1);
            let crc = crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
            list.push((what, INVALID_RECORD, bytes));
        }
    }
    list
}

#[test]
fn s_09_malformed_batches_are_refused_alone() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 3);
    for (good, (what, code, bytes)) in (0..).zip(malformed()) {
        // In the middle of two good ones.
        let data = vec![(0, batch(&["x"])), (1, bytes), (2, batch(&["y"]))];
        let answers = server.ask(&produce_to("t", data, -1), 9, |r| {
            let answers = r.responses[0].partition_responses.iter();
            answers.map(|answer| (answer.error_code, answer.base_offset)).collect::<Vec<_>>()
        });
        assert_eq!(answers, [(0, good), (code, -1), (0, good)], "{what}");
    }
    assert_eq!(server.produce_bytes("t", 1, batch(&["z"])), (0, 0));
    drop(server);
    let mut server = Server::start(&disk);
    assert_eq!(server.produce_bytes("t", 1, batch(&["z"])), (0, 1), "nothing of them was written");
}

/// A batch of one record of an idempotent producer.
fn numbered(sequence: i32) -> Vec<u8> {
    let producer = Producer { id: ProducerId(4), epoch: ProducerEpoch(0), base_sequence: Sequence(sequence) };
    let mut builder = BatchBuilder::new(BatchOptions { producer: Some(producer), ..BatchOptions::PLAIN });
    builder.push(WallMillis(BASE), None, Some(b"v"));
    builder.build()
}

/// Storage errors, in which the producer was new and had sent more behind the batch that was lost (S-04, P-05).
#[test]
fn s_04_what_a_new_producer_sent_behind_a_lost_batch_waits_for_it() {
    const KAFKA_STORAGE_ERROR: i16 = 56;
    const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    assert_eq!(server.produce_bytes("t", 0, batch(&["of somebody else"])), (0, 0));
    let in_flight: Vec<u64> =
        (0..3).map(|sequence| server.send(&produce_to("t", vec![(0, numbered(sequence))], -1), 9)).collect();
    disk.set_faults(MemFaults { sync_fails: true, ..MemFaults::default() });
    server.shell.run_jobs();
    disk.set_faults(MemFaults::default());
    for slot in in_flight {
        let bytes = server.reply(slot).expect("an answer");
        let response = Server::decode::<ProduceRequest<'_>>(&bytes, 9);
        assert_eq!(response.responses[0].partition_responses[0].error_code, KAFKA_STORAGE_ERROR);
    }
    // The first that comes may find the log closed and open it again.
    assert_eq!(server.produce_bytes("t", 0, numbered(3)).0, KAFKA_STORAGE_ERROR);
    for late in [3, 2, 1] {
        assert_eq!(server.produce_bytes("t", 0, numbered(late)).0, OUT_OF_ORDER_SEQUENCE_NUMBER, "{late}");
    }
    for sequence in 0..4 {
        assert_eq!(server.produce_bytes("t", 0, numbered(sequence)), (0, 1 + i64::from(sequence)));
    }
    // A first batch that found no room.
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    assert_eq!(server.produce_bytes("t", 0, batch(&["of somebody else"])), (0, 0));
    disk.set_faults(MemFaults { capacity_bytes: Some(disk.used_bytes() + 30), ..MemFaults::default() });
    assert_eq!(server.produce_bytes("t", 0, numbered(0)).0, KAFKA_STORAGE_ERROR);
    disk.set_faults(MemFaults::default());
    assert_eq!(server.produce_bytes("t", 0, numbered(1)).0, OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(server.produce_bytes("t", 0, numbered(0)), (0, 1));
    assert_eq!(server.produce_bytes("t", 0, numbered(1)), (0, 2));
}

#[test]
fn s_09_an_idempotent_producer_goes_on_after_a_malformed_batch() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    assert_eq!(server.produce_bytes("t", 0, numbered(0)), (0, 0));
    let mut damaged = numbered(1);
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(server.produce_bytes("t", 0, damaged), (CORRUPT_MESSAGE, -1));
    // It did not count as sequence number 1.
    assert_eq!(server.produce_bytes("t", 0, numbered(1)), (0, 1));
    assert_eq!(server.produce_bytes("t", 0, numbered(-1)).0, INVALID_RECORD);
}

/// Error code and low watermark of a deletion in the first partition.
pub(super) fn delete(server: &mut Server, topic: &'static str, partition: i32, before: i64) -> (i16, i64) {
    let partition = DeleteRecordsPartition { partition_index: partition, offset: before, ..Default::default() };
    let topic = DeleteRecordsTopic { name: topic.into(), partitions: vec![partition], ..Default::default() };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
    server.ask(&request, 2, |r| {
        let answer = &r.topics[0].partitions[0];
        (answer.error_code, answer.low_watermark)
    })
}

fn segments(disk: &MemDisk) -> usize {
    let entries = disk.list(Path::new("/data/t-0")).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".log")).count()
}

#[test]
fn s_11_deleted_records_stay_deleted_and_give_space_back() {
    const EARLIEST: i64 = -2;
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic_with("t", 1, &[("segment.bytes", "1048576")]);
    let value = "x".repeat(500);
    for at in 0..100 {
        assert_eq!(server.produce_bytes("t", 0, batch(&[value.as_str(); 100])), (0, 100 * at));
    }
    let before = segments(&disk);
    assert_eq!(delete(&mut server, "t", 0, 0), (0, 0));
    assert_eq!(delete(&mut server, "t", 0, 4000), (0, 4000));
    assert!(segments(&disk) < before, "{before} segments before and after");
    assert_eq!(delete(&mut server, "t", 0, 3999), (0, 4000), "below the start there is nothing to do");
    for beyond in [10_001, i64::MAX, -2, i64::MIN] {
        assert_eq!(delete(&mut server, "t", 0, beyond), (OFFSET_OUT_OF_RANGE, -1), "{beyond}");
    }
    assert_eq!(delete(&mut server, "t", 0, 4050), (0, 4050), "inside a batch");
    assert_eq!(delete(&mut server, "t", 7, 0), (UNKNOWN_TOPIC_OR_PARTITION, -1));
    assert_eq!(delete(&mut server, "nowhere", 0, 0), (UNKNOWN_TOPIC_OR_PARTITION, -1));
    for _ in 0..2 {
        assert_eq!(server.offset_at("t", EARLIEST).0, 4050);
        for gone in [0, 4000, 4049] {
            assert_eq!(server.fetched("t", gone).0, OFFSET_OUT_OF_RANGE, "{gone}");
        }
        let (code, records) = server.fetched("t", 4050);
        let first = batches(&records).next().unwrap().unwrap();
        assert_eq!((code, first.header().base_offset.0), (0, 4000), "the batch that has it");
        // The next start is after a crash.
        drop(server);
        disk.power_cut();
        server = Server::start(&disk);
    }
    assert_eq!(delete(&mut server, "t", 0, -1), (0, 10_000), "up to the end");
    assert_eq!(server.fetched("t", 10_000), (0, Vec::new()));
    assert_eq!(server.produce_bytes("t", 0, batch(&["next"])), (0, 10_000));
    assert_eq!(delete(&mut server, "t", 0, -1), (0, 10_001), "again, as Streams does at every commit");
}

#[test]
fn s_11_records_of_a_topic_that_only_compacts_are_not_deleted() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    let keyed = || timed(Compression::None, &[BASE; 3]);
    for (topic, policy) in [("store", "compact"), ("window", "compact,delete"), ("plain", "delete")] {
        server.create_topic_with(topic, 1, &[("cleanup.policy", policy)]);
        assert_eq!(server.produce_bytes(topic, 0, keyed()), (0, 0));
    }
    for before in [0, 2, -1, 99, -5] {
        assert_eq!(delete(&mut server, "store", 0, before), (POLICY_VIOLATION, -1), "{before}");
    }
    assert_eq!(delete(&mut server, "window", 0, 2), (0, 2));
    assert_eq!(delete(&mut server, "plain", 0, 2), (0, 2));
    // The policy is that of this moment, also after a restart.
    for (topic, policy) in [("store", "compact,delete"), ("plain", "compact")] {
        let config =
            AlterableConfig { name: "cleanup.policy".into(), value: Some(policy.into()), ..Default::default() };
        let resource = AlterConfigsResource {
            resource_type: 2,
            resource_name: topic.into(),
            configs: vec![config],
            ..Default::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        assert_eq!(server.ask(&request, 1, |r| r.responses[0].error_code), 0);
    }
    for _ in 0..2 {
        assert_eq!(delete(&mut server, "plain", 0, 3), (POLICY_VIOLATION, -1));
        assert_eq!(delete(&mut server, "store", 0, 1), (0, 1));
        drop(server);
        server = Server::start(&disk);
    }
}
