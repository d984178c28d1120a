//! The load generator: members of streams groups over connections, on one thread, checked while they load.
//!
//! - [`Load::run`]: every member for itself, at the pace it is told or as fast as it is answered, until something is so.
//! - [`Load::closed_loop`]: on each connection so many heartbeats are under way; the next follows an answer.
//! - [`Load::open_loop`]: a heartbeat at fixed times, whatever the server does; latency counts from the time it was due,
//!   not from the time it was sent, so that a stall is felt by all that it holds up.
//!
//! **Invariant:** two owners of a task, or a task without one in a group that rests, end the run with an error; refused
//! heartbeats are counted by their codes.
//! It is cheap on purpose, since it shares the machine with what it measures: steady heartbeats are encoded once, answers
//! that are as before are compared and not decoded, and what goes to one connection is written at once.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use riparian_client::Cluster;
use riparian_crowd::{
    latencies::Latencies,
    link::Link,
    member::{Group, Heard, Life, Member},
    owners::Owners,
    poll::{self, Poll},
};
use riparian_protocol::ErrorCode;

use crate::{admin, report::say, servers::Server};

/// A member that was refused comes back after so long, as clients do.
const RETRY: Duration = Duration::from_millis(100);
/// How often it is looked whether what is waited for is so.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Answers that are owed at the end of a loop must come within this.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// A group that rests must rest for so long before it is asked whether it does.
const REST: Duration = Duration::from_millis(300);
const VIOLATIONS_SHOWN: usize = 5;

/// When a member that has nothing to report sends its next heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// After the interval that it was told.
    Told,
    /// At once.
    Eager,
    /// At this interval, whatever it was told.
    Every(Duration),
}

/// What a loop has measured.
#[derive(Clone)]
pub(crate) struct Measured {
    pub(crate) heartbeats: u64,
    pub(crate) wall: Duration,
    pub(crate) latencies: Latencies,
}

/// When the first and the last member had an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) first: Duration,
    pub(crate) all: Duration,
}

/// See the module. Times are nanoseconds since it was made.
pub(crate) struct Load {
    start: Instant,
    port: u16,
    poll: Poll,
    links: Vec<Link>,
    groups: Vec<Group>,
    members: Vec<Member>,
    /// When each member sends next; `None`: it waits for an answer, or is gone.
    due: Vec<Option<u64>>,
    /// The same in order, with entries that are no longer so.
    line: BinaryHeap<Reverse<(u64, usize)>>,
    retry: Duration,
    /// Refused heartbeats by error code.
    refused: BTreeMap<i16, u64>,
    answered: u64,
    wrong: Vec<String>,
    /// When epochs or tasks changed last.
    last_change: u64,
    heard: Vec<Answered>,
    /// When each member had its first good answer since it was asked for; empty: nobody asks.
    served: Vec<Option<u64>>,
    unsent: Vec<bool>,
    buffer: Vec<u8>,
    frame: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    member: usize,
    intended: u64,
    at: u64,
    refused: bool,
}

impl Load {
    /// Connections without members yet.
    pub(crate) fn connect(port: u16, connections: usize) -> Result<Self> {
        let mut load = Self {
            start: Instant::now(),
            port,
            poll: Poll::new()?,
            links: Vec::new(),
            groups: Vec::new(),
            members: Vec::new(),
            due: Vec::new(),
            line: BinaryHeap::new(),
            retry: RETRY,
            refused: BTreeMap::new(),
            answered: 0,
            wrong: Vec::new(),
            last_change: 0,
            heard: Vec::new(),
            served: Vec::new(),
            unsent: Vec::new(),
            buffer: vec![0; poll::READ_BYTES],
            frame: Vec::new(),
        };
        load.add_links(connections)?;
        Ok(load)
    }

    /// Members for an echo server, with the requests of this load.
    pub(crate) fn to_echo(&self, port: u16, connections: usize) -> Result<Self> {
        let mut echo = Self::connect(port, connections)?;
        echo.groups.push(Group { id: "echo".to_owned(), topic: String::new(), owners: Owners::new(0) });
        let answer_bytes = self.answer_bytes();
        for (index, member) in self.members.iter().enumerate() {
            let request = member.steady_request().to_vec();
            echo.members.push(Member::of_echo(member.id.clone(), index % connections, request, answer_bytes));
            echo.due.push(None);
        }
        Ok(echo)
    }

