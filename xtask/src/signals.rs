//! A run that is told to end takes with it what it started.
//!
//! Tests, servers and JVMs are children of children; whoever ends only this program, as a pipeline does at its time
//! limit, would leave them all behind. They are found by their parents in `/proc`; without it only this program ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::shell;

/// What a shell reports of a program that a signal ended.
const EXIT_CODE_BASE: i32 = 128;

/// From now on SIGINT and SIGTERM end everything that this program has started, then the program.
pub(crate) fn end_all_when_told() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be waited for")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            shell::talk("told to end: ending what was started");
            // What ends now would be told as a failure, and this program end as if it had done its work.
            let _silence = (std::io::stdout().lock(), std::io::stderr().lock());
            end_descendants(getpid());
            shell::remove_scratch();
            std::process::exit(EXIT_CODE_BASE + signal);
        }
    });
    Ok(())
}

/// Ends the processes below this one.
fn end_descendants(of: Pid) {
    // First all stand still, so that none starts another one meanwhile.
    let mut stopped = BTreeSet::new();
    loop {
        let running: Vec<_> = descendants(of, &parents()).into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if running.is_empty() {
            break;
        }
        running.into_iter().for_each(|pid| send(pid, Signal::STOP));
    }
    stopped.into_iter().for_each(|pid| send(pid, Signal::KILL));
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may be gone already.
        let _ = kill_process(pid, signal);
    }
}

/// The children of each process that has any.
fn parents() -> BTreeMap<i32, Vec<i32>> {
    let mut children = BTreeMap::<i32, Vec<i32>>::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// `4711 (a name) S 1 ...`: the parent comes after the state; the name may have anything in it.
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn descendants(of: Pid, children: &BTreeMap<i32, Vec<i32>>) -> Vec<i32> {
    let mut found = vec![of.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.get(pid).into_iter().flatten());
        next += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn parent_is_read_whatever_the_name() {
        assert_eq!(parent("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (sh"), None);
    }

    #[test]
    fn children_of_children_end_and_others_do_not() {
        let sleepers =
            || Command::new("sh").args(["-c", "sh -c 'sleep 1000; true' & wait"]).stdin(Stdio::null()).spawn();
        let [mut ours, mut other] = [(); 2].map(|()| sleepers().expect("there is a shell"));
        let pid = |child: &std::process::Child| Pid::from_child(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while [&ours, &other].iter().any(|child| descendants(pid(child), &parents()).len() < 2) {
            assert!(Instant::now() < deadline, "the shells did not start their children");
            thread::yield_now();
        }
        end_descendants(pid(&ours));
        // The shell waits for its child, and so it ends.
        assert!(ours.wait().expect("it can be waited for").code().is_some());
        assert_eq!(descendants(pid(&other), &parents()).len(), 2);
        end_descendants(pid(&other));
        other.wait().expect("it can be waited for");
    }
}
