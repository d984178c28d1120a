//! Commands about topics, settings and what else belongs to the whole cluster.
//!
//! ```text
//! create [validate] NAME [partitions=N] [rf=N] [id=N] [assign=BROKER,..|BROKER,..] [at=N,..] [KEY=VALUE ...] + ...
//! drop NAME + #ID + ...
//! grow [validate] NAME COUNT [BROKER,..|BROKER,..] + ...
//! alter [validate] topic:NAME|broker:ID|group:ID (set|append|subtract|delete) KEY[=VALUE] ... + ...
//! settings topic:NAME|broker:ID|group:ID [KEY ...]
//! ensure ID                                     the offsets topic
//! ids COUNT                                     producer ids
//! bootstrap
//! show                                          what there is
//! ```

use std::{fmt, str::FromStr};

use crate::{CommandError, target::Refusal};

/// Kafka's numbers of what has settings.
const KINDS: [(&str, i8); 3] = [("topic", 2), ("broker", BROKER), ("group", 32)];
const BROKER: i8 = 4;
/// Kafka's numbers of where settings come from.
const SOURCES: [(&str, i8); 6] =
    [("topic", 1), ("broker", 2), ("brokers", 3), ("properties", 4), ("default", 5), ("group", 8)];

/// A command about the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// `create`
    Create {
        /// What is asked for.
        topics: Vec<NewTopic>,
        /// Nothing is to be done.
        validate_only: bool,
    },
    /// `drop`
    Drop(Vec<TopicSelector>),
    /// `grow`
    Grow {
        /// What is asked for.
        topics: Vec<MorePartitions>,
        /// Nothing is to be done.
        validate_only: bool,
    },
    /// `alter`
    Alter {
        /// What is asked for.
        resources: Vec<AlteredResource>,
        /// Nothing is to be done.
        validate_only: bool,
    },
    /// `settings`: the values that hold.
    Settings {
        /// Kafka's number of its kind.
        resource_type: i8,
        /// Its name.
        name: String,
        /// Of these keys only; none: of all.
        keys: Vec<String>,
    },
    /// `ensure`: the offsets topic is there, or gets this id.
    Ensure(u64),
    /// `ids`: a block of so many producer ids.
    ProducerIds(u32),
    /// `bootstrap`: the first start.
    Bootstrap,
    /// `show`
    Show,
}

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of CreateTopics, by their names")]
pub struct NewTopic {
    pub name: String,
    /// `None`: the next that is free.
    pub id: Option<u64>,
    pub partitions: i32,
    pub replication_factor: i16,
    /// Partitions and the brokers of each.
    pub assignments: Vec<(i32, Vec<i32>)>,
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic by its name, or by its id (`#7`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicSelector {
    /// Its name.
    Name(String),
    /// Its id.
    Id(u64),
}

/// A topic that is to have more partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of CreatePartitions, by their names")]
pub struct MorePartitions {
    pub name: String,
    pub count: i32,
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// A topic, broker or group whose settings change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlteredResource {
    /// Kafka's number of its kind: 2 topic, 4 broker, 32 group.
    pub resource_type: i8,
    /// Its name.
    pub name: String,
    /// Operation, key and value.
    pub changes: Vec<(AlterOperation, String, Option<String>)>,
}

/// What is done to a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "Kafka's names")]
pub enum AlterOperation {
    Set,
    Delete,
    Append,
    Subtract,
}

/// What an answer is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminSubject {
    /// A topic, by name.
    Topic(String),
    /// A topic, by id.
    TopicId(u64),
    /// Whatever has settings.
    Resource {
        /// Kafka's number of its kind: 2 topic, 4 broker, 32 group.
        resource_type: i8,
        /// Its name.
        name: String,
    },
    /// The offsets topic.
    OffsetsTopic,
    /// A block of producer ids.
    ProducerIds,
    /// The whole cluster.
    Cluster,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of the answers, by their names")]
pub enum AdminDone {
    /// No more to say.
    Done,
    /// There is a topic, or would be, and then without an id; of its settings those of its own.
    Created { id: Option<u64>, partitions: i32, replication_factor: i16, configs: Vec<(String, String)> },
    /// It is no more.
    Deleted { name: String, id: u64 },
    /// It has so many partitions.
    Grown { partitions: i32 },
    /// Values that hold.
    Settings(Vec<Setting>),
    /// So many ids.
    ProducerIds { count: u32, first: i64 },
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// Its key.
    pub key: String,
    /// Its value; `None` if there is none or it is secret.
    pub value: Option<String>,
    /// Kafka's number of where it comes from.
    pub source: i8,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAnswer {
    /// About each thing that the command names.
    Outcomes(Vec<(AdminSubject, Result<AdminDone, Refusal>)>),
    /// What there is, in words that only a machine knows.
    State(Vec<String>),
}

impl AdminSubject {
    /// Topics and groups are called something else.
    pub(crate) fn rename(&mut self, rename: impl Fn(&str) -> String) {
        match self {
            Self::Topic(name) => *name = rename(name),
            Self::Resource { resource_type, name } if *resource_type != BROKER => *name = rename(name),
            Self::Resource { .. } | Self::TopicId(_) | Self::OffsetsTopic | Self::ProducerIds | Self::Cluster => {}
        }
    }
}

impl fmt::Display for AdminSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => f.write_str(name),
            Self::TopicId(id) => write!(f, "#{id}"),
            Self::Resource { resource_type, name } => match KINDS.iter().find(|(_, number)| number == resource_type) {
                Some((kind, _)) => write!(f, "{kind}:{name}"),
                None => write!(f, "{resource_type}:{name}"),
            },
            Self::OffsetsTopic => f.write_str("topic"),
            Self::ProducerIds => f.write_str("ids"),
            Self::Cluster => f.write_str("cluster"),
        }
    }
}

