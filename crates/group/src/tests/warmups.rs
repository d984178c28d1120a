//! What warm-ups cost while nothing comes of them, and what a change of settings costs while a target is waited for.

use alloc::{format, string::String, vec, vec::Vec};

use riparian_types::{MonoMillis, Offset, PartitionIndex, machine::Machine};

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    command::{Command, StreamsHeartbeat},
    config::GroupConfig,
    record::Record,
    reply::{Reply, StreamsHeartbeatReply},
    streams::TaskOffset,
};

/// More topics than a heartbeat puts in place of a pattern.
const MANY: usize = 1_100;

struct Group {
    driver: Driver,
    topology: &'static str,
    clients: Vec<Client>,
}

impl Group {
    fn new(config: GroupConfig) -> Self {
        let mut driver = Driver::new(config);
        driver.change_topics(&[("in", 4), ("c", 4)]);
        Self { driver, topology: "0: in +c", clients: Vec::new() }
    }

    fn join(&mut self) -> usize {
        let index = self.clients.len();
        self.clients.push(Client::default());
        let mut join = self.clients[index].join("g", &id(index), topology(self.topology));
        join.process_id = Some(format!("process {index}").as_str().into());
        self.send(index, join);
        index
    }

    fn send(&mut self, index: usize, heartbeat: StreamsHeartbeat) -> StreamsHeartbeatReply {
        let step = self.driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
        let Some(Reply::StreamsHeartbeat(Ok(reply))) = step.reply else { panic!("{:?}", step.reply) };
        self.clients[index].learn(&reply);
        reply
    }

    /// With nothing to report.
    fn beat(&mut self, index: usize) {
        let heartbeat = self.clients[index].heartbeat("g", &id(index));
        self.send(index, heartbeat);
    }

    /// With what it was told, and with positions and ends of tasks of the only subtopology, by partition.
    fn report(&mut self, index: usize, offsets: &[(i32, i64, i64)]) {
        let mut heartbeat = self.clients[index].heartbeat("g", &id(index));
        self.clients[index].report(&mut heartbeat);
        let list = |offset: fn(&(i32, i64, i64)) -> i64| {
            let of_task = |it: &(i32, i64, i64)| TaskOffset {
                subtopology: "0".into(),
                partition: PartitionIndex(it.0),
                offset: Offset(offset(it)),
            };
            Some(offsets.iter().map(of_task).collect())
        };
        heartbeat.task_offsets = list(|it| it.1);
        heartbeat.task_end_offsets = list(|it| it.2);
        self.send(index, heartbeat);
    }

    /// In how many milliseconds a timer is due.
    fn next_ms(&self) -> u64 {
        let next = self.driver.machine.next_deadline(&self.driver.soft);
        next.map_or(u64::MAX, |next| next.since(MonoMillis(self.driver.now_ms)))
    }
}

fn id(index: usize) -> String {
    format!("m{index}")
}

fn with_warmups() -> GroupConfig {
    GroupConfig { hand_out_warmups: true, initial_rebalance_delay_ms: 0, assignment_interval_ms: 0, ..config() }
}

/// The second of two members warms up two tasks of the first, which has not heard of it yet.
fn moving() -> Group {
    let mut group = Group::new(with_warmups());
    let first = group.join();
    group.report(first, &[]);
    let second = group.join();
    group.report(second, &[]);
    assert_eq!(group.clients[second].tasks.warmup[0].partitions, [PartitionIndex(2), PartitionIndex(3)]);
    group
}

/// Likewise, and both have what they shall have until a copy has caught up.
fn staged() -> Group {
    let mut group = moving();
    group.beat(0);
    group.driver.advance(2_000);
    assert!(group.next_ms() > 20_000, "{}", group.next_ms());
    group
}

#[test]
fn a_copy_that_has_caught_up_is_noticed_at_once() {
    let mut group = staged();
    group.report(1, &[(2, 99_000, 100_000)]);
    assert_eq!(group.next_ms(), 0);
    assert_eq!(group.driver.advance(0).len(), 1);
}

/// Standbys have nearly always caught up, and there may be thousands.
#[test]
fn only_copies_that_tasks_wait_for_are_noticed_at_once() {
    let mut group = staged();
    for nonsense in [(0, 5, 5), (7, 5, 5), (-1, 5, 5), (2, i64::MAX, 5), (3, 5, i64::MAX), (2, i64::MIN, i64::MAX - 1)]
    {
        group.report(1, &[nonsense]);
        assert_eq!(group.next_ms(), 1_000, "{nonsense:?}");
        let steps = group.driver.advance(1_000);
        assert!(steps.is_empty(), "{nonsense:?}");
    }
}

