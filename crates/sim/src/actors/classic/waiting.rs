//! How a simulated consumer waits for its group, loses patience, and hangs while its group waits for it.
//!
//! **Checked here:** neither waits for longer than the rebalance timeout.

use crate::{
    actors::classic::{ASK_AGAIN, Consumer, PATIENCE_MS, State},
    core::Core,
};

/// How much longer it may take once nothing new is late: what was late before may still hold it up.
const PROMPT_MS: u64 = 5000;

impl Consumer {
    /// It has sent what waits for the group; some lose patience, and what they sent comes late or twice.
    pub(super) fn waits(&mut self, core: &mut Core) {
        self.asked_us = core.now_us;
        if !core.is_healing && core.prng.chance(30) {
            let delay_ms = core.prng.below(1500);
            self.timer(core, delay_ms, ASK_AGAIN);
        }
    }

    pub(super) fn ask_again(&mut self, core: &mut Core) {
        if matches!(self.state, State::Joining(_) | State::Syncing(_)) {
            core.tell(self.actor, format_args!("waits no longer"));
            core.totals.add("waits given up", 1);
            self.client.disconnect(core);
            self.forget_requests();
            self.state = State::Out;
            self.join(core);
        }
    }

    /// Once nothing is late any more, no wait for the group is longer than its rebalance timeout.
    pub(super) fn check_wait(&self, core: &mut Core) {
        let is_undisturbed = core.is_healing && self.asked_us > core.heals_us.max(core.paused_until_us[self.actor]);
        let waited_ms = (core.now_us - self.asked_us) / 1000;
        if is_undisturbed && waited_ms > self.group.rebalance_timeout_ms + PROMPT_MS {
            core.fail(format_args!("{} waits for the group for {waited_ms} ms", self.member_id));
        }
    }

    /// The group does not wait for it for so long, unless the server forgot in a new life that it did.
    pub(super) fn hang_ends(&mut self, core: &mut Core) {
        let since_us = core.now_us - (self.group.rebalance_timeout_ms + PATIENCE_MS) * 1000;
        let is_undisturbed = self.joined.0 == core.life && core.never_reloads() && self.joined_us <= since_us;
        let is_missed = self.state == State::Joined && !self.is_assigned && is_undisturbed;
        if is_missed && core.paused_until_us[self.actor] < since_us {
            let (id, generation) = (&self.member_id, self.generation);
            core.fail(format_args!("{id} is in generation {generation} and never asked for its assignment"));
        }
        self.sync(core);
    }
}
