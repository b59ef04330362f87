use super::*;
use crate::compare::gate::{Fired, Gate, Outcome, outcomes};
use crate::compare::{Comparison, Side, compare};
use crate::stats::Evidence;
use crate::stats::bootstrap::Bootstrap;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;
use statrs::distribution::{ContinuousCDF as _, Normal};

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
                    run: None,
                };
                trial.metrics.insert(format!("latency.m{metric}.mean_ns"), series);
            }
            side.trials.push(trial);
        }
    }
    side
}

fn run(a: &Side, b: &Side) -> Comparison {
    let bootstrap = Bootstrap { replicates: 400, ..Bootstrap::default() };
    compare(a, b, &Options { bootstrap, ..Options::default() }).unwrap()
}

fn called(comparison: &Comparison) -> usize {
    comparison.rows.iter().filter(|row| row.finding != Finding::NoEvidence).count()
}

#[test]
fn a_repeat_of_itself_shows_nothing() {
    let counts: Vec<usize> =
        (0..100).map(|round| called(&run(&side(2 * round, 3, 1.0), &side(2 * round + 1, 3, 1.0)))).collect();
    // 19 of 20 rows in nearly every repetition, and any row at all in about 5 % of them (binomial, 3 σ: 12).
    assert!(counts.iter().filter(|called| **called <= 1).count() >= 97, "{counts:?}");
    assert!(counts.iter().filter(|called| **called > 0).count() <= 12, "{counts:?}");
}

#[test]
fn ten_per_cent_are_found_and_fire_the_gate() {
    let comparison = run(&side(1, 5, 1.0), &side(2, 5, 1.1));
    assert!(comparison.rows.iter().all(|row| row.paired && row.n_a == 10));
    let worse = comparison.rows.iter().filter(|row| row.finding == Finding::Worse).count();
    assert!(worse >= 19, "{worse} of 20");
    assert!(comparison.rows[0].words.starts_with("slower by "), "{}", comparison.rows[0].words);
    let gates: Vec<Gate> = vec!["latency > 1.05".parse().unwrap(), "latency > 1.5".parse().unwrap()];
    let fired_rows: Vec<Fired> =
        outcomes(&gates, &comparison).unwrap().into_iter().flat_map(|gate| gate.fired).collect();
    assert!(fired_rows.len() >= 15 && fired_rows.iter().all(|fired| fired.gate == "latency > 1.05"));
    assert!(outcomes(&["grep > 1.1".parse().unwrap()], &comparison).is_err());
}

/// The values of each cell, by repeat.
fn values(cells: &[&[f64]]) -> Values {
    let cell = |(cell, values): (usize, &&[f64])| -> Values {
        let repeats = values.iter().zip(0_u32..);
        repeats.map(|(value, repeat)| ((cell.to_string(), repeat), *value)).collect()
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
        row(name, &series, a, b, &Options::default()).unwrap()
    };
    let mut rows: Vec<Row> = metrics.iter().map(one).collect();
    judge(&mut rows, 1, &Options::default());
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
    let (a, mut b) = (side(1, 5, 1.0), side(2, 5, 1.1));
    b.trials[3].metrics.remove("latency.m0.mean_ns");
    let whole = run(&a, &b).rows.iter().map(|row| row.n_a).collect::<Vec<_>>();
    assert_eq!((whole[0], whole[1]), (9, 10));
    let comparison = run(&a, &b);
    let row = &comparison.rows[0];
    assert!(row.paired && (row.n_a, row.n_b, row.left_out) == (9, 9, 1), "{row:?}");
    assert_eq!(row.finding, Finding::Worse);
    // The means are those of the pairs: the partner's value is not in them.
    let of_a = a.trials.iter().enumerate().filter(|(i, _)| *i != 3);
    let of_a: Vec<f64> = of_a.map(|(_, trial)| trial.metrics["latency.m0.mean_ns"].samples[0]).collect();
    assert!((row.mean_a - of_a.iter().sum::<f64>() / 9.0).abs() < 1e-6);
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
    assert!(comparison.rows.iter().all(|row| row.mann_whitney_p.is_some() && row.p.is_some()));
}

#[test]
fn without_pairs_the_difference_between_cells_is_no_noise() {
    let other = |seed, factor| {
        let mut side = side(seed, 5, factor);
        side.trials.iter_mut().for_each(|trial| trial.repeat += 100);
        side
    };
    // The cells lie 30 % apart: as noise that would hide 10 %.
    let slow = run(&side(1, 5, 1.0), &other(2, 1.1));
    assert!(slow.rows.iter().all(|row| !row.paired && row.left_out == 0 && row.n_a == 10));
    assert!(slow.rows.iter().filter(|row| row.finding == Finding::Worse).count() >= 19);
    let counts: Vec<usize> =
        (0..100).map(|round| called(&run(&side(2 * round, 3, 1.0), &other(2 * round + 1, 1.0)))).collect();
    assert!(counts.iter().filter(|called| **called > 0).count() <= 12, "{counts:?}");
}

