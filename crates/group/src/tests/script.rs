//! Runs scripts (`docs/SCRIPTS.md`) in virtual time: those of `testdata`, and those that the two servers answer alike.

extern crate std;

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use std::path::{Path, PathBuf};

use riparian_testkit::{
    Command as Line, HeartbeatWords, Members, OffsetWords, Runner, Script,
    show::{Printer, Record as Shown},
};
use riparian_types::{LeaderEpoch, MemberEpoch, MemberId, Offset, PartitionIndex, TopicName, Uuid, machine::Machine};

use super::{
    classic::Parked,
    convert,
    driver::{Driver, Step, config},
};
use crate::{
    command::{Command, GroupFilter, OffsetCommit, OffsetDelete, OffsetFetch, OffsetToCommit},
    config::GroupConfig,
    record::Record,
    reply::{Effect, OffsetDeleteError, OffsetDeleteOutcome, Reply},
    streams::InternalTopic,
};

/// Scripts of the servers about what is refused before a group hears of it.
const NOT_ABOUT_GROUPS: [&str; 4] = ["classic-versions", "configs", "offsets-unknown", "topic-names"];
/// The last version of OffsetCommit that names topics instead of giving their ids.
const COMMIT_BY_NAME: i16 = 9;
/// From here on members commit with their epoch.
const COMMIT_WITH_EPOCH: i16 = 9;

#[test]
fn scripts_lead_to_what_they_say() {
    run_all("testdata", &[], |path| {
        let mut run = Run::new(config(), Printer::new());
        Script::check_file(path, Runner::VirtualTime, |line| run.line(line)).map_err(|error| error.to_string())
    });
}

#[test]
fn scripts_of_the_servers_hold_in_virtual_time() {
    run_all("../../tests/scripts", &NOT_ABOUT_GROUPS, |path| {
        let mut run = Run::new(config_of_the_servers(), Printer::without_texts());
        let script = Script::load(path).map_err(|error| error.to_string())?;
        script.check(Runner::VirtualTime, |line| run.line(line)).map_err(|mismatch| mismatch.to_string())
    });
}

