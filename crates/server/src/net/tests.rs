//! Connections over loopback against a broker that does what the request says.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use riparian_broker::{FilePart, Shell, telemetry::Limit};
use riparian_types::{MonoMillis, Now};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Handle,
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    addresses::AddressLimits,
    connection::HeldLimits,
    counters::Closed,
    hub::Hub,
    listen::{Acceptor, Bound, Limits},
    port::{ConnectionId, Port, Reply},
    workers::Workers,
};
use crate::{clock::Clock, config::listeners::Endpoint};

mod files;

/// Frames are words: `echo…` is answered at once, `file…` with the next part of a file that the test has for it, `hold…` when the test says so, `none…` not at all, `refuse…` ends the
/// connection at once and `quit…` after the replies before it, `panic…` panics.
struct Fake {
    hub: Arc<Hub>,
    connections: AtomicU64,
    held: Mutex<Vec<(ConnectionId, u64, Bytes)>>,
    handled: AtomicU64,
    /// How long the last request was.
    last_bytes: AtomicU64,
    /// Requests that were handled since it was settled last.
    unsettled: AtomicU64,
    settled: AtomicU64,
    hurried: AtomicU64,
    /// To hurry is more than it can do.
    panics_when_hurried: AtomicBool,
    disconnected: AtomicU64,
    parts: Mutex<VecDeque<FilePart>>,
    timers: Mutex<Vec<MonoMillis>>,
    changed: Notify,
}

/// A request that counts as handled when this is dropped.
struct Handled<'a>(&'a Fake);

impl Drop for Handled<'_> {
    fn drop(&mut self) {
        self.0.handled.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

fn framed(body: &[u8]) -> Reply {
    let size = u32::try_from(body.len()).unwrap().to_be_bytes();
    Reply::Frame { first: size.to_vec().into(), rest: vec![Bytes::from(body.to_vec()).into()] }
}

impl Port for Fake {
    type Connection = ConnectionId;
    type CloseReason = &'static str;

    fn connected(&self, _: SocketAddr, _: &str) -> Arc<ConnectionId> {
        Arc::new(ConnectionId(self.connections.fetch_add(1, Ordering::SeqCst)))
    }

    fn id(connection: &ConnectionId) -> ConnectionId {
        *connection
    }

    fn handle(&self, _: Now, connection: &ConnectionId, slot: u64, frame: Bytes) -> Result<(), &'static str> {
        self.last_bytes.store(frame.len() as u64, Ordering::SeqCst);
        self.unsettled.fetch_add(1, Ordering::SeqCst);
        // Whoever hears of it finds what it led to.
        let _handled = Handled(self);
        match &frame[..4] {
            b"echo" => self.hub.complete(*connection, slot, framed(&frame)),
            b"hold" => self.held.lock().unwrap().push((*connection, slot, frame)),
            b"quit" => self.hub.complete(*connection, slot, Reply::Close),
            b"none" => self.hub.complete(*connection, slot, Reply::None),
            b"big_" => self.hub.complete(*connection, slot, framed(&[7; 1 << 20])),
            b"file" => {
                let part = self.parts.lock().unwrap().pop_front().unwrap();
                self.hub.complete(*connection, slot, files::framed(part));
            }
            b"pani" => panic!("as the test wishes"),
            _ => return Err("refused"),
        }
        Ok(())
    }

    fn settle(&self, _: Now, _: &ConnectionId) {
        self.unsettled.store(0, Ordering::SeqCst);
        self.settled.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn hurry(&self, _: Now, _: &ConnectionId) {
        self.hurried.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics_when_hurried.load(Ordering::SeqCst), "as the test wishes");
        self.changed.notify_waiters();
    }

    fn disconnected(&self, _: Now, _: &ConnectionId) {
        self.disconnected.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn on_time(&self, now: Now) {
        self.timers.lock().unwrap().push(now.mono);
        self.changed.notify_waiters();
    }

    fn shutdown(&self, _: Now) {}
}

impl Fake {
    /// Waits until something is true that a call of the server changes.
    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
    }

    fn release(&self, index: usize) {
        let (connection, slot, frame) = self.held.lock().unwrap().remove(index);
        self.hub.complete(connection, slot, framed(&frame));
    }

    fn held(&self) -> usize {
        self.held.lock().unwrap().len()
    }
}

