//! A member of a classic group, as a consumer behaves: it joins, the leader shares out the partitions, it reads and
//! commits, says that it is alive, joins again when it is told to, leaves, dies, comes back.
//!
//! It gives up what it reads before it joins, or keeps it and gives up only what another shall have (KIP-429). Some are
//! of old versions, some are static. Requests go over one connection, also heartbeats behind a sync that waits.
//!
//! **Checked here:** besides what the oracle of classic groups checks, a member is answered under its own id, its
//! generation never goes back while it has that id, and only leaders are told who else is there.

mod offsets;
mod requests;
mod waiting;

use std::collections::BTreeSet;

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest},
};

use crate::{
    actors::{
        Actor,
        classic::requests::{Versions, Written},
    },
    client::{Client, Watch, decode},
    core::Core,
    opaque::Given,
    options::ClassicOptions,
    queue::Event,
};

/// One member.
pub(crate) struct Consumer {
    actor: usize,
    client: Client,
    group: ClassicOptions,
    instance: Option<String>,
    versions: Versions,
    /// Timers of an earlier life are void.
    life: u64,
    is_up: bool,
    /// It will not come back.
    is_gone: bool,
    /// Empty until the server has given it one.
    member_id: String,
    state: State,
    /// The generation that it joined last; -1 for none.
    generation: i32,
    /// The newest generation of which it had an assignment under its id.
    assigned_generation: i32,
    /// The newest generation that it joined under its id, and the server's life in which that was.
    joined: (u64, i32),
    joined_us: u64,
    /// The server's life in which it last asked to join: an answer may come when that life is over.
    asked_in_life: u64,
    /// The generation had its assignment before it joined: nobody waits for it to ask.
    is_assigned: bool,
    owned: BTreeSet<i32>,
    must_join: bool,
    /// Part of what it says about itself; counted up when the group shall assign anew.
    wish: u64,
    /// It joined without an id and with an instance id.
    takes_over: bool,
    /// What it is about to give to everybody, if it leads.
    shares: Vec<Given>,
    /// When it sent what waits for the group.
    asked_us: u64,
    heartbeat: Option<(i32, Claim)>,
    commit: Option<(i32, Claim, Vec<Written>)>,
    /// The fetch of offsets under way, and when it was sent.
    fetch: Option<(i32, u64)>,
    last_error: Option<ErrorCode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It must join.
    Out,
    Joining(i32),
    /// It has joined, and is about to ask for its assignment.
    Joined,
    Syncing(i32),
    /// It has its assignment.
    Reading,
}

/// The generation that a request claims to be of.
#[derive(Clone, Copy, Debug)]
struct Claim {
    generation: i32,
    /// The group was in a newer one when it was sent.
    is_over: bool,
}

const JOIN: u64 = 1;
const BEAT: u64 = 2;
const COMMIT: u64 = 3;
const DIE: u64 = 4;
const LEAVE: u64 = 5;
const PAUSE: u64 = 6;
const START: u64 = 7;
const ASK_AGAIN: u64 = 8;
const SYNC: u64 = 9;
const HANG_ENDS: u64 = 10;

/// How much longer than its rebalance timeout a member waits for a join or a sync to be answered.
const PATIENCE_MS: u64 = 20_000;

impl Consumer {
    pub(crate) fn new(actor: usize, group: &ClassicOptions, index: u64, core: &mut Core) -> Self {
        let index = if group.has_twins && index + 1 == group.members { 0 } else { index };
        let is_static = group.one_in_static > 0 && index.is_multiple_of(group.one_in_static);
        let is_old = !is_static && core.prng.chance(group.one_in_old);
        let client = Client::new(actor, "consumer").with_timeout_ms(group.rebalance_timeout_ms + PATIENCE_MS);
        Self {
            actor,
            client,
            group: group.clone(),
            instance: is_static.then(|| format!("i{index}")),
            versions: if is_old { Versions::old(&mut core.prng) } else { Versions::new(&mut core.prng) },
            life: 0,
            is_up: false,
            is_gone: false,
            member_id: String::new(),
            state: State::Out,
            generation: -1,
            assigned_generation: -1,
            joined: (0, -1),
            joined_us: 0,
            asked_in_life: 0,
            is_assigned: false,
            owned: BTreeSet::new(),
            must_join: false,
            wish: 0,
            takes_over: false,
            shares: Vec::new(),
            asked_us: 0,
            heartbeat: None,
            commit: None,
            fetch: None,
            last_error: None,
        }
    }

