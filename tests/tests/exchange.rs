//! Group records change hands: a `__consumer_offsets` that Kafka 4.4.0 wrote is served here, and one of ours there.
//!
//! Members by hand form groups at one server and commit offsets. That one ends, its files are put in place of those of the
//! other one, and the members go on there: nobody is refused, no task moves, the offsets are there.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use riparian_client::{Connection as Client, Options};
use riparian_crowd::{
    member::{Group, Heard, Life, Member},
    owners::Owners,
};
use riparian_protocol::{
    ErrorCode,
    messages::{
        FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest, offset_commit_request as commit,
        offset_fetch_request as fetch,
    },
};
use riparian_tests::{Against, Connection, Server, create_topics};

/// The same at both: a group's partition follows from their number.
const OFFSETS_PARTITIONS: u32 = 5;
const SETTINGS: &[(&str, &str)] = &[
    ("offsets.topic.num.partitions", "5"),
    ("group.streams.max.session.timeout.ms", "120000"),
    ("group.streams.session.timeout.ms", "120000"),
    ("group.streams.min.heartbeat.interval.ms", "100"),
    ("group.streams.heartbeat.interval.ms", "500"),
    ("group.streams.initial.rebalance.delay.ms", "1500"),
    ("riparian.fast.rebalance", "false"),
];
/// A group that has offsets and no members.
const SIMPLE: &str = "simple";
const LIMIT: Duration = Duration::from_secs(60);
const SMALL: Shape = Shape { group: "small", topic: "small-input", members: 20, tasks: 50 };
/// Its target alone is larger than a batch of Kafka's may be.
const LARGE: Shape = Shape { group: "large", topic: "large-input", members: 1000, tasks: 2000 };

#[derive(Clone, Copy)]
struct Shape {
    group: &'static str,
    topic: &'static str,
    members: usize,
    tasks: i32,
}

/// A group whose members all speak over one connection.
struct Crowd {
    shape: Shape,
    members: Vec<Member>,
    group: Group,
    frame: Vec<u8>,
}

impl Crowd {
    fn new(shape: Shape) -> Self {
        let owners = Owners::new(shape.tasks as usize);
        Self {
            shape,
            members: (0..shape.members)
                .map(|number| Member::new(format!("{}-{number:04}", shape.group), 0, 0))
                .collect(),
            group: Group { id: shape.group.to_owned(), topic: shape.topic.to_owned(), owners },
            frame: Vec::new(),
        }
    }

    /// A heartbeat of everybody. Refusals after the first join, and tasks told twice, are wrong.
    fn beat(&mut self, connection: &mut Connection) {
        for number in 0..self.members.len() {
            let member = &mut self.members[number];
            let (was_in, epoch) = (member.life == Life::In, member.epoch);
            let frame = member.send(number, &mut self.group, &mut self.frame).expect("a heartbeat can be written");
            connection.send(frame);
            let answer = connection.read_frame().expect("the server goes on");
            let mut wrong = Vec::new();
            let heard = member.hear(number, &mut self.group, &answer, &mut wrong).expect("an answer");
            if let Heard::Refused(code) = heard {
                let code = ErrorCode::from_code(code);
                // Who has just become coordinator, or has just heard of the topic, may say so.
                let may_be = !was_in || code == Some(ErrorCode::CoordinatorLoadInProgress);
                assert!(may_be || code == Some(ErrorCode::NotCoordinator), "{} at epoch {epoch}: {code:?}", member.id);
            }
            assert!(wrong.is_empty(), "{wrong:?}");
        }
    }

