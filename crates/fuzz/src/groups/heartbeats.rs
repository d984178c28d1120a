//! Heartbeats: those of a client that remembers what it was told, and any others.

use std::collections::BTreeSet;

use riparian_group::{
    command::{ClientSupport, StreamsHeartbeat},
    reply::{StreamsHeartbeatError, StreamsHeartbeatReply},
    streams::{CopartitionGroup, Endpoint, InternalTopic, Subtopology, TaskIds, TaskLists, TaskOffset, Topology},
};
use riparian_types::{InstanceId, MemberEpoch, Offset, PartitionIndex, SubtopologyId, TopicName, TopologyEpoch};

use super::{TOPICS, classic::caller, connection};
use crate::input::Input;

const SUBTOPOLOGIES: [&str; 6] = ["0", "1", "2", "3", "x", ""];

/// What a client knows.
#[derive(Debug, Default)]
pub(super) struct Client {
    epoch: i32,
    endpoint_epoch: i32,
    instance: Option<InstanceId>,
    /// What it was told to have.
    tasks: TaskLists,
    /// What it has said that it has.
    reported: Option<TaskLists>,
    /// What it said last may not have arrived.
    must_report: bool,
}

impl Client {
    pub(super) fn join(&mut self, group: &str, member: &str, input: &mut Input<'_>) -> StreamsHeartbeat {
        let instance = input.chance(4).then(|| InstanceId::from(input.pick(&["i", "j", member])));
        *self = Self { endpoint_epoch: -1, instance, reported: Some(TaskLists::default()), ..Self::default() };
        let mut heartbeat = self.heartbeat(group, member);
        heartbeat.support.heartbeat_v1 = !input.chance(4);
        heartbeat.topology = Some(topology(input));
        heartbeat.rebalance_timeout_ms = if input.chance(8) { input.number_i32() } else { 300_000 };
        heartbeat.process_id = Some(input.pick(&["p", "q", "", member]).into());
        heartbeat.rack_id = input.chance(4).then(|| input.pick(&["r", ""]).to_owned());
        heartbeat.user_endpoint = input.chance(3).then(|| endpoint(input));
        heartbeat.client_tags = input.chance(3).then(|| tags(input));
        report(&mut heartbeat, TaskLists::default());
        heartbeat
    }

    /// As [`Client::join`], with an instance id that nobody else has.
    pub(super) fn join_alone(&mut self, group: &str, member: &str, input: &mut Input<'_>) -> StreamsHeartbeat {
        let mut heartbeat = self.join(group, member, input);
        self.instance = self.instance.take().map(|_| member.into());
        heartbeat.instance_id = self.instance.clone();
        heartbeat
    }

    pub(super) const fn has_joined(&self) -> bool {
        self.epoch > 0
    }

    /// The active tasks that it runs: what it was told to have, and what it has not yet said to have given back.
    pub(super) fn runs(&self) -> BTreeSet<(String, i32)> {
        let lists = self.reported.iter().chain([&self.tasks]).flat_map(|tasks| &tasks.active);
        let tasks = lists.flat_map(|list| list.partitions.iter().map(|index| (list.subtopology.to_string(), index.0)));
        tasks.collect()
    }

    /// The next heartbeat; if it tells, what it was told it has done by now.
    pub(super) fn beat(&mut self, group: &str, member: &str, tells: bool) -> StreamsHeartbeat {
        let mut heartbeat = self.heartbeat(group, member);
        if tells && (self.must_report || self.reported.as_ref() != Some(&self.tasks)) {
            report(&mut heartbeat, self.tasks.clone());
            self.reported = Some(self.tasks.clone());
            self.must_report = false;
        }
        heartbeat
    }

    pub(super) fn leave(&mut self, group: &str, member: &str, epoch: MemberEpoch) -> StreamsHeartbeat {
        let heartbeat = StreamsHeartbeat { member_epoch: epoch, ..self.heartbeat(group, member) };
        *self = Self { instance: self.instance.take(), ..Self::default() };
        heartbeat
    }

