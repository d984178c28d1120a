//! Twenty simulated members, lost requests and answers, crashes and restarts, thousands of random steps.
//!
//! A client runs a task from the answer that gives it until it has reported to have given it back. No two live clients
//! may run the same active task, and once the faults stop, everything must be running exactly once.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use riparian_types::{InstanceId, MemberEpoch, Offset, Prng, machine::Waiter};

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    command::{Command, StreamsHeartbeat},
    reply::{GroupState, Reply, StreamsHeartbeatError},
    streams::{TaskIds, TaskLists, TaskOffset},
};

const MEMBERS: u64 = 20;
const PROCESSES: u64 = 7;
/// Versions of one application: the same tasks under other numbers.
const TOPOLOGIES: [&str; 2] =
    ["0: in > r / 1: ~r +c / 2: in2 other +c2 = in2 other", "00: in2 other +c2 = in2 other / 1: in > r / 3: ~r +c"];

/// The same by patterns, and a subtopology that reads whatever comes.
const BY_PATTERN: [&str; 2] = [
    "0: *in(-.*)? > r / 1: ~r +c / 2: in2 *oth.* +c2 = in2 *oth.* / 3: *wide-[0-9]+",
    "00: in2 *oth.* +c2 = in2 *oth.* / 1: *in > r / 3: ~r +c / 4: *wide-[0-9]+",
];

/// A client as it is in its own eyes.
struct Member {
    name: String,
    process: String,
    instance: Option<InstanceId>,
    is_alive: bool,
    client: Client,
    /// What it runs until it reports otherwise; `client.tasks` is what it was told last.
    running: TaskLists,
    /// Something to report, or to repeat after a loss.
    must_report: bool,
    last_sent_ms: u64,
    /// Times it was started, part of its member id.
    starts: u32,
    /// The version that it was started in.
    topology: &'static str,
    /// Its client is one before 4.4, which knows of no warm-ups.
    is_old: bool,
}

struct Simulation {
    prng: Prng,
    driver: Driver,
    members: Vec<Member>,
    partitions: BTreeMap<&'static str, i32>,
    faults: u32,
    /// The application's versions.
    topologies: [&'static str; 2],
    /// Which of them is started.
    version: usize,
    /// No more faults.
    is_healing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    None,
    Request,
    Answer,
}

fn run(seed: u64, steps: u32) -> Driver {
    let mut config = config();
    config.initial_rebalance_delay_ms = 3000;
    config.fast_rebalance = seed % 2 == 1;
    config.hand_out_warmups = !seed.is_multiple_of(3);
    config.assignors = ["sticky", "balanced", "optimal"].map(String::from).into();
    config.assignment_interval_ms = [0, 1000, 5000][(seed / 2 % 3) as usize];
    let mut driver = Driver::new(config);
    driver.replay_always = false;
    let members = (0..MEMBERS).map(|index| Member {
        name: format!("m{index:02}"),
        process: format!("p{}", index % PROCESSES),
        instance: (index % 4 == 0).then(|| format!("i{index}").as_str().into()),
        is_alive: false,
        client: Client::default(),
        running: TaskLists::default(),
        must_report: false,
        last_sent_ms: 0,
        starts: 0,
        topology: "",
        is_old: seed % 5 == 2 && index % 3 == 1,
    });
    let mut simulation = Simulation {
        prng: Prng::new(seed),
        driver,
        members: members.collect(),
        partitions: BTreeMap::new(),
        faults: 0,
        topologies: if seed % 4 < 2 { TOPOLOGIES } else { BY_PATTERN },
        version: 0,
        is_healing: false,
    };
    for (topic, partitions) in [("in", 6), ("in2", 4), ("other", 4), ("wide-0", 1)] {
        simulation.set_topic(topic, partitions);
    }
    for step in 0..steps {
        simulation.step(true);
        if step % 100 == 0 {
            simulation.driver.check_replay();
        }
    }
    simulation.heal();
    assert!(simulation.faults > steps / 20, "only {} faults in {steps} steps", simulation.faults);
    simulation.driver
}

impl Simulation {
    fn set_topic(&mut self, topic: &'static str, partitions: i32) {
        self.partitions.insert(topic, partitions);
        self.driver.change_topics(&[(topic, partitions)]);
    }