    fn go_on_until_at_rest(&mut self, port: u16) {
        let deadline = Instant::now() + LIMIT;
        let mut connection = Connection::open(port);
        self.members.iter_mut().for_each(Member::forget_delivery);
        loop {
            self.beat(&mut connection);
            let epoch = self.members[0].epoch;
            let is_settled = |member: &Member| member.is_settled() && member.epoch == epoch;
            if self.members.iter().all(is_settled) && self.group.owners.all_owned() {
                return;
            }
            let outside = self.members.iter().filter(|member| member.life != Life::In).count();
            let owned = self.group.owners.owned();
            assert!(Instant::now() < deadline, "{}: {outside} outside, {owned} tasks owned", self.shape.group);
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn tasks(&self) -> Vec<(String, Vec<i32>)> {
        self.members.iter().map(|member| (member.id.clone(), member.assigned().to_vec())).collect()
    }

    fn epoch(&self) -> i32 {
        self.members[0].epoch
    }

    /// Commits an offset for each task of the first member.
    fn commit(&self, client: &mut Client) {
        let member = &self.members[0];
        let partitions = member.assigned().iter().map(|&task| commit::OffsetCommitRequestPartition {
            partition_index: task,
            committed_offset: 100 + i64::from(task),
            committed_leader_epoch: -1,
            committed_metadata: Some("kept".into()),
            ..Default::default()
        });
        let request = OffsetCommitRequest {
            group_id: self.shape.group.into(),
            generation_id_or_member_epoch: member.epoch,
            member_id: member.id.as_str().into(),
            topics: vec![commit::OffsetCommitRequestTopic {
                name: self.shape.topic.into(),
                partitions: partitions.collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = client.call_version(&request, 9).expect("the server answers");
        for partition in &answer.decode().expect("an answer").topics[0].partitions {
            assert_eq!(partition.error_code, 0, "{}: partition {}", self.shape.group, partition.partition_index);
        }
    }

    fn check_offsets(&self, client: &mut Client, at: Against) {
        let tasks = self.members[0].assigned();
        let wanted = tasks.iter().map(|&task| match at {
            Against::Kafka => (task, 100 + i64::from(task), "kept".to_owned()),
            // A topic that has another id than the one that was committed for is another topic.
            Against::Riparian => (task, -1, String::new()),
        });
        let wanted: Vec<_> = wanted.collect();
        assert_eq!(offsets(client, self.shape.group, self.shape.topic, tasks), wanted, "{}", self.shape.group);
    }
}

/// Partitions with their committed offsets and what goes with them.
fn offsets(client: &mut Client, group: &str, topic: &str, partitions: &[i32]) -> Vec<(i32, i64, String)> {
    let partition_indexes = partitions.to_vec();
    let topics = vec![fetch::OffsetFetchRequestTopics { name: topic.into(), partition_indexes, ..Default::default() }];
    let group = fetch::OffsetFetchRequestGroup {
        group_id: group.into(),
        member_epoch: -1,
        topics: Some(topics),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = client.call_version(&request, 9).expect("the server answers");
        let found = &answer.decode().expect("an answer").groups[0];
        if found.error_code == 0 {
            let found = found.topics[0].partitions.iter();
            let text = |text: &Option<Cow<'_, str>>| text.as_deref().unwrap_or_default().to_owned();
            return found.map(|it| (it.partition_index, it.committed_offset, text(&it.metadata))).collect();
        }
        // Who has just started may not have loaded the group yet.
        assert!(Instant::now() < deadline, "no offsets: {}", found.error_code);
        thread::sleep(Duration::from_millis(50));
    }
}

/// Commits an offset for a group without members, to be kept for a day whatever happens to the topic.
fn commit_without_members(client: &mut Client, group: &str, topic: &str, offset: i64) {
    let partition = commit::OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_leader_epoch: -1,
        committed_metadata: Some("a day".into()),
        ..Default::default()
    };
    let partitions = vec![partition];
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        retention_time_ms: 86_400_000,
        topics: vec![commit::OffsetCommitRequestTopic { name: topic.into(), partitions, ..Default::default() }],
        ..Default::default()
    };
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = client.call_version(&request, 2).expect("the server answers");
        let code = ErrorCode::from_code(answer.decode().expect("an answer").topics[0].partitions[0].error_code);
        match code {
            Some(ErrorCode::None) => return,
            // Who was just found may not have loaded the group yet.
            Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress) if Instant::now() < deadline => {}
            _ => panic!("{group}: {code:?}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the server coordinates the group, which makes it have the topic of groups.
fn client(server: &Server, group: &str) -> Client {
    let options = Options { client_id: "exchange".to_owned(), connect_timeout: LIMIT, request_timeout: LIMIT };
    let mut client = Client::open(&server.bootstrap(), &options).expect("the server accepts connections");
    let request = FindCoordinatorRequest { coordinator_keys: vec![group.into()], ..Default::default() };
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = client.call(&request).expect("the server answers");
        let code = answer.decode().expect("an answer").coordinators[0].error_code;
        if code == 0 {
            return client;
        }
        assert!(Instant::now() < deadline, "no coordinator: {code}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Ours makes the directory of a partition when there is something to write.
fn fill_all_partitions(server: &Server, topic: &str) {
    let mut client = client(server, "filler");
    let is_there = |partition| server.partition_dir("__consumer_offsets", partition).is_dir();
    for number in 0..LIMIT.as_secs() {
        if (0..OFFSETS_PARTITIONS).all(is_there) {
            return;
        }
        commit_without_members(&mut client, &format!("filler-{number}"), topic, 0);
    }
    panic!("no group's records are in one of the partitions");
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("a file").path());
    files.filter(|path| path.extension().is_some_and(|it| it == "log")).collect()
}

/// Puts the records of groups of one server, which has ended, in place of the other's.
fn hand_over(from: &Server, to: &Server) {
    for partition in 0..OFFSETS_PARTITIONS {
        let (source, place) =
            (from.partition_dir("__consumer_offsets", partition), to.partition_dir("__consumer_offsets", partition));
        for entry in fs::read_dir(&place).expect("the partition has a directory") {
            let path = entry.expect("a file").path();
            // What is left says whose directory it is; everything else is made from the records.
            if path.file_name().is_some_and(|name| name != "partition.metadata") {
                fs::remove_file(path).expect("a file can be removed");
            }
        }
        for segment in segments(&source) {
            fs::copy(&segment, place.join(segment.file_name().expect("a file name"))).expect("a file can be copied");
        }
    }
    // What says how it ended, and how far its own records went, is not true of these.
    for name in [".kafka_cleanshutdown", "recovery-point-offset-checkpoint"] {
        let file = to.data_dir().join(name);
        if file.exists() {
            fs::remove_file(file).expect("a file can be removed");
        }
    }
}

fn exchange(from: Against, to: Against, shapes: &[Shape]) {
    let mut receiver = Server::start_this(to, SETTINGS);
    for shape in shapes {
        create_topics(receiver.port(), &[shape.topic], shape.tasks);
    }
    fill_all_partitions(&receiver, shapes[0].topic);
    receiver.terminate();

    let mut giver = Server::start_this(from, SETTINGS);
    let mut crowds: Vec<Crowd> = shapes.iter().map(|&shape| Crowd::new(shape)).collect();
    for crowd in &mut crowds {
        create_topics(giver.port(), &[crowd.shape.topic], crowd.shape.tasks);
        let mut client = client(&giver, crowd.shape.group);
        crowd.go_on_until_at_rest(giver.port());
        crowd.commit(&mut client);
    }
    let mut to_giver = client(&giver, SIMPLE);
    commit_without_members(&mut to_giver, SIMPLE, shapes[0].topic, 77);
    giver.terminate();

    hand_over(&giver, &receiver);
    receiver.restart();
    let kept = offsets(&mut client(&receiver, SIMPLE), SIMPLE, shapes[0].topic, &[0]);
    assert_eq!(kept, [(0, 77, "a day".to_owned())]);
    for crowd in &mut crowds {
        let mut client = client(&receiver, crowd.shape.group);
        let (tasks, epoch) = (crowd.tasks(), crowd.epoch());
        crowd.go_on_until_at_rest(receiver.port());
        // The topics have other ids here, which makes the group look at its assignment anew, and no more than that.
        assert!((epoch..=epoch + 1).contains(&crowd.epoch()), "from epoch {epoch} to {}", crowd.epoch());
        assert_eq!(crowd.tasks(), tasks, "tasks have moved");
        crowd.check_offsets(&mut client, to);
    }
}

#[test]
fn groups_of_kafka_are_served_here() {
    exchange(Against::Kafka, Against::Riparian, &[SMALL]);
}

#[test]
fn groups_of_ours_are_served_by_kafka() {
    exchange(Against::Riparian, Against::Kafka, &[SMALL, LARGE]);
}
