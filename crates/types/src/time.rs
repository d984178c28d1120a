//! Time as an argument.
//!
//! Deadlines are taken on the monotonic clock, what is stored uses the wall clock. Whoever stands at the edge (the
//! server, the simulator) reads both once per event and passes [`Now`] down; nothing below reads a clock.

/// Milliseconds on a clock that never goes back; its zero is arbitrary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoMillis(pub u64);

impl MonoMillis {
    /// This time plus a number of milliseconds, saturating; a negative number counts as 0.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(u64::try_from(ms).unwrap_or(0)))
    }

    /// Milliseconds from `earlier` to this time, 0 if `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z, as Kafka stores timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMillis(pub i64);

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines.
    pub mono: MonoMillis,
    /// For what is written down.
    pub wall: WallMillis,
}
