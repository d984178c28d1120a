//! Headers of requests and responses.
//!
//! ```text
//! request 1   int16 API key, int16 version, int32 correlation id, nullable string client id (old form)
//! request 2   the same, then tagged fields
//! response 0  int32 correlation id
//! response 1  the same, then tagged fields
//! ```

use alloc::{borrow::Cow, vec::Vec};

use riparian_wire::{DecodeError, EncodeError, Reader, TaggedFields, write};

use crate::ApiKey;

/// What stands in front of every request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestHeader<'a> {
    /// The API's code; it may be one without a schema, see [`RequestHeader::api`].
    pub api_key: i16,
    /// The version of the API; not checked against what is known.
    pub api_version: i16,
    /// Chosen by the client, returned in the response.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<Cow<'a, str>>,
    /// Tagged fields of a version 2 header.
    pub unknown_tagged_fields: TaggedFields,
}

impl<'a> RequestHeader<'a> {
    /// The API, if there is a schema for it.
    pub fn api(&self) -> Option<ApiKey> {
        ApiKey::from_code(self.api_key)
    }

    /// Reads a header in the version that its API and API version ask for; that of an unknown API as version 1.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let api_key = reader.int16()?;
        let api_version = reader.int16()?;
        let correlation_id = reader.int32()?;
        // The client id kept its old form in version 2, so that it can be read before the version is known.
        let client_id = reader.nullable_string(false)?;
        let flexible = is_flexible(api_key, api_version);
        let unknown_tagged_fields = reader.unknown_tags(flexible)?;
        Ok(Self { api_key, api_version, correlation_id, client_id, unknown_tagged_fields })
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        write::int16(out, self.api_key);
        write::int16(out, self.api_version);
        write::int32(out, self.correlation_id);
        write::nullable_string(out, self.client_id.as_deref(), false)?;
        let flexible = is_flexible(self.api_key, self.api_version);
        write::unknown_tags(out, &self.unknown_tagged_fields, flexible, self.api_version)
    }

    /// The same without borrowed parts.
    pub fn into_owned(self) -> RequestHeader<'static> {
        RequestHeader { client_id: riparian_wire::own::nullable_string(self.client_id), ..self }
    }
}

fn is_flexible(api_key: i16, api_version: i16) -> bool {
    ApiKey::from_code(api_key).is_some_and(|api| api.request_header_version(api_version) == 2)
}

/// What stands in front of every response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHeader {
    /// That of the request.
    pub correlation_id: i32,
    /// Tagged fields of a version 1 header.
    pub unknown_tagged_fields: TaggedFields,
}

impl ResponseHeader {
    /// A header without tagged fields.
    pub const fn new(correlation_id: i32) -> Self {
        Self { correlation_id, unknown_tagged_fields: TaggedFields::new() }
    }

    /// Reads the header of an answer to this version of an API.
    pub fn decode(reader: &mut Reader<'_>, api: ApiKey, api_version: i16) -> Result<Self, DecodeError> {
        let correlation_id = reader.int32()?;
        let unknown_tagged_fields = reader.unknown_tags(api.response_header_version(api_version) == 1)?;
        Ok(Self { correlation_id, unknown_tagged_fields })
    }

    /// Appends the header of an answer to this version of an API.
    pub fn encode(&self, out: &mut Vec<u8>, api: ApiKey, api_version: i16) -> Result<(), EncodeError> {
        write::int32(out, self.correlation_id);
        let flexible = api.response_header_version(api_version) == 1;
        write::unknown_tags(out, &self.unknown_tagged_fields, flexible, api_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_headers_round_trip_in_both_versions() {
        for (api, api_version, bytes_expected) in [
            (ApiKey::Metadata, 8, 8 + 2 + 2),
            (ApiKey::Metadata, 9, 8 + 2 + 2 + 1),
            (ApiKey::ApiVersions, 42, 8 + 2 + 2 + 1),
        ] {
            let header = RequestHeader {
                api_key: api.code(),
                api_version,
                correlation_id: 7,
                client_id: Some("me".into()),
                ..RequestHeader::default()
            };
            let mut bytes = Vec::new();
            header.encode(&mut bytes).unwrap();
            assert_eq!(bytes.len(), bytes_expected);
            let mut reader = Reader::new(&bytes);
            assert_eq!(RequestHeader::decode(&mut reader).unwrap(), header);
            reader.finish().unwrap();
        }
    }

    #[test]
    fn unknown_apis_have_a_readable_header() {
        let bytes = [0x7f, 0xff, 0, 0, 0, 0, 0, 9, 0xff, 0xff];
        let header = RequestHeader::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!((header.api(), header.correlation_id, header.client_id), (None, 9, None));
    }

    #[test]
    fn api_versions_answers_have_no_tagged_fields() {
        let mut bytes = Vec::new();
        ResponseHeader::new(3).encode(&mut bytes, ApiKey::ApiVersions, 4).unwrap();
        assert_eq!(bytes, [0, 0, 0, 3]);
        ResponseHeader::new(3).encode(&mut bytes, ApiKey::Metadata, 9).unwrap();
        assert_eq!(bytes[4..], [0, 0, 0, 3, 0]);
    }
}
