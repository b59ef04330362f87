//! Bootstrap intervals (Efron & Tibshirani 1993): percentile and BCa (bias-corrected and accelerated),
//! of one sample or of two.
//!
//! What is drawn is always the sampling *unit*: a repeat where there are repeats, else a block of
//! neighbouring ticks or probes of one trial (non-overlapping blocks, Carlstein 1986), because neighbours
//! are alike and drawing them one by one would give intervals that are far too narrow. With few units
//! every bootstrap interval is too narrow; results therefore carry their number of units.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::bca::{self, Degenerate};
use super::quantile::quantile_sorted;

/// From so many units on BCa is used by [`Bootstrap::best`]: its acceleration is a jackknife estimate that
/// a handful of units cannot carry.
pub const BCA_UNITS: usize = 8;

/// A confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// How an interval is read off the replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Quantiles of the replicates.
    Percentile,
    /// Bias-corrected and accelerated (Efron 1987).
    Bca,
}

/// An interval with how it was read off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// The interval.
    pub interval: Interval,
    /// Why it is a percentile interval although BCa was asked for.
    pub fallback: Option<Degenerate>,
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Replicates (at least 100 for a 95 % interval to mean anything).
    pub replicates: u32,
    /// Confidence, 0..1.
    pub confidence: f64,
    /// Seed.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { replicates: 2_000, confidence: 0.95, seed: 1964 }
    }
}

impl Bootstrap {
    /// Interval of a statistic of one sample; `None` with fewer than two units or when the statistic is
    /// not finite.
    pub fn one<T: Copy>(
        &self,
        method: Method,
        units: &[T],
        statistic: impl Fn(&[T]) -> f64,
    ) -> Option<Interval> {
        self.two(method, units, &[], |a, _: &[T]| statistic(a))
    }

    /// Interval of a statistic of two samples drawn independently. An empty second sample is left alone.
    pub fn two<T: Copy>(
        &self,
        method: Method,
        a: &[T],
        b: &[T],
        statistic: impl Fn(&[T], &[T]) -> f64,
    ) -> Option<Interval> {
        self.drawn(method, a, b, statistic).map(|drawn| drawn.interval)
    }

