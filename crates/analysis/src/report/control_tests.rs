//! Controls with made-up numbers: clearly no measurements.

use serde_json::json;

use super::*;
use crate::stats::evidence::Series;

/// Splitmix64 with twelve draws added: nearly normal, mean 0, deviation 1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            sum += fsage_model::quantity::as_f64((z ^ (z >> 31)) >> 11) / 9_007_199_254_740_992.0;
        }
        sum
    }
}

/// Trials of one file system, and of a control of it, whose measure takes `factor` times as long.
fn study(
    control: &str,
    metrics: &[&str],
    repeats: u32,
    noise: f64,
    factor: f64,
) -> (Vec<Evidence>, Vec<Evidence>) {
    let mut random = Noise(7);
    let (mut trials, mut controls) = (Vec::new(), Vec::new());
    for repeat in 0..repeats {
        let mut one = |factor: f64| {
            let series = |value: f64| Series {
                unit: "model s".to_owned(),
                larger_is_worse: Some(true),
                samples: vec![value],
                ..Series::default()
            };
            let value = |random: &mut Noise| 10.0 * factor * (noise * random.next()).exp();
            Evidence {
                factors: BTreeMap::from([("file_system.kind".to_owned(), json!("ext4"))]),
                spec: json!({"control": {"kind": "slow", "factor": 1.25}}),
                repeat,
                metrics: metrics
                    .iter()
                    .map(|name| ((*name).to_owned(), series(value(&mut random))))
                    .collect(),
                ..Evidence::default()
            }
        };
        trials.push(one(1.0));
        let mut own = one(factor);
        own.factors.insert(CONTROL.to_owned(), json!(control));
        controls.push(own);
    }
    (trials, controls)
}

