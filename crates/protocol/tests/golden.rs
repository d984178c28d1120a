//! Frames of a real broker and real clients decode, and encode to the same bytes.

#![expect(clippy::unwrap_used, reason = "a sample that is not as expected fails the test")]

use riparian_protocol::{
    ApiKey, RequestHeader, ResponseHeader,
    messages::{
        StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, StreamsGroupHeartbeatRequest,
        StreamsGroupHeartbeatResponse, StreamsGroupTopologyDescriptionUpdateRequest,
        StreamsGroupTopologyDescriptionUpdateResponse,
    },
};
use riparian_wire::Reader;
use serde_json::Value;

#[path = "support/golden.rs"]
mod support;

macro_rules! check {
    ($name:ident, $reader:ident, $again:ident, $version:ident, $sample:ident, $what:ident) => {{
        let message = $name::decode(&mut $reader, $version).unwrap();
        $reader.finish().unwrap();
        message.encode(&mut $again, $version).unwrap();
        support::check_json(&message, &$sample["decoded"], &$what);
    }};
}

fn check(line: usize, sample: &Value) {
    let bytes = support::hex(sample, "hex").unwrap();
    let code = sample["apiKey"].as_i64().unwrap() as i16;
    let version = sample["version"].as_i64().unwrap() as i16;
    let api = ApiKey::from_code(code).unwrap();
    let is_request = sample["dir"] == "request";
    let what = format!("line {line}: {api} {} {version} ({})", sample["dir"], sample["scenario"]);

    let mut reader = Reader::new(&bytes);
    let mut again = Vec::new();
    if is_request {
        let header = RequestHeader::decode(&mut reader).unwrap();
        assert_eq!((header.api_key, header.api_version), (code, version), "{what}");
        assert_eq!(header.client_id.as_deref(), sample["client"].as_str(), "{what}");
        header.encode(&mut again).unwrap();
    } else {
        let header = ResponseHeader::decode(&mut reader, api, version).unwrap();
        assert_eq!(i64::from(header.correlation_id), sample["corr"], "{what}");
        header.encode(&mut again, api, version).unwrap();
    }
    match (api, is_request) {
        (ApiKey::StreamsGroupHeartbeat, true) => {
            check!(StreamsGroupHeartbeatRequest, reader, again, version, sample, what);
        }
        (ApiKey::StreamsGroupHeartbeat, false) => {
            check!(StreamsGroupHeartbeatResponse, reader, again, version, sample, what);
        }
        (ApiKey::StreamsGroupDescribe, true) => {
            check!(StreamsGroupDescribeRequest, reader, again, version, sample, what);
        }
        (ApiKey::StreamsGroupDescribe, false) => {
            check!(StreamsGroupDescribeResponse, reader, again, version, sample, what);
        }
        (ApiKey::StreamsGroupTopologyDescriptionUpdate, true) => {
            check!(StreamsGroupTopologyDescriptionUpdateRequest, reader, again, version, sample, what);
        }
        (ApiKey::StreamsGroupTopologyDescriptionUpdate, false) => {
            check!(StreamsGroupTopologyDescriptionUpdateResponse, reader, again, version, sample, what);
        }
        _ => panic!("{what}: no samples of this API were expected"),
    }
    assert_eq!(again, bytes, "{what}");
}

#[test]
fn frames_of_kafka_encode_to_the_same_bytes() {
    let samples = support::samples("wire-88-89.jsonl");
    assert_eq!(samples.len(), 119);
    for (index, sample) in samples.iter().enumerate() {
        check(index + 1, sample);
    }
}
