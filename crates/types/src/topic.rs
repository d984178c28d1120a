//! Topic names: which are legal, which are the server's own.

use core::fmt;

/// The topic that keeps committed offsets and groups.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// The topic that keeps transactions.
pub const TRANSACTION_STATE: &str = "__transaction_state";
/// The topic that keeps share groups' state (KIP-932); reserved, not used here.
pub const SHARE_GROUP_STATE: &str = "__share_group_state";
/// The log that keeps topics, configs and features (KIP-595, KIP-631).
pub const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Longest legal topic name, in bytes: what fits in a directory name with `-<partition>` behind it.
pub const NAME_BYTES_MAX: usize = 249;

/// Whether Kafka keeps this topic for itself: clients may read it, but not produce to it or name it in a topology.
pub fn is_internal(name: &str) -> bool {
    matches!(name, CONSUMER_OFFSETS | TRANSACTION_STATE | SHARE_GROUP_STATE)
}

/// Why a topic name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTopicName {
    /// It has no characters.
    Empty,
    /// `.` and `..` would name other directories.
    Dots,
    /// It is longer than [`NAME_BYTES_MAX`] bytes.
    TooLong,
    /// It has a character that is not one of `a-z A-Z 0-9 . _ -`.
    Character,
}

impl fmt::Display for BadTopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the empty string is not a topic name"),
            Self::Dots => f.write_str("'.' and '..' are not topic names"),
            Self::TooLong => write!(f, "a topic name has at most {NAME_BYTES_MAX} characters"),
            Self::Character => f.write_str("a topic name has only ASCII letters, digits, '.', '_' and '-'"),
        }
    }
}

impl core::error::Error for BadTopicName {}

/// Checks a topic name by Kafka's rules.
pub fn check_name(name: &str) -> Result<(), BadTopicName> {
    if name.is_empty() {
        return Err(BadTopicName::Empty);
    }
    if name == "." || name == ".." {
        return Err(BadTopicName::Dots);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(BadTopicName::TooLong);
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(BadTopicName::Character);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BadTopicName, NAME_BYTES_MAX, check_name};

    #[test]
    fn names() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        for (name, expected) in [
            ("words-in", Ok(())),
            ("a.b_C-9", Ok(())),
            (longest.as_str(), Ok(())),
            ("", Err(BadTopicName::Empty)),
            ("..", Err(BadTopicName::Dots)),
            ("a b", Err(BadTopicName::Character)),
            ("ä", Err(BadTopicName::Character)),
            (&"x".repeat(NAME_BYTES_MAX + 1), Err(BadTopicName::TooLong)),
        ] {
            assert_eq!(check_name(name), expected, "{name}");
        }
    }
}
