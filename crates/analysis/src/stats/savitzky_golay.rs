//! Smoothing by local polynomials: Savitzky & Golay 1964, for any order and odd window.
//!
//! The weights come from Gram polynomials (Gorry 1990, "General least-squares smoothing and differentiation
//! by the convolution method", eq. 8–11), which stay exact where normal equations of order 3 and window 101
//! would lose digits. Near the ends, where no centred window fits, the polynomial of the first (last) whole
//! window is evaluated off its centre, so that no point is lost or invented.
//!
//! Points count as equally spaced.

use super::quantile::count;

/// Order that reports use (Petrovič 2017 §6).
pub const ORDER: usize = 3;
/// Window that reports use (Petrovič 2017 §6).
pub const WINDOW: usize = 101;

/// A smoothed series.
#[derive(Debug, Clone, PartialEq)]
pub struct Smoothed {
    /// One value a point; the input itself when `window` is 0.
    pub values: Vec<f64>,
    /// Window that was used: as asked, or the largest odd one that fits; 0 when the series is too short
    /// for its order and was left alone.
    pub window: usize,
}

/// Smooths `values` with a polynomial of `order` over `window` points; an even window is made odd by adding
/// one, a window longer than the series is shrunk. Costs `values.len() × window` multiplications.
#[must_use]
pub fn smooth(values: &[f64], window: usize, order: usize) -> Smoothed {
    let fitting = if values.len() % 2 == 1 { values.len() } else { values.len().saturating_sub(1) };
    let window = (window | 1).min(fitting);
    if window <= order {
        return Smoothed { values: values.to_vec(), window: 0 };
    }
    let half = window / 2;
    let centre = weights(half, order, 0);
    let dot = |weights: &[f64], start: usize| -> f64 {
        weights.iter().zip(&values[start..]).map(|(weight, value)| weight * value).sum()
    };
    let last_start = values.len() - window;
    let smoothed = (0..values.len())
        .map(|at| {
            if at < half {
                dot(&weights(half, order, offset(at, half)), 0)
            } else if at - half > last_start {
                dot(&weights(half, order, offset(at - last_start, half)), last_start)
            } else {
                dot(&centre, at - half)
            }
        })
        .collect();
    Smoothed { values: smoothed, window }
}

/// Weights over a window of `2 half + 1` points that give the fitted polynomial's value `at` points from
/// the centre (−half..=half).
#[must_use]
pub fn weights(half: usize, order: usize, at: i32) -> Vec<f64> {
    let m = count(half);
    let here = gram(m, order, f64::from(at));
    let factors: Vec<f64> = (0..=order)
        .map(|k| (2.0 * count(k) + 1.0) * falling(2.0 * m, k) / falling(2.0 * m + count(k) + 1.0, k + 1))
        .collect();
    (0..=2 * half)
        .map(|i| {
            let there = gram(m, order, count(i) - m);
            factors.iter().zip(&here).zip(&there).map(|((factor, a), b)| factor * a * b).sum()
        })
        .collect()
}

/// Gram polynomials of degree 0..=order on the points −m..=m, at `x`.
fn gram(m: f64, order: usize, x: f64) -> Vec<f64> {
    let mut values = vec![1.0];
    for degree in 1..=order {
        let k = count(degree);
        let before = if degree >= 2 { values[degree - 2] } else { 0.0 };
        let scale = k * (2.0 * m - k + 1.0);
        values.push(
            (4.0 * k - 2.0) / scale * x * values[degree - 1] - (k - 1.0) * (2.0 * m + k) / scale * before,
        );
    }
    values
}

/// a (a − 1) … with `terms` factors.
fn falling(a: f64, terms: usize) -> f64 {
    (0..terms).map(|i| a - count(i)).product()
}

fn offset(at: usize, half: usize) -> i32 {
    let signed = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    signed(at) - signed(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_weights(half: usize, order: usize, norm: f64, expected: &[f64]) {
        for (got, want) in weights(half, order, 0).iter().zip(expected) {
            assert!((got - want / norm).abs() < 1e-12, "half {half} order {order}: {got} ≠ {want}/{norm}");
        }
    }

    #[test]
    fn weights_are_those_of_the_tables_of_1964() {
        // Savitzky & Golay 1964, table I (quadratic and cubic share it).
        assert_weights(2, 2, 35.0, &[-3.0, 12.0, 17.0, 12.0, -3.0]);
        assert_weights(2, 3, 35.0, &[-3.0, 12.0, 17.0, 12.0, -3.0]);
        assert_weights(3, 3, 21.0, &[-2.0, 3.0, 6.0, 7.0, 6.0, 3.0, -2.0]);
        assert_weights(4, 3, 231.0, &[-21.0, 14.0, 39.0, 54.0, 59.0, 54.0, 39.0, 14.0, -21.0]);
        // table II (quartic and quintic)
        assert_weights(3, 4, 231.0, &[5.0, -30.0, 75.0, 131.0, 75.0, -30.0, 5.0]);
    }

    #[test]
    fn a_cubic_passes_unchanged_through_the_default_filter() {
        let cubic: Vec<f64> =
            (0..500).map(f64::from).map(|x| 1e-4 * x * x * x - 0.03 * x * x + x + 5.0).collect();
        let smoothed = smooth(&cubic, WINDOW, ORDER);
        assert_eq!(smoothed.window, 101);
        for (got, want) in smoothed.values.iter().zip(&cubic) {
            assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "{got} ≠ {want}");
        }
    }

    #[test]
    fn short_series_shrink_the_window_and_say_so() {
        assert_eq!(smooth(&[1.0; 50], WINDOW, ORDER).window, 49);
        assert_eq!(smooth(&[1.0; 5], WINDOW, ORDER).window, 5);
        let left = smooth(&[3.0, 9.0, 4.0], WINDOW, ORDER);
        assert_eq!((left.window, left.values), (0, vec![3.0, 9.0, 4.0]));
        assert_eq!(smooth(&[], WINDOW, ORDER).values, Vec::<f64>::new());
    }

    #[test]
    fn noise_is_reduced() {
        let noisy: Vec<f64> = (0..1000).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let smoothed = smooth(&noisy, WINDOW, ORDER);
        assert!(smoothed.values[100..900].iter().all(|v| v.abs() < 0.05));
    }
}