    fn timer(&self, core: &mut Core, delay_ms: u64, kind: u64) {
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: self.life << 4 | kind });
    }

    fn start(&mut self, core: &mut Core) {
        if self.is_up || self.is_gone {
            return;
        }
        self.life += 1;
        self.is_up = true;
        core.beliefs.up(&self.group.name);
        core.tell(self.actor, format_args!("starts"));
        self.join(core);
        let interval_ms = core.options.heartbeat_interval_ms;
        self.timer(core, interval_ms, BEAT);
        self.timer(core, 500, COMMIT);
        let faults = core.options.faults.clone();
        for (every, kind) in [(faults.member_death, DIE), (faults.member_leave, LEAVE), (faults.member_pause, PAUSE)] {
            if let Some(delay_ms) = core.draw_ms(every) {
                self.timer(core, delay_ms, kind);
            }
        }
    }

    fn stop(&mut self, core: &mut Core) {
        self.give_up_all(core);
        self.is_up = false;
        core.beliefs.down(&self.group.name);
        self.life += 1;
        self.client.disconnect(core);
        self.forget_requests();
        self.forget_id();
        if core.is_healing || core.prng.chance(6) {
            self.is_gone = true;
            core.tell(self.actor, format_args!("is gone for good"));
        } else {
            let spread_ms = 2 * core.options.session_timeout_ms;
            let delay_ms = core.prng.below(spread_ms);
            self.timer(core, delay_ms, START);
        }
    }

    fn forget_requests(&mut self) {
        self.heartbeat = None;
        self.commit = None;
        self.fetch = None;
    }

    /// It is no member any more.
    fn forget_id(&mut self) {
        self.member_id.clear();
        self.state = State::Out;
        self.must_join = false;
        self.generation = -1;
        self.assigned_generation = -1;
        self.joined = (0, -1);
    }

    fn give_up_all(&mut self, core: &mut Core) {
        for partition in std::mem::take(&mut self.owned) {
            core.beliefs.stop(&self.group.name, partition, &self.member_id);
        }
    }

    fn leave(&mut self, core: &mut Core) {
        // A consumer leaves static members to the server, unless an operator removes them.
        let says_so = self.instance.is_none() || core.prng.chance(3);
        if says_so && !self.member_id.is_empty() {
            core.tell(self.actor, format_args!("leaves"));
            core.totals.add("leaves", 1);
            core.records.leaves(&self.member_id);
            let request = requests::leave(&self.group, &self.member_id, self.instance.as_deref(), self.versions);
            // Nobody waits for the answer.
            let _ = self.client.send(core, &request, self.versions.leave);
        }
        self.stop(core);
    }

    fn join(&mut self, core: &mut Core) {
        if !self.is_up || !(self.state == State::Out || self.state == State::Reading && self.must_join) {
            return;
        }
        self.must_join = false;
        if !self.group.is_cooperative {
            self.give_up_all(core);
        }
        self.state = State::Out;
        let request = requests::join(core, &self.group, &self.member_id, self.instance.as_deref(), {
            (self.wish, self.generation, &self.owned)
        });
        let Some(correlation) = self.client.send(core, &request, self.versions.join) else { return self.retry(core) };
        self.state = State::Joining(correlation);
        self.asked_in_life = core.life;
        self.waits(core);
        self.takes_over = self.member_id.is_empty() && self.instance.is_some();
        core.tell(self.actor, format_args!("joins {} as {:?}", self.group.name, self.member_id));
        core.totals.add("classic joins", 1);
    }

    fn retry(&self, core: &mut Core) {
        let delay_ms = 50 + core.prng.below(500);
        self.timer(core, delay_ms, JOIN);
    }

    /// What it was waiting for will not come; what it reads it goes on reading.
    fn lost(&mut self, core: &mut Core) {
        self.forget_requests();
        if matches!(self.state, State::Joining(_) | State::Syncing(_)) {
            self.state = State::Out;
            self.retry(core);
        }
    }

    fn on_join(&mut self, core: &mut Core, reply: &Bytes) {
        self.state = State::Out;
        self.check_wait(core);
        let Some(response) = decode::<JoinGroupRequest<'_>>(core, reply, self.versions.join) else { return };
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => self.on_joined(core, &response),
            Some(ErrorCode::MemberIdRequired) => {
                if !self.member_id.is_empty() || self.instance.is_some() || response.member_id.is_empty() {
                    core.fail(format_args!("{:?} is given the id {}", self.member_id, response.member_id));
                }
                self.member_id = response.member_id.into_owned();
                core.totals.add("ids given", 1);
                self.join(core);
            }
            error => self.on_refused(core, error, "a join"),
        }
    }

    fn on_joined(&mut self, core: &mut Core, response: &JoinGroupResponse<'_>) {
        let (id, generation) = (&*response.member_id, response.generation_id);
        if self.member_id.is_empty() {
            id.clone_into(&mut self.member_id);
        } else if id != self.member_id {
            core.fail(format_args!("{} is answered as {id}", self.member_id));
        }
        // What was joined and not assigned is not written down: it may come again after the server forgot it.
        let newest = match self.joined {
            (life, joined) if life == self.asked_in_life && core.never_reloads() => joined,
            _ => self.assigned_generation,
        };
        if generation < newest || generation < 1 {
            core.fail(format_args!("{id} was in generation {newest} and joins {generation}"));
        }
        self.generation = generation;
        (self.joined, self.joined_us) = ((self.asked_in_life, generation), core.now_us);
        let recorded = core.records.classic(&self.group.name).map_or(-1, |group| group.generation);
        self.is_assigned = recorded >= generation;
        let leads = *response.leader == *self.member_id;
        if leads == response.members.is_empty() {
            let (leader, count) = (&response.leader, response.members.len());
            core.fail(format_args!("{id} is led by {leader} and told of {count} members"));
        }
        if response.protocol_name.as_deref() != Some(requests::protocol(&self.group)) {
            core.fail(format_args!("{id} joins with protocol {:?}", response.protocol_name));
        }
        core.tell(
            self.actor,
            format_args!("is in generation {generation} as {id}{}", if leads { ", its leader" } else { "" }),
        );
        let assigns = leads && !response.skip_assignment;
        let shares = if assigns { requests::shares(core, &self.group, response) } else { Ok(Vec::new()) };
        match shares {
            Ok(shares) => self.shares = shares,
            Err(what) => return core.fail(what),
        }
        self.state = State::Joined;
        if !core.is_healing && core.prng.chance(6) {
            if core.prng.chance(20) {
                // It says that it is alive, and does nothing else until it is told that it is out.
                core.tell(self.actor, format_args!("hangs"));
                core.totals.add("hanging members", 1);
                self.timer(core, self.group.rebalance_timeout_ms + PATIENCE_MS, HANG_ENDS);
            } else {
                let delay_ms = core.prng.below(2000);
                self.timer(core, delay_ms, SYNC);
            }
            if assigns {
                self.commit_early(core);
            }
        } else {
            self.sync(core);
        }
    }

    fn sync(&mut self, core: &mut Core) {
        if self.state != State::Joined {
            return;
        }
        self.state = State::Out;
        let shares = &std::mem::take(&mut self.shares);
        let instance = self.instance.as_deref();
        let request = requests::sync(&self.group, &self.member_id, instance, self.generation, shares);
        let Some(correlation) = self.client.send(core, &request, self.versions.sync) else { return self.retry(core) };
        self.state = State::Syncing(correlation);
        self.waits(core);
        if let Some(first) = shares.first() {
            core.tell(self.actor, format_args!("assigns {} members, {}", shares.len(), first.number));
        }
    }

    fn on_sync(&mut self, core: &mut Core, reply: &Bytes) {
        self.state = State::Out;
        self.check_wait(core);
        let Some(response) = decode::<SyncGroupRequest<'_>>(core, reply, self.versions.sync) else { return };
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => {}
            error => return self.on_refused(core, error, "a sync"),
        }
        let Some(given) = Given::of_bytes(&response.assignment) else {
            return core
                .fail(format_args!("{} is told that its assignment is {:?}", self.member_id, response.assignment));
        };
        self.state = State::Reading;
        self.last_error = None;
        let me = (&*self.member_id, self.instance.as_deref(), self.generation);
        let told = core.beliefs.told(&core.records, &self.group.name, me, &given);
        core.check(told);
        core.records.told_generation(&self.group.name, self.generation);
        self.assigned_generation = self.generation;
        core.totals.add("classic syncs", 1);
        let stops: Vec<i32> = self.owned.difference(&given.partitions).copied().collect();
        for partition in &stops {
            self.owned.remove(partition);
            core.beliefs.stop(&self.group.name, *partition, &self.member_id);
        }
        core.tell(self.actor, format_args!("reads {:?} in generation {}", given.partitions, self.generation));
        for partition in &given.partitions {
            let me = (&*self.member_id, self.generation);
            let started = core.beliefs.start(&core.records, &self.group.name, *partition, me);
            core.check(started);
        }
        let is_new = given.partitions.iter().any(|partition| !self.owned.contains(partition));
        self.owned = given.partitions;
        if is_new {
            self.fetch_offsets(core);
        }
        if !stops.is_empty() {
            // Others may have now what it has given up.
            self.must_join = true;
            let delay_ms = core.prng.below(500);
            self.timer(core, delay_ms, JOIN);
        } else if core.is_healing && self.takes_over {
            self.wish_anew(core);
        }
    }

    /// It changes what it says about itself, so that the group assigns anew.
    fn wish_anew(&mut self, core: &mut Core) {
        self.wish += 1;
        self.must_join = true;
        core.totals.add("classic subscriptions changed", 1);
        let delay_ms = core.prng.below(500);
        self.timer(core, delay_ms, JOIN);
    }

    /// It is told that it is not in the group as it believes.
    fn on_refused(&mut self, core: &mut Core, error: Option<ErrorCode>, what: &str) {
        core.tell(self.actor, format_args!("is refused {what}: {}", error.map_or("?", ErrorCode::name)));
        self.last_error = error;
        match error {
            Some(ErrorCode::RebalanceInProgress) if self.state == State::Reading => {
                // It has to come to an end with what it does.
                self.must_join = true;
                let delay_ms = if core.is_healing { 20 } else { core.prng.below(1500) };
                return self.timer(core, delay_ms, JOIN);
            }
            Some(ErrorCode::FencedInstanceId) => {
                // Another one has its instance id: it gives up, and may be started again.
                core.totals.add("instances fenced", 1);
                return self.stop(core);
            }
            Some(ErrorCode::UnknownMemberId) => {
                core.totals.add("fenced", 1);
                self.give_up_all(core);
                self.forget_id();
            }
            Some(ErrorCode::IllegalGeneration) => {
                core.totals.add("fenced", 1);
                self.give_up_all(core);
                self.generation = -1;
                self.state = State::Out;
            }
            Some(
                ErrorCode::RebalanceInProgress
                | ErrorCode::NotCoordinator
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable,
            ) => {}
            other => core.fail(format_args!("{} gets error {other:?} for {what}", self.member_id)),
        }
        if self.state == State::Out {
            self.retry(core);
        }
    }

    fn beat(&mut self, core: &mut Core) {
        let interval_ms = core.options.heartbeat_interval_ms;
        self.timer(core, interval_ms, BEAT);
        let is_in = matches!(self.state, State::Reading | State::Joined | State::Syncing(_));
        if !is_in || self.heartbeat.is_some() {
            return;
        }
        let claim = self.claim(core, self.generation);
        let request = requests::heartbeat(&self.group, &self.member_id, self.instance.as_deref(), self.generation);
        if let Some(correlation) = self.client.send(core, &request, self.versions.heartbeat) {
            self.heartbeat = Some((correlation, claim));
            core.tell(self.actor, format_args!("beats in generation {}", self.generation));
            core.totals.add("classic heartbeats", 1);
        }
    }

    fn claim(&self, core: &Core, generation: i32) -> Claim {
        let newest = core.records.newest_told_generation(&self.group.name).unwrap_or(-1);
        Claim { generation, is_over: generation < newest.max(self.assigned_generation) }
    }

    fn on_heartbeat(&mut self, core: &mut Core, reply: &Bytes, claim: Claim) {
        let Some(response) = decode::<HeartbeatRequest<'_>>(core, reply, self.versions.heartbeat) else { return };
        let error = ErrorCode::from_code(response.error_code);
        if error == Some(ErrorCode::None) && claim.is_over {
            let (id, group, generation) = (&self.member_id, &self.group.name, claim.generation);
            let newest = core.records.newest_told_generation(group).unwrap_or(-1).max(self.assigned_generation);
            core.fail(format_args!(
                "a heartbeat of {id} in generation {generation} of {group}, which is at {newest}, is answered as if all \
                 were well"
            ));
        }
        // About a generation that it has left meanwhile.
        if error == Some(ErrorCode::None) || claim.generation != self.generation {
            return;
        }
        match self.state {
            State::Reading => {}
            State::Joined => self.state = State::Out,
            State::Out | State::Joining(_) | State::Syncing(_) => return,
        }
        self.on_refused(core, error, "a heartbeat");
    }
}