impl fmt::Display for AdminDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Created { id, partitions, replication_factor, configs } => {
                id.iter().try_for_each(|id| write!(f, "#{id} "))?;
                write!(f, "{partitions} partitions, {replication_factor} replica")?;
                if !configs.is_empty() {
                    f.write_str(",")?;
                }
                configs.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
            }
            Self::Deleted { name, id } => write!(f, "deleted {name} #{id}"),
            Self::Grown { partitions } => write!(f, "{partitions} partitions"),
            Self::Settings(settings) => {
                let settings = settings.iter().map(|Setting { key, value, source }| {
                    let from = SOURCES.iter().find(|(_, number)| number == source);
                    let from = from.map_or_else(|| source.to_string(), |(from, _)| (*from).to_owned());
                    format!("{key}={} {from}", value.as_deref().unwrap_or("-"))
                });
                f.write_str(&settings.collect::<Vec<_>>().join(", "))
            }
            Self::ProducerIds { count, first } => write!(f, "{count} from {first}"),
        }
    }
}

impl AdminCommand {
    /// Topics and groups are called something else.
    pub(crate) fn rename(&mut self, rename: impl Fn(&str) -> String) {
        match self {
            Self::Create { topics, .. } => topics.iter_mut().for_each(|topic| topic.name = rename(&topic.name)),
            Self::Drop(topics) => {
                for topic in topics {
                    if let TopicSelector::Name(name) = topic {
                        *name = rename(name);
                    }
                }
            }
            Self::Grow { topics, .. } => topics.iter_mut().for_each(|topic| topic.name = rename(&topic.name)),
            Self::Alter { resources, .. } => {
                for resource in resources.iter_mut().filter(|it| it.resource_type != BROKER) {
                    resource.name = rename(&resource.name);
                }
            }
            Self::Settings { resource_type, name, .. } if *resource_type != BROKER => *name = rename(name),
            Self::Settings { .. } | Self::Ensure(_) | Self::ProducerIds(_) | Self::Bootstrap | Self::Show => {}
        }
    }

