//! The machine itself: all groups of one partition of `__consumer_offsets`, and who answers which command.
//!
//! **Invariant:** hard state is changed by [`Machine::apply`] alone. A record that contradicts it costs the group it
//! belongs to, and no other: the group is put aside as damaged, and only the keys of its records are kept, so that it
//! can still be deleted.

use alloc::{
    borrow::ToOwned,
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
};

use riparian_types::{
    GroupId, MemberId, MonoMillis, Now, Offset, PartitionIndex, TopicName, TopicsView,
    machine::{Decision, Inconsistent, Machine, RecordContext},
    planted::{self, Bug},
};

use crate::{
    command::Command,
    config::{GroupConfig, GroupOverrides, Settings},
    group::{Group, GroupKind, inconsistent},
    limits::Counted,
    record::{AssignmentConfigs, MemberState, Record},
    reply::{Effect, Reply},
    soft::{GroupSoft, Link, SoftMember},
    streams::{Topology, group::StreamsGroup, resolve::KnownPatterns},
    tasks::SubtopologyIds,
    timers::Timer,
};

/// How many groups are asked for what another could share: asking all would cost more than it saves.
const SHARING_GROUPS_MAX: usize = 8;

/// The hard state of all groups of one partition of `__consumer_offsets`.
#[derive(Clone, Debug)]
pub struct GroupMachine {
    pub(crate) config: Arc<GroupConfig>,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    /// Derived: the streams groups whose topologies require a topic.
    groups_by_topic: BTreeMap<TopicName, BTreeSet<GroupId>>,
    /// Derived: the patterns of their topologies.
    pub(crate) patterns: KnownPatterns,
    damaged: BTreeMap<GroupId, Damage>,
    /// Derived: the bytes of the descriptions of topologies.
    description_bytes: usize,
    /// This machine's part of the counts of the whole server: groups, patterns, bytes of descriptions.
    counted: [Counted; 3],
    /// As they were stored last: to be shared by all groups that have the same.
    assignment_configs: AssignmentConfigs,
}

/// A group whose records contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Damage {
    reason: String,
    keys: BTreeSet<Key>,
}

/// A record's key inside its group, in the order in which tombstones must be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Offset(TopicName, PartitionIndex),
    Classic,
    CurrentAssignment(MemberId),
    TargetMember(MemberId),
    TargetMetadata,
    MemberMetadata(MemberId),
    TopologyDescription,
    Metadata,
    Topology,
}

/// Hard state is equal, whatever the server's settings.
impl PartialEq for GroupMachine {
    fn eq(&self, other: &Self) -> bool {
        self.groups == other.groups
            && self.groups_by_topic == other.groups_by_topic
            && self.patterns == other.patterns
            && self.description_bytes == other.description_bytes
            && self.damaged == other.damaged
    }
}

