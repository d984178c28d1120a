//! Classic members of a script: each has a connection of its own, because an answer may have to wait.

use std::sync::PoisonError;

use riparian_client::{Answer, Connection};
use riparian_protocol::{
    Request,
    messages::{
        DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol, leave_group_request::MemberIdentity,
        sync_group_request::SyncGroupRequestAssignment,
    },
};
use riparian_testkit::{
    ClassicBody, ClassicDescription, ClassicMember, ClassicMembers, ClassicWords, JoinAnswer, LeaveAnswer, Metadata,
    SyncAnswer,
};

use crate::{
    barrier,
    session::{Lines, Session, failed},
};

/// Round trips after which a request that was sent before them has been looked at: one until it was read, one until it
/// was handed to the coordinator, and one for a thread that was slow.
const ROUND_TRIPS: u32 = 3;
const LEAVE_BY_ONE: i16 = 2;

/// A classic member's connection, and what it has asked for there.
pub(crate) struct Waiting {
    connection: Connection,
    asked: Option<Asked>,
}

enum Asked {
    Join,
    Sync,
    Beat,
    Leave(Vec<(String, Option<String>)>),
}

impl Session<'_> {
    pub(crate) fn classic(&mut self, words: &ClassicWords) -> Lines {
        self.listen_to(&words.group);
        let mut request = self.printer.classic.request(words).map_err(failed)?;
        if let ClassicBody::Join { protocols, .. } = &mut request.body {
            for (_, metadata) in protocols {
                metadata.rename(|topic| self.real(topic));
            }
        }
        let group = self.real(&request.group_id);
        let key = (words.group.clone(), words.member.clone());
        if !self.classic.contains_key(&key) {
            let port = self.server.lock().unwrap_or_else(PoisonError::into_inner).port();
            let connection = barrier::connect(port).map_err(failed)?;
            self.classic.insert(key.clone(), Waiting { connection, asked: None });
        }
        let waiting = self.classic.get_mut(&key).ok_or("it was just put there")?;
        if waiting.asked.is_some() {
            return Err(format!("{} is still waiting for an answer", words.member));
        }
        waiting.send(group, request.version, request.body)?;
        let lines = if words.is_parked { Vec::new() } else { self.answer_of(&words.group, &words.member)? };
        // Kafka gives an id before it has written that there is a group.
        self.let_it_arrive(&words.group)?;
        Ok(lines)
    }

    /// A request on another connection has reached the coordinator once later ones on this connection have.
    fn let_it_arrive(&mut self, group: &str) -> Result<(), String> {
        let group = self.real(group);
        for _ in 0..ROUND_TRIPS {
            let beat = HeartbeatRequest { group_id: group.clone().into(), ..HeartbeatRequest::default() };
            self.connection()?.call(&beat).map_err(failed)?;
        }
        Ok(())
    }

    pub(crate) fn answer_of(&mut self, group: &str, member: &str) -> Lines {
        let waiting = self.classic.get_mut(&(group.to_owned(), member.to_owned())).ok_or("nothing was asked")?;
        let asked = waiting.asked.take().ok_or("nothing was asked")?;
        let connection = &mut waiting.connection;
        match asked {
            Asked::Join => {
                let answer = receive::<JoinGroupRequest<'_>>(connection)?;
                let response = answer.decode().map_err(failed)?;
                let members = response.members.iter().map(|it| {
                    let mut metadata = Metadata::from_bytes(&it.metadata);
                    metadata.rename(|topic| self.short(topic));
                    (it.member_id.to_string(), it.group_instance_id.as_ref().map(ToString::to_string), metadata)
                });
                let answer = JoinAnswer {
                    error: self.error_or_nothing(response.error_code),
                    generation: response.generation_id,
                    protocol_type: response.protocol_type.as_ref().map(ToString::to_string),
                    protocol: response.protocol_name.as_ref().map(ToString::to_string),
                    leader: response.leader.to_string(),
                    skip_assignment: response.skip_assignment,
                    member_id: response.member_id.to_string(),
                    members: members.collect(),
                };
                self.printer.classic.learn(group, member, &answer);
                Ok(self.printer.classic.join_lines(&answer))
            }
            Asked::Sync => {
                let answer = receive::<SyncGroupRequest<'_>>(connection)?;
                let response = answer.decode().map_err(failed)?;
                let answer = SyncAnswer {
                    error: self.error_or_nothing(response.error_code),
                    protocol_type: response.protocol_type.as_ref().map(ToString::to_string),
                    protocol: response.protocol_name.as_ref().map(ToString::to_string),
                    assignment: response.assignment.to_vec(),
                };
                Ok(self.printer.classic.sync_lines(&answer))
            }
            Asked::Beat => {
                let answer = receive::<HeartbeatRequest<'_>>(connection)?;
                let response = answer.decode().map_err(failed)?;
                Ok(ClassicMembers::beat_lines(&self.error_or_nothing(response.error_code)))
            }
            Asked::Leave(asked) => {
                let answer = receive::<LeaveGroupRequest<'_>>(connection)?;
                let response = answer.decode().map_err(failed)?;
                let members: Vec<_> = response
                    .members
                    .iter()
                    .map(|it| {
                        let instance = it.group_instance_id.as_ref().map(ToString::to_string);
                        (it.member_id.to_string(), instance, self.error_or_nothing(it.error_code))
                    })
                    .collect();
                let echoed = members.iter().map(|(id, instance, _)| (id.clone(), instance.clone()));
                if !members.is_empty() && !echoed.eq(asked) {
                    return Err(format!("the answer is about others: {members:?}"));
                }
                let answer = LeaveAnswer { error: self.error_or_nothing(response.error_code), members };
                Ok(self.printer.classic.leave_lines(&answer))
            }
        }
    }

    pub(crate) fn close_member(&mut self, group: &str, member: &str) -> Lines {
        self.classic.remove(&(group.to_owned(), member.to_owned()));
        Ok(Vec::new())
    }

    pub(crate) fn describe_classic(&mut self, group: &str) -> Lines {
        let request = DescribeGroupsRequest { groups: vec![self.real(group).into()], ..Default::default() };
        let answer = self.connection()?.call(&request).map_err(failed)?;
        let response = answer.decode().map_err(failed)?;
        let group = response.groups.first().ok_or("no group in the answer")?;
        if group.error_code != 0 {
            return Ok(vec![self.error(group.error_code, group.error_message.as_deref())]);
        }
        let members = group.members.iter().map(|it| {
            let mut metadata = Metadata::from_bytes(&it.member_metadata);
            metadata.rename(|topic| self.short(topic));
            ClassicMember {
                member_id: it.member_id.to_string(),
                instance_id: it.group_instance_id.as_ref().map(ToString::to_string),
                client_id: it.client_id.to_string(),
                client_host: it.client_host.to_string(),
                rebalance_timeout_ms: None,
                session_timeout_ms: None,
                metadata,
                assignment: it.member_assignment.to_vec(),
            }
        });
        let described = ClassicDescription {
            state: group.group_state.to_string(),
            protocol_type: group.protocol_type.to_string(),
            protocol: group.protocol_data.to_string(),
            members: members.collect(),
        };
        Ok(self.printer.classic.description_lines(&described))
    }

    fn error_or_nothing(&self, code: i16) -> String {
        if code == 0 { String::new() } else { self.error(code, None) }
    }
}

