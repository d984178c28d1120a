//! One group's hard state: its committed offsets, and what else it is.
//!
//! **Invariant:** a group that is nothing but offsets and has none does not exist.

use alloc::{boxed::Box, format, string::String, vec::Vec};

use riparian_types::{GroupId, machine::Inconsistent};

use crate::{
    classic::group::LiveGroup,
    machine::GroupMachine,
    offsets::Offsets,
    record::{ClassicGroupValue, Record},
    soft::GroupSoft,
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
    /// A classic group as it was written last; as it lives it is a [`LiveGroup`].
    Classic(Box<ClassicGroupValue>),
    /// A streams group.
    Streams(Box<StreamsGroup>),
}

/// What a group is at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    /// There is none.
    Nothing,
    /// Only offsets.
    OffsetsOnly,
    /// A classic group, perhaps one of which nothing was written yet.
    Classic(&'a LiveGroup),
    /// A streams group.
    Streams(&'a StreamsGroup),
}

impl Found<'_> {
    /// Whether it has no members.
    pub(crate) fn is_empty(self) -> bool {
        match self {
            Self::Nothing | Self::OffsetsOnly => true,
            Self::Classic(group) => group.is_empty(),
            Self::Streams(group) => group.members.is_empty(),
        }
    }
}

impl GroupMachine {
    /// What this group is at this moment.
    pub(crate) fn find<'a>(&'a self, soft: &'a GroupSoft, group_id: &GroupId) -> Found<'a> {
        if let Some(group) = soft.classic.get(group_id) {
            return Found::Classic(group);
        }
        match self.groups.get(group_id).map(|group| &group.kind) {
            None => Found::Nothing,
            Some(GroupKind::OffsetsOnly) => Found::OffsetsOnly,
            Some(GroupKind::Streams(group)) => Found::Streams(group),
            Some(GroupKind::Classic(_)) => unreachable!("classic groups live from the moment when they are loaded"),
        }
    }
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

pub(crate) fn inconsistent(reason: String) -> Inconsistent {
    Inconsistent { reason }
}
