//! The timers of the machine, ordered by when they are due.
//!
//! A timer has one slot. The session timer's is not moved at each heartbeat: the member's deadline moves, and when the
//! slot comes up it is looked at again. Where a slot stands is written down by whoever owns the timer, so that it can be
//! taken out without a search.

use alloc::collections::BTreeSet;

use riparian_types::{GroupId, MemberId, MonoMillis};

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The target of a group that was empty is computed.
    InitialDelay(GroupId),
    /// A member that has not given back its tasks is fenced.
    Rebalance(GroupId, MemberId),
    /// A member that was not heard of is fenced.
    Session(GroupId, MemberId),
}

/// All timers.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(MonoMillis, Timer)>);

impl Timers {
    pub(crate) fn next(&self) -> Option<MonoMillis> {
        self.0.first().map(|&(deadline, _)| deadline)
    }

    pub(crate) fn pop_due(&mut self, now: MonoMillis) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }

    pub(crate) fn arm(&mut self, deadline: MonoMillis, timer: Timer) {
        self.0.insert((deadline, timer));
    }

    pub(crate) fn disarm(&mut self, deadline: MonoMillis, timer: Timer) {
        self.0.remove(&(deadline, timer));
    }
}
