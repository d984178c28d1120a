//! Named maxima of everything that a peer can make grow.
//!
//! A limit that an operator may want to move is a configuration key with one of these as its default; the others are
//! properties of the formats.

/// Largest request frame, in bytes (`socket.request.max.bytes`).
pub const REQUEST_BYTES_MAX: usize = 100 * 1024 * 1024;
/// Largest record batch a client may produce, in bytes (`message.max.bytes`).
pub const BATCH_BYTES_MAX: usize = 1024 * 1024 + 12;
/// Largest record batch of the internal topics, in bytes: one operation is always one batch, however large the group.
pub const INTERNAL_BATCH_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most bytes that decoding one request may reserve, as a multiple of the frame's size, see [`DECODED_BYTES_MIN`].
pub const DECODED_BYTES_FACTOR: usize = 16;
/// Decoding a request may always reserve this many bytes, however small the frame.
pub const DECODED_BYTES_MIN: usize = 64 * 1024;
/// Most bytes that decompressing one batch may produce.
pub const DECOMPRESSED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most partitions of one topic.
pub const TOPIC_PARTITIONS_MAX: i32 = 10_000;
/// Longest metadata string of a committed offset, in bytes (`offset.metadata.max.bytes`).
pub const OFFSET_METADATA_BYTES_MAX: usize = 4096;
/// Batches per producer id and partition that are remembered to recognise a duplicate (KIP-98).
pub const PRODUCER_BATCHES_REMEMBERED: usize = 5;
/// Most tasks of one streams group: the partitions of all its subtopologies.
pub const GROUP_TASKS_MAX: u32 = 1_000_000;
/// Most active and standby tasks of one streams group together.
pub const GROUP_PLACEMENTS_MAX: u64 = 16_000_000;
/// Most member ids of one classic group that were handed out and whose members have not joined yet (KIP-394).
pub const GROUP_PENDING_JOINS_MAX: usize = 10_000;
/// Most partitions that one request may create, as in Kafka.
pub const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;
/// Longest value of a configuration key, in bytes, as in Kafka.
pub const CONFIG_VALUE_BYTES_MAX: usize = 32_767;
/// Most groups that have configs of their own.
pub const CONFIGURED_GROUPS_MAX: usize = 100_000;
/// Longest group id that can have configs of its own, in bytes.
pub const CONFIGURED_GROUP_ID_BYTES_MAX: usize = 32_767;
/// The longest string of a request, in every version of it: Kafka's, and what old versions have room for.
pub const STRING_BYTES_MAX: usize = 32_767;
