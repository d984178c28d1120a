//! Tasks as the clients run them.
//!
//! **Checked here:** a task is active in at most one member that is alive and that the server still knows under the id
//! it goes by, and all of these run the same version of their application, unless its topologies say which is older. A member that was removed and has not heard of it yet may run on: nothing of what it does counts, as its
//! commits are refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::oracle::{Task, groups::GroupRecords};

/// Which version of an application a member runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunVersion {
    pub(crate) number: u32,
    /// Others may run another one beside it: whose topology is older is let in.
    pub(crate) may_differ: bool,
}

/// Who runs what.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    runs: BTreeMap<(String, Task), BTreeSet<String>>,
    /// By group, of the members that run anything: the version, and how many tasks.
    versions: BTreeMap<String, BTreeMap<String, (u32, usize)>>,
    alive: BTreeMap<String, usize>,
}

impl Ownership {
    /// A member starts to run a task.
    pub(crate) fn start(
        &mut self,
        records: &GroupRecords,
        group: &str,
        task: &Task,
        member: &str,
        version: RunVersion,
    ) -> Result<(), String> {
        let runners = self.runs.entry((group.to_owned(), *task)).or_default();
        let is_new = runners.insert(member.to_owned());
        let versions = self.versions.entry(group.to_owned()).or_default();
        let of_member = versions.entry(member.to_owned()).or_insert((version.number, 0));
        of_member.1 += usize::from(is_new);
        let Some(known) = records.group(group) else { return Ok(()) };
        let is_other = |(id, (other, _)): &(&String, &(u32, usize))| {
            *other != version.number && known.members.contains_key(*id) && known.members.contains_key(member)
        };
        if let Some((id, (other, _))) = versions.iter().find(is_other).filter(|_| !version.may_differ) {
            let number = version.number;
            return Err(format!("{member} runs version {number} of {group} while {id} runs version {other}"));
        }
        let mut valid = runners.iter().filter(|runner| known.members.contains_key(*runner));
        match (valid.next(), valid.next()) {
            (Some(one), Some(other)) => Err(format!("task {task} of {group} runs in {one} and in {other}")),
            _ => Ok(()),
        }
    }

    /// A member has stopped to run a task.
    pub(crate) fn stop(&mut self, group: &str, task: &Task, member: &str) {
        let key = (group.to_owned(), *task);
        if let Some(runners) = self.runs.get_mut(&key) {
            let was_there = runners.remove(member);
            if runners.is_empty() {
                self.runs.remove(&key);
            }
            if let Some(versions) = self.versions.get_mut(group)
                && let Some((_, count)) = versions.get_mut(member)
                && was_there
            {
                *count -= 1;
                if *count == 0 {
                    versions.remove(member);
                }
            }
        }
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

    /// Who runs a task.
    pub(crate) fn runners(&self, group: &str, task: &Task) -> usize {
        self.runs.get(&(group.to_owned(), *task)).map_or(0, BTreeSet::len)
    }
}
