//! Hostile by what they ask, whatever they do with connections.

use std::{
    collections::VecDeque,
    io::Write as _,
    net::TcpStream,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use riparian_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest, FetchRequest,
    JoinGroupRequest, OffsetCommitRequest, ProduceRequest, StreamsGroupHeartbeatRequest,
    create_partitions_request::CreatePartitionsTopic,
    create_topics_request::CreatableTopic,
    fetch_request::{FetchPartition, FetchTopic},
    join_group_request::JoinGroupRequestProtocol,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    produce_request::{PartitionProduceData, TopicProduceData},
    streams_group_heartbeat_request::{KeyValue, Subtopology, Topology},
};
use riparian_records::{BatchBuilder, BatchOptions};
use riparian_tests::request;
use riparian_types::{Prng, WallMillis};
use socket2::SockRef;

use crate::{
    DATA,
    hostile::{Foe, Talk, discard, framed, read_answer},
    neighbours::{self, GROUPS, MEMBERS, TOPIC},
};

const TICK: Duration = Duration::from_millis(50);

/// Thousands of heartbeats a second of members that are new, unknown or of another epoch, those of others among them.
pub(crate) fn heartbeats(foe: &mut Foe) {
    const PER_TICK: u64 = 100;
    let mut stream: Option<TcpStream> = None;
    while foe.goes_on(TICK) {
        if stream.is_none() {
            stream = foe.open().filter(|stream| stream.set_nonblocking(true).is_ok());
        }
        let mut bytes = Vec::new();
        for number in 0..PER_TICK {
            let group = foe.luck.below(GROUPS as u64) as usize;
            let (group_id, member) = match foe.luck.below(4) {
                // In the name of somebody who is well.
                0 => (neighbours::group_id(group), neighbours::member_id(group, number as usize % MEMBERS)),
                1 => (neighbours::group_id(group), format!("nobody-{number}")),
                2 => ("tight-loop".to_owned(), format!("in-a-loop-{}", number % 3)),
                _ => (format!("no-group-{number}"), "nobody".to_owned()),
            };
            // A leave in another's name, its own epoch and a join would be heard, as no one says who he is.
            let epoch = match foe.luck.below(4) {
                0 => i32::MAX,
                1 => i32::MIN,
                2 => -3,
                _ => 1_000_000 + number as i32,
            };
            let joins = group_id == "tight-loop" && foe.luck.chance(20);
            let heartbeat = StreamsGroupHeartbeatRequest {
                group_id: group_id.clone().into(),
                member_id: member.clone().into(),
                member_epoch: epoch,
                ..StreamsGroupHeartbeatRequest::default()
            };
            // With a process that has members in another group.
            let process_id = Some(neighbours::member_id(group, 0).into());
            let join = StreamsGroupHeartbeatRequest { process_id, ..join(&group_id, &member) };
            bytes.extend(framed(if joins { &join } else { &heartbeat }, 1));
        }
        // What does not fit breaks a request in two, and the connection with it.
        let is_alive = stream.as_mut().is_some_and(|stream| {
            let is_sent = stream.write_all(&bytes).is_ok();
            is_sent && discard(stream, usize::MAX)
        });
        if !is_alive || foe.luck.chance(100) {
            stream = None;
        }
        foe.did(PER_TICK);
    }
}

/// Sizes and counts that nobody can mean.
pub(crate) fn impossible_sizes(foe: &mut Foe) {
    while foe.goes_on(TICK) {
        let count = [i32::MAX, i32::MIN, 0x0fff_ffff, 1_000_000, -2][foe.luck.below(5) as usize];
        let sized = |body: Vec<u8>| [&(body.len() as i32).to_be_bytes()[..], &body].concat();
        let array = [&count.to_be_bytes()[..], &[0; 16]].concat();
        let bytes = match foe.luck.below(5) {
            0 => [&count.to_be_bytes()[..], &[0; 64]].concat(),
            1 => sized(request(3, 1, 1, &array)),
            2 => sized(request(19, 2, 1, &array)),
            // A compact array of as much as a varint can say.
            3 => sized(request(88, 1, 1, &[0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f])),
            _ => sized(request(0, 3, 1, &[&[0xff, 0xff, 0, 1, 0, 0, 0, 1][..], &array].concat())),
        };
        if let Some(mut stream) = foe.open_with(&bytes) {
            read_answer(&mut stream);
        }
        foe.did(1);
    }
}

