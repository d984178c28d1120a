//! `riparian serve`: from a configuration to a running server and to its end.
//!
//! Order of the start: everything that can be checked, then the ports, then HTTP (to say that the data is being loaded),
//! then the data, then the first connection; what fails leaves nothing behind but one line. Order of the end: no new
//! connections, no new requests, the answers that are owed, the data made durable.

use std::{num::NonZero, path::Path, sync::Arc, thread, time::Duration};

use anyhow::{Context, Result, anyhow};
use riparian_broker::Broker;
use riparian_log::FsDisk;
use tempfile::TempDir;
use tokio::{
    runtime::{self, Handle},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    cli::ServeOptions,
    clock::Clock,
    config::{
        self, Config, DataDir, Remark, dump,
        listeners::{Endpoint, HostPort, Listener},
    },
    http, logging,
    net::{
        hub::Hub,
        listen::{Acceptor, Bound},
        outbox::Stage,
        port::Port,
        workers::Workers,
    },
    open::open_broker,
    output::print,
    signals::StopSignals,
};

/// Threads for what is not a connection's: accepting, timers, signals. A long assignment must not keep others waiting.
const CHORE_THREADS: usize = 2;
/// Threads for work that blocks, mostly syncs of files, which profit from running side by side.
const BLOCKING_THREADS_MAX: usize = 16;
/// How often to see whether the data directory is still there.
const DATA_CHECK: Duration = Duration::from_secs(2);
/// How long answers that are owed may take when the server ends.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// Descriptors for everything that is neither a log's file nor a connection.
const FILES_RESERVED: usize = 128;

/// Runs a server until it is told to stop.
pub(crate) fn run(options: &ServeOptions) -> Result<()> {
    let clock = Clock::start();
    let mut config = config::load(options, std::env::vars())?;
    if options.dump_config {
        return print(&dump::dump(&config));
    }
    logging::start(&options.log)?;
    tell(&config.remarks);
    let files = OpenFiles::allowed();
    config.limits.connections_max = config.limits.connections_max.min(files.connections_max);

    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(CHORE_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("riparian")
        .enable_all()
        .build()
        .context("the server's threads cannot be started")?;
    // Lives longer than everything that uses it.
    let temporary = match config.data_dir {
        DataDir::Kept(_) => None,
        DataDir::Ephemeral => Some(TempDir::with_prefix("riparian-").context("no temporary directory can be made")?),
    };
    let data_dir = match (&config.data_dir, &temporary) {
        (DataDir::Kept(path), _) => path.as_path(),
        (DataDir::Ephemeral, temporary) => temporary.as_ref().expect("made above").path(),
    };
    let result = runtime.block_on(serve(&config, data_dir, files.logs_max, clock));
    runtime.shutdown_timeout(DRAIN_MAX);
    result
}

/// One for every two processors: the others are busy with syncs, timers and the network itself. More threads that share
/// them wait more often and find less to do each time: on two processors a second one made heartbeats dearer by a fifth
/// and fewer per second.
fn connection_threads() -> usize {
    thread::available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1))
}

async fn serve(config: &Config, data_dir: &Path, files_max: NonZero<usize>, clock: Clock) -> Result<()> {
    let mut signals = StopSignals::register()?;
    let bound = config.listeners.iter().map(|listener| Bound::bind(&listener.bind)).collect::<Result<Vec<_>>>()?;
    let ports = bound.iter().map(Bound::port).collect::<Result<Vec<_>>>()?;
    let advertised: Vec<_> = config
        .listeners
        .iter()
        .zip(&ports)
        .map(|(listener, &port)| advertised(listener, port))
        .collect::<Result<_>>()?;

    let any_port = config.listeners.iter().all(|listener| listener.bind.port == 0);
    let http = http::Bound::bind(&config.http, any_port)?;

    let hub = Hub::new(clock, Handle::current(), config.limits.held.all_bytes_max);
    let groups_max = usize::try_from(config.broker.int("riparian.metrics.groups.max")).unwrap_or(0);
    let http_state = Arc::new(http::State::new(Arc::clone(&hub), groups_max));
    let http = http.map(|http| http.serve(Arc::clone(&http_state))).transpose()?;
    let broker = open_broker(config, data_dir, files_max, &hub, &advertised)?;
    let workers = Workers::start(connection_threads()).context("the threads for connections cannot be started")?;
    let acceptor = Arc::new(Acceptor {
        port: Arc::clone(&broker),
        hub: Arc::clone(&hub),
        workers: Arc::new(workers),
        limits: config.limits.clone(),
    });
    let (stop, stopped) = watch::channel(false);
    let mut accepting = JoinSet::new();
    for (listener, bound) in config.listeners.iter().zip(bound) {
        accepting.spawn(Arc::clone(&acceptor).run(listener.bind.name.clone(), bound.listen()?, stopped.clone()));
    }
    let background = start_background(&acceptor, config.limits.idle_ms_max);
    http_state.serves(&broker);

    let addresses: Vec<_> = advertised.iter().map(|at| format!("{}\n", HostPort(&at.host, at.port))).collect();
    print(&addresses.concat())?;
    let http_address = http.as_ref().map_or_else(|| "off".to_owned(), |http| http.address.to_string());
    for ((listener, &port), at) in config.listeners.iter().zip(&ports).zip(&advertised) {
        // With the port that it has got.
        let listener = Endpoint { port, ..listener.bind.clone() };
        tracing::info!(version = env!("CARGO_PKG_VERSION"), %listener, advertised = %at, http = %http_address, data = %data_dir.display(), "ready");
    }

    let signal = tokio::select! {
        signal = signals.next() => signal,
        () = data_gone(broker) => {
            // There is nothing left to be made durable, and nothing to be answered that would be true.
            return Err(anyhow!(
                "the data directory {} was removed, renamed or replaced while the server ran; nothing that is written \
                 would be kept", data_dir.display()
            ));
        }
    };
    tracing::info!("{signal}: stopping");
    http_state.stops();
    let _ = stop.send(true);
    let end = end(acceptor, accepting, background);
    tokio::select! {
        result = end => result?,
        signal = signals.next() => return Err(anyhow!("{signal} again: stopped without waiting")),
    }
    tracing::info!("stopped");
    Ok(())
}

