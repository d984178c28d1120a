//! Keys and values of the records that the server stores for itself, generated from `schemas/`.
//!
//! ```text
//! __consumer_offsets   key    int16 record type, key struct
//!                      value  int16 version, value struct; null is a tombstone
//! __cluster_metadata   value  uvarint frame version (1), uvarint record type, uvarint version, struct; no key
//! control records      value  struct
//! ```
//!
//! [`StoredKey`] and [`MetadataRecord`] tell the record types apart; one that there is no schema for is
//! [`DecodeError::UnknownType`], which a reader of `__consumer_offsets` skips.
//! Which records are written when, and what they mean, is not known here.

use alloc::vec::Vec;

use riparian_wire::{DecodeError, Reader, varint};

mod generated {
    #[expect(missing_docs, reason = "a field whose name says it all has no text in its schema")]
    pub(super) mod records;
}

pub use generated::records::*;

/// The version of the frame around records of `__cluster_metadata`.
const METADATA_FRAME_VERSION: u32 = 1;

/// The record type that a key of `__consumer_offsets` begins with.
pub fn key_type(key: &[u8]) -> Result<i16, DecodeError> {
    Reader::new(key).int16()
}

/// The version that a value of `__consumer_offsets` begins with.
pub fn value_version(value: &[u8]) -> Result<i16, DecodeError> {
    Reader::new(value).int16()
}

/// The record type and version that a value of `__cluster_metadata` begins with, and a reader of what follows.
pub fn metadata_frame(value: &[u8]) -> Result<(i32, i16, Reader<'_>), DecodeError> {
    let mut reader = Reader::new(value);
    let frame_version = reader.unsigned_varint()?;
    if frame_version != METADATA_FRAME_VERSION {
        return Err(DecodeError::UnknownVersion { version: i16::try_from(frame_version).unwrap_or(i16::MAX) });
    }
    // Types and versions are int16 in Kafka; a larger number is one that nothing here knows.
    let record_type = i32::try_from(reader.unsigned_varint()?).unwrap_or(i32::MAX);
    let version = i16::try_from(reader.unsigned_varint()?).unwrap_or(i16::MAX);
    Ok((record_type, version, reader))
}

fn metadata_frame_start(record_type: i16, version: i16) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write_u32(&mut out, METADATA_FRAME_VERSION);
    // Both are small numbers above 0 from the schemas; a wrong version is refused by the encoder.
    varint::write_u32(&mut out, record_type as u32);
    varint::write_u32(&mut out, version as u32);
    out
}

/// Implements reading and writing of a value with its version in front.
macro_rules! value {
    ($name:ident $(<$life:lifetime>)?) => {
        impl<'a> $name $(<$life>)? {
            /// Reads a value with its version in front.
            pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, riparian_wire::DecodeError> {
                let mut reader = riparian_wire::Reader::new(bytes);
                let version = reader.int16()?;
                let value = Self::decode(&mut reader, version)?;
                reader.finish()?;
                Ok(value)
            }

            /// The value in this version, with the version in front.
            pub fn to_bytes(&self, version: i16) -> Result<alloc::vec::Vec<u8>, riparian_wire::EncodeError> {
                let mut out = alloc::vec::Vec::new();
                riparian_wire::write::int16(&mut out, version);
                self.encode(&mut out, version)?;
                Ok(out)
            }
        }
    };
}

