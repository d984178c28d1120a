//! A whole run: events one after the other until everything has come to rest or a promise is broken.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Once, Weak},
};

use crate::{
    actors::{
        Actor, admin::Admin, auditor::Auditor, classic::Consumer, member::Member, onlooker::Onlooker,
        operator::Operator, producer::Producer, reader::Reader,
    },
    app::Version,
    core::Core,
    disk::{Death, SimDisk},
    options::{GroupOptions, Groups, Options},
    oracle,
    queue::{Event, FaultKind},
    trace::{Mode, Totals},
};

/// Everything must have come to rest this long after the faults have stopped.
const HEAL_MS_MAX: u64 = 240_000;
/// How often it is looked at whether it has.
const LOOK_MS: u64 = 500;

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Which kinds of groups there were to be.
    pub groups: Groups,
    /// The promise that was broken.
    pub failure: Option<String>,
    /// Over all lines of the trace.
    pub hash: u64,
    /// Lines of the trace.
    pub lines: u64,
    /// Events that happened.
    pub events: u64,
    /// What they were.
    pub totals: Totals,
    /// The trace, if it was to be kept.
    pub trace: Vec<String>,
}

pub(crate) struct World {
    pub(crate) core: Core,
    actors: Vec<Box<dyn Actor>>,
    events: u64,
    is_over: bool,
    /// Everything has come to rest once, and whoever had something more to do has begun.
    has_rested: bool,
    /// The server is killed once more after everything has come to rest.
    was_crashed_at_rest: bool,
}

thread_local! {
    /// The first panic on this thread: those inside a machine are caught by its shard.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether a panic on this thread is noted and told by whoever runs it.
    static IS_NOTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a seed.
pub fn run(seed: u64, groups: Groups, mode: Mode) -> Outcome {
    let mut world = World::new(Options::of_seed(seed, groups), seed, mode);
    if let Some(panic) = panic_of(|| world.begin()) {
        world.core.fail(format_args!("panic before the first event: {panic}"));
    }
    while !world.is_over && world.core.failure.is_none() {
        world.step();
    }
    world.finish(seed, groups)
}

/// Does this and gives the first panic that came of it, caught inside or not.
pub(crate) fn panic_of(what: impl FnOnce()) -> Option<String> {
    let was_noted = IS_NOTED.replace(true);
    let ended = catch_unwind(AssertUnwindSafe(what));
    IS_NOTED.set(was_noted);
    let noted = PANIC.with_borrow_mut(Option::take);
    noted.or_else(|| ended.err().map(|_| "of an unknown kind".to_owned()))
}

/// Those of the simulator itself are told as usual.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_NOTED.get() {
                return usual(info);
            }
            PANIC.with_borrow_mut(|panic| {
                panic.get_or_insert_with(|| info.to_string());
            });
        }));
    });
}

impl World {
    /// A world in which nothing happens yet.
    pub(crate) fn new(options: Options, seed: u64, mode: Mode) -> Self {
        note_panics();
        PANIC.with_borrow_mut(|panic| *panic = None);
        let core = Core::new(options, seed, mode);
        Self { core, actors: Vec::new(), events: 0, is_over: false, has_rested: false, was_crashed_at_rest: false }
    }

    pub(crate) fn add(&mut self, name: String, make: impl FnOnce(usize, &mut Core) -> Box<dyn Actor>) {
        self.core.names.push(name);
        self.core.paused_until_us.push(0);
        let actor = make(self.actors.len(), &mut self.core);
        self.actors.push(actor);
    }

