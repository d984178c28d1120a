//! Log lines: one per event, on standard error, as text or JSON. Lines that can't be written are lost, and nothing else.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal},
    panic::PanicHookInfo,
};

use anyhow::{Result, anyhow};
use tracing_subscriber::{EnvFilter, fmt::SubscriberBuilder, util::SubscriberInitExt};

use crate::{cli::LogOptions, config::ConfigErrors};

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
        // It would be told on standard error too, and to fail at that is a panic.
        .log_internal_errors(false)
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
}
