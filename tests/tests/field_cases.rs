//! Cases from the field, by their ids (`docs/field-cases.md`), that only the binary with its sockets shows.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use riparian_protocol::{ApiKey, Message as _, Request, RequestHeader, ResponseHeader, messages};
use riparian_records::{BatchBuilder, BatchOptions};
use riparian_tests::{Connection, Program, Server, create_topic_request, riparian};
use riparian_types::WallMillis;
use riparian_wire::Reader;

const LIMIT: Duration = Duration::from_secs(20);
/// What bad clients may leave behind in memory.
const GROWTH_KIB_MAX: u64 = 16 * 1024;

fn frame<'a, R: Request<'a>>(request: &R, version: i16, correlation_id: i32) -> Vec<u8> {
    let mut bytes = header(R::API_KEY, version, correlation_id);
    request.encode(&mut bytes, version).expect("the request can be written");
    bytes
}

fn header(key: ApiKey, version: i16, correlation_id: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = RequestHeader {
        api_key: key as i16,
        api_version: version,
        correlation_id,
        client_id: Some("field".into()),
        ..Default::default()
    };
    header.encode(&mut bytes).expect("a header can be written");
    bytes
}

fn correlation_id(answer: &[u8]) -> i32 {
    i32::from_be_bytes(*answer.first_chunk().expect("an answer has a header"))
}

fn decoded<'a, 'm, R: Request<'m>>(_: &R, answer: &'a [u8], version: i16) -> R::Response<'a> {
    let mut reader = Reader::new(answer);
    ResponseHeader::decode(&mut reader, R::API_KEY, version).expect("a header");
    R::Response::decode(&mut reader, version).expect("a response")
}

fn create_topic(port: u16, topic: &str) {
    let mut connection = Connection::open(port);
    connection.send_frame(&create_topic_request(1, topic));
    connection.read_frame().expect("an answer");
}

fn fetch(topic: &'static str, max_wait_ms: i32) -> messages::FetchRequest<'static> {
    let partition = messages::fetch_request::FetchPartition {
        current_leader_epoch: -1,
        fetch_offset: 1 << 40,
        partition_max_bytes: 1024,
        ..Default::default()
    };
    let partition = if max_wait_ms > 0 {
        messages::fetch_request::FetchPartition { fetch_offset: 0, ..partition }
    } else {
        partition
    };
    let topic =
        messages::fetch_request::FetchTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() };
    messages::FetchRequest { max_wait_ms, min_bytes: 1, max_bytes: 1024, topics: vec![topic], ..Default::default() }
}

fn produce(topic: &'static str, acks: i16) -> messages::ProduceRequest<'static> {
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    builder.push(WallMillis(1_700_000_000_000), None, Some(b"value"));
    let data =
        messages::produce_request::PartitionProduceData { records: Some(builder.build().into()), ..Default::default() };
    let topic = messages::produce_request::TopicProduceData {
        name: topic.into(),
        partition_data: vec![data],
        ..Default::default()
    };
    messages::ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() }
}

/// A request of some kind, and whether it is answered.
fn some_request(kind: u64, id: i32) -> (Vec<u8>, bool) {
    match kind % 9 {
        0 => (frame(&fetch("idle", 20), 12, id), true),
        1 => (frame(&fetch("idle", 0), 12, id), true),
        2 => (frame(&messages::MetadataRequest::default(), 12, id), true),
        3 => (frame(&produce("busy", -1), 9, id), true),
        4 => (frame(&produce("busy", 0), 9, id), false),
        5 => (frame(&produce("busy", 5), 9, id), true),
        6 => (frame(&produce("nowhere", 1), 9, id), true),
        7 => ([&header(ApiKey::ApiVersions, 99, id)[..], &[7; 9]].concat(), true),
        _ => (frame(&messages::ApiVersionsRequest::default(), 0, id), true),
    }
}