impl GroupMachine {
    /// A machine without groups.
    pub fn new(config: Arc<GroupConfig>) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            groups_by_topic: BTreeMap::new(),
            patterns: KnownPatterns::default(),
            damaged: BTreeMap::new(),
            description_bytes: 0,
            counted: <[Counted; 3]>::default(),
            assignment_configs: AssignmentConfigs::default(),
        }
    }

    /// Why commands to this group are refused, if they are.
    pub(crate) fn damage(&self, group: &GroupId) -> Option<String> {
        let damage = self.damaged.get(group)?;
        Some(format!("group {group} could not be loaded: {}; it can only be deleted", damage.reason))
    }

    /// The groups that could not be loaded.
    pub(crate) fn damaged_groups(&self) -> impl Iterator<Item = &GroupId> {
        self.damaged.keys()
    }

    /// Whether there is such a group, loaded or not.
    pub(crate) fn has_group(&self, group_id: &GroupId) -> bool {
        self.groups.contains_key(group_id) || self.damaged.contains_key(group_id)
    }

    /// The id as the group has it, so that it is kept once.
    pub(crate) fn known_id(&self, group_id: GroupId) -> GroupId {
        self.groups.get_key_value(&group_id).map_or(group_id, |(known, _)| known.clone())
    }

    /// Some groups that have this very topology.
    pub(crate) fn groups_alike<'a>(
        &'a self,
        topology: &'a Topology,
    ) -> impl Iterator<Item = (&'a GroupId, &'a Arc<Topology>, &'a StreamsGroup)> {
        let by_topic = topology.required_topics().next().and_then(|topic| self.groups_by_topic.get(topic));
        let by_pattern = topology.patterns().next().filter(|_| by_topic.is_none());
        let by_pattern = by_pattern.into_iter().flat_map(|text| self.patterns.groups(text));
        let groups = by_topic.into_iter().flatten().chain(by_pattern).take(SHARING_GROUPS_MAX).filter_map(|group_id| {
            let group = self.groups.get(group_id)?.streams()?;
            Some((group_id, group.topology.as_ref()?, group))
        });
        groups.filter(move |(_, other, _)| core::ptr::eq(Arc::as_ptr(other), topology) || ***other == *topology)
    }

    /// These settings, shared with groups that have the same.
    pub(crate) fn shared_configs(&self, configs: AssignmentConfigs) -> AssignmentConfigs {
        if configs == self.assignment_configs { Arc::clone(&self.assignment_configs) } else { configs }
    }

    /// How many bytes the description of the group's topology has.
    pub(crate) fn described_bytes(&self, group_id: &GroupId) -> usize {
        let description = self.groups.get(group_id).and_then(|group| group.streams()?.description()?.value.as_ref());
        description.map_or(0, |value| value.description.len())
    }

    /// Keeps the counts of the whole server.
    fn count_groups(&mut self) {
        let [of_groups, of_patterns, of_descriptions] = &mut self.counted;
        of_groups.set(&self.config.limits.groups, self.groups.len() + self.damaged.len());
        of_patterns.set(&self.config.limits.patterns, self.patterns.len());
        of_descriptions.set(&self.config.limits.description_bytes, self.description_bytes);
    }

    /// Everything that must be deleted for the group to be forgotten; `None` if there is no such group.
    pub(crate) fn tombstones(&self, group_id: &GroupId) -> Option<alloc::vec::Vec<Record>> {
        let mut records = alloc::vec::Vec::new();
        match (self.groups.get(group_id), self.damaged.get(group_id)) {
            (Some(group), _) => group.tombstones(group_id, &mut records),
            (None, Some(damage)) => records.extend(damage.keys.iter().map(|key| key.tombstone(group_id))),
            (None, None) => return None,
        }
        Some(records)
    }

    fn apply_to_group(&mut self, group_id: &GroupId, record: &Record) -> Result<(), Inconsistent> {
        if let Some(damage) = self.damaged.get_mut(group_id) {
            let (key, is_tombstone) = Key::of(record);
            if is_tombstone {
                damage.keys.remove(&key);
            } else {
                damage.keys.insert(key);
            }
            if damage.keys.is_empty() {
                self.damaged.remove(group_id);
            }
            return Ok(());
        }
        let (_, is_tombstone) = Key::of(record);
        let group = match self.groups.get_mut(group_id) {
            Some(group) => group,
            None if is_tombstone => return Ok(()),
            None => self.groups.entry(group_id.clone()).or_default(),
        };
        // A tombstone of a streams record is only of interest to a streams group.
        let streams = match (&mut group.kind, is_tombstone) {
            (GroupKind::Streams(streams), true) => Some(streams),
            _ => None,
        };
        match record {
            Record::OffsetCommit(_, topic, partition, Some(value)) => {
                group.offsets.put(topic, *partition, value.clone());
            }
            Record::OffsetCommit(_, topic, partition, None) => group.offsets.remove(topic, *partition),
            Record::ClassicGroupMetadata(_, Some(value)) => match &mut group.kind {
                kind @ (GroupKind::OffsetsOnly | GroupKind::Classic(_)) => {
                    *kind = GroupKind::Classic(Box::new(value.clone()))
                }
                GroupKind::Streams(_) => {
                    return Err(inconsistent(format!("a classic group's record, but {group_id} is a streams group")));
                }
            },
            Record::ClassicGroupMetadata(_, None) => {
                if let GroupKind::Classic(_) = group.kind {
                    group.kind = GroupKind::OffsetsOnly;
                }
            }
            Record::StreamsGroupMetadata(_, Some(value)) => {
                let streams = group.streams_or_new(group_id)?;
                let configs = value.last_assignment_configs.clone().unwrap_or_default();
                if configs != self.assignment_configs {
                    self.assignment_configs = configs;
                }
                streams.apply_metadata(value, Arc::clone(&self.assignment_configs));
            }
            Record::StreamsGroupMetadata(_, None) => {
                if let Some(streams) = streams {
                    streams.check_deletable()?;
                    let topics = streams.topology.take();
                    group.kind = GroupKind::OffsetsOnly;
                    self.forget_topics(group_id, topics.as_deref());
                }
            }
            Record::StreamsMemberMetadata(_, member, Some(value)) => {
                group.streams_or_new(group_id)?.apply_member_metadata(member, Some(value))?;
            }
            Record::StreamsMemberMetadata(_, member, None) => {
                streams.map_or(Ok(()), |streams| streams.apply_member_metadata(member, None))?;
            }
            Record::StreamsTargetMetadata(_, Some(value)) => {
                group.streams_or_new(group_id)?.apply_target_metadata(Some(value))?;
            }
            Record::StreamsTargetMetadata(_, None) => {
                streams.map_or(Ok(()), |streams| streams.apply_target_metadata(None))?;
            }
            Record::StreamsTargetMember(_, member, Some(value)) => {
                group.streams_or_new(group_id)?.apply_target(member, Some(value))?;
            }
            Record::StreamsTargetMember(_, member, None) => {
                streams.map_or(Ok(()), |streams| streams.apply_target(member, None))?;
            }
            Record::StreamsCurrentAssignment(_, member, Some(value)) => {
                group.streams_or_new(group_id)?.apply_current_assignment(member, Some(value))?;
            }
            Record::StreamsCurrentAssignment(_, member, None) => {
                streams.map_or(Ok(()), |streams| streams.apply_current_assignment(member, None))?;
            }
            Record::StreamsTopology(_, Some(value)) => {
                let alike = self.groups_alike(value).next();
                let alike = alike.map(|(_, topology, group)| (Arc::clone(topology), group.ids.clone()));
                let (topology, ids) = alike.unwrap_or_else(|| (Arc::new(value.clone()), SubtopologyIds::default()));
                let streams = self.groups.entry(group_id.clone()).or_default().streams_or_new(group_id)?;
                let before = streams.topology.clone();
                streams.apply_topology(Some(topology), ids);
                self.forget_topics(group_id, before.as_deref());
                let known_id = self.known_id(group_id.clone());
                for topic in value.required_topics() {
                    self.groups_by_topic.entry(topic.clone()).or_default().insert(known_id.clone());
                }
                self.patterns.add(&known_id, value);
            }
            Record::StreamsTopologyDescription(_, Some(value)) => {
                group.streams_or_new(group_id)?.apply_description(Some(value.clone()));
            }
            Record::StreamsTopologyDescription(_, None) => {
                if let Some(streams) = streams {
                    streams.apply_description(None);
                }
            }
            Record::StreamsTopology(_, None) => {
                if let Some(streams) = streams {
                    let before = streams.topology.clone();
                    streams.apply_topology(None, SubtopologyIds::default());
                    self.forget_topics(group_id, before.as_deref());
                }
            }
        }
        if self.groups.get(group_id).is_some_and(Group::is_gone) {
            self.groups.remove(group_id);
        }
        Ok(())
    }

    fn forget_topics(&mut self, group_id: &GroupId, topology: Option<&Topology>) {
        self.patterns.remove(group_id, topology);
        for topic in topology.into_iter().flat_map(Topology::required_topics) {
            if let Some(groups) = self.groups_by_topic.get_mut(topic) {
                groups.remove(group_id);
                if groups.is_empty() {
                    self.groups_by_topic.remove(topic);
                }
            }
        }
    }

    /// Puts a group aside; the keys of its records stay known.
    fn put_aside(&mut self, group_id: &GroupId, reason: String, extra: Option<Key>) {
        let mut keys: BTreeSet<Key> = extra.into_iter().collect();
        self.description_bytes -= self.described_bytes(group_id);
        if let Some(group) = self.groups.remove(group_id) {
            let mut tombstones = alloc::vec::Vec::new();
            group.tombstones(group_id, &mut tombstones);
            keys.extend(tombstones.iter().map(|record| Key::of(record).0));
            let topology = group.streams().and_then(|streams| streams.topology.clone());
            self.forget_topics(group_id, topology.as_deref());
        }
        match self.damaged.get_mut(group_id) {
            Some(damage) => damage.keys.extend(keys),
            None => {
                self.damaged.insert(group_id.clone(), Damage { reason, keys });
            }
        }
    }

    /// Topics changed: offsets of deleted ones go (also if a new one has the name by now), groups that need one look
    /// again.
    fn on_topics_changed(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        view: TopicsView,
        as_of: Offset,
        changed: &[TopicName],
    ) -> Decision<Self> {
        let now = now.mono;
        // Announcements may overtake each other: what is announced to have changed is looked up in the newest view.
        if as_of >= soft.newest_topics.0 {
            soft.newest_topics = (as_of, view);
        }
        let mut decision = Decision::nothing();
        let Some(topics) = soft.topics.as_mut().filter(|_| !changed.is_empty()) else {
            let newest = soft.newest_topics.1.clone();
            soft.caches.hashes.clear();
            soft.caches.matches.forget_topics();
            soft.groups.values_mut().for_each(|group| group.on_topics_changed());
            // A topic may have been deleted while nobody was here to hear of it.
            for (group_id, group) in &self.groups {
                group.offsets.replaced_topic_tombstones(group_id, &newest, &mut decision.records);
            }
            soft.topics = Some(newest);
            for text in self.patterns.texts() {
                soft.caches.matches.begin(&self.patterns, text);
            }
            self.match_slice(soft, now);
            // Nor was anybody here to compute the target that a group's last change asks for.
            for group_id in self.groups.keys() {
                self.refresh_soon(soft, now, group_id);
            }
            return decision;
        };
        for name in changed {
            let (before, after) = (topics.topic(name).copied(), soft.newest_topics.1.topic(name).copied());
            match after {
                Some(topic) => topics.insert(name.clone(), topic),
                None => topics.remove(name),
            }
            soft.caches.hashes.forget(name);
            soft.creations.forget(name);
            let is_grown = before.is_some_and(|before| after.is_some_and(|after| after.id == before.id));
            if planted::is_in(Bug::GrownTopicUnnoticed) && is_grown {
                continue;
            }
            let is_unnoticed = planted::is_in(Bug::NewTopicUnnoticed) && before.is_none()
                || planted::is_in(Bug::GoneTopicMatched) && after.is_none();
            if !is_unnoticed {
                soft.caches.matches.tell(topics, name);
            }
            for group_id in self.groups_by_topic.get(name).into_iter().flatten() {
                if let Some(group) = soft.groups.get_mut(group_id) {
                    group.on_topics_changed();
                    if self.config.fast_rebalance {
                        group.arm_refresh(&mut soft.timers, now, group_id);
                    }
                }
            }
            let is_another = before.is_some_and(|before| after.is_none_or(|after| after.id != before.id));
            if is_another || after.is_none() {
                let groups = self.groups.iter().filter(|(_, group)| group.offsets.contains_topic(name));
                for (group_id, group) in groups {
                    group.offsets.topic_tombstones(group_id, name, &mut decision.records);
                }
            }
        }
        self.match_slice(soft, now);
        decision
    }

    fn on_group_config_changed(&self, soft: &mut GroupSoft, now: Now, group_id: GroupId, overrides: GroupOverrides) {
        let settings = Settings::new(&self.config, Some(&overrides));
        let session_timeout_ms = settings.session_timeout_ms();
        if let Some(group) = soft.groups.get_mut(&group_id) {
            group.on_settings_changed();
            // Another session begins with a member's next heartbeat: until then it does not know how soon to report.
            // Only who has not reported since the machine was loaded has a session that these settings are to begin:
            // they come after it.
            for (member_id, member) in group.members.iter_mut().filter(|(_, member)| member.link == Link::Unknown) {
                let timer = || Timer::Session(group_id.clone(), member_id.clone());
                member.session.shorten(&mut soft.timers, now.mono, session_timeout_ms, timer);
            }
            // Warm-ups may be wanted no more, and nobody may ever report again that one has caught up.
            if group.step.is_some() {
                group.arm_refresh(&mut soft.timers, now.mono, &group_id);
            }
        }
        if overrides == GroupOverrides::default() {
            soft.overrides.remove(&group_id);
        } else {
            soft.overrides.insert(group_id.clone(), overrides);
        }
        self.refresh_soon(soft, now.mono, &group_id);
    }

    fn answer(&self, soft: &mut GroupSoft, now: Now, command: Command) -> Decision<Self> {
        match command {
            Command::StreamsHeartbeat(waiter, heartbeat) => self.streams_heartbeat(soft, now, waiter, heartbeat),
            Command::DescribeTopology(waiter, update) => self.describe_topology(soft, waiter, update),
            Command::StreamsDescribe(waiter, group_id) => {
                let reply = Reply::StreamsDescribe(self.describe_streams(soft, &group_id));
                Decision::reply(waiter, Some(group_id), reply)
            }
            Command::ClassicJoin(waiter, join) => self.classic_join(soft, now, waiter, join),
            Command::ClassicSync(waiter, sync) => self.classic_sync(soft, now, waiter, sync),
            Command::ClassicHeartbeat(waiter, heartbeat) => self.classic_heartbeat(soft, now, waiter, &heartbeat),
            Command::ClassicLeave(waiter, group_id, members) => {
                self.classic_leave(soft, now, waiter, &group_id, &members)
            }
            Command::ClassicDescribe(waiter, group_id) => {
                let reply = Reply::ClassicDescribe(self.describe_classic(soft, &group_id));
                Decision::reply(waiter, Some(group_id), reply)
            }
            Command::GiveUp(group_id, waiter) => self.give_up(soft, now, &group_id, waiter),
            // A list that misses the last instants of some group is still a list: it waits for no group.
            Command::ListGroups(waiter, filter) => {
                Decision::reply(waiter, None, Reply::ListGroups(self.list_groups(soft, &filter)))
            }
            // Like a list.
            Command::Census(waiter, census) => {
                let page = self.census(soft, now.mono, &census);
                Decision::reply(waiter, None, Reply::Census(Box::new(page)))
            }
            Command::DeleteGroup(waiter, group_id) => self.delete_group(soft, waiter, group_id),
            Command::OffsetCommit(waiter, commit) => self.commit_offsets(soft, now, waiter, commit),
            Command::OffsetFetch(waiter, fetch) => {
                let reply = Reply::OffsetFetch(self.fetch_offsets(&fetch));
                Decision::reply(waiter, Some(fetch.group_id), reply)
            }
            Command::OffsetDelete(waiter, delete) => self.delete_offsets(soft, waiter, delete),
            Command::TopicsChanged { view, as_of, changed } => self.on_topics_changed(soft, now, view, as_of, &changed),
            Command::InternalTopicsCreated { group, attempted, failures } => {
                let settings = Settings::new(&self.config, soft.overrides.get(&group));
                let pause_ms = 2 * i64::from(settings.heartbeat_interval_ms());
                soft.creations.ended(now.mono, pause_ms, attempted, failures);
                Decision::nothing()
            }
            Command::ConnectionClosed { group, connection } => {
                self.on_connection_closed(soft, now, &group, connection);
                Decision::nothing()
            }
            Command::GroupConfigChanged { group, overrides } => {
                self.on_group_config_changed(soft, now, group, overrides);
                Decision::nothing()
            }
        }
    }
}

