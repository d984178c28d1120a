//! The scripts of `tests/scripts`, and those of `testdata` that only a simulated server can run, with several seeds each:
//! what luck decides must not show.

use std::path::{Path, PathBuf};

use riparian_sim::{Mode, check_script};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=2;

fn check_all(dir: &str, rewritable: bool) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let entries = std::fs::read_dir(&dir).expect("the scripts are there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a listed file is there").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let check = |seed: u64| -> Vec<String> {
        let failure = |path: &PathBuf| {
            let failure = check_script(path, seed, Mode::HashOnly, rewritable).1.err()?;
            Some(format!("{}, seed {seed}:\n{failure}", path.display()))
        };
        paths.iter().filter_map(failure).collect()
    };
    // Those that are rewritten are few, and must not be rewritten twice at once.
    let failures: Vec<String> = match rewritable {
        true => SEEDS.flat_map(check).collect(),
        false => std::thread::scope(|scope| {
            let threads: Vec<_> = SEEDS.map(|seed| scope.spawn(move || check(seed))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("panics are failures")).collect()
        }),
    };
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn scripts_of_the_servers_hold_in_the_simulator() {
    check_all("../../tests/scripts", false);
}

#[test]
fn scripts_about_power_and_disks_hold() {
    check_all("testdata", true);
}
