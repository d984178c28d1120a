//! Classic members of scripts, between the machine's types and those of the script language.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use riparian_testkit as script;
use riparian_testkit::{ClassicBody, ClassicWords, JoinAnswer, LeaveAnswer, Metadata, SyncAnswer};
use riparian_types::{Generation, TopicName, machine::Waiter};

use super::script::{Lines, Run};
use crate::{
    classic::{LeavingMember, MemberAssignment, Protocol},
    command::{Caller, ClassicHeartbeat, ClassicJoin, ClassicSync, Command, JoinSupport},
    record::{ClassicGroupValue, ClassicMemberValue},
    reply::{
        ClassicDescription, ClassicJoinError, ClassicJoinRefusal, ClassicJoinReply, ClassicMemberError,
        ClassicSyncReply, Reply,
    },
};

/// How long an answer may be on its way.
const ANSWER_LIMIT_MS: u64 = 30_000;
/// The first versions of JoinGroup that can do these.
const JOIN_WITH_GIVEN_ID: i16 = 4;
const JOIN_SKIPPING_ASSIGNMENT: i16 = 9;
const JOIN_TELLING_TYPE: i16 = 7;
const SYNC_TELLING_TYPE: i16 = 5;

/// A command whose answer was not waited for.
pub(super) struct Parked {
    version: i16,
    waiter: Waiter,
    /// Of a leave: who leaves.
    leaving: Vec<(String, Option<String>)>,
}

impl Run {
    pub(super) fn classic(&mut self, words: &ClassicWords) -> Lines {
        let request = self.printer.classic.request(words).map_err(|error| error.to_string())?;
        let version = request.version.unwrap_or(i16::MAX);
        let group_id = request.group_id.as_str().into();
        let leaving = match &request.body {
            ClassicBody::Leave { members, .. } => members.clone(),
            ClassicBody::Join { .. } | ClassicBody::Sync { .. } | ClassicBody::Beat { .. } => Vec::new(),
        };
        self.fresh_ids += 1;
        let fresh_id = format!("{:04}", self.fresh_ids);
        let step = self.driver.command(|waiter| match request.body {
            ClassicBody::Join {
                member_id,
                instance_id,
                session_timeout_ms,
                rebalance_timeout_ms,
                protocol_type,
                protocols,
                reason: _,
            } => Command::ClassicJoin(
                waiter,
                ClassicJoin {
                    caller: Caller { client_id: "client".into(), client_host: "/127.0.0.1".into(), connection: 0 },
                    support: JoinSupport {
                        given_id: version >= JOIN_WITH_GIVEN_ID,
                        skip_assignment: version >= JOIN_SKIPPING_ASSIGNMENT,
                    },
                    group_id,
                    member_id: member_id.into(),
                    fresh_id,
                    instance_id: instance_id.map(Into::into),
                    session_timeout_ms,
                    rebalance_timeout_ms,
                    protocol_type,
                    protocols: protocols.iter().map(protocol).collect(),
                }
                .into(),
            ),
            ClassicBody::Sync { generation, member_id, instance_id, protocol_type, protocol, assignments } => {
                let tells = version >= SYNC_TELLING_TYPE;
                let assignment = |(member, given): (String, String)| MemberAssignment {
                    member_id: member.into(),
                    assignment: given.as_bytes().into(),
                };
                Command::ClassicSync(
                    waiter,
                    ClassicSync {
                        group_id,
                        member_id: member_id.into(),
                        instance_id: instance_id.map(Into::into),
                        generation: Generation(generation),
                        protocol_type: protocol_type.filter(|_| tells),
                        protocol: protocol.filter(|_| tells),
                        assignments: assignments.into_iter().map(assignment).collect(),
                    }
                    .into(),
                )
            }
            ClassicBody::Beat { generation, member_id, instance_id } => Command::ClassicHeartbeat(
                waiter,
                ClassicHeartbeat {
                    group_id,
                    member_id: member_id.into(),
                    instance_id: instance_id.map(Into::into),
                    generation: Generation(generation),
                },
            ),
            ClassicBody::Leave { members, .. } => {
                let leaving = |(id, instance): (String, Option<String>)| LeavingMember {
                    member_id: id.into(),
                    instance_id: instance.map(Into::into),
                };
                Command::ClassicLeave(waiter, group_id, members.into_iter().map(leaving).collect())
            }
        });
        let waiter = step.waiter;
        if let Some(reply) = step.reply {
            self.driver.answers.insert(waiter, reply);
        }
        let key = (words.group.clone(), words.member.clone());
        self.parked.insert(key, Parked { version, waiter, leaving });
        let mut records = step.records;
        let mut lines = Vec::new();
        if !words.is_parked {
            let (answer, later) = self.take_answer(&words.group, &words.member)?;
            lines = answer;
            records.extend(later);
        }
        lines.extend(self.written(&records));
        Ok(lines)
    }

