//! Binds listeners, accepts connections, closes idle ones, and lets them end in order.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use riparian_broker::telemetry::Limit;
use rustix::net::sockopt;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinSet,
    time::sleep,
};

use super::{
    addresses::AddressLimits,
    connection::{HeldLimits, PEER_LINES, Task},
    counters::Refused,
    hub::Hub,
    outbox::Stage,
    port::Port,
    rate::Rate,
    workers::Workers,
};
use crate::config::listeners::Endpoint;

/// Connections that the kernel may hold before they are accepted.
const BACKLOG: u32 = 4096;

/// When a peer that is silent is asked whether it is there, how often again, and how many times. One that vanished without
/// a word, with its machine, is noticed so while a request of its waits, which may be for as long as it has asked for.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES_MAX: u32 = 6;

/// Limits of every connection.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// `socket.request.max.bytes`.
    pub(crate) frame_bytes_max: usize,
    /// `connections.max.idle.ms`.
    pub(crate) idle_ms_max: u64,
    /// `max.connections`.
    pub(crate) connections_max: usize,
    /// `max.connections.per.ip`.
    pub(crate) addresses: AddressLimits,
    /// `max.connection.creation.rate`.
    pub(crate) connections_per_second: u64,
    /// What a connection may hold.
    pub(crate) held: HeldLimits,
}

/// A listener whose address is taken but that is not open yet.
pub(crate) struct Bound {
    socket: TcpSocket,
    endpoint: Endpoint,
}

impl Bound {
    /// Takes a listener's address.
    pub(crate) fn bind(endpoint: &Endpoint) -> Result<Self> {
        let host = if endpoint.host.is_empty() { "0.0.0.0" } else { &endpoint.host };
        let mut addresses: Vec<SocketAddr> = (host, endpoint.port)
            .to_socket_addrs()
            .with_context(|| format!("the listener {endpoint} cannot be used: the host {host:?} is unknown"))?
            .collect();
        // As Java does: a name that has both kinds of address is bound to the older one.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        let Some(&address) = addresses.first() else {
            bail!("the listener {endpoint} cannot be used: the host {host:?} has no address");
        };
        match bind_address(address) {
            Ok(socket) => Ok(Self { socket, endpoint: endpoint.clone() }),
            Err(error) => Err(explain(endpoint, error)),
        }
    }

    /// The port, also when any was asked for.
    pub(crate) fn port(&self) -> Result<u16> {
        let address =
            self.socket.local_addr().with_context(|| format!("the listener {} has no address", self.endpoint))?;
        Ok(address.port())
    }

    /// Opens the listener: from now on clients can connect.
    pub(crate) fn listen(self) -> Result<TcpListener> {
        let Self { socket, endpoint } = self;
        socket.listen(BACKLOG).map_err(|error| explain(&endpoint, error))
    }
}

fn bind_address(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a server that was just stopped must not keep the next one from starting.
    socket.set_reuseaddr(true)?;
    // Its connections have it from here.
    socket.set_keepalive(true)?;
    sockopt::set_tcp_keepidle(&socket, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(&socket, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, PROBES_MAX)?;
    socket.bind(address)?;
    Ok(socket)
}

fn explain(endpoint: &Endpoint, error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::AddrInUse {
        let Endpoint { port, .. } = endpoint;
        return anyhow!(
            "port {port} is already in use (listener {endpoint}); stop the other server or choose another port, for example --port 0 for any free one"
        );
    }
    anyhow!(error).context(format!("the listener {endpoint} cannot be bound"))
}

/// Waits until the server is to stop, or nobody is left to say so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|&stop| stop).await;
}

/// Everything that serving connections needs.
pub(crate) struct Acceptor<P: Port> {
    pub(crate) port: Arc<P>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) limits: Limits,
}

