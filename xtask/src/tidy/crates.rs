//! Rules about crates: who may depend on whom, which libraries the core may use, what every manifest says.
//!
//! **Invariant:** a crate that is not in `ARROWS` fails, so that a new one is placed on purpose.
//! It sees what `cargo metadata` says and the text of manifests and root modules; it does not look into other modules.

use std::path::Path;

use serde_json::Value;

use super::Problem;

/// Which workspace crates each crate may use as normal dependencies (bare names, without `riparian-`).
const ARROWS: &[(&str, Arrow)] = &[
    ("types", Arrow::Only(&[])),
    ("wire", Arrow::Only(&["types"])),
    ("protocol", Arrow::Only(&["types", "wire"])),
    ("records", Arrow::Only(&["types", "wire"])),
    ("assignor", Arrow::Only(&["types"])),
    ("assignor-wasm", Arrow::Only(&["types", "assignor"])),
    ("group", Arrow::Only(&["types", "assignor"])),
    ("transaction", Arrow::Only(&["types"])),
    ("metadata", Arrow::Only(&["types"])),
    ("log", Arrow::Only(&["types", "records"])),
    ("coordinator", Arrow::Only(&["types", "wire", "records", "assignor", "group", "transaction", "metadata"])),
    (
        "broker",
        Arrow::Only(&[
            "types",
            "wire",
            "protocol",
            "records",
            "log",
            "assignor",
            "group",
            "transaction",
            "metadata",
            "coordinator",
        ]),
    ),
    ("client", Arrow::Only(&["types", "wire", "protocol", "records"])),
    ("crowd", Arrow::Only(&["wire", "protocol"])),
    ("server", Arrow::AllBut(&["sim", "bench", "crowd", "scripts", "testkit"])),
    ("sim", Arrow::AllBut(&["server", "bench", "crowd"])),
    ("fuzz", Arrow::AllBut(&["server", "sim", "bench", "crowd", "scripts", "testkit"])),
    ("bench", Arrow::AllBut(&["server", "sim"])),
    ("scripts", Arrow::Only(&["types", "protocol", "records", "client", "testkit"])),
    ("testkit", Arrow::Only(&[])),
    ("tests", Arrow::Only(&["types", "wire", "protocol", "records", "client"])),
    ("xtask", Arrow::Only(&[])),
];

/// Crates that only tests may use; any crate may have them as dev-dependencies.
const TEST_ONLY: &[&str] = &["scripts", "testkit"];

/// Crates that are nothing but tests and may use those.
const TESTS: &[&str] = &["scripts", "sim"];

const NO_STD: &[&str] = &["types", "wire", "protocol", "assignor", "group", "transaction", "metadata"];
const NO_UNSAFE: &[&str] = &[
    "types",
    "wire",
    "protocol",
    "records",
    "assignor",
    "group",
    "transaction",
    "metadata",
    "log",
    "coordinator",
    "broker",
];

/// Libraries that every core crate may use, and those that single ones may.
const CORE_LIBRARIES: &[&str] = &["bytes", "thiserror"];
const CORE_LIBRARIES_OF: &[(&str, &[&str])] = &[
    ("types", &["foldhash", "hashbrown", "smol_str"]),
    ("broker", &["dashmap"]),
    ("records", &["crc32c", "flate2", "lz4_flex", "snap", "zstd"]),
    ("log", &["crc32c"]),
    ("coordinator", &["crc32c"]),
    ("group", &["regex", "xxhash-rust"]),
];

enum Arrow {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

/// What the rules need to know of one workspace crate. Paths are relative to the workspace.
pub(super) struct Package {
    name: String,
    pub(super) manifest: String,
    /// `src/lib.rs`, if it has one.
    pub(super) root_module: Option<String>,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    in_workspace: bool,
    /// Used by tests only.
    dev: bool,
}

pub(super) fn packages(metadata: &Value, root: &Path) -> Vec<Package> {
    let relative = |value: &Value| {
        let path = Path::new(value.as_str().unwrap_or_default());
        path.strip_prefix(root).unwrap_or(path).display().to_string()
    };
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages
        .iter()
        .map(|package| Package {
            name: bare(package["name"].as_str().unwrap_or_default()),
            manifest: relative(&package["manifest_path"]),
            root_module: targets(package, "lib").map(|target| relative(&target["src_path"])).next(),
            dependencies: dependencies(package),
        })
        .collect()
}

fn targets<'a>(package: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    targets
        .iter()
        .filter(move |target| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|it| it == kind)))
}

