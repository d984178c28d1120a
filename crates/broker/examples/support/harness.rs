//! A broker without sockets and threads, and members that talk to it.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use riparian_broker::{
    AdvertisedListener, AllowAll, Broker, BrokerConfig, Connection, ConnectionId, Job, Reply, Shell,
};
use riparian_log::{Disk, FlushMode, Identity, LogConfig, Logs, LogsConfig};
use riparian_metadata::config;
use riparian_protocol::{
    Request, RequestHeader, ResponseHeader,
    messages::{
        CreateTopicsRequest, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
        create_topics_request::CreatableTopic, streams_group_heartbeat_request as heartbeat,
    },
};
use riparian_types::{HashSeed, MonoMillis, NodeId, Now, Uuid, WallMillis};
use riparian_wire::Reader;

pub(crate) const HEARTBEAT: i16 = 1;
pub(crate) const TOPIC: &str = "input";
pub(crate) const START_MS: i64 = 1_700_000_000_000;

#[derive(Default)]
pub(crate) struct OneThread {
    now_ms: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    reply: Mutex<Option<Reply>>,
}

impl Shell for OneThread {
    fn now(&self) -> Now {
        let ms = self.now_ms.load(Ordering::Relaxed);
        Now { mono: MonoMillis(ms), wall: WallMillis(START_MS + ms as i64) }
    }

    fn micros(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed) * 1000
    }

    fn complete(&self, _: ConnectionId, _: u64, reply: Reply) {
        *self.reply.lock().expect("one thread") = Some(reply);
    }

    fn wake_at(&self, _: MonoMillis) {}

    fn spawn(&self, job: Job) {
        self.jobs.lock().expect("one thread").push_back(job);
    }
}

pub(crate) struct Harness {
    broker: Arc<Broker>,
    shell: Arc<OneThread>,
    connection: Arc<Connection>,
    slot: u64,
}

pub(crate) struct Member {
    group: String,
    id: String,
    topology_epoch: i32,
    epoch: i32,
    owned: Option<Vec<heartbeat::TaskIds<'static>>>,
    pub(crate) settled: bool,
}

impl Member {
    /// A member that has not joined yet.
    pub(crate) fn new(group: String, id: String, topology_epoch: i32) -> Self {
        Self { group, id, topology_epoch, epoch: 0, owned: Some(Vec::new()), settled: false }
    }

    /// The epoch it has reached.
    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// The heartbeat that says nothing.
    pub(crate) fn steady(&self) -> StreamsGroupHeartbeatRequest<'static> {
        steady(self.group.clone(), self.id.clone(), self.epoch)
    }
}

/// The heartbeat that says nothing.
pub(crate) fn steady(group: String, member: String, epoch: i32) -> StreamsGroupHeartbeatRequest<'static> {
    StreamsGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: member.into(),
        member_epoch: epoch,
        ..Default::default()
    }
}

