//! Records of groups and offsets as they stand in `__consumer_offsets`, in the formats of Kafka 4.4.

use std::borrow::Cow;

use riparian_group::{
    GroupMachine,
    record::{
        ClassicGroupValue, ClassicMemberValue, CommittedOffsetValue, MemberState, Record,
        StreamsCurrentAssignmentValue, StreamsGroupMetadataValue, StreamsMemberMetadataValue,
        StreamsTargetMetadataValue, TopologyDescriptionValue,
    },
    streams::{ActiveTaskIds, CopartitionGroup, Endpoint, InternalTopic, Subtopology, TaskIds, TaskLists, Topology},
};
use riparian_records::stored::{self, StoredKey};
use riparian_types::{
    AssignmentEpoch, ClientId, Generation, GroupEpoch, GroupId, InstanceId, LeaderEpoch, MemberEpoch, MemberId, Offset,
    PartitionIndex, ProcessId, RackId, SubtopologyId, TopicName, TopologyEpoch, WallMillis,
    planted::{self, Bug},
};
use riparian_wire::{DecodeError, EncodeError};

use crate::{
    codec::{Decoded, KeyValue, RecordCodec},
    subscription::subscribed_topics,
};

/// The codec of [`GroupMachine`]'s records.
#[derive(Clone, Copy, Debug)]
pub struct GroupCodec;

/// The type of a record that Kafka does not have: the description of a topology (KIP-1331). It is far from the types that
/// Kafka gives one after the other, so that Kafka passes such a record over, as any that is too new for it:
///
/// ```text
/// key:    i16 type | i16 length of the group's id | the id
/// value:  i16 version, 0 | i32 topology epoch | StreamsGroupTopologyDescriptionUpdate request of version 0, ids empty
/// ```
const DESCRIPTION_TYPE: i16 = 21_072;
const DESCRIPTION_VERSION: i16 = 0;
/// The version of streams records; there is only one.
const STREAMS_VERSION: i16 = 0;
/// The version in which offsets are written; the first with topic ids.
const OFFSET_VERSION: i16 = 4;
/// Stands where a timestamp is unknown.
const NO_TIMESTAMP: i64 = -1;
/// The version in which classic groups are written, as Kafka 4.4 does; the next is known, but not used yet.
const CLASSIC_VERSION: i16 = 3;
/// The only version with an explicit expiry.
const OFFSET_VERSION_EXPIRING: i16 = 1;

impl RecordCodec<GroupMachine> for GroupCodec {
    fn encode(record: &Record) -> KeyValue {
        let (key, value) = encode(record).expect("every field of a machine's record fits the version it is written in");
        KeyValue { key: Some(key), value }
    }

    fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Decoded<GroupMachine> {
        let Some(key) = key else {
            return Decoded::Damaged("a record without a key".to_owned());
        };
        if let Some(id) = key.strip_prefix(&DESCRIPTION_TYPE.to_be_bytes()) {
            return decode_description(id, value);
        }
        let key = match StoredKey::from_bytes(key) {
            Ok(key) => key,
            Err(DecodeError::UnknownType { found }) => return Decoded::Unknown { kind: found },
            Err(error) => return Decoded::Damaged(format!("key: {error}")),
        };
        let group = GroupId::from(group_of(&key));
        let kind = key.record_type();
        match decode(key.clone(), &group, value) {
            Ok(record) => Decoded::Record(record),
            Err(error) => {
                let tombstone = decode(key, &group, None).ok();
                let reason = format!("value of a record of type {kind}: {error}");
                Decoded::DamagedScope { scope: group, tombstone, reason }
            }
        }
    }
}

