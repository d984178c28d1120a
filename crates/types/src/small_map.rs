//! An ordered map for many maps that mostly have few entries.
//!
//! Up to [`FEW_MAX`] entries lie in a sorted array with hardly any room to spare; a map with more is a [`BTreeMap`], whose
//! smallest node has room for eleven entries however few there are. Which of both it is shows nowhere.

use alloc::{
    collections::{BTreeMap, btree_map},
    vec::{self, Vec},
};
use core::{borrow::Borrow, fmt, iter, mem};

/// A map that grows beyond this becomes a tree.
const FEW_MAX: usize = 16;
/// A tree that shrinks to this becomes an array again: not at the first entry that goes, or one that comes and goes
/// would move all others each time.
const FEW_AGAIN: usize = FEW_MAX / 2;
/// For how many entries more an array gets room. Who has one mostly comes to have two, and what many arrays for one have
/// left behind by then is of no use to anybody.
const ROOM: usize = 2;

/// An ordered map. See the module's text.
#[derive(Clone)]
pub struct SmallMap<K, V>(Entries<K, V>);

#[derive(Clone)]
enum Entries<K, V> {
    Few(Vec<(K, V)>),
    Many(BTreeMap<K, V>),
}

use Entries::{Few, Many};

impl<K, V> SmallMap<K, V> {
    /// A map without entries.
    pub const fn new() -> Self {
        Self(Few(Vec::new()))
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

    /// All entries, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match &self.0 {
            Few(entries) => (entries.as_slice(), None),
            Many(entries) => (Default::default(), Some(entries)),
        };
        few.iter().map(|(key, value)| (key, value)).chain(many.into_iter().flatten())
    }

    /// All entries, ordered by key, their values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let (few, many) = match &mut self.0 {
            Few(entries) => (entries.as_mut_slice(), None),
            Many(entries) => (Default::default(), Some(entries)),
        };
        few.iter_mut().map(|(key, value)| (&*key, value)).chain(many.into_iter().flatten())
    }

    /// All keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All values in the order of their keys, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    /// The value of this key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match &self.0 {
            Few(entries) => find(entries, key).ok().map(|index| &entries[index].1),
            Many(entries) => entries.get(key),
        }
    }

    /// The value of this key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match &mut self.0 {
            Few(entries) => find(entries, key).ok().map(|index| &mut entries[index].1),
            Many(entries) => entries.get_mut(key),
        }
    }

    /// The key itself, as it was inserted.
    pub fn stored_key<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        match &self.0 {
            Few(entries) => find(entries, key).ok().map(|index| &entries[index].0),
            Many(entries) => entries.get_key_value(key).map(|(key, _)| key),
        }
    }

    /// Whether there is an entry of this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The value of this key, made if there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if let Few(entries) = &mut self.0
            && entries.len() >= FEW_MAX
            && find(entries, &key).is_err()
        {
            self.0 = Many(mem::take(entries).into_iter().collect());
        }
        match &mut self.0 {
            Few(entries) => {
                let index = find(entries, &key).unwrap_or_else(|index| {
                    if entries.len() == entries.capacity() {
                        entries.reserve_exact(ROOM);
                    }
                    entries.insert(index, (key, make()));
                    index
                });
                &mut entries[index].1
            }
            Many(entries) => entries.entry(key).or_insert_with(make),
        }
    }

    /// Adds or replaces an entry; returns the value that was replaced.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let mut value = Some(value);
        let place = self.get_or_insert_with(key, || value.take().expect("called once at most"));
        value.map(|value| mem::replace(place, value))
    }

    /// Removes an entry; returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match &mut self.0 {
            Few(entries) => {
                let (_, value) = entries.remove(find(entries, key).ok()?);
                if entries.capacity() - entries.len() >= ROOM {
                    entries.shrink_to_fit();
                }
                Some(value)
            }
            Many(entries) => {
                let value = entries.remove(key)?;
                if entries.len() <= FEW_AGAIN {
                    let mut few = Vec::with_capacity(entries.len());
                    few.extend(mem::take(entries));
                    self.0 = Few(few);
                }
                Some(value)
            }
        }
    }
}

fn find<K: Borrow<Q>, V, Q: Ord + ?Sized>(entries: &[(K, V)], key: &Q) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| other.borrow().cmp(key))
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> IntoIterator for SmallMap<K, V> {
    type Item = (K, V);
    type IntoIter = iter::Chain<vec::IntoIter<(K, V)>, btree_map::IntoIter<K, V>>;

    /// All entries, ordered by key.
    fn into_iter(self) -> Self::IntoIter {
        let (few, many) = match self.0 {
            Few(entries) => (entries, BTreeMap::new()),
            Many(entries) => (Vec::new(), entries),
        };
        few.into_iter().chain(many)
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SmallMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SmallMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for SmallMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SmallMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::{FEW_AGAIN, FEW_MAX, Few, ROOM, SmallMap};
    use crate::Prng;

    fn check_same(map: &mut SmallMap<u64, u64>, model: &mut BTreeMap<u64, u64>) {
        assert_eq!(map.len(), model.len());
        assert_eq!(map.is_empty(), model.is_empty());
        assert!(map.iter().eq(model.iter()), "{map:?} {model:?}");
        assert!(map.iter_mut().eq(model.iter_mut()));
        assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
    }

    #[test]
    fn it_is_what_a_tree_is() {
        for seed in 0..20 {
            let mut luck = Prng::new(seed);
            let keys = [4, 2 * FEW_MAX as u64, 200][seed as usize % 3];
            let (mut map, mut model) = (SmallMap::new(), BTreeMap::new());
            for step in 0..2000 {
                let key = luck.below(keys);
                // It grows and shrinks in turns.
                let grows = step / 250 % 2 == 0;
                match luck.below(8) {
                    0 => assert_eq!(map.get_mut(&key), model.get_mut(&key)),
                    1 => assert_eq!(map.get_or_insert_with(key, || step), model.entry(key).or_insert(step)),
                    2..=5 if grows => assert_eq!(map.insert(key, step), model.insert(key, step)),
                    _ => assert_eq!(map.remove(&key), model.remove(&key)),
                }
                let key = luck.below(keys);
                assert_eq!(map.get(&key), model.get(&key));
                assert_eq!(map.stored_key(&key), model.get_key_value(&key).map(|(key, _)| key));
                assert_eq!(map.contains_key(&key), model.contains_key(&key));
                check_same(&mut map, &mut model);
            }
            let again: SmallMap<u64, u64> = model.into_iter().rev().collect();
            assert_eq!(again, map);
        }
    }

    #[test]
    fn few_have_hardly_any_room_to_spare() {
        let check_room = |map: &SmallMap<u64, u64>, are_few: bool| match &map.0 {
            Few(entries) => assert!(are_few && entries.capacity() - entries.len() < ROOM, "{map:?}"),
            super::Many(_) => assert!(!are_few, "{map:?}"),
        };
        let mut map = SmallMap::new();
        for key in 0..=FEW_MAX as u64 {
            check_room(&map, true);
            map.insert(key, key);
        }
        check_room(&map, false);
        for key in 0..=FEW_MAX as u64 {
            map.remove(&key);
            check_room(&map, map.len() <= FEW_AGAIN);
        }
    }
}
