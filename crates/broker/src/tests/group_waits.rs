//! Members that wait for their group, and what ends the wait besides the group.

use riparian_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest,
    join_group_request::JoinGroupRequestProtocol,
};

use super::*;

/// The last version in which a member joins without having been given an id.
const JOIN_AT_ONCE: i16 = 3;
const NOT_COORDINATOR: i16 = 16;
const NONE: i16 = 0;
/// `group.initial.rebalance.delay.ms`.
const DELAY_MS: u64 = 3000;

fn join_group(member: &str) -> JoinGroupRequest<'static> {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), metadata: b"x"[..].into(), ..Default::default() };
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: member.to_owned().into(),
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

fn joined(server: &Server, slot: u64) -> Option<(i16, String, usize)> {
    let bytes = server.reply(slot)?;
    let response: JoinGroupResponse<'_> = Server::decode::<JoinGroupRequest<'_>>(&bytes, JOIN_AT_ONCE);
    Some((response.error_code, response.member_id.to_string(), response.members.len()))
}

fn pass(server: &Server, ms: u64) {
    server.shell.now_ms.fetch_add(ms, Ordering::Relaxed);
    server.broker.on_time(server.shell.now());
    server.shell.run_jobs();
}

fn reconnect(server: &mut Server) -> Arc<Connection> {
    let next = server.broker.connected("127.0.0.1:5001".parse().unwrap(), "PLAINTEXT");
    std::mem::replace(&mut server.connection, next)
}

#[test]
fn a_member_waits_for_the_others_and_for_the_disk() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    let slot = server.send(&join_group(""), JOIN_AT_ONCE);
    server.shell.run_jobs();
    assert_eq!(joined(&server, slot), None);
    pass(&server, DELAY_MS);
    let (code, member, members) = joined(&server, slot).expect("an answer");
    assert_eq!((code, members), (NONE, 1));
    let sync = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: member.into(),
        ..SyncGroupRequest::default()
    };
    let slot = server.send(&sync, 0);
    assert_eq!(server.reply(slot), None, "the assignment is not durable yet");
    server.shell.run_jobs();
    assert!(server.reply(slot).is_some());
}

#[test]
fn a_connection_that_ends_takes_its_member_along_if_nobody_knows_it() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    let kept = server.send(&join_group(""), JOIN_AT_ONCE);
    let first = reconnect(&mut server);
    server.send(&join_group(""), JOIN_AT_ONCE);
    let second = reconnect(&mut server);
    server.broker.disconnected(server.shell.now(), &second);
    pass(&server, DELAY_MS);
    pass(&server, DELAY_MS);
    server.connection = first;
    let (code, _, members) = joined(&server, kept).expect("an answer");
    assert_eq!((code, members), (NONE, 1));
    // Its slot had no reply, and none is kept for it.
    assert!(server.shell.replies.lock().unwrap().is_empty());
}

#[test]
fn a_client_in_a_hurry_is_told_to_look_elsewhere() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    let before = server.send(&join_group(""), JOIN_AT_ONCE);
    server.broker.hurry(server.shell.now(), &server.connection);
    let after = server.send(&join_group(""), JOIN_AT_ONCE);
    server.shell.run_jobs();
    for slot in [before, after] {
        assert_eq!(joined(&server, slot).map(|(code, ..)| code), Some(NOT_COORDINATOR));
    }
    // Nothing comes after that.
    pass(&server, DELAY_MS);
    assert!(server.shell.replies.lock().unwrap().is_empty());
}

#[test]
fn everybody_who_waits_is_turned_away_when_the_shard_is_lost() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    let slot = server.send(&join_group(""), JOIN_AT_ONCE);
    server.shell.run_jobs();
    assert_eq!(joined(&server, slot), None);
    // Another group of the same shard cannot be written.
    disk.set_faults(MemFaults { sync_fails: true, ..MemFaults::default() });
    let other = JoinGroupRequest { group_id: "k".into(), ..join_group("") };
    let lost = server.send(&other, JOIN_AT_ONCE);
    server.shell.run_jobs();
    disk.set_faults(MemFaults::default());
    for slot in [slot, lost] {
        assert_eq!(joined(&server, slot).map(|(code, ..)| code), Some(NOT_COORDINATOR));
    }
    // Loading is tried again after a second.
    pass(&server, 1000);
    let beat = HeartbeatRequest { group_id: "g".into(), member_id: "m".into(), ..HeartbeatRequest::default() };
    assert_eq!(server.ask(&beat, 0, |response| response.error_code), 25, "loaded again, without members");
}
