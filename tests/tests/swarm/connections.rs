//! Hostile by what they do with connections, whatever they ask.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Write as _},
    net::{Ipv4Addr, Shutdown, TcpStream},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use riparian_protocol::messages::{ApiVersionsRequest, MetadataRequest, StreamsGroupDescribeRequest};
use socket2::SockRef;

use crate::{
    DATA, ONE_ADDRESS,
    hostile::{Foe, discard, framed},
    neighbours::{self, GROUPS},
    requests::{classic_join, fetch, join},
};

const TICK: Duration = Duration::from_millis(100);

/// Ten thousand connections that say nothing, opened again when the server closes them, and every now and then more than
/// it lets in.
pub(crate) fn crowd(foe: &mut Foe) {
    const OPENED_PER_TICK: usize = 50;
    const CRUSH_EVERY: Duration = Duration::from_secs(20);
    /// A crush takes no more at once than fit into the queue of the listener.
    const CRUSH_MAX: usize = 3000;
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    let mut last_crush = Instant::now();
    while foe.goes_on(TICK) {
        while held.front().is_some_and(is_closed) {
            held.pop_front();
        }
        let missing = foe.ground.idle_connections.saturating_sub(held.len());
        for _ in 0..missing.min(OPENED_PER_TICK) {
            held.extend(open_quiet(foe));
        }
        foe.ground.held.store(held.len(), Ordering::Relaxed);
        let room = foe.ground.connections_max.saturating_sub(held.len());
        if last_crush.elapsed() >= CRUSH_EVERY && room <= CRUSH_MAX {
            let crush: Vec<TcpStream> = (0..room).filter_map(|_| open_quiet(foe)).collect();
            // Long enough for the server to accept them at its rate.
            foe.goes_on(Duration::from_secs(3));
            drop(crush);
            last_crush = Instant::now();
        }
    }
}

fn open_quiet(foe: &mut Foe) -> Option<TcpStream> {
    let stream = foe.open()?;
    stream.set_nonblocking(true).ok()?;
    foe.did(1);
    Some(stream)
}

