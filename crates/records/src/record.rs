//! The records inside a batch.
//!
//! ```text
//! record   length varint | attributes i8 (unused) | timestamp delta varlong | offset delta varint
//!          | key length varint (-1: null), key | value length varint (-1: null), value
//!          | header count varint, header*
//! header   key length varint, key | value length varint (-1: null), value
//! ```
//!
//! All varints are zigzag. Deltas count from the batch's base offset and base timestamp.

use std::borrow::Cow;

use riparian_types::{Offset, WallMillis};
use riparian_wire::varint;

use crate::header::{BatchHeader, TimestampType};

/// A batch's records, decompressed if they had to be.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    header: BatchHeader,
    bytes: Cow<'a, [u8]>,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its position in the partition.
    pub offset: Offset,
    /// When the producer made it, or when it was appended.
    pub timestamp: WallMillis,
    /// What it is about.
    pub key: Option<&'a [u8]>,
    /// What it says; none is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// What travels with it.
    pub headers: Headers<'a>,
}

/// A record's headers, read as they are iterated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    count: usize,
    bytes: &'a [u8],
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name; Kafka says UTF-8, nobody checks.
    pub key: &'a [u8],
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// A batch whose records are not what its header promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {index} of the batch is malformed: {what}")]
pub struct RecordFormatError {
    /// Which record, from 0; the batch's record count if bytes follow the last one.
    pub index: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl<'a> Records<'a> {
    pub(crate) fn new(header: BatchHeader, bytes: Cow<'a, [u8]>) -> Self {
        Self { header, bytes }
    }

    /// The records, in order. The iterator ends after the first error.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter { header: self.header, rest: &self.bytes, index: 0, done: false }
    }

    /// Bytes of the records when not compressed.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> IntoIterator for &'a Records<'_> {
    type Item = Result<Record<'a>, RecordFormatError>;
    type IntoIter = RecordIter<'a>;

    fn into_iter(self) -> RecordIter<'a> {
        self.iter()
    }
}

/// Iterates the records of a batch; see [`Records::iter`].
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    header: BatchHeader,
    rest: &'a [u8],
    index: usize,
    done: bool,
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, RecordFormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let count = usize::try_from(self.header.record_count).unwrap_or(0);
        if self.index == count {
            self.done = true;
            let index = self.index;
            return (!self.rest.is_empty())
                .then_some(Err(RecordFormatError { index, what: "bytes follow the last record" }));
        }
        let result = self.read_record().map_err(|what| RecordFormatError { index: self.index, what });
        self.index += 1;
        self.done = result.is_err();
        Some(result)
    }
}

impl<'a> RecordIter<'a> {
    fn read_record(&mut self) -> Result<Record<'a>, &'static str> {
        let length = read_i32(&mut self.rest)?;
        let length = usize::try_from(length).map_err(|_| "its length is negative")?;
        let (mut body, rest) = self.rest.split_at_checked(length).ok_or("it ends early")?;
        self.rest = rest;
        let body = &mut body;
        let (_attributes, after) = body.split_first().ok_or("it ends early")?;
        *body = after;
        let (timestamp_delta, used) = varint::read_i64(body).map_err(|_| "its timestamp is no varint")?;
        *body = &body[used..];
        let offset_delta = read_i32(body)?;
        let key = read_nullable(body)?;
        let value = read_nullable(body)?;
        let header_count = usize::try_from(read_i32(body)?).map_err(|_| "its header count is negative")?;
        let headers = Headers { count: header_count, bytes: body };
        let mut rest_of_headers = headers.bytes;
        for _ in 0..header_count {
            read_header(&mut rest_of_headers)?;
        }
        if !rest_of_headers.is_empty() {
            return Err("bytes follow its last header");
        }
        let timestamp = match self.header.timestamp_type() {
            TimestampType::CreateTime => WallMillis(self.header.base_timestamp.0.wrapping_add(timestamp_delta)),
            TimestampType::LogAppendTime => self.header.max_timestamp,
        };
        let offset = Offset(self.header.base_offset.0.wrapping_add(i64::from(offset_delta)));
        Ok(Record { offset, timestamp, key, value, headers })
    }
}

impl<'a> Headers<'a> {
    /// How many headers there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        if self.count == 0 {
            return None;
        }
        self.count -= 1;
        // The record's iterator has read every header once already.
        read_header(&mut self.bytes).ok()
    }
}

fn read_header<'a>(bytes: &mut &'a [u8]) -> Result<Header<'a>, &'static str> {
    let key = read_nullable(bytes)?.ok_or("a header's key is null")?;
    Ok(Header { key, value: read_nullable(bytes)? })
}

fn read_nullable<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
    let length = read_i32(bytes)?;
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| "a length is negative")?;
    let (field, rest) = bytes.split_at_checked(length).ok_or("a field ends early")?;
    *bytes = rest;
    Ok(Some(field))
}

fn read_i32(bytes: &mut &[u8]) -> Result<i32, &'static str> {
    let (value, used) = varint::read_i32(bytes).map_err(|_| "a number is no varint")?;
    *bytes = &bytes[used..];
    Ok(value)
}

/// Appends one record. `offset_delta` and `timestamp_delta` count from the batch's bases.
pub(crate) fn write_record<'h>(
    out: &mut Vec<u8>,
    offset_delta: i32,
    timestamp_delta: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = Header<'h>> + Clone,
) {
    let header_count = headers.clone().count();
    let length = 1
        + varint::size_i64(timestamp_delta)
        + varint::size_i32(offset_delta)
        + nullable_bytes(key)
        + nullable_bytes(value)
        + varint::size_i32(int(header_count))
        + headers.clone().map(|header| nullable_bytes(Some(header.key)) + nullable_bytes(header.value)).sum::<usize>();
    out.reserve(length + varint::U32_BYTES_MAX);
    varint::write_i32(out, int(length));
    out.push(0);
    varint::write_i64(out, timestamp_delta);
    varint::write_i32(out, offset_delta);
    write_nullable(out, key);
    write_nullable(out, value);
    varint::write_i32(out, int(header_count));
    for header in headers {
        write_nullable(out, Some(header.key));
        write_nullable(out, header.value);
    }
}

fn nullable_bytes(field: Option<&[u8]>) -> usize {
    field.map_or(1, |field| varint::size_i32(int(field.len())) + field.len())
}

fn write_nullable(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => varint::write_i32(out, -1),
        Some(field) => {
            varint::write_i32(out, int(field.len()));
            out.extend_from_slice(field);
        }
    }
}

fn int(length: usize) -> i32 {
    i32::try_from(length).expect("the format has no room for fields of 2 GiB, and we make none")
}