impl Machine for GroupMachine {
    type Soft = GroupSoft;
    type Command = Command;
    type Record = Record;
    type Reply = Reply;
    type Effect = Effect;
    type Scope = GroupId;

    fn decide(&self, soft: &mut GroupSoft, now: Now, command: Command) -> Decision<Self> {
        self.catch_up_lives(soft);
        let decision = self.answer(soft, now, command);
        soft.go_on_with_patterns(now.mono);
        Self::unsettle(soft, &decision);
        soft.count_members(&self.config.limits);
        soft.lives.note(&decision.records, now.mono);
        decision
    }

    fn apply(&mut self, _: &RecordContext, record: &Record) -> Result<(), Inconsistent> {
        let group_id = Self::scope_of(record);
        let is_description = matches!(record, Record::StreamsTopologyDescription(..))
            || matches!(record, Record::StreamsGroupMetadata(_, None));
        let before = if is_description { self.described_bytes(&group_id) } else { 0 };
        let result = self.apply_to_group(&group_id, record);
        if is_description {
            self.description_bytes = self.description_bytes - before + self.described_bytes(&group_id);
        }
        if let Err(error) = &result {
            self.put_aside(&group_id, error.reason.clone(), Some(Key::of(record).0));
        }
        self.count_groups();
        result
    }

