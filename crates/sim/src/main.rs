//! The simulator's command line: one seed, many seeds, the story of a seed.

use std::{
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use clap::{Args, Parser, Subcommand, builder::RangedU64ValueParser};
use riparian_sim::{FIXED_SEEDS, Groups, Mode, Outcome, Totals, check_script, run};

#[derive(Parser)]
#[command(
    name = "sim",
    about = "Runs the whole server with its clients in virtual time; the same seed, the same run",
    after_help = "Built with `--features planted-bugs` it has one more word, `planted`: bugs that seeds must find."
)]
struct Arguments {
    #[command(subcommand)]
    word: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Run seeds and print what happened in numbers
    Run(RunOptions),
    /// Run seeds twice and compare the two traces line by line
    Meta {
        /// How many seeds
        #[arg(long, default_value_t = 10, value_parser = at_least_one())]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 1, value_parser = a_seed())]
        from: u64,
        /// Which kinds of groups
        #[arg(long, default_value = "mixed")]
        groups: Groups,
    },
    /// What the tests run: the same seed twice, then fixed seeds, then random seeds for a while
    Ci {
        /// Fixed seeds, from 1 on
        #[arg(long, default_value_t = 2000, value_parser = a_seed())]
        seeds: u64,
        /// Seconds for random seeds
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Put each of the built-in bugs in and see that seeds find it
    #[cfg(feature = "planted-bugs")]
    Planted {
        /// How many seeds each bug has
        #[arg(long, default_value_t = 400, value_parser = at_least_one())]
        seeds: u64,
        /// Only the bug of this name
        #[arg(long)]
        bug: Option<String>,
    },
    /// Run scripts against the simulated server
    Script {
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Seeds from 1 on, with which each is run
        #[arg(long, default_value_t = 1, value_parser = at_least_one())]
        seeds: u64,
        /// Show what happened, one line per event
        #[arg(long)]
        show: bool,
    },
    /// Tell the story of a seed, one line per event
    Show {
        /// The seed
        #[arg(value_parser = a_seed())]
        seed: u64,
        /// Which kinds of groups
        #[arg(long, default_value = "mixed")]
        groups: Groups,
    },
}

#[derive(Args)]
struct RunOptions {
    /// One seed
    #[arg(long, conflicts_with_all = ["seeds", "seconds"], value_parser = a_seed())]
    seed: Option<u64>,
    /// Seeds from A to B, B excluded
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// Random seeds for so many seconds; with --seeds, as many of them as that allows
    #[arg(long, value_parser = at_least_one())]
    seconds: Option<u64>,
    /// Where random seeds begin; the clock decides if it is not given
    #[arg(long, requires = "seconds", conflicts_with_all = ["seed", "seeds"], value_parser = a_seed())]
    from: Option<u64>,
    /// Which kinds of groups
    #[arg(long, default_value = "mixed")]
    groups: Groups,
    /// Threads
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Print a line per seed
    #[arg(long)]
    each: bool,
}

/// So that one can always count on from a seed.
const SEED_MAX: u64 = u64::MAX / 4;

fn a_seed() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(0..=SEED_MAX)
}

/// None at all would pass.
fn at_least_one() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=SEED_MAX)
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let numbers = numbers.filter(|&(from, to)| from < to && to <= SEED_MAX);
    numbers.ok_or_else(|| "allowed are two numbers up to 2^62, the smaller first, as in 1..100".to_owned())
}

fn main() -> ExitCode {
    match Arguments::parse().word {
        Word::Run(options) => run_seeds(&options),
        Word::Meta { seeds, from, groups } => meta(from, seeds, groups),
        Word::Ci { seeds, seconds } => ci(seeds, seconds),
        #[cfg(feature = "planted-bugs")]
        Word::Planted { seeds, bug } => planted(seeds, bug.as_deref()),
        Word::Script { files, seeds, show } => scripts(&files, seeds, show),
        Word::Show { seed, groups } => show(seed, groups),
    }
}

