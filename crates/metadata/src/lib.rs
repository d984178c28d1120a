//! The machine for the cluster's metadata: topics, configs, finalized features, producer-id blocks.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
