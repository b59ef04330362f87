//! The grain of a metric: by how much one request more or less changes it.
//!
//! In model time repeats differ by a request or two, where the kernel's threads took turns differently. Three such
//! differences are often nearly equal, and Student's t takes their small spread for proof: 548 and 546, 535 and 533, 275
//! and 274 requests give p = 0.00008, which no correction for many rows catches. So a number of requests is taken to vary
//! by one from run to run (a variance of grain² for each trial), and the standard error of a difference is never less than
//! that makes it.
//!
//! Only what is counted in requests has a grain: their number, their mean size, and shares of them. Times and rates have
//! none: one request more hardly says how much longer something took.

use super::Evidence;
use super::quantile::mean;
use super::scale::Scale;

/// What is counted in requests, with the counter that tells how many there were.
const COUNTED: [(&str, &str); 8] = [
    (READS, READS),
    (WRITES, WRITES),
    ("mean_read_request", READS),
    ("mean_write_request", WRITES),
    ("sequential_read_share", READS),
    ("sequential_write_share", WRITES),
    ("dynamic_layout_score", READS),
    ("write_layout_score", WRITES),
];
const READS: &str = "read_requests";
const WRITES: &str = "write_requests";

/// Root mean square of the grains of the trials that have the metric, on the scale of its comparison; 0 where
/// it has none.
#[must_use]
pub fn of<'a>(trials: impl Iterator<Item = &'a Evidence>, metric: &str, scale: Scale) -> f64 {
    root_mean_square(trials.filter_map(|trial| of_trial(trial, metric, scale)))
}

/// Of grains; 0 without any.
#[must_use]
pub fn root_mean_square(grains: impl Iterator<Item = f64>) -> f64 {
    mean(&grains.map(|grain| grain * grain).collect::<Vec<_>>()).map_or(0.0, f64::sqrt)
}

/// Of one trial; `None` where it lacks the metric or its number of requests, or the metric is not counted in them. Rounds of
/// a trial vary together.
#[must_use]
pub fn of_trial(trial: &Evidence, metric: &str, scale: Scale) -> Option<f64> {
    let (measure, name) = metric.rsplit_once('.')?;
    let (_, counter) = COUNTED.into_iter().find(|(counted, _)| *counted == name)?;
    let series = trial.metrics.get(metric)?;
    let value = mean(&series.samples).filter(|value| value.is_finite() && *value > 0.0)?;
    let requests = mean(&trial.metrics.get(&format!("{measure}.{counter}"))?.samples)?;
    let one = if series.unit == "share" { 1.0 } else { value };
    let grain = one / requests;
    let grain = if scale == Scale::Ratio { grain / value } else { grain };
    Some(grain).filter(|grain| grain.is_finite() && requests >= 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::evidence::{Series, ratio};
    use super::*;

    fn trial(repeat: u32, metrics: &[(&str, &str, f64)]) -> Evidence {
        let series = |(name, unit, value): &(&str, &str, f64)| {
            (
                (*name).to_owned(),
                Series { unit: (*unit).to_owned(), samples: vec![*value], ..Series::default() },
            )
        };
        Evidence { repeat, metrics: metrics.iter().map(series).collect(), ..Evidence::default() }
    }

    #[test]
    fn a_grain_is_one_request_of_what_is_counted_in_them() {
        let one = trial(
            0,
            &[
                ("aged.large-file", "model s/GiB", 2.0),
                ("aged.large-file.read_requests", "count", 300.0),
                ("aged.large-file.write_requests", "count", 100.0),
                ("aged.large-file.sequential_write_share", "share", 0.5),
                ("aged.large-file.mean_read_request", "bytes", 4096.0),
                ("aged.large-file.queue_depth", "count", 1.0),
                ("layout.extents_per_file", "count", 1.0),
                ("grep.dynamic_layout_score", "share", 0.5),
            ],
        );
        let of = |metric: &str, scale| of_trial(&one, metric, scale);
        let near =
            |found: Option<f64>, wanted: f64| assert!((found.unwrap() - wanted).abs() < 1e-12, "{found:?}");
        near(of("aged.large-file.write_requests", Scale::Ratio), 1.0 / 100.0);
        near(of("aged.large-file.write_requests", Scale::Difference), 1.0);
        near(of("aged.large-file.sequential_write_share", Scale::Difference), 1.0 / 100.0);
        near(of("aged.large-file.sequential_write_share", Scale::Ratio), 1.0 / 50.0);
        near(of("aged.large-file.mean_read_request", Scale::Ratio), 1.0 / 300.0);
        // Averages that happen to be whole, times, and what lacks its counter.
        for name in [
            "aged.large-file.queue_depth",
            "layout.extents_per_file",
            "aged.large-file",
            "grep.dynamic_layout_score",
        ] {
            assert_eq!(of(name, Scale::Ratio), None, "{name}");
        }
    }

    fn side(name: &str, values: &[f64]) -> Vec<Evidence> {
        (0..).zip(values).map(|(repeat, value)| trial(repeat, &[(name, "count", *value)])).collect()
    }

    fn p(name: &str, a: &[f64], b: &[f64]) -> f64 {
        let (a, b) = (side(name, a), side(name, b));
        ratio(&a.iter().zip(&b).collect::<Vec<_>>(), name, 0.95).unwrap().p.unwrap()
    }

    #[test]
    fn a_request_or_two_in_each_of_three_repeats_are_no_proof() {
        let name = "large-file.write_requests";
        // Printed once: an A/A pair that failed by these numbers.
        let (a, b) = ([546.0, 533.0, 274.0], [548.0, 535.0, 275.0]);
        assert!(p(name, &a, &b) > 0.05 && p("large-file.files", &a, &b) < 0.0001);
        assert!(p(name, &[1001.0, 1003.0, 999.0], &[1002.0, 1004.0, 1000.0]) > 0.05);
        // A tenth more is one, and so is half as much again of few.
        assert!(p(name, &a, &[600.0, 586.0, 301.0]) < 0.001);
        assert!(p(name, &[20.0, 21.0, 22.0], &[30.0, 31.5, 33.1]) < 0.05);
        let whole = |by: f64| side("layout.extents_per_file", &[by, by + 0.01, by + 0.02]);
        let (a, b) = (whole(1.0), whole(1.29));
        assert!(
            ratio(&b.iter().zip(&a).collect::<Vec<_>>(), "layout.extents_per_file", 0.95).unwrap().p
                < Some(0.001)
        );
    }

    /// A/A pairs of counts that vary by a request as chance has it: how many are so sure that a correction for many rows
    /// leaves them.
    #[test]
    fn counts_that_differ_by_chance_are_never_sure() {
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            [-1.0, 0.0, 0.0, 1.0][usize::try_from(state >> 62).unwrap()]
        };
        let (mut known, mut unknown) = (0, 0);
        for round in 0..4_000 {
            let repeats = 3 + round % 3;
            let mut one =
                || (0..repeats).map(|repeat| 548.0 + f64::from(repeat) + draw()).collect::<Vec<_>>();
            let (a, b) = (one(), one());
            let is_sure = |name: &str| u32::from(p(name, &a, &b) < 0.001);
            known += is_sure("grep.read_requests");
            unknown += is_sure("grep.files");
        }
        assert!(known == 0 && unknown > 20, "{known} and {unknown} of 4,000");
    }
}