    /// Bytes of an answer to a steady heartbeat, with its size.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.members.first().map_or(64, Member::steady_answer_bytes)
    }

    pub(crate) fn add_links(&mut self, connections: usize) -> Result<()> {
        for _ in 0..connections {
            self.links.push(Link::open(self.port, self.links.len() as u64, &self.poll)?);
            self.unsent.push(false);
        }
        Ok(())
    }

    /// Takes new connections, and lets the members go on over those.
    pub(crate) fn connect_again(&mut self, port: u16, connections: usize) -> Result<()> {
        self.port = port;
        self.links.clear();
        self.unsent.clear();
        self.add_links(connections)?;
        for (index, member) in self.members.iter_mut().enumerate() {
            member.link = index % connections;
            member.waiting = 0;
        }
        Ok(())
    }

    /// Adds a group whose tasks are the partitions of a topic.
    pub(crate) fn add_group(&mut self, id: &str, topic: &str, tasks: usize) -> usize {
        let (id, topic) = (id.to_owned(), topic.to_owned());
        self.groups.push(Group { id, topic, owners: Owners::new(tasks) });
        self.groups.len() - 1
    }

    /// Adds members that are to join when [`Self::run`] runs. Returns their numbers.
    pub(crate) fn add_members(&mut self, group: usize, count: usize) -> Range<usize> {
        let first = self.members.len();
        for number in first..first + count {
            // As long as the ids that clients make up.
            let id = format!("member-of-a-bench-{number:05}");
            self.members.push(Member::new(id, group, number % self.links.len()));
            self.due.push(None);
        }
        first..first + count
    }

    /// Members are to leave, each when it has no heartbeat under way.
    pub(crate) fn leave(&mut self, members: impl Iterator<Item = usize>) {
        let now = self.now();
        for member in members {
            self.members[member].wants_to_leave = true;
            self.schedule(member, now);
        }
    }

    /// Members stop without a word, and their connections stay open.
    pub(crate) fn die(&mut self, members: impl Iterator<Item = usize>) {
        self.last_change = self.now();
        for number in members {
            let member = &mut self.members[number];
            member.die(number, &mut self.groups[member.group]);
            self.due[number] = None;
        }
    }

    /// Members that are refused come back after so long.
    pub(crate) fn retry_after(&mut self, retry: Duration) {
        self.retry = retry;
    }

    /// How many heartbeats were refused since this was asked last, by error code.
    pub(crate) fn take_refused(&mut self) -> BTreeMap<i16, u64> {
        std::mem::take(&mut self.refused)
    }

    /// How many heartbeats have been answered so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Nanoseconds of this load's clock.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Every member for itself, until `done` has something to say; it is asked every few milliseconds.
    pub(crate) fn run<T>(
        &mut self,
        pace: Pace,
        limit: Duration,
        what: &str,
        mut done: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        self.start_pacing(pace);
        let start = self.now();
        let mut looked = start;
        loop {
            let now = self.now();
            self.send_due(now)?;
            self.turn(self.wait_until_due(now))?;
            let now = self.now();
            for answered in std::mem::take(&mut self.heard) {
                if let Some(served @ None) = self.served.get_mut(answered.member).filter(|_| !answered.refused) {
                    *served = Some(answered.at);
                }
                self.pace(answered, pace, now);
            }
            if now - looked >= LOOK_EVERY.as_nanos() as u64 {
                looked = now;
                self.check()?;
                if let Some(found) = done(self)? {
                    return Ok(found);
                }
                if now - start > limit.as_nanos() as u64 {
                    bail!("waited {limit:?} for {what}: {}", self.state());
                }
            }
        }
    }

    /// Runs for so long.
    pub(crate) fn run_for(&mut self, pace: Pace, duration: Duration) -> Result<()> {
        let end = self.now() + duration.as_nanos() as u64;
        self.run(pace, duration + DRAIN_LIMIT, "time to pass", |load| Ok((load.now() >= end).then_some(())))
    }

    /// Runs until every group rests, by what the members were told and by what the server says; returns the time until
    /// the last change.
    pub(crate) fn run_until_stable(&mut self, pace: Pace, limit: Duration, server: &Server) -> Result<Duration> {
        let mut cluster = admin::cluster(server)?;
        let since = self.now();
        let mut asked_at = 0;
        self.run(pace, limit, "every group to be stable", |load| {
            let now = load.now();
            let rests = now - load.last_change.max(asked_at) >= REST.as_nanos() as u64 && load.all_settled();
            if !rests {
                return Ok(None);
            }
            asked_at = now;
            let rested_at = load.last_change;
            Ok(load.is_stable_on(&mut cluster)?.then(|| Duration::from_nanos(rested_at.saturating_sub(since))))
        })
    }

    /// Every member sends a heartbeat as soon as it can, until each has had a good answer; times from the call.
    pub(crate) fn run_until_all_served(&mut self, limit: Duration) -> Result<Served> {
        let start = self.now();
        self.served = vec![None; self.members.len()];
        for member in self.members.iter_mut().filter(|member| member.life == Life::In) {
            member.forget_delivery();
        }
        self.run(Pace::Told, limit, "all members to be served", |load| {
            let living = load.members.iter().zip(&load.served).filter(|(member, _)| member.life != Life::Gone);
            let times: Option<Vec<u64>> = living.map(|(_, served)| *served).collect();
            Ok(times.map(|times| {
                let since = |at: Option<&u64>| Duration::from_nanos(at.map_or(0, |at| at - start));
                Served { first: since(times.iter().min()), all: since(times.iter().max()) }
            }))
        })
    }

    /// On each connection `window` heartbeats are under way, of its members in turn.
    pub(crate) fn closed_loop(&mut self, window: usize, duration: Duration) -> Result<Measured> {
        let mut turns = self.members_by_link();
        let start = self.now();
        let end = start + duration.as_nanos() as u64;
        for turn in &mut turns {
            for _ in 0..window.min(turn.members.len()) {
                self.send(turn.next(), start)?;
            }
        }
        self.flush()?;
        let mut measured = Measured { heartbeats: 0, wall: Duration::ZERO, latencies: Latencies::new() };
        let mut now = start;
        while now < end {
            self.turn(Some(Duration::from_nanos(end - now)))?;
            now = self.now();
            for answered in std::mem::take(&mut self.heard) {
                measured.heartbeats += 1;
                measured.latencies.record(answered.at - answered.intended);
                if now < end {
                    let link = self.members[answered.member].link;
                    self.send(turns[link].next(), now)?;
                }
            }
            self.flush()?;
        }
        self.drain(&mut measured)?;
        measured.wall = Duration::from_nanos(self.now() - start);
        Ok(measured)
    }

    /// So many heartbeats a second at fixed times, of the members in turn.
    pub(crate) fn open_loop(&mut self, rate: u64, duration: Duration) -> Result<Measured> {
        let mut turns = self.members_by_link();
        turns.retain(|turn| !turn.members.is_empty());
        if turns.is_empty() {
            bail!("there is no member");
        }
        let count = (duration.as_secs_f64() * rate as f64) as u64;
        let start = self.now();
        let due_at = |number: u64| start + number * 1_000_000_000 / rate;
        let mut measured = Measured { heartbeats: 0, wall: Duration::ZERO, latencies: Latencies::new() };
        let mut sent = 0;
        while sent < count {
            let now = self.now();
            while sent < count && due_at(sent) <= now {
                let turn = (sent % turns.len() as u64) as usize;
                self.send(turns[turn].next(), due_at(sent))?;
                sent += 1;
            }
            self.flush()?;
            self.turn(Some(Duration::from_nanos(due_at(sent).saturating_sub(self.now()))))?;
            for answered in std::mem::take(&mut self.heard) {
                measured.heartbeats += 1;
                measured.latencies.record(answered.at.saturating_sub(answered.intended));
            }
        }
        self.drain(&mut measured)?;
        measured.wall = Duration::from_nanos(self.now() - start);
        Ok(measured)
    }

    /// Waits for the answers that are owed.
    fn drain(&mut self, measured: &mut Measured) -> Result<()> {
        let limit = self.now() + DRAIN_LIMIT.as_nanos() as u64;
        loop {
            for answered in std::mem::take(&mut self.heard) {
                measured.heartbeats += 1;
                measured.latencies.record(answered.at.saturating_sub(answered.intended));
            }
            let owed: usize = self.links.iter().map(Link::outstanding).sum();
            if owed == 0 {
                return self.check();
            }
            if self.now() > limit {
                bail!("{owed} heartbeats have no answer after {DRAIN_LIMIT:?}");
            }
            self.turn(Some(LOOK_EVERY))?;
        }
    }

    fn members_by_link(&self) -> Vec<Turn> {
        let mut turns: Vec<Turn> = self.links.iter().map(|_| Turn { members: Vec::new(), at: 0 }).collect();
        for (number, member) in self.members.iter().enumerate().filter(|(_, member)| member.life == Life::In) {
            turns[member.link].members.push(number);
        }
        turns
    }

    /// Everybody gets a time: who has something to say at once, others over the interval.
    fn start_pacing(&mut self, pace: Pace) {
        self.line.clear();
        let now = self.now();
        let count = self.members.len().max(1) as u64;
        for number in 0..self.members.len() {
            self.due[number] = None;
            let member = &self.members[number];
            if member.life == Life::Gone || member.waiting > 0 {
                continue;
            }
            let interval = interval_nanos(member, pace);
            let is_quiet = member.life == Life::In && !member.has_news && !member.wants_to_leave;
            self.schedule(number, if is_quiet { now + interval * number as u64 / count } else { now });
        }
    }

    /// Gives a member the time of its next heartbeat, unless one is under way.
    fn schedule(&mut self, number: usize, at: u64) {
        let member = &self.members[number];
        if member.waiting == 0 && member.life != Life::Gone {
            self.due[number] = Some(at);
            self.line.push(Reverse((at, number)));
        }
    }

    fn pace(&mut self, answered: Answered, pace: Pace, now: u64) {
        let member = &self.members[answered.member];
        let at = if answered.refused {
            now + self.retry.as_nanos() as u64
        } else if member.has_news || member.wants_to_leave || member.life == Life::Outside {
            now
        } else if let Pace::Every(_) = pace {
            (answered.intended + interval_nanos(member, pace)).max(now)
        } else {
            now + interval_nanos(member, pace)
        };
        self.schedule(answered.member, at);
    }

    fn send_due(&mut self, now: u64) -> Result<()> {
        while let Some(&Reverse((at, member))) = self.line.peek() {
            if at > now {
                break;
            }
            self.line.pop();
            if self.due[member] == Some(at) {
                self.send(member, at)?;
            }
        }
        self.flush()
    }

    fn wait_until_due(&self, now: u64) -> Option<Duration> {
        let next = self.line.peek().map_or(u64::MAX, |&Reverse((at, _))| at.saturating_sub(now));
        Some(Duration::from_nanos(next).min(LOOK_EVERY))
    }

    fn send(&mut self, number: usize, intended: u64) -> Result<()> {
        self.due[number] = None;
        let member = &mut self.members[number];
        let link = member.link;
        let frame = member.send(number, &mut self.groups[member.group], &mut self.frame)?;
        self.links[link].ask(frame, number, intended);
        self.unsent[link] = true;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        for (link, unsent) in self.links.iter_mut().zip(&mut self.unsent) {
            if std::mem::take(unsent) {
                link.flush(&self.poll)?;
            }
        }
        Ok(())
    }

    /// Waits for answers and takes them; they are in `heard` then.
    fn turn(&mut self, limit: Option<Duration>) -> Result<()> {
        self.poll.wait(limit)?;
        let start = self.start;
        for at in 0..self.poll.events().len() {
            let ready = self.poll.events()[at];
            let link = &mut self.links[ready.key as usize];
            if ready.write {
                link.flush(&self.poll)?;
            }
            if !ready.read {
                continue;
            }
            let (groups, members, wrong) = (&mut self.groups, &mut self.members, &mut self.wrong);
            let (refused, heard_by, last_change) = (&mut self.refused, &mut self.heard, &mut self.last_change);
            let now = start.elapsed().as_nanos() as u64;
            link.read(&mut self.buffer, |asked, answer| {
                let member = &mut members[asked.by];
                let heard = member.hear(asked.by, &mut groups[member.group], answer, wrong)?;
                match heard {
                    Heard::Nothing => {}
                    Heard::Change => *last_change = now,
                    Heard::Refused(code) => {
                        *last_change = now;
                        *refused.entry(code).or_insert(0) += 1;
                    }
                }
                let refused = matches!(heard, Heard::Refused(_));
                heard_by.push(Answered { member: asked.by, intended: asked.intended, at: now, refused });
                Ok(())
            })?;
        }
        self.answered += self.heard.len() as u64;
        Ok(())
    }

    /// Fails if a group has broken a promise.
    fn check(&self) -> Result<()> {
        if self.wrong.is_empty() {
            return Ok(());
        }
        let shown: Vec<&str> = self.wrong.iter().take(VIOLATIONS_SHOWN).map(String::as_str).collect();
        bail!("{} violation(s) of who owns what: {}", self.wrong.len(), shown.join("; "))
    }

    /// Whether by what the members were told nothing is to be done any more.
    pub(crate) fn all_settled(&self) -> bool {
        let mut epochs: Vec<Option<i32>> = vec![None; self.groups.len()];
        let living = self.members.iter().filter(|member| member.life != Life::Gone);
        for member in living {
            let epoch = epochs[member.group].get_or_insert(member.epoch);
            if !member.is_settled() || *epoch != member.epoch {
                return false;
            }
        }
        self.groups.iter().zip(&epochs).all(|(group, epoch)| epoch.is_none() || group.owners.all_owned())
    }

    /// Whether the server says the same: the group is stable, and its members have what they were told.
    fn is_stable_on(&self, cluster: &mut Cluster) -> Result<bool> {
        // So many are looked at in full.
        const DESCRIBED_MAX: usize = 20;
        let listed = riparian_client::admin::list_groups(cluster)?;
        let states: BTreeMap<&str, &str> =
            listed.iter().map(|group| (group.group_id.as_str(), group.state.as_str())).collect();
        let mut has_members = vec![false; self.groups.len()];
        for member in self.members.iter().filter(|member| member.life != Life::Gone) {
            has_members[member.group] = true;
        }
        for (group, _) in self.groups.iter().zip(&has_members).filter(|(_, has_members)| **has_members) {
            if states.get(group.id.as_str()).is_none_or(|state| *state != "Stable") {
                return Ok(false);
            }
        }
        let step = self.groups.len().div_ceil(DESCRIBED_MAX).max(1);
        for number in (0..self.groups.len()).step_by(step).filter(|&number| has_members[number]) {
            let described = admin::describe(cluster, &self.groups[number].id)?;
            if described.state != "Stable" {
                return Ok(false);
            }
            let told: BTreeMap<&str, &[i32]> = self
                .members
                .iter()
                .filter(|member| member.group == number && member.life != Life::Gone)
                .map(|member| (member.id.as_str(), member.assigned()))
                .collect();
            for member in &described.members {
                let recorded: Vec<i32> = member.assignment.active.values().flatten().copied().collect();
                let told = told.get(member.member_id.as_str()).copied();
                if told != Some(recorded.as_slice()) {
                    bail!(
                        "group {} is stable, and its member {} was told {told:?} while the records say {recorded:?}",
                        described.group_id,
                        member.member_id
                    );
                }
            }
        }
        Ok(true)
    }

    /// For people.
    fn state(&self) -> String {
        let owned: usize = self.groups.iter().map(|group| group.owners.owned()).sum();
        let count = |is_so: &dyn Fn(&Member) -> bool| self.members.iter().filter(|member| is_so(member)).count();
        format!(
            "{} members, of which {} are in their group and {} have nothing to wait for; {owned} tasks have an owner; \
             refused heartbeats: {}",
            self.members.len(),
            count(&|member| member.life == Life::In),
            count(&Member::is_settled),
            by_code(&self.refused)
        )
    }
}

