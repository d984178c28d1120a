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

#[allow(dead_code, reason = "made for more than this")]
#[path = "support/harness.rs"]
mod harness;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use riparian_log::MemDisk;
use riparian_protocol::{
    ResponseHeader,
    messages::{
        FetchRequest, FetchResponse, ProduceRequest, ProduceResponse,
        fetch_request::{FetchPartition, FetchTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
    },
};
use riparian_records::{BatchBuilder, BatchOptions};
use riparian_types::WallMillis;
use riparian_wire::Reader;

use harness::{HEARTBEAT, Harness, Member, START_MS, TOPIC};

/// The last versions that name topics.
const PRODUCE: i16 = 12;
const FETCH: i16 = 12;

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

/// All members join during the initial rebalance delay (3 s), so that one assignment does for all.
fn harness() -> Harness {
    Harness::new(Arc::new(MemDisk::new()), Path::new("/data"), &[])
}

/// What is counted: frames are made before, so that it is the server's work alone.
#[inline(never)]
fn measured_path(harness: &mut Harness, frames: &[Bytes], count: usize) {
    for n in 0..count {
        harness.handle(frames[n % frames.len()].clone());
    }
}

fn heartbeats(members: usize, count: usize) {
    let mut harness = harness();
    harness.create_topic(members * 2);
    let mut members: Vec<Member> =
        (0..members).map(|n| Member::new("app".to_owned(), format!("member-{n:05}"), 0)).collect();
    for member in &mut members {
        harness.converge(member);
    }
    harness.pass(3000);
    let mut rounds = 0;
    while !members.iter().all(|member| member.settled) {
        rounds += 1;
        assert!(rounds < 20, "the group does not settle");
        for member in &mut members {
            harness.converge(member);
        }
    }
    let frames: Vec<Bytes> = members.iter().map(|member| harness.frame(&member.steady(), HEARTBEAT)).collect();
    // The first heartbeat with nothing new shows that there is nothing new.
    for frame in &frames {
        harness.handle(frame.clone());
    }
    measured_path(&mut harness, &frames, count);
}

fn produces(count: usize) {
    let mut harness = harness();
    harness.create_topic(1);
    let frame = harness.frame(&produce(), PRODUCE);
    harness.handle(frame.clone());
    check_produced(&harness);
    measured_path(&mut harness, &[frame], count);
    check_produced(&harness);
}

fn fetches(count: usize) {
    let mut harness = harness();
    harness.create_topic(1);
    harness.handle(harness.frame(&produce(), PRODUCE));
    check_produced(&harness);
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
    check_fetched(&harness);
    measured_path(&mut harness, &[frame], count);
    check_fetched(&harness);
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

fn check_produced(harness: &Harness) {
    let bytes = harness.reply();
    let mut reader = Reader::new(&bytes);
    ResponseHeader::decode(&mut reader, ProduceRequest::API_KEY, PRODUCE).expect("a header");
    let response = ProduceResponse::decode(&mut reader, PRODUCE).expect("a response");
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0, "{response:?}");
}

fn check_fetched(harness: &Harness) {
    let bytes = harness.reply();
    let mut reader = Reader::new(&bytes);
    ResponseHeader::decode(&mut reader, FetchRequest::API_KEY, FETCH).expect("a header");
    let response = FetchResponse::decode(&mut reader, FETCH).expect("a response");
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0, "{response:?}");
    assert!(partition.records.as_ref().is_some_and(|records| records.len() > 1000), "{response:?}");
}
