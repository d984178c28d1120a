//! Features by which a cluster's servers agree on formats and protocols (KIP-584).
//!
//! There is one server and no way to raise or lower a level: each feature that is served has exactly one level. Features
//! that Kafka has and this server lacks (transactions of the second kind, share groups, eligible leader replicas) are left
//! out, which is what a level of 0 means.

/// A feature and the level at which it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Lowest level served; at least 1, since older clients refuse an ApiVersions answer that has a 0.
    pub level_min: i16,
    /// Highest level served.
    pub level_max: i16,
}

/// Which records stand in the metadata log: those of Kafka 4.4 (4.4-IV2).
pub const METADATA_VERSION: Feature = Feature { name: "metadata.version", level_min: 33, level_max: 33 };
/// Which records of groups there are (KIP-848).
pub const GROUP_VERSION: Feature = Feature { name: "group.version", level_min: 1, level_max: 1 };
/// Whether streams groups are served (KIP-1071).
pub const STREAMS_VERSION: Feature = Feature { name: "streams.version", level_min: 1, level_max: 1 };

/// Every feature served. The metadata version comes first: a log of metadata begins with it.
pub const SUPPORTED: [Feature; 3] = [METADATA_VERSION, GROUP_VERSION, STREAMS_VERSION];
