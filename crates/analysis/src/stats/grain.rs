//! The grain of a metric: by how much one request more or less changes it.
//!
//! In model time repeats differ by a request or two, where the kernel's threads took turns differently. Three
//! such differences are often nearly equal, and Student's t takes their small spread for proof: 548 and 546,
//! 535 and 533, 275 and 274 requests give p = 0.00008. No spread can be smaller than rounding to whole
//! requests makes it (variance of a uniform distribution: grain² ÷ 12 for each trial), so that the standard
//! error of a difference is never taken to be less than that.
//!
//! - A whole number: one more of it.
//! - A share, of so many requests: one of them.
//! - Anything else of a measure that counted its requests (times, rates, sizes): one request's part of them.
//!   What names reads or writes goes by these alone.
//! - All others have none.

use super::Evidence;
use super::quantile::{count, mean};
use super::scale::Scale;

/// The counters of a measure.
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

/// Of one trial; `None` where it lacks the metric or anything to tell its grain by.
#[must_use]
pub fn of_trial(trial: &Evidence, metric: &str, scale: Scale) -> Option<f64> {
    let series = trial.metrics.get(metric)?;
    let value = mean(&series.samples).filter(|value| value.is_finite() && *value > 0.0)?;
    let is_whole = series.unit == "count" && series.samples.iter().all(|sample| sample.fract() == 0.0);
    let absolute = match &series.unit[..] {
        _ if is_whole => 1.0,
        "share" => 1.0 / requests(trial, metric)?,
        _ => value / requests(trial, metric)?,
    };
    let one = if scale == Scale::Ratio { absolute / value } else { absolute };
    // Rounds of a trial are averaged.
    Some(one / count(series.samples.len()).sqrt()).filter(|grain| grain.is_finite())
}

/// Requests of a round of the measure that a metric is of.
fn requests(trial: &Evidence, metric: &str) -> Option<f64> {
    let (measure, name) = metric.rsplit_once('.').unwrap_or((metric, ""));
    // The measure's own metric has its name alone: `large-file`, `aged.large-file`.
    let whole = trial.metrics.contains_key(&format!("{metric}.{READS}"));
    let (measure, name) = if whole { (metric, "") } else { (measure, name) };
    let told = |counter: &str| mean(&trial.metrics.get(&format!("{measure}.{counter}"))?.samples);
    let (reads, writes) = (told(READS), told(WRITES));
    let found = match (name.contains("read"), name.contains("write")) {
        (true, false) => reads?,
        (false, true) => writes?,
        _ => reads.into_iter().chain(writes).reduce(|a, b| a + b)?,
    };
    (found >= 1.0).then_some(found)
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
    fn a_grain_is_one_request_of_what_the_metric_is_of() {
        let one = trial(
            0,
            &[
                ("aged.large-file", "model s/GiB", 2.0),
                ("aged.large-file.read_requests", "count", 300.0),
                ("aged.large-file.write_requests", "count", 100.0),
                ("aged.large-file.sequential_write_share", "share", 0.5),
                ("aged.large-file.mean_read_request", "bytes", 4096.0),
                ("aged.large-file.queue_depth", "count", 12.5),
                ("age.elapsed_s", "s", 9.0),
            ],
        );
        let of = |metric: &str, scale| of_trial(&one, metric, scale);
        let near =
            |found: Option<f64>, wanted: f64| assert!((found.unwrap() - wanted).abs() < 1e-12, "{found:?}");
        near(of("aged.large-file", Scale::Ratio), 1.0 / 400.0);
        near(of("aged.large-file.write_requests", Scale::Ratio), 1.0 / 100.0);
        near(of("aged.large-file.write_requests", Scale::Difference), 1.0);
        near(of("aged.large-file.sequential_write_share", Scale::Difference), 1.0 / 100.0);
        near(of("aged.large-file.sequential_write_share", Scale::Ratio), 1.0 / 50.0);
        near(of("aged.large-file.mean_read_request", Scale::Ratio), 1.0 / 300.0);
        near(of("aged.large-file.queue_depth", Scale::Ratio), 1.0 / 400.0);
        assert_eq!((of("age.elapsed_s", Scale::Ratio), of("grep", Scale::Ratio)), (None, None));
    }

    #[test]
    fn a_request_more_in_each_of_three_repeats_is_no_proof() {
        // Printed once: an A/A pair that failed by these numbers.
        let name = "large-file.write_requests";
        let side = |values: [f64; 3]| -> Vec<Evidence> {
            (0..).zip(values).map(|(repeat, value)| trial(repeat, &[(name, "count", value)])).collect()
        };
        let p = |a: [f64; 3], b: [f64; 3]| {
            let (a, b) = (side(a), side(b));
            ratio(&a.iter().zip(&b).collect::<Vec<_>>(), name, 0.95).unwrap().p.unwrap()
        };
        let few = p([546.0, 533.0, 274.0], [548.0, 535.0, 275.0]);
        assert!((0.02..0.05).contains(&few), "{few}");
        assert!(p([1001.0, 1003.0, 999.0], [1002.0, 1004.0, 1000.0]) > 0.05);
        // A tenth more is one.
        let many = p([546.0, 533.0, 274.0], [600.0, 586.0, 301.0]);
        assert!(many < 0.001, "{many}");
    }

    /// A/A pairs of counts that differ by so many requests as chance has it: the share of those with p below 5 %.
    #[test]
    fn counts_that_differ_by_chance_rarely_differ() {
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            [-1.0, 0.0, 0.0, 1.0][usize::try_from(state >> 62).unwrap()]
        };
        let name = "grep.read_requests";
        let rows = 4_000;
        let mut called = 0;
        for _ in 0..rows {
            let mut side = || -> Vec<Evidence> {
                let bases = [548.0, 535.0, 275.0];
                (0..)
                    .zip(bases)
                    .map(|(repeat, base)| trial(repeat, &[(name, "count", base + draw())]))
                    .collect()
            };
            let (a, b) = (side(), side());
            let found = ratio(&a.iter().zip(&b).collect::<Vec<_>>(), name, 0.95).unwrap();
            called += u32::from(found.p.is_some_and(|p| p < 0.05));
        }
        let share = f64::from(called) / f64::from(rows);
        assert!(share < 0.06, "{share}");
    }
}
