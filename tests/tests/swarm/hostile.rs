//! The hostile: each kind of client is a function on a thread of its own that goes on until it is told to stop.
//!
//! **Invariant:** each kind has a pace, and goes behind the rest of the machine, so that what the well-behaved feel is
//! the server and not these threads. What becomes of a single connection or request is nobody's concern here: refused,
//! closed, reset and unanswered are what they came for.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use riparian_protocol::{Request, RequestHeader};
use riparian_types::Prng;
use riparian_wire::frame;
use socket2::{Domain, Socket, Type};

use crate::{connections, requests};

/// Of each kind, so that no address runs out of ports.
const ADDRESSES: u64 = 50;
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Slow is one thing, for ever another: each looks from time to time whether it is to stop.
const IO_LIMIT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 64 << 20;
const NICE: i32 = 10;

pub(crate) struct Kind {
    pub(crate) name: &'static str,
    run: fn(&mut Foe),
}

pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "idle connections", run: connections::crowd },
    Kind { name: "half-open connections", run: connections::half_open },
    Kind { name: "slow readers", run: connections::slow_readers },
    Kind { name: "reconnects", run: connections::reconnects },
    Kind { name: "connections of one address", run: connections::one_address },
    Kind { name: "dribbled bytes", run: connections::dribble },
    Kind { name: "slow HTTP clients", run: connections::slow_http },
    Kind { name: "heartbeats in a tight loop", run: requests::heartbeats },
    Kind { name: "impossible sizes", run: requests::impossible_sizes },
    Kind { name: "random bytes", run: requests::noise },
    Kind { name: "abandoned groups", run: requests::groups },
    Kind { name: "patterns", run: requests::patterns },
    Kind { name: "member ids asked for", run: requests::pending_joins },
    Kind { name: "topics made and deleted", run: requests::topics },
    Kind { name: "bad batches", run: requests::produces },
    Kind { name: "abandoned fetches", run: requests::fetches },
];

/// What all of them know.
pub(crate) struct Ground {
    pub(crate) port: u16,
    pub(crate) http_port: u16,
    /// How many connections are to be idle at a time.
    pub(crate) idle_connections: usize,
    /// How many the server lets in.
    pub(crate) connections_max: usize,
    /// How many are idle now.
    pub(crate) held: AtomicUsize,
    /// How often each kind has done what it does.
    done: Vec<AtomicU64>,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// One kind at its work.
pub(crate) struct Foe {
    pub(crate) ground: Arc<Ground>,
    pub(crate) luck: Prng,
    kind: usize,
    opened: u64,
}

/// All of them at work.
pub(crate) struct Swarm {
    ground: Arc<Ground>,
    threads: Vec<(&'static str, JoinHandle<()>)>,
}

impl Swarm {
    pub(crate) fn start(port: u16, http_port: u16, idle_connections: usize, connections_max: usize) -> Self {
        let ground = Arc::new(Ground {
            port,
            http_port,
            idle_connections,
            connections_max,
            held: AtomicUsize::new(0),
            done: KINDS.iter().map(|_| AtomicU64::new(0)).collect(),
            is_over: Mutex::new(false),
            over: Condvar::new(),
        });
        let start = |(number, kind): (usize, &Kind)| {
            let luck = Prng::new(number as u64);
            let mut foe = Foe { ground: Arc::clone(&ground), luck, kind: number, opened: 0 };
            let run = kind.run;
            let thread = thread::spawn(move || {
                // Of this thread only; without success it competes as any other.
                let _ = rustix::process::nice(NICE);
                run(&mut foe);
            });
            (kind.name, thread)
        };
        Self { threads: KINDS.iter().enumerate().map(start).collect(), ground }
    }

    pub(crate) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// How often each kind has done what it does.
    pub(crate) fn done(&self) -> Vec<(&'static str, u64)> {
        KINDS.iter().zip(&self.ground.done).map(|(kind, done)| (kind.name, done.load(Ordering::Relaxed))).collect()
    }

