//! Values of one metric by cell, and the tests on them.
//!
//! Trials of different cells (file systems, sizes) are never mixed: pairs lie in one cell, and sides without
//! pairs are compared within each cell, every cell weighing the same. Only sides that share no cell are
//! compared as wholes.

use std::collections::{BTreeMap, BTreeSet};

use super::row::Scale;
use crate::stats::bootstrap::{BCA_UNITS, Bootstrap, Interval, Method};
use crate::stats::effect::cliffs_delta;
use crate::stats::mann_whitney::mann_whitney;
use crate::stats::quantile::{count, mean};
use crate::stats::student::p_of_interval;
use crate::stats::t_test::{TTest, critical, one_sample, welch};
use crate::stats::{hodges_lehmann, outlier};

/// Values by cell and repeat.
pub(super) type Values = Vec<((String, u32), f64)>;

/// A cell's values; partners stand at the same place when the sample is paired.
#[derive(Debug, Clone, Default)]
pub(super) struct Stratum {
    pub(super) a: Vec<f64>,
    pub(super) b: Vec<f64>,
}

/// What is compared of a metric.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// One a cell, none with an empty side.
    pub(super) strata: Vec<Stratum>,
    pub(super) paired: bool,
    /// Values of both sides that have no counterpart.
    pub(super) left_out: usize,
}

impl Sample {
    /// Pairs by cell and repeat where there are two of them or every value has its partner; else sides within
    /// cells. `None` when a side has no value.
    pub(super) fn new(a: &Values, b: &Values) -> Option<Self> {
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let (of_a, of_b): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (a.iter().cloned().collect(), b.iter().cloned().collect());
        let unique = of_a.len() == a.len() && of_b.len() == b.len();
        let both = of_a.keys().filter(|key| of_b.contains_key(*key)).count();
        let paired = unique && (both >= 2 || (both == a.len() && both == b.len()));
        let mut strata: BTreeMap<&str, Stratum> = BTreeMap::new();
        for (own, other, side) in [(a, &of_b, 0), (b, &of_a, 1)] {
            let mut own: Vec<_> = own.iter().filter(|(key, _)| !paired || other.contains_key(key)).collect();
            own.sort_by(|(one, _), (next, _)| one.cmp(next));
            for ((cell, _), value) in own {
                let stratum = strata.entry(cell).or_default();
                if side == 0 { stratum.a.push(*value) } else { stratum.b.push(*value) }
            }
        }
        let mut strata: Vec<Stratum> =
            strata.into_values().filter(|stratum| !stratum.a.is_empty() && !stratum.b.is_empty()).collect();
        if strata.is_empty() {
            let plain = |values: &Values| values.iter().map(|(_, value)| *value).collect();
            strata.push(Stratum { a: plain(a), b: plain(b) });
        }
        let used: usize = strata.iter().map(|stratum| stratum.a.len() + stratum.b.len()).sum();
        Some(Self { strata, paired, left_out: a.len() + b.len() - used })
    }

    pub(super) fn n_a(&self) -> usize {
        self.strata.iter().map(|stratum| stratum.a.len()).sum()
    }

    pub(super) fn n_b(&self) -> usize {
        self.strata.iter().map(|stratum| stratum.b.len()).sum()
    }

    /// `(A, B)` values of each cell.
    pub(super) fn sizes(&self) -> Vec<(usize, usize)> {
        self.strata.iter().map(|stratum| (stratum.a.len(), stratum.b.len())).collect()
    }

    pub(super) fn all_positive(&self) -> bool {
        self.strata.iter().flat_map(|stratum| stratum.a.iter().chain(&stratum.b)).all(|value| *value > 0.0)
    }

    /// Means of A and B: over pairs, or over the means of cells.
    pub(super) fn means(&self) -> Option<(f64, f64)> {
        let of = |take: fn(&Stratum) -> &Vec<f64>| {
            if self.paired {
                return mean(&self.strata.iter().flat_map(take).copied().collect::<Vec<_>>());
            }
            mean(&self.strata.iter().map(|stratum| mean(take(stratum))).collect::<Option<Vec<_>>>()?)
        };
        Some((of(|stratum| &stratum.a)?, of(|stratum| &stratum.b)?))
    }

