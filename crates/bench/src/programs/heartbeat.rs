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
/// Members wait for their turn longer than a session lasts.
const PATIENT: [(&str, &str); 2] =
    [("group.streams.max.session.timeout.ms", "3600000"), ("group.streams.session.timeout.ms", "3600000")];
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
    /// Its compiler needs longer to be done.
    warm_up_of_kafka: Duration,
    /// Of a round; each takes this long.
    slices: usize,
    slice: Duration,
    open: Duration,
    rounds: usize,
}

/// What is measured.
struct Subject {
    /// Its place among the shapes.
    shape: usize,
    who: Who,
    load: Load,
    process: Process,
}

enum Process {
    Server(Server),
    Echo(Echo),
}

impl Subject {
    fn check_refused(&mut self) -> Result<()> {
        let refused = self.load.take_refused();
        anyhow::ensure!(refused.is_empty(), "{:?}: refused heartbeats at rest: {}", self.who, by_code(&refused));
        Ok(())
    }
}

impl Process {
    fn port(&self) -> u16 {
        match self {
            Self::Server(server) => server.port(),
            Self::Echo(echo) => echo.port,
        }
    }

    fn cpu(&self) -> Result<Duration> {
        match self {
            Self::Server(server) => server.cpu(),
            Self::Echo(echo) => echo.cpu(),
        }
    }
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
        warm_up: plan.pick(seconds(0.3), seconds(2.0)),
        warm_up_of_kafka: plan.pick(seconds(0.3), seconds(10.0)),
        slices: plan.pick(1, 4),
        slice: plan.pick(seconds(0.3), seconds(1.0)),
        open: plan.pick(seconds(0.3), seconds(5.0)),
        rounds: plan.rounds(ROUNDS),
    };
    let mut results = Results::default();
    if plan.kinds().contains(&Kind::Riparian) {
        measure(&sizes, sizes.warm_up, &mut ours_and_echoes(plan, &sizes)?, &mut results)?;
    }
    if plan.kinds().contains(&Kind::Kafka) {
        for shape in 0..sizes.shapes.len() {
            measure_kafka(plan, &sizes, shape, &mut results)?;
        }
    }
    Ok(section(plan, &sizes, &results))
}

/// Our server and both echo servers for each shape, all at once: those that are compared take turns, so that a machine
/// that becomes faster or slower meanwhile does so for all of them.
fn ours_and_echoes(plan: &Plan, sizes: &Sizes) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for (index, &shape) in sizes.shapes.iter().enumerate() {
        let mut server = servers::start(&plan.tools, Kind::Riparian, &PATIENT)?;
        let load = stable_groups(&mut server, shape, sizes.connections[0])?;
        let (answer_bytes, echo_load) = (load.answer_bytes(), |port| load.to_echo(port, sizes.connections[0]));
        let mut echoes = Vec::new();
        for (variant, who) in Variant::BOTH.into_iter().zip(Who::ECHOES) {
            let echo = Echo::start(variant, answer_bytes)?;
            let load = echo_load(echo.port)?;
            echoes.push(Subject { shape: index, who, load, process: Process::Echo(echo) });
        }
        subjects.push(Subject { shape: index, who: Who::Riparian, load, process: Process::Server(server) });
        subjects.extend(echoes);
    }
    Ok(subjects)
}

fn measure_kafka(plan: &Plan, sizes: &Sizes, index: usize, results: &mut Results) -> Result<()> {
    let shape = sizes.shapes[index];
    let mut server = servers::start(&plan.tools, Kind::Kafka, &[])?;
    let load = stable_groups(&mut server, shape, sizes.connections[0])?;
    let mut subject = Subject { shape: index, who: Who::Kafka, load, process: Process::Server(server) };
    for who in Who::KAFKAS {
        if let (Who::KafkaWithoutWarmups, Process::Server(server)) = (who, &mut subject.process) {
            for number in 0..shape.groups {
                admin::set_group_config(server, &shape.group_id(number), WARMUPS, "0")?;
            }
        }
        subject.who = who;
        measure(sizes, sizes.warm_up_of_kafka, std::slice::from_mut(&mut subject), results)?;
    }
    Ok(())
}

fn measure(sizes: &Sizes, warm_up: Duration, subjects: &mut [Subject], results: &mut Results) -> Result<()> {
    for &connections in &sizes.connections {
        for subject in &mut *subjects {
            subject.load.connect_again(subject.process.port(), connections)?;
            subject.load.closed_loop(1, warm_up)?;
        }
        for _ in 0..sizes.rounds {
            let costs = costs(sizes, subjects)?;
            for (subject, (cpu_us, rate)) in subjects.iter_mut().zip(costs) {
                let mut latencies = Vec::new();
                for &rate in &sizes.rates {
                    latencies.push(percentiles(&subject.load.open_loop(rate, sizes.open)?));
                }
                let told: Vec<String> = latencies.iter().map(|it| it.map(shown).join("/")).collect();
                say(&format!(
                    "{:?}, {}, {connections} connections: {} us each at {} per second; p50/p99/p999 us {}",
                    subject.who,
                    sizes.shapes[subject.shape],
                    shown(cpu_us),
                    shown(rate),
                    told.join(", ")
                ));
                let rounds = results.0.entry((subject.shape, connections, subject.who)).or_default();
                rounds.push(Round { cpu_us, rate, latencies });
            }
        }
        for subject in &mut *subjects {
            subject.check_refused()?;
        }
    }
    Ok(())
}

/// Microseconds of processor time of a heartbeat, and heartbeats per second. Each subject has its slices of time, turn by
/// turn.
fn costs(sizes: &Sizes, subjects: &mut [Subject]) -> Result<Vec<(f64, f64)>> {
    let mut sums = vec![(Duration::ZERO, Duration::ZERO, 0); subjects.len()];
    for _ in 0..sizes.slices {
        for (subject, (cpu, wall, heartbeats)) in subjects.iter_mut().zip(&mut sums) {
            let before = subject.process.cpu()?;
            let closed = subject.load.closed_loop(1, sizes.slice)?;
            *cpu += subject.process.cpu()? - before;
            *wall += closed.wall;
            *heartbeats += closed.heartbeats;
        }
    }
    let figures = |(cpu, wall, heartbeats): (Duration, Duration, u64)| {
        let heartbeats = heartbeats as f64;
        (micros(cpu) / heartbeats, heartbeats / wall.as_secs_f64())
    };
    Ok(sums.into_iter().map(figures).collect())
}

fn percentiles(measured: &Measured) -> [f64; 3] {
    [50.0, 99.0, 99.9].map(|percent| micros(measured.latencies.at(percent)))
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
    section.note(format!(
        "Our servers and the echo servers of all rows take turns of {} s, {} in a round; Kafka's brokers come \
         after them. Medians of {} rounds.",
        sizes.slice.as_secs_f64(),
        sizes.slices,
        sizes.rounds
    ));
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
