//! The commands of scripts about groups, read from their words.

use std::fmt;

use crate::{AdminCommand, ClassicWords, Task, Topology};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `topics in=2 out=0`: creates a topic, grows it, or deletes it (0).
    Topics(Vec<(String, i32)>),
    /// `unheard in=2`: the same, but the machine is not told (virtual time only).
    Unheard(Vec<(String, i32)>),
    /// `await r=2 c=2`: waits until the server has created these topics itself.
    Await(Vec<(String, i32)>),
    /// `created t u=text`: the server has tried to create topics; with a text it could not (virtual time only).
    CreationEnded(Vec<(String, Option<String>)>),
    /// `server group.streams.max.size=1`: settings of the server; the first command of its script.
    Server(Vec<(String, String)>),
    /// `topology@1 0: a > r / 1: ~r +c`: what members have that join from now on.
    Topology(Topology),
    /// `config standbys=1`: settings of the group; `-` takes one away.
    Config {
        /// The group.
        group: String,
        /// Kafka's keys and the values.
        entries: Vec<(String, Option<String>)>,
    },
    /// `join`, `beat`, `ack`, `leave`, `rest`.
    Heartbeat(HeartbeatWords),
    /// `cjoin`, `csync`, `cbeat`, `cleave`.
    Classic(ClassicWords),
    /// `answer m`: the answer to what was sent `parked`.
    Answer {
        /// The group.
        group: String,
        /// Whose.
        member: String,
    },
    /// `cclose m`: a classic member's connection is closed.
    CloseMember {
        /// The group.
        group: String,
        /// Whose.
        member: String,
    },
    /// `cdescribe`.
    ClassicDescribe {
        /// The group.
        group: String,
        /// `v5`.
        version: Option<i16>,
    },
    /// `wait 3s`, `wait 300ms`.
    Wait {
        /// How long.
        ms: u64,
    },
    /// `restart`: the server is killed and comes back.
    Restart,
    /// `power-cut`: the server's machine loses its power, and what was not synced with it (virtual time only).
    PowerCut,
    /// `disk full`, `disk fails`, `disk works`: what the disk of the server does from now on (the simulator only).
    Disk(DiskState),
    /// `close`: the connection is closed; the next command opens another one.
    Close {
        /// `close 2` (virtual time only): the one that heartbeats with `via=2` come through; 0 unless said.
        connection: u64,
    },
    /// `describe`.
    Describe {
        /// The group.
        group: String,
        /// What is wanted of it.
        words: DescribeWords,
    },
    /// `nodes m store`: a member describes its topology.
    Nodes(NodesWords),
    /// `list states=stable types=streams`.
    List {
        /// Only groups in these states.
        states: Vec<String>,
        /// Only groups of these types.
        types: Vec<String>,
        /// `v4`.
        version: Option<i16>,
    },
    /// `delete`.
    Delete {
        /// The group.
        group: String,
        /// `v2`.
        version: Option<i16>,
    },
    /// `commit m epoch=3 in-0=17`.
    Commit(OffsetWords),
    /// `fetch m epoch=3 of=in-0,in-1`.
    Fetch(OffsetWords),
    /// `forget of=in-0`.
    Forget(OffsetWords),
    /// About topics, settings and the like (only for the machine that keeps them).
    Admin(AdminCommand),
}

/// What a disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// What it is for.
    Works,
    /// It has no room for anything more.
    Full,
    /// It cannot say that anything is safe.
    SyncsFail,
}

/// A heartbeat, as far as the script says what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatWords {
    /// `join`, `beat`, `ack`, `leave`, `rest`.
    pub kind: String,
    /// Who sends it.
    pub member: String,
    /// To which group.
    pub group: String,
    /// The answer gets lost: the request is carried out, and nobody sees what is answered.
    pub is_lost: bool,
    /// `key=value` and plain words, in order.
    pub words: Vec<(String, Option<String>)>,
}

impl HeartbeatWords {
    /// What the first `key=value` with this key says.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find(|(name, _)| name == key).and_then(|(_, value)| value.as_deref())
    }
}

