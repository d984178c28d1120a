//! Classic groups: what leaders gave, what the records say, what members believe.
//!
//! **Checked here:** a generation has one assignment, its leader's; generations never go back; whoever is told an
//! assignment finds it in the records, for itself and of its own generation; no partition is read by two members that
//! believe in the group's generation; whoever is in an older one may not commit and is not told that all is well; a
//! group that is described as Stable or Empty is what its records say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use riparian_group::record::ClassicGroupValue;
use riparian_protocol::messages::describe_groups_response::DescribedGroup;

use crate::{core::Core, opaque::Given, options::ClassicOptions, oracle::groups::GroupRecords};

/// One classic group by its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) generation: i32,
    protocol: Option<String>,
    members: BTreeMap<String, RecordedMember>,
    /// What members of this generation had whose place another took since.
    replaced: BTreeMap<String, Given>,
    /// Which of all changes to classic groups was its last.
    pub(crate) change: u64,
}

/// One member by the records.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordedMember {
    instance: Option<String>,
    client_id: String,
    subscription: Arc<[u8]>,
    assignment: Arc<[u8]>,
    /// The assignment, read.
    given: Given,
}

/// What changed between two records of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) is_new_generation: bool,
    /// Members that are there no more, without those whose place another took.
    pub(crate) gone: Vec<String>,
}

impl Recorded {
    /// Follows a record: what the group is after it, and what it changed.
    pub(crate) fn follow(
        name: &str,
        before: Option<&Self>,
        value: &ClassicGroupValue,
        change: u64,
    ) -> Result<(Self, Change), String> {
        let generation = value.generation.0;
        let mut members = BTreeMap::new();
        for member in &value.members {
            let id = member.member_id.to_string();
            let Some(given) = Given::of_bytes(&member.assignment) else {
                return Err(format!("by the records of {name} its leader gave nothing to {id} in {generation}"));
            };
            let instance = member.instance_id.as_ref().map(ToString::to_string);
            // Old leaders do not know of instance ids.
            let is_taken_over = before.is_some_and(|before| {
                before.members.values().any(|old| instance.is_some() && old.instance == instance && old.given == given)
            });
            if given.generation != generation || !given.is_for(&id, instance.as_deref()) && !is_taken_over {
                return Err(format!("by the records of {name} {id} has in generation {generation} what is {given:?}"));
            }
            let member = RecordedMember {
                instance,
                client_id: member.client_id.clone(),
                subscription: member.subscription.clone(),
                assignment: member.assignment.clone(),
                given,
            };
            members.insert(id, member);
        }
        let protocol = value.protocol.clone();
        let mut after = Self { generation, protocol, members, replaced: BTreeMap::new(), change };
        after.check_assignment(name)?;
        let Some(before) = before else {
            return Ok((after, Change { is_new_generation: generation > 0, gone: Vec::new() }));
        };
        if generation < before.generation {
            return Err(format!("the generation of {name} goes back from {} to {generation}", before.generation));
        }
        if generation == before.generation
            && let (Some(old), Some(new)) = (before.number(), after.number())
            && old != new
        {
            return Err(format!("generation {generation} of {name} has two assignments, {old} and {new}"));
        }
        let holders: BTreeSet<&String> = after.members.values().filter_map(|member| member.instance.as_ref()).collect();
        let is_new_generation = generation > before.generation;
        let mut replaced = if is_new_generation { BTreeMap::new() } else { before.replaced.clone() };
        let mut gone = Vec::new();
        for (id, member) in before.members.iter().filter(|(id, _)| !after.members.contains_key(*id)) {
            if member.instance.as_ref().is_none_or(|instance| !holders.contains(instance)) {
                gone.push(id.clone());
            } else if !is_new_generation {
                replaced.insert(id.clone(), member.given.clone());
            }
        }
        after.replaced = replaced;
        Ok((after, Change { is_new_generation, gone }))
    }

    /// The number of the assignment that its members have.
    fn number(&self) -> Option<u64> {
        self.members.values().next().map(|member| member.given.number)
    }

    fn check_assignment(&self, name: &str) -> Result<(), String> {
        let mut owners = BTreeMap::new();
        for (id, member) in &self.members {
            if Some(member.given.number) != self.number() {
                return Err(format!("generation {} of {name} is made of several assignments", self.generation));
            }
            for partition in &member.given.partitions {
                if let Some(other) = owners.insert(*partition, id) {
                    return Err(format!("by the records of {name} partition {partition} is {other}'s and {id}'s"));
                }
            }
        }
        Ok(())
    }

    /// Who reads each partition.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (i32, &str)> {
        self.members
            .iter()
            .flat_map(|(id, member)| member.given.partitions.iter().map(move |partition| (*partition, id.as_str())))
    }

    pub(crate) fn has(&self, member: &str) -> bool {
        self.members.contains_key(member)
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// What a member reads.
    pub(crate) fn given(&self, member: &str) -> Option<&Given> {
        self.members.get(member).map(|member| &member.given)
    }

    /// Compares with what is told of the group.
    pub(crate) fn check_description(&self, described: &DescribedGroup<'_>) -> Result<(), String> {
        let (name, state) = (&described.group_id, &*described.group_state);
        let differs = |what: String| Err(format!("{name} is described as {state}, but {what}"));
        if state == "Empty" && !self.members.is_empty() {
            return differs(format!("has {} members by its records", self.members.len()));
        }
        if state != "Stable" {
            return Ok(());
        }
        if Some(&*described.protocol_data) != self.protocol.as_deref() {
            return differs(format!("with protocol {}, by its records {:?}", described.protocol_data, self.protocol));
        }
        if described.members.len() != self.members.len() {
            let (told, recorded) = (described.members.len(), self.members.len());
            return differs(format!("with {told} members, by its records {recorded}"));
        }
        for member in &described.members {
            let is_same = self.members.get(&*member.member_id).is_some_and(|recorded| {
                recorded.instance.as_deref() == member.group_instance_id.as_deref()
                    && recorded.client_id == *member.client_id
                    && *recorded.subscription == *member.member_metadata
                    && *recorded.assignment == *member.member_assignment
            });
            if !is_same {
                return differs(format!("its member {} is not what the records say", member.member_id));
            }
        }
        Ok(())
    }
}

