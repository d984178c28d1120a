//! The floor: a server that does nothing but read frames and answer each with as many bytes as a real answer has.
//!
//! The two usual shapes, of which the cheaper one counts: a blocking thread per connection, and one thread that waits
//! for all by epoll. The answer carries the number of its request; the rest is zeros.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use riparian_crowd::poll::{Poll, READ_BYTES};
use riparian_wire::frame;

use crate::report;

/// Of a request: API, version, then the number that the answer repeats.
const CORRELATION_AT: usize = frame::PREFIX_BYTES + 4;
const REQUEST_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    Threads,
    Epoll,
}

impl Variant {
    pub(crate) const BOTH: [Self; 2] = [Self::Threads, Self::Epoll];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Epoll => "epoll",
        }
    }
}

/// Serves until it is killed.
pub(crate) fn serve(variant: Variant, answer_bytes: usize) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port is free")?;
    report::print(&listener.local_addr()?.port().to_string());
    match variant {
        Variant::Threads => serve_by_threads(&listener, answer_bytes),
        Variant::Epoll => serve_by_epoll(listener, answer_bytes),
    }
}

/// Bytes that came and are no whole request yet, and answers that were not taken yet.
struct Conversation {
    stream: TcpStream,
    input: Vec<u8>,
    answers: Vec<u8>,
    answer_bytes: usize,
}

impl Conversation {
    fn new(stream: TcpStream, answer_bytes: usize) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::new(), answers: Vec::new(), answer_bytes })
    }

    /// Reads what there is and answers it. `false`: the other side has closed.
    fn exchange(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let bytes = self.stream.read(buffer)?;
        if bytes == 0 {
            return Ok(false);
        }
        if self.input.is_empty() {
            let used = answer(&buffer[..bytes], &mut self.answers, self.answer_bytes)?;
            self.input.extend_from_slice(&buffer[used..bytes]);
        } else {
            self.input.extend_from_slice(&buffer[..bytes]);
            let used = answer(&self.input, &mut self.answers, self.answer_bytes)?;
            self.input.drain(..used);
        }
        // The load generator always reads, so that this never waits for long.
        self.stream.write_all(&self.answers)?;
        self.answers.clear();
        Ok(true)
    }
}

/// Answers the whole requests at the beginning of the bytes. Returns how many bytes those have.
pub(crate) fn answer(bytes: &[u8], answers: &mut Vec<u8>, answer_bytes: usize) -> io::Result<usize> {
    let mut used = 0;
    while let Some(prefix) = bytes[used..].first_chunk() {
        let size = frame::size(*prefix, REQUEST_BYTES_MAX).map_err(io::Error::other)?;
        let Some(request) = bytes[used..].get(..frame::PREFIX_BYTES + size) else { break };
        let correlation = request.get(CORRELATION_AT..CORRELATION_AT + 4);
        let correlation = correlation.ok_or_else(|| io::Error::other("a request without a number"))?;
        let start = answers.len();
        answers.resize(start + answer_bytes, 0);
        let answer = &mut answers[start..];
        answer[..4].copy_from_slice(&((answer_bytes - frame::PREFIX_BYTES) as u32).to_be_bytes());
        answer[4..8].copy_from_slice(correlation);
        used += frame::PREFIX_BYTES + size;
    }
    Ok(used)
}

fn serve_by_threads(listener: &TcpListener, answer_bytes: usize) -> Result<()> {
    loop {
        let mut conversation = Conversation::new(listener.accept()?.0, answer_bytes)?;
        thread::spawn(move || {
            let mut buffer = vec![0; READ_BYTES];
            while conversation.exchange(&mut buffer).unwrap_or(false) {}
        });
    }
}

fn serve_by_epoll(listener: TcpListener, answer_bytes: usize) -> Result<()> {
    const LISTENER: u64 = u64::MAX;
    let mut poll = Poll::new()?;
    listener.set_nonblocking(true)?;
    poll.add(&listener, LISTENER)?;
    let mut conversations: Vec<Option<Conversation>> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        poll.wait(None)?;
        for at in 0..poll.events().len() {
            let key = poll.events()[at].key;
            if key == LISTENER {
                let stream = listener.accept()?.0;
                stream.set_nonblocking(true)?;
                poll.add(&stream, conversations.len() as u64)?;
                conversations.push(Some(Conversation::new(stream, answer_bytes)?));
                continue;
            }
            let slot = &mut conversations[key as usize];
            let goes_on = match slot {
                Some(conversation) => conversation.exchange(&mut buffer),
                None => continue,
            };
            match goes_on {
                Ok(true) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Ok(false) | Err(_) => *slot = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_requests_are_answered_with_their_numbers() {
        let request = |number: u8| [0, 0, 0, 8, 0, 88, 0, 1, 0, 0, 0, number].to_vec();
        let mut bytes = [request(1), request(2), request(3)].concat();
        bytes.truncate(30);
        let mut answers = Vec::new();
        assert_eq!(answer(&bytes, &mut answers, 10).unwrap(), 24);
        assert_eq!(answers, [0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0]);
    }
}
