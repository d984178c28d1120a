//! One configuration key: its facts as plain constant data.

use core::fmt;

/// What a key is set on. The same name may exist in several scopes (`compression.type`) with a key in each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The server: its properties, or dynamically.
    Broker,
    /// One topic.
    Topic,
    /// One group.
    Group,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broker => "broker",
            Self::Topic => "topic",
            Self::Group => "group",
        })
    }
}

/// Which values a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Bool,
    /// A 16-bit integer within bounds.
    Short {
        /// Smallest.
        min: i16,
        /// Largest.
        max: i16,
    },
    /// A 32-bit integer within bounds.
    Int {
        /// Smallest.
        min: i32,
        /// Largest.
        max: i32,
    },
    /// A 32-bit integer within bounds, or one other.
    IntOr {
        /// Smallest.
        min: i32,
        /// Largest.
        max: i32,
        /// Allowed besides.
        other: i32,
    },
    /// A 64-bit integer within bounds.
    Long {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A number within bounds.
    Double {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// Any text.
    String,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// Texts separated by commas, none of them empty.
    List,
    /// Some of these words, separated by commas.
    ListOf(&'static [&'static str]),
    /// `*`, or pairs `partition:broker` separated by commas.
    ThrottledReplicas,
    /// `latest`, `earliest` or `by_duration:` with an ISO 8601 duration that is not negative.
    OffsetReset,
    /// The name of a Java class; of no use here.
    Class,
    /// Text that is never shown.
    Password,
}

impl Kind {
    /// Any 32-bit integer.
    pub const ANY_INT: Self = Self::Int { min: i32::MIN, max: i32::MAX };
    /// Any 64-bit integer.
    pub const ANY_LONG: Self = Self::Long { min: i64::MIN, max: i64::MAX };

    /// A 32-bit integer of at least `min`.
    pub const fn int(min: i32) -> Self {
        Self::Int { min, max: i32::MAX }
    }

    /// A 64-bit integer of at least `min`.
    pub const fn long(min: i64) -> Self {
        Self::Long { min, max: i64::MAX }
    }

    /// The type as Kafka's tools know it.
    pub const fn config_type(self) -> ConfigType {
        match self {
            Self::Bool => ConfigType::Boolean,
            Self::Short { .. } => ConfigType::Short,
            Self::Int { .. } | Self::IntOr { .. } => ConfigType::Int,
            Self::Long { .. } => ConfigType::Long,
            Self::Double { .. } => ConfigType::Double,
            Self::String | Self::Enum(_) | Self::OffsetReset => ConfigType::String,
            Self::List | Self::ListOf(_) | Self::ThrottledReplicas => ConfigType::List,
            Self::Class => ConfigType::Class,
            Self::Password => ConfigType::Password,
        }
    }

    /// Whether the value is a list, which can be appended to and subtracted from.
    pub const fn is_list(self) -> bool {
        matches!(self, Self::List | Self::ListOf(_) | Self::ThrottledReplicas)
    }
}

