//! Tagged fields that nobody here knows (KIP-482): kept as they came, so that decoding and encoding loses nothing.

use alloc::{boxed::Box, vec::Vec};

/// One tagged field in its raw form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedField {
    /// The field's number.
    pub tag: u32,
    /// The field's content, without its size.
    pub bytes: Vec<u8>,
}

/// The unknown tagged fields of one struct, in ascending order of their tags.
///
/// Nearly every set is empty; an empty one is a null pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedFields(Option<Box<Set>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    fields: Vec<TaggedField>,
}

impl TaggedFields {
    /// An empty set.
    pub const fn new() -> Self {
        Self(None)
    }

    /// The fields, ascending by tag.
    pub fn as_slice(&self) -> &[TaggedField] {
        self.0.as_ref().map_or(&[], |set| &set.fields)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Adds a field, or replaces the one with the same tag.
    pub fn insert(&mut self, tag: u32, bytes: Vec<u8>) {
        let set = self.0.get_or_insert_with(|| Box::new(Set { fields: Vec::new() }));
        match set.fields.binary_search_by_key(&tag, |field| field.tag) {
            Ok(index) => set.fields[index].bytes = bytes,
            Err(index) => set.fields.insert(index, TaggedField { tag, bytes }),
        }
    }
}
