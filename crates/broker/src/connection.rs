//! A connection as the broker sees it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use riparian_types::{ClientId, GroupId, machine::Waiter};

use crate::{authorizer::Principal, handlers::fetch::ParkedFetch, partition::Partition, shell::ConnectionId};

/// What is known of a connection while it is open.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    /// The peer's address as Java prints it.
    client_host: String,
    listener: String,
    principal: Principal,
    /// That of its first request; nearly all connections name no other.
    usual_client: OnceLock<ClientId>,
    long_polls: Arc<LongPolls>,
    /// The groups that members have reported to through it.
    groups: Mutex<Vec<GroupId>>,
    /// What was appended to by requests that are not settled yet.
    unsynced: Mutex<Vec<Arc<Partition>>>,
}

/// Most groups that are remembered of a connection; a client has one. Members of others are not known to be gone when it
/// closes, and wait for their sessions.
const GROUPS_MAX: usize = 100;
/// Among how many of the last partitions is looked whether one is noted already; twice does no harm.
const UNSYNCED_LOOK_MAX: usize = 8;

/// Partitions that the fetches of a connection may wait for: what a fetch keeps of each takes several times its bytes in
/// the request. A client has one fetch at a time.
const WAITING_PARTITIONS_MAX: usize = 100_000;

/// What waits on a connection for something to happen: fetches for records, members for their groups.
#[derive(Debug, Default)]
pub(crate) struct LongPolls {
    inner: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Nobody has the time to wait any more.
    ended: bool,
    fetches: BTreeMap<u64, (usize, Weak<ParkedFetch>)>,
    /// How many partitions these wait for.
    partitions: usize,
    /// By the slot of the request.
    group_waits: BTreeMap<u64, GroupWait>,
}

/// A request that waits for an event of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupWait {
    pub(crate) group: GroupId,
    pub(crate) waiter: Waiter,
}

/// Everything that waited on a connection.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) fetches: Vec<Arc<ParkedFetch>>,
    pub(crate) group_waits: Vec<GroupWait>,
}

impl LongPolls {
    /// Whether one more fetch may wait, for so many partitions; one may in any case.
    pub(crate) fn has_room(&self, partitions: usize) -> bool {
        let inner = self.lock();
        inner.fetches.is_empty() || inner.partitions + partitions <= WAITING_PARTITIONS_MAX
    }

    /// Notes a fetch and how many partitions it waits for; false if there is no time to wait.
    pub(crate) fn begin(&self, id: u64, fetch: &Arc<ParkedFetch>, partitions: usize) -> bool {
        let mut inner = self.lock();
        if !inner.ended {
            inner.fetches.insert(id, (partitions, Arc::downgrade(fetch)));
            inner.partitions += partitions;
        }
        !inner.ended
    }

    /// Forgets a fetch that waits no more.
    pub(crate) fn forget(&self, id: u64) {
        let mut inner = self.lock();
        if let Some((partitions, _)) = inner.fetches.remove(&id) {
            inner.partitions -= partitions;
        }
    }

    /// Notes a request that may have to wait for an event of a group; false if there is no time to wait.
    pub(crate) fn begin_group_wait(&self, slot: u64, wait: GroupWait) -> bool {
        let mut inner = self.lock();
        if !inner.ended {
            inner.group_waits.insert(slot, wait);
        }
        !inner.ended
    }

    /// Forgets a request that waits for no group any more.
    pub(crate) fn end_group_wait(&self, slot: u64) {
        self.lock().group_waits.remove(&slot);
    }

    /// From now on nobody waits; returns who does.
    pub(crate) fn end(&self) -> Ended {
        let mut inner = self.lock();
        inner.ended = true;
        inner.partitions = 0;
        let fetches = std::mem::take(&mut inner.fetches).into_values();
        let fetches = fetches.filter_map(|(_, fetch)| fetch.upgrade()).collect();
        Ended { fetches, group_waits: std::mem::take(&mut inner.group_waits).into_values().collect() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
            usual_client: OnceLock::new(),
            long_polls: Arc::default(),
            groups: Mutex::default(),
            unsynced: Mutex::default(),
        }
    }

    /// Notes that this partition is to be synced once the requests at hand are settled.
    pub(crate) fn note_unsynced(&self, partition: &Arc<Partition>) {
        let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        // Mostly one producer sends batch after batch to the same few.
        if !unsynced.iter().rev().take(UNSYNCED_LOOK_MAX).any(|known| Arc::ptr_eq(known, partition)) {
            unsynced.push(Arc::clone(partition));
        }
    }

    /// The partitions that are to be synced; none the next time.
    pub(crate) fn take_unsynced(&self) -> Vec<Arc<Partition>> {
        std::mem::take(&mut *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this client id is the one that was asked about first.
    pub(crate) fn is_usual_client(&self, client_id: &ClientId) -> bool {
        self.usual_client.get_or_init(|| client_id.clone()) == client_id
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
