//! The broker over a disk in memory: requests in, replies out.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicU64, atomic::Ordering},
};

use bytes::Bytes;
use riparian_log::{Disk, FlushMode, FsDisk, Identity, LogConfig, Logs, LogsConfig, MemDisk, MemFaults};
use riparian_metadata::config;
use riparian_protocol::{
    Message, Request, RequestHeader, ResponseHeader,
    messages::{
        CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest,
        StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest,
        create_topics_request::CreatableTopic,
        delete_topics_request::DeleteTopicState,
        fetch_request::{FetchPartition, FetchTopic},
        metadata_request::MetadataRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
        streams_group_heartbeat_request as heartbeat,
    },
};
use riparian_records::{BatchBuilder, BatchOptions, batches};
use riparian_types::{HashSeed, MonoMillis, NodeId, Now, Uuid, WallMillis};
use riparian_wire::Reader;

use crate::{
    AdvertisedListener, AllowAll, Broker, BrokerConfig, Connection, ConnectionId, Job, OpenError, Piece, Reply, Shell,
};

mod field_cases;
mod group_waits;
mod offsets;
mod order;
mod telemetry;
mod waiting;

/// A shell whose jobs run when the test says so.
#[derive(Default)]
struct TestShell {
    now_ms: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    replies: Mutex<BTreeMap<(ConnectionId, u64), Reply>>,
}

impl TestShell {
    fn now(&self) -> Now {
        let ms = self.now_ms.load(Ordering::Relaxed);
        Now { mono: MonoMillis(ms), wall: WallMillis(1_700_000_000_000 + ms as i64) }
    }

    fn run_jobs(&self) {
        loop {
            let Some(job) = self.jobs.lock().unwrap().pop_front() else { return };
            job();
        }
    }
}

impl Shell for TestShell {
    fn now(&self) -> Now {
        self.now()
    }

    fn micros(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed) * 1000
    }

    fn complete(&self, connection: ConnectionId, slot: u64, reply: Reply) {
        let before = self.replies.lock().unwrap().insert((connection, slot), reply);
        assert!(before.is_none(), "slot {slot} was answered twice");
    }

    fn wake_at(&self, _: MonoMillis) {}

    fn spawn(&self, job: Job) {
        self.jobs.lock().unwrap().push_back(job);
    }
}

struct Server {
    broker: Arc<Broker>,
    shell: Arc<TestShell>,
    connection: Arc<Connection>,
    slot: u64,
}

impl Server {
    fn start(disk: &Arc<MemDisk>) -> Self {
        Self::start_with(disk, &[])
    }

    fn start_with(disk: &Arc<MemDisk>, properties: &[(&str, &str)]) -> Self {
        Self::start_flushing(disk, FlushMode::Sync, properties)
    }

    fn start_flushing(disk: &Arc<MemDisk>, flush: FlushMode, properties: &[(&str, &str)]) -> Self {
        Self::open(disk, flush, properties).unwrap()
    }

    fn open(disk: &Arc<MemDisk>, flush: FlushMode, properties: &[(&str, &str)]) -> Result<Self, OpenError> {
        let disk: Arc<dyn Disk> = disk.clone();
        Self::open_at(disk, Path::new("/data"), flush, properties)
    }

    fn open_at(
        disk: Arc<dyn Disk>,
        root: &Path,
        flush: FlushMode,
        properties: &[(&str, &str)],
    ) -> Result<Self, OpenError> {
        let shell = Arc::new(TestShell::default());
        let identity = Identity {
            node_id: NodeId(1),
            cluster_id: None,
            new_cluster_id: "test".into(),
            new_directory_id: Uuid::from_random(1, 2),
        };
        let logs_config = LogsConfig {
            flush,
            producer_expiration_ms: 86_400_000,
            topic_defaults: LogConfig::KAFKA,
            recovery_threads: 1,
            read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
        };
        let now = shell.now();
        let (logs, _) = Logs::open(disk, root, identity, logs_config, now.wall).unwrap();
        let mut config = config::BrokerConfig::empty();
        config.set("offsets.topic.num.partitions", "4").unwrap();
        for (key, value) in properties {
            config.set(key, value).unwrap();
        }
        let listener = AdvertisedListener { listener: "PLAINTEXT".into(), host: "127.0.0.1".into(), port: 9092 };
        let config = BrokerConfig { properties: Arc::new(config), advertised: vec![listener], hash_seed: HashSeed(0) };
        let broker = Broker::open(config, logs, Box::new(AllowAll), shell.clone(), 7, now)?;
        let connection = broker.connected("127.0.0.1:5000".parse().unwrap(), "PLAINTEXT");
        Ok(Self { broker, shell, connection, slot: 0 })
    }

