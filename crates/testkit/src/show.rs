//! Answers and records as lines of a script.

use std::{collections::BTreeMap, fmt};

use crate::{ClassicGroup, ClassicMembers, InternalTopic, Task, TaskLists, TaskOffset, Topology};

/// What has been shown before decides how something is shown: values that say nothing by themselves get numbers in the
/// order in which they come up, and what a member was already told is not repeated.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    hashes: Vec<i64>,
    intervals: BTreeMap<String, [i64; 3]>,
    /// Texts are shown as `*`.
    stars: bool,
    /// Who is called what.
    pub classic: ClassicMembers,
}

/// An answer to a heartbeat that is no error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of StreamsGroupHeartbeat, by their names")]
pub struct HeartbeatAnswer {
    pub member_id: String,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    pub task_offset_interval_ms: i32,
    pub acceptable_recovery_lag: i64,
    /// Codes and texts; `None` if the list is null.
    pub statuses: Option<Vec<(i8, String)>>,
    pub tasks: Option<TaskLists>,
    pub topology_description_required: bool,
    pub endpoint_information_epoch: i32,
    pub endpoints: Option<Vec<EndpointPartitions>>,
}

/// What one endpoint serves: topics and partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointPartitions {
    /// Host and port.
    pub endpoint: (String, u16),
    /// Where it is active.
    pub active: Vec<(String, Vec<i32>)>,
    /// Where it stands by.
    pub standby: Vec<(String, Vec<i32>)>,
}

/// A described group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of StreamsGroupDescribe, by their names")]
pub struct Description {
    pub state: String,
    pub group_epoch: i32,
    pub assignment_epoch: i32,
    /// What the caller may do, a bit for each.
    pub operations: Option<i32>,
    pub assignor: Option<String>,
    pub topology: Option<Topology>,
    pub members: Vec<DescribedMember>,
    /// What is told of the topology's nodes, if that was asked.
    pub nodes: Option<String>,
}

/// The nodes of the topology that members of scripts describe, which have a store of this name.
pub fn nodes(store: &str) -> String {
    let shown = if store.len() > STORE_SHOWN_MAX { "a long name" } else { store };
    format!("0: reads[in] > works({shown}) > writes[out] / global: reads[table] > works({shown})")
}

/// Longer names of stores are not shown.
const STORE_SHOWN_MAX: usize = 100;

/// A member of a described group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of StreamsGroupDescribe, by their names")]
pub struct DescribedMember {
    pub member_id: String,
    pub member_epoch: i32,
    pub metadata: MemberMetadata,
    pub assignment: TaskLists,
    pub target: TaskLists,
    pub task_offsets: Vec<TaskOffset>,
    pub task_end_offsets: Vec<TaskOffset>,
}

/// What is kept about a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of StreamsGroupMemberMetadata, by their names")]
pub struct MemberMetadata {
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    /// `None` where it is not told.
    pub rebalance_timeout_ms: Option<i32>,
    pub topology_epoch: i32,
    pub process_id: String,
    pub user_endpoint: Option<(String, u16)>,
    pub client_tags: Vec<(String, String)>,
}

/// A record of `__consumer_offsets`, without its group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the stored records, by the names of their fields")]
pub enum Record {
    /// 1
    Offset { topic: String, partition: i32, value: Option<CommittedOffset> },
    /// 2
    ClassicGroup(Option<ClassicGroup>),
    /// 17
    Group(Option<GroupMetadata>),
    /// 19
    Member(String, Option<MemberMetadata>),
    /// 20: epoch and whether there is a time.
    TargetMetadata(Option<(i32, bool)>),
    /// 21
    Target(String, Option<TaskLists>),
    /// 22
    Current(String, Option<CurrentAssignment>),
    /// 23
    Topology(Option<Topology>),
    /// 21072, which only our server writes: the topology's epoch.
    TopologyDescription(Option<i32>),
    /// Any other.
    Other(i16),
}

/// A committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of OffsetCommit, by their names")]
pub struct CommittedOffset {
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: String,
}

/// What is kept about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of StreamsGroupMetadata, by their names")]
pub struct GroupMetadata {
    pub epoch: i32,
    pub metadata_hash: i64,
    pub validated_topology_epoch: i32,
    pub last_assignment_configs: Vec<(String, String)>,
    pub stored_description_topology_epoch: i32,
    pub failed_description_topology_epoch: i32,
}

/// Where a member is on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of StreamsGroupCurrentMemberAssignment, by their names")]
pub struct CurrentAssignment {
    pub member_epoch: i32,
    pub previous_member_epoch: i32,
    pub state: i8,
    pub assigned: TaskLists,
    pub pending_revocation: TaskLists,
}

