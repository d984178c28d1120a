//! What `docs/OPERATING.md` says: what the binary needs, how it is run, what its log looks like.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use riparian_client::{Connection as Client, Options};
use riparian_protocol::messages::{
    ProduceRequest,
    produce_request::{PartitionProduceData, TopicProduceData},
};
use riparian_records::{BatchBuilder, BatchOptions};
use riparian_tests::{Connection, Program, create_topic_request, create_topics, riparian, riparian_binary};
use riparian_types::WallMillis;

const LIMIT: Duration = Duration::from_secs(20);
const KAFKA_STORAGE_ERROR: i16 = 56;
const BINARY_BYTES_MAX: u64 = 15 * 1024 * 1024;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a directory of the repository").to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn binary_is_small() {
    let bytes = std::fs::metadata(riparian_binary()).expect("it is built").len();
    assert!(bytes < BINARY_BYTES_MAX, "{bytes} bytes");
}

/// Everything that the loader looks for, and the loader.
fn libraries() -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(riparian_binary()).output().expect("there is ldd");
    let text = String::from_utf8(listed.stdout).expect("paths are text");
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    text.lines().filter_map(path).collect()
}

#[test]
fn binary_runs_in_an_empty_root() {
    let root = tempfile::tempdir().expect("a temporary directory can be made");
    let libraries = libraries();
    let names: Vec<_> = libraries.iter().filter_map(|path| path.file_name()?.to_str()?.split('.').next()).collect();
    let known = ["libc", "libm", "libgcc_s", "ld-linux-x86-64", "ld-linux-aarch64"];
    assert!(!names.is_empty() && names.iter().all(|name| known.contains(name)), "{names:?} are not what is documented");
    for library in &libraries {
        let inside = root.path().join(library.strip_prefix("/").expect("its path is absolute"));
        std::fs::create_dir_all(inside.parent().expect("it is in a directory")).expect("directories can be made");
        std::fs::copy(library, inside).expect("it can be copied");
    }
    std::fs::copy(riparian_binary(), root.path().join("riparian")).expect("it can be copied");
    std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    // Whoever is not root is root in a namespace of its own.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "chroot"]).arg(root.path());
    command.args(["/riparian", "serve", "--port", "0", "--data-dir", "/data"]);
    let server = Program::start("riparian in an empty root", &mut command);
    let address = server.wait_for_line("address", LIMIT, |_| true);
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the first line is the address");
    let mut connection = Connection::open(port);
    connection.send_frame(&create_topic_request(1, "there"));
    assert!(connection.read_frame().is_some());
    drop(connection);
    let ended = server.terminate(LIMIT);
    assert!(ended.status.success(), "{}", ended.both());
    assert!(root.path().join("data").join("meta.properties").is_file());
}

/// The binary takes these arguments, behind its name.
fn check_arguments<'a>(arguments: impl Iterator<Item = &'a str>) {
    let example = repository().join("docs/deploy/server.properties");
    let mut command = riparian();
    for argument in arguments {
        match argument {
            "/etc/riparian/server.properties" => command.arg(&example),
            argument => command.arg(argument),
        };
    }
    let finished = Program::start("riparian", command.arg("--dump-config")).finish(LIMIT);
    finished.success().says("listeners=PLAINTEXT://:9092");
}

#[test]
fn unit_of_systemd_starts_it_as_it_wants_to_be_started() {
    let unit = read("docs/deploy/riparian.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("it starts something");
    check_arguments(line.split(' ').skip(1));
}

#[test]
fn container_starts_it_as_it_wants_to_be_started() {
    let file = read("Containerfile");
    let line = file.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).expect("it starts something");
    let words: Vec<String> = serde_json::from_str(line).expect("a list of words");
    check_arguments(words.iter().skip(1).map(String::as_str));
    // Built with the compiler that the repository is built with.
    let toolchain = read("rust-toolchain.toml");
    let image = file.lines().find_map(|line| line.strip_prefix("FROM docker.io/library/rust:")).expect("it builds");
    let version = image.split('-').next().expect("a version");
    assert!(toolchain.contains(&format!("\"{version}")), "{version} is not in {toolchain}");
}

