//! Topics that are missing, wrong, created, deleted.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use crate::{
    command::Command,
    reply::{Effect, Reply},
    tests::{
        client::{Client, topology},
        driver,
    },
};

/// However often members are heard of, and however many groups want it, a topic is asked for in intervals only.
#[test]
fn m_14_a_topic_that_cannot_be_created_is_not_asked_for_in_a_hot_loop() {
    const BEAT_MS: u64 = 100;
    const BEATS: u64 = 600;
    let mut driver = driver::Driver::new(driver::config());
    driver.change_topics(&[("in", 2)]);
    let mut clients: Vec<(String, String, Client)> =
        (0..20).map(|n| (format!("g{}", n % 2), format!("m{n}"), Client::default())).collect();
    let mut attempts = Vec::new();
    let mut told = 0;
    for beat in 0..BEATS {
        for (group, member, client) in &mut clients {
            let heartbeat = match beat {
                0 => client.join(group, member, topology("0: in +shared")),
                _ => client.heartbeat(group, member),
            };
            let step = driver.command(|waiter| Command::StreamsHeartbeat(waiter, heartbeat.into()));
            let Some(Reply::StreamsHeartbeat(Ok(reply))) = step.reply else { panic!("heartbeats succeed") };
            client.learn(&reply);
            told += usize::from(reply.statuses.iter().any(|status| status.detail.contains("shared (no room)")));
            for Effect::CreateInternalTopics { group, topics } in step.effects {
                attempts.push(beat * BEAT_MS);
                let attempted: Vec<_> = topics.into_iter().map(|topic| topic.name).collect();
                let failures = attempted.iter().map(|name| (name.clone(), "no room".into()));
                let failures: BTreeMap<_, _> = failures.collect();
                driver.command(|_| Command::InternalTopicsCreated { group, attempted, failures });
            }
        }
        driver.advance(BEAT_MS);
    }
    // One minute, and nothing is tried again for twice the heartbeat interval.
    assert_eq!(attempts, [0, 10_000, 20_000, 30_000, 40_000, 50_000]);
    assert!(told >= 20 * (BEATS as usize - 2 * attempts.len()), "{told}");
}

/// A topic that was announced late is not lost because an older view came with it.
#[test]
fn announcements_may_overtake_each_other() {
    use riparian_types::{Offset, PartitionCount, TopicSummary, TopicsView, Uuid};

    let topic = |id| TopicSummary { id: Uuid::from_halves(1, id), partitions: PartitionCount(1) };
    let mut older = TopicsView::default();
    older.insert("a".into(), topic(1));
    let mut newer = older.clone();
    newer.insert("b".into(), topic(2));
    let mut driver = driver::Driver::new(driver::config());
    let mut announce = |view: &TopicsView, as_of, name: &str| {
        let changed = alloc::sync::Arc::new([name.into()]);
        driver.command(|_| Command::TopicsChanged { view: view.clone(), as_of: Offset(as_of), changed });
        driver.soft.topics.clone().unwrap()
    };
    let between = announce(&newer, 102, "b");
    assert!(between.topic("a").is_none() && between.topic("b").is_some());
    assert_eq!(announce(&older, 101, "a"), newer);
}
