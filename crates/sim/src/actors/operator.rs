//! Whoever runs the applications: stops and starts their members, in the same version or in another one, all at once or
//! one process after the other.
//!
//! A process is stopped as a whole, and started as a whole in one version, for two versions cannot share a state
//! directory. Members may come back in any order.
//!
//! **Checked here:** once everything has come to rest, static members that are stopped and are back within their session
//! move no task and change no epoch, also if the server is cut off meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    actors::Actor,
    core::Core,
    disk::Death,
    oracle::Task,
    queue::{Event, How, Order},
};

const DEPLOY: u64 = 1;
const CUT_OFF: u64 = 2;
/// And the group's place among those whose topologies have epochs.
const RENEW: u64 = 16;

/// How long it takes at most until a goodbye is heard and written down when nothing goes wrong, in microseconds.
const HEARD_US: u64 = 100_000;

/// The operator.
pub(crate) struct Operator {
    actor: usize,
    /// Until when the last order of each group comes.
    busy_until_us: BTreeMap<String, u64>,
    /// What restarts of static members at rest must not change.
    expected: BTreeMap<String, (i32, BTreeMap<String, BTreeSet<Task>>)>,
    /// When these are started.
    starts_us: Vec<u64>,
}

/// How members follow each other.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// All stop, then all start.
    AllAtOnce,
    /// One process after the other.
    Rolling,
}

impl Operator {
    pub(crate) fn new(actor: usize) -> Self {
        Self { actor, busy_until_us: BTreeMap::new(), expected: BTreeMap::new(), starts_us: Vec::new() }
    }

    fn plan(&self, core: &mut Core) {
        if let Some(delay_ms) = core.draw_ms(core.options.faults.deployment) {
            core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: DEPLOY });
        }
    }

    fn deploy(&mut self, core: &mut Core) {
        let index = core.prng.below(core.options.groups.len() as u64) as usize;
        let group = core.options.groups[index].clone();
        if self.busy_until_us.get(&group.name).is_some_and(|&until_us| until_us >= core.now_us) {
            return;
        }
        let before = core.deployed.get(&group.name).copied().unwrap_or(0);
        let number = if core.prng.chance(3) { before } else { core.prng.below(u64::from(group.versions)) as u32 };
        let manner = if core.prng.chance(2) { Manner::AllAtOnce } else { Manner::Rolling };
        // The same for all, or each its own.
        let how =
            [Some(How::Close), Some(How::Close), Some(How::Leave), Some(How::Kill), None][core.prng.below(5) as usize];
        core.tell(
            self.actor,
            format_args!("has {} run version {number} after {before}, {manner:?}, {how:?}", group.name),
        );
        core.totals.add(if number == before { "applications restarted" } else { "versions deployed" }, 1);
        core.deployed.insert(group.name.clone(), number);
        let ends_us = match manner {
            Manner::AllAtOnce => {
                let session_us = core.options.session_timeout_ms * 1000;
                let gap_us = [0, 1_000_000, 2 * session_us][core.prng.below(3) as usize];
                let gap_us = core.prng.below(gap_us + 1);
                Self::all_at_once(core, &group.name, number, how, gap_us)
            }
            Manner::Rolling => Self::rolling(core, &group.name, number, how),
        };
        self.busy_until_us.insert(group.name, ends_us);
    }

    fn all_at_once(core: &mut Core, group: &str, number: u32, how: Option<How>, gap_us: u64) -> u64 {
        let mut members = core.members.get(group).cloned().unwrap_or_default();
        let mut at_us = core.now_us;
        shuffle(core, &mut members);
        for (actor, _) in &members {
            let how = how.unwrap_or_else(|| draw_how(core));
            order(core, at_us, *actor, Order::Stop(how));
            at_us += core.prng.below(6_000_000 / members.len() as u64);
        }
        at_us += gap_us;
        shuffle(core, &mut members);
        for (actor, _) in &members {
            order(core, at_us, *actor, Order::Start(number));
            at_us += core.prng.below(6_000_000 / members.len() as u64);
        }
        at_us
    }

    fn rolling(core: &mut Core, group: &str, number: u32, how: Option<How>) -> u64 {
        let members = core.members.get(group).cloned().unwrap_or_default();
        let mut processes: Vec<String> = members.iter().map(|(_, process)| process.clone()).collect();
        processes.sort();
        processes.dedup();
        shuffle(core, &mut processes);
        let mut at_us = core.now_us;
        // All of it within a minute, however many there are.
        let share_us = 20_000_000 / processes.len() as u64;
        let pause_us = 1 + core.prng.below(share_us);
        for process in &processes {
            let how = how.unwrap_or_else(|| draw_how(core));
            let back_us = at_us + core.prng.below(share_us.min(2_000_000));
            for (actor, _) in members.iter().filter(|(_, of)| of == process) {
                order(core, at_us, *actor, Order::Stop(how));
                let start_us = back_us + 1 + core.prng.below(share_us.min(200_000));
                order(core, start_us, *actor, Order::Start(number));
            }
            at_us = back_us + share_us.min(200_000) + core.prng.below(pause_us);
        }
        at_us
    }

    /// Restarts static members of a group at rest, so fast that nobody may notice.
    fn restart_static(&mut self, core: &mut Core, index: usize, is_cut_off: bool) -> bool {
        let group = core.options.groups[index].clone();
        let Some(recorded) = core.records.group(&group.name) else { return false };
        let (epoch, tasks) = (recorded.epoch, core.records.static_tasks(&group.name));
        if tasks.is_empty() {
            return false;
        }
        let number = core.deployed.get(&group.name).copied().unwrap_or(0);
        let members = core.members.get(&group.name).cloned().unwrap_or_default();
        // Who still stands still would not say goodbye.
        if members.iter().any(|(actor, _)| core.paused_until_us[*actor] > core.now_us) {
            return false;
        }
        let is_static = |(index, _): &(u64, &(usize, String))| index.is_multiple_of(group.one_in_static);
        let mut statics: Vec<usize> = (0..).zip(&members).filter(is_static).map(|(_, (actor, _))| *actor).collect();
        shuffle(core, &mut statics);
        let spread_us = restart_us(core);
        for actor in statics {
            let stop_us = core.now_us + core.prng.below(spread_us);
            let delay_us = 1 + core.prng.below(spread_us);
            // If the server is cut off, everybody has said goodbye before that.
            let start_us = if is_cut_off { core.now_us + spread_us + HEARD_US + delay_us } else { stop_us + delay_us };
            self.starts_us.push(start_us);
            order(core, stop_us, actor, Order::Stop(How::Close));
            order(core, start_us, actor, Order::Start(number));
        }
        core.totals.add("static restarts at rest", 1);
        core.tell(self.actor, format_args!("restarts the static members of {}, at epoch {epoch}", group.name));
        self.busy_until_us.insert(group.name.clone(), core.now_us + 2 * spread_us + HEARD_US + 1);
        self.expected.insert(group.name, (epoch, tasks));
        true
    }
}

