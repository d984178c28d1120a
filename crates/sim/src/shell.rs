//! The program around the broker, as the simulator plays it: what the broker asks for is noted and done later.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use riparian_broker::{ConnectionId, Job, Reply, Shell};
use riparian_types::{MonoMillis, Now, WallMillis};

use crate::{disk::SimDisk, suspended};

/// The wall clock's reading when virtual time begins.
const WALL_START_MS: i64 = 1_700_000_000_000;

/// Both clocks at a virtual time.
pub(crate) fn at(now_us: u64) -> Now {
    let ms = now_us / 1000;
    Now { mono: MonoMillis(ms), wall: WallMillis(WALL_START_MS.saturating_add_unsigned(ms)) }
}

/// One life's shell.
pub(crate) struct SimShell {
    now_us: AtomicU64,
    disk: Arc<SimDisk>,
    asked: Mutex<Asked>,
}

/// What the broker asked for since the last look.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) jobs: Vec<Job>,
    pub(crate) replies: Vec<(ConnectionId, u64, Reply)>,
    pub(crate) wake: Option<MonoMillis>,
}

impl SimShell {
    pub(crate) fn new(now_us: u64, disk: Arc<SimDisk>) -> Self {
        Self { now_us: AtomicU64::new(now_us), disk, asked: Mutex::default() }
    }

    pub(crate) fn set_now(&self, now_us: u64) {
        self.now_us.store(now_us, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Asked {
        std::mem::take(&mut self.asked())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shell for SimShell {
    fn now(&self) -> Now {
        suspended::no_more_standing_still();
        at(self.now_us.load(Ordering::Relaxed))
    }

    fn micros(&self) -> u64 {
        self.now_us.load(Ordering::Relaxed)
    }

    fn complete(&self, connection: ConnectionId, slot: u64, reply: Reply) {
        // A dead server says nothing.
        if !self.disk.is_dead() {
            self.asked().replies.push((connection, slot, reply));
        }
    }

    fn wake_at(&self, at: MonoMillis) {
        let mut asked = self.asked();
        asked.wake = Some(asked.wake.map_or(at, |wake| wake.min(at)));
    }

    fn spawn(&self, job: Job) {
        self.asked().jobs.push(job);
    }
}
