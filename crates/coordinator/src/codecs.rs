//! Kafka's bytes for the records of this server's machines.

mod group;
mod metadata;

pub use group::GroupCodec;
pub use metadata::MetadataCodec;
