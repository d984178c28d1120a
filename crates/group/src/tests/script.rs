//! The language of the scenarios: commands in, answers, records and effects out.
//!
//! One command per line; group `g` unless `in=`. A member remembers what it was told, as a client does.
//!
//! ```text
//! topics in=2 out=0             set partition counts, 0 deletes; `unheard`: the machine is not told
//! topology@3 0: a > r / 1: ~r:4 +c = r    of members that join from now on (epoch 0 without @)
//! join m process=p instance=i endpoint=h:1 rack=r tags=k:v,l:w timeout=300000 host=/h v0 shutdown
//! beat m                        nothing new to report; `epoch=` and `owned=` (see below) instead of what it knows
//! ack m                         reports to own what it was told to own
//! lost beat m                   the answer gets lost
//! owned=0_0,0_1|1_0|            active, standby, warm-up
//! leave m, rest m               leave with -1, with -2
//! +3000                         time passes
//! restart, list, describe, delete, config key=value, created t, failed t=text
//! commit m epoch=3 in-0=17      `commit -` from outside the group; fetch, forget likewise
//! ```

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt::Write;

use expect_test::Expect;
use riparian_types::{LeaderEpoch, MemberEpoch, Offset, PartitionIndex, ProcessId, SubtopologyId, TopologyEpoch, Uuid};

use crate::{
    command::{
        Caller, ClientSupport, Command, GroupFilter, OffsetCommit, OffsetDelete, OffsetFetch, OffsetToCommit,
        StreamsHeartbeat,
    },
    config::GroupConfig,
    record::{MemberState, Record},
    reply::{Effect, Reply, StreamsHeartbeatReply},
    streams::{
        ActiveTaskIds, CopartitionGroup, Endpoint, InternalTopic, Subtopology, TaskIds, TaskLists, TaskOffset, Topology,
    },
    tests::driver::{Driver, Step, config},
};

/// Runs a script with Kafka's default settings and compares what it leads to.
pub(crate) fn check(script: &str, expected: Expect) {
    check_with(|_| {}, script, expected);
}

/// As [`check`], with other settings of the server.
pub(crate) fn check_with(change: impl FnOnce(&mut GroupConfig), script: &str, expected: Expect) {
    let mut config = config();
    change(&mut config);
    let mut run = Run::new(config);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        writeln!(run.output, "> {line}").unwrap();
        run.line(line);
    }
    expected.assert_eq(&run.output);
}

/// A topology by its short form, see the module.
pub(crate) fn topology(script: &str) -> Topology {
    let (epoch, parts) = match script.strip_prefix('@') {
        Some(rest) => rest.split_once(' ').map(|(epoch, parts)| (epoch.parse().unwrap(), parts)).unwrap(),
        None => (0, script),
    };
    Topology { epoch: TopologyEpoch(epoch), subtopologies: parts.split('/').map(subtopology).collect() }
}

fn subtopology(script: &str) -> Subtopology {
    let (id, parts) = script.trim().split_once(':').unwrap();
    let mut result = Subtopology { id: id.into(), ..Subtopology::default() };
    let mut mode = ' ';
    for word in parts.split_whitespace() {
        let internal = |word: &str| {
            let (name, partitions) = word.split_once(':').unwrap_or((word, "0"));
            InternalTopic {
                name: name.into(),
                partitions: partitions.parse().unwrap(),
                replication_factor: -1,
                configs: Vec::new(),
            }
        };
        match (mode, word.chars().next().unwrap()) {
            (_, sign @ ('>' | '=')) => {
                mode = sign;
                if sign == '=' {
                    result.copartition_groups.push(CopartitionGroup::default());
                }
            }
            ('=', _) => {
                let group = result.copartition_groups.last_mut().unwrap();
                let external = result.source_topics.iter().position(|topic| topic.as_str() == word);
                let own = result.repartition_source_topics.iter().position(|topic| topic.name.as_str() == word);
                match (external, own) {
                    (Some(index), _) => group.source_topics.push(index as i16),
                    (None, Some(index)) => group.repartition_source_topics.push(index as i16),
                    (None, None) => group.source_topics.push(word.parse().unwrap()),
                }
            }
            (_, '~') => {
                mode = ' ';
                result.repartition_source_topics.push(internal(&word[1..]));
            }
            (_, '+') => {
                mode = ' ';
                result.state_changelog_topics.push(internal(&word[1..]));
            }
            (_, '*') => result.source_topic_regex.push(word[1..].into()),
            ('>', _) => result.repartition_sink_topics.push(word.into()),
            _ => result.source_topics.push(word.into()),
        }
    }
    result
}

