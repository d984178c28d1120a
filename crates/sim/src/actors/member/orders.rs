//! What whoever runs the application does to a member, and what becomes of one whose version is not wanted.
//!
//! A client that is refused because of its topology ends, as a stream thread does that dies with its instance: it says
//! nothing more. Somebody starts it again, in the same version, until it is told to run another one.

use super::{Member, START};
use crate::{app::Version, core::Core, oracle::Task, queue::How};

/// Statuses of a group (KIP-1071).
const MISSING_SOURCE_TOPICS: i8 = 1;
const WRONG_PARTITIONS: i8 = 2;

impl Member {
    pub(super) fn stop_by_order(&mut self, core: &mut Core, how: How) {
        if self.is_gone {
            return;
        }
        self.is_held = true;
        // Timers of before are void.
        self.life += 1;
        if !self.is_up {
            return;
        }
        // A client that stands still can only be killed.
        let stands_still = core.paused_until_us[self.actor] > core.now_us;
        match how {
            How::Close | How::Leave if !stands_still => self.say_goodbye(core, how == How::Close),
            How::Close | How::Leave | How::Kill => core.tell(self.actor, format_args!("is killed")),
        }
        self.halt(core);
        core.paused_until_us[self.actor] = core.now_us;
    }

    pub(super) fn start_by_order(&mut self, core: &mut Core, number: u32) {
        if self.is_gone {
            return;
        }
        self.is_held = false;
        if self.number != number {
            self.number = number;
            self.app = Version::of(&self.group, number);
            core.tell(self.actor, format_args!("is to run version {number}"));
        }
        self.start(core);
    }

    /// Others run another version: it ends.
    pub(super) fn on_other_version(&mut self, core: &mut Core) {
        core.totals.add("versions refused", 1);
        self.end_for_a_while(core);
    }

    /// Whether it ends because of what it is told of the group's topics, as clients of 4.2 and later do: at once when
    /// topics do not fit its topology, and when source topics are missing for two heartbeat intervals.
    pub(super) fn must_end(&mut self, core: &mut Core, statuses: Option<Vec<i8>>) -> bool {
        let Some(statuses) = statuses else { return false };
        let is_missing = statuses.contains(&MISSING_SOURCE_TOPICS);
        self.missing_since_us = is_missing.then(|| self.missing_since_us.unwrap_or(core.now_us));
        let grace_us = 2 * self.interval_ms * 1000;
        let is_over = self.missing_since_us.is_some_and(|since_us| core.now_us > since_us + grace_us);
        let must_end = is_over || statuses.contains(&WRONG_PARTITIONS);
        if must_end {
            core.tell(self.actor, format_args!("ends, for it is told {statuses:?}"));
            core.totals.add("ended by a status", 1);
            self.end_for_a_while(core);
        }
        must_end
    }

    /// It is told to run what its own version does not have.
    pub(super) fn on_unknown_task(&mut self, core: &mut Core, task: Task) {
        if self.group.epochs_rise {
            core.tell(self.actor, format_args!("does not know task {task} and ends"));
            core.totals.add("unknown tasks", 1);
            self.end_for_a_while(core);
        } else {
            core.fail(format_args!("{} is told to run {task}, which is no task of its version", self.member_id));
        }
    }

    /// As after every fatal error.
    pub(super) fn end_for_a_while(&mut self, core: &mut Core) {
        self.halt(core);
        let delay_ms = 500 + core.prng.below(2500);
        self.timer(core, delay_ms, START);
    }
}
