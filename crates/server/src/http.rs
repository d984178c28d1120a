//! Health, version and metrics over HTTP, on a thread of its own.
//!
//! What the rest of the server does can't keep this thread from answering, and what HTTP clients do can't keep the rest
//! from its work: there are few connections, each for one request and a short time, and one scrape at a time.
//!
//! **Invariant:** unless an address was asked for, nothing here keeps a server from starting.

mod routes;

use std::{
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use riparian_broker::{
    Broker,
    telemetry::{Limit, LimitHits},
};
use tokio::{
    net::TcpStream,
    runtime,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{sleep, timeout},
};

use crate::{config::http::HttpAddress, net::hub::Hub};

/// Where it is unless an address is given.
const USUAL: (&str, u16) = ("127.0.0.1", 9464);
/// Connections at the same time; one more is closed at once.
const CONNECTIONS_MAX: usize = 16;
/// A connection is for one request, and has this long for everything.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(20);
/// How long the head of a request may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the head of a request may be; a body is not read.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// Threads for what may have to wait: one for a scrape, one for a look at the shards.
const BLOCKING_THREADS_MAX: usize = 2;
/// They are gone soon after they were needed.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// An address that is taken.
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// What the answers are made of.
pub(crate) struct State {
    pub(crate) hub: Arc<Hub>,
    /// How many groups have metrics of their own.
    pub(crate) groups_max: usize,
    pub(crate) limits: LimitHits,
    /// There once the data is loaded.
    broker: OnceLock<Arc<Broker>>,
    is_stopping: AtomicBool,
}

/// The running thread; it ends when this is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl State {
    pub(crate) fn new(hub: Arc<Hub>, groups_max: usize) -> Self {
        Self {
            hub,
            groups_max,
            limits: LimitHits::default(),
            broker: OnceLock::new(),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// The data is loaded and connections are accepted.
    pub(crate) fn serves(&self, broker: &Arc<Broker>) {
        let _ = self.broker.set(Arc::clone(broker));
    }

    /// The server is about to end.
    pub(crate) fn stops(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }
}

impl Bound {
    /// Takes the address, if there is to be one. `any_port`: the server itself was told to take any.
    pub(crate) fn bind(address: &HttpAddress, any_port: bool) -> Result<Option<Self>> {
        match address {
            HttpAddress::Off => Ok(None),
            HttpAddress::Auto => {
                let (host, port) = USUAL;
                let usual = if any_port { None } else { Self::take(host, port).ok() };
                let bound = usual.map_or_else(|| Self::take(host, 0), Ok);
                Ok(bound
                    .map_err(|error| {
                        tracing::warn!("health and metrics are not served: {host} cannot be bound: {error}")
                    })
                    .ok())
            }
            HttpAddress::At { host, port } => {
                let host = if host.is_empty() { "0.0.0.0" } else { host };
                Self::take(host, *port).map(Some).map_err(|error| explain(address, *port, error))
            }
        }
    }

    fn take(host: &str, port: u16) -> io::Result<Self> {
        let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
        // As with the other listeners: a name that has both kinds of address is bound to the older one.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        let listener = TcpListener::bind(addresses.first().into_iter().copied().collect::<Vec<_>>().as_slice())?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Starts to answer.
    pub(crate) fn serve(self, state: Arc<State>) -> Result<Running> {
        let Self { listener, address } = self;
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_keep_alive(THREAD_KEEP_ALIVE)
            .thread_name("riparian-http")
            .build()
            .context("the thread for HTTP cannot be prepared")?;
        let answer = move || {
            runtime.block_on(async {
                tokio::select! {
                    result = accept(listener, state) => {
                        if let Err(error) = result {
                            tracing::error!("health and metrics are not served: {error}");
                        }
                    }
                    _ = stopped => {}
                }
            });
            // Somebody may be waiting for a lock: the end of the server does not wait for that.
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("riparian-http".into())
            .spawn(answer)
            .context("the thread for HTTP cannot be started")?;
        Ok(Running { address, _stop: stop })
    }
}

fn explain(address: &HttpAddress, port: u16, error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::AddrInUse {
        return anyhow!(
            "port {port} is already in use (riparian.http.address {address}); choose another one, or auto for any free one, or off"
        );
    }
    anyhow!(error).context(format!("the address {address} (riparian.http.address) cannot be bound"))
}

async fn accept(listener: TcpListener, state: Arc<State>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let router = routes::router(Arc::clone(&state));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => {
                    tokio::spawn(answer(stream, router.clone(), Arc::clone(&state), place));
                }
                Err(_) => state.limits.hit(Limit::HttpConnections),
            },
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {
            }
            // Mostly too many open files: what helps is that connections end.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, router: Router, state: Arc<State>, _place: OwnedSemaphorePermit) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        // Whoever has said all that it wants to say still listens.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(CONNECTION_TIME_MAX, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            if error.is_timeout() {
                state.limits.hit(Limit::HttpTime);
            } else if error.is_parse_too_large() {
                state.limits.hit(Limit::HttpHead);
            }
            tracing::debug!("HTTP connection ended: {error}");
        }
        Err(_) => state.limits.hit(Limit::HttpTime),
    }
}
