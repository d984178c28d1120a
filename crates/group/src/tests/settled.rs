//! Members whose heartbeats are known to change nothing. That each such answer is the one that the whole way would give,
//! the machine itself checks in builds with debug assertions, whoever sends the heartbeats.

use alloc::{boxed::Box, format, vec::Vec};

use riparian_types::{Offset, PartitionIndex};

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    command::{Command, GroupFilter, OffsetCommit, OffsetToCommit, StreamsHeartbeat},
    config::{GroupConfig, GroupOverrides},
    reply::{Reply, StreamsHeartbeatReply},
};

const MEMBERS: usize = 3;

struct Group {
    driver: Driver,
    clients: Vec<Client>,
}

/// A group at rest, all of whose members are settled.
fn settled_group(config: GroupConfig) -> Group {
    let mut driver = Driver::new(config);
    driver.change_topics(&[("in", 6), ("other", 1)]);
    let mut group = Group { driver, clients: (0..MEMBERS).map(|_| Client::default()).collect() };
    for index in 0..MEMBERS {
        let join = group.clients[index].join("g", &id(index), topology("0: in"));
        group.send(index, join);
    }
    group.rest();
    group
}

fn id(index: usize) -> alloc::string::String {
    format!("m{index}")
}

impl Group {
    fn send(&mut self, index: usize, heartbeat: StreamsHeartbeat) -> StreamsHeartbeatReply {
        let step = self.driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
        match step.reply {
            Some(Reply::StreamsHeartbeat(Ok(reply))) => {
                self.clients[index].learn(&reply);
                reply
            }
            other => panic!("{other:?}"),
        }
    }

    /// A heartbeat that reports what the member was told, if that was something, and nothing otherwise.
    fn beat(&mut self, index: usize) -> StreamsHeartbeatReply {
        let reply = self.send_plain(index);
        if reply.tasks.is_some() {
            let mut heartbeat = self.clients[index].heartbeat("g", &id(index));
            self.clients[index].report(&mut heartbeat);
            return self.send(index, heartbeat);
        }
        reply
    }

    fn send_plain(&mut self, index: usize) -> StreamsHeartbeatReply {
        let heartbeat = self.clients[index].heartbeat("g", &id(index));
        self.send(index, heartbeat)
    }

    /// Lets everybody report until all are settled.
    fn rest(&mut self) {
        for _ in 0..10 {
            let before = self.driver.settled;
            (0..self.clients.len()).for_each(|index| drop(self.beat(index)));
            if self.driver.settled == before + self.clients.len() as u64 {
                return;
            }
            self.driver.advance(1_000);
        }
        panic!("the group does not settle");
    }

    /// How many of the members are settled; each reports once.
    fn settled(&mut self) -> u64 {
        let before = self.driver.settled;
        (0..self.clients.len()).for_each(|index| drop(self.send_plain(index)));
        self.driver.settled - before
    }
}

/// Members are settled; this happens; so many still are.
fn check(what: impl FnOnce(&mut Group), still_settled: u64) {
    let mut group = settled_group(config());
    assert_eq!(group.settled(), MEMBERS as u64);
    what(&mut group);
    assert_eq!(group.settled(), still_settled);
    group.rest();
}

fn commit() -> OffsetCommit {
    OffsetCommit {
        group_id: "g".into(),
        member_id: "".into(),
        instance_id: None,
        member_epoch: riparian_types::MemberEpoch(-1),
        knows_member_epochs: true,
        retention_ms: None,
        offsets: alloc::vec![OffsetToCommit {
            topic: "in".into(),
            topic_id: riparian_types::Uuid::ZERO,
            partition: PartitionIndex(0),
            offset: Offset(1),
            leader_epoch: riparian_types::LeaderEpoch(-1),
            metadata: "".into(),
        }],
    }
}

#[test]
fn whoever_only_looks_unsettles_nobody() {
    let all = MEMBERS as u64;
    check(|_| {}, all);
    check(|group| drop(group.driver.advance(1_000)), all);
    check(|group| drop(group.driver.command(|waiter| Command::StreamsDescribe(waiter, "g".into()))), all);
    let list = GroupFilter::default();
    check(|group| drop(group.driver.command(|waiter| Command::ListGroups(waiter, list))), all);
    check(
        |group| {
            let step = group.driver.command(|waiter| Command::OffsetCommit(waiter, commit()));
            assert!(matches!(&step.reply, Some(Reply::OffsetCommit(_))), "{:?}", step.reply);
        },
        all,
    );
    check(|group| drop(group.driver.change_topics(&[("other", 2)])), all);
}