    fn scope_of(record: &Record) -> GroupId {
        record.group().to_owned()
    }

    fn quarantine(&mut self, scope: GroupId, reason: String, tombstone: Option<&Record>) {
        self.put_aside(&scope, reason, tombstone.map(|record| Key::of(record).0));
        self.count_groups();
    }

    fn loaded(&self, soft: &mut GroupSoft, now: Now) {
        self.load_classic_groups(soft, now);
        for (group_id, group) in &self.groups {
            let Some(group) = group.streams().filter(|group| !group.members.is_empty()) else { continue };
            if planted::is_in(Bug::SessionsWithoutEnd) {
                continue;
            }
            let settings = Settings::new(&self.config, soft.overrides.get(group_id));
            let session_timeout_ms = settings.session_timeout_ms();
            let soft_group = soft.groups.entry(group_id.clone()).or_default();
            for (member_id, member) in group.members.iter() {
                let soft_member = soft_group.members.get_or_insert_with(
                    self.config.hash_seed,
                    member_id.clone(),
                    SoftMember::default,
                );
                let session = || Timer::Session(group_id.clone(), member_id.clone());
                soft_member.session.extend(&mut soft.timers, now.mono, session_timeout_ms, session);
                if member.progress.state == MemberState::UnrevokedTasks {
                    let timeout_ms = member.metadata.rebalance_timeout_ms;
                    let timer = Timer::Rebalance(group_id.clone(), member_id.clone());
                    soft_member.arm_rebalance(&mut soft.timers, now.mono, timeout_ms, member.progress.epoch, timer);
                }
            }
        }
        let interval_ms = self.config.offsets_retention_check_interval_ms.max(1);
        soft.sweep.next = Some(now.mono.plus_ms(interval_ms));
        self.begin_lives(soft, now.mono);
        soft.count_members(&self.config.limits);
    }

