//! Seeds that every test run runs.

/// Seeds that once failed, each added with its repair, and a few that have a bit of everything.
pub const FIXED_SEEDS: &[u64] = &[1056, 1758, 3, 16];
