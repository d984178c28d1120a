//! `cargo xtask codegen [--check]`: Rust code and documentation from `schemas/`.
//!
//! Owns everything in the `generated` folders and `docs/api-support.md`: it writes files whose content changed, removes
//! files it did not make, and with `--check` does neither but fails.
//! The parts are pure functions: [`schema`] text to definitions, [`rust`] definitions to text. What the messages mean
//! is none of its business.

mod arbitrary;
mod docs;
mod registry;
mod rust;
pub(crate) mod schema;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use anyhow::{Context as _, Result, bail, ensure};

use crate::shell;

use self::schema::{Kind, Schema};

/// Folders that hold nothing but what this module makes.
const FOLDERS: [&str; 5] = [
    "crates/protocol/src/generated",
    "crates/protocol/tests/generated",
    "crates/records/src/stored/generated",
    "crates/records/tests/generated",
    "tests/tests/generated",
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a generated file is stale, missing or left over
    #[arg(long)]
    check: bool,
}

/// Runs the word.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = shell::root();
    let files = formatted(files(&load(&root)?)?)?;
    let mut wrong = Vec::new();
    for (path, content) in &files {
        let full = root.join(path);
        if fs::read_to_string(&full).is_ok_and(|current| current == *content) {
            continue;
        }
        if options.check {
            wrong.push(format!("{path} is stale"));
            continue;
        }
        fs::create_dir_all(full.parent().context("every file has a folder")?)?;
        fs::write(&full, content).with_context(|| format!("cannot write {path}"))?;
        shell::talk(&format!("wrote {path}"));
    }
    for orphan in orphans(&root, &files)? {
        if options.check {
            wrong.push(format!("{orphan} is not made by any schema"));
        } else {
            fs::remove_file(root.join(&orphan)).with_context(|| format!("cannot remove {orphan}"))?;
            shell::talk(&format!("removed {orphan}"));
        }
    }
    ensure!(wrong.is_empty(), "run `cargo xtask codegen`:\n  {}", wrong.join("\n  "));
    Ok(())
}

/// Every schema, ordered by kind and name.
pub(crate) fn load(root: &Path) -> Result<Vec<Schema>> {
    let mut schemas = Vec::new();
    for (folder, kind) in
        [("api", Kind::Api), ("record", Kind::Record), ("metadata", Kind::Metadata), ("control", Kind::Control)]
    {
        let folder = root.join("schemas").join(folder);
        let mut paths = if folder.is_dir() { list(&folder)? } else { Vec::new() };
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "schema"));
        for path in paths {
            let text = fs::read_to_string(&path)?;
            let schema = schema::parse(&text).with_context(|| path.display().to_string())?;
            ensure!(schema.kind == kind, "{} belongs into another folder", path.display());
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let expected = snake(&schema.name);
            ensure!(stem == expected, "{} should be called {expected}.schema", path.display());
            schemas.push(schema);
        }
    }
    Ok(schemas)
}

/// Every generated file, by its path from the root; not formatted yet.
fn files(schemas: &[Schema]) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut add = |path: String, content: String| match files.insert(path.clone(), content) {
        None => Ok(()),
        Some(_) => bail!("{path} would be made twice"),
    };
    let (apis, stored): (Vec<&Schema>, Vec<&Schema>) = schemas.iter().partition(|schema| schema.kind == Kind::Api);
    for (schema, message) in apis.iter().flat_map(|schema| schema.messages.iter().map(move |m| (schema, m))) {
        let path = format!("{}/messages/{}.rs", FOLDERS[0], snake(&message.name));
        add(path, rust::module(schema, message))?;
    }
    add(format!("{}/messages.rs", FOLDERS[0]), registry::messages(&apis))?;
    add(format!("{}/api_key.rs", FOLDERS[0]), registry::api_key(&apis))?;
    for (schema, message) in stored.iter().flat_map(|schema| schema.messages.iter().map(move |m| (schema, m))) {
        let path = format!("{}/records/{}.rs", FOLDERS[2], snake(&message.name));
        add(path, rust::module(schema, message))?;
    }
    add(format!("{}/records.rs", FOLDERS[2]), registry::records(&stored))?;
    add(format!("{}/arbitrary.rs", FOLDERS[1]), arbitrary::arbitrary("riparian_protocol::messages", &apis))?;
    add(format!("{}/arbitrary.rs", FOLDERS[3]), arbitrary::arbitrary("riparian_records::stored", &stored))?;
    add(format!("{}/messages.rs", FOLDERS[4]), registry::message_list(schemas))?;
    add("docs/api-support.md".into(), docs::api_support(&apis))?;
    Ok(files)
}

/// The same files with the Rust ones run through rustfmt.
fn formatted(mut files: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    // One process for all files; they are formatted outside the tree so that `--check` leaves it alone.
    let scratch = shell::target_dir().join(format!("codegen-{}", process::id()));
    let format = || -> Result<()> {
        let mut paths = Vec::new();
        for (path, content) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
            let full = scratch.join(path);
            fs::create_dir_all(full.parent().context("every file has a folder")?)?;
            fs::write(&full, content)?;
            paths.push(full);
        }
        let rustfmt = env::var_os("RUSTFMT").unwrap_or_else(|| "rustfmt".into());
        let mut command = Command::new(rustfmt);
        command.arg("--config-path").arg(shell::root()).args(["--edition", "2024"]).args(&paths);
        shell::run_quietly(&mut command).context("a generated file cannot be formatted")?;
        Ok(())
    };
    let result = format().and_then(|()| {
        for (path, content) in files.iter_mut().filter(|(path, _)| path.ends_with(".rs")) {
            *content = fs::read_to_string(scratch.join(path))?;
        }
        Ok(())
    });
    if scratch.is_dir() && result.is_ok() {
        fs::remove_dir_all(&scratch)?;
    }
    result.map(|()| files)
}

/// Files in the generated folders that no schema makes.
fn orphans(root: &Path, files: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut orphans = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for path in list(&folder)? {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if !files.contains_key(&relative) {
                orphans.push(relative);
            }
        }
    }
    Ok(orphans)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// `DescribeTopicPartitions` to `describe_topic_partitions`.
fn snake(name: &str) -> String {
    let name = name.replace("KRaft", "Kraft");
    let mut out = String::new();
    for (index, c) in name.char_indices() {
        if c.is_ascii_uppercase() && index > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        run(&Options { check: true }).unwrap();
    }

    #[test]
    fn files_that_no_schema_makes_are_orphans() {
        let root = shell::target_dir().join(format!("codegen-orphans-{}", process::id()));
        let folder = root.join(FOLDERS[0]).join("messages");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("made.rs"), "").unwrap();
        fs::write(folder.join("left_over.rs"), "").unwrap();
        let made = format!("{}/messages/made.rs", FOLDERS[0]);
        let found = orphans(&root, &BTreeMap::from([(made, String::new())])).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [format!("{}/messages/left_over.rs", FOLDERS[0])]);
    }

    #[test]
    fn names_of_files_are_in_snake_case() {
        assert_eq!(snake("DescribeTopicPartitions"), "describe_topic_partitions");
        assert_eq!(snake("KRaftVersionRecord"), "kraft_version_record");
    }
}
