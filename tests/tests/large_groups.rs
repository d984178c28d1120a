//! Groups that are larger than a batch of records may be elsewhere (M-26).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use riparian_client::{Connection as Client, Options};
use riparian_protocol::{
    RequestHeader, ResponseHeader,
    messages::{
        StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
        streams_group_heartbeat_request as heartbeat,
    },
};
use riparian_tests::{Connection, Server, create_topics};
use riparian_wire::Reader;

const MEMBERS: usize = 500;
const SUBTOPOLOGIES: usize = 300;
const PARTITIONS: i32 = 200;
const TOPIC: &str = "input";
const LIMIT: Duration = Duration::from_secs(120);
const SETTINGS: &[(&str, &str)] = &[
    ("group.streams.initial.rebalance.delay.ms", "3000"),
    // Members speak in turn, each with a second of others between.
    ("group.streams.max.session.timeout.ms", "120000"),
    ("group.streams.session.timeout.ms", "120000"),
    ("riparian.fast.rebalance", "false"),
];
const MISSING_SOURCE_TOPICS: i8 = 1;
/// A batch of Kafka's is 1 MiB at most, unless it is told otherwise.
const KAFKAS_BATCH: usize = 1 << 20;

struct Member {
    id: String,
    epoch: i32,
    tasks: Vec<heartbeat::TaskIds<'static>>,
    has_news: bool,
}

fn subtopology_id(number: usize) -> String {
    format!("a-subtopology-whose-name-is-rather-long-and-whose-number-is-{number:03}")
}

fn beat<'a>(
    connection: &mut Connection,
    request: &StreamsGroupHeartbeatRequest<'_>,
    answer: &'a mut Vec<u8>,
) -> StreamsGroupHeartbeatResponse<'a> {
    let mut frame = Vec::new();
    let (api_key, client_id) = (StreamsGroupHeartbeatRequest::API_KEY as i16, Some("large".into()));
    let header = RequestHeader { api_key, api_version: 1, correlation_id: 7, client_id, ..Default::default() };
    header.encode(&mut frame).expect("a header can be written");
    request.encode(&mut frame, 1).expect("the values fit");
    connection.send_frame(&frame);
    *answer = connection.read_frame().expect("the server goes on");
    let mut reader = Reader::new(answer);
    ResponseHeader::decode(&mut reader, StreamsGroupHeartbeatRequest::API_KEY, 1).expect("a header");
    StreamsGroupHeartbeatResponse::decode(&mut reader, 1).expect("an answer to a heartbeat")
}

fn join(
    group: &str,
    id: &str,
    subtopologies: Vec<heartbeat::Subtopology<'static>>,
) -> StreamsGroupHeartbeatRequest<'static> {
    StreamsGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: id.to_owned().into(),
        endpoint_information_epoch: -1,
        rebalance_timeout_ms: 300_000,
        process_id: Some(id.to_owned().into()),
        client_tags: Some(Vec::new()),
        topology: Some(heartbeat::Topology { subtopologies, ..Default::default() }),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    }
}

impl Member {
    /// A heartbeat; reports what it was given, if that is new.
    fn beat(&mut self, connection: &mut Connection, group: &str, sources: &[heartbeat::Subtopology<'static>]) {
        let mut request = if self.epoch == 0 {
            join(group, &self.id, sources.to_vec())
        } else {
            StreamsGroupHeartbeatRequest {
                group_id: group.to_owned().into(),
                member_id: self.id.clone().into(),
                member_epoch: self.epoch,
                ..Default::default()
            }
        };
        if std::mem::take(&mut self.has_news) {
            request.active_tasks = Some(self.tasks.clone());
            request.standby_tasks = Some(Vec::new());
            request.warmup_tasks = Some(Vec::new());
        }
        let mut answer = Vec::new();
        let response = beat(connection, &request, &mut answer);
        assert_eq!(response.error_code, 0, "{}: {:?}", self.id, response.error_message);
        self.epoch = response.member_epoch;
        if let Some(tasks) = &response.active_tasks {
            let own =
                |it: &riparian_protocol::messages::streams_group_heartbeat_response::TaskIds<'_>| heartbeat::TaskIds {
                    subtopology_id: it.subtopology_id.clone().into_owned().into(),
                    partitions: it.partitions.clone(),
                    ..Default::default()
                };
            let tasks: Vec<_> = tasks.iter().map(own).collect();
            self.has_news = tasks != self.tasks;
            self.tasks = tasks;
        }
    }
}

fn tasks(members: &[Member]) -> BTreeSet<(String, i32)> {
    let mut seen = BTreeSet::new();
    for ids in members.iter().flat_map(|member| &member.tasks) {
        for partition in &ids.partitions {
            let task = (ids.subtopology_id.clone().into_owned(), *partition);
            assert!(seen.insert(task.clone()), "{task:?} has two owners");
        }
    }
    seen
}

