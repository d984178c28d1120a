//! When a target is computed, what else an answer says: delays, statuses, settings, the endpoint map.

use expect_test::expect;

use super::script::{check, check_with};

#[test]
fn the_first_assignment_waits_for_the_others() {
    check(
        "
        topics in=2
        join a
        +1000
        join b
        +2000
        beat a
        beat b
        leave a
        leave b
        join c
        leave c
        +3000
        ",
        expect![[r#"
            > topics in=2
            > join a
              epoch 1 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              22 a epoch 1 before 0 STABLE [ |  | ]
            > +1000
            > join b
              epoch 1 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              22 b epoch 1 before 0 STABLE [ |  | ]
            > +2000
              at +2000
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
            > beat a
              epoch 3 [0_0 |  | ]
              22 a epoch 3 before 1 STABLE [0_0@3 |  | ]
            > beat b
              epoch 3 [0_1 |  | ]
              22 b epoch 3 before 1 STABLE [0_1@3 |  | ]
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 4 validated 0 num.standby.replicas=0
            > leave b
              epoch -1 -
              22 b -
              21 b -
              19 b -
              17 epoch 5 validated 0 num.standby.replicas=0
              20 epoch 5 no time
            > join c
              epoch 5 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              19 c process c
              17 epoch 6 validated 0 num.standby.replicas=0
              22 c epoch 5 before 0 STABLE [ |  | ]
            > leave c
              epoch -1 -
              22 c -
              21 c -
              19 c -
              17 epoch 7 validated 0 num.standby.replicas=0
              20 epoch 7 no time
            > +3000
        "#]],
    );
}

#[test]
fn assignments_keep_their_distance() {
    check(
        "
        topics in=2
        config delay=0 assignment=10000
        join a
        +9000
        join b
        +999
        beat a
        +1
        beat a
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=10000
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > +9000
            > join b
              epoch 2 [ |  | ]
              status 5: The assignment waits for the assignment interval to pass.
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              22 b epoch 2 before 0 STABLE [ |  | ]
            > +999
            > beat a
              epoch 2 -
              status 5: The assignment waits for the assignment interval to pass.
            > +1
            > beat a
              epoch 2 [0_0 |  | ]
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
        "#]],
    );
}

#[test]
fn a_stale_topology_still_gets_tasks_and_a_changed_one_is_refused() {
    check(
        "
        topics in=2 in2=2
        config delay=0 assignment=0
        topology @3 0: in in2
        join a
        topology @2 0: in
        join b
        beat b
        topology @3 0: in2 in
        join c
        topology @4 0: in in2
        join c
        ",
        expect![[r#"
            > topics in=2 in2=2
            > config delay=0 assignment=0
            > topology @3 0: in in2
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 3
              17 epoch 2 validated 3 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > topology @2 0: in
            > join b
              epoch 3 [ |  | ]
              status 0: The member's topology epoch 2 is behind the group's topology epoch 3.
              19 b process b
              17 epoch 3 validated 3 num.standby.replicas=0
              21 a [0_0 |  | ]
              21 b [0_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat b
              epoch 3 -
              status 0: The member's topology epoch 2 is behind the group's topology epoch 3.
              22 b epoch 3 before 3 UNRELEASED [ |  | ]
            > topology @3 0: in2 in
            > join c
              InvalidRequest("The topology (epoch 3) differs from the group's (epoch 3). Changing a group's topology is not supported yet: use another application id, or delete the group once all members have left.")
            > topology @4 0: in in2
            > join c
              InvalidRequest("The topology (epoch 4) differs from the group's (epoch 3). Changing a group's topology is not supported yet: use another application id, or delete the group once all members have left.")
        "#]],
    );
}

#[test]
fn an_application_is_shut_down_on_request() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a
        join b
        beat b shutdown
        beat a shutdown
        leave b
        leave a
        join c
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
            > beat b shutdown
              epoch 3 -
              status 4: Member b met a fatal error and asked the whole application to shut down.
              22 b epoch 3 before 3 UNRELEASED [ |  | ]
            > beat a shutdown
              epoch 2 [0_0 |  | ]
              status 4: Member b met a fatal error and asked the whole application to shut down.
              22 a epoch 2 before 2 UNREVOKED [0_0@2 |  | ] gives back [0_1@2 |  | ]
            > leave b
              epoch -1 -
              22 b -
              21 b -
              19 b -
              17 epoch 4 validated 0 num.standby.replicas=0
            > leave a
              epoch -1 -
              22 a -
              21 a -
              19 a -
              17 epoch 5 validated 0 num.standby.replicas=0
              20 epoch 5 no time
            > join c
              epoch 6 [0_0 0_1 |  | ]
              19 c process c
              17 epoch 6 validated 0 num.standby.replicas=0
              21 c [0_0 0_1 |  | ]
              20 epoch 6
              22 c epoch 6 before 0 STABLE [0_0@6 0_1@6 |  | ]
        "#]],
    );
}

#[test]
fn tags_that_rack_awareness_needs_are_asked_for() {
    check(
        "
        topics in=2
        config delay=0 assignment=0 tags=zone,cluster
        join a tags=zone:z
        beat a
        beat a v0
        beat a tags=zone:z,cluster:c
        config tags=zone
        beat a
        ",
        expect![[r#"
            > topics in=2
            > config delay=0 assignment=0 tags=zone,cluster
            > join a tags=zone:z
              epoch 2 [0_0 0_1 |  | ]
              status 6: The member lacks client tags that the group's rack-aware assignment needs: cluster. Set client.tag.<key> for each in the Streams configuration.
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0 rack.aware.assignment.tags=zone,cluster
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > beat a
              epoch 2 -
              status 6: The member lacks client tags that the group's rack-aware assignment needs: cluster. Set client.tag.<key> for each in the Streams configuration.
            > beat a v0
              epoch 2 -
            > beat a tags=zone:z,cluster:c
              epoch 3 -
              19 a process a
              17 epoch 3 validated 0 num.standby.replicas=0 rack.aware.assignment.tags=zone,cluster
              20 epoch 3
              22 a epoch 3 before 2 STABLE [0_0@2 0_1@2 |  | ]
            > config tags=zone
            > beat a
              epoch 4 -
              17 epoch 4 validated 0 num.standby.replicas=0 rack.aware.assignment.tags=zone
              20 epoch 4
              22 a epoch 4 before 3 STABLE [0_0@2 0_1@2 |  | ]
        "#]],
    );
}

#[test]
fn settings_are_clamped_and_take_effect_at_the_next_heartbeat() {
    check_with(
        |config| config.session_timeout_min_ms = 6000,
        "
        topics in=2 c=2
        topology 0: in +c
        config delay=0 assignment=0 standbys=9 session=1
        join a
        join b
        +5999
        beat a
        +1
        ",
        expect![[r#"
            > topics in=2 c=2
            > topology 0: in +c
            > config delay=0 assignment=0 standbys=9 session=1
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=2
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > join b
              epoch 3 [ | 0_0 | ]
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=2
              21 a [0_0 | 0_1 | ]
              21 b [0_1 | 0_0 | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ | 0_0 | ]
            > +5999
            > beat a
              epoch 2 [0_0 | 0_1 | ]
              22 a epoch 2 before 2 UNREVOKED [0_0@2 | 0_1 | ] gives back [0_1@2 |  | ]
            > +1
              at +1
              22 b -
              21 b -
              19 b -
              17 epoch 4 validated 0 num.standby.replicas=2
        "#]],
    );
}

#[test]
fn a_change_of_settings_is_no_sign_of_life() {
    check(
        "
        topics in=2
        config delay=0
        join a
        +44000
        config session=60000
        +999
        +1
        ",
        expect![[r#"
            > topics in=2
            > config delay=0
            > join a
              epoch 2 [0_0 0_1 |  | ]
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 |  | ]
            > +44000
            > config session=60000
            > +999
            > +1
              at +1
              22 a -
              21 a -
              19 a -
              17 epoch 3 validated 0 num.standby.replicas=0
              20 epoch 3 no time
        "#]],
    );
}

#[test]
fn endpoints_are_told_to_who_does_not_know_them() {
    check(
        "
        topics in=2 r=2
        topology 0: in > r / 1: ~r
        config delay=0 assignment=0
        join a endpoint=h:1
        join b
        beat a
        ack a
        beat b
        beat a endpoint=h:2
        beat b
        beat a
        topics in=1
        beat a
        ",
        expect![[r#"
            > topics in=2 r=2
            > topology 0: in > r / 1: ~r
            > config delay=0 assignment=0
            > join a endpoint=h:1
              epoch 2 [0_0 0_1 1_0 1_1 |  | ]
              endpoint h:1 at 0 in[0, 1] r[0, 1] | 
              19 a process a
              23 epoch 0
              17 epoch 2 validated 0 num.standby.replicas=0
              21 a [0_0 0_1 1_0 1_1 |  | ]
              20 epoch 2
              22 a epoch 2 before 0 STABLE [0_0@2 0_1@2 1_0@2 1_1@2 |  | ]
            > join b
              epoch 3 [ |  | ]
              endpoint h:1 at 0 in[0, 1] r[0, 1] | 
              19 b process b
              17 epoch 3 validated 0 num.standby.replicas=0
              21 a [0_0 1_0 |  | ]
              21 b [0_1 1_1 |  | ]
              20 epoch 3
              22 b epoch 3 before 0 UNRELEASED [ |  | ]
            > beat a
              epoch 2 [0_0 1_0 |  | ]
              endpoint h:1 at 1 in[0] r[0] | 
              22 a epoch 2 before 2 UNREVOKED [0_0@2 1_0@2 |  | ] gives back [0_1@2 1_1@2 |  | ]
            > ack a
              epoch 3 -
              22 a epoch 3 before 2 STABLE [0_0@2 1_0@2 |  | ]
            > beat b
              epoch 3 [0_1 1_1 |  | ]
              endpoint h:1 at 1 in[0] r[0] | 
              22 b epoch 3 before 3 STABLE [0_1@3 1_1@3 |  | ]
            > beat a endpoint=h:2
              epoch 4 -
              endpoint h:2 at 2 in[0] r[0] | 
              19 a process a
              17 epoch 4 validated 0 num.standby.replicas=0
              20 epoch 4
              22 a epoch 4 before 3 STABLE [0_0@2 1_0@2 |  | ]
            > beat b
              epoch 4 -
              endpoint h:2 at 2 in[0] r[0] | 
              22 b epoch 4 before 3 STABLE [0_1@3 1_1@3 |  | ]
            > beat a
              epoch 4 -
            > topics in=1
            > beat a
              epoch 4 [ |  | ]
              status 2: Internal topic r exists with 2 partitions, but must have 1; delete it or change the topics it depends on.
              endpoint h:2 at 3  | 
              17 epoch 5 validated -1 num.standby.replicas=0
              21 a [ |  | ]
              21 b [ |  | ]
              20 epoch 5
              22 a epoch 4 before 4 UNREVOKED [ |  | ] gives back [0_0@2 1_0@2 |  | ]
        "#]],
    );
}

#[test]
fn another_address_of_a_dynamic_member_is_a_new_epoch() {
    check(
        "
        topics in=2
        config delay=0 assignment=0
        join a
        beat a
        join a host=/10.0.0.1
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
            > beat a
              epoch 2 -
            > join a host=/10.0.0.1
              epoch 3 [0_0 0_1 |  | ]
              19 a process a
              17 epoch 3 validated 0 num.standby.replicas=0
              20 epoch 3
              22 a epoch 3 before 2 STABLE [0_0@2 0_1@2 |  | ]
        "#]],
    );
}

#[test]
fn a_topology_without_subtopologies_is_ready() {
    let mut driver = super::driver::Driver::new(super::driver::config());
    let topology = crate::streams::Topology::default();
    let join = super::script::Client::default().join("g", "m", topology);
    let step = driver.command(|waiter| crate::command::Command::StreamsHeartbeat(waiter, join.into()));
    assert!(matches!(step.reply, Some(crate::reply::Reply::StreamsHeartbeat(Ok(reply))) if reply.statuses.len() == 1));
}
