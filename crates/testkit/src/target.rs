//! What somebody must be able to do to run scripts about groups.

use crate::{
    AdminAnswer, AdminCommand, ClassicDescription, ClassicRequest, DescribeWords, DiskState, Heartbeat, JoinAnswer,
    LeaveAnswer, NodesWords, OffsetWords, SyncAnswer,
    show::{Description, HeartbeatAnswer, Record},
};

/// A refusal, by Kafka's name of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The name.
    pub name: String,
    /// Its text, if there is one.
    pub text: Option<String>,
    /// What the answer holds besides, which it should not.
    pub besides: Option<String>,
}

impl Refusal {
    /// A refusal that holds nothing besides.
    pub fn new(name: impl Into<String>, text: Option<&str>) -> Self {
        Self { name: name.into(), text: text.map(str::to_owned), besides: None }
    }
}

/// What was answered; the outer error: the command cannot be carried out at all.
pub type Answered<T> = Result<Result<T, Refusal>, String>;

/// A change of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicChange {
    /// It is created with so many partitions.
    Create(i32),
    /// It is there and gets so many partitions.
    Grow(i32),
    /// It is there and is deleted.
    Delete,
}

/// A group in a list of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of ListGroups, by their names")]
pub struct Listing {
    pub group_id: String,
    pub protocol_type: String,
    pub group_state: String,
    pub group_type: String,
}

/// What was answered about one partition of a commit or of a deletion of offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetOutcome {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Why it was refused.
    pub refusal: Option<Refusal>,
}

/// A committed offset as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset, -1 for none.
    pub offset: i64,
    /// The leader epoch, -1 for none.
    pub leader_epoch: i32,
    /// Why it was refused.
    pub refusal: Option<Refusal>,
}

/// A member of a classic group, as the script calls it; on a server it has a connection of its own, because an answer
/// may have to wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassicName {
    /// Its group.
    pub group: String,
    /// Its own name.
    pub member: String,
}

/// What a classic member was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassicAnswer {
    /// To a join.
    Join(JoinAnswer),
    /// To a sync.
    Sync(SyncAnswer),
    /// To a heartbeat: an error by Kafka's name, or nothing.
    Beat(String),
    /// To a leave.
    Leave(LeaveAnswer),
}

/// What a command led to, besides its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A timer fired, so many milliseconds after the command began; what follows is its work.
    Timer(u64),
    /// A record of this group was written.
    Record(String, Box<Record>),
    /// Something else, in words that only a machine knows.
    Noted(String),
    /// A group asks for these topics to be created.
    Creation(Vec<(String, i32)>),
}

/// Who carries out the commands of a script: a machine, a simulated server, a real one.
///
/// What only some can do is refused by the others: such a script is not for them.
pub trait Target {
    /// Begins with these settings of the server; the first command of a script.
    fn set_up(&mut self, entries: &[(String, String)]) -> Result<(), String>;

    /// What has happened since the last call, in order.
    fn happened(&mut self) -> Result<Vec<Happened>, String>;

    /// Whatever was changed before is known to everybody from now on.
    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Changes topics, settings and the like.
    fn admin(&mut self, _: &AdminCommand) -> Result<AdminAnswer, String> {
        only("the machine that keeps topics and settings, and servers, have these commands")
    }

    /// Changes a topic; whoever depends on it may hear of it later.
    fn change_topic(&mut self, _: &str, _: TopicChange) -> Answered<()> {
        only(GROUPS)
    }

    /// These topics were changed: from now on everybody knows.
    fn topics_changed(&mut self, _: &[(String, i32)]) -> Result<(), String> {
        only(GROUPS)
    }

    /// Waits until the server has created these topics itself.
    fn await_topics(&mut self, _: &[(String, i32)]) -> Result<(), String> {
        only(GROUPS)
    }

