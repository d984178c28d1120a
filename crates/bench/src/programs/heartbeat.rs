//! `heartbeat`: what a heartbeat costs in which nothing changes, and how long it takes.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;

use super::{Benchmark, Plan};
use crate::{
    admin,
    echo::Variant,
    figures::{median_of, micros, shown},
    load::{Load, Measured, Shape, by_code, stable_groups},
    report::{Section, Table, say},
    servers::{self, Echo, Kind, Server},
};

const ROUNDS: u32 = 5;
/// To the group's config of this name Kafka owes a part of what its heartbeats cost.
const WARMUPS: &str = "streams.num.warmup.replicas";
const ECHO_RATIO_MAX: f64 = 1.5;
const SIZE_RATIO_MAX: f64 = 1.2;
const KAFKA_P99_RATIO_MAX: f64 = 0.5;
/// Places among the shapes: groups of 10, and a group of 1,000.
const SMALL_GROUPS: usize = 1;
const LARGE_GROUP: usize = 2;

/// One server under one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Riparian,
    EchoThreads,
    EchoEpoll,
    Kafka,
    KafkaWithoutWarmups,
}

/// What one round has found.
struct Round {
    cpu_us: f64,
    /// Per second, in the closed loop.
    rate: f64,
    /// p50, p99 and p999 in microseconds, for each rate.
    latencies: Vec<[f64; 3]>,
}

/// By shape, connections and server.
#[derive(Default)]
struct Results(BTreeMap<(usize, usize, Who), Vec<Round>>);

impl Results {
    fn median(&self, shape: usize, connections: usize, who: Who, of: impl Fn(&Round) -> f64) -> Option<f64> {
        self.0.get(&(shape, connections, who)).map(|rounds| median_of(rounds, of))
    }

    /// Of several, the one that did best.
    fn least(&self, shape: usize, connections: usize, who: &[Who], of: impl Fn(&Round) -> f64) -> Option<f64> {
        let medians = who.iter().filter_map(|&who| self.median(shape, connections, who, &of));
        medians.min_by(f64::total_cmp)
    }
}

struct Sizes {
    shapes: Vec<Shape>,
    connections: Vec<usize>,
    rates: Vec<u64>,
    warm_up: Duration,
    closed: Duration,
    open: Duration,
    rounds: usize,
}

impl Who {
    const KAFKAS: [Self; 2] = [Self::Kafka, Self::KafkaWithoutWarmups];
    const ECHOES: [Self; 2] = [Self::EchoThreads, Self::EchoEpoll];
}

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let shape = |groups, members, tasks| Shape { groups, members, tasks };
    let seconds = Duration::from_secs_f64;
    let sizes = Sizes {
        shapes: plan.pick(vec![shape(1, 20, 20)], vec![shape(1, 100, 100), shape(100, 10, 10), shape(1, 1000, 2000)]),
        connections: plan.pick(vec![4], vec![16, 100]),
        rates: vec![1000, 5000],
        warm_up: plan.pick(seconds(0.3), seconds(10.0)),
        closed: plan.pick(seconds(0.3), seconds(4.0)),
        open: plan.pick(seconds(0.3), seconds(5.0)),
        rounds: plan.rounds(ROUNDS),
    };
    let mut results = Results::default();
    for (index, &shape) in sizes.shapes.iter().enumerate() {
        for &kind in plan.kinds() {
            let mut server = servers::start(&plan.tools, kind, &[])?;
            let mut load = stable_groups(&mut server, shape, sizes.connections[0])?;
            let variants: &[Who] = if kind == Kind::Riparian { &[Who::Riparian] } else { &Who::KAFKAS };
            for &who in variants {
                if who == Who::KafkaWithoutWarmups {
                    for number in 0..shape.groups {
                        admin::set_group_config(&mut server, &shape.group_id(number), WARMUPS, "0")?;
                    }
                }
                for &connections in &sizes.connections {
                    load.connect_again(server.port(), connections)?;
                    let rounds = measure(&sizes, &mut load, who, &|| server.cpu())?;
                    results.0.insert((index, connections, who), rounds);
                    check_refused(&mut load, &server)?;
                }
            }
            if kind == Kind::Riparian {
                measure_echoes(&sizes, index, &load, &mut results)?;
            }
        }
    }
    Ok(section(plan, &sizes, &results))
}

fn measure_echoes(sizes: &Sizes, index: usize, load: &Load, results: &mut Results) -> Result<()> {
    for (variant, who) in Variant::BOTH.into_iter().zip(Who::ECHOES) {
        let echo = Echo::start(variant, load.answer_bytes())?;
        for &connections in &sizes.connections {
            let mut load = load.to_echo(echo.port, connections)?;
            let rounds = measure(sizes, &mut load, who, &|| echo.cpu())?;
            results.0.insert((index, connections, who), rounds);
        }
    }
    Ok(())
}

fn measure(sizes: &Sizes, load: &mut Load, who: Who, cpu: &dyn Fn() -> Result<Duration>) -> Result<Vec<Round>> {
    load.closed_loop(1, sizes.warm_up)?;
    let mut rounds = Vec::new();
    for _ in 0..sizes.rounds {
        let before = cpu()?;
        let closed = load.closed_loop(1, sizes.closed)?;
        let cpu_us = micros(cpu()? - before) / closed.heartbeats as f64;
        let rate = closed.heartbeats as f64 / closed.wall.as_secs_f64();
        let mut latencies = Vec::new();
        for &rate in &sizes.rates {
            latencies.push(percentiles(&load.open_loop(rate, sizes.open)?));
        }
        let told: Vec<String> = latencies.iter().map(|it| it.map(shown).join("/")).collect();
        say(&format!(
            "{who:?}: {} us each at {} per second; p50/p99/p999 us {}",
            shown(cpu_us),
            shown(rate),
            told.join(", ")
        ));
        rounds.push(Round { cpu_us, rate, latencies });
    }
    Ok(rounds)
}

