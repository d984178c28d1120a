//! An ordinary Kafka Streams application, unchanged, on the server.
//!
//! By the server's own records no task ever has two owners, no epoch goes back, and every task is owned once the group
//! is stable; that is watched during the whole scenario, across crashes.

use std::time::{Duration, Instant};

use riparian_tests::{
    Against, GroupView, GroupWatch, LossyProxy, Program, Server, Tool, WordCount, against, create_topics, own_program,
    riparian,
};

const APPLICATION: &str = WordCount::APPLICATION;
const INPUT: &str = "text-lines";

/// Lines a second when the rate does not matter.
const AT_ONCE: u64 = 1_000_000;

const RUNNING_LIMIT: Duration = Duration::from_secs(60);
const MOVED_LIMIT: Duration = Duration::from_secs(60);
const CLOSE_LIMIT: Duration = Duration::from_secs(30);
const FEED_LIMIT: Duration = Duration::from_secs(120);
/// What the issue of an application that cannot run is told within.
const REFUSED_LIMIT: Duration = Duration::from_secs(5);

fn wait_for_state(instance: &Program, state: &str, limit: Duration) {
    let ending = format!(" {state}");
    instance
        .wait_for_line(&format!("state {state}"), limit, |line| line.starts_with("state ") && line.ends_with(&ending));
}

fn is_settled(members: usize) -> impl Fn(&GroupView) -> bool {
    move |view| view.is_settled(members, WordCount::TASKS)
}

/// The application as Kafka's clients see it: the group by their admin client, the text by their producer, the counts
/// by their consumer.
struct ByClients {
    bootstrap: String,
    watcher: Program,
}

impl ByClients {
    fn new(server: &Server) -> Self {
        let bootstrap = server.bootstrap();
        let mut command = own_program("GroupWatcher");
        command.args(["--bootstrap", &bootstrap, "--group", APPLICATION]);
        Self { bootstrap, watcher: Program::start("watcher", &mut command) }
    }

    fn mark(&self) -> usize {
        self.watcher.stdout().len()
    }

    /// Waits, from the given line on, until the group is stable with this many members that own every task.
    fn wait_until_settled(&self, from: usize, members: usize) {
        let wanted = format!(" members={members} active={} ", WordCount::TASKS);
        self.watcher.wait_until(&format!("stable group of {members} members"), MOVED_LIMIT, |lines| {
            let settled = |line: &String| line.starts_with("group Stable ") && line.contains(&wanted);
            lines.get(from..)?.iter().find(|line| settled(line)).map(|_| ())
        });
    }

    fn feed(&self, from: u64, count: u64, rate: u64) -> Program {
        let mut command = own_program("Feeder");
        command.args(["--bootstrap", &self.bootstrap, "--topic", INPUT, "--quiet", "true"]);
        command.args(["--from", &from.to_string(), "--count", &count.to_string(), "--rate", &rate.to_string()]);
        Program::start("feeder", &mut command)
    }

    /// How many words were counted twice.
    fn check_counts(&self, count: u64, exact: bool) -> u64 {
        let mut command = own_program("CountsChecker");
        command.args(["--bootstrap", &self.bootstrap]);
        command.args(["--count", &count.to_string(), "--exact", &exact.to_string()]);
        let checked = Program::start("counts", &mut command).finish(FEED_LIMIT).success();
        let surplus = checked.stdout.rsplit(' ').next().and_then(|number| number.trim().parse().ok());
        surplus.unwrap_or_else(|| panic!("{}", checked.both()))
    }

    /// What the watcher saw must be in order to its end.
    fn check_watched(self) {
        let watched = self.watcher.terminate(CLOSE_LIMIT);
        for bad in ["TWO OWNERS", "BACKWARDS"] {
            assert!(!watched.stdout.contains(bad), "{}", watched.both());
        }
        watched.says("polls ");
    }
}

