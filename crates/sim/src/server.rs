//! The server's lives: start, work, end.
//!
//! The broker runs as it is. What it asks for (jobs, calls at a time, replies) becomes events; the order of jobs and the
//! moment at which a sync happens are drawn.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use riparian_broker::{AdvertisedListener, AllowAll, Broker, BrokerConfig, Job};
use riparian_log::{FlushMode, Identity, LogConfig, Logs, LogsConfig};
use riparian_metadata::config;
use riparian_types::{HashSeed, NodeId, Now, Uuid};

use crate::{
    core::Core,
    disk::{Death, DiskFaults, SimDisk},
    options::EveryMs,
    queue::{Event, FaultKind},
    shell::{self, SimShell},
    suspended::{Progress, Suspended},
};

/// Where the server keeps its data.
pub(crate) const ROOT: &str = "/data";

/// A server that wants to be called more often than this, and twice for each member, does nothing else.
const WAKES_PER_SECOND_MAX: u64 = 300;

/// One life of the server.
pub(crate) struct Server {
    pub(crate) broker: Arc<Broker>,
    pub(crate) shell: Arc<SimShell>,
    pub(crate) disk: Arc<SimDisk>,
    jobs: BTreeMap<u64, Job>,
    job_count: u64,
    suspended: BTreeMap<u64, Suspended>,
    /// When it is called next.
    wake_us: Option<u64>,
    /// How often it was called by its own wish since then.
    wakes: u64,
    wakes_since_us: u64,
}

impl Server {
    /// Lets what stands still run out.
    pub(crate) fn end(self) -> Option<String> {
        self.suspended.into_values().fold(None, |found, suspended| suspended.finish().or(found))
    }
}

impl Core {
    /// Starts the server on what the last life left.
    pub(crate) fn start_server(&mut self) {
        self.life += 1;
        let disk = Arc::new(SimDisk::new(self.memory.clone(), self.prng.split()));
        self.disks.push((self.life, Arc::downgrade(&disk)));
        let may_die = !self.is_healing && self.options.faults.one_in_inside_disk > 0;
        if may_die && self.prng.chance(10) {
            let death = if self.prng.chance(2) { Death::PowerCut } else { Death::Kill };
            disk.die_in(self.prng.below(200), death);
        }
        let shell = Arc::new(SimShell::new(self.now_us, disk.clone()));
        let opened = self.open_broker(&disk, &shell);
        let life = self.life;
        match opened {
            Ok(broker) if !disk.is_dead() => {
                self.say(format_args!("the server starts, life {life}"));
                self.totals.add("starts", 1);
                let server = Server {
                    broker,
                    shell,
                    disk,
                    jobs: BTreeMap::new(),
                    job_count: 0,
                    suspended: BTreeMap::new(),
                    wake_us: None,
                    wakes: 0,
                    wakes_since_us: 0,
                };
                self.server = Some(server);
                let memory = self.memory.clone();
                let rebuilt = self.records.rebuild_all(&memory);
                self.check(rebuilt);
                self.after_server();
            }
            Ok(_) | Err(_) if disk.is_dead() => {
                // Jobs hold the broker, which holds the shell, which would hold them.
                drop(shell.take());
                self.say(format_args!("the server dies while it starts, life {life}"));
                self.totals.add("crashes", 1);
                self.totals.add("crashes while starting", 1);
                let down_ms = self.draw_down_ms();
                self.after_ms(down_ms, Event::Start);
            }
            Ok(_) => unreachable!("one of the arms above takes it"),
            Err(error) => self.fail(format_args!("the server does not start: {error}")),
        }
    }

    fn open_broker(&mut self, disk: &Arc<SimDisk>, shell: &Arc<SimShell>) -> anyhow::Result<Arc<Broker>> {
        let identity = Identity {
            node_id: NodeId(1),
            cluster_id: None,
            new_cluster_id: "simulated".into(),
            new_directory_id: Uuid::from_random(1, self.life),
        };
        let logs_config = LogsConfig {
            flush: FlushMode::Sync,
            producer_expiration_ms: 86_400_000,
            topic_defaults: LogConfig::KAFKA,
            recovery_threads: 1,
            read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
        };
        let now = shell::at(self.now_us);
        let (logs, report) = Logs::open(disk.clone(), Path::new(ROOT), identity, logs_config, now.wall)?;
        anyhow::ensure!(report.offline.is_empty(), "damage where nothing does damage: {:?}", report.offline);
        let seed = self.prng.next_u64();
        let config = self.broker_config()?;
        Ok(Broker::open(config, logs, Box::new(AllowAll), shell.clone(), seed, now)?)
    }

