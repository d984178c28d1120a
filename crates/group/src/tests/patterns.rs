//! Source topics by pattern, where what a script shows is not enough: what is looked at, and when.

use alloc::{format, string::String, vec::Vec};

use riparian_types::machine::Machine;

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    command::{Command, StreamsHeartbeat},
    config::GroupConfig,
    limits::GroupLimits,
    reply::{Reply, StatusCode, StreamsHeartbeatError, StreamsHeartbeatReply},
};

#[derive(Default)]
pub(super) struct Member {
    pub(super) client: Client,
    must_report: bool,
}

pub(super) fn server() -> GroupConfig {
    GroupConfig { initial_rebalance_delay_ms: 0, assignment_interval_ms: 0, ..config() }
}

pub(super) fn send(
    driver: &mut Driver,
    group: &str,
    member: &mut Member,
    script: Option<&str>,
) -> StreamsHeartbeatReply {
    let heartbeat = match script {
        Some(script) => member.client.join(group, "m", topology(script)),
        None => member.client.heartbeat(group, "m"),
    };
    heard(driver, member, heartbeat)
}

/// The answer to a heartbeat that also reports what the member was given.
pub(super) fn heard(
    driver: &mut Driver,
    member: &mut Member,
    mut heartbeat: StreamsHeartbeat,
) -> StreamsHeartbeatReply {
    if member.must_report {
        member.client.report(&mut heartbeat);
    }
    let reply = answer(driver, heartbeat).expect("the heartbeat is right");
    member.client.learn(&reply);
    member.must_report = reply.tasks.is_some();
    reply
}

pub(super) fn answer(
    driver: &mut Driver,
    heartbeat: StreamsHeartbeat,
) -> Result<StreamsHeartbeatReply, StreamsHeartbeatError> {
    match driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into())).reply {
        Some(Reply::StreamsHeartbeat(result)) => result,
        other => panic!("{other:?}"),
    }
}

fn refusal(driver: &mut Driver, group: &str, script: &str) -> StreamsHeartbeatError {
    let join = Client::default().join(group, "m", topology(script));
    let step = driver.command(|waiter| Command::StreamsHeartbeat(waiter, join.into()));
    match step.reply {
        Some(Reply::StreamsHeartbeat(Err(error))) => error,
        other => panic!("{other:?}"),
    }
}

/// Lets the member report until its heartbeats change nothing.
pub(super) fn rest(driver: &mut Driver, group: &str, client: &mut Member) -> StreamsHeartbeatReply {
    for _ in 0..10 {
        let before = driver.settled;
        let reply = send(driver, group, client, None);
        if driver.settled > before {
            return reply;
        }
        driver.advance(10);
    }
    panic!("{group} does not settle");
}

pub(super) fn count(client: &Member) -> usize {
    client.client.tasks.active.iter().map(|list| list.partitions.len()).sum()
}

/// Whether targets are computed at once or at the next heartbeat, a settled member hears of a topic that comes, grows or
/// goes, and of none that does not concern it.
#[test]
fn topics_that_come_and_go_unsettle_who_reads_them_by_pattern() {
    for fast_rebalance in [false, true] {
        let mut driver = Driver::new(GroupConfig { fast_rebalance, ..server() });
        driver.change_topics(&[("in-1", 2)]);
        let mut client = Member::default();
        send(&mut driver, "g", &mut client, Some("0: *in-[0-9]"));
        rest(&mut driver, "g", &mut client);
        assert_eq!(count(&client), 2);
        for (topic, partitions, tasks) in [("in-2", 3, 3), ("in-2", 4, 4), ("in-2", 0, 2), ("in-3", 2, 2)] {
            driver.change_topics(&[(topic, partitions)]);
            let (epoch, before) = (client.client.epoch, driver.settled);
            send(&mut driver, "g", &mut client, None);
            assert_eq!(driver.settled, before, "{topic}={partitions}");
            rest(&mut driver, "g", &mut client);
            assert!(client.client.epoch > epoch, "{topic}={partitions}");
            assert_eq!(count(&client), tasks, "{topic}={partitions}");
        }
        driver.change_topics(&[("in-10", 9), ("min-1", 9), ("__in-1", 9)]);
        let before = driver.settled;
        send(&mut driver, "g", &mut client, None);
        assert_eq!(driver.settled, before + 1);
    }
}

