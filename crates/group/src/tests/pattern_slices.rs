//! Source topics by pattern where there are too many for one go: how much is done at a time, and what groups have
//! meanwhile.

use alloc::{collections::BTreeSet, format, string::String, vec::Vec};

use riparian_types::MemberEpoch;

use super::{
    driver::Driver,
    patterns::{Member, count, heard, rest, send, server},
};
use crate::{
    config::GroupConfig,
    limits::GroupLimits,
    reply::{StatusCode, StreamsHeartbeatError},
    streams::matches::SLICE_COST,
};

/// The longest a topic's name may be, and what is counted beside it.
const NAME_COST_MAX: u64 = 8 * 249 + 8 + 128;

fn names(prefix: &str, topics: usize, length: usize) -> Vec<String> {
    (0..topics).map(|index| format!("{prefix}{index:05}{}", "x".repeat(length))).collect()
}

fn create(driver: &mut Driver, names: &[String], partitions: i32) {
    driver.change_topics(&names.iter().map(|name| (name.as_str(), partitions)).collect::<Vec<_>>());
}

/// Lets timers fire one after the other until nothing is left to match or to configure; how often one did, and the most
/// that was matched in one of them.
fn finish(driver: &mut Driver) -> (usize, u64) {
    let (mut steps, mut most) = (0, 0);
    loop {
        let before = driver.soft.caches.matches.spent;
        // What is due now, and then what is due a millisecond later.
        driver.advance(steps.min(1));
        most = most.max(driver.soft.caches.matches.spent - before);
        if driver.soft.upkeep.next().is_none() {
            return (usize::try_from(steps).unwrap(), most);
        }
        steps += 1;
        assert!(steps < 100_000, "matching does not end");
    }
}

#[test]
fn a_pattern_is_shown_many_topics_in_slices_and_its_group_waits() {
    const TOPICS: usize = 400;
    for fast_rebalance in [false, true] {
        let mut driver = Driver::new(GroupConfig { fast_rebalance, ..server() });
        create(&mut driver, &names("t-", TOPICS, 200), 1);
        driver.change_topics(&[("s", 3)]);
        let mut member = Member::default();
        let before = driver.soft.caches.matches.spent;
        let reply = send(&mut driver, "g", &mut member, Some("0: *(.*x){20}y *s"));
        assert!(driver.soft.caches.matches.spent - before <= SLICE_COST + NAME_COST_MAX);
        let [status] = &reply.statuses[..] else { panic!("{:?}", reply.statuses) };
        assert_eq!(status.code, StatusCode::AssignmentDelayed);
        assert_eq!(status.detail, "The assignment waits until the source patterns have been matched with all topics.");
        assert_eq!(count(&member), 0);
        // Others who ask for the same do not make it longer.
        for index in 0..10 {
            let before = driver.soft.caches.matches.spent;
            send(&mut driver, &format!("h{index}"), &mut Member::default(), Some("0: *(.*x){20}y *s"));
            assert!(driver.soft.caches.matches.spent - before <= SLICE_COST + NAME_COST_MAX);
        }
        let (steps, most) = finish(&mut driver);
        assert!(most <= SLICE_COST + NAME_COST_MAX, "{most}");
        assert!(steps > 10, "{steps}");
        assert_eq!(driver.soft.caches.matches.runs, 2 * (TOPICS + 1) as u64);
        // It is a source topic that is missing now.
        let reply = send(&mut driver, "g", &mut member, None);
        assert_eq!(reply.statuses[0].code, StatusCode::MissingSourceTopics, "{fast_rebalance}");
        driver.change_topics(&[("xxxxxxxxxxxxxxxxxxxxy", 1)]);
        rest(&mut driver, "g", &mut member);
        assert_eq!(count(&member), 3);
        driver.check_replay();
    }
}