    fn broker_config(&self) -> anyhow::Result<BrokerConfig> {
        let mut properties = config::BrokerConfig::empty();
        for (key, value) in self.options.settings() {
            properties.set(&key, &value).map_err(|error| anyhow::anyhow!("{key}: {error:?}"))?;
        }
        let listener = AdvertisedListener { listener: "PLAINTEXT".into(), host: "127.0.0.1".into(), port: 9092 };
        Ok(BrokerConfig { properties: Arc::new(properties), advertised: vec![listener], hash_seed: HashSeed(0) })
    }

    fn draw_down_ms(&mut self) -> u64 {
        1 + self.prng.below(if self.is_healing { 50 } else { self.options.faults.down_ms_max })
    }

    /// Calls the broker, if there is one, and follows what it asks for.
    pub(crate) fn with_broker(&mut self, call: impl FnOnce(&mut Self, &Arc<Broker>, Now)) {
        let Some(server) = &self.server else { return };
        let broker = server.broker.clone();
        server.shell.set_now(self.now_us);
        call(self, &broker, shell::at(self.now_us));
        drop(broker);
        self.after_server();
    }

    /// Turns what the broker asked for into events; notices that it died.
    pub(crate) fn after_server(&mut self) {
        let Some(server) = &self.server else { return };
        let asked = server.shell.take();
        if server.disk.is_dead() {
            // Jobs hold the broker, which holds the shell, which would hold them.
            drop(asked);
            self.server_died();
            return;
        }
        let appends = server.disk.take_appends();
        let followed = self.records.follow(appends, &self.memory);
        for line in self.records.take_heard() {
            self.say(format_args!("{line}"));
        }
        self.check(followed);
        for job in asked.jobs {
            let delay_us = self.draw_job_us();
            let life = self.life;
            let Some(server) = &mut self.server else { return };
            let number = server.job_count;
            server.job_count += 1;
            server.jobs.insert(number, job);
            self.after_us(delay_us, Event::Job { life, job: number });
        }
        for (connection, slot, reply) in asked.replies {
            self.reply(connection, slot, reply);
        }
        if let Some(at) = asked.wake {
            let at_us = (at.0.saturating_mul(1000)).max(self.now_us);
            let life = self.life;
            let Some(server) = &mut self.server else { return };
            if server.wake_us.is_none_or(|wake_us| at_us < wake_us) {
                server.wake_us = Some(at_us);
                // Never early, and a thread that sleeps wakes late.
                let late_us = self.prng.below(2000);
                self.queue.add(at_us + late_us, &mut self.prng, Event::Wake { life, at_us });
            }
        }
    }

    fn draw_job_us(&mut self) -> u64 {
        let faults = &self.options.faults;
        if self.is_healing {
            return 1 + self.prng.below(1000);
        }
        let is_slow = self.prng.chance(faults.one_in_slow_sync);
        1 + self.prng.below(if is_slow { faults.slow_sync_us_max } else { faults.sync_us_max })
    }

    pub(crate) fn run_job(&mut self, life: u64, number: u64) {
        if life != self.life {
            return;
        }
        let Some(job) = self.server.as_mut().and_then(|server| server.jobs.remove(&number)) else { return };
        self.say(format_args!("job {number} runs"));
        self.totals.add("jobs", 1);
        let one_in_suspended = self.options.faults.one_in_suspended;
        let may_stand_still = self.prng.chance(one_in_suspended);
        self.with_broker(|core, _, _| {
            if may_stand_still {
                let progress = Suspended::start(job);
                core.keep(number, progress);
            } else {
                job();
            }
        });
    }

    /// Keeps a job that stands still until it goes on.
    fn keep(&mut self, number: u64, progress: Progress) {
        match progress {
            Progress::StandsStill(suspended) => {
                self.totals.add("jobs suspended", 1);
                let delay_us = self.draw_job_us();
                let life = self.life;
                let Some(server) = &mut self.server else { return };
                server.suspended.insert(number, suspended);
                self.after_us(delay_us, Event::GoOn { life, job: number });
            }
            Progress::Ended(panic) => self.check(panic.map_or(Ok(()), |panic| Err(format!("panic: {panic}")))),
        }
    }

    pub(crate) fn go_on_with_job(&mut self, life: u64, number: u64) {
        if life != self.life {
            return;
        }
        let Some(suspended) = self.server.as_mut().and_then(|server| server.suspended.remove(&number)) else { return };
        self.say(format_args!("job {number} goes on"));
        self.with_broker(|core, _, _| {
            let progress = suspended.go_on();
            core.keep(number, progress);
        });
    }

    /// Lets every job that stands still go on to its end.
    fn finish_jobs(&mut self) {
        let Some(server) = &mut self.server else { return };
        let suspended = std::mem::take(&mut server.suspended);
        self.with_broker(|core, _, _| {
            for suspended in suspended.into_values() {
                if let Some(panic) = suspended.finish() {
                    core.fail(format_args!("panic: {panic}"));
                }
            }
        });
    }

