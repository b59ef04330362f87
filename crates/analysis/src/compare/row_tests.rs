use super::*;
use crate::compare::gate::{Gate, Outcome, outcomes};
use crate::compare::{Comparison, Side, compare};
use crate::stats::Evidence;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;
use statrs::distribution::{ContinuousCDF as _, Normal};

#[path = "gate_tests.rs"]
mod gates;

const METRICS: usize = 20;

/// A side of `repeats` trials of two file systems with 20 latencies each, log-normal with 4 % of spread,
/// `factor` times as slow.
fn side(seed: u64, repeats: u32, factor: f64) -> Side {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let normal = Normal::new(0.0, 0.04).unwrap();
    let mut side = Side { label: format!("seed {seed}"), ..Side::default() };
    for (kind, base) in [("ext4", 10_000.0), ("xfs", 13_000.0)] {
        for repeat in 0..repeats {
            let mut trial = Evidence {
                factors: [("file_system.kind".to_owned(), json!(kind))].into(),
                repeat,
                ..Evidence::default()
            };
            for metric in 0..METRICS {
                let unit = fsage_model::quantity::as_f64(random.next_u64() >> 11) / 9_007_199_254_740_992.0;
                let noise = normal.inverse_cdf(unit.clamp(1e-12, 1.0 - 1e-12)).exp();
                let series = Series {
                    unit: "ns".to_owned(),
                    larger_is_worse: Some(true),
                    samples: vec![base * factor * noise],
                    blocks: Vec::new(),
                    ..Series::default()
                };
                trial.metrics.insert(format!("latency.m{metric}.mean_ns"), series);
            }
            side.trials.push(trial);
        }
    }
    side
}

fn run(a: &Side, b: &Side) -> Comparison {
    compare(a, b, &Options::default()).unwrap()
}

fn called(comparison: &Comparison) -> usize {
    comparison.rows.iter().filter(|row| row.finding != Finding::NoEvidence).count()
}

#[test]
fn a_repeat_of_itself_shows_nothing() {
    let counts: Vec<usize> =
        (0..100).map(|round| called(&run(&side(2 * round, 3, 1.0), &side(2 * round + 1, 3, 1.0)))).collect();
    // 39 of 40 rows in nearly every repetition, and any row at all in about 5 % of them (binomial, 3 σ: 12).
    assert!(counts.iter().filter(|called| **called <= 1).count() >= 97, "{counts:?}");
    assert!(counts.iter().filter(|called| **called > 0).count() <= 12, "{counts:?}");
}

#[test]
fn four_hundred_rows_of_nothing_are_few_before_correction_and_none_after() {
    let mut rows = Vec::new();
    for round in 0..10 {
        rows.extend(run(&side(900 + 2 * round, 4, 1.0), &side(901 + 2 * round, 4, 1.0)).rows);
    }
    judge(&mut rows, &Options::default());
    assert_eq!(rows.len(), 400);
    let before = rows.iter().filter(|row| row.excludes_none()).count();
    assert!(before <= 20, "{before} of 400 intervals exclude that nothing differs");
    assert!(rows.iter().all(|row| row.finding == Finding::NoEvidence));
    let open = rows.iter().filter(|row| row.words.ends_with("not significant after correction")).count();
    assert_eq!(open, before);
}

