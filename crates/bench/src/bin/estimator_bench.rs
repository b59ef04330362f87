//! Times the estimator as a comparison uses it: interval, p, what is detectable and planned repeats of 1,000
//! metrics, with 3 and with 30 pairs of trials.
//!
//! Bound: 2 s for each.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks and stops at the first fault"
)]

use std::time::Instant;

use fsage_analysis::stats::estimator::{Pair, paired};

const METRICS: u32 = 1_000;
const LIMIT_S: f64 = 2.0;

fn main() {
    println!("{METRICS} metrics, interval, power and plan:\n");
    println!("| pairs | seconds |\n| --- | --- |");
    for pairs in [3, 30] {
        let seconds = seconds(pairs);
        println!("| {pairs} | {seconds:.2} |");
        assert!(seconds < LIMIT_S, "the limit is {LIMIT_S} s");
    }
}

fn seconds(pairs: u32) -> f64 {
    let begun = Instant::now();
    for metric in 0..METRICS {
        let value =
            |shift: u32, i: u32| vec![f64::from(1_000 + shift + (i * 7_919 + metric * 31) % 101).ln()];
        let pair = |seed: u32| {
            let (a, b) = (value(0, 3 * seed), value(40, 5 * seed + 1));
            Pair { cell: String::new(), seed, a, b }
        };
        let estimate = paired(&(0..pairs).map(pair).collect::<Vec<_>>(), 0.95).unwrap();
        let shown = (estimate.detectable(0.05), estimate.more(0.05, 0.05));
        assert!(estimate.interval.is_some() && shown.0.is_some(), "{estimate:?}");
    }
    begun.elapsed().as_secs_f64()
}
