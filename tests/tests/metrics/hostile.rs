//! HTTP clients that mean no good: they are bounded, and the rest of the server does not notice them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use riparian_tests::{Connection, Scrape, Server, create_topic_request, http_get};

const LIMIT: Duration = Duration::from_secs(15);
/// As many as are served at the same time.
const CONNECTIONS_MAX: usize = 16;
/// How many come while all places are held; the first of those that hold them are closed after five seconds.
const REFUSED: usize = 20;

fn open(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts HTTP connections");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit above zero is accepted");
    stream
}

/// What comes until the server closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too.
    match stream.read_to_end(&mut bytes) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
            panic!("the connection is still open after {LIMIT:?}: {:?}", String::from_utf8_lossy(&bytes))
        }
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

/// What is answered to these bytes.
fn answer_to(port: u16, bytes: &[u8]) -> String {
    let mut stream = open(port);
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    rest(stream)
}

fn check_serves_kafka(server: &Server, topic: &str) {
    let start = Instant::now();
    let mut connection = Connection::open(server.port());
    connection.send_frame(&create_topic_request(1, topic));
    assert!(connection.read_frame().is_some());
    assert!(start.elapsed() < Duration::from_secs(4), "{:?} for a topic", start.elapsed());
}

#[test]
fn requests_that_are_none_or_too_large_are_refused_at_once() {
    let server = Server::start(&[]);
    let port = server.http_port();
    let before = server.resident_kib();
    let check = |bytes: &[u8], status: &str| {
        let answer = answer_to(port, bytes);
        let first = answer.lines().next().unwrap_or_default();
        assert!(first.starts_with(&format!("HTTP/1.1 {status}")), "{answer:?}");
    };
    check(b"hello\r\n\r\n", "400");
    check(b"\x00\x00\x00\x10\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01x\x00\x00\x00\x00\x00", "400");
    check(b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "400");
    let long_path = [b"GET /".as_slice(), &[b'x'; 1 << 20], b" HTTP/1.1\r\n\r\n"].concat();
    let many_headers = [b"GET / HTTP/1.1\r\n".as_slice(), &b"A: b\r\n".repeat(1 << 17), b"\r\n"].concat();
    for large in [long_path, many_headers] {
        // What was answered is lost when the connection is reset because of what nobody will read.
        let answer = answer_to(port, &large);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer:?}");
    }
    check(&[b"GET /healthz HTTP/1.1\r\n".as_slice(), &b"A: b\r\n".repeat(65), b"\r\n"].concat(), "431");
    let refused = Scrape::take(port).value("riparian_limit_hits_total", &[("limit", "http head")]);
    assert_eq!(refused, Some(3.0));
    check(b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n", "405");
    check(b"GET /nowhere HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n", "404");
    assert_eq!(answer_to(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "", "there is no HTTP/2");
    check_serves_kafka(&server, "served");
    assert_eq!(http_get(port, "/version").status, 200);
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 4096, "{grown} KiB more");
}

#[test]
fn whoever_sends_nothing_after_its_request_is_answered() {
    let server = Server::start(&[]);
    for path in ["/healthz", "/metrics"] {
        let mut stream = open(server.http_port());
        stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).expect("the request is taken");
        stream.shutdown(Shutdown::Write).expect("the connection is open");
        let answer = rest(stream);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    }
}

#[test]
fn slow_clients_are_closed_and_many_are_not_let_in() {
    let server = Server::start(&[]);
    let port = server.http_port();
    // Whoever waits for the first byte, in the middle of a head, or drips, is holding a place.
    let mut slow: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| open(port)).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        stream.write_all(&b"GET /metrics HTTP/1.1\r\n"[..n]).expect("the beginning of a head is taken");
    }
    let start = Instant::now();
    for _ in 0..REFUSED {
        assert_eq!(rest(open(port)), "", "one too many is closed without a word");
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?} for the refusals", start.elapsed());
    check_serves_kafka(&server, "meanwhile");
    for stream in slow {
        rest(stream);
    }
    let waited = start.elapsed();
    assert!(waited < LIMIT, "{waited:?} until slow clients were closed");
    let scrape = Scrape::take(port);
    assert_eq!(scrape.value("riparian_limit_hits_total", &[("limit", "http connections")]), Some(REFUSED as f64));
    assert_eq!(scrape.value("riparian_limit_hits_total", &[("limit", "http time")]), Some(CONNECTIONS_MAX as f64));
    check_serves_kafka(&server, "afterwards");
}

#[test]
fn scrapes_without_end_leave_most_of_the_processor_to_others() {
    let server = Server::start(&[]);
    let port = server.http_port();
    let cpu_seconds = |scrape: &Scrape| {
        let value = scrape.value("riparian_process_cpu_seconds_total", &[]);
        value.expect("a process has used the processor")
    };
    let start = Instant::now();
    let before = cpu_seconds(&Scrape::take(port));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while start.elapsed() < Duration::from_secs(2) {
                    http_get(port, "/metrics");
                }
            });
        }
    });
    let used = cpu_seconds(&Scrape::take(port)) - before;
    let share = used / start.elapsed().as_secs_f64();
    assert!(share < 0.4, "{share} of a processor for scrapes");
}