/// What the members of classic groups do and believe.
#[derive(Debug, Default)]
pub(crate) struct Beliefs {
    next_number: u64,
    /// The numbers of all syncs that leaders sent, by group and generation.
    sent: BTreeMap<(String, i32), BTreeSet<u64>>,
    /// Who reads a partition, and the generation that it believes in.
    runs: BTreeMap<(String, i32), BTreeMap<String, i32>>,
    alive: BTreeMap<String, usize>,
}

impl Beliefs {
    /// A leader is about to assign; the number that its assignment has.
    pub(crate) fn assigns(&mut self, group: &str, generation: i32) -> u64 {
        self.next_number += 1;
        self.sent.entry((group.to_owned(), generation)).or_default().insert(self.next_number);
        self.next_number
    }

    /// A member is told this assignment in this generation.
    pub(crate) fn told(
        &self,
        records: &GroupRecords,
        group: &str,
        (member, instance, generation): (&str, Option<&str>, i32),
        given: &Given,
    ) -> Result<(), String> {
        // Its place may have been taken while the answer was on its way.
        let is_recorded = records
            .classic(group)
            .is_some_and(|recorded| recorded.given(member).or_else(|| recorded.replaced.get(member)) == Some(given));
        if given.generation != generation || !given.is_for(member, instance) && !is_recorded {
            return Err(format!("{member} of {group} is told in generation {generation} what is {given:?}"));
        }
        let sent = self.sent.get(&(group.to_owned(), generation));
        if sent.is_none_or(|sent| !sent.contains(&given.number)) {
            return Err(format!("{member} of {group} is told what no leader sent: {given:?}"));
        }
        match records.classic(group) {
            Some(recorded) if recorded.generation > generation => Ok(()),
            Some(recorded) if recorded.generation == generation => match recorded.given(member) {
                Some(known) if known != given => {
                    Err(format!("{member} of {group} is told {given:?}, by the records it is {known:?}"))
                }
                // Removed, or its place is taken, while the answer was on its way.
                Some(_) | None => Ok(()),
            },
            _ if records.was_deleted(group) => Ok(()),
            other => {
                let known = other.map(|recorded| recorded.generation);
                Err(format!("{member} of {group} is told its assignment of {generation}, the records say {known:?}"))
            }
        }
    }

    /// A member reads a partition, or goes on with it in a new generation.
    pub(crate) fn start(
        &mut self,
        records: &GroupRecords,
        group: &str,
        partition: i32,
        (member, generation): (&str, i32),
    ) -> Result<(), String> {
        let readers = self.runs.entry((group.to_owned(), partition)).or_default();
        readers.insert(member.to_owned(), generation);
        let Some(known) = records.classic(group) else { return Ok(()) };
        let mut valid = readers.iter().filter(|(id, believed)| **believed == known.generation && known.has(id));
        match (valid.next(), valid.next()) {
            (Some((one, _)), Some((other, _))) => Err(format!(
                "partition {partition} of {group} is read by {one} and by {other}, both in generation {}",
                known.generation
            )),
            _ => Ok(()),
        }
    }

    /// A member does not read a partition any more.
    pub(crate) fn stop(&mut self, group: &str, partition: i32, member: &str) {
        let key = (group.to_owned(), partition);
        if let Some(readers) = self.runs.get_mut(&key) {
            readers.remove(member);
            if readers.is_empty() {
                self.runs.remove(&key);
            }
        }
    }

    /// How many read a partition.
    pub(crate) fn reader_count(&self, group: &str, partition: i32) -> usize {
        self.runs.get(&(group.to_owned(), partition)).map_or(0, BTreeMap::len)
    }

    /// A member starts.
    pub(crate) fn up(&mut self, group: &str) {
        *self.alive.entry(group.to_owned()).or_default() += 1;
    }

    /// A member ends.
    pub(crate) fn down(&mut self, group: &str) {
        if let Some(alive) = self.alive.get_mut(group) {
            *alive -= 1;
        }
    }

    /// How many members of a group are alive.
    pub(crate) fn alive(&self, group: &str) -> usize {
        self.alive.get(group).copied().unwrap_or(0)
    }
}

/// Whether a group is at rest by its records: everybody alive is in it, and every partition is one member's.
pub(crate) fn unfinished_group(core: &Core, options: &ClassicOptions) -> Option<String> {
    let name = &options.name;
    let alive = core.beliefs.alive(name);
    let known = core.records.classic(name);
    let members = known.map_or(0, Recorded::member_count);
    if members != alive {
        return Some(format!("{name} has {members} members, {alive} are alive"));
    }
    if alive == 0 {
        return None;
    }
    let owners: BTreeSet<i32> = known.iter().flat_map(|group| group.owners()).map(|(partition, _)| partition).collect();
    (0..options.partitions).find_map(|partition| {
        let readers = core.beliefs.reader_count(name, partition);
        let is_owned = owners.contains(&partition);
        (readers != 1 || !is_owned).then(|| {
            format!(
                "partition {partition} of {name} is read by {readers} members{}",
                if is_owned { "" } else { ", owned by none" }
            )
        })
    })
}
