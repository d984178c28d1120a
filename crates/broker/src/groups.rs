//! The group shards: which serves which group, and what their machines ask for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use riparian_coordinator::codecs::GroupCodec;
use riparian_group::{
    GroupMachine,
    command::{Command, PlainHeartbeat},
    reply::{Effect, Reply, StreamsHeartbeatReply},
};
use riparian_types::{GroupId, Now, Offset, Uuid, java, machine::Waiter};

use crate::{
    Broker, Wake, cluster,
    connection::GroupWait,
    host::{Continuation, Hosted, Unavailable},
    request::Context,
    shell::ConnectionId,
};

/// How often one request may name a group; clients do it once. What is told of a group may be large.
const NAMED_MAX: usize = 10;

/// The groups that a request has named.
#[derive(Debug, Default)]
pub(crate) struct Named(BTreeMap<String, usize>);

impl Named {
    /// Names a group; false if that was done too often.
    pub(crate) fn may_be_named(&mut self, group: &str) -> bool {
        let count = match self.0.get_mut(group) {
            Some(count) => count,
            None => self.0.entry(group.to_owned()).or_default(),
        };
        *count += 1;
        *count <= NAMED_MAX
    }
}

impl Hosted for GroupMachine {
    type Codec = GroupCodec;
    type Snapshot = ();

    const NAME: &'static str = "groups";

    fn snapshot(&self) {}

    fn publish(_: &Broker, _: Now, _: Offset, (): ()) {}

    fn carry_out(broker: &Broker, now: Now, shard: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::CreateInternalTopics { group, topics } => {
                    broker.create_internal_topics(now, shard, group, topics);
                }
            }
        }
    }

    fn wake(shard: usize) -> Wake {
        Wake::Groups(shard)
    }

    /// Groups serve themselves; several threads may answer for one shard.
    const IN_ORDER: bool = false;

    fn introduce(broker: &Broker, now: Now, shard: usize, _: Offset, (): ()) {
        // Among the changes of the metadata, so that nothing older is told after something newer.
        let tell = move |broker: &Broker| {
            let host = &broker.groups[shard];
            let (image, as_of) = broker.image_as_of();
            let view = image.view();
            host.tell(broker, now, Command::TopicsChanged { view, as_of, changed: Arc::new([]) });
            for (group, overrides) in cluster::group_overrides(&image) {
                if broker.group_shard(&group) == shard {
                    host.tell(broker, now, Command::GroupConfigChanged { group, overrides });
                }
            }
        };
        broker.metadata.in_order(broker, Box::new(tell));
    }
}

impl Broker {
    /// The number of the shard that serves this group.
    pub(crate) fn group_shard(&self, group: &GroupId) -> usize {
        self.shard_of(group)
    }

    fn shard_of(&self, group: &str) -> usize {
        let count = i32::try_from(self.groups.len()).expect("as many as a topic has partitions");
        usize::try_from(java::coordinator_partition(group, count)).expect("never negative")
    }

    /// Whether the shard that serves this group has a damaged log and serves nobody.
    pub(crate) fn is_offline(&self, group: &GroupId) -> bool {
        self.groups[self.group_shard(group)].partition().log().damage().is_some()
    }

    /// Asks the machine that serves `group`.
    pub(crate) fn ask_group(
        &self,
        now: Now,
        group: &GroupId,
        command: impl FnOnce(Waiter) -> Command,
        then: Continuation<GroupMachine>,
    ) {
        self.groups[self.group_shard(group)].ask(self, now, command, then);
    }

    /// Answers a heartbeat at once whose member is known to have nothing new to hear.
    pub(crate) fn ask_settled(&self, now: Now, heartbeat: &PlainHeartbeat<'_>) -> Option<StreamsHeartbeatReply> {
        let host = &self.groups[self.shard_of(heartbeat.group_id)];
        host.glance(self, now, heartbeat.group_id, |machine, soft| machine.settled_heartbeat(soft, now, heartbeat))
    }

    /// Tells a group that a connection of its members was closed.
    pub(crate) fn connection_closed(&self, now: Now, group: GroupId, connection: ConnectionId) {
        let host = &self.groups[self.group_shard(&group)];
        host.tell(self, now, Command::ConnectionClosed { group, connection: connection.0 });
    }

    /// Asks the machine that serves `group` what it may only answer when something has happened there.
    pub(crate) fn ask_group_and_wait(
        &self,
        ctx: &Context<'_>,
        group: GroupId,
        command: impl FnOnce(Waiter) -> Command,
        then: Continuation<GroupMachine>,
    ) {
        let (polls, slot) = (ctx.connection.long_polls().clone(), ctx.to.slot);
        let noted = polls.clone();
        let then = Box::new(move |broker: &Self, now: Now, answer: Result<Reply, Unavailable>| {
            noted.end_group_wait(slot);
            then(broker, now, answer);
        });
        let mut in_vain = None;
        let ask = |waiter| {
            // Before the machine can answer, so that what is noted is always taken away again.
            let wait = GroupWait { group: group.clone(), waiter };
            if !polls.begin_group_wait(slot, wait.clone()) {
                in_vain = Some(wait);
            }
            command(waiter)
        };
        self.ask_group(ctx.now, &group, ask, then);
        if let Some(wait) = in_vain {
            self.give_up_group_wait(ctx.now, &wait, true);
        }
    }

    /// Nobody waits for this any more; whoever asked is told so, if anybody is there to hear it.
    pub(crate) fn give_up_group_wait(&self, now: Now, wait: &GroupWait, is_heard: bool) {
        let host = &self.groups[self.group_shard(&wait.group)];
        let then = host.give_up(self, now, wait.waiter, Command::GiveUp(wait.group.clone(), wait.waiter));
        if let Some(then) = then.filter(|_| is_heard) {
            then(self, now, Err(Unavailable));
        }
    }

    /// A text that no other gets: what Java prints of a random UUID.
    pub(crate) fn fresh_id(&self) -> String {
        let mut luck = self.luck.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, least) = Uuid::from_random(luck.next_u64(), luck.next_u64()).halves();
        java::uuid_text(most, least)
    }

    /// Asks several shards and calls `then` with all answers, in the order of the questions.
    pub(crate) fn ask_groups<A: Send + 'static>(
        &self,
        now: Now,
        questions: Vec<(usize, GroupQuestion)>,
        convert: fn(usize, Result<Reply, Unavailable>) -> A,
        then: impl FnOnce(&Self, Vec<A>) + Send + 'static,
    ) {
        if questions.is_empty() {
            return then(self, Vec::new());
        }
        let gather = Arc::new(Mutex::new((BTreeMap::new(), questions.len(), Some(then))));
        for (number, (shard, command)) in questions.into_iter().enumerate() {
            let gather = gather.clone();
            let one = Box::new(move |broker: &Self, _: Now, answer: Result<Reply, Unavailable>| {
                let mut guard = gather.lock().unwrap_or_else(PoisonError::into_inner);
                let (answers, left, then) = &mut *guard;
                answers.insert(number, convert(number, answer));
                *left -= 1;
                if *left == 0 {
                    let answers = std::mem::take(answers).into_values().collect();
                    let then = then.take();
                    drop(guard);
                    if let Some(then) = then {
                        then(broker, answers);
                    }
                }
            });
            self.groups[shard].ask(self, now, command, one);
        }
    }
}

/// All operations that Kafka knows for a group, as described: read, delete, describe, describe configs, alter configs
/// (bits 3, 6, 8, 10, 11).
pub(crate) const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// A command that still lacks its waiter.
pub(crate) type GroupQuestion = Box<dyn FnOnce(Waiter) -> Command + Send>;
