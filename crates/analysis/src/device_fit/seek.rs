//! The seek curve from the times of reads after seeks.
//!
//! A read that follows a seek takes `overhead + seek(distance) + wait`, where the wait for the sector is uniform between nothing and a
//! turn of the platters: no distance says where the platters are. So what a read takes *on average* beyond half a turn is the
//! seek, and all reads together give the curve of the model (Ruemmler & Wilkes 1994): `a + b·√x` below the knee, linear
//! beyond, unbroken there, with `x` the distance as a share of the stroke. At a given knee it is linear in three constants, none
//! of them negative.
//!
//! The knee is not fitted: a few hundred reads, each with a wait of some milliseconds, do not tell it.

use super::resample;
use crate::stats::quantile::{count, quantile};

/// A read after a seek: the distance as a share of the stroke, and the time beyond overhead and transfer, in ns.
pub type Sample = (f64, f64);

/// The constants of the curve, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Seek over no distance.
    pub start: f64,
    /// Per root of the stroke, below the knee.
    pub root: f64,
    /// Per stroke, beyond it.
    pub slope: f64,
    /// The knee, as a share of the stroke.
    pub knee: f64,
}

impl Curve {
    /// The seek over a share of the stroke, in ns.
    #[must_use]
    pub fn at(&self, distance: f64) -> f64 {
        let near = distance.clamp(0.0, self.knee).sqrt();
        self.start + self.root * near + self.slope * (distance - self.knee).max(0.0)
    }

    /// The mean over all pairs of cylinders: a distance of `x` of the stroke has the density `2(1 − x)`.
    #[must_use]
    pub fn average(&self) -> f64 {
        let k = self.knee;
        let root = 4.0 / 3.0 * k * k.sqrt() - 4.0 / 5.0 * k * k * k.sqrt() + k.sqrt() * (1.0 - k).powi(2);
        // ∫ 2(1 − x)(x − k) from k to 1.
        self.start + self.root * root + self.slope * (1.0 - k).powi(3) / 3.0
    }

    /// The curve through the seek to the next track (a share `track` of the stroke), the average and the full stroke, as the model
    /// draws it; `None` when none rises.
    #[must_use]
    pub fn through([next, average, full]: [f64; 3], track: f64, knee: f64) -> Option<Self> {
        // With the root's slope chosen the other two constants follow; the average is linear in it.
        let of = |root: f64| {
            let start = next - root * track.sqrt();
            let slope = (full - start - root * knee.sqrt()) / (1.0 - knee);
            Self { start, root, slope, knee }
        };
        let (at_zero, at_one) = (of(0.0).average(), of(1.0).average());
        let curve = of((average - at_zero) / (at_one - at_zero));
        curve.is_one().then_some(curve)
    }

    /// Whether the model has such a curve: its straight part must not begin below nothing.
    fn is_one(&self) -> bool {
        let all = [self.start, self.root, self.slope];
        all.iter().all(|value| value.is_finite() && *value >= 0.0)
            && self.start + self.root * self.knee.sqrt() >= self.slope * self.knee
    }
}

/// What the samples say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeekFit {
    /// The curve.
    pub curve: Curve,
    /// Turn of the platters that the spread of the waits suggests, in ns; within some 5 % for 300 samples.
    pub turn_ns: f64,
}

