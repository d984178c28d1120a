//! Simulated consumers of a classic group: joins, crashes, lost answers, restarts of the server, thousands of random
//! steps; and a group of a thousand members.
//!
//! By the generations that members are told, an assignment that is out is never followed by one of an older generation,
//! and a commit of an older generation is never taken. Once the faults stop, all members are in one generation and read
//! every partition once.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use riparian_types::{
    Generation, LeaderEpoch, MemberEpoch, MemberId, Offset, PartitionIndex, Prng, Uuid, machine::Waiter,
};

use super::driver::{Driver, config};
use crate::{
    classic::{LeavingMember, MemberAssignment, Protocol},
    command::{
        Caller, ClassicHeartbeat, ClassicJoin, ClassicSync, Command, GroupFilter, JoinSupport, OffsetCommit,
        OffsetToCommit,
    },
    reply::{ClassicJoinError, ClassicMemberError, JoinedMember, OffsetCommitError, Reply},
};

const GROUP: &str = "g";
const MEMBERS: usize = 9;
const PARTITIONS: i32 = 12;
const SESSION_MS: i32 = 10_000;
const REBALANCE_MS: i32 = 30_000;
const HEARTBEAT_MS: u64 = 3_000;

/// What a consumer is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doing {
    /// Not running.
    Nothing,
    /// It must join.
    Out,
    Joining(Waiter),
    /// It has joined, and if it leads it knows whom to assign to.
    Joined(Vec<JoinedMember>),
    Syncing(Waiter),
    Reading,
}

struct Consumer {
    name: String,
    instance: Option<String>,
    /// It is given its id before it joins.
    modern: bool,
    id: MemberId,
    generation: Generation,
    doing: Doing,
    partitions: Vec<i32>,
    topics: u64,
    last_sent_ms: u64,
}

struct Simulation {
    prng: Prng,
    driver: Driver,
    consumers: Vec<Consumer>,
    ids: u32,
    /// The newest generation of which anybody has an assignment.
    assigned: Generation,
    totals: BTreeMap<&'static str, u32>,
}

fn run(seed: u64, steps: u32) -> Simulation {
    let mut driver = Driver::new(config());
    driver.replay_always = false;
    let consumer = |index: usize| Consumer {
        name: format!("c{index}"),
        instance: index.is_multiple_of(3).then(|| format!("i{index}")),
        modern: index.is_multiple_of(2),
        id: MemberId::default(),
        generation: Generation::NONE,
        doing: Doing::Nothing,
        partitions: Vec::new(),
        topics: 0,
        last_sent_ms: 0,
    };
    let mut simulation = Simulation {
        prng: Prng::new(seed),
        driver,
        consumers: (0..MEMBERS).map(consumer).collect(),
        ids: 0,
        assigned: Generation(0),
        totals: BTreeMap::new(),
    };
    for step in 0..steps {
        simulation.step();
        if step % 100 == 0 {
            simulation.driver.check_replay();
        }
    }
    simulation.heal();
    simulation
}

impl Simulation {
    fn count(&mut self, what: &'static str) {
        *self.totals.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        let index = self.prng.below(MEMBERS as u64) as usize;
        match self.prng.below(300) {
            0..=2 => self.crash(index),
            3..=5 => self.leave(index),
            6..=25 if self.consumers[index].doing == Doing::Nothing => self.start(index),
            26 => self.restart_server(),
            27..=28 => self.lose_connection(index),
            29 => self.consumers[index].topics += 1,
            30 => self.ask_around(),
            31 => {
                let ms = self.prng.below(9_000);
                self.pass(ms);
            }
            _ => {}
        }
        self.act(index, true);
        let ms = self.prng.below(300);
        self.pass(ms);
    }

    fn pass(&mut self, ms: u64) {
        self.driver.advance(ms);
        self.driver.check_classic();
    }

