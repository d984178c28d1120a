//! The signals that end the server.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From its making on, neither signal kills the process by itself.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(crate) fn register() -> Result<Self> {
        let register = |kind| signal(kind).context("signals cannot be handled");
        Ok(Self { terminate: register(SignalKind::terminate())?, interrupt: register(SignalKind::interrupt())? })
    }

    /// Waits for the next one; returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