/// Defines the enum of all keys, and reading and writing of each key with its record type in front.
macro_rules! keys {
    ($($(#[$doc:meta])* $variant:ident($name:ident<$life:lifetime>),)*) => {
        /// A key of `__consumer_offsets`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum StoredKey<'a> {
            $($(#[$doc])* $variant($name<$life>),)*
        }

        impl<'a> StoredKey<'a> {
            /// Reads a key with its record type in front.
            pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, riparian_wire::DecodeError> {
                match crate::stored::key_type(bytes)? {
                    $($name::TYPE => $name::from_bytes(bytes).map(Self::$variant),)*
                    found => Err(riparian_wire::DecodeError::UnknownType { found: found.into() }),
                }
            }

            /// The key with its record type in front.
            pub fn to_bytes(&self) -> Result<alloc::vec::Vec<u8>, riparian_wire::EncodeError> {
                match self {
                    $(Self::$variant(key) => key.to_bytes(),)*
                }
            }

            /// The record type.
            pub const fn record_type(&self) -> i16 {
                match self {
                    $(Self::$variant(_) => $name::TYPE,)*
                }
            }
        }

        $(impl<'a> $name<$life> {
            /// Reads a key with its record type in front.
            pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, riparian_wire::DecodeError> {
                let mut reader = riparian_wire::Reader::new(bytes);
                crate::stored::expect_type(reader.int16()?, Self::TYPE)?;
                let key = Self::decode(&mut reader, 0)?;
                reader.finish()?;
                Ok(key)
            }

            /// The key with its record type in front.
            pub fn to_bytes(&self) -> Result<alloc::vec::Vec<u8>, riparian_wire::EncodeError> {
                let mut out = alloc::vec::Vec::new();
                riparian_wire::write::int16(&mut out, Self::TYPE);
                self.encode(&mut out, 0)?;
                Ok(out)
            }
        })*
    };
}

/// Defines the enum of all records of `__cluster_metadata`, and reading and writing with the frame around them.
macro_rules! metadata_records {
    ($($(#[$doc:meta])* $variant:ident($name:ident $(<$life:lifetime>)?),)*) => {
        /// A value of `__cluster_metadata`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum MetadataRecord<'a> {
            $($(#[$doc])* $variant($name $(<$life>)?),)*
        }

        impl<'a> MetadataRecord<'a> {
            /// Reads a value with its frame.
            pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, riparian_wire::DecodeError> {
                let (found, version, mut reader) = crate::stored::metadata_frame(bytes)?;
                let record = match i16::try_from(found) {
                    $(Ok($name::TYPE) => Self::$variant($name::decode(&mut reader, version)?),)*
                    _ => return Err(riparian_wire::DecodeError::UnknownType { found }),
                };
                reader.finish()?;
                Ok(record)
            }

            /// The value in this version, with its frame.
            pub fn to_bytes(&self, version: i16) -> Result<alloc::vec::Vec<u8>, riparian_wire::EncodeError> {
                let mut out = crate::stored::metadata_frame_start(self.record_type(), version);
                match self {
                    $(Self::$variant(record) => record.encode(&mut out, version)?,)*
                }
                Ok(out)
            }

            /// The record type.
            pub const fn record_type(&self) -> i16 {
                match self {
                    $(Self::$variant(_) => $name::TYPE,)*
                }
            }

            /// The versions this record can be read and written in.
            pub const fn versions(&self) -> riparian_wire::VersionRange {
                match self {
                    $(Self::$variant(_) => $name::VERSIONS,)*
                }
            }
        }

        $(impl<'a> From<$name $(<$life>)?> for MetadataRecord<'a> {
            fn from(record: $name $(<$life>)?) -> Self {
                Self::$variant(record)
            }
        })*
    };
}

use {keys, metadata_records, value};

fn expect_type(found: i16, wanted: i16) -> Result<(), DecodeError> {
    if found == wanted { Ok(()) } else { Err(DecodeError::WrongType { wanted, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_begin_with_their_type() {
        let key = StreamsGroupMetadataKey { group_id: "wc".into() };
        let bytes = key.to_bytes().unwrap();
        assert_eq!(bytes, [0, 17, 0, 2, b'w', b'c']);
        assert_eq!(StoredKey::from_bytes(&bytes), Ok(StoredKey::StreamsGroupMetadata(key)));
        let wrong = StreamsGroupTopologyKey::from_bytes(&bytes);
        assert_eq!(wrong, Err(DecodeError::WrongType { wanted: 23, found: 17 }));
        assert_eq!(StoredKey::from_bytes(&[0, 24]), Err(DecodeError::UnknownType { found: 24 }));
    }

    #[test]
    fn values_begin_with_their_version() {
        let value = OffsetCommitValue { offset: 7, ..OffsetCommitValue::default() };
        for version in OffsetCommitValue::VERSIONS.iter() {
            let bytes = value.to_bytes(version).unwrap();
            assert_eq!(value_version(&bytes), Ok(version));
            assert_eq!(OffsetCommitValue::from_bytes(&bytes), Ok(value.clone()));
        }
        assert_eq!(OffsetCommitValue::from_bytes(&[0, 9]), Err(DecodeError::UnknownVersion { version: 9 }));
    }

    #[test]
    fn metadata_records_stand_in_a_frame() {
        let record = MetadataRecord::from(TopicRecord { name: "t".into(), ..TopicRecord::default() });
        let bytes = record.to_bytes(0).unwrap();
        assert_eq!(bytes[..5], [1, 2, 0, 2, b't']);
        assert_eq!(MetadataRecord::from_bytes(&bytes), Ok(record));
        assert_eq!(MetadataRecord::from_bytes(&[1, 99, 0]), Err(DecodeError::UnknownType { found: 99 }));
        assert_eq!(MetadataRecord::from_bytes(&[2, 2, 0]), Err(DecodeError::UnknownVersion { version: 2 }));
    }
}
