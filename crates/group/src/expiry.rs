//! The sweep that forgets old offsets, and empty groups without any.
//!
//! It goes over the groups in order of their ids, one batch of records per group that has something to forget.

use core::ops::Bound;

use riparian_types::{GroupId, MonoMillis, Now, TopicName, machine::Decision};

use crate::{
    classic::ClassicGroupState,
    group::{Found, Group},
    machine::GroupMachine,
    offsets::Retention,
    soft::GroupSoft,
};

/// Groups looked at in one go when none has anything to forget.
const GROUPS_PER_STEP: usize = 1000;

/// Where the sweep stands.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// When it goes on; `None` before the machine is loaded.
    pub(crate) next: Option<MonoMillis>,
    /// The last group it looked at; `None`: it begins anew.
    after: Option<GroupId>,
}

impl GroupMachine {
    /// Goes on with the sweep until a group has something to forget.
    pub(crate) fn sweep(&self, soft: &mut GroupSoft, now: Now) -> Decision<Self> {
        let mut decision = Decision::nothing();
        for _ in 0..GROUPS_PER_STEP {
            let from = soft.sweep.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let Some((group_id, group)) = self.groups.range::<GroupId, _>((from, Bound::Unbounded)).next() else {
                soft.sweep.after = None;
                soft.sweep.next = Some(now.mono.plus_ms(self.config.offsets_retention_check_interval_ms.max(1)));
                return decision;
            };
            soft.sweep.after = Some(group_id.clone());
            let group_goes = self.expire(soft, group_id, group, now, &mut decision);
            if group_goes {
                soft.remove_group(group_id);
            }
            if !decision.records.is_empty() {
                return decision;
            }
        }
        decision
    }

    /// Forgets what is too old of one group; says whether the group goes as a whole.
    fn expire(
        &self,
        soft: &GroupSoft,
        group_id: &GroupId,
        group: &Group,
        now: Now,
        decision: &mut Decision<Self>,
    ) -> bool {
        let found = self.find(soft, group_id);
        let is_empty = found.is_empty();
        let in_use = |topic: &TopicName| match found {
            Found::Nothing | Found::OffsetsOnly => false,
            Found::Classic(classic) => match classic.state() {
                ClassicGroupState::Empty => false,
                ClassicGroupState::Stable if classic.is_of_consumers() && classic.knows_subscriptions() => {
                    classic.reads_topic(topic)
                }
                // What such members read is not known, or about to change.
                ClassicGroupState::Stable
                | ClassicGroupState::PreparingRebalance
                | ClassicGroupState::CompletingRebalance => true,
            },
            Found::Streams(streams) => !is_empty && self.reader_of(soft, group_id, streams, topic).is_some(),
        };
        // Offsets of a group that was left count from then, not from the last commit (KIP-211).
        let left_at = match found {
            Found::Classic(classic) if is_empty && !classic.protocol_type().is_empty() => classic.state_timestamp(),
            Found::Nothing | Found::OffsetsOnly | Found::Classic(_) | Found::Streams(_) => None,
        };
        let retention = Retention { now: now.wall, retention_ms: self.config.offsets_retention_ms, left_at };
        let records = &mut decision.records;
        let any_left = group.offsets.expire(group_id, &retention, in_use, records);
        // Somebody may be about to join.
        let is_awaited = matches!(found, Found::Classic(classic) if classic.has_pending_joins());
        if any_left || !is_empty || is_awaited {
            return false;
        }
        records.clear();
        group.tombstones(group_id, records);
        true
    }
}
