//! `setup`: what tests and demo need beyond Rust, found or installed once, then remembered.
//!
//! Owns the layout of the cache under the target directory: `riparian-jars/<version>` (Apache Kafka's jars; of older releases the clients only),
//! `riparian-java` (our test programs, compiled), `riparian-python` (a virtual environment with the Python client).
//! **Invariant:** when everything is there it prints nothing and starts no other program.
//! It installs system packages only as root on Debian; elsewhere it names what is missing.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::shell::{self, Step};

/// The release of Apache Kafka whose clients and tools the tests use.
pub(crate) const KAFKA_VERSION: &str = "4.4.0";
/// Older releases of which the tests run the clients.
const OLDER_CLIENTS: &[&str] = &["4.3.1", "4.2.0"];
const LOG4J_VERSION: &str = "2.25.5";
const CONFLUENT_KAFKA_VERSION: &str = "2.16.1";
const JAVA_RELEASE_MIN: u32 = 17;

#[derive(Args)]
pub(crate) struct Options {
    /// Only what `demo` needs: Java, Maven and the jars
    #[arg(long)]
    java_only: bool,
}

/// Where the Java side is.
pub(crate) struct Java {
    pub(crate) java: PathBuf,
    pub(crate) jars: PathBuf,
    pub(crate) classes: PathBuf,
}

impl Java {
    /// Our test programs, then Kafka's jars.
    pub(crate) fn class_path(&self) -> String {
        format!("{}:{}/*", self.classes.display(), self.jars.display())
    }
}

/// Everything the conformance tests use.
pub(crate) struct Tools {
    pub(crate) java: Java,
    pub(crate) python: PathBuf,
    pub(crate) kcat: PathBuf,
    pub(crate) valgrind: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let java = ensure_java()?;
    shell::talk(&format!("java    {}", java.java.display()));
    shell::talk(&format!("jars    {}", java.jars.display()));
    if !options.java_only {
        let tools = ensure_tools()?;
        shell::talk(&format!("python  {}", tools.python.display()));
        shell::talk(&format!("kcat    {}", tools.kcat.display()));
        shell::talk(&format!("valgrind {}", tools.valgrind.display()));
    }
    Ok(())
}

/// Java, Kafka's jars and our compiled test programs.
pub(crate) fn ensure_java() -> Result<Java> {
    let cache = shell::target_dir();
    let jars = cache.join("riparian-jars").join(KAFKA_VERSION);
    let classes = cache.join("riparian-java");
    let jdk = ensure_jdk(&cache)?;
    ensure_jars(&jars, KAFKA_VERSION, &["kafka_2.13", "kafka-tools", "kafka-streams"])?;
    ensure_classes(&jdk, &jars, &classes)?;
    Ok(Java { java: jdk.join("java"), jars, classes })
}

/// Java and the clients that are not Java.
pub(crate) fn ensure_tools() -> Result<Tools> {
    let java = ensure_java()?;
    for release in OLDER_CLIENTS {
        ensure_jars(&java.jars.with_file_name(release), release, &["kafka-streams"])?;
    }
    let python = ensure_python(&shell::target_dir().join("riparian-python"))?;
    let kcat = ensure_program("kcat", "kcat (a command line client on librdkafka)")?;
    let valgrind = ensure_program("valgrind", "valgrind (its callgrind counts instructions)")?;
    Ok(Tools { java, python, kcat, valgrind })
}

/// The `bin` directory of a JDK that is new enough. What was found once is remembered until it is gone.
fn ensure_jdk(cache: &Path) -> Result<PathBuf> {
    let marker = cache.join("riparian-jdk");
    if let Ok(remembered) = fs::read_to_string(&marker) {
        let bin = PathBuf::from(remembered.trim());
        if bin.join("javac").is_file() && bin.join("java").is_file() {
            return Ok(bin);
        }
    }
    let bin = match find_jdk() {
        Some(bin) => bin,
        None => {
            let missing = format!("a JDK of release {JAVA_RELEASE_MIN} or later (`java` and `javac`)");
            install("openjdk-17-jdk-headless", &missing, "set JAVA_HOME, or put its bin directory on PATH")?;
            find_jdk().with_context(|| format!("{missing} is still not found after installing it"))?
        }
    };
    fs::create_dir_all(cache)?;
    fs::write(&marker, format!("{}\n", bin.display()))?;
    Ok(bin)
}

