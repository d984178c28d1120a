//! Starting: the metadata is loaded first, then the partitions it names, then the group shards.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use riparian_group::{GroupMachine, GroupSoft, config::Changelogs};
use riparian_log::{LogConfig, Logs, Unavailable};
use riparian_metadata::{
    MetadataMachine, Settings, Soft,
    command::{Command, EnsureInternalTopic, InternalTopic},
    reply::Reply,
};
use riparian_types::{Now, PartitionCount, PartitionIndex, Prng, TopicName, Uuid, limits, machine::Waiter, topic};

use crate::{
    Authorizer, Broker, BrokerConfig, OpenError, Partitions, Shell, Wake, cluster,
    config::RequestConfig,
    host::{Host, Hosted},
    lines::PeerLines,
    partition::{Owner, Partition},
    telemetry::Telemetry,
    timers::Timers,
};

impl Broker {
    /// Loads everything from `logs` and is then ready for requests.
    ///
    /// `seed` decides ids of topics, nothing that has to be secret.
    ///
    /// # Errors
    /// The metadata, a group shard or a partition can't be loaded.
    pub fn open(
        config: BrokerConfig,
        logs: Logs,
        authorizer: Box<dyn Authorizer>,
        shell: Arc<dyn Shell>,
        seed: u64,
        now: Now,
    ) -> Result<Arc<Self>, OpenError> {
        let logs = Arc::new(logs);
        let telemetry = Arc::new(Telemetry::new(shell.clone()));
        let metadata = metadata_host(&config, &logs, &telemetry)?;
        let mut luck = Prng::new(seed);
        let image = load_metadata(&metadata, &logs, &mut luck, now)?;
        let partitions = Arc::new(Partitions::new());
        let groups = group_hosts(&config, &logs, &partitions, &telemetry, &image)?;
        let broker = Arc::new_cyclic(|myself| Self {
            request_config: RequestConfig::new(&config.properties),
            shell,
            authorizer,
            partitions,
            image: RwLock::new(cluster::Published { end: metadata.partition().log().end_offset(), image }),
            metadata,
            groups,
            producer_ids: Mutex::default(),
            luck: Mutex::new(luck),
            timers: Timers::new(),
            telemetry,
            next_connection: AtomicU64::new(0),
            checkpointed: AtomicI64::new(0),
            peer_lines: PeerLines::new(),
            myself: myself.clone(),
            config,
            logs,
        });
        broker.find_partitions();
        broker.load_groups(now)?;
        broker.metadata.arm(&broker);
        for (key, wake) in [
            ("log.retention.check.interval.ms", Wake::Retention),
            ("log.flush.offset.checkpoint.interval.ms", Wake::Checkpoints),
        ] {
            broker.wake_at(now.mono.plus_ms(broker.config.properties.long(key)), wake);
        }
        Ok(broker)
    }

    /// Makes the partitions of all topics known, and puts the logs of unknown topics aside.
    fn find_partitions(&self) {
        let image = self.image();
        let offsets: Arc<[Arc<Partition>]> = self.groups.iter().map(|host| host.partition().clone()).collect();
        self.partitions.insert(TopicName::from(topic::CONSUMER_OFFSETS), offsets);
        let metadata = self.metadata.partition().clone();
        self.partitions.insert(TopicName::from(topic::CLUSTER_METADATA), [metadata].into());
        let mut known = BTreeSet::new();
        for (name, summary) in image.topics() {
            known.insert(summary.id);
            self.add_partitions(name, summary.id, summary.partitions);
        }
        for (name, id) in self.logs.topics() {
            if !known.contains(&id) && name.as_str() != topic::CLUSTER_METADATA {
                // Most likely it was deleted in the last moments before a crash. But if the metadata has lost something,
                // this is all that is left of the topic.
                match self.logs.put_aside(&name) {
                    Ok(dirs) => tracing::warn!(
                        topic = %name, %id, ?dirs,
                        "logs of a topic that the metadata does not know are put aside; remove them if it was deleted"
                    ),
                    Err(error) => tracing::error!(topic = %name, %error, "logs of an unknown topic can't be put aside"),
                }
            }
        }
    }

    fn load_groups(&self, now: Now) -> Result<(), OpenError> {
        for host in &self.groups {
            let loaded = host.load(now);
            if let Some(damage) = host.partition().log().damage() {
                tracing::error!(
                    shard = host.number(), %damage,
                    "the groups of this shard are not available until its log is repaired, all others are"
                );
                continue;
            }
            let report = loaded.map_err(|failure| OpenError::Load {
                log: format!("{}-{}", topic::CONSUMER_OFFSETS, host.number()),
                reason: failure.to_string(),
            })?;
            for (group, reason) in &report.quarantined {
                tracing::error!(group, reason, "group can't be loaded; it answers errors until it is deleted");
            }
            for reason in &report.damaged {
                tracing::error!(shard = host.number(), reason, "a damaged record is skipped");
            }
            if report.unknown > 0 {
                tracing::info!(
                    shard = host.number(),
                    records = report.unknown,
                    "records of unknown kinds are left alone"
                );
            }
            GroupMachine::introduce(self, now, host.number(), host.partition().log().end_offset(), ());
            host.arm(self);
        }
        Ok(())
    }

    /// Deletes segments that are past their retention.
    pub(crate) fn enforce_retention(&self, now: Now) {
        for log in self.logs.all() {
            // The records of the shards are kept whole as long as nothing compacts them.
            let is_ours = topic::is_internal(log.topic()) || log.topic().as_str() == topic::CLUSTER_METADATA;
            let is_offline = log.unavailable() == Some(Unavailable::Damaged);
            if !is_ours
                && !is_offline
                && let Err(error) = log.enforce_retention(now.wall)
            {
                tracing::error!(topic = %log.topic(), partition = %log.partition(), %error, "retention failed");
            }
        }
        self.write_checkpoints();
    }

