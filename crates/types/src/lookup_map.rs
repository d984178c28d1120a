//! A map for look-ups by a text, in which nobody looks for an order.
//!
//! A tree compares a text with a dozen others to find one of a thousand, and each of them lies somewhere else in memory.
//! A hash leads to it at once. Up to a few entries a [`SmallMap`] is as fast and needs no room to spare.
//!
//! The order of its entries follows from the hash: what is decided must not depend on it.

use alloc::boxed::Box;
use core::{borrow::Borrow, fmt, hash::Hash, mem};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::SmallMap;

/// A map that grows beyond this hashes its keys.
const FEW_MAX: usize = 16;
/// A map that shrinks to this is ordered again: not at the first entry that goes, or one that comes and goes would move
/// all others each time.
const FEW_AGAIN: usize = FEW_MAX / 2;

/// What hashes depend on. Who chooses the keys must not know it, or could choose keys that all have the same hash.
#[derive(Clone, Copy, Default)]
pub struct HashSeed(pub u64);

/// A map for look-ups. See the module's text.
pub struct LookupMap<K, V>(Entries<K, V>);

enum Entries<K, V> {
    Few(SmallMap<K, V>),
    Many(Box<HashMap<K, V, FixedState>>),
}

use Entries::{Few, Many};

impl<K, V> LookupMap<K, V> {
    /// A map without entries.
    pub const fn new() -> Self {
        Self(Few(SmallMap::new()))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Few(entries) => entries.len(),
            Many(entries) => entries.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match &self.0 {
            Few(entries) => (Some(entries.iter()), None),
            Many(entries) => (None, Some(entries.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// All entries in any order, their values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let (few, many) = match &mut self.0 {
            Few(entries) => (Some(entries.iter_mut()), None),
            Many(entries) => (None, Some(entries.iter_mut())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }
}

impl<K: Ord + Hash, V> LookupMap<K, V> {
    /// The value of this key.
    pub fn get<Q: Ord + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match &self.0 {
            Few(entries) => entries.get(key),
            Many(entries) => entries.get(key),
        }
    }

    /// The value of this key, to be changed.
    pub fn get_mut<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match &mut self.0 {
            Few(entries) => entries.get_mut(key),
            Many(entries) => entries.get_mut(key),
        }
    }

    /// The value of this key, made if there is none. The seed counts when the map comes to have many entries.
    pub fn get_or_insert_with(&mut self, seed: HashSeed, key: K, make: impl FnOnce() -> V) -> &mut V {
        if let Few(entries) = &mut self.0
            && entries.len() >= FEW_MAX
            && !entries.contains_key(&key)
        {
            let mut many = HashMap::with_capacity_and_hasher(2 * FEW_MAX, FixedState::with_seed(seed.0));
            many.extend(mem::take(entries));
            self.0 = Many(Box::new(many));
        }
        match &mut self.0 {
            Few(entries) => entries.get_or_insert_with(key, make),
            Many(entries) => entries.entry(key).or_insert_with(make),
        }
    }

    /// Removes an entry; returns its value.
    pub fn remove<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match &mut self.0 {
            Few(entries) => entries.remove(key),
            Many(entries) => {
                let value = entries.remove(key)?;
                if entries.len() <= FEW_AGAIN {
                    self.0 = Few(entries.drain().collect());
                } else if entries.len() < entries.capacity() / 4 {
                    entries.shrink_to(entries.len() * 2);
                }
                Some(value)
            }
        }
    }
}

impl<K, V> Default for LookupMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for LookupMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use super::{FEW_AGAIN, FEW_MAX, HashSeed, LookupMap, Many};
    use crate::Prng;

    fn sorted(map: &LookupMap<u64, u64>) -> Vec<(u64, u64)> {
        let mut entries: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
        entries.sort_unstable();
        entries
    }

    #[test]
    fn it_holds_what_a_tree_holds() {
        for seed in 0..20 {
            let mut luck = Prng::new(seed);
            let keys = [4, 2 * FEW_MAX as u64, 200][seed as usize % 3];
            let (mut map, mut model) = (LookupMap::new(), BTreeMap::new());
            for step in 0..2000 {
                let key = luck.below(keys);
                // It grows and shrinks in turns.
                let grows = step / 250 % 2 == 0;
                match luck.below(8) {
                    0 => assert_eq!(map.get_mut(&key), model.get_mut(&key)),
                    1..=5 if grows => {
                        let place = map.get_or_insert_with(HashSeed(seed), key, || step);
                        assert_eq!(place, model.entry(key).or_insert(step));
                    }
                    6 => map.iter_mut().chain(&mut model).for_each(|(_, value)| *value += 1),
                    _ => assert_eq!(map.remove(&key), model.remove(&key)),
                }
                let key = luck.below(keys);
                assert_eq!(map.get(&key), model.get(&key));
                assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                assert!(sorted(&map).into_iter().eq(model.iter().map(|(key, value)| (*key, *value))));
            }
        }
    }

    #[test]
    fn it_hashes_when_there_are_many_and_gives_back_its_room() {
        let capacity = |map: &LookupMap<u64, u64>| match &map.0 {
            Many(entries) => Some(entries.capacity()),
            super::Few(_) => None,
        };
        let mut map = LookupMap::new();
        for key in 0..1000 {
            assert_eq!(capacity(&map).is_some(), map.len() > FEW_MAX);
            map.get_or_insert_with(HashSeed(1), key, || key);
        }
        for key in 0..1000 {
            map.remove(&key);
            let room = capacity(&map);
            assert_eq!(room.is_some(), map.len() > FEW_AGAIN);
            assert!(room.is_none_or(|room| room <= 5 * map.len()), "{room:?} for {}", map.len());
        }
    }
}