#[test]
fn word_count_survives_closing_and_crashes_of_instances_and_server() {
    let mut server = Server::start(WordCount::QUICK);
    let application = WordCount::new(&server, None, &[]);
    Tool::at("ConfigCommand", &server.bootstrap())
        .args(&["--entity-type", "groups", "--entity-name", APPLICATION])
        .args(&["--alter", "--add-config", "streams.num.standby.replicas=1"])
        .run();
    let clients = ByClients::new(&server);
    let (first, second) = (application.start("first"), application.start("second"));
    clients.wait_until_settled(0, 4);
    application.wait_until_settled(&[&first, &second]);
    let standbys = |line: &str| line.starts_with("tasks ") && !line.ends_with("standby=");
    first.wait_for_line("standby task", MOVED_LIMIT, standbys);

    // In order: two instances, then one closes while data flows. A clean close counts nothing twice.
    clients.feed(0, 2000, AT_ONCE).finish(FEED_LIMIT).success().says("done 2000 0");
    let mark = clients.mark();
    let feeder = clients.feed(2000, 2000, 500);
    application.close(second);
    clients.wait_until_settled(mark, 2);
    feeder.finish(FEED_LIMIT).success().says("done 2000 0");
    assert_eq!(clients.check_counts(4000, true), 0);

    // A third instance takes tasks over and is killed while data flows.
    let mark = clients.mark();
    let mut third = application.start("third");
    wait_for_state(&third, "RUNNING", RUNNING_LIMIT);
    clients.wait_until_settled(mark, 4);
    let feeder = clients.feed(4000, 2000, 500);
    let mark = clients.mark();
    third.kill();
    clients.wait_until_settled(mark, 2);
    feeder.finish(FEED_LIMIT).success().says("done 2000 0");
    let surplus_of_crash = clients.check_counts(6000, false);
    assert!(surplus_of_crash <= 3 * 2000, "{surplus_of_crash} words counted twice by one crash");

    // The server is killed while data flows to two instances, and comes back.
    let mark = clients.mark();
    let fourth = application.start("fourth");
    wait_for_state(&fourth, "RUNNING", RUNNING_LIMIT);
    clients.wait_until_settled(mark, 4);
    let feeder = clients.feed(6000, 4000, 1000);
    feeder.wait_for_line("a quarter of the feed", FEED_LIMIT, |line| line == "fed 1000");
    server.kill();
    server.restart();
    feeder.finish(FEED_LIMIT).success().says("done 4000 0");
    clients.check_counts(10_000, false);
    // What the watcher saw last: a group that went on as if nothing had happened has not changed at all.
    clients.wait_until_settled(clients.mark() - 1, 4);
    application.close(first);
    application.close(fourth);
    clients.check_watched();
}

#[test]
fn groups_are_shown_by_kafkas_tool() {
    let server = Server::start(WordCount::QUICK);
    let bootstrap = server.bootstrap();
    let application = WordCount::new(&server, None, &[]);
    let watch = GroupWatch::start(server.port(), APPLICATION);
    let running = application.start_with("shown", 2, &["--endpoint", "127.0.0.1:7070"]);
    watch.wait(0, "stable group", MOVED_LIMIT, is_settled(2));
    application.feed(0, 400, AT_ONCE).finish();
    application.check_counts(400, true);

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
    application.close(running);
    watch.wait(0, "empty group", MOVED_LIMIT, |view| view.state == "Empty");
    groups().args(&["--list", "--state"]).run().says("Empty");
    groups()
        .args(&["--reset-offsets", "--group", APPLICATION, "--all-input-topics", "--to-earliest", "--execute"])
        .run();
    groups().args(&["--delete", "--group", APPLICATION, "--delete-all-internal-topics"]).run();
    assert_eq!(groups().args(&["--list"]).run().stdout.trim(), "");
    let left = Tool::at("TopicCommand", &bootstrap).args(&["--list", "--exclude-internal"]).run();
    assert_eq!(left.stdout, "text-lines\nword-counts");
    watch.finish();
}

