//! Kafka requests in, replies out.
//!
//! [`Broker::handle`] takes a request frame and returns at once; the reply comes through the [`Shell`] when it may
//! leave. Many threads call it together: state is split in small locks, one per shard and one per partition log.
//! There is no async runtime here, no socket and no clock.
//!
//! **Invariants:** never two shard locks at once; never a sync under a lock; a reply leaves only when everything it
//! claims is durable.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod authorizer;
mod cluster;
mod config;
mod connection;
mod groups;
mod handlers;
mod host;
mod lines;
mod open;
mod partition;
mod record_log;
mod request;
mod shell;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod texts;
mod timers;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, RwLock, Weak,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use dashmap::DashMap;
use riparian_group::GroupMachine;
use riparian_log::{Logs, Unavailable};
use riparian_metadata::{MetadataImage, MetadataMachine};
use riparian_types::{MonoMillis, NodeId, Now, Offset, PartitionIndex, Prng, TopicName};

pub use authorizer::{AllowAll, Authorizer, Operation, Principal, Resource};
pub use config::{AdvertisedListener, BrokerConfig};
pub use connection::Connection;
pub use lines::RateLimit;
pub use request::CloseReason;
pub use shell::{ConnectionId, FilePart, Job, Piece, Reply, Shell};

use config::RequestConfig;
use host::Host;
use partition::{Owner, Partition};
use telemetry::Telemetry;
use timers::{TimerKey, Timers};

/// The server without its sockets.
pub struct Broker {
    pub(crate) config: BrokerConfig,
    pub(crate) request_config: RequestConfig,
    pub(crate) shell: Arc<dyn Shell>,
    pub(crate) authorizer: Box<dyn Authorizer>,
    pub(crate) logs: Arc<Logs>,
    /// By topic name: the partitions, by index.
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) metadata: Host<MetadataMachine>,
    image: RwLock<cluster::Published>,
    pub(crate) groups: Vec<Host<GroupMachine>>,
    producer_ids: Mutex<cluster::ProducerIds>,
    luck: Mutex<Prng>,
    timers: Timers<Wake>,
    pub(crate) telemetry: Arc<Telemetry>,
    next_connection: AtomicU64,
    /// The sum of all durable ends at the last checkpoint: nothing is written when nothing was appended.
    checkpointed: AtomicI64,
    pub(crate) peer_lines: lines::PeerLines,
    myself: Weak<Self>,
}

/// By topic name: the partitions, by index.
pub(crate) type Partitions = DashMap<TopicName, Arc<[Arc<Partition>]>>;

/// What a timer wakes.
pub(crate) enum Wake {
    Metadata,
    Groups(usize),
    /// The only one that keeps a fetch that waits: it keeps partitions, and they must not keep it.
    Fetch(Arc<handlers::fetch::ParkedFetch>),
    /// Try again to load the shard.
    Reload(Box<Self>),
    /// Look for segments that are past their retention.
    Retention,
    /// Write down how far the logs are durable, so that the next start reads less.
    Checkpoints,
}

/// The shortest time between two runs of the same chores.
const CHORES_INTERVAL_MIN_MS: i64 = 100;

/// Lets the next append start a sync if a job panics.
struct BrokenOff<'a>(&'a Partition);

impl Drop for BrokenOff<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.sync_broke_off();
        }
    }
}

/// The broker can't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The log of the metadata or of a group shard can't be read.
    #[error("{log} can't be loaded: {reason}")]
    Load {
        /// Which log.
        log: String,
        /// Why.
        reason: String,
    },
    /// A partition of a known topic can't be opened.
    #[error("partition can't be opened: {0}")]
    Partition(String),
}

