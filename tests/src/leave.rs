//! How long the tasks of an instance that leaves stand still, with default settings.

use std::time::Duration;

use crate::environment::Against;
use crate::java::own_program;
use crate::process::Program;
use crate::server::Server;

const LIMIT: Duration = Duration::from_secs(900);

/// Milliseconds from a leave.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Until the last instance that is left was told of its new tasks: the server's share.
    pub told: u64,
    /// Until the last moved task had its first result.
    pub output: u64,
}

/// Three instances with two threads each share 24 tasks without state; one leaves, so many times.
pub fn time(against: Against, rounds: usize) -> Vec<Round> {
    let server = Server::start_this(against, &[]);
    let states = tempfile::Builder::new().prefix("riparian-states-").tempdir().expect("a directory can be made");
    let mut command = own_program("LeaveTimer");
    command.args(["--bootstrap", &server.bootstrap(), "--rounds", &rounds.to_string(), "--state-dir"]);
    command.arg(states.path());
    let timed = Program::start("leave timer", &mut command).finish(LIMIT).success();
    let numbers = |line: &str| {
        let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
        let (moved, told, output) = (numbers.next()?, numbers.next()?, numbers.next()?);
        assert_eq!(moved, 8, "{line}");
        Some(Round { told, output })
    };
    let timed_rounds: Vec<Round> =
        timed.stdout.lines().filter(|line| line.starts_with("round ")).filter_map(numbers).collect();
    assert_eq!(timed_rounds.len(), rounds, "{}", timed.both());
    timed_rounds
}

/// The middle one.
pub fn median(rounds: &[Round], of: impl Fn(&Round) -> u64) -> u64 {
    let mut values: Vec<u64> = rounds.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// For people.
pub fn shown(rounds: &[Round]) -> String {
    let (output, told) = (median(rounds, |round| round.output), median(rounds, |round| round.told));
    let all: Vec<String> = rounds.iter().map(|round| format!("{} ({})", round.output, round.told)).collect();
    format!("median {output} ms, the server's share {told} ms; rounds {}", all.join(", "))
}
