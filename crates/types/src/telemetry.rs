//! What is counted: plain numbers that many threads add to and anybody may read.
//!
//! Adding costs one atomic addition and orders nothing; a reader sees each number as it was at some moment, and numbers
//! that belong together perhaps of slightly different moments. Nothing may be decided by them.

use core::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds 1.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds this much.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long things took, in buckets from 10 microseconds to 30 seconds.
#[derive(Debug)]
pub struct Histogram {
    /// One per bound, and one for what is above the last.
    buckets: [Counter; Self::BUCKETS],
    micros: Counter,
}

/// A histogram as it was at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramReading {
    /// How many fell into each bucket: one per bound, and one for what is above the last.
    pub buckets: [u64; Histogram::BUCKETS],
    /// The sum of all, in microseconds.
    pub micros: u64,
}

impl Histogram {
    /// Upper ends of the buckets, in microseconds, each inclusive.
    pub const BOUNDS_MICROS: [u64; 20] = [
        10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
        2_500_000, 5_000_000, 10_000_000, 30_000_000,
    ];
    /// How many buckets there are, with the one without an end.
    pub const BUCKETS: usize = Self::BOUNDS_MICROS.len() + 1;

    /// An empty one.
    pub const fn new() -> Self {
        Self { buckets: [const { Counter::new() }; Self::BUCKETS], micros: Counter::new() }
    }

    /// Notes that something took so long.
    pub fn observe(&self, micros: u64) {
        // Most of what is measured is short.
        let bucket = Self::BOUNDS_MICROS.iter().position(|&bound| micros <= bound);
        self.buckets[bucket.unwrap_or(Self::BUCKETS - 1)].increment();
        self.micros.add(micros);
    }

    /// What it holds now.
    pub fn read(&self) -> HistogramReading {
        HistogramReading { buckets: core::array::from_fn(|at| self.buckets[at].get()), micros: self.micros.get() }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl HistogramReading {
    /// Nothing was measured.
    pub const EMPTY: Self = Self { buckets: [0; Histogram::BUCKETS], micros: 0 };

    /// How many things were measured.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which bucket something of this length falls.
    fn check(micros: u64, bucket: usize) {
        let histogram = Histogram::new();
        histogram.observe(micros);
        let reading = histogram.read();
        assert_eq!(reading.buckets.iter().position(|&count| count == 1), Some(bucket), "{micros} us");
        assert_eq!((reading.count(), reading.micros), (1, micros));
    }

    #[test]
    fn a_length_falls_into_the_first_bucket_that_holds_it() {
        check(0, 0);
        check(10, 0);
        check(11, 1);
        check(30_000_000, 19);
        check(30_000_001, 20);
        check(1 << 60, 20);
    }

    #[test]
    fn bounds_ascend() {
        assert!(Histogram::BOUNDS_MICROS.is_sorted_by(|a, b| a < b));
    }
}
