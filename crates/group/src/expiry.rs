//! The sweep that forgets old offsets, and empty groups without any.
//!
//! It goes over the groups in order of their ids, one batch of records per group that has something to forget.

use core::ops::Bound;

use riparian_types::{GroupId, MonoMillis, Now, machine::Decision};

use crate::{
    group::{Group, GroupKind},
    machine::GroupMachine,
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
            let group_goes = self.expire(group_id, group, now, &mut decision);
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
    fn expire(&self, group_id: &GroupId, group: &Group, now: Now, decision: &mut Decision<Self>) -> bool {
        let is_empty = group.is_empty();
        let in_use = |topic: &riparian_types::TopicName| match &group.kind {
            GroupKind::OffsetsOnly => false,
            GroupKind::Classic(_) => !is_empty,
            GroupKind::Streams(streams) => !is_empty && streams.reads_topic(topic),
        };
        let retention_ms = self.config.offsets_retention_ms;
        let records = &mut decision.records;
        let any_left = group.offsets.expire(group_id, now.wall, retention_ms, in_use, records);
        if any_left || !is_empty {
            return false;
        }
        records.clear();
        group.tombstones(group_id, records);
        true
    }
}
