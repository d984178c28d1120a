//! Files, environment and flags against each other, as `riparian serve` reads them.

use std::fs;

use clap::Parser;
use tempfile::TempDir;

use super::*;
use crate::cli::{Arguments, Command};

/// Loads a configuration as `riparian serve` would, with this file, these variables and these flags.
fn load_from(file: &str, environment: &[(&str, &str)], flags: &[&str]) -> Result<Config> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("server.properties");
    fs::write(&path, file).unwrap();
    let path = path.display().to_string();
    let arguments = ["riparian", "serve", "--config", &path].into_iter().chain(flags.iter().copied());
    let Command::Serve(options) = Arguments::try_parse_from(arguments)?.command else { panic!("serve was asked for") };
    load(&options, environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
        .map_err(|error| anyhow::anyhow!("{error:#}").context(path))
}

fn check_value(file: &str, environment: &[(&str, &str)], flags: &[&str], key: &str, expected: &str) {
    let config = load_from(file, environment, flags).unwrap();
    assert_eq!(config.broker.string(key).unwrap_or_default(), expected);
}

/// The error without the directory of the file.
fn check_error(file: &str, environment: &[(&str, &str)], flags: &[&str], expected: &str) {
    let error = load_from(file, environment, flags).unwrap_err();
    let path = error.to_string();
    let found = error.root_cause().to_string().replace(&path, "server.properties");
    assert_eq!(found, expected);
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let (file, variable, flag) =
        ("num.partitions=2", [("RIPARIAN_NUM_PARTITIONS", "3")], ["--set", "num.partitions=4"]);
    check_value("", &[], &[], "num.partitions", "1");
    check_value(file, &[], &[], "num.partitions", "2");
    check_value(file, &variable, &[], "num.partitions", "3");
    check_value(file, &variable, &flag, "num.partitions", "4");
    check_value(file, &[], &flag, "num.partitions", "4");
}

#[test]
fn variables_name_kafkas_keys_and_our_own() {
    check_value("", &[("RIPARIAN_RIPARIAN_FLUSH", "os")], &[], "riparian.flush", "os");
    check_value("", &[("RIPARIAN_FLUSH", "os")], &[], "riparian.flush", "os");
    check_value("", &[("RIPARIAN_LOG", "debug"), ("RIPARIAN_BIN", "x"), ("HOME", "x")], &[], "num.partitions", "1");
}

#[test]
fn named_flags_stand_for_keys() {
    check_value("", &[], &["--listeners", "PLAINTEXT://localhost:1"], "listeners", "PLAINTEXT://localhost:1");
    check_value("log.dirs=/a", &[], &["--data-dir", "/b"], "log.dirs", "/b");
    check_value("", &[], &["--http-address", "[::1]:1"], "riparian.http.address", "[::1]:1");
    check_value("", &[], &["--port", "0"], "listeners", "PLAINTEXT://127.0.0.1:0");
    check_value("listeners=PLAINTEXT://[::1]:9092", &[], &["--port", "7"], "listeners", "PLAINTEXT://[::1]:7");
    let combined = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER";
    check_value(combined, &[], &["--port", "7"], "listeners", "PLAINTEXT://:7");
    check_error(
        "listeners=A://:1,B://:2",
        &[],
        &["--port", "7"],
        "--port 7 needs exactly one listener, but listeners is A://:1,B://:2; use --listeners instead",
    );
    let unknown = "group.streams.assignors: there is no assignor 'mine', only sticky, balanced, optimal (flag --set)";
    check_error("", &[], &["--set", "group.streams.assignors=sticky,mine"], unknown);
    check_error("", &[], &["--set", "x"], "--set x: allowed is key=value, for example --set num.partitions=3");
}

#[test]
fn wrong_values_name_the_key_the_value_what_is_allowed_and_where_it_stands() {
    check_error(
        "\nnum.partitions=many",
        &[],
        &[],
        "'many' is not a value for num.partitions: allowed is an integer from 1 to 2147483647 (server.properties line 2)",
    );
    check_error(
        "",
        &[("RIPARIAN_AUTO_CREATE_TOPICS_ENABLE", "yes")],
        &["--set", "num.partitions=0"],
        "'yes' is not a value for auto.create.topics.enable: allowed is true or false (environment variable RIPARIAN_AUTO_CREATE_TOPICS_ENABLE)\n\
         '0' is not a value for num.partitions: allowed is an integer from 1 to 2147483647 (flag --set)",
    );
    check_error(
        "listeners=SSL://localhost:9093",
        &[],
        &[],
        "listeners: the listener SSL wants SSL, which is not available yet; allowed: PLAINTEXT (server.properties line 1)",
    );
    check_error(
        "log.dirs=/a,/b",
        &[],
        &[],
        "log.dirs=/a,/b is not allowed: exactly one directory is allowed (server.properties line 1)",
    );
}