    /// Sends a request and returns its slot.
    fn send<R: Request<'static>>(&mut self, request: &R, version: i16) -> u64 {
        let slot = self.send_unsettled(request, version);
        self.broker.settle(self.shell.now(), &self.connection);
        slot
    }

    /// As [`Server::send`], of one of several requests at hand.
    fn send_unsettled<R: Request<'static>>(&mut self, request: &R, version: i16) -> u64 {
        let mut frame = Vec::new();
        let header = RequestHeader {
            api_key: R::API_KEY.code(),
            api_version: version,
            correlation_id: self.slot as i32,
            client_id: Some("test".into()),
            ..Default::default()
        };
        header.encode(&mut frame).unwrap();
        request.encode(&mut frame, version).unwrap();
        let slot = self.slot;
        self.slot += 1;
        self.broker.handle_unsettled(self.shell.now(), &self.connection, slot, frame.into()).unwrap();
        slot
    }

    fn reply(&self, slot: u64) -> Option<Bytes> {
        match self.shell.replies.lock().unwrap().remove(&(self.connection.id(), slot))? {
            reply @ Reply::Frame { .. } => reply.body(),
            other => panic!("{other:?}"),
        }
    }

    fn decode<'a, R: Request<'static>>(bytes: &'a Bytes, version: i16) -> R::Response<'a> {
        let mut reader = Reader::new(bytes);
        ResponseHeader::decode(&mut reader, R::API_KEY, version).unwrap();
        let response = R::Response::decode(&mut reader, version).unwrap();
        reader.finish().unwrap();
        response
    }

    /// Sends a request, runs all jobs, and calls `look` with the response.
    fn ask<R: Request<'static>, T>(
        &mut self,
        request: &R,
        version: i16,
        look: impl for<'a> FnOnce(R::Response<'a>) -> T,
    ) -> T {
        let slot = self.send(request, version);
        self.shell.run_jobs();
        let bytes = self.reply(slot).expect("a reply");
        look(Self::decode::<R>(&bytes, version))
    }

    fn create_topic(&mut self, name: &'static str, partitions: i32) {
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let (code, is_silent) = self.ask(&request, 7, |response| {
            let topic = &response.topics[0];
            (topic.error_code, topic.error_message.is_none())
        });
        assert!(code == 0 && is_silent, "{name}");
    }
}

fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    for value in values {
        builder.push(WallMillis(1_700_000_000_000), None, Some(value.as_bytes()));
    }
    builder.build()
}

fn produce(topic: &'static str, values: &[&str]) -> ProduceRequest<'static> {
    let partition = PartitionProduceData { index: 0, records: Some(batch(values).into()), ..Default::default() };
    let topic = TopicProduceData { name: topic.into(), partition_data: vec![partition], ..Default::default() };
    ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() }
}

fn fetch(topic: &'static str, from: i64, wait_ms: i32) -> FetchRequest<'static> {
    let partition = FetchPartition {
        partition: 0,
        fetch_offset: from,
        partition_max_bytes: 1 << 20,
        current_leader_epoch: -1,
        ..Default::default()
    };
    let topic = FetchTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() };
    FetchRequest { max_wait_ms: wait_ms, min_bytes: 1, max_bytes: 1 << 20, topics: vec![topic], ..Default::default() }
}

fn values(records: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for batch in batches(records) {
        let records = batch.unwrap().records().unwrap();
        found.extend(records.iter().map(|r| String::from_utf8(r.unwrap().value.unwrap().to_vec()).unwrap()));
    }
    found
}

#[test]
fn what_is_produced_can_be_fetched_before_and_after_a_restart() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 2);
    let base = server.ask(&produce("t", &["a", "b"]), 9, |r| r.responses[0].partition_responses[0].base_offset);
    assert_eq!(base, 0);
    let found = server.ask(&fetch("t", 0, 0), 12, |r| values(r.responses[0].partitions[0].records.as_ref().unwrap()));
    assert_eq!(found, ["a", "b"]);
    drop(server);
    let mut server = Server::start(&disk);
    let found = server.ask(&fetch("t", 1, 0), 12, |r| values(r.responses[0].partitions[0].records.as_ref().unwrap()));
    assert_eq!(found, ["a", "b"], "whole batches");
}

