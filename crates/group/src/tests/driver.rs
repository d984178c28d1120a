//! Runs one machine in virtual time, applies its records right after each decision, and checks after every command what
//! must always hold.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use riparian_types::{
    GroupEpoch, GroupId, HashSeed, MemberId, MonoMillis, Now, Offset, PartitionCount, Prng, TopicName, TopicSummary,
    TopicsView, Uuid, WallMillis,
    machine::{Decision, Machine, RecordContext, Waiter},
};

use super::client::Client;
use crate::{
    GroupMachine, GroupSoft,
    command::Command,
    config::GroupConfig,
    limits::GroupLimits,
    record::Record,
    reply::{Effect, Reply},
    telemetry::GroupTelemetry,
};

/// When every test begins; the monotonic clock starts elsewhere than the wall clock.
const START_MS: u64 = 1_000_000;
/// In how many ways a log is read that is compacted in part.
const PARTLY_COMPACTED: usize = 3;
const WALL_AHEAD_MS: i64 = 1_700_000_000_000;

/// Kafka 4.4.0's defaults.
pub(crate) fn config() -> GroupConfig {
    GroupConfig {
        hash_seed: HashSeed::default(),
        session_timeout_ms: 45_000,
        session_timeout_min_ms: 45_000,
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
        assignors: alloc::vec!["sticky".into()],
        members_max: i32::MAX,
        classic_initial_rebalance_delay_ms: 3_000,
        classic_session_timeout_min_ms: 6_000,
        classic_session_timeout_max_ms: 1_800_000,
        classic_members_max: i32::MAX,
        offsets_retention_ms: 7 * 24 * 3_600_000,
        offsets_retention_check_interval_ms: 600_000,
        fast_rebalance: false,
        fence_restarted_processes: true,
        replace_topology: true,
        resolve_patterns: true,
        changelogs: Default::default(),
        hand_out_warmups: false,
        ask_descriptions: false,
        heartbeats_per_second: 2_000,
        limits: GroupLimits::none(),
        telemetry: GroupTelemetry::default(),
    }
}

/// A machine with its log.
pub(crate) struct Driver {
    pub(crate) machine: GroupMachine,
    pub(crate) soft: GroupSoft,
    pub(crate) now_ms: u64,
    pub(crate) log: Vec<Record>,
    /// Where batches begin in it.
    batches: Vec<usize>,
    topics: BTreeMap<TopicName, TopicSummary>,
    topic_ids: u64,
    topics_as_of: i64,
    overrides: BTreeMap<GroupId, crate::config::GroupOverrides>,
    epochs: BTreeMap<GroupId, GroupEpoch>,
    waiters: u64,
    /// How many heartbeats were answered because their members were settled.
    pub(crate) settled: u64,
    /// Answers to commands that had to wait for them.
    pub(crate) answers: BTreeMap<Waiter, Reply>,
    /// Commands that nobody has answered yet.
    pub(crate) waiting: BTreeSet<Waiter>,
    /// Compare with a replay after each step.
    pub(crate) replay_always: bool,
}

/// What a step led to.
pub(crate) struct Step {
    /// Of the command.
    pub(crate) waiter: Waiter,
    pub(crate) records: Vec<Record>,
    pub(crate) reply: Option<Reply>,
    pub(crate) effects: Vec<Effect>,
}

