//! The scripts of `tests/scripts`, each run against a broker of Apache Kafka 4.4.0 and against our binary.
//!
//! Every script holds what a Kafka broker answers and writes; where ours differs on purpose the line says which
//! difference of `docs/differences.md` that is. A line that neither side may show fails.
//! One server of each kind serves nearly all scripts, several at a time: groups and topics carry the script's name.
//! Scripts that restart their server share another one, one at a time; those that begin with `server` have one each.
//! With `RIPARIAN_BLESS=1` the scripts are rewritten to what Kafka does, never to what ours does.
//! With `RIPARIAN_MARK=D-04` lines in which ours differs are marked with that reason.
//! With `RIPARIAN_SIDE=kafka` or `=riparian` only that side runs.
//!
//! It has a `main` of its own so that each script counts as a test.

#[path = "differential/socket.rs"]
mod socket;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use riparian_scripts::SETTINGS;
use riparian_testkit::{Runner, Script, Session, is_blessing};
use riparian_tests::{Against, Server};

use crate::socket::Socket;

/// Scripts that run at the same time: most of their time is waiting.
const AT_ONCE: usize = 6;
/// So many scripts are told with their time.
const SLOWEST: usize = 12;

/// A script and how it went.
struct Outcome {
    name: String,
    side: &'static str,
    took: Duration,
    failure: Option<String>,
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let filters: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let found = scripts(&root.join("scripts"), &filters);
    let paths = &found[..];
    let sides: &[(Runner, Against)] = match (is_blessing(), std::env::var("RIPARIAN_SIDE").as_deref()) {
        (true, _) | (_, Ok("kafka")) => &[(Runner::Kafka, Against::Kafka)],
        (_, Ok("riparian")) => &[(Runner::Riparian, Against::Riparian)],
        _ => &[(Runner::Kafka, Against::Kafka), (Runner::Riparian, Against::Riparian)],
    };
    let mut failures = unlisted_differences(paths, &root.join("..").join("docs").join("differences.md"));
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            sides.iter().map(|&(runner, against)| scope.spawn(move || run_all(paths, runner, against))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a failed script is an outcome")).collect()
    });
    failures.extend(outcomes.iter().filter_map(|outcome| {
        let failure = outcome.failure.as_ref()?;
        Some(format!("FAILED {} on {}:\n{failure}", outcome.name, outcome.side))
    }));
    let failed: BTreeSet<&str> = outcomes.iter().filter(|it| it.failure.is_some()).map(|it| it.name.as_str()).collect();
    let failed_count = failed.len().max(usize::from(!failures.is_empty()));
    let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
    let mut out = std::io::stdout().lock();
    for failure in &failures {
        let _ = writeln!(out, "{failure}");
    }
    for &(runner, _) in sides {
        let _ = writeln!(out, "{}", slowest(outcomes.iter().filter(|it| it.side == side_of(runner))));
    }
    let passed = paths.len().saturating_sub(failed.len());
    let _ = writeln!(out, "test result: {verdict}. {passed} passed; {failed_count} failed; 0 ignored");
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn side_of(runner: Runner) -> &'static str {
    if runner == Runner::Kafka { "kafka" } else { "riparian" }
}

/// Where the time went.
fn slowest<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    let mut outcomes: Vec<&Outcome> = outcomes.collect();
    outcomes.sort_by_key(|it| Reverse(it.took));
    let all: Duration = outcomes.iter().map(|it| it.took).sum();
    let slowest = outcomes.iter().take(SLOWEST).map(|it| format!("{} {:.1}", it.name, it.took.as_secs_f64()));
    let side = outcomes.first().map_or("nobody", |it| it.side);
    format!("{side}: {:.0} s in all scripts, longest {}", all.as_secs_f64(), slowest.collect::<Vec<_>>().join(", "))
}

