//! One machine in its shard over a log in memory, whose end may be lost.
//!
//! **Checked here:** no command panics; every waiter is answered once, or turned away when the shard goes down; replay
//! equals live; and a machine's record means the same after it was bytes.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use riparian_coordinator::{Decoded, LogFailure, Outcome, RecordCodec, RecordLog, Shard};
use riparian_records::{Batch, BatchBuilder, BatchOptions, batches, stamp};
use riparian_types::{
    LeaderEpoch, MonoMillis, Now, Offset, WallMillis,
    machine::{Machine, Waiter},
};

const START_MS: u64 = 1_000_000;
const WALL_AHEAD_MS: i64 = 1_700_000_000_000;

/// A log that both the shard and the target look at.
#[derive(Clone, Default)]
pub(crate) struct MemoryLog(Arc<Mutex<Batches>>);

#[derive(Default)]
struct Batches {
    /// Each with the offset behind it.
    batches: Vec<(Offset, Vec<u8>)>,
    durable_end: Offset,
}

impl MemoryLog {
    /// A log of one batch of these keys and values.
    pub(crate) fn of<'a>(records: impl Iterator<Item = (Option<&'a [u8]>, Option<&'a [u8]>)>) -> Self {
        let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
        records.for_each(|(key, value)| builder.push(WallMillis(0), key, value));
        let mut log = Self::default();
        if builder.record_count() > 0 {
            let Ok(_) = log.append(Now::default(), &builder.build()) else { unreachable!("memory takes everything") };
        }
        log.sync();
        log
    }

    fn state(&self) -> MutexGuard<'_, Batches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes everything durable.
    fn sync(&self) {
        let end = self.end_offset();
        self.state().durable_end = end;
    }

    /// Keys and values of the records from an offset on.
    pub(crate) fn records(&self, from: Offset) -> Vec<KeyValue> {
        let state = self.state();
        let mut found = Vec::new();
        for (_, bytes) in state.batches.iter().filter(|(end, _)| *end > from) {
            let batch = Batch::parse(bytes).expect("the shard builds good batches");
            let records = batch.records().expect("the shard builds good batches");
            for record in records.iter() {
                let record = record.expect("the shard builds good batches");
                found.push((record.key.map(Vec::from), record.value.map(Vec::from)));
            }
        }
        found
    }
}

pub(crate) type KeyValue = (Option<Vec<u8>>, Option<Vec<u8>>);

impl RecordLog for MemoryLog {
    fn append(&mut self, _: Now, batch: &[u8]) -> Result<Offset, LogFailure> {
        let base = self.end_offset();
        let mut bytes = batch.to_vec();
        stamp(&mut bytes, base, LeaderEpoch(0), None);
        let end = batches(&bytes).unverified().flatten().last().map_or(base, |batch| batch.header().next_offset());
        self.state().batches.push((end, bytes));
        Ok(base)
    }

    fn end_offset(&self) -> Offset {
        self.state().batches.last().map_or(Offset::ZERO, |(end, _)| *end)
    }

    fn durable_end(&self) -> Offset {
        self.state().durable_end
    }

    fn start_offset(&self) -> Offset {
        Offset::ZERO
    }

    fn read(&self, from: Offset, _: usize) -> Result<Bytes, LogFailure> {
        let state = self.state();
        let found = state.batches.iter().find(|(end, _)| *end > from);
        Ok(found.map_or_else(Bytes::new, |(_, bytes)| Bytes::from(bytes.clone())))
    }

    fn reopen(&mut self, _: Now) -> Result<(), LogFailure> {
        let mut state = self.state();
        let durable_end = state.durable_end;
        state.batches.retain(|(end, _)| *end <= durable_end);
        Ok(())
    }
}

/// A shard and its clock.
pub(crate) struct Driver<M: Machine, C: RecordCodec<M>> {
    pub(crate) shard: Shard<M, C, MemoryLog>,
    pub(crate) log: MemoryLog,
    pub(crate) now_ms: u64,
    fresh: Box<dyn Fn() -> (M, M::Soft)>,
    waiting: BTreeSet<Waiter>,
    /// Those who wait for an event of their group, and may do so while everything is durable.
    patient: BTreeSet<Waiter>,
    /// Those whose answer nobody hears; it may be on its way.
    unheard: BTreeSet<Waiter>,
    next_waiter: u64,
    /// Makes every append durable at once.
    pub(crate) sync_always: bool,
}

/// What a step led to: answers and effects that were let go by it.
pub(crate) struct Step<M: Machine> {
    pub(crate) answers: Vec<(Waiter, M::Reply)>,
    pub(crate) effects: Vec<M::Effect>,
}