impl Driver {
    pub(crate) fn new(config: GroupConfig) -> Self {
        let machine = GroupMachine::new(Arc::new(config));
        let mut driver = Self {
            machine,
            soft: GroupSoft::default(),
            now_ms: START_MS,
            log: Vec::new(),
            batches: Vec::new(),
            topics: BTreeMap::new(),
            topic_ids: 0,
            topics_as_of: 0,
            overrides: BTreeMap::new(),
            epochs: BTreeMap::new(),
            waiters: 0,
            settled: 0,
            answers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            replay_always: true,
        };
        let now = driver.now();
        driver.machine.loaded(&mut driver.soft, now);
        driver.change_topics(&[]);
        driver
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono: MonoMillis(self.now_ms), wall: WallMillis(self.now_ms as i64 + WALL_AHEAD_MS) }
    }

    pub(crate) fn command(&mut self, make: impl FnOnce(Waiter) -> Command) -> Step {
        let now = self.now();
        self.waiters += 1;
        let waiter = Waiter(self.waiters);
        let command = make(waiter);
        if is_answered(&command) {
            self.waiting.insert(waiter);
        }
        if let Command::StreamsHeartbeat(_, heartbeat) = &command
            && let Some(plain) = heartbeat.plain()
            && let Some(reply) = self.machine.settled_heartbeat(&mut self.soft, now, &plain)
        {
            self.settled += 1;
            return self.carry_out(waiter, Decision::reply(waiter, None, Reply::StreamsHeartbeat(Ok(reply))));
        }
        let decision = self.machine.decide(&mut self.soft, now, command);
        self.carry_out(waiter, decision)
    }

    /// Lets time pass until this command is answered, if it is by then.
    pub(crate) fn await_answer(&mut self, waiter: Waiter, limit_ms: u64) -> (Option<Reply>, Vec<Record>) {
        let end = self.now_ms + limit_ms;
        let mut records = Vec::new();
        loop {
            if let Some(reply) = self.answers.remove(&waiter) {
                return (Some(reply), records);
            }
            let next = self.machine.next_deadline(&self.soft).filter(|deadline| deadline.0 <= end);
            let Some(deadline) = next else { return (None, records) };
            let ms = deadline.0.saturating_sub(self.now_ms);
            records.extend(self.advance(ms).into_iter().flat_map(|step| step.records));
        }
    }

    /// Lets time pass; timers fire when they are due.
    pub(crate) fn advance(&mut self, ms: u64) -> Vec<Step> {
        let end = self.now_ms + ms;
        let mut steps = Vec::new();
        while let Some(deadline) = self.machine.next_deadline(&self.soft).filter(|deadline| deadline.0 <= end) {
            self.now_ms = self.now_ms.max(deadline.0);
            let now = self.now();
            let decision = self.machine.on_deadline(&mut self.soft, now);
            let step = self.carry_out(Waiter(0), decision);
            if !step.records.is_empty() {
                steps.push(step);
            }
        }
        self.now_ms = end;
        steps
    }

    /// Sets partition counts; 0 deletes a topic.
    pub(crate) fn change_topics(&mut self, changes: &[(&str, i32)]) -> Step {
        self.change_topics_unheard(changes);
        let view = TopicsView::new(self.topics.clone());
        let changed: Vec<TopicName> = changes.iter().map(|&(name, _)| name.into()).collect();
        self.topics_as_of += 1;
        let as_of = Offset(self.topics_as_of);
        self.command(|_| Command::TopicsChanged { view, as_of, changed: changed.into() })
    }

    pub(crate) fn override_config(&mut self, group: &str, overrides: crate::config::GroupOverrides) {
        self.overrides.insert(group.into(), overrides.clone());
        self.command(|_| Command::GroupConfigChanged { group: group.into(), overrides });
    }

    pub(crate) fn overrides(&self, group: &str) -> crate::config::GroupOverrides {
        self.overrides.get(group).cloned().unwrap_or_default()
    }

    /// Sets partition counts without telling the machine; 0 deletes a topic.
    pub(crate) fn change_topics_unheard(&mut self, changes: &[(&str, i32)]) {
        for &(name, partitions) in changes {
            if partitions == 0 {
                self.topics.remove(name);
                continue;
            }
            self.topic_ids += 1;
            let id = Uuid::from_halves(1, self.topic_ids);
            let topic = self.topics.entry(name.into()).or_insert(TopicSummary { id, partitions: PartitionCount(0) });
            topic.partitions = PartitionCount(partitions);
        }
    }

    pub(crate) fn topic_id(&self, name: &str) -> Uuid {
        self.topics.get(name).map_or(Uuid::ZERO, |topic| topic.id)
    }

    /// Loses everything but the log.
    pub(crate) fn restart(&mut self) -> Step {
        self.machine = replay(&self.machine, &self.log);
        self.soft = GroupSoft::default();
        self.answers.clear();
        self.waiting.clear();
        let now = self.now();
        self.machine.loaded(&mut self.soft, now);
        let step = self.change_topics(&[]);
        for (group, overrides) in self.overrides.clone() {
            self.command(|_| Command::GroupConfigChanged { group, overrides });
        }
        step
    }

    fn carry_out(&mut self, waiter: Waiter, decision: Decision<GroupMachine>) -> Step {
        self.batches.push(self.log.len());
        for record in &decision.records {
            let result = self.machine.apply(&context(self.log.len()), record);
            assert_eq!(result, Ok(()), "{record:?}");
            self.log.push(record.clone());
        }
        if !decision.records.is_empty() {
            self.check_state();
            if self.replay_always {
                self.check_replay();
            }
        }
        let mut reply = None;
        for answer in decision.replies {
            // Some commands are made without a waiter of their own.
            if answer.waiter == waiter || answer.waiter == Waiter(0) {
                assert!(reply.is_none(), "answered twice: {:?}", answer.reply);
                self.waiting.remove(&waiter);
                reply = Some(answer.reply);
            } else {
                assert!(self.waiting.remove(&answer.waiter), "answered unasked or twice: {:?}", answer.reply);
                self.answers.insert(answer.waiter, answer.reply);
            }
        }
        if let Some(Reply::StreamsHeartbeat(Ok(reply))) = &reply
            && reply.member_epoch.0 >= 0
        {
            self.check_reply(&decision.records, reply);
        }
        Step { waiter, records: decision.records, reply, effects: decision.effects }
    }

    /// What holds for the records at all times.
    fn check_state(&mut self) {
        for (group_id, group) in &self.machine.groups {
            let Some(group) = group.streams() else { continue };
            group.state();
            let mut owners = BTreeMap::new();
            for (member_id, member) in group.members.iter() {
                let progress = &member.progress;
                for task in progress.assigned.active.tasks().chain(progress.pending_revocation().active.tasks()) {
                    if let Some(other) = owners.insert(task, member_id) {
                        panic!("{task:?} of {group_id} belongs to {other} and {member_id}");
                    }
                }
                let mut roles = BTreeSet::new();
                let is_listed_once = progress.assigned.iter().all(|(_, task)| roles.insert(task));
                assert!(is_listed_once, "{member_id} has a task twice: {progress:?}");
            }
            let last = self.epochs.insert(group_id.clone(), group.epoch);
            assert!(last.is_none_or(|last| last <= group.epoch), "the epoch of {group_id} went back");
        }
        let groups = &self.machine.groups;
        self.epochs.retain(|group_id, _| groups.get(group_id).is_some_and(|group| group.streams().is_some()));
    }

    /// What is kept beside the members of classic groups fits them, and no timer is armed that nobody knows of.
    pub(crate) fn check_classic(&self) {
        let mut timers = 0;
        for (group_id, group) in &self.soft.classic {
            timers += group.check(group_id);
        }
        assert_eq!(self.soft.timers.classic_count(), timers);
        for (group_id, group) in &self.machine.groups {
            let is_classic = matches!(group.kind, crate::group::GroupKind::Classic(_));
            assert!(!is_classic || self.soft.classic.contains_key(group_id), "{group_id} does not live");
        }
    }

    /// A replay of the log, as it is and compacted, gives the state that there is.
    pub(crate) fn check_replay(&self) {
        let length = self.log.len();
        assert_eq!(replay(&self.machine, &self.log), self.machine, "replay of the whole log");
        let compacted_whole = compacted(&self.log, length, length);
        assert_eq!(replay(&self.machine, &compacted_whole), self.machine, "replay of the compacted log");
        let mut luck = Prng::new(length as u64);
        for _ in 0..PARTLY_COMPACTED {
            // No cleaner comes between two records of a batch.
            let mut place = || self.batches.get(luck.below(self.batches.len() as u64) as usize).copied().unwrap_or(0);
            let (one, other) = (place(), place());
            let (cleaned, buried) = (one.max(other), one.min(other));
            let log = compacted(&self.log, cleaned, buried);
            let what =
                format!("replay of the log compacted up to {cleaned} of {length}, without tombstones up to {buried}");
            assert_eq!(replay(&self.machine, &log), self.machine, "{what}");
        }
    }

    /// A machine that is loaded when its log ends with any of its batches knows each of its members at its epoch, with the
    /// tasks that it has, and what timers have it do contradicts nothing.
    pub(crate) fn check_every_load(&self, asked_of_each: usize) {
        let mut machine = GroupMachine::new(Arc::clone(&self.machine.config));
        let mut luck = Prng::new(self.log.len() as u64);
        let mut ends = self.batches.clone();
        ends.push(self.log.len());
        ends.dedup();
        for place in ends.windows(2) {
            for offset in place[0]..place[1] {
                assert_eq!(machine.apply(&context(offset), &self.log[offset]), Ok(()));
            }
            let mut soft = GroupSoft::default();
            let now = self.now();
            machine.loaded(&mut soft, now);
            let view = TopicsView::new(self.topics.clone());
            let as_of = Offset(self.topics_as_of);
            let _ = machine.decide(&mut soft, now, Command::TopicsChanged { view, as_of, changed: Arc::new([]) });
            let members = machine.groups.iter().flat_map(|(group_id, group)| {
                let group = group.streams().into_iter();
                group.flat_map(move |group| group.members.iter().map(move |(id, member)| (group_id, group, id, member)))
            });
            let mut members: Vec<_> = members.filter(|(.., member)| member.progress.epoch.0 > 0).collect();
            for _ in 0..asked_of_each.min(members.len()) {
                let (group_id, group, id, member) = members.swap_remove(luck.below(members.len() as u64) as usize);
                let client = Client {
                    epoch: member.progress.epoch.0,
                    instance: member.metadata.instance_id.as_ref().map(ToString::to_string),
                    tasks: member.progress.assigned.to_lists(&group.ids),
                    ..Client::default()
                };
                let mut heartbeat = client.heartbeat(group_id, id);
                client.report(&mut heartbeat);
                let decision = machine.decide(&mut soft, now, Command::StreamsHeartbeat(Waiter(1), heartbeat.into()));
                let reply = decision.replies.into_iter().map(|answer| answer.reply).next();
                let Some(Reply::StreamsHeartbeat(Ok(reply))) = reply else {
                    panic!("{id} of {group_id} at {}, after a load at record {}: {reply:?}", client.epoch, place[1]);
                };
                assert!(reply.member_epoch >= member.progress.epoch, "{id} is told {reply:?}");
            }
            let deadline = machine.next_deadline(&soft);
            if let Some(at) = deadline {
                let later = Now { mono: MonoMillis(at.0.max(now.mono.0)), ..now };
                let _ = machine.on_deadline(&mut soft, later);
            }
        }
    }

    /// The answer tells what the records say.
    fn check_reply(&self, records: &[Record], reply: &crate::reply::StreamsHeartbeatReply) {
        let has_member = |group: &&crate::streams::group::StreamsGroup| group.members.contains_key(&reply.member_id);
        let groups = self.machine.groups.values().filter_map(|group| group.streams());
        let found = groups.filter(has_member).any(|group| {
            let progress = &group.members.get(&reply.member_id).unwrap().progress;
            progress.epoch == reply.member_epoch
                && reply.tasks.as_ref().is_none_or(|tasks| *tasks == progress.assigned.to_lists(&group.ids))
        });
        assert!(found, "{reply:?} after {records:?}");
    }
}

