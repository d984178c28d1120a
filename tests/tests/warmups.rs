//! A third instance joins an application with a large store: with warm-ups its tasks go on where they are until it has
//! caught up, without warm-ups they pause for as long as it restores.
//!
//! Clients before 4.4 report nothing of their tasks: they get no warm-ups, and nothing breaks.

use std::{path::Path, time::Duration};

use riparian_tests::{
    GroupView, GroupWatch, Program, Server, create_topics, own_program, own_program_on, set_group_configs,
};
use tempfile::TempDir;

const APPLICATION: &str = "stock";
const INPUT: &str = "orders";
const OUTPUT: &str = "answers";
const PARTITIONS: i32 = 6;
/// Records in the stores of all partitions together.
const RECORDS: u64 = 2_000_000;
const LIMIT: Duration = Duration::from_secs(180);
/// How long the answers of a partition may pause while its task is handed over.
const PAUSE_MAX_MS: u64 = 2000;
const SETTINGS: &[(&str, &str)] =
    &[("group.streams.initial.rebalance.delay.ms", "1000"), ("group.streams.min.session.timeout.ms", "1000")];

struct Stock {
    server: Server,
    release: Option<&'static str>,
    states: TempDir,
}

impl Stock {
    fn new(release: Option<&'static str>) -> Self {
        let server = Server::start(SETTINGS);
        create_topics(server.port(), &[INPUT, OUTPUT], PARTITIONS);
        let states = tempfile::Builder::new().prefix("riparian-states-").tempdir();
        Self { server, release, states: states.expect("a temporary directory can be made") }
    }

    fn start(&self, name: &str) -> Program {
        let mut command = match self.release {
            Some(release) => own_program_on(release, "Stock"),
            None => own_program("Stock"),
        };
        command.args(["--bootstrap", &self.server.bootstrap(), "--application-id", APPLICATION]);
        command.args(["--input", INPUT, "--output", OUTPUT, "--set", &format!("client.id={name}")]);
        command.arg("--state-dir").arg(Path::new(self.states.path()).join(name));
        Program::start(name, &mut command)
    }

    fn pulse(&self) -> Program {
        let mut command = own_program("Pulse");
        command.args(["--bootstrap", &self.server.bootstrap(), "--partitions", &PARTITIONS.to_string()]);
        command.args(["--input", INPUT, "--output", OUTPUT]);
        Program::start_listening("pulse", &mut command)
    }
}

fn is_settled(members: usize) -> impl Fn(&GroupView) -> bool {
    move |view| view.is_settled(members, PARTITIONS as usize)
}

/// The third of three instances joins: the longest pause of each partition from then until all is at rest, and all views.
fn third_instance_joins(release: Option<&'static str>, warmups: &str, records: u64) -> (Vec<u64>, Vec<GroupView>) {
    let stock = Stock::new(release);
    set_group_configs(stock.server.port(), APPLICATION, &[("streams.num.warmup.replicas", warmups)]);
    let watch = GroupWatch::start(stock.server.port(), APPLICATION);
    let instances = [stock.start("alpha"), stock.start("bravo")];
    watch.wait(0, "two instances that share the tasks", LIMIT, is_settled(2));
    let mut pulse = stock.pulse();
    pulse.tell(&format!("fill {}", records.div_ceil(PARTITIONS as u64)));
    pulse.wait_for_line("the stores are filled", LIMIT, |line| line == "filled");
    pulse.tell("mark");
    pulse.wait_for_line("a mark", LIMIT, |line| line == "marked");
    let mark = watch.mark();
    let third = stock.start("charlie");
    watch.wait(mark, "three instances that share the tasks", LIMIT, is_settled(3));
    third.wait_for_line("running", LIMIT, |line| line.starts_with("state ") && line.ends_with(" RUNNING"));
    pulse.tell("pauses");
    let pauses = pulse.wait_for_line("pauses", LIMIT, |line| line.starts_with("pauses "));
    let views = watch.since(mark).into_iter().map(|(_, view)| view).collect();
    for instance in instances.into_iter().chain([third]) {
        let closed = instance.terminate(LIMIT);
        assert!(!closed.stdout.contains("error "), "{}", closed.both());
    }
    watch.finish();
    let said = pulse.stdout();
    assert!(!said.iter().any(|line| line.starts_with("error ")), "{said:?}");
    (pauses.split(' ').skip(1).map(|pause| pause.parse().expect("milliseconds")).collect(), views)
}

fn warmups(views: &[GroupView]) -> usize {
    views.iter().flat_map(|view| view.members.values()).map(|member| member.warmup.len()).max().unwrap_or(0)
}

#[test]
fn tasks_go_on_while_their_new_owner_catches_up() {
    let (with, views) = third_instance_joins(None, "2", RECORDS);
    assert!(warmups(&views) > 0, "{views:?}");
    let (without, views) = third_instance_joins(None, "0", RECORDS);
    assert_eq!(warmups(&views), 0, "{views:?}");
    println!("longest pauses in ms of the partitions with warm-ups: {with:?}, without: {without:?}");
    let longest = |pauses: &[u64]| pauses.iter().copied().max().unwrap_or(0);
    assert!(longest(&with) <= PAUSE_MAX_MS, "with warm-ups {with:?}, without {without:?}");
    assert!(longest(&without) > longest(&with), "with warm-ups {with:?}, without {without:?}");
}

#[test]
fn older_clients_get_no_warmups() {
    for release in ["4.2.0", "4.3.1"] {
        let (pauses, views) = third_instance_joins(Some(release), "2", 60_000);
        println!("longest pauses in ms of the partitions with {release}: {pauses:?}");
        assert_eq!(warmups(&views), 0, "{release}: {views:?}");
    }
}
