//! How many log lines there may be of what peers cause.
//!
//! A disk that is full fails every request that writes, and its log is often on the same disk.

use std::sync::{Mutex, PoisonError};

use riparian_types::MonoMillis;

/// At most so many lines per period, for lines that a peer can cause; the next period's first line says how many are missing.
#[derive(Debug)]
pub struct RateLimit {
    lines_max: u32,
    period_ms: u64,
    state: Mutex<Period>,
}

#[derive(Debug)]
struct Period {
    end: MonoMillis,
    lines: u32,
    suppressed: u64,
}

impl RateLimit {
    /// What may be told of what peers cause.
    pub const fn of_peers() -> Self {
        Self::new(20, 10_000)
    }

    /// So many lines, in so many milliseconds.
    pub const fn new(lines_max: u32, period_ms: u64) -> Self {
        Self { lines_max, period_ms, state: Mutex::new(Period { end: MonoMillis(0), lines: 0, suppressed: 0 }) }
    }

    /// Runs `log` if a line is allowed, with the number of lines that were left out before it (`None`: not one).
    pub fn run(&self, now: MonoMillis, log: impl FnOnce(Option<u64>)) {
        if let Some(suppressed) = self.allow(now) {
            log((suppressed > 0).then_some(suppressed));
        }
    }

    fn allow(&self, now: MonoMillis) -> Option<u64> {
        let mut period = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= period.end {
            period.end = MonoMillis(now.0.saturating_add(self.period_ms));
            period.lines = 0;
        }
        if period.lines == self.lines_max {
            period.suppressed += 1;
            return None;
        }
        period.lines += 1;
        Some(std::mem::take(&mut period.suppressed))
    }
}

/// The lines of a broker that peers cause; what happens often of one kind hides nothing of the other.
#[derive(Debug)]
pub(crate) struct PeerLines {
    /// Logs that can't be written to or read.
    pub(crate) failures: RateLimit,
    /// Topics that come and go.
    pub(crate) topics: RateLimit,
}

impl PeerLines {
    pub(crate) const fn new() -> Self {
        Self { failures: RateLimit::of_peers(), topics: RateLimit::of_peers() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_and_told_later() {
        let limit = RateLimit::new(2, 100);
        let at = |ms| limit.allow(MonoMillis(ms));
        assert_eq!([at(0), at(1), at(2), at(99)], [Some(0), Some(0), None, None]);
        assert_eq!([at(100), at(101), at(102)], [Some(2), Some(0), None]);
        assert_eq!([at(500), at(501)], [Some(1), Some(0)]);
    }
}