    /// Takes an answer.
    pub(super) fn learn(&mut self, reply: Result<StreamsHeartbeatReply, StreamsHeartbeatError>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(StreamsHeartbeatError::UnknownMemberId(_) | StreamsHeartbeatError::FencedMemberEpoch(_)) => {
                // It stops everything, and joins again.
                *self = Self { instance: self.instance.take(), ..Self::default() };
                return;
            }
            Err(_) => {
                self.must_report = true;
                return;
            }
        };
        self.epoch = reply.member_epoch.0;
        self.endpoint_epoch = reply.endpoint_information_epoch;
        if let Some(tasks) = reply.tasks {
            self.tasks = tasks;
        }
    }

    /// An answer has not arrived, and perhaps the request neither.
    pub(super) const fn lost(&mut self) {
        self.must_report = true;
    }

    fn heartbeat(&self, group: &str, member: &str) -> StreamsHeartbeat {
        StreamsHeartbeat {
            caller: caller(connection(member)),
            is_usual_client: true,
            support: ClientSupport { heartbeat_v1: true },
            group_id: group.into(),
            member_id: member.into(),
            member_epoch: MemberEpoch(self.epoch),
            endpoint_information_epoch: self.endpoint_epoch,
            instance_id: self.instance.clone(),
            rack_id: None,
            rebalance_timeout_ms: -1,
            topology: None,
            active_tasks: None,
            standby_tasks: None,
            warmup_tasks: None,
            process_id: None,
            user_endpoint: None,
            client_tags: None,
            task_offsets: None,
            task_end_offsets: None,
            shutdown_application: false,
        }
    }
}

/// A heartbeat with anything in it.
pub(super) fn hostile(input: &mut Input<'_>, group: &str, member: &str, stored_epoch: i32) -> StreamsHeartbeat {
    let client = Client { endpoint_epoch: input.number_i32(), ..Client::default() };
    let which = input.u16();
    let has = |bit: u8| which >> bit & 1 == 1;
    StreamsHeartbeat {
        member_epoch: epoch(input, stored_epoch),
        support: ClientSupport { heartbeat_v1: has(0) },
        instance_id: has(1).then(|| input.pick(&["i", "j", ""]).into()),
        rack_id: has(2).then(|| input.pick(&["r", ""]).to_owned()),
        rebalance_timeout_ms: if has(3) { input.number_i32() } else { -1 },
        topology: has(4).then(|| topology(input)),
        active_tasks: has(5).then(|| tasks(input)),
        standby_tasks: has(6).then(|| tasks(input)),
        warmup_tasks: has(7).then(|| tasks(input)),
        process_id: has(8).then(|| input.pick(&["p", "q", ""]).into()),
        user_endpoint: has(9).then(|| endpoint(input)),
        client_tags: has(10).then(|| tags(input)),
        task_offsets: has(11).then(|| task_offsets(input)),
        task_end_offsets: has(12).then(|| task_offsets(input)),
        shutdown_application: has(13),
        ..client.heartbeat(group, member)
    }
}

/// The epoch there is, or another.
pub(super) fn epoch(input: &mut Input<'_>, stored: i32) -> MemberEpoch {
    MemberEpoch(match input.u8() % 8 {
        0..=3 => stored,
        4 => stored.saturating_sub(1),
        5 => 0,
        6 => -i32::from(input.u8() % 4),
        _ => input.number_i32(),
    })
}

fn report(heartbeat: &mut StreamsHeartbeat, tasks: TaskLists) {
    heartbeat.active_tasks = Some(tasks.active);
    heartbeat.standby_tasks = Some(tasks.standby);
    heartbeat.warmup_tasks = Some(tasks.warmup);
}

