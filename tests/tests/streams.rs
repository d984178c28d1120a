//! An ordinary Kafka Streams application, unchanged, on the server.
//!
//! By the server's own records no task ever has two owners, no epoch goes back, and every task is owned once the group
//! is stable; that is watched during the whole scenario, across crashes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use riparian_tests::{Against, LossyProxy, Program, Server, Tool, against, own_program};
use tempfile::TempDir;

const APPLICATION: &str = "word-count";
const INPUT: &str = "text-lines";
const PARTITIONS: &str = "4";
/// Two subtopologies of four tasks each.
const TASKS: usize = 8;

/// Lines a second when the rate does not matter.
const AT_ONCE: u64 = 1_000_000;

const RUNNING_LIMIT: Duration = Duration::from_secs(60);
const MOVED_LIMIT: Duration = Duration::from_secs(60);
const CLOSE_LIMIT: Duration = Duration::from_secs(30);
const FEED_LIMIT: Duration = Duration::from_secs(120);
/// What the issue of an application that cannot run is told within.
const REFUSED_LIMIT: Duration = Duration::from_secs(5);

/// A crash must be noticed within a test.
const QUICK: &[(&str, &str)] = &[
    ("group.streams.min.session.timeout.ms", "3000"),
    ("group.streams.session.timeout.ms", "4000"),
    ("group.streams.min.heartbeat.interval.ms", "500"),
    ("group.streams.heartbeat.interval.ms", "1000"),
    ("group.streams.initial.rebalance.delay.ms", "500"),
];

struct Application<'a> {
    server: &'a Server,
    states: TempDir,
}

impl<'a> Application<'a> {
    fn new(server: &'a Server) -> Self {
        let bootstrap = server.bootstrap();
        for topic in [INPUT, "word-counts"] {
            let arguments = ["--create", "--topic", topic, "--partitions", PARTITIONS, "--replication-factor", "1"];
            Tool::at("TopicCommand", &bootstrap).args(&arguments).run();
        }
        Self { server, states: state_dirs() }
    }
}

fn state_dirs() -> TempDir {
    tempfile::Builder::new().prefix("riparian-states-").tempdir().expect("a temporary directory can be made")
}

fn instance(bootstrap: &str, states: &Path, name: &str, more: &[&str]) -> Program {
    let mut command = own_program("WordCount");
    command.args(["--bootstrap", bootstrap, "--application-id", APPLICATION, "--threads", "2", "--state-dir"]);
    command.arg(states.join(name)).args(more);
    Program::start(name, &mut command)
}

fn wait_for_state(instance: &Program, state: &str, limit: Duration) {
    let ending = format!(" {state}");
    instance
        .wait_for_line(&format!("state {state}"), limit, |line| line.starts_with("state ") && line.ends_with(&ending));
}

fn watch(bootstrap: &str) -> Program {
    let mut command = own_program("GroupWatcher");
    command.args(["--bootstrap", bootstrap, "--group", APPLICATION]);
    Program::start("watcher", &mut command)
}

/// Waits, from the given line on, until the group is stable with this many members that own every task.
fn wait_until_settled(watcher: &Program, from: usize, members: usize) {
    let wanted = format!(" members={members} active={TASKS} ");
    watcher.wait_until(&format!("stable group of {members} members"), MOVED_LIMIT, |lines| {
        let settled = |line: &String| line.starts_with("group Stable ") && line.contains(&wanted);
        lines.get(from..)?.iter().find(|line| settled(line)).map(|_| ())
    });
}

/// What the watcher saw must be in order to its end.
fn check_watched(watcher: Program) {
    let watched = watcher.terminate(CLOSE_LIMIT);
    for bad in ["TWO OWNERS", "BACKWARDS"] {
        assert!(!watched.stdout.contains(bad), "{}", watched.both());
    }
    watched.says("polls ");
}

fn feed(bootstrap: &str, from: u64, count: u64, rate: u64) -> Program {
    let mut command = own_program("Feeder");
    command.args(["--bootstrap", bootstrap, "--topic", INPUT, "--quiet", "true"]);
    command.args(["--from", &from.to_string(), "--count", &count.to_string(), "--rate", &rate.to_string()]);
    Program::start("feeder", &mut command)
}

