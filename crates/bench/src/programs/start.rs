//! `start`: from exec to the first topic, and what a server costs that has nothing to do.

use std::{thread, time::Duration, time::Instant};

use anyhow::Result;

use super::{Benchmark, Plan};
use crate::{
    admin,
    figures::{median, median_of, millis, shown},
    load::{Pace, Shape, stable_groups},
    process::Memory,
    report::{Section, Table, say},
    servers::{self, Kind, Server},
};

const ROUNDS: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(5);
const FIRST_TOPIC_MS_MAX: f64 = 20.0;
const IDLE_MIB_MAX: f64 = 15.0;
const IDLE_PERCENT_MAX: f64 = 0.05;
const IDLE_WITH_MEMBERS_PERCENT_MAX: f64 = 0.6;

struct Found {
    first_topic_ms: Vec<f64>,
    memory: Vec<Memory>,
    idle_percent: f64,
    idle_with_members_percent: f64,
}

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let members = plan.pick(100, 1000);
    let idle = plan.pick(Duration::from_secs(1), Duration::from_secs(120));
    let interval = plan.pick(Duration::from_millis(500), INTERVAL);
    let mut section = Section::new(
        plan.command(Benchmark::Start, ROUNDS),
        &[
            "From exec to the answer that the first topic is created, on a new directory (Kafka's is formatted before).",
            "Memory a second after that; processor time of the whole process while nothing happens.",
        ],
    );
    section.note(format!(
        "Members are those of one group at rest, over as many connections; each sends a heartbeat every {} s, for {} s, \
         which is as often as Kafka asks for; with `riparian.fast.rebalance` members are told to send more (D-21).",
        interval.as_secs_f64(),
        idle.as_secs()
    ));
    let title =
        ["", "exec to first topic, ms", "RSS, MiB", "PSS, MiB", "idle, % of a core", "with members, % of a core"];
    let mut table = Table::new("", &title);
    for &kind in plan.kinds() {
        let found = measure(plan, kind, members, idle, interval)?;
        let mib = |of: fn(&Memory) -> u64| median_of(&found.memory, |memory| of(memory) as f64 / f64::from(1 << 20));
        let (rss, pss) = (mib(|memory| memory.resident), mib(|memory| memory.proportional));
        let first_topic = median(&found.first_topic_ms);
        table.row(vec![
            kind.name().to_owned(),
            shown(first_topic),
            shown(rss),
            shown(pss),
            shown(found.idle_percent),
            shown(found.idle_with_members_percent),
        ]);
        if kind == Kind::Riparian {
            let mut target = |wanted: String, found: f64, max: f64| section.target(&wanted, shown(found), found <= max);
            target(format!("exec to first topic: at most {FIRST_TOPIC_MS_MAX} ms"), first_topic, FIRST_TOPIC_MS_MAX);
            target(format!("idle: at most {IDLE_MIB_MAX} MiB resident"), rss, IDLE_MIB_MAX);
            target(format!("idle: at most {IDLE_PERCENT_MAX} % of a core"), found.idle_percent, IDLE_PERCENT_MAX);
            target(
                format!("with {members} members: at most {IDLE_WITH_MEMBERS_PERCENT_MAX} % of a core"),
                found.idle_with_members_percent,
                IDLE_WITH_MEMBERS_PERCENT_MAX,
            );
        }
    }
    section.table(table);
    Ok(section)
}

fn measure(plan: &Plan, kind: Kind, members: usize, idle: Duration, interval: Duration) -> Result<Found> {
    // A broker of Kafka takes seconds each time.
    let rounds = if kind == Kind::Kafka { plan.rounds(ROUNDS).div_ceil(3) } else { plan.rounds(ROUNDS) };
    let mut found =
        Found { first_topic_ms: Vec::new(), memory: Vec::new(), idle_percent: 0.0, idle_with_members_percent: 0.0 };
    for round in 0..rounds {
        let mut server = Server::prepare(&plan.tools, kind, &[])?;
        let start = Instant::now();
        server.launch()?;
        let mut connection = server.connect()?;
        admin::create_topic(&mut connection, "first", 1)?;
        let elapsed = start.elapsed();
        drop(connection);
        thread::sleep(Duration::from_secs(1));
        let memory = server.memory()?;
        say(&format!(
            "{}: first topic after {:.1} ms, {} KiB resident",
            kind.name(),
            millis(elapsed),
            memory.resident >> 10
        ));
        found.first_topic_ms.push(millis(elapsed));
        found.memory.push(memory);
        if round + 1 == rounds {
            let before = server.cpu()?;
            thread::sleep(idle);
            found.idle_percent = percent(server.cpu()? - before, idle);
            say(&format!("{}: {} % of a core while nothing happens", kind.name(), shown(found.idle_percent)));
        }
    }
    let mut server = servers::start(&plan.tools, kind, &[])?;
    let shape = Shape { groups: 1, members, tasks: members };
    let mut load = stable_groups(&mut server, shape, members)?;
    // What was needed to get there settles first.
    load.run_for(Pace::Every(interval), interval * plan.pick(1, 4))?;
    let (before, answered) = (server.cpu()?, load.answered());
    load.run_for(Pace::Every(interval), idle)?;
    found.idle_with_members_percent = percent(server.cpu()? - before, idle);
    say(&format!(
        "{}: {} % of a core with {members} members and {} heartbeats",
        kind.name(),
        shown(found.idle_with_members_percent),
        load.answered() - answered
    ));
    Ok(found)
}

fn percent(cpu: Duration, of: Duration) -> f64 {
    100.0 * cpu.as_secs_f64() / of.as_secs_f64()
}
