//! A member of a streams group, as a Kafka Streams client behaves: it joins with its topology, runs what it is told to
//! run, stops what it is told to give back and says so, commits what it has done, leaves, dies, comes back.
//!
//! It runs a new task as soon as it is told to, and goes on with one that it has to give back until it has stopped,
//! which takes a while.

mod nodes;
mod orders;

use std::collections::BTreeSet;

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        OffsetCommitRequest, StreamsGroupHeartbeatRequest,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        streams_group_heartbeat_request as req, streams_group_heartbeat_response as res,
    },
};

use crate::{
    actors::Actor,
    app::Version,
    client::{Client, Watch, decode},
    core::Core,
    options::GroupOptions,
    oracle::{Task, ownership::RunVersion},
    queue::{Event, Order},
};

const COMMIT_VERSION: i16 = 9;

/// One member.
pub(crate) struct Member {
    actor: usize,
    client: Client,
    group: GroupOptions,
    process: String,
    instance: Option<String>,
    version: i16,
    /// Times it was started; part of its member id, unless it comes back as the same.
    incarnation: u32,
    keeps_id: bool,
    member_id: String,
    /// Timers of an earlier life are void.
    life: u64,
    is_up: bool,
    /// It will not come back.
    is_gone: bool,
    /// Whoever runs the application has stopped it, and not started it again.
    is_held: bool,
    /// The version of the application that it runs.
    number: u32,
    app: Version,
    epoch: i32,
    endpoint_epoch: i32,
    told: Tasks,
    /// What it has taken over and reports.
    owned: Tasks,
    /// Active tasks that it processes.
    running: BTreeSet<Task>,
    applies: bool,
    must_report: bool,
    interval_ms: u64,
    heartbeat: Option<i32>,
    commit: Option<(i32, Vec<Committed>)>,
    description: Option<i32>,
    last_error: Option<i16>,
    /// Since when it is told that source topics are missing.
    missing_since_us: Option<u64>,
}

/// One offset of a commit.
struct Committed {
    topic: String,
    partition: i32,
    task: Task,
    value: i64,
    /// Whether the task was this member's when it was sent.
    was_mine: bool,
}

/// What a member has in the three roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tasks {
    active: BTreeSet<Task>,
    standby: BTreeSet<Task>,
    warmup: BTreeSet<Task>,
}

const BEAT: u64 = 1;
const APPLY: u64 = 2;
const COMMIT: u64 = 3;
const DIE: u64 = 4;
const LEAVE: u64 = 5;
const PAUSE: u64 = 6;
const START: u64 = 7;

impl Member {
    pub(crate) fn new(actor: usize, group: &GroupOptions, index: u64, core: &mut Core) -> Self {
        let is_static = group.one_in_static > 0 && index.is_multiple_of(group.one_in_static);
        let process = format!("p{}", index % group.processes);
        core.members.entry(group.name.clone()).or_default().push((actor, process.clone()));
        Self {
            actor,
            client: Client::new(actor, "streams"),
            process,
            instance: is_static.then(|| format!("i{index}")),
            version: i16::from(!core.prng.chance(3)),
            group: group.clone(),
            incarnation: 0,
            keeps_id: core.prng.chance(3),
            member_id: String::new(),
            life: 0,
            is_up: false,
            is_gone: false,
            is_held: false,
            number: 0,
            app: Version::of(group, 0),
            epoch: 0,
            endpoint_epoch: -1,
            told: Tasks::default(),
            owned: Tasks::default(),
            running: BTreeSet::new(),
            applies: false,
            must_report: false,
            interval_ms: core.options.heartbeat_interval_ms,
            heartbeat: None,
            commit: None,
            description: None,
            last_error: None,
            missing_since_us: None,
        }
    }

