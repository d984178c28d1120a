//! What the broker counts, for whoever runs it: requests per API, what is written to logs, limits that were hit.
//!
//! Counting costs a few atomic additions per request and takes no lock; names and labels are the reader's business. What
//! is only looked at (shards, their logs, groups) is asked for through [`Broker::shards`] and [`Broker::census`].
//!
//! **Invariant:** nothing is decided by what stands here.

use std::sync::{Arc, Mutex, PoisonError};

use riparian_group::{GroupMachine, command::Command, reply::Reply, telemetry::Census};
pub use riparian_group::{
    classic::ClassicGroupState,
    reply::GroupState,
    telemetry::{
        CensusPage, Gone, GroupKindReading, GroupLimit, GroupReading, GroupTelemetry, StreamsReading, TaskCounts,
        Totals,
    },
};
use riparian_log::Appended;
use riparian_metadata::reply::Growing;
use riparian_protocol::{ApiKey, ErrorCode};
use riparian_types::{
    Now, Offset,
    telemetry::{Counter, Histogram},
};

use crate::{
    Broker, Shell, handlers,
    host::{Host, Hosted, Unavailable},
    partition::Owner,
};

/// Everything that is counted.
#[derive(Debug)]
pub struct Telemetry {
    apis: Box<[ApiCounters]>,
    limits: LimitHits,
    logs: [LogCounters; LogKind::ALL.len()],
    shards_unloaded: Counter,
    groups: GroupTelemetry,
}

/// What is counted of one API.
#[derive(Debug)]
pub struct ApiCounters {
    key: ApiKey,
    /// By error code, from -1 on.
    answers: Box<[Counter]>,
    latency: Histogram,
    request_bytes: Counter,
    response_bytes: Counter,
}

/// What a log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The metadata of the cluster.
    Metadata,
    /// Groups and their offsets.
    Groups,
    /// Records of clients.
    Clients,
}

/// What is counted of the logs of one kind.
#[derive(Debug, Default)]
pub struct LogCounters {
    /// Batches that were appended.
    pub appends: Counter,
    /// Their records.
    pub records: Counter,
    /// Their bytes.
    pub bytes: Counter,
    /// How long syncs took.
    pub syncs: Histogram,
    /// Syncs that failed.
    pub sync_failures: Counter,
}

impl LogCounters {
    /// Notes what was appended, unless it had been before.
    pub(crate) fn appended(&self, appended: &Appended, bytes: usize) {
        if !appended.duplicate {
            self.appends.increment();
            self.records.add((appended.last_offset.0 - appended.base_offset.0 + 1).unsigned_abs());
            self.bytes.add(bytes as u64);
        }
    }
}

/// A limit that the server enforces. Whoever adds one counts here how often it is hit, or, if it is one of groups, with
/// [`GroupLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `max.connections`, or the limit of open files.
    Connections,
    /// `max.connections.per.ip`, or its overrides.
    ConnectionsPerIp,
    /// `max.connection.creation.rate`.
    ConnectionRate,
    /// `riparian.connection.requests.max`.
    ConnectionRequests,
    /// `riparian.connection.unsent.bytes.max`.
    ConnectionUnsentBytes,
    /// `riparian.connections.bytes.max`.
    ConnectionsBytes,
    /// `connections.max.idle.ms`.
    ConnectionIdle,
    /// `socket.request.max.bytes`.
    RequestBytes,
    /// Connections to the HTTP address at the same time.
    HttpConnections,
    /// How long a connection to the HTTP address may take.
    HttpTime,
    /// How long the head of a request to the HTTP address may be, and of how many headers.
    HttpHead,
    /// `max.message.bytes` of a topic.
    MessageBytes,
    /// `offset.metadata.max.bytes`.
    OffsetMetadataBytes,
    /// `riparian.topics.max`.
    Topics,
    /// `riparian.partitions.max`.
    Partitions,
    /// The partitions of one topic.
    TopicPartitions,
    /// The partitions that one request creates.
    RequestPartitions,
    /// Groups that have configs of their own.
    ConfiguredGroups,
    /// Partitions that the fetches of one connection wait for.
    WaitingPartitions,
}

