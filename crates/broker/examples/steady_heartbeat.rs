//! Brings a streams group of some size into its steady state and then sends heartbeats that change nothing.
//!
//! ```text
//! steady_heartbeat MEMBERS TASKS HEARTBEATS
//! ```
//!
//! It is run under an instruction counter by `cargo xtask test`: the difference between two runs with different numbers
//! of heartbeats is the cost of heartbeats alone.

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
use riparian_log::{FlushMode, Identity, LogConfig, Logs, LogsConfig, MemDisk};
use riparian_metadata::config;
use riparian_protocol::{
    Request, RequestHeader, ResponseHeader,
    messages::{
        CreateTopicsRequest, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
        create_topics_request::CreatableTopic, streams_group_heartbeat_request as heartbeat,
    },
};
use riparian_types::{MonoMillis, NodeId, Now, Uuid, WallMillis};
use riparian_wire::Reader;

const VERSION: i16 = 1;

#[derive(Default)]
struct OneThread {
    now_ms: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    reply: Mutex<Option<Bytes>>,
}

impl Shell for OneThread {
    fn now(&self) -> Now {
        let ms = self.now_ms.load(Ordering::Relaxed);
        Now { mono: MonoMillis(ms), wall: WallMillis(1_700_000_000_000 + ms as i64) }
    }

    fn micros(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed) * 1000
    }

    fn complete(&self, _: ConnectionId, _: u64, reply: Reply) {
        if let Reply::Parts(mut parts) = reply {
            *self.reply.lock().expect("one thread") = parts.pop();
        }
    }

    fn wake_at(&self, _: MonoMillis) {}

    fn spawn(&self, job: Job) {
        self.jobs.lock().expect("one thread").push_back(job);
    }
}

struct Harness {
    broker: Arc<Broker>,
    shell: Arc<OneThread>,
    connection: Arc<Connection>,
    slot: u64,
}

struct Member {
    id: String,
    epoch: i32,
    owned: Option<Vec<heartbeat::TaskIds<'static>>>,
    settled: bool,
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [members, tasks, heartbeats] = numbers[..] else {
        eprintln!("usage: steady_heartbeat MEMBERS TASKS HEARTBEATS");
        std::process::exit(2);
    };
    let mut harness = Harness::new();
    harness.create_topic(tasks);
    let mut members: Vec<Member> = (0..members)
        .map(|n| Member { id: format!("member-{n:05}"), epoch: 0, owned: Some(Vec::new()), settled: false })
        .collect();
    for member in &mut members {
        harness.converge(member);
    }
    harness.end_delay();
    let mut rounds = 0;
    while !members.iter().all(|member| member.settled) {
        rounds += 1;
        assert!(rounds < 20, "the group does not settle");
        for member in &mut members {
            harness.converge(member);
        }
    }
    // Frames are made before, so that only the server's work is counted.
    let frames: Vec<Bytes> = members.iter().map(|member| harness.frame(&steady(member), VERSION)).collect();
    for n in 0..heartbeats {
        harness.handle(frames[n % frames.len()].clone());
    }
}

fn steady(member: &Member) -> StreamsGroupHeartbeatRequest<'static> {
    StreamsGroupHeartbeatRequest {
        group_id: "app".into(),
        member_id: member.id.clone().into(),
        member_epoch: member.epoch,
        ..Default::default()
    }
}

impl Harness {
    fn new() -> Self {
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
        let disk = Arc::new(MemDisk::new());
        let (logs, _) = Logs::open(disk, Path::new("/data"), identity, logs_config, now.wall).expect("an empty disk");
        // All members join during the initial rebalance delay (3 s), so that one assignment does for all.
        let properties = config::BrokerConfig::empty();
        let advertised = AdvertisedListener { listener: "PLAINTEXT".into(), host: "127.0.0.1".into(), port: 9092 };
        let config = BrokerConfig { properties: Arc::new(properties), advertised: vec![advertised] };
        let broker = Broker::open(config, logs, Box::new(AllowAll), shell.clone(), 7, now).expect("an empty log");
        let connection = broker.connected(([127, 0, 0, 1], 5000).into(), "PLAINTEXT");
        Self { broker, shell, connection, slot: 0 }
    }

    fn frame<R: Request<'static>>(&self, request: &R, version: i16) -> Bytes {
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

    fn handle(&mut self, frame: Bytes) {
        let now = self.shell.now();
        self.broker.handle(now, &self.connection, self.slot, frame).expect("a served request");
        self.slot += 1;
    }

    fn run_jobs(&self) {
        while let Some(job) = { self.shell.jobs.lock().expect("one thread").pop_front() } {
            job();
        }
    }

    fn create_topic(&mut self, partitions: usize) {
        let topic = CreatableTopic {
            name: "input".into(),
            num_partitions: partitions as i32,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        self.handle(self.frame(&request, 7));
        self.run_jobs();
    }

    /// Lets the initial rebalance delay pass.
    fn end_delay(&mut self) {
        self.shell.now_ms.fetch_add(3000, Ordering::Relaxed);
        self.broker.on_time(self.shell.now());
        self.run_jobs();
    }

    /// One heartbeat of a member that joins, or reports what it was given.
    fn converge(&mut self, member: &mut Member) {
        self.shell.now_ms.fetch_add(1, Ordering::Relaxed);
        let mut request = steady(member);
        if member.epoch == 0 {
            let subtopology = heartbeat::Subtopology {
                subtopology_id: "0".into(),
                source_topics: vec!["input".into()],
                ..Default::default()
            };
            request.topology = Some(heartbeat::Topology { subtopologies: vec![subtopology], ..Default::default() });
            request.rebalance_timeout_ms = 300_000;
            request.process_id = Some(member.id.clone().into());
            request.client_tags = Some(Vec::new());
            request.endpoint_information_epoch = -1;
        }
        request.active_tasks = member.owned.clone();
        request.standby_tasks = Some(Vec::new());
        request.warmup_tasks = Some(Vec::new());
        self.handle(self.frame(&request, VERSION));
        self.run_jobs();
        let bytes = self.shell.reply.lock().expect("one thread").take().expect("a reply");
        let mut reader = Reader::new(&bytes);
        ResponseHeader::decode(&mut reader, StreamsGroupHeartbeatRequest::API_KEY, VERSION).expect("a header");
        let response = StreamsGroupHeartbeatResponse::decode(&mut reader, VERSION).expect("a response");
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
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
