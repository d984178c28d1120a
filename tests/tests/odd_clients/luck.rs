//! Field values that no client has a reason to send, repeatable by seed: names that exist and names that cannot, and
//! numbers at the edges of their types.

use std::borrow::Cow;

use riparian_types::{Prng, Uuid};
use riparian_wire::TaggedFields;

/// Names that exist on the server under test, or are odd in some way.
const NAMES: &[&str] = &[
    "",
    "one",
    "many",
    "one",
    "many",
    "group",
    "other-group",
    "__consumer_offsets",
    "__cluster_metadata",
    "__transaction_state",
    "..",
    "a/b",
    "1",
    "0",
    "streams.num.standby.replicas",
    "retention.ms",
    "segment.bytes",
    "cleanup.policy",
    "-1",
    "9223372036854775807",
    "compact,delete",
    "ä水🜄",
    "\0",
    "new-topic",
    "streams",
];

pub(crate) struct Luck {
    prng: Prng,
    /// Ids of topics that exist.
    ids: Vec<Uuid>,
}

macro_rules! integers {
    ($($name:ident: $type:ident;)*) => {
        $(pub(crate) fn $name(&mut self) -> $type {
            match self.prng.below(12) {
                0 => $type::MIN,
                1 => $type::MAX,
                2 => $type::MAX - 1,
                3 => 0,
                4 => 0,
                5 => 1,
                6 => 2,
                7 => 32,
                8 => (0 as $type).wrapping_sub(1),
                9 => (0 as $type).wrapping_sub(2),
                10 => self.prng.below(8) as $type,
                _ => self.prng.next_u64() as $type,
            }
        })*
    };
}

#[allow(dead_code, reason = "the generated code decides which types it needs")]
impl Luck {
    pub(crate) fn new(seed: u64, ids: Vec<Uuid>) -> Self {
        Self { prng: Prng::new(seed), ids }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.prng.below(bound as u64) as usize
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

    pub(crate) fn count(&mut self) -> usize {
        if self.prng.chance(40) { 60 } else { self.below(4) }
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        match self.below(4) {
            0 => Uuid::ZERO,
            1 => Uuid::from_halves(self.prng.next_u64(), self.prng.next_u64()),
            _ => self.ids[self.prng.below(self.ids.len() as u64) as usize],
        }
    }

    pub(crate) fn string(&mut self) -> Cow<'static, str> {
        match self.below(100) {
            0 => Cow::Owned("g".repeat(32_767)),
            1 => Cow::Owned("n".repeat(250)),
            2 => Cow::Owned(format!("r{}", self.below(1000))),
            _ => Cow::Borrowed(NAMES[self.below(NAMES.len())]),
        }
    }

    pub(crate) fn bytes(&mut self) -> Cow<'static, [u8]> {
        (0..self.below(100)).map(|_| self.prng.next_u64() as u8).collect()
    }

    pub(crate) fn tags(&mut self, flexible: bool, tag_min: u32) -> TaggedFields {
        let mut fields = TaggedFields::new();
        if flexible && self.prng.chance(8) {
            fields.insert(tag_min.max(100) + self.prng.below(300) as u32, self.bytes().into_owned());
        }
        fields
    }
}
