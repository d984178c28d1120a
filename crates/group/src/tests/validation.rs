//! What is wrong with a request, in the order in which it is looked for, and what the text says about it.

use alloc::{format, string::ToString, vec, vec::Vec};

use riparian_types::{MemberEpoch, PartitionIndex};

use super::{
    client::{Client, topology},
    driver::{Driver, config},
};
use crate::{
    command::{Command, StreamsHeartbeat},
    config::GroupConfig,
    reply::{Reply, StreamsHeartbeatError},
    streams::TaskIds,
};

/// Changes a join that is all right; `kind` and `text` are what the refusal must be and contain.
fn check(change: impl FnOnce(&mut StreamsHeartbeat), kind: &str, text: &str) {
    check_beat(Client::default().join("g", "m", topology("0: in > r / 1: ~r +c = r")), change, kind, text);
}

/// The same for a heartbeat of a member of an existing group.
fn check_steady(change: impl FnOnce(&mut StreamsHeartbeat), kind: &str, text: &str) {
    check_beat(Client { epoch: 2, ..Client::default() }.heartbeat("g", "m"), change, kind, text);
}

fn check_beat(mut heartbeat: StreamsHeartbeat, change: impl FnOnce(&mut StreamsHeartbeat), kind: &str, text: &str) {
    let mut config = config();
    config.initial_rebalance_delay_ms = 0;
    let mut driver = Driver::new(config);
    driver.change_topics(&[("in", 2), ("r", 2), ("c", 2)]);
    if heartbeat.member_epoch != MemberEpoch::JOIN {
        let join = Client::default().join("g", "m", topology("0: in > r / 1: ~r +c = r"));
        driver.command(|waiter| Command::StreamsHeartbeat(waiter, join.into()));
    }
    change(&mut heartbeat);
    let step = driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
    assert!(step.records.is_empty() && step.effects.is_empty());
    let Some(Reply::StreamsHeartbeat(Err(error))) = step.reply else { panic!("{:?}", step.reply) };
    let (actual_kind, actual_text) = match error {
        StreamsHeartbeatError::InvalidRequest(text) => ("request", text),
        StreamsHeartbeatError::InvalidTopology(text) => ("topology", text),
        StreamsHeartbeatError::InvalidTopologyEpoch(text) => ("topology epoch", text),
        StreamsHeartbeatError::GroupIdNotFound(text) => ("group", text),
        StreamsHeartbeatError::UnknownMemberId(text) => ("unknown", text),
        StreamsHeartbeatError::FencedMemberEpoch(text) => ("fenced", text),
        other => panic!("{other:?}"),
    };
    assert_eq!(actual_kind, kind, "{actual_text}");
    assert!(actual_text.contains(text), "{actual_text}");
}

fn tasks(subtopology: &str, partition: i32) -> Option<Vec<TaskIds>> {
    Some(vec![TaskIds { subtopology: subtopology.into(), partitions: vec![PartitionIndex(partition)] }])
}

#[test]
fn blank_names_are_refused() {
    check(|beat| beat.member_id = " ".into(), "request", "MemberId can't be empty");
    check(|beat| beat.group_id = "".into(), "request", "GroupId can't be empty");
    check(|beat| beat.instance_id = Some("\t".into()), "request", "InstanceId can't be empty");
    check(|beat| beat.rack_id = Some("".into()), "request", "RackId can't be empty");
    check(|beat| beat.member_id = "\0\u{1f}".into(), "request", "MemberId can't be empty");
    // A space beyond ASCII is a name, to Java's `trim`.
    check_steady(|beat| beat.member_id = "\u{a0}".into(), "unknown", "is not a member of group g");
}

#[test]
fn a_tag_is_given_once() {
    let tags = || Some(["zone", "cluster", "zone"].map(|key| (key.into(), "a".into())).to_vec());
    check(|beat| beat.client_tags = tags(), "request", "ClientTags have the key zone twice");
    check_steady(|beat| beat.client_tags = tags(), "request", "ClientTags have the key zone twice");
}

#[test]
fn a_join_must_be_complete() {
    check(|beat| beat.rebalance_timeout_ms = -1, "request", "RebalanceTimeoutMs must be given");
    check(|beat| beat.active_tasks = None, "request", "ActiveTasks must be present and empty");
    check(|beat| beat.standby_tasks = tasks("0", 0), "request", "StandbyTasks must be present and empty");
    check(|beat| beat.warmup_tasks = None, "request", "WarmupTasks must be present and empty");
    check(|beat| beat.topology = None, "request", "Topology must be non-null");
}

#[test]
fn topologies_that_can_never_run_are_refused() {
    check(|beat| beat.topology = Some(topology("0: in +c:3")), "topology", "Changelog topic c has 3 partitions set");
    let refused = "The source pattern (?!in).* of subtopology 0 is refused: at character 3: look-ahead";
    check(|beat| beat.topology = Some(topology("0: *(?!in).*")), "topology", refused);
    check(
        |beat| beat.topology = Some(topology("0: in = 5")),
        "topology",
        "refers to index 5 of SourceTopics, which has 1 entries",
    );
    check(|beat| beat.topology = Some(topology("0: in = -1")), "topology", "refers to index -1 of SourceTopics");
    check(|beat| beat.topology = Some(topology("0: in / 0: in")), "topology", "id 0 is used more than once");
    check(|beat| beat.topology = Some(topology("@-1 0: in")), "topology", "epoch is -1, but must be 0 or higher");
    check(|beat| beat.topology = Some(topology("0: in +c +c")), "topology", "0 lists the internal topic c twice");
    check(|beat| beat.topology = Some(topology("0: ~r ~r")), "topology", "0 lists the internal topic r twice");
    check(|beat| beat.topology = Some(topology("0: in +c{k=v,k=w}")), "topology", "topic c has the config k twice");
    check(|beat| beat.topology = Some(topology("0: ~r:-4")), "topology", "has -4 partitions set, but must have 1 to");
    check(|beat| beat.topology = Some(topology("0: +c")), "topology", "Subtopology 0 has no source topics");
    check(|beat| beat.topology = Some(topology("0: in / 1: ~q")), "topology", "topic q is written by no subtopology");
    check(
        |beat| {
            let mut huge = topology("0: in");
            let only = huge.subtopologies[0].clone();
            let of = |index: i32| crate::streams::Subtopology { id: index.to_string().into(), ..only.clone() };
            huge.subtopologies = (0..5000).map(of).collect();
            beat.topology = Some(huge);
        },
        "topology",
        "has 5000 subtopologies; at most 4096 are supported",
    );
}