    /// Changes topics without telling the machine.
    fn change_topics_unheard(&mut self, _: &[(String, i32)]) -> Result<(), String> {
        only("a machine can fail to hear of topics")
    }

    /// The server has tried to create topics; with a text it could not.
    fn creation_ended(&mut self, _: &[(String, Option<String>)]) -> Result<(), String> {
        only("a machine can be told that topics were created")
    }

    /// Changes settings of a group.
    fn configure(&mut self, _group: &str, _entries: &[(String, Option<String>)]) -> Answered<()> {
        only(GROUPS)
    }

    /// Sends a heartbeat.
    fn heartbeat(&mut self, _: &Heartbeat) -> Answered<HeartbeatAnswer> {
        only(GROUPS)
    }

    /// Sends a heartbeat that is carried out, but whose answer gets lost with its connection.
    fn lose_heartbeat(&mut self, _: &Heartbeat) -> Result<(), String> {
        only(GROUPS)
    }

    /// Sends what a classic member asks, without waiting for the answer.
    fn send_classic(&mut self, _from: &ClassicName, _request: &ClassicRequest) -> Result<(), String> {
        only(GROUPS)
    }

    /// Waits for the answer to what a classic member has asked.
    fn answer_classic(&mut self, _from: &ClassicName, _request: &ClassicRequest) -> Result<ClassicAnswer, String> {
        only(GROUPS)
    }

    /// What a classic member has sent last to `group` has been looked at from now on, whether it was answered or not.
    fn let_it_arrive(&mut self, _from: &ClassicName, _group: &str, _is_answered: bool) -> Result<(), String> {
        Ok(())
    }

    /// Closes a classic member's connection.
    fn close_classic(&mut self, _from: &ClassicName) -> Result<(), String> {
        only(GROUPS)
    }

    /// Lets time pass.
    fn wait(&mut self, _ms: u64) -> Result<(), String> {
        only(GROUPS)
    }

    /// Closes a connection; only a machine has others than 0.
    fn close(&mut self, _connection: u64) -> Result<(), String> {
        only(GROUPS)
    }

    /// Kills the server and starts it again.
    fn restart(&mut self) -> Result<(), String>;

    /// Cuts the power of the server's machine, and starts it again.
    fn cut_power(&mut self) -> Result<(), String> {
        only("a machine and a simulated server can lose their power")
    }

    /// What the disk of the server does from now on.
    fn set_disk(&mut self, _: DiskState) -> Result<(), String> {
        only("a simulated server has a disk that can be told to fail")
    }

    /// Describes a group.
    fn describe(&mut self, _group: &str, _: DescribeWords) -> Answered<Description> {
        only(GROUPS)
    }

    /// A member describes its topology.
    fn describe_nodes(&mut self, _: &NodesWords) -> Answered<()> {
        only(GROUPS)
    }

    /// Describes a classic group.
    fn describe_classic(&mut self, _group: &str, _version: Option<i16>) -> Answered<ClassicDescription> {
        only(GROUPS)
    }

    /// Lists groups.
    fn list(&mut self, _states: &[String], _types: &[String], _version: Option<i16>) -> Answered<Vec<Listing>> {
        only(GROUPS)
    }

    /// Deletes a group.
    fn delete(&mut self, _group: &str, _version: Option<i16>) -> Answered<()> {
        only(GROUPS)
    }

    /// Commits offsets.
    fn commit(&mut self, _: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
        only(GROUPS)
    }

    /// Reads committed offsets.
    fn fetch(&mut self, _: &OffsetWords) -> Answered<Vec<FetchedOffset>> {
        only(GROUPS)
    }

    /// Deletes committed offsets.
    fn forget(&mut self, _: &OffsetWords) -> Answered<Vec<OffsetOutcome>> {
        only(GROUPS)
    }
}

const GROUPS: &str = "the machine that keeps groups, and servers, have these commands";

fn only<T>(what: &str) -> Result<T, String> {
    Err(format!("only {what}"))
}