fn dependencies(package: &Value) -> Vec<Dependency> {
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    dependencies
        .iter()
        .map(|dependency| Dependency {
            name: dependency["name"].as_str().unwrap_or_default().to_owned(),
            in_workspace: dependency["path"].is_string(),
            dev: dependency["kind"] == "dev",
        })
        .collect()
}

fn bare(name: &str) -> String {
    name.strip_prefix("riparian-").unwrap_or(name).to_owned()
}

/// Arrows and libraries.
pub(super) fn check(packages: &[Package], architecture: &str) -> Vec<Problem> {
    packages.iter().flat_map(|package| check_package(package, architecture)).collect()
}

fn check_package(package: &Package, architecture: &str) -> Vec<Problem> {
    let Some((_, arrow)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
        return vec![Problem::in_file(
            &package.manifest,
            format!("crate `{}` has no arrows yet: add it to ARROWS in xtask/src/tidy/crates.rs", package.name),
        )];
    };
    let normal = package.dependencies.iter().filter(|dependency| !dependency.dev);
    normal.filter_map(|dependency| check_dependency(package, arrow, dependency, architecture)).collect()
}

fn check_dependency(package: &Package, arrow: &Arrow, dependency: &Dependency, architecture: &str) -> Option<Problem> {
    let name = bare(&dependency.name);
    if !dependency.in_workspace {
        return check_library(package, &dependency.name, architecture);
    }
    let allowed = match arrow {
        Arrow::Only(names) => names.contains(&name.as_str()),
        Arrow::AllBut(names) => !names.contains(&name.as_str()),
    };
    if allowed && (!TEST_ONLY.contains(&name.as_str()) || TESTS.contains(&package.name.as_str())) {
        return None;
    }
    let instead = match arrow {
        Arrow::Only([]) => "it may use no workspace crate".to_owned(),
        Arrow::Only(names) => format!("it may use {}", names.join(", ")),
        Arrow::AllBut(names) => format!("it may use all but {}", names.join(", ")),
    };
    Some(Problem::in_file(&package.manifest, format!("`{}` must not depend on `{name}`: {instead}", package.name)))
}

fn check_library(package: &Package, library: &str, architecture: &str) -> Option<Problem> {
    if !NO_UNSAFE.contains(&package.name.as_str()) {
        return None;
    }
    let own =
        CORE_LIBRARIES_OF.iter().find(|(name, _)| *name == package.name).map_or(&[][..], |(_, libraries)| libraries);
    if CORE_LIBRARIES.contains(&library) || own.contains(&library) || is_explained(architecture, library) {
        return None;
    }
    Some(Problem::in_file(
        &package.manifest,
        format!(
            "core crate `{}` uses `{library}`: say in the libraries of docs/ARCHITECTURE.md what it does for us, or do without",
            package.name
        ),
    ))
}

/// Whether a table of the page has a row for the library.
fn is_explained(architecture: &str, library: &str) -> bool {
    let first_cells = architecture.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    first_cells.flat_map(|cell| cell.split(',')).any(|name| name.trim().trim_matches('`') == library)
}

pub(super) fn check_manifest(package: &Package, manifest: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lints = manifest.split("[lints]").nth(1).unwrap_or_default();
    if !lints.trim_start().starts_with("workspace = true") {
        problems.push(Problem::in_file(&package.manifest, "the manifest lacks `[lints]` with `workspace = true`"));
    }
    problems
}

