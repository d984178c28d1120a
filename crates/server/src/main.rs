//! The `riparian` binary: the server, and tools for any Kafka-compatible server.
//!
//! Standard output carries data, standard error carries talk. An error is one line.

#![forbid(unsafe_code)]
#![expect(dead_code, reason = "connections wait for the broker")]

mod cli;
mod clock;
mod config;
mod groups;
mod logging;
mod net;
mod output;
mod remote;
mod topics;

use std::{io::Write, process::ExitCode};

use clap::Parser;

use crate::cli::{Arguments, Command};

const EXIT_CANNOT_RUN: u8 = 1;
const EXIT_WRONG_CONFIG: u8 = 2;

fn serve(options: &cli::ServeOptions) -> anyhow::Result<()> {
    let config = config::load(options, std::env::vars())?;
    if options.dump_config {
        return output::print(&config::dump::dump(&config));
    }
    anyhow::bail!("there is no broker to serve yet; only --dump-config works")
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(options) => serve(&options),
        Command::Topics { command } => topics::run(command),
        Command::Groups { command } => groups::run(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = if error.is::<config::ConfigErrors>() { EXIT_WRONG_CONFIG } else { EXIT_CANNOT_RUN };
            for line in format!("{error:#}").lines() {
                // Nobody is left to tell if this fails.
                let _ = writeln!(std::io::stderr(), "error: {line}");
            }
            ExitCode::from(code)
        }
    }
}