fn group_of<'a>(key: &'a StoredKey<'_>) -> &'a str {
    match key {
        StoredKey::LegacyOffsetCommit(key) => &key.group,
        StoredKey::OffsetCommit(key) => &key.group,
        StoredKey::GroupMetadata(key) => &key.group,
        StoredKey::StreamsGroupMetadata(key) => &key.group_id,
        StoredKey::StreamsGroupMemberMetadata(key) => &key.group_id,
        StoredKey::StreamsGroupTargetAssignmentMetadata(key) => &key.group_id,
        StoredKey::StreamsGroupTargetAssignmentMember(key) => &key.group_id,
        StoredKey::StreamsGroupCurrentMemberAssignment(key) => &key.group_id,
        StoredKey::StreamsGroupTopology(key) => &key.group_id,
    }
}

fn text<T: AsRef<str> + ?Sized>(text: &T) -> Cow<'_, str> {
    Cow::Borrowed(text.as_ref())
}

type Bytes = (Vec<u8>, Option<Vec<u8>>);

fn encode(record: &Record) -> Result<Bytes, EncodeError> {
    Ok(match record {
        Record::OffsetCommit(group, topic, partition, value) => {
            let key = stored::OffsetCommitKey { group: text(group), topic: text(topic), partition: partition.0 };
            (key.to_bytes()?, value.as_ref().map(encode_offset).transpose()?)
        }
        Record::ClassicGroupMetadata(group, value) => {
            let key = stored::GroupMetadataKey { group: text(group) };
            (key.to_bytes()?, value.as_ref().map(encode_classic).transpose()?)
        }
        Record::StreamsGroupMetadata(group, value) => {
            let key = stored::StreamsGroupMetadataKey { group_id: text(group) };
            (key.to_bytes()?, value.as_ref().map(encode_group).transpose()?)
        }
        Record::StreamsMemberMetadata(group, member, value) => {
            let key = stored::StreamsGroupMemberMetadataKey { group_id: text(group), member_id: text(member) };
            (key.to_bytes()?, value.as_ref().map(encode_member).transpose()?)
        }
        Record::StreamsTargetMetadata(group, value) => {
            let key = stored::StreamsGroupTargetAssignmentMetadataKey { group_id: text(group) };
            let value = value.as_ref().map(|value| {
                stored::StreamsGroupTargetAssignmentMetadataValue {
                    assignment_epoch: value.assignment_epoch.0,
                    assignment_timestamp: value.assignment_timestamp.0,
                    ..Default::default()
                }
                .to_bytes(STREAMS_VERSION)
            });
            (key.to_bytes()?, value.transpose()?)
        }
        Record::StreamsTargetMember(group, member, value) => {
            let key = stored::StreamsGroupTargetAssignmentMemberKey { group_id: text(group), member_id: text(member) };
            let value = value.as_ref().map(|tasks| {
                stored::StreamsGroupTargetAssignmentMemberValue {
                    active_tasks: target_tasks(&tasks.active),
                    standby_tasks: target_tasks(&tasks.standby),
                    warmup_tasks: target_tasks(&tasks.warmup),
                    ..Default::default()
                }
                .to_bytes(STREAMS_VERSION)
            });
            (key.to_bytes()?, value.transpose()?)
        }
        Record::StreamsCurrentAssignment(group, member, value) => {
            let key = stored::StreamsGroupCurrentMemberAssignmentKey { group_id: text(group), member_id: text(member) };
            (key.to_bytes()?, value.as_ref().map(encode_current).transpose()?)
        }
        Record::StreamsTopology(group, value) => {
            let key = stored::StreamsGroupTopologyKey { group_id: text(group) };
            (key.to_bytes()?, value.as_ref().map(encode_topology).transpose()?)
        }
        Record::StreamsTopologyDescription(group, value) => {
            let length = i16::try_from(group.len()).expect("the group's topology has the id in its key, too");
            let key = [&DESCRIPTION_TYPE.to_be_bytes()[..], &length.to_be_bytes(), group.as_bytes()].concat();
            (key, value.as_ref().map(encode_description))
        }
    })
}

fn encode_description(value: &TopologyDescriptionValue) -> Vec<u8> {
    let (version, epoch) = (DESCRIPTION_VERSION.to_be_bytes(), value.topology_epoch.0.to_be_bytes());
    [&version[..], &epoch, &value.description].concat()
}

