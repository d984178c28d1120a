//! Seeds that every test run runs.

use crate::options::Groups;

/// Seeds that once failed, each added with its repair and the groups that it was run with, and a few that have a bit of
/// everything.
pub const FIXED_SEEDS: &[(u64, Groups)] = &[
    (1056, Groups::Streams),
    (1758, Groups::Streams),
    (3, Groups::Mixed),
    (318, Groups::Mixed),
    (16, Groups::Mixed),
    (1796013857276069, Groups::Mixed),
    (1796013857285064, Groups::Mixed),
    (1796013857296296, Groups::Mixed),
    (20363, Groups::Mixed),
];
