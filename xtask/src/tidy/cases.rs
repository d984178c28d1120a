//! The list of cases from the field: what it names as shown must exist.
//!
//! It knows the shape of `docs/field-cases.md`, a table with tests and scripts in code marks, and looks for
//! `fn name` in Rust files and for scripts in their two directories; it does not know what they show.

use std::collections::BTreeSet;

use super::Problem;

pub(super) const LIST: &str = "docs/field-cases.md";
const SCRIPTS: [&str; 2] = ["tests/scripts/", "crates/group/testdata/"];

/// The tests and scripts that there are.
pub(super) struct Named<'a> {
    functions: BTreeSet<&'a str>,
    scripts: BTreeSet<&'a str>,
}

impl<'a> Named<'a> {
    pub(super) fn of(files: &'a [(String, String)]) -> Self {
        let rust = files.iter().filter(|(file, _)| file.ends_with(".rs"));
        let scripts = files.iter().filter_map(|(file, _)| SCRIPTS.iter().find_map(|dir| file.strip_prefix(dir)));
        Self { functions: rust.flat_map(|(_, text)| functions(text)).collect(), scripts: scripts.collect() }
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        if name.ends_with(".txt") { self.scripts.contains(name) } else { self.functions.contains(name) }
    }
}

/// `list` is the text of the list, `files` all files of the tree with the text of those that are Rust.
pub(super) fn check(list: &str, files: &[(String, String)]) -> Vec<Problem> {
    let named = Named::of(files);
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(list.lines()).filter(|(_, line)| line.starts_with("| ")) {
        // What stands in the last column, between code marks.
        for name in line.split('|').nth(3).unwrap_or_default().split('`').skip(1).step_by(2) {
            if !named.exists(name) {
                problems.push(Problem::at(LIST, number, format!("there is no test or script {name}; name one")));
            }
        }
    }
    problems
}

/// Names of the functions that a file has, one line each.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().trim_start_matches("async ").strip_prefix("fn ")?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_must_exist() {
        let list = "# Cases of `nobody`\n\n| A-1 | about | `there`, `also.txt` |\n| A-2 | x | `gone` and `gone.txt`; not yet |\n";
        let files = [("a/b.rs", "#[test]\n    async fn there() {}\n// fn gone() "), ("tests/scripts/also.txt", "")];
        let files = files.map(|(file, text)| (file.to_owned(), text.to_owned()));
        let texts: Vec<String> = check(list, &files).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "docs/field-cases.md:4: there is no test or script gone; name one",
                "docs/field-cases.md:4: there is no test or script gone.txt; name one",
            ]
        );
    }
}