/// Noise, as it is, as a frame, and behind a header that is right.
pub(crate) fn noise(foe: &mut Foe) {
    while foe.goes_on(TICK) {
        let count = foe.luck.below(2000);
        let noise: Vec<u8> = (0..count).map(|_| foe.luck.next_u64() as u8).collect();
        let api = foe.luck.below(95) as i16;
        let version = foe.luck.below(14) as i16;
        let body = match foe.luck.below(3) {
            0 => noise,
            1 => [&(noise.len() as i32).to_be_bytes()[..], &noise].concat(),
            _ => {
                let body = request(api, version, 1, &noise);
                [&(body.len() as i32).to_be_bytes()[..], &body].concat()
            }
        };
        // Closed with what was answered unread.
        drop(foe.open_with(&body));
        foe.did(1);
    }
}

/// Groups of all kinds that are made, filled and left alone, now and then so many at once that there may be no more; those
/// that are empty are deleted.
pub(crate) fn groups(foe: &mut Foe) {
    const NAMES: u64 = 400;
    const DELETE_EVERY: u64 = 300;
    const BURST_EVERY: u64 = 400;
    const BURST_GROUPS: u64 = 60;
    const BURST_MEMBERS: u64 = 5;
    const CLASSIC_EVERY: u64 = 80;
    const CLASSIC_AT_ONCE: usize = 15;
    let mut talk = Talk::default();
    let mut joining: Vec<TcpStream> = Vec::new();
    let mut number = 0;
    while foe.goes_on(TICK) {
        number += 1;
        let name = foe.luck.below(NAMES);
        let asked = match foe.luck.below(6) {
            0 | 1 => framed(&join(&format!("abandoned-{name}"), &format!("gone-{number}")), 1),
            2 => framed(&join("one-for-all", &format!("crowded-{number}")), 1),
            3 => framed(&join_with_tag(&format!("abandoned-{name}"), "large", &"x".repeat(20_000)), 1),
            4 => framed(&commit(&format!("committed-{name}"), &"x".repeat(5000)), 8),
            _ => framed(&commit(&format!("committed-{name}"), "short"), 8),
        };
        talk.ask(foe, &asked);
        if number % CLASSIC_EVERY == 0 {
            // They wait for the others to join, and nobody for them.
            let classic = framed(&classic_join("classic-for-all", 6000, &[0; 100]), 3);
            joining = (0..CLASSIC_AT_ONCE).filter_map(|_| foe.open_with(&classic)).collect();
        }
        if number % BURST_EVERY == 0 {
            for (group, member) in (0..BURST_GROUPS).flat_map(|group| (0..BURST_MEMBERS).map(move |it| (group, it))) {
                talk.ask(foe, &framed(&join(&format!("abandoned-{group}"), &format!("burst-{number}-{member}")), 1));
            }
        }
        if number % DELETE_EVERY == 0 {
            delete_groups(foe, &mut talk, NAMES);
        }
        foe.did(1);
    }
    drop(joining);
    delete_groups(foe, &mut talk, NAMES);
}

/// Groups that read whatever there is, patterns that nobody else has, and some that take too much.
pub(crate) fn patterns(foe: &mut Foe) {
    const NAMES: u64 = 60;
    const DELETE_EVERY: u64 = 500;
    let all = || (0..NAMES).map(|name| format!("pattern-{name}"));
    let mut talk = Talk::default();
    let mut number = 0;
    while foe.goes_on(TICK) {
        number += 1;
        let pattern = match foe.luck.below(4) {
            0 => ".*".to_owned(),
            1 => "(((a{20}){20}){20}){20}".to_owned(),
            2 => "(?=all).*".to_owned(),
            _ => format!("[a-z]*{}.*", foe.luck.below(1000)),
        };
        let mut request = join(&format!("pattern-{}", foe.luck.below(NAMES)), "m");
        for subtopology in request.topology.iter_mut().flat_map(|topology| &mut topology.subtopologies) {
            subtopology.source_topic_regex = vec![pattern.clone().into()];
        }
        talk.ask(foe, &framed(&request, 1));
        if number % DELETE_EVERY == 0 {
            delete(foe, &mut talk, all());
        }
        foe.did(1);
    }
    delete(foe, &mut talk, all());
}

