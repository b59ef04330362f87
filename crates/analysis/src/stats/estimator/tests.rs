//! The estimator by hand.

use super::*;

fn trials(cells: &[&[f64]]) -> Vec<Trial> {
    let of = |(cell, values): (usize, &&[f64])| -> Vec<Trial> {
        let one = |(seed, value): (u32, &f64)| Trial { cell: cell.to_string(), seed, rounds: vec![*value] };
        (0..).zip(*values).map(one).collect()
    };
    cells.iter().enumerate().flat_map(of).collect()
}

fn pairs(cells: &[&[f64]]) -> Vec<Pair> {
    let pair = |trial: Trial| Pair {
        cell: trial.cell,
        seed: trial.seed,
        a: vec![0.5],
        b: vec![trial.rounds[0] + 0.5],
    };
    trials(cells).into_iter().map(pair).collect()
}

fn reach(estimate: &Estimate) -> f64 {
    estimate.interval.unwrap().high - estimate.value
}

#[test]
fn three_seeds_have_students_interval() {
    let found = level(&trials(&[&[9.0, 10.0, 11.0]]), 0.95).unwrap();
    assert!((reach(&found) - 4.302_652_7 / 3.0_f64.sqrt()).abs() < 1e-5, "{found:?}");
    assert_eq!((found.units(), found.freedom, found.method), (3, 2.0, Method::Level));
    // With two degrees of freedom: F(−t) = ½ − t / (2 √(2 + t²)).
    let t = 10.0 * 3.0_f64.sqrt();
    assert!((found.p.unwrap() - (1.0 - t / (2.0 + t * t).sqrt())).abs() < 1e-9);
    let of_pairs = paired(&pairs(&[&[9.0, 10.0, 11.0]]), 0.95).unwrap();
    assert!((of_pairs.error - found.error).abs() < 1e-12 && of_pairs.method == Method::Pairs);
}

#[test]
fn rounds_and_trials_of_a_seed_are_one_unit() {
    let alone = level(&trials(&[&[1.0, 2.0, 4.0]]), 0.95).unwrap();
    let many: Vec<Trial> = trials(&[&[1.0, 2.0, 4.0]])
        .into_iter()
        .flat_map(|trial| {
            let rounds = [-0.1, 0.1].map(|by| trial.rounds[0] + by).repeat(50);
            [Trial { rounds: rounds.clone(), ..trial.clone() }, Trial { rounds, ..trial }]
        })
        .collect();
    let many = level(&many, 0.95).unwrap();
    assert_eq!((many.units(), many.freedom), (3, 2.0));
    assert!((many.error - alone.error).abs() < 1e-12, "{many:?}");
    let found = many.components.unwrap();
    assert!((found.rounds - 100.0).abs() < 1e-9 && found.trials == 2.0, "{found:?}");
}

#[test]
fn cells_are_fixed_and_seeds_go_through_them() {
    // The same deviations in both cells: as wide as one cell, however far apart the cells are.
    let one = level(&trials(&[&[1.0, 2.0, 4.0]]), 0.95).unwrap();
    let two = level(&trials(&[&[1.0, 2.0, 4.0], &[101.0, 102.0, 104.0]]), 0.95).unwrap();
    assert!((two.error - one.error).abs() < 1e-12 && two.freedom == 2.0 && two.cells == 2);
    assert!((two.value - one.value - 50.0).abs() < 1e-12);
    // Opposite deviations cancel out: nothing is left of the spread of the mean.
    let opposite = paired(&pairs(&[&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]]), 0.95).unwrap();
    assert_eq!((opposite.method, opposite.value), (Method::Signs, 2.0));
    // Independent deviations: s² (¼ + ¼) / n, exactly as of two separate samples.
    let a = trials(&[&[1.0, 2.0, 3.0]]);
    let mut b = trials(&[&[], &[5.0, 6.0, 7.0]]);
    b.iter_mut().for_each(|trial| trial.seed += 10);
    let both = level(&[a, b].concat(), 0.95).unwrap();
    assert!((both.error - (1.0_f64 / 6.0).sqrt()).abs() < 1e-12, "{both:?}");
}

#[test]
fn two_sides_without_pairs_have_welchs_test() {
    let (a, b) = (trials(&[&[1.0, 2.0, 3.0]]), trials(&[&[4.0, 5.0, 6.0]]));
    let found = apart(&a, &b, 0.95).unwrap();
    assert_eq!((found.value, found.method), (3.0, Method::Welch));
    assert!((found.freedom - 4.0).abs() < 1e-9);
    // With four: F(−t) = ½ − ¾ (s − s³ / 3), s = t / √(4 + t²), here t = 3 / √(2 / 3).
    let t = 3.0 / (2.0_f64 / 3.0).sqrt();
    let s = t / (4.0 + t * t).sqrt();
    assert!((found.p.unwrap() - 2.0 * (0.5 - 0.75 * (s - s.powi(3) / 3.0))).abs() < 1e-9);
    // A lone value: squares 6, freedom 3, variance 2 · (½ + 1 + ½ + ½) / 2² = 1.25, t = 3.182446.
    let lone = apart(&trials(&[&[0.0, 2.0], &[10.0, 12.0]]), &trials(&[&[3.0], &[13.0, 15.0]]), 0.95);
    let lone = lone.unwrap();
    assert_eq!((lone.method, lone.freedom), (Method::Pooled, 3.0));
    assert!((reach(&lone) - 3.182_446 * 1.25_f64.sqrt()).abs() < 1e-5, "{lone:?}");
}