/// `id` is the key without its type.
fn decode_description(id: &[u8], value: Option<&[u8]>) -> Decoded<GroupMachine> {
    let text = id.split_first_chunk().filter(|(length, rest)| usize::from(u16::from_be_bytes(**length)) == rest.len());
    let Some(group) = text.and_then(|(_, rest)| core::str::from_utf8(rest).ok()).map(GroupId::from) else {
        return Decoded::Damaged("key of the description of a topology".to_owned());
    };
    let Some(value) = value else { return Decoded::Record(Record::StreamsTopologyDescription(group, None)) };
    let parts = value.split_first_chunk().and_then(|(version, rest)| Some((version, rest.split_first_chunk()?)));
    match parts {
        Some((version, (epoch, description))) if i16::from_be_bytes(*version) == DESCRIPTION_VERSION => {
            let topology_epoch = TopologyEpoch(i32::from_be_bytes(*epoch));
            let value = TopologyDescriptionValue { topology_epoch, description: description.into() };
            Decoded::Record(Record::StreamsTopologyDescription(group, Some(value)))
        }
        _ => {
            let tombstone = Some(Record::StreamsTopologyDescription(group.clone(), None));
            let reason = "value of the description of a topology".to_owned();
            Decoded::DamagedScope { scope: group, tombstone, reason }
        }
    }
}

fn encode_offset(value: &CommittedOffsetValue) -> Result<Vec<u8>, EncodeError> {
    let expires = value.expire_timestamp.0 != -1;
    let version = if expires { OFFSET_VERSION_EXPIRING } else { OFFSET_VERSION };
    stored::OffsetCommitValue {
        offset: value.offset.0,
        leader_epoch: value.leader_epoch.0,
        metadata: text(&value.metadata),
        commit_timestamp: value.commit_timestamp.0,
        expire_timestamp: value.expire_timestamp.0,
        topic_id: value.topic_id,
        ..Default::default()
    }
    .to_bytes(version)
}

fn encode_classic(value: &ClassicGroupValue) -> Result<Vec<u8>, EncodeError> {
    let members = value.members.iter().map(|member| stored::group_metadata_value::MemberMetadata {
        member_id: text(&member.member_id),
        group_instance_id: member.instance_id.as_ref().map(text),
        client_id: text(&member.client_id),
        client_host: text(&member.client_host),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: Cow::Borrowed(&member.subscription),
        assignment: Cow::Borrowed(&member.assignment),
        ..Default::default()
    });
    stored::GroupMetadataValue {
        protocol_type: text(&value.protocol_type),
        generation: value.generation.0,
        protocol: value.protocol.as_ref().map(text),
        leader: value.leader.as_ref().map(text),
        current_state_timestamp: value.state_timestamp.map_or(NO_TIMESTAMP, |timestamp| timestamp.0),
        members: members.collect(),
        ..Default::default()
    }
    .to_bytes(CLASSIC_VERSION)
}

fn encode_group(value: &StreamsGroupMetadataValue) -> Result<Vec<u8>, EncodeError> {
    let configs = value.last_assignment_configs.as_ref().map(|configs| {
        let configs = configs.iter().map(|(key, value)| stored::streams_group_metadata_value::LastAssignmentConfig {
            key: text(key),
            value: text(value),
            ..Default::default()
        });
        configs.collect()
    });
    stored::StreamsGroupMetadataValue {
        epoch: value.epoch.0,
        metadata_hash: value.metadata_hash,
        validated_topology_epoch: value.validated_topology_epoch.0,
        last_assignment_configs: configs,
        stored_description_topology_epoch: value.stored_description_topology_epoch.0,
        failed_description_topology_epoch: value.failed_description_topology_epoch.0,
        ..Default::default()
    }
    .to_bytes(STREAMS_VERSION)
}

