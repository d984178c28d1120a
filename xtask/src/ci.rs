//! `test` and `ci`: runs the suites, counts their tests, shows a log only when something failed.
//!
//! Owns the list of suites. **Invariant:** the last line on standard output is `N passed, N failed` over all suites
//! that ran; a suite that could not run, or failed without naming a test, counts as one failed test.
//! It does not know what a suite checks.

mod suites;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::shell::{Scratch, Step};
use crate::{setup, shell, tidy};
use suites::{Suite, Work};

#[derive(Args)]
pub(crate) struct Options {
    /// Only the suites whose name contains one of these
    suites: Vec<String>,
    /// Name the suites and stop
    #[arg(long)]
    list: bool,
    /// What the conformance suites start: the server of this repository, or Apache Kafka (to check the tests)
    #[arg(long, value_enum, default_value_t = Against::Riparian)]
    against: Against,
    /// Run each conformance suite this often; every run must pass
    #[arg(long, default_value_t = 1, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Only the tests of a suite whose name contains this; suites that have no names for their tests are left out
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

#[derive(Args)]
pub(crate) struct CiOptions {
    /// Formatting, lints, tidy and unit tests only
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Against {
    Riparian,
    Kafka,
}

pub(crate) fn test(options: &Options) -> Result<()> {
    let mut chosen = suites::all()?;
    if let Some(unknown) = options.suites.iter().find(|name| !chosen.iter().any(|suite| suite.name.contains(*name))) {
        bail!("no suite has {unknown} in its name: `cargo xtask test --list` names them");
    }
    chosen.retain(|suite| options.suites.is_empty() || options.suites.iter().any(|name| suite.name.contains(name)));
    if options.list {
        chosen.iter().for_each(|suite| shell::print_line(&suite.name));
        return Ok(());
    }
    let runner = Runner {
        against: options.against,
        repeat: options.repeat,
        filter: options.filter.clone(),
        settings: Vec::new(),
    };
    runner.run(&chosen)
}

pub(crate) fn ci(options: &CiOptions) -> Result<()> {
    let suites = suites::all()?.into_iter().filter(|suite| !options.quick || suite.quick).collect::<Vec<_>>();
    Runner { against: Against::Riparian, repeat: 1, filter: None, settings: Vec::new() }.run(&suites)
}

/// A conformance target for longer than the tests have: again and again, or with settings for its own eyes.
pub(crate) fn soak(target: &str, repeat: u32, settings: &[(&str, &str)]) -> Result<()> {
    let suite = suites::conformance(target);
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), PathBuf::from(value))).collect();
    Runner { against: Against::Riparian, repeat, filter: None, settings }.run(&[suite])
}

/// A conformance target that tells what it sees while it runs.
pub(crate) fn soak_aloud(target: &str, settings: &[(&str, &str)]) -> Result<()> {
    let scratch = Scratch::new("riparian-tests")?;
    let environment = environment(Against::Riparian, &[suites::conformance(target)])?;
    let runner = Runner { against: Against::Riparian, repeat: 1, filter: None, settings: Vec::new() };
    let mut command = runner.conformance(target, &environment);
    command.arg("--nocapture").envs(settings.iter().copied()).env("TMPDIR", scratch.path());
    if command.status()?.success() { Ok(()) } else { bail!("{target} failed, see above") }
}

/// How many suites run at a time, of those that may share the machine.
const LANES: usize = 3;

struct Runner {
    against: Against,
    repeat: u32,
    filter: Option<String>,
    /// More environment variables for the conformance suites.
    settings: Vec<(String, PathBuf)>,
}

/// How one suite, or all of them, went.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    const ONE_PASSED: Self = Self { passed: 1, failed: 0 };
    const ONE_FAILED: Self = Self { passed: 0, failed: 1 };

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// How one run of a suite went.
struct Ran {
    count: Count,
    /// For people, with its log if it failed.
    told: String,
    /// The lines of its log that name what failed.
    failures: Vec<String>,
}

/// So many failures of a suite are named again at the end.
const FAILURES_NAMED_MAX: usize = 5;

/// The lines of a log that name what failed: all of ours and of Rust's own harness say FAILED.
fn failures_in(log: &str) -> Vec<String> {
    let names_one = |line: &&str| line.contains("FAILED") && !line.starts_with("test result:");
    log.lines().filter(names_one).take(FAILURES_NAMED_MAX).map(str::to_owned).collect()
}

