//! How the binary starts, what it needs, and what it says when it cannot start.
//!
//! These are about our own binary only; there is nothing to compare with.

use std::path::Path;
use std::time::{Duration, Instant};

use riparian_tests::{Connection, Finished, Program, Server, create_topic_request, free_port, riparian};

const LIMIT: Duration = Duration::from_secs(10);
const FIRST_TOPIC_LIMIT: Duration = Duration::from_millis(50);
const IDLE_KIB_MAX: u64 = 20 * 1024;

fn serve(arguments: &[&str], data_dir: &Path) -> Program {
    let mut command = riparian();
    command.arg("serve").args(arguments).arg("--data-dir").arg(data_dir);
    Program::start("riparian", &mut command)
}

/// It must end with an error that holds these words, without having printed an address.
fn check_refused(finished: &Finished, words: &[&str]) {
    assert!(!finished.status.success(), "it started: {}", finished.both());
    assert_eq!(finished.stdout, "", "an address although it did not start");
    for word in words {
        assert!(finished.stderr.contains(word), "no `{word}` in: {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

fn port_of(program: &Program) -> u16 {
    let address = program.wait_for_line("address", LIMIT, |_| true);
    address.rsplit(':').next().and_then(|port| port.trim().parse().ok()).expect("the first line is the address")
}

fn create_topic(port: u16, topic: &str) {
    let mut connection = Connection::open(port);
    connection.send_frame(&create_topic_request(1, topic));
    let reply = connection.read_frame().expect("an answer");
    // Correlation id, throttle time, one topic, its name, its error code.
    let error_at = 4 + 4 + 4 + 2 + topic.len();
    assert_eq!(reply[error_at..error_at + 2], 0i16.to_be_bytes(), "{reply:?}");
}

#[test]
fn first_topic_exists_within_fifty_milliseconds() {
    // The best of a few: the machine may be busy with something else.
    let best = (0..10).map(|_| time_to_first_topic()).min().expect("there are rounds");
    assert!(best < FIRST_TOPIC_LIMIT, "{best:?} from exec to the first topic");
}

fn time_to_first_topic() -> Duration {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let start = Instant::now();
    let program = serve(&["--port", "0"], &dir.path().join("data"));
    create_topic(port_of(&program), "first");
    start.elapsed()
}

#[test]
fn idle_server_is_small() {
    let server = Server::start(&[]);
    create_topic(server.port(), "one");
    let kib = server.resident_kib();
    assert!(kib < IDLE_KIB_MAX, "{kib} KiB resident");
}

#[test]
fn sigterm_ends_it_well_and_topics_are_there_again() {
    let mut server = Server::start(&[]);
    create_topic(server.port(), "kept");
    let ended = server.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.both());
    server.restart();
    let mut connection = Connection::open(server.port());
    connection.send_frame(&create_topic_request(2, "kept"));
    let reply = connection.read_frame().expect("an answer");
    let error_at = 4 + 4 + 4 + 2 + "kept".len();
    assert_eq!(reply[error_at..error_at + 2], 36i16.to_be_bytes(), "the topic exists already: {reply:?}");
}

#[test]
fn ephemeral_server_leaves_nothing() {
    let parent = tempfile::tempdir().expect("a temporary directory can be made");
    let mut command = riparian();
    command.args(["serve", "--port", "0", "--ephemeral"]).env("TMPDIR", parent.path()).current_dir(parent.path());
    let program = Program::start("riparian", &mut command);
    create_topic(port_of(&program), "passing");
    let ended = program.terminate(LIMIT);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.both());
    let left: Vec<_> = std::fs::read_dir(parent.path()).expect("the directory is there").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn wrong_values_name_the_key_the_value_and_what_is_allowed() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let refused = |setting: &str| serve(&["--port", "0", "--set", setting], &dir.path().join("data")).finish(LIMIT);
    check_refused(&refused("num.partitions=many"), &["num.partitions", "many"]);
    check_refused(&refused("num.partitions=0"), &["num.partitions", "0", "1"]);
    check_refused(
        &refused("auto.create.topics.enable=perhaps"),
        &["auto.create.topics.enable", "perhaps", "true", "false"],
    );
    check_refused(&refused("log.segment.bytes=-5"), &["log.segment.bytes", "-5"]);
    check_refused(&refused("group.streams.session.timeout.ms=soon"), &["group.streams.session.timeout.ms", "soon"]);
    check_refused(&refused("listeners=HTTP//nowhere"), &["listeners", "HTTP//nowhere"]);
    assert!(!dir.path().join("data").exists(), "nothing is written before the settings are right");
}

#[test]
fn config_file_is_read_and_wrong_lines_are_named() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = dir.path().join("server.properties");
    let path = file.display().to_string();
    let data = dir.path().join("data");
    std::fs::write(&file, "# a comment\nnum.partitions = 7\nno.such.key=1\n").expect("the file can be written");
    let program = serve(&["--port", "0", "--config", &path], &data);
    port_of(&program);
    let ended = program.terminate(LIMIT);
    assert!(ended.stderr.contains("no.such.key"), "an unknown key is warned about: {}", ended.stderr);

    std::fs::write(&file, "num.partitions=none\n").expect("the file can be written");
    check_refused(&serve(&["--port", "0", "--config", &path], &data).finish(LIMIT), &["num.partitions", "none"]);
    let absent = dir.path().join("absent.properties").display().to_string();
    check_refused(&serve(&["--port", "0", "--config", &absent], &data).finish(LIMIT), &["absent.properties"]);
}