    fn step(&mut self, with_faults: bool) {
        let index = self.prng.below(MEMBERS) as usize;
        if with_faults {
            match self.prng.below(400) {
                0..=3 => self.crash(index),
                4..=7 => self.leave(index),
                8..=27 if !self.members[index].is_alive => self.start(index),
                28 => self.restart_server(),
                29 => self.change_settings(),
                30 if self.partitions["in2"] < 9 => self.grow(),
                31 => self.take_away_a_topic(),
                33 if self.topologies == BY_PATTERN => self.change_what_comes(),
                // Rarely, or there would hardly be anybody.
                32 if self.prng.chance(3) => self.replace_application(),
                34 if self.prng.chance(3) => self.roll_out(),
                35 => self.restart_static(index),
                _ => {}
            }
        }
        let loss = match self.prng.below(if with_faults { 12 } else { u64::MAX }) {
            0 => Loss::Request,
            1 => Loss::Answer,
            _ => Loss::None,
        };
        // Whoever has been quiet for long speaks first, so that no session of a live member ends.
        let now_ms = self.driver.now_ms;
        let overdue = self.members.iter().position(|member| member.is_alive && member.last_sent_ms + 8000 < now_ms);
        let index = overdue.unwrap_or(index);
        if self.members[index].is_alive {
            self.beat(index, if overdue.is_some() && loss == Loss::Request { Loss::None } else { loss });
        }
        let ms = self.prng.below(600);
        self.driver.advance(ms);
        self.create_missing_topics();
        self.check_running();
    }

    fn start(&mut self, index: usize) {
        let topology = self.topologies[self.version];
        let member = &mut self.members[index];
        member.is_alive = true;
        member.topology = topology;
        member.starts += 1;
        member.client = Client { instance: member.instance.as_deref().map(String::from), ..Client::default() };
        self.beat(index, Loss::None);
        // It may have been refused.
        self.faults += u32::from(!self.members[index].is_alive);
    }

    fn crash(&mut self, index: usize) {
        let member = &mut self.members[index];
        if member.is_alive {
            self.faults += 1;
            member.stop();
        }
    }

    fn leave(&mut self, index: usize) {
        let member = &mut self.members[index];
        if !member.is_alive {
            return;
        }
        let epoch = if member.instance.is_some() { MemberEpoch::LEAVE_STATIC } else { MemberEpoch::LEAVE };
        let heartbeat = StreamsHeartbeat { member_epoch: epoch, ..member.client.heartbeat("g", &member.id()) };
        member.stop();
        self.send(heartbeat);
    }

    /// Everybody stops, and what is started from now on is another version.
    fn replace_application(&mut self) {
        self.faults += 1;
        self.version = (self.version + 1) % self.topologies.len();
        for index in 0..self.members.len() {
            if self.prng.chance(10) { self.crash(index) } else { self.leave(index) }
        }
    }

    /// What is started from now on is another version, and is refused as long as anybody runs the one before.
    fn roll_out(&mut self) {
        self.faults += 1;
        self.version = (self.version + 1) % self.topologies.len();
        for index in 0..self.members.len() {
            if self.members[index].is_alive {
                self.leave(index);
                let ms = self.prng.below(300);
                self.driver.advance(ms);
                self.start(index);
                self.check_running();
            }
        }
    }

    /// A static member that leaves and is back at once has what it had, and nobody else notices.
    fn restart_static(&mut self, index: usize) {
        let member = &self.members[index];
        if member.instance.is_none() || !member.is_alive || member.client.epoch == 0 {
            return;
        }
        // Whatever else makes the group change has been noticed by then.
        self.beat(index, Loss::None);
        let is_at_rest = |simulation: &Self| {
            let groups = &simulation.driver.machine.groups;
            let group = groups.get(&riparian_types::GroupId::from("g"))?.streams()?;
            let progress = &group.members.get(simulation.members[index].id().as_str())?.progress;
            (group.state() == GroupState::Stable).then(|| (group.epoch, progress.assigned.to_lists(&group.ids)))
        };
        let Some(before) = is_at_rest(self) else { return };
        self.faults += 1;
        self.leave(index);
        if self.prng.chance(2) {
            self.restart_server();
        }
        let version = self.members[index].topology;
        self.start(index);
        if self.members[index].topology == version {
            let after = is_at_rest(self);
            assert!(after.as_ref() == Some(&before), "{before:?} became {after:?} by a static restart");
        }
    }

    fn restart_server(&mut self) {
        self.faults += 1;
        let _ = self.driver.restart();
    }

    fn change_settings(&mut self) {
        let mut overrides = self.driver.overrides("g");
        match self.prng.below(4) {
            0 => overrides.num_warmup_replicas = Some([0, 2, 5][self.prng.below(3) as usize]),
            1 => {
                let assignors = &self.driver.machine.config.assignors;
                overrides.assignor_name = Some(assignors[self.prng.below(3) as usize].clone());
            }
            _ => overrides.num_standby_replicas = Some(self.prng.below(3) as i32),
        }
        self.driver.override_config("g", overrides);
    }