    /// The same on a scale: logs of what is compared by ratio.
    pub(super) fn scaled(&self, scale: Scale) -> Self {
        let on = |values: &[f64]| -> Vec<f64> {
            values.iter().map(|value| if scale == Scale::Ratio { value.ln() } else { *value }).collect()
        };
        let strata = self.strata.iter().map(|stratum| Stratum { a: on(&stratum.a), b: on(&stratum.b) });
        Self { strata: strata.collect(), ..*self }
    }

    /// b − a of every pair.
    fn differences(&self) -> Vec<f64> {
        self.strata.iter().flat_map(|stratum| stratum.b.iter().zip(&stratum.a).map(|(b, a)| b - a)).collect()
    }

    /// Hodges and Lehmann's estimate of b − a: of the pairs, or of each cell and averaged.
    pub(super) fn hodges_lehmann(&self) -> Option<f64> {
        if self.paired {
            return hodges_lehmann::centre(&self.differences());
        }
        let shifts = self.strata.iter().map(|stratum| hodges_lehmann::shift(&stratum.b, &stratum.a));
        mean(&shifts.collect::<Option<Vec<_>>>()?)
    }

    /// Cliff's delta of B over A, of each cell and averaged; `None` with one trial per side.
    pub(super) fn cliffs_delta(&self) -> Option<f64> {
        let deltas = self.strata.iter().map(|stratum| cliffs_delta(&stratum.b, &stratum.a));
        mean(&deltas.collect::<Option<Vec<_>>>()?).filter(|_| self.n_a() > 1 && self.n_b() > 1)
    }

    /// p of Mann and Whitney; `None` over several cells, whose ranks cannot be mixed.
    pub(super) fn mann_whitney_p(&self) -> Option<f64> {
        let [stratum] = self.strata.as_slice() else { return None };
        mann_whitney(&stratum.b, &stratum.a).map(|test| test.p)
    }

    /// Values of A and B that lie far out in their cell.
    pub(super) fn outliers(&self) -> (usize, usize) {
        let of = |take: fn(&Stratum) -> &Vec<f64>| {
            self.strata.iter().map(|stratum| outlier::flagged(take(stratum)).len()).sum()
        };
        (of(|stratum| &stratum.a), of(|stratum| &stratum.b))
    }

    /// The t test of b − a. From [`BCA_UNITS`] values a side on its interval is drawn, save over several
    /// cells without pairs. Values without spread have no degrees of freedom.
    pub(super) fn test(&self, bootstrap: &Bootstrap) -> Option<TTest> {
        let average = |values: &[f64]| mean(values).unwrap_or(f64::NAN);
        let confidence = bootstrap.confidence;
        let (found, drawn) = match self.strata.as_slice() {
            _ if self.paired => {
                let differences = self.differences();
                let found = one_sample(&differences, confidence).or_else(|| self.alike())?;
                let enough = differences.len() >= BCA_UNITS;
                (found, enough.then(|| bootstrap.one(Method::Bca, &differences, average)).flatten())
            }
            [Stratum { a, b }] => {
                let found = welch(b, a, confidence).or_else(|| self.alike())?;
                let enough = a.len().min(b.len()) >= BCA_UNITS;
                let two = || bootstrap.two(Method::Bca, b, a, |b, a| average(b) - average(a));
                (found, enough.then(two).flatten())
            }
            _ => (self.stratified(confidence).or_else(|| self.alike())?, None),
        };
        Some(TTest { interval: drawn.unwrap_or(found.interval), ..found })
    }

