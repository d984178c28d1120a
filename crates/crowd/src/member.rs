//! A member of a streams group as a client would be one, without topics and records (KIP-1071).
//!
//! It joins with its topology, takes the tasks that it is told at once, gives up at once what it is not told any more,
//! and reports both with its next heartbeat, which then is due at once. It does not know sockets or clocks.
//!
//! **Invariant:** it owns what it was told and has not given back; a task is given back when the heartbeat that no longer
//! names it is sent.

use anyhow::{Context as _, Result};
use riparian_protocol::{
    ErrorCode, RequestHeader, ResponseHeader,
    messages::{
        StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, streams_group_heartbeat_request as heartbeat,
    },
};
use riparian_wire::{Reader, frame};

use crate::owners::Owners;

const VERSION: i16 = 1;
const SUBTOPOLOGY: &str = "0";
const STATUS_ASSIGNMENT_DELAYED: i8 = 5;
const REBALANCE_TIMEOUT_MS: i32 = 300_000;

/// A group with its members' view of who has what.
pub struct Group {
    pub id: String,
    /// The source topic, whose partitions are the tasks.
    pub topic: String,
    pub owners: Owners,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Has not joined, or has to join again.
    Outside,
    In,
    /// Has said that it leaves.
    Leaving,
    /// Has left, or has died.
    Gone,
}

pub struct Member {
    pub id: String,
    pub group: usize,
    pub link: usize,
    pub life: Life,
    pub wants_to_leave: bool,
    pub epoch: i32,
    pub interval_ms: u64,
    /// Requests without an answer.
    pub waiting: u32,
    /// The assignment is held back, as the server says.
    pub delayed: bool,
    /// What it was told and has not given back, ascending.
    held: Vec<i32>,
    /// What it was told last, ascending.
    assigned: Vec<i32>,
    /// There is something to report.
    pub has_news: bool,
    /// The report is under way.
    reporting: bool,
    /// The heartbeat that says nothing, and what was answered to it last.
    steady: Vec<u8>,
    steady_answer: Vec<u8>,
}

/// What an answer means for the group.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// As before.
    Nothing,
    /// Something that has to do with epochs or tasks.
    Change,
    /// An error with this code.
    Refused(i16),
}

impl Member {
    pub fn new(id: String, group: usize, link: usize) -> Self {
        Self {
            id,
            group,
            link,
            life: Life::Outside,
            wants_to_leave: false,
            epoch: 0,
            interval_ms: 5000,
            waiting: 0,
            delayed: false,
            held: Vec::new(),
            assigned: Vec::new(),
            has_news: false,
            reporting: false,
            steady: Vec::new(),
            steady_answer: Vec::new(),
        }
    }

    /// A member in the eyes of a server that always gives the same answer.
    pub fn of_echo(id: String, link: usize, request: Vec<u8>, answer_bytes: usize) -> Self {
        let steady_answer = vec![0; answer_bytes - frame::PREFIX_BYTES - 4];
        Self { life: Life::In, steady: request, steady_answer, ..Self::new(id, 0, link) }
    }

    /// It does what is expected and waits for nothing.
    pub fn is_settled(&self) -> bool {
        self.life == Life::In && !self.wants_to_leave && !self.delayed && !self.has_news && !self.reporting
    }

    /// The heartbeat that says nothing.
    pub fn steady_request(&self) -> &[u8] {
        &self.steady
    }

    /// Bytes of the answer to it, with the size.
    pub fn steady_answer_bytes(&self) -> usize {
        self.steady_answer.len() + frame::PREFIX_BYTES + 4
    }

