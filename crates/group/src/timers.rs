//! The timers of the machine, ordered by when they are due.
//!
//! A timer has one slot. The session timer's is not moved at each heartbeat: the member's deadline moves, and when the
//! slot comes up it is looked at again. Where a slot stands is written down by whoever owns the timer, so that it can be
//! taken out without a search.

use alloc::collections::BTreeSet;

use riparian_types::{GroupId, MemberId, MonoMillis, ProcessId};

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A classic group stops waiting for members that have not joined.
    ClassicJoin(GroupId),
    /// A member of a classic group, or one that was only given its id, is removed because it was not heard of.
    ClassicSession(GroupId, MemberId),
    /// Members of a classic group that have not asked for their assignment are removed.
    ClassicSync(GroupId),
    /// The target of a group that was empty is computed.
    InitialDelay(GroupId),
    /// A member that has not given back its tasks is fenced.
    Rebalance(GroupId, MemberId),
    /// A member that was not heard of is fenced.
    Session(GroupId, MemberId),
    /// A process is back whose old members may be left over.
    Ghosts(GroupId, ProcessId),
    /// What the target follows from has changed, or an assignment interval is over.
    Refresh(GroupId),
}

/// All timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    slots: BTreeSet<(MonoMillis, Timer)>,
    sessions: usize,
}

impl Timers {
    pub(crate) fn next(&self) -> Option<MonoMillis> {
        self.slots.first().map(|&(deadline, _)| deadline)
    }

    /// How many sessions there are.
    pub(crate) const fn sessions(&self) -> usize {
        self.sessions
    }

    pub(crate) fn pop_due(&mut self, now: MonoMillis) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        let (_, timer) = self.slots.pop_first()?;
        self.sessions -= usize::from(timer.is_session());
        Some(timer)
    }

    pub(crate) fn arm(&mut self, deadline: MonoMillis, timer: Timer) {
        let is_session = timer.is_session();
        let is_new = self.slots.insert((deadline, timer));
        self.sessions += usize::from(is_session && is_new);
    }

    /// How many concern classic groups.
    #[cfg(test)]
    pub(crate) fn classic_count(&self) -> usize {
        let is_classic =
            |timer: &Timer| matches!(timer, Timer::ClassicJoin(_) | Timer::ClassicSession(..) | Timer::ClassicSync(_));
        self.slots.iter().filter(|(_, timer)| is_classic(timer)).count()
    }

    pub(crate) fn disarm(&mut self, deadline: MonoMillis, timer: Timer) {
        let is_session = timer.is_session();
        let was_there = self.slots.remove(&(deadline, timer));
        self.sessions -= usize::from(is_session && was_there);
    }
}

impl Timer {
    const fn is_session(&self) -> bool {
        matches!(self, Self::Session(..))
    }
}
