//! From a target to the next step on the way there: warm-up tasks (KIP-1071).
//!
//! A target says who shall run what in the end. Given to the members at once it would have tasks wait until their new
//! owners have restored the state. So a stateful task stays where its state is, while the new owner *warms up*: it
//! restores a copy beside it. Once the copy's lag is acceptable, the next step gives it the active task.
//!
//! For each stateful task that is not where the target wants it, [`refine`] decides:
//!
//! * **granted**: the target's owner gets it now, because its process has a copy that has caught up, or is the process
//!   that runs it; because the whole state is no more than a copy may lack; because nobody else could run it any better; or because the owner's client cannot report how far a
//!   warm-up is (before 4.4, heartbeats of version 0).
//! * **staged**: whoever has it keeps it (or, if nobody does, who has a copy that has caught up gets it), and the target's
//!   owner gets a warm-up as far as the number of warm-ups allows. A standby that it has already serves as well.
//!
//! Stateless tasks go where the target says. The result hands out each active task exactly once, as the target does, and
//! no process has a task twice.
//!
//! What is not known counts as not caught up, and a task without a report as running: after a restart of the server, until
//! members have reported, nothing that runs is taken from anybody.
//! A task that restores counts as running as soon as it lacks no more than a copy may.

use alloc::{vec, vec::Vec};
use core::cmp::Reverse;

use riparian_types::Offset;

use crate::{Assignment, AssignmentInput, MemberIndex, MemberInput, ProcessIndex, TaskId};

/// Whether a member's client reports how far its warm-ups are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmupSupport {
    /// It has not been heard of since the server started.
    #[default]
    Unknown,
    /// Heartbeats of version 1 and later.
    Reports,
    /// Heartbeats of version 0.
    None,
}

/// The group's settings about warm-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmupConfig {
    /// How many tasks of the group may warm up at a time (`streams.num.warmup.replicas`); 0: tasks move at once.
    pub num_warmup_replicas: u32,
    /// With how many records behind a copy may take over (`streams.acceptable.recovery.lag`).
    pub acceptable_recovery_lag: i64,
}

/// The next step: what each member shall have, parallel to the input's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What each member shall have.
    pub members: Vec<StepMember>,
    /// The tasks that are not where the target wants them yet, ascending.
    pub staged: Vec<Staged>,
}

/// The tasks of one member in a step; each list ascends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepMember {
    /// Tasks it runs.
    pub active: Vec<TaskId>,
    /// Tasks whose state it keeps a copy of.
    pub standby: Vec<TaskId>,
    /// Tasks that it restores before it takes them over.
    pub warmup: Vec<TaskId>,
}

/// A task on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The task.
    pub task: TaskId,
    /// Who runs it meanwhile.
    pub current: MemberIndex,
    /// Who shall run it; `None`: the target's owner has left.
    pub owner: Option<MemberIndex>,
    /// How the owner gets ready.
    pub stage: Stage,
}

/// How the owner-to-be of a staged task gets ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has to wait: other tasks warm up.
    Parked,
    /// This member of its process restores a copy.
    WarmingUp(MemberIndex),
    /// This member of its process has a standby, which is let be until it has caught up.
    ByStandby(MemberIndex),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Standby,
    Warmup,
}

/// A copy of a task beside the active one.
#[derive(Clone, Copy)]
struct Copy {
    member: MemberIndex,
    role: Role,
    is_caught_up: bool,
    has_begun: bool,
}

/// Turns a target into the next step towards it. `support` is parallel to the input's members, and so is the target, which
/// must be [legal](crate::invariants) but for tasks that nobody is to run because their owner has left since.
pub fn refine(input: &AssignmentInput, target: &Assignment, support: &[WarmupSupport], config: &WarmupConfig) -> Step {
    let mut step = Step { members: vec![], staged: vec![] };
    if config.num_warmup_replicas > 0 {
        let index = Index::new(input, target, config);
        let mut moves = Moves { staged: vec![], restoring: index.restoring.clone(), granted: index.no_counts() };
        for task in (0..index.owners.len()).filter(|&task| index.is_stateful[task]) {
            index.decide(TaskId::at(task), support, &mut moves);
        }
        index.fund(&mut moves, support, config.num_warmup_replicas);
        step.staged = moves.staged;
        step.members = index.assemble(target, &step.staged);
    } else {
        step.members = members_of(target);
    }
    step
}

