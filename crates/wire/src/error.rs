//! What can go wrong between bytes and messages.

use crate::varint::VarintError;

/// Bytes that are not the message they should be: always the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("message ends early: {wanted} bytes wanted, {left} left")]
    Truncated {
        /// How many bytes the field needs.
        wanted: usize,
        /// How many there are.
        left: usize,
    },
    /// There are bytes behind the last field.
    #[error("{left} bytes left behind the last field")]
    TrailingBytes {
        /// How many.
        left: usize,
    },
    /// A variable-length integer has too many bits.
    #[error("variable-length integer is too large for its type")]
    VarintOverflow,
    /// A length below -1.
    #[error("length {length} is negative")]
    NegativeLength {
        /// The length sent.
        length: i32,
    },
    /// A field is null that may not be.
    #[error("null where a value is required")]
    Null,
    /// An array has more elements than there can be in the bytes left.
    #[error("array of {count} elements in {left} bytes")]
    ArrayTooLong {
        /// The number of elements sent.
        count: u32,
        /// How many bytes are left.
        left: usize,
    },
    /// Decoding would take more memory than the message is allowed.
    #[error("decoded message would take {wanted} bytes more, {left} are left of its budget")]
    BudgetExceeded {
        /// Bytes the next part would take.
        wanted: usize,
        /// What is left of the budget.
        left: usize,
    },
    /// A string is longer than the protocol allows.
    #[error("string of {length} bytes, at most 32767 are allowed")]
    StringTooLong {
        /// How many bytes it has.
        length: u32,
    },
    /// A string is not UTF-8.
    #[error("string is not UTF-8")]
    NotUtf8,
    /// Tagged fields are not in ascending order of their tags (KIP-482).
    #[error("tagged field {tag} is out of order or doubled")]
    TagOrder {
        /// The tag that stands too late.
        tag: u32,
    },
    /// A tagged field's content is shorter than its size says.
    #[error("tagged field has {left} bytes too many")]
    TagSize {
        /// Bytes that nobody read.
        left: usize,
    },
    /// The message has no such version.
    #[error("version {version} is unknown")]
    UnknownVersion {
        /// The version asked for.
        version: i16,
    },
    /// The bytes are of a record type that there is no schema for.
    #[error("record type {found} is unknown")]
    UnknownType {
        /// The type the bytes name.
        found: i32,
    },
    /// The bytes are of another record or message type than the one asked for.
    #[error("type {found} instead of {wanted}")]
    WrongType {
        /// The type asked for.
        wanted: i16,
        /// The type the bytes name.
        found: i16,
    },
}

impl From<VarintError> for DecodeError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated { wanted: 1, left: 0 },
            VarintError::Overflow => Self::VarintOverflow,
        }
    }
}

/// A message that can't be written in the version asked for: always our own or our caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The message has no such version.
    #[error("version {version} is unknown")]
    UnknownVersion {
        /// The version asked for.
        version: i16,
    },
    /// A field is set (or null) that this version cannot carry.
    #[error("version {version} cannot carry this value of {field}")]
    Unsupported {
        /// Struct and field.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A string, byte field or array is longer than its length field can say.
    #[error("length {length} does not fit the field's length prefix")]
    TooLong {
        /// The length in bytes or elements.
        length: usize,
    },
    /// Unknown tagged fields name a tag that the message defines, or one tag twice.
    #[error("tag {tag} is written twice")]
    DoubledTag {
        /// The tag.
        tag: u32,
    },
}