/// A disk that is full fails every write, and may hold the log too.
#[test]
fn what_clients_cause_over_and_over_is_told_a_few_times() {
    const REQUESTS: usize = 100;
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let data = dir.path().join("data");
    let mut command = Command::new("sh");
    // In blocks of 512 bytes: no file may be larger than 1 MiB.
    command.args(["-c", "ulimit -f 2048; exec \"$@\"", "sh"]).arg(riparian().get_program());
    command.args(["serve", "--port", "0", "--http-address", "off", "--data-dir"]).arg(&data);
    let server = Program::start("riparian", &mut command);
    let address = server.wait_for_line("address", LIMIT, |_| true);
    let port: u16 =
        address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the first line is the address");
    let names: Vec<String> = (0..REQUESTS).map(|number| format!("topic-{number}")).collect();
    create_topics(port, &names.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    builder.push(WallMillis(1), None, Some(&[7; 600_000]));
    let batch = builder.build();
    let options = Options { client_id: "by-hand".to_owned(), connect_timeout: LIMIT, request_timeout: LIMIT };
    let mut connection = Client::open(&format!("127.0.0.1:{port}"), &options).expect("the server accepts connections");
    let mut produce = |topic: &str| {
        let partition = PartitionProduceData { records: Some((&*batch).into()), ..Default::default() };
        let topic = TopicProduceData { name: topic.into(), partition_data: vec![partition], ..Default::default() };
        let request = ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() };
        let answer = connection.call_version(&request, 9).expect("the server answers");
        answer.decode().expect("an answer").responses[0].partition_responses[0].error_code
    };
    assert_eq!(produce("topic-0"), 0);
    (0..REQUESTS).for_each(|_| assert_eq!(produce("topic-0"), KAFKA_STORAGE_ERROR));
    assert_eq!(produce("topic-1"), 0, "a file with room");
    let ended = server.terminate(LIMIT).success();
    for what in ["topic created", "append failed"] {
        let lines = ended.stderr.lines().filter(|line| line.contains(what)).count();
        assert!((1..REQUESTS).contains(&lines), "{lines} lines of {what:?}");
    }
    let lines = ended.stderr.lines().count();
    assert!(lines < REQUESTS, "{lines} lines: {}", ended.stderr);
}

/// A file on a disk that is full, or a pipe that nobody reads any more.
#[test]
fn log_that_cannot_be_written_is_lost_and_the_server_goes_on() {
    for standard_error in ["2>/dev/full", "2>&-", "2> >(exec true)"] {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec \"$@\" {standard_error}"), "bash"]).arg(riparian().get_program());
        command.args(["serve", "--port", "0", "--http-address", "off", "--data-dir"]).arg(dir.path().join("data"));
        let server = Program::start("riparian", &mut command);
        let address = server.wait_for_line("address", LIMIT, |_| true);
        let port =
            address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the first line is the address");
        for topic in ["first", "second"] {
            create_topics(port, &[topic], 1);
            let mut connection = Connection::open(port);
            connection.send(&[0xff; 8]);
            assert_eq!(connection.read_frame(), None);
        }
        server.terminate(LIMIT).success();
    }
}

#[test]
fn log_can_be_json() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut command = riparian();
    command.args(["serve", "--port", "0", "--log-format", "json", "--data-dir"]).arg(dir.path().join("data"));
    let server = Program::start("riparian", &mut command);
    let address = server.wait_for_line("address", LIMIT, |_| true);
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the first line is the address");
    // A line that a peer has caused is one, too.
    let mut connection = Connection::open(port);
    connection.send(&[0xff; 8]);
    assert_eq!(connection.read_frame(), None);
    let ended = server.terminate(LIMIT);
    let lines: Vec<serde_json::Value> = (ended.stderr.lines())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let levels: Vec<_> = lines.iter().map(|line| line["level"].as_str().expect("each line has a level")).collect();
    assert!(levels.contains(&"INFO") && levels.contains(&"WARN"), "{}", ended.stderr);
    assert!(lines.iter().all(|line| line["timestamp"].is_string()), "{}", ended.stderr);
    assert!(ended.stderr.contains("\"ready\""), "{}", ended.stderr);
}