impl From<Growing> for Limit {
    fn from(growing: Growing) -> Self {
        match growing {
            Growing::Topics => Self::Topics,
            Growing::Partitions => Self::Partitions,
            Growing::TopicPartitions => Self::TopicPartitions,
            Growing::RequestPartitions => Self::RequestPartitions,
            Growing::ConfiguredGroups => Self::ConfiguredGroups,
        }
    }
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Connections,
        Self::ConnectionsPerIp,
        Self::ConnectionRate,
        Self::ConnectionRequests,
        Self::ConnectionUnsentBytes,
        Self::ConnectionsBytes,
        Self::ConnectionIdle,
        Self::RequestBytes,
        Self::HttpConnections,
        Self::HttpTime,
        Self::HttpHead,
        Self::MessageBytes,
        Self::OffsetMetadataBytes,
        Self::Topics,
        Self::Partitions,
        Self::TopicPartitions,
        Self::RequestPartitions,
        Self::ConfiguredGroups,
        Self::WaitingPartitions,
    ];

    /// Its name: the configuration key, where there is one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "max.connections",
            Self::ConnectionsPerIp => "max.connections.per.ip",
            Self::ConnectionRate => "max.connection.creation.rate",
            Self::ConnectionRequests => "riparian.connection.requests.max",
            Self::ConnectionUnsentBytes => "riparian.connection.unsent.bytes.max",
            Self::ConnectionsBytes => "riparian.connections.bytes.max",
            Self::ConnectionIdle => "connections.max.idle.ms",
            Self::RequestBytes => "socket.request.max.bytes",
            Self::HttpConnections => "http connections",
            Self::HttpTime => "http time",
            Self::HttpHead => "http head",
            Self::MessageBytes => "max.message.bytes",
            Self::OffsetMetadataBytes => "offset.metadata.max.bytes",
            Self::Topics => "riparian.topics.max",
            Self::Partitions => "riparian.partitions.max",
            Self::TopicPartitions => "partitions of a topic",
            Self::RequestPartitions => "partitions of a request",
            Self::ConfiguredGroups => "configured groups",
            Self::WaitingPartitions => "partitions that fetches wait for",
        }
    }
}

/// How often each limit was hit.
#[derive(Debug, Default)]
pub struct LimitHits([Counter; Limit::ALL.len()]);

impl LimitHits {
    /// A limit was hit.
    pub fn hit(&self, limit: Limit) {
        self.0[limit as usize].increment();
    }

    /// How often that happened.
    pub fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize].get()
    }
}

impl LogKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Metadata, Self::Groups, Self::Clients];

    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Groups => "groups",
            Self::Clients => "clients",
        }
    }
}

impl From<Owner> for LogKind {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::Metadata => Self::Metadata,
            Owner::Groups(_) => Self::Groups,
            Owner::Clients => Self::Clients,
        }
    }
}

impl Telemetry {
    pub(crate) fn new(shell: Arc<dyn Shell>) -> Self {
        Self {
            apis: handlers::APIS.iter().map(|api| ApiCounters::new(api.key)).collect(),
            limits: LimitHits::default(),
            logs: Default::default(),
            shards_unloaded: Counter::new(),
            groups: GroupTelemetry::new(Box::new(move || shell.micros())),
        }
    }

    /// The APIs that are served, ordered by key.
    pub fn apis(&self) -> &[ApiCounters] {
        &self.apis
    }

    /// The limits that are enforced here; those of connections are the program's around it.
    pub const fn limits(&self) -> &LimitHits {
        &self.limits
    }

    /// The logs of this kind.
    pub const fn logs(&self, kind: LogKind) -> &LogCounters {
        &self.logs[kind as usize]
    }

    /// What the machines of the groups count.
    pub const fn groups(&self) -> &GroupTelemetry {
        &self.groups
    }

    /// How often a shard was unloaded because something failed.
    pub const fn shards_unloaded(&self) -> &Counter {
        &self.shards_unloaded
    }
}

impl ApiCounters {
    fn new(key: ApiKey) -> Self {
        Self {
            key,
            answers: ErrorCode::all().map(|_| Counter::new()).collect(),
            latency: Histogram::new(),
            request_bytes: Counter::new(),
            response_bytes: Counter::new(),
        }
    }

    /// The API.
    pub const fn key(&self) -> ApiKey {
        self.key
    }

    /// How many requests were answered with this error; those that were answered with several count under the first.
    pub fn answered_with(&self, error: ErrorCode) -> u64 {
        self.answers[Self::place(error.code())].get()
    }

    /// From when a request was complete until its answer was ready.
    pub const fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Bytes of requests, without the four bytes of their sizes.
    pub const fn request_bytes(&self) -> &Counter {
        &self.request_bytes
    }

    /// Bytes of answers, without the four bytes of their sizes.
    pub const fn response_bytes(&self) -> &Counter {
        &self.response_bytes
    }

    pub(crate) fn asked(&self, bytes: usize) {
        self.request_bytes.add(bytes as u64);
    }

