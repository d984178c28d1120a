//! Topologies in a short form.
//!
//! ```text
//! @3 0: a b > r / 1: ~r:4{retention.ms=7} +c = r    epoch 3 (0 without @)
//!    subtopology 0 reads a and b and writes to r
//!    subtopology 1 reads the repartition topic r, fixed at 4 partitions; has the changelog c; r is copartitioned
//!    *pattern is a source topic by regular expression; = 5 is an index as such; +c^3 is to have three replicas
//! ```

use std::fmt;

use crate::CommandError;

/// A topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Its epoch.
    pub epoch: i32,
    /// Its parts.
    pub subtopologies: Vec<Subtopology>,
}

/// A part of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtopology {
    /// Its id.
    pub id: String,
    /// Topics of others that it reads.
    pub source_topics: Vec<String>,
    /// Patterns of such topics.
    pub source_topic_regex: Vec<String>,
    /// Topics that it writes for another part.
    pub repartition_sink_topics: Vec<String>,
    /// Such topics that it reads.
    pub repartition_source_topics: Vec<InternalTopic>,
    /// Topics behind its stores.
    pub state_changelog_topics: Vec<InternalTopic>,
    /// What must have the same number of partitions.
    pub copartition_groups: Vec<CopartitionGroup>,
}

/// A topic that the group has for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InternalTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it must have; 0: derived.
    pub partitions: i32,
    /// How many replicas it is to have; `None`: as many as the server likes.
    pub replication_factor: Option<i16>,
    /// Its settings.
    pub configs: Vec<(String, String)>,
}

/// Indexes into the lists of a subtopology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopartitionGroup {
    /// Into its source topics.
    pub source_topics: Vec<i16>,
    /// Into its patterns.
    pub source_topic_regex: Vec<i16>,
    /// Into its repartition source topics.
    pub repartition_source_topics: Vec<i16>,
}

impl Topology {
    /// Reads the short form.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        let text = text.trim();
        let (epoch, parts) = match text.strip_prefix('@') {
            Some(rest) => {
                let (epoch, parts) = rest.split_once(' ').unwrap_or((rest, ""));
                (epoch.parse().map_err(|_| CommandError::new(epoch, "an epoch"))?, parts)
            }
            None => (0, text),
        };
        let parts = parts.split(" / ").map(str::trim).filter(|part| !part.is_empty());
        Ok(Self { epoch, subtopologies: parts.map(subtopology).collect::<Result<_, _>>()? })
    }

    /// The same with other topic names; a pattern is renamed like a name, so what it begins with must be one.
    pub fn rename(&mut self, name: impl Fn(&str) -> String) {
        for subtopology in &mut self.subtopologies {
            let plain = subtopology.source_topics.iter_mut().chain(&mut subtopology.repartition_sink_topics);
            let internal = subtopology.repartition_source_topics.iter_mut();
            let internal = internal.chain(&mut subtopology.state_changelog_topics).map(|topic| &mut topic.name);
            for topic in plain.chain(internal).chain(&mut subtopology.source_topic_regex) {
                *topic = name(topic);
            }
        }
    }
}

fn subtopology(text: &str) -> Result<Subtopology, CommandError> {
    let (id, words) = text.split_once(':').ok_or_else(|| CommandError::new(text, "a subtopology, such as 0: in"))?;
    let mut result = Subtopology { id: id.into(), ..Subtopology::default() };
    let mut mode = ' ';
    let mut words = words.split_whitespace().peekable();
    while let Some(word) = words.next() {
        match (mode, word.chars().next().unwrap_or(' ')) {
            (_, sign @ ('>' | '=')) => {
                // A `=` without topics is a group without topics.
                let mut ends = || words.peek().is_none_or(|next| next.starts_with(['>', '=', '~', '+', '*']));
                if word.len() > 1 || (sign == '>' && ends()) {
                    return Err(CommandError::new(word, "followed by a space and topics"));
                }
                mode = sign;
                if sign == '=' {
                    result.copartition_groups.push(CopartitionGroup::default());
                }
            }
            ('=', _) => copartition(&mut result, word)?,
            (_, '~') => {
                mode = ' ';
                result.repartition_source_topics.push(internal_topic(&word[1..])?);
            }
            (_, '+') => {
                mode = ' ';
                result.state_changelog_topics.push(internal_topic(&word[1..])?);
            }
            (_, '*') => result.source_topic_regex.push(word[1..].into()),
            ('>', _) => result.repartition_sink_topics.push(word.into()),
            _ => result.source_topics.push(word.into()),
        }
    }
    Ok(result)
}

