//! Watches a streams group from outside: who is in it, and who owns what, every 50 ms.
//!
//! **Invariant:** once it is watched, no task may be given to two members by the server's own word, and no epoch may go
//! back; `finish` tells. Each view that differs from the one before is kept.
//! It does not know what a test does to the group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use riparian_client::{ClientError, Connection};
use riparian_protocol::messages::{
    StreamsGroupDescribeRequest,
    streams_group_describe_response::{DescribedGroup, TaskIds},
};

use crate::direct::connect;

const INTERVAL: Duration = Duration::from_millis(50);
/// How many views are shown when a test failed.
const SHOWN_MAX: usize = 30;

/// A group at one moment, as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Kafka's word for what it is doing.
    pub state: String,
    /// The group epoch.
    pub epoch: i32,
    /// By their ids.
    pub members: BTreeMap<String, MemberView>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// What the client calls itself.
    pub client_id: String,
    /// The instance that it belongs to.
    pub process_id: String,
    /// Its epoch.
    pub epoch: i32,
    /// The active tasks that it owns.
    pub active: BTreeSet<String>,
    /// The tasks that warm up in it.
    pub warmup: BTreeSet<String>,
    /// The active tasks that it shall have in the end.
    pub target: BTreeSet<String>,
}

impl GroupView {
    fn new(group: &DescribedGroup<'_>) -> Self {
        let tasks = |tasks: &[TaskIds<'_>]| {
            let named = |ids: &TaskIds<'_>| {
                let subtopology = ids.subtopology_id.clone().into_owned();
                ids.partitions.iter().map(|partition| format!("{subtopology}_{partition}")).collect::<Vec<_>>()
            };
            tasks.iter().flat_map(named).collect()
        };
        let members = group.members.iter().map(|member| {
            let view = MemberView {
                client_id: member.client_id.clone().into_owned(),
                process_id: member.process_id.clone().into_owned(),
                epoch: member.member_epoch,
                active: tasks(&member.assignment.active_tasks),
                warmup: tasks(&member.assignment.warmup_tasks),
                target: tasks(&member.target_assignment.active_tasks),
            };
            (member.member_id.clone().into_owned(), view)
        });
        Self { state: group.group_state.clone().into_owned(), epoch: group.group_epoch, members: members.collect() }
    }

    /// The ids of the members whose clients' names begin so.
    pub fn members_of(&self, client: &str) -> BTreeSet<String> {
        let of_client = self.members.iter().filter(|(_, member)| member.client_id.starts_with(client));
        of_client.map(|(id, _)| id.clone()).collect()
    }

    /// Whether it is stable with so many members, which own so many tasks, each where it shall be in the end.
    pub fn is_settled(&self, members: usize, tasks: usize) -> bool {
        let active: usize = self.members.values().map(|member| member.active.len()).sum();
        let has_arrived = |member: &MemberView| member.active == member.target && member.warmup.is_empty();
        let members_arrived = self.members.len() == members && self.members.values().all(has_arrived);
        self.state == "Stable" && active == tasks && members_arrived
    }

    fn shown(&self) -> String {
        let member = |(id, member): (&String, &MemberView)| {
            let active: Vec<&str> = member.active.iter().map(String::as_str).collect();
            let warmup: Vec<&str> = member.warmup.iter().map(String::as_str).collect();
            format!("{} {id} at {} [{} | {}]", member.client_id, member.epoch, active.join(" "), warmup.join(" "))
        };
        let members: Vec<String> = self.members.iter().map(member).collect();
        format!("{} {}: {}", self.state, self.epoch, members.join("; "))
    }
}

