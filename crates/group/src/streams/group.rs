//! A streams group's hard state and how records change it.
//!
//! **Invariant:** everything here follows from the records applied, in whatever order compaction leaves them: the
//! derived parts (who holds a task, who has not arrived, static members) are functions of the rest, and compared with a
//! full recomputation in debug builds.

use alloc::{boxed::Box, collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};
use core::slice;

use riparian_types::{
    AssignmentEpoch, GroupEpoch, GroupId, InstanceId, MemberEpoch, MemberId, ProcessId, SmallMap, TopologyEpoch,
    WallMillis,
    machine::Inconsistent,
    planted::{self, Bug},
};

use crate::{
    group::inconsistent,
    record::{
        AssignmentConfigs, MemberState, Record, StreamsCurrentAssignmentValue, StreamsGroupMetadataValue,
        StreamsMemberMetadataValue, StreamsTargetMetadataValue, TopologyDescriptionValue,
    },
    reply::GroupState,
    streams::{TaskLists, Topology, description::Description},
    tasks::{Holdings, Role, SubtopologyIds, Task, Tasks},
};

/// How many members are asked for texts that a new one could share: looking at all would cost more than it saves.
const SHARING_MEMBERS_MAX: usize = 8;

/// One streams group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamsGroup {
    pub(crate) epoch: GroupEpoch,
    pub(crate) assignment_epoch: AssignmentEpoch,
    pub(crate) assignment_timestamp: WallMillis,
    pub(crate) metadata_hash: i64,
    pub(crate) validated_topology_epoch: TopologyEpoch,
    pub(crate) last_assignment_configs: AssignmentConfigs,
    pub(crate) topology: Option<Arc<Topology>>,
    /// What members told of its nodes; `None` stands for [`Description::NONE`].
    description: Option<Box<Description>>,
    /// What the numbers of tasks refer to: the topology's subtopologies (and what else records name, which only happens
    /// in the middle of a replay).
    pub(crate) ids: SubtopologyIds,
    pub(crate) members: SmallMap<MemberId, Member>,
    pub(crate) static_members: BTreeMap<InstanceId, MemberId>,
    /// The target assignment of each member that has one.
    pub(crate) targets: SmallMap<MemberId, Tasks>,
    /// Derived: who holds a task, assigned or not yet given back.
    holders: SmallMap<(Task, Role), Holders>,
    /// Derived: how many members have not arrived at the assignment epoch.
    unreconciled_count: usize,
}

/// One member of a streams group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) metadata: Arc<StreamsMemberMetadataValue>,
    pub(crate) progress: Progress,
}

/// Where a member is on its way from its tasks to its target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) epoch: MemberEpoch,
    pub(crate) previous_epoch: MemberEpoch,
    pub(crate) state: MemberState,
    pub(crate) assigned: Holdings,
    /// What it is to give back: [`Holdings::if_any`], for mostly there is nothing.
    pub(crate) pending_revocation: Option<Box<Holdings>>,
}

static NO_HOLDINGS: Holdings = Holdings::EMPTY;

impl Progress {
    /// What the member is to give back.
    pub(crate) fn pending_revocation(&self) -> &Holdings {
        self.pending_revocation.as_deref().unwrap_or(&NO_HOLDINGS)
    }

    /// Whether the member has arrived at this assignment epoch.
    pub(crate) fn is_reconciled_to(&self, epoch: AssignmentEpoch) -> bool {
        self.state == MemberState::Stable && self.epoch.0 == epoch.0
    }

    /// What a tombstone of the current assignment leaves.
    fn left() -> Self {
        Self { epoch: MemberEpoch::LEAVE, previous_epoch: MemberEpoch::LEAVE, ..Self::default() }
    }