struct Server {
    fake: Arc<Fake>,
    acceptor: Arc<Acceptor<Fake>>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Server {
    fn start(limits: Limits) -> Self {
        let hub = Hub::new(Clock::start(), Handle::current(), limits.held.all_bytes_max);
        let fake = Arc::new(Fake {
            hub: Arc::clone(&hub),
            connections: AtomicU64::new(0),
            held: Mutex::default(),
            handled: AtomicU64::new(0),
            last_bytes: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            hurried: AtomicU64::new(0),
            panics_when_hurried: AtomicBool::new(false),
            disconnected: AtomicU64::new(0),
            parts: Mutex::default(),
            timers: Mutex::default(),
            changed: Notify::new(),
        });
        let endpoint = Endpoint { name: "PLAINTEXT".into(), host: "127.0.0.1".into(), port: 0 };
        let listener = Bound::bind(&endpoint).unwrap().listen().unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor =
            Arc::new(Acceptor { port: Arc::clone(&fake), hub, workers: Arc::new(Workers::start(1).unwrap()), limits });
        let (stop, stopped) = watch::channel(false);
        let accepting = tokio::spawn(Arc::clone(&acceptor).run("PLAINTEXT".into(), listener, stopped));
        Self { fake, acceptor, address, stop, accepting }
    }

    async fn connect(&self) -> Peer {
        Peer { stream: TcpStream::connect(self.address).await.unwrap() }
    }
}

const CONNECTION_REQUESTS_MAX: usize = 100;
const LIMITS: Limits = Limits {
    frame_bytes_max: 1 << 20,
    idle_ms_max: 600_000,
    connections_max: 1000,
    addresses: AddressLimits { per_address: 1000, overrides: BTreeMap::new() },
    connections_per_second: 1_000_000,
    held: HeldLimits {
        requests_max: CONNECTION_REQUESTS_MAX as u64,
        unsent_bytes_max: 4 << 20,
        all_bytes_max: 1 << 30,
    },
};

struct Peer {
    stream: TcpStream,
}

impl Peer {
    async fn send(&mut self, frames: &[&str]) {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend_from_slice(&(frame.len() as i32).to_be_bytes());
            bytes.extend_from_slice(frame.as_bytes());
        }
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn expect(&mut self, frames: &[&str]) {
        for frame in frames {
            assert_eq!(String::from_utf8_lossy(&self.receive().await), *frame);
        }
    }

    async fn receive(&mut self) -> Vec<u8> {
        let read = async {
            let size = self.stream.read_i32().await.unwrap();
            let mut body = vec![0; size as usize];
            self.stream.read_exact(&mut body).await.unwrap();
            body
        };
        timeout(Duration::from_secs(10), read).await.expect("a reply comes")
    }

    /// The server closes the connection without another byte.
    async fn expect_close(&mut self) {
        let mut byte = [0];
        match timeout(Duration::from_secs(10), self.stream.read(&mut byte)).await.expect("the connection closes") {
            Ok(0) | Err(_) => {}
            Ok(_) => panic!("bytes came instead of the end"),
        }
    }
}

#[tokio::test]
async fn replies_keep_the_order_of_requests() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    peer.send(&["hold-one", "echo-two", "none-three", "hold-four", "echo-five"]).await;
    server.fake.until("all are handled", |fake| fake.handled.load(Ordering::SeqCst) == 5).await;
    server.fake.release(1);
    server.fake.release(0);
    peer.expect(&["hold-one", "echo-two", "hold-four", "echo-five"]).await;
}