/// The members of a connection, one after the other.
struct Turn {
    members: Vec<usize>,
    at: usize,
}

impl Turn {
    fn next(&mut self) -> usize {
        self.at = if self.at + 1 < self.members.len() { self.at + 1 } else { 0 };
        self.members[self.at]
    }
}

fn interval_nanos(member: &Member, pace: Pace) -> u64 {
    match pace {
        Pace::Told => member.interval_ms * 1_000_000,
        Pace::Eager => 0,
        Pace::Every(interval) => interval.as_nanos() as u64,
    }
}

/// Error codes by name, with how often.
pub(crate) fn by_code(refused: &BTreeMap<i16, u64>) -> String {
    let name = |code: i16| ErrorCode::from_code(code).map_or_else(|| code.to_string(), |code| code.name().to_owned());
    let all: Vec<String> = refused.iter().map(|(code, count)| format!("{count} {}", name(*code))).collect();
    if all.is_empty() { "0".to_owned() } else { all.join(", ") }
}

/// Brings groups of one size to rest over so many connections.
pub(crate) fn stable_groups(server: &mut Server, shape: Shape, connections: usize) -> Result<Load> {
    let start = Instant::now();
    let topic = format!("input-{}", shape.tasks);
    admin::create_topic_and_wait(server, &topic, shape.tasks)?;
    let mut load = Load::connect(server.port(), connections)?;
    for number in 0..shape.groups {
        let id = shape.group_id(number);
        if number == 0 {
            admin::wait_for_coordinator(server, &id)?;
        }
        let group = load.add_group(&id, &topic, shape.tasks);
        load.add_members(group, shape.members);
    }
    let limit = Duration::from_secs(300);
    load.run_until_stable(Pace::Told, limit, server).context("the groups do not come to rest")?;
    let refused = load.take_refused();
    say(&format!(
        "{}: {shape} stable after {:.1} s, refused heartbeats: {}",
        server.kind().name(),
        start.elapsed().as_secs_f64(),
        by_code(&refused)
    ));
    Ok(load)
}

