//! How many connections are accepted in a second.

use std::time::Duration;

use riparian_types::MonoMillis;

const SECOND_MS: u64 = 1000;

/// Gives each second its number of turns, early ones at once: clients come in swarms.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: u64,
    second: u64,
    used: u64,
}

impl Rate {
    pub(crate) const fn new(per_second: u64) -> Self {
        Self { per_second, second: 0, used: 0 }
    }

    /// Takes a turn; how long to wait if there is none before the next second.
    pub(crate) fn take(&mut self, now: MonoMillis) -> Result<(), Duration> {
        let second = now.0 / SECOND_MS;
        if second != self.second {
            (self.second, self.used) = (second, 0);
        }
        if self.used < self.per_second {
            self.used += 1;
            return Ok(());
        }
        Err(Duration::from_millis(SECOND_MS - now.0 % SECOND_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_turns() {
        let mut rate = Rate::new(2);
        let mut take = |ms| rate.take(MonoMillis(ms));
        assert_eq!((take(5_300), take(5_300)), (Ok(()), Ok(())));
        assert_eq!(take(5_400), Err(Duration::from_millis(600)));
        assert_eq!(take(6_000), Ok(()));
        assert_eq!(Rate::new(0).take(MonoMillis(7_000)), Err(Duration::from_secs(1)));
    }
}