fn check_counts(bootstrap: &str, count: u64, exact: bool) -> u64 {
    let mut command = own_program("CountsChecker");
    command.args(["--bootstrap", bootstrap, "--count", &count.to_string(), "--exact", &exact.to_string()]);
    let checked = Program::start("counts", &mut command).finish(FEED_LIMIT).success();
    let surplus = checked.stdout.rsplit(' ').next().and_then(|number| number.trim().parse().ok());
    surplus.unwrap_or_else(|| panic!("{}", checked.both()))
}

#[test]
fn word_count_survives_closing_and_crashes_of_instances_and_server() {
    let mut server = Server::start(QUICK);
    let bootstrap = server.bootstrap();
    let states = Application::new(&server).states;
    Tool::at("ConfigCommand", &bootstrap)
        .args(&["--entity-type", "groups", "--entity-name", APPLICATION])
        .args(&["--alter", "--add-config", "streams.num.standby.replicas=1"])
        .run();
    let watcher = watch(&bootstrap);
    let first = instance(&bootstrap, states.path(), "first", &[]);
    let second = instance(&bootstrap, states.path(), "second", &[]);
    wait_for_state(&first, "RUNNING", RUNNING_LIMIT);
    wait_for_state(&second, "RUNNING", RUNNING_LIMIT);
    wait_until_settled(&watcher, 0, 4);
    let standbys = |line: &str| line.starts_with("tasks ") && !line.ends_with("standby=");
    first.wait_for_line("standby task", MOVED_LIMIT, standbys);

    // In order: two instances, then one closes while data flows. A clean close counts nothing twice.
    feed(&bootstrap, 0, 2000, AT_ONCE).finish(FEED_LIMIT).success().says("done 2000 0");
    let mark = watcher.stdout().len();
    let feeder = feed(&bootstrap, 2000, 2000, 500);
    second.terminate(CLOSE_LIMIT).says("closed");
    wait_until_settled(&watcher, mark, 2);
    feeder.finish(FEED_LIMIT).success().says("done 2000 0");
    assert_eq!(check_counts(&bootstrap, 4000, true), 0);

    // A third instance takes tasks over and is killed while data flows.
    let mark = watcher.stdout().len();
    let mut third = instance(&bootstrap, states.path(), "third", &[]);
    wait_for_state(&third, "RUNNING", RUNNING_LIMIT);
    wait_until_settled(&watcher, mark, 4);
    let feeder = feed(&bootstrap, 4000, 2000, 500);
    let mark = watcher.stdout().len();
    third.kill();
    wait_until_settled(&watcher, mark, 2);
    feeder.finish(FEED_LIMIT).success().says("done 2000 0");
    let surplus_of_crash = check_counts(&bootstrap, 6000, false);
    assert!(surplus_of_crash <= 3 * 2000, "{surplus_of_crash} words counted twice by one crash");

    // The server is killed while data flows to two instances, and comes back.
    let mark = watcher.stdout().len();
    let fourth = instance(&bootstrap, states.path(), "fourth", &[]);
    wait_for_state(&fourth, "RUNNING", RUNNING_LIMIT);
    wait_until_settled(&watcher, mark, 4);
    let feeder = feed(&bootstrap, 6000, 4000, 1000);
    wait_for_progress(&server, 7000);
    server.kill();
    server.restart();
    feeder.finish(FEED_LIMIT).success().says("done 4000 0");
    check_counts(&bootstrap, 10_000, false);
    // What the watcher saw last: a group that went on as if nothing had happened has not changed at all.
    wait_until_settled(&watcher, watcher.stdout().len() - 1, 4);

    for instance in [first, fourth] {
        let closed = instance.terminate(CLOSE_LIMIT);
        closed.says("closed");
        assert!(!closed.stdout.contains("error "), "{}", closed.both());
    }
    check_watched(watcher);
}

/// Waits until so many lines have been written.
fn wait_for_progress(server: &Server, lines: u64) {
    let deadline = Instant::now() + FEED_LIMIT;
    loop {
        let listed = Tool::at("GetOffsetShell", &server.bootstrap()).args(&["--topic", INPUT]).run();
        let ends = listed.stdout.lines().filter_map(|line| line.rsplit(':').next()?.parse::<u64>().ok());
        if ends.sum::<u64>() >= lines {
            return;
        }
        assert!(Instant::now() < deadline, "no progress: {}", listed.stdout);
    }
}

