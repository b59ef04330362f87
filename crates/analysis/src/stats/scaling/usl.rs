//! The Universal Scalability Law (Gunther 2007, *Guerrilla Capacity Planning*, chapters 4 to 6):
//!
//! X(n) = λ n ÷ (1 + σ (n − 1) + κ n (n − 1))
//!
//! X is the rate at load n, λ the rate at load 1, σ the share of the work that has to wait in turn (contention), κ what
//! each pair of requests, jobs or files costs the other (coherency). With κ = 0 it is Amdahl's law, and the rate
//! approaches λ ÷ σ; with κ > 0 it has its maximum at √((1 − σ) ÷ κ) and falls beyond (it is retrograde).
//!
//! - **Fit.** Non-linear least squares on logs (Levenberg 1944, Marquardt 1963) of the geometric mean over seeds at each
//!   load: relative errors are alike at all loads. It begins at the solution of the linear problem for n ÷ X.
//! - **Without bounds.** σ below 0 or above 1, or κ below 0, are no such law, but noise around a bound gives them. The fit
//!   is left free, because intervals of a free fit hold what they promise at a bound, too; what lies beyond a bound is
//!   reported as being at it, with the end of its interval. Where the interval excludes the bound (without one: where
//!   the coefficient changes the rate at the largest load by 10 %), the law does not hold.
//! - **Intervals.** Each seed's residuals move the coefficients by (JᵀJ)⁻¹Jᵀr; these are the seed's own coefficients,
//!   and their interval is that of the one estimator (Student's t over seeds). What makes a seed faster at all loads
//!   moves λ alone. Simulated coverage of the 95 % interval (`tests.rs`): 93 to 97 % for 3 to 12 seeds.
//! - **A maximum** is reported only where κ's interval lies above 0, there are six loads or more, and the measured rate
//!   rises to it and falls beyond it: the intervals of its changes from the smallest load to the one nearest to the maximum,
//!   and from there to the largest, lie above and below 0 (both have to, so neither needs a correction: Berger 1982). Each
//!   curve is tested by itself.
//!   Few loads of a curve that levels off sharply give κ above 0, with a maximum that nobody measured.
//! - **Lack of fit.** The curve's residuals are compared with how seeds differ beyond what a change of coefficients
//!   explains (F test). Where they are larger than that noise (p < 0.05) and than 2 % of the rate, or larger than 10 %
//!   of it whatever the noise, the law does not hold, and there are no coefficients: a device that serves N requests at
//!   once has a sharp knee that the law lacks.
//!
//! Known limits: fewer than four loads cannot contradict three coefficients, so that there is no fit. Intervals hold
//! noise between seeds, not what the law leaves out; the largest deviation stands beside them.

use std::fmt;

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::Curve;
use crate::stats::estimator::{self, Trial};
use crate::stats::interval::Interval;
use crate::stats::quantile::count;

/// Loads from which on a fit can fail, and so mean something.
pub const FEWEST: usize = 4;
/// Loads from which on there may be a maximum.
pub const FEWEST_OF_PEAK: usize = 6;
/// Deviation from the law, as a share of the rate, that never counts against it.
pub const NEAR: f64 = 0.02;
/// Deviation that always does.
pub const FAR: f64 = 0.10;
/// Level of the test of lack of fit.
const LEVEL: f64 = 0.05;
/// Steps of the search for the least squares, at most.
const STEPS: usize = 200;

/// λ, σ and κ, or how far each changes.
type Three = [f64; 3];

/// A number with its interval over seeds, where there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The value.
    pub value: f64,
    /// Its interval.
    pub interval: Option<Interval>,
}

/// σ or κ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficient {
    /// Of the fit without bounds.
    pub value: f64,
    /// Its interval.
    pub interval: Option<Interval>,
    /// The bound that the value lies beyond, within noise: the coefficient is at it.
    pub bound: Option<f64>,
}

/// A fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// Rate at load 1.
    pub lambda: Value,
    /// Contention, 0..=1.
    pub sigma: Coefficient,
    /// Coherency, 0 or more.
    pub kappa: Coefficient,
    /// Load of the largest rate, where κ's interval lies above 0 and the measured rate rises to it and falls beyond it.
    pub peak: Option<Value>,
    /// Largest deviation of the curve from the law at any load, as a share of the law's rate.
    pub deviation: f64,
    /// p of the test of lack of fit; nothing with one seed or without noise.
    pub p: Option<f64>,
}

