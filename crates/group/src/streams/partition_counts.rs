//! How many partitions the internal topics of a topology must have.
//!
//! A pure function of the topology and the topics that exist; the same counts on every server, since they end up in
//! topics. It deliberately does not know whether the internal topics exist with other counts: that is checked by
//! [`super::configured`].

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use riparian_types::{TopicName, TopicsView};

use crate::streams::{CopartitionGroup, InternalTopic, Subtopology, Topology, configured::some_of};

/// Topics that a text lists one by one.
const TOPICS_LISTED_MAX: usize = 10;

/// Why there are no counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CountsError {
    /// The topology can't be run, whatever the topics.
    InvalidTopology(String),
    /// Topics that must agree don't.
    IncorrectlyPartitioned(String),
}

use CountsError::{IncorrectlyPartitioned, InvalidTopology};

/// Decides the counts of all repartition topics and changelogs. All source topics must exist.
pub(super) fn decide<'a>(
    topology: &'a Topology,
    topics: &TopicsView,
) -> Result<BTreeMap<&'a TopicName, i32>, CountsError> {
    let subtopologies = in_order(topology);
    let mut counts = fixed_counts(&subtopologies);
    let fixed = counts.clone();
    fill_repartition_sinks(&subtopologies, topics, &mut counts)?;
    for subtopology in &subtopologies {
        for group in &subtopology.copartition_groups {
            enforce_copartitioning(subtopology, group, topics, &fixed, &mut counts)?;
        }
    }
    for subtopology in &subtopologies {
        let inputs = input_counts(subtopology, topics, &counts);
        let Some(count) = inputs.max() else {
            return Err(InvalidTopology(format!(
                "Subtopology {} has no source topics, so the number of its tasks is not known.",
                subtopology.id
            )));
        };
        counts.extend(subtopology.state_changelog_topics.iter().map(|changelog| (&changelog.name, count)));
    }
    Ok(counts)
}

/// The subtopologies in the order of their ids, which decides where the outcome depends on an order.
fn in_order(topology: &Topology) -> Vec<&Subtopology> {
    let mut subtopologies: Vec<&Subtopology> = topology.subtopologies.iter().collect();
    subtopologies.sort_by(|a, b| a.id.cmp(&b.id));
    subtopologies
}

fn repartition_sources<'a>(subtopologies: &[&'a Subtopology]) -> impl Iterator<Item = &'a InternalTopic> {
    subtopologies.iter().flat_map(|subtopology| &subtopology.repartition_source_topics)
}

fn fixed_counts<'a>(subtopologies: &[&'a Subtopology]) -> BTreeMap<&'a TopicName, i32> {
    let fixed = repartition_sources(subtopologies).filter(|topic| topic.partitions != 0);
    fixed.map(|topic| (&topic.name, topic.partitions)).collect()
}

/// The known counts of what a subtopology reads.
fn input_counts(
    subtopology: &Subtopology,
    topics: &TopicsView,
    counts: &BTreeMap<&TopicName, i32>,
) -> impl Iterator<Item = i32> {
    let external = subtopology.source_topics.iter().filter_map(|name| actual_count(name, topics));
    let internal = subtopology.repartition_source_topics.iter().filter_map(|topic| counts.get(&topic.name).copied());
    external.chain(internal)
}

fn actual_count(name: &str, topics: &TopicsView) -> Option<i32> {
    topics.topic(name).map(|topic| topic.partitions.0)
}

