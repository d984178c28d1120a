//! Files that are damaged below what was durable: who is told, and who does not notice.

use riparian_protocol::messages::{
    DeleteGroupsRequest, FindCoordinatorRequest, ListGroupsRequest, OffsetForLeaderEpochRequest,
    offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
};

use super::{storage::delete, *};

const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const KAFKA_STORAGE_ERROR: i16 = 56;
const FIRST: &str = "00000000000000000000.log";
const SETTINGS: [(&str, &str); 2] =
    [("group.streams.initial.rebalance.delay.ms", "0"), ("group.streams.assignment.interval.ms", "0")];

fn path(dir: &str, file: &str) -> std::path::PathBuf {
    Path::new("/data").join(dir).join(file)
}

/// Damages the first batch, which was durable.
fn damage(disk: &MemDisk, dir: &str) {
    disk.tamper(&path(dir, FIRST), |bytes| bytes[70] ^= 1).unwrap();
}

fn delete_topic(server: &mut Server, topic: &'static str) {
    let state = DeleteTopicState { name: Some(topic.into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![state], ..Default::default() };
    assert_eq!(server.ask(&request, 6, |r| r.responses[0].error_code), 0);
}

/// Everything that a client may want of partition 0: error codes of produce, fetch, three ways to list offsets, the end
/// of an epoch, and a deletion of records.
fn codes(server: &mut Server, topic: &'static str) -> [i16; 7] {
    let list = |server: &mut Server, timestamp| {
        let partition = ListOffsetsPartition { timestamp, current_leader_epoch: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: topic.into(), partitions: vec![partition], ..Default::default() };
        let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        server.ask(&request, 7, |r| r.topics[0].partitions[0].error_code)
    };
    let partition = OffsetForLeaderPartition { current_leader_epoch: -1, ..Default::default() };
    let epoch_topic = OffsetForLeaderTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() };
    let epochs = OffsetForLeaderEpochRequest { replica_id: -1, topics: vec![epoch_topic], ..Default::default() };
    [
        server.produce_bytes(topic, 0, batch(&["more"])).0,
        server.fetched(topic, 0).0,
        list(server, -1),
        list(server, -2),
        list(server, 0),
        server.ask(&epochs, 4, |r| r.topics[0].partitions[0].error_code),
        delete(server, topic, 0, 0).0,
    ]
}

#[test]
fn s_02_a_damaged_partition_answers_a_storage_error_and_all_others_are_served() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    for topic in ["damaged", "nameless", "healthy"] {
        server.create_topic(topic, 2);
        for partition in 0..2 {
            assert_eq!(server.produce_bytes(topic, partition, batch(&["a", "b"])), (0, 0));
        }
    }
    server.broker.write_checkpoints();
    drop(server);
    damage(&disk, "damaged-0");
    disk.remove_file(&path("nameless-0", "partition.metadata")).unwrap();
    for start in 0..2 {
        let mut server = Server::start(&disk);
        for _ in 0..2 {
            assert_eq!(codes(&mut server, "damaged"), [KAFKA_STORAGE_ERROR; 7]);
            assert_eq!(codes(&mut server, "nameless"), [KAFKA_STORAGE_ERROR; 7]);
        }
        assert_eq!(codes(&mut server, "healthy"), [0; 7]);
        for topic in ["damaged", "nameless"] {
            assert_eq!(server.produce_bytes(topic, 1, batch(&["c"])), (0, 2 + start), "the partition beside it");
        }
        // A fetch of both gets the error and does not wait.
        let waiting = server.send(&fetch("damaged", 0, 500), 12);
        server.shell.run_jobs();
        assert!(server.reply(waiting).is_some());
        server.broker.enforce_retention(server.shell.now());
        server.broker.shutdown(server.shell.now());
    }
    let mut server = Server::start(&disk);
    for topic in ["damaged", "nameless"] {
        delete_topic(&mut server, topic);
        server.create_topic(topic, 2);
        assert_eq!(server.produce_bytes(topic, 0, batch(&["anew"])), (0, 0));
    }
    drop(server);
    let mut server = Server::start(&disk);
    assert_eq!(codes(&mut server, "damaged"), [0; 7]);
    assert_eq!(codes(&mut server, "nameless"), [0; 7]);
}

