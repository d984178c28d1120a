//! Our schema files, parsed: see `schemas/README.md` for the grammar.
//!
//! Parsing also checks everything that later steps rely on: version ranges lie inside one another, struct names are
//! defined once and used, tags are dense enough to be told apart, defaults fit their types.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, bail, ensure};

/// A closed range of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: i16,
    pub(crate) max: i16,
}

impl Range {
    pub(crate) fn covers(self, other: Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.min) } else { write!(f, "{}-{}", self.min, self.max) }
    }
}

/// What a schema file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request and its response.
    Api,
    /// A record of `__consumer_offsets` or `__transaction_state`: a key and a value.
    Record,
    /// A record of `__cluster_metadata`.
    Metadata,
    /// The content of a control record.
    Control,
}

/// One schema file.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) docs: Vec<String>,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// API key or record type; control records have none.
    pub(crate) number: Option<i16>,
    pub(crate) versions: Range,
    /// The first flexible version.
    pub(crate) flexible_from: Option<i16>,
    /// The versions the server advertises.
    pub(crate) served: Option<Range>,
    pub(crate) messages: Vec<Message>,
}

/// One section of a schema file: a top-level struct and those inside it.
#[derive(Debug)]
pub(crate) struct Message {
    /// The name of the top-level struct, for example `FetchRequest`.
    pub(crate) name: String,
    pub(crate) versions: Range,
    pub(crate) flexible_from: Option<i16>,
    /// The top-level struct comes first.
    pub(crate) structs: Vec<Struct>,
}

impl Message {
    pub(crate) fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|s| s.name == name)
    }
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) docs: Vec<String>,
    pub(crate) name: String,
    pub(crate) versions: Range,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) docs: Vec<String>,
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) default: Default,
    pub(crate) versions: Range,
    pub(crate) nullable: Option<Range>,
    pub(crate) tag: Option<(u32, Range)>,
    pub(crate) ignorable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    Struct(String),
    Array(Box<Self>),
}

impl Type {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if let Some(element) = text.strip_prefix("[]") {
            let element = Self::parse(element)?;
            ensure!(!matches!(element, Self::Array(_) | Self::Records), "arrays of {element} are not supported");
            return Ok(Self::Array(Box::new(element)));
        }
        Ok(match text {
            "bool" => Self::Bool,
            "int8" => Self::Int8,
            "int16" => Self::Int16,
            "uint16" => Self::Uint16,
            "int32" => Self::Int32,
            "uint32" => Self::Uint32,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "uuid" => Self::Uuid,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            _ if text.starts_with(|c: char| c.is_ascii_uppercase()) => Self::Struct(text.into()),
            _ => bail!("unknown type '{text}'"),
        })
    }

    pub(crate) fn struct_name(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.struct_name(),
            _ => None,
        }
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Uint16 | Self::Int32 | Self::Uint32 | Self::Int64)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Float64 => "float64",
            Self::Uuid => "uuid",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Records => "records",
            Self::Struct(name) => name,
            Self::Array(element) => return write!(f, "[]{element}"),
        })
    }
}

/// A field's value when nothing was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    /// 0, false, empty, or a struct of defaults.
    Zero,
    Null,
    True,
    Integer(i64),
    Text(String),
}

/// Parses one schema file.
pub(crate) fn parse(text: &str) -> Result<Schema> {
    let mut parser = Parser { lines: text.lines().enumerate().collect(), at: 0, docs: Vec::new() };
    let schema = parser.schema().with_context(|| format!("line {}", parser.line_number()))?;
    for message in &schema.messages {
        check(message).with_context(|| message.name.clone())?;
    }
    Ok(schema)
}

struct Parser<'a> {
    lines: Vec<(usize, &'a str)>,
    at: usize,
    docs: Vec<String>,
}

impl<'a> Parser<'a> {
    /// The line that was read last, counted from 1.
    fn line_number(&self) -> usize {
        self.lines.get(self.at.saturating_sub(1)).map_or(0, |(index, _)| index + 1)
    }

