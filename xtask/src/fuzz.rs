//! `fuzz` and `soak fuzz`: builds the fuzz targets for libFuzzer and runs them.
//!
//! Owns what it needs from a compiler (coverage, on the stable toolchain, without cargo-fuzz), where inputs are kept, and
//! what is said about a find. A run begins with the committed corpus and what earlier runs have found; what is new goes
//! to the target directory, and into the repository only when it is asked to.
//! It does not know what a target does, nor which there are: the program that it builds says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result, bail};
use clap::{Args, builder::RangedU64ValueParser};

use crate::shell::{self, Scratch, Step};

/// Coverage by counters in the code and by operands of comparisons: what cargo-fuzz asks a nightly compiler for.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Many inputs in one file, one per line in hexadecimal.
const MERGED: &str = "merged.hex";
/// Most bytes of them, the small inputs first: everybody has them, and every run of the tests replays them.
const MERGED_BYTES_MAX: usize = 40_000;
const PROFILE: &str = "sim";
const TARGET_VARIABLE: &str = "RIPARIAN_FUZZ_TARGET";
/// An input that takes longer is a find.
const INPUT_SECONDS_MAX: usize = 10;
const MEMORY_MIB_MAX: u32 = 1024;
/// How much of what a panic says is shown; all of it is in the log.
const MESSAGE_LINES_MAX: usize = 4;

#[derive(Args)]
pub(crate) struct Options {
    /// Which targets, by name; all if none is named
    targets: Vec<String>,
    /// Name the targets, with what each shows, and stop
    #[arg(long)]
    list: bool,
    /// How long each target runs
    #[arg(long, default_value_t = 60, conflicts_with = "runs", value_parser = at_least_one())]
    seconds: u64,
    /// How many inputs each target runs, instead of a time
    #[arg(long, value_parser = at_least_one())]
    runs: Option<u64>,
    /// How many targets run at a time
    #[arg(long, default_value_t = 1, value_parser = jobs())]
    jobs: u64,
    /// Run nothing; add to the committed corpora what earlier runs have found: few and small inputs that reach most of
    /// what was reached
    #[arg(long, conflicts_with_all = ["runs", "seconds", "list"])]
    merge: bool,
}

/// What libFuzzer takes for a length; 0 means for ever.
pub(crate) fn at_least_one() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=i32::MAX as u64)
}

pub(crate) fn jobs() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=256)
}

/// How long a target runs.
#[derive(Clone, Copy)]
enum Length {
    Seconds(u64),
    Runs(u64),
}

pub(crate) fn fuzz(options: &Options) -> Result<()> {
    check_names(&options.targets)?;
    let fuzzer = Fuzzer::build()?;
    let targets = fuzzer.targets(&options.targets)?;
    if options.list {
        targets.iter().for_each(|target| shell::print_line(&format!("{:<10} {}", target.name, target.shows)));
        return Ok(());
    }
    if options.merge {
        return targets.iter().try_for_each(|target| fuzzer.merge(target));
    }
    let length = options.runs.map_or(Length::Seconds(options.seconds), Length::Runs);
    fuzzer.run_all(&targets, length, options.jobs)
}

/// Every target for so long.
pub(crate) fn soak(targets: &[String], seconds: u64, jobs: u64) -> Result<()> {
    check_names(targets)?;
    let fuzzer = Fuzzer::build()?;
    let targets = fuzzer.targets(targets)?;
    fuzzer.run_all(&targets, Length::Seconds(seconds), jobs)
}

/// Every target has a corpus, so that a misspelt name need not wait for the build.
fn check_names(names: &[String]) -> Result<()> {
    let Some(unknown) = names.iter().find(|name| !committed(name).is_dir()) else { return Ok(()) };
    let corpora = committed("").canonicalize().context("the corpora are gone")?;
    let mut known = Vec::new();
    for entry in fs::read_dir(&corpora).with_context(|| format!("cannot list {}", corpora.display()))? {
        known.push(entry?.file_name().to_string_lossy().into_owned());
    }
    known.sort();
    bail!("there is no target {unknown}, only {}", known.join(", "));
}

/// The program of all targets.
struct Fuzzer {
    binary: PathBuf,
    /// Holds the binary: a build while a long run goes on must not take it away.
    _scratch: Scratch,
}

struct Target {
    name: String,
    input_bytes_max: String,
    shows: String,
}

/// How a run of a target went.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    runs: u64,
    runs_per_second: u64,
    new_inputs: u64,
    memory_mib: u64,
    /// Somebody ended it before its time.
    is_interrupted: bool,
    find: Option<Find>,
}

