//! Kafka's own command line tools against the server.

use std::time::Duration;

use riparian_tests::{Against, Finished, Program, Server, Tool, java_program};

const CODECS: &[&str] = &["none", "gzip", "snappy", "lz4", "zstd"];

fn create_topic(server: &Server, topic: &str, partitions: u32) {
    let partitions = partitions.to_string();
    let arguments = ["--create", "--topic", topic, "--partitions", &partitions, "--replication-factor", "1"];
    Tool::at("TopicCommand", &server.bootstrap()).args(&arguments).run().says(&format!("Created topic {topic}."));
}

fn produce(server: &Server, topic: &str, codec: &str, lines: &str) {
    let arguments = ["--topic", topic, "--compression-codec", codec];
    let produced = Tool::at("ConsoleProducer", &server.bootstrap()).args(&arguments).input(lines).run();
    assert!(!produced.both().contains("ERROR"), "{}", produced.both());
}

fn consume(server: &Server, topic: &str, partition: u32, count: usize) -> Vec<String> {
    let (partition, count) = (partition.to_string(), count.to_string());
    let arguments = ["--topic", topic, "--partition", &partition, "--offset", "earliest", "--max-messages", &count];
    let consumed = Tool::at("consumer.ConsoleConsumer", &server.bootstrap()).args(&arguments).run();
    consumed.stdout.lines().map(str::to_owned).collect()
}

fn end_offsets(server: &Server, topic: &str, time: &str) -> String {
    let listed = Tool::at("GetOffsetShell", &server.bootstrap()).args(&["--topic", topic, "--time", time]).run();
    let mut lines: Vec<&str> = listed.stdout.lines().collect();
    lines.sort_unstable();
    lines.join(" ")
}

/// The values of the `key=value` words of a tool's output that start a word with this key.
fn value_of(finished: &Finished, key: &str) -> Option<String> {
    let words = finished.stdout.split([' ', ',', '\t', '\n']);
    words.filter_map(|word| word.trim().strip_prefix(key)?.strip_prefix('=')).map(str::to_owned).next()
}

#[test]
fn topics_are_created_listed_described_grown_and_deleted() {
    let server = Server::start(&[]);
    let topics = || Tool::at("TopicCommand", &server.bootstrap());
    topics()
        .args(&["--create", "--topic", "first", "--partitions", "3", "--replication-factor", "1"])
        .args(&["--config", "retention.ms=3600000", "--config", "cleanup.policy=compact"])
        .run();
    create_topic(&server, "second", 1);
    assert_eq!(topics().args(&["--list", "--exclude-internal"]).run().stdout, "first\nsecond");

    let described = topics().args(&["--describe", "--topic", "first"]).run();
    described
        .says("PartitionCount: 3")
        .says("retention.ms=3600000")
        .says("cleanup.policy=compact")
        .says("Partition: 2");

    topics().args(&["--alter", "--topic", "first", "--partitions", "5"]).run();
    topics().args(&["--describe", "--topic", "first"]).run().says("PartitionCount: 5");

    let again = topics().args(&["--create", "--topic", "first"]).finish();
    assert!(!again.status.success() && again.both().contains("already exists"), "{}", again.both());
    let fewer = topics().args(&["--alter", "--topic", "first", "--partitions", "2"]).finish();
    assert!(!fewer.status.success(), "{}", fewer.both());
    let unknown = topics().args(&["--describe", "--topic", "absent"]).finish();
    assert!(!unknown.status.success() && unknown.both().contains("does not exist"), "{}", unknown.both());
    let bad_name = topics().args(&["--create", "--topic", "no spaces"]).finish();
    assert!(!bad_name.status.success(), "{}", bad_name.both());

    topics().args(&["--delete", "--topic", "first"]).run();
    assert_eq!(topics().args(&["--list", "--exclude-internal"]).run().stdout, "second");
}

