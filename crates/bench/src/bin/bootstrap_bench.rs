//! Times the intervals of a comparison: 10,000 resamples × 50 metrics, BCa, two sides of 30 trials, by the
//! ratio of means and by that of medians.
//!
//! Bound: 2 s for the means.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks and stops at the first fault"
)]

use std::time::Instant;

use fsage_analysis::stats::Bootstrap;
use fsage_analysis::stats::quantile::{mean, median};

const METRICS: u32 = 50;
const TRIALS: u32 = 30;
const LIMIT_S: f64 = 2.0;

fn main() {
    println!("10,000 resamples × {METRICS} metrics, BCa, {TRIALS} trials per side:\n");
    println!("| statistic | seconds |\n| --- | --- |");
    let means = seconds(|values| mean(values).unwrap());
    println!("| ratio of means | {means:.2} |");
    println!("| ratio of medians | {:.2} |", seconds(|values| median(values).unwrap()));
    assert!(means < LIMIT_S, "the limit is {LIMIT_S} s");
}

fn seconds(centre: impl Fn(&[f64]) -> f64) -> f64 {
    let begun = Instant::now();
    for metric in 0..METRICS {
        let side = |shift: u32| -> Vec<f64> {
            (0..TRIALS).map(|i| f64::from(1_000 + shift + (i * 7_919 + metric * 31) % 101)).collect()
        };
        let bootstrap = Bootstrap { replicates: 10_000, seed: u64::from(metric), ..Bootstrap::default() };
        let interval = bootstrap.ratio(&side(100), &side(0), &centre).unwrap();
        assert!(interval.low > 1.0 && interval.high < 1.3, "{interval:?}");
    }
    begun.elapsed().as_secs_f64()
}
