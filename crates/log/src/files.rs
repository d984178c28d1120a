//! Names and small text files of a data directory, as Kafka has them.
//!
//! ```text
//! <data dir>/
//!   .lock                             held by the one server that uses the directory
//!   .kafka_cleanshutdown              there after an orderly end, removed at the next start
//!   meta.properties                   version=1, cluster.id, node.id, directory.id
//!   recovery-point-offset-checkpoint  0 | count | "<topic> <partition> <durable end>"*
//!   log-start-offset-checkpoint       0 | count | "<topic> <partition> <log start>"*
//!   <topic>-<partition>/
//!     partition.metadata              version: 0 | topic_id: <id>
//!     leader-epoch-checkpoint         0 | count | "<epoch> <start offset>"*
//!     index-entries-checkpoint        0 | count | "<base offset> <entries of .index> <entries of .timeindex>"*
//!     <base offset, 20 digits>.log .index .timeindex
//!     <offset, 20 digits>.snapshot    producers' state at this offset
//!   <topic>-<partition>.<unique>-delete/   of a deleted topic, removed at the next start
//! ```

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

use riparian_types::{LeaderEpoch, Offset, PartitionIndex, TopicName, Uuid};

use crate::{epochs::EpochStart, index::StoredIndex};

pub(crate) const LOCK: &str = ".lock";
pub(crate) const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
pub(crate) const META_PROPERTIES: &str = "meta.properties";
pub(crate) const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
pub(crate) const LOG_STARTS: &str = "log-start-offset-checkpoint";
pub(crate) const PARTITION_METADATA: &str = "partition.metadata";
pub(crate) const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";
/// Our own; Kafka takes no notice of it.
pub(crate) const INDEX_ENTRIES: &str = "index-entries-checkpoint";

const STRAY_SUFFIX: &str = "-stray";
const DELETED_SUFFIX: &str = "-delete";
const NAME_BYTES_MAX: usize = 255;

/// Which file of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Log,
    OffsetIndex,
    TimeIndex,
    Snapshot,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::Snapshot];

    fn suffix(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::OffsetIndex => "index",
            Self::TimeIndex => "timeindex",
            Self::Snapshot => "snapshot",
        }
    }

    /// The file of this kind for the segment (or state) at an offset.
    pub(crate) fn path(self, dir: &Path, offset: Offset) -> PathBuf {
        dir.join(format!("{:020}.{}", offset.0, self.suffix()))
    }

    /// The offset and kind that a file name stands for.
    pub(crate) fn of(name: &str) -> Option<(Offset, Self)> {
        let (digits, suffix) = name.split_once('.')?;
        let kind = Self::ALL.into_iter().find(|kind| kind.suffix() == suffix)?;
        if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some((Offset(digits.parse().ok()?), kind))
    }
}

/// The directory of a partition.
pub(crate) fn partition_dir_name(topic: &str, partition: PartitionIndex) -> String {
    format!("{topic}-{partition}")
}

/// The topic and partition that a directory name stands for.
pub(crate) fn parse_partition_dir_name(name: &str) -> Option<(TopicName, PartitionIndex)> {
    if name.contains('.') && name.ends_with(DELETED_SUFFIX) {
        return None;
    }
    let (topic, partition) = name.rsplit_once('-')?;
    let all_digits = !partition.is_empty() && partition.bytes().all(|byte| byte.is_ascii_digit());
    if topic.is_empty() || !all_digits {
        return None;
    }
    Some((TopicName::from(topic), PartitionIndex(partition.parse().ok()?)))
}

/// What the directory of a deleted partition is renamed to.
pub(crate) fn deleted_dir_name(topic: &str, partition: PartitionIndex, unique: Uuid) -> String {
    dir_name_with(topic, partition, unique, DELETED_SUFFIX)
}

/// What the directory of a partition is renamed to that nobody knows, as in Kafka.
pub(crate) fn stray_dir_name(topic: &str, partition: PartitionIndex, unique: Uuid) -> String {
    dir_name_with(topic, partition, unique, STRAY_SUFFIX)
}

