//! The list of suites, from quick to slow.
//!
//! A conformance suite is a file of `tests/tests`; a new file is a new suite without a change here.

use anyhow::{Context as _, Result};

use crate::shell;

pub(super) struct Suite {
    pub(super) name: String,
    /// Part of `ci --quick`.
    pub(super) quick: bool,
    pub(super) work: Work,
}

impl Suite {
    /// Whether it has nothing to say about another broker.
    pub(super) fn is_ours_only(&self) -> bool {
        matches!(&self.work, Work::Conformance(target) if OURS_ONLY.contains(&target.as_str()))
    }

    /// Whether its tests can be chosen by name.
    pub(super) fn has_filter(&self) -> bool {
        match &self.work {
            Work::Check(_) => false,
            Work::Cargo(arguments) => arguments.first() == Some(&"test"),
            Work::Conformance(_) => true,
        }
    }

    /// Whether it may run beside another one of its kind.
    pub(super) fn is_sharing(&self) -> bool {
        self.place_in_line().is_some()
    }

    /// Its turn among those that run beside each other.
    pub(super) fn place_in_line(&self) -> Option<usize> {
        SHARING.iter().position(|sharing| *sharing == self.name)
    }

    /// Whether it needs the jars of Kafka's own tests.
    pub(super) fn runs_kafkas_tests(&self) -> bool {
        matches!(&self.work, Work::Conformance(target) if target == PEER)
    }

    /// Whether it needs the program that is only built for it.
    pub(super) fn counts_instructions(&self) -> bool {
        matches!(&self.work, Work::Conformance(target) if target == "instructions")
    }
}

pub(super) enum Work {
    /// Runs inside this program; an error is the log.
    Check(fn() -> Result<()>),
    /// A cargo command.
    Cargo(&'static [&'static str]),
    /// A test target of the package `riparian-tests`, given the server and the clients.
    Conformance(String),
}

/// Kafka's own tests: a target of which the tests run the fast part, and `cargo xtask soak peer` what it is asked for.
const PEER: &str = "peer";

/// Conformance targets about our own binary, where another broker has nothing to show, and the one that starts both.
const OURS_ONLY: &[&str] = &[
    "admin",
    "differential",
    "exchange",
    "field_cases",
    "ghosts",
    "instructions",
    "large_groups",
    "metrics",
    "mutated_heartbeats",
    "operating",
    "patterns",
    PEER,
    "rebalance",
    "startup",
    "swarm",
    "warmups",
];

/// Suites that wait for clients and clocks most of the time, or need nothing but a processor, and measure nothing; the
/// longest first. They share the machine with others of these, the rest have it for themselves.
const SHARING: &[&str] = &[
    "conformance-differential",
    "conformance-swarm",
    "conformance-streams",
    "conformance-peer-fast",
    "conformance-client-versions",
    "conformance-mutated-heartbeats",
    "conformance-rolling",
    "conformance-admin",
    "conformance-exchange",
    "conformance-large-groups",
    "conformance-tools",
    "simulation-finds-bugs",
    "conformance-producer",
    "conformance-files",
    "conformance-bad-input",
    "conformance-clients",
    "conformance-metrics",
    "conformance-command-line",
    "conformance-odd-clients",
    "conformance-codec",
];

/// Conformance targets whose tests wait for tools and applications more than for the server, and may run side by side.
const SIDE_BY_SIDE: &[&str] = &["client_versions", "files", "ghosts", "metrics", "tools"];

/// The same seed twice, then fixed seeds, then random ones for half a minute. What a random seed finds may be older than
/// the change at hand; the simulator says so and what to do with it.
const SIMULATION: &[&str] = &["run", "--quiet", "--profile", "sim", "--package", "riparian-sim", "--", "ci"];

/// Bugs that are built in for this only, each found by one of the fixed seeds.
const PLANTED_BUGS: &[&str] =
    &["run", "--quiet", "--profile", "sim", "--package", "riparian-sim", "--features", "planted-bugs", "--", "planted"];

/// How many tests of a conformance target run at a time.
pub(super) fn test_threads(target: &str) -> u32 {
    if SIDE_BY_SIDE.contains(&target) { 2 } else { 1 }
}

pub(super) fn all() -> Result<Vec<Suite>> {
    let quick = |name: &str, work| Suite { name: name.to_owned(), quick: true, work };
    let mut suites = vec![
        quick("format", Work::Cargo(&["fmt", "--all", "--check"])),
        quick("tidy", Work::Check(super::tidy_suite)),
        quick("codegen", Work::Cargo(&["xtask", "codegen", "--check"])),
        quick("lints", Work::Cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"])),
        quick(
            "unit",
            Work::Cargo(&["test", "--quiet", "--workspace", "--exclude", "riparian-tests", "--no-fail-fast"]),
        ),
    ];
    suites.push(Suite { name: "schemas".to_owned(), quick: false, work: Work::Check(crate::schemas::suite) });
    suites.push(Suite { name: "simulation".to_owned(), quick: false, work: Work::Cargo(SIMULATION) });
    suites.push(Suite { name: "simulation-finds-bugs".to_owned(), quick: false, work: Work::Cargo(PLANTED_BUGS) });
    suites.extend(conformance_targets()?.iter().map(|target| conformance(target)));
    suites.push(Suite { name: format!("conformance-{PEER}-fast"), ..conformance(PEER) });
    Ok(suites)
}

/// The suite of a target of the package `riparian-tests`.
pub(super) fn conformance(target: &str) -> Suite {
    let name = format!("conformance-{}", target.replace('_', "-"));
    Suite { name, quick: false, work: Work::Conformance(target.to_owned()) }
}

fn conformance_targets() -> Result<Vec<String>> {
    let dir = shell::root().join("tests").join("tests");
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            targets.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    targets.sort();
    Ok(targets)
}
