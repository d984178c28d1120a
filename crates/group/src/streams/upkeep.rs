//! What groups with source patterns have done for them, a little at a time.
//!
//! Matching goes on in slices ([`super::matches`]), and a group whose patterns stand for many topics is configured anew
//! when its turn comes. Both take turns: one of them is done whenever the timer here comes up, and then there is a pause in
//! which others have the shard. Who waits for a turn waits in a queue, and goes on with what it had.

use alloc::collections::VecDeque;

use riparian_types::{GroupId, MonoMillis, Now, machine::Decision};

use crate::{machine::GroupMachine, soft::GroupSoft};

/// The pause after a slice of matching, and the least one after a group.
const PAUSE_MS: i64 = 1;
/// Topics of a group for which the pause is a millisecond longer: about as long as they took.
const TOPICS_PER_MS: usize = 500;

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// The groups that are to be configured, the first one next.
    groups: VecDeque<GroupId>,
    /// When it goes on, if there is anything to do.
    next: Option<MonoMillis>,
    /// The pause that is due first. It begins when what was done last is over, and how long that took shows in the time
    /// that comes with the next call.
    pause_ms: Option<i64>,
    /// It is the groups' turn.
    of_groups: bool,
}

impl Upkeep {
    /// When it goes on.
    pub(crate) const fn next(&self) -> Option<MonoMillis> {
        self.next
    }

    /// Whether that is now.
    pub(crate) fn is_due(&self, now: MonoMillis) -> bool {
        self.next.is_some_and(|next| next <= now)
    }
}

impl GroupSoft {
    /// The group is to be configured when its turn comes.
    pub(crate) fn await_turn(&mut self, now: MonoMillis, group_id: &GroupId) {
        let Some(soft_group) = self.groups.get_mut(group_id) else { return };
        if !soft_group.awaits_turn {
            soft_group.awaits_turn = true;
            self.upkeep.groups.push_back(group_id.clone());
        }
        self.upkeep.next.get_or_insert(now);
    }

    /// To be called when patterns may have something left to see.
    pub(crate) fn go_on_with_patterns(&mut self, now: MonoMillis) {
        if self.caches.matches.has_work() {
            self.upkeep.next.get_or_insert(now);
        }
    }
}

impl GroupMachine {
    /// The upkeep's timer came up: does one thing, or begins the pause after it.
    pub(crate) fn on_upkeep(&self, soft: &mut GroupSoft, now: Now) -> Decision<Self> {
        if let Some(pause_ms) = soft.upkeep.pause_ms.take() {
            soft.upkeep.next = Some(now.mono.plus_ms(pause_ms));
            return Decision::nothing();
        }
        let is_groups_turn = soft.upkeep.of_groups || !soft.caches.matches.has_work();
        let group_id = if is_groups_turn { soft.upkeep.groups.pop_front() } else { None };
        let (decision, pause_ms) = match group_id {
            Some(group_id) => {
                if let Some(soft_group) = soft.groups.get_mut(&group_id) {
                    soft_group.awaits_turn = false;
                }
                let decision = self.refresh(soft, now, &group_id);
                let topics = soft.caches.matches.of_group(&group_id);
                (decision, PAUSE_MS + i64::try_from(topics / TOPICS_PER_MS).unwrap_or(0))
            }
            None if soft.caches.matches.has_work() => {
                self.match_slice(soft, now.mono);
                (Decision::nothing(), PAUSE_MS)
            }
            None => {
                soft.upkeep.next = None;
                return Decision::nothing();
            }
        };
        soft.upkeep.of_groups = !soft.upkeep.of_groups;
        soft.upkeep.pause_ms = Some(pause_ms);
        soft.upkeep.next = Some(now.mono.plus_ms(1));
        decision
    }

    /// Matches a slice, and has those looked at whom it concerns.
    pub(crate) fn match_slice(&self, soft: &mut GroupSoft, now: MonoMillis) {
        let Some(topics) = &soft.topics else { return };
        for group_id in soft.caches.matches.work(&self.patterns, topics) {
            if let Some(soft_group) = soft.groups.get_mut(group_id) {
                soft_group.on_topics_changed();
                // Also where targets wait for heartbeats: no heartbeat is to wait for this.
                soft_group.arm_refresh(&mut soft.timers, now, group_id);
            }
        }
    }
}