    /// As [`Bootstrap::two`], telling how the interval was read off.
    pub fn drawn<T: Copy>(
        &self,
        method: Method,
        a: &[T],
        b: &[T],
        statistic: impl Fn(&[T], &[T]) -> f64,
    ) -> Option<Drawn> {
        if a.len() < 2 || b.len() == 1 {
            return None;
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let (mut drawn_a, mut drawn_b) = (a.to_vec(), b.to_vec());
        let mut replicates = Vec::with_capacity(usize::try_from(self.replicates).unwrap_or(0));
        for _ in 0..self.replicates {
            draw(&mut random, a, &mut drawn_a);
            draw(&mut random, b, &mut drawn_b);
            let value = statistic(&drawn_a, &drawn_b);
            if value.is_finite() {
                replicates.push(value);
            }
        }
        // A statistic that often cannot be computed has no interval worth the name.
        if replicates.len() * 10 < usize::try_from(self.replicates).unwrap_or(usize::MAX) * 9 {
            return None;
        }
        replicates.sort_by(f64::total_cmp);
        let tail = (1.0 - self.confidence) / 2.0;
        let percentile = (tail, 1.0 - tail);
        let ((low, high), fallback) = match method {
            Method::Percentile => (percentile, None),
            Method::Bca => {
                let left_out = jackknife(a, |rest| statistic(rest, b));
                let left_out: Vec<f64> = left_out.chain(jackknife(b, |rest| statistic(a, rest))).collect();
                match bca::levels(&replicates, statistic(a, b), &left_out, tail) {
                    Ok(levels) => (levels, None),
                    Err(reason) => (percentile, Some(reason)),
                }
            }
        };
        let interval =
            Interval { low: quantile_sorted(&replicates, low)?, high: quantile_sorted(&replicates, high)? };
        Some(Drawn { interval, fallback })
    }

    /// BCa where there are enough units for it ([`BCA_UNITS`] a sample), else percentile.
    #[must_use]
    pub const fn best(a: usize, b: usize) -> Method {
        if a >= BCA_UNITS && (b >= BCA_UNITS || b == 0) { Method::Bca } else { Method::Percentile }
    }

    /// Interval of `centre(numerator) / centre(denominator)`, drawn independently.
    pub fn ratio(
        &self,
        numerator: &[f64],
        denominator: &[f64],
        centre: impl Fn(&[f64]) -> f64,
    ) -> Option<Interval> {
        if denominator.is_empty() {
            return None;
        }
        let method = Self::best(numerator.len(), denominator.len());
        self.two(method, numerator, denominator, |a, b| centre(a) / centre(b))
    }

    /// Interval of `centre(numerators) / centre(denominators)` of pairs, drawn pair by pair.
    pub fn ratio_paired(&self, pairs: &[(f64, f64)], centre: impl Fn(&[f64]) -> f64) -> Option<Interval> {
        self.one(Self::best(pairs.len(), 0), pairs, |drawn| {
            let (a, b): (Vec<f64>, Vec<f64>) = drawn.iter().copied().unzip();
            centre(&a) / centre(&b)
        })
    }
}

fn draw<T: Copy>(random: &mut Xoshiro256PlusPlus, from: &[T], into: &mut [T]) {
    let bound = u64::try_from(from.len()).unwrap_or(u64::MAX);
    for slot in into {
        // Multiply-shift (Lemire 2019) without rejection: biased by less than len / 2^64.
        let wide = u128::from(random.next_u64()) * u128::from(bound);
        *slot = from[usize::try_from(wide >> 64).unwrap_or(0)];
    }
}

fn jackknife<T: Copy>(units: &[T], statistic: impl Fn(&[T]) -> f64) -> impl Iterator<Item = f64> {
    (0..units.len()).map(move |skip| {
        let rest: Vec<T> =
            units.iter().enumerate().filter(|(i, _)| *i != skip).map(|(_, unit)| *unit).collect();
        statistic(&rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::quantile::{mean, median};
    use statrs::distribution::{ContinuousCDF, Normal};

    fn average(samples: &[f64]) -> f64 {
        mean(samples).unwrap()
    }

    /// Normal samples by inversion, seeded.
    fn normals(random: &mut Xoshiro256PlusPlus, n: usize, centre: f64, deviation: f64) -> Vec<f64> {
        let normal = Normal::new(centre, deviation).unwrap();
        (0..n)
            .map(|_| {
                let unit = fsage_model::quantity::as_f64(random.next_u64() >> 11) / 9_007_199_254_740_992.0;
                normal.inverse_cdf(unit.clamp(1e-12, 1.0 - 1e-12))
            })
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let bootstrap = Bootstrap::default();
        let samples = [1.0, 2.0, 3.0, 4.0, 10.0];
        let first = bootstrap.one(Method::Bca, &samples, average);
        assert_eq!(first, bootstrap.one(Method::Bca, &samples, average));
        let other = Bootstrap { seed: 2, ..bootstrap };
        assert_ne!(first, other.one(Method::Bca, &samples, average));
    }

    #[test]
    fn a_ninety_five_percent_interval_covers_about_that_often() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for method in [Method::Percentile, Method::Bca] {
            let covered = (0..400)
                .filter(|round| {
                    let samples = normals(&mut random, 40, 10.0, 3.0);
                    let bootstrap = Bootstrap { replicates: 400, confidence: 0.95, seed: *round };
                    bootstrap.one(method, &samples, average).unwrap().contains(10.0)
                })
                .count();
            assert!((364..=392).contains(&covered), "{method:?} covered {covered} of 400");
        }
    }

    #[test]
    fn ratio_intervals_cover_the_true_ratio() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let covered = (0..300)
            .filter(|round| {
                let a = normals(&mut random, 30, 20.0, 4.0);
                let b = normals(&mut random, 30, 10.0, 2.0);
                let bootstrap = Bootstrap { replicates: 400, confidence: 0.95, seed: *round };
                bootstrap.ratio(&a, &b, average).unwrap().contains(2.0)
            })
            .count();
        assert!((270..=297).contains(&covered), "covered {covered} of 300");
    }

    #[test]
    fn pairing_narrows_what_varies_together() {
        let pairs: Vec<(f64, f64)> =
            (1..=12).map(f64::from).map(|x| (2.0 * x + 0.01 * (x % 3.0), x)).collect();
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let bootstrap = Bootstrap::default();
        let paired = bootstrap.ratio_paired(&pairs, average).unwrap();
        let unpaired = bootstrap.ratio(&a, &b, average).unwrap();
        assert!(paired.high - paired.low < 0.1 * (unpaired.high - unpaired.low));
        assert!(paired.contains(2.0015) || paired.low > 2.0);
    }

    #[test]
    fn bca_shifts_towards_the_long_tail() {
        let skewed: Vec<f64> = (1..=30).map(|i| (f64::from(i) / 6.0).exp()).collect();
        let bootstrap = Bootstrap::default();
        let percentile = bootstrap.one(Method::Percentile, &skewed, average).unwrap();
        let bca = bootstrap.one(Method::Bca, &skewed, average).unwrap();
        assert!(bca.low > percentile.low && bca.high > percentile.high);
    }

    #[test]
    fn what_cannot_be_corrected_is_a_percentile_interval_with_its_reason() {
        // A statistic that is larger for the sample itself than for anything drawn from it.
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let largest = |s: &[f64]| s.iter().copied().fold(f64::MIN, f64::max);
        let smaller_when_drawn = |s: &[f64], _: &[f64]| {
            if s == samples { largest(s) + 1.0 } else { largest(s) }
        };
        let drawn = Bootstrap::default().drawn(Method::Bca, &samples, &[], smaller_when_drawn).unwrap();
        assert_eq!(drawn.fallback, Some(Degenerate::OutsideReplicates));
        let plain = Bootstrap::default().one(Method::Percentile, &samples, largest).unwrap();
        assert_eq!(drawn.interval, plain);
    }

    #[test]
    fn too_few_units_have_no_interval() {
        let bootstrap = Bootstrap::default();
        assert_eq!(bootstrap.one(Method::Percentile, &[1.0], average), None);
        assert_eq!(bootstrap.ratio(&[1.0, 2.0], &[], average), None);
        assert_eq!(bootstrap.ratio(&[1.0, 2.0], &[1.0], average), None);
        // a denominator of zeros is not finite
        assert_eq!(bootstrap.ratio(&[1.0, 2.0], &[0.0, 0.0], average), None);
        assert!(bootstrap.ratio(&[1.0, 2.0], &[1.0, 3.0], |s| median(s).unwrap()).is_some());
    }
}