/// Whether the command is one that has an answer.
fn is_answered(command: &Command) -> bool {
    !matches!(
        command,
        Command::TopicsChanged { .. }
            | Command::InternalTopicsCreated { .. }
            | Command::GroupConfigChanged { .. }
            | Command::ConnectionClosed { .. }
            | Command::GiveUp(..)
    )
}

fn context(offset: usize) -> RecordContext {
    RecordContext { offset: Offset(offset as i64), timestamp: WallMillis(0), producer: None }
}

fn replay(like: &GroupMachine, log: &[Record]) -> GroupMachine {
    let mut machine = GroupMachine::new(Arc::clone(&like.config));
    for (offset, record) in log.iter().enumerate() {
        assert_eq!(machine.apply(&context(offset), record), Ok(()), "{record:?}");
    }
    machine
}

/// What a cleaner leaves that has come so far (M-21): of the records before that the last of each key, in their order, the
/// older tombstones among them gone; and all that follow. What a record builds on may be missing.
fn compacted(log: &[Record], cleaned: usize, buried: usize) -> Vec<Record> {
    let mut last = BTreeMap::new();
    for (index, record) in log[..cleaned].iter().enumerate() {
        last.insert(key(record), index);
    }
    let kept: BTreeSet<usize> = last.into_values().collect();
    let is_left = |index: &usize| *index >= buried || !is_tombstone(&log[*index]);
    kept.into_iter().filter(is_left).chain(cleaned..log.len()).map(|index| log[index].clone()).collect()
}