fn delete_groups(foe: &mut Foe, talk: &mut Talk, names: u64) {
    delete(foe, talk, (0..names).flat_map(|name| [format!("abandoned-{name}"), format!("committed-{name}")]));
}

fn delete(foe: &mut Foe, talk: &mut Talk, all: impl Iterator<Item = String>) {
    let request = DeleteGroupsRequest { groups_names: all.map(Into::into).collect(), ..DeleteGroupsRequest::default() };
    talk.ask(foe, &framed(&request, 2));
}

/// Asks a classic group for more member ids than there may be members, and joins with none of them.
pub(crate) fn pending_joins(foe: &mut Foe) {
    const EVERY: Duration = Duration::from_secs(30);
    const AT_ONCE: usize = 50;
    const TIMES: usize = 20;
    loop {
        let request = framed(&classic_join("member-ids", 5000, &[]), 4).repeat(AT_ONCE);
        if let Some(mut stream) = foe.open() {
            for _ in 0..TIMES {
                if stream.write_all(&request).is_err() || (0..AT_ONCE).any(|_| read_answer(&mut stream).is_none()) {
                    break;
                }
                foe.did(AT_ONCE as u64);
                if !foe.goes_on(TICK) {
                    break;
                }
            }
        }
        if !foe.goes_on(EVERY) {
            return;
        }
    }
}

/// Topics that come and go, and some that cannot be.
pub(crate) fn topics(foe: &mut Foe) {
    const EVERY: Duration = Duration::from_millis(300);
    const HELD: usize = 10;
    let mut talk = Talk::default();
    let mut held: VecDeque<String> = VecDeque::new();
    let mut number = 0;
    while foe.goes_on(EVERY) {
        number += 1;
        let name = format!("short-lived-{number}");
        talk.ask(foe, &framed(&create_topic(&name, 4), 5));
        held.push_back(name);
        let (wrong_name, partitions) = match foe.luck.below(6) {
            // More than there may be of all topics together.
            5 => ("too-many-together".to_owned(), 9_000),
            0 => ("x".repeat(300), 1),
            1 => ("in/valid".to_owned(), 1),
            2 => ("too-many".to_owned(), i32::MAX),
            3 => ("too-few".to_owned(), -7),
            _ => (TOPIC.to_owned(), 1),
        };
        talk.ask(foe, &framed(&create_topic(&wrong_name, partitions), 5));
        let more = CreatePartitionsTopic { name: DATA.into(), count: i32::MAX, ..CreatePartitionsTopic::default() };
        let more = CreatePartitionsRequest { topics: vec![more], timeout_ms: 1000, ..Default::default() };
        talk.ask(foe, &framed(&more, 2));
        if held.len() > HELD {
            delete_topics(foe, &mut talk, held.drain(..1));
        }
        foe.did(1);
    }
    delete_topics(foe, &mut talk, held.drain(..));
}

fn create_topic(name: &str, partitions: i32) -> CreateTopicsRequest<'_> {
    let topic =
        CreatableTopic { name: name.into(), num_partitions: partitions, replication_factor: 1, ..Default::default() };
    CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..CreateTopicsRequest::default() }
}

fn delete_topics(foe: &mut Foe, talk: &mut Talk, names: impl Iterator<Item = String>) {
    let request =
        DeleteTopicsRequest { topic_names: names.map(Into::into).collect(), timeout_ms: 1000, ..Default::default() };
    talk.ask(foe, &framed(&request, 5));
}

/// Batches that are good, damaged, too large, none, or for nobody.
pub(crate) fn produces(foe: &mut Foe) {
    const EVERY: Duration = Duration::from_millis(100);
    let mut talk = Talk::default();
    while foe.goes_on(EVERY) {
        let mut batch = batch(&mut foe.luck, 30_000);
        let mut topic = DATA;
        match foe.luck.below(8) {
            0 | 1 => {}
            2 => batch = self::batch(&mut foe.luck, 200_000),
            3 => batch.truncate(foe.luck.below(batch.len() as u64) as usize),
            4 => batch[16] = 1,
            5 => topic = "no-such-topic",
            6 => batch.clear(),
            _ => {
                let at = foe.luck.below(batch.len() as u64) as usize;
                batch[at] ^= 1 << foe.luck.below(8);
            }
        }
        let acks = [-1, 1, 0, 7][foe.luck.below(4) as usize];
        let request = framed(&produce(topic, acks, &batch), 9);
        if acks == 0 {
            // There is no answer.
            drop(foe.open_with(&request));
        } else {
            talk.ask(foe, &request);
        }
        foe.did(1);
    }
}

