//! A bounded cursor over the bytes of one message.

use alloc::{borrow::Cow, vec::Vec};
use core::str;

use riparian_types::{
    Uuid,
    limits::{DECODED_BYTES_FACTOR, DECODED_BYTES_MIN, STRING_BYTES_MAX},
};

use crate::{DecodeError, TaggedFields, varint};

/// Reads fields from the front of a byte slice.
///
/// Strings and bytes are borrowed from the slice. What has to be allocated (arrays, unknown tagged fields) is taken
/// from a budget first, so that a small message cannot make the reader reserve a lot of memory.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    budget: usize,
}

/// Walks the tagged fields of one struct, see [`Reader::next_tag`].
#[derive(Debug)]
pub struct Tags<'a> {
    /// Fields still to come.
    count: u32,
    /// The lowest tag the next field may have.
    tag_min: u64,
    /// What stands behind the current field's content; `None` before the first.
    rest: Option<&'a [u8]>,
}

/// Decodes one element of an array in a version of its message.
type ElementDecode<'a, T> = fn(&mut Reader<'a>, i16) -> Result<T, DecodeError>;

impl<'a> Reader<'a> {
    /// A reader with the usual budget for a message of this size, see [`riparian_types::limits`].
    pub fn new(bytes: &'a [u8]) -> Self {
        let budget = bytes.len().saturating_mul(DECODED_BYTES_FACTOR).max(DECODED_BYTES_MIN);
        Self::with_budget(bytes, budget)
    }

    /// A reader that allocates at most `budget` bytes.
    pub const fn with_budget(bytes: &'a [u8], budget: usize) -> Self {
        Self { bytes, budget }
    }

