//! The script language of the tests; `docs/SCRIPTS.md` has its grammar.
//!
//! A script is a text file: commands, and under each what it led to.
//! The same file can be run by anything that can carry out commands: a machine in virtual time, a simulator, our server,
//! a broker of Apache Kafka.
//! This crate owns the file ([`Script`]: steps, comments, placeholders, differences, rewriting), the commands
//! ([`Command`]), what members remember between them ([`Members`]), how answers and records are written down ([`show`]),
//! and the way from a command to its lines ([`Session`]), for anybody who can do what commands say ([`Target`]).
//!
//! **Invariant:** whoever runs a script, the same answer is the same text.
//! *Absent on purpose:* every workspace crate. Who runs scripts turns its own types into those of this crate.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admin;
mod classic;
mod command;
mod matching;
mod members;
mod script;
mod session;
pub mod show;
mod target;
mod tasks;
mod topology;

pub use admin::{
    AdminAnswer, AdminCommand, AdminDone, AdminSubject, AlterOperation, AlteredResource, MorePartitions, NewTopic,
    Setting, TopicSelector,
};
pub use classic::{
    ClassicBody, ClassicDescription, ClassicGroup, ClassicMember, ClassicMembers, ClassicRequest, ClassicWords,
    JoinAnswer, LeaveAnswer, Metadata, SyncAnswer,
};
pub use command::{Command, CommandError, DescribeWords, DiskState, HeartbeatWords, NodesWords, OffsetWords};
pub use members::{Heartbeat, Members};
pub use script::{Mismatch, Runner, Script, ScriptError, is_blessing};
pub use session::Session;
pub use target::{
    Answered, ClassicAnswer, ClassicName, FetchedOffset, Happened, Listing, OffsetOutcome, Refusal, Target, TopicChange,
};
pub use tasks::{Task, TaskLists, TaskOffset};
pub use topology::{CopartitionGroup, InternalTopic, Subtopology, Topology};