#[tokio::test]
async fn what_arrived_together_is_settled_together_and_before_anything_is_waited_for() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    peer.send(&["hold-this"; 20]).await;
    server.fake.until("all are handled", |fake| fake.handled.load(Ordering::SeqCst) == 20).await;
    server.fake.until("all are settled", |fake| fake.unsettled.load(Ordering::SeqCst) == 0).await;
    let settled = server.fake.settled.load(Ordering::SeqCst);
    assert!(settled < 20, "they arrived together, and were settled {settled} times");
    // Those that are large enough to be worth it are not waited for.
    let large = format!("hold{}", "x".repeat(100_000));
    let begun = server.fake.settled.load(Ordering::SeqCst);
    peer.send(&[large.as_str(); 20]).await;
    server.fake.until("all are handled", |fake| fake.handled.load(Ordering::SeqCst) == 40).await;
    server.fake.until("all are settled", |fake| fake.unsettled.load(Ordering::SeqCst) == 0).await;
    let settled = server.fake.settled.load(Ordering::SeqCst) - begun;
    assert!((6..=20).contains(&settled), "2 MB were settled {settled} times");
    // Half a request that follows is waited for only after that.
    peer.send(&["hold-that"]).await;
    peer.stream.write_all(&[0, 0, 0, 99, 1]).await.unwrap();
    server.fake.until("it is handled", |fake| fake.handled.load(Ordering::SeqCst) == 41).await;
    server.fake.until("it is settled", |fake| fake.unsettled.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn large_frames_arrive_whole_in_both_directions() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    let large = format!("echo{}", "x".repeat(1_000_000));
    let (reader, writer) = peer.stream.split();
    let (mut reader, mut writer) = (reader, writer);
    let send = async {
        for _ in 0..3 {
            writer.write_i32(large.len() as i32).await.unwrap();
            writer.write_all(large.as_bytes()).await.unwrap();
        }
    };
    let receive = async {
        for _ in 0..3 {
            let size = reader.read_i32().await.unwrap();
            let mut body = vec![0; size as usize];
            reader.read_exact(&mut body).await.unwrap();
            assert!(body == large.as_bytes());
        }
    };
    tokio::join!(send, receive);
}

#[tokio::test]
async fn reading_stops_while_too_many_requests_are_outstanding() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    let requests = vec!["hold-this"; CONNECTION_REQUESTS_MAX + 50];
    peer.send(&requests).await;
    server.fake.until("the limit is reached", |fake| fake.held() == CONNECTION_REQUESTS_MAX).await;
    // Another connection's round trip gives the first one every chance to go too far.
    let mut other = server.connect().await;
    other.send(&["echo-other"]).await;
    other.expect(&["echo-other"]).await;
    assert_eq!(server.fake.held(), CONNECTION_REQUESTS_MAX);
    server.fake.release(0);
    peer.expect(&["hold-this"]).await;
    server
        .fake
        .until("one more is handled", |fake| fake.handled.load(Ordering::SeqCst) == CONNECTION_REQUESTS_MAX as u64 + 2)
        .await;
    assert_eq!(server.fake.held(), CONNECTION_REQUESTS_MAX);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_served_without_end() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    peer.send(&vec!["big_reply"; 90]).await;
    let mut other = server.connect().await;
    for _ in 0..50 {
        other.send(&["echo-other"]).await;
        other.expect(&["echo-other"]).await;
    }
    let handled = server.fake.handled.load(Ordering::SeqCst) - 50;
    assert!(handled < 40, "{handled} replies of 1 MiB were made for a client that reads nothing");
    for _ in 0..90 {
        assert_eq!(peer.receive().await.len(), 1 << 20);
    }
}

#[tokio::test]
async fn impossible_frames_end_the_connection_and_no_other() {
    let server = Server::start(LIMITS);
    let mut other = server.connect().await;
    for size in [-1, i32::MIN, i32::MAX, (1 << 20) + 1, 0, 7] {
        let mut peer = server.connect().await;
        peer.send(&["echo-first"]).await;
        peer.expect(&["echo-first"]).await;
        peer.stream.write_i32(size).await.unwrap();
        peer.expect_close().await;
    }
    server.fake.until("all are gone", |fake| fake.disconnected.load(Ordering::SeqCst) == 6).await;
    other.send(&["echo-other"]).await;
    other.expect(&["echo-other"]).await;
}

#[tokio::test]
async fn a_refused_request_or_a_panic_ends_only_its_connection() {
    let server = Server::start(LIMITS);
    let mut other = server.connect().await;
    for request in ["refuse-this", "panic-now"] {
        let mut peer = server.connect().await;
        peer.send(&["echo-first", request]).await;
        peer.expect(&["echo-first"]).await;
        peer.expect_close().await;
    }
    other.send(&["echo-other"]).await;
    other.expect(&["echo-other"]).await;
}