    fn tasks(&self) -> impl Iterator<Item = (Role, Task)> + '_ {
        self.assigned.iter().chain(self.pending_revocation().iter())
    }

    /// As a record.
    pub(crate) fn to_value(&self, ids: &SubtopologyIds) -> StreamsCurrentAssignmentValue {
        let (assigned, pending) = (&self.assigned, self.pending_revocation());
        StreamsCurrentAssignmentValue {
            member_epoch: self.epoch,
            previous_member_epoch: self.previous_epoch,
            state: self.state,
            active: ids.to_active_task_ids(&assigned.active),
            standby: ids.to_task_ids(assigned.standby.iter()),
            warmup: ids.to_task_ids(assigned.warmup.iter()),
            active_pending_revocation: ids.to_active_task_ids(&pending.active),
            standby_pending_revocation: ids.to_task_ids(pending.standby.iter()),
            warmup_pending_revocation: ids.to_task_ids(pending.warmup.iter()),
        }
    }

    fn from_value(value: &StreamsCurrentAssignmentValue, ids: &SubtopologyIds) -> Option<Self> {
        let epoch = value.member_epoch;
        let pending = Holdings {
            active: ids.to_active(&value.active_pending_revocation, epoch)?,
            standby: ids.to_set(&value.standby_pending_revocation)?,
            warmup: ids.to_set(&value.warmup_pending_revocation)?,
        };
        Some(Self {
            epoch,
            previous_epoch: value.previous_member_epoch,
            state: value.state,
            assigned: Holdings {
                active: ids.to_active(&value.active, epoch)?,
                standby: ids.to_set(&value.standby)?,
                warmup: ids.to_set(&value.warmup)?,
            },
            pending_revocation: pending.if_any(),
        })
    }
}

/// Who holds a task in one role, ascending. Mostly it is one member.
#[derive(Clone, Debug)]
enum Holders {
    One(MemberId),
    Several(Box<[MemberId]>),
}

impl Holders {
    fn as_slice(&self) -> &[MemberId] {
        match self {
            Self::One(member) => slice::from_ref(member),
            Self::Several(members) => members,
        }
    }

    fn add(&mut self, member: &MemberId) {
        if let Err(index) = self.as_slice().binary_search(member) {
            let mut members = self.as_slice().to_vec();
            members.insert(index, member.clone());
            *self = Self::Several(members.into());
        }
    }

    /// Returns whether nobody is left.
    fn remove(&mut self, member: &MemberId) -> bool {
        let others: Box<[MemberId]> = self.as_slice().iter().filter(|holder| *holder != member).cloned().collect();
        *self = match &*others {
            [last] => Self::One(last.clone()),
            _ => Self::Several(others),
        };
        self.as_slice().is_empty()
    }
}

impl PartialEq for Holders {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Holders {}

impl StreamsGroup {
    /// The epoch that a group and its empty target start with, so that the first join makes group epoch 2.
    pub(crate) const FIRST_EPOCH: i32 = 1;
    /// What a tombstone of the target leaves.
    const NO_ASSIGNMENT_EPOCH: AssignmentEpoch = AssignmentEpoch(-1);

    /// A group without anything.
    pub(crate) fn new() -> Self {
        Self {
            epoch: GroupEpoch(Self::FIRST_EPOCH),
            assignment_epoch: AssignmentEpoch(Self::FIRST_EPOCH),
            assignment_timestamp: WallMillis(0),
            metadata_hash: 0,
            validated_topology_epoch: TopologyEpoch::NONE,
            last_assignment_configs: AssignmentConfigs::default(),
            topology: None,
            description: None,
            ids: SubtopologyIds::default(),
            members: SmallMap::new(),
            static_members: BTreeMap::new(),
            targets: SmallMap::new(),
            holders: SmallMap::new(),
            unreconciled_count: 0,
        }
    }

    /// The group's state; costs the same for every group.
    pub(crate) fn state(&self) -> GroupState {
        debug_assert_eq!(self.unreconciled_count, self.count_unreconciled(), "kept count of members on their way");
        let validated = |topology: &Topology| topology.epoch == self.validated_topology_epoch;
        if self.members.is_empty() {
            GroupState::Empty
        } else if !self.topology.as_deref().is_some_and(validated) {
            GroupState::NotReady
        } else if self.epoch.0 > self.assignment_epoch.0 {
            GroupState::Assigning
        } else if self.unreconciled_count > 0 {
            GroupState::Reconciling
        } else {
            GroupState::Stable
        }
    }

    /// Whether tasks are on their way; costs the same for every group.
    pub(crate) fn is_moving(&self) -> bool {
        self.epoch.0 > self.assignment_epoch.0 || self.unreconciled_count > 0
    }

    /// Whether all but the member that is stored like this have arrived at this epoch, the group's or the next; costs the
    /// same for every group.
    pub(super) fn have_others_arrived(&self, stored: Option<&Member>, epoch: AssignmentEpoch) -> bool {
        if epoch != self.assignment_epoch {
            return self.members.len() == usize::from(stored.is_some());
        }
        let is_on_its_way = |member: &Member| !member.progress.is_reconciled_to(epoch);
        self.epoch.0 <= epoch.0 && self.unreconciled_count == usize::from(stored.is_some_and(is_on_its_way))
    }

