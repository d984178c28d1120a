//! One script against one server: sends what the commands say, and tells what came back and what was written.
//!
//! Groups and topics of a script carry its name in front, which is taken away again from whatever is shown.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use riparian_client::Connection;
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest,
        IncrementalAlterConfigsRequest, ListGroupsRequest, MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest,
        OffsetFetchRequest, StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::CreatableTopic,
        delete_topics_request::DeleteTopicState,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
    },
};
use riparian_testkit::{
    Command, HeartbeatWords, Members, OffsetWords,
    show::{HeartbeatAnswer, Printer, Record},
};
use riparian_tests::Server;
use riparian_types::Uuid;

use crate::{barrier, classic::Waiting, convert, stored};

const RESOURCE_TYPE_GROUP: i8 = 32;
const CONFIG_SET: i8 = 0;
const CONFIG_DELETE: i8 = 1;
const TIMEOUT_MS: i32 = 10_000;
const COORDINATOR_LIMIT: Duration = Duration::from_secs(30);
/// The last versions of both that name topics instead of giving their ids.
const COMMIT_BY_NAME: i16 = 9;
const FETCH_BY_NAME: i16 = 9;

pub(crate) struct Session<'s> {
    name: String,
    pub(crate) server: &'s Mutex<Server>,
    connection: Option<Connection>,
    members: Members,
    pub(crate) printer: Printer,
    topics: BTreeMap<String, i32>,
    /// A group's settings were changed, and perhaps not everybody has heard of it.
    has_new_configs: bool,
    barriers: u32,
    /// The connections of classic members, by group and member: a request that waits blocks its connection.
    pub(crate) classic: BTreeMap<(String, String), Waiting>,
    written: BTreeMap<String, stored::Reader>,
}

pub(crate) type Lines = Result<Vec<String>, String>;

pub(crate) fn failed(error: impl Display) -> String {
    error.to_string()
}

impl<'s> Session<'s> {
    pub(crate) fn new(name: &str, server: &'s Mutex<Server>) -> Self {
        Self {
            name: name.to_owned(),
            server,
            connection: None,
            members: Members::new(),
            printer: Printer::without_texts(),
            topics: BTreeMap::new(),
            has_new_configs: false,
            barriers: 0,
            classic: BTreeMap::new(),
            written: BTreeMap::from([("g".to_owned(), stored::Reader::from_start())]),
        }
    }

    /// Carries out a command of the script; the lines are what the server answered and what it wrote meanwhile.
    pub(crate) fn carry_out(&mut self, line: &str) -> Lines {
        let command = Command::parse(line).map_err(failed)?;
        if self.has_new_configs
            && !matches!(command, Command::Config { .. } | Command::Topics(_) | Command::Topology(_))
        {
            self.topic_barrier()?;
        }
        let mut lines = match command {
            Command::Topology(topology) => {
                let mut topology = topology;
                topology.rename(|topic| self.real(topic));
                self.members.set_topology(topology);
                return Ok(Vec::new());
            }
            Command::Topics(topics) => self.change_topics(&topics)?,
            Command::Await(topics) => self.await_topics(&topics)?,
            Command::Config { group, entries } => self.config(&group, &entries)?,
            Command::Heartbeat(words) => self.heartbeat(&words)?,
            Command::Classic(words) => self.classic(&words)?,
            Command::Answer { group, member } => self.answer_of(&group, &member)?,
            Command::CloseMember { group, member } => self.close_member(&group, &member)?,
            Command::ClassicDescribe { group } => self.describe_classic(&group)?,
            Command::Wait { ms } => {
                std::thread::sleep(Duration::from_millis(ms));
                Vec::new()
            }
            Command::Close { .. } => {
                self.connection = None;
                Vec::new()
            }
            Command::Restart => self.restart(),
            Command::Describe { group } => self.describe(&group)?,
            Command::List { states, types } => self.list(&states, &types)?,
            Command::Delete { group } => self.delete(&group)?,
            Command::Commit(words) => self.commit(&words)?,
            Command::Fetch(words) => self.fetch(&words)?,
            Command::Forget(words) => self.forget(&words)?,
            // The server was started for this script, with these settings.
            Command::Server(_) => return Ok(Vec::new()),
            Command::Unheard(_) | Command::CreationEnded(_) => {
                return Err("only a machine can be told that".to_owned());
            }
        };
        lines.extend(self.records()?);
        Ok(lines)
    }