fn members_of(target: &Assignment) -> Vec<StepMember> {
    let member = |tasks: &crate::MemberAssignment| StepMember {
        active: tasks.active.clone(),
        standby: tasks.standby.clone(),
        warmup: vec![],
    };
    target.members.iter().map(member).collect()
}

struct Index<'a> {
    input: &'a AssignmentInput,
    is_stateful: Vec<bool>,
    /// The target's owner of each task.
    owners: Vec<Option<MemberIndex>>,
    /// Who runs each task now, and whether it can be left there: it runs, or has nearly restored.
    holders: Vec<Option<(MemberIndex, bool)>>,
    copies: Vec<Copy>,
    copy_starts: Vec<u32>,
    /// Where the target wants standbys of each task.
    standbys: Vec<Vec<MemberIndex>>,
    /// Stateful tasks of each process in any role, and its members.
    loads: Vec<u32>,
    member_counts: Vec<u32>,
    /// Whether each member restores an active task now.
    restoring: Vec<bool>,
    /// Whether all there is of each task is no more than what a copy may lack.
    is_small: Vec<bool>,
}

/// What was decided so far.
struct Moves {
    staged: Vec<Staged>,
    /// Whether each member restores an active task now, or will in this step.
    restoring: Vec<bool>,
    /// Tasks that each process gets in this step and has to restore.
    granted: Vec<u32>,
}

impl<'a> Index<'a> {
    fn new(input: &'a AssignmentInput, target: &Assignment, config: &WarmupConfig) -> Self {
        let is_stateful = input.subtopologies.stateful_by_task();
        let task_count = is_stateful.len();
        let mut index = Self {
            owners: vec![None; task_count],
            holders: vec![None; task_count],
            copies: vec![],
            copy_starts: vec![0; task_count + 1],
            standbys: vec![vec![]; task_count],
            loads: vec![0; input.processes.len()],
            member_counts: vec![0; input.processes.len()],
            restoring: vec![false; input.members.len()],
            is_small: vec![false; task_count],
            is_stateful,
            input,
        };
        let acceptable = config.acceptable_recovery_lag.max(0).unsigned_abs();
        let mut ends = vec![None; task_count];
        for known in &input.changelogs {
            index.is_small[known.task.index()] = known.records() <= acceptable;
            ends[known.task.index()] = Some(known.end);
        }
        for (place, tasks) in target.members.iter().enumerate() {
            tasks.active.iter().for_each(|task| index.owners[task.index()] = Some(MemberIndex::at(place)));
            tasks.standby.iter().for_each(|task| index.standbys[task.index()].push(MemberIndex::at(place)));
        }
        let mut copies: Vec<(TaskId, Copy)> = Vec::new();
        for (place, member) in input.members.iter().enumerate() {
            let this = MemberIndex::at(place);
            let process = member.process.index();
            index.member_counts[process] += 1;
            for &task in member.active.iter().filter(|task| index.is_stateful[task.index()]) {
                let position = reported(member, task);
                let is_restoring = position.is_some();
                index.restoring[place] |= is_restoring;
                index.loads[process] += 1;
                // Clients don't say where the changelog of an active task ends.
                let is_near = position.zip(ends[task.index()]).is_some_and(|(at, end)| is_acceptable(at, end, config));
                let is_hot = !is_restoring || is_near || is_caught_up(member, task, config);
                index.holders[task.index()] = Some((this, is_hot));
            }
            for (list, role) in [(&member.standby, Role::Standby), (&member.warmup, Role::Warmup)] {
                for &task in list.iter().filter(|task| index.is_stateful[task.index()]) {
                    index.loads[process] += 1;
                    let copy = Copy {
                        member: this,
                        role,
                        is_caught_up: is_caught_up(member, task, config),
                        has_begun: reported(member, task).is_some(),
                    };
                    copies.push((task, copy));
                }
            }
        }
        copies.sort_by_key(|&(task, copy)| (task, copy.member));
        copies.iter().for_each(|(task, _)| index.copy_starts[task.index() + 1] += 1);
        for task in 0..task_count {
            index.copy_starts[task + 1] += index.copy_starts[task];
        }
        index.copies = copies.into_iter().map(|(_, copy)| copy).collect();
        index
    }

    fn no_counts(&self) -> Vec<u32> {
        vec![0; self.loads.len()]
    }

