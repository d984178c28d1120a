//! The binary as its users meet it: a server started, topics changed from the command line, the server ended.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
};

use tempfile::TempDir;

struct Server {
    process: Child,
    address: String,
    // After the process, so that it is gone first.
    data: TempDir,
}

impl Server {
    fn start() -> Self {
        let data = TempDir::new().unwrap();
        let mut process = riparian()
            .args(["serve", "--port", "0", "--data-dir"])
            .arg(data.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        if address.is_empty() {
            let mut log = String::new();
            process.stderr.as_mut().unwrap().read_to_string(&mut log).unwrap();
            panic!("the server did not start: {log}");
        }
        Self { process, address, data }
    }

    fn topics(&self, arguments: &[&str]) -> Output {
        riparian().arg("topics").args(arguments).args(["--bootstrap", &self.address]).output().unwrap()
    }

    fn check(&self, arguments: &[&str], expected: &str) {
        let output = self.topics(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{arguments:?}");
    }

    /// The command fails with one line that holds these words.
    fn check_refused(&self, arguments: &[&str], words: &[&str]) {
        let output = self.topics(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert_eq!(output.stdout, b"", "{arguments:?}");
        assert_eq!(error.lines().count(), 1, "{error}");
        for word in words {
            assert!(error.contains(word), "no {word:?} in {error}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn riparian() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_riparian"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RIPARIAN_")) {
        command.env_remove(name);
    }
    command
}

#[test]
fn topics_are_created_shown_and_deleted() {
    let server = Server::start();
    server.check(
        &["create", "orders", "--partitions", "2", "--config", "retention.ms=60000"],
        "Created topic orders with 2 partitions.\n",
    );
    server.check(
        &["create", "copies", "--partitions", "1", "--replication-factor", "3"],
        "Created topic copies with 1 partition and 1 replica each, not 3: the server decided so.\n",
    );
    server.check_refused(&["create", "orders"], &["orders", "TOPIC_ALREADY_EXISTS"]);
    server.check_refused(
        &["create", "more", "--config", "retention.ms=soon"],
        &["retention.ms", "soon", "INVALID_CONFIG"],
    );

    let listed = server.topics(&["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.lines().any(|line| line.starts_with("orders ")), "{listed}");
    let described = server.topics(&["describe", "orders"]);
    let described = String::from_utf8_lossy(&described.stdout);
    assert!(described.starts_with("orders: 2 partitions, 1 replica each, id "), "{described}");
    assert!(described.contains("\n  retention.ms=60000\n"), "{described}");
    let json = server.topics(&["describe", "orders", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["name"], "orders");
    assert_eq!(json[0]["partitions"], 2);
    assert_eq!(json[0]["partition_list"][1]["partition"], 1);
    assert_eq!(json[0]["configs"]["retention.ms"], "60000");

    server.check(&["delete", "orders"], "Deleted topic orders.\n");
    server.check_refused(&["delete", "orders"], &["orders", "UNKNOWN_TOPIC_OR_PARTITION"]);
    server.check_refused(&["describe", "orders"], &["orders", "UNKNOWN_TOPIC_OR_PARTITION"]);
}

#[test]
fn an_address_without_a_server_is_one_clear_error() {
    let output = riparian().args(["topics", "list", "--bootstrap", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with("error: no server can be reached: 127.0.0.1:1: "), "{error}");
}

#[test]
fn a_watch_ends_when_nobody_reads_it_any_more() {
    let server = Server::start();
    let mut watch = riparian()
        .args(["groups", "list", "--watch", "0.1", "--bootstrap", &server.address])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    // The reader goes with its first line.
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "There are no groups.\n");
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn a_wrong_configuration_has_its_own_exit_code() {
    for wrong in [["--set", "num.partitions=none"], ["--config", "no/such/file"]] {
        let output = riparian().arg("serve").args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn a_data_directory_in_use_is_told_with_a_way_out() {
    let server = Server::start();
    let directory = server.data.path().join("data").display().to_string();
    let output = riparian().args(["serve", "--port", "0", "--data-dir", &directory]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("is used by another server; stop that one, or choose another directory with --data-dir"),
        "{error}"
    );
}
