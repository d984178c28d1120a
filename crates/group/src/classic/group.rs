//! A classic group as it lives: soft state.
//!
//! **Invariant:** the derived parts (how many members wait for the join to end, how many know a protocol) are functions
//! of the members.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use riparian_types::{Generation, GroupId, InstanceId, MemberId, MonoMillis, TopicName, WallMillis, machine::Waiter};

use super::{ClassicGroupState, Protocol};
use crate::{
    record::{ClassicGroupValue, ClassicMemberValue},
    reply::JoinedMember,
    soft::Session,
    timers::{Timer, Timers},
};

/// The protocol type of consumers, the only one whose metadata says something to the server.
const CONSUMER: &str = "consumer";

/// A classic group.
#[derive(Debug)]
pub(crate) struct LiveGroup {
    pub(super) state: ClassicGroupState,
    /// The rebalance being prepared is the first since the group was empty: others may be about to join.
    pub(super) is_initial: bool,
    /// Somebody joined while the initial rebalance waited for more.
    pub(super) has_newcomers: bool,
    pub(super) generation: Generation,
    /// Generations that began since the group was loaded.
    rebalances: u64,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<MemberId>,
    /// When the group came into its state.
    pub(super) state_timestamp: Option<WallMillis>,
    /// What the members of this generation read; `None` if that is not known.
    subscribed_topics: Option<BTreeSet<TopicName>>,
    pub(super) members: BTreeMap<MemberId, LiveMember>,
    pub(super) static_members: BTreeMap<InstanceId, MemberId>,
    /// Ids that were handed out, and whose members have not come back with them yet.
    pub(super) pending_joins: BTreeMap<MemberId, Session>,
    /// Who has joined this generation and not asked for its assignment.
    pub(super) pending_syncs: BTreeSet<MemberId>,
    pub(super) join_timer: Option<(MonoMillis, JoinTimer)>,
    pub(super) sync_timer: Option<MonoMillis>,
    /// Derived: how many members wait for the join to end.
    joining_count: usize,
    /// Derived: how many members know a protocol.
    protocol_counts: BTreeMap<String, usize>,
}

/// What the end of a join is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinTimer {
    /// For more members of a group that was empty: so long this time, and so long at most after that.
    Initial { delay_ms: i32, remaining_ms: i32 },
    /// For members that have not rejoined.
    Rebalance,
}

/// A member of a classic group.
#[derive(Debug, Default)]
pub(crate) struct LiveMember {
    pub(super) instance_id: Option<InstanceId>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) session_timeout_ms: i32,
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Arc<[u8]>,
    /// It has not seen the end of a join yet.
    pub(super) is_new: bool,
    /// Its client has been told its id.
    pub(super) knows_id: bool,
    pub(super) session: Session,
    /// Set with [`LiveGroup::begin_join`] and [`LiveGroup::end_join`].
    pub(super) join: Wait,
    pub(super) sync: Wait,
}

/// Whether a member waits for the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// It does not.
    #[default]
    No,
    /// It does, and this ticket is to be answered.
    With(Waiter),
    /// It did, and whoever asked for it is gone.
    Unheard,
}

/// A member is not who it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAMember {
    /// No such member.
    Unknown,
    /// The instance id is another member's.
    Fenced,
}

impl Wait {
    pub(super) fn is_waiting(self) -> bool {
        self != Self::No
    }

    /// Ends the wait; the ticket to be answered, if it is still heard.
    pub(super) fn take(&mut self) -> Option<Waiter> {
        match core::mem::take(self) {
            Self::With(waiter) => Some(waiter),
            Self::No | Self::Unheard => None,
        }
    }
}

impl LiveMember {
    /// What it says about itself for this protocol.
    pub(super) fn metadata(&self, protocol: Option<&str>) -> Arc<[u8]> {
        self.protocol(protocol).map(|known| Arc::clone(&known.metadata)).unwrap_or_default()
    }

    fn protocol(&self, name: Option<&str>) -> Option<&Protocol> {
        self.protocols.iter().find(|known| Some(known.name.as_str()) == name)
    }

    /// Whether it waits for the join to end.
    pub(super) fn is_joining(&self) -> bool {
        self.join.is_waiting()
    }

    /// Whether this is the ticket of its join.
    pub(super) fn joins_with(&self, waiter: Waiter) -> bool {
        self.join == Wait::With(waiter)
    }

    /// The ticket of the join of a member that was removed.
    pub(super) fn take_join(&mut self) -> Option<Waiter> {
        self.join.take()
    }