    fn timer(&self, core: &mut Core, delay_ms: u64, kind: u64) {
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: self.life << 4 | kind });
    }

    fn start(&mut self, core: &mut Core) {
        if self.is_up || self.is_gone || self.is_held {
            return;
        }
        self.life += 1;
        self.is_up = true;
        core.owners.up(&self.group.name);
        if !self.keeps_id || self.incarnation == 0 {
            self.incarnation += 1;
            self.member_id = format!("{}-{}", core.names[self.actor], self.incarnation);
        }
        self.rejoin();
        core.tell(self.actor, format_args!("starts as {}", self.member_id));
        self.beat(core);
        self.timer(core, 500, COMMIT);
        let faults = core.options.faults.clone();
        for (every, kind) in [(faults.member_death, DIE), (faults.member_leave, LEAVE), (faults.member_pause, PAUSE)] {
            if let Some(delay_ms) = core.draw_ms(every) {
                self.timer(core, delay_ms, kind);
            }
        }
    }

    /// Everything it knew of the group is void.
    fn rejoin(&mut self) {
        self.epoch = 0;
        self.endpoint_epoch = -1;
        self.told = Tasks::default();
        self.owned = Tasks::default();
        self.applies = false;
        self.must_report = false;
        self.missing_since_us = None;
    }

    fn stop_all(&mut self, core: &mut Core) {
        for task in std::mem::take(&mut self.running) {
            core.owners.stop(&self.group.name, &task, &self.member_id);
        }
    }

    /// It ends, and nothing is said of when it comes back.
    fn halt(&mut self, core: &mut Core) {
        self.stop_all(core);
        self.is_up = false;
        core.owners.down(&self.group.name);
        self.life += 1;
        self.client.disconnect(core);
        self.heartbeat = None;
        self.commit = None;
        self.rejoin();
    }

    fn stop(&mut self, core: &mut Core) {
        self.halt(core);
        if core.is_healing || core.prng.chance(6) {
            self.is_gone = true;
            core.tell(self.actor, format_args!("is gone for good"));
        } else {
            let spread_ms = 2 * core.options.session_timeout_ms;
            let delay_ms = core.prng.below(spread_ms);
            self.timer(core, delay_ms, START);
        }
    }

    fn leave(&mut self, core: &mut Core) {
        let returns = core.prng.chance(2);
        self.say_goodbye(core, returns);
        self.stop(core);
    }

    /// Tells the group that it leaves; a static member may say that it will be back.
    fn say_goodbye(&mut self, core: &mut Core, returns: bool) {
        if self.epoch > 0 {
            let epoch = if self.instance.is_some() && returns { -2 } else { -1 };
            let request = StreamsGroupHeartbeatRequest { member_epoch: epoch, ..self.plain() };
            core.tell(self.actor, format_args!("leaves with epoch {epoch}"));
            core.totals.add("leaves", 1);
            core.records.leaves(&self.member_id);
            // Nobody waits for the answer.
            let _ = self.client.send(core, &request, self.version);
        }
    }

    fn plain(&self) -> StreamsGroupHeartbeatRequest<'static> {
        StreamsGroupHeartbeatRequest {
            group_id: self.group.name.clone().into(),
            member_id: self.member_id.clone().into(),
            member_epoch: self.epoch,
            endpoint_information_epoch: self.endpoint_epoch,
            instance_id: self.instance.clone().map(Into::into),
            rebalance_timeout_ms: -1,
            ..Default::default()
        }
    }

    fn beat(&mut self, core: &mut Core) {
        if self.heartbeat.is_some() || !self.is_up {
            return;
        }
        let mut request = self.plain();
        let is_join = self.epoch == 0;
        if is_join {
            request.rebalance_timeout_ms = i32::try_from(core.options.rebalance_timeout_ms).unwrap_or(i32::MAX);
            request.topology = Some(self.app.topology());
            request.process_id = Some(self.process.clone().into());
            request.client_tags = Some(Vec::new());
        }
        let reports = is_join || std::mem::take(&mut self.must_report);
        if reports {
            request.active_tasks = Some(lists(if is_join { &self.owned.active } else { &self.running }));
            request.standby_tasks = Some(lists(&self.owned.standby));
            request.warmup_tasks = Some(lists(&self.owned.warmup));
        }
        self.heartbeat = self.client.send(core, &request, self.version);
        if self.heartbeat.is_none() {
            self.must_report |= reports;
            self.retry(core);
            return;
        }
        if is_join {
            core.tell(self.actor, format_args!("joins {}", self.group.name));
            core.totals.add("joins", 1);
        } else if reports {
            core.tell(self.actor, format_args!("reports at epoch {} to own {}", self.epoch, text(&self.running)));
        } else {
            core.tell(self.actor, format_args!("beats at epoch {}", self.epoch));
        }
        core.totals.add("heartbeats", 1);
    }

    fn retry(&self, core: &mut Core) {
        let delay_ms = 20 + core.prng.below(300);
        self.timer(core, delay_ms, BEAT);
    }

    fn lost(&mut self, core: &mut Core) {
        let had_heartbeat = self.heartbeat.take().is_some();
        self.description = None;
        self.commit = None;
        if had_heartbeat && self.is_up {
            self.must_report = true;
            self.retry(core);
        }
    }

    fn on_heartbeat(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(response) = decode::<StreamsGroupHeartbeatRequest<'_>>(core, reply, self.version) else { return };
        let code = response.error_code;
        if code != 0 {
            self.on_refused(core, code);
            return;
        }
        self.last_error = None;
        let epoch = response.member_epoch;
        if response.member_id != self.member_id.as_str() {
            core.fail(format_args!("{} is answered as {}", self.member_id, response.member_id));
        }
        if epoch < self.epoch {
            core.fail(format_args!("{} was at epoch {} and is told {epoch}", self.member_id, self.epoch));
        }
        if epoch > self.epoch {
            core.tell(self.actor, format_args!("is at epoch {epoch}"));
        }
        core.records.told(&self.group.name, epoch);
        self.epoch = epoch;
        self.endpoint_epoch = response.endpoint_information_epoch;
        let is_to_describe = response.topology_description_required;
        self.interval_ms = u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(50);
        let statuses = response.status.map(|statuses| statuses.iter().map(|status| status.status_code).collect());
        if self.group.obeys_statuses && self.must_end(core, statuses) {
            return;
        }
        if let Some(active) = response.active_tasks {
            let told = Tasks {
                active: tasks(&active),
                standby: tasks(&response.standby_tasks.unwrap_or_default()),
                warmup: tasks(&response.warmup_tasks.unwrap_or_default()),
            };
            if let Some(unknown) = told.active.iter().chain(&told.standby).find(|task| !self.app.has(task)) {
                self.on_unknown_task(core, *unknown);
                return;
            }
            if told != self.told {
                core.tell(self.actor, format_args!("is told to run {}", text(&told.active)));
            }
            self.told = told;
            let version = RunVersion { number: self.number, may_differ: self.group.epochs_rise };
            for task in self.told.active.clone() {
                if self.running.insert(task) {
                    let result = core.owners.start(&core.records, &self.group.name, &task, &self.member_id, version);
                    core.check(result);
                    core.totals.add("tasks started", 1);
                }
            }
            if self.told != self.owned && !self.applies {
                self.applies = true;
                let delay_ms = if core.is_healing { 20 } else { core.prng.below(2000) };
                self.timer(core, delay_ms, APPLY);
            }
        }
        self.timer(core, self.interval_ms, BEAT);
        if is_to_describe {
            self.describe_topology(core);
        }
    }

    /// It has stopped what it was told to give back, and says so at once.
    fn apply(&mut self, core: &mut Core) {
        self.applies = false;
        let stopped: Vec<Task> = self.running.difference(&self.told.active).copied().collect();
        for task in stopped {
            core.owners.stop(&self.group.name, &task, &self.member_id);
            self.running.remove(&task);
            core.totals.add("tasks stopped", 1);
        }
        self.owned = self.told.clone();
        self.must_report = true;
        self.beat(core);
    }

    fn on_refused(&mut self, core: &mut Core, code: i16) {
        let error = ErrorCode::from_code(code);
        core.tell(self.actor, format_args!("is refused: {}", error.map_or("?", ErrorCode::name)));
        self.last_error = Some(code);
        match error {
            Some(
                ErrorCode::UnknownMemberId
                | ErrorCode::FencedMemberEpoch
                | ErrorCode::GroupIdNotFound
                | ErrorCode::FencedInstanceId,
            ) => {
                core.totals.add("fenced", 1);
                self.stop_all(core);
                self.rejoin();
                self.retry(core);
            }
            Some(ErrorCode::StreamsInvalidTopologyEpoch) if self.group.versions > 1 => self.on_other_version(core),
            // It owns tasks of a topic that has become smaller.
            Some(ErrorCode::InvalidRequest) if core.shrunk.contains(&self.group.name) => self.end_for_a_while(core),
            Some(ErrorCode::UnreleasedInstanceId) => {
                self.rejoin();
                self.timer(core, 500, BEAT);
            }
            Some(
                ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable,
            ) => {
                self.must_report = true;
                self.retry(core);
            }
            _ => core.fail(format_args!("{} gets error {code} ({error:?})", self.member_id)),
        }
    }

    fn commit_some(&mut self, core: &mut Core) {
        let delay_ms = 200 + core.prng.below(2000);
        self.timer(core, delay_ms, COMMIT);
        if self.commit.is_some() || self.epoch <= 0 {
            return;
        }
        let mut written = Vec::new();
        for task in &self.running {
            for topic in self.app.committed_by(task) {
                let (partition, value) = (task.partition, core.commits.next_value());
                core.commits.tried(&self.group.name, &topic, partition, value, core.now_us);
                written.push(Committed { topic, partition, task: *task, value, was_mine: self.is_mine(core, task) });
            }
        }
        if written.is_empty() {
            return;
        }
        written.sort_by(|a, b| a.topic.cmp(&b.topic));
        let topics = written.chunk_by(|a, b| a.topic == b.topic).map(|written| OffsetCommitRequestTopic {
            name: written[0].topic.clone().into(),
            partitions: written.iter().map(partition_of).collect(),
            ..Default::default()
        });
        let request = OffsetCommitRequest {
            group_id: self.group.name.clone().into(),
            generation_id_or_member_epoch: self.epoch,
            member_id: self.member_id.clone().into(),
            group_instance_id: self.instance.clone().map(Into::into),
            topics: topics.collect(),
            ..Default::default()
        };
        if let Some(correlation) = self.client.send(core, &request, COMMIT_VERSION) {
            let text: Vec<String> =
                written.iter().map(|one| format!("{} at {}-{}", one.value, one.topic, one.partition)).collect();
            core.tell(self.actor, format_args!("commits {}", text.join(", ")));
            self.commit = Some((correlation, written));
        }
    }

    /// Whether a task is this member's, by the records.
    fn is_mine(&self, core: &Core, task: &Task) -> bool {
        core.records.owner(&self.group.name, task) == Some(self.member_id.as_str())
    }

    fn on_commit(&mut self, core: &mut Core, reply: &Bytes, written: &[Committed]) {
        let Some(response) = decode::<OffsetCommitRequest<'_>>(core, reply, COMMIT_VERSION) else { return };
        let answers =
            response.topics.iter().flat_map(|topic| topic.partitions.iter().map(|answer| (&*topic.name, answer)));
        for (topic, answer) in answers {
            let partition = answer.partition_index;
            let is_asked = |one: &&Committed| one.topic == topic && one.partition == partition;
            let Some(one) = written.iter().find(is_asked) else { continue };
            let (value, task) = (one.value, &one.task);
            match ErrorCode::from_code(answer.error_code) {
                Some(ErrorCode::None) => {
                    core.commits.acknowledged(&self.group.name, topic, partition, value, core.now_us);
                    if !one.was_mine && !self.is_mine(core, task) {
                        let id = &self.member_id;
                        core.fail(format_args!("{id} may commit for task {task}, which was never its own meanwhile"));
                    }
                    core.totals.add("offsets committed", 1);
                }
                Some(
                    ErrorCode::StaleMemberEpoch
                    | ErrorCode::UnknownMemberId
                    | ErrorCode::FencedMemberEpoch
                    | ErrorCode::FencedInstanceId
                    | ErrorCode::GroupIdNotFound
                    | ErrorCode::IllegalGeneration
                    | ErrorCode::UnknownTopicOrPartition,
                ) => {
                    core.commits.refused(&self.group.name, topic, partition, value);
                    core.totals.add("commits refused", 1);
                }
                // The shard may have appended it before it was lost, and reload with or without it.
                Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress) => {}
                other => core.fail(format_args!("{} gets error {other:?} for a commit", self.member_id)),
            }
        }
    }
}