/// How long static members are stopped and started at rest: up to twice this and a heartbeat interval, which is a quarter of
/// a session and a bit, are less than a session.
fn restart_us(core: &Core) -> u64 {
    core.options.session_timeout_ms * 1000 / 5
}

fn order(core: &mut Core, at_us: u64, actor: usize, order: Order) {
    core.queue.add(at_us, &mut core.prng, Event::Order { actor, order });
}

fn draw_how(core: &mut Core) -> How {
    [How::Close, How::Close, How::Leave, How::Kill][core.prng.below(4) as usize]
}

fn shuffle<T>(core: &mut Core, items: &mut [T]) {
    for index in (1..items.len()).rev() {
        items.swap(index, core.prng.below(index as u64 + 1) as usize);
    }
}

impl Actor for Operator {
    fn begin(&mut self, core: &mut Core) {
        self.plan(core);
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match token {
            DEPLOY if !core.is_healing => {
                self.deploy(core);
                self.plan(core);
            }
            RENEW.. => {
                let mut rising = core.options.groups.iter().filter(|group| group.epochs_rise && group.versions > 1);
                let Some(group) = rising.nth((token - RENEW) as usize).map(|group| group.name.clone()) else { return };
                let number = core.deployed.get(&group).copied().unwrap_or(0);
                // Sessions may have been made longer by half.
                let gap_us = 2 * core.options.session_timeout_ms * 1000;
                let ends_us = Self::all_at_once(core, &group, number, Some(How::Close), gap_us);
                self.busy_until_us.insert(group, ends_us);
            }
            CUT_OFF => {
                core.lose_answers();
                core.die(Death::PowerCut);
            }
            _ => {}
        }
    }

    /// Members whose topology is older than the group's stay with what they do not know until all have stopped.
    fn on_heal(&mut self, core: &mut Core) {
        let rising = core.options.groups.iter().filter(|group| group.epochs_rise && group.versions > 1);
        let names: Vec<String> = rising.map(|group| group.name.clone()).collect();
        for (index, group) in (0..).zip(names) {
            let busy_us = self.busy_until_us.get(&group).copied().unwrap_or(0).max(core.now_us);
            core.queue.add(busy_us + 1, &mut core.prng, Event::Timer { actor: self.actor, token: RENEW + index });
            self.busy_until_us.insert(group, busy_us + 1);
        }
    }

    fn on_reply(&mut self, _: &mut Core, _: &Bytes) {}

    fn on_closed(&mut self, _: &mut Core) {}

    fn on_rest(&mut self, core: &mut Core) {
        // Another session time, or a death that was due before the faults stopped, would make this another test.
        let dies_soon = core.server.as_ref().is_none_or(|server| server.disk.dies_soon().is_some());
        if core.options.faults.config_change.0 > 0 || dies_soon {
            return;
        }
        let is_cut_off = core.prng.chance(2);
        let mut any = false;
        for index in 0..core.options.groups.len() {
            any |= core.prng.chance(2) && self.restart_static(core, index, is_cut_off);
        }
        if any && is_cut_off {
            // While the join of one of them, or the answer to it, is under way.
            let start_us = self.starts_us[core.prng.below(self.starts_us.len() as u64) as usize];
            let cut_us = start_us + core.prng.below(2 * core.options.faults.latency_us_max + 2000);
            core.queue.add(cut_us, &mut core.prng, Event::Timer { actor: self.actor, token: CUT_OFF });
        }
    }

    fn on_second_look(&mut self, core: &mut Core) {
        for (group, (epoch, tasks)) in std::mem::take(&mut self.expected) {
            let now = core.records.group(&group).map(|group| group.epoch);
            let found = core.records.static_tasks(&group);
            if now != Some(epoch) {
                core.fail(format_args!(
                    "{group} was at epoch {epoch} and is at {now:?} since its static members were back"
                ));
            } else if found != tasks {
                core.fail(format_args!("tasks of static members of {group} moved from {tasks:?} to {found:?}"));
            }
        }
    }

    fn unfinished(&self, core: &Core) -> Option<String> {
        let busy = self.busy_until_us.iter().find(|(_, until_us)| **until_us >= core.now_us);
        busy.map(|(group, _)| format!("{group} is still being stopped and started"))
    }
}