    /// Writes down how far every log is durable, if anything was appended since the last time, and gives back what
    /// nobody has used since then.
    pub(crate) fn write_checkpoints(&self) {
        self.logs.release_idle_buffers();
        let sum: i64 = self.logs.all().iter().map(|log| log.durable_end().0).fold(0, i64::wrapping_add);
        if self.checkpointed.swap(sum, Ordering::Relaxed) != sum
            && let Err(error) = self.logs.write_checkpoints()
        {
            tracing::error!(%error, "checkpoints can't be written");
        }
    }
}

/// Settings of a log that a shard keeps its records in.
const SHARD_LOG: LogConfig =
    LogConfig { delete: false, batch_bytes_max: limits::INTERNAL_BATCH_BYTES_MAX, ..LogConfig::KAFKA };

fn metadata_host(
    config: &BrokerConfig,
    logs: &Arc<Logs>,
    telemetry: &Arc<Telemetry>,
) -> Result<Host<MetadataMachine>, OpenError> {
    let name = TopicName::from(topic::CLUSTER_METADATA);
    let partition = open_partition(logs, &name, Uuid::METADATA_TOPIC, PartitionIndex(0), Owner::Metadata)?;
    let settings = Settings {
        node_id: config.node_id(),
        directory_id: logs.directory_id(),
        properties: config.properties.clone(),
    };
    let fresh = Box::new(move || (MetadataMachine::new(settings.clone()), Soft::default()));
    Ok(Host::new(0, partition, logs.clone(), telemetry.clone(), fresh))
}

/// Loads the metadata; writes the first records of a new data directory.
fn load_metadata(
    host: &Host<MetadataMachine>,
    logs: &Logs,
    luck: &mut Prng,
    now: Now,
) -> Result<riparian_metadata::MetadataImage, OpenError> {
    let failed = |reason: String| OpenError::Load { log: topic::CLUSTER_METADATA.to_owned(), reason };
    let loaded = host.load(now);
    if let Some(damage) = host.partition().log().damage() {
        // Without it nobody knows which topics there are: this is the one log without which there is no start.
        return Err(failed(format!("{damage}; bring the file back from a backup")));
    }
    let report = loaded.map_err(|failure| failed(failure.to_string()))?;
    if let Some((_, reason)) = report.quarantined.first() {
        return Err(failed(reason.clone()));
    }
    if let Some(reason) = report.damaged.first() {
        return Err(failed(reason.clone()));
    }
    let orphans: Vec<_> =
        logs.topics().into_iter().map(|(name, _)| name).filter(|name| **name != *topic::CLUSTER_METADATA).collect();
    if report.records == 0 && !orphans.is_empty() {
        // Starting as if the directory were new would hide everything in it.
        let reason = format!(
            "it is empty or gone, but there are logs of {} topics ({}, ...); bring it back from a backup, or start with an \
             empty data directory",
            orphans.len(),
            orphans[0]
        );
        return Err(failed(reason));
    }
    let id = Uuid::from_random(luck.next_u64(), luck.next_u64());
    let ensure = EnsureInternalTopic { topic: InternalTopic::ConsumerOffsets, id };
    let first = [Command::Bootstrap(Waiter(0)), Command::EnsureInternalTopic(Waiter(0), ensure)];
    for reply in host.start(now, first).map_err(failed)? {
        if let Reply::EnsureInternalTopic(Err(error)) = reply
            && !matches!(error, riparian_metadata::reply::CreateTopicError::AlreadyExists { .. })
        {
            return Err(failed(error.to_string()));
        }
    }
    host.read(Hosted::snapshot).ok_or_else(|| failed("the metadata is not there".to_owned()))
}

fn group_hosts(
    config: &BrokerConfig,
    logs: &Arc<Logs>,
    partitions: &Arc<Partitions>,
    telemetry: &Arc<Telemetry>,
    image: &riparian_metadata::MetadataImage,
) -> Result<Vec<Host<GroupMachine>>, OpenError> {
    let name = TopicName::from(topic::CONSUMER_OFFSETS);
    let (id, PartitionCount(count)) =
        image.topic(&name).map_or((Uuid::ZERO, PartitionCount(0)), |topic| (topic.id, topic.partitions));
    let mut group_config = config.group(telemetry.groups().clone());
    let partitions = Arc::clone(partitions);
    group_config.changelogs = Changelogs::new(Arc::new(move |topic| {
        let partitions = partitions.get(topic)?;
        let ends = partitions.iter().map(|partition| (partition.log().start_offset(), partition.log().durable_end()));
        Some(ends.collect())
    }));
    let group_config = Arc::new(group_config);
    let hosts = (0..count).map(|index| {
        let number = usize::try_from(index).unwrap_or(0);
        let partition = open_partition(logs, &name, id, PartitionIndex(index), Owner::Groups(number))?;
        let group_config = group_config.clone();
        let fresh = Box::new(move || (GroupMachine::new(group_config.clone()), GroupSoft::default()));
        Ok(Host::new(number, partition, logs.clone(), telemetry.clone(), fresh))
    });
    hosts.collect()
}

fn open_partition(
    logs: &Logs,
    name: &TopicName,
    id: Uuid,
    index: PartitionIndex,
    owner: Owner,
) -> Result<Arc<Partition>, OpenError> {
    let log = logs.create(name, id, index, SHARD_LOG).map_err(|error| OpenError::Partition(error.to_string()))?;
    Ok(Arc::new(Partition::new(name.clone(), id, index, owner, log)))
}
