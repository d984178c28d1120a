//! Brings the broker into a steady state and then sends it requests of one kind, without sockets, disk or threads.
//!
//! ```text
//! paths heartbeat MEMBERS COUNT    of a streams group with twice as many tasks; nothing changes
//! paths produce COUNT              a batch of ten records of 100 bytes
//! paths fetch COUNT                such a batch
//! ```
//!
//! It is run under callgrind by `cargo xtask test instructions`, which counts what happens inside
//! [`measured_path`] and nothing else. The server must not depend on luck here, so that two runs count the same.

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
        CreateTopicsRequest, FetchRequest, FetchResponse, ProduceRequest, ProduceResponse,
        StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
        create_topics_request::CreatableTopic,
        fetch_request::{FetchPartition, FetchTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        streams_group_heartbeat_request as heartbeat,
    },
};
use riparian_records::{BatchBuilder, BatchOptions};
use riparian_types::{MonoMillis, NodeId, Now, Uuid, WallMillis};
use riparian_wire::Reader;

const HEARTBEAT: i16 = 1;
/// The last versions that name topics.
const PRODUCE: i16 = 12;
const FETCH: i16 = 12;
const TOPIC: &str = "input";
const START_MS: i64 = 1_700_000_000_000;

#[derive(Default)]
struct OneThread {
    now_ms: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    reply: Mutex<Vec<Bytes>>,
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
        if let Reply::Parts(parts) = reply {
            *self.reply.lock().expect("one thread") = parts;
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().unwrap_or_else(|_| usage());
    match words[..] {
        ["heartbeat", members, count] => heartbeats(number(members), number(count)),
        ["produce", count] => produces(number(count)),
        ["fetch", count] => fetches(number(count)),
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: paths heartbeat MEMBERS COUNT | produce COUNT | fetch COUNT");
    std::process::exit(2)
}

/// What is counted: frames are made before, so that it is the server's work alone.
#[inline(never)]
fn measured_path(harness: &mut Harness, frames: &[Bytes], count: usize) {
    for n in 0..count {
        harness.handle(frames[n % frames.len()].clone());
    }
}

fn heartbeats(members: usize, count: usize) {
    let mut harness = Harness::new();
    harness.create_topic(members * 2);
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
    let frames: Vec<Bytes> = members.iter().map(|member| harness.frame(&steady(member), HEARTBEAT)).collect();
    measured_path(&mut harness, &frames, count);
}

fn produces(count: usize) {
    let mut harness = Harness::new();
    harness.create_topic(1);
    let frame = harness.frame(&produce(), PRODUCE);
    harness.handle(frame.clone());
    harness.check_produced();
    measured_path(&mut harness, &[frame], count);
    harness.check_produced();
}

fn fetches(count: usize) {
    let mut harness = Harness::new();
    harness.create_topic(1);
    harness.handle(harness.frame(&produce(), PRODUCE));
    harness.check_produced();
    let partition = FetchPartition {
        partition: 0,
        current_leader_epoch: -1,
        fetch_offset: 0,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let request = FetchRequest {
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic { topic: TOPIC.into(), partitions: vec![partition], ..FetchTopic::default() }],
        ..FetchRequest::default()
    };
    let frame = harness.frame(&request, FETCH);
    harness.handle(frame.clone());
    harness.check_fetched();
    measured_path(&mut harness, &[frame], count);
    harness.check_fetched();
}

fn produce() -> ProduceRequest<'static> {
    let mut batch = BatchBuilder::new(BatchOptions::PLAIN);
    for _ in 0..10 {
        batch.push(WallMillis(START_MS), None, Some(&[b'x'; 100]));
    }
    let data =
        PartitionProduceData { index: 0, records: Some(batch.build().into()), ..PartitionProduceData::default() };
    let topic = TopicProduceData { name: TOPIC.into(), partition_data: vec![data], ..TopicProduceData::default() };
    ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![topic], ..ProduceRequest::default() }
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

    /// The last reply, in one piece.
    fn reply(&self) -> Vec<u8> {
        self.shell.reply.lock().expect("one thread").concat()
    }

    fn check_produced(&self) {
        let bytes = self.reply();
        let mut reader = Reader::new(&bytes);
        ResponseHeader::decode(&mut reader, ProduceRequest::API_KEY, PRODUCE).expect("a header");
        let response = ProduceResponse::decode(&mut reader, PRODUCE).expect("a response");
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0, "{response:?}");
    }

    fn check_fetched(&self) {
        let bytes = self.reply();
        let mut reader = Reader::new(&bytes);
        ResponseHeader::decode(&mut reader, FetchRequest::API_KEY, FETCH).expect("a header");
        let response = FetchResponse::decode(&mut reader, FETCH).expect("a response");
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0, "{response:?}");
        assert!(partition.records.as_ref().is_some_and(|records| records.len() > 1000), "{response:?}");
    }

    fn create_topic(&mut self, partitions: usize) {
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
                source_topics: vec![TOPIC.into()],
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
        self.handle(self.frame(&request, HEARTBEAT));
        self.run_jobs();
        let bytes = self.reply();
        let mut reader = Reader::new(&bytes);
        ResponseHeader::decode(&mut reader, StreamsGroupHeartbeatRequest::API_KEY, HEARTBEAT).expect("a header");
        let response = StreamsGroupHeartbeatResponse::decode(&mut reader, HEARTBEAT).expect("a response");
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
