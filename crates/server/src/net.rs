//! Sockets: listeners, connections and their replies.
//!
//! Owns everything about bytes on connections and nothing about what they mean; the broker is behind [`port::Port`].

pub(crate) mod addresses;
pub(crate) mod connection;
pub(crate) mod counters;
pub(crate) mod frames;
pub(crate) mod hub;
pub(crate) mod listen;
pub(crate) mod outbox;
pub(crate) mod port;
pub(crate) mod rate;
pub(crate) mod send;
pub(crate) mod workers;

#[cfg(test)]
mod tests;