#[test]
fn dump_of_the_config_shows_what_wins() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = dir.path().join("server.properties");
    std::fs::write(&file, "num.partitions=7\nlog.segment.bytes=1048576\n").expect("the file can be written");
    let mut command = riparian();
    command.arg("serve").arg("--config").arg(&file).args(["--set", "num.partitions=9", "--dump-config"]);
    let dumped = Program::start("riparian", &mut command).finish(LIMIT).success();
    dumped.says("num.partitions=9").says("log.segment.bytes=1048576");
}

#[test]
fn port_in_use_is_one_clear_error() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let server = Server::start(&[]);
    let port = server.port().to_string();
    let refused = serve(&["--port", &port], &dir.path().join("data")).finish(LIMIT);
    check_refused(&refused, &[&port]);
}

#[test]
fn directory_that_cannot_be_written_is_one_clear_error() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    // A file where the directory should be stops root too.
    let file = dir.path().join("taken");
    std::fs::write(&file, "").expect("the file can be written");
    let refused = serve(&["--port", "0"], &file.join("data")).finish(LIMIT);
    check_refused(&refused, &["taken"]);
}

/// What becomes of a topic that is created after this was done to the data directory; the server must end.
fn check_data_gone(take_away: impl Fn(&Path)) -> Option<[u8; 2]> {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let data = dir.path().join("data");
    let program = serve(&["--port", "0"], &data);
    let port = port_of(&program);
    create_topic(port, "kept");
    take_away(&data);
    let mut connection = Connection::open(port);
    connection.send_frame(&create_topic_request(1, "lost"));
    let code = connection.read_frame().map(|reply| {
        let error_at = 4 + 4 + 4 + 2 + "lost".len();
        [reply[error_at], reply[error_at + 1]]
    });
    let finished = program.finish(LIMIT);
    check_ended_by(&finished, "was removed, renamed or replaced while the server ran");
    code
}

fn check_ended_by(finished: &Finished, reason: &str) {
    assert!(!finished.status.success() && finished.stderr.contains(reason), "{}", finished.both());
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

#[test]
fn data_removed_under_a_running_server_ends_it_and_nothing_is_acknowledged() {
    let code = check_data_gone(|data| std::fs::remove_dir_all(data).expect("it is there"));
    assert_ne!(code, Some([0, 0]), "a topic that is nowhere was acknowledged");
}

#[test]
fn data_renamed_or_replaced_under_a_running_server_ends_it() {
    check_data_gone(|data| std::fs::rename(data, data.with_extension("moved")).expect("it is there"));
    check_data_gone(|data| {
        std::fs::rename(data, data.with_extension("moved")).expect("it is there");
        std::fs::create_dir(data).expect("the name is free");
        std::fs::write(data.join(".lock"), b"").expect("the directory is there");
    });
}

#[test]
fn second_server_on_a_directory_is_refused() {
    let server = Server::start(&[]);
    let port = free_port().to_string();
    let refused = serve(&["--port", &port], &server.data_dir()).finish(LIMIT);
    check_refused(&refused, &["data"]);
    create_topic(server.port(), "undisturbed");
}
