//! Which topics each pattern matches, found out a slice at a time.
//!
//! Some patterns take a microsecond for each character of a name, and there may be hundreds of patterns and ten thousand
//! topics: whoever waited for all of it would wait for seconds, and so would everybody else in the shard. So a pattern
//! that is new is shown all topics in slices, and what happens to topics afterwards is news that each pattern is told
//! in slices, too. Slices are counted in characters, for a machine has no clock. Whoever has had the least of them is
//! next: what is cheap is not held up by what is not.
//!
//! **Invariant:** what a pattern is said to match is right for all topics as they were when it was last told of one; while
//! it has not seen all of them for the first time, nothing is said.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use riparian_types::{GroupId, TopicName, TopicSummary, TopicsView};

use crate::streams::{Topology, pattern::Pattern, resolve::KnownPatterns};

/// What is matched before others have their turn, in characters, which count more for patterns that may take long. It is
/// a few milliseconds at worst, and mostly a hundredth of that.
pub(crate) const SLICE_COST: u64 = 16 * 1024;
/// What a name costs besides its characters, and a pattern that is taken up: its automaton is built anew.
const NAME_COST: u64 = 8;
const PATTERN_COST: u64 = 128;

/// So much more news than there are topics is more than looking at all topics again would be.
const NEWS_MAX: usize = 4096;

/// The topics that patterns match at present, in so far as somebody asked.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    by_pattern: BTreeMap<Arc<str>, Found>,
    /// The patterns that have something left to see, and what they have cost since they had nothing.
    open: BTreeSet<(u64, Arc<str>)>,
    /// Topics that came, went or changed, and that not all patterns were told of.
    news: VecDeque<TopicName>,
    /// How much news is gone already.
    told: u64,
    /// How many topics the patterns of a group stand for.
    by_group: BTreeMap<GroupId, usize>,
    total: usize,
    /// How many names were matched, and what was spent.
    #[cfg(test)]
    pub(crate) runs: u64,
    #[cfg(test)]
    pub(crate) spent: u64,
}

/// What a pattern matches.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pattern: Arc<Pattern>,
    pub(crate) topics: BTreeSet<TopicName>,
    scan: Scan,
    /// The news that it was told, counted from the beginning.
    seen: u64,
    /// As in [`Matches::open`].
    spent: u64,
    /// Something changed that the groups were not told of.
    has_changed: bool,
}

/// How far a pattern has come with the topics that were there before.
#[derive(Debug, PartialEq, Eq)]
enum Scan {
    /// It has seen those up to this name.
    After(Option<TopicName>),
    Done,
}

impl Matches {
    /// All topics are to be looked at again.
    pub(crate) fn forget_topics(&mut self) {
        self.by_pattern.clear();
        self.open.clear();
        self.told += self.news.len() as u64;
        self.news.clear();
    }

    /// A topic has come, gone or changed: the patterns are to be told.
    pub(crate) fn tell(&mut self, topics: &TopicsView, name: &TopicName) {
        if self.by_pattern.is_empty() {
            return;
        }
        if self.open.len() < self.by_pattern.len() {
            let idle = self.by_pattern.iter().filter(|(_, found)| found.is_idle(self.told + self.news.len() as u64));
            self.open.extend(idle.map(|(text, _)| (0, Arc::clone(text))));
        }
        if self.news.len() >= topics.len() + NEWS_MAX {
            self.told += self.news.len() as u64;
            self.news.clear();
            for found in self.by_pattern.values_mut().filter(|found| found.seen < self.told) {
                found.begin(self.told);
            }
        }
        self.news.push_back(name.clone());
    }

    /// Whether some pattern has something left to see.
    pub(crate) fn has_work(&self) -> bool {
        !self.open.is_empty()
    }

    /// Has the pattern look at all topics, if it has not yet.
    pub(crate) fn begin(&mut self, known: &KnownPatterns, text: &str) {
        if self.by_pattern.contains_key(text) {
            return;
        }
        // Of groups that are gone, or that came to nothing.
        if self.by_pattern.len() >= 2 * known.len() + 16 {
            self.by_pattern.retain(|text, _| known.contains(text));
            self.open.retain(|(_, text)| known.contains(text));
        }
        let pattern = known.pattern(text);
        let mut found =
            Found { pattern, topics: BTreeSet::new(), scan: Scan::Done, seen: 0, spent: 0, has_changed: false };
        found.begin(self.told + self.news.len() as u64);
        let text: Arc<str> = text.into();
        self.open.insert((0, Arc::clone(&text)));
        self.by_pattern.insert(text, found);
    }

    /// Shows topics to this pattern, as far as `left` goes.
    pub(crate) fn look(&mut self, known: &KnownPatterns, topics: &TopicsView, text: &str, left: &mut u64) {
        let Some((text, found)) = self.by_pattern.get_key_value(text) else { return };
        let key = (found.spent, Arc::clone(text));
        if !self.open.remove(&key) {
            return;
        }
        self.go_on(topics, Arc::clone(&key.1), left);
        if known.groups(&key.1).next().is_none()
            && let Some(found) = self.by_pattern.get_mut(&key.1)
        {
            // Who asks is told at once, and nobody else is there.
            found.has_changed = false;
        } else {
            self.open.insert(key);
        }
    }

