//! What members tell of how far their tasks are, and what stays when they say nothing.

use riparian_protocol::messages::streams_group_heartbeat_request::TaskOffset;

use super::*;

const SETTINGS: [(&str, &str); 2] =
    [("group.streams.initial.rebalance.delay.ms", "0"), ("group.streams.assignment.interval.ms", "0")];

/// Partition and offset of every task of the only subtopology that is told.
type Told = Option<&'static [(i32, i64)]>;

fn offsets(told: Told) -> Option<Vec<TaskOffset<'static>>> {
    let offset = |&(partition, offset): &(i32, i64)| TaskOffset {
        subtopology_id: "0".into(),
        partition,
        offset,
        ..Default::default()
    };
    Some(told?.iter().map(offset).collect())
}

fn beat(server: &mut Server, epoch: i32, current: Told, ends: Told) -> i32 {
    let request = StreamsGroupHeartbeatRequest {
        group_id: "app".into(),
        member_id: "m".into(),
        member_epoch: epoch,
        task_offsets: offsets(current),
        task_end_offsets: offsets(ends),
        ..Default::default()
    };
    server.ask(&request, 1, |r| {
        assert_eq!(r.error_code, 0, "{:?}", r.error_message);
        r.member_epoch
    })
}

/// What the description of the group says of the member's tasks: offsets and end offsets.
fn described(server: &mut Server) -> [Vec<(i32, i64)>; 2] {
    let request = StreamsGroupDescribeRequest { group_ids: vec!["app".into()], ..Default::default() };
    server.ask(&request, 0, |r| {
        let member = &r.groups[0].members[0];
        let current = member.task_offsets.iter().map(|task| (task.partition, task.offset)).collect();
        let ends = member.task_end_offsets.iter().map(|task| (task.partition, task.offset)).collect();
        [current, ends]
    })
}

#[test]
fn a_05_unchanged_offsets_of_tasks_are_not_none() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_with(&disk, &SETTINGS);
    server.create_topic("words", 3);
    let epoch = server.ask(&join("m"), 1, |r| r.member_epoch);
    let epoch = beat(&mut server, epoch, None, None);
    assert_eq!(described(&mut server), [vec![], vec![]]);

    beat(&mut server, epoch, Some(&[(0, 5), (1, 7)]), Some(&[(0, 50), (1, 70)]));
    let both = [vec![(0, 5), (1, 7)], vec![(0, 50), (1, 70)]];
    assert_eq!(described(&mut server), both);
    for _ in 0..10 {
        beat(&mut server, epoch, None, None);
        assert_eq!(described(&mut server), both, "nothing said, nothing changed");
    }
    // Each of the two lists stands for itself, and is told as a whole.
    beat(&mut server, epoch, Some(&[(0, 6)]), None);
    assert_eq!(described(&mut server), [vec![(0, 6)], vec![(0, 50), (1, 70)]]);
    beat(&mut server, epoch, None, Some(&[(2, 9)]));
    assert_eq!(described(&mut server), [vec![(0, 6)], vec![(2, 9)]]);
    // An empty list is something else than none.
    beat(&mut server, epoch, Some(&[]), None);
    assert_eq!(described(&mut server), [vec![], vec![(2, 9)]]);
    beat(&mut server, epoch, Some(&[(1, 1)]), Some(&[]));
    assert_eq!(described(&mut server), [vec![(1, 1)], vec![]]);

    // They are not written down: after a restart nobody knows, until the member says it again.
    drop(server);
    let mut server = Server::start_with(&disk, &SETTINGS);
    assert_eq!(beat(&mut server, epoch, None, None), epoch);
    assert_eq!(described(&mut server), [vec![], vec![]]);
    beat(&mut server, epoch, Some(&[(1, 2)]), None);
    assert_eq!(described(&mut server), [vec![(1, 2)], vec![]]);
}

#[test]
fn a_05_a_rejoin_without_offsets_tells_nothing_new() {
    let mut server = Server::start_with(&Arc::new(MemDisk::new()), &SETTINGS);
    server.create_topic("words", 3);
    let epoch = server.ask(&join("m"), 1, |r| r.member_epoch);
    let epoch = beat(&mut server, epoch, None, None);
    beat(&mut server, epoch, Some(&[(0, 5)]), Some(&[(0, 50)]));
    // The answer to its first join was lost, it says.
    assert_eq!(server.ask(&join("m"), 1, |r| r.error_code), 0);
    assert_eq!(described(&mut server), [vec![(0, 5)], vec![(0, 50)]]);
    // A request that is refused changes nothing either.
    let refused = StreamsGroupHeartbeatRequest {
        group_id: "app".into(),
        member_id: "m".into(),
        member_epoch: epoch + 7,
        task_offsets: offsets(Some(&[(0, 9)])),
        ..Default::default()
    };
    assert_ne!(server.ask(&refused, 1, |r| r.error_code), 0);
    assert_eq!(described(&mut server), [vec![(0, 5)], vec![(0, 50)]]);
}
