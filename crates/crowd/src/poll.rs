//! epoll, with a number for each socket.

use std::{os::fd::AsFd, time::Duration};

use anyhow::{Context as _, Result};
use rustix::{
    event::{Timespec, epoll},
    fd::OwnedFd,
    io::Errno,
};

/// Read from a socket at once.
pub const READ_BYTES: usize = 256 * 1024;
const EVENTS_MAX: usize = 512;

#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub key: u64,
    pub read: bool,
    pub write: bool,
}

pub struct Poll {
    epoll: OwnedFd,
    raw: Vec<epoll::Event>,
    ready: Vec<Ready>,
}

impl Poll {
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll cannot be used")?;
        Ok(Self { epoll, raw: Vec::with_capacity(EVENTS_MAX), ready: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Waits for bytes on this socket from now on.
    pub fn add(&self, socket: &impl AsFd, key: u64) -> Result<()> {
        let added = epoll::add(&self.epoll, socket, epoll::EventData::new_u64(key), epoll::EventFlags::IN);
        added.context("a socket cannot be waited for")
    }

    /// Also waits for room to write, or no longer.
    pub fn want_write(&self, socket: &impl AsFd, key: u64, write: bool) -> Result<()> {
        let flags = if write { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        let changed = epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(key), flags);
        changed.context("a socket cannot be waited for")
    }

    /// Waits, to the nanosecond; `None` waits for ever.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        self.raw.clear();
        self.ready.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.raw), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll failed"),
        }
        self.ready.extend(self.raw.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            // A broken socket is read, to learn how it broke.
            Ready {
                key: data.u64(),
                read: flags != epoll::EventFlags::OUT,
                write: flags.contains(epoll::EventFlags::OUT),
            }
        }));
        Ok(())
    }

    /// What the last wait has found.
    pub fn events(&self) -> &[Ready] {
        &self.ready
    }
}
