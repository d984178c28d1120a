//! What the server's busiest paths cost, in instructions counted by callgrind, compared with the figures on record.
//!
//! Instructions are counted, not time: the figures hardly depend on what else the machine does. A path that costs more
//! than it did fails; one that costs less is told, and its figure can be renewed at leisure. A steady heartbeat costs the
//! same in small and in large groups.

#![expect(clippy::print_stdout, reason = "figures belong beside a failure")]

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use riparian_testkit::is_blessing;
use riparian_tests::{paths, valgrind};

const COUNT: u64 = 2000;
/// How much more than on record a path may cost: compilers and processors differ a little.
const TOLERANCE: f64 = 0.05;
/// Largest allowed ratio between the costs in a group of 1,000 members and one of 10.
const SIZE_RATIO_MAX: f64 = 1.2;
const RENEW: &str = "RIPARIAN_BLESS=1 cargo xtask test instructions";

#[test]
fn steady_heartbeat_costs_what_is_on_record_and_the_same_with_10_and_with_1000_members() {
    let small = check("heartbeat, 10 members", &["heartbeat", "10"]);
    let large = check("heartbeat, 1000 members", &["heartbeat", "1000"]);
    let ratio = (large / small).max(small / large);
    assert!(ratio < SIZE_RATIO_MAX, "{small:.0} instructions with 10 members, {large:.0} with 1000: ratio {ratio:.3}");
}

#[test]
fn produce_costs_what_is_on_record() {
    check("produce", &["produce"]);
}

#[test]
fn fetch_costs_what_is_on_record() {
    check("fetch", &["fetch"]);
}

/// Counts, compares, and returns the instructions of one request.
fn check(name: &str, path: &[&str]) -> f64 {
    let found = instructions(path) as f64 / COUNT as f64;
    if is_blessing() {
        renew(name, found);
        return found;
    }
    let record = on_record();
    let Some(&expected) = record.get(name) else { panic!("no figure of `{name}` is on record; to write one: {RENEW}") };
    let change = found / expected - 1.0;
    let told = format!("{name}: {found:.0} instructions, {expected:.0} are on record ({:+.1} %)", change * 100.0);
    println!("{told}");
    assert!(
        change <= TOLERANCE,
        "{told}, at most {:+.0} % are allowed; if that is wanted, write down the new figures and commit them: {RENEW}",
        TOLERANCE * 100.0
    );
    if change < -TOLERANCE {
        println!("{name} has become cheaper; to write that down: {RENEW}");
    }
    found
}

/// The instructions of `COUNT` requests.
fn instructions(path: &[&str]) -> u64 {
    let output = Command::new(valgrind())
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*measured_path*"])
        .arg(paths())
        .args(path)
        .arg(COUNT.to_string())
        .output()
        .expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    let collected = collected.and_then(|number| number.trim().parse().ok());
    collected.filter(|&number| number > COUNT).unwrap_or_else(|| panic!("no instructions are counted: {text}"))
}

/// A line per path: its instructions, then its name.
fn record_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("instructions.txt")
}

fn on_record() -> BTreeMap<String, f64> {
    let text = fs::read_to_string(record_file()).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    lines.filter_map(|(number, name)| Some((name.trim().to_owned(), number.parse().ok()?))).collect()
}

fn renew(name: &str, found: f64) {
    let mut record = on_record();
    record.insert(name.to_owned(), found);
    let text: String = record.iter().map(|(name, number)| format!("{number:>7.0} {name}\n")).collect();
    fs::write(record_file(), text).expect("the record can be written");
    println!("{name}: {found:.0} instructions, now on record");
}
