//! Groups by their records: every batch that reaches the disk is read as it is written.
//!
//! **Checked here:** no active task has two owners (assigned, or to be given back); epochs never go back; what a client
//! was told stands in the records after a crash.

use std::collections::{BTreeMap, BTreeSet};

use riparian_coordinator::{Decoded, RecordCodec, codecs::GroupCodec};
use riparian_group::{
    GroupMachine,
    record::{ClassicGroupValue, MemberState, Record},
    streams::Topology,
};
use riparian_log::{Disk, MemDisk};
use riparian_records::batches;

use crate::{
    disk::Appended,
    oracle::{Task, classic::Recorded},
    server::ROOT,
};

/// How the key of a committed offset begins.
const OFFSET_COMMIT: [u8; 2] = [0, 1];

/// All groups, by the directories of the partitions that hold them.
#[derive(Debug, Default)]
pub(crate) struct GroupRecords {
    partitions: BTreeMap<String, Partition>,
    /// The highest epoch that a client was told, by group.
    told: BTreeMap<String, i32>,
    /// Active tasks that went from one member to another.
    pub(crate) moves: u64,
    /// Topologies that took the place of another one.
    pub(crate) replaced: u64,
    /// Members that were removed without having left.
    pub(crate) expiries: u64,
    left: BTreeSet<String>,
    /// What the records say that nobody asked for, for the story.
    heard: Vec<String>,
    /// The members of classic groups are the simulator's own, and what they give each other can be read.
    pub(crate) reads_assignments: bool,
    /// Records of classic groups that were read.
    classic_changes: u64,
    /// The same for classic groups: generations, partitions of topics that went to another member, members.
    pub(crate) classic: ClassicCounts,
    /// The highest generation of which a client was told its assignment, by classic group.
    told_generations: BTreeMap<String, i32>,
    /// Classic groups that ever were deleted.
    deleted: BTreeSet<String>,
    /// By classic group: whose each partition was last.
    last_readers: BTreeMap<String, BTreeMap<i32, String>>,
    /// By group: whose each active task was last.
    last_owners: BTreeMap<String, BTreeMap<Task, String>>,
}

/// What happened to classic groups.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassicCounts {
    pub(crate) generations: u64,
    pub(crate) moves: u64,
    pub(crate) expiries: u64,
}

#[derive(Debug, Default)]
struct Partition {
    /// What was read, by file.
    read: BTreeMap<String, Vec<u8>>,
    groups: BTreeMap<String, Group>,
    classic: BTreeMap<String, Recorded>,
}

/// One group by its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) epoch: i32,
    pub(crate) assignment_epoch: i32,
    pub(crate) topology: Option<Topology>,
    pub(crate) members: BTreeMap<String, Member>,
}

/// One member by its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) epoch: i32,
    pub(crate) previous_epoch: i32,
    pub(crate) is_stable: bool,
    pub(crate) active: BTreeSet<Task>,
    pub(crate) revoking: BTreeSet<Task>,
    instance: Option<String>,
}

