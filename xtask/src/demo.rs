//! `demo`: a server, two instances of an ordinary word count, one of them killed; watched live.
//!
//! Owns the order of events and what a person is told. What is shown comes from `riparian groups describe --json`
//! and from the lines that the Java programs print, nothing is made up.
//! **Invariant:** everything started is gone when it returns, however it returns.

mod process;
mod screen;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::setup::Java;
use crate::shell::Scratch;
use crate::{ci, setup, shell};
use process::Process;
use screen::Screen;
use table::Group;

const APPLICATION: &str = "word-count";
const INPUT: &str = "text-lines";
const OUTPUT: &str = "word-counts";
const PARTITIONS: usize = 4;
/// Reading lines and counting words are two subtopologies.
const TASKS: usize = 2 * PARTITIONS;
const LINES: u64 = 6000;
const LINES_A_SECOND: u64 = 400;
/// The second instance dies when so many lines have been fed.
const LINES_BEFORE_KILL: u64 = 2000;
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const PHASE_LIMIT: Duration = Duration::from_secs(90);

/// So that a dead instance is noticed while one watches; Kafka's defaults take 45 seconds.
const QUICK: &[&str] = &[
    "group.streams.min.session.timeout.ms=3000",
    "group.streams.session.timeout.ms=5000",
    "group.streams.min.heartbeat.interval.ms=500",
    "group.streams.heartbeat.interval.ms=1000",
    "group.streams.initial.rebalance.delay.ms=1000",
];

#[derive(Args)]
pub(crate) struct Options {
    /// Keep the server running afterwards, until this command is ended
    #[arg(long)]
    keep: bool,
    /// Use this server instead of starting one
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let java = setup::ensure_java()?;
    let riparian = ci::build_server()?;
    let dir = Scratch::new("riparian-demo")?;
    let demo = Demo { java, riparian, dir: dir.path().to_path_buf() };
    let (server, bootstrap) = match &options.bootstrap {
        Some(bootstrap) => (None, bootstrap.clone()),
        None => {
            let (server, bootstrap, took) = demo.start_server()?;
            shell::print_line(&format!("server   riparian at {bootstrap}, ready after {} ms", took.as_millis()));
            (Some(server), bootstrap)
        }
    };
    demo.play(&bootstrap)?;
    shell::print_line(&how_to_go_on(&bootstrap, &demo.riparian, options.keep));
    if let Some(server) = server.filter(|_| options.keep) {
        shell::talk("the server keeps running; end it with Ctrl-C");
        server.wait_for_end();
    }
    Ok(())
}

struct Demo {
    java: Java,
    riparian: PathBuf,
    dir: PathBuf,
}

impl Demo {
    fn start_server(&self) -> Result<(Process, String, Duration)> {
        let mut command = Command::new(&self.riparian);
        command.args(["serve", "--port", "0", "--data-dir"]).arg(self.dir.join("data"));
        command.args(QUICK.iter().flat_map(|setting| ["--set", setting]));
        let start = Instant::now();
        let server = Process::start("server", &mut command)?;
        let address = server.wait_for(PHASE_LIMIT, |lines| lines.first().cloned())?;
        Ok((server, address, start.elapsed()))
    }

    /// The whole story on one server.
    fn play(&self, bootstrap: &str) -> Result<()> {
        for topic in [INPUT, OUTPUT] {
            self.riparian(&["topics", "create", topic, "--partitions", &PARTITIONS.to_string()], bootstrap)?;
        }
        shell::print_line(&format!("topics   {INPUT} and {OUTPUT}, {PARTITIONS} partitions each"));
        let first = self.start_instance("first", bootstrap)?;
        let second = self.start_instance("second", bootstrap)?;
        shell::print_line("clients  two instances of a Kafka Streams word count, two threads each");
        shell::print_line("");

        let mut screen = Screen::new();
        let instances = [&first, &second];
        self.watch(bootstrap, &mut screen, &instances, None, |group, _| group.is_settled(4, TASKS))?;
        let feeder = self.start_feeder(bootstrap)?;
        let fed_enough = |_: &Group, fed: u64| fed >= LINES_BEFORE_KILL;
        self.watch(bootstrap, &mut screen, &instances, Some(&feeder), fed_enough)?;

        second.kill();
        let killed = Instant::now();
        screen.note("!        the second instance was killed (SIGKILL)");
        let survivor = |group: &Group, _| group.is_settled(2, TASKS);
        self.watch(bootstrap, &mut screen, &instances, Some(&feeder), survivor)?;
        screen.note(&format!(
            "!        its tasks run on the first instance, {:.1} s later",
            killed.elapsed().as_secs_f64()
        ));
        self.watch(bootstrap, &mut screen, &instances, Some(&feeder), |_, fed| fed >= LINES)?;
        screen.finish();

        self.check_counts(bootstrap)?;
        first.terminate(PHASE_LIMIT)?;
        feeder.terminate(PHASE_LIMIT)
    }