    fn grow(&mut self) {
        let partitions = self.partitions["in2"] + 1;
        self.partitions.extend([("in2", partitions), ("other", partitions), ("c2", partitions)]);
        self.driver.change_topics(&[("in2", partitions), ("other", partitions), ("c2", partitions)]);
    }

    fn take_away_a_topic(&mut self) {
        self.faults += 1;
        let partitions = self.partitions["in"];
        self.driver.change_topics(&[("in", 0)]);
        for _ in 0..self.prng.below(30) {
            self.step(false);
        }
        self.driver.change_topics(&[("in", partitions)]);
    }

    /// Topics of the last subtopology come, grow and go, but for the first.
    fn change_what_comes(&mut self) {
        let topic = ["wide-1", "wide-2"][self.prng.below(2) as usize];
        let before = self.partitions.get(topic).copied().unwrap_or(0);
        let after = if before > 0 && self.prng.chance(2) { 0 } else { before + 1 + self.prng.below(2) as i32 };
        self.set_topic(topic, after.min(8));
    }

    fn create_missing_topics(&mut self) {
        for (topic, like) in [("r", "in"), ("c", "in"), ("c2", "in2")] {
            if !self.partitions.contains_key(topic) && self.prng.chance(20) {
                self.set_topic(topic, self.partitions[like]);
            }
        }
    }

    fn beat(&mut self, index: usize, loss: Loss) {
        let now_ms = self.driver.now_ms;
        let member = &mut self.members[index];
        let mut heartbeat = member.next_heartbeat(now_ms);
        if self.prng.chance(4) && !member.is_old {
            let is_sane = self.is_healing || !self.prng.chance(8);
            member.report_offsets(&mut self.prng, &mut heartbeat, is_sane);
        }
        if loss == Loss::Request {
            self.faults += 1;
            self.members[index].must_report = true;
            return;
        }
        let reply = self.send(heartbeat);
        let member = &mut self.members[index];
        if loss == Loss::Answer {
            self.faults += 1;
            member.must_report = true;
            return;
        }
        member.learn(reply);
    }

    fn send(&mut self, heartbeat: StreamsHeartbeat) -> Reply {
        let step = self.driver.command(|_| Command::StreamsHeartbeat(Waiter(0), heartbeat.into()));
        step.reply.expect("a heartbeat is answered")
    }

    /// No active task runs twice, no process has a task twice.
    fn check_running(&self) {
        let mut active = BTreeMap::new();
        let mut by_process = BTreeMap::new();
        for member in self.members.iter().filter(|member| member.is_alive) {
            for task in tasks(&member.running.active).chain(tasks(&member.client.tasks.active)) {
                let other = active.insert(task.clone(), &member.name);
                assert!(
                    other.is_none_or(|other| *other == member.name),
                    "{task:?} runs at {other:?} and {}",
                    member.name
                );
            }
            let told = &member.client.tasks;
            for task in tasks(&told.active).chain(tasks(&told.standby)).chain(tasks(&told.warmup)) {
                let other = by_process.insert((&member.process, task.clone()), &member.name);
                let all = "is twice in one process";
                assert!(other.is_none_or(|other| *other == member.name), "{task:?} {all}: {other:?} {}", member.name);
            }
        }
    }

    /// Without faults the group comes to rest and everything runs.
    fn heal(&mut self) {
        self.is_healing = true;
        let in2 = self.partitions["in2"];
        for (topic, partitions) in [("r", 6), ("c", 6), ("c2", in2)] {
            self.set_topic(topic, partitions);
        }
        for _ in 0..2000 {
            // Refused as long as sessions of another version have not ended.
            if !self.members.iter().any(|member| member.is_alive) {
                self.start(0);
            }
            self.step(false);
        }
        self.driver.check_replay();
        let group = self.driver.machine.groups[&riparian_types::GroupId::from("g")].streams().unwrap();
        let alive: Vec<&Member> = self.members.iter().filter(|member| member.is_alive).collect();
        assert_eq!(group.state(), GroupState::Stable);
        assert_eq!(group.members.len(), alive.len());
        let running: usize = alive.iter().map(|member| tasks(&member.running.active).count()).sum();
        let wide = ["wide-0", "wide-1", "wide-2"].map(|topic| self.partitions.get(topic).copied().unwrap_or(0));
        let wide = if self.topologies == BY_PATTERN { wide.into_iter().max().unwrap_or(0) } else { 0 };
        assert_eq!(running as i32, 6 + 6 + in2 + wide);
        for member in alive {
            let progress = &group.members.get(member.id().as_str()).unwrap().progress;
            assert_eq!(progress.assigned.to_lists(&group.ids), member.running);
            let target = group.targets.get(member.id().as_str()).unwrap();
            assert!(progress.assigned.same_tasks(target, true), "{}: {progress:?} is not {target:?}", member.name);
        }
        let written = self.driver.log.len();
        for _ in 0..200 {
            self.step(false);
        }
        assert_eq!(self.driver.log[written..], [], "a group at rest");
    }
}

impl Member {
    fn id(&self) -> String {
        format!("{}-{}", self.name, self.starts)
    }

