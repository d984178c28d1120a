//! The replies of one connection on their way out: in at any time and from any thread, out in request order.
//!
//! **Invariant:** the replies that [`Outbox::take`] hands over belong to slots 0, 1, 2, … without a gap.
//!
//! **Invariant:** replies that came early are counted among what all connections hold, until their turn comes or the
//! outbox is gone.
//!
//! It does not know sockets; the connection's task asks it what to write and is woken when there is something new.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use super::port::{Piece, Reply};

/// What a part of a file counts for while it waits to be sent: what knows of it is in memory, its bytes are not.
const FILE_PART_BYTES: usize = 1024;

/// Replies that came early wait here for the ones before them.
#[derive(Debug, Default)]
struct Slots {
    /// The oldest slot without a reply.
    first: u64,
    /// Replies of the slots from `first` on.
    waiting: VecDeque<Option<Reply>>,
    /// Their bytes.
    early_bytes: usize,
}

impl Slots {
    /// Takes a reply and passes on all that are due now. A second reply for one slot is refused.
    fn complete(&mut self, slot: u64, reply: Reply, mut release: impl FnMut(Reply)) -> Result<(), SecondReply> {
        let ahead = slot.checked_sub(self.first).ok_or(SecondReply { slot })?;
        if ahead == 0 && self.waiting.is_empty() {
            self.first += 1;
            release(reply);
            return Ok(());
        }
        let index = usize::try_from(ahead).map_err(|_| SecondReply { slot })?;
        if self.waiting.len() <= index {
            self.waiting.resize_with(index + 1, || None);
        }
        self.early_bytes += bytes_of(&reply);
        if let Some(before) = self.waiting[index].replace(reply) {
            self.early_bytes -= bytes_of(&before);
            return Err(SecondReply { slot });
        }
        while let Some(Some(reply)) = self.waiting.front_mut().map(Option::take) {
            self.waiting.pop_front();
            self.first += 1;
            self.early_bytes -= bytes_of(&reply);
            release(reply);
        }
        Ok(())
    }
}

/// What a piece that waits to be sent holds of the server's memory.
pub(crate) fn held_bytes(piece: &Piece) -> usize {
    match piece {
        Piece::Bytes(bytes) => bytes.len(),
        Piece::File(_) => FILE_PART_BYTES,
    }
}

fn bytes_of(reply: &Reply) -> usize {
    match reply {
        Reply::Frame { first, rest } => first.len() + rest.iter().map(held_bytes).sum::<usize>(),
        Reply::None | Reply::Close => 0,
    }
}

/// A slot was completed twice: the broker's mistake.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("slot {slot} was completed twice")]
pub(crate) struct SecondReply {
    slot: u64,
}

/// What the rest of the server wants of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    #[default]
    Open,
    /// Read no more; close when every reply is out.
    Draining,
    /// Close now.
    Closing,
}

#[derive(Debug, Default)]
struct Inner {
    slots: Slots,
    parts: Vec<Piece>,
    stage: Stage,
    /// Of the connection's task, when it waited last.
    waker: Option<Waker>,
    /// The task waits, as far as is known: it need not be woken while it is at its work, and looks again before it waits.
    is_waiting: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    /// What all connections hold.
    held_by_all: Arc<AtomicUsize>,
}

/// What [`Outbox::take`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How many slots are complete.
    pub(crate) completed: u64,
    pub(crate) stage: Stage,
    /// Bytes of replies that wait for the ones before them.
    pub(crate) early_bytes: usize,
}

impl Outbox {
    pub(crate) fn new(held_by_all: Arc<AtomicUsize>) -> Self {
        Self { inner: Mutex::default(), held_by_all }
    }