fn encode_member(value: &StreamsMemberMetadataValue) -> Result<Vec<u8>, EncodeError> {
    use stored::streams_group_member_metadata_value as part;
    let tags = value.client_tags.iter().map(|(key, value)| part::KeyValue {
        key: text(key),
        value: text(value),
        ..Default::default()
    });
    stored::StreamsGroupMemberMetadataValue {
        instance_id: value.instance_id.as_ref().map(text),
        rack_id: value.rack_id.as_ref().map(text),
        client_id: text(&value.client_id),
        client_host: text(&value.client_host),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        topology_epoch: value.topology_epoch.0,
        process_id: text(&value.process_id),
        user_endpoint: value.user_endpoint.as_ref().map(|endpoint| part::Endpoint {
            host: text(&endpoint.host),
            port: endpoint.port,
            ..Default::default()
        }),
        client_tags: tags.collect(),
        ..Default::default()
    }
    .to_bytes(STREAMS_VERSION)
}

fn target_tasks(tasks: &[TaskIds]) -> Vec<stored::streams_group_target_assignment_member_value::TaskIds<'_>> {
    let tasks = tasks.iter().map(|tasks| stored::streams_group_target_assignment_member_value::TaskIds {
        subtopology_id: text(&tasks.subtopology),
        partitions: numbers(&tasks.partitions),
        ..Default::default()
    });
    tasks.collect()
}

fn numbers(partitions: &[PartitionIndex]) -> Vec<i32> {
    partitions.iter().map(|partition| partition.0).collect()
}

fn encode_current(value: &StreamsCurrentAssignmentValue) -> Result<Vec<u8>, EncodeError> {
    stored::StreamsGroupCurrentMemberAssignmentValue {
        member_epoch: value.member_epoch.0,
        previous_member_epoch: if planted::is_in(Bug::RecordDiffers) { 0 } else { value.previous_member_epoch.0 },
        state: match value.state {
            MemberState::Stable => 1,
            MemberState::UnrevokedTasks => 2,
            MemberState::UnreleasedTasks => 3,
            MemberState::Unknown => 127,
        },
        active_tasks: active_tasks(&value.active),
        standby_tasks: plain_tasks(&value.standby),
        warmup_tasks: plain_tasks(&value.warmup),
        active_tasks_pending_revocation: active_tasks(&value.active_pending_revocation),
        standby_tasks_pending_revocation: plain_tasks(&value.standby_pending_revocation),
        warmup_tasks_pending_revocation: plain_tasks(&value.warmup_pending_revocation),
        ..Default::default()
    }
    .to_bytes(STREAMS_VERSION)
}

fn active_tasks(tasks: &[ActiveTaskIds]) -> Vec<stored::streams_group_current_member_assignment_value::TaskIds<'_>> {
    let tasks = tasks.iter().map(|tasks| stored::streams_group_current_member_assignment_value::TaskIds {
        subtopology_id: text(&tasks.subtopology),
        partitions: numbers(&tasks.partitions),
        assignment_epochs: (tasks.assignment_epochs.len() == tasks.partitions.len())
            .then(|| tasks.assignment_epochs.iter().map(|epoch| epoch.0).collect()),
        ..Default::default()
    });
    tasks.collect()
}

fn plain_tasks(tasks: &[TaskIds]) -> Vec<stored::streams_group_current_member_assignment_value::TaskIds<'_>> {
    let tasks = tasks.iter().map(|tasks| stored::streams_group_current_member_assignment_value::TaskIds {
        subtopology_id: text(&tasks.subtopology),
        partitions: numbers(&tasks.partitions),
        ..Default::default()
    });
    tasks.collect()
}

