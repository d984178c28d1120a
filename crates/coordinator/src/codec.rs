//! How a machine's records become the bytes of a log's records, and back.

use riparian_types::machine::Machine;

/// Kafka's bytes for the records of one machine.
pub trait RecordCodec<M: Machine> {
    /// The key and value of a record; no value is a tombstone.
    fn encode(record: &M::Record) -> KeyValue;

    /// The record that these bytes stand for.
    fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Decoded<M>;
}

/// The bytes of one record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// `None` in logs that are not keyed.
    pub key: Option<Vec<u8>>,
    /// `None`: a tombstone.
    pub value: Option<Vec<u8>>,
}

/// What bytes found in a log mean.
pub enum Decoded<M: Machine> {
    /// A record.
    Record(M::Record),
    /// A record of a kind that this server does not know; it is left alone.
    Unknown {
        /// The number of the kind.
        kind: i32,
    },
    /// Damage that lies in one scope: the scope is quarantined.
    DamagedScope {
        /// Which.
        scope: M::Scope,
        /// The record's tombstone, if the log is keyed: what deletes it.
        tombstone: Option<M::Record>,
        /// What is wrong.
        reason: String,
    },
    /// Damage of which not even the scope is known.
    Damaged(String),
}