    /// Writes its next request into `out`, unless it is the steady one, and does what goes with sending it. `own` is its
    /// number among the members.
    pub fn send<'a>(&'a mut self, own: usize, group: &mut Group, out: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        self.waiting += 1;
        if self.life == Life::In && !self.wants_to_leave && !self.has_news {
            return Ok(&self.steady);
        }
        let mut request = StreamsGroupHeartbeatRequest {
            group_id: group.id.as_str().into(),
            member_id: self.id.as_str().into(),
            member_epoch: self.epoch,
            ..StreamsGroupHeartbeatRequest::default()
        };
        let topology = [group.topic.as_str()];
        if self.wants_to_leave {
            self.life = Life::Leaving;
            request.member_epoch = -1;
            give_back(&mut self.held, |_| false, own, &mut group.owners);
        } else {
            if self.life == Life::Outside {
                give_back(&mut self.held, |_| false, own, &mut group.owners);
                self.assigned.clear();
                request.member_epoch = 0;
                request.endpoint_information_epoch = -1;
                request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS;
                request.process_id = Some(self.id.as_str().into());
                request.client_tags = Some(Vec::new());
                let subtopology = heartbeat::Subtopology {
                    subtopology_id: SUBTOPOLOGY.into(),
                    source_topics: topology.iter().map(|&name| name.into()).collect(),
                    ..heartbeat::Subtopology::default()
                };
                request.topology = Some(heartbeat::Topology { subtopologies: vec![subtopology], ..Default::default() });
            }
            let assigned = &self.assigned;
            give_back(&mut self.held, |task| assigned.binary_search(&task).is_ok(), own, &mut group.owners);
            let tasks = heartbeat::TaskIds {
                subtopology_id: SUBTOPOLOGY.into(),
                partitions: self.assigned.clone(),
                ..heartbeat::TaskIds::default()
            };
            request.active_tasks = Some(if self.assigned.is_empty() { Vec::new() } else { vec![tasks] });
            request.standby_tasks = Some(Vec::new());
            request.warmup_tasks = Some(Vec::new());
            self.has_news = false;
            self.reporting = true;
        }
        out.clear();
        encode(&request, out)?;
        Ok(out)
    }

    /// Takes an answer, with its header. Violations of what a group may do go to `wrong`.
    pub fn hear(&mut self, own: usize, group: &mut Group, answer: &[u8], wrong: &mut Vec<String>) -> Result<Heard> {
        self.waiting -= 1;
        if self.life == Life::Gone {
            return Ok(Heard::Nothing);
        }
        let was_reporting = std::mem::take(&mut self.reporting);
        // An answer that is the same as the last one to a heartbeat that said nothing.
        if !was_reporting && answer.get(4..) == Some(&self.steady_answer) {
            return Ok(Heard::Nothing);
        }
        let mut reader = Reader::new(answer);
        let response = ResponseHeader::decode(&mut reader, StreamsGroupHeartbeatRequest::API_KEY, VERSION)
            .and_then(|_| StreamsGroupHeartbeatResponse::decode(&mut reader, VERSION))
            .context("an answer to a heartbeat is malformed")?;
        if response.error_code != 0 {
            self.refused(response.error_code);
            return Ok(Heard::Refused(response.error_code));
        }
        if self.life == Life::Leaving {
            self.life = Life::Gone;
            return Ok(Heard::Change);
        }
        let delayed = response.status.iter().flatten().any(|status| status.status_code == STATUS_ASSIGNMENT_DELAYED);
        let changed = was_reporting
            || self.life != Life::In
            || self.epoch != response.member_epoch
            || self.delayed != delayed
            || response.active_tasks.is_some();
        self.life = Life::In;
        self.delayed = delayed;
        self.interval_ms = u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(1);
        if self.epoch != response.member_epoch || self.steady.is_empty() {
            self.epoch = response.member_epoch;
            self.steady = steady(&group.id, &self.id, self.epoch)?;
        }
        self.steady_answer.clear();
        match &response.active_tasks {
            None => self.steady_answer.extend_from_slice(&answer[4..]),
            Some(tasks) => {
                let mut assigned: Vec<i32> = tasks.iter().flat_map(|tasks| &tasks.partitions).copied().collect();
                assigned.sort_unstable();
                wrong.extend(assigned.iter().filter_map(|&task| {
                    let text = group.owners.told(task, own)?;
                    Some(format!("group {}: {text}", group.id))
                }));
                if assigned != self.assigned {
                    self.has_news = true;
                    self.held.extend_from_slice(&assigned);
                    self.held.sort_unstable();
                    self.held.dedup();
                    self.assigned = assigned;
                }
            }
        }
        Ok(if changed { Heard::Change } else { Heard::Nothing })
    }

    fn refused(&mut self, code: i16) {
        self.steady_answer.clear();
        let must_join_again = matches!(
            ErrorCode::from_code(code),
            Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::GroupIdNotFound)
        );
        if self.life == Life::Leaving {
            self.life = if must_join_again { Life::Gone } else { Life::In };
        } else if must_join_again {
            self.life = Life::Outside;
        } else {
            // What it said may not have been heard.
            self.has_news = true;
        }
    }

    /// Its connection broke: like a client it says all over again what it has.
    pub fn forget_delivery(&mut self) {
        self.has_news = true;
        self.reporting = false;
    }

    /// It stops without a word.
    pub fn die(&mut self, own: usize, group: &mut Group) {
        self.life = Life::Gone;
        give_back(&mut self.held, |_| false, own, &mut group.owners);
    }

    pub fn assigned(&self) -> &[i32] {
        &self.assigned
    }
}

/// Gives back the tasks that are not kept.
fn give_back(held: &mut Vec<i32>, is_kept: impl Fn(i32) -> bool, own: usize, owners: &mut Owners) {
    held.retain(|&task| {
        let kept = is_kept(task);
        if !kept {
            owners.given_back(task, own);
        }
        kept
    });
}

