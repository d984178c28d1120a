//! The well-behaved: fifty groups, each member on a connection of its own, all of them on one thread over epoll.
//!
//! They join, and from then on do nothing but send heartbeats at their interval. From the moment when all rest, whatever
//! happens to one of them is wrong: an error, a closed connection, another epoch, other tasks, an answer that does not
//! come.
//!
//! **Invariant:** what the server took is kept apart from what this thread took: an answer counts from the moment when
//! its heartbeat was sent, and how late this thread was to send or to wake is counted by itself.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use riparian_crowd::{
    latencies::Latencies,
    link::Link,
    member::{Group, Heard, Life, Member},
    owners::Owners,
    poll::{Poll, READ_BYTES},
};
use riparian_protocol::ErrorCode;

pub(crate) const GROUPS: usize = 50;
/// Of each group.
pub(crate) const MEMBERS: usize = 4;
/// Of each group: the partitions of [`TOPIC`].
pub(crate) const TASKS: usize = 8;
pub(crate) const TOPIC: &str = "well-behaved-input";
/// Short, so that a stall shows; a machine with much else to do may leave a thread out for seconds.
pub(crate) const SESSION: Duration = Duration::from_secs(10);
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// Who is refused while its group forms tries again after so long.
const RETRY: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_millis(5);
/// Delays of this thread that are worth remembering when a member is lost.
const LATE: Duration = Duration::from_millis(100);
const COMPLAINTS_MAX: usize = 20;

pub(crate) fn group_id(group: usize) -> String {
    format!("well-behaved-{group:02}")
}

/// The id of a member of a group.
pub(crate) fn member_id(group: usize, number: usize) -> String {
    format!("well-behaved-{group:02}-member-{number}")
}

/// What has come of them so far.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) heartbeats: u64,
    /// Everybody has joined and has its tasks.
    pub(crate) is_at_rest: bool,
    /// From a heartbeat that was sent to its answer, since they rest.
    pub(crate) answers: Latencies,
    /// How late this thread was.
    pub(crate) own_delays: Latencies,
    /// And how late at most in the last session.
    pub(crate) own_delay_lately: Duration,
    /// Why somebody is not content.
    pub(crate) wrong: Vec<String>,
}

/// See the module.
pub(crate) struct Neighbours {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Seen>,
    is_over: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Neighbours {
    /// They begin to join.
    pub(crate) fn start(port: u16) -> Self {
        let seen = Seen {
            heartbeats: 0,
            is_at_rest: false,
            answers: Latencies::new(),
            own_delays: Latencies::new(),
            own_delay_lately: Duration::ZERO,
            wrong: Vec::new(),
        };
        let shared = Arc::new(Shared { seen: Mutex::new(seen), is_over: AtomicBool::new(false) });
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            if let Err(error) = Crowd::connect(port).and_then(|mut crowd| crowd.run(&own)) {
                own.lock().wrong.push(format!("{error:#}"));
            }
        });
        Self { thread: Some(thread), shared }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.shared.lock().clone()
    }

    /// They fall silent.
    pub(crate) fn finish(mut self) -> Seen {
        self.end();
        self.seen()
    }

    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            self.shared.lock().wrong.push("the thread of the well-behaved members panicked".to_owned());
        }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.end();
    }
}

/// Times are nanoseconds since `start`.
struct Crowd {
    start: Instant,
    poll: Poll,
    /// One for each member, by its number.
    links: Vec<Link>,
    groups: Vec<Group>,
    members: Vec<Member>,
    /// When each of those that wait for no answer is due.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// When those that wait for an answer asked.
    asked: Vec<Option<u64>>,
    /// When this thread was late, and how much.
    late: VecDeque<(u64, u64)>,
    is_at_rest: bool,
    buffer: Vec<u8>,
    frame: Vec<u8>,
}

