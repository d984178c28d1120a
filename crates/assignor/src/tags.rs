//! Client tags over whose values the copies of a task are spread (`streams.rack.aware.assignment.tags`, KIP-925).
//!
//! A tag is a key that the group's configuration lists, the most important first. Two copies of a task should not share a
//! tag's value while a process with another value is there. A process without a value for a key takes no part in it.

use alloc::{vec, vec::Vec};

use crate::{AssignmentInput, ProcessIndex};

/// How many keys matter; a longer list is cut off.
const KEYS_MAX: usize = 32;

/// The tag values of the processes, as dense numbers.
pub(crate) struct TagValues {
    key_count: usize,
    /// One row per process; 0 where it has no value.
    values: Vec<u32>,
    /// How many values each key has.
    value_counts: Vec<u32>,
}

impl TagValues {
    /// A process has the tags of the first of its members that has each.
    pub(crate) fn new(input: &AssignmentInput) -> Self {
        let keys = &input.config.rack_aware_assignment_tags;
        let keys = &keys[..keys.len().min(KEYS_MAX)];
        let mut values = vec![0; input.processes.len() * keys.len()];
        let mut value_counts = vec![0; keys.len()];
        for (column, key) in keys.iter().enumerate() {
            let of_member = |index: usize| {
                let tags = &input.members[index].client_tags;
                tags.iter().find(|tag| tag.key == *key).map(|tag| &*tag.value)
            };
            let mut with_value: Vec<(&str, usize)> =
                (0..input.members.len()).filter_map(|index| Some((of_member(index)?, index))).collect();
            with_value.sort_unstable();
            let mut last = None;
            for (value, index) in with_value {
                if last != Some(value) {
                    value_counts[column] += 1;
                    last = Some(value);
                }
                let cell = &mut values[input.members[index].process.index() * keys.len() + column];
                if *cell == 0 {
                    *cell = value_counts[column];
                }
            }
        }
        Self { key_count: keys.len(), values, value_counts }
    }

    /// Whether nothing is to be spread over.
    pub(crate) fn is_empty(&self) -> bool {
        self.key_count == 0
    }

    fn row(&self, process: ProcessIndex) -> &[u32] {
        &self.values[process.index() * self.key_count..][..self.key_count]
    }

    /// How good it is for a task with these copies to get another on `process`: a bit for each key whose value there is
    /// not used yet, the most important key in the highest.
    pub(crate) fn freshness(&self, copies: &[ProcessIndex], process: ProcessIndex) -> u32 {
        let row = self.row(process);
        let is_fresh =
            |column: usize| row[column] != 0 && copies.iter().all(|&copy| self.row(copy)[column] != row[column]);
        (0..self.key_count).fold(0, |bits, column| (bits << 1) | u32::from(is_fresh(column)))
    }

    /// How many copies of one task repeat a value although there is another, over all keys.
    pub(crate) fn violations(&self, copies: &[ProcessIndex]) -> u64 {
        let of_key = |column: usize| {
            let mut used: Vec<u32> =
                copies.iter().map(|&copy| self.row(copy)[column]).filter(|&value| value != 0).collect();
            let wanted = copies.len().min(self.value_counts[column] as usize);
            used.sort_unstable();
            used.dedup();
            wanted.saturating_sub(used.len()) as u64
        };
        (0..self.key_count).map(of_key).sum()
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::TagValues;
    use crate::{
        AssignmentConfig, AssignmentInput, ClientTag, MemberInput, ProcessIndex, Subtopologies, SubtopologyInput,
    };

    fn values(tags: &[&[(&str, &str)]], keys: &[&str]) -> TagValues {
        let subtopology = SubtopologyInput { id: "0".into(), partition_count: 1, stateful: true };
        let members: Vec<MemberInput> = tags
            .iter()
            .enumerate()
            .map(|(index, tags)| MemberInput {
                client_tags: tags
                    .iter()
                    .map(|&(key, value)| ClientTag { key: key.into(), value: value.into() })
                    .collect(),
                ..MemberInput::new(alloc::format!("m{index}").into(), ProcessIndex(index as u32))
            })
            .collect();
        TagValues::new(&AssignmentInput {
            processes: (0..tags.len()).map(|index| alloc::format!("p{index}").into()).collect(),
            members,
            subtopologies: Subtopologies::new(vec![subtopology]).unwrap().into(),
            config: AssignmentConfig {
                num_standby_replicas: 1,
                rack_aware_assignment_tags: keys.iter().map(|&key| key.into()).collect(),
            },
            changelogs: vec![],
        })
    }

    #[test]
    fn fresh_values_of_the_first_key_count_most() {
        let tags = values(
            &[
                &[("cluster", "x"), ("zone", "a")],
                &[("cluster", "x"), ("zone", "b")],
                &[("cluster", "y"), ("zone", "a")],
                &[("zone", "b")],
            ],
            &["zone", "cluster"],
        );
        let [a, b, c, d] = [0, 1, 2, 3].map(ProcessIndex);
        assert_eq!([b, c, d].map(|process| tags.freshness(&[a], process)), [0b10, 0b01, 0b10]);
        assert_eq!(tags.freshness(&[a, b], d), 0);
    }

    #[test]
    fn a_repeated_value_violates_only_where_another_is_free() {
        let tags = values(&[&[("zone", "a")], &[("zone", "a")], &[("zone", "b")], &[]], &["zone"]);
        let [a, b, c, none] = [0, 1, 2, 3].map(ProcessIndex);
        assert_eq!(tags.violations(&[a, b]), 1);
        assert_eq!(tags.violations(&[a, c]), 0);
        assert_eq!(tags.violations(&[a, b, c]), 0);
        assert_eq!(tags.violations(&[a, none]), 1);
        assert!(values(&[&[]], &[]).is_empty());
    }
}