    /// Nobody hears the end of its join; it counts as joining all the same, as if the answer were lost on its way.
    pub(super) fn join_is_unheard(&mut self) {
        self.join = Wait::Unheard;
    }

    /// Whether it need not be heard of for now: it waits for the group, not the group for it. A member that has never
    /// seen the end of a join may be one whose client has given up.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.join.is_waiting() || self.sync.is_waiting())
    }
}

impl LiveGroup {
    /// A group without anything.
    pub(crate) fn new() -> Self {
        Self {
            state: ClassicGroupState::Empty,
            is_initial: false,
            has_newcomers: false,
            generation: Generation(0),
            rebalances: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            state_timestamp: None,
            subscribed_topics: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_joins: BTreeMap::new(),
            pending_syncs: BTreeSet::new(),
            join_timer: None,
            sync_timer: None,
            joining_count: 0,
            protocol_counts: BTreeMap::new(),
        }
    }

    /// The group that a record tells of.
    pub(crate) fn from_value(value: &ClassicGroupValue) -> Self {
        let mut group = Self {
            state: if value.members.is_empty() { ClassicGroupState::Empty } else { ClassicGroupState::Stable },
            generation: value.generation,
            protocol_type: (!value.protocol_type.is_empty()).then(|| value.protocol_type.clone()),
            protocol: value.protocol.clone(),
            leader: value.leader.clone(),
            state_timestamp: value.state_timestamp,
            ..Self::new()
        };
        for member in &value.members {
            let protocol = Protocol {
                name: value.protocol.clone().unwrap_or_default(),
                metadata: Arc::clone(&member.subscription),
                subscribed_topics: member.subscribed_topics.clone(),
            };
            let live = LiveMember {
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                // The first version of the record had only one timeout.
                rebalance_timeout_ms: match member.rebalance_timeout_ms {
                    -1 => member.session_timeout_ms,
                    timeout => timeout,
                },
                session_timeout_ms: member.session_timeout_ms,
                protocols: alloc::vec![protocol],
                assignment: Arc::clone(&member.assignment),
                knows_id: true,
                ..LiveMember::default()
            };
            group.add(member.member_id.clone(), live);
        }
        group.subscribed_topics = group.find_subscribed_topics();
        group
    }

