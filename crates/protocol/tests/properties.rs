//! What holds for every API message in every version.

use riparian_wire::Reader;

#[path = "support/luck.rs"]
mod luck;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/properties.rs"]
mod support;
mod generated {
    pub(crate) mod arbitrary;
}

use generated::arbitrary::{self, each_message};

support::properties!(riparian_protocol::messages);

#[test]
fn a_field_that_the_version_lacks_is_an_error_unless_ignorable() {
    use riparian_protocol::messages::{FetchRequest, MetadataRequest, StreamsGroupHeartbeatResponse};
    use riparian_wire::EncodeError;

    let mut out = Vec::new();
    let request = FetchRequest { replica_id: 3, ..FetchRequest::default() };
    assert_eq!(request.encode(&mut out, 14), Ok(()));
    let field = "FetchRequest.replica_id";
    assert_eq!(request.encode(&mut out, 15), Err(EncodeError::Unsupported { field, version: 15 }));

    let all_topics = MetadataRequest { topics: None, ..MetadataRequest::default() };
    assert_eq!(all_topics.encode(&mut out, 1), Ok(()));
    let field = "MetadataRequest.topics";
    assert_eq!(all_topics.encode(&mut out, 0), Err(EncodeError::Unsupported { field, version: 0 }));

    out.clear();
    let response = StreamsGroupHeartbeatResponse { acceptable_recovery_lag: 10_000, ..Default::default() };
    assert_eq!(response.encode(&mut out, 0), Ok(()));
    let decoded = StreamsGroupHeartbeatResponse::decode(&mut Reader::new(&out), 0).unwrap();
    assert_eq!(decoded.acceptable_recovery_lag, -1);
}