/// Waits until the data directory is no longer where it was.
async fn data_gone(broker: Arc<Broker>) {
    loop {
        sleep(DATA_CHECK).await;
        let looked_at = Arc::clone(&broker);
        // Without an answer nothing is known.
        if !tokio::task::spawn_blocking(move || looked_at.data_is_in_place()).await.unwrap_or(true) {
            return;
        }
    }
}

fn start_background<P: Port>(acceptor: &Arc<Acceptor<P>>, idle_ms_max: u64) -> JoinSet<()> {
    let mut background = JoinSet::new();
    let timer = Arc::clone(acceptor);
    background.spawn(async move { timer.hub.run_timer(&*timer.port).await });
    if idle_ms_max < u64::MAX {
        let idle = Arc::clone(acceptor);
        background.spawn(async move { idle.close_idle().await });
    }
    background
}

async fn end<P: Port>(
    acceptor: Arc<Acceptor<P>>,
    mut accepting: JoinSet<()>,
    mut background: JoinSet<()>,
) -> Result<()> {
    acceptor.drain();
    let mut drained = async || while accepting.join_next().await.is_some() {};
    if timeout(DRAIN_MAX, drained()).await.is_err() {
        let connections = acceptor.hub.connection_count();
        tracing::warn!(connections, "connections closed although their answers were not ready");
        acceptor.hub.advance_all_to(Stage::Closing);
        let _ = timeout(DRAIN_MAX, drained()).await;
    }
    background.shutdown().await;
    let now = acceptor.hub.clock.now();
    tokio::task::spawn_blocking(move || acceptor.port.shutdown(now))
        .await
        .context("the server failed while it wrote its data, see the panic above")
}

/// What clients are told about a listener that is bound to this port.
fn advertised(listener: &Listener, bound_port: u16) -> Result<Endpoint> {
    let Endpoint { name, host, port } = listener.advertised.clone();
    let host = if host.is_empty() { host_name()? } else { host };
    Ok(Endpoint { name, host, port: if port == 0 { bound_port } else { port } })
}

fn host_name() -> Result<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_str().ok().filter(|name| !name.is_empty());
    name.map(str::to_owned).context("this machine's name is unknown; set advertised.listeners")
}

/// How the descriptors that the process may have are shared out.
#[derive(Clone, Copy, Debug)]
struct OpenFiles {
    connections_max: usize,
    logs_max: NonZero<usize>,
}

impl OpenFiles {
    /// Raises the limit of open files as far as it goes, then gives logs a quarter and connections the rest.
    fn allowed() -> Self {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = getrlimit(Resource::Nofile);
        if limit.current != limit.maximum {
            // Without success the old limit holds.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        }
        let files = getrlimit(Resource::Nofile)
            .current
            .map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        let logs_max = (files / 4).min(FsDisk::HANDLES_DEFAULT.get());
        Self {
            connections_max: files.saturating_sub(logs_max).saturating_sub(FILES_RESERVED).max(1),
            logs_max: NonZero::new(logs_max).unwrap_or(NonZero::<usize>::MIN),
        }
    }
}

fn tell(remarks: &[Remark]) {
    for remark in remarks {
        match remark {
            Remark::Unknown(text) => tracing::warn!("{text}"),
            Remark::WithoutEffect(keys) => {
                tracing::info!("keys that have no effect here: {}", keys.join(", "));
            }
            Remark::OtherPort { advertised, source } => tracing::warn!(
                "clients are told to connect to {advertised} ({source}), not to the port of --port; \
                 give --advertised-listeners too if that is wrong"
            ),
        }
    }
}
