//! `riparian-bench`: measures the built server, a broker of Apache Kafka and a bare echo server under one load.
//!
//! Owns the command line. A benchmark is a module of `programs`: a function from the tools to a section of
//! `docs/benchmarks.md`. `load` makes the load and checks the answers, `servers` starts and ends what is measured,
//! `process` reads what a process has used, `report` shows it.
//!
//! **Invariant:** the three are measured one after the other in one run; what was started is ended by its process id;
//! a figure of a server that broke a promise is not shown as if it had kept it.
//!
//! It needs Linux: it reads `/proc` and waits by epoll.

#![forbid(unsafe_code)]

mod admin;
mod echo;
mod figures;
mod load;
mod process;
mod programs;
mod records;
mod report;
mod servers;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::{
    programs::{Benchmark, Plan},
    report::Page,
    servers::Tools,
};

#[derive(Parser)]
#[command(name = "riparian-bench", about = "Measures Riparian beside Apache Kafka; started by `cargo xtask bench`.")]
struct Arguments {
    #[command(subcommand)]
    word: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Run benchmarks
    Run(RunOptions),
    /// Answer every frame with a fixed number of bytes; the first line on standard output is the port
    Echo {
        #[arg(long, value_enum)]
        variant: echo::Variant,
        /// Bytes of an answer, with its size
        #[arg(long)]
        answer_bytes: usize,
    },
}

#[derive(Args)]
struct RunOptions {
    /// Which benchmarks; all if none is named
    #[arg(value_enum)]
    benchmarks: Vec<Benchmark>,
    /// How often each figure is taken; the median is shown [default: what the benchmark needs]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// A few seconds only: shows that the benchmark works, and nothing about the server
    #[arg(long)]
    quick: bool,
    /// Only our own server, without Kafka beside it; not written down
    #[arg(long)]
    ours_only: bool,
    /// The page that keeps the figures; not written by quick runs
    #[arg(long)]
    page: Option<PathBuf>,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().word {
        Word::Run(options) => run(&options),
        Word::Echo { variant, answer_bytes } => echo::serve(variant, answer_bytes),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &RunOptions) -> Result<()> {
    let tools = Tools::from_environment()?;
    process::prepare()?;
    let chosen = if options.benchmarks.is_empty() { Benchmark::ALL.to_vec() } else { options.benchmarks.clone() };
    let plan = Plan { tools, rounds: options.rounds, quick: options.quick, ours_only: options.ours_only };
    let mut missed = 0;
    for benchmark in chosen {
        report::say(&format!("== {} ==", benchmark.name()));
        let mut section = benchmark.run(&plan).with_context(|| format!("benchmark {}", benchmark.name()))?;
        if options.quick {
            // A few seconds say nothing about the server.
            section.forget_targets();
        }
        report::print(&section.to_markdown());
        missed += section.missed();
        if let Some(page) = options.page.as_ref().filter(|_| !options.quick && !options.ours_only) {
            Page::at(page).renew(benchmark.name(), &section)?;
            report::say(&format!("written to {}", page.display()));
        }
    }
    if missed > 0 {
        bail!("{missed} target(s) missed, see above");
    }
    Ok(())
}
