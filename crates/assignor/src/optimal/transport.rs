//! Puts copies of tasks on processes at minimum cost: a transportation problem, solved exactly.
//!
//! A task wants some copies, on different processes. A few processes are cheap for it (they have state of it), everywhere
//! else a copy costs the same. So a copy is either *at* a cheap process or *anywhere*, and the network has one node per
//! process and one for anywhere, not one per task: an arc from p to q is the cheapest task to be taken from p to q, kept in
//! a heap. Costs are reduced by potentials, so that the search for the next path (Dijkstra) ends near where it begins.
//!
//! At first every copy is where it is cheapest. Then each process that is over its upper bound gives up tasks along
//! cheapest paths; then tasks are pulled to *anywhere* as long as there are too few for the processes under their lower
//! bound. Where those anywhere end up costs the same (or less), and is [`deal`](super::deal)'s business.
//!
//! Work is counted in arcs looked at and heap entries taken, not in time: what comes out does not depend on the machine.

use alloc::{collections::BinaryHeap, vec, vec::Vec};
use core::cmp::Reverse;

/// Why there is no solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsolved {
    /// The bounds can't be kept.
    Infeasible,
    /// The work bound was reached.
    TooMuchWork,
}

/// What a task wants and where it is cheap.
pub(super) struct Wanted<'a> {
    /// How many copies, each on a process of its own.
    pub(super) copies: u32,
    /// The cheap processes and what a copy costs there, in any order, each once.
    pub(super) cheap: &'a [(u32, i128)],
    /// What a copy costs anywhere else, at least as much as at any cheap process; `None`: it may be nowhere else.
    pub(super) elsewhere: Option<i128>,
}

const ANYWHERE: u32 = u32::MAX;
const UNREACHED: i128 = i128::MAX;

/// A process at which a task is cheap.
struct Site {
    task: u32,
    process: u32,
    cost: i128,
    is_taken: bool,
}

/// The least cost first; then the least numbers.
type Moves = BinaryHeap<Reverse<(i128, u32, u32)>>;

struct Arc {
    to: u32,
    /// (what it costs more, site from, site to), some of them out of date.
    moves: Moves,
}

/// The network; see the module.
pub(super) struct Transport {
    low: Vec<u32>,
    high: Vec<u32>,
    /// Copies at cheap processes.
    counts: Vec<u32>,
    sites: Vec<Site>,
    site_starts: Vec<u32>,
    elsewhere: Vec<Option<i128>>,
    /// Of each task how many copies are anywhere.
    anywhere: Vec<u32>,
    anywhere_count: u64,
    arcs: Vec<Arc>,
    /// Of each node where its arcs begin; they are sorted by their ends. The last node is anywhere.
    arc_starts: Vec<u32>,
    potentials: Vec<i128>,
    distances: Vec<i128>,
    /// The node before and the arc from it.
    previous: Vec<(u32, u32)>,
    touched: Vec<u32>,
    queue: BinaryHeap<Reverse<(i128, u32)>>,
    work_left: u64,
}

impl Transport {
    /// A network whose processes shall have between `low` and `high` copies each. Where processes are equally cheap, the
    /// tasks choose in the order in which they are [added](Self::add).
    pub(super) fn new(low: Vec<u32>, high: Vec<u32>, task_count: usize, work_max: u64) -> Self {
        let process_count = low.len();
        Self {
            counts: vec![0; process_count],
            sites: vec![],
            site_starts: Vec::with_capacity(task_count + 1),
            elsewhere: Vec::with_capacity(task_count),
            anywhere: Vec::with_capacity(task_count),
            anywhere_count: 0,
            arcs: vec![],
            arc_starts: vec![],
            potentials: vec![0; process_count + 2],
            distances: vec![UNREACHED; process_count + 2],
            previous: vec![(0, 0); process_count + 2],
            touched: vec![],
            queue: BinaryHeap::new(),
            work_left: work_max,
            low,
            high,
        }
    }