fn copartition(subtopology: &mut Subtopology, word: &str) -> Result<(), CommandError> {
    let external = subtopology.source_topics.iter().position(|topic| topic == word);
    let own = subtopology.repartition_source_topics.iter().position(|topic| topic.name == word);
    let pattern = word.strip_prefix('*').map(|text| subtopology.source_topic_regex.iter().position(|it| it == text));
    let wrong = || CommandError::new(word, "a source topic or pattern of the subtopology, or an index");
    let group = subtopology.copartition_groups.last_mut().ok_or_else(wrong)?;
    let index = |index: usize| i16::try_from(index).map_err(|_| wrong());
    if let Some(pattern) = pattern {
        group.source_topic_regex.push(index(pattern.ok_or_else(wrong)?)?);
        return Ok(());
    }
    match (external, own) {
        (Some(found), _) => group.source_topics.push(index(found)?),
        (None, Some(found)) => group.repartition_source_topics.push(index(found)?),
        (None, None) => group.source_topics.push(word.parse().map_err(|_| wrong())?),
    }
    Ok(())
}

fn internal_topic(text: &str) -> Result<InternalTopic, CommandError> {
    let (text, configs) = match text.split_once('{') {
        Some((text, configs)) => (text, configs.strip_suffix('}').ok_or_else(|| config_is_wrong(configs))?),
        None => (text, ""),
    };
    let (name, partitions) = text.rsplit_once(':').unwrap_or((text, "0"));
    let wrong = || CommandError::new(text, "a topic, such as ~r, ~r:4 or ~r^3:4");
    let partitions = partitions.parse().map_err(|_| wrong())?;
    let (name, replicas) = match name.split_once('^') {
        Some((name, replicas)) => (name, Some(replicas.parse().map_err(|_| wrong())?)),
        None => (name, None),
    };
    let config = |config: &str| {
        let (key, value) = config.split_once('=').ok_or_else(|| config_is_wrong(config))?;
        Ok((key.into(), value.into()))
    };
    let configs = configs.split(',').filter(|config| !config.is_empty()).map(config).collect::<Result<_, _>>()?;
    Ok(InternalTopic { name: name.into(), partitions, replication_factor: replicas, configs })
}

fn config_is_wrong(text: &str) -> CommandError {
    CommandError::new(text, "the settings of a topic, such as ~r{retention.ms=7}")
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.epoch)?;
        for (index, subtopology) in self.subtopologies.iter().enumerate() {
            write!(f, "{} {subtopology}", if index > 0 { " /" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Subtopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.id)?;
        self.source_topics.iter().try_for_each(|topic| write!(f, " {topic}"))?;
        self.source_topic_regex.iter().try_for_each(|pattern| write!(f, " *{pattern}"))?;
        self.repartition_source_topics.iter().try_for_each(|topic| write!(f, " ~{topic}"))?;
        self.state_changelog_topics.iter().try_for_each(|topic| write!(f, " +{topic}"))?;
        if !self.repartition_sink_topics.is_empty() {
            write!(f, " > {}", self.repartition_sink_topics.join(" "))?;
        }
        for group in &self.copartition_groups {
            write!(f, " =")?;
            for &index in &group.source_topics {
                match usize::try_from(index).ok().and_then(|index| self.source_topics.get(index)) {
                    Some(topic) => write!(f, " {topic}")?,
                    None => write!(f, " {index}")?,
                }
            }
            for &index in &group.source_topic_regex {
                match usize::try_from(index).ok().and_then(|index| self.source_topic_regex.get(index)) {
                    Some(pattern) => write!(f, " *{pattern}")?,
                    None => write!(f, " *{index}")?,
                }
            }
            for &index in &group.repartition_source_topics {
                match usize::try_from(index).ok().and_then(|index| self.repartition_source_topics.get(index)) {
                    Some(topic) => write!(f, " {}", topic.name)?,
                    None => write!(f, " ~{index}")?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for InternalTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(replicas) = self.replication_factor {
            write!(f, "^{replicas}")?;
        }
        if self.partitions != 0 {
            write!(f, ":{}", self.partitions)?;
        }
        if !self.configs.is_empty() {
            let configs: Vec<_> = self.configs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            write!(f, "{{{}}}", configs.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_printed_as_they_are_read() {
        for text in
            ["@0 0: in", "@3 0: a b > r s / 1: ~r:4{retention.ms=7,segment.ms=1} ~s +c^3 = r s", "@0 0: a *x = a 5"]
        {
            assert_eq!(Topology::parse(text).map(|topology| topology.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(Topology::parse("0: in").map(|topology| topology.to_string()), Ok("@0 0: in".to_owned()));
        for wrong in ["in", "0: in >", "0: in =in", "0: in >out", "0: in > ~r", "0: ~r{k}", "0: ~r{k=v"] {
            assert!(Topology::parse(wrong).is_err(), "{wrong}");
        }
    }
}