/// The topics that a pattern could match but never does: Kafka's own, and the group's internal ones, old or new.
#[test]
fn internal_topics_are_never_read_by_pattern() {
    let mut driver = Driver::new(server());
    driver.change_topics(&[
        ("a", 1),
        ("__consumer_offsets", 9),
        ("r", 1),
        ("c", 1),
        ("g-old-repartition", 9),
        ("g-old-store-changelog", 9),
    ]);
    let mut client = Member::default();
    send(&mut driver, "g", &mut client, Some("0: *.* > r / 1: ~r +c"));
    rest(&mut driver, "g", &mut client);
    assert_eq!(count(&client), 2);
    // To another group they are topics like any others.
    let mut other = Member::default();
    send(&mut driver, "h", &mut other, Some("0: *.*"));
    rest(&mut driver, "h", &mut other);
    assert_eq!(count(&other), 9);
}

#[test]
fn a_pattern_without_a_topic_is_a_missing_source_topic() {
    let mut driver = Driver::new(server());
    driver.change_topics(&[("b", 1)]);
    let mut client = Member::default();
    let reply = send(&mut driver, "g", &mut client, Some("0: a *b* *x.*"));
    let [status] = &reply.statuses[..] else { panic!("{:?}", reply.statuses) };
    assert_eq!(status.code, StatusCode::MissingSourceTopics);
    assert_eq!(
        status.detail,
        "Source topics are missing: a. Create them; the server does not. No topic matches the source pattern x.* of \
         subtopology 0. Create one; the server does not."
    );
    assert_eq!(problem(&mut driver, "g").as_deref(), Some(&*status.detail));
    // Topics that differ in what they must agree in.
    driver.change_topics(&[("a", 1), ("x1", 2), ("x2", 3)]);
    let mut other = Member::default();
    send(&mut driver, "h", &mut other, Some("0: a *x.* = a *x.*"));
    let text = problem(&mut driver, "h").unwrap_or_default();
    assert!(text.ends_with("must have the same number of partitions, but have: a=1, x1=2, x2=3"), "{text}");
    rest(&mut driver, "g", &mut client);
    assert_eq!(problem(&mut driver, "g"), None);
}

/// What a description says about why tasks cannot run.
fn problem(driver: &mut Driver, group: &str) -> Option<String> {
    match driver.command(|waiter| Command::StreamsDescribe(waiter, group.into())).reply {
        Some(Reply::StreamsDescribe(Ok(description))) => description.problem,
        other => panic!("{other:?}"),
    }
}

