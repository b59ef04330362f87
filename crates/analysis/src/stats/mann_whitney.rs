//! Whether one sample tends to lie above another, by ranks alone (Mann & Whitney 1947, "On a test of whether
//! one of two random variables is stochastically larger than the other", Ann. Math. Statist. 18).
//!
//! Without ties and with at most [`EXACT`] values per side, p comes from counting every arrangement; else
//! from the normal approximation with the correction for ties and for continuity (Lehmann 1975, §1.2–1.4).

use statrs::distribution::{ContinuousCDF, Normal};

use super::quantile::{count, index};

/// Values a side up to which arrangements are counted: C(40, 20) is still whole in an `f64`.
pub const EXACT: usize = 20;

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which `a` is larger, ties counting half: 0..=a·b.
    pub u: f64,
    /// Chance of a U at least as far from its mean when both come from one distribution, two-sided.
    pub p: f64,
    /// Whether arrangements were counted.
    pub exact: bool,
}

/// Compares `a` with `b`; `None` when one is empty or holds something that is not a number.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|value| value.is_nan()) {
        return None;
    }
    let wins = |x: &f64, y: &f64| {
        if x > y {
            1.0
        } else if x < y {
            0.0
        } else {
            0.5
        }
    };
    let u: f64 = a.iter().map(|x| b.iter().map(|y| wins(x, y)).sum::<f64>()).sum();
    let ties = ties(a, b);
    let exact = ties == 0.0 && a.len() <= EXACT && b.len() <= EXACT;
    let p = if exact { counted(u, a.len(), b.len()) } else { approximated(u, a.len(), b.len(), ties)? };
    Some(MannWhitney { u, p, exact })
}

/// Σ (t³ − t) over groups of t equal values.
fn ties(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    all.chunk_by(|x, y| x == y).map(|group| count(group.len()).powi(3) - count(group.len())).sum()
}

fn counted(u: f64, a: usize, b: usize) -> f64 {
    let ways = arrangements(a, b);
    let all: f64 = ways.iter().sum();
    let at = index(u);
    let below: f64 = ways[..=at].iter().sum();
    let above: f64 = ways[at..].iter().sum();
    (2.0 * below.min(above) / all).min(1.0)
}

/// Arrangements of `a` and `b` values by their U: the coefficients of the Gaussian binomial
/// Π (1 − x^(b+i)) / (1 − x^i), i = 1..=a.
fn arrangements(a: usize, b: usize) -> Vec<f64> {
    let mut ways = vec![0.0; a * b + 1];
    ways[0] = 1.0;
    for i in 1..=a {
        for u in (b + i..ways.len()).rev() {
            ways[u] -= ways[u - b - i];
        }
        for u in i..ways.len() {
            ways[u] += ways[u - i];
        }
    }
    ways
}

fn approximated(u: f64, a: usize, b: usize, ties: f64) -> Option<f64> {
    let (a, b) = (count(a), count(b));
    let all = a + b;
    let variance = a * b / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let away = ((u - a * b / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    Some((2.0 * Normal::new(0.0, 1.0).ok()?.cdf(-away)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two-sided p by trying every way to choose which of the values are `a`'s.
    fn enumerated(a: &[f64], b: &[f64]) -> f64 {
        let all: Vec<f64> = a.iter().chain(b).copied().collect();
        let u_of = |mask: u32| {
            let (inside, outside): (Vec<usize>, Vec<usize>) =
                (0..all.len()).partition(|i| mask & (1 << i) != 0);
            inside.iter().map(|&i| outside.iter().filter(|&&j| all[i] > all[j]).count()).sum::<usize>()
        };
        let seen = u_of((1 << a.len()) - 1);
        let us: Vec<usize> = (0..1_u32 << all.len())
            .filter(|mask| usize::try_from(mask.count_ones()).unwrap() == a.len())
            .map(u_of)
            .collect();
        let share = |n: usize| count(n) / count(us.len());
        let below = share(us.iter().filter(|u| **u <= seen).count());
        let above = share(us.iter().filter(|u| **u >= seen).count());
        (2.0 * below.min(above)).min(1.0)
    }

    #[test]
    fn complete_separation_has_the_smallest_p() {
        // Of C(6, 3) = 20 arrangements one is as extreme on either side.
        let test = mann_whitney(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((test.u, test.exact), (9.0, true));
        assert!((test.p - 0.1).abs() < 1e-12);
        assert_eq!(arrangements(20, 20).iter().sum::<f64>(), 137_846_528_820.0);
    }

    #[test]
    fn equal_values_say_nothing() {
        let test = mann_whitney(&[2.0; 5], &[2.0; 4]).unwrap();
        assert_eq!((test.u, test.p, test.exact), (10.0, 1.0, false));
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn the_approximation_is_near_the_count() {
        for u in [120.0, 140.0, 160.0, 199.0] {
            let (exact, near) = (counted(u, 20, 20), approximated(u, 20, 20, 0.0).unwrap());
            assert!((exact - near).abs() < 0.005, "U {u}: {exact} and {near}");
        }
    }

    proptest! {
        #[test]
        fn p_is_that_of_enumerating_every_arrangement(
            values in prop::collection::hash_set(-1000..1000_i32, 2..9),
            share in 0.1..0.9_f64,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let cut = index(count(values.len()) * share).clamp(1, values.len() - 1);
            let (a, b) = values.split_at(cut);
            let test = mann_whitney(a, b).unwrap();
            prop_assert!(test.exact);
            prop_assert!((test.p - enumerated(a, b)).abs() < 1e-9);
        }
    }
}
