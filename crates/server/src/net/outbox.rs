//! The replies of one connection on their way out: in at any time and from any thread, out in request order.
//!
//! **Invariant:** the replies that [`Outbox::take`] hands over belong to slots 0, 1, 2, … without a gap.
//!
//! It does not know sockets; the connection's task asks it what to write and is woken when there is something new.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use super::port::Reply;

/// Replies that came early wait here for the ones before them.
#[derive(Debug, Default)]
struct Slots {
    /// The oldest slot without a reply.
    first: u64,
    /// Replies of the slots from `first` on.
    waiting: VecDeque<Option<Reply>>,
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
        if self.waiting[index].replace(reply).is_some() {
            return Err(SecondReply { slot });
        }
        while let Some(Some(reply)) = self.waiting.front_mut().map(Option::take) {
            self.waiting.pop_front();
            self.first += 1;
            release(reply);
        }
        Ok(())
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
    parts: Vec<Bytes>,
    stage: Stage,
    waker: Option<Waker>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
}

impl Outbox {
    /// Takes the reply of a slot.
    pub(crate) fn complete(&self, slot: u64, reply: Reply) -> Result<(), SecondReply> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let (parts, stage) = (&mut inner.parts, &mut inner.stage);
        let result = inner.slots.complete(slot, reply, |reply| match reply {
            // Nothing follows the end.
            Reply::None | Reply::Frame { .. } if *stage == Stage::Closing => {}
            Reply::None => {}
            Reply::Close => *stage = Stage::Closing,
            Reply::Frame { first, rest } => {
                parts.push(first);
                parts.extend(rest);
            }
        });
        wake(guard);
        result
    }

    /// Moves the connection towards its end; never back.
    pub(crate) fn advance_to(&self, stage: Stage) {
        let mut inner = self.lock();
        inner.stage = inner.stage.max(stage);
        wake(inner);
    }

    /// Moves what is to be written to the end of `out`. Returns how many slots are complete, and the stage.
    pub(crate) fn take(&self, out: &mut VecDeque<Bytes>) -> (u64, Stage) {
        let mut inner = self.lock();
        // Dropping the old vector would cost an allocation per reply; it stays small, for it is emptied at each wake.
        out.extend(inner.parts.drain(..));
        (inner.slots.first, inner.stage)
    }

    /// Ready when [`Self::take`] would bring something that the caller, who saw `completed` slots and `stage`, does not know.
    pub(crate) fn poll_news(&self, ctx: &mut Context<'_>, completed: u64, stage: Stage) -> Poll<()> {
        let mut inner = self.lock();
        if inner.slots.first != completed || inner.stage != stage {
            return Poll::Ready(());
        }
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

/// Unlocks, then wakes the connection's task if it waits.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let frames: Vec<_> = out.iter().map(|frame| String::from_utf8_lossy(frame)).collect();
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
        assert_eq!(outbox.take(&mut out), (2, Stage::Open));
        assert_eq!(out, [Bytes::from_static(b"b")]);
    }

    #[test]
    fn the_pieces_of_a_reply_stay_together() {
        let outbox = Outbox::default();
        let pieces = |texts: [&'static str; 2]| {
            let [first, last] = texts.map(|text| Bytes::from_static(text.as_bytes()));
            Reply::Frame { first, rest: vec![last] }
        };
        outbox.complete(1, pieces(["c", "d"])).unwrap();
        outbox.complete(0, pieces(["a", "b"])).unwrap();
        let mut out = VecDeque::new();
        outbox.take(&mut out);
        assert_eq!(out.make_contiguous().concat(), b"abcd");
    }

    #[test]
    fn a_second_reply_for_a_slot_is_refused() {
        let outbox = Outbox::default();
        outbox.complete(0, reply("a")).unwrap();
        assert_eq!(outbox.complete(0, reply("b")), Err(SecondReply { slot: 0 }));
        outbox.complete(2, reply("c")).unwrap();
        assert_eq!(outbox.complete(2, reply("d")), Err(SecondReply { slot: 2 }));
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
        assert_eq!(outbox.take(&mut VecDeque::new()).1, Stage::Closing);
    }
}