#[test]
fn topic_configs_are_altered_and_described() {
    let server = Server::start(&[]);
    create_topic(&server, "configured", 1);
    let configs = || Tool::at("ConfigCommand", &server.bootstrap()).args(&["--entity-type", "topics"]);
    configs()
        .args(&[
            "--entity-name",
            "configured",
            "--alter",
            "--add-config",
            "retention.ms=1000,max.message.bytes=2000000",
        ])
        .run();
    let described = configs().args(&["--entity-name", "configured", "--describe"]).run();
    assert_eq!(value_of(&described, "retention.ms").as_deref(), Some("1000"), "{}", described.stdout);
    assert_eq!(value_of(&described, "max.message.bytes").as_deref(), Some("2000000"), "{}", described.stdout);

    configs().args(&["--entity-name", "configured", "--alter", "--delete-config", "retention.ms"]).run();
    let described = configs().args(&["--entity-name", "configured", "--describe"]).run();
    assert_eq!(value_of(&described, "retention.ms"), None, "{}", described.stdout);
    let all = configs().args(&["--entity-name", "configured", "--describe", "--all"]).run();
    assert_eq!(value_of(&all, "retention.ms").as_deref(), Some("604800000"), "{}", all.stdout);

    let refused =
        configs().args(&["--entity-name", "configured", "--alter", "--add-config", "cleanup.policy=perhaps"]).finish();
    assert!(!refused.status.success() && refused.both().contains("cleanup.policy"), "{}", refused.both());
}

#[test]
fn group_configs_are_altered_and_described() {
    let server = Server::start(&[]);
    let configs =
        || Tool::at("ConfigCommand", &server.bootstrap()).args(&["--entity-type", "groups", "--entity-name", "words"]);
    configs()
        .args(&["--alter", "--add-config", "streams.num.standby.replicas=1,streams.session.timeout.ms=50000"])
        .run();
    let described = configs().args(&["--describe"]).run();
    assert_eq!(value_of(&described, "streams.num.standby.replicas").as_deref(), Some("1"), "{}", described.stdout);
    assert_eq!(value_of(&described, "streams.session.timeout.ms").as_deref(), Some("50000"), "{}", described.stdout);

    let unknown = configs().args(&["--alter", "--add-config", "streams.no.such.thing=1"]).finish();
    assert!(!unknown.status.success(), "{}", unknown.both());
    let low = configs().args(&["--alter", "--add-config", "streams.session.timeout.ms=1"]).finish();
    assert!(!low.status.success() && low.both().contains("streams.session.timeout.ms"), "{}", low.both());
}

#[test]
fn every_codec_goes_in_and_comes_out() {
    let server = Server::start(&[]);
    create_topic(&server, "codecs", 1);
    let mut expected = Vec::new();
    for codec in CODECS {
        let lines: Vec<String> = (0..50).map(|n| format!("{codec} line {n} {}", "x".repeat(40))).collect();
        produce(&server, "codecs", codec, &(lines.join("\n") + "\n"));
        expected.extend(lines);
    }
    assert_eq!(consume(&server, "codecs", 0, expected.len()), expected);
    assert_eq!(end_offsets(&server, "codecs", "latest"), format!("codecs:0:{}", expected.len()));
}

#[test]
fn producer_performance_fills_partitions_with_every_codec() {
    let server = Server::start(&[]);
    create_topic(&server, "perf", 2);
    for codec in CODECS {
        let compression = format!("compression.type={codec}");
        Tool::new("ProducerPerformance")
            .args(&["--bootstrap-server", &server.bootstrap(), "--topic", "perf", "--num-records", "5000"])
            .args(&["--record-size", "200", "--throughput", "-1", "--command-property", &compression, "acks=all"])
            .run()
            .says("5000 records sent");
    }
    let ends = end_offsets(&server, "perf", "latest");
    let total: u64 = ends.split(' ').filter_map(|end| end.rsplit(':').next()?.parse::<u64>().ok()).sum();
    assert_eq!(total, 25_000, "{ends}");
}

