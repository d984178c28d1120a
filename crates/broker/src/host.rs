//! A shard with a lock around it, and the requests that wait for its answers.
//!
//! The lock is held while the machine decides and the records are appended, never while a file is synced, an answer is
//! encoded or another shard is called. What follows from a call is carried out after the lock is released.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use riparian_coordinator::{LoadReport, LogFailure, Outcome, RecordCodec, Shard};
use riparian_log::Logs;
use riparian_types::{
    MonoMillis, Now, Offset,
    machine::{Machine, Waiter},
};

use crate::{Broker, partition::Partition, record_log::PartitionRecordLog};

/// The shard is not there at the moment: the client should look for its coordinator again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailable;

/// What to do with an answer.
pub(crate) type Continuation<M> = Box<dyn FnOnce(&Broker, Now, Result<<M as Machine>::Reply, Unavailable>) + Send>;

/// A machine that the broker hosts.
pub(crate) trait Hosted: Machine + Sized + 'static {
    /// Kafka's bytes for its records.
    type Codec: RecordCodec<Self>;

    /// Carries out what the machine asked for. `shard` is the number of the shard that asked.
    fn carry_out(broker: &Broker, now: Now, shard: usize, effects: Vec<Self::Effect>);

    /// What others may see of the hard state, once it is durable.
    type Snapshot: Send;

    /// What others may see of the hard state; cheap.
    fn snapshot(&self) -> Self::Snapshot;

    /// Shows a snapshot to others: everything in it is durable. Called before the answers that rest on it are
    /// released, possibly out of order: `end` is the offset up to which the snapshot goes.
    fn publish(broker: &Broker, now: Now, end: Offset, snapshot: Self::Snapshot);

    /// The name of the kind of shard, for log lines.
    const NAME: &'static str;

    /// How the shard is found again when a timer is due.
    fn wake(shard: usize) -> crate::Wake;

    /// Tells a freshly loaded shard what it must know of the world.
    fn introduce(broker: &Broker, now: Now, host: &Host<Self>);
}

/// A shard and its waiters.
pub(crate) struct Host<M: Hosted> {
    /// Its number among the shards of its kind.
    number: usize,
    partition: Arc<Partition>,
    inner: Mutex<Inner<M>>,
}

struct Inner<M: Hosted> {
    shard: Shard<M, M::Codec, PartitionRecordLog>,
    waiting: Waiting<M>,
    /// The earliest time at which a timer of this shard is set to go off.
    timer: Option<MonoMillis>,
    /// Snapshots that are not durable yet, with the end of the log when they were taken.
    snapshots: VecDeque<(Offset, M::Snapshot)>,
}

impl<M: Hosted> Host<M> {
    /// A host of a shard that is not loaded yet.
    pub(crate) fn new(
        number: usize,
        partition: Arc<Partition>,
        logs: Arc<Logs>,
        fresh: Box<dyn Fn() -> (M, M::Soft) + Send>,
    ) -> Self {
        let log = PartitionRecordLog::new(partition.clone(), logs);
        let inner =
            Inner { shard: Shard::new(log, fresh), waiting: Waiting::new(), timer: None, snapshots: VecDeque::new() };
        Self { number, partition, inner: Mutex::new(inner) }
    }

    /// The partition that the shard keeps its records in.
    pub(crate) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// Builds the machine from its log.
    pub(crate) fn load(&self, now: Now, reopen: bool) -> Result<LoadReport, LogFailure> {
        self.lock().shard.load(now, reopen)
    }

    /// Runs commands before there is a broker: appends, syncs and returns the replies.
    pub(crate) fn start(
        &self,
        now: Now,
        commands: impl IntoIterator<Item = M::Command>,
    ) -> Result<Vec<M::Reply>, String> {
        let mut inner = self.lock();
        let mut replies = Vec::new();
        for command in commands {
            let outcome = inner.shard.command(now, command, None);
            if let Some(reason) = outcome.unloaded {
                return Err(reason);
            }
            replies.extend(outcome.answers.into_iter().map(|(_, reply)| reply));
        }
        self.partition.log().sync().map_err(|error| error.to_string())?;
        replies.extend(inner.shard.on_durable().answers.into_iter().map(|(_, reply)| reply));
        Ok(replies)
    }

    /// Asks the machine; `then` gets the answer, at once or when it may leave.
    pub(crate) fn ask(
        &self,
        broker: &Broker,
        now: Now,
        command: impl FnOnce(Waiter) -> M::Command,
        then: Continuation<M>,
    ) {
        let mut inner = self.lock();
        let waiter = inner.waiting.insert(then);
        let outcome = inner.shard.command(now, command(waiter), Some(waiter));
        self.follow(broker, now, inner, outcome);
    }

