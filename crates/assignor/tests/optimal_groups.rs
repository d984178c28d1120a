//! `optimal` beside `sticky` on seeded groups that change, by the cost function and by a lower bound.

use riparian_assignor::{
    AssignmentInput, Cost, CostModel, OptimalTaskAssignor, StickyTaskAssignor, assign_checked,
    optimal::restore_bound,
    testbed::{Change, Group},
};

struct Case {
    name: String,
    change: Change,
    sticky: Cost,
    optimal: Cost,
    bound: u64,
}

/// What both make of the same input; the group lives on with what `optimal` decided.
fn cases(wanted: usize, new: fn(u64) -> Group) -> Vec<Case> {
    let mut cases = Vec::new();
    for seed in 0.. {
        let mut group = new(seed);
        let mut change = Change::Nothing;
        for round in 0..12 {
            let input = group.input();
            let sticky = assign_checked(&StickyTaskAssignor, &input).expect("a legal assignment");
            let optimal = assign_checked(&OptimalTaskAssignor, &input).expect("a legal assignment");
            if round > 0 && change != Change::Nothing && input.subtopologies.task_count() > 0 {
                let model = CostModel::new(&input);
                cases.push(Case {
                    name: format!("seed {seed}, round {round}"),
                    change,
                    sticky: model.cost(&sticky),
                    optimal: model.cost(&optimal),
                    bound: restore_bound(&input, &sticky).expect("the group is small"),
                });
            }
            if cases.len() == wanted {
                return cases;
            }
            group.adopt(&optimal);
            change = group.change();
        }
    }
    unreachable!("seeds don't end")
}

#[test]
fn optimal_restores_less_within_the_spread_of_sticky() {
    let cases = cases(2000, Group::new);
    let mut closed: Vec<f64> = Vec::new();
    let (mut restore_sticky, mut restore_optimal, mut restore_bound) = (0u128, 0u128, 0u128);
    for case in &cases {
        let (sticky, optimal) = (&case.sticky, &case.optimal);
        assert!(optimal <= sticky, "{}: {optimal:?} is worse than {sticky:?}", case.name);
        let is_same_spread = |case: &Case| {
            let spreads = |cost: &Cost| (cost.active_spread, cost.stateful_spread, cost.task_spread);
            spreads(&case.optimal) == spreads(&case.sticky)
        };
        if is_same_spread(case) {
            assert!(optimal.restore <= sticky.restore, "{}: {optimal:?} restores more than {sticky:?}", case.name);
            assert!(optimal.restore >= case.bound, "{}: {optimal:?} is below the bound {}", case.name, case.bound);
        }
        restore_sticky += u128::from(sticky.restore);
        restore_optimal += u128::from(optimal.restore);
        restore_bound += u128::from(case.bound);
        if case.bound < sticky.restore {
            let (room, done) = (sticky.restore - case.bound, sticky.restore.saturating_sub(optimal.restore));
            closed.push(done as f64 / room as f64);
        }
    }
    closed.sort_by(f64::total_cmp);
    let at = |share: f64| closed[((closed.len() - 1) as f64 * share) as usize];
    println!(
        "{} changes; the bound is below sticky's figure in {}; of that distance optimal closes: lowest tenth {:.2}, median {:.2}, highest tenth {:.2}; all of it in {}",
        cases.len(),
        closed.len(),
        at(0.1),
        at(0.5),
        at(0.9),
        closed.iter().filter(|&&share| share >= 1.0).count(),
    );
    println!("records to restore: sticky {restore_sticky}, optimal {restore_optimal}, bound {restore_bound}");
    let sum = |of: fn(&Cost) -> u64| {
        let of_sticky: u64 = cases.iter().map(|case| of(&case.sticky)).sum();
        let of_optimal: u64 = cases.iter().map(|case| of(&case.optimal)).sum();
        (of_sticky, of_optimal)
    };
    println!(
        "moves: {:?}, thread moves: {:?}, clumps: {:?}, active spread: {:?}, task spread: {:?} (sticky, optimal)",
        sum(|cost| cost.moves),
        sum(|cost| cost.thread_moves),
        sum(|cost| cost.clumps),
        sum(|cost| cost.active_spread),
        sum(|cost| cost.task_spread)
    );
    for change in [
        Change::Join,
        Change::Return,
        Change::ThreadStart,
        Change::Leave,
        Change::ThreadStop,
        Change::RackLost,
        Change::Standbys,
    ] {
        let of = |figure: fn(&Case) -> u64| cases.iter().filter(|case| case.change == change).map(figure).sum::<u64>();
        println!(
            "  {change:?}: sticky {}, optimal {}, bound {}",
            of(|case| case.sticky.restore),
            of(|case| case.optimal.restore),
            of(|case| case.bound)
        );
    }
    assert!(closed.len() > 100, "the bound leaves room in {} cases only", closed.len());
    assert!(at(0.5) >= 0.5);
}

#[test]
fn optimal_is_never_worse_with_racks_either() {
    for case in cases(500, Group::with_racks) {
        assert!(case.optimal <= case.sticky, "{}: {:?} is worse than {:?}", case.name, case.optimal, case.sticky);
    }
}

#[test]
fn placements_add_up_to_the_cost() {
    for seed in 0..200 {
        let input: AssignmentInput = Group::new(seed).input();
        let assignment = assign_checked(&OptimalTaskAssignor, &input).expect("a legal assignment");
        let model = CostModel::new(&input);
        let cost = model.cost(&assignment);
        let mut restore = 0;
        for (index, tasks) in assignment.members.iter().enumerate() {
            let member = riparian_assignor::MemberIndex(index as u32);
            restore += tasks.active.iter().map(|&task| model.placement(task, member, true).restore).sum::<u64>();
            restore += tasks.standby.iter().map(|&task| model.placement(task, member, false).restore).sum::<u64>();
        }
        assert_eq!(restore, cost.restore, "seed {seed}");
    }
}
