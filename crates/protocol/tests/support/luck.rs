//! Random field values, repeatable by seed.

use std::borrow::Cow;

use riparian_types::{Prng, Uuid};
use riparian_wire::TaggedFields;

/// Makes values that stress a codec: mostly small, now and then at an edge of their type.
pub(crate) struct Luck {
    prng: Prng,
}

macro_rules! integers {
    ($($name:ident: $type:ident;)*) => {
        $(pub(crate) fn $name(&mut self) -> $type {
            match self.prng.below(8) {
                0 => $type::MIN,
                1 => $type::MAX,
                2 => 0,
                _ => self.prng.next_u64() as $type,
            }
        })*
    };
}

#[allow(dead_code, reason = "not every test binary makes fields of every type")]
impl Luck {
    pub(crate) fn new(seed: u64) -> Self {
        Self { prng: Prng::new(seed) }
    }

    pub(crate) fn prng(&mut self) -> &mut Prng {
        &mut self.prng
    }

    integers! {
        int8: i8;
        int16: i16;
        uint16: u16;
        int32: i32;
        int64: i64;
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.prng.chance(2)
    }

    pub(crate) fn null(&mut self) -> bool {
        self.prng.chance(3)
    }

    /// A number of array elements.
    pub(crate) fn count(&mut self) -> usize {
        self.prng.below(4) as usize
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        if self.null() { Uuid::ZERO } else { Uuid::from_halves(self.prng.next_u64(), self.prng.next_u64()) }
    }

    pub(crate) fn string(&mut self) -> Cow<'static, str> {
        // Around 128 bytes the compact length needs a second byte.
        let length = if self.prng.chance(16) { 120 + self.prng.below(16) } else { self.prng.below(6) };
        let alphabet = ['a', 'Z', '0', '.', '-', 'ä', '水', '🜄'];
        (0..length).map(|_| alphabet[self.prng.below(alphabet.len() as u64) as usize]).collect()
    }

    pub(crate) fn bytes(&mut self) -> Cow<'static, [u8]> {
        (0..self.prng.below(12)).map(|_| self.prng.next_u64() as u8).collect()
    }

    /// Unknown tagged fields with tags from `tag_min`, in flexible versions.
    pub(crate) fn tags(&mut self, flexible: bool, tag_min: u32) -> TaggedFields {
        let mut fields = TaggedFields::new();
        if flexible && self.prng.chance(8) {
            for _ in 0..1 + self.prng.below(3) {
                let tag = tag_min.max(100) + self.prng.below(300) as u32;
                fields.insert(tag, self.bytes().into_owned());
            }
        }
        fields
    }
}