    /// Redraws the table until the group and the number of lines fed are as wanted.
    fn watch(
        &self,
        bootstrap: &str,
        screen: &mut Screen,
        instances: &[&Process],
        feeder: Option<&Process>,
        wanted: impl Fn(&Group, u64) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + PHASE_LIMIT;
        loop {
            for instance in instances {
                if let Some(error) = instance.lines().iter().find(|line| line.starts_with("error ")) {
                    bail!("the {} instance gave up: {error}", instance.name());
                }
            }
            // The group is there once the first member has joined.
            let group = self.riparian(&["groups", "describe", APPLICATION, "--json"], bootstrap);
            let group = group.ok().and_then(|json| Group::read(&json)).unwrap_or_default();
            let fed = feeder.map_or(0, |feeder| table::last_number(&feeder.lines(), &["fed", "done"]));
            let counted = instances.iter().map(|it| table::last_number(&it.lines(), &["counted"])).sum();
            screen.draw(&table::render(&group, instances, fed, LINES, counted));
            if wanted(&group, fed) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("the demo got stuck for {PHASE_LIMIT:?} (group state: {})", group.state);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn check_counts(&self, bootstrap: &str) -> Result<()> {
        let mut command = self.java_program("CountsChecker");
        command.args(["--bootstrap", bootstrap, "--topic", OUTPUT, "--top", "5", "--count", &LINES.to_string()]);
        let output = shell::run_quietly(&mut command).context("the counts are wrong")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let top: Vec<String> = text.lines().filter_map(|line| line.strip_prefix("word ")).map(str::to_owned).collect();
        let right = text.lines().find_map(|line| line.strip_prefix("right ")).context("no verdict on the counts")?;
        let (words, surplus) = right.split_once(' ').context("no verdict on the counts")?;
        shell::print_line(&format!("\ncounts   {}, ...", top.join(", ")));
        shell::print_line(&format!("checked  {words} different words in {LINES} lines: none lost"));
        if surplus != "0" {
            shell::print_line(&format!(
                "         ({surplus} were counted again after the crash, as at-least-once processing may)"
            ));
        }
        Ok(())
    }

    fn start_instance(&self, name: &str, bootstrap: &str) -> Result<Process> {
        let mut command = self.java_program("WordCount");
        command.args(["--bootstrap", bootstrap, "--application-id", APPLICATION, "--threads", "2", "--state-dir"]);
        command.arg(self.dir.join(name));
        Process::start(name, &mut command)
    }

    fn start_feeder(&self, bootstrap: &str) -> Result<Process> {
        let mut command = self.java_program("Feeder");
        command.args(["--bootstrap", bootstrap, "--topic", INPUT, "--quiet", "true"]);
        command.args(["--count", &LINES.to_string(), "--rate", &LINES_A_SECOND.to_string()]);
        Process::start("feeder", &mut command)
    }

    fn java_program(&self, name: &str) -> Command {
        let mut command = Command::new(&self.java.java);
        let logging = shell::root().join("tests").join("java").join("log4j2.properties");
        command
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            // A killed JVM leaves its unpacked libraries and its counters; they go with the directory.
            .arg("-XX:-UsePerfData")
            .arg(format!("-Djava.io.tmpdir={}", self.dir.display()))
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .args(["-cp", &self.java.class_path(), &format!("riparian.{name}")]);
        command
    }

    /// The command line of the server binary, as anybody would use it.
    fn riparian(&self, arguments: &[&str], bootstrap: &str) -> Result<String> {
        let output = shell::run_quietly(Command::new(&self.riparian).args(arguments).args(["--bootstrap", bootstrap]))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn how_to_go_on(bootstrap: &str, riparian: &Path, running: bool) -> String {
    let riparian = riparian.display();
    let mut steps = vec![
        ("start a server", format!("{riparian} serve")),
        ("configure", format!("bootstrap.servers={}", if running { bootstrap } else { "127.0.0.1:9092" })),
        ("", "group.protocol=streams".to_owned()),
        ("create its topics", format!("{riparian} topics create <topic> --partitions 4")),
        ("start it, and look", format!("{riparian} groups describe <application.id>")),
    ];
    if running {
        steps.remove(0);
        steps[2..].iter_mut().for_each(|(_, command)| command.push_str(&format!(" --bootstrap {bootstrap}")));
    }
    let steps: Vec<String> = steps.iter().map(|(what, how)| format!("  {what:<20} {how}")).collect();
    format!("\nYour own Kafka Streams application (4.2 or later):\n{}", steps.join("\n"))
}