fn find_jdk() -> Option<PathBuf> {
    let from_home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let from_path = shell::find_program("javac").and_then(|javac| javac.parent().map(Path::to_path_buf));
    [from_home, from_path].into_iter().flatten().find(|bin| {
        bin.join("java").is_file() && javac_release(&bin.join("javac")).is_some_and(|it| it >= JAVA_RELEASE_MIN)
    })
}

fn javac_release(javac: &Path) -> Option<u32> {
    let output = Command::new(javac).args(["-J-XX:-UsePerfData", "-version"]).output().ok()?;
    release_of(&shell::text_of(&output))
}

/// The release number in what `javac -version` prints ("javac 17.0.15", "javac 1.8.0_392").
fn release_of(text: &str) -> Option<u32> {
    let version = text.split_whitespace().skip_while(|word| *word != "javac").nth(1)?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let first: u32 = numbers.next()?.parse().ok()?;
    if first == 1 { numbers.next()?.parse().ok() } else { Some(first) }
}

/// The jars of Kafka's own tests, which `tests/peer` runs; they are many, and only it needs them.
pub(crate) fn ensure_peer_jars() -> Result<PathBuf> {
    let jars = shell::target_dir().join("riparian-jars").join("peer").join("lib");
    let pom_path = shell::root().join("tests").join("peer").join("pom.xml");
    let pom = fs::read_to_string(&pom_path).with_context(|| format!("cannot read {}", pom_path.display()))?;
    fetch_jars(&jars, &pom, "Apache Kafka's own tests")?;
    Ok(jars)
}

fn ensure_jars(jars: &Path, release: &str, artifacts: &[&str]) -> Result<()> {
    fetch_jars(jars, &pom(release, artifacts), &format!("Apache Kafka {release}"))
}

/// Lets Maven fetch what a pom names, unless it has done so already.
fn fetch_jars(jars: &Path, pom: &str, what: &str) -> Result<()> {
    let marker = jars.join(".done");
    if fs::read_to_string(&marker).is_ok_and(|done| done == pom) {
        return Ok(());
    }
    let maven = match shell::find_program("mvn") {
        Some(maven) => maven,
        None => {
            install("maven", "Maven (`mvn`)", "put its bin directory on PATH")?;
            shell::find_program("mvn").context("Maven (`mvn`) is still not found after installing it")?
        }
    };
    let step = Step::start(&format!("setup: fetching the jars of {what}"));
    if jars.exists() {
        fs::remove_dir_all(jars)?;
    }
    fs::create_dir_all(jars)?;
    let pom_path = jars.join("pom.xml");
    fs::write(&pom_path, pom)?;
    shell::run_quietly(
        Command::new(maven)
            .env("MAVEN_OPTS", maven_options())
            .args(["-q", "-B", "-f"])
            .arg(&pom_path)
            .arg("org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", jars.display())),
    )
    .context("Maven could not fetch the jars (is there a network?)")?;
    fs::write(&marker, pom)?;
    step.done();
    Ok(())
}

/// What a person set, and no counters in the system's temporary directory.
fn maven_options() -> String {
    format!("{} -XX:-UsePerfData", std::env::var("MAVEN_OPTS").unwrap_or_default())
}