impl<P: Port> Acceptor<P> {
    /// Accepts connections of one listener until `stop` becomes true; then waits until they have ended.
    pub(crate) async fn run(self: Arc<Self>, name: String, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        let mut rate = Rate::new(self.limits.connections_per_second);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if !self.has_turn(&mut rate, &mut stop).await {
                            break;
                        }
                        self.accept(&name, stream, peer, &mut tasks);
                    }
                    Err(error) => self.accept_failed(&error).await,
                },
                Some(_) = tasks.join_next() => {}
                () = stopped(&mut stop) => break,
            }
        }
        drop(listener);
        while tasks.join_next().await.is_some() {}
    }

    /// Who comes too soon waits, and behind it others where the kernel keeps those that are not accepted yet. False: the
    /// server stops.
    async fn has_turn(&self, rate: &mut Rate, stop: &mut watch::Receiver<bool>) -> bool {
        let mut has_waited = false;
        while let Err(pause) = rate.take(self.hub.clock.now().mono) {
            if !std::mem::replace(&mut has_waited, true) {
                self.hub.counters.limits.hit(Limit::ConnectionRate);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stopped(stop) => return false,
            }
        }
        true
    }

    fn accept(&self, name: &str, stream: TcpStream, peer: SocketAddr, tasks: &mut JoinSet<()>) {
        let connections_max = self.limits.connections_max;
        let counters = &self.hub.counters;
        if self.hub.connection_count() >= connections_max {
            counters.refuse(Refused::TooMany);
            counters.limits.hit(Limit::Connections);
            PEER_LINES.run(self.hub.clock.mono(), |suppressed| {
                tracing::warn!(%peer, suppressed, "connection refused: there are {connections_max} already (max.connections, or the limit of open files)");
            });
            return;
        }
        // However the address is written.
        let address = peer.ip().to_canonical();
        let address_max = self.limits.addresses.of(address);
        let Some(place) = self.hub.addresses.take(address, address_max) else {
            counters.refuse(Refused::TooManyOfAddress);
            counters.limits.hit(Limit::ConnectionsPerIp);
            PEER_LINES.run(self.hub.clock.mono(), |suppressed| {
                tracing::warn!(%peer, suppressed, "connection refused: its address has {address_max} already (max.connections.per.ip)");
            });
            return;
        };
        // A reply is written whole; waiting to join it with another only delays it. From here on it is another thread's.
        let stream = match stream.set_nodelay(true).and_then(|()| stream.into_std()) {
            Ok(stream) => stream,
            Err(error) => {
                counters.refuse(Refused::Ended);
                tracing::debug!(%peer, "the connection ended before it began: {error}");
                return;
            }
        };
        let worker = self.workers.take_place();
        let entered = worker.handle.enter();
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => {
                counters.refuse(Refused::AcceptFailed);
                tracing::debug!(%peer, "the connection could not be served: {error}");
                return;
            }
        };
        drop(entered);
        counters.accepted.increment();
        tracing::debug!(%peer, listener = name, "connected");
        let connection = self.port.connected(peer, name);
        let (handle, listed) = self.hub.add(P::id(&connection));
        let task = Task {
            port: Arc::clone(&self.port),
            clock: self.hub.clock,
            timers: self.hub.runtime.clone(),
            counters: Arc::clone(counters),
            connection,
            handle,
            stream,
            peer,
            frame_bytes_max: self.limits.frame_bytes_max,
            held: self.limits.held,
            held_by_all: Arc::clone(&self.hub.held_bytes),
        };
        let on = worker.handle.clone();
        let serve = async move {
            task.run().await;
            drop((listed, place, worker));
            tracing::debug!(%peer, "disconnected");
        };
        tasks.spawn_on(serve, &on);
    }

    /// Mostly too many open files: what helps is that connections end, so wait a little.
    async fn accept_failed(&self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
            self.hub.counters.refuse(Refused::Ended);
            return;
        }
        self.hub.counters.refuse(Refused::AcceptFailed);
        PEER_LINES.run(self.hub.clock.mono(), |suppressed| {
            tracing::error!(suppressed, "a connection could not be accepted: {error}");
        });
        sleep(Duration::from_millis(100)).await;
    }

    /// Closes connections that were idle for too long, for ever.
    pub(crate) async fn close_idle(&self) {
        let idle_ms_max = self.limits.idle_ms_max;
        let pause = Duration::from_millis((idle_ms_max / 8).clamp(10, 30_000));
        loop {
            sleep(pause).await;
            let closed = self.hub.close_idle(idle_ms_max);
            if closed > 0 {
                tracing::debug!(closed, "closed idle connections (connections.max.idle.ms)");
            }
        }
    }

    /// Lets every connection finish what was asked, then closes it.
    pub(crate) fn drain(&self) {
        self.hub.advance_all_to(Stage::Draining);
    }
}