impl fmt::Display for Kind {
    /// What is allowed, as it stands behind "allowed is".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bool => f.write_str("true or false"),
            Self::Short { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::Int { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::IntOr { min, max, other } => write!(f, "an integer from {min} to {max}, or {other}"),
            Self::Long { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::Double { min, max } => match (min > f64::MIN, max < f64::MAX) {
                (true, true) => write!(f, "a number from {min} to {max}"),
                (true, false) => write!(f, "a number of at least {min}"),
                (false, true) => write!(f, "a number of at most {max}"),
                (false, false) => f.write_str("a number"),
            },
            Self::String => f.write_str("any text"),
            Self::Enum(words) => {
                f.write_str("one of ")?;
                list(f, words)
            }
            Self::List => f.write_str("a list separated by commas, without empty items"),
            Self::ListOf(words) => {
                f.write_str("a list separated by commas of some of ")?;
                list(f, words)
            }
            Self::ThrottledReplicas => f.write_str("'*' or a list of partition:broker pairs separated by commas"),
            Self::OffsetReset => f.write_str(
                "latest, earliest or by_duration:<duration>, the duration in ISO 8601 form (PnDTnHnMn.nS) and not negative",
            ),
            Self::Class => f.write_str("the name of a Java class"),
            Self::Password => f.write_str("any text, never shown"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, words: &[&str]) -> fmt::Result {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        f.write_str(word)?;
    }
    Ok(())
}

/// The types that Kafka's tools distinguish, by their number in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigType {
    /// true or false.
    Boolean = 1,
    /// Text.
    String = 2,
    /// 32 bits.
    Int = 3,
    /// 16 bits.
    Short = 4,
    /// 64 bits.
    Long = 5,
    /// Floating point.
    Double = 6,
    /// Comma separated.
    List = 7,
    /// A Java class.
    Class = 8,
    /// Secret text.
    Password = 9,
}

impl fmt::Display for ConfigType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Int => "int",
            Self::Short => "short",
            Self::Long => "long",
            Self::Double => "double",
            Self::List => "list",
            Self::Class => "class",
            Self::Password => "password",
        })
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing, or something that the name says.
    None,
    /// Milliseconds.
    Millis,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// For tables; empty for [`Unit::None`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Millis => "ms",
            Self::Minutes => "min",
            Self::Hours => "h",
            Self::Bytes => "bytes",
        }
    }
}

/// How likely it is that one needs to know a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// Everyone.
    High,
    /// Some.
    Medium,
    /// Few.
    Low,
}

/// Whether a key does what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does.
    Full,
    /// It is accepted and shown, and changes nothing; the text says why.
    NoEffect(&'static str),
}

/// A broker key that gives a topic's or group's key its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The broker key's name.
    pub name: &'static str,
    /// Its value times this is the value of the key (hours to milliseconds).
    pub factor: i64,
}

/// One configuration key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigKey {
    /// Its name.
    pub name: &'static str,
    /// What it is set on.
    pub scope: Scope,
    /// Which values it takes.
    pub kind: Kind,
    /// Its value when nothing is set; `None`: none.
    pub default: Option<&'static str>,
    /// What its number counts.
    pub unit: Unit,
    /// How likely one needs it.
    pub importance: Importance,
    /// What it does, in our words.
    pub doc: &'static str,
    /// Broker keys that give its default, the strongest first.
    pub synonyms: &'static [Synonym],
    /// Whether it can be set while the server runs. Always so for topics and groups.
    pub dynamic: bool,
    /// Whether it can be set but is not listed.
    pub internal: bool,
    /// Whether it does what it says.
    pub support: Support,
}

impl ConfigKey {
    const fn new(
        scope: Scope,
        name: &'static str,
        kind: Kind,
        default: Option<&'static str>,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            scope,
            kind,
            default,
            unit: Unit::None,
            importance: Importance::Medium,
            doc,
            synonyms: &[],
            dynamic: !matches!(scope, Scope::Broker),
            internal: false,
            support: Support::Full,
        }
    }

    pub(super) const fn topic(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Self {
        Self::new(Scope::Topic, name, kind, Some(default), doc)
    }

    pub(super) const fn group(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Self {
        Self::new(Scope::Group, name, kind, Some(default), doc)
    }

    pub(super) const fn broker(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Self {
        Self::new(Scope::Broker, name, kind, Some(default), doc)
    }

    pub(super) const fn null_default(mut self) -> Self {
        self.default = None;
        self
    }

    pub(super) const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    pub(super) const fn high(mut self) -> Self {
        self.importance = Importance::High;
        self
    }

    pub(super) const fn low(mut self) -> Self {
        self.importance = Importance::Low;
        self
    }

    pub(super) const fn synonyms(mut self, synonyms: &'static [Synonym]) -> Self {
        self.synonyms = synonyms;
        self
    }

    pub(super) const fn dynamic(mut self) -> Self {
        self.dynamic = true;
        self
    }

    pub(super) const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    pub(super) const fn no_effect(mut self, why: &'static str) -> Self {
        self.support = Support::NoEffect(why);
        self
    }
}

/// The synonym with this name and the same unit.
pub(super) const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}
