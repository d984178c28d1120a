//! The word count application of `tests/java` on a server: its topics, instances, input and results.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::java::{Tool, own_program, own_program_on};
use crate::process::Program;
use crate::server::Server;

const APPLICATION: &str = "word-count";
const INPUT: &str = "text-lines";
const PARTITIONS: &str = "4";
/// Two subtopologies of four tasks each.
const TASKS: usize = 8;
const SETTLED_LIMIT: Duration = Duration::from_secs(90);
const FEED_LIMIT: Duration = Duration::from_secs(120);
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// The application, its topics created.
pub struct WordCount {
    bootstrap: String,
    states: TempDir,
    /// `None`: the release that the tests are compiled with.
    release: Option<String>,
    settings: Vec<String>,
}

impl WordCount {
    /// Creates the topics. Instances run on this release of Kafka Streams, with these settings.
    pub fn new(server: &Server, release: Option<&str>, settings: &[&str]) -> Self {
        let bootstrap = server.bootstrap();
        for topic in [INPUT, "word-counts"] {
            let arguments = ["--create", "--topic", topic, "--partitions", PARTITIONS, "--replication-factor", "1"];
            Tool::at("TopicCommand", &bootstrap).args(&arguments).run();
        }
        let states = tempfile::Builder::new().prefix("riparian-states-").tempdir();
        Self {
            bootstrap,
            states: states.expect("a temporary directory can be made"),
            release: release.map(str::to_owned),
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
        }
    }

    /// Starts an instance with two threads; its state directory carries its name.
    pub fn start(&self, name: &str) -> Program {
        let mut command = match &self.release {
            Some(release) => own_program_on(release, "WordCount"),
            None => own_program("WordCount"),
        };
        command.args(["--bootstrap", &self.bootstrap, "--application-id", APPLICATION, "--threads", "2"]);
        command.arg("--state-dir").arg(Path::new(self.states.path()).join(name));
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        Program::start(name, &mut command)
    }

    /// Waits until these instances run, and together run every task once.
    pub fn wait_until_settled(&self, instances: &[&Program]) {
        let (last, others) = instances.split_last().expect("there is an instance");
        last.wait_until("every task in one of the instances", SETTLED_LIMIT, |lines| {
            let others: Vec<Vec<String>> = others.iter().map(|instance| instance.stdout()).collect();
            let all = || others.iter().map(Vec::as_slice).chain([lines]);
            let mut tasks: Vec<String> = all().flat_map(active_tasks).collect();
            let count = tasks.len();
            tasks.sort();
            tasks.dedup();
            (count == TASKS && tasks.len() == TASKS && all().all(is_running)).then_some(())
        });
    }

    /// Feeds lines, so many a second, while something else happens.
    pub fn feed(&self, from: u64, count: u64, rate: u64) -> Program {
        let mut command = own_program("Feeder");
        command.args(["--bootstrap", &self.bootstrap, "--topic", INPUT, "--quiet", "true"]);
        command.args(["--from", &from.to_string(), "--count", &count.to_string(), "--rate", &rate.to_string()]);
        Program::start("feeder", &mut command)
    }

    /// Waits until all lines were acknowledged.
    pub fn finish_feed(&self, feeder: Program, count: u64) {
        feeder.finish(FEED_LIMIT).success().says(&format!("done {count} 0"));
    }

    /// The counts of the first `count` lines are right, or, after a crash, at least right.
    pub fn check_counts(&self, count: u64, exact: bool) {
        let mut command = own_program("CountsChecker");
        command.args(["--bootstrap", &self.bootstrap, "--count", &count.to_string(), "--exact", &exact.to_string()]);
        Program::start("counts", &mut command).finish(FEED_LIMIT).success();
    }

    /// Closes an instance as an operator would; nothing may have gone wrong in it.
    pub fn close(&self, instance: Program) {
        let closed = instance.terminate(CLOSE_LIMIT);
        closed.says("closed");
        assert!(!closed.stdout.contains("error "), "{}", closed.both());
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