fn encode_topology(topology: &Topology) -> Result<Vec<u8>, EncodeError> {
    use stored::streams_group_topology_value as part;
    fn names(names: &[TopicName]) -> Vec<Cow<'_, str>> {
        names.iter().map(text).collect()
    }
    fn topics(topics: &[InternalTopic]) -> Vec<part::TopicInfo<'_>> {
        let topics = topics.iter().map(|topic| part::TopicInfo {
            name: text(&topic.name),
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            topic_configs: topic
                .configs
                .iter()
                .map(|(key, value)| part::TopicConfig { key: text(key), value: text(value), ..Default::default() })
                .collect(),
            ..Default::default()
        });
        topics.collect()
    }
    let subtopologies = topology.subtopologies.iter().map(|subtopology| part::Subtopology {
        subtopology_id: text(&subtopology.id),
        source_topics: names(&subtopology.source_topics),
        source_topic_regex: subtopology.source_topic_regex.iter().map(text).collect(),
        state_changelog_topics: topics(&subtopology.state_changelog_topics),
        repartition_sink_topics: names(&subtopology.repartition_sink_topics),
        repartition_source_topics: topics(&subtopology.repartition_source_topics),
        copartition_groups: subtopology
            .copartition_groups
            .iter()
            .map(|group| part::CopartitionGroup {
                source_topics: group.source_topics.to_vec(),
                source_topic_regex: group.source_topic_regex.to_vec(),
                repartition_source_topics: group.repartition_source_topics.to_vec(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    stored::StreamsGroupTopologyValue {
        epoch: topology.epoch.0,
        subtopologies: subtopologies.collect(),
        ..Default::default()
    }
    .to_bytes(STREAMS_VERSION)
}

fn decode(key: StoredKey<'_>, group: &GroupId, value: Option<&[u8]>) -> Result<Record, DecodeError> {
    let group = group.clone();
    Ok(match key {
        StoredKey::LegacyOffsetCommit(key) => {
            let value = value.map(stored::LegacyOffsetCommitValue::from_bytes).transpose()?;
            let value = value.map(|value| CommittedOffsetValue {
                offset: Offset(value.offset),
                leader_epoch: LeaderEpoch::NONE,
                metadata: value.metadata.into_owned(),
                commit_timestamp: WallMillis(value.commit_timestamp),
                expire_timestamp: WallMillis(-1),
                topic_id: riparian_types::Uuid::ZERO,
            });
            Record::OffsetCommit(group, TopicName::from(&*key.topic), PartitionIndex(key.partition), value)
        }
        StoredKey::OffsetCommit(key) => {
            let value = value.map(stored::OffsetCommitValue::from_bytes).transpose()?;
            let value = value.map(|value| CommittedOffsetValue {
                offset: Offset(value.offset),
                leader_epoch: LeaderEpoch(value.leader_epoch),
                metadata: value.metadata.into_owned(),
                commit_timestamp: WallMillis(value.commit_timestamp),
                expire_timestamp: WallMillis(value.expire_timestamp),
                topic_id: value.topic_id,
            });
            Record::OffsetCommit(group, TopicName::from(&*key.topic), PartitionIndex(key.partition), value)
        }
        StoredKey::GroupMetadata(_) => {
            let value = value.map(stored::GroupMetadataValue::from_bytes).transpose()?;
            Record::ClassicGroupMetadata(group, value.map(decode_classic))
        }
        StoredKey::StreamsGroupMetadata(_) => {
            let value = value.map(stored::StreamsGroupMetadataValue::from_bytes).transpose()?;
            Record::StreamsGroupMetadata(group, value.map(decode_group))
        }
        StoredKey::StreamsGroupMemberMetadata(key) => {
            let value = value.map(stored::StreamsGroupMemberMetadataValue::from_bytes).transpose()?;
            Record::StreamsMemberMetadata(group, MemberId::from(&*key.member_id), value.map(decode_member))
        }
        StoredKey::StreamsGroupTargetAssignmentMetadata(_) => {
            let value = value.map(stored::StreamsGroupTargetAssignmentMetadataValue::from_bytes).transpose()?;
            let value = value.map(|value| StreamsTargetMetadataValue {
                assignment_epoch: AssignmentEpoch(value.assignment_epoch),
                assignment_timestamp: WallMillis(value.assignment_timestamp),
            });
            Record::StreamsTargetMetadata(group, value)
        }
        StoredKey::StreamsGroupTargetAssignmentMember(key) => {
            let value = value.map(stored::StreamsGroupTargetAssignmentMemberValue::from_bytes).transpose()?;
            let value = value.map(|value| TaskLists {
                active: decode_target(value.active_tasks),
                standby: decode_target(value.standby_tasks),
                warmup: decode_target(value.warmup_tasks),
            });
            Record::StreamsTargetMember(group, MemberId::from(&*key.member_id), value)
        }
        StoredKey::StreamsGroupCurrentMemberAssignment(key) => {
            let value = value.map(stored::StreamsGroupCurrentMemberAssignmentValue::from_bytes).transpose()?;
            Record::StreamsCurrentAssignment(group, MemberId::from(&*key.member_id), value.map(decode_current))
        }
        StoredKey::StreamsGroupTopology(_) => {
            let value = value.map(stored::StreamsGroupTopologyValue::from_bytes).transpose()?;
            Record::StreamsTopology(group, value.map(decode_topology))
        }
    })
}

fn decode_classic(value: stored::GroupMetadataValue<'_>) -> ClassicGroupValue {
    let protocol_type = value.protocol_type.into_owned();
    let member = |member: stored::group_metadata_value::MemberMetadata<'_>| ClassicMemberValue {
        member_id: MemberId::from(&*member.member_id),
        instance_id: member.group_instance_id.map(|id| InstanceId::from(&*id)),
        client_id: member.client_id.into_owned(),
        client_host: member.client_host.into_owned(),
        rebalance_timeout_ms: member.rebalance_timeout,
        session_timeout_ms: member.session_timeout,
        subscribed_topics: subscribed_topics(&protocol_type, &member.subscription),
        subscription: member.subscription.into(),
        assignment: member.assignment.into(),
    };
    ClassicGroupValue {
        generation: Generation(value.generation),
        protocol: value.protocol.map(Cow::into_owned),
        leader: value.leader.map(|id| MemberId::from(&*id)),
        state_timestamp: (value.current_state_timestamp != NO_TIMESTAMP)
            .then_some(WallMillis(value.current_state_timestamp)),
        members: value.members.into_iter().map(member).collect(),
        protocol_type,
    }
}

fn decode_group(value: stored::StreamsGroupMetadataValue<'_>) -> StreamsGroupMetadataValue {
    StreamsGroupMetadataValue {
        epoch: GroupEpoch(value.epoch),
        metadata_hash: value.metadata_hash,
        validated_topology_epoch: TopologyEpoch(value.validated_topology_epoch),
        last_assignment_configs: value.last_assignment_configs.map(|configs| {
            configs.into_iter().map(|config| (config.key.into_owned(), config.value.into_owned())).collect()
        }),
        stored_description_topology_epoch: TopologyEpoch(value.stored_description_topology_epoch),
        failed_description_topology_epoch: TopologyEpoch(value.failed_description_topology_epoch),
    }
}

fn decode_member(value: stored::StreamsGroupMemberMetadataValue<'_>) -> StreamsMemberMetadataValue {
    StreamsMemberMetadataValue {
        instance_id: value.instance_id.map(|id| InstanceId::from(&*id)),
        rack_id: value.rack_id.map(|id| RackId::from(&*id)),
        client_id: ClientId::from(&*value.client_id),
        client_host: value.client_host.into(),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        topology_epoch: TopologyEpoch(value.topology_epoch),
        process_id: ProcessId::from(&*value.process_id),
        user_endpoint: value
            .user_endpoint
            .map(|endpoint| Box::new(Endpoint { host: endpoint.host.into_owned(), port: endpoint.port })),
        client_tags: value.client_tags.into_iter().map(|tag| (tag.key.into_owned(), tag.value.into_owned())).collect(),
    }
}

fn decode_target(tasks: Vec<stored::streams_group_target_assignment_member_value::TaskIds<'_>>) -> Vec<TaskIds> {
    let tasks = tasks.into_iter().map(|tasks| TaskIds {
        subtopology: SubtopologyId::from(&*tasks.subtopology_id),
        partitions: tasks.partitions.into_iter().map(PartitionIndex).collect(),
    });
    tasks.collect()
}

fn decode_current(value: stored::StreamsGroupCurrentMemberAssignmentValue<'_>) -> StreamsCurrentAssignmentValue {
    type Tasks<'a> = Vec<stored::streams_group_current_member_assignment_value::TaskIds<'a>>;
    fn active(tasks: Tasks<'_>) -> Vec<ActiveTaskIds> {
        let tasks = tasks.into_iter().map(|tasks| {
            // Epochs that don't match their partitions count as absent, as in Kafka.
            let epochs = tasks.assignment_epochs.filter(|epochs| epochs.len() == tasks.partitions.len());
            ActiveTaskIds {
                subtopology: SubtopologyId::from(&*tasks.subtopology_id),
                partitions: tasks.partitions.into_iter().map(PartitionIndex).collect(),
                assignment_epochs: epochs.unwrap_or_default().into_iter().map(AssignmentEpoch).collect(),
            }
        });
        tasks.collect()
    }
    fn plain(tasks: Tasks<'_>) -> Vec<TaskIds> {
        let tasks = tasks.into_iter().map(|tasks| TaskIds {
            subtopology: SubtopologyId::from(&*tasks.subtopology_id),
            partitions: tasks.partitions.into_iter().map(PartitionIndex).collect(),
        });
        tasks.collect()
    }
    StreamsCurrentAssignmentValue {
        member_epoch: MemberEpoch(value.member_epoch),
        previous_member_epoch: MemberEpoch(value.previous_member_epoch),
        state: match value.state {
            1 => MemberState::Stable,
            2 => MemberState::UnrevokedTasks,
            3 => MemberState::UnreleasedTasks,
            _ => MemberState::Unknown,
        },
        active: active(value.active_tasks),
        standby: plain(value.standby_tasks),
        warmup: plain(value.warmup_tasks),
        active_pending_revocation: active(value.active_tasks_pending_revocation),
        standby_pending_revocation: plain(value.standby_tasks_pending_revocation),
        warmup_pending_revocation: plain(value.warmup_tasks_pending_revocation),
    }
}

fn decode_topology(value: stored::StreamsGroupTopologyValue<'_>) -> Topology {
    use stored::streams_group_topology_value as part;
    fn names(names: &[Cow<'_, str>]) -> Box<[TopicName]> {
        names.iter().map(|name| TopicName::from(&**name)).collect()
    }
    fn topics(topics: Vec<part::TopicInfo<'_>>) -> Box<[InternalTopic]> {
        let topics = topics.into_iter().map(|topic| InternalTopic {
            name: TopicName::from(&*topic.name),
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            configs: topic
                .topic_configs
                .into_iter()
                .map(|config| (config.key.into_owned(), config.value.into_owned()))
                .collect(),
        });
        topics.collect()
    }
    let subtopologies = value.subtopologies.into_iter().map(|subtopology| Subtopology {
        id: SubtopologyId::from(&*subtopology.subtopology_id),
        source_topics: names(&subtopology.source_topics),
        source_topic_regex: subtopology.source_topic_regex.into_iter().map(Cow::into_owned).collect(),
        state_changelog_topics: topics(subtopology.state_changelog_topics),
        repartition_sink_topics: names(&subtopology.repartition_sink_topics),
        repartition_source_topics: topics(subtopology.repartition_source_topics),
        copartition_groups: subtopology
            .copartition_groups
            .into_iter()
            .map(|group| CopartitionGroup {
                source_topics: group.source_topics.into(),
                source_topic_regex: group.source_topic_regex.into(),
                repartition_source_topics: group.repartition_source_topics.into(),
            })
            .collect(),
    });
    Topology { epoch: TopologyEpoch(value.epoch), subtopologies: subtopologies.collect() }
}