impl Harness {
    /// A broker on this disk, with these settings.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, settings: &[(&str, &str)]) -> Self {
        let shell = Arc::new(OneThread::default());
        let identity = Identity {
            node_id: NodeId(1),
            cluster_id: None,
            new_cluster_id: "steady".into(),
            new_directory_id: Uuid::from_random(1, 2),
        };
        let logs_config = LogsConfig {
            flush: FlushMode::Os,
            producer_expiration_ms: 86_400_000,
            topic_defaults: LogConfig::KAFKA,
            recovery_threads: 1,
            read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
        };
        let now = shell.now();
        let (logs, _) = Logs::open(disk, dir, identity, logs_config, now.wall).expect("a good directory");
        let mut properties = config::BrokerConfig::empty();
        for (key, value) in settings {
            properties.set(key, value).expect("a setting that there is");
        }
        let advertised = AdvertisedListener { listener: "PLAINTEXT".into(), host: "127.0.0.1".into(), port: 9092 };
        let config =
            BrokerConfig { properties: Arc::new(properties), advertised: vec![advertised], hash_seed: HashSeed(0) };
        let broker = Broker::open(config, logs, Box::new(AllowAll), shell.clone(), 7, now).expect("good logs");
        let connection = broker.connected(([127, 0, 0, 1], 5000).into(), "PLAINTEXT");
        Self { broker, shell, connection, slot: 0 }
    }

    pub(crate) fn frame<R: Request<'static>>(&self, request: &R, version: i16) -> Bytes {
        let mut frame = Vec::new();
        let header = RequestHeader {
            api_key: R::API_KEY.code(),
            api_version: version,
            client_id: Some("steady".into()),
            ..Default::default()
        };
        header.encode(&mut frame).expect("a header fits");
        request.encode(&mut frame, version).expect("the request fits its version");
        frame.into()
    }

    pub(crate) fn handle(&mut self, frame: Bytes) {
        let now = self.shell.now();
        self.broker.handle(now, &self.connection, self.slot, frame).expect("a served request");
        self.slot += 1;
    }

    pub(crate) fn run_jobs(&self) {
        while let Some(job) = { self.shell.jobs.lock().expect("one thread").pop_front() } {
            job();
        }
    }

    /// The last reply, in one piece.
    pub(crate) fn reply(&self) -> Bytes {
        let reply = self.shell.reply.lock().expect("one thread").clone();
        reply.and_then(Reply::body).unwrap_or_default()
    }

    pub(crate) fn create_topic(&mut self, partitions: usize) {
        let topic = CreatableTopic {
            name: TOPIC.into(),
            num_partitions: partitions as i32,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        self.handle(self.frame(&request, 7));
        self.run_jobs();
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.shell.now_ms.fetch_add(ms, Ordering::Relaxed);
        self.broker.on_time(self.shell.now());
        self.run_jobs();
    }

    /// Sends a heartbeat, which must succeed; returns the answer's bytes.
    pub(crate) fn heartbeat(&mut self, request: &StreamsGroupHeartbeatRequest<'static>) -> Bytes {
        self.handle(self.frame(request, HEARTBEAT));
        self.run_jobs();
        let bytes = self.reply();
        let response = answer(&bytes);
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        bytes
    }

    /// One heartbeat of a member that joins, or reports what it was given.
    pub(crate) fn converge(&mut self, member: &mut Member) {
        self.pass(1);
        let mut request = member.steady();
        if member.epoch == 0 {
            let subtopology = heartbeat::Subtopology {
                subtopology_id: "0".into(),
                source_topics: vec![TOPIC.into()],
                ..Default::default()
            };
            request.topology = Some(heartbeat::Topology {
                epoch: member.topology_epoch,
                subtopologies: vec![subtopology],
                ..Default::default()
            });
            request.rebalance_timeout_ms = 300_000;
            request.process_id = Some(member.id.clone().into());
            request.client_tags = Some(Vec::new());
            request.endpoint_information_epoch = -1;
        }
        request.active_tasks = member.owned.clone();
        request.standby_tasks = Some(Vec::new());
        request.warmup_tasks = Some(Vec::new());
        let bytes = self.heartbeat(&request);
        let response = answer(&bytes);
        member.settled = response.member_epoch == member.epoch && response.active_tasks.is_none();
        member.epoch = response.member_epoch;
        if let Some(tasks) = response.active_tasks {
            let owned = tasks.into_iter().map(|tasks| heartbeat::TaskIds {
                subtopology_id: tasks.subtopology_id.into_owned().into(),
                partitions: tasks.partitions,
                ..Default::default()
            });
            member.owned = Some(owned.collect());
        }
    }
}

fn answer(bytes: &[u8]) -> StreamsGroupHeartbeatResponse<'_> {
    let mut reader = Reader::new(bytes);
    ResponseHeader::decode(&mut reader, StreamsGroupHeartbeatRequest::API_KEY, HEARTBEAT).expect("a header");
    StreamsGroupHeartbeatResponse::decode(&mut reader, HEARTBEAT).expect("a response")
}
