//! What actors and events share: the clock, luck, the server, the network, the oracles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Weak},
};

use riparian_log::MemDisk;
use riparian_types::Prng;

use crate::{
    disk::SimDisk,
    network::Link,
    options::{EveryMs, Options},
    oracle::{classic::Beliefs, commits::Commits, contents::Contents, groups::GroupRecords, ownership::Ownership},
    queue::{Event, Queue},
    server::Server,
    trace::{Mode, Totals, Trace},
};

/// Everything but the actors.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) now_us: u64,
    pub(crate) prng: Prng,
    pub(crate) queue: Queue,
    pub(crate) trace: Trace,
    pub(crate) totals: Totals,
    /// Faults have stopped.
    pub(crate) is_healing: bool,
    /// When they did.
    pub(crate) heals_us: u64,
    /// The first broken promise.
    pub(crate) failure: Option<String>,

    pub(crate) memory: Arc<MemDisk>,
    pub(crate) server: Option<Server>,
    /// How often the server was started.
    pub(crate) life: u64,
    /// What each life had of the disk: given back once the run is over.
    pub(crate) disks: Vec<(u64, Weak<SimDisk>)>,

    pub(crate) links: BTreeMap<u64, Link>,
    /// By the broker's number of the connection, in this life.
    pub(crate) link_of: BTreeMap<u64, u64>,
    pub(crate) link_count: u64,
    /// The actors' names.
    pub(crate) names: Vec<String>,
    /// Actors that do nothing until then.
    pub(crate) paused_until_us: Vec<u64>,

    pub(crate) records: GroupRecords,
    pub(crate) owners: Ownership,
    pub(crate) beliefs: Beliefs,
    pub(crate) contents: Contents,
    pub(crate) commits: Commits,
    /// The members of streams groups, with their processes.
    pub(crate) members: BTreeMap<String, Vec<(usize, String)>>,
    /// The version that each application was given last.
    pub(crate) deployed: BTreeMap<String, u32>,
    /// The topics that are to be there in the end, with their partitions.
    pub(crate) wanted: BTreeMap<String, i32>,
    /// Groups of which a topic was ever created again with fewer partitions.
    pub(crate) shrunk: BTreeSet<String>,
    /// What the administrator knows to exist once the faults have stopped: partitions by topic.
    pub(crate) topics: BTreeMap<String, i32>,
}

impl Core {
    pub(crate) fn new(options: Options, seed: u64, mode: Mode) -> Self {
        Self {
            options,
            now_us: 0,
            prng: Prng::new(seed),
            queue: Queue::default(),
            trace: Trace::new(mode),
            totals: Totals::default(),
            is_healing: false,
            heals_us: 0,
            failure: None,
            memory: Arc::new(MemDisk::new()),
            server: None,
            life: 0,
            disks: Vec::new(),
            links: BTreeMap::new(),
            link_of: BTreeMap::new(),
            link_count: 0,
            names: Vec::new(),
            paused_until_us: Vec::new(),
            records: GroupRecords::default(),
            owners: Ownership::default(),
            beliefs: Beliefs::default(),
            contents: Contents::default(),
            commits: Commits::default(),
            members: BTreeMap::new(),
            deployed: BTreeMap::new(),
            wanted: BTreeMap::new(),
            shrunk: BTreeSet::new(),
            topics: BTreeMap::new(),
        }
    }

    /// A group of all kinds, and the partitions of the topic that it reads.
    pub(crate) fn source(&self, index: usize) -> (String, i32) {
        self.options
            .sources()
            .nth(index)
            .map_or_else(Default::default, |(name, partitions)| (name.to_owned(), partitions))
    }

    /// No shard is unloaded and loaded again while the server lives.
    pub(crate) fn never_reloads(&self) -> bool {
        self.options.faults.sync_failures.0 == 0 && self.options.faults.full_disk.0 == 0
    }

    /// Writes a line.
    pub(crate) fn say(&mut self, text: fmt::Arguments<'_>) {
        self.trace.say(self.now_us, text);
    }

    /// Writes a line about an actor.
    pub(crate) fn tell(&mut self, actor: usize, text: fmt::Arguments<'_>) {
        let name = std::mem::take(&mut self.names[actor]);
        self.trace.say(self.now_us, format_args!("{name} {text}"));
        self.names[actor] = name;
    }

    /// A promise is broken: the run ends.
    pub(crate) fn fail(&mut self, what: impl fmt::Display) {
        if self.failure.is_none() {
            let text = what.to_string();
            self.say(format_args!("BROKEN: {text}"));
            self.failure = Some(text);
        }
    }

    /// Fails if a check found something.
    pub(crate) fn check(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.fail(what);
        }
    }

    pub(crate) fn after_us(&mut self, delay_us: u64, event: Event) {
        self.queue.add(self.now_us + delay_us, &mut self.prng, event);
    }

    pub(crate) fn after_ms(&mut self, delay_ms: u64, event: Event) {
        self.after_us(delay_ms * 1000, event);
    }

    /// A time until the next of events that come every so often; none if they don't come.
    pub(crate) fn draw_ms(&mut self, every: EveryMs) -> Option<u64> {
        if every.0 == 0 || self.is_healing { None } else { Some(1 + self.prng.below(2 * every.0)) }
    }
}
