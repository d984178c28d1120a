//! What is measured: our binary, a broker of Apache Kafka from its jars, and our echo server, each a process with a
//! directory of its own.
//!
//! **Invariant:** a server that is dropped is dead, and its directory is gone. It listens on loopback only, on a port that
//! was free. It runs with the settings it is shipped with unless a benchmark says otherwise; Kafka with the JVM options
//! of its own start script and a heap of 1 GiB.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use riparian_client::{Connection, Options};
use tempfile::TempDir;

use crate::{
    echo::Variant,
    process::{self, Memory},
    report::say,
};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(2);
/// How much of a log is shown when its server does not do what it should.
const LOG_LINES_SHOWN: usize = 20;
/// What Kafka's own start script gives the JVM.
const KAFKA_JVM: &[&str] = &[
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
];

/// Where the programs are; `cargo xtask bench` says it.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    riparian: PathBuf,
    java: PathBuf,
    jars: PathBuf,
    classes: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Riparian,
    Kafka,
}

/// A running server.
pub(crate) struct Server {
    kind: Kind,
    tools: Tools,
    settings: Vec<(String, String)>,
    port: u16,
    // Before the directory, so that the process is gone when the directory goes.
    process: Option<Running>,
    dir: TempDir,
}

/// A process that dies with its value.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Tools {
    pub(crate) fn from_environment() -> Result<Self> {
        let path = |name: &str| {
            let value = std::env::var_os(name);
            value
                .map(PathBuf::from)
                .with_context(|| format!("{name} is not set: run `cargo xtask bench`, which prepares everything"))
        };
        Ok(Self {
            riparian: path("RIPARIAN_BIN")?,
            java: path("RIPARIAN_JAVA")?,
            jars: path("RIPARIAN_JARS")?,
            classes: path("RIPARIAN_CLASSES")?,
        })
    }

    /// A JVM for a class of Kafka's or of our test programs.
    pub(crate) fn java(&self, main_class: &str, options: &[&str], logging: &str) -> Command {
        let logging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/java").join(logging);
        let mut command = Command::new(&self.java);
        command
            .args(options)
            .arg("-XX:-UsePerfData")
            .arg(format!("-Djava.io.tmpdir={}", std::env::temp_dir().display()))
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .arg("-cp")
            .arg(format!("{}:{}/*", self.classes.display(), self.jars.display()))
            .arg(main_class);
        command
    }

    /// A program of the JDK that asks a running JVM.
    pub(crate) fn jcmd(&self) -> Command {
        Command::new(self.java.with_file_name("jcmd"))
    }
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Riparian, Self::Kafka];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Riparian => "Riparian",
            Self::Kafka => "Kafka 4.4.0",
        }
    }
}

impl Server {
    /// Starts a server on a new directory and waits until it answers.
    pub(crate) fn start(tools: &Tools, kind: Kind, settings: &[(&str, &str)]) -> Result<Self> {
        let mut server = Self::prepare(tools, kind, settings)?;
        server.launch()?;
        server.wait_until_served()?;
        Ok(server)
    }

    /// Makes the directory, and what has to be in it before the first start.
    pub(crate) fn prepare(tools: &Tools, kind: Kind, settings: &[(&str, &str)]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("riparian-bench-").tempdir().context("no directory can be made")?;
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let server = Self { kind, tools: tools.clone(), settings, port: free_port()?, process: None, dir };
        if kind == Kind::Kafka {
            server.format_kafka()?;
        }
        Ok(server)
    }

