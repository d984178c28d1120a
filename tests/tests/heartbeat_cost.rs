//! What a steady heartbeat costs: the same in small and in large groups.
//!
//! Instructions are counted, not time: the figures hardly depend on what else the machine does. The cost of heartbeats
//! alone is the difference between a run with many and a run with few.

use std::process::Command;

use riparian_tests::{steady_heartbeat, valgrind};

const FEW: u64 = 1000;
const MANY: u64 = 5000;
/// Largest allowed ratio between the costs in a group of 1,000 members and one of 10.
const RATIO_MAX: f64 = 1.2;

#[test]
fn steady_heartbeat_costs_the_same_with_10_and_with_1000_members() {
    let small = instructions_per_heartbeat(10);
    let large = instructions_per_heartbeat(1000);
    let ratio = large / small;
    println!("instructions per steady heartbeat: {small:.0} with 10 members, {large:.0} with 1000, ratio {ratio:.3}");
    assert!(ratio < RATIO_MAX, "{small:.0} instructions with 10 members, {large:.0} with 1000: ratio {ratio:.3}");
    assert!(ratio > 1.0 / RATIO_MAX, "{small:.0} instructions with 10 members, {large:.0} with 1000: ratio {ratio:.3}");
}

fn instructions_per_heartbeat(members: u64) -> f64 {
    let few = instructions(members, FEW);
    let many = instructions(members, MANY);
    (many - few) as f64 / (MANY - FEW) as f64
}

fn instructions(members: u64, heartbeats: u64) -> u64 {
    let output = Command::new(valgrind())
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(steady_heartbeat())
        .args([members, members * 2, heartbeats].map(|number| number.to_string()))
        .output()
        .expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no instruction count in: {text}"))
}