/// However many patterns there are: what happens to a topic is told to so many at a time.
#[test]
fn patterns_are_told_of_a_topic_in_slices() {
    let mut driver = Driver::new(GroupConfig { fast_rebalance: true, ..server() });
    driver.replay_always = false;
    let mut members: Vec<Member> = (0..10).map(|_| Member::default()).collect();
    driver.change_topics(&[("u", 1)]);
    for (index, member) in members.iter_mut().enumerate() {
        let patterns: String = (0..30).map(|pattern| format!(" *t-{index}-{pattern}.*|u|x.*")).collect();
        send(&mut driver, &format!("g{index}"), member, Some(&format!("0:{patterns}")));
        rest(&mut driver, &format!("g{index}"), member);
    }
    let change = |driver: &mut Driver, name: &str, partitions: i32| {
        let before = driver.soft.caches.matches.spent;
        driver.change_topics(&[(name, partitions)]);
        assert!(driver.soft.caches.matches.spent - before <= SLICE_COST + NAME_COST_MAX);
        let (steps, most) = finish(driver);
        assert!(most <= SLICE_COST + NAME_COST_MAX, "{most}");
        steps
    };
    let name = format!("x{}", "y".repeat(200));
    assert!(change(&mut driver, &name, 2) > 5);
    for (index, member) in members.iter_mut().enumerate() {
        rest(&mut driver, &format!("g{index}"), member);
        assert_eq!(count(member), 2);
    }
    assert!(change(&mut driver, &name, 0) > 2);
    for (index, member) in members.iter_mut().enumerate() {
        rest(&mut driver, &format!("g{index}"), member);
        assert_eq!(count(member), 1);
    }
}

/// A group that runs goes on with what it had, also when the server has just been started.
#[test]
fn a_group_that_runs_keeps_its_tasks_while_its_patterns_are_matched() {
    for fast_rebalance in [false, true] {
        let mut driver = Driver::new(GroupConfig { fast_rebalance, ..server() });
        create(&mut driver, &names("t-", 1_500, 150), 1);
        let mut member = Member::default();
        send(&mut driver, "g", &mut member, Some("0: *t-.*"));
        finish(&mut driver);
        rest(&mut driver, "g", &mut member);
        let (epoch, records) = (member.client.epoch, driver.log.len());
        driver.restart();
        assert!(driver.soft.caches.matches.has_work());
        let mut heartbeats = 0;
        while driver.soft.upkeep.next().is_some() {
            let reply = send(&mut driver, "g", &mut member, None);
            assert_eq!((reply.statuses.len(), reply.member_epoch.0), (0, epoch));
            driver.advance(1);
            heartbeats += 1;
        }
        assert!(heartbeats > 10, "{heartbeats}");
        rest(&mut driver, "g", &mut member);
        assert_eq!((member.client.epoch, driver.log.len(), count(&member)), (epoch, records, 1));
        // One who joins meanwhile waits, and takes nothing from those who are there.
        driver.restart();
        let mut other = Member::default();
        let join = other.client.join("g", "n", super::client::topology("0: *t-.*"));
        let reply = heard(&mut driver, &mut other, join);
        assert_eq!(reply.statuses[0].code, StatusCode::AssignmentDelayed);
        let reply = send(&mut driver, "g", &mut member, None);
        assert_eq!((reply.member_epoch.0, count(&member)), (epoch, 1));
        // A topic that comes while all that goes on is not missed, nor one that goes.
        driver.change_topics(&[("t-new", 7), ("t-00000", 0)]);
        finish(&mut driver);
        for _ in 0..10 {
            send(&mut driver, "g", &mut member, None);
            let beat = other.client.heartbeat("g", "n");
            heard(&mut driver, &mut other, beat);
            driver.advance(100);
        }
        assert_eq!(count(&member) + count(&other), 7);
    }
}

/// Groups whose patterns stand for many topics are configured one at a time, and their neighbour does not wait for them.
#[test]
fn groups_with_many_topics_take_turns() {
    const GROUPS: usize = 20;
    let mut driver = Driver::new(GroupConfig { fast_rebalance: true, ..server() });
    driver.replay_always = false;
    create(&mut driver, &names("t-", 1_200, 1), 1);
    driver.change_topics(&[("other", 1)]);
    let mut neighbour = Member::default();
    send(&mut driver, "neighbour", &mut neighbour, Some("0: other"));
    rest(&mut driver, "neighbour", &mut neighbour);
    let mut members: Vec<Member> = (0..GROUPS).map(|_| Member::default()).collect();
    for (index, member) in members.iter_mut().enumerate() {
        send(&mut driver, &format!("g{index}"), member, Some("0: *t-.*"));
    }
    finish(&mut driver);
    for (index, member) in members.iter_mut().enumerate() {
        rest(&mut driver, &format!("g{index}"), member);
        assert_eq!(count(member), 1);
    }
    for (name, partitions, tasks) in [("t-new", 4, 4), ("t-new", 0, 1)] {
        driver.change_topics(&[(name, partitions)]);
        let mut turns = 0;
        for step in 0.. {
            let steps = driver.advance(step.min(1));
            let groups: BTreeSet<_> =
                steps.iter().flat_map(|step| &step.records).map(|record| record.group().clone()).collect();
            assert!(groups.len() <= 1, "{groups:?} at one time");
            turns += groups.len();
            let before = driver.settled;
            send(&mut driver, "neighbour", &mut neighbour, None);
            assert_eq!(driver.settled, before + 1, "the neighbour is not concerned");
            if driver.soft.upkeep.next().is_none() {
                break;
            }
        }
        assert_eq!(turns, GROUPS);
        for (index, member) in members.iter_mut().enumerate() {
            rest(&mut driver, &format!("g{index}"), member);
            assert_eq!(count(member), tasks);
        }
    }
}

