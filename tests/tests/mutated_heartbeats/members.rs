//! The members that behave: each speaks over a connection of its own, all on the thread of the test.

use std::{
    thread,
    time::{Duration, Instant},
};

use riparian_crowd::{
    member::{Group, Heard, Life, Member},
    owners::Owners,
};
use riparian_protocol::ErrorCode;
use riparian_tests::Connection;

pub(crate) const GROUP: &str = "alive";
pub(crate) const TOPIC: &str = "input";
pub(crate) const TASKS: i32 = 40;
const MEMBERS: usize = 20;
/// The first of them, whose ids others use too. What these are told shows nothing: somebody else may have spoken for them.
const USED: usize = 5;
/// Numbers of members that are not among the twenty begin here.
pub(crate) const STRANGERS: usize = 1000;
const TURN: Duration = Duration::from_millis(2);

pub(crate) struct Members {
    members: Vec<Member>,
    connections: Vec<Connection>,
    due: Vec<Instant>,
    /// Who has which task, of the members whose ids nobody else uses, and of strangers.
    pub(crate) group: Group,
    /// The same of the others.
    group_of_used: Group,
    pub(crate) heartbeats: usize,
    pub(crate) refused_of_used: usize,
    pub(crate) wrong: Vec<String>,
    frame: Vec<u8>,
}

pub(crate) fn member_id(number: usize) -> String {
    format!("member-{number:02}")
}

/// An id that others may use.
pub(crate) fn used_id(number: usize) -> String {
    member_id(number % USED)
}

pub(crate) fn is_used_id(id: &str) -> bool {
    (0..USED).any(|number| member_id(number) == id)
}

impl Members {
    pub(crate) fn join(port: u16) -> Self {
        let group = || Group { id: GROUP.to_owned(), topic: TOPIC.to_owned(), owners: Owners::new(TASKS as usize) };
        Self {
            members: (0..MEMBERS).map(|number| Member::new(member_id(number), 0, number)).collect(),
            connections: (0..MEMBERS).map(|_| Connection::open(port)).collect(),
            due: vec![Instant::now(); MEMBERS],
            group: group(),
            group_of_used: group(),
            heartbeats: 0,
            refused_of_used: 0,
            wrong: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Lets those speak that are due.
    pub(crate) fn beat(&mut self) {
        let now = Instant::now();
        for number in 0..MEMBERS {
            if self.due[number] > now {
                continue;
            }
            let member = &mut self.members[number];
            let is_used = number < USED;
            let group = if is_used { &mut self.group_of_used } else { &mut self.group };
            let (was_in, epoch) = (member.life == Life::In, member.epoch);
            let frame = member.send(number, group, &mut self.frame).expect("a heartbeat can be written");
            self.connections[number].send(frame);
            let answer = self.connections[number].read_frame().expect("the server goes on");
            let mut wrong = Vec::new();
            let heard = member.hear(number, group, &answer, &mut wrong).expect("an answer");
            self.heartbeats += 1;
            match heard {
                Heard::Refused(_) if is_used => self.refused_of_used += 1,
                Heard::Refused(code) if was_in => {
                    let name = ErrorCode::from_code(code).map_or("unknown", ErrorCode::name);
                    wrong.push(format!("{} was refused at epoch {epoch}: {name}", member.id));
                }
                Heard::Refused(_) | Heard::Nothing | Heard::Change => {}
            }
            if !is_used {
                self.wrong.append(&mut wrong);
            }
            let pause = if member.has_news { Duration::ZERO } else { Duration::from_millis(member.interval_ms) };
            self.due[number] = Instant::now() + pause;
        }
    }

    pub(crate) fn pause(&self) {
        let next = self.due.iter().min().map_or(TURN, |at| at.saturating_duration_since(Instant::now()));
        thread::sleep(next.min(TURN));
    }

    /// Until all are in the group, at one epoch, and have all tasks. What is missing, if that takes too long.
    pub(crate) fn wait_until_at_rest(&mut self, limit: Duration) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        loop {
            self.beat();
            let epochs: Vec<i32> = self.members.iter().map(|member| member.epoch).collect();
            let is_at_rest = self.members.iter().all(Member::is_settled) && epochs.iter().all(|it| *it == epochs[0]);
            let is_owned = |task: &i32| {
                let owner = self.group.owners.owner(*task).filter(|owner| *owner < STRANGERS);
                owner.is_some() || self.group_of_used.owners.owner(*task).is_some()
            };
            let owned = (0..TASKS).filter(is_owned).count();
            if is_at_rest && owned == TASKS as usize {
                return Ok(());
            }
            if Instant::now() > deadline {
                let outside = self.members.iter().filter(|member| member.life != Life::In).count();
                return Err(format!(
                    "{owned} tasks of {TASKS} have an owner, {outside} are outside, epochs {epochs:?}"
                ));
            }
            self.pause();
        }
    }
}
