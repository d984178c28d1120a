//! What `cargo xtask test` hands to the tests through environment variables.

use std::path::PathBuf;

/// Which server the scenarios are run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The built `riparian` binary.
    Riparian,
    /// Apache Kafka from its jars: shows that a test itself is right.
    Kafka,
}

/// Which server this run is about.
pub fn against() -> Against {
    match std::env::var("RIPARIAN_TEST_AGAINST").as_deref() {
        Ok("kafka") => Against::Kafka,
        Ok(other) => panic!("RIPARIAN_TEST_AGAINST is {other}, not kafka"),
        Err(_) => Against::Riparian,
    }
}

/// The server binary under test.
pub fn riparian_binary() -> PathBuf {
    needed("RIPARIAN_BIN")
}

/// A Python that has `confluent_kafka`.
pub fn python() -> PathBuf {
    needed("RIPARIAN_PYTHON")
}

/// The `kcat` program.
pub fn kcat() -> PathBuf {
    needed("RIPARIAN_KCAT")
}

/// The `valgrind` program.
pub fn valgrind() -> PathBuf {
    needed("RIPARIAN_VALGRIND")
}

/// The example `paths` of the broker crate.
pub fn paths() -> PathBuf {
    needed("RIPARIAN_PATHS")
}

/// The `java` program.
pub fn java() -> PathBuf {
    needed("RIPARIAN_JAVA")
}

/// The directory of Kafka's jars.
pub fn jars() -> PathBuf {
    needed("RIPARIAN_JARS")
}

/// The directory of the jars of Kafka's own tests.
pub fn peer_jars() -> PathBuf {
    needed("RIPARIAN_PEER_JARS")
}

/// Our compiled programs, then Kafka's jars.
pub(crate) fn class_path() -> String {
    format!("{}:{}/*", needed("RIPARIAN_CLASSES").display(), needed("RIPARIAN_JARS").display())
}

/// The same with the client jars of another release, which are kept beside.
pub(crate) fn class_path_of(release: &str) -> String {
    let jars = needed("RIPARIAN_JARS").with_file_name(release);
    assert!(jars.is_dir(), "there are no jars of {release} at {}", jars.display());
    format!("{}:{}/*", needed("RIPARIAN_CLASSES").display(), jars.display())
}

/// A file of `tests/java`.
pub(crate) fn java_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("java").join(name)
}

fn needed(variable: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(value) => PathBuf::from(value),
        None => {
            panic!("{variable} is not set: these tests are run by `cargo xtask test`, which prepares what they need")
        }
    }
}
