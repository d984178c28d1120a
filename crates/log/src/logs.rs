//! All logs of a data directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use riparian_types::{NodeId, Offset, PartitionIndex, TopicName, Uuid, WallMillis, limits};

use crate::{
    buffers::ReadBuffers,
    config::{LogConfig, LogsConfig},
    disk::{Disk, DiskError, LockGuard},
    error::{OpenError, TrimError},
    files::{self, MetaProperties, Offsets},
    partition::{self, Known, PartitionLog, PartitionOptions, PartitionRecovery},
};

/// Who the directory belongs to. What a new directory doesn't say yet is written down.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The server's node id; a directory of another one is refused.
    pub node_id: NodeId,
    /// The cluster id, if it is configured; a directory of another one is refused.
    pub cluster_id: Option<String>,
    /// The cluster id of a new directory, if none is configured.
    pub new_cluster_id: String,
    /// The id of a new directory.
    pub new_directory_id: Uuid,
}

/// What was found and done while a data directory was opened.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The directory was new.
    pub is_new: bool,
    /// The server before ended in an orderly way.
    pub clean_shutdown: bool,
    /// Logs that were opened.
    pub log_count: usize,
    /// Logs of which something is worth saying: batches were read, something was cut off or rebuilt.
    pub partitions: Vec<PartitionRecovery>,
    /// Logs that are not there, with the offset up to which they were durable. Their topics may have been deleted in the
    /// last moments.
    pub missing: Vec<(TopicName, PartitionIndex, Offset)>,
    /// Logs whose files are damaged below what was durable. They are there and serve nobody
    /// ([`crate::Unavailable::Damaged`]).
    pub offline: Vec<OfflineLog>,
    /// Directories that were removed: of deleted topics, or never made durable.
    pub removed: Vec<PathBuf>,
    /// Where logs are now that can't be opened because what says whose they are is gone, and that have good batches.
    pub put_aside: Vec<PathBuf>,
}

/// A log that can't be opened because of its files.
#[derive(Debug)]
#[non_exhaustive]
pub struct OfflineLog {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// Up to where it was durable.
    pub recovery_point: Offset,
    /// What is wrong with the files.
    pub error: OpenError,
}

/// All logs of a data directory; see the crate's documentation.
#[derive(Debug)]
pub struct Logs {
    disk: Arc<dyn Disk>,
    buffers: Arc<ReadBuffers>,
    root: PathBuf,
    config: LogsConfig,
    meta: MetaProperties,
    topics: RwLock<BTreeMap<TopicName, TopicLogs>>,
    /// Writers of the checkpoint files take turns.
    checkpoints: Mutex<()>,
    lock: Box<dyn LockGuard>,
}

#[derive(Debug)]
struct TopicLogs {
    /// Zero: only damaged partitions are known, and they don't tell.
    id: Uuid,
    partitions: Vec<Option<Arc<PartitionLog>>>,
}

/// Directories of a deleted topic. What isn't removed now is removed when the data directory is opened next.
#[derive(Debug)]
#[must_use = "call remove to give the space back"]
pub struct Garbage {
    disk: Arc<dyn Disk>,
    dirs: Vec<PathBuf>,
}

impl Garbage {
    /// Removes the directories; that may take a while.
    pub fn remove(self) -> Result<(), DiskError> {
        self.dirs.iter().try_for_each(|dir| self.disk.remove_dir_all(dir))
    }
}

