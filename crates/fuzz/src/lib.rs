//! Fuzz targets: each takes any bytes, does something with them that a peer or a disk could do, and panics when a promise
//! is broken.
//!
//! Owns the table of targets. **Invariant:** a target is a function of its input: no clock, no luck, nothing left behind,
//! so that an input that once failed fails again wherever it is replayed, also in a build that is not instrumented.
//! It does not know who makes the inputs: libFuzzer (`src/bin/libfuzzer.rs`), the committed corpus (`tests/corpus.rs`),
//! or somebody's hand (`src/main.rs`).
//!
//! An input is read from its front; past its end everything is zero ([`input::Input`]). So every input means something,
//! a short one too, and bytes that are taken out or put in shift what follows instead of making it senseless.

#![warn(missing_docs)]

mod batches;
pub mod corpus;
mod groups;
mod input;
#[path = "../../protocol/tests/support/memory.rs"]
mod memory;
mod messages;
mod metadata;
mod oracle;
mod recovery;
mod replay;
mod seeds;
mod shard;
mod stored;
mod wire;

pub use seeds::seeds;

/// Something to be fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also that of its corpus.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// Longer inputs find nothing that shorter ones don't, and take longer.
    pub input_bytes_max: usize,
    /// What it promises, in one line.
    pub shows: &'static str,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "batches",
        run: batches::run,
        input_bytes_max: 1024,
        shows: "what a client produces is a batch or refused, in every codec; what was checked can be read and stamped",
    },
    Target {
        name: "groups",
        run: groups::run,
        input_bytes_max: 512,
        shows: "commands to the group machine, with crashes: no task has two owners, epochs never go back, replay equals live",
    },
    Target {
        name: "messages",
        run: messages::run,
        input_bytes_max: 2048,
        shows: "every request and response in every version: decoded within its budget or refused, and encoded again alike",
    },
    Target {
        name: "metadata",
        run: metadata::run,
        input_bytes_max: 1024,
        shows: "commands to the metadata machine, with crashes: names and ids belong to one topic, replay equals live",
    },
    Target {
        name: "recovery",
        run: recovery::run,
        input_bytes_max: 768,
        shows: "a log over damaged files: what lies before the damage is read, nothing is invented, opening again does nothing",
    },
    Target {
        name: "replay",
        run: replay::run,
        input_bytes_max: 2048,
        shows: "any records of groups and metadata load; a group that contradicts itself is put aside and can be deleted",
    },
    Target {
        name: "stored",
        run: stored::run,
        input_bytes_max: 1024,
        shows: "every stored record in every version: decoded within its budget or refused, and encoded again alike",
    },
    Target {
        name: "wire",
        run: wire::run,
        input_bytes_max: 512,
        shows: "every primitive of the protocol reads what it writes, within the bytes and the budget there are",
    },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
