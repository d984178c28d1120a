//! Bytes that no client should send: a clear answer or a closed connection, bounded memory, others undisturbed.

use riparian_tests::{Against, Connection, Server, against, create_topic_request, request};

const PRODUCE: i16 = 0;
const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
const UNSUPPORTED_VERSION: i16 = 35;
/// What many bad requests may leave behind in memory.
const GROWTH_KIB_MAX: u64 = 16 * 1024;

/// A well-behaved neighbour: its connection must live through everything.
struct Neighbour {
    connection: Connection,
    requests: i32,
}

impl Neighbour {
    fn new(server: &Server) -> Self {
        let mut neighbour = Self { connection: Connection::open(server.port()), requests: 0 };
        neighbour.check();
        neighbour
    }

    fn check(&mut self) {
        self.requests += 1;
        self.connection.send_frame(&request(API_VERSIONS, 0, self.requests, &[]));
        let reply = self.connection.read_frame().expect("an undisturbed connection stays open");
        assert_eq!(reply[..6], [&self.requests.to_be_bytes()[..], &0i16.to_be_bytes()].concat(), "a good reply");
    }
}

/// Sends bytes on a connection of their own; the server must close it or answer.
fn provoke(server: &Server, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut connection = Connection::open(server.port());
    connection.send(bytes);
    connection.finish_sending();
    connection.read_frame()
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len()).expect("test frames are small");
    [&length.to_be_bytes()[..], body].concat()
}

/// A small generator with a fixed seed: the same bytes in every run.
struct Bytes(u64);

impl Bytes {
    fn take(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                self.0.to_be_bytes()[0]
            })
            .collect()
    }
}

#[test]
fn impossible_frame_lengths_close_the_connection() {
    let server = Server::start(&[]);
    let mut neighbour = Neighbour::new(&server);
    for length in [i32::MAX, i32::MIN, -1, 0x7000_0000, 200 * 1024 * 1024] {
        let bytes = [&length.to_be_bytes()[..], &[0; 64]].concat();
        assert_eq!(provoke(&server, &bytes), None, "frame length {length}");
        neighbour.check();
    }
}

#[test]
fn random_bytes_disturb_nobody_and_keep_no_memory() {
    let server = Server::start(&[]);
    let mut neighbour = Neighbour::new(&server);
    let before = server.resident_kib();
    let mut bytes = Bytes(20_260_101);
    for round in 0..300 {
        let noise = bytes.take(1 + round * 7);
        // As a stream, as one frame, and as the body of a request whose header is right.
        provoke(&server, &noise);
        provoke(&server, &framed(&noise));
        let api_key = i16::try_from(round % 95).expect("below 95");
        for version in [0, 3, 9, 12] {
            provoke(&server, &framed(&request(api_key, version, 1, &noise)));
        }
        if round % 50 == 0 {
            neighbour.check();
        }
    }
    neighbour.check();
    // A broker on a JVM grows its heap as it likes.
    if against() == Against::Riparian {
        let grown = server.resident_kib().saturating_sub(before);
        assert!(grown < GROWTH_KIB_MAX, "memory grew by {grown} KiB");
    }
}

#[test]
fn unknown_keys_and_versions_are_refused() {
    let server = Server::start(&[]);
    let mut neighbour = Neighbour::new(&server);
    for (api_key, version) in [(9999, 0), (-1, 0), (PRODUCE, 99), (PRODUCE, -1), (METADATA, 99), (i16::MAX, i16::MAX)] {
        assert_eq!(
            provoke(&server, &framed(&request(api_key, version, 7, &[0; 32]))),
            None,
            "key {api_key} v{version}"
        );
        neighbour.check();
    }
}

#[test]
fn newer_api_versions_request_is_answered_in_the_oldest_form() {
    let server = Server::start(&[]);
    let reply = provoke(&server, &framed(&request(API_VERSIONS, 99, 11, &[0; 8]))).expect("an answer");
    assert_eq!(reply[..4], 11i32.to_be_bytes());
    assert_eq!(reply[4..6], UNSUPPORTED_VERSION.to_be_bytes());
    // At least the range of ApiVersions itself, so that the client can try again.
    let ranges = &reply[10..];
    let own = ranges.chunks_exact(6).find(|range| range[..2] == API_VERSIONS.to_be_bytes());
    assert!(own.is_some(), "{reply:?}");
}

#[test]
fn truncated_requests_are_refused_at_every_byte() {
    let server = Server::start(&[]);
    let mut neighbour = Neighbour::new(&server);
    let whole = create_topic_request(5, "whole");
    for length in 0..whole.len() {
        assert_eq!(provoke(&server, &framed(&whole[..length])), None, "cut after {length} bytes");
    }
    // Half a frame and then nothing is not an answer's worth either.
    assert_eq!(provoke(&server, &framed(&whole)[..20]), None);
    neighbour.check();
    assert!(provoke(&server, &framed(&whole)).is_some());
}

#[test]
fn array_lengths_beyond_the_frame_are_refused() {
    let server = Server::start(&[]);
    let mut neighbour = Neighbour::new(&server);
    let before = server.resident_kib();
    for length in [i32::MAX, 0x0fff_ffff, 1_000_000] {
        // Metadata version 1: an array of topic names.
        let body = [&length.to_be_bytes()[..], &[0; 16]].concat();
        assert_eq!(provoke(&server, &framed(&request(METADATA, 1, 3, &body))), None, "array length {length}");
        // CreateTopics version 2: an array of structures.
        assert_eq!(provoke(&server, &framed(&request(19, 2, 3, &body))), None, "array length {length}");
        neighbour.check();
    }
    if against() == Against::Riparian {
        let grown = server.resident_kib().saturating_sub(before);
        assert!(grown < GROWTH_KIB_MAX, "memory grew by {grown} KiB");
    }
}
