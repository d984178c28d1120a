//! Members of classic groups: what their commands say, what they remember, and how they are answered.
//!
//! The server chooses their ids, so scripts call them by names of their own. What they say to each other is opaque to the
//! server but for the topics; scripts write it as text.

use std::{collections::BTreeMap, fmt};

use crate::{CommandError, command::text};

/// What members ask for unless a script says otherwise.
const SESSION_TIMEOUT_MS: i32 = 10_000;
const REBALANCE_TIMEOUT_MS: i32 = 60_000;
const CONSUMER: &str = "consumer";

/// A command of a classic member, as far as the script says what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicWords {
    /// `cjoin`, `csync`, `cbeat`, `cleave`.
    pub kind: String,
    /// Who sends it.
    pub member: String,
    /// To which group.
    pub group: String,
    /// The answer is not waited for; `answer` shows it.
    pub is_parked: bool,
    /// `key=value` and plain words, in order.
    pub words: Vec<(String, Option<String>)>,
}

/// A request of a classic member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicRequest {
    /// `None`: the highest.
    pub version: Option<i16>,
    /// The group.
    pub group_id: String,
    /// What it is.
    pub body: ClassicBody,
}

/// The fields of a request of a classic member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of JoinGroup, SyncGroup, Heartbeat and LeaveGroup, by their names")]
pub enum ClassicBody {
    Join {
        member_id: String,
        instance_id: Option<String>,
        session_timeout_ms: i32,
        rebalance_timeout_ms: i32,
        protocol_type: String,
        protocols: Vec<(String, Metadata)>,
        reason: Option<String>,
    },
    Sync {
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
        protocol_type: Option<String>,
        protocol: Option<String>,
        /// Ids and what they are given.
        assignments: Vec<(String, String)>,
    },
    Beat {
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
    },
    Leave {
        /// Ids and instance ids.
        members: Vec<(String, Option<String>)>,
        reason: Option<String>,
    },
}

/// What a member says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// `in+out`: a consumer's subscription to topics, in the first version of its format.
    Topics(Vec<String>),
    /// `!text`: anything else.
    Raw(Vec<u8>),
}

impl Metadata {
    fn parse(value: &str) -> Self {
        match value.strip_prefix('!') {
            Some(raw) => Self::Raw(text(raw).into_bytes()),
            None => Self::Topics(value.split('+').filter(|topic| !topic.is_empty()).map(String::from).collect()),
        }
    }

    /// The topics are called something else.
    pub fn rename(&mut self, rename: impl Fn(&str) -> String) {
        if let Self::Topics(topics) = self {
            topics.iter_mut().for_each(|topic| *topic = rename(topic));
        }
    }

    /// As it is sent: version, topics, no user data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let topics = match self {
            Self::Raw(raw) => return raw.clone(),
            Self::Topics(topics) => topics,
        };
        let mut bytes = vec![0, 0];
        bytes.extend(u32::try_from(topics.len()).unwrap_or(u32::MAX).to_be_bytes());
        for topic in topics {
            bytes.extend(u16::try_from(topic.len()).unwrap_or(u16::MAX).to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        bytes.extend((-1i32).to_be_bytes());
        bytes
    }

    /// From what was sent.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::topics(bytes).map_or_else(|| Self::Raw(bytes.to_vec()), Self::Topics)
    }

    fn topics(bytes: &[u8]) -> Option<Vec<String>> {
        let (version, mut rest) = bytes.split_first_chunk::<2>()?;
        let (count, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        let mut topics = Vec::new();
        for _ in 0..u32::from_be_bytes(*count) {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let (topic, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
            topics.push(String::from_utf8(topic.to_vec()).ok()?);
            rest = after;
        }
        (*version == [0, 0] && rest == (-1i32).to_be_bytes()).then_some(topics)
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topics(topics) if topics.is_empty() => f.write_str("+"),
            Self::Topics(topics) => f.write_str(&topics.join("+")),
            Self::Raw(raw) if raw.is_empty() => f.write_str("''"),
            Self::Raw(raw) => write!(f, "!{}", String::from_utf8_lossy(raw)),
        }
    }
}

/// An answer to a join. Errors are Kafka's names, empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of JoinGroup, by their names")]
pub struct JoinAnswer {
    pub error: String,
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    pub leader: String,
    pub skip_assignment: bool,
    pub member_id: String,
    /// Ids, instance ids and what they say.
    pub members: Vec<(String, Option<String>, Metadata)>,
}

/// An answer to a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of SyncGroup, by their names")]
pub struct SyncAnswer {
    pub error: String,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    pub assignment: Vec<u8>,
}

