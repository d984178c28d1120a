//! A few seeds in every test run; many more are the suite `simulation`.

use riparian_sim::{FIXED_SEEDS, Groups, Mode, run};

#[test]
fn fixed_seeds_pass() {
    for &(seed, groups) in FIXED_SEEDS {
        let outcome = run(seed, groups, Mode::HashOnly);
        assert_eq!(outcome.failure, None, "seed {seed}");
        assert!(outcome.events >= 1000, "seed {seed} has {} events", outcome.events);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_line_by_line() {
    for seed in [2, 16] {
        let (first, second) = (run(seed, Groups::Mixed, Mode::Keep), run(seed, Groups::Mixed, Mode::Keep));
        assert_eq!(first.trace.iter().zip(&second.trace).find(|(a, b)| a != b), None, "seed {seed}");
        assert_eq!((first.hash, first.lines, first.totals), (second.hash, second.lines, second.totals), "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    assert_ne!(run(2, Groups::Mixed, Mode::HashOnly).hash, run(3, Groups::Mixed, Mode::HashOnly).hash);
}
