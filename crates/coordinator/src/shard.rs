//! One machine over one log.
//!
//! ```text
//! command ─> decide ─> append (one batch) ─> apply ─> gate ─> answers, effects
//!                          │ fails
//!                          └─> unload: every waiter is told to come back, then load again from the log
//! ```
//!
//! **Invariants:** `apply` is the only thing that changes hard state, and it only sees records that stand in the log;
//! a decision's records are one batch; soft changes survive only with a successful append.
//!
//! A shard is not synchronised and does not wait: whoever owns it holds a lock around it, syncs its log outside that
//! lock and then calls [`Shard::on_durable`].

use std::{
    borrow::Borrow,
    panic::{AssertUnwindSafe, catch_unwind},
};

use riparian_types::{
    MonoMillis, Now, Offset, WallMillis,
    machine::{Decision, Machine, RecordContext, Waiter},
};

use crate::{
    batch,
    codec::{Decoded, RecordCodec},
    gate::Gate,
    port::{LogFailure, RecordLog},
};

/// How many bytes of log are read at a time while loading.
const LOAD_BYTES: usize = 4 * 1024 * 1024;

/// A machine, its log, and what waits for the log.
pub struct Shard<M: Machine, C: RecordCodec<M>, L: RecordLog> {
    log: L,
    /// Makes the empty machine that a load starts from.
    fresh: Box<dyn Fn() -> (M, M::Soft) + Send>,
    loaded: Option<(M, M::Soft)>,
    gate: Gate<M>,
    codec: std::marker::PhantomData<fn() -> C>,
}

/// What the owner of a shard has to do after a call.
pub struct Outcome<M: Machine> {
    /// Answers that may leave now.
    pub answers: Vec<(Waiter, M::Reply)>,
    /// Waiters that get no answer: the shard was unloaded, they should ask again.
    pub turned_away: Vec<Waiter>,
    /// Effects to carry out now.
    pub effects: Vec<M::Effect>,
    /// Something was appended: sync the log, then call [`Shard::on_durable`].
    pub appended: bool,
    /// The shard was unloaded by this call, for this reason; [`Shard::load`] must follow.
    pub unloaded: Option<String>,
}

impl<M: Machine> Default for Outcome<M> {
    fn default() -> Self {
        Self { answers: Vec::new(), turned_away: Vec::new(), effects: Vec::new(), appended: false, unloaded: None }
    }
}

/// What a load found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Records applied.
    pub records: u64,
    /// Records of unknown kinds, left alone.
    pub unknown: u64,
    /// Scopes given up, as text, with the reason.
    pub quarantined: Vec<(String, String)>,
    /// Damaged records of unknown scope, skipped.
    pub damaged: Vec<String>,
}

impl<M: Machine, C: RecordCodec<M>, L: RecordLog> Shard<M, C, L> {
    /// A shard that is not loaded yet.
    pub fn new(log: L, fresh: Box<dyn Fn() -> (M, M::Soft) + Send>) -> Self {
        Self { log, fresh, loaded: None, gate: Gate::new(), codec: std::marker::PhantomData }
    }

    /// Whether commands are answered.
    pub const fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// The hard state, while loaded. It may be ahead of what is durable.
    pub fn machine(&self) -> Option<&M> {
        self.loaded.as_ref().map(|(machine, _)| machine)
    }

    /// The offset after the last record of the log.
    pub fn end_offset(&self) -> Offset {
        self.log.end_offset()
    }

    /// The offset up to which the log is durable.
    pub fn durable_end(&self) -> Offset {
        self.log.durable_end()
    }

    /// Builds the machine from its log.
    ///
    /// # Errors
    /// The log can't be read now; the shard stays unloaded.
    pub fn load(&mut self, now: Now, reopen: bool) -> Result<LoadReport, LogFailure> {
        if reopen {
            self.log.reopen(now)?;
        }
        let (machine, mut soft, report) = self.replayed()?;
        machine.loaded(&mut soft, now);
        self.gate = Gate::new();
        self.loaded = Some((machine, soft));
        Ok(report)
    }