/// Before that nothing can come of a look.
#[test]
fn a_group_is_looked_at_when_the_last_member_has_arrived() {
    let mut group = moving();
    group.report(1, &[(2, 100_000, 100_000)]);
    assert!(group.next_ms() > 20_000, "{}", group.next_ms());
    group.beat(0);
    assert_eq!(group.next_ms(), 0);
    assert_eq!(group.driver.advance(0).len(), 1);
}

#[test]
fn a_group_that_waits_for_its_copies_rests() {
    let mut group = staged();
    let (written, settled) = (group.driver.log.len(), group.driver.settled);
    for _ in 0..20 {
        for index in 0..2 {
            group.beat(index);
            assert!(group.next_ms() > 1_000, "{}", group.next_ms());
        }
        group.driver.advance(500);
    }
    assert_eq!(group.driver.log.len(), written);
    // All but the first of each.
    assert!(group.driver.settled >= settled + 38, "{}", group.driver.settled - settled);
}

/// The next target is due then, whoever computes it.
#[test]
fn another_assignor_is_one_change_however_long_its_target_is_waited_for() {
    let assignors = vec![String::from("sticky"), String::from("balanced")];
    let assignment_interval_ms = 10_000;
    let mut group =
        Group::new(GroupConfig { fast_rebalance: true, assignors, assignment_interval_ms, ..with_warmups() });
    let first = group.join();
    group.report(first, &[]);
    let mut overrides = group.driver.overrides("g");
    overrides.assignor_name = Some("balanced".into());
    let written = group.driver.log.len();
    group.driver.override_config("g", overrides);
    let count = |group: &Group, is_such: fn(&Record) -> bool| {
        group.driver.log[written..].iter().filter(|record| is_such(record)).count()
    };
    for _ in 0..9 {
        group.beat(first);
        group.driver.advance(1_000);
    }
    assert_eq!(count(&group, |it| matches!(it, Record::StreamsGroupMetadata(..))), 1);
    assert_eq!(count(&group, |it| matches!(it, Record::StreamsTargetMetadata(..))), 0);
    for _ in 0..9 {
        group.driver.advance(1_000);
        group.beat(first);
    }
    assert_eq!(count(&group, |it| matches!(it, Record::StreamsGroupMetadata(..))), 1);
    assert_eq!(count(&group, |it| matches!(it, Record::StreamsTargetMetadata(..))), 1);
}

/// What is not known of a topology after a restart says nothing of where tasks belong.
#[test]
fn a_step_is_not_taken_up_again_before_patterns_are_matched() {
    let mut group = Group::new(with_warmups());
    group.driver.replay_always = false;
    let names: Vec<String> = (0..MANY).map(|index| format!("t-{index}")).collect();
    group.driver.change_topics(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
    group.topology = "0: in *t-[0-9]+ +c";
    let count = |group: &Group, index: usize| {
        let tasks = &group.clients[index].tasks;
        [&tasks.active, &tasks.warmup].map(|lists| lists.iter().map(|list| list.partitions.len()).sum::<usize>())
    };
    let first = group.join();
    for _ in 0..100 {
        group.driver.advance(100);
        group.report(first, &[]);
    }
    assert_eq!(count(&group, first), [4, 0]);
    let second = group.join();
    group.report(second, &[]);
    group.beat(first);
    group.report(second, &[(2, 100_000, 100_000)]);
    group.driver.advance(0);
    group.beat(second);
    assert_eq!(count(&group, second), [0, 2]);
    // Now nobody has arrived: the first is to give back one of its tasks, for which the second waits.
    let _ = group.driver.restart();
    group.beat(first);
    assert_eq!(count(&group, first), [4, 0]);
    for _ in 0..100 {
        group.driver.advance(100);
        group.report(first, &[]);
        group.report(second, &[(2, 10, 100_000)]);
    }
    assert_eq!([count(&group, first), count(&group, second)], [[4, 0], [0, 2]]);
    for _ in 0..20 {
        group.report(second, &[(2, 100_000, 100_000), (3, 100_000, 100_000)]);
        group.driver.advance(100);
        group.report(first, &[]);
    }
    assert_eq!([count(&group, first), count(&group, second)], [[2, 0], [2, 0]]);
}