    /// The next line with content; documentation is collected on the way.
    fn next(&mut self) -> Option<&'a str> {
        while let Some((_, line)) = self.lines.get(self.at) {
            self.at += 1;
            let line = line.trim();
            if let Some(doc) = line.strip_prefix("///") {
                self.docs.push(doc.strip_prefix(' ').unwrap_or(doc).into());
            } else if !line.is_empty() && !line.starts_with("//") {
                return Some(line);
            }
        }
        None
    }

    fn schema(&mut self) -> Result<Schema> {
        let head = self.next().context("file is empty")?;
        let docs = std::mem::take(&mut self.docs);
        ensure!(!docs.is_empty(), "a schema needs a sentence of documentation");
        let mut words = head.split_whitespace();
        let kind = match words.next() {
            Some("api") => Kind::Api,
            Some("record") => Kind::Record,
            Some("metadata") => Kind::Metadata,
            Some("control") => Kind::Control,
            _ => bail!("expected api, record, metadata or control"),
        };
        let name = words.next().context("name is missing")?.to_string();
        let (mut number, mut versions, mut flexible, mut served) = (None, None, None, None);
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("'{word}' needs a value"))?;
            match word {
                "key" if kind == Kind::Api => number = Some(value.parse()?),
                "type" if matches!(kind, Kind::Record | Kind::Metadata) => number = Some(value.parse()?),
                "versions" => versions = Some(range(value, i16::MAX)?),
                "flexible" => flexible = Some(value),
                "served" if kind == Kind::Api => served = Some(range(value, i16::MAX)?),
                _ => bail!("unknown word '{word}'"),
            }
        }
        let versions = versions.context("versions are missing")?;
        ensure!(kind == Kind::Control || number.is_some(), "number is missing");
        let flexible_from = flexible.map(|text| range(text, versions.max).map(|range| range.min)).transpose()?;
        let mut schema = Schema { docs, kind, name, number, versions, flexible_from, served, messages: Vec::new() };
        let sections: &[&str] = match kind {
            Kind::Api => &["request", "response"],
            Kind::Record => &["key", "value"],
            Kind::Metadata | Kind::Control => &["value"],
        };
        for section in sections {
            let message = self.section(&schema, section)?;
            schema.messages.push(message);
        }
        ensure!(self.next().is_none(), "unexpected text behind the last section");
        Ok(schema)
    }

    fn section(&mut self, schema: &Schema, section: &str) -> Result<Message> {
        let line = self.next().with_context(|| format!("section '{section}' is missing"))?;
        ensure!(line == format!("{section} {{"), "expected '{section} {{'");
        let (suffix, versions, flexible_from) = match (schema.kind, section) {
            (Kind::Api, "request") => ("Request", schema.versions, schema.flexible_from),
            (Kind::Api, _) => ("Response", schema.versions, schema.flexible_from),
            // The keys of stored records have one old-form version each, whatever their values do.
            (Kind::Record, "key") => ("Key", Range { min: 0, max: 0 }, None),
            (Kind::Record, _) => ("Value", schema.versions, schema.flexible_from),
            (Kind::Metadata | Kind::Control, _) => ("", schema.versions, schema.flexible_from),
        };
        let name = format!("{}{suffix}", schema.name);
        let section_docs = std::mem::take(&mut self.docs);
        let docs = if section_docs.is_empty() { schema.docs.clone() } else { section_docs };
        let mut structs = vec![Struct { docs, name: name.clone(), versions, fields: Vec::new() }];
        structs[0].fields = self.fields(&name, versions, &mut structs, true)?;
        Ok(Message { name, versions, flexible_from, structs })
    }

    /// The fields up to the closing brace; structs found on the way are added to `structs`.
    fn fields(&mut self, owner: &str, parent: Range, structs: &mut Vec<Struct>, top: bool) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        loop {
            let line = self.next().context("'}' is missing")?;
            let docs = std::mem::take(&mut self.docs);
            if line == "}" {
                return Ok(fields);
            }
            let (line, opens) = line.strip_suffix('{').map_or((line, false), |line| (line.trim_end(), true));
            if let Some(head) = line.strip_prefix("struct ") {
                ensure!(top && opens, "a struct of its own stands directly inside a section");
                let (name, versions) = match head.split_once(" versions ") {
                    Some((name, text)) => (name, range(text, parent.max)?),
                    None => (head, parent),
                };
                self.define(name, docs, versions, structs)?;
                continue;
            }
            let field = field(line, docs, parent)?;
            if opens {
                let name = field.kind.struct_name().context("only a struct has fields")?.to_string();
                let role = if matches!(field.kind, Type::Array(_)) { "One" } else { "The value" };
                let docs = vec![format!("{role} of [`{owner}::{}`].", field.name)];
                self.define(&name, docs, field.versions, structs)?;
            }
            fields.push(field);
        }
    }

    fn define(&mut self, name: &str, docs: Vec<String>, versions: Range, structs: &mut Vec<Struct>) -> Result<()> {
        ensure!(structs.iter().all(|s| s.name != name), "struct {name} is defined twice");
        let index = structs.len();
        structs.push(Struct { docs, name: name.into(), versions, fields: Vec::new() });
        structs[index].fields = self.fields(name, versions, structs, false)?;
        Ok(())
    }
}

