//! One connection's protocol state, without a socket.
//!
//! **Invariant:** an answer is only handed out with the API and version of the request it answers; an answer that
//! nobody asked for is an error.

use std::collections::VecDeque;

use riparian_protocol::{
    ApiKey, ErrorCode, Message, Request, RequestHeader, ResponseHeader,
    messages::{ApiVersionsRequest, ApiVersionsResponse},
};
use riparian_wire::{DecodeError, EncodeError, Reader, VersionRange, frame};

/// Largest answer that is accepted, in bytes.
const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;

/// See the module.
#[derive(Debug)]
pub struct ClientCore {
    client_id: String,
    /// What the server speaks; empty before [`Self::handle_api_versions`].
    server: Vec<(i16, VersionRange)>,
    next_correlation_id: i32,
    /// Requests without an answer, oldest first: a server answers in the order it was asked.
    outstanding: VecDeque<Outstanding>,
    input: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
}

/// An answer as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The API of the request.
    pub api: ApiKey,
    /// The version of the request.
    pub version: i16,
    /// The number that was given to the request.
    pub correlation_id: i32,
    /// The response without its header.
    pub body: Vec<u8>,
}

/// What is wrong with a request or an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The server does not have the API.
    #[error("the server does not offer {api}")]
    NotOffered {
        /// The API.
        api: ApiKey,
    },
    /// There is no version that both sides speak.
    #[error("the server offers {api} in versions {}-{}, this client needs {}-{}", .server.min, .server.max, .client.min, .client.max)]
    NoCommonVersion {
        /// The API.
        api: ApiKey,
        /// What the server speaks.
        server: VersionRange,
        /// What this client speaks, or needs for this request.
        client: VersionRange,
    },
    /// The request cannot be written in the version.
    #[error("{api} version {version} cannot carry the request: {source}")]
    Encode {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// Why.
        source: EncodeError,
    },
    /// The answer cannot be read.
    #[error("the answer to {api} version {version} is malformed: {source}")]
    Decode {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// Why.
        source: DecodeError,
    },
    /// The bytes are no frame.
    #[error("the answer is no Kafka response: {0} (is this the port of a Kafka server?)")]
    Frame(#[from] frame::FrameError),
    /// The answer's number is not that of the oldest request.
    #[error("an answer with correlation id {found} came where {expected:?} was due")]
    Unexpected {
        /// The answer's number.
        found: i32,
        /// The oldest request's number; `None`: nothing was asked.
        expected: Option<i32>,
    },
    /// The server refused to say what it speaks.
    #[error("the server refused to negotiate versions: {0}")]
    Refused(ErrorCode),
}

