//! `leave`: how long the tasks of an instance that leaves stand still, with default settings and real clients.
//!
//! Three instances with two threads each share 24 tasks without state; one leaves, again and again (the Java program
//! `LeaveTimer`).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Benchmark, Plan};
use crate::{
    figures::{median_of, shown},
    report::{Section, Table, say},
    servers::{self, Kind, Running},
};

const ROUNDS: u32 = 7;
const LIMIT: Duration = Duration::from_secs(1800);
const RATIO_MAX: f64 = 0.2;
/// Of one instance.
const TASKS: u64 = 8;

/// Milliseconds from a leave.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Until the last instance that is left was told of its new tasks: the server's share.
    told: u64,
    /// Until the last moved task had its first result.
    output: u64,
}

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let mut section = Section::new(
        plan.command(Benchmark::Leave, ROUNDS),
        &[
            "Three instances of Kafka Streams with two threads each share 24 tasks without state; one leaves, with default settings.",
            "From the call of `close` until the last moved task had its first result, and, as the server's share, until the last instance was told.",
        ],
    );
    let header = ["", "first result, ms", "told, ms", "rounds: first result (told)"];
    let mut table = Table::new("", &header);
    let mut medians = Vec::new();
    for &kind in plan.kinds() {
        let rounds = time(plan, kind)?;
        let output = median_of(&rounds, |round| round.output as f64);
        let all: Vec<String> = rounds.iter().map(|round| format!("{} ({})", round.output, round.told)).collect();
        table.row(vec![
            kind.name().to_owned(),
            shown(output),
            shown(median_of(&rounds, |round| round.told as f64)),
            all.join(", "),
        ]);
        medians.push(output);
    }
    section.table(table);
    if let [ours, kafka] = medians[..] {
        section.target(
            &format!("first result: at most {RATIO_MAX} x Kafka"),
            shown(ours / kafka),
            ours <= kafka * RATIO_MAX,
        );
    }
    Ok(section)
}

fn time(plan: &Plan, kind: Kind) -> Result<Vec<Round>> {
    let server = servers::start(&plan.tools, kind, &[])?;
    let rounds = plan.rounds(ROUNDS);
    let dir = tempfile::Builder::new().prefix("riparian-bench-").tempdir().context("no directory can be made")?;
    let mut command = plan.tools.java("riparian.LeaveTimer", &["-Xmx512m"], "log4j2.properties");
    command.args(["--bootstrap", &server.bootstrap(), "--rounds", &rounds.to_string(), "--state-dir"]);
    command.arg(dir.path().join("states"));
    let said = Running::start(&mut command, &dir.path().join("log"))?.finish("the leave timer", LIMIT)?;
    let found: Vec<Round> = said.lines().filter(|line| line.starts_with("round ")).map(round).collect::<Result<_>>()?;
    ensure!(found.len() == rounds, "the leave timer has told {} of {rounds} rounds:\n{said}", found.len());
    for round in &found {
        say(&format!("{}: first result after {} ms, told after {} ms", kind.name(), round.output, round.told));
    }
    Ok(found)
}

/// `round N: moved M told T ms output O ms`
fn round(line: &str) -> Result<Round> {
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    let (moved, told, output) = (numbers.next(), numbers.next(), numbers.next());
    let (Some(moved), Some(told), Some(output)) = (moved, told, output) else {
        anyhow::bail!("a round of the leave timer is not understood: {line}")
    };
    ensure!(moved == TASKS, "{moved} tasks moved instead of {TASKS}: {line}");
    Ok(Round { told, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_read() {
        let found = round("round 3: moved 8 told 120 ms output 640 ms").unwrap();
        assert_eq!((found.told, found.output), (120, 640));
        assert!(round("round 3: moved 7 told 120 ms output 640 ms").is_err());
        assert!(round("round 3").is_err());
    }
}
