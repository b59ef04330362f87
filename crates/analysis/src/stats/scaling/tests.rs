//! What the fits promise, by hand and simulated: coverage, false maxima, laws that do not hold.

use std::collections::BTreeMap;

use super::saturation::saturation;
use super::usl::{FAR, NEAR, fit};
use super::{Curve, Unfit};
use crate::stats::Interval;
use crate::stats::estimator::simulation::Dice;

/// Repetitions of a simulation: a share of 95 % is known to ±1.5 points (3 σ of a binomial).
const ROUNDS: u32 = 2_000;
const LOADS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

fn as_f64(load: u64) -> f64 {
    fsage_model::quantity::as_f64(load)
}

/// λ, σ and κ.
type Truth = [f64; 3];

fn law([lambda, sigma, kappa]: Truth, load: u64) -> f64 {
    let n = as_f64(load);
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// Curves of so many seeds around `rate`, each with a speed of its own, and noise at each load.
fn noisy(dice: &mut Dice, seeds: u32, noise: impl Fn(u64) -> f64, rate: impl Fn(u64) -> f64) -> Curve {
    let seed = |_| {
        let own = 0.05 * dice.normal();
        LOADS.iter().map(|load| (*load, rate(*load) * (own + noise(*load) * dice.normal()).exp())).collect()
    };
    Curve::new(&(0..seeds).zip((0..seeds).map(seed).collect::<Vec<_>>()).collect())
}

fn exact(loads: &[u64], rate: impl Fn(u64) -> f64) -> Curve {
    Curve::new(&BTreeMap::from([(0, loads.iter().map(|load| (*load, rate(*load))).collect())]))
}

fn percent(hits: u32, of: u32) -> f64 {
    100.0 * f64::from(hits) / f64::from(of)
}

#[test]
fn a_law_without_noise_is_recovered() {
    for truth in
        [[1000.0, 0.05, 0.001], [8e9, 0.3, 1e-4], [20.0, 0.0, 0.02], [5.0, 0.9, 0.0], [7.0, 1.0, 0.0]]
    {
        let found = fit(&exact(&LOADS, |load| law(truth, load)), 0.95).unwrap();
        let near = |value: f64, truth: f64| (value - truth).abs() <= 1e-7 * truth.abs().max(1e-3);
        assert!(near(found.lambda.value / truth[0], 1.0), "{found:?}");
        assert!(near(found.sigma.value, truth[1]) && near(found.kappa.value, truth[2]), "{found:?}");
        assert!(found.deviation < 1e-7 && found.p.is_none());
        // One seed: nothing is known of another.
        assert_eq!((found.lambda.interval, found.sigma.interval, found.peak), (None, None, None));
    }
    // Loads that do not begin at 1.
    let found = fit(&exact(&[3, 5, 9, 30], |load| law([100.0, 0.1, 0.01], load)), 0.95).unwrap();
    assert!(
        (found.lambda.value - 100.0).abs() < 1e-4 && (found.kappa.value - 0.01).abs() < 1e-8,
        "{found:?}"
    );
}

#[test]
fn coefficients_are_covered_by_their_intervals() {
    let mut dice = Dice::new(21);
    let truth: Truth = [1000.0, 0.05, 0.001];
    let peak = ((1.0 - truth[1]) / truth[2]).sqrt();
    for (seeds, noise) in [(3, 0.01), (3, 0.03), (5, 0.03), (12, 0.03)] {
        let (mut fitted, mut hits, mut rejected, mut peaks) = (0, [0; 4], 0, 0);
        for _ in 0..ROUNDS {
            let curve = noisy(&mut dice, seeds, |_| noise, |load| law(truth, load));
            let Ok(found) = fit(&curve, 0.95) else {
                rejected += 1;
                continue;
            };
            fitted += 1;
            let inside =
                |interval: Option<Interval>, truth: f64| u32::from(interval.unwrap().contains(truth));
            hits[0] += inside(found.lambda.interval, truth[0]);
            hits[1] += inside(found.sigma.interval, truth[1]);
            hits[2] += inside(found.kappa.interval, truth[2]);
            peaks += u32::from(found.peak.is_some());
            hits[3] += found.peak.map_or(0, |found| inside(found.interval, peak));
        }
        let shares = hits.map(|hits| percent(hits, fitted));
        // Of those that are reported, which is a choice by the same data.
        let shares = [shares[0], shares[1], shares[2], percent(hits[3], peaks)];
        assert!(
            shares[..3].iter().all(|share| (93.0..=97.0).contains(share)),
            "{seeds}, {noise}: {shares:?}"
        );
        assert!(shares[3] > 92.0, "{seeds}, {noise}: {shares:?}");
        assert!(
            percent(rejected, ROUNDS) < 7.0,
            "{seeds}, {noise}: a law that holds was rejected {rejected} times"
        );
    }
}

#[test]
fn a_rate_that_only_levels_off_is_seldom_called_retrograde() {
    let mut dice = Dice::new(22);
    for (seeds, sigma) in [(3, 0.1), (5, 0.1), (5, 1.0), (12, 0.02)] {
        let (mut fitted, mut falls, mut at_bound) = (0, 0, 0);
        for _ in 0..ROUNDS {
            let curve = noisy(&mut dice, seeds, |_| 0.03, |load| law([1000.0, sigma, 0.0], load));
            let Ok(found) = fit(&curve, 0.95) else { continue };
            fitted += 1;
            falls += u32::from(found.peak.is_some());
            at_bound += u32::from(found.kappa.bound.is_some());
        }
        assert!(percent(falls, fitted) < 4.0, "{seeds} seeds, σ = {sigma}: {falls} of {fitted}");
        assert!((40.0..=60.0).contains(&percent(at_bound, fitted)), "κ = 0: {at_bound} of {fitted}");
        assert!(fitted > ROUNDS * 9 / 10, "{fitted}");
    }
}

#[test]
fn a_rate_that_falls_is_found_with_its_maximum() {
    let mut dice = Dice::new(23);
    let truth: Truth = [1000.0, 0.02, 0.01];
    let found = (0..ROUNDS)
        .filter(|_| {
            let curve = noisy(&mut dice, 5, |_| 0.03, |load| law(truth, load));
            fit(&curve, 0.95).is_ok_and(|law| law.peak.is_some_and(|peak| (8.0..=12.0).contains(&peak.value)))
        })
        .count();
    assert!(percent(u32::try_from(found).unwrap(), ROUNDS) > 90.0, "{found}");
}

#[test]
fn a_maximum_needs_six_loads_and_a_measured_fall() {
    let of = |dice: &mut Dice, loads: &[u64], rate: &dyn Fn(u64) -> f64| {
        let seed = |_| loads.iter().map(|load| (*load, rate(*load) * (0.01 * dice.normal()).exp())).collect();
        let curve = Curve::new(&(0..5).zip((0..5).map(seed).collect::<Vec<_>>()).collect());
        fit(&curve, 0.95).ok()
    };
    let mut dice = Dice::new(27);
    let has_peak = |law: Option<super::Law>| law.is_some_and(|law| law.peak.is_some());
    // What levels off at once looks retrograde to four loads, and the law's maximum lies among them.
    let levels = |load: u64| [1.0, 3.05, 5.9, 5.9][load.ilog2() as usize / 2];
    let four: Vec<_> = (0..200).map(|_| of(&mut dice, &[1, 4, 16, 64], &levels)).collect();
    let above = |law: &super::Law| law.kappa.interval.is_some_and(|interval| interval.low > 0.0);
    assert!(four.iter().flatten().any(above), "κ is above 0 by four loads: {four:?}");
    assert!(!four.into_iter().any(has_peak));
    // A law whose maximum is at 10: beyond all of the first loads, among the second.
    let truth: Truth = [1000.0, 0.02, 0.0098];
    let short =
        (0..200).filter(|_| has_peak(of(&mut dice, &[1, 2, 3, 4, 6, 8], &|load| law(truth, load)))).count();
    let long =
        (0..200).filter(|_| has_peak(of(&mut dice, &[1, 2, 4, 8, 16, 32], &|load| law(truth, load)))).count();
    assert!(short < 10 && long > 190, "{short}, {long} of 200");
    // A rate that falls from the smallest load on.
    let falls =
        (0..200).filter(|_| has_peak(of(&mut dice, &LOADS, &|load| law([100.0, 0.67, 0.42], load)))).count();
    assert_eq!(falls, 0);
}

#[test]
fn a_sharp_knee_is_no_such_law() {
    let knee = |load: u64| as_f64(load.min(16));
    let mut dice = Dice::new(24);
    let rejected = (0..200)
        .filter(|_| {
            let curve = noisy(&mut dice, 3, |_| 0.01, knee);
            matches!(fit(&curve, 0.95), Err(Unfit::Deviates { share, .. }) if share > NEAR)
        })
        .count();
    assert!(rejected >= 198, "{rejected} of 200");
    let Err(Unfit::Deviates { share, .. }) = fit(&exact(&LOADS, knee), 0.95) else { panic!("it fits") };
    assert!(share > FAR);
}

#[test]
fn equal_seeds_that_are_off_by_a_little_have_no_law_either() {
    let wave = |load: u64| law([10.0, 0.1, 0.001], load) * if load == 8 { 1.06 } else { 1.0 };
    let seed: BTreeMap<u64, f64> = LOADS.iter().map(|load| (*load, wave(*load))).collect();
    let equal = Curve::new(&(0..3).map(|repeat| (repeat, seed.clone())).collect());
    assert!(matches!(fit(&equal, 0.95), Err(Unfit::Deviates { load: 8, .. })));
    // Of one seed the same may be noise.
    assert!(fit(&exact(&LOADS, wave), 0.95).is_ok());
    let law = |load: u64| law([10.0, 0.1, 0.001], load);
    let seed: BTreeMap<u64, f64> = LOADS.iter().map(|load| (*load, law(*load))).collect();
    let equal = Curve::new(&(0..3).map(|repeat| (repeat, seed.clone())).collect());
    let found = fit(&equal, 0.95).unwrap();
    assert_eq!((found.sigma.interval, found.p, saturation(&equal, 0.95).unwrap().range), (None, None, None));
}

#[test]
fn what_lies_beyond_a_bound_is_said_instead_of_a_number() {
    let of = |rate: fn(u64) -> f64| fit(&exact(&LOADS, rate), 0.95);
    // More load costs from the first step on; twice the load, more than twice the rate; a rise that sets in late.
    assert_eq!(of(|load| law([100.0, 5.0, 0.0], load)), Err(Unfit::Falls));
    assert_eq!(of(|load| law([100.0, -0.012, 0.0], load)), Err(Unfit::Superlinear));
    assert_eq!(of(|load| law([100.0, 0.5, -0.0018], load)), Err(Unfit::Rises));
    let mut dice = Dice::new(25);
    let noisy = noisy(&mut dice, 5, |_| 0.02, |load| law([100.0, 5.0, 0.0], load));
    assert_eq!(fit(&noisy, 0.95), Err(Unfit::Falls));
    // Within noise of a bound: at it.
    let flat = of(|load| law([100.0, 1.001, 0.0], load)).unwrap();
    assert_eq!((flat.sigma.bound, flat.peak), (Some(1.0), None));
    let few = exact(&LOADS[..3], |load| law([100.0, 0.1, 0.0], load));
    assert_eq!(fit(&few, 0.95), Err(Unfit::Few { loads: 3 }));
    assert_eq!(Unfit::Few { loads: 3 }.to_string(), "too few loads: 3, at least 4 are needed");
    let off = Unfit::Deviates { share: 0.124, load: 16 };
    assert_eq!(off.to_string(), "does not hold: off by 12 % at 16, more than noise");
}

#[test]
fn the_saturation_point_is_the_smallest_load_near_the_largest_rate() {
    let of = |rates: [f64; 4]| {
        let found =
            saturation(&exact(&[1, 4, 16, 64], |load| rates[load.ilog2() as usize / 2]), 0.95).unwrap();
        (found.load, found.is_reached(), found.range)
    };
    assert_eq!(of([10.0, 40.0, 96.0, 100.0]), (16, true, None));
    assert_eq!(of([10.0, 40.0, 94.0, 100.0]), (64, false, None));
    assert_eq!(of([10.0, 100.0, 50.0, 20.0]), (4, true, None));
    assert_eq!(of([10.0, 10.0, 10.0, 10.0]), (1, true, None));
    assert_eq!(saturation(&exact(&[1, 2], as_f64), 0.95), None);
}

/// A name, and a rate at a load.
type Case = (&'static str, fn(u64) -> f64);

#[test]
fn the_saturation_point_lies_in_its_range() {
    let mut dice = Dice::new(26);
    // 2 % above the margin at 16 in the first, far from it in the second; a rate that falls again; a flat one.
    let cases: [Case; 4] = [
        ("slow", |load| as_f64(load) / (as_f64(load) + 1.5)),
        ("sharp", |load| as_f64(load.min(8))),
        ("falls", |load| law([10.0, 0.05, 0.005], load)),
        ("flat", |_| 3.0),
    ];
    for (name, rate) in cases {
        let truth = saturation(&exact(&LOADS, rate), 0.95).unwrap().load;
        for seeds in [2, 3, 5, 12] {
            for unequal in [1.0, 2.0] {
                let noise = |load: u64| if load <= 4 { 0.02 * unequal } else { 0.02 };
                let hits = (0..ROUNDS).filter(|_| {
                    let found = saturation(&noisy(&mut dice, seeds, noise, rate), 0.95).unwrap();
                    let (low, high) = found.range.unwrap();
                    assert!(low <= found.load && found.load <= high, "{found:?}");
                    (low..=high).contains(&truth)
                });
                let share = percent(u32::try_from(hits.count()).unwrap(), ROUNDS);
                assert!(share >= 94.0, "{name}, {seeds} seeds: {share} %");
            }
        }
    }
    // With a clear knee and little noise the range is the point itself.
    let clear = saturation(&noisy(&mut dice, 5, |_| 0.01, |load| as_f64(load.min(8))), 0.95).unwrap();
    assert_eq!((clear.load, clear.range), (8, Some((8, 8))));
}

#[test]
fn loads_that_a_seed_lacks_are_left_out() {
    let rates = BTreeMap::from([
        (0, BTreeMap::from([(1, 10.0), (2, 20.0), (4, 0.0), (8, 30.0), (16, 31.0)])),
        (1, BTreeMap::from([(1, 11.0), (2, 21.0), (4, 25.0), (8, f64::NAN), (16, 32.0), (32, 33.0)])),
    ]);
    let curve = Curve::new(&rates);
    assert_eq!((curve.loads(), curve.seeds()), (&[1, 2, 16][..], 2));
    assert_eq!(Curve::new(&BTreeMap::new()).loads(), [0_u64; 0]);
    assert_eq!(saturation(&Curve::new(&BTreeMap::new()), 0.95), None);
}
