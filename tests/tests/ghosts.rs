//! Members of a process that was killed are fenced when it is back; a process that lives keeps its members, whatever
//! becomes of its threads and connections.
//!
//! Real instances of Kafka Streams; what they are in is watched from outside, past the relay that breaks their
//! connections. Unless a test says otherwise sessions are the default 45 seconds, so that nobody who is missed was
//! merely silent for too long.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use riparian_tests::{Break, GroupView, GroupWatch, Program, Relay, Server, WordCount, set_group_configs};

const LIMIT: Duration = Duration::from_secs(90);
/// What a ghost may cost that is not waited for until its session ends.
const SOON: Duration = Duration::from_secs(10);
/// Lines a second when the rate does not matter.
const AT_ONCE: u64 = 1_000_000;
const GROUP: &str = WordCount::APPLICATION;

/// A server with its application, watched.
struct Scene {
    server: Server,
    relay: Relay,
    application: WordCount,
    watch: GroupWatch,
}

impl Scene {
    fn new(settings: &[(&str, &str)], group_configs: &[(&str, &str)]) -> Self {
        let low: &[(&str, &str)] = &[
            ("group.streams.initial.rebalance.delay.ms", "300"),
            ("group.streams.min.session.timeout.ms", "1000"),
            ("group.streams.min.heartbeat.interval.ms", "100"),
        ];
        let relay = Relay::bind();
        let server = Server::start_behind(relay.port(), &[low, settings].concat());
        relay.run(server.port());
        if !group_configs.is_empty() {
            set_group_configs(server.port(), GROUP, group_configs);
        }
        let application = WordCount::new(&server, None, &[]).behind(relay.port());
        let watch = GroupWatch::start(server.port(), GROUP);
        Self { server, relay, application, watch }
    }

    fn settled(&self, from: usize, members: usize) -> GroupView {
        let what = format!("stable group of {members} members");
        self.watch.wait(from, &what, LIMIT, |view| view.is_settled(members, WordCount::TASKS))
    }

    /// A stream thread is added to an instance; the group as it is when its member has tasks.
    fn add_thread(&self, instance: &mut Program, members: usize) -> GroupView {
        let mark = self.watch.mark();
        instance.tell("add");
        self.settled(mark, members)
    }

    /// Whoever was in the group then has never been missing since.
    fn check_never_missing(&self, mark: usize, members: &BTreeSet<String>) {
        for (_, view) in self.watch.since(mark) {
            let there: BTreeSet<String> = view.members.into_keys().collect();
            assert!(there.is_superset(members), "{:?} left", members.difference(&there));
        }
    }

    fn finish(self, instances: Vec<Program>) {
        for instance in instances {
            self.application.close(instance);
        }
        self.watch.finish();
        drop(self.server);
    }
}

/// Lets time pass in which something could happen that must not.
fn pass(time: Duration) {
    std::thread::sleep(time);
}

fn removed_thread(instance: &mut Program, removed_before: usize) {
    instance.tell("remove");
    let what = format!("thread that is removed after {removed_before} others");
    instance.wait_until(&what, LIMIT, |lines| {
        let removed = lines.iter().filter(|line| line.starts_with("removed ")).count();
        (removed > removed_before).then_some(())
    });
}

/// A thread dies of an exception and is replaced; others are removed and added, the last one of a process too.
#[test]
fn replaced_stream_thread_costs_its_neighbours_nothing() {
    let scene = Scene::new(&[], &[]);
    let mut steady = scene.application.start_with("steady", 2, &[]);
    let mut clumsy = scene.application.start_with("clumsy", 1, &[]);
    let before = scene.settled(0, 3);
    let (neighbours, victim) = (before.members_of("steady"), before.members_of("clumsy"));
    let mark = scene.watch.mark();
    clumsy.tell("stumble");
    clumsy.wait_until("promise to stumble", LIMIT, |lines| lines.iter().any(|line| line == "stumbling").then_some(()));
    scene.application.feed(0, 100, AT_ONCE).finish();
    let is_replaced = |view: &GroupView| {
        let now = view.members_of("clumsy");
        view.is_settled(3, WordCount::TASKS) && now.len() == 1 && now != victim
    };
    scene.watch.wait(mark, "replaced thread", SOON, is_replaced);
    scene.check_never_missing(mark, &neighbours);
    scene.application.check_counts(100, false);

    let mark = scene.watch.mark();
    removed_thread(&mut steady, 0);
    let kept = scene.settled(mark, 2).members_of("steady");
    let again = scene.add_thread(&mut steady, 3);
    assert!(again.members_of("steady").is_superset(&kept) && neighbours.is_superset(&kept), "{kept:?}");
    // The only one of its process.
    let mark = scene.watch.mark();
    removed_thread(&mut clumsy, 0);
    scene.watch.wait(mark, "group without the process", SOON, |view| view.members_of("clumsy").is_empty());
    let last = scene.add_thread(&mut clumsy, 3);
    scene.check_never_missing(mark, &again.members_of("steady"));
    assert_eq!(last.members_of("clumsy").len(), 1);
    scene.application.feed(100, 100, AT_ONCE).finish();
    scene.application.check_counts(200, false);
    let ended = clumsy.terminate(LIMIT);
    ended.says("error Accident: met ").says("closed");
    scene.finish(vec![steady]);
}

