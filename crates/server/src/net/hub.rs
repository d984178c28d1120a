//! What the broker sees of the server: all connections, the clock, one timer and the threads for work that blocks.
//!
//! **Invariant:** calls from the broker never block and never call back into it on the same stack.

use std::{
    hash::{BuildHasherDefault, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;
use riparian_broker::{Job, Shell, telemetry::Limit};
use riparian_types::{MonoMillis, Now};
use tokio::{runtime, sync::Notify};

use super::{
    addresses::Addresses,
    connection::{HELD_BYTES_FREE, Handle, PEER_LINES},
    counters::{Closed, ConnectionCounters},
    outbox::Stage,
    port::{ConnectionId, Port, Reply},
};
use crate::clock::Clock;

const NEVER: u64 = u64::MAX;

pub(crate) struct Hub {
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<ConnectionCounters>,
    connections: DashMap<ConnectionId, Arc<Handle>, BuildHasherDefault<NumberHasher>>,
    pub(crate) addresses: Arc<Addresses>,
    /// What all connections hold of unfinished requests and unsent answers.
    pub(crate) held_bytes: Arc<AtomicUsize>,
    /// `riparian.connections.bytes.max`: how much of that there may be.
    pub(crate) held_bytes_max: usize,
    /// When the broker wants to be called, in monotonic milliseconds.
    wake_at: AtomicU64,
    wake_sooner: Notify,
    /// Since when the broker is at what was due; [`NEVER`] while it is not.
    on_time_since: AtomicU64,
    /// Where timers run, and work that blocks.
    pub(crate) runtime: runtime::Handle,
}

/// Spreads numbers that are counted up and that no peer chooses: multiplied by an odd number as large as the golden ratio
/// makes it, neighbours lie far apart.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
}

/// A connection's place among all; whatever ends its task, it is gone from there.
pub(crate) struct Listed {
    hub: Arc<Hub>,
    id: ConnectionId,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.hub.connections.remove(&self.id);
    }
}

impl Hub {
    pub(crate) fn new(clock: Clock, runtime: runtime::Handle, held_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            clock,
            counters: Arc::default(),
            connections: DashMap::default(),
            addresses: Arc::default(),
            held_bytes: Arc::default(),
            held_bytes_max,
            wake_at: AtomicU64::new(NEVER),
            wake_sooner: Notify::new(),
            on_time_since: AtomicU64::new(NEVER),
            runtime,
        })
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// A connection is there until what is returned second is dropped.
    pub(crate) fn add(self: &Arc<Self>, id: ConnectionId) -> (Arc<Handle>, Listed) {
        let handle = Arc::new(Handle::new(Arc::clone(&self.held_bytes)));
        handle.last_active.store(self.clock.now().mono.0, Ordering::Relaxed);
        self.connections.insert(id, Arc::clone(&handle));
        (handle, Listed { hub: Arc::clone(self), id })
    }

    /// Lets all connections come to their end because the server stops.
    pub(crate) fn advance_all_to(&self, stage: Stage) {
        for handle in self.handles() {
            handle.closed_for.set(Closed::Stopping);
            handle.outbox.advance_to(stage);
        }
    }

    /// Closes the connections on which nothing happened for so long. Returns how many.
    pub(crate) fn close_idle(&self, idle_ms_max: u64) -> usize {
        let now = self.clock.now().mono;
        let idle: Vec<_> = self
            .handles()
            .into_iter()
            .filter(|handle| {
                let last_active = handle.last_active.load(Ordering::Relaxed);
                now.since(MonoMillis(last_active)) >= idle_ms_max
            })
            .collect();
        for handle in &idle {
            handle.closed_for.set(Closed::Idle);
            self.counters.limits.hit(Limit::ConnectionIdle);
            handle.outbox.advance_to(Stage::Closing);
        }
        idle.len()
    }

    /// How long ago something should have been done that is not done yet, in milliseconds.
    pub(crate) fn late_ms(&self) -> u64 {
        let oldest = self.wake_at.load(Ordering::Relaxed).min(self.on_time_since.load(Ordering::Relaxed));
        self.clock.now().mono.since(MonoMillis(oldest))
    }

    fn handles(&self) -> Vec<Arc<Handle>> {
        self.connections.iter().map(|entry| Arc::clone(&entry)).collect()
    }

    /// Calls the broker whenever the time has come that it asked for.
    pub(crate) async fn run_timer<P: Port>(&self, port: &P) {
        loop {
            let at = self.wake_at.load(Ordering::Acquire);
            if at == NEVER {
                self.wake_sooner.notified().await;
                continue;
            }
            if self.now().mono.0 < at {
                let due = self.clock.instant(MonoMillis(at));
                tokio::select! {
                    () = tokio::time::sleep_until(due.into()) => {}
                    () = self.wake_sooner.notified() => {}
                }
                continue;
            }
            // What the broker wants next it says while it is called.
            self.wake_at.store(NEVER, Ordering::Release);
            let now = self.now();
            self.on_time_since.store(now.mono.0, Ordering::Relaxed);
            let _ = catch_unwind(AssertUnwindSafe(|| port.on_time(now)));
            self.on_time_since.store(NEVER, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    }
}

impl Shell for Hub {
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn micros(&self) -> u64 {
        self.clock.micros()
    }

    fn complete(&self, id: ConnectionId, slot: u64, reply: Reply) {
        // The clone lets go of the map before the connection is woken. A connection that is gone needs no reply.
        let Some(handle) = self.connections.get(&id).map(|entry| Arc::clone(&entry)) else { return };
        let closed_for = match handle.outbox.complete(slot, reply) {
            // As with all that a connection holds: who would hold more while all hold too much is closed.
            Ok(early_bytes)
                if early_bytes > HELD_BYTES_FREE && self.held_bytes.load(Ordering::Relaxed) > self.held_bytes_max =>
            {
                self.counters.limits.hit(Limit::ConnectionsBytes);
                PEER_LINES.run(self.clock.mono(), |suppressed| {
                    tracing::warn!(
                        connection = id.0,
                        suppressed,
                        "connection closed: {early_bytes} bytes of its answers wait for earlier ones, and all connections \
                         together hold more than {} (riparian.connections.bytes.max)",
                        self.held_bytes_max
                    );
                });
                Closed::Overload
            }
            Ok(_) => return,
            Err(second) => {
                tracing::error!(connection = id.0, "this is a bug: {second}");
                Closed::Failure
            }
        };
        handle.closed_for.set(closed_for);
        handle.outbox.advance_to(Stage::Closing);
    }

    fn wake_at(&self, at: MonoMillis) {
        if self.wake_at.fetch_min(at.0, Ordering::AcqRel) > at.0 {
            self.wake_sooner.notify_one();
        }
    }

    fn spawn(&self, job: Job) {
        self.runtime.spawn_blocking(move || {
            // The panic hook has told what happened; the thread goes on with the next job.
            let _ = catch_unwind(AssertUnwindSafe(job));
        });
    }
}