fn is_closed(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Beginnings of requests, and nothing more until the server loses patience.
pub(crate) fn half_open(foe: &mut Foe) {
    const HELD: usize = 60;
    let request = framed(&join("half-open", "half-open"), 1);
    // Large ones together are more than all connections may hold.
    let large = [&900_000i32.to_be_bytes()[..], &[0; 700_000]].concat();
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    while foe.goes_on(TICK) {
        if held.len() >= HELD || held.front().is_some_and(is_closed) {
            held.pop_front();
        }
        let bytes = match foe.luck.below(8) {
            0 => &[][..],
            1 => &request[..2],
            2 => &request[..4],
            3 => &request[..6],
            4 => &request[..request.len() / 2],
            5 => &request[..request.len() - 1],
            6 => &large[..20_000],
            _ => &large,
        };
        held.extend(foe.open_with(bytes).filter(|stream| stream.set_nonblocking(true).is_ok()));
        foe.did(1);
    }
}

/// They ask for much and read it byte by byte, or never.
pub(crate) fn slow_readers(foe: &mut Foe) {
    const READERS: usize = 12;
    const PATIENCE: Duration = Duration::from_secs(15);
    const REQUESTS: usize = 100;
    const TIMES_DESCRIBED: usize = 8;
    let metadata = framed(&MetadataRequest { topics: None, ..MetadataRequest::default() }, 8);
    let data = framed(&fetch(DATA, 0, 0, 0), 11);
    // As often as it may be asked for: records are sent from their files, and hold no memory.
    let group_ids = (0..GROUPS * TIMES_DESCRIBED).map(|n| neighbours::group_id(n % GROUPS).into()).collect();
    let groups = framed(&StreamsGroupDescribeRequest { group_ids, ..StreamsGroupDescribeRequest::default() }, 0);
    let mut readers: VecDeque<(Instant, TcpStream)> = VecDeque::new();
    while foe.goes_on(TICK) {
        if readers.front().is_some_and(|(since, _)| since.elapsed() > PATIENCE) {
            readers.pop_front();
        }
        if readers.len() < READERS
            && let Some(mut stream) = foe.open()
            && SockRef::from(&stream).set_recv_buffer_size(4096).is_ok()
            && stream.set_nonblocking(true).is_ok()
        {
            let request = [&metadata, &data, &groups][foe.luck.below(3) as usize];
            // The server takes only so many before it has rid itself of the answers.
            let _ = stream.write_all(&request.repeat(REQUESTS));
            readers.push_back((Instant::now(), stream));
            foe.did(1);
        }
        for (number, (_, stream)) in readers.iter_mut().enumerate() {
            if number % 2 == 0 {
                discard(stream, 1);
            }
        }
    }
}

/// Hundreds of connections a second that end at once, many with something half done.
pub(crate) fn reconnects(foe: &mut Foe) {
    const PER_TICK: u64 = 25;
    let versions = framed(&ApiVersionsRequest::default(), 0);
    while foe.goes_on(TICK) {
        for _ in 0..PER_TICK {
            let number = foe.luck.below(1_000_000_000);
            let group = format!("storm-{}", number % 3);
            let streams = framed(&join(&group, &format!("storm-member-{number}")), 1);
            let bytes = match foe.luck.below(6) {
                0 => Vec::new(),
                1 => versions.clone(),
                2 => streams,
                3 => streams[..streams.len() / 2].to_vec(),
                4 => framed(&classic_join(&format!("classic-{group}"), 10_000, &[]), 3),
                _ => [&versions[..], &streams[..9]].concat(),
            };
            let Some(stream) = foe.open_with(&bytes) else { continue };
            match foe.luck.below(3) {
                // What is not read yet makes it a reset.
                0 => drop(SockRef::from(&stream).set_linger(Some(Duration::ZERO))),
                1 => drop(stream.shutdown(Shutdown::Write)),
                _ => {}
            }
            foe.did(1);
        }
    }
}

/// One address takes more connections than an address may have.
pub(crate) fn one_address(foe: &mut Foe) {
    let mut held = VecDeque::new();
    while foe.goes_on(TICK) {
        held.extend(foe.open_from(Ipv4Addr::from(ONE_ADDRESS.0)));
        foe.did(1);
        if held.len() > 2 * ONE_ADDRESS.1 {
            held.clear();
        }
    }
}

/// Requests byte by byte: some become whole in time, some never do.
pub(crate) fn dribble(foe: &mut Foe) {
    const CONNECTIONS: usize = 20;
    let whole = framed(&MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() }, 8);
    let endless = [&500_000i32.to_be_bytes()[..], &[0; 500_000]].concat();
    let mut all: Vec<(TcpStream, usize)> = Vec::new();
    while foe.goes_on(TICK) {
        if all.len() < CONNECTIONS
            && let Some(stream) = foe.open().filter(|stream| stream.set_nonblocking(true).is_ok())
        {
            all.push((stream, 0));
        }
        let mut number = 0;
        all.retain_mut(|(stream, sent)| {
            number += 1;
            let bytes = if number % 2 == 0 { &whole } else { &endless };
            let is_sent = stream.write(&[bytes[*sent % bytes.len()]]).is_ok();
            *sent += 1;
            is_sent && discard(stream, usize::MAX)
        });
        foe.did(number as u64);
    }
}

/// Clients of the metrics that never finish what they ask; fewer than are served at a time.
pub(crate) fn slow_http(foe: &mut Foe) {
    const HELD: usize = 4;
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    while foe.goes_on(TICK) {
        while held.front().is_some_and(is_closed) {
            held.pop_front();
        }
        if held.len() < HELD
            && let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, foe.ground.http_port))
        {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
            held.extend(stream.set_nonblocking(true).is_ok().then_some(stream));
            foe.did(1);
        }
    }
}
