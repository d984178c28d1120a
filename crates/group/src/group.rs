//! One group's hard state: its committed offsets, and what else it is.
//!
//! **Invariant:** a group that is nothing but offsets and has none does not exist.

use alloc::{boxed::Box, format, string::String, vec::Vec};

use riparian_types::{GroupId, machine::Inconsistent};

use crate::{
    offsets::Offsets,
    record::{ClassicGroupValue, Record},
    streams::group::StreamsGroup,
};

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) offsets: Offsets,
    pub(crate) kind: GroupKind,
}

/// What a group is besides its offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum GroupKind {
    /// Only offsets, committed from outside any group protocol.
    #[default]
    OffsetsOnly,
    /// A classic group written by another server; only its presence is known.
    Classic(ClassicGroupValue),
    /// A streams group.
    Streams(Box<StreamsGroup>),
}

impl Group {
    pub(crate) fn streams(&self) -> Option<&StreamsGroup> {
        match &self.kind {
            GroupKind::Streams(group) => Some(group),
            GroupKind::OffsetsOnly | GroupKind::Classic(_) => None,
        }
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.kind, GroupKind::OffsetsOnly) && self.offsets.is_empty()
    }

    /// Whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.kind {
            GroupKind::OffsetsOnly => true,
            GroupKind::Classic(classic) => !classic.has_members,
            GroupKind::Streams(group) => group.members.is_empty(),
        }
    }

    /// The streams group, made if there is only an offset-only group.
    pub(crate) fn streams_or_new(&mut self, id: &GroupId) -> Result<&mut StreamsGroup, Inconsistent> {
        if matches!(self.kind, GroupKind::OffsetsOnly) {
            self.kind = GroupKind::Streams(Box::new(StreamsGroup::new()));
        }
        match &mut self.kind {
            GroupKind::Streams(group) => Ok(group),
            GroupKind::OffsetsOnly | GroupKind::Classic(_) => {
                Err(inconsistent(format!("a record of a streams group, but group {id} is a classic group")))
            }
        }
    }

    /// Everything that must be deleted for the group to be forgotten, in the order that replay demands.
    pub(crate) fn tombstones(&self, id: &GroupId, records: &mut Vec<Record>) {
        self.offsets.tombstones(id, records);
        match &self.kind {
            // To Kafka a group of offsets is a classic group, of which there may have been a record.
            GroupKind::OffsetsOnly | GroupKind::Classic(_) => {
                records.push(Record::ClassicGroupMetadata(id.clone(), None))
            }
            GroupKind::Streams(group) => group.tombstones(id, records),
        }
    }
}

impl GroupKind {
    /// Whether a streams group may take its place: to Kafka it is a classic group without members.
    pub(crate) fn is_replaceable(&self) -> bool {
        match self {
            Self::OffsetsOnly => true,
            Self::Classic(classic) => !classic.has_members,
            Self::Streams(_) => false,
        }
    }
}

pub(crate) fn inconsistent(reason: String) -> Inconsistent {
    Inconsistent { reason }
}