impl Runner {
    fn run(&self, suites: &[Suite]) -> Result<()> {
        // Whatever tests, servers and JVMs leave in their temporary directory, killed ones too, goes with this one.
        let scratch = Scratch::new("riparian-tests")?;
        let mut total = Count::default();
        let mut failed = Vec::new();
        let environment = if suites.iter().any(|suite| matches!(suite.work, Work::Conformance(_))) {
            self.prepare(suites, &mut total)
        } else {
            None
        };
        let why_left_out = |suite: &Suite| match suite {
            _ if self.against == Against::Kafka && suite.is_ours_only() => Some("it is about our own code"),
            _ if self.filter.is_some() && !suite.has_filter() => Some("its tests have no names to choose from"),
            _ => None,
        };
        let is_left_out = |suite: &Suite| why_left_out(suite).is_some();
        for suite in suites {
            if let Some(why) = why_left_out(suite) {
                shell::talk(&format!("{:<34} left out: {why}", suite.name));
            }
        }
        let mut count = |suite: &Suite, ran: Ran| {
            total.add(ran.count);
            if ran.count.failed > 0 {
                failed.push(suite.name.clone());
                failed.extend(ran.failures.iter().map(|line| format!("  {line}")));
            }
        };
        let chosen = || suites.iter().filter(|suite| !is_left_out(suite));
        // What is repeated is repeated alone: a failure has fewer causes then.
        let (mut sharing, alone): (Vec<&Suite>, Vec<&Suite>) =
            chosen().partition(|suite| self.repeat == 1 && suite.is_sharing());
        for suite in alone {
            let times = if matches!(suite.work, Work::Conformance(_)) { self.repeat } else { 1 };
            for time in 1..=times {
                let label = if times > 1 { format!("{} ({time}/{times})", suite.name) } else { suite.name.clone() };
                shell::talk_start(&format!("{label:<34} "));
                let ran = self.run_one(suite, environment.as_deref(), scratch.path());
                shell::talk(&ran.told);
                count(suite, ran);
            }
        }
        sharing.sort_by_key(|suite| suite.place_in_line());
        let line = Mutex::new(sharing.into_iter());
        let next = || line.lock().unwrap_or_else(PoisonError::into_inner).next();
        let count = Mutex::new(count);
        thread::scope(|scope| {
            for _ in 0..LANES {
                scope.spawn(|| {
                    while let Some(suite) = next() {
                        let ran = self.run_one(suite, environment.as_deref(), scratch.path());
                        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
                        shell::talk(&format!("{:<34} {}", suite.name, ran.told));
                        count(suite, ran);
                    }
                });
            }
        });
        if total == Count::default() {
            total = Count::ONE_FAILED;
            let filter = self.filter.as_ref().map(|filter| format!(": none has {filter} in its name"));
            shell::talk(&format!("no test was run{}", filter.unwrap_or_default()));
        }
        if !failed.is_empty() {
            // Again, because logs are long.
            shell::talk(&format!("failed:\n{}", failed.join("\n")));
        }
        shell::print_line(&format!("{} passed, {} failed", total.passed, total.failed));
        if total.failed > 0 { bail!("{} test(s) failed", total.failed) } else { Ok(()) }
    }

    /// Tools and the server binary, as environment variables for the conformance suites; counted as one failure if
    /// they cannot be had.
    fn prepare(&self, suites: &[Suite], total: &mut Count) -> Option<Vec<(String, PathBuf)>> {
        match environment(self.against, suites) {
            Ok(mut environment) => {
                environment.extend(self.settings.iter().cloned());
                Some(environment)
            }
            Err(error) => {
                shell::talk(&format!("cannot prepare the conformance suites: {error:#}"));
                total.add(Count::ONE_FAILED);
                None
            }
        }
    }

    /// Runs a suite once.
    fn run_one(&self, suite: &Suite, environment: Option<&[(String, PathBuf)]>, scratch: &Path) -> Ran {
        let start = Instant::now();
        let (mut count, log) = match &suite.work {
            Work::Check(check) => match check() {
                Ok(()) => (Count::ONE_PASSED, String::new()),
                Err(error) => (Count::ONE_FAILED, format!("{error:#}")),
            },
            Work::Cargo(arguments) if suite.is_sharing() => {
                // It needs nothing but a processor, which those beside it need in time.
                run_cargo(shell::patient_cargo().args(*arguments).env("TMPDIR", scratch))
            }
            // A filter is only here if it is one for the harness.
            Work::Cargo(arguments) => {
                run_cargo(shell::cargo().args(*arguments).args(&self.filter).env("TMPDIR", scratch))
            }
            Work::Conformance(target) => match environment {
                None => (Count::ONE_FAILED, "not run: its tools are missing, see above".to_owned()),
                Some(environment) => run_cargo(self.conformance(target, environment).env("TMPDIR", scratch)),
            },
        };
        if count == Count::default() && self.filter.is_none() {
            count = Count::ONE_FAILED;
        }
        let verdict = if count.failed == 0 { "ok    " } else { "FAILED" };
        let mut told = format!("{verdict} {:>4} passed {:>6.1} s", count.passed, start.elapsed().as_secs_f64());
        if count.failed > 0 {
            let (name, log) = (&suite.name, log.trim_end());
            told.push_str(&format!("\n--- log of {name} ---\n{log}\n--- end of {name} ---"));
        }
        Ran { count, told, failures: failures_in(&log) }
    }

