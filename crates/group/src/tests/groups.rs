//! Groups as they are described, listed, deleted, converted, restarted, damaged.

use alloc::{string::String, sync::Arc, vec::Vec};

use riparian_types::{
    Generation, MemberEpoch, Offset, WallMillis,
    machine::{Machine, RecordContext, Waiter},
};

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    GroupMachine,
    classic::{ClassicGroupState, Protocol},
    command::{Caller, ClassicJoin, Command, JoinSupport},
    config::GroupConfig,
    record::{ClassicGroupValue, ClassicMemberValue, Record},
    reply::{ClassicJoinError, DeleteGroupError, Reply, StreamsHeartbeatError},
    streams::TaskLists,
};

fn join(driver: &mut Driver, group: &str) -> (usize, Result<(), StreamsHeartbeatError>) {
    let join = Client::default().join(group, "m", topology("0: in"));
    let step = driver.command(|waiter| Command::StreamsHeartbeat(waiter, join.into()));
    match step.reply {
        Some(Reply::StreamsHeartbeat(reply)) => (step.records.len(), reply.map(|_| ())),
        other => panic!("{other:?}"),
    }
}

fn context() -> RecordContext {
    RecordContext { offset: Offset(0), timestamp: WallMillis(0), producer: None }
}

fn classic_member() -> ClassicMemberValue {
    ClassicMemberValue {
        member_id: "m".into(),
        instance_id: None,
        client_id: String::new(),
        client_host: String::new(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        subscription: Arc::default(),
        subscribed_topics: None,
        assignment: Arc::default(),
    }
}

fn classic_value() -> ClassicGroupValue {
    ClassicGroupValue {
        protocol_type: "consumer".into(),
        generation: Generation(1),
        protocol: Some("range".into()),
        leader: None,
        state_timestamp: None,
        members: Vec::new(),
    }
}

fn classic(group: &str, has_members: bool) -> Record {
    let value = match has_members {
        true => {
            ClassicGroupValue { leader: Some("m".into()), members: alloc::vec![classic_member()], ..classic_value() }
        }
        false => classic_value(),
    };
    Record::ClassicGroupMetadata(group.into(), Some(value))
}

#[test]
fn an_empty_classic_group_makes_way() {
    let mut driver = Driver::new(config());
    driver.log.extend([classic("empty", false), classic("full", true)]);
    driver.restart();
    let (count, reply) = join(&mut driver, "empty");
    assert_eq!((count, reply), (5, Ok(())));
    assert_eq!(driver.log[2], Record::ClassicGroupMetadata("empty".into(), None));
    let (count, reply) = join(&mut driver, "full");
    assert_eq!(count, 0);
    assert!(matches!(reply, Err(StreamsHeartbeatError::GroupIdNotFound(text)) if text.contains("classic group")));
}

/// A group whose records contradict each other is refused, costs no other group, and can be deleted.
#[test]
fn a_damaged_group_is_put_aside_alone() {
    let mut driver = Driver::new(config());
    driver.replay_always = false;
    driver.change_topics(&[("in", 1)]);
    let _ = join(&mut driver, "g");
    let _ = join(&mut driver, "good");
    driver
        .machine
        .apply(&context(), &Record::StreamsTargetMember("g".into(), "m".into(), Some(TaskLists::default())))
        .unwrap();
    let bad = Record::StreamsGroupMetadata("g".into(), None);
    assert!(driver.machine.apply(&context(), &bad).is_err());
    let reason = "the group is deleted, but has 1 members";
    driver.machine.quarantine("g".into(), reason.into(), None);
    let (_, reply) = join(&mut driver, "g");
    assert!(matches!(reply, Err(StreamsHeartbeatError::Internal(text)) if text.contains(reason)));
    let (_, reply) = join(&mut driver, "good");
    assert_eq!(reply, Ok(()));

    let delete = |driver: &mut Driver| driver.command(|waiter| Command::DeleteGroup(waiter, "g".into()));
    let step = delete(&mut driver);
    assert!(matches!(step.reply, Some(Reply::DeleteGroup(Ok(())))));
    assert_eq!(step.records.len(), 6, "{:?}", step.records);
    assert!(matches!(delete(&mut driver).reply, Some(Reply::DeleteGroup(Err(DeleteGroupError::NotFound)))));
    let (count, reply) = join(&mut driver, "g");
    assert_eq!((count, reply), (4, Ok(())));
}

/// A record whose value can't be read: all that is known of the group is the record's key.
#[test]
fn a_group_of_which_nothing_can_be_read_can_be_deleted() {
    let mut driver = Driver::new(config());
    driver.replay_always = false;
    let tombstone = Record::StreamsTopology("g".into(), None);
    driver.machine.quarantine("g".into(), "value: cut off".into(), Some(&tombstone));
    let mut delete = || driver.command(|waiter| Command::DeleteGroup(waiter, "g".into()));
    let step = delete();
    assert!(matches!(step.reply, Some(Reply::DeleteGroup(Ok(())))));
    assert_eq!(step.records, [tombstone]);
    assert!(matches!(delete().reply, Some(Reply::DeleteGroup(Err(DeleteGroupError::NotFound)))));
}

#[test]
fn a_task_that_cannot_be_is_damage() {
    let mut machine = GroupMachine::new(Arc::new(config()));
    let mut lists = TaskLists::default();
    lists.active.push(crate::streams::TaskIds {
        subtopology: "0".into(),
        partitions: alloc::vec![riparian_types::PartitionIndex(1 << 20)],
    });
    let record = Record::StreamsTargetMember("g".into(), "m".into(), Some(lists));
    assert!(machine.apply(&context(), &record).is_err());
    assert_eq!(machine.tombstones(&"g".into()).unwrap().len(), 4);
}

/// As they were written before tasks had epochs of their own.
#[test]
fn tasks_without_epochs_have_their_members() {
    let mut driver = Driver::new(GroupConfig { initial_rebalance_delay_ms: 0, ..config() });
    driver.change_topics(&[("in", 2)]);
    join(&mut driver, "g").1.unwrap();
    let mut record = driver.log.last().unwrap().clone();
    let Record::StreamsCurrentAssignment(_, _, Some(value)) = &mut record else { panic!("{record:?}") };
    value.member_epoch = MemberEpoch(7);
    value.active[0].assignment_epochs.clear();
    driver.log.push(record);
    driver.restart();
    let group = driver.machine.groups["g"].streams().unwrap();
    let progress = &group.members.get("m").unwrap().progress;
    let epochs: Vec<i32> = progress.assigned.active.iter().map(|task| task.epoch.0).collect();
    assert_eq!(epochs, [7, 7]);
}

#[test]
fn before_topics_are_shown_members_are_asked_to_wait() {
    let machine = GroupMachine::new(Arc::new(config()));
    let mut soft = crate::GroupSoft::default();
    let join = Client::default().join("g", "m", topology("0: in"));
    let command = Command::StreamsHeartbeat(Waiter(1), join.into());
    let decision = machine.decide(&mut soft, riparian_types::Now::default(), command);
    let reply = &decision.replies[0].reply;
    assert!(matches!(reply, Reply::StreamsHeartbeat(Err(StreamsHeartbeatError::LoadInProgress))));
}

#[test]
fn a_group_of_another_type_is_not_told_to_be_missing() {
    let mut driver = Driver::new(config());
    driver.log.push(Record::ClassicGroupMetadata("g".into(), Some(classic_value())));
    driver.restart();
    let mut told = |group: &str| {
        let step = driver.command(|waiter| Command::StreamsDescribe(waiter, group.into()));
        match step.reply {
            Some(Reply::StreamsDescribe(Err(error))) => error.0,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told("g"), "Group g is not a streams group.");
    assert_eq!(told("h"), "Group h not found.");
}

/// The limit was lowered while the server was down: who is back first stays.
#[test]
fn a_classic_group_that_is_too_large_when_it_is_loaded_rebalances() {
    let mut driver = Driver::new(GroupConfig { classic_members_max: 2, ..config() });
    let member = |id: &str| ClassicMemberValue { member_id: id.into(), ..classic_member() };
    let value = ClassicGroupValue {
        members: alloc::vec![member("a"), member("b"), member("c")],
        leader: Some("a".into()),
        ..classic_value()
    };
    driver.log.push(Record::ClassicGroupMetadata("g".into(), Some(value)));
    driver.restart();
    let state = |driver: &mut Driver| {
        let step = driver.command(|waiter| Command::ClassicDescribe(waiter, "g".into()));
        match step.reply {
            Some(Reply::ClassicDescribe(Ok(described))) => (described.state, described.members.len()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(state(&mut driver), (ClassicGroupState::PreparingRebalance, 3));
    let mut join = |id: &str| {
        let join = ClassicJoin {
            caller: Caller { client_id: "c".into(), client_host: String::new(), connection: 0 },
            support: JoinSupport { given_id: true, skip_assignment: true },
            group_id: "g".into(),
            member_id: id.into(),
            fresh_id: String::new(),
            instance_id: None,
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".into(),
            protocols: alloc::vec![Protocol {
                name: "range".into(),
                metadata: Arc::default(),
                subscribed_topics: None,
            }],
        };
        driver.command(|waiter| Command::ClassicJoin(waiter, join.into())).reply
    };
    assert!(join("b").is_none() && join("c").is_none());
    let Some(Reply::ClassicJoin(Err(refusal))) = join("a") else { panic!("there is no room") };
    assert_eq!(refusal.error, ClassicJoinError::GroupMaxSizeReached);
    assert_eq!(driver.answers.len(), 2, "the others go on without it");
    assert_eq!(state(&mut driver), (ClassicGroupState::CompletingRebalance, 2));
}