#[test]
fn whatever_an_answer_may_depend_on_unsettles_everybody() {
    check(|group| drop(group.driver.change_topics(&[("in", 7)])), 0);
    let overrides = |change: fn(&mut GroupOverrides)| {
        let mut overrides = GroupOverrides::default();
        change(&mut overrides);
        move |group: &mut Group| group.driver.override_config("g", overrides)
    };
    check(overrides(|it| it.num_standby_replicas = Some(1)), 0);
    check(overrides(|it| it.heartbeat_interval_ms = Some(7_000)), 0);
    check(overrides(|it| it.session_timeout_ms = Some(50_000)), 0);
    let mut group = settled_group(config());
    let mut join = Client::default().join("g", "another", topology("0: in"));
    join.process_id = Some("another process".into());
    group.driver.command(|waiter| Command::StreamsHeartbeat(waiter, join.into()));
    assert_eq!(group.settled(), 0);
}

#[test]
fn everybody_hears_of_the_end_of_the_application() {
    let mut group = settled_group(config());
    let mut heartbeat = group.clients[0].heartbeat("g", &id(0));
    heartbeat.shutdown_application = true;
    group.send(0, heartbeat);
    for index in 0..MEMBERS {
        assert_eq!(group.send_plain(index).statuses.len(), 1, "{index}");
    }
    assert_eq!(group.settled(), 0);
}

/// Only the same heartbeat over the same connection has the same answer.
#[test]
fn one_who_says_something_else_goes_the_whole_way() {
    let differs = |change: fn(&mut StreamsHeartbeat)| {
        let mut group = settled_group(config());
        let before = group.driver.settled;
        let mut heartbeat = group.clients[0].heartbeat("g", &id(0));
        change(&mut heartbeat);
        group.driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
        assert_eq!(group.driver.settled, before);
    };
    differs(|it| it.is_usual_client = false);
    differs(|it| it.caller.connection = 77);
    differs(|it| it.support.heartbeat_v1 = false);
    differs(|it| it.member_epoch.0 += 1);
    differs(|it| it.member_epoch.0 = -1);
    differs(|it| it.endpoint_information_epoch += 1);
    differs(|it| it.instance_id = Some("i".into()));
    differs(|it| it.rack_id = Some("r".into()));
    differs(|it| it.rebalance_timeout_ms = 1);
    differs(|it| it.process_id = Some("p".into()));
    differs(|it| it.active_tasks = Some(Vec::new()));
    differs(|it| it.client_tags = Some(Vec::new()));
    differs(|it| it.task_offsets = Some(Vec::new()));
    differs(|it| it.task_end_offsets = Some(Vec::new()));
    differs(|it| it.shutdown_application = true);
    differs(|it| it.member_id = "nobody".into());
    differs(|it| it.group_id = "none".into());
}

#[test]
fn a_settled_member_keeps_its_session() {
    let mut group = settled_group(config());
    let timeout_ms = u64::try_from(config().session_timeout_ms).unwrap();
    for _ in 0..10 {
        group.driver.advance(timeout_ms - 1);
        assert_eq!(group.settled(), MEMBERS as u64);
    }
    assert_eq!(group.driver.advance(timeout_ms).len(), MEMBERS);
}

#[test]
fn a_static_member_can_be_settled_too() {
    let mut group = settled_group(config());
    let mut join = Client { instance: Some("i".into()), ..Client::default() };
    let heartbeat = join.join("g", "static", topology("0: in"));
    group.clients.push(join);
    let last = group.clients.len() - 1;
    group.send(last, heartbeat);
    for _ in 0..20 {
        for index in 0..last {
            group.beat(index);
        }
        let mut heartbeat = group.clients[last].heartbeat("g", "static");
        group.clients[last].report(&mut heartbeat);
        group.send(last, heartbeat);
        group.driver.advance(100);
    }
    let before = group.driver.settled;
    let plain = group.clients[last].heartbeat("g", "static");
    group.send(last, plain.clone());
    group.send(last, plain.clone());
    assert_eq!(group.driver.settled, before + 1);
    let as_another = StreamsHeartbeat { instance_id: Some("j".into()), ..plain.clone() };
    let step = group.driver.command(|waiter| Command::StreamsHeartbeat(waiter, Box::new(as_another)));
    assert!(matches!(step.reply, Some(Reply::StreamsHeartbeat(Err(_)))), "{:?}", step.reply);
    let unnamed = StreamsHeartbeat { instance_id: None, ..plain };
    group.driver.command(|waiter| Command::StreamsHeartbeat(waiter, unnamed.into()));
    assert_eq!(group.driver.settled, before + 1);
}

/// How often members are to report follows from how many there are, settled or not.
#[test]
fn a_settled_member_is_told_the_interval_of_now() {
    let fast = GroupConfig { fast_rebalance: true, heartbeats_per_second: 1, ..config() };
    let mut group = settled_group(fast);
    let before = group.driver.settled;
    let few = group.send_plain(0).heartbeat_interval_ms;
    let mut join = Client::default().join("h", "m", topology("0: in"));
    join.process_id = Some("p".into());
    group.driver.command(|waiter| Command::StreamsHeartbeat(waiter, join.into()));
    let more = group.send_plain(0).heartbeat_interval_ms;
    assert_eq!((few, more, group.driver.settled - before), (3_000, 4_000, 2));
}