/// An input that breaks a promise.
#[derive(Debug, Default, PartialEq, Eq)]
struct Find {
    message: String,
    input: Option<PathBuf>,
}

impl Fuzzer {
    /// Builds it if it is not there yet, in a directory of its own: its code is not that of other builds.
    fn build() -> Result<Self> {
        check_compiler()?;
        let host = host()?;
        let dir = home().join("build");
        let binary = dir.join(&host).join(PROFILE).join("riparian-libfuzzer");
        let patience = if binary.is_file() { "" } else { " (takes minutes the first time)" };
        let step = Step::start(&format!("building the fuzz targets{patience}"));
        let mut command = shell::cargo();
        command.args(["build", "--quiet", "--package", "riparian-fuzz", "--features", "libfuzzer"]);
        command.args(["--bin", "riparian-libfuzzer", "--profile", PROFILE]);
        // With a target named, build scripts and macros are not instrumented: they would not link.
        command.args(["--target", &host]).env("CARGO_TARGET_DIR", &dir);
        command.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", FLAGS.join(" "));
        shell::run_quietly(&mut command)?;
        step.done();
        let scratch = Scratch::new("fuzz-run")?;
        let copy = scratch.path().join("riparian-libfuzzer");
        fs::copy(&binary, &copy).with_context(|| format!("cannot copy {}", binary.display()))?;
        Ok(Self { binary: copy, _scratch: scratch })
    }

    /// The targets of these names, or all.
    fn targets(&self, names: &[String]) -> Result<Vec<Target>> {
        let output = shell::run_quietly(&mut Command::new(&self.binary))?;
        let all = parse_targets(&String::from_utf8_lossy(&output.stdout));
        if let Some(unknown) = names.iter().find(|name| !all.iter().any(|target| target.name == **name)) {
            let known: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
            bail!("there is no target {unknown}, only {}", known.join(", "));
        }
        Ok(all.into_iter().filter(|target| names.is_empty() || names.contains(&target.name)).collect())
    }

    fn run_all(&self, targets: &[Target], length: Length, jobs: u64) -> Result<()> {
        let next = AtomicUsize::new(0);
        let jobs = targets.len().min(jobs as usize);
        let outcomes = Mutex::new(Vec::new());
        // A target that shares its core with others is not slow itself.
        let sharing = jobs.div_ceil(thread::available_parallelism().map_or(1, usize::from)).max(1);
        let input_seconds_max = INPUT_SECONDS_MAX * sharing;
        let work = || {
            while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.run(target, length, input_seconds_max);
                outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((&target.name, outcome));
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(work);
            }
        });
        let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcomes.sort_by_key(|(name, _)| *name);
        let (mut finds, mut interrupted) = (0, 0);
        shell::print_line("target           runs   per second   new inputs   MiB   found");
        for (name, outcome) in outcomes {
            let outcome = outcome.with_context(|| format!("target {name}"))?;
            finds += usize::from(outcome.find.is_some());
            interrupted += usize::from(outcome.is_interrupted);
            shell::print_line(&row(name, &outcome));
        }
        if finds > 0 {
            bail!("{finds} target(s) found something, see above");
        }
        if interrupted > 0 { bail!("{interrupted} target(s) were interrupted") } else { Ok(()) }
    }

    fn run(&self, target: &Target, length: Length, input_seconds_max: usize) -> Result<Outcome> {
        let name = &target.name;
        let (grown, finds) = (grown(name), home().join("finds").join(name));
        fs::create_dir_all(&grown).with_context(|| format!("cannot create {}", grown.display()))?;
        fs::create_dir_all(&finds).with_context(|| format!("cannot create {}", finds.display()))?;
        let log = home().join(format!("{name}.log"));
        let output = fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = self.command(target);
        command.arg(match length {
            Length::Seconds(seconds) => format!("-max_total_time={seconds}"),
            Length::Runs(runs) => format!("-runs={runs}"),
        });
        command.args([format!("-timeout={input_seconds_max}"), format!("-rss_limit_mb={MEMORY_MIB_MAX}")]);
        command.args(["-print_final_stats=1", "-reload=0", "-len_control=20"]);
        command.arg(format!("-artifact_prefix={}/", finds.display()));
        command.arg(&grown).arg(committed_inputs(name)?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let start = Instant::now();
        let status = command.status().with_context(|| format!("cannot run {}", self.binary.display()))?;
        // It shows bytes of inputs, which need not be text.
        let mut outcome = parse_log(&String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()));
        if outcome.is_interrupted {
            shell::talk(&format!("{name}: interrupted after {} runs", outcome.runs));
            return Ok(outcome);
        }
        if status.success() {
            shell::talk(&format!("{name}: nothing found in {} runs", outcome.runs));
            return Ok(outcome);
        }
        let find = outcome.find.get_or_insert_default();
        shell::talk(&tell(name, find, start.elapsed(), &log));
        Ok(outcome)
    }

    /// Takes into the committed corpus what reaches something that it does not reach.
    fn merge(&self, target: &Target) -> Result<()> {
        let name = &target.name;
        let merged = empty_dir(home().join("merged").join(name))?;
        let mut command = self.command(target);
        command.arg("-set_cover_merge=1").arg(&merged).arg(committed_inputs(name)?).arg(grown(name));
        shell::run_quietly(&mut command)?;
        let mut inputs = files(&merged)?.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
        inputs.sort_by_key(|bytes| (bytes.len(), bytes.clone()));
        let mut total = 0;
        inputs.retain(|bytes| {
            total += bytes.len();
            total <= MERGED_BYTES_MAX
        });
        let lines: String = inputs.iter().map(|bytes| to_hex(bytes) + "\n").collect();
        let file = committed(name).join(MERGED);
        fs::write(&file, lines).with_context(|| format!("cannot write {}", file.display()))?;
        shell::print_line(&format!("{name:<10} {} inputs in {}", inputs.len(), file.display()));
        Ok(())
    }

    fn command(&self, target: &Target) -> Command {
        let mut command = Command::new(&self.binary);
        // Where it panics it says; the way there shows when the input is run again.
        command.env("RUST_BACKTRACE", "0");
        command.env(TARGET_VARIABLE, &target.name).arg(format!("-max_len={}", target.input_bytes_max));
        command
    }
}