#[test]
fn groups_are_shown_by_kafkas_tool() {
    let server = Server::start(QUICK);
    let bootstrap = server.bootstrap();
    let application = Application::new(&server);
    let watcher = watch(&application.server.bootstrap());
    let running = instance(&bootstrap, application.states.path(), "shown", &["--endpoint", "127.0.0.1:7070"]);
    wait_until_settled(&watcher, 0, 2);
    feed(&bootstrap, 0, 400, AT_ONCE).finish(FEED_LIMIT).success();
    check_counts(&bootstrap, 400, true);

    let groups = || Tool::at("streams.StreamsGroupCommand", &bootstrap);
    let describe = |options: &[&str]| groups().args(&["--describe", "--group", APPLICATION]).args(options).run();
    assert_eq!(groups().args(&["--list"]).run().stdout.trim(), APPLICATION);
    groups().args(&["--list", "--state"]).run().says("Stable");
    groups().args(&["--list", "--state", "Empty"]).run();
    describe(&[]).says(INPUT);
    describe(&["--state"]).says("Stable");
    describe(&["--state", "--verbose"]).says("Stable");
    describe(&["--members"]).says(APPLICATION);
    describe(&["--members", "--verbose"]).says(APPLICATION).says("0:[");
    describe(&["--offsets"]).says(INPUT);
    describe(&["--offsets", "--verbose"]).says(INPUT).says("words-repartition");

    let busy = groups().args(&["--delete", "--group", APPLICATION]).finish();
    assert!(busy.both().to_lowercase().contains("not empty"), "{}", busy.both());
    running.terminate(CLOSE_LIMIT).says("closed");
    watcher.wait_for_line("empty group", MOVED_LIMIT, |line| line.starts_with("group Empty "));
    groups().args(&["--list", "--state"]).run().says("Empty");
    groups()
        .args(&["--reset-offsets", "--group", APPLICATION, "--all-input-topics", "--to-earliest", "--execute"])
        .run();
    groups().args(&["--delete", "--group", APPLICATION, "--delete-all-internal-topics"]).run();
    assert_eq!(groups().args(&["--list"]).run().stdout.trim(), "");
    let left = Tool::at("TopicCommand", &bootstrap).args(&["--list", "--exclude-internal"]).run();
    assert_eq!(left.stdout, "text-lines\nword-counts");
    check_watched(watcher);
}

#[test]
fn missing_source_topic_is_waited_for_even_with_an_endpoint() {
    // The client's patience is twice the heartbeat interval, so that stays at its default here.
    let server = Server::start(&[("group.streams.initial.rebalance.delay.ms", "500")]);
    let bootstrap = server.bootstrap();
    let states = state_dirs();
    let endpoint: &[&str] = match against() {
        Against::Riparian => &["--endpoint", "127.0.0.1:7071"],
        // Kafka 4.4.0 answers with an unexpected error here, and the application ends.
        Against::Kafka => &[],
    };
    let running = instance(&bootstrap, states.path(), "early", endpoint);
    let watcher = watch(&bootstrap);
    watcher.wait_for_line("group that is not ready", RUNNING_LIMIT, |line| line.starts_with("group NotReady "));
    let application = Application::new(&server);
    wait_until_settled(&watcher, 0, 2);
    wait_for_state(&running, "RUNNING", RUNNING_LIMIT);
    feed(&application.server.bootstrap(), 0, 100, AT_ONCE).finish(FEED_LIMIT).success();
    check_counts(&bootstrap, 100, true);
    running.terminate(CLOSE_LIMIT).says("closed");
    check_watched(watcher);
}

#[test]
fn exactly_once_is_refused_with_a_reason_or_works() {
    let server = Server::start(QUICK);
    let bootstrap = server.bootstrap();
    let application = Application::new(&server);
    let running = instance(&bootstrap, application.states.path(), "eos", &["--guarantee", "exactly_once_v2"]);
    match against() {
        Against::Kafka => {
            wait_for_state(&running, "RUNNING", RUNNING_LIMIT);
            running.terminate(CLOSE_LIMIT).says("closed");
        }
        Against::Riparian => {
            running.wait_for_line("start", RUNNING_LIMIT, |line| line.starts_with("state CREATED "));
            let ended = running.finish(REFUSED_LIMIT);
            assert_eq!(ended.status.code(), Some(1), "{}", ended.both());
            ended.says("error ").says("transaction");
        }
    }
}

