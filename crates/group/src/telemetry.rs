//! What is counted and told of groups as numbers.
//!
//! A streams group's state follows from its records, so it changes when they are applied, and `apply` has no clock.
//! Whoever decides on records notes whose group they change and when ([`Lives::note`]); at the next decision, or when
//! somebody wants to know, the states are compared and the time since the last change is booked. A steady heartbeat
//! writes nothing and pays nothing for this.
//!
//! **Invariant:** nothing is decided by what stands here; a restart loses it.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::{
    fmt,
    ops::Bound::{Excluded, Unbounded},
};

use riparian_types::{
    AssignmentEpoch, Generation, GroupEpoch, GroupId, MonoMillis,
    telemetry::{Counter, Histogram},
};

use crate::{
    classic::ClassicGroupState, group::Found, machine::GroupMachine, record::Record, reply::GroupState,
    soft::GroupSoft, streams::group::StreamsGroup,
};

/// What all machines of a server count together; clones count together.
#[derive(Clone, Debug, Default)]
pub struct GroupTelemetry(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// `None`: time stands still.
    stopwatch: Option<Stopwatch>,
    assignments: Histogram,
    assignment_failures: Counter,
    streams_rebalances: Counter,
    classic_rebalances: Counter,
    limit_hits: [Counter; GroupLimit::ALL.len()],
    gone: [[Counter; Gone::ALL.len()]; 2],
}

/// Why a member is in its group no more. One whose place another takes under the same instance id is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It said so, or an operator did.
    Left,
    /// It was not heard of for a session.
    Session,
    /// It did not give back its tasks, or did not join or ask for its assignment, in the time of a rebalance.
    Rebalance,
    /// Its process is back without it (`riparian.fence.restarted.processes`).
    Restarted,
}

impl Gone {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Left, Self::Session, Self::Rebalance, Self::Restarted];

    /// Its name in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Session => "session",
            Self::Rebalance => "rebalance",
            Self::Restarted => "restarted",
        }
    }
}

/// A limit that the machines enforce. Whoever adds one counts here how often it is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLimit {
    /// `group.streams.max.size`.
    StreamsGroupSize,
    /// `group.max.size`.
    ClassicGroupSize,
    /// Members of a classic group that were given an id and are not back with it.
    PendingJoins,
    /// `riparian.groups.max`.
    Groups,
    /// `riparian.members.max`.
    Members,
    /// `riparian.member.bytes.max`.
    MemberBytes,
    /// `riparian.patterns.max`.
    Patterns,
    /// `riparian.pattern.bytes.max`.
    PatternBytes,
    /// `riparian.pattern.matches.max`.
    PatternMatches,
    /// `riparian.topology.description.bytes.max`.
    DescriptionBytes,
    /// `riparian.topology.descriptions.bytes.max`.
    AllDescriptionsBytes,
}

impl GroupLimit {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::StreamsGroupSize,
        Self::ClassicGroupSize,
        Self::PendingJoins,
        Self::Groups,
        Self::Members,
        Self::MemberBytes,
        Self::Patterns,
        Self::PatternBytes,
        Self::PatternMatches,
        Self::DescriptionBytes,
        Self::AllDescriptionsBytes,
    ];

    /// Its name: the configuration key, where there is one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StreamsGroupSize => "group.streams.max.size",
            Self::ClassicGroupSize => "group.max.size",
            Self::PendingJoins => "pending joins",
            Self::Groups => "riparian.groups.max",
            Self::Members => "riparian.members.max",
            Self::MemberBytes => "riparian.member.bytes.max",
            Self::Patterns => "riparian.patterns.max",
            Self::PatternBytes => "riparian.pattern.bytes.max",
            Self::PatternMatches => "riparian.pattern.matches.max",
            Self::DescriptionBytes => "riparian.topology.description.bytes.max",
            Self::AllDescriptionsBytes => "riparian.topology.descriptions.bytes.max",
        }
    }
}