#[test]
fn a_server_that_was_meant_to_be_closed_does_not_run_open() {
    check_error(
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        &[],
        &[],
        "authorizer.class.name is set (server.properties line 1), but access control is not available yet; remove the key to run a server that is open to all",
    );
    assert!(load_from("authorizer.class.name=", &[], &[]).is_ok());
}

#[test]
fn unknown_keys_are_told_by_name() {
    let remarks = load_from("num.partition=1", &[], &[]).unwrap().remarks;
    let [Remark::Unknown(text)] = remarks.as_slice() else { panic!("one remark is due: {remarks:?}") };
    assert!(text.starts_with("unknown broker config 'num.partition'; did you mean 'num.partitions'? ("), "{text}");
}

/// A key of ours is misspelt, for no Kafka has one; all that are wrong are told at once.
#[test]
fn unknown_keys_of_our_own_end_the_start() {
    let nearest =
        "unknown broker config 'riparian.fast.rebalanced'; did you mean 'riparian.fast.rebalance'? (flag --set)";
    check_error("", &[], &["--set", "riparian.fast.rebalanced=false"], nearest);
    let none = "unknown broker config 'riparian.nothing.of.the.kind' (server.properties line 1)";
    check_error("riparian.nothing.of.the.kind=1", &[], &[], none);
}

#[test]
fn port_flag_that_leaves_clients_with_the_old_port_is_told() {
    let file = "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://localhost:9092";
    let remarks = |flags: &[&str]| load_from(file, &[], flags).unwrap().remarks;
    let told = remarks(&["--port", "7"]);
    let [Remark::OtherPort { advertised, source }] = told.as_slice() else { panic!("one remark is due: {told:?}") };
    assert_eq!(advertised, "PLAINTEXT://localhost:9092");
    assert!(source.ends_with("server.properties line 2"), "{source}");
    assert_eq!(remarks(&["--port", "9092"]), []);
    assert_eq!(remarks(&["--port", "7", "--advertised-listeners", "PLAINTEXT://localhost:7"]), []);
    assert_eq!(remarks(&[]), []);
}

#[test]
fn an_ordinary_kafka_file_is_accepted() {
    let file = "\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
";
    let config = load_from(file, &[], &[]).unwrap();
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].advertised.to_string(), "PLAINTEXT://localhost:9092");
    assert_eq!(config.data_dir, DataDir::Kept("/tmp/kraft-combined-logs".into()));
    let [Remark::WithoutEffect(keys)] = config.remarks.as_slice() else { panic!("one remark is due: {config:?}") };
    for key in ["process.roles", "controller.quorum.bootstrap.servers", "num.network.threads"] {
        assert!(keys.iter().any(|found| found == key), "{key} is missing in {keys:?}");
    }
}

#[test]
fn ephemeral_data_wins_over_a_directory() {
    let config = load_from("log.dirs=/a", &[], &["--ephemeral"]).unwrap();
    assert_eq!(config.data_dir, DataDir::Ephemeral);
    assert!(dump::dump(&config).contains("# log.dirs is a temporary directory"));
}

#[test]
fn a_dump_reads_back_to_the_same_configuration_and_hides_secrets() {
    let file = "num.partitions = 3\nssl.keystore.password=abc\nlog.dirs=C\\:\\\\data";
    let config = load_from(file, &[], &[]).unwrap();
    let dumped = dump::dump(&config);
    assert!(!dumped.contains("abc"), "{dumped}");
    assert!(dumped.contains("server.properties line 1\nnum.partitions=3\n"), "{dumped}");
    assert!(dumped.contains("\noffsets.topic.num.partitions=50\n"), "{dumped}");
    let again = load_from(&dumped, &[], &[]).unwrap();
    assert_eq!(again.data_dir, config.data_dir);
    assert_eq!(again.listeners, config.listeners);
    for (key, value) in config.broker.entries() {
        assert_eq!(again.broker.string(key.name), Some(value), "{}", key.name);
    }
}

#[test]
fn http_address_is_checked_before_anything_is_bound() {
    check_error(
        "riparian.http.address=9464",
        &[],
        &[],
        "riparian.http.address: \"9464\" is not an address; allowed: host:port (port 0 for any free one), for example \
         0.0.0.0:9464, or auto, or off (server.properties line 1)",
    );
    check_error(
        "",
        &[("RIPARIAN_HTTP_ADDRESS", "localhost:7")],
        &["--listeners", "PLAINTEXT://localhost:7"],
        "riparian.http.address: localhost:7 has the port of the listener PLAINTEXT://localhost:7; allowed: any other port \
         (environment variable RIPARIAN_HTTP_ADDRESS)",
    );
    for (text, expected) in [("", HttpAddress::Off), ("off", HttpAddress::Off), ("auto", HttpAddress::Auto)] {
        assert_eq!(load_from(&format!("riparian.http.address={text}"), &[], &[]).unwrap().http, expected);
    }
    assert_eq!(load_from("", &[], &[]).unwrap().http, HttpAddress::Auto);
}