fn key(record: &Record) -> (String, String) {
    let group = record.group().to_string();
    let of = |kind: &str, member: &MemberId| format!("{kind} {member}");
    let key = match record {
        Record::OffsetCommit(_, topic, partition, _) => format!("1 {topic} {partition}"),
        Record::ClassicGroupMetadata(..) => "2".into(),
        Record::StreamsGroupMetadata(..) => "17".into(),
        Record::StreamsMemberMetadata(_, member, _) => of("19", member),
        Record::StreamsTargetMetadata(..) => "20".into(),
        Record::StreamsTargetMember(_, member, _) => of("21", member),
        Record::StreamsCurrentAssignment(_, member, _) => of("22", member),
        Record::StreamsTopology(..) => "23".into(),
        Record::StreamsTopologyDescription(..) => "21072".into(),
    };
    (group, key)
}

fn is_tombstone(record: &Record) -> bool {
    matches!(
        record,
        Record::OffsetCommit(_, _, _, None)
            | Record::ClassicGroupMetadata(_, None)
            | Record::StreamsGroupMetadata(_, None)
            | Record::StreamsMemberMetadata(_, _, None)
            | Record::StreamsTargetMetadata(_, None)
            | Record::StreamsTargetMember(_, _, None)
            | Record::StreamsCurrentAssignment(_, _, None)
            | Record::StreamsTopology(_, None)
            | Record::StreamsTopologyDescription(_, None)
    )
}
