//! Every limit is exceeded once: the answer says so, and the metric counts it.

use std::collections::BTreeSet;

use riparian_protocol::messages::{
    CreateTopicsRequest, IncrementalAlterConfigsRequest, JoinGroupRequest, ProduceRequest,
    StreamsGroupHeartbeatRequest, StreamsGroupTopologyDescriptionUpdateRequest,
    create_topics_request::CreatableTopic,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    join_group_request::JoinGroupRequestProtocol,
    produce_request::{PartitionProduceData, TopicProduceData},
    streams_group_heartbeat_request::{KeyValue, Subtopology, Topology},
    streams_group_topology_description_update_request::{
        TopologyDescription, TopologyDescriptionNode, TopologyDescriptionSubtopology,
    },
};
use riparian_records::{BatchBuilder, BatchOptions};
use riparian_tests::{Connection, Scrape, Server, create_topics, request};
use riparian_types::WallMillis;

use super::{
    counters::{eventually, fetch},
    member::{commit_offset, connect, try_commit},
};

const MESSAGE_TOO_LARGE: i16 = 10;
const OFFSET_METADATA_TOO_LARGE: i16 = 12;
const INVALID_REQUEST: i16 = 42;
const POLICY_VIOLATION: i16 = 44;
const MEMBER_ID_REQUIRED: i16 = 79;
const GROUP_MAX_SIZE_REACHED: i16 = 81;
const STREAMS_INVALID_TOPOLOGY: i16 = 130;
const UPDATE_FAILED: i16 = 135;
const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;
const FETCH: i16 = 1;
/// As many as one classic group keeps.
const PENDING_JOINS_MAX: usize = 10_000;

/// As many as may have configs of their own.
const CONFIGURED_GROUPS_MAX: usize = 100_000;
/// The type of a group's configs.
const GROUP: i8 = 32;

/// Those that other tests of this suite exceed.
const ELSEWHERE: [&str; 6] = [
    "connections.max.idle.ms",
    "http connections",
    "http head",
    "http time",
    "max.connections",
    "socket.request.max.bytes",
];

/// The limit, what it is set to, and what exceeds it.
type Case = (&'static str, &'static str, fn(&Server));

