//! OffsetFetch (key 9, versions 1 to 10): how far groups have read. From version 8 on for several groups at once.
//!
//! A topic or partition that is asked for several times is answered once, and a group only so often: an answer must stay
//! in proportion to its request.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
};

use riparian_group::{
    command::{Command, OffsetFetch},
    reply::{FetchedOffset, OffsetFetchError, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        OffsetFetchRequest, OffsetFetchResponse,
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
            OffsetFetchResponseTopic, OffsetFetchResponseTopics,
        },
    },
};
use riparian_types::{GroupId, MemberEpoch, MemberId, PartitionIndex, TopicName, Uuid};
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    groups::{GroupQuestion, Named},
    handlers::Api,
    host::Unavailable,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::OffsetFetch, handle };

/// One group's part of a request.
struct Ask {
    group: GroupId,
    member_id: Option<MemberId>,
    member_epoch: MemberEpoch,
    /// The topics with what the client called them; `None`: all.
    topics: Option<Vec<AskTopic>>,
}

struct AskTopic {
    name: Result<TopicName, ErrorCode>,
    asked_name: String,
    id: Uuid,
    partitions: Vec<i32>,
}

/// One group's part of a response.
struct Answer {
    group: GroupId,
    code: i16,
    topics: Vec<AnswerTopic>,
}

struct AnswerTopic {
    name: String,
    id: Uuid,
    partitions: Vec<Result<FetchedOffset, (i32, ErrorCode)>>,
}

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let version = ctx.version();
    let request = OffsetFetchRequest::decode(reader, version)?;
    reader.finish()?;
    let asks: Vec<Ask> = if version >= 8 {
        let groups = request.groups.into_iter().map(|group| Ask {
            group: GroupId::from(&*group.group_id),
            member_id: group.member_id.map(|id| MemberId::from(&*id)),
            member_epoch: MemberEpoch(group.member_epoch),
            topics: group.topics.map(|topics| {
                let topics = topics.into_iter().map(|topic| AskTopic {
                    name: ctx.broker.topic_name(&topic.name, topic.topic_id, version >= 10),
                    asked_name: topic.name.into_owned(),
                    id: topic.topic_id,
                    partitions: topic.partition_indexes,
                });
                each_once(topics.collect())
            }),
        });
        groups.collect()
    } else {
        let topics = request.topics.map(|topics| {
            let topics = topics.into_iter().map(|topic| AskTopic {
                name: Ok(TopicName::from(&*topic.name)),
                asked_name: topic.name.into_owned(),
                id: Uuid::ZERO,
                partitions: topic.partition_indexes,
            });
            each_once(topics.collect())
        });
        let group = GroupId::from(&*request.group_id);
        vec![Ask { group, member_id: None, member_epoch: MemberEpoch(-1), topics }]
    };
    let mut questions: Vec<(usize, GroupQuestion)> = Vec::new();
    // What is refused never reaches a machine; the others are answered in order.
    let mut refused = vec![None; asks.len()];
    let mut named = Named::default();
    for (ask, refused) in asks.iter().zip(&mut refused) {
        if !ctx.allows(Operation::Describe, Resource::Group(&ask.group)) {
            *refused = Some(ErrorCode::GroupAuthorizationFailed);
            continue;
        }
        if !named.may_be_named(&ask.group) {
            *refused = Some(ErrorCode::InvalidRequest);
            continue;
        }
        let known = |topic: &AskTopic| {
            let name = topic.name.as_ref().ok()?;
            let partitions = topic.partitions.iter().map(|index| PartitionIndex(*index)).collect();
            Some((name.clone(), partitions))
        };
        let fetch = OffsetFetch {
            group_id: ask.group.clone(),
            member_id: ask.member_id.clone(),
            member_epoch: ask.member_epoch,
            topics: ask.topics.as_ref().map(|topics| topics.iter().filter_map(known).collect()),
            require_stable: request.require_stable,
        };
        let shard = ctx.broker.group_shard(&ask.group);
        questions.push((shard, Box::new(move |waiter| Command::OffsetFetch(waiter, fetch))));
    }
    let to = ctx.to;
    ctx.broker.ask_groups(ctx.now, questions, answer, move |broker, found| {
        let mut found = found.into_iter();
        let answers = asks.into_iter().zip(refused).map(|(ask, refused)| {
            let outcome = refused.map_or_else(|| found.next(), |code| Some(Err(code)));
            ask.answer(broker, version, outcome.unwrap_or(Err(ErrorCode::UnknownServerError)))
        });
        let response = response(version, answers.collect());
        broker.reply(to, &response);
    });
    Ok(())
}

/// Every topic and partition once, where it came first.
fn each_once(topics: Vec<AskTopic>) -> Vec<AskTopic> {
    let mut places = BTreeMap::new();
    let mut once: Vec<AskTopic> = Vec::new();
    for topic in topics {
        match places.entry((topic.asked_name.clone(), topic.id)) {
            Entry::Vacant(place) => {
                place.insert(once.len());
                once.push(topic);
            }
            Entry::Occupied(place) => once[*place.get()].partitions.extend(topic.partitions),
        }
    }
    for AskTopic { partitions, .. } in &mut once {
        if !partitions.is_sorted_by(|partition, next| partition < next) {
            let mut seen = BTreeSet::new();
            partitions.retain(|partition| seen.insert(*partition));
        }
    }
    once
}

