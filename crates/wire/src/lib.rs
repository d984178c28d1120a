//! Primitives of the Kafka protocol, without any message: variable-length integers, bounded cursors, compact and tagged
//! fields, framing.
//!
//! **Invariant:** nothing here panics, or reserves memory, because of a number that a peer sent: every length is checked
//! against the bytes that are left and against a budget of decoded bytes first.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod varint;