/// What the three commands about offsets say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetWords {
    /// The group.
    pub group: String,
    /// The member; `None` is written `-`.
    pub member: Option<String>,
    /// `instance=i`.
    pub instance: Option<String>,
    /// `epoch=3`, otherwise -1.
    pub epoch: i32,
    /// `v8`.
    pub version: Option<i16>,
    /// `metadata=5`: so many characters beside each offset.
    pub metadata_chars: usize,
    /// `retention=1`: how long they are to be kept, in milliseconds; up to version 4.
    pub retention_ms: Option<i64>,
    /// `stable`: not while a transaction may still change it.
    pub require_stable: bool,
    /// Topic, partition, and what is committed there.
    pub partitions: Vec<(String, i32, i64)>,
    /// Whether `of=` was left out: all there are.
    pub all: bool,
}

/// What is wanted of a described group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescribeWords {
    /// `v0`.
    pub version: Option<i16>,
    /// `operations`: also what the caller may do.
    pub operations: bool,
    /// `nodes`: also the description of the topology.
    pub nodes: bool,
}

/// What a member tells of its topology's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesWords {
    /// The group.
    pub group: String,
    /// The member.
    pub member: String,
    /// `epoch=1`, of the topology; otherwise 0.
    pub topology_epoch: i32,
    /// The name of the store that a node has; `size=100` makes it so long.
    pub store: String,
}

/// A word that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    word: String,
    needed: String,
}

impl CommandError {
    pub(crate) fn new(word: &str, needed: &str) -> Self {
        Self { word: word.to_owned(), needed: needed.to_owned() }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.word, self.needed)
    }
}

impl std::error::Error for CommandError {}

/// Short names for the settings of a group; other keys are written in full.
const CONFIG_KEYS: [(&str, &str); 8] = [
    ("session", "streams.session.timeout.ms"),
    ("interval", "streams.heartbeat.interval.ms"),
    ("standbys", "streams.num.standby.replicas"),
    ("delay", "streams.initial.rebalance.delay.ms"),
    ("assignment", "streams.assignment.interval.ms"),
    ("offsets", "streams.task.offset.interval.ms"),
    ("tags", "streams.rack.aware.assignment.tags"),
    ("assignor", "streams.assignor.name"),
];

/// A wait is shorter, so that one can always count on in microseconds.
const WAIT_MS_MAX: u64 = 365 * 24 * 3_600_000;
/// The commands of classic members.
const CLASSIC: [&str; 4] = ["cjoin", "csync", "cbeat", "cleave"];
/// The commands that send a heartbeat.
const HEARTBEATS: [&str; 5] = ["join", "beat", "ack", "leave", "rest"];

struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    /// Refuses words behind the first that say nothing here: more than so many plain ones, or keys other than these.
    fn only(&self, plain_max: usize, keys: &[&str]) -> Result<(), CommandError> {
        let mut plain = 0;
        for word in self.0.iter().skip(1) {
            let is_known = match word.split_once('=') {
                Some((key, _)) => keys.contains(&key),
                None => {
                    plain += 1;
                    plain <= plain_max
                }
            };
            if !is_known {
                return Err(CommandError::new(word, &format!("a word that `{}` knows", self.0[0])));
            }
        }
        Ok(())
    }

    /// `v5`, if there is such a word.
    fn version(&self) -> Option<i16> {
        self.0.iter().find_map(|word| version(word))
    }

    /// Refuses plain words that are no version.
    fn only_a_version(&self) -> Result<(), CommandError> {
        let is_known =
            |word: &str| version(word).is_some() || ["operations", "nodes"].contains(&word) && self.0[0] == "describe";
        let wrong = self.0.iter().skip(1).find(|word| !word.contains('=') && !is_known(word));
        wrong.map_or(Ok(()), |word| Err(CommandError::new(word, "a version, such as v5")))
    }

    fn group(&self) -> String {
        text(self.value("in").unwrap_or("g"))
    }

    fn member(&self) -> Result<String, CommandError> {
        let member = self.0.get(1).ok_or_else(|| CommandError::new(self.0[0], "complete: whose?"))?;
        Ok((*member).to_owned())
    }

    fn list(&self, key: &str) -> Vec<String> {
        self.value(key).map(|values| values.split(',').map(String::from).collect()).unwrap_or_default()
    }

    fn counts(&self) -> Result<Vec<(String, i32)>, CommandError> {
        let wrong = |word: &str| CommandError::new(word, "a topic and its number of partitions, such as in=2");
        let parse = |word: &&str| {
            let (name, count) = word.split_once('=').ok_or_else(|| wrong(word))?;
            Ok((name.to_owned(), count.parse().map_err(|_| wrong(word))?))
        };
        if self.0.len() < 2 {
            return Err(CommandError::new(self.0[0], "complete: which topics?"));
        }
        self.0[1..].iter().map(parse).collect()
    }

    /// Refuses a key that comes twice; partitions, which have a `-`, may.
    fn once(&self) -> Result<(), CommandError> {
        let keys = self.0.iter().filter_map(|word| Some(word.split_once('=')?.0));
        let mut keys: Vec<&str> = keys.filter(|key| !key.contains('-')).collect();
        keys.sort_unstable();
        let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
        twice.map_or(Ok(()), |pair| Err(CommandError::new(pair[0], "to be said twice")))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, CommandError> {
        let parse = |value: &str| value.parse().map_err(|_| CommandError::new(value, &format!("a number for {key}=")));
        self.value(key).map(parse).transpose()
    }
}

fn version(word: &str) -> Option<i16> {
    word.strip_prefix('v')?.parse().ok()
}

/// A value: `''` is nothing, `%20` stands for a space, and so on with other characters below 256.
pub(crate) fn text(value: &str) -> String {
    if value == "''" {
        return String::new();
    }
    let mut parts = value.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                text.push(char::from(code));
                text.push_str(&part[2..]);
            }
            None => {
                text.push('%');
                text.push_str(part);
            }
        }
    }
    text
}