/// What a client knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    pub(crate) epoch: i32,
    pub(crate) endpoint_epoch: i32,
    pub(crate) instance: Option<String>,
    pub(crate) tasks: TaskLists,
    pub(crate) host: Option<String>,
}

struct Run {
    driver: Driver,
    topology: Topology,
    clients: BTreeMap<String, Client>,
    output: String,
}

struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn group(&self) -> &'a str {
        self.value("in").unwrap_or("g")
    }
}

impl Run {
    fn new(config: GroupConfig) -> Self {
        Self {
            driver: Driver::new(config),
            topology: topology("0: in"),
            clients: BTreeMap::new(),
            output: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(ms) = line.strip_prefix('+') {
            let start = self.driver.now_ms;
            let end = start + ms.parse::<u64>().unwrap();
            // One timer at a time, to tell when each fired.
            loop {
                let next = riparian_types::machine::Machine::next_deadline(&self.driver.machine, &self.driver.soft);
                let until = next.map_or(end, |next| next.0.max(self.driver.now_ms).min(end));
                let steps = self.driver.advance(until - self.driver.now_ms);
                let at = self.driver.now_ms - start;
                for step in steps {
                    writeln!(self.output, "  at +{at}").unwrap();
                    self.step(&step);
                }
                if self.driver.now_ms >= end {
                    return;
                }
            }
        }
        if let Some(script) = line.strip_prefix("topology") {
            self.topology = topology(script.trim());
            return;
        }
        let (is_lost, line) = line.strip_prefix("lost ").map_or((false, line), |line| (true, line));
        let words = Words(line.split_whitespace().collect());
        let group = words.group();
        let step = match words.0[0] {
            "topics" | "unheard" => {
                let changes: Vec<(&str, i32)> = (words.0[1..].iter())
                    .map(|word| word.split_once('=').map(|(name, count)| (name, count.parse().unwrap())).unwrap())
                    .collect();
                if words.0[0] == "unheard" {
                    return self.driver.change_topics_unheard(&changes);
                }
                self.driver.change_topics(&changes)
            }
            "restart" => self.driver.restart(),
            "config" => return self.config(&words),
            "created" | "failed" => self.creation_ended(&words),
            "join" | "beat" | "ack" | "leave" | "rest" => {
                let heartbeat = self.heartbeat(&words);
                let name = words.0[1].to_string();
                let step = self.driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
                if let Some(Reply::StreamsHeartbeat(Ok(reply))) = &step.reply
                    && !is_lost
                {
                    self.clients.entry(name).or_default().learn(reply);
                }
                step
            }
            "describe" => self.driver.command(|waiter| Command::StreamsDescribe(waiter, group.into())),
            "list" => {
                let list = |key| {
                    words.value(key).map(|values| values.split(',').map(String::from).collect()).unwrap_or_default()
                };
                let filter = GroupFilter { states: list("states"), types: list("types") };
                self.driver.command(|waiter| Command::ListGroups(waiter, filter))
            }
            "delete" => self.driver.command(|waiter| Command::DeleteGroup(waiter, group.into())),
            "commit" => self.commit(&words),
            "fetch" => {
                let member = words.0[1];
                let fetch = OffsetFetch {
                    group_id: group.into(),
                    member_id: (member != "-").then(|| member.into()),
                    member_epoch: MemberEpoch(words.value("epoch").map_or(-1, |epoch| epoch.parse().unwrap())),
                    topics: words.value("of").map(topic_partitions),
                    require_stable: false,
                };
                self.driver.command(|waiter| Command::OffsetFetch(waiter, fetch))
            }
            "forget" => {
                let delete =
                    OffsetDelete { group_id: group.into(), topics: topic_partitions(words.value("of").unwrap()) };
                self.driver.command(|waiter| Command::OffsetDelete(waiter, delete))
            }
            other => panic!("{other}"),
        };
        self.step(&step);
    }

    fn config(&mut self, words: &Words<'_>) {
        let mut overrides = self.driver.overrides(words.group());
        let number = |key: &str| words.value(key).map(|value| value.parse().unwrap());
        overrides.num_standby_replicas = number("standbys").or(overrides.num_standby_replicas);
        overrides.session_timeout_ms = number("session").or(overrides.session_timeout_ms);
        overrides.heartbeat_interval_ms = number("interval").or(overrides.heartbeat_interval_ms);
        overrides.initial_rebalance_delay_ms = number("delay").or(overrides.initial_rebalance_delay_ms);
        overrides.assignment_interval_ms = number("assignment").or(overrides.assignment_interval_ms);
        overrides.task_offset_interval_ms = number("offsets").or(overrides.task_offset_interval_ms);
        if let Some(tags) = words.value("tags") {
            overrides.rack_aware_assignment_tags = Some(tags.split(',').map(String::from).collect());
        }
        self.driver.override_config(words.group(), overrides);
    }

    fn creation_ended(&mut self, words: &Words<'_>) -> Step {
        let topics = words.0[1..].iter().map(|word| word.split_once('=').unwrap_or((word, "")));
        let attempted = topics.clone().map(|(topic, _)| topic.into()).collect();
        let failed = topics.filter(|(_, text)| !text.is_empty());
        let failures = failed.map(|(topic, text)| (topic.into(), text.replace('_', " "))).collect();
        self.driver.command(|_| Command::InternalTopicsCreated { group: "g".into(), attempted, failures })
    }

    fn commit(&mut self, words: &Words<'_>) -> Step {
        let offsets = words.0[2..].iter().filter_map(|word| {
            let (partition, offset) = word.split_once('=')?;
            let (topic, partition) = partition.rsplit_once('-')?;
            Some(OffsetToCommit {
                topic: topic.into(),
                topic_id: if words.has("v9") { Uuid::ZERO } else { self.driver.topic_id(topic) },
                partition: PartitionIndex(partition.parse().ok()?),
                offset: Offset(offset.parse().ok()?),
                leader_epoch: LeaderEpoch(0),
                metadata: String::new(),
            })
        });
        let commit = OffsetCommit {
            group_id: words.group().into(),
            member_id: words.0[1].trim_matches('-').into(),
            instance_id: None,
            member_epoch: MemberEpoch(words.value("epoch").map_or(-1, |epoch| epoch.parse().unwrap())),
            knows_member_epochs: !words.has("v8"),
            offsets: offsets.collect(),
        };
        self.driver.command(|waiter| Command::OffsetCommit(waiter, commit))
    }

    fn heartbeat(&mut self, words: &Words<'_>) -> StreamsHeartbeat {
        let member = words.0[1];
        let client = self.clients.entry(member.into()).or_default();
        let mut heartbeat = client.heartbeat(words.group(), member);
        match words.0[0] {
            "join" => {
                if let Some(instance) = words.value("instance") {
                    client.instance = Some(instance.into());
                }
                client.host = words.value("host").map(String::from);
                heartbeat = client.join(words.group(), member, self.topology.clone());
                heartbeat.process_id = Some(words.value("process").map_or_else(|| member.into(), ProcessId::from));
            }
            "ack" => client.report(&mut heartbeat),
            "leave" => heartbeat.member_epoch = MemberEpoch::LEAVE,
            "rest" => heartbeat.member_epoch = MemberEpoch::LEAVE_STATIC,
            _ => {}
        }
        apply_words(&mut heartbeat, words);
        heartbeat
    }

    fn step(&mut self, step: &Step) {
        if let Some(reply) = &step.reply {
            show_reply(&mut self.output, reply);
        }
        for record in &step.records {
            writeln!(self.output, "  {}", show_record(record)).unwrap();
        }
        for Effect::CreateInternalTopics { topics, .. } in &step.effects {
            let topics = topics.iter().map(|topic| format!("{}={}", topic.name, topic.partitions));
            writeln!(self.output, "  create {}", join(topics, " ")).unwrap();
        }
    }
}

impl Client {
    /// A heartbeat with nothing new to report.
    pub(crate) fn heartbeat(&self, group: &str, member: &str) -> StreamsHeartbeat {
        StreamsHeartbeat {
            caller: Caller {
                client_id: "client".into(),
                client_host: self.host.clone().unwrap_or_else(|| "/127.0.0.1".into()),
            },
            support: ClientSupport { heartbeat_v1: true },
            group_id: group.into(),
            member_id: member.into(),
            member_epoch: MemberEpoch(self.epoch),
            endpoint_information_epoch: self.endpoint_epoch,
            instance_id: self.instance.as_deref().map(Into::into),
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

    pub(crate) fn join(&mut self, group: &str, member: &str, topology: Topology) -> StreamsHeartbeat {
        self.epoch = 0;
        self.endpoint_epoch = -1;
        self.tasks = TaskLists::default();
        let mut heartbeat = self.heartbeat(group, member);
        heartbeat.topology = Some(topology);
        heartbeat.rebalance_timeout_ms = 300_000;
        self.report(&mut heartbeat);
        heartbeat
    }

    pub(crate) fn report(&self, heartbeat: &mut StreamsHeartbeat) {
        let tasks = self.tasks.clone();
        heartbeat.active_tasks = Some(tasks.active);
        heartbeat.standby_tasks = Some(tasks.standby);
        heartbeat.warmup_tasks = Some(tasks.warmup);
    }

    pub(crate) fn learn(&mut self, reply: &StreamsHeartbeatReply) {
        self.epoch = reply.member_epoch.0;
        self.endpoint_epoch = reply.endpoint_information_epoch;
        if let Some(tasks) = &reply.tasks {
            self.tasks = tasks.clone();
        }
    }
}

fn apply_words(heartbeat: &mut StreamsHeartbeat, words: &Words<'_>) {
    let lists = |text: &str| {
        let mut lists = text.split('|').map(task_ids);
        (lists.next(), lists.next(), lists.next())
    };
    if let Some(owned) = words.value("owned") {
        (heartbeat.active_tasks, heartbeat.standby_tasks, heartbeat.warmup_tasks) = lists(owned);
    }
    if let Some(epoch) = words.value("epoch") {
        heartbeat.member_epoch = MemberEpoch(epoch.parse().unwrap());
    }
    if let Some(instance) = words.value("instance") {
        heartbeat.instance_id = Some(instance.into());
    }
    if words.has("dynamic") {
        heartbeat.instance_id = None;
    }
    if let Some(endpoint) = words.value("endpoint") {
        let (host, port) = endpoint.split_once(':').unwrap();
        heartbeat.user_endpoint = Some(Endpoint { host: host.into(), port: port.parse().unwrap() });
    }
    if let Some(rack) = words.value("rack") {
        heartbeat.rack_id = Some(rack.into());
    }
    if let Some(timeout) = words.value("timeout") {
        heartbeat.rebalance_timeout_ms = timeout.parse().unwrap();
    }
    if let Some(tags) = words.value("tags") {
        let tags = tags.split(',').filter_map(|tag| tag.split_once(':'));
        heartbeat.client_tags = Some(tags.map(|(key, value)| (key.into(), value.into())).collect());
    }
    let offsets = |text: &str| {
        let offset = |text: &str| {
            let (task, offset) = text.split_once(':')?;
            let (subtopology, partition) = task.split_once('_')?;
            let partition = PartitionIndex(partition.parse().ok()?);
            Some(TaskOffset { subtopology: subtopology.into(), partition, offset: Offset(offset.parse().ok()?) })
        };
        text.split(',').filter_map(offset).collect()
    };
    heartbeat.task_offsets = words.value("at").map(offsets);
    heartbeat.task_end_offsets = words.value("ends").map(offsets);
    heartbeat.support.heartbeat_v1 = !words.has("v0");
    heartbeat.shutdown_application = words.has("shutdown");
    if words.has("nohost") {
        heartbeat.process_id = None;
    }
}

fn task_ids(text: &str) -> Vec<TaskIds> {
    let mut lists: Vec<TaskIds> = Vec::new();
    for task in text.split(',').filter(|task| !task.is_empty()) {
        let (subtopology, partition) = task.split_once('_').unwrap();
        let (subtopology, partition) = (SubtopologyId::from(subtopology), PartitionIndex(partition.parse().unwrap()));
        match lists.iter_mut().find(|list| list.subtopology == subtopology) {
            Some(list) => list.partitions.push(partition),
            None => lists.push(TaskIds { subtopology, partitions: alloc::vec![partition] }),
        }
    }
    lists
}

fn topic_partitions(text: &str) -> Vec<(riparian_types::TopicName, Vec<PartitionIndex>)> {
    let one = |word: &str| {
        let (topic, partition) = word.rsplit_once('-').unwrap();
        (topic.into(), alloc::vec![PartitionIndex(partition.parse().unwrap())])
    };
    text.split(',').map(one).collect()
}

fn join(words: impl IntoIterator<Item = String>, separator: &str) -> String {
    words.into_iter().collect::<Vec<_>>().join(separator)
}

fn show_tasks(lists: &[TaskIds]) -> String {
    let tasks = lists
        .iter()
        .flat_map(|list| list.partitions.iter().map(move |partition| format!("{}_{partition}", list.subtopology)));
    join(tasks, " ")
}

fn show_lists(lists: &TaskLists) -> String {
    let [active, standby, warmup] = [&lists.active, &lists.standby, &lists.warmup].map(|lists| show_tasks(lists));
    format!("[{active} | {standby} | {warmup}]")
}

fn show_active(lists: &[ActiveTaskIds]) -> String {
    let tasks = lists.iter().flat_map(|list| {
        let tasks = list.partitions.iter().zip(&list.assignment_epochs);
        tasks.map(move |(partition, epoch)| format!("{}_{partition}@{epoch}", list.subtopology))
    });
    join(tasks, " ")
}

fn show_reply(output: &mut String, reply: &Reply) {
    match reply {
        Reply::StreamsHeartbeat(Err(error)) => writeln!(output, "  {error:?}"),
        Reply::StreamsHeartbeat(Ok(reply)) => show_heartbeat_reply(output, reply),
        Reply::StreamsDescribe(Ok(description)) => {
            let (state, epoch) = (description.state.name(), description.group_epoch);
            writeln!(output, "  {state} epoch {epoch} assignment {}", description.assignment_epoch).unwrap();
            for topic in description.topology.iter().flat_map(|topology| &topology.subtopologies) {
                let internal = topic.repartition_source_topics.iter().chain(&topic.state_changelog_topics);
                let internal = internal.map(|topic| format!("{}={}", topic.name, topic.partitions));
                writeln!(output, "  subtopology {} {}", topic.id, join(internal, " ")).unwrap();
            }
            for member in &description.members {
                let (assigned, target) = (show_lists(&member.assignment), show_lists(&member.target_assignment));
                let offsets = member.task_offsets.len();
                let (id, epoch) = (&member.member_id, member.member_epoch);
                writeln!(output, "  member {id} epoch {epoch} {assigned} target {target} offsets {offsets}").unwrap();
            }
            Ok(())
        }
        Reply::ListGroups(listings) => {
            for group in listings {
                let (id, state) = (&group.group_id, &group.state);
                writeln!(output, "  {id} {:?} {state} {}", group.protocol_type, group.group_type).unwrap();
            }
            Ok(())
        }
        Reply::OffsetFetch(Ok(topics)) => {
            for (topic, offsets) in topics {
                for offset in offsets {
                    let committed = offset.committed.as_ref().map_or(-1, |committed| committed.offset.0);
                    writeln!(output, "  {topic}-{} {committed}", offset.partition).unwrap();
                }
            }
            Ok(())
        }
        other => writeln!(output, "  {other:?}"),
    }
    .unwrap();
}

fn show_heartbeat_reply(output: &mut String, reply: &StreamsHeartbeatReply) -> core::fmt::Result {
    let tasks = reply.tasks.as_ref().map_or_else(|| "-".into(), show_lists);
    writeln!(output, "  epoch {} {tasks}", reply.member_epoch)?;
    for status in &reply.statuses {
        writeln!(output, "  status {}: {}", status.code as i8, status.detail)?;
    }
    for endpoint in reply.partitions_by_user_endpoint.iter().flatten() {
        let show = |topics: &[crate::streams::TopicPartitions]| {
            join(topics.iter().map(|topic| format!("{}{:?}", topic.topic, topic.partitions)), " ")
        };
        let (active, standby) = (show(&endpoint.active), show(&endpoint.standby));
        let (host, port, epoch) = (&endpoint.endpoint.host, endpoint.endpoint.port, reply.endpoint_information_epoch);
        writeln!(output, "  endpoint {host}:{port} at {epoch} {active} | {standby}")?;
    }
    Ok(())
}

fn show_record(record: &Record) -> String {
    match record {
        Record::OffsetCommit(_, topic, partition, value) => {
            format!(
                "1 {topic}-{partition} {}",
                value.as_ref().map_or_else(|| "-".into(), |value| value.offset.to_string())
            )
        }
        Record::ClassicGroupMetadata(_, value) => format!("2 {}", if value.is_some() { "classic" } else { "-" }),
        Record::StreamsGroupMetadata(_, Some(value)) => {
            let configs = value.last_assignment_configs.iter().flatten();
            let configs = join(configs.map(|(key, value)| format!("{key}={value}")), " ");
            let hash = if value.metadata_hash == 0 { "no hash " } else { "" };
            format!("17 epoch {} {hash}validated {} {configs}", value.epoch, value.validated_topology_epoch)
        }
        Record::StreamsMemberMetadata(_, member, Some(value)) => {
            let instance = value.instance_id.as_ref().map(|instance| format!(" instance {instance}"));
            format!("19 {member} process {}{}", value.process_id, instance.unwrap_or_default())
        }
        Record::StreamsTargetMetadata(_, Some(value)) => {
            let no_time = if value.assignment_timestamp.0 == 0 { " no time" } else { "" };
            format!("20 epoch {}{no_time}", value.assignment_epoch)
        }
        Record::StreamsTargetMember(_, member, Some(lists)) => format!("21 {member} {}", show_lists(lists)),
        Record::StreamsCurrentAssignment(_, member, Some(value)) => {
            let state = match value.state {
                MemberState::Stable => "STABLE",
                MemberState::UnrevokedTasks => "UNREVOKED",
                MemberState::UnreleasedTasks => "UNRELEASED",
                MemberState::Unknown => "UNKNOWN",
            };
            let show = |active: &[ActiveTaskIds], standby: &[TaskIds], warmup: &[TaskIds]| {
                format!("[{} | {} | {}]", show_active(active), show_tasks(standby), show_tasks(warmup))
            };
            let assigned = show(&value.active, &value.standby, &value.warmup);
            let pending = show(
                &value.active_pending_revocation,
                &value.standby_pending_revocation,
                &value.warmup_pending_revocation,
            );
            let pending = if pending == "[ |  | ]" { String::new() } else { format!(" gives back {pending}") };
            let (epoch, previous) = (value.member_epoch, value.previous_member_epoch);
            format!("22 {member} epoch {epoch} before {previous} {state} {assigned}{pending}")
        }
        Record::StreamsTopology(_, Some(topology)) => format!("23 epoch {}", topology.epoch),
        Record::StreamsGroupMetadata(_, None) => "17 -".into(),
        Record::StreamsMemberMetadata(_, member, None) => format!("19 {member} -"),
        Record::StreamsTargetMetadata(_, None) => "20 -".into(),
        Record::StreamsTargetMember(_, member, None) => format!("21 {member} -"),
        Record::StreamsCurrentAssignment(_, member, None) => format!("22 {member} -"),
        Record::StreamsTopology(_, None) => "23 -".into(),
    }
}
