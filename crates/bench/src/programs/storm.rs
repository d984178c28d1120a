//! `storm`: many members of one group join, leave, are added and die at once; the time until the group is at rest.
//!
//! The members behave: they send their next heartbeat when they were told to, or at once when they have something to
//! report. Each has a connection of its own, opened before.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};

use super::{Benchmark, Plan};
use crate::{
    admin,
    figures::{median_of, shown},
    load::{Load, Pace, by_code},
    report::{Section, Table, say},
    servers::{self, Kind},
};

const ROUNDS: u32 = 3;
const LIMIT: Duration = Duration::from_secs(600);
/// Kafka's default.
const INITIAL_DELAY_S: f64 = 3.0;
const REST_AFTER_DELAY_S_MAX: f64 = 1.0;
const KAFKA_RATIO_MAX: f64 = 0.5;

/// What is done to the group.
const STEPS: [&str; 4] = ["join", "leave", "add", "die"];

/// How the servers are set up.
struct Setting {
    name: &'static str,
    settings: Vec<(&'static str, &'static str)>,
    delays: bool,
    pace: Pace,
}

/// What one step has come to.
struct Step {
    stable_s: f64,
    refused: BTreeMap<i16, u64>,
    heartbeats: u64,
}

/// By setting, members, and whether it is ours.
type Results = BTreeMap<(usize, usize, bool), Vec<[Step; 4]>>;

pub(super) fn run(plan: &Plan) -> Result<Section> {
    let members = plan.pick(vec![30], vec![100, 500, 1000]);
    let (session, session_s) = plan.pick(("2000", 2), ("10000", 10));
    // Silent members should not make every round take a minute.
    let mut common =
        vec![("group.streams.session.timeout.ms", session), ("group.streams.min.session.timeout.ms", session)];
    if plan.quick {
        common.extend([
            ("group.streams.min.heartbeat.interval.ms", "500"),
            ("group.streams.heartbeat.interval.ms", "500"),
        ]);
    }
    let no_delays = [("group.streams.initial.rebalance.delay.ms", "0"), ("group.streams.assignment.interval.ms", "0")];
    let without_delays = [common.clone(), no_delays.to_vec()].concat();
    let settings = [
        Setting { name: "default delays", settings: common, delays: true, pace: Pace::Told },
        Setting { name: "no delays", settings: without_delays.clone(), delays: false, pace: Pace::Told },
        Setting { name: "no delays, eager members", settings: without_delays, delays: false, pace: Pace::Eager },
    ];
    let rounds = plan.rounds(ROUNDS);
    let mut results = Results::new();
    for (at, setting) in settings.iter().enumerate() {
        for &members in &members {
            for &kind in plan.kinds() {
                let mut found = Vec::new();
                for _ in 0..rounds {
                    found.push(storm(plan, kind, setting, members)?);
                }
                results.insert((at, members, kind == Kind::Riparian), found);
            }
        }
    }
    Ok(section(plan, &settings, &members, session_s, &results))
}

/// A new server each time, so that every round is the first.
fn storm(plan: &Plan, kind: Kind, setting: &Setting, members: usize) -> Result<[Step; 4]> {
    let mut server = servers::start(&plan.tools, kind, &setting.settings)?;
    let tasks = members * 2;
    admin::create_topic_and_wait(&mut server, "input", tasks)?;
    admin::wait_for_coordinator(&mut server, "storm")?;
    let tenth = members / 10;
    let mut load = Load::connect(server.port(), members + tenth)?;
    let group = load.add_group("storm", "input", tasks);
    let step = |load: &mut Load, name: &str| -> Result<Step> {
        let before = load.answered();
        let stable = load.run_until_stable(setting.pace, LIMIT, &server);
        let stable = stable.with_context(|| format!("{members} members, {}: {name}", setting.name))?;
        let found =
            Step { stable_s: stable.as_secs_f64(), refused: load.take_refused(), heartbeats: load.answered() - before };
        say(&format!(
            "{}, {}, {members} members, {name}: stable after {:.3} s, {} heartbeats, refused: {}",
            kind.name(),
            setting.name,
            found.stable_s,
            found.heartbeats,
            by_code(&found.refused)
        ));
        Ok(found)
    };
    let first = load.add_members(group, members);
    let join = step(&mut load, STEPS[0])?;
    load.leave(first.clone().take(tenth));
    let leave = step(&mut load, STEPS[1])?;
    load.add_members(group, tenth);
    let add = step(&mut load, STEPS[2])?;
    load.die(first.skip(tenth).take(tenth));
    let die = step(&mut load, STEPS[3])?;
    Ok([join, leave, add, die])
}