impl ClientCore {
    /// A connection on which nothing was said yet.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            server: Vec::new(),
            next_correlation_id: 0,
            outstanding: VecDeque::new(),
            input: Vec::new(),
        }
    }

    /// Asks the server what it speaks, in this version; to be called first, with the highest version that is known
    /// ([`ApiVersionsRequest::VERSIONS`]), and again with what [`Self::handle_api_versions`] returns.
    pub fn encode_api_versions(&mut self, version: i16, out: &mut Vec<u8>) -> Result<i32, CoreError> {
        let request = if version >= 3 {
            ApiVersionsRequest {
                client_software_name: "riparian".into(),
                client_software_version: env!("CARGO_PKG_VERSION").into(),
                ..ApiVersionsRequest::default()
            }
        } else {
            ApiVersionsRequest::default()
        };
        self.encode(&request, version, out)
    }

    /// Takes the answer to [`Self::encode_api_versions`]. `Some`: the server wants to be asked in that version.
    pub fn handle_api_versions(&mut self, answer: &Received) -> Result<Option<i16>, CoreError> {
        // A server that does not know the version answers in version 0, which begins with the error code as all do.
        let unsupported = answer.body.starts_with(&ErrorCode::UnsupportedVersion.code().to_be_bytes());
        let version = if unsupported { 0 } else { answer.version };
        let malformed = |source| CoreError::Decode { api: ApiKey::ApiVersions, version, source };
        let response = ApiVersionsResponse::decode(&mut Reader::new(&answer.body), version).map_err(malformed)?;
        let offered = |api: i16| {
            let found = response.api_keys.iter().find(|offered| offered.api_key == api)?;
            Some(VersionRange::new(found.min_version, found.max_version))
        };
        if unsupported {
            // Servers before 2.4 do not even say what they do know.
            let client = ApiVersionsRequest::VERSIONS;
            let max = offered(ApiKey::ApiVersions.code()).map_or(0, |server| server.max.min(client.max));
            if max >= answer.version {
                return Err(CoreError::Refused(ErrorCode::UnsupportedVersion));
            }
            return Ok(Some(max));
        }
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => {}
            refused => return Err(CoreError::Refused(refused.unwrap_or(ErrorCode::UnknownServerError))),
        }
        self.server = response
            .api_keys
            .iter()
            .map(|offered| (offered.api_key, VersionRange::new(offered.min_version, offered.max_version)))
            .collect();
        Ok(None)
    }

    /// What the server speaks, by API code.
    pub fn server_versions(&self) -> &[(i16, VersionRange)] {
        &self.server
    }

    /// The highest version of an API that both sides speak, within `client`.
    pub fn version(&self, api: ApiKey, client: VersionRange) -> Result<i16, CoreError> {
        let found = self.server.iter().find(|(code, _)| *code == api.code());
        let Some(&(_, server)) = found else { return Err(CoreError::NotOffered { api }) };
        let version = server.max.min(client.max);
        if version < server.min || version < client.min {
            return Err(CoreError::NoCommonVersion { api, server, client });
        }
        Ok(version)
    }

    /// Appends a request as a frame. Returns the number that its answer will carry.
    pub fn encode<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        version: i16,
        out: &mut Vec<u8>,
    ) -> Result<i32, CoreError> {
        let api = R::API_KEY;
        let failed = |source| CoreError::Encode { api, version, source };
        let correlation_id = self.next_correlation_id;
        let header = RequestHeader {
            api_key: api.code(),
            api_version: version,
            correlation_id,
            client_id: Some(self.client_id.as_str().into()),
            ..RequestHeader::default()
        };
        let before = out.len();
        let start = frame::start(out);
        let written = header.encode(out).and_then(|()| request.encode(out, version)).map_err(failed);
        let finished = written.and_then(|()| Ok(frame::finish(out, start)?));
        if let Err(error) = finished {
            out.truncate(before);
            return Err(error);
        }
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        self.outstanding.push_back(Outstanding { correlation_id, api, version });
        Ok(correlation_id)
    }

    /// Takes bytes from the server.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next answer, if all of it has come.
    pub fn poll_answer(&mut self) -> Result<Option<Received>, CoreError> {
        let Some(prefix) = self.input.first_chunk() else { return Ok(None) };
        let size = frame::size(*prefix, ANSWER_BYTES_MAX)?;
        let Some(response) = self.input[frame::PREFIX_BYTES..].get(..size) else { return Ok(None) };
        let Some(&oldest) = self.outstanding.front() else {
            let found = response.first_chunk().map_or(-1, |bytes| i32::from_be_bytes(*bytes));
            return Err(CoreError::Unexpected { found, expected: None });
        };
        let Outstanding { correlation_id, api, version } = oldest;
        let mut reader = Reader::new(response);
        let header = ResponseHeader::decode(&mut reader, api, version).map_err(|source| CoreError::Decode {
            api,
            version,
            source,
        })?;
        if header.correlation_id != correlation_id {
            return Err(CoreError::Unexpected { found: header.correlation_id, expected: Some(correlation_id) });
        }
        let body = reader.remaining().to_vec();
        self.outstanding.pop_front();
        self.input.drain(..frame::PREFIX_BYTES + size);
        Ok(Some(Received { api, version, correlation_id, body }))
    }

    /// How many requests have no answer yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }
}

impl Received {
    /// Reads the response of a request of type `R`.
    pub fn decode<'a, R: Request<'a>>(&self) -> Result<R::Response<'_>, CoreError> {
        let Self { api, version, .. } = *self;
        let malformed = |source| CoreError::Decode { api, version, source };
        let mut reader = Reader::new(&self.body);
        let response = R::Response::decode(&mut reader, version).map_err(malformed)?;
        reader.finish().map_err(malformed)?;
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use riparian_protocol::messages::{
        DescribeClusterRequest, DescribeClusterResponse, api_versions_response::ApiVersion,
    };

    use super::*;

