//! `sync`: what it costs to make many partitions durable at once.
//!
//! Once on our log itself over files, and once through a server: one produce request with a small batch for each of the
//! partitions.

use std::{
    num::NonZero,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use riparian_crowd::pump::{Pump, Talk};
use riparian_log::{FlushMode, FsDisk, Identity, LogConfig, Logs, LogsConfig, PartitionLog};
use riparian_records::Compression;
use riparian_types::{LeaderEpoch, MonoMillis, NodeId, Now, PartitionIndex, TopicName, Uuid, WallMillis};

use super::{Benchmark, Plan};
use crate::{
    admin,
    figures::{median, median_of, millis, shown},
    records::{batch, check_produced, produce},
    report::{Section, Table, say},
    servers::{self, Kind, Server},
};

const ROUNDS: u32 = 15;
const RECORD_BYTES: usize = 100;
/// As many as the server uses.
const THREADS: usize = 16;
/// Kafka syncs each partition before it answers only if it is told to.
const KAFKA_SYNCS: &[(&str, &str)] = &[("log.flush.interval.messages", "1")];

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let counts = plan.pick(vec![1, 10], vec![1, 100, 1000]);
    let rounds = plan.rounds(ROUNDS);
    let mut section = Section::new(
        plan.command(Benchmark::Sync, ROUNDS),
        &[
            "A small batch goes to each of so many partitions, then all are made durable.",
            "First on our log itself over files, on one thread and on as many as the server has; then as one produce request with `acks=all`, with Kafka as it is shipped (no sync) and with `log.flush.interval.messages=1`.",
        ],
    );
    section.note(format!("Medians of {rounds} rounds, on files that exist; wall time in ms."));

    let header = ["partitions", "append", "sync, 1 thread", "sync, 16 threads", "16 threads, per partition"];
    let mut direct = Table::new("Our log over files, ms", &header);
    for &count in &counts {
        let found = direct_rounds(count, rounds)?;
        let of = |of: fn(&Direct) -> Duration| median_of(&found, |round| millis(of(round)));
        let together = of(|it| it.together);
        let cells = [of(|it| it.append), of(|it| it.alone), together, together / count as f64].map(shown);
        say(&format!(
            "log, {count} partitions: append, sync by 1, by 16 threads, per partition: {} ms",
            cells.join(", ")
        ));
        direct.row([vec![count.to_string()], cells.to_vec()].concat());
    }
    section.table(direct);

    let header = ["partitions", "server", "answer, ms", "processor, ms"];
    let mut through = Table::new("Through a server, per request", &header);
    let variants = [
        ("Riparian", Kind::Riparian, &[][..]),
        ("Kafka, no sync", Kind::Kafka, &[][..]),
        ("Kafka, `log.flush.interval.messages=1`", Kind::Kafka, KAFKA_SYNCS),
    ];
    for (name, kind, settings) in variants.into_iter().filter(|(_, kind, _)| plan.kinds().contains(kind)) {
        let mut server = servers::start(&plan.tools, kind, settings)?;
        for &count in &counts {
            let (wall, cpu) = through_server(&mut server, count, rounds)?;
            say(&format!(
                "{name}, {count} partitions: answer after {} ms, {} ms of processor time",
                shown(wall),
                shown(cpu)
            ));
            through.row(vec![count.to_string(), name.to_owned(), shown(wall), shown(cpu)]);
        }
    }
    section.table(through);
    Ok(section)
}

struct Direct {
    append: Duration,
    alone: Duration,
    together: Duration,
}