/// `name: type = default, attribute, ...`
fn field(line: &str, docs: Vec<String>, parent: Range) -> Result<Field> {
    let mut parts = line.split(", ");
    let head = parts.next().unwrap_or_default();
    let (name, rest) = head.split_once(": ").context("expected 'name: type'")?;
    ensure!(
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
        "field names are in snake case"
    );
    let (kind, default) = match rest.split_once(" = ") {
        Some((kind, default)) => (Type::parse(kind)?, Some(default)),
        None => (Type::parse(rest)?, None),
    };
    let (mut versions, mut nullable, mut tag, mut ignorable) = (None, None, None, false);
    for part in parts {
        let mut words = part.split_whitespace();
        let word = words.next().unwrap_or_default();
        let mut range_word = || words.next().map(|text| range(text, parent.max)).transpose();
        match word {
            "versions" => versions = Some(range_word()?.context("a range is missing")?),
            "nullable" => nullable = Some(range_word()?),
            "ignorable" => ignorable = true,
            "tag" => {
                let number = words.next().context("the tag's number is missing")?.parse()?;
                tag = Some((number, words.next().map(|text| range(text, parent.max)).transpose()?));
            }
            _ => bail!("unknown attribute '{word}'"),
        }
        ensure!(words.next().is_none(), "too many words in '{part}'");
    }
    let versions = versions.unwrap_or(parent);
    ensure!(parent.covers(versions), "versions {versions} of {name} are not all versions of its struct");
    let nullable = nullable.map(|range| range.unwrap_or(versions));
    let tag = tag.map(|(number, range)| (number, range.unwrap_or(versions)));
    let default = default.map_or(Ok(Default::Zero), |text| default_value(&kind, text, nullable.is_some()))?;
    Ok(Field { docs, name: name.into(), kind, default, versions, nullable, tag, ignorable })
}

fn default_value(kind: &Type, text: &str, nullable: bool) -> Result<Default> {
    Ok(match kind {
        _ if text == "null" => {
            ensure!(nullable, "null needs a nullable field");
            Default::Null
        }
        Type::Bool if text == "true" => Default::True,
        Type::String => {
            let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            Default::Text(text.context("a text stands in quotes")?.into())
        }
        _ if kind.is_integer() => Default::Integer(text.parse()?),
        _ => bail!("'{text}' is no default for {kind}"),
    })
}

/// `3`, `3-5` or `3+`.
pub(crate) fn range(text: &str, max: i16) -> Result<Range> {
    let parse = |text: &str| text.parse::<i16>().with_context(|| format!("'{text}' is not a version"));
    let range = if let Some(min) = text.strip_suffix('+') {
        Range { min: parse(min)?, max }
    } else if let Some((min, max)) = text.split_once('-') {
        Range { min: parse(min)?, max: parse(max)? }
    } else {
        Range { min: parse(text)?, max: parse(text)? }
    };
    ensure!(0 <= range.min && range.min <= range.max, "'{text}' is not a range of versions");
    Ok(range)
}

