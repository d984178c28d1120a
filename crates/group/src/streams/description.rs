//! What people are shown of a topology: its nodes, as a member describes them (KIP-1331).
//!
//! A server that has no description of a group's topology asks one member at a time for it, in an answer to a heartbeat,
//! and again after a while if none comes. What comes is kept in the group's log as it came; nothing here looks inside.
//! Kafka leaves that to a plugin, which keeps it elsewhere, and marks in the group's record which topology was described;
//! the marks are kept here as well.

use alloc::{boxed::Box, collections::BTreeSet, format};

use riparian_types::{
    MonoMillis, SubtopologyId, TopologyEpoch,
    machine::{Answer, Decision, Waiter},
};

use crate::{
    command::TopologyDescription,
    machine::GroupMachine,
    record::{Record, StreamsGroupMetadataValue, TopologyDescriptionValue},
    reply::{Reply, TopologyDescriptionError},
    soft::GroupSoft,
    streams::{configured::some_of, group::StreamsGroup, validate},
    telemetry::GroupLimit,
};

/// How long it takes until another member is asked, the first time and at most, in seconds; Kafka's numbers.
const FIRST_PAUSE_S: u16 = 30;
const PAUSE_S_MAX: u16 = 3_600;

/// When a group was asked for a description that has not come. There may be many groups: it is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Of which topology.
    epoch: TopologyEpoch,
    /// When it is asked again, in seconds of the clock that never goes back.
    again_s: u32,
    pause_s: u16,
}

impl Default for Asked {
    fn default() -> Self {
        Self::NOBODY
    }
}

impl Asked {
    /// Nobody was, or nobody is to be.
    pub(super) const NOBODY: Self = Self { epoch: TopologyEpoch::NONE, again_s: u32::MAX, pause_s: 0 };

    /// Whether it is time to ask again.
    pub(super) fn is_due(self, now: MonoMillis) -> bool {
        seconds(now) >= self.again_s
    }
}

fn seconds(now: MonoMillis) -> u32 {
    u32::try_from(now.0 / 1000).unwrap_or(u32::MAX)
}

/// What is known of descriptions of a group's topology; mostly that is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// The marks in the group's record.
    pub(super) stored_epoch: TopologyEpoch,
    pub(super) failed_epoch: TopologyEpoch,
    /// The record of the description.
    pub(crate) value: Option<TopologyDescriptionValue>,
}

impl Description {
    pub(super) const NONE: Self =
        Self { stored_epoch: TopologyEpoch::NONE, failed_epoch: TopologyEpoch::NONE, value: None };
}

impl StreamsGroup {
    /// The description of the topology that the group has.
    pub(crate) fn described(&self) -> Option<&TopologyDescriptionValue> {
        let epoch = self.topology.as_ref()?.epoch;
        self.description()?.value.as_ref().filter(|description| description.topology_epoch == epoch)
    }

    /// Whether a description of this topology is missing, and may still come.
    fn lacks_description(&self, epoch: TopologyEpoch) -> bool {
        self.description().is_none_or(|kept| {
            kept.value.as_ref().is_none_or(|value| value.topology_epoch != epoch) && kept.failed_epoch != epoch
        })
    }
}

/// What is to be remembered of having asked, and whether this answer asks.
pub(super) fn ask(
    group: &StreamsGroup,
    epoch: TopologyEpoch,
    before: Asked,
    now: MonoMillis,
    may_be_asked: bool,
) -> (Asked, bool) {
    if !group.lacks_description(epoch) {
        return (Asked::NOBODY, false);
    }
    let before = if before.epoch == epoch { before } else { Asked::NOBODY };
    let was_asked = before.pause_s > 0;
    if !may_be_asked || was_asked && !before.is_due(now) {
        return (before, false);
    }
    let pause_s = if was_asked { (2 * before.pause_s).min(PAUSE_S_MAX) } else { FIRST_PAUSE_S };
    (Asked { epoch, again_s: seconds(now).saturating_add(pause_s.into()), pause_s }, true)
}

/// Refuses the description of another topology than the group's.
fn check_subtopologies(group: &StreamsGroup, described: &[SubtopologyId]) -> Result<(), TopologyDescriptionError> {
    let topology = group.topology.as_deref();
    let known: BTreeSet<&SubtopologyId> =
        topology.into_iter().flat_map(|topology| &topology.subtopologies).map(|it| &it.id).collect();
    let mut seen = BTreeSet::new();
    for id in described {
        if !known.contains(id) {
            let known = some_of(known.iter().map(|id| &***id).collect());
            return Err(TopologyDescriptionError::InvalidRequest(format!(
                "The description is of another topology: it tells of subtopology {id}, and the group's topology has {known}."
            )));
        }
        if !seen.insert(id) {
            return Err(TopologyDescriptionError::InvalidRequest(format!(
                "The description tells of subtopology {id} twice."
            )));
        }
    }
    Ok(())
}