impl Actor for Consumer {
    fn begin(&mut self, core: &mut Core) {
        let delay_ms = core.prng.below(5000);
        self.timer(core, delay_ms, START);
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match self.client.on_watch(core, token) {
            Watch::AllWell => return,
            Watch::Lost => return self.lost(core),
            Watch::NotMine => {}
        }
        if token >> 4 != self.life {
            return;
        }
        match token & 15 {
            START => self.start(core),
            JOIN => self.join(core),
            ASK_AGAIN => self.ask_again(core),
            SYNC => self.sync(core),
            HANG_ENDS => self.hang_ends(core),
            BEAT => self.beat(core),
            COMMIT => self.commit_some(core),
            DIE if !core.is_healing => {
                core.tell(self.actor, format_args!("dies"));
                core.totals.add("deaths", 1);
                self.stop(core);
            }
            LEAVE if !core.is_healing => self.leave(core),
            PAUSE if !core.is_healing => {
                let ms = core.prng.below(2 * core.options.session_timeout_ms);
                let until = (core.now_us + ms * 1000) as f64 / 1e6;
                core.tell(self.actor, format_args!("stands still for {ms} ms, until {until:.6}"));
                core.totals.add("pauses", 1);
                core.paused_until_us[self.actor] = core.now_us + ms * 1000;
                if let Some(delay_ms) = core.draw_ms(core.options.faults.member_pause) {
                    self.timer(core, ms + delay_ms, PAUSE);
                }
            }
            _ => {}
        }
    }

