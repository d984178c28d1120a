//! What is counted, and when.

use riparian_protocol::{ApiKey, ErrorCode};

use super::*;
use crate::telemetry::{ApiCounters, GroupLimit, Limit, LogKind};

pub(super) fn api(server: &Server, key: ApiKey) -> &ApiCounters {
    server.broker.telemetry().apis().iter().find(|api| api.key() == key).expect("it is served")
}

#[test]
fn what_is_asked_in_one_go_is_synced_in_one_go() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 2);
    let slots: Vec<u64> = (0..5).map(|_| server.send_unsettled(&produce("t", &["a"]), 9)).collect();
    assert!(server.shell.jobs.lock().unwrap().is_empty(), "more is at hand");
    server.broker.settle(server.shell.now(), &server.connection);
    assert_eq!(server.shell.jobs.lock().unwrap().len(), 1);
    let log = server.broker.telemetry().logs(LogKind::Clients);
    server.shell.run_jobs();
    assert_eq!((log.appends.get(), log.syncs.read().count()), (5, 1));
    assert!(slots.iter().all(|&slot| server.reply(slot).is_some()), "all of them are answered");
    // A connection that ends leaves nothing behind that nobody syncs.
    let slot = server.send_unsettled(&produce("t", &["b"]), 9);
    server.broker.disconnected(server.shell.now(), &server.connection);
    server.shell.run_jobs();
    assert!(server.reply(slot).is_some(), "it is durable");
    server.broker.settle(server.shell.now(), &server.connection);
    assert!(server.shell.jobs.lock().unwrap().is_empty(), "it was settled");
}

#[test]
fn an_answer_that_waits_counts_when_it_leaves_with_the_time_it_took() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let slot = server.send(&produce("t", &["a"]), 9);
    assert_eq!(api(&server, ApiKey::Produce).answered_with(ErrorCode::None), 0);
    server.shell.now_ms.store(40, Ordering::Relaxed);
    server.shell.run_jobs();
    let reply = server.reply(slot).expect("it is durable");
    let counted = api(&server, ApiKey::Produce);
    assert_eq!(counted.answered_with(ErrorCode::None), 1);
    assert_eq!((counted.latency().read().count(), counted.latency().read().micros), (1, 40_000));
    assert_eq!(counted.response_bytes().get(), reply.len() as u64);
    let log = server.broker.telemetry().logs(LogKind::Clients);
    assert_eq!((log.appends.get(), log.records.get(), log.syncs.read().count()), (1, 1, 1));
}

#[test]
fn a_request_without_an_answer_counts_with_its_error() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    for topic in ["t", "nowhere"] {
        server.send(&ProduceRequest { acks: 0, ..produce(topic, &["a"]) }, 9);
    }
    let counted = api(&server, ApiKey::Produce);
    assert_eq!(counted.answered_with(ErrorCode::None), 1);
    assert_eq!(counted.answered_with(ErrorCode::UnknownTopicOrPartition), 1);
}

#[test]
fn a_fetch_that_nobody_waits_for_any_more_is_not_counted_as_answered() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    server.send(&fetch("t", 0, 500), 12);
    server.broker.disconnected(server.shell.now(), &server.connection);
    assert_eq!(api(&server, ApiKey::Fetch).latency().read().count(), 0);
}

#[test]
fn a_batch_that_is_too_large_hits_a_limit() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &[("message.max.bytes", "1000")]);
    server.create_topic("t", 1);
    let large = "x".repeat(2_000);
    let code = server.ask(&produce("t", &[large.as_str()]), 9, |r| r.responses[0].partition_responses[0].error_code);
    let hits = server.broker.telemetry().limits().of(Limit::MessageBytes);
    assert_eq!((code, hits), (ErrorCode::MessageTooLarge.code(), 1));
}

/// A tag that begins with `*` is a pattern instead.
fn join(server: &mut Server, group: &str, member: &str, tag: &str) -> i16 {
    let subtopology = heartbeat::Subtopology {
        subtopology_id: "0".into(),
        source_topics: vec!["t".into()],
        source_topic_regex: tag.strip_prefix('*').into_iter().map(|text| text.to_owned().into()).collect(),
        ..Default::default()
    };
    let request = StreamsGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: member.to_owned().into(),
        rebalance_timeout_ms: 1000,
        topology: Some(heartbeat::Topology { subtopologies: vec![subtopology], ..Default::default() }),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        process_id: Some("p".into()),
        rack_id: Some(tag.to_owned().into()),
        ..Default::default()
    };
    server.ask(&request, 1, |response| response.error_code)
}

/// With this setting the second of two joins is refused, and the limit alone is hit.
fn check_group_limit(setting: (&str, &str), second: (&str, &str), limit: GroupLimit) {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &[setting]);
    server.create_topic("t", 1);
    let first = if second.1.starts_with('*') { "*t" } else { "rack" };
    assert_eq!(join(&mut server, "g", "m", first), 0, "{setting:?}");
    assert_ne!(join(&mut server, second.0, "n", second.1), 0, "{setting:?}");
    for one in GroupLimit::ALL {
        let hits = server.broker.telemetry().groups().limit_hits(one);
        assert_eq!(hits, u64::from(one == limit), "{} with {setting:?}", one.name());
    }
}

