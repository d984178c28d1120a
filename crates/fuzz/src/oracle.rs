//! Streams groups by their records alone.
//!
//! **Checked here:** no active task has two owners (it is theirs until they have given it back); epochs never go back; an
//! epoch that a client was told stands in the records, also after a crash.

use std::collections::BTreeMap;

use riparian_group::{record::Record, reply::StreamsHeartbeatReply, streams::ActiveTaskIds};
use riparian_types::{PartitionIndex, SubtopologyId};

/// All groups of one log.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<String, Group>,
    /// The highest group epoch among the member epochs that were told, by group.
    told: BTreeMap<String, i32>,
}

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    epoch: i32,
    /// Of a classic group.
    generation: i32,
    assignment_epoch: i32,
    members: BTreeMap<String, Member>,
}

#[derive(Debug, Default)]
struct Member {
    epoch: i32,
    /// Assigned ones first, then those to be given back.
    active: [Vec<Task>; 2],
}

/// Subtopology and partition.
type Task = (String, i32);

impl Groups {
    /// Begins again with an empty log, but for what clients were told.
    pub(crate) fn restart(&mut self) {
        self.groups.clear();
    }

    /// What was told must still be there, once all records have been followed.
    pub(crate) fn check_told(&self) {
        for (name, told) in &self.told {
            let epoch = self.groups.get(name).map(|group| group.epoch);
            assert!(epoch >= Some(*told), "a member of {name} was told epoch {told}, the group has {epoch:?}");
        }
    }

    /// Follows the records of one batch.
    pub(crate) fn follow(&mut self, records: &[Record]) {
        for record in records {
            self.apply(record);
        }
        for (name, group) in &self.groups {
            group.check_owners(name);
        }
    }

    /// Notes an answer that left.
    pub(crate) fn told(&mut self, group_id: &str, reply: &StreamsHeartbeatReply) {
        // The group may have been deleted since the answer was made, and made anew.
        if self.groups.get(group_id).is_some_and(|group| reply.member_epoch.0 <= group.epoch) {
            let told = self.told.entry(group_id.to_owned()).or_default();
            *told = (*told).max(reply.member_epoch.0);
        }
    }

    /// An answer tells what the records say at that moment.
    pub(crate) fn check_answer(&self, group_id: &str, reply: &StreamsHeartbeatReply) {
        if reply.member_epoch.0 < 0 {
            return;
        }
        let member = self.groups.get(group_id).and_then(|group| group.members.get(reply.member_id.as_str()));
        let epoch = member.map(|member| member.epoch);
        assert_eq!(epoch, Some(reply.member_epoch.0), "the records say another epoch than {reply:?}");
        if let (Some(member), Some(told)) = (member, &reply.tasks) {
            let mut told = tasks(&told.active, |list| (&list.subtopology, &list.partitions));
            let mut recorded = member.active[0].clone();
            told.sort();
            recorded.sort();
            assert_eq!(told, recorded, "{reply:?}");
        }
    }

    /// Members of streams groups by the records, none of which may be left when everybody has been silent for long.
    pub(crate) fn check_nobody_left(&self) {
        for (name, group) in &self.groups {
            let members: Vec<&String> = group.members.keys().collect();
            assert!(members.is_empty(), "hours later {members:?} are still in {name}");
        }
    }

    /// Whether the group has this member, by the records.
    pub(crate) fn has_member(&self, group_id: &str, member_id: &str) -> bool {
        self.groups.get(group_id).is_some_and(|group| group.members.contains_key(member_id))
    }

    /// The member epoch that the records say; 0 for none.
    pub(crate) fn epoch(&self, group_id: &str, member_id: &str) -> i32 {
        let member = self.groups.get(group_id).and_then(|group| group.members.get(member_id));
        member.map_or(0, |member| member.epoch)
    }

    fn apply(&mut self, record: &Record) {
        let name = record.group().to_string();
        if let Record::StreamsGroupMetadata(_, None) = record {
            self.groups.remove(&name);
            self.told.remove(&name);
            return;
        }
        match record {
            Record::StreamsGroupMetadata(_, Some(value)) => {
                let group = self.groups.entry(name.clone()).or_default();
                not_back(&format!("the epoch of {name}"), &mut group.epoch, value.epoch.0);
            }
            Record::StreamsTargetMetadata(_, Some(value)) => {
                let group = self.groups.entry(name.clone()).or_default();
                let what = format!("the assignment epoch of {name}");
                not_back(&what, &mut group.assignment_epoch, value.assignment_epoch.0);
            }
            Record::StreamsMemberMetadata(_, id, None) => {
                if let Some(group) = self.groups.get_mut(&name) {
                    group.members.remove(id.as_str());
                }
            }
            Record::StreamsCurrentAssignment(_, id, value) => {
                let Some(group) = self.groups.get_mut(&name) else { return };
                let member = group.members.entry(id.to_string()).or_default();
                let Some(value) = value else {
                    member.active = Default::default();
                    return;
                };
                // A static member that left has epoch -2 until another takes its place, who begins with 0.
                match value.member_epoch.0 {
                    0 => member.epoch = 0,
                    epoch @ 1.. => not_back(&format!("the epoch of {id} of {name}"), &mut member.epoch, epoch),
                    _ => {}
                }
                let tasks = |lists| tasks(lists, |list: &ActiveTaskIds| (&list.subtopology, &list.partitions));
                member.active = [tasks(&value.active), tasks(&value.active_pending_revocation)];
            }
            Record::ClassicGroupMetadata(_, Some(value)) => {
                let group = self.groups.entry(name.clone()).or_default();
                not_back(&format!("the generation of {name}"), &mut group.generation, value.generation.0);
            }
            Record::ClassicGroupMetadata(_, None) => {
                if let Some(group) = self.groups.get_mut(&name) {
                    group.generation = 0;
                }
            }
            Record::OffsetCommit(..)
            | Record::StreamsGroupMetadata(_, None)
            | Record::StreamsMemberMetadata(_, _, Some(_))
            | Record::StreamsTargetMetadata(_, None)
            | Record::StreamsTargetMember(..)
            | Record::StreamsTopology(..)
            | Record::StreamsTopologyDescription(..) => {}
        }
    }
}

impl Group {
    fn check_owners(&self, name: &str) {
        let mut owners = BTreeMap::new();
        for (id, member) in &self.members {
            for task in member.active.iter().flatten() {
                let other = owners.insert(task, id);
                assert_eq!(other, None, "by the records of {name} task {task:?} belongs to {other:?} and to {id}");
            }
        }
    }
}

fn tasks<T>(lists: &[T], parts: impl Fn(&T) -> (&SubtopologyId, &Vec<PartitionIndex>)) -> Vec<Task> {
    let tasks = lists.iter().flat_map(|list| {
        let (subtopology, partitions) = parts(list);
        partitions.iter().map(|index| (subtopology.to_string(), index.0))
    });
    tasks.collect()
}

fn not_back(what: &str, from: &mut i32, to: i32) {
    assert!(to >= *from, "{what} goes back from {from} to {to}");
    *from = to;
}
