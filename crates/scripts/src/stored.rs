//! What a server writes to `__consumer_offsets`, read back as any consumer could.

use std::borrow::Cow;

use riparian_protocol::messages::{
    FetchRequest,
    fetch_request::{FetchPartition, FetchTopic},
};
use riparian_records::batches;
use riparian_records::stored::{
    GroupMetadataValue, OffsetCommitValue, StoredKey, StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue, StreamsGroupMetadataValue, StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue, StreamsGroupTopologyValue, key_type,
};
use riparian_testkit::{
    ClassicGroup, ClassicMember, CopartitionGroup, Metadata, Subtopology, Task, TaskLists, Topology,
    show::{CommittedOffset, CurrentAssignment, GroupMetadata, MemberMetadata, Record, internal_topic, with_epochs},
};

use crate::Transport;

const TOPIC: &str = "__consumer_offsets";
/// The last version that names topics.
const FETCH_BY_NAME: i16 = 12;
const BYTES_MAX: i32 = 10 << 20;

/// Reads on from one place.
pub(crate) struct Reader {
    next_offset: i64,
}

impl Reader {
    pub(crate) fn from_start() -> Self {
        Self { next_offset: 0 }
    }

    /// What was written since the last call about groups whose ids begin like this, with the ids.
    pub(crate) fn read(
        &mut self,
        transport: &mut impl Transport,
        prefix: &str,
    ) -> Result<Vec<(String, Record)>, String> {
        let mut found = Vec::new();
        loop {
            let partition = FetchPartition {
                fetch_offset: self.next_offset,
                current_leader_epoch: -1,
                partition_max_bytes: BYTES_MAX,
                ..FetchPartition::default()
            };
            let topic = FetchTopic { topic: TOPIC.into(), partitions: vec![partition], ..FetchTopic::default() };
            let request = FetchRequest {
                replica_id: -1,
                max_bytes: BYTES_MAX,
                session_epoch: -1,
                topics: vec![topic],
                ..FetchRequest::default()
            };
            let answer = transport.call(&request, Some(FETCH_BY_NAME))?;
            let response = answer.decode::<FetchRequest<'_>>().map_err(|error| error.to_string())?;
            let data = response.responses.first().and_then(|topic| topic.partitions.first());
            let data = data.ok_or("the answer to a fetch is empty")?;
            if response.error_code != 0 || data.error_code != 0 {
                return Err(format!("fetch: error {} {}", response.error_code, data.error_code));
            }
            for batch in batches(data.records.as_deref().unwrap_or_default()).tolerate_truncated() {
                let batch = batch.map_err(|error| error.to_string())?;
                let records = batch.records().map_err(|error| error.to_string())?;
                for record in &records {
                    let record = record.map_err(|error| format!("{error:?}"))?;
                    if record.offset.0 < self.next_offset || batch.header().is_control() {
                        continue;
                    }
                    let key = record.key.ok_or("a record without a key")?;
                    found.extend(decode(key, record.value, prefix)?);
                }
                self.next_offset = self.next_offset.max(batch.header().next_offset().0);
            }
            if self.next_offset >= data.high_watermark {
                return Ok(found);
            }
        }
    }
}

macro_rules! lists {
    ($value:expr, $active:ident, $standby:ident, $warmup:ident) => {
        TaskLists { active: tasks!($value.$active), standby: tasks!($value.$standby), warmup: tasks!($value.$warmup) }
    };
}

macro_rules! tasks {
    ($lists:expr) => {
        Task::all($lists.iter().map(|list| (&*list.subtopology_id, &list.partitions[..])))
    };
}

macro_rules! active {
    ($lists:expr) => {
        with_epochs(
            tasks!($lists),
            $lists.iter().flat_map(|list| {
                let epoch = move |index| list.assignment_epochs.as_ref().and_then(|epochs| epochs.get(index).copied());
                (0..list.partitions.len()).map(epoch)
            }),
        )
    };
}

/// Our server's record of the description of a topology; its epoch stands behind the version.
const DESCRIPTION_TYPE: i16 = 21_072;