/// Reads microseconds on a clock that never goes back.
pub type Stopwatch = Box<dyn Fn() -> u64 + Send + Sync>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupTelemetry").finish_non_exhaustive()
    }
}

impl GroupTelemetry {
    /// Measures with this clock.
    pub fn new(stopwatch: Stopwatch) -> Self {
        Self(Arc::new(Shared { stopwatch: Some(stopwatch), ..Shared::default() }))
    }

    /// How long target assignments took to be computed.
    pub fn assignments(&self) -> &Histogram {
        &self.0.assignments
    }

    /// Assignments that failed; the group keeps its old target.
    pub fn assignment_failures(&self) -> &Counter {
        &self.0.assignment_failures
    }

    /// New target assignments of streams groups with members.
    pub fn streams_rebalances(&self) -> &Counter {
        &self.0.streams_rebalances
    }

    /// New generations of classic groups.
    pub fn classic_rebalances(&self) -> &Counter {
        &self.0.classic_rebalances
    }

    /// Members of streams groups that are gone.
    pub fn gone_from_streams(&self, why: Gone) -> &Counter {
        &self.0.gone[0][why as usize]
    }

    /// Members of classic groups that are gone.
    pub fn gone_from_classic(&self, why: Gone) -> &Counter {
        &self.0.gone[1][why as usize]
    }

    /// How often a limit was hit.
    pub fn limit_hits(&self, limit: GroupLimit) -> u64 {
        self.0.limit_hits[limit as usize].get()
    }

    /// A limit was hit.
    pub(crate) fn hit(&self, limit: GroupLimit) {
        self.0.limit_hits[limit as usize].increment();
    }

    /// Measures how long an assignment takes.
    pub(crate) fn assignment<T, E>(&self, compute: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let read = || self.0.stopwatch.as_ref().map_or(0, |stopwatch| stopwatch());
        let began = read();
        let result = compute();
        self.0.assignments.observe(read().saturating_sub(began));
        if result.is_err() {
            self.0.assignment_failures.increment();
        }
        result
    }
}

/// Which groups to tell of.
#[derive(Clone, Debug)]
pub struct Census {
    /// Those behind this one, by id; `None`: from the first on.
    pub after: Option<GroupId>,
    /// How many to tell of one by one; the others are only in the totals.
    pub singly_max: usize,
    /// How much to look at before stopping, so that nobody waits for long: groups and members count one each.
    pub steps_max: usize,
}

/// Some groups as they are at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CensusPage {
    /// All groups that were looked at.
    pub totals: Totals,
    /// The first of them, one by one.
    pub groups: Vec<GroupReading>,
    /// The last group that was looked at, if more may follow.
    pub more_after: Option<GroupId>,
}

/// Groups together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Streams groups by state, in the order of [`GroupState::ALL`].
    pub streams: [u64; GroupState::ALL.len()],
    /// Classic groups by state, in the order of [`ClassicGroupState::ALL`].
    pub classic: [u64; ClassicGroupState::ALL.len()],
    /// Groups that could not be loaded. Only the first page counts them.
    pub damaged: u64,
    /// Members of streams groups.
    pub streams_members: u64,
    /// Members of classic groups.
    pub classic_members: u64,
    /// Tasks that members of streams groups hold.
    pub tasks: TaskCounts,
}

/// Tasks by role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Running.
    pub active: u64,
    /// Kept up to date beside the running one.
    pub standby: u64,
    /// On their way to becoming that.
    pub warmup: u64,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReading {
    /// Its id.
    pub group_id: GroupId,
    /// How many members it has.
    pub members: u64,
    /// What else depends on its kind.
    pub kind: GroupKindReading,
}

/// What is told of a group of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupKindReading {
    /// A streams group.
    Streams(StreamsReading),
    /// A classic group; a group of offsets is an empty one.
    Classic {
        /// Its state.
        state: ClassicGroupState,
        /// Its generation.
        generation: Generation,
        /// Generations since it was loaded.
        rebalances: u64,
    },
}

