//! Runs a state machine over a log: decide, append, apply, gate.
//!
//! [`Shard`] is generic over its machine, its record codec and its log; [`codecs`] has Kafka's bytes for the records of
//! this server's machines. It knows no wire protocol and no files.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod codec;
pub mod codecs;
mod gate;
mod port;
mod shard;
mod subscription;
#[cfg(test)]
mod tests;

pub use codec::{Decoded, KeyValue, RecordCodec};
pub use port::{LogFailure, RecordLog};
pub use shard::{LoadReport, Outcome, Shard};
pub use subscription::subscribed_topics;
