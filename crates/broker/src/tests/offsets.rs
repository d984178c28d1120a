//! Committed offsets, as far as the broker looks at them itself.

use riparian_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
};

use super::*;

const OFFSET_METADATA_TOO_LARGE: i16 = 12;
const NOT_COORDINATOR: i16 = 16;
const INVALID_GROUP_ID: i16 = 24;
const UNKNOWN_MEMBER_ID: i16 = 25;
const INVALID_REQUEST: i16 = 42;
const GROUP_ID_NOT_FOUND: i16 = 69;
const STALE_MEMBER_EPOCH: i16 = 113;

fn commit(server: &mut Server, group: &'static str, metadata: String) -> i16 {
    commit_as(server, group, -1, metadata)
}

fn offset_commit(group: &'static str, epoch: i32, metadata: String) -> OffsetCommitRequest<'static> {
    let partition = OffsetCommitRequestPartition {
        committed_leader_epoch: -1,
        committed_metadata: Some(metadata.into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic { name: "t".into(), partitions: vec![partition], ..Default::default() };
    OffsetCommitRequest {
        group_id: group.into(),
        member_id: if epoch < 0 { "" } else { "m" }.into(),
        generation_id_or_member_epoch: epoch,
        topics: vec![topic],
        ..Default::default()
    }
}

fn commit_as(server: &mut Server, group: &'static str, epoch: i32, metadata: String) -> i16 {
    server.ask(&offset_commit(group, epoch, metadata), 9, |r| r.topics[0].partitions[0].error_code)
}

#[test]
fn metadata_beside_an_offset_is_as_long_as_java_says() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    for (letter, units) in [("m", 1), ("\u{e9}", 1), ("\u{20ac}", 1), ("\u{1f30a}", 2)] {
        assert_eq!(commit(&mut server, "g", letter.repeat(4096 / units)), 0, "{letter}");
        let one_too_many = letter.repeat(4096 / units + 1);
        assert_eq!(commit(&mut server, "g", one_too_many), OFFSET_METADATA_TOO_LARGE, "{letter}");
    }
}

/// As in Kafka; otherwise a member that was fenced would go on with less metadata.
#[test]
fn who_may_not_commit_is_told_so_whatever_the_metadata() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    let too_large = "m".repeat(4097);
    assert_eq!(commit_as(&mut server, "g", 3, too_large.clone()), GROUP_ID_NOT_FOUND);
    assert_eq!(commit(&mut server, "g", String::new()), 0);
    assert_eq!(commit_as(&mut server, "g", 3, too_large.clone()), UNKNOWN_MEMBER_ID);
    assert_eq!(commit(&mut server, "g", too_large), OFFSET_METADATA_TOO_LARGE);
}

#[test]
fn offsets_of_the_group_without_a_name_can_be_deleted() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    let request = DeleteGroupsRequest { groups_names: vec!["".into()], ..Default::default() };
    let delete = |server: &mut Server| server.ask(&request, 2, |r| r.results[0].error_code);
    assert_eq!(delete(&mut server), GROUP_ID_NOT_FOUND);
    assert_eq!(commit(&mut server, "", String::new()), 0);
    assert_eq!(delete(&mut server), 0);
    assert_eq!(delete(&mut server), GROUP_ID_NOT_FOUND);
}

#[test]
fn a_group_that_is_named_twice_is_deleted_once() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    assert_eq!(commit(&mut server, "g", String::new()), 0);
    let request =
        DeleteGroupsRequest { groups_names: ["g", "none", "g"].map(Into::into).to_vec(), ..Default::default() };
    let results = server.ask(&request, 2, |r| {
        r.results.iter().map(|result| (result.group_id.to_string(), result.error_code)).collect::<Vec<_>>()
    });
    assert_eq!(results, [("g".to_owned(), 0), ("none".to_owned(), GROUP_ID_NOT_FOUND)]);
}

#[test]
fn groups_without_a_name_are_described_first() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    let group_ids = ["app", "", "other"].map(Into::into).to_vec();
    let request = StreamsGroupDescribeRequest { group_ids, ..Default::default() };
    let answers: Vec<_> = server
        .ask(&request, 1, |r| r.groups.iter().map(|group| (group.group_id.to_string(), group.error_code)).collect());
    let expected = [("", INVALID_GROUP_ID), ("app", GROUP_ID_NOT_FOUND), ("other", GROUP_ID_NOT_FOUND)];
    assert_eq!(answers, expected.map(|(group, code)| (group.to_owned(), code)));
}

