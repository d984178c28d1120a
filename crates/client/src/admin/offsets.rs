//! How far groups have come.

use std::collections::BTreeMap;

use riparian_protocol::messages::{
    ListOffsetsRequest, MetadataRequest, OffsetFetchRequest,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    metadata_request::MetadataRequestTopic,
    offset_fetch_request::OffsetFetchRequestGroup,
};
use riparian_wire::VersionRange;

use crate::{ClientError, Cluster, ServerError};

/// What a group has committed for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next record that the group wants to read.
    pub committed: i64,
    /// Where the next record will be written; `None` if there is no such partition, or it cannot be asked now.
    pub end: Option<i64>,
}

impl GroupOffset {
    /// How many records the group has still to read.
    pub fn lag(&self) -> Option<i64> {
        self.end.map(|end| (end - self.committed).max(0))
    }
}

/// From here on topics are named by id, which only members want.
const FETCH_BY_NAME: VersionRange = VersionRange::new(2, 9);
/// From here on several groups are asked at once.
const FETCH_GROUPS: i16 = 8;
const LATEST: i64 = -1;
const CLIENT: i32 = -1;
/// From here on asking for a topic does not create it.
const METADATA_WITHOUT_CREATION: VersionRange = VersionRange::new(4, MetadataRequest::VERSIONS.max);

/// Everything that a group has committed, by topic and partition; the inner error is the server's about the group.
pub fn group_offsets(
    cluster: &mut Cluster,
    group_id: &str,
) -> Result<Result<Vec<GroupOffset>, ServerError>, ClientError> {
    let committed = match committed_offsets(cluster, group_id)? {
        Ok(committed) => committed,
        Err(error) => return Ok(Err(error)),
    };
    let ends = end_offsets(cluster, committed.keys())?;
    let offsets = committed.into_iter().map(|(key, committed)| {
        let end = ends.get(&key).copied();
        GroupOffset { topic: key.0, partition: key.1, committed, end }
    });
    Ok(Ok(offsets.collect()))
}

type ByPartition = BTreeMap<(String, i32), i64>;

fn committed_offsets(cluster: &mut Cluster, group_id: &str) -> Result<Result<ByPartition, ServerError>, ClientError> {
    let coordinator = cluster.coordinator(group_id)?;
    let node = cluster.node(coordinator)?;
    let version = node.version(OffsetFetchRequest::API_KEY, FETCH_BY_NAME)?;
    let mut request = OffsetFetchRequest { topics: None, ..OffsetFetchRequest::default() };
    if version >= FETCH_GROUPS {
        let all = OffsetFetchRequestGroup { group_id: group_id.into(), topics: None, ..Default::default() };
        request = OffsetFetchRequest { groups: vec![all], ..OffsetFetchRequest::default() };
    } else {
        request.group_id = group_id.into();
    }
    let answer = node.call_version(&request, version)?;
    let response = answer.decode()?;
    let mut offsets = ByPartition::new();
    let mut error_code = response.error_code;
    for group in &response.groups {
        error_code = group.error_code;
        for topic in &group.topics {
            let partitions = topic.partitions.iter().filter(|partition| partition.committed_offset >= 0);
            offsets.extend(partitions.map(|it| ((topic.name.to_string(), it.partition_index), it.committed_offset)));
        }
    }
    for topic in &response.topics {
        let partitions = topic.partitions.iter().filter(|partition| partition.committed_offset >= 0);
        offsets.extend(partitions.map(|it| ((topic.name.to_string(), it.partition_index), it.committed_offset)));
    }
    Ok(ServerError::check(error_code, None).map(|()| offsets))
}

/// Where the logs of these partitions end; partitions that cannot be asked are left out.
fn end_offsets<'a>(
    cluster: &mut Cluster,
    partitions: impl Iterator<Item = &'a (String, i32)>,
) -> Result<ByPartition, ClientError> {
    let mut wanted: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        wanted.entry(topic).or_default().push(*partition);
    }
    let mut ends = ByPartition::new();
    if wanted.is_empty() {
        return Ok(ends);
    }
    let request = MetadataRequest {
        topics: Some(
            (wanted.keys().copied())
                .map(|name| MetadataRequestTopic { name: Some(name.into()), ..MetadataRequestTopic::default() })
                .collect(),
        ),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let version = cluster.any().version(MetadataRequest::API_KEY, METADATA_WITHOUT_CREATION)?;
    let answer = cluster.any().call_version(&request, version)?;
    let metadata = answer.decode()?;
    let mut by_leader: BTreeMap<i32, Vec<ListOffsetsTopic<'_>>> = BTreeMap::new();
    for topic in metadata.topics.iter().filter(|topic| topic.error_code == 0) {
        let Some(name) = topic.name.as_deref() else { continue };
        let indexes = wanted.get(name).map(Vec::as_slice).unwrap_or_default();
        for partition in topic.partitions.iter().filter(|partition| indexes.contains(&partition.partition_index)) {
            if partition.leader_id < 0 {
                continue;
            }
            let topics = by_leader.entry(partition.leader_id).or_default();
            if topics.last().is_none_or(|last| last.name != name) {
                topics.push(ListOffsetsTopic { name: name.into(), ..ListOffsetsTopic::default() });
            }
            if let Some(last) = topics.last_mut() {
                last.partitions.push(ListOffsetsPartition {
                    partition_index: partition.partition_index,
                    current_leader_epoch: -1,
                    timestamp: LATEST,
                    ..ListOffsetsPartition::default()
                });
            }
        }
    }
    for (leader, topics) in by_leader {
        let request = ListOffsetsRequest { replica_id: CLIENT, topics, ..ListOffsetsRequest::default() };
        let answer = cluster.node(leader)?.call(&request)?;
        for topic in &answer.decode()?.topics {
            let answered = topic.partitions.iter().filter(|partition| partition.error_code == 0);
            ends.extend(answered.map(|it| ((topic.name.to_string(), it.partition_index), it.offset)));
        }
    }
    Ok(ends)
}
