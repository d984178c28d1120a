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
    machine::GroupMachine,
    record::{AssignmentConfigs, Record, StreamsGroupMetadataValue},
    reply::StreamsHeartbeatError,
    soft::{GroupSoft, SoftGroup, TopicCaches},
    streams::{
        Topology,
        configured::ConfiguredTopology,
        group::StreamsGroup,
        resolve,
        target::{self, TargetInput},
    },
    tasks::SubtopologyIds,
};

/// A topology that is to be made concrete.
#[derive(Clone, Copy)]
pub(super) struct ToConfigure<'a> {
    pub(super) group_id: &'a GroupId,
    pub(super) topology: &'a Topology,
    pub(super) ids: &'a SubtopologyIds,
    pub(super) topics: &'a TopicsView,
}

/// The topology made concrete with the topics that there are: what `soft_group` or another group with this topology has
/// kept of it, unless topics changed since.
pub(super) fn configure(
    machine: &GroupMachine,
    soft_groups: &BTreeMap<GroupId, Box<SoftGroup>>,
    soft_group: Option<&SoftGroup>,
    caches: &mut TopicCaches,
    wanted: ToConfigure<'_>,
) -> Result<Arc<ConfiguredTopology>, StreamsHeartbeatError> {
    // The ids of a topology that went away go when the last task of it does.
    let kept = |soft_group: &SoftGroup| soft_group.configured_now().filter(|kept| kept.ids == *wanted.ids).cloned();
    let of_alike = || {
        let mut alike = machine.groups_alike(wanted.topology).filter(|(_, _, other)| other.ids == *wanted.ids);
        alike.find_map(|(group_id, _, _)| kept(soft_groups.get(group_id)?))
    };
    // What patterns stand for depends on whose they are.
    let has_patterns = wanted.topology.patterns().next().is_some();
    let configured = match soft_group.and_then(kept).or_else(|| if has_patterns { None } else { of_alike() }) {
        Some(configured) => configured,
        None => Arc::new(configure_anew(machine, caches, wanted)?),
    };
    debug_assert!(
        planted::is_in(Bug::NewTopicUnnoticed)
            || configure_anew(machine, &mut TopicCaches::default(), wanted).as_ref() == Ok(configured.as_ref()),
        "kept topology of a group: {configured:?}"
    );
    Ok(configured)
}

fn configure_anew(
    machine: &GroupMachine,
    caches: &mut TopicCaches,
    wanted: ToConfigure<'_>,
) -> Result<ConfiguredTopology, StreamsHeartbeatError> {
    let ToConfigure { group_id, topology, ids, topics } = wanted;
    let resolved = resolve::resolve(&machine.patterns, &mut caches.matches, topics, group_id, topology)?;
    let hash = caches.hashes.group_hash(&resolved.topology, topics);
    ConfiguredTopology::new(&resolved, ids, topics, hash)
}

/// The group's record with what follows from its topology and settings, if that or anything else changed.
pub(super) fn next_metadata(
    group: &StreamsGroup,
    topology: &Topology,
    configured: &ConfiguredTopology,
    configs: &AssignmentConfigs,
    is_changed: bool,
) -> Option<StreamsGroupMetadataValue> {
    let validated = if configured.is_ready() { topology.epoch } else { TopologyEpoch::NONE };
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

    /// The refresh timer came up.
    pub(crate) fn on_refresh_timer(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId) -> Decision<Self> {
        if let Some(soft_group) = soft.groups.get_mut(group_id) {
            soft_group.take_refresh();
        }
        self.refresh(soft, now, group_id)
    }

    /// Does for the group what a heartbeat does besides the member's own step. A failure is left to the next heartbeat,
    /// which meets it again and can tell somebody.
    fn refresh(&self, soft: &mut GroupSoft, now: Now, group_id: &GroupId) -> Decision<Self> {
        let mut decision = Decision::nothing();
        let group = self.groups.get(group_id).and_then(|group| group.streams());
        let Some(group) = group.filter(|group| !group.members.is_empty()) else { return decision };
        let (Some(topology), Some(topics)) = (&group.topology, &soft.topics) else { return decision };
        let Some(soft_group) = soft.groups.get(group_id) else { return decision };
        let settings = Settings::new(&self.config, soft.overrides.get(group_id));
        let (configured, configs) = if self.config.fast_rebalance {
            let wanted = ToConfigure { group_id, topology, ids: &group.ids, topics };
            let configured = configure(self, &soft.groups, Some(soft_group), &mut soft.caches, wanted);
            let Ok(configured) = configured else { return decision };
            (configured, self.shared_configs(settings.assignment_configs()))
        } else {
            // Kafka's timer takes both as the last heartbeat left them.
            let configured = soft_group.configured().filter(|configured| configured.ids == group.ids);
            let Some(configured) = configured.cloned() else { return decision };
            (configured, group.last_assignment_configs.clone())
        };
        let Some(soft_group) = soft.groups.get_mut(group_id) else { return decision };
        let metadata = match self.config.fast_rebalance {
            true => next_metadata(group, topology, &configured, &configs, false),
            false => None,
        };
        let epoch = metadata.as_ref().map_or(group.epoch, |metadata| metadata.epoch);
        let mut records = Vec::new();
        records.extend(metadata.map(|value| Record::StreamsGroupMetadata(group_id.clone(), Some(value))));
        if epoch.0 > group.assignment_epoch.0 && soft_group.initial_delay().is_none() {
            if let Some(wait_ms) = wait_ms(group, &settings, now) {
                soft_group.arm_refresh(&mut soft.timers, now.mono.plus_ms(wait_ms), group_id);
            } else {
                let input = TargetInput {
                    group,
                    pending: None,
                    soft_members: Some(&soft_group.members),
                    ids: &group.ids,
                    configured: &configured,
                    assignor_name: settings.assignor_name(),
                    configs: &configs,
                    telemetry: &self.config.telemetry,
                };
                let Ok(targets) = target::compute(&input) else { return decision };
                target::records(&input, group_id, &targets, epoch, now.wall, &mut records);
            }
        }
        if self.config.fast_rebalance {
            soft_group.keep_assignment_configs(configs);
            decision.effects.extend(soft.creations.request(now.mono, group_id, &configured.missing));
            soft.caches.matches.count(group_id, configured.matched);
            soft_group.keep_configured(configured);
        }
        decision.records = records;
        decision
    }
}
