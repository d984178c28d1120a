//! Kafka's 128-bit ids, written as unpadded base64url.

use alloc::string::String;
use core::{fmt, str::FromStr};

/// A topic id, a directory id, or any other 128-bit id; [`Uuid::ZERO`] means "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// "None".
    pub const ZERO: Self = Self([0; 16]);
    /// The id of the metadata log's topic, the same in every cluster (KIP-595).
    pub const METADATA_TOPIC: Self = Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// The id of these two halves, most significant first.
    pub const fn from_halves(most: u64, least: u64) -> Self {
        Self(((most as u128) << 64 | least as u128).to_be_bytes())
    }

    /// A random (version 4) id from 128 bits of luck.
    pub const fn from_random(most: u64, least: u64) -> Self {
        Self::from_halves(most & !0xf000 | 0x4000, least & !(0b11 << 62) | 0b10 << 62)
    }

    /// The two halves, most significant first.
    pub const fn halves(self) -> (u64, u64) {
        let value = u128::from_be_bytes(self.0);
        ((value >> 64) as u64, value as u64)
    }

    /// Whether this is [`Uuid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = u128::from_be_bytes(self.0);
        let mut text = [0u8; 22];
        for (index, byte) in text.iter_mut().enumerate() {
            // 22 digits of 6 bits are 132 bits: the last digit carries 2 bits and 4 of padding.
            let digit = if index < 21 { value >> (122 - 6 * index) } else { value << 4 };
            *byte = ALPHABET[(digit & 63) as usize];
        }
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an unpadded base64url form of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseUuidError;

impl fmt::Display for ParseUuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an id of 22 base64url characters")
    }
}

impl core::error::Error for ParseUuidError {}

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        if text.len() != 22 {
            return Err(ParseUuidError);
        }
        let mut value = 0u128;
        for (index, byte) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|&c| c == byte).ok_or(ParseUuidError)? as u128;
            if index < 21 {
                value |= digit << (122 - 6 * index);
            } else if digit & 15 == 0 {
                value |= digit >> 4;
            } else {
                return Err(ParseUuidError);
            }
        }
        Ok(Self(value.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::Uuid;

    #[test]
    fn text_form_round_trips() {
        for text in ["FTUt7NVOSxObVxbVtcYhWw", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"] {
            assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        }
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAQ".parse(), Ok(Uuid::METADATA_TOPIC));
        for bad in ["", "AAAAAAAAAAAAAAAAAAAAAR", "AAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAAA"] {
            assert!(bad.parse::<Uuid>().is_err(), "{bad}");
        }
    }
}
