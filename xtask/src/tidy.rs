//! `tidy`: the rules of the house that a compiler does not check.
//!
//! Owns the list of problems and how they are shown; each kind of rule is a module of its own and a pure function
//! from text to problems, so that each can be tested without a repository.
//! **Invariant:** a problem names the file, what is wrong and what would be right.

mod cases;
mod crates;
mod rules;
mod sources;

use std::fmt;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::shell;

/// One broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    file: String,
    line: Option<usize>,
    text: String,
}

impl Problem {
    fn in_file(file: &str, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, text: text.into() }
    }

    fn at(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: Some(line), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

pub(crate) fn run() -> Result<()> {
    let problems = check()?;
    for problem in &problems {
        shell::talk(&problem.to_string());
    }
    if problems.is_empty() { Ok(()) } else { bail!("tidy found {} problem(s)", problems.len()) }
}

/// Every broken rule of the work tree, in the order of files.
pub(crate) fn check() -> Result<Vec<Problem>> {
    let metadata =
        shell::run_quietly(shell::cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))
            .or_else(|_| shell::run_quietly(shell::cargo().args(["metadata", "--format-version", "1", "--no-deps"])))?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).context("cargo metadata is not JSON")?;
    let packages = crates::packages(&metadata, &shell::root());
    let architecture = std::fs::read_to_string(shell::root().join("docs").join("ARCHITECTURE.md")).unwrap_or_default();
    let mut problems = crates::check(&packages, &architecture);
    for package in &packages {
        problems.extend(crates::check_manifest(package, &read(&package.manifest)?));
        if let Some(root_module) = &package.root_module {
            problems.extend(crates::check_root_module(package, &read(root_module)?));
        }
    }
    let mut contents = Vec::new();
    for file in files()? {
        // A file may be gone from the work tree, or not be text.
        let Ok(content) = std::fs::read_to_string(shell::root().join(&file)) else { continue };
        problems.extend(sources::check(&file, &content));
        contents.push((file, content));
    }
    problems.extend(cases::check(&read(cases::LIST)?, &contents));
    problems.extend(rules::check(&read(rules::LIST)?, &contents));
    problems.sort();
    Ok(problems)
}

fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(shell::root().join(file)).with_context(|| format!("cannot read {file}"))
}

/// What is committed or would be.
fn files() -> Result<Vec<String>> {
    let listing = shell::run_quietly(Command::new("git").current_dir(shell::root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(String::from_utf8_lossy(&listing.stdout).lines().map(str::to_owned).collect())
}