    /// Notes an answer: its first error, how long it took and its length.
    pub(crate) fn answered(&self, error: i16, micros: u64, bytes: usize) {
        self.answers[Self::place(error)].increment();
        self.latency.observe(micros);
        self.response_bytes.add(bytes as u64);
    }

    /// Where an error is counted; one that Kafka does not have is our fault, and counted as such.
    fn place(error: i16) -> usize {
        let known = ErrorCode::from_code(error).unwrap_or(ErrorCode::UnknownServerError);
        usize::try_from(known.code() + 1).unwrap_or(0)
    }
}

/// Whether a shard can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// It answers.
    Serving,
    /// It is being loaded, or failed and will be loaded again.
    Unloaded,
    /// Its log is damaged: it answers nobody until that is repaired.
    Damaged,
    /// Somebody else was at it just now.
    Busy,
}

/// A shard, and the log that it keeps its records in.
#[derive(Clone, Debug)]
pub struct ShardReading {
    /// What it holds.
    pub kind: LogKind,
    /// Its number among those of its kind.
    pub number: usize,
    /// Whether it can be asked.
    pub state: ShardState,
    /// Where its log starts.
    pub start_offset: Offset,
    /// Where its log ends.
    pub end_offset: Offset,
    /// Up to where its log is durable.
    pub durable_end: Offset,
    /// How long its log is.
    pub bytes: u64,
}

impl Broker {
    /// What is counted.
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// All shards, the metadata first; waits for none of them.
    pub fn shards(&self) -> Vec<ShardReading> {
        let metadata = shard_reading(LogKind::Metadata, &self.metadata);
        let groups = self.groups.iter().map(|host| shard_reading(LogKind::Groups, host));
        std::iter::once(metadata).chain(groups).collect()
    }

    /// How many partitions of clients' topics there are, how many of them are offline, and the bytes of their logs.
    pub fn client_logs(&self) -> ClientLogs {
        let mut logs = ClientLogs::default();
        for entry in self.partitions.iter() {
            for partition in entry.value().iter().filter(|partition| partition.owner == Owner::Clients) {
                let log = partition.log();
                logs.partitions += 1;
                logs.offline += u64::from(log.unavailable().is_some());
                logs.bytes += log.byte_len();
            }
        }
        logs
    }
}

/// How much of a shard is looked at before others get its lock: some tens of microseconds' worth.
const CENSUS_STEPS_MAX: usize = 500;

impl Broker {
    /// All groups: those of the first shards one by one, at most `singly_max`, and all of them together. Each shard's
    /// lock is taken for short moments only, so that groups may come and go meanwhile. Shards that are not loaded are
    /// left out.
    pub fn census(&self, now: Now, singly_max: usize) -> CensusPage {
        let mut all = CensusPage::default();
        for host in &self.groups {
            let mut after = None;
            loop {
                let singly_max = singly_max - all.groups.len();
                let census = Census { after, singly_max, steps_max: CENSUS_STEPS_MAX };
                let Some(page) = self.census_page(now, host, census) else { break };
                all.totals.add(&page.totals);
                all.groups.extend(page.groups);
                match page.more_after {
                    Some(last) => after = Some(last),
                    None => break,
                }
            }
        }
        all
    }

    fn census_page(&self, now: Now, host: &Host<GroupMachine>, census: Census) -> Option<CensusPage> {
        // The answer waits for no record, so it is there when the machine has been asked.
        let place = Arc::new(Mutex::new(None));
        let there = place.clone();
        let keep = move |_: &Self, _: Now, answer: Result<Reply, Unavailable>| {
            if let Ok(Reply::Census(page)) = answer {
                *there.lock().unwrap_or_else(PoisonError::into_inner) = Some(*page);
            }
        };
        host.ask(self, now, |waiter| Command::Census(waiter, census), Box::new(keep));
        place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The logs of clients' topics together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLogs {
    /// How many there are.
    pub partitions: u64,
    /// How many of them can't be written to or read.
    pub offline: u64,
    /// How long they are.
    pub bytes: u64,
}

fn shard_reading<M: Hosted>(kind: LogKind, host: &Host<M>) -> ShardReading {
    let log = host.partition().log();
    let state = if log.damage().is_some() {
        ShardState::Damaged
    } else {
        match host.try_is_loaded() {
            Some(true) => ShardState::Serving,
            Some(false) => ShardState::Unloaded,
            None => ShardState::Busy,
        }
    };
    ShardReading {
        kind,
        number: host.number(),
        state,
        start_offset: log.start_offset(),
        end_offset: log.end_offset(),
        durable_end: log.durable_end(),
        bytes: log.byte_len(),
    }
}