/// A record of a group whose id begins like this.
fn decode(key: &[u8], value: Option<&[u8]>, prefix: &str) -> Result<Option<(String, Record)>, String> {
    if let Some(group) = key.strip_prefix(&DESCRIPTION_TYPE.to_be_bytes()).and_then(|rest| rest.get(2..)) {
        let group = String::from_utf8_lossy(group).into_owned();
        let epoch = value.and_then(|value| value.get(2..)?.first_chunk().copied()).map(i32::from_be_bytes);
        return Ok(group.starts_with(prefix).then_some((group, Record::TopologyDescription(epoch))));
    }
    let Ok(key) = StoredKey::from_bytes(key) else {
        return key_type(key).map(|_| None).map_err(|error| error.to_string());
    };
    let wrong = |error| format!("{key:?}: {error}");
    let group = group_of(&key).to_owned();
    if !group.starts_with(prefix) {
        return Ok(None);
    }
    let record = match &key {
        StoredKey::LegacyOffsetCommit(_) => Record::Other(0),
        StoredKey::OffsetCommit(it) => {
            let value = value.map(OffsetCommitValue::from_bytes).transpose().map_err(wrong)?;
            let value = value.map(|value| CommittedOffset {
                offset: value.offset,
                leader_epoch: value.leader_epoch,
                metadata: value.metadata.into_owned(),
            });
            Record::Offset { topic: it.topic.clone().into_owned(), partition: it.partition, value }
        }
        StoredKey::GroupMetadata(_) => {
            let value = value.map(GroupMetadataValue::from_bytes).transpose().map_err(wrong)?;
            Record::ClassicGroup(value.map(classic_group))
        }
        StoredKey::StreamsGroupMetadata(_) => Record::Group(
            value.map(StreamsGroupMetadataValue::from_bytes).transpose().map_err(wrong)?.map(group_metadata),
        ),
        StoredKey::StreamsGroupMemberMetadata(it) => {
            let value = value.map(StreamsGroupMemberMetadataValue::from_bytes).transpose().map_err(wrong)?;
            Record::Member(it.member_id.clone().into_owned(), value.map(member_metadata))
        }
        StoredKey::StreamsGroupTargetAssignmentMetadata(_) => {
            let value = value.map(StreamsGroupTargetAssignmentMetadataValue::from_bytes).transpose().map_err(wrong)?;
            Record::TargetMetadata(value.map(|value| (value.assignment_epoch, value.assignment_timestamp != 0)))
        }
        StoredKey::StreamsGroupTargetAssignmentMember(it) => {
            let value = value.map(StreamsGroupTargetAssignmentMemberValue::from_bytes).transpose().map_err(wrong)?;
            let tasks = value.map(|value| lists!(value, active_tasks, standby_tasks, warmup_tasks));
            Record::Target(it.member_id.clone().into_owned(), tasks)
        }
        StoredKey::StreamsGroupCurrentMemberAssignment(it) => {
            let value = value.map(StreamsGroupCurrentMemberAssignmentValue::from_bytes).transpose().map_err(wrong)?;
            Record::Current(it.member_id.clone().into_owned(), value.map(current_assignment))
        }
        StoredKey::StreamsGroupTopology(_) => {
            Record::Topology(value.map(StreamsGroupTopologyValue::from_bytes).transpose().map_err(wrong)?.map(topology))
        }
    };
    Ok(Some((group, record)))
}

fn group_of<'a>(key: &'a StoredKey<'_>) -> &'a str {
    match key {
        StoredKey::LegacyOffsetCommit(it) => &it.group,
        StoredKey::OffsetCommit(it) => &it.group,
        StoredKey::GroupMetadata(it) => &it.group,
        StoredKey::StreamsGroupMetadata(it) => &it.group_id,
        StoredKey::StreamsGroupMemberMetadata(it) => &it.group_id,
        StoredKey::StreamsGroupTargetAssignmentMetadata(it) => &it.group_id,
        StoredKey::StreamsGroupTargetAssignmentMember(it) => &it.group_id,
        StoredKey::StreamsGroupCurrentMemberAssignment(it) => &it.group_id,
        StoredKey::StreamsGroupTopology(it) => &it.group_id,
    }
}

