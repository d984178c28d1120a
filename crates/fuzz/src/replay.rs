//! Logs of groups and of metadata that somebody else wrote, or that are damaged inside of good batches.
//!
//! ```text
//! which u8, record*        record: key length u8, key, value length u16 (0xffff: none), value
//! ```
//!
//! **Checked here:** such a log loads; a group that contradicts itself costs only itself; whatever is loaded can be
//! described, joined and deleted; what is deleted is gone.

use std::fmt::Debug;

use riparian_coordinator::{
    RecordCodec,
    codecs::{GroupCodec, MetadataCodec},
};
use riparian_group::{
    GroupMachine,
    command::{Command, GroupFilter, OffsetFetch},
    reply::{DeleteGroupError, Reply},
};
use riparian_metadata::{
    MetadataMachine,
    command::{Command as MetadataCommand, TopicSelector},
};
use riparian_types::{
    GroupId, MemberEpoch, Offset, TopicName, TopicsView,
    machine::{Machine, Waiter},
};

use crate::{
    groups,
    input::Input,
    metadata,
    shard::{Driver, MemoryLog},
};

const RECORDS_MAX: usize = 64;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let is_metadata = input.bool();
    let mut records = Vec::new();
    while !input.is_empty() && records.len() < RECORDS_MAX {
        let key_length = usize::from(input.u8());
        let key = input.take(key_length);
        let value_length = input.u16();
        let value = (value_length != 0xffff).then(|| input.take(value_length.into()));
        records.push((Some(key), value));
    }
    let log = MemoryLog::of(records.into_iter());
    if is_metadata { load_metadata(log) } else { load_groups(log) }
}

fn loaded<M, C>(log: MemoryLog, fresh: fn() -> (M, M::Soft)) -> Driver<M, C>
where
    M: Machine<Record: PartialEq + Debug> + PartialEq + Debug + 'static,
    C: RecordCodec<M>,
{
    let mut driver = Driver::new(log, fresh);
    driver.load();
    driver.check_replay(false);
    driver
}

fn load_metadata(log: MemoryLog) {
    let mut driver = loaded::<MetadataMachine, MetadataCodec>(log, metadata::fresh);
    driver.ask(MetadataCommand::Bootstrap);
    let image = driver.shard.machine().expect("it is loaded").image();
    let topics: Vec<TopicSelector> = image.topics().map(|(name, _)| TopicSelector::Name(name.clone())).collect();
    driver.ask(|waiter| MetadataCommand::DeleteTopics(waiter, topics));
    driver.ask(|waiter| MetadataCommand::AllocateProducerIds(waiter, 1000));
    driver.check_replay(false);
}

fn load_groups(log: MemoryLog) {
    let mut driver = loaded::<GroupMachine, GroupCodec>(log, groups::fresh);
    let ids = list(&mut driver);
    let topics = TopicsView::default();
    driver.tell(Command::TopicsChanged { view: topics, as_of: Offset(0), changed: [].into() });
    driver.advance(100);
    for id in &ids {
        driver.ask(|waiter| Command::StreamsDescribe(waiter, id.clone()));
        let fetch = |member_id| OffsetFetch {
            group_id: id.clone(),
            member_id,
            member_epoch: MemberEpoch(-1),
            topics: None,
            require_stable: false,
        };
        driver.ask(|waiter| Command::OffsetFetch(waiter, fetch(None)));
        let heartbeat = groups::joining(id, "somebody");
        driver.ask(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
        driver.check_replay(false);
    }
    // Everybody's session ends, and what was waited for is given up.
    for _ in 0..4 {
        driver.advance(400_000);
    }
    let changed: Vec<TopicName> = vec!["in".into()];
    driver.tell(Command::TopicsChanged { view: TopicsView::default(), as_of: Offset(1), changed: changed.into() });
    driver.check_replay(false);
    for id in list(&mut driver) {
        let (asked, step) = driver.ask(|waiter| Command::DeleteGroup(waiter, id.clone()));
        match answer(asked, step.answers) {
            Reply::DeleteGroup(Ok(())) => {}
            // Only who was there all the time is not expired: a member whose timeouts have no end.
            Reply::DeleteGroup(Err(DeleteGroupError::NotEmpty)) => continue,
            other => panic!("group {id} is listed, and its deletion is answered by {other:?}"),
        }
        driver.check_replay(false);
        assert!(!list(&mut driver).contains(&id), "group {id} was deleted and is still there");
    }
    // What was deleted does not come back.
    let left = list(&mut driver);
    driver.crash();
    assert_eq!(list(&mut driver), left);
}

fn list(driver: &mut Driver<GroupMachine, GroupCodec>) -> Vec<GroupId> {
    let (asked, step) = driver.ask(|waiter| Command::ListGroups(waiter, GroupFilter::default()));
    let Reply::ListGroups(groups) = answer(asked, step.answers) else { panic!("a list is answered by another reply") };
    groups.into_iter().map(|group| group.group_id).collect()
}

fn answer(asked: Waiter, answers: Vec<(Waiter, Reply)>) -> Reply {
    let answer = answers.into_iter().find(|(waiter, _)| *waiter == asked);
    answer.expect("everything is durable at once").1
}