    fn start(&mut self, index: usize) {
        let consumer = &mut self.consumers[index];
        (consumer.id, consumer.generation, consumer.doing) = (MemberId::default(), Generation::NONE, Doing::Out);
        consumer.partitions.clear();
    }

    /// A process is gone; its connection closes at once, or much later.
    fn crash(&mut self, index: usize) {
        if self.consumers[index].doing == Doing::Nothing {
            return;
        }
        self.count("crashes");
        self.lose_connection(index);
        self.consumers[index].doing = Doing::Nothing;
        self.consumers[index].partitions.clear();
    }

    /// Whatever it was waiting for will not reach it; it asks again.
    fn lose_connection(&mut self, index: usize) {
        let waits = match self.consumers[index].doing {
            Doing::Joining(waiter) => Some((waiter, Doing::Out)),
            Doing::Syncing(waiter) => Some((waiter, Doing::Out)),
            Doing::Nothing | Doing::Out | Doing::Joined(_) | Doing::Reading => None,
        };
        let Some((waiter, next)) = waits else { return };
        self.count("lost connections");
        self.consumers[index].doing = next;
        if self.driver.waiting.remove(&waiter) {
            self.driver.command(|_| Command::GiveUp(GROUP.into(), waiter));
        }
        self.driver.answers.remove(&waiter);
    }

    fn leave(&mut self, index: usize) {
        let consumer = &self.consumers[index];
        if matches!(consumer.doing, Doing::Nothing | Doing::Joining(_) | Doing::Syncing(_)) {
            return;
        }
        let leaving =
            LeavingMember { member_id: consumer.id.clone(), instance_id: consumer.instance.as_deref().map(Into::into) };
        self.driver.command(|waiter| Command::ClassicLeave(waiter, GROUP.into(), alloc::vec![leaving]));
        self.count("leaves");
        self.consumers[index].doing = Doing::Nothing;
        self.consumers[index].partitions.clear();
    }

    fn restart_server(&mut self) {
        self.count("restarts");
        self.driver.restart();
        for consumer in &mut self.consumers {
            consumer.doing = match &consumer.doing {
                Doing::Joining(_) | Doing::Syncing(_) => Doing::Out,
                other => other.clone(),
            };
        }
    }

    /// Others may look, and may not disturb.
    fn ask_around(&mut self) {
        self.driver.command(|waiter| Command::ListGroups(waiter, GroupFilter::default()));
        self.driver.command(|waiter| Command::ClassicDescribe(waiter, GROUP.into()));
        let has_members = self.consumers.iter().any(|consumer| consumer.doing == Doing::Reading);
        let step = self.driver.command(|waiter| Command::DeleteGroup(waiter, GROUP.into()));
        if matches!(step.reply, Some(Reply::DeleteGroup(Ok(())))) {
            self.count("deletes");
            // Generations begin again. Whoever still believes to be a member is told otherwise.
            self.assigned = Generation(0);
            assert!(!has_members || step.records.iter().all(|record| record.group().as_str() == GROUP));
        }
    }

    fn act(&mut self, index: usize, with_faults: bool) {
        let now_ms = self.driver.now_ms;
        match self.consumers[index].doing.clone() {
            Doing::Nothing => {}
            Doing::Out => self.join(index),
            Doing::Joining(waiter) => self.hear_of_join(index, waiter, with_faults),
            Doing::Joined(members) => self.sync(index, members),
            Doing::Syncing(waiter) => self.hear_of_sync(index, waiter),
            Doing::Reading if now_ms >= self.consumers[index].last_sent_ms + HEARTBEAT_MS => self.beat(index),
            Doing::Reading => self.commit(index, with_faults),
        }
        self.driver.check_classic();
    }