const CASES: [Case; 24] = [
    ("group.streams.max.size", "1", |server| {
        assert_eq!(join(server, "g", "first", "in", ""), (0, String::new()));
        check_says(&join(server, "g", "second", "in", ""), GROUP_MAX_SIZE_REACHED, "group.streams.max.size");
    }),
    ("group.max.size", "1", |server| {
        assert_eq!(classic_join(server, 3, ""), 0);
        assert_eq!(classic_join(server, 3, ""), GROUP_MAX_SIZE_REACHED);
    }),
    ("pending joins", "", |server| {
        let mut connection = connect(server.port());
        let request = classic_join_request("");
        let mut join = || connection.call_version(&request, 4).expect("an answer").decode().expect("one").error_code;
        (0..PENDING_JOINS_MAX).for_each(|_| assert_eq!(join(), MEMBER_ID_REQUIRED));
        assert_eq!(join(), GROUP_MAX_SIZE_REACHED);
    }),
    ("riparian.groups.max", "1", |server| {
        commit_offset(server.port(), "offsets");
        check_says(&join(server, "g", "first", "in", ""), GROUP_MAX_SIZE_REACHED, "riparian.groups.max");
        assert_eq!(classic_join(server, 3, ""), GROUP_MAX_SIZE_REACHED);
        assert_eq!(try_commit(server.port(), "others", ""), POLICY_VIOLATION);
    }),
    ("riparian.members.max", "1", |server| {
        assert_eq!(join(server, "g", "first", "in", ""), (0, String::new()));
        check_says(&join(server, "other", "second", "in", ""), GROUP_MAX_SIZE_REACHED, "riparian.members.max");
    }),
    ("riparian.member.bytes.max", "1024", |server| {
        let long = "x".repeat(2000);
        check_says(&join(server, "g", "first", "in", &long), INVALID_REQUEST, "riparian.member.bytes.max");
        let topics: Vec<_> = (0..10).map(|n| format!("{n}-{}", "x".repeat(200))).collect();
        check_says(
            &join(server, "g", "first", &topics.join(","), ""),
            STREAMS_INVALID_TOPOLOGY,
            "riparian.member.bytes.max",
        );
        assert_eq!(classic_join(server, 3, &long), POLICY_VIOLATION);
    }),
    ("riparian.patterns.max", "1", |server| {
        assert_eq!(join(server, "g", "m", "*in", ""), (0, String::new()));
        check_says(&join(server, "other", "m", "*i.", ""), GROUP_MAX_SIZE_REACHED, "riparian.patterns.max");
        // What is known already is no other.
        assert_eq!(join(server, "g", "n", "*in", ""), (0, String::new()));
    }),
    ("riparian.pattern.matches.max", "1", |server| {
        assert_eq!(join(server, "g", "m", "*in", ""), (0, String::new()));
        check_says(&join(server, "other", "m", "*i.", ""), GROUP_MAX_SIZE_REACHED, "riparian.pattern.matches.max");
        assert_eq!(join(server, "other", "m", "in", ""), (0, String::new()));
    }),
    ("riparian.pattern.bytes.max", "1024", |server| {
        let large = join(server, "g", "m", "*((i{9}){9}){9}", "");
        check_says(&large, STREAMS_INVALID_TOPOLOGY, "riparian.pattern.bytes.max");
        assert_eq!(join(server, "g", "m", "*i.*", ""), (0, String::new()));
    }),
    ("riparian.topology.description.bytes.max", "1024", |server| {
        assert_eq!(join(server, "g", "m", "in", ""), (0, String::new()));
        check_says(&describe(server, 2000), UPDATE_FAILED, "riparian.topology.description.bytes.max");
        assert_eq!(describe(server, 500), (0, String::new()));
    }),
    ("riparian.topology.descriptions.bytes.max", "1500", |server| {
        for group in ["g", "h"] {
            assert_eq!(join(server, group, "m", "in", ""), (0, String::new()));
        }
        assert_eq!(describe_group(server, "g", 1_000), (0, String::new()));
        check_says(&describe_group(server, "h", 1_000), UPDATE_FAILED, "riparian.topology.descriptions.bytes.max");
        // In place of the one before.
        assert_eq!(describe_group(server, "g", 1_200), (0, String::new()));
        assert_eq!(describe_group(server, "h", 100), (0, String::new()));
    }),
    ("max.message.bytes", "100", |server| {
        let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
        builder.push(WallMillis(1), None, Some(&[0; 200]));
        let partition = PartitionProduceData { records: Some(builder.build().into()), ..Default::default() };
        let topic = TopicProduceData { name: "in".into(), partition_data: vec![partition], ..Default::default() };
        let request = ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() };
        let answer = connect(server.port()).call_version(&request, 9).expect("the server answers");
        let error = answer.decode().expect("an answer").responses[0].partition_responses[0].error_code;
        assert_eq!(error, MESSAGE_TOO_LARGE);
    }),
    ("riparian.topics.max", "2", |server| {
        // One is there.
        assert_eq!(create(server, &[("second", 1), ("third", 1)]), [0, POLICY_VIOLATION]);
        // Nor is one made because somebody asks about it.
        let body = [&1i32.to_be_bytes()[..], &[0, 5], b"other"].concat();
        let mut connection = Connection::open(server.port());
        connection.send_frame(&request(METADATA, 1, 1, &body));
        assert!(connection.read_frame().is_some());
        let hits =
            Scrape::take(server.http_port()).value("riparian_limit_hits_total", &[("limit", "riparian.topics.max")]);
        assert_eq!(hits, Some(2.0));
    }),
    ("riparian.partitions.max", "10", |server| {
        assert_eq!(create(server, &[("a", 5), ("b", 5), ("c", 4)]), [0, POLICY_VIOLATION, 0]);
        // Those of the server's own topic are not counted, and groups are served.
        commit_offset(server.port(), "g");
    }),
    ("partitions of a topic", "", |server| {
        assert_eq!(create(server, &[("a", 10_001), ("b", 1)]), [POLICY_VIOLATION, 0]);
    }),
    ("partitions of a request", "", |server| {
        assert_eq!(create(server, &[("a", 10_000), ("b", 1)]), [0, POLICY_VIOLATION]);
    }),
    ("configured groups", "", |server| {
        let mut connection = connect(server.port());
        let codes = |from: usize, count: usize| {
            let resources = (from..from + count).map(|number| AlterConfigsResource {
                resource_type: GROUP,
                resource_name: format!("g{number}").into(),
                configs: vec![AlterableConfig {
                    name: "streams.num.standby.replicas".into(),
                    value: Some("1".into()),
                    ..Default::default()
                }],
                ..Default::default()
            });
            IncrementalAlterConfigsRequest { resources: resources.collect(), ..Default::default() }
        };
        let mut refused = |request: &IncrementalAlterConfigsRequest<'_>| {
            let answer = connection.call(request).expect("an answer");
            let answer = answer.decode().expect("one");
            answer.responses.iter().filter(|response| response.error_code == POLICY_VIOLATION).count()
        };
        for step in 0..10 {
            assert_eq!(refused(&codes(step * CONFIGURED_GROUPS_MAX / 10, CONFIGURED_GROUPS_MAX / 10)), 0);
        }
        assert_eq!(refused(&codes(CONFIGURED_GROUPS_MAX - 1, 2)), 1);
    }),
    ("partitions that fetches wait for", "", |server| {
        create_topics(server.port(), &["wide"], 10_000);
        let mut body = [-1i32, 300_000, 1, 1 << 20].map(i32::to_be_bytes).concat();
        body.extend([0, 0, 0, 0, 1, 0, 4, b'w', b'i', b'd', b'e']);
        body.extend(10_000i32.to_be_bytes());
        for partition in 0..10_000i32 {
            body.extend(partition.to_be_bytes());
            body.extend(0i64.to_be_bytes());
            body.extend(1000i32.to_be_bytes());
        }
        let mut waiting = Connection::open(server.port());
        (0..10).for_each(|_| waiting.send_frame(&request(FETCH, 4, 1, &body)));
        waiting.send_frame(&request(FETCH, 4, 2, &body));
        eventually(server.http_port(), "a fetch that may not wait", |scrape| {
            scrape.value("riparian_limit_hits_total", &[("limit", "partitions that fetches wait for")]) == Some(1.0)
        });
        // On another connection as many may wait.
        let mut other = Connection::open(server.port());
        other.send_frame(&request(FETCH, 4, 1, &body));
        eventually(server.http_port(), "all that wait", |scrape| {
            scrape.value("riparian_requests_in_flight", &[]) == Some(12.0)
        });
        drop((waiting, other));
        eventually(server.http_port(), "nothing that waits", |scrape| {
            scrape.value("riparian_requests_in_flight", &[]) == Some(0.0)
        });
    }),
    ("offset.metadata.max.bytes", "10", |server| {
        assert_eq!(try_commit(server.port(), "g", "eleven here"), OFFSET_METADATA_TOO_LARGE);
    }),
    ("max.connections.per.ip", "1", |server| {
        let mut first = Connection::open(server.port());
        check_served(&mut first);
        assert_eq!(Connection::open(server.port()).read_frame(), None);
        check_served(&mut first);
    }),
    ("max.connection.creation.rate", "1", |server| {
        // The second one waits, and is served.
        (0..2).for_each(|_| check_served(&mut Connection::open(server.port())));
    }),
    ("riparian.connection.requests.max", "2", |server| {
        let mut connection = Connection::open(server.port());
        (0..2).for_each(|_| connection.send_frame(&fetch("in", 0, 300)));
        check_served_after(&mut connection, 2);
    }),
    ("riparian.connection.unsent.bytes.max", "1024", |server| {
        create_topics(server.port(), &["wide"], 1000);
        let mut connection = Connection::open(server.port());
        let mut body = 1i32.to_be_bytes().to_vec();
        body.extend([0, 4, b'w', b'i', b'd', b'e']);
        (0..1000).for_each(|_| connection.send_frame(&request(METADATA, 1, 1, &body)));
        eventually(server.http_port(), "answers that are not read", |scrape| {
            scrape.sum("riparian_limit_hits_total", &[("limit", "riparian.connection.unsent.bytes.max")]) > 0.0
        });
        // Who reads gets them all.
        (0..1000).for_each(|_| assert!(connection.read_frame().is_some()));
    }),
    ("riparian.connections.bytes.max", "1048576", |server| {
        let mut other = Connection::open(server.port());
        let halves: Vec<_> = (0..2)
            .map(|_| {
                let mut connection = Connection::open(server.port());
                connection.send(&[&900_000i32.to_be_bytes()[..], &[0; 800_000]].concat());
                connection
            })
            .collect();
        eventually(server.http_port(), "a connection that holds too much", |scrape| {
            scrape.sum("riparian_connections_closed_total", &[("reason", "overload")]) > 0.0
        });
        check_served(&mut other);
        drop(halves);
    }),
];