    /// Whether the task is held in this role by a member for which `matches` holds (id, process).
    pub(crate) fn is_held(&self, task: Task, role: Role, matches: impl Fn(&MemberId, &ProcessId) -> bool) -> bool {
        self.holders
            .get(&(task, role))
            .into_iter()
            .flat_map(Holders::as_slice)
            .any(|holder| self.members.get(holder).is_some_and(|member| matches(holder, &member.metadata.process_id)))
    }

    /// The group record that follows from a change of its epoch.
    pub(crate) fn metadata_at(&self, epoch: GroupEpoch) -> StreamsGroupMetadataValue {
        let description = self.description().unwrap_or(&Description::NONE);
        StreamsGroupMetadataValue {
            epoch,
            metadata_hash: self.metadata_hash,
            validated_topology_epoch: self.validated_topology_epoch,
            last_assignment_configs: Some(Arc::clone(&self.last_assignment_configs)),
            stored_description_topology_epoch: description.stored_epoch,
            failed_description_topology_epoch: description.failed_epoch,
        }
    }

    /// Removes a member: its tombstones, the next group epoch, and the end of the target if nobody is left.
    pub(crate) fn fence(&self, group: &GroupId, member: &MemberId, records: &mut Vec<Record>) {
        self.member_tombstones(group, member, records);
        let step = if planted::is_in(Bug::GroupEpochBack) { -1 } else { 1 };
        let epoch = GroupEpoch(self.epoch.0.saturating_add(step));
        records.push(Record::StreamsGroupMetadata(group.clone(), Some(self.metadata_at(epoch))));
        if self.members.len() == 1 {
            let value = StreamsTargetMetadataValue {
                assignment_epoch: AssignmentEpoch(epoch.0),
                assignment_timestamp: WallMillis(0),
            };
            records.push(Record::StreamsTargetMetadata(group.clone(), Some(value)));
        }
    }

    /// Forgets what is stored under a member's id.
    pub(crate) fn member_tombstones(&self, group: &GroupId, member: &MemberId, records: &mut Vec<Record>) {
        records.extend([
            Record::StreamsCurrentAssignment(group.clone(), member.clone(), None),
            Record::StreamsTargetMember(group.clone(), member.clone(), None),
            Record::StreamsMemberMetadata(group.clone(), member.clone(), None),
        ]);
    }

    /// Forgets the group.
    pub(crate) fn tombstones(&self, group: &GroupId, records: &mut Vec<Record>) {
        let members = || self.members.keys().cloned();
        records.extend(members().map(|member| Record::StreamsCurrentAssignment(group.clone(), member, None)));
        let targets = self.targets.keys().cloned();
        records.extend(targets.map(|member| Record::StreamsTargetMember(group.clone(), member, None)));
        records.push(Record::StreamsTargetMetadata(group.clone(), None));
        records.extend(members().map(|member| Record::StreamsMemberMetadata(group.clone(), member, None)));
        if self.description().is_some_and(|description| description.value.is_some()) {
            records.push(Record::StreamsTopologyDescription(group.clone(), None));
        }
        records.push(Record::StreamsGroupMetadata(group.clone(), None));
        records.push(Record::StreamsTopology(group.clone(), None));
    }

    // How records change the group.

    /// `configs` are the value's, shared with other groups.
    pub(crate) fn apply_metadata(&mut self, value: &StreamsGroupMetadataValue, configs: AssignmentConfigs) {
        self.epoch = value.epoch;
        self.metadata_hash = value.metadata_hash;
        self.validated_topology_epoch = value.validated_topology_epoch;
        self.last_assignment_configs = configs;
        self.change_description(|description| {
            description.stored_epoch = value.stored_description_topology_epoch;
            description.failed_epoch = value.failed_description_topology_epoch;
        });
    }

    /// What is known of descriptions of the topology.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.description.as_deref()
    }

    pub(crate) fn apply_description(&mut self, value: Option<TopologyDescriptionValue>) {
        self.change_description(|description| description.value = value);
    }

    /// Nothing is known of the topology.
    pub(super) fn forget_description(&mut self) {
        self.description = None;
    }

    fn change_description(&mut self, change: impl FnOnce(&mut Description)) {
        let mut description = self.description.take().map_or(Description::NONE, |description| *description);
        change(&mut description);
        self.description = (description != Description::NONE).then(|| Box::new(description));
    }

    /// Whether the group's own tombstone may be applied.
    pub(crate) fn check_deletable(&self) -> Result<(), Inconsistent> {
        if !self.members.is_empty() {
            return Err(inconsistent(format!("the group is deleted, but has {} members", self.members.len())));
        }
        if self.assignment_epoch != Self::NO_ASSIGNMENT_EPOCH {
            return Err(inconsistent(String::from("the group is deleted before its target assignment")));
        }
        Ok(())
    }

