//! Whoever waits for something is told, and leaves nothing behind.

use riparian_types::{PartitionIndex, TopicName};

use super::*;

fn partition(server: &Server, topic: &str, index: i32) -> Arc<crate::partition::Partition> {
    server.broker.partition(&TopicName::from(topic), PartitionIndex(index)).unwrap()
}

fn code(server: &Server, slot: u64) -> i16 {
    let bytes = server.reply(slot).expect("an answer");
    Server::decode::<ProduceRequest<'_>>(&bytes, 9).responses[0].partition_responses[0].error_code
}

#[test]
fn a_produce_is_not_answered_for_what_others_wrote_after_a_failure() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let lost = server.send(&produce("t", &["lost"]), 9);
    // Somebody finds the log failed and opens it again before the sync comes to it.
    server.broker.reopen(server.shell.now(), &partition(&server, "t", 0));
    let kept = server.send(&produce("t", &["kept"]), 9);
    server.shell.run_jobs();
    assert_eq!((code(&server, lost), code(&server, kept)), (56, 0));
    let found = server.ask(&fetch("t", 0, 0), 12, |r| values(r.responses[0].partitions[0].records.as_ref().unwrap()));
    assert_eq!(found, ["kept"]);
    assert_eq!(partition(&server, "t", 0).waiter_counts(), (0, 0));
}

#[test]
fn a_produce_to_a_topic_that_is_deleted_meanwhile_is_answered() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let slot = server.send(&produce("t", &["a"]), 9);
    let old = partition(&server, "t", 0);
    // The deletion comes first, the sync of the partition later.
    let sync = server.shell.jobs.lock().unwrap().pop_front().unwrap();
    let topic = DeleteTopicState { name: Some("t".into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![topic], ..Default::default() };
    assert_eq!(server.ask(&request, 6, |r| r.responses[0].error_code), 0);
    server.create_topic("t", 1);
    let next = server.send(&produce("t", &["b"]), 9);
    sync();
    server.broker.reopen(server.shell.now(), &old);
    server.shell.run_jobs();
    assert_eq!((code(&server, slot), code(&server, next)), (56, 0), "the new topic is another one");
}

#[test]
fn a_connection_that_ends_takes_its_long_polls_along() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let timers = server.broker.timers.count();
    for _ in 0..100 {
        let slot = server.send(&fetch("t", 0, 300_000), 12);
        assert_eq!(server.reply(slot), None);
    }
    assert_eq!(partition(&server, "t", 0).waiter_counts(), (0, 100));
    server.broker.disconnected(server.shell.now(), &server.connection);
    assert_eq!(partition(&server, "t", 0).waiter_counts(), (0, 0));
    assert_eq!(server.broker.timers.count(), timers);
}

#[test]
fn a_broker_that_goes_takes_whoever_waits_along() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    server.create_topic("other", 1);
    let slot = server.send(&fetch("t", 0, 300_000), 12);
    // Its sync never comes.
    server.send(&produce("other", &["x"]), 9);
    assert_eq!(server.reply(slot), None);
    let jobs = std::mem::take(&mut *server.shell.jobs.lock().unwrap());
    drop((jobs, server));
    assert_eq!(Arc::strong_count(&disk), 1, "something still has the disk of a broker that is gone");
}

#[test]
fn a_client_in_a_hurry_gets_what_there_is() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let timers = server.broker.timers.count();
    let before = server.send(&fetch("t", 0, 300_000), 12);
    server.broker.hurry(server.shell.now(), &server.connection);
    let after = server.send(&fetch("t", 0, 300_000), 12);
    assert!(server.reply(before).is_some() && server.reply(after).is_some());
    assert_eq!(partition(&server, "t", 0).waiter_counts(), (0, 0));
    assert_eq!(server.broker.timers.count(), timers);
}

#[test]
fn an_answered_long_poll_leaves_no_timer() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let timers = server.broker.timers.count();
    for round in 0..20 {
        let slot = server.send(&fetch("t", round, 300_000), 12);
        server.ask(&produce("t", &["x"]), 9, |_| ());
        assert!(server.reply(slot).is_some());
    }
    assert_eq!(server.broker.timers.count(), timers);
}

#[test]
fn a_shard_has_one_timer_however_often_it_was_set_anew() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("words", 3);
    let mut counts = Vec::new();
    for round in 0..40u64 {
        // The first rebalance of a new group is due before the sessions of the others.
        let request = StreamsGroupHeartbeatRequest { group_id: format!("app{round}").into(), ..join("m") };
        assert_eq!(server.ask(&request, 1, |r| r.error_code), 0);
        for _ in 0..8 {
            server.shell.now_ms.fetch_add(1000, Ordering::Relaxed);
            server.broker.on_time(server.shell.now());
            server.shell.run_jobs();
        }
        counts.push(server.broker.timers.count());
    }
    assert!(counts.iter().all(|count| *count <= 20), "{counts:?}");
}

