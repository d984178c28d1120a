//! Requests of any kind over some connections, so many under way on each.
//!
//! It does not know what is asked or answered: whoever uses it makes the frames and reads the answers.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::{
    link::Link,
    poll::{Poll, READ_BYTES},
};

const ANSWER_LIMIT: Duration = Duration::from_secs(60);

pub struct Pump {
    poll: Poll,
    links: Vec<Link>,
    buffer: Vec<u8>,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Pumped {
    pub answers: u64,
    /// The sum of what the answers were worth.
    pub worth: u64,
    pub wall: Duration,
}

/// Makes requests and reads answers; connections are known by number.
pub trait Talk {
    /// Writes the next request of a connection as a frame.
    fn ask(&mut self, link: usize, out: &mut Vec<u8>) -> Result<()>;

    /// Reads an answer, and says what it is worth.
    fn hear(&mut self, link: usize, answer: &[u8]) -> Result<u64>;
}

impl Pump {
    pub fn connect(port: u16, connections: usize) -> Result<Self> {
        let poll = Poll::new()?;
        let links = (0..connections).map(|key| Link::open(port, key as u64, &poll)).collect::<Result<_>>()?;
        Ok(Self { poll, links, buffer: vec![0; READ_BYTES] })
    }

    /// Goes on until the time is over or `answers_max` requests were sent, then waits for what is under way.
    pub fn run(
        &mut self,
        talk: &mut impl Talk,
        window: usize,
        duration: Duration,
        requests_max: u64,
    ) -> Result<Pumped> {
        let start = Instant::now();
        let (mut sent, mut frame) = (0, Vec::new());
        let mut pumped = Pumped { answers: 0, worth: 0, wall: Duration::ZERO };
        for number in 0..self.links.len() {
            for _ in 0..window {
                self.ask(number, talk, &mut frame)?;
                sent += 1;
            }
            self.links[number].flush(&self.poll)?;
        }
        let mut last_answer = Instant::now();
        while pumped.answers < sent {
            self.poll.wait(Some(Duration::from_millis(100)))?;
            for at in 0..self.poll.events().len() {
                let ready = self.poll.events()[at];
                let number = ready.key as usize;
                let before = pumped.answers;
                if ready.read {
                    self.links[number].read(&mut self.buffer, |_, answer| {
                        pumped.worth += talk.hear(number, answer)?;
                        pumped.answers += 1;
                        Ok(())
                    })?;
                }
                for _ in before..pumped.answers {
                    if sent < requests_max && start.elapsed() < duration {
                        self.ask(number, talk, &mut frame)?;
                        sent += 1;
                    }
                    last_answer = Instant::now();
                }
                self.links[number].flush(&self.poll)?;
            }
            if last_answer.elapsed() > ANSWER_LIMIT {
                bail!("{} requests have no answer after {ANSWER_LIMIT:?}", sent - pumped.answers);
            }
        }
        pumped.wall = start.elapsed();
        Ok(pumped)
    }

    fn ask(&mut self, link: usize, talk: &mut impl Talk, frame: &mut Vec<u8>) -> Result<()> {
        frame.clear();
        talk.ask(link, frame)?;
        self.links[link].ask(frame, link, 0);
        Ok(())
    }
}
