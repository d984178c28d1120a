//! What the broker asks of the program around it: the server's sockets and threads, or the simulator.

use bytes::{Buf, Bytes};
use riparian_types::{MonoMillis, Now};
use riparian_wire::frame;

pub use riparian_log::{FilePart, Piece};

/// A connection's number, never used twice while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Work that may block: a sync of a file.
pub type Job = Box<dyn FnOnce() + Send>;

/// The program around the broker.
///
/// The broker may call any of these from within [`crate::Broker::handle`] and from within a job; none may call back
/// into the broker before it returns.
pub trait Shell: Send + Sync + 'static {
    /// Reads both clocks. Only jobs need it: whoever calls the broker passes the time along.
    fn now(&self) -> Now;

    /// Microseconds on a clock that never goes back: how long something takes is measured with it, and nothing decided.
    fn micros(&self) -> u64;

    /// The reply to the request that [`crate::Broker::handle`] got with this slot. Slots of a connection count 0, 1,
    /// 2, …; replies may come in any order and are sent in the order of their slots.
    fn complete(&self, connection: ConnectionId, slot: u64, reply: Reply);

    /// [`crate::Broker::on_time`] wants to be called at this time or soon after; the earliest of all wishes counts.
    fn wake_at(&self, at: MonoMillis);

    /// Runs a job beside everything else; several may run at once.
    fn spawn(&self, job: Job);
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The request asked for none (a produce with `acks=0`): the slot is done.
    None,
    /// A frame with its size in front, in pieces to be sent one after the other. Most replies have one piece.
    Frame {
        /// The size in four bytes, and what follows.
        first: Bytes,
        /// Records, some of them in files, and what stands between and behind them.
        rest: Vec<Piece>,
    },
    /// The client can't be answered in a way that it understands: the connection is to be closed.
    Close,
}

impl Reply {
    /// What follows the size, in one piece: for clients without sockets. None if there is no frame, or a file that is a
    /// part of it can't be read.
    pub fn body(self) -> Option<Bytes> {
        let Self::Frame { mut first, rest } = self else { return None };
        first.advance(frame::PREFIX_BYTES);
        if rest.is_empty() {
            return Some(first);
        }
        let mut body = first.to_vec();
        for piece in rest {
            match piece {
                Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
                Piece::File(part) => body.extend_from_slice(&part.read().ok()?),
            }
        }
        Some(body.into())
    }
}