fn print(text: &str) {
    // A reader that went away is no reason to fail, nor to pass.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

fn show(seed: u64, groups: Groups) -> ExitCode {
    let outcome = run(seed, groups, Mode::Keep);
    outcome.trace.iter().for_each(|line| print(line));
    print(&summary(&outcome));
    report(&outcome)
}

fn scripts(files: &[PathBuf], seeds: u64, show: bool) -> ExitCode {
    let mut failed = 0;
    for file in files {
        let mode = if show { Mode::Keep } else { Mode::HashOnly };
        let failure = (1..=seeds).find_map(|seed| {
            let (outcome, result) = check_script(file, seed, mode, false);
            outcome.trace.iter().for_each(|line| print(line));
            result.err().map(|failure| format!("{}, seed {seed}:\n{failure}", file.display()))
        });
        failed += usize::from(failure.is_some());
        failure.iter().for_each(|failure| print(failure));
    }
    print(&format!("test result: {} passed; {failed} failed", files.len() - failed));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(outcome: &Outcome) -> ExitCode {
    match &outcome.failure {
        None => {
            print(&format!("seed {} passed", outcome.seed));
            ExitCode::SUCCESS
        }
        Some(failure) => {
            print(&failed(outcome.seed, outcome.groups, failure));
            ExitCode::FAILURE
        }
    }
}

fn failed(seed: u64, groups: Groups, failure: &str) -> String {
    let option = if groups == Groups::Mixed { String::new() } else { format!(" --groups {}", groups.name()) };
    format!(
        "FAILED seed {seed}: {failure}\n  its story: cargo run --profile sim -p riparian-sim -- show {seed}{option}"
    )
}

fn summary(outcome: &Outcome) -> String {
    let Outcome { seed, hash, lines, totals, .. } = outcome;
    format!("seed {seed}: trace {hash:016x} of {lines} lines; {totals}")
}

/// Meta, fixed seeds, random seeds; the closing line is counted by `cargo xtask test`.
fn ci(seeds: u64, seconds: u64) -> ExitCode {
    if meta(1, 10, Groups::Mixed) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    let options = RunOptions {
        seed: None,
        seeds: Some((1, seeds + 1)),
        seconds: None,
        from: None,
        groups: Groups::Mixed,
        threads: 2,
        each: false,
    };
    let mut fixed = sum_of(&options);
    let is_run = |seed: u64, groups: Groups| groups == Groups::Mixed && seed <= seeds;
    for &(seed, groups) in FIXED_SEEDS.iter().filter(|(seed, groups)| !is_run(*seed, *groups)) {
        fixed.add(run(seed, groups, Mode::HashOnly));
    }
    fixed.show();
    let random = sum_of(&RunOptions { seeds: None, seconds: Some(seconds), ..options });
    random.show();
    if !random.failures.is_empty() {
        print(
            "A random seed that fails may have found a fault older than the change at hand. Look at its story; add the \
             seed to crates/sim/src/fixed.rs together with the repair.",
        );
    }
    let mut failed = fixed.failures.len() + random.failures.len();
    let passed = fixed.seeds + random.seeds - failed as u64;
    let grown = resident_mib().filter(|&mib| mib > RESIDENT_MIB_MAX);
    let grown =
        grown.map(|mib| format!("{mib} MiB are in memory after all these seeds, allowed are {RESIDENT_MIB_MAX}"));
    for what in fixed.complaints(true).into_iter().chain(random.complaints(false)).chain(grown) {
        print(&format!("FAILED: {what}"));
        failed += 1;
    }
    print(&format!("test result: {passed} passed; {failed} failed"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn meta(from: u64, seeds: u64, groups: Groups) -> ExitCode {
    for seed in from..from + seeds {
        let (first, second) = (run(seed, groups, Mode::Keep), run(seed, groups, Mode::Keep));
        let differs = first.trace.iter().zip(&second.trace).position(|(a, b)| a != b);
        if let Some(line) = differs {
            print(&format!(
                "FAILED seed {seed}: line {line} differs\n  {}\n  {}",
                first.trace[line], second.trace[line]
            ));
            return ExitCode::FAILURE;
        }
        if first.trace.len() != second.trace.len() || first.hash != second.hash || first.totals != second.totals {
            print(&format!("FAILED seed {seed}: the traces differ in length or numbers"));
            return ExitCode::FAILURE;
        }
    }
    print(&format!("{seeds} seeds gave the same trace twice"));
    ExitCode::SUCCESS
}

#[cfg(feature = "planted-bugs")]
fn planted(seeds: u64, only: Option<&str>) -> ExitCode {
    use riparian_types::planted::{Bug, plant};
    let is_chosen = |bug: &&Bug| only.is_none_or(|name| format!("{bug:?}") == name);
    let chosen: Vec<Bug> = Bug::ALL.iter().filter(is_chosen).copied().collect();
    if chosen.is_empty() {
        let names: Vec<String> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
        print(&format!("no bug has that name, only {}", names.join(", ")));
        return ExitCode::FAILURE;
    }
    let failure = |seed: u64| run(seed, Groups::Mixed, Mode::HashOnly).failure;
    let mut missed = 0;
    for bug in &chosen {
        plant(Some(*bug));
        let found = (1..=seeds).find_map(|seed| Some((seed, failure(seed)?)));
        plant(None);
        let Some((seed, found)) = found else {
            missed += 1;
            print(&format!("FAILED: {bug:?} is NOT FOUND by {seeds} seeds"));
            continue;
        };
        // It is only found if it is what makes the seed fail.
        match failure(seed) {
            None => print(&format!("{bug:?}: found by seed {seed}: {found}")),
            Some(other) => {
                missed += 1;
                print(&format!("FAILED: {bug:?} is not what seed {seed} finds, which fails without it too: {other}"));
            }
        }
    }
    print(&format!("test result: {} passed; {missed} failed", chosen.len() - missed));
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a seed must have to be worth its name.
const EVENTS_MIN: u64 = 1000;

/// What many seeds add up to.
#[derive(Default)]
struct Sum {
    totals: Totals,
    seeds: u64,
    /// Seeds that failed; told at once.
    failures: Vec<u64>,
    /// Seeds without a crash, drop, expiry or move.
    dull: u64,
    /// Seeds with too few events.
    short: Vec<u64>,
    fewest_events: Option<u64>,
    from: u64,
    seconds: f64,
    /// When progress was told last, in seconds.
    told_at: u64,
}

/// What may be in memory after thousands of seeds: a few runs' worth, however many there were.
const RESIDENT_MIB_MAX: u64 = 256;

/// What this process has in memory, where the system tells.
fn resident_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

/// After so many failures a run ends.
const FAILURES_MAX: usize = 10;
/// How often a long run shows that it goes on, in seconds.
const PROGRESS_EVERY: u64 = 10;

fn run_seeds(options: &RunOptions) -> ExitCode {
    let sum = sum_of(options);
    sum.show();
    let failed = sum.failures.len();
    if failed >= FAILURES_MAX {
        print(&format!("stopped after {failed} failures: others, with lower numbers too, may fail as well"));
    }
    print(&format!("{} passed, {failed} failed", sum.seeds - failed as u64));
    if sum.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn sum_of(options: &RunOptions) -> Sum {
    let started = Instant::now();
    let (from, to) = match (options.seed, options.seeds, options.seconds) {
        (Some(seed), ..) => (seed, seed + 1),
        (None, Some(range), _) => range,
        (None, None, Some(_)) => (options.from.unwrap_or_else(clock), u64::MAX),
        (None, None, None) => (1, 101),
    };
    let next = AtomicU64::new(from);
    let sum = Mutex::new(Sum::default());
    let is_over = || options.seconds.is_some_and(|seconds| started.elapsed().as_secs() >= seconds);
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                while !is_over() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= to {
                        return;
                    }
                    let outcome = run(seed, options.groups, Mode::HashOnly);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    if options.each {
                        print(&summary(&outcome));
                    }
                    sum.add(outcome);
                    sum.tell_progress(started.elapsed().as_secs());
                    if sum.failures.len() >= FAILURES_MAX {
                        return;
                    }
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    (sum.from, sum.seconds) = (from, started.elapsed().as_secs_f64());
    sum
}

impl Sum {
    fn tell_progress(&mut self, seconds: u64) {
        if seconds >= self.told_at + PROGRESS_EVERY {
            self.told_at = seconds;
            let (seeds, failed) = (self.seeds, self.failures.len());
            let _ = writeln!(std::io::stderr().lock(), "{seeds} seeds in {seconds} s, {failed} failed");
        }
    }

    fn show(&self) {
        print(&format!(
            "{} seeds from {} in {:.1} s, {} without a crash, drop, expiry or move, at least {} events each; {}",
            self.seeds,
            self.from,
            self.seconds,
            self.dull,
            self.fewest_events.unwrap_or(0),
            self.totals
        ));
    }

    /// What these seeds do not show, although they should.
    fn complaints(&self, is_fixed: bool) -> Vec<String> {
        let mut complaints = Vec::new();
        if is_fixed && self.dull * 10 > self.seeds {
            let (dull, seeds) = (self.dull, self.seeds);
            complaints.push(format!("{dull} of {seeds} seeds lack a crash, drop, expiry or move: more than a tenth"));
        }
        if !self.short.is_empty() {
            complaints.push(format!("seeds with fewer than {EVENTS_MIN} events: {:?}", self.short));
        }
        complaints
    }

    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        let totals = &outcome.totals;
        let is_dull = ["crashes", "drops", "expiries", "moves"].iter().any(|what| totals.count(what) == 0);
        self.dull += u64::from(is_dull);
        // A run that failed ended early.
        if outcome.events < EVENTS_MIN && outcome.failure.is_none() {
            self.short.push(outcome.seed);
        }
        self.fewest_events = Some(self.fewest_events.map_or(outcome.events, |fewest| fewest.min(outcome.events)));
        self.totals.merge(totals);
        if let Some(failure) = &outcome.failure {
            print(&failed(outcome.seed, outcome.groups, failure));
            self.failures.push(outcome.seed);
        }
    }
}

/// A seed that nobody has tried yet.
fn clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_millis() as u64 * 1000)
}
