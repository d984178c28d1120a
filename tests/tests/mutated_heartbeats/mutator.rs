//! Sends heartbeats that were valid until some of their fields were replaced.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use riparian_crowd::member::Group;
use riparian_protocol::messages::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, streams_group_heartbeat_request as heartbeat,
};
use riparian_tests::Connection;

use crate::{
    INTERVAL_MS, SESSION_MS, arbitrary, decode, frame,
    luck::Luck,
    members::{GROUP, STRANGERS, TASKS, TOPIC, is_used_id, used_id},
};

const CONNECTIONS: usize = 8;
const STRANGERS_MAX: usize = 64;
const REBALANCE_TIMEOUT_MS: i32 = 300_000;
const SAID_MAX: usize = 8;
const FIELDS: usize = 17;
/// A stranger that has not spoken for so long may have been fenced.
const SURELY_IN: Duration = Duration::from_millis(SESSION_MS - 4 * INTERVAL_MS);

pub(crate) struct Mutator {
    connections: Vec<Connection>,
    luck: Luck,
    start: Instant,
    /// The epoch that each of these was told last.
    epochs: BTreeMap<String, i32>,
    /// Strangers that nothing but silence removes: with the usual time to give back tasks, and no name that another one may
    /// take over.
    steadfast: BTreeSet<usize>,
    /// Tasks that strangers were told of, and when.
    told: VecDeque<(Instant, i32, usize)>,
    /// What each stranger said last, and was answered.
    said: BTreeMap<usize, VecDeque<String>>,
    /// Answers by error code.
    pub(crate) answers: BTreeMap<i16, usize>,
    pub(crate) wrong: Vec<String>,
}

/// The number of a stranger by its id.
fn stranger(id: &str) -> Option<usize> {
    id.strip_prefix("stranger-")?.parse().ok()
}

impl Mutator {
    pub(crate) fn connect(port: u16, seed: u64) -> Self {
        Self {
            connections: (0..CONNECTIONS).map(|_| Connection::open(port)).collect(),
            luck: Luck::new(seed, vec![riparian_types::Uuid::ZERO]),
            start: Instant::now(),
            epochs: BTreeMap::new(),
            steadfast: BTreeSet::new(),
            told: VecDeque::new(),
            said: BTreeMap::new(),
            answers: BTreeMap::new(),
            wrong: Vec::new(),
        }
    }

    /// Sends one over each connection, then looks at the answers. Returns how many they were.
    pub(crate) fn turn(&mut self, group: &mut Group) -> usize {
        let requests: Vec<_> = (0..CONNECTIONS).map(|number| self.send(number, group)).collect();
        for (number, (request, version)) in requests.iter().enumerate() {
            match self.connections[number].read_frame() {
                Some(answer) => self.hear(group, request, &decode(&answer, *version)),
                None => self.wrong.push(format!("the connection was closed after {request:?}")),
            }
        }
        requests.len()
    }

    fn send(&mut self, number: usize, group: &mut Group) -> (StreamsGroupHeartbeatRequest<'static>, i16) {
        let version = self.luck.below(2) as i16;
        // No stranger speaks over two connections: which of both is heard first would be unknown.
        let stranger = number + CONNECTIONS * self.luck.below(STRANGERS_MAX / CONNECTIONS);
        let member_id = if self.luck.below(8) == 0 { used_id(stranger) } else { format!("stranger-{stranger}") };
        let mut request = self.valid(&member_id);
        for _ in 0..self.luck.below(4) {
            self.replace(&mut request, version);
        }
        // Whatever it says, what it was told before may have been given back by it.
        let is_of_group = request.group_id == GROUP;
        self.forget(group, |_, owner| is_of_group && format!("stranger-{}", owner - STRANGERS) == *request.member_id);
        self.forget_silent(group);
        self.connections[number].send_frame(&frame(&request, version));
        (request, version)
    }

    fn hear(
        &mut self,
        group: &mut Group,
        request: &StreamsGroupHeartbeatRequest<'static>,
        response: &StreamsGroupHeartbeatResponse<'_>,
    ) {
        *self.answers.entry(response.error_code).or_default() += 1;
        if response.error_code == -1 {
            self.wrong.push(format!("-1 ({:?}) to {request:?}", response.error_message));
        }
        if let Some(number) = stranger(&request.member_id) {
            let said = self.said.entry(number).or_default();
            if said.len() == SAID_MAX {
                said.pop_front();
            }
            said.push_back(format!("{:?}: {request:?}\n    {response:?}", self.start.elapsed()));
        }
        if response.error_code != 0 || request.group_id != GROUP {
            return;
        }
        self.epochs.insert(request.member_id.clone().into_owned(), response.member_epoch);
        if is_used_id(&request.member_id) {
            return;
        }
        let number = stranger(&request.member_id);
        if let Some(number) = number {
            let is_usual =
                request.instance_id.is_none() && matches!(request.rebalance_timeout_ms, -1 | REBALANCE_TIMEOUT_MS);
            if !is_usual {
                self.steadfast.remove(&number);
            } else if request.rebalance_timeout_ms == REBALANCE_TIMEOUT_MS {
                self.steadfast.insert(number);
            }
        }
        for &task in response.active_tasks.iter().flatten().flat_map(|tasks| &tasks.partitions) {
            let complaint = match number {
                Some(number) if self.steadfast.contains(&number) => {
                    self.told.push_back((Instant::now(), task, STRANGERS + number));
                    group.owners.told(task, STRANGERS + number)
                }
                // Others are too many to be followed, but have no right to what one of the members has.
                _ => {
                    let owner = group.owners.owner(task).filter(|owner| *owner < STRANGERS);
                    owner.map(|owner| format!("task {task} is told while member {owner} has it"))
                }
            };
            self.wrong.extend(complaint.map(|text| format!("{text}, after {request:?}")));
        }
    }

