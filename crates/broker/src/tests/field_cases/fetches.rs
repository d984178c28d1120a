//! What a fetch gives when there is nothing, and when there is too much.

use super::*;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNKNOWN_TOPIC_ID: i16 = 100;

fn ask(partition: i32, from: i64, bytes_max: i32) -> FetchPartition {
    FetchPartition {
        partition,
        fetch_offset: from,
        partition_max_bytes: bytes_max,
        current_leader_epoch: -1,
        ..Default::default()
    }
}

fn fetch_of(topic: &'static str, id: Uuid, partitions: Vec<FetchPartition>) -> FetchRequest<'static> {
    let topic = FetchTopic { topic: topic.into(), topic_id: id, partitions, ..Default::default() };
    FetchRequest { max_wait_ms: 0, min_bytes: 1, max_bytes: 1 << 20, topics: vec![topic], ..Default::default() }
}

#[test]
fn p_03_no_records_are_zero_bytes_and_never_null() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 2);
    assert_eq!(server.produce_bytes("t", 0, batch(&["a"])), (0, 0));
    let id = server.topic_id("t");
    for version in 4..=ApiKey::Fetch.served().unwrap().max {
        // The end of a partition, an empty one, one that is not there, offsets that are not there.
        let mut codes = |asks: &[(i32, i64)]| {
            let partitions = asks.iter().map(|&(partition, from)| ask(partition, from, 1000)).collect();
            server.ask(&fetch_of("t", id, partitions), version, |r| {
                assert_eq!((r.error_code, r.session_id), (0, 0), "version {version}");
                r.responses[0]
                    .partitions
                    .iter()
                    .map(|answer| {
                        assert_eq!(answer.records.as_deref(), Some(&[][..]), "version {version}");
                        answer.error_code
                    })
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(codes(&[(0, 1), (1, 0), (5, 0)]), [0, 0, UNKNOWN_TOPIC_OR_PARTITION]);
        assert_eq!(codes(&[(0, 9), (1, -1)]), [OFFSET_OUT_OF_RANGE, OFFSET_OUT_OF_RANGE]);
        // A topic that is not there at all.
        let unknown = fetch_of("nowhere", Uuid::from_halves(1, 2), vec![ask(0, 0, 1000)]);
        let (code, records) = server.ask(&unknown, version, |r| {
            let answer = &r.responses[0].partitions[0];
            (answer.error_code, answer.records.as_ref().map(|records| records.len()))
        });
        let expected = if version >= 13 { UNKNOWN_TOPIC_ID } else { UNKNOWN_TOPIC_OR_PARTITION };
        assert_eq!((code, records), (expected, Some(0)), "version {version}");
    }
}

#[test]
fn p_03_an_empty_long_poll_waits_and_then_gives_zero_bytes() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    let id = server.topic_id("t");
    for version in [4, 11, 12, 13, 17] {
        let began = server.shell.now_ms.load(Ordering::Relaxed);
        let request = FetchRequest { max_wait_ms: 300, ..fetch_of("t", id, vec![ask(0, 0, 1000)]) };
        let slot = server.send(&request, version);
        for ms in [0, 299] {
            server.shell.now_ms.store(began + ms, Ordering::Relaxed);
            server.broker.on_time(server.shell.now());
            assert_eq!(server.reply(slot), None, "version {version} after {ms} ms");
        }
        server.shell.now_ms.store(began + 300, Ordering::Relaxed);
        server.broker.on_time(server.shell.now());
        let bytes = server.reply(slot).unwrap();
        let response = Server::decode::<FetchRequest<'_>>(&bytes, version);
        assert_eq!(response.responses[0].partitions[0].records.as_deref(), Some(&[][..]));
    }
}

/// Bytes of records per partition, in the order of the answer.
fn sizes(server: &mut Server, request: &FetchRequest<'static>) -> Vec<(i32, usize)> {
    server.ask(request, 12, |r| {
        let answers = r.responses.iter().flat_map(|topic| &topic.partitions);
        answers
            .map(|answer| {
                assert_eq!(answer.error_code, 0);
                let records = answer.records.as_ref().unwrap();
                assert!(batches(records).all(|batch| batch.is_ok()), "whole batches");
                (answer.partition_index, records.len())
            })
            .collect()
    })
}

#[test]
fn p_07_consumer_is_not_stuck_on_one_big_batch() {
    let mut server = Server::start_with(&Arc::new(MemDisk::new()), &[("message.max.bytes", "6000000")]);
    server.create_topic("t", 4);
    let big = batch(&["x".repeat(5_000_000).as_str()]);
    let size = big.len();
    assert_eq!(server.produce_bytes("t", 2, big.clone()), (0, 0));
    let first_four = |from| (0..4).map(|partition| ask(partition, from, 1024)).collect::<Vec<_>>();
    // In the third partition of the request, behind two that are empty; limits of nothing at all ask for no less.
    for (total, each) in [(1024, 1024), (0, 0), (1, i32::MAX), (i32::MAX, -1), (-1, 1)] {
        let mut request = fetch_of("t", Uuid::ZERO, first_four(0));
        request.max_bytes = total;
        request.topics[0].partitions.iter_mut().for_each(|ask| ask.partition_max_bytes = each);
        assert_eq!(sizes(&mut server, &request), [(0, 0), (1, 0), (2, size), (3, 0)], "{total} {each}");
    }
    // Not every partition gives a big batch: only the first that has something.
    assert_eq!(server.produce_bytes("t", 3, big.clone()), (0, 0));
    let mut request = fetch_of("t", Uuid::ZERO, first_four(0));
    assert_eq!(sizes(&mut server, &request), [(0, 0), (1, 0), (2, size), (3, 0)]);
    // A client that asks for them in another order gets on with the other one.
    request.topics[0].partitions.reverse();
    assert_eq!(sizes(&mut server, &request), [(3, size), (2, 0), (1, 0), (0, 0)]);
}

#[test]
fn p_07_a_long_poll_wakes_for_a_batch_above_its_limits() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 2);
    let mut request = fetch_of("t", Uuid::ZERO, vec![ask(0, 0, 100), ask(1, 0, 100)]);
    (request.max_wait_ms, request.max_bytes) = (500, 100);
    let slot = server.send(&request, 12);
    assert_eq!(server.reply(slot), None);
    let large = batch(&["x".repeat(10_000).as_str()]);
    assert_eq!(server.produce_bytes("t", 1, large.clone()), (0, 0));
    let bytes = server.reply(slot).expect("woken, not left until its deadline");
    let response = Server::decode::<FetchRequest<'_>>(&bytes, 12);
    assert_eq!(response.responses[0].partitions[1].records.as_ref().unwrap().len(), large.len());
    // More wanted than the limits allow to be sent: what can be sent is enough.
    (request.min_bytes, request.max_bytes) = (i32::MAX, 100);
    let slot = server.send(&request, 12);
    assert!(server.reply(slot).is_some());
}