/// An answer to a leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of LeaveGroup, by their names")]
pub struct LeaveAnswer {
    pub error: String,
    /// Ids, instance ids and errors.
    pub members: Vec<(String, Option<String>, String)>,
}

/// A described classic group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of DescribeGroups, by their names")]
pub struct ClassicDescription {
    pub state: String,
    pub protocol_type: String,
    pub protocol: String,
    pub members: Vec<ClassicMember>,
}

/// What is kept about a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of GroupMetadata, by their names")]
pub struct ClassicGroup {
    pub protocol_type: String,
    pub generation: i32,
    pub protocol: Option<String>,
    pub leader: Option<String>,
    pub has_time: bool,
    pub members: Vec<ClassicMember>,
}

/// A member of a classic group, stored or described.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of GroupMetadata and DescribeGroups, by their names")]
pub struct ClassicMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    /// `None` where it is not told.
    pub rebalance_timeout_ms: Option<i32>,
    pub session_timeout_ms: Option<i32>,
    pub metadata: Metadata,
    pub assignment: Vec<u8>,
}

/// The classic members of a script's groups.
#[derive(Clone, Debug, Default)]
pub struct ClassicMembers {
    known: BTreeMap<(String, String), Known>,
    /// Every id that was ever given, and whose it was.
    names: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
struct Known {
    id: String,
    generation: i32,
    instance: Option<String>,
    protocol_type: String,
    /// What the group agreed on.
    protocol: Option<String>,
    protocols: Vec<(String, Metadata)>,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            id: String::new(),
            generation: -1,
            instance: None,
            protocol_type: CONSUMER.to_owned(),
            protocol: None,
            protocols: vec![("range".to_owned(), Metadata::parse("in"))],
            session_timeout_ms: SESSION_TIMEOUT_MS,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
        }
    }
}

impl ClassicMembers {
    /// Nobody has joined yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The request that the words stand for. A member that joins remembers what it says there.
    pub fn request(&mut self, words: &ClassicWords) -> Result<ClassicRequest, CommandError> {
        let key = (words.group.clone(), words.member.clone());
        let mut known = self.known.get(&key).cloned().unwrap_or_default();
        let (mut version, mut reason, mut given) = (None, None, Vec::new());
        let mut leaving = Vec::new();
        for (word, value) in &words.words {
            let Some(value) = value.as_deref() else {
                match (word.strip_prefix('v').and_then(|version| version.parse().ok()), words.kind.as_str()) {
                    (Some(number), _) => version = Some(number),
                    (None, "cleave") => leaving.push(self.known(&words.group, word)),
                    (None, _) => return Err(CommandError::new(word, "a word of a classic member")),
                }
                continue;
            };
            let number = || value.parse().map_err(|_| CommandError::new(value, "a number"));
            match word.as_str() {
                "id" => known.id = value.strip_prefix('@').map_or_else(|| text(value), |of| self.id(&words.group, of)),
                "generation" => known.generation = number()?,
                "instance" => known.instance = (value != "-").then(|| text(value)),
                "type" => known.protocol_type = text(value),
                "protocol" => known.protocol = (value != "-").then(|| text(value)),
                "session" => known.session_timeout_ms = number()?,
                "rebalance" => known.rebalance_timeout_ms = number()?,
                "reason" => reason = Some(text(value)),
                "protocols" => {
                    let protocol = |word: &str| {
                        let (name, metadata) = word.split_once(':').unwrap_or((word, ""));
                        (name.to_owned(), Metadata::parse(metadata))
                    };
                    known.protocols = value.split(',').filter(|word| !word.is_empty()).map(protocol).collect();
                }
                member if words.kind == "csync" => given.push((self.id(&words.group, member), text(value))),
                other => return Err(CommandError::new(other, "a word of a classic member")),
            }
        }
        let instance_id = known.instance.clone();
        let body = match words.kind.as_str() {
            "cjoin" => {
                self.known.insert(key, known.clone());
                ClassicBody::Join {
                    member_id: known.id,
                    instance_id,
                    session_timeout_ms: known.session_timeout_ms,
                    rebalance_timeout_ms: known.rebalance_timeout_ms,
                    protocol_type: known.protocol_type,
                    protocols: known.protocols,
                    reason,
                }
            }
            "csync" => ClassicBody::Sync {
                generation: known.generation,
                member_id: known.id,
                instance_id,
                protocol_type: Some(known.protocol_type).filter(|it| it != "-"),
                protocol: known.protocol,
                assignments: given,
            },
            "cbeat" => ClassicBody::Beat { generation: known.generation, member_id: known.id, instance_id },
            _ => {
                leaving.insert(0, known);
                let members = leaving.into_iter().map(|known| (known.id, known.instance));
                ClassicBody::Leave { members: members.collect(), reason }
            }
        };
        Ok(ClassicRequest { version, group_id: words.group.clone(), body })
    }

