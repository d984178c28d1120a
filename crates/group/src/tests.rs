//! Scenarios of the whole machine, each a readable script and what it leads to.

mod assignment;
mod driver;
mod groups;
mod lifecycle;
mod offsets;
mod reconciliation;
mod script;
mod simulation;
mod static_members;
mod topics;
mod validation;

pub(crate) use script::topology;
