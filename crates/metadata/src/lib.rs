//! The machine for the cluster's metadata: topics, configs, finalized features, producer-id blocks; and the table of
//! configuration keys.
//!
//! [`MetadataMachine`] takes typed commands and gives decisions, see [`riparian_types::machine`]. Its hard state is a
//! [`MetadataImage`], of which anyone may keep a clone and read it without a lock. [`config`] says which configuration
//! keys there are and what they mean, for the whole product.
//!
//! **Invariant:** at every batch's end a topic has at least one partition, its name and id belong to it alone, and configs
//! of topics belong to topics that exist.
//!
//! Deliberately unknown here: wire formats, error codes, logs, and whoever serves a topic's data. The broker translates
//! [`command`]s and [`reply`]s, the coordinator translates [`record`]s to Kafka's bytes in `__cluster_metadata`.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod command;
pub mod config;
pub mod features;
mod image;
mod machine;
pub mod record;
pub mod reply;

pub use image::{ConfigResource, MetadataImage, TopicImage};
pub use machine::{MetadataMachine, Settings, Soft};
