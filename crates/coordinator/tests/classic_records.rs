//! Classic groups as a broker of Apache Kafka 4.4.0 wrote them, read and written again byte for byte.

use std::sync::Arc;

use riparian_coordinator::{Decoded, RecordCodec as _, codecs::GroupCodec};
use riparian_group::record::{ClassicGroupValue, Record};
use riparian_types::{Generation, TopicName, WallMillis};

const KEY: &[u8] = b"\0\x02\0\x01g";

/// A member has just been given an id.
const NEW: &str = "0003000000000000ffffffff000001a229b4de1300000000";
/// Everybody has left.
const LEFT: &str = "00030008636f6e73756d657200000004ffffffff000001a229b4e78400000000";
/// A static and a dynamic member; the second also reads another topic.
const STABLE: &str = concat!(
    "00030008636f6e73756d657200000006000572616e6765002b636c69656e742d31626331633161372d313364312d343536302d396364352d",
    "633537396365656165336463000001a229b51a3300000002002b636c69656e742d31626331633161372d313364312d343536302d39636435",
    "2d633537396365656165336463ffff0006636c69656e74000a2f3132372e302e302e31000001f4000017700000003d000000000002001763",
    "6c61737369632d7374617469632d72616365732e696e0018636c61737369632d7374617469632d72616365732e6f7574ffffffff00000001",
    "32002769312d63646235343832312d323962362d346562612d623762652d303966396662666239663333000269310006636c69656e74000a",
    "2f3132372e302e302e31000001f400000fa0000000230000000000010017636c61737369632d7374617469632d72616365732e696effffff",
    "ff0000000131",
);

fn check(text: &str) -> ClassicGroupValue {
    let digits = text.as_bytes().chunks_exact(2);
    let hex = digits.map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("hexadecimal"));
    let bytes: Vec<u8> = hex.collect();
    let Decoded::Record(record) = GroupCodec::decode(Some(KEY), Some(&bytes)) else { panic!("{text}") };
    let written = GroupCodec::encode(&record);
    assert_eq!((written.key.as_deref(), written.value), (Some(KEY), Some(bytes)));
    match record {
        Record::ClassicGroupMetadata(_, Some(value)) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn groups_without_members_are_recorded_as_by_kafka() {
    let new = check(NEW);
    assert_eq!((new.protocol_type.as_str(), new.generation, new.protocol), ("", Generation(0), None));
    assert_eq!((new.leader, new.state_timestamp), (None, Some(WallMillis(1_795_996_048_915))));
    let left = check(LEFT);
    assert_eq!((left.protocol_type.as_str(), left.generation, left.members.len()), ("consumer", Generation(4), 0));
}

#[test]
fn members_are_recorded_as_by_kafka() {
    let group = check(STABLE);
    assert_eq!((group.protocol.as_deref(), group.generation), (Some("range"), Generation(6)));
    assert_eq!(group.leader.as_ref(), Some(&group.members[0].member_id));
    let timeouts = group.members.iter().map(|member| (member.rebalance_timeout_ms, member.session_timeout_ms));
    assert_eq!(timeouts.collect::<Vec<_>>(), [(500, 6000), (500, 4000)]);
    assert_eq!(group.members[1].instance_id.as_deref(), Some("i1"));
    let topics: Arc<[TopicName]> = ["classic-static-races.in", "classic-static-races.out"].map(TopicName::from).into();
    assert_eq!(group.members[0].subscribed_topics, Some(topics));
    assert_eq!([&*group.members[0].assignment, &*group.members[1].assignment], [b"2", b"1"]);
}
