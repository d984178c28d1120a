//! The server under test: started on a free port with a directory of its own, crashed, restarted, ended.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::environment::{Against, against, riparian_binary};
use crate::java::jvm;
use crate::process::{Finished, Program};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A server; it ends, and its directory goes, when the value is dropped.
pub struct Server {
    against: Against,
    settings: Vec<(String, String)>,
    port: u16,
    // Before the directory, so that the process is gone when the directory goes.
    program: Option<Program>,
    dir: TempDir,
}

impl Server {
    /// Starts a server with settings of `server.properties`.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_on(against(), 0, settings)
    }

    /// The same, whichever server the run is about: for comparisons.
    pub fn start_this(against: Against, settings: &[(&str, &str)]) -> Self {
        Self::start_on(against, 0, settings)
    }

    /// Starts a server that tells its clients to come back through another port.
    pub fn start_behind(port: u16, settings: &[(&str, &str)]) -> Self {
        let advertised = format!("PLAINTEXT://127.0.0.1:{port}");
        Self::start_on(against(), free_port(), &[settings, &[("advertised.listeners", &advertised)]].concat())
    }

    fn start_on(against: Against, port: u16, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let dir = tempfile::Builder::new().prefix("riparian-test-").tempdir();
        let dir = dir.expect("a temporary directory can be made");
        let mut server = Self { against, settings, port, program: None, dir };
        match against {
            Against::Riparian => server.start_riparian(),
            Against::Kafka => {
                server.port = if port == 0 { free_port() } else { port };
                server.format_kafka();
                server.start_kafka();
            }
        }
        server
    }

    /// What clients are told.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port where it answers HTTP.
    pub fn http_port(&self) -> u16 {
        http_port_of(self.program())
    }

    /// The directory of one partition.
    pub fn partition_dir(&self, topic: &str, partition: u32) -> PathBuf {
        self.data_dir().join(format!("{topic}-{partition}"))
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The running process.
    pub fn program(&self) -> &Program {
        self.program.as_ref().expect("the server is running")
    }

    /// How much memory it has right now.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.program().pid()));
        let status = status.expect("the server runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("VmRSS is a number of KiB")
    }

    /// Crashes it.
    pub fn kill(&mut self) {
        self.program().signal("KILL");
        self.program = None;
    }

    /// Ends it as an operator would.
    pub fn terminate(&mut self) -> Finished {
        self.program.take().expect("the server is running").terminate(STOP_LIMIT)
    }

    /// Starts it again on the same directory and port.
    pub fn restart(&mut self) {
        match self.against {
            Against::Riparian => self.start_riparian(),
            Against::Kafka => self.start_kafka(),
        }
    }

    fn start_riparian(&mut self) {
        let mut command = riparian();
        command.args(["serve", "--port", &self.port.to_string(), "--data-dir"]).arg(self.data_dir());
        for (key, value) in &self.settings {
            command.args(["--set", &format!("{key}={value}")]);
        }
        let program = Program::start("riparian", &mut command);
        let address = program.wait_for_line("address", START_LIMIT, |_| true);
        if self.port == 0 {
            let port = address.rsplit(':').next().and_then(|port| port.trim().parse().ok());
            self.port = port.unwrap_or_else(|| panic!("the first line is not an address: {address}"));
        }
        self.program = Some(program);
    }

    fn format_kafka(&self) {
        let file = self.dir.path().join("server.properties");
        std::fs::write(&file, self.kafka_properties()).expect("the properties can be written");
        let mut format = jvm("kafka.tools.StorageTool", "256m", "log4j2.properties");
        format.args(["format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"]).arg(&file);
        Program::start("StorageTool", &mut format).finish(START_LIMIT).success();
    }

    fn start_kafka(&mut self) {
        let mut broker = jvm("kafka.Kafka", "512m", "log4j2-broker.properties");
        broker.arg(self.dir.path().join("server.properties"));
        let program = Program::start("kafka", &mut broker);
        program.wait_for_line("start", START_LIMIT, |line| line.contains("Kafka Server started"));
        self.program = Some(program);
    }

    /// A killed broker is let in again when its session is over, so that is short.
    fn kafka_properties(&self) -> String {
        let (port, controller) = (self.port, free_port());
        let mut properties = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\nlog.dirs={}\noffsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=5\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\ntransaction.state.log.num.partitions=5\n\
             share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n\
             broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n",
            self.data_dir().display()
        );
        for (key, value) in &self.settings {
            // Ours only; Kafka would warn about them.
            if !key.starts_with("riparian.") {
                properties.push_str(&format!("{key}={value}\n"));
            }
        }
        properties
    }
}

impl AsRef<Path> for Server {
    fn as_ref(&self) -> &Path {
        self.dir.path()
    }
}

/// The port where a server answers HTTP, as its log says.
pub fn http_port_of(program: &Program) -> u16 {
    let port = |line: &String| line.split(" http=127.0.0.1:").nth(1)?.split(' ').next()?.parse().ok();
    program.wait_until_told("address of HTTP", START_LIMIT, |lines| lines.iter().find_map(port))
}

/// The binary under test, with an environment that says nothing about its settings.
pub fn riparian() -> Command {
    let mut command = Command::new(riparian_binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RIPARIAN_")) {
        command.env_remove(name);
    }
    command
}

/// A port that nobody listens on right now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    listener.local_addr().expect("a bound socket has an address").port()
}