    /// The last words of the strangers that a complaint names.
    pub(crate) fn said_by(&self, complaint: &str) -> String {
        let is_named = |number: &usize| complaint.contains(&format!(" {} ", number + STRANGERS));
        let said = self.said.iter().filter(|(number, _)| is_named(number)).flat_map(|(_, said)| said);
        said.map(|said| format!("\n  {said}")).collect()
    }

    /// Strangers that were silent for too long may have been fenced: what they had may go to others.
    pub(crate) fn forget_silent(&mut self, group: &mut Group) {
        let silent_since = Instant::now().checked_sub(SURELY_IN);
        self.forget(group, |at, _| silent_since.is_some_and(|since| at < since));
    }

    fn forget(&mut self, group: &mut Group, is_over: impl Fn(Instant, usize) -> bool) {
        self.told.retain(|&(at, task, owner)| {
            let is_over = is_over(at, owner);
            if is_over {
                group.owners.given_back(task, owner);
            }
            !is_over
        });
    }

    /// A heartbeat as a client would send it: a join, a report, nothing, or a leave.
    fn valid(&mut self, member_id: &str) -> StreamsGroupHeartbeatRequest<'static> {
        let epoch = self.epochs.get(member_id).copied();
        let plain = StreamsGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: member_id.to_owned().into(),
            member_epoch: epoch.unwrap_or(0),
            ..Default::default()
        };
        match self.luck.below(8) {
            0 => StreamsGroupHeartbeatRequest { member_epoch: -1, ..plain },
            1..=3 if epoch.is_some() => plain,
            4 | 5 if epoch.is_some() => {
                let count = self.luck.below(4) as i32;
                let first = self.luck.below(TASKS as usize) as i32;
                let partitions = (first..first + count).map(|task| task % TASKS).collect();
                let tasks = heartbeat::TaskIds { subtopology_id: "0".into(), partitions, ..Default::default() };
                StreamsGroupHeartbeatRequest {
                    active_tasks: Some(if count == 0 { Vec::new() } else { vec![tasks] }),
                    standby_tasks: Some(Vec::new()),
                    warmup_tasks: Some(Vec::new()),
                    ..plain
                }
            }
            _ => StreamsGroupHeartbeatRequest {
                member_epoch: 0,
                endpoint_information_epoch: -1,
                rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
                process_id: Some(member_id.to_owned().into()),
                client_tags: Some(Vec::new()),
                topology: Some(heartbeat::Topology {
                    subtopologies: vec![heartbeat::Subtopology {
                        subtopology_id: "0".into(),
                        source_topics: vec![TOPIC.into()],
                        ..Default::default()
                    }],
                    ..Default::default()
                }),
                active_tasks: Some(Vec::new()),
                standby_tasks: Some(Vec::new()),
                warmup_tasks: Some(Vec::new()),
                ..plain
            },
        }
    }

    /// Gives one field another value.
    fn replace(&mut self, request: &mut StreamsGroupHeartbeatRequest<'static>, version: i16) {
        let other = arbitrary::streams_group_heartbeat_request::arbitrary(&mut self.luck, version);
        match self.luck.below(FIELDS) {
            0 => request.group_id = other.group_id,
            1 => request.member_id = other.member_id,
            2 => request.member_epoch = other.member_epoch,
            3 => request.endpoint_information_epoch = other.endpoint_information_epoch,
            4 => request.instance_id = other.instance_id,
            5 => request.rack_id = other.rack_id,
            6 => request.rebalance_timeout_ms = other.rebalance_timeout_ms,
            7 => request.topology = other.topology,
            8 => request.active_tasks = other.active_tasks,
            9 => request.standby_tasks = other.standby_tasks,
            10 => request.warmup_tasks = other.warmup_tasks,
            11 => request.process_id = other.process_id,
            12 => request.user_endpoint = other.user_endpoint,
            13 => request.client_tags = other.client_tags,
            14 => request.shutdown_application = other.shutdown_application,
            15 => (request.task_offsets, request.task_end_offsets) = (other.task_offsets, other.task_end_offsets),
            _ => request.unknown_tagged_fields = other.unknown_tagged_fields,
        }
    }
}