    fn begin(&mut self) {
        let options = self.core.options.clone();
        self.core.say(format_args!("{options:?}"));
        let is_full = options.groups.iter().any(|group| group.members >= 500);
        self.core.totals.add("runs with 500 members in a group", u64::from(is_full));
        if !options.classic.is_empty() {
            let kind = if options.groups.is_empty() { "runs with classic groups only" } else { "runs with both kinds" };
            self.core.totals.add(kind, 1);
            let is_huge = options.classic.iter().any(|group| group.members >= 200);
            self.core.totals.add("runs with 200 consumers in a group", u64::from(is_huge));
            self.core.records.reads_assignments = true;
        }
        self.add("admin".to_owned(), |actor, _| Box::new(Admin::new(actor)));
        self.add("auditor".to_owned(), |actor, _| Box::new(Auditor::new(actor)));
        for index in 0..options.producers {
            self.add(format!("producer{index}"), |actor, core| Box::new(Producer::new(actor, core)));
        }
        for index in 0..options.readers {
            self.add(format!("reader{index}"), |actor, core| Box::new(Reader::new(actor, core)));
        }
        for group in &options.groups {
            for index in 0..group.members {
                let name = format!("{}.m{index}", group.name);
                self.add(name, |actor, core| Box::new(Member::new(actor, group, index, core)));
            }
        }
        if !options.groups.is_empty() {
            self.add("operator".to_owned(), |actor, _| Box::new(Operator::new(actor)));
        }
        if !options.classic.is_empty() {
            self.add("onlooker".to_owned(), |actor, _| Box::new(Onlooker::new(actor)));
        }
        for group in &options.classic {
            for index in 0..group.members {
                let name = format!("{}.m{index}", group.name);
                self.add(name, |actor, core| Box::new(Consumer::new(actor, group, index, core)));
            }
        }
        self.core.after_us(0, Event::Start);
        self.core.after_ms(options.faults_ms, Event::Heal);
        self.core.after_ms(1000, Event::Check);
        let kinds =
            [FaultKind::PowerCut, FaultKind::Kill, FaultKind::Restart, FaultKind::SyncFailures, FaultKind::FullDisk];
        kinds.into_iter().for_each(|kind| self.core.plan_fault(kind));
        for actor in &mut self.actors {
            actor.begin(&mut self.core);
        }
    }

    /// The next event; a panic is a broken promise.
    pub(crate) fn step(&mut self) {
        if let Some(panic) = panic_of(|| self.next_event()) {
            self.core.fail(format_args!("panic: {panic}"));
        }
    }

    fn next_event(&mut self) {
        let Some((at_us, event)) = self.core.queue.pop() else {
            self.core.fail("nothing happens any more");
            return;
        };
        self.core.now_us = at_us;
        self.events += 1;
        match event {
            Event::Arrive(link) => self.core.arrive(link),
            Event::Deliver(link) => {
                if let Some((actor, reply)) = self.core.deliver(link) {
                    self.actors[actor].on_reply(&mut self.core, &reply);
                }
            }
            Event::Break(link) => self.core.break_link(link),
            Event::ClientHears(link) => {
                if let Some(actor) = self.core.client_hears(link) {
                    self.actors[actor].on_closed(&mut self.core);
                }
            }
            Event::ServerHears(link) => self.core.server_hears(link),
            Event::Timer { actor, token } => self.on_timer(actor, token),
            Event::Order { actor, order } => self.actors[actor].on_order(&mut self.core, order),
            Event::Job { life, job } => self.core.run_job(life, job),
            Event::GoOn { life, job } => self.core.go_on_with_job(life, job),
            Event::Wake { life, at_us } => self.core.wake_server(life, at_us),
            Event::Fault(kind) => self.core.fault(kind),
            Event::DiskHeals { life } => self.core.heal_disk(life),
            Event::Start => self.core.start_server(),
            Event::Check => {
                self.core.check_replay();
                let delay_ms = 2000 + self.core.prng.below(8000);
                self.core.after_ms(delay_ms, Event::Check);
            }
            Event::Heal => self.heal(),
            Event::Converged => self.look(),
        }
    }

    fn on_timer(&mut self, actor: usize, token: u64) {
        let paused_until_us = self.core.paused_until_us[actor];
        if paused_until_us > self.core.now_us {
            self.core.queue.add(paused_until_us, &mut self.core.prng, Event::Timer { actor, token });
        } else {
            self.actors[actor].on_timer(&mut self.core, token);
        }
    }

    fn heal(&mut self) {
        self.core.say(format_args!("faults stop"));
        self.core.is_healing = true;
        self.core.heals_us = self.core.now_us;
        if self.core.server.is_some() {
            let life = self.core.life;
            self.core.heal_disk(life);
        }
        for actor in &mut self.actors {
            actor.on_heal(&mut self.core);
        }
        self.core.after_ms(LOOK_MS, Event::Converged);
    }

