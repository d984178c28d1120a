//! Primitives of the Kafka protocol, without any message: variable-length integers, bounded cursors, compact and tagged
//! fields, framing.
//!
//! **Invariant:** nothing here panics, or reserves memory, because of a number that a peer sent: every length is checked
//! against the bytes that are left and against a budget of decoded bytes first.
//!
//! Most fields have two forms: the old one with lengths of fixed width, and the compact one of flexible versions
//! (KIP-482). Functions that know both take `flexible: bool`, so that generated code is one call per field:
//!
//! ```text
//!            old form                    compact form
//! string     int16 length, bytes         uvarint length + 1, bytes
//! bytes      int32 length, bytes         uvarint length + 1, bytes
//! array      int32 count, elements       uvarint count + 1, elements
//! null       length -1                   0
//! struct?    int8 -1 null, 1 present     the same
//! tags       (none)                      uvarint count, then per field uvarint tag, uvarint size, bytes
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod error;
pub mod frame;
pub mod outline;
pub mod own;
mod reader;
mod tagged;
pub mod varint;
mod version;
pub mod write;

pub use error::{DecodeError, EncodeError};
pub use outline::Outline;
pub use reader::{Reader, Tags, element};
pub use tagged::{TaggedField, TaggedFields};
pub use version::VersionRange;
