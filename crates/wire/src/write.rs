//! Writers of every primitive, appending to a byte vector.
//!
//! Those that can't fail return nothing; the others fail when a length doesn't fit its prefix.

use alloc::{borrow::Cow, vec::Vec};

use riparian_types::Uuid;

use crate::{EncodeError, Outline, TaggedField, TaggedFields, varint};

/// Encodes one element of an array in a version of its message.
type ElementEncode<T> = fn(&T, &mut Vec<u8>, i16) -> Result<(), EncodeError>;
/// The same of an element that has records.
type ElementOutline<T> = fn(&T, &mut Outline, i16) -> Result<(), EncodeError>;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        $($(#[$doc])* pub fn $name(out: &mut Vec<u8>, value: $type) {
            out.extend_from_slice(&value.to_be_bytes());
        })*
    };
}

numbers! {
    /// An int8.
    int8: i8;
    /// An int16.
    int16: i16;
    /// A uint16.
    uint16: u16;
    /// An int32.
    int32: i32;
    /// A uint32.
    uint32: u32;
    /// An int64.
    int64: i64;
    /// A float64.
    float64: f64;
}

/// A bool: one byte, 0 or 1.
pub fn bool(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

/// A uuid.
pub fn uuid(out: &mut Vec<u8>, value: Uuid) {
    out.extend_from_slice(&value.0);
}

/// A string.
pub fn string(out: &mut Vec<u8>, value: &str, flexible: bool) -> Result<(), EncodeError> {
    if flexible {
        compact_length(out, value.len())?;
    } else {
        let length = i16::try_from(value.len()).map_err(|_| EncodeError::TooLong { length: value.len() })?;
        int16(out, length);
    }
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

/// A string or null.
pub fn nullable_string(out: &mut Vec<u8>, value: Option<&str>, flexible: bool) -> Result<(), EncodeError> {
    match value {
        Some(value) => string(out, value, flexible)?,
        None if flexible => out.push(0),
        None => int16(out, -1),
    }
    Ok(())
}

/// Bytes.
pub fn bytes(out: &mut Vec<u8>, value: &[u8], flexible: bool) -> Result<(), EncodeError> {
    length(out, value.len(), flexible)?;
    out.extend_from_slice(value);
    Ok(())
}

/// Bytes or null.
pub fn nullable_bytes(out: &mut Vec<u8>, value: Option<&[u8]>, flexible: bool) -> Result<(), EncodeError> {
    match value {
        Some(value) => bytes(out, value, flexible)?,
        None => null(out, flexible),
    }
    Ok(())
}

/// Records: bytes that may be left out.
pub fn records(out: &mut Outline, value: &[u8], flexible: bool) -> Result<(), EncodeError> {
    match out.next_elsewhere() {
        Some(bytes) => {
            length(out, bytes, flexible)?;
            out.put_gap(bytes);
        }
        None => {
            length(out, value.len(), flexible)?;
            out.put_records(value);
        }
    }
    Ok(())
}

/// Records or null.
pub fn nullable_records(out: &mut Outline, value: Option<&[u8]>, flexible: bool) -> Result<(), EncodeError> {
    match value {
        Some(value) => records(out, value, flexible)?,
        None => null(out, flexible),
    }
    Ok(())
}

/// Says whether a nullable struct follows; returns `present`.
pub fn is_present(out: &mut Vec<u8>, present: bool) -> bool {
    int8(out, if present { 1 } else { -1 });
    present
}

/// An array of structs; `encode` writes one element in `version`.
pub fn structs<T>(
    out: &mut Vec<u8>,
    elements: &[T],
    flexible: bool,
    version: i16,
    encode: ElementEncode<T>,
) -> Result<(), EncodeError> {
    length(out, elements.len(), flexible)?;
    for element in elements {
        encode(element, out, version)?;
    }
    Ok(())
}

/// An array of structs that have records; `outline` writes one element in `version`.
pub fn outlined_structs<T>(
    out: &mut Outline,
    elements: &[T],
    flexible: bool,
    version: i16,
    outline: ElementOutline<T>,
) -> Result<(), EncodeError> {
    length(out, elements.len(), flexible)?;
    for element in elements {
        outline(element, out, version)?;
    }
    Ok(())
}

/// An array of structs, or null; `encode` writes one element in `version`.
pub fn nullable_structs<T>(
    out: &mut Vec<u8>,
    elements: Option<&[T]>,
    flexible: bool,
    version: i16,
    encode: ElementEncode<T>,
) -> Result<(), EncodeError> {
    match elements {
        Some(elements) => structs(out, elements, flexible, version, encode)?,
        None => null(out, flexible),
    }
    Ok(())
}

/// An array of numbers; `encode` writes one.
pub fn numbers<T: Copy>(
    out: &mut Vec<u8>,
    elements: &[T],
    flexible: bool,
    encode: fn(&mut Vec<u8>, T),
) -> Result<(), EncodeError> {
    length(out, elements.len(), flexible)?;
    for &element in elements {
        encode(out, element);
    }
    Ok(())
}

/// An array of numbers, or null; `encode` writes one.
pub fn nullable_numbers<T: Copy>(
    out: &mut Vec<u8>,
    elements: Option<&[T]>,
    flexible: bool,
    encode: fn(&mut Vec<u8>, T),
) -> Result<(), EncodeError> {
    match elements {
        Some(elements) => numbers(out, elements, flexible, encode)?,
        None => null(out, flexible),
    }
    Ok(())
}

/// An array of strings.
pub fn strings(out: &mut Vec<u8>, elements: &[Cow<'_, str>], flexible: bool) -> Result<(), EncodeError> {
    length(out, elements.len(), flexible)?;
    for element in elements {
        string(out, element, flexible)?;
    }
    Ok(())
}

/// An array of strings, or null.
pub fn nullable_strings(
    out: &mut Vec<u8>,
    elements: Option<&[Cow<'_, str>]>,
    flexible: bool,
) -> Result<(), EncodeError> {
    match elements {
        Some(elements) => strings(out, elements, flexible)?,
        None => null(out, flexible),
    }
    Ok(())
}

/// Errs unless this field's value is one that the version can carry.
pub fn require(carried: bool, field: &'static str, version: i16) -> Result<(), EncodeError> {
    if carried { Ok(()) } else { Err(EncodeError::Unsupported { field, version }) }
}

/// The tagged fields of a struct that defines none in this version.
///
/// In a version that is not flexible an empty set writes nothing; any other is an error.
pub fn unknown_tags(out: &mut Vec<u8>, fields: &TaggedFields, flexible: bool, version: i16) -> Result<(), EncodeError> {
    if flexible {
        TagWriter::new(out, &[], fields).finish(out);
    } else {
        require(fields.is_empty(), "unknown_tagged_fields", version)?;
    }
    Ok(())
}

/// Writes the tagged fields of a struct that defines some, merging the unknown ones in by tag.
#[derive(Debug)]
pub struct TagWriter<'a> {
    unknown: &'a [TaggedField],
}

impl<'a> TagWriter<'a> {
    /// Writes the count: as many defined fields as `set` says will follow, and the unknown ones.
    pub fn new(out: &mut Vec<u8>, set: &[bool], unknown: &'a TaggedFields) -> Self {
        let unknown = unknown.as_slice();
        let known_count = set.iter().filter(|&&is_set| is_set).count();
        varint::write_u64(out, (known_count + unknown.len()) as u64);
        Self { unknown }
    }

    /// Starts a defined field; give what it returns to [`end_tag`] once the content is written.
    pub fn start(&mut self, out: &mut Vec<u8>, tag: u32) -> Result<usize, EncodeError> {
        while let Some((field, rest)) = self.unknown.split_first()
            && field.tag <= tag
        {
            if field.tag == tag {
                return Err(EncodeError::DoubledTag { tag });
            }
            raw_tag(out, field);
            self.unknown = rest;
        }
        varint::write_u32(out, tag);
        Ok(out.len())
    }

    /// Writes the unknown fields that are left.
    pub fn finish(self, out: &mut Vec<u8>) {
        for field in self.unknown {
            raw_tag(out, field);
        }
    }
}

/// Puts the size in front of a tagged field's content that began at `start`.
pub fn end_tag(out: &mut Vec<u8>, start: usize) {
    let content_end = out.len();
    // The size is written behind the content and then moved before it: it is nearly always one byte.
    varint::write_u64(out, (content_end - start) as u64);
    let size_bytes = out.len() - content_end;
    out[start..].rotate_right(size_bytes);
}

fn raw_tag(out: &mut Vec<u8>, field: &TaggedField) {
    varint::write_u32(out, field.tag);
    varint::write_u64(out, field.bytes.len() as u64);
    out.extend_from_slice(&field.bytes);
}

fn length(out: &mut Vec<u8>, length: usize, flexible: bool) -> Result<(), EncodeError> {
    if flexible {
        compact_length(out, length)
    } else {
        int32(out, i32::try_from(length).map_err(|_| EncodeError::TooLong { length })?);
        Ok(())
    }
}

fn compact_length(out: &mut Vec<u8>, length: usize) -> Result<(), EncodeError> {
    // Kafka holds lengths in a Java int.
    if i32::try_from(length).is_err() {
        return Err(EncodeError::TooLong { length });
    }
    varint::write_u64(out, length as u64 + 1);
    Ok(())
}

fn null(out: &mut Vec<u8>, flexible: bool) {
    if flexible { out.push(0) } else { int32(out, -1) }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec};

    use super::*;

    #[test]
    fn the_size_of_a_tagged_field_goes_before_it() {
        for length in [0usize, 1, 127, 128, 20_000] {
            let mut out = vec![0xee];
            let unknown = TaggedFields::new();
            let mut tags = TagWriter::new(&mut out, &[false, true], &unknown);
            let start = tags.start(&mut out, 1).unwrap();
            out.resize(start + length, 0xaa);
            end_tag(&mut out, start);
            tags.finish(&mut out);
            let mut expected = vec![0xee, 1, 1];
            varint::write_u64(&mut expected, length as u64);
            expected.resize(expected.len() + length, 0xaa);
            assert_eq!(out, expected, "{length}");
        }
    }

    #[test]
    fn unknown_fields_are_merged_by_tag() {
        let mut unknown = TaggedFields::new();
        unknown.insert(7, vec![7]);
        unknown.insert(0, vec![]);
        let mut out = Vec::new();
        let mut tags = TagWriter::new(&mut out, &[true], &unknown);
        let start = tags.start(&mut out, 3).unwrap();
        end_tag(&mut out, start);
        tags.finish(&mut out);
        assert_eq!(out, [3, 0, 0, 3, 0, 7, 1, 7]);
        let mut tags = TagWriter::new(&mut out, &[true], &unknown);
        assert_eq!(tags.start(&mut out, 0), Err(EncodeError::DoubledTag { tag: 0 }));
        assert!(unknown_tags(&mut out, &unknown, false, 1).is_err());
    }

    #[test]
    fn old_strings_have_a_largest_length() {
        let longest: String = core::iter::repeat_n('x', 32_767).collect();
        let mut out = Vec::new();
        string(&mut out, &longest, false).unwrap();
        assert_eq!(out[..3], [0x7f, 0xff, b'x']);
        let longer = longest + "x";
        assert_eq!(string(&mut out, &longer, false), Err(EncodeError::TooLong { length: 32_768 }));
        assert_eq!(string(&mut out, &longer, true), Ok(()));
    }
}
