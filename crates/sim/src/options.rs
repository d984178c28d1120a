//! What a seed makes of a run: how many of everything, how fast, and which faults.
//!
//! Swarm testing: each seed switches a random subset of the faults on and draws the sizes, so that rare combinations
//! come up and a fault that hides another one is sometimes absent.

use riparian_types::Prng;

pub(crate) use classic::ClassicOptions;
pub use classic::Groups;

mod classic;
mod deployments;

/// How often something happens: once in this many milliseconds on average; 0 for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EveryMs(pub(crate) u64);

/// Everything that the seed decides before the run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) groups: Vec<GroupOptions>,
    pub(crate) classic: Vec<ClassicOptions>,
    pub(crate) producers: u64,
    pub(crate) readers: u64,
    pub(crate) data_partitions: i32,
    pub(crate) records_per_producer: u64,
    pub(crate) offsets_partitions: u64,
    /// How long faults go on.
    pub(crate) faults_ms: u64,
    pub(crate) session_timeout_ms: u64,
    pub(crate) heartbeat_interval_ms: u64,
    pub(crate) rebalance_timeout_ms: u64,
    pub(crate) initial_delay_ms: u64,
    pub(crate) classic_initial_delay_ms: u64,
    pub(crate) assignment_interval_ms: u64,
    pub(crate) standbys: u64,
    /// Targets are computed when their reason arises.
    pub(crate) fast_rebalance: bool,
    pub(crate) faults: Faults,
    /// The server's settings for scripts; they are not made of the sizes above.
    pub(crate) settings: Vec<(String, String)>,
}

/// One streams group.
#[derive(Clone, Debug)]
pub(crate) struct GroupOptions {
    pub(crate) name: String,
    pub(crate) members: u64,
    pub(crate) processes: u64,
    /// One in so many members is static; 0: none.
    pub(crate) one_in_static: u64,
    pub(crate) partitions: i32,
    /// The second subtopology reads a repartition topic and has a store.
    pub(crate) is_stateful: bool,
    /// Its topology gives the source topic by a pattern.
    pub(crate) by_pattern: bool,
    /// How many versions of the application are run, one after the other or beside each other.
    pub(crate) versions: u32,
    /// Topologies have epochs of their own, which no real client gives them.
    pub(crate) epochs_rise: bool,
    /// Clients end when they are told that topics are missing or wrong, as Kafka's do.
    pub(crate) obeys_statuses: bool,
    /// Partitions of the topic that only some of the versions read.
    pub(crate) rest_partitions: i32,
    /// Partitions of the repartition topic of the versions that say how many it has.
    pub(crate) repartition_partitions: i32,
}

/// Which faults there are, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) power_cut: EveryMs,
    pub(crate) kill: EveryMs,
    pub(crate) restart: EveryMs,
    /// Of the power cuts, one in so many happens inside a disk operation; 0: none.
    pub(crate) one_in_inside_disk: u64,
    pub(crate) down_ms_max: u64,
    /// One in so many requests is followed by the loss of its connection.
    pub(crate) one_in_dropped: u64,
    pub(crate) latency_us_max: u64,
    /// One in so many messages is late.
    pub(crate) one_in_late: u64,
    pub(crate) late_us_max: u64,
    pub(crate) sync_us_max: u64,
    pub(crate) one_in_slow_sync: u64,
    pub(crate) slow_sync_us_max: u64,
    /// One in so many jobs stands still in its sync while everything else goes on.
    pub(crate) one_in_suspended: u64,
    pub(crate) sync_failures: EveryMs,
    pub(crate) full_disk: EveryMs,
    pub(crate) member_death: EveryMs,
    pub(crate) member_leave: EveryMs,
    pub(crate) member_pause: EveryMs,
    pub(crate) topic_change: EveryMs,
    pub(crate) config_change: EveryMs,
    pub(crate) group_delete: EveryMs,
    /// Some application is stopped and started, perhaps in another version.
    pub(crate) deployment: EveryMs,
}

/// One in so many seeds has a group of [`FULL_MEMBERS`], at this place among them.
const ONE_IN_FULL: u64 = 400;
const FULL_AT: u64 = 250;
const FULL_MEMBERS: u64 = 500;

