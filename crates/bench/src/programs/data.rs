//! `data`: how much a server writes and reads per second of its processor time.

use std::time::Duration;

use anyhow::{Context as _, Result};
use riparian_crowd::pump::{Pump, Pumped, Talk};
use riparian_records::Compression;

use super::{Benchmark, Plan};
use crate::{
    admin,
    figures::{median_of, shown},
    records::{Fetching, Producing, batch},
    report::{Section, Table, say},
    servers::{self, Kind, Running, Server},
};

const ROUNDS: u32 = 3;
const CONNECTIONS: usize = 4;
const RECORD_BYTES: usize = 1024;
/// What fits into the batch of a producer with default settings.
const RECORDS: usize = 15;
/// Requests under way on a connection, as producers have; readers have one.
const PRODUCE_WINDOW: usize = 5;
const FETCH_WINDOW: usize = 1;
const PERFORMANCE_LIMIT: Duration = Duration::from_secs(600);
const KAFKA_RATIO_MIN: f64 = 1.3;
const CODECS: [(Compression, &str); 2] = [(Compression::None, "none"), (Compression::Lz4, "lz4")];

#[derive(Clone, Copy)]
struct Variant {
    kind: Kind,
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

/// As shipped; and ours with Kafka's habit of leaving the disk to the operating system.
const VARIANTS: [Variant; 3] = [
    Variant { kind: Kind::Riparian, name: "Riparian", settings: &[] },
    Variant { kind: Kind::Riparian, name: "Riparian, `riparian.flush=os`", settings: &[("riparian.flush", "os")] },
    Variant { kind: Kind::Kafka, name: "Kafka", settings: &[] },
];

/// MB per second of processor time, and per second.
#[derive(Clone, Copy)]
struct Rate {
    per_cpu: f64,
    per_second: f64,
}

/// Of one server with one codec: our producer, our reader, Kafka's producer.
struct Round {
    produce: Rate,
    fetch: Rate,
    performance: Rate,
}

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let mut section = Section::new(
        plan.command(Benchmark::Data, ROUNDS),
        &[
            "Records of 1 KiB of text, 15 in a batch, `acks=all`; four connections, each with a partition of its own, five produce requests or one fetch under way on each.",
            "MB of records before compression, per second of the server's processor time and (in parentheses) per second.",
            "Riparian syncs before it acknowledges, Kafka as shipped does not; with `riparian.flush=os` ours does not either.",
            "`ProducerPerformance` is Kafka's own producer and its program, a single connection.",
        ],
    );
    let header = ["codec", "server", "produce", "fetch", "`ProducerPerformance`"];
    let mut table = Table::new("", &header);
    for (codec, name) in CODECS {
        let mut medians = Vec::new();
        for variant in VARIANTS.iter().filter(|variant| plan.kinds().contains(&variant.kind)) {
            let rounds = measure(plan, variant, codec, name)?;
            let median = |of: fn(&Round) -> Rate| Rate {
                per_cpu: median_of(&rounds, |round| of(round).per_cpu),
                per_second: median_of(&rounds, |round| of(round).per_second),
            };
            let all = [median(|it| it.produce), median(|it| it.fetch), median(|it| it.performance)];
            let cells = all.map(|rate| format!("{} ({})", shown(rate.per_cpu), shown(rate.per_second)));
            table.row([vec![name.to_owned(), variant.name.to_owned()], cells.to_vec()].concat());
            medians.push(all);
        }
        if let [synced, cached, kafka] = &medians[..] {
            for (at, what) in ["produce", "fetch"].iter().enumerate() {
                for (which, ours) in [("as shipped", synced), ("`riparian.flush=os`", cached)] {
                    let ratio = ours[at].per_cpu / kafka[at].per_cpu;
                    section.target(
                        &format!("{what}, {name}, {which}: MB per processor second at least {KAFKA_RATIO_MIN} x Kafka"),
                        shown(ratio),
                        ratio >= KAFKA_RATIO_MIN,
                    );
                }
            }
        }
    }
    section.table(table);
    Ok(section)
}

