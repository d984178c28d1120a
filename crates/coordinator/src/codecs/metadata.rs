//! Records of topics, configs, features and producer ids as they stand in `__cluster_metadata`, in the formats of Kafka
//! 4.4. They have no keys.

use std::borrow::Cow;

use riparian_metadata::{
    ConfigResource, MetadataMachine,
    record::{
        ConfigRecord, FeatureLevelRecord, PartitionRecord, ProducerIdsRecord, Record, RemoveTopicRecord, TopicRecord,
    },
};
use riparian_records::stored::{self, MetadataRecord};
use riparian_types::{LeaderEpoch, NodeId, PartitionIndex, ProducerId, TopicName};
use riparian_wire::{DecodeError, EncodeError};

use crate::codec::{Decoded, KeyValue, RecordCodec};

/// The codec of [`MetadataMachine`]'s records.
#[derive(Clone, Copy, Debug)]
pub struct MetadataCodec;

/// The version of a partition record that has directories; without eligible leader replicas, which need version 2.
const PARTITION_VERSION: i16 = 1;
/// The version of all other records.
const VERSION: i16 = 0;

impl RecordCodec<MetadataMachine> for MetadataCodec {
    fn encode(record: &Record) -> KeyValue {
        let value = encode(record).expect("every field of a machine's record fits the version it is written in");
        KeyValue { key: None, value: Some(value) }
    }

    fn decode(_: Option<&[u8]>, value: Option<&[u8]>) -> Decoded<MetadataMachine> {
        let Some(value) = value else {
            return Decoded::Damaged("a record without a value".to_owned());
        };
        match MetadataRecord::from_bytes(value) {
            Ok(record) => {
                let kind = i32::from(record.record_type());
                decode(record).map_or(Decoded::Unknown { kind }, Decoded::Record)
            }
            Err(DecodeError::UnknownType { found }) => Decoded::Unknown { kind: found },
            Err(error) => Decoded::DamagedScope { scope: (), tombstone: None, reason: error.to_string() },
        }
    }
}

fn encode(record: &Record) -> Result<Vec<u8>, EncodeError> {
    let (record, version): (MetadataRecord<'_>, i16) = match record {
        Record::Topic(TopicRecord { name, id }) => {
            let name = Cow::Borrowed(name.as_str());
            (stored::TopicRecord { name, topic_id: *id, ..Default::default() }.into(), VERSION)
        }
        Record::Partition(partition) => (encode_partition(partition).into(), PARTITION_VERSION),
        Record::Config(ConfigRecord { resource, key, value }) => {
            let record = stored::ConfigRecord {
                resource_type: resource.type_number(),
                resource_name: Cow::Owned(resource.name()),
                name: Cow::Borrowed(key),
                value: value.as_deref().map(Cow::Borrowed),
                ..Default::default()
            };
            (record.into(), VERSION)
        }
        Record::RemoveTopic(RemoveTopicRecord { id }) => {
            (stored::RemoveTopicRecord { topic_id: *id, ..Default::default() }.into(), VERSION)
        }
        Record::FeatureLevel(FeatureLevelRecord { name, level }) => {
            let name = Cow::Borrowed(name.as_str());
            (stored::FeatureLevelRecord { name, feature_level: *level, ..Default::default() }.into(), VERSION)
        }
        Record::ProducerIds(ProducerIdsRecord { broker, broker_epoch, next }) => {
            let record = stored::ProducerIdsRecord {
                broker_id: broker.0,
                broker_epoch: *broker_epoch,
                next_producer_id: next.0,
                ..Default::default()
            };
            (record.into(), VERSION)
        }
        Record::NoOp => (stored::NoOpRecord::default().into(), VERSION),
    };
    record.to_bytes(version)
}

fn encode_partition(partition: &PartitionRecord) -> stored::PartitionRecord {
    stored::PartitionRecord {
        partition_id: partition.index.0,
        topic_id: partition.topic_id,
        replicas: partition.replicas.iter().map(|node| node.0).collect(),
        isr: partition.isr.iter().map(|node| node.0).collect(),
        leader: partition.leader.0,
        leader_epoch: partition.leader_epoch.0,
        partition_epoch: partition.partition_epoch,
        directories: partition.directories.clone(),
        ..Default::default()
    }
}

/// `None` for records that say nothing to this server.
fn decode(record: MetadataRecord<'_>) -> Option<Record> {
    Some(match record {
        MetadataRecord::Topic(record) => {
            Record::Topic(TopicRecord { name: TopicName::from(&*record.name), id: record.topic_id })
        }
        MetadataRecord::Partition(record) => Record::Partition(PartitionRecord {
            topic_id: record.topic_id,
            index: PartitionIndex(record.partition_id),
            replicas: record.replicas.into_iter().map(NodeId).collect(),
            isr: record.isr.into_iter().map(NodeId).collect(),
            leader: NodeId(record.leader),
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: record.partition_epoch,
            directories: record.directories,
        }),
        MetadataRecord::Config(record) => Record::Config(ConfigRecord {
            resource: ConfigResource::from_parts(record.resource_type, &record.resource_name)?,
            key: record.name.into_owned(),
            value: record.value.map(Cow::into_owned),
        }),
        MetadataRecord::RemoveTopic(record) => Record::RemoveTopic(RemoveTopicRecord { id: record.topic_id }),
        MetadataRecord::FeatureLevel(record) => {
            Record::FeatureLevel(FeatureLevelRecord { name: record.name.into_owned(), level: record.feature_level })
        }
        MetadataRecord::ProducerIds(record) => Record::ProducerIds(ProducerIdsRecord {
            broker: NodeId(record.broker_id),
            broker_epoch: record.broker_epoch,
            next: ProducerId(record.next_producer_id),
        }),
        MetadataRecord::NoOp(_) => Record::NoOp,
        _ => return None,
    })
}