#[test]
fn unequal_work_is_refused_and_its_gate_cannot_tell() {
    use fsage_model::measure::Work;
    let of = |seed: u64, gib: u64| {
        let mut side = side(seed, 4, 1.0);
        for series in side.trials.iter_mut().flat_map(|trial| trial.metrics.values_mut()) {
            series.work = Some(Work { bytes: gib << 30, files: 1, operations: gib });
        }
        side
    };
    let same = run(&of(1, 4), &of(2, 4));
    assert!(same.rows.iter().all(|row| row.estimate.is_some()));
    let gate: Vec<Gate> = vec!["latency.m1 > 1.5".parse().unwrap()];
    assert!(outcomes(&gate, &same).unwrap()[0].tested);
    let less = run(&of(1, 4), &of(2, 1));
    for row in &less.rows {
        assert_eq!((row.finding, row.estimate, row.p), (Finding::NotComparable, None, None));
        assert_eq!(row.words, "not comparable: different work: 4 GiB against 1 GiB");
    }
    let outcome = &outcomes(&gate, &less).unwrap()[0];
    assert!(!outcome.tested && outcome.fired.is_empty());
    assert!(
        outcome.warnings()[0].ends_with("different work: 4 GiB against 1 GiB"),
        "{:?}",
        outcome.warnings()
    );
    // Stores of which no trial has a partner are compared by what they did in all.
    let mut other = of(2, 1);
    other.trials.iter_mut().for_each(|trial| trial.repeat += 100);
    assert_eq!(run(&of(1, 4), &other).rows[0].finding, Finding::NotComparable);
}

#[test]
fn rows_say_whether_both_sides_measured_the_same_tree() {
    let of = |seed: u64, digest: fn(u32) -> Option<&'static str>| {
        let mut side = side(seed, 3, 1.0);
        for trial in &mut side.trials {
            trial.tree = digest(trial.repeat).map(str::to_owned);
        }
        side
    };
    let own: fn(u32) -> Option<&'static str> =
        |repeat| Some(["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"][repeat as usize]);
    let same = run(&of(1, own), &of(2, own));
    assert_eq!(same.rows[0].trees.words(), "same (aaaaaaaa)");
    assert_eq!(same.notes, [""; 0]);
    let other = run(&of(1, own), &of(2, |_| Some("aaaaaaaaaa")));
    assert_eq!(other.rows[0].trees.words(), "different in 2 of 3: bbbbbbbb against aaaaaaaa");
    assert!(other.rows[0].remarks().ends_with("bbbbbbbb against aaaaaaaa"), "{}", other.rows[0].remarks());
    assert!(other.notes[0].starts_with("different trees on the sides"), "{:?}", other.notes);
    assert_eq!(run(&of(1, own), &of(2, |_| None)).rows[0].trees, Trees::Unknown);
    // Trials without a partner say nothing of trees.
    let mut later = of(2, |_| Some("zzzzzzzzzz"));
    later.trials.iter_mut().for_each(|trial| trial.repeat += 100);
    assert_eq!(run(&of(1, own), &later).rows[0].trees, Trees::Unknown);
}

#[test]
fn sides_that_ran_elsewhere_are_told_of() {
    let on = |seed: u64, kernel: &str, tools: &str| {
        let one = |value: &str| [value.to_owned()].into();
        let ran = [("kernel".to_owned(), one(kernel)), ("mkfs.xfs".to_owned(), one(tools))].into();
        Side { ran, ..side(seed, 3, 1.0) }
    };
    assert_eq!(run(&on(1, "6.1", "6.2"), &on(2, "6.1", "6.2")).notes, [""; 0]);
    let notes = run(&on(1, "6.1", "6.2"), &on(2, "6.8", "6.2")).notes;
    assert_eq!(notes, ["the sides differ in kernel: 6.1 against 6.8"]);
    // What one side does not say is not held against it.
    assert_eq!(run(&side(1, 3, 1.0), &on(2, "6.8", "6.2")).notes, [""; 0]);
}

#[test]
fn file_systems_have_rows_of_their_own() {
    let comparison = run(&side(1, 3, 1.0), &side(2, 3, 1.1));
    assert_eq!(comparison.rows.len(), 2 * METRICS);
    let contexts: Vec<&str> = comparison.rows[..2].iter().map(|row| row.context.as_str()).collect();
    assert_eq!(contexts, ["ext4", "xfs"]);
    assert!(comparison.rows.iter().all(|row| (row.n_a, row.units) == (3, 3)));
}