impl Logs {
    /// Opens a data directory, making it if there is none, and all logs in it.
    pub fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        identity: Identity,
        config: LogsConfig,
        now: WallMillis,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        disk.create_dir(root)?;
        let lock = disk.lock(&root.join(files::LOCK)).map_err(|error| match error.source.kind() {
            std::io::ErrorKind::WouldBlock => OpenError::InUse { path: root.to_owned() },
            _ => error.into(),
        })?;
        let (meta, is_new) = open_meta(&*disk, root, identity)?;
        let clean_shutdown = take_clean_shutdown(&*disk, root)?;
        if !is_new && !clean_shutdown {
            // Who made the directory may have been killed before its name was durable.
            sync_names(&*disk, root)?;
        }
        let mut report = RecoveryReport { is_new, clean_shutdown, ..RecoveryReport::default() };
        let logs = Self {
            disk,
            buffers: Arc::default(),
            root: root.to_owned(),
            config,
            meta,
            topics: RwLock::default(),
            checkpoints: Mutex::default(),
            lock,
        };
        logs.load(&mut report, now)?;
        Ok((logs, report))
    }

    /// The cluster id.
    pub fn cluster_id(&self) -> &str {
        &self.meta.cluster_id
    }

    /// The data directory's id.
    pub fn directory_id(&self) -> Uuid {
        self.meta.directory_id
    }

    /// The data directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the data directory is still where it was. If not, whatever is written is lost, or somebody else's.
    pub fn is_in_place(&self) -> bool {
        self.lock.is_in_place()
    }

    /// The log of a partition, if it was created or found.
    pub fn find(&self, topic: &str, partition: PartitionIndex) -> Option<Arc<PartitionLog>> {
        let topics = self.read_topics();
        let index = usize::try_from(partition.0).ok()?;
        topics.get(topic)?.partitions.get(index)?.clone()
    }

    /// The log of a partition, found or made. Nothing is written before the first append.
    ///
    /// Fails if there are logs of a topic of this name with another id: that one has to be deleted first.
    pub fn create(
        &self,
        topic: &TopicName,
        topic_id: Uuid,
        partition: PartitionIndex,
        config: LogConfig,
    ) -> Result<Arc<PartitionLog>, OpenError> {
        let index = usize::try_from(partition.0)
            .ok()
            .filter(|_| partition.0 < limits::TOPIC_PARTITIONS_MAX)
            .ok_or_else(|| OpenError::Partition { topic: topic.clone(), partition })?;
        let mut topics = self.write_topics();
        let logs = topics.entry(topic.clone()).or_insert_with(|| TopicLogs { id: topic_id, partitions: Vec::new() });
        if logs.id.is_zero() {
            logs.id = topic_id;
        }
        if logs.id != topic_id {
            return Err(OpenError::OtherTopic { topic: topic.clone(), existing: logs.id, asked: topic_id });
        }
        if logs.partitions.len() <= index {
            logs.partitions.resize(index + 1, None);
        }
        let options = self.options(topic, partition, config);
        let log = logs.partitions[index].get_or_insert_with(|| Arc::new(PartitionLog::new_empty(options, topic_id)));
        let log = Arc::clone(log);
        drop(topics);
        log.set_config(config);
        Ok(log)
    }

    /// Changes the settings of all logs of a topic.
    pub fn set_config(&self, topic: &str, config: LogConfig) {
        for log in self.of_topic(topic) {
            log.set_config(config);
        }
    }

    /// The logs of a topic, by partition.
    pub fn of_topic(&self, topic: &str) -> Vec<Arc<PartitionLog>> {
        self.read_topics().get(topic).map_or_else(Vec::new, |logs| logs.partitions.iter().flatten().cloned().collect())
    }

    /// All logs, by topic and partition.
    pub fn all(&self) -> Vec<Arc<PartitionLog>> {
        self.read_topics().values().flat_map(|logs| logs.partitions.iter().flatten()).cloned().collect()
    }

    /// The topics that have logs, with their ids.
    pub fn topics(&self) -> Vec<(TopicName, Uuid)> {
        self.read_topics().iter().map(|(topic, logs)| (topic.clone(), logs.id)).collect()
    }

    /// Takes a topic's logs away: from now on nobody finds them, and whoever still has one finds it closed.
    ///
    /// The names are gone for good when this returns; the space is given back by [`Garbage::remove`].
    pub fn delete_topic(&self, topic: &str) -> Result<Garbage, DiskError> {
        let dirs = self.take_away(topic, files::deleted_dir_name)?;
        Ok(Garbage { disk: Arc::clone(&self.disk), dirs })
    }

    /// As [`Logs::delete_topic`], but the directories stay, under names that nobody looks for; returns them.
    pub fn put_aside(&self, topic: &str) -> Result<Vec<PathBuf>, DiskError> {
        self.take_away(topic, files::stray_dir_name)
    }

    fn take_away(
        &self,
        topic: &str,
        new_name: fn(&str, PartitionIndex, Uuid) -> String,
    ) -> Result<Vec<PathBuf>, DiskError> {
        let logs = {
            let mut topics = self.write_topics();
            topics.remove(topic)
        };
        let mut dirs = Vec::new();
        let id = logs.as_ref().map_or(Uuid::ZERO, |logs| logs.id);
        for log in logs.iter().flat_map(|logs| logs.partitions.iter().flatten()) {
            log.close();
            if log.is_on_disk() {
                let dir = self.root.join(new_name(topic, log.partition(), id));
                self.disk.rename(log.dir(), &dir)?;
                dirs.push(dir);
            }
        }
        if !dirs.is_empty() {
            self.disk.sync_dir(&self.root)?;
            // What is written down of these logs must not be held against others of the same name.
            self.write_checkpoints()?;
        }
        Ok(dirs)
    }

    /// Opens one partition's log again after a failure, without what never became durable. Whoever still has the old one
    /// finds it closed. Fails, and may be tried again, while a sync of the old one is still running.
    pub fn reopen(
        &self,
        topic: &TopicName,
        topic_id: Uuid,
        partition: PartitionIndex,
        now: WallMillis,
    ) -> Result<Arc<PartitionLog>, OpenError> {
        let missing = || OpenError::Partition { topic: topic.clone(), partition };
        let old = self.find(topic, partition).ok_or_else(missing)?;
        if old.topic_id() != topic_id {
            return Err(OpenError::OtherTopic { topic: topic.clone(), existing: old.topic_id(), asked: topic_id });
        }
        if old.damage().is_some() {
            return Err(OpenError::Offline { topic: topic.clone(), partition });
        }
        if !old.close_unless_syncing() {
            return Err(OpenError::SyncRunning { topic: topic.clone(), partition });
        }
        old.cut_off_undurable()?;
        let options = || self.options(topic, partition, old.config());
        let known = Known { clean_shutdown: false, recovery_point: old.synced_end(), log_start: old.start_offset() };
        let opened = PartitionLog::open(options(), known, now)?;
        if opened.is_some() {
            self.disk.sync_dir(&self.root)?;
        }
        let log = Arc::new(match opened {
            Some((log, _)) => log,
            None => PartitionLog::new_empty(options(), old.topic_id()),
        });
        log.takes_the_place_of(&old, now);
        let mut topics = self.write_topics();
        let slot = usize::try_from(partition.0).ok().and_then(|index| topics.get_mut(topic)?.partitions.get_mut(index));
        // The topic may have been deleted meanwhile, or made anew.
        let is_still_there = |slot: &&mut Option<_>| slot.as_ref().is_some_and(|log| Arc::ptr_eq(log, &old));
        *slot.filter(is_still_there).ok_or_else(missing)? = Some(Arc::clone(&log));
        Ok(log)
    }

    /// As [`PartitionLog::delete_records`], and the new log start survives a crash.
    pub fn delete_records(&self, log: &PartitionLog, before: Offset) -> Result<Offset, TrimError> {
        let start = log.delete_records(before)?;
        self.write_checkpoints()?;
        Ok(start)
    }

    /// Writes down how far every log is durable and where it begins; to be done every now and then.
    pub fn write_checkpoints(&self) -> Result<(), DiskError> {
        let _turn = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut durable, mut starts) = (Offsets::new(), Offsets::new());
        for log in self.all() {
            if log.is_on_disk() {
                let key = (log.topic().clone(), log.partition());
                starts.insert(key.clone(), log.start_offset());
                durable.insert(key, log.synced_end());
            }
        }
        starts.retain(|_, start| *start > Offset::ZERO);
        let (durable, starts) = (files::offset_checkpoint(&durable), files::offset_checkpoint(&starts));
        self.disk.replace_file(&self.root.join(files::RECOVERY_POINTS), durable.as_bytes())?;
        self.disk.replace_file(&self.root.join(files::LOG_STARTS), starts.as_bytes())?;
        self.disk.sync_dir(&self.root)
    }

    /// Gives memory back that reads needed and did not need since the last call; to be done every now and then.
    pub fn release_idle_buffers(&self) {
        self.buffers.release_idle();
    }

    /// Makes everything durable and leaves the directory so that opening it again is quick. Logs are closed afterwards.
    pub fn shutdown(&self) -> Result<(), DiskError> {
        let logs = self.all();
        let result = self.in_parallel(&logs, |log| {
            log.sync_everything()?;
            log.write_clean_end()
        });
        let written = result.and_then(|()| {
            self.write_checkpoints()?;
            let all_well = logs.iter().all(|log| log.unavailable().is_none());
            if all_well {
                let marker = self.root.join(files::CLEAN_SHUTDOWN);
                self.disk.replace_file(&marker, br#"{"version":0,"brokerEpoch":-1}"#)?;
                self.disk.sync_dir(&self.root)?;
            }
            Ok(())
        });
        logs.iter().for_each(|log| log.close());
        written
    }

    fn load(&self, report: &mut RecoveryReport, now: WallMillis) -> Result<(), OpenError> {
        let recovery_points = self.read_checkpoint(files::RECOVERY_POINTS)?;
        let log_starts = self.read_checkpoint(files::LOG_STARTS)?;
        let mut found = Vec::new();
        for entry in self.disk.list(&self.root)? {
            if !entry.is_dir {
                continue;
            }
            if files::is_deleted_dir_name(&entry.name) {
                let path = self.root.join(&entry.name);
                self.disk.remove_dir_all(&path)?;
                report.removed.push(path);
            } else if let Some(partition) = files::parse_partition_dir_name(&entry.name) {
                found.push(partition);
            }
        }
        let present: BTreeSet<_> = found.iter().collect();
        let missing =
            recovery_points.iter().filter(|(key, durable)| **durable > Offset::ZERO && !present.contains(key));
        report.missing = missing.map(|((topic, partition), durable)| (topic.clone(), *partition, *durable)).collect();
        let clean_shutdown = report.clean_shutdown;
        let opened = Mutex::new(Vec::new());
        self.in_parallel(&found, |key| {
            let offset = |offsets: &Offsets| offsets.get(key).copied().unwrap_or(Offset::ZERO);
            let known =
                Known { clean_shutdown, recovery_point: offset(&recovery_points), log_start: offset(&log_starts) };
            let options = self.options(&key.0, key.1, self.config.topic_defaults);
            let log = match PartitionLog::open(options, known, now) {
                Ok(log) => Ok(log),
                Err(error) if error.is_damage() => Err((known, error)),
                Err(error) => return Err(error),
            };
            opened.lock().unwrap_or_else(PoisonError::into_inner).push((key.clone(), log));
            Ok::<(), OpenError>(())
        })?;
        if !report.clean_shutdown && !found.is_empty() {
            // Their files were made durable while they were opened, their names are now.
            self.disk.sync_dir(&self.root)?;
        }
        let mut opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        opened.sort_by(|(a, _), (b, _)| a.cmp(b));
        for ((topic, partition), log) in opened {
            let log = match log {
                Ok(log) => log,
                Err((known, error)) => {
                    let id = self.topic_id_on_disk(&topic, partition)?;
                    let options = self.options(&topic, partition, self.config.topic_defaults);
                    let log = PartitionLog::offline(options, id, known, error.to_string());
                    let recovery_point = known.recovery_point;
                    report.log_count += 1;
                    report.offline.push(OfflineLog { topic: topic.clone(), partition, recovery_point, error });
                    self.insert_loaded(topic, partition, log)?;
                    continue;
                }
            };
            let Some((log, recovery)) = log else {
                self.clear_away(&topic, partition, report)?;
                continue;
            };
            report.log_count += 1;
            let was_read = recovery.scanned_bytes > 0 && !report.clean_shutdown;
            if was_read || recovery.cut.is_some() || recovery.rebuilt_indexes > 0 {
                report.partitions.push(recovery);
            }
            self.insert_loaded(topic, partition, log)?;
        }
        Ok(())
    }

    /// The topic id that a partition's directory names; zero if it doesn't.
    fn topic_id_on_disk(&self, topic: &TopicName, partition: PartitionIndex) -> Result<Uuid, DiskError> {
        let dir = self.root.join(files::partition_dir_name(topic, partition));
        let metadata = self.disk.read_file(&dir.join(files::PARTITION_METADATA))?;
        let id = metadata.and_then(|bytes| files::parse_partition_metadata(str::from_utf8(&bytes).ok()?));
        Ok(id.unwrap_or(Uuid::ZERO))
    }

    /// Removes the directory of a log of which nothing seems to have been durable. A good batch in it says otherwise,
    /// perhaps: then it is put aside.
    fn clear_away(
        &self,
        topic: &TopicName,
        partition: PartitionIndex,
        report: &mut RecoveryReport,
    ) -> Result<(), DiskError> {
        let path = self.root.join(files::partition_dir_name(topic, partition));
        if !partition::has_good_batch(&*self.disk, &path)? {
            self.disk.remove_dir_all(&path)?;
            report.removed.push(path);
            return Ok(());
        }
        // Nobody knows the topic's id.
        let mut unique = 0;
        let mut aside = || {
            unique += 1;
            self.root.join(files::stray_dir_name(topic, partition, Uuid::from_halves(0, unique)))
        };
        let mut to = aside();
        while self.disk.list(&to).is_ok() {
            to = aside();
        }
        self.disk.rename(&path, &to)?;
        self.disk.sync_dir(&self.root)?;
        report.put_aside.push(to);
        Ok(())
    }

    fn insert_loaded(&self, topic: TopicName, partition: PartitionIndex, log: PartitionLog) -> Result<(), OpenError> {
        let index = usize::try_from(partition.0)
            .ok()
            .filter(|_| partition.0 < limits::TOPIC_PARTITIONS_MAX)
            .ok_or_else(|| OpenError::Partition { topic: topic.clone(), partition })?;
        let mut topics = self.write_topics();
        let id = log.topic_id();
        let logs = topics.entry(topic.clone()).or_insert_with(|| TopicLogs { id, partitions: Vec::new() });
        if logs.id.is_zero() {
            logs.id = id;
        }
        if logs.id != id && !id.is_zero() {
            return Err(OpenError::OtherTopic { topic, existing: logs.id, asked: id });
        }
        if logs.partitions.len() <= index {
            logs.partitions.resize(index + 1, None);
        }
        logs.partitions[index] = Some(Arc::new(log));
        Ok(())
    }

    fn read_checkpoint(&self, name: &str) -> Result<Offsets, DiskError> {
        // A damaged checkpoint is worth as much as none: it only ever narrows what has to be read.
        let bytes = self.disk.read_file(&self.root.join(name))?;
        let offsets = bytes.and_then(|bytes| files::parse_offset_checkpoint(str::from_utf8(&bytes).ok()?));
        Ok(offsets.unwrap_or_default())
    }

    fn options(&self, topic: &TopicName, partition: PartitionIndex, config: LogConfig) -> PartitionOptions {
        PartitionOptions {
            disk: Arc::clone(&self.disk),
            buffers: Arc::clone(&self.buffers),
            root: self.root.clone(),
            topic: topic.clone(),
            partition,
            config,
            flush: self.config.flush,
            producer_expiration_ms: self.config.producer_expiration_ms,
            read_at_open_bytes: self.config.read_at_open_bytes,
        }
    }

    /// Does something for every item, on as many threads as the configuration allows; stops at the first failure.
    fn in_parallel<T: Sync, E: Send>(&self, items: &[T], work: impl Fn(&T) -> Result<(), E> + Sync) -> Result<(), E> {
        let thread_count = self.config.recovery_threads.min(items.len());
        if thread_count <= 1 {
            return items.iter().try_for_each(work);
        }
        let next = AtomicUsize::new(0);
        let run = || {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = work(item) {
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(run)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    fn read_topics(&self) -> RwLockReadGuard<'_, BTreeMap<TopicName, TopicLogs>> {
        // The map is whole between any two statements that can panic.
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_topics(&self) -> RwLockWriteGuard<'_, BTreeMap<TopicName, TopicLogs>> {
        self.topics.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_meta(disk: &dyn Disk, root: &Path, identity: Identity) -> Result<(MetaProperties, bool), OpenError> {
    let path = root.join(files::META_PROPERTIES);
    let Some(bytes) = disk.read_file(&path)? else {
        let meta = MetaProperties {
            cluster_id: identity.cluster_id.unwrap_or(identity.new_cluster_id),
            node_id: identity.node_id.0,
            directory_id: identity.new_directory_id,
        };
        disk.replace_file(&path, meta.to_text().as_bytes())?;
        sync_names(disk, root)?;
        return Ok((meta, true));
    };
    let text = str::from_utf8(&bytes).map_err(|_| "is not UTF-8");
    let meta =
        text.and_then(MetaProperties::parse).map_err(|what| OpenError::MetaProperties { path: path.clone(), what })?;
    if meta.node_id != identity.node_id.0 {
        return Err(OpenError::OtherNode {
            path: root.to_owned(),
            stored: meta.node_id,
            configured: identity.node_id.0,
        });
    }
    match identity.cluster_id {
        Some(configured) if configured != meta.cluster_id => {
            Err(OpenError::OtherCluster { path: root.to_owned(), stored: meta.cluster_id, configured })
        }
        Some(_) | None => Ok((meta, false)),
    }
}

/// Makes the directory's own name durable, and the names in it.
fn sync_names(disk: &dyn Disk, root: &Path) -> Result<(), DiskError> {
    disk.sync_dir(root)?;
    match root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => disk.sync_dir(parent),
        None => Ok(()),
    }
}

/// Whether the last end was orderly; that is so for one start only.
fn take_clean_shutdown(disk: &dyn Disk, root: &Path) -> Result<bool, DiskError> {
    let marker = root.join(files::CLEAN_SHUTDOWN);
    if disk.read_file(&marker)?.is_none() {
        return Ok(false);
    }
    disk.remove_file(&marker)?;
    disk.sync_dir(root)?;
    Ok(true)
}
