//! The assignors that come with this crate.

use crate::{BalancedTaskAssignor, OptimalTaskAssignor, StickyTaskAssignor, TaskAssignor};

/// All of them; the first is the one to use where nothing is configured.
pub const ASSIGNORS: &[&dyn TaskAssignor] = &[&StickyTaskAssignor, &BalancedTaskAssignor, &OptimalTaskAssignor];

/// The assignor with this name.
pub fn find(name: &str) -> Option<&'static dyn TaskAssignor> {
    ASSIGNORS.iter().copied().find(|assignor| assignor.name() == name)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn assignors_are_found_by_their_exact_name() {
        assert_eq!(find("sticky").map(|assignor| assignor.name()), Some("sticky"));
        assert!(find("Sticky").is_none());
        assert!(find("").is_none());
    }
}
