//! An idempotent producer with five requests in flight while the server is killed: nothing acknowledged is lost,
//! nothing is stored twice, the order of each partition stays.

use std::time::Duration;

use riparian_tests::{Against, Program, Server, Tool, against, own_program};

const ROUND_LIMIT: Duration = Duration::from_secs(120);
const RECORDS: u64 = 6000;

fn create_topic(server: &Server, topic: &str) {
    let arguments = ["--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1"];
    Tool::at("TopicCommand", &server.bootstrap()).args(&arguments).run();
}

fn feeder(server: &Server, topic: &str, settings: &[&str]) -> Program {
    let mut command = own_program("Feeder");
    command.args(["--bootstrap", &server.bootstrap(), "--topic", topic, "--count", &RECORDS.to_string()]);
    command.args(["--rate", "3000"]);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    Program::start("feeder", &mut command)
}

fn wait_for_acknowledged(feeder: &Program, count: usize) {
    feeder.wait_until(&format!("{count} acknowledged records"), ROUND_LIMIT, |lines| {
        (lines.len() >= count).then_some(())
    });
}

/// Reads everything back and compares it with what the feeder was told.
fn check(server: &Server, topic: &str, acknowledged: &str) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    std::fs::write(file.path(), acknowledged).expect("the file can be written");
    let mut command = own_program("Checker");
    command.args(["--bootstrap", &server.bootstrap(), "--topic", topic, "--acked"]).arg(file.path());
    let checked = Program::start("checker", &mut command).finish(ROUND_LIMIT).success();
    checked.says(&format!("read {RECORDS} acked {RECORDS} lost 0 doubled 0 misplaced 0 misordered 0 garbled 0"));
}

#[test]
fn nothing_is_lost_or_doubled_when_the_server_is_killed() {
    let rounds = match against() {
        Against::Riparian => 10,
        // Shows that the test is right; Kafka's page cache survives the death of its process.
        Against::Kafka => 2,
    };
    let mut server = Server::start(&[]);
    for round in 0..rounds {
        let topic = format!("round-{round}");
        create_topic(&server, &topic);
        let feeder = feeder(&server, &topic, &[]);
        // Each round dies at another point.
        wait_for_acknowledged(&feeder, 300 + 400 * round);
        server.kill();
        server.restart();
        let fed = feeder.finish(ROUND_LIMIT).success();
        check(&server, &topic, &fed.stdout);
    }
}

#[test]
fn nothing_is_lost_or_doubled_when_the_server_is_ended_and_started() {
    let mut server = Server::start(&[]);
    create_topic(&server, "ended");
    let feeder = feeder(&server, "ended", &["compression.type=lz4"]);
    wait_for_acknowledged(&feeder, 1000);
    server.terminate();
    server.restart();
    let fed = feeder.finish(ROUND_LIMIT).success();
    check(&server, "ended", &fed.stdout);
}