fn run_all(dir: &str, left_out: &[&str], run: impl Fn(&Path) -> Result<(), String>) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(dir);
    let entries = std::fs::read_dir(dir).expect("the scripts are there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a listed file is there").path()).collect();
    paths.retain(|path| !left_out.iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name)));
    paths.sort();
    assert!(!paths.is_empty());
    let failures: Vec<String> = paths.iter().filter_map(|path| run(path).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// As the differential suite starts both servers.
fn config_of_the_servers() -> GroupConfig {
    GroupConfig {
        session_timeout_min_ms: 100,
        heartbeat_interval_min_ms: 50,
        task_offset_interval_min_ms: 100,
        initial_rebalance_delay_ms: 0,
        assignment_interval_ms: 0,
        classic_initial_rebalance_delay_ms: 1_000,
        classic_session_timeout_min_ms: 100,
        classic_members_max: 3,
        ..config()
    }
}

pub(super) struct Run {
    pub(super) driver: Driver,
    config: GroupConfig,
    members: Members,
    /// Commands of classic members whose answers were not waited for.
    pub(super) parked: BTreeMap<(String, String), Parked>,
    pub(super) fresh_ids: u32,
    pub(super) printer: Printer,
    topics: BTreeMap<String, i32>,
    /// What the group has asked to be created and nobody has created yet.
    wanted: Vec<InternalTopic>,
}

pub(super) type Lines = Result<Vec<String>, String>;

impl Run {
    fn new(config: GroupConfig, printer: Printer) -> Self {
        let mut members = Members::new();
        members.set_topology(riparian_testkit::Topology::parse("0: in").expect("it is a topology"));
        let (topics, wanted) = (BTreeMap::new(), Vec::new());
        let parked = BTreeMap::new();
        Self { driver: Driver::new(config.clone()), config, members, parked, fresh_ids: 0, printer, topics, wanted }
    }

    fn line(&mut self, line: &str) -> Lines {
        match Line::parse(line).map_err(|error| error.to_string())? {
            Line::Topology(topology) => {
                self.members.set_topology(topology);
                Ok(Vec::new())
            }
            Line::Topics(topics) => self.change_topics(&topics),
            Line::Unheard(topics) => {
                self.driver.change_topics_unheard(&borrowed(&topics));
                Ok(Vec::new())
            }
            Line::Await(topics) => self.await_topics(&topics),
            Line::CreationEnded(topics) => {
                let attempted = topics.iter().map(|(topic, _)| topic.as_str().into()).collect();
                let failures = topics.iter().filter_map(|(topic, text)| Some((topic.as_str().into(), text.clone()?)));
                Ok(self.creation_ended(attempted, failures.collect()))
            }
            Line::Server(entries) => self.set_up(&entries),
            Line::Config { group, entries } => self.configure(&group, &entries),
            Line::Heartbeat(words) => self.heartbeat(&words),
            Line::Classic(words) => self.classic(&words),
            Line::Answer { group, member } => self.answer_of(&group, &member),
            Line::CloseMember { group, member } => self.close_member(&group, &member),
            Line::ClassicDescribe { group } => {
                Ok(self.command(|waiter| Command::ClassicDescribe(waiter, convert::name(&group))))
            }
            Line::Wait { ms } => Ok(self.wait(ms)),
            Line::Restart => {
                self.parked.clear();
                let step = self.driver.restart();
                Ok(self.shown(&step))
            }
            Line::Close { connection } => {
                Ok(self.command(|_| Command::ConnectionClosed { group: "g".into(), connection }))
            }
            Line::Describe { group } => {
                Ok(self.command(|waiter| Command::StreamsDescribe(waiter, convert::name(&group))))
            }
            Line::List { states, types } => {
                Ok(self.command(|waiter| Command::ListGroups(waiter, GroupFilter { states, types })))
            }
            Line::Delete { group } => Ok(self.command(|waiter| Command::DeleteGroup(waiter, convert::name(&group)))),
            Line::Commit(words) => Ok(self.commit(&words)),
            Line::Fetch(words) => {
                let fetch = OffsetFetch {
                    group_id: convert::name(&words.group),
                    member_id: words.member.as_deref().map(|member| self.member_id(&words.group, member)),
                    member_epoch: MemberEpoch(words.epoch),
                    topics: (!words.all).then(|| by_topic(&words)),
                    require_stable: words.require_stable,
                };
                Ok(self.command(|waiter| Command::OffsetFetch(waiter, fetch)))
            }
            Line::Forget(words) => {
                let delete = OffsetDelete { group_id: convert::name(&words.group), topics: by_topic(&words) };
                Ok(self.command(|waiter| Command::OffsetDelete(waiter, delete)))
            }
        }
    }

    fn member_id(&self, group: &str, member: &str) -> MemberId {
        self.printer.classic.id(group, member).into()
    }

    fn command(&mut self, make: impl FnOnce(riparian_types::machine::Waiter) -> Command) -> Vec<String> {
        let step = self.driver.command(make);
        self.shown(&step)
    }

    /// One timer at a time, to tell when each fired.
    fn wait(&mut self, ms: u64) -> Vec<String> {
        let mut lines = Vec::new();
        let start = self.driver.now_ms;
        let end = start + ms;
        loop {
            let next = self.driver.machine.next_deadline(&self.driver.soft);
            let until = next.map_or(end, |next| next.0.max(self.driver.now_ms).min(end));
            for step in self.driver.advance(until - self.driver.now_ms) {
                lines.push(format!("at +{}", self.driver.now_ms - start));
                lines.extend(self.shown(&step));
            }
            if self.driver.now_ms >= end {
                return lines;
            }
        }
    }

    fn change_topics(&mut self, changes: &[(String, i32)]) -> Lines {
        let mut lines = Vec::new();
        let mut accepted = Vec::new();
        for (topic, partitions) in changes {
            let now = self.topics.get(topic).copied().unwrap_or(0);
            if *partitions != 0 && *partitions <= now {
                lines.push(format!("{topic} {}", self.printer.error("INVALID_PARTITIONS", Some("it has more"))));
                continue;
            }
            self.topics.insert(topic.clone(), *partitions);
            accepted.push((topic.as_str(), *partitions));
        }
        let step = self.driver.change_topics(&accepted);
        lines.extend(self.shown(&step));
        Ok(lines)
    }

    fn await_topics(&mut self, topics: &[(String, i32)]) -> Lines {
        let wanted = core::mem::take(&mut self.wanted);
        for (topic, partitions) in topics {
            let found = wanted.iter().find(|wanted| wanted.name.as_str() == topic);
            if found.is_none_or(|found| found.partitions != *partitions) {
                return Err(format!("{topic}={partitions} was not asked for, but {wanted:?}"));
            }
        }
        let attempted = wanted.iter().map(|topic| topic.name.clone()).collect();
        let mut lines = self.creation_ended(attempted, BTreeMap::new());
        lines.extend(self.change_topics(topics)?);
        Ok(lines)
    }

    fn creation_ended(&mut self, attempted: Vec<TopicName>, failures: BTreeMap<TopicName, String>) -> Vec<String> {
        self.command(|_| Command::InternalTopicsCreated { group: "g".into(), attempted, failures })
    }

    fn set_up(&mut self, entries: &[(String, String)]) -> Lines {
        // Topics are created by somebody else.
        for (key, value) in entries.iter().filter(|(key, _)| key != "riparian.replication.cap") {
            let value = value.parse().map_err(|_| format!("{value} is no number"))?;
            match key.as_str() {
                "group.streams.max.size" => self.config.members_max = value,
                "group.streams.min.session.timeout.ms" => self.config.session_timeout_min_ms = value,
                "group.max.size" => self.config.classic_members_max = value,
                "group.initial.rebalance.delay.ms" => self.config.classic_initial_rebalance_delay_ms = value,
                "group.max.session.timeout.ms" => self.config.classic_session_timeout_max_ms = value,
                "group.min.session.timeout.ms" => self.config.classic_session_timeout_min_ms = value,
                "group.streams.initial.rebalance.delay.ms" => self.config.initial_rebalance_delay_ms = value,
                "group.streams.assignment.interval.ms" => self.config.assignment_interval_ms = value,
                "riparian.fence.restarted.processes" => self.config.fence_restarted_processes = value > 0,
                "riparian.fast.rebalance" => self.config.fast_rebalance = value > 0,
                "riparian.fast.rebalance.heartbeats.per.second" => self.config.heartbeats_per_second = value,
                "offsets.retention.check.interval.ms" => {
                    self.config.offsets_retention_check_interval_ms = value.into();
                }
                other => return Err(format!("{other} cannot be set here")),
            }
        }
        self.driver = Driver::new(self.config.clone());
        Ok(Vec::new())
    }

    fn configure(&mut self, group: &str, entries: &[(String, Option<String>)]) -> Lines {
        let mut overrides = self.driver.overrides(group);
        for (key, value) in entries {
            let number = || value.as_deref().map(|value| value.parse().map_err(|_| format!("{value}?"))).transpose();
            match key.as_str() {
                "streams.num.standby.replicas" => overrides.num_standby_replicas = number()?,
                "streams.session.timeout.ms" => overrides.session_timeout_ms = number()?,
                "streams.heartbeat.interval.ms" => overrides.heartbeat_interval_ms = number()?,
                "streams.initial.rebalance.delay.ms" => overrides.initial_rebalance_delay_ms = number()?,
                "streams.assignment.interval.ms" => overrides.assignment_interval_ms = number()?,
                "streams.task.offset.interval.ms" => overrides.task_offset_interval_ms = number()?,
                "streams.rack.aware.assignment.tags" => {
                    let tags = value.as_ref().map(|tags| tags.split(',').map(String::from).collect());
                    overrides.rack_aware_assignment_tags = tags;
                }
                other => return Err(format!("{other} cannot be set here")),
            }
        }
        self.driver.override_config(group, overrides);
        Ok(Vec::new())
    }

    fn heartbeat(&mut self, words: &HeartbeatWords) -> Lines {
        let request = self.members.heartbeat(words).map_err(|error| error.to_string())?;
        let heartbeat = convert::heartbeat(&request);
        let step = self.driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
        let Some(Reply::StreamsHeartbeat(reply)) = &step.reply else { return Err("there is no answer".into()) };
        let mut lines = match reply {
            // Nobody sees the answer.
            _ if words.is_lost => Vec::new(),
            Ok(reply) => {
                let answer = convert::heartbeat_answer(reply, request.version);
                self.members.learn(words, &answer);
                self.printer.heartbeat(&request.member_id, &answer)
            }
            Err(error) => {
                let (name, text) = convert::heartbeat_error(error);
                alloc::vec![self.printer.error(name, Some(text))]
            }
        };
        lines.extend(self.consequences(&step));
        Ok(lines)
    }

    fn commit(&mut self, words: &OffsetWords) -> Vec<String> {
        let version = words.version.unwrap_or(i16::MAX);
        let offsets = words.partitions.iter().map(|(topic, partition, offset)| OffsetToCommit {
            topic: topic.as_str().into(),
            topic_id: if version <= COMMIT_BY_NAME { Uuid::ZERO } else { self.driver.topic_id(topic) },
            partition: PartitionIndex(*partition),
            offset: Offset(*offset),
            leader_epoch: LeaderEpoch(-1),
            metadata: String::new(),
        });
        let commit = OffsetCommit {
            group_id: convert::name(&words.group),
            member_id: self.member_id(&words.group, words.member.as_deref().unwrap_or_default()),
            instance_id: words.instance.as_deref().map(Into::into),
            member_epoch: MemberEpoch(words.epoch),
            knows_member_epochs: version >= COMMIT_WITH_EPOCH,
            retention_ms: words.retention_ms,
            offsets: offsets.collect(),
        };
        let step = self.driver.command(|waiter| Command::OffsetCommit(waiter, commit));
        let outcome = match &step.reply {
            Some(Reply::OffsetCommit(Ok(()))) => "ok",
            Some(Reply::OffsetCommit(Err(error))) => convert::commit_error(error),
            _ => "no answer",
        };
        let outcomes = words.partitions.iter().map(|(topic, partition, _)| format!("{topic}-{partition} {outcome}"));
        let mut lines: Vec<String> = outcomes.collect();
        lines.sort();
        lines.extend(self.consequences(&step));
        lines
    }

    fn shown(&mut self, step: &Step) -> Vec<String> {
        let mut lines = step.reply.as_ref().map(|reply| self.reply(reply)).unwrap_or_default();
        lines.extend(self.consequences(step));
        lines
    }

    fn reply(&self, reply: &Reply) -> Vec<String> {
        match reply {
            Reply::StreamsHeartbeat(_) | Reply::OffsetCommit(_) => Vec::new(),
            Reply::ClassicJoin(_)
            | Reply::ClassicSync(_)
            | Reply::ClassicHeartbeat(_)
            | Reply::ClassicLeave(_)
            | Reply::ClassicDescribe(_) => self.classic_reply(reply),
            Reply::StreamsDescribe(Ok(described)) => self.printer.description(&convert::description(described)),
            Reply::StreamsDescribe(Err(error)) => {
                alloc::vec![self.printer.error("GROUP_ID_NOT_FOUND", Some(&error.0))]
            }
            Reply::ListGroups(listings) => {
                let protocol = |text: &str| if text.is_empty() { "''".into() } else { text.to_string() };
                let shown = listings.iter().map(|it| {
                    format!("{} {} {} {}", it.group_id, protocol(&it.protocol_type), it.state, it.group_type)
                });
                shown.collect()
            }
            Reply::DeleteGroup(Ok(())) => alloc::vec!["deleted".into()],
            Reply::DeleteGroup(Err(error)) => alloc::vec![convert::delete_error(error).into()],
            Reply::OffsetFetch(Err(error)) => alloc::vec![convert::fetch_error(error).into()],
            Reply::OffsetFetch(Ok(topics)) => {
                let each = topics.iter().flat_map(|(topic, offsets)| offsets.iter().map(move |it| (topic, it)));
                let mut lines: Vec<String> = each
                    .map(|(topic, it)| {
                        let committed = it.committed.as_ref().map_or(-1, |committed| committed.offset.0);
                        format!("{topic}-{} {committed}", it.partition)
                    })
                    .collect();
                lines.sort();
                lines
            }
            Reply::OffsetDelete(Err(OffsetDeleteError::GroupNotFound(_))) => alloc::vec!["GROUP_ID_NOT_FOUND".into()],
            Reply::OffsetDelete(Err(OffsetDeleteError::NonEmptyGroup)) => alloc::vec!["NON_EMPTY_GROUP".into()],
            Reply::OffsetDelete(Ok(topics)) => {
                let each = topics.iter().flat_map(|(topic, outcomes)| outcomes.iter().map(move |it| (topic, it)));
                let mut lines: Vec<String> = each
                    .map(|(topic, (partition, outcome))| {
                        let outcome = match outcome {
                            OffsetDeleteOutcome::Deleted => "ok",
                            OffsetDeleteOutcome::SubscribedToTopic => "GROUP_SUBSCRIBED_TO_TOPIC",
                        };
                        format!("{topic}-{partition} {outcome}")
                    })
                    .collect();
                lines.sort();
                lines
            }
        }
    }

    /// Records and what is to be done elsewhere. Records of other groups carry the group's name.
    fn consequences(&mut self, step: &Step) -> Vec<String> {
        let mut lines = self.written(&step.records);
        for Effect::CreateInternalTopics { topics, .. } in &step.effects {
            let shown: Vec<String> = topics.iter().map(|it| format!("{}={}", it.name, it.partitions)).collect();
            lines.push(format!("create {}", shown.join(" ")));
            self.wanted.clone_from(topics);
        }
        lines
    }

    pub(super) fn written(&mut self, records: &[Record]) -> Vec<String> {
        let mut lines = Vec::new();
        for records in records.chunk_by(|a, b| a.group() == b.group()) {
            let group = records[0].group().to_string();
            let mark = if group == "g" { String::new() } else { format!("{group} ") };
            let shown: Vec<Shown> = records.iter().map(convert::record).collect();
            lines.extend(self.printer.records(&shown).into_iter().map(|line| format!("{mark}{line}")));
        }
        lines
    }
}

fn borrowed(topics: &[(String, i32)]) -> Vec<(&str, i32)> {
    topics.iter().map(|(topic, partitions)| (topic.as_str(), *partitions)).collect()
}

fn by_topic(words: &OffsetWords) -> Vec<(TopicName, Vec<PartitionIndex>)> {
    let each = words.partitions.iter();
    each.map(|(topic, partition, _)| (topic.as_str().into(), alloc::vec![PartitionIndex(*partition)])).collect()
}