    fn stop(&mut self) {
        self.is_alive = false;
        self.running = TaskLists::default();
        self.client = Client::default();
        self.must_report = false;
    }

    fn next_heartbeat(&mut self, now_ms: u64) -> StreamsHeartbeat {
        self.last_sent_ms = now_ms;
        let id = self.id();
        if self.client.epoch == 0 {
            let mut join = self.client.join("g", &id, topology(self.topology));
            join.process_id = Some(self.process.as_str().into());
            join.support.heartbeat_v1 = !self.is_old;
            return join;
        }
        let mut heartbeat = self.client.heartbeat("g", &id);
        heartbeat.support.heartbeat_v1 = !self.is_old;
        if self.must_report {
            // What it was told is done by now.
            self.running = self.client.tasks.clone();
            self.client.report(&mut heartbeat);
            // Clients don't sort.
            for lists in [&mut heartbeat.active_tasks, &mut heartbeat.standby_tasks] {
                lists.iter_mut().flatten().for_each(|list| list.partitions.reverse());
            }
            self.must_report = false;
        }
        heartbeat
    }

    /// Says of its copies how far they are; some have caught up, some have hardly begun. Or whatever, and of any tasks.
    fn report_offsets(&self, prng: &mut Prng, heartbeat: &mut StreamsHeartbeat, is_sane: bool) {
        if !is_sane {
            let mut any = || {
                let subtopologies = ["0", "1", "2", "00", "3", "none"];
                let list = (0..12).map(|index: i32| TaskOffset {
                    subtopology: subtopologies[prng.below(6) as usize].into(),
                    // No task twice.
                    partition: riparian_types::PartitionIndex(index - 2),
                    offset: Offset([i64::MIN, -1, 0, 10, 1_000_000, i64::MAX][prng.below(6) as usize]),
                });
                Some(list.collect::<Vec<_>>())
            };
            (heartbeat.task_offsets, heartbeat.task_end_offsets) = (any(), any());
            return;
        }
        let (mut offsets, mut ends) = (Vec::new(), Vec::new());
        for (subtopology, partition) in tasks(&self.running.standby).chain(tasks(&self.running.warmup)) {
            let push = |list: &mut Vec<TaskOffset>, offset| {
                let partition = riparian_types::PartitionIndex(partition);
                list.push(TaskOffset { subtopology: subtopology.as_str().into(), partition, offset: Offset(offset) });
            };
            push(&mut ends, 1_000_000);
            if !prng.chance(8) {
                push(&mut offsets, if prng.chance(2) { 1_000_000 } else { 10 });
            }
        }
        (heartbeat.task_offsets, heartbeat.task_end_offsets) = (Some(offsets), Some(ends));
    }