    fn next_deadline(&self, soft: &GroupSoft) -> Option<MonoMillis> {
        soft.timers.next().into_iter().chain(soft.upkeep.next()).chain(soft.sweep.next).min()
    }

    fn on_deadline(&self, soft: &mut GroupSoft, now: Now) -> Decision<Self> {
        self.catch_up_lives(soft);
        let decision = match soft.timers.pop_due(now.mono) {
            Some(Timer::Session(group_id, member_id)) => self.on_session_timer(soft, now, group_id, member_id),
            Some(Timer::Rebalance(group_id, member_id)) => self.on_rebalance_timer(soft, now, &group_id, &member_id),
            Some(Timer::ClassicJoin(group_id)) => self.on_classic_join_timer(soft, now, &group_id),
            Some(Timer::ClassicSession(group_id, member_id)) => {
                self.on_classic_session_timer(soft, now, &group_id, &member_id)
            }
            Some(Timer::ClassicSync(group_id)) => self.on_classic_sync_timer(soft, now, &group_id),
            Some(Timer::InitialDelay(group_id)) => self.on_initial_delay(soft, now, &group_id),
            Some(Timer::Ghosts(group_id, process)) => self.on_ghosts_timer(soft, now, &group_id, &process),
            Some(Timer::Refresh(group_id)) => self.on_refresh_timer(soft, now, &group_id),
            None if soft.upkeep.is_due(now.mono) => self.on_upkeep(soft, now),
            None if soft.sweep.next.is_some_and(|next| next <= now.mono) => self.sweep(soft, now),
            None => Decision::nothing(),
        };
        soft.go_on_with_patterns(now.mono);
        Self::unsettle(soft, &decision);
        soft.count_members(&self.config.limits);
        soft.lives.note(&decision.records, now.mono);
        decision
    }
}

