//! One connection's task: bytes in, requests to the broker, replies out.
//!
//! The task reads when the connection is readable and may have more requests outstanding, hands every frame to the
//! broker at once, and writes whatever replies are ready with as few system calls as possible. It never waits for a
//! reply: replies arrive in the [`Outbox`].
//!
//! What counts as activity for the idle timeout is a request that is complete, a reply that is ready or sent, or
//! [`ACTIVITY_BYTES`] of a large one: a peer that drips byte after byte is as good as silent.
//!
//! A peer that has gone is noticed also while its connection is not read, within [`HELD_BACK_LOOK`]: what it waits for may
//! take as long as it has asked for.
//!
//! **Invariant:** at most `riparian.connection.requests.max` requests of a connection are outstanding, and no request is
//! handed over while more than `riparian.connection.unsent.bytes.max` of replies wait for a slow reader or for the replies
//! before them.
//!
//! Records may come as a part of a file; the operating system sends them from there. They wait for a slow reader without
//! being in memory.
//!
//! **Invariant:** while all connections together hold more than `riparian.connections.bytes.max`, none that holds much
//! comes to hold more: it is closed.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes};
use riparian_broker::{RateLimit, telemetry::Limit};
use riparian_types::Now;
use tokio::{
    io::{AsyncRead, Interest, ReadBuf},
    net::TcpStream,
    runtime,
    time::sleep,
};

use super::{
    counters::{Closed, ClosedFor, ConnectionCounters},
    frames::{BadFrame, FrameReader},
    outbox::{Outbox, Stage, Taken, held_bytes},
    port::{Piece, Port},
    send::{self, SendError},
};
use crate::clock::Clock;

/// What a connection may always hold: a request of ordinary size must not fail because others hold too much.
pub(crate) const HELD_BYTES_FREE: usize = 64 * 1024;
const READ_BYTES: usize = 32 * 1024;
/// Bytes of requests or replies that show that a connection is used although none was completed.
pub(crate) const ACTIVITY_BYTES: usize = 16 * 1024;
/// Frames that one connection may have handled before others get their turn.
const FRAMES_PER_TURN: usize = 32;
/// So many bytes of requests are worth a sync of their own while further ones are at hand.
const SETTLED_BYTES: usize = 256 * 1024;
const FAILED: &str = "the request made the server fail, see the panic above";
/// How often it is looked whether the peer of a connection that is not read is still there: its end would be read behind
/// all that it has sent.
const HELD_BACK_LOOK: Duration = Duration::from_secs(1);

thread_local! {
    /// One per worker: idle connections hold no buffer.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Noisy peers share one allowance of log lines.
pub(crate) static PEER_LINES: RateLimit = RateLimit::of_peers();

/// What the rest of the server sees of a connection.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) outbox: Outbox,
    /// When the connection was last used, in monotonic milliseconds; `u64::MAX` while requests are outstanding.
    pub(crate) last_active: AtomicU64,
    /// Why the server closes it, if it does.
    pub(crate) closed_for: ClosedFor,
}

impl Handle {
    pub(crate) fn new(held_by_all: Arc<AtomicUsize>) -> Self {
        Self { outbox: Outbox::new(held_by_all), last_active: AtomicU64::default(), closed_for: ClosedFor::default() }
    }
}

/// Why a connection ended, and whether it is worth a line.
enum End {
    /// The peer left, or we asked it to.
    Quiet(Closed),
    /// The peer did something wrong, or the network did.
    Told(Closed, String),
}

pub(crate) struct Task<P: Port> {
    pub(crate) port: Arc<P>,
    pub(crate) clock: Clock,
    /// Where timers run: the thread that serves the connection has none.
    pub(crate) timers: runtime::Handle,
    pub(crate) counters: Arc<ConnectionCounters>,
    pub(crate) connection: Arc<P::Connection>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) frame_bytes_max: usize,
    pub(crate) held: HeldLimits,
    /// What all connections hold.
    pub(crate) held_by_all: Arc<AtomicUsize>,
}

/// What a connection may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLimits {
    /// `riparian.connection.requests.max`.
    pub(crate) requests_max: u64,
    /// `riparian.connection.unsent.bytes.max`.
    pub(crate) unsent_bytes_max: usize,
    /// `riparian.connections.bytes.max`: all connections together.
    pub(crate) all_bytes_max: usize,
}