#[tokio::test]
async fn a_reply_may_be_the_end_after_the_replies_before_it() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    peer.send(&["hold-this", "quit-then", "echo-never"]).await;
    server.fake.until("it is held", |fake| fake.held() == 1).await;
    server.fake.release(0);
    peer.expect(&["hold-this"]).await;
    peer.expect_close().await;
    server.fake.until("it is told", |fake| fake.disconnected.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_peer_that_sends_nothing_more_still_gets_its_answers() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    peer.send(&["hold-one", "echo-two"]).await;
    peer.stream.shutdown().await.unwrap();
    server.fake.until("all are handled", |fake| fake.handled.load(Ordering::SeqCst) == 2).await;
    server.fake.release(0);
    peer.expect(&["hold-one", "echo-two"]).await;
    peer.expect_close().await;
    server.fake.until("it is told", |fake| fake.disconnected.load(Ordering::SeqCst) == 1).await;
}

impl Server {
    fn hits(&self, limit: Limit) -> u64 {
        self.acceptor.hub.counters.limits.of(limit)
    }
}

#[tokio::test]
async fn an_address_has_no_more_connections_than_it_may_have() {
    let addresses = AddressLimits { per_address: 1, overrides: BTreeMap::new() };
    let server = Server::start(Limits { addresses, ..LIMITS });
    let mut peer = server.connect().await;
    peer.send(&["echo-first"]).await;
    peer.expect(&["echo-first"]).await;
    server.connect().await.expect_close().await;
    assert_eq!(server.hits(Limit::ConnectionsPerIp), 1);
    drop(peer);
    // Its place is free once the server has seen its end.
    let again = async {
        loop {
            let mut peer = server.connect().await;
            if peer.stream.write_all(b"\0\0\0\x0aecho-again").await.is_ok() && peer.stream.read_i32().await.is_ok() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(10), again).await.expect("the place becomes free");
}

#[tokio::test]
async fn connections_within_the_rate_hit_no_limit() {
    for allowed in 0..3 {
        let server = Server::start(Limits { connections_per_second: allowed, ..LIMITS });
        for _ in 0..allowed {
            let mut peer = server.connect().await;
            for _ in 0..20 {
                peer.send(&["echo-peer"]).await;
                peer.expect(&["echo-peer"]).await;
            }
        }
        assert_eq!(server.hits(Limit::ConnectionRate), 0, "{allowed} allowed");
    }
}

#[tokio::test]
async fn connections_beyond_the_rate_wait() {
    let server = Server::start(Limits { connections_per_second: 2, ..LIMITS });
    for _ in 0..5 {
        let mut peer = server.connect().await;
        peer.send(&["echo-this"]).await;
        peer.expect(&["echo-this"]).await;
    }
    assert!(server.hits(Limit::ConnectionRate) > 0);
}

#[tokio::test]
async fn peer_that_leaves_behind_requests_that_are_not_read_is_noticed() {
    let server = Server::start(Limits { held: HeldLimits { requests_max: 2, ..LIMITS.held }, ..LIMITS });
    let mut peer = server.connect().await;
    // What is in front of its end is not read as long as both wait.
    peer.send(&["hold-first", "hold-second"]).await;
    server.fake.until("both wait", |fake| fake.handled.load(Ordering::SeqCst) == 2).await;
    peer.send(&["echo-third"]).await;
    assert_eq!(server.fake.hurried.load(Ordering::SeqCst), 0);
    drop(peer);
    server.fake.until("the broker is told to hurry", |fake| fake.hurried.load(Ordering::SeqCst) == 1).await;
    (0..2).for_each(|_| server.fake.release(0));
    server.fake.until("it is closed", |fake| fake.disconnected.load(Ordering::SeqCst) == 1).await;
}

/// The timer of a connection, as the system tells it: 2 for one that asks whether the peer is still there.
fn timer_of(server: SocketAddr, peer: SocketAddr) -> Option<u8> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |address: &str| u16::from_str_radix(address.split(':').nth(1)?, 16).ok();
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let ports = (port(fields.get(1)?)?, port(fields.get(2)?)?);
        let timer = fields.get(5)?.split(':').next()?;
        if ports == (server.port(), peer.port()) { u8::from_str_radix(timer, 16).ok() } else { None }
    })
}

#[tokio::test]
async fn a_silent_peer_is_asked_whether_it_is_there() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    peer.send(&["echo-first", "hold-second"]).await;
    peer.expect(&["echo-first"]).await;
    server.fake.until("the second waits", |fake| fake.held() == 1).await;
    let address = peer.stream.local_addr().unwrap();
    // What was answered has to be acknowledged first.
    let asks = async {
        while timer_of(server.address, address) != Some(2) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), asks).await.expect("a timer for that");
}

