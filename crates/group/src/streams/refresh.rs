//! What a group's members run, looked at without a heartbeat.
//!
//! Kafka notices that a target must change at the next heartbeat of any member. Here whatever is the reason has the group
//! looked at at once: a member that goes, topics or settings that change, a delay or an interval that ends. The work is
//! done by a timer that is due, so that many reasons at a time lead to one target.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use riparian_types::{
    GroupEpoch, GroupId, MonoMillis, Now, TopicsView, TopologyEpoch,
    machine::Decision,
    planted::{self, Bug},
};

use crate::{
    config::Settings,
    limits::NoRoom,
    machine::GroupMachine,
    record::{AssignmentConfigs, Record, StreamsGroupMetadataValue},
    reply::StreamsHeartbeatError,
    soft::{GroupSoft, SoftGroup, TopicCaches, place_of_assignor},
    streams::{
        Topology,
        configured::ConfiguredTopology,
        group::StreamsGroup,
        matches::{Matches, SLICE_COST},
        resolve,
        target::{self, TargetInput},
        warmup,
    },
    tasks::SubtopologyIds,
};

/// More topics than these are put in place of patterns by the group's upkeep alone, and no heartbeat waits for it.
pub(super) const MATCHED_AT_ONCE_MAX: usize = 1_000;

/// A topology that is to be made concrete.
#[derive(Clone, Copy)]
pub(super) struct ToConfigure<'a> {
    pub(super) group_id: &'a GroupId,
    pub(super) group: &'a StreamsGroup,
    pub(super) topology: &'a Topology,
    pub(super) ids: &'a SubtopologyIds,
    pub(super) topics: &'a TopicsView,
    pub(super) occasion: Occasion,
}

/// Who asks, and so what it may cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// A member joins and brings the group its topology: a slice of matching may be done at once.
    NewTopology,
    /// Likewise, but the group has the topology already.
    Join,
    Heartbeat,
    /// The group's turn has come.
    Upkeep,
}

/// A topology made concrete.
pub(super) struct Configured {
    pub(super) topology: Arc<ConfiguredTopology>,
    /// With the topics that there are; if not, with those of before, or with none, and upkeep is due.
    pub(super) is_current: bool,
}

/// The topology made concrete with the topics that there are: what `soft_group` or another group with this topology has
/// kept of it, unless topics changed since. Where patterns make that long, it is what is known so far.
pub(super) fn configure(
    machine: &GroupMachine,
    soft_groups: &BTreeMap<GroupId, Box<SoftGroup>>,
    soft_group: Option<&SoftGroup>,
    caches: &mut TopicCaches,
    wanted: ToConfigure<'_>,
) -> Result<Configured, StreamsHeartbeatError> {
    // The ids of a topology that went away go when the last task of it does.
    let kept = |soft_group: &SoftGroup| soft_group.configured_now().filter(|kept| kept.ids == *wanted.ids).cloned();
    let of_alike = || {
        let mut alike = machine.groups_alike(wanted.topology).filter(|(_, _, other)| other.ids == *wanted.ids);
        alike.find_map(|(group_id, _, _)| kept(soft_groups.get(group_id)?))
    };
    // What patterns stand for depends on whose they are.
    let has_patterns = wanted.topology.has_patterns();
    let topology = match soft_group.and_then(kept).or_else(|| if has_patterns { None } else { of_alike() }) {
        Some(configured) => configured,
        None => {
            if has_patterns {
                look_for_topics(machine, &mut caches.matches, wanted);
                let found = caches.matches.count_of(wanted.topology);
                let is_due = wanted.occasion == Occasion::Upkeep;
                if found.is_none_or(|found| found > MATCHED_AT_ONCE_MAX && !is_due) {
                    return not_yet(soft_group, wanted);
                }
            }
            Arc::new(configure_anew(caches, wanted)?)
        }
    };
    debug_assert!(
        planted::is_in(Bug::NewTopicUnnoticed)
            || planted::is_in(Bug::GoneTopicMatched)
            || planted::is_in(Bug::GrownTopicUnnoticed)
            || has_patterns && caches.matches.has_work()
            || configure_alone(machine, wanted).as_ref() == Ok(topology.as_ref()),
        "kept topology of a group: {topology:?}"
    );
    Ok(Configured { topology, is_current: true })
}

/// Has the topics looked for that the patterns stand for, if that has not begun.
fn look_for_topics(machine: &GroupMachine, matches: &mut Matches, wanted: ToConfigure<'_>) {
    let mut left = match wanted.occasion {
        Occasion::NewTopology | Occasion::Join => SLICE_COST,
        Occasion::Heartbeat | Occasion::Upkeep => 0,
    };
    for text in wanted.topology.patterns() {
        matches.begin(&machine.patterns, text);
        if left > 0 {
            matches.look(&machine.patterns, wanted.topics, text, &mut left);
        }
    }
}