    /// What a group or topic is called on the server.
    pub(crate) fn real(&self, name: &str) -> String {
        if name.is_empty() || name.starts_with("__") { name.to_owned() } else { format!("{}.{name}", self.name) }
    }

    /// What the script calls it.
    pub(crate) fn short(&self, name: &str) -> String {
        let prefix = format!("{}.", self.name);
        name.strip_prefix(&prefix).unwrap_or(name).to_owned()
    }

    pub(crate) fn connection(&mut self) -> Result<&mut Connection, String> {
        if self.connection.is_none() {
            let port = self.server.lock().unwrap_or_else(PoisonError::into_inner).port();
            self.connection = Some(barrier::connect(port).map_err(failed)?);
        }
        self.connection.as_mut().ok_or_else(|| "there is no connection".to_owned())
    }

    pub(crate) fn error(&self, code: i16, text: Option<&str>) -> String {
        let name = ErrorCode::from_code(code).map_or_else(|| format!("error {code}"), |code| code.name().to_owned());
        self.printer.error(&name, text)
    }

    fn records(&mut self) -> Lines {
        let mut lines = Vec::new();
        let groups: Vec<String> = self.written.keys().cloned().collect();
        for group in groups {
            let real = self.real(&group);
            let mut reader = self.written.remove(&group).unwrap_or_else(stored::Reader::from_start);
            let records = reader.read(self.connection()?, &real);
            self.written.insert(group.clone(), reader);
            let records: Vec<Record> = records?.into_iter().map(|record| self.shortened(record)).collect();
            let shown = self.printer.records(&records);
            let mark = if group == "g" { String::new() } else { format!("{group} ") };
            lines.extend(shown.into_iter().map(|line| format!("{mark}{line}")));
        }
        Ok(lines)
    }

    fn shortened(&self, record: Record) -> Record {
        match record {
            Record::Offset { topic, partition, value } => {
                Record::Offset { topic: self.short(&topic), partition, value }
            }
            Record::ClassicGroup(Some(mut group)) => {
                group.members.iter_mut().for_each(|member| member.metadata.rename(|topic| self.short(topic)));
                Record::ClassicGroup(Some(group))
            }
            Record::Topology(Some(mut topology)) => {
                topology.rename(|topic| self.short(topic));
                Record::Topology(Some(topology))
            }
            other => other,
        }
    }

    fn change_topics(&mut self, changes: &[(String, i32)]) -> Lines {
        let mut lines = Vec::new();
        let mut changed = Vec::new();
        for (topic, partitions) in changes {
            let real = self.real(topic);
            let exists = self.topics.contains_key(topic);
            let (code, text) = match (exists, *partitions) {
                (true, 0) => self.delete_topic(&real)?,
                (false, _) => self.create_topic(&real, *partitions)?,
                (true, _) => self.grow_topic(&real, *partitions)?,
            };
            if code != 0 {
                lines.push(format!("{topic} {}", self.error(code, text.as_deref())));
                continue;
            }
            if *partitions == 0 {
                self.topics.remove(topic);
            } else {
                self.topics.insert(topic.clone(), *partitions);
            }
            changed.push((real, *partitions));
        }
        self.barrier(&changed)?;
        Ok(lines)
    }