/// These artifacts of a release on one class path, with a logging back end for them.
fn pom(release: &str, artifacts: &[&str]) -> String {
    let mut dependencies = String::new();
    let of_kafka = artifacts.iter().map(|artifact| ("org.apache.kafka", *artifact, release));
    for (group, artifact, version) in of_kafka.chain([("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION)])
    {
        let _ = writeln!(
            dependencies,
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        );
    }
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>riparian</groupId><artifactId>jars</artifactId><version>1</version>\n  <dependencies>\n\
         {dependencies}  </dependencies>\n</project>\n"
    )
}

/// Compiles the programs of `tests/java`, again when a source is newer than what was compiled.
fn ensure_classes(jdk: &Path, jars: &Path, classes: &Path) -> Result<()> {
    let mut sources = Vec::new();
    collect_files(&shell::root().join("tests").join("java"), "java", &mut sources)?;
    sources.sort();
    let marker = classes.join(".done");
    let names = sources.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n");
    let fresh = fs::read_to_string(&marker).is_ok_and(|done| done == names)
        && sources.iter().chain([&jars.join(".done")]).all(|source| changed_at(source) <= changed_at(&marker));
    if fresh || sources.is_empty() {
        return Ok(());
    }
    let step = Step::start("setup: compiling the Java test programs");
    if classes.exists() {
        fs::remove_dir_all(classes)?;
    }
    fs::create_dir_all(classes)?;
    shell::run_quietly(
        Command::new(jdk.join("javac"))
            // Without it the locale decides how sources are read, and a fresh machine has none.
            .args(["-J-XX:-UsePerfData", "-encoding", "UTF-8", "--release", "17"])
            .args(["-nowarn", "-Xlint:all,-processing,-serial,-classfile,-path", "-Werror", "-d"])
            .arg(classes)
            .arg("-cp")
            .arg(format!("{}/*", jars.display()))
            .args(&sources),
    )?;
    fs::write(&marker, names)?;
    step.done();
    Ok(())
}

fn ensure_python(venv: &Path) -> Result<PathBuf> {
    let python = venv.join("bin").join("python");
    let marker = venv.join(".done");
    if python.exists() && fs::read_to_string(&marker).is_ok_and(|done| done == CONFLUENT_KAFKA_VERSION) {
        return Ok(python);
    }
    let system = match python_with_venv() {
        Some(system) => system,
        None => {
            install("python3-venv", "Python 3.9 or later with its `venv` module", "put `python3` on PATH")?;
            python_with_venv().context("Python's `venv` module is still not found after installing it")?
        }
    };
    let step = Step::start("setup: making a Python environment with confluent-kafka");
    if venv.exists() {
        fs::remove_dir_all(venv)?;
    }
    fs::create_dir_all(venv)?;
    shell::run_quietly(Command::new(system).args(["-m", "venv"]).arg(venv))?;
    shell::run_quietly(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"])
            .arg(format!("confluent-kafka=={CONFLUENT_KAFKA_VERSION}")),
    )?;
    fs::write(&marker, CONFLUENT_KAFKA_VERSION)?;
    step.done();
    Ok(python)
}

/// A `python3` that can make virtual environments with pip in them.
fn python_with_venv() -> Option<PathBuf> {
    let candidates = [shell::find_program("python3"), Some(PathBuf::from("/usr/bin/python3"))];
    candidates.into_iter().flatten().filter(|python| python.is_file()).find(|python| {
        let check = Command::new(python).args(["-c", "import venv, ensurepip"]).output();
        check.is_ok_and(|output| output.status.success())
    })
}

/// A program whose Debian package has its name.
fn ensure_program(name: &str, what: &str) -> Result<PathBuf> {
    if let Some(program) = shell::find_program(name) {
        return Ok(program);
    }
    install(name, what, &format!("put `{name}` on PATH"))?;
    shell::find_program(name).with_context(|| format!("{name} is still not found after installing it"))
}

/// Installs a Debian package, or says what a person has to do.
fn install(package: &str, missing: &str, otherwise: &str) -> Result<()> {
    let Some(apt) = shell::find_program("apt-get").filter(|_| is_root()) else {
        bail!("{missing} is missing: install it (on Debian: `apt-get install {package}`) and {otherwise}");
    };
    let step = Step::start(&format!("setup: installing {package}"));
    let quiet = |arguments: &[&str]| {
        let mut command = Command::new(&apt);
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        shell::run_quietly(&mut command)
    };
    quiet(&["update", "-qq"])?;
    quiet(&["install", "-y", "-qq", "--no-install-recommends", package])
        .with_context(|| format!("{missing} is missing and could not be installed"))?;
    step.done();
    Ok(())
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid_line = status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default();
    uid_line.split_whitespace().nth(2) == Some("0")
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn collect_files(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_files(&path, extension, found)?;
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::release_of;

    #[test]
    fn javac_release_is_read_in_old_and_new_style() {
        let check = |text: &str, expected: Option<u32>| assert_eq!(release_of(text), expected, "{text}");
        check("javac 17.0.15\n", Some(17));
        check("Picked up options\njavac 21\n", Some(21));
        check("javac 1.8.0_392\n", Some(8));
        check("no such file\n", None);
    }
}