#[test]
fn each_limit_is_exceeded_told_and_counted() {
    for (limit, value, exceed) in CASES {
        let key = if limit == "max.message.bytes" { "message.max.bytes" } else { limit };
        let quick = [
            ("group.initial.rebalance.delay.ms", "0"),
            ("group.streams.initial.rebalance.delay.ms", "0"),
            ("group.streams.assignment.interval.ms", "0"),
        ];
        let settings = if value.is_empty() { quick.to_vec() } else { [&quick[..], &[(key, value)]].concat() };
        let server = Server::start(&settings);
        if limit != "max.connection.creation.rate" && limit != "max.connections.per.ip" {
            create_topics(server.port(), &["in"], 1);
        }
        let hits = |scrape: &Scrape| scrape.value("riparian_limit_hits_total", &[("limit", limit)]);
        assert_eq!(hits(&Scrape::take(server.http_port())), Some(0.0), "{limit} before");
        exceed(&server);
        eventually(server.http_port(), limit, |scrape| hits(scrape).is_some_and(|hits| hits > 0.0));
    }
}

#[test]
fn no_limit_is_without_a_test() {
    let server = Server::start(&[]);
    let told = Scrape::take(server.http_port()).label_values("riparian_limit_hits_total", "limit");
    let tested: BTreeSet<String> = CASES.iter().map(|case| case.0).chain(ELSEWHERE).map(str::to_owned).collect();
    assert_eq!(told, tested);
}

