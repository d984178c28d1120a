//! What the connections need of the broker, so that they can be tested against a small fake.

use std::{fmt, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use riparian_types::Now;

/// A connection's number, unique while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// An answer to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Nothing is sent, but the request is done with.
    None,
    /// The response after its 4-byte size.
    Parts(Vec<Bytes>),
}

/// The broker, seen from a connection.
pub(crate) trait Port: Send + Sync + 'static {
    type Connection: Send + Sync + 'static;
    type CloseReason: fmt::Display;

    fn connected(&self, peer: SocketAddr, listener: &str) -> Arc<Self::Connection>;
    fn id(connection: &Self::Connection) -> ConnectionId;
    fn handle(&self, now: Now, connection: &Self::Connection, slot: u64, frame: Bytes)
    -> Result<(), Self::CloseReason>;
    fn disconnected(&self, now: Now, connection: &Self::Connection);
    fn on_time(&self, now: Now);
    fn shutdown(&self, now: Now);
}
