//! Rules about the text of files: headers, names, sizes, words that must not be committed.
//!
//! It looks at one file at a time and knows nothing of crates beyond the path of the file.

use super::Problem;

const LINES_MAX: usize = 800;

/// Crates where the standard library may appear in tests only.
const NO_STD_DIRS: &[&str] = &[
    "crates/types/",
    "crates/wire/",
    "crates/protocol/",
    "crates/assignor/",
    "crates/group/",
    "crates/transaction/",
    "crates/metadata/",
];

/// Unfinished or hidden work. Written in two parts so that this file does not hold what it forbids.
const UNFINISHED: &[(&str, &str, &str)] = &[
    ("todo", "!(", "finish it or leave it out"),
    ("unimplemented", "!(", "finish it or leave it out"),
    ("dbg", "!(", "take it out"),
    ("#[igno", "re", "a test runs or is gone"),
    ("#[should_pa", "nic", "return an error and check it"),
];

/// Hosts of package registries and paths of single machines; a clone must work anywhere.
const PRIVATE: &[(&str, &str)] = &[
    ("static.crates", ".io"),
    ("index.crates", ".io"),
    ("registry.npm", "js"),
    ("repo1.ma", "ven"),
    ("repo.maven.apa", "che"),
    ("proxy.gol", "ang"),
    ("pypi", ".org"),
    ("files.pythonho", "sted"),
    ("deb.deb", "ian.org"),
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("/Use", "rs/"),
];

pub(super) fn check(file: &str, content: &str) -> Vec<Problem> {
    let mut problems = check_private(file, content);
    if !file.ends_with(".rs") {
        return problems;
    }
    if file.ends_with("/mod.rs") {
        problems.push(Problem::in_file(file, "name the module after itself: `foo.rs` beside `foo/`"));
    }
    problems.extend(check_unfinished(file, content));
    if is_generated(file) {
        return problems;
    }
    problems.extend(check_header(file, content));
    problems.extend(check_std(file, content));
    let lines = content.lines().count();
    if lines > LINES_MAX {
        problems.push(Problem::in_file(file, format!("{lines} lines, at most {LINES_MAX}: split it by topic")));
    }
    problems
}

fn is_generated(file: &str) -> bool {
    file.split('/').any(|part| part == "generated" || part == "generated.rs")
}

fn check_private(file: &str, content: &str) -> Vec<Problem> {
    // The lock file is cargo's own and names its registry.
    if file.ends_with("Cargo.lock") {
        return Vec::new();
    }
    find(file, content, |line| {
        let (first, second) = PRIVATE.iter().find(|(first, second)| contains_joined(line, first, second))?;
        Some(format!("names `{first}{second}`: a clone must not depend on one machine or registry host"))
    })
}

fn check_unfinished(file: &str, content: &str) -> Vec<Problem> {
    find(file, content, |line| {
        let (first, second, advice) =
            UNFINISHED.iter().find(|(first, second, _)| contains_joined(line, first, second))?;
        Some(format!("`{first}{second}` is not committed: {advice}"))
    })
}

/// Whether the line holds the two parts as one word that does not go on from a longer one.
fn contains_joined(line: &str, first: &str, second: &str) -> bool {
    line.match_indices(first).any(|(at, _)| {
        let goes_on = line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-*".contains(before));
        !goes_on && line[at + first.len()..].starts_with(second)
    })
}

fn find(file: &str, content: &str, complaint: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let lines = content.lines().enumerate();
    lines.filter_map(|(index, line)| Some(Problem::at(file, index + 1, complaint(line)?))).collect()
}

fn check_header(file: &str, content: &str) -> Option<Problem> {
    let first = content.lines().map(str::trim).find(|line| {
        // A licence or an attribute may stand above the header, an item may not.
        let comment = line.starts_with("//") && !line.starts_with("//!");
        !(line.is_empty() || line.starts_with("#![") || comment)
    });
    let has_header = first.is_some_and(|line| line.starts_with("//!"));
    (!has_header).then(|| Problem::in_file(file, "open the module with `//!`: what it owns, keeps and does not know"))
}

fn check_std(file: &str, content: &str) -> Vec<Problem> {
    if !NO_STD_DIRS.iter().any(|dir| file.starts_with(dir) && file[dir.len()..].starts_with("src/")) {
        return Vec::new();
    }
    let lines: Vec<&str> = content.lines().map(str::trim).collect();
    let names_std = |line: &str| line.starts_with("extern crate std") || line.starts_with("pub extern crate std");
    let for_tests = |index: usize| lines[index.saturating_sub(2)..index].iter().any(|line| line.contains("cfg(test)"));
    let in_tests = |index: usize| lines[..index].iter().any(|line| line.starts_with("mod tests"));
    (0..lines.len())
        .filter(|index| names_std(lines[*index]) && !for_tests(*index) && !in_tests(*index) && !file.contains("/tests"))
        .map(|index| {
            Problem::at(file, index + 1, "`extern crate std` in a crate without std: only under `#[cfg(test)]`")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_texts(file: &str, content: &str, expected: &[&str]) {
        let texts: Vec<String> = super::check(file, content).iter().map(Problem::to_string).collect();
        assert_eq!(texts, expected);
    }

    fn joined(first: &str, second: &str) -> String {
        format!("//! x\n{first}{second}\n")
    }

    #[test]
    fn module_opens_with_what_it_is() {
        check_texts("a/src/b.rs", "// licence\n#![no_std]\n//! Owns b.\nfn b() {}\n", &[]);
        let complaint = "a/src/b.rs: open the module with `//!`: what it owns, keeps and does not know";
        check_texts("a/src/b.rs", "fn b() {}\n//! Late.\n", &[complaint]);
        check_texts("a/src/b.rs", "", &[complaint]);
        check_texts("a/src/generated/b.rs", "fn b() {}\n", &[]);
    }

    #[test]
    fn unfinished_work_is_named_with_its_line() {
        check_texts(
            "a/src/b.rs",
            &joined("    todo", "!()"),
            &[concat!("a/src/b.rs:2: `todo", "!(` is not committed: finish it or leave it out")],
        );
        for (first, second, _) in UNFINISHED {
            assert_eq!(super::check("a/src/b.rs", &joined(first, second)).len(), 1, "{first}{second}");
        }
    }

    #[test]
    fn machine_paths_and_registry_hosts_are_refused_in_every_file() {
        for (first, second) in PRIVATE {
            assert_eq!(super::check("docs/a.md", &joined(first, second)).len(), 1, "{first}{second}");
            assert_eq!(super::check("Cargo.lock", &joined(first, second)), [], "{first}{second}");
        }
        check_texts("docs/a.md", "homework/ and net/work/s\n", &[]);
    }

    #[test]
    fn long_file_and_mod_rs_are_refused() {
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        check_texts("a/src/b.rs", &long, &["a/src/b.rs: 801 lines, at most 800: split it by topic"]);
        check_texts(
            "a/src/b/mod.rs",
            "//! x\n",
            &["a/src/b/mod.rs: name the module after itself: `foo.rs` beside `foo/`"],
        );
    }

    #[test]
    fn std_in_a_core_crate_is_for_tests_only() {
        check_texts("crates/group/src/lib.rs", "//! x\n#[cfg(test)]\nextern crate std;\n", &[]);
        check_texts("crates/server/src/lib.rs", "//! x\nextern crate std;\n", &[]);
        check_texts(
            "crates/group/src/lib.rs",
            "//! x\nextern crate std;\n",
            &["crates/group/src/lib.rs:2: `extern crate std` in a crate without std: only under `#[cfg(test)]`"],
        );
    }
}