impl GroupMachine {
    /// Keeps the description of the group's topology.
    pub(crate) fn describe_topology(
        &self,
        soft: &mut GroupSoft,
        waiter: Waiter,
        update: Box<TopologyDescription>,
    ) -> Decision<Self> {
        let scope = Some(update.group_id.clone());
        let mut decision = Decision::nothing();
        let result = self.check_description(&update).and_then(|group| {
            let metadata = group.metadata_at(group.epoch);
            let group_id = update.group_id.clone();
            let max = self.config.limits.description_bytes_max;
            let bytes = update.description.len();
            if bytes > max {
                self.config.telemetry.hit(GroupLimit::DescriptionBytes);
                let failed_description_topology_epoch = update.topology_epoch;
                let value = StreamsGroupMetadataValue { failed_description_topology_epoch, ..metadata };
                decision.records.push(Record::StreamsGroupMetadata(group_id, Some(value)));
                return Err(TopologyDescriptionError::Failed(format!(
                    "The description takes {bytes} bytes; at most {max} are kept (riparian.topology.description.bytes.max)."
                )));
            }
            check_subtopologies(group, &update.subtopologies)?;
            let limits = &self.config.limits;
            let (all, before) = (limits.description_bytes.get() as usize, self.described_bytes(&group_id));
            let all_max = limits.all_descriptions_bytes_max as usize;
            if all.saturating_sub(before).saturating_add(bytes) > all_max {
                self.config.telemetry.hit(GroupLimit::AllDescriptionsBytes);
                return Err(TopologyDescriptionError::Failed(format!(
                    "The description takes {bytes} bytes, those of other groups {}; together they may take {all_max} \
                     (riparian.topology.descriptions.bytes.max).",
                    all.saturating_sub(before)
                )));
            }
            let stored_description_topology_epoch = update.topology_epoch;
            let value = TopologyDescriptionValue {
                topology_epoch: update.topology_epoch,
                description: update.description.as_slice().into(),
            };
            decision.records.push(Record::StreamsTopologyDescription(group_id.clone(), Some(value)));
            let value = StreamsGroupMetadataValue { stored_description_topology_epoch, ..metadata };
            decision.records.push(Record::StreamsGroupMetadata(group_id, Some(value)));
            Ok(())
        });
        if result.is_ok()
            && let Some(soft_group) = soft.groups.get_mut(&update.group_id)
        {
            soft_group.asked = Asked::NOBODY;
        }
        decision.replies.push(Answer { waiter, scope, reply: Reply::TopologyDescription(result) });
        decision
    }

    fn check_description(&self, update: &TopologyDescription) -> Result<&StreamsGroup, TopologyDescriptionError> {
        use TopologyDescriptionError::{GroupIdNotFound, Internal, InvalidRequest, NotKept, UnknownMemberId};
        if !self.config.ask_descriptions {
            let text = "The server keeps no descriptions of topologies (riparian.topology.description).";
            return Err(NotKept(text.into()));
        }
        for (field, value) in [("MemberId", &*update.member_id), ("GroupId", &*update.group_id)] {
            if validate::is_blank(value) {
                return Err(InvalidRequest(format!("{field} can't be empty.")));
            }
        }
        if let Some(damage) = self.damage(&update.group_id) {
            return Err(Internal(damage));
        }
        let (group_id, member_id) = (&update.group_id, &update.member_id);
        let group = self.groups.get(group_id).and_then(|group| group.streams());
        let group = group.ok_or_else(|| GroupIdNotFound(format!("Group {group_id} is no streams group.")))?;
        if !group.members.contains_key(member_id) {
            return Err(UnknownMemberId(format!("Group {group_id} has no member {member_id}.")));
        }
        let current = group.topology.as_ref().map_or(TopologyEpoch::NONE, |topology| topology.epoch);
        if update.topology_epoch == current {
            return Ok(group);
        }
        let described = update.topology_epoch;
        Err(InvalidRequest(format!("The description is of topology epoch {described}, the group's is {current}.")))
    }
}
