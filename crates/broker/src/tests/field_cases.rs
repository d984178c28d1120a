//! Cases from the field, by their ids (`docs/field-cases.md`), that a broker shows without sockets.

use riparian_protocol::{
    ApiKey,
    messages::{
        ApiVersionsRequest, DeleteRecordsRequest, IncrementalAlterConfigsRequest, ListOffsetsRequest,
        create_topics_request::CreatableTopicConfig,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
};
use riparian_records::{Batch, Compression};

use super::*;

mod auto_creation;
mod clients;
mod damage;
mod fetches;
mod full_disk;
mod internal_topics;
mod offsets_of_tasks;
mod storage;

impl Server {
    /// Hands over a frame; what becomes of it, or why the connection is closed.
    fn frame(&mut self, frame: Vec<u8>) -> Outcome {
        let slot = self.slot;
        self.slot += 1;
        if self.broker.handle(self.shell.now(), &self.connection, slot, frame.into()).is_err() {
            return Outcome::Closed;
        }
        self.shell.run_jobs();
        self.outcome(slot)
    }

    fn outcome(&self, slot: u64) -> Outcome {
        match self.shell.replies.lock().unwrap().remove(&(self.connection.id(), slot)) {
            Some(reply @ Reply::Frame { .. }) => Outcome::Answered(reply.body().unwrap()),
            Some(Reply::None) => Outcome::Silent,
            Some(Reply::Close) => Outcome::Closed,
            None => Outcome::Waiting,
        }
    }

    fn create_topic_with(&mut self, name: &'static str, partitions: i32, configs: &[(&'static str, &'static str)]) {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: (*name).into(),
            value: Some((*value).into()),
            ..Default::default()
        });
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        assert_eq!(self.ask(&request, 7, |r| r.topics[0].error_code), 0, "{name}");
    }

    fn topic_id(&mut self, name: &'static str) -> Uuid {
        let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        self.ask(&MetadataRequest { topics: Some(vec![topic]), ..Default::default() }, 12, |r| r.topics[0].topic_id)
    }

    /// Produces bytes to one partition; error code and base offset.
    fn produce_bytes(&mut self, topic: &'static str, partition: i32, bytes: Vec<u8>) -> (i16, i64) {
        let request = produce_to(topic, vec![(partition, bytes)], -1);
        self.ask(&request, 9, |r| {
            let answer = &r.responses[0].partition_responses[0];
            (answer.error_code, answer.base_offset)
        })
    }

    /// The offset and its timestamp that ListOffsets finds.
    fn offset_at(&mut self, topic: &'static str, timestamp: i64) -> (i64, i64) {
        let partition = ListOffsetsPartition { timestamp, current_leader_epoch: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: topic.into(), partitions: vec![partition], ..Default::default() };
        let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        self.ask(&request, 7, |r| {
            let answer = &r.topics[0].partitions[0];
            assert_eq!(answer.error_code, 0);
            (answer.offset, answer.timestamp)
        })
    }

    /// Error code and records of a fetch from the first partition.
    fn fetched(&mut self, topic: &'static str, from: i64) -> (i16, Vec<u8>) {
        self.ask(&fetch(topic, from, 0), 12, |r| {
            let answer = &r.responses[0].partitions[0];
            (answer.error_code, answer.records.as_ref().unwrap().to_vec())
        })
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Answered(Bytes),
    /// Answered by no bytes at all.
    Silent,
    Closed,
    Waiting,
}

impl Outcome {
    fn answer(self) -> Bytes {
        match self {
            Self::Answered(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }
}

/// A request frame as clients write it; the version may be one that nobody knows.
fn framed<R: Request<'static>>(request: &R, body_version: i16, version: i16) -> Vec<u8> {
    let mut frame = Vec::new();
    let header = RequestHeader {
        api_key: R::API_KEY.code(),
        api_version: body_version,
        client_id: Some("test".into()),
        ..Default::default()
    };
    header.encode(&mut frame).unwrap();
    request.encode(&mut frame, body_version).unwrap();
    frame[2..4].copy_from_slice(&version.to_be_bytes());
    frame
}

fn produce_to(topic: &'static str, data: Vec<(i32, Vec<u8>)>, acks: i16) -> ProduceRequest<'static> {
    let data = data.into_iter().map(|(index, bytes)| PartitionProduceData {
        index,
        records: Some(bytes.into()),
        ..Default::default()
    });
    let topic = TopicProduceData { name: topic.into(), partition_data: data.collect(), ..Default::default() };
    ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() }
}

/// A batch with one record per timestamp.
fn timed(compression: Compression, timestamps: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::PLAIN });
    for timestamp in timestamps {
        builder.push(WallMillis(*timestamp), Some(b"key"), Some(b"a value like many others"));
    }
    builder.build()
}
