//! Counters move as what they count does.

use std::time::{Duration, Instant};

use riparian_tests::{Connection, Scrape, Server, create_topic_request, request};

const LIMIT: Duration = Duration::from_secs(10);

/// Scrapes until what it says is as expected.
pub(super) fn eventually(port: u16, what: &str, is_so: impl Fn(&Scrape) -> bool) -> Scrape {
    let deadline = Instant::now() + LIMIT;
    loop {
        let scrape = Scrape::take(port);
        if is_so(&scrape) {
            return scrape;
        }
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}; the last scrape: {scrape:#?}");
    }
}

#[test]
fn the_process_tells_of_itself() {
    let server = Server::start(&[]);
    let port = server.http_port();
    let scrape = Scrape::take(port);
    let value = |name: &str| scrape.value(name, &[]).unwrap_or_else(|| panic!("no {name}"));
    let resident_kib = server.resident_kib() as f64;
    let told_kib = value("riparian_process_resident_memory_bytes") / 1024.0;
    assert!((told_kib - resident_kib).abs() < 4096.0, "{told_kib} KiB, but it is {resident_kib}");
    let descriptors =
        std::fs::read_dir(format!("/proc/{}/fd", server.program().pid())).expect("it runs").count() as f64;
    let told = value("riparian_process_open_descriptors");
    assert!((told - descriptors).abs() <= 3.0, "{told} descriptors, but there are {descriptors}");
    assert!(value("riparian_process_max_descriptors") >= told);
    assert!(value("riparian_process_threads") >= 2.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later").as_secs_f64();
    let started = value("riparian_process_start_time_seconds");
    assert!((now - 60.0..=now).contains(&started), "started at {started}, now it is {now}");
    assert!(value("riparian_process_cpu_seconds_total") < 60.0);
    let version = scrape.label_values("riparian_build_info", "version");
    assert_eq!(version.into_iter().collect::<Vec<_>>(), [env!("CARGO_PKG_VERSION")]);
}

#[test]
fn connections_are_counted_by_how_they_end() {
    let server = Server::start(&[("socket.request.max.bytes", "10000"), ("connections.max.idle.ms", "3000")]);
    let port = server.http_port();
    let closed = |scrape: &Scrape, reason: &str| scrape.sum("riparian_connections_closed_total", &[("reason", reason)]);
    let hits = |scrape: &Scrape, limit: &str| scrape.sum("riparian_limit_hits_total", &[("limit", limit)]);
    let mut staying = Connection::open(server.port());
    staying.send_frame(&create_topic_request(1, "there"));
    assert!(staying.read_frame().is_some());
    let scrape = Scrape::take(port);
    assert_eq!(scrape.value("riparian_connections", &[]), Some(1.0));
    assert_eq!(scrape.value("riparian_connections_accepted_total", &[]), Some(1.0));
    drop(Connection::open(server.port()));
    eventually(port, "a connection closed by its peer", |scrape| closed(scrape, "peer") == 1.0);
    let mut bad = Connection::open(server.port());
    bad.send_frame(&request(999, 0, 1, &[]));
    assert_eq!(bad.read_frame(), None);
    let mut large = Connection::open(server.port());
    large.send(&10_001i32.to_be_bytes());
    assert_eq!(large.read_frame(), None);
    let scrape = eventually(port, "two bad requests", |scrape| closed(scrape, "bad_request") == 2.0);
    assert_eq!(hits(&scrape, "socket.request.max.bytes"), 1.0);
    // A produce of a version that is only advertised is answered by the end of the connection.
    let mut old = Connection::open(server.port());
    old.send_frame(&request(0, 2, 1, &[0; 20]));
    assert_eq!(old.read_frame(), None);
    eventually(port, "an end as the only answer", |scrape| closed(scrape, "answer") == 1.0);
    let scrape = eventually(port, "an idle connection", |scrape| closed(scrape, "idle") == 1.0);
    assert_eq!(hits(&scrape, "connections.max.idle.ms"), 1.0);
    assert_eq!(scrape.value("riparian_connections", &[]), Some(0.0));
    assert_eq!(scrape.value("riparian_connections_accepted_total", &[]), Some(5.0));
    assert_eq!(scrape.sum("riparian_connections_closed_total", &[]), 5.0);
}

#[test]
fn connections_beyond_the_limit_are_counted() {
    let server = Server::start(&[("max.connections", "1")]);
    let mut first = Connection::open(server.port());
    first.send_frame(&create_topic_request(1, "there"));
    assert!(first.read_frame().is_some());
    assert_eq!(Connection::open(server.port()).read_frame(), None);
    let scrape = Scrape::take(server.http_port());
    assert_eq!(scrape.value("riparian_connections_refused_total", &[("reason", "too_many")]), Some(1.0));
    assert_eq!(scrape.value("riparian_limit_hits_total", &[("limit", "max.connections")]), Some(1.0));
}

#[test]
fn requests_are_counted_by_api_and_error_with_their_bytes_and_time() {
    const CREATE_TOPICS: (&str, &str) = ("api", "CreateTopics");
    let server = Server::start(&[]);
    let port = server.http_port();
    let before = Scrape::take(port);
    let requests =
        |scrape: &Scrape, error: &str| scrape.value("riparian_requests_total", &[CREATE_TOPICS, ("error", error)]);
    assert_eq!((requests(&before, "NONE"), requests(&before, "TOPIC_ALREADY_EXISTS")), (Some(0.0), None));
    let mut connection = Connection::open(server.port());
    let (mut sent, mut received) = (0, 0);
    for topic in ["one", "two", "two", "one", "one"] {
        let request = create_topic_request(1, topic);
        connection.send_frame(&request);
        sent += request.len();
        received += connection.read_frame().expect("an answer").len();
    }
    let scrape = Scrape::take(port);
    assert_eq!(requests(&scrape, "NONE"), Some(2.0));
    assert_eq!(requests(&scrape, "TOPIC_ALREADY_EXISTS"), Some(3.0));
    assert_eq!(scrape.value("riparian_request_bytes_total", &[CREATE_TOPICS]), Some(sent as f64));
    assert_eq!(scrape.value("riparian_response_bytes_total", &[CREATE_TOPICS]), Some(received as f64));
    assert_eq!(scrape.value("riparian_request_latency_seconds_count", &[CREATE_TOPICS]), Some(5.0));
    let seconds = scrape.value("riparian_request_latency_seconds_sum", &[CREATE_TOPICS]).expect("a sum");
    assert!(seconds > 0.0 && seconds < 10.0, "{seconds} s for 5 requests");
    assert_eq!(scrape.value("riparian_requests_in_flight", &[]), Some(0.0));
}

/// ListOffsets (key 2) of version 1 and Fetch (key 1) of version 4 for partition 0 of a topic that may not exist.
pub(super) fn fetch(topic: &str, offset: i64, wait_ms: i32) -> Vec<u8> {
    let mut body = (-1i32).to_be_bytes().to_vec();
    body.extend(wait_ms.to_be_bytes());
    body.extend(1i32.to_be_bytes()); // at least so many bytes
    body.extend(1_000_000i32.to_be_bytes()); // at most
    body.push(0); // isolation level
    body.extend(1i32.to_be_bytes());
    body.extend(i16::try_from(topic.len()).expect("it is short").to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend(1i32.to_be_bytes());
    body.extend(0i32.to_be_bytes());
    body.extend(offset.to_be_bytes());
    body.extend(1_000_000i32.to_be_bytes());
    request(1, 4, 1, &body)
}

#[test]
fn an_error_of_a_partition_counts_and_a_request_that_waits_is_in_flight() {
    let server = Server::start(&[]);
    let port = server.http_port();
    riparian_tests::create_topics(server.port(), &["there"], 1);
    let mut connection = Connection::open(server.port());
    for (topic, offset) in [("nowhere", 0), ("there", 7), ("there", 0)] {
        connection.send_frame(&fetch(topic, offset, 0));
        assert!(connection.read_frame().is_some());
    }
    let scrape = Scrape::take(port);
    let fetches =
        |scrape: &Scrape, error: &str| scrape.value("riparian_requests_total", &[("api", "Fetch"), ("error", error)]);
    assert_eq!(fetches(&scrape, "UNKNOWN_TOPIC_OR_PARTITION"), Some(1.0));
    assert_eq!(fetches(&scrape, "OFFSET_OUT_OF_RANGE"), Some(1.0));
    assert_eq!(fetches(&scrape, "NONE"), Some(1.0));
    connection.send_frame(&fetch("there", 0, 300_000));
    eventually(port, "a request in flight", |scrape| scrape.value("riparian_requests_in_flight", &[]) == Some(1.0));
    drop(connection);
    eventually(port, "none in flight", |scrape| scrape.value("riparian_requests_in_flight", &[]) == Some(0.0));
}
