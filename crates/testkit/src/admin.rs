//! Commands about topics, settings and what else belongs to the whole cluster.
//!
//! ```text
//! create [validate] NAME [partitions=N] [rf=N] [id=N] [assign=BROKER,..|BROKER,..] [at=N,..] [KEY=VALUE ...] + ...
//! drop NAME + #ID + ...
//! grow [validate] NAME COUNT [BROKER,..|BROKER,..] + ...
//! alter [validate] topic:NAME|broker:ID|group:ID (set|append|subtract|delete) KEY[=VALUE] ... + ...
//! ensure ID                                     the offsets topic
//! ids COUNT                                     producer ids
//! bootstrap
//! show                                          what there is
//! ```

use std::str::FromStr;

use crate::CommandError;

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

impl AdminCommand {
    /// Reads a command; `None` if the first word is none of them.
    pub(crate) fn parse(line: &str) -> Result<Option<Self>, CommandError> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (validate_only, rest) = rest.strip_prefix("validate ").map_or((false, rest), |rest| (true, rest));
        let items = || rest.split(" + ").map(|item| item.split_whitespace().collect::<Vec<_>>());
        Ok(Some(match word {
            "create" => {
                Self::Create { topics: items().map(|item| new_topic(&item)).collect::<Result<_, _>>()?, validate_only }
            }
            "drop" => Self::Drop(items().map(|item| selector(first(&item)?)).collect::<Result<_, _>>()?),
            "grow" => {
                let topics = items().map(|item| more_partitions(&item)).collect::<Result<_, _>>()?;
                Self::Grow { topics, validate_only }
            }
            "alter" => {
                let resources = items().map(|item| altered(&item)).collect::<Result<_, _>>()?;
                Self::Alter { resources, validate_only }
            }
            "ensure" => Self::Ensure(number(rest)?),
            "ids" => Self::ProducerIds(number(rest)?),
            "bootstrap" => Self::Bootstrap,
            "show" => Self::Show,
            _ => return Ok(None),
        }))
    }
}

fn first<'a>(item: &[&'a str]) -> Result<&'a str, CommandError> {
    item.first().copied().ok_or_else(|| CommandError::new("", "the name of something"))
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
    let assignments = item.get(2).map(|text| text.split('|').map(numbers).collect::<Result<_, _>>()).transpose()?;
    Ok(MorePartitions { name: first(item)?.to_owned(), count: number(count)?, assignments })
}

fn altered(item: &[&str]) -> Result<AlteredResource, CommandError> {
    let resource = first(item)?;
    let wrong = || CommandError::new(resource, "a resource, such as topic:t, broker:1 or group:g");
    let (kind, name) = resource.split_once(':').ok_or_else(wrong)?;
    let resource_type = match kind {
        "topic" => 2,
        "broker" => 4,
        "group" => 32,
        _ => return Err(wrong()),
    };
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
    Ok(AlteredResource { resource_type, name: name.to_owned(), changes: changes.collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let parse = |line: &str| AdminCommand::parse(line).map_err(|error| error.to_string());
        assert_eq!(parse("beat a"), Ok(None));
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
        assert_eq!(parse("ids many"), Err("`many` is not a number".to_owned()));
    }
}