/// The values of each cell, by repeat.
fn values(cells: &[&[f64]]) -> Values {
    let cell = |(cell, values): (usize, &&[f64])| -> Values {
        let repeats = values.iter().zip(0_u32..);
        repeats.map(|(value, repeat)| ((cell.to_string(), repeat), vec![*value])).collect()
    };
    cells.iter().enumerate().flat_map(cell).collect()
}

/// The same with other repeats, so that nothing has a partner.
fn unpaired(values: Values) -> Values {
    values.into_iter().map(|((cell, repeat), value)| ((cell, repeat + 100), value)).collect()
}

/// Rows of metrics given as name, unit, direction and values.
fn judged(metrics: &[(&str, &str, Option<bool>, Values, Values)]) -> Vec<Row> {
    let one = |(name, unit, worse, a, b): &(&str, &str, Option<bool>, Values, Values)| {
        let series = Series { unit: (*unit).to_owned(), larger_is_worse: *worse, ..Series::default() };
        row((name, ""), &series, a, b, 0.0, &Options::default()).unwrap()
    };
    let mut rows: Vec<Row> = metrics.iter().map(one).collect();
    judge(&mut rows, &Options::default());
    rows
}

fn outcome(gate: &str, rows: &[Row]) -> Outcome {
    let side = || crate::compare::SideFacts { selection: String::new(), trials: 1, warnings: [].into() };
    let comparison = Comparison {
        version: crate::compare::COMPARE_VERSION,
        a: side(),
        b: side(),
        confidence: 0.95,
        rows: rows.to_vec(),
        notes: Vec::new(),
    };
    outcomes(&[gate.parse().unwrap()], &comparison).unwrap().swap_remove(0)
}

#[test]
fn what_a_side_lacks_costs_only_its_partner() {
    let (a, mut b) = (side(1, 8, 1.0), side(2, 8, 1.2));
    b.trials[3].metrics.remove("latency.m0.mean_ns");
    let comparison = run(&a, &b);
    let row = &comparison.rows[0];
    assert_eq!((comparison.rows[1].n_a, row.context.as_str()), (8, "ext4"));
    assert!(row.paired && (row.n_a, row.n_b, row.left_out) == (7, 7, 1), "{row:?}");
    assert_eq!(row.finding, Finding::Worse);
    // The means are those of the pairs: the partner's value is not in them.
    let of_a = a.trials[..8].iter().enumerate().filter(|(i, _)| *i != 3);
    let of_a: Vec<f64> = of_a.map(|(_, trial)| trial.metrics["latency.m0.mean_ns"].samples[0]).collect();
    assert!((row.mean_a - of_a.iter().sum::<f64>() / 7.0).abs() < 1e-6);
    let note = "unpaired, left out: 1 value of `latency.m0.mean_ns`";
    assert_eq!(comparison.notes, [note]);
}

#[test]
fn other_numbers_of_repeats_are_paired_where_they_can_be() {
    let (mut a, mut b) = (side(3, 6, 1.0), side(4, 4, 1.0));
    for side in [&mut a, &mut b] {
        side.trials.retain(|trial| trial.factors["file_system.kind"] == "xfs");
    }
    b.trials.push(side(5, 1, 1.0).trials.swap_remove(0));
    let comparison = run(&a, &b);
    let right = |row: &Row| row.paired && (row.n_a, row.n_b, row.left_out) == (4, 4, 2);
    assert!(comparison.rows.iter().all(right), "{:?}", comparison.rows[0]);
    let says = |text: &str| comparison.notes.iter().any(|note| note.contains(text));
    assert!(
        says("1 trials of `seed 4`") && says("2 values of `latency.m0.mean_ns`, "),
        "{:?}",
        comparison.notes
    );
    assert!(says("and 17 more"), "{:?}", comparison.notes);
    assert!(comparison.rows.iter().all(|row| row.p.is_some() && row.method == "Student's t of pairs"));
}