    /// The group as a record.
    pub(super) fn to_value(&self) -> ClassicGroupValue {
        let member = |(member_id, member): (&MemberId, &LiveMember)| {
            let protocol = member.protocol(self.protocol.as_deref());
            ClassicMemberValue {
                member_id: member_id.clone(),
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                subscription: protocol.map(|protocol| Arc::clone(&protocol.metadata)).unwrap_or_default(),
                subscribed_topics: protocol.and_then(|protocol| protocol.subscribed_topics.clone()),
                assignment: Arc::clone(&member.assignment),
            }
        };
        ClassicGroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_timestamp: self.state_timestamp,
            members: self.members.iter().map(member).collect(),
        }
    }

    /// Whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.state == ClassicGroupState::Empty
    }

    /// Whether nobody would miss it if nothing was written of it.
    pub(super) fn is_unused(&self) -> bool {
        self.is_empty() && self.pending_joins.is_empty()
    }

    /// Whether its members are consumers.
    pub(crate) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// Its protocol type, empty if nobody has ever joined.
    pub(crate) fn protocol_type(&self) -> &str {
        self.protocol_type.as_deref().unwrap_or_default()
    }

    /// Its state.
    pub(crate) fn state(&self) -> ClassicGroupState {
        self.state
    }

    /// Its generation.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Generations with members that began since it was loaded.
    pub(crate) fn rebalances(&self) -> u64 {
        self.rebalances
    }

    /// How many members it has.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// When it came into its state.
    pub(crate) fn state_timestamp(&self) -> Option<WallMillis> {
        self.state_timestamp
    }

    /// Whether anybody was given an id and has not come back with it.
    pub(crate) fn has_pending_joins(&self) -> bool {
        !self.pending_joins.is_empty()
    }

    /// Whether its members read the topic; consumers of which nothing is known may read anything.
    pub(crate) fn reads_topic(&self, topic: &TopicName) -> bool {
        self.subscribed_topics.as_ref().map_or_else(|| self.is_of_consumers(), |topics| topics.contains(topic))
    }

    /// Whether it is known what its members read.
    pub(crate) fn knows_subscriptions(&self) -> bool {
        self.subscribed_topics.is_some()
    }

    fn find_subscribed_topics(&self) -> Option<BTreeSet<TopicName>> {
        if !self.is_of_consumers() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let known = member.protocol(self.protocol.as_deref())?.subscribed_topics.as_ref()?;
            topics.extend(known.iter().cloned());
        }
        Some(topics)
    }

    /// Who this is: the member of this id, which holds this instance id if it has one.
    pub(super) fn check_member(&self, member_id: &MemberId, instance: Option<&InstanceId>) -> Result<(), NotAMember> {
        if let Some(instance) = instance {
            match self.static_members.get(instance) {
                None => return Err(NotAMember::Unknown),
                Some(holder) if holder != member_id => return Err(NotAMember::Fenced),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(NotAMember::Unknown) }
    }

    /// Whether a member with these protocols fits in: at least one is known to all others.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| self.is_known_to_all(&protocol.name))
    }

    /// Of nobody everybody knows it: all may have left while a join is still waiting for more.
    fn is_known_to_all(&self, protocol: &str) -> bool {
        self.protocol_counts.get(protocol).copied().unwrap_or(0) == self.members.len()
    }

    /// The protocol that most members want most among those that all know; between equals the first by name.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let vote = member.protocols.iter().find(|protocol| self.is_known_to_all(&protocol.name));
            *votes.entry(vote?.name.as_str()).or_default() += 1;
        }
        let most = votes.values().max()?;
        votes.iter().find(|(_, count)| *count == most).map(|(name, _)| String::from(*name))
    }

    /// Whether nobody is missing.
    pub(super) fn has_all_joined(&self) -> bool {
        self.joining_count == self.members.len() && self.pending_joins.is_empty()
    }

    /// How many members wait for the join to end.
    pub(super) fn joining_count(&self) -> usize {
        self.joining_count
    }

    /// The longest time that any member asks for.
    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0).max(0)
    }

    /// Everybody, as the leader is told.
    pub(super) fn joined_members(&self) -> Vec<JoinedMember> {
        let joined = |(member_id, member): (&MemberId, &LiveMember)| JoinedMember {
            member_id: member_id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(self.protocol.as_deref()),
        };
        self.members.iter().map(joined).collect()
    }

    pub(super) fn is_leader(&self, member_id: &MemberId) -> bool {
        self.leader.as_ref() == Some(member_id)
    }

    // How the group changes.

    pub(super) fn enter(&mut self, state: ClassicGroupState, now: WallMillis) {
        self.state = state;
        self.state_timestamp = Some(now);
    }

    /// Takes a member in. The first one decides what kind of group it is, and leads it.
    pub(super) fn add(&mut self, member_id: MemberId, member: LiveMember) {
        for protocol in &member.protocols {
            *self.protocol_counts.entry(protocol.name.clone()).or_default() += 1;
        }
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(instance.clone(), member_id.clone());
        }
        self.joining_count += usize::from(member.is_joining());
        if self.leader.is_none() {
            self.leader = Some(member_id.clone());
        }
        self.members.insert(member_id, member);
    }

    /// Forgets a member, if there is one of this id. Its tickets and its timer are the caller's.
    pub(super) fn remove(&mut self, member_id: &MemberId) -> Option<LiveMember> {
        let member = self.members.remove(member_id)?;
        self.forget_protocols(&member.protocols);
        self.joining_count -= usize::from(member.is_joining());
        if let Some(instance) = &member.instance_id
            && self.static_members.get(instance) == Some(member_id)
        {
            self.static_members.remove(instance);
        }
        self.pending_syncs.remove(member_id);
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        Some(member)
    }

    /// Gives a member another id; it keeps everything, also the lead.
    pub(super) fn rename(&mut self, old_id: &MemberId, new_id: &MemberId) {
        let (was_leader, must_sync) = (self.is_leader(old_id), self.pending_syncs.contains(old_id));
        let Some(member) = self.remove(old_id) else { return };
        self.add(new_id.clone(), member);
        if was_leader {
            self.leader = Some(new_id.clone());
        }
        if must_sync {
            self.pending_syncs.insert(new_id.clone());
        }
    }

    /// A member says something else about itself than before.
    pub(super) fn set_protocols(&mut self, member_id: &MemberId, protocols: Vec<Protocol>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        for protocol in &protocols {
            *self.protocol_counts.entry(protocol.name.clone()).or_default() += 1;
        }
        let before = core::mem::replace(&mut member.protocols, protocols);
        self.forget_protocols(&before);
    }

    fn forget_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            if let Some(count) = self.protocol_counts.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.protocol_counts.remove(&protocol.name);
                }
            }
        }
    }

    /// A member waits for the join to end; the ticket that this one takes the place of.
    pub(super) fn begin_join(&mut self, member_id: &MemberId, waiter: Waiter) -> Option<Waiter> {
        let member = self.members.get_mut(member_id)?;
        self.joining_count += usize::from(!member.is_joining());
        let before = member.join.take();
        member.join = Wait::With(waiter);
        before
    }

    /// A member waits no more; the ticket to be answered.
    pub(super) fn end_join(&mut self, member_id: &MemberId) -> Option<Waiter> {
        let member = self.members.get_mut(member_id)?;
        self.joining_count -= usize::from(member.is_joining());
        member.join.take()
    }

    /// Keeps the leader if it has joined, otherwise takes one that has; false if nobody has.
    pub(super) fn elect_leader(&mut self) -> bool {
        let has_joined = |leader: &MemberId| self.members.get(leader).is_some_and(LiveMember::is_joining);
        if self.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        match self.members.iter().find(|(_, member)| member.is_joining()) {
            Some((member_id, _)) => {
                self.leader = Some(member_id.clone());
                true
            }
            None => false,
        }
    }

    /// Whoever is a member now makes the next generation.
    pub(super) fn begin_generation(&mut self, now: WallMillis) {
        self.generation = Generation(self.generation.0.wrapping_add(1).max(1));
        self.rebalances += u64::from(!self.members.is_empty());
        self.protocol = self.select_protocol();
        self.subscribed_topics = self.find_subscribed_topics();
        self.pending_syncs.clear();
        self.is_initial = false;
        self.has_newcomers = false;
        let is_empty = self.members.is_empty();
        self.enter(if is_empty { ClassicGroupState::Empty } else { ClassicGroupState::CompletingRebalance }, now);
    }

    /// Takes out all timers.
    pub(crate) fn end_timers(&mut self, timers: &mut Timers, group_id: &GroupId) {
        if let Some((deadline, _)) = self.join_timer.take() {
            timers.disarm(deadline, Timer::ClassicJoin(group_id.clone()));
        }
        if let Some(deadline) = self.sync_timer.take() {
            timers.disarm(deadline, Timer::ClassicSync(group_id.clone()));
        }
        let members = self.members.iter_mut().map(|(member_id, member)| (member_id, &mut member.session));
        for (member_id, session) in members.chain(&mut self.pending_joins) {
            session.end(timers, || Timer::ClassicSession(group_id.clone(), member_id.clone()));
        }
    }

    /// Compares what is derived with what it is derived from; how many timers are armed.
    #[cfg(test)]
    pub(crate) fn check(&self, group_id: &GroupId) -> usize {
        let joining = self.members.values().filter(|member| member.is_joining()).count();
        assert_eq!(self.joining_count, joining, "members of {group_id} that join");
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for protocol in self.members.values().flat_map(|member| &member.protocols) {
            *counts.entry(protocol.name.clone()).or_default() += 1;
        }
        assert_eq!(self.protocol_counts, counts, "protocols of {group_id}");
        for (member_id, member) in &self.members {
            let holder = member.instance_id.as_ref().map(|instance| self.static_members.get(instance));
            assert!(holder.is_none_or(|holder| holder == Some(member_id)), "instances of {group_id}");
            let waits = (member.is_joining(), member.sync.is_waiting());
            let fits = match self.state {
                ClassicGroupState::PreparingRebalance => !waits.1,
                ClassicGroupState::CompletingRebalance => !waits.0,
                ClassicGroupState::Empty | ClassicGroupState::Stable => waits == (false, false),
            };
            assert!(fits, "{member_id} waits {waits:?} in {:?}", self.state);
        }
        assert_eq!(self.is_empty(), self.members.is_empty() && self.state == ClassicGroupState::Empty);
        assert!(self.join_timer.is_some() == (self.state == ClassicGroupState::PreparingRebalance), "{group_id}");
        assert!(self.pending_syncs.iter().all(|member_id| self.members.contains_key(member_id)), "{group_id}");
        let sessions = self.members.values().map(|member| &member.session).chain(self.pending_joins.values());
        let sessions = sessions.filter(|session| session.has_timer()).count();
        sessions + usize::from(self.join_timer.is_some()) + usize::from(self.sync_timer.is_some())
    }
}