#[tokio::test]
async fn connection_that_ends_by_a_panic_is_gone() {
    let server = Server::start(Limits { connections_max: 1, ..LIMITS });
    server.fake.panics_when_hurried.store(true, Ordering::SeqCst);
    let mut peer = server.connect().await;
    peer.send(&["echo-first"]).await;
    peer.expect(&["echo-first"]).await;
    peer.send(&["hold-second"]).await;
    send_half(&mut peer, 1000).await;
    server.fake.until("the second waits", |fake| fake.held() == 1).await;
    drop(peer);
    let is_gone = async {
        while server.acceptor.hub.connection_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), is_gone).await.expect("its place is free");
    server.fake.until("the broker knows", |fake| fake.disconnected.load(Ordering::SeqCst) == 1).await;
    let Hub { counters, held_bytes, .. } = &*server.acceptor.hub;
    let left = (counters.in_flight(), held_bytes.load(Ordering::SeqCst));
    assert_eq!((left, counters.closed(Closed::Failure)), ((0, 0), 1));
}

/// Half of a request that alone is allowed.
async fn send_half(peer: &mut Peer, bytes: usize) {
    peer.stream.write_i32(bytes as i32).await.unwrap();
    peer.stream.write_all(&vec![b'e'; bytes / 2]).await.unwrap();
}

#[tokio::test]
async fn who_would_hold_more_while_all_hold_too_much_is_closed() {
    const REQUEST: usize = 300 * 1024;
    let held = HeldLimits { all_bytes_max: 400 * 1024, ..LIMITS.held };
    let server = Server::start(Limits { held, ..LIMITS });
    let mut small = server.connect().await;
    let mut first = server.connect().await;
    send_half(&mut first, REQUEST).await;
    let held_by_all = || server.acceptor.hub.held_bytes.load(Ordering::SeqCst);
    let arrived = async {
        while held_by_all() < REQUEST / 2 {
            small.send(&["echo-small"]).await;
            small.expect(&["echo-small"]).await;
        }
    };
    timeout(Duration::from_secs(10), arrived).await.expect("half of the request arrives");
    // Two more halves are too much; whoever brings it to that is closed, the first is not.
    let (mut second, mut third) = (server.connect().await, server.connect().await);
    send_half(&mut second, REQUEST).await;
    let _ = third.stream.write_i32(REQUEST as i32).await;
    let _ = third.stream.write_all(&vec![b'e'; REQUEST / 2]).await;
    let closed = async {
        while server.hits(Limit::ConnectionsBytes) == 0 {
            small.send(&["echo-small"]).await;
            small.expect(&["echo-small"]).await;
        }
    };
    timeout(Duration::from_secs(10), closed).await.expect("one is closed");
    drop((second, third));
    first.stream.write_all(b"cho").await.unwrap();
    first.stream.write_all(&vec![b'e'; REQUEST / 2 - 3]).await.unwrap();
    // It is not a word that the broker knows, but it got there.
    first.expect_close().await;
    server.fake.until("it is handled", |fake| fake.last_bytes.load(Ordering::SeqCst) == REQUEST as u64).await;
    let released = async {
        while held_by_all() > 0 {
            small.send(&["echo-small"]).await;
            small.expect(&["echo-small"]).await;
        }
    };
    timeout(Duration::from_secs(10), released).await.expect("what was held is given back");
}

#[tokio::test]
async fn slow_readers_that_hold_too_much_together_are_closed() {
    let held = HeldLimits { all_bytes_max: 6 << 20, ..LIMITS.held };
    let server = Server::start(Limits { held, ..LIMITS });
    let mut peers = Vec::new();
    for _ in 0..4 {
        let mut peer = server.connect().await;
        peer.send(&vec!["big_reply"; 30]).await;
        peers.push(peer);
    }
    let mut small = server.connect().await;
    let closed = async {
        while server.hits(Limit::ConnectionsBytes) == 0 {
            small.send(&["echo-small"]).await;
            small.expect(&["echo-small"]).await;
        }
    };
    timeout(Duration::from_secs(10), closed).await.expect("one is closed");
    assert!(server.hits(Limit::ConnectionUnsentBytes) > 0);
}