/// The same trials as other repeats, in cells that are no file systems.
fn of_cells(mut side: Side, later: u32) -> Side {
    for trial in &mut side.trials {
        let kind = trial.factors.remove("file_system.kind").unwrap();
        trial.factors.insert("stage.age.use".to_owned(), kind);
        trial.repeat += later;
    }
    side
}

#[test]
fn without_pairs_the_difference_between_cells_is_no_noise() {
    // The cells lie 30 % apart: as noise that would hide 10 %.
    let slow = run(&of_cells(side(1, 6, 1.0), 0), &of_cells(side(2, 6, 1.1), 100));
    assert!(slow.rows.iter().all(|row| !row.paired && row.left_out == 0 && row.n_a == 12));
    assert!(slow.rows.iter().all(|row| row.units == 6 && row.method == "Welch's t"));
    assert!(slow.rows.iter().filter(|row| row.finding == Finding::Worse).count() >= 19);
    let same =
        |round: u64| run(&of_cells(side(2 * round, 3, 1.0), 0), &of_cells(side(2 * round + 1, 3, 1.0), 100));
    let counts: Vec<usize> = (0..100).map(|round| called(&same(round))).collect();
    assert!(counts.iter().filter(|called| **called > 0).count() <= 12, "{counts:?}");
}

#[test]
fn what_has_no_counterpart_is_left_out() {
    // A cell that one side lacks is left out; a lone trial per cell and side tells nothing.
    let sample = Sample::new(&values(&[&[1.0, 2.0], &[9.0]]), &unpaired(values(&[&[1.5, 2.5]]))).unwrap();
    assert_eq!((sample.left_out, sample.n_a(), sample.n_b()), (1, 2, 2));
    let lone = Sample::new(&values(&[&[1.0], &[9.0]]), &unpaired(values(&[&[2.0], &[18.0]]))).unwrap();
    assert_eq!(lone.estimate(Scale::Ratio, 0.95).unwrap().interval, None);
}

#[test]
fn rounds_of_a_trial_are_no_repeats() {
    let rounds = |by: f64| -> Values {
        let trial = |(repeat, base): (u32, f64)| {
            let rounds = (0..50).map(|round| by * (base + f64::from(round % 2))).collect();
            ((String::new(), repeat), rounds)
        };
        (0..3).zip([100.0, 110.0, 104.0]).map(trial).collect()
    };
    let rows = judged(&[("m", "ns", Some(true), rounds(1.0), rounds(1.1))]);
    assert_eq!((rows[0].n_a, rows[0].units), (3, 3));
    let noisy = judged(&[("m", "ns", Some(true), rounds(1.0), unpaired(rounds(1.1)))]);
    assert_eq!((noisy[0].units, noisy[0].finding), (3, Finding::NoEvidence), "{:?}", noisy[0]);
}

#[test]
fn effects_and_flags_are_those_of_cells() {
    let sample = |a: &[&[f64]], b: &[&[f64]]| Sample::new(&values(a), &values(b)).unwrap();
    // B lies above A in both cells, which are far apart: pooled, delta would be 0.5.
    let apart = sample(&[&[1.0, 2.0], &[101.0, 102.0]], &[&[3.0, 4.0], &[103.0, 104.0]]);
    assert_eq!(apart.cliffs_delta(), Some(1.0));
    let against = sample(&[&[1.0, 2.0], &[103.0, 104.0]], &[&[3.0, 4.0], &[101.0, 102.0]]);
    assert_eq!(against.cliffs_delta(), Some(0.0));
    // Two values of the second cell are no outliers of the first; one that strays within its cell is.
    let (near, far) = ([10.0, 11.0, 9.0, 10.5, 9.5], [1000.0, 1001.0]);
    let stray = [10.0, 11.0, 9.0, 10.5, 30.0];
    assert_eq!(sample(&[&near, &far], &[&near, &far]).outliers(), (0, 0));
    assert_eq!(sample(&[&near, &far], &[&stray, &far]).outliers(), (0, 1));
    assert_eq!(sample(&[&[10.0, 10.1, 10.2]], &[&[10.0, 10.1, 30.0]]).outliers(), (0, 1));
}

