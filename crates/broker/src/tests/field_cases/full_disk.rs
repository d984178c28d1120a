//! A disk without room: what is refused, what goes on, and that nobody has to repair anything.

use riparian_protocol::messages::{
    OffsetCommitRequest, OffsetFetchRequest,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
};

use super::*;

const NOT_COORDINATOR: i16 = 16;
const KAFKA_STORAGE_ERROR: i16 = 56;
const SETTINGS: [(&str, &str); 2] =
    [("group.streams.initial.rebalance.delay.ms", "0"), ("group.streams.assignment.interval.ms", "0")];

/// Long enough for a shard that failed to be loaded again.
fn pause(server: &mut Server) {
    server.shell.now_ms.fetch_add(1000, Ordering::Relaxed);
    server.broker.on_time(server.shell.now());
    server.shell.run_jobs();
}

fn beat(server: &mut Server, epoch: i32) -> (i16, i32) {
    let request = StreamsGroupHeartbeatRequest {
        group_id: "app".into(),
        member_id: "m".into(),
        member_epoch: epoch,
        ..Default::default()
    };
    server.ask(&request, 1, |r| (r.error_code, r.member_epoch))
}

fn commit(server: &mut Server, epoch: i32, offset: i64) -> i16 {
    let partition =
        OffsetCommitRequestPartition { committed_offset: offset, committed_leader_epoch: -1, ..Default::default() };
    let topic = OffsetCommitRequestTopic { name: "words".into(), partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: "app".into(),
        member_id: "m".into(),
        generation_id_or_member_epoch: epoch,
        topics: vec![topic],
        ..Default::default()
    };
    server.ask(&request, 9, |r| r.topics[0].partitions[0].error_code)
}

fn committed(server: &mut Server) -> i64 {
    let topic = OffsetFetchRequestTopics { name: "words".into(), partition_indexes: vec![0], ..Default::default() };
    let group = OffsetFetchRequestGroup { group_id: "app".into(), topics: Some(vec![topic]), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    server.ask(&request, 9, |r| r.groups[0].topics[0].partitions[0].committed_offset)
}

fn end(server: &mut Server) -> i64 {
    server.offset_at("words", -1).0
}

#[test]
fn s_10_on_a_full_disk_nothing_is_claimed_and_with_room_again_all_goes_on() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &SETTINGS);
    server.create_topic("words", 1);
    let epoch = server.ask(&join("m"), 1, |r| r.member_epoch);
    let (_, epoch) = beat(&mut server, epoch);
    assert_eq!(commit(&mut server, epoch, 1), 0);
    // Room for some records and commits, and not for a whole one at the end.
    disk.set_faults(MemFaults { capacity_bytes: Some(disk.used_bytes() + 2000), ..MemFaults::default() });
    let value = "x".repeat(150);
    let mut acknowledged = 0;
    for _ in 0..30 {
        match server.produce_bytes("words", 0, batch(&[&value])) {
            (0, base) => acknowledged = base + 1,
            (code, _) => assert_eq!(code, KAFKA_STORAGE_ERROR),
        }
    }
    assert!((1..30).contains(&acknowledged));
    // What is too small for a record may do for some commits.
    let mut stored = 1;
    while commit(&mut server, epoch, stored + 1) == 0 {
        stored += 1;
    }
    for round in 0..3 {
        pause(&mut server);
        // A steady member claims nothing new, and is answered; a commit is refused so that it is tried again.
        assert_eq!(beat(&mut server, epoch), (0, epoch), "round {round}");
        assert_eq!(commit(&mut server, epoch, 100 + round), NOT_COORDINATOR);
        pause(&mut server);
        assert_eq!(committed(&mut server), stored, "what was not stored is not told");
        assert_eq!(end(&mut server), acknowledged, "no half batch");
        let (code, records) = server.fetched("words", 0);
        assert_eq!((code, values(&records).len() as i64), (0, acknowledged));
        assert_ne!(server.ask(&join("n"), 1, |r| r.error_code), 0, "nobody joins without a record");
        // The next start finds it full.
        match round {
            0 => server.broker.shutdown(server.shell.now()),
            1 => disk.power_cut(),
            _ => {}
        }
        drop(server);
        server = Server::start_with(&disk, &SETTINGS);
    }
    disk.set_faults(MemFaults::default());
    assert_eq!(beat(&mut server, epoch), (0, epoch));
    assert_eq!(commit(&mut server, epoch, 7), 0);
    assert_eq!(server.produce_bytes("words", 0, batch(&["more"])), (0, acknowledged));
    assert_eq!(server.ask(&join("n"), 1, |r| r.error_code), 0);
    drop(server);
    disk.power_cut();
    let mut server = Server::start_with(&disk, &SETTINGS);
    assert_eq!((committed(&mut server), end(&mut server)), (7, acknowledged + 1));
}