#[test]
fn one_unit_has_no_interval() {
    let none = |found: Estimate| {
        assert_eq!((found.interval, found.p, found.method), (None, None, Method::Single));
        assert_eq!((found.detectable(0.05), found.more(0.05, 0.05)), (None, None));
    };
    none(level(&trials(&[&[1.0]]), 0.95).unwrap());
    none(paired(&pairs(&[&[1.0, 2.0], &[3.0]]), 0.95).unwrap());
    none(apart(&trials(&[&[1.0], &[9.0]]), &trials(&[&[2.0], &[18.0]]), 0.95).unwrap());
    assert_eq!(level(&[], 0.95), None);
    assert_eq!(apart(&trials(&[&[1.0]]), &[], 0.95), None);
    let empty = Trial { cell: String::new(), seed: 0, rounds: Vec::new() };
    assert_eq!(level(&[empty], 0.95), None);
}

#[test]
fn without_spread_signs_and_arrangement_are_left() {
    let three = paired(&pairs(&[&[0.1; 3]]), 0.95).unwrap();
    assert_eq!((three.p, three.method), (Some(0.25), Method::Signs));
    // Three equal numbers do not make an interval without width: of a metric with two values, one of them
    // in 80 % of the runs, three runs agree half of the time.
    assert_eq!(three.interval, None);
    let six = paired(&pairs(&[&[0.1; 6]]), 0.95).unwrap().interval.unwrap();
    assert!(six.low == six.high && (six.low - 0.1).abs() < 1e-12);
    // 2 · 0.5⁶ = 0.03 is the first below 0.05.
    assert_eq!(three.more(0.05, 0.05), Some(More::Seeds(Plan { expected: 6, sure: Some(6) })));
    assert_eq!(three.detectable(0.05), None);
    assert_eq!(paired(&pairs(&[&[0.1; 6]]), 0.95).unwrap().detectable(0.05), Some(0.0));
    // Cells of the same seeds tell no more than one of them, and nothing where they disagree.
    let cells = paired(&pairs(&[&[0.1; 3], &[0.7; 3]]), 0.95).unwrap();
    assert_eq!(cells.p, Some(0.25));
    assert_eq!(paired(&pairs(&[&[0.1; 6], &[-0.7; 6]]), 0.95).unwrap().p, Some(1.0));
    assert_eq!(paired(&pairs(&[&[0.0; 6]]), 0.95).unwrap().p, Some(1.0));
    // 2 / C(6, 3) = 0.1 and 2 / C(8, 4) = 0.03.
    let sides = apart(&trials(&[&[3.0; 3]]), &trials(&[&[6.0; 3]]), 0.95).unwrap();
    assert!((sides.p.unwrap() - 0.1).abs() < 1e-12 && sides.method == Method::Arrangement);
    assert_eq!(sides.interval, None);
    assert!(apart(&trials(&[&[3.0; 4]]), &trials(&[&[6.0; 4]]), 0.95).unwrap().interval.is_some());
    assert_eq!(sides.more(0.05, 0.05), Some(More::Seeds(Plan { expected: 4, sure: Some(4) })));
}

#[test]
fn a_value_lies_beside_a_limit_with_half_of_the_two_sided_p() {
    let found = level(&trials(&[&[9.0, 10.0, 11.0]]), 0.95).unwrap();
    assert!((found.beside(0.0).unwrap() - found.p.unwrap() / 2.0).abs() < 1e-12);
    // One-sided at 2.5 % where the two-sided interval ends, above and below the value.
    let interval = found.interval.unwrap();
    for end in [interval.low, interval.high] {
        assert!((found.beside(end).unwrap() - 0.025).abs() < 1e-6, "{found:?}");
    }
    assert!((found.beside(10.0).unwrap() - 0.5).abs() < 1e-12);
    let five = paired(&pairs(&[&[0.1; 5]]), 0.95).unwrap();
    assert_eq!((five.beside(0.0), five.beside(0.2)), (Some(0.5_f64.powi(5)), Some(0.5_f64.powi(5))));
    assert_eq!((five.beside(0.1), level(&trials(&[&[1.0]]), 0.95).unwrap().beside(0.0)), (Some(1.0), None));
}

#[test]
fn rounds_are_asked_for_where_they_hold_the_spread() {
    let seed = |seed: u32, by: f64, noise: f64| Trial {
        cell: String::new(),
        seed,
        rounds: vec![by - noise, by + noise],
    };
    // Rounds apart by 0.4, seeds hardly: more rounds. The other way round: more seeds.
    let noisy: Vec<Trial> =
        [0.10, -0.08, 0.05, -0.06].iter().zip(0..).map(|(by, s)| seed(s, *by, 0.2)).collect();
    let noisy = level(&noisy, 0.95).unwrap();
    assert!(matches!(noisy.more(0.05, 0.05), Some(More::Rounds(rounds)) if rounds > 2), "{noisy:?}");
    let quiet: Vec<Trial> =
        [0.10, -0.08, 0.05, -0.06].iter().zip(0..).map(|(by, s)| seed(s, *by, 0.001)).collect();
    let quiet = level(&quiet, 0.95).unwrap();
    assert!(matches!(quiet.more(0.05, 0.05), Some(More::Seeds(_))), "{quiet:?}");
    assert!(noisy.components.unwrap().seed < quiet.components.unwrap().seed);
}
