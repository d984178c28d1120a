//! The `riparian` binary: the server, and tools for any Kafka-compatible server.
//!
//! Standard output carries data, standard error carries talk. An error is one line.

#![forbid(unsafe_code)]

mod cli;
mod clock;
mod config;
mod groups;
mod http;
mod logging;
mod metrics;
mod net;
mod open;
mod output;
mod remote;
mod serve;
mod several;
mod signals;
mod topics;

use std::{io::Write, process::ExitCode};

use clap::Parser;

use crate::cli::{Arguments, Command};

const EXIT_CANNOT_RUN: u8 = 1;
const EXIT_WRONG_CONFIG: u8 = 2;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(options) => serve::run(&options),
        Command::Topics { command } => topics::run(command),
        Command::Groups { command } => groups::run(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = if error.is::<config::ConfigErrors>() { EXIT_WRONG_CONFIG } else { EXIT_CANNOT_RUN };
            for line in output::explain(&error).lines() {
                // Nobody is left to tell if this fails.
                let _ = writeln!(std::io::stderr(), "error: {line}");
            }
            ExitCode::from(code)
        }
    }
}