#[test]
fn m_09_a_stale_epoch_for_one_group_leaves_the_others_of_the_request_alone() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    let epoch = server.ask(&join("m"), 1, |reply| reply.member_epoch);
    assert_eq!(commit(&mut server, "other", String::new()), 0);
    let group = |id: &'static str, member: Option<&'static str>, member_epoch| OffsetFetchRequestGroup {
        group_id: id.into(),
        member_id: member.map(Into::into),
        member_epoch,
        topics: Some(vec![OffsetFetchRequestTopics {
            name: "t".into(),
            partition_indexes: vec![0],
            ..Default::default()
        }]),
        ..Default::default()
    };
    let ask = |server: &mut Server, epochs: [i32; 2]| {
        let groups = vec![
            group("app", Some("m"), epochs[0]),
            group("other", None, -1),
            group("app", None, -1),
            group("app", Some("m"), epochs[1]),
        ];
        let request = OffsetFetchRequest { groups, ..Default::default() };
        server.ask(&request, 9, |reply| {
            let offset = |group: &riparian_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup<'_>| {
                group.topics.first().map(|topic| topic.partitions[0].committed_offset)
            };
            reply.groups.iter().map(|group| (group.error_code, offset(group))).collect::<Vec<_>>()
        })
    };
    let (stale, none, committed) = ((STALE_MEMBER_EPOCH, None), (0, Some(-1)), (0, Some(0)));
    assert_eq!(ask(&mut server, [epoch - 1, epoch]), [stale, committed, none, none]);
    assert_eq!(ask(&mut server, [epoch, epoch + 1]), [none, committed, none, stale]);
}

/// Version 1 has no place for an error of the whole; a client that is told of no partition takes it that nothing was
/// committed.
#[test]
fn a_group_that_cannot_be_asked_is_told_in_every_version() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    assert_eq!(commit(&mut server, "g", String::new()), 0);
    let mut topics =
        vec![OffsetFetchRequestTopic { name: "t".into(), partition_indexes: vec![0, 4, 0], ..Default::default() }];
    topics.push(topics[0].clone());
    let request = OffsetFetchRequest { group_id: "g".into(), topics: Some(topics), ..Default::default() };
    let told = |reply: OffsetFetchResponse<'_>| {
        let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
        (reply.error_code, partitions.map(|it| (it.partition_index, it.error_code)).collect::<Vec<_>>())
    };
    for version in 1..8 {
        // Each once, however often it is asked for.
        assert_eq!(server.ask(&request, version, told), (0, vec![(0, 0), (4, 0)]), "version {version}");
    }
    // Its shard has no log any more.
    let shard = server.broker.group_shard(&"g".into());
    server.broker.write_checkpoints();
    drop(server);
    let log = format!("/data/__consumer_offsets-{shard}/00000000000000000000.log");
    disk.tamper(Path::new(&log), |bytes| bytes[70] ^= 1).unwrap();
    let mut server = Server::start(&disk);
    for version in 1..8 {
        let all = if version < 2 { vec![(0, NOT_COORDINATOR), (4, NOT_COORDINATOR)] } else { Vec::new() };
        let whole = if version < 2 { 0 } else { NOT_COORDINATOR };
        assert_eq!(server.ask(&request, version, told), (whole, all), "version {version}");
    }
}

#[test]
fn a_group_is_told_of_only_so_often_in_one_answer() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    assert_eq!(commit(&mut server, "g", String::new()), 0);
    let check = |codes: Vec<i16>| {
        assert_eq!(codes.len(), 13, "each is answered");
        assert_eq!(codes.iter().filter(|code| **code == INVALID_REQUEST).count(), 2, "{codes:?}");
    };
    let names = || [vec!["g"; 12], vec!["other"]].concat();
    let groups = names().into_iter().map(|id| OffsetFetchRequestGroup { group_id: id.into(), ..Default::default() });
    let request = OffsetFetchRequest { groups: groups.collect(), ..Default::default() };
    check(server.ask(&request, 8, |r| r.groups.iter().map(|group| group.error_code).collect()));
    let groups = names().into_iter().map(Into::into).collect();
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    check(server.ask(&request, 5, |r| r.groups.iter().map(|group| group.error_code).collect()));
    let group_ids = names().into_iter().map(Into::into).collect();
    let request = StreamsGroupDescribeRequest { group_ids, ..Default::default() };
    check(server.ask(&request, 1, |r| r.groups.iter().map(|group| group.error_code).collect()));
}
