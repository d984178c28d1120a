//! Log lines: one per event, on standard error, as text or JSON.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal},
    panic::PanicHookInfo,
    sync::{Mutex, PoisonError},
};

use anyhow::{Result, anyhow};
use riparian_types::MonoMillis;
use tracing_subscriber::{EnvFilter, fmt::SubscriberBuilder, util::SubscriberInitExt};

use crate::{cli::LogOptions, clock::Clock, config::ConfigErrors};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Turns logging on.
pub(crate) fn start(options: &LogOptions) -> Result<()> {
    let filter = options.log.clone().or_else(|| std::env::var(EnvFilter::DEFAULT_ENV).ok());
    let filter = filter.as_deref().filter(|filter| !filter.trim().is_empty()).unwrap_or("info");
    let filter = parse_filter(filter).map_err(|reason| {
        ConfigErrors(vec![format!(
            "--log (or RUST_LOG) {filter:?}: {reason}; allowed: {}, or directives like info,riparian_log=debug",
            LEVELS.join(", ")
        )])
    })?;
    let builder = SubscriberBuilder::default()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal());
    match options.log_format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .map_err(|error| anyhow!("logging cannot be started: {error}"))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// A word alone is a level: as a directive it would mean the module of that name, and a misspelt level no log at all.
fn parse_filter(filter: &str) -> Result<EnvFilter, String> {
    if !filter.contains(['=', ',']) && !LEVELS.iter().any(|level| filter.trim().eq_ignore_ascii_case(level)) {
        return Err("no such level".to_owned());
    }
    EnvFilter::try_new(filter).map_err(|error| error.to_string())
}

/// A panic is an event like any other: one line, with a backtrace only when one is asked for.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("no message");
    let location = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => tracing::error!(location, %backtrace, "panic: {message}"),
        _ => tracing::error!(location, "panic: {message}"),
    }
}

/// At most so many lines per period, for lines that a peer can cause; the next period's first line says how many are missing.
#[derive(Debug)]
pub(crate) struct RateLimit {
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
    pub(crate) const fn new(lines_max: u32, period_ms: u64) -> Self {
        Self { lines_max, period_ms, state: Mutex::new(Period { end: MonoMillis(0), lines: 0, suppressed: 0 }) }
    }

    /// Runs `log` if a line is allowed, with the number of lines that were left out before it (`None`: not one).
    pub(crate) fn run(&self, clock: &Clock, log: impl FnOnce(Option<u64>)) {
        if let Some(suppressed) = self.allow(clock.now().mono) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused() {
        for filter in ["info", "WARN", "info,riparian_log=debug", "riparian_broker=trace"] {
            assert!(parse_filter(filter).is_ok(), "{filter}");
        }
        for filter in ["debgu", "riparian=loud", "2"] {
            assert!(parse_filter(filter).is_err(), "{filter}");
        }
    }

    #[test]
    fn lines_beyond_the_limit_are_counted_and_told_later() {
        let limit = RateLimit::new(2, 100);
        let at = |ms| limit.allow(MonoMillis(ms));
        assert_eq!([at(0), at(1), at(2), at(99)], [Some(0), Some(0), None, None]);
        assert_eq!([at(100), at(101), at(102)], [Some(2), Some(0), None]);
        assert_eq!([at(500), at(501)], [Some(1), Some(0)]);
    }
}