/// What a group has while its topology is not configured with the topics that there are.
fn not_yet(soft_group: Option<&SoftGroup>, wanted: ToConfigure<'_>) -> Result<Configured, StreamsHeartbeatError> {
    let ToConfigure { group, ids, .. } = wanted;
    if let Some(failure) = soft_group.and_then(SoftGroup::failure).filter(|_| wanted.occasion != Occasion::NewTopology)
    {
        return Err(failure.clone());
    }
    let before = soft_group.and_then(SoftGroup::configured).filter(|before| before.ids == *ids).cloned();
    let topology = before.unwrap_or_else(|| {
        let (hash, validated) = match wanted.occasion {
            Occasion::NewTopology => (0, TopologyEpoch::NONE),
            Occasion::Join | Occasion::Heartbeat | Occasion::Upkeep => {
                (group.metadata_hash, group.validated_topology_epoch)
            }
        };
        Arc::new(ConfiguredTopology::pending(ids, hash, validated))
    });
    Ok(Configured { topology, is_current: false })
}

fn configure_anew(
    caches: &mut TopicCaches,
    wanted: ToConfigure<'_>,
) -> Result<ConfiguredTopology, StreamsHeartbeatError> {
    let ToConfigure { group_id, topology, ids, topics, .. } = wanted;
    let resolved =
        resolve::resolve(&caches.matches, group_id, topology)?.expect("what patterns match was asked before");
    let hash = caches.hashes.group_hash(&resolved.topology, topics);
    ConfiguredTopology::new(resolved, ids, topics, hash)
}

/// The same from nothing, however long it takes.
fn configure_alone(
    machine: &GroupMachine,
    wanted: ToConfigure<'_>,
) -> Result<ConfiguredTopology, StreamsHeartbeatError> {
    let (mut caches, mut left) = (TopicCaches::default(), u64::MAX);
    for text in wanted.topology.patterns() {
        caches.matches.begin(&machine.patterns, text);
        caches.matches.look(&machine.patterns, wanted.topics, text, &mut left);
    }
    configure_anew(&mut caches, wanted)
}

/// The group's record with what follows from its topology and settings, if that or anything else changed.
pub(super) fn next_metadata(
    group: &StreamsGroup,
    topology: &Topology,
    configured: &ConfiguredTopology,
    configs: &AssignmentConfigs,
    is_changed: bool,
) -> Option<StreamsGroupMetadataValue> {
    let validated = configured.validated(topology.epoch);
    let is_changed = is_changed
        || configured.metadata_hash != group.metadata_hash
        || validated != group.validated_topology_epoch
        || *configs != group.last_assignment_configs;
    is_changed.then(|| StreamsGroupMetadataValue {
        metadata_hash: configured.metadata_hash,
        validated_topology_epoch: validated,
        last_assignment_configs: Some(Arc::clone(configs)),
        ..group.metadata_at(GroupEpoch(group.epoch.0.saturating_add(1)))
    })
}

/// How long the last target keeps others from being computed (KIP-1263), in milliseconds; `None`: it does not.
pub(super) fn wait_ms(group: &StreamsGroup, settings: &Settings<'_>, now: Now) -> Option<i64> {
    let (last, interval_ms) = (group.assignment_timestamp.0, i64::from(settings.assignment_interval_ms()));
    // A wall clock that went back must not hold the group back.
    let may_assign = last == 0 || now.wall.0 < last;
    let left_ms = last.saturating_add(interval_ms).saturating_sub(now.wall.0);
    (!may_assign && left_ms > 0).then_some(left_ms)
}

impl GroupMachine {
    /// Has the group looked at at this time; now means: as soon as what is being decided is applied.
    pub(crate) fn refresh_soon(&self, soft: &mut GroupSoft, at: MonoMillis, group_id: &GroupId) {
        if self.config.fast_rebalance
            && let Some(soft_group) = soft.groups.get_mut(group_id)
        {
            soft_group.arm_refresh(&mut soft.timers, at, group_id);
        }
    }

    /// The initial rebalance delay is over: the target is computed for whoever has joined.
    pub(crate) fn on_initial_delay(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId) -> Decision<Self> {
        if let Some(soft_group) = soft.groups.get_mut(group_id) {
            soft_group.end_initial_delay();
        }
        self.refresh(soft, now, group_id)
    }

    /// The refresh timer came up: the group is looked at, or waits for its turn if that is long.
    pub(crate) fn on_refresh_timer(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId) -> Decision<Self> {
        if let Some(soft_group) = soft.groups.get_mut(group_id) {
            soft_group.take_refresh();
            if soft_group.configured_now().is_none() && self.is_long(soft, group_id) {
                soft.await_turn(now.mono, group_id);
                return Decision::nothing();
            }
        }
        self.refresh(soft, now, group_id)
    }