/// What is told of a streams group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsReading {
    /// Its state.
    pub state: GroupState,
    /// Its epoch.
    pub epoch: GroupEpoch,
    /// The epoch of its target assignment.
    pub assignment_epoch: AssignmentEpoch,
    /// The tasks that its members hold.
    pub tasks: TaskCounts,
    /// New target assignments since it was loaded.
    pub rebalances: u64,
    /// How long it was in each state since it was loaded, in the order of [`GroupState::ALL`].
    pub ms_in_state: [u64; GroupState::ALL.len()],
}

/// How streams groups have fared since they were loaded.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    lives: BTreeMap<GroupId, Box<Life>>,
    /// Groups whose records have changed, and when; compared at the next occasion.
    changed: Vec<(GroupId, MonoMillis)>,
}

#[derive(Debug)]
struct Life {
    state: GroupState,
    since: MonoMillis,
    ms_in_state: [u64; GroupState::ALL.len()],
    assignment_epoch: AssignmentEpoch,
    rebalances: u64,
}

impl Life {
    fn begin(group: &StreamsGroup, now: MonoMillis) -> Self {
        Self {
            state: group.state(),
            since: now,
            ms_in_state: [0; GroupState::ALL.len()],
            assignment_epoch: group.assignment_epoch,
            rebalances: 0,
        }
    }

    /// Books the time up to `at`, when the group became what it is now. True if it got a new target by that.
    fn change(&mut self, group: &StreamsGroup, at: MonoMillis) -> bool {
        self.ms_in_state[self.state as usize] += at.since(self.since);
        (self.state, self.since) = (group.state(), at);
        let is_rebalance = group.assignment_epoch > self.assignment_epoch && !group.members.is_empty();
        self.assignment_epoch = group.assignment_epoch;
        self.rebalances += u64::from(is_rebalance);
        is_rebalance
    }
}

impl Lives {
    /// These records are about to change groups.
    pub(crate) fn note(&mut self, records: &[Record], now: MonoMillis) {
        for record in records {
            // They are the most frequent, and change no state.
            if matches!(record, Record::OffsetCommit(..)) {
                continue;
            }
            let group_id = record.group();
            if self.changed.last().is_none_or(|(last, _)| last != group_id) {
                self.changed.push((group_id.clone(), now));
            }
        }
    }
}

impl GroupMachine {
    /// Begins to watch the groups that were loaded.
    pub(crate) fn begin_lives(&self, soft: &mut GroupSoft, now: MonoMillis) {
        let streams = self.groups.iter().filter_map(|(group_id, group)| Some((group_id, group.streams()?)));
        soft.lives.lives =
            streams.map(|(group_id, group)| (group_id.clone(), Box::new(Life::begin(group, now)))).collect();
    }

    /// Books what has changed since the last time.
    pub(crate) fn catch_up_lives(&self, soft: &mut GroupSoft) {
        if soft.lives.changed.is_empty() {
            return;
        }
        for (group_id, at) in core::mem::take(&mut soft.lives.changed) {
            let Some(group) = self.groups.get(&group_id).and_then(|group| group.streams()) else {
                soft.lives.lives.remove(&group_id);
                continue;
            };
            // A group that is new began with a target of nothing.
            let first = AssignmentEpoch(StreamsGroup::FIRST_EPOCH);
            let new = || Box::new(Life { assignment_epoch: first, ..Life::begin(group, at) });
            let life = soft.lives.lives.entry(group_id).or_insert_with(new);
            if life.change(group, at) {
                self.config.telemetry.streams_rebalances().increment();
            }
        }
    }

