//! A group's state, how evenly its tasks shall be spread, and the two ways to place them.

use alloc::{vec, vec::Vec};

use super::{
    deal::{Room, deal},
    even_out::even_out,
    tagged,
    transport::{Transport, Unsolved, Wanted},
};
use crate::{Assignment, AssignmentInput, CostModel, TaskId, copies::Copies, share::share, tags::TagValues};

/// How many steps each search may take; a group of 1,000 members and 10,000 tasks that all change needs a tenth.
const WORK_MAX: u64 = 20_000_000;

/// Up to so many processes all are looked at for every task, beyond it only those with state.
const FEW_PROCESSES: usize = 12;

/// And no more than so many pairs of a task and a process.
const PAIRS_MAX: usize = 250_000;

pub(super) struct Problem<'a> {
    pub(super) input: &'a AssignmentInput,
    pub(super) model: CostModel<'a>,
    pub(super) tags: TagValues,
    pub(super) stateful: Vec<TaskId>,
    stateless: Vec<TaskId>,
    /// How many actives with state a process has at least and at most.
    stateful_actives: Bounds,
    /// The same for all actives.
    actives: Bounds,
    /// The same for all tasks.
    pub(super) tasks: Bounds,
}

#[derive(Clone)]
pub(super) struct Bounds {
    pub(super) low: Vec<u32>,
    pub(super) high: Vec<u32>,
}

impl Bounds {
    /// What processes may have whose members have as many as members have now.
    fn of(member_counts: &[u32], counts: impl Iterator<Item = usize> + Clone) -> Self {
        let [min, max] = [counts.clone().min(), counts.max()].map(|count| count.unwrap_or(0) as u32);
        Self::between(member_counts, min, max)
    }

    /// What processes may have whose members have as many as each other, or one more.
    fn even(member_counts: &[u32], count: usize) -> Self {
        let (count, members) = (count as u32, member_counts.iter().sum::<u32>().max(1));
        Self::between(member_counts, count / members, count.div_ceil(members))
    }

    fn between(member_counts: &[u32], min: u32, max: u32) -> Self {
        let of_all = |per_member: u32| member_counts.iter().map(|&count| count * per_member).collect();
        Self { low: of_all(min), high: of_all(max) }
    }

    /// What is left when processes have some already.
    fn without(&self, counts: &[u32]) -> Self {
        let minus = |bounds: &[u32]| -> Vec<u32> {
            core::iter::zip(bounds, counts).map(|(bound, &count)| bound.saturating_sub(count)).collect()
        };
        Self { low: minus(&self.low), high: minus(&self.high) }
    }

    /// What keeps both bounds.
    fn and(&self, other: &Self) -> Self {
        let both = |one: &[u32], other: &[u32], choose: fn(u32, u32) -> u32| -> Vec<u32> {
            core::iter::zip(one, other).map(|(&one, &other)| choose(one, other)).collect()
        };
        Self { low: both(&self.low, &other.low, u32::max), high: both(&self.high, &other.high, u32::min) }
    }
}

/// Where a task is cheap, and what it costs elsewhere if it may be there.
type Costs<'c> = &'c dyn Fn(TaskId, &mut Vec<(u32, i128)>) -> Option<i128>;

impl<'a> Problem<'a> {
    pub(super) fn new(input: &'a AssignmentInput, spread_of: &Assignment) -> Self {
        let model = CostModel::new(input);
        let all = (0..input.subtopologies.task_count()).map(TaskId);
        let (stateful, stateless): (Vec<_>, Vec<_>) = all.partition(|&task| model.is_stateful(task));
        let member_counts = model.member_counts();
        let members = spread_of.members.iter();
        Self {
            stateful_actives: Bounds::even(member_counts, stateful.len()),
            actives: Bounds::of(member_counts, members.clone().map(|member| member.active.len())),
            tasks: Bounds::of(member_counts, members.map(|member| member.active.len() + member.standby.len())),
            tags: TagValues::new(input),
            stateful,
            stateless,
            model,
            input,
        }
    }

    pub(super) fn has_tags(&self) -> bool {
        !self.tags.is_empty()
    }

    fn task_count(&self) -> usize {
        self.input.subtopologies.task_count() as usize
    }

    /// Records weigh more than all moves together.
    pub(super) fn scale(&self) -> i128 {
        self.task_count() as i128 + 1
    }

