//! A server as the target of a script: sends what the commands say, tells what came back and what was written.

use std::fmt::Display;

use crate::{
    Transport,
    admin::{self, Ids},
    barrier, classic, convert, offsets, stored,
    transport::MAIN,
};
use riparian_protocol::{
    ErrorCode,
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest, DescribeGroupsRequest,
        IncrementalAlterConfigsRequest, ListGroupsRequest, StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest,
        StreamsGroupTopologyDescriptionUpdateRequest,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::CreatableTopic,
        delete_topics_request::DeleteTopicState,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};
use riparian_testkit::{
    AdminAnswer, AdminCommand, Answered, ClassicAnswer, ClassicDescription, ClassicName, ClassicRequest, DescribeWords,
    DiskState, FetchedOffset, Happened, Heartbeat, Listing, NodesWords, OffsetOutcome, OffsetWords, Refusal, Session,
    Target, TopicChange, Topology,
    show::{Description, HeartbeatAnswer, Printer},
};

/// How servers are started for scripts: timeouts short enough for tests, and one shard, so that what one group sees of
/// the topics all groups see.
pub const SETTINGS: &[(&str, &str)] = &[
    ("offsets.topic.num.partitions", "1"),
    ("auto.create.topics.enable", "false"),
    ("group.streams.min.session.timeout.ms", "100"),
    ("group.streams.min.heartbeat.interval.ms", "50"),
    ("group.streams.min.task.offset.interval.ms", "100"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
    // Ours only: when a target is computed, and how often members report, is as in Kafka.
    ("riparian.fast.rebalance", "false"),
    // Kafka has no warm-ups yet.
    ("riparian.warmups", "false"),
    // Nor is anybody asked to describe a topology, as without a plugin there.
    ("riparian.topology.description", "false"),
    ("group.min.session.timeout.ms", "100"),
    ("group.initial.rebalance.delay.ms", "1000"),
    ("group.max.size", "3"),
    // One thread each, so that what is sent later is also done later, whatever the connection.
    ("num.network.threads", "1"),
    ("num.io.threads", "1"),
];

const RESOURCE_TYPE_GROUP: i8 = 32;
const CONFIG_SET: i8 = 0;
const CONFIG_DELETE: i8 = 1;
const TIMEOUT_MS: i32 = 10_000;
const COORDINATOR_LIMIT_MS: u64 = 30_000;

/// See the module.
pub struct Server<T> {
    transport: T,
    /// The script's name.
    name: String,
    /// Something was changed, and perhaps not everybody has heard of it.
    has_unheard_changes: bool,
    barriers: u32,
    ids: Ids,
    is_disk_well: bool,
    may_be_unreadable: bool,
    written: stored::Reader,
}

impl<T: Transport> Server<T> {
    /// A session for the script of this name; several may share a server, so groups and topics carry the name.
    pub fn session(name: &str, transport: T) -> Session<Self> {
        let written = stored::Reader::from_start();
        let server = Self {
            transport,
            name: name.to_owned(),
            has_unheard_changes: false,
            barriers: 0,
            ids: Ids::default(),
            is_disk_well: true,
            may_be_unreadable: false,
            written,
        };
        Session::new(server, format!("{name}."), Printer::without_texts(), Topology::default())
    }

    /// Waits until the coordinator knows these topics, and whatever was changed before.
    fn barrier(&mut self, topics: &[(String, i32)]) -> Result<(), String> {
        if topics.is_empty() {
            return Ok(());
        }
        self.barriers += 1;
        let group = format!("probe-{}-{}", self.name, self.barriers);
        barrier::wait_for_topics(&mut self.transport, &group, topics)?;
        self.has_unheard_changes = false;
        Ok(())
    }

    fn create_topic(&mut self, name: &str, partitions: i32) -> Answered<()> {
        let topic = CreatableTopic {
            name: name.to_owned().into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let request =
            CreateTopicsRequest { topics: vec![topic], timeout_ms: TIMEOUT_MS, ..CreateTopicsRequest::default() };
        let answer = self.transport.call(&request, None)?;
        let response = answer.decode::<CreateTopicsRequest<'_>>().map_err(failed)?;
        let result = response.topics.first().ok_or("no topic in the answer")?;
        Ok(outcome(result.error_code, result.error_message.as_deref()))
    }

    fn grow_topic(&mut self, name: &str, count: i32) -> Answered<()> {
        let topic = CreatePartitionsTopic {
            name: name.to_owned().into(),
            count,
            assignments: None,
            ..CreatePartitionsTopic::default()
        };
        let topics = vec![topic];
        let request = CreatePartitionsRequest { topics, timeout_ms: TIMEOUT_MS, ..CreatePartitionsRequest::default() };
        let answer = self.transport.call(&request, None)?;
        let response = answer.decode::<CreatePartitionsRequest<'_>>().map_err(failed)?;
        let result = response.results.first().ok_or("no topic in the answer")?;
        Ok(outcome(result.error_code, result.error_message.as_deref()))
    }

    fn delete_topic(&mut self, name: &str) -> Answered<()> {
        let topics = vec![DeleteTopicState { name: Some(name.to_owned().into()), ..DeleteTopicState::default() }];
        let request = DeleteTopicsRequest { topics, timeout_ms: TIMEOUT_MS, ..DeleteTopicsRequest::default() };
        let answer = self.transport.call(&request, None)?;
        let response = answer.decode::<DeleteTopicsRequest<'_>>().map_err(failed)?;
        let result = response.responses.first().ok_or("no topic in the answer")?;
        Ok(outcome(result.error_code, result.error_message.as_deref()))
    }
}

impl<T: Transport> Target for Server<T> {
    fn admin(&mut self, command: &AdminCommand) -> Result<AdminAnswer, String> {
        let answer = admin::carry_out(&mut self.transport, &mut self.ids, command);
        self.has_unheard_changes |= !matches!(command, AdminCommand::Settings { .. });
        answer
    }

    fn change_topic(&mut self, topic: &str, change: TopicChange) -> Answered<()> {
        match change {
            TopicChange::Create(partitions) => self.create_topic(topic, partitions),
            TopicChange::Grow(partitions) => self.grow_topic(topic, partitions),
            TopicChange::Delete => self.delete_topic(topic),
        }
    }

    fn topics_changed(&mut self, topics: &[(String, i32)]) -> Result<(), String> {
        self.barrier(topics)
    }

    fn await_topics(&mut self, topics: &[(String, i32)]) -> Result<(), String> {
        self.barrier(topics)
    }

    fn configure(&mut self, group: &str, entries: &[(String, Option<String>)]) -> Answered<()> {
        let config = |(key, value): &(String, Option<String>)| AlterableConfig {
            name: key.clone().into(),
            config_operation: if value.is_some() { CONFIG_SET } else { CONFIG_DELETE },
            value: value.clone().map(Into::into),
            ..AlterableConfig::default()
        };
        let resource = AlterConfigsResource {
            resource_type: RESOURCE_TYPE_GROUP,
            resource_name: group.to_owned().into(),
            configs: entries.iter().map(config).collect(),
            ..AlterConfigsResource::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer = self.transport.call(&request, None)?;
        let response = answer.decode::<IncrementalAlterConfigsRequest<'_>>().map_err(failed)?;
        let result = response.responses.first().ok_or("no resource in the answer")?;
        self.has_unheard_changes |= result.error_code == 0;
        Ok(outcome(result.error_code, result.error_message.as_deref()))
    }

    /// A topic of no use is created only because its arrival can be seen.
    fn settle(&mut self) -> Result<(), String> {
        if !self.has_unheard_changes {
            return Ok(());
        }
        let topic = format!("probe-{}-{}", self.name, self.barriers);
        match self.create_topic(&topic, 1)? {
            Ok(()) => self.barrier(&[(topic, 1)]),
            Err(refusal) => Err(format!("{topic}: {refusal:?}")),
        }
    }

    /// The server was started for this script, with these settings.
    fn set_up(&mut self, _: &[(String, String)]) -> Result<(), String> {
        Ok(())
    }

    fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Answered<HeartbeatAnswer> {
        let request = convert::heartbeat_request(heartbeat);
        let deadline_ms = self.transport.now_ms() + COORDINATOR_LIMIT_MS;
        let received = loop {
            let received = self.transport.call(&request, heartbeat.version)?;
            let code = received.decode::<StreamsGroupHeartbeatRequest<'_>>().map_err(failed)?.error_code;
            if !barrier::is_not_yet(code) || self.transport.now_ms() > deadline_ms {
                break received;
            }
            self.transport.wait(1)?;
        };
        let response = received.decode::<StreamsGroupHeartbeatRequest<'_>>().map_err(failed)?;
        let answer = convert::heartbeat_answer(&response);
        Ok(outcome(response.error_code, response.error_message.as_deref()).map(|()| answer.clone()).map_err(
            |refusal| {
                let nothing = HeartbeatAnswer {
                    acceptable_recovery_lag: -1,
                    statuses: Some(Vec::new()),
                    ..HeartbeatAnswer::default()
                };
                Refusal { besides: (answer != nothing).then(|| format!("{answer:?}")), ..refusal }
            },
        ))
    }

    fn lose_heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<(), String> {
        self.transport.lose(&convert::heartbeat_request(heartbeat), heartbeat.version)
    }

    fn send_classic(&mut self, from: &ClassicName, request: &ClassicRequest) -> Result<(), String> {
        classic::send(&mut self.transport, &classic::connection_of(from), request)
    }

    fn answer_classic(&mut self, from: &ClassicName, request: &ClassicRequest) -> Result<ClassicAnswer, String> {
        let received = self.transport.receive(&classic::connection_of(from))?;
        classic::answer(&received, &request.body)
    }

    /// Kafka gives an id before it has written that there is a group.
    fn let_it_arrive(&mut self, from: &ClassicName, group: &str, is_answered: bool) -> Result<(), String> {
        classic::let_it_arrive(&mut self.transport, from, group, is_answered)
    }

    fn close_classic(&mut self, from: &ClassicName) -> Result<(), String> {
        self.transport.close(&classic::connection_of(from));
        Ok(())
    }

    fn wait(&mut self, ms: u64) -> Result<(), String> {
        self.transport.wait(ms)
    }

    fn close(&mut self, _: u64) -> Result<(), String> {
        self.transport.close(MAIN);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), String> {
        self.transport.restart()?;
        barrier::wait_for_coordinator(&mut self.transport)
    }

    fn cut_power(&mut self) -> Result<(), String> {
        self.transport.cut_power()?;
        barrier::wait_for_coordinator(&mut self.transport)
    }

    fn set_disk(&mut self, state: DiskState) -> Result<(), String> {
        self.is_disk_well = state == DiskState::Works;
        self.may_be_unreadable |= !self.is_disk_well;
        self.transport.set_disk(state)
    }

    fn describe(&mut self, group: &str, words: DescribeWords) -> Answered<Description> {
        let request = StreamsGroupDescribeRequest {
            group_ids: vec![group.to_owned().into()],
            include_authorized_operations: words.operations,
            include_topology_description: words.nodes,
            ..Default::default()
        };
        let answer = self.transport.call(&request, words.version)?;
        let response = answer.decode::<StreamsGroupDescribeRequest<'_>>().map_err(failed)?;
        let group = response.groups.first().ok_or("no group in the answer")?;
        Ok(outcome(group.error_code, group.error_message.as_deref())
            .map(|()| Description { nodes: words.nodes.then(|| convert::nodes(group)), ..convert::description(group) }))
    }

    fn describe_nodes(&mut self, words: &NodesWords) -> Answered<()> {
        let answer = self.transport.call(&convert::nodes_request(words), None)?;
        let response = answer.decode::<StreamsGroupTopologyDescriptionUpdateRequest<'_>>().map_err(failed)?;
        Ok(outcome(response.error_code, response.error_message.as_deref()))
    }

    fn describe_classic(&mut self, group: &str, version: Option<i16>) -> Answered<ClassicDescription> {
        let request = DescribeGroupsRequest { groups: vec![group.to_owned().into()], ..Default::default() };
        let answer = self.transport.call(&request, version)?;
        let response = answer.decode::<DescribeGroupsRequest<'_>>().map_err(failed)?;
        let group = response.groups.first().ok_or("no group in the answer")?;
        Ok(outcome(group.error_code, group.error_message.as_deref()).map(|()| classic::description(group)))
    }

    fn list(&mut self, states: &[String], types: &[String], version: Option<i16>) -> Answered<Vec<Listing>> {
        let request = ListGroupsRequest {
            states_filter: states.iter().map(|state| state.as_str().into()).collect(),
            types_filter: types.iter().map(|group_type| group_type.as_str().into()).collect(),
            ..ListGroupsRequest::default()
        };
        let answer = self.transport.call(&request, version)?;
        let response = answer.decode::<ListGroupsRequest<'_>>().map_err(failed)?;
        let listings = response.groups.iter().map(|group| Listing {
            group_id: group.group_id.to_string(),
            protocol_type: group.protocol_type.to_string(),
            group_state: group.group_state.to_string(),
            group_type: group.group_type.to_string(),
        });
        Ok(outcome(response.error_code, None).map(|()| listings.collect()))
    }

    fn delete(&mut self, group: &str, version: Option<i16>) -> Answered<()> {
        let request = DeleteGroupsRequest { groups_names: vec![group.to_owned().into()], ..Default::default() };
        let answer = self.transport.call(&request, version)?;
        let response = answer.decode::<DeleteGroupsRequest<'_>>().map_err(failed)?;
        let result = response.results.first().ok_or("no group in the answer")?;
        Ok(outcome(result.error_code, result.error_message.as_deref()))
    }

    fn commit(&mut self, words: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
        offsets::commit(&mut self.transport, words)
    }

    fn fetch(&mut self, words: &OffsetWords) -> Answered<Vec<FetchedOffset>> {
        offsets::fetch(&mut self.transport, words)
    }

    fn forget(&mut self, words: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
        offsets::forget(&mut self.transport, words)
    }

    fn happened(&mut self) -> Result<Vec<Happened>, String> {
        let records = match self.written.read(&mut self.transport, &format!("{}.", self.name)) {
            // A log whose disk fails may be closed for a while; what was written shows when it is open again.
            Err(_) if self.may_be_unreadable => Vec::new(),
            read => {
                self.may_be_unreadable &= !self.is_disk_well;
                read?
            }
        };
        Ok(records.into_iter().map(|(group, record)| Happened::Record(group, record.into())).collect())
    }
}

pub(crate) fn failed(error: impl Display) -> String {
    error.to_string()
}

pub(crate) fn outcome(code: i16, text: Option<&str>) -> Result<(), Refusal> {
    if code == 0 {
        return Ok(());
    }
    let name = ErrorCode::from_code(code).map_or_else(|| format!("error {code}"), |code| code.name().to_owned());
    Err(Refusal::new(name, text))
}
