//! `riparian topics` and `riparian groups` as clients of any server, ours or a broker of Apache Kafka.

use std::time::Duration;

use riparian_tests::{Finished, Program, Server, java_program, own_program, riparian};

const LIMIT: Duration = Duration::from_secs(60);

fn run(server: &Server, arguments: &[&str]) -> Finished {
    let mut command = riparian();
    command.args(arguments).args(["--bootstrap", &server.bootstrap()]);
    Program::start("riparian", &mut command).finish(LIMIT)
}

/// JSON without the white space, so that texts can be looked for in it.
fn json_of(finished: &Finished) -> String {
    finished.stdout.split_whitespace().collect()
}

#[test]
fn topics_are_created_listed_described_and_deleted() {
    let server = Server::start(&[]);
    let created = run(&server, &["topics", "create", "orders", "--partitions", "3", "--config", "retention.ms=1000"]);
    created.success().says("Created topic orders with 3 partitions.");
    let again = run(&server, &["topics", "create", "orders"]);
    assert!(!again.status.success() && again.stderr.contains("orders"), "{}", again.both());
    assert_eq!(again.stdout, "");

    run(&server, &["topics", "list"]).success().says("orders").says("PARTITIONS");
    let listed = json_of(&run(&server, &["topics", "list", "--json"]).success());
    assert!(listed.contains(r#""name":"orders""#) && listed.contains(r#""partitions":3"#), "{listed}");
    run(&server, &["topics", "describe", "orders"]).success().says("3 partitions").says("retention.ms=1000");
    let described = json_of(&run(&server, &["topics", "describe", "orders", "--json"]).success());
    assert!(described.contains(r#""retention.ms":"1000""#) && described.contains(r#""partition":2"#), "{described}");

    run(&server, &["topics", "delete", "orders"]).success();
    let gone = run(&server, &["topics", "describe", "orders"]);
    assert!(!gone.status.success() && gone.stderr.contains("orders"), "{}", gone.both());
}

#[test]
fn a_wrong_name_hides_nothing_of_the_right_ones() {
    let server = Server::start(&[]);
    for topic in ["first", "second"] {
        run(&server, &["topics", "create", topic]).success();
    }
    // In whatever order: the others are shown, then the wrong one is told, and the exit code says so.
    let partly = |finished: Finished, shown: &[&str]| {
        assert_eq!(finished.status.code(), Some(1), "{}", finished.both());
        assert!(shown.iter().all(|text| finished.stdout.contains(text)), "{}", finished.both());
        assert!(finished.stderr.lines().count() == 1 && finished.stderr.contains("nosuch"), "{}", finished.both());
    };
    partly(run(&server, &["topics", "describe", "first", "nosuch", "second"]), &["first: 1 part", "second: 1 part"]);
    let described = run(&server, &["topics", "describe", "nosuch", "second", "--json"]);
    partly(described, &[r#""name": "second""#]);
    partly(run(&server, &["topics", "delete", "first", "nosuch", "second"]), &["topic first", "topic second"]);
    run(&server, &["topics", "create", "third"]).success();
    partly(run(&server, &["topics", "delete", "nosuch", "third", "--json"]), &[r#""name": "third""#]);

    run(&server, &["topics", "create", "read"]).success();
    let mut command = java_program("org.apache.kafka.tools.consumer.ConsoleConsumer");
    command.args(["--bootstrap-server", &server.bootstrap(), "--topic", "read", "--group", "readers"]);
    let reader = Program::start("reader", &mut command);
    let mut watch = riparian();
    watch.args(["groups", "list", "--json", "--watch", "0.1", "--bootstrap", &server.bootstrap()]);
    let watch = Program::start("watch", &mut watch);
    watch.wait_for_line("a group", LIMIT, |line| line.contains(r#""group":"readers""#));
    partly(run(&server, &["groups", "describe", "nosuch", "readers"]), &["readers: "]);
    partly(run(&server, &["groups", "describe", "readers", "nosuch", "--json"]), &[r#""group": "readers""#]);
    partly(run(&server, &["groups", "describe", "nosuch", "--watch", "0.1"]), &[]);
    reader.terminate(LIMIT);
}

#[test]
fn groups_are_listed_and_described() {
    let server = Server::start(&[("group.streams.initial.rebalance.delay.ms", "0")]);
    for topic in ["text-lines", "word-counts"] {
        run(&server, &["topics", "create", topic, "--partitions", "2"]).success();
    }
    let absent = run(&server, &["groups", "describe", "word-count"]);
    assert!(!absent.status.success() && absent.stderr.contains("word-count"), "{}", absent.both());

    let states = tempfile::tempdir().expect("a temporary directory can be made");
    let mut command = own_program("WordCount");
    command.args(["--bootstrap", &server.bootstrap(), "--state-dir"]).arg(states.path());
    let application = Program::start("word count", &mut command);
    // Every task is shown by the client, so the server's records have it too.
    let all = |line: &str| line.contains("active=0_0,0_1,1_0,1_1");
    application.wait_for_line("task", LIMIT, all);
    run(&server, &["groups", "list"]).success().says("word-count").says("streams");
    run(&server, &["groups", "describe", "word-count"]).success().says("word-count: ").says("1_1");
    let described = json_of(&run(&server, &["groups", "describe", "word-count", "--json"]).success());
    for text in
        [r#""group":"word-count""#, r#""active":["0_0","0_1","1_0","1_1"]"#, r#""source_topics":["text-lines"]"#]
    {
        assert!(described.contains(text), "no {text} in {described}");
    }
    // What was read is committed by and by; a watch sees it.
    let mut feeder = own_program("Feeder");
    feeder.args(["--bootstrap", &server.bootstrap(), "--topic", "text-lines", "--quiet", "true"]);
    feeder.args(["--from", "0", "--count", "100", "--rate", "1000000"]);
    Program::start("feeder", &mut feeder).finish(LIMIT).success();
    let mut watch = riparian();
    watch.args(["groups", "describe", "word-count", "--json", "--watch", "0.1", "--bootstrap", &server.bootstrap()]);
    let watch = Program::start("watch", &mut watch);
    watch.wait_for_line("all is read", LIMIT, |line| {
        line.matches(r#""topic":"text-lines""#).count() == 2 && line.matches(r#""lag":0"#).count() == 4
    });
    run(&server, &["groups", "describe", "word-count"]).success().says("COMMITTED").says("word-count-counts-changelog");
    application.terminate(LIMIT).says("closed");
}

#[test]
fn classic_groups_are_described() {
    let server = Server::start(&[("group.initial.rebalance.delay.ms", "0")]);
    run(&server, &["topics", "create", "orders", "--partitions", "2"]).success();
    let mut command = java_program("org.apache.kafka.tools.consumer.ConsoleConsumer");
    command.args(["--bootstrap-server", &server.bootstrap(), "--topic", "orders", "--group", "readers"]);
    command.args([
        "--command-property",
        "group.instance.id=first",
        "--command-property",
        "auto.commit.interval.ms=100",
    ]);
    let reader = Program::start("reader", &mut command);
    let mut watch = riparian();
    watch.args(["groups", "list", "--json", "--watch", "0.1", "--bootstrap", &server.bootstrap()]);
    let watch = Program::start("watch", &mut watch);
    watch.wait_for_line("a stable group", LIMIT, |line| line.contains(r#""state":"Stable""#));
    let described = run(&server, &["groups", "describe", "readers"]).success();
    described.says("readers: Stable, classic group, 1 members, protocol range").says("first").says("orders-0 orders-1");
    let described = json_of(&run(&server, &["groups", "describe", "readers", "--json"]).success());
    for text in [r#""type":"classic""#, r#""instance_id":"first""#, r#""partitions":{"orders":[0,1]}"#] {
        assert!(described.contains(text), "no {text} in {described}");
    }
    reader.terminate(LIMIT);
}

#[test]
fn server_that_is_not_there_is_one_clear_error() {
    let mut command = riparian();
    let nobody = format!("127.0.0.1:{}", riparian_tests::free_port());
    command.args(["topics", "list", "--timeout", "2", "--bootstrap", &nobody]);
    let refused = Program::start("riparian", &mut command).finish(LIMIT);
    assert!(!refused.status.success() && refused.stderr.contains(&nobody), "{}", refused.both());
}