#[test]
fn p_07_an_answer_is_bounded_whatever_a_consumer_asks_for() {
    let bytes_max = 20_000;
    let mut server = Server::start_with(&Arc::new(MemDisk::new()), &[("fetch.max.bytes", "20000")]);
    server.create_topic("t", 64);
    let one = batch(&["x".repeat(3000).as_str()]);
    for partition in 0..64 {
        for at in 0..2 {
            assert_eq!(server.produce_bytes("t", partition, one.clone()), (0, at));
        }
    }
    let mut order: Vec<i32> = (0..64).collect();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..22 {
        let partitions = order.iter().map(|partition| ask(*partition, 0, 10 << 20)).collect();
        let mut request = fetch_of("t", Uuid::ZERO, partitions);
        request.max_bytes = i32::MAX;
        let sizes = sizes(&mut server, &request);
        let total: usize = sizes.iter().map(|(_, size)| size).sum();
        assert!(total <= bytes_max && total > bytes_max - one.len(), "{total}");
        // As consumers do: what was given something goes to the end.
        let given: Vec<i32> = sizes.iter().filter(|(_, size)| *size > 0).map(|(partition, _)| *partition).collect();
        order.retain(|partition| !given.contains(partition));
        order.extend(&given);
        seen.extend(given);
    }
    assert_eq!(seen.len(), 64, "nobody starves");
}

#[test]
fn large_records_are_part_of_the_answer_as_they_were_read() {
    let dir = tempfile::tempdir().unwrap();
    let in_files = Server::open_at(Arc::new(FsDisk::new(FsDisk::HANDLES_DEFAULT)), dir.path(), FlushMode::Sync, &[]);
    large_records_are_part_of_the_answer(in_files.unwrap(), true);
    large_records_are_part_of_the_answer(Server::start(&Arc::new(MemDisk::new())), false);
}

fn large_records_are_part_of_the_answer(mut server: Server, in_files: bool) {
    server.create_topic("t", 5);
    let (small, large) = ("s".repeat(100), "l".repeat(100_000));
    for (partition, values) in [(0, [&large; 3]), (1, [&small; 3]), (2, [&large; 3]), (4, [&small; 3])] {
        for value in values {
            server.produce_bytes("t", partition, batch(&[value]));
        }
    }
    let id = server.topic_id("t");
    let partitions: Vec<_> = (0..5).map(|partition| ask(partition, 0, 1 << 20)).collect();
    for version in 4..=ApiKey::Fetch.served().unwrap().max {
        let before = telemetry::api(&server, ApiKey::Fetch).response_bytes().get();
        let slot = server.send(&fetch_of("t", id, partitions.clone()), version);
        let reply = server.shell.replies.lock().unwrap().remove(&(server.connection.id(), slot)).unwrap();
        let Reply::Frame { first, rest } = &reply else { panic!("{reply:?}") };
        let is_large: Vec<bool> =
            [first.len()].into_iter().chain(rest.iter().map(Piece::len)).map(|bytes| bytes > 3 * large.len()).collect();
        assert_eq!(is_large, [false, true, false, true, false], "version {version}");
        let is_in_file = rest.iter().filter(|piece| matches!(piece, Piece::File(_))).count();
        assert_eq!(is_in_file, if in_files { 2 } else { 0 });
        let size = i32::from_be_bytes(first[..4].try_into().unwrap());
        let bytes = reply.body().unwrap();
        assert_eq!(usize::try_from(size).unwrap(), bytes.len());
        let counted = telemetry::api(&server, ApiKey::Fetch).response_bytes().get() - before;
        assert_eq!(counted, bytes.len() as u64, "all of it is counted");
        let response = Server::decode::<FetchRequest<'_>>(&bytes, version);
        for (answer, value) in response.responses[0].partitions.iter().zip([&large, &small, &large, "", &small]) {
            let mut values = 0;
            for batch in batches(answer.records.as_deref().unwrap()) {
                let records = batch.unwrap().records().unwrap();
                let found = records.iter().map(|record| record.unwrap().value.unwrap().to_vec()).collect::<Vec<_>>();
                assert_eq!(found, [value.as_bytes()], "version {version}");
                values += 1;
            }
            assert_eq!(values, if value.is_empty() { 0 } else { 3 }, "version {version}");
        }
    }
}
