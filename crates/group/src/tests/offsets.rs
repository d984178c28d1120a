//! Committed offsets: who may write them, who may read them, when they go.

use expect_test::expect;

use super::script::check;

#[test]
fn a_group_of_offsets_only() {
    check(
        "
        fetch -
        fetch m epoch=5 of=a-0
        commit m epoch=3 a-0=1
        commit m epoch=3 a-0=1 v8
        commit - a-0=1 a-1=2 b-0=3
        fetch -
        fetch - of=a-1,b-0,c-0
        commit m epoch=3 a-0=1
        list
        forget of=a-0,a-7
        list types=streams
        topics b=0
        fetch -
        delete
        delete
        forget of=a-0
        ",
        expect![[r#"
            > fetch -
            > fetch m epoch=5 of=a-0
              a-0 -1
            > commit m epoch=3 a-0=1
              OffsetCommit(Err(GroupIdNotFound))
            > commit m epoch=3 a-0=1 v8
              OffsetCommit(Err(IllegalGeneration))
            > commit - a-0=1 a-1=2 b-0=3
              OffsetCommit(Ok(()))
              1 a-0 1
              1 a-1 2
              1 b-0 3
            > fetch -
              a-0 1
              a-1 2
              b-0 3
            > fetch - of=a-1,b-0,c-0
              a-1 2
              b-0 3
              c-0 -1
            > commit m epoch=3 a-0=1
              OffsetCommit(Err(UnknownMemberId))
            > list
              g "" Empty classic
            > forget of=a-0,a-7
              OffsetDelete(Ok([("a", [(0, Deleted)]), ("a", [(7, Deleted)])]))
              1 a-0 -
            > list types=streams
            > topics b=0
              1 b-0 -
            > fetch -
              a-1 2
            > delete
              DeleteGroup(Ok(()))
              1 a-1 -
              2 -
            > delete
              DeleteGroup(Err(NotFound))
            > forget of=a-0
              OffsetDelete(Err(GroupNotFound("Group g not found.")))
        "#]],
    );
}

#[test]
fn commits_of_members_are_fenced_by_epochs() {
    check(
        "
        topics in=2 r=2
        topology 0: in > r / 1: ~r
        config delay=0 assignment=0
        join a
        commit a epoch=2 in-0=1
        commit a epoch=3 in-0=1
        commit a epoch=1 in-0=1
        commit a epoch=-1 in-0=1
        commit - in-0=1
        commit b epoch=2 in-0=1
        commit a epoch=2 in-0=1 v8
        join b
        beat a
        commit a epoch=2 in-1=5 r-1=6
        ack a
        commit a epoch=2 in-0=7 r-0=8
        commit a epoch=2 in-0=7 r-1=8
        commit a epoch=2 in-0=7 other-0=8
        commit a epoch=1 in-0=7
        commit a epoch=3 in-1=9
        beat b
        commit b epoch=2 in-1=7
        commit b epoch=3 in-1=7
        fetch - of=in-0,in-1,r-0,r-1
        fetch a epoch=3 of=in-0
        fetch a epoch=2 of=in-0
        fetch x epoch=3 of=in-0
        fetch - epoch=3 of=in-0
        forget of=in-0,other-0
        ",
        expect![[r#"
            > topics in=2 r=2
            > topology 0: in > r / 1: ~r
            > config delay=0 assignment=0
            > join a
              epoch 2 [0_0 0_1 1_0 1_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 1_0 1_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 1_0@2 1_1@2 |  | ]
            > commit a epoch=2 in-0=1
              OffsetCommit(Ok(()))
              1 in-0 1
            > commit a epoch=3 in-0=1
              OffsetCommit(Err(StaleMemberEpoch))
            > commit a epoch=1 in-0=1
              OffsetCommit(Err(StaleMemberEpoch))
            > commit a epoch=-1 in-0=1
              OffsetCommit(Err(StaleMemberEpoch))
            > commit - in-0=1
              OffsetCommit(Err(UnknownMemberId))
            > commit b epoch=2 in-0=1
              OffsetCommit(Err(UnknownMemberId))
            > commit a epoch=2 in-0=1 v8
              OffsetCommit(Err(UnsupportedVersion))
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 1_0 |  | ]
              21 b [0_1 1_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat a
              epoch 2 [0_0 1_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 1_0@2 |  | ] gives back [0_1@2 1_1@2 |  | ]
            > commit a epoch=2 in-1=5 r-1=6
              OffsetCommit(Ok(()))
              1 in-1 5
              1 r-1 6
            > ack a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 1_0@2 |  | ]
            > commit a epoch=2 in-0=7 r-0=8
              OffsetCommit(Ok(()))
              1 in-0 7
              1 r-0 8
            > commit a epoch=2 in-0=7 r-1=8
              OffsetCommit(Err(StaleMemberEpoch))
            > commit a epoch=2 in-0=7 other-0=8
              OffsetCommit(Err(StaleMemberEpoch))
            > commit a epoch=1 in-0=7
              OffsetCommit(Err(StaleMemberEpoch))
            > commit a epoch=3 in-1=9
              OffsetCommit(Ok(()))
              1 in-1 9
            > beat b
              epoch 3 [0_1 1_1 |  | ]
              22 b epoch 3 before 3 STABLE [0_1@3 1_1@3 |  | ]
            > commit b epoch=2 in-1=7
              OffsetCommit(Err(StaleMemberEpoch))
            > commit b epoch=3 in-1=7
              OffsetCommit(Ok(()))
              1 in-1 7
            > fetch - of=in-0,in-1,r-0,r-1
              in-0 7
              in-1 7
              r-0 8
              r-1 6
            > fetch a epoch=3 of=in-0
              in-0 7
            > fetch a epoch=2 of=in-0
              OffsetFetch(Err(StaleMemberEpoch))
            > fetch x epoch=3 of=in-0
              OffsetFetch(Err(UnknownMemberId))
            > fetch - epoch=3 of=in-0
              OffsetFetch(Err(UnknownMemberId))
            > forget of=in-0,other-0
              OffsetDelete(Ok([("in", [(0, SubscribedToTopic)]), ("other", [(0, Deleted)])]))
        "#]],
    );
}

#[test]
fn offsets_outlive_an_empty_group_for_their_retention() {
    check(
        "
        topics in=2 other=1
        config delay=0 assignment=0
        join a
        commit a epoch=2 in-0=1 other-0=1
        leave a
        +600000
        commit - in-0=2
        +600000
        list
        +604000000
        +800000
        list
        ",
        expect![[r#"
            > topics in=2 other=1
            > config delay=0 assignment=0
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > commit a epoch=2 in-0=1 other-0=1
              OffsetCommit(Ok(()))
              1 in-0 1
              1 other-0 1
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 3 validated 0 num.standby.replicas=0
              20 epoch 3 no time
            > +600000
            > commit - in-0=2
              OffsetCommit(Ok(()))
              1 in-0 2
            > +600000
            > list
              g "streams" Empty streams
            > +604000000
              at +603600000
              1 other-0 -
            > +800000
              at +200000
              1 in-0 -
              20 -
              17 -
              23 -
            > list
        "#]],
    );
}

#[test]
fn offsets_of_topics_in_use_do_not_expire() {
    check(
        "
        topics in=2 other=1
        config delay=0 assignment=0
        join a
        commit a epoch=2 in-0=1 other-0=1
        config session=60000
        restart
        fetch -
        ",
        expect![[r#"
            > topics in=2 other=1
            > config delay=0 assignment=0
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > commit a epoch=2 in-0=1 other-0=1
              OffsetCommit(Ok(()))
              1 in-0 1
              1 other-0 1
            > config session=60000
            > restart
            > fetch -
              in-0 1
              other-0 1
        "#]],
    );
}

#[test]
fn an_empty_group_without_offsets_goes_at_the_next_sweep() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a
        leave a
        +600000
        list
        join a
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=0
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 3 validated 0 num.standby.replicas=0
              20 epoch 3 no time
            > +600000
              at +600000
              20 -
              17 -
              23 -
            > list
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
        "#]],
    );
}

#[test]
fn offsets_of_a_deleted_topic_go_with_it() {
    check(
        "
        topics in=2 t=1
        commit - t-0=1 in-0=2
        commit - t-0=1 in=h
        topics t=0
        fetch -
        list
        ",
        expect![[r#"
            > topics in=2 t=1
            > commit - t-0=1 in-0=2
              OffsetCommit(Ok(()))
              1 t-0 1
              1 in-0 2
            > commit - t-0=1 in=h
              OffsetCommit(Ok(()))
              1 t-0 1
            > topics t=0
              1 t-0 -
              1 t-0 -
            > fetch -
              in-0 2
            > list
              g "" Empty classic
        "#]],
    );
}

#[test]
fn a_topic_deleted_while_the_server_was_down_takes_its_offsets_along() {
    check(
        "
        topics a=1 b=1 c=1
        commit - a-0=1 b-0=1 c-0=1
        commit - b-0=1 v9 in=h
        unheard a=0 b=0
        unheard b=1
        restart
        topics c=0
        topics c=1
        ",
        expect![[r#"
            > topics a=1 b=1 c=1
            > commit - a-0=1 b-0=1 c-0=1
              OffsetCommit(Ok(()))
              1 a-0 1
              1 b-0 1
              1 c-0 1
            > commit - b-0=1 v9 in=h
              OffsetCommit(Ok(()))
              1 b-0 1
            > unheard a=0 b=0
            > unheard b=1
            > restart
              1 a-0 -
              1 b-0 -
            > topics c=0
              1 c-0 -
            > topics c=1
        "#]],
    );
}