fn dir_name_with(topic: &str, partition: PartitionIndex, unique: Uuid, suffix: &str) -> String {
    let suffix = format!("-{partition}.{unique}{suffix}");
    // Topic names are ASCII.
    let room = NAME_BYTES_MAX - suffix.len();
    format!("{}{suffix}", topic.get(..room).unwrap_or(topic))
}

/// Whether a directory is what is left of a deleted topic.
pub(crate) fn is_deleted_dir_name(name: &str) -> bool {
    name.contains('.') && name.ends_with(DELETED_SUFFIX)
}

pub(crate) fn partition_metadata(topic_id: Uuid) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

pub(crate) fn parse_partition_metadata(text: &str) -> Option<Uuid> {
    let mut topic_id = None;
    for line in text.lines() {
        match line.split_once(": ")? {
            ("version", "0") => {}
            ("topic_id", id) => topic_id = id.trim().parse().ok(),
            _ => return None,
        }
    }
    topic_id
}

pub(crate) fn leader_epochs(epochs: &[EpochStart]) -> String {
    let mut text = format!("0\n{}\n", epochs.len());
    for entry in epochs {
        let _ = writeln!(text, "{} {}", entry.epoch, entry.start_offset);
    }
    text
}

pub(crate) fn parse_leader_epochs(text: &str) -> Option<Vec<EpochStart>> {
    let mut epochs: Vec<EpochStart> = Vec::new();
    for line in checkpoint_lines(text)? {
        let (epoch, offset) = line.split_once(' ')?;
        let entry = EpochStart { epoch: LeaderEpoch(epoch.parse().ok()?), start_offset: Offset(offset.parse().ok()?) };
        let ascends =
            epochs.last().is_none_or(|last| last.epoch < entry.epoch && last.start_offset < entry.start_offset);
        if !ascends {
            return None;
        }
        epochs.push(entry);
    }
    Some(epochs)
}

/// How many entries the complete indexes of segments have, by base offset: an index file that lost whole entries at its
/// end looks like a good one.
pub(crate) type IndexEntries = BTreeMap<Offset, StoredIndex>;

pub(crate) fn index_entries(entries: &IndexEntries) -> String {
    let mut text = format!("0\n{}\n", entries.len());
    for (base_offset, index) in entries {
        let _ = writeln!(text, "{base_offset} {} {}", index.offset_count, index.time_count);
    }
    text
}

pub(crate) fn parse_index_entries(text: &str) -> Option<IndexEntries> {
    let mut entries = IndexEntries::new();
    for line in checkpoint_lines(text)? {
        let mut words = line.split(' ');
        let (base_offset, offsets, times) = (words.next()?, words.next()?, words.next()?);
        let index = StoredIndex { offset_count: offsets.parse().ok()?, time_count: times.parse().ok()? };
        entries.insert(Offset(base_offset.parse().ok()?), index);
    }
    Some(entries)
}

/// Offsets per partition.
pub(crate) type Offsets = BTreeMap<(TopicName, PartitionIndex), Offset>;

pub(crate) fn offset_checkpoint(offsets: &Offsets) -> String {
    let mut text = format!("0\n{}\n", offsets.len());
    for ((topic, partition), offset) in offsets {
        let _ = writeln!(text, "{topic} {partition} {offset}");
    }
    text
}

pub(crate) fn parse_offset_checkpoint(text: &str) -> Option<Offsets> {
    let mut offsets = Offsets::new();
    for line in checkpoint_lines(text)? {
        let mut words = line.split(' ');
        let (topic, partition, offset) = (words.next()?, words.next()?, words.next()?);
        let partition = PartitionIndex(partition.parse().ok()?);
        offsets.insert((TopicName::from(topic), partition), Offset(offset.parse().ok()?));
    }
    Some(offsets)
}

/// The lines of a checkpoint of version 0 whose count is right.
fn checkpoint_lines(text: &str) -> Option<Vec<&str>> {
    // A number cut short would still be a number.
    let text = text.strip_suffix('\n')?;
    let mut lines = text.lines();
    if lines.next()? != "0" {
        return None;
    }
    let count: usize = lines.next()?.parse().ok()?;
    let lines: Vec<&str> = lines.collect();
    (lines.len() == count).then_some(lines)
}

