//! A shard with a lock around it, and the requests that wait for its answers.
//!
//! The lock is held while the machine decides and the records are appended, never while a file is synced, an answer is
//! encoded or another shard is called. What follows from a call is carried out after the lock is released; for the
//! metadata in the order of the calls, whatever threads they came from, so that no change overtakes another.

use std::{
    borrow::Borrow,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

use riparian_coordinator::{LoadReport, LogFailure, Outcome, RecordCodec, Shard};
use riparian_log::Logs;
use riparian_types::{
    MonoMillis, Now, Offset,
    machine::{Machine, Waiter},
};

use crate::{Broker, partition::Partition, record_log::PartitionRecordLog, telemetry::Telemetry};

/// The shard is not there at the moment: the client should look for its coordinator again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailable;

/// A shard that fails again sooner than this is not loaded again at once: what made it fail (a full disk, most likely)
/// would only do so again, and a timer that is due at once would make that a loop without end.
const LOAD_AGAIN_PAUSE_MS: i64 = 100;

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
    /// released; `end` is the offset up to which the snapshot goes.
    fn publish(broker: &Broker, now: Now, end: Offset, snapshot: Self::Snapshot);

    /// Whether what follows from calls is carried out in the order of the calls. It costs waiting for one another.
    const IN_ORDER: bool;

    /// The name of the kind of shard, for log lines.
    const NAME: &'static str;

    /// How the shard is found again when a timer is due.
    fn wake(shard: usize) -> crate::Wake;

    /// The shard of this number was loaded again: tells it what it must know of the world, and the world of it.
    fn introduce(broker: &Broker, now: Now, shard: usize, end: Offset, snapshot: Self::Snapshot);
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
    /// When the shard last failed.
    failed_at: Option<MonoMillis>,
    /// Snapshots that are not durable yet, with the end of the log when they were taken.
    snapshots: VecDeque<(Offset, M::Snapshot)>,
    /// What is still to be carried out, if that is done in order.
    following: VecDeque<Following<M>>,
    /// Somebody is carrying it out.
    is_following: bool,
}

/// What follows from one call.
enum Following<M: Hosted> {
    Outcome {
        now: Now,
        publish: Option<(Offset, M::Snapshot)>,
        effects: Vec<M::Effect>,
        answers: Vec<(Continuation<M>, M::Reply)>,
        turned_away: Vec<Continuation<M>>,
        unloaded: Option<String>,
    },
    Introduce(Now, Offset, M::Snapshot),
    Task(Box<dyn FnOnce(&Broker) + Send>),
}

impl<M: Hosted> Host<M> {
    /// A host of a shard that is not loaded yet.
    pub(crate) fn new(
        number: usize,
        partition: Arc<Partition>,
        logs: Arc<Logs>,
        telemetry: Arc<Telemetry>,
        fresh: Box<dyn Fn() -> (M, M::Soft) + Send>,
    ) -> Self {
        let log = PartitionRecordLog::new(partition.clone(), logs, telemetry);
        let inner = Inner {
            shard: Shard::new(log, fresh),
            waiting: Waiting::new(),
            timer: None,
            failed_at: None,
            snapshots: VecDeque::new(),
            following: VecDeque::new(),
            is_following: false,
        };
        Self { number, partition, inner: Mutex::new(inner) }
    }