    pub(super) fn answer_of(&mut self, group: &str, member: &str) -> Lines {
        let (mut lines, records) = self.take_answer(group, member)?;
        lines.extend(self.written(&records));
        Ok(lines)
    }

    pub(super) fn close_member(&mut self, group: &str, member: &str) -> Lines {
        let Some(Parked { waiter, .. }) = self.parked.remove(&(group.into(), member.into())) else {
            return Ok(Vec::new());
        };
        self.driver.waiting.remove(&waiter);
        let step = self.driver.command(|_| Command::GiveUp(group.into(), waiter));
        Ok(self.written(&step.records))
    }

    fn take_answer(&mut self, group: &str, member: &str) -> Result<(Vec<String>, Vec<crate::record::Record>), String> {
        let key = (String::from(group), String::from(member));
        let Parked { version, waiter, leaving } = self.parked.remove(&key).ok_or("nothing was asked")?;
        let (reply, records) = self.driver.await_answer(waiter, ANSWER_LIMIT_MS);
        let lines = match reply.ok_or_else(|| format!("{member} gets no answer"))? {
            Reply::ClassicJoin(result) => {
                let answer = join_answer(&result, version);
                self.printer.classic.learn(group, member, &answer);
                self.printer.classic.join_lines(&answer)
            }
            Reply::ClassicSync(result) => self.printer.classic.sync_lines(&sync_answer(&result, version)),
            Reply::ClassicLeave(Ok(outcomes)) => {
                let outcomes = outcomes.iter().map(|it| it.as_ref().err().map_or("", member_error).to_string());
                let members = leaving.into_iter().zip(outcomes).map(|((id, instance), error)| (id, instance, error));
                let answer = LeaveAnswer { error: String::new(), members: members.collect() };
                self.printer.classic.leave_lines(&answer)
            }
            Reply::ClassicLeave(Err(error)) => {
                let answer = LeaveAnswer { error: member_error(&error).into(), ..LeaveAnswer::default() };
                self.printer.classic.leave_lines(&answer)
            }
            reply => self.classic_reply(&reply),
        };
        Ok((lines, records))
    }

    pub(super) fn classic_reply(&self, reply: &Reply) -> Vec<String> {
        match reply {
            Reply::ClassicHeartbeat(result) => {
                script::ClassicMembers::beat_lines(result.as_ref().err().map_or("", member_error))
            }
            Reply::ClassicDescribe(Ok(described)) => self.printer.classic.description_lines(&description(described)),
            Reply::ClassicDescribe(Err(error)) => {
                alloc::vec![self.printer.error("GROUP_ID_NOT_FOUND", Some(&error.0))]
            }
            _ => Vec::new(),
        }
    }
}

fn protocol((name, metadata): &(String, Metadata)) -> Protocol {
    Protocol {
        name: name.clone(),
        metadata: metadata.to_bytes().into(),
        subscribed_topics: match metadata {
            Metadata::Topics(topics) => Some(topics.iter().map(|topic| TopicName::from(topic.as_str())).collect()),
            Metadata::Raw(_) => None,
        },
    }
}

fn sync_answer(result: &Result<ClassicSyncReply, ClassicMemberError>, version: i16) -> SyncAnswer {
    let tells = version >= SYNC_TELLING_TYPE;
    match result {
        Ok(reply) => SyncAnswer {
            error: String::new(),
            protocol_type: reply.protocol_type.clone().filter(|_| tells),
            protocol: reply.protocol.clone().filter(|_| tells),
            assignment: reply.assignment.to_vec(),
        },
        Err(error) => SyncAnswer { error: member_error(error).into(), ..SyncAnswer::default() },
    }
}