#[test]
fn p_05_answers_come_in_the_order_of_the_requests() {
    let server = Server::start(&[("auto.create.topics.enable", "false")]);
    create_topic(server.port(), "idle");
    create_topic(server.port(), "busy");
    // The slowest first, and everything else behind it.
    let mut connection = Connection::open(server.port());
    connection.send_frame(&frame(&fetch("idle", 500), 12, 0));
    for id in 1..=90 {
        connection.send_frame(&some_request(id as u64, id).0);
    }
    for id in (0..=90).filter(|id| id % 9 != 4) {
        let answer = connection.read_frame().expect("an answer");
        assert_eq!(correlation_id(&answer), id);
    }
    // Mixes, in pieces that are as long as a client's pipeline may be.
    let mut luck = 7u64;
    for round in 0..20 {
        let mut expected = Vec::new();
        for id in 0..50 {
            luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = round * 50 + id;
            let (bytes, is_answered) = some_request(luck >> 33, id);
            connection.send_frame(&bytes);
            if is_answered {
                expected.push(id);
            }
        }
        for id in expected {
            assert_eq!(correlation_id(&connection.read_frame().expect("an answer")), id);
        }
    }
}

#[test]
fn p_05_what_was_asked_before_an_impossible_request_is_answered_first() {
    let server = Server::start(&[]);
    create_topic(server.port(), "busy");
    let mut connection = Connection::open(server.port());
    for id in 0..5 {
        connection.send_frame(&frame(&messages::MetadataRequest::default(), 12, id));
    }
    connection.send_frame(&header(ApiKey::Metadata, 99, 5));
    connection.send_frame(&frame(&messages::MetadataRequest::default(), 12, 6));
    for id in 0..5 {
        assert_eq!(correlation_id(&connection.read_frame().expect("an answer")), id);
    }
    assert_eq!(connection.read_frame(), None, "and then it is closed");
}

/// Host and port that a server tells in Metadata, FindCoordinator and DescribeCluster.
fn told(port: u16) -> Vec<(String, i32)> {
    let mut connection = Connection::open(port);
    let mut ask = |bytes: Vec<u8>| {
        connection.send_frame(&bytes);
        connection.read_frame().expect("an answer")
    };
    let metadata = messages::MetadataRequest::default();
    let coordinator = messages::FindCoordinatorRequest { coordinator_keys: vec!["app".into()], ..Default::default() };
    let cluster = messages::DescribeClusterRequest { endpoint_type: 1, ..Default::default() };
    let mut found = Vec::new();
    let answer = ask(frame(&metadata, 12, 1));
    found.extend(decoded(&metadata, &answer, 12).brokers.iter().map(|at| (at.host.to_string(), at.port)));
    let answer = ask(frame(&coordinator, 4, 2));
    found.extend(decoded(&coordinator, &answer, 4).coordinators.iter().map(|at| (at.host.to_string(), at.port)));
    let answer = ask(frame(&cluster, 1, 3));
    found.extend(decoded(&cluster, &answer, 1).brokers.iter().map(|at| (at.host.to_string(), at.port)));
    found
}

fn serve(listeners: &str, advertised: &str) -> (Program, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut command = riparian();
    command.arg("serve").arg("--data-dir").arg(dir.path().join("data"));
    let map = "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT,SIX:PLAINTEXT";
    for setting in [map, &format!("listeners={listeners}"), &format!("advertised.listeners={advertised}")] {
        command.args(["--set", setting]);
    }
    (Program::start("riparian", &mut command), dir)
}

#[test]
fn p_10_each_listener_tells_its_own_address() {
    let listeners = "IN://127.0.0.1:0,OUT://0.0.0.0:0,SIX://[::1]:0";
    // Other ports than the bound ones, names that nobody resolves here.
    let advertised = "IN://broker.inside:29092,OUT://localhost:9092,SIX://[::1]:7777";
    let (program, _dir) = serve(listeners, advertised);
    // The log tells which ports they are.
    let [inside, outside] = ["listener=IN://127.0.0.1:", "listener=OUT://0.0.0.0:"].map(|listener| {
        program.wait_until_told(listener, LIMIT, |lines| {
            let rest = lines.iter().find_map(|line| line.split_once(listener))?.1;
            rest.split(' ').next()?.parse().ok()
        })
    });
    for (port, host, told_port) in [(inside, "broker.inside", 29092), (outside, "localhost", 9092)] {
        assert_eq!(told(port), vec![(host.to_owned(), told_port); 3]);
    }
}

