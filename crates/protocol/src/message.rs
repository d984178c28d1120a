//! Traits over all messages, for code that treats them alike.

use alloc::vec::Vec;

use riparian_wire::{DecodeError, EncodeError, Reader, VersionRange};

use crate::ApiKey;

/// A request or response, borrowing from bytes that live as long as `'a`.
pub trait Message<'a>: Sized {
    /// The versions it can be read and written in.
    const VERSIONS: VersionRange;
    /// The first flexible version; `i16::MAX` if there is none.
    const FLEXIBLE_FROM: i16;

    /// Reads the message in this version.
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError>;

    /// Appends the message in this version.
    fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError>;

    /// The first error code in a response, in the order of its fields; 0 if there is none, and in a request.
    fn first_error(&self) -> i16 {
        0
    }
}

/// The first error in some part of a response.
pub(crate) fn first_error<T>(parts: &[T], of: impl Fn(&T) -> i16) -> i16 {
    parts.iter().map(of).find(|&error| error != 0).unwrap_or(0)
}

/// A request; its response is read and written in the same version.
pub trait Request<'a>: Message<'a> {
    /// The API.
    const API_KEY: ApiKey;
    /// What answers it.
    type Response<'b>: Message<'b>;
}

/// Implements the traits for the two messages of an API.
macro_rules! api {
    ($request:ident $(<$request_life:lifetime>)?, $response:ident $(<$response_life:lifetime>)?) => {
        crate::message::api!(@message $request $(<$request_life>)? {});
        crate::message::api!(@message $response $(<$response_life>)? {
            fn first_error(&self) -> i16 {
                Self::first_error(self)
            }
        });

        impl<'a> crate::Request<'a> for $request $(<$request_life>)? {
            const API_KEY: crate::ApiKey = Self::API_KEY;
            type Response<'b> = crate::message::api!(@type 'b $response $(<$response_life>)?);
        }
    };
    (@type $life:lifetime $name:ident) => { $name };
    (@type $life:lifetime $name:ident <$any:lifetime>) => { $name<$life> };
    (@message $name:ident $(<$life:lifetime>)? { $($more:item)* }) => {
        impl<'a> crate::Message<'a> for $name $(<$life>)? {
            const VERSIONS: riparian_wire::VersionRange = Self::VERSIONS;
            const FLEXIBLE_FROM: i16 = Self::FLEXIBLE_FROM;

            fn decode(
                reader: &mut riparian_wire::Reader<'a>,
                version: i16,
            ) -> Result<Self, riparian_wire::DecodeError> {
                Self::decode(reader, version)
            }

            fn encode(
                &self,
                out: &mut alloc::vec::Vec<u8>,
                version: i16,
            ) -> Result<(), riparian_wire::EncodeError> {
                Self::encode(self, out, version)
            }

            $($more)*
        }
    };
}

pub(crate) use api;
