//! `cargo xtask bench leave`: a leave, beside Kafka in the same run.

#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::process::ExitCode;

use riparian_tests::{Against, leave};

fn main() -> ExitCode {
    let rounds = std::env::var("RIPARIAN_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(7);
    let (kafka, ours) = (leave::time(Against::Kafka, rounds), leave::time(Against::Riparian, rounds));
    let output = |rounds: &[leave::Round]| leave::median(rounds, |round| round.output);
    let (theirs_ms, ours_ms) = (output(&kafka), output(&ours));
    println!("from a leave to the first output of the last moved task (and until the last instance was told), in ms:");
    println!("Kafka:    {}", leave::shown(&kafka));
    println!("Riparian: {}", leave::shown(&ours));
    println!("ratio {:.3}; wanted: 0.2 or less", ours_ms as f64 / theirs_ms as f64);
    if ours_ms * 5 <= theirs_ms { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