fn section(plan: &Plan, settings: &[Setting], members: &[usize], session_s: u64, results: &Results) -> Section {
    let mut section = Section::new(
        plan.command(Benchmark::Storm, ROUNDS),
        &[
            "One group with twice as many tasks as members, a connection per member; members come back when they were told to, eager ones at once.",
            "`join`: all at once; `leave`: a tenth leaves at once; `add`: as many join; `die`: as many fall silent.",
            "Time from there until the last member has reported what it was told last; then the group is described, and it must be stable with the same tasks.",
        ],
    );
    section.note(format!(
        "The session timeout is {session_s} s, which is part of `die`; without delays `group.streams.initial.rebalance.delay.ms` and `group.streams.assignment.interval.ms` are 0.",
    ));
    section.note(format!("Medians of {} rounds; refused heartbeats are those of all rounds.", plan.rounds(ROUNDS)));
    for (at, setting) in settings.iter().enumerate() {
        let header =
            ["members", "step", "Riparian, s", "Kafka, s", "ratio", "heartbeats", "Kafka's", "refused", "Kafka's"];
        let mut table = Table::new(&format!("Until stable, {}", setting.name), &header);
        for &members in members {
            for (number, name) in STEPS.iter().enumerate() {
                let of = |ours: bool, of: &dyn Fn(&Step) -> f64| {
                    let rounds = results.get(&(at, members, ours))?;
                    Some(median_of(rounds, |steps| of(&steps[number])))
                };
                let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), shown);
                let (ours, kafka) = (of(true, &|step| step.stable_s), of(false, &|step| step.stable_s));
                let ratio = ours.zip(kafka).map(|(ours, kafka)| ours / kafka);
                let heartbeats = |ours| cell(of(ours, &|step| step.heartbeats as f64));
                let refused = |ours| refused(results.get(&(at, members, ours)), number);
                table.row(vec![
                    members.to_string(),
                    (*name).to_owned(),
                    cell(ours),
                    cell(kafka),
                    cell(ratio),
                    heartbeats(true),
                    heartbeats(false),
                    refused(true),
                    refused(false),
                ]);
            }
        }
        section.table(table);
        targets(&mut section, at, setting, members, results);
    }
    section
}

fn refused(rounds: Option<&Vec<[Step; 4]>>, step: usize) -> String {
    let mut all = BTreeMap::new();
    for (code, count) in rounds.into_iter().flatten().flat_map(|steps| &steps[step].refused) {
        *all.entry(*code).or_insert(0) += count;
    }
    by_code(&all)
}

fn targets(section: &mut Section, at: usize, setting: &Setting, members: &[usize], results: &Results) {
    let median = |members, ours, step: usize| {
        results.get(&(at, members, ours)).map(|rounds| median_of(rounds, |steps| steps[step].stable_s))
    };
    if setting.delays {
        for &members in members.iter().filter(|&&members| members == 500) {
            let Some(found) = median(members, true, 0) else { continue };
            let after = found - INITIAL_DELAY_S;
            section.target(
                &format!("{members} members, default settings: at rest at most {REST_AFTER_DELAY_S_MAX} s after the initial delay"),
                format!("{} s", shown(after)),
                after <= REST_AFTER_DELAY_S_MAX,
            );
        }
        return;
    }
    if setting.pace == Pace::Eager {
        return;
    }
    for &members in members.iter().filter(|&&members| members == 1000) {
        let rounds = results.get(&(at, members, true)).into_iter().flatten();
        let count: u64 = rounds.flatten().flat_map(|step| step.refused.values()).sum();
        section.target(&format!("{members} members, no delays: no refused heartbeat"), count.to_string(), count == 0);
        // Who dies is missed after the session timeout, which is the same for both.
        for (number, name) in STEPS.iter().enumerate().filter(|(_, name)| **name != "die") {
            let (Some(ours), Some(kafka)) = (median(members, true, number), median(members, false, number)) else {
                continue;
            };
            section.target(
                &format!("{members} members, no delays, {name}: at most {KAFKA_RATIO_MAX} x Kafka"),
                shown(ours / kafka),
                ours <= kafka * KAFKA_RATIO_MAX,
            );
        }
    }
}
