//! The primitives of the protocol.
//!
//! ```text
//! count u8, operation*, budget u16, bytes
//! ```
//!
//! The operations read the bytes one behind the other, as a message's fields would. What was read is written, and read
//! again to the same value.

use std::{borrow::Cow, fmt::Debug};

use riparian_wire::{DecodeError, Reader, element, frame, varint, write};

use crate::{input::Input, memory};

const OPERATIONS_MAX: usize = 24;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let count = input.below(OPERATIONS_MAX + 1);
    let operations = input.take(count);
    let budget = usize::from(input.u16());
    let bytes = input.rest();
    let mut reader = Reader::with_budget(bytes, budget);
    for operation in operations {
        let (left, budget) = (reader.remaining(), reader.budget());
        let flexible = operation & 0x80 != 0;
        let is_read = step(operation & 0x7f, flexible, &mut reader);
        assert!(left.ends_with(reader.remaining()), "the reader went back");
        assert!(reader.budget() <= budget, "the budget grew");
        if !is_read {
            return;
        }
    }
}

/// Reads one field; false if it could not be read.
fn step(operation: u8, flexible: bool, reader: &mut Reader<'_>) -> bool {
    let text = |text: Cow<'_, str>| text.into_owned();
    let texts = |texts: Vec<Cow<'_, str>>| texts.into_iter().map(text).collect::<Vec<_>>();
    let cows = |texts: &[String]| texts.iter().map(|text| Cow::Owned(text.clone())).collect::<Vec<Cow<'_, str>>>();
    match operation % 24 {
        0 => round(reader, |reader| reader.bool(), |out, value| write::bool(out, *value)),
        1 => round(reader, |reader| reader.int8(), |out, value| write::int8(out, *value)),
        2 => round(reader, |reader| reader.int16(), |out, value| write::int16(out, *value)),
        3 => round(reader, |reader| reader.uint16(), |out, value| write::uint16(out, *value)),
        4 => round(reader, |reader| reader.int32(), |out, value| write::int32(out, *value)),
        5 => round(reader, |reader| reader.uint32(), |out, value| write::uint32(out, *value)),
        6 => round(reader, |reader| reader.int64(), |out, value| write::int64(out, *value)),
        // Compared by its bits: not every number equals itself.
        7 => round(
            reader,
            |reader| reader.float64().map(f64::to_bits),
            |out, value| write::float64(out, f64::from_bits(*value)),
        ),
        8 => round(reader, |reader| reader.uuid(), |out, value| write::uuid(out, *value)),
        9 => round(reader, |reader| reader.unsigned_varint(), |out, value| varint::write_u32(out, *value)),
        10 => round(reader, |reader| reader.varint(), |out, value| varint::write_i32(out, *value)),
        11 => round(reader, |reader| reader.varlong(), |out, value| varint::write_i64(out, *value)),
        12 => round(
            reader,
            |reader| reader.string(flexible).map(text),
            |out, value| written(write::string(out, value, flexible)),
        ),
        13 => round(
            reader,
            |reader| reader.nullable_string(flexible).map(|value| value.map(text)),
            |out, value| written(write::nullable_string(out, value.as_deref(), flexible)),
        ),
        14 => round(
            reader,
            |reader| reader.bytes(flexible).map(Cow::into_owned),
            |out, value| written(write::bytes(out, value, flexible)),
        ),
        15 => round(
            reader,
            |reader| reader.nullable_bytes(flexible).map(|value| value.map(Cow::into_owned)),
            |out, value| written(write::nullable_bytes(out, value.as_deref(), flexible)),
        ),
        16 => round(
            reader,
            |reader| reader.is_present(),
            |out, value| {
                write::is_present(out, *value);
            },
        ),
        17 => bounded(
            reader,
            |reader| reader.array(flexible, 0, element::int64),
            |out, value| written(write::numbers(out, value, flexible, write::int64)),
        ),
        18 => bounded(
            reader,
            |reader| reader.nullable_array(flexible, 0, element::int16),
            |out, value| written(write::nullable_numbers(out, value.as_deref(), flexible, write::int16)),
        ),
        19 => round(
            reader,
            |reader| reader.strings(flexible).map(texts),
            |out, value| written(write::strings(out, &cows(value), flexible)),
        ),
        20 => round(
            reader,
            |reader| reader.nullable_strings(flexible).map(|value| value.map(texts)),
            |out, value| {
                let value = value.as_ref().map(|value| cows(value));
                written(write::nullable_strings(out, value.as_deref(), flexible));
            },
        ),
        21 => bounded(
            reader,
            |reader| reader.unknown_tags(true),
            |out, value| written(write::unknown_tags(out, value, true, 0)),
        ),
        22 => framed(reader),
        _ => long_varint(reader),
    }
}

/// Reads a value, writes it, and reads that.
fn round<'a, T: PartialEq + Debug>(
    reader: &mut Reader<'a>,
    read: impl for<'b> Fn(&mut Reader<'b>) -> Result<T, DecodeError>,
    write: impl Fn(&mut Vec<u8>, &T),
) -> bool {
    let before = reader.remaining().len();
    let Ok(value) = read(reader) else { return false };
    let taken = before - reader.remaining().len();
    let mut bytes = Vec::new();
    write(&mut bytes, &value);
    assert!(bytes.len() <= taken, "{value:?} took {taken} bytes and is written in {}", bytes.len());
    for cut in 0..bytes.len() {
        assert!(
            read(&mut Reader::new(&bytes[..cut])).is_err(),
            "{value:?} is read from {cut} of {} bytes",
            bytes.len()
        );
    }
    let mut again = Reader::with_budget(&bytes, usize::MAX);
    assert_eq!(read(&mut again).as_ref(), Ok(&value));
    assert_eq!(again.finish(), Ok(()), "{value:?}");
    true
}

/// As [`round`], for what is not copied while it is read: it takes no more memory than the budget has.
fn bounded<'a, T: PartialEq + Debug>(
    reader: &mut Reader<'a>,
    read: impl for<'b> Fn(&mut Reader<'b>) -> Result<T, DecodeError>,
    write: impl Fn(&mut Vec<u8>, &T),
) -> bool {
    let mut copy = reader.clone();
    let mut value = None;
    let peak = memory::peak_of(|| value = read(&mut copy).ok());
    assert!(peak <= reader.budget(), "{peak} bytes of memory, {} are allowed", reader.budget());
    round(reader, read, write)
}

fn written<E: Debug>(result: Result<(), E>) {
    assert!(result.is_ok(), "what was read can't be written: {result:?}");
}

/// A frame's size in front of the rest.
fn framed(reader: &mut Reader<'_>) -> bool {
    let Ok(prefix) = reader.fixed() else { return false };
    let Ok(size) = frame::size(prefix, 1000) else { return false };
    assert!(size <= 1000);
    let Ok(body) = reader.raw(size) else { return false };
    let mut out = Vec::new();
    let start = frame::start(&mut out);
    out.extend_from_slice(body);
    written(frame::finish(&mut out, start));
    assert_eq!(out, [&prefix[..], body].concat());
    true
}

/// The varints of 64 bits, which records have and messages don't.
fn long_varint(reader: &mut Reader<'_>) -> bool {
    let Ok((value, length)) = varint::read_u64(reader.remaining()) else { return false };
    let mut out = Vec::new();
    varint::write_u64(&mut out, value);
    assert!(out.len() <= length);
    assert_eq!(varint::read_u64(&out), Ok((value, out.len())));
    reader.raw(length).is_ok()
}
