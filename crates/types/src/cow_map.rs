//! An ordered map whose clones share what they have in common.
//!
//! Readers keep a clone and look things up without a lock while the owner goes on changing its own. The entries lie in
//! sorted chunks: a change copies one chunk and the list of chunks, and only if a clone still shares them, so that a
//! change after a clone costs O(sqrt n) and a batch of changes copies each chunk once.

use alloc::{sync::Arc, vec::Vec};
use core::{borrow::Borrow, fmt};

/// A chunk that grows beyond this is split in two.
const CHUNK_ENTRIES_MAX: usize = 128;

/// An ordered map with cheap clones. See the module's text.
#[derive(Clone)]
pub struct CowMap<K, V> {
    /// None of them empty.
    chunks: Arc<Vec<Arc<Chunk<K, V>>>>,
    len: usize,
}

/// Entries in the order of their keys.
type Chunk<K, V> = Vec<(K, V)>;

impl<K, V> CowMap<K, V> {
    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }
}

impl<K: Ord + Clone, V: Clone> CowMap<K, V> {
    /// The entries whose keys come after this one, ordered by key.
    pub fn iter_after<'a, Q: Ord + ?Sized>(&'a self, key: &'a Q) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: Borrow<Q>,
    {
        let chunks = self.chunks.get(self.chunk_of(key)..).unwrap_or_default();
        let entries = chunks.iter().enumerate().flat_map(move |(index, chunk)| {
            let begin = if index == 0 { chunk.partition_point(|(other, _)| other.borrow() <= key) } else { 0 };
            &chunk[begin..]
        });
        entries.map(|(key, value)| (key, value))
    }

    /// The value of this key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = &self.chunks.get(self.chunk_of(key))?;
        let index = chunk.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        Some(&chunk[index].1)
    }

    /// The value of this key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        // Look before leaping: an absent key shall copy nothing.
        self.get(key)?;
        let position = self.chunk_of(key);
        let chunk = Arc::make_mut(Arc::make_mut(&mut self.chunks).get_mut(position)?);
        let index = chunk.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        Some(&mut chunk[index].1)
    }

    /// Whether there is such a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Sets the value of a key; gives back the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let position = self.chunk_of(&key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(shared) = chunks.get_mut(position) else {
            chunks.push(Arc::new(Vec::from([(key, value)])));
            self.len += 1;
            return None;
        };
        let chunk = Arc::make_mut(shared);
        match chunk.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(index) => Some(core::mem::replace(&mut chunk[index].1, value)),
            Err(index) => {
                chunk.insert(index, (key, value));
                self.len += 1;
                if chunk.len() > CHUNK_ENTRIES_MAX {
                    let upper = chunk.split_off(CHUNK_ENTRIES_MAX / 2);
                    chunks.insert(position + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    /// Removes a key; gives back its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let position = self.chunk_of(key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(chunks.get_mut(position)?);
        let index = chunk.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        let (_, value) = chunk.remove(index);
        if chunk.is_empty() {
            chunks.remove(position);
        }
        self.len -= 1;
        Some(value)
    }

    /// Where the chunk is that has this key or would take it; 0 if there is no chunk.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let behind = self.chunks.partition_point(|chunk| chunk.first().is_some_and(|(first, _)| first.borrow() <= key));
        behind.saturating_sub(1)
    }
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> Self {
        Self { chunks: Arc::new(Vec::new()), len: 0 }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for CowMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for CowMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for CowMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for CowMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use super::{CHUNK_ENTRIES_MAX, CowMap};
    use crate::Prng;

    #[test]
    fn behaves_like_an_ordered_map_and_clones_do_not_change() {
        let mut prng = Prng::new(1);
        let (mut map, mut model) = (CowMap::default(), BTreeMap::new());
        let mut kept = Vec::new();
        for step in 0..20_000u64 {
            // Grows first, shrinks to nothing then.
            let key = prng.below(3000);
            if prng.below(20_000) > step {
                assert_eq!(map.insert(key, step), model.insert(key, step));
            } else {
                assert_eq!(map.remove(&key), model.remove(&key));
            }
            if let Some(value) = map.get_mut(&(key + 1)) {
                *value += 1;
                *model.get_mut(&(key + 1)).unwrap() += 1;
            }
            assert_eq!((map.len(), map.get(&key)), (model.len(), model.get(&key)));
            if step % 1000 == 0 {
                assert!(map.iter().eq(model.iter()));
                for after in [key, 0, 3000] {
                    assert!(map.iter_after(&after).eq(model.range(after + 1..)));
                }
                kept.push((map.clone(), model.clone()));
            }
        }
        for (map, model) in kept {
            assert!(map.iter().eq(model.iter()));
        }
    }

    #[test]
    fn equality_does_not_depend_on_the_chunks() {
        let count = CHUNK_ENTRIES_MAX * 3;
        let up: CowMap<_, _> = (0..count).map(|key| (key, ())).collect();
        let down: CowMap<_, _> = (0..count).rev().map(|key| (key, ())).collect();
        assert_eq!(up, down);
        assert_ne!(up, CowMap::default());
    }
}
