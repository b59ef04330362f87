//! Power of a t test: what it can detect, and how many repeats it needs.
//!
//! The test statistic of a difference that is really there follows the noncentral t distribution (Johnson &
//! Welch 1940, Biometrika 31). Its shift is the difference divided by its standard error, so one number, the
//! shift at which the test finds 80 of 100 differences, answers both questions.
//!
//! A plan rests on a spread that is itself estimated. [`Plan::expected`] is the number at which the power is
//! 80 % on average over what the spread may really be (Julious & Owen 2006, *Statistics in Medicine* 25).
//! [`Plan::sure`] is the number at which it is 80 % even if the spread is at the upper end of its one-sided
//! 95 % interval (Browne 1995, *Statistics in Medicine* 14). Three repeats leave a wide gap between the two.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};
use statrs::function::gamma::ln_gamma;

use crate::stats::quantile::{count, index};

/// Chance of finding a difference for which repeats are planned and what is detectable is said.
pub const POWER: f64 = 0.8;
/// More repeats than this are not planned: there is then another question to ask.
pub const MOST: usize = 1_000;
/// Confidence in the upper end of the spread behind [`Plan::sure`].
const ASSURANCE: f64 = 0.95;
/// Intervals of Simpson's rule. With 160 the shift of [`shift`] is right to five digits.
const STEPS: u32 = 160;

/// Repeats in all that a comparison needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// With 80 % power on average over what the spread may be.
    pub expected: usize,
    /// With 80 % power even if the spread is larger than 95 of 100 such samples would let expect; `None` when
    /// that would be more than [`MOST`].
    pub sure: Option<usize>,
}

/// The two-sided critical value; `None` unless `freedom` is above 0 and `level` between 0 and 1.
#[must_use]
pub fn critical(freedom: f64, level: f64) -> Option<f64> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - level / 2.0);
    t.is_finite().then_some(t)
}

/// Chance that a noncentral t variable with `freedom` and `shift` is above `t`: with Z standard normal and S
/// the root of χ² ÷ freedom, (Z + shift) ÷ S > t, integrated over S by Simpson's rule.
#[must_use]
pub fn above(t: f64, freedom: f64, shift: f64) -> f64 {
    let Ok(normal) = Normal::new(0.0, 1.0) else { return f64::NAN };
    let reach = 8.0 / (2.0 * freedom).sqrt();
    let (low, high) = ((1.0 - reach).max(0.0), 1.0 + reach);
    let half = freedom / 2.0;
    let constant = 2.0_f64.ln() + half * half.ln() - ln_gamma(half);
    let step = (high - low) / f64::from(STEPS);
    let (mut sum, mut mass) = (0.0, 0.0);
    for i in 0..=STEPS {
        let s = (low + f64::from(i) * step).max(1e-300);
        let weight = if i == 0 || i == STEPS { 1.0 } else { 2.0 + 2.0 * f64::from(i % 2) };
        let density = weight * (constant + (freedom - 1.0) * s.ln() - half * s * s).exp();
        mass += density;
        sum += density * normal.cdf(shift - t * s);
    }
    // The mass would be 1 but for the rule's error, most of which it shares with the sum.
    if mass > 0.0 { (sum / mass).clamp(0.0, 1.0) } else { f64::NAN }
}

/// The shift (difference ÷ standard error) that a two-sided test at `level` finds with chance `power`, by
/// false position (the Illinois variant). Costs some ten integrals.
#[must_use]
pub fn shift(freedom: f64, level: f64, power: f64) -> Option<f64> {
    let t = critical(freedom, level)?;
    if !(power > level && power < 1.0) {
        return None;
    }
    let miss = |shift: f64| above(t, freedom, shift) - power;
    let (mut low, mut high) = (0.0, t + 2.0);
    let mut of_low = miss(low);
    let mut of_high = miss(high);
    while of_high < 0.0 {
        (low, of_low) = (high, of_high);
        high *= 1.5;
        of_high = miss(high);
        if !(high < 1e9 && of_high.is_finite()) {
            return None;
        }
    }
    for _ in 0..60 {
        let middle = (low * of_high - high * of_low) / (of_high - of_low);
        let of_middle = miss(middle);
        if of_middle.abs() < 1e-7 || high - low < 1e-7 * high {
            return Some(middle);
        }
        if of_middle > 0.0 {
            (high, of_high) = (middle, of_middle);
            of_low /= 2.0;
        } else {
            (low, of_low) = (middle, of_middle);
            of_high /= 2.0;
        }
    }
    Some(f64::midpoint(low, high))
}

/// What is known of the spread when repeats are planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pilot {
    /// Repeats there are, 2 or more.
    pub units: usize,
    /// Standard error of the difference with them.
    pub error: f64,
    /// Degrees of freedom of that.
    pub freedom: f64,
}

impl Pilot {
    /// Degrees of freedom with `units` repeats of the same design.
    fn freedom_at(&self, units: usize) -> f64 {
        self.freedom * (count(units) - 1.0) / (count(self.units) - 1.0)
    }

