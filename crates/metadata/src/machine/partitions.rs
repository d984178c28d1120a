//! Giving topics more partitions.

use alloc::{collections::BTreeSet, vec::Vec};

use riparian_types::{
    PartitionCount, TopicName,
    limits::{PARTITIONS_PER_REQUEST_MAX, TOPIC_PARTITIONS_MAX},
    topic,
};

use super::{Batch, MetadataMachine};
use crate::{
    command::{CreatePartitions, MorePartitions},
    reply::{CreatePartitionsError, Growing, InvalidAssignment, LimitExceeded, Reply, TopicChange},
};

impl MetadataMachine {
    pub(super) fn create_partitions(&self, create: CreatePartitions) -> (Batch, Reply) {
        let mut batch = Batch::default();
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<TopicName> =
            create.topics.iter().filter(|topic| !seen.insert(&topic.name)).map(|topic| topic.name.clone()).collect();
        let mut added = 0;
        let mut results = Vec::with_capacity(create.topics.len());
        for topic in create.topics {
            let result = if twice.contains(&topic.name) {
                Err(CreatePartitionsError::NamedTwice { name: topic.name.clone() })
            } else {
                self.grow(&topic, &mut added, &mut batch)
            };
            results.push((topic.name, result));
        }
        if create.validate_only {
            batch.discard();
        }
        (batch, Reply::CreatePartitions(results))
    }

    fn grow(
        &self,
        more: &MorePartitions,
        added: &mut i64,
        batch: &mut Batch,
    ) -> Result<PartitionCount, CreatePartitionsError> {
        let MorePartitions { name, count, assignment } = more;
        let topic = self.image.topic(name).ok_or_else(|| CreatePartitionsError::UnknownTopic { name: name.clone() })?;
        if topic::is_internal(name) {
            return Err(CreatePartitionsError::Internal { name: name.clone() });
        }
        let (asked, current) = (*count, topic.partitions.0);
        if asked <= current {
            return Err(CreatePartitionsError::NotMore { name: name.clone(), asked, current });
        }
        if asked > TOPIC_PARTITIONS_MAX {
            let (what, max) = (Growing::TopicPartitions, TOPIC_PARTITIONS_MAX.into());
            return Err(CreatePartitionsError::Limit(LimitExceeded { what, max }));
        }
        let new_partitions = asked - current;
        if let Some(assignment) = assignment {
            let assignments = assignment.len();
            if usize::try_from(new_partitions) != Ok(assignments) {
                let error = InvalidAssignment::Count { assignments, new_partitions };
                return Err(CreatePartitionsError::InvalidAssignment(error));
            }
            for (index, replicas) in (current..).zip(assignment) {
                self.check_replicas(index, replicas).map_err(CreatePartitionsError::InvalidAssignment)?;
            }
        }
        let in_request = *added + i64::from(new_partitions);
        if in_request > PARTITIONS_PER_REQUEST_MAX {
            let (what, max) = (Growing::RequestPartitions, PARTITIONS_PER_REQUEST_MAX);
            return Err(CreatePartitionsError::Limit(LimitExceeded { what, max }));
        }
        self.check_partitions(in_request).map_err(CreatePartitionsError::Limit)?;
        *added = in_request;
        batch.records.extend((current..asked).map(|index| self.partition(topic.id, index)));
        batch.changes.push(TopicChange::Grown {
            name: name.clone(),
            id: topic.id,
            before: topic.partitions,
            partitions: PartitionCount(asked),
        });
        Ok(PartitionCount(asked))
    }
}