    fn copies(&self, task: TaskId) -> &[Copy] {
        let [start, end] = [0, 1].map(|next| self.copy_starts[task.index() + next] as usize);
        &self.copies[start..end]
    }

    fn process(&self, member: MemberIndex) -> ProcessIndex {
        self.input.members[member.index()].process
    }

    /// What the process has of the task beside an active.
    fn copy_on(&self, process: ProcessIndex, task: TaskId) -> Option<&Copy> {
        self.copies(task).iter().find(|copy| self.process(copy.member) == process)
    }

    /// Whether the task lies on the disk of a process that holds it in no role: clients report what is dormant.
    fn is_on_disk(&self, process: ProcessIndex, task: TaskId) -> bool {
        let is_held = self.holders[task.index()].is_some_and(|(holder, _)| self.process(holder) == process)
            || self.copy_on(process, task).is_some();
        let mut members = self.input.members.iter().filter(|member| member.process == process);
        !is_held && members.any(|member| reported(member, task).is_some())
    }

    /// Tasks per member; more than any load where a count is large enough.
    fn load(&self, process: ProcessIndex, more: u32) -> u64 {
        let count = u64::from(self.loads[process.index()] + more);
        (count << 32) / u64::from(self.member_counts[process.index()].max(1))
    }

    /// Grants the task or stages it.
    fn decide(&self, task: TaskId, support: &[WarmupSupport], moves: &mut Moves) {
        let holder = self.holders[task.index()];
        let Some(owner) = self.owners[task.index()] else {
            // Its owner has left since: somebody goes on with it until there is a new target.
            if let Some(current) = holder.map(|(holder, _)| holder).or_else(|| self.best_copy(task)) {
                moves.staged.push(Staged { task, current, owner: None, stage: Stage::Parked });
            }
            return;
        };
        if holder.is_some_and(|(holder, _)| holder == owner) {
            return;
        }
        let process = self.process(owner);
        let copy = self.copy_on(process, task);
        let is_ready = holder.is_some_and(|(holder, _)| self.process(holder) == process)
            || copy.is_some_and(|copy| copy.is_caught_up)
            || self.is_small[task.index()]
            || support[owner.index()] == WarmupSupport::None;
        let current = match holder {
            _ if is_ready => None,
            Some((holder, true)) => Some(holder),
            // Who has what on its disk is asked last: that looks at all members.
            _ => self.best_copy(task).filter(|_| holder.is_some() || !self.is_on_disk(process, task)),
        };
        match current {
            Some(current) => moves.staged.push(Staged { task, current, owner: Some(owner), stage: Stage::Parked }),
            None if copy.is_none() && holder.is_none_or(|(holder, _)| self.process(holder) != process) => {
                moves.restoring[owner.index()] = true;
                moves.granted[process.index()] += 1;
            }
            None => {}
        }
    }

    /// The copy that could run the task: one that has caught up, that the target does not want as a standby where it is,
    /// on the least loaded process, of the smallest member.
    fn best_copy(&self, task: TaskId) -> Option<MemberIndex> {
        let caught_up = self
            .copies(task)
            .iter()
            .map(|copy| copy.member)
            .filter(|&member| self.copies(task).iter().any(|copy| copy.member == member && copy.is_caught_up));
        caught_up.min_by_key(|&member| {
            let is_wanted = self.standbys[task.index()].contains(&member);
            (is_wanted, self.load(self.process(member), 0), member)
        })
    }

