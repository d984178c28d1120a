//! Heartbeats with changed field values against a group that is alive: none of its members comes to harm.
//!
//! Twenty members send heartbeats as clients do. Beside them come 100,000 heartbeats that began as valid ones and then had
//! some of their fields replaced: joins of strangers, reports, leaves, in the name of strangers and in that of a few of the
//! twenty. A member whose id was never used by anybody else must notice nothing but that tasks come and go.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use riparian_protocol::{
    ApiKey, ErrorCode, RequestHeader, ResponseHeader,
    messages::{
        CreateTopicsRequest, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, create_topics_request,
    },
};
use riparian_tests::{Connection, Server};
use riparian_wire::Reader;

#[path = "../../crates/protocol/tests/generated/arbitrary.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "one request is needed here")]
mod arbitrary;
#[path = "odd_clients/luck.rs"]
mod luck;
#[path = "mutated_heartbeats/members.rs"]
mod members;
#[path = "mutated_heartbeats/mutator.rs"]
mod mutator;

use members::{Members, TOPIC};
use mutator::Mutator;

const HEARTBEATS: usize = 100_000;
const SESSION_MS: u64 = 6000;
const INTERVAL_MS: u64 = 250;
/// After the last stranger has lost its session the members have this long to share its tasks.
const SHARE_LIMIT: Duration = Duration::from_millis(8 * INTERVAL_MS);
const FORM_LIMIT: Duration = Duration::from_secs(30);
/// Groups and members that were made on the way.
const GROWTH_KIB_MAX: u64 = 64 * 1024;

/// The bytes of a request with its header, without their length.
fn frame(request: &StreamsGroupHeartbeatRequest<'_>, version: i16) -> Vec<u8> {
    let mut bytes = header(StreamsGroupHeartbeatRequest::API_KEY, version);
    request.encode(&mut bytes, version).expect("the values fit");
    bytes
}

fn header(key: ApiKey, version: i16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (api_key, client_id) = (key as i16, Some("mutated".into()));
    let header = RequestHeader { api_key, api_version: version, correlation_id: 7, client_id, ..Default::default() };
    header.encode(&mut bytes).expect("a header can be written");
    bytes
}

fn decode(answer: &[u8], version: i16) -> StreamsGroupHeartbeatResponse<'_> {
    let mut reader = Reader::new(answer);
    ResponseHeader::decode(&mut reader, StreamsGroupHeartbeatRequest::API_KEY, version).expect("a header");
    StreamsGroupHeartbeatResponse::decode(&mut reader, version).expect("an answer to a heartbeat")
}

fn create_topic(server: &Server, name: &str, partitions: i32) {
    let topic = create_topics_request::CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 5000, ..Default::default() };
    let mut bytes = header(CreateTopicsRequest::API_KEY, 5);
    request.encode(&mut bytes, 5).expect("a request");
    let mut connection = Connection::open(server.port());
    connection.send_frame(&bytes);
    connection.read_frame().expect("an answer");
}

fn shown(codes: &BTreeMap<i16, usize>) -> String {
    let name = |code: &i16| ErrorCode::from_code(*code).map_or("unknown", ErrorCode::name);
    codes.iter().map(|(code, count)| format!("{} {count}", name(code))).collect::<Vec<_>>().join(", ")
}

#[test]
fn changed_heartbeats_harm_nobody_but_those_whose_names_they_use() {
    let seed = std::env::var("RIPARIAN_ODD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let server = Server::start(&[
        ("group.streams.min.session.timeout.ms", "1000"),
        ("group.streams.session.timeout.ms", &SESSION_MS.to_string()),
        ("group.streams.min.heartbeat.interval.ms", "100"),
        ("group.streams.heartbeat.interval.ms", &INTERVAL_MS.to_string()),
        ("group.streams.initial.rebalance.delay.ms", "0"),
        ("group.streams.min.assignment.interval.ms", "0"),
        ("group.streams.assignment.interval.ms", "0"),
    ]);
    create_topic(&server, TOPIC, members::TASKS);
    let mut members = Members::join(server.port());
    members.wait_until_at_rest(FORM_LIMIT).expect("the group forms");
    let before = server.resident_kib();

    let mut mutator = Mutator::connect(server.port(), seed);
    let started = Instant::now();
    let mut grown = 0;
    let mut sent = 0;
    while sent < HEARTBEATS {
        sent += mutator.turn(&mut members.group);
        members.beat();
        if let Some(wrong) = members.wrong.first() {
            panic!("seed {seed}, after {sent}: {wrong}{}", mutator.said_by(wrong));
        }
        if sent % 4000 == 0 {
            grown = grown.max(server.resident_kib().saturating_sub(before));
        }
    }
    let took = started.elapsed();
    let strangers_end = Instant::now() + Duration::from_millis(SESSION_MS);
    while Instant::now() < strangers_end {
        mutator.forget_silent(&mut members.group);
        members.beat();
        members.pause();
    }
    mutator.forget_silent(&mut members.group);
    let rest = members.wait_until_at_rest(SHARE_LIMIT);
    let told = format!(
        "seed {seed}: {HEARTBEATS} in {:.1} s, grown by {grown} KiB, answers: {}; {} heartbeats of the members, {} of those \
         whose names were used refused",
        took.as_secs_f64(),
        shown(&mutator.answers),
        members.heartbeats,
        members.refused_of_used
    );
    println!("{told}");
    let wrong: Vec<&String> = members.wrong.iter().chain(&mutator.wrong).take(20).collect();
    assert!(wrong.is_empty(), "{told}\n{wrong:#?}");
    rest.unwrap_or_else(|why| panic!("{told}\nnot at rest: {why}"));
    assert!(grown <= GROWTH_KIB_MAX, "{told}");
    let log = server.program().stderr();
    let is_mistake = |line: &&str| ["panic", "this is a bug", "ERROR"].iter().any(|bad| line.contains(bad));
    let mistakes: Vec<&str> = log.lines().filter(is_mistake).collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    // A good part of them was let in, or nothing was shown.
    let let_in = mutator.answers.get(&0).copied().unwrap_or(0);
    assert!((HEARTBEATS / 20..HEARTBEATS).contains(&let_in), "{told}");
}
