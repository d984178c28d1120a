//! Kafka's own published tests against our binary (`tests/peer`).
//!
//! It has a `main` of its own so that each of Kafka's tests counts as a test.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use riparian_tests::{Against, Program, Server, jars, java, peer_jars};

/// What those tests expect of the broker that they would start themselves.
const SETTINGS: &[(&str, &str)] = &[
    ("group.streams.min.session.timeout.ms", "100"),
    ("group.streams.min.heartbeat.interval.ms", "100"),
    ("group.streams.assignment.interval.ms", "0"),
    ("group.min.session.timeout.ms", "0"),
    ("group.max.session.timeout.ms", "2147483647"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "1"),
    ("log.message.timestamp.after.max.ms", "9223372036854775807"),
    ("log.retention.hours", "-1"),
    ("log.retention.check.interval.ms", "1000"),
];
const LIMIT: Duration = Duration::from_secs(2 * 3600);

/// Halves run side by side, each on a server of its own: those tests wait more than they work.
const LANES: usize = 2;

fn main() -> ExitCode {
    let results = tempfile::Builder::new().prefix("riparian-peer-").tempdir().expect("a directory can be made");
    let lanes: Vec<(Server, Program)> = (1..=LANES).map(|lane| start(lane, results.path())).collect();
    let mut out = std::io::stdout().lock();
    let (mut passed, mut failed) = (0, 0);
    for (server, program) in lanes {
        let ran = program.finish(LIMIT);
        passed += ran.stdout.lines().filter(|line| line.split(" | ").nth(1) == Some("PASS")).count();
        let missed = ran.stdout.lines().filter(|line| line.starts_with("  MISSED ")).count();
        // With fewer classes than lanes one has nothing to do.
        let is_ok = ran.status.success() || ran.stderr.trim_end() == "nothing to run";
        failed += missed.max(usize::from(!is_ok));
        if !is_ok {
            let _ = writeln!(out, "{}", ran.both());
        }
        drop(server);
    }
    let is_ok = failed == 0 && passed > 0;
    let verdict = if is_ok { "ok" } else { "FAILED" };
    let _ = writeln!(out, "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn start(lane: usize, results: &Path) -> (Server, Program) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer");
    let which = std::env::var("RIPARIAN_PEER").unwrap_or_else(|_| "fast".to_owned());
    let server = Server::start_this(Against::Riparian, SETTINGS);
    let jdk = java().parent().map(Path::to_path_buf).unwrap_or_default();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.arg(dir.join("run.sh")).arg(server.bootstrap()).args(which.split_whitespace());
    command.env("PATH", format!("{}:{path}", jdk.display()));
    command.env("PEER_OUT", results.join(lane.to_string())).env("PEER_LANE", format!("{lane}/{LANES}"));
    command.env("PEER_CACHE", jars().with_file_name("peer")).env("PEER_LIB", peer_jars());
    let program = Program::start(&format!("kafka's tests, {lane} of {LANES}"), &mut command);
    (server, program)
}
