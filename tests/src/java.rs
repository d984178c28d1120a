//! Java programs: our own of `tests/java`, and Kafka's tools.

use std::process::Command;
use std::time::Duration;

use crate::environment::{class_path, class_path_of, java, java_file};
use crate::process::{Finished, Program};

/// Time for a tool that does one thing; a cold JVM on a busy machine needs a few seconds of it.
const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// A JVM for a main class, sized for a test.
pub fn java_program(main_class: &str) -> Command {
    jvm(main_class, "256m", "log4j2.properties")
}

/// A JVM for one of our programs.
pub fn own_program(name: &str) -> Command {
    java_program(&format!("riparian.{name}"))
}

/// The same on the clients of this release of Apache Kafka.
pub fn own_program_on(release: &str, name: &str) -> Command {
    jvm_on(&format!("riparian.{name}"), "256m", "log4j2.properties", &class_path_of(release))
}

pub(crate) fn jvm(main_class: &str, heap: &str, logging: &str) -> Command {
    jvm_on(main_class, heap, logging, &class_path())
}

fn jvm_on(main_class: &str, heap: &str, logging: &str, class_path: &str) -> Command {
    let mut command = Command::new(java());
    command
        .arg(format!("-Xmx{heap}"))
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        // A killed JVM leaves its unpacked libraries and its counters; the first go with our temporary directory.
        .arg("-XX:-UsePerfData")
        .arg(format!("-Djava.io.tmpdir={}", std::env::temp_dir().display()))
        .arg(format!("-Dlog4j2.configurationFile={}", java_file(logging).display()))
        .args(["-cp", class_path, main_class]);
    command
}

/// One of Kafka's command line tools, against one server.
pub struct Tool {
    name: String,
    command: Command,
    input: String,
}

impl Tool {
    /// A tool of the package `org.apache.kafka.tools`.
    pub fn new(name: &str) -> Self {
        let command = java_program(&format!("org.apache.kafka.tools.{name}"));
        Self { name: name.to_owned(), command, input: String::new() }
    }

    /// A tool that is told its server the usual way.
    pub fn at(name: &str, bootstrap: &str) -> Self {
        Self::new(name).args(&["--bootstrap-server", bootstrap])
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    /// What it reads from standard input.
    pub fn input(mut self, input: &str) -> Self {
        input.clone_into(&mut self.input);
        self
    }

    /// Runs it to its end, whatever that is.
    pub fn finish(mut self) -> Finished {
        Program::start_with_input(&self.name, &mut self.command, &self.input).finish(TOOL_LIMIT)
    }

    /// Runs it; it must end well.
    pub fn run(self) -> Finished {
        self.finish().success()
    }
}