fn steady(group: &str, member: &str, epoch: i32) -> Result<Vec<u8>> {
    let request = StreamsGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: member.into(),
        member_epoch: epoch,
        ..StreamsGroupHeartbeatRequest::default()
    };
    let mut out = Vec::new();
    encode(&request, &mut out)?;
    Ok(out)
}

/// A frame whose number is still to be given.
fn encode(request: &StreamsGroupHeartbeatRequest<'_>, out: &mut Vec<u8>) -> Result<()> {
    let header = RequestHeader {
        api_key: StreamsGroupHeartbeatRequest::API_KEY.code(),
        api_version: VERSION,
        client_id: Some("bench".into()),
        ..RequestHeader::default()
    };
    let start = frame::start(out);
    header.encode(out)?;
    request.encode(out, VERSION)?;
    Ok(frame::finish(out, start)?)
}

#[cfg(test)]
mod tests {
    use riparian_protocol::messages::streams_group_heartbeat_response::TaskIds;

    use super::*;

    fn group() -> Group {
        Group { id: "g".to_owned(), topic: "t".to_owned(), owners: Owners::new(4) }
    }

    fn answer(epoch: i32, tasks: Option<&[i32]>) -> Vec<u8> {
        let response = StreamsGroupHeartbeatResponse {
            member_epoch: epoch,
            heartbeat_interval_ms: 5000,
            active_tasks: tasks.map(|tasks| {
                let partitions = tasks.to_vec();
                vec![TaskIds { subtopology_id: "0".into(), partitions, ..TaskIds::default() }]
            }),
            ..StreamsGroupHeartbeatResponse::default()
        };
        let mut out = Vec::new();
        ResponseHeader::new(0).encode(&mut out, StreamsGroupHeartbeatRequest::API_KEY, VERSION).unwrap();
        response.encode(&mut out, VERSION).unwrap();
        out
    }

    /// Sends what the member has to say and gives it this answer.
    fn exchange(member: &mut Member, own: usize, group: &mut Group, answer: &[u8]) -> (Heard, Vec<String>) {
        let mut wrong = Vec::new();
        member.send(own, group, &mut Vec::new()).unwrap();
        let heard = member.hear(own, group, answer, &mut wrong).unwrap();
        (heard, wrong)
    }

    #[test]
    fn a_task_is_given_back_with_the_report_that_lacks_it() {
        let mut group = group();
        let mut member = Member::new("m".to_owned(), 0, 0);
        assert_eq!(exchange(&mut member, 0, &mut group, &answer(1, Some(&[0, 1]))), (Heard::Change, vec![]));
        assert!(member.has_news && !member.is_settled());
        assert_eq!(exchange(&mut member, 0, &mut group, &answer(1, None)).0, Heard::Change);
        assert!(member.is_settled());
        assert_eq!(exchange(&mut member, 0, &mut group, &answer(1, None)).0, Heard::Nothing);

        assert_eq!(exchange(&mut member, 0, &mut group, &answer(1, Some(&[1]))).0, Heard::Change);
        assert!(group.owners.told(0, 1).is_some(), "it still has the task");
        exchange(&mut member, 0, &mut group, &answer(2, None));
        assert_eq!(group.owners.told(0, 1), None);
        assert_eq!((member.epoch, member.assigned()), (2, &[1][..]));
    }

    #[test]
    fn two_owners_are_noted() {
        let mut group = group();
        let mut members = [Member::new("a".to_owned(), 0, 0), Member::new("b".to_owned(), 0, 0)];
        exchange(&mut members[0], 0, &mut group, &answer(1, Some(&[0])));
        let (_, wrong) = exchange(&mut members[1], 1, &mut group, &answer(1, Some(&[0, 1])));
        assert_eq!(wrong.len(), 1, "{wrong:?}");
    }

    #[test]
    fn a_member_that_is_unknown_joins_again_and_has_nothing() {
        let mut group = group();
        let mut member = Member::new("m".to_owned(), 0, 0);
        exchange(&mut member, 0, &mut group, &answer(3, Some(&[0])));
        let refusal = StreamsGroupHeartbeatResponse {
            error_code: ErrorCode::UnknownMemberId.code(),
            ..StreamsGroupHeartbeatResponse::default()
        };
        let mut bytes = Vec::new();
        ResponseHeader::new(0).encode(&mut bytes, StreamsGroupHeartbeatRequest::API_KEY, VERSION).unwrap();
        refusal.encode(&mut bytes, VERSION).unwrap();
        assert_eq!(exchange(&mut member, 0, &mut group, &bytes).0, Heard::Refused(25));
        assert_eq!(member.life, Life::Outside);
        exchange(&mut member, 0, &mut group, &answer(4, Some(&[])));
        assert_eq!((member.life, group.owners.owned()), (Life::In, 0));
    }
}