#[test]
fn p_10_addresses_that_nobody_can_connect_to_are_refused() {
    for host in ["0.0.0.0", "[::]"] {
        let (program, _dir) = serve("IN://127.0.0.1:0", &format!("IN://{host}:9092"));
        let finished = program.finish(LIMIT);
        assert!(!finished.status.success());
        for word in ["advertised.listeners", host, "cannot be connected to"] {
            assert!(finished.stderr.contains(word), "no `{word}` in: {}", finished.stderr);
        }
    }
}

/// Numbers of elements that no frame has room for, as old and as compact arrays, strings and tagged fields have them.
const CLAIMS: [&[u8]; 7] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xfe],
    &[0x00, 0x00, 0x00, 0x40],
    &[0x7f, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x40],
];

#[test]
fn x_01_few_bytes_that_claim_many_elements_take_no_memory() {
    let server = Server::start(&[]);
    let mut neighbour = Connection::open(server.port());
    let before = server.resident_kib();
    for key in (0..100).filter_map(ApiKey::from_code) {
        let Some(served) = key.served() else { continue };
        for version in served.iter() {
            for claim in CLAIMS {
                // The claim after so many other bytes: fields before it, or the elements it is nested in.
                for filler in [0u8, 1, 2] {
                    for skipped in [0usize, 1, 2, 3, 4, 5, 6, 8, 11, 14] {
                        let body = [&vec![filler; skipped][..], claim, &[0; 4]].concat();
                        let mut connection = Connection::open(server.port());
                        connection.send_frame(&[&header(key, version, 1)[..], &body].concat());
                        connection.finish_sending();
                        // Answered or closed; both are well.
                        let _ = connection.read_frame();
                    }
                }
            }
        }
        neighbour.send_frame(&frame(&messages::ApiVersionsRequest::default(), 0, 9));
        assert_eq!(correlation_id(&neighbour.read_frame().expect("a neighbour is undisturbed")), 9);
        let grown = server.resident_kib().saturating_sub(before);
        assert!(grown < GROWTH_KIB_MAX, "after {}: memory grew by {grown} KiB", key.name());
    }
    assert!(!server.program().stderr().contains("panic"), "{}", server.program().stderr());
}

#[test]
fn x_01_five_hundred_claims_at_once_take_no_memory() {
    let server = Server::start(&[]);
    let before = server.resident_kib();
    let mut connections: Vec<_> = (0..500).map(|_| Connection::open(server.port())).collect();
    for connection in &mut connections {
        let body = [&[0x7f, 0xff, 0xff, 0xff][..], &[0; 60]].concat();
        connection.send_frame(&[&header(ApiKey::Metadata, 1, 1)[..], &body].concat());
    }
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "memory grew by {grown} KiB");
    for connection in &mut connections {
        assert_eq!(connection.read_frame(), None);
    }
}

#[test]
fn s_02_the_log_names_the_file_the_place_and_the_ways_out() {
    let mut server = Server::start(&[]);
    for topic in ["damaged", "healthy"] {
        create_topic(server.port(), topic);
        assert_eq!(produce_one(server.port(), topic), 0);
    }
    server.terminate().success();
    let file = server.partition_dir("damaged", 0).join("00000000000000000000.log");
    let mut bytes = std::fs::read(&file).expect("the log is there");
    *bytes.last_mut().expect("a record was produced") ^= 1;
    std::fs::write(&file, bytes).expect("the log can be changed");
    server.restart();
    for _ in 0..20 {
        assert_eq!(produce_one(server.port(), "damaged"), 56, "KAFKA_STORAGE_ERROR");
        assert_eq!(produce_one(server.port(), "healthy"), 0);
    }
    let log = server.program().stderr();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("damaged")).collect();
    let [line] = &lines[..] else { panic!("not one line: {lines:?}") };
    let place = format!("{} is damaged at byte 0, where offset 0 is due", file.display());
    for words in
        ["ERROR", "partition is offline", &place, "backup", "recovery-point-offset-checkpoint", "delete the topic"]
    {
        assert!(line.contains(words), "{words} in {line}");
    }
    // The last of the ways out.
    server.terminate().success();
    let checkpoint = server.data_dir().join("recovery-point-offset-checkpoint");
    std::fs::remove_file(checkpoint).expect("it is there");
    server.restart();
    assert_eq!(produce_one(server.port(), "damaged"), 0);
}