    /// Reads a command; `None` if the first word is none of them.
    pub(crate) fn parse(line: &str) -> Result<Option<Self>, CommandError> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (validate_only, rest) = rest.strip_prefix("validate ").map_or((false, rest), |rest| (true, rest));
        let items = || rest.split(" + ").map(|item| item.split_whitespace().collect::<Vec<_>>());
        Ok(Some(match word {
            "create" => {
                Self::Create { topics: items().map(|item| new_topic(&item)).collect::<Result<_, _>>()?, validate_only }
            }
            "drop" => Self::Drop(items().map(|item| selector(only(&item)?)).collect::<Result<_, _>>()?),
            "grow" => {
                let topics = items().map(|item| more_partitions(&item)).collect::<Result<_, _>>()?;
                Self::Grow { topics, validate_only }
            }
            "alter" => {
                let resources = items().map(|item| altered(&item)).collect::<Result<_, _>>()?;
                Self::Alter { resources, validate_only }
            }
            "settings" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let (resource_type, name) = resource(first(&words)?)?;
                Self::Settings { resource_type, name, keys: words[1..].iter().map(|key| (*key).to_owned()).collect() }
            }
            "ensure" => Self::Ensure(number(rest)?),
            "ids" => Self::ProducerIds(number(rest)?),
            "bootstrap" | "show" if !rest.is_empty() => {
                return Err(CommandError::new(rest, &format!("a word that `{word}` knows")));
            }
            "bootstrap" => Self::Bootstrap,
            "show" => Self::Show,
            _ => return Ok(None),
        }))
    }
}

fn first<'a>(item: &[&'a str]) -> Result<&'a str, CommandError> {
    item.first().copied().ok_or_else(|| CommandError::new("", "the name of something"))
}