fn scripts(dir: &Path, filters: &[String]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("cannot list {}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a listed file is there").path()).collect();
    paths.retain(|path| {
        let is_script = path.extension().is_some_and(|extension| extension == "txt");
        is_script && (filters.is_empty() || filters.iter().any(|filter| name_of(path).contains(filter)))
    });
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Scripts may only name differences that users can read about.
fn unlisted_differences(paths: &[PathBuf], list: &Path) -> Vec<String> {
    let list = std::fs::read_to_string(list).expect("docs/differences.md is there");
    let ids = || list.lines().filter_map(|line| line.strip_prefix("| D-")?.split(' ').next());
    let twice = ids().filter(|id| ids().filter(|other| other == id).count() > 1).collect::<BTreeSet<_>>();
    let mut failures: Vec<String> =
        twice.into_iter().map(|id| format!("docs/differences.md has D-{id} twice")).collect();
    for path in paths {
        let Ok(script) = Script::load(path) else { continue };
        for id in script.differences() {
            if !list.contains(&format!("| {id} |")) {
                failures.push(format!("{} names {id}, which docs/differences.md does not list", path.display()));
            }
        }
    }
    failures
}

fn run_all(paths: &[PathBuf], runner: Runner, against: Against) -> Vec<Outcome> {
    let restarts = |path: &&PathBuf| Script::load(path).is_ok_and(|script| script.commands().any(|it| it == "restart"));
    let (own, shared): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(|path| !settings_of(path).is_empty());
    let (restarting, together): (Vec<&PathBuf>, Vec<&PathBuf>) = shared.into_iter().partition(restarts);
    std::thread::scope(|scope| {
        let threads = [
            scope.spawn(move || run_on_one(together, AT_ONCE, runner, against)),
            scope.spawn(move || run_on_one(restarting, 1, runner, against)),
            scope.spawn(move || own.into_iter().map(|path| run_alone(path, runner, against)).collect()),
        ];
        threads.into_iter().flat_map(|thread| thread.join().expect("a failed script is an outcome")).collect()
    })
}

/// All on one server, so many at a time.
fn run_on_one(paths: Vec<&PathBuf>, at_once: usize, runner: Runner, against: Against) -> Vec<Outcome> {
    if paths.is_empty() {
        return Vec::new();
    }
    let server = Mutex::new(Server::start_this(against, SETTINGS));
    wait_for_coordinator(&server);
    let todo = Mutex::new(paths);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some(path) = todo.lock().unwrap_or_else(PoisonError::into_inner).pop() else { return };
                    let outcome = run(path, runner, &server);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_alone(path: &Path, runner: Runner, against: Against) -> Outcome {
    let more = settings_of(path);
    let more: Vec<(&str, &str)> = more.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let server = Mutex::new(Server::start_this(against, &[SETTINGS, &more].concat()));
    wait_for_coordinator(&server);
    run(path, runner, &server)
}

fn wait_for_coordinator(server: &Mutex<Server>) {
    riparian_scripts::wait_for_coordinator(&mut Socket::new(server)).expect("a server that starts has a coordinator");
}

fn settings_of(path: &Path) -> Vec<(String, String)> {
    Script::load(path).map(|script| script.settings()).unwrap_or_default()
}

fn run(path: &Path, runner: Runner, server: &Mutex<Server>) -> Outcome {
    let name = name_of(path);
    let start = Instant::now();
    let mut session = riparian_scripts::Server::session(&name, Socket::new(server));
    let result = match std::env::var("RIPARIAN_MARK") {
        Ok(id) if runner == Runner::Riparian => mark(path, &id, &mut session),
        _ => Script::check_file(path, runner, |command| session.carry_out(command)),
    };
    let side = side_of(runner);
    Outcome { name, side, took: start.elapsed(), failure: result.err().map(|error| error.to_string()) }
}

fn mark(
    path: &Path,
    id: &str,
    session: &mut Session<riparian_scripts::Server<Socket<'_>>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let marked = Script::load(path)?.mark(id, |command| session.carry_out(command))?;
    Ok(std::fs::write(path, marked)?)
}
