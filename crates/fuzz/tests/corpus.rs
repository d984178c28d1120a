//! The committed corpora, replayed: whatever was found once stays mended.

use std::{collections::BTreeSet, fs, panic, path::Path, thread};

use riparian_fuzz::{TARGETS, Target, corpus, target};

#[test]
fn every_input_of_the_corpora_keeps_the_promises() {
    let failures: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = TARGETS.iter().map(|target| scope.spawn(|| replay(target))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("panics are caught inside")).collect()
    });
    assert!(failures.is_empty(), "broken, see above:\n{}", failures.join("\n"));
}

/// Where the inputs are that break a promise.
fn replay(target: &Target) -> Vec<String> {
    let inputs = corpus::committed(target.name).expect("every target has a corpus");
    assert!(!inputs.is_empty(), "{} has no inputs", target.name);
    let broken = inputs.iter().filter(|input| panic::catch_unwind(|| (target.run)(&input.bytes)).is_err());
    broken.map(|input| format!("{} {}", target.name, input.name)).collect()
}

#[test]
fn no_input_is_enough() {
    for target in TARGETS {
        (target.run)(&[]);
    }
}

#[test]
fn every_corpus_has_a_target_and_inputs_of_its_size() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).expect("there are corpora") {
        let name = entry.expect("the corpora can be listed").file_name().to_string_lossy().into_owned();
        let target = target(&name).unwrap_or_else(|| panic!("no target is called {name}"));
        for input in corpus::committed(&name).expect("the corpus can be read") {
            let length = input.bytes.len();
            assert!(length <= target.input_bytes_max, "{} has {length} bytes", input.name);
        }
        names.insert(name);
    }
    assert_eq!(names, TARGETS.iter().map(|target| target.name.to_owned()).collect());
}
