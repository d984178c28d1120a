//! Committed offsets over the protocol, in every version.
//!
//! Scripts name topics; versions that know only their ids are given these, and their answers names again.

use std::collections::BTreeMap;

use riparian_protocol::messages::{
    MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
    offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
};
use riparian_testkit::{Answered, FetchedOffset, OffsetOutcome, OffsetWords};
use riparian_types::Uuid;

use crate::{
    Transport,
    server::{failed, outcome},
};

/// The last versions of both that name topics instead of giving their ids.
const COMMIT_BY_NAME: i16 = 9;
const FETCH_BY_NAME: i16 = 9;
/// The last version of OffsetFetch that asks for one group only.
const FETCH_ONE_GROUP: i16 = 7;
/// An id that no topic has.
const NO_TOPIC: (u64, u64) = (7, 7);

/// Topics by id, as the server names them.
struct TopicIds(Vec<(Uuid, String)>);

impl TopicIds {
    /// Of these topics; none in versions that name them.
    fn of(transport: &mut impl Transport, names: &[String], by_id: bool) -> Result<Self, String> {
        if !by_id {
            return Ok(Self(Vec::new()));
        }
        let answer = transport.call(&MetadataRequest { topics: None, ..Default::default() }, None)?;
        let response = answer.decode::<MetadataRequest<'_>>().map_err(failed)?;
        let mut ids: Vec<(Uuid, String)> = response
            .topics
            .iter()
            .filter_map(|topic| Some((topic.topic_id, topic.name.as_deref()?.to_owned())))
            .collect();
        let missing = names.iter().filter(|name| !response.topics.iter().any(|it| it.name.as_deref() == Some(name)));
        ids.extend(missing.map(|name| (Uuid::from_halves(NO_TOPIC.0, NO_TOPIC.1), name.clone())));
        Ok(Self(ids))
    }

    fn id(&self, name: &str) -> Uuid {
        self.0.iter().find(|(_, known)| known == name).map_or(Uuid::ZERO, |(id, _)| *id)
    }

    fn name(&self, id: Uuid, name: &str) -> String {
        self.0.iter().find(|(known, _)| *known == id).map_or_else(|| name.to_owned(), |(_, name)| name.clone())
    }
}

pub(crate) fn commit(transport: &mut impl Transport, words: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
    let version = words.version.unwrap_or(COMMIT_BY_NAME);
    let names: Vec<String> = words.partitions.iter().map(|(name, ..)| name.clone()).collect();
    let ids = TopicIds::of(transport, &names, version > COMMIT_BY_NAME)?;
    let metadata = "x".repeat(words.metadata_chars);
    let mut topics: Vec<OffsetCommitRequestTopic<'_>> = Vec::new();
    for (name, partition, offset) in &words.partitions {
        let partition = OffsetCommitRequestPartition {
            partition_index: *partition,
            committed_offset: *offset,
            committed_leader_epoch: -1,
            committed_metadata: Some(metadata.as_str().into()),
            ..OffsetCommitRequestPartition::default()
        };
        match topics.iter_mut().find(|it| it.name == name.as_str()) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(OffsetCommitRequestTopic {
                name: name.clone().into(),
                topic_id: ids.id(name),
                partitions: vec![partition],
                ..Default::default()
            }),
        }
    }
    let request = OffsetCommitRequest {
        group_id: words.group.clone().into(),
        generation_id_or_member_epoch: words.epoch,
        member_id: words.member.clone().unwrap_or_default().into(),
        group_instance_id: words.instance.clone().map(Into::into),
        retention_time_ms: words.retention_ms.unwrap_or(-1),
        topics,
        ..OffsetCommitRequest::default()
    };
    let answer = transport.call(&request, Some(version))?;
    let response = answer.decode::<OffsetCommitRequest<'_>>().map_err(failed)?;
    let mut outcomes = Vec::new();
    for topic in &response.topics {
        let name = ids.name(topic.topic_id, &topic.name);
        outcomes.extend(topic.partitions.iter().map(|it| offset_outcome(&name, it.partition_index, it.error_code)));
    }
    Ok(Ok(outcomes))
}