fn join_answer(result: &Result<ClassicJoinReply, ClassicJoinRefusal>, version: i16) -> JoinAnswer {
    let tells = version >= JOIN_TELLING_TYPE;
    match result {
        Ok(reply) => JoinAnswer {
            error: String::new(),
            generation: reply.generation.0,
            protocol_type: reply.protocol_type.clone().filter(|_| tells),
            protocol: reply.protocol.clone(),
            leader: reply.leader.to_string(),
            skip_assignment: reply.skip_assignment,
            member_id: reply.member_id.to_string(),
            members: reply
                .members
                .iter()
                .map(|it| {
                    let instance = it.instance_id.as_ref().map(ToString::to_string);
                    (it.member_id.to_string(), instance, Metadata::from_bytes(&it.metadata))
                })
                .collect(),
        },
        Err(refusal) => JoinAnswer {
            error: join_error(&refusal.error).into(),
            generation: -1,
            member_id: refusal.member_id.to_string(),
            ..JoinAnswer::default()
        },
    }
}

fn join_error(error: &ClassicJoinError) -> &'static str {
    match error {
        ClassicJoinError::InvalidGroupId => "INVALID_GROUP_ID",
        ClassicJoinError::InvalidSessionTimeout => "INVALID_SESSION_TIMEOUT",
        ClassicJoinError::MemberIdRequired => "MEMBER_ID_REQUIRED",
        ClassicJoinError::UnknownMemberId => "UNKNOWN_MEMBER_ID",
        ClassicJoinError::FencedInstanceId => "FENCED_INSTANCE_ID",
        ClassicJoinError::InconsistentGroupProtocol => "INCONSISTENT_GROUP_PROTOCOL",
        ClassicJoinError::GroupMaxSizeReached => "GROUP_MAX_SIZE_REACHED",
        ClassicJoinError::Superseded => "REBALANCE_IN_PROGRESS",
        ClassicJoinError::Internal(_) => "UNKNOWN_SERVER_ERROR",
    }
}

fn member_error(error: &ClassicMemberError) -> &'static str {
    match error {
        ClassicMemberError::InvalidGroupId => "INVALID_GROUP_ID",
        ClassicMemberError::UnknownMemberId => "UNKNOWN_MEMBER_ID",
        ClassicMemberError::FencedInstanceId => "FENCED_INSTANCE_ID",
        ClassicMemberError::IllegalGeneration => "ILLEGAL_GENERATION",
        ClassicMemberError::InconsistentGroupProtocol => "INCONSISTENT_GROUP_PROTOCOL",
        ClassicMemberError::RebalanceInProgress => "REBALANCE_IN_PROGRESS",
        ClassicMemberError::Internal(_) => "UNKNOWN_SERVER_ERROR",
    }
}

fn description(described: &ClassicDescription) -> script::ClassicDescription {
    script::ClassicDescription {
        state: described.state.name().into(),
        protocol_type: described.protocol_type.clone(),
        protocol: described.protocol.clone(),
        members: described
            .members
            .iter()
            .map(|it| script::ClassicMember {
                member_id: it.member_id.to_string(),
                instance_id: it.instance_id.as_ref().map(ToString::to_string),
                client_id: it.client_id.clone(),
                client_host: it.client_host.clone(),
                rebalance_timeout_ms: None,
                session_timeout_ms: None,
                metadata: Metadata::from_bytes(&it.metadata),
                assignment: it.assignment.to_vec(),
            })
            .collect(),
    }
}

pub(super) fn group(value: &ClassicGroupValue) -> script::ClassicGroup {
    script::ClassicGroup {
        protocol_type: value.protocol_type.clone(),
        generation: value.generation.0,
        protocol: value.protocol.clone(),
        leader: value.leader.as_ref().map(ToString::to_string),
        has_time: value.state_timestamp.is_some(),
        members: value.members.iter().map(member).collect(),
    }
}

fn member(value: &ClassicMemberValue) -> script::ClassicMember {
    script::ClassicMember {
        member_id: value.member_id.to_string(),
        instance_id: value.instance_id.as_ref().map(ToString::to_string),
        client_id: value.client_id.clone(),
        client_host: value.client_host.clone(),
        rebalance_timeout_ms: Some(value.rebalance_timeout_ms),
        session_timeout_ms: Some(value.session_timeout_ms),
        metadata: Metadata::from_bytes(&value.subscription),
        assignment: value.assignment.to_vec(),
    }
}