    fn create_topic(&mut self, real: &str, partitions: i32) -> Result<(i16, Option<String>), String> {
        let topic = CreatableTopic {
            name: real.to_owned().into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let request =
            CreateTopicsRequest { topics: vec![topic], timeout_ms: TIMEOUT_MS, ..CreateTopicsRequest::default() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let result = response.topics.first().ok_or("no topic in the answer")?;
        Ok((result.error_code, result.error_message.as_deref().map(str::to_owned)))
    }

    fn grow_topic(&mut self, real: &str, count: i32) -> Result<(i16, Option<String>), String> {
        let topic = CreatePartitionsTopic {
            name: real.to_owned().into(),
            count,
            assignments: None,
            ..CreatePartitionsTopic::default()
        };
        let topics = vec![topic];
        let request = CreatePartitionsRequest { topics, timeout_ms: TIMEOUT_MS, ..CreatePartitionsRequest::default() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let result = response.results.first().ok_or("no topic in the answer")?;
        Ok((result.error_code, result.error_message.as_deref().map(str::to_owned)))
    }

    fn delete_topic(&mut self, real: &str) -> Result<(i16, Option<String>), String> {
        let topics = vec![DeleteTopicState { name: Some(real.to_owned().into()), ..DeleteTopicState::default() }];
        let request = DeleteTopicsRequest { topics, timeout_ms: TIMEOUT_MS, ..DeleteTopicsRequest::default() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let result = response.responses.first().ok_or("no topic in the answer")?;
        Ok((result.error_code, result.error_message.as_deref().map(str::to_owned)))
    }

    fn await_topics(&mut self, topics: &[(String, i32)]) -> Lines {
        let real: Vec<_> = topics.iter().map(|(topic, partitions)| (self.real(topic), *partitions)).collect();
        self.barrier(&real)?;
        self.topics.extend(topics.iter().cloned());
        Ok(Vec::new())
    }

    /// Waits until the coordinator knows these topics, and whatever was changed before.
    fn barrier(&mut self, topics: &[(String, i32)]) -> Result<(), String> {
        if topics.is_empty() {
            return Ok(());
        }
        self.barriers += 1;
        let group = format!("probe-{}-{}", self.name, self.barriers);
        barrier::wait_for_topics(self.connection()?, &group, topics)?;
        self.has_new_configs = false;
        Ok(())
    }

    /// A topic of no use, created only because its arrival can be seen.
    fn topic_barrier(&mut self) -> Result<(), String> {
        let topic = format!("probe-{}-{}", self.name, self.barriers);
        let (code, text) = self.create_topic(&topic, 1)?;
        if code != 0 {
            return Err(self.error(code, text.as_deref()));
        }
        self.barrier(&[(topic, 1)])
    }

    fn config(&mut self, group: &str, entries: &[(String, Option<String>)]) -> Lines {
        let config = |(key, value): &(String, Option<String>)| AlterableConfig {
            name: key.clone().into(),
            config_operation: if value.is_some() { CONFIG_SET } else { CONFIG_DELETE },
            value: value.clone().map(Into::into),
            ..AlterableConfig::default()
        };
        let resource = AlterConfigsResource {
            resource_type: RESOURCE_TYPE_GROUP,
            resource_name: self.real(group).into(),
            configs: entries.iter().map(config).collect(),
            ..AlterConfigsResource::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let result = response.responses.first().ok_or("no resource in the answer")?;
        if result.error_code != 0 {
            return Ok(vec![self.error(result.error_code, result.error_message.as_deref())]);
        }
        self.has_new_configs = true;
        Ok(Vec::new())
    }

    /// What is written about this group is shown from now on.
    pub(crate) fn listen_to(&mut self, group: &str) {
        if !group.is_empty() {
            self.written.entry(group.to_owned()).or_insert_with(stored::Reader::from_start);
        }
    }

    fn heartbeat(&mut self, words: &HeartbeatWords) -> Lines {
        self.listen_to(&words.group);
        let mut heartbeat = self.members.heartbeat(words).map_err(failed)?;
        heartbeat.group_id = self.real(&heartbeat.group_id);
        let request = convert::heartbeat_request(&heartbeat);
        if words.is_lost {
            return self.lose(&request, heartbeat.version);
        }
        let deadline = Instant::now() + COORDINATOR_LIMIT;
        let answer = loop {
            let connection = self.connection()?;
            let answer = match heartbeat.version {
                Some(version) => connection.call_version(&request, version),
                None => connection.call(&request),
            };
            let answer = answer.map_err(failed)?;
            let code = answer.decode().map_err(failed)?.error_code;
            if !barrier::is_not_yet(code) || Instant::now() > deadline {
                break answer;
            }
        };
        let response = answer.decode().map_err(failed)?;
        let mut answer = convert::heartbeat_answer(&response);
        for endpoint in answer.endpoints.iter_mut().flatten() {
            for (topic, _) in endpoint.active.iter_mut().chain(&mut endpoint.standby) {
                *topic = self.short(topic);
            }
        }
        if response.error_code != 0 {
            let mut lines = vec![self.error(response.error_code, response.error_message.as_deref())];
            let nothing = HeartbeatAnswer {
                acceptable_recovery_lag: -1,
                statuses: Some(Vec::new()),
                ..HeartbeatAnswer::default()
            };
            if answer != nothing {
                lines.push(format!("with {answer:?}"));
            }
            return Ok(lines);
        }
        self.members.learn(words, &answer);
        Ok(self.printer.heartbeat(&heartbeat.member_id, &answer))
    }

    /// The request is carried out, and nobody reads the answer.
    fn lose(&mut self, request: &StreamsGroupHeartbeatRequest<'_>, version: Option<i16>) -> Lines {
        let connection = self.connection()?;
        let version = match version {
            Some(version) => version,
            None => connection
                .version(ApiKey::StreamsGroupHeartbeat, StreamsGroupHeartbeatRequest::VERSIONS)
                .map_err(failed)?,
        };
        connection.send(request, version).map_err(failed)?;
        let connection = self.connection.take().ok_or("there is no connection")?;
        connection.lose_answer().map_err(failed)?;
        Ok(Vec::new())
    }

    fn restart(&mut self) -> Vec<String> {
        self.connection = None;
        self.classic.clear();
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.kill();
        server.restart();
        barrier::wait_for_coordinator(server.port());
        Vec::new()
    }

    fn describe(&mut self, group: &str) -> Lines {
        let request = StreamsGroupDescribeRequest { group_ids: vec![self.real(group).into()], ..Default::default() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let group = response.groups.first().ok_or("no group in the answer")?;
        if group.error_code != 0 {
            return Ok(vec![self.error(group.error_code, group.error_message.as_deref())]);
        }
        let mut description = convert::description(group);
        if let Some(topology) = &mut description.topology {
            topology.rename(|topic| self.short(topic));
        }
        Ok(self.printer.description(&description))
    }

    fn list(&mut self, states: &[String], types: &[String]) -> Lines {
        let request = ListGroupsRequest {
            states_filter: states.iter().map(|state| state.as_str().into()).collect(),
            types_filter: types.iter().map(|group_type| group_type.as_str().into()).collect(),
            ..ListGroupsRequest::default()
        };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        if response.error_code != 0 {
            return Ok(vec![self.error(response.error_code, None)]);
        }
        let prefix = format!("{}.", self.name);
        let own = response.groups.iter().filter_map(|group| {
            let id = group.group_id.strip_prefix(&prefix)?;
            let protocol = if group.protocol_type.is_empty() { "''" } else { &group.protocol_type };
            Some(format!("{id} {protocol} {} {}", group.group_state, group.group_type))
        });
        let mut lines: Vec<String> = own.collect();
        lines.sort();
        Ok(lines)
    }

    fn delete(&mut self, group: &str) -> Lines {
        let request = DeleteGroupsRequest { groups_names: vec![self.real(group).into()], ..Default::default() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let result = response.results.first().ok_or("no group in the answer")?;
        Ok(vec![match result.error_code {
            0 => "deleted".to_owned(),
            code => self.error(code, result.error_message.as_deref()),
        }])
    }

    fn commit(&mut self, words: &OffsetWords) -> Lines {
        self.listen_to(&words.group);
        let mut topics: Vec<OffsetCommitRequestTopic<'_>> = Vec::new();
        let version = words.version.unwrap_or(COMMIT_BY_NAME);
        for (topic, partition, offset) in &words.partitions {
            let partition = OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_leader_epoch: -1,
                ..OffsetCommitRequestPartition::default()
            };
            let real = self.real(topic);
            match topics.iter_mut().find(|it| it.name == real) {
                Some(topic) => topic.partitions.push(partition),
                None => {
                    let topic_id = if version > COMMIT_BY_NAME { self.topic_id(&real)? } else { Uuid::ZERO };
                    let partitions = vec![partition];
                    topics.push(OffsetCommitRequestTopic {
                        name: real.into(),
                        topic_id,
                        partitions,
                        ..Default::default()
                    });
                }
            }
        }
        let ids: Vec<(Uuid, String)> = topics.iter().map(|it| (it.topic_id, it.name.to_string())).collect();
        let request = OffsetCommitRequest {
            group_id: self.real(&words.group).into(),
            generation_id_or_member_epoch: words.epoch,
            member_id: words
                .member
                .as_ref()
                .map(|it| self.printer.classic.id(&words.group, it))
                .unwrap_or_default()
                .into(),
            group_instance_id: words.instance.clone().map(Into::into),
            retention_time_ms: words.retention_ms.unwrap_or(-1),
            topics,
            ..OffsetCommitRequest::default()
        };
        let answer = self.connection()?.call_version(&request, version).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let mut lines = Vec::new();
        for topic in &response.topics {
            let by_id = ids.iter().find(|(id, _)| version > COMMIT_BY_NAME && *id == topic.topic_id);
            let name = self.short(by_id.map_or(&*topic.name, |(_, name)| name.as_str()));
            lines.extend(
                topic
                    .partitions
                    .iter()
                    .map(|it| format!("{name}-{} {}", it.partition_index, self.outcome(it.error_code))),
            );
        }
        lines.sort();
        Ok(lines)
    }

    fn outcome(&self, code: i16) -> String {
        if code == 0 { "ok".to_owned() } else { self.error(code, None) }
    }

    fn topic_id(&mut self, real: &str) -> Result<Uuid, String> {
        let answer =
            self.connection()?.call(&MetadataRequest { topics: None, ..Default::default() }).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let found = response.topics.iter().find(|topic| topic.name.as_deref() == Some(real));
        // An id that no topic has.
        Ok(found.map_or(Uuid::from_halves(7, 7), |topic| topic.topic_id))
    }

    fn fetch(&mut self, words: &OffsetWords) -> Lines {
        let by_topic = self.by_topic(words);
        let topics = by_topic.into_iter().map(|(topic, partition_indexes)| OffsetFetchRequestTopics {
            name: topic.into(),
            partition_indexes,
            ..OffsetFetchRequestTopics::default()
        });
        let group = OffsetFetchRequestGroup {
            group_id: self.real(&words.group).into(),
            member_id: words.member.as_ref().map(|it| self.printer.classic.id(&words.group, it).into()),
            member_epoch: words.epoch,
            topics: if words.all { None } else { Some(topics.collect()) },
            ..OffsetFetchRequestGroup::default()
        };
        let require_stable = words.require_stable;
        let request = OffsetFetchRequest { groups: vec![group], require_stable, ..OffsetFetchRequest::default() };
        let version = words.version.unwrap_or(FETCH_BY_NAME);
        let answer = self.connection()?.call_version(&request, version).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let group = response.groups.first().ok_or("no group in the answer")?;
        if group.error_code != 0 {
            return Ok(vec![self.error(group.error_code, None)]);
        }
        let mut lines = Vec::new();
        for topic in &group.topics {
            for it in &topic.partitions {
                let outcome =
                    if it.error_code == 0 { String::new() } else { format!(" {}", self.error(it.error_code, None)) };
                let leader = if it.committed_leader_epoch == -1 {
                    String::new()
                } else {
                    format!(" leader {}", it.committed_leader_epoch)
                };
                let (name, index) = (self.short(&topic.name), it.partition_index);
                lines.push(format!("{name}-{index} {}{leader}{outcome}", it.committed_offset));
            }
        }
        lines.sort();
        Ok(lines)
    }

    fn forget(&mut self, words: &OffsetWords) -> Lines {
        let by_topic = self.by_topic(words);
        let topics = by_topic.into_iter().map(|(topic, indexes)| {
            let partition = |partition_index| OffsetDeleteRequestPartition { partition_index };
            OffsetDeleteRequestTopic { name: topic.into(), partitions: indexes.into_iter().map(partition).collect() }
        });
        let request = OffsetDeleteRequest { group_id: self.real(&words.group).into(), topics: topics.collect() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        if response.error_code != 0 {
            return Ok(vec![self.error(response.error_code, None)]);
        }
        let mut lines = Vec::new();
        for topic in &response.topics {
            let name = self.short(&topic.name);
            lines.extend(
                topic
                    .partitions
                    .iter()
                    .map(|it| format!("{name}-{} {}", it.partition_index, self.outcome(it.error_code))),
            );
        }
        lines.sort();
        Ok(lines)
    }

    fn by_topic(&self, words: &OffsetWords) -> BTreeMap<String, Vec<i32>> {
        let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for (topic, partition, _) in &words.partitions {
            topics.entry(self.real(topic)).or_default().push(*partition);
        }
        topics
    }
}
