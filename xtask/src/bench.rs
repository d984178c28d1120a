//! `bench`: builds what is measured and what measures, and lets `riparian-bench` do the rest.
//!
//! It knows the names of the benchmarks and nothing of what they do; the figures go to `docs/benchmarks.md`.

use anyhow::{Result, bail};
use clap::{Args, builder::PossibleValuesParser};

use crate::shell::{self, Scratch};
use crate::{ci, setup};

/// In the order in which they run.
const NAMES: &[&str] = &["start", "heartbeat", "storm", "groups", "data", "sync", "wordcount", "leave", "assignor"];

#[derive(Args)]
pub(crate) struct Options {
    /// Which benchmarks; all if none is named
    #[arg(value_parser = PossibleValuesParser::new(NAMES))]
    names: Vec<String>,
    /// How often each figure is taken; the median is shown [default: what the benchmark needs]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// A few seconds only, to see that it works; the figures say nothing and are not written down
    #[arg(long)]
    quick: bool,
    /// Only our own server, without Kafka beside it; not written down
    #[arg(long)]
    ours_only: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let java = setup::ensure_java()?;
    let server = ci::build_server()?;
    let bench = ci::build_bench()?;
    let scratch = Scratch::new("riparian-bench")?;
    let mut command = std::process::Command::new(bench);
    command
        .current_dir(shell::root())
        .env("RIPARIAN_BIN", server)
        .env("RIPARIAN_JAVA", java.java)
        .env("RIPARIAN_JARS", java.jars)
        .env("RIPARIAN_CLASSES", java.classes)
        .env("TMPDIR", scratch.path())
        .arg("run")
        .args(&options.names);
    if let Some(rounds) = options.rounds {
        command.args(["--rounds", &rounds.to_string()]);
    }
    for (flag, is_set) in [("--quick", options.quick), ("--ours-only", options.ours_only)] {
        command.args(is_set.then_some(flag));
    }
    command.arg("--page").arg(shell::root().join("docs").join("benchmarks.md"));
    if command.status()?.success() { Ok(()) } else { bail!("a benchmark failed, see above") }
}