type Found = Result<Vec<(TopicName, Vec<FetchedOffset>)>, ErrorCode>;

fn answer(_: usize, answer: Result<Reply, Unavailable>) -> Found {
    match answer {
        Ok(Reply::OffsetFetch(Ok(topics))) => Ok(topics),
        Ok(Reply::OffsetFetch(Err(error))) => Err(error_code(&error)),
        Ok(_) => Err(ErrorCode::UnknownServerError),
        Err(Unavailable) => Err(ErrorCode::NotCoordinator),
    }
}

/// The one place where this operation's errors become codes.
fn error_code(error: &OffsetFetchError) -> ErrorCode {
    match error {
        OffsetFetchError::UnknownMemberId => ErrorCode::UnknownMemberId,
        OffsetFetchError::StaleMemberEpoch => ErrorCode::StaleMemberEpoch,
        // Told in the log when the group was loaded.
        OffsetFetchError::Internal(_) => ErrorCode::UnknownServerError,
        other => {
            tracing::error!(?other, "offset fetch error without a code");
            ErrorCode::UnknownServerError
        }
    }
}

impl Ask {
    fn answer(self, broker: &Broker, version: i16, found: Found) -> Answer {
        let found = match found {
            Ok(found) => found,
            Err(code) => {
                // Version 1 has no place for an error of the whole.
                let topics = if version < 2 { self.refused(code) } else { Vec::new() };
                return Answer { group: self.group, code: code as i16, topics };
            }
        };
        let topics = match self.topics {
            Some(asked) => {
                // The machine answers the known topics in the order in which they were asked for.
                let mut found = found.into_iter();
                let topics = asked.into_iter().map(|topic| {
                    let partitions = match topic.name {
                        Ok(_) => found
                            .next()
                            .map_or_else(Vec::new, |(_, partitions)| partitions.into_iter().map(Ok).collect()),
                        Err(code) => topic.partitions.iter().map(|index| Err((*index, code))).collect(),
                    };
                    AnswerTopic { name: topic.asked_name, id: topic.id, partitions }
                });
                topics.collect()
            }
            None => {
                let image = broker.image();
                let topics = found.into_iter().map(|(name, partitions)| AnswerTopic {
                    id: image.topic(&name).map_or(Uuid::ZERO, |topic| topic.id),
                    name: name.to_string(),
                    partitions: partitions.into_iter().map(Ok).collect(),
                });
                topics.collect()
            }
        };
        Answer { group: self.group, code: 0, topics }
    }

    /// An error for every partition.
    fn refused(&self, code: ErrorCode) -> Vec<AnswerTopic> {
        let topics = self.topics.iter().flatten().map(|topic| AnswerTopic {
            name: topic.asked_name.clone(),
            id: topic.id,
            partitions: topic.partitions.iter().map(|index| Err((*index, code))).collect(),
        });
        topics.collect()
    }
}

fn response(version: i16, answers: Vec<Answer>) -> OffsetFetchResponse<'static> {
    let mut response = OffsetFetchResponse::default();
    for answer in answers {
        if version >= 8 {
            response.groups.push(OffsetFetchResponseGroup {
                group_id: Cow::Owned(answer.group.to_string()),
                error_code: answer.code,
                topics: answer.topics.into_iter().map(new_topic).collect(),
                ..Default::default()
            });
        } else {
            response.error_code = answer.code;
            response.topics = answer.topics.into_iter().map(|topic| old_topic(topic)).collect();
        }
    }
    response
}

fn new_topic(topic: AnswerTopic) -> OffsetFetchResponseTopics<'static> {
    let partitions = topic.partitions.into_iter().map(|partition| {
        let parts = parts(partition);
        OffsetFetchResponsePartitions {
            partition_index: parts.index,
            committed_offset: parts.offset,
            committed_leader_epoch: parts.leader_epoch,
            metadata: Some(Cow::Owned(parts.metadata)),
            error_code: parts.code,
            ..Default::default()
        }
    });
    OffsetFetchResponseTopics {
        name: Cow::Owned(topic.name),
        topic_id: topic.id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn old_topic(topic: AnswerTopic) -> OffsetFetchResponseTopic<'static> {
    let partitions = topic.partitions.into_iter().map(|partition| {
        let parts = parts(partition);
        OffsetFetchResponsePartition {
            partition_index: parts.index,
            committed_offset: parts.offset,
            committed_leader_epoch: parts.leader_epoch,
            metadata: Some(Cow::Owned(parts.metadata)),
            error_code: parts.code,
            ..Default::default()
        }
    });
    OffsetFetchResponseTopic { name: Cow::Owned(topic.name), partitions: partitions.collect(), ..Default::default() }
}

struct Parts {
    index: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    code: i16,
}

fn parts(partition: Result<FetchedOffset, (i32, ErrorCode)>) -> Parts {
    match partition {
        Ok(FetchedOffset { partition, committed: Some(committed) }) => Parts {
            index: partition.0,
            offset: committed.offset.0,
            leader_epoch: committed.leader_epoch.0,
            metadata: committed.metadata,
            code: 0,
        },
        Ok(FetchedOffset { partition, committed: None }) => {
            Parts { index: partition.0, offset: -1, leader_epoch: -1, metadata: String::new(), code: 0 }
        }
        Err((index, code)) => Parts { index, offset: -1, leader_epoch: -1, metadata: String::new(), code: code as i16 },
    }
}
