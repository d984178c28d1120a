//! The group machine against the records that a Kafka 4.4.0 broker wrote: it reads them, and for the same events writes
//! the same bytes.

#![expect(clippy::unwrap_used, reason = "a sample that is not as expected fails the test")]

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use riparian_coordinator::{Decoded, RecordCodec, codecs::GroupCodec};
use riparian_group::{
    GroupMachine, GroupSoft,
    command::{Caller, ClientSupport, Command, GroupFilter, StreamsHeartbeat},
    config::{GroupConfig, GroupOverrides},
    limits::GroupLimits,
    record::{Record, StreamsMemberMetadataValue},
    reply::{GroupState, Reply},
    streams::{TaskLists, Topology},
    telemetry::GroupTelemetry,
};
use riparian_types::{
    HashSeed, MemberEpoch, MonoMillis, Now, Offset, PartitionCount, TopicName, TopicSummary, TopicsView, WallMillis,
    machine::{Decision, Machine, RecordContext, Waiter},
};

#[path = "../../protocol/tests/support/golden.rs"]
#[expect(dead_code, reason = "the comparison with JSON is for the codec's tests")]
mod support;

/// A sample's records without transaction markers, and their bytes.
fn records(name: &str) -> Vec<(Record, Vec<u8>, Option<Vec<u8>>)> {
    let samples = support::samples(name).into_iter().filter(|sample| !sample["control"].is_string());
    samples
        .map(|sample| {
            let (key, value) = (support::hex(&sample, "key").unwrap(), support::hex(&sample, "value"));
            match GroupCodec::decode(Some(&key), value.as_deref()) {
                Decoded::Record(record) => (record, key, value),
                _ => panic!("{sample}"),
            }
        })
        .collect()
}

fn config() -> GroupConfig {
    GroupConfig {
        hash_seed: HashSeed::default(),
        session_timeout_ms: 45_000,
        session_timeout_min_ms: 6_000,
        session_timeout_max_ms: 60_000,
        heartbeat_interval_ms: 5_000,
        heartbeat_interval_min_ms: 5_000,
        heartbeat_interval_max_ms: 15_000,
        num_standby_replicas: 0,
        num_standby_replicas_max: 2,
        initial_rebalance_delay_ms: 3_000,
        assignment_interval_ms: 1_000,
        assignment_interval_min_ms: 0,
        assignment_interval_max_ms: 15_000,
        task_offset_interval_ms: 60_000,
        task_offset_interval_min_ms: 15_000,
        num_warmup_replicas: 2,
        num_warmup_replicas_max: 20,
        acceptable_recovery_lag: 10_000,
        rack_aware_assignment_tags: Vec::new(),
        assignors: vec!["sticky".into()],
        members_max: i32::MAX,
        classic_initial_rebalance_delay_ms: 3_000,
        classic_session_timeout_min_ms: 6_000,
        classic_session_timeout_max_ms: 1_800_000,
        classic_members_max: i32::MAX,
        offsets_retention_ms: 7 * 24 * 3_600_000,
        offsets_retention_check_interval_ms: 600_000,
        fast_rebalance: false,
        fence_restarted_processes: true,
        replace_topology: false,
        resolve_patterns: false,
        changelogs: Default::default(),
        hand_out_warmups: false,
        ask_descriptions: false,
        heartbeats_per_second: 2_000,
        limits: GroupLimits::none(),
        telemetry: GroupTelemetry::default(),
    }
}

fn apply(machine: &mut GroupMachine, record: &Record) {
    let context = RecordContext { offset: Offset(0), timestamp: WallMillis(0), producer: None };
    assert_eq!(machine.apply(&context, record), Ok(()), "{record:?}");
}

