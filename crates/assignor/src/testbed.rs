//! Seeded groups that change and change again: what assignors are tried out and graded on.
//!
//! A [`Group`] has processes with threads and disks, and tasks whose state has a size. It tells an assignor what a server
//! would know ([`Group::input`]), lives on with what the assignor decided ([`Group::adopt`]), and changes
//! ([`Group::change`]): processes join, leave, and come back with old state on their disks; threads come and go; all
//! processes of a rack are lost; the number of standbys changes. The same seed gives the same group, on every machine.
//!
//! ```
//! use riparian_assignor::{StickyTaskAssignor, assign_checked, testbed::Group};
//!
//! let mut group = Group::new(7);
//! for _ in 0..10 {
//!     let assignment = assign_checked(&StickyTaskAssignor, &group.input()).expect("a legal assignment");
//!     group.adopt(&assignment);
//!     group.change();
//! }
//! ```
//!
//! [`grade`] lets an assignor decide for many of them and adds up what that cost.

mod grades;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec,
    vec::Vec,
};

use riparian_types::{MemberId, Offset, Prng, ProcessId};

use crate::{
    Assignment, AssignmentConfig, AssignmentInput, ClientTag, MemberInput, ProcessIndex, Subtopologies,
    SubtopologyInput, TaskId, TaskOffset, intern_processes,
};

pub use self::grades::{Grades, grade};

/// What happened to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A process that was never there came.
    Join,
    /// A process that left came back and found the state on its disk.
    Return,
    /// A process got one more thread.
    ThreadStart,
    /// A process went.
    Leave,
    /// A thread of a process with several went.
    ThreadStop,
    /// All processes of a rack went.
    RackLost,
    /// Another number of standbys is wanted.
    Standbys,
    /// What was drawn could not happen.
    Nothing,
}

/// A group between two assignments.
#[derive(Clone, Debug)]
pub struct Group {
    prng: Prng,
    subtopologies: Arc<Subtopologies>,
    /// How many records the state of each task has; 0 where there is none.
    sizes: Vec<u64>,
    num_standby_replicas: u32,
    tags: Vec<Arc<str>>,
    rack_count: u64,
    /// The members in the order of their ids, with what they hold.
    members: Vec<(ProcessId, MemberInput)>,
    /// What is on the disk of each process that ever had something: the tasks and how far their state reaches.
    disks: BTreeMap<ProcessId, BTreeMap<TaskId, u64>>,
    /// Processes that left, and the rack of each.
    stopped: Vec<(ProcessId, u64)>,
    /// The rack of each process that is there.
    racks: BTreeMap<ProcessId, u64>,
    /// How many processes and members there have ever been.
    started_count: u64,
}

impl Group {
    /// The group of a seed: up to 8 processes of up to 4 threads, up to 7 subtopologies of up to 29 partitions.
    pub fn new(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let count = prng.below(8);
        let subtopologies = (0..count).map(|index| SubtopologyInput {
            id: format!("{index}").into(),
            partition_count: prng.below(30) as u32,
            stateful: !prng.chance(3),
        });
        let subtopologies = Subtopologies::new(subtopologies.collect()).expect("the ids are sorted");
        let mut sizes = Vec::with_capacity(subtopologies.task_count() as usize);
        for subtopology in subtopologies.list() {
            // Keys are spread over partitions by their hashes, so the tasks of one store are about alike.
            let typical = 1 << prng.below(24);
            for _ in 0..subtopology.partition_count {
                sizes.push(if subtopology.stateful { typical + prng.below(typical) } else { 0 });
            }
        }
        let mut group = Self {
            num_standby_replicas: prng.below(4) as u32,
            subtopologies: subtopologies.into(),
            sizes,
            tags: vec![],
            rack_count: 1 + prng.below(3),
            members: vec![],
            disks: BTreeMap::new(),
            stopped: vec![],
            racks: BTreeMap::new(),
            started_count: 0,
            prng,
        };
        for _ in 0..1 + group.prng.below(8) {
            group.join();
        }
        group
    }

    /// The group of a seed, spreading the copies of its tasks over racks.
    pub fn with_racks(seed: u64) -> Self {
        let mut group = Self::new(seed);
        group.tags = vec!["rack".into()];
        group
    }

    /// What a server knows of the group.
    pub fn input(&self) -> AssignmentInput {
        let (processes, indexes) = intern_processes(self.members.iter().map(|(process, _)| process));
        let mut held: BTreeMap<&ProcessId, BTreeSet<TaskId>> = BTreeMap::new();
        for (process, member) in &self.members {
            held.entry(process).or_default().extend(member.active.iter().chain(&member.standby));
        }
        let members = core::iter::zip(&self.members, indexes)
            .map(|((id, member), process)| {
                let (task_offsets, task_end_offsets) = self.reports(&held[id], id, member);
                let rack = format!("rack-{}", self.racks[id]);
                MemberInput {
                    process,
                    task_offsets,
                    task_end_offsets,
                    client_tags: vec![ClientTag { key: "rack".into(), value: rack.as_str().into() }],
                    ..member.clone()
                }
            })
            .collect();
        let config = AssignmentConfig {
            num_standby_replicas: self.num_standby_replicas,
            rack_aware_assignment_tags: self.tags.clone(),
        };
        AssignmentInput {
            processes,
            members,
            subtopologies: Arc::clone(&self.subtopologies),
            config,
            changelogs: vec![],
        }
    }