#[test]
fn a_produce_is_answered_only_when_durable() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let slot = server.send(&produce("t", &["a"]), 9);
    assert_eq!(server.reply(slot), None);
    let hidden = server.send(&fetch("t", 0, 0), 12);
    let bytes = server.reply(hidden).unwrap();
    assert_eq!(Server::decode::<FetchRequest<'_>>(&bytes, 12).responses[0].partitions[0].high_watermark, 0);
    server.shell.run_jobs();
    assert!(server.reply(slot).is_some());
}

#[test]
fn a_fetch_waits_for_records() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let waiting = server.send(&fetch("t", 0, 500), 12);
    server.shell.run_jobs();
    assert_eq!(server.reply(waiting), None);
    server.ask(&produce("t", &["x"]), 9, |_| ());
    let bytes = server.reply(waiting).expect("woken by the produce");
    let response = Server::decode::<FetchRequest<'_>>(&bytes, 12);
    assert_eq!(values(response.responses[0].partitions[0].records.as_ref().unwrap()), ["x"]);
    // Without records it is answered at its deadline.
    let waiting = server.send(&fetch("t", 1, 500), 12);
    server.shell.now_ms.store(499, Ordering::Relaxed);
    server.broker.on_time(server.shell.now());
    assert_eq!(server.reply(waiting), None);
    server.shell.now_ms.store(500, Ordering::Relaxed);
    server.broker.on_time(server.shell.now());
    assert!(server.reply(waiting).is_some());
}

#[test]
fn a_fetch_that_waits_hears_of_its_topic_being_deleted() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let waiting = server.send(&fetch("t", 0, 500), 12);
    let topic = DeleteTopicState { name: Some("t".into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![topic], ..Default::default() };
    assert_eq!(server.ask(&request, 6, |r| r.responses[0].error_code), 0);
    let bytes = server.reply(waiting).expect("woken by the deletion");
    assert_eq!(Server::decode::<FetchRequest<'_>>(&bytes, 12).responses[0].partitions[0].error_code, 3);
    // A topic of the same name starts anew.
    server.create_topic("t", 1);
    assert_eq!(server.ask(&produce("t", &["y"]), 9, |r| r.responses[0].partition_responses[0].base_offset), 0);
}

#[test]
fn a_missing_topic_is_created_when_its_metadata_is_asked_for() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    let topic = || MetadataRequestTopic { name: Some("new".into()), ..Default::default() };
    let mut request = MetadataRequest { topics: Some(vec![topic()]), ..Default::default() };
    request.allow_auto_topic_creation = false;
    assert_eq!(server.ask(&request, 12, |r| r.topics[0].error_code), 3);
    request.allow_auto_topic_creation = true;
    assert_eq!(server.ask(&request, 12, |r| (r.topics[0].error_code, r.topics[0].partitions.len())), (0, 1));
}

#[test]
fn producer_ids_are_never_given_twice() {
    let disk = Arc::new(MemDisk::new());
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut server = Server::start(&disk);
        for _ in 0..3 {
            let request =
                InitProducerIdRequest { transactional_id: None, transaction_timeout_ms: 1, ..Default::default() };
            ids.push(server.ask(&request, 4, |r| (r.error_code, r.producer_id)));
        }
    }
    let before = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), before);
    assert!(ids.iter().all(|(code, _)| *code == 0), "{ids:?}");
}

