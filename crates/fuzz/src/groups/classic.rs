//! Members of classic groups: those that remember what they were told, and any others.

use riparian_coordinator::subscribed_topics;
use riparian_group::{
    classic::{LeavingMember, MemberAssignment, Protocol},
    command::{Caller, ClassicHeartbeat, ClassicJoin, ClassicSync, JoinSupport},
    reply::Reply,
};
use riparian_types::{Generation, InstanceId, MemberId};

use crate::input::Input;

/// Timeouts from the shortest to such as are refused.
const TIMEOUTS_MS: [i32; 6] = [10_000, 6_000, 45_000, 300_000, 5_999, -1];
/// What consumers say: versions, topics, garbage.
const SUBSCRIPTIONS: [&[u8]; 4] =
    [b"\0\0\0\0\0\x01\0\x02in", b"\0\x01\0\0\0\x02\0\x02in\0\x03in2", b"\0\0\0\0\0\0", b"?"];

/// What a member knows.
#[derive(Debug, Default)]
pub(super) struct ClassicClient {
    member_id: MemberId,
    generation: Generation,
    instance: Option<InstanceId>,
    protocol: Option<String>,
    protocol_type: String,
    /// Of the leader: who is in the group.
    members: Vec<MemberId>,
}

impl ClassicClient {
    pub(super) fn join(&mut self, group: &str, number: u64, fresh: u64, input: &mut Input<'_>) -> ClassicJoin {
        let is_new = input.chance(4);
        if is_new {
            *self = Self { instance: input.chance(2).then(|| instance(input)), ..Self::default() };
        }
        if self.protocol_type.is_empty() || is_new {
            input.pick(&["consumer", "consumer", "connect", ""]).clone_into(&mut self.protocol_type);
        }
        ClassicJoin {
            caller: caller(number),
            support: JoinSupport { given_id: !input.chance(3), skip_assignment: input.bool() },
            group_id: group.into(),
            member_id: self.member_id.clone(),
            fresh_id: format!("{fresh}"),
            instance_id: self.instance.clone(),
            session_timeout_ms: input.pick(&TIMEOUTS_MS),
            rebalance_timeout_ms: input.pick(&TIMEOUTS_MS),
            protocol_type: self.protocol_type.clone(),
            protocols: protocols(&self.protocol_type, input),
        }
    }

    /// The leader gives everybody something.
    pub(super) fn sync(&self, group: &str, input: &mut Input<'_>) -> ClassicSync {
        let assignment = |member: &MemberId| MemberAssignment {
            member_id: member.clone(),
            assignment: [&[0, 0], member.as_bytes()].concat().into(),
        };
        ClassicSync {
            group_id: group.into(),
            member_id: self.member_id.clone(),
            instance_id: self.instance.clone(),
            generation: self.generation,
            protocol_type: input.bool().then(|| self.protocol_type.clone()),
            protocol: if input.bool() { self.protocol.clone() } else { None },
            assignments: self.members.iter().map(assignment).collect(),
        }
    }

    pub(super) fn heartbeat(&self, group: &str) -> ClassicHeartbeat {
        ClassicHeartbeat {
            group_id: group.into(),
            member_id: self.member_id.clone(),
            instance_id: self.instance.clone(),
            generation: self.generation,
        }
    }

    pub(super) fn leave(&mut self) -> LeavingMember {
        let left = std::mem::take(self);
        LeavingMember { member_id: left.member_id, instance_id: left.instance }
    }

    pub(super) fn id_and_generation(&self) -> (MemberId, Generation) {
        (self.member_id.clone(), self.generation)
    }

    pub(super) fn learn(&mut self, reply: Reply) {
        match reply {
            Reply::ClassicJoin(Ok(reply)) => {
                assert!(reply.members.is_empty() || reply.leader == reply.member_id, "{reply:?}");
                (self.member_id, self.generation, self.protocol) = (reply.member_id, reply.generation, reply.protocol);
                self.members = reply.members.into_iter().map(|member| member.member_id).collect();
            }
            // Either the id that was sent, or the one to come back with.
            Reply::ClassicJoin(Err(refusal)) => self.member_id = refusal.member_id,
            Reply::ClassicSync(_) | Reply::ClassicHeartbeat(_) | Reply::ClassicLeave(_) => {}
            other => panic!("a member of a classic group is answered by {other:?}"),
        }
    }
}

/// A sync with anything in it.
pub(super) fn hostile_sync(input: &mut Input<'_>, group: &str, client: &ClassicClient) -> ClassicSync {
    let mut sync = client.sync(group, input);
    match input.u8() % 5 {
        0 => sync.generation = Generation(input.number_i32()),
        1 => sync.member_id = input.pick(&["", "nobody"]).into(),
        2 => sync.instance_id = Some(instance(input)),
        3 => sync.protocol = Some("nothing".to_owned()),
        _ => sync
            .assignments
            .push(MemberAssignment { member_id: input.pick(&["", "nobody"]).into(), assignment: input.take(3).into() }),
    }
    sync
}

/// Somebody, or nobody, leaves.
pub(super) fn hostile_leave(input: &mut Input<'_>) -> LeavingMember {
    LeavingMember { member_id: input.pick(&["", "nobody"]).into(), instance_id: input.bool().then(|| instance(input)) }
}

pub(super) fn caller(number: u64) -> Caller {
    Caller { client_id: "client".into(), client_host: "/127.0.0.1".to_owned(), connection: number }
}

fn instance(input: &mut Input<'_>) -> InstanceId {
    input.pick(&["i", "j", ""]).into()
}

fn protocols(protocol_type: &str, input: &mut Input<'_>) -> Vec<Protocol> {
    let protocols = (0..1 + input.below(3)).map(|_| {
        let metadata = if input.chance(4) { input.take(6) } else { input.pick(&SUBSCRIPTIONS) };
        Protocol {
            name: input.pick(&["range", "cooperative-sticky", "", "x"]).to_owned(),
            metadata: metadata.into(),
            subscribed_topics: subscribed_topics(protocol_type, metadata),
        }
    });
    let mut protocols: Vec<_> = protocols.collect();
    if input.chance(8) {
        protocols.clear();
    }
    protocols
}