/// Records of so many bytes together that cannot be made smaller.
fn batch(luck: &mut Prng, bytes: usize) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    for _ in 0..bytes / 1000 {
        let value: Vec<u8> = (0..125).flat_map(|_| luck.next_u64().to_be_bytes()).collect();
        builder.push(WallMillis(now as i64), None, Some(&value));
    }
    builder.build()
}

/// Fetches at the end of a log that wait for what never comes, and whose clients do not wait.
pub(crate) fn fetches(foe: &mut Foe) {
    const EVERY: Duration = Duration::from_millis(200);
    const AT_ONCE: usize = 60;
    const HELD: usize = 20;
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    while foe.goes_on(EVERY) {
        let wait = fetch(TOPIC, 0, 600_000, i32::MAX);
        let bytes = framed(&wait, 11).repeat(AT_ONCE);
        held.extend(foe.open_with(&bytes));
        if held.len() > HELD
            && let Some(stream) = held.pop_front()
            && foe.luck.chance(2)
        {
            // A reset, instead of an end.
            drop(SockRef::from(&stream).set_linger(Some(Duration::ZERO)));
        }
        foe.did(AT_ONCE as u64);
    }
}

/// A fetch of a topic's first partition.
pub(crate) fn fetch(topic: &str, offset: i64, max_wait_ms: i32, min_bytes: i32) -> FetchRequest<'_> {
    let partition = FetchPartition {
        current_leader_epoch: -1,
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let topic = FetchTopic { topic: topic.into(), partitions: vec![partition], ..FetchTopic::default() };
    FetchRequest {
        replica_id: -1,
        max_wait_ms,
        min_bytes,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..FetchRequest::default()
    }
}

/// A member of a streams group joins.
pub(crate) fn join(group: &str, member: &str) -> StreamsGroupHeartbeatRequest<'static> {
    join_with_tag(group, member, "small")
}

fn join_with_tag(group: &str, member: &str, tag: &str) -> StreamsGroupHeartbeatRequest<'static> {
    let source = Subtopology { subtopology_id: "0".into(), source_topics: vec![TOPIC.into()], ..Default::default() };
    let tag = KeyValue { key: "tag".into(), value: tag.to_owned().into(), ..KeyValue::default() };
    StreamsGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: member.to_owned().into(),
        topology: Some(Topology { epoch: 0, subtopologies: vec![source], ..Topology::default() }),
        rebalance_timeout_ms: 10_000,
        process_id: Some(member.to_owned().into()),
        client_tags: Some(vec![tag]),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..StreamsGroupHeartbeatRequest::default()
    }
}

/// A new member of a classic group joins.
pub(crate) fn classic_join(group: &str, session_timeout_ms: i32, metadata: &[u8]) -> JoinGroupRequest<'static> {
    let metadata = metadata.to_vec();
    let protocol = JoinGroupRequestProtocol { name: "range".into(), metadata: metadata.into(), ..Default::default() };
    JoinGroupRequest {
        group_id: group.to_owned().into(),
        session_timeout_ms,
        rebalance_timeout_ms: session_timeout_ms,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..JoinGroupRequest::default()
    }
}

fn commit<'a>(group: &'a str, metadata: &'a str) -> OffsetCommitRequest<'a> {
    let partition = OffsetCommitRequestPartition {
        committed_offset: 7,
        committed_metadata: Some(metadata.into()),
        ..OffsetCommitRequestPartition::default()
    };
    let topic = OffsetCommitRequestTopic { name: TOPIC.into(), partitions: vec![partition], ..Default::default() };
    OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..OffsetCommitRequest::default()
    }
}

fn produce<'a>(topic: &'a str, acks: i16, batch: &'a [u8]) -> ProduceRequest<'a> {
    let partition = PartitionProduceData { records: Some(batch.into()), ..PartitionProduceData::default() };
    let topic = TopicProduceData { name: topic.into(), partition_data: vec![partition], ..TopicProduceData::default() };
    ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..ProduceRequest::default() }
}