/// Why a curve has no law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unfit {
    /// What the rate was measured over is no load of this kind.
    NoLoad,
    /// Too few loads to contradict three coefficients.
    Few {
        /// How many there are.
        loads: usize,
    },
    /// The search found no least squares.
    NotFound,
    /// The curve deviates from the best law by more than noise.
    Deviates {
        /// Largest deviation, as a share of the law's rate.
        share: f64,
        /// Where.
        load: u64,
    },
    /// Rates rise faster than the load: σ is below 0.
    Superlinear,
    /// The rate falls from the smallest load on: σ is above 1.
    Falls,
    /// Rates at large loads rise more than the law allows: κ is below 0.
    Rises,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLoad => f.write_str("no load: the law is about requests, jobs or streams at once"),
            Self::Few { loads } => write!(f, "too few loads: {loads}, at least {FEWEST} are needed"),
            Self::NotFound => f.write_str("no least squares found"),
            Self::Deviates { share, load } => {
                write!(f, "does not hold: off by {:.0} % at {load}, more than noise", share * 100.0)
            }
            Self::Superlinear => f.write_str("does not hold: the rate rises faster than the load"),
            Self::Falls => f.write_str("does not hold: the rate falls from the smallest load on"),
            Self::Rises => f.write_str("does not hold: the rate rises too much at large loads"),
        }
    }
}

/// Fits the law to a curve.
///
/// # Errors
/// Why it has none: too few loads, or the law does not hold.
pub fn fit(curve: &Curve, confidence: f64) -> Result<Law, Unfit> {
    let loads: Vec<f64> = curve.loads().iter().map(|load| fsage_model::quantity::as_f64(*load)).collect();
    if loads.len() < FEWEST {
        return Err(Unfit::Few { loads: loads.len() });
    }
    let axis = Axis::new(loads);
    let found = axis.least_squares(&curve.means()).ok_or(Unfit::NotFound)?;
    let seeds: Option<Vec<Moved>> = curve.logs.iter().map(|logs| axis.moved(&found, logs)).collect();
    let seeds = seeds.ok_or(Unfit::NotFound)?;
    let (deviation, p) = whether_it_fits(curve, &axis, &found, &seeds)?;
    let at = axis.natural(found);
    let over_seeds = |of: &dyn Fn(&Three) -> f64| {
        interval(seeds.iter().map(|moved| of(&axis.natural(moved.by))), confidence)
    };
    let between = |number: usize| over_seeds(&|moved: &Three| at[number] + moved[number]);
    let (sigma, kappa) = ((at[1], between(1)), (at[2], between(2)));
    let bounded = Bounded { axis: &axis, at };
    let sigma = bounded.coefficient(1, sigma, (0.0, Unfit::Superlinear), Some((1.0, Unfit::Falls)))?;
    let kappa = bounded.coefficient(2, kappa, (0.0, Unfit::Rises), None)?;
    let has_one = kappa.interval.is_some_and(|interval| interval.low > 0.0) && at[1] < 1.0;
    let log = has_one.then(|| ((1.0 - at[1]) / at[2]).ln() / 2.0);
    let peak = log.filter(|log| is_measured(curve, *log, confidence)).map(|log| {
        let moved = |own: &Three| log - (own[1] / (1.0 - at[1]) + own[2] / at[2]) / 2.0;
        Value { value: log.exp(), interval: over_seeds(&moved).map(|logs| logs.map(f64::exp)) }
    });
    let lambda = Value { value: at[0].exp(), interval: between(0).map(|logs| logs.map(f64::exp)) };
    Ok(Law { lambda, sigma, kappa, peak, deviation, p })
}

/// Interval of a number that each seed has; `None` with one seed or without spread.
fn interval(seeds: impl Iterator<Item = f64>, confidence: f64) -> Option<Interval> {
    let trial = |(seed, own): (u32, f64)| Trial { cell: String::new(), seed, rounds: vec![own] };
    estimator::level(&(0..).zip(seeds).map(trial).collect::<Vec<_>>(), confidence)?.interval
}

/// Whether the measured rate is shown to rise from the smallest load to the one nearest to the law's maximum (its log), and to
/// fall from there to the largest.
fn is_measured(curve: &Curve, peak: f64, confidence: f64) -> bool {
    let loads = curve.loads();
    let off = |place: &usize| (fsage_model::quantity::as_f64(loads[*place]).ln() - peak).abs();
    let nearest = (0..loads.len()).min_by(|a, b| off(a).total_cmp(&off(b)));
    let (Some(nearest), Some(last)) = (nearest, loads.len().checked_sub(1)) else { return false };
    let change =
        |from: usize, to: usize| interval(curve.logs.iter().map(|seed| seed[to] - seed[from]), confidence);
    loads.len() >= FEWEST_OF_PEAK
        && change(0, nearest).is_some_and(|rise| rise.low > 0.0)
        && change(nearest, last).is_some_and(|fall| fall.high < 0.0)
}

