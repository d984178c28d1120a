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
    Answered, ClassicAnswer, ClassicDescription, ClassicName, ClassicRequest, DescribeWords, FetchedOffset, Happened,
    Heartbeat, Listing, NodesWords, OffsetOutcome, OffsetWords, Refusal, Runner, Script, Session, Target, TopicChange,
    show::{Description, HeartbeatAnswer, Printer},
};
use riparian_types::{
    HashSeed, LeaderEpoch, MemberEpoch, Offset, PartitionIndex, TopicName, TopologyEpoch, Uuid,
    machine::{Machine, Waiter},
};

use super::{
    classic, convert,
    driver::{Driver, Step, config},
};
use crate::{
    command::{Command, GroupFilter, OffsetCommit, OffsetDelete, OffsetFetch, OffsetToCommit, TopologyDescription},
    config::GroupConfig,
    record::Record,
    reply::{Effect, OffsetDeleteError, OffsetDeleteOutcome, Reply, TopologyDescriptionError},
    streams::InternalTopic,
};

/// Scripts of the servers about topics and settings, and about what is refused before a group hears of it.
const NOT_ABOUT_GROUPS: [&str; 12] = [
    "admin-refused",
    "admin-settings",
    "admin-topics",
    "classic-versions",
    "configs",
    "odd-commits",
    "offsets-metadata",
    "offsets-unknown",
    "offsets-versions",
    "protocol-off",
    "topic-names",
    "versions-of-reading",
];
/// The last version of OffsetCommit that names topics instead of giving their ids.
const COMMIT_BY_NAME: i16 = 9;
/// From here on members commit with their epoch.
const COMMIT_WITH_EPOCH: i16 = 9;
/// How long an answer to a classic member may be on its way.
const ANSWER_LIMIT_MS: u64 = 30_000;

#[test]
fn scripts_lead_to_what_they_say() {
    run_all("testdata", &[], |path| {
        let mut session = session(config(), Printer::new());
        Script::check_file(path, Runner::VirtualTime, |line| session.carry_out(line)).map_err(|error| error.to_string())
    });
}