/// However many groups and topics there are: a topic that comes is shown to each pattern once, and heartbeats ask none.
#[test]
fn a_new_topic_is_shown_to_each_pattern_once() {
    const GROUPS: usize = 100;
    const TOPICS: usize = 10_000;
    let mut driver = Driver::new(GroupConfig { fast_rebalance: true, ..server() });
    driver.replay_always = false;
    let names: Vec<String> = (0..TOPICS).map(|index| format!("t{}-{index}", index % GROUPS)).collect();
    driver.change_topics(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
    let mut clients: Vec<(String, Member)> =
        (0..GROUPS).map(|index| (format!("g{index}"), Member::default())).collect();
    for (index, (group, client)) in clients.iter_mut().enumerate() {
        // Half of the groups share their pattern with another.
        send(&mut driver, group, client, Some(&format!("0: *t{}-.*", index % (GROUPS / 2))));
        rest(&mut driver, group, client);
    }
    let before = driver.soft.caches.matches.runs;
    driver.change_topics(&[("t7-new", 2)]);
    driver.advance(10);
    for (group, client) in &mut clients {
        rest(&mut driver, group, client);
    }
    assert_eq!(driver.soft.caches.matches.runs - before, GROUPS as u64 / 2);
    let tasks: Vec<usize> = [7, 57, 8].map(|index: usize| count(&clients[index].1)).into();
    assert_eq!(tasks, [2, 2, 1]);
}

#[test]
fn patterns_and_what_they_stand_for_are_limited() {
    let limits =
        GroupLimits { patterns_max: 2, pattern_matches_max: 5, pattern_bytes_max: 4096, ..GroupLimits::none() };
    let mut driver = Driver::new(GroupConfig { limits, ..server() });
    driver.change_topics(&[("a1", 1), ("a2", 1), ("a3", 1)]);
    send(&mut driver, "g", &mut Member::default(), Some("0: *a.*"));
    let check = |driver: &mut Driver, group: &str, script: &str, expected: &str| {
        let text = match refusal(driver, group, script) {
            StreamsHeartbeatError::GroupMaxSizeReached(text) | StreamsHeartbeatError::InvalidTopology(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(text.contains(expected), "{text}");
    };
    check(&mut driver, "h", "0: *a(((b{9}){9}){9}){9}", "it takes more than 4096 bytes (riparian.pattern.bytes.max)");
    check(&mut driver, "h", "0: *a1 *a2", "have 1 source patterns and may have no more than 2 (riparian.patterns.max)");
    let text = "match 3 topics, those of other groups 3; together they may match 5 (riparian.pattern.matches.max)";
    check(&mut driver, "h", "0: *a.*", text);
    // Nor is one topology to take all the time that there is.
    let many: String = (0..101).map(|index| format!(" *a{index}")).collect();
    check(&mut driver, "h", &format!("0:{many}"), "The topology has 101 source patterns; at most 100 may be.");
    let large: String = (0..20).map(|index| format!(" *(.*x){{8}}{index}")).collect();
    check(&mut driver, "h", &format!("0:{large}"), "take more than 16384 bytes together");
    // What grows is not refused, and what goes makes room.
    driver.change_topics(&[("a4", 1), ("a5", 1), ("a6", 1)]);
    let mut client = Client::default();
    let join = client.join("g", "m", topology("0: *a.*"));
    driver.command(|waiter| Command::StreamsHeartbeat(waiter, join.into()));
    check(&mut driver, "h", "0: *a1", "match 1 topics, those of other groups 6;");
    driver.command(|_| {
        let mut leave = client.heartbeat("g", "m");
        leave.member_epoch = riparian_types::MemberEpoch::LEAVE;
        Command::StreamsHeartbeat(riparian_types::machine::Waiter(0), leave.into())
    });
    driver.command(|waiter| Command::DeleteGroup(waiter, "g".into()));
    send(&mut driver, "h", &mut Member::default(), Some("0: *a1 *a2"));
    assert!(driver.machine.next_deadline(&driver.soft).is_some());
}

/// The next topology of a group takes the place of the one before.
#[test]
fn what_a_group_had_makes_room_for_its_next_topology() {
    let limits = GroupLimits { patterns_max: 3, pattern_matches_max: 5, ..GroupLimits::none() };
    let mut driver = Driver::new(GroupConfig { limits, ..server() });
    driver.change_topics(&[("a1", 1), ("a2", 1), ("a3", 1), ("b1", 1), ("b2", 1), ("b3", 1)]);
    let start_and_stop = |driver: &mut Driver, group: &str, script: &str| {
        let mut member = Member::default();
        send(driver, group, &mut member, Some(script));
        let mut leave = member.client.heartbeat(group, "m");
        leave.member_epoch = riparian_types::MemberEpoch::LEAVE;
        driver.command(|waiter| Command::StreamsHeartbeat(waiter, leave.into()));
    };
    start_and_stop(&mut driver, "g", "0: *a.* *c1");
    start_and_stop(&mut driver, "g", "0: *b.* *c2");
    start_and_stop(&mut driver, "g", "0: *[ab][12] *b3 *c3");
    // What another group has as well does not go.
    start_and_stop(&mut driver, "g", "0: *a1 *a2");
    start_and_stop(&mut driver, "h", "0: *a1 *a2");
    match refusal(&mut driver, "h", "0: *b1 *b2") {
        StreamsHeartbeatError::GroupMaxSizeReached(text) => assert!(text.contains("have 2 source patterns"), "{text}"),
        other => panic!("{other:?}"),
    }
}
