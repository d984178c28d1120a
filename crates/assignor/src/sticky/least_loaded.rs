//! A queue of processes by load, and within each of its members by load.
//!
//! It starts from the loads of a [`Placement`] and from then on counts what it gives out itself; whoever uses it makes no
//! other placements meanwhile. Ties go to the smaller process and the smaller member.

use alloc::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    vec,
    vec::Vec,
};
use core::cmp::Reverse;

use super::placement::{Load, Placement};
use crate::{MemberIndex, ProcessIndex};

pub(super) struct LeastLoaded {
    processes: BinaryHeap<Reverse<(Load, ProcessIndex)>>,
    /// By process, its members with their numbers of tasks.
    members: Vec<BinaryHeap<Reverse<(u32, MemberIndex)>>>,
    /// Processes that are passed over while one is sought; kept to reuse the memory.
    skipped: Vec<Reverse<(Load, ProcessIndex)>>,
}

impl LeastLoaded {
    pub(super) fn new(placement: &Placement) -> Self {
        let mut members: Vec<Vec<_>> = vec![vec![]; placement.process_loads().len()];
        for (index, process) in placement.processes_by_member().iter().enumerate() {
            let member = MemberIndex::at(index);
            members[process.index()].push(Reverse((placement.member_load(member), member)));
        }
        let processes: Vec<_> = placement
            .process_loads()
            .iter()
            .enumerate()
            .map(|(index, &load)| Reverse((load, ProcessIndex::at(index))))
            .collect();
        Self {
            processes: processes.into(),
            members: members.into_iter().map(BinaryHeap::from).collect(),
            skipped: vec![],
        }
    }

    /// Counts one more task on the least loaded member of the least loaded process that is eligible, and returns it.
    pub(super) fn take(&mut self, eligible: impl Fn(ProcessIndex) -> bool) -> Option<MemberIndex> {
        let mut taken = None;
        while let Some(mut top) = self.processes.peek_mut() {
            let Reverse((load, process)) = &mut *top;
            if eligible(*process) {
                load.task_count += 1;
                taken = Some(*process);
                break;
            }
            self.skipped.push(PeekMut::pop(top));
        }
        self.processes.extend(self.skipped.drain(..));
        let mut member = self.members[taken?.index()].peek_mut().expect("the input's check leaves no process empty");
        member.0.0 += 1;
        Some(member.0.1)
    }
}