/// Produces one record; the error code.
fn produce_one(port: u16, topic: &str) -> i16 {
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    builder.push(WallMillis(1_700_000_000_000), None, Some(b"value"));
    let data =
        messages::produce_request::PartitionProduceData { records: Some(builder.build().into()), ..Default::default() };
    let topic = messages::produce_request::TopicProduceData {
        name: topic.to_owned().into(),
        partition_data: vec![data],
        ..Default::default()
    };
    let request =
        messages::ProduceRequest { acks: -1, timeout_ms: 5000, topic_data: vec![topic], ..Default::default() };
    let mut connection = Connection::open(port);
    connection.send_frame(&frame(&request, 9, 1));
    let answer = connection.read_frame().expect("an answer");
    decoded(&request, &answer, 9).responses[0].partition_responses[0].error_code
}

#[test]
fn x_02_frames_that_are_only_announced_take_no_memory() {
    let server = Server::start(&[]);
    let mut neighbour = Connection::open(server.port());
    let before = server.resident_kib();
    // The largest size that is allowed, and of it a few bytes.
    let mut connections: Vec<_> = (0..500).map(|_| Connection::open(server.port())).collect();
    for _ in 0..3 {
        for connection in &mut connections {
            connection.send(&(100 * 1024 * 1024i32).to_be_bytes());
        }
    }
    neighbour.send_frame(&frame(&messages::ApiVersionsRequest::default(), 0, 3));
    assert_eq!(correlation_id(&neighbour.read_frame().expect("an answer")), 3);
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "memory grew by {grown} KiB");
}

#[test]
fn x_02_thousands_of_dripping_sockets_time_out() {
    const SOCKETS: usize = 3000;
    let server = Server::start(&[("connections.max.idle.ms", "1500")]);
    let before = server.resident_kib();
    let mut sockets: Vec<TcpStream> = (0..SOCKETS)
        .map(|_| {
            let mut socket = TcpStream::connect(("127.0.0.1", server.port())).expect("the server accepts connections");
            socket.write_all(&(1000i32).to_be_bytes()).expect("the connection is new");
            socket
        })
        .collect();
    // Each goes on for as long as it may, one byte in a fraction of the time that is allowed.
    let began = Instant::now();
    while !sockets.is_empty() {
        assert!(began.elapsed() < LIMIT, "{} sockets still drip", sockets.len());
        sockets.retain_mut(|socket| {
            socket.set_nonblocking(true).expect("the socket is there");
            let closed = matches!(socket.read(&mut [0]), Ok(0));
            !closed && socket.write_all(&[0]).is_ok()
        });
        // Until the next byte is due, or the oldest of them is closed.
        if let Some(socket) = sockets.first() {
            socket.set_nonblocking(false).expect("the socket is there");
            socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit above zero is accepted");
            let _ = socket.peek(&mut [0]);
        }
    }
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "memory grew by {grown} KiB");
    let mut neighbour = Connection::open(server.port());
    neighbour.send_frame(&frame(&messages::ApiVersionsRequest::default(), 0, 3));
    assert_eq!(correlation_id(&neighbour.read_frame().expect("an answer")), 3);
}

#[test]
fn x_02_impossible_frames_and_other_protocols_are_closed_in_few_lines() {
    let server = Server::start(&[]);
    let sizes = [i32::MAX, 100 * 1024 * 1024 + 1, 0, 3, 7, -1, i32::MIN];
    let mut hellos: Vec<Vec<u8>> = sizes.iter().map(|size| size.to_be_bytes().to_vec()).collect();
    hellos.push(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec());
    hellos.push(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec());
    // TLS: a handshake record with the beginning of a hello.
    hellos.push([&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[0xab; 200]].concat());
    hellos.push(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec());
    hellos.push(b"\n\n\n\n\n\n\n\n".to_vec());
    for _ in 0..30 {
        for hello in &hellos {
            let mut connection = Connection::open(server.port());
            connection.send(hello);
            // Closed at once, although the client would send more.
            assert_eq!(connection.read_frame(), None, "{hello:?}");
        }
    }
    let log = server.program().stderr();
    assert!(log.lines().count() < 60, "{} lines", log.lines().count());
    assert!(!log.contains("panic") && !log.contains("stack backtrace"), "{log}");
}