    fn join(&mut self, index: usize) {
        self.ids += 1;
        let consumer = &mut self.consumers[index];
        consumer.partitions.clear();
        consumer.last_sent_ms = self.driver.now_ms;
        let metadata = format!("topics {}", consumer.topics);
        let protocol = Protocol {
            name: "range".into(),
            metadata: metadata.as_bytes().into(),
            subscribed_topics: Some(Arc::from(["in".into()])),
        };
        let join = ClassicJoin {
            caller: Caller {
                client_id: consumer.name.as_str().into(),
                client_host: "/127.0.0.1".into(),
                connection: 0,
            },
            support: JoinSupport { given_id: consumer.modern, skip_assignment: consumer.modern },
            group_id: GROUP.into(),
            member_id: consumer.id.clone(),
            fresh_id: format!("{:06}", self.ids),
            instance_id: consumer.instance.as_deref().map(Into::into),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            protocol_type: "consumer".into(),
            protocols: alloc::vec![protocol],
        };
        let step = self.driver.command(|waiter| Command::ClassicJoin(waiter, join.into()));
        self.driver.answers.extend(step.reply.map(|reply| (step.waiter, reply)));
        self.consumers[index].doing = Doing::Joining(step.waiter);
    }

    fn hear_of_join(&mut self, index: usize, waiter: Waiter, with_faults: bool) {
        let Some(reply) = self.driver.answers.remove(&waiter) else { return };
        if with_faults && self.prng.below(30) == 0 {
            self.count("lost answers");
            self.consumers[index].doing = Doing::Out;
            return;
        }
        let consumer = &mut self.consumers[index];
        match reply {
            Reply::ClassicJoin(Ok(reply)) => {
                (consumer.id, consumer.generation) = (reply.member_id, reply.generation);
                let members = if reply.skip_assignment { Vec::new() } else { reply.members };
                consumer.doing = Doing::Joined(members);
            }
            Reply::ClassicJoin(Err(refusal)) => {
                consumer.doing = Doing::Out;
                match refusal.error {
                    ClassicJoinError::MemberIdRequired => consumer.id = refusal.member_id,
                    ClassicJoinError::UnknownMemberId => consumer.id = MemberId::default(),
                    ClassicJoinError::FencedInstanceId => consumer.doing = Doing::Nothing,
                    other => assert_eq!(other, ClassicJoinError::Superseded),
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn sync(&mut self, index: usize, members: Vec<JoinedMember>) {
        let consumer = &self.consumers[index];
        let count = members.len().max(1);
        let share = |(place, member): (usize, JoinedMember)| {
            let partitions = (0..PARTITIONS).filter(|partition| *partition as usize % count == place);
            let text: Vec<String> = partitions.map(|partition| partition.to_string()).collect();
            MemberAssignment { member_id: member.member_id, assignment: text.join(",").as_bytes().into() }
        };
        let sync = ClassicSync {
            group_id: GROUP.into(),
            member_id: consumer.id.clone(),
            instance_id: consumer.instance.as_deref().map(Into::into),
            generation: consumer.generation,
            protocol_type: Some("consumer".into()),
            protocol: Some("range".into()),
            assignments: members.into_iter().enumerate().map(share).collect(),
        };
        let step = self.driver.command(|waiter| Command::ClassicSync(waiter, sync.into()));
        self.driver.answers.extend(step.reply.map(|reply| (step.waiter, reply)));
        self.consumers[index].doing = Doing::Syncing(step.waiter);
    }

    fn hear_of_sync(&mut self, index: usize, waiter: Waiter) {
        let Some(reply) = self.driver.answers.remove(&waiter) else { return };
        let consumer = &mut self.consumers[index];
        match reply {
            Reply::ClassicSync(Ok(reply)) => {
                // An answer may lie around while the group goes on; that is what commits are fenced for.
                let text = String::from_utf8(reply.assignment.to_vec()).expect("as it was sent");
                consumer.partitions = text.split(',').filter_map(|number| number.parse().ok()).collect();
                consumer.doing = Doing::Reading;
                consumer.last_sent_ms = self.driver.now_ms;
                self.assigned = self.assigned.max(consumer.generation);
                self.count("assignments");
            }
            Reply::ClassicSync(Err(error)) => self.must_join(index, &error),
            other => panic!("{other:?}"),
        }
    }

    fn must_join(&mut self, index: usize, error: &ClassicMemberError) {
        let consumer = &mut self.consumers[index];
        consumer.doing = Doing::Out;
        consumer.partitions.clear();
        match error {
            ClassicMemberError::UnknownMemberId => consumer.id = MemberId::default(),
            ClassicMemberError::FencedInstanceId => consumer.doing = Doing::Nothing,
            ClassicMemberError::IllegalGeneration | ClassicMemberError::RebalanceInProgress => {}
            other => panic!("{other:?}"),
        }
    }

    fn beat(&mut self, index: usize) {
        let consumer = &mut self.consumers[index];
        consumer.last_sent_ms = self.driver.now_ms;
        let beat = ClassicHeartbeat {
            group_id: GROUP.into(),
            member_id: consumer.id.clone(),
            instance_id: consumer.instance.as_deref().map(Into::into),
            generation: consumer.generation,
        };
        let step = self.driver.command(|waiter| Command::ClassicHeartbeat(waiter, beat));
        match step.reply {
            Some(Reply::ClassicHeartbeat(Ok(()))) => {}
            Some(Reply::ClassicHeartbeat(Err(error))) => self.must_join(index, &error),
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, index: usize, with_faults: bool) {
        let consumer = &self.consumers[index];
        let offset = |partition: &i32| OffsetToCommit {
            topic: "in".into(),
            topic_id: Uuid::ZERO,
            partition: PartitionIndex(*partition),
            offset: Offset(1),
            leader_epoch: LeaderEpoch(-1),
            metadata: String::new(),
        };
        let commit = OffsetCommit {
            group_id: GROUP.into(),
            member_id: consumer.id.clone(),
            instance_id: consumer.instance.as_deref().map(Into::into),
            member_epoch: MemberEpoch(consumer.generation.0),
            knows_member_epochs: true,
            retention_ms: None,
            offsets: consumer.partitions.iter().take(1).map(offset).collect(),
        };
        let generation = consumer.generation;
        let step = self.driver.command(|waiter| Command::OffsetCommit(waiter, commit));
        match step.reply {
            Some(Reply::OffsetCommit(Ok(()))) => {
                assert!(generation >= self.assigned, "{generation} commits after {} was assigned", self.assigned);
                self.count("commits");
            }
            Some(Reply::OffsetCommit(Err(error))) => {
                self.count("refused commits");
                let known = [
                    OffsetCommitError::IllegalGeneration,
                    OffsetCommitError::UnknownMemberId,
                    OffsetCommitError::FencedInstanceId,
                    OffsetCommitError::GroupIdNotFound,
                    OffsetCommitError::RebalanceInProgress,
                ];
                assert!(known.contains(&error) && (with_faults || error != OffsetCommitError::GroupIdNotFound));
                // It finds out by its next heartbeat.
                self.consumers[index].last_sent_ms = 0;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Without faults everybody gets somewhere.
    fn heal(&mut self) {
        for _ in 0..300 {
            for index in 0..MEMBERS {
                // Two processes never have one instance id here: nobody stays fenced.
                if self.consumers[index].doing == Doing::Nothing {
                    self.start(index);
                }
                self.act(index, false);
                self.pass(100);
            }
        }
        let generations: BTreeSet<Generation> = self.consumers.iter().map(|consumer| consumer.generation).collect();
        let mut partitions: Vec<i32> = self.consumers.iter().flat_map(|it| it.partitions.iter().copied()).collect();
        partitions.sort_unstable();
        let doing: Vec<&Doing> = self.consumers.iter().map(|consumer| &consumer.doing).collect();
        assert!(doing.iter().all(|doing| **doing == Doing::Reading), "{doing:?}");
        assert_eq!((generations.len(), partitions), (1, (0..PARTITIONS).collect::<Vec<_>>()));
        assert!(self.driver.waiting.is_empty(), "{:?} are not answered", self.driver.waiting);
        self.driver.check_replay();
    }
}

#[test]
fn consumers_come_to_rest_and_old_generations_stay_fenced() {
    let mut totals: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..12 {
        for (what, count) in run(seed, 3_000).totals {
            *totals.entry(what).or_default() += count;
        }
    }
    for what in ["crashes", "leaves", "restarts", "lost answers", "lost connections", "refused commits", "assignments"]
    {
        assert!(totals.get(what).is_some_and(|count| *count > 20), "{what}: {totals:?}");
    }
}

#[test]
fn the_same_seed_of_consumers_gives_the_same_records() {
    assert_eq!(run(77, 1_000).driver.log, run(77, 1_000).driver.log);
}

/// What one member asks costs no more in a large group but for what grows by its nature (the leader's list, the record).
#[test]
fn a_thousand_members_rebalance() {
    const COUNT: u32 = 1_000;
    let mut driver = Driver::new(config());
    driver.replay_always = false;
    let join = |member_id: MemberId, number: u32| ClassicJoin {
        caller: Caller { client_id: "c".into(), client_host: "/127.0.0.1".into(), connection: 0 },
        support: JoinSupport { given_id: false, skip_assignment: false },
        group_id: GROUP.into(),
        member_id,
        fresh_id: format!("{number:04}"),
        instance_id: None,
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        protocol_type: "consumer".into(),
        protocols: alloc::vec![Protocol {
            name: "range".into(),
            metadata: Arc::default(),
            subscribed_topics: Some(Arc::from(["in".into()])),
        }],
    };
    let ask = |driver: &mut Driver, join: ClassicJoin| {
        let step = driver.command(|waiter| Command::ClassicJoin(waiter, join.into()));
        driver.answers.extend(step.reply.map(|reply| (step.waiter, reply)));
        step.waiter
    };
    let mut waiters: Vec<Waiter> = (0..COUNT).map(|n| ask(&mut driver, join(MemberId::default(), n))).collect();
    for generation in 1..=3 {
        driver.advance(6_000);
        let mut ids = Vec::new();
        for waiter in core::mem::take(&mut waiters) {
            match driver.answers.remove(&waiter) {
                Some(Reply::ClassicJoin(Ok(reply))) => {
                    assert_eq!(reply.generation, Generation(generation));
                    assert!(reply.members.is_empty() || reply.members.len() == COUNT as usize);
                    ids.push((reply.member_id.clone(), reply.leader == reply.member_id));
                }
                other => panic!("{other:?}"),
            }
        }
        let mut syncs = Vec::new();
        for (id, leads) in &ids {
            let assigned = |(id, _): &(MemberId, bool)| MemberAssignment {
                member_id: id.clone(),
                assignment: id.as_bytes().into(),
            };
            let sync = ClassicSync {
                group_id: GROUP.into(),
                member_id: id.clone(),
                instance_id: None,
                generation: Generation(generation),
                protocol_type: None,
                protocol: None,
                assignments: if *leads { ids.iter().map(assigned).collect() } else { Vec::new() },
            };
            let step = driver.command(|waiter| Command::ClassicSync(waiter, sync.into()));
            driver.answers.extend(step.reply.map(|reply| (step.waiter, reply)));
            syncs.push((step.waiter, id.clone()));
        }
        for (waiter, id) in syncs {
            match driver.answers.remove(&waiter) {
                Some(Reply::ClassicSync(Ok(reply))) => assert_eq!(&*reply.assignment, id.as_bytes()),
                other => panic!("{other:?}"),
            }
        }
        driver.check_classic();
        // The leader wants another one; the others hear of it and follow.
        ids.sort_by_key(|(_, leads)| !leads);
        waiters = ids.into_iter().map(|(id, _)| ask(&mut driver, join(id, 0))).collect();
    }
}
