//! Commands to the group machine: members that behave, members that don't, and everything around them.
//!
//! ```text
//! settings u8, step*
//! ```
//!
//! A step is a byte that says what, and what it needs. Groups, members and topics come from small pools, so that steps
//! meet each other. The clients are real as far as they remember what they were told.

mod classic;
mod heartbeats;

use std::{collections::BTreeMap, sync::Arc};

use riparian_coordinator::{Decoded, RecordCodec, RecordLog as _, codecs::GroupCodec};
use riparian_group::{
    GroupMachine, GroupSoft,
    command::{
        Command, GroupFilter, OffsetCommit, OffsetDelete, OffsetFetch, OffsetToCommit, StreamsHeartbeat,
        TopologyDescription,
    },
    config::{GroupConfig, GroupOverrides},
    limits::GroupLimits,
    reply::{Effect, Reply, StreamsHeartbeatError, StreamsHeartbeatReply},
    streams::InternalTopic,
    telemetry::GroupTelemetry,
};
use riparian_types::{
    GroupId, HashSeed, InstanceId, LeaderEpoch, MemberEpoch, MemberId, Offset, PartitionCount, PartitionIndex,
    TopicName, TopicSummary, TopicsView, TopologyEpoch, Uuid, machine::Waiter,
};

use crate::{
    input::Input,
    oracle::Groups,
    shard::{Driver, KeyValue, Step},
};
use classic::ClassicClient;
use heartbeats::Client;

const STEPS_MAX: usize = 160;
const GROUPS: [&str; 3] = ["g", "h", ""];
pub(crate) const MEMBERS: [&str; 6] = ["a", "b", "c", "d", "e", ""];
pub(crate) const TOPICS: [&str; 9] = ["in", "in2", "other", "r", "c", "c2", "no", "__consumer_offsets", "not a name"];

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(input.u8());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
    }
    world.sync();
    world.driver.check_replay(true);
    world.check_patience();
}

/// A new machine, with Kafka 4.4.0's defaults but for bounds that let small numbers through.
pub(crate) fn fresh() -> (GroupMachine, GroupSoft) {
    machine(false, false)
}

/// A new machine, perhaps without delays and with room for a few members only.
fn machine(is_hasty: bool, fast_rebalance: bool) -> (GroupMachine, GroupSoft) {
    (GroupMachine::new(Arc::new(config(is_hasty, fast_rebalance))), GroupSoft::default())
}

fn config(is_hasty: bool, fast_rebalance: bool) -> GroupConfig {
    GroupConfig {
        hash_seed: HashSeed::default(),
        session_timeout_ms: 45_000,
        session_timeout_min_ms: 100,
        session_timeout_max_ms: 60_000,
        heartbeat_interval_ms: 5_000,
        heartbeat_interval_min_ms: 100,
        heartbeat_interval_max_ms: 15_000,
        num_standby_replicas: i32::from(is_hasty),
        num_standby_replicas_max: 2,
        initial_rebalance_delay_ms: if is_hasty { 0 } else { 3_000 },
        assignment_interval_ms: if is_hasty { 0 } else { 1_000 },
        assignment_interval_min_ms: 0,
        assignment_interval_max_ms: 15_000,
        task_offset_interval_ms: 60_000,
        task_offset_interval_min_ms: 15_000,
        num_warmup_replicas: 2,
        num_warmup_replicas_max: 20,
        acceptable_recovery_lag: 10_000,
        rack_aware_assignment_tags: Vec::new(),
        assignors: vec!["sticky".into()],
        members_max: if is_hasty { 4 } else { i32::MAX },
        offsets_retention_ms: 3_600_000,
        offsets_retention_check_interval_ms: 600_000,
        classic_initial_rebalance_delay_ms: if is_hasty { 0 } else { 3_000 },
        classic_session_timeout_min_ms: 6_000,
        classic_session_timeout_max_ms: 1_800_000,
        classic_members_max: if is_hasty { 4 } else { i32::MAX },
        fast_rebalance,
        fence_restarted_processes: true,
        replace_topology: true,
        resolve_patterns: true,
        changelogs: Default::default(),
        hand_out_warmups: true,
        ask_descriptions: true,
        heartbeats_per_second: 2_000,
        limits: GroupLimits::none(),
        telemetry: GroupTelemetry::default(),
    }
}