/// The curve through the samples; `None` with fewer than 20. Without `turn_ns` the turn is that which the waits suggest.
#[must_use]
pub fn fit(samples: &[Sample], knee: f64, turn_ns: Option<f64>) -> Option<SeekFit> {
    if samples.len() < 20 {
        return None;
    }
    let mut kept = samples.to_vec();
    let mut found = None;
    for _ in 0..3 {
        // The mean wait is part of what is constant until the turn is known.
        let raw = least_squares(&kept, knee)?;
        let residuals: Vec<f64> = kept.iter().map(|(x, time)| time - raw.at(*x)).collect();
        let (low, high) = (quantile(&residuals, 0.05)?, quantile(&residuals, 0.95)?);
        let spread_ns = (high - low) / 0.9;
        let turn = turn_ns.unwrap_or(spread_ns);
        let half = turn / 2.0;
        let shifted: Vec<Sample> = kept.iter().map(|(x, time)| (*x, time - half)).collect();
        found = Some(SeekFit { curve: least_squares(&shifted, knee)?, turn_ns: spread_ns });
        // No wait is longer than a turn: what lies far beyond has waited for something else.
        let within = |(x, time): &Sample| (time - raw.at(*x)).abs() <= 0.5 * turn * 1.4;
        let next: Vec<Sample> = kept.iter().filter(|sample| within(sample)).copied().collect();
        if next.len() < 20 || next.len() == kept.len() {
            break;
        }
        kept = next;
    }
    found
}

/// 95 % intervals of the seek over no distance, of the average and of the full stroke.
#[must_use]
pub fn intervals(samples: &[Sample], curve: &Curve, turn_ns: Option<f64>) -> [(f64, f64); 3] {
    let of = |curve: &Curve| vec![curve.start, curve.average(), curve.at(1.0)];
    let found = resample::intervals(samples, &of(curve), |resample| {
        fit(resample, curve.knee, turn_ns).map(|fit| of(&fit.curve))
    });
    [found[0], found[1], found[2]]
}

/// The best curve with no negative constant: of every choice of constants that are not zero the one with the least squares.
fn least_squares(samples: &[Sample], knee: f64) -> Option<Curve> {
    let row = |x: f64| [1.0, x.clamp(0.0, knee).sqrt(), (x - knee).max(0.0)];
    let mut best: Option<(f64, Curve)> = None;
    for chosen in [
        [true, true, true],
        [true, true, false],
        [true, false, true],
        [false, true, true],
        [true, false, false],
    ] {
        let Some([start, root, slope]) = solve(samples, row, chosen) else { continue };
        let curve = Curve { start, root, slope, knee };
        if !curve.is_one() {
            continue;
        }
        let squares: f64 = samples.iter().map(|(x, time)| (time - curve.at(*x)).powi(2)).sum();
        if best.is_none_or(|(least, _)| squares < least) {
            best = Some((squares, curve));
        }
    }
    best.map(|(_, curve)| curve)
}