/// What is cheap is not held up by what is not.
#[test]
fn a_pattern_that_comes_later_is_not_held_up_by_those_before() {
    let mut driver = Driver::new(server());
    driver.replay_always = false;
    create(&mut driver, &names("t-", 300, 200), 1);
    for index in 0..20 {
        send(&mut driver, &format!("g{index}"), &mut Member::default(), Some(&format!("0: *(.*x){{20}}y{index}")));
    }
    driver.advance(10);
    let before = driver.soft.caches.matches.spent;
    let mut member = Member::default();
    send(&mut driver, "late", &mut member, Some("0: *t-0.*"));
    while driver.soft.caches.matches.found("t-0.*").is_none() {
        driver.advance(1);
    }
    let spent = driver.soft.caches.matches.spent - before;
    while driver.soft.caches.matches.has_work() {
        driver.advance(1);
    }
    let whole = driver.soft.caches.matches.spent - before;
    assert!(spent < whole / 5, "{spent} of {whole}");
}

/// More topics than there is room for, when that is known only later.
#[test]
fn who_has_no_room_for_its_topics_is_told_at_its_next_heartbeat() {
    let limits = GroupLimits { pattern_matches_max: 1_400, ..GroupLimits::none() };
    let mut driver = Driver::new(GroupConfig { limits, fast_rebalance: true, ..server() });
    create(&mut driver, &names("t-", 1_500, 100), 1);
    let mut member = Member::default();
    send(&mut driver, "g", &mut member, Some("0: *t-.*"));
    finish(&mut driver);
    let beat = |driver: &mut Driver, member: &Member| {
        let beat = member.client.heartbeat("g", "m");
        super::patterns::answer(driver, beat)
    };
    match beat(&mut driver, &member) {
        Err(StreamsHeartbeatError::GroupMaxSizeReached(text)) => {
            assert!(
                text.contains("match 1500 topics, those of other groups 0; together they may match 1400"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    // It leaves, topics go, and who comes next has room.
    let mut leave = member.client.heartbeat("g", "m");
    leave.member_epoch = MemberEpoch::LEAVE;
    super::patterns::answer(&mut driver, leave).unwrap();
    create(&mut driver, &names("t-", 200, 100), 0);
    let mut member = Member::default();
    send(&mut driver, "g", &mut member, Some("0: *t-.*"));
    finish(&mut driver);
    rest(&mut driver, "g", &mut member);
    assert_eq!(count(&member), 1);
}

/// More news than it is worth to keep: the patterns look at all topics again.
#[test]
fn too_much_news_is_like_none() {
    let mut driver = Driver::new(GroupConfig { fast_rebalance: true, ..server() });
    driver.change_topics(&[("a1", 1), ("a2", 1)]);
    let mut member = Member::default();
    send(&mut driver, "g", &mut member, Some("0: *a[0-9]"));
    rest(&mut driver, "g", &mut member);
    let changes: Vec<String> = names("b-", 6_000, 1);
    let mut changes: Vec<(&str, i32)> = changes.iter().map(|name| (name.as_str(), 0)).collect();
    changes.insert(0, ("a3", 3));
    changes.insert(3_000, ("a2", 0));
    driver.change_topics(&changes);
    finish(&mut driver);
    rest(&mut driver, "g", &mut member);
    assert_eq!(count(&member), 3);
    driver.change_topics(&[("a3", 0)]);
    rest(&mut driver, "g", &mut member);
    assert_eq!(count(&member), 1);
}
