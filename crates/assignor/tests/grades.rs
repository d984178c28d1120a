//! The grades of the built-in assignors, compared with a file, so that a change in quality is seen.
//!
//! `UPDATE_EXPECT=1 cargo test -p riparian-assignor --test grades` writes the file anew.

use std::{fmt::Write, path::Path};

use riparian_assignor::{
    built_in,
    testbed::{Grades, grade},
};

#[test]
fn grades_are_as_they_were() {
    let mut table = String::new();
    for (title, with_racks) in [("without racks", false), ("with racks", true)] {
        writeln!(table, "{title:<14} {}", Grades::HEADER).unwrap();
        for assignor in built_in::ASSIGNORS {
            let grades = grade(*assignor, 0..150, with_racks);
            assert_eq!((grades.illegal, grades.unstable), (0, 0), "{}: {grades:?}", assignor.name());
            writeln!(table, "{:<14} {grades}", assignor.name()).unwrap();
        }
    }
    println!("{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grades.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, table).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(table, expected, "UPDATE_EXPECT=1 takes the new grades over, if they are meant to be so");
}