/// Kafka needs its plugin for it, which forgets with its process.
#[test]
fn the_topology_is_drawn_as_its_client_has_described_it() {
    const PLUGIN: (&str, &str) = (
        "group.streams.topology.description.plugin.class",
        "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin",
    );
    let settings: Vec<(&str, &str)> = WordCount::QUICK.iter().copied().chain([PLUGIN]).collect();
    let mut server = Server::start(&settings);
    let application = WordCount::new(&server, None, &[]);
    let running = application.start("described");
    application.wait_until_settled(&[&running]);
    let watch = |server: &Server| {
        let mut command = riparian();
        command.args(["groups", "describe", APPLICATION, "--topology", "--watch", "0.2"]);
        Program::start("riparian", command.args(["--bootstrap", &server.bootstrap()]))
    };
    let drawn = watch(&server);
    let is_source = |line: &str| line.contains("KSTREAM-SOURCE-") && line.ends_with("  reads text-lines");
    drawn.wait_for_line("the source", RUNNING_LIMIT, is_source);
    let is_store = |line: &str| line.contains("-> KSTREAM-AGGREGATE-") && line.contains("  stores ");
    drawn.wait_for_line("the store", RUNNING_LIMIT, is_store);
    let is_sink = |line: &str| line.contains("-> KSTREAM-SINK-") && line.ends_with("  writes word-counts");
    drawn.wait_for_line("the sink", RUNNING_LIMIT, is_sink);
    let tool = Tool::at("streams.StreamsGroupCommand", &server.bootstrap());
    tool.args(&["--describe", "--group", APPLICATION, "--topology"]).run().says("KSTREAM-AGGREGATE-");
    if against() == Against::Riparian {
        server.kill();
        server.restart();
        watch(&server).wait_for_line("the source after a restart", RUNNING_LIMIT, is_source);
    }
    application.close(running);
}

#[test]
fn missing_source_topic_is_waited_for_even_with_an_endpoint() {
    // The client's patience is twice the heartbeat interval, so that stays at its default here.
    let server = Server::start(&[("group.streams.initial.rebalance.delay.ms", "500")]);
    let application = WordCount::without_topics(&server, None, &[]);
    let endpoint: &[&str] = match against() {
        Against::Riparian => &["--endpoint", "127.0.0.1:7071"],
        // Kafka 4.4.0 answers with an unexpected error here, and the application ends.
        Against::Kafka => &[],
    };
    let running = application.start_with("early", 2, endpoint);
    let watch = GroupWatch::start(server.port(), APPLICATION);
    watch.wait(0, "group that is not ready", RUNNING_LIMIT, |view| view.state == "NotReady");
    application.create_topics();
    watch.wait(0, "stable group", MOVED_LIMIT, is_settled(2));
    wait_for_state(&running, "RUNNING", RUNNING_LIMIT);
    application.feed(0, 100, AT_ONCE).finish();
    application.check_counts(100, true);
    application.close(running);
    watch.finish();
}

#[test]
fn exactly_once_is_refused_with_a_reason_or_works() {
    let server = Server::start(WordCount::QUICK);
    let application = WordCount::new(&server, None, &[]);
    let running = application.start_with("eos", 2, &["--guarantee", "exactly_once_v2"]);
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
    // It is waited for until its session ends, which a slow machine may reach while it starts again.
    let server = Server::start(&[("group.streams.initial.rebalance.delay.ms", "500")]);
    let application = WordCount::new(&server, None, &[]);
    let watch = GroupWatch::start(server.port(), APPLICATION);
    let fixed = ["--set", "group.instance.id=fixed"];
    let other = application.start("other");
    let before = application.start_with("fixed", 2, &fixed);
    let owners = |view: &GroupView| {
        let owners = view.members.values().map(|member| (member.client_id.clone(), member.active.clone()));
        (view.epoch, owners.collect::<std::collections::BTreeMap<_, _>>())
    };
    let settled = watch.wait(0, "stable group", MOVED_LIMIT, is_settled(4));
    application.close(before);
    let after = application.start_with("fixed", 2, &fixed);
    wait_for_state(&after, "RUNNING", RUNNING_LIMIT);
    let restarted = after.wait_for_line("tasks", RUNNING_LIMIT, |line| line.contains("active=0_"));
    application.feed(0, 200, AT_ONCE).finish();
    application.check_counts(200, true);
    // The same epoch: nobody else was disturbed.
    assert_eq!(owners(&watch.last()), owners(&settled), "{restarted}");
    application.close(after);
    application.close(other);
    watch.finish();
}

