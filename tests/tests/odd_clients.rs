//! Requests that are well-formed and make no sense, and well-formed ones with a few bytes changed: in every version of
//! every API, each is answered or its connection is closed, and nothing else happens.

use std::time::{Duration, Instant};

use riparian_protocol::{ApiKey, Message as _, Request, RequestHeader, ResponseHeader, messages};
use riparian_tests::{Connection, Server};
use riparian_types::Uuid;
use riparian_wire::Reader;

#[path = "../../crates/protocol/tests/generated/arbitrary.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "only the requests are needed here")]
mod arbitrary;
#[path = "odd_clients/luck.rs"]
mod luck;

use luck::Luck;

/// Messages per version, and changed copies of each.
const ROUNDS: u64 = 12;
const CHANGED_COPIES: usize = 6;
/// What an answer may take: nobody asks for anything that has to be waited for, once the client has gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// What all of it may leave behind in memory: topics and groups were made on the way.
const GROWTH_KIB_MAX: u64 = 256 * 1024;

macro_rules! each_request {
    ($do:ident) => {
        $do!(produce_request, ProduceRequest);
        $do!(fetch_request, FetchRequest);
        $do!(list_offsets_request, ListOffsetsRequest);
        $do!(metadata_request, MetadataRequest);
        $do!(offset_commit_request, OffsetCommitRequest);
        $do!(offset_fetch_request, OffsetFetchRequest);
        $do!(find_coordinator_request, FindCoordinatorRequest);
        $do!(list_groups_request, ListGroupsRequest);
        $do!(api_versions_request, ApiVersionsRequest);
        $do!(create_topics_request, CreateTopicsRequest);
        $do!(delete_topics_request, DeleteTopicsRequest);
        $do!(delete_records_request, DeleteRecordsRequest);
        $do!(init_producer_id_request, InitProducerIdRequest);
        $do!(offset_for_leader_epoch_request, OffsetForLeaderEpochRequest);
        $do!(describe_configs_request, DescribeConfigsRequest);
        $do!(create_partitions_request, CreatePartitionsRequest);
        $do!(delete_groups_request, DeleteGroupsRequest);
        $do!(incremental_alter_configs_request, IncrementalAlterConfigsRequest);
        $do!(offset_delete_request, OffsetDeleteRequest);
        $do!(describe_cluster_request, DescribeClusterRequest);
        $do!(describe_topic_partitions_request, DescribeTopicPartitionsRequest);
        $do!(streams_group_heartbeat_request, StreamsGroupHeartbeatRequest);
        $do!(streams_group_describe_request, StreamsGroupDescribeRequest);
    };
}

/// The bytes of a request with its header.
fn frame<'a, R: Request<'a>>(request: &R, version: i16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = RequestHeader {
        api_key: R::API_KEY as i16,
        api_version: version,
        correlation_id: 7,
        client_id: Some("odd".into()),
        ..Default::default()
    };
    header.encode(&mut bytes).expect("a header can be written");
    request.encode(&mut bytes, version).expect("an arbitrary message can be written");
    bytes
}

/// Sends a frame on a connection of its own. The answer, if there was one.
fn provoke(server: &Server, frame: &[u8], what: &str) -> Option<Vec<u8>> {
    let started = Instant::now();
    let mut connection = Connection::open(server.port());
    connection.send_frame(frame);
    connection.finish_sending();
    let answer = connection.read_frame();
    assert!(started.elapsed() < ANSWER_LIMIT, "{what} took {:?}", started.elapsed());
    answer
}

/// What is wrong with an answer, if it is one to this request in this version.
fn check_answer<'a, 'm, R: Request<'m>>(_: &R, answer: &'a [u8], version: i16) -> Result<(), String>
where
    R::Response<'a>: std::fmt::Debug,
{
    let mut reader = Reader::new(answer);
    ResponseHeader::decode(&mut reader, R::API_KEY, version).map_err(|error| format!("header: {error}"))?;
    let response = R::Response::decode(&mut reader, version).map_err(|error| error.to_string())?;
    reader.finish().map_err(|error| error.to_string())?;
    let text = format!("{response:?}");
    if text.contains("error_code: -1,") { Err(text) } else { Ok(()) }
}

/// Changes a few bytes somewhere behind the version.
fn change(frame: &mut Vec<u8>, luck: &mut Luck) {
    const EDGES: &[&[u8]] = &[
        &[0xff; 4],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0xff; 8],
        &[0],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    let at = 4 + luck.below(frame.len().saturating_sub(4).max(1));
    match luck.below(5) {
        0 => frame.truncate(at),
        1 => frame.extend_from_slice(&[0; 9]),
        2 => {
            if let Some(byte) = frame.get_mut(at) {
                *byte ^= 1 << luck.below(8);
            }
        }
        3 => {
            let edge = EDGES[luck.below(EDGES.len())];
            for (byte, new) in frame.iter_mut().skip(at).zip(edge) {
                *byte = *new;
            }
        }
        _ => {
            let edge = EDGES[luck.below(EDGES.len())];
            frame.splice(at.min(frame.len())..at.min(frame.len()), edge.iter().copied());
        }
    }
}