impl Command {
    /// Reads a command.
    pub fn parse(line: &str) -> Result<Self, CommandError> {
        if let Some(topology) = line.strip_prefix("topology")
            && (topology.is_empty() || topology.starts_with([' ', '@']))
        {
            return Ok(Self::Topology(Topology::parse(topology)?));
        }
        if let Some(command) = AdminCommand::parse(line)? {
            return Ok(Self::Admin(command));
        }
        let (is_parked, line) = line.strip_prefix("parked ").map_or((false, line), |line| (true, line));
        let (is_lost, line) = line.strip_prefix("lost ").map_or((false, line), |line| (true, line));
        let words = Words(line.split_whitespace().collect());
        let first = words.0.first().copied().unwrap_or_default();
        let group = words.group();
        if is_lost && !HEARTBEATS.contains(&first) {
            return Err(CommandError::new(first, "a heartbeat: only their answers can get lost"));
        }
        if is_parked && !CLASSIC.contains(&first) {
            return Err(CommandError::new(first, "of a classic member: only their answers can be waited for later"));
        }
        match first {
            "restart" | "power-cut" => words.only(0, &[])?,
            "wait" | "disk" | "close" => words.only(1, &[])?,
            "answer" | "cclose" => words.only(1, &["in"])?,
            "describe" => words.only(2, &["in"])?,
            "cdescribe" | "delete" => words.only(1, &["in"])?,
            "list" => words.only(1, &["states", "types"])?,
            "nodes" => words.only(2, &["in", "epoch", "size"])?,
            "forget" => words.only(0, &["in", "of"])?,
            _ => {}
        }
        if ["describe", "cdescribe", "delete", "list"].contains(&first) {
            words.only_a_version()?;
        }
        if !["topics", "unheard", "await", "created"].contains(&first) {
            words.once()?;
        }
        Ok(match first {
            "topics" => Self::Topics(words.counts()?),
            "unheard" => Self::Unheard(words.counts()?),
            "await" => Self::Await(words.counts()?),
            "created" => Self::CreationEnded(words.0[1..].iter().map(|word| ended(word)).collect()),
            "server" => Self::Server(words.0[1..].iter().map(|word| server_setting(word)).collect::<Result<_, _>>()?),
            "config" => Self::Config { group, entries: configs(&words)? },
            kind if HEARTBEATS.contains(&kind) => Self::Heartbeat(heartbeat(&words, group, is_lost)?),
            kind if CLASSIC.contains(&kind) => {
                let HeartbeatWords { kind, member, group, words, .. } = heartbeat(&words, group, false)?;
                Self::Classic(ClassicWords { kind, member, group, is_parked, words })
            }
            "answer" => Self::Answer { member: words.member()?, group },
            "cclose" => Self::CloseMember { member: words.member()?, group },
            "cdescribe" => Self::ClassicDescribe { group, version: words.version() },
            "wait" => Self::Wait { ms: duration_ms(words.0.get(1).copied().unwrap_or_default())? },
            "restart" => Self::Restart,
            "power-cut" => Self::PowerCut,
            "disk" => Self::Disk(match words.0.get(1).copied().unwrap_or_default() {
                "works" => DiskState::Works,
                "full" => DiskState::Full,
                "fails" => DiskState::SyncsFail,
                other => return Err(CommandError::new(other, "full, fails or works")),
            }),
            "close" => {
                let wrong = |word: &str| CommandError::new(word, "a connection's number, as in via=2");
                let number = words.0.get(1).map(|word| word.parse().map_err(|_| wrong(word)));
                Self::Close { connection: number.transpose()?.unwrap_or(0) }
            }
            "describe" => {
                let (operations, nodes) = (words.has("operations"), words.has("nodes"));
                Self::Describe { group, words: DescribeWords { version: words.version(), operations, nodes } }
            }
            "list" => Self::List { states: words.list("states"), types: words.list("types"), version: words.version() },
            "delete" => Self::Delete { group, version: words.version() },
            "nodes" => Self::Nodes(nodes(&words)?),
            "commit" => Self::Commit(offsets(&words)?),
            "fetch" => Self::Fetch(offsets(&words)?),
            "forget" => Self::Forget(offsets(&words)?),
            other => return Err(CommandError::new(other, "a command")),
        })
    }
}

fn ended(word: &str) -> (String, Option<String>) {
    match word.split_once('=') {
        Some((topic, text)) => (topic.into(), Some(text.replace('_', " "))),
        None => (word.into(), None),
    }
}

fn server_setting(word: &str) -> Result<(String, String), CommandError> {
    let (key, value) =
        word.split_once('=').ok_or_else(|| CommandError::new(word, "a setting, such as group.max.size=3"))?;
    Ok((key.into(), value.into()))
}

fn configs(words: &Words<'_>) -> Result<Vec<(String, Option<String>)>, CommandError> {
    let mut entries = Vec::new();
    if words.0.len() < 2 {
        return Err(CommandError::new(words.0[0], "complete: which settings?"));
    }
    for word in words.0[1..].iter().filter(|word| !word.starts_with("in=")) {
        let (key, value) =
            word.split_once('=').ok_or_else(|| CommandError::new(word, "a setting, such as standbys=1"))?;
        let full = CONFIG_KEYS.iter().find(|(short, _)| *short == key).map(|(_, full)| *full);
        // Kafka's keys have a point in them.
        let key = full.or_else(|| key.contains('.').then_some(key)).ok_or_else(|| {
            let short = CONFIG_KEYS.map(|(short, _)| short).join(", ");
            CommandError::new(key, &format!("one of {short}, or a key of Kafka"))
        })?;
        entries.push((key.to_owned(), (value != "-").then(|| text(value))));
    }
    Ok(entries)
}

