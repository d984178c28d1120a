//! A program of the demo whose lines are collected.
//!
//! **Invariant:** a `Process` that is dropped is dead.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

pub(super) struct Process {
    name: String,
    child: Mutex<Child>,
    output: Arc<(Mutex<Output>, Condvar)>,
}

#[derive(Default)]
struct Output {
    lines: Vec<String>,
    complaints: Vec<String>,
    closed: bool,
}

impl Process {
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Self> {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let stderr = child.stderr.take().context("stderr is piped")?;
        let output = Arc::<(Mutex<Output>, Condvar)>::default();
        let for_lines = Arc::clone(&output);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                lock(&for_lines.0).lines.push(line);
                for_lines.1.notify_all();
            }
            lock(&for_lines.0).closed = true;
            for_lines.1.notify_all();
        });
        let for_complaints = Arc::clone(&output);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lock(&for_complaints.0).complaints.push(line);
            }
        });
        Ok(Self { name: name.to_owned(), child: Mutex::new(child), output })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn lines(&self) -> Vec<String> {
        lock(&self.output.0).lines.clone()
    }

    /// Waits until its lines give an answer.
    pub(super) fn wait_for<T>(&self, limit: Duration, answer: impl Fn(&[String]) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + limit;
        let mut output = lock(&self.output.0);
        loop {
            if let Some(answer) = answer(&output.lines) {
                return Ok(answer);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || output.closed {
                bail!("{} gave no answer: {}", self.name, output.complaints.join("\n"));
            }
            let waited = self.output.1.wait_timeout(output, left);
            output = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until it closes its output, that is, ends.
    pub(super) fn wait_for_end(&self) {
        let mut output = lock(&self.output.0);
        while !output.closed {
            output = self.output.1.wait(output).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends it at once, as a crash would.
    pub(super) fn kill(&self) {
        let mut child = lock(&self.child);
        // Both fail only when it is gone already.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Asks it to end, and waits.
    pub(super) fn terminate(self, limit: Duration) -> Result<()> {
        let kill = format!("kill -TERM {} 2>&-", lock(&self.child).id());
        // It may have ended by itself.
        let _ = Command::new("sh").args(["-c", &kill]).status();
        let deadline = Instant::now() + limit;
        let mut output = lock(&self.output.0);
        while !output.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("{} did not end within {limit:?}", self.name);
            }
            output = self.output.1.wait_timeout(output, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