    fn conformance(&self, target: &str, environment: &[(String, PathBuf)]) -> Command {
        let mut command = shell::cargo();
        command.args(["test", "--quiet", "--package", "riparian-tests", "--test", target, "--"]);
        command.arg(format!("--test-threads={}", suites::test_threads(target))).env("RUST_BACKTRACE", "0");
        command.args(&self.filter);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn environment(against: Against, suites: &[Suite]) -> Result<Vec<(String, PathBuf)>> {
    let tools = setup::ensure_tools()?;
    let mut environment = vec![
        ("RIPARIAN_JAVA".to_owned(), tools.java.java.clone()),
        ("RIPARIAN_JARS".to_owned(), tools.java.jars.clone()),
        ("RIPARIAN_CLASSES".to_owned(), tools.java.classes.clone()),
        ("RIPARIAN_PYTHON".to_owned(), tools.python),
        ("RIPARIAN_KCAT".to_owned(), tools.kcat),
        ("RIPARIAN_VALGRIND".to_owned(), tools.valgrind),
        // Also as a command line client of another broker.
        ("RIPARIAN_BIN".to_owned(), build_server()?),
    ];
    if suites.iter().any(Suite::runs_kafkas_tests) {
        environment.push(("RIPARIAN_PEER_JARS".to_owned(), setup::ensure_peer_jars()?));
    }
    match against {
        Against::Riparian if suites.iter().any(Suite::counts_instructions) => {
            environment.push(("RIPARIAN_PATHS".to_owned(), build_paths()?));
        }
        Against::Riparian => {}
        Against::Kafka => environment.push(("RIPARIAN_TEST_AGAINST".to_owned(), PathBuf::from("kafka"))),
    }
    Ok(environment)
}

/// The optimised server binary: what people run is what is tested.
pub(crate) fn build_server() -> Result<PathBuf> {
    build("the server", &["--package", "riparian-server"], "riparian")
}

/// The program that measures the server.
pub(crate) fn build_bench() -> Result<PathBuf> {
    build("the benchmarks", &["--package", "riparian-bench"], "riparian-bench")
}

/// The program whose instructions are counted to see what the busiest paths cost.
///
/// The server is named as well: crates then have the features that they have in it, so that they are those that it was
/// built from, and what is counted is the code that people run.
fn build_paths() -> Result<PathBuf> {
    let what = "the program whose instructions are counted";
    let packages = ["--package", "riparian-server", "--package", "riparian-broker"];
    build(what, &[&packages[..], &["--bin", "riparian", "--example", "paths"]].concat(), "examples/paths")
}

/// Builds something optimised; what it is and how long it takes is told.
fn build(what: &str, arguments: &[&str], name: &str) -> Result<PathBuf> {
    let binary = shell::target_dir().join("release").join(name);
    let patience = if binary.is_file() { "" } else { " (takes minutes the first time)" };
    let step = Step::start(&format!("building {what}{patience}"));
    shell::run_quietly(shell::cargo().args(["build", "--quiet", "--release"]).args(arguments))?;
    step.done();
    if binary.is_file() { Ok(binary) } else { bail!("the build left no {}", binary.display()) }
}

/// Runs a cargo command and counts what it says about tests. A command without tests counts as one.
fn run_cargo(command: &mut Command) -> (Count, String) {
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => return (Count::ONE_FAILED, format!("cannot run {command:?}: {error}")),
    };
    let log = shell::text_of(&output);
    let is_test = command.get_args().next().is_some_and(|word| word == "test") || log.contains("test result: ");
    let mut count = if is_test { count_tests(&log) } else { Count::default() };
    if !output.status.success() && count.failed == 0 {
        count.failed = 1;
    }
    if output.status.success() && !is_test {
        count = Count::ONE_PASSED;
    }
    (count, log)
}

/// Sums the closing lines of the test harness: `test result: ok. 5 passed; 0 failed; ...`.
fn count_tests(log: &str) -> Count {
    let mut count = Count::default();
    for line in log.lines().filter_map(|line| line.split("test result: ").nth(1)) {
        let number_before = |word: &str| {
            let before = line.split(word).next()?;
            before.split_whitespace().next_back()?.parse::<u64>().ok()
        };
        count.passed += number_before(" passed").unwrap_or(0);
        count.failed += number_before(" failed").unwrap_or(0);
    }
    count
}

/// `tidy` as a suite.
fn tidy_suite() -> Result<()> {
    let problems = tidy::check()?;
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_several_test_binaries_are_summed() {
        let log = "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                   running 2 tests\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count_tests(log), Count { passed: 4, failed: 1 });
        assert_eq!(count_tests("error: could not compile"), Count::default());
    }

    #[test]
    fn command_that_fails_without_a_count_is_one_failure() {
        let (count, log) = run_cargo(Command::new("sh").args(["-c", "echo broken; exit 3"]));
        assert_eq!((count, log.as_str()), (Count::ONE_FAILED, "broken\n"));
        assert_eq!(run_cargo(&mut Command::new("true")).0, Count::ONE_PASSED);
    }
}
