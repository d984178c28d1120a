//! What is told of groups as numbers.

use alloc::{format, string::String, vec::Vec};

use riparian_types::{GroupId, Offset, PartitionIndex};

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    command::{Command, OffsetCommit, OffsetToCommit},
    reply::{GroupState, Reply},
    telemetry::{Census, CensusPage, Gone, GroupKindReading, StreamsReading, TaskCounts, Totals},
};

fn census(driver: &mut Driver, after: Option<GroupId>, singly_max: usize, steps_max: usize) -> CensusPage {
    let census = Census { after, singly_max, steps_max };
    match driver.command(|waiter| Command::Census(waiter, census)).reply {
        Some(Reply::Census(page)) => *page,
        other => panic!("{other:?}"),
    }
}

fn streams(driver: &mut Driver) -> StreamsReading {
    let page = census(driver, None, 1, 100);
    match page.groups.into_iter().next().map(|group| group.kind) {
        Some(GroupKindReading::Streams(reading)) => reading,
        other => panic!("{other:?}"),
    }
}

fn send(driver: &mut Driver, client: &mut Client, heartbeat: crate::command::StreamsHeartbeat) {
    let step = driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
    match step.reply {
        Some(Reply::StreamsHeartbeat(Ok(reply))) => client.learn(&reply),
        other => panic!("{other:?}"),
    }
}

/// The state, and the milliseconds in each that the group has been in.
fn check(driver: &mut Driver, state: GroupState, times: &[(GroupState, u64)]) -> StreamsReading {
    let reading = streams(driver);
    let been = GroupState::ALL.into_iter().zip(reading.ms_in_state).filter(|(_, ms)| *ms > 0);
    assert_eq!((reading.state, been.collect::<Vec<_>>().as_slice()), (state, times));
    reading
}

#[test]
fn time_is_booked_to_the_state_that_a_group_was_in() {
    use GroupState::{Assigning, Empty, Reconciling, Stable};

    let mut driver = Driver::new(config());
    driver.change_topics(&[("in", 2)]);
    let mut client = Client::default();
    let join = client.join("g", "m", topology("0: in"));
    send(&mut driver, &mut client, join);
    check(&mut driver, Assigning, &[]);
    driver.advance(1_000);
    let reading = check(&mut driver, Assigning, &[(Assigning, 1_000)]);
    assert_eq!((reading.rebalances, reading.tasks), (0, TaskCounts::default()));
    // The initial delay is over in between.
    driver.advance(2_500);
    let reading = check(&mut driver, Reconciling, &[(Assigning, 3_000), (Reconciling, 500)]);
    assert_eq!(reading.rebalances, 1);
    let heartbeat = client.heartbeat("g", "m");
    send(&mut driver, &mut client, heartbeat);
    driver.advance(10_000);
    let mut report = client.heartbeat("g", "m");
    client.report(&mut report);
    send(&mut driver, &mut client, report);
    let stable = [(Assigning, 3_000), (Reconciling, 500), (Stable, 10_000)];
    let reading = check(&mut driver, Stable, &stable);
    assert_eq!(reading.tasks, TaskCounts { active: 2, ..TaskCounts::default() });
    client.epoch = -1;
    let leave = client.heartbeat("g", "m");
    send(&mut driver, &mut client, leave);
    driver.advance(70);
    let reading = check(&mut driver, Empty, &[&[(Empty, 70)], stable.as_slice()].concat());
    assert_eq!(reading.rebalances, 1, "an empty group is not rebalanced");
    let shared = driver.machine.config.telemetry.clone();
    assert_eq!((shared.streams_rebalances().get(), shared.assignments().read().count()), (1, 1));
    assert_eq!(Gone::ALL.map(|why| shared.gone_from_streams(why).get()), [1, 0, 0, 0]);
    // Another one falls silent.
    let mut silent = Client::default();
    let join = silent.join("g", "silent", topology("0: in"));
    send(&mut driver, &mut silent, join);
    driver.advance(60_000);
    assert_eq!(Gone::ALL.map(|why| shared.gone_from_streams(why).get()), [1, 1, 0, 0]);
    // After a restart nobody knows what was before.
    driver.restart();
    driver.advance(5);
    check(&mut driver, Empty, &[(Empty, 5)]);
}

/// Groups of offsets, a streams group with two members, one that is damaged.
fn many() -> Driver {
    let mut driver = Driver::new(config());
    driver.change_topics(&[("in", 2)]);
    for number in 0..5 {
        driver.command(|waiter| Command::OffsetCommit(waiter, commit(&format!("offsets-{number}"))));
    }
    for member in ["m", "n"] {
        let mut client = Client::default();
        let join = client.join("streams", member, topology("0: in"));
        send(&mut driver, &mut client, join);
    }
    riparian_types::machine::Machine::quarantine(&mut driver.machine, "worse".into(), String::from("of a test"), None);
    driver
}

fn commit(group: &str) -> OffsetCommit {
    OffsetCommit {
        group_id: group.into(),
        member_id: "".into(),
        instance_id: None,
        member_epoch: riparian_types::MemberEpoch(-1),
        knows_member_epochs: false,
        retention_ms: None,
        offsets: alloc::vec![OffsetToCommit {
            topic: "in".into(),
            topic_id: riparian_types::Uuid::ZERO,
            partition: PartitionIndex(0),
            offset: Offset(1),
            leader_epoch: riparian_types::LeaderEpoch(-1),
            metadata: String::new(),
        }],
    }
}

#[test]
fn pages_of_any_size_tell_of_every_group_once() {
    let mut driver = many();
    let whole = census(&mut driver, None, 100, 1_000);
    assert_eq!(whole.more_after, None);
    assert_eq!((whole.totals.count(), whole.totals.damaged, whole.totals.streams_members), (7, 1, 2));
    let ids: Vec<&str> = whole.groups.iter().map(|group| &*group.group_id).collect();
    assert_eq!(ids, ["offsets-0", "offsets-1", "offsets-2", "offsets-3", "offsets-4", "streams"]);
    for steps_max in 1..10 {
        let (mut totals, mut groups, mut after) = (Totals::default(), Vec::new(), None);
        loop {
            let page = census(&mut driver, after, 100, steps_max);
            assert!(page.groups.len() <= steps_max, "{page:?}");
            totals.add(&page.totals);
            groups.extend(page.groups);
            match page.more_after {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        assert_eq!((&totals, &groups), (&whole.totals, &whole.groups), "{steps_max} steps");
    }
}

#[test]
fn groups_beyond_the_limit_are_in_the_totals_only() {
    let mut driver = many();
    let (some, all) = (census(&mut driver, None, 2, 1_000), census(&mut driver, None, 100, 1_000));
    assert_eq!((some.groups.len(), some.totals), (2, all.totals));
}
