//! What every simulated client does alike: connect, number requests, give up on those that take too long.

use std::collections::VecDeque;

use bytes::Bytes;
use riparian_protocol::{Message, Request, RequestHeader, ResponseHeader};
use riparian_wire::Reader;

use crate::{core::Core, queue::Event};

/// A client of the server with one connection at a time.
#[derive(Debug)]
pub(crate) struct Client {
    actor: usize,
    link: Option<u64>,
    next_correlation: i32,
    /// Requests that are not answered, in order: correlation id, and when it was sent.
    waiting: VecDeque<(i32, u64)>,
    /// A timer is under way that looks after the oldest of them.
    is_watched: bool,
    client_id: &'static str,
    timeout_ms: u64,
}

/// How long a client waits for an answer: longer than everything takes that may be late on the way.
const TIMEOUT_MS: u64 = 20_000;

/// The token of the timer that watches requests.
const WATCH: u64 = u64::MAX;

impl Client {
    pub(crate) fn new(actor: usize, client_id: &'static str) -> Self {
        let waiting = VecDeque::new();
        Self { actor, link: None, next_correlation: 0, waiting, is_watched: false, client_id, timeout_ms: TIMEOUT_MS }
    }

    /// It asks what may be answered late.
    pub(crate) fn with_timeout_ms(self, timeout_ms: u64) -> Self {
        Self { timeout_ms, ..self }
    }

    /// Sends a request; its correlation id, or none if the server can't be reached.
    pub(crate) fn send<R: Request<'static>>(&mut self, core: &mut Core, request: &R, version: i16) -> Option<i32> {
        if self.link.is_none() {
            self.link = core.connect(self.actor);
        }
        let link = self.link?;
        let correlation = self.next_correlation;
        self.next_correlation += 1;
        let header = RequestHeader {
            api_key: R::API_KEY.code(),
            api_version: version,
            correlation_id: correlation,
            client_id: Some(self.client_id.into()),
            ..Default::default()
        };
        let mut frame = Vec::new();
        let encoded = header.encode(&mut frame).and_then(|()| request.encode(&mut frame, version));
        encoded.expect("the simulator's own requests fit their versions");
        core.send(link, frame.into());
        self.waiting.push_back((correlation, core.now_us));
        if !self.is_watched {
            self.watch(core, core.now_us);
        }
        Some(correlation)
    }

    /// Looks again when a request that was sent then has waited for too long.
    fn watch(&mut self, core: &mut Core, sent_us: u64) {
        self.is_watched = true;
        let event = Event::Timer { actor: self.actor, token: WATCH };
        core.queue.add(sent_us + self.timeout_ms * 1000, &mut core.prng, event);
    }

    /// Whether this timer is the watch's; if so and a request has waited for too long, the connection is closed.
    /// Says whether the actor's requests are lost by that.
    pub(crate) fn on_watch(&mut self, core: &mut Core, token: u64) -> Watch {
        if token != WATCH {
            return Watch::NotMine;
        }
        self.is_watched = false;
        let Some((_, sent_us)) = self.waiting.front().copied() else { return Watch::AllWell };
        if sent_us + self.timeout_ms * 1000 > core.now_us {
            self.watch(core, sent_us);
            return Watch::AllWell;
        }
        core.tell(self.actor, format_args!("gets no answer and closes its connection"));
        core.totals.add("timeouts", 1);
        if self.link.is_some_and(|link| core.link_is_whole(link)) && core.paused_until_us[self.actor] < sent_us {
            let name = core.names[self.actor].clone();
            core.fail(format_args!("{name} gets no answer, although its connection is whole and the server up"));
        }
        self.disconnect(core);
        Watch::Lost
    }

    /// Closes the connection.
    pub(crate) fn disconnect(&mut self, core: &mut Core) {
        self.waiting.clear();
        if let Some(link) = self.link.take() {
            core.close(link);
        }
    }

    /// The connection is gone.
    pub(crate) fn on_closed(&mut self) {
        self.waiting.clear();
        self.link = None;
    }

    /// Takes a reply's correlation id out; fails if it is not the one of the oldest request.
    pub(crate) fn take_reply(&mut self, core: &mut Core, reply: &Bytes) -> Option<i32> {
        let correlation = reply.get(..4).map(|bytes| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let expected = self.waiting.pop_front().map(|(expected, _)| expected);
        if correlation.is_none() || correlation != expected {
            core.fail(format_args!(
                "{} gets an answer to request {correlation:?}, its oldest is {expected:?}",
                core.names[self.actor].clone()
            ));
            return None;
        }
        correlation
    }
}

/// What a watch's timer meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    NotMine,
    AllWell,
    Lost,
}

/// Reads a response.
pub(crate) fn decode<'a, R: Request<'static>>(
    core: &mut Core,
    reply: &'a Bytes,
    version: i16,
) -> Option<R::Response<'a>> {
    let mut reader = Reader::new(reply);
    let decoded = ResponseHeader::decode(&mut reader, R::API_KEY, version)
        .and_then(|_| R::Response::decode(&mut reader, version))
        .and_then(|response| reader.finish().map(|()| response));
    match decoded {
        Ok(response) => Some(response),
        Err(error) => {
            core.fail(format_args!("an answer to {} can't be read: {error}", R::API_KEY.name()));
            None
        }
    }
}