pub(crate) fn fetch(transport: &mut impl Transport, words: &OffsetWords) -> Answered<Vec<FetchedOffset>> {
    let version = words.version.unwrap_or(FETCH_BY_NAME);
    if version <= FETCH_ONE_GROUP {
        return fetch_one_group(transport, words, version);
    }
    let wanted = by_topic(words);
    let names: Vec<String> = wanted.keys().cloned().collect();
    let ids = TopicIds::of(transport, &names, version > FETCH_BY_NAME)?;
    let topics = wanted.into_iter().map(|(name, partition_indexes)| OffsetFetchRequestTopics {
        topic_id: ids.id(&name),
        name: name.into(),
        partition_indexes,
        ..OffsetFetchRequestTopics::default()
    });
    let group = OffsetFetchRequestGroup {
        group_id: words.group.clone().into(),
        member_id: words.member.clone().map(Into::into),
        member_epoch: words.epoch,
        topics: if words.all { None } else { Some(topics.collect()) },
        ..OffsetFetchRequestGroup::default()
    };
    let require_stable = words.require_stable;
    let request = OffsetFetchRequest { groups: vec![group], require_stable, ..OffsetFetchRequest::default() };
    let answer = transport.call(&request, Some(version))?;
    let response = answer.decode::<OffsetFetchRequest<'_>>().map_err(failed)?;
    let group = response.groups.first().ok_or("no group in the answer")?;
    let each = group.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
    let fetched = each.map(|(topic, it)| FetchedOffset {
        topic: ids.name(topic.topic_id, &topic.name),
        partition: it.partition_index,
        offset: it.committed_offset,
        leader_epoch: it.committed_leader_epoch,
        refusal: outcome(it.error_code, None).err(),
    });
    Ok(outcome(group.error_code, None).map(|()| fetched.collect()))
}

/// As versions did that know neither members nor several groups.
fn fetch_one_group(transport: &mut impl Transport, words: &OffsetWords, version: i16) -> Answered<Vec<FetchedOffset>> {
    let topics = by_topic(words).into_iter().map(|(name, partition_indexes)| OffsetFetchRequestTopic {
        name: name.into(),
        partition_indexes,
        ..OffsetFetchRequestTopic::default()
    });
    let request = OffsetFetchRequest {
        group_id: words.group.clone().into(),
        topics: if words.all { None } else { Some(topics.collect()) },
        require_stable: words.require_stable,
        ..OffsetFetchRequest::default()
    };
    let answer = transport.call(&request, Some(version))?;
    let response = answer.decode::<OffsetFetchRequest<'_>>().map_err(failed)?;
    let each = response.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
    let fetched = each.map(|(topic, it)| FetchedOffset {
        topic: topic.name.to_string(),
        partition: it.partition_index,
        offset: it.committed_offset,
        leader_epoch: it.committed_leader_epoch,
        refusal: outcome(it.error_code, None).err(),
    });
    Ok(outcome(response.error_code, None).map(|()| fetched.collect()))
}

pub(crate) fn forget(transport: &mut impl Transport, words: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
    let topics = by_topic(words).into_iter().map(|(topic, indexes)| {
        let partition = |partition_index| OffsetDeleteRequestPartition { partition_index };
        OffsetDeleteRequestTopic { name: topic.into(), partitions: indexes.into_iter().map(partition).collect() }
    });
    let request = OffsetDeleteRequest { group_id: words.group.clone().into(), topics: topics.collect() };
    let answer = transport.call(&request, None)?;
    let response = answer.decode::<OffsetDeleteRequest<'_>>().map_err(failed)?;
    let each = response.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
    let outcomes = each.map(|(topic, it)| offset_outcome(&topic.name, it.partition_index, it.error_code));
    Ok(outcome(response.error_code, None).map(|()| outcomes.collect()))
}

fn offset_outcome(topic: &str, partition: i32, code: i16) -> OffsetOutcome {
    OffsetOutcome { topic: topic.to_owned(), partition, refusal: outcome(code, None).err() }
}

fn by_topic(words: &OffsetWords) -> BTreeMap<String, Vec<i32>> {
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (topic, partition, _) in &words.partitions {
        topics.entry(topic.clone()).or_default().push(*partition);
    }
    topics
}