fn only<'a>(item: &[&'a str]) -> Result<&'a str, CommandError> {
    match item.get(1) {
        Some(other) => Err(CommandError::new(other, "to stand here: `+` is between two of them")),
        None => first(item),
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, CommandError> {
    text.parse().map_err(|_| CommandError::new(text, "a number"))
}

fn numbers(text: &str) -> Result<Vec<i32>, CommandError> {
    text.split(',').filter(|part| !part.is_empty()).map(number).collect()
}

fn new_topic(item: &[&str]) -> Result<NewTopic, CommandError> {
    let mut topic = NewTopic {
        name: first(item)?.to_owned(),
        id: None,
        partitions: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    let mut indexes = Vec::new();
    for option in &item[1..] {
        match option.split_once('=') {
            Some(("partitions", value)) => topic.partitions = number(value)?,
            Some(("rf", value)) => topic.replication_factor = number(value)?,
            Some(("id", value)) => topic.id = Some(number(value)?),
            Some(("at", value)) => indexes = numbers(value)?,
            Some(("assign", value)) => {
                let brokers: Vec<Vec<i32>> = value.split('|').map(numbers).collect::<Result<_, _>>()?;
                topic.assignments = (0..).zip(brokers).collect();
            }
            Some((key, value)) => topic.configs.push((key.to_owned(), Some(value.to_owned()))),
            None => topic.configs.push(((*option).to_owned(), None)),
        }
    }
    for (partition, index) in topic.assignments.iter_mut().zip(indexes) {
        partition.0 = index;
    }
    Ok(topic)
}

fn selector(text: &str) -> Result<TopicSelector, CommandError> {
    match text.strip_prefix('#') {
        Some(id) => Ok(TopicSelector::Id(number(id)?)),
        None => Ok(TopicSelector::Name(text.to_owned())),
    }
}

fn more_partitions(item: &[&str]) -> Result<MorePartitions, CommandError> {
    let count =
        item.get(1).ok_or_else(|| CommandError::new(first(item).unwrap_or_default(), "followed by a number"))?;
    if let Some(other) = item.get(3) {
        return Err(CommandError::new(other, "to stand here: `+` is between two of them"));
    }
    let assignments = item.get(2).map(|text| text.split('|').map(numbers).collect::<Result<_, _>>()).transpose()?;
    Ok(MorePartitions { name: first(item)?.to_owned(), count: number(count)?, assignments })
}

fn resource(text: &str) -> Result<(i8, String), CommandError> {
    let wrong = || CommandError::new(text, "a resource, such as topic:t, broker:1 or group:g");
    let (kind, name) = text.split_once(':').ok_or_else(wrong)?;
    let resource_type = KINDS.iter().find(|(word, _)| *word == kind).ok_or_else(wrong)?.1;
    Ok((resource_type, name.to_owned()))
}

fn altered(item: &[&str]) -> Result<AlteredResource, CommandError> {
    let (resource_type, name) = resource(first(item)?)?;
    let changes = item[1..].chunks(2).map(|change| {
        let operation = match change[0] {
            "set" => AlterOperation::Set,
            "append" => AlterOperation::Append,
            "subtract" => AlterOperation::Subtract,
            "delete" => AlterOperation::Delete,
            word => return Err(CommandError::new(word, "set, append, subtract or delete")),
        };
        let entry = change.get(1).ok_or_else(|| CommandError::new(change[0], "followed by a setting"))?;
        let (key, value) = entry.split_once('=').map_or((*entry, None), |(key, value)| (key, Some(value)));
        Ok((operation, key.to_owned(), value.map(str::to_owned)))
    });
    Ok(AlteredResource { resource_type, name, changes: changes.collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let parse = |line: &str| AdminCommand::parse(line).map_err(|error| error.to_string());
        assert_eq!(parse("beat a"), Ok(None));
        for wrong in ["drop a b", "grow a 2 1 b", "show a", "bootstrap a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let topic = |name: &str, id: Option<u64>| NewTopic {
            name: name.into(),
            id,
            partitions: -1,
            replication_factor: -1,
            assignments: vec![],
            configs: vec![],
        };
        let first = NewTopic {
            partitions: 2,
            assignments: vec![(1, vec![1]), (0, vec![1, 2])],
            configs: vec![("k".into(), Some("v".into())), ("l".into(), None)],
            ..topic("a", None)
        };
        assert_eq!(
            parse("create validate a partitions=2 assign=1|1,2 at=1,0 k=v l + b id=7"),
            Ok(Some(AdminCommand::Create { topics: vec![first, topic("b", Some(7))], validate_only: true }))
        );
        assert_eq!(
            parse("drop a + #2"),
            Ok(Some(AdminCommand::Drop(vec![TopicSelector::Name("a".into()), TopicSelector::Id(2)])))
        );
        assert_eq!(parse("alter topic:a dance k"), Err("`dance` is not set, append, subtract or delete".to_owned()));
        assert_eq!(
            parse("settings group:g streams.num.standby.replicas"),
            Ok(Some(AdminCommand::Settings {
                resource_type: 32,
                name: "g".into(),
                keys: vec!["streams.num.standby.replicas".into()]
            }))
        );
        assert_eq!(
            parse("settings moon:1"),
            Err("`moon:1` is not a resource, such as topic:t, broker:1 or group:g".to_owned())
        );
        assert_eq!(parse("ids many"), Err("`many` is not a number".to_owned()));
    }

    #[test]
    fn answers_are_shown() {
        let subject = AdminSubject::Resource { resource_type: 4, name: "1".into() };
        assert_eq!(subject.to_string(), "broker:1");
        let settings = [("a", Some("1"), 1), ("b", None, 5), ("c", Some("2"), 77)]
            .map(|(key, value, source)| Setting { key: key.into(), value: value.map(String::from), source });
        assert_eq!(AdminDone::Settings(settings.into()).to_string(), "a=1 topic, b=- default, c=2 77");
        let configs = vec![("k".to_owned(), "v".to_owned())];
        let created = AdminDone::Created { id: Some(7), partitions: 2, replication_factor: 1, configs };
        assert_eq!(created.to_string(), "#7 2 partitions, 1 replica, k=v");
        let tried = AdminDone::Created { id: None, partitions: 2, replication_factor: 1, configs: Vec::new() };
        assert_eq!(tried.to_string(), "2 partitions, 1 replica");
    }
}