#[test]
fn cells_are_weighed_within_themselves() {
    let test = |a: &[&[f64]], b: &[&[f64]]| {
        let sample = Sample::new(&values(a), &unpaired(values(b))).unwrap();
        sample.test(&Bootstrap::default()).unwrap()
    };
    // Four groups of variance 1 and three values: variance (4 / 3) / 2², freedom 8, t = 2.306004.
    let found = test(&[&[0.0, 1.0, 2.0], &[10.0, 11.0, 12.0]], &[&[3.0, 4.0, 5.0], &[13.0, 14.0, 15.0]]);
    assert!((found.estimate - 3.0).abs() < 1e-9 && (found.freedom - 8.0).abs() < 1e-9, "{found:?}");
    assert!((found.interval.high - 3.0 - 2.306_004 / 3.0_f64.sqrt()).abs() < 1e-5, "{found:?}");
    // A lone value: squares 6, freedom 3, variance 2 · (½ + 1 + ½ + ½) / 2² = 1.25, t = 3.182446.
    let found = test(&[&[0.0, 2.0], &[10.0, 12.0]], &[&[3.0], &[13.0, 15.0]]);
    assert!((found.freedom - 3.0).abs() < 1e-9, "{found:?}");
    assert!((found.interval.high - found.estimate - 3.182_446 * 1.25_f64.sqrt()).abs() < 1e-5, "{found:?}");
    // A cell that one side lacks is left out; a lone trial a cell and side tells nothing.
    let sample = Sample::new(&values(&[&[1.0, 2.0], &[9.0]]), &unpaired(values(&[&[1.5, 2.5]]))).unwrap();
    assert_eq!((sample.left_out, sample.n_a(), sample.n_b()), (1, 2, 2));
    let lone = Sample::new(&values(&[&[1.0], &[9.0]]), &unpaired(values(&[&[2.0], &[18.0]]))).unwrap();
    assert!(lone.test(&Bootstrap::default()).is_none());
}

#[test]
fn effects_and_flags_are_those_of_cells() {
    let sample = |a: &[&[f64]], b: &[&[f64]]| Sample::new(&values(a), &values(b)).unwrap();
    // B lies above A in both cells, which are far apart: pooled, delta would be 0.5.
    let apart = sample(&[&[1.0, 2.0], &[101.0, 102.0]], &[&[3.0, 4.0], &[103.0, 104.0]]);
    assert_eq!((apart.cliffs_delta(), apart.mann_whitney_p()), (Some(1.0), None));
    let against = sample(&[&[1.0, 2.0], &[103.0, 104.0]], &[&[3.0, 4.0], &[101.0, 102.0]]);
    assert_eq!(against.cliffs_delta(), Some(0.0));
    assert!(sample(&[&[1.0, 2.0]], &[&[3.0, 4.0]]).mann_whitney_p().is_some());
    // Two values of the second cell are no outliers of the first; one that strays within its cell is.
    let (near, far) = ([10.0, 11.0, 9.0, 10.5, 9.5], [1000.0, 1001.0]);
    let stray = [10.0, 11.0, 9.0, 10.5, 30.0];
    assert_eq!(sample(&[&near, &far], &[&near, &far]).outliers(), (0, 0));
    assert_eq!(sample(&[&near, &far], &[&stray, &far]).outliers(), (0, 1));
}

#[test]
fn gates_pass_over_improvements_unless_named_in_full() {
    let (low, high) = ([100.0, 101.0, 99.0, 100.5, 99.5], [200.0, 203.0, 197.0, 202.0, 198.0]);
    let (low, high) = (|| values(&[&low]), || values(&[&high]));
    let rows = judged(&[
        ("grep", "ns", Some(true), low(), low()),
        ("grep.calls", "count", None, low(), high()),
        ("grep.slow", "ns", Some(true), low(), high()),
        ("grep.throughput", "1/s", Some(false), low(), high()),
    ]);
    let fired = |gate: &str, rows: &[Row]| -> Vec<String> {
        outcome(gate, rows).fired.into_iter().map(|fired| fired.metric).collect()
    };
    assert_eq!(fired("grep > 1.10", &rows), Vec::<String>::new(), "the metric of that name did not change");
    assert_eq!(fired("gr* > 1.10", &rows), ["grep.calls", "grep.slow"]);
    assert_eq!(fired("grep > 1.10", &rows[1..]), ["grep.calls", "grep.slow"]);
    assert_eq!(fired("grep.throughput > 1.10", &rows), ["grep.throughput"]);
}