    fn look(&mut self) {
        let unfinished = self.unfinished();
        match unfinished {
            None if self.was_crashed_at_rest => {
                self.core.check_replay();
                self.core.say(format_args!("everything has come to rest"));
                self.is_over = true;
            }
            None if !self.has_rested => {
                self.has_rested = true;
                for actor in &mut self.actors {
                    actor.on_rest(&mut self.core);
                }
                self.core.after_ms(0, Event::Converged);
            }
            None => {
                self.core.say(format_args!("everything has come to rest; the server is cut off once more"));
                self.was_crashed_at_rest = true;
                self.core.check_replay();
                self.core.die(Death::PowerCut);
                for actor in &mut self.actors {
                    actor.on_second_look(&mut self.core);
                }
                self.core.after_ms(LOOK_MS, Event::Converged);
            }
            Some(what) if self.core.now_us > self.core.heals_us + HEAL_MS_MAX * 1000 => {
                self.core.fail(format_args!("{} s after the faults have stopped: {what}", HEAL_MS_MAX / 1000));
            }
            Some(_) => self.core.after_ms(LOOK_MS, Event::Converged),
        }
    }

    /// What has not come to rest.
    fn unfinished(&self) -> Option<String> {
        let core = &self.core;
        if core.server.is_none() {
            return Some("the server is down".to_owned());
        }
        let actor = self.actors.iter().find_map(|actor| actor.unfinished(core));
        let group = || core.options.groups.iter().find_map(|group| unfinished_group(core, group));
        let classic = || core.options.classic.iter().find_map(|group| oracle::classic::unfinished_group(core, group));
        let unread = || {
            let unread = core.contents.unread();
            (unread > 0).then(|| format!("{unread} acknowledged records are not read"))
        };
        actor.or_else(group).or_else(classic).or_else(unread)
    }

    pub(crate) fn finish(self, seed: u64, groups: Groups) -> Outcome {
        let mut core = self.core;
        let classic = core.records.classic;
        core.totals.add("moves", core.records.moves + classic.moves);
        core.totals.add("expiries", core.records.expiries + classic.expiries);
        core.totals.add("classic moves", classic.moves);
        core.totals.add("classic expiries", classic.expiries);
        core.totals.add("classic rebalances", classic.generations);
        core.totals.add("topologies replaced", core.records.replaced);
        core.totals.add("events", self.events);
        core.totals.add("virtual seconds", core.now_us / 1_000_000);
        // Jobs hold the broker, which holds the shell, which would hold them.
        if let Some(server) = core.server.take() {
            let shell = server.shell.clone();
            // What a job says at its very end concerns nobody any more.
            let _ = server.end();
            drop(shell.take());
        }
        // Their connections are noted by what is left of the server.
        core.links.clear();
        drop(self.actors);
        let is_kept = |(life, disk): &(u64, Weak<SimDisk>)| (disk.strong_count() > 0).then_some(*life);
        if let Some(life) = core.disks.iter().find_map(is_kept) {
            core.fail(format_args!("of life {life} of the server something is never given back"));
        }
        let (hash, lines, trace) = core.trace.finish();
        Outcome { seed, groups, failure: core.failure, hash, lines, events: self.events, totals: core.totals, trace }
    }
}

/// Whether a group is at rest by its records: everybody alive is in it, and every task belongs to exactly one member.
fn unfinished_group(core: &Core, options: &GroupOptions) -> Option<String> {
    let name = &options.name;
    let alive = core.owners.alive(name);
    let Some(group) = core.records.group(name) else {
        return (alive > 0).then(|| format!("{name} has no records"));
    };
    if group.members.len() != alive {
        return Some(format!("{name} has {} members, {alive} are alive", group.members.len()));
    }
    if alive == 0 {
        return None;
    }
    if group.epoch != group.assignment_epoch {
        return Some(format!("{name} is at epoch {}, its target at {}", group.epoch, group.assignment_epoch));
    }
    if let Some((id, _)) = group.members.iter().find(|(_, member)| !member.is_stable || member.epoch != group.epoch) {
        return Some(format!("{id} has not arrived at epoch {}", group.epoch));
    }
    let wanted = Version::of(options, core.deployed.get(name).copied().unwrap_or(0));
    let Some(stored) = &group.topology else { return Some(format!("{name} has no topology")) };
    if !wanted.is_stored(stored) {
        return Some(format!("{name} has another topology than its members: {stored:?}"));
    }
    let tasks = wanted.tasks(&core.topics);
    for task in &tasks {
        let owners = group.members.values().filter(|member| member.active.contains(task)).count();
        let runners = core.owners.runners(name, task);
        if owners != 1 || runners != 1 {
            return Some(format!("task {task} of {name} has {owners} owners and runs in {runners} members"));
        }
    }
    let owned: usize = group.members.values().map(|member| member.active.len()).sum();
    (owned != tasks.len()).then(|| format!("{name} has {} tasks, {owned} are owned", tasks.len()))
}