impl<P: Port> Task<P> {
    /// Serves the connection until it ends.
    pub(crate) async fn run(mut self) {
        let mut io = Io {
            frames: FrameReader::new(self.frame_bytes_max),
            out: VecDeque::new(),
            unsent_bytes: 0,
            early_bytes: 0,
            issued: 0,
            unsettled_bytes: 0,
            handed_over: None,
            completed: 0,
            is_active: false,
            moved_bytes: 0,
            stage: Stage::Open,
            ended: false,
            hurried: false,
            limits: self.held,
            held_bytes: 0,
            is_held_back: false,
            ended_as: Closed::Failure,
            counters: Arc::clone(&self.counters),
            held_by_all: Arc::clone(&self.held_by_all),
        };
        let end = loop {
            match self.turn(&mut io) {
                Ok(Turn::Wait) => self.wait(&io).await,
                Ok(Turn::Again) => tokio::task::yield_now().await,
                Err(end) => break end,
            }
        };
        let (End::Quiet(reason) | End::Told(reason, _)) = end;
        io.ended_as = reason;
        if let End::Told(_, reason) = end {
            PEER_LINES.run(self.clock.mono(), |suppressed| {
                tracing::warn!(peer = %self.peer, suppressed, "connection closed: {reason}");
            });
        }
    }

    /// Does all that can be done without waiting.
    fn turn(&mut self, io: &mut Io) -> Result<Turn, End> {
        io.handed_over = None;
        self.take_replies(io);
        self.write(io)?;
        if io.stage == Stage::Closing {
            return Err(End::Quiet(self.handle.closed_for.get()));
        }
        let mut handled = 0;
        loop {
            while handled < FRAMES_PER_TURN && io.may_handle() {
                let Some(frame) = io.frames.poll_frame() else { break };
                self.hand_over(io, frame)?;
                handled += 1;
            }
            // The frames before a bad one are served first.
            if let Some(bad) = io.frames.take_bad() {
                if matches!(bad, BadFrame::TooLong { .. }) {
                    self.counters.limits.hit(Limit::RequestBytes);
                }
                return Err(End::Told(Closed::BadRequest, bad.to_string()));
            }
            if handled >= FRAMES_PER_TURN || !io.may_read() || !self.read(io)? {
                break;
            }
            self.count_held(io)?;
        }
        if io.unsettled_bytes > 0 {
            // What was asked for in one go is made durable in one go.
            self.settle(io)?;
        }
        let has_left = io.ended || (!io.may_handle() && has_finished(&self.stream));
        if !io.hurried && (has_left || io.stage != Stage::Open) {
            // Nobody waits for the end of a long poll.
            io.hurried = true;
            self.port.hurry(self.clock.now(), &self.connection);
        }
        self.take_replies(io);
        self.write(io)?;
        self.count_held(io)?;
        self.note_held_back(io);
        match io.stage {
            Stage::Closing => return Err(End::Quiet(self.handle.closed_for.get())),
            Stage::Draining if io.owes_nothing() => return Err(End::Quiet(Closed::Stopping)),
            Stage::Open if io.ended && io.owes_nothing() && !io.frames.has_frame() => {
                return Err(End::Quiet(Closed::Peer));
            }
            Stage::Open | Stage::Draining => {}
        }
        if io.issued > io.completed {
            self.handle.last_active.store(u64::MAX, Ordering::Relaxed);
        } else if std::mem::take(&mut io.is_active) {
            let at = io.handed_over.map_or_else(|| self.clock.mono(), |now| now.mono);
            self.handle.last_active.store(at.0, Ordering::Relaxed);
        }
        // Frames left over because of the turn's limit, or that became due by replies just written.
        let more = handled >= FRAMES_PER_TURN || (io.frames.has_frame() && io.may_handle());
        Ok(if more { Turn::Again } else { Turn::Wait })
    }

    /// Counts what the connection holds; it is closed if that is much, and becomes more while all hold too much.
    fn count_held(&self, io: &mut Io) -> Result<(), End> {
        let held = io.frames.unfinished_bytes() + io.unsent_bytes;
        let before = std::mem::replace(&mut io.held_bytes, held);
        if held <= before {
            if held < before {
                self.held_by_all.fetch_sub(before - held, Ordering::Relaxed);
            }
            return Ok(());
        }
        let all = self.held_by_all.fetch_add(held - before, Ordering::Relaxed) + (held - before);
        let max = self.held.all_bytes_max;
        if all <= max || held <= HELD_BYTES_FREE {
            return Ok(());
        }
        self.counters.limits.hit(Limit::ConnectionsBytes);
        let reason = format!(
            "it holds {held} bytes of unfinished requests and unsent answers, and all together hold {all}, of which {max} \
             are allowed (riparian.connections.bytes.max)"
        );
        Err(End::Told(Closed::Overload, reason))
    }