#[test]
fn values_without_spread_say_what_was_seen_and_what_is_needed() {
    let metric = |a: Values, b: Values| ("m", "count", Some(true), a, b);
    let three = || metric(values(&[&[3.0; 3]]), values(&[&[6.0; 3]]));
    let rows = judged(&[three()]);
    assert_eq!(rows[0].words, "more by 100 % in every pair; 3 pairs cannot prove it");
    // 2 · 0.5⁶ = 0.03 is the first below 0.05.
    assert_eq!((rows[0].p, rows[0].more_repeats), (Some(0.25), Some(3)));
    let six = || metric(values(&[&[3.0; 6]]), values(&[&[6.0; 6]]));
    assert_eq!(judged(&[six()])[0].finding, Finding::Worse);
    let noise = || metric(values(&[&[1.0, 2.0, 3.0]]), values(&[&[2.0, 3.0, 1.0]]));
    let rows = judged(&[six(), noise(), noise()]);
    assert!(rows[0].words.ends_with("6 pairs cannot prove it among so many rows"), "{}", rows[0].words);
    // 0.05 / 3 rows: 2 · 0.5⁷ = 0.0156.
    assert_eq!(rows[0].more_repeats, Some(1));
    // 2 / C(6, 3) = 0.1 and 2 / C(8, 4) = 0.03; cells of the same repeats add nothing to that.
    let sides = judged(&[metric(values(&[&[3.0; 3]]), unpaired(values(&[&[6.0; 3]])))]);
    assert_eq!(sides[0].words, "more by 100 % without any spread; 3 and 3 trials cannot prove it");
    assert_eq!(sides[0].more_repeats, Some(1));
    let cells: (&[&[f64]], &[&[f64]]) = (&[&[3.0; 2], &[5.0; 2]], &[&[6.0; 2], &[10.0; 2]]);
    let cells = judged(&[metric(values(cells.0), unpaired(values(cells.1)))]);
    assert_eq!(cells[0].more_repeats, Some(2), "{:?}", cells[0]);
    assert!((cells[0].p.unwrap() - 2.0 / 6.0).abs() < 1e-9);
}

#[test]
fn one_trial_says_so_and_few_ask_for_more() {
    let one = |seed| {
        let mut side = side(seed, 1, 1.0);
        side.trials.truncate(1);
        side
    };
    let comparison = run(&one(1), &one(2));
    assert!(comparison.rows.iter().all(|row| row.p.is_none() && row.words.contains("one trial")));
    assert!(comparison.rows.iter().all(|row| row.words.contains("er by ")), "{}", comparison.rows[0].words);
    let comparison = run(&side(8, 3, 1.0), &side(9, 3, 1.03));
    let open: Vec<&Row> = comparison.rows.iter().filter(|row| row.more_repeats.is_some()).collect();
    assert!(open.len() > METRICS, "{} rows ask for more", open.len());
    for row in open {
        assert!(row.more_repeats_at_most.is_none_or(|most| Some(most) >= row.more_repeats), "{row:?}");
        let remarks = row.remarks();
        assert!(remarks.starts_with("estimate: ") && remarks.contains("would show "), "{remarks}");
    }
}

