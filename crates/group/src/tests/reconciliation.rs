//! How tasks change hands, what is told again, and what happens to who does not answer.

use expect_test::expect;

use super::script::{check, check_with};

#[test]
fn a_lost_assignment_is_told_again() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        lost join a
        join a
        ack a
        join b
        lost beat a
        ack a
        ack a
        lost beat b
        ack b epoch=1
        ack b
        ack b
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=0
            > lost join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join a
              epoch 2 [0_0 0_1 |  | ]
            > ack a
              epoch 2 -
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > lost beat a
              epoch 2 [0_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > ack a
              epoch 2 [0_0 |  | ]
            > ack a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 |  | ]
            > lost beat b
              epoch 3 [0_1 |  | ]
              22 b epoch 3 before 3 STABLE [0_1@3 |  | ]
            > ack b epoch=1
              FencedMemberEpoch("The member reports epoch 1, but is at 3; the epoch before, 3, is accepted only with owned tasks that are still assigned to it. It must give up its tasks and rejoin.")
            > ack b
              epoch 3 [0_1 |  | ]
            > ack b
              epoch 3 -
        "#]],
    );
}

#[test]
fn a_lost_epoch_is_forgiven_to_who_owns_only_what_it_was_given() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a
        join b
        beat a
        lost ack a
        beat a
        beat a epoch=2 owned=0_1||
        beat a epoch=2 owned=0_0,0_1||
        beat a epoch=1 owned=||
        ack a epoch=2
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
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat a
              epoch 2 [0_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > lost ack a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 |  | ]
            > beat a
              FencedMemberEpoch("The member reports epoch 2, but is at 3; the epoch before, 2, is accepted only with owned tasks that are still assigned to it. It must give up its tasks and rejoin.")
            > beat a epoch=2 owned=0_1||
              FencedMemberEpoch("The member reports epoch 2, but is at 3; the epoch before, 2, is accepted only with owned tasks that are still assigned to it. It must give up its tasks and rejoin.")
            > beat a epoch=2 owned=0_0,0_1||
              FencedMemberEpoch("The member reports epoch 2, but is at 3; the epoch before, 2, is accepted only with owned tasks that are still assigned to it. It must give up its tasks and rejoin.")
            > beat a epoch=1 owned=||
              FencedMemberEpoch("The member reports epoch 1, but is at 3; the epoch before, 2, is accepted only with owned tasks that are still assigned to it. It must give up its tasks and rejoin.")
            > ack a epoch=2
              epoch 3 [0_0 |  | ]
        "#]],
    );
}

#[test]
fn who_does_not_give_back_in_time_is_fenced() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a timeout=10000
        join b
        +1000
        beat a
        +4000
        beat a
        +5000
        beat a
        beat b
        +60000
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=0
            > join a timeout=10000
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > +1000
            > beat a
              epoch 2 [0_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > +4000
            > beat a
              epoch 2 -
            > +5000
            > beat a
              epoch 2 -
            > beat b
              epoch 3 -
              22 b epoch 3 before 3 UNRELEASED [ |  | ]
            > +60000
              at +1000
              22 a -
              21 a -
              19 a -
              17 epoch 4 validated 0 num.standby.replicas=0
              at +45000
              22 b -
              21 b -
              19 b -
              17 epoch 5 validated 0 num.standby.replicas=0
              20 epoch 5 no time
        "#]],
    );
}

#[test]
fn giving_back_in_time_stops_the_clock() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a timeout=10000
        join b
        beat a
        +9999
        ack a
        +1000
        beat b
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=0
            > join a timeout=10000
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat a
              epoch 2 [0_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > +9999
            > ack a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 |  | ]
            > +1000
            > beat b
              epoch 3 [0_1 |  | ]
              22 b epoch 3 before 3 STABLE [0_1@3 |  | ]
        "#]],
    );
}