    /// Decides which of the staged tasks warm up.
    fn fund(&self, moves: &mut Moves, support: &[WarmupSupport], budget: u32) {
        let Moves { staged, restoring, granted } = moves;
        let mut candidates: Vec<Candidate> = Vec::new();
        for (place, staged) in staged.iter_mut().enumerate() {
            let Some(owner) = staged.owner else { continue };
            let process = self.process(owner);
            let can_progress = |member: MemberIndex| !restoring[member.index()];
            let candidate = |kind, member: MemberIndex, tier| {
                let from = self.load(self.process(staged.current), 0);
                Candidate { place, kind, member, process, tier, from: Reverse(from) }
            };
            let new_tier = if can_progress(owner) { 1 } else { 3 };
            let can_begin = support[owner.index()] == WarmupSupport::Reports;
            match self.copy_on(process, staged.task) {
                Some(copy) if copy.role == Role::Warmup => {
                    let tier = if can_progress(copy.member) || copy.has_begun { 0 } else { 2 };
                    candidates.push(candidate(Kind::Keep, copy.member, tier));
                }
                Some(copy) if copy.member == owner || !can_begin => staged.stage = Stage::ByStandby(copy.member),
                Some(copy) => {
                    staged.stage = Stage::ByStandby(copy.member);
                    candidates.push(candidate(Kind::FromSibling, owner, new_tier));
                }
                None if can_begin => candidates.push(candidate(Kind::Plant, owner, new_tier)),
                None => {}
            }
        }
        let mut funded = self.no_counts();
        for _ in 0..budget {
            let rank = |candidate: &Candidate| {
                let more = funded[candidate.process.index()] + granted[candidate.process.index()];
                let load = self.load(candidate.process, more);
                (candidate.tier, candidate.kind == Kind::FromSibling, load, candidate.from, candidate.place)
            };
            let Some(place) = (0..candidates.len()).min_by_key(|&place| rank(&candidates[place])) else { break };
            let candidate = candidates.swap_remove(place);
            funded[candidate.process.index()] += u32::from(candidate.kind != Kind::Keep);
            staged[candidate.place].stage = Stage::WarmingUp(candidate.member);
        }
    }

    /// The target, with the staged tasks where they are meanwhile.
    fn assemble(&self, target: &Assignment, staged: &[Staged]) -> Vec<StepMember> {
        let mut members = members_of(target);
        let mut changed = vec![false; members.len()];
        for staged in staged {
            if let Some(owner) = staged.owner {
                remove(&mut members[owner.index()].active, staged.task);
            }
            members[staged.current.index()].active.push(staged.task);
            changed[staged.current.index()] = true;
            // The process that keeps the task active can't have a standby of it as well.
            let keeps = self.process(staged.current);
            let standbys = &self.standbys[staged.task.index()];
            let withheld = standbys.iter().find(|&&member| self.process(member) == keeps);
            withheld.into_iter().for_each(|member| remove(&mut members[member.index()].standby, staged.task));
            match staged.stage {
                Stage::Parked => {}
                Stage::WarmingUp(member) => {
                    members[member.index()].warmup.push(staged.task);
                    changed[member.index()] = true;
                }
                Stage::ByStandby(member) => {
                    members[member.index()].standby.push(staged.task);
                    changed[member.index()] = true;
                    // It makes up for one that is yet to be restored elsewhere, unless one is missing anyway.
                    let is_new = |&&standby: &&MemberIndex| self.copy_on(self.process(standby), staged.task).is_none();
                    if withheld.is_none()
                        && let Some(relocated) = standbys.iter().filter(is_new).min()
                    {
                        remove(&mut members[relocated.index()].standby, staged.task);
                    }
                }
            }
        }
        for member in core::iter::zip(&mut members, changed).filter_map(|(member, changed)| changed.then_some(member)) {
            [&mut member.active, &mut member.standby, &mut member.warmup]
                .into_iter()
                .for_each(|list| list.sort_unstable());
        }
        members
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A warm-up that is there.
    Keep,
    /// A new warm-up.
    Plant,
    /// A standby of another member of the process, which becomes the owner's warm-up.
    FromSibling,
}

/// A staged task that could warm up.
struct Candidate {
    /// Its place among the staged.
    place: usize,
    kind: Kind,
    member: MemberIndex,
    process: ProcessIndex,
    tier: u8,
    /// How loaded its current process is.
    from: Reverse<u64>,
}

fn remove(list: &mut Vec<TaskId>, task: TaskId) {
    list.retain(|&other| other != task);
}

/// How far a member's copy of a task is, if it says so.
fn reported(member: &MemberInput, task: TaskId) -> Option<Offset> {
    let place = member.task_offsets.binary_search_by_key(&task, |reported| reported.task).ok()?;
    Some(member.task_offsets[place].offset).filter(|&offset| offset != Offset(i64::MAX))
}

fn is_caught_up(member: &MemberInput, task: TaskId, config: &WarmupConfig) -> bool {
    let Ok(place) = member.task_end_offsets.binary_search_by_key(&task, |reported| reported.task) else { return false };
    let end = member.task_end_offsets[place].offset;
    end != Offset(i64::MAX) && reported(member, task).is_some_and(|position| is_acceptable(position, end, config))
}

fn is_acceptable(position: Offset, end: Offset, config: &WarmupConfig) -> bool {
    end.0.saturating_sub(position.0) <= config.acceptable_recovery_lag
}

#[cfg(test)]
mod tests;
