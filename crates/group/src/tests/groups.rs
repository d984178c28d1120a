//! Groups as they are described, listed, deleted, converted, restarted, damaged.

use alloc::{string::String, sync::Arc, vec::Vec};

use riparian_types::{
    Generation, Offset, WallMillis,
    machine::{Machine, RecordContext, Waiter},
};

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    GroupMachine,
    command::Command,
    record::{ClassicGroupValue, ClassicMemberValue, Record},
    reply::{DeleteGroupError, Reply, StreamsHeartbeatError},
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

fn classic(group: &str, has_members: bool) -> Record {
    let member = ClassicMemberValue {
        member_id: "m".into(),
        instance_id: None,
        client_id: String::new(),
        client_host: String::new(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        subscription: Arc::default(),
        subscribed_topics: None,
        assignment: Arc::default(),
    };
    let value = ClassicGroupValue {
        protocol_type: "consumer".into(),
        generation: Generation(1),
        protocol: Some("range".into()),
        leader: has_members.then(|| "m".into()),
        state_timestamp: None,
        members: if has_members { alloc::vec![member] } else { Vec::new() },
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
