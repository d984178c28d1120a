//! What the connections need of the broker, so that they can be tested against a small fake.

use std::{fmt, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use riparian_broker::{Broker, CloseReason, Connection};
use riparian_types::Now;

pub(crate) use riparian_broker::{ConnectionId, Piece, Reply};

/// The broker, seen from a connection.
pub(crate) trait Port: Send + Sync + 'static {
    type Connection: Send + Sync + 'static;
    type CloseReason: fmt::Display;

    fn connected(&self, peer: SocketAddr, listener: &str) -> Arc<Self::Connection>;
    fn id(connection: &Self::Connection) -> ConnectionId;
    fn handle(&self, now: Now, connection: &Self::Connection, slot: u64, frame: Bytes)
    -> Result<(), Self::CloseReason>;
    fn settle(&self, now: Now, connection: &Self::Connection);
    fn hurry(&self, now: Now, connection: &Self::Connection);
    fn disconnected(&self, now: Now, connection: &Self::Connection);
    fn on_time(&self, now: Now);
    fn shutdown(&self, now: Now);
}

impl Port for Broker {
    type Connection = Connection;
    type CloseReason = CloseReason;

    fn connected(&self, peer: SocketAddr, listener: &str) -> Arc<Connection> {
        self.connected(peer, listener)
    }

    fn id(connection: &Connection) -> ConnectionId {
        connection.id()
    }

    fn handle(&self, now: Now, connection: &Connection, slot: u64, frame: Bytes) -> Result<(), CloseReason> {
        self.handle_unsettled(now, connection, slot, frame)
    }

    fn settle(&self, now: Now, connection: &Connection) {
        self.settle(now, connection);
    }

    fn hurry(&self, now: Now, connection: &Connection) {
        self.hurry(now, connection);
    }

    fn disconnected(&self, now: Now, connection: &Connection) {
        self.disconnected(now, connection);
    }

    fn on_time(&self, now: Now) {
        self.on_time(now);
    }

    fn shutdown(&self, now: Now) {
        self.shutdown(now);
    }
}
