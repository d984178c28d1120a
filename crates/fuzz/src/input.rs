//! An input as a stream of small decisions.

/// Reads an input from its front; past its end everything is zero.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// A number in `0..bound`, of one byte; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound.max(1)
    }

    /// True for one in so many values of a byte.
    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        // Zero, which is what follows the end, is a no.
        self.below(one_in) == one_in - 1
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Up to so many bytes; fewer at the end.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// A number: small, or at an edge of its type, or any.
    pub(crate) fn number(&mut self) -> i64 {
        const EDGES: [i64; 12] = [
            -1,
            -2,
            i8::MAX as i64,
            i16::MAX as i64,
            i32::MAX as i64 - 1,
            i32::MAX as i64,
            i32::MIN as i64,
            i64::MAX - 1,
            i64::MAX,
            i64::MIN,
            1_000_000,
            3_600_000,
        ];
        match self.u8() {
            small @ 0..200 => small.into(),
            edge @ 200..250 => EDGES[usize::from(edge - 200) % EDGES.len()],
            250.. => {
                let mut bytes = [0; 8];
                bytes.iter_mut().for_each(|byte| *byte = self.u8());
                i64::from_be_bytes(bytes)
            }
        }
    }

    /// As [`Input::number`], cut to 32 bits.
    pub(crate) fn number_i32(&mut self) -> i32 {
        let number = self.number();
        i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::Input;

    #[test]
    fn everything_is_zero_past_the_end() {
        let mut input = Input::new(&[7]);
        assert_eq!((input.u8(), input.is_empty()), (7, true));
        assert_eq!((input.u8(), input.u16(), input.number(), input.bool(), input.chance(2)), (0, 0, 0, false, false));
        assert_eq!((input.pick(&[5, 6]), input.take(3), input.rest()), (5, &[][..], &[][..]));
    }
}
