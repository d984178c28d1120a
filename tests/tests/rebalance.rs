//! How long tasks stand still when an instance leaves, or is killed and comes back; with default settings.

use std::time::{Duration, Instant};

use riparian_tests::{Against, GroupView, GroupWatch, Server, WordCount, leave};

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

/// The default session of 45 seconds is far from over.
#[test]
fn killed_instance_that_comes_back_has_its_tasks_within_seconds() {
    let server = Server::start_this(Against::Riparian, &[]);
    let application = WordCount::new(&server, None, &[]);
    let watch = GroupWatch::start(server.port(), WordCount::APPLICATION);
    let stays = application.start("stays");
    let mut killed = application.start("killed");
    let before = watch.wait(0, "two instances that share the tasks", LIMIT, is_settled);
    for _ in 0..2 {
        let ghosts = watch.last().members_of("killed");
        let mark = watch.mark();
        killed.kill();
        killed = application.start("killed");
        // A JVM takes a second or more to get there.
        killed.wait_for_line("start", LIMIT, |line| line.starts_with("state CREATED "));
        let start = Instant::now();
        let is_back = |view: &GroupView| is_settled(view) && view.members_of("killed").is_disjoint(&ghosts);
        let back = watch.wait(mark, "the tasks of the instance that is back", LIMIT, is_back);
        killed.wait_for_line("running", LIMIT, |line| line.starts_with("state ") && line.ends_with(" RUNNING"));
        let took = start.elapsed();
        println!("tasks run {} ms after the restart", took.as_millis());
        assert!(took <= BACK_LIMIT, "{took:?}");
        assert_eq!(back.members_of("stays"), before.members_of("stays"));
    }
    application.close(stays);
    application.close(killed);
    watch.finish();
}

fn is_settled(view: &GroupView) -> bool {
    view.is_settled(4, WordCount::TASKS)
}
