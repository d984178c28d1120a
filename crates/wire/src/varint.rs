//! Variable-length integers: 7 bits per byte, least significant first, the high bit set on all bytes but the last.
//!
//! ```text
//! unsigned  300 -> 1010_1100 0000_0010
//! zigzag    n >= 0 -> 2n, n < 0 -> -2n - 1; the result is written unsigned
//! ```
//!
//! Unsigned ones stand in compact lengths and tagged fields (KIP-482), zigzag ones inside record batches (KIP-98).

use alloc::vec::Vec;
use core::fmt;

/// Most bytes of a 32-bit varint.
pub const U32_BYTES_MAX: usize = 5;
/// Most bytes of a 64-bit varint.
pub const U64_BYTES_MAX: usize = 10;

/// A varint that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarintError {
    /// The bytes end before the varint does.
    Truncated,
    /// The varint has more bits than its type.
    Overflow,
}

impl fmt::Display for VarintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("varint ends early"),
            Self::Overflow => f.write_str("varint is too large for its type"),
        }
    }
}

impl core::error::Error for VarintError {}

/// Reads an unsigned 32-bit varint from the start of `bytes`; returns it and its length in bytes.
pub fn read_u32(bytes: &[u8]) -> Result<(u32, usize), VarintError> {
    let (value, length) = read(bytes, U32_BYTES_MAX)?;
    Ok((u32::try_from(value).map_err(|_| VarintError::Overflow)?, length))
}

/// Reads an unsigned 64-bit varint from the start of `bytes`; returns it and its length in bytes.
pub fn read_u64(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    read(bytes, U64_BYTES_MAX)
}

/// Reads a zigzag 32-bit varint from the start of `bytes`; returns it and its length in bytes.
pub fn read_i32(bytes: &[u8]) -> Result<(i32, usize), VarintError> {
    let (value, length) = read_u32(bytes)?;
    Ok(((value >> 1) as i32 ^ -((value & 1) as i32), length))
}

/// Reads a zigzag 64-bit varint from the start of `bytes`; returns it and its length in bytes.
pub fn read_i64(bytes: &[u8]) -> Result<(i64, usize), VarintError> {
    let (value, length) = read_u64(bytes)?;
    Ok(((value >> 1) as i64 ^ -((value & 1) as i64), length))
}

/// Appends an unsigned 32-bit varint.
pub fn write_u32(out: &mut Vec<u8>, value: u32) {
    write_u64(out, u64::from(value));
}

/// Appends an unsigned 64-bit varint.
pub fn write_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a zigzag 32-bit varint.
pub fn write_i32(out: &mut Vec<u8>, value: i32) {
    write_u32(out, zigzag_32(value));
}

/// Appends a zigzag 64-bit varint.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    write_u64(out, zigzag_64(value));
}

/// Bytes that [`write_u64`] appends for this value.
pub const fn size_u64(value: u64) -> usize {
    // 1 for 0..=7 significant bits, 2 for 8..=14, and so on.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Bytes that [`write_i32`] appends for this value.
pub const fn size_i32(value: i32) -> usize {
    size_u64(zigzag_32(value) as u64)
}

/// Bytes that [`write_i64`] appends for this value.
pub const fn size_i64(value: i64) -> usize {
    size_u64(zigzag_64(value))
}

const fn zigzag_32(value: i32) -> u32 {
    (value << 1 ^ value >> 31) as u32
}

const fn zigzag_64(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn read(bytes: &[u8], bytes_max: usize) -> Result<(u64, usize), VarintError> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(bytes_max).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * index as u32;
        // Only the tenth byte of a 64-bit varint can lose bits here; 32-bit ones are checked by the caller.
        if (bits << shift) >> shift != bits {
            return Err(VarintError::Overflow);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok((value, index + 1));
        }
    }
    Err(if bytes.len() < bytes_max { VarintError::Truncated } else { VarintError::Overflow })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_at_every_length_and_errs_when_cut() {
        let mut values: Vec<u64> = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).collect();
        values.push(u64::MAX);
        for value in values {
            let mut out = Vec::new();
            write_u64(&mut out, value);
            assert_eq!(out.len(), size_u64(value), "{value}");
            assert_eq!(read_u64(&out), Ok((value, out.len())));
            assert_eq!(read_u32(&out).ok(), u32::try_from(value).ok().map(|v| (v, out.len())), "{value}");
            for cut in 0..out.len() {
                assert_eq!(read_u64(&out[..cut]), Err(VarintError::Truncated));
            }
            let signed = value as i64;
            out.clear();
            write_i64(&mut out, signed);
            assert_eq!((out.len(), read_i64(&out)), (size_i64(signed), Ok((signed, out.len()))));
            out.clear();
            write_i32(&mut out, value as i32);
            assert_eq!((out.len(), read_i32(&out)), (size_i32(value as i32), Ok((value as i32, out.len()))));
        }
    }

    #[test]
    fn overlong_is_overflow() {
        assert_eq!(read_u64(&[0xff; 11]), Err(VarintError::Overflow));
        assert_eq!(read_u64(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), Err(VarintError::Overflow));
        assert_eq!(read_u32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(VarintError::Overflow));
    }
}