fn heartbeat(words: &Words<'_>, group: String, is_lost: bool) -> Result<HeartbeatWords, CommandError> {
    let member = words.0.get(1).ok_or_else(|| CommandError::new(words.0[0], "complete: who sends it?"))?;
    let rest = words.0[2..].iter().map(|word| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => ((*word).to_owned(), None),
    });
    let words = (words.0[0], rest.filter(|(key, _)| key != "in").collect());
    Ok(HeartbeatWords { kind: words.0.into(), member: (*member).into(), group, is_lost, words: words.1 })
}

fn duration_ms(text: &str) -> Result<u64, CommandError> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => (text, 0),
    };
    let wrong = || CommandError::new(text, "a duration, such as 3s or 300ms");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match number.checked_mul(unit) {
        None | Some(WAIT_MS_MAX..) => Err(CommandError::new(text, "a duration of less than a year")),
        Some(_) if unit == 0 => Err(wrong()),
        Some(ms) => Ok(ms),
    }
}

fn offsets(words: &Words<'_>) -> Result<OffsetWords, CommandError> {
    let partition = |word: &str| -> Result<(String, i32), CommandError> {
        let parts = word.rsplit_once('-').and_then(|(topic, index)| Some((topic, index.parse().ok()?)));
        let (topic, index) = parts.ok_or_else(|| CommandError::new(word, "a partition, such as in-0"))?;
        Ok((topic.to_owned(), index))
    };
    let mut partitions = Vec::new();
    let is_commit = words.0[0] == "commit";
    let member = words.0.get(1).copied().filter(|word| !word.contains('='));
    let others = Words(words.0[if member.is_some() { 2 } else { 1 }..].to_vec());
    for word in words.list("of") {
        let (topic, index) = partition(&word)?;
        partitions.push((topic, index, -1));
    }
    for word in &others.0 {
        let Some((name, offset)) = word.split_once('=') else {
            if *word == "stable" || version(word).is_some() {
                continue;
            }
            return Err(CommandError::new(word, "a committed offset, such as in-0=17, or a word of this command"));
        };
        if name == "in" && offset.parse::<i64>().is_ok() {
            return Err(CommandError::new(word, "a committed offset, such as in-0=17: in= names a group"));
        }
        let is_known = match name {
            "in" | "epoch" | "instance" => true,
            "retention" | "metadata" => is_commit,
            "of" => !is_commit,
            _ => false,
        };
        if is_known {
            continue;
        }
        if !is_commit {
            return Err(CommandError::new(word, &format!("a word that `{}` knows", words.0[0])));
        }
        let (topic, index) = partition(name)?;
        let offset = offset.parse().map_err(|_| CommandError::new(word, "a committed offset, such as in-0=17"))?;
        partitions.push((topic, index, offset));
    }
    if is_commit && partitions.is_empty() {
        return Err(CommandError::new(words.0[0], "complete: which offsets?"));
    }
    let version = others.version();
    let member = member.filter(|word| *word != "-");
    Ok(OffsetWords {
        group: words.group(),
        member: member.map(text),
        instance: words.value("instance").map(text),
        epoch: words.number("epoch")?.unwrap_or(-1),
        version,
        metadata_chars: words.number("metadata")?.unwrap_or(0),
        retention_ms: words.number("retention")?,
        require_stable: others.has("stable"),
        partitions,
        all: words.value("of").is_none(),
    })
}

fn nodes(words: &Words<'_>) -> Result<NodesWords, CommandError> {
    let store = words.0.get(2).filter(|word| !word.contains('=')).copied().unwrap_or("store");
    let size = words.number("size")?.unwrap_or(store.len());
    Ok(NodesWords {
        group: words.group(),
        member: text(&words.member()?),
        topology_epoch: words.number("epoch")?.unwrap_or(0),
        store: format!("{store:x<size$}"),
    })
}

