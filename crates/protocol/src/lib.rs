//! The Kafka protocol's messages: one struct per request and response, the version an argument.
//!
//! ```
//! use riparian_protocol::messages::DescribeClusterRequest;
//! use riparian_wire::Reader;
//!
//! let mut bytes = Vec::new();
//! DescribeClusterRequest { endpoint_type: 2, ..Default::default() }.encode(&mut bytes, 1).unwrap();
//! assert_eq!(bytes, [0, 2, 0]);
//! let request = DescribeClusterRequest::decode(&mut Reader::new(&bytes), 1).unwrap();
//! assert_eq!(request.endpoint_type, 2);
//! // Version 0 has no such field.
//! assert!(request.encode(&mut bytes, 0).is_err());
//! ```
//!
//! Messages borrow strings and bytes from what they were decoded from; `into_owned` cuts the tie.
//! A field that a version does not have is decoded as its default; encoding fails when such a field is set, unless the
//! schema calls it ignorable. Tagged fields that the schema does not know survive decoding and encoding.
//!
//! Everything under `generated` comes from `schemas/` by `cargo xtask codegen`. Which versions a server offers, and what
//! the fields mean for it, is not known here.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod api_key;
mod error_code;
mod generated {
    pub(crate) mod api_key;
    #[expect(missing_docs, reason = "a field whose name says it all has no text in its schema")]
    pub mod messages;
}
mod header;
mod message;

pub use error_code::ErrorCode;
pub use generated::{api_key::ApiKey, messages};
pub use header::{RequestHeader, ResponseHeader};
pub use message::{Message, Request};
