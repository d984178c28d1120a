//! Committed offsets of one group: what is kept, and the commands commit, fetch and delete.
//!
//! Who may commit is decided by member epochs (KIP-1071) and, for members that lag behind, by the epoch at which they
//! were given the task (KIP-1251).

use alloc::{collections::BTreeMap, format, vec::Vec};

use riparian_types::{
    GroupId, LeaderEpoch, Now, PartitionIndex, TopicName, TopicsView, Uuid, WallMillis,
    machine::{Decision, Waiter},
    planted::{self, Bug},
};

use crate::{
    command::{OffsetCommit, OffsetDelete, OffsetFetch, OffsetToCommit},
    group::{Found, Group},
    limits::NoRoom,
    machine::GroupMachine,
    record::{CommittedOffsetValue, Record},
    reply::{
        CommittedOffset, FetchedOffset, OffsetCommitError, OffsetDeleteError, OffsetDeleteOutcome, OffsetFetchError,
        Reply,
    },
    soft::GroupSoft,
    streams::group::{Progress, StreamsGroup},
    tasks::Task,
};

/// The committed offsets of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offsets(BTreeMap<TopicName, BTreeMap<PartitionIndex, CommittedOffsetValue>>);

/// How long offsets are kept that nobody uses.
pub(crate) struct Retention {
    pub(crate) now: WallMillis,
    pub(crate) retention_ms: i64,
    /// Since when nobody does, if that is known; otherwise it counts from each commit.
    pub(crate) left_at: Option<WallMillis>,
}

