//! Which of a seed's groups are classic.
//!
//! What is drawn here is drawn apart from everything else: with [`Groups::Streams`] a seed means what it meant before
//! there were classic groups.

use riparian_types::Prng;

use crate::options::{EveryMs, GroupOptions, Options};

/// Which kinds of groups a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Groups {
    /// Streams groups only.
    Streams,
    /// Classic groups only.
    Classic,
    /// Both in most seeds, one of them in the others.
    Mixed,
}

impl Groups {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Classic => "classic",
            Self::Mixed => "mixed",
        }
    }
}

/// One classic group.
#[derive(Clone, Debug)]
pub(crate) struct ClassicOptions {
    pub(crate) name: String,
    pub(crate) members: u64,
    /// One in so many members is static; 0: none.
    pub(crate) one_in_static: u64,
    /// One in so many members that are not static is of an old version; 0: none.
    pub(crate) one_in_old: u64,
    pub(crate) partitions: i32,
    /// Members keep what they read while they join (KIP-429).
    pub(crate) is_cooperative: bool,
    pub(crate) rebalance_timeout_ms: u64,
    /// The last member has the first one's instance id: one of the two is fenced.
    pub(crate) has_twins: bool,
}

/// How many of the groups become classic ones.
enum Share {
    /// One huge group and a small one, beside a small streams group.
    Giant,
    All,
    Some,
}

impl Options {
    /// Turns some of the groups into classic ones.
    pub(super) fn mix(&mut self, seed: u64, groups: Groups) {
        let mut prng = Prng::new(seed ^ 0x0c1a_551c_0000_0002);
        let p = &mut prng;
        let (is_giant, kind) = (p.chance(80), p.below(10));
        self.classic_initial_delay_ms = if p.chance(2) { 0 } else { p.below(3000) };
        let share = match (groups, kind) {
            (Groups::Streams, _) => return,
            (Groups::Classic | Groups::Mixed, _) if is_giant => Share::Giant,
            (Groups::Classic, _) | (Groups::Mixed, 9) => Share::All,
            (Groups::Mixed, 0) => return,
            (Groups::Mixed, _) => Share::Some,
        };
        let before = self.members_total();
        match share {
            Share::Giant => self.make_giant(p),
            Share::All => self.classic = self.groups.drain(..).map(|group| of_group(p, &group)).collect(),
            Share::Some if self.groups.len() == 1 => {
                let group = &mut self.groups[0];
                // As many clients as before, and at least two of each kind.
                let members = (1 + p.below(group.members.max(2) - 1)).max(2);
                self.classic = vec![of_group(p, &GroupOptions { members, ..group.clone() })];
                group.members = group.members.saturating_sub(members).max(2);
                group.processes = group.processes.min(group.members);
            }
            Share::Some => {
                // The first one is the largest of a large run.
                let kept = 1 + p.below(self.groups.len() as u64 - 1) as usize;
                let turned = self.groups.split_off(kept);
                self.classic = turned.iter().map(|group| of_group(p, group)).collect();
            }
        }
        if groups == Groups::Classic {
            self.groups.clear();
        }
        // Everybody hears of a rebalance in time, by the next heartbeat.
        let time_to_hear_ms = 2 * self.heartbeat_interval_ms;
        self.classic.iter_mut().for_each(|group| group.rebalance_timeout_ms += time_to_hear_ms);
        if p.chance(8) && before < 50 {
            self.classic[0].members += 15 + p.below(45);
        }
        let after = self.members_total();
        if after > before {
            // Sessions have to end meanwhile.
            let sessions_ms = 4 * self.session_timeout_ms;
            self.faults_ms = Self::faults_ms(after).max(sessions_ms.min(self.faults_ms));
        }
        // More members have more faults, but not as many more.
        let faults = &mut self.faults;
        for every in [&mut faults.member_death, &mut faults.member_leave, &mut faults.member_pause] {
            *every = EveryMs(every.0 * (before + after) / (2 * before).max(1));
        }
    }

    pub(crate) fn members_total(&self) -> u64 {
        let streams: u64 = self.groups.iter().map(|group| group.members).sum();
        streams + self.classic.iter().map(|group| group.members).sum::<u64>()
    }

    fn make_giant(&mut self, p: &mut Prng) {
        self.groups.truncate(1);
        let group = &mut self.groups[0];
        group.members = 2 + p.below(3);
        group.processes = group.processes.min(group.members);
        group.partitions = group.partitions.min(8);
        let huge = GroupOptions { members: 200 + p.below(60), ..group.clone() };
        let small = GroupOptions { name: "app1".to_owned(), members: 2 + p.below(4), ..group.clone() };
        self.classic = vec![of_group(p, &huge), of_group(p, &small)];
        self.classic[0].partitions = 20 + p.below(250) as i32;
    }
}

fn of_group(p: &mut Prng, group: &GroupOptions) -> ClassicOptions {
    ClassicOptions {
        name: group.name.replace("app", "consumers"),
        members: group.members,
        one_in_static: group.one_in_static,
        one_in_old: [0, 3, 5][p.below(3) as usize],
        partitions: group.partitions,
        is_cooperative: p.chance(2),
        rebalance_timeout_ms: 3000 + p.below(17_000),
        has_twins: p.chance(4) && group.one_in_static > 0,
    }
}