    /// The member learns from the answer to its join.
    pub fn learn(&mut self, group: &str, member: &str, answer: &JoinAnswer) {
        let known = self.known.entry((group.to_owned(), member.to_owned())).or_default();
        if answer.error == "MEMBER_ID_REQUIRED" || answer.error.is_empty() {
            known.id.clone_from(&answer.member_id);
            self.names.insert(answer.member_id.clone(), member.to_owned());
        }
        if answer.error.is_empty() {
            known.generation = answer.generation;
            known.protocol.clone_from(&answer.protocol);
        }
    }

    /// The id of a member, or the name itself if no classic member of the group has it.
    pub fn id(&self, group: &str, member: &str) -> String {
        let known = self.known.get(&(group.to_owned(), member.to_owned()));
        known.map_or_else(|| text(member), |known| known.id.clone())
    }

    fn known(&self, group: &str, member: &str) -> Known {
        let known = self.known.get(&(group.to_owned(), member.to_owned())).cloned();
        known.unwrap_or_else(|| Known { id: text(member), ..Known::default() })
    }

    /// What the script calls the member of this id; `new` if nobody has been told of it yet.
    pub fn name(&self, id: &str) -> String {
        if id.is_empty() {
            return "''".to_owned();
        }
        self.names.get(id).cloned().unwrap_or_else(|| "new".to_owned())
    }

    /// An answer to a join.
    pub fn join_lines(&self, answer: &JoinAnswer) -> Vec<String> {
        let (kind, protocol) = (or_dash(answer.protocol_type.as_deref()), or_dash(answer.protocol.as_deref()));
        if !answer.error.is_empty() {
            let mut line = format!("{} for {}", answer.error, self.name(&answer.member_id));
            if answer.generation != -1 || !answer.members.is_empty() || answer.skip_assignment {
                line.push_str(&format!(" with {answer:?}"));
            }
            return vec![line];
        }
        let (generation, leader) = (answer.generation, self.name(&answer.leader));
        let skips = if answer.skip_assignment { " skips the assignment" } else { "" };
        let mut members: Vec<String> =
            answer.members.iter().map(|it| self.member(&it.0, it.1.as_ref(), &it.2)).collect();
        members.sort();
        let first = format!("generation {generation} {kind} {protocol} leader {leader}{skips}");
        std::iter::once(first).chain(members.into_iter().map(|member| format!("member {member}"))).collect()
    }

    /// An answer to a sync.
    pub fn sync_lines(&self, answer: &SyncAnswer) -> Vec<String> {
        let (kind, protocol) = (or_dash(answer.protocol_type.as_deref()), or_dash(answer.protocol.as_deref()));
        let assigned = shown(&answer.assignment);
        vec![match answer.error.as_str() {
            "" => format!("assigned {assigned} of {kind} {protocol}"),
            error if answer.assignment.is_empty() && (kind, protocol) == ("-", "-") => error.to_owned(),
            error => format!("{error} with {assigned} of {kind} {protocol}"),
        }]
    }

    /// An answer to a heartbeat.
    pub fn beat_lines(error: &str) -> Vec<String> {
        vec![if error.is_empty() { "ok".to_owned() } else { error.to_owned() }]
    }

    /// An answer to a leave.
    pub fn leave_lines(&self, answer: &LeaveAnswer) -> Vec<String> {
        let mut lines = Vec::new();
        if !answer.error.is_empty() {
            lines.push(answer.error.clone());
        }
        lines.extend(answer.members.iter().map(|(id, instance, error)| {
            let instance = instance.as_ref().map(|instance| format!(" instance {instance}")).unwrap_or_default();
            format!("{}{instance} {}", self.name(id), if error.is_empty() { "ok" } else { error })
        }));
        if lines.is_empty() {
            lines.push("ok".to_owned());
        }
        lines
    }

    /// A described group.
    pub fn description_lines(&self, described: &ClassicDescription) -> Vec<String> {
        let [kind, protocol] = [&described.protocol_type, &described.protocol].map(|it| or_dash(Some(it)));
        let mut members: Vec<String> = described.members.iter().map(|member| self.stored_member(member)).collect();
        members.sort();
        let first = format!("{} {kind} {protocol}", described.state);
        std::iter::once(first).chain(members.into_iter().map(|member| format!("member {member}"))).collect()
    }