    /// Takes the reply of a slot. Returns how many bytes of replies wait for the ones before them.
    pub(crate) fn complete(&self, slot: u64, reply: Reply) -> Result<usize, SecondReply> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        if inner.stage == Stage::Closing {
            // Nothing follows the end.
            return Ok(0);
        }
        let early_before = inner.slots.early_bytes;
        let (parts, stage) = (&mut inner.parts, &mut inner.stage);
        let result = inner.slots.complete(slot, reply, |reply| match reply {
            Reply::None | Reply::Frame { .. } if *stage == Stage::Closing => {}
            Reply::None => {}
            Reply::Close => *stage = Stage::Closing,
            Reply::Frame { first, rest } => {
                parts.push(Piece::Bytes(first));
                parts.extend(rest);
            }
        });
        let early_bytes = inner.slots.early_bytes;
        self.note_early(early_before, early_bytes);
        wake(guard);
        result.map(|()| early_bytes)
    }

    /// Moves the connection towards its end; never back.
    pub(crate) fn advance_to(&self, stage: Stage) {
        let mut inner = self.lock();
        inner.stage = inner.stage.max(stage);
        if inner.stage == Stage::Closing {
            let early_before = std::mem::take(&mut inner.slots.early_bytes);
            inner.slots.waiting = VecDeque::new();
            self.note_early(early_before, 0);
        }
        wake(inner);
    }

    /// What is counted of early replies becomes more or less.
    fn note_early(&self, before: usize, after: usize) {
        if after > before {
            self.held_by_all.fetch_add(after - before, Ordering::Relaxed);
        } else if after < before {
            self.held_by_all.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Moves what is to be written to the end of `out`.
    pub(crate) fn take(&self, out: &mut VecDeque<Piece>) -> Taken {
        let mut inner = self.lock();
        // Dropping the old vector would cost an allocation per reply; it stays small, for it is emptied at each wake.
        out.extend(inner.parts.drain(..));
        inner.is_waiting = false;
        Taken { completed: inner.slots.first, stage: inner.stage, early_bytes: inner.slots.early_bytes }
    }

    /// Ready when [`Self::take`] would bring something that the caller, who saw `completed` slots and `stage`, does not know.
    pub(crate) fn poll_news(&self, ctx: &mut Context<'_>, completed: u64, stage: Stage) -> Poll<()> {
        let mut inner = self.lock();
        if inner.slots.first != completed || inner.stage != stage {
            return Poll::Ready(());
        }
        inner.is_waiting = true;
        match &mut inner.waker {
            Some(waker) => waker.clone_from(ctx.waker()),
            None => inner.waker = Some(ctx.waker().clone()),
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way; a poisoned lock would only spread somebody else's panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.note_early(self.lock().slots.early_bytes, 0);
    }
}

/// Unlocks, then wakes the connection's task if it waits.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = if std::mem::take(&mut inner.is_waiting) { inner.waker.take() } else { None };
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn bytes(piece: &Piece) -> &Bytes {
        let Piece::Bytes(bytes) = piece else { panic!("{piece:?}") };
        bytes
    }

    fn reply(text: &'static str) -> Reply {
        Reply::Frame { first: Bytes::from_static(text.as_bytes()), rest: Vec::new() }
    }

    /// Completes the slots in the order given; each reply's body is the slot's number.
    fn check(order: &[u64], expected: &[&str]) {
        let outbox = Outbox::default();
        let mut seen = Vec::new();
        for &slot in order {
            outbox.complete(slot, Reply::Frame { first: slot.to_string().into(), rest: Vec::new() }).unwrap();
            let mut out = VecDeque::new();
            outbox.take(&mut out);
            let frames: Vec<_> = out.iter().map(|frame| String::from_utf8_lossy(bytes(frame))).collect();
            seen.push(frames.join(" "));
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn replies_leave_in_request_order() {
        check(&[0, 1, 2], &["0", "1", "2"]);
        check(&[2, 1, 0], &["", "", "0 1 2"]);
        check(&[1, 0, 3, 2], &["", "0 1", "", "2 3"]);
    }

    #[test]
    fn a_request_without_reply_frees_its_slot() {
        let outbox = Outbox::default();
        outbox.complete(1, reply("b")).unwrap();
        outbox.complete(0, Reply::None).unwrap();
        let mut out = VecDeque::new();
        let taken = Taken { completed: 2, stage: Stage::Open, early_bytes: 0 };
        assert_eq!(outbox.take(&mut out), taken);
        assert_eq!(out, [Piece::Bytes(Bytes::from_static(b"b"))]);
    }

    #[test]
    fn the_pieces_of_a_reply_stay_together() {
        let outbox = Outbox::default();
        let pieces = |texts: [&'static str; 2]| {
            let [first, last] = texts.map(|text| Bytes::from_static(text.as_bytes()));
            Reply::Frame { first, rest: vec![last.into()] }
        };
        outbox.complete(1, pieces(["c", "d"])).unwrap();
        outbox.complete(0, pieces(["a", "b"])).unwrap();
        let mut out = VecDeque::new();
        outbox.take(&mut out);
        let out: Vec<_> = out.iter().map(bytes).cloned().collect();
        assert_eq!(out.concat(), b"abcd");
    }

    #[test]
    fn a_second_reply_for_a_slot_is_refused() {
        let outbox = Outbox::default();
        outbox.complete(0, reply("a")).unwrap();
        assert_eq!(outbox.complete(0, reply("b")), Err(SecondReply { slot: 0 }));
        outbox.complete(2, reply("c")).unwrap();
        assert_eq!(outbox.complete(2, reply("d")), Err(SecondReply { slot: 2 }));
    }

    /// It takes what has come, or finds it when it is about to wait.
    #[test]
    fn a_task_at_its_work_is_not_woken() {
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut ctx = Context::from_waker(&waker);
        let outbox = Outbox::default();
        let woken = || count.0.load(Ordering::Relaxed);
        assert!(outbox.poll_news(&mut ctx, 0, Stage::Open).is_pending());
        outbox.complete(0, reply("a")).unwrap();
        outbox.complete(1, reply("b")).unwrap();
        assert_eq!(woken(), 1);
        let taken = outbox.take(&mut VecDeque::new());
        outbox.complete(2, reply("c")).unwrap();
        assert_eq!((taken.completed, woken()), (2, 1));
        assert!(outbox.poll_news(&mut ctx, 2, Stage::Open).is_ready());
        outbox.take(&mut VecDeque::new());
        assert!(outbox.poll_news(&mut ctx, 3, Stage::Open).is_pending());
        outbox.advance_to(Stage::Draining);
        assert_eq!(woken(), 2);
    }

    #[test]
    fn a_waiting_task_is_woken_by_news_only() {
        let outbox = Outbox::default();
        let mut ctx = Context::from_waker(Waker::noop());
        assert!(outbox.poll_news(&mut ctx, 0, Stage::Open).is_pending());
        outbox.complete(1, reply("b")).unwrap();
        assert!(outbox.poll_news(&mut ctx, 0, Stage::Open).is_pending());
        outbox.complete(0, reply("a")).unwrap();
        assert!(outbox.poll_news(&mut ctx, 0, Stage::Open).is_ready());
        assert!(outbox.poll_news(&mut ctx, 2, Stage::Open).is_pending());
        outbox.advance_to(Stage::Closing);
        outbox.advance_to(Stage::Draining);
        assert!(outbox.poll_news(&mut ctx, 2, Stage::Open).is_ready());
        assert_eq!(outbox.take(&mut VecDeque::new()).stage, Stage::Closing);
    }

    /// What is counted of early replies, by the outbox and of all.
    fn check_early(outbox: &Outbox, held_by_all: &AtomicUsize, expected: usize) {
        let early_bytes = outbox.take(&mut VecDeque::new()).early_bytes;
        assert_eq!((early_bytes, held_by_all.load(Ordering::Relaxed)), (expected, expected));
    }

    #[test]
    fn replies_that_came_early_are_counted_until_their_turn_comes() {
        let held_by_all = Arc::new(AtomicUsize::new(0));
        let outbox = Outbox::new(Arc::clone(&held_by_all));
        assert_eq!(outbox.complete(1, reply("four")), Ok(4));
        assert_eq!(outbox.complete(3, reply("eleven more")), Ok(15));
        check_early(&outbox, &held_by_all, 15);
        assert_eq!(outbox.complete(3, reply("twice")), Err(SecondReply { slot: 3 }));
        outbox.complete(0, reply("first")).unwrap();
        check_early(&outbox, &held_by_all, 5);
    }

    #[test]
    fn replies_that_nobody_will_take_are_counted_no_more() {
        let held_by_all = Arc::new(AtomicUsize::new(0));
        for stage in [None, Some(Stage::Closing)] {
            let outbox = Outbox::new(Arc::clone(&held_by_all));
            outbox.complete(1, reply("four")).unwrap();
            if let Some(stage) = stage {
                outbox.advance_to(stage);
                check_early(&outbox, &held_by_all, 0);
                assert_eq!(outbox.complete(2, reply("late")), Ok(0));
            }
            drop(outbox);
            assert_eq!(held_by_all.load(Ordering::Relaxed), 0);
        }
    }
}