impl<M: Machine<Record: PartialEq + Debug> + PartialEq + Debug + 'static, C: RecordCodec<M>> Driver<M, C> {
    pub(crate) fn new(log: MemoryLog, fresh: impl Fn() -> (M, M::Soft) + Send + Clone + 'static) -> Self {
        Self {
            shard: Shard::new(log.clone(), Box::new(fresh.clone())),
            log,
            now_ms: START_MS,
            fresh: Box::new(fresh),
            waiting: BTreeSet::new(),
            patient: BTreeSet::new(),
            unheard: BTreeSet::new(),
            next_waiter: 0,
            sync_always: true,
        }
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono: MonoMillis(self.now_ms), wall: WallMillis(self.now_ms as i64 + WALL_AHEAD_MS) }
    }

    /// Builds the machine from the log; everyone who waits was turned away before.
    pub(crate) fn load(&mut self) {
        let loaded = self.shard.load(self.now(), true);
        assert!(loaded.is_ok(), "a log in memory can be read: {loaded:?}");
    }

    /// Loses what is not durable.
    pub(crate) fn crash(&mut self) {
        let outcome = self.shard.unload("crash".to_owned());
        outcome.turned_away.iter().for_each(|waiter| self.is_done(*waiter));
        // Who waits for an event of its group is turned away by whoever owns the shard.
        self.waiting.retain(|waiter| !self.patient.contains(waiter));
        self.patient.clear();
        assert!(self.waiting.is_empty(), "nobody answers {:?}", self.waiting);
        self.load();
    }

    /// A command that is answered.
    pub(crate) fn ask(&mut self, make: impl FnOnce(Waiter) -> M::Command) -> (Waiter, Step<M>) {
        let waiter = Waiter(self.next_waiter);
        self.next_waiter += 1;
        self.waiting.insert(waiter);
        let outcome = self.shard.command(self.now(), make(waiter), Some(waiter));
        (waiter, self.took(outcome))
    }

    /// A command whose answer may have to wait for others.
    pub(crate) fn ask_patiently(&mut self, make: impl FnOnce(Waiter) -> M::Command) -> (Waiter, Step<M>) {
        self.patient.insert(Waiter(self.next_waiter));
        self.ask(make)
    }

    /// Those who wait for an event of their group.
    pub(crate) fn patient(&self) -> impl Iterator<Item = Waiter> {
        self.patient.iter().copied()
    }

    /// Nobody is there any more to hear this answer.
    pub(crate) fn gave_up(&mut self, waiter: Waiter) {
        self.patient.remove(&waiter);
        if self.waiting.remove(&waiter) {
            self.unheard.insert(waiter);
        }
    }

    /// What the machine may be able to answer without a decision.
    pub(crate) fn glance<S: Ord + ?Sized, R>(
        &mut self,
        scope: &S,
        look: impl FnOnce(&M, &mut M::Soft) -> Option<R>,
    ) -> Option<R>
    where
        M::Scope: Borrow<S>,
    {
        let answer = self.shard.glance(scope, look);
        answer.unwrap_or_else(|outcome| panic!("unloaded: {:?}", outcome.unloaded))
    }

    /// A command that is not answered.
    pub(crate) fn tell(&mut self, command: M::Command) -> Step<M> {
        let outcome = self.shard.command(self.now(), command, None);
        self.took(outcome)
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, ms: u64) -> Step<M> {
        let end = self.now_ms + ms;
        let mut step = Step { answers: Vec::new(), effects: Vec::new() };
        while let Some(deadline) = self.shard.next_deadline().filter(|deadline| deadline.0 <= end) {
            self.now_ms = self.now_ms.max(deadline.0);
            let outcome = self.shard.on_time(self.now());
            let next = self.took(outcome);
            step.answers.extend(next.answers);
            step.effects.extend(next.effects);
        }
        self.now_ms = end;
        step
    }

    /// Makes everything durable, and answers who waited for it.
    pub(crate) fn sync(&mut self) -> Step<M> {
        self.log.sync();
        let outcome = self.shard.on_durable();
        let step = self.took(outcome);
        let waiting = self.waiting.difference(&self.patient).collect::<Vec<_>>();
        assert!(waiting.is_empty(), "everything is durable, and nobody answers {waiting:?}");
        step
    }

    fn took(&mut self, outcome: Outcome<M>) -> Step<M> {
        assert_eq!(outcome.unloaded, None, "the shard went down");
        assert!(outcome.turned_away.is_empty(), "the shard is loaded, and turns away {:?}", outcome.turned_away);
        outcome.answers.iter().for_each(|(waiter, _)| self.is_done(*waiter));
        let mut step = Step { answers: outcome.answers, effects: outcome.effects };
        if self.sync_always && outcome.appended {
            let next = self.sync();
            step.answers.extend(next.answers);
            step.effects.extend(next.effects);
        }
        step
    }

    fn is_done(&mut self, waiter: Waiter) {
        let is_awaited = self.waiting.remove(&waiter) || self.unheard.remove(&waiter);
        assert!(is_awaited, "{waiter:?} is answered twice");
        self.patient.remove(&waiter);
    }

    /// The live state is that of the log, as it is and, if its records have keys, compacted.
    pub(crate) fn check_replay(&self, is_keyed: bool) {
        assert_eq!(self.shard.replay_equals_live(), Ok(Some(true)), "replay of the whole log");
        if is_keyed {
            let compacted = self.replay(&compacted(self.log.records(Offset::ZERO)));
            assert_eq!(Some(&compacted), self.shard.machine(), "replay of the compacted log");
        }
    }

    fn replay(&self, records: &[KeyValue]) -> M {
        let log = MemoryLog::of(records.iter().map(|(key, value)| (key.as_deref(), value.as_deref())));
        let (mut machine, _) = (self.fresh)();
        for ((key, value), offset) in log.records(Offset::ZERO).iter().zip(0..) {
            let Decoded::Record(record) = C::decode(key.as_deref(), value.as_deref()) else {
                panic!("the machine's own record can't be read")
            };
            let context = riparian_types::machine::RecordContext {
                offset: Offset(offset),
                timestamp: WallMillis(0),
                producer: None,
            };
            assert_eq!(machine.apply(&context, &record), Ok(()), "{record:?} of the compacted log");
        }
        machine
    }
}

/// The last value of each key, without tombstones.
fn compacted(records: Vec<KeyValue>) -> Vec<KeyValue> {
    let mut last = BTreeMap::new();
    for (index, (key, _)) in records.iter().enumerate() {
        last.insert(key.clone(), index);
    }
    let kept: BTreeSet<usize> = last.into_values().collect();
    let kept = records.into_iter().enumerate().filter(|(index, (_, value))| kept.contains(index) && value.is_some());
    kept.map(|(_, record)| record).collect()
}