/// Heartbeats are so far apart that their connection is idle for too long in between, for the server or the client.
#[test]
fn idle_connections_that_are_dropped_cost_nobody_anything() {
    let scene = Scene::new(&[("connections.max.idle.ms", "1000")], &[("streams.heartbeat.interval.ms", "1500")]);
    let mut dropped = scene.application.start_with("dropped", 1, &[]);
    let mut dropping = scene.application.start_with("dropping", 1, &["--set", "connections.max.idle.ms=700"]);
    let before = scene.settled(0, 2);
    for client in ["dropped", "dropping"] {
        scene.relay.wait_for_connections(client, 1, 3, LIMIT);
    }
    assert_eq!(scene.watch.last(), before);
    // A thread joins while its process has no connection that its member has reported through.
    let mark = scene.watch.mark();
    scene.add_thread(&mut dropped, 3);
    let all = scene.add_thread(&mut dropping, 4);
    pass(Duration::from_secs(4));
    scene.check_never_missing(mark, &before.members.into_keys().collect());
    assert_eq!(scene.watch.last(), all);
    assert_eq!(all.epoch, before.epoch + 2);
    scene.application.feed(0, 100, AT_ONCE).finish();
    scene.application.check_counts(100, true);
    scene.finish(vec![dropped, dropping]);
}

/// One connection is reset, then all of a process, then all of them while it starts a thread whose member joins before
/// the others get through again.
#[test]
fn reset_connections_of_a_living_process_cost_nobody_anything() {
    let scene = Scene::new(&[], &[]);
    let steady = scene.application.start_with("steady", 1, &[]);
    let mut shaken = scene.application.start_with("shaken", 2, &[]);
    let before = scene.settled(0, 3);
    scene.application.feed(0, 100, AT_ONCE).finish();
    assert_eq!(scene.relay.break_heartbeats("shaken-StreamThread-1-", Break::Reset), 1);
    scene.relay.wait_for_connections("shaken-StreamThread-1-", 1, 2, SOON);
    for (how, connections) in [(Break::Reset, 2), (Break::Close, 3)] {
        let broken = scene.relay.break_all("shaken", how);
        assert!(broken >= 4, "{broken} connections of two threads");
        scene.relay.wait_for_connections("shaken", 2, connections, SOON);
    }
    pass(Duration::from_millis(1500));
    scene.application.feed(100, 100, AT_ONCE).finish();
    scene.application.check_counts(200, true);
    assert_eq!(scene.watch.last(), before);

    // Now a ghost is waited for twice as long as this.
    set_group_configs(scene.server.port(), GROUP, &[("streams.heartbeat.interval.ms", "2000")]);
    pass(Duration::from_secs(1));
    let mark = scene.watch.mark();
    scene.relay.hold(&["shaken-StreamThread-1-", "shaken-StreamThread-2-"]);
    scene.relay.break_all("shaken-StreamThread-", Break::Reset);
    let broken = Instant::now();
    shaken.tell("add");
    scene.watch.wait(mark, "new member", SOON, |view| view.members.len() == 4);
    let held = broken.elapsed();
    scene.relay.release();
    let all = scene.settled(mark, 4);
    pass(Duration::from_secs(5).saturating_sub(broken.elapsed()));
    scene.check_never_missing(mark, &before.members.into_keys().collect());
    assert_eq!(scene.watch.last(), all, "held {held:?}");
    assert_eq!(all.epoch, before.epoch + 1);
    scene.application.feed(200, 100, AT_ONCE).finish();
    scene.application.check_counts(300, true);
    scene.finish(vec![steady, shaken]);
}