impl Actor for Member {
    fn begin(&mut self, core: &mut Core) {
        let delay_ms = core.prng.below(5000);
        self.timer(core, delay_ms, START);
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match self.client.on_watch(core, token) {
            Watch::AllWell => return,
            Watch::Lost => return self.lost(core),
            Watch::NotMine => {}
        }
        if token >> 4 != self.life {
            return;
        }
        match token & 15 {
            START => self.start(core),
            BEAT => self.beat(core),
            APPLY if self.applies => self.apply(core),
            COMMIT => self.commit_some(core),
            DIE if !core.is_healing => {
                core.tell(self.actor, format_args!("dies"));
                core.totals.add("deaths", 1);
                self.stop(core);
            }
            LEAVE if !core.is_healing => self.leave(core),
            PAUSE if !core.is_healing => {
                let ms = core.prng.below(2 * core.options.session_timeout_ms);
                let until = (core.now_us + ms * 1000) as f64 / 1e6;
                core.tell(self.actor, format_args!("stands still for {ms} ms, until {until:.6}"));
                core.totals.add("pauses", 1);
                core.paused_until_us[self.actor] = core.now_us + ms * 1000;
                if let Some(delay_ms) = core.draw_ms(core.options.faults.member_pause) {
                    self.timer(core, ms + delay_ms, PAUSE);
                }
            }
            _ => {}
        }
    }

