//! What is counted of connections. A new way for one to be refused or closed gets a name here.

use std::sync::OnceLock;

use riparian_broker::telemetry::LimitHits;
use riparian_types::telemetry::Counter;

/// Why a connection was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There were enough.
    TooMany,
    /// There were enough of its address.
    TooManyOfAddress,
    /// The system could not accept it, mostly for want of descriptors.
    AcceptFailed,
    /// It ended before it began.
    Ended,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The client closed it.
    Peer,
    /// Nothing happened on it for too long.
    Idle,
    /// The client sent something that can't be answered.
    BadRequest,
    /// It held too much while all together held too much.
    Overload,
    /// The network failed.
    Network,
    /// Closing it was the only answer that the client would understand.
    Answer,
    /// The server failed.
    Failure,
    /// The server stops.
    Stopping,
}

impl Refused {
    pub(crate) const ALL: [Self; 4] = [Self::TooMany, Self::TooManyOfAddress, Self::AcceptFailed, Self::Ended];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TooMany => "too_many",
            Self::TooManyOfAddress => "too_many_of_address",
            Self::AcceptFailed => "accept_failed",
            Self::Ended => "ended",
        }
    }
}

impl Closed {
    pub(crate) const ALL: [Self; 8] = [
        Self::Peer,
        Self::Idle,
        Self::BadRequest,
        Self::Overload,
        Self::Network,
        Self::Answer,
        Self::Failure,
        Self::Stopping,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Idle => "idle",
            Self::BadRequest => "bad_request",
            Self::Overload => "overload",
            Self::Network => "network",
            Self::Answer => "answer",
            Self::Failure => "failure",
            Self::Stopping => "stopping",
        }
    }
}

/// Why the server wants a connection to end; the first reason counts.
#[derive(Debug, Default)]
pub(crate) struct ClosedFor(OnceLock<Closed>);

impl ClosedFor {
    pub(crate) fn set(&self, reason: Closed) {
        let _ = self.0.set(reason);
    }

    /// Without another reason it was an answer that closed it.
    pub(crate) fn get(&self) -> Closed {
        self.0.get().copied().unwrap_or(Closed::Answer)
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    pub(crate) accepted: Counter,
    refused: [Counter; Refused::ALL.len()],
    closed: [Counter; Closed::ALL.len()],
    /// Requests that were handed to the broker.
    pub(crate) requests_begun: Counter,
    /// Requests whose answers were taken from it, or nobody will take.
    pub(crate) requests_ended: Counter,
    /// The limits that are enforced here.
    pub(crate) limits: LimitHits,
}

impl ConnectionCounters {
    pub(crate) fn refuse(&self, reason: Refused) {
        self.refused[reason as usize].increment();
    }

    pub(crate) fn refused(&self, reason: Refused) -> u64 {
        self.refused[reason as usize].get()
    }

    pub(crate) fn close(&self, reason: Closed) {
        self.closed[reason as usize].increment();
    }

    pub(crate) fn closed(&self, reason: Closed) -> u64 {
        self.closed[reason as usize].get()
    }

    /// Requests that are not answered yet.
    pub(crate) fn in_flight(&self) -> u64 {
        // The end is read first: what begins meanwhile only adds.
        let ended = self.requests_ended.get();
        self.requests_begun.get().saturating_sub(ended)
    }
}