    pub(crate) fn apply_member_metadata(
        &mut self,
        member: &MemberId,
        value: Option<&StreamsMemberMetadataValue>,
    ) -> Result<(), Inconsistent> {
        match value {
            Some(value) => {
                let metadata = Arc::new(self.sharing(value));
                let before = self.change_member(member, |member| core::mem::replace(&mut member.metadata, metadata));
                self.forget_instance(member, before.instance_id.as_ref());
                if let Some(instance) = &value.instance_id {
                    self.static_members.insert(instance.clone(), member.clone());
                }
            }
            None => {
                let Some(existing) = self.members.get(member) else { return Ok(()) };
                if existing.progress.epoch != MemberEpoch::LEAVE {
                    return Err(inconsistent(format!("member {member} is deleted before its current assignment")));
                }
                if self.targets.contains_key(member) {
                    return Err(inconsistent(format!("member {member} is deleted before its target assignment")));
                }
                let instance = existing.metadata.instance_id.clone();
                // An assignment epoch from a damaged record may be the one that this member never left.
                self.unreconciled_count -= usize::from(!existing.progress.is_reconciled_to(self.assignment_epoch));
                self.members.remove(member);
                self.forget_instance(member, instance.as_ref());
            }
        }
        Ok(())
    }

    pub(crate) fn apply_target_metadata(
        &mut self,
        value: Option<&StreamsTargetMetadataValue>,
    ) -> Result<(), Inconsistent> {
        match value {
            Some(value) => {
                self.assignment_epoch = value.assignment_epoch;
                self.assignment_timestamp = value.assignment_timestamp;
            }
            None if !self.targets.is_empty() => {
                let count = self.targets.len();
                return Err(inconsistent(format!("the target assignment is deleted, but {count} members have one")));
            }
            None => {
                self.assignment_epoch = Self::NO_ASSIGNMENT_EPOCH;
                self.assignment_timestamp = WallMillis(0);
            }
        }
        self.unreconciled_count = self.count_unreconciled();
        Ok(())
    }

    pub(crate) fn apply_target(&mut self, member: &MemberId, value: Option<&TaskLists>) -> Result<(), Inconsistent> {
        let Some(value) = value else {
            self.targets.remove(member);
            self.forget_unused_ids();
            return Ok(());
        };
        self.learn_ids(
            [&value.active, &value.standby, &value.warmup].into_iter().flatten().map(|list| &list.subtopology),
        );
        let to_set = |lists| self.ids.to_set(lists).ok_or_else(|| impossible_task(member));
        let target =
            Tasks { active: to_set(&value.active)?, standby: to_set(&value.standby)?, warmup: to_set(&value.warmup)? };
        let before = self.targets.insert(self.known_id(member), target);
        if before.is_some_and(|before| before.iter().next().is_some()) {
            self.forget_unused_ids();
        }
        Ok(())
    }

    pub(crate) fn apply_current_assignment(
        &mut self,
        member: &MemberId,
        value: Option<&StreamsCurrentAssignmentValue>,
    ) -> Result<(), Inconsistent> {
        let progress = match value {
            Some(value) => {
                let plain = [&value.standby, &value.warmup, &value.standby_pending_revocation]
                    .into_iter()
                    .chain([&value.warmup_pending_revocation])
                    .flatten()
                    .map(|list| &list.subtopology);
                let active = [&value.active, &value.active_pending_revocation];
                self.learn_ids(plain.chain(active.into_iter().flatten().map(|list| &list.subtopology)));
                Progress::from_value(value, &self.ids).ok_or_else(|| impossible_task(member))?
            }
            None if !self.members.contains_key(member) => return Ok(()),
            None => Progress::left(),
        };
        let tasks: Vec<(Role, Task)> = progress.tasks().collect();
        let before = self.change_member(member, |member| core::mem::replace(&mut member.progress, progress));
        for (role, task) in before.tasks() {
            if self.holders.get_mut(&(task, role)).is_some_and(|holders| holders.remove(member)) {
                self.holders.remove(&(task, role));
            }
        }
        let member = &self.known_id(member);
        for (role, task) in tasks {
            self.holders.get_or_insert_with((task, role), || Holders::One(member.clone())).add(member);
        }
        if value.is_none() || before.tasks().next().is_some() {
            self.forget_unused_ids();
        }
        Ok(())
    }

