//! Holds back answers and effects until what they rest on is durable.
//!
//! **Invariant:** an answer that depends on a scope leaves no earlier than the last record appended for that scope
//! before the answer was made is durable; it never waits for records of another scope.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, VecDeque},
};

use riparian_types::{
    Offset,
    machine::{Answer, Machine, Waiter},
    planted::{self, Bug},
};

/// Answers and effects of one shard that wait for the log.
pub(crate) struct Gate<M: Machine> {
    /// The end of the last append per scope, for scopes with records that are not durable yet.
    scope_ends: BTreeMap<M::Scope, Offset>,
    /// The same in log order, to forget them as they become durable. A scope appears once per append.
    order: VecDeque<(Offset, M::Scope)>,
    /// By the offset waited for, then by age.
    answers: BTreeMap<(Offset, u64), (Waiter, M::Reply)>,
    effects: VecDeque<(Offset, Vec<M::Effect>)>,
    next_age: u64,
}

/// What the gate lets go.
pub(crate) struct Released<M: Machine> {
    pub(crate) answers: Vec<(Waiter, M::Reply)>,
    pub(crate) effects: Vec<M::Effect>,
}

impl<M: Machine> Gate<M> {
    pub(crate) fn new() -> Self {
        Self {
            scope_ends: BTreeMap::new(),
            order: VecDeque::new(),
            answers: BTreeMap::new(),
            effects: VecDeque::new(),
            next_age: 0,
        }
    }

    /// Notes that records of these scopes were appended and end at `end`.
    pub(crate) fn appended(&mut self, scopes: impl Iterator<Item = M::Scope>, end: Offset) {
        for scope in scopes {
            if self.scope_ends.insert(scope.clone(), end) != Some(end) {
                self.order.push_back((end, scope));
            }
        }
    }

    /// Whether an answer that depends on this scope would have to wait.
    pub(crate) fn holds<S: Ord + ?Sized>(&self, scope: &S) -> bool
    where
        M::Scope: Borrow<S>,
    {
        self.scope_ends.contains_key(scope)
    }

    /// Returns the answer if it may leave at once, keeps it otherwise.
    pub(crate) fn admit(&mut self, answer: Answer<M>) -> Option<(Waiter, M::Reply)> {
        match answer.scope.as_ref().and_then(|scope| self.scope_ends.get(scope)) {
            None => Some((answer.waiter, answer.reply)),
            Some(_) if planted::is_in(Bug::GateOpen) => Some((answer.waiter, answer.reply)),
            Some(&end) => {
                self.answers.insert((end, self.next_age), (answer.waiter, answer.reply));
                self.next_age += 1;
                None
            }
        }
    }

    /// Keeps effects until `end` is durable.
    pub(crate) fn hold_effects(&mut self, end: Offset, effects: Vec<M::Effect>) {
        self.effects.push_back((end, effects));
    }

    /// Everything that waited for offsets up to `durable_end`, in order.
    pub(crate) fn release(&mut self, durable_end: Offset) -> Released<M> {
        while let Some((end, _)) = self.order.front()
            && *end <= durable_end
        {
            let (end, scope) = self.order.pop_front().expect("front was seen");
            if self.scope_ends.get(&scope) == Some(&end) {
                self.scope_ends.remove(&scope);
            }
        }
        let mut answers = Vec::new();
        while let Some(entry) = self.answers.first_entry()
            && entry.key().0 <= durable_end
        {
            answers.push(entry.remove());
        }
        let mut effects = Vec::new();
        while let Some((end, _)) = self.effects.front()
            && *end <= durable_end
        {
            effects.extend(self.effects.pop_front().expect("front was seen").1);
        }
        Released { answers, effects }
    }

    /// Gives up: the waiters of all answers that will never leave.
    pub(crate) fn abandon(&mut self) -> Vec<Waiter> {
        let waiters = self.answers.values().map(|(waiter, _)| *waiter).collect();
        *self = Self::new();
        waiters
    }
}