#[test]
fn consumer_starts_in_the_middle_and_at_the_end() {
    let server = Server::start(&[]);
    create_topic(&server, "seek", 1);
    produce(&server, "seek", "none", "a\nb\nc\nd\n");
    let consume_from = |offset: &str| {
        Tool::at("consumer.ConsoleConsumer", &server.bootstrap())
            .args(&["--topic", "seek", "--partition", "0", "--offset", offset, "--max-messages", "1"])
            .args(&["--formatter-property", "print.offset=true", "--formatter-property", "print.partition=true"])
            .run()
            .stdout
    };
    assert_eq!(consume_from("2"), "Partition:0\tOffset:2\tc");
    let at_end = Tool::at("consumer.ConsoleConsumer", &server.bootstrap())
        .args(&["--topic", "seek", "--partition", "0", "--offset", "latest", "--timeout-ms", "1000"])
        .finish();
    assert_eq!(at_end.stdout, "", "{}", at_end.both());
}

#[test]
fn deleted_records_move_the_start_of_the_log() {
    let server = Server::start(&[]);
    create_topic(&server, "cut", 1);
    produce(&server, "cut", "none", "a\nb\nc\nd\ne\n");
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let json = r#"{"partitions":[{"topic":"cut","partition":0,"offset":3}],"version":1}"#;
    std::fs::write(file.path(), json).expect("the file can be written");
    let path = file.path().display().to_string();
    Tool::at("DeleteRecordsCommand", &server.bootstrap())
        .args(&["--offset-json-file", &path])
        .run()
        .says("low_watermark: 3");
    assert_eq!(end_offsets(&server, "cut", "earliest"), "cut:0:3");
    assert_eq!(end_offsets(&server, "cut", "latest"), "cut:0:5");
    assert_eq!(consume(&server, "cut", 0, 2), ["d", "e"]);
}

