//! The versions of an application: the topology that its members bring along, and what the tasks of that are.
//!
//! All versions read the same few topics. The second one gains a subtopology; the third one numbers them anew, so that a
//! task's name means something else; the fourth reads another topic; the fifth has another number of partitions to
//! repartition to. Internal topics that differ between versions have names of their own: no version makes another one's
//! wrong.

use std::collections::{BTreeMap, BTreeSet};

use riparian_group::streams::Topology;
use riparian_protocol::messages::streams_group_heartbeat_request as req;

use crate::{options::GroupOptions, oracle::Task};

/// How many versions an application can have.
pub(crate) const VERSIONS: u32 = 5;

/// The topic that every group reads.
pub(crate) fn source_topic(group: &str) -> String {
    format!("{group}-in")
}

/// The topic that some versions of an application read beside that, or in its place.
pub(crate) fn rest_topic(group: &str) -> String {
    format!("{group}-rest")
}

/// One of the topics that some versions read by a pattern; the first of them is always there.
pub(crate) fn extra_topic(group: &str, number: u64) -> String {
    format!("{group}-extra{number}")
}

/// One version of an application.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// What the topology says of its age; 0 always, as with real clients, or rising.
    pub(crate) epoch: i32,
    subtopologies: Vec<Subtopology>,
}

/// A part of it; its id is its place.
#[derive(Clone, Debug)]
struct Subtopology {
    reads: Reads,
    /// The repartition topic that it writes.
    sink: Option<String>,
    changelog: Option<String>,
}

#[derive(Clone, Debug)]
enum Reads {
    /// Topics by their names.
    Topics(Vec<String>),
    /// Topics by a pattern: those whose names begin like this, and are longer.
    Pattern(String, String),
    /// A repartition topic with so many partitions, or as many as the topic has that is written to it.
    Repartition(String, Result<i32, String>),
}

impl Version {
    /// The version of this number.
    pub(crate) fn of(group: &GroupOptions, number: u32) -> Self {
        let name = &group.name;
        let (source, rest) = (source_topic(name), rest_topic(name));
        let main = match group.by_pattern {
            // Of all topics of the run it matches the source alone.
            true => Reads::Pattern(format!("{name}-[^rc]+"), source.clone()),
            false => Reads::Topics(vec![source.clone()]),
        };
        let chain = |main: Reads, suffix: &str, count: Result<i32, String>| match group.is_stateful {
            true => {
                let (repartition, changelog) = (format!("{name}-r{suffix}"), format!("{name}-c{suffix}"));
                let first = Subtopology { reads: main, sink: Some(repartition.clone()), changelog: None };
                let reads = Reads::Repartition(repartition, count);
                vec![first, Subtopology { reads, sink: None, changelog: Some(changelog) }]
            }
            false => vec![Subtopology { reads: main, sink: None, changelog: None }],
        };
        let plain = |reads: Reads| Subtopology { reads, sink: None, changelog: None };
        let as_source = || Err(source.clone());
        let subtopologies = match number {
            0 => chain(main, "", as_source()),
            1 => {
                let extra = Reads::Pattern(format!("{name}-extra[0-9]+"), format!("{name}-extra"));
                let gained = [Reads::Topics(vec![rest]), extra].map(plain);
                chain(main, "", as_source()).into_iter().chain(gained).collect()
            }
            2 => [plain(Reads::Topics(vec![rest]))].into_iter().chain(chain(main, "", as_source())).collect(),
            3 => chain(Reads::Topics(vec![rest]), "-rest", Ok(group.repartition_partitions)),
            _ if group.is_stateful => chain(main, "-wide", Ok(group.repartition_partitions + 1)),
            _ => vec![plain(Reads::Topics(vec![source, rest]))],
        };
        let epoch = if group.epochs_rise { number as i32 } else { 0 };
        Self { epoch, subtopologies }
    }