    fn on_reply(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(correlation) = self.client.take_reply(core, reply) else { return };
        match self.state {
            State::Joining(asked) if asked == correlation => return self.on_join(core, reply),
            State::Syncing(asked) if asked == correlation => return self.on_sync(core, reply),
            State::Out | State::Joining(_) | State::Joined | State::Syncing(_) | State::Reading => {}
        }
        if let Some((_, claim)) = self.heartbeat.take_if(|(asked, _)| *asked == correlation) {
            self.on_heartbeat(core, reply, claim);
        } else if let Some((_, claim, written)) = self.commit.take_if(|(asked, _, _)| *asked == correlation) {
            self.on_commit(core, reply, claim, &written);
        } else if let Some((_, began_us)) = self.fetch.take_if(|(asked, _)| *asked == correlation) {
            self.on_fetch(core, reply, began_us);
        }
    }

    fn on_closed(&mut self, core: &mut Core) {
        self.client.on_closed();
        if self.is_up {
            self.lost(core);
        }
    }

    fn on_heal(&mut self, core: &mut Core) {
        if !self.is_up && !self.is_gone && core.prng.chance(4) {
            self.is_gone = true;
        }
        // What was kept back until a static member had given it up, which died instead and took its own place, nobody
        // asks for again, of Kafka neither.
        if self.group.is_cooperative && self.instance.is_some() && self.state == State::Reading {
            self.wish_anew(core);
        }
    }

    fn unfinished(&self, core: &Core) -> Option<String> {
        if self.is_gone {
            return None;
        }
        let name = &core.names[self.actor];
        if !self.is_up || self.state != State::Reading || self.must_join {
            return Some(format!("{name} is {:?} in its group, last error {:?}", self.state, self.last_error));
        }
        let group = core.records.classic(&self.group.name);
        let Some((group, given)) = group.and_then(|group| Some((group, group.given(&self.member_id)?))) else {
            return Some(format!("{name} is not in the records"));
        };
        if group.generation != self.generation {
            return Some(format!("{name} is in {}, by the records in {}", self.generation, group.generation));
        }
        (given.partitions != self.owned)
            .then(|| format!("{name} reads {:?}, by the records {:?}", self.owned, given.partitions))
    }
}
