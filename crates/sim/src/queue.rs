//! The event queue: virtual time is the time of the last event taken out.

use std::collections::BTreeMap;

use riparian_types::Prng;

/// Something that will happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The next request on its way over this link reaches the server.
    Arrive(u64),
    /// The next reply on its way over this link reaches the client.
    Deliver(u64),
    /// The link breaks in the middle.
    Break(u64),
    /// The client learns that the link is gone.
    ClientHears(u64),
    /// The server learns that the link is gone.
    ServerHears(u64),
    /// An actor's timer.
    Timer { actor: usize, token: u64 },
    /// Whoever runs an application has a member started or stopped.
    Order { actor: usize, order: Order },
    /// A job of this life of the server runs.
    Job { life: u64, job: u64 },
    /// A job that stood still in a sync goes on.
    GoOn { life: u64, job: u64 },
    /// The broker wanted to be called.
    Wake { life: u64, at_us: u64 },
    /// A fault of this kind, and the next one later.
    Fault(FaultKind),
    /// Disk faults end.
    DiskHeals { life: u64 },
    /// The server starts.
    Start,
    /// Machines are compared with their logs.
    Check,
    /// Faults stop.
    Heal,
    /// Has everything come to rest?
    Converged,
}

/// What is done to a member of a streams group by whoever runs the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It is stopped, and stays down until it is started.
    Stop(How),
    /// It is started in this version.
    Start(u32),
}

/// How a member is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It is closed: a static one says that it will be back.
    Close,
    /// It is closed, and a static one does not say so.
    Leave,
    /// Nobody hears of it.
    Kill,
}

/// A fault of the server's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    PowerCut,
    Kill,
    Restart,
    SyncFailures,
    FullDisk,
}

/// Events by time; of those at the same time the order is drawn.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    events: BTreeMap<(u64, u64, u64), Event>,
    count: u64,
}

impl Queue {
    pub(crate) fn add(&mut self, at_us: u64, prng: &mut Prng, event: Event) {
        self.count += 1;
        self.events.insert((at_us, prng.next_u64(), self.count), event);
    }

    /// When the next event is due.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.events.first_key_value().map(|((at_us, ..), _)| *at_us)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at_us, _, _), event)| (at_us, event))
    }
}
