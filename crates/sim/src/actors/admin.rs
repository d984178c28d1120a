//! Whoever creates and deletes topics, changes configs of groups, deletes groups, and looks at them.

use std::collections::VecDeque;

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest, DescribeGroupsRequest,
        IncrementalAlterConfigsRequest, LeaveGroupRequest, MetadataRequest, StreamsGroupDescribeRequest,
        create_topics_request::CreatableTopic,
        delete_topics_request::DeleteTopicState,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        leave_group_request::MemberIdentity,
    },
};

use crate::{
    actors::{Actor, member::source_topic, producer::DATA},
    client::{Client, Watch, decode},
    core::Core,
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

/// The administrator.
pub(crate) struct Admin {
    actor: usize,
    client: Client,
    plan: VecDeque<Operation>,
    /// The first of the plan is under way.
    asked: Option<i32>,
    last_answer: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operation {
    Create(String, i32),
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
        }
    }

    fn timer(&self, core: &mut Core, delay_ms: u64, token: u64) {
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token });
    }

    fn all_topics(core: &Core) -> Vec<(String, i32)> {
        let sources = core.options.sources().map(|(group, partitions)| (source_topic(group), partitions));
        sources.chain([(DATA.to_owned(), core.options.data_partitions)]).collect()
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
            Operation::Delete(name) => {
                let until_us = core.now_us + UNSURE_US;
                core.commits.forget(name, until_us);
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

    fn add(&mut self, core: &mut Core, operation: Operation) {
        self.plan.push_back(operation);
        self.work(core);
    }

    fn change_topic(&mut self, core: &mut Core) {
        let index = core.prng.below(core.options.sources().count() as u64) as usize;
        let (group, partitions) = core.source(index);
        let is_stateful = core.options.groups.get(index).is_some_and(|group| group.is_stateful);
        let (name, is_source) = match core.prng.below(4) {
            0 if is_stateful => (format!("{group}-r"), false),
            1 if is_stateful => (format!("{group}-c"), false),
            _ => (source_topic(&group), true),
        };
        core.totals.add("topics deleted", 1);
        self.add(core, Operation::Delete(name.clone()));
        // Internal topics are made anew by the server.
        if is_source && !core.prng.chance(3) {
            self.add(core, Operation::Create(name, partitions));
        } else if core.prng.chance(2) {
            self.add(core, Operation::Create(source_topic(&group), partitions));
        }
        if let Some(delay_ms) = core.draw_ms(core.options.faults.topic_change) {
            self.timer(core, delay_ms, TOPIC);
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
        self.plan = Self::all_topics(core).into_iter().map(|(name, count)| Operation::Create(name, count)).collect();
        self.timer(core, 10, WORK);
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
        self.plan.extend(Self::all_topics(core).into_iter().map(|(name, count)| Operation::Create(name, count)));
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
