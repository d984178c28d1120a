//! Scenarios of the whole machine, each a readable script and what it leads to.

mod driver;
mod lifecycle;
mod script;

pub(crate) use script::topology;