    /// Counts how often a connection is no longer read because it has asked for too much at a time.
    fn note_held_back(&self, io: &mut Io) {
        let (requests, unsent) = (io.has_enough_requests(), io.has_enough_unsent());
        let is_held_back = io.stage == Stage::Open && (requests || unsent);
        if is_held_back && !io.is_held_back {
            self.counters.limits.hit(if requests { Limit::ConnectionRequests } else { Limit::ConnectionUnsentBytes });
        }
        io.is_held_back = is_held_back;
    }

    async fn wait(&self, io: &Io) {
        let news = poll_fn(|ctx| {
            let news = self.handle.outbox.poll_news(ctx, io.completed, io.stage).is_ready();
            let readable = io.may_read() && self.stream.poll_read_ready(ctx).is_ready();
            let writable = !io.out.is_empty() && self.stream.poll_write_ready(ctx).is_ready();
            if news || readable || writable { Poll::Ready(()) } else { Poll::Pending }
        });
        if io.is_held_back && !io.hurried {
            // Nothing tells of an end behind bytes that are not read.
            let timer = {
                let _entered = self.timers.enter();
                sleep(HELD_BACK_LOOK)
            };
            tokio::select! {
                () = news => {}
                () = timer => {}
            }
        } else {
            news.await;
        }
    }

    fn hand_over(&self, io: &mut Io, frame: Bytes) -> Result<(), End> {
        let slot = io.issued;
        io.issued += 1;
        io.is_active = true;
        self.counters.requests_begun.increment();
        io.unsettled_bytes += frame.len();
        let now = self.clock.now();
        io.handed_over = Some(now);
        // The broker catches what goes wrong in its shards; what escapes ends this connection, not the server.
        let reason = match catch_unwind(AssertUnwindSafe(|| self.port.handle(now, &self.connection, slot, frame))) {
            Ok(Ok(())) => None,
            Ok(Err(reason)) => Some((Closed::BadRequest, reason.to_string())),
            Err(_) => Some((Closed::Failure, FAILED.to_owned())),
        };
        // Replies that were ready at once count against what may wait unsent.
        self.take_replies(io);
        let Some((closed, reason)) = reason else {
            return if io.unsettled_bytes >= SETTLED_BYTES { self.settle(io) } else { Ok(()) };
        };
        // What was answered before is still owed.
        self.write(io)?;
        Err(End::Told(closed, reason))
    }

    fn settle(&self, io: &mut Io) -> Result<(), End> {
        io.unsettled_bytes = 0;
        let now = io.handed_over.unwrap_or_else(|| self.clock.now());
        catch_unwind(AssertUnwindSafe(|| self.port.settle(now, &self.connection)))
            .map_err(|_| End::Told(Closed::Failure, FAILED.to_owned()))
    }

    fn take_replies(&self, io: &mut Io) {
        let (before, completed) = (io.out.len(), io.completed);
        Taken { completed: io.completed, stage: io.stage, early_bytes: io.early_bytes } =
            self.handle.outbox.take(&mut io.out);
        if io.completed > completed {
            io.is_active = true;
            self.counters.requests_ended.add(io.completed - completed);
        }
        io.unsent_bytes += io.out.range(before..).map(held_bytes).sum::<usize>();
    }

    /// Reads once. False: nothing more is there for now.
    fn read(&mut self, io: &mut Io) -> Result<bool, End> {
        let result = match io.frames.direct() {
            Some((buffer, missing)) => {
                let result = self.stream.try_read_buf(&mut buffer.limit(missing));
                if let Ok(bytes) = result {
                    io.frames.advance(bytes);
                }
                result
            }
            None => SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(READ_BYTES, 0);
                let bytes = read_now(&mut self.stream, scratch)?;
                io.frames.handle_bytes(&scratch[..bytes]);
                Ok(bytes)
            }),
        };
        match result {
            Ok(0) => {
                // The peer may still be listening: what it asked for is answered first.
                io.ended = true;
                Ok(false)
            }
            Ok(bytes) => {
                io.moved(bytes);
                Ok(true)
            }
            Err(error) => if_blocked(error).map(|()| false),
        }
    }

    fn write(&self, io: &mut Io) -> Result<(), End> {
        while !io.out.is_empty() {
            match send::send_once(&self.stream, &io.out) {
                Ok(bytes) => io.written(bytes),
                Err(SendError::Socket(error)) => return if_blocked(error),
                Err(SendError::File(reason)) => return Err(End::Told(Closed::Failure, reason)),
            }
        }
        Ok(())
    }
}

