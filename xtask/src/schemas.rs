//! `cargo xtask schemas [--against PATH...]`: compares our schemas with the definitions that Apache Kafka ships in its
//! jars.
//!
//! Every message of ours must be defined there, with the same versions, fields, types, nullability, defaults, tags and
//! ignorable flags in every version that Kafka still has; a version of ours that is older than that cannot be checked.
//! Definitions of Kafka that we have no schema for are only counted.

mod compare;
mod jar;
mod kafka;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::codegen::{self, schema::Kind};
use crate::{setup, shell};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jars, folders of jars, or folders of definitions; the jars that `setup` fetches if none is given
    #[arg(long, value_name = "PATH", num_args = 1..)]
    against: Vec<PathBuf>,
}

/// Runs the word.
pub(crate) fn run(options: &Options) -> Result<()> {
    let paths = match &options.against[..] {
        [] => vec![setup::ensure_java()?.jars],
        paths => paths.to_vec(),
    };
    let summary = check(&paths)?;
    shell::print_line(&summary);
    Ok(())
}

/// The same as a suite of `test`.
pub(crate) fn suite() -> Result<()> {
    check(&[setup::ensure_java()?.jars]).map(drop)
}

/// Compares; an error lists every contradiction.
fn check(paths: &[PathBuf]) -> Result<String> {
    let mut definitions = BTreeMap::new();
    for path in paths {
        collect(path, true, &mut definitions).with_context(|| path.display().to_string())?;
    }
    ensure!(!definitions.is_empty(), "no definitions found; they are in Kafka's jars, for example kafka-clients");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for schema in codegen::load(&shell::root())? {
        for message in &schema.messages {
            checked += 1;
            let Some(definition) = definitions.remove(&message.name) else {
                wrong.push(format!("{}: not defined there", message.name));
                continue;
            };
            let theirs = kafka::definition(&definition).with_context(|| message.name.clone())?;
            // The numbers of stored records and APIs are part of what both sides must agree on.
            if schema.kind != Kind::Control && theirs.number != schema.number {
                wrong.push(format!("{}: number {:?} there, {:?} here", message.name, theirs.number, schema.number));
            }
            wrong.extend(compare::contradictions(message, &theirs.message));
        }
    }
    if !wrong.is_empty() {
        bail!("{} contradictions with Kafka's definitions:\n  {}", wrong.len(), wrong.join("\n  "));
    }
    Ok(format!("{checked} messages agree with Kafka's definitions; it defines {} more", definitions.len()))
}

/// Adds the definitions in a jar or folder, by name.
fn collect(path: &Path, top: bool, definitions: &mut BTreeMap<String, Value>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // A class path has a hundred jars; definitions are in Kafka's own.
            if path.is_dir() || name.ends_with(".json") || name.starts_with("kafka-") && name.ends_with(".jar") {
                collect(&path, false, definitions)?;
            }
        }
        return Ok(());
    }
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if path.extension().is_some_and(|extension| extension == "jar") {
        for (name, content) in jar::json_files(&bytes).with_context(|| path.display().to_string())? {
            add(&content, definitions).with_context(|| name)?;
        }
    } else {
        ensure!(path.extension().is_some_and(|extension| extension == "json") || !top, "not a jar and not a folder");
        add(&String::from_utf8(bytes)?, definitions)?;
    }
    Ok(())
}

fn add(text: &str, definitions: &mut BTreeMap<String, Value>) -> Result<()> {
    let definition: Value = serde_json::from_str(&without_comments(text)).context("not JSON")?;
    // Jars also have JSON files that define nothing.
    if let (Some(name), true) = (definition["name"].as_str(), definition["validVersions"].is_string()) {
        definitions.insert(name.into(), definition);
    }
    Ok(())
}

/// JSON without the two kinds of comments of Java.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (end, is_comment) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), true)
        } else if rest.starts_with('"') {
            (string_end(rest), false)
        } else {
            (1, false)
        };
        if !is_comment {
            out.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Where the string that `text` begins with ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn comments_are_dropped_and_strings_are_not() {
        let text = "// a \"b\n{ \"c\": /* d\n \" */ 1, // e\n \"f://\\\"/*\": 2 }";
        assert_eq!(without_comments(text), "\n{ \"c\":  1, \n \"f://\\\"/*\": 2 }");
        assert_eq!(without_comments("1 /* open"), "1 ");
        assert_eq!(without_comments("\"open // \\"), "\"open // \\");
    }
}
