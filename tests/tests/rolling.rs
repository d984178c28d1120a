//! An application is restarted instance by instance while data flows.
//!
//! Four instances of one thread share the eight tasks of the word count. Each is closed as an operator would and started
//! again, one after the other. Static instances keep their tasks; of dynamic ones no more moves than the tasks of the one
//! that goes, and as many when it is back.

use std::collections::BTreeMap;
use std::time::Duration;

use riparian_tests::{GroupView, GroupWatch, Program, Server, WordCount};

const NAMES: [&str; 4] = ["alpha", "bravo", "charlie", "delta"];
const TASKS_EACH: usize = WordCount::TASKS / NAMES.len();
const LIMIT: Duration = Duration::from_secs(90);
/// Lines a second; the lines last longer than the restarts on a fast machine.
const RATE: u64 = 200;
const LINES: u64 = 6000;
/// Everything else is as it comes: sessions of 45 seconds above all.
const SETTINGS: &[(&str, &str)] = &[("group.streams.initial.rebalance.delay.ms", "1000")];

/// The names of the instances that have the tasks.
fn owners(view: &GroupView) -> BTreeMap<String, &'static str> {
    let mut owners = BTreeMap::new();
    for member in view.members.values() {
        let name = NAMES.into_iter().find(|name| member.client_id.starts_with(name)).expect("a member of an instance");
        owners.extend(member.active.iter().map(|task| (task.clone(), name)));
    }
    owners
}

/// Everybody has its tasks and is at the epoch of the group.
fn is_settled(members: usize) -> impl Fn(&GroupView) -> bool {
    move |view| {
        view.is_settled(members, WordCount::TASKS) && view.members.values().all(|member| member.epoch == view.epoch)
    }
}

fn is_running(instance: &Program) {
    instance.wait_for_line("running", LIMIT, |line| line.starts_with("state ") && line.ends_with(" RUNNING"));
}

struct Rolling {
    server: Server,
    application: WordCount,
    watch: GroupWatch,
    options: fn(&str) -> Vec<String>,
}

impl Rolling {
    fn new(options: fn(&str) -> Vec<String>) -> Self {
        let server = Server::start(SETTINGS);
        let application = WordCount::new(&server, None, &[]);
        let watch = GroupWatch::start(server.port(), WordCount::APPLICATION);
        Self { server, application, watch, options }
    }

    fn start(&self, name: &str) -> Program {
        let options = (self.options)(name);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.application.start_with(name, 1, &options)
    }

    /// Restarts each in turn; `between` is told the views from before the end of one until all is at rest again.
    fn run(self, mut between: impl FnMut(&'static str, &GroupWatch, usize)) {
        let mut instances: BTreeMap<&str, Program> = NAMES.into_iter().map(|name| (name, self.start(name))).collect();
        self.watch.wait(0, "four instances that share the tasks", LIMIT, is_settled(NAMES.len()));
        instances.values().for_each(is_running);
        let feed = self.application.feed(0, LINES, RATE);
        for name in NAMES {
            let mark = self.watch.mark();
            self.application.close(instances.remove(name).expect("it runs"));
            let again = self.start(name);
            is_running(&again);
            instances.insert(name, again);
            between(name, &self.watch, mark);
        }
        feed.finish();
        // Exact: whoever closes in order counts nothing twice.
        self.application.check_counts(LINES, true);
        for instance in instances.into_values() {
            self.application.close(instance);
        }
        self.watch.finish();
        drop(self.server);
    }
}

#[test]
fn static_instances_keep_their_tasks_through_a_rolling_restart() {
    let rolling = Rolling::new(|name| vec!["--set".to_owned(), format!("group.instance.id={name}")]);
    let mut first = None;
    rolling.run(|name, watch, mark| {
        for (_, view) in watch.since(mark) {
            let (epoch, owners) = first.get_or_insert_with(|| (view.epoch, owners(&view)));
            assert_eq!((view.epoch, self::owners(&view)), (*epoch, owners.clone()), "when {name} was restarted");
        }
    });
}

#[test]
fn dynamic_instances_move_no_more_tasks_than_their_own_in_a_rolling_restart() {
    let rolling = Rolling::new(|_| Vec::new());
    let mut moves: BTreeMap<String, usize> = BTreeMap::new();
    rolling.run(|name, watch, mark| {
        let before = watch.since(mark)[0].1.clone();
        let is_without = |view: &GroupView| view.members_of(name).is_disjoint(&before.members_of(name));
        let gone = watch.wait(mark, "three instances that share the tasks", LIMIT, |view| {
            is_settled(NAMES.len() - 1)(view) && view.members_of(name).is_empty()
        });
        let back = watch.wait(mark, "four again", LIMIT, |view| is_settled(NAMES.len())(view) && is_without(view));
        let (before, gone, back) = (owners(&before), owners(&gone), owners(&back));
        let moved = |from: &BTreeMap<String, &'static str>, to: &BTreeMap<String, &'static str>| {
            let moved = from.iter().filter(|(task, owner)| to.get(*task) != Some(*owner));
            moved.map(|(task, _)| task.clone()).collect::<Vec<_>>()
        };
        let own = before.iter().filter(|(_, owner)| **owner == name).map(|(task, _)| task.clone());
        assert_eq!(moved(&before, &gone), own.collect::<Vec<_>>(), "when {name} had gone");
        let returned = moved(&gone, &back);
        assert!(returned.iter().all(|task| back[task] == name), "{returned:?} when {name} was back: {back:?}");
        assert_eq!(returned.len(), TASKS_EACH, "when {name} was back: {back:?}");
        for task in moved(&before, &gone).into_iter().chain(returned) {
            *moves.entry(task).or_default() += 1;
        }
    });
    println!("moves by task: {moves:?}");
    // Away and back, for each of the four.
    assert_eq!(moves.values().sum::<usize>(), 2 * TASKS_EACH * NAMES.len(), "{moves:?}");
}
