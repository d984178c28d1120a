//! The threads that serve connections: each waits for all of its own and hands none to another.
//!
//! A connection stays on one thread, so that nobody has to be woken on another one for an ordinary request; what one
//! thread does for a connection, its others wait for. Work that may block goes elsewhere
//! ([`Shell::spawn`](riparian_broker::Shell::spawn)).

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    runtime::{self, Handle},
    sync::watch,
};

/// See the module. Dropping it ends the threads, and with them whatever they still serve.
pub(crate) struct Workers {
    workers: Vec<Worker>,
    /// The threads end when it is dropped.
    _stop: watch::Sender<()>,
}

struct Worker {
    handle: Handle,
    connections: Arc<AtomicUsize>,
}

/// A connection's place on a thread, given back when dropped.
pub(crate) struct Place {
    pub(crate) handle: Handle,
    connections: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts so many threads.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(());
        let mut workers = Vec::new();
        for number in 0..count {
            // No timers: they would be looked at around every wait, and hardly anybody needs one.
            let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
            workers.push(Worker::new(runtime.handle().clone()));
            let mut stopped = stopped.clone();
            let serve = move || runtime.block_on(async { while stopped.changed().await.is_ok() {} });
            thread::Builder::new().name(format!("riparian-net-{number}")).spawn(serve)?;
        }
        Ok(Self { workers, _stop: stop })
    }

    /// A place where the fewest connections are.
    pub(crate) fn take_place(&self) -> Place {
        let load = |worker: &&Worker| worker.connections.load(Ordering::Relaxed);
        let worker = self.workers.iter().min_by_key(load).expect("there is a thread");
        worker.connections.fetch_add(1, Ordering::Relaxed);
        Place { handle: worker.handle.clone(), connections: Arc::clone(&worker.connections) }
    }
}

impl Worker {
    fn new(handle: Handle) -> Self {
        Self { handle, connections: Arc::default() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