/// Where the server is told to do as Kafka does.
#[test]
fn a_pattern_is_found_before_anything_else() {
    let mut driver = Driver::new(GroupConfig { resolve_patterns: false, ..config() });
    let mut join = Client::default().join("g", "m", topology("0: *in.*"));
    join.member_id = "".into();
    let step = driver.command(|waiter| Command::StreamsHeartbeat(waiter, join.into()));
    let Some(Reply::StreamsHeartbeat(Err(StreamsHeartbeatError::InvalidRequest(text)))) = step.reply else {
        panic!("{:?}", step.reply)
    };
    assert!(text.contains("by a regular expression, which is not allowed here (riparian.topology.patterns)"), "{text}");
}

#[test]
fn epochs_below_minus_two_and_static_leaves_without_instance_are_refused() {
    check_steady(|beat| beat.member_epoch = MemberEpoch(-3), "request", "MemberEpoch is -3, but must be 0");
    check_steady(|beat| beat.member_epoch = MemberEpoch(-2), "request", "MemberEpoch is -2 (static leave)");
}

#[test]
fn task_lists_come_together() {
    check_steady(|beat| beat.warmup_tasks = Some(vec![]), "request", "must be all null or all non-null");
}

#[test]
fn a_topology_comes_with_a_join_only() {
    for epoch in [2, -1] {
        check_steady(
            |beat| {
                beat.member_epoch = MemberEpoch(epoch);
                beat.topology = Some(topology("0: in"));
            },
            "request",
            "Topology can only be given when (re-)joining",
        );
    }
    check_steady(
        |beat| {
            (beat.member_epoch, beat.instance_id) = (MemberEpoch(-2), Some("i".into()));
            beat.topology = Some(topology("0: in"));
        },
        "request",
        "Topology can only be given",
    );
}

#[test]
fn owned_tasks_must_exist() {
    let own = |beat: &mut StreamsHeartbeat, active| {
        (beat.active_tasks, beat.standby_tasks, beat.warmup_tasks) = (active, Some(vec![]), Some(vec![]));
    };
    check_steady(|beat| own(beat, tasks("7", 0)), "request", "subtopology 7, which the group's topology does not have");
    check_steady(|beat| own(beat, tasks("0", 2)), "request", "task 2 of subtopology 0, which has 2 tasks");
    check_steady(|beat| own(beat, tasks("0", -1)), "request", "task -1 of subtopology 0");
}

#[test]
fn offsets_name_a_task_once() {
    let twice = || {
        let offset = crate::streams::TaskOffset {
            subtopology: "9".into(),
            partition: PartitionIndex(-4),
            offset: riparian_types::Offset(-1),
        };
        Some(vec![offset.clone(), offset])
    };
    check_steady(|beat| beat.task_offsets = twice(), "request", "partition -4 of subtopology 9 twice");
    check_steady(|beat| beat.task_end_offsets = twice(), "request", "partition -4 of subtopology 9 twice");
}

#[test]
fn groups_and_members_must_exist_unless_they_join() {
    check_steady(|beat| beat.group_id = "other".into(), "group", "Streams group other not found");
    check_steady(|beat| beat.member_id = "other".into(), "unknown", "Member other is not a member of group g");
    check_steady(|beat| beat.member_epoch = MemberEpoch(3), "fenced", "reports epoch 3, but has only reached 2");
    check_steady(|beat| beat.member_epoch = MemberEpoch(1), "fenced", "reports epoch 1, but is at 2");
}

#[test]
fn who_has_left_for_a_while_is_told_so() {
    let mut driver = Driver::new(GroupConfig { initial_rebalance_delay_ms: 0, ..config() });
    driver.change_topics(&[("in", 2)]);
    let client = |epoch| Client { epoch, instance: Some("i".into()), ..Client::default() };
    let mut send = |heartbeat: StreamsHeartbeat| match driver
        .command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()))
        .reply
    {
        Some(Reply::StreamsHeartbeat(result)) => result,
        other => panic!("{other:?}"),
    };
    let epoch = send(client(0).join("g", "m", topology("0: in"))).expect("the join is right").member_epoch;
    send(client(-2).heartbeat("g", "m")).expect("it may leave");
    for reported in [epoch.0, 1] {
        match send(client(reported).heartbeat("g", "m")) {
            Err(StreamsHeartbeatError::FencedMemberEpoch(text)) => assert_eq!(
                text,
                format!(
                    "The member reports epoch {reported}, but has left for a while (epoch -2), and its tasks wait for its \
                     instance id. It must rejoin."
                )
            ),
            other => panic!("{other:?}"),
        }
    }
}