impl Key {
    /// A record's key, and whether it is a tombstone.
    fn of(record: &Record) -> (Self, bool) {
        match record {
            Record::OffsetCommit(_, topic, partition, value) => {
                (Self::Offset(topic.clone(), *partition), value.is_none())
            }
            Record::ClassicGroupMetadata(_, value) => (Self::Classic, value.is_none()),
            Record::StreamsGroupMetadata(_, value) => (Self::Metadata, value.is_none()),
            Record::StreamsMemberMetadata(_, member, value) => (Self::MemberMetadata(member.clone()), value.is_none()),
            Record::StreamsTargetMetadata(_, value) => (Self::TargetMetadata, value.is_none()),
            Record::StreamsTargetMember(_, member, value) => (Self::TargetMember(member.clone()), value.is_none()),
            Record::StreamsCurrentAssignment(_, member, value) => {
                (Self::CurrentAssignment(member.clone()), value.is_none())
            }
            Record::StreamsTopology(_, value) => (Self::Topology, value.is_none()),
            Record::StreamsTopologyDescription(_, value) => (Self::TopologyDescription, value.is_none()),
        }
    }

    fn tombstone(&self, group_id: &GroupId) -> Record {
        let group_id = group_id.clone();
        match self {
            Self::Offset(topic, partition) => Record::OffsetCommit(group_id, topic.clone(), *partition, None),
            Self::Classic => Record::ClassicGroupMetadata(group_id, None),
            Self::CurrentAssignment(member) => Record::StreamsCurrentAssignment(group_id, member.clone(), None),
            Self::TargetMember(member) => Record::StreamsTargetMember(group_id, member.clone(), None),
            Self::TargetMetadata => Record::StreamsTargetMetadata(group_id, None),
            Self::MemberMetadata(member) => Record::StreamsMemberMetadata(group_id, member.clone(), None),
            Self::Metadata => Record::StreamsGroupMetadata(group_id, None),
            Self::Topology => Record::StreamsTopology(group_id, None),
            Self::TopologyDescription => Record::StreamsTopologyDescription(group_id, None),
        }
    }
}
