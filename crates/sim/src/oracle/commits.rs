//! Committed offsets as a register that clients write and read.
//!
//! **Checked here:** what is read was written by somebody, and is not older than a write that was acknowledged before
//! the read began, unless a later write may have been overtaken on its way.

use std::collections::BTreeMap;

/// A write that was tried.
#[derive(Clone, Debug)]
struct Attempt {
    sent_us: u64,
    /// When it was acknowledged; none if its fate is unknown.
    acknowledged_us: Option<u64>,
}

/// All committed offsets: attempts by value, by group, topic and partition.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    registers: BTreeMap<(String, String, i32), BTreeMap<i64, Attempt>>,
    next_value: i64,
    /// Groups and topics that may be deleted until then: nothing is known of their offsets.
    unsure_until_us: BTreeMap<String, u64>,
}

impl Commits {
    /// A value that nobody has committed yet; larger than all before.
    pub(crate) fn next_value(&mut self) -> i64 {
        self.next_value += 1;
        self.next_value
    }

    pub(crate) fn tried(&mut self, group: &str, topic: &str, partition: i32, value: i64, now_us: u64) {
        let register = self.registers.entry((group.to_owned(), topic.to_owned(), partition)).or_default();
        register.insert(value, Attempt { sent_us: now_us, acknowledged_us: None });
        self.is_unsure(group, topic, now_us);
    }

    pub(crate) fn acknowledged(&mut self, group: &str, topic: &str, partition: i32, value: i64, now_us: u64) {
        let key = (group.to_owned(), topic.to_owned(), partition);
        if let Some(attempt) = self.registers.get_mut(&key).and_then(|register| register.get_mut(&value)) {
            attempt.acknowledged_us = Some(now_us);
            let sent_us = attempt.sent_us;
            // Whatever was certainly over before this one was sent can't be read any more.
            let register = self.registers.get_mut(&key).expect("was just there");
            register.retain(|_, other| other.acknowledged_us.is_none_or(|at_us| at_us >= sent_us));
        }
    }

    /// The write was refused: it can't be read.
    pub(crate) fn refused(&mut self, group: &str, topic: &str, partition: i32, value: i64) {
        let key = (group.to_owned(), topic.to_owned(), partition);
        if let Some(register) = self.registers.get_mut(&key) {
            register.remove(&value);
        }
    }

    /// The topic or group of this name may be deleted until then, and its commits with it.
    pub(crate) fn forget(&mut self, name: &str, until_us: u64) {
        let until = self.unsure_until_us.entry(name.to_owned()).or_default();
        *until = (*until).max(until_us);
        self.registers.retain(|(group, topic, _), _| group != name && topic != name);
    }

    /// Whether nothing is known; then what was noted is forgotten.
    fn is_unsure(&mut self, group: &str, topic: &str, now_us: u64) -> bool {
        let until_us = |name: &str| self.unsure_until_us.get(name).copied().unwrap_or(0);
        let is_unsure = until_us(group).max(until_us(topic)) >= now_us;
        if is_unsure {
            self.registers.retain(|(other_group, other_topic, _), _| other_group != group || other_topic != topic);
        }
        is_unsure
    }

    /// Somebody read this, and began to at that time; -1 for nothing.
    pub(crate) fn read(
        &mut self,
        (group, topic, partition): (&str, &str, i32),
        value: i64,
        began_us: u64,
    ) -> Result<(), String> {
        if self.is_unsure(group, topic, began_us) {
            return Ok(());
        }
        let key = (group.to_owned(), topic.to_owned(), partition);
        let Some(register) = self.registers.get(&key) else { return Ok(()) };
        let place = format!("{topic}-{partition} of {group}");
        let done_before = |attempt: &Attempt| attempt.acknowledged_us.is_some_and(|at_us| at_us < began_us);
        let Some(read) = register.get(&value) else {
            return match register.iter().find(|(_, attempt)| done_before(attempt)) {
                Some((done, _)) => {
                    Err(format!("{value} is read as the offset of {place}, but {done} was acknowledged"))
                }
                None => Ok(()),
            };
        };
        // Not acknowledged: it may take effect at any time. Acknowledged: not after a later one did for certain.
        let Some(over_us) = read.acknowledged_us else { return Ok(()) };
        let later = register.iter().find(|(_, attempt)| done_before(attempt) && attempt.sent_us > over_us);
        match later {
            Some((later, _)) => {
                Err(format!("{value} is read as the offset of {place}, but {later} was acknowledged later"))
            }
            None => Ok(()),
        }
    }
}