#[tokio::test]
async fn answers_that_wait_for_an_earlier_one_are_not_made_without_end() {
    let server = Server::start(LIMITS);
    let mut peer = server.connect().await;
    peer.send(&["hold-first"]).await;
    peer.send(&vec!["big_reply"; 30]).await;
    let held_by_all = || server.acceptor.hub.held_bytes.load(Ordering::SeqCst);
    let mut other = server.connect().await;
    let held_back = async {
        while server.hits(Limit::ConnectionUnsentBytes) == 0 {
            other.send(&["echo-other"]).await;
            other.expect(&["echo-other"]).await;
        }
    };
    timeout(Duration::from_secs(10), held_back).await.expect("the connection is not read");
    // A few round trips give the first one every chance to go too far.
    for _ in 0..50 {
        other.send(&["echo-other"]).await;
        other.expect(&["echo-other"]).await;
    }
    let held = held_by_all();
    assert!(((4 << 20)..(6 << 20)).contains(&held), "{held} bytes of answers wait");
    server.fake.release(0);
    peer.expect(&["hold-first"]).await;
    for _ in 0..30 {
        assert_eq!(peer.receive().await.len(), 1 << 20);
    }
    drop(peer);
    server.fake.until("it is gone", |fake| fake.disconnected.load(Ordering::SeqCst) == 1).await;
    assert_eq!(held_by_all(), 0);
}