    /// Whether the live hard state is what the log gives when it is applied again; `None` while not loaded.
    ///
    /// For tests and the simulator: it reads the whole log.
    ///
    /// # Errors
    /// The log can't be read now.
    pub fn replay_equals_live(&self) -> Result<Option<bool>, LogFailure>
    where
        M: PartialEq,
    {
        let Some((live, _)) = &self.loaded else { return Ok(None) };
        let (replayed, _, _) = self.replayed()?;
        Ok(Some(replayed == *live))
    }

    /// A new machine with every record of the log applied.
    fn replayed(&self) -> Result<(M, M::Soft, LoadReport), LogFailure> {
        let (mut machine, soft) = (self.fresh)();
        let mut report = LoadReport::default();
        let mut next = self.log.start_offset();
        while next < self.log.end_offset() {
            let bytes = self.log.read(next, LOAD_BYTES)?;
            let before = next;
            batch::for_each_record(&bytes, |context, key, value| {
                if context.offset >= next {
                    Self::replay(&mut machine, &mut report, &context, key, value);
                    next = Offset(context.offset.0 + 1);
                }
            })
            .map_err(|reason| LogFailure { reason })?;
            next = next.max(batch::end_of(&bytes).unwrap_or(next));
            if next == before {
                return Err(LogFailure { reason: format!("nothing to read at offset {next} before the log's end") });
            }
        }
        Ok((machine, soft, report))
    }

    fn replay(
        machine: &mut M,
        report: &mut LoadReport,
        context: &RecordContext,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        match C::decode(key, value) {
            Decoded::Record(record) => match machine.apply(context, &record) {
                Ok(()) => report.records += 1,
                Err(inconsistent) => {
                    let scope = M::scope_of(&record);
                    report.quarantined.push((format!("{scope:?}"), inconsistent.reason.clone()));
                    machine.quarantine(scope, inconsistent.reason, None);
                }
            },
            Decoded::Unknown { .. } => report.unknown += 1,
            Decoded::DamagedScope { scope, tombstone, reason } => {
                report.quarantined.push((format!("{scope:?}"), reason.clone()));
                machine.quarantine(scope, reason, tombstone.as_ref());
            }
            Decoded::Damaged(reason) => report.damaged.push(format!("offset {}: {reason}", context.offset)),
        }
    }

    /// Hands a command to the machine. `waiters` are those that the command names, to be turned away if the shard is
    /// not loaded or fails over the command.
    pub fn command(&mut self, now: Now, command: M::Command, waiter: Option<Waiter>) -> Outcome<M> {
        self.run(now, waiter, |machine, soft| machine.decide(soft, now, command))
    }

    /// Lets the machine answer at once, without a decision: `look` changes soft state only, and its answer depends on
    /// `scope`. No answer means that a command must be made of the question; so it is while the shard is not loaded, or
    /// while records of the scope are not durable yet.
    ///
    /// # Errors
    /// It panicked, and the shard was unloaded.
    pub fn glance<S: Ord + ?Sized, R>(
        &mut self,
        scope: &S,
        look: impl FnOnce(&M, &mut M::Soft) -> Option<R>,
    ) -> Result<Option<R>, Outcome<M>>
    where
        M::Scope: Borrow<S>,
    {
        let Some((machine, soft)) = &mut self.loaded else { return Ok(None) };
        if self.gate.holds(scope) {
            return Ok(None);
        }
        let answer = catch_unwind(AssertUnwindSafe(|| look(machine, soft)));
        answer.map_err(|panic| self.unload(format!("panic: {}", panic_text(&*panic))))
    }