/// The normal equations of the chosen columns, by Gauss' elimination with pivots; the others are 0.
fn solve(samples: &[Sample], row: impl Fn(f64) -> [f64; 3], chosen: [bool; 3]) -> Option<[f64; 3]> {
    let mut matrix = [[0.0; 4]; 3];
    for (x, time) in samples {
        let columns = row(*x);
        for (line, left) in matrix.iter_mut().zip(columns) {
            for (cell, right) in line.iter_mut().zip(columns) {
                *cell += left * right;
            }
            line[3] += left * time;
        }
    }
    for (index, _) in chosen.iter().enumerate().filter(|(_, chosen)| !**chosen) {
        for line in &mut matrix {
            line[index] = 0.0;
        }
        matrix[index] = [0.0; 4];
        matrix[index][index] = count(samples.len());
    }
    for pivot in 0..3 {
        let largest =
            (pivot..3).max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, largest);
        if matrix[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        let line = matrix[pivot];
        for other in matrix.iter_mut().skip(pivot + 1) {
            let factor = other[pivot] / line[pivot];
            for (cell, value) in other.iter_mut().zip(line) {
                *cell -= factor * value;
            }
        }
    }
    let mut found = [0.0; 3];
    for pivot in (0..3).rev() {
        let known: f64 = (pivot + 1..3).map(|column| matrix[pivot][column] * found[column]).sum();
        found[pivot] = (matrix[pivot][3] - known) / matrix[pivot][pivot];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;

    const TURN: f64 = 8.33e6;

    fn samples(curve: &Curve, seed: u64, many: usize, outliers: f64) -> Vec<Sample> {
        let mut dice = Dice::new(seed);
        let mut sample = || {
            // As random places have it, and some of them far apart.
            let x =
                if dice.unit() < 0.8 { (dice.unit() - dice.unit()).abs() } else { 0.9 + 0.1 * dice.unit() };
            let late = if dice.unit() < outliers { 40e6 } else { 0.1e6 * dice.unit() };
            (x, curve.at(x) + TURN * dice.unit() + late)
        };
        (0..many).map(|_| sample()).collect()
    }

    #[test]
    fn the_average_is_that_of_the_curve() {
        let curve = Curve { start: 1.0, root: 5.0, slope: 9.0, knee: 0.195 };
        let steps = 100_000_u32;
        let mean: f64 = (0..steps)
            .map(|n| (f64::from(n) + 0.5) / f64::from(steps))
            .map(|x| 2.0 * (1.0 - x) * curve.at(x) / f64::from(steps))
            .sum();
        assert!((curve.average() - mean).abs() < 1e-3, "{} {mean}", curve.average());
    }

    #[test]
    fn a_curve_goes_through_its_three_points() {
        let curve = Curve { start: 0.2e6, root: 11e6, slope: 13e6, knee: 0.195 };
        let track = 1.0 / 165_799.0;
        let found = Curve::through([curve.at(track), curve.average(), curve.at(1.0)], track, 0.195).unwrap();
        for (found, wanted) in
            [(found.start, curve.start), (found.root, curve.root), (found.slope, curve.slope)]
        {
            assert!((found / wanted - 1.0).abs() < 1e-6, "{found} {wanted}");
        }
        // No rising curve has nearly all of the stroke as its average.
        assert_eq!(Curve::through([0.2e6, 16e6, 17e6], track, 0.195), None);
    }

    /// 200 drives with 500 seeks each: average and full stroke within 10 %, with and without a known turn.
    #[test]
    fn curves_are_recovered_under_noise() {
        let wanted = Curve { start: 0.3e6, root: 11e6, slope: 13e6, knee: 0.195 };
        for (turn, outliers) in [(Some(TURN), 0.0), (Some(TURN), 0.02), (None, 0.0)] {
            let mut missed = 0;
            for seed in 0..200 {
                let found = fit(&samples(&wanted, seed, 500, outliers), 0.195, turn).unwrap();
                let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.1;
                let right = near(found.curve.average(), wanted.average())
                    && near(found.curve.at(1.0), wanted.at(1.0))
                    && near(found.turn_ns, TURN);
                missed += u32::from(!right);
            }
            assert!(missed <= 2, "{turn:?}, outliers {outliers}: {missed} of 200 missed");
        }
    }

    #[test]
    fn intervals_cover_the_average() {
        let wanted = Curve { start: 0.3e6, root: 11e6, slope: 13e6, knee: 0.195 };
        let covered = (0..60)
            .filter(|seed| {
                let samples = samples(&wanted, *seed, 300, 0.0);
                let found = fit(&samples, 0.195, Some(TURN)).unwrap();
                // Answers are late by 0.05 ms on average.
                let (low, high) = intervals(&samples, &found.curve, Some(TURN))[1];
                (low..=high).contains(&(wanted.average() + 0.05e6))
            })
            .count();
        assert!((50..=60).contains(&covered), "{covered} of 60");
    }

    #[test]
    fn a_curve_that_the_model_does_not_have_is_not_given() {
        // Falls with the distance: the nearest rising one is flat.
        let samples: Vec<Sample> = (0..50).map(|n| count(n) / 49.0).map(|x| (x, 9e6 - 5e6 * x)).collect();
        let found = fit(&samples, 0.195, Some(0.0)).unwrap().curve;
        assert!(found.is_one() && found.root == 0.0 && found.slope == 0.0, "{found:?}");
        assert!(fit(&samples[..10], 0.195, None).is_none());
    }
}