/// Where everything is kept that can be made again.
fn home() -> PathBuf {
    shell::target_dir().join("fuzz")
}

/// What was found to reach something, by any run on this machine.
fn grown(target: &str) -> PathBuf {
    home().join("corpus").join(target)
}

fn committed(target: &str) -> PathBuf {
    shell::root().join("crates").join("fuzz").join("corpus").join(target)
}

/// The committed inputs as libFuzzer wants them: a file each.
fn committed_inputs(target: &str) -> Result<PathBuf> {
    let dir = empty_dir(home().join("committed").join(target))?;
    for file in files(&committed(target))? {
        let name = file.file_name().context("an input has a name")?;
        if name != MERGED {
            fs::copy(&file, dir.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for (index, line) in text.lines().enumerate() {
            let bytes = from_hex(line).with_context(|| format!("{}:{}: not hexadecimal", file.display(), index + 1))?;
            fs::write(dir.join(format!("merged-{}", index + 1)), bytes)?;
        }
    }
    Ok(dir)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn empty_dir(dir: PathBuf) -> Result<PathBuf> {
    if dir.is_dir() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// libFuzzer itself is C++, and comes as source.
fn check_compiler() -> Result<()> {
    let named = std::env::var_os("CXX");
    let is_there = match &named {
        Some(name) => Path::new(name).is_file() || shell::find_program(name).is_some(),
        None => shell::find_program("c++").is_some(),
    };
    if is_there {
        return Ok(());
    }
    match named {
        Some(name) => bail!("the C++ compiler that CXX names, {}, is not there", name.display()),
        None => bail!(
            "fuzzing needs a C++ compiler, as libFuzzer comes as source: install one (Debian: apt-get install g++), or \
             name one in CXX; the committed inputs run without: cargo test -p riparian-fuzz"
        ),
    }
}

/// The platform that the compiler runs on.
fn host() -> Result<String> {
    let output = shell::run_quietly(Command::new("rustc").current_dir(shell::root()).arg("-vV"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it runs on")?.to_owned())
}

fn parse_targets(text: &str) -> Vec<Target> {
    let parse = |line: &str| {
        let mut words = line.splitn(3, '\t').map(str::to_owned);
        Some(Target { name: words.next()?, input_bytes_max: words.next()?, shows: words.next()? })
    };
    text.lines().filter_map(parse).collect()
}

/// Reads what libFuzzer says at the end of a run.
fn parse_log(text: &str) -> Outcome {
    let number = |name: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(&format!("stat::{name}:")))?;
        line.trim().parse().ok()
    };
    let input = text.lines().find_map(|line| line.split("Test unit written to ").nth(1)).map(PathBuf::from);
    let panicked = text.lines().skip_while(|line| !line.contains(" panicked at "));
    let said =
        panicked.take_while(|line| !line.starts_with("note: ") && !line.starts_with("==")).take(MESSAGE_LINES_MAX);
    let mut message = said.collect::<Vec<_>>().join("\n");
    if message.is_empty()
        && let Some(error) = text.lines().find(|line| line.contains("ERROR: libFuzzer"))
    {
        error.clone_into(&mut message);
    }
    let find = (input.is_some() || !message.is_empty()).then_some(Find { message, input });
    Outcome {
        runs: number("number_of_executed_units").unwrap_or(0),
        runs_per_second: number("average_exec_per_sec").unwrap_or(0),
        new_inputs: number("new_units_added").unwrap_or(0),
        memory_mib: number("peak_rss_mb").unwrap_or(0),
        is_interrupted: text.lines().any(|line| line.contains("libFuzzer: run interrupted")),
        find,
    }
}

fn row(name: &str, outcome: &Outcome) -> String {
    let Outcome { runs, runs_per_second, new_inputs, memory_mib, is_interrupted, find } = outcome;
    let found = match find {
        Some(_) => "YES",
        None if *is_interrupted => "interrupted",
        None => "nothing",
    };
    format!("{name:<10} {runs:>10}   {runs_per_second:>10}   {new_inputs:>10}   {memory_mib:>3}   {found}")
}

/// What to do with a find.
fn tell(name: &str, find: &Find, after: Duration, log: &Path) -> String {
    let mut text = format!("{name}: FOUND something after {} s\n", after.as_secs());
    for line in find.message.lines() {
        text += &format!("    {}\n", line.trim());
    }
    match &find.input {
        Some(input) => {
            let (input, corpus) = (input.display(), committed(name));
            text += &format!("  input      {input}\n");
            text += &format!("  reproduce  cargo run -p riparian-fuzz -- {name} {input}\n");
            text += &format!("  keep       cp {input} {}/NAME-OF-THE-FAULT\n", corpus.display());
            text += "             and, once it is mended: cargo test -p riparian-fuzz\n";
        }
        None => text += "  there is no input: the program itself has failed\n",
    }
    text + &format!("  log        {}", log.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_good_run_is_read() {
        let log = "#2\tINITED cov: 3\nDone 123 runs in 2 second(s)\nstat::number_of_executed_units: 123\n\
                   stat::average_exec_per_sec:     61\nstat::new_units_added:          7\nstat::peak_rss_mb:     42\n";
        let expected = Outcome { runs: 123, runs_per_second: 61, new_inputs: 7, memory_mib: 42, ..Outcome::default() };
        assert_eq!(parse_log(log), expected);
        let interrupted = parse_log(&format!("==7== libFuzzer: run interrupted; exiting\n{log}"));
        assert_eq!(interrupted, Outcome { is_interrupted: true, ..expected });
    }

    #[test]
    fn find_is_told_with_its_input() {
        let log = "\nthread '<unnamed>' panicked at crates/x/src/y.rs:1:2:\nboom\nnote: run with more\n\
                   ==1== ERROR: libFuzzer: deadly signal\n\
                   artifact_prefix='/t/'; Test unit written to /t/crash-0a\n";
        let find = parse_log(log).find.expect("something was found");
        assert_eq!(find.message.lines().collect::<Vec<_>>()[1..], ["boom"]);
        assert_eq!(find.input, Some(PathBuf::from("/t/crash-0a")));
        let text = tell("wire", &find, Duration::from_secs(3), Path::new("/t/log"));
        for part in ["crates/x/src/y.rs:1:2", "boom", "cargo run -p riparian-fuzz -- wire /t/crash-0a", "/wire/NAME"] {
            assert!(text.contains(part), "{text}");
        }
        let slow = parse_log("==1== ERROR: libFuzzer: timeout after 10 seconds\n").find.expect("something was found");
        assert_eq!(slow.message, "==1== ERROR: libFuzzer: timeout after 10 seconds");
    }

    #[test]
    fn targets_are_what_the_program_says() {
        let targets = parse_targets("wire\t512\tit reads\nnonsense\nstored\t9\ta b\n");
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!((names, targets[1].shows.as_str()), (vec!["wire", "stored"], "a b"));
    }

    #[test]
    fn inputs_are_kept_in_hexadecimal() {
        let bytes = [0, 9, 0xff];
        assert_eq!(to_hex(&bytes), "0009ff");
        assert_eq!(from_hex("0009ff"), Some(bytes.to_vec()));
        assert_eq!((from_hex("0"), from_hex("xy")), (None, None));
    }
}
