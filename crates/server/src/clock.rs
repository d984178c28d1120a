//! The only place that reads the clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use riparian_types::{MonoMillis, Now, WallMillis};

/// Both clocks; the monotonic one counts from the start of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono: self.mono(), wall: WallMillis(millis(wall).cast_signed()) }
    }

    /// The monotonic one alone.
    pub(crate) fn mono(&self) -> MonoMillis {
        MonoMillis(millis(self.start.elapsed()))
    }

    /// Microseconds since the start of the process.
    pub(crate) fn micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The instant of a monotonic time, for sleeping; a time further away than the clock can tell is a year from now.
    pub(crate) fn instant(&self, at: MonoMillis) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.start.checked_add(Duration::from_millis(at.0)).unwrap_or_else(|| Instant::now() + YEAR)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