    /// What a member sends when it joins.
    pub(crate) fn topology(&self) -> req::Topology<'static> {
        let internal = |name: &String, partitions: i32| req::TopicInfo {
            name: name.clone().into(),
            partitions,
            replication_factor: -1,
            ..Default::default()
        };
        let subtopologies = self.subtopologies.iter().enumerate().map(|(id, subtopology)| {
            let mut sent = req::Subtopology {
                subtopology_id: id.to_string().into(),
                repartition_sink_topics: subtopology.sink.iter().map(|sink| sink.clone().into()).collect(),
                state_changelog_topics: subtopology.changelog.iter().map(|name| internal(name, 0)).collect(),
                ..Default::default()
            };
            match &subtopology.reads {
                Reads::Topics(names) => sent.source_topics = names.iter().map(|name| name.clone().into()).collect(),
                Reads::Pattern(pattern, _) => sent.source_topic_regex = vec![pattern.clone().into()],
                Reads::Repartition(name, count) => {
                    let partitions = count.as_ref().map_or(0, |count| *count);
                    sent.repartition_source_topics = vec![internal(name, partitions)];
                }
            }
            sent
        });
        req::Topology { epoch: self.epoch, subtopologies: subtopologies.collect(), ..Default::default() }
    }

    /// Whether a stored topology is this one.
    pub(crate) fn is_stored(&self, stored: &Topology) -> bool {
        let sent = self.topology();
        stored.epoch.0 == sent.epoch
            && stored.subtopologies.len() == sent.subtopologies.len()
            && sent.subtopologies.iter().all(|sent| {
                stored.subtopologies.iter().any(|stored| {
                    let topics = stored.source_topics.iter().map(|name| name.as_str());
                    let patterns = stored.source_topic_regex.iter().map(String::as_str);
                    let repartition = stored.repartition_source_topics.iter();
                    stored.id.as_str() == sent.subtopology_id
                        && topics.eq(sent.source_topics.iter().map(|name| &**name))
                        && patterns.eq(sent.source_topic_regex.iter().map(|pattern| &**pattern))
                        && repartition
                            .map(|topic| (topic.name.as_str(), topic.partitions))
                            .eq(sent.repartition_source_topics.iter().map(|topic| (&*topic.name, topic.partitions)))
                })
            })
    }

    /// Whether it has this subtopology.
    pub(crate) fn has(&self, task: &Task) -> bool {
        (task.subtopology as usize) < self.subtopologies.len()
    }

    /// The source topics whose offsets a task commits, by their names.
    pub(crate) fn committed_by(&self, task: &Task) -> Vec<String> {
        match self.subtopologies.get(task.subtopology as usize).map(|subtopology| &subtopology.reads) {
            Some(Reads::Topics(names)) => names.clone(),
            Some(Reads::Pattern(_, begin)) if begin.ends_with("-extra") => vec![format!("{begin}0")],
            Some(Reads::Pattern(_, name)) => vec![name.clone()],
            Some(Reads::Repartition(..)) | None => Vec::new(),
        }
    }

    /// All its tasks, with topics of these partition counts.
    pub(crate) fn tasks(&self, topics: &BTreeMap<String, i32>) -> BTreeSet<Task> {
        let count = |name: &String| topics.get(name).copied().unwrap_or(0);
        let tasks = self.subtopologies.iter().zip(0..).flat_map(|(subtopology, id)| {
            let partitions = match &subtopology.reads {
                Reads::Topics(names) => names.iter().map(count).max().unwrap_or(0),
                Reads::Pattern(_, begin) => {
                    let is_matched = |(name, _): &(&String, &i32)| match begin.ends_with("-extra") {
                        true => name.starts_with(begin.as_str()),
                        false => *name == begin,
                    };
                    topics.iter().filter(is_matched).map(|(_, count)| *count).max().unwrap_or(0)
                }
                Reads::Repartition(_, Ok(count)) => *count,
                Reads::Repartition(_, Err(source)) => count(source),
            };
            (0..partitions).map(move |partition| Task { subtopology: id, partition })
        });
        tasks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_and_know_their_own_tasks() {
        let group = |is_stateful, by_pattern| GroupOptions {
            name: "app0".to_owned(),
            members: 1,
            processes: 1,
            one_in_static: 0,
            partitions: 3,
            is_stateful,
            by_pattern,
            versions: VERSIONS,
            epochs_rise: false,
            obeys_statuses: false,
            rest_partitions: 2,
            repartition_partitions: 5,
        };
        let counts = [("app0-in", 3), ("app0-rest", 2), ("app0-extra0", 1), ("app0-extra7", 4), ("app1-in", 9)];
        let topics = counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        for by_pattern in [false, true] {
            let count =
                |is_stateful: bool, number| Version::of(&group(is_stateful, by_pattern), number).tasks(&topics).len();
            assert_eq!([0, 1, 2, 3, 4].map(|number| count(true, number)), [6, 12, 8, 7, 9]);
            assert_eq!([0, 1, 2, 3, 4].map(|number| count(false, number)), [3, 9, 5, 2, 3]);
            let sent = |number| Version::of(&group(true, by_pattern), number).topology();
            for (one, other) in (0..VERSIONS).flat_map(|one| (0..one).map(move |other| (one, other))) {
                assert_ne!(sent(one), sent(other), "versions {one} and {other}");
            }
        }
    }
}