#[test]
fn scripts_of_the_servers_hold_in_virtual_time() {
    run_all("../../tests/scripts", &NOT_ABOUT_GROUPS, |path| {
        let mut session = session(config_of_the_servers(), Printer::without_texts());
        let script = Script::load(path).map_err(|error| error.to_string())?;
        script.check(Runner::VirtualTime, |line| session.carry_out(line)).map_err(|mismatch| mismatch.to_string())
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
        hash_seed: HashSeed::default(),
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

/// A machine as the target of a script.
struct Run {
    driver: Driver,
    config: GroupConfig,
    topics: BTreeMap<String, i32>,
    /// What the group has asked to be created and nobody has created yet.
    wanted: Vec<InternalTopic>,
    /// What classic members have asked and nobody has waited for yet.
    parked: BTreeMap<ClassicName, Waiter>,
    fresh_ids: u32,
    happened: Vec<Happened>,
}

fn session(config: GroupConfig, printer: Printer) -> Session<Run> {
    let driver = Driver::new(config.clone());
    let (topics, wanted, parked, happened) = (BTreeMap::new(), Vec::new(), BTreeMap::new(), Vec::new());
    let run = Run { driver, config, topics, wanted, parked, fresh_ids: 0, happened };
    let topology = riparian_testkit::Topology::parse("0: in").expect("it is a topology");
    Session::new(run, "", printer, topology)
}

impl Run {
    /// The reply; what else the command leads to is kept until it is asked for.
    fn command(&mut self, make: impl FnOnce(Waiter) -> Command) -> Result<Reply, String> {
        let step = self.driver.command(make);
        self.keep(&step);
        step.reply.ok_or_else(|| "there is no answer".to_string())
    }

    fn keep(&mut self, step: &Step) {
        self.keep_records(&step.records);
        for Effect::CreateInternalTopics { topics, .. } in &step.effects {
            let topics_shown = topics.iter().map(|it| (it.name.to_string(), it.partitions));
            self.happened.push(Happened::Creation(topics_shown.collect()));
            self.wanted.clone_from(topics);
        }
    }

    fn keep_records(&mut self, records: &[Record]) {
        let records = records.iter();
        self.happened
            .extend(records.map(|record| Happened::Record(record.group().to_string(), convert::record(record).into())));
    }

    fn creation_of(&mut self, attempted: Vec<TopicName>, failures: BTreeMap<TopicName, String>) {
        let step = self.driver.command(|_| Command::InternalTopicsCreated { group: "g".into(), attempted, failures });
        self.keep(&step);
    }
}

impl Target for Run {
    fn change_topic(&mut self, topic: &str, change: TopicChange) -> Answered<()> {
        let now = self.topics.get(topic).copied().unwrap_or(0);
        let partitions = match change {
            TopicChange::Create(partitions) | TopicChange::Grow(partitions) => partitions,
            TopicChange::Delete => 0,
        };
        if partitions != 0 && partitions <= now {
            return Ok(Err(Refusal::new("INVALID_PARTITIONS", Some("it has more"))));
        }
        self.topics.insert(topic.into(), partitions);
        Ok(Ok(()))
    }

    fn topics_changed(&mut self, topics: &[(String, i32)]) -> Result<(), String> {
        let step = self.driver.change_topics(&borrowed(topics));
        self.keep(&step);
        Ok(())
    }

    fn await_topics(&mut self, topics: &[(String, i32)]) -> Result<(), String> {
        let wanted = core::mem::take(&mut self.wanted);
        for (topic, partitions) in topics {
            let found = wanted.iter().find(|wanted| wanted.name.as_str() == topic);
            if found.is_none_or(|found| found.partitions != *partitions) {
                return Err(format!("{topic}={partitions} was not asked for, but {wanted:?}"));
            }
        }
        self.creation_of(wanted.iter().map(|topic| topic.name.clone()).collect(), BTreeMap::new());
        self.topics.extend(topics.iter().cloned());
        self.topics_changed(topics)
    }

    fn change_topics_unheard(&mut self, topics: &[(String, i32)]) -> Result<(), String> {
        self.driver.change_topics_unheard(&borrowed(topics));
        Ok(())
    }

    fn creation_ended(&mut self, topics: &[(String, Option<String>)]) -> Result<(), String> {
        let attempted = topics.iter().map(|(topic, _)| topic.as_str().into()).collect();
        let failures = topics.iter().filter_map(|(topic, text)| Some((topic.as_str().into(), text.clone()?)));
        self.creation_of(attempted, failures.collect());
        Ok(())
    }

    fn set_up(&mut self, entries: &[(String, String)]) -> Result<(), String> {
        // Topics are created by somebody else, and a plugin only Kafka needs.
        let others = ["riparian.replication.cap", "group.streams.topology.description.plugin.class"];
        for (key, value) in entries.iter().filter(|(key, _)| !others.contains(&key.as_str())) {
            let value = match value.as_str() {
                "true" => 1,
                "false" => 0,
                number => number.parse().map_err(|_| format!("{value} is no number"))?,
            };
            match key.as_str() {
                "group.streams.max.size" => self.config.members_max = value,
                "group.streams.min.session.timeout.ms" => self.config.session_timeout_min_ms = value,
                "group.max.size" => self.config.classic_members_max = value,
                "group.initial.rebalance.delay.ms" => self.config.classic_initial_rebalance_delay_ms = value,
                "group.max.session.timeout.ms" => self.config.classic_session_timeout_max_ms = value,
                "group.min.session.timeout.ms" => self.config.classic_session_timeout_min_ms = value,
                "group.streams.initial.rebalance.delay.ms" => self.config.initial_rebalance_delay_ms = value,
                "group.streams.assignment.interval.ms" => self.config.assignment_interval_ms = value,
                "riparian.warmups" => self.config.hand_out_warmups = value > 0,
                "riparian.topology.replace" => self.config.replace_topology = value > 0,
                "riparian.topology.description" => self.config.ask_descriptions = value > 0,
                "riparian.topology.description.bytes.max" => {
                    self.config.limits.description_bytes_max = usize::try_from(value).unwrap_or(0);
                }
                "riparian.topology.patterns" => self.config.resolve_patterns = value > 0,
                "riparian.patterns.max" => self.config.limits.patterns_max = u32::try_from(value).unwrap_or(0),
                "riparian.pattern.bytes.max" => {
                    self.config.limits.pattern_bytes_max = usize::try_from(value).unwrap_or(0);
                }
                "riparian.pattern.matches.max" => {
                    self.config.limits.pattern_matches_max = u32::try_from(value).unwrap_or(0);
                }
                "riparian.fence.restarted.processes" => self.config.fence_restarted_processes = value > 0,
                "riparian.fast.rebalance" => self.config.fast_rebalance = value > 0,
                "riparian.fast.rebalance.heartbeats.per.second" => self.config.heartbeats_per_second = value,
                "riparian.groups.max" => self.config.limits.groups_max = u32::try_from(value).unwrap_or(0),
                "riparian.members.max" => self.config.limits.members_max = u32::try_from(value).unwrap_or(0),
                "riparian.member.bytes.max" => {
                    self.config.limits.member_bytes_max = usize::try_from(value).unwrap_or(0);
                }
                "offsets.retention.check.interval.ms" => {
                    self.config.offsets_retention_check_interval_ms = value.into();
                }
                other => return Err(format!("{other} cannot be set here")),
            }
        }
        self.driver = Driver::new(self.config.clone());
        Ok(())
    }

    fn configure(&mut self, group: &str, entries: &[(String, Option<String>)]) -> Answered<()> {
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
                "streams.num.warmup.replicas" => overrides.num_warmup_replicas = number()?,
                "streams.acceptable.recovery.lag" => overrides.acceptable_recovery_lag = number()?.map(i64::from),
                "streams.assignor.name" => overrides.assignor_name.clone_from(value),
                "streams.rack.aware.assignment.tags" => {
                    let tags = value.as_ref().map(|tags| tags.split(',').map(String::from).collect());
                    overrides.rack_aware_assignment_tags = tags;
                }
                other => return Err(format!("{other} cannot be set here")),
            }
        }
        self.driver.override_config(group, overrides);
        Ok(Ok(()))
    }

    fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Answered<HeartbeatAnswer> {
        let command = convert::heartbeat(heartbeat);
        match self.command(|waiter| Command::StreamsHeartbeat(waiter, command.into()))? {
            Reply::StreamsHeartbeat(Ok(reply)) => Ok(Ok(convert::heartbeat_answer(&reply, heartbeat.version))),
            Reply::StreamsHeartbeat(Err(error)) => {
                let (name, text) = convert::heartbeat_error(&error);
                Ok(Err(Refusal::new(name, Some(text))))
            }
            other => unexpected(&other),
        }
    }

    fn lose_heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<(), String> {
        self.heartbeat(heartbeat).map(|_| ())?;
        let (group, connection) = (heartbeat.group_id.as_str().into(), heartbeat.connection);
        let step = self.driver.command(|_| Command::ConnectionClosed { group, connection });
        self.keep(&step);
        Ok(())
    }

    fn send_classic(&mut self, from: &ClassicName, request: &ClassicRequest) -> Result<(), String> {
        self.fresh_ids += 1;
        let fresh_id = format!("{:04}", self.fresh_ids);
        let step = self.driver.command(|waiter| classic::command(request, fresh_id, waiter));
        self.keep(&step);
        self.parked.insert(from.clone(), step.waiter);
        if let Some(reply) = step.reply {
            self.driver.answers.insert(step.waiter, reply);
        }
        Ok(())
    }

    fn answer_classic(&mut self, from: &ClassicName, request: &ClassicRequest) -> Result<ClassicAnswer, String> {
        let waiter = self.parked.remove(from).ok_or("nothing was asked")?;
        let (reply, records) = self.driver.await_answer(waiter, ANSWER_LIMIT_MS);
        self.keep_records(&records);
        classic::answer(reply.ok_or_else(|| format!("{} gets no answer", from.member))?, request)
    }

    fn close_classic(&mut self, from: &ClassicName) -> Result<(), String> {
        if let Some(waiter) = self.parked.remove(from) {
            self.driver.waiting.remove(&waiter);
            let step = self.driver.command(|_| Command::GiveUp(from.group.as_str().into(), waiter));
            self.keep(&step);
        }
        Ok(())
    }

    /// One timer at a time, to tell when each fired.
    fn wait(&mut self, ms: u64) -> Result<(), String> {
        let start = self.driver.now_ms;
        let end = start + ms;
        loop {
            let next = self.driver.machine.next_deadline(&self.driver.soft);
            let until = next.map_or(end, |next| next.0.max(self.driver.now_ms).min(end));
            for step in self.driver.advance(until - self.driver.now_ms) {
                self.happened.push(Happened::Timer(self.driver.now_ms - start));
                self.keep(&step);
            }
            if self.driver.now_ms >= end {
                return Ok(());
            }
        }
    }

    fn close(&mut self, connection: u64) -> Result<(), String> {
        let step = self.driver.command(|_| Command::ConnectionClosed { group: "g".into(), connection });
        self.keep(&step);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), String> {
        self.parked.clear();
        let step = self.driver.restart();
        self.keep(&step);
        Ok(())
    }

    fn cut_power(&mut self) -> Result<(), String> {
        // Its log is all that a machine ever finds again.
        self.restart()
    }

    fn describe(&mut self, group: &str, words: DescribeWords) -> Answered<Description> {
        match self.command(|waiter| Command::StreamsDescribe(waiter, convert::name(group)))? {
            Reply::StreamsDescribe(Ok(described)) => Ok(Ok(convert::description(&described, words.nodes))),
            Reply::StreamsDescribe(Err(error)) => Ok(Err(Refusal::new("GROUP_ID_NOT_FOUND", Some(&error.0)))),
            other => unexpected(&other),
        }
    }

    fn describe_nodes(&mut self, words: &NodesWords) -> Answered<()> {
        let update = TopologyDescription {
            group_id: convert::name(&words.group),
            member_id: words.member.as_str().into(),
            topology_epoch: TopologyEpoch(words.topology_epoch),
            subtopologies: alloc::vec!["0".into()],
            description: words.store.as_bytes().to_vec(),
        };
        match self.command(|waiter| Command::DescribeTopology(waiter, update.into()))? {
            Reply::TopologyDescription(result) => Ok(result.map_err(|error| {
                let (name, text) = match &error {
                    TopologyDescriptionError::InvalidRequest(text) => ("INVALID_REQUEST", text),
                    TopologyDescriptionError::GroupIdNotFound(text) => ("GROUP_ID_NOT_FOUND", text),
                    TopologyDescriptionError::UnknownMemberId(text) => ("UNKNOWN_MEMBER_ID", text),
                    TopologyDescriptionError::Failed(text) => ("STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", text),
                    TopologyDescriptionError::NotKept(text) => ("UNSUPPORTED_VERSION", text),
                    TopologyDescriptionError::Internal(text) => ("UNKNOWN_SERVER_ERROR", text),
                };
                Refusal::new(name, Some(text))
            })),
            other => unexpected(&other),
        }
    }

    fn describe_classic(&mut self, group: &str, _: Option<i16>) -> Answered<ClassicDescription> {
        match self.command(|waiter| Command::ClassicDescribe(waiter, convert::name(group)))? {
            Reply::ClassicDescribe(Ok(described)) => Ok(Ok(classic::description(&described))),
            Reply::ClassicDescribe(Err(error)) => Ok(Err(Refusal::new("GROUP_ID_NOT_FOUND", Some(&error.0)))),
            other => unexpected(&other),
        }
    }

    fn list(&mut self, states: &[String], types: &[String], _: Option<i16>) -> Answered<Vec<Listing>> {
        let filter = GroupFilter { states: states.to_vec(), types: types.to_vec() };
        match self.command(|waiter| Command::ListGroups(waiter, filter))? {
            Reply::ListGroups(listings) => {
                let listing = |it: &crate::reply::GroupListing| Listing {
                    group_id: it.group_id.to_string(),
                    protocol_type: it.protocol_type.to_string(),
                    group_state: it.state.to_string(),
                    group_type: it.group_type.to_string(),
                };
                Ok(Ok(listings.iter().map(listing).collect()))
            }
            other => unexpected(&other),
        }
    }

    fn delete(&mut self, group: &str, _: Option<i16>) -> Answered<()> {
        match self.command(|waiter| Command::DeleteGroup(waiter, convert::name(group)))? {
            Reply::DeleteGroup(Ok(())) => Ok(Ok(())),
            Reply::DeleteGroup(Err(error)) => Ok(Err(Refusal::new(convert::delete_error(&error), None))),
            other => unexpected(&other),
        }
    }

    fn commit(&mut self, words: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
        let version = words.version.unwrap_or(i16::MAX);
        let offsets = words.partitions.iter().map(|(topic, partition, offset)| OffsetToCommit {
            topic: topic.as_str().into(),
            topic_id: if version <= COMMIT_BY_NAME { Uuid::ZERO } else { self.driver.topic_id(topic) },
            partition: PartitionIndex(*partition),
            offset: Offset(*offset),
            leader_epoch: LeaderEpoch(-1),
            metadata: "x".repeat(words.metadata_chars),
        });
        let commit = OffsetCommit {
            group_id: convert::name(&words.group),
            member_id: words.member.as_deref().unwrap_or_default().into(),
            instance_id: words.instance.as_deref().map(Into::into),
            member_epoch: MemberEpoch(words.epoch),
            knows_member_epochs: version >= COMMIT_WITH_EPOCH,
            retention_ms: words.retention_ms,
            offsets: offsets.collect(),
        };
        let refusal = match self.command(|waiter| Command::OffsetCommit(waiter, commit))? {
            Reply::OffsetCommit(Ok(())) => None,
            Reply::OffsetCommit(Err(error)) => Some(Refusal::new(convert::commit_error(&error), None)),
            other => return unexpected(&other),
        };
        let outcomes = words.partitions.iter().map(|(topic, partition, _)| OffsetOutcome {
            topic: topic.clone(),
            partition: *partition,
            refusal: refusal.clone(),
        });
        Ok(Ok(outcomes.collect()))
    }

    fn fetch(&mut self, words: &OffsetWords) -> Answered<Vec<FetchedOffset>> {
        let fetch = OffsetFetch {
            group_id: convert::name(&words.group),
            member_id: words.member.as_deref().map(Into::into),
            member_epoch: MemberEpoch(words.epoch),
            topics: (!words.all).then(|| by_topic(words)),
            require_stable: words.require_stable,
        };
        match self.command(|waiter| Command::OffsetFetch(waiter, fetch))? {
            Reply::OffsetFetch(Ok(topics)) => {
                let each = topics.iter().flat_map(|(topic, offsets)| offsets.iter().map(move |it| (topic, it)));
                let fetched = each.map(|(topic, it)| FetchedOffset {
                    topic: topic.to_string(),
                    partition: it.partition.0,
                    offset: it.committed.as_ref().map_or(-1, |committed| committed.offset.0),
                    leader_epoch: it.committed.as_ref().map_or(-1, |committed| committed.leader_epoch.0),
                    refusal: None,
                });
                Ok(Ok(fetched.collect()))
            }
            Reply::OffsetFetch(Err(error)) => Ok(Err(Refusal::new(convert::fetch_error(&error), None))),
            other => unexpected(&other),
        }
    }

    fn forget(&mut self, words: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
        let delete = OffsetDelete { group_id: convert::name(&words.group), topics: by_topic(words) };
        match self.command(|waiter| Command::OffsetDelete(waiter, delete))? {
            Reply::OffsetDelete(Ok(topics)) => {
                let each = topics.iter().flat_map(|(topic, outcomes)| outcomes.iter().map(move |it| (topic, it)));
                let outcomes = each.map(|(topic, (partition, outcome))| OffsetOutcome {
                    topic: topic.to_string(),
                    partition: partition.0,
                    refusal: match outcome {
                        OffsetDeleteOutcome::Deleted => None,
                        OffsetDeleteOutcome::SubscribedToTopic => Some(Refusal::new("GROUP_SUBSCRIBED_TO_TOPIC", None)),
                    },
                });
                Ok(Ok(outcomes.collect()))
            }
            Reply::OffsetDelete(Err(OffsetDeleteError::GroupNotFound(_))) => {
                Ok(Err(Refusal::new("GROUP_ID_NOT_FOUND", None)))
            }
            Reply::OffsetDelete(Err(OffsetDeleteError::NonEmptyGroup)) => {
                Ok(Err(Refusal::new("NON_EMPTY_GROUP", None)))
            }
            other => unexpected(&other),
        }
    }

    fn happened(&mut self) -> Result<Vec<Happened>, String> {
        Ok(core::mem::take(&mut self.happened))
    }
}

fn unexpected<T>(reply: &Reply) -> Answered<T> {
    Err(format!("another answer: {reply:?}"))
}

fn borrowed(topics: &[(String, i32)]) -> Vec<(&str, i32)> {
    topics.iter().map(|(topic, partitions)| (topic.as_str(), *partitions)).collect()
}

fn by_topic(words: &OffsetWords) -> Vec<(TopicName, Vec<PartitionIndex>)> {
    let each = words.partitions.iter();
    each.map(|(topic, partition, _)| (topic.as_str().into(), alloc::vec![PartitionIndex(*partition)])).collect()
}