/// The largest deviation with p of the lack of fit.
fn whether_it_fits(
    curve: &Curve,
    axis: &Axis,
    found: &Three,
    seeds: &[Moved],
) -> Result<(f64, Option<f64>), Unfit> {
    let residuals = axis.residuals(found, &curve.means()).ok_or(Unfit::NotFound)?;
    let shares = residuals.iter().map(|residual| residual.exp_m1().abs());
    let (load, share) = shares
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(place, share)| (curve.loads()[place], share))
        .ok_or(Unfit::NotFound)?;
    let (units, rest) = (count(seeds.len()), count(residuals.len()) - 3.0);
    let lack: f64 = units * residuals.iter().map(|residual| residual.powi(2)).sum::<f64>();
    let noise: f64 = seeds
        .iter()
        .flat_map(|seed| seed.left.iter().zip(&residuals))
        .map(|(own, mean)| (own - mean).powi(2))
        .sum();
    // Equal seeds have no noise that a deviation could be.
    let is_equal = seeds.len() > 1 && noise <= 1e-24;
    let p = (seeds.len() > 1 && !is_equal).then(|| {
        let freedom = (units - 1.0) * rest;
        let test = FisherSnedecor::new(rest, freedom).ok()?;
        Some(test.sf((lack / rest) / (noise / freedom)))
    });
    let p = p.flatten();
    let beyond_noise = is_equal || p.is_some_and(|p| p < LEVEL);
    if share > FAR || (beyond_noise && share > NEAR) {
        return Err(Unfit::Deviates { share, load });
    }
    Ok((share, p))
}

/// What tells whether a coefficient is one.
struct Bounded<'a> {
    axis: &'a Axis,
    /// ln λ, σ and κ.
    at: Three,
}

impl Bounded<'_> {
    fn coefficient(
        &self,
        number: usize,
        (value, interval): (f64, Option<Interval>),
        (lowest, below): (f64, Unfit),
        highest: Option<(f64, Unfit)>,
    ) -> Result<Coefficient, Unfit> {
        let beyond = match highest {
            Some((highest, above)) if value > highest => Some((highest, above)),
            _ => (value <= lowest).then_some((lowest, below)),
        };
        let Some((bound, unfit)) = beyond else { return Ok(Coefficient { value, interval, bound: None }) };
        let mut at_bound = self.at;
        at_bound[number] = bound;
        let effect = (self.axis.divisor(&at_bound) / self.axis.divisor(&self.at)).ln().abs();
        let is_outside = match interval {
            Some(interval) => !interval.contains(bound) && effect > NEAR,
            None => effect > FAR,
        };
        if is_outside { Err(unfit) } else { Ok(Coefficient { value, interval, bound: Some(bound) }) }
    }
}

/// What a seed's residuals do to the coefficients (scaled as [`Axis`] has them), and what they leave.
struct Moved {
    by: Three,
    left: Vec<f64>,
}

/// The loads. Coefficients are scaled by the largest n − 1 and n (n − 1), so that all are of one size.
struct Axis {
    loads: Vec<f64>,
    /// n − 1 and n (n − 1) at each load, over the largest.
    terms: Vec<[f64; 2]>,
    largest: [f64; 2],
}

impl Axis {
    /// Loads in rising order, the largest above 1.
    fn new(loads: Vec<f64>) -> Self {
        let terms = |load: f64| [load - 1.0, load * (load - 1.0)];
        let largest = terms(loads.last().copied().unwrap_or(2.0));
        let scaled = |load: &f64| {
            let [one, two] = terms(*load);
            [one / largest[0], two / largest[1]]
        };
        Self { terms: loads.iter().map(scaled).collect(), loads, largest }
    }

    /// ln λ, σ and κ, or changes of them, without the scale.
    fn natural(&self, [log, sigma, kappa]: Three) -> Three {
        [log, sigma / self.largest[0], kappa / self.largest[1]]
    }

    /// 1 + σ (n − 1) + κ n (n − 1) at the largest load, of coefficients without the scale.
    fn divisor(&self, [_, sigma, kappa]: &Three) -> f64 {
        1.0 + sigma * self.largest[0] + kappa * self.largest[1]
    }

    /// 1 + σ (n − 1) + κ n (n − 1) at each load; `None` where one is not above 0.
    fn divisors(&self, [_, sigma, kappa]: &Three) -> Option<Vec<f64>> {
        let divisor = |[one, two]: &[f64; 2]| 1.0 + sigma * one + kappa * two;
        let all: Vec<f64> = self.terms.iter().map(divisor).collect();
        all.iter().all(|divisor| divisor.is_finite() && *divisor > 0.0).then_some(all)
    }

