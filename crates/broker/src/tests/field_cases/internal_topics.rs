//! Internal topics that can't be created: who is told why, how often it is tried, and what happens when it can be.

use riparian_protocol::messages::{
    DescribeConfigsRequest, describe_configs_request::DescribeConfigsResource, streams_group_heartbeat_response::Status,
};

use super::*;

const SETTINGS: [(&str, &str); 3] = [
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
    ("riparian.replication.cap", "false"),
];
const MISSING_INTERNAL_TOPICS: i8 = 3;
/// Twice the heartbeat interval: as long as nothing is tried again.
const PAUSE_MS: u64 = 10_000;

/// A heartbeat with a changelog as this; epoch, statuses, and how many tasks are told.
fn heartbeat(
    server: &mut Server,
    epoch: i32,
    changelog: heartbeat::TopicInfo<'static>,
) -> (i32, Vec<(i8, String)>, usize) {
    let mut request = join("m");
    let mut topology = request.topology.take().expect("who joins has one");
    topology.subtopologies[0].state_changelog_topics = vec![changelog];
    let request = if epoch == 0 {
        StreamsGroupHeartbeatRequest { topology: Some(topology), ..request }
    } else {
        StreamsGroupHeartbeatRequest {
            group_id: "app".into(),
            member_id: "m".into(),
            member_epoch: epoch,
            ..Default::default()
        }
    };
    server.ask(&request, 1, |r| {
        assert_eq!(r.error_code, 0, "the heartbeat itself succeeds: {:?}", r.error_message);
        let told = |status: &Status<'_>| (status.status_code, status.status_detail.to_string());
        let tasks = r.active_tasks.iter().flatten().map(|tasks| tasks.partitions.len()).sum();
        (r.member_epoch, r.status.iter().flatten().map(told).collect(), tasks)
    })
}

fn changelog(replicas: i16, configs: &[(&'static str, &'static str)]) -> heartbeat::TopicInfo<'static> {
    let configs = configs.iter().map(|(key, value)| heartbeat::KeyValue {
        key: (*key).into(),
        value: (*value).into(),
        ..Default::default()
    });
    heartbeat::TopicInfo {
        name: "app.store".into(),
        replication_factor: replicas,
        topic_configs: configs.collect(),
        ..Default::default()
    }
}

/// The changelog can't be created, for a reason that has these words; then somebody does what helps.
fn check(
    changelog: &heartbeat::TopicInfo<'static>,
    before: impl Fn(&mut Server),
    words: &[&str],
    help: impl Fn(&mut Server),
) {
    let mut server = Server::start_with(&Arc::new(MemDisk::new()), &SETTINGS);
    server.create_topic("words", 3);
    before(&mut server);
    let (mut epoch, statuses, _) = heartbeat(&mut server, 0, changelog.clone());
    assert_eq!(statuses[0].0, MISSING_INTERNAL_TOPICS);
    for beat in 1..50 {
        server.shell.now_ms.store(beat * 1000, Ordering::Relaxed);
        let (next, statuses, tasks) = heartbeat(&mut server, epoch, changelog.clone());
        assert_eq!((next, tasks), (epoch, 0), "nothing moves while it is missing");
        let [(MISSING_INTERNAL_TOPICS, text)] = &statuses[..] else { panic!("{statuses:?}") };
        assert!(text.contains("app.store"), "{text}");
        // Each time it is tried again there is one heartbeat that does not know yet.
        if beat % (PAUSE_MS / 1000) != 0 {
            for word in words {
                assert!(text.contains(word), "{word} in {text}");
            }
        }
        epoch = next;
    }
    help(&mut server);
    // Perhaps at once, at the latest when it is tried again.
    let mut tasks = 0;
    for beat in 50..62 {
        server.shell.now_ms.store(beat * 1000, Ordering::Relaxed);
        let (next, statuses, told) = heartbeat(&mut server, epoch, changelog.clone());
        (epoch, tasks) = (next, tasks + told);
        if tasks > 0 {
            assert_eq!(statuses, [], "all is well again");
            break;
        }
    }
    assert_eq!(tasks, 3);
}

fn drop_topic(server: &mut Server, name: &'static str) {
    let state = DeleteTopicState { name: Some(name.into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![state], ..Default::default() };
    assert_eq!(server.ask(&request, 6, |r| r.responses[0].error_code), 0);
}

#[test]
fn m_14_why_an_internal_topic_cannot_be_created_is_told_until_somebody_helps() {
    let by_hand = |server: &mut Server| server.create_topic("app.store", 3);
    let nothing = |_: &mut Server| {};
    check(&changelog(-1, &[("prefix", "x")]), nothing, &["Creation failed", "prefix"], by_hand);
    check(&changelog(-1, &[("retention.ms", "soon")]), nothing, &["Creation failed", "retention.ms"], by_hand);
    check(&changelog(3, &[]), nothing, &["Creation failed", "3"], by_hand);
    // The one that can be helped without creating the topic: the next try succeeds.
    let in_the_way = |server: &mut Server| server.create_topic("app_store", 1);
    check(&changelog(-1, &[]), in_the_way, &["Creation failed", "app_store"], |server| drop_topic(server, "app_store"));
}

#[test]
fn m_14_what_was_tried_again_is_created_as_it_was_asked_for() {
    let mut server = Server::start_with(&Arc::new(MemDisk::new()), &SETTINGS);
    server.create_topic("words", 3);
    server.create_topic("app_store", 1);
    let changelog = changelog(-1, &[("cleanup.policy", "compact"), ("segment.bytes", "1048576")]);
    let (epoch, ..) = heartbeat(&mut server, 0, changelog.clone());
    heartbeat(&mut server, epoch, changelog.clone());
    drop_topic(&mut server, "app_store");
    server.shell.now_ms.store(PAUSE_MS, Ordering::Relaxed);
    heartbeat(&mut server, epoch, changelog.clone());
    assert_eq!(heartbeat(&mut server, epoch, changelog).2, 3);
    let resource = DescribeConfigsResource {
        resource_type: 2,
        resource_name: "app.store".into(),
        configuration_keys: None,
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let found = server.ask(&request, 4, |r| {
        let value = |key: &str| r.results[0].configs.iter().find(|config| config.name == key)?.value.clone();
        ["cleanup.policy", "segment.bytes"].map(|key| value(key).unwrap_or_default().into_owned())
    });
    assert_eq!(found, ["compact", "1048576"]);
}