    /// `ids` are those of a group with the same topology, to be shared.
    pub(crate) fn apply_topology(&mut self, value: Option<Arc<Topology>>, ids: SubtopologyIds) {
        if let Some(topology) = &value {
            self.learn_ids(topology.subtopologies.iter().map(|subtopology| &subtopology.id));
        }
        self.topology = value;
        self.forget_unused_ids();
        if ids == self.ids {
            self.ids = ids;
        }
    }

    /// The id as the member has it, so that it is kept once.
    fn known_id(&self, member: &MemberId) -> MemberId {
        self.members.stored_key(member).unwrap_or(member).clone()
    }

    /// With texts that are kept once if one of the first members has the same.
    fn sharing(&self, value: &StreamsMemberMetadataValue) -> StreamsMemberMetadataValue {
        fn share<T: Clone + PartialEq>(own: &mut T, other: &T) {
            if own == other {
                own.clone_from(other);
            }
        }
        let mut value = value.clone();
        for other in self.members.values().take(SHARING_MEMBERS_MAX).map(|member| &member.metadata) {
            share(&mut value.client_id, &other.client_id);
            share(&mut value.client_host, &other.client_host);
            share(&mut value.process_id, &other.process_id);
            share(&mut value.rack_id, &other.rack_id);
        }
        value
    }

    /// Changes a member, made if need be, and keeps the count of those on their way.
    fn change_member<R>(&mut self, id: &MemberId, change: impl FnOnce(&mut Member) -> R) -> R {
        let epoch = self.assignment_epoch;
        let is_on_its_way = |member: &Member| usize::from(!member.progress.is_reconciled_to(epoch));
        let (member, before) = match self.members.get_mut(id) {
            Some(member) => {
                let before = is_on_its_way(member);
                (member, before)
            }
            None => (self.members.get_or_insert_with(id.clone(), Member::default), 0),
        };
        let result = change(member);
        self.unreconciled_count = self.unreconciled_count - before + is_on_its_way(member);
        result
    }

    fn count_unreconciled(&self) -> usize {
        self.members.values().filter(|member| !member.progress.is_reconciled_to(self.assignment_epoch)).count()
    }

    fn forget_instance(&mut self, member: &MemberId, instance: Option<&InstanceId>) {
        if let Some(instance) = instance
            && self.static_members.get(instance) == Some(member)
        {
            self.static_members.remove(instance);
        }
    }

    /// Makes sure that the numbers of tasks can refer to these subtopologies.
    fn learn_ids<'a>(&mut self, ids: impl Iterator<Item = &'a riparian_types::SubtopologyId>) {
        let unknown: Vec<_> = ids.filter(|id| self.ids.find(id).is_none()).cloned().collect();
        if !unknown.is_empty() {
            let all = self.ids.as_slice().iter().cloned().chain(unknown).collect();
            self.renumber(SubtopologyIds::new(all));
        }
    }

    /// Drops ids that neither the topology nor a task refers to; there are none except after a topology went away or was
    /// replaced.
    fn forget_unused_ids(&mut self) {
        let topology = self.topology.as_deref();
        // All ids of the topology are known.
        if topology.is_some_and(|topology| topology.subtopologies.len() == self.ids.as_slice().len()) {
            return;
        }
        let tasks = (self.holders.keys().map(|&(task, _)| task)).chain(self.targets.values().flat_map(Tasks::iter));
        let in_use = tasks.map(|task| self.ids.as_slice()[task.subtopology()].clone());
        let of_topology = topology.into_iter().flat_map(|topology| &topology.subtopologies);
        let kept = SubtopologyIds::new(in_use.chain(of_topology.map(|subtopology| subtopology.id.clone())).collect());
        if kept != self.ids {
            self.renumber(kept);
        }
    }

    fn renumber(&mut self, ids: SubtopologyIds) {
        let old = core::mem::replace(&mut self.ids, ids);
        // An id that goes away is not used by any task, so its entry is never read.
        let map: Vec<usize> = old.as_slice().iter().map(|id| self.ids.find(id).unwrap_or(0)).collect();
        for target in self.targets.values_mut() {
            target.renumber(&map);
        }
        for member in self.members.values_mut() {
            member.progress.assigned.renumber(&map);
            if let Some(pending) = &mut member.progress.pending_revocation {
                pending.renumber(&map);
            }
        }
        let holders = self.holders.iter();
        self.holders =
            holders.map(|(&(task, role), members)| ((task.renumbered(&map), role), members.clone())).collect();
    }
}

fn impossible_task(member: &MemberId) -> Inconsistent {
    inconsistent(format!("member {member} has a task with an impossible partition or too many subtopologies"))
}