#[test]
fn words_follow_unit_and_direction() {
    let say = |unit: &str, worse: Option<bool>, a: &[f64], b: &[f64]| {
        let series = Series { unit: unit.to_owned(), larger_is_worse: worse, ..Series::default() };
        let mut rows =
            [row(("m", ""), &series, &values(&[a]), &values(&[b]), 0.0, &Options::default()).unwrap()];
        judge(&mut rows, &Options::default());
        rows[0].words.clone()
    };
    let (low, high) = ([100.0, 101.0, 99.0, 100.5, 99.5], [200.0, 203.0, 197.0, 202.0, 198.0]);
    assert!(say("ns", Some(true), &low, &high).starts_with("slower by 100 % [9"));
    assert!(say("ns", Some(true), &high, &low).starts_with("faster by 50 % ["));
    assert!(say("1/s", Some(false), &high, &low).starts_with("slower by 50 %"));
    assert!(say("model ns", Some(true), &low, &high).starts_with("slower by 100 % [9"));
    assert!(say("1/model s", Some(false), &high, &low).starts_with("slower by 50 %"));
    assert!(say("s", None, &low, &high).starts_with("longer by"));
    assert!(say("bytes", Some(true), &low, &high).starts_with("more by 100 %"));
    let (few, many) = ([0.10, 0.11, 0.09, 0.10, 0.105], [0.30, 0.31, 0.29, 0.302, 0.31]);
    assert!(
        say("share", Some(true), &few, &many).starts_with("more by 20 points ["),
        "{}",
        say("share", Some(true), &few, &many)
    );
    assert_eq!(say("count", None, &[3.0; 4], &[3.0; 4]), "the same in every trial");
    assert!(say("count", Some(true), &[3.0; 7], &[4.0; 7]).starts_with("more by 33 % in every trial"));
    assert!(
        say("count", Some(true), &[3.0; 3], &[4.0; 3]).starts_with("more by 33 % in every pair; 3 pairs")
    );
    assert_eq!(
        say("ns", Some(true), &[1.0], &[2.0]),
        "no evidence of a difference: slower by 100 % (one trial has no spread)"
    );
    let none = say("ns", Some(true), &low, &[100.2, 99.6, 101.0, 99.0, 100.0]);
    assert!(none.starts_with("no evidence of a difference: ") && none.contains(" % [-"), "{none}");
    assert_eq!(say("ns", Some(true), &[0.0; 5], &low), "no ratio: A is 0 in every trial");
    assert_eq!(say("ns", Some(true), &[0.0; 5], &[0.0; 5]), "the same in every trial");
}

#[test]
fn counts_of_what_need_not_happen_are_compared_by_difference() {
    let of = |name: &'static str, a: &[f64], b: &[f64]| {
        judged(&[(name, "count", Some(true), values(&[a]), values(&[b]))]).remove(0)
    };
    let (few, many) = ([0.0, 3.0, 1.0, 2.0, 0.0], [1_000.0, 1_003.0, 1_002.0, 1_001.0, 1_004.0]);
    let found = of("layout.small_extents", &few, &many);
    assert!(found.scale == Scale::Difference && found.zeros == 0 && found.finding == Finding::Worse);
    assert!(
        found.words.starts_with("more by 1,001 [") || found.words.starts_with("more by 1001 ["),
        "{found:?}"
    );
    // So they are without a 0 too.
    assert_eq!(of("layout.small_extents", &many, &many).scale, Scale::Difference);
}

#[test]
fn a_zero_is_left_out_and_said_and_changes_no_scale() {
    let a = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0];
    let b = [0.0, 203.0, 197.0, 202.0, 198.0, 200.0];
    let of = |b: Values| judged(&[("grep", "ns", Some(true), values(&[&a]), b)]).remove(0);
    for row in [of(values(&[&b])), of(unpaired(values(&[&b])))] {
        assert_eq!((row.scale, row.zeros, row.n_b), (Scale::Ratio, 1, 5), "{row:?}");
        assert!((row.estimate.unwrap() - 2.0).abs() < 0.02 && row.words.starts_with("slower by "), "{row:?}");
        assert!(row.remarks().contains("1 trial with value 0 left out"), "{}", row.remarks());
        let gate = outcome("grep > 1.10", &[row]);
        assert!(gate.fired.is_empty() && !gate.tested && gate.family == 0);
        assert_eq!(
            gate.warnings(),
            ["gate `grep > 1.10` is inconclusive: 1 trial with value 0 left out (no ratio)"]
        );
    }
    let none = of(values(&[&[0.0; 6]]));
    assert_eq!((none.estimate, none.finding, none.zeros), (None, Finding::NoEvidence, 6));
    assert!(!outcome("grep > 1.10", &[none]).tested);
}

