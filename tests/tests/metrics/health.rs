//! Where HTTP is served, and what it says of the server.

use std::path::Path;
use std::time::{Duration, Instant};

use riparian_tests::{
    Connection, Finished, HttpAnswer, Program, Scrape, Server, create_topic_request, create_topics, free_port,
    http_get, http_port_of, riparian,
};

use super::member::commit_offset;

const LIMIT: Duration = Duration::from_secs(10);

fn serve(arguments: &[&str], data_dir: &Path) -> Program {
    let mut command = riparian();
    command.arg("serve").args(arguments).arg("--data-dir").arg(data_dir);
    Program::start("riparian", &mut command)
}

fn check_refused(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.status.code(), Some(code), "{}", finished.both());
    assert_eq!(finished.stdout, "", "an address although it did not start");
    let errors: Vec<&str> = finished.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let [error] = &errors[..] else { panic!("not one error: {}", finished.stderr) };
    for word in words {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
}

/// A machine that has no time for the server for a second is not well either, so it may take more than one look.
fn until_well(port: u16, path: &str) -> HttpAnswer {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = http_get(port, path);
        if answer.status == 200 {
            return answer;
        }
        assert!(Instant::now() < deadline, "{path} within {LIMIT:?}: {answer:?}");
    }
}

#[test]
fn health_readiness_and_version_are_told() {
    let server = Server::start(&[]);
    let port = server.http_port();
    for path in ["/healthz", "/readyz"] {
        let answer = until_well(port, path);
        assert_eq!(answer.body, "ok\n", "{path}");
    }
    let version = http_get(port, "/version");
    assert_eq!(version.status, 200);
    assert!(version.headers.contains("content-type: application/json"), "{version:?}");
    assert!(version.body.contains(r#""version":"0."#), "{version:?}");
    assert!(version.body.contains(r#""key":88,"#) && version.body.contains("StreamsGroupHeartbeat"), "{version:?}");
    assert!(version.body.contains(r#""cluster_id":""#), "{version:?}");
    assert_eq!(http_get(port, "/").status, 404);
}

#[test]
fn unless_told_otherwise_it_is_served_somewhere_on_loopback() {
    // Side by side, and with the port of the server itself given.
    let first = Server::start(&[]);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let second = serve(&["--port", &free_port().to_string()], &dir.path().join("data"));
    let (one, other) = (first.http_port(), http_port_of(&second));
    assert_ne!(one, other);
    until_well(one, "/healthz");
    until_well(other, "/healthz");
    assert_eq!(second.stdout().len(), 1, "only the server's own address: {:?}", second.stdout());
}

#[test]
fn an_address_that_was_asked_for_is_taken_or_nothing_is_started() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let data = dir.path().join("data");
    let server = Server::start(&[("riparian.http.address", "localhost:0")]);
    let port = server.http_port();
    let address = format!("127.0.0.1:{port}");
    let taken = serve(&["--port", "0", "--http-address", &address], &data).finish(LIMIT);
    check_refused(&taken, 1, &[&format!("port {port} is already in use"), "riparian.http.address"]);
    let wrong = serve(&["--port", "0", "--http-address", "here"], &data).finish(LIMIT);
    check_refused(&wrong, 2, &["riparian.http.address", "\"here\"", "host:port"]);
    let nowhere = serve(&["--port", "0", "--http-address", "no-such-host.invalid:1"], &data).finish(LIMIT);
    check_refused(&nowhere, 1, &["no-such-host.invalid:1", "riparian.http.address"]);
    assert!(!data.exists(), "nothing is written before the address is taken");
}

#[test]
fn it_can_be_switched_off() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    for off in ["off", ""] {
        let program = serve(&["--port", "0", "--http-address", off], &dir.path().join("data"));
        program.wait_until_told("word that it is off", LIMIT, |lines| {
            lines.iter().any(|line| line.contains(" ready ") && line.contains(" http=off ")).then_some(())
        });
        program.terminate(LIMIT).success();
    }
}

#[test]
fn dump_and_help_tell_of_it() {
    let mut command = riparian();
    command.args(["serve", "--dump-config"]);
    Program::start("riparian", &mut command).finish(LIMIT).success().says("\nriparian.http.address=auto\n");
    let mut command = riparian();
    command.args(["serve", "--help"]);
    Program::start("riparian", &mut command).finish(LIMIT).success().says("--http-address").says("/metrics");
}

#[test]
fn a_shard_with_a_damaged_log_is_named_and_the_rest_is_served() {
    let mut server = Server::start(&[("offsets.topic.num.partitions", "1")]);
    create_topics(server.port(), &["in"], 1);
    commit_offset(server.port(), "reader");
    server.terminate().success();
    let file = server.partition_dir("__consumer_offsets", 0).join("00000000000000000000.log");
    let mut bytes = std::fs::read(&file).expect("the log is there");
    *bytes.last_mut().expect("a group was written") ^= 1;
    std::fs::write(&file, bytes).expect("the log can be changed");
    server.restart();
    let port = server.http_port();
    let ready = http_get(port, "/readyz");
    assert_eq!((ready.status, ready.body.as_str()), (503, "group shard 0 is offline: its log is damaged\n"));
    // A restart would not help.
    until_well(port, "/healthz");
    let mut connection = Connection::open(server.port());
    connection.send_frame(&create_topic_request(1, "served"));
    assert!(connection.read_frame().is_some());
    Scrape::take(port);
}
