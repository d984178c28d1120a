//! Waits until a server's coordinator knows what was changed.
//!
//! An answer to an admin request says that a change is stored, not that every part of a broker has heard of it. What a
//! coordinator has heard of shows in what a group is told, so a group of its own is asked: each topic is the source of
//! a subtopology, and as many tasks as the topic has partitions are handed out. Changes arrive in order, so that what
//! was changed before is known too.

use riparian_protocol::messages::{
    FindCoordinatorRequest, HeartbeatRequest, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    streams_group_heartbeat_request::{Subtopology, Topology},
};

use crate::{Transport, transport::MAIN};

const LIMIT_MS: u64 = 30_000;
const AGAIN_AFTER_MS: u64 = 5;
const REBALANCE_TIMEOUT_MS: i32 = 1000;
const STATUS_MISSING_SOURCE_TOPICS: i8 = 1;
const UNKNOWN_MEMBER_ID: i16 = 25;
/// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
const NOT_YET: [i16; 3] = [14, 15, 16];

/// Until there is a coordinator for groups.
pub fn wait_for_coordinator(transport: &mut impl Transport) -> Result<(), String> {
    let deadline_ms = transport.now_ms() + LIMIT_MS;
    loop {
        let found = find_coordinator(transport);
        if found == Ok(0) {
            return Ok(());
        }
        if transport.now_ms() > deadline_ms {
            return Err(format!("no coordinator within {LIMIT_MS} ms: {found:?}"));
        }
        if found.is_err() {
            transport.close(MAIN);
        }
        transport.wait(AGAIN_AFTER_MS)?;
    }
}

fn find_coordinator(transport: &mut impl Transport) -> Result<i16, String> {
    let request = FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..FindCoordinatorRequest::default() };
    let answer = transport.call(&request, None)?;
    let response = answer.decode::<FindCoordinatorRequest<'_>>().map_err(|error| error.to_string())?;
    let found = response.coordinators.first().map_or(-1, |found| found.error_code);
    if found != 0 {
        return Ok(found);
    }
    // Known does not mean loaded. Classic groups are always served; a broker of Kafka that is still loading says that
    // all is well, and one that has loaded does not know the member.
    let beat = HeartbeatRequest { group_id: "g".into(), member_id: "m".into(), generation_id: 1, ..Default::default() };
    let answer = transport.call(&beat, None)?;
    let code = answer.decode::<HeartbeatRequest<'_>>().map_err(|error| error.to_string())?.error_code;
    Ok(if code == UNKNOWN_MEMBER_ID { 0 } else { code.max(1) })
}

fn heartbeat<T>(
    transport: &mut impl Transport,
    request: &StreamsGroupHeartbeatRequest<'_>,
    look: impl FnOnce(&StreamsGroupHeartbeatResponse<'_>) -> T,
) -> Result<T, String> {
    let answer = transport.call(request, None)?;
    let response = answer.decode::<StreamsGroupHeartbeatRequest<'_>>().map_err(|error| error.to_string())?;
    Ok(look(&response))
}

/// Whether the answer means: ask again.
pub(crate) fn is_not_yet(code: i16) -> bool {
    NOT_YET.contains(&code)
}

/// Until the coordinator sees these topics with these numbers of partitions; 0: not at all.
pub(crate) fn wait_for_topics(
    transport: &mut impl Transport,
    group: &str,
    topics: &[(String, i32)],
) -> Result<(), String> {
    let (absent, present): (Vec<_>, Vec<_>) = topics.iter().cloned().partition(|(_, partitions)| *partitions == 0);
    if !present.is_empty() {
        ask_until(transport, &format!("{group}-there"), &present, |response| {
            present.iter().enumerate().all(|(index, (_, partitions))| {
                let id = index.to_string();
                let mut lists = response.active_tasks.iter().flatten();
                lists.find(|list| list.subtopology_id == id).map_or(0, |list| list.partitions.len()) as i32
                    == *partitions
            })
        })?;
    }
    for (index, topic) in absent.iter().enumerate() {
        let is_missing = |response: &StreamsGroupHeartbeatResponse<'_>| {
            response.status.iter().flatten().any(|status| status.status_code == STATUS_MISSING_SOURCE_TOPICS)
        };
        ask_until(transport, &format!("{group}-gone-{index}"), std::slice::from_ref(topic), is_missing)?;
    }
    Ok(())
}

fn ask_until(
    transport: &mut impl Transport,
    group: &str,
    topics: &[(String, i32)],
    is_known: impl Fn(&StreamsGroupHeartbeatResponse<'_>) -> bool,
) -> Result<(), String> {
    let subtopology = |(index, (topic, _)): (usize, &(String, i32))| Subtopology {
        subtopology_id: index.to_string().into(),
        source_topics: vec![topic.clone().into()],
        ..Subtopology::default()
    };
    let subtopologies: Vec<_> = topics.iter().enumerate().map(subtopology).collect();
    let deadline_ms = transport.now_ms() + LIMIT_MS;
    loop {
        let join = StreamsGroupHeartbeatRequest {
            group_id: group.into(),
            member_id: "probe".into(),
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            topology: Some(Topology { subtopologies: subtopologies.clone(), ..Topology::default() }),
            active_tasks: Some(Vec::new()),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
            process_id: Some("probe".into()),
            ..StreamsGroupHeartbeatRequest::default()
        };
        let is_known_now = heartbeat(transport, &join, &is_known)?;
        let leave = StreamsGroupHeartbeatRequest {
            group_id: group.into(),
            member_id: "probe".into(),
            member_epoch: -1,
            ..StreamsGroupHeartbeatRequest::default()
        };
        heartbeat(transport, &leave, |_| ())?;
        if is_known_now {
            return Ok(());
        }
        if transport.now_ms() > deadline_ms {
            return Err(format!("the coordinator does not see {topics:?} within {LIMIT_MS} ms"));
        }
        transport.wait(AGAIN_AFTER_MS)?;
    }
}