fn described(server: &Server, group: &str) -> (String, usize, usize) {
    let options = Options { client_id: "large".to_owned(), connect_timeout: LIMIT, request_timeout: LIMIT };
    let mut client = Client::open(&server.bootstrap(), &options).expect("the server accepts connections");
    let request = StreamsGroupDescribeRequest { group_ids: vec![group.into()], ..Default::default() };
    let answer = client.call(&request).expect("the server answers");
    let response = answer.decode().expect("an answer");
    let group = &response.groups[0];
    assert_eq!(group.error_code, 0, "{:?}", group.error_message);
    let tasks = group.members.iter().flat_map(|member| &member.assignment.active_tasks);
    (group.group_state.clone().into_owned(), group.members.len(), tasks.map(|ids| ids.partitions.len()).sum())
}

#[test]
fn m_26_a_group_whose_target_is_larger_than_a_batch_forms_and_loads_again() {
    let mut server = Server::start(SETTINGS);
    create_topics(server.port(), &[TOPIC], PARTITIONS);
    let sources: Vec<_> = (0..SUBTOPOLOGIES)
        .map(|number| heartbeat::Subtopology {
            subtopology_id: subtopology_id(number).into(),
            source_topics: vec![TOPIC.into()],
            ..Default::default()
        })
        .collect();
    let member = |number| Member {
        id: format!("member-with-an-id-as-long-as-others-{number:04}"),
        epoch: 0,
        tasks: Vec::new(),
        has_news: false,
    };
    let mut members: Vec<Member> = (0..MEMBERS).map(member).collect();
    let count = SUBTOPOLOGIES * PARTITIONS as usize;
    let started = Instant::now();
    let mut connection = Connection::open(server.port());
    loop {
        members.iter_mut().for_each(|member| member.beat(&mut connection, "large", &sources));
        let is_settled = members.iter().all(|member| !member.has_news && member.epoch == members[0].epoch);
        if is_settled && tasks(&members).len() == count {
            break;
        }
        assert!(started.elapsed() < LIMIT, "{} of {count} tasks have an owner", tasks(&members).len());
    }
    println!("{MEMBERS} members share {count} tasks after {:.1} s", started.elapsed().as_secs_f64());
    assert_eq!(described(&server, "large"), ("Stable".to_owned(), MEMBERS, count));

    server.kill();
    server.restart();
    assert_eq!(described(&server, "large"), ("Stable".to_owned(), MEMBERS, count));
    let (before, epoch) = (tasks(&members), members[0].epoch);
    let mut connection = Connection::open(server.port());
    members.iter_mut().for_each(|member| member.beat(&mut connection, "large", &sources));
    assert!(members.iter().all(|member| member.epoch == epoch), "the epoch has changed");
    assert_eq!(tasks(&members), before);
}

#[test]
fn m_26_a_topology_larger_than_a_batch_is_kept_or_refused_with_a_reason() {
    let mut server = Server::start(SETTINGS);
    create_topics(server.port(), &[TOPIC], 1);
    for (group, topics) in [("thousands", 2_000_usize), ("megabyte", 5_000), ("megabytes", 50_000)] {
        let source_topics = (0..topics).map(|number| format!("{number:05}-{}", "n".repeat(230)).into()).collect();
        let subtopology = heartbeat::Subtopology { subtopology_id: "0".into(), source_topics, ..Default::default() };
        let request = join(group, "member", vec![subtopology]);
        let mut answer = Vec::new();
        let mut connection = Connection::open(server.port());
        let response = beat(&mut connection, &request, &mut answer);
        let told = response.error_message.as_deref().unwrap_or_default();
        if response.error_code == 0 {
            let status = response.status.iter().flatten().map(|status| status.status_code).collect::<Vec<_>>();
            assert!(status.contains(&MISSING_SOURCE_TOPICS), "{group}: {status:?}");
            println!("{group}: a topology of {topics} topics is kept");
            assert_eq!(described(&server, group).1, 1, "{group}");
        } else {
            println!("{group}: a topology of {topics} topics is refused ({}): {told}", response.error_code);
            assert!(response.error_code != -1 && told.contains("topolog"), "{group}: {}: {told}", response.error_code);
            assert!(topics * 236 > KAFKAS_BATCH, "{group} is not large");
        }
        // Others are served as before.
        let response = beat(&mut connection, &join("other", group, Vec::new()), &mut answer);
        assert!(matches!(response.error_code, 0), "{}: {:?}", response.error_code, response.error_message);
    }
    server.kill();
    server.restart();
    assert_eq!(described(&server, "thousands").1, 1);
}