/// The other subtopologies have other numbers in it.
#[test]
fn a_new_version_keeps_its_application_id_and_its_offsets() {
    const COPIED: &str = "more-lines";
    let server = Server::start(WordCount::QUICK);
    let application = WordCount::new(&server, None, &[]);
    create_topics(server.port(), &[COPIED], 1);
    let old = application.start("instance");
    application.wait_until_settled(&[&old]);
    application.feed(0, 500, AT_ONCE).finish();
    application.check_counts(500, true);
    application.close(old);
    let new = application.start_with("instance", 2, &["--copy-from", COPIED]);
    match against() {
        Against::Riparian => {
            new.wait_for_line("a task of the third subtopology", RUNNING_LIMIT, |line| {
                line.starts_with("tasks ") && line.contains("2_")
            });
            application.feed(500, 500, AT_ONCE).finish();
            // Exact: nothing was read twice, and no count was lost.
            application.check_counts(1000, true);
            application.close(new);
        }
        Against::Kafka => {
            let ended = new.finish(CLOSE_LIMIT);
            assert_eq!(ended.status.code(), Some(1), "{}", ended.both());
            ended.says("Topology updates are not supported");
        }
    }
}

#[test]
fn one_instance_shuts_the_whole_application_down() {
    let server = Server::start(WordCount::QUICK);
    let application = WordCount::new(&server, None, &[]);
    let watch = GroupWatch::start(server.port(), APPLICATION);
    let poison = ["--shutdown-application-on", "line7"];
    let first = application.start_with("first", 2, &poison);
    let second = application.start_with("second", 2, &poison);
    watch.wait(0, "stable group", MOVED_LIMIT, is_settled(4));
    application.feed(0, 20, AT_ONCE).finish();
    for instance in [first, second] {
        let ended = instance.finish(CLOSE_LIMIT);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.both());
        ended.says(" ERROR");
    }
    watch.finish();
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
        let port = proxy.port();
        let server = Server::start_behind(port, WordCount::QUICK);
        let lost = proxy.run(server.port(), STREAMS_GROUP_HEARTBEAT, *nth);
        let application = WordCount::new(&server, None, &[]).behind(port);
        let running = application.start(&format!("instance-that-loses-answer-{nth}"));
        application.feed(0, 100, AT_ONCE).finish();
        application.check_counts(100, true);
        assert_eq!(lost(), 1);
        application.close(running);
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

#[test]
fn word_count_on_the_classic_protocol_survives_closing_and_crashes() {
    let mut server = Server::start(QUICK_CLASSIC);
    let bootstrap = server.bootstrap();
    let application = WordCount::new(&server, None, &[]);
    let start = |name: &str| application.start_with(name, 2, CLASSIC);
    let (first, second) = (start("first"), start("second"));
    application.wait_until_settled(&[&first, &second]);

    // One closes while data flows; a clean close counts nothing twice.
    application.feed(0, 2000, AT_ONCE).finish();
    let feed = application.feed(2000, 2000, 500);
    application.close(second);
    application.wait_until_settled(&[&first]);
    feed.finish();
    application.check_counts(4000, true);

    // Another one takes tasks over and is killed while data flows.
    let mut third = start("third");
    application.wait_until_settled(&[&first, &third]);
    let feed = application.feed(4000, 2000, 500);
    feed.wait_for(200);
    third.kill();
    application.wait_until_settled(&[&first]);
    feed.finish();
    application.check_counts(6000, false);

    // The server is killed while data flows to two instances, and comes back.
    let fourth = start("fourth");
    application.wait_until_settled(&[&first, &fourth]);
    let feed = application.feed(6000, 4000, 1000);
    feed.wait_for(1000);
    server.kill();
    server.restart();
    feed.finish();
    application.check_counts(10_000, false);

    let groups = || Tool::at("consumer.group.ConsumerGroupCommand", &bootstrap);
    groups().args(&["--describe", "--group", APPLICATION, "--state"]).run().says("Stable").says("stream");
    groups().args(&["--describe", "--group", APPLICATION, "--members", "--verbose"]).run().says(INPUT);
    application.close(first);
    application.close(fourth);
    // On the classic protocol an application does not leave: it may be about to come back.
    let deadline = Instant::now() + MOVED_LIMIT;
    while !groups().args(&["--list", "--state", "Empty"]).run().stdout.contains(APPLICATION) {
        assert!(Instant::now() < deadline, "the sessions do not end");
    }

    // The same application on the streams protocol: the group changes its type when nobody is in it.
    let moved = application.start("first");
    application.wait_until_settled(&[&moved]);
    application.feed(10_000, 100, AT_ONCE).finish();
    application.check_counts(10_100, false);
    Tool::at("streams.StreamsGroupCommand", &bootstrap).args(&["--list"]).run().says(APPLICATION);
    application.close(moved);
}