    /// A stored group.
    pub fn record(&self, value: Option<&ClassicGroup>) -> String {
        let Some(group) = value else { return "2 -".to_owned() };
        let (kind, protocol) = (or_dash(Some(&group.protocol_type)), or_dash(group.protocol.as_deref()));
        let leader = group.leader.as_ref().map_or_else(|| "-".to_owned(), |leader| self.name(leader));
        let mut members: Vec<String> = group.members.iter().map(|member| self.stored_member(member)).collect();
        members.sort();
        let mut line = format!("2 generation {} {kind} {protocol} leader {leader}", group.generation);
        if !group.has_time {
            line.push_str(" no time");
        }
        members.iter().for_each(|member| line.push_str(&format!(" | {member}")));
        line
    }

    fn member(&self, id: &str, instance: Option<&String>, metadata: &Metadata) -> String {
        let instance = instance.map(|instance| format!(" instance {instance}")).unwrap_or_default();
        format!("{}{instance} {metadata}", self.name(id))
    }

    fn stored_member(&self, member: &ClassicMember) -> String {
        let mut line = self.member(&member.member_id, member.instance_id.as_ref(), &member.metadata);
        line.push_str(&format!(" = {}", shown(&member.assignment)));
        // What nearly every member has is not worth reading.
        if let Some(timeout) = member.session_timeout_ms.filter(|timeout| *timeout != SESSION_TIMEOUT_MS) {
            line.push_str(&format!(" session {timeout}"));
        }
        if let Some(timeout) = member.rebalance_timeout_ms.filter(|timeout| *timeout != REBALANCE_TIMEOUT_MS) {
            line.push_str(&format!(" rebalance {timeout}"));
        }
        if member.client_id != "client" || member.client_host != "/127.0.0.1" {
            line.push_str(&format!(" client {} {}", member.client_id, member.client_host));
        }
        line
    }
}

fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("-")
}

fn shown(bytes: &[u8]) -> String {
    if bytes.is_empty() { "''".to_owned() } else { String::from_utf8_lossy(bytes).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    fn words(line: &str) -> ClassicWords {
        match Command::parse(line) {
            Ok(Command::Classic(words)) => words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn members_remember_what_they_were_told() {
        let mut members = ClassicMembers::new();
        let first = members.request(&words("cjoin a protocols=range:in+out,x:!raw session=500 v5")).expect("complete");
        assert_eq!(first.version, Some(5));
        let answer = JoinAnswer { error: "MEMBER_ID_REQUIRED".into(), member_id: "c-1".into(), ..Default::default() };
        members.learn("g", "a", &answer);
        assert_eq!(members.join_lines(&JoinAnswer { generation: -1, ..answer }), ["MEMBER_ID_REQUIRED for a"]);
        let answer = JoinAnswer {
            generation: 1,
            protocol: Some("range".into()),
            leader: "c-1".into(),
            member_id: "c-1".into(),
            members: vec![("c-1".into(), None, Metadata::Topics(vec!["in".into()]))],
            ..JoinAnswer::default()
        };
        members.learn("g", "a", &answer);
        assert_eq!(members.join_lines(&answer), ["generation 1 - range leader a", "member a in"]);
        let ClassicBody::Sync { generation, member_id, assignments, protocol, .. } =
            members.request(&words("csync a a=x b=y")).expect("complete").body
        else {
            panic!()
        };
        assert_eq!((generation, member_id.as_str(), protocol.as_deref()), (1, "c-1", Some("range")));
        assert_eq!(assignments, [("c-1".to_owned(), "x".to_owned()), ("b".to_owned(), "y".to_owned())]);
        let ClassicBody::Join { protocols, session_timeout_ms: 500, .. } =
            members.request(&words("parked cjoin a")).expect("complete").body
        else {
            panic!()
        };
        assert_eq!(protocols[1], ("x".to_owned(), Metadata::Raw(b"raw".to_vec())));
    }

    #[test]
    fn metadata_is_read_as_it_is_written() {
        for (text, bytes) in [
            ("in+out", &b"\0\0\0\0\0\x02\0\x02in\0\x03out\xff\xff\xff\xff"[..]),
            ("+", b"\0\0\0\0\0\0\xff\xff\xff\xff"),
            ("!raw", b"raw"),
        ] {
            assert_eq!(Metadata::parse(text).to_bytes(), bytes);
            assert_eq!(Metadata::from_bytes(bytes).to_string(), text);
        }
        assert_eq!(Metadata::from_bytes(b"").to_string(), "''");
    }
}
