//! What clients and Kafka's formats expect to be computed the way Java does it.

use alloc::{format, string::String};

/// Java's `String.hashCode`: over UTF-16 code units.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition of `__consumer_offsets` (or `__transaction_state`) that keeps this group (or transactional id).
///
/// Kafka takes the absolute value of the hash, with the one number that has none counted as 0. A `partition_count`
/// below 1 counts as 1.
pub fn coordinator_partition(id: &str, partition_count: i32) -> i32 {
    string_hash(id).checked_abs().unwrap_or(0) % partition_count.max(1)
}

/// What Java prints of a UUID, given its halves.
pub fn uuid_text(most: u64, least: u64) -> String {
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        most >> 32,
        most >> 16 & 0xffff,
        most & 0xffff,
        least >> 48,
        least & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::{coordinator_partition, string_hash, uuid_text};

    #[test]
    fn uuids_are_printed_like_java() {
        assert_eq!(uuid_text(0x0123_4567_89ab_4cde, 0x8f01_2345_6789_abcd), "01234567-89ab-4cde-8f01-23456789abcd");
    }

    #[test]
    fn hashes_like_java() {
        assert_eq!(string_hash(""), 0);
        assert_eq!(string_hash("hello"), 99_162_322);
        assert_eq!(string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(coordinator_partition("polygenelubricants", 50), 0);
        assert_eq!(coordinator_partition("hello", 50), 22);
    }
}
