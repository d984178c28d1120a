//! Whoever creates and deletes topics, changes configs of groups, deletes groups, and looks at them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest, DescribeGroupsRequest,
        IncrementalAlterConfigsRequest, LeaveGroupRequest, MetadataRequest, StreamsGroupDescribeRequest,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::CreatableTopic,
        delete_topics_request::DeleteTopicState,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        leave_group_request::MemberIdentity,
    },
};

use crate::{
    actors::{Actor, producer::DATA},
    app::{extra_topic, rest_topic, source_topic},
    client::{Client, Watch, decode},
    core::Core,
    options::GroupOptions,
    queue::Event,
};

/// How long a deletion may be under way, whatever happens to its request.
const UNSURE_US: u64 = 20_000_000;
/// Kafka's number for the configs of groups.
const GROUP_RESOURCE: i8 = 32;

const WORK: u64 = 1;
const TOPIC: u64 = 2;
const CONFIG: u64 = 3;
const DELETE_GROUP: u64 = 4;
const LEARN: u64 = 5;

/// How often it looks at what topics there are while the faults go on.
const LEARN_MS: u64 = 6000;
/// Topics are grown up to so many partitions.
const PARTITIONS_MAX: i32 = 24;

/// The administrator.
pub(crate) struct Admin {
    actor: usize,
    client: Client,
    plan: VecDeque<Operation>,
    /// The first of the plan is under way.
    asked: Option<i32>,
    last_answer: String,
    /// Internal topics that were there, and that it has not deleted since.
    seen: BTreeSet<String>,
    /// Topics that may be deleted until then.
    unsure_until_us: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operation {
    Create(String, i32),
    /// Gives it so many partitions.
    Grow(String, i32),
    Delete(String),
    SetConfig(String, &'static str, String),
    DeleteGroup(String),
    /// Removes the member of a classic group that has this instance id.
    RemoveStatic(String, String),
    /// Asks for the number of partitions of every topic.
    Learn,
    /// Again and again until the group is at rest.
    AwaitStable(String),
    /// The same of a classic group.
    AwaitStableClassic(String),
}

impl Operation {
    const fn version(&self) -> i16 {
        match self {
            Self::Create(..) => 7,
            Self::Grow(..) => 3,
            Self::Delete(_) => 6,
            Self::SetConfig(..) => 1,
            Self::DeleteGroup(_) => 2,
            Self::RemoveStatic(..) => 5,
            Self::Learn => 12,
            Self::AwaitStable(_) => 0,
            Self::AwaitStableClassic(_) => 6,
        }
    }
}

impl Admin {
    pub(crate) fn new(actor: usize) -> Self {
        Self {
            actor,
            client: Client::new(actor, "admin"),
            plan: VecDeque::new(),
            asked: None,
            last_answer: String::new(),
            seen: BTreeSet::new(),
            unsure_until_us: BTreeMap::new(),
        }
    }

    fn timer(&self, core: &mut Core, delay_ms: u64, token: u64) {
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token });
    }

    /// Creates all topics that are to be there.
    fn create_all(&mut self, core: &Core) {
        self.plan.extend(core.wanted.iter().map(|(name, count)| Operation::Create(name.clone(), *count)));
    }

