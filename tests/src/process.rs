//! A running program whose output is collected line by line.
//!
//! **Invariant:** a `Program` that is dropped is dead. Waiting is woken by output, never by a timer's tick.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A program that a test started.
pub struct Program {
    name: String,
    child: Child,
    output: Arc<Output>,
    /// Open as long as it may be told something.
    input: Option<ChildStdin>,
}

/// What a program left when it ended.
#[derive(Debug)]
pub struct Finished {
    /// What the test calls it.
    pub name: String,
    /// How it ended.
    pub status: ExitStatus,
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
}

#[derive(Default)]
struct Output {
    collected: Mutex<Collected>,
    changed: Condvar,
}

/// Counts what any program says, for those who wait for several.
static NEWS: Mutex<u64> = Mutex::new(0);
static SOME_NEWS: Condvar = Condvar::new();

fn spread_news() {
    *NEWS.lock().expect("readers never panic") += 1;
    SOME_NEWS.notify_all();
}

#[derive(Default)]
struct Collected {
    stdout: Vec<String>,
    stderr: Vec<String>,
    closed: u8,
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().expect("a reader thread never panics with the lock held")
    }

    fn read(self: &Arc<Self>, from: impl Read + Send + 'static, pick: fn(&mut Collected) -> &mut Vec<String>) {
        let output = Arc::clone(self);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(from);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                pick(&mut output.lock()).push(text);
                output.changed.notify_all();
                spread_news();
                line.clear();
            }
            output.lock().closed += 1;
            output.changed.notify_all();
            spread_news();
        });
    }
}

impl Program {
    /// Starts a program with an empty standard input.
    pub fn start(name: &str, command: &mut Command) -> Self {
        Self::start_with_input(name, command, "")
    }

    /// Starts a program and gives it all of `input`.
    pub fn start_with_input(name: &str, command: &mut Command, input: &str) -> Self {
        let mut program = Self::start_listening(name, command);
        let mut stdin = program.input.take().expect("stdin is piped");
        let input = input.to_owned();
        // A program may end, or write a lot, before it has read everything.
        std::thread::spawn(move || {
            let _ = stdin.write_all(input.as_bytes());
        });
        program
    }

    /// Starts a program that is told lines later.
    pub fn start_listening(name: &str, command: &mut Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        let output = Arc::new(Output::default());
        output.read(child.stdout.take().expect("stdout is piped"), |collected| &mut collected.stdout);
        output.read(child.stderr.take().expect("stderr is piped"), |collected| &mut collected.stderr);
        let input = child.stdin.take();
        Self { name: name.to_owned(), child, output, input }
    }

    /// Writes a line to its standard input, which `start_listening` has left open.
    pub fn tell(&mut self, line: &str) {
        let told = self.input.as_mut().map(|input| writeln!(input, "{line}"));
        assert!(matches!(told, Some(Ok(()))), "{} cannot be told `{line}`: {told:?}", self.name);
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines it has printed so far.
    pub fn stdout(&self) -> Vec<String> {
        self.output.lock().stdout.clone()
    }

    /// What it has complained about so far.
    pub fn stderr(&self) -> String {
        self.output.lock().stderr.join("\n")
    }

    /// Waits for a line on standard output, from the first one ever printed.
    pub fn wait_for_line(&self, what: &str, limit: Duration, wanted: impl Fn(&str) -> bool) -> String {
        self.wait_until(what, limit, |lines| lines.iter().find(|line| wanted(line)).cloned())
    }

    /// Waits until the lines of standard output give an answer; panics when they do not.
    pub fn wait_until<T>(&self, what: &str, limit: Duration, answer: impl Fn(&[String]) -> Option<T>) -> T {
        self.wait_for(what, limit, |collected| answer(&collected.stdout))
    }

    /// The same with the lines of standard error.
    pub fn wait_until_told<T>(&self, what: &str, limit: Duration, answer: impl Fn(&[String]) -> Option<T>) -> T {
        self.wait_for(what, limit, |collected| answer(&collected.stderr))
    }

    fn wait_for<T>(&self, what: &str, limit: Duration, answer: impl Fn(&Collected) -> Option<T>) -> T {
        let deadline = Instant::now() + limit;
        let mut collected = self.output.lock();
        loop {
            if let Some(answer) = answer(&collected) {
                return answer;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || collected.closed == 2 {
                let why = if left.is_zero() { format!("waited {limit:?}") } else { "it ended".to_owned() };
                drop(collected);
                // What it printed is shown when it is dropped.
                panic!("{}: no {what}: {why}", self.name);
            }
            collected = self.output.changed.wait_timeout(collected, left).expect("readers never panic").0;
        }
    }

    /// Waits until the lines of several programs together give an answer; panics when they do not.
    pub fn wait_for_all<T>(
        programs: &[&Self],
        what: &str,
        limit: Duration,
        answer: impl Fn(&[Vec<String>]) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + limit;
        let mut seen = *NEWS.lock().expect("readers never panic");
        loop {
            let lines: Vec<Vec<String>> = programs.iter().map(|program| program.stdout()).collect();
            if let Some(answer) = answer(&lines) {
                return answer;
            }
            let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{}: no {what}: waited {limit:?}", names.join(", "));
            let has_ended = |program: &&Self| program.output.lock().closed == 2;
            assert!(!programs.iter().all(has_ended), "{}: no {what}: they ended", names.join(", "));
            let news = NEWS.lock().expect("readers never panic");
            let waited = SOME_NEWS.wait_timeout_while(news, left, |news| *news == seen);
            seen = *waited.expect("readers never panic").0;
        }
    }

    /// Sends a signal by name, for example `TERM`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{signal} {}", self.pid())).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{signal} to {}", self.name);
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself.
    pub fn finish(mut self, limit: Duration) -> Finished {
        let deadline = Instant::now() + limit;
        let mut collected = self.output.lock();
        while collected.closed < 2 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(collected);
                panic!("{} did not end within {limit:?}", self.name);
            }
            collected = self.output.changed.wait_timeout(collected, left).expect("readers never panic").0;
        }
        let (stdout, stderr) = (collected.stdout.join("\n"), collected.stderr.join("\n"));
        drop(collected);
        let status = self.child.wait().unwrap_or_else(|error| panic!("cannot wait for {}: {error}", self.name));
        Finished { name: self.name.clone(), status, stdout, stderr }
    }

    /// Sends SIGTERM and waits.
    pub fn terminate(self, limit: Duration) -> Finished {
        self.signal("TERM");
        self.finish(limit)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            // Shown by the test harness for failed tests only.
            eprintln!("{}", shown(&self.name, &self.output.lock()));
        }
    }
}

impl Finished {
    /// Itself, if it ended well.
    pub fn success(self) -> Self {
        assert!(self.status.success(), "{} ended with {}\n{}", self.name, self.status, self.both());
        self
    }

    /// Standard output, then standard error.
    pub fn both(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// Asserts that standard output holds a text.
    pub fn says(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "{} does not say `{text}`\n{}", self.name, self.both());
        self
    }
}

/// The ends of both outputs, for a failed test.
fn shown(name: &str, collected: &Collected) -> String {
    const LINES_MAX: usize = 60;
    let mut text = String::new();
    for (kind, lines) in [("stdout", &collected.stdout), ("stderr", &collected.stderr)] {
        let skipped = lines.len().saturating_sub(LINES_MAX);
        let _ = writeln!(text, "--- {kind} of {name} ({skipped} lines left out) ---");
        lines[skipped..].iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    text
}