    /// Logs of the rates less those of the law.
    fn residuals(&self, at: &Three, logs: &[f64]) -> Option<Vec<f64>> {
        let law = self
            .divisors(at)?
            .into_iter()
            .zip(&self.loads)
            .map(|(divisor, load)| at[0] + (load / divisor).ln());
        Some(logs.iter().zip(law).map(|(log, law)| log - law).collect())
    }

    /// Derivatives of the law's log at each load.
    fn slopes(&self, at: &Three) -> Option<Vec<Three>> {
        let divisors = self.divisors(at)?;
        Some(self.terms.iter().zip(divisors).map(|([one, two], by)| [1.0, -one / by, -two / by]).collect())
    }

    /// Coefficients (scaled) of the least squares of the logs; `None` where there are none.
    fn least_squares(&self, logs: &[f64]) -> Option<Three> {
        let squares = |at: &Three| -> Option<f64> {
            let sum: f64 = self.residuals(at, logs)?.iter().map(|residual| residual.powi(2)).sum();
            sum.is_finite().then_some(sum)
        };
        let mean =
            logs.iter().zip(&self.loads).map(|(log, load)| log - load.ln()).sum::<f64>() / count(logs.len());
        let mut at = self.linear(logs).filter(|at| squares(at).is_some()).unwrap_or([mean, 1.0, 0.0]);
        let mut least = squares(&at)?;
        let mut damping = 1e-3;
        for _ in 0..STEPS {
            let residuals = self.residuals(&at, logs)?;
            let step = step(&self.slopes(&at)?, &residuals, damping)?;
            let next = [at[0] + step[0], at[1] + step[1], at[2] + step[2]];
            match squares(&next) {
                Some(sum) if sum <= least => {
                    (at, least, damping) = (next, sum, (damping / 10.0).max(1e-15));
                    if step.iter().zip(&at).all(|(step, at)| step.abs() <= 1e-12 * (1.0 + at.abs())) {
                        break;
                    }
                }
                // No smaller step is left: this is the least, but for rounding.
                _ if damping > 1e9 => break,
                _ => damping *= 10.0,
            }
        }
        Some(at)
    }

    /// The linear problem n ÷ X = (1 + σ (n − 1) + κ n (n − 1)) ÷ λ, weighted for relative errors.
    fn linear(&self, logs: &[f64]) -> Option<Three> {
        let inverse: Vec<f64> = logs.iter().zip(&self.loads).map(|(log, load)| load / log.exp()).collect();
        let rows: Vec<Three> =
            self.terms.iter().zip(&inverse).map(|([one, two], by)| [1.0 / by, one / by, two / by]).collect();
        let [one, sigma, kappa] = step(&rows, &vec![1.0; rows.len()], 0.0)?;
        (one > 0.0).then(|| [-one.ln(), sigma / one, kappa / one])
    }

    /// What the residuals of a seed's logs do to the coefficients.
    fn moved(&self, at: &Three, logs: &[f64]) -> Option<Moved> {
        let (residuals, slopes) = (self.residuals(at, logs)?, self.slopes(at)?);
        let by = step(&slopes, &residuals, 0.0)?;
        let explained = |slope: &Three| slope.iter().zip(&by).map(|(slope, by)| slope * by).sum::<f64>();
        let left =
            residuals.iter().zip(&slopes).map(|(residual, slope)| residual - explained(slope)).collect();
        Some(Moved { by, left })
    }
}

/// (JᵀJ + damping · diag(JᵀJ))⁻¹ Jᵀr by elimination with the largest pivots; `None` where that is singular.
fn step(slopes: &[Three], residuals: &[f64], damping: f64) -> Option<Three> {
    let mut rows = [[0.0; 4]; 3];
    for (slope, residual) in slopes.iter().zip(residuals) {
        for (row, own) in rows.iter_mut().zip(slope) {
            row.iter_mut().zip(slope.iter().chain([residual])).for_each(|(sum, other)| *sum += own * other);
        }
    }
    for (number, row) in rows.iter_mut().enumerate() {
        row[number] *= 1.0 + damping;
    }
    for column in 0..3 {
        let pivot = (column..3).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let own = rows[column];
        if own[column].abs() < 1e-12 {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(number, _)| *number != column) {
            let factor = row[column] / own[column];
            row.iter_mut().zip(own).for_each(|(entry, pivot)| *entry -= factor * pivot);
        }
    }
    let found = [0, 1, 2].map(|number| rows[number][3] / rows[number][number]);
    found.iter().all(|value| value.is_finite()).then_some(found)
}
