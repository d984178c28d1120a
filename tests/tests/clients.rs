//! Clients that are not Java: kcat and Python's `confluent_kafka`, both on librdkafka, without consumer groups.

use std::process::Command;
use std::time::Duration;

use riparian_tests::{Finished, Program, Server, Tool, kcat, python};

const LIMIT: Duration = Duration::from_secs(60);

fn create_topic(server: &Server, topic: &str, partitions: &str) {
    let arguments = ["--create", "--topic", topic, "--partitions", partitions, "--replication-factor", "1"];
    Tool::at("TopicCommand", &server.bootstrap()).args(&arguments).run();
}

fn run_kcat(server: &Server, arguments: &[&str], input: &str) -> Finished {
    let mut command = Command::new(kcat());
    command.args(["-b", &server.bootstrap()]).args(arguments);
    Program::start_with_input("kcat", &mut command, input).finish(LIMIT).success()
}

#[test]
fn kcat_produces_and_consumes_with_every_codec() {
    let server = Server::start(&[]);
    create_topic(&server, "cat", "1");
    let mut expected = String::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let lines: String = (0..20).map(|n| format!("{codec} {n} {}\n", "y".repeat(60))).collect();
        run_kcat(&server, &["-P", "-t", "cat", "-p", "0", "-z", codec, "-X", "acks=all"], &lines);
        expected.push_str(&lines);
    }
    let read = run_kcat(&server, &["-C", "-t", "cat", "-p", "0", "-o", "beginning", "-e", "-q"], "");
    assert_eq!(read.stdout, expected.trim_end());
    let some = run_kcat(&server, &["-C", "-t", "cat", "-p", "0", "-o", "98", "-e", "-q", "-f", "%o %k %S\n"], "");
    assert_eq!(some.stdout.lines().map(|line| line.split(' ').next()).collect::<Vec<_>>(), [Some("98"), Some("99")]);
}

#[test]
fn kcat_is_idempotent_and_lists_metadata() {
    let server = Server::start(&[]);
    create_topic(&server, "cat", "2");
    run_kcat(&server, &["-P", "-t", "cat", "-p", "1", "-X", "enable.idempotence=true"], "a\nb\n");
    run_kcat(&server, &["-L"], "").says("topic \"cat\" with 2 partitions");
    let offsets = run_kcat(&server, &["-Q", "-t", "cat:1:-1"], "");
    offsets.says("offset 2");
}

#[test]
fn confluent_kafka_produces_and_consumes_by_assignment() {
    let server = Server::start(&[]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/assign.py");
    let mut command = Command::new(python());
    command.args([script, &server.bootstrap()]);
    Program::start("assign.py", &mut command).finish(LIMIT).success().says("all right");
}
