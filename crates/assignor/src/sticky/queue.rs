//! A priority queue for entries that mostly come back in the order they left.
//!
//! Tasks are dealt out in rounds: the least loaded process takes one and is then as loaded as the most loaded. Such an
//! entry goes to the end of a sorted run in constant time; only what fits at neither end goes to a heap.

use alloc::{
    collections::{BinaryHeap, VecDeque},
    vec::Vec,
};
use core::cmp::Reverse;

/// A queue that gives the least entry first.
pub(super) struct Queue<T> {
    /// Ascending.
    run: VecDeque<T>,
    heap: BinaryHeap<Reverse<T>>,
}

impl<T: Ord + Copy> Queue<T> {
    pub(super) fn new(mut entries: Vec<T>) -> Self {
        entries.sort_unstable();
        Self { run: entries.into(), heap: BinaryHeap::new() }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        match (self.run.front(), self.heap.peek()) {
            (Some(front), Some(Reverse(top))) if top < front => self.heap.pop().map(|Reverse(entry)| entry),
            (None, _) => self.heap.pop().map(|Reverse(entry)| entry),
            (Some(_), _) => self.run.pop_front(),
        }
    }

    pub(super) fn push(&mut self, entry: T) {
        if self.run.back().is_none_or(|&back| back <= entry) {
            self.run.push_back(entry);
        } else if self.run.front().is_none_or(|&front| entry <= front) {
            self.run.push_front(entry);
        } else {
            self.heap.push(Reverse(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec};

    use riparian_types::Prng;

    use super::Queue;

    #[test]
    fn gives_the_least_whatever_comes_in() {
        let mut prng = Prng::new(1);
        let mut expected = BTreeSet::new();
        let mut queue = Queue::new(vec![]);
        for unique in 0..5000 {
            if prng.chance(3) {
                assert_eq!(queue.pop(), expected.pop_first());
            } else {
                let entry = (prng.below(50), unique);
                queue.push(entry);
                expected.insert(entry);
            }
        }
        while let Some(entry) = expected.pop_first() {
            assert_eq!(queue.pop(), Some(entry));
        }
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn rounds_need_no_heap() {
        let mut queue = Queue::new((0..10).map(|index| (0, index)).collect());
        for turn in 0..100 {
            let (round, index) = queue.pop().unwrap();
            assert_eq!((round, index), (turn / 10, turn % 10));
            queue.push((round + 1, index));
        }
        assert!(queue.heap.is_empty());
    }
}