    pub(crate) fn wake_server(&mut self, life: u64, at_us: u64) {
        if life != self.life {
            return;
        }
        let now_us = self.now_us;
        let Some(server) = &mut self.server else { return };
        // Else it was to be called earlier in the meantime.
        if server.wake_us != Some(at_us) {
            return;
        }
        server.wake_us = None;
        if server.wakes_since_us + 1_000_000 < now_us {
            (server.wakes_since_us, server.wakes) = (now_us, 0);
        }
        server.wakes += 1;
        let wakes_max = WAKES_PER_SECOND_MAX + 2 * self.options.members_total();
        if server.wakes > wakes_max {
            self.fail(format_args!("the server wakes {wakes_max} times in a second"));
        }
        self.with_broker(|_, broker, now| broker.on_time(now));
    }

    /// The server's machine has a fault, and the next one of its kind is planned.
    pub(crate) fn fault(&mut self, kind: FaultKind) {
        if self.is_healing {
            return;
        }
        self.plan_fault(kind);
        let one_in_inside_disk = self.options.faults.one_in_inside_disk;
        let inside_disk = self.prng.chance(one_in_inside_disk);
        let operations = self.prng.below(60);
        let heals_in_ms = 1 + self.prng.below(5000);
        let life = self.life;
        let Some(server) = &self.server else { return };
        let disk = server.disk.clone();
        let faults = disk.faults();
        match kind {
            FaultKind::PowerCut | FaultKind::Kill => {
                let death = if kind == FaultKind::PowerCut { Death::PowerCut } else { Death::Kill };
                if inside_disk && disk.dies_soon().is_none() {
                    disk.die_in(operations, death);
                    self.say(format_args!("{death:?} is due in {operations} disk operations"));
                } else {
                    disk.die(death);
                    self.say(format_args!("{death:?}"));
                    self.after_server();
                }
            }
            FaultKind::Restart => {
                self.finish_jobs();
                self.with_broker(|_, broker, now| broker.shutdown(now));
                if let Some(server) = &self.server {
                    self.totals.add("clean restarts", 1);
                    server.disk.die(Death::Kill);
                    self.say(format_args!("the server ends in good order"));
                    self.after_server();
                }
            }
            FaultKind::SyncFailures => {
                disk.set_faults(DiskFaults { sync_fails: true, ..faults });
                self.say(format_args!("syncs fail from now on"));
                self.after_ms(heals_in_ms, Event::DiskHeals { life });
            }
            FaultKind::FullDisk => {
                disk.set_faults(DiskFaults { is_full: true, ..faults });
                self.say(format_args!("the disk is full from now on"));
                self.after_ms(heals_in_ms, Event::DiskHeals { life });
            }
        }
    }

    pub(crate) fn plan_fault(&mut self, kind: FaultKind) {
        let faults = &self.options.faults;
        let every: EveryMs = match kind {
            FaultKind::PowerCut => faults.power_cut,
            FaultKind::Kill => faults.kill,
            FaultKind::Restart => faults.restart,
            FaultKind::SyncFailures => faults.sync_failures,
            FaultKind::FullDisk => faults.full_disk,
        };
        if let Some(delay_ms) = self.draw_ms(every) {
            self.after_ms(delay_ms, Event::Fault(kind));
        }
    }

    pub(crate) fn heal_disk(&mut self, life: u64) {
        if life == self.life
            && let Some(server) = &self.server
        {
            server.disk.set_faults(DiskFaults::default());
            self.say(format_args!("the disk works again"));
        }
    }

    /// Ends this life now; another one begins soon.
    pub(crate) fn die(&mut self, death: Death) {
        if let Some(server) = &self.server {
            server.disk.die(death);
            self.after_server();
        }
    }

    fn server_died(&mut self) {
        let Some(server) = self.server.take() else { return };
        let life = self.life;
        self.say(format_args!("the server is gone, life {life}"));
        self.totals.add("crashes", 1);
        let counts = server.disk.counts();
        self.totals.add("disk operations", counts.operations);
        self.totals.add("syncs", counts.syncs);
        self.totals.add("failed syncs", counts.failed_syncs);
        self.totals.add("failed writes", counts.failed_writes);
        let shell = server.shell.clone();
        if let Some(panic) = server.end() {
            self.fail(format_args!("panic: {panic}"));
        }
        // Jobs hold the broker, which holds the shell, which would hold them.
        drop(shell.take());
        self.break_all_links();
        let down_ms = self.draw_down_ms();
        self.after_ms(down_ms, Event::Start);
    }

    /// Compares the machines with what their logs say.
    pub(crate) fn check_replay(&mut self) {
        let Some(server) = &self.server else { return };
        if server.disk.faults() != DiskFaults::default() || server.disk.dies_soon().is_some() {
            return;
        }
        let result = server.broker.check_replay();
        self.totals.add("replays compared", 1);
        self.check(result.map_err(|what| format!("replay differs from the live state: {what}")));
    }
}
