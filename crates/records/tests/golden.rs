//! Records that a real broker wrote decode, and encode to the same bytes.

#![expect(clippy::unwrap_used, reason = "a sample that is not as expected fails the test")]

use riparian_records::stored::{
    self, OffsetCommitValue, StoredKey, StreamsGroupCurrentMemberAssignmentValue, StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue, StreamsGroupTargetAssignmentMemberValue, StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
};
use serde_json::Value;

#[path = "../../protocol/tests/support/golden.rs"]
mod support;

macro_rules! check_value {
    ($name:ident, $bytes:ident, $sample:ident, $what:ident) => {{
        let value = $name::from_bytes(&$bytes).unwrap();
        let version = stored::value_version(&$bytes).unwrap();
        assert_eq!(i64::from(version), $sample["valueVersion"], "{}", $what);
        assert_eq!(value.to_bytes(version).unwrap(), $bytes, "{}", $what);
        support::check_json(&value, &$sample["valueDecoded"], &$what);
    }};
}

/// Checks one record; returns whether it is one with a key and value of ours.
fn check(line: usize, sample: &Value) -> bool {
    let what = format!("line {line}: {}", sample["record"]);
    if sample["control"].is_string() {
        return false;
    }
    let bytes = support::hex(sample, "key").unwrap();
    let key = StoredKey::from_bytes(&bytes).unwrap();
    assert_eq!(i64::from(key.record_type()), sample["type"], "{what}");
    assert_eq!(key.to_bytes().unwrap(), bytes, "{what}");
    let Some(bytes) = support::hex(sample, "value") else {
        assert_eq!(sample["valueDecoded"], Value::Null, "{what}");
        return true;
    };
    let expected = &sample["keyDecoded"];
    match key {
        StoredKey::OffsetCommit(key) => {
            support::check_json(&key, expected, &what);
            check_value!(OffsetCommitValue, bytes, sample, what);
        }
        StoredKey::StreamsGroupMetadata(key) => {
            support::check_json(&key, expected, &what);
            check_value!(StreamsGroupMetadataValue, bytes, sample, what);
        }
        StoredKey::StreamsGroupMemberMetadata(key) => {
            support::check_json(&key, expected, &what);
            check_value!(StreamsGroupMemberMetadataValue, bytes, sample, what);
        }
        StoredKey::StreamsGroupTargetAssignmentMetadata(key) => {
            support::check_json(&key, expected, &what);
            check_value!(StreamsGroupTargetAssignmentMetadataValue, bytes, sample, what);
        }
        StoredKey::StreamsGroupTargetAssignmentMember(key) => {
            support::check_json(&key, expected, &what);
            check_value!(StreamsGroupTargetAssignmentMemberValue, bytes, sample, what);
        }
        StoredKey::StreamsGroupCurrentMemberAssignment(key) => {
            support::check_json(&key, expected, &what);
            check_value!(StreamsGroupCurrentMemberAssignmentValue, bytes, sample, what);
        }
        StoredKey::StreamsGroupTopology(key) => {
            support::check_json(&key, expected, &what);
            check_value!(StreamsGroupTopologyValue, bytes, sample, what);
        }
        key => panic!("{what}: no samples like {key:?} were expected"),
    }
    true
}

#[test]
fn records_of_kafka_encode_to_the_same_bytes() {
    let mut checked = 0;
    for name in ["records-lifecycle.jsonl", "records-static-eos.jsonl", "records-static-raw.jsonl"] {
        for (index, sample) in support::samples(name).iter().enumerate() {
            checked += usize::from(check(index + 1, sample));
        }
    }
    assert_eq!(checked, 174);
}