impl Offsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains_topic(&self, topic: &str) -> bool {
        self.0.contains_key(topic)
    }

    pub(crate) fn find(&self, topic: &str, partition: PartitionIndex) -> Option<&CommittedOffsetValue> {
        self.0.get(topic)?.get(&partition)
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = (&TopicName, &BTreeMap<PartitionIndex, CommittedOffsetValue>)> {
        self.0.iter()
    }

    pub(crate) fn put(&mut self, topic: &TopicName, partition: PartitionIndex, value: CommittedOffsetValue) {
        self.0.entry(topic.clone()).or_default().insert(partition, value);
    }

    pub(crate) fn remove(&mut self, topic: &TopicName, partition: PartitionIndex) {
        if let Some(partitions) = self.0.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.0.remove(topic);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn tombstones(&self, group: &GroupId, records: &mut Vec<Record>) {
        for topic in self.0.keys() {
            self.topic_tombstones(group, topic, records);
        }
    }

    /// Forgets one topic.
    pub(crate) fn topic_tombstones(&self, group: &GroupId, topic: &TopicName, records: &mut Vec<Record>) {
        let partitions = self.0.get(topic).into_iter().flat_map(BTreeMap::keys);
        records
            .extend(partitions.map(|&partition| Record::OffsetCommit(group.clone(), topic.clone(), partition, None)));
    }

    /// Forgets what was committed for topics that don't exist any more, as far as their ids were stored.
    pub(crate) fn replaced_topic_tombstones(&self, group: &GroupId, view: &TopicsView, records: &mut Vec<Record>) {
        for (topic, partitions) in &self.0 {
            let existing = view.topic(topic).map(|topic| topic.id);
            let is_of_another =
                |value: &CommittedOffsetValue| !value.topic_id.is_zero() && existing != Some(value.topic_id);
            records.extend(
                (partitions.iter().filter(|(_, value)| is_of_another(value)))
                    .map(|(&partition, _)| Record::OffsetCommit(group.clone(), topic.clone(), partition, None)),
            );
        }
    }

    /// Forgets what is too old of the topics that are not in use; says whether anything is left.
    pub(crate) fn expire(
        &self,
        group: &GroupId,
        retention: &Retention,
        in_use: impl Fn(&TopicName) -> bool,
        records: &mut Vec<Record>,
    ) -> bool {
        let mut anything_left = false;
        for (topic, partitions) in &self.0 {
            let in_use = in_use(topic);
            for (&partition, value) in partitions {
                let expires = match value.expire_timestamp.0 {
                    ..=-1 => {
                        retention.left_at.unwrap_or(value.commit_timestamp).0.saturating_add(retention.retention_ms)
                    }
                    explicit => explicit,
                };
                if in_use || retention.now.0 < expires {
                    anything_left = true;
                } else {
                    records.push(Record::OffsetCommit(group.clone(), topic.clone(), partition, None));
                }
            }
        }
        anything_left
    }
}

impl GroupMachine {
    /// Stores offsets, all or none.
    pub(crate) fn commit_offsets(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        waiter: Waiter,
        commit: OffsetCommit,
    ) -> Decision<Self> {
        let scope = Some(commit.group_id.clone());
        if let Err(error) = self.check_commit(soft, now, &commit) {
            return Decision::reply(waiter, scope, Reply::OffsetCommit(Err(error)));
        }
        let mut decision = Decision::reply(waiter, scope, Reply::OffsetCommit(Ok(())));
        // The one form of the record that has an expiry has room for neither of the two; the requests of that time didn't
        // either.
        let has_expiry = commit.retention_ms.is_some();
        decision.records.extend(commit.offsets.into_iter().map(|offset| {
            let value = CommittedOffsetValue {
                offset: offset.offset,
                leader_epoch: if has_expiry { LeaderEpoch::NONE } else { offset.leader_epoch },
                metadata: offset.metadata,
                commit_timestamp: now.wall,
                expire_timestamp: commit.retention_ms.map_or(WallMillis(-1), |ms| {
                    // -1 stands for none.
                    WallMillis(now.wall.0.saturating_add(ms).max(0))
                }),
                topic_id: if has_expiry { Uuid::ZERO } else { offset.topic_id },
            };
            Record::OffsetCommit(commit.group_id.clone(), offset.topic, offset.partition, Some(value))
        }));
        decision
    }

    fn check_commit(&self, soft: &mut GroupSoft, now: Now, commit: &OffsetCommit) -> Result<(), OffsetCommitError> {
        if let Some(damage) = self.damage(&commit.group_id) {
            return Err(OffsetCommitError::Internal(damage));
        }
        let is_from_outside = commit.member_epoch.0 < 0;
        match self.find(soft, &commit.group_id) {
            Found::Nothing => match (is_from_outside, commit.knows_member_epochs) {
                (true, _) => {
                    self.check_room_for_group(&commit.group_id).map_err(|NoRoom(text)| OffsetCommitError::NoRoom(text))
                }
                (false, true) => Err(OffsetCommitError::GroupIdNotFound),
                (false, false) => Err(OffsetCommitError::IllegalGeneration),
            },
            Found::OffsetsOnly if is_from_outside => Ok(()),
            Found::OffsetsOnly => Err(OffsetCommitError::UnknownMemberId),
            Found::Classic(_) => self.check_classic_commit(soft, now, commit),
            Found::Streams(streams) if is_from_outside && streams.members.is_empty() => Ok(()),
            Found::Streams(_) if planted::is_in(Bug::StaleCommitTaken) => Ok(()),
            Found::Streams(streams) => self.check_member_commit(soft, streams, commit),
        }
    }

    /// Reads offsets; a group that does not exist has none.
    pub(crate) fn fetch_offsets(
        &self,
        fetch: &OffsetFetch,
    ) -> Result<Vec<(TopicName, Vec<FetchedOffset>)>, OffsetFetchError> {
        if let Some(damage) = self.damage(&fetch.group_id) {
            return Err(OffsetFetchError::Internal(damage));
        }
        let group = self.groups.get(&fetch.group_id);
        if let Some(streams) = group.and_then(Group::streams) {
            check_fetch(streams, fetch)?;
        }
        let fetched = |partition, value: Option<&CommittedOffsetValue>| FetchedOffset {
            partition,
            committed: value.map(|value| CommittedOffset {
                offset: value.offset,
                leader_epoch: value.leader_epoch,
                metadata: value.metadata.clone(),
            }),
        };
        let find = |topic: &TopicName, partition| group.and_then(|group| group.offsets.find(topic, partition));
        Ok(match &fetch.topics {
            Some(topics) => (topics.iter())
                .map(|(topic, partitions)| {
                    let of_partition = |&partition: &PartitionIndex| fetched(partition, find(topic, partition));
                    (topic.clone(), partitions.iter().map(of_partition).collect())
                })
                .collect(),
            None => (group.into_iter().flat_map(|group| group.offsets.topics()))
                .map(|(topic, partitions)| {
                    let offsets = partitions.iter().map(|(&partition, value)| fetched(partition, Some(value)));
                    (topic.clone(), offsets.collect())
                })
                .collect(),
        })
    }

    /// Forgets offsets of topics that the group does not read at present.
    pub(crate) fn delete_offsets(&self, soft: &GroupSoft, waiter: Waiter, delete: OffsetDelete) -> Decision<Self> {
        let group_id = delete.group_id;
        let refused = |error| Decision::reply(waiter, Some(group_id.clone()), Reply::OffsetDelete(Err(error)));
        if let Some(damage) = self.damage(&group_id) {
            return refused(OffsetDeleteError::GroupNotFound(damage));
        }
        let found = self.find(soft, &group_id);
        match found {
            Found::Nothing => return refused(OffsetDeleteError::GroupNotFound(format!("Group {group_id} not found."))),
            Found::Classic(classic) if !classic.is_empty() && !classic.is_of_consumers() => {
                return refused(OffsetDeleteError::NonEmptyGroup);
            }
            Found::OffsetsOnly | Found::Classic(_) | Found::Streams(_) => {}
        }
        let offsets = self.groups.get(&group_id).map(|group| &group.offsets);
        let mut records = Vec::new();
        let outcomes = delete.topics.into_iter().map(|(topic, partitions)| {
            let in_use = match found {
                Found::Nothing | Found::OffsetsOnly => false,
                Found::Classic(classic) => classic.reads_topic(&topic),
                Found::Streams(streams) => {
                    !streams.members.is_empty() && self.reader_of(soft, &group_id, streams, &topic).is_some()
                }
            };
            let mut delete = |partition| {
                if in_use {
                    return (partition, OffsetDeleteOutcome::SubscribedToTopic);
                }
                if offsets.is_some_and(|offsets| offsets.find(&topic, partition).is_some()) {
                    records.push(Record::OffsetCommit(group_id.clone(), topic.clone(), partition, None));
                }
                (partition, OffsetDeleteOutcome::Deleted)
            };
            let outcomes = partitions.into_iter().map(&mut delete).collect();
            (topic.clone(), outcomes)
        });
        let outcomes = outcomes.collect();
        Decision { records, ..Decision::reply(waiter, Some(group_id), Reply::OffsetDelete(Ok(outcomes))) }
    }

    fn check_member_commit(
        &self,
        soft: &GroupSoft,
        group: &StreamsGroup,
        commit: &OffsetCommit,
    ) -> Result<(), OffsetCommitError> {
        let member = group.members.get(&commit.member_id).ok_or(OffsetCommitError::UnknownMemberId)?;
        if !commit.knows_member_epochs {
            return Err(OffsetCommitError::UnsupportedVersion);
        }
        let progress = &member.progress;
        if commit.member_epoch == progress.epoch {
            return Ok(());
        }
        if commit.member_epoch > progress.epoch
            || !commit.offsets.iter().all(|offset| self.had_task(soft, group, progress, commit, offset))
        {
            return Err(OffsetCommitError::StaleMemberEpoch);
        }
        Ok(())
    }

    /// Whether the member has held the task of this partition since the epoch that it commits with.
    fn had_task(
        &self,
        soft: &GroupSoft,
        group: &StreamsGroup,
        progress: &Progress,
        commit: &OffsetCommit,
        offset: &OffsetToCommit,
    ) -> bool {
        let Some(subtopology) = self.reader_of(soft, &commit.group_id, group, &offset.topic) else { return false };
        let task = group.ids.find(&subtopology.id).and_then(|index| Task::new(index, offset.partition));
        let held = [&progress.assigned, progress.pending_revocation()];
        let since = task.and_then(|task| held.into_iter().find_map(|tasks| tasks.active.epoch_of(task)));
        since.is_some_and(|epoch| commit.member_epoch.0 >= epoch.0)
    }
}

/// Unlike a commit, a fetch is only served at the member's very epoch.
fn check_fetch(group: &StreamsGroup, fetch: &OffsetFetch) -> Result<(), OffsetFetchError> {
    let Some(member_id) = &fetch.member_id else {
        return if fetch.member_epoch.0 < 0 { Ok(()) } else { Err(OffsetFetchError::UnknownMemberId) };
    };
    let member = group.members.get(member_id).ok_or(OffsetFetchError::UnknownMemberId)?;
    if member.progress.epoch == fetch.member_epoch { Ok(()) } else { Err(OffsetFetchError::StaleMemberEpoch) }
}
