//! Opens the data and the broker on it.

use std::{num::NonZero, path::Path, sync::Arc, thread};

use anyhow::{Context, Error, Result, anyhow};
use riparian_broker::{AdvertisedListener, AllowAll, Broker, BrokerConfig};
use riparian_log::{FlushMode, FsDisk, Identity, LogConfig, Logs, LogsConfig, OfflineLog, OpenError, RecoveryReport};
use riparian_metadata::config;
use riparian_types::{HashSeed, NodeId, Uuid};

use crate::{
    config::{Config, listeners::Endpoint},
    net::hub::Hub,
};

/// Opens the data directory and loads what is in it.
pub(crate) fn open_broker(
    config: &Config,
    data_dir: &Path,
    files_max: NonZero<usize>,
    hub: &Arc<Hub>,
    advertised: &[Endpoint],
) -> Result<Arc<Broker>> {
    let seed = rand::random();
    let now = hub.clock.now();
    let identity = Identity {
        node_id: NodeId(config.broker.node_id()),
        cluster_id: None,
        new_cluster_id: random_uuid().to_string(),
        new_directory_id: random_uuid(),
    };
    let disk = Arc::new(FsDisk::new(files_max));
    let (logs, report) = Logs::open(disk, data_dir, identity, logs_config(&config.broker), now.wall)
        .map_err(|error| explain(error, data_dir))?;
    tell(&report, data_dir);
    tracing::debug!(seed, cluster_id = logs.cluster_id(), "opening");
    let broker_config = BrokerConfig {
        properties: Arc::new(config.broker.clone()),
        advertised: advertised
            .iter()
            .map(|at| AdvertisedListener { listener: at.name.clone(), host: at.host.clone(), port: at.port })
            .collect(),
        hash_seed: HashSeed(rand::random()),
    };
    Broker::open(broker_config, logs, Box::new(AllowAll), Arc::clone(hub) as _, seed, now)
        .with_context(|| format!("the data in {} cannot be loaded", data_dir.display()))
}

fn explain(error: OpenError, data_dir: &Path) -> Error {
    let data_dir = data_dir.display();
    match error {
        OpenError::InUse { .. } => anyhow!(
            "the data directory {data_dir} is used by another server; stop that one, or choose another directory with --data-dir"
        ),
        other => Error::new(other).context(format!("the data directory {data_dir} cannot be used")),
    }
}

fn random_uuid() -> Uuid {
    Uuid::from_random(rand::random(), rand::random())
}

fn logs_config(properties: &config::BrokerConfig) -> LogsConfig {
    LogsConfig {
        flush: if properties.string("riparian.flush").as_deref() == Some("os") {
            FlushMode::Os
        } else {
            FlushMode::Sync
        },
        producer_expiration_ms: properties.long("producer.id.expiration.ms").unsigned_abs(),
        // Until the metadata is loaded and says better.
        topic_defaults: LogConfig::KAFKA,
        recovery_threads: thread::available_parallelism().map_or(1, NonZero::get),
        read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
    }
}

/// What an operator can do about a partition whose files are damaged.
fn way_out(error: &OpenError) -> &'static str {
    match error {
        OpenError::PartitionMetadata { .. } => {
            "bring the file back (`version: 0` in its first line, `topic_id: ` and the id of the topic in its second)"
        }
        _ => {
            "bring the file back from a backup; or give up what follows that offset: without the file \
             recovery-point-offset-checkpoint of the data directory the next start ends the log there and keeps the rest \
             beside it"
        }
    }
}

fn tell(report: &RecoveryReport, data_dir: &Path) {
    if report.is_new {
        tracing::info!(data = %data_dir.display(), "new data directory");
    } else if !report.clean_shutdown {
        tracing::warn!(logs = report.log_count, "the server before did not end in order; its last writes were checked");
    }
    for recovery in &report.partitions {
        let (topic, partition) = (&recovery.topic, recovery.partition.0);
        for damaged in &recovery.damaged {
            tracing::error!(
                %topic, partition, file = %damaged.path.display(), position = damaged.position, offset = %damaged.offset,
                damage = %damaged.damage, "a closed segment is damaged: what follows in it can't be read"
            );
        }
        match &recovery.cut {
            Some(cut) if cut.batches_follow => {
                tracing::error!(
                    %topic, partition, file = %cut.path.display(), position = cut.position, bytes = cut.bytes,
                    end_offset = %cut.end_offset, damage = %cut.damage, kept = ?cut.kept,
                    "log is damaged, and good batches follow: it ends before the damage now, the rest is kept aside"
                );
            }
            Some(cut) => {
                tracing::warn!(%topic, partition, scanned_bytes = recovery.scanned_bytes, ?cut, "bytes that were never durable were cut off");
            }
            None => tracing::debug!(%topic, partition, scanned_bytes = recovery.scanned_bytes, "checked"),
        }
    }
    for offline in &report.offline {
        let OfflineLog { topic, partition, recovery_point, error, .. } = offline;
        let way_out = way_out(error);
        tracing::error!(
            %topic, %partition, durable_end = %recovery_point,
            "partition is offline, everything else is served: {error}; stop the server and {way_out}, or delete the topic"
        );
    }
    for (topic, partition, durable_end) in &report.missing {
        tracing::error!(
            %topic, %partition, %durable_end,
            "log is gone from the data directory; that is right only if the topic was deleted just before the last end"
        );
    }
    for directory in &report.put_aside {
        tracing::error!(
            directory = %directory.display(),
            "a log has lost what says whose it is; it has good batches, so it was put aside instead of removed"
        );
    }
    for removed in &report.removed {
        tracing::info!(directory = %removed.display(), "removed what was left of a deleted topic");
    }
}