#[test]
fn a_standby_becomes_active_in_one_step() {
    check(
        "
        topics in=1 c=1
        topology 0: in +c
        config delay=0 assignment=0 standbys=1
        join a
        join b
        beat a
        beat b
        leave a
        beat b
        ack b
        ",
        expect![[r#"
            > topics in=1 c=1
            > topology 0: in +c
            > config delay=0 assignment=0 standbys=1
            > join a
              epoch 2 [0_0 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=1
              21 a [0_0 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 |  | ]
            > join b
              epoch 3 [ | 0_0 | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=1
              21 b [ | 0_0 | ]
              20 epoch 3
              22 b epoch 3 before 0 STABLE [ | 0_0 | ]
            > beat a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 |  | ]
            > beat b
              epoch 3 -
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 4 validated 0 num.standby.replicas=1
            > beat b
              epoch 4 [0_0 |  | ]
              21 b [0_0 |  | ]
              20 epoch 4
              22 b epoch 4 before 3 STABLE [0_0@4 |  | ]
            > ack b
              epoch 4 -
        "#]],
    );
}

#[test]
fn an_active_task_becomes_a_standby_while_it_is_given_back() {
    check(
        "
        topics in=2 c=2
        topology 0: in +c
        config delay=0 assignment=0 standbys=1
        join a
        join b
        beat a
        lost beat a
        beat b
        ack a
        beat b
        beat a
        ",
        expect![[r#"
            > topics in=2 c=2
            > topology 0: in +c
            > config delay=0 assignment=0 standbys=1
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=1
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join b
              epoch 3 [ | 0_0 | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=1
              21 a [0_0 | 0_1 | ]
              21 b [0_1 | 0_0 | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ | 0_0 | ]
            > beat a
              epoch 2 [0_0 | 0_1 | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 | 0_1 | ] gives back [0_1@2 |  | ]
            > lost beat a
              epoch 2 -
            > beat b
              epoch 3 -
              22 b epoch 3 before 3 UNRELEASED [ | 0_0 | ]
            > ack a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 | 0_1 | ]
            > beat b
              epoch 3 [0_1 | 0_0 | ]
              22 b epoch 3 before 3 STABLE [0_1@3 | 0_0 | ]
            > beat a
              epoch 3 -
        "#]],
    );
}

#[test]
fn members_of_one_process_do_not_double_a_task() {
    check(
        "
        topics in=2 c=2
        topology 0: in +c
        config delay=0 assignment=0 standbys=1
        join a process=p
        join b process=p
        join c process=q
        beat a
        ack a
        beat b
        beat c
        beat a
        beat b
        ",
        expect![[r#"
            > topics in=2 c=2
            > topology 0: in +c
            > config delay=0 assignment=0 standbys=1
            > join a process=p
              epoch 2 [0_0 0_1 |  | ]
              19 a process p
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=1
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join b process=p
              epoch 3 [ |  | ]
              19 b process p
              17 epoch 3 validated 0 num.standby.replicas=1
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > join c process=q
              epoch 4 [ | 0_0 | ]
              19 c process q
              17 epoch 4 validated 0 num.standby.replicas=1
              21 a [0_0 | 0_1 | ]
              21 b [ |  | ]
              21 c [0_1 | 0_0 | ]
              20 epoch 4
              22 c epoch 4 before 0 UNRELEASED [ | 0_0 | ]
            > beat a
              epoch 2 [0_0 | 0_1 | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 | 0_1 | ] gives back [0_1@2 |  | ]
            > ack a
              epoch 4 -
              22 a epoch 4 before 2 STABLE [0_0@2 | 0_1 | ]
            > beat b
              epoch 4 -
              22 b epoch 4 before 3 STABLE [ |  | ]
            > beat c
              epoch 4 [0_1 | 0_0 | ]
              22 c epoch 4 before 4 STABLE [0_1@4 | 0_0 | ]
            > beat a
              epoch 4 -
            > beat b
              epoch 4 -
        "#]],
    );
}

#[test]
fn a_rejoin_gives_back_at_once() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a
        join b
        join a
        beat b
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
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > join a
              epoch 3 [0_0 |  | ]
              22 a epoch 3 before 2 STABLE [0_0@2 |  | ]
            > beat b
              epoch 3 [0_1 |  | ]
              22 b epoch 3 before 3 STABLE [0_1@3 |  | ]
        "#]],
    );
}

#[test]
fn silence_ends_a_session_and_heartbeats_extend_it() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a
        join b
        +44999
        beat a
        +1
        +44998
        beat a
        +44999
        +1
        beat a
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
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > +44999
            > beat a
              epoch 2 [0_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > +1
              at +1
              22 b -
              21 b -
              19 b -
              17 epoch 4 validated 0 num.standby.replicas=0
            > +44998
            > beat a
              epoch 2 -
              21 a [0_0 0_1 |  | ]
              20 epoch 4
            > +44999
            > +1
              at +1
              22 a -
              21 a -
              19 a -
              17 epoch 5 validated 0 num.standby.replicas=0
              20 epoch 5 no time
            > beat a
              UnknownMemberId("Member a is not a member of group g; it must rejoin.")
        "#]],
    );
}

#[test]
fn zero_rebalance_timeout_is_a_timeout() {
    check_with(
        |config| config.initial_rebalance_delay_ms = 0,
        "
        topics in=2
        config assignment=0
        join a timeout=0
        join b
        beat a
        +0
        ",
        expect![[r#"
            > topics in=2
            > config assignment=0
            > join a timeout=0
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join b
              epoch 3 [ |  | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat a
              epoch 2 [0_0 |  | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > +0
              at +0
              22 a -
              21 a -
              19 a -
              17 epoch 4 validated 0 num.standby.replicas=0
        "#]],
    );
}
