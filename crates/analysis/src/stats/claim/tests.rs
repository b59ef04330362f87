use super::*;
use crate::stats::evidence::tests::trial;
use fsage_model::study::DeviceClass;
use serde_json::json;

fn claim(above: Option<f64>, below: Option<f64>) -> ClaimSpec {
    let side = |kind: &str| BTreeMap::from([("file_system.kind".to_owned(), json!(kind))]);
    ClaimSpec {
        id: "c".to_owned(),
        source: "Someone 2000".to_owned(),
        statement: "xfs is slower".to_owned(),
        published: String::new(),
        check: Some(ClaimCheck::Ratio {
            metric: "m".to_owned(),
            numerator: side("xfs"),
            denominator: side("ext4"),
            above,
            below,
            margin: None,
        }),
        ..ClaimSpec::default()
    }
}

/// Trials of both sides with `seeds` repeats, xfs at `xfs` ± 1 % and ext4 at 10 ± 1 %.
fn sides_of(xfs: f64, seeds: u32) -> Vec<Evidence> {
    let near = |base: f64, by: u32| base * (1.0 + 0.01 * (f64::from(by) * 2.4).sin());
    let of = |repeat| {
        [
            trial("xfs", repeat, "m", near(xfs, repeat), None),
            trial("ext4", repeat, "m", near(10.0, repeat + 7), None),
        ]
    };
    (0..seeds).flat_map(of).collect()
}

fn verdict_of(claim: &ClaimSpec, xfs: f64, seeds: u32) -> ClaimVerdict {
    judge(claim, &[], &sides_of(xfs, seeds), 0.95).verdict
}

#[test]
fn a_claim_holds_only_with_its_whole_interval() {
    let slower = claim(Some(1.0), None);
    assert_eq!(verdict_of(&slower, 20.0, 5), ClaimVerdict::Holds);
    assert_eq!(verdict_of(&slower, 5.0, 5), ClaimVerdict::Contradicted);
    assert!(matches!(verdict_of(&slower, 10.02, 5), ClaimVerdict::Compatible { .. }));
    let between = claim(Some(1.5), Some(2.5));
    assert_eq!(verdict_of(&between, 20.0, 5), ClaimVerdict::Holds);
    assert_eq!(verdict_of(&between, 40.0, 5), ClaimVerdict::Contradicted);
}

#[test]
fn fewer_than_three_seeds_speak_of_this_run() {
    for (xfs, seeds, says) in [
        (20.0, 1, "agrees with the finding; 1 of 3 repeats needed for a verdict (`repeats`)"),
        (5.0, 1, "disagrees with the finding; 1 of 3 repeats needed for a verdict (`repeats`)"),
        (40.0, 2, "agrees with the finding; 2 of 3 repeats needed for a verdict (`repeats`)"),
    ] {
        let found = verdict_of(&claim(Some(1.0), None), xfs, seeds);
        assert_eq!(found, ClaimVerdict::InThisRun { reason: says.to_owned() });
        assert_eq!(found.words(), "in this run");
    }
    // Blocks of one run have a range, and are one run all the same.
    let trials = [trial("xfs", 0, "m", 20.0, Some(0.2)), trial("ext4", 0, "m", 10.0, Some(0.2))];
    let found = judge(&claim(Some(1.0), None), &[], &trials, 0.95);
    assert!(found.measured.unwrap().range.is_some());
    assert!(matches!(found.verdict, ClaimVerdict::InThisRun { .. }));
}

#[test]
fn media_are_judged_each_and_never_pooled() {
    let on = |medium: &str, xfs: f64| {
        let mut trials = sides_of(xfs, 4);
        for trial in &mut trials {
            trial.factors.insert("volume.medium".to_owned(), json!(medium));
        }
        trials
    };
    let slower = claim(Some(1.0), None);
    // Pooled, 2 and 0.8 would be 1.26 with an interval far above 1.
    let found = judge(&slower, &[], &[on("hdd", 20.0), on("ssd", 8.0)].concat(), 0.95);
    assert_eq!(found.verdict, ClaimVerdict::Contradicted);
    let parts: Vec<_> = found.each.iter().map(|part| (in_words(&part.value), part.verdict.words())).collect();
    assert_eq!(parts, [("hdd".to_owned(), "holds"), ("ssd".to_owned(), "contradicted")]);
    assert!(found.quantity.ends_with(", for each file system and medium") && found.measured.is_none());
    let both = judge(&slower, &[], &[on("hdd", 20.0), on("ssd", 15.0)].concat(), 0.95);
    assert_eq!(both.verdict, ClaimVerdict::Holds);
}