#[test]
fn offsets_are_found_by_time() {
    let server = Server::start(&[]);
    create_topic(&server, "times", 2);
    assert_eq!(end_offsets(&server, "times", "latest"), "times:0:0 times:1:0");
    assert_eq!(end_offsets(&server, "times", "earliest"), "times:0:0 times:1:0");
    let arguments = ["--topic", "times", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"];
    Tool::at("ConsoleProducer", &server.bootstrap()).args(&arguments).input("k:a\nk:b\nk:c\n").run();
    let ends = end_offsets(&server, "times", "latest");
    assert!(ends == "times:0:3 times:1:0" || ends == "times:0:0 times:1:3", "{ends}");
    // A time before the first record finds the first offset of the partition that has one.
    let first = end_offsets(&server, "times", "1000000000000");
    assert!(first.contains(":0") && !first.contains(":3"), "{first}");
}

#[test]
fn api_versions_are_told_and_hold_nothing_unknown() {
    let server = Server::start(&[]);
    let told = Tool::at("BrokerApiVersionsCommand", &server.bootstrap()).run();
    for api in ["Produce(0)", "Fetch(1)", "ApiVersions(18)", "StreamsGroupHeartbeat(88)", "StreamsGroupDescribe(89)"] {
        told.says(api);
    }
    assert!(!told.stdout.contains("UNKNOWN("), "{}", told.stdout);
}

#[test]
fn groups_are_listed_when_there_are_none() {
    let server = Server::start(&[]);
    let groups = || Tool::at("streams.StreamsGroupCommand", &server.bootstrap());
    assert_eq!(groups().args(&["--list"]).run().stdout.trim(), "");
    let absent = groups().args(&["--describe", "--group", "absent"]).finish();
    assert!(absent.both().contains("absent"), "{}", absent.both());
}

#[test]
fn consumer_groups_are_described_reset_and_deleted() {
    const LIMIT: Duration = Duration::from_secs(60);
    let server = Server::start(&[("group.initial.rebalance.delay.ms", "200")]);
    let bootstrap = server.bootstrap();
    create_topic(&server, "read", 2);
    produce(&server, "read", "none", "a\nb\nc\nd\ne\nf\n");
    let consume_all = || {
        let arguments = ["--topic", "read", "--group", "readers", "--from-beginning", "--max-messages", "6"];
        let consumed = Tool::at("consumer.ConsoleConsumer", &bootstrap).args(&arguments).run();
        let mut lines: Vec<String> = consumed.stdout.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["a", "b", "c", "d", "e", "f"]);
    };
    let groups = || Tool::at("consumer.group.ConsumerGroupCommand", &bootstrap);
    let describe = |options: &[&str]| groups().args(&["--describe", "--group", "readers"]).args(options).run();
    // Columns: group, topic, partition, current offset, log end, lag.
    let lags = || -> Vec<String> {
        let described = describe(&[]);
        let lines = described.stdout.lines().filter(|line| line.starts_with("readers "));
        let mut lags: Vec<String> =
            lines.map(|line| line.split_whitespace().nth(5).unwrap_or_default().to_owned()).collect();
        lags.sort_unstable();
        lags
    };
    consume_all();
    assert_eq!(groups().args(&["--list"]).run().stdout.trim(), "readers");
    groups().args(&["--list", "--state"]).run().says("Empty");
    assert_eq!(lags(), ["0", "0"]);

    // While somebody reads.
    let mut command = java_program("org.apache.kafka.tools.consumer.ConsoleConsumer");
    command.args(["--bootstrap-server", &bootstrap, "--topic", "read", "--group", "readers"]);
    let reader = Program::start("reader", &mut command);
    produce(&server, "read", "none", "g\n");
    reader.wait_for_line("a record", LIMIT, |line| line == "g");
    describe(&["--state"]).says("Stable").says("range");
    describe(&["--members"]).says("console-consumer");
    describe(&["--members", "--verbose"]).says("read:0,1");
    groups().args(&["--list", "--state", "Stable"]).run().says("readers");
    let earliest = ["--reset-offsets", "--group", "readers", "--topic", "read", "--to-earliest", "--execute"];
    let refused = groups().args(&earliest).finish();
    assert!(refused.both().contains("inactive"), "{}", refused.both());
    let refused = groups().args(&["--delete", "--group", "readers"]).finish();
    assert!(refused.both().to_lowercase().contains("not empty"), "{}", refused.both());
    let refused = groups().args(&["--delete-offsets", "--group", "readers", "--topic", "read"]).finish();
    assert!(refused.both().contains("subscribed"), "{}", refused.both());
    reader.terminate(LIMIT);

    describe(&["--state"]).says("Empty");
    groups().args(&earliest).run();
    let total: u32 = lags().iter().filter_map(|lag| lag.parse::<u32>().ok()).sum();
    assert_eq!(total, 7);
    groups()
        .args(&["--reset-offsets", "--group", "readers", "--topic", "read:0", "--to-offset", "1", "--execute"])
        .run();
    groups().args(&["--reset-offsets", "--group", "readers", "--all-topics", "--to-latest", "--execute"]).run();
    assert_eq!(lags(), ["0", "0"]);
    groups().args(&["--delete-offsets", "--group", "readers", "--topic", "read:0"]).run();
    assert_eq!(lags(), ["0"]);
    groups().args(&["--delete", "--group", "readers"]).run().says("successful");
    assert_eq!(groups().args(&["--list"]).run().stdout.trim(), "");
}

/// A broker of Kafka that loads our log finds records of a type that only our server writes.
#[test]
fn a_broker_of_kafka_passes_over_the_record_that_is_ours() {
    let mut server = Server::start_this(Against::Kafka, &[("offsets.topic.num.partitions", "1")]);
    create_topic(&server, "t", 1);
    let groups = |server: &Server| Tool::at("consumer.group.ConsumerGroupCommand", &server.bootstrap());
    groups(&server).args(&["--reset-offsets", "--group", "g", "--topic", "t", "--to-earliest", "--execute"]).run();
    // As Kafka's own tools may, which is not every client's right.
    let arguments = ["--topic", "__consumer_offsets", "--command-property", "client.id=__admin_client"];
    let keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"];
    // The description of the topology of `g`: its type is `RP`.
    let record = "RP\0\u{1}g:\0\0\0\0\0\0described\n";
    Tool::at("ConsoleProducer", &server.bootstrap()).args(&arguments).args(&keyed).input(record).run();
    server.kill();
    server.restart();
    groups(&server).args(&["--describe", "--group", "g"]).run().says(" t ");
    server.program().wait_for_line("a remark on the record", Duration::from_secs(60), |line| {
        line.contains("Unknown record type 21072") && line.contains("Ignoring it")
    });
}
