//! Texts for clients that more than one handler sends.

use std::borrow::Cow;

/// Why anything with a transactional id is refused.
pub(crate) const NO_TRANSACTIONS: &str = "this server has no transactions yet: set processing.guarantee=at_least_once \
     for Kafka Streams, or leave transactional.id out for a producer";

/// The longest text that a client is told.
const TEXT_BYTES_MAX: usize = 4096;

/// A text for a client. It may quote what another client sent, which may be long; old versions have no room for more
/// than 32,767 bytes.
pub(crate) fn told(mut text: String) -> Cow<'static, str> {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(told("short".to_owned()), "short");
        let long = told("ä".repeat(40_000));
        assert_eq!(long.len(), TEXT_BYTES_MAX + "…".len());
        assert!(told(format!("a{}", "ä".repeat(40_000))).ends_with("ä…"));
    }
}
