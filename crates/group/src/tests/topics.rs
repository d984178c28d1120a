//! Topics that are missing, wrong, created, deleted.

use expect_test::expect;

use super::script::check;
use crate::{command::Command, tests::driver};

#[test]
fn a_missing_source_topic_is_a_status_also_with_an_endpoint() {
    check(
        "
        topics b=1
        topology 0: d c b a e
        config delay=0 assignment=0
        join m endpoint=h:1
        beat m
        topics a=1 c=1 d=1 e=2
        beat m
        topics a=0
        beat m
        ack m
        beat m endpoint=h:2
        ",
        expect![[r#"
            > topics b=1
            > topology 0: d c b a e
            > config delay=0 assignment=0
            > join m endpoint=h:1
              epoch 2 [ |  | ]
              status 1: Source topics are missing: a, c, d and 1 more. Create them; the server does not.
              endpoint h:1 at 0  | 
              19 m process m
              23 epoch 0
              17 epoch 2 validated -1 num.standby.replicas=0
              21 m [ |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [ |  | ]
            > beat m
              epoch 2 -
              status 1: Source topics are missing: a, c, d and 1 more. Create them; the server does not.
            > topics a=1 c=1 d=1 e=2
            > beat m
              epoch 3 [0_0 0_1 |  | ]
              endpoint h:1 at 1 a[0] b[0] c[0] d[0] e[0, 1] | 
              17 epoch 3 validated 0 num.standby.replicas=0
              21 m [0_0 0_1 |  | ]
              20 epoch 3
              22 m epoch 3 before 2 STABLE [0_0@3 0_1@3 |  | ]
            > topics a=0
            > beat m
              epoch 3 [ |  | ]
              status 1: Source topics are missing: a. Create them; the server does not.
              endpoint h:1 at 2  | 
              17 epoch 4 validated -1 num.standby.replicas=0
              21 m [ |  | ]
              20 epoch 4
              22 m epoch 3 before 3 UNREVOKED [ |  | ] gives back [0_0@3 0_1@3 |  | ]
            > ack m
              epoch 4 -
              status 1: Source topics are missing: a. Create them; the server does not.
              22 m epoch 4 before 3 STABLE [ |  | ]
            > beat m endpoint=h:2
              epoch 5 -
              status 1: Source topics are missing: a. Create them; the server does not.
              endpoint h:2 at 3  | 
              19 m process m
              17 epoch 5 validated -1 num.standby.replicas=0
              20 epoch 5
              22 m epoch 5 before 4 STABLE [ |  | ]
        "#]],
    );
}

#[test]
fn topics_that_contradict_each_other_are_a_status() {
    check(
        "
        topics a=2 b=1 c=3
        topology 0: a b = a b
        config delay=0 assignment=0
        join m
        topology 0: a +c
        join n in=h
        topics c=0 b=0
        beat n in=h
        topics c=2
        beat n in=h
        beat m
        ",
        expect![[r#"
            > topics a=2 b=1 c=3
            > topology 0: a b = a b
            > config delay=0 assignment=0
            > join m
              epoch 2 [ |  | ]
              status 2: Topics that are joined must have the same number of partitions, but have: a=2, b=1
              19 m process m
              23 epoch 0
              17 epoch 2 validated -1 num.standby.replicas=0
              21 m [ |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [ |  | ]
            > topology 0: a +c
            > join n in=h
              epoch 1 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              status 2: Internal topic c exists with 3 partitions, but must have 2; delete it or change the topics it depends on.
              19 n process n
              23 epoch 0
              17 epoch 2 validated -1 num.standby.replicas=0
              22 n epoch 1 before 0 STABLE [ |  | ]
            > topics c=0 b=0
            > beat n in=h
              epoch 1 -
              status 5: The assignment waits for the initial rebalance delay to pass.
              status 3: Internal topics are missing: c
              17 epoch 3 validated -1 num.standby.replicas=0
              create c=2
            > topics c=2
            > beat n in=h
              epoch 1 -
              status 5: The assignment waits for the initial rebalance delay to pass.
              17 epoch 4 validated 0 num.standby.replicas=0
            > beat m
              epoch 3 -
              status 1: Source topics are missing: b. Create them; the server does not.
              17 epoch 3 validated -1 num.standby.replicas=0
              20 epoch 3
              22 m epoch 3 before 2 STABLE [ |  | ]
        "#]],
    );
}

#[test]
fn internal_topics_are_asked_for_once_and_failures_reach_the_member() {
    check(
        "
        topics in=3
        topology 0: in > r / 1: ~r +c1 +c2 +c3
        config delay=0 assignment=0
        join m
        beat m
        created r
        failed c1=no_space c2=no_space c3=x r=y
        beat m
        +9999
        beat m
        +1
        beat m
        topics r=3 c1=3 c2=3 c3=3
        beat m
        ",
        expect![[r#"
            > topics in=3
            > topology 0: in > r / 1: ~r +c1 +c2 +c3
            > config delay=0 assignment=0
            > join m
              epoch 2 [ |  | ]
              status 3: Internal topics are missing: c1, c2, c3 and 1 more
              19 m process m
              23 epoch 0
              17 epoch 2 validated -1 num.standby.replicas=0
              21 m [ |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [ |  | ]
              create c1=3 c2=3 c3=3 r=3
            > beat m
              epoch 2 -
              status 3: Internal topics are missing: c1, c2, c3 and 1 more
            > created r
            > failed c1=no_space c2=no_space c3=x r=y
            > beat m
              epoch 2 -
              status 3: Internal topics are missing: c1, c2, c3 and 1 more; Creation failed: c1 (no space), c2 (no space), c3 (x) and 1 more.
            > +9999
            > beat m
              epoch 2 -
              status 3: Internal topics are missing: c1, c2, c3 and 1 more; Creation failed: c1 (no space), c2 (no space), c3 (x) and 1 more.
            > +1
            > beat m
              epoch 2 -
              status 3: Internal topics are missing: c1, c2, c3 and 1 more
              create c1=3 c2=3 c3=3 r=3
            > topics r=3 c1=3 c2=3 c3=3
            > beat m
              epoch 3 [0_0 0_1 0_2 1_0 1_1 1_2 |  | ]
              17 epoch 3 validated 0 num.standby.replicas=0
              21 m [0_0 0_1 0_2 1_0 1_1 1_2 |  | ]
              20 epoch 3
              22 m epoch 3 before 2 STABLE [0_0@3 0_1@3 0_2@3 1_0@3 1_1@3 1_2@3 |  | ]
        "#]],
    );
}

#[test]
fn a_grown_topic_gives_new_tasks() {
    check(
        "
        topics in=1
        config delay=0 assignment=0
        join m
        topics in=2 other=5
        beat m
        topics in=0
        beat m
        ack m
        topics in=1
        beat m
        ",
        expect![[r#"
            > topics in=1
            > config delay=0 assignment=0
            > join m
              epoch 2 [0_0 |  | ]
              19 m process m
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 m [0_0 |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [0_0@2 |  | ]
            > topics in=2 other=5
            > beat m
              epoch 3 [0_0 0_1 |  | ]
              17 epoch 3 validated 0 num.standby.replicas=0
              21 m [0_0 0_1 |  | ]
              20 epoch 3
              22 m epoch 3 before 2 STABLE [0_0@2 0_1@3 |  | ]
            > topics in=0
            > beat m
              epoch 3 [ |  | ]
              status 1: Source topics are missing: in. Create them; the server does not.
              17 epoch 4 no hash validated -1 num.standby.replicas=0
              21 m [ |  | ]
              20 epoch 4
              22 m epoch 3 before 3 UNREVOKED [ |  | ] gives back [0_0@2 0_1@3 |  | ]
            > ack m
              epoch 4 -
              status 1: Source topics are missing: in. Create them; the server does not.
              22 m epoch 4 before 3 STABLE [ |  | ]
            > topics in=1
            > beat m
              epoch 5 [0_0 |  | ]
              17 epoch 5 validated 0 num.standby.replicas=0
              21 m [0_0 |  | ]
              20 epoch 5
              22 m epoch 5 before 4 STABLE [0_0@5 |  | ]
        "#]],
    );
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