#[test]
fn two_pairs_do_not_throw_sixteen_trials_away() {
    let side = |from: u32, by: f64| -> Values {
        let value = |repeat: u32| by * (100.0 + f64::from(repeat * 7 % 5));
        (from..from + 10).map(|repeat| ((String::new(), repeat), vec![value(repeat)])).collect()
    };
    // Repeats 0 to 9 against 8 to 17: with the two pairs alone there was one degree of freedom.
    let few = judged(&[("m", "ns", Some(true), side(0, 1.0), side(8, 1.1))]).remove(0);
    assert_eq!((few.paired, few.n_a, few.n_b, few.left_out, few.units), (false, 10, 10, 0, 10));
    assert!(few.method == "Welch's t" && few.finding == Finding::Worse, "{few:?}");
    // Half of the side that has fewer are enough.
    let half = judged(&[("m", "ns", Some(true), side(0, 1.0), side(5, 1.1))]).remove(0);
    assert_eq!((half.paired, half.n_a, half.left_out), (true, 5, 10));
}

/// Three repeats, each kept in an image of the store `of` and restored for `cells` values of a factor behind
/// it: a latency of before, and one of after it.
fn restored(of: &str, slower: f64, cells: u32) -> Side {
    let mut side = Side { label: of.to_owned(), ..Side::default() };
    for cell in 0..cells {
        for (repeat, value) in (0..).zip([100.0, 101.0, 103.0]) {
            let series = |value: f64, run: Option<String>| Series {
                unit: "ns".to_owned(),
                larger_is_worse: Some(true),
                samples: vec![value * slower],
                run,
                ..Series::default()
            };
            let own = value + f64::from(cell) * 7.0 + f64::from(repeat * 3 % 2);
            side.trials.push(Evidence {
                factors: [("stage.measure.reads".to_owned(), json!(cell))].into(),
                repeat,
                metrics: [
                    ("latency.create.mean_ns".to_owned(), series(value, Some(format!("{of}-{repeat}")))),
                    ("grep".to_owned(), series(own, None)),
                ]
                .into(),
                ..Evidence::default()
            });
        }
    }
    side
}

#[test]
fn an_ageing_run_behind_many_cells_is_one_sample() {
    let row = |comparison: &Comparison, metric: &str| {
        comparison.rows.iter().find(|row| row.metric == metric).unwrap().clone()
    };
    let (alone, many) = (
        run(&restored("a", 1.0, 1), &restored("b", 1.02, 1)),
        run(&restored("a", 1.0, 4), &restored("b", 1.02, 4)),
    );
    let (alone, ageing) = (row(&alone, "latency.create.mean_ns"), row(&many, "latency.create.mean_ns"));
    assert_eq!((ageing.n_a, ageing.n_b, ageing.paired, ageing.left_out), (3, 3, true, 0));
    assert_eq!(
        (ageing.estimate, ageing.low, ageing.high, ageing.p),
        (alone.estimate, alone.low, alone.high, alone.p)
    );
    assert_eq!(row(&many, "grep").n_a, 12);
}

#[test]
fn a_run_is_not_compared_with_itself() {
    // A copy of the store: the same images, measured again.
    let comparison = run(&restored("a", 1.0, 2), &restored("a", 1.0, 2));
    let names: Vec<&str> = comparison.rows.iter().map(|row| row.metric.as_str()).collect();
    assert_eq!(names, ["grep"]);
    let note = "from the same run on both sides, and not compared: `latency.create.mean_ns`";
    assert!(comparison.notes.iter().any(|text| text == note), "{:?}", comparison.notes);
}