    /// The names of those that have ended, which none does before it is told.
    pub(crate) fn ended(&self) -> Vec<&'static str> {
        self.threads.iter().filter(|(_, thread)| thread.is_finished()).map(|(name, _)| *name).collect()
    }

    /// They go, and all their connections with them.
    pub(crate) fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        *self.ground.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ground.over.notify_all();
        for (_, thread) in self.threads.drain(..) {
            // A panic of it was told when `ended` was asked.
            let _ = thread.join();
        }
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.end();
    }
}

impl Foe {
    /// Lets time pass; whether to go on.
    pub(crate) fn goes_on(&self, pause: Duration) -> bool {
        let is_over = self.ground.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ground.over.wait_timeout_while(is_over, pause, |is_over| !*is_over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn did(&self, times: u64) {
        self.ground.done[self.kind].fetch_add(times, Ordering::Relaxed);
    }

    /// A connection from the next of its addresses.
    pub(crate) fn open(&mut self) -> Option<TcpStream> {
        self.opened += 1;
        let last = (self.opened % ADDRESSES) as u8 + 1;
        self.open_from(Ipv4Addr::new(127, 1, self.kind as u8, last))
    }

    pub(crate) fn open_from(&self, address: Ipv4Addr) -> Option<TcpStream> {
        connect(address, self.ground.port).ok()
    }

    /// Opens a connection, sends bytes and leaves it open.
    pub(crate) fn open_with(&mut self, bytes: &[u8]) -> Option<TcpStream> {
        let mut stream = self.open()?;
        // The server may close it before it has read everything.
        let _ = stream.write_all(bytes);
        Some(stream)
    }
}

fn connect(from: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket.connect_timeout(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into(), CONNECT_LIMIT)?;
    socket.set_read_timeout(Some(IO_LIMIT))?;
    socket.set_write_timeout(Some(IO_LIMIT))?;
    Ok(socket.into())
}

/// Requests with their answers, on a connection that is opened again when it was closed.
#[derive(Default)]
pub(crate) struct Talk(Option<TcpStream>);

impl Talk {
    pub(crate) fn ask(&mut self, foe: &mut Foe, request: &[u8]) -> Option<Vec<u8>> {
        if self.0.is_none() {
            self.0 = foe.open();
        }
        let answer = self.0.as_mut().and_then(|stream| {
            stream.write_all(request).ok()?;
            read_answer(stream)
        });
        if answer.is_none() {
            self.0 = None;
        }
        answer
    }
}

/// One answer, without its size.
pub(crate) fn read_answer(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut prefix = [0; frame::PREFIX_BYTES];
    stream.read_exact(&mut prefix).ok()?;
    let mut answer = vec![0; frame::size(prefix, ANSWER_BYTES_MAX).ok()?];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

/// Takes what is there and throws it away; whether the connection is still open. It is one that does not block.
pub(crate) fn discard(stream: &mut TcpStream, bytes_max: usize) -> bool {
    let (mut buffer, mut left) = ([0; 16 * 1024], bytes_max);
    while left > 0 {
        let room = left.min(buffer.len());
        match stream.read(&mut buffer[..room]) {
            Ok(0) => return false,
            Ok(bytes) => left -= bytes,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
    true
}

/// A request with its header and size.
pub(crate) fn framed<'a, R: Request<'a>>(request: &R, version: i16) -> Vec<u8> {
    let header = RequestHeader {
        api_key: R::API_KEY.code(),
        api_version: version,
        client_id: Some("hostile".into()),
        ..RequestHeader::default()
    };
    let mut out = Vec::new();
    let start = frame::start(&mut out);
    header.encode(&mut out).expect("a header can be written");
    request.encode(&mut out, version).expect("the request has nothing that this version has no room for");
    frame::finish(&mut out, start).expect("it is below 2 GiB");
    out
}