    /// Adds a task and puts its copies where they are cheapest.
    pub(super) fn add(&mut self, wanted: &Wanted<'_>) {
        let task = self.elsewhere.len() as u32;
        let first = self.sites.len();
        self.site_starts.push(first as u32);
        let sites = wanted.cheap.iter().map(|&(process, cost)| Site { task, process, cost, is_taken: false });
        self.sites.extend(sites);
        self.sites[first..].sort_unstable_by_key(|site| (site.cost, site.process));
        let mut left = wanted.copies;
        let mut rest = &mut self.sites[first..];
        while let Some(cost) = rest.first().map(|site| site.cost)
            && left > 0
        {
            // Of equally cheap processes those with the fewest come first.
            let (equal, others) = rest.split_at_mut(rest.partition_point(|site| site.cost == cost));
            for _ in 0..equal.len().min(left as usize) {
                let load = |site: &Site| {
                    let [count, high] = [&self.counts, &self.high].map(|of| u64::from(of[site.process as usize]));
                    (site.is_taken, (count << 32) / high.max(1), site.process)
                };
                let site = equal.iter_mut().min_by_key(|site| load(site)).expect("there are some left");
                site.is_taken = true;
                self.counts[site.process as usize] += 1;
                left -= 1;
            }
            rest = others;
        }
        self.elsewhere.push(wanted.elsewhere);
        self.anywhere.push(left);
        self.anywhere_count += u64::from(left);
    }

    fn add_arcs(&mut self) {
        let hub = self.hub();
        let mut ends: Vec<Vec<u32>> = vec![vec![]; hub as usize + 1];
        for task in 0..self.elsewhere.len() {
            let sites = &self.sites[self.sites_of(task)];
            for from in sites {
                let others = sites.iter().map(|to| to.process).filter(|&to| to != from.process);
                ends[from.process as usize].extend(others);
                if self.elsewhere[task].is_some() {
                    ends[from.process as usize].push(hub);
                    ends[hub as usize].push(from.process);
                }
            }
            // With few processes the same ends come with each task.
            if task % 256 == 255 {
                ends.iter_mut().for_each(sort_and_dedup);
            }
        }
        for mut ends in ends {
            sort_and_dedup(&mut ends);
            self.arc_starts.push(self.arcs.len() as u32);
            self.arcs.extend(ends.into_iter().map(|to| Arc { to, moves: Moves::new() }));
        }
        self.arc_starts.push(self.arcs.len() as u32);
        for task in 0..self.elsewhere.len() {
            for from in self.sites_of(task) {
                if self.sites[from].is_taken {
                    self.offer_all_from(from as u32);
                }
            }
            self.offer_from_anywhere(task);
        }
    }

    /// The node that stands for anywhere.
    fn hub(&self) -> u32 {
        self.low.len() as u32
    }

    fn sites_of(&self, task: usize) -> core::ops::Range<usize> {
        self.site_starts[task] as usize..self.site_starts[task + 1] as usize
    }

    fn node_of(&self, site: u32) -> u32 {
        if site == ANYWHERE { self.hub() } else { self.sites[site as usize].process }
    }

    /// Makes it known that a copy could be taken from one site to another.
    fn offer(&mut self, from: u32, to: u32) {
        let site = if from == ANYWHERE { to } else { from };
        let Some(elsewhere) = self.elsewhere[self.sites[site as usize].task as usize].or_else(|| {
            // Not to be anywhere, but perhaps at another cheap process.
            (from != ANYWHERE && to != ANYWHERE).then_some(0)
        }) else {
            return;
        };
        let cost = |site: u32| if site == ANYWHERE { elsewhere } else { self.sites[site as usize].cost };
        let entry = Reverse((cost(to) - cost(from), from, to));
        let (start, end, to_node) = self.arc_range(from, to);
        let place = self.arcs[start..end].binary_search_by_key(&to_node, |arc| arc.to);
        self.arcs[start + place.expect("both sites are of one task")].moves.push(entry);
    }

    fn arc_range(&self, from: u32, to: u32) -> (usize, usize, u32) {
        let node = self.node_of(from) as usize;
        (self.arc_starts[node] as usize, self.arc_starts[node + 1] as usize, self.node_of(to))
    }

