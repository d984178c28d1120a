//! A partition as requests see it: its log, who waits for it, and the state of its syncs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
};

use riparian_log::PartitionLog;
use riparian_types::{
    Now, Offset, PartitionIndex, TopicName, Uuid,
    planted::{self, Bug},
};

use crate::{Broker, handlers::fetch::ParkedFetch};

/// Which shard keeps its records in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// None: clients produce to it.
    Clients,
    /// The group shard of this number.
    Groups(usize),
    /// The metadata shard.
    Metadata,
}

/// One partition.
pub(crate) struct Partition {
    pub(crate) topic: TopicName,
    pub(crate) topic_id: Uuid,
    pub(crate) index: PartitionIndex,
    pub(crate) owner: Owner,
    /// Replaced when the log is opened again after a failure.
    log: RwLock<Arc<PartitionLog>>,
    sync: AtomicU8,
    waits: Mutex<Waits>,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition").field("topic", &self.topic).field("index", &self.index).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Waits {
    durable: BTreeMap<(Offset, u64), Wait>,
    /// Kept by their timers, since they keep the partitions that they wait for.
    fetches: BTreeMap<u64, Weak<ParkedFetch>>,
    next: u64,
}

/// Somebody who waits for what was appended to a log. Offsets are given again after a failure, so the log counts too.
struct Wait {
    log: Arc<PartitionLog>,
    countdown: Arc<Countdown>,
    tag: usize,
}

impl Waits {
    /// The fetches that wait.
    fn parked(&self) -> Vec<Arc<ParkedFetch>> {
        self.fetches.values().filter_map(Weak::upgrade).collect()
    }
}

const IDLE: u8 = 0;
const SYNCING: u8 = 1;
/// Syncing, and more was appended since the sync was taken.
const SYNCING_AGAIN: u8 = 2;

impl Partition {
    pub(crate) fn new(
        topic: TopicName,
        topic_id: Uuid,
        index: PartitionIndex,
        owner: Owner,
        log: Arc<PartitionLog>,
    ) -> Self {
        Self {
            topic,
            topic_id,
            index,
            owner,
            log: RwLock::new(log),
            sync: AtomicU8::new(IDLE),
            waits: Mutex::default(),
        }
    }

    /// The log.
    pub(crate) fn log(&self) -> Arc<PartitionLog> {
        self.log.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a log that was opened again in the place of the one that failed.
    pub(crate) fn replace_log(&self, log: Arc<PartitionLog>, now: Now) {
        let mut place = self.log.write().unwrap_or_else(PoisonError::into_inner);
        // Whoever finds the old log still in its place has had its failures noted by now.
        log.takes_the_place_of(&place, now.wall);
        *place = log;
    }

    /// Notes that something was appended; true if the caller must start the job that syncs it.
    pub(crate) fn must_start_sync(&self) -> bool {
        let next = |state| Some(if state == IDLE { SYNCING } else { SYNCING_AGAIN });
        self.sync.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// The running job is about to take what is to be synced.
    pub(crate) fn sync_begins(&self) {
        self.sync.store(SYNCING, Ordering::Release);
    }

    /// Whether the running job may end: nothing was appended since it last began.
    pub(crate) fn sync_may_end(&self) -> bool {
        self.sync.compare_exchange(SYNCING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The job ended without an end of its own, by a panic: the next append starts another one.
    pub(crate) fn sync_broke_off(&self) {
        self.sync.store(IDLE, Ordering::Release);
    }

    /// Counts `countdown` down when everything in `log` below `end` is durable, perhaps at once. `tag` comes back if
    /// that fails, as it does when this log has failed or was closed meanwhile.
    pub(crate) fn wait_durable(
        &self,
        broker: &Broker,
        now: Now,
        log: Arc<PartitionLog>,
        end: Offset,
        countdown: Arc<Countdown>,
        tag: usize,
    ) {
        let mut waits = self.lock();
        // Looked at under the lock: a log is durable, or unavailable, before its waiters are woken.
        if log.durable_end() >= end {
            drop(waits);
            return countdown.one_done(broker, now);
        }
        if log.unavailable().is_some() {
            drop(waits);
            return countdown.one_failed(broker, now, tag);
        }
        let age = waits.next;
        waits.next += 1;
        waits.durable.insert((end, age), Wait { log, countdown, tag });
    }

    /// Wakes this fetch whenever more becomes readable.
    pub(crate) fn park(&self, id: u64, fetch: &Arc<ParkedFetch>) {
        self.lock().fetches.insert(id, Arc::downgrade(fetch));
    }

    /// Forgets a parked fetch.
    pub(crate) fn unpark(&self, id: u64) {
        self.lock().fetches.remove(&id);
    }

    /// Wakes everybody who waited for what is durable now.
    pub(crate) fn release(&self, broker: &Broker, now: Now) {
        let durable_end = self.log().durable_end();
        let mut due = Vec::new();
        let fetches = {
            let mut waits = self.lock();
            while let Some(entry) = waits.durable.first_entry()
                && entry.key().0 <= durable_end
            {
                due.push(entry.remove_entry());
                if planted::is_in(Bug::WaiterForgotten) {
                    break;
                }
            }
            waits.parked()
        };
        for ((end, _), wait) in due {
            // What was appended to a log that failed since is gone, whatever stands at its offsets now.
            if wait.log.durable_end() >= end {
                wait.countdown.one_done(broker, now);
            } else {
                wait.countdown.one_failed(broker, now, wait.tag);
            }
        }
        for fetch in fetches {
            fetch.reconsider(broker, now);
        }
    }

    /// A log failed or is gone: whoever waits for it is told.
    pub(crate) fn fail_waiters(&self, broker: &Broker, now: Now) {
        let (durable, fetches) = {
            let mut waits = self.lock();
            let fetches = waits.parked();
            let is_failed = |_: &_, wait: &mut Wait| wait.log.unavailable().is_some();
            let failed: Vec<_> = waits.durable.extract_if(.., is_failed).collect();
            (failed, fetches)
        };
        for (_, wait) in durable {
            wait.countdown.one_failed(broker, now, wait.tag);
        }
        for fetch in fetches {
            fetch.reconsider(broker, now);
        }
    }

    /// How many wait for durability, and how many fetches for records.
    #[cfg(test)]
    pub(crate) fn waiter_counts(&self) -> (usize, usize) {
        let waits = self.lock();
        (waits.durable.len(), waits.fetches.len())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs an action once a number of things have happened.
pub(crate) struct Countdown {
    left: AtomicUsize,
    action: Mutex<Option<Action>>,
    failed: Mutex<Vec<usize>>,
}

/// Gets the tags of what failed.
type Action = Box<dyn FnOnce(&Broker, Now, Vec<usize>) + Send>;

impl Countdown {
    /// Waits for `count` calls of [`Countdown::one_done`] or [`Countdown::one_failed`].
    pub(crate) fn new(count: usize, action: Action) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(count), action: Mutex::new(Some(action)), failed: Mutex::default() })
    }

    pub(crate) fn one_done(&self, broker: &Broker, now: Now) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let action = self.action.lock().unwrap_or_else(PoisonError::into_inner).take();
            let failed = std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner));
            if let Some(action) = action {
                action(broker, now, failed);
            }
        }
    }

    pub(crate) fn one_failed(&self, broker: &Broker, now: Now, tag: usize) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(tag);
        self.one_done(broker, now);
    }
}
