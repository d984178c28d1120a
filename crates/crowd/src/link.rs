//! One connection: what waits to be written, what has been asked, bytes that are no whole answer yet.
//!
//! **Invariant:** answers come in the order of the requests and carry their numbers; anything else is an error.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
};

use anyhow::{Context as _, Result, bail};
use riparian_wire::frame;

use crate::poll::Poll;

const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Where a request has its number, behind size, API and version.
const CORRELATION_AT: usize = frame::PREFIX_BYTES + 4;

/// A request without an answer yet.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Whatever the asker calls it.
    pub by: usize,
    /// When it should have been sent, in nanoseconds of the asker's clock.
    pub intended: u64,
    correlation: i32,
}

pub struct Link {
    stream: TcpStream,
    key: u64,
    asked: VecDeque<Asked>,
    next_correlation: i32,
    out: Vec<u8>,
    input: Vec<u8>,
    waits_to_write: bool,
}

impl Link {
    pub fn open(port: u16, key: u64, poll: &Poll) -> Result<Self> {
        let stream =
            TcpStream::connect(("127.0.0.1", port)).with_context(|| format!("cannot connect to port {port}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        poll.add(&stream, key)?;
        Ok(Self {
            stream,
            key,
            asked: VecDeque::new(),
            next_correlation: 0,
            out: Vec::new(),
            input: Vec::new(),
            waits_to_write: false,
        })
    }

    /// Adds a request, a whole frame whose number is given here, to what [`Self::flush`] writes.
    pub fn ask(&mut self, frame: &[u8], by: usize, intended: u64) {
        let start = self.out.len();
        self.out.extend_from_slice(frame);
        let correlation = self.next_correlation;
        self.out[start + CORRELATION_AT..start + CORRELATION_AT + 4].copy_from_slice(&correlation.to_be_bytes());
        self.next_correlation = correlation.wrapping_add(1);
        self.asked.push_back(Asked { by, intended, correlation });
    }

    /// How many requests have no answer yet.
    pub fn outstanding(&self) -> usize {
        self.asked.len()
    }

    /// Writes as much as the socket takes.
    pub fn flush(&mut self, poll: &Poll) -> Result<()> {
        let mut written = 0;
        while written < self.out.len() {
            match self.stream.write(&self.out[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("a connection broke while a request was sent"),
            }
        }
        self.out.drain(..written);
        if self.waits_to_write == self.out.is_empty() {
            self.waits_to_write = !self.waits_to_write;
            poll.want_write(&self.stream, self.key, self.waits_to_write)?;
        }
        Ok(())
    }

    /// Reads once, and hands over each whole answer with its header, without its size.
    pub fn read(&mut self, buffer: &mut [u8], mut take: impl FnMut(Asked, &[u8]) -> Result<()>) -> Result<()> {
        let bytes = match self.stream.read(buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return Err(error).context("a connection broke while an answer was read"),
        };
        if self.input.is_empty() {
            let used = hand_over(&buffer[..bytes], &mut self.asked, &mut take)?;
            self.input.extend_from_slice(&buffer[used..bytes]);
        } else {
            self.input.extend_from_slice(&buffer[..bytes]);
            let used = hand_over(&self.input, &mut self.asked, &mut take)?;
            self.input.drain(..used);
        }
        Ok(())
    }
}

fn hand_over(
    bytes: &[u8],
    asked: &mut VecDeque<Asked>,
    take: &mut impl FnMut(Asked, &[u8]) -> Result<()>,
) -> Result<usize> {
    let mut used = 0;
    while let Some(prefix) = bytes[used..].first_chunk() {
        let size = frame::size(*prefix, ANSWER_BYTES_MAX)?;
        let Some(answer) = bytes[used + frame::PREFIX_BYTES..].get(..size) else { break };
        let oldest = asked.pop_front().context("an answer that nobody asked for")?;
        let number = answer.first_chunk().map(|number| i32::from_be_bytes(*number));
        if number != Some(oldest.correlation) {
            bail!("an answer with number {number:?} came where {} was due", oldest.correlation);
        }
        take(oldest, answer)?;
        used += frame::PREFIX_BYTES + size;
    }
    Ok(used)
}