impl<P: Port> Drop for Task<P> {
    fn drop(&mut self) {
        // Also when the task is cancelled at the end of the process.
        let now = self.clock.now();
        let hung_up = catch_unwind(AssertUnwindSafe(|| self.port.disconnected(now, &self.connection)));
        if hung_up.is_err() {
            tracing::error!(peer = %self.peer, "the end of a connection made the server fail, see the panic above");
        }
    }
}

/// Reads what is there. Unlike `try_read` it takes a short read as a sign that there is no more, which saves the system
/// call that would say so.
fn read_now(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(buffer);
    // Nobody is to be woken by this: the task waits elsewhere.
    let mut ctx = Context::from_waker(Waker::noop());
    match Pin::new(stream).poll_read(&mut ctx, &mut buffer) {
        Poll::Ready(result) => result.map(|()| buffer.filled().len()),
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Whether the peer has said that it sends nothing more, even if it was not read that far.
fn has_finished(stream: &TcpStream) -> bool {
    let ready = pin!(stream.ready(Interest::READABLE)).poll(&mut Context::from_waker(Waker::noop()));
    matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
}

fn if_blocked(error: io::Error) -> Result<(), End> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Err(End::Quiet(Closed::Peer))
        }
        _ => Err(End::Told(Closed::Network, error.to_string())),
    }
}

enum Turn {
    Wait,
    Again,
}

/// The task's own state.
struct Io {
    frames: FrameReader,
    out: VecDeque<Piece>,
    unsent_bytes: usize,
    /// Bytes of replies that wait for earlier ones; the outbox counts them among what all connections hold.
    early_bytes: usize,
    /// Requests handed to the broker; the next one's slot.
    issued: u64,
    /// Bytes of requests since they were settled last.
    unsettled_bytes: usize,
    /// When the newest request of this turn was handed over; asking the clock again would cost more than it tells.
    handed_over: Option<Now>,
    /// Requests whose replies have left the outbox.
    completed: u64,
    /// Something happened since the time of the last activity was noted.
    is_active: bool,
    /// Bytes that came or went since then.
    moved_bytes: usize,
    stage: Stage,
    /// The peer sends nothing more.
    ended: bool,
    /// The broker knows that there is no time to wait for records.
    hurried: bool,
    limits: HeldLimits,
    /// What is counted of unfinished requests and unsent replies.
    held_bytes: usize,
    /// It is not read because of its limits.
    is_held_back: bool,
    /// Why it ends: a failure, unless there is another reason.
    ended_as: Closed,
    counters: Arc<ConnectionCounters>,
    held_by_all: Arc<AtomicUsize>,
}

impl Drop for Io {
    fn drop(&mut self) {
        // Also when the task panics.
        self.held_by_all.fetch_sub(self.held_bytes, Ordering::Relaxed);
        // Nobody takes the answers that are missing.
        self.counters.requests_ended.add(self.issued - self.completed);
        self.counters.close(self.ended_as);
    }
}

impl Io {
    fn may_handle(&self) -> bool {
        self.stage == Stage::Open && !self.has_enough_requests() && !self.has_enough_unsent()
    }

    fn has_enough_requests(&self) -> bool {
        self.issued - self.completed >= self.limits.requests_max
    }

    fn has_enough_unsent(&self) -> bool {
        self.unsent_bytes + self.early_bytes > self.limits.unsent_bytes_max
    }

    fn may_read(&self) -> bool {
        self.may_handle() && !self.ended && !self.frames.has_frame()
    }

    fn owes_nothing(&self) -> bool {
        self.issued == self.completed && self.out.is_empty()
    }

    /// Notes bytes that came or went.
    fn moved(&mut self, bytes: usize) {
        self.moved_bytes += bytes;
        if self.moved_bytes >= ACTIVITY_BYTES {
            self.moved_bytes = 0;
            self.is_active = true;
        }
    }

    fn written(&mut self, mut bytes: usize) {
        self.moved(bytes);
        while let Some(piece) = self.out.front_mut() {
            if piece.len() > bytes {
                match piece {
                    Piece::Bytes(piece) => {
                        piece.advance(bytes);
                        self.unsent_bytes -= bytes;
                    }
                    Piece::File(part) => part.advance(bytes),
                }
                return;
            }
            bytes -= piece.len();
            self.unsent_bytes -= held_bytes(piece);
            self.out.pop_front();
        }
        // All of it is sent.
        self.is_active = true;
    }
}
