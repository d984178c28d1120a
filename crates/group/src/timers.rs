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
    sessions: Sessions,
}

/// How many sessions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions {
    /// Of members of streams groups.
    pub(crate) streams: usize,
    /// Of members of classic groups, and of those that were given an id to join with.
    pub(crate) classic: usize,
}

impl Sessions {
    fn of(&mut self, timer: &Timer) -> Option<&mut usize> {
        match timer {
            Timer::Session(..) => Some(&mut self.streams),
            Timer::ClassicSession(..) => Some(&mut self.classic),
            Timer::ClassicJoin(_)
            | Timer::ClassicSync(_)
            | Timer::InitialDelay(_)
            | Timer::Rebalance(..)
            | Timer::Ghosts(..)
            | Timer::Refresh(_) => None,
        }
    }
}

impl Timers {
    pub(crate) fn next(&self) -> Option<MonoMillis> {
        self.slots.first().map(|&(deadline, _)| deadline)
    }

    /// How many sessions there are.
    pub(crate) const fn sessions(&self) -> Sessions {
        self.sessions
    }

    pub(crate) fn pop_due(&mut self, now: MonoMillis) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        let (_, timer) = self.slots.pop_first()?;
        if let Some(count) = self.sessions.of(&timer) {
            *count -= 1;
        }
        Some(timer)
    }

    pub(crate) fn arm(&mut self, deadline: MonoMillis, timer: Timer) {
        let count = self.sessions.of(&timer);
        if self.slots.insert((deadline, timer))
            && let Some(count) = count
        {
            *count += 1;
        }
    }

    /// How many concern classic groups.
    #[cfg(test)]
    pub(crate) fn classic_count(&self) -> usize {
        let is_classic =
            |timer: &Timer| matches!(timer, Timer::ClassicJoin(_) | Timer::ClassicSession(..) | Timer::ClassicSync(_));
        self.slots.iter().filter(|(_, timer)| is_classic(timer)).count()
    }

    pub(crate) fn disarm(&mut self, deadline: MonoMillis, timer: Timer) {
        let count = self.sessions.of(&timer);
        if self.slots.remove(&(deadline, timer))
            && let Some(count) = count
        {
            *count -= 1;
        }
    }
}