/// Watches a group until it is dropped.
pub struct GroupWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    is_ending: bool,
    polls: u64,
    views: Vec<(Instant, GroupView)>,
    faults: Vec<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GroupWatch {
    /// Begins to watch; the group need not be there yet.
    pub fn start(port: u16, group: &str) -> Self {
        let (shared, group) = (Arc::new(Shared::default()), group.to_owned());
        let watching = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut connection = None;
            while !watching.lock().is_ending {
                match describe(&mut connection, port, &group) {
                    Ok(Some(view)) => watching.lock().see(view),
                    Ok(None) => {}
                    Err(_) => connection = None,
                }
                watching.changed.notify_all();
                std::thread::sleep(INTERVAL);
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// How many views there are so far; those before it do not count for what is waited for next.
    pub fn mark(&self) -> usize {
        self.shared.lock().views.len()
    }

    /// The last view.
    pub fn last(&self) -> GroupView {
        self.shared.lock().views.last().map(|(_, view)| view.clone()).expect("the group has been seen")
    }

    /// The views from a mark on, with the one that still held at the mark.
    pub fn since(&self, mark: usize) -> Vec<(Instant, GroupView)> {
        self.shared.lock().views[mark.saturating_sub(1)..].to_vec()
    }

    /// Waits for a view that was not there before the mark.
    pub fn wait(&self, from: usize, what: &str, limit: Duration, wanted: impl Fn(&GroupView) -> bool) -> GroupView {
        let deadline = Instant::now() + limit;
        let mut seen = self.shared.lock();
        loop {
            let found = seen.views.iter().skip(from).find(|(_, view)| wanted(view));
            if let Some((_, view)) = found {
                return view.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(seen);
                panic!("no {what} within {limit:?}");
            }
            seen = self.shared.changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends watching; nothing forbidden may have been seen.
    pub fn finish(mut self) {
        self.end();
        let seen = self.shared.lock();
        assert!(seen.polls > 0, "the group was never seen");
        assert!(seen.faults.is_empty(), "{:#?}", seen.faults);
    }

    fn end(&mut self) {
        self.shared.lock().is_ending = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for GroupWatch {
    fn drop(&mut self) {
        self.end();
        let seen = self.shared.lock();
        if std::thread::panicking() {
            // Shown by the test harness for failed tests only.
            eprintln!("--- the group, as it was seen ({} polls) ---", seen.polls);
            let last = seen.views.last().map(|(at, _)| *at);
            for (at, view) in seen.views.iter().skip(seen.views.len().saturating_sub(SHOWN_MAX)) {
                let before = last.map_or(Duration::ZERO, |last| last - *at);
                eprintln!("-{:.2} s {}", before.as_secs_f64(), view.shown());
            }
            seen.faults.iter().for_each(|fault| eprintln!("{fault}"));
        }
    }
}

impl Seen {
    fn see(&mut self, view: GroupView) {
        self.polls += 1;
        let mut owners = BTreeMap::new();
        for (id, member) in &view.members {
            for task in &member.active {
                if let Some(other) = owners.insert(task, id) {
                    self.faults.push(format!("{task} has two owners, {other} and {id}: {}", view.shown()));
                }
            }
        }
        let before = self.views.last().map(|(_, before)| before);
        if let Some(before) = before {
            if view.epoch < before.epoch {
                self.faults.push(format!("the group epoch went back from {} to {}", before.epoch, view.epoch));
            }
            for (id, member) in &view.members {
                // A member that was fenced joins again at 0 under the same id.
                let epoch_before = before.members.get(id).map_or(0, |before| before.epoch);
                if member.epoch > 0 && member.epoch < epoch_before {
                    self.faults.push(format!("{id} went back from {epoch_before} to {}", member.epoch));
                }
            }
        }
        if before != Some(&view) {
            self.views.push((Instant::now(), view));
        }
    }
}

fn describe(connection: &mut Option<Connection>, port: u16, group: &str) -> Result<Option<GroupView>, ClientError> {
    let connection = match connection {
        Some(connection) => connection,
        none => none.insert(connect(port)?),
    };
    let request =
        StreamsGroupDescribeRequest { group_ids: vec![group.into()], ..StreamsGroupDescribeRequest::default() };
    let answer = connection.call(&request)?;
    let response = answer.decode()?;
    // A group that is not there, or whose coordinator is not.
    Ok(response.groups.first().filter(|group| group.error_code == 0).map(GroupView::new))
}
