//! Topics that are missing, wrong, created, deleted.

use crate::{command::Command, tests::driver};

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
