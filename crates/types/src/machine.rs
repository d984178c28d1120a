//! The shape that every state machine of the server has.
//!
//! A machine is *hard* state, changed only by [`Machine::apply`] with a record that stands in the log, live and at
//! replay alike; and *soft* state, changed by [`Machine::decide`] and lost with the process. It takes commands and gives
//! decisions. It knows no wire format, no error code, no log and no clock.
//!
//! **Invariant:** hard state rebuilt by applying the log equals the live hard state.

use alloc::{string::String, vec::Vec};

use crate::{MonoMillis, Now, Offset, ProducerEpoch, ProducerId, WallMillis};

/// Where a reply goes: a token that whoever sent the command understands. None is used twice while a machine is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter(pub u64);

/// What the log knows of a record besides its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordContext {
    /// The record's position in the log.
    pub offset: Offset,
    /// When it was written, by the writer's wall clock.
    pub timestamp: WallMillis,
    /// The idempotent producer of the batch; `None` for what the machine wrote itself.
    pub producer: Option<(ProducerId, ProducerEpoch)>,
}

/// A state machine; `Self` is its hard state.
pub trait Machine: Sized {
    /// State that `decide` may change and that a restart loses: sessions, timers, caches.
    type Soft;
    /// What may be asked of the machine.
    type Command;
    /// A change of hard state, as it stands in the log.
    type Record: Clone;
    /// An answer to a command.
    type Reply;
    /// Something to be done elsewhere; its outcome comes back as a command.
    type Effect;
    /// The part of the state that a record belongs to and a reply may depend on, for example one group.
    ///
    /// Replies of one scope never wait for another scope's writes, and damage in one scope stays there.
    type Scope: Clone + Ord + core::fmt::Debug;

    /// Answers a command. Changes soft state only; what hard state shall become is in the decision's records.
    ///
    /// A command that waits for an event gets its answer in a later decision: the machine keeps the waiter in soft state,
    /// and sees to it that one comes (an event, a timer). When the machine is unloaded, its owner turns away whoever is
    /// still waiting.
    fn decide(&self, soft: &mut Self::Soft, now: Now, command: Self::Command) -> Decision<Self>;

    /// Applies a record that stands in the log. Reads no clock and no randomness.
    ///
    /// # Errors
    /// The record contradicts the state (only possible when the log was not written by this machine, or is damaged);
    /// the state of the record's scope is then undefined and [`Machine::quarantine`] must follow.
    fn apply(&mut self, context: &RecordContext, record: &Self::Record) -> Result<(), Inconsistent>;

    /// The scope that a record belongs to.
    fn scope_of(record: &Self::Record) -> Self::Scope;

    /// Gives up one scope: its state is dropped, and commands to it are refused until its records are deleted.
    ///
    /// A record that is damaged itself comes as its tombstone, so that the machine knows what to delete.
    fn quarantine(&mut self, scope: Self::Scope, reason: String, tombstone: Option<&Self::Record>);

    /// Called once after the last record of the log was applied: arms the timers that hard state asks for.
    fn loaded(&self, soft: &mut Self::Soft, now: Now);

    /// When [`Machine::on_deadline`] wants to be called next. May be early, never late.
    fn next_deadline(&self, soft: &Self::Soft) -> Option<MonoMillis>;

    /// Handles at most one timer that is due. To be called again until [`Machine::next_deadline`] lies in the future.
    fn on_deadline(&self, soft: &mut Self::Soft, now: Now) -> Decision<Self>;
}

/// What follows from a command or a timer.
pub struct Decision<M: Machine> {
    /// Records to be appended as one batch, then applied in this order.
    pub records: Vec<M::Record>,
    /// Answers, to be released as their scope demands: to the command decided on, and to commands that waited for it.
    pub replies: Vec<Answer<M>>,
    /// To be carried out once the records stand in the log.
    pub effects: Vec<M::Effect>,
}

/// One answer of a decision.
pub struct Answer<M: Machine> {
    /// To whom.
    pub waiter: Waiter,
    /// The scope whose last appended record must be durable before the answer leaves; `None`: it may leave at once.
    pub scope: Option<M::Scope>,
    /// The answer.
    pub reply: M::Reply,
}

impl<M: Machine> Decision<M> {
    /// Nothing follows.
    pub const fn nothing() -> Self {
        Self { records: Vec::new(), replies: Vec::new(), effects: Vec::new() }
    }

    /// Only an answer follows.
    pub fn reply(waiter: Waiter, scope: Option<M::Scope>, reply: M::Reply) -> Self {
        let mut decision = Self::nothing();
        decision.replies.push(Answer { waiter, scope, reply });
        decision
    }
}

impl<M: Machine> Default for Decision<M> {
    fn default() -> Self {
        Self::nothing()
    }
}

/// A record contradicts the state it is applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistent {
    /// What contradicts what.
    pub reason: String,
}

impl core::fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl core::error::Error for Inconsistent {}
