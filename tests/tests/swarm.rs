//! Hostile clients of every kind beside fifty well-behaved groups: none of these loses a session, the server's memory
//! levels off, and descriptors and threads do not leak.
//!
//! As long as a test may take, or as long as `cargo xtask soak swarm` says.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write as _,
    time::{Duration, Instant},
};

use riparian_client::{Cluster, Options, admin};
use riparian_crowd::latencies::Latencies;
use riparian_tests::{Scrape, Server, create_topics, http_get, set_group_configs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[path = "swarm/connections.rs"]
mod connections;
#[path = "swarm/hostile.rs"]
mod hostile;
#[path = "swarm/neighbours.rs"]
mod neighbours;
#[path = "swarm/requests.rs"]
mod requests;

use hostile::Swarm;
use neighbours::{GROUPS, INTERVAL, MEMBERS, Neighbours, SESSION, Seen, TASKS, TOPIC, group_id, member_id};

/// What the hostile write to.
pub(crate) const DATA: &str = "hostile-data";
/// An address that may have fewer connections than others.
pub(crate) const ONE_ADDRESS: ([u8; 4], usize) = ([127, 2, 0, 1], 40);

/// How long the hostile are there if nobody says otherwise.
const SECONDS: u64 = 150;
const SECONDS_VARIABLE: &str = "RIPARIAN_SWARM_SECONDS";
const FORM_LIMIT: Duration = Duration::from_secs(60);
/// What the hostile have left behind must be gone after this: sessions, pending joins, deleted files.
const LEAVE_LIMIT: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const SCRAPE_EVERY: u32 = 5;
const TELL_EVERY: Duration = Duration::from_secs(30);

const IDLE_CONNECTIONS: usize = 10_000;
/// Without so many it is no test.
const IDLE_CONNECTIONS_MIN: usize = 500;
/// Connections of everybody but the idle, and room for those to come.
const OTHER_CONNECTIONS: usize = 1200;
/// What this process and the server need besides connections that are let in.
const OTHER_DESCRIPTORS: usize = 1500;

/// Memory may be so much more in the last third, and afterwards, than in the second.
const GROWTH: f64 = 1.05;
/// And by what unfinished requests and unread answers may take at any moment.
const GROWTH_BYTES: u64 = 8 << 20;
/// Files of logs that were not written to before; connections that leak would be hundreds.
const KEPT_DESCRIPTORS: u64 = 48;
/// Threads for what waits for the disk, and for answers over HTTP: a little work goes around among all that there are, and
/// keeps them.
const KEPT_THREADS: u64 = 18;
/// Heartbeats of the well-behaved that may be under way when it is looked.
const UNDER_WAY: u64 = 10;

/// A machine on which a thread with nothing else to do is so late has too much to do.
const OWN_DELAY: Duration = Duration::from_millis(500);

/// Limits that are low enough to be hit, and intervals that are short enough to pass.
const SETTINGS: &[(&str, &str)] = &[
    ("auto.create.topics.enable", "false"),
    ("connections.max.idle.ms", "40000"),
    ("group.max.size", "10"),
    ("group.min.session.timeout.ms", "1000"),
    ("group.streams.max.size", "20"),
    ("group.streams.min.heartbeat.interval.ms", "500"),
    ("group.streams.min.session.timeout.ms", "1000"),
    ("group.streams.session.timeout.ms", "10000"),
    ("log.retention.bytes", "4194304"),
    ("log.retention.check.interval.ms", "5000"),
    ("log.segment.bytes", "1048576"),
    ("log.segment.delete.delay.ms", "1000"),
    ("max.connection.creation.rate", "800"),
    ("message.max.bytes", "65536"),
    ("offset.metadata.max.bytes", "200"),
    ("offsets.retention.check.interval.ms", "5000"),
    ("offsets.topic.num.partitions", "8"),
    ("riparian.connection.requests.max", "50"),
    ("riparian.connection.unsent.bytes.max", "262144"),
    ("riparian.connections.bytes.max", "8388608"),
    ("riparian.groups.max", "150"),
    ("riparian.member.bytes.max", "4096"),
    ("riparian.members.max", "500"),
    ("riparian.partitions.max", "5000"),
    ("riparian.pattern.bytes.max", "4096"),
    ("riparian.pattern.matches.max", "40"),
    ("riparian.patterns.max", "20"),
    ("riparian.topics.max", "12"),
    ("socket.request.max.bytes", "1048576"),
];

/// What is not hit: health is asked all the time, and would be refused; ids that are asked for count as members, of which
/// there may not be so many; the others are too large to be reached beside everything else. Each is exceeded elsewhere.
const LIMITS_LEFT_OUT: &[&str] = &[
    "configured groups",
    "http connections",
    "http head",
    "partitions of a request",
    "partitions that fetches wait for",
    "pending joins",
    "riparian.topology.description.bytes.max",
    "riparian.topology.descriptions.bytes.max",
];

/// What the server has and has used.
#[derive(Clone, Debug)]
struct Look {
    anonymous: u64,
    descriptors: u64,
    threads: u64,
    connections: u64,
    groups: u64,
    members: u64,
    in_flight: u64,
    cpu_seconds: f64,
    /// By limit.
    hits: BTreeMap<String, u64>,
    /// Of each of the well-behaved groups: its epoch, and how often it has rebalanced.
    epochs: Vec<(Option<f64>, Option<f64>)>,
}

impl Look {
    fn take(server: &Server) -> Self {
        let scrape = Scrape::take(server.http_port());
        let number = |name: &str| scrape.sum(name, &[]) as u64;
        let limits = scrape.label_values("riparian_limit_hits_total", "limit");
        let hits = |limit: &str| scrape.sum("riparian_limit_hits_total", &[("limit", limit)]) as u64;
        let of_group = |id: String| {
            let of =
                |name: &str, labels: &[(&str, &str)]| scrape.value(name, &[&[("group", id.as_str())], labels].concat());
            (of("riparian_group_epoch", &[]), of("riparian_group_rebalances_total", &[("type", "streams")]))
        };
        Self {
            anonymous: anonymous_bytes(server),
            descriptors: number("riparian_process_open_descriptors"),
            threads: number("riparian_process_threads"),
            connections: number("riparian_connections"),
            groups: number("riparian_groups"),
            members: number("riparian_groups_members"),
            in_flight: number("riparian_requests_in_flight"),
            cpu_seconds: scrape.sum("riparian_process_cpu_seconds_total", &[]),
            hits: limits.iter().map(|limit| (limit.clone(), hits(limit))).collect(),
            epochs: (0..GROUPS).map(|group| of_group(group_id(group))).collect(),
        }
    }

    /// What there is more of than before, if there is.
    fn more_than(&self, before: &Self) -> Option<String> {
        let all = [
            ("descriptors", self.descriptors, before.descriptors + KEPT_DESCRIPTORS),
            ("threads", self.threads, before.threads + KEPT_THREADS),
            ("connections", self.connections, before.connections),
            ("groups", self.groups, before.groups),
            ("members", self.members, before.members),
            ("requests in flight", self.in_flight, before.in_flight + UNDER_WAY),
        ];
        let more = all.iter().filter(|(_, now, allowed)| now > allowed);
        let texts: Vec<String> = more.map(|(what, now, allowed)| format!("{now} {what}, at most {allowed}")).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// Memory of the server that belongs to no file.
fn anonymous_bytes(server: &Server) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", server.program().pid());
    let text = std::fs::read_to_string(&path).expect("the server runs");
    let line = text.lines().find(|line| line.starts_with("Anonymous:")).expect("a process has memory");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("it is a number of KiB") * 1024
}

/// Processor time of this process.
fn own_cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("this process runs");
    // The second field is a name in parentheses; of those behind it the 12th and 13th are meant.
    let ticks = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// How many connections may be idle at a time, by the limit of open files that this process and the server share.
fn idle_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Without success the old limit holds.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
    // The server gives a quarter to its files.
    let room = (files / 4 * 3).saturating_sub(OTHER_CONNECTIONS + OTHER_DESCRIPTORS);
    assert!(
        room >= IDLE_CONNECTIONS_MIN,
        "only {files} files may be open, which leaves {room} idle connections; at least {IDLE_CONNECTIONS_MIN} are \
         needed: raise the hard limit (ulimit -Hn)"
    );
    if room < IDLE_CONNECTIONS {
        say(&format!("only {files} files may be open: {room} idle connections instead of {IDLE_CONNECTIONS}"));
    }
    room.min(IDLE_CONNECTIONS)
}

/// Seen at once, also by somebody who waits for an hour.
fn say(text: &str) {
    // Who does not want to hear it misses nothing.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn hostile_clients_cost_no_member_its_session() {
    let seconds = std::env::var(SECONDS_VARIABLE).map_or(SECONDS, |text| {
        text.parse().unwrap_or_else(|_| panic!("{SECONDS_VARIABLE} is {text:?}, which is no number of seconds"))
    });
    let idle = idle_connections();
    let connections_max = idle + OTHER_CONNECTIONS;
    let one_address = format!("{}:{}", ONE_ADDRESS.0.map(|part| part.to_string()).join("."), ONE_ADDRESS.1);
    let own = [("max.connections", connections_max.to_string()), ("max.connections.per.ip.overrides", one_address)];
    let own: Vec<(&str, &str)> = own.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let mut server = Server::start(&[SETTINGS, &own[..]].concat());
    create_topics(server.port(), &[TOPIC], TASKS as i32);
    create_topics(server.port(), &[DATA], 1);
    let (session, interval) = (SESSION.as_millis().to_string(), INTERVAL.as_millis().to_string());
    for group in 0..GROUPS {
        let configs = [("streams.session.timeout.ms", &*session), ("streams.heartbeat.interval.ms", &*interval)];
        set_group_configs(server.port(), &group_id(group), &configs);
    }
    let neighbours = Neighbours::start(server.port());
    form(&neighbours);
    let before = Look::take(&server);
    assert_eq!(before.members, (GROUPS * MEMBERS) as u64);
    assert!(before.epochs.iter().all(|(epoch, rebalances)| epoch.is_some() && rebalances.is_some()), "{before:?}");
    say(&format!("{GROUPS} groups of {MEMBERS} rest; the hostile come for {seconds} s"));

    let swarm = Swarm::start(server.port(), server.http_port(), idle, connections_max);
    let watched = watch(&server, &neighbours, &swarm, &before, Duration::from_secs(seconds));
    let done = swarm.done();
    swarm.finish();
    let after = settle(&server, &neighbours, &before);
    let described = describe(&server);
    let seen = neighbours.finish();
    say(&summary(&watched, &done, &before, &after, &seen));

    let mut wrong = seen.wrong;
    wrong.extend(watched.wrong(&after));
    wrong.extend(described);
    wrong.extend(after.more_than(&before).map(|more| format!("{LEAVE_LIMIT:?} after the hostile left: {more}")));
    if before.epochs != after.epochs {
        wrong.push(format!("epochs and rebalances were {:?} and are {:?}", before.epochs, after.epochs));
    }
    let missed: Vec<&String> = after.hits.iter().filter(|(_, hits)| **hits == 0).map(|(limit, _)| limit).collect();
    if missed.iter().map(|limit| limit.as_str()).ne(LIMITS_LEFT_OUT.iter().copied()) {
        wrong.push(format!("limits that were not hit: {missed:?}, and should be {LIMITS_LEFT_OUT:?}"));
    }
    wrong.extend(done.iter().filter(|(_, times)| *times == 0).map(|(name, _)| format!("{name}: nothing was done")));
    wrong.extend(complaints(&server));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.terminate().success();
}

/// The first lines that tell of a mistake of the server's.
fn complaints(server: &Server) -> Vec<String> {
    let log = server.program().stderr();
    let bad = ["panic", "this is a bug", "made the server fail", "can't be encoded"];
    log.lines().filter(|line| bad.iter().any(|bad| line.contains(bad))).take(5).map(str::to_owned).collect()
}

/// Waits until everybody has joined.
fn form(neighbours: &Neighbours) {
    let deadline = Instant::now() + FORM_LIMIT;
    loop {
        let seen = neighbours.seen();
        assert!(seen.wrong.is_empty(), "{}", seen.wrong.join("\n"));
        if seen.is_at_rest {
            return;
        }
        assert!(Instant::now() < deadline, "the groups do not rest after {FORM_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What was seen while the hostile were there.
struct Watched {
    duration: Duration,
    /// Memory, second by second.
    anonymous: Vec<u64>,
    connections_max: u64,
    descriptors_max: u64,
    threads_max: u64,
    /// How long health took to tell.
    health: Latencies,
    own_cpu_seconds: f64,
    ended: BTreeSet<&'static str>,
    unhealthy: Vec<String>,
}

impl Watched {
    fn thirds(&self) -> [u64; 3] {
        let third = (self.anonymous.len() / 3).max(1);
        [0, 1, 2].map(|number| {
            let mut part: Vec<u64> = self.anonymous.iter().copied().skip(number * third).take(third).collect();
            part.sort_unstable();
            part.get(part.len() / 2).copied().unwrap_or(0)
        })
    }

    fn wrong(&self, after: &Look) -> Vec<String> {
        let mut wrong = self.unhealthy.clone();
        let [_, middle, last] = self.thirds();
        // What was freed may be kept for the next time.
        for (when, bytes) in [("in the last", last), ("when the hostile had gone", after.anonymous)] {
            if bytes as f64 > middle as f64 * GROWTH + GROWTH_BYTES as f64 {
                wrong.push(format!("memory grows: {middle} bytes in the second third, {bytes} {when}"));
            }
        }
        wrong.extend(self.ended.iter().map(|name| format!("{name}: ended before they were told")));
        wrong
    }
}

fn watch(server: &Server, neighbours: &Neighbours, swarm: &Swarm, before: &Look, duration: Duration) -> Watched {
    let start = Instant::now();
    let cpu_before = own_cpu_seconds();
    let mut watched = Watched {
        duration,
        anonymous: Vec::new(),
        connections_max: 0,
        descriptors_max: 0,
        threads_max: 0,
        health: Latencies::new(),
        own_cpu_seconds: 0.0,
        ended: BTreeSet::new(),
        unhealthy: Vec::new(),
    };
    let (mut told, mut number) = (start, 0);
    while start.elapsed() < duration {
        std::thread::sleep(LOOK_EVERY);
        let asked = Instant::now();
        let health = http_get(server.http_port(), "/healthz");
        watched.health.record(asked.elapsed().as_nanos() as u64);
        if health.status != 200 {
            // Who is late on a machine that leaves out others, too, is not ill.
            let own_delay = neighbours.seen().own_delay_lately;
            let text = format!("after {:?}, own delay {own_delay:?}: {health:?}", start.elapsed());
            if own_delay < OWN_DELAY { watched.unhealthy.push(text) } else { say(&text) }
        }
        watched.anonymous.push(anonymous_bytes(server));
        watched.ended.extend(swarm.ended());
        number += 1;
        if number % SCRAPE_EVERY != 0 {
            continue;
        }
        let look = Look::take(server);
        watched.connections_max = watched.connections_max.max(look.connections);
        watched.descriptors_max = watched.descriptors_max.max(look.descriptors);
        watched.threads_max = watched.threads_max.max(look.threads);
        let seen = neighbours.seen();
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            say(&progress(start.elapsed(), &look, before, swarm, &seen));
        }
        // There is nothing to wait for any more.
        if !seen.wrong.is_empty() || !watched.ended.is_empty() || !complaints(server).is_empty() {
            break;
        }
    }
    watched.own_cpu_seconds = own_cpu_seconds() - cpu_before;
    watched.duration = start.elapsed();
    watched
}

fn progress(elapsed: Duration, look: &Look, before: &Look, swarm: &Swarm, seen: &Seen) -> String {
    let hits: u64 = look.hits.values().sum();
    format!(
        "{:>5} s: {} connections ({} idle), {:.1} MiB, {} descriptors, {} groups, {} members, server {:.0}% of a processor, \
         limits hit {hits} times; the well-behaved: {} heartbeats, {}, own delays {}, {} wrong",
        elapsed.as_secs(),
        look.connections,
        swarm.ground().held.load(std::sync::atomic::Ordering::Relaxed),
        mib(look.anonymous),
        look.descriptors,
        look.groups,
        look.members,
        (look.cpu_seconds - before.cpu_seconds) / elapsed.as_secs_f64() * 100.0,
        seen.heartbeats,
        shares(&seen.answers),
        shares(&seen.own_delays),
        seen.wrong.len()
    )
}

/// Waits until what the hostile have left behind is gone.
fn settle(server: &Server, neighbours: &Neighbours, before: &Look) -> Look {
    let deadline = Instant::now() + LEAVE_LIMIT;
    loop {
        let look = Look::take(server);
        if look.more_than(before).is_none() || Instant::now() > deadline || !neighbours.seen().wrong.is_empty() {
            return look;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What is not as it should be in the server's eyes, group by group.
fn describe(server: &Server) -> Vec<String> {
    let limit = Duration::from_secs(10);
    let options = Options { client_id: "test".to_owned(), connect_timeout: limit, request_timeout: limit };
    let mut cluster = Cluster::connect(&[server.bootstrap()], options).expect("the server accepts connections");
    let mut wrong = Vec::new();
    for group in 0..GROUPS {
        let described = admin::describe_streams_group(&mut cluster, &group_id(group)).expect("the server answers");
        let expected: BTreeSet<String> = (0..MEMBERS).map(|number| member_id(group, number)).collect();
        match described {
            Ok(found) => {
                let members: BTreeSet<String> = found.members.iter().map(|member| member.member_id.clone()).collect();
                if found.state != "Stable" || members != expected {
                    wrong.push(format!("{}: {} with {members:?}", group_id(group), found.state));
                }
            }
            Err(error) => wrong.push(format!("{}: {error}", group_id(group))),
        }
    }
    wrong
}

fn summary(watched: &Watched, done: &[(&str, u64)], before: &Look, after: &Look, seen: &Seen) -> String {
    let mut text = String::new();
    let seconds = watched.duration.as_secs_f64();
    let share = |cpu_seconds: f64| cpu_seconds / seconds * 100.0;
    let _ = writeln!(text, "{seconds:.0} s with {GROUPS} well-behaved groups of {MEMBERS}, sessions of {SESSION:?}");
    let _ = writeln!(text, "  heartbeats            {}, of which wrong {}", seen.heartbeats, seen.wrong.len());
    let _ = writeln!(text, "  answers after         {}", shares(&seen.answers));
    let _ = writeln!(text, "  own delays            {}", shares(&seen.own_delays));
    let _ = writeln!(text, "  health after          {}", shares(&watched.health));
    let [first, middle, last] = watched.thirds().map(mib);
    let _ = writeln!(
        text,
        "  memory, MiB           {:.1} before, thirds {first:.1} {middle:.1} {last:.1}, {:.1} after",
        mib(before.anonymous),
        mib(after.anonymous)
    );
    for (what, before, most, after) in [
        ("connections", before.connections, watched.connections_max, after.connections),
        ("descriptors", before.descriptors, watched.descriptors_max, after.descriptors),
        ("threads", before.threads, watched.threads_max, after.threads),
    ] {
        let _ = writeln!(text, "  {what:<21} {before} before, at most {most}, {after} after");
    }
    let _ = writeln!(
        text,
        "  of a processor        server {:.0}%, this program {:.0}%",
        share(after.cpu_seconds - before.cpu_seconds),
        share(watched.own_cpu_seconds)
    );
    for (name, times) in done {
        let _ = writeln!(text, "  {name:<30} {times:>10}");
    }
    for (limit, hits) in &after.hits {
        let _ = writeln!(text, "  limit {limit:<40} {hits:>8}");
    }
    text
}

fn shares(latencies: &Latencies) -> String {
    let [half, most, max] = [50.0, 99.0, 100.0].map(|share| latencies.at(share).as_secs_f64() * 1e3);
    format!("p50 {half:.2} p99 {most:.2} max {max:.1} ms")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