    fn offer_all_from(&mut self, from: u32) {
        let task = self.sites[from as usize].task as usize;
        for to in self.sites_of(task) {
            if !self.sites[to].is_taken {
                self.offer(from, to as u32);
            }
        }
        self.offer(from, ANYWHERE);
    }

    fn offer_from_anywhere(&mut self, task: usize) {
        if self.anywhere[task] > 0 {
            for to in self.sites_of(task) {
                if !self.sites[to].is_taken {
                    self.offer(ANYWHERE, to as u32);
                }
            }
        }
    }

    fn is_valid(&self, from: u32, to: u32) -> bool {
        let is_there = match from {
            ANYWHERE => self.anywhere[self.sites[to as usize].task as usize] > 0,
            from => self.sites[from as usize].is_taken,
        };
        is_there && (to == ANYWHERE || !self.sites[to as usize].is_taken)
    }

    /// The cheapest move of an arc.
    fn cheapest(&mut self, arc: usize) -> Option<(i128, u32, u32)> {
        while let Some(&Reverse(entry)) = self.arcs[arc].moves.peek() {
            if self.is_valid(entry.1, entry.2) {
                return Some(entry);
            }
            self.arcs[arc].moves.pop();
            self.work_left = self.work_left.saturating_sub(1);
        }
        None
    }

    /// Takes a copy from one site to another.
    fn carry_out(&mut self, from: u32, to: u32) {
        let task = self.sites[if from == ANYWHERE { to } else { from } as usize].task as usize;
        match from {
            ANYWHERE => {
                self.anywhere[task] -= 1;
                self.anywhere_count -= 1;
            }
            from => {
                self.sites[from as usize].is_taken = false;
                self.counts[self.sites[from as usize].process as usize] -= 1;
            }
        }
        match to {
            ANYWHERE => {
                self.anywhere[task] += 1;
                self.anywhere_count += 1;
            }
            to => {
                self.sites[to as usize].is_taken = true;
                self.counts[self.sites[to as usize].process as usize] += 1;
                self.offer_all_from(to);
            }
        }
        if to == ANYWHERE && self.anywhere[task] == 1 {
            self.offer_from_anywhere(task);
        }
        if from != ANYWHERE {
            for other in self.sites_of(task) {
                if self.sites[other].is_taken && other as u32 != to {
                    self.offer(other as u32, from);
                }
            }
            if self.anywhere[task] > 0 && to != ANYWHERE {
                self.offer(ANYWHERE, from);
            }
        }
    }

    /// Brings every process within its bounds at minimum cost.
    pub(super) fn solve(&mut self) -> Result<(), Unsolved> {
        self.site_starts.push(self.sites.len() as u32);
        self.add_arcs();
        let is_homeless = |(elsewhere, &count): (&Option<i128>, &u32)| elsewhere.is_none() && count > 0;
        if core::iter::zip(&self.elsewhere, &self.anywhere).any(is_homeless) {
            return Err(Unsolved::Infeasible);
        }
        let hub = self.hub();
        for process in 0..hub {
            while self.counts[process as usize] > self.high[process as usize] {
                self.augment(
                    &[process],
                    |transport, node| node == hub || transport.counts[node as usize] < transport.high[node as usize],
                    true,
                )?;
            }
        }
        let mut lacking: u64 = self.lacking().sum();
        while lacking > self.anywhere_count {
            let sources: Vec<u32> =
                (0..hub).filter(|&node| self.counts[node as usize] > self.low[node as usize]).collect();
            self.augment(
                &sources,
                |transport, node| node == hub || transport.counts[node as usize] < transport.low[node as usize],
                false,
            )?;
            lacking = self.lacking().sum();
        }
        Ok(())
    }

    fn lacking(&self) -> impl Iterator<Item = u64> {
        core::iter::zip(&self.low, &self.counts).map(|(&low, &count)| u64::from(low.saturating_sub(count)))
    }