fn tasks(input: &mut Input<'_>) -> Vec<TaskIds> {
    let lists = (0..input.below(4)).map(|_| TaskIds {
        subtopology: input.pick(&SUBTOPOLOGIES).into(),
        partitions: (0..input.below(5)).map(|_| PartitionIndex(input.number_i32() % 6)).collect(),
    });
    lists.collect()
}

fn task_offsets(input: &mut Input<'_>) -> Vec<TaskOffset> {
    let offsets = (0..input.below(3)).map(|_| TaskOffset {
        subtopology: input.pick(&SUBTOPOLOGIES).into(),
        partition: PartitionIndex(input.number_i32()),
        offset: Offset(input.number()),
    });
    offsets.collect()
}

fn endpoint(input: &mut Input<'_>) -> Endpoint {
    Endpoint { host: input.pick(&["h", "k", ""]).to_owned(), port: input.u8().into() }
}

fn tags(input: &mut Input<'_>) -> Vec<(String, String)> {
    let words = ["zone", "rack", "x", ""];
    (0..input.below(4)).map(|_| (input.pick(&words).to_owned(), input.pick(&words).to_owned())).collect()
}

/// A topology: usual ones, or any.
fn topology(input: &mut Input<'_>) -> Topology {
    let kind = input.u8() % 8;
    let epoch = TopologyEpoch(if input.chance(6) { input.number_i32() } else { 0 });
    let subtopologies = match kind {
        0 | 1 => vec![usual("0", &["in"])],
        2..=5 => {
            let mut first = usual("0", &["in"]);
            first.repartition_sink_topics = ["r".into()].into();
            let mut second = usual("1", &[]);
            second.repartition_source_topics = [internal("r", 0)].into();
            second.state_changelog_topics = [internal("c", 0)].into();
            let mut third = usual("2", &["in2", "other"]);
            third.state_changelog_topics = [internal("c2", 0)].into();
            third.copartition_groups = [CopartitionGroup { source_topics: [0, 1].into(), ..Default::default() }].into();
            let mut all = vec![first, second, third];
            all.truncate(usize::from(kind) - 1);
            all
        }
        _ => (0..input.below(4)).map(|_| subtopology(input)).collect(),
    };
    Topology { epoch, subtopologies: subtopologies.into() }
}

fn usual(id: &str, topics: &[&str]) -> Subtopology {
    let source_topics = topics.iter().map(|&topic| topic.into()).collect();
    Subtopology { id: id.into(), source_topics, ..Subtopology::default() }
}

fn internal(name: &str, partitions: i32) -> InternalTopic {
    InternalTopic { name: name.into(), partitions, ..InternalTopic::default() }
}

fn subtopology(input: &mut Input<'_>) -> Subtopology {
    let topics = |input: &mut Input<'_>| (0..input.below(3)).map(|_| input.pick(&TOPICS).into()).collect();
    let internals = |input: &mut Input<'_>| {
        let topics = (0..input.below(3)).map(|_| InternalTopic {
            partitions: input.number_i32(),
            replication_factor: input.u8() as i8 as i16,
            configs: tags(input).into(),
            ..internal(input.pick(&TOPICS), 0)
        });
        topics.collect::<Box<[_]>>()
    };
    let indexes = |input: &mut Input<'_>| (0..input.below(3)).map(|_| i16::from(input.u8() as i8)).collect();
    Subtopology {
        id: SubtopologyId::from(input.pick(&SUBTOPOLOGIES)),
        source_topics: topics(input),
        source_topic_regex: (0..input.below(2)).map(|_| input.pick(&["in.*", "(", ""]).to_owned()).collect(),
        state_changelog_topics: internals(input),
        repartition_sink_topics: topics(input) as Box<[TopicName]>,
        repartition_source_topics: internals(input),
        copartition_groups: (0..input.below(3))
            .map(|_| CopartitionGroup {
                source_topics: indexes(input),
                source_topic_regex: indexes(input),
                repartition_source_topics: indexes(input),
            })
            .collect(),
    }
}
