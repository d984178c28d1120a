//! Which of a seed's applications are stopped, started and replaced by other versions.
//!
//! What is drawn here is drawn apart from everything else.

use riparian_types::Prng;

use crate::{
    app::VERSIONS,
    options::{EveryMs, Options},
};

impl Options {
    /// Gives applications versions, and somebody who runs them.
    pub(super) fn deploy(&mut self, seed: u64) {
        let mut prng = Prng::new(seed ^ 0xde91_0000_0000_0003);
        let p = &mut prng;
        if self.groups.is_empty() || p.chance(2) {
            return;
        }
        let members: u64 = self.groups.iter().map(|group| group.members).sum();
        self.faults.deployment = EveryMs(5_000 + members.min(100) * 300 + p.below(20_000));
        for group in &mut self.groups {
            group.versions = if p.chance(4) { 1 } else { VERSIONS };
            group.epochs_rise = p.chance(4);
            group.obeys_statuses = p.chance(3);
            group.rest_partitions = 1 + p.below(6) as i32;
            group.repartition_partitions = 1 + p.below(6) as i32;
        }
    }
}
