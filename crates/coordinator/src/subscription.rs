//! The topics that a consumer's opaque metadata names.
//!
//! ```text
//! version: i16   topics: i32 count, each i16 length and bytes   ... what later versions add
//! ```
//!
//! Every version begins like the first, so that a coordinator need not know them (KIP-429 says how they grow). It is the
//! one thing inside what members of classic groups say to each other that concerns the server: offsets of topics that
//! nobody reads expire, and can be deleted.

use std::sync::Arc;

use riparian_types::TopicName;
use riparian_wire::Reader;

/// The protocol type of consumers.
const CONSUMER: &str = "consumer";
/// No version is lower; Kafka's own reader refuses them.
const VERSION_MIN: i16 = 0;

/// What a member of this protocol type reads; `None` where that cannot be known.
pub fn subscribed_topics(protocol_type: &str, metadata: &[u8]) -> Option<Arc<[TopicName]>> {
    if protocol_type != CONSUMER {
        return None;
    }
    let mut reader = Reader::new(metadata);
    if reader.int16().ok()? < VERSION_MIN {
        return None;
    }
    let topics = reader.strings(false).ok()?;
    Some(topics.iter().map(|topic| TopicName::from(&**topic)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_subscription_is_read() {
        let check = |protocol_type, metadata: &[u8], expected: Option<&[&str]>| {
            let found = subscribed_topics(protocol_type, metadata);
            let expected =
                expected.map(|topics| topics.iter().map(|topic| TopicName::from(*topic)).collect::<Arc<[_]>>());
            assert_eq!(found, expected, "{metadata:?}");
        };
        let first = b"\0\0\0\0\0\x02\0\x02in\0\x03out\xff\xff\xff\xff";
        check("consumer", first, Some(&["in", "out"]));
        check("connect", first, None);
        check("consumer", b"\0\x09\0\0\0\x01\0\x02in\xff\xff\xff\xff and more", Some(&["in"]));
        check("consumer", b"\0\0\0\0\0\0", Some(&[]));
        check("consumer", b"\xff\xff\0\0\0\0", None);
        check("consumer", b"\0\0\xff\xff\xff\xff", None);
        check("consumer", b"\0\0\x7f\xff\xff\xff", None);
        check("consumer", b"", None);
        for length in 0..first.len() - 4 {
            check("consumer", &first[..length], None);
        }
    }
}