/// A member joins with an ordinary topology.
pub(crate) fn joining(group: &str, member: &str) -> StreamsHeartbeat {
    Client::default().join(group, member, &mut Input::new(&[]))
}

struct World {
    driver: Driver<GroupMachine, GroupCodec>,
    records: Groups,
    /// Up to where the records were followed.
    followed: Offset,
    clients: BTreeMap<(&'static str, &'static str), Client>,
    /// Heartbeats on their way: whose, and whether the answer will be lost.
    sent: BTreeMap<Waiter, (&'static str, &'static str, bool)>,
    classic_clients: BTreeMap<(&'static str, &'static str), ClassicClient>,
    /// What members of classic groups have asked, and whose it is.
    classic_sent: BTreeMap<Waiter, (&'static str, &'static str)>,
    topics: BTreeMap<TopicName, TopicSummary>,
    topic_count: u64,
    as_of: i64,
    overrides: BTreeMap<GroupId, GroupOverrides>,
    /// Topics that the machine has asked for.
    wanted: Vec<(GroupId, Vec<InternalTopic>)>,
    creates_at_once: bool,
    /// Whether members of streams groups do as clients do: then no task runs twice.
    all_behave: bool,
    /// What makes ids of members of classic groups unique.
    fresh_ids: u64,
}

impl World {
    fn new(settings: u8) -> Self {
        let (is_hasty, fast_rebalance) = (settings & 1 == 0, settings & 16 == 0);
        let fresh = move || machine(is_hasty, fast_rebalance);
        let mut world = Self {
            driver: Driver::new(Default::default(), fresh),
            records: Groups::default(),
            followed: Offset::ZERO,
            clients: BTreeMap::new(),
            sent: BTreeMap::new(),
            classic_clients: BTreeMap::new(),
            classic_sent: BTreeMap::new(),
            topics: BTreeMap::new(),
            topic_count: 0,
            as_of: 0,
            overrides: BTreeMap::new(),
            wanted: Vec::new(),
            creates_at_once: settings & 2 == 0,
            all_behave: settings & 32 == 0,
            fresh_ids: 0,
        };
        world.driver.sync_always = settings & 4 == 0;
        world.driver.load();
        if settings & 8 == 0 {
            for (topic, partitions) in [("in", 3), ("in2", 2), ("other", 2)] {
                world.set_topic(topic, partitions);
            }
            world.tell_topics(&["in", "in2", "other"]);
        }
        world
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() {
            byte @ 0..=191 => self.streams_step(byte % 32, input),
            byte @ 192.. => self.classic_step(byte % 16, input),
        }
    }

