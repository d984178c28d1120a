//! The server's keys that are ours.

use super::{ConfigKey, Kind};

const fn own(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> ConfigKey {
    ConfigKey::broker(name, kind, default, doc)
}

pub(super) static OWN_KEYS: &[ConfigKey] = &[
    own(
        "riparian.flush",
        Kind::Enum(&["sync", "os"]),
        "sync",
        "When data counts as durable: `sync`, once the disk has confirmed it; `os`, once the operating system has it, which \
         is what Kafka does and what a power failure undoes.",
    )
    .high(),
    own(
        "riparian.replication.cap",
        Kind::Bool,
        "true",
        "What becomes of a `replication.factor` or `min.insync.replicas` above 1: `true` counts it as 1 and warns once per \
         topic, `false` refuses it as Kafka does when there are too few brokers.",
    ),
];
