//! Latencies by share.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies in nanoseconds, from 1 us to a minute, three digits.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("the bounds are in order"))
    }

    /// Adds one.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Below this lie so many of a hundred.
    pub fn at(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_told_by_share() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|ms: u64| latencies.record(ms * 1_000_000));
        let p99 = latencies.at(99.0);
        assert!((989..=991).contains(&p99.as_millis()), "{p99:?}");
    }
}