    /// Tells of some groups.
    pub(crate) fn census(&self, soft: &GroupSoft, now: MonoMillis, census: &Census) -> CensusPage {
        let mut page = CensusPage::default();
        if census.after.is_none() {
            page.totals.damaged = self.damaged_groups().count() as u64;
        }
        let range = (census.after.as_ref().map_or(Unbounded, Excluded), Unbounded);
        let mut written = self.groups.range::<GroupId, _>(range).map(|(group_id, _)| group_id).peekable();
        // Of some classic groups nothing was written yet.
        let mut living = soft.classic.range::<GroupId, _>(range).map(|(group_id, _)| group_id).peekable();
        let mut steps = 0;
        loop {
            let next = match (written.peek(), living.peek()) {
                (Some(one), Some(other)) => (*one).min(*other),
                (Some(only), None) | (None, Some(only)) => *only,
                (None, None) => return page,
            };
            written.next_if(|group_id| *group_id == next);
            living.next_if(|group_id| *group_id == next);
            let wants_single = page.groups.len() < census.singly_max;
            let members = match self.find(soft, next) {
                Found::Nothing => 0,
                Found::OffsetsOnly => {
                    page.count_classic(next, ClassicGroupState::Empty, Generation(0), 0, 0, wants_single)
                }
                Found::Classic(group) => {
                    let (state, members) = (group.state(), group.member_count());
                    page.count_classic(next, state, group.generation(), group.rebalances(), members, wants_single)
                }
                Found::Streams(group) => page.count_streams(soft, now, next, group, wants_single),
            };
            steps += 1 + members;
            if steps >= census.steps_max {
                page.more_after = Some(next.clone());
                return page;
            }
        }
    }
}

impl CensusPage {
    fn count_classic(
        &mut self,
        group_id: &GroupId,
        state: ClassicGroupState,
        generation: Generation,
        rebalances: u64,
        members: usize,
        wants_single: bool,
    ) -> usize {
        self.totals.classic[state as usize] += 1;
        self.totals.classic_members += members as u64;
        if wants_single {
            let kind = GroupKindReading::Classic { state, generation, rebalances };
            self.groups.push(GroupReading { group_id: group_id.clone(), members: members as u64, kind });
        }
        members
    }

    fn count_streams(
        &mut self,
        soft: &GroupSoft,
        now: MonoMillis,
        group_id: &GroupId,
        group: &StreamsGroup,
        wants_single: bool,
    ) -> usize {
        let state = group.state();
        let mut tasks = TaskCounts::default();
        for member in group.members.values() {
            let (active, standby, warmup) = member.progress.assigned.counts();
            tasks.add(TaskCounts { active: active as u64, standby: standby as u64, warmup: warmup as u64 });
        }
        self.totals.streams[state as usize] += 1;
        self.totals.streams_members += group.members.len() as u64;
        self.totals.tasks.add(tasks);
        if wants_single {
            let life = soft.lives.lives.get(group_id);
            let mut ms_in_state = life.map_or([0; GroupState::ALL.len()], |life| life.ms_in_state);
            ms_in_state[state as usize] += life.map_or(0, |life| now.since(life.since));
            let reading = StreamsReading {
                state,
                epoch: group.epoch,
                assignment_epoch: group.assignment_epoch,
                tasks,
                rebalances: life.map_or(0, |life| life.rebalances),
                ms_in_state,
            };
            let kind = GroupKindReading::Streams(reading);
            self.groups.push(GroupReading { group_id: group_id.clone(), members: group.members.len() as u64, kind });
        }
        group.members.len()
    }
}

impl TaskCounts {
    fn add(&mut self, other: Self) {
        self.active += other.active;
        self.standby += other.standby;
        self.warmup += other.warmup;
    }
}

impl Totals {
    /// Adds other groups.
    pub fn add(&mut self, other: &Self) {
        self.streams.iter_mut().zip(other.streams).for_each(|(sum, more)| *sum += more);
        self.classic.iter_mut().zip(other.classic).for_each(|(sum, more)| *sum += more);
        self.damaged += other.damaged;
        self.streams_members += other.streams_members;
        self.classic_members += other.classic_members;
        self.tasks.add(other.tasks);
    }

    /// How many groups there are, those that could not be loaded among them.
    pub fn count(&self) -> u64 {
        self.streams.iter().chain(&self.classic).sum::<u64>() + self.damaged
    }
}
