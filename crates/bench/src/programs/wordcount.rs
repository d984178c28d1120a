//! `wordcount`: words that Kafka Streams counts per second of the server's processor time.
//!
//! One instance of the Java program `WordCount` with two threads and without a cache, so that every word is a record in
//! the repartition topic, in the changelog and in the output.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use riparian_crowd::pump::Pump;
use riparian_records::Compression;

use super::{Benchmark, Plan};
use crate::{
    admin,
    figures::{median_of, shown},
    records::{Producing, lines},
    report::{Section, Table, say},
    servers::{self, Kind, Running, Server},
};

const ROUNDS: u32 = 3;
const PARTITIONS: usize = 4;
const LINES: usize = 100;
const WORDS_IN_LINE: usize = 10;
const LIMIT: Duration = Duration::from_secs(600);

struct Round {
    per_cpu: f64,
    per_second: f64,
}

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let mut section = Section::new(
        plan.command(Benchmark::Wordcount, ROUNDS),
        &[
            "A word count on Kafka Streams 4.4.0, one instance with two threads, without a cache: each word goes through the repartition topic, the changelog and the output.",
            "Words per second of the server's processor time, from the first line that is written until the last word is counted.",
        ],
    );
    let header = ["", "words per processor second", "words per second"];
    let mut table = Table::new("", &header);
    let mut medians = Vec::new();
    for &kind in plan.kinds() {
        let rounds = measure(plan, kind)?;
        let per_cpu = median_of(&rounds, |round| round.per_cpu);
        table.row(vec![kind.name().to_owned(), shown(per_cpu), shown(median_of(&rounds, |round| round.per_second))]);
        medians.push(per_cpu);
    }
    if let [ours, kafka] = medians[..] {
        section.note(format!(
            "Riparian counts {} times as many words per processor second as Kafka.",
            shown(ours / kafka)
        ));
    }
    section.table(table);
    Ok(section)
}

fn measure(plan: &Plan, kind: Kind) -> Result<Vec<Round>> {
    let mut server = servers::start(&plan.tools, kind, &[])?;
    for topic in ["text-lines", "word-counts"] {
        admin::create_topic_and_wait(&mut server, topic, PARTITIONS)?;
    }
    let dir = tempfile::Builder::new().prefix("riparian-bench-").tempdir().context("no directory can be made")?;
    let mut command = plan.tools.java("riparian.WordCount", &["-Xmx512m"], "log4j2.properties");
    command
        .args([
            "--bootstrap",
            &server.bootstrap(),
            "--threads",
            "2",
            "--set",
            "statestore.cache.max.bytes=0",
            "--state-dir",
        ])
        .arg(dir.path().join("states"));
    let mut application = Running::start(&mut command, &dir.path().join("log"))?;
    application.wait_for("application that runs", LIMIT, |said| {
        said.lines().any(|line| line.starts_with("state ") && line.ends_with(" RUNNING")).then_some(())
    })?;
    let batches = plan.pick(20, 1000);
    let mut rounds = Vec::new();
    let mut words = 0;
    // The first one is only there to make everything warm.
    for round in 0..=plan.rounds(ROUNDS) {
        let (before, start) = (server.cpu()?, Instant::now());
        let written = write(&server, batches)?;
        words += written;
        application.wait_for("count of all words", LIMIT, |said| {
            let counted = said.lines().rev().find_map(|line| line.strip_prefix("counted ")?.parse::<u64>().ok());
            (counted? >= words).then_some(())
        })?;
        let (cpu, wall) = (server.cpu()? - before, start.elapsed());
        let found =
            Round { per_cpu: written as f64 / cpu.as_secs_f64(), per_second: written as f64 / wall.as_secs_f64() };
        let name = if round == 0 { "warm-up" } else { "round" };
        say(&format!(
            "{}, {name}: {written} words, {} per processor second, {} per second",
            kind.name(),
            shown(found.per_cpu),
            shown(found.per_second)
        ));
        if round > 0 {
            rounds.push(found);
        }
    }
    Ok(rounds)
}

/// Writes so many batches of lines to each partition; returns how many words those have.
fn write(server: &Server, batches: u64) -> Result<u64> {
    let batch = lines(LINES, WORDS_IN_LINE, Compression::None, 3);
    let words = (LINES * WORDS_IN_LINE) as u64;
    let mut producing = Producing::new("text-lines", PARTITIONS, &batch, words)?;
    let mut pump = Pump::connect(server.port(), PARTITIONS)?;
    Ok(pump.run(&mut producing, 1, LIMIT, batches * PARTITIONS as u64)?.worth)
}