    /// Streams groups, offsets, and all around them.
    fn streams_step(&mut self, kind: u8, input: &mut Input<'_>) {
        if self.all_behave && kind <= 15 && !self.sent.is_empty() {
            // A client has one heartbeat on its way at most.
            self.sync();
        }
        match kind {
            0..=4 => {
                let (group, member) = who(input);
                let all_behave = self.all_behave;
                let client = self.client(group, member);
                let heartbeat = match all_behave {
                    true if client.has_joined() => client.beat(group, member, true),
                    true => client.join_alone(group, member, input),
                    false => client.join(group, member, input),
                };
                self.send(group, member, heartbeat, false);
            }
            kind @ 5..=14 => {
                let (group, member) = who(input);
                let heartbeat = self.client(group, member).beat(group, member, kind < 13);
                self.send(group, member, heartbeat, kind == 14);
            }
            15 => {
                let (group, member) = who(input);
                let epoch = if input.bool() { MemberEpoch::LEAVE_STATIC } else { MemberEpoch::LEAVE };
                let heartbeat = self.client(group, member).leave(group, member, epoch);
                self.send(group, member, heartbeat, false);
            }
            16 | 17 if !self.all_behave => {
                let (group, member) = who(input);
                let epoch = self.records.epoch(group, member);
                let heartbeat = heartbeats::hostile(input, group, member, epoch);
                self.send(group, member, heartbeat, false);
            }
            16 | 17 => self.advance(500),
            18 => {
                let commit = self.commit(input);
                self.ask(|waiter| Command::OffsetCommit(waiter, commit));
            }
            19 => {
                let fetch = self.fetch(input);
                self.ask(|waiter| Command::OffsetFetch(waiter, fetch));
            }
            20 => {
                let (group_id, topics) = (input.pick(&GROUPS).into(), partitions(input));
                self.ask(|waiter| Command::OffsetDelete(waiter, OffsetDelete { group_id, topics }));
            }
            21 => {
                let topic = input.pick(&TOPICS);
                self.set_topic(topic, input.below(6) as i32);
                self.tell_topics(&[topic]);
            }
            22 => {
                let fails = input.bool();
                self.create_wanted(fails);
            }
            23 => self.change_config(input),
            24 => {
                let group = input.pick(&GROUPS);
                let update = TopologyDescription {
                    group_id: group.into(),
                    member_id: MEMBERS[0].into(),
                    topology_epoch: TopologyEpoch(0),
                    subtopologies: vec!["0".into()],
                    description: vec![1, 2, 3],
                };
                self.ask(|waiter| Command::DescribeTopology(waiter, update.into()));
                self.ask(|waiter| Command::StreamsDescribe(waiter, group.into()));
                let words = ["stable", "Empty", "streams", "classic", "x"];
                let pick = |input: &mut Input<'_>| {
                    input.bool().then(|| input.pick(&words).to_owned()).into_iter().collect::<Vec<_>>()
                };
                let filter = GroupFilter { states: pick(input), types: pick(input) };
                self.ask(|waiter| Command::ListGroups(waiter, filter));
            }
            25 => {
                let group = input.pick(&GROUPS);
                self.ask(|waiter| Command::DeleteGroup(waiter, group.into()));
            }
            26 => self.advance(10 * u64::from(input.u8())),
            27 => self.advance(60_000 * u64::from(input.u8())),
            28 => self.restart(input.bool()),
            29 => self.sync(),
            30 => self.driver.sync_always = input.bool(),
            // Announcements overtake each other on their way.
            _ => {
                let view = TopicsView::new(self.topics.clone());
                let as_of = Offset(self.as_of - input.below(3) as i64);
                let changed = [input.pick(&TOPICS)].map(TopicName::from);
                self.tell(Command::TopicsChanged { view, as_of, changed: changed.into() });
            }
        }
    }

    /// Classic groups.
    fn classic_step(&mut self, kind: u8, input: &mut Input<'_>) {
        let (group, member) = who(input);
        let number = connection(member);
        self.fresh_ids += 1;
        let fresh = self.fresh_ids;
        let client = self.classic_clients.entry((group, member)).or_default();
        let command: Box<dyn FnOnce(Waiter) -> Command> = match kind {
            0..=4 => {
                let join = client.join(group, number, fresh, input);
                Box::new(|waiter| Command::ClassicJoin(waiter, join.into()))
            }
            5..=8 => {
                let sync = client.sync(group, input);
                Box::new(|waiter| Command::ClassicSync(waiter, sync.into()))
            }
            9 => {
                let sync = classic::hostile_sync(input, group, client);
                Box::new(|waiter| Command::ClassicSync(waiter, sync.into()))
            }
            10 | 11 => {
                let heartbeat = client.heartbeat(group);
                Box::new(|waiter| Command::ClassicHeartbeat(waiter, heartbeat))
            }
            12 => {
                let mut leaving = vec![client.leave()];
                if input.bool() {
                    leaving.push(classic::hostile_leave(input));
                }
                Box::new(move |waiter| Command::ClassicLeave(waiter, group.into(), leaving))
            }
            13 => {
                self.ask(|waiter| Command::ClassicDescribe(waiter, group.into()));
                return;
            }
            14 => {
                let patient: Vec<Waiter> = self.driver.patient().collect();
                if let Some(&waiter) = patient.get(input.below(patient.len()))
                    && let Some((group, _)) = self.classic_sent.remove(&waiter)
                {
                    self.driver.gave_up(waiter);
                    self.tell(Command::GiveUp(group.into(), waiter));
                }
                return;
            }
            _ => {
                self.tell(Command::ConnectionClosed { group: group.into(), connection: number });
                return;
            }
        };
        let (waiter, step) = self.driver.ask_patiently(command);
        self.classic_sent.insert(waiter, (group, member));
        self.learn(step, None);
    }

    /// Whoever waits for others waits no longer than the longest timeout there is, and who is silent is forgotten.
    fn check_patience(&mut self) {
        for _ in 0..4 {
            self.advance(2_000_000);
            self.sync();
        }
        let waiting: Vec<Waiter> = self.driver.patient().collect();
        assert!(waiting.is_empty(), "hours later nobody answers {waiting:?}");
        self.records.check_nobody_left();
    }

    fn sync(&mut self) {
        let step = self.driver.sync();
        self.learn(step, None);
    }

    fn client(&mut self, group: &'static str, member: &'static str) -> &mut Client {
        self.clients.entry((group, member)).or_default()
    }

    fn send(&mut self, group: &'static str, member: &'static str, heartbeat: StreamsHeartbeat, is_lost: bool) {
        let now = self.driver.now();
        let settled = heartbeat.plain().and_then(|plain| {
            self.driver.glance(plain.group_id, |machine, soft| machine.settled_heartbeat(soft, now, &plain))
        });
        if let Some(reply) = settled {
            self.note_answer(group, &reply, true);
            return self.hear(group, member, Ok(reply), is_lost);
        }
        let (waiter, step) = self.driver.ask(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
        self.sent.insert(waiter, (group, member, is_lost));
        self.learn(step, Some(waiter).filter(|_| self.driver.sync_always));
    }

    fn hear(
        &mut self,
        group: &'static str,
        member: &'static str,
        reply: Result<StreamsHeartbeatReply, StreamsHeartbeatError>,
        is_lost: bool,
    ) {
        let client = self.client(group, member);
        if is_lost { client.lost() } else { client.learn(reply) }
    }

    fn ask(&mut self, make: impl FnOnce(Waiter) -> Command) {
        let (_, step) = self.driver.ask(make);
        self.learn(step, None);
    }

    fn tell(&mut self, command: Command) {
        let step = self.driver.tell(command);
        self.learn(step, None);
    }

    fn advance(&mut self, ms: u64) {
        let step = self.driver.advance(ms);
        self.learn(step, None);
    }

    /// Follows what a step has written and answered; it may have made an answer right now, to this waiter.
    fn learn(&mut self, step: Step<GroupMachine>, at_once: Option<Waiter>) {
        self.follow();
        for (waiter, reply) in step.answers {
            if let Some(who) = self.classic_sent.remove(&waiter) {
                self.classic_clients.entry(who).or_default().learn(reply);
                continue;
            }
            let Some((group, member, is_lost)) = self.sent.remove(&waiter) else { continue };
            let Reply::StreamsHeartbeat(reply) = reply else { panic!("a heartbeat is answered by {reply:?}") };
            if let Ok(reply) = &reply {
                self.note_answer(group, reply, at_once == Some(waiter));
            }
            self.hear(group, member, reply, is_lost);
        }
        for Effect::CreateInternalTopics { group, topics } in step.effects {
            assert!(topics.iter().all(|topic| topic.partitions > 0), "{topics:?}");
            self.wanted.push((group, topics));
        }
        if self.all_behave {
            self.check_runners();
        }
        if self.creates_at_once && !self.wanted.is_empty() {
            self.create_wanted(false);
        }
    }

    /// No active task runs in two members that the group knows.
    fn check_runners(&self) {
        let mut runners = BTreeMap::new();
        for ((group, member), client) in &self.clients {
            if !self.records.has_member(group, member) {
                // It runs on until it hears that it is fenced; what it does does not count.
                continue;
            }
            for task in client.runs() {
                let other = runners.insert((*group, task.clone()), *member).filter(|other| other != member);
                assert_eq!(other, None, "{task:?} of {group} runs in {member} and in {other:?}");
            }
        }
    }

    fn note_answer(&mut self, group: &str, reply: &StreamsHeartbeatReply, at_once: bool) {
        self.records.told(group, reply);
        if at_once {
            self.records.check_answer(group, reply);
        }
    }

    fn follow(&mut self) {
        let records = decoded(&self.driver.log.records(self.followed));
        self.followed = self.driver.log.end_offset();
        self.records.follow(&records);
    }

    fn set_topic(&mut self, topic: &str, partitions: i32) {
        if partitions == 0 {
            self.topics.remove(topic);
            return;
        }
        self.topic_count += 1;
        let id = Uuid::from_halves(1, self.topic_count);
        let summary = self.topics.entry(topic.into()).or_insert(TopicSummary { id, partitions: PartitionCount(0) });
        summary.partitions = summary.partitions.max(PartitionCount(partitions));
    }

    fn tell_topics(&mut self, changed: &[&str]) {
        self.as_of += 1;
        let view = TopicsView::new(self.topics.clone());
        let changed: Vec<TopicName> = changed.iter().map(|&name| name.into()).collect();
        self.tell(Command::TopicsChanged { view, as_of: Offset(self.as_of), changed: changed.into() });
    }

    /// Creates the topics that the machine has asked for, or says why not.
    fn create_wanted(&mut self, fails: bool) {
        for (group, topics) in std::mem::take(&mut self.wanted) {
            let attempted: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
            let mut failures = BTreeMap::new();
            for topic in &topics {
                if fails || topic.partitions > 100 {
                    failures.insert(topic.name.clone(), "no".to_owned());
                } else {
                    self.set_topic(&topic.name, topic.partitions);
                }
            }
            let changed: Vec<&str> = attempted.iter().map(TopicName::as_str).collect();
            self.tell_topics(&changed);
            self.tell(Command::InternalTopicsCreated { group, attempted, failures });
        }
    }

    fn change_config(&mut self, input: &mut Input<'_>) {
        let group = GroupId::from(input.pick(&GROUPS));
        let mut overrides = self.overrides.get(&group).cloned().unwrap_or_default();
        let number = |input: &mut Input<'_>| input.bool().then(|| input.number_i32());
        match input.u8() % 8 {
            0 => overrides.session_timeout_ms = number(input),
            1 => overrides.heartbeat_interval_ms = number(input),
            2 => overrides.num_standby_replicas = number(input),
            3 => overrides.initial_rebalance_delay_ms = number(input),
            4 => overrides.assignment_interval_ms = number(input),
            5 => overrides.num_warmup_replicas = number(input),
            6 => overrides.acceptable_recovery_lag = input.bool().then(|| input.number()),
            _ => {
                let tags = ["zone", "rack", "x"];
                let tags = (0..input.below(3)).map(|_| input.pick(&tags).to_owned()).collect();
                overrides.rack_aware_assignment_tags = Some(tags);
            }
        }
        self.overrides.insert(group.clone(), overrides.clone());
        self.tell(Command::GroupConfigChanged { group, overrides });
    }

    /// The server is killed: what was not durable is gone, and so is everything that was on its way.
    fn restart(&mut self, tells_topics_late: bool) {
        self.driver.crash();
        for (group, member, _) in std::mem::take(&mut self.sent).into_values() {
            self.client(group, member).lost();
        }
        self.classic_sent.clear();
        self.wanted.clear();
        self.records.restart();
        self.followed = Offset::ZERO;
        self.follow();
        self.records.check_told();
        self.driver.check_replay(true);
        if !tells_topics_late {
            self.tell_topics(&[]);
            for (group, overrides) in self.overrides.clone() {
                self.tell(Command::GroupConfigChanged { group, overrides });
            }
        }
    }

    fn commit(&self, input: &mut Input<'_>) -> OffsetCommit {
        let (group, member) = who(input);
        let epoch = self.records.epoch(group, member);
        let from_outside = input.chance(3);
        let offsets = partitions(input).into_iter().flat_map(|(topic, indexes)| {
            let topic_id = self.topics.get(&topic).map_or(Uuid::ZERO, |topic| topic.id);
            indexes.into_iter().map(move |partition| (topic.clone(), topic_id, partition))
        });
        let mut offsets: Vec<_> = offsets
            .map(|(topic, topic_id, partition)| OffsetToCommit {
                topic,
                topic_id,
                partition,
                offset: Offset(0),
                leader_epoch: LeaderEpoch::NONE,
                metadata: String::new(),
            })
            .collect();
        for commit in &mut offsets {
            commit.offset = Offset(input.number());
            commit.leader_epoch = LeaderEpoch(input.u8().into());
            commit.metadata = String::from_utf8_lossy(input.take(2)).into_owned();
        }
        let (member_id, member_epoch) = match self.classic_clients.get(&(group, member)) {
            _ if from_outside => (MemberId::default(), MemberEpoch(-1)),
            Some(client) if input.bool() => {
                let (id, generation) = client.id_and_generation();
                (id, MemberEpoch(generation.0))
            }
            _ => (member.into(), heartbeats::epoch(input, epoch)),
        };
        OffsetCommit {
            group_id: group.into(),
            member_id,
            instance_id: input.chance(8).then(|| InstanceId::from("i")),
            member_epoch,
            retention_ms: input.chance(4).then(|| input.number()),
            knows_member_epochs: !input.bool(),
            offsets,
        }
    }

    fn fetch(&self, input: &mut Input<'_>) -> OffsetFetch {
        let (group, member) = who(input);
        let epoch = self.records.epoch(group, member);
        OffsetFetch {
            group_id: group.into(),
            member_id: input.bool().then(|| member.into()),
            member_epoch: heartbeats::epoch(input, epoch),
            topics: input.bool().then(|| partitions(input)),
            require_stable: input.bool(),
        }
    }
}