#[test]
fn static_instance_keeps_its_tasks_across_a_restart() {
    let server = Server::start(QUICK);
    let bootstrap = server.bootstrap();
    let application = Application::new(&server);
    let watcher = watch(&bootstrap);
    let fixed = ["--set", "group.instance.id=fixed"];
    let other = instance(&bootstrap, application.states.path(), "other", &[]);
    let before = instance(&bootstrap, application.states.path(), "fixed", &fixed);
    wait_until_settled(&watcher, 0, 4);
    let owners = last_line(&watcher);
    before.terminate(CLOSE_LIMIT).says("closed");
    let after = instance(&bootstrap, application.states.path(), "fixed", &fixed);
    wait_for_state(&after, "RUNNING", RUNNING_LIMIT);
    let restarted = after.wait_for_line("tasks", RUNNING_LIMIT, |line| line.contains("active=0_"));
    feed(&bootstrap, 0, 200, AT_ONCE).finish(FEED_LIMIT).success();
    check_counts(&bootstrap, 200, true);
    // The same epoch: nobody else was disturbed.
    assert_eq!(last_line(&watcher), owners, "{restarted}");
    after.terminate(CLOSE_LIMIT).says("closed");
    other.terminate(CLOSE_LIMIT).says("closed");
    check_watched(watcher);
}

fn last_line(watcher: &Program) -> String {
    watcher.stdout().last().cloned().unwrap_or_default()
}

#[test]
fn one_instance_shuts_the_whole_application_down() {
    let server = Server::start(QUICK);
    let bootstrap = server.bootstrap();
    let application = Application::new(&server);
    let watcher = watch(&bootstrap);
    let poison = ["--shutdown-application-on", "line7"];
    let first = instance(&bootstrap, application.states.path(), "first", &poison);
    let second = instance(&bootstrap, application.states.path(), "second", &poison);
    wait_until_settled(&watcher, 0, 4);
    feed(&bootstrap, 0, 20, AT_ONCE).finish(FEED_LIMIT).success();
    for instance in [first, second] {
        let ended = instance.finish(CLOSE_LIMIT);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.both());
        ended.says(" ERROR");
    }
    check_watched(watcher);
}

#[test]
fn lost_answer_to_a_heartbeat_leaves_nobody_without_tasks() {
    const STREAMS_GROUP_HEARTBEAT: i16 = 88;
    // The answers to the join, to the first beats, with the first assignment, to its acknowledgement.
    let lost_ones: &[u32] = match against() {
        Against::Riparian => &[1, 2, 3, 4, 5, 6],
        // Kafka 4.4.0 does not repeat an assignment that was lost.
        Against::Kafka => &[1],
    };
    for nth in lost_ones {
        let proxy = LossyProxy::bind();
        let bootstrap = format!("127.0.0.1:{}", proxy.port());
        let server = Server::start_behind(proxy.port(), QUICK);
        let lost = proxy.run(server.port(), STREAMS_GROUP_HEARTBEAT, *nth);
        for topic in [INPUT, "word-counts"] {
            let arguments = ["--create", "--topic", topic, "--partitions", PARTITIONS, "--replication-factor", "1"];
            Tool::at("TopicCommand", &bootstrap).args(&arguments).run();
        }
        let states = state_dirs();
        let running = instance(&bootstrap, states.path(), &format!("instance that loses answer {nth}"), &[]);
        feed(&bootstrap, 0, 100, AT_ONCE).finish(FEED_LIMIT).success();
        check_counts(&bootstrap, 100, true);
        assert_eq!(lost(), 1);
        running.terminate(CLOSE_LIMIT).says("closed");
    }
}

/// Sessions of the classic protocol are the members' choice.
const QUICK_CLASSIC: &[(&str, &str)] =
    &[("group.initial.rebalance.delay.ms", "500"), ("group.min.session.timeout.ms", "3000")];
const CLASSIC: &[&str] = &[
    "--set",
    "group.protocol=classic",
    "--set",
    "consumer.session.timeout.ms=4000",
    "--set",
    "consumer.heartbeat.interval.ms=500",
    "--set",
    "num.standby.replicas=1",
    // Copies are moved when they have caught up, and looked at this often; an application that just moved waits for it.
    "--set",
    "probing.rebalance.interval.ms=60000",
];

