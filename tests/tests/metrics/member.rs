//! A member of a streams group by hand: it does what it is told and reports it.

use std::time::{Duration, Instant};

use riparian_client::{Connection, Options};
use riparian_protocol::messages::{
    OffsetCommitRequest, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    streams_group_heartbeat_request::{Subtopology, TaskIds, Topology},
};

const LIMIT: Duration = Duration::from_secs(10);

pub(super) fn connect(port: u16) -> Connection {
    let options = Options { client_id: "by-hand".to_owned(), connect_timeout: LIMIT, request_timeout: LIMIT };
    Connection::open(&format!("127.0.0.1:{port}"), &options).expect("the server accepts connections")
}

/// Commits an offset of topic `in` for a group without members; a classic group to Kafka.
pub(super) fn commit_offset(port: u16, group: &str) {
    assert_eq!(try_commit(port, group, ""), 0);
}

/// The same with a text beside it; the error.
pub(super) fn try_commit(port: u16, group: &str, metadata: &str) -> i16 {
    let metadata = Some(metadata.to_owned().into());
    let partition =
        OffsetCommitRequestPartition { committed_offset: 7, committed_metadata: metadata, ..Default::default() };
    let topic = OffsetCommitRequestTopic { name: "in".into(), partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: group.to_owned().into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let answer = connect(port).call_version(&request, 8).expect("the server answers");
    answer.decode().expect("an answer").topics[0].partitions[0].error_code
}

/// A member of a group that reads topic `in`.
pub(super) struct Member {
    connection: Connection,
    group: String,
    id: String,
    pub(super) epoch: i32,
    owned: Vec<i32>,
}

impl Member {
    pub(super) fn join(port: u16, group: &str, id: &str) -> Self {
        let (group, id) = (group.to_owned(), id.to_owned());
        let mut member = Self { connection: connect(port), group, id, epoch: 0, owned: Vec::new() };
        let source = Subtopology { subtopology_id: "0".into(), source_topics: vec!["in".into()], ..Default::default() };
        let topology = Topology { epoch: 0, subtopologies: vec![source], ..Default::default() };
        member.send(StreamsGroupHeartbeatRequest {
            topology: Some(topology),
            rebalance_timeout_ms: 60_000,
            process_id: Some(format!("process-of-{}", member.id).into()),
            ..member.report()
        });
        member
    }

    /// Reports until it has the tasks that it shall have.
    pub(super) fn settle(&mut self, tasks: usize) {
        let deadline = Instant::now() + LIMIT;
        while self.owned.len() != tasks || self.beat().error_code != 0 {
            assert!(Instant::now() < deadline, "{} has {:?} and not {tasks} tasks", self.id, self.owned);
            self.beat();
        }
    }

    /// Reports what it has.
    pub(super) fn beat(&mut self) -> StreamsGroupHeartbeatResponse<'static> {
        let report = self.report();
        self.send(report)
    }

    pub(super) fn leave(&mut self) {
        self.epoch = -1;
        self.owned.clear();
        self.beat();
    }

    fn report(&self) -> StreamsGroupHeartbeatRequest<'static> {
        let owned = TaskIds { subtopology_id: "0".into(), partitions: self.owned.clone(), ..Default::default() };
        let active = if self.owned.is_empty() { Vec::new() } else { vec![owned] };
        StreamsGroupHeartbeatRequest {
            group_id: self.group.clone().into(),
            member_id: self.id.clone().into(),
            member_epoch: self.epoch,
            active_tasks: Some(active),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
            ..Default::default()
        }
    }

    fn send(&mut self, request: StreamsGroupHeartbeatRequest<'static>) -> StreamsGroupHeartbeatResponse<'static> {
        let answer = self.connection.call(&request).expect("the server answers");
        let response = answer.decode().expect("an answer").into_owned();
        if response.error_code == 0 {
            self.epoch = response.member_epoch;
            if let Some(tasks) = &response.active_tasks {
                self.owned = tasks.iter().flat_map(|tasks| tasks.partitions.clone()).collect();
            }
        }
        response
    }
}
