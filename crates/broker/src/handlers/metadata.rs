//! Metadata (key 3, versions 0 to 13): which topics there are and who leads their partitions. This server leads all.
//!
//! A topic that does not exist is created if both the client and `auto.create.topics.enable` allow it; the answer waits
//! for that, so that the client finds the topic at once.

use std::{borrow::Cow, collections::BTreeSet};

use riparian_metadata::{MetadataImage, TopicImage};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        MetadataRequest, MetadataResponse,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
};
use riparian_types::{TopicName, Uuid, topic};
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    handlers::{Api, describe_cluster::CLUSTER_OPERATIONS},
    request::{Context, ReplyTo},
};

pub(crate) const API: Api = Api { key: ApiKey::Metadata, handle };

/// All operations that Kafka knows for a topic: read, write, create, delete, alter, describe, describe configs, alter
/// configs (bits 3 to 8, 10, 11).
pub(crate) const TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;

/// The first version in which topics may be asked for by id; the field is older.
const IDS_FROM: i16 = 12;

/// What to show: a topic asked for, or found.
enum Wanted {
    Name(TopicName),
    Id(Uuid),
}

struct Ask {
    to: ReplyTo,
    listener: String,
    wanted: Vec<(Wanted, Result<(), ErrorCode>)>,
    cluster_operations: bool,
    topic_operations: bool,
}

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = MetadataRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let image = ctx.broker.image();
    let visible = |name: &TopicName| {
        let allowed = ctx.allows(Operation::Describe, Resource::Topic(name));
        if allowed { Ok(()) } else { Err(ErrorCode::TopicAuthorizationFailed) }
    };
    // Version 0 has no way to ask for nothing: an empty list means all topics.
    let all = request.topics.as_ref().is_none_or(|topics| ctx.version() == 0 && topics.is_empty());
    let mut missing = Vec::new();
    let wanted = if all {
        let names = image.topics().map(|(name, _)| name).filter(|name| visible(name).is_ok());
        names.map(|name| (Wanted::Name(name.clone()), Ok(()))).collect()
    } else {
        let mut wanted = Vec::new();
        let mut seen = BTreeSet::new();
        for topic in request.topics.into_iter().flatten() {
            // Once is enough, as in Kafka: a name is short, what is told of a topic can be long.
            if !seen.insert((topic.name.clone(), topic.topic_id)) {
                continue;
            }
            match topic.name {
                Some(name) => {
                    let name = TopicName::from(&*name);
                    if image.topic(&name).is_none() && topic::check_name(&name).is_ok() {
                        missing.push(name.clone());
                    }
                    let outcome = visible(&name);
                    wanted.push((Wanted::Name(name), outcome));
                }
                None => wanted.push((Wanted::Id(topic.topic_id), Ok(()))),
            }
        }
        wanted
    };
    let ask = Ask {
        to: ctx.to,
        listener: ctx.connection.listener().to_owned(),
        wanted,
        cluster_operations: request.include_cluster_authorized_operations,
        topic_operations: request.include_topic_authorized_operations,
    };
    missing.retain(|name| {
        ctx.allows(Operation::Create, Resource::Cluster) || ctx.allows(Operation::Create, Resource::Topic(name))
    });
    if missing.is_empty() || !request.allow_auto_topic_creation || !ctx.broker.request_config.auto_create_topics {
        ask.answer(ctx.broker, &image);
        return Ok(());
    }
    ctx.broker.create_missing_topics(
        ctx.now,
        missing,
        Box::new(move |broker: &Broker| ask.answer(broker, &broker.image())),
    );
    Ok(())
}

impl Ask {
    fn answer(&self, broker: &Broker, image: &MetadataImage) {
        let (host, port) = broker.advertised(&self.listener);
        let node_id = broker.node_id().0;
        let mut response = MetadataResponse {
            brokers: vec![MetadataResponseBroker {
                node_id,
                host: Cow::Owned(host.to_owned()),
                port: i32::from(port),
                ..Default::default()
            }],
            cluster_id: Some(Cow::Owned(broker.cluster_id().to_owned())),
            controller_id: node_id,
            ..Default::default()
        };
        if self.cluster_operations && (8..=10).contains(&self.to.version) {
            response.cluster_authorized_operations = CLUSTER_OPERATIONS;
        }
        response.topics =
            self.wanted.iter().map(|(wanted, outcome)| self.topic(node_id, image, wanted, outcome)).collect();
        broker.reply(self.to, &response);
    }

    fn topic(
        &self,
        node_id: i32,
        image: &MetadataImage,
        wanted: &Wanted,
        outcome: &Result<(), ErrorCode>,
    ) -> MetadataResponseTopic<'static> {
        let failed = |code: ErrorCode| {
            let (name, topic_id) = match wanted {
                Wanted::Name(name) => (Some(Cow::Owned(name.to_string())), Uuid::ZERO),
                // Answers could not leave out a name before requests could.
                Wanted::Id(id) => ((self.to.version < IDS_FROM).then_some(Cow::Borrowed("")), *id),
            };
            MetadataResponseTopic { error_code: code as i16, name, topic_id, ..Default::default() }
        };
        let found = match wanted {
            Wanted::Name(name) => match (outcome, topic::check_name(name)) {
                (Err(code), _) => return failed(*code),
                (Ok(()), Err(_)) => return failed(ErrorCode::InvalidTopicException),
                (Ok(()), Ok(())) => {
                    image.topic(name).map(|topic| (name, topic)).ok_or(ErrorCode::UnknownTopicOrPartition)
                }
            },
            Wanted::Id(_) if self.to.version < IDS_FROM => Err(ErrorCode::InvalidRequest),
            Wanted::Id(id) => image.topic_by_id(*id).ok_or(ErrorCode::UnknownTopicId),
        };
        match found {
            Ok((name, topic)) => self.found(node_id, name, topic),
            Err(code) => failed(code),
        }
    }

    fn found(&self, node_id: i32, name: &TopicName, topic: TopicImage) -> MetadataResponseTopic<'static> {
        let partitions = (0..topic.partitions.0).map(|partition_index| MetadataResponsePartition {
            partition_index,
            leader_id: node_id,
            leader_epoch: 0,
            replica_nodes: vec![node_id],
            isr_nodes: vec![node_id],
            ..Default::default()
        });
        let mut answer = MetadataResponseTopic {
            name: Some(Cow::Owned(name.to_string())),
            topic_id: topic.id,
            is_internal: topic::is_internal(name),
            partitions: partitions.collect(),
            ..Default::default()
        };
        if self.topic_operations && self.to.version >= 8 {
            answer.topic_authorized_operations = TOPIC_OPERATIONS;
        }
        answer
    }
}