impl Crowd {
    fn connect(port: u16) -> Result<Self> {
        let poll = Poll::new()?;
        let (mut groups, mut members, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for group in 0..GROUPS {
            groups.push(Group { id: group_id(group), topic: TOPIC.to_owned(), owners: Owners::new(TASKS) });
            for number in 0..MEMBERS {
                let key = members.len();
                members.push(Member::new(member_id(group, number), group, key));
                links.push(Link::open(port, key as u64, &poll)?);
            }
        }
        let count = members.len();
        Ok(Self {
            start: Instant::now(),
            poll,
            links,
            groups,
            members,
            // Over an interval, as those of applications that do not know each other.
            due: (0..count).map(|number| Reverse((nanos(INTERVAL) * number as u64 / count as u64, number))).collect(),
            asked: vec![None; count],
            late: VecDeque::new(),
            is_at_rest: false,
            buffer: vec![0; READ_BYTES],
            frame: Vec::new(),
        })
    }

    fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    fn run(&mut self, shared: &Shared) -> Result<()> {
        while !shared.is_over.load(Ordering::Relaxed) {
            self.send_due(shared)?;
            let before = self.now();
            let next = self.due.peek().map_or(u64::MAX, |Reverse((at, _))| at.saturating_sub(before));
            let limit = Duration::from_nanos(next).min(WAIT_MAX);
            self.poll.wait(Some(limit))?;
            let now = self.now();
            self.note_delay(shared, now, now.saturating_sub(before + nanos(limit)));
            self.take_answers(shared, now)?;
            self.check_rest(shared);
            self.check_answered(shared, now)?;
        }
        Ok(())
    }

    fn send_due(&mut self, shared: &Shared) -> Result<()> {
        while let Some(&Reverse((at, number))) = self.due.peek() {
            let now = self.now();
            if at > now {
                break;
            }
            self.due.pop();
            self.note_delay(shared, now, now - at);
            let member = &mut self.members[number];
            let frame = member.send(number, &mut self.groups[member.group], &mut self.frame)?;
            self.links[number].ask(frame, number, now);
            let sent = self.links[number].flush(&self.poll);
            sent.with_context(|| self.about(number, now))?;
            self.asked[number] = Some(now);
        }
        Ok(())
    }

    fn note_delay(&mut self, shared: &Shared, now: u64, late: u64) {
        if late >= nanos(LATE) {
            self.late.push_back((now, late));
        }
        while self.late.front().is_some_and(|(at, _)| at + nanos(SESSION) < now) {
            self.late.pop_front();
        }
        let mut seen = shared.lock();
        seen.own_delays.record(late);
        seen.own_delay_lately = Duration::from_nanos(self.late.iter().map(|(_, late)| *late).max().unwrap_or(0));
    }

    fn take_answers(&mut self, shared: &Shared, now: u64) -> Result<()> {
        for at in 0..self.poll.events().len() {
            let ready = self.poll.events()[at];
            let number = ready.key as usize;
            if ready.write {
                self.links[number].flush(&self.poll)?;
            }
            if !ready.read {
                continue;
            }
            let member = &mut self.members[number];
            let epoch = member.epoch;
            let group = &mut self.groups[member.group];
            let (mut heard, mut wrong) = (None, Vec::new());
            let read = self.links[number].read(&mut self.buffer, |asked, answer| {
                heard = Some((asked.intended, member.hear(number, group, answer, &mut wrong)?));
                Ok(())
            });
            if let Err(error) = read {
                return Err(error).with_context(|| self.about(number, now));
            }
            let Some((sent, heard)) = heard else { continue };
            self.asked[number] = None;
            let mut seen = shared.lock();
            seen.heartbeats += 1;
            if self.is_at_rest {
                seen.answers.record(now - sent);
                match heard {
                    Heard::Nothing => {}
                    Heard::Change => wrong.push(format!("it was told something new; its epoch was {epoch}")),
                    Heard::Refused(code) => {
                        let name = ErrorCode::from_code(code).map_or("an unknown error", ErrorCode::name);
                        wrong.push(format!("its heartbeat was refused: {name} ({code})"));
                    }
                }
            }
            drop(seen);
            let pause = match heard {
                Heard::Refused(_) => nanos(RETRY),
                _ if self.members[number].has_news => 0,
                Heard::Nothing | Heard::Change => self.members[number].interval_ms * 1_000_000,
            };
            self.due.push(Reverse((now + pause, number)));
            for text in wrong {
                let text = format!("{}: {text}", self.about(number, now));
                complain(shared, text);
            }
        }
        Ok(())
    }

    /// Whether everybody has joined, has what it shall have, and was told the interval of the group.
    fn check_rest(&mut self, shared: &Shared) {
        if self.is_at_rest {
            return;
        }
        let is_settled = |member: &Member| {
            let first = &self.members[member.group * MEMBERS];
            member.is_settled() && member.epoch == first.epoch && member.interval_ms as u128 == INTERVAL.as_millis()
        };
        if self.members.iter().all(is_settled) && self.groups.iter().all(|group| group.owners.all_owned()) {
            self.is_at_rest = true;
            shared.lock().is_at_rest = true;
        }
    }

    /// Fails when somebody has waited for an answer for longer than its session.
    fn check_answered(&self, shared: &Shared, now: u64) -> Result<()> {
        let waits_too_long = |asked: &Option<u64>| asked.is_some_and(|at| at + nanos(SESSION) < now);
        if let Some(number) = self.asked.iter().position(waits_too_long) {
            complain(shared, format!("{}: no answer for {SESSION:?}", self.about(number, now)));
            anyhow::bail!("the well-behaved members give up");
        }
        Ok(())
    }

    /// Who it is, and whether this thread may be to blame.
    fn about(&self, number: usize, now: u64) -> String {
        let member = &self.members[number];
        let is_in = if member.life == Life::In { "in its group" } else { "not in its group" };
        let late = self.late.iter().map(|(_, late)| late / 1_000_000).max().unwrap_or(0);
        format!(
            "{:.1} s after the start, {} ({is_in}, epoch {}; in the last {SESSION:?} this thread itself was late by {late} ms \
             at most)",
            now as f64 / 1e9,
            member.id,
            member.epoch
        )
    }
}

fn complain(shared: &Shared, text: String) {
    let mut seen = shared.lock();
    if seen.wrong.len() < COMPLAINTS_MAX {
        seen.wrong.push(text);
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