/// Creates topics with so many partitions; the error of each.
fn create(server: &Server, topics: &[(&'static str, i32)]) -> Vec<i16> {
    let topics = topics.iter().map(|&(name, num_partitions)| CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor: 1,
        ..Default::default()
    });
    let request = CreateTopicsRequest { topics: topics.collect(), timeout_ms: 10_000, ..Default::default() };
    let answer = connect(server.port()).call(&request).expect("the server answers");
    answer.decode().expect("an answer").topics.iter().map(|topic| topic.error_code).collect()
}

fn check_says((code, text): &(i16, String), expected: i16, key: &str) {
    assert!(*code == expected && text.contains(key), "{code} {text:?} is not {expected} with {key}");
}

fn check_served(connection: &mut Connection) {
    check_served_after(connection, 0);
}

/// One more request is answered, after so many others.
fn check_served_after(connection: &mut Connection, others: usize) {
    connection.send_frame(&request(API_VERSIONS, 0, 77, &[]));
    (0..others).for_each(|_| assert!(connection.read_frame().is_some()));
    assert_eq!(connection.read_frame().expect("an answer")[..4], 77i32.to_be_bytes());
}

/// Member `m` of group `g` describes its topology in so many bytes; the error and its text.
fn describe(server: &Server, bytes: usize) -> (i16, String) {
    describe_group(server, "g", bytes)
}

fn describe_group(server: &Server, group: &'static str, bytes: usize) -> (i16, String) {
    let node = TopologyDescriptionNode { name: "x".repeat(bytes).into(), ..Default::default() };
    let subtopologies =
        vec![TopologyDescriptionSubtopology { subtopology_id: "0".into(), nodes: vec![node], ..Default::default() }];
    let request = StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: group.into(),
        member_id: "m".into(),
        topology_description: TopologyDescription { subtopologies, ..Default::default() },
        ..Default::default()
    };
    let answer = connect(server.port()).call(&request).expect("the server answers");
    let answer = answer.decode().expect("an answer");
    (answer.error_code, answer.error_message.as_deref().unwrap_or_default().to_owned())
}

/// A member of a streams group joins that reads these topics, or those of a pattern behind a `*`; the error and its text.
fn join(server: &Server, group: &str, member: &str, topics: &str, tag: &str) -> (i16, String) {
    let (group, member) = (group.to_owned(), member.to_owned());
    let all = |names: Vec<&str>| names.into_iter().map(|name| name.to_owned().into()).collect();
    let (names, patterns) = match topics.strip_prefix('*') {
        Some(pattern) => (Vec::new(), vec![pattern]),
        None => (topics.split(',').collect(), Vec::new()),
    };
    let source = Subtopology {
        subtopology_id: "0".into(),
        source_topics: all(names),
        source_topic_regex: all(patterns),
        ..Default::default()
    };
    let tag = KeyValue { key: "tag".into(), value: tag.to_owned().into(), ..Default::default() };
    let request = StreamsGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: member.into(),
        topology: Some(Topology { epoch: 0, subtopologies: vec![source], ..Default::default() }),
        rebalance_timeout_ms: 60_000,
        process_id: Some("process".into()),
        client_tags: Some(vec![tag]),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    };
    let answer = connect(server.port()).call(&request).expect("the server answers");
    let answer = answer.decode().expect("an answer");
    (answer.error_code, answer.error_message.as_deref().unwrap_or_default().to_owned())
}

fn classic_join_request(metadata: &str) -> JoinGroupRequest<'static> {
    let metadata = metadata.as_bytes().to_vec();
    let protocol = JoinGroupRequestProtocol { name: "range".into(), metadata: metadata.into(), ..Default::default() };
    JoinGroupRequest {
        group_id: "classic".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 1000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

fn classic_join(server: &Server, version: i16, metadata: &str) -> i16 {
    let answer = connect(server.port()).call_version(&classic_join_request(metadata), version);
    answer.expect("the server answers").decode().expect("an answer").error_code
}