fn topic_id(server: &Server, name: &str) -> Uuid {
    let request = messages::MetadataRequest {
        topics: Some(vec![messages::metadata_request::MetadataRequestTopic {
            name: Some(name.to_owned().into()),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let answer = provoke(server, &frame(&request, 12), "metadata").expect("metadata is answered");
    let mut reader = Reader::new(&answer);
    ResponseHeader::decode(&mut reader, ApiKey::Metadata, 12).expect("a header");
    messages::MetadataResponse::decode(&mut reader, 12).expect("a response").topics[0].topic_id
}

fn create(server: &Server, name: &str, partitions: i32) {
    let request = messages::CreateTopicsRequest {
        topics: vec![messages::create_topics_request::CreatableTopic {
            name: name.to_owned().into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 5000,
        ..Default::default()
    };
    provoke(server, &frame(&request, 5), "creation").expect("a topic can be created");
}

/// Lines that tell of a mistake of the server's.
fn complaints(server: &Server) -> Vec<String> {
    let log = server.program().stderr();
    let bad = ["panic", "can't be encoded", "this is a bug", "ERROR", "made the server fail"];
    log.lines().filter(|line| bad.iter().any(|bad| line.contains(bad))).map(str::to_owned).collect()
}

#[test]
fn senseless_requests_are_answered_or_closed_and_break_nothing() {
    let mut server = Server::start(&[("offsets.topic.num.partitions", "3")]);
    create(&server, "one", 1);
    create(&server, "many", 5);
    let ids = vec![topic_id(&server, "one"), topic_id(&server, "many")];
    let before = server.resident_kib();
    let (mut wrong, mut told) = (Vec::new(), 0);
    let base = std::env::var("RIPARIAN_ODD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    macro_rules! bother {
        ($module:ident, $name:ident) => {
            let key = messages::$name::API_KEY;
            for version in key.served().expect("it is served").iter() {
                // Old produce versions are advertised, and refused.
                if version < messages::$name::VERSIONS.min {
                    continue;
                }
                for seed in base..base + ROUNDS {
                    let mut luck =
                        Luck::new(seed.wrapping_mul(1_000_003) ^ (key as u64) << 8 ^ version as u64, ids.clone());
                    let message = arbitrary::$module::arbitrary(&mut luck, version);
                    let whole = frame(&message, version);
                    let what = format!("{} version {version} seed {seed}", key.name());
                    if let Some(answer) = provoke(&server, &whole, &what)
                        && let Err(error) = check_answer(&message, &answer, version)
                    {
                        wrong.push(format!("{what}: {error}\n   to {message:?}"));
                    }
                    for _ in 0..CHANGED_COPIES {
                        let mut changed = whole.clone();
                        change(&mut changed, &mut luck);
                        provoke(&server, &changed, &what);
                    }
                }
            }
            let lines = complaints(&server);
            wrong.extend(lines[told.min(lines.len())..].iter().map(|line| format!("after {}: {line}", key.name())));
            told = lines.len();
            let grown = server.resident_kib().saturating_sub(before);
            if grown > GROWTH_KIB_MAX {
                wrong.push(format!("after {}: memory grew by {grown} KiB", key.name()));
            }
        };
    }
    each_request!(bother);
    let _ = told;
    if !wrong.is_empty() {
        let texts: Vec<String> = wrong.iter().take(40).map(|text| text.chars().take(1000).collect()).collect();
        panic!("{} wrong:\n{}", wrong.len(), texts.join("\n"));
    }
    // What was written on the way can be read again.
    server.kill();
    server.restart();
    let complaints = complaints(&server);
    assert!(complaints.is_empty(), "after a restart: {}", complaints.join("\n"));
    assert!(!topic_id(&server, "__consumer_offsets").is_zero());
}

/// A fetch that waits for a record that nobody produces.
fn long_poll(topic: &str) -> Vec<u8> {
    let partition = messages::fetch_request::FetchPartition {
        current_leader_epoch: -1,
        partition_max_bytes: 1024,
        ..Default::default()
    };
    let topic = messages::fetch_request::FetchTopic {
        topic: topic.to_owned().into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = messages::FetchRequest {
        max_wait_ms: i32::MAX,
        min_bytes: 1,
        max_bytes: 1024,
        topics: vec![topic],
        ..Default::default()
    };
    frame(&request, 12)
}

#[test]
fn a_long_poll_ends_with_its_client() {
    let server = Server::start(&[]);
    create(&server, "one", 1);
    assert!(provoke(&server, &long_poll("one"), "a long poll").is_some());
}

#[test]
fn a_long_poll_ends_with_the_server() {
    let mut server = Server::start(&[]);
    create(&server, "one", 1);
    let mut connection = Connection::open(server.port());
    // Both arrive together: the answer to the first shows that the second was read.
    let frames = [frame(&messages::ApiVersionsRequest::default(), 0), long_poll("one")];
    let framed = frames.map(|frame| [&(frame.len() as u32).to_be_bytes()[..], &frame].concat());
    connection.send(&framed.concat());
    assert!(connection.read_frame().is_some());
    let started = Instant::now();
    server.terminate().success();
    // Below what the server gives to connections whose answers are not ready.
    assert!(started.elapsed() < Duration::from_millis(1500), "the end took {:?}", started.elapsed());
    assert!(connection.read_frame().is_some(), "the long poll is answered");
}