fn classic_group(value: GroupMetadataValue<'_>) -> ClassicGroup {
    let members = value.members.iter().map(|it| ClassicMember {
        member_id: it.member_id.to_string(),
        instance_id: it.group_instance_id.as_ref().map(ToString::to_string),
        client_id: it.client_id.to_string(),
        client_host: it.client_host.to_string(),
        rebalance_timeout_ms: Some(it.rebalance_timeout),
        session_timeout_ms: Some(it.session_timeout),
        metadata: Metadata::from_bytes(&it.subscription),
        assignment: it.assignment.to_vec(),
    });
    ClassicGroup {
        protocol_type: value.protocol_type.to_string(),
        generation: value.generation,
        protocol: value.protocol.as_ref().map(ToString::to_string),
        leader: value.leader.as_ref().map(ToString::to_string),
        has_time: value.current_state_timestamp != -1,
        members: members.collect(),
    }
}

fn group_metadata(value: StreamsGroupMetadataValue<'_>) -> GroupMetadata {
    let configs = value.last_assignment_configs.iter().flatten();
    GroupMetadata {
        epoch: value.epoch,
        metadata_hash: value.metadata_hash,
        validated_topology_epoch: value.validated_topology_epoch,
        last_assignment_configs: configs.map(|it| (it.key.to_string(), it.value.to_string())).collect(),
        stored_description_topology_epoch: value.stored_description_topology_epoch,
        failed_description_topology_epoch: value.failed_description_topology_epoch,
    }
}

fn member_metadata(value: StreamsGroupMemberMetadataValue<'_>) -> MemberMetadata {
    MemberMetadata {
        instance_id: value.instance_id.map(Cow::into_owned),
        rack_id: value.rack_id.map(Cow::into_owned),
        client_id: value.client_id.into_owned(),
        client_host: value.client_host.into_owned(),
        rebalance_timeout_ms: Some(value.rebalance_timeout_ms),
        topology_epoch: value.topology_epoch,
        process_id: value.process_id.into_owned(),
        user_endpoint: value.user_endpoint.map(|it| (it.host.into_owned(), it.port)),
        client_tags: value.client_tags.iter().map(|it| (it.key.to_string(), it.value.to_string())).collect(),
    }
}

fn current_assignment(value: StreamsGroupCurrentMemberAssignmentValue<'_>) -> CurrentAssignment {
    CurrentAssignment {
        member_epoch: value.member_epoch,
        previous_member_epoch: value.previous_member_epoch,
        state: value.state,
        assigned: TaskLists {
            active: active!(value.active_tasks),
            standby: tasks!(value.standby_tasks),
            warmup: tasks!(value.warmup_tasks),
        },
        pending_revocation: TaskLists {
            active: active!(value.active_tasks_pending_revocation),
            standby: tasks!(value.standby_tasks_pending_revocation),
            warmup: tasks!(value.warmup_tasks_pending_revocation),
        },
    }
}

fn topology(value: StreamsGroupTopologyValue<'_>) -> Topology {
    let strings = |list: &[Cow<'_, str>]| list.iter().map(ToString::to_string).collect();
    let subtopologies = value.subtopologies.iter().map(|it| {
        let [repartition_source_topics, state_changelog_topics] =
            [&it.repartition_source_topics, &it.state_changelog_topics].map(|topics| {
                let configs = |topic: &riparian_records::stored::streams_group_topology_value::TopicInfo<'_>| {
                    topic.topic_configs.iter().map(|it| (it.key.to_string(), it.value.to_string())).collect()
                };
                topics
                    .iter()
                    .map(|topic| {
                        internal_topic(&topic.name, topic.partitions, topic.replication_factor, configs(topic))
                    })
                    .collect()
            });
        let copartition_groups = it.copartition_groups.iter().map(|group| CopartitionGroup {
            source_topics: group.source_topics.clone(),
            source_topic_regex: group.source_topic_regex.clone(),
            repartition_source_topics: group.repartition_source_topics.clone(),
        });
        Subtopology {
            id: it.subtopology_id.to_string(),
            source_topics: strings(&it.source_topics),
            source_topic_regex: strings(&it.source_topic_regex),
            repartition_sink_topics: strings(&it.repartition_sink_topics),
            repartition_source_topics,
            state_changelog_topics,
            copartition_groups: copartition_groups.collect(),
        }
    });
    Topology { epoch: value.epoch, subtopologies: subtopologies.collect() }
}