    fn is_long(&self, soft: &GroupSoft, group_id: &GroupId) -> bool {
        let topology = self.groups.get(group_id).and_then(|group| group.streams()?.topology.as_deref());
        let topology = topology.filter(|topology| topology.has_patterns());
        topology.and_then(|topology| soft.caches.matches.count_of(topology)).is_some_and(|it| it > MATCHED_AT_ONCE_MAX)
    }

    /// Does for the group what a heartbeat does besides the member's own step. A failure is left to the next heartbeat,
    /// which meets it again and can tell somebody.
    pub(super) fn refresh(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId) -> Decision<Self> {
        let mut decision = Decision::nothing();
        let group = self.groups.get(group_id).and_then(|group| group.streams());
        let Some(group) = group.filter(|group| !group.members.is_empty()) else { return decision };
        let (Some(topology), Some(topics)) = (&group.topology, &soft.topics) else { return decision };
        let Some(soft_group) = soft.groups.get(group_id) else { return decision };
        let settings = Settings::new(&self.config, soft.overrides.get(group_id));
        // To Kafka's habit belongs that heartbeats do this; but none is to wait for patterns.
        let configures = self.config.fast_rebalance || topology.has_patterns();
        let (configured, configs) = if configures {
            let occasion = Occasion::Upkeep;
            let wanted = ToConfigure { group_id, group, topology, ids: &group.ids, topics, occasion };
            let configured = configure(self, &soft.groups, Some(soft_group), &mut soft.caches, wanted);
            let is_first = soft_group.configured().is_none() && group.metadata_hash == 0;
            let configured = configured.and_then(|configured| {
                let before = soft.caches.matches.of_group(group_id);
                let matched = if is_first { configured.topology.matched() } else { 0 };
                let room = self.check_room_for_matches(matched, before);
                room.map_err(|NoRoom(text)| StreamsHeartbeatError::GroupMaxSizeReached(text))?;
                Ok(configured)
            });
            let configured = match configured {
                Ok(configured) if configured.is_current => configured.topology,
                Ok(_) => return decision,
                Err(error) => {
                    if let Some(soft_group) = soft.groups.get_mut(group_id) {
                        soft_group.keep_failure(error);
                    }
                    return decision;
                }
            };
            match self.config.fast_rebalance {
                true => (configured, self.shared_configs(settings.assignment_configs())),
                false => (configured, group.last_assignment_configs.clone()),
            }
        } else {
            // Kafka's timer takes both as the last heartbeat left them.
            let configured = soft_group.configured().filter(|configured| configured.ids == group.ids);
            let Some(configured) = configured.cloned() else { return decision };
            (configured, group.last_assignment_configs.clone())
        };
        let Some(soft_group) = soft.groups.get_mut(group_id) else { return decision };
        let metadata = match self.config.fast_rebalance {
            true => {
                let is_switched = soft_group.is_switched(group, settings.assignor_name());
                next_metadata(group, topology, &configured, &configs, is_switched)
            }
            false => None,
        };
        let epoch = metadata.as_ref().map_or(group.epoch, |metadata| metadata.epoch);
        let mut records = Vec::new();
        records.extend(metadata.map(|value| Record::StreamsGroupMetadata(group_id.clone(), Some(value))));
        let computes = self.config.fast_rebalance || !configures || configured.metadata_hash == group.metadata_hash;
        let input = TargetInput {
            group,
            pending: None,
            soft_members: Some(&soft_group.members),
            ids: &group.ids,
            configured: &configured,
            assignor_name: settings.assignor_name(),
            configs: &configs,
            warmups: settings.warmups(),
            topology,
            changelogs: &self.config.changelogs,
            telemetry: &self.config.telemetry,
        };
        let is_new = epoch.0 > group.assignment_epoch.0;
        let mut wait = None;
        let step = if !computes || is_new && soft_group.initial_delay().is_some() {
            None
        } else if is_new {
            wait = wait_ms(group, &settings, now);
            match wait {
                Some(_) => None,
                None => {
                    let Ok(plan) = target::compute(&input) else { return decision };
                    target::records(&input, group_id, &plan.targets, epoch, now.wall, &mut records);
                    Some(plan.step)
                }
            }
        } else {
            warmup::advance(&input, group_id, soft_group, &mut records)
        };
        if let Some(step) = step {
            if is_new {
                soft_group.keep_assignor(place_of_assignor(settings.assignor_name()));
            }
            soft_group.keep_step(&group.ids, step);
        }
        if let Some(wait_ms) = wait {
            soft_group.arm_refresh(&mut soft.timers, now.mono.plus_ms(wait_ms), group_id);
        }
        if self.config.fast_rebalance {
            soft_group.keep_assignment_configs(configs);
        }
        if configures {
            decision.effects.extend(soft.creations.request(now.mono, group_id, &configured.missing));
            soft.caches.matches.count(group_id, configured.matched());
            soft_group.keep_configured(configured);
        }
        decision.records = records;
        decision
    }
}