/// What `meta.properties` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetaProperties {
    pub(crate) cluster_id: String,
    pub(crate) node_id: i32,
    pub(crate) directory_id: Uuid,
}

impl MetaProperties {
    pub(crate) fn to_text(&self) -> String {
        let Self { cluster_id, node_id, directory_id } = self;
        format!("version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n")
    }

    /// Reads the file; the error names what is missing or wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let properties: BTreeMap<&str, &str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.trim(), value.trim()))
            .collect();
        if properties.get("version") != Some(&"1") {
            return Err("version is not 1");
        }
        let cluster_id = properties.get("cluster.id").ok_or("cluster.id is missing")?;
        let node_id = properties.get("node.id").ok_or("node.id is missing")?;
        let directory_id = properties.get("directory.id").ok_or("directory.id is missing")?;
        Ok(Self {
            cluster_id: (*cluster_id).to_owned(),
            node_id: node_id.parse().map_err(|_| "node.id is not a number")?,
            directory_id: directory_id.parse().map_err(|_| "directory.id is not an id")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names() {
        let name = |text| parse_partition_dir_name(text).map(|(topic, partition)| (topic.to_string(), partition.0));
        assert_eq!(name("words-in-0"), Some(("words-in".into(), 0)));
        assert_eq!(name("a.b-delete-12"), Some(("a.b-delete".into(), 12)));
        for other in ["words", "words-", "-1", "words-x", "words--1x", "words-99999999999", "a-0.xyz-delete"] {
            assert_eq!(name(other), None, "{other}");
        }
        let stray = stray_dir_name("words", PartitionIndex(17), Uuid::METADATA_TOPIC);
        assert!(name(&stray).is_none() && !is_deleted_dir_name(&stray));
        let deleted = deleted_dir_name(&"x".repeat(249), PartitionIndex(17), Uuid::METADATA_TOPIC);
        assert!(deleted.len() == 255 && is_deleted_dir_name(&deleted));
    }

    #[test]
    fn segment_file_names() {
        let path = Kind::TimeIndex.path(Path::new("d"), Offset(42));
        assert_eq!(path, Path::new("d/00000000000000000042.timeindex"));
        assert_eq!(Kind::of("00000000000000000042.timeindex"), Some((Offset(42), Kind::TimeIndex)));
        for other in ["42.log", "00000000000000000042.txt", "0000000000000000004x.log", "99999999999999999999.log"] {
            assert_eq!(Kind::of(other), None, "{other}");
        }
    }

    #[test]
    fn checkpoints_read_back() {
        let epochs = vec![
            EpochStart { epoch: LeaderEpoch(0), start_offset: Offset(0) },
            EpochStart { epoch: LeaderEpoch(3), start_offset: Offset(10) },
        ];
        assert_eq!(leader_epochs(&epochs), "0\n2\n0 0\n3 10\n");
        assert_eq!(parse_leader_epochs("0\n2\n0 0\n3 10\n"), Some(epochs));
        for damaged in ["", "0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\nx 0\n", "0\n2\n3 0\n2 9\n"] {
            assert_eq!(parse_leader_epochs(damaged), None, "{damaged:?}");
        }
        let offsets = Offsets::from([((TopicName::from("t"), PartitionIndex(1)), Offset(7))]);
        assert_eq!(offset_checkpoint(&offsets), "0\n1\nt 1 7\n");
        assert_eq!(parse_offset_checkpoint("0\n1\nt 1 7\n"), Some(offsets));
        assert_eq!(partition_metadata(Uuid::METADATA_TOPIC), "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(
            parse_partition_metadata("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"),
            Some(Uuid::METADATA_TOPIC)
        );
    }

    #[test]
    fn meta_properties_read_back() {
        let meta = MetaProperties { cluster_id: "abc".into(), node_id: 1, directory_id: Uuid::METADATA_TOPIC };
        assert_eq!(MetaProperties::parse(&meta.to_text()), Ok(meta.clone()));
        let kafkas = format!("#\n#Sun Jan 01 00:00:00 UTC 2026\n{}", meta.to_text());
        assert_eq!(MetaProperties::parse(&kafkas), Ok(meta));
        assert_eq!(MetaProperties::parse("version=1\nnode.id=1\n"), Err("cluster.id is missing"));
    }
}