fn join(member: &'static str) -> StreamsGroupHeartbeatRequest<'static> {
    let subtopology = heartbeat::Subtopology {
        subtopology_id: "0".into(),
        source_topics: vec!["words".into()],
        state_changelog_topics: vec![heartbeat::TopicInfo {
            name: "app-store-changelog".into(),
            replication_factor: -1,
            ..Default::default()
        }],
        ..Default::default()
    };
    StreamsGroupHeartbeatRequest {
        group_id: "app".into(),
        member_id: member.into(),
        endpoint_information_epoch: -1,
        rebalance_timeout_ms: 30_000,
        process_id: Some("p".into()),
        topology: Some(heartbeat::Topology { subtopologies: vec![subtopology], ..Default::default() }),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        client_tags: Some(Vec::new()),
        ..Default::default()
    }
}

#[test]
fn a_streams_member_joins_gets_tasks_and_keeps_them_over_a_restart() {
    let disk = Arc::new(MemDisk::new());
    let settings = [("group.streams.initial.rebalance.delay.ms", "0"), ("group.streams.assignment.interval.ms", "0")];
    let mut server = Server::start_with(&disk, &settings);
    server.create_topic("words", 3);
    // The changelog is missing at first and is created.
    let (code, epoch) = server.ask(&join("m"), 1, |r| (r.error_code, r.member_epoch));
    assert_eq!(code, 0);
    let steady = |epoch| StreamsGroupHeartbeatRequest {
        group_id: "app".into(),
        member_id: "m".into(),
        member_epoch: epoch,
        ..Default::default()
    };
    let (epoch, tasks) = server.ask(&steady(epoch), 1, |r| {
        assert_eq!(r.error_code, 0, "{:?}", r.error_message);
        let tasks = r.active_tasks.map(|tasks| tasks.iter().flat_map(|t| t.partitions.clone()).collect::<Vec<_>>());
        (r.member_epoch, tasks)
    });
    assert_eq!(tasks, Some(vec![0, 1, 2]));
    drop(server);
    let mut server = Server::start_with(&disk, &settings);
    let after = server.ask(&steady(epoch), 1, |r| (r.error_code, r.member_epoch, r.active_tasks.is_none()));
    assert_eq!(after, (0, epoch, true));
}

#[test]
fn records_outlive_the_metadata() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    server.ask(&produce("t", &["precious"]), 9, |_| ());
    drop(server);
    let metadata = Path::new("/data/__cluster_metadata-0/00000000000000000000.log");
    // The last batch tells of the topic.
    let last = |bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1;
    disk.tamper(metadata, last).unwrap();
    let mut server = Server::start(&disk);
    let aside = disk.list(Path::new("/data")).unwrap().into_iter().find(|entry| entry.name.ends_with("-stray"));
    let aside = Path::new("/data").join(aside.expect("the records are put aside").name);
    let bytes = disk.read_file(&aside.join("00000000000000000000.log")).unwrap().unwrap();
    assert!(bytes.windows(8).any(|window| window == b"precious"));
    // The name is free again.
    server.create_topic("t", 1);
    assert_eq!(server.ask(&produce("t", &["y"]), 9, |r| r.responses[0].partition_responses[0].base_offset), 0);
}

#[test]
fn a_directory_that_lost_its_metadata_is_not_taken_for_a_new_one() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    server.ask(&produce("t", &["precious"]), 9, |_| ());
    drop(server);
    disk.remove_dir_all(Path::new("/data/__cluster_metadata-0")).unwrap();
    let error = Server::open(&disk, FlushMode::Sync, &[]).err().expect("a refusal").to_string();
    assert!(error.contains("__cluster_metadata can't be loaded: it is empty or gone"), "{error}");
    assert!(error.contains("(t, ...)"), "{error}");
}

#[test]
fn streams_groups_are_refused_where_they_are_switched_off() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &[("group.coordinator.rebalance.protocols", "classic")]);
    server.create_topic("words", 1);
    assert_eq!(server.ask(&join("m"), 1, |r| r.error_code), 35, "UNSUPPORTED_VERSION");
    let request = StreamsGroupDescribeRequest { group_ids: vec!["app".into(), "".into()], ..Default::default() };
    let codes: Vec<_> = server.ask(&request, 0, |r| r.groups.iter().map(|group| group.error_code).collect());
    assert_eq!(codes, [35, 35]);
}

#[test]
fn a_failed_sync_fails_the_produce_and_loses_nothing_acknowledged() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    server.ask(&produce("t", &["kept"]), 9, |_| ());
    disk.set_faults(MemFaults { sync_fails: true, ..MemFaults::default() });
    let slot = server.send(&produce("t", &["lost"]), 9);
    server.shell.run_jobs();
    let bytes = server.reply(slot).expect("a refusal");
    let code = Server::decode::<ProduceRequest<'_>>(&bytes, 9).responses[0].partition_responses[0].error_code;
    assert_eq!(code, 56, "KAFKA_STORAGE_ERROR");
    disk.set_faults(MemFaults::default());
    let mut base = -1;
    for _ in 0..3 {
        // The first try may find the log closed and open it again.
        base = server.ask(&produce("t", &["again"]), 9, |r| r.responses[0].partition_responses[0].base_offset);
        if base >= 0 {
            break;
        }
    }
    assert_eq!(base, 1);
    let found = server.ask(&fetch("t", 0, 0), 12, |r| values(r.responses[0].partitions[0].records.as_ref().unwrap()));
    assert_eq!(found, ["kept", "again"]);
}
