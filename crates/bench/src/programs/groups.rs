//! `groups`: what thousands of small groups take of memory, and how long their members wait for a server that is started
//! again.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{Benchmark, Plan};
use crate::{
    admin,
    figures::{median_of, millis, shown},
    load::{Load, Pace, Served, Shape, by_code},
    report::{Section, Table, say},
    servers::{self, Kind, Server},
};

const ROUNDS: u32 = 3;
const CONNECTIONS: usize = 100;
const LIMIT: Duration = Duration::from_secs(900);
const HEAP_KIB_MAX: f64 = 3.0;
const ALL_SERVED_MS_MAX: f64 = 500.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Terminated,
    Killed,
}

struct Found {
    heap_kib: f64,
    /// When the groups were read from the log, without what forming them has left behind.
    heap_again_kib: f64,
    resident_kib: f64,
    disk_kib: f64,
    formed_s: f64,
    replays: Vec<(End, Replay)>,
}

#[derive(Clone, Copy)]
struct Replay {
    first_ms: f64,
    all_ms: f64,
}

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let shape = Shape { groups: plan.pick(100, 5000), members: 2, tasks: 2 };
    let connections = plan.pick(10, CONNECTIONS);
    let mut section = Section::new(
        plan.command(Benchmark::Groups, ROUNDS),
        &[
            "Groups x members x tasks, each with a topic of two partitions that all share.",
            "Heap is what belongs to no file (`Anonymous` of `/proc/PID/smaps_rollup`), in Kafka the live objects after a collection.",
            "A server ends and is started again on its directory; time from exec until the first and the last of all members has had an answer to its next heartbeat, which each repeats after 5 ms if it is refused.",
        ],
    );
    section.note(format!("The members of {shape} share {connections} connections; no delays before assignments."));
    let header = ["", "heap per group, KiB", "heap when started again", "RSS", "log", "formed in, s"];
    let mut memory = Table::new("Memory and files per group, KiB", &header);
    let header = ["", "after", "first served, ms", "all served, ms"];
    let mut replays = Table::new("Start again", &header);
    for &kind in plan.kinds() {
        let found = measure(plan, kind, shape, connections)?;
        let cells =
            [found.heap_kib, found.heap_again_kib, found.resident_kib, found.disk_kib, found.formed_s].map(shown);
        memory.row([vec![kind.name().to_owned()], cells.to_vec()].concat());
        for (end, name) in [(End::Terminated, "SIGTERM"), (End::Killed, "SIGKILL")] {
            let rounds: Vec<Replay> =
                found.replays.iter().filter(|(by, _)| *by == end).map(|(_, replay)| *replay).collect();
            let (first, all) = (median_of(&rounds, |it| it.first_ms), median_of(&rounds, |it| it.all_ms));
            replays.row(vec![kind.name().to_owned(), name.to_owned(), shown(first), shown(all)]);
            if kind == Kind::Riparian {
                section.target(
                    &format!("{shape}, after {name}: all served at most {ALL_SERVED_MS_MAX} ms after exec"),
                    format!("{} ms", shown(all)),
                    all <= ALL_SERVED_MS_MAX,
                );
            }
        }
        if kind == Kind::Riparian {
            section.target(
                &format!("heap of a group of two members: at most {HEAP_KIB_MAX} KiB"),
                format!("{} KiB", shown(found.heap_kib)),
                found.heap_kib <= HEAP_KIB_MAX,
            );
        }
    }
    section.table(memory);
    section.table(replays);
    Ok(section)
}

fn measure(plan: &Plan, kind: Kind, shape: Shape, connections: usize) -> Result<Found> {
    let settings = [
        ("group.streams.initial.rebalance.delay.ms", "0"),
        ("group.streams.assignment.interval.ms", "0"),
        // A server that is away must not cost members.
        ("group.streams.max.session.timeout.ms", "600000"),
        ("group.streams.session.timeout.ms", "600000"),
    ];
    let mut server = servers::start(&plan.tools, kind, &settings)?;
    admin::create_topic_and_wait(&mut server, "input", shape.tasks)?;
    admin::wait_for_coordinator(&mut server, &shape.group_id(0))?;
    let mut load = Load::connect(server.port(), connections)?;
    load.retry_after(Duration::from_millis(5));
    thread::sleep(plan.pick(Duration::from_millis(200), Duration::from_secs(2)));
    let (heap, memory) = (server.heap_bytes()?, server.memory()?);
    let disk = directory_bytes(&server)?;
    for number in 0..shape.groups {
        let group = load.add_group(&shape.group_id(number), "input", shape.tasks);
        load.add_members(group, shape.members);
    }
    let formed = load.run_until_stable(Pace::Told, LIMIT, &server).context("the groups do not come to rest")?;
    thread::sleep(plan.pick(Duration::from_millis(200), Duration::from_secs(2)));
    let per_group_kib = |after: u64, before: u64| (after as f64 - before as f64) / 1024.0 / shape.groups as f64;
    let mut found = Found {
        heap_kib: per_group_kib(server.heap_bytes()?, heap),
        heap_again_kib: 0.0,
        resident_kib: per_group_kib(server.memory()?.resident, memory.resident),
        disk_kib: per_group_kib(directory_bytes(&server)?, disk),
        formed_s: formed.as_secs_f64(),
        replays: Vec::new(),
    };
    say(&format!(
        "{}: {shape} formed in {:.1} s, {} KiB of heap each; refused: {}",
        kind.name(),
        found.formed_s,
        shown(found.heap_kib),
        by_code(&load.take_refused())
    ));
    for _ in 0..plan.rounds(ROUNDS) {
        for end in [End::Terminated, End::Killed] {
            match end {
                End::Terminated => server.terminate()?,
                End::Killed => server.kill(),
            }
            let replay = replay(&mut server, &mut load, connections)?;
            let name = if end == End::Killed { "SIGKILL" } else { "SIGTERM" };
            say(&format!(
                "{}: after {name} the first is served after {:.1} ms, all after {:.1} ms; refused meanwhile: {}",
                kind.name(),
                replay.first_ms,
                replay.all_ms,
                by_code(&load.take_refused())
            ));
            found.replays.push((end, replay));
            found.heap_again_kib = per_group_kib(server.heap_bytes()?, heap);
        }
    }
    Ok(found)
}

fn replay(server: &mut Server, load: &mut Load, connections: usize) -> Result<Replay> {
    let start = Instant::now();
    server.launch()?;
    loop {
        match load.connect_again(server.port(), connections) {
            Ok(()) => break,
            Err(error) if start.elapsed() > LIMIT => return Err(error),
            Err(_) => server.check_running()?,
        }
        thread::sleep(Duration::from_micros(500));
    }
    let offset = start.elapsed();
    let Served { first, all } = load.run_until_all_served(LIMIT)?;
    Ok(Replay { first_ms: millis(offset + first), all_ms: millis(offset + all) })
}

/// Bytes of all files of the data directory.
fn directory_bytes(server: &Server) -> Result<u64> {
    let mut bytes = 0;
    let mut left = vec![server.data_dir()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let entry = entry?;
            // A file that goes at this moment has no bytes.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                left.push(entry.path());
            } else {
                // What is taken on the disk, not how long an index may become.
                bytes += std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
            }
        }
    }
    Ok(bytes)
}
