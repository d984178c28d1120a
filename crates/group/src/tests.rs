//! Scenarios of the whole machine, each a readable script and what it leads to.

mod classic;
mod classic_simulation;
mod client;
mod convert;
mod driver;
mod groups;
mod pattern_slices;
mod patterns;
mod script;
mod settled;
mod simulation;
mod telemetry;
mod topics;
mod validation;
mod warmups;

pub(crate) use client::topology;