impl Broker {
    /// Tells of a new connection from `peer`, accepted by the listener of this name.
    pub fn connected(&self, peer: SocketAddr, listener: &str) -> Arc<Connection> {
        let id = ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed));
        Arc::new(Connection::new(id, peer, listener))
    }

    /// Tells that the client sends nothing more, or that the server is about to end: what waits only for more records is
    /// answered with what there is, what waits for a group is told to look for its coordinator again; now and from now on.
    pub fn hurry(&self, now: Now, connection: &Connection) {
        let ended = connection.long_polls().end();
        for fetch in ended.fetches {
            fetch.expire(self);
        }
        for wait in &ended.group_waits {
            self.give_up_group_wait(now, wait, true);
        }
    }

    /// Tells that a connection is closed. Replies to it may still come and are to be dropped.
    pub fn disconnected(&self, now: Now, connection: &Connection) {
        self.settle(now, connection);
        let ended = connection.long_polls().end();
        for fetch in ended.fetches {
            fetch.abandon(self);
        }
        for wait in &ended.group_waits {
            self.give_up_group_wait(now, wait, false);
        }
        for group in connection.take_groups() {
            self.connection_closed(now, group, connection.id());
        }
    }

    /// Takes a request: `frame` is what follows the four bytes of its size. The reply comes through
    /// [`Shell::complete`] with this `slot`, perhaps before this returns.
    ///
    /// # Errors
    /// The request can't be answered: the connection is to be closed, and one line logged.
    pub fn handle(&self, now: Now, connection: &Connection, slot: u64, frame: Bytes) -> Result<(), CloseReason> {
        let result = self.handle_unsettled(now, connection, slot, frame);
        self.settle(now, connection);
        result
    }

    /// As [`Broker::handle`], for one of several requests that are at hand: [`Broker::settle`] must follow the last of
    /// them, before anything is waited for. What they append is made durable together.
    ///
    /// # Errors
    /// As [`Broker::handle`].
    pub fn handle_unsettled(
        &self,
        now: Now,
        connection: &Connection,
        slot: u64,
        frame: Bytes,
    ) -> Result<(), CloseReason> {
        self.dispatch(now, connection, slot, &frame)
    }

    /// Begins to make durable what the requests of this connection have appended.
    pub fn settle(&self, now: Now, connection: &Connection) {
        for partition in connection.take_unsynced() {
            self.sync_soon(now, &partition);
        }
    }

    /// Does what is due. To be called at the times that [`Shell::wake_at`] asks for.
    pub fn on_time(&self, now: Now) {
        while let Some(wake) = self.timers.pop_due(now.mono) {
            self.wake(now, wake);
        }
        if let Some(next) = self.timers.next() {
            self.shell.wake_at(next);
        }
    }

    fn wake(&self, now: Now, wake: Wake) {
        match wake {
            Wake::Metadata => self.metadata.on_time(self, now),
            Wake::Groups(number) => self.groups[number].on_time(self, now),
            Wake::Fetch(fetch) => fetch.expire(self),
            Wake::Reload(shard) => match *shard {
                Wake::Metadata => self.metadata.reload(self, now),
                Wake::Groups(number) => self.groups[number].reload(self, now),
                Wake::Fetch(_) | Wake::Reload(_) | Wake::Retention | Wake::Checkpoints => {}
            },
            Wake::Retention => {
                self.spawn_every("log.retention.check.interval.ms", Wake::Retention, Self::enforce_retention)
            }
            Wake::Checkpoints => {
                let key = "log.flush.offset.checkpoint.interval.ms";
                self.spawn_every(key, Wake::Checkpoints, |me, _| me.write_checkpoints());
            }
        }
    }

    /// Runs chores that may block, and sets the timer for the next time.
    fn spawn_every(&self, interval_key: &'static str, again: Wake, chores: fn(&Self, Now)) {
        let me = self.me();
        self.shell.spawn(Box::new(move || {
            let now = me.shell.now();
            chores(&me, now);
            // However short the interval is set, chores are not all that is done.
            let interval_ms = me.config.properties.long(interval_key).max(CHORES_INTERVAL_MIN_MS);
            me.wake_at(now.mono.plus_ms(interval_ms), again);
        }));
    }

    /// Sets a timer.
    pub(crate) fn wake_at(&self, at: MonoMillis, wake: Wake) -> TimerKey {
        let (key, is_earliest) = self.timers.add(at, wake);
        if is_earliest {
            self.shell.wake_at(at);
        }
        key
    }

    /// Makes what was appended durable, soon, and then wakes whoever waits for it.
    pub(crate) fn sync_soon(&self, now: Now, partition: &Arc<Partition>) {
        let log = partition.log();
        if log.durable_end() >= log.end_offset() {
            // Nothing to sync (`flush=os`, or a job was faster): but readers may be waiting.
            self.on_durable(now, partition);
        } else if partition.must_start_sync() {
            let (me, partition) = (self.me(), partition.clone());
            self.shell.spawn(Box::new(move || me.sync(&partition)));
        }
    }

    fn sync(&self, partition: &Arc<Partition>) {
        let _guard = BrokenOff(partition);
        loop {
            partition.sync_begins();
            let began = self.shell.micros();
            let outcome = partition.log().sync();
            let counters = self.telemetry.logs(partition.owner.into());
            counters.syncs.observe(self.shell.micros().saturating_sub(began));
            if outcome.is_err() {
                counters.sync_failures.increment();
            }
            let now = self.shell.now();
            let log = partition.log();
            match outcome {
                // A topic that was deleted, or a log that is being opened again.
                Ok(_) if log.unavailable() == Some(Unavailable::Closed) => partition.fail_waiters(self, now),
                Err(_) if log.unavailable() == Some(Unavailable::Closed) => partition.fail_waiters(self, now),
                // It failed before this sync came to it.
                Ok(end) if log.unavailable().is_some() && end < log.end_offset() => {
                    tracing::error!(topic = %partition.topic, partition = %partition.index, "log failed, what was not durable is lost");
                    self.on_failed(now, partition, "log failed before it could be synced");
                }
                Ok(_) => self.on_durable(now, partition),
                Err(error) => {
                    tracing::error!(topic = %partition.topic, partition = %partition.index, %error, "sync failed");
                    self.on_failed(now, partition, &error.to_string());
                }
            }
            if partition.sync_may_end() {
                return;
            }
        }
    }

    fn on_durable(&self, now: Now, partition: &Arc<Partition>) {
        match partition.owner {
            Owner::Clients => {}
            Owner::Groups(number) => self.groups[number].on_durable(self, now),
            Owner::Metadata => self.metadata.on_durable(self, now),
        }
        partition.release(self, now);
    }

    fn on_failed(&self, now: Now, partition: &Arc<Partition>, reason: &str) {
        match partition.owner {
            // Producers are told to try again; by then the log has been opened anew, without what was lost.
            Owner::Clients => self.reopen(now, partition),
            Owner::Groups(number) => self.groups[number].on_failed(self, now, reason),
            Owner::Metadata => self.metadata.on_failed(self, now, reason),
        }
        partition.fail_waiters(self, now);
    }

    /// Tries to open a log again that failed before, beside everything else.
    pub(crate) fn reopen_soon(&self, partition: &Arc<Partition>) {
        let (me, partition) = (self.me(), partition.clone());
        self.shell.spawn(Box::new(move || {
            // Somebody may have been faster.
            if partition.log().unavailable().is_some() {
                me.reopen(me.shell.now(), &partition);
            }
        }));
    }

    fn reopen(&self, now: Now, partition: &Partition) {
        match self.logs.reopen(&partition.topic, partition.topic_id, partition.index, now.wall) {
            Ok(log) => partition.replace_log(log, now),
            // The topic was deleted meanwhile, and perhaps made anew.
            Err(riparian_log::OpenError::OtherTopic { .. } | riparian_log::OpenError::Partition { .. }) => {}
            // Told when the server started.
            Err(riparian_log::OpenError::Offline { .. }) => {}
            Err(error) => {
                tracing::error!(topic = %partition.topic, partition = %partition.index, %error, "log can't be opened again");
            }
        }
        partition.fail_waiters(self, now);
    }

    /// The partition, if it exists.
    pub(crate) fn partition(&self, topic: &TopicName, index: PartitionIndex) -> Option<Arc<Partition>> {
        let partitions = self.partitions.get(topic)?;
        partitions.get(usize::try_from(index.0).ok()?).cloned()
    }

    /// What this server is called by clients of a listener.
    pub(crate) fn advertised(&self, listener: &str) -> (&str, u16) {
        let listeners = &self.config.advertised;
        let found = listeners.iter().find(|l| l.listener == listener).or_else(|| listeners.first());
        found.map_or(("localhost", 9092), |l| (&l.host, l.port))
    }

    pub(crate) fn node_id(&self) -> NodeId {
        self.config.node_id()
    }

    /// The id of the cluster, as in the data directory.
    pub fn cluster_id(&self) -> &str {
        self.logs.cluster_id()
    }

    pub(crate) fn me(&self) -> Arc<Self> {
        self.myself.upgrade().expect("whoever calls a method holds the broker")
    }

    /// Whether the data directory is still where it was; touches the disk.
    pub fn data_is_in_place(&self) -> bool {
        self.logs.is_in_place()
    }

    /// Makes everything durable and writes down what makes the next start fast. To be called when no request comes any
    /// more.
    pub fn shutdown(&self, _now: Now) {
        if let Err(error) = self.logs.shutdown() {
            tracing::error!(%error, "data directory can't be closed in an orderly way; the next start will recover it");
        }
    }

    /// Compares every machine with what its log gives when it is applied again; says what differs.
    ///
    /// For tests and the simulator: it reads every shard's whole log.
    ///
    /// # Errors
    /// A machine differs, or its log can't be read.
    pub fn check_replay(&self) -> Result<(), String> {
        let differs = |name: &str, equal: Result<bool, riparian_coordinator::LogFailure>| match equal {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{name} is not what its log gives")),
            Err(failure) => Err(format!("{name}: {failure}")),
        };
        differs("the metadata", self.metadata.replay_equals_live())?;
        let mut groups = self.groups.iter();
        groups.try_for_each(|host| differs(&format!("group shard {}", host.number()), host.replay_equals_live()))
    }

    pub(crate) fn image(&self) -> MetadataImage {
        self.image_as_of().0
    }

    /// The image, and the offset of the metadata log up to which it goes.
    pub(crate) fn image_as_of(&self) -> (MetadataImage, Offset) {
        let published = self.image.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        (published.image.clone(), published.end)
    }
}