fn measure(plan: &Plan, variant: &Variant, codec: Compression, codec_name: &str) -> Result<Vec<Round>> {
    let mut server = servers::start(&plan.tools, variant.kind, variant.settings)?;
    let duration = plan.pick(Duration::from_millis(300), Duration::from_secs(4));
    let batch = batch(RECORDS, RECORD_BYTES, codec, 1);
    let worth = (RECORDS * RECORD_BYTES) as u64;
    let mut rounds = Vec::new();
    // The first one is only there to make everything warm.
    for round in 0..=plan.rounds(ROUNDS) {
        let topic = format!("data-{round}");
        admin::create_topic_and_wait(&mut server, &topic, CONNECTIONS)?;
        let mut pump = Pump::connect(server.port(), CONNECTIONS)?;
        let mut producing = Producing::new(&topic, CONNECTIONS, &batch, worth)?;
        let produce = timed(&server, &mut pump, &mut producing, PRODUCE_WINDOW, duration)?;
        let mut fetching = Fetching::new(&topic, CONNECTIONS, RECORD_BYTES as u64);
        let fetch = timed(&server, &mut pump, &mut fetching, FETCH_WINDOW, duration)?;
        drop(pump);
        let performance = performance(plan, &mut server, &topic, codec_name)?;
        let told =
            [produce, fetch, performance].map(|rate| format!("{} ({})", shown(rate.per_cpu), shown(rate.per_second)));
        let name = if round == 0 { "warm-up" } else { "round" };
        say(&format!(
            "{}, {codec_name}, {name}: MB per processor second (per second): {}",
            variant.name,
            told.join(", ")
        ));
        if round > 0 {
            rounds.push(Round { produce, fetch, performance });
        }
    }
    Ok(rounds)
}

fn timed(server: &Server, pump: &mut Pump, talk: &mut impl Talk, window: usize, duration: Duration) -> Result<Rate> {
    let before = server.cpu()?;
    let Pumped { worth, wall, .. } = pump.run(talk, window, duration, u64::MAX)?;
    Ok(rate(worth as f64, server.cpu()? - before, wall))
}

/// Kafka's own producer, as another witness.
fn performance(plan: &Plan, server: &mut Server, topic: &str, codec: &str) -> Result<Rate> {
    let records = plan.pick(2_000, 500_000);
    let dir = tempfile::Builder::new().prefix("riparian-bench-").tempdir().context("no directory can be made")?;
    let mut command = plan.tools.java("org.apache.kafka.tools.ProducerPerformance", &["-Xmx512m"], "log4j2.properties");
    command
        .args(["--bootstrap-server", &server.bootstrap(), "--topic", topic, "--num-records", &records.to_string()])
        .args(["--record-size", &RECORD_BYTES.to_string(), "--throughput", "-1", "--command-property", "acks=all"])
        .arg(format!("compression.type={codec}"));
    let before = server.cpu()?;
    let said =
        Running::start(&mut command, &dir.path().join("log"))?.finish("ProducerPerformance", PERFORMANCE_LIMIT)?;
    let cpu = server.cpu()? - before;
    // N records sent, R records/sec (M MB/sec), ...
    let last = said.lines().rev().find(|line| line.contains("records sent")).unwrap_or_default();
    let per_second = last.split(", ").nth(1).and_then(|part| part.split(' ').next()?.parse::<f64>().ok());
    let per_second = per_second.with_context(|| format!("ProducerPerformance tells no rate: {said}"))?;
    let bytes = f64::from(records) * RECORD_BYTES as f64;
    Ok(rate(bytes, cpu, Duration::from_secs_f64(f64::from(records) / per_second)))
}

fn rate(bytes: f64, cpu: Duration, wall: Duration) -> Rate {
    let megabytes = bytes / 1e6;
    Rate { per_cpu: megabytes / cpu.as_secs_f64(), per_second: megabytes / wall.as_secs_f64() }
}