    fn learn(&mut self, reply: Reply) {
        match reply {
            Reply::StreamsHeartbeat(Ok(reply)) => {
                if reply.tasks.as_ref().is_some_and(|tasks| *tasks != self.running) {
                    self.must_report = true;
                }
                self.client.learn(&reply);
            }
            Reply::StreamsHeartbeat(Err(
                StreamsHeartbeatError::UnknownMemberId(_) | StreamsHeartbeatError::FencedMemberEpoch(_),
            )) => {
                self.running = TaskLists::default();
                self.client = Client { instance: self.client.instance.take(), ..Client::default() };
            }
            // As with Kafka this is the end of a client; its instance id is free once its session ends.
            Reply::StreamsHeartbeat(Err(
                StreamsHeartbeatError::UnreleasedInstanceId(_) | StreamsHeartbeatError::InvalidTopologyEpoch(_),
            )) => self.stop(),
            other => panic!("{}: {other:?}", self.name),
        }
    }
}

fn tasks(lists: &[TaskIds]) -> impl Iterator<Item = (String, i32)> {
    lists
        .iter()
        .flat_map(|list| list.partitions.iter().map(|partition| (String::from(list.subtopology.as_str()), partition.0)))
}

#[test]
fn no_task_runs_twice_and_all_run_in_the_end() {
    for seed in 1..=4 {
        run(seed, 3000);
    }
}

#[test]
fn the_same_seed_gives_the_same_records_and_each_may_be_the_last() {
    for seed in [97, 99] {
        let (first, second) = (run(seed, 600), run(seed, 600));
        assert_eq!(first.log, second.log);
        first.check_every_load(2);
    }
}

/// Requests with fields drawn at random from small pools: whatever they say, the records stay consistent.
fn hostile(seed: u64, steps: u32) -> [u32; 2] {
    let mut prng = Prng::new(seed);
    let mut driver = Driver::new(config());
    driver.replay_always = false;
    driver.change_topics(&[("in", 3), ("in2", 2), ("other", 2), ("r", 3), ("c", 3), ("c2", 2)]);
    let mut answers = [0, 0];
    for step in 0..steps {
        let group = ["g", "h"][prng.below(2) as usize];
        match prng.below(30) {
            0 => driver.change_topics(&[("in", prng.below(4) as i32)]),
            1 => driver.command(|waiter| Command::DeleteGroup(waiter, group.into())),
            2 => {
                let _ = driver.restart();
                continue;
            }
            3 => {
                driver.advance(prng.below(20_000));
                continue;
            }
            _ => {
                let heartbeat = random_heartbeat(&mut prng, &driver, group);
                let step = driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
                let is_accepted = matches!(step.reply, Some(Reply::StreamsHeartbeat(Ok(_))));
                answers[usize::from(is_accepted)] += 1;
                step
            }
        };
        if step % 100 == 0 {
            driver.check_replay();
        }
    }
    answers
}

fn random_heartbeat(prng: &mut Prng, driver: &Driver, group: &str) -> StreamsHeartbeat {
    let member = format!("m{}", prng.below(6));
    let mut client = Client::default();
    let is_join = prng.chance(3);
    let mut heartbeat = if is_join {
        client.join(group, &member, topology(TOPOLOGIES[usize::from(prng.chance(4))]))
    } else {
        let groups = &driver.machine.groups;
        let stored = groups.get(&riparian_types::GroupId::from(group)).and_then(|group| group.streams());
        let stored = stored.and_then(|group| group.members.get(&riparian_types::MemberId::from(member.as_str())));
        let progress = stored.map(|member| member.progress.clone()).unwrap_or_default();
        let epochs = [progress.epoch.0, progress.epoch.0, progress.previous_epoch.0, 3, -1, -2];
        client.epoch = epochs[prng.below(6) as usize];
        client.heartbeat(group, &member)
    };
    let random_tasks = |prng: &mut Prng| {
        let known = if prng.chance(10) { 4 } else { 3 };
        let list = |prng: &mut Prng| TaskIds {
            subtopology: ["0", "1", "2", "3"][prng.below(known) as usize].into(),
            partitions: (0..prng.below(3)).map(|_| riparian_types::PartitionIndex(prng.below(2) as i32)).collect(),
        };
        Some((0..prng.below(3)).map(|_| list(prng)).collect::<Vec<_>>())
    };
    if !is_join && prng.chance(2) {
        heartbeat.active_tasks = random_tasks(prng);
        heartbeat.standby_tasks = random_tasks(prng);
        heartbeat.warmup_tasks = if prng.chance(2) { random_tasks(prng) } else { Some(Vec::new()) };
    }
    if prng.chance(3) {
        heartbeat.instance_id = Some(["i", "j"][prng.below(2) as usize].into());
    }
    if is_join || prng.chance(10) {
        heartbeat.process_id = Some(["p", "q", "s"][prng.below(3) as usize].into());
    }
    if prng.chance(10) {
        heartbeat.user_endpoint = Some(crate::streams::Endpoint { host: "h".into(), port: prng.below(3) as u16 });
    }
    if prng.chance(10) {
        heartbeat.rebalance_timeout_ms = prng.below(20_000) as i32 - 10;
    }
    heartbeat.endpoint_information_epoch = prng.below(4) as i32 - 1;
    heartbeat.shutdown_application = prng.chance(50);
    heartbeat.support.heartbeat_v1 = prng.chance(2);
    heartbeat
}

#[test]
fn no_request_makes_the_records_contradict_each_other() {
    for seed in 1..=4 {
        let [refused, accepted] = hostile(seed, 4000);
        assert!(refused > 500 && accepted > 500, "{refused} refused, {accepted} accepted");
    }
}