impl GroupRecords {
    /// The group, if its records say that there is one.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.partitions.values().find_map(|partition| partition.groups.get(name))
    }

    /// The classic group, if its records say that there is one.
    pub(crate) fn classic(&self, name: &str) -> Option<&Recorded> {
        self.partitions.values().find_map(|partition| partition.classic.get(name))
    }

    /// Whether there ever was a group of this name that is no more, or of which nothing more is known.
    pub(crate) fn was_deleted(&self, name: &str) -> bool {
        self.deleted.contains(name)
    }

    /// What the records have said since the last time that nobody asked for.
    pub(crate) fn take_heard(&mut self) -> Vec<String> {
        std::mem::take(&mut self.heard)
    }

    /// Which change of a classic group was the last one.
    pub(crate) fn last_classic_change(&self) -> u64 {
        self.classic_changes
    }

    /// The newest generation of which anybody was told its assignment: it is there for good.
    pub(crate) fn newest_told_generation(&self, group: &str) -> Option<i32> {
        self.told_generations.get(group).copied()
    }

    /// Notes that a client was told its assignment of this generation.
    pub(crate) fn told_generation(&mut self, group: &str, generation: i32) {
        // An answer from before the group was deleted may still be on its way.
        if self.classic(group).is_none_or(|known| known.generation < generation) {
            return;
        }
        let told = self.told_generations.entry(group.to_owned()).or_default();
        *told = (*told).max(generation);
    }

    /// The member that has this active task, by the records.
    pub(crate) fn owner(&self, group: &str, task: &Task) -> Option<&str> {
        let mut members = self.group(group)?.members.iter();
        members.find(|(_, member)| member.active.contains(task) || member.revoking.contains(task)).map(|(id, _)| &**id)
    }

    /// What each instance id of a group has, by the records.
    pub(crate) fn static_tasks(&self, group: &str) -> BTreeMap<String, BTreeSet<Task>> {
        let members = self.group(group).into_iter().flat_map(|group| group.members.values());
        members.filter_map(|member| Some((member.instance.clone()?, member.active.clone()))).collect()
    }

    /// Notes that a member leaves of its own accord.
    pub(crate) fn leaves(&mut self, member: &str) {
        self.left.insert(member.to_owned());
    }

    /// Notes that a client was told this epoch.
    pub(crate) fn told(&mut self, group: &str, epoch: i32) {
        // An answer from before the group was deleted may still be on its way.
        if self.group(group).is_none_or(|known| known.epoch < epoch) {
            return;
        }
        let told = self.told.entry(group.to_owned()).or_default();
        *told = (*told).max(epoch);
    }

    /// Follows what was written.
    pub(crate) fn follow(&mut self, appends: Vec<Appended>, memory: &MemDisk) -> Result<(), String> {
        let mut changed = BTreeSet::new();
        for append in appends {
            match append {
                Appended::Changed { dir } => {
                    changed.insert(dir);
                }
                Appended::Bytes { path, position, bytes } => {
                    let dir = dir_of(&path);
                    if changed.contains(&dir) {
                        continue;
                    }
                    let read = self.partitions.entry(dir.clone()).or_default().read.entry(path).or_default();
                    if read.len() as u64 == position {
                        read.extend_from_slice(&bytes);
                        self.read(&dir, &bytes)?;
                    } else {
                        changed.insert(dir);
                    }
                }
            }
        }
        changed.iter().try_for_each(|dir| self.rebuild(dir, memory))
    }

    /// Reads everything anew: the server has just started, and what clients were told must be there.
    pub(crate) fn rebuild_all(&mut self, memory: &MemDisk) -> Result<(), String> {
        let dirs: Vec<String> = self.partitions.keys().cloned().collect();
        dirs.iter().try_for_each(|dir| self.rebuild(dir, memory))?;
        for (name, told) in &self.told {
            let epoch = self.group(name).map(|group| group.epoch);
            if epoch.is_none_or(|epoch| epoch < *told) {
                return Err(format!(
                    "a member of {name} was told epoch {told}, after a restart the group has {epoch:?}"
                ));
            }
        }
        for (name, told) in &self.told_generations {
            let generation = self.classic(name).map(|group| group.generation);
            if generation.is_none_or(|generation| generation < *told) {
                return Err(format!(
                    "a member of {name} was told its assignment of generation {told}, after a restart it is \
                     {generation:?}"
                ));
            }
        }
        Ok(())
    }

    fn rebuild(&mut self, dir: &str, memory: &MemDisk) -> Result<(), String> {
        // What happened again only because it was read again does not count.
        let counts = (self.moves, self.expiries, self.classic, self.replaced);
        let heard = std::mem::take(&mut self.heard);
        let result = self.rebuild_uncounted(dir, memory);
        (self.moves, self.expiries, self.classic, self.replaced) = counts;
        self.heard = heard;
        result
    }

    fn rebuild_uncounted(&mut self, dir: &str, memory: &MemDisk) -> Result<(), String> {
        let path = std::path::Path::new(ROOT).join(dir);
        // A directory that is not there had nothing durable in it.
        let entries = memory.list(&path).unwrap_or_default();
        let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
        let files: Vec<(String, Vec<u8>)> = logs
            .filter_map(|entry| {
                let file = path.join(&entry.name);
                let mut bytes = memory.read_file(&file).ok()??;
                bytes.truncate(whole_bytes(&bytes));
                Some((file.to_string_lossy().into_owned(), bytes))
            })
            .collect();
        let known = self.partitions.get(dir).map(|partition| &partition.read);
        if known.is_some_and(|known| known.iter().eq(files.iter().map(|(name, bytes)| (name, bytes)))) {
            return Ok(());
        }
        self.partitions.insert(dir.to_owned(), Partition::default());
        for (name, bytes) in files {
            self.read(dir, &bytes)?;
            self.partitions.entry(dir.to_owned()).or_default().read.insert(name, bytes);
        }
        Ok(())
    }

    /// Reads batches.
    fn read(&mut self, dir: &str, bytes: &[u8]) -> Result<(), String> {
        for batch in batches(bytes) {
            let Ok(batch) = batch else { break };
            let Ok(records) = batch.records() else { break };
            let mut touched = BTreeSet::new();
            for record in records.iter().flatten() {
                // What is committed is watched elsewhere, and there is much of it.
                if record.key.is_some_and(|key| key.starts_with(&OFFSET_COMMIT)) {
                    continue;
                }
                if let Decoded::Record(record) =
                    <GroupCodec as RecordCodec<GroupMachine>>::decode(record.key, record.value)
                {
                    let name = record.group().to_string();
                    let assigns = matches!(record, Record::StreamsCurrentAssignment(..));
                    self.apply(dir, &name, record)?;
                    if assigns {
                        touched.insert(name);
                    }
                }
            }
            for name in touched {
                self.check_owners(dir, &name)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, dir: &str, name: &str, record: Record) -> Result<(), String> {
        if let Record::ClassicGroupMetadata(_, value) = record {
            return self.apply_classic(dir, name, value.as_ref());
        }
        let partition = self.partitions.entry(dir.to_owned()).or_default();
        let group = partition.groups.entry(name.to_owned()).or_default();
        match record {
            Record::StreamsGroupMetadata(_, Some(value)) => {
                not_back(&format!("the epoch of {name}"), group.epoch, value.epoch.0)?;
                group.epoch = value.epoch.0;
            }
            Record::StreamsGroupMetadata(_, None) => {
                partition.groups.remove(name);
                self.told.remove(name);
            }
            Record::StreamsTopology(_, value) => {
                if group.topology.is_some() && value.is_some() && group.topology != value {
                    self.replaced += 1;
                    self.heard.push(format!("{name} has another topology"));
                }
                group.topology = value;
            }
            Record::StreamsTargetMetadata(_, Some(value)) => {
                not_back(&format!("the assignment epoch of {name}"), group.assignment_epoch, value.assignment_epoch.0)?;
                group.assignment_epoch = value.assignment_epoch.0;
            }
            Record::StreamsMemberMetadata(_, member, Some(value)) => {
                let member = group.members.entry(member.to_string()).or_default();
                let instance = value.instance_id.as_ref().map(ToString::to_string);
                if member.instance != instance {
                    // Whoever takes a static member's place begins anew.
                    (member.epoch, member.instance) = (0, instance);
                }
            }
            Record::StreamsMemberMetadata(_, member, None) => {
                if group.members.remove(member.as_str()).is_some() && !self.left.contains(member.as_str()) {
                    self.expiries += 1;
                    self.heard.push(format!("{name} removes {member}, which has not left"));
                }
            }
            Record::StreamsCurrentAssignment(_, id, Some(value)) => {
                let member = group.members.entry(id.to_string()).or_default();
                // A static member that left has epoch -2 until it comes back or its session is over.
                if value.member_epoch.0 != -2 {
                    not_back(&format!("the epoch of member {id} of {name}"), member.epoch, value.member_epoch.0)?;
                }
                let tasks = |lists: &[riparian_group::streams::ActiveTaskIds]| {
                    lists
                        .iter()
                        .flat_map(|list| {
                            list.partitions.iter().map(|partition| Task::of(list.subtopology.as_str(), partition.0))
                        })
                        .collect()
                };
                *member = Member {
                    epoch: value.member_epoch.0,
                    previous_epoch: value.previous_member_epoch.0,
                    is_stable: value.state == MemberState::Stable,
                    active: tasks(&value.active),
                    revoking: tasks(&value.active_pending_revocation),
                    instance: member.instance.take(),
                };
            }
            Record::StreamsCurrentAssignment(_, id, None) => {
                if let Some(member) = group.members.get_mut(id.as_str()) {
                    let (epoch, instance) = (member.epoch, member.instance.take());
                    *member = Member { epoch, instance, ..Member::default() };
                }
            }
            Record::OffsetCommit(..)
            | Record::ClassicGroupMetadata(..)
            | Record::StreamsTargetMetadata(_, None)
            | Record::StreamsTargetMember(..)
            | Record::StreamsTopologyDescription(..) => {}
        }
        Ok(())
    }

    fn apply_classic(&mut self, dir: &str, name: &str, value: Option<&ClassicGroupValue>) -> Result<(), String> {
        if !self.reads_assignments {
            return Ok(());
        }
        self.classic_changes += 1;
        let classic = &mut self.partitions.entry(dir.to_owned()).or_default().classic;
        let Some(value) = value else {
            classic.remove(name);
            self.told_generations.remove(name);
            self.deleted.insert(name.to_owned());
            return Ok(());
        };
        let (after, change) = Recorded::follow(name, classic.get(name), value, self.classic_changes)?;
        self.classic.generations += u64::from(change.is_new_generation);
        if change.is_new_generation {
            self.heard.push(format!("{name} has generation {}", after.generation));
        }
        for member in change.gone.iter().filter(|id| !self.left.contains(*id)) {
            self.classic.expiries += 1;
            self.heard.push(format!("{name} has removed {member}, which has not left"));
        }
        let last_readers = self.last_readers.entry(name.to_owned()).or_default();
        for (partition, reader) in after.owners() {
            let last = last_readers.entry(partition).or_insert_with(|| reader.to_owned());
            if last != reader {
                reader.clone_into(last);
                self.classic.moves += 1;
            }
        }
        classic.insert(name.to_owned(), after);
        Ok(())
    }

    fn check_owners(&mut self, dir: &str, name: &str) -> Result<(), String> {
        let Some(group) = self.partitions.get(dir).and_then(|partition| partition.groups.get(name)) else {
            return Ok(());
        };
        let mut owners = BTreeMap::new();
        for (id, member) in &group.members {
            for task in member.active.iter().chain(&member.revoking) {
                if let Some(other) = owners.insert(*task, id) {
                    return Err(format!("by the records of {name} task {task} belongs to {other} and to {id}"));
                }
            }
        }
        let last_owners = self.last_owners.entry(name.to_owned()).or_default();
        for (task, owner) in owners {
            match last_owners.get_mut(&task) {
                Some(last) if last == owner => {}
                Some(last) => {
                    last.clone_from(owner);
                    self.moves += 1;
                }
                None => {
                    last_owners.insert(task, owner.clone());
                }
            }
        }
        Ok(())
    }
}

/// Up to where there are whole batches; behind that is a torn tail, which the server is about to cut off.
fn whole_bytes(bytes: &[u8]) -> usize {
    batches(bytes).map_while(Result::ok).map(|batch| batch.bytes().len()).sum()
}

fn not_back(what: &str, from: i32, to: i32) -> Result<(), String> {
    if to < from { Err(format!("{what} goes back from {from} to {to}")) } else { Ok(()) }
}

fn dir_of(path: &str) -> String {
    let dir = std::path::Path::new(path).parent().and_then(|dir| dir.file_name());
    dir.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
