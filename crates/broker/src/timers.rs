//! When something wants to be looked at again: shards with timers, parked fetches.
//!
//! Entries are never moved: whoever is woken without need goes back to sleep. What many clients can make is removed when
//! it is not needed any more.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use riparian_types::MonoMillis;

/// Entries by time, then by the order in which they were added.
pub(crate) struct Timers<T> {
    inner: Mutex<Inner<T>>,
}

/// Which entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerKey((MonoMillis, u64));

struct Inner<T> {
    entries: BTreeMap<(MonoMillis, u64), T>,
    /// How many entries there ever were: it keeps those of one time apart.
    count: u64,
}

impl<T> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { inner: Mutex::new(Inner { entries: BTreeMap::new(), count: 0 }) }
    }

    /// Adds an entry; true if it is now the earliest.
    pub(crate) fn add(&self, at: MonoMillis, entry: T) -> (TimerKey, bool) {
        let mut inner = self.lock();
        let earliest = inner.entries.first_key_value().is_none_or(|((first, _), _)| at < *first);
        let key = (at, inner.count);
        inner.entries.insert(key, entry);
        inner.count += 1;
        (TimerKey(key), earliest)
    }

    /// Forgets an entry, if it is still there.
    pub(crate) fn remove(&self, TimerKey(key): TimerKey) {
        let removed = self.lock().entries.remove(&key);
        // What an entry holds may look at timers when it goes.
        drop(removed);
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.lock().entries.len()
    }

    /// Removes and returns an entry that is due, if there is one.
    pub(crate) fn pop_due(&self, now: MonoMillis) -> Option<T> {
        let mut inner = self.lock();
        let first = inner.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// The time of the earliest entry.
    pub(crate) fn next(&self) -> Option<MonoMillis> {
        self.lock().entries.first_key_value().map(|((at, _), _)| *at)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