    /// The bytes not read yet.
    pub const fn remaining(&self) -> &'a [u8] {
        self.bytes
    }

    /// What is left of the budget, in bytes.
    pub const fn budget(&self) -> usize {
        self.budget
    }

    /// Errs if there are bytes left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes { left: self.bytes.len() }) }
    }

    /// The next `length` bytes, borrowed.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(length) else {
            return Err(DecodeError::Truncated { wanted: length, left: self.bytes.len() });
        };
        self.bytes = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated { wanted: N, left: self.bytes.len() });
        };
        self.bytes = rest;
        Ok(*taken)
    }

    /// A bool: one byte, 0 is false.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.int8()? != 0)
    }

    /// An int8.
    pub fn int8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.fixed()?))
    }

    /// An int16.
    pub fn int16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    /// A uint16.
    pub fn uint16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    /// An int32.
    pub fn int32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    /// A uint32.
    pub fn uint32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    /// An int64.
    pub fn int64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    /// A float64.
    pub fn float64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.fixed()?))
    }

    /// A uuid.
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Ok(Uuid(self.fixed()?))
    }

    /// An unsigned 32-bit varint.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let (value, length) = varint::read_u32(self.bytes)?;
        self.bytes = &self.bytes[length..];
        Ok(value)
    }

    /// A zigzag 32-bit varint.
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let (value, length) = varint::read_i32(self.bytes)?;
        self.bytes = &self.bytes[length..];
        Ok(value)
    }

    /// A zigzag 64-bit varint.
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let (value, length) = varint::read_i64(self.bytes)?;
        self.bytes = &self.bytes[length..];
        Ok(value)
    }

    /// A string.
    pub fn string(&mut self, flexible: bool) -> Result<Cow<'a, str>, DecodeError> {
        self.nullable_string(flexible)?.ok_or(DecodeError::Null)
    }

    /// A string or null.
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<Cow<'a, str>>, DecodeError> {
        let length = if flexible { self.compact_length()? } else { old_length(i32::from(self.int16()?))? };
        let Some(length) = length else {
            return Ok(None);
        };
        // What came in a flexible version may have to go out in one whose strings have two bytes for their length.
        if length as usize > STRING_BYTES_MAX {
            return Err(DecodeError::StringTooLong { length });
        }
        let text = str::from_utf8(self.raw(length as usize)?).map_err(|_| DecodeError::NotUtf8)?;
        Ok(Some(Cow::Borrowed(text)))
    }

    /// Bytes.
    pub fn bytes(&mut self, flexible: bool) -> Result<Cow<'a, [u8]>, DecodeError> {
        self.nullable_bytes(flexible)?.ok_or(DecodeError::Null)
    }

    /// Bytes or null.
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<Cow<'a, [u8]>>, DecodeError> {
        let Some(length) = self.length(flexible)? else {
            return Ok(None);
        };
        Ok(Some(Cow::Borrowed(self.raw(length as usize)?)))
    }

    /// Whether a nullable struct follows.
    pub fn is_present(&mut self) -> Result<bool, DecodeError> {
        // Kafka writes -1 and 1, and takes any sign as the answer.
        Ok(self.int8()? >= 0)
    }

    /// An array of structs or numbers; `decode` reads one element in `version`.
    pub fn array<T>(
        &mut self,
        flexible: bool,
        version: i16,
        decode: ElementDecode<'a, T>,
    ) -> Result<Vec<T>, DecodeError> {
        self.nullable_array(flexible, version, decode)?.ok_or(DecodeError::Null)
    }

    /// An array of structs or numbers, or null; `decode` reads one element in `version`.
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        version: i16,
        decode: ElementDecode<'a, T>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.count(flexible, size_of::<T>())? else {
            return Ok(None);
        };
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(decode(self, version)?);
        }
        Ok(Some(elements))
    }

    /// An array of strings.
    pub fn strings(&mut self, flexible: bool) -> Result<Vec<Cow<'a, str>>, DecodeError> {
        self.nullable_strings(flexible)?.ok_or(DecodeError::Null)
    }

    /// An array of strings, or null.
    pub fn nullable_strings(&mut self, flexible: bool) -> Result<Option<Vec<Cow<'a, str>>>, DecodeError> {
        let decode = if flexible { element::compact_string } else { element::old_string };
        self.nullable_array(flexible, 0, decode)
    }

    /// Reads the tagged fields of a struct that defines none in this version.
    pub fn unknown_tags(&mut self, flexible: bool) -> Result<TaggedFields, DecodeError> {
        let mut fields = TaggedFields::new();
        if flexible {
            let mut tags = self.tags()?;
            while let Some(tag) = self.next_tag(&mut tags)? {
                self.unknown_tag(tag, &mut fields)?;
            }
        }
        Ok(fields)
    }

    /// Starts the tagged fields of a struct; [`Reader::next_tag`] must then be called until it gives `None`.
    pub fn tags(&mut self) -> Result<Tags<'a>, DecodeError> {
        Ok(Tags { count: self.unsigned_varint()?, tag_min: 0, rest: None })
    }

    /// Moves to the next tagged field: until the next call the reader ends where the field's content ends.
    ///
    /// The content must be read to its end. `None` when there are no more fields.
    pub fn next_tag(&mut self, tags: &mut Tags<'a>) -> Result<Option<u32>, DecodeError> {
        if let Some(rest) = tags.rest.take() {
            if !self.bytes.is_empty() {
                return Err(DecodeError::TagSize { left: self.bytes.len() });
            }
            self.bytes = rest;
        }
        if tags.count == 0 {
            return Ok(None);
        }
        tags.count -= 1;
        let tag = self.unsigned_varint()?;
        if u64::from(tag) < tags.tag_min {
            return Err(DecodeError::TagOrder { tag });
        }
        tags.tag_min = u64::from(tag) + 1;
        let size = self.unsigned_varint()? as usize;
        let content = self.raw(size)?;
        tags.rest = Some(self.bytes);
        self.bytes = content;
        Ok(Some(tag))
    }

    /// Keeps the content of the current tagged field as it is.
    pub fn unknown_tag(&mut self, tag: u32, fields: &mut TaggedFields) -> Result<(), DecodeError> {
        let content = self.raw(self.bytes.len())?;
        // What a vector takes for its first element, more than the share of a later one.
        self.charge(content.len().saturating_add(5 * size_of::<crate::TaggedField>()))?;
        fields.insert(tag, content.to_vec());
        Ok(())
    }

    /// Takes `bytes` from the budget, or errs.
    pub fn charge(&mut self, bytes: usize) -> Result<(), DecodeError> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(DecodeError::BudgetExceeded { wanted: bytes, left: self.budget }),
        }
    }

    /// The number of elements of an array whose elements take `element_size` bytes in memory; `None` is null.
    ///
    /// An element takes at least one byte on the wire, so a count over the bytes left is a lie.
    fn count(&mut self, flexible: bool, element_size: usize) -> Result<Option<usize>, DecodeError> {
        let Some(count) = self.length(flexible)? else {
            return Ok(None);
        };
        if count as usize > self.bytes.len() {
            return Err(DecodeError::ArrayTooLong { count, left: self.bytes.len() });
        }
        self.charge((count as usize).saturating_mul(element_size))?;
        Ok(Some(count as usize))
    }

    fn length(&mut self, flexible: bool) -> Result<Option<u32>, DecodeError> {
        if flexible { self.compact_length() } else { old_length(self.int32()?) }
    }

    fn compact_length(&mut self) -> Result<Option<u32>, DecodeError> {
        Ok(self.unsigned_varint()?.checked_sub(1))
    }
}

fn old_length(length: i32) -> Result<Option<u32>, DecodeError> {
    match u32::try_from(length) {
        Ok(length) => Ok(Some(length)),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(DecodeError::NegativeLength { length }),
    }
}

/// Decoders of array elements that are not structs; the version is not looked at.
pub mod element {
    use alloc::borrow::Cow;

    use riparian_types::Uuid;

    use crate::{DecodeError, Reader};

