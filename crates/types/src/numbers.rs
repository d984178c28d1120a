//! Numbers of the Kafka protocol, one type per meaning.

use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty) $(, $(#[$const_doc:meta])* $const:ident = $value:expr)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl $name {
            $($(#[$const_doc])* pub const $const: Self = Self($value);)*
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// A record's position in a partition.
    Offset(i64),
    /// The first offset of an empty partition.
    ZERO = 0,
    /// "No offset", as Kafka writes it on the wire.
    NONE = -1
}
number! {
    /// A partition's number inside its topic, from 0.
    PartitionIndex(i32)
}
number! {
    /// How many partitions a topic has.
    PartitionCount(i32)
}
number! {
    /// How often a partition's leadership has changed hands.
    LeaderEpoch(i32),
    /// "Unknown", as Kafka writes it on the wire.
    NONE = -1
}
number! {
    /// A server's number inside its cluster.
    NodeId(i32)
}
number! {
    /// An idempotent producer's id (KIP-98).
    ProducerId(i64),
    /// A batch written without a producer id.
    NONE = -1
}
number! {
    /// The generation of a producer id (KIP-98).
    ProducerEpoch(i16),
    /// A batch written without a producer id.
    NONE = -1
}
number! {
    /// A batch's sequence number per producer and partition (KIP-98).
    Sequence(i32),
    /// A batch written without a producer id.
    NONE = -1
}
number! {
    /// Counts the changes of what a group is made of; "GE" in the protocol notes (KIP-1071).
    GroupEpoch(i32)
}
number! {
    /// The group epoch that the target assignment was computed for; "AE" in the protocol notes (KIP-1071).
    AssignmentEpoch(i32)
}
number! {
    /// Counts the rebalances of a classic group.
    Generation(i32),
    /// What a request from outside the group carries, and an answer that tells of no generation.
    NONE = -1
}
number! {
    /// The epoch a member has reached on its way to the target assignment; "ME" in the protocol notes (KIP-1071).
    MemberEpoch(i32),
    /// Sent by a member that joins.
    JOIN = 0,
    /// Sent by a member that leaves for good.
    LEAVE = -1,
    /// Sent by a static member that leaves and means to come back.
    LEAVE_STATIC = -2
}
number! {
    /// The version of a topology, counted by the application (KIP-1071).
    TopologyEpoch(i32),
    /// "None yet".
    NONE = -1
}
