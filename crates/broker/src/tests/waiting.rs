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
