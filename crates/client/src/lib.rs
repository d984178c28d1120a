//! A Kafka client for tools and tests, in two layers.
//!
//! [`ClientCore`] is one connection without the connection: it numbers requests, negotiates versions and turns bytes
//! into answers, and can be driven by anything that moves bytes. [`Connection`] drives it over a blocking socket with
//! timeouts; [`Cluster`] finds the nodes behind a list of addresses, and [`admin`] says what tools want to say.
//!
//! Works with any Kafka-compatible server. It does not retry, batch or cache: whoever calls it decides.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod admin;
mod cluster;
mod connection;
mod core;
mod error;

pub use cluster::Cluster;
pub use connection::{Answer, Connection, Options};
pub use core::{ClientCore, CoreError, Received};
pub use error::{ClientError, ServerError};
