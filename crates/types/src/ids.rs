//! Names that arrive from clients, one type per kind of name.
//!
//! Each is an immutable, cheaply cloned string. Up to 23 bytes stand in the value itself, which most names of groups,
//! members and clients fit into: comparing them follows no pointer, and making one allocates nothing. The types check nothing: what a legal group id or topic name is, is the
//! business of whoever lets it in (see [`crate::topic`]).

use alloc::string::String;
use core::{borrow::Borrow, fmt, ops::Deref};

use smol_str::SmolStr;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(SmolStr);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self(SmolStr::default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A group's id; for a Kafka Streams application its `application.id`.
    GroupId
}
name! {
    /// A member's id: one stream thread's consumer.
    MemberId
}
name! {
    /// A static member's `group.instance.id`, as sent on the wire.
    InstanceId
}
name! {
    /// The id of one Kafka Streams instance; several members may share it (KIP-1071).
    ProcessId
}
name! {
    /// Where a member says it runs, its `client.rack`.
    RackId
}
name! {
    /// The id of a subtopology inside one group's topology (KIP-1071).
    SubtopologyId
}
name! {
    /// A topic's name.
    TopicName
}
name! {
    /// The `client.id` of a connection's request header.
    ClientId
}