fn check(message: &Message) -> Result<()> {
    for owner in &message.structs {
        let tags: BTreeSet<u32> = owner.fields.iter().filter_map(|field| field.tag.map(|(tag, _)| tag)).collect();
        let tag_count = owner.fields.iter().filter(|field| field.tag.is_some()).count();
        ensure!(tags.into_iter().eq(0..tag_count as u32), "the tags of {} are not 0, 1, 2, ...", owner.name);
        for field in &owner.fields {
            let check = || -> Result<()> {
                if let Some(name) = field.kind.struct_name() {
                    let inner = message.find(name).with_context(|| format!("struct {name} is not defined"))?;
                    ensure!(inner.versions.covers(field.versions), "{name} does not have all these versions");
                    ensure!(name != owner.name, "{name} contains itself");
                }
                if let Some(nullable) = field.nullable {
                    ensure!(field.versions.covers(nullable), "nullable in versions it does not have");
                    let can = matches!(
                        field.kind,
                        Type::String | Type::Bytes | Type::Records | Type::Struct(_) | Type::Array(_)
                    );
                    ensure!(can, "{} has no null", field.kind);
                }
                if let Some((_, versions)) = field.tag {
                    ensure!(!has_records(message, &field.kind), "tagged records are not supported");
                    ensure!(message.flexible_from.is_some_and(|from| from <= versions.min), "tag before flexible");
                    ensure!(
                        versions == field.versions,
                        "fields that are tagged in some versions only are not supported"
                    );
                }
                Ok(())
            };
            check().with_context(|| format!("{}.{}", owner.name, field.name))?;
        }
    }
    Ok(())
}

/// Whether there are records somewhere in a value of this type, which whoever sends it may leave out.
pub(super) fn has_records(message: &Message, kind: &Type) -> bool {
    match kind {
        Type::Records => true,
        Type::Array(element) => has_records(message, element),
        Type::Struct(name) => {
            message.find(name).is_some_and(|inner| inner.fields.iter().any(|field| has_records(message, &field.kind)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).expect_err("should be refused"))
    }

    #[test]
    fn parses_nested_structs_and_attributes() {
        let text = "/// Doc.\napi X key 7 versions 1-4 flexible 3+ served 1-3\nrequest {\n    /// A.\n    a: []B, nullable 2+ {\n        \
                    c: int32 = -1, versions 2-3, ignorable\n    }\n    d: string = \"x\", versions 3+, tag 0\n}\nresponse {\n}\n";
        let schema = parse(text).unwrap();
        assert_eq!((schema.number, schema.flexible_from), (Some(7), Some(3)));
        let request = &schema.messages[0];
        assert_eq!(request.name, "XRequest");
        assert_eq!(request.structs[1].name, "B");
        assert_eq!(request.structs[0].fields[0].docs, ["A."]);
        assert_eq!(request.structs[1].docs, ["One of [`XRequest::a`]."]);
        assert_eq!(request.structs[1].fields[0].versions, Range { min: 2, max: 3 });
        assert_eq!(request.structs[0].fields[0].nullable, Some(Range { min: 2, max: 4 }));
        assert_eq!(request.structs[0].fields[1].default, Default::Text("x".into()));
    }

    #[test]
    fn mistakes_are_named() {
        let with = |field: &str| error(&format!("/// D.\ncontrol X versions 0-2 flexible 1+\nvalue {{\n{field}\n}}\n"));
        assert!(with("a: int33").contains("line 4: unknown type 'int33'"), "{}", with("a: int33"));
        assert!(with("a: int32, versions 3").contains("not all versions"));
        assert!(with("a: int32, nullable").contains("int32 has no null"));
        assert!(with("a: int32, tag 0").contains("tag before flexible"));
        assert!(with("a: records, versions 1+, tag 0").contains("tagged records are not supported"));
        assert!(with("a: B").contains("struct B is not defined"));
        assert!(with("a: string = null").contains("nullable"));
        assert!(with("a: int32, ignorabel").contains("unknown attribute 'ignorabel'"));
    }
}