    /// Repeats in all at which a two-sided test at `level` finds a difference of `margin` with 80 % power;
    /// never fewer than there are. `None` when that is more than [`MOST`], or nothing is known of the spread.
    #[must_use]
    pub fn plan(&self, margin: f64, level: f64) -> Option<Plan> {
        let usable = self.units >= 2 && self.error > 0.0 && self.freedom > 0.0 && margin > 0.0;
        if !usable || !margin.is_finite() || !self.error.is_finite() {
            return None;
        }
        let spread = self.error * count(self.units).sqrt();
        let upper =
            spread * (self.freedom / ChiSquared::new(self.freedom).ok()?.inverse_cdf(1.0 - ASSURANCE)).sqrt();
        let expected = self.first(level, margin, spread, |units| {
            let t = critical(self.freedom_at(units), level)?;
            // Chance that (t − Z) ÷ S stays below what the difference is in measured standard errors.
            Some(1.0 - above(margin * count(units).sqrt() / spread, self.freedom, t) >= POWER)
        })?;
        let sure = self.first(level, margin, upper, |units| {
            Some(margin * count(units).sqrt() / upper >= shift(self.freedom_at(units), level, POWER)?)
        });
        Some(Plan { expected, sure: sure.map(|sure| sure.max(expected)) })
    }

    /// The first number of repeats that is enough, from what the normal distribution says upwards.
    fn first(
        &self,
        level: f64,
        margin: f64,
        spread: f64,
        enough: impl Fn(usize) -> Option<bool>,
    ) -> Option<usize> {
        let normal = Normal::new(0.0, 1.0).ok()?;
        let ideal = (normal.inverse_cdf(1.0 - level / 2.0) + normal.inverse_cdf(POWER)) * spread / margin;
        let from = self.units.max(index((ideal * ideal).floor()));
        // Steps grow, so that a far answer costs few integrals; it is then refined backwards.
        let (mut low, mut step) = (from, 1);
        if from > MOST {
            return None;
        }
        if enough(from)? {
            return Some(from);
        }
        let mut high = loop {
            let next = low + step;
            if next > MOST {
                return None;
            }
            if enough(next)? {
                break next;
            }
            (low, step) = (next, step * 2);
        };
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if enough(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_shift_it_is_students_t() {
        for freedom in [1.0, 2.0, 3.5, 10.0, 60.0, 500.0] {
            let student = StudentsT::new(0.0, 1.0, freedom).unwrap();
            for t in [0.0, 0.7, 2.0, 4.3] {
                let (own, theirs) = (above(t, freedom, 0.0), student.sf(t));
                assert!((own - theirs).abs() < 2e-5, "{freedom} {t}: {own} {theirs}");
            }
        }
    }

    #[test]
    fn the_power_of_tables() {
        // G*Power 3.1 and R's power.t.test: n = 10 pairs, effect 1, two-sided 5 %: 0.8031.
        let power = above(critical(9.0, 0.05).unwrap(), 9.0, 10.0_f64.sqrt());
        assert!((power - 0.8031).abs() < 5e-4, "{power}");
        // The shift at which 80 % are found falls to 1.96 + 0.84 with many degrees of freedom.
        let many = shift(5_000.0, 0.05, 0.8).unwrap();
        assert!((many - 2.8016).abs() < 2e-3, "{many}");
        let few = shift(2.0, 0.05, 0.8).unwrap();
        assert!((above(critical(2.0, 0.05).unwrap(), 2.0, few) - 0.8).abs() < 1e-5 && few > 5.0, "{few}");
        assert_eq!((shift(0.0, 0.05, 0.8), shift(3.0, 0.05, 1.0)), (None, None));
    }

    #[test]
    fn a_plan_asks_for_what_the_spread_says() {
        // A spread of 5 % known from many repeats: 5 % needs about (2.8)² = 8 and a little more for t.
        let known = Pilot { units: 400, error: 0.05 / 20.0, freedom: 399.0 };
        assert_eq!(known.plan(0.05, 0.05).unwrap().expected, 400);
        let pilot = Pilot { units: 3, error: 0.05 / 3.0_f64.sqrt(), freedom: 2.0 };
        let plan = pilot.plan(0.05, 0.05).unwrap();
        assert!((10..=40).contains(&plan.expected), "{plan:?}");
        assert!(plan.sure.unwrap() > 4 * plan.expected, "three repeats know little of the spread: {plan:?}");
        // A smaller level needs more, and what is out of reach is not forecast.
        assert!(pilot.plan(0.05, 0.001).unwrap().expected > plan.expected);
        assert_eq!(pilot.plan(0.000_1, 0.05), None);
        assert_eq!(Pilot { units: 1, ..pilot }.plan(0.05, 0.05), None);
        assert_eq!(Pilot { error: 0.0, ..pilot }.plan(0.05, 0.05), None);
        assert_eq!(Pilot { error: f64::NAN, ..pilot }.plan(0.05, 0.05), None);
    }

    #[test]
    fn a_plan_is_the_first_number_that_is_enough() {
        for (units, error) in [(2, 0.02), (3, 0.01), (5, 0.03), (12, 0.02)] {
            let pilot = Pilot { units, error, freedom: count(units) - 1.0 };
            let Some(plan) = pilot.plan(0.05, 0.05) else { continue };
            let spread = error * count(units).sqrt();
            let enough = |n: usize| {
                let t = critical(count(n) - 1.0, 0.05).unwrap();
                1.0 - above(0.05 * count(n).sqrt() / spread, pilot.freedom, t) >= POWER
            };
            let slow = (units..MOST).find(|n| enough(*n)).unwrap();
            assert_eq!(plan.expected, slow, "{units} {error}");
        }
    }
}