    /// Does a slice of what is to be done; the groups that may read other topics than before.
    pub(crate) fn work<'a>(&mut self, known: &'a KnownPatterns, topics: &TopicsView) -> BTreeSet<&'a GroupId> {
        let mut concerned = BTreeSet::new();
        let mut left = SLICE_COST;
        while left > 0
            && let Some((_, text)) = self.open.pop_first()
        {
            if !known.contains(&text) {
                self.by_pattern.remove(&text);
                continue;
            }
            self.go_on(topics, Arc::clone(&text), &mut left);
            if let Some(found) = self.by_pattern.get_mut(&text)
                && found.scan == Scan::Done
                && core::mem::take(&mut found.has_changed)
            {
                concerned.extend(known.groups(&text));
            }
        }
        if self.open.is_empty() {
            self.told += self.news.len() as u64;
            self.news.clear();
        }
        concerned
    }

    /// A pattern that was taken out of `open` goes on, and is put back if it is not done.
    fn go_on(&mut self, topics: &TopicsView, text: Arc<str>, left: &mut u64) {
        let Some(found) = self.by_pattern.get_mut(&text) else { return };
        let before = *left;
        spend(left, PATTERN_COST);
        #[cfg(test)]
        {
            self.runs += found.go_on(topics, &self.news, self.told, left);
            self.spent += before - *left;
        }
        #[cfg(not(test))]
        found.go_on(topics, &self.news, self.told, left);
        if found.is_idle(self.told + self.news.len() as u64) {
            found.spent = 0;
        } else {
            found.spent += before - *left;
            self.open.insert((found.spent, text));
        }
    }

    /// What the pattern matches; `None` while it has not seen all topics.
    pub(crate) fn found(&self, text: &str) -> Option<&Found> {
        self.by_pattern.get(text).filter(|found| found.scan == Scan::Done)
    }

    /// How many topics the patterns of this topology match, one that several match counted for each; `None` while that is
    /// not known.
    pub(crate) fn count_of(&self, topology: &Topology) -> Option<usize> {
        topology.patterns().map(|text| Some(self.found(text)?.topics.len())).sum()
    }

    /// The patterns of the group stand for so many topics.
    pub(crate) fn count(&mut self, group_id: &GroupId, topics: usize) {
        let before = match topics {
            0 => self.by_group.remove(group_id),
            topics => self.by_group.insert(group_id.clone(), topics),
        };
        self.total = self.total - before.unwrap_or(0) + topics;
    }

    /// How many topics the patterns of this group stand for.
    pub(crate) fn of_group(&self, group_id: &GroupId) -> usize {
        self.by_group.get(group_id).copied().unwrap_or(0)
    }

    /// How many topics the patterns of all groups stand for.
    pub(crate) const fn total(&self) -> usize {
        self.total
    }
}

impl Found {
    fn begin(&mut self, news: u64) {
        self.topics.clear();
        self.scan = Scan::After(None);
        self.seen = news;
    }

    fn is_idle(&self, news: u64) -> bool {
        self.scan == Scan::Done && self.seen == news
    }

    /// Sees what it has not seen, as far as `left` goes. Says how many names were matched.
    fn go_on(&mut self, topics: &TopicsView, news: &VecDeque<TopicName>, told: u64, left: &mut u64) -> u64 {
        // What the engine remembers goes with it: it may be much, and there may be many patterns.
        let pattern = Pattern::clone(&self.pattern);
        let mut runs = 0;
        let mut is_matched = |name: &TopicName, left: &mut u64| {
            spend(left, name.len() as u64 * pattern.weight());
            runs += 1;
            is_matched(&pattern, name)
        };
        if let Scan::After(after) = core::mem::replace(&mut self.scan, Scan::Done) {
            let rest: Box<dyn Iterator<Item = (&TopicName, &TopicSummary)>> = match &after {
                Some(after) => Box::new(topics.iter_after(after)),
                None => Box::new(topics.iter()),
            };
            let mut last: Option<&TopicName> = None;
            for (name, _) in rest {
                if *left == 0 {
                    self.scan = Scan::After(last.or(after.as_ref()).cloned());
                    return runs;
                }
                spend(left, NAME_COST);
                if is_matched(name, left) {
                    self.topics.insert(name.clone());
                }
                last = Some(name);
            }
            self.has_changed = true;
        }
        while *left > 0
            && let Some(name) = usize::try_from(self.seen - told).ok().and_then(|index| news.get(index))
        {
            self.seen += 1;
            spend(left, NAME_COST);
            self.has_changed |= match topics.topic(name) {
                None => self.topics.remove(name),
                Some(_) => self.topics.contains(name) || is_matched(name, left) && self.topics.insert(name.clone()),
            };
        }
        runs
    }
}

const fn spend(left: &mut u64, cost: u64) {
    *left = left.saturating_sub(cost);
}

/// Whether the pattern stands for a topic of this name.
pub(crate) fn is_matched(pattern: &Pattern, topic: &str) -> bool {
    !topic.starts_with("__") && pattern.is_match(topic)
}
