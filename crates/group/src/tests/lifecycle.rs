//! The life of a group, batch by batch as a Kafka 4.4.0 broker writes it.

use expect_test::expect;

use super::script::check;

#[test]
fn a_group_lives_and_dies_as_with_kafka() {
    check(
        "
        topics words-in=2
        topology 0: words-in > wc-rep / 1: ~wc-rep +wc-log
        join a endpoint=h:8001
        ack a
        topics wc-rep=2 wc-log=2
        beat a
        +2700
        +400
        beat a
        ack a
        beat a
        +2000
        join b endpoint=h:8002
        ack b
        beat a
        ack a
        beat b
        ack b
        beat a
        config standbys=1
        +2000
        beat b
        ack b
        beat a
        ack a
        +30000
        beat b
        +16000
        beat b
        +1000
        beat b
        ack b
        leave b
        +100
        join a2 process=a
        join a3 process=a
        +3000
        beat a2
        beat a3
        ack a2
        ack a3
        +2000
        join c
        ack c
        beat a2
        beat a3
        ack a2
        beat c
        leave a3
        leave a2
        leave c
        commit - words-in-1=500
        delete
        ",
        expect![[r#"
            > topics words-in=2
            > topology 0: words-in > wc-rep / 1: ~wc-rep +wc-log
            > join a endpoint=h:8001
              epoch 1 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              status 3: Internal topics are missing: wc-log, wc-rep
              endpoint h:8001 at 0  | 
              19 a process a
              23 epoch 0
              17 epoch 2 validated -1 num.standby.replicas=0
              22 a epoch 1 before 0 STABLE [ |  | ]
              create wc-log=2 wc-rep=2
            > ack a
              epoch 1 -
              status 5: The assignment waits for the initial rebalance delay to pass.
              status 3: Internal topics are missing: wc-log, wc-rep
            > topics wc-rep=2 wc-log=2
            > beat a
              epoch 1 -
              status 5: The assignment waits for the initial rebalance delay to pass.
              17 epoch 3 validated 0 num.standby.replicas=0
            > +2700
            > +400
              at +300
              21 a [0_0 0_1 1_0 1_1 |  | ]
              20 epoch 3
            > beat a
              epoch 3 [0_0 0_1 1_0 1_1 |  | ]
              endpoint h:8001 at 1 wc-rep[0, 1] words-in[0, 1] | 
              22 a epoch 3 before 1 STABLE [0_0@3 0_1@3 1_0@3 1_1@3 |  | ]
            > ack a
              epoch 3 -
            > beat a
              epoch 3 -
            > +2000
            > join b endpoint=h:8002
              epoch 4 [ |  | ]
              endpoint h:8001 at 2 wc-rep[0, 1] words-in[0, 1] | 
              endpoint h:8002 at 2  | 
              19 b process b
              17 epoch 4 validated 0 num.standby.replicas=0
              21 a [0_0 1_0 |  | ]
              21 b [0_1 1_1 |  | ]
              20 epoch 4
              22 b epoch 4 before 0 UNRELEASED [ |  | ]
            > ack b
              epoch 4 -
              22 b epoch 4 before 4 UNRELEASED [ |  | ]
            > beat a
              epoch 3 [0_0 1_0 |  | ]
              endpoint h:8002 at 3  | 
              endpoint h:8001 at 3 wc-rep[0] words-in[0] | 
              22 a epoch 3 before 3 UNREVOKED [0_0@3 1_0@3 |  | ] gives back [0_1@3 1_1@3 |  | ]
            > ack a
              epoch 4 -
              22 a epoch 4 before 3 STABLE [0_0@3 1_0@3 |  | ]
            > beat b
              epoch 4 [0_1 1_1 |  | ]
              endpoint h:8001 at 4 wc-rep[0] words-in[0] | 
              endpoint h:8002 at 4 wc-rep[1] words-in[1] | 
              22 b epoch 4 before 4 STABLE [0_1@4 1_1@4 |  | ]
            > ack b
              epoch 4 -
            > beat a
              epoch 4 -
              endpoint h:8002 at 4 wc-rep[1] words-in[1] | 
              endpoint h:8001 at 4 wc-rep[0] words-in[0] | 
            > config standbys=1
            > +2000
            > beat b
              epoch 5 [0_1 1_1 | 1_0 | ]
              endpoint h:8001 at 5 wc-rep[0] words-in[0] | 
              endpoint h:8002 at 5 wc-rep[1] words-in[1] | wc-rep[0]
              17 epoch 5 validated 0 num.standby.replicas=1
              21 a [0_0 1_0 | 1_1 | ]
              21 b [0_1 1_1 | 1_0 | ]
              20 epoch 5
              22 b epoch 5 before 4 STABLE [0_1@4 1_1@4 | 1_0 | ]
            > ack b
              epoch 5 -
            > beat a
              epoch 5 [0_0 1_0 | 1_1 | ]
              endpoint h:8002 at 6 wc-rep[1] words-in[1] | wc-rep[0]
              endpoint h:8001 at 6 wc-rep[0] words-in[0] | wc-rep[1]
              22 a epoch 5 before 4 STABLE [0_0@3 1_0@3 | 1_1 | ]
            > ack a
              epoch 5 -
            > +30000
            > beat b
              epoch 5 -
              endpoint h:8001 at 6 wc-rep[0] words-in[0] | wc-rep[1]
              endpoint h:8002 at 6 wc-rep[1] words-in[1] | wc-rep[0]
            > +16000
              at +15000
              22 a -
              21 a -
              19 a -
              17 epoch 6 validated 0 num.standby.replicas=1
            > beat b
              epoch 6 [0_0 0_1 1_0 1_1 |  | ]
              endpoint h:8002 at 7 wc-rep[0, 1] words-in[0, 1] | 
              21 b [0_0 0_1 1_0 1_1 |  | ]
              20 epoch 6
              22 b epoch 6 before 5 STABLE [0_0@6 0_1@4 1_0@6 1_1@4 |  | ]
            > +1000
            > beat b
              epoch 6 -
            > ack b
              epoch 6 -
            > leave b
              epoch -1 -
              22 b -
              21 b -
              19 b -
              17 epoch 7 validated 0 num.standby.replicas=1
              20 epoch 7 no time
            > +100
            > join a2 process=a
              epoch 7 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              19 a2 process a
              17 epoch 8 validated 0 num.standby.replicas=1
              22 a2 epoch 7 before 0 STABLE [ |  | ]
            > join a3 process=a
              epoch 7 [ |  | ]
              status 5: The assignment waits for the initial rebalance delay to pass.
              19 a3 process a
              17 epoch 9 validated 0 num.standby.replicas=1
              22 a3 epoch 7 before 0 STABLE [ |  | ]
            > +3000
              at +3000
              21 a2 [0_0 1_0 |  | ]
              21 a3 [0_1 1_1 |  | ]
              20 epoch 9
            > beat a2
              epoch 9 [0_0 1_0 |  | ]
              22 a2 epoch 9 before 7 STABLE [0_0@9 1_0@9 |  | ]
            > beat a3
              epoch 9 [0_1 1_1 |  | ]
              22 a3 epoch 9 before 7 STABLE [0_1@9 1_1@9 |  | ]
            > ack a2
              epoch 9 -
            > ack a3
              epoch 9 -
            > +2000
            > join c
              epoch 10 [ | 1_0 | ]
              19 c process c
              17 epoch 10 validated 0 num.standby.replicas=1
              21 a3 [0_1 | 1_1 | ]
              21 c [1_1 | 1_0 | ]
              20 epoch 10
              22 c epoch 10 before 0 UNRELEASED [ | 1_0 | ]
            > ack c
              epoch 10 -
              22 c epoch 10 before 10 UNRELEASED [ | 1_0 | ]
            > beat a2
              epoch 10 -
              22 a2 epoch 10 before 9 STABLE [0_0@9 1_0@9 |  | ]
            > beat a3
              epoch 9 [0_1 | 1_1 | ]
              22 a3 epoch 9 before 9 UNREVOKED [0_1@9 | 1_1 | ] gives back [1_1@9 |  | ]
            > ack a2
              epoch 10 -
            > beat c
              epoch 10 -
            > leave a3
              epoch -1 -
              22 a3 -
              21 a3 -
              19 a3 -
              17 epoch 11 validated 0 num.standby.replicas=1
            > leave a2
              epoch -1 -
              22 a2 -
              21 a2 -
              19 a2 -
              17 epoch 12 validated 0 num.standby.replicas=1
            > leave c
              epoch -1 -
              22 c -
              21 c -
              19 c -
              17 epoch 13 validated 0 num.standby.replicas=1
              20 epoch 13 no time
            > commit - words-in-1=500
              OffsetCommit(Ok(()))
              1 words-in-1 500
            > delete
              DeleteGroup(Ok(()))
              1 words-in-1 -
              20 -
              17 -
              23 -
        "#]],
    );
}