/// A process is stopped for longer than its connections live, and starts a thread as soon as it goes on.
#[test]
fn stopped_process_that_goes_on_keeps_its_members() {
    let scene = Scene::new(&[], &[]);
    let mut steady = scene.application.start_with("steady", 1, &[]);
    let mut stopped = scene.application.start_with("stopped", 2, &[]);
    let before = scene.settled(0, 3);
    let mark = scene.watch.mark();
    scene.application.feed(0, 100, AT_ONCE).finish();
    stopped.signal("STOP");
    assert!(scene.relay.break_all("stopped", Break::Reset) >= 4);
    // Another process starts a thread meanwhile.
    steady.tell("add");
    scene.watch.wait(mark, "new member", SOON, |view| view.members.len() == 4);
    scene.application.feed(100, 100, AT_ONCE).finish();
    pass(Duration::from_secs(3));
    assert_eq!(scene.watch.last().epoch, before.epoch + 1);
    stopped.tell("add");
    stopped.signal("CONT");
    let all = scene.settled(mark, 5);
    pass(Duration::from_millis(1500));
    scene.check_never_missing(mark, &before.members.into_keys().collect());
    assert_eq!(scene.watch.last(), all);
    assert_eq!(all.epoch, before.epoch + 2);
    scene.application.check_counts(200, true);
    scene.finish(vec![steady, stopped]);
}

/// Another process on the same host is nobody's ghost and has none; the one that was killed has, when it is back.
#[test]
fn only_the_process_that_is_back_has_ghosts() {
    let scene = Scene::new(&[], &[]);
    let stays = scene.application.start_with("stays", 1, &[]);
    let mut killed = scene.application.start_with("killed", 2, &[]);
    let before = scene.settled(0, 3);
    let ghosts = before.members_of("killed");
    let mark = scene.watch.mark();
    killed.kill();
    let other = scene.application.start_with("other", 1, &[]);
    scene.watch.wait(mark, "other process", LIMIT, |view| !view.members_of("other").is_empty());
    pass(Duration::from_millis(1500));
    scene.check_never_missing(mark, &before.members.keys().cloned().collect());
    let killed = scene.application.start_with("killed", 2, &[]);
    let is_back = |view: &GroupView| view.members_of("killed").difference(&ghosts).count() == 2;
    scene.watch.wait(mark, "killed process that is back", LIMIT, is_back);
    let back = Instant::now();
    let all = scene.settled(mark, 4);
    assert!(back.elapsed() < SOON, "{:?}", back.elapsed());
    assert!(all.members_of("killed").is_disjoint(&ghosts));
    scene.check_never_missing(mark, &before.members_of("stays"));
    scene.application.feed(0, 100, AT_ONCE).finish();
    scene.application.check_counts(100, true);
    scene.finish(vec![stays, other, killed]);
}

/// With the switch off, as in Kafka.
#[test]
fn ghosts_stay_until_their_sessions_end_if_that_is_wanted() {
    const SESSION: Duration = Duration::from_secs(6);
    let off = [("riparian.fence.restarted.processes", "false")];
    let scene = Scene::new(&off, &[("streams.session.timeout.ms", "6000")]);
    let mut killed = scene.application.start_with("killed", 1, &[]);
    let ghosts = scene.settled(0, 1).members_of("killed");
    let mark = scene.watch.mark();
    let dead = Instant::now();
    killed.kill();
    let killed = scene.application.start_with("killed", 1, &[]);
    scene.watch.wait(mark, "killed process that is back", LIMIT, |view| view.members.len() == 2);
    let back = dead.elapsed();
    let all = scene.settled(mark, 1);
    assert!(all.members_of("killed").is_disjoint(&ghosts));
    let gone = dead.elapsed();
    // The last sign of life was a heartbeat some time before.
    assert!(gone > SESSION - Duration::from_secs(1) && gone > back, "back after {back:?}, alone after {gone:?}");
    scene.application.feed(0, 100, AT_ONCE).finish();
    scene.application.check_counts(100, true);
    scene.finish(vec![killed]);
}