    /// Tells the machine something that has no answer.
    pub(crate) fn tell(&self, broker: &Broker, now: Now, command: M::Command) {
        let mut inner = self.lock();
        let outcome = inner.shard.command(now, command, None);
        self.follow(broker, now, inner, outcome);
    }

    /// Handles the timers that are due.
    pub(crate) fn on_time(&self, broker: &Broker, now: Now) {
        let mut inner = self.lock();
        inner.timer = None;
        let outcome = inner.shard.on_time(now);
        self.follow(broker, now, inner, outcome);
    }

    /// The shard's log became durable up to some offset.
    pub(crate) fn on_durable(&self, broker: &Broker, now: Now) {
        let mut inner = self.lock();
        let outcome = inner.shard.on_durable();
        self.follow(broker, now, inner, outcome);
    }

    /// A sync of the shard's log failed.
    pub(crate) fn on_failed(&self, broker: &Broker, now: Now, reason: &str) {
        let mut inner = self.lock();
        let outcome = inner.shard.unload(reason.to_owned());
        self.follow(broker, now, inner, outcome);
    }

    /// Looks at the hard state, if it is loaded. It may be ahead of what is durable.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&M) -> R) -> Option<R> {
        self.lock().shard.machine().map(read)
    }

    /// Its number among the shards of its kind.
    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// Sets the timer after a load, which has no outcome to follow.
    pub(crate) fn arm(&self, broker: &Broker) {
        let mut inner = self.lock();
        self.set_timer(broker, &mut inner);
    }

    fn set_timer(&self, broker: &Broker, inner: &mut Inner<M>) {
        if let Some(deadline) = inner.shard.next_deadline()
            && inner.timer.is_none_or(|timer| deadline < timer)
        {
            inner.timer = Some(deadline);
            broker.wake_at(deadline, M::wake(self.number));
        }
    }

    fn follow(&self, broker: &Broker, now: Now, mut inner: MutexGuard<'_, Inner<M>>, mut outcome: Outcome<M>) {
        self.set_timer(broker, &mut inner);
        if outcome.appended
            && let Some(machine) = inner.shard.machine()
        {
            let snapshot = (inner.shard.end_offset(), machine.snapshot());
            inner.snapshots.push_back(snapshot);
        }
        let durable_end = inner.shard.durable_end();
        let mut publish = None;
        while let Some((end, _)) = inner.snapshots.front()
            && *end <= durable_end
        {
            publish = inner.snapshots.pop_front();
        }
        let turned_away: Vec<_> =
            outcome.turned_away.drain(..).filter_map(|waiter| inner.waiting.remove(waiter)).collect();
        let answers: Vec<_> = outcome
            .answers
            .drain(..)
            .filter_map(|(waiter, reply)| inner.waiting.remove(waiter).map(|then| (then, reply)))
            .collect();
        if outcome.unloaded.is_some() {
            inner.snapshots.clear();
        }
        drop(inner);
        if let Some((end, snapshot)) = publish {
            M::publish(broker, now, end, snapshot);
        }
        if outcome.appended {
            broker.sync_soon(now, &self.partition);
        }
        if !outcome.effects.is_empty() {
            M::carry_out(broker, now, self.number, outcome.effects);
        }
        for (then, reply) in answers {
            then(broker, now, Ok(reply));
        }
        for then in turned_away {
            then(broker, now, Err(Unavailable));
        }
        if let Some(reason) = outcome.unloaded {
            tracing::error!(
                shard = self.number,
                kind = M::NAME,
                reason,
                "shard unloaded, loading it again from its log"
            );
            self.reload(broker, now);
        }
    }

    /// Loads the shard again; tries again later if that fails.
    pub(crate) fn reload(&self, broker: &Broker, now: Now) {
        match self.load(now, true) {
            Ok(report) => {
                tracing::info!(shard = self.number, kind = M::NAME, records = report.records, "shard loaded again");
                M::introduce(broker, now, self);
                self.arm(broker);
            }
            Err(failure) => {
                tracing::error!(shard = self.number, kind = M::NAME, %failure, "shard can't be loaded, trying again in 1 s");
                broker.wake_at(now.mono.plus_ms(1000), crate::Wake::Reload(Box::new(M::wake(self.number))));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<M>> {
        // A panic inside a machine is caught by the shard, so a poisoned lock means a panic in a few lines of this file.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Continuations by waiter: a slab, so that asking costs no hashing.
struct Waiting<M: Machine> {
    slots: Vec<Option<Continuation<M>>>,
    free: Vec<usize>,
}

impl<M: Machine> Waiting<M> {
    const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, then: Continuation<M>) -> Waiter {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(then);
        Waiter(index as u64)
    }

    fn remove(&mut self, waiter: Waiter) -> Option<Continuation<M>> {
        let then = self.slots.get_mut(waiter.0 as usize)?.take()?;
        self.free.push(waiter.0 as usize);
        Some(then)
    }
}
