//! What happened, line by line, and what it adds up to.
//!
//! **Invariant:** the same seed gives the same lines, byte for byte; the hash is over all of them.

use std::{collections::BTreeMap, fmt};

use xxhash_rust::xxh3::Xxh3;

/// The lines of a run, hashed, and kept or shown if asked for.
pub(crate) struct Trace {
    hash: Xxh3,
    lines: u64,
    mode: Mode,
    kept: Vec<String>,
    line: String,
}

/// What becomes of the lines besides being hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    HashOnly,
    /// They are kept and returned.
    Keep,
}

impl Trace {
    pub(crate) fn new(mode: Mode) -> Self {
        Self { hash: Xxh3::new(), lines: 0, mode, kept: Vec::new(), line: String::new() }
    }

    pub(crate) fn say(&mut self, now_us: u64, text: fmt::Arguments<'_>) {
        use fmt::Write as _;
        self.line.clear();
        let written = write!(self.line, "{:5}.{:06} {text}", now_us / 1_000_000, now_us % 1_000_000);
        debug_assert!(written.is_ok(), "a string takes everything");
        self.hash.update(self.line.as_bytes());
        self.hash.update(b"\n");
        self.lines += 1;
        if self.mode == Mode::Keep {
            self.kept.push(self.line.clone());
        }
    }

    pub(crate) fn finish(self) -> (u64, u64, Vec<String>) {
        (self.hash.digest(), self.lines, self.kept)
    }
}

/// Numbers that show that a run was worth it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    counts: BTreeMap<&'static str, u64>,
}

impl Totals {
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    /// How often this happened.
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Adds another run's numbers.
    pub fn merge(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            self.add(what, *count);
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (what, count)) in self.counts.iter().enumerate() {
            write!(f, "{}{count} {what}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
