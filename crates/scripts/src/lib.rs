//! Carries out scripts (`docs/SCRIPTS.md`) over the Kafka protocol.
//!
//! [`Server`] is what a script does to a server: requests, answers, and what was written to `__consumer_offsets`, read
//! back as any consumer could. How requests get there is a port, [`Transport`]: sockets to a real server, or the
//! simulator's network and clock.
//!
//! **Invariant:** nothing here asks what kind of server it is; differences are lines of the scripts.
//! *Absent on purpose:* sockets, clocks, the parts of our server.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admin;
mod barrier;
mod classic;
mod convert;
mod offsets;
mod server;
mod stored;
mod transport;

pub use barrier::wait_for_coordinator;
pub use server::{SETTINGS, Server};
pub use transport::{MAIN, Transport};
