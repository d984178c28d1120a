//! Static membership in its simple form: leave with -2, come back with the same instance id.

use expect_test::expect;

use super::script::{check, check_with};

#[test]
fn a_static_member_comes_back_under_other_ids_and_expires_when_it_does_not() {
    // The sequence of golden/records-static-raw.jsonl.
    check(
        "
        topics words-in=2
        topology 0: words-in
        config session=45000
        join m1 instance=i1 process=p1
        +3000
        beat m1
        join m9 instance=i9 process=p9
        +1000
        beat m1
        ack m1
        beat m9
        rest m1
        join m2 instance=i1 process=p1
        ack m2
        rest m2
        join m2 instance=i1 process=p1
        rest m2
        join m3 instance=i1 process=p2
        +1000
        beat m3
        rest m3
        +2000
        beat m9
        +43000
        beat m9
        leave m9
        delete
        ",
        expect![[r#"
            > topics words-in=2
            > topology 0: words-in
            > config session=45000
            > join m1 instance=i1 process=p1
              epoch 1 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              19 m1 process p1 instance i1
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              22 m1 epoch 1 before 0 STABLE [ |  | ]
            > +3000
              at +3000
              21 m1 [0_0 0_1 |  | ]
              20 epoch 2
            > beat m1
              epoch 2 [0_0 0_1 |  | ]
              22 m1 epoch 2 before 1 STABLE [0_0@2 0_1@2 |  | ]
            > join m9 instance=i9 process=p9
              epoch 2 [ |  | ]
              status 5: The assignment waits for the assignment interval to pass.
              19 m9 process p9 instance i9
              17 epoch 3 validated 0 num.standby.replicas=0
              22 m9 epoch 2 before 0 STABLE [ |  | ]
            > +1000
            > beat m1
              epoch 2 [0_0 |  | ]
              21 m1 [0_0 |  | ]
              21 m9 [0_1 |  | ]
              20 epoch 3
              22 m1 epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > ack m1
              epoch 3 -
              22 m1 epoch 3 before 2 STABLE [0_0@2 |  | ]
            > beat m9
              epoch 3 [0_1 |  | ]
              22 m9 epoch 3 before 2 STABLE [0_1@3 |  | ]
            > rest m1
              epoch -2 -
              22 m1 epoch -2 before 2 STABLE [0_0@0 |  | ]
            > join m2 instance=i1 process=p1
              epoch 3 [0_0 |  | ]
              22 m1 -
              21 m1 -
              19 m1 -
              19 m2 process p1 instance i1
              21 m2 [0_0 |  | ]
              22 m2 epoch 0 before 0 STABLE [0_0@0 |  | ]
              22 m2 epoch 3 before 0 STABLE [0_0@0 |  | ]
            > ack m2
              epoch 3 -
            > rest m2
              epoch -2 -
              22 m2 epoch -2 before 0 STABLE [0_0@0 |  | ]
            > join m2 instance=i1 process=p1
              epoch 3 [0_0 |  | ]
              22 m2 -
              21 m2 -
              19 m2 -
              19 m2 process p1 instance i1
              21 m2 [0_0 |  | ]
              22 m2 epoch 0 before 0 STABLE [0_0@0 |  | ]
              22 m2 epoch 3 before 0 STABLE [0_0@0 |  | ]
            > rest m2
              epoch -2 -
              22 m2 epoch -2 before 0 STABLE [0_0@0 |  | ]
            > join m3 instance=i1 process=p2
              epoch 3 [0_0 |  | ]
              status 5: The assignment waits for the assignment interval to pass.
              22 m2 -
              21 m2 -
              19 m2 -
              19 m3 process p1 instance i1
              21 m3 [0_0 |  | ]
              22 m3 epoch 0 before 0 STABLE [0_0@0 |  | ]
              19 m3 process p2 instance i1
              17 epoch 4 validated 0 num.standby.replicas=0
              22 m3 epoch 3 before 0 STABLE [0_0@0 |  | ]
            > +1000
            > beat m3
              epoch 4 -
              20 epoch 4
              22 m3 epoch 4 before 3 STABLE [0_0@0 |  | ]
            > rest m3
              epoch -2 -
              22 m3 epoch -2 before 3 STABLE [0_0@0 |  | ]
            > +2000
            > beat m9
              epoch 4 -
              22 m9 epoch 4 before 3 STABLE [0_1@3 |  | ]
            > +43000
              at +43000
              22 m3 -
              21 m3 -
              19 m3 -
              17 epoch 5 validated 0 num.standby.replicas=0
            > beat m9
              epoch 5 [0_0 0_1 |  | ]
              21 m9 [0_0 0_1 |  | ]
              20 epoch 5
              22 m9 epoch 5 before 4 STABLE [0_0@5 0_1@3 |  | ]
            > leave m9
              epoch -1 -
              22 m9 -
              21 m9 -
              19 m9 -
              17 epoch 6 validated 0 num.standby.replicas=0
              20 epoch 6 no time
            > delete
              DeleteGroup(Ok(()))
              20 -
              17 -
              23 -
        "#]],
    );
}

#[test]
fn an_instance_id_has_one_holder() {
    check(
        "
        topics in=2
        config delay=0
        join m instance=i
        join n instance=i
        join m instance=i
        beat n instance=i epoch=2
        beat m instance=unknown epoch=2
        leave n instance=i
        leave m instance=unknown
        rest m
        rest m
        beat m epoch=2
        leave m
        leave m
        ",
        expect![[r#"
            > topics in=2
            > config delay=0
            > join m instance=i
              epoch 2 [0_0 0_1 |  | ]
              19 m process m instance i
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 m [0_0 0_1 |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join n instance=i
              UnreleasedInstanceId("Static member n can't join with instance id i, which member m still holds; it is free once that member leaves or its session expires.")
            > join m instance=i
              UnreleasedInstanceId("Static member m can't join with instance id i, which member m still holds; it is free once that member leaves or its session expires.")
            > beat n instance=i epoch=2
              FencedInstanceId("Static member n with instance id i was fenced: the instance id now belongs to member m.")
            > beat m instance=unknown epoch=2
              UnknownMemberId("Instance id unknown is not known in group g; its member must rejoin.")
            > leave n instance=i
              FencedInstanceId("Static member n with instance id i was fenced: the instance id now belongs to member m.")
            > leave m instance=unknown
              UnknownMemberId("Instance id unknown is not known in group g; its member must rejoin.")
            > rest m
              epoch -2 -
              22 m epoch -2 before 0 STABLE [0_0@0 0_1@0 |  | ]
            > rest m
              epoch -2 -
              22 m epoch -2 before 0 STABLE [0_0@0 0_1@0 |  | ]
            > beat m epoch=2
              FencedMemberEpoch("The member reports epoch 2, but has only reached -2. It must give up its tasks and rejoin.")
            > leave m
              epoch -1 -
              22 m -
              21 m -
              19 m -
              17 epoch 3 validated 0 num.standby.replicas=0
              20 epoch 3 no time
            > leave m
              UnknownMemberId("Instance id i is not known in group g; its member must rejoin.")
        "#]],
    );
}

#[test]
fn a_static_member_without_its_instance_id_is_dynamic() {
    check(
        "
        topics in=2
        config delay=0
        join m instance=i
        beat m dynamic
        join m dynamic
        ",
        expect![[r#"
            > topics in=2
            > config delay=0
            > join m instance=i
              epoch 2 [0_0 0_1 |  | ]
              19 m process m instance i
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 m [0_0 0_1 |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > beat m dynamic
              epoch 2 -
            > join m dynamic
              epoch 2 [0_0 0_1 |  | ]
        "#]],
    );
}

#[test]
fn another_address_of_a_static_member_moves_nothing() {
    check(
        "
        topics in=2
        config delay=0
        join m instance=i
        rest m
        join m instance=i host=/10.0.0.1
        ",
        expect![[r#"
            > topics in=2
            > config delay=0
            > join m instance=i
              epoch 2 [0_0 0_1 |  | ]
              19 m process m instance i
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 m [0_0 0_1 |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > rest m
              epoch -2 -
              22 m epoch -2 before 0 STABLE [0_0@0 0_1@0 |  | ]
            > join m instance=i host=/10.0.0.1
              epoch 2 [0_0 0_1 |  | ]
              22 m -
              21 m -
              19 m -
              19 m process m instance i
              21 m [0_0 0_1 |  | ]
              22 m epoch 0 before 0 STABLE [0_0@0 0_1@0 |  | ]
              19 m process m instance i
              22 m epoch 2 before 0 STABLE [0_0@0 0_1@0 |  | ]
        "#]],
    );
}

#[test]
fn a_full_group_takes_back_known_members_only() {
    check_with(
        |config| config.members_max = 1,
        "
        topics in=2
        config delay=0
        join m instance=i
        join n
        join n instance=j
        rest m
        join n instance=i
        join n dynamic
        ",
        expect![[r#"
            > topics in=2
            > config delay=0
            > join m instance=i
              epoch 2 [0_0 0_1 |  | ]
              19 m process m instance i
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 m [0_0 0_1 |  | ]
              20 epoch 2
              22 m epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join n
              GroupMaxSizeReached("Group g has reached its maximum of 1 members (group.streams.max.size).")
            > join n instance=j
              GroupMaxSizeReached("Group g has reached its maximum of 1 members (group.streams.max.size).")
            > rest m
              epoch -2 -
              22 m epoch -2 before 0 STABLE [0_0@0 0_1@0 |  | ]
            > join n instance=i
              epoch 2 [0_0 0_1 |  | ]
              status 5: The assignment waits for the assignment interval to pass.
              22 m -
              21 m -
              19 m -
              19 n process m instance i
              21 n [0_0 0_1 |  | ]
              22 n epoch 0 before 0 STABLE [0_0@0 0_1@0 |  | ]
              19 n process n instance i
              17 epoch 3 validated 0 num.standby.replicas=0
              22 n epoch 2 before 0 STABLE [0_0@0 0_1@0 |  | ]
            > join n dynamic
              epoch 2 [0_0 0_1 |  | ]
              status 5: The assignment waits for the assignment interval to pass.
        "#]],
    );
}
