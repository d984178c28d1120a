//! Deleting topics.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use riparian_types::{TopicName, Uuid, topic};

use super::{Batch, MetadataMachine, Soft};
use crate::{
    TopicImage,
    command::TopicSelector,
    record::{Record, RemoveTopicRecord},
    reply::{DeleteTopicError, DeletedTopic, Reply, TopicChange},
};

impl MetadataMachine {
    pub(super) fn delete_topics(&self, soft: &mut Soft, selectors: Vec<TopicSelector>) -> (Batch, Reply) {
        let mut batch = Batch::default();
        let found: Vec<_> = selectors.iter().map(|selector| self.deletable(selector)).collect();
        let mut named: BTreeMap<Uuid, usize> = BTreeMap::new();
        for (_, topic) in found.iter().flatten() {
            *named.entry(topic.id).or_default() += 1;
        }
        let mut unknown = BTreeSet::new();
        let results = selectors.into_iter().zip(found).map(|(selector, found)| {
            let result = found.and_then(|(name, topic)| {
                if named.get(&topic.id).is_some_and(|count| *count > 1) {
                    return Err(DeleteTopicError::NamedTwice { name });
                }
                soft.warned.remove(&name);
                batch.records.push(Record::RemoveTopic(RemoveTopicRecord { id: topic.id }));
                let partitions = topic.partitions;
                batch.changes.push(TopicChange::Deleted { name: name.clone(), id: topic.id, partitions });
                Ok(DeletedTopic { name, id: topic.id })
            });
            let result = result.map_err(|error| match error {
                DeleteTopicError::UnknownName { name } if !unknown.insert(name.clone()) => {
                    DeleteTopicError::NamedTwice { name }
                }
                error => error,
            });
            (selector, result)
        });
        let reply = Reply::DeleteTopics(results.collect());
        (batch, reply)
    }

    fn deletable(&self, selector: &TopicSelector) -> Result<(TopicName, TopicImage), DeleteTopicError> {
        if !self.settings.properties.bool("delete.topic.enable") {
            return Err(DeleteTopicError::Disabled);
        }
        let (name, topic) = match selector {
            TopicSelector::Name(name) => {
                let topic = self.image.topic(name);
                (name, topic.ok_or_else(|| DeleteTopicError::UnknownName { name: name.clone() })?)
            }
            TopicSelector::Id(id) => self.image.topic_by_id(*id).ok_or(DeleteTopicError::UnknownId { id: *id })?,
        };
        if topic::is_internal(name) {
            return Err(DeleteTopicError::Internal { name: name.clone() });
        }
        Ok((name.clone(), topic))
    }
}