    /// Starts the process; whether it serves is another question.
    pub(crate) fn launch(&mut self) -> Result<()> {
        let mut command = match self.kind {
            Kind::Riparian => self.riparian_command(),
            Kind::Kafka => {
                let mut command = self.tools.java("kafka.Kafka", KAFKA_JVM, "log4j2-broker.properties");
                command.arg(self.properties_file());
                command
            }
        };
        self.process = Some(Running::start(&mut command, &self.dir.path().join("log"))?);
        Ok(())
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.running()?.child.id())
    }

    pub(crate) fn cpu(&self) -> Result<Duration> {
        process::cpu(self.pid()?)
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        process::memory(self.pid()?)
    }

    /// Bytes of the live objects of a JVM; what belongs to no file of anything else.
    pub(crate) fn heap_bytes(&self) -> Result<u64> {
        if self.kind == Kind::Riparian {
            return Ok(self.memory()?.anonymous);
        }
        let output = self.tools.jcmd().arg(self.pid()?.to_string()).arg("GC.class_histogram").output();
        let text = String::from_utf8_lossy(&output.context("jcmd of the JDK cannot be run")?.stdout).into_owned();
        let total = text.lines().rev().find(|line| line.starts_with("Total"));
        let bytes = total.and_then(|line| line.split_whitespace().nth(2)?.parse().ok());
        bytes.with_context(|| format!("jcmd does not tell the size of the heap: {}", text.lines().next().unwrap_or("")))
    }

    /// Ends it as an operator would.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        let running = self.process.take().context("the server is not running")?;
        running.terminate()
    }

    /// Crashes it.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Opens a connection; tries again as long as the server may still be starting.
    pub(crate) fn connect(&mut self) -> Result<Connection> {
        let options = Options {
            client_id: "bench".to_owned(),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(60),
        };
        let start = Instant::now();
        loop {
            match Connection::open(&self.bootstrap(), &options) {
                Ok(connection) => return Ok(connection),
                Err(error) if start.elapsed() > START_LIMIT => {
                    return Err(anyhow!(error).context(self.complaint("does not answer")));
                }
                Err(_) => self.check_running()?,
            }
            thread::sleep(ASK_AGAIN);
        }
    }

    /// Fails if the process has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        let ended = match &mut self.process {
            Some(running) => running.child.try_wait().context("the server's state is unknown")?,
            None => bail!("{} is not running", self.kind.name()),
        };
        match ended {
            None => Ok(()),
            Some(status) => bail!("{}", self.complaint(&format!("ended ({status})"))),
        }
    }

    fn wait_until_served(&mut self) -> Result<()> {
        self.connect()?;
        Ok(())
    }

    fn running(&self) -> Result<&Running> {
        self.process.as_ref().context("the server is not running")
    }

    fn complaint(&self, what: &str) -> String {
        let log = self.process.as_ref().map_or_else(String::new, Running::end_of_log);
        format!("{} {what}; the end of its log:\n{log}", self.kind.name())
    }

    fn riparian_command(&self) -> Command {
        let mut command = Command::new(&self.tools.riparian);
        // Settings come from here only.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RIPARIAN_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--port", &self.port.to_string(), "--data-dir"]).arg(self.data_dir());
        for (key, value) in &self.settings {
            command.args(["--set", &format!("{key}={value}")]);
        }
        command
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn properties_file(&self) -> PathBuf {
        self.dir.path().join("server.properties")
    }

    fn format_kafka(&self) -> Result<()> {
        let (port, controller) = (self.port, free_port()?);
        let mut properties = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\nlog.dirs={}\noffsets.topic.replication.factor=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n",
            self.data_dir().display()
        );
        // Ours only are left out; Kafka would warn about them.
        for (key, value) in self.settings.iter().filter(|(key, _)| !key.starts_with("riparian.")) {
            properties.push_str(&format!("{key}={value}\n"));
        }
        fs::write(self.properties_file(), properties).context("Kafka's properties cannot be written")?;
        let mut format = self.tools.java("kafka.tools.StorageTool", &["-Xmx256m"], "log4j2.properties");
        format.args(["format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"]).arg(self.properties_file());
        let output = format.output().context("Kafka's storage tool cannot be run")?;
        if !output.status.success() {
            bail!("Kafka's storage tool failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

impl Running {
    /// Starts a program that says what it says into a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log).context("a log cannot be written")?;
        let copy = file.try_clone().context("a log cannot be written")?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        let child = child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// All that it has said.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for a text in what it says.
    pub(crate) fn wait_for<T>(&mut self, what: &str, limit: Duration, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            let ended = self.has_ended()?;
            if let Some(found) = find(&self.said()) {
                return Ok(found);
            }
            if ended.is_some() || start.elapsed() > limit {
                let why = ended.map_or_else(|| format!("waited {limit:?}"), |status| format!("it ended ({status})"));
                bail!("no {what}: {why}; the end of its log:\n{}", self.end_of_log());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it ends by itself, and well.
    pub(crate) fn finish(mut self, what: &str, limit: Duration) -> Result<String> {
        let status = self.wait(what, limit)?;
        if !status.success() {
            bail!("{what} ended with {status}:\n{}", self.end_of_log());
        }
        Ok(self.said())
    }

    fn terminate(mut self) -> Result<()> {
        process::terminate(self.child.id())?;
        self.wait("the server", STOP_LIMIT)?;
        Ok(())
    }

    fn wait(&mut self, what: &str, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.has_ended()? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                bail!("{what} did not end within {limit:?}; the end of its log:\n{}", self.end_of_log());
            }
            thread::sleep(ASK_AGAIN);
        }
    }

    fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("a process cannot be waited for")
    }

    fn end_of_log(&self) -> String {
        let log = self.said();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our echo server.
pub(crate) struct Echo {
    child: Child,
    pub(crate) port: u16,
}

impl Echo {
    pub(crate) fn start(variant: Variant, answer_bytes: usize) -> Result<Self> {
        let program = std::env::current_exe().context("this program's own path is unknown")?;
        let mut command = Command::new(program);
        command.args(["echo", "--variant", variant.name(), "--answer-bytes", &answer_bytes.to_string()]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the echo server")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("the echo server says nothing")?;
        }
        let mut echo = Self { child, port: 0 };
        echo.port = line.trim().parse().with_context(|| format!("the echo server's port is `{}`", line.trim()))?;
        Ok(echo)
    }

    pub(crate) fn cpu(&self) -> Result<Duration> {
        process::cpu(self.child.id())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on right now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port is free")?;
    Ok(listener.local_addr().context("a bound socket has no address")?.port())
}

/// Starts a server, and says so.
pub(crate) fn start(tools: &Tools, kind: Kind, settings: &[(&str, &str)]) -> Result<Server> {
    let start = Instant::now();
    let server = Server::start(tools, kind, settings)?;
    say(&format!("{} started in {:.1} s", kind.name(), start.elapsed().as_secs_f64()));
    Ok(server)
}