#[test]
fn limits_of_groups_are_counted_where_they_are_hit() {
    check_group_limit(("group.streams.max.size", "1"), ("g", "rack"), GroupLimit::StreamsGroupSize);
    check_group_limit(("riparian.groups.max", "1"), ("other", "rack"), GroupLimit::Groups);
    check_group_limit(("riparian.members.max", "1"), ("g", "rack"), GroupLimit::Members);
    let long = "x".repeat(2_000);
    check_group_limit(("riparian.member.bytes.max", "1024"), ("g", &long), GroupLimit::MemberBytes);
    check_group_limit(("riparian.patterns.max", "1"), ("h", "*t.*"), GroupLimit::Patterns);
    check_group_limit(("riparian.pattern.matches.max", "1"), ("h", "*t"), GroupLimit::PatternMatches);
    let large = "*((t{9}){9}){9}";
    check_group_limit(("riparian.pattern.bytes.max", "1024"), ("h", large), GroupLimit::PatternBytes);
}

#[test]
fn a_description_that_is_too_large_hits_a_limit_and_is_not_asked_for_again() {
    use riparian_protocol::messages::{
        StreamsGroupTopologyDescriptionUpdateRequest as Update,
        streams_group_topology_description_update_request::{
            TopologyDescription, TopologyDescriptionNode, TopologyDescriptionSubtopology,
        },
    };
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &[("riparian.topology.description.bytes.max", "1024")]);
    server.create_topic("t", 1);
    assert_eq!(join(&mut server, "g", "m", "rack"), 0);
    let node = TopologyDescriptionNode { name: "x".repeat(2_000).into(), ..Default::default() };
    let subtopology =
        TopologyDescriptionSubtopology { subtopology_id: "0".into(), nodes: vec![node], ..Default::default() };
    let request = Update {
        group_id: "g".into(),
        member_id: "m".into(),
        topology_description: TopologyDescription { subtopologies: vec![subtopology], ..Default::default() },
        ..Default::default()
    };
    let code = server.ask(&request, 0, |response| response.error_code);
    assert_eq!(code, ErrorCode::StreamsTopologyDescriptionUpdateFailed.code());
    assert_eq!(server.broker.telemetry().groups().limit_hits(GroupLimit::DescriptionBytes), 1);
    let beat = StreamsGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        member_epoch: 1,
        rebalance_timeout_ms: -1,
        ..Default::default()
    };
    for _ in 0..3 {
        server.shell.now_ms.fetch_add(31_000, Ordering::Relaxed);
        let beaten = server.ask(&beat, 1, |response| (response.error_code, response.topology_description_required));
        assert_eq!(beaten, (0, false));
    }
}

/// Refused with words, and nothing is kept: another topology, a subtopology twice, more nodes than a request may name.
#[test]
fn a_description_that_is_of_no_use_is_answered_with_a_reason() {
    use riparian_protocol::messages::{
        StreamsGroupTopologyDescriptionUpdateRequest as Update,
        streams_group_topology_description_update_request::{
            TopologyDescription, TopologyDescriptionNode, TopologyDescriptionSubtopology,
        },
    };
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    assert_eq!(join(&mut server, "g", "m", "rack"), 0);
    let mut check = |ids: &[&str], nodes: usize, code: ErrorCode, text: &str| {
        let part = |id: &&str| TopologyDescriptionSubtopology {
            subtopology_id: (*id).to_owned().into(),
            nodes: vec![TopologyDescriptionNode::default(); nodes],
            ..Default::default()
        };
        let request = Update {
            group_id: "g".into(),
            member_id: "m".into(),
            topology_description: TopologyDescription {
                subtopologies: ids.iter().map(part).collect(),
                ..Default::default()
            },
            ..Default::default()
        };
        let told = |message: &Option<std::borrow::Cow<'_, str>>| message.as_deref().unwrap_or_default().to_owned();
        let answer = server.ask(&request, 0, |response| (response.error_code, told(&response.error_message)));
        assert_eq!(answer, (code.code(), text.to_owned()), "{ids:?}");
    };
    let text = "The description is of another topology: it tells of subtopology 1, and the group's topology has 0.";
    check(&["0", "1"], 1, ErrorCode::InvalidRequest, text);
    check(&["0", "0"], 1, ErrorCode::InvalidRequest, "The description tells of subtopology 0 twice.");
    check(&["0"], 5_000, ErrorCode::InvalidRequest, "The description has too many nodes for its size.");
    check(&["0"], 100, ErrorCode::None, "");
}

#[test]
fn every_shard_and_group_is_told() {
    let disk = Arc::new(MemDisk::new());
    let server = Server::start(&disk);
    let shards = server.broker.shards();
    assert_eq!(shards.len(), 5);
    assert!(shards.iter().all(|shard| shard.state == crate::telemetry::ShardState::Serving), "{shards:?}");
    assert_eq!(server.broker.census(server.shell.now(), 10).totals.count(), 0);
}
