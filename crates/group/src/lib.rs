//! The machine for groups: streams groups (KIP-1071), classic groups and committed offsets.
//!
//! It takes typed commands and gives decisions; see [`riparian_types::machine`]. One machine serves one partition of
//! `__consumer_offsets`. It knows no wire format, no error code and no log: the broker translates its
//! [`command`]s and [`reply`]s, the coordinator its [`record`]s. What a client's version can do comes in as flags.
//!
//! **Invariants.** By the records no active task has two owners, and a group's epochs never go back. A decision's records
//! lead to exactly the state that its answer describes. A heartbeat in which nothing changes writes nothing, and costs
//! the same in a group of ten and of a thousand members.
//!
//! Inside, tasks are numbers and sets of them sorted vectors; what is asked at every heartbeat (the group's state, whether
//! a topic changed) is kept up to date by whoever changes it. The metadata hash, by which a group notices changed topics,
//! is an XXH3-64 that other servers of Kafka's records compute alike.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

#[cfg(test)]
extern crate std;

pub mod classic;
pub mod command;
pub mod config;
mod creation;
mod describe;
mod expiry;
mod group;
pub mod limits;
mod machine;
mod offsets;
mod pace;
pub mod record;
pub mod reply;
mod soft;
pub mod streams;
mod tasks;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod timers;

pub use machine::GroupMachine;
pub use soft::GroupSoft;
