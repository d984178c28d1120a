//! The share of tasks that a member may take, which shrinks while members fill up.
//!
//! The quota is the number of open tasks divided by the number of open members, rounded up. When a member reaches
//! exactly the quota it is full, and its tasks and itself leave the reckoning. A member that is at or beyond the quota
//! because the quota shrank is not full in this sense; Kafka's placements depend on that.

/// A quota of tasks per member.
pub(super) struct Quota {
    open_tasks: u64,
    open_members: u64,
    per_member: u64,
}

impl Quota {
    pub(super) fn new(tasks: u64, members: usize) -> Self {
        let open_members = members as u64;
        Self { open_tasks: tasks, open_members, per_member: share(tasks, open_members) }
    }

    /// Whether a member with this many tasks may take one more.
    pub(super) fn allows(&self, member_tasks: u32) -> bool {
        u64::from(member_tasks) < self.per_member
    }

    /// Notes that a member now has this many tasks.
    pub(super) fn on_added(&mut self, member_tasks: u32) {
        if u64::from(member_tasks) != self.per_member {
            return;
        }
        self.open_members = self.open_members.saturating_sub(1);
        self.open_tasks = self.open_tasks.saturating_sub(self.per_member);
        self.per_member = share(self.open_tasks, self.open_members);
    }
}

fn share(tasks: u64, members: u64) -> u64 {
    if members == 0 { 0 } else { tasks.div_ceil(members) }
}

#[cfg(test)]
mod tests {
    use super::Quota;

    #[test]
    fn full_members_leave_the_reckoning() {
        let mut quota = Quota::new(10, 4);
        for (count, expected) in [(1, 3), (2, 3), (3, 3), (3, 2), (2, 2), (2, 0)] {
            quota.on_added(count);
            assert_eq!(quota.per_member, expected, "after a member has {count}");
        }
        assert!(!quota.allows(0));
    }

    #[test]
    fn a_member_beyond_a_shrunken_quota_does_not_leave() {
        let mut quota = Quota::new(4, 3);
        quota.on_added(2);
        assert_eq!(quota.per_member, 1);
        quota.on_added(2);
        assert_eq!((quota.per_member, quota.open_members), (1, 2));
    }

    #[test]
    fn nobody_may_take_anything_without_members() {
        assert!(!Quota::new(10, 0).allows(0));
    }
}