/// A repartition topic has as many partitions as the widest input of a subtopology that writes it, as far as counts are
/// known when its turn comes.
fn fill_repartition_sinks<'a>(
    subtopologies: &[&'a Subtopology],
    topics: &TopicsView,
    counts: &mut BTreeMap<&'a TopicName, i32>,
) -> Result<(), CountsError> {
    loop {
        let mut open = BTreeSet::new();
        let mut progress = false;
        for subtopology in subtopologies {
            let mut sinks =
                subtopology.repartition_sink_topics.iter().filter(|sink| !counts.contains_key(sink)).peekable();
            // Looking at what it reads may take long.
            let widest = sinks.peek().and_then(|_| input_counts(subtopology, topics, counts).max());
            let sinks: Vec<_> = sinks.collect();
            for sink in sinks {
                match widest {
                    Some(count) => {
                        counts.insert(sink, count);
                        progress = true;
                    }
                    None => {
                        open.insert(sink);
                    }
                }
            }
        }
        if open.is_empty() {
            break;
        }
        if !progress {
            let open: Vec<&str> = open.into_iter().map(TopicName::as_str).collect();
            return Err(InvalidTopology(format!(
                "The numbers of partitions of the repartition topics {} depend on each other in a loop; one of them \
                 must be fixed.",
                open.join(", ")
            )));
        }
    }
    match repartition_sources(subtopologies).find(|topic| !counts.contains_key(&topic.name)) {
        Some(topic) => Err(InvalidTopology(format!(
            "Repartition topic {} is written by no subtopology and has no fixed number of partitions; one of both is \
             needed.",
            topic.name
        ))),
        None => Ok(()),
    }
}

/// Makes the topics of one copartition group agree, or says which don't.
fn enforce_copartitioning<'a>(
    subtopology: &'a Subtopology,
    group: &CopartitionGroup,
    topics: &TopicsView,
    fixed: &BTreeMap<&'a TopicName, i32>,
    counts: &mut BTreeMap<&'a TopicName, i32>,
) -> Result<(), CountsError> {
    let index_error = || InvalidTopology(format!("A copartition group of {} has an index too large.", subtopology.id));
    let at = |index: &i16| usize::try_from(*index).ok();
    let external: Option<Vec<&TopicName>> =
        group.source_topics.iter().map(|index| subtopology.source_topics.get(at(index)?)).collect();
    let internal: Option<Vec<&'a InternalTopic>> = group
        .repartition_source_topics
        .iter()
        .map(|index| subtopology.repartition_source_topics.get(at(index)?))
        .collect();
    let (external, internal) = (external.ok_or_else(index_error)?, internal.ok_or_else(index_error)?);
    let count = if !external.is_empty() {
        let actual = external.iter().map(|&name| (name, actual_count(name, topics).unwrap_or(0)));
        common_count(actual)?
    } else if !fixed.is_empty() && !internal.is_empty() {
        common_count(fixed.iter().map(|(&name, &count)| (name, count)))?
    } else {
        let known = |topic: &&InternalTopic| {
            actual_count(&topic.name, topics).or_else(|| counts.get(&topic.name).copied()).unwrap_or(0)
        };
        internal.iter().map(known).max()
    };
    let Some(count) = count else { return Ok(()) };
    if count == 0 {
        return Err(InvalidTopology(format!(
            "No number of partitions is known for the copartitioned topics of subtopology {}.",
            subtopology.id
        )));
    }
    for topic in internal {
        if topic.partitions != 0 && topic.partitions != count {
            // Applications see this in an exception, and Kafka's own tests look for these words in it.
            return Err(IncorrectlyPartitioned(format!(
                "Number of partitions [{}] of repartition topic [{}] doesn't match number of partitions [{count}] of \
                 the source topic.",
                topic.partitions, topic.name
            )));
        }
        counts.insert(&topic.name, count);
    }
    Ok(())
}

/// The count that all have; `None` if there are none.
fn common_count<'a>(counts: impl Iterator<Item = (&'a TopicName, i32)>) -> Result<Option<i32>, CountsError> {
    let counts: BTreeMap<&TopicName, i32> = counts.collect();
    let distinct: BTreeSet<i32> = counts.values().copied().collect();
    if distinct.len() > 1 {
        return Err(IncorrectlyPartitioned(format!(
            "Topics that are joined must have the same number of partitions, but have: {}",
            listed(&counts, &distinct)
        )));
    }
    Ok(distinct.first().copied())
}