    /// What a server would send.
    fn answer<'a>(api: ApiKey, version: i16, correlation_id: i32, response: &impl Message<'a>) -> Vec<u8> {
        let mut out = Vec::new();
        let start = frame::start(&mut out);
        ResponseHeader::new(correlation_id).encode(&mut out, api, version).unwrap();
        response.encode(&mut out, version).unwrap();
        frame::finish(&mut out, start).unwrap();
        out
    }

    fn offering(api: ApiKey, min_version: i16, max_version: i16) -> ApiVersionsResponse<'static> {
        ApiVersionsResponse {
            api_keys: vec![ApiVersion { api_key: api.code(), min_version, max_version, ..ApiVersion::default() }],
            ..ApiVersionsResponse::default()
        }
    }

    /// A core whose server offers DescribeCluster in these versions.
    fn negotiated(min: i16, max: i16) -> ClientCore {
        let mut core = ClientCore::new("test");
        let id = core.encode_api_versions(3, &mut Vec::new()).unwrap();
        core.handle_bytes(&answer(ApiKey::ApiVersions, 3, id, &offering(ApiKey::DescribeCluster, min, max)));
        let received = core.poll_answer().unwrap().unwrap();
        assert_eq!(core.handle_api_versions(&received), Ok(None));
        core
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        let range = VersionRange::new;
        assert_eq!(negotiated(0, 1).version(ApiKey::DescribeCluster, range(0, 2)), Ok(1));
        assert_eq!(negotiated(0, 9).version(ApiKey::DescribeCluster, range(0, 2)), Ok(2));
        assert_eq!(
            negotiated(0, 1).version(ApiKey::DescribeCluster, range(2, 2)).unwrap_err().to_string(),
            "the server offers DescribeCluster in versions 0-1, this client needs 2-2"
        );
        assert_eq!(
            negotiated(0, 1).version(ApiKey::Produce, range(3, 9)).unwrap_err().to_string(),
            "the server does not offer Produce"
        );
    }

    #[test]
    fn a_server_that_knows_less_is_asked_again_in_its_version() {
        let mut core = ClientCore::new("test");
        let id = core.encode_api_versions(5, &mut Vec::new()).unwrap();
        let mut refusal = offering(ApiKey::ApiVersions, 0, 3);
        refusal.error_code = ErrorCode::UnsupportedVersion.code();
        core.handle_bytes(&answer(ApiKey::ApiVersions, 0, id, &refusal));
        let received = core.poll_answer().unwrap().unwrap();
        assert_eq!(core.handle_api_versions(&received), Ok(Some(3)));
    }

    #[test]
    fn answers_are_cut_wherever_the_bytes_break() {
        let mut core = negotiated(0, 1);
        let mut sent = Vec::new();
        let first = core.encode(&DescribeClusterRequest::default(), 1, &mut sent).unwrap();
        let second = core.encode(&DescribeClusterRequest::default(), 0, &mut sent).unwrap();
        let response = |id: &'static str| DescribeClusterResponse { cluster_id: id.into(), ..Default::default() };
        let mut bytes = answer(ApiKey::DescribeCluster, 1, first, &response("one"));
        bytes.extend(answer(ApiKey::DescribeCluster, 0, second, &response("two")));
        let mut found = Vec::new();
        for byte in bytes {
            core.handle_bytes(&[byte]);
            if let Some(received) = core.poll_answer().unwrap() {
                found.push(received.decode::<DescribeClusterRequest>().unwrap().cluster_id.into_owned());
            }
        }
        assert_eq!(found, ["one", "two"]);
        assert_eq!(core.outstanding(), 0);
    }

    #[test]
    fn a_wrong_correlation_id_is_an_error() {
        let mut core = negotiated(0, 1);
        let id = core.encode(&DescribeClusterRequest::default(), 1, &mut Vec::new()).unwrap();
        core.handle_bytes(&answer(ApiKey::DescribeCluster, 1, id + 1, &DescribeClusterResponse::default()));
        assert_eq!(core.poll_answer(), Err(CoreError::Unexpected { found: id + 1, expected: Some(id) }));
    }

    #[test]
    fn bytes_of_another_protocol_are_an_error() {
        let mut core = ClientCore::new("test");
        core.encode_api_versions(5, &mut Vec::new()).unwrap();
        core.handle_bytes(b"HTTP/1.1 400 Bad Request");
        let error = core.poll_answer().unwrap_err().to_string();
        assert!(error.contains("is this the port of a Kafka server?"), "{error}");
    }

    #[test]
    fn a_request_that_cannot_be_written_leaves_no_bytes() {
        let mut core = negotiated(0, 1);
        let mut out = vec![1, 2, 3];
        let request = DescribeClusterRequest { endpoint_type: 2, ..DescribeClusterRequest::default() };
        assert!(core.encode(&request, 0, &mut out).is_err());
        assert_eq!((out.as_slice(), core.outstanding()), ([1, 2, 3].as_slice(), 0));
    }
}