impl Options {
    /// What this seed makes of a run.
    pub(crate) fn of_seed(seed: u64, groups: Groups) -> Self {
        let mut options = Self::of_streams(seed);
        options.mix(seed, groups);
        if seed % ONE_IN_FULL == FULL_AT && !options.groups.is_empty() {
            options.fill(seed);
        }
        options.deploy(seed);
        options
    }

    /// The names of all groups and how many partitions the topic has that each reads.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, i32)> {
        let streams = self.groups.iter().map(|group| (&*group.name, group.partitions));
        streams.chain(self.classic.iter().map(|group| (&*group.name, group.partitions)))
    }

    /// Makes the first group as large as Kafka recommends at most, and everything beside it small.
    fn fill(&mut self, seed: u64) {
        let mut prng = Prng::new(seed ^ 0xf011_0000_0000_0004);
        let p = &mut prng;
        self.groups.truncate(1);
        self.classic.truncate(1);
        self.classic.iter_mut().for_each(|group| group.members = group.members.min(3));
        let group = &mut self.groups[0];
        group.members = FULL_MEMBERS;
        group.processes = 1 + p.below(FULL_MEMBERS);
        group.partitions = 50 + p.below(200) as i32;
        self.faults_ms = 30_000;
        // A handful of each in that time.
        let rare = EveryMs(FULL_MEMBERS * 5_000);
        let faults = &mut self.faults;
        for every in [&mut faults.member_death, &mut faults.member_leave, &mut faults.member_pause] {
            *every = if every.0 == 0 { EveryMs(0) } else { rare };
        }
    }

    /// Small groups are watched for longer: every seed gives about as many events.
    fn faults_ms(members: u64) -> u64 {
        (30_000 + 750_000 / members).min(120_000)
    }

    fn of_streams(seed: u64) -> Self {
        let mut prng = Prng::new(seed ^ 0x5157_a12d_0000_0001);
        let p = &mut prng;
        let size = p.below(100);
        let members_total = match size {
            0..=59 => 3 + p.below(8),
            60..=89 => 10 + p.below(20),
            90..=97 => 30 + p.below(50),
            98 => 100 + p.below(101),
            _ => 250 + p.below(151),
        };
        let session_timeout_ms = 3000 + p.below(12_000);
        let heartbeat_interval_ms = 400 + p.below(session_timeout_ms / 4);
        let faults_ms = Self::faults_ms(members_total);
        let group_count = 1 + p.below(if members_total < 6 { 2 } else { 4 });
        let has_giant = members_total >= 250 && group_count > 1;
        let groups = (0..group_count)
            .map(|index| {
                // One group of the largest runs has most of the members.
                let members = match (has_giant, index) {
                    (false, _) => members_total / group_count,
                    (true, 0) => members_total * 4 / 5,
                    (true, _) => members_total / 5 / (group_count - 1),
                };
                let members = members.max(2);
                GroupOptions {
                    name: format!("app{index}"),
                    members,
                    processes: 1 + p.below(members),
                    one_in_static: [0, 2, 4, 1][p.below(4) as usize],
                    partitions: 1 + p.below(3 + members.min(20)) as i32,
                    is_stateful: !p.chance(4),
                    by_pattern: (seed / 2 + index).is_multiple_of(2),
                    versions: 1,
                    epochs_rise: false,
                    obeys_statuses: false,
                    rest_partitions: 0,
                    repartition_partitions: 0,
                }
            })
            .collect();
        Self {
            groups,
            classic: Vec::new(),
            producers: 1 + p.below(3),
            readers: 1 + p.below(2),
            data_partitions: 1 + p.below(4) as i32,
            records_per_producer: 50 + p.below(400),
            offsets_partitions: 1 + p.below(6),
            faults_ms,
            session_timeout_ms,
            heartbeat_interval_ms,
            rebalance_timeout_ms: 5000 + p.below(30_000),
            initial_delay_ms: if p.chance(2) { 0 } else { p.below(4000) },
            classic_initial_delay_ms: 0,
            assignment_interval_ms: if p.chance(2) { 0 } else { p.below(3000) },
            standbys: if p.chance(2) { 0 } else { 1 + p.below(2) },
            fast_rebalance: seed % 2 == 1,
            faults: Faults::draw(p, members_total),
            settings: Vec::new(),
        }
    }

    /// A server with these settings, and nobody but who runs a script; nothing goes wrong by itself.
    pub(crate) fn for_scripts(settings: Vec<(String, String)>) -> Self {
        let base = Self::of_seed(0, Groups::Streams);
        let faults = Faults {
            one_in_inside_disk: 0,
            down_ms_max: 1,
            one_in_dropped: 0,
            latency_us_max: 1,
            one_in_late: 0,
            sync_us_max: 100,
            one_in_slow_sync: 0,
            one_in_suspended: 0,
            ..base.faults
        };
        Self { faults, settings, ..base }
    }

    /// The server's settings.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        if !self.settings.is_empty() {
            return self.settings.clone();
        }
        let settings: [(&str, u64); 15] = [
            ("offsets.topic.num.partitions", self.offsets_partitions),
            ("group.streams.min.session.timeout.ms", 100),
            ("group.streams.session.timeout.ms", self.session_timeout_ms),
            ("group.streams.max.session.timeout.ms", 60_000),
            ("group.streams.min.heartbeat.interval.ms", 100),
            ("group.streams.heartbeat.interval.ms", self.heartbeat_interval_ms),
            ("group.streams.max.heartbeat.interval.ms", 15_000),
            ("group.streams.initial.rebalance.delay.ms", self.initial_delay_ms),
            ("group.streams.assignment.interval.ms", self.assignment_interval_ms),
            ("group.streams.max.assignment.interval.ms", 15_000),
            ("group.streams.num.standby.replicas", self.standbys),
            ("group.min.session.timeout.ms", 100),
            ("group.initial.rebalance.delay.ms", self.classic_initial_delay_ms),
            ("offsets.retention.check.interval.ms", 20_000),
            ("log.flush.offset.checkpoint.interval.ms", 7000),
        ];
        let own = ("riparian.fast.rebalance".to_owned(), self.fast_rebalance.to_string());
        settings.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).chain([own]).collect()
    }
}

