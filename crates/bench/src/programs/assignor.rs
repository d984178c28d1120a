//! `assignor`: how fast the assignors are beside Kafka's own class, and whether `sticky` decides as that class does.
//!
//! Kafka's class runs in a JVM of its own (`tests/java/riparian/KafkaSticky.java`), warmed up, on the same inputs: those of
//! `tests/assignor`, and seeded groups that change. Where the class itself decides otherwise when members and tasks are
//! put in in another order, nothing is determined and nothing compared.

mod inputs;
#[path = "../../../assignor/tests/bench_inputs/spec.rs"]
#[expect(clippy::unwrap_used, reason = "the files are our own; a panic is how a benchmark fails")]
mod spec;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use riparian_assignor::{
    Assignment, AssignmentInput, CostModel, StickyTaskAssignor, TaskAssignor, assign_checked, built_in,
};
use serde_json::Value;

use super::{Benchmark, Plan};
use crate::{
    figures::{median_of, millis, shown},
    report::{Section, Table, say},
};

const ROUNDS: u32 = 15;
/// How often Kafka's class decides about the same group, each time put in in another order.
const ORDERS: &str = "20";
const CHANGED_GROUPS: usize = 500;
const KAFKA_JVM: &[&str] = &["-Xmx1g", "-Xms1g", "-XX:+UseParallelGC"];
/// The inputs of which it is said how much faster ours must be.
const RATIO_INPUTS: &[&str] =
    &["04-full-m1000-s100-p100-r1-mpp1", "06-add-m1000-s100-p100-r1-mpp1", "09-add-offsets-m1000-s100-p100-r1-mpp1"];
const RATIO_MIN: f64 = 8.0;
const GROWTH_MAX: f64 = 12.0;
const OPTIMAL_MAX_MS: f64 = 100.0;

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let rounds = plan.rounds(ROUNDS);
    let mut section = Section::new(
        plan.command(Benchmark::Assignor, ROUNDS),
        &[
            "Each assignor decides about the same groups: members, sub-topologies, partitions, standbys and members per process stand in their names.",
            "Kafka's is the class `StickyTaskAssignor` of 4.4.0 in a JVM of its own, after as many rounds that don't count.",
        ],
    );
    section.note(format!("Medians of {rounds} rounds; ms."));
    let mut named: Vec<(String, AssignmentInput)> =
        spec::kafka_quality().into_keys().map(|name| (name.clone(), spec::read(&name))).collect();
    named.extend(inputs::made_up());
    let mut kafka = Kafka::start(plan, rounds * 10)?;
    let mut table =
        Table::new("Time to decide, ms", &["group", "Kafka `sticky`", "`sticky`", "ratio", "`balanced`", "`optimal`"]);
    let (mut ratios, mut optimal_max, mut growth) = (Vec::new(), 0f64, [0f64; 2]);
    for (name, input) in &named {
        let answer = kafka.ask(input)?;
        let theirs = answer["nanos"].as_u64().context("Kafka's class tells no time")? as f64 / 1e6;
        let of = |assignor: &dyn TaskAssignor| time(assignor, input, rounds);
        let ours: Vec<f64> = built_in::ASSIGNORS.iter().map(|assignor| of(*assignor)).collect();
        let [sticky, balanced, optimal] = ours[..] else { bail!("there are {} assignors", ours.len()) };
        say(&format!("{name}: Kafka {theirs:.2} ms, sticky {sticky:.3}, balanced {balanced:.3}, optimal {optimal:.2}"));
        if RATIO_INPUTS.contains(&name.as_str()) {
            ratios.push(theirs / sticky);
        }
        optimal_max = optimal_max.max(optimal);
        for (place, tasks) in [inputs::SMALL, inputs::LARGE].into_iter().enumerate() {
            if name == tasks {
                growth[place] = sticky;
            }
        }
        let cells = [name.clone(), shown(theirs), shown(sticky), format!("{:.1}", theirs / sticky)];
        table.row([&cells[..], &[shown(balanced), shown(optimal)]].concat());
    }
    section.table(table);
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let wanted = format!("sticky at least {RATIO_MIN} times as fast as Kafka's class with 10,000 tasks and a standby");
    section.target(&wanted, format!("{least:.1}"), least >= RATIO_MIN);
    let growth = growth[1] / growth[0];
    let wanted = format!("ten times the tasks cost sticky at most {GROWTH_MAX} times the time");
    section.target(&wanted, format!("{growth:.1}"), growth <= GROWTH_MAX);
    let wanted = format!("optimal takes at most {OPTIMAL_MAX_MS} ms");
    section.target(&wanted, format!("{optimal_max:.1} ms"), optimal_max <= OPTIMAL_MAX_MS);
    drop(kafka);
    agree(plan, &named, &mut section)?;
    Ok(section)
}