impl Waiting {
    fn send(&mut self, group: String, version: Option<i16>, body: ClassicBody) -> Result<(), String> {
        let asked = match body {
            ClassicBody::Join {
                member_id,
                instance_id,
                session_timeout_ms,
                rebalance_timeout_ms,
                protocol_type,
                protocols,
                reason,
            } => {
                let protocol = |(name, metadata): (String, Metadata)| JoinGroupRequestProtocol {
                    name: name.into(),
                    metadata: metadata.to_bytes().into(),
                    ..JoinGroupRequestProtocol::default()
                };
                let request = JoinGroupRequest {
                    group_id: group.into(),
                    session_timeout_ms,
                    rebalance_timeout_ms,
                    member_id: member_id.into(),
                    group_instance_id: instance_id.map(Into::into),
                    protocol_type: protocol_type.into(),
                    protocols: protocols.into_iter().map(protocol).collect(),
                    reason: reason.map(Into::into),
                    ..JoinGroupRequest::default()
                };
                send(&mut self.connection, &request, version)?;
                Asked::Join
            }
            ClassicBody::Sync { generation, member_id, instance_id, protocol_type, protocol, assignments } => {
                let assignment = |(member, given): (String, String)| SyncGroupRequestAssignment {
                    member_id: member.into(),
                    assignment: given.into_bytes().into(),
                    ..SyncGroupRequestAssignment::default()
                };
                let request = SyncGroupRequest {
                    group_id: group.into(),
                    generation_id: generation,
                    member_id: member_id.into(),
                    group_instance_id: instance_id.map(Into::into),
                    protocol_type: protocol_type.map(Into::into),
                    protocol_name: protocol.map(Into::into),
                    assignments: assignments.into_iter().map(assignment).collect(),
                    ..SyncGroupRequest::default()
                };
                send(&mut self.connection, &request, version)?;
                Asked::Sync
            }
            ClassicBody::Beat { generation, member_id, instance_id } => {
                let request = HeartbeatRequest {
                    group_id: group.into(),
                    generation_id: generation,
                    member_id: member_id.into(),
                    group_instance_id: instance_id.map(Into::into),
                    ..HeartbeatRequest::default()
                };
                send(&mut self.connection, &request, version)?;
                Asked::Beat
            }
            ClassicBody::Leave { members, reason } => {
                let by_one = version.is_some_and(|version| version <= LEAVE_BY_ONE);
                let identity = |(id, instance): &(String, Option<String>)| MemberIdentity {
                    member_id: id.clone().into(),
                    group_instance_id: instance.clone().map(Into::into),
                    reason: reason.clone().map(Into::into),
                    ..MemberIdentity::default()
                };
                let request = LeaveGroupRequest {
                    group_id: group.into(),
                    member_id: members.first().filter(|_| by_one).map(|(id, _)| id.clone()).unwrap_or_default().into(),
                    members: if by_one { Vec::new() } else { members.iter().map(identity).collect() },
                    ..LeaveGroupRequest::default()
                };
                send(&mut self.connection, &request, version)?;
                Asked::Leave(members)
            }
        };
        self.asked = Some(asked);
        Ok(())
    }
}

fn send<'a, R: Request<'a>>(connection: &mut Connection, request: &R, version: Option<i16>) -> Result<(), String> {
    let version = match version {
        Some(version) => version,
        None => connection.version(R::API_KEY, R::VERSIONS).map_err(failed)?,
    };
    connection.send(request, version).map(|_| ()).map_err(failed)
}

fn receive<'a, R: Request<'a>>(connection: &mut Connection) -> Result<Answer<R>, String> {
    connection.receive_answer().map_err(failed)
}
