//! What members of classic groups tell each other through the server, which hands it on unread.
//!
//! ```text
//! subscription: version i16 0, topics (i32 count, each i16 length and bytes), user data (i32 length and bytes)
//! assignment:   version i16 0, topics (i32 count, each name and i32 count of i32 partitions), user data
//! ```
//!
//! The user data is a line of text: of a subscription how often the member changed it, what it reads at present and since
//! which generation; of an assignment for whom it is, of which generation, and a number that only one sync of one leader
//! has.

use std::{collections::BTreeSet, fmt::Write as _};

use riparian_wire::Reader;

/// What a member says about itself when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) topic: String,
    /// Changes when it wants the group to assign anew.
    pub(crate) wish: u64,
    /// The generation of the assignment that it goes on with; -1 for none.
    pub(crate) generation: i32,
    pub(crate) owned: BTreeSet<i32>,
}

/// What the leader gives to one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) topic: String,
    pub(crate) generation: i32,
    /// Of the leader's sync.
    pub(crate) number: u64,
    pub(crate) member: String,
    /// Empty if it has none.
    pub(crate) instance: String,
    pub(crate) partitions: BTreeSet<i32>,
}

impl Subscription {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, 0, 1];
        put_string(&mut bytes, &self.topic);
        let mut text = format!("{} {}", self.wish, self.generation);
        for partition in &self.owned {
            let written = write!(text, " {partition}");
            debug_assert!(written.is_ok(), "a string takes everything");
        }
        put_text(&mut bytes, &text);
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        reader.int16().ok()?;
        let topic = reader.strings(false).ok()?.first()?.to_string();
        let text = reader.bytes(false).ok()?;
        let mut words = std::str::from_utf8(&text).ok()?.split(' ');
        let wish = words.next()?.parse().ok()?;
        let mut words = words.map(str::parse);
        let generation = words.next()?.ok()?;
        Some(Self { topic, wish, generation, owned: words.collect::<Result<_, _>>().ok()? })
    }
}

impl Given {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, 0, 1];
        put_string(&mut bytes, &self.topic);
        bytes.extend((self.partitions.len() as i32).to_be_bytes());
        self.partitions.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
        let Self { generation, number, member, instance, .. } = self;
        put_text(&mut bytes, &format!("{generation} {number} {member} {instance}"));
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        reader.int16().ok()?;
        reader.int32().ok().filter(|count| *count == 1)?;
        let topic = reader.string(false).ok()?.into_owned();
        let count = reader.int32().ok()?;
        let partitions = (0..count).map(|_| reader.int32().ok()).collect::<Option<_>>()?;
        let text = reader.bytes(false).ok()?;
        let mut words = std::str::from_utf8(&text).ok()?.split(' ');
        let (generation, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (member, instance) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Self { topic, generation, number, member, instance, partitions })
    }

    /// Whether it is for this member: by its id, or because it took the place of another with its instance id.
    pub(crate) fn is_for(&self, member: &str, instance: Option<&str>) -> bool {
        self.member == member || instance.is_some_and(|instance| instance == self.instance)
    }
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as i16).to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as i32).to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// Shares `partitions` out among members as evenly as it can be, with as few changes as possible. A partition that
/// somebody else still reads is given to nobody, so that it has to be given back first.
///
/// Members come with what they say, in the order of their ids.
pub(crate) fn share_out(partitions: i32, members: &[Subscription]) -> Vec<BTreeSet<i32>> {
    let count = members.len().max(1);
    let (least, with_one_more) = (partitions as usize / count, partitions as usize % count);
    let owner = |partition: &i32| {
        let owners = members.iter().enumerate().filter(|(_, member)| member.owned.contains(partition));
        owners.max_by_key(|(_, member)| member.generation).map(|(index, _)| index)
    };
    let owners: Vec<Option<usize>> = (0..partitions).map(|partition| owner(&partition)).collect();
    let mut target: Vec<BTreeSet<i32>> = Vec::with_capacity(members.len());
    let mut full = 0;
    for (index, member) in members.iter().enumerate() {
        let most = if full < with_one_more { least + 1 } else { least };
        let kept = member.owned.iter().filter(|partition| {
            usize::try_from(**partition).is_ok_and(|place| owners.get(place).is_some_and(|owner| *owner == Some(index)))
        });
        let kept: BTreeSet<i32> = kept.take(most).copied().collect();
        full += usize::from(kept.len() > least);
        target.push(kept);
    }
    let taken: BTreeSet<i32> = target.iter().flatten().copied().collect();
    let mut free: Vec<i32> = (0..partitions).rev().filter(|partition| !taken.contains(partition)).collect();
    for most in [least, least + 1] {
        for (index, given) in target.iter_mut().enumerate() {
            while given.len() < most && (most == least || full < with_one_more) {
                let Some(partition) = free.pop() else { break };
                full += usize::from(given.len() + 1 > least);
                // Its owner has to give it back before another may have it.
                let is_free = owners[partition as usize].is_none_or(|owner| owner == index);
                given.insert(if is_free { partition } else { -1 - partition });
            }
        }
    }
    target.iter_mut().for_each(|given| given.retain(|partition| *partition >= 0));
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(generation: i32, owned: &[i32]) -> Subscription {
        Subscription { topic: "in".to_owned(), wish: 2, generation, owned: owned.iter().copied().collect() }
    }

    #[test]
    fn what_is_said_is_read_as_it_was_said() {
        for said in [subscription(-1, &[]), subscription(7, &[0, 3, 12])] {
            assert_eq!(Subscription::of_bytes(&said.to_bytes()), Some(said));
        }
        let (member, instance) = ("m-1".to_owned(), String::new());
        let given = Given {
            topic: "in".to_owned(),
            generation: 3,
            number: 5,
            member,
            instance,
            partitions: BTreeSet::from([1, 2]),
        };
        assert_eq!(Given::of_bytes(&given.to_bytes()), Some(given));
        assert_eq!(Given::of_bytes(b""), None);
    }

    #[test]
    fn partitions_are_shared_out_evenly_and_move_only_when_they_are_free() {
        let check = |partitions, owned: &[&[i32]], expected: &[&[i32]]| {
            let members: Vec<Subscription> = owned.iter().map(|owned| subscription(1, owned)).collect();
            let expected: Vec<BTreeSet<i32>> = expected.iter().map(|given| given.iter().copied().collect()).collect();
            assert_eq!(share_out(partitions, &members), expected, "{owned:?}");
        };
        check(5, &[&[], &[]], &[&[0, 1, 4], &[2, 3]]);
        check(4, &[&[0, 1, 2, 3], &[]], &[&[0, 1], &[]]);
        check(4, &[&[0, 1], &[]], &[&[0, 1], &[2, 3]]);
        check(5, &[&[0, 1], &[2, 3, 4]], &[&[0, 1], &[2, 3, 4]]);
        check(2, &[&[], &[1], &[]], &[&[0], &[1], &[]]);
    }

    #[test]
    fn of_two_that_say_that_they_read_a_partition_the_newer_one_does() {
        let members = [subscription(3, &[0]), subscription(5, &[0]), subscription(5, &[1])];
        assert_eq!(share_out(2, &members), [BTreeSet::new(), BTreeSet::from([0]), BTreeSet::from([1])]);
    }
}
