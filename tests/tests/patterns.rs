//! Source topics by pattern where there are many of them: whoever has no part in it notices nothing.
//!
//! A wait alone proves nothing on a machine that does other things as well. So a member of the same kind speaks to another
//! server meanwhile, which has nothing to do: what that one has to wait for is the machine's doing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use riparian_protocol::{
    RequestHeader, ResponseHeader,
    messages::{
        StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, streams_group_heartbeat_request as heartbeat,
    },
};
use riparian_tests::{Connection, Server, create_topics};
use riparian_wire::Reader;

const TOPICS: usize = 10_000;
/// How long the names are, beside what tells them apart.
const NAME_LENGTH: usize = 200;
const NEW_TOPICS: usize = 100;
const GROUPS: usize = 20;
const LIMIT: Duration = Duration::from_secs(60);
/// How long the neighbour may wait for an answer, and what it may wait in addition for each time that the other one did.
const WAIT_MAX: Duration = Duration::from_millis(100);
const AS_LONG_AGAIN: u32 = 3;
/// All groups are in one shard.
const SETTINGS: &[(&str, &str)] = &[
    ("offsets.topic.num.partitions", "1"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("riparian.pattern.matches.max", "1000000"),
];

struct Member {
    group: String,
    epoch: i32,
    /// How many tasks it was given, and those lists.
    tasks: Vec<heartbeat::TaskIds<'static>>,
    has_news: bool,
    sources: heartbeat::Subtopology<'static>,
}

impl Member {
    fn new(group: String, sources: heartbeat::Subtopology<'static>) -> Self {
        Self { group, epoch: 0, tasks: Vec::new(), has_news: false, sources }
    }

    /// A heartbeat; says how long its answer took.
    fn beat(&mut self, connection: &mut Connection) -> Duration {
        let mut request = StreamsGroupHeartbeatRequest {
            group_id: self.group.clone().into(),
            member_id: "a-member-of-this-group".into(),
            member_epoch: self.epoch,
            endpoint_information_epoch: -1,
            ..Default::default()
        };
        if self.epoch == 0 {
            request.rebalance_timeout_ms = 300_000;
            request.process_id = Some("a-process".into());
            request.client_tags = Some(Vec::new());
            request.topology =
                Some(heartbeat::Topology { subtopologies: vec![self.sources.clone()], ..Default::default() });
        } else {
            request.rebalance_timeout_ms = -1;
        }
        if self.epoch == 0 || std::mem::take(&mut self.has_news) {
            request.active_tasks = Some(self.tasks.clone());
            request.standby_tasks = Some(Vec::new());
            request.warmup_tasks = Some(Vec::new());
        }
        let mut frame = Vec::new();
        let (api_key, client_id) = (StreamsGroupHeartbeatRequest::API_KEY as i16, Some("patterns".into()));
        let header = RequestHeader { api_key, api_version: 1, correlation_id: 7, client_id, ..Default::default() };
        header.encode(&mut frame).expect("a header can be written");
        request.encode(&mut frame, 1).expect("the values fit");
        let sent = Instant::now();
        connection.send_frame(&frame);
        let answer = connection.read_frame().expect("the server goes on");
        let took = sent.elapsed();
        let mut reader = Reader::new(&answer);
        ResponseHeader::decode(&mut reader, StreamsGroupHeartbeatRequest::API_KEY, 1).expect("a header");
        let response = StreamsGroupHeartbeatResponse::decode(&mut reader, 1).expect("an answer to a heartbeat");
        assert_eq!(response.error_code, 0, "{}: {:?}", self.group, response.error_message);
        self.epoch = response.member_epoch;
        if let Some(tasks) = &response.active_tasks {
            let own = tasks.iter().map(|it| heartbeat::TaskIds {
                subtopology_id: it.subtopology_id.clone().into_owned().into(),
                partitions: it.partitions.clone(),
                ..Default::default()
            });
            self.tasks = own.collect();
            self.has_news = true;
        }
        took
    }

    fn task_count(&self) -> usize {
        self.tasks.iter().map(|it| it.partitions.len()).sum()
    }
}

/// Letters in no order.
fn filler(luck: &mut u64) -> String {
    let mut letter = || {
        *luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"xyabc"[(*luck >> 33) as usize % 5])
    };
    (0..NAME_LENGTH).map(|_| letter()).collect()
}

