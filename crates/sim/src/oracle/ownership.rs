//! Tasks as the clients run them.
//!
//! **Checked here:** a task is active in at most one member that is alive and that the server still knows under the id
//! it goes by. A member that was removed and has not heard of it yet may run on: nothing of what it does counts, as its
//! commits are refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::oracle::{Task, groups::GroupRecords};

/// Who runs what.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    runs: BTreeMap<(String, Task), BTreeSet<String>>,
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
    ) -> Result<(), String> {
        let runners = self.runs.entry((group.to_owned(), *task)).or_default();
        runners.insert(member.to_owned());
        let Some(known) = records.group(group) else { return Ok(()) };
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
            runners.remove(member);
            if runners.is_empty() {
                self.runs.remove(&key);
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