/// What the groups are after each record of a log.
fn states_while_loading(name: &str) -> Vec<String> {
    let mut machine = GroupMachine::new(Arc::new(config()));
    let mut states = Vec::new();
    for (record, _, _) in records(name) {
        apply(&mut machine, &record);
        let mut soft = GroupSoft::default();
        let list = Command::ListGroups(Waiter(0), GroupFilter::default());
        let decision = machine.decide(&mut soft, Now::default(), list);
        let Reply::ListGroups(groups) = &decision.replies[0].reply else { panic!() };
        let state = groups.first().map_or_else(|| "none".to_owned(), |group| group.state.clone());
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

#[test]
fn logs_of_a_kafka_broker_are_loaded() {
    for name in ["records-lifecycle.jsonl", "records-static-raw.jsonl"] {
        let states = states_while_loading(name);
        assert!(states.contains(&GroupState::Stable.name().to_owned()), "{name}: {states:?}");
        assert_eq!(states.last().unwrap(), "none", "{name}: the group was deleted");
    }
    let states = states_while_loading("records-static-eos.jsonl");
    assert_eq!(states.last().unwrap(), "Empty");
}

/// Causes the events of a sample one by one and compares what the machine writes.
struct Play {
    machine: GroupMachine,
    soft: GroupSoft,
    group: &'static str,
    start: i64,
    now: i64,
    expected: VecDeque<(Record, Vec<u8>, Option<Vec<u8>>)>,
    topology: Topology,
    topics: BTreeMap<TopicName, TopicSummary>,
    members: BTreeMap<&'static str, (i32, TaskLists, StreamsMemberMetadataValue)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    Nothing,
    Tasks,
    Leave,
    LeaveStatic,
}

impl Play {
    fn new(name: &str, group: &'static str, start: i64) -> Self {
        let expected: VecDeque<_> = records(name).into();
        let topology = expected.iter().find_map(|(record, _, _)| match record {
            Record::StreamsTopology(_, topology) => topology.clone(),
            _ => None,
        });
        let mut play = Self {
            machine: GroupMachine::new(Arc::new(config())),
            soft: GroupSoft::default(),
            group,
            start,
            now: start,
            expected,
            topology: topology.unwrap(),
            topics: BTreeMap::new(),
            members: BTreeMap::new(),
        };
        play.topic("words-in", "FTUt7NVOSxObVxbVtcYhWw");
        play
    }

    fn now(&self) -> Now {
        Now { mono: MonoMillis((self.now - self.start) as u64), wall: WallMillis(self.now) }
    }

    fn command(&mut self, command: Command) -> Option<Reply> {
        let now = self.now();
        let decision = self.machine.decide(&mut self.soft, now, command);
        self.compare(decision)
    }

    fn compare(&mut self, decision: Decision<GroupMachine>) -> Option<Reply> {
        for record in &decision.records {
            // Offsets were committed by the samples' clients, not by this test.
            while matches!(self.expected.front(), Some((Record::OffsetCommit(..), _, _))) {
                self.expected.pop_front();
            }
            let (expected, key, value) = self.expected.pop_front().expect("the sample has no more records");
            assert_eq!(*record, expected);
            let bytes = GroupCodec::encode(record);
            assert_eq!((bytes.key, bytes.value), (Some(key), value), "{record:?}");
            apply(&mut self.machine, record);
        }
        decision.replies.into_iter().next().map(|answer| answer.reply)
    }

    /// Lets time pass; what comes due meanwhile happens at this moment.
    fn at(&mut self, wall: i64) {
        self.now = wall;
        while self.machine.next_deadline(&self.soft).is_some_and(|next| next <= self.now().mono) {
            let now = self.now();
            let decision = self.machine.on_deadline(&mut self.soft, now);
            self.compare(decision);
        }
    }

    fn topic(&mut self, name: &str, id: &str) {
        let topic = TopicSummary { id: id.parse().unwrap(), partitions: PartitionCount(2) };
        self.topics.insert(name.into(), topic);
        let view = TopicsView::new(self.topics.clone());
        self.command(Command::TopicsChanged { view, as_of: Offset(0), changed: Arc::new([name.into()]) });
    }

    fn configure(&mut self, overrides: GroupOverrides) {
        self.command(Command::GroupConfigChanged { group: self.group.into(), overrides });
    }

    /// Joins with what the sample says about the member, the last time before its next record of another kind.
    fn join(&mut self, member: &'static str) {
        let mut stored = self.expected.iter().take(8).filter_map(|(record, _, _)| match record {
            Record::StreamsMemberMetadata(_, id, Some(value)) if id.as_str() == member => Some(value),
            _ => None,
        });
        let metadata = stored.next_back().unwrap().clone();
        self.members.insert(member, (0, TaskLists::default(), metadata));
        self.beat(member, Report::Tasks);
    }

    fn beat(&mut self, member: &'static str, report: Report) {
        let (epoch, tasks, metadata) = self.members[member].clone();
        let is_join = epoch == 0;
        let owned = |tasks: Vec<_>| (report == Report::Tasks).then_some(tasks);
        let heartbeat = StreamsHeartbeat {
            caller: Caller {
                client_id: metadata.client_id.as_str().into(),
                client_host: metadata.client_host.to_string(),
                connection: 0,
            },
            is_usual_client: true,
            support: ClientSupport { heartbeat_v1: true },
            group_id: self.group.into(),
            member_id: member.into(),
            member_epoch: match report {
                Report::Leave => MemberEpoch::LEAVE,
                Report::LeaveStatic => MemberEpoch::LEAVE_STATIC,
                Report::Nothing | Report::Tasks => MemberEpoch(epoch),
            },
            endpoint_information_epoch: -1,
            instance_id: metadata.instance_id,
            rack_id: metadata.rack_id.map(|id| id.to_string()),
            rebalance_timeout_ms: if is_join { metadata.rebalance_timeout_ms } else { -1 },
            topology: is_join.then(|| self.topology.clone()),
            active_tasks: owned(tasks.active),
            standby_tasks: owned(tasks.standby),
            warmup_tasks: owned(tasks.warmup),
            process_id: is_join.then_some(metadata.process_id),
            user_endpoint: metadata.user_endpoint.filter(|_| is_join).map(|endpoint| *endpoint),
            client_tags: is_join.then(|| metadata.client_tags.to_vec()),
            task_offsets: None,
            task_end_offsets: None,
            shutdown_application: false,
        };
        let reply = self.command(Command::StreamsHeartbeat(Waiter(0), Box::new(heartbeat)));
        let Some(Reply::StreamsHeartbeat(Ok(reply))) = reply else { panic!("{member}: {reply:?}") };
        let state = self.members.get_mut(member).unwrap();
        state.0 = reply.member_epoch.0;
        state.1 = reply.tasks.unwrap_or_else(|| state.1.clone());
    }
}

use Report::{Leave, LeaveStatic, Nothing, Tasks};

#[test]
fn static_members_are_recorded_as_by_kafka() {
    let mut play = Play::new("records-static-raw.jsonl", "static-demo", 1_795_968_139_066);
    play.configure(GroupOverrides { session_timeout_ms: Some(6_000), ..GroupOverrides::default() });
    play.join("m1");
    play.at(1_795_968_142_492);
    play.beat("m1", Nothing);
    play.join("m9");
    play.at(1_795_968_143_607);
    play.beat("m1", Nothing);
    play.beat("m1", Tasks);
    play.beat("m9", Nothing);
    play.beat("m1", LeaveStatic);
    play.join("m2");
    play.beat("m2", LeaveStatic);
    play.join("m2");
    play.beat("m2", LeaveStatic);
    play.join("m3");
    play.at(1_795_968_145_006);
    play.beat("m3", Nothing);
    play.beat("m3", LeaveStatic);
    play.at(1_795_968_147_060);
    play.beat("m9", Nothing);
    play.at(1_795_968_151_006);
    play.at(1_795_968_151_209);
    play.beat("m9", Nothing);
    play.beat("m9", Leave);
    play.command(Command::DeleteGroup(Waiter(0), "static-demo".into()));
    assert!(play.expected.is_empty());
}

/// Up to where the assignors give equally good, but different, assignments.
#[test]
fn the_life_of_an_application_is_recorded_as_by_kafka() {
    let (a, b) = ("8qzHVearT4SUFQhVJSaauA", "cZHhDlJzTPmTahlBHCXWsg");
    let mut play = Play::new("records-lifecycle.jsonl", "wc", 1_795_966_860_095);
    play.join(a);
    play.topic("wc-by-word-repartition", "M785epa6SjeidlJ9MAIYEg");
    play.topic("wc-counts-changelog", "ze5XfAIfSNyOpDr6M5vJhg");
    play.beat(a, Nothing);
    play.at(1_795_966_863_095);
    play.beat(a, Nothing);
    play.beat(a, Tasks);
    play.at(1_795_966_876_279);
    play.join(b);
    play.beat(b, Tasks);
    play.beat(a, Nothing);
    play.beat(a, Tasks);
    play.beat(b, Nothing);
    play.beat(b, Tasks);
    play.at(1_795_966_920_000);
    play.beat(b, Nothing);
    play.at(1_795_966_921_000);
    play.beat(a, Nothing);
    play.at(1_795_966_961_406);
    play.configure(GroupOverrides { num_standby_replicas: Some(1), ..GroupOverrides::default() });
    play.beat(b, Nothing);
    play.beat(b, Tasks);
    play.at(1_795_966_975_618);
    play.at(1_795_966_976_429);
    play.beat(b, Nothing);
    for seconds in [1_015, 1_055, 1_095, 1_129] {
        play.at(1_795_966_000_000 + 1_000 * seconds);
        play.beat(b, Tasks);
    }
    play.beat(b, Leave);
    let (a1, a2) = ("Y9qq2CuqQIO0viHAbphwAg", "ZFSCovhnRCGV5kDmplgqFA");
    play.join(a1);
    play.join(a2);
    assert!(matches!(play.expected.front(), Some((Record::StreamsTargetMember(..), _, _))));
}