fn by_name(name: &str) -> heartbeat::Subtopology<'static> {
    let source_topics = vec![name.to_owned().into()];
    heartbeat::Subtopology { subtopology_id: "0".into(), source_topics, ..Default::default() }
}

fn by_pattern(pattern: &str) -> heartbeat::Subtopology<'static> {
    let source_topic_regex = vec![pattern.to_owned().into()];
    heartbeat::Subtopology { subtopology_id: "0".into(), source_topic_regex, ..Default::default() }
}

/// A member of another group, on a thread of its own: reports every few milliseconds until it is told to stop, and gives
/// back when it sent and how long it waited.
struct Neighbour {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<(Instant, Duration)>>,
}

impl Neighbour {
    fn start(port: u16) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut connection = Connection::open(port);
            let mut member = Member::new("neighbour".to_owned(), by_name("other"));
            let mut waits = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let sent = Instant::now();
                waits.push((sent, member.beat(&mut connection)));
                // Its pace, not a wait for anything.
                std::thread::sleep(Duration::from_millis(2));
            }
            waits
        });
        Self { is_over, thread }
    }

    fn end(self) -> Vec<(Instant, Duration)> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the neighbour is never refused")
    }
}

/// Until every group has one task for each partition of its widest topic.
fn rest(members: &mut [Member], connection: &mut Connection, tasks: usize) {
    let started = Instant::now();
    loop {
        members.iter_mut().for_each(|member| {
            member.beat(connection);
        });
        if members.iter().all(|member| !member.has_news && member.task_count() == tasks) {
            return;
        }
        let counts: Vec<_> = members.iter().map(Member::task_count).collect();
        assert!(started.elapsed() < LIMIT, "tasks instead of {tasks}: {counts:?}");
    }
}

#[test]
fn neighbours_of_groups_that_read_ten_thousand_topics_by_pattern_are_answered() {
    let server = Server::start(SETTINGS);
    let idle = Server::start(SETTINGS);
    for server in [&server, &idle] {
        create_topics(server.port(), &["other"], 1);
    }
    let mut luck = 1_u64;
    let names: Vec<String> = (0..TOPICS).map(|number| format!("topic-{number:05}-{}", filler(&mut luck))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for some in names.chunks(1_000) {
        create_topics(server.port(), some, 1);
    }
    let (neighbour, other) = (Neighbour::start(server.port()), Neighbour::start(idle.port()));
    let mut connection = Connection::open(server.port());
    let mut phases = vec![("joins", Instant::now())];
    let group = |number| Member::new(format!("reader-{number}"), by_pattern("topic-.*"));
    let mut members: Vec<Member> = (0..GROUPS).map(group).collect();
    rest(&mut members, &mut connection, 1);
    phases.push(("costly joins", Instant::now()));
    // Its automaton would be too large to be remembered, so that each character takes half a microsecond.
    let costly = by_pattern(".*x.{20}yz");
    let mut costly = Member::new("costly".to_owned(), costly);
    costly.beat(&mut connection);
    phases.push(("new topics", Instant::now()));
    for number in 0..NEW_TOPICS {
        create_topics(server.port(), &[&format!("topic-new-{number:03}")], 2);
    }
    rest(&mut members, &mut connection, 2);
    phases.push(("new topics at once", Instant::now()));
    let new: Vec<String> = (0..NEW_TOPICS).map(|number| format!("topic-newer-{number:03}")).collect();
    create_topics(server.port(), &new.iter().map(String::as_str).collect::<Vec<_>>(), 3);
    rest(&mut members, &mut connection, 3);
    let end = Instant::now();
    let (waits, others_waits) = (neighbour.end(), other.end());
    let mut late = Vec::new();
    for (index, (phase, begin)) in phases.iter().enumerate() {
        let until = phases.get(index + 1).map_or(end, |next| next.1);
        let longest = |waits: &[(Instant, Duration)]| {
            let of_phase = waits.iter().filter(|(sent, wait)| *sent + *wait >= *begin && *sent < until);
            of_phase.map(|it| it.1).max().unwrap_or_default()
        };
        let (longest, of_the_machine) = (longest(&waits), longest(&others_waits));
        let took = until - *begin;
        println!("{phase}: {took:?}, longest waits: the neighbour's {longest:?}, another server's {of_the_machine:?}");
        if longest > WAIT_MAX + AS_LONG_AGAIN * of_the_machine {
            late.push((phase, longest, of_the_machine));
        }
    }
    assert!(late.is_empty(), "phase, longest wait, that of another server's member: {late:?}");
}