/// What the bytes of records mean; all of them must mean something.
pub(crate) fn decoded(records: &[KeyValue]) -> Vec<riparian_group::record::Record> {
    let records = records.iter().map(|(key, value)| {
        match <GroupCodec as RecordCodec<GroupMachine>>::decode(key.as_deref(), value.as_deref()) {
            Decoded::Record(record) => record,
            Decoded::Unknown { .. } | Decoded::DamagedScope { .. } | Decoded::Damaged(_) => {
                panic!("the machine's own record can't be read: {key:?}")
            }
        }
    });
    records.collect()
}

/// Mostly the first group, which is worth more with more going on in it.
fn who(input: &mut Input<'_>) -> (&'static str, &'static str) {
    let byte = input.u8();
    let group = if byte & 0xe0 == 0xe0 { 1 + usize::from(byte >> 4 & 1) } else { 0 };
    (GROUPS[group], MEMBERS[usize::from(byte & 0x1f) % MEMBERS.len()])
}

/// A connection for some members each.
pub(crate) fn connection(member: &str) -> u64 {
    MEMBERS.iter().position(|known| *known == member).map_or(9, |index| index as u64 / 2)
}

fn partitions(input: &mut Input<'_>) -> Vec<(TopicName, Vec<PartitionIndex>)> {
    let topics = (0..input.below(3)).map(|_| {
        let topic = input.pick(&TOPICS).into();
        let indexes = (0..input.below(4)).map(|_| PartitionIndex(i32::from(input.u8() as i8))).collect();
        (topic, indexes)
    });
    topics.collect()
}
