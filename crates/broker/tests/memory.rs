//! What thousands of small groups take of the heap.
//!
//! Bytes as they were asked for are counted, not what an allocator makes of them; the benchmark `groups` shows what the
//! process needs. The figures follow from the code alone, so a test that fails shows that a group has become larger.

#![expect(clippy::print_stdout, reason = "figures belong beside a failure")]

#[allow(dead_code, reason = "made for more than this")]
#[path = "../examples/support/harness.rs"]
mod harness;
#[path = "../../protocol/tests/support/memory.rs"]
mod memory;

use std::{path::Path, sync::Arc};

use riparian_log::FsDisk;

use harness::{Harness, Member};

const MEMBERS: usize = 2;

/// What is live with the groups when they have formed, and when they were read from the log and all members have been
/// heard of.
struct Live {
    formed: isize,
    again: isize,
}

fn open(dir: &Path) -> Harness {
    let settings = [("group.streams.initial.rebalance.delay.ms", "0"), ("group.streams.assignment.interval.ms", "0")];
    Harness::new(Arc::new(FsDisk::new(FsDisk::HANDLES_DEFAULT)), dir, &settings)
}

fn live_with(groups: usize, topology_epoch: fn(usize) -> i32) -> Live {
    let dir = tempfile::tempdir().expect("a directory");
    let ids = |group: usize, member: usize| (format!("group-{group:05}"), format!("member-{group:05}-{member:022}"));
    let mut epochs = Vec::with_capacity(groups * MEMBERS);
    let before = memory::live();
    let mut harness = open(dir.path());
    harness.create_topic(2);
    for group in 0..groups {
        let member = |member: usize| {
            let (group_id, id) = ids(group, member);
            Member::new(group_id, id, topology_epoch(group))
        };
        let mut members: Vec<Member> = (0..MEMBERS).map(member).collect();
        let mut rounds = 0;
        while !members.iter().all(|member| member.settled) {
            rounds += 1;
            assert!(rounds < 20, "group {group} does not settle");
            members.iter_mut().for_each(|member| harness.converge(member));
        }
        epochs.extend(members.iter().map(Member::epoch));
    }
    let formed = memory::live() - before;
    drop(harness);
    let before = memory::live();
    let mut harness = open(dir.path());
    for (index, epoch) in epochs.iter().enumerate() {
        let (group_id, id) = ids(index / MEMBERS, index % MEMBERS);
        harness.heartbeat(&harness::steady(group_id, id, *epoch));
    }
    Live { formed, again: memory::live() - before }
}

/// `max` is the most that a group may take, formed and read again.
#[track_caller]
fn check(topology_epoch: fn(usize) -> i32, max: [isize; 2]) {
    let (few, many) = (100, 500);
    let (less, more) = (live_with(few, topology_epoch), live_with(many, topology_epoch));
    let per_group = |less: isize, more: isize| (more - less) / (many - few) as isize;
    let found = [per_group(less.formed, more.formed), per_group(less.again, more.again)];
    println!("bytes per group of {MEMBERS} members, formed and read again: {found:?}, at most {max:?}");
    assert!(found[0] <= max[0] && found[1] <= max[1], "{found:?} bytes per group, at most {max:?} are allowed");
    assert!(found[0] > max[0] / 2, "{found:?}: what is counted?");
}

#[test]
fn a_group_with_its_own_topology_is_small() {
    check(|group| group as i32, [2480, 2560]);
}

#[test]
fn groups_with_the_same_topology_share_it() {
    check(|_| 0, [1950, 2030]);
}