    /// The process that runs the task.
    pub(super) fn owner_process(&self, task: TaskId) -> Option<u32> {
        self.model.owner(task).map(|owner| self.input.members[owner.index()].process.0)
    }

    /// Appends where an active is cheap and returns what it costs elsewhere.
    pub(super) fn costs_of_active(&self, task: TaskId, cheap: &mut Vec<(u32, i128)>) -> i128 {
        let owner = self.owner_process(task);
        let cost = |records: u64, is_move: bool| i128::from(records) * self.scale() + i128::from(is_move);
        let is_move = |process: u32| owner.is_some_and(|owner| owner != process);
        let sources = self.model.sources(task).iter();
        cheap.extend(sources.map(|source| (source.process.0, cost(source.lag, is_move(source.process.0)))));
        if let Some(owner) = owner.filter(|owner| cheap.iter().all(|(process, _)| process != owner)) {
            cheap.push((owner, cost(self.model.size(task), false)));
        }
        cost(self.model.size(task), owner.is_some())
    }

    /// Appends where a standby is cheap and returns what it costs elsewhere.
    fn costs_of_copy(&self, task: TaskId, cheap: &mut Vec<(u32, i128)>) -> i128 {
        let sources = self.model.sources(task).iter();
        cheap.extend(sources.map(|source| (source.process.0, i128::from(source.lag) * self.scale())));
        i128::from(self.model.size(task)) * self.scale()
    }

    fn standbys(&self) -> u32 {
        self.input.standbys_per_task_max()
    }

    fn no_copies(&self) -> Copies {
        Copies::new(self.task_count(), 1 + self.standbys() as usize)
    }

    fn no_counts(&self) -> Vec<u32> {
        vec![0; self.input.processes.len()]
    }

    /// First where copies are, then which are active.
    pub(super) fn copies_first(&self) -> Result<Assignment, Unsolved> {
        let mut copies = self.no_copies();
        self.take_over(&self.solve_copies()?, &self.all(), &self.tasks, &mut copies, &mut self.no_counts())?;
        let mut chosen = self.no_copies();
        let mut active_counts = self.no_counts();
        let among_copies = |task: TaskId, cheap: &mut Vec<(u32, i128)>| {
            let mut all = Vec::new();
            let elsewhere = self.costs_of_active(task, &mut all);
            cheap.extend(copies.of(task.index()).iter().map(|&process| {
                let known = all.iter().find(|(at, _)| *at == process);
                (process, known.map_or(elsewhere, |&(_, cost)| cost))
            }));
            None
        };
        match self.place(&self.stateful, 1, &self.stateful_actives, &among_copies, &mut chosen, &mut active_counts) {
            Err(Unsolved::Infeasible) => return self.actives_near(&copies),
            outcome => outcome?,
        }
        let mut counts = self.no_counts();
        for task in &self.stateful {
            copies.of(task.index()).iter().for_each(|&process| counts[process as usize] += 1);
            let active = chosen.of(task.index())[0];
            let standbys = copies.of(task.index()).iter().filter(|&&process| process != active);
            standbys.for_each(|&process| chosen.add(task.index(), process));
        }
        let bounds = self.actives.without(&active_counts).and(&self.tasks.without(&counts));
        self.place_stateless(&bounds, &mut chosen, &mut self.no_counts())?;
        Ok(share(self.input, &self.model, &chosen))
    }

    /// First the actives, then the standbys.
    pub(super) fn actives_first(&self) -> Result<Assignment, Unsolved> {
        self.actives_then_standbys(&|task, cheap| Some(self.costs_of_active(task, cheap)))
    }

    /// Actives near to where copies would be the cheapest, then the standbys. An active that is somewhere else costs
    /// twice: another copy has to be restored for it.
    fn actives_near(&self, copies: &Copies) -> Result<Assignment, Unsolved> {
        self.actives_then_standbys(&|task, cheap| {
            let elsewhere = self.costs_of_active(task, cheap);
            let again = self.scale() * i128::from(self.model.size(task));
            for (process, cost) in cheap.iter_mut() {
                if !copies.holds(task.index(), *process) {
                    *cost += again;
                }
            }
            for &process in copies.of(task.index()) {
                if cheap.iter().all(|&(known, _)| known != process) {
                    cheap.push((process, elsewhere));
                }
            }
            Some(elsewhere + again)
        })
    }

