//! What a process has used, from `/proc`, and how one is told to end.
//!
//! It never looks a process up by name.

use std::{fs, num::NonZero, time::Duration};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Descriptors that the load generator may need, with room for a server's logs in `sync`.
const FILES_WANTED: u64 = 8192;

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    /// What is shared counts in part.
    pub(crate) proportional: u64,
    /// What belongs to no file: heap and stacks.
    pub(crate) anonymous: u64,
}

/// Lets this process open enough connections, and wake in time.
pub(crate) fn prepare() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < FILES_WANTED) {
        let current = limit.maximum.map_or(FILES_WANTED, |maximum| maximum.min(FILES_WANTED));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })
            .context("the limit of open files cannot be raised")?;
    }
    // The default is 50 us, half of what a heartbeat takes.
    rustix::thread::set_current_timer_slack(NonZero::new(1)).context("the timer slack cannot be set")
}

/// User and system time of all threads, those that ended too.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    // The second field is the name in parentheses and may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // Fields 14 and 15 of the whole line.
    let ticks = |index: usize| fields.get(index - 3).and_then(|field| field.parse::<u64>().ok());
    let (Some(user), Some(system)) = (ticks(14), ticks(15)) else {
        bail!("/proc/{pid}/stat is not understood: {stat}")
    };
    Ok(Duration::from_secs_f64((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64))
}

pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let rollup = read(pid, "smaps_rollup")?;
    let bytes = |name: &str| {
        let line =
            rollup.lines().find(|line| line.starts_with(name)).with_context(|| format!("no {name} in {rollup}"))?;
        let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).with_context(|| format!("{line} has no number"))
    };
    Ok(Memory { resident: bytes("Rss:")?, proportional: bytes("Pss:")?, anonymous: bytes("Anonymous:")? })
}

/// Sends SIGTERM.
pub(crate) fn terminate(pid: u32) -> Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| format!("{pid} is no process id"))?;
    kill_process(number, Signal::TERM).with_context(|| format!("process {pid} cannot be told to end"))
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has the process ended?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_has_used_something() {
        let own = std::process::id();
        assert!(cpu(own).is_ok());
        let memory = memory(own).unwrap();
        assert!(memory.resident >= memory.anonymous && memory.anonymous > 0, "{memory:?}");
        assert!(memory.proportional > 0, "{memory:?}");
    }
}