/// Groups of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) groups: usize,
    /// In each group.
    pub(crate) members: usize,
    /// In each group.
    pub(crate) tasks: usize,
}

impl Shape {
    pub(crate) fn group_id(self, number: usize) -> String {
        format!("application-{number:04}")
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.groups, self.members, self.tasks)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use super::*;
    use crate::{echo, figures::millis};

    const ANSWER_BYTES: usize = 40;
    const STALL: Duration = Duration::from_millis(150);

    /// Members of a server that stalls before its first answer.
    fn stalling(members: usize) -> Load {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut input, mut answers, mut buffer) = (Vec::new(), Vec::new(), [0; 4096]);
            let mut stalls = true;
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                if std::mem::take(&mut stalls) {
                    thread::sleep(STALL);
                }
                input.extend_from_slice(&buffer[..bytes]);
                let used = echo::answer(&input, &mut answers, ANSWER_BYTES).unwrap();
                input.drain(..used);
                stream.write_all(&answers).unwrap();
                answers.clear();
            }
        });
        let mut load = Load::connect(port, 1).unwrap();
        load.groups.push(Group { id: "g".to_owned(), topic: String::new(), owners: Owners::new(0) });
        for number in 0..members {
            let request = [0, 0, 0, 8, 0, 88, 0, 1, 0, 0, 0, 0].to_vec();
            load.members.push(Member::of_echo(number.to_string(), 0, request, ANSWER_BYTES));
            load.due.push(None);
        }
        load
    }

    #[test]
    fn a_stall_is_felt_by_all_that_were_due_meanwhile() {
        let mut load = stalling(10);
        let measured = load.open_loop(1000, Duration::from_millis(300)).unwrap();
        assert_eq!(measured.heartbeats, 300);
        // Half of them were due during the stall, one after the other.
        let stall = millis(STALL);
        assert!(millis(measured.latencies.at(100.0)) >= stall, "{}", millis(measured.latencies.at(100.0)));
        assert!(millis(measured.latencies.at(75.0)) >= stall / 4.0, "{}", millis(measured.latencies.at(75.0)));
    }

    #[test]
    fn a_closed_loop_has_so_many_under_way_and_waits_for_the_last() {
        let mut load = stalling(4);
        let measured = load.closed_loop(4, Duration::from_millis(200)).unwrap();
        assert!(measured.heartbeats >= 4, "{}", measured.heartbeats);
        assert_eq!(load.links[0].outstanding(), 0);
        assert!(load.take_refused().is_empty());
    }
}
