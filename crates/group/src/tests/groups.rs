//! Groups as they are described, listed, deleted, converted, restarted, damaged.

use alloc::sync::Arc;

use expect_test::expect;
use riparian_types::{
    Offset, WallMillis,
    machine::{Machine, RecordContext, Waiter},
};

use super::{
    driver::{Driver, config},
    script::{Client, check, topology},
};
use crate::{
    GroupMachine,
    command::Command,
    record::{ClassicGroupValue, Record},
    reply::{DeleteGroupError, Reply, StreamsHeartbeatError},
    streams::TaskLists,
};

#[test]
fn a_group_is_described_as_it_is() {
    check(
        "
        topics in=2
        topology 0: in > r / 1: ~r +c
        config assignment=0
        describe
        join a
        describe
        topics r=2 c=2
        beat a at=1_0:5 ends=1_0:7
        describe
        +3000
        describe
        beat a
        describe
        join b
        describe
        beat a
        leave a
        describe
        leave b
        describe
        ",
        expect![[r#"
            > topics in=2
            > topology 0: in > r / 1: ~r +c
            > config assignment=0
            > describe
              StreamsDescribe(Err(GroupNotFound("Group g not found.")))
            > join a
              epoch 1 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              status 3: Internal topics are missing: c, r
              19 a process a
              23 epoch 0
              17 epoch 2 validated -1 num.standby.replicas=0
              22 a epoch 1 before 0 STABLE [ |  | ]
              create c=2 r=2
            > describe
              NotReady epoch 2 assignment 1
              subtopology 0 
              subtopology 1 r=0 c=0
              member a epoch 1 [ |  | ] target [ |  | ] offsets 0
            > topics r=2 c=2
            > beat a at=1_0:5 ends=1_0:7
              epoch 1 -
              status 5: The assignment waits for the initial rebalance delay to pass.
              17 epoch 3 validated 0 num.standby.replicas=0
            > describe
              Assigning epoch 3 assignment 1
              subtopology 0 
              subtopology 1 r=2 c=2
              member a epoch 1 [ |  | ] target [ |  | ] offsets 1
            > +3000
              at +3000
              21 a [0_0 0_1 1_0 1_1 |  | ]
              20 epoch 3
            > describe
              Reconciling epoch 3 assignment 3
              subtopology 0 
              subtopology 1 r=2 c=2
              member a epoch 1 [ |  | ] target [0_0 0_1 1_0 1_1 |  | ] offsets 1
            > beat a
              epoch 3 [0_0 0_1 1_0 1_1 |  | ]
              22 a epoch 3 before 1 STABLE [0_0@3 0_1@3 1_0@3 1_1@3 |  | ]
            > describe
              Stable epoch 3 assignment 3
              subtopology 0 
              subtopology 1 r=2 c=2
              member a epoch 3 [0_0 0_1 1_0 1_1 |  | ] target [0_0 0_1 1_0 1_1 |  | ] offsets 1
            > join b
              epoch 4 [ |  | ]
              19 b process b
              17 epoch 4 validated 0 num.standby.replicas=0
              21 a [0_0 1_0 |  | ]
              21 b [0_1 1_1 |  | ]
              20 epoch 4
              22 b epoch 4 before 0 UNRELEASED [ |  | ]
            > describe
              Reconciling epoch 4 assignment 4
              subtopology 0 
              subtopology 1 r=2 c=2
              member a epoch 3 [0_0 0_1 1_0 1_1 |  | ] target [0_0 1_0 |  | ] offsets 1
              member b epoch 4 [ |  | ] target [0_1 1_1 |  | ] offsets 0
            > beat a
              epoch 3 [0_0 1_0 |  | ]
              22 a epoch 3 before 3 UNREVOKED [0_0@3 1_0@3 |  | ] gives back [0_1@3 1_1@3 |  | ]
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 5 validated 0 num.standby.replicas=0
            > describe
              Assigning epoch 5 assignment 4
              subtopology 0 
              subtopology 1 r=2 c=2
              member b epoch 4 [ |  | ] target [0_1 1_1 |  | ] offsets 0
            > leave b
              epoch -1 -
              22 b -
              21 b -
              19 b -
              17 epoch 6 validated 0 num.standby.replicas=0
              20 epoch 6 no time
            > describe
              Empty epoch 6 assignment 6
              subtopology 0 
              subtopology 1 r=2 c=2
        "#]],
    );
}

#[test]
fn lists_are_filtered_as_by_kafka() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a
        commit - in=other in-0=1
        topology 0: missing
        join b in=third
        list
        list types=STREAMS
        list types=classic,what
        list types=what
        list states=stable
        list states=NotReady
        list states=NOT_READY
        list states=Empty types=classic
        delete
        delete in=nobody
        leave a
        delete
        list
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=0
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > commit - in=other in-0=1
              OffsetCommit(Ok(()))
              1 in-0 1
            > topology 0: missing
            > join b in=third
              epoch 1 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              status 1: Source topics are missing: missing. Create them; the server does not.
              19 b process b
              23 epoch 0
              17 epoch 2 no hash validated -1 num.standby.replicas=0
              22 b epoch 1 before 0 STABLE [ |  | ]
            > list
              g "streams" Stable streams
              other "" Empty classic
              third "streams" NotReady streams
            > list types=STREAMS
              g "streams" Stable streams
              third "streams" NotReady streams
            > list types=classic,what
              other "" Empty classic
            > list types=what
            > list states=stable
              g "streams" Stable streams
            > list states=NotReady
            > list states=NOT_READY
              third "streams" NotReady streams
            > list states=Empty types=classic
              other "" Empty classic
            > delete
              DeleteGroup(Err(NotEmpty))
            > delete in=nobody
              DeleteGroup(Err(NotFound))
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 3 validated 0 num.standby.replicas=0
              20 epoch 3 no time
            > delete
              DeleteGroup(Ok(()))
              20 -
              17 -
              23 -
            > list
              other "" Empty classic
              third "streams" NotReady streams
        "#]],
    );
}

