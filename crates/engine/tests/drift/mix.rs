//! The mix is what the description says.

use std::collections::BTreeMap;

use fsage_engine::workload::{Feedback, Workload};
use fsage_model::operation::OperationKind as K;
use fsage_model::workload::{ChoiceSpec, DriftSpec};

use super::{done, every_weight, make, operations, small};

fn counts(spec: &DriftSpec, skip: usize, count: usize) -> BTreeMap<K, f64> {
    let mut workload = make(spec, 0, 1, 3);
    let _ = operations(&mut workload, skip);
    let mut counts = BTreeMap::new();
    for operation in operations(&mut workload, count) {
        *counts.entry(operation.kind()).or_insert(0.0) += 1.0;
    }
    counts
}

/// Chi-square of 100,000 draws against the weights, 6 degrees of freedom: mean 6, deviation 3.5.
#[test]
fn kinds_follow_their_weights() {
    let mut weights =
        BTreeMap::from([(K::Create, 10.0), (K::Delete, 10.0), (K::Append, 4.0), (K::Read, 2.5)]);
    weights.extend([(K::RandomWrite, 3.0), (K::Rename, 1.0), (K::Overwrite, 0.5)]);
    let spec = DriftSpec { slots: 100_000, weights: weights.clone(), fill_until: 0.0, ..small() };
    let counts = counts(&spec, 20_000, 100_000);
    let total: f64 = weights.values().sum();
    let chi: f64 = weights
        .iter()
        .map(|(kind, weight)| {
            let expected = 100_000.0 * weight / total;
            (counts[kind] - expected).powi(2) / expected
        })
        .sum();
    assert!(chi < 30.0, "{chi}: {counts:?}");
}

/// Every kind happens, and syncs follow writes as often as asked.
#[test]
fn every_kind_happens() {
    let counts = counts(&small(), 0, 50_000);
    for kind in K::ALL {
        assert!(counts.get(&kind).is_some_and(|count| *count > 400.0), "{kind:?}: {counts:?}");
    }
    let mut weights = every_weight(1.0);
    weights.remove(&K::Fsync);
    weights.remove(&K::Fdatasync);
    let spec = DriftSpec { weights, fsync_probability: 0.25, fdatasync_probability: 0.1, ..small() };
    let mut workload = make(&spec, 0, 1, 5);
    let operations = operations(&mut workload, 60_000);
    let is_write = |kind| matches!(kind, K::Create | K::Append | K::RandomWrite | K::Overwrite);
    let writes = operations.iter().filter(|operation| is_write(operation.kind())).count();
    let (mut fsyncs, mut fdatasyncs) = (0, 0);
    for pair in operations.windows(2) {
        let [before, after] = pair else { continue };
        match after.kind() {
            K::Fsync => {
                assert!(is_write(before.kind()) && before.file == after.file);
                fsyncs += 1;
            }
            K::Fdatasync => {
                assert!((is_write(before.kind()) || before.kind() == K::Fsync) && before.file == after.file);
                fdatasyncs += 1;
            }
            _ => {}
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(u32::try_from(writes).expect("small"));
    assert!((share(fsyncs) - 0.25).abs() < 0.02, "{}", share(fsyncs));
    assert!((share(fdatasyncs) - 0.1).abs() < 0.015, "{}", share(fdatasyncs));
}

/// At the start creates are favoured, later not.
#[test]
fn creates_are_favoured_until_filled() {
    let weights = BTreeMap::from([(K::Create, 1.0), (K::Delete, 1.0)]);
    let spec = DriftSpec { slots: 10_000, weights, fill_until: 0.5, fill_bias: 9.0, ..small() };
    let mut workload = make(&spec, 0, 1, 3);
    // Nine creates per delete: 0.8 files per operation, so 5,000 files after about 6,250.
    let _ = operations(&mut workload, 5_800);
    assert!((4_400..5_000).contains(&workload.files()), "{}", workload.files());
    let _ = operations(&mut workload, 20_000);
    assert!((4_900..5_600).contains(&workload.files()), "{}", workload.files());
}

/// A user works on one set of files for a while: with a resting centre nearly all reads hit the files near
/// slot 0, with an even choice all alike.
#[test]
fn choices_differ_in_what_they_touch() {
    let touched = |choice: ChoiceSpec| {
        let weights = BTreeMap::from([(K::Create, 1.0), (K::Read, 1.0)]);
        let mut spec = DriftSpec { slots: 1000, weights, choice, fill_until: 0.0, ..small() };
        spec.choice = match spec.choice {
            ChoiceSpec::Uniform => ChoiceSpec::Uniform,
            other => other,
        };
        let mut workload = make(&spec, 0, 1, 3);
        let _ = operations(&mut workload, 60_000);
        assert_eq!(workload.files(), 1000);
        let mut hits = BTreeMap::new();
        for operation in operations(&mut workload, 20_000) {
            *hits.entry(operation.file).or_insert(0_u32) += 1;
        }
        let mut hits: Vec<_> = hits.into_values().collect();
        hits.sort_unstable_by(|a, b| b.cmp(a));
        // Share of the accesses that the busiest tenth of the files gets.
        f64::from(hits.iter().take(100).sum::<u32>()) / 20_000.0
    };
    let even = touched(ChoiceSpec::Uniform);
    assert!((0.1..0.16).contains(&even), "{even}");
    // The busiest 100 of 1000 slots are those within one deviation: 68 %.
    let resting = touched(ChoiceSpec::Gaussian { deviation: 0.05 });
    assert!((0.67..0.72).contains(&resting), "{resting}");
    let moving = touched(ChoiceSpec::Moving { deviation: 0.05, velocity: 1.0, tick_operations: 20 });
    assert!((0.1..0.2).contains(&moving), "{moving}");
}

/// Simulated time stands still while the load does: misses and upkeep do not move the centre.
#[test]
fn upkeep_leaves_the_mix_alone() {
    let mut workload = make(&small(), 0, 1, 3);
    let _ = operations(&mut workload, 500);
    while let Some(operation) = workload.release() {
        assert!(workload.is_upkeep() && operation.kind() == K::Delete);
        workload.completed(&operation, &done(0));
    }
    assert_eq!((workload.files(), workload.live_bytes()), (0, 0));
    let operation = workload.next(&Feedback::default()).expect("something is always possible");
    assert!(!workload.is_upkeep());
    assert!(matches!(operation.kind(), K::Create | K::Mkdir | K::Rmdir));
}

#[test]
fn a_kind_however_rare_is_found_where_no_other_is_possible() {
    let mut spec = small();
    spec.weights = every_weight(0.0);
    spec.weights.insert(K::Read, 1.0);
    spec.weights.insert(K::Create, 1e-12);
    spec.weights.insert(K::Delete, 1e-6);
    spec.slots = 1;
    let mut workload = make(&spec, 0, 1, 5);
    let mut made = 0;
    for step in 0..50 {
        let operation = workload.next(&Feedback::default());
        let operation = operation.unwrap_or_else(|| panic!("step {step} is a miss"));
        made += u32::from(operation.kind() == K::Create);
        workload.completed(&operation, &done(0));
    }
    assert!(made > 0);
}