/// Topics with their counts; of many, some of each count.
fn listed(counts: &BTreeMap<&TopicName, i32>, distinct: &BTreeSet<i32>) -> String {
    let some: Vec<String> = match counts.len() <= TOPICS_LISTED_MAX {
        true => counts.iter().map(|(name, count)| format!("{name}={count}")).collect(),
        false => {
            let of = |count: i32| counts.iter().filter(move |(_, it)| **it == count).map(|(name, _)| name.as_str());
            distinct
                .iter()
                .take(TOPICS_LISTED_MAX)
                .map(|&count| format!("{count} in {}", some_of(of(count).collect())))
                .collect()
        }
    };
    some.join(if counts.len() <= TOPICS_LISTED_MAX { ", " } else { "; " })
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

    use riparian_types::{PartitionCount, TopicSummary, TopicsView, Uuid};

    use super::{CountsError, decide};
    use crate::tests::topology;

    /// `topics` is "name=count ...", `expected` the counts in the same form, or what the error's text contains.
    fn check(script: &str, topics: &str, expected: Result<&str, &str>) {
        let view = topics.split_whitespace().map(|topic| {
            let (name, count) = topic.split_once('=').unwrap();
            let partitions = PartitionCount(count.parse().unwrap());
            (name.into(), TopicSummary { id: Uuid::from_halves(1, 1), partitions })
        });
        let view = TopicsView::new(view.collect::<BTreeMap<_, _>>());
        let topology = topology(script);
        let actual = decide(&topology, &view).map(|counts| {
            let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
            counts.join(" ")
        });
        match (actual, expected) {
            (Ok(actual), Ok(expected)) => assert_eq!(actual, expected, "{script}"),
            (Err(error), Err(expected)) => {
                let text = match error {
                    CountsError::InvalidTopology(text) => format!("invalid: {text}"),
                    CountsError::IncorrectlyPartitioned(text) => format!("incorrect: {text}"),
                };
                assert!(text.contains(expected), "{script}: {text}");
            }
            (actual, _) => panic!("{script}: {actual:?}"),
        }
    }

    #[test]
    fn sinks_take_the_widest_known_input() {
        check("0: in > r / 1: ~r +c", "in=3", Ok("c=3 r=3"));
        check("0: a b > r / 1: ~r +c", "a=3 b=5", Ok("c=5 r=5"));
        check("0: ~q > r / 1: in > q / 2: ~r", "in=4", Ok("q=4 r=4"));
        check("0: in > r / 1: ~r:7 +c", "in=3", Ok("c=7 r=7"));
        check("0: in ~r > r", "in=2", Ok("r=2"));
    }

    #[test]
    fn loops_and_orphans_are_invalid() {
        check("0: ~q > r / 1: ~r > q", "", Err("invalid: The numbers of partitions of the repartition topics q, r"));
        check("0: in / 1: ~r", "in=1", Err("invalid: Repartition topic r is written by no"));
        check("0: +c", "", Err("invalid: Subtopology 0 has no source topics"));
        check("0:", "", Err("invalid: Subtopology 0 has no source topics"));
    }

    #[test]
    fn copartitioned_topics_agree() {
        check("0: a b = a b", "a=2 b=2", Ok(""));
        check(
            "0: a b = a b",
            "a=2 b=1",
            Err("incorrect: Topics that are joined must have the same number of partitions, but have: a=2, b=1"),
        );
        check(
            "0: a b c d e f g h i j k = a b c d e f g h i j k",
            "a=2 b=1 c=2 d=2 e=2 f=2 g=2 h=2 i=2 j=2 k=2",
            Err(
                "incorrect: Topics that are joined must have the same number of partitions, but have: 1 in b; 2 in a, c, d \
                 and 7 more",
            ),
        );
        check("0: x > r / 1: a ~r = a r", "x=9 a=4", Ok("r=4"));
        check(
            "0: x > r / 1: a ~r:3 = a r",
            "x=9 a=4",
            Err("incorrect: Number of partitions [3] of repartition topic [r] doesn't match number of partitions [4]"),
        );
        check("0: x > r / 0b: y > s / 1: ~r ~s = r s", "x=2 y=6", Ok("r=6 s=6"));
        check("0: x > r / 0b: y > s / 1: ~r:3 ~s = r s", "x=2 y=6", Ok("r=3 s=3"));
        check("0: x > r s / 1: ~r:3 ~s:4 = r s", "x=2", Err("incorrect: Topics that are joined"));
        check("0: x > r / 1: ~r = r", "x=2 r=5", Ok("r=5"));
        check("0: a =", "a=2", Ok(""));
    }
}
