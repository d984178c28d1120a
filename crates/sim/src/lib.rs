//! A deterministic simulator of the whole server with its clients.
//!
//! Broker, shards, machines and log run as they are, on one thread. Time is the time of the next event; disk and network
//! are virtual, and everything that may happen in more than one way is drawn from the seed. Faults go on for a while,
//! then they stop, and everything must come to rest. While it runs, oracles with their own simple picture of the world
//! watch what clients are told and what reaches the disk.
//!
//! **Invariant:** the same seed gives the same run, line by line.
//!
//! It deliberately does not know how the server is built inside: it sees requests, answers, files, and one question
//! ([`riparian_broker::Broker::check_replay`]).

#![warn(missing_docs)]

mod actors;
mod app;
mod client;
mod core;
mod disk;
mod fixed;
mod network;
mod opaque;
mod options;
mod oracle;
mod queue;
mod script;
mod server;
mod shell;
mod suspended;
mod trace;
mod world;

pub use fixed::FIXED_SEEDS;
pub use options::Groups;
pub use script::check_script;
pub use trace::{Mode, Totals};
pub use world::{Outcome, run};