    /// Takes one copy away from the source from which that is cheapest, and has it arrive at a target.
    ///
    /// A node behind all targets stands for having arrived; its potential is kept over calls if `is_same_targets`.
    fn augment(
        &mut self,
        sources: &[u32],
        is_target: impl Fn(&Self, u32) -> bool,
        is_same_targets: bool,
    ) -> Result<(), Unsolved> {
        let (hub, arrived) = (self.hub(), self.hub() + 1);
        if !is_same_targets {
            let of_targets = (0..=hub).filter(|&node| is_target(self, node)).map(|node| self.potentials[node as usize]);
            self.potentials[arrived as usize] = of_targets.min().ok_or(Unsolved::Infeasible)?;
        }
        let highest = sources.iter().map(|&node| self.potentials[node as usize]).max().ok_or(Unsolved::Infeasible)?;
        for &source in sources {
            self.reach(source, highest - self.potentials[source as usize], (source, u32::MAX));
        }
        let mut found = None;
        while let Some(Reverse((distance, node))) = self.queue.pop() {
            if distance > self.distances[node as usize] {
                continue;
            }
            if node == arrived {
                found = Some(distance);
                break;
            }
            let reduced = distance + self.potentials[node as usize];
            if is_target(self, node) {
                self.reach(arrived, reduced - self.potentials[arrived as usize], (node, u32::MAX));
            }
            let [start, end] = [0, 1].map(|next| self.arc_starts[node as usize + next] as usize);
            self.work_left = self.work_left.saturating_sub((end - start) as u64 + 1);
            for arc in start..end {
                let Some((cost, _, _)) = self.cheapest(arc) else { continue };
                let to = self.arcs[arc].to;
                self.reach(to, reduced + cost - self.potentials[to as usize], (node, arc as u32));
            }
        }
        let outcome = match found {
            None => Err(Unsolved::Infeasible),
            Some(_) if self.work_left == 0 => Err(Unsolved::TooMuchWork),
            Some(distance) => {
                for &node in &self.touched {
                    let closer = self.distances[node as usize] - distance;
                    self.potentials[node as usize] += closer.min(0);
                }
                let path = self.path_to(self.previous[arrived as usize].0);
                for (from, to) in path {
                    self.carry_out(from, to);
                }
                Ok(())
            }
        };
        for node in self.touched.drain(..) {
            self.distances[node as usize] = UNREACHED;
        }
        self.queue.clear();
        outcome
    }

    fn reach(&mut self, node: u32, distance: i128, previous: (u32, u32)) {
        debug_assert!(distance >= 0, "reduced costs are not negative");
        let known = &mut self.distances[node as usize];
        if distance < *known {
            if *known == UNREACHED {
                self.touched.push(node);
            }
            *known = distance;
            self.previous[node as usize] = previous;
            self.queue.push(Reverse((distance, node)));
        }
    }

    /// The moves along the path that was found, which are of different tasks or of different copies of one.
    fn path_to(&mut self, mut node: u32) -> Vec<(u32, u32)> {
        let mut path = Vec::new();
        while let (before, arc) = self.previous[node as usize]
            && arc != u32::MAX
        {
            let (_, from, to) = self.cheapest(arc as usize).expect("the path was found along it");
            path.push((from, to));
            node = before;
        }
        path
    }

    /// The task's cheap processes that have a copy now.
    pub(super) fn taken(&self, task: usize) -> impl Iterator<Item = u32> {
        self.sites[self.sites_of(task)].iter().filter(|site| site.is_taken).map(|site| site.process)
    }

    /// How many copies of the task are still to be put anywhere.
    pub(super) fn anywhere(&self, task: usize) -> u32 {
        self.anywhere[task]
    }

    /// What all copies cost.
    pub(super) fn cost(&self) -> i128 {
        let taken: i128 = self.sites.iter().filter(|site| site.is_taken).map(|site| site.cost).sum();
        let of_task = |(&cost, &count): (&Option<i128>, &u32)| cost.unwrap_or(0) * i128::from(count);
        taken + core::iter::zip(&self.elsewhere, &self.anywhere).map(of_task).sum::<i128>()
    }
}

fn sort_and_dedup(list: &mut Vec<u32>) {
    list.sort_unstable();
    list.dedup();
}