#[test]
fn members_go_on_after_a_restart() {
    check(
        "
        topics in=2 r=2 c=2
        topology 0: in > r / 1: ~r +c
        config delay=0 assignment=0
        join a endpoint=h:1 timeout=20000
        join b
        beat a
        restart
        beat b
        beat a
        ack a
        ack b
        restart
        beat a
        +44999
        beat a
        +1
        restart
        topics in=3
        beat a
        ",
        expect![[r#"
            > topics in=2 r=2 c=2
            > topology 0: in > r / 1: ~r +c
            > config delay=0 assignment=0
            > join a endpoint=h:1 timeout=20000
              epoch 2 [0_0 0_1 1_0 1_1 |  | ]
              endpoint h:1 at 0 in[0, 1] r[0, 1] | 
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 1_0 1_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 1_0@2 1_1@2 |  | ]
            > join b
              epoch 3 [ |  | ]
              endpoint h:1 at 0 in[0, 1] r[0, 1] | 
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 1_0 |  | ]
              21 b [0_1 1_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat a
              epoch 2 [0_0 1_0 |  | ]
              endpoint h:1 at 1 in[0] r[0] | 
              22 a epoch 2 before 2 UNREVOKED [0_0@2 1_0@2 |  | ] gives back [0_1@2 1_1@2 |  | ]
            > restart
            > beat b
              epoch 3 -
              22 b epoch 3 before 3 UNRELEASED [ |  | ]
            > beat a
              epoch 2 -
              endpoint h:1 at 0 in[0] r[0] | 
            > ack a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 1_0@2 |  | ]
            > ack b
              epoch 3 [0_1 1_1 |  | ]
              22 b epoch 3 before 3 STABLE [0_1@3 1_1@3 |  | ]
            > restart
            > beat a
              epoch 3 -
            > +44999
            > beat a
              epoch 3 -
            > +1
              at +1
              22 b -
              21 b -
              19 b -
              17 epoch 4 validated 0 num.standby.replicas=0
            > restart
            > topics in=3
            > beat a
              epoch 3 [ |  | ]
              status 2: Internal topic r exists with 2 partitions, but must have 3; delete it or change the topics it depends on.
              endpoint h:1 at 1  | 
              17 epoch 5 validated -1 num.standby.replicas=0
              21 a [ |  | ]
              20 epoch 5
              22 a epoch 3 before 3 UNREVOKED [ |  | ] gives back [0_0@2 1_0@2 |  | ]
        "#]],
    );
}

#[test]
fn the_rebalance_timer_runs_again_after_a_restart() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a timeout=20000
        join b
        beat a
        +15000
        restart
        +19999
        beat a
        +1
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=0
            > join a timeout=20000
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat a
              epoch 2 [0_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > +15000
            > restart
            > +19999
            > beat a
              epoch 2 -
            > +1
              at +1
              22 a -
              21 a -
              19 a -
              17 epoch 4 validated 0 num.standby.replicas=0
        "#]],
    );
}

#[test]
fn a_group_of_offsets_makes_way_and_keeps_them() {
    check(
        "
        topics in=2
        config delay=0
        commit - in-0=5
        beat a epoch=1
        join a
        fetch -
        leave a
        delete
        ",
        expect![[r#"
            > topics in=2
            > config delay=0
            > commit - in-0=5
              OffsetCommit(Ok(()))
              1 in-0 5
            > beat a epoch=1
              GroupIdNotFound("Streams group g not found.")
            > join a
              epoch 2 [0_0 0_1 |  | ]
              2 -
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > fetch -
              in-0 5
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 3 validated 0 num.standby.replicas=0
              20 epoch 3 no time
            > delete
              DeleteGroup(Ok(()))
              1 in-0 -
              20 -
              17 -
              23 -
        "#]],
    );
}

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
    let value = ClassicGroupValue { protocol_type: "consumer".into(), has_members };
    Record::ClassicGroupMetadata(group.into(), Some(value))
}

#[test]
fn an_empty_classic_group_makes_way() {
    let mut driver = Driver::new(config());
    driver.replay_always = false;
    driver.machine.apply(&context(), &classic("empty", false)).unwrap();
    driver.machine.apply(&context(), &classic("full", true)).unwrap();
    let (count, reply) = join(&mut driver, "empty");
    assert_eq!((count, reply), (5, Ok(())));
    assert_eq!(driver.log[0], Record::ClassicGroupMetadata("empty".into(), None));
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
    driver.machine.quarantine("g".into(), reason.into());
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
