//! Tracks of a hard disk from the rates of sequential reads, and which cylinder a byte is on.
//!
//! Tracks become shorter from the outer to the inner edge, linearly over the cylinders, as the model has them (in steps, its
//! zones). So the rate is a straight line over the *cylinder*, and the bytes in front of a cylinder are a parabola.

use fsage_model::quantity::as_f64;

use super::resample;
use crate::stats::quantile::{count, median};

/// A rate that deviates so many times more than the typical one is left out: something else was going on.
const OUTLYING: f64 = 5.0;

/// The line of rates over the cylinders.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLine {
    /// Bytes per second at the outer edge.
    pub outer: f64,
    /// Bytes per second at the inner edge.
    pub inner: f64,
}

impl RateLine {
    /// The rate at a share of the cylinders from outside.
    #[must_use]
    pub fn at(&self, cylinder: f64) -> f64 {
        self.outer + (self.inner - self.outer) * cylinder
    }

    /// The share of the cylinders in front of a share of the bytes.
    #[must_use]
    pub fn cylinder(&self, byte: f64) -> f64 {
        let ratio = (self.inner / self.outer.max(1.0)).clamp(0.05, 1.0);
        // Bytes in front of u: (u − (1 − ratio) u² / 2) / (1 − (1 − ratio) / 2).
        let (bend, wanted) = (1.0 - ratio, byte.clamp(0.0, 1.0) * f64::midpoint(1.0, ratio));
        if bend < 1e-9 {
            return byte.clamp(0.0, 1.0);
        }
        ((1.0 - (1.0 - 2.0 * bend * wanted).max(0.0).sqrt()) / bend).clamp(0.0, 1.0)
    }
}

/// A sequential read: where, as a share of the bytes, and its rate in bytes per second.
pub type Sample = (f64, f64);

/// The line through the rates, by least squares; `None` with fewer than three.
#[must_use]
pub fn fit(samples: &[Sample]) -> Option<RateLine> {
    let first = line(samples)?;
    let deviation = |(byte, rate): &Sample| (rate - first.at(first.cylinder(*byte))).abs();
    let deviations: Vec<f64> = samples.iter().map(deviation).collect();
    let most = OUTLYING * median(&deviations)?.max(first.outer * 1e-3);
    let kept: Vec<Sample> = samples.iter().filter(|sample| deviation(sample) <= most).copied().collect();
    line(&kept).or(Some(first))
}

/// The share by which the rates deviate from the line: the root of the mean square.
#[must_use]
pub fn spread(line: &RateLine, samples: &[Sample]) -> f64 {
    let part = |(byte, rate): &Sample| (rate / line.at(line.cylinder(*byte)).max(1.0) - 1.0).powi(2);
    (samples.iter().map(part).sum::<f64>() / count(samples.len()).max(1.0)).sqrt()
}

/// 95 % intervals of the rates at both edges.
#[must_use]
pub fn intervals(samples: &[Sample], line: &RateLine) -> [(f64, f64); 2] {
    let found = resample::intervals(samples, &[line.outer, line.inner], |resample| {
        let line = fit(resample)?;
        Some(vec![line.outer, line.inner])
    });
    [found[0], found[1]]
}

fn line(samples: &[Sample]) -> Option<RateLine> {
    if samples.len() < 3 {
        return None;
    }
    let mean = samples.iter().map(|(_, rate)| rate).sum::<f64>() / count(samples.len());
    let mut found = RateLine { outer: mean, inner: mean };
    // Where a byte is follows from the line, which follows from where the bytes are: a few rounds settle it.
    for _ in 0..8 {
        let points: Vec<Sample> = samples.iter().map(|(byte, rate)| (found.cylinder(*byte), *rate)).collect();
        let n = count(points.len());
        let (x, y) =
            (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
        let across: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
        if across < 1e-12 {
            return None;
        }
        let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / across;
        // No disk is faster inside.
        let slope = slope.min(0.0);
        found = RateLine { outer: y - slope * x, inner: y + slope * (1.0 - x) };
    }
    (found.inner > 0.0).then_some(found)
}

/// Bytes of the outermost and the innermost track of a disk with `zones` steps whose sustained rates are those of the line, where a
/// turn takes `turn_ns` and going over to the next track `switch_ns` on average.
#[must_use]
pub fn tracks(line: &RateLine, zones: u64, turn_ns: f64, switch_ns: f64) -> (f64, f64) {
    // The line goes through the middle of each zone.
    let half = 0.5 / as_f64(zones.max(1));
    let bytes = |rate: f64| rate * (turn_ns + switch_ns) / 1e9;
    let (outer, inner) = (bytes(line.at(half)), bytes(line.at(1.0 - half)));
    (outer, inner.min(outer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_cylinders_is_found_from_rates_over_bytes() {
        let wanted = RateLine { outer: 200e6, inner: 90e6 };
        let samples: Vec<Sample> =
            (0..20).map(|n| count(n) / 19.0).map(|byte| (byte, wanted.at(wanted.cylinder(byte)))).collect();
        let found = fit(&samples).unwrap();
        assert!((found.outer / wanted.outer - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.inner / wanted.inner - 1.0).abs() < 1e-3, "{found:?}");
        assert!(spread(&found, &samples) < 1e-3);
        // Half of the bytes are on fewer than half of the cylinders, which are the longer ones.
        assert!(wanted.cylinder(0.5) < 0.45 && wanted.cylinder(1.0) == 1.0 && wanted.cylinder(0.0) == 0.0);
        let mut disturbed = samples.clone();
        disturbed[7].1 /= 4.0;
        let found = fit(&disturbed).unwrap();
        assert!((found.outer / wanted.outer - 1.0).abs() < 0.02, "{found:?}");
        assert!(fit(&samples[..2]).is_none());
    }
}