fn time(assignor: &dyn TaskAssignor, input: &AssignmentInput, rounds: usize) -> f64 {
    let round = |_| {
        let start = Instant::now();
        let assignment = assignor.assign(input);
        let time = start.elapsed();
        drop(assignment);
        time
    };
    // The first ones find nothing in the caches.
    let times: Vec<Duration> = (0..2 + rounds).map(round).skip(2).collect();
    median_of(&times, |&time| millis(time))
}

/// Compares what `sticky` decides with what Kafka's class decides, as far as that is determined.
fn agree(plan: &Plan, named: &[(String, AssignmentInput)], section: &mut Section) -> Result<()> {
    let changed = inputs::changed_groups(plan.pick(50, CHANGED_GROUPS));
    let mut kafka = Kafka::start(plan, 0)?;
    let mut table = Table::new(
        "`sticky` beside Kafka's class",
        &["groups", "number", "determined", "same", "others at least as good"],
    );
    let mut different = Vec::new();
    let few = |name: &str| !plan.quick || name.contains("m100-");
    let specs: Vec<(String, &AssignmentInput)> =
        named.iter().filter(|(name, _)| few(name)).map(|(name, input)| (name.clone(), input)).collect();
    let changed: Vec<(String, &AssignmentInput)> = changed.iter().map(|(name, input)| (name.clone(), input)).collect();
    for (title, groups) in [("of `tests/assignor` and larger", specs), ("seeded, changed", changed)] {
        let (mut determined, mut same, mut as_good) = (0, 0, 0);
        for (name, input) in &groups {
            let answer = kafka.ask(input)?;
            let theirs = spec::assignment(input, &answer["members"]);
            let ours = assign_checked(&StickyTaskAssignor, input)?;
            if answer["results"] == 1 {
                determined += 1;
                same += usize::from(ours == theirs);
                if ours != theirs {
                    different.push(name.clone());
                }
            } else {
                as_good += usize::from(is_as_good(input, &ours, &theirs));
            }
        }
        say(&format!(
            "{title}: {} groups, {determined} determined, {same} the same, of the others {as_good} as good",
            groups.len()
        ));
        let others = format!("{as_good} of {}", groups.len() - determined);
        table.row(vec![title.into(), groups.len().to_string(), determined.to_string(), same.to_string(), others]);
    }
    section.table(table);
    let found = match different.as_slice() {
        [] => "all".to_owned(),
        names => format!("not in {}", names.join(", ")),
    };
    section.target("the same result wherever Kafka's is determined", found, different.is_empty());
    Ok(())
}

/// No more moves, no wider spread and no more missing standbys than Kafka's.
fn is_as_good(input: &AssignmentInput, ours: &Assignment, theirs: &Assignment) -> bool {
    let model = CostModel::new(input);
    let [ours, theirs] = [ours, theirs].map(|assignment| model.cost(assignment));
    ours.moves <= theirs.moves
        && ours.active_spread <= theirs.active_spread
        && ours.task_spread <= theirs.task_spread
        && ours.missing_standbys <= theirs.missing_standbys
}

/// Kafka's class in a JVM that answers a line with a line.
struct Kafka {
    child: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Kafka {
    /// Times so many runs of each group; without that, it looks in how many orders it decides the same.
    fn start(plan: &Plan, timed: usize) -> Result<Self> {
        let mut command: Command = plan.tools.java("riparian.KafkaSticky", KAFKA_JVM, "log4j2.properties");
        match timed {
            0 => command.args(["--runs", ORDERS]),
            timed => command.args(["--timed", &timed.to_string()]),
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting java")?;
        let answers = BufReader::new(child.stdout.take().context("it has an output")?);
        Ok(Self { child, answers })
    }

    fn ask(&mut self, input: &AssignmentInput) -> Result<Value> {
        let question = inputs::to_json(input).to_string();
        let stdin = self.child.stdin.as_mut().context("it has an input")?;
        writeln!(stdin, "{question}").and_then(|()| stdin.flush()).context("asking Kafka's class")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        serde_json::from_str(&answer).context("Kafka's class has ended, see above")
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // It ends when it is asked no more; whether it did is of no interest.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
