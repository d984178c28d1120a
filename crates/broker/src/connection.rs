//! A connection as the broker sees it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use riparian_types::GroupId;

use crate::{authorizer::Principal, handlers::fetch::ParkedFetch, shell::ConnectionId};

/// What is known of a connection while it is open.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    /// The peer's address as Java prints it.
    client_host: String,
    listener: String,
    principal: Principal,
    long_polls: Arc<LongPolls>,
    /// The groups that members have reported to through it.
    groups: Mutex<Vec<GroupId>>,
}

/// Most groups that are remembered of a connection; a client has one. Members of others are not known to be gone when it
/// closes, and wait for their sessions.
const GROUPS_MAX: usize = 100;

/// The fetches of a connection that wait for records.
#[derive(Debug, Default)]
pub(crate) struct LongPolls {
    inner: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Nobody has the time to wait any more.
    ended: bool,
    fetches: BTreeMap<u64, Weak<ParkedFetch>>,
}

impl LongPolls {
    /// Notes a fetch; false if there is no time to wait.
    pub(crate) fn begin(&self, id: u64, fetch: &Arc<ParkedFetch>) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.ended {
            inner.fetches.insert(id, Arc::downgrade(fetch));
        }
        !inner.ended
    }

    /// Forgets a fetch that waits no more.
    pub(crate) fn forget(&self, id: u64) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).fetches.remove(&id);
    }

    /// From now on nobody waits; returns who does.
    pub(crate) fn end(&self) -> Vec<Arc<ParkedFetch>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.ended = true;
        std::mem::take(&mut inner.fetches).into_values().filter_map(|fetch| fetch.upgrade()).collect()
    }
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, peer: SocketAddr, listener: &str) -> Self {
        // An IPv4 peer of an IPv6 socket is shown as what it is.
        let client_host = format!("/{}", peer.ip().to_canonical());
        Self {
            id,
            client_host,
            listener: listener.to_owned(),
            principal: Principal::anonymous(),
            long_polls: Arc::default(),
            groups: Mutex::default(),
        }
    }

    /// Notes that a member of this group has reported through it.
    pub(crate) fn note_group(&self, group: &GroupId) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if !groups.contains(group) && groups.len() < GROUPS_MAX {
            groups.push(group.clone());
        }
    }

    /// The groups that members have reported to through it; none the next time.
    pub(crate) fn take_groups(&self) -> Vec<GroupId> {
        std::mem::take(&mut *self.groups.lock().unwrap_or_else(PoisonError::into_inner))
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

    pub(crate) const fn long_polls(&self) -> &Arc<LongPolls> {
        &self.long_polls
    }

    /// Who is at the other end.
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }
}
