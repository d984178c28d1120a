//! How long tasks stand still when an instance leaves, or is killed and comes back; with default settings.

use std::path::Path;
use std::time::{Duration, Instant};

use riparian_tests::{Against, Program, Server, Tool, leave, own_program};

const LIMIT: Duration = Duration::from_secs(300);
/// A fifth of Kafka's median in `cargo xtask bench leave`.
const OUTPUT_LIMIT_MS: u64 = 900;
/// The time that an instance may take from its restart until all of its application's tasks run.
const BACK_LIMIT: Duration = Duration::from_secs(5);

/// Three instances with two threads each share 24 tasks without state; one leaves.
#[test]
fn tasks_move_at_network_speed_when_an_instance_leaves() {
    let rounds = leave::time(Against::Riparian, 3);
    println!("Riparian: {}", leave::shown(&rounds));
    let output_ms = leave::median(&rounds, |round| round.output);
    assert!(output_ms <= OUTPUT_LIMIT_MS, "{output_ms} ms is more than a fifth of what Kafka takes");
}

fn instance(server: &Server, states: &Path, name: &str) -> Program {
    let mut command = own_program("WordCount");
    command.args(["--bootstrap", &server.bootstrap(), "--threads", "2", "--state-dir"]).arg(states.join(name));
    Program::start(name, &mut command)
}

/// The default session of 45 seconds is far from over.
#[test]
fn killed_instance_that_comes_back_has_its_tasks_within_seconds() {
    let server = Server::start_this(Against::Riparian, &[]);
    let bootstrap = server.bootstrap();
    for topic in ["text-lines", "word-counts"] {
        let arguments = ["--create", "--topic", topic, "--partitions", "4", "--replication-factor", "1"];
        Tool::at("TopicCommand", &bootstrap).args(&arguments).run();
    }
    let states = tempfile::Builder::new().prefix("riparian-states-").tempdir().expect("a directory can be made");
    let mut watcher = own_program("GroupWatcher");
    watcher.args(["--bootstrap", &bootstrap, "--group", "word-count"]);
    let watcher = Program::start("watcher", &mut watcher);
    let stays = instance(&server, states.path(), "stays");
    let mut killed = instance(&server, states.path(), "killed");
    let settled = |from: usize, what: &str, limit: Duration| {
        watcher.wait_until(what, limit, |lines| {
            let is_settled = |line: &String| line.starts_with("group Stable ") && line.contains(" members=4 active=8 ");
            lines.get(from..)?.iter().find(|line| is_settled(line)).map(|_| ())
        });
    };
    settled(0, "two instances that share the tasks", LIMIT);
    for _ in 0..2 {
        killed.kill();
        // What was seen before the kill does not count: the group changes when the instance is back.
        let mark = watcher.stdout().len();
        killed = instance(&server, states.path(), "killed");
        // A JVM takes a second or more to get there.
        killed.wait_for_line("start", LIMIT, |line| line.starts_with("state CREATED "));
        let start = Instant::now();
        watcher.wait_until("a change", LIMIT, |lines| (lines.len() > mark).then_some(()));
        settled(mark, "the tasks of the instance that is back", LIMIT);
        killed.wait_for_line("running", LIMIT, |line| line.starts_with("state ") && line.ends_with(" RUNNING"));
        let took = start.elapsed();
        println!("tasks run {} ms after the restart", took.as_millis());
        assert!(took <= BACK_LIMIT, "{took:?}");
    }
    for instance in [stays, killed] {
        instance.terminate(LIMIT).says("closed");
    }
    let watched = watcher.terminate(LIMIT);
    for bad in ["TWO OWNERS", "BACKWARDS"] {
        assert!(!watched.stdout.contains(bad), "{}", watched.both());
    }
}