/// A fetch of a topic's partitions, from their starts, that waits until it has so much.
fn patient(topic: &'static str, partitions: &[i32], bytes_min: i32, partition_bytes_max: i32) -> FetchRequest<'static> {
    let mut request = fetch(topic, 0, 300_000);
    (request.min_bytes, request.max_bytes) = (bytes_min, 1 << 24);
    let ask = FetchPartition { partition_max_bytes: partition_bytes_max, ..request.topics[0].partitions[0].clone() };
    let asks = partitions.iter().map(|&partition| FetchPartition { partition, ..ask.clone() });
    request.topics[0].partitions = asks.collect();
    request
}

fn bytes_read(disk: &MemDisk) -> u64 {
    disk.take_bytes_read().values().sum()
}

#[test]
fn an_append_costs_whoever_waits_for_much_what_is_new_and_not_what_there_was() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let large = "x".repeat(10_000);
    let put = |server: &mut Server, value: &str| server.ask(&produce("t", &[value]), 9, |_| ());
    (0..200).for_each(|_| put(&mut server, &large));
    // The second can never have enough: its partition may give no more than there is.
    let slots = [(2_500_000, 1 << 24), (2_500_000, 1_000_000)]
        .map(|(bytes_min, partition_max)| server.send(&patient("t", &[0], bytes_min, partition_max), 12));
    bytes_read(&disk);
    (0..20).for_each(|_| put(&mut server, "small"));
    let read = bytes_read(&disk);
    assert!(read < 20 * 50_000, "{read} bytes were read for 20 small batches");
    assert_eq!(slots.map(|slot| server.reply(slot)), [None, None]);
    (0..50).for_each(|_| put(&mut server, &large));
    let bytes = server.reply(slots[0]).expect("there is enough");
    let response = Server::decode::<FetchRequest<'_>>(&bytes, 12);
    let found = values(response.responses[0].partitions[0].records.as_ref().unwrap());
    assert!(found.len() > 220, "{} records", found.len());
    assert_eq!(server.reply(slots[1]), None);
    server.broker.hurry(server.shell.now(), &server.connection);
    assert!(server.reply(slots[1]).is_some());
}

#[test]
fn whoever_waits_for_much_has_it_from_several_partitions_and_segments() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &[("log.segment.bytes", "1048576")]);
    server.create_topic("t", 3);
    let large = "x".repeat(600_000);
    let put = |server: &mut Server, partition: i32| {
        let mut request = produce("t", &[&large]);
        request.topic_data[0].partition_data[0].index = partition;
        server.ask(&request, 9, |r| assert_eq!(r.responses[0].partition_responses[0].error_code, 0));
    };
    // One batch in each segment, and a reader that is allowed less than one batch.
    for (partitions, bytes_min, partition_max) in
        [(&[0, 2][..], 1_300_000, 1 << 24), (&[1], 1_300_000, 1 << 24), (&[1], 1, 1000)]
    {
        let slot = server.send(&patient("t", partitions, bytes_min, partition_max), 12);
        let mut count = 0;
        while server.reply(slot).is_none() {
            assert!(count < 5, "{partitions:?} {bytes_min} {partition_max}");
            put(&mut server, partitions[count % partitions.len()]);
            count += 1;
        }
        assert_eq!(count, if bytes_min == 1 { 0 } else { 3 }, "{partitions:?} {bytes_min} {partition_max}");
    }
}

#[test]
fn a_partition_that_is_asked_for_often_is_answered_once_and_waited_for_once() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 2);
    server.create_topic("other", 1);
    let mut request = patient("t", &[1, 0, 1, 1, 0], 1, 1 << 20);
    // The last word counts: there is no such offset.
    request.topics[0].partitions[1].fetch_offset = 5;
    let other = FetchTopic { topic: "other".into(), ..request.topics[0].clone() };
    let again = request.topics[0].clone();
    let other = FetchTopic { partitions: vec![other.partitions[4].clone(); 1000], ..other };
    request.topics.extend([other, again]);
    let slot = server.send(&request, 12);
    let waiting = |index| partition(&server, "t", index).waiter_counts().1;
    assert_eq!((server.reply(slot), waiting(0), waiting(1)), (None, 1, 1));
    server.ask(&produce("t", &["x"]), 9, |_| ());
    let bytes = server.reply(slot).expect("there is a record");
    let response = Server::decode::<FetchRequest<'_>>(&bytes, 12);
    let answered: Vec<_> = response
        .responses
        .iter()
        .map(|topic| (&*topic.topic, topic.partitions.iter().map(|it| it.partition_index).collect::<Vec<_>>()))
        .collect();
    assert_eq!(answered, [("t", vec![1, 0]), ("other", vec![0])]);
}