fn direct_rounds(count: usize, rounds: usize) -> Result<Vec<Direct>> {
    let dir = tempfile::Builder::new().prefix("riparian-bench-").tempdir().context("no directory can be made")?;
    let partitions = open(&dir.path().join("data"), count)?;
    let batch = batch(1, RECORD_BYTES, Compression::None, 2);
    let append = || -> Result<Duration> {
        let start = Instant::now();
        for log in &partitions {
            log.append_internal(now(), LeaderEpoch(0), &batch).context("an append failed")?;
        }
        Ok(start.elapsed())
    };
    // Makes the files, whose names have to be made durable as well, and fills their first blocks.
    for _ in 0..warm_ups(count) {
        append()?;
        sync(&partitions, THREADS)?;
    }
    let mut found = Vec::new();
    for _ in 0..rounds {
        append()?;
        let alone = sync(&partitions, 1)?;
        let append = append()?;
        found.push(Direct { append, alone, together: sync(&partitions, THREADS)? });
    }
    Ok(found)
}

fn open(root: &Path, count: usize) -> Result<Vec<Arc<PartitionLog>>> {
    let identity = Identity {
        node_id: NodeId(1),
        cluster_id: None,
        new_cluster_id: "bench".to_owned(),
        new_directory_id: Uuid::from_random(1, 2),
    };
    let config = LogsConfig {
        flush: FlushMode::Sync,
        producer_expiration_ms: 86_400_000,
        topic_defaults: LogConfig::KAFKA,
        recovery_threads: 1,
        read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
    };
    let disk = Arc::new(FsDisk::new(NonZero::new(count * 3 + 16).context("no files")?));
    let (logs, _) = Logs::open(disk, root, identity, config, now().wall).context("a new directory cannot be opened")?;
    let topic = TopicName::from("bench");
    let create = |index: usize| {
        logs.create(&topic, Uuid::from_random(3, 4), PartitionIndex(index as i32), LogConfig::KAFKA)
            .context("a log cannot be made")
    };
    (0..count).map(create).collect()
}

/// Makes all durable with so many threads; returns how long it took.
fn sync(partitions: &[Arc<PartitionLog>], threads: usize) -> Result<Duration> {
    let start = Instant::now();
    let left = Mutex::new(partitions.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Result<()> {
        while let Some(log) = next() {
            log.sync().context("a sync failed")?;
        }
        Ok(())
    };
    if threads == 1 {
        work()?;
    } else {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.min(partitions.len())).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
    }
    Ok(start.elapsed())
}

/// Wall and processor time of a request in milliseconds.
fn through_server(server: &mut Server, count: usize, rounds: usize) -> Result<(f64, f64)> {
    struct Request(Vec<u8>);
    impl Talk for Request {
        fn ask(&mut self, _: usize, out: &mut Vec<u8>) -> Result<()> {
            out.extend_from_slice(&self.0);
            Ok(())
        }

        fn hear(&mut self, _: usize, answer: &[u8]) -> Result<u64> {
            check_produced(answer)?;
            Ok(1)
        }
    }
    let topic = format!("sync-{count}");
    admin::create_topic_and_wait(server, &topic, count)?;
    let batch = batch(1, RECORD_BYTES, Compression::None, 2);
    let data: Vec<(i32, &[u8])> = (0..count).map(|partition| (partition as i32, batch.as_slice())).collect();
    let mut request = Request(Vec::new());
    produce(&topic, &data, &mut request.0)?;
    let mut pump = Pump::connect(server.port(), 1)?;
    let limit = Duration::from_secs(60);
    pump.run(&mut request, 1, limit, warm_ups(count))?;
    let before = server.cpu()?;
    let mut walls = Vec::new();
    for _ in 0..rounds {
        walls.push(millis(pump.run(&mut request, 1, limit, 1)?.wall));
    }
    // A single request takes less than a tick of the clock that counts processor time.
    let repeated = (200 / count).max(1) as u64;
    let answers = pump.run(&mut request, 1, limit, repeated)?.answers;
    let cpu = millis(server.cpu()? - before) / (answers + rounds as u64) as f64;
    Ok((median(&walls), cpu))
}

/// Until the first blocks of the files are there, and a JVM is warm.
fn warm_ups(partitions: usize) -> u64 {
    1 + 2000 / partitions as u64
}

fn now() -> Now {
    Now { mono: MonoMillis(0), wall: WallMillis(1_700_000_000_000) }
}
