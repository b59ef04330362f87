//! The saturation point: the smallest load whose rate is within 5 % of the largest rate.
//!
//! It is one of the loads that were measured, so that its uncertainty is a range of them, not a standard error:
//!
//! - A load lies **below** the saturation point when some other load's rate is more than 5 % higher: a one-sided t test
//!   of each other load, Bonferroni over these. Loads are tested from the smallest on, and the first that is not shown
//!   to lie below ends the tests: it is the low end.
//! - A load is **at or above** it when every other rate is shown to be less than 5 % higher: an intersection of one-sided
//!   tests, each at the full level (Berger 1982, Technometrics 24). Loads are tested from that with the largest rate
//!   downwards, until one is not shown: the last that was is the high end; if none was, the largest load.
//!
//! Tests in a fixed order need no correction for their number (Maurer, Hothorn & Lehmacher 1995). Differences are
//! within seeds; their spread is that of all loads together (two-way analysis of variance, Fisher 1925), because a few
//! seeds say too little of each load's own. Each end is at half of the error. Simulated (`tests.rs`): the range holds
//! the true point at least as often as asked for, also when small loads are twice as noisy as large ones.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::Curve;
use crate::stats::quantile::count;

/// How far below the largest rate a rate may lie and still count as saturated, as a share of it.
pub const WITHIN: f64 = 0.05;
/// Loads from which on there is a saturation point.
pub const FEWEST: usize = 3;

/// Where a rate stops rising.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saturation {
    /// The smallest load whose rate is within 5 % of the largest.
    pub load: u64,
    /// The largest load that was measured.
    pub largest: u64,
    /// Smallest and largest load that it may be, at the confidence asked for; nothing with one seed or without spread.
    pub range: Option<(u64, u64)>,
}

impl Saturation {
    /// Whether it was reached. Where no smaller load is near the largest rate, the point may lie anywhere beyond.
    #[must_use]
    pub const fn is_reached(&self) -> bool {
        self.load < self.largest
    }
}

/// The saturation point of a curve; `None` with fewer than [`FEWEST`] loads.
#[must_use]
pub fn saturation(curve: &Curve, confidence: f64) -> Option<Saturation> {
    let (loads, means) = (curve.loads(), curve.means());
    let largest = loads.last().copied().filter(|_| loads.len() >= FEWEST)?;
    let top = means.iter().copied().reduce(f64::max)?;
    let point = means.iter().position(|mean| *mean >= top - margin())?;
    Some(Saturation { load: loads[point], largest, range: range(curve, &means, confidence) })
}

/// The log of the largest ratio to a rate that is within 5 % of it.
fn margin() -> f64 {
    -(1.0 - WITHIN).ln()
}

fn range(curve: &Curve, means: &[f64], confidence: f64) -> Option<(u64, u64)> {
    let others = count(means.len()) - 1.0;
    let freedom = (count(curve.seeds()) - 1.0) * others;
    let error = (2.0 * spread(curve, means)? / count(curve.seeds())).sqrt();
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let level = (1.0 - confidence) / 2.0;
    let (each, all) = (student.inverse_cdf(1.0 - level / others), student.inverse_cdf(1.0 - level));
    // How far the rate at one load exceeds that at another beyond the margin, in standard errors.
    let beyond = |higher: usize, lower: usize| (means[higher] - means[lower] - margin()) / error;
    let rest = |load: usize| (0..means.len()).filter(move |other| *other != load);
    let is_below = |load: &usize| rest(*load).any(|other| beyond(other, *load) > each);
    let is_shown = |load: &usize| rest(*load).all(|other| beyond(other, *load) < -all);
    let low = (0..means.len()).find(|load| !is_below(load))?;
    let fastest = (0..means.len()).max_by(|a, b| means[*a].total_cmp(&means[*b]))?;
    let high = (0..=fastest).rev().take_while(is_shown).last().unwrap_or(means.len() - 1);
    Some((curve.loads()[low], curve.loads()[high.max(low)]))
}

/// Variance of one rate's log that neither its seed nor its load explains; `None` with one seed or without any.
fn spread(curve: &Curve, means: &[f64]) -> Option<f64> {
    let loads = count(means.len());
    let whole = means.iter().sum::<f64>() / loads;
    let mut squares = 0.0;
    for seed in &curve.logs {
        let own = seed.iter().sum::<f64>() / loads;
        squares += seed.iter().zip(means).map(|(log, mean)| (log - own - mean + whole).powi(2)).sum::<f64>();
    }
    let variance = squares / ((count(curve.seeds()) - 1.0) * (loads - 1.0));
    // Sums of equal numbers leave rounding errors, which are no spread.
    (variance.is_finite() && variance > 1e-24).then_some(variance)
}