impl Printer {
    /// Shows texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows only that there are texts, for a comparison of servers that say the same in other words.
    pub fn without_texts() -> Self {
        Self { stars: true, ..Self::default() }
    }

    /// An error by Kafka's name, with its text if there is one.
    pub fn error(&self, name: &str, text: Option<&str>) -> String {
        self.with_text(name, text.unwrap_or_default())
    }

    fn with_text(&self, what: &str, text: &str) -> String {
        match text {
            "" => what.to_owned(),
            _ if self.stars => format!("{what}: *"),
            text => format!("{what}: {text}"),
        }
    }

    /// An answer to a heartbeat of this member.
    pub fn heartbeat(&mut self, member: &str, answer: &HeartbeatAnswer) -> Vec<String> {
        let tasks = answer.tasks.as_ref().map_or_else(|| "-".to_owned(), TaskLists::to_string);
        let mut lines = vec![format!("epoch {} {tasks}", answer.member_epoch)];
        if answer.member_id != member {
            lines.push(format!("member id {}", answer.member_id));
        }
        let intervals = [
            answer.heartbeat_interval_ms.into(),
            answer.task_offset_interval_ms.into(),
            answer.acceptable_recovery_lag,
        ];
        if answer.member_epoch >= 0 && self.intervals.insert(member.to_owned(), intervals) != Some(intervals) {
            let [heartbeat, offsets, lag] = intervals;
            lines.push(format!("interval {heartbeat} offsets {offsets} lag {lag}"));
        }
        match &answer.statuses {
            Some(statuses) => {
                lines.extend(statuses.iter().map(|(code, text)| self.with_text(&format!("status {code}"), text)));
            }
            None => lines.push("no statuses".to_owned()),
        }
        if answer.topology_description_required {
            lines.push("topology description required".to_owned());
        }
        if let Some(endpoints) = &answer.endpoints {
            if endpoints.is_empty() {
                lines.push(format!("no endpoints at {}", answer.endpoint_information_epoch));
            }
            lines.extend(endpoints.iter().map(|endpoint| {
                let (host, port) = &endpoint.endpoint;
                let [active, standby] = [&endpoint.active, &endpoint.standby].map(|topics| {
                    let mut topics: Vec<_> =
                        topics.iter().map(|(topic, partitions)| format!("{topic}{partitions:?}")).collect();
                    // Kafka has them in the order of a hash map.
                    topics.sort();
                    topics.join(" ")
                });
                format!("endpoint {host}:{port} at {} {active} | {standby}", answer.endpoint_information_epoch)
            }));
        }
        lines.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    /// A described group.
    pub fn description(&self, described: &Description) -> Vec<String> {
        let (state, epoch) = (&described.state, described.group_epoch);
        let assignor = described.assignor.as_deref().unwrap_or("-");
        let mut lines =
            vec![format!("{state} epoch {epoch} assignment {} assignor {assignor}", described.assignment_epoch)];
        lines.push(
            described
                .topology
                .as_ref()
                .map_or_else(|| "no topology".to_owned(), |topology| format!("topology {topology}")),
        );
        lines.extend(described.operations.map(|operations| format!("operations {operations}")));
        for member in &described.members {
            let (id, epoch) = (&member.member_id, member.member_epoch);
            let (assigned, target) = (&member.assignment, &member.target);
            let mut line = format!("member {id} epoch {epoch} {assigned} target {target}{}", member.metadata);
            for (name, offsets) in [("at", &member.task_offsets), ("ends", &member.task_end_offsets)] {
                if !offsets.is_empty() {
                    let offsets: Vec<_> = offsets.iter().map(TaskOffset::to_string).collect();
                    line.push_str(&format!(" {name} {}", offsets.join(",")));
                }
            }
            lines.push(line);
        }
        lines.extend(described.nodes.as_ref().map(|nodes| format!("nodes {nodes}")));
        lines
    }

    /// Records, in order; targets of members that stand together are sorted, and so are offsets that are forgotten
    /// together, because Kafka has them in the order of a hash map.
    pub fn records(&mut self, records: &[Record]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let forgotten = |record: &Record| matches!(record, Record::Offset { value: None, .. });
        let are_in_any_order = |a: &Record, b: &Record| {
            matches!((a, b), (Record::Target(..), Record::Target(..))) || forgotten(a) && forgotten(b)
        };
        for together in records.chunk_by(are_in_any_order) {
            let mut shown: Vec<String> = together.iter().map(|record| self.record(record)).collect();
            shown.sort();
            lines.extend(shown);
        }
        lines
    }

    fn record(&mut self, record: &Record) -> String {
        match record {
            Record::Offset { topic, partition, value: Some(value) } => {
                let mut line = format!("1 {topic}-{partition} {} leader {}", value.offset, value.leader_epoch);
                if !value.metadata.is_empty() {
                    line.push_str(&format!(" metadata of {}", value.metadata.chars().count()));
                }
                line
            }
            Record::Offset { topic, partition, value: None } => format!("1 {topic}-{partition} -"),
            Record::ClassicGroup(group) => self.classic.record(group.as_ref()),
            Record::Group(Some(group)) => {
                let hash = self.hash(group.metadata_hash);
                let configs = group.last_assignment_configs.iter().map(|(key, value)| format!(" {key}={value}"));
                let described = (group.stored_description_topology_epoch, group.failed_description_topology_epoch);
                let described = if described == (-1, -1) { String::new() } else { format!(" described {described:?}") };
                let (epoch, validated) = (group.epoch, group.validated_topology_epoch);
                format!("17 epoch {epoch} hash {hash} validated {validated}{described}{}", configs.collect::<String>())
            }
            Record::Member(id, Some(metadata)) => format!("19 {id}{metadata}"),
            Record::TargetMetadata(Some((epoch, true))) => format!("20 epoch {epoch}"),
            Record::TargetMetadata(Some((epoch, false))) => format!("20 epoch {epoch} no time"),
            Record::Target(id, Some(tasks)) => format!("21 {id} {tasks}"),
            Record::Current(id, Some(current)) => format!("22 {id} {current}"),
            Record::Topology(Some(topology)) => format!("23 {topology}"),
            Record::Group(None) => "17 -".to_owned(),
            Record::TargetMetadata(None) => "20 -".to_owned(),
            Record::Member(id, None) => format!("19 {id} -"),
            Record::Target(id, None) => format!("21 {id} -"),
            Record::Current(id, None) => format!("22 {id} -"),
            Record::Topology(None) => "23 -".to_owned(),
            Record::TopologyDescription(Some(epoch)) => format!("21072 of topology {epoch}"),
            Record::TopologyDescription(None) => "21072 -".to_owned(),
            Record::Other(record_type) => format!("{record_type} ?"),
        }
    }

    /// `0`, or a number in the order in which hashes come up.
    fn hash(&mut self, hash: i64) -> String {
        if hash == 0 {
            return "0".to_owned();
        }
        let known = self.hashes.iter().position(|known| *known == hash);
        let index = known.unwrap_or_else(|| {
            self.hashes.push(hash);
            self.hashes.len() - 1
        });
        format!("#{}", index + 1)
    }
}

impl fmt::Display for MemberMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " process {}", if self.process_id.is_empty() { "''" } else { &self.process_id })?;
        if let Some(instance) = &self.instance_id {
            write!(f, " instance {instance}")?;
        }
        if let Some(rack) = &self.rack_id {
            write!(f, " rack {rack}")?;
        }
        if let Some((host, port)) = &self.user_endpoint {
            write!(f, " endpoint {host}:{port}")?;
        }
        if !self.client_tags.is_empty() {
            let tags: Vec<_> = self.client_tags.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            write!(f, " tags {}", tags.join(","))?;
        }
        // What nearly every member has is not worth reading.
        if self.topology_epoch != 0 {
            write!(f, " topology {}", self.topology_epoch)?;
        }
        if let Some(timeout) = self.rebalance_timeout_ms.filter(|timeout| *timeout != 300_000) {
            write!(f, " timeout {timeout}")?;
        }
        if self.client_id != "client" || self.client_host != "/127.0.0.1" {
            write!(f, " client {} {}", self.client_id, self.client_host)?;
        }
        Ok(())
    }
}

impl fmt::Display for CurrentAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            1 => "STABLE".to_owned(),
            2 => "UNREVOKED".to_owned(),
            3 => "UNRELEASED".to_owned(),
            other => format!("state {other}"),
        };
        let (epoch, previous, assigned) = (self.member_epoch, self.previous_member_epoch, &self.assigned);
        write!(f, "epoch {epoch} before {previous} {state} {assigned}")?;
        if self.pending_revocation.is_empty() { Ok(()) } else { write!(f, " gives back {}", self.pending_revocation) }
    }
}

/// Active tasks of a record, with the epochs in which they were assigned.
pub fn with_epochs(tasks: Vec<Task>, epochs: impl IntoIterator<Item = Option<i32>>) -> Vec<Task> {
    tasks.into_iter().zip(epochs).map(|(task, epoch)| Task { epoch, ..task }).collect()
}

/// An internal topic as it is described.
pub fn internal_topic(
    name: &str,
    partitions: i32,
    replication_factor: i16,
    configs: Vec<(String, String)>,
) -> InternalTopic {
    let replication_factor = (replication_factor > 0).then_some(replication_factor);
    InternalTopic { name: name.to_owned(), partitions, replication_factor, configs }
}
