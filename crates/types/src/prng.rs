//! A small seeded generator for everything that must be repeatable.
//!
//! The algorithm is SplitMix64: one word of state, every seed is good, and two generators split from one seed don't
//! overlap in practice. It is not for secrets.

/// A deterministic stream of numbers; the same seed gives the same stream.
#[derive(Clone, Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// A stream for this seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; `bound` of 0 gives 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product is uniform up to an error of bound / 2^64, which no test can see.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `one_in` calls on average; never for 0.
    pub fn chance(&mut self, one_in: u64) -> bool {
        one_in != 0 && self.below(one_in) == 0
    }

    /// A new, independent stream.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::Prng;

    #[test]
    fn same_seed_same_stream() {
        let (mut a, mut b) = (Prng::new(7), Prng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
    }

    #[test]
    fn below_stays_below() {
        let mut prng = Prng::new(1);
        assert!((1..1000).all(|bound| prng.below(bound) < bound));
        assert_eq!(prng.below(0), 0);
    }
}