/// `0_0,0_1|1_0|`: active, standby, warm-up; a list that is missing or `-` is null.
pub(crate) fn owned(value: &str) -> Result<[Option<Vec<Task>>; 3], CommandError> {
    let mut lists = [None, None, None];
    if value.split('|').count() > lists.len() {
        return Err(CommandError::new(value, "three lists of tasks, such as 0_0,0_1|1_0|"));
    }
    for (list, text) in lists.iter_mut().zip(value.split('|')) {
        *list = if text == "-" { None } else { Some(Task::parse_list(text)?) };
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_characters_are_written_by_their_codes() {
        let texts =
            [("''", ""), ("a%20b", "a b"), ("%A0%1f", "\u{a0}\u{1f}"), ("%", "%"), ("5%x%+1", "5%x%+1"), ("%é", "%é")];
        for (written, meant) in texts {
            assert_eq!(text(written), meant, "{written}");
        }
    }

    #[test]
    fn commands_are_read() {
        let parse = |line: &str| Command::parse(line).map_err(|error| error.to_string());
        assert_eq!(parse("topics in=2 out=0"), Ok(Command::Topics(vec![("in".into(), 2), ("out".into(), 0)])));
        assert_eq!(parse("wait 3s"), Ok(Command::Wait { ms: 3000 }));
        assert_eq!(parse("wait 30ms"), Ok(Command::Wait { ms: 30 }));
        assert_eq!(parse("wait 30"), Err("`30` is not a duration, such as 3s or 300ms".to_owned()));
        let entries = vec![("streams.num.standby.replicas".to_owned(), Some("1".to_owned())), ("k.k".to_owned(), None)];
        assert_eq!(parse("config standbys=1 k.k=-"), Ok(Command::Config { group: "g".into(), entries }));
        assert_eq!(
            parse("lost delete"),
            Err("`delete` is not a heartbeat: only their answers can get lost".to_owned())
        );
        let refused = [
            ("describe x", "`x` is not a version, such as v5"),
            ("list state=Stable", "`state=Stable` is not a word that `list` knows"),
            ("power-cut now", "`now` is not a word that `power-cut` knows"),
            ("forget in-0", "`in-0` is not a word that `forget` knows"),
            ("close x", "`x` is not a connection's number, as in via=2"),
            ("parked beat a", "`beat` is not of a classic member: only their answers can be waited for later"),
            ("commit a epoch=1 in=3", "`in=3` is not a committed offset, such as in-0=17: in= names a group"),
            ("server quick", "`quick` is not a setting, such as group.max.size=3"),
            ("topics", "`topics` is not complete: which topics?"),
            ("config", "`config` is not complete: which settings?"),
            ("topologyx: in", "`topologyx:` is not a command"),
            ("wait 99999999999999999999s", "`99999999999999999999s` is not a duration, such as 3s or 300ms"),
            ("wait 9999999999999999999s", "`9999999999999999999s` is not a duration of less than a year"),
            ("wait 400000000s", "`400000000s` is not a duration of less than a year"),
            ("beat a epoch=1 epoch=2", "`epoch` is not to be said twice"),
            ("commit a epoch=1", "`commit` is not complete: which offsets?"),
            ("commit a of=in-0", "`of` is not a partition, such as in-0"),
            ("fetch a in-0=17", "`in-0=17` is not a word that `fetch` knows"),
        ];
        for (line, error) in refused {
            assert_eq!(parse(line), Err(error.to_owned()));
        }
        assert!(parse("config sesion=1").is_err_and(|error| error.starts_with("`sesion` is not one of session, ")));
        let Ok(Command::Commit(commit)) = parse("commit in-0=17") else { panic!() };
        assert_eq!((commit.member, commit.partitions), (None, vec![("in".into(), 0, 17)]));
        let Ok(Command::Commit(commit)) = parse("commit v1 in-0=17") else { panic!() };
        assert_eq!((commit.member.as_deref(), commit.version), (Some("v1"), None));
        assert_eq!(parse("dance"), Err("`dance` is not a command".to_owned()));
        let Ok(Command::Commit(commit)) = parse("commit m in=h epoch=3 my-topic-1=17 v8") else { panic!() };
        assert_eq!((commit.group.as_str(), commit.member.as_deref(), commit.version), ("h", Some("m"), Some(8)));
        assert_eq!((commit.epoch, commit.partitions), (3, vec![("my-topic".into(), 1, 17)]));
    }
}