/// The active tasks that an instance runs by its own word, by thread.
fn active_tasks(lines: &[String]) -> Vec<String> {
    let mut by_thread = BTreeMap::new();
    for line in lines {
        let mut words = line.split(' ').skip(1);
        if let (true, Some(thread), Some(active)) = (line.starts_with("tasks "), words.next(), words.next()) {
            by_thread.insert(thread.to_owned(), active.trim_start_matches("active=").to_owned());
        }
    }
    let tasks = by_thread.values().flat_map(|tasks| tasks.split(',')).filter(|task| !task.is_empty());
    tasks.map(str::to_owned).collect()
}

/// Waits until the instances run every task, each once, and each instance runs some.
fn wait_until_shared(instances: &[&Program]) {
    Program::wait_for_all(instances, "all tasks", MOVED_LIMIT, |lines| {
        let lists: Vec<Vec<String>> = lines.iter().map(|lines| active_tasks(lines)).collect();
        let mut all: Vec<&String> = lists.iter().flatten().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        (count == TASKS && all.len() == TASKS && lists.iter().all(|list| !list.is_empty())).then_some(())
    });
}

#[test]
fn word_count_on_the_classic_protocol_survives_closing_and_crashes() {
    let mut server = Server::start(QUICK_CLASSIC);
    let bootstrap = server.bootstrap();
    let states = Application::new(&server).states;
    let first = instance(&bootstrap, states.path(), "first", CLASSIC);
    let second = instance(&bootstrap, states.path(), "second", CLASSIC);
    wait_for_state(&first, "RUNNING", RUNNING_LIMIT);
    wait_for_state(&second, "RUNNING", RUNNING_LIMIT);
    wait_until_shared(&[&first, &second]);

    // One closes while data flows; a clean close counts nothing twice.
    feed(&bootstrap, 0, 2000, AT_ONCE).finish(FEED_LIMIT).success().says("done 2000 0");
    let feeder = feed(&bootstrap, 2000, 2000, 500);
    second.terminate(CLOSE_LIMIT).says("closed");
    wait_until_shared(&[&first]);
    feeder.finish(FEED_LIMIT).success().says("done 2000 0");
    assert_eq!(check_counts(&bootstrap, 4000, true), 0);

    // Another one takes tasks over and is killed while data flows.
    let mut third = instance(&bootstrap, states.path(), "third", CLASSIC);
    wait_for_state(&third, "RUNNING", RUNNING_LIMIT);
    let feeder = feed(&bootstrap, 4000, 2000, 500);
    third.kill();
    wait_until_shared(&[&first]);
    feeder.finish(FEED_LIMIT).success().says("done 2000 0");
    check_counts(&bootstrap, 6000, false);

    // The server is killed while data flows to two instances, and comes back.
    let fourth = instance(&bootstrap, states.path(), "fourth", CLASSIC);
    wait_for_state(&fourth, "RUNNING", RUNNING_LIMIT);
    let feeder = feed(&bootstrap, 6000, 4000, 1000);
    wait_for_progress(&server, 7000);
    server.kill();
    server.restart();
    feeder.finish(FEED_LIMIT).success().says("done 4000 0");
    check_counts(&bootstrap, 10_000, false);

    let groups = || Tool::at("consumer.group.ConsumerGroupCommand", &bootstrap);
    groups().args(&["--describe", "--group", APPLICATION, "--state"]).run().says("Stable").says("stream");
    groups().args(&["--describe", "--group", APPLICATION, "--members", "--verbose"]).run().says(INPUT);
    for instance in [first, fourth] {
        let closed = instance.terminate(CLOSE_LIMIT);
        closed.says("closed");
        assert!(!closed.stdout.contains("error "), "{}", closed.both());
    }
    // On the classic protocol an application does not leave: it may be about to come back.
    let deadline = Instant::now() + MOVED_LIMIT;
    while !groups().args(&["--list", "--state", "Empty"]).run().stdout.contains(APPLICATION) {
        assert!(Instant::now() < deadline, "the sessions do not end");
    }

    // The same application on the streams protocol: the group changes its type when nobody is in it.
    let moved = instance(&bootstrap, states.path(), "first", &[]);
    wait_for_state(&moved, "RUNNING", RUNNING_LIMIT);
    wait_until_shared(&[&moved]);
    feed(&bootstrap, 10_000, 100, AT_ONCE).finish(FEED_LIMIT).success();
    check_counts(&bootstrap, 10_100, false);
    Tool::at("streams.StreamsGroupCommand", &bootstrap).args(&["--list"]).run().says(APPLICATION);
    moved.terminate(CLOSE_LIMIT).says("closed");
}