fn percentiles(measured: &Measured) -> [f64; 3] {
    [50.0, 99.0, 99.9].map(|percent| micros(measured.latencies.at(percent)))
}

fn check_refused(load: &mut Load, server: &Server) -> Result<()> {
    let refused = load.take_refused();
    anyhow::ensure!(refused.is_empty(), "{} refused heartbeats at rest: {}", server.kind().name(), by_code(&refused));
    Ok(())
}

fn section(plan: &Plan, sizes: &Sizes, results: &Results) -> Section {
    let mut section = Section::new(
        plan.command(Benchmark::Heartbeat, ROUNDS),
        &[
            "Groups x members x tasks of each; heartbeats that report nothing and change nothing, one under way on each connection.",
            "Processor time is that of the whole server, per heartbeat; the echo server is the cheaper of two, with the same sizes of requests and answers.",
            "Kafka as it is shipped, and with `streams.num.warmup.replicas=0` set on the groups.",
        ],
    );
    section.note(format!("Medians of {} rounds.", sizes.rounds));
    section.table(cost_table(sizes, results));
    for (at, &rate) in sizes.rates.iter().enumerate() {
        section.table(latency_table(sizes, results, at, rate));
    }
    targets(&mut section, sizes, results);
    section
}

fn targets(section: &mut Section, sizes: &Sizes, results: &Results) {
    let cost = |round: &Round| round.cpu_us;
    let p99 = |round: &Round| round.latencies[1][1];
    for (index, shape) in sizes.shapes.iter().enumerate() {
        for &connections in &sizes.connections {
            let ours = results.median(index, connections, Who::Riparian, cost);
            if let Some((ours, echo)) = ours.zip(results.least(index, connections, &Who::ECHOES, cost)) {
                section.target(
                    &format!("{shape}, {connections} connections: at most {ECHO_RATIO_MAX} x echo"),
                    shown(ours / echo),
                    ours <= echo * ECHO_RATIO_MAX,
                );
            }
            let ours = results.median(index, connections, Who::Riparian, p99);
            if let Some((ours, kafka)) = ours.zip(results.least(index, connections, &Who::KAFKAS, p99)) {
                let rate = sizes.rates[1];
                section.target(
                    &format!("{shape}, {connections} connections, {rate}/s: p99 at most {KAFKA_P99_RATIO_MAX} x the better of Kafka's"),
                    shown(ours / kafka),
                    ours <= kafka * KAFKA_P99_RATIO_MAX,
                );
            }
        }
    }
    for &connections in &sizes.connections {
        let of = |index| results.median(index, connections, Who::Riparian, cost);
        if let Some((small, large)) = of(SMALL_GROUPS).zip(of(LARGE_GROUP)) {
            let ratio = (large / small).max(small / large);
            section.target(
                &format!("groups of 10 and of 1,000, {connections} connections: the same within 20 %"),
                shown(ratio),
                ratio <= SIZE_RATIO_MAX,
            );
        }
    }
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

fn cost_table(sizes: &Sizes, results: &Results) -> Table {
    let header = [
        "groups",
        "connections",
        "Riparian",
        "echo, threads",
        "echo, epoll",
        "Kafka",
        "Kafka, no warm-ups",
        "Riparian / echo",
        "Riparian / Kafka",
        "Riparian, per second",
    ];
    let mut table = Table::new("Processor time of a heartbeat in a closed loop, us", &header);
    let cost = |round: &Round| round.cpu_us;
    for (index, shape) in sizes.shapes.iter().enumerate() {
        for &connections in &sizes.connections {
            let at = |who| results.median(index, connections, who, cost);
            let ratio = |of: &[Who]| Some(at(Who::Riparian)? / results.least(index, connections, of, cost)?);
            table.row(vec![
                shape.to_string(),
                connections.to_string(),
                cell(at(Who::Riparian)),
                cell(at(Who::EchoThreads)),
                cell(at(Who::EchoEpoll)),
                cell(at(Who::Kafka)),
                cell(at(Who::KafkaWithoutWarmups)),
                cell(ratio(&Who::ECHOES)),
                cell(ratio(&Who::KAFKAS)),
                cell(results.median(index, connections, Who::Riparian, |round| round.rate)),
            ]);
        }
    }
    table
}

fn latency_table(sizes: &Sizes, results: &Results, at: usize, rate: u64) -> Table {
    let header =
        ["groups", "connections", "Riparian", "echo, epoll", "Kafka", "Kafka, no warm-ups", "Riparian / Kafka, p99"];
    let title = format!("Latency at {rate} heartbeats per second (open loop), p50 / p99 / p999 in us");
    let mut table = Table::new(&title, &header);
    for (index, shape) in sizes.shapes.iter().enumerate() {
        for &connections in &sizes.connections {
            let of = |who, of: usize| results.median(index, connections, who, |round| round.latencies[at][of]);
            let all = |who| [0, 1, 2].map(|percentile| cell(of(who, percentile))).join(" / ");
            let kafka = results.least(index, connections, &Who::KAFKAS, |round| round.latencies[at][1]);
            let ratio = of(Who::Riparian, 1).zip(kafka).map(|(ours, kafka)| ours / kafka);
            table.row(vec![
                shape.to_string(),
                connections.to_string(),
                all(Who::Riparian),
                all(Who::EchoEpoll),
                all(Who::Kafka),
                all(Who::KafkaWithoutWarmups),
                cell(ratio),
            ]);
        }
    }
    table
}