impl Faults {
    fn draw(p: &mut Prng, members: u64) -> Self {
        let latency_us_max = 200 + p.below(20_000);
        Self {
            power_cut: maybe(p, 30, 8_000, 20_000),
            kill: maybe(p, 3, 10_000, 40_000),
            restart: maybe(p, 2, 20_000, 40_000),
            one_in_inside_disk: [0, 2, 2, 1][p.below(4) as usize],
            down_ms_max: 50 + p.below(6000),
            one_in_dropped: if p.chance(60) { 0 } else { 10 + p.below(150) },
            latency_us_max,
            one_in_late: if p.chance(2) { 0 } else { 10 + p.below(200) },
            late_us_max: 50_000 + p.below(3_000_000),
            sync_us_max: 100 + p.below(10_000),
            one_in_slow_sync: if p.chance(2) { 0 } else { 5 + p.below(100) },
            slow_sync_us_max: 20_000 + p.below(2_000_000),
            one_in_suspended: [0, 2, 5, 10][p.below(4) as usize],
            sync_failures: maybe(p, 2, 10_000, 30_000),
            full_disk: maybe(p, 2, 15_000, 30_000),
            member_death: maybe(p, 80, members * 3_000, members * 7_000),
            member_leave: maybe(p, 8, members * 15_000, members * 30_000),
            member_pause: maybe(p, 4, members * 15_000, members * 30_000),
            topic_change: maybe(p, 2, 8_000, 30_000),
            config_change: maybe(p, 2, 8_000, 30_000),
            group_delete: maybe(p, 2, 8_000, 30_000),
            deployment: EveryMs(0),
        }
    }
}

/// On in all but one of `of` seeds (in half of them for 2), then between the two intervals.
fn maybe(p: &mut Prng, of: u64, shortest: u64, spread: u64) -> EveryMs {
    if p.chance(of) { EveryMs(0) } else { EveryMs(shortest + p.below(spread)) }
}
