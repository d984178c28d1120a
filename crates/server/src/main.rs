//! The `riparian` binary.

#![forbid(unsafe_code)]
#![allow(dead_code)]

mod clock;
mod config;
mod logging;
mod net;

fn main() {}