pub(super) fn check_root_module(package: &Package, source: &str) -> Vec<Problem> {
    let file = package.root_module.as_deref().unwrap_or_default();
    let has = |attribute: &str| source.lines().any(|line| line.trim_start().starts_with(attribute));
    let mut problems = Vec::new();
    let name = package.name.as_str();
    if NO_STD.contains(&name) && !has("#![no_std]") && !has("#![cfg_attr(not(test), no_std)]") {
        problems.push(Problem::in_file(file, format!("`{name}` is a core crate without std: add `#![no_std]`")));
    }
    if NO_UNSAFE.contains(&name) && !has("#![forbid(unsafe_code)]") {
        problems.push(Problem::in_file(file, format!("`{name}` is a core crate: add `#![forbid(unsafe_code)]`")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[Value]) -> Package {
        let metadata = json!({"packages": [{
            "name": format!("riparian-{name}"),
            "manifest_path": format!("/repo/crates/{name}/Cargo.toml"),
            "targets": [{"kind": ["lib"], "src_path": format!("/repo/crates/{name}/src/lib.rs")}],
            "dependencies": dependencies,
        }]});
        packages(&metadata, Path::new("/repo")).pop().expect("one package goes in")
    }

    fn check_texts(package: &Package, architecture: &str, expected: &[&str]) {
        let texts: Vec<String> =
            super::check(std::slice::from_ref(package), architecture).iter().map(Problem::to_string).collect();
        assert_eq!(texts, expected);
    }

    fn ours(name: &str, kind: Option<&str>) -> Value {
        json!({"name": format!("riparian-{name}"), "path": "/repo", "kind": kind})
    }

    fn library(name: &str) -> Value {
        json!({"name": name, "kind": null})
    }

    #[test]
    fn arrow_that_is_drawn_passes_and_any_other_fails() {
        check_texts(&package("group", &[ours("types", None), ours("assignor", None)]), "", &[]);
        check_texts(
            &package("group", &[ours("protocol", None)]),
            "",
            &["crates/group/Cargo.toml: `group` must not depend on `protocol`: it may use types, assignor"],
        );
        check_texts(
            &package("server", &[ours("sim", None)]),
            "",
            &[
                "crates/server/Cargo.toml: `server` must not depend on `sim`: it may use all but sim, bench, crowd, scripts, testkit",
            ],
        );
        check_texts(
            &package("types", &[ours("wire", Some("build"))]),
            "",
            &["crates/types/Cargo.toml: `types` must not depend on `wire`: it may use no workspace crate"],
        );
    }

    #[test]
    fn tests_may_use_what_the_code_may_not() {
        check_texts(&package("group", &[ours("testkit", Some("dev")), ours("protocol", Some("dev"))]), "", &[]);
        check_texts(&package("sim", &[ours("testkit", None)]), "", &[]);
        check_texts(
            &package("bench", &[ours("testkit", None)]),
            "",
            &["crates/bench/Cargo.toml: `bench` must not depend on `testkit`: it may use all but server, sim"],
        );
    }

    #[test]
    fn unknown_crate_fails() {
        check_texts(
            &package("surprise", &[]),
            "",
            &[
                "crates/surprise/Cargo.toml: crate `surprise` has no arrows yet: add it to ARROWS in xtask/src/tidy/crates.rs",
            ],
        );
    }

    #[test]
    fn core_crate_uses_only_listed_or_explained_libraries() {
        let with_rand = package("group", &[library("thiserror"), library("rand")]);
        check_texts(
            &with_rand,
            "",
            &["crates/group/Cargo.toml: core crate `group` uses `rand`: say in the libraries of docs/ARCHITECTURE.md \
               what it does for us, or do without"],
        );
        check_texts(&with_rand, "| `rand`, rand_core | luck |", &[]);
        check_texts(&package("server", &[library("rand")]), "", &[]);
    }

    #[test]
    fn manifest_without_workspace_lints_fails() {
        let package = package("group", &[]);
        assert_eq!(check_manifest(&package, "[package]\n\n[lints]\nworkspace = true\n"), []);
        assert_eq!(check_manifest(&package, "[package]\n").len(), 1);
        assert_eq!(check_manifest(&package, "[lints.clippy]\ntodo = \"allow\"\n").len(), 1);
    }

    #[test]
    fn core_root_module_names_no_std_and_forbids_unsafe() {
        let good = "//! x\n#![no_std]\n#![forbid(unsafe_code)]\n";
        assert_eq!(check_root_module(&package("group", &[]), good), []);
        assert_eq!(check_root_module(&package("group", &[]), "//! x\n").len(), 2);
        assert_eq!(check_root_module(&package("log", &[]), "//! x\n").len(), 1);
        assert_eq!(check_root_module(&package("server", &[]), "//! x\n"), []);
    }
}