#[tokio::test]
async fn answers_that_come_before_an_earlier_one_end_the_connection_if_all_hold_too_much() {
    const FRAME: usize = 100_000;
    let held = HeldLimits { all_bytes_max: 10 * FRAME, ..LIMITS.held };
    let server = Server::start(Limits { held, ..LIMITS });
    let mut peer = server.connect().await;
    let request = format!("hold{}", "x".repeat(FRAME - 4));
    peer.send(&["hold-first"]).await;
    peer.send(&vec![request.as_str(); 50]).await;
    server.fake.until("all wait", |fake| fake.held() == 51).await;
    // Whoever brings about all that they waited for does so at once.
    let held_by_all = || server.acceptor.hub.held_bytes.load(Ordering::SeqCst);
    let most = (0..50).map(|_| {
        server.fake.release(1);
        held_by_all()
    });
    let most = most.max().unwrap();
    assert!(most <= 11 * FRAME, "{most} bytes of answers waited");
    peer.expect_close().await;
    server.fake.until("it is gone", |fake| fake.disconnected.load(Ordering::SeqCst) == 1).await;
    assert_eq!((held_by_all(), server.hits(Limit::ConnectionsBytes)), (0, 1));
    assert_eq!(server.acceptor.hub.counters.closed(Closed::Overload), 1);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_closed() {
    let server = Server::start(Limits { connections_max: 1, ..LIMITS });
    let mut first = server.connect().await;
    first.send(&["echo-first"]).await;
    first.expect(&["echo-first"]).await;
    server.connect().await.expect_close().await;
    first.send(&["echo-again"]).await;
    first.expect(&["echo-again"]).await;
}

#[tokio::test]
async fn idle_connections_are_closed_but_waiting_ones_are_not() {
    let server = Server::start(Limits { idle_ms_max: 50, ..LIMITS });
    let acceptor = Arc::clone(&server.acceptor);
    let sweep = tokio::spawn(async move { acceptor.close_idle().await });
    let mut waiting = server.connect().await;
    waiting.send(&["hold-this"]).await;
    server.fake.until("it is held", |fake| fake.held() == 1).await;
    server.connect().await.expect_close().await;
    server.fake.release(0);
    waiting.expect(&["hold-this"]).await;
    waiting.expect_close().await;
    sweep.abort();
}

/// An honest client's bytes per step, and how often it takes one.
const CHUNK_BYTES: usize = 20 * 1024;
const PACE: Duration = Duration::from_millis(60);

#[tokio::test]
async fn x_02_clients_that_drip_bytes_time_out_and_slow_uploads_go_on() {
    let server = Server::start(Limits { idle_ms_max: 400, ..LIMITS });
    let acceptor = Arc::clone(&server.acceptor);
    let sweep = tokio::spawn(async move { acceptor.close_idle().await });
    // A size that is not complete, a complete one, and one of which nothing more comes.
    let beginnings: [&[u8]; 3] = [&[0, 0, 3], &1000i32.to_be_bytes(), &[0]];
    let drips = (0..60).map(|n| {
        let (address, beginning) = (server.address, beginnings[n % 3].to_vec());
        tokio::spawn(async move {
            let mut peer = Peer { stream: TcpStream::connect(address).await.unwrap() };
            peer.stream.write_all(&beginning).await.unwrap();
            // Sizes that are possible, so that nothing but the time is wrong.
            let drip = async {
                while peer.stream.write_all(&[0]).await.is_ok() {
                    tokio::time::sleep(PACE).await;
                    if n % 3 == 2 {
                        std::future::pending::<()>().await;
                    }
                }
            };
            let _ = timeout(Duration::from_secs(2), drip).await;
            peer.expect_close().await;
        })
    });
    let drips: Vec<_> = drips.collect();
    // Many times the idle timeout for one frame, and as long for its answer.
    let large = format!("echo{}", "x".repeat(40 * CHUNK_BYTES));
    let mut honest = server.connect().await;
    honest.stream.write_i32(large.len() as i32).await.unwrap();
    for chunk in large.as_bytes().chunks(CHUNK_BYTES) {
        honest.stream.write_all(chunk).await.unwrap();
        tokio::time::sleep(PACE).await;
    }
    assert!(honest.receive().await == large.as_bytes());
    for drip in drips {
        drip.await.unwrap();
    }
    sweep.abort();
}

#[tokio::test]
async fn draining_lets_outstanding_requests_finish() {
    let server = Server::start(LIMITS);
    let mut idle = server.connect().await;
    idle.send(&["echo-idle"]).await;
    idle.expect(&["echo-idle"]).await;
    let mut waiting = server.connect().await;
    waiting.send(&["hold-this"]).await;
    server.fake.until("it is held", |fake| fake.held() == 1).await;
    server.stop.send(true).unwrap();
    server.acceptor.drain();
    idle.expect_close().await;
    server.fake.release(0);
    waiting.expect(&["hold-this"]).await;
    waiting.expect_close().await;
    timeout(Duration::from_secs(10), server.accepting).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn the_earliest_wake_up_wins() {
    let server = Server::start(LIMITS);
    let (fake, hub) = (Arc::clone(&server.fake), Arc::clone(&server.fake.hub));
    let timer = tokio::spawn(async move { hub.run_timer(&*fake).await });
    let start = server.fake.hub.now().mono;
    server.fake.hub.wake_at(start.plus_ms(3_600_000));
    server.fake.hub.wake_at(start.plus_ms(30));
    server.fake.hub.wake_at(start.plus_ms(60_000));
    server.fake.until("the timer went off", |fake| fake.timers.lock().unwrap().len() == 1).await;
    assert!(server.fake.timers.lock().unwrap()[0] >= start.plus_ms(30));
    server.fake.hub.wake_at(MonoMillis(0));
    server.fake.until("it went off again", |fake| fake.timers.lock().unwrap().len() == 2).await;
    timer.abort();
}

#[tokio::test]
async fn what_is_due_and_not_done_is_late() {
    let server = Server::start(LIMITS);
    let (fake, hub) = (Arc::clone(&server.fake), Arc::clone(&server.fake.hub));
    assert_eq!(hub.late_ms(), 0, "nothing is due");
    hub.wake_at(hub.now().mono.plus_ms(3_600_000));
    assert_eq!(hub.late_ms(), 0, "what is due in an hour is not late");
    hub.wake_at(hub.now().mono);
    let waits = async {
        while hub.late_ms() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(10), waits).await.expect("nobody does what is due");
    let timer = tokio::spawn(async move { fake.hub.run_timer(&*fake).await });
    server.fake.until("the timer went off", |fake| fake.timers.lock().unwrap().len() == 1).await;
    timer.abort();
    assert_eq!(hub.late_ms(), 0, "it is done");
}

#[tokio::test]
async fn jobs_run_beside_each_other_and_survive_a_panic() {
    let server = Server::start(LIMITS);
    let hub = &server.fake.hub;
    hub.spawn(Box::new(|| panic!("as the test wishes")));
    let (left, right) = std::sync::mpsc::channel::<()>();
    let (done, finished) = tokio::sync::oneshot::channel();
    // Each needs the other.
    hub.spawn(Box::new(move || {
        right.recv().unwrap();
        done.send(()).unwrap();
    }));
    hub.spawn(Box::new(move || left.send(()).unwrap()));
    timeout(Duration::from_secs(10), finished).await.unwrap().unwrap();
}