/// A heartbeat of a group of its own; the error code.
fn join_group(server: &mut Server, group: &'static str) -> i16 {
    let request = StreamsGroupHeartbeatRequest { group_id: group.into(), ..join("m") };
    server.ask(&request, 1, |r| r.error_code)
}

fn coordinator(server: &mut Server, group: &'static str) -> i16 {
    let request = FindCoordinatorRequest { coordinator_keys: vec![group.into()], ..Default::default() };
    server.ask(&request, 4, |r| r.coordinators[0].error_code)
}

const GROUPS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn s_02_a_damaged_group_log_costs_the_groups_in_it_and_no_others() {
    // The last batch of an active segment, and the first of an old one, which only loading comes by.
    for in_old_segment in [false, true] {
        let disk = Arc::new(MemDisk::new());
        let mut server = Server::start_with(&disk, &SETTINGS);
        server.create_topic("words", 1);
        for group in GROUPS {
            assert_eq!(join_group(&mut server, group), 0);
        }
        let shard = server.broker.group_shard(&"a".into());
        let dir = format!("__consumer_offsets-{shard}");
        if in_old_segment {
            let log = server.broker.groups[shard].partition().log();
            log.set_config(LogConfig { segment_ms: 0, ..log.config() });
            server.shell.now_ms.store(60_000, Ordering::Relaxed);
            let leave = StreamsGroupHeartbeatRequest {
                group_id: "a".into(),
                member_id: "m".into(),
                member_epoch: -1,
                ..Default::default()
            };
            assert_eq!(server.ask(&leave, 1, |r| r.error_code), 0);
            let segments = disk.list(Path::new("/data").join(&dir).as_path()).unwrap();
            assert!(segments.iter().filter(|entry| entry.name.ends_with(".log")).count() > 1, "{segments:?}");
        }
        server.broker.write_checkpoints();
        drop(server);
        damage(&disk, &dir);
        let mut server = Server::start_with(&disk, &SETTINGS);
        let (lost, there): (Vec<_>, Vec<_>) =
            GROUPS.into_iter().partition(|group| server.broker.group_shard(&(*group).into()) == shard);
        assert!(!lost.is_empty() && !there.is_empty());
        for group in lost {
            assert_eq!(coordinator(&mut server, group), COORDINATOR_NOT_AVAILABLE);
            assert_eq!(join_group(&mut server, group), NOT_COORDINATOR, "which makes clients look for it again");
            let request = DeleteGroupsRequest { groups_names: vec![group.into()], ..Default::default() };
            assert_eq!(server.ask(&request, 2, |r| r.results[0].error_code), NOT_COORDINATOR);
        }
        for group in &there {
            assert_eq!(coordinator(&mut server, group), 0);
            assert_eq!(join_group(&mut server, group), 0);
        }
        let listed = server.ask(&ListGroupsRequest::default(), 4, |r| (r.error_code, r.groups.len()));
        assert_eq!(listed, (0, there.len()));
        // Changes that all shards are told of do not wake it.
        delete_topic(&mut server, "words");
        server.broker.on_time(server.shell.now());
        assert_eq!(coordinator(&mut server, "a"), COORDINATOR_NOT_AVAILABLE);
    }
}

#[test]
fn s_02_without_the_metadata_there_is_no_start_and_the_place_is_named() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    server.broker.write_checkpoints();
    drop(server);
    damage(&disk, "__cluster_metadata-0");
    let error = Server::open(&disk, FlushMode::Sync, &[]).err().expect("a refusal").to_string();
    let place = format!("/data/__cluster_metadata-0/{FIRST} is damaged at byte 0, where offset 0 is due");
    assert!(error.starts_with("__cluster_metadata can't be loaded") && error.contains(&place), "{error}");
}
