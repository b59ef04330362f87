//! Student's t interval of a mean (Student 1908), for as many units as a bootstrap cannot carry.
//!
//! Drawing three values with replacement never leaves their range, and that range misses the mean one time
//! in four; t intervals of few, roughly normal units (logs of ratios, here) keep their confidence.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::bootstrap::Interval;
use super::quantile::{count, mean};

/// Fewer units than this get a t interval, more are drawn.
pub const FEW: usize = 8;

/// Interval of the mean of `values` at `confidence` (0..1); `None` with fewer than two values.
#[must_use]
pub fn interval(values: &[f64], confidence: f64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values)?;
    let freedom = count(values.len()) - 1.0;
    let variance = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / freedom;
    let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.5 + confidence / 2.0);
    let reach = quantile * (variance / count(values.len())).sqrt();
    Some(Interval { low: centre - reach, high: centre + reach })
}

/// The same for values that follow each other in time: as wide as that of the n (1 - r) / (1 + r) independent
/// values they are worth, with r their correlation at lag 1 where it is positive (Bayley & Hammersley 1946).
/// From so few values r is itself uncertain.
#[must_use]
pub fn interval_of_series(values: &[f64], confidence: f64) -> Option<Interval> {
    let plain = interval(values, confidence)?;
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum();
    let r = if squares > 0.0 { (products / squares).clamp(0.0, 0.9) } else { 0.0 };
    let wider = ((1.0 + r) / (1.0 - r)).sqrt();
    Some(Interval {
        low: centre - (centre - plain.low) * wider,
        high: centre + (plain.high - centre) * wider,
    })
}

/// Interval of the mean of the groups' means with its degrees of freedom, from the variances within the
/// groups alone: the groups are taken as given (Welch 1938; freedom by Satterthwaite 1946). `None` when there
/// is no group or one has fewer than two values.
#[must_use]
pub fn of_means(groups: &[Vec<f64>], confidence: f64) -> Option<(Interval, f64)> {
    let (mut centre, mut variance, mut weight) = (0.0, 0.0, 0.0);
    let mut least = f64::INFINITY;
    for group in groups {
        let freedom = count(group.len()) - 1.0;
        let own = mean(group).filter(|_| freedom >= 1.0)?;
        let squares: f64 = group.iter().map(|value| (value - own).powi(2)).sum();
        let part = squares / freedom / count(group.len());
        centre += own / count(groups.len());
        variance += part;
        weight += part.powi(2) / freedom;
        least = least.min(freedom);
    }
    // Without any variance the freedom is 0 / 0; the smallest group's is the cautious answer.
    let freedom = if weight > 0.0 { variance.powi(2) / weight } else { least };
    let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.5 + confidence / 2.0);
    let reach = quantile * variance.sqrt() / count(groups.len());
    Some((Interval { low: centre - reach, high: centre + reach }, freedom))
}

/// Two-sided p of `estimate` being 0, read off its interval (Altman & Bland 2011): exact for a t interval,
/// given its degrees of freedom, and the normal approximation for a drawn one, by its end nearer to 0.
#[must_use]
pub fn p_of_interval(
    estimate: f64,
    interval: Interval,
    freedom: Option<f64>,
    confidence: f64,
) -> Option<f64> {
    let reach = if estimate > 0.0 { estimate - interval.low } else { interval.high - estimate };
    if estimate == 0.0 || reach <= 0.0 {
        return Some(if interval.contains(0.0) { 1.0 } else { 0.0 });
    }
    let ask = |quantile: f64, above: &dyn Fn(f64) -> f64| 2.0 * above(estimate.abs() / reach * quantile);
    let level = 0.5 + confidence / 2.0;
    let p = match freedom {
        Some(freedom) => {
            let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
            ask(t.inverse_cdf(level), &|x| t.sf(x))
        }
        None => {
            let normal = Normal::new(0.0, 1.0).ok()?;
            ask(normal.inverse_cdf(level), &|x| normal.sf(x))
        }
    };
    p.is_finite().then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_values_have_the_tabulated_interval() {
        // t(0.975, 2 degrees of freedom) = 4.303; s = 1, so the reach is 4.303 / sqrt 3.
        let found = interval(&[9.0, 10.0, 11.0], 0.95).unwrap();
        assert!((found.high - 10.0 - 4.302_652_7 / 3.0_f64.sqrt()).abs() < 1e-4, "{found:?}");
        assert!((found.low + found.high - 20.0).abs() < 1e-9);
        assert_eq!(interval(&[1.0], 0.95), None);
    }

    #[test]
    fn groups_are_taken_as_given() {
        // Equal variances of 1 in groups of three: variance of the mean of means 1/6, freedom 4, t = 2.776.
        let (found, freedom) = of_means(&[vec![0.0, 1.0, 2.0], vec![9.0, 10.0, 11.0]], 0.95).unwrap();
        assert!((freedom - 4.0).abs() < 1e-9);
        assert!((found.high - 5.5 - 2.776_445 / 6.0_f64.sqrt()).abs() < 1e-4, "{found:?}");
        assert_eq!(of_means(&[vec![1.0, 2.0], vec![1.0]], 0.95), None);
    }

    #[test]
    fn p_is_five_percent_where_the_interval_touches_zero() {
        for freedom in [None, Some(2.0), Some(30.0)] {
            let touching = Interval { low: 0.0, high: 2.0 };
            assert!((p_of_interval(1.0, touching, freedom, 0.95).unwrap() - 0.05).abs() < 1e-6);
        }
        let point = Interval { low: 1.0, high: 1.0 };
        assert_eq!(p_of_interval(1.0, point, Some(2.0), 0.95), Some(0.0));
    }
}