    fn actives_then_standbys(&self, costs: Costs<'_>) -> Result<Assignment, Unsolved> {
        let mut placed = self.no_copies();
        let mut counts = self.no_counts();
        self.place(&self.stateful, 1, &self.stateful_actives, costs, &mut placed, &mut counts)?;
        self.place_stateless(&self.actives, &mut placed, &mut counts)?;
        even_out(self, &mut placed);
        let standby = |task: TaskId, cheap: &mut Vec<(u32, i128)>| Some(self.costs_of_copy(task, cheap));
        match self.has_tags() {
            true => tagged::place_standbys(self, &mut placed, counts),
            false => self.place(&self.stateful, self.standbys(), &self.tasks, &standby, &mut placed, &mut counts)?,
        }
        Ok(share(self.input, &self.model, &placed))
    }

    fn place_stateless(&self, bounds: &Bounds, copies: &mut Copies, counts: &mut [u32]) -> Result<(), Unsolved> {
        let costs = |task: TaskId, cheap: &mut Vec<(u32, i128)>| Some(self.costs_of_active(task, cheap));
        self.place(&self.stateless, 1, bounds, &costs, copies, counts)
    }

    /// Where copies of all tasks cost the least, whatever their roles.
    pub(super) fn solve_copies(&self) -> Result<Transport, Unsolved> {
        let costs = |task: TaskId, cheap: &mut Vec<(u32, i128)>| {
            Some(match self.model.is_stateful(task) {
                true => self.costs_of_copy(task, cheap),
                false => self.costs_of_active(task, cheap),
            })
        };
        let wanted = |task: TaskId| 1 + if self.model.is_stateful(task) { self.standbys() } else { 0 };
        self.solve(&self.all(), &wanted, self.tasks.clone(), &costs, &self.no_copies())
    }

    /// Tasks with state first, so that those of each kind are spread evenly where it is all the same.
    fn all(&self) -> Vec<TaskId> {
        [&*self.stateful, &*self.stateless].concat()
    }

    /// Adds copies of tasks at minimum cost; `counts` is what processes have, and `bounds` what they may have then.
    fn place(
        &self,
        tasks: &[TaskId],
        wanted: u32,
        bounds: &Bounds,
        costs: Costs<'_>,
        copies: &mut Copies,
        counts: &mut [u32],
    ) -> Result<(), Unsolved> {
        let transport = self.solve(tasks, &|_| wanted, bounds.without(counts), costs, copies)?;
        self.take_over(&transport, tasks, bounds, copies, counts)
    }

    fn solve(
        &self,
        tasks: &[TaskId],
        wanted: &dyn Fn(TaskId) -> u32,
        bounds: Bounds,
        costs: Costs<'_>,
        held: &Copies,
    ) -> Result<Transport, Unsolved> {
        let process_count = self.input.processes.len();
        // Where there are few processes, each may already have the task, and elsewhere is not everywhere: so all those
        // where it may be are listed.
        let lists_all = process_count <= FEW_PROCESSES && tasks.len() * process_count <= PAIRS_MAX;
        let mut transport = Transport::new(bounds.low, bounds.high, tasks.len(), WORK_MAX);
        let mut cheap = Vec::new();
        for &task in tasks {
            cheap.clear();
            let mut elsewhere = costs(task, &mut cheap);
            cheap.retain(|&(process, _)| !held.holds(task.index(), process));
            if lists_all && let Some(cost) = elsewhere.take() {
                let listed = cheap.len();
                for process in 0..process_count as u32 {
                    let is_listed = cheap[..listed].iter().any(|&(known, _)| known == process);
                    if !is_listed && !held.holds(task.index(), process) {
                        cheap.push((process, cost));
                    }
                }
            }
            transport.add(&Wanted { copies: wanted(task), cheap: &cheap, elsewhere });
        }
        transport.solve()?;
        Ok(transport)
    }

    /// Adds what a solution says to the copies, and deals out what may be anywhere.
    fn take_over(
        &self,
        transport: &Transport,
        tasks: &[TaskId],
        bounds: &Bounds,
        copies: &mut Copies,
        counts: &mut [u32],
    ) -> Result<(), Unsolved> {
        for (place, task) in tasks.iter().enumerate() {
            for process in transport.taken(place) {
                copies.add(task.index(), process);
                counts[process as usize] += 1;
            }
        }
        let wanted = tasks.iter().enumerate().map(|(place, task)| (task.index(), transport.anywhere(place)));
        let member_counts = self.model.member_counts();
        deal(wanted, copies, &mut Room { low: &bounds.low, high: &bounds.high, counts, member_counts }, WORK_MAX)
    }
}