    /// Welch's test within cells, averaged over them (Welch 1938; freedom by Satterthwaite 1946). When a cell
    /// has one value of a side, all cells and sides share one spread (analysis of variance, Fisher 1925).
    /// `None` without any.
    fn stratified(&self, confidence: f64) -> Option<TTest> {
        let groups: Vec<&Vec<f64>> =
            self.strata.iter().flat_map(|stratum| [&stratum.a, &stratum.b]).collect();
        let squares = |group: &[f64]| -> Option<f64> {
            let centre = mean(group)?;
            Some(group.iter().map(|value| (value - centre).powi(2)).sum())
        };
        let squares: Vec<f64> = groups.iter().map(|group| squares(group)).collect::<Option<_>>()?;
        let sizes: Vec<f64> = groups.iter().map(|group| count(group.len())).collect();
        let cells = count(self.strata.len());
        let (variance, freedom) = if sizes.iter().all(|n| *n > 1.0) {
            let parts = squares.iter().zip(&sizes).map(|(square, n)| (square / (n - 1.0) / n, n - 1.0));
            let (sum, weight) = parts.fold((0.0, 0.0), |(sum, weight), (part, freedom)| {
                (sum + part, weight + part.powi(2) / freedom)
            });
            (sum, sum.powi(2) / weight)
        } else {
            let freedom: f64 = sizes.iter().map(|n| n - 1.0).sum();
            let inverses: f64 = sizes.iter().map(|n| 1.0 / n).sum();
            (squares.iter().sum::<f64>() / freedom * inverses, freedom)
        };
        let (a, b) = self.means()?;
        let deviation = variance.sqrt() / cells;
        let largest = groups.iter().flat_map(|group| group.iter()).fold(0.0_f64, |top, x| top.max(x.abs()));
        // Sums of equal numbers leave rounding errors, which are no spread.
        if !deviation.is_finite() || deviation <= 1e-12 * largest.max(1e-12) {
            return None;
        }
        let estimate = b - a;
        let reach = critical(freedom, confidence)? * deviation;
        let interval = Interval { low: estimate - reach, high: estimate + reach };
        let p = p_of_interval(estimate, interval, Some(freedom), confidence)?;
        Some(TTest { estimate, interval, p, freedom })
    }

    /// Values without any spread: p is the chance that signs or sides fall so, and 1 where nothing differs or
    /// cells disagree on the direction. `None` with one trial per side, or a cell and side: nothing is then
    /// known of spread.
    fn alike(&self) -> Option<TTest> {
        let lone = self.sizes().iter().all(|(a, b)| a.max(b) < &2);
        if self.n_a().min(self.n_b()) < 2 || (lone && !self.paired) {
            return None;
        }
        let (a, b) = self.means()?;
        let none = (b - a).abs() < 1e-12;
        let estimate = if none { 0.0 } else { b - a };
        let shifts: BTreeSet<i8> = self
            .strata
            .iter()
            .map(|stratum| match mean(&stratum.b)? - mean(&stratum.a)? {
                shift if shift.abs() < 1e-12 => Some(0),
                shift => Some(if shift > 0.0 { 1 } else { -1 }),
            })
            .collect::<Option<_>>()?;
        let p = if none || shifts.len() > 1 { 1.0 } else { smallest_p(self.paired, &self.sizes(), 0) };
        let interval = Interval { low: estimate, high: estimate };
        Some(TTest { estimate, interval, p, freedom: 0.0 })
    }
}

/// Two-sided p when every pair has the same sign, or every trial of B lies on the same side of all of A in
/// its cell, with `more` repeats beyond the `sizes` of the cells: no smaller one is possible without spread.
pub(super) fn smallest_p(paired: bool, sizes: &[(usize, usize)], more: usize) -> f64 {
    let p = if paired {
        2.0 * sizes.iter().map(|(_, b)| 0.5_f64.powf(count(b + more))).product::<f64>()
    } else {
        let ways = |(a, b): &(usize, usize)| -> f64 {
            let (fewer, all) = (a.min(b) + more, a + b + 2 * more);
            (0..fewer).map(|i| count(all - i) / count(i + 1)).product()
        };
        2.0 / sizes.iter().map(ways).product::<f64>()
    };
    p.min(1.0)
}