#[test]
fn s_10_a_server_that_runs_while_room_comes_back_needs_no_restart() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &SETTINGS);
    server.create_topic("words", 1);
    let epoch = server.ask(&join("m"), 1, |r| r.member_epoch);
    let (_, epoch) = beat(&mut server, epoch);
    for round in 0..5 {
        let capacity_bytes = Some(disk.used_bytes() + 12 * round);
        disk.set_faults(MemFaults { capacity_bytes, ..MemFaults::default() });
        assert_eq!(server.produce_bytes("words", 0, batch(&[&"x".repeat(300)])).0, KAFKA_STORAGE_ERROR);
        assert_eq!(commit(&mut server, epoch, 5), NOT_COORDINATOR);
        assert_ne!(server.ask(&join("n"), 1, |r| r.error_code), 0);
        disk.set_faults(MemFaults::default());
        pause(&mut server);
        assert_eq!(commit(&mut server, epoch, round as i64), 0, "round {round}");
        assert_eq!(server.produce_bytes("words", 0, batch(&["y"])), (0, round as i64));
        assert_eq!(beat(&mut server, epoch), (0, epoch));
    }
    assert_eq!(committed(&mut server), 4);
}

#[test]
fn s_10_what_is_due_at_once_is_not_tried_in_a_loop_while_the_disk_is_full() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &SETTINGS);
    server.create_topic("words", 1);
    let epoch = server.ask(&join("m"), 1, |r| r.member_epoch);
    let (_, epoch) = beat(&mut server, epoch);
    disk.set_faults(MemFaults { capacity_bytes: Some(disk.used_bytes()), ..MemFaults::default() });
    disk.take_bytes_read();
    // The member's session is over, which is to be written down, and the log is read for each attempt.
    let log = server.broker.groups[server.broker.group_shard(&"app".into())].partition().log();
    let shard_bytes = log.byte_len();
    for ms in (60_000..61_000).step_by(10) {
        server.shell.now_ms.store(ms, Ordering::Relaxed);
        server.broker.on_time(server.shell.now());
        server.shell.run_jobs();
        let _ = commit(&mut server, epoch, 3);
    }
    let path = Path::new("/data").join(format!("{}-{}", log.topic(), log.partition())).join("00000000000000000000.log");
    let read = disk.take_bytes_read().remove(&path).unwrap_or(0);
    assert!(read > 0 && read < 60 * shard_bytes, "{read} bytes read of {shard_bytes}");
    disk.set_faults(MemFaults::default());
    pause(&mut server);
    assert_eq!(server.ask(&join("m"), 1, |r| r.error_code), 0);
}

#[test]
fn s_10_what_is_due_on_a_full_disk_is_not_tried_without_end() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &[("group.streams.initial.rebalance.delay.ms", "100")]);
    server.create_topic("words", 1);
    let epoch = server.ask(&join("m"), 1, |r| r.member_epoch);
    disk.set_faults(MemFaults { capacity_bytes: Some(disk.used_bytes()), ..MemFaults::default() });
    for _ in 0..20 {
        server.shell.now_ms.fetch_add(100, Ordering::Relaxed);
        // It would never come back.
        server.broker.on_time(server.shell.now());
        server.shell.run_jobs();
    }
    disk.set_faults(MemFaults::default());
    pause(&mut server);
    let (code, now_at) = beat(&mut server, epoch);
    assert!(code == 0 && now_at >= epoch, "{code} {now_at}");
}