    /// The partition that the shard keeps its records in.
    pub(crate) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// Builds the machine from its log.
    pub(crate) fn load(&self, now: Now) -> Result<LoadReport, LogFailure> {
        // A damaged log is not to be taken for an empty one.
        if let Some(damage) = self.partition.log().damage() {
            return Err(LogFailure { reason: damage.to_string() });
        }
        self.lock().shard.load(now, false)
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

    /// Asks the machine what it may be able to answer without a decision ([`Shard::glance`]).
    pub(crate) fn glance<S: Ord + ?Sized, R>(
        &self,
        broker: &Broker,
        now: Now,
        scope: &S,
        look: impl FnOnce(&M, &mut M::Soft) -> Option<R>,
    ) -> Option<R>
    where
        M::Scope: Borrow<S>,
    {
        let mut inner = self.lock();
        match inner.shard.glance(scope, look) {
            Ok(answer) => {
                self.set_timer(broker, &mut inner);
                answer
            }
            Err(outcome) => {
                self.follow(broker, now, inner, outcome);
                None
            }
        }
    }

    /// Gives up what waits with this waiter, if it still does, and tells the machine so with this command. Returns what
    /// was to be done with the answer.
    pub(crate) fn give_up(
        &self,
        broker: &Broker,
        now: Now,
        waiter: Waiter,
        command: M::Command,
    ) -> Option<Continuation<M>> {
        let mut inner = self.lock();
        let then = inner.waiting.remove(waiter)?;
        let outcome = inner.shard.command(now, command, None);
        self.follow(broker, now, inner, outcome);
        Some(then)
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
        // An older timer than the one that counts wakes too, and leaves that one alone: else both would be set again,
        // for ever.
        inner.timer = inner.timer.filter(|timer| *timer > now.mono);
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

    /// Whether it is loaded; `None` if somebody else is at it just now.
    pub(crate) fn try_is_loaded(&self) -> Option<bool> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner.shard.is_loaded()),
            Err(TryLockError::Poisoned(inner)) => Some(inner.into_inner().shard.is_loaded()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether the live hard state is what the log gives when it is applied again; true while not loaded.
    pub(crate) fn replay_equals_live(&self) -> Result<bool, LogFailure>
    where
        M: PartialEq,
    {
        self.lock().shard.replay_equals_live().map(|equal| equal.unwrap_or(true))
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

    fn follow<'a>(&'a self, broker: &Broker, now: Now, mut inner: MutexGuard<'a, Inner<M>>, mut outcome: Outcome<M>) {
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
        let mut turned_away: Vec<_> =
            outcome.turned_away.drain(..).filter_map(|waiter| inner.waiting.remove(waiter)).collect();
        let answers: Vec<_> = outcome
            .answers
            .drain(..)
            .filter_map(|(waiter, reply)| inner.waiting.remove(waiter).map(|then| (then, reply)))
            .collect();
        if outcome.unloaded.is_some() {
            inner.snapshots.clear();
            // Whoever waits for an event waits for a machine that is no more.
            turned_away.extend(inner.waiting.drain());
        }
        let (effects, unloaded) = (outcome.effects, outcome.unloaded);
        let following = Following::Outcome { now, publish, effects, answers, turned_away, unloaded };
        self.carry_out(broker, inner, following);
        if outcome.appended {
            broker.sync_soon(now, &self.partition);
        }
    }

    /// Runs a task after everything that was decided before, and before everything that is decided later.
    pub(crate) fn in_order(&self, broker: &Broker, task: Box<dyn FnOnce(&Broker) + Send>) {
        self.carry_out(broker, self.lock(), Following::Task(task));
    }

    /// Carries out what follows from a call, or leaves it to the thread that is at it.
    fn carry_out<'a>(&'a self, broker: &Broker, mut inner: MutexGuard<'a, Inner<M>>, following: Following<M>) {
        if !M::IN_ORDER {
            drop(inner);
            return self.carry_out_one(broker, following);
        }
        inner.following.push_back(following);
        if inner.is_following {
            return;
        }
        inner.is_following = true;
        let _guard = NoMore(self);
        while let Some(next) = inner.following.pop_front() {
            drop(inner);
            self.carry_out_one(broker, next);
            inner = self.lock();
        }
        // Under the lock that saw the end of the queue.
        inner.is_following = false;
    }

    fn carry_out_one(&self, broker: &Broker, following: Following<M>) {
        match following {
            Following::Outcome { now, publish, effects, answers, turned_away, unloaded } => {
                if let Some((end, snapshot)) = publish {
                    M::publish(broker, now, end, snapshot);
                }
                if !effects.is_empty() {
                    M::carry_out(broker, now, self.number, effects);
                }
                for (then, reply) in answers {
                    then(broker, now, Ok(reply));
                }
                for then in turned_away {
                    then(broker, now, Err(Unavailable));
                }
                if let Some(reason) = unloaded {
                    broker.telemetry.shards_unloaded().increment();
                    let text = "shard unloaded, loading it again from its log";
                    tracing::error!(shard = self.number, kind = M::NAME, reason, "{text}");
                    let before = self.lock().failed_at.replace(now.mono);
                    let again_at = before.map(|before| before.plus_ms(LOAD_AGAIN_PAUSE_MS));
                    if again_at.is_some_and(|again_at| now.mono < again_at) {
                        let again_at = now.mono.plus_ms(LOAD_AGAIN_PAUSE_MS);
                        broker.wake_at(again_at, crate::Wake::Reload(Box::new(M::wake(self.number))));
                    } else {
                        self.reload(broker, now);
                    }
                }
            }
            Following::Introduce(now, end, snapshot) => M::introduce(broker, now, self.number, end, snapshot),
            Following::Task(task) => task(broker),
        }
    }

    /// Loads the shard again; tries again later if that fails.
    pub(crate) fn reload(&self, broker: &Broker, now: Now) {
        let mut inner = self.lock();
        if inner.shard.is_loaded() {
            // Somebody was asked twice to do it.
            return;
        }
        match inner.shard.load(now, true) {
            Ok(report) => {
                tracing::info!(shard = self.number, kind = M::NAME, records = report.records, "shard loaded again");
                self.set_timer(broker, &mut inner);
                let end = inner.shard.end_offset();
                if let Some(snapshot) = inner.shard.machine().map(M::snapshot) {
                    self.carry_out(broker, inner, Following::Introduce(now, end, snapshot));
                }
            }
            Err(failure) if self.partition.log().damage().is_some() => {
                drop(inner);
                tracing::error!(shard = self.number, kind = M::NAME, %failure, "shard's log is damaged, it is not available");
            }
            Err(failure) => {
                drop(inner);
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

/// Lets the next call carry things out if a panic ends the one that was at it.
struct NoMore<'a, M: Hosted>(&'a Host<M>);

impl<M: Hosted> Drop for NoMore<'_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_following = false;
        }
    }
}

/// Continuations by waiter: a slab, so that asking costs no hashing.
///
/// A waiter is a slot's number below, and above it how often the slot was used: a waiter that was answered does not turn
/// into somebody else's.
struct Waiting<M: Machine> {
    slots: Vec<Slot<M>>,
    free: Vec<u32>,
}

struct Slot<M: Machine> {
    uses: u32,
    then: Option<Continuation<M>>,
}

impl<M: Machine> Waiting<M> {
    const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, then: Continuation<M>) -> Waiter {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { uses: 0, then: None });
            u32::try_from(self.slots.len() - 1).expect("fewer requests wait than fit into memory")
        });
        let slot = &mut self.slots[index as usize];
        slot.uses = slot.uses.wrapping_add(1);
        slot.then = Some(then);
        Waiter(u64::from(slot.uses) << 32 | u64::from(index))
    }

    fn remove(&mut self, waiter: Waiter) -> Option<Continuation<M>> {
        let (uses, index) = ((waiter.0 >> 32) as u32, waiter.0 as u32);
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.uses == uses)?;
        let then = slot.then.take()?;
        self.free.push(index);
        Some(then)
    }

    /// Everything that waits, in the order of the slots.
    fn drain(&mut self) -> Vec<Continuation<M>> {
        let mut all = Vec::new();
        for (index, slot) in (0..).zip(&mut self.slots) {
            if let Some(then) = slot.then.take() {
                self.free.push(index);
                all.push(then);
            }
        }
        all
    }
}
