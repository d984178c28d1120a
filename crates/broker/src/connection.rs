//! A connection as the broker sees it.

use std::net::SocketAddr;

use crate::{authorizer::Principal, shell::ConnectionId};

/// What is known of a connection while it is open.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    /// The peer's address as Java prints it.
    client_host: String,
    listener: String,
    principal: Principal,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, peer: SocketAddr, listener: &str) -> Self {
        // An IPv4 peer of an IPv6 socket is shown as what it is.
        let client_host = format!("/{}", peer.ip().to_canonical());
        Self { id, client_host, listener: listener.to_owned(), principal: Principal::anonymous() }
    }

    /// Its number.
    pub const fn id(&self) -> ConnectionId {
        self.id
    }

    /// The peer's address, `/127.0.0.1`.
    pub fn client_host(&self) -> &str {
        &self.client_host
    }

    /// The name of the listener that accepted it.
    pub fn listener(&self) -> &str {
        &self.listener
    }

    /// Who is at the other end.
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }
}
