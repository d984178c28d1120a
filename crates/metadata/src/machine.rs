//! The machine: what each command makes of the hard state.
//!
//! One file per kind of command under `machine/`; this one has the branches. Several topics of one command are decided
//! against the hard state plus what the command itself has decided so far ([`Batch`]).

mod configs;
mod create;
mod delete;
mod partitions;
#[cfg(test)]
mod tests;

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use riparian_types::{
    LeaderEpoch, MonoMillis, NodeId, Now, PartitionIndex, ProducerId, TopicName, Uuid,
    machine::{Decision, Inconsistent, Machine, RecordContext, Waiter},
    planted::{self, Bug},
};

use crate::{
    MetadataImage,
    command::Command,
    config::BrokerConfig,
    features,
    record::{FeatureLevelRecord, PartitionRecord, ProducerIdsRecord, Record},
    reply::{Effect, ProducerIdBlock, ProducerIdsExhausted, Reply, TopicChange, Unavailable},
};

/// What the machine knows of the server it runs in; fixed while it runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's number, that every partition's record names.
    pub node_id: NodeId,
    /// The id of the directory of all data.
    pub directory_id: Uuid,
    /// The server's properties.
    pub properties: Arc<BrokerConfig>,
}

/// The machine for the cluster's metadata.
#[derive(Clone, Debug)]
pub struct MetadataMachine {
    settings: Settings,
    image: MetadataImage,
    damage: Option<String>,
}

/// Hard state is equal, whatever the server's settings.
impl PartialEq for MetadataMachine {
    fn eq(&self, other: &Self) -> bool {
        self.image == other.image && self.damage == other.damage
    }
}

/// What a restart may forget.
#[derive(Clone, Debug, Default)]
pub struct Soft {
    /// Topics that were warned about because they asked for more than one replica.
    warned: BTreeSet<TopicName>,
}

impl MetadataMachine {
    /// A cluster without anything.
    pub fn new(settings: Settings) -> Self {
        Self { settings, image: MetadataImage::empty(), damage: None }
    }

    /// The hard state as it is now.
    pub fn image(&self) -> MetadataImage {
        self.image.clone()
    }

    /// What it runs with.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A single server leads every partition from the beginning.
    fn partition(&self, topic_id: Uuid, index: i32) -> Record {
        Record::Partition(PartitionRecord {
            topic_id,
            index: PartitionIndex(index),
            replicas: Vec::from([self.settings.node_id]),
            isr: Vec::from([self.settings.node_id]),
            leader: self.settings.node_id,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            directories: Vec::from([self.settings.directory_id]),
        })
    }

    fn finalize_features(&self) -> (Batch, Reply) {
        let mut batch = Batch::default();
        let missing = features::SUPPORTED.iter().filter(|feature| !self.image.features().contains_key(feature.name));
        batch.records.extend(missing.map(|feature| {
            Record::FeatureLevel(FeatureLevelRecord { name: feature.name.to_string(), level: feature.level_max })
        }));
        (batch, Reply::Bootstrap)
    }

    fn allocate_producer_ids(&self, count: u32) -> (Batch, Reply) {
        let mut batch = Batch::default();
        let first = self.image.next_producer_id();
        let Some(next) = first.0.checked_add(count.into()) else {
            return (batch, Reply::AllocateProducerIds(Err(ProducerIdsExhausted)));
        };
        if count > 0 && !planted::is_in(Bug::ProducerIdsUnrecorded) {
            batch.records.push(Record::ProducerIds(ProducerIdsRecord {
                broker: self.settings.node_id,
                broker_epoch: -1,
                next: ProducerId(next),
            }));
        }
        (batch, Reply::AllocateProducerIds(Ok(ProducerIdBlock { first, count })))
    }
}

/// What a command has decided so far.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    changes: Vec<TopicChange>,
    /// All but [`Effect::TopicsChanged`], which is made of `changes`.
    effects: Vec<Effect>,
}

impl Batch {
    /// Only an attempt: nothing follows.
    fn discard(&mut self) {
        *self = Self::default();
    }

    fn into_decision(mut self, waiter: Waiter, reply: Reply) -> Decision<MetadataMachine> {
        let mut decision = Decision::reply(waiter, Some(()), reply);
        decision.records = self.records;
        if !self.changes.is_empty() {
            decision.effects.push(Effect::TopicsChanged(self.changes));
        }
        decision.effects.append(&mut self.effects);
        decision
    }
}

impl Machine for MetadataMachine {
    type Soft = Soft;
    type Command = Command;
    type Record = Record;
    type Reply = Reply;
    type Effect = Effect;
    /// There is only one: every answer depends on all of the metadata.
    type Scope = ();

    fn decide(&self, soft: &mut Soft, _now: Now, command: Command) -> Decision<Self> {
        let waiter = command.waiter();
        if let Some(reason) = &self.damage {
            let refusal = Reply::Unavailable(Unavailable { reason: reason.clone() });
            return Decision::reply(waiter, None, refusal);
        }
        let (batch, reply) = match command {
            Command::Bootstrap(_) => self.finalize_features(),
            Command::CreateTopics(_, create) => self.create_topics(soft, create),
            Command::EnsureInternalTopic(_, ensure) => self.ensure_internal_topic(soft, &ensure),
            Command::DeleteTopics(_, topics) => self.delete_topics(soft, topics),
            Command::CreatePartitions(_, create) => self.create_partitions(create),
            Command::AlterConfigs(_, alter) => self.alter_configs(soft, alter),
            Command::AllocateProducerIds(_, count) => self.allocate_producer_ids(count),
        };
        batch.into_decision(waiter, reply)
    }

    fn apply(&mut self, context: &RecordContext, record: &Record) -> Result<(), Inconsistent> {
        self.image.apply(context, record)
    }

    fn scope_of(_record: &Record) {}

    fn quarantine(&mut self, (): (), reason: String, _: Option<&Record>) {
        self.damage = Some(reason);
    }

    fn loaded(&self, _soft: &mut Soft, _now: Now) {}

    fn next_deadline(&self, _soft: &Soft) -> Option<MonoMillis> {
        None
    }

    fn on_deadline(&self, _soft: &mut Soft, _now: Now) -> Decision<Self> {
        Decision::nothing()
    }
}