#[test]
fn what_cannot_be_judged_says_why() {
    let only = [trial("xfs", 0, "m", 1.0, None)];
    let judgement = judge(&claim(Some(1.0), None), &[], &only, 0.95);
    assert_eq!(
        judgement.verdict,
        ClaimVerdict::NotComparable { reason: "no complete trial has kind = ext4".to_owned() }
    );
    assert_eq!(judgement.quantity, "m: (kind = xfs) ÷ (kind = ext4)");
    let mut unchecked = claim(None, None);
    unchecked.check = None;
    unchecked.not_tested = "needs a hard disk".to_owned();
    let judgement = judge(&unchecked, &[], &only, 0.95);
    assert_eq!(judgement.verdict, ClaimVerdict::NotComparable { reason: "needs a hard disk".to_owned() });
    let empty = judge(&claim(Some(1.0), None), &[], &[], 0.95);
    assert_eq!(empty.verdict, ClaimVerdict::NotComparable { reason: "no trial is complete".to_owned() });
}

/// A claim about `m` on each of these file systems, and what trials of some say.
fn of_each(systems: &[&str], values: &[(&'static str, f64, u32)]) -> Judgement {
    let mut each = claim(None, None);
    each.check = Some(ClaimCheck::Value {
        metric: "m".to_owned(),
        cells: Cells::new(),
        above: Some(1.0),
        below: None,
        margin: None,
    });
    each.each = Some("file_system.kind".to_owned());
    let systems: Vec<Value> = systems.iter().map(|system| json!(system)).collect();
    let of = |&(kind, value, seeds): &(&'static str, f64, u32)| {
        (0..seeds).map(move |seed| trial(kind, seed, "m", value * (1.0 + 0.01 * f64::from(seed)), None))
    };
    let trials: Vec<_> = values.iter().flat_map(of).collect();
    judge(&each, &systems, &trials, 0.95)
}

#[test]
fn a_claim_about_every_value_is_judged_value_by_value() {
    let xfs = ("xfs", 5.0, 3);
    let both = of_each(&["xfs", "btrfs"], &[xfs, ("btrfs", 0.5, 3)]);
    assert_eq!(both.verdict, ClaimVerdict::Contradicted);
    assert!(both.measured.is_none());
    assert_eq!(both.quantity, "m: all trials, for each kind");
    let parts: Vec<_> = both.each.iter().map(|part| (part.value.clone(), &part.verdict)).collect();
    assert_eq!(parts, [(json!("xfs"), &ClaimVerdict::Holds), (json!("btrfs"), &ClaimVerdict::Contradicted)]);
    let holds = of_each(&["xfs", "ext4"], &[xfs, ("ext4", 3.0, 3)]);
    assert_eq!(holds.verdict, ClaimVerdict::Holds);
    let open = of_each(&["xfs", "ext4"], &[xfs, ("ext4", 0.99, 3)]);
    assert_eq!(open.verdict, ClaimVerdict::Compatible { reason: "undecided for ext4".to_owned() });
    let few = of_each(&["xfs", "ext4"], &[xfs, ("ext4", 3.0, 1)]);
    assert_eq!(few.verdict, ClaimVerdict::InThisRun { reason: "too few repeats for ext4".to_owned() });
    let one_sided = of_each(&["xfs", "ext4"], &[xfs]);
    assert_eq!(
        one_sided.verdict,
        ClaimVerdict::NotComparable { reason: "not comparable for ext4".to_owned() }
    );
    let none = of_each(&["xfs", "ext4"], &[]);
    assert_eq!(none.verdict, ClaimVerdict::NotComparable { reason: "no trial is complete".to_owned() });
    // A run whose matrix does not have the factor has one value of it.
    let whole = of_each(&[], &[xfs]);
    assert_eq!((whole.verdict, whole.each.len()), (ClaimVerdict::Holds, 0));
}

#[test]
fn trials_that_a_factor_does_not_reach_belong_to_each_of_its_values() {
    const USE: &str = "stage.age.use";
    let of = |repeat: u32, state: &str, used: f64, value: f64| {
        let mut one = trial("xfs", repeat, "m", value + 0.01 * f64::from(repeat), None);
        one.factors = Cells::from([("state".to_owned(), json!(state)), (USE.to_owned(), json!(used))]);
        one.spec = json!({"state": state, "stage": [{"kind": "age", "name": "age", "when": ["aged"]}]});
        one
    };
    // What is fresh is so at any use; its trial has one all the same.
    let all = |r| [of(r, "aged", 0.8, 20.0), of(r, "aged", 0.9, 40.0), of(r, "fresh", 0.8, 10.0)];
    let trials: Vec<Evidence> = (0..3).flat_map(all).collect();
    let mut slower = claim(Some(1.0), None);
    let side = |state: &str| Cells::from([("state".to_owned(), json!(state))]);
    slower.check = Some(ClaimCheck::Ratio {
        metric: "m".to_owned(),
        numerator: side("aged"),
        denominator: side("fresh"),
        above: Some(1.0),
        below: None,
        margin: None,
    });
    slower.each = Some(USE.to_owned());
    let found = judge(&slower, &[json!(0.8), json!(0.9)], &trials, 0.95);
    assert_eq!(found.verdict, ClaimVerdict::Holds, "{:?}", found.each);
}

#[test]
fn a_value_that_measured_nothing_proves_nothing() {
    let part = |value: &str, verdict| Part {
        value: json!(value),
        unit: String::new(),
        condition: String::new(),
        verdict,
        measured: None,
        fragile: None,
    };
    let missing = || ClaimVerdict::NotComparable { reason: "why".to_owned() };
    let other = || ClaimVerdict::NotComparable { reason: "another why".to_owned() };
    let open = || ClaimVerdict::Compatible { reason: String::new() };
    let reason = |parts: &[Part]| of_all(parts).reason().unwrap().to_owned();
    assert_eq!(reason(&[part("a", ClaimVerdict::Holds), part("b", missing())]), "not comparable for b");
    assert_eq!(reason(&[part("a", missing()), part("b", missing())]), "why");
    assert_eq!(reason(&[part("a", missing()), part("b", other())]), "not comparable for a, b");
    assert_eq!(reason(&[part("a", open()), part("b", missing())]), "undecided for a; not comparable for b");
    let contradicted = [part("a", ClaimVerdict::Contradicted), part("b", missing())];
    assert_eq!(of_all(&contradicted), ClaimVerdict::Contradicted);
}

#[test]
fn zeros_are_told_apart_from_what_was_not_measured() {
    let both = [trial("xfs", 0, "m", 0.0, None), trial("ext4", 0, "m", 1.0, None)];
    let ClaimVerdict::NotComparable { reason } = judge(&claim(Some(1.0), None), &[], &both, 0.95).verdict
    else {
        unreachable!()
    };
    assert_eq!(reason, "`m` was 0 on a side of each of 1 pairs, which has no ratio");
}

#[test]
fn pairs_agree_in_what_is_not_named() {
    let mut trials = Vec::new();
    for repeat in 0..2 {
        for use_share in [0.8, 0.9] {
            for kind in ["xfs", "ext4"] {
                let mut one = trial(kind, repeat, "m", 1.0, None);
                one.factors.insert("use".to_owned(), json!(use_share));
                trials.push(one);
            }
        }
    }
    let ClaimCheck::Ratio { numerator, denominator, .. } = claim(None, None).check.unwrap() else {
        unreachable!()
    };
    let pairs = pairs(&trials, &numerator, &denominator);
    assert_eq!(pairs.len(), 4);
    assert!(pairs.iter().all(|(a, b)| a.factors["use"] == b.factors["use"] && a.repeat == b.repeat));
}

#[test]
fn what_ran_on_two_hosts_is_compared_only_in_model_time() {
    let side = |kind: &str, host: &str, time: &str| {
        let mut one = trial(kind, 0, "m", if kind == "xfs" { 20.0 } else { 10.0 }, None);
        host.clone_into(&mut one.host);
        one.spec = json!({"volume": {"kind": "disk", "time": time}});
        one
    };
    let judged = |a: &str, b: &str, time: &str| {
        judge(&claim(Some(1.5), None), &[], &[side("xfs", a, time), side("ext4", b, time)], 0.95)
    };
    let ClaimVerdict::NotComparable { reason } = judged("1", "2", "real").verdict else {
        panic!("two hosts are compared")
    };
    assert_eq!(reason, "no two complete trials that differ in just these factors ran on one host");
    for (a, b, time) in [("1", "1", "real"), ("1", "", "real"), ("1", "2", "model")] {
        let found = judged(a, b, time);
        assert!(found.measured.is_some(), "{a} {b} {time}: {:?}", found.verdict);
    }
    // Another kernel does other requests.
    let (one, mut other) = (side("xfs", "1", "model"), side("ext4", "2", "model"));
    "6.12".clone_into(&mut other.platform);
    assert!(judge(&claim(Some(1.5), None), &[], &[one, other], 0.95).measured.is_none());
}

#[test]
fn every_clause_is_a_test_of_its_own() {
    let clause = |above, below| claim(above, below).check.unwrap();
    let of = |all: Vec<ClaimCheck>| ClaimSpec { check: None, all, ..claim(None, None) };
    let both = of(vec![clause(Some(1.5), None), clause(None, Some(3.0))]);
    let found = judge(&both, &[], &sides_of(20.0, 5), 0.95);
    assert_eq!(
        (found.verdict, found.quantity.as_str(), found.each.len()),
        (ClaimVerdict::Holds, "2 clauses", 2)
    );
    assert_eq!([&found.each[0].condition, &found.each[1].condition], ["above 1.5", "below 3"]);
    assert!(found.each.iter().all(|part| part.measured.is_some()));
    // One clause that is not so contradicts the sentence, whatever the others are.
    assert_eq!(verdict_of(&both, 50.0, 5), ClaimVerdict::Contradicted);
    let open = of(vec![clause(Some(1.5), None), clause(Some(2.0), None)]);
    let ClaimVerdict::Compatible { reason } = verdict_of(&open, 20.0, 5) else { unreachable!() };
    assert!(reason.starts_with("undecided for m: (kind = xfs) ÷ (kind = ext4)"), "{reason}");
    let missing = of(vec![
        clause(Some(1.5), None),
        serde_json::from_value(json!({"kind": "value", "metric": "none", "above": 1.0})).unwrap(),
    ]);
    // What one clause cannot tell, the sentence cannot.
    assert!(matches!(verdict_of(&missing, 20.0, 5), ClaimVerdict::NotComparable { .. }));
}

#[test]
fn a_margin_of_equivalence_is_met_by_an_interval_within_it() {
    let within = |margin: f64| {
        let mut claim = claim(None, None);
        let Some(ClaimCheck::Ratio { margin: own, .. }) = &mut claim.check else { unreachable!() };
        *own = Some(margin);
        claim
    };
    assert_eq!(verdict_of(&within(0.05), 10.02, 5), ClaimVerdict::Holds);
    assert_eq!(verdict_of(&within(0.05), 12.0, 5), ClaimVerdict::Contradicted);
    // Not proven different is not proven alike.
    assert!(matches!(verdict_of(&within(0.001), 10.02, 5), ClaimVerdict::Compatible { .. }));
    assert_eq!(judge(&within(0.05), &[], &sides_of(10.0, 5), 0.95).condition, "within 5 % either way");
}

fn given(conditions: &Value) -> ClaimSpec {
    ClaimSpec { given: Some(serde_json::from_value(conditions.clone()).unwrap()), ..claim(Some(1.0), None) }
}

#[test]
fn a_claim_is_not_comparable_where_a_condition_is_not_met() {
    let mut trials = sides_of(20.0, 5);
    for trial in &mut trials {
        trial.spec = json!({
            "volume": {"kind": "loop", "size": "1GiB"},
            "stage": [{"kind": "age", "name": "age", "write_mode": "buffered", "workload": {}}],
        });
        trial.memory_bytes = Some(4 << 30);
        let series = |value: f64| crate::stats::Series { samples: vec![value], ..Default::default() };
        trial.metrics.insert("age.device_bytes".to_owned(), series(2.0 * 1_073_741_824.0));
        trial.metrics.insert("full.no_space".to_owned(), series(0.0));
    }
    let verdict = |conditions: Value| judge(&given(&conditions), &[], &trials, 0.95).verdict;
    let met = json!({
        "time": "wall", "size": {"at_least": "512MiB", "at_most": "1GiB"}, "dose": {"at_least": 2.0}, "cache": {"at_least": 3.0},
        "latency": {"at_least": 9.0, "at_most": 21.0}, "metrics": {"full.no_space": {"at_most": 0.0}},
    });
    assert_eq!(verdict(met), ClaimVerdict::Holds);
    for (conditions, why) in [
        (json!({"medium": ["hdd-10k"]}), "the medium is a device or file of the host, not hdd-10k"),
        (json!({"dose": {"at_least": 5.0}}), "the number of volume overwrites is 2, not at least 5"),
        (json!({"cache": {"at_most": 0.1}}), "memory ÷ size of the volume is 4, not at most 0.1"),
        (json!({"metrics": {"full.no_space": {"at_least": 1.0}}}), "`full.no_space` is 0, not at least 1"),
        (json!({"metrics": {"none": {"at_least": 1.0}}}), "`none` is not known"),
    ] {
        let ClaimVerdict::NotComparable { reason } = verdict(conditions) else { unreachable!() };
        assert_eq!(reason, format!("a condition is not met: {why}"));
    }
    let class = |volume: Value, found: Option<DeviceClass>| {
        let of = |trial: &Evidence| {
            let mut trial = trial.clone();
            trial.spec["volume"] = volume.clone();
            trial.class = found;
            trial
        };
        let trials: Vec<Evidence> = trials.iter().map(of).collect();
        judge(&given(&json!({"class": ["hard-disk"]})), &[], &trials, 0.95).verdict
    };
    let model = |medium: &str| json!({"kind": "disk", "medium": medium, "size": "1GiB"});
    let device = || json!({"kind": "device", "path": "/dev/disk/by-id/ata-A"});
    assert_eq!(class(model("hdd-500gb"), None), ClaimVerdict::Holds);
    assert_eq!(class(device(), Some(DeviceClass::HardDisk)), ClaimVerdict::Holds);
    for (volume, found, have) in [
        (model("ssd"), None, "flash"),
        (model("sd-class10"), None, "flash"),
        (model("ram"), None, "memory"),
        (device(), Some(DeviceClass::Flash), "flash"),
        (device(), None, "of no known class"),
        (json!({"kind": "loop", "size": "1GiB"}), None, "of no known class"),
    ] {
        let ClaimVerdict::NotComparable { reason } = class(volume, found) else { unreachable!() };
        assert_eq!(reason, format!("a condition is not met: the device is {have}, not a hard disk"));
    }
    // Operations of 10 ns are not those of a device.
    let ClaimVerdict::NotComparable { reason } = verdict(json!({"latency": {"at_least": 1e6}})) else {
        unreachable!()
    };
    assert!(reason.starts_with("a condition is not met: `m` in ns is "), "{reason}");
    trials.iter_mut().for_each(|trial| trial.spec["stage"][0]["write_mode"] = json!("direct"));
    assert_eq!(
        judge(&given(&json!({"cache": {"at_most": 0.1}})), &[], &trials, 0.95).verdict,
        ClaimVerdict::Holds
    );
}

#[test]
fn a_claim_that_rests_on_an_invalidated_number_is_not_comparable() {
    use crate::stats::Doubt;
    use fsage_model::warning::WarningKind;
    let mut trials = sides_of(20.0, 5);
    let slower = claim(Some(1.0), None);
    let doubt = |kind| Doubt { kind, measure: None };
    trials[0].doubts = vec![doubt(WarningKind::FragmentationEstimate)];
    assert_eq!(judge(&slower, &[], &trials, 0.95).verdict, ClaimVerdict::Holds);
    trials[0].doubts = vec![doubt(WarningKind::CpuBound)];
    let ClaimVerdict::NotComparable { reason } = judge(&slower, &[], &trials, 0.95).verdict else {
        unreachable!()
    };
    assert_eq!(reason, "`cpu-bound` invalidates `m` in 1 of 10 trials");
}

#[test]
fn a_claim_about_different_work_is_not_comparable() {
    use fsage_model::measure::Work;
    let mut trials = sides_of(20.0, 5);
    for (index, trial) in trials.iter_mut().enumerate() {
        let bytes = if index % 2 == 0 { 1 << 30 } else { 4 << 30 };
        trial.metrics.get_mut("m").unwrap().work = Some(Work { bytes, files: 1, operations: 1 });
    }
    let found = judge(&claim(Some(1.0), None), &[], &trials, 0.95);
    assert_eq!(
        found.verdict,
        ClaimVerdict::NotComparable { reason: "different work: 1 GiB against 4 GiB".to_owned() }
    );
    assert_eq!(found.measured, None);
}