    /// Handles the timers that are due.
    pub fn on_time(&mut self, now: Now) -> Outcome<M> {
        let mut total = Outcome::default();
        while self.next_deadline().is_some_and(|deadline| deadline <= now.mono) {
            let one = self.run(now, None, |machine, soft| machine.on_deadline(soft, now));
            total.answers.extend(one.answers);
            total.turned_away.extend(one.turned_away);
            total.effects.extend(one.effects);
            total.appended |= one.appended;
            total.unloaded = total.unloaded.or(one.unloaded);
        }
        total
    }

    /// When [`Shard::on_time`] wants to be called; `None` for never.
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        self.loaded.as_ref().and_then(|(machine, soft)| machine.next_deadline(soft))
    }

    /// The log has become durable up to some offset.
    pub fn on_durable(&mut self) -> Outcome<M> {
        let released = self.gate.release(self.log.durable_end());
        Outcome { answers: released.answers, effects: released.effects, ..Outcome::default() }
    }

    /// Gives up the machine, for example because a sync of its log failed; [`Shard::load`] must follow.
    pub fn unload(&mut self, reason: String) -> Outcome<M> {
        self.loaded = None;
        Outcome { turned_away: self.gate.abandon(), unloaded: Some(reason), ..Outcome::default() }
    }

    fn run(
        &mut self,
        now: Now,
        waiter: Option<Waiter>,
        decide: impl FnOnce(&M, &mut M::Soft) -> Decision<M>,
    ) -> Outcome<M> {
        let Some((machine, soft)) = &mut self.loaded else {
            return Outcome { turned_away: waiter.into_iter().collect(), ..Outcome::default() };
        };
        let log = &mut self.log;
        let gate = &mut self.gate;
        // A panic is our fault and may leave the machine in any state: it is dropped and built again from its log.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let decision = decide(machine, soft);
            Self::carry_out(machine, log, gate, now, decision)
        }));
        let (reason, waiters) = match result {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err((failure, waiters))) => (failure.reason, waiters),
            Err(panic) => (format!("panic: {}", panic_text(&*panic)), Vec::new()),
        };
        let mut outcome = self.unload(reason);
        outcome.turned_away.extend(waiters);
        if let Some(waiter) = waiter
            && !outcome.turned_away.contains(&waiter)
        {
            outcome.turned_away.push(waiter);
        }
        outcome
    }

    fn carry_out(
        machine: &mut M,
        log: &mut L,
        gate: &mut Gate<M>,
        now: Now,
        decision: Decision<M>,
    ) -> Result<Outcome<M>, (LogFailure, Vec<Waiter>)> {
        let mut outcome = Outcome::default();
        if !decision.records.is_empty() {
            let bytes = batch::build(now.wall, decision.records.iter().map(C::encode));
            let base = log.append(now, &bytes).map_err(|failure| {
                (failure, decision.replies.iter().map(|answer| answer.waiter).collect::<Vec<_>>())
            })?;
            Self::apply_all(machine, base, now.wall, &decision.records);
            gate.appended(decision.records.iter().map(M::scope_of), log.end_offset());
            outcome.appended = true;
        }
        for answer in decision.replies {
            outcome.answers.extend(gate.admit(answer));
        }
        if !decision.effects.is_empty() {
            if outcome.appended {
                gate.hold_effects(log.end_offset(), decision.effects);
            } else {
                outcome.effects = decision.effects;
            }
        }
        if outcome.appended {
            // With a log that needs no sync everything may leave at once.
            let released = gate.release(log.durable_end());
            outcome.answers.extend(released.answers);
            outcome.effects.extend(released.effects);
        }
        Ok(outcome)
    }

    fn apply_all(machine: &mut M, base: Offset, timestamp: WallMillis, records: &[M::Record]) {
        for (index, record) in records.iter().enumerate() {
            let context = RecordContext { offset: Offset(base.0 + index as i64), timestamp, producer: None };
            if let Err(inconsistent) = machine.apply(&context, record) {
                panic!("a machine contradicts its own record: {}", inconsistent.reason);
            }
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".to_owned())
}
