//! `cargo xtask <word>`: everything one does with this repository besides editing it.
//!
//! Each word is a module of its own; this file only picks one and prints what went wrong.
//! Standard output carries results, standard error carries talk.

mod bench;
mod ci;
mod codegen;
mod demo;
mod fuzz;
mod schemas;
mod setup;
mod shell;
mod signals;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Riparian's chores. Start with `cargo xtask demo` to see it run, `cargo xtask test` to check it.",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    word: Option<Word>,
}

#[derive(Subcommand)]
enum Word {
    /// Watch a word count run on Riparian: two instances, one is killed, its tasks move (about a minute)
    Demo(demo::Options),
    /// Find or install what the tests and the demo need (JDK, Maven, Kafka's jars, Python client, kcat, valgrind)
    Setup(setup::Options),
    /// Write the code and documentation that come from schemas/
    Codegen(codegen::Options),
    /// Compare schemas/ with the definitions inside Apache Kafka's jars
    Schemas(schemas::Options),
    /// Check the rules of the house: crate arrows, dependencies, module headers, file sizes
    Tidy,
    /// Run every suite; the last line on standard output is `N passed, N failed`
    Test(ci::Options),
    /// Look for inputs that break a promise: decoders, batches, log recovery, state machines (docs/TESTING.md)
    Fuzz(fuzz::Options),
    /// Run something much longer than the tests do
    Soak(SoakOptions),
    /// Measure the server, beside Apache Kafka and an echo server in the same run; figures go to docs/benchmarks.md
    Bench(bench::Options),
    /// What the pipeline runs: all that `test` runs, or the quick part of it
    Ci(ci::CiOptions),
}

#[derive(Args)]
struct SoakOptions {
    #[command(subcommand)]
    what: Soak,
}

#[derive(Subcommand)]
enum Soak {
    /// Seeds of the simulator; what it prints is shown as it comes
    Sim {
        /// How many seeds, from 1 on
        #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..1 << 62))]
        seeds: u64,
    },
    /// The word count on every release of Kafka Streams and both group protocols, again and again
    Clients {
        /// How often
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
    /// Kafka's own published tests against our binary (tests/peer)
    Peer {
        /// Which classes, by name or its end; `fast` for the fast ones of all, all if none is named
        classes: Vec<String>,
    },
    /// Hostile clients of every kind beside fifty well-behaved groups; a line each half minute, figures at the end
    Swarm {
        /// How long the hostile are there
        #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u64).range(120..))]
        seconds: u64,
    },
    /// Every fuzz target for an hour; a table at the end
    Fuzz {
        /// Which targets, by name; all if none is named
        targets: Vec<String>,
        /// How long each target runs
        #[arg(long, default_value_t = 3600, value_parser = fuzz::at_least_one())]
        seconds: u64,
        /// How many targets run at a time
        #[arg(long, default_value_t = 1, value_parser = fuzz::jobs())]
        jobs: u64,
    },
}

fn soak(options: &SoakOptions) -> Result<()> {
    match &options.what {
        Soak::Clients { runs } => ci::soak("client_versions", *runs, &[]),
        Soak::Peer { classes } => {
            let which = if classes.is_empty() { "all".to_owned() } else { classes.join(" ") };
            ci::soak("peer", 1, &[("RIPARIAN_PEER", &which)])
        }
        Soak::Sim { seeds } => soak_simulator(*seeds),
        Soak::Swarm { seconds } => ci::soak_aloud("swarm", &[("RIPARIAN_SWARM_SECONDS", &seconds.to_string())]),
        Soak::Fuzz { targets, seconds, jobs } => fuzz::soak(targets, *seconds, *jobs),
    }
}

fn soak_simulator(seeds: u64) -> Result<()> {
    let seeds = format!("1..{}", seeds + 1);
    let arguments = ["run", "--quiet", "--profile", "sim", "--package", "riparian-sim", "--", "run", "--seeds", &seeds];
    if shell::cargo().args(arguments).status()?.success() { Ok(()) } else { bail!("a seed failed, see above") }
}

fn main() -> ExitCode {
    let Some(word) = Arguments::parse().word else {
        // Asking for nothing is a question, not a mistake.
        let mut command = Arguments::command();
        shell::print_line(&command.render_help().to_string());
        return ExitCode::SUCCESS;
    };
    if let Err(error) = signals::end_all_when_told() {
        return report(Err(error));
    }
    let result = match word {
        Word::Demo(options) => demo::run(&options),
        Word::Setup(options) => setup::run(&options),
        Word::Codegen(options) => codegen::run(&options),
        Word::Schemas(options) => schemas::run(&options),
        Word::Tidy => tidy::run(),
        Word::Test(options) => ci::test(&options),
        Word::Fuzz(options) => fuzz::fuzz(&options),
        Word::Soak(options) => soak(&options),
        Word::Bench(options) => bench::run(&options),
        Word::Ci(options) => ci::ci(&options),
    };
    report(result)
}

fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            shell::talk(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