    /// What a 4.4 client reports: of its standbys how far they are and how far there is to go, of what nobody in its
    /// process holds how far it reaches, of what it runs nothing.
    fn reports(
        &self,
        held: &BTreeSet<TaskId>,
        process: &ProcessId,
        member: &MemberInput,
    ) -> (Vec<TaskOffset>, Vec<TaskOffset>) {
        let mut offsets = Vec::new();
        for (&task, &reached) in self.disks.get(process).into_iter().flatten() {
            if !held.contains(&task) || member.standby.binary_search(&task).is_ok() {
                offsets.push(TaskOffset { task, offset: Offset(reached.cast_signed()) });
            }
        }
        let end = |&task: &TaskId| TaskOffset { task, offset: Offset(self.sizes[task.index()].cast_signed()) };
        (offsets, member.standby.iter().map(end).collect())
    }

    /// Members hold what they were given and have restored it; then time passes, in which all state grows.
    pub fn adopt(&mut self, assignment: &Assignment) {
        for ((_, member), tasks) in core::iter::zip(&mut self.members, &assignment.members) {
            member.active.clone_from(&tasks.active);
            member.standby.clone_from(&tasks.standby);
        }
        for size in &mut self.sizes {
            *size += self.prng.below(*size / 8 + 1);
        }
        for (process, member) in &self.members {
            let disk = self.disks.entry(process.clone()).or_default();
            for &task in member.active.iter().chain(&member.standby).filter(|task| self.sizes[task.index()] > 0) {
                disk.insert(task, self.sizes[task.index()]);
            }
        }
    }

    /// One thing happens; it says what.
    pub fn change(&mut self) -> Change {
        match self.prng.below(8) {
            0 | 1 => self.join(),
            2 => self.come_back(),
            3 => {
                let process = self.some_process();
                self.start_member(process);
                Change::ThreadStart
            }
            4 => self.leave(),
            5 => self.stop_member(),
            6 => self.lose_rack(),
            _ => {
                self.num_standby_replicas = self.prng.below(4) as u32;
                Change::Standbys
            }
        }
    }

    fn join(&mut self) -> Change {
        self.started_count += 1;
        // The ids come in no particular order.
        let process = ProcessId::from(format!("p{:03}-{}", self.prng.below(1000), self.started_count));
        let rack = self.prng.below(self.rack_count);
        self.racks.insert(process.clone(), rack);
        self.start_members(process);
        Change::Join
    }

    fn come_back(&mut self) -> Change {
        let Some((process, rack)) = self.stopped.pop() else { return Change::Nothing };
        self.racks.insert(process.clone(), rack);
        self.start_members(process);
        Change::Return
    }

    fn start_members(&mut self, process: ProcessId) {
        for _ in 0..1 + self.prng.below(4) {
            self.start_member(process.clone());
        }
    }

    fn start_member(&mut self, process: ProcessId) {
        self.started_count += 1;
        let id = MemberId::from(format!("m{:03}-{}", self.prng.below(1000), self.started_count));
        // `input` sets the process.
        let member = MemberInput::new(id, ProcessIndex(0));
        let place = self.members.partition_point(|(_, other)| other.id < member.id);
        self.members.insert(place, (process, member));
    }

    fn leave(&mut self) -> Change {
        let process = self.some_process();
        self.stop(&BTreeSet::from([process]), Change::Leave)
    }

    fn lose_rack(&mut self) -> Change {
        let rack = self.prng.below(self.rack_count);
        let lost = self.racks.iter().filter(|(_, other)| **other == rack).map(|(process, _)| process.clone()).collect();
        self.stop(&lost, Change::RackLost)
    }

    /// Stops processes, but never all.
    fn stop(&mut self, processes: &BTreeSet<ProcessId>, change: Change) -> Change {
        if processes.is_empty() || processes.len() == self.racks.len() {
            return Change::Nothing;
        }
        self.members.retain(|(process, _)| !processes.contains(process));
        for process in processes {
            let rack = self.racks.remove(process).expect("it is there");
            self.stopped.push((process.clone(), rack));
        }
        change
    }

    fn stop_member(&mut self) -> Change {
        let index = self.prng.below(self.members.len() as u64) as usize;
        let process = &self.members[index].0;
        if self.members.iter().filter(|(other, _)| other == process).count() == 1 {
            return Change::Nothing;
        }
        self.members.remove(index);
        Change::ThreadStop
    }

    fn some_process(&mut self) -> ProcessId {
        let index = self.prng.below(self.members.len() as u64) as usize;
        self.members[index].0.clone()
    }
}
