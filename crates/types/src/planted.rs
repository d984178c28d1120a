//! Bugs that are built in only to see whether the simulator finds them.
//!
//! Without the feature `planted-bugs`, which nothing but the simulator's own tests turns on, [`is_in`] is `false` at
//! compile time and the code behind it is gone. With it, [`plant`] puts one bug in, for the whole process.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A task that another member has still to give back counts as free.
    TaskFreeTooEarly = 1,
    /// A task is taken from a member that has not said that it has stopped it.
    RevokedUnasked,
    /// A group's epoch falls when a member is removed.
    GroupEpochBack,
    /// A member is told the epoch that it had before.
    MemberEpochBack,
    /// Members' commits are taken whatever their epoch.
    StaleCommitTaken,
    /// Live state and records differ in what a member had before.
    RecordDiffers,
    /// A group's answers leave before its records are durable.
    GateOpen,
    /// A produce is answered before its batch is durable.
    ProduceAnsweredEarly,
    /// Readers see what is not durable.
    UndurableVisible,
    /// Every now and then a request is answered twice.
    AnsweredTwice,
    /// Of those who wait for a sync only the first is woken.
    WaiterForgotten,
    /// After a restart sessions don't end.
    SessionsWithoutEnd,
    /// After a restart producers' sequences are unknown.
    ProducersForgotten,
    /// The name of a partition's directory is not made durable.
    DirectoryNotSynced,
    /// Producer ids are given without being written down.
    ProducerIdsUnrecorded,
    /// A member that joins an assigning group never gets its target.
    TargetNeverComputed,
    /// Commits of classic members are taken whatever their generation.
    ClassicCommitUnfenced,
    /// A classic member that does not lead is given what it had in the generation before.
    ClassicAssignmentOfBefore,
    /// Sessions of classic members don't end.
    ClassicSessionsWithoutEnd,
    /// Of those who wait for the end of a classic join the last is not answered.
    ClassicJoinForgotten,
    /// A static classic member that is back goes on with its assignment, but nobody writes down its new id.
    ClassicTakeOverUnrecorded,
    /// A member whose heartbeats once changed nothing is told the same for ever.
    SettledForEver,
    /// A topic that comes is not noticed by groups that have a pattern for it.
    NewTopicUnnoticed,
    /// A topic that goes is not noticed by groups that have a pattern for it.
    GoneTopicMatched,
    /// Groups do not notice that a topic has more partitions.
    GrownTopicUnnoticed,
    /// Whoever brings a group its next topology loses the group's offsets.
    ReplacementForgetsOffsets,
    /// One member that rests is enough for the next topology to come, whoever else runs the old one.
    VersionsBesideEachOther,
    /// A static member of another version is let in where another one of its instance id was.
    StaticOfAnotherVersion,
    /// The group takes a static member that is back for a new one.
    StaticReturnNoticed,
    /// A static member that repeats its join, because the answer was lost together with the server, is refused.
    LostStaticJoinRefused,
}

impl Bug {
    /// Every bug.
    pub const ALL: &'static [Self] = &[
        Self::TaskFreeTooEarly,
        Self::RevokedUnasked,
        Self::GroupEpochBack,
        Self::MemberEpochBack,
        Self::StaleCommitTaken,
        Self::RecordDiffers,
        Self::GateOpen,
        Self::ProduceAnsweredEarly,
        Self::UndurableVisible,
        Self::AnsweredTwice,
        Self::WaiterForgotten,
        Self::SessionsWithoutEnd,
        Self::ProducersForgotten,
        Self::DirectoryNotSynced,
        Self::ProducerIdsUnrecorded,
        Self::TargetNeverComputed,
        Self::ClassicCommitUnfenced,
        Self::ClassicAssignmentOfBefore,
        Self::ClassicSessionsWithoutEnd,
        Self::ClassicJoinForgotten,
        Self::ClassicTakeOverUnrecorded,
        Self::SettledForEver,
        Self::NewTopicUnnoticed,
        Self::GoneTopicMatched,
        Self::GrownTopicUnnoticed,
        Self::ReplacementForgetsOffsets,
        Self::VersionsBesideEachOther,
        Self::StaticOfAnotherVersion,
        Self::StaticReturnNoticed,
        Self::LostStaticJoinRefused,
    ];
}

#[cfg(feature = "planted-bugs")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Whether this bug is in.
#[cfg(feature = "planted-bugs")]
pub fn is_in(bug: Bug) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether this bug is in: never.
#[cfg(not(feature = "planted-bugs"))]
pub const fn is_in(_: Bug) -> bool {
    false
}

/// Puts a bug in, in place of the one before.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), core::sync::atomic::Ordering::Relaxed);
}
