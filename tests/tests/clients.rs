//! Clients that are not Java: kcat and Python's `confluent_kafka`, both on librdkafka.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use riparian_tests::{Against, Finished, Program, Server, Tool, against, kcat, python};

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

/// A crash must be noticed within a test.
const QUICK_GROUPS: &[(&str, &str)] =
    &[("group.initial.rebalance.delay.ms", "500"), ("group.min.session.timeout.ms", "3000")];
const SESSION: &str = "session.timeout.ms=3000";
const GROUP: &str = "pythons";
const TOPIC: &str = "shared";

fn member(server: &Server, name: &str, settings: &[&str]) -> Program {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/group.py");
    let mut command = Command::new(python());
    command.args([script, &server.bootstrap(), GROUP, TOPIC, SESSION]).args(settings);
    Program::start(name, &mut command)
}

fn feed(server: &Server, numbers: std::ops::Range<usize>) {
    let lines: String = numbers.map(|n| format!("{n}\n")).collect();
    run_kcat(server, &["-P", "-t", TOPIC, "-X", "acks=all"], &lines);
}

/// What a member says that it has, each time when that changes.
fn holdings(lines: &[String]) -> Vec<Vec<u32>> {
    let holding = |line: &String| {
        let partitions = line.strip_prefix("has")?;
        Some(partitions.split_whitespace().map(|partition| partition.parse().expect("a partition")).collect())
    };
    lines.iter().filter_map(holding).collect()
}

fn wait_until_it_has(member: &Program, count: usize) -> Vec<u32> {
    member.wait_until(&format!("{count} partitions"), LIMIT, |lines| {
        holdings(lines).pop().filter(|partitions| partitions.len() == count)
    })
}

fn values(lines: &[String]) -> impl Iterator<Item = usize> {
    lines.iter().filter_map(|line| line.strip_prefix("got ")?.rsplit(' ').next()?.parse().ok())
}

/// Until the members have got all numbers up to this one among themselves; all that they have got.
fn wait_for_values(members: &[&Program], end: usize) -> Vec<usize> {
    Program::wait_for_all(members, &format!("all numbers below {end}"), LIMIT, |lines| {
        let got: Vec<usize> = lines.iter().flat_map(|lines| values(lines)).collect();
        let all: BTreeSet<usize> = got.iter().copied().collect();
        (0..end).all(|n| all.contains(&n)).then_some(got)
    })
}

/// Two members share the partitions, across a crash of the server and of one of them, and nothing is lost.
fn check_group(strategy: &str, is_cooperative: bool) {
    let mut server = Server::start(QUICK_GROUPS);
    create_topic(&server, TOPIC, "4");
    let strategy = format!("partition.assignment.strategy={strategy}");
    feed(&server, 0..200);
    let first = member(&server, "first", &[&strategy]);
    assert_eq!(wait_until_it_has(&first, 4), [0, 1, 2, 3]);
    wait_for_values(&[&first], 200);
    let mark = first.stdout().len();
    let mut second = member(&server, "second", &[&strategy]);
    let mut shared = wait_until_it_has(&second, 2);
    shared.extend(wait_until_it_has(&first, 2));
    shared.sort_unstable();
    assert_eq!(shared, [0, 1, 2, 3]);
    let given_up = holdings(&first.stdout()[mark..]);
    assert_eq!(given_up.contains(&Vec::new()), !is_cooperative, "{given_up:?}");
    feed(&server, 200..400);
    let got = wait_for_values(&[&first, &second], 400);
    assert_eq!(got.len(), 400, "nothing is read twice as long as nobody crashes");

    // The members go on where they were.
    let mark = first.stdout().len();
    server.kill();
    server.restart();
    feed(&server, 400..600);
    wait_for_values(&[&first, &second], 600);
    if against() == Against::Riparian {
        // Kafka takes longer to start than these sessions last.
        let moved = holdings(&first.stdout()[mark..]);
        assert!(moved.is_empty(), "{moved:?}");
    }

    second.kill();
    assert_eq!(wait_until_it_has(&first, 4), [0, 1, 2, 3]);
    feed(&server, 600..800);
    wait_for_values(&[&first, &second], 800);
    first.terminate(LIMIT).says("closed");

    // Whoever comes next begins where they ended.
    let third = member(&server, "third", &[&strategy]);
    wait_until_it_has(&third, 4);
    feed(&server, 800..900);
    let rest = |lines: &[String]| Some(values(lines).collect::<Vec<_>>()).filter(|got| got.len() >= 100);
    let got = third.wait_until("the rest", LIMIT, rest);
    assert!(got.len() == 100 && got.iter().all(|n| *n >= 800), "{got:?}");
    third.terminate(LIMIT).says("closed");
}

#[test]
fn members_share_partitions_with_the_range_assignor() {
    check_group("range", false);
}

#[test]
fn members_share_partitions_and_keep_what_they_can() {
    check_group("cooperative-sticky", true);
}

#[test]
fn a_static_member_comes_back_to_its_partitions() {
    let server = Server::start(QUICK_GROUPS);
    create_topic(&server, TOPIC, "4");
    let instance =
        |name: &str| member(&server, name, &[&format!("group.instance.id={name}"), "session.timeout.ms=60000"]);
    let first = instance("first");
    wait_until_it_has(&first, 4);
    let mut second = instance("second");
    let partitions = wait_until_it_has(&second, 2);
    wait_until_it_has(&first, 2);
    let mark = first.stdout().len();
    // Neither a crash nor an orderly end of a static member is a reason to rebalance before its session is over.
    second.kill();
    let second = instance("second");
    assert_eq!(wait_until_it_has(&second, 2), partitions);
    second.terminate(LIMIT).says("closed");
    let second = instance("second");
    assert_eq!(wait_until_it_has(&second, 2), partitions);
    feed(&server, 0..100);
    wait_for_values(&[&first, &second], 100);
    let moved = holdings(&first.stdout()[mark..]);
    assert!(moved.is_empty(), "{moved:?}");
    // Another process with the same name: the newcomer wins.
    let usurper = instance("second");
    assert_eq!(wait_until_it_has(&usurper, 2), partitions);
    second.wait_for_line("the end of the one before", LIMIT, |line| {
        line.starts_with("error ") && line.contains("fenced")
    });
}