    fn on_reply(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(correlation) = self.client.take_reply(core, reply) else { return };
        if self.heartbeat == Some(correlation) {
            self.heartbeat = None;
            self.on_heartbeat(core, reply);
        } else if self.description == Some(correlation) {
            self.description = None;
            self.on_described(core, reply);
        } else if self.commit.as_ref().is_some_and(|(commit, _)| *commit == correlation)
            && let Some((_, written)) = self.commit.take()
        {
            self.on_commit(core, reply, &written);
        }
    }

    fn on_closed(&mut self, core: &mut Core) {
        self.client.on_closed();
        self.lost(core);
    }

    fn on_order(&mut self, core: &mut Core, order: Order) {
        match order {
            Order::Stop(how) => self.stop_by_order(core, how),
            Order::Start(number) => self.start_by_order(core, number),
        }
    }

    fn on_heal(&mut self, core: &mut Core) {
        if !self.is_up && !self.is_gone && self.instance.is_none() && core.prng.chance(4) {
            self.is_gone = true;
        }
    }

    fn unfinished(&self, core: &Core) -> Option<String> {
        if self.is_gone {
            return None;
        }
        let name = &core.names[self.actor];
        if !self.is_up || self.epoch == 0 {
            return Some(format!("{name} is not in its group, last error {:?}", self.last_error));
        }
        let member = core.records.group(&self.group.name).and_then(|group| group.members.get(&self.member_id));
        let Some(member) = member else { return Some(format!("{name} is not in the records")) };
        if member.active != self.running {
            return Some(format!("{name} runs {}, by the records {}", text(&self.running), text(&member.active)));
        }
        (member.epoch != self.epoch).then(|| format!("{name} is at {}, by the records at {}", self.epoch, member.epoch))
    }
}

fn partition_of(one: &Committed) -> OffsetCommitRequestPartition<'static> {
    OffsetCommitRequestPartition {
        partition_index: one.partition,
        committed_offset: one.value,
        committed_leader_epoch: -1,
        ..Default::default()
    }
}

fn tasks(lists: &[res::TaskIds<'_>]) -> BTreeSet<Task> {
    lists
        .iter()
        .flat_map(|list| list.partitions.iter().map(|&partition| Task::of(&list.subtopology_id, partition)))
        .collect()
}

fn lists(tasks: &BTreeSet<Task>) -> Vec<req::TaskIds<'static>> {
    let tasks: Vec<Task> = tasks.iter().copied().collect();
    let lists = tasks.chunk_by(|a, b| a.subtopology == b.subtopology).map(|tasks| req::TaskIds {
        subtopology_id: tasks[0].subtopology.to_string().into(),
        partitions: tasks.iter().map(|task| task.partition).collect(),
        ..Default::default()
    });
    lists.collect()
}

fn text(tasks: &BTreeSet<Task>) -> String {
    let names: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }
}
