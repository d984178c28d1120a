//! A relay between clients and a server, which knows whose connections it carries and breaks them when a test says so.
//!
//! It knows frames and where a request's key and its client's name stand, nothing more; answers are bytes to it.
//! Its threads end with the connections that they carry, at the latest when the test's process ends.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::SockRef;

use crate::proxy::read_frame;

const STREAMS_GROUP_HEARTBEAT: [u8; 2] = 88i16.to_be_bytes();

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// As if one side had closed it.
    Close,
    /// By a reset.
    Reset,
}

/// A port that passes on to a server.
pub struct Relay {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    links: BTreeMap<u64, Link>,
    opened: u64,
    /// How many connections have carried heartbeats, by client.
    heartbeat_connections: BTreeMap<String, u64>,
    /// Requests of clients whose names begin with one of these have to wait.
    held: Vec<String>,
}

struct Link {
    client: Arc<TcpStream>,
    server: Arc<TcpStream>,
    client_id: String,
    has_heartbeats: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Takes a port; nobody is served before `run`.
    pub fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        Self { listener, shared: Arc::new(Shared::default()) }
    }

    /// The port that clients must be told.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("a bound socket has an address").port()
    }

    /// Serves from now on.
    pub fn run(&self, server_port: u16) {
        let listener = self.listener.try_clone().expect("the socket is open");
        let shared = Arc::clone(&self.shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is gone is a closed connection for the client.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) {
                    carry(&shared, client, server);
                }
            }
        });
    }

    /// Breaks all connections of the clients whose names begin so; tells how many.
    pub fn break_all(&self, client: &str, how: Break) -> usize {
        self.break_links(how, |link| link.client_id.starts_with(client))
    }

    /// Breaks the connections through which these clients send heartbeats; tells how many.
    pub fn break_heartbeats(&self, client: &str, how: Break) -> usize {
        self.break_links(how, |link| link.client_id.starts_with(client) && link.has_heartbeats)
    }

    /// Lets no request of these clients through, through new connections neither, until `release`.
    pub fn hold(&self, clients: &[&str]) {
        self.shared.lock().held = clients.iter().map(|&client| client.to_owned()).collect();
    }

    /// Lets them through.
    pub fn release(&self) {
        self.shared.lock().held.clear();
        self.shared.changed.notify_all();
    }

    /// Waits until each of so many clients, whose names begin so, has sent heartbeats through so many connections.
    pub fn wait_for_connections(&self, client: &str, clients: usize, connections: u64, limit: Duration) {
        let is_missing = |state: &mut State| {
            let of_client = state.heartbeat_connections.iter().filter(|(id, _)| id.starts_with(client));
            of_client.filter(|&(_, &count)| count >= connections).count() < clients
        };
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), limit, is_missing);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{client}: {:?} within {limit:?}", state.heartbeat_connections);
    }

    fn break_links(&self, how: Break, concerned: impl Fn(&Link) -> bool) -> usize {
        let mut state = self.shared.lock();
        let ids: Vec<u64> = state.links.iter().filter(|(_, link)| concerned(link)).map(|(&id, _)| id).collect();
        for id in &ids {
            // Whoever carries it notices that it is no longer there.
            let Some(link) = state.links.remove(id) else { continue };
            for stream in [&*link.client, &*link.server] {
                if how == Break::Reset {
                    // Closed with this set, a socket sends a reset; its readers wake up and let go of it.
                    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
                    let _ = stream.shutdown(Shutdown::Read);
                } else {
                    let _ = stream.shutdown(Shutdown::Both);
                }
            }
        }
        self.shared.changed.notify_all();
        ids.len()
    }
}

fn carry(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    let (client, server) = (Arc::new(client), Arc::new(server));
    let link = Link {
        client: Arc::clone(&client),
        server: Arc::clone(&server),
        client_id: String::new(),
        has_heartbeats: false,
    };
    let id = {
        let mut state = shared.lock();
        state.opened += 1;
        let id = state.opened;
        state.links.insert(id, link);
        id
    };
    let (asking, answering) = (Arc::clone(shared), Arc::clone(shared));
    let (from, to) = (Arc::clone(&client), Arc::clone(&server));
    std::thread::spawn(move || {
        while let Some(frame) = read_frame(&from) {
            if !may_pass(&asking, id, &frame) || (&*to).write_all(&frame).is_err() {
                break;
            }
        }
        end(&asking, id, &from, &to);
    });
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut &*server, &mut &*client);
        end(&answering, id, &server, &client);
    });
}

/// Notes who asks what, and waits while the client is held; `false` once the connection is broken.
fn may_pass(shared: &Shared, id: u64, frame: &[u8]) -> bool {
    let mut state = shared.lock();
    let Some(link) = state.links.get_mut(&id) else { return false };
    // Length, key, version, correlation id, then the client's name.
    if link.client_id.is_empty() {
        let length = frame.get(12..14).and_then(|length| length.try_into().ok()).map_or(0, i16::from_be_bytes);
        let name = usize::try_from(length).ok().and_then(|length| frame.get(14..14 + length));
        link.client_id = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
    }
    let client_id = link.client_id.clone();
    if frame.get(4..6) == Some(&STREAMS_GROUP_HEARTBEAT[..]) && !std::mem::replace(&mut link.has_heartbeats, true) {
        *state.heartbeat_connections.entry(client_id.clone()).or_default() += 1;
        shared.changed.notify_all();
    }
    let is_held =
        |state: &mut State| state.held.iter().any(|held| client_id.starts_with(held)) && state.links.contains_key(&id);
    let state = shared.changed.wait_while(state, is_held).unwrap_or_else(PoisonError::into_inner);
    state.links.contains_key(&id)
}

/// One side has ended: so does the other, unless the connection was broken on purpose.
fn end(shared: &Shared, id: u64, one: &TcpStream, other: &TcpStream) {
    if shared.lock().links.remove(&id).is_some() {
        let _ = one.shutdown(Shutdown::Both);
        let _ = other.shutdown(Shutdown::Both);
    }
}
