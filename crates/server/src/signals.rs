//! The signals that end the server.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Sent to whoever writes beyond the largest size that a file may have (`ulimit -f`), on Linux and the BSDs.
const FILE_TOO_LARGE: i32 = 25;

/// From its making on, none of these signals kills the process by itself.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// The write fails too, which is dealt with like a disk that is full.
    _file_too_large: Signal,
}

impl StopSignals {
    pub(crate) fn register() -> Result<Self> {
        let register = |kind| signal(kind).context("signals cannot be handled");
        Ok(Self {
            terminate: register(SignalKind::terminate())?,
            interrupt: register(SignalKind::interrupt())?,
            _file_too_large: register(SignalKind::from_raw(FILE_TOO_LARGE))?,
        })
    }

    /// Waits for the next one; returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
