//! The word count application of `tests/java` on a server: its topics, instances, input and results.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::direct::create_topics;
use crate::java::{own_program, own_program_on};
use crate::process::Program;
use crate::server::Server;
use crate::text::{self, Feed, Topic};

const INPUT: &str = "text-lines";
const OUTPUT: &str = "word-counts";
const PARTITIONS: i32 = 4;
const SETTLED_LIMIT: Duration = Duration::from_secs(90);
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// The application, its topics created.
pub struct WordCount {
    /// What its instances are told.
    bootstrap: String,
    /// Where the test itself asks.
    port: u16,
    states: TempDir,
    /// `None`: the release that the tests are compiled with.
    release: Option<String>,
    settings: Vec<String>,
}

impl WordCount {
    /// Its group.
    pub const APPLICATION: &'static str = "word-count";
    /// Two subtopologies of four tasks each.
    pub const TASKS: usize = 8;
    /// Settings of a server on which members that leave are gone at once, and those that are killed, soon.
    pub const QUICK: &[(&str, &str)] = &[
        ("group.streams.min.session.timeout.ms", "3000"),
        ("group.streams.session.timeout.ms", "4000"),
        ("group.streams.min.heartbeat.interval.ms", "500"),
        ("group.streams.heartbeat.interval.ms", "1000"),
        ("group.streams.initial.rebalance.delay.ms", "500"),
    ];

    /// Creates the topics. Instances run on this release of Kafka Streams, with these settings.
    pub fn new(server: &Server, release: Option<&str>, settings: &[&str]) -> Self {
        let application = Self::without_topics(server, release, settings);
        application.create_topics();
        application
    }

    /// The same, but the topics are not there yet.
    pub fn without_topics(server: &Server, release: Option<&str>, settings: &[&str]) -> Self {
        let states = tempfile::Builder::new().prefix("riparian-states-").tempdir();
        Self {
            bootstrap: server.bootstrap(),
            port: server.port(),
            states: states.expect("a temporary directory can be made"),
            release: release.map(str::to_owned),
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
        }
    }

    /// Creates the topics.
    pub fn create_topics(&self) {
        create_topics(self.port, &[INPUT, OUTPUT], PARTITIONS);
    }

    /// Its instances reach the server through another port.
    pub fn behind(self, port: u16) -> Self {
        Self { bootstrap: format!("127.0.0.1:{port}"), ..self }
    }

    /// Starts an instance with two threads; its state directory carries its name.
    pub fn start(&self, name: &str) -> Program {
        self.start_with(name, 2, &[])
    }

    /// Starts an instance with more options, which listens to `add` and `remove`; its clients carry its name.
    pub fn start_with(&self, name: &str, threads: u32, options: &[&str]) -> Program {
        let mut command = match &self.release {
            Some(release) => own_program_on(release, "WordCount"),
            None => own_program("WordCount"),
        };
        command.args(["--bootstrap", &self.bootstrap, "--application-id", Self::APPLICATION]);
        command.args(["--threads", &threads.to_string(), "--set", &format!("client.id={name}")]);
        command.arg("--state-dir").arg(Path::new(self.states.path()).join(name)).args(options);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        Program::start_listening(name, &mut command)
    }

    /// Waits until these instances run, and together run every task once.
    pub fn wait_until_settled(&self, instances: &[&Program]) {
        Program::wait_for_all(instances, "every task in one of the instances", SETTLED_LIMIT, |lines| {
            let mut tasks: Vec<String> = lines.iter().flat_map(|lines| active_tasks(lines)).collect();
            let count = tasks.len();
            tasks.sort();
            tasks.dedup();
            let is_settled = count == Self::TASKS && tasks.len() == Self::TASKS;
            (is_settled && lines.iter().all(|lines| is_running(lines))).then_some(())
        });
    }

    /// Feeds lines, so many a second, while something else happens.
    pub fn feed(&self, from: u64, count: u64, rate: u64) -> Feed {
        Feed::start(self.topic(INPUT), from, count, rate)
    }

    /// The counts of the first `count` lines are right, or, after a crash, at least right.
    pub fn check_counts(&self, count: u64, exact: bool) {
        text::check_counts(&self.topic(OUTPUT), count, exact);
    }

    /// Closes an instance as an operator would; nothing may have gone wrong in it.
    pub fn close(&self, instance: Program) {
        let closed = instance.terminate(CLOSE_LIMIT);
        closed.says("closed");
        assert!(!closed.stdout.contains("error "), "{}", closed.both());
    }

    fn topic(&self, name: &'static str) -> Topic {
        Topic { port: self.port, name, partitions: PARTITIONS }
    }
}

/// What the threads of an instance run, by their last lines.
fn active_tasks(lines: &[String]) -> Vec<String> {
    let mut by_thread = BTreeMap::new();
    for line in lines.iter().filter_map(|line| line.strip_prefix("tasks ")) {
        if let Some((thread, tasks)) = line.split_once(" active=") {
            by_thread.insert(thread, tasks.split(' ').next().unwrap_or_default());
        }
    }
    by_thread.values().flat_map(|tasks| tasks.split(',')).filter(|task| !task.is_empty()).map(str::to_owned).collect()
}

fn is_running(lines: &[String]) -> bool {
    let state = lines.iter().rev().find(|line| line.starts_with("state "));
    state.is_some_and(|line| line.ends_with(" RUNNING"))
}
