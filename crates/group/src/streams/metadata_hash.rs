//! The hash by which a group notices that a topic it needs was created, deleted or grew.
//!
//! XXH3-64 in two steps, stored with the group, so that a server that takes over from another computes the same. All
//! integers are little endian, a string is its UTF-16 code units and then their number as an `i32`:
//!
//! ```text
//! topic:  0x00 | id, most significant i64 | id, least significant i64 | name | i32 partition count
//!         per partition: i32 index, per rack of its replicas, sorted: i32 length of the rack | rack
//! group:  i64 topic hash of each required topic that exists, in the order of names; 0 if none exists
//! ```
//!
//! This server has one node and gives its partitions no racks.

use alloc::{collections::BTreeMap, vec::Vec};

use riparian_types::{TopicName, TopicSummary, TopicsView};
use xxhash_rust::xxh3::Xxh3;

use crate::streams::Topology;

/// Topic hashes by name, kept until a topic changes. Computing one takes time proportional to the topic's partitions.
#[derive(Debug, Default)]
pub(crate) struct TopicHashes(BTreeMap<TopicName, i64>);

impl TopicHashes {
    /// Forgets one topic's hash.
    pub(crate) fn forget(&mut self, topic: &TopicName) {
        self.0.remove(topic);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The hash of everything that the topology requires.
    pub(crate) fn group_hash(&mut self, topology: &Topology, topics: &TopicsView) -> i64 {
        let mut names: Vec<&TopicName> = topology.required_topics().collect();
        names.sort_unstable();
        names.dedup();
        let mut hasher = Xxh3::new();
        let mut any = false;
        for name in names {
            let Some(topic) = topics.topic(name) else { continue };
            let hash = self.0.entry(name.clone()).or_insert_with(|| topic_hash::<&str>(name, topic, &[]));
            hasher.update(&hash.to_le_bytes());
            any = true;
        }
        if any { hasher.digest().cast_signed() } else { 0 }
    }
}

/// The hash of one topic; `racks` holds per partition its sorted racks, and may be shorter than the topic has partitions.
fn topic_hash<S: AsRef<str>>(name: &str, topic: &TopicSummary, racks: &[&[S]]) -> i64 {
    let mut hasher = Xxh3::new();
    let (most, least) = topic.id.halves();
    hasher.update(&[0]);
    hasher.update(&most.to_le_bytes());
    hasher.update(&least.to_le_bytes());
    let length = update_utf16(&mut hasher, name);
    hasher.update(&length.to_le_bytes());
    hasher.update(&topic.partitions.0.to_le_bytes());
    for partition in 0..topic.partitions.0 {
        hasher.update(&partition.to_le_bytes());
        for rack in racks.get(partition as usize).copied().unwrap_or_default() {
            let rack = rack.as_ref();
            hasher.update(&(rack.encode_utf16().count() as i32).to_le_bytes());
            let length = update_utf16(&mut hasher, rack);
            hasher.update(&length.to_le_bytes());
        }
    }
    hasher.digest().cast_signed()
}

fn update_utf16(hasher: &mut Xxh3, text: &str) -> i32 {
    // Names are short, and a hasher is fed faster with many bytes at a time.
    let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    hasher.update(&units);
    i32::try_from(units.len() / 2).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, string::ToString};

    use riparian_types::{PartitionCount, TopicSummary, TopicsView, Uuid};

    use super::{TopicHashes, topic_hash};
    use crate::streams::{Subtopology, Topology};

    fn summary(id: Uuid, partitions: i32) -> TopicSummary {
        TopicSummary { id, partitions: PartitionCount(partitions) }
    }

    #[test]
    fn hashes_are_those_of_a_kafka_broker() {
        let topics = [
            ("words-in", "FTUt7NVOSxObVxbVtcYhWw", 7_984_333_476_384_596_525),
            ("wc-by-word-repartition", "M785epa6SjeidlJ9MAIYEg", 2_018_869_035_983_610_909),
            ("wc-counts-changelog", "ze5XfAIfSNyOpDr6M5vJhg", -3_111_383_565_317_017_440),
        ];
        let mut view = BTreeMap::new();
        for (name, id, expected) in topics {
            let topic = summary(id.parse().unwrap(), 2);
            assert_eq!(topic_hash::<&str>(name, &topic, &[]), expected, "{name}");
            view.insert(name.into(), topic);
        }
        let (most, least) = (1, 2);
        let racked = summary(Uuid::from_halves(most, least), 1);
        assert_eq!(topic_hash("t", &racked, &[&["a", "b"]]), -2_309_351_459_586_106_010);

        let view = TopicsView::new(view);
        let check = |names: &[&str], expected| {
            let source_topics = names.iter().map(|name| name.to_string().into()).collect();
            let subtopology = Subtopology { source_topics, ..Subtopology::default() };
            let topology = Topology { subtopologies: [subtopology].into(), ..Topology::default() };
            assert_eq!(TopicHashes::default().group_hash(&topology, &view), expected, "{names:?}");
        };
        check(&["words-in"], 4_211_689_887_839_959_735);
        check(&["words-in", "wc-counts-changelog", "wc-by-word-repartition"], -4_757_983_119_388_638_490);
        check(&["words-in", "missing", "words-in"], 4_211_689_887_839_959_735);
        check(&["missing"], 0);
    }
}