#[test]
fn gates_that_nothing_could_fire_say_so() {
    let rows = judged(&[
        ("m.lone", "ns", Some(true), values(&[&[100.0]]), values(&[&[200.0]])),
        ("m.rigid", "count", Some(true), values(&[&[3.0; 3]]), values(&[&[6.0; 3]])),
        ("m.same", "count", Some(true), values(&[&[3.0; 3]]), values(&[&[3.0; 3]])),
    ]);
    let lone = outcome("m.lone > 1.10", &rows);
    assert!(!lone.tested && lone.fired.is_empty());
    assert_eq!(lone.warnings(), ["gate `m.lone > 1.10` cannot be tested: one trial per side"]);
    let all = outcome("m > 1.10", &rows);
    assert!(all.tested && all.untestable.len() == 2, "{all:?}");
    assert_eq!(
        all.warnings(),
        [
            "gate `m > 1.10` cannot be tested on `m.rigid`: 3 pairs without spread cannot prove a difference",
            "gate `m > 1.10` cannot be tested on `m.lone`: one trial per side",
        ]
    );
    let enough = judged(&[("m", "count", Some(true), values(&[&[3.0; 6]]), values(&[&[6.0; 6]]))]);
    let enough = outcome("m > 1.10", &enough);
    assert!(enough.tested && enough.warnings().is_empty() && enough.fired.len() == 1);
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
    // 2 / C(6, 3) = 0.1 and 2 / C(8, 4) = 0.03; within two cells 2 / C(4, 2)² = 0.06 and 2 / C(6, 3)² =
    // 0.005.
    let sides = judged(&[metric(values(&[&[3.0; 3]]), unpaired(values(&[&[6.0; 3]])))]);
    assert_eq!(sides[0].words, "more by 100 % without any spread; 3 and 3 trials cannot prove it");
    assert_eq!(sides[0].more_repeats, Some(1));
    let cells: (&[&[f64]], &[&[f64]]) = (&[&[3.0; 2], &[5.0; 2]], &[&[6.0; 2], &[10.0; 2]]);
    let cells = judged(&[metric(values(cells.0), unpaired(values(cells.1)))]);
    assert_eq!(cells[0].more_repeats, Some(1), "{:?}", cells[0]);
    assert!((cells[0].p.unwrap() - 2.0 / 36.0).abs() < 1e-9);
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
    let comparison = run(&side(8, 1, 1.0), &side(9, 1, 1.03));
    assert!(comparison.rows.iter().any(|row| row.more_repeats.is_some_and(|more| more > 0)));
}

#[test]
fn words_follow_unit_and_direction() {
    let say = |unit: &str, worse: Option<bool>, a: &[f64], b: &[f64]| {
        let series = Series { unit: unit.to_owned(), larger_is_worse: worse, ..Series::default() };
        let mut rows = [row("m", &series, &values(&[a]), &values(&[b]), &Options::default()).unwrap()];
        judge(&mut rows, 1, &Options::default());
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
    assert!(say("count", Some(true), &[3.0; 7], &[4.0; 7]).starts_with("more by 33 % [33, 33]"));
    assert!(
        say("count", Some(true), &[3.0; 3], &[4.0; 3]).starts_with("more by 33 % in every pair; 3 pairs")
    );
    assert_eq!(
        say("ns", Some(true), &[1.0], &[2.0]),
        "no evidence of a difference (one trial has no spread)"
    );
    assert!(say("ns", Some(true), &low, &[100.2, 99.6, 101.0, 99.0, 100.0]).contains("(±"));
    // What can be 0 or below is compared by difference, in its own unit.
    let around = [-2_000.0, 0.0, 3_000.0, -1_000.0, 500.0];
    let none = say("ns", None, &around, &[2_500.0, -1_500.0, 0.0, 1_000.0, -800.0]);
    assert!(none.starts_with("no evidence of a difference (±") && none.ends_with(" µs)"), "{none}");
    let far: Vec<f64> = around.iter().rev().map(|value| value + 1e6).collect();
    let longer = say("ns", None, &around, &far);
    assert!(longer.starts_with("longer by 1.00 ms [") && longer.ends_with(" ms]"), "{longer}");
    let shorter = say("ns", None, &far, &around);
    assert!(shorter.starts_with("shorter by 1.00 ms [") && !shorter.contains('-'), "{shorter}");
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