    fn work(&mut self, core: &mut Core) {
        if self.asked.is_some() {
            return;
        }
        let Some(operation) = self.plan.front().cloned() else { return };
        let version = operation.version();
        self.asked = match &operation {
            Operation::Create(name, partitions) => {
                let topic = CreatableTopic {
                    name: name.clone().into(),
                    num_partitions: *partitions,
                    replication_factor: 1,
                    ..Default::default()
                };
                let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::Grow(name, count) => {
                let topic = CreatePartitionsTopic {
                    name: name.clone().into(),
                    count: *count,
                    assignments: None,
                    ..Default::default()
                };
                let request = CreatePartitionsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::Delete(name) => {
                let until_us = core.now_us + UNSURE_US;
                core.commits.forget(name, until_us);
                self.seen.remove(name);
                self.unsure_until_us.insert(name.clone(), until_us);
                let topic = DeleteTopicState { name: Some(name.clone().into()), ..Default::default() };
                let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::SetConfig(group, key, value) => {
                let config =
                    AlterableConfig { name: (*key).into(), value: Some(value.clone().into()), ..Default::default() };
                let resource = AlterConfigsResource {
                    resource_type: GROUP_RESOURCE,
                    resource_name: group.clone().into(),
                    configs: vec![config],
                    ..Default::default()
                };
                let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::DeleteGroup(group) => {
                let until_us = core.now_us + UNSURE_US;
                core.commits.forget(group, until_us);
                let request = DeleteGroupsRequest { groups_names: vec![group.clone().into()], ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::RemoveStatic(group, instance) => {
                let member = MemberIdentity { group_instance_id: Some(instance.clone().into()), ..Default::default() };
                let group_id = group.clone().into();
                let request = LeaveGroupRequest { group_id, members: vec![member], ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::Learn => {
                let request = MetadataRequest { topics: None, ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::AwaitStable(group) => {
                let request =
                    StreamsGroupDescribeRequest { group_ids: vec![group.clone().into()], ..Default::default() };
                self.client.send(core, &request, version)
            }
            Operation::AwaitStableClassic(group) => {
                let request = DescribeGroupsRequest { groups: vec![group.clone().into()], ..Default::default() };
                self.client.send(core, &request, version)
            }
        };
        if self.asked.is_some() {
            core.tell(self.actor, format_args!("asks {operation:?}"));
        } else {
            self.timer(core, 100, WORK);
        }
    }

    /// What is to be there from the beginning.
    fn want_topics(&self, core: &mut Core) {
        let sources: Vec<(String, i32)> =
            core.options.sources().map(|(group, count)| (source_topic(group), count)).collect();
        core.wanted.extend(sources);
        core.wanted.insert(DATA.to_owned(), core.options.data_partitions);
        for group in core.options.groups.iter().filter(|group| group.versions > 1) {
            core.wanted.insert(rest_topic(&group.name), group.rest_partitions);
            core.wanted.insert(extra_topic(&group.name, 0), 1);
            core.wanted.insert(extra_topic(&group.name, 1), 2);
        }
    }

    /// Internal topics stay, whatever version of the application is run.
    fn check_internal(&mut self, core: &mut Core) {
        let now_us = core.now_us;
        self.unsure_until_us.retain(|_, until_us| *until_us >= now_us);
        let is_internal = |name: &str| {
            let is_of = |end: &str| name.ends_with(end) || name.contains(&format!("{end}-"));
            is_of("-r") || is_of("-c")
        };
        let is_there = |name: &&String| is_internal(name) && !self.unsure_until_us.contains_key(*name);
        let there: Vec<String> = core.topics.keys().filter(is_there).cloned().collect();
        self.seen.extend(there);
        if let Some(gone) = self.seen.iter().find(|name| !core.topics.contains_key(*name)) {
            core.fail(format_args!("topic {gone} was there, and nobody has deleted it"));
        }
        core.totals.add("looks at internal topics", 1);
    }

    fn add(&mut self, core: &mut Core, operation: Operation) {
        self.plan.push_back(operation);
        self.work(core);
    }

    fn change_topic(&mut self, core: &mut Core) {
        let index = core.prng.below(core.options.sources().count() as u64) as usize;
        let (group, _) = core.source(index);
        let streams = core.options.groups.get(index).cloned();
        let has_versions = streams.as_ref().is_some_and(|streams| streams.versions > 1);
        let is_stateful = streams.as_ref().is_some_and(|streams| streams.is_stateful);
        let (source, rest) = (source_topic(&group), rest_topic(&group));
        match core.prng.below(8) {
            // Internal topics are made anew by the server.
            0 | 1 if is_stateful => self.delete(core, &format!("{group}-r")),
            2 if is_stateful => self.delete(core, &format!("{group}-c")),
            3 if has_versions => self.replace(core, &group, &rest, true),
            4 if has_versions => self.grow(core, &rest),
            5 if has_versions => {
                let extra = extra_topic(&group, 1 + core.prng.below(2));
                self.come_or_go(core, &extra);
            }
            // The changelogs of a store have as many partitions as its source had once and for all.
            6 if streams.is_some() && !is_stateful => self.grow(core, &source),
            _ => self.replace(core, &group, &source, streams.is_some() && !is_stateful),
        }
        if let Some(delay_ms) = core.draw_ms(core.options.faults.topic_change) {
            self.timer(core, delay_ms, TOPIC);
        }
    }

    fn delete(&mut self, core: &mut Core, name: &str) {
        core.totals.add("topics deleted", 1);
        self.add(core, Operation::Delete(name.to_owned()));
    }

    /// Deletes a topic that is to be there, and mostly creates it again at once, perhaps another one.
    fn replace(&mut self, core: &mut Core, group: &str, name: &str, may_differ: bool) {
        self.delete(core, name);
        let before = core.wanted.get(name).copied().unwrap_or(1);
        let count = if may_differ && core.prng.chance(2) { 1 + core.prng.below(8) as i32 } else { before };
        core.wanted.insert(name.to_owned(), count);
        if count < before {
            core.shrunk.insert(group.to_owned());
        }
        if !core.prng.chance(3) {
            self.add(core, Operation::Create(name.to_owned(), count));
        }
    }

    /// Gives a topic more partitions.
    fn grow(&mut self, core: &mut Core, name: &str) {
        let before = core.wanted.get(name).copied().unwrap_or(1);
        let count = (before + 1 + core.prng.below(3) as i32).min(before.max(PARTITIONS_MAX));
        core.wanted.insert(name.to_owned(), count);
        core.totals.add("topics grown", 1);
        self.add(core, Operation::Grow(name.to_owned(), count));
    }

    /// A topic that only a pattern asks for comes, grows, or goes for good.
    fn come_or_go(&mut self, core: &mut Core, name: &str) {
        if !core.wanted.contains_key(name) {
            let count = 1 + core.prng.below(5) as i32;
            core.wanted.insert(name.to_owned(), count);
            core.totals.add("matching topics created", 1);
            self.add(core, Operation::Create(name.to_owned(), count));
        } else if core.prng.chance(2) {
            self.grow(core, name);
        } else {
            core.wanted.remove(name);
            core.totals.add("matching topics deleted", 1);
            self.delete(core, name);
        }
    }

    fn change_config(&mut self, core: &mut Core) {
        let index = core.prng.below(core.options.groups.len() as u64) as usize;
        // Classic groups have none.
        let Some(group) = core.options.groups.get(index).map(|group| group.name.clone()) else { return };
        let session_ms = core.options.session_timeout_ms;
        let (key, value) = match core.prng.below(3) {
            0 => ("streams.num.standby.replicas", core.prng.below(3)),
            1 => ("streams.session.timeout.ms", session_ms / 2 + core.prng.below(session_ms)),
            _ => ("streams.heartbeat.interval.ms", 200 + core.prng.below(session_ms / 6)),
        };
        core.totals.add("config changes", 1);
        self.add(core, Operation::SetConfig(group, key, value.to_string()));
        if let Some(delay_ms) = core.draw_ms(core.options.faults.config_change) {
            self.timer(core, delay_ms, CONFIG);
        }
    }

    fn delete_group(&mut self, core: &mut Core) {
        let index = core.prng.below(core.options.sources().count() as u64) as usize;
        let (group, _) = core.source(index);
        let place = index.checked_sub(core.options.groups.len());
        let classic = place.and_then(|place| core.options.classic.get(place));
        let has_static = classic.is_some_and(|classic| classic.one_in_static > 0);
        if has_static && core.prng.chance(2) {
            self.add(core, Operation::RemoveStatic(group, "i0".to_owned()));
        } else {
            self.add(core, Operation::DeleteGroup(group));
        }
        if let Some(delay_ms) = core.draw_ms(core.options.faults.group_delete) {
            self.timer(core, delay_ms, DELETE_GROUP);
        }
    }

    fn lost(&mut self, core: &mut Core) {
        if self.asked.take().is_some() {
            self.timer(core, 100, WORK);
        }
    }

    /// Whether the first operation of the plan is done.
    fn on_answer(&mut self, core: &mut Core, reply: &Bytes) -> Option<bool> {
        let operation = self.plan.front()?.clone();
        let version = operation.version();
        let code = match &operation {
            Operation::Create(..) => {
                decode::<CreateTopicsRequest<'_>>(core, reply, version)?.topics.first()?.error_code
            }
            Operation::Grow(..) => {
                decode::<CreatePartitionsRequest<'_>>(core, reply, version)?.results.first()?.error_code
            }
            Operation::Delete(_) => {
                decode::<DeleteTopicsRequest<'_>>(core, reply, version)?.responses.first()?.error_code
            }
            Operation::SetConfig(..) => {
                decode::<IncrementalAlterConfigsRequest<'_>>(core, reply, version)?.responses.first()?.error_code
            }
            Operation::DeleteGroup(_) => {
                decode::<DeleteGroupsRequest<'_>>(core, reply, version)?.results.first()?.error_code
            }
            Operation::RemoveStatic(..) => {
                let response = decode::<LeaveGroupRequest<'_>>(core, reply, version)?;
                let member = response.members.first().map(|member| member.error_code);
                member.filter(|_| response.error_code == 0).unwrap_or(response.error_code)
            }
            Operation::Learn => {
                let response = decode::<MetadataRequest<'_>>(core, reply, version)?;
                let partitions = |topic: &riparian_protocol::messages::metadata_response::MetadataResponseTopic<'_>| {
                    Some((topic.name.clone()?.into_owned(), topic.partitions.len() as i32))
                };
                core.topics = response.topics.iter().filter_map(partitions).collect();
                self.check_internal(core);
                0
            }
            Operation::AwaitStable(_) => {
                let response = decode::<StreamsGroupDescribeRequest<'_>>(core, reply, version)?;
                let group = response.groups.first()?;
                self.last_answer = format!("{} {}", group.group_state, group.error_code);
                let is_gone = group.error_code == ErrorCode::GroupIdNotFound.code();
                return Some(is_gone || matches!(&*group.group_state, "Stable" | "Empty"));
            }
            Operation::AwaitStableClassic(_) => {
                let response = decode::<DescribeGroupsRequest<'_>>(core, reply, version)?;
                let group = response.groups.first()?;
                self.last_answer = format!("{} {}", group.group_state, group.error_code);
                let is_gone = group.error_code == ErrorCode::GroupIdNotFound.code();
                return Some(is_gone || matches!(&*group.group_state, "Stable" | "Empty"));
            }
        };
        let error = ErrorCode::from_code(code)?;
        core.tell(self.actor, format_args!("is answered {}", error.name()));
        self.last_answer = error.name().to_owned();
        let is_expected = match operation {
            Operation::Create(..) => matches!(error, ErrorCode::None | ErrorCode::TopicAlreadyExists),
            // Gone, or as large already.
            Operation::Grow(..) => {
                matches!(error, ErrorCode::None | ErrorCode::UnknownTopicOrPartition | ErrorCode::InvalidPartitions)
            }
            Operation::Delete(_) => matches!(error, ErrorCode::None | ErrorCode::UnknownTopicOrPartition),
            Operation::SetConfig(..)
            | Operation::Learn
            | Operation::AwaitStable(_)
            | Operation::AwaitStableClassic(_) => error == ErrorCode::None,
            Operation::RemoveStatic(..) => matches!(error, ErrorCode::None | ErrorCode::UnknownMemberId),
            Operation::DeleteGroup(_) => {
                matches!(error, ErrorCode::None | ErrorCode::NonEmptyGroup | ErrorCode::GroupIdNotFound)
            }
        };
        if !is_expected && !error.is_retriable() {
            core.fail(format_args!("{operation:?} is answered {}", error.name()));
        }
        if error == ErrorCode::None && matches!(operation, Operation::DeleteGroup(_)) {
            core.totals.add("groups deleted", 1);
        }
        if error == ErrorCode::None && matches!(operation, Operation::RemoveStatic(..)) {
            core.totals.add("members removed", 1);
        }
        Some(is_expected)
    }
}

impl Actor for Admin {
    fn begin(&mut self, core: &mut Core) {
        self.want_topics(core);
        self.create_all(core);
        self.timer(core, 10, WORK);
        if core.options.faults.deployment.0 > 0 {
            self.timer(core, LEARN_MS, LEARN);
        }
        let faults = core.options.faults.clone();
        let kinds = [(faults.topic_change, TOPIC), (faults.config_change, CONFIG), (faults.group_delete, DELETE_GROUP)];
        for (every, token) in kinds {
            if let Some(delay_ms) = core.draw_ms(every) {
                self.timer(core, 5000 + delay_ms, token);
            }
        }
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match self.client.on_watch(core, token) {
            Watch::AllWell => return,
            Watch::Lost => return self.lost(core),
            Watch::NotMine => {}
        }
        match token {
            TOPIC if !core.is_healing => self.change_topic(core),
            CONFIG if !core.is_healing => self.change_config(core),
            DELETE_GROUP if !core.is_healing => self.delete_group(core),
            LEARN if !core.is_healing => {
                if !self.plan.contains(&Operation::Learn) {
                    self.add(core, Operation::Learn);
                }
                self.timer(core, LEARN_MS, LEARN);
            }
            WORK => self.work(core),
            _ => {}
        }
    }

    fn on_reply(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(correlation) = self.client.take_reply(core, reply) else { return };
        if self.asked != Some(correlation) {
            return;
        }
        self.asked = None;
        match self.on_answer(core, reply) {
            Some(true) => {
                self.plan.pop_front();
                self.work(core);
            }
            Some(false) => self.timer(core, 300, WORK),
            None => core.fail(format_args!("{:?} gets an answer without a result", self.plan.front())),
        }
    }

    fn on_closed(&mut self, core: &mut Core) {
        self.client.on_closed();
        self.lost(core);
    }

    fn on_heal(&mut self, core: &mut Core) {
        self.create_all(core);
        // What changes now is followed by nothing else that would make a group look again.
        let changed: Vec<GroupOptions> =
            core.options.groups.iter().filter(|group| group.versions > 1).cloned().collect();
        for group in changed {
            let reads_extras = core.deployed.get(&group.name) == Some(&1);
            match core.prng.below(4) {
                _ if reads_extras && core.prng.chance(2) => self.come_or_go(core, &extra_topic(&group.name, 1)),
                0 => self.grow(core, &rest_topic(&group.name)),
                1 if !group.is_stateful => self.grow(core, &source_topic(&group.name)),
                1 | 2 => self.come_or_go(core, &extra_topic(&group.name, 1)),
                _ => {}
            }
        }
        let grown = core.wanted.iter().filter(|(name, _)| name.contains('-'));
        self.plan.extend(grown.map(|(name, count)| Operation::Grow(name.clone(), *count)));
        self.plan.push_back(Operation::Learn);
        let groups = core.options.groups.iter().map(|group| Operation::AwaitStable(group.name.clone()));
        self.plan.extend(groups);
        let groups = core.options.classic.iter().map(|group| Operation::AwaitStableClassic(group.name.clone()));
        self.plan.extend(groups);
        self.work(core);
    }

    fn unfinished(&self, core: &Core) -> Option<String> {
        let name = &core.names[self.actor];
        let next = self.plan.front()?;
        Some(format!("{name} has still to do {next:?} and more, last answer {}", self.last_answer))
    }
}