#[test]
fn one_state_measured_twice_gives_few_alarms_and_none_after_correction() {
    // Without a measure nothing is reported, however many other numbers agree.
    let names: Vec<String> = (0..400).map(|n| format!("grep.n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (trials, controls) = study("same", &names, 5, 0.03, 1.0);
    let rows = rows(&controls, &trials, 0.95);
    let found = summary(&rows).unwrap();
    assert_eq!((found.same, found.slow.measures, found.alarms_corrected, found.measures), (400, 0, 0, 0));
    assert_eq!(found.verdict, "inconclusive");
    // 20 are expected; 8 and 36 are less likely than one in a thousand.
    assert!((8..=36).contains(&found.alarms), "{}", found.alarms);
    let line = found.line();
    assert_eq!(
        line,
        format!(
            "Controls inconclusive: of 400 numbers of one state measured twice {} differ before correction and 0 after, \
             and none of them is a measure's.",
            found.alarms
        )
    );
}

#[test]
fn a_state_that_differs_from_itself_fails_and_binds_the_claims() {
    let (trials, controls) = study("same", &["grep", "walk"], 5, 0.01, 1.3);
    let rows = rows(&controls, &trials, 0.95);
    let found = summary(&rows).unwrap();
    assert_eq!((found.verdict, found.alarms_corrected), ("failed", 2));
    assert!(rows.iter().all(|row| row.words() == "false alarm" && !row.passes()));
    let judged = |verdict| Judgement {
        verdict,
        measured: None,
        quantity: String::new(),
        unit: String::new(),
        condition: String::new(),
        fragile: None,
        each: Vec::new(),
    };
    let before = ClaimVerdict::NotComparable { reason: "no trial is complete".to_owned() };
    let mut judgements = [judged(ClaimVerdict::Holds), judged(before.clone())];
    bind(&mut judgements, Some(&found));
    assert!(judgements[0].verdict.reason().unwrap().starts_with("controls failed: of 2 numbers"));
    assert_eq!(judgements[1].verdict, before, "what was not judged keeps its own reason");
    let mut judgements = [judged(ClaimVerdict::Holds)];
    bind(&mut judgements, Some(&Summary { verdict: "passed", ..found }));
    bind(&mut judgements, None);
    assert_eq!(judgements[0].verdict, ClaimVerdict::Holds);
}

#[test]
fn a_known_slowdown_is_found_with_its_size() {
    let of = |repeats, noise, factor| {
        let (trials, controls) =
            study("slow", &["grep", "walk", "grep.read_requests"], repeats, noise, factor);
        rows(&controls, &trials, 0.95)
    };
    let right = of(3, 0.005, 1.25);
    let found = summary(&right).unwrap();
    let slow = &found.slow;
    // Numbers beside the headline are no times of their own.
    assert_eq!((found.verdict, slow.measures, slow.found, slow.sized), ("passed", 2, 2, 2));
    assert!(
        found.line().contains("the known slowdown of ×1.25 was found in 2 of 2 measures and measured as")
    );
    // Without any spread three repeats prove nothing by their signs, and need not.
    let exact = of(3, 0.0, 1.25);
    assert_eq!((exact[0].estimate.interval, exact[0].words().as_str()), (None, "found"));
    // Not there; there, and twice as large; too few repeats to say.
    let missed = of(3, 0.005, 1.0);
    assert_eq!((summary(&missed).unwrap().verdict, missed[0].words().as_str()), ("failed", "not found"));
    let large = of(3, 0.005, 2.5);
    assert_eq!(
        (summary(&large).unwrap().verdict, large[0].words().as_str()),
        ("failed", "found, with the wrong size")
    );
    // Noise in which it cannot be seen is no failure of what measures, and no success; it is said.
    let noisy = of(3, 0.4, 1.25);
    let found = summary(&noisy).unwrap();
    assert_eq!((found.verdict, noisy[0].words().as_str()), ("inconclusive", "too noisy to be found"));
    assert!(found.line().contains("was found in 0 of 2 measures"), "{}", found.line());
    let few = of(2, 0.005, 1.25);
    assert_eq!(
        (summary(&few).unwrap().verdict, few[0].words().as_str()),
        ("inconclusive", "too few repeats")
    );
    assert!(summary(&few).unwrap().line().contains("3 repeats"));
}

#[test]
fn the_disks_own_counter_says_how_large_the_slowdown_is() {
    let (trials, mut controls) = study("slow", &["grep", "walk"], 3, 0.005, 1.6);
    for control in &mut controls {
        let mut number = |name: &str, value: f64| {
            let series = Series { unit: "model ns".to_owned(), samples: vec![value], ..Series::default() };
            control.metrics.insert(name.to_owned(), series);
        };
        number("grep.model_time", 16e9);
        number("grep.disk_fault_slow_ns", 6e9);
        // It asked the disk for nothing: no slowdown to be found.
        number("walk.model_time", 1e9);
    }
    let rows = rows(&controls, &trials, 0.95);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!((rows[0].real - 1.6).abs() < 1e-12 && rows[0].passes());
}

#[test]
fn controls_of_other_cells_and_repeats_are_no_partners() {
    let (mut trials, controls) = study("same", &["grep"], 3, 0.01, 1.0);
    trials[0].repeat = 9;
    trials[1].factors.insert("use".to_owned(), json!(0.9));
    let rows = rows(&controls, &trials, 0.95);
    assert_eq!((rows.len(), rows[0].estimate.n, rows[0].is_told()), (1, 1, false));
    assert!(super::rows(&controls, &[], 0.95).is_empty() && summary(&[]).is_none());
}

#[test]
fn an_a_a_pair_is_equal_only_within_its_margin() {
    let of = |repeats, noise, factor, margin: Option<f64>| {
        let (trials, mut controls) =
            study("same", &["grep", "grep.read_request_bytes"], repeats, noise, factor);
        for control in &mut controls {
            control.spec = json!({"controls": margin.map(|margin| json!({"margin": margin}))});
        }
        rows(&controls, &trials, 0.95)
    };
    // Little noise: equal within the margin of the study, or the default one, and the row says within how much.
    let quiet = of(5, 0.005, 1.0, None);
    let found = summary(&quiet).unwrap();
    assert_eq!((found.verdict, found.measures, found.equal, found.identical), ("passed", 1, 1, 0));
    assert!(found.line().contains("1 of 1 measure equal within 5"), "{}", found.line());
    assert!(
        quiet[0].bound() > 0.0 && quiet[0].bound() < 0.05 && quiet[0].words().starts_with("equal within ")
    );
    // What is no measure has no margin.
    assert_eq!((quiet[1].margin, quiet[1].words().as_str()), (None, "no difference"));
    // No difference is found in noise either, and it is no equality.
    let noisy = of(3, 0.2, 1.0, None);
    let found = summary(&noisy).unwrap();
    assert_eq!((found.alarms_corrected, found.equal, found.verdict), (0, 0, "inconclusive"));
    assert!(noisy[0].words().starts_with("not shown to be equal"), "{}", noisy[0].words());
    assert!(!found.is_failed() && found.line().starts_with("Controls inconclusive: "), "{}", found.line());
    // The same numbers under another margin.
    let wide = summary(&of(3, 0.2, 1.0, Some(1.0))).unwrap();
    assert_eq!((wide.equal, wide.verdict, wide.margin), (1, "passed", Some(1.0)));
    // A difference beyond the margin fails.
    assert_eq!(summary(&of(5, 0.005, 1.08, None)).unwrap().verdict, "failed");
    // A small one fails too, where there is no noise, but not one that no printed ratio shows.
    let small = summary(&of(5, 0.000_02, 1.005, None)).unwrap();
    assert_eq!((small.verdict, small.equal), ("failed", 1));
    let tiny = summary(&of(5, 0.000_02, 1.0005, None)).unwrap();
    assert_eq!((tiny.verdict, tiny.alarms, tiny.equal), ("passed", 0, 1));
    // A run that repeats itself to the last digit is distinguished from one that is equal.
    let exact = of(3, 0.0, 1.0, None);
    let found = summary(&exact).unwrap();
    assert_eq!((found.verdict, found.equal, found.identical), ("passed", 1, 1));
    assert!(found.line().contains("to the last digit"), "{}", found.line());
    assert_eq!(exact[0].words(), "identical in every repeat");
}

#[test]
fn added_requests_are_found_with_their_size_or_too_noisy_or_wrong() {
    let of = |repeats, noise, factor: f64, real: Option<f64>| {
        let (trials, mut controls) = study("extra", &["grep", "walk"], repeats, noise, factor);
        for control in &mut controls {
            for measure in ["grep", "walk"] {
                let series =
                    |value| Series { unit: "count".to_owned(), samples: vec![value], ..Series::default() };
                control.metrics.extend(real.map(|real| (format!("{measure}.extra_factor"), series(real))));
            }
        }
        rows(&controls, &trials, 0.95)
    };
    let right = of(3, 0.002, 1.08, Some(1.08));
    let found = summary(&right).unwrap();
    assert_eq!(
        (found.verdict, found.extra.measures, found.extra.found, found.extra.sized),
        ("passed", 2, 2, 2)
    );
    assert!(found.line().contains("the slowdown by added requests of ×1.08 was found in 2 of 2 measures"));
    assert_eq!(right[0].real, right[1].real);
    // It was added and is not in what was measured, or much more is.
    for factor in [1.0, 1.3] {
        let wrong = of(3, 0.002, factor, Some(1.08));
        assert_eq!(summary(&wrong).unwrap().verdict, "failed", "{factor}");
    }
    // Noise in which 8 % cannot be seen is no failure and no success.
    let noisy = of(3, 0.2, 1.08, Some(1.08));
    assert_eq!(
        (summary(&noisy).unwrap().verdict, noisy[0].words().as_str()),
        ("inconclusive", "too noisy to be found")
    );
    // What nobody counted, or what added next to nothing, is left out.
    assert!(of(3, 0.002, 1.08, None).is_empty() && of(3, 0.002, 1.0, Some(1.001)).is_empty());
}