    macro_rules! elements {
        ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
            $($(#[$doc])* pub fn $name(reader: &mut Reader<'_>, _version: i16) -> Result<$type, DecodeError> {
                reader.$name()
            })*
        };
    }

    elements! {
        /// An int8.
        int8: i8;
        /// An int16.
        int16: i16;
        /// An int32.
        int32: i32;
        /// An int64.
        int64: i64;
        /// A uuid.
        uuid: Uuid;
    }

    pub(super) fn compact_string<'a>(reader: &mut Reader<'a>, _version: i16) -> Result<Cow<'a, str>, DecodeError> {
        reader.string(true)
    }

    pub(super) fn old_string<'a>(reader: &mut Reader<'a>, _version: i16) -> Result<Cow<'a, str>, DecodeError> {
        reader.string(false)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;
    use crate::TaggedField;

    fn numbers(bytes: &[u8], flexible: bool) -> Result<Vec<i32>, DecodeError> {
        Reader::new(bytes).array(flexible, 0, element::int32)
    }

    #[test]
    fn counts_are_checked_before_anything_is_reserved() {
        let count = 0x7fff_ffff;
        assert_eq!(numbers(&[0x7f, 0xff, 0xff, 0xff], false), Err(DecodeError::ArrayTooLong { count, left: 0 }));
        let compact = [0x80, 0x80, 0x80, 0x80, 0x08, 1, 2];
        assert_eq!(numbers(&compact, true), Err(DecodeError::ArrayTooLong { count, left: 2 }));
        let mut reader = Reader::with_budget(&[3, 0, 0, 0, 1, 0, 0, 0, 2], 7);
        let array = reader.array(true, 0, element::int32);
        assert_eq!(array, Err(DecodeError::BudgetExceeded { wanted: 8, left: 7 }));
    }

    #[test]
    fn the_budget_is_for_the_whole_message() {
        let bytes = [2, 0, 0, 0, 1, 2, 0, 0, 0, 2];
        let mut reader = Reader::with_budget(&bytes, 7);
        assert_eq!(reader.array(true, 0, element::int32), Ok(vec![1]));
        assert_eq!(reader.array(true, 0, element::int32), Err(DecodeError::BudgetExceeded { wanted: 4, left: 3 }));
    }

    #[test]
    fn only_minus_one_is_null() {
        assert_eq!(Reader::new(&[0xff, 0xff]).nullable_string(false), Ok(None));
        assert_eq!(Reader::new(&[0]).nullable_string(true), Ok(None));
        assert_eq!(Reader::new(&[0xff, 0xff]).string(false), Err(DecodeError::Null));
        assert_eq!(Reader::new(&[0]).string(true), Err(DecodeError::Null));
        let length = -2;
        assert_eq!(Reader::new(&[0xff, 0xfe]).nullable_string(false), Err(DecodeError::NegativeLength { length }));
        assert_eq!(numbers(&[0xff, 0xff, 0xff, 0xfe], false), Err(DecodeError::NegativeLength { length }));
    }

    #[test]
    fn strings_have_a_largest_length_in_every_version() {
        let mut bytes = Vec::new();
        crate::write::string(&mut bytes, &"x".repeat(32_767), true).unwrap();
        assert_eq!(Reader::new(&bytes).string(true).map(|text| text.len()), Ok(32_767));
        let mut bytes = Vec::new();
        crate::write::string(&mut bytes, &"x".repeat(32_768), true).unwrap();
        let error = DecodeError::StringTooLong { length: 32_768 };
        assert_eq!(Reader::new(&bytes).string(true), Err(error));
        assert_eq!(Reader::new(&bytes).nullable_string(true), Err(error));
    }

    #[test]
    fn strings_are_utf8() {
        assert_eq!(Reader::new(&[2, 0xff]).string(true), Err(DecodeError::NotUtf8));
        assert_eq!(Reader::new(&[3, 0xc3]).string(true), Err(DecodeError::Truncated { wanted: 2, left: 1 }));
    }

    #[test]
    fn unknown_tagged_fields_are_kept() {
        let fields = Reader::new(&[2, 3, 1, 9, 0x80, 0x01, 0]).unknown_tags(true).unwrap();
        let expected = [TaggedField { tag: 3, bytes: vec![9] }, TaggedField { tag: 128, bytes: vec![] }];
        assert_eq!(fields.as_slice(), expected);
        assert!(Reader::new(&[]).unknown_tags(false).unwrap().is_empty());
    }

    #[test]
    fn tagged_fields_are_in_order_and_as_long_as_they_say() {
        let out_of_order = Reader::new(&[2, 3, 0, 3, 0]).unknown_tags(true);
        assert_eq!(out_of_order, Err(DecodeError::TagOrder { tag: 3 }));
        let mut reader = Reader::new(&[1, 0, 3, 0, 7, 0]);
        let mut tags = reader.tags().unwrap();
        assert_eq!(reader.next_tag(&mut tags), Ok(Some(0)));
        assert_eq!(reader.int16(), Ok(7));
        assert_eq!(reader.next_tag(&mut tags), Err(DecodeError::TagSize { left: 1 }));
        let mut reader = Reader::new(&[1, 0, 1, 0, 7]);
        let mut tags = reader.tags().unwrap();
        assert_eq!(reader.next_tag(&mut tags), Ok(Some(0)));
        assert_eq!(reader.int16(), Err(DecodeError::Truncated { wanted: 2, left: 1 }), "a field ends where it says");
    }
}
